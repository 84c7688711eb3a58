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
    %1 = "tile.constant"() {dtype = index, value = 1 : i64} : () -> index  // samples/softmax.tile:133
    %2 = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:94
    %3 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:95
    %4 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:95
    %5 = "tile.constant"() {dtype = index, value = 4095 : i64} : () -> index  // samples/softmax.tile:95
    %6 = "tile.add"(%cols, %5) : (index, index) -> index  // samples/softmax.tile:95
    %parts = "tile.floordiv"(%6, %4) : (index, index) -> index  // samples/softmax.tile:95
    %7 = "tile.constant"() {dtype = f32, value = 0xFFF0000000000000 : f64} : () -> f32  // samples/softmax.tile:96
    %8 = "tile.constant"() {dtype = f32, value = 0x0000000000000000 : f64} : () -> f32  // samples/softmax.tile:97
    %m = "tile.broadcast"(%7) {shape = [512 : i64]} : (f32) -> tensor<512xf32, #layout0>  // samples/softmax.tile:96
    %z = "tile.broadcast"(%8) {shape = [512 : i64]} : (f32) -> tensor<512xf32, #layout0>  // samples/softmax.tile:97
    %9 = "tile.broadcast"(%2) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout1>  // samples/softmax.tile:94
    %10 = "tile.arange"() {extent = 1 : i64} : () -> tensor<1xindex, #layout1>  // samples/softmax.tile:94
    %r = "tile.add"(%9, %10) : (tensor<1xindex, #layout1>, tensor<1xindex, #layout1>) -> tensor<1xindex, #layout1>  // samples/softmax.tile:94
    %m_11, %z_12 = "tile.for"(%3, %parts, %1, %m, %z) ({
    ^bb0(%k: index, %m_13: tensor<512xf32, #layout0>, %z_14: tensor<512xf32, #layout0>):
      %15 = "tile.mul"(%k, %4) : (index, index) -> index  // samples/softmax.tile:11
      %16 = "tile.broadcast"(%cols) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout1>  // samples/softmax.tile:10
      %start = "tile.mul"(%r, %16) : (tensor<1xindex, #layout1>, tensor<1xindex, #layout1>) -> tensor<1xindex, #layout1>  // samples/softmax.tile:10
      %17 = "tile.reshape"(%start) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout1>) -> tensor<1x1xindex, #layout1>  // samples/softmax.tile:13
      %18 = "tile.broadcast"(%17) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout1>) -> tensor<1x4096xindex, #layout2>  // samples/softmax.tile:13
      %19 = "tile.broadcast"(%15) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout2>  // samples/softmax.tile:11
      %20 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout2>  // samples/softmax.tile:11
      %21 = "tile.reshape"(%20) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout2>) -> tensor<1x4096xindex, #layout2>  // samples/softmax.tile:11
      %at = "tile.add"(%19, %21) : (tensor<1x4096xindex, #layout2>, tensor<1x4096xindex, #layout2>) -> tensor<1x4096xindex, #layout2>  // samples/softmax.tile:11
      %i = "tile.add"(%18, %at) : (tensor<1x4096xindex, #layout2>, tensor<1x4096xindex, #layout2>) -> tensor<1x4096xindex, #layout2>  // samples/softmax.tile:13
      %22 = "tile.mul"(%rows, %cols) : (index, index) -> index  // samples/softmax.tile:136
      %23 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:19
      %24 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout2>  // samples/softmax.tile:13
      %own = "tile.lt"(%at, %24) : (tensor<1x4096xindex, #layout2>, tensor<1x4096xindex, #layout2>) -> tensor<1x4096xi1, #layout2>  // samples/softmax.tile:13
      %25 = "tile.broadcast"(%22) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout2>  // samples/softmax.tile:19
      %26 = "tile.lt"(%i, %25) : (tensor<1x4096xindex, #layout2>, tensor<1x4096xindex, #layout2>) -> tensor<1x4096xi1, #layout2>  // samples/softmax.tile:19
      %27 = "tile.and"(%own, %26) : (tensor<1x4096xi1, #layout2>, tensor<1x4096xi1, #layout2>) -> tensor<1x4096xi1, #layout2>  // samples/softmax.tile:19
      %28 = "tile.broadcast"(%23) {shape = [1 : i64, 4096 : i64]} : (f16) -> tensor<1x4096xf16, #layout2>  // samples/softmax.tile:19
      %29 = "tile.load"(%x, %i, %27, %28) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout2>, tensor<1x4096xi1, #layout2>, tensor<1x4096xf16, #layout2>) -> tensor<1x4096xf16, #layout2>  // samples/softmax.tile:19
      %30 = "tile.cast"(%29) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout2>) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:19
      %v = "tile.reshape"(%30) {shape = [512 : i64, 8 : i64]} : (tensor<1x4096xf32, #layout2>) -> tensor<512x8xf32, #layout2>  // samples/softmax.tile:100
      %top = "tile.reduce"(%v) ({
      ^bb0(%31: f32, %32: f32):
        %33 = "tile.maximum"(%31, %32) : (f32, f32) -> f32  // samples/softmax.tile:101
        "tile.yield"(%33) : (f32) -> ()  // samples/softmax.tile:101
      }) {axis = 1 : i64} : (tensor<512x8xf32, #layout2>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:101
      %34 = "tile.eq"(%top, %m) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xi1, #layout0>  // samples/softmax.tile:102
      %35 = "tile.select"(%34, %z, %top) : (tensor<512xi1, #layout0>, tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:102
      %36 = "tile.reshape"(%35) {shape = [512 : i64, 1 : i64]} : (tensor<512xf32, #layout0>) -> tensor<512x1xf32, #layout0>  // samples/softmax.tile:102
      %37 = "tile.broadcast"(%36) {shape = [512 : i64, 8 : i64]} : (tensor<512x1xf32, #layout0>) -> tensor<512x8xf32, #layout2>  // samples/softmax.tile:102
      %38 = "tile.sub"(%v, %37) : (tensor<512x8xf32, #layout2>, tensor<512x8xf32, #layout2>) -> tensor<512x8xf32, #layout2>  // samples/softmax.tile:102
      %39 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:26
      %40 = "tile.broadcast"(%39) {shape = [512 : i64, 8 : i64]} : (f32) -> tensor<512x8xf32, #layout2>  // samples/softmax.tile:26
      %41 = "tile.mul"(%38, %40) : (tensor<512x8xf32, #layout2>, tensor<512x8xf32, #layout2>) -> tensor<512x8xf32, #layout2>  // samples/softmax.tile:26
      %e = "tile.ex2.approx.ftz"(%41) : (tensor<512x8xf32, #layout2>) -> tensor<512x8xf32, #layout2>  // samples/softmax.tile:26
      %42 = "tile.reduce"(%e) ({
      ^bb0(%43: f32, %44: f32):
        %45 = "tile.add"(%43, %44) : (f32, f32) -> f32  // samples/softmax.tile:103
        "tile.yield"(%45) : (f32) -> ()  // samples/softmax.tile:103
      }) {axis = 1 : i64} : (tensor<512x8xf32, #layout2>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:103
      %top_46 = "tile.maximum"(%m_13, %top) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:89
      %47 = "tile.eq"(%m_13, %top_46) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xi1, #layout0>  // samples/softmax.tile:90
      %48 = "tile.sub"(%m_13, %top_46) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:90
      %49 = "tile.broadcast"(%39) {shape = [512 : i64]} : (f32) -> tensor<512xf32, #layout0>  // samples/softmax.tile:26
      %50 = "tile.mul"(%48, %49) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:26
      %51 = "tile.ex2.approx.ftz"(%50) : (tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:26
      %52 = "tile.mul"(%z_14, %51) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:90
      %53 = "tile.select"(%47, %z_14, %52) : (tensor<512xi1, #layout0>, tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:90
      %54 = "tile.eq"(%top, %top_46) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xi1, #layout0>  // samples/softmax.tile:90
      %55 = "tile.sub"(%top, %top_46) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:90
      %56 = "tile.mul"(%55, %49) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:26
      %57 = "tile.ex2.approx.ftz"(%56) : (tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:26
      %58 = "tile.mul"(%42, %57) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:90
      %59 = "tile.select"(%54, %42, %58) : (tensor<512xi1, #layout0>, tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:90
      %z_60 = "tile.add"(%53, %59) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:90
      "tile.yield"(%top_46, %z_60) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> ()  // samples/softmax.tile:90
    }) {unroll = 1 : i64} : (index, index, index, tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>)  // samples/softmax.tile:98
    %61, %62 = "tile.partial_reduce"(%m_11, %z_12) ({
    ^bb0(%63: f32, %64: f32, %65: f32, %66: f32):
      %top_67 = "tile.maximum"(%63, %65) : (f32, f32) -> f32  // samples/softmax.tile:89
      %68 = "tile.eq"(%63, %top_67) : (f32, f32) -> i1  // samples/softmax.tile:90
      %69 = "tile.sub"(%63, %top_67) : (f32, f32) -> f32  // samples/softmax.tile:90
      %70 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:26
      %71 = "tile.mul"(%69, %70) : (f32, f32) -> f32  // samples/softmax.tile:26
      %72 = "tile.ex2.approx.ftz"(%71) : (f32) -> f32  // samples/softmax.tile:26
      %73 = "tile.mul"(%64, %72) : (f32, f32) -> f32  // samples/softmax.tile:90
      %74 = "tile.select"(%68, %64, %73) : (i1, f32, f32) -> f32  // samples/softmax.tile:90
      %75 = "tile.eq"(%65, %top_67) : (f32, f32) -> i1  // samples/softmax.tile:90
      %76 = "tile.sub"(%65, %top_67) : (f32, f32) -> f32  // samples/softmax.tile:90
      %77 = "tile.mul"(%76, %70) : (f32, f32) -> f32  // samples/softmax.tile:26
      %78 = "tile.ex2.approx.ftz"(%77) : (f32) -> f32  // samples/softmax.tile:26
      %79 = "tile.mul"(%66, %78) : (f32, f32) -> f32  // samples/softmax.tile:90
      %80 = "tile.select"(%75, %66, %79) : (i1, f32, f32) -> f32  // samples/softmax.tile:90
      %81 = "tile.add"(%74, %80) : (f32, f32) -> f32  // samples/softmax.tile:90
      "tile.yield"(%top_67, %81) : (f32, f32) -> ()  // samples/softmax.tile:90
    }) {axis = 0 : i64, parts = 16 : i64} : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> (tensor<16xf32, #layout3>, tensor<16xf32, #layout3>)  // samples/softmax.tile:104
    %82 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout3>  // samples/softmax.tile:104
    "tile.store"(%scratch, %82, %61) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<16xindex, #layout3>, tensor<16xf32, #layout3>) -> ()  // samples/softmax.tile:104
    %83 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout4>  // samples/softmax.tile:104
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:104
    %84 = "tile.load"(%scratch, %83) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<16xindex, #layout4>) -> tensor<16xf32, #layout4>  // samples/softmax.tile:104
    "tile.store"(%scratch_0, %82, %62) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<16xindex, #layout3>, tensor<16xf32, #layout3>) -> ()  // samples/softmax.tile:104
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:104
    %85 = "tile.load"(%scratch_0, %83) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<16xindex, #layout4>) -> tensor<16xf32, #layout4>  // samples/softmax.tile:104
    %top_86, %total = "tile.reduce"(%84, %85) ({
    ^bb0(%87: f32, %88: f32, %89: f32, %90: f32):
      %91 = "tile.maximum"(%87, %89) : (f32, f32) -> f32  // samples/softmax.tile:89
      %92 = "tile.eq"(%87, %91) : (f32, f32) -> i1  // samples/softmax.tile:90
      %93 = "tile.sub"(%87, %91) : (f32, f32) -> f32  // samples/softmax.tile:90
      %94 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:26
      %95 = "tile.mul"(%93, %94) : (f32, f32) -> f32  // samples/softmax.tile:26
      %96 = "tile.ex2.approx.ftz"(%95) : (f32) -> f32  // samples/softmax.tile:26
      %97 = "tile.mul"(%88, %96) : (f32, f32) -> f32  // samples/softmax.tile:90
      %98 = "tile.select"(%92, %88, %97) : (i1, f32, f32) -> f32  // samples/softmax.tile:90
      %99 = "tile.eq"(%89, %91) : (f32, f32) -> i1  // samples/softmax.tile:90
      %100 = "tile.sub"(%89, %91) : (f32, f32) -> f32  // samples/softmax.tile:90
      %101 = "tile.mul"(%100, %94) : (f32, f32) -> f32  // samples/softmax.tile:26
      %102 = "tile.ex2.approx.ftz"(%101) : (f32) -> f32  // samples/softmax.tile:26
      %103 = "tile.mul"(%90, %102) : (f32, f32) -> f32  // samples/softmax.tile:90
      %104 = "tile.select"(%99, %90, %103) : (i1, f32, f32) -> f32  // samples/softmax.tile:90
      %105 = "tile.add"(%98, %104) : (f32, f32) -> f32  // samples/softmax.tile:90
      "tile.yield"(%91, %105) : (f32, f32) -> ()  // samples/softmax.tile:90
    }) {axis = 0 : i64} : (tensor<16xf32, #layout4>, tensor<16xf32, #layout4>) -> (f32, f32)  // samples/softmax.tile:104
    "tile.for"(%3, %parts, %1) ({
    ^bb0(%k_106: index):
      %107 = "tile.mul"(%k_106, %4) : (index, index) -> index  // samples/softmax.tile:11
      %108 = "tile.broadcast"(%cols) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout1>  // samples/softmax.tile:10
      %start_109 = "tile.mul"(%r, %108) : (tensor<1xindex, #layout1>, tensor<1xindex, #layout1>) -> tensor<1xindex, #layout1>  // samples/softmax.tile:10
      %110 = "tile.reshape"(%start_109) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout1>) -> tensor<1x1xindex, #layout1>  // samples/softmax.tile:13
      %111 = "tile.broadcast"(%110) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout1>) -> tensor<1x4096xindex, #layout2>  // samples/softmax.tile:13
      %112 = "tile.broadcast"(%107) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout2>  // samples/softmax.tile:11
      %113 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout2>  // samples/softmax.tile:11
      %114 = "tile.reshape"(%113) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout2>) -> tensor<1x4096xindex, #layout2>  // samples/softmax.tile:11
      %at_115 = "tile.add"(%112, %114) : (tensor<1x4096xindex, #layout2>, tensor<1x4096xindex, #layout2>) -> tensor<1x4096xindex, #layout2>  // samples/softmax.tile:11
      %i_116 = "tile.add"(%111, %at_115) : (tensor<1x4096xindex, #layout2>, tensor<1x4096xindex, #layout2>) -> tensor<1x4096xindex, #layout2>  // samples/softmax.tile:13
      %117 = "tile.mul"(%rows, %cols) : (index, index) -> index  // samples/softmax.tile:136
      %118 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:19
      %119 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout2>  // samples/softmax.tile:13
      %own_120 = "tile.lt"(%at_115, %119) : (tensor<1x4096xindex, #layout2>, tensor<1x4096xindex, #layout2>) -> tensor<1x4096xi1, #layout2>  // samples/softmax.tile:13
      %121 = "tile.broadcast"(%117) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout2>  // samples/softmax.tile:19
      %122 = "tile.lt"(%i_116, %121) : (tensor<1x4096xindex, #layout2>, tensor<1x4096xindex, #layout2>) -> tensor<1x4096xi1, #layout2>  // samples/softmax.tile:19
      %123 = "tile.and"(%own_120, %122) : (tensor<1x4096xi1, #layout2>, tensor<1x4096xi1, #layout2>) -> tensor<1x4096xi1, #layout2>  // samples/softmax.tile:19
      %124 = "tile.broadcast"(%118) {shape = [1 : i64, 4096 : i64]} : (f16) -> tensor<1x4096xf16, #layout2>  // samples/softmax.tile:19
      %125 = "tile.load"(%x, %i_116, %123, %124) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout2>, tensor<1x4096xi1, #layout2>, tensor<1x4096xf16, #layout2>) -> tensor<1x4096xf16, #layout2>  // samples/softmax.tile:19
      %126 = "tile.cast"(%125) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout2>) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:19
      %127 = "tile.broadcast"(%top_86) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:107
      %128 = "tile.sub"(%126, %127) : (tensor<1x4096xf32, #layout2>, tensor<1x4096xf32, #layout2>) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:107
      %129 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:26
      %130 = "tile.broadcast"(%129) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:26
      %131 = "tile.mul"(%128, %130) : (tensor<1x4096xf32, #layout2>, tensor<1x4096xf32, #layout2>) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:26
      %132 = "tile.ex2.approx.ftz"(%131) : (tensor<1x4096xf32, #layout2>) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:26
      %133 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:32
      %134 = "tile.div"(%133, %total) : (f32, f32) -> f32  // samples/softmax.tile:32
      %135 = "tile.broadcast"(%134) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:32
      %136 = "tile.mul"(%132, %135) : (tensor<1x4096xf32, #layout2>, tensor<1x4096xf32, #layout2>) -> tensor<1x4096xf32, #layout2>  // samples/softmax.tile:32
      %137 = "tile.cast"(%136) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout2>) -> tensor<1x4096xf16, #layout2>  // samples/softmax.tile:138
      "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:138
      "tile.store"(%y, %i_116, %own_120, %137) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout2>, tensor<1x4096xi1, #layout2>, tensor<1x4096xf16, #layout2>) -> ()  // samples/softmax.tile:138
      "tile.yield"() : () -> ()  // samples/softmax.tile:138
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:105
  }) {index_bits = 32 : i64, name = "softmax_streamed", shared_bytes = 128 : i64, warps = 16 : i64} : () -> ()
}) : () -> ()
