#layout0 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2]}
#layout1 = {register = [1, 2, 4, 256, 512], lane = [8, 16, 32, 64, 128], warp = [1024, 2048]}
#layout2 = {register = [1, 2, 4, 256, 512], lane = [8, 16, 32, 64, 128], warp = [0, 0]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%y: memref<?x?xf16, 1>, %x: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %0 = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:8
    %1 = "tile.constant"() {dtype = index, value = 4 : i64} : () -> index  // samples/softmax.tile:8
    %r = "tile.mul"(%0, %1) : (index, index) -> index  // samples/softmax.tile:8
    %2 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:9
    %3 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:9
    %4 = "tile.broadcast"(%2) {shape = [4 : i64, 1 : i64]} : (index) -> tensor<4x1xindex, #layout0>  // samples/softmax.tile:9
    %5 = "tile.arange"() {extent = 4 : i64} : () -> tensor<4xindex, #layout0>  // samples/softmax.tile:9
    %6 = "tile.reshape"(%5) {shape = [4 : i64, 1 : i64]} : (tensor<4xindex, #layout0>) -> tensor<4x1xindex, #layout0>  // samples/softmax.tile:9
    %7 = "tile.broadcast"(%cols) {shape = [4 : i64, 1 : i64]} : (index) -> tensor<4x1xindex, #layout0>  // samples/softmax.tile:9
    %8 = "tile.mul"(%6, %7) : (tensor<4x1xindex, #layout0>, tensor<4x1xindex, #layout0>) -> tensor<4x1xindex, #layout0>  // samples/softmax.tile:9
    %9 = "tile.add"(%4, %8) : (tensor<4x1xindex, #layout0>, tensor<4x1xindex, #layout0>) -> tensor<4x1xindex, #layout0>  // samples/softmax.tile:9
    %10 = "tile.broadcast"(%9) {shape = [4 : i64, 1024 : i64]} : (tensor<4x1xindex, #layout0>) -> tensor<4x1024xindex, #layout1>  // samples/softmax.tile:9
    %11 = "tile.arange"() {extent = 1024 : i64} : () -> tensor<1024xindex, #layout2>  // samples/softmax.tile:9
    %12 = "tile.reshape"(%11) {shape = [1 : i64, 1024 : i64]} : (tensor<1024xindex, #layout2>) -> tensor<1x1024xindex, #layout2>  // samples/softmax.tile:9
    %13 = "tile.broadcast"(%12) {shape = [4 : i64, 1024 : i64]} : (tensor<1x1024xindex, #layout2>) -> tensor<4x1024xindex, #layout1>  // samples/softmax.tile:9
    %14 = "tile.add"(%10, %13) : (tensor<4x1024xindex, #layout1>, tensor<4x1024xindex, #layout1>) -> tensor<4x1024xindex, #layout1>  // samples/softmax.tile:9
    %15 = "tile.broadcast"(%r) {shape = [4 : i64, 1 : i64]} : (index) -> tensor<4x1xindex, #layout0>  // samples/softmax.tile:9
    %16 = "tile.add"(%15, %6) : (tensor<4x1xindex, #layout0>, tensor<4x1xindex, #layout0>) -> tensor<4x1xindex, #layout0>  // samples/softmax.tile:9
    %17 = "tile.broadcast"(%rows) {shape = [4 : i64, 1 : i64]} : (index) -> tensor<4x1xindex, #layout0>  // samples/softmax.tile:9
    %18 = "tile.lt"(%16, %17) : (tensor<4x1xindex, #layout0>, tensor<4x1xindex, #layout0>) -> tensor<4x1xi1, #layout0>  // samples/softmax.tile:9
    %19 = "tile.broadcast"(%18) {shape = [4 : i64, 1024 : i64]} : (tensor<4x1xi1, #layout0>) -> tensor<4x1024xi1, #layout1>  // samples/softmax.tile:9
    %20 = "tile.broadcast"(%cols) {shape = [1 : i64, 1024 : i64]} : (index) -> tensor<1x1024xindex, #layout2>  // samples/softmax.tile:9
    %21 = "tile.lt"(%12, %20) : (tensor<1x1024xindex, #layout2>, tensor<1x1024xindex, #layout2>) -> tensor<1x1024xi1, #layout2>  // samples/softmax.tile:9
    %22 = "tile.broadcast"(%21) {shape = [4 : i64, 1024 : i64]} : (tensor<1x1024xi1, #layout2>) -> tensor<4x1024xi1, #layout1>  // samples/softmax.tile:9
    %23 = "tile.and"(%19, %22) : (tensor<4x1024xi1, #layout1>, tensor<4x1024xi1, #layout1>) -> tensor<4x1024xi1, #layout1>  // samples/softmax.tile:9
    %24 = "tile.broadcast"(%3) {shape = [4 : i64, 1024 : i64]} : (f16) -> tensor<4x1024xf16, #layout1>  // samples/softmax.tile:9
    %25 = "tile.load"(%x, %14, %23, %24) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4x1024xindex, #layout1>, tensor<4x1024xi1, #layout1>, tensor<4x1024xf16, #layout1>) -> tensor<4x1024xf16, #layout1>  // samples/softmax.tile:9
    %v = "tile.cast"(%25) {rounding = unit, saturate = false, to = f32} : (tensor<4x1024xf16, #layout1>) -> tensor<4x1024xf32, #layout1>  // samples/softmax.tile:9
    %26 = "tile.reduce"(%v) ({
    ^bb0(%27: f32, %28: f32):
      %29 = "tile.maximum"(%27, %28) : (f32, f32) -> f32  // samples/softmax.tile:10
      "tile.yield"(%29) : (f32) -> ()  // samples/softmax.tile:10
    }) {axis = 1 : i64} : (tensor<4x1024xf32, #layout1>) -> tensor<4xf32, #layout0>  // samples/softmax.tile:10
    %30 = "tile.reshape"(%26) {shape = [4 : i64, 1 : i64]} : (tensor<4xf32, #layout0>) -> tensor<4x1xf32, #layout0>  // samples/softmax.tile:10
    %31 = "tile.broadcast"(%30) {shape = [4 : i64, 1024 : i64]} : (tensor<4x1xf32, #layout0>) -> tensor<4x1024xf32, #layout1>  // samples/softmax.tile:10
    %32 = "tile.sub"(%v, %31) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // samples/softmax.tile:10
    %33 = "tile.constant"() {dtype = f32, value = 0xC08F400000000000 : f64} : () -> f32  // library/exp.tile:18
    %34 = "tile.constant"() {dtype = f32, value = 0x408F400000000000 : f64} : () -> f32  // library/exp.tile:18
    %35 = "tile.broadcast"(%33) {shape = [4 : i64, 1024 : i64]} : (f32) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:18
    %36 = "tile.maximum"(%32, %35) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:18
    %37 = "tile.broadcast"(%34) {shape = [4 : i64, 1024 : i64]} : (f32) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:18
    %c = "tile.minimum"(%36, %37) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:18
    %38 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:19
    %39 = "tile.broadcast"(%38) {shape = [4 : i64, 1024 : i64]} : (f32) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:19
    %hi = "tile.mul"(%c, %39) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:19
    %40 = "tile.neg"(%hi) : (tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:20
    %41 = "tile.fma"(%c, %39, %40) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:20
    %42 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:20
    %43 = "tile.broadcast"(%42) {shape = [4 : i64, 1024 : i64]} : (f32) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:20
    %lo = "tile.fma"(%c, %43, %41) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:20
    %44 = "tile.ex2.approx"(%hi) : (tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:21
    %45 = "tile.constant"() {dtype = f32, value = 0x3FE62E42FEFA39EF : f64} : () -> f32  // library/exp.tile:21
    %46 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // library/exp.tile:21
    %47 = "tile.broadcast"(%45) {shape = [4 : i64, 1024 : i64]} : (f32) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:21
    %48 = "tile.broadcast"(%46) {shape = [4 : i64, 1024 : i64]} : (f32) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:21
    %49 = "tile.fma"(%lo, %47, %48) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:21
    %e = "tile.mul"(%44, %49) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:21
    %50 = "tile.reduce"(%e) ({
    ^bb0(%51: f32, %52: f32):
      %53 = "tile.add"(%51, %52) : (f32, f32) -> f32  // samples/softmax.tile:11
      "tile.yield"(%53) : (f32) -> ()  // samples/softmax.tile:11
    }) {axis = 1 : i64} : (tensor<4x1024xf32, #layout1>) -> tensor<4xf32, #layout0>  // samples/softmax.tile:11
    %54 = "tile.reshape"(%50) {shape = [4 : i64, 1 : i64]} : (tensor<4xf32, #layout0>) -> tensor<4x1xf32, #layout0>  // samples/softmax.tile:11
    %55 = "tile.broadcast"(%46) {shape = [4 : i64, 1 : i64]} : (f32) -> tensor<4x1xf32, #layout0>  // samples/softmax.tile:11
    %56 = "tile.div"(%55, %54) : (tensor<4x1xf32, #layout0>, tensor<4x1xf32, #layout0>) -> tensor<4x1xf32, #layout0>  // samples/softmax.tile:11
    %57 = "tile.broadcast"(%56) {shape = [4 : i64, 1024 : i64]} : (tensor<4x1xf32, #layout0>) -> tensor<4x1024xf32, #layout1>  // samples/softmax.tile:11
    %58 = "tile.mul"(%e, %57) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // samples/softmax.tile:11
    %59 = "tile.cast"(%58) {rounding = unit, saturate = false, to = f16} : (tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf16, #layout1>  // samples/softmax.tile:11
    "tile.store"(%y, %14, %23, %59) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4x1024xindex, #layout1>, tensor<4x1024xi1, #layout1>, tensor<4x1024xf16, #layout1>) -> ()  // samples/softmax.tile:11
  }) {index_bits = 32 : i64, name = "softmax_registers", shared_bytes = 0 : i64, warps = 4 : i64} : () -> ()
}) : () -> ()
