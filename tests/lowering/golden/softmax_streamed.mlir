#layout0 = {register = [], lane = [1, 2, 4, 8, 16], warp = [32, 64, 128, 256]}
#layout1 = {register = [], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
#layout2 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256, 512, 1024, 2048]}
#layout3 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2, 4, 8]}
#layout4 = {register = [1, 2, 4, 8], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%y: memref<?x?xf16, 1>, %x: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %scratch = "tile.shared_alloc"() {name = "scratch", offset = 0 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:104
    %scratch_0 = "tile.shared_alloc"() {name = "scratch", offset = 64 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:104
    %1 = "tile.constant"() {dtype = index, value = 1 : i64} : () -> index  // samples/softmax.tile:154
    %2 = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:93
    %3 = "tile.constant"() {dtype = index, value = 8 : i64} : () -> index  // samples/softmax.tile:94
    %4 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:94
    %5 = "tile.constant"() {dtype = index, value = 4095 : i64} : () -> index  // samples/softmax.tile:94
    %6 = "tile.add"(%cols, %5) : (index, index) -> index  // samples/softmax.tile:94
    %parts = "tile.floordiv"(%6, %4) : (index, index) -> index  // samples/softmax.tile:94
    %7 = "tile.constant"() {dtype = f32, value = 0xFFF0000000000000 : f64} : () -> f32  // samples/softmax.tile:95
    %8 = "tile.constant"() {dtype = f32, value = 0x0000000000000000 : f64} : () -> f32  // samples/softmax.tile:96
    %9 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:97
    %m = "tile.broadcast"(%7) {shape = [1 : i64, 512 : i64]} : (f32) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:95
    %z = "tile.broadcast"(%8) {shape = [1 : i64, 512 : i64]} : (f32) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:96
    %10 = "tile.broadcast"(%2) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout1>  // samples/softmax.tile:93
    %11 = "tile.arange"() {extent = 1 : i64} : () -> tensor<1xindex, #layout1>  // samples/softmax.tile:93
    %r = "tile.add"(%10, %11) : (tensor<1xindex, #layout1>, tensor<1xindex, #layout1>) -> tensor<1xindex, #layout1>  // samples/softmax.tile:93
    %m_12, %z_13 = "tile.for"(%9, %parts, %1, %m, %z) ({
    ^bb0(%k: index, %m_14: tensor<1x512xf32, #layout0>, %z_15: tensor<1x512xf32, #layout0>):
      %16 = "tile.mul"(%k, %4) : (index, index) -> index  // std/rows.tile:8
      %17 = "tile.constant"() {dtype = index, value = 7 : i64} : () -> index  // std/rows.tile:9
      %18 = "tile.broadcast"(%cols) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout1>  // std/rows.tile:6
      %start = "tile.mul"(%r, %18) : (tensor<1xindex, #layout1>, tensor<1xindex, #layout1>) -> tensor<1xindex, #layout1>  // std/rows.tile:6
      %19 = "tile.broadcast"(%17) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout1>  // std/rows.tile:9
      %20 = "tile.add"(%start, %19) : (tensor<1xindex, #layout1>, tensor<1xindex, #layout1>) -> tensor<1xindex, #layout1>  // std/rows.tile:9
      %21 = "tile.broadcast"(%3) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout1>  // std/rows.tile:7
      %22 = "tile.floordiv"(%20, %21) : (tensor<1xindex, #layout1>, tensor<1xindex, #layout1>) -> tensor<1xindex, #layout1>  // std/rows.tile:9
      %23 = "tile.mul"(%22, %21) : (tensor<1xindex, #layout1>, tensor<1xindex, #layout1>) -> tensor<1xindex, #layout1>  // std/rows.tile:9
      %24 = "tile.reshape"(%23) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout1>) -> tensor<1x1xindex, #layout1>  // std/rows.tile:9
      %25 = "tile.broadcast"(%24) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout1>) -> tensor<1x4096xindex, #layout2>  // std/rows.tile:9
      %26 = "tile.broadcast"(%16) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout2>  // std/rows.tile:8
      %27 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout2>  // std/rows.tile:8
      %28 = "tile.reshape"(%27) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout2>) -> tensor<1x4096xindex, #layout2>  // std/rows.tile:8
      %at = "tile.add"(%26, %28) : (tensor<1x4096xindex, #layout2>, tensor<1x4096xindex, #layout2>) -> tensor<1x4096xindex, #layout2>  // std/rows.tile:8
      %i = "tile.add"(%25, %at) : (tensor<1x4096xindex, #layout2>, tensor<1x4096xindex, #layout2>) -> tensor<1x4096xindex, #layout2>  // std/rows.tile:9
      %29 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:157
      %30 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout2>  // std/rows.tile:9
      %own = "tile.lt"(%at, %30) : (tensor<1x4096xindex, #layout2>, tensor<1x4096xindex, #layout2>) -> tensor<1x4096xi1, #layout2>  // std/rows.tile:9
      %31 = "tile.broadcast"(%29) {shape = [1 : i64, 4096 : i64]} : (f16) -> tensor<1x4096xf16, #layout2>  // samples/softmax.tile:157
      %32 = "tile.load"(%x, %i, %own, %31) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout2>, tensor<1x4096xi1, #layout2>, tensor<1x4096xf16, #layout2>) -> tensor<1x4096xf16, #layout2>  // samples/softmax.tile:157
      %33 = "tile.cast"(%32) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout2>) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:157
      %34 = "tile.reshape"(%33) {shape = [1 : i64, 512 : i64, 8 : i64]} : (tensor<1x4096xf32, #layout2>) -> tensor<1x512x8xf32, #layout2>  // samples/softmax.tile:99
      %top = "tile.reduce"(%34) ({
      ^bb0(%35: f32, %36: f32):
        %37 = "tile.maximum"(%35, %36) : (f32, f32) -> f32  // samples/softmax.tile:91
        "tile.yield"(%37) : (f32) -> ()  // samples/softmax.tile:91
      }) {axis = 2 : i64} : (tensor<1x512x8xf32, #layout2>) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:91
      %38 = "tile.eq"(%top, %m) : (tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> tensor<1x512xi1, #layout0>  // samples/softmax.tile:92
      %39 = "tile.select"(%38, %z, %top) : (tensor<1x512xi1, #layout0>, tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:92
      %40 = "tile.reshape"(%39) {shape = [1 : i64, 512 : i64, 1 : i64]} : (tensor<1x512xf32, #layout0>) -> tensor<1x512x1xf32, #layout0>  // samples/softmax.tile:92
      %41 = "tile.broadcast"(%40) {shape = [1 : i64, 512 : i64, 8 : i64]} : (tensor<1x512x1xf32, #layout0>) -> tensor<1x512x8xf32, #layout2>  // samples/softmax.tile:92
      %42 = "tile.sub"(%34, %41) : (tensor<1x512x8xf32, #layout2>, tensor<1x512x8xf32, #layout2>) -> tensor<1x512x8xf32, #layout2>  // samples/softmax.tile:92
      %43 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:11
      %44 = "tile.broadcast"(%43) {shape = [1 : i64, 512 : i64, 8 : i64]} : (f32) -> tensor<1x512x8xf32, #layout2>  // samples/softmax.tile:11
      %45 = "tile.mul"(%42, %44) : (tensor<1x512x8xf32, #layout2>, tensor<1x512x8xf32, #layout2>) -> tensor<1x512x8xf32, #layout2>  // samples/softmax.tile:11
      %46 = "tile.ex2.approx.ftz"(%45) : (tensor<1x512x8xf32, #layout2>) -> tensor<1x512x8xf32, #layout2>  // samples/softmax.tile:11
      %47 = "tile.reduce"(%46) ({
      ^bb0(%48: f32, %49: f32):
        %50 = "tile.add"(%48, %49) : (f32, f32) -> f32  // samples/softmax.tile:92
        "tile.yield"(%50) : (f32) -> ()  // samples/softmax.tile:92
      }) {axis = 2 : i64} : (tensor<1x512x8xf32, #layout2>) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:92
      %top_51 = "tile.maximum"(%m_14, %top) : (tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:88
      %52 = "tile.eq"(%m_14, %top_51) : (tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> tensor<1x512xi1, #layout0>  // samples/softmax.tile:89
      %53 = "tile.sub"(%m_14, %top_51) : (tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:89
      %54 = "tile.broadcast"(%43) {shape = [1 : i64, 512 : i64]} : (f32) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:11
      %55 = "tile.mul"(%53, %54) : (tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:11
      %56 = "tile.ex2.approx.ftz"(%55) : (tensor<1x512xf32, #layout0>) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:11
      %57 = "tile.mul"(%z_15, %56) : (tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:89
      %58 = "tile.select"(%52, %z_15, %57) : (tensor<1x512xi1, #layout0>, tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:89
      %59 = "tile.eq"(%top, %top_51) : (tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> tensor<1x512xi1, #layout0>  // samples/softmax.tile:89
      %60 = "tile.sub"(%top, %top_51) : (tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:89
      %61 = "tile.mul"(%60, %54) : (tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:11
      %62 = "tile.ex2.approx.ftz"(%61) : (tensor<1x512xf32, #layout0>) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:11
      %63 = "tile.mul"(%47, %62) : (tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:89
      %64 = "tile.select"(%59, %47, %63) : (tensor<1x512xi1, #layout0>, tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:89
      %z_65 = "tile.add"(%58, %64) : (tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> tensor<1x512xf32, #layout0>  // samples/softmax.tile:89
      "tile.yield"(%top_51, %z_65) : (tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> ()  // samples/softmax.tile:89
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> (tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>)  // samples/softmax.tile:97
    %66, %67 = "tile.partial_reduce"(%m_12, %z_13) ({
    ^bb0(%68: f32, %69: f32, %70: f32, %71: f32):
      %top_72 = "tile.maximum"(%68, %70) : (f32, f32) -> f32  // samples/softmax.tile:88
      %73 = "tile.eq"(%68, %top_72) : (f32, f32) -> i1  // samples/softmax.tile:89
      %74 = "tile.sub"(%68, %top_72) : (f32, f32) -> f32  // samples/softmax.tile:89
      %75 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:11
      %76 = "tile.mul"(%74, %75) : (f32, f32) -> f32  // samples/softmax.tile:11
      %77 = "tile.ex2.approx.ftz"(%76) : (f32) -> f32  // samples/softmax.tile:11
      %78 = "tile.mul"(%69, %77) : (f32, f32) -> f32  // samples/softmax.tile:89
      %79 = "tile.select"(%73, %69, %78) : (i1, f32, f32) -> f32  // samples/softmax.tile:89
      %80 = "tile.eq"(%70, %top_72) : (f32, f32) -> i1  // samples/softmax.tile:89
      %81 = "tile.sub"(%70, %top_72) : (f32, f32) -> f32  // samples/softmax.tile:89
      %82 = "tile.mul"(%81, %75) : (f32, f32) -> f32  // samples/softmax.tile:11
      %83 = "tile.ex2.approx.ftz"(%82) : (f32) -> f32  // samples/softmax.tile:11
      %84 = "tile.mul"(%71, %83) : (f32, f32) -> f32  // samples/softmax.tile:89
      %85 = "tile.select"(%80, %71, %84) : (i1, f32, f32) -> f32  // samples/softmax.tile:89
      %86 = "tile.add"(%79, %85) : (f32, f32) -> f32  // samples/softmax.tile:89
      "tile.yield"(%top_72, %86) : (f32, f32) -> ()  // samples/softmax.tile:89
    }) {axis = 1 : i64, parts = 16 : i64} : (tensor<1x512xf32, #layout0>, tensor<1x512xf32, #layout0>) -> (tensor<1x16xf32, #layout3>, tensor<1x16xf32, #layout3>)  // samples/softmax.tile:104
    %87 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout3>  // samples/softmax.tile:104
    %88 = "tile.reshape"(%87) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout3>) -> tensor<1x16xindex, #layout3>  // samples/softmax.tile:104
    "tile.store"(%scratch, %88, %66) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>, tensor<1x16xf32, #layout3>) -> ()  // samples/softmax.tile:104
    %89 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout4>  // samples/softmax.tile:104
    %90 = "tile.reshape"(%89) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout4>) -> tensor<1x16xindex, #layout4>  // samples/softmax.tile:104
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:104
    %91 = "tile.load"(%scratch, %90) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout4>) -> tensor<1x16xf32, #layout4>  // samples/softmax.tile:104
    "tile.store"(%scratch_0, %88, %67) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>, tensor<1x16xf32, #layout3>) -> ()  // samples/softmax.tile:104
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:104
    %92 = "tile.load"(%scratch_0, %90) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout4>) -> tensor<1x16xf32, #layout4>  // samples/softmax.tile:104
    %m_93, %z_94 = "tile.reduce"(%91, %92) ({
    ^bb0(%95: f32, %96: f32, %97: f32, %98: f32):
      %99 = "tile.maximum"(%95, %97) : (f32, f32) -> f32  // samples/softmax.tile:88
      %100 = "tile.eq"(%95, %99) : (f32, f32) -> i1  // samples/softmax.tile:89
      %101 = "tile.sub"(%95, %99) : (f32, f32) -> f32  // samples/softmax.tile:89
      %102 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:11
      %103 = "tile.mul"(%101, %102) : (f32, f32) -> f32  // samples/softmax.tile:11
      %104 = "tile.ex2.approx.ftz"(%103) : (f32) -> f32  // samples/softmax.tile:11
      %105 = "tile.mul"(%96, %104) : (f32, f32) -> f32  // samples/softmax.tile:89
      %106 = "tile.select"(%100, %96, %105) : (i1, f32, f32) -> f32  // samples/softmax.tile:89
      %107 = "tile.eq"(%97, %99) : (f32, f32) -> i1  // samples/softmax.tile:89
      %108 = "tile.sub"(%97, %99) : (f32, f32) -> f32  // samples/softmax.tile:89
      %109 = "tile.mul"(%108, %102) : (f32, f32) -> f32  // samples/softmax.tile:11
      %110 = "tile.ex2.approx.ftz"(%109) : (f32) -> f32  // samples/softmax.tile:11
      %111 = "tile.mul"(%98, %110) : (f32, f32) -> f32  // samples/softmax.tile:89
      %112 = "tile.select"(%107, %98, %111) : (i1, f32, f32) -> f32  // samples/softmax.tile:89
      %113 = "tile.add"(%106, %112) : (f32, f32) -> f32  // samples/softmax.tile:89
      "tile.yield"(%99, %113) : (f32, f32) -> ()  // samples/softmax.tile:89
    }) {axis = 1 : i64} : (tensor<1x16xf32, #layout4>, tensor<1x16xf32, #layout4>) -> (tensor<1xf32, #layout1>, tensor<1xf32, #layout1>)  // samples/softmax.tile:104
    %top_114 = "tile.reshape"(%m_93) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout1>) -> tensor<1x1xf32, #layout1>  // samples/softmax.tile:105
    %115 = "tile.reshape"(%z_94) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout1>) -> tensor<1x1xf32, #layout1>  // samples/softmax.tile:105
    %116 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:17
    %117 = "tile.broadcast"(%116) {shape = [1 : i64, 1 : i64]} : (f32) -> tensor<1x1xf32, #layout1>  // samples/softmax.tile:17
    %total = "tile.div"(%117, %115) : (tensor<1x1xf32, #layout1>, tensor<1x1xf32, #layout1>) -> tensor<1x1xf32, #layout1>  // samples/softmax.tile:17
    "tile.for"(%9, %parts, %1) ({
    ^bb0(%k_118: index):
      %119 = "tile.mul"(%k_118, %4) : (index, index) -> index  // std/rows.tile:8
      %120 = "tile.constant"() {dtype = index, value = 7 : i64} : () -> index  // std/rows.tile:9
      %121 = "tile.broadcast"(%cols) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout1>  // std/rows.tile:6
      %start_122 = "tile.mul"(%r, %121) : (tensor<1xindex, #layout1>, tensor<1xindex, #layout1>) -> tensor<1xindex, #layout1>  // std/rows.tile:6
      %123 = "tile.broadcast"(%120) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout1>  // std/rows.tile:9
      %124 = "tile.add"(%start_122, %123) : (tensor<1xindex, #layout1>, tensor<1xindex, #layout1>) -> tensor<1xindex, #layout1>  // std/rows.tile:9
      %125 = "tile.broadcast"(%3) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout1>  // std/rows.tile:7
      %126 = "tile.floordiv"(%124, %125) : (tensor<1xindex, #layout1>, tensor<1xindex, #layout1>) -> tensor<1xindex, #layout1>  // std/rows.tile:9
      %127 = "tile.mul"(%126, %125) : (tensor<1xindex, #layout1>, tensor<1xindex, #layout1>) -> tensor<1xindex, #layout1>  // std/rows.tile:9
      %128 = "tile.reshape"(%127) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout1>) -> tensor<1x1xindex, #layout1>  // std/rows.tile:9
      %129 = "tile.broadcast"(%128) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout1>) -> tensor<1x4096xindex, #layout2>  // std/rows.tile:9
      %130 = "tile.broadcast"(%119) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout2>  // std/rows.tile:8
      %131 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout2>  // std/rows.tile:8
      %132 = "tile.reshape"(%131) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout2>) -> tensor<1x4096xindex, #layout2>  // std/rows.tile:8
      %at_133 = "tile.add"(%130, %132) : (tensor<1x4096xindex, #layout2>, tensor<1x4096xindex, #layout2>) -> tensor<1x4096xindex, #layout2>  // std/rows.tile:8
      %i_134 = "tile.add"(%129, %at_133) : (tensor<1x4096xindex, #layout2>, tensor<1x4096xindex, #layout2>) -> tensor<1x4096xindex, #layout2>  // std/rows.tile:9
      %135 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:157
      %136 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout2>  // std/rows.tile:9
      %own_137 = "tile.lt"(%at_133, %136) : (tensor<1x4096xindex, #layout2>, tensor<1x4096xindex, #layout2>) -> tensor<1x4096xi1, #layout2>  // std/rows.tile:9
      %138 = "tile.broadcast"(%135) {shape = [1 : i64, 4096 : i64]} : (f16) -> tensor<1x4096xf16, #layout2>  // samples/softmax.tile:157
      %139 = "tile.load"(%x, %i_134, %own_137, %138) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout2>, tensor<1x4096xi1, #layout2>, tensor<1x4096xf16, #layout2>) -> tensor<1x4096xf16, #layout2>  // samples/softmax.tile:157
      %140 = "tile.cast"(%139) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout2>) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:157
      %141 = "tile.broadcast"(%top_114) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout1>) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:108
      %142 = "tile.sub"(%140, %141) : (tensor<1x4096xf32, #layout2>, tensor<1x4096xf32, #layout2>) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:108
      %143 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:11
      %144 = "tile.broadcast"(%143) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:11
      %145 = "tile.mul"(%142, %144) : (tensor<1x4096xf32, #layout2>, tensor<1x4096xf32, #layout2>) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:11
      %146 = "tile.ex2.approx.ftz"(%145) : (tensor<1x4096xf32, #layout2>) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:11
      %147 = "tile.broadcast"(%total) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout1>) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:23
      %148 = "tile.mul"(%146, %147) : (tensor<1x4096xf32, #layout2>, tensor<1x4096xf32, #layout2>) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:23
      %149 = "tile.cast"(%148) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout2>) -> tensor<1x4096xf16, #layout2>  // samples/softmax.tile:161
      "tile.store"(%y, %i_134, %own_137, %149) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"], order = "none"} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout2>, tensor<1x4096xi1, #layout2>, tensor<1x4096xf16, #layout2>) -> ()  // samples/softmax.tile:161
      "tile.yield"() : () -> ()  // samples/softmax.tile:161
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:106
  }) {index_bits = 32 : i64, name = "softmax_streamed", shared_align = 16 : i64, shared_bytes = 128 : i64, warps = 16 : i64} : () -> ()
}) : () -> ()
