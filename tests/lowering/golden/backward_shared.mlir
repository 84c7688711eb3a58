#layout0 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256, 512, 1024]}
#layout1 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2, 4]}
#layout2 = {register = [1, 2, 4], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%dx: memref<?x?xf16, 1>, %y: memref<?x?xf16, 1>, %dy: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %scratch = "tile.shared_alloc"() {name = "scratch", offset = 0 : i64, type = memref<8xf32, 3>} : () -> memref<8xf32, 3>  // samples/softmax.tile:150
    %0 = "tile.constant"() {dtype = index, value = 1 : i64} : () -> index  // samples/softmax.tile:135
    %s = "tile.shared_alloc"() {name = "s", offset = 32 : i64, type = memref<10x2048xf16, 3>} : () -> memref<10x2048xf16, 3>  // samples/softmax.tile:138
    %t = "tile.shared_alloc"() {name = "t", offset = 40992 : i64, type = memref<10x2048xf16, 3>} : () -> memref<10x2048xf16, 3>  // samples/softmax.tile:138
    %r = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:139
    %1 = "tile.constant"() {dtype = index, value = 10 : i64} : () -> index  // samples/softmax.tile:139
    %2 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:139
    "tile.for"(%2, %1, %0) ({
    ^bb0(%k: index):
      %3 = "tile.constant"() {dtype = index, value = 2048 : i64} : () -> index  // samples/softmax.tile:141
      %4 = "tile.mul"(%k, %3) : (index, index) -> index  // samples/softmax.tile:141
      %start = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:16
      %5 = "tile.add"(%start, %4) : (index, index) -> index  // samples/softmax.tile:18
      %6 = "tile.broadcast"(%5) {shape = [2048 : i64]} : (index) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:18
      %7 = "tile.arange"() {extent = 2048 : i64} : () -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %i = "tile.add"(%6, %7) : (tensor<2048xindex, #layout0>, tensor<2048xindex, #layout0>) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:18
      %8 = "tile.add"(%r, %0) : (index, index) -> index  // samples/softmax.tile:142
      %9 = "tile.mul"(%8, %cols) : (index, index) -> index  // samples/softmax.tile:142
      %10 = "tile.broadcast"(%9) {shape = [2048 : i64]} : (index) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:142
      %11 = "tile.lt"(%i, %10) : (tensor<2048xindex, #layout0>, tensor<2048xindex, #layout0>) -> tensor<2048xi1, #layout0>  // samples/softmax.tile:142
      "tile.copy"(%s, %k, %7, %y, %i, %11) {bytes = 16 : i64, cache = unit, has = ["memory", "slot", "offset", "tensor", "source", "mask"]} : (memref<10x2048xf16, 3>, index, tensor<2048xindex, #layout0>, memref<?x?xf16, 1>, tensor<2048xindex, #layout0>, tensor<2048xi1, #layout0>) -> ()  // samples/softmax.tile:142
      "tile.copy"(%t, %k, %7, %dy, %i, %11) {bytes = 16 : i64, cache = unit, has = ["memory", "slot", "offset", "tensor", "source", "mask"]} : (memref<10x2048xf16, 3>, index, tensor<2048xindex, #layout0>, memref<?x?xf16, 1>, tensor<2048xindex, #layout0>, tensor<2048xi1, #layout0>) -> ()  // samples/softmax.tile:143
      "tile.yield"() : () -> ()  // samples/softmax.tile:143
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:140
    "tile.commit"() : () -> ()  // samples/softmax.tile:144
    "tile.wait"() {groups = 0 : i64} : () -> ()  // samples/softmax.tile:145
    %12 = "tile.constant"() {dtype = f32, value = 0x0000000000000000 : f64} : () -> f32  // samples/softmax.tile:146
    %z = "tile.broadcast"(%12) {shape = [2048 : i64]} : (f32) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:146
    %z_13 = "tile.for"(%2, %1, %0, %z) ({
    ^bb0(%k_14: index, %z_15: tensor<2048xf32, #layout0>):
      %16 = "tile.constant"() {dtype = index, value = 2048 : i64} : () -> index  // samples/softmax.tile:148
      %17 = "tile.mul"(%k_14, %16) : (index, index) -> index  // samples/softmax.tile:148
      %18 = "tile.constant"() {dtype = f16, value = 0x0000000000000000 : f64} : () -> f16  // samples/softmax.tile:149
      %19 = "tile.arange"() {extent = 2048 : i64} : () -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %20 = "tile.broadcast"(%17) {shape = [2048 : i64]} : (index) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %column = "tile.add"(%20, %19) : (tensor<2048xindex, #layout0>, tensor<2048xindex, #layout0>) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %21 = "tile.broadcast"(%cols) {shape = [2048 : i64]} : (index) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:18
      %own = "tile.lt"(%column, %21) : (tensor<2048xindex, #layout0>, tensor<2048xindex, #layout0>) -> tensor<2048xi1, #layout0>  // samples/softmax.tile:18
      %22 = "tile.broadcast"(%18) {shape = [2048 : i64]} : (f16) -> tensor<2048xf16, #layout0>  // samples/softmax.tile:149
      %23 = "tile.load"(%s, %k_14, %19, %own, %22) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "mask", "other"]} : (memref<10x2048xf16, 3>, index, tensor<2048xindex, #layout0>, tensor<2048xi1, #layout0>, tensor<2048xf16, #layout0>) -> tensor<2048xf16, #layout0>  // samples/softmax.tile:149
      %24 = "tile.cast"(%23) {rounding = unit, saturate = false, to = f32} : (tensor<2048xf16, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:149
      %25 = "tile.load"(%t, %k_14, %19, %own, %22) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "mask", "other"]} : (memref<10x2048xf16, 3>, index, tensor<2048xindex, #layout0>, tensor<2048xi1, #layout0>, tensor<2048xf16, #layout0>) -> tensor<2048xf16, #layout0>  // samples/softmax.tile:149
      %26 = "tile.cast"(%25) {rounding = unit, saturate = false, to = f32} : (tensor<2048xf16, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:149
      %27 = "tile.mul"(%24, %26) : (tensor<2048xf32, #layout0>, tensor<2048xf32, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:124
      %z_28 = "tile.add"(%z_15, %27) : (tensor<2048xf32, #layout0>, tensor<2048xf32, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:149
      "tile.yield"(%z_28) : (tensor<2048xf32, #layout0>) -> ()  // samples/softmax.tile:149
    }) {unroll = 1 : i64} : (index, index, index, tensor<2048xf32, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:147
    %29 = "tile.partial_reduce"(%z_13) ({
    ^bb0(%30: f32, %31: f32):
      %32 = "tile.add"(%30, %31) : (f32, f32) -> f32  // samples/softmax.tile:150
      "tile.yield"(%32) : (f32) -> ()  // samples/softmax.tile:150
    }) {axis = 0 : i64, parts = 8 : i64} : (tensor<2048xf32, #layout0>) -> tensor<8xf32, #layout1>  // samples/softmax.tile:150
    %33 = "tile.arange"() {extent = 8 : i64} : () -> tensor<8xindex, #layout1>  // samples/softmax.tile:150
    "tile.store"(%scratch, %33, %29) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<8xf32, 3>, tensor<8xindex, #layout1>, tensor<8xf32, #layout1>) -> ()  // samples/softmax.tile:150
    %34 = "tile.arange"() {extent = 8 : i64} : () -> tensor<8xindex, #layout2>  // samples/softmax.tile:150
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:150
    %35 = "tile.load"(%scratch, %34) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<8xf32, 3>, tensor<8xindex, #layout2>) -> tensor<8xf32, #layout2>  // samples/softmax.tile:150
    %dot = "tile.reduce"(%35) ({
    ^bb0(%36: f32, %37: f32):
      %38 = "tile.add"(%36, %37) : (f32, f32) -> f32  // samples/softmax.tile:150
      "tile.yield"(%38) : (f32) -> ()  // samples/softmax.tile:150
    }) {axis = 0 : i64} : (tensor<8xf32, #layout2>) -> f32  // samples/softmax.tile:150
    "tile.for"(%2, %1, %0) ({
    ^bb0(%k_39: index):
      %40 = "tile.constant"() {dtype = index, value = 2048 : i64} : () -> index  // samples/softmax.tile:152
      %41 = "tile.mul"(%k_39, %40) : (index, index) -> index  // samples/softmax.tile:152
      %start_42 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:16
      %43 = "tile.add"(%start_42, %41) : (index, index) -> index  // samples/softmax.tile:18
      %44 = "tile.broadcast"(%43) {shape = [2048 : i64]} : (index) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:18
      %45 = "tile.arange"() {extent = 2048 : i64} : () -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %i_46 = "tile.add"(%44, %45) : (tensor<2048xindex, #layout0>, tensor<2048xindex, #layout0>) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:18
      %47 = "tile.load"(%s, %k_39, %45) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<10x2048xf16, 3>, index, tensor<2048xindex, #layout0>) -> tensor<2048xf16, #layout0>  // samples/softmax.tile:153
      %48 = "tile.cast"(%47) {rounding = unit, saturate = false, to = f32} : (tensor<2048xf16, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:153
      %49 = "tile.load"(%t, %k_39, %45) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<10x2048xf16, 3>, index, tensor<2048xindex, #layout0>) -> tensor<2048xf16, #layout0>  // samples/softmax.tile:153
      %50 = "tile.cast"(%49) {rounding = unit, saturate = false, to = f32} : (tensor<2048xf16, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:153
      %51 = "tile.broadcast"(%dot) {shape = [2048 : i64]} : (f32) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:118
      %52 = "tile.sub"(%50, %51) : (tensor<2048xf32, #layout0>, tensor<2048xf32, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:118
      %53 = "tile.mul"(%48, %52) : (tensor<2048xf32, #layout0>, tensor<2048xf32, #layout0>) -> tensor<2048xf32, #layout0>  // samples/softmax.tile:118
      %54 = "tile.cast"(%53) {rounding = unit, saturate = false, to = f16} : (tensor<2048xf32, #layout0>) -> tensor<2048xf16, #layout0>  // samples/softmax.tile:153
      %55 = "tile.broadcast"(%41) {shape = [2048 : i64]} : (index) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %column_56 = "tile.add"(%55, %45) : (tensor<2048xindex, #layout0>, tensor<2048xindex, #layout0>) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:17
      %57 = "tile.broadcast"(%cols) {shape = [2048 : i64]} : (index) -> tensor<2048xindex, #layout0>  // samples/softmax.tile:18
      %own_58 = "tile.lt"(%column_56, %57) : (tensor<2048xindex, #layout0>, tensor<2048xindex, #layout0>) -> tensor<2048xi1, #layout0>  // samples/softmax.tile:18
      "tile.store"(%dx, %i_46, %own_58, %54) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<2048xindex, #layout0>, tensor<2048xi1, #layout0>, tensor<2048xf16, #layout0>) -> ()  // samples/softmax.tile:153
      "tile.yield"() : () -> ()  // samples/softmax.tile:153
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:151
  }) {index_bits = 32 : i64, name = "backward_shared", shared_bytes = 81952 : i64, warps = 8 : i64} : () -> ()
}) : () -> ()
