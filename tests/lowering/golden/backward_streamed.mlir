#layout0 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256, 512, 1024, 2048]}
#layout1 = {register = [], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
#layout2 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2, 4, 8]}
#layout3 = {register = [1, 2, 4, 8], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%dx: memref<?x?xf16, 1>, %y: memref<?x?xf16, 1>, %dy: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %scratch = "tile.shared_alloc"() {name = "scratch", offset = 0 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:231
    %0 = "tile.constant"() {dtype = index, value = 1 : i64} : () -> index  // samples/softmax.tile:221
    %1 = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:223
    %2 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:224
    %3 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:224
    %4 = "tile.constant"() {dtype = index, value = 4095 : i64} : () -> index  // samples/softmax.tile:224
    %5 = "tile.add"(%cols, %4) : (index, index) -> index  // samples/softmax.tile:224
    %parts = "tile.floordiv"(%5, %3) : (index, index) -> index  // samples/softmax.tile:224
    %6 = "tile.constant"() {dtype = f32, value = 0x0000000000000000 : f64} : () -> f32  // samples/softmax.tile:227
    %z = "tile.broadcast"(%6) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout0>  // samples/softmax.tile:227
    %7 = "tile.broadcast"(%1) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout1>  // samples/softmax.tile:223
    %8 = "tile.arange"() {extent = 1 : i64} : () -> tensor<1xindex, #layout1>  // samples/softmax.tile:223
    %r = "tile.add"(%7, %8) : (tensor<1xindex, #layout1>, tensor<1xindex, #layout1>) -> tensor<1xindex, #layout1>  // samples/softmax.tile:223
    %z_9 = "tile.for"(%2, %parts, %0, %z) ({
    ^bb0(%k: index, %z_10: tensor<1x4096xf32, #layout0>):
      %11 = "tile.mul"(%k, %3) : (index, index) -> index  // samples/softmax.tile:11
      %12 = "tile.broadcast"(%cols) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout1>  // samples/softmax.tile:10
      %start = "tile.mul"(%r, %12) : (tensor<1xindex, #layout1>, tensor<1xindex, #layout1>) -> tensor<1xindex, #layout1>  // samples/softmax.tile:10
      %13 = "tile.reshape"(%start) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout1>) -> tensor<1x1xindex, #layout1>  // samples/softmax.tile:13
      %14 = "tile.broadcast"(%13) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout1>) -> tensor<1x4096xindex, #layout0>  // samples/softmax.tile:13
      %15 = "tile.broadcast"(%11) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout0>  // samples/softmax.tile:11
      %16 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:11
      %17 = "tile.reshape"(%16) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout0>) -> tensor<1x4096xindex, #layout0>  // samples/softmax.tile:11
      %at = "tile.add"(%15, %17) : (tensor<1x4096xindex, #layout0>, tensor<1x4096xindex, #layout0>) -> tensor<1x4096xindex, #layout0>  // samples/softmax.tile:11
      %i = "tile.add"(%14, %at) : (tensor<1x4096xindex, #layout0>, tensor<1x4096xindex, #layout0>) -> tensor<1x4096xindex, #layout0>  // samples/softmax.tile:13
      %18 = "tile.mul"(%rows, %cols) : (index, index) -> index  // samples/softmax.tile:226
      %19 = "tile.constant"() {dtype = f16, value = 0x0000000000000000 : f64} : () -> f16  // samples/softmax.tile:19
      %20 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout0>  // samples/softmax.tile:13
      %own = "tile.lt"(%at, %20) : (tensor<1x4096xindex, #layout0>, tensor<1x4096xindex, #layout0>) -> tensor<1x4096xi1, #layout0>  // samples/softmax.tile:13
      %21 = "tile.broadcast"(%18) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout0>  // samples/softmax.tile:19
      %22 = "tile.lt"(%i, %21) : (tensor<1x4096xindex, #layout0>, tensor<1x4096xindex, #layout0>) -> tensor<1x4096xi1, #layout0>  // samples/softmax.tile:19
      %23 = "tile.and"(%own, %22) : (tensor<1x4096xi1, #layout0>, tensor<1x4096xi1, #layout0>) -> tensor<1x4096xi1, #layout0>  // samples/softmax.tile:19
      %24 = "tile.broadcast"(%19) {shape = [1 : i64, 4096 : i64]} : (f16) -> tensor<1x4096xf16, #layout0>  // samples/softmax.tile:19
      %25 = "tile.load"(%y, %i, %23, %24) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout0>, tensor<1x4096xi1, #layout0>, tensor<1x4096xf16, #layout0>) -> tensor<1x4096xf16, #layout0>  // samples/softmax.tile:19
      %26 = "tile.cast"(%25) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout0>) -> tensor<1x4096xf32, #layout0>  // samples/softmax.tile:19
      %27 = "tile.load"(%dy, %i, %23, %24) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout0>, tensor<1x4096xi1, #layout0>, tensor<1x4096xf16, #layout0>) -> tensor<1x4096xf16, #layout0>  // samples/softmax.tile:19
      %28 = "tile.cast"(%27) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout0>) -> tensor<1x4096xf32, #layout0>  // samples/softmax.tile:19
      %29 = "tile.mul"(%26, %28) : (tensor<1x4096xf32, #layout0>, tensor<1x4096xf32, #layout0>) -> tensor<1x4096xf32, #layout0>  // samples/softmax.tile:172
      %z_30 = "tile.add"(%z_10, %29) : (tensor<1x4096xf32, #layout0>, tensor<1x4096xf32, #layout0>) -> tensor<1x4096xf32, #layout0>  // samples/softmax.tile:230
      "tile.yield"(%z_30) : (tensor<1x4096xf32, #layout0>) -> ()  // samples/softmax.tile:230
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xf32, #layout0>) -> tensor<1x4096xf32, #layout0>  // samples/softmax.tile:228
    %31 = "tile.partial_reduce"(%z_9) ({
    ^bb0(%32: f32, %33: f32):
      %34 = "tile.add"(%32, %33) : (f32, f32) -> f32  // samples/softmax.tile:231
      "tile.yield"(%34) : (f32) -> ()  // samples/softmax.tile:231
    }) {axis = 1 : i64, parts = 16 : i64} : (tensor<1x4096xf32, #layout0>) -> tensor<1x16xf32, #layout2>  // samples/softmax.tile:231
    %35 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout2>  // samples/softmax.tile:231
    %36 = "tile.reshape"(%35) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout2>) -> tensor<1x16xindex, #layout2>  // samples/softmax.tile:231
    "tile.store"(%scratch, %36, %31) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout2>, tensor<1x16xf32, #layout2>) -> ()  // samples/softmax.tile:231
    %37 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout3>  // samples/softmax.tile:231
    %38 = "tile.reshape"(%37) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout3>) -> tensor<1x16xindex, #layout3>  // samples/softmax.tile:231
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:231
    %39 = "tile.load"(%scratch, %38) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>) -> tensor<1x16xf32, #layout3>  // samples/softmax.tile:231
    %40 = "tile.reduce"(%39) ({
    ^bb0(%41: f32, %42: f32):
      %43 = "tile.add"(%41, %42) : (f32, f32) -> f32  // samples/softmax.tile:231
      "tile.yield"(%43) : (f32) -> ()  // samples/softmax.tile:231
    }) {axis = 1 : i64} : (tensor<1x16xf32, #layout3>) -> tensor<1xf32, #layout1>  // samples/softmax.tile:231
    %dot = "tile.reshape"(%40) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout1>) -> tensor<1x1xf32, #layout1>  // samples/softmax.tile:231
    "tile.for"(%2, %parts, %0) ({
    ^bb0(%k_44: index):
      %45 = "tile.mul"(%k_44, %3) : (index, index) -> index  // samples/softmax.tile:11
      %46 = "tile.broadcast"(%cols) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout1>  // samples/softmax.tile:10
      %start_47 = "tile.mul"(%r, %46) : (tensor<1xindex, #layout1>, tensor<1xindex, #layout1>) -> tensor<1xindex, #layout1>  // samples/softmax.tile:10
      %48 = "tile.reshape"(%start_47) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout1>) -> tensor<1x1xindex, #layout1>  // samples/softmax.tile:13
      %49 = "tile.broadcast"(%48) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout1>) -> tensor<1x4096xindex, #layout0>  // samples/softmax.tile:13
      %50 = "tile.broadcast"(%45) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout0>  // samples/softmax.tile:11
      %51 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:11
      %52 = "tile.reshape"(%51) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout0>) -> tensor<1x4096xindex, #layout0>  // samples/softmax.tile:11
      %at_53 = "tile.add"(%50, %52) : (tensor<1x4096xindex, #layout0>, tensor<1x4096xindex, #layout0>) -> tensor<1x4096xindex, #layout0>  // samples/softmax.tile:11
      %i_54 = "tile.add"(%49, %at_53) : (tensor<1x4096xindex, #layout0>, tensor<1x4096xindex, #layout0>) -> tensor<1x4096xindex, #layout0>  // samples/softmax.tile:13
      %55 = "tile.mul"(%rows, %cols) : (index, index) -> index  // samples/softmax.tile:234
      %56 = "tile.constant"() {dtype = f16, value = 0x0000000000000000 : f64} : () -> f16  // samples/softmax.tile:19
      %57 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout0>  // samples/softmax.tile:13
      %own_58 = "tile.lt"(%at_53, %57) : (tensor<1x4096xindex, #layout0>, tensor<1x4096xindex, #layout0>) -> tensor<1x4096xi1, #layout0>  // samples/softmax.tile:13
      %59 = "tile.broadcast"(%55) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout0>  // samples/softmax.tile:19
      %60 = "tile.lt"(%i_54, %59) : (tensor<1x4096xindex, #layout0>, tensor<1x4096xindex, #layout0>) -> tensor<1x4096xi1, #layout0>  // samples/softmax.tile:19
      %61 = "tile.and"(%own_58, %60) : (tensor<1x4096xi1, #layout0>, tensor<1x4096xi1, #layout0>) -> tensor<1x4096xi1, #layout0>  // samples/softmax.tile:19
      %62 = "tile.broadcast"(%56) {shape = [1 : i64, 4096 : i64]} : (f16) -> tensor<1x4096xf16, #layout0>  // samples/softmax.tile:19
      %63 = "tile.load"(%y, %i_54, %61, %62) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout0>, tensor<1x4096xi1, #layout0>, tensor<1x4096xf16, #layout0>) -> tensor<1x4096xf16, #layout0>  // samples/softmax.tile:19
      %64 = "tile.cast"(%63) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout0>) -> tensor<1x4096xf32, #layout0>  // samples/softmax.tile:19
      %65 = "tile.load"(%dy, %i_54, %61, %62) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout0>, tensor<1x4096xi1, #layout0>, tensor<1x4096xf16, #layout0>) -> tensor<1x4096xf16, #layout0>  // samples/softmax.tile:19
      %66 = "tile.cast"(%65) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout0>) -> tensor<1x4096xf32, #layout0>  // samples/softmax.tile:19
      %67 = "tile.broadcast"(%dot) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout1>) -> tensor<1x4096xf32, #layout0>  // samples/softmax.tile:166
      %68 = "tile.sub"(%66, %67) : (tensor<1x4096xf32, #layout0>, tensor<1x4096xf32, #layout0>) -> tensor<1x4096xf32, #layout0>  // samples/softmax.tile:166
      %69 = "tile.mul"(%64, %68) : (tensor<1x4096xf32, #layout0>, tensor<1x4096xf32, #layout0>) -> tensor<1x4096xf32, #layout0>  // samples/softmax.tile:166
      %70 = "tile.cast"(%69) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout0>) -> tensor<1x4096xf16, #layout0>  // samples/softmax.tile:234
      "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:234
      "tile.store"(%dx, %i_54, %own_58, %70) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout0>, tensor<1x4096xi1, #layout0>, tensor<1x4096xf16, #layout0>) -> ()  // samples/softmax.tile:234
      "tile.yield"() : () -> ()  // samples/softmax.tile:234
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:232
  }) {index_bits = 32 : i64, name = "backward_streamed", shared_bytes = 64 : i64, warps = 16 : i64} : () -> ()
}) : () -> ()
