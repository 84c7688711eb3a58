#layout0 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256, 512, 1024]}
#layout1 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2, 4]}
#layout2 = {register = [1, 2, 4], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%y: memref<?x?xf16, 1>, %x: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %scratch = "tile.shared_alloc"() {name = "scratch", offset = 0 : i64, type = memref<8xf32, 3>} : () -> memref<8xf32, 3>  // samples/softmax.tile:53
    %scratch_0 = "tile.shared_alloc"() {name = "scratch", offset = 32 : i64, type = memref<8xf32, 3>} : () -> memref<8xf32, 3>  // samples/softmax.tile:58
    %1 = "tile.constant"() {dtype = index, value = 1 : i64} : () -> index  // samples/softmax.tile:93
    %s = "tile.shared_alloc"() {name = "s", offset = 64 : i64, type = memref<10x2048xf16, 3>} : () -> memref<10x2048xf16, 3>  // samples/softmax.tile:96
    %r = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:43
    %2 = "tile.constant"() {dtype = index, value = 10 : i64} : () -> index  // samples/softmax.tile:43
    %3 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:43
    "tile.for"(%3, %2, %1) ({
    ^bb0(%k: index):
      %4 = "tile.constant"() {dtype = index, value = 2048 : i64} : () -> index  // samples/softmax.tile:45
      %5 = "tile.mul"(%k, %4) : (index, index) -> index  // samples/softmax.tile:45
      %start = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:16
      %6 = "tile.add"(%start, %5) : (index, index) -> index  // samples/softmax.tile:18
      %7 = "tile.broadcast"(%6) {shape = [2048 : i64]} : (index) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:18
      %8 = "tile.arange"() {extent = 2048 : i64} : () -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %i = "tile.add"(%7, %8) : (tensor<2048xindex, #layout0>, tensor<2048xindex, #layout0>) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:18
      %9 = "tile.add"(%r, %1) : (index, index) -> index  // samples/softmax.tile:46
      %10 = "tile.mul"(%9, %cols) : (index, index) -> index  // samples/softmax.tile:46
      %11 = "tile.broadcast"(%10) {shape = [2048 : i64]} : (index) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:46
      %12 = "tile.lt"(%i, %11) : (tensor<2048xindex, #layout0>, tensor<2048xindex, #layout0>) -> tensor<2048xi1, #layout0>  // samples/softmax.tile:46
      "tile.copy"(%s, %k, %8, %x, %i, %12) {bytes = 16 : i64, cache = unit, has = ["memory", "slot", "offset", "tensor", "source", "mask"]} : (memref<10x2048xf16, 3>, index, tensor<2048xindex, #layout0>, memref<?x?xf16, 1>, tensor<2048xindex, #layout0>, tensor<2048xi1, #layout0>) -> ()  // samples/softmax.tile:98
      "tile.yield"() : () -> ()  // samples/softmax.tile:98
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:44
    "tile.commit"() : () -> ()  // samples/softmax.tile:47
    "tile.wait"() {groups = 0 : i64} : () -> ()  // samples/softmax.tile:48
    %13 = "tile.constant"() {dtype = f32, value = 0xFFF0000000000000 : f64} : () -> f32  // samples/softmax.tile:49
    %m = "tile.broadcast"(%13) {shape = [2048 : i64]} : (f32) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:49
    %m_14 = "tile.for"(%3, %2, %1, %m) ({
    ^bb0(%k_15: index, %m_16: tensor<2048xf32, #layout0>):
      %17 = "tile.constant"() {dtype = index, value = 2048 : i64} : () -> index  // samples/softmax.tile:51
      %18 = "tile.mul"(%k_15, %17) : (index, index) -> index  // samples/softmax.tile:51
      %19 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:100
      %20 = "tile.arange"() {extent = 2048 : i64} : () -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %21 = "tile.broadcast"(%18) {shape = [2048 : i64]} : (index) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %column = "tile.add"(%21, %20) : (tensor<2048xindex, #layout0>, tensor<2048xindex, #layout0>) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %22 = "tile.broadcast"(%cols) {shape = [2048 : i64]} : (index) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:18
      %own = "tile.lt"(%column, %22) : (tensor<2048xindex, #layout0>, tensor<2048xindex, #layout0>) -> tensor<2048xi1, #layout0>  // samples/softmax.tile:18
      %23 = "tile.broadcast"(%19) {shape = [2048 : i64]} : (f16) -> tensor<2048xf16, #layout0>  // samples/softmax.tile:100
      %24 = "tile.load"(%s, %k_15, %20, %own, %23) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "mask", "other"]} : (memref<10x2048xf16, 3>, index, tensor<2048xindex, #layout0>, tensor<2048xi1, #layout0>, tensor<2048xf16, #layout0>) -> tensor<2048xf16, #layout0>  // samples/softmax.tile:100
      %25 = "tile.cast"(%24) {rounding = unit, saturate = false, to = f32} : (tensor<2048xf16, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:100
      %m_26 = "tile.maximum"(%m_16, %25) : (tensor<2048xf32, #layout0>, tensor<2048xf32, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:52
      "tile.yield"(%m_26) : (tensor<2048xf32, #layout0>) -> ()  // samples/softmax.tile:52
    }) {unroll = 1 : i64} : (index, index, index, tensor<2048xf32, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:50
    %27 = "tile.partial_reduce"(%m_14) ({
    ^bb0(%28: f32, %29: f32):
      %30 = "tile.maximum"(%28, %29) : (f32, f32) -> f32  // samples/softmax.tile:53
      "tile.yield"(%30) : (f32) -> ()  // samples/softmax.tile:53
    }) {axis = 0 : i64, parts = 8 : i64} : (tensor<2048xf32, #layout0>) -> tensor<8xf32, #layout1>  // samples/softmax.tile:53
    %31 = "tile.arange"() {extent = 8 : i64} : () -> tensor<8xindex, #layout1>  // samples/softmax.tile:53
    "tile.store"(%scratch, %31, %27) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<8xf32, 3>, tensor<8xindex, #layout1>, tensor<8xf32, #layout1>) -> ()  // samples/softmax.tile:53
    %32 = "tile.arange"() {extent = 8 : i64} : () -> tensor<8xindex, #layout2>  // samples/softmax.tile:53
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:53
    %33 = "tile.load"(%scratch, %32) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<8xf32, 3>, tensor<8xindex, #layout2>) -> tensor<8xf32, #layout2>  // samples/softmax.tile:53
    %top = "tile.reduce"(%33) ({
    ^bb0(%34: f32, %35: f32):
      %36 = "tile.maximum"(%34, %35) : (f32, f32) -> f32  // samples/softmax.tile:53
      "tile.yield"(%36) : (f32) -> ()  // samples/softmax.tile:53
    }) {axis = 0 : i64} : (tensor<8xf32, #layout2>) -> f32  // samples/softmax.tile:53
    %37 = "tile.constant"() {dtype = f32, value = 0x0000000000000000 : f64} : () -> f32  // samples/softmax.tile:54
    %z = "tile.broadcast"(%37) {shape = [2048 : i64]} : (f32) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:54
    %z_38 = "tile.for"(%3, %2, %1, %z) ({
    ^bb0(%k_39: index, %z_40: tensor<2048xf32, #layout0>):
      %41 = "tile.constant"() {dtype = index, value = 2048 : i64} : () -> index  // samples/softmax.tile:56
      %42 = "tile.mul"(%k_39, %41) : (index, index) -> index  // samples/softmax.tile:56
      %43 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:100
      %44 = "tile.arange"() {extent = 2048 : i64} : () -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %45 = "tile.broadcast"(%42) {shape = [2048 : i64]} : (index) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %column_46 = "tile.add"(%45, %44) : (tensor<2048xindex, #layout0>, tensor<2048xindex, #layout0>) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %47 = "tile.broadcast"(%cols) {shape = [2048 : i64]} : (index) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:18
      %own_48 = "tile.lt"(%column_46, %47) : (tensor<2048xindex, #layout0>, tensor<2048xindex, #layout0>) -> tensor<2048xi1, #layout0>  // samples/softmax.tile:18
      %49 = "tile.broadcast"(%43) {shape = [2048 : i64]} : (f16) -> tensor<2048xf16, #layout0>  // samples/softmax.tile:100
      %50 = "tile.load"(%s, %k_39, %44, %own_48, %49) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "mask", "other"]} : (memref<10x2048xf16, 3>, index, tensor<2048xindex, #layout0>, tensor<2048xi1, #layout0>, tensor<2048xf16, #layout0>) -> tensor<2048xf16, #layout0>  // samples/softmax.tile:100
      %51 = "tile.cast"(%50) {rounding = unit, saturate = false, to = f32} : (tensor<2048xf16, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:100
      %52 = "tile.broadcast"(%top) {shape = [2048 : i64]} : (f32) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:57
      %53 = "tile.sub"(%51, %52) : (tensor<2048xf32, #layout0>, tensor<2048xf32, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:57
      %54 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:57
      %55 = "tile.broadcast"(%54) {shape = [2048 : i64]} : (f32) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:57
      %56 = "tile.mul"(%53, %55) : (tensor<2048xf32, #layout0>, tensor<2048xf32, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:57
      %57 = "tile.ex2.approx"(%56) : (tensor<2048xf32, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:57
      %z_58 = "tile.add"(%z_40, %57) : (tensor<2048xf32, #layout0>, tensor<2048xf32, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:57
      "tile.yield"(%z_58) : (tensor<2048xf32, #layout0>) -> ()  // samples/softmax.tile:57
    }) {unroll = 1 : i64} : (index, index, index, tensor<2048xf32, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:55
    %59 = "tile.partial_reduce"(%z_38) ({
    ^bb0(%60: f32, %61: f32):
      %62 = "tile.add"(%60, %61) : (f32, f32) -> f32  // samples/softmax.tile:58
      "tile.yield"(%62) : (f32) -> ()  // samples/softmax.tile:58
    }) {axis = 0 : i64, parts = 8 : i64} : (tensor<2048xf32, #layout0>) -> tensor<8xf32, #layout1>  // samples/softmax.tile:58
    "tile.store"(%scratch_0, %31, %59) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<8xf32, 3>, tensor<8xindex, #layout1>, tensor<8xf32, #layout1>) -> ()  // samples/softmax.tile:58
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:58
    %63 = "tile.load"(%scratch_0, %32) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<8xf32, 3>, tensor<8xindex, #layout2>) -> tensor<8xf32, #layout2>  // samples/softmax.tile:58
    %total = "tile.reduce"(%63) ({
    ^bb0(%64: f32, %65: f32):
      %66 = "tile.add"(%64, %65) : (f32, f32) -> f32  // samples/softmax.tile:58
      "tile.yield"(%66) : (f32) -> ()  // samples/softmax.tile:58
    }) {axis = 0 : i64} : (tensor<8xf32, #layout2>) -> f32  // samples/softmax.tile:58
    "tile.for"(%3, %2, %1) ({
    ^bb0(%k_67: index):
      %68 = "tile.constant"() {dtype = index, value = 2048 : i64} : () -> index  // samples/softmax.tile:60
      %69 = "tile.mul"(%k_67, %68) : (index, index) -> index  // samples/softmax.tile:60
      %start_70 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:16
      %71 = "tile.add"(%start_70, %69) : (index, index) -> index  // samples/softmax.tile:18
      %72 = "tile.broadcast"(%71) {shape = [2048 : i64]} : (index) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:18
      %73 = "tile.arange"() {extent = 2048 : i64} : () -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %i_74 = "tile.add"(%72, %73) : (tensor<2048xindex, #layout0>, tensor<2048xindex, #layout0>) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:18
      %75 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:100
      %76 = "tile.broadcast"(%69) {shape = [2048 : i64]} : (index) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %column_77 = "tile.add"(%76, %73) : (tensor<2048xindex, #layout0>, tensor<2048xindex, #layout0>) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %78 = "tile.broadcast"(%cols) {shape = [2048 : i64]} : (index) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:18
      %own_79 = "tile.lt"(%column_77, %78) : (tensor<2048xindex, #layout0>, tensor<2048xindex, #layout0>) -> tensor<2048xi1, #layout0>  // samples/softmax.tile:18
      %80 = "tile.broadcast"(%75) {shape = [2048 : i64]} : (f16) -> tensor<2048xf16, #layout0>  // samples/softmax.tile:100
      %81 = "tile.load"(%s, %k_67, %73, %own_79, %80) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "mask", "other"]} : (memref<10x2048xf16, 3>, index, tensor<2048xindex, #layout0>, tensor<2048xi1, #layout0>, tensor<2048xf16, #layout0>) -> tensor<2048xf16, #layout0>  // samples/softmax.tile:100
      %82 = "tile.cast"(%81) {rounding = unit, saturate = false, to = f32} : (tensor<2048xf16, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:100
      %83 = "tile.broadcast"(%top) {shape = [2048 : i64]} : (f32) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:61
      %84 = "tile.sub"(%82, %83) : (tensor<2048xf32, #layout0>, tensor<2048xf32, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:61
      %85 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:34
      %86 = "tile.broadcast"(%85) {shape = [2048 : i64]} : (f32) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:34
      %87 = "tile.mul"(%84, %86) : (tensor<2048xf32, #layout0>, tensor<2048xf32, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:34
      %88 = "tile.ex2.approx"(%87) : (tensor<2048xf32, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:34
      %89 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:34
      %90 = "tile.div"(%89, %total) : (f32, f32) -> f32  // samples/softmax.tile:34
      %91 = "tile.broadcast"(%90) {shape = [2048 : i64]} : (f32) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:34
      %92 = "tile.mul"(%88, %91) : (tensor<2048xf32, #layout0>, tensor<2048xf32, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:34
      %93 = "tile.cast"(%92) {rounding = unit, saturate = false, to = f16} : (tensor<2048xf32, #layout0>) -> tensor<2048xf16, #layout0>  // samples/softmax.tile:102
      "tile.store"(%y, %i_74, %own_79, %93) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<2048xindex, #layout0>, tensor<2048xi1, #layout0>, tensor<2048xf16, #layout0>) -> ()  // samples/softmax.tile:102
      "tile.yield"() : () -> ()  // samples/softmax.tile:102
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:59
  }) {index_bits = 32 : i64, name = "softmax_shared", shared_bytes = 41024 : i64, warps = 8 : i64} : () -> ()
}) : () -> ()
