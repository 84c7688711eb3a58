#layout0 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2]}
#layout1 = {register = [1, 2, 4, 256, 512], lane = [8, 16, 32, 64, 128], warp = [1024, 2048]}
#layout2 = {register = [1, 2, 4, 256, 512], lane = [8, 16, 32, 64, 128], warp = [0, 0]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%y: memref<?x?xf16, 1>, %x: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %0 = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:37
    %1 = "tile.constant"() {dtype = index, value = 4 : i64} : () -> index  // samples/softmax.tile:37
    %2 = "tile.mul"(%0, %1) : (index, index) -> index  // samples/softmax.tile:37
    %3 = "tile.broadcast"(%2) {shape = [4 : i64]} : (index) -> tensor<4xindex, #layout0>  // samples/softmax.tile:37
    %4 = "tile.arange"() {extent = 4 : i64} : () -> tensor<4xindex, #layout0>  // samples/softmax.tile:37
    %5 = "tile.add"(%3, %4) : (tensor<4xindex, #layout0>, tensor<4xindex, #layout0>) -> tensor<4xindex, #layout0>  // samples/softmax.tile:37
    %6 = "tile.broadcast"(%cols) {shape = [4 : i64]} : (index) -> tensor<4xindex, #layout0>  // samples/softmax.tile:10
    %start = "tile.mul"(%5, %6) : (tensor<4xindex, #layout0>, tensor<4xindex, #layout0>) -> tensor<4xindex, #layout0>  // samples/softmax.tile:10
    %7 = "tile.reshape"(%start) {shape = [4 : i64, 1 : i64]} : (tensor<4xindex, #layout0>) -> tensor<4x1xindex, #layout0>  // samples/softmax.tile:12
    %8 = "tile.broadcast"(%7) {shape = [4 : i64, 1024 : i64]} : (tensor<4x1xindex, #layout0>) -> tensor<4x1024xindex, #layout1>  // samples/softmax.tile:12
    %9 = "tile.arange"() {extent = 1024 : i64} : () -> tensor<1024xindex, #layout2>  // samples/softmax.tile:11
    %10 = "tile.reshape"(%9) {shape = [1 : i64, 1024 : i64]} : (tensor<1024xindex, #layout2>) -> tensor<1x1024xindex, #layout2>  // samples/softmax.tile:11
    %column = "tile.broadcast"(%10) {shape = [4 : i64, 1024 : i64]} : (tensor<1x1024xindex, #layout2>) -> tensor<4x1024xindex, #layout1>  // samples/softmax.tile:11
    %i = "tile.add"(%8, %column) : (tensor<4x1024xindex, #layout1>, tensor<4x1024xindex, #layout1>) -> tensor<4x1024xindex, #layout1>  // samples/softmax.tile:12
    %11 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:88
    %12 = "tile.broadcast"(%rows) {shape = [4 : i64]} : (index) -> tensor<4xindex, #layout0>  // samples/softmax.tile:12
    %13 = "tile.lt"(%5, %12) : (tensor<4xindex, #layout0>, tensor<4xindex, #layout0>) -> tensor<4xi1, #layout0>  // samples/softmax.tile:12
    %14 = "tile.reshape"(%13) {shape = [4 : i64, 1 : i64]} : (tensor<4xi1, #layout0>) -> tensor<4x1xi1, #layout0>  // samples/softmax.tile:12
    %15 = "tile.broadcast"(%14) {shape = [4 : i64, 1024 : i64]} : (tensor<4x1xi1, #layout0>) -> tensor<4x1024xi1, #layout1>  // samples/softmax.tile:12
    %16 = "tile.broadcast"(%cols) {shape = [4 : i64, 1024 : i64]} : (index) -> tensor<4x1024xindex, #layout1>  // samples/softmax.tile:12
    %17 = "tile.lt"(%column, %16) : (tensor<4x1024xindex, #layout1>, tensor<4x1024xindex, #layout1>) -> tensor<4x1024xi1, #layout1>  // samples/softmax.tile:12
    %own = "tile.and"(%15, %17) : (tensor<4x1024xi1, #layout1>, tensor<4x1024xi1, #layout1>) -> tensor<4x1024xi1, #layout1>  // samples/softmax.tile:12
    %18 = "tile.broadcast"(%11) {shape = [4 : i64, 1024 : i64]} : (f16) -> tensor<4x1024xf16, #layout1>  // samples/softmax.tile:88
    %19 = "tile.load"(%x, %i, %own, %18) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4x1024xindex, #layout1>, tensor<4x1024xi1, #layout1>, tensor<4x1024xf16, #layout1>) -> tensor<4x1024xf16, #layout1>  // samples/softmax.tile:88
    %v = "tile.cast"(%19) {rounding = unit, saturate = false, to = f32} : (tensor<4x1024xf16, #layout1>) -> tensor<4x1024xf32, #layout1>  // samples/softmax.tile:88
    %20 = "tile.reduce"(%v) ({
    ^bb0(%21: f32, %22: f32):
      %23 = "tile.maximum"(%21, %22) : (f32, f32) -> f32  // samples/softmax.tile:23
      "tile.yield"(%23) : (f32) -> ()  // samples/softmax.tile:23
    }) {axis = 1 : i64} : (tensor<4x1024xf32, #layout1>) -> tensor<4xf32, #layout0>  // samples/softmax.tile:23
    %24 = "tile.reshape"(%20) {shape = [4 : i64, 1 : i64]} : (tensor<4xf32, #layout0>) -> tensor<4x1xf32, #layout0>  // samples/softmax.tile:23
    %25 = "tile.broadcast"(%24) {shape = [4 : i64, 1024 : i64]} : (tensor<4x1xf32, #layout0>) -> tensor<4x1024xf32, #layout1>  // samples/softmax.tile:23
    %d = "tile.sub"(%v, %25) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // samples/softmax.tile:23
    %26 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:24
    %27 = "tile.broadcast"(%26) {shape = [4 : i64, 1024 : i64]} : (f32) -> tensor<4x1024xf32, #layout1>  // samples/softmax.tile:24
    %28 = "tile.mul"(%d, %27) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // samples/softmax.tile:24
    %e = "tile.ex2.approx"(%28) : (tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // samples/softmax.tile:24
    %29 = "tile.reduce"(%e) ({
    ^bb0(%30: f32, %31: f32):
      %32 = "tile.add"(%30, %31) : (f32, f32) -> f32  // samples/softmax.tile:25
      "tile.yield"(%32) : (f32) -> ()  // samples/softmax.tile:25
    }) {axis = 1 : i64} : (tensor<4x1024xf32, #layout1>) -> tensor<4xf32, #layout0>  // samples/softmax.tile:25
    %total = "tile.reshape"(%29) {shape = [4 : i64, 1 : i64]} : (tensor<4xf32, #layout0>) -> tensor<4x1xf32, #layout0>  // samples/softmax.tile:25
    %33 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:28
    %34 = "tile.broadcast"(%33) {shape = [4 : i64, 1 : i64]} : (f32) -> tensor<4x1xf32, #layout0>  // samples/softmax.tile:28
    %35 = "tile.div"(%34, %total) : (tensor<4x1xf32, #layout0>, tensor<4x1xf32, #layout0>) -> tensor<4x1xf32, #layout0>  // samples/softmax.tile:28
    %36 = "tile.broadcast"(%35) {shape = [4 : i64, 1024 : i64]} : (tensor<4x1xf32, #layout0>) -> tensor<4x1024xf32, #layout1>  // samples/softmax.tile:28
    %37 = "tile.mul"(%e, %36) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // samples/softmax.tile:28
    %38 = "tile.cast"(%37) {rounding = unit, saturate = false, to = f16} : (tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf16, #layout1>  // samples/softmax.tile:90
    "tile.store"(%y, %i, %own, %38) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4x1024xindex, #layout1>, tensor<4x1024xi1, #layout1>, tensor<4x1024xf16, #layout1>) -> ()  // samples/softmax.tile:90
  }) {index_bits = 32 : i64, name = "softmax_registers", shared_bytes = 0 : i64, warps = 4 : i64} : () -> ()
}) : () -> ()
