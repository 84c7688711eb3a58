#layout0 = {register = [], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
#layout1 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256, 512, 1024, 2048]}
#layout2 = {register = [], lane = [1, 2, 4, 8, 16], warp = [32, 64, 128, 256]}
#layout3 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2, 4, 8]}
#layout4 = {register = [1, 2, 4, 8], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%y: memref<?x?xf16, 1>, %x: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %scratch = "tile.shared_alloc"() {name = "scratch", offset = 0 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:71
    %scratch_0 = "tile.shared_alloc"() {name = "scratch", offset = 64 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:78
    %1 = "tile.constant"() {dtype = index, value = 1 : i64} : () -> index  // samples/softmax.tile:126
    %s = "tile.shared_alloc"() {name = "s", offset = 128 : i64, type = memref<5x1x4096xf16, 3>} : () -> memref<5x1x4096xf16, 3>  // samples/softmax.tile:129
    %2 = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:62
    %3 = "tile.constant"() {dtype = index, value = 5 : i64} : () -> index  // samples/softmax.tile:131
    %4 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:131
    %5 = "tile.broadcast"(%2) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // samples/softmax.tile:62
    %6 = "tile.arange"() {extent = 1 : i64} : () -> tensor<1xindex, #layout0>  // samples/softmax.tile:62
    %r = "tile.add"(%5, %6) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax.tile:62
    "tile.for"(%4, %3, %1) ({
    ^bb0(%k: index):
      %7 = "tile.constant"() {dtype = index, value = 8 : i64} : () -> index  // std/rows.tile:7
      %8 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // std/rows.tile:8
      %9 = "tile.mul"(%k, %8) : (index, index) -> index  // std/rows.tile:8
      %10 = "tile.constant"() {dtype = index, value = 7 : i64} : () -> index  // std/rows.tile:9
      %11 = "tile.broadcast"(%cols) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // std/rows.tile:6
      %start = "tile.mul"(%r, %11) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // std/rows.tile:6
      %12 = "tile.broadcast"(%10) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // std/rows.tile:9
      %13 = "tile.add"(%start, %12) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // std/rows.tile:9
      %14 = "tile.broadcast"(%7) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // std/rows.tile:7
      %15 = "tile.floordiv"(%13, %14) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // std/rows.tile:9
      %16 = "tile.mul"(%15, %14) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // std/rows.tile:9
      %17 = "tile.reshape"(%16) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // std/rows.tile:9
      %18 = "tile.broadcast"(%17) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // std/rows.tile:9
      %19 = "tile.broadcast"(%9) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // std/rows.tile:8
      %20 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // std/rows.tile:8
      %21 = "tile.reshape"(%20) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // std/rows.tile:8
      %at = "tile.add"(%19, %21) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // std/rows.tile:8
      %i = "tile.add"(%18, %at) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // std/rows.tile:9
      %22 = "tile.reshape"(%6) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:133
      %23 = "tile.broadcast"(%8) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:133
      %24 = "tile.mul"(%22, %23) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:133
      %25 = "tile.broadcast"(%24) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:133
      %26 = "tile.add"(%25, %21) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:133
      %27 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // std/rows.tile:9
      %own = "tile.lt"(%at, %27) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // std/rows.tile:9
      "tile.copy"(%s, %k, %26, %x, %i, %own) {bytes = 16 : i64, cache = unit, has = ["memory", "slot", "offset", "tensor", "source", "mask"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>) -> ()  // samples/softmax.tile:133
      "tile.yield"() : () -> ()  // samples/softmax.tile:133
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:131
    "tile.commit"() : () -> ()  // samples/softmax.tile:134
    "tile.wait"() {groups = 0 : i64} : () -> ()  // samples/softmax.tile:139
    %28 = "tile.constant"() {dtype = index, value = 8 : i64} : () -> index  // std/rows.tile:7
    %29 = "tile.constant"() {dtype = index, value = 16384 : i64} : () -> index  // std/rows.tile:8
    %30 = "tile.constant"() {dtype = index, value = 7 : i64} : () -> index  // std/rows.tile:9
    %31 = "tile.constant"() {dtype = index, value = 4 : i64} : () -> index  // samples/softmax.tile:141
    %32 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:141
    %33 = "tile.reshape"(%6) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:141
    %34 = "tile.broadcast"(%32) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:141
    %35 = "tile.mul"(%33, %34) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:141
    %36 = "tile.broadcast"(%35) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:141
    %37 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // std/rows.tile:8
    %38 = "tile.reshape"(%37) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // std/rows.tile:8
    %39 = "tile.add"(%36, %38) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:141
    %40 = "tile.load"(%s, %31, %39) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:141
    %41 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:141
    %42 = "tile.broadcast"(%29) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // std/rows.tile:8
    %at_43 = "tile.add"(%42, %38) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // std/rows.tile:8
    %44 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // std/rows.tile:9
    %own_45 = "tile.lt"(%at_43, %44) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // std/rows.tile:9
    %46 = "tile.broadcast"(%41) {shape = [1 : i64, 4096 : i64]} : (f16) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:141
    %47 = "tile.select"(%own_45, %40, %46) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:141
    "tile.store"(%s, %31, %39, %47) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:141
    %48 = "tile.constant"() {dtype = f32, value = 0xFFF0000000000000 : f64} : () -> f32  // samples/softmax.tile:142
    %m = "tile.broadcast"(%48) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:142
    %m_49 = "tile.for"(%4, %3, %1, %m) ({
    ^bb0(%k_50: index, %m_51: tensor<1x4096xf32, #layout1>):
      %52 = "tile.load"(%s, %k_50, %39) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:137
      %53 = "tile.cast"(%52) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:137
      %m_54 = "tile.maximum"(%m_51, %53) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:144
      "tile.yield"(%m_54) : (tensor<1x4096xf32, #layout1>) -> ()  // samples/softmax.tile:144
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:143
    %55 = "tile.reshape"(%m_49) {shape = [1 : i64, 512 : i64, 8 : i64]} : (tensor<1x4096xf32, #layout1>) -> tensor<1x512x8xf32, #layout1>  // samples/softmax.tile:68
    %top = "tile.reduce"(%55) ({
    ^bb0(%56: f32, %57: f32):
      %58 = "tile.maximum"(%56, %57) : (f32, f32) -> f32  // samples/softmax.tile:68
      "tile.yield"(%58) : (f32) -> ()  // samples/softmax.tile:68
    }) {axis = 2 : i64} : (tensor<1x512x8xf32, #layout1>) -> tensor<1x512xf32, #layout2>  // samples/softmax.tile:68
    %59 = "tile.partial_reduce"(%top) ({
    ^bb0(%60: f32, %61: f32):
      %62 = "tile.maximum"(%60, %61) : (f32, f32) -> f32  // samples/softmax.tile:71
      "tile.yield"(%62) : (f32) -> ()  // samples/softmax.tile:71
    }) {axis = 1 : i64, parts = 16 : i64} : (tensor<1x512xf32, #layout2>) -> tensor<1x16xf32, #layout3>  // samples/softmax.tile:71
    %63 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout3>  // samples/softmax.tile:71
    %64 = "tile.reshape"(%63) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout3>) -> tensor<1x16xindex, #layout3>  // samples/softmax.tile:71
    "tile.store"(%scratch, %64, %59) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>, tensor<1x16xf32, #layout3>) -> ()  // samples/softmax.tile:71
    %65 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout4>  // samples/softmax.tile:71
    %66 = "tile.reshape"(%65) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout4>) -> tensor<1x16xindex, #layout4>  // samples/softmax.tile:71
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:71
    %67 = "tile.load"(%scratch, %66) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout4>) -> tensor<1x16xf32, #layout4>  // samples/softmax.tile:71
    %68 = "tile.reduce"(%67) ({
    ^bb0(%69: f32, %70: f32):
      %71 = "tile.maximum"(%69, %70) : (f32, f32) -> f32  // samples/softmax.tile:71
      "tile.yield"(%71) : (f32) -> ()  // samples/softmax.tile:71
    }) {axis = 1 : i64} : (tensor<1x16xf32, #layout4>) -> tensor<1xf32, #layout0>  // samples/softmax.tile:71
    %top_72 = "tile.reshape"(%68) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:71
    %73 = "tile.constant"() {dtype = f32, value = 0x0000000000000000 : f64} : () -> f32  // samples/softmax.tile:72
    %z = "tile.broadcast"(%73) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:72
    %z_74 = "tile.for"(%4, %3, %1, %z) ({
    ^bb0(%k_75: index, %z_76: tensor<1x4096xf32, #layout1>):
      %77 = "tile.load"(%s, %k_75, %39) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:137
      %78 = "tile.cast"(%77) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:137
      %79 = "tile.broadcast"(%top_72) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:74
      %80 = "tile.sub"(%78, %79) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:74
      %81 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:11
      %82 = "tile.broadcast"(%81) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:11
      %83 = "tile.mul"(%80, %82) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:11
      %84 = "tile.ex2.approx.ftz"(%83) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:11
      %z_85 = "tile.add"(%z_76, %84) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:74
      "tile.yield"(%z_85) : (tensor<1x4096xf32, #layout1>) -> ()  // samples/softmax.tile:74
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:73
    %86 = "tile.reshape"(%z_74) {shape = [1 : i64, 512 : i64, 8 : i64]} : (tensor<1x4096xf32, #layout1>) -> tensor<1x512x8xf32, #layout1>  // samples/softmax.tile:75
    %total = "tile.reduce"(%86) ({
    ^bb0(%87: f32, %88: f32):
      %89 = "tile.add"(%87, %88) : (f32, f32) -> f32  // samples/softmax.tile:75
      "tile.yield"(%89) : (f32) -> ()  // samples/softmax.tile:75
    }) {axis = 2 : i64} : (tensor<1x512x8xf32, #layout1>) -> tensor<1x512xf32, #layout2>  // samples/softmax.tile:75
    %90 = "tile.partial_reduce"(%total) ({
    ^bb0(%91: f32, %92: f32):
      %93 = "tile.add"(%91, %92) : (f32, f32) -> f32  // samples/softmax.tile:78
      "tile.yield"(%93) : (f32) -> ()  // samples/softmax.tile:78
    }) {axis = 1 : i64, parts = 16 : i64} : (tensor<1x512xf32, #layout2>) -> tensor<1x16xf32, #layout3>  // samples/softmax.tile:78
    "tile.store"(%scratch_0, %64, %90) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>, tensor<1x16xf32, #layout3>) -> ()  // samples/softmax.tile:78
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:78
    %94 = "tile.load"(%scratch_0, %66) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout4>) -> tensor<1x16xf32, #layout4>  // samples/softmax.tile:78
    %95 = "tile.reduce"(%94) ({
    ^bb0(%96: f32, %97: f32):
      %98 = "tile.add"(%96, %97) : (f32, f32) -> f32  // samples/softmax.tile:78
      "tile.yield"(%98) : (f32) -> ()  // samples/softmax.tile:78
    }) {axis = 1 : i64} : (tensor<1x16xf32, #layout4>) -> tensor<1xf32, #layout0>  // samples/softmax.tile:78
    %99 = "tile.reshape"(%95) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:78
    %100 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:17
    %101 = "tile.broadcast"(%100) {shape = [1 : i64, 1 : i64]} : (f32) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:17
    %total_102 = "tile.div"(%101, %99) : (tensor<1x1xf32, #layout0>, tensor<1x1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:17
    %103 = "tile.broadcast"(%cols) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // std/rows.tile:6
    %start_104 = "tile.mul"(%r, %103) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // std/rows.tile:6
    %105 = "tile.broadcast"(%30) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // std/rows.tile:9
    %106 = "tile.add"(%start_104, %105) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // std/rows.tile:9
    %107 = "tile.broadcast"(%28) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // std/rows.tile:7
    %108 = "tile.floordiv"(%106, %107) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // std/rows.tile:9
    %109 = "tile.mul"(%108, %107) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // std/rows.tile:9
    %110 = "tile.reshape"(%109) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // std/rows.tile:9
    %111 = "tile.broadcast"(%110) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // std/rows.tile:9
    "tile.for"(%4, %3, %1) ({
    ^bb0(%k_112: index):
      %113 = "tile.mul"(%k_112, %32) : (index, index) -> index  // std/rows.tile:8
      %114 = "tile.broadcast"(%113) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // std/rows.tile:8
      %at_115 = "tile.add"(%114, %38) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // std/rows.tile:8
      %i_116 = "tile.add"(%111, %at_115) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // std/rows.tile:9
      %117 = "tile.load"(%s, %k_112, %39) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:137
      %118 = "tile.cast"(%117) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:137
      %119 = "tile.broadcast"(%top_72) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:81
      %120 = "tile.sub"(%118, %119) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:81
      %121 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:11
      %122 = "tile.broadcast"(%121) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:11
      %123 = "tile.mul"(%120, %122) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:11
      %124 = "tile.ex2.approx.ftz"(%123) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:11
      %125 = "tile.broadcast"(%total_102) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:23
      %126 = "tile.mul"(%124, %125) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:23
      %127 = "tile.cast"(%126) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:151
      %own_128 = "tile.lt"(%at_115, %44) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // std/rows.tile:9
      "tile.store"(%y, %i_116, %own_128, %127) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"], order = "none"} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:151
      "tile.yield"() : () -> ()  // samples/softmax.tile:151
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:79
  }) {index_bits = 32 : i64, name = "softmax_shared", shared_align = 16 : i64, shared_bytes = 41088 : i64, warps = 16 : i64} : () -> ()
}) : () -> ()
