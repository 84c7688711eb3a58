#layout0 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256, 512, 1024, 2048]}
#layout1 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2, 4, 8]}
#layout2 = {register = [1, 2, 4, 8], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%dx: memref<?x?xf16, 1>, %y: memref<?x?xf16, 1>, %dy: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %scratch = "tile.shared_alloc"() {name = "scratch", offset = 0 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:162
    %r = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:157
    %0 = "tile.constant"() {dtype = f32, value = 0x0000000000000000 : f64} : () -> f32  // samples/softmax.tile:158
    %1 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:158
    %start = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:159
    %2 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:159
    %z = "tile.broadcast"(%0) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:158
    %z_3 = "tile.for"(%1, %cols, %2, %z) ({
    ^bb0(%k: index, %z_4: tensor<4096xf32, #layout0>):
      %5 = "tile.add"(%start, %k) : (index, index) -> index  // samples/softmax.tile:18
      %6 = "tile.broadcast"(%5) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:18
      %7 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:17
      %i = "tile.add"(%6, %7) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:18
      %8 = "tile.constant"() {dtype = f16, value = 0x0000000000000000 : f64} : () -> f16  // samples/softmax.tile:161
      %9 = "tile.broadcast"(%k) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:17
      %column = "tile.add"(%9, %7) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:17
      %10 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:18
      %own = "tile.lt"(%column, %10) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:18
      %11 = "tile.broadcast"(%8) {shape = [4096 : i64]} : (f16) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:161
      %12 = "tile.load"(%y, %i, %own, %11) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:161
      %13 = "tile.cast"(%12) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:161
      %14 = "tile.load"(%dy, %i, %own, %11) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:161
      %15 = "tile.cast"(%14) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:161
      %16 = "tile.mul"(%13, %15) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:124
      %z_17 = "tile.add"(%z_4, %16) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:161
      "tile.yield"(%z_17) : (tensor<4096xf32, #layout0>) -> ()  // samples/softmax.tile:161
    }) {unroll = 1 : i64} : (index, index, index, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:159
    %18 = "tile.partial_reduce"(%z_3) ({
    ^bb0(%19: f32, %20: f32):
      %21 = "tile.add"(%19, %20) : (f32, f32) -> f32  // samples/softmax.tile:162
      "tile.yield"(%21) : (f32) -> ()  // samples/softmax.tile:162
    }) {axis = 0 : i64, parts = 16 : i64} : (tensor<4096xf32, #layout0>) -> tensor<16xf32, #layout1>  // samples/softmax.tile:162
    %22 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout1>  // samples/softmax.tile:162
    "tile.store"(%scratch, %22, %18) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<16xindex, #layout1>, tensor<16xf32, #layout1>) -> ()  // samples/softmax.tile:162
    %23 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout2>  // samples/softmax.tile:162
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:162
    %24 = "tile.load"(%scratch, %23) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<16xindex, #layout2>) -> tensor<16xf32, #layout2>  // samples/softmax.tile:162
    %dot = "tile.reduce"(%24) ({
    ^bb0(%25: f32, %26: f32):
      %27 = "tile.add"(%25, %26) : (f32, f32) -> f32  // samples/softmax.tile:162
      "tile.yield"(%27) : (f32) -> ()  // samples/softmax.tile:162
    }) {axis = 0 : i64} : (tensor<16xf32, #layout2>) -> f32  // samples/softmax.tile:162
    "tile.for"(%1, %cols, %2) ({
    ^bb0(%k_28: index):
      %29 = "tile.add"(%start, %k_28) : (index, index) -> index  // samples/softmax.tile:18
      %30 = "tile.broadcast"(%29) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:18
      %31 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:17
      %i_32 = "tile.add"(%30, %31) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:18
      %33 = "tile.constant"() {dtype = f16, value = 0x0000000000000000 : f64} : () -> f16  // samples/softmax.tile:165
      %34 = "tile.broadcast"(%k_28) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:17
      %column_35 = "tile.add"(%34, %31) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:17
      %36 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:18
      %own_37 = "tile.lt"(%column_35, %36) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:18
      %38 = "tile.broadcast"(%33) {shape = [4096 : i64]} : (f16) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:165
      %39 = "tile.load"(%y, %i_32, %own_37, %38) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:165
      %a = "tile.cast"(%39) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:165
      %40 = "tile.load"(%dy, %i_32, %own_37, %38) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:165
      %g = "tile.cast"(%40) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:165
      %41 = "tile.broadcast"(%dot) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:118
      %42 = "tile.sub"(%g, %41) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:118
      %43 = "tile.mul"(%a, %42) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:118
      %44 = "tile.cast"(%43) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:166
      "tile.store"(%dx, %i_32, %own_37, %44) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:166
      "tile.yield"() : () -> ()  // samples/softmax.tile:166
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:163
  }) {index_bits = 32 : i64, name = "backward_streamed", shared_bytes = 64 : i64, warps = 16 : i64} : () -> ()
}) : () -> ()
