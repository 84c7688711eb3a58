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
    %33 = "tile.constant"() {dtype = f32, value = 0xC062C00000000000 : f64} : () -> f32  // library/exp.tile:19
    %34 = "tile.constant"() {dtype = f32, value = 0x4062C00000000000 : f64} : () -> f32  // library/exp.tile:19
    %35 = "tile.broadcast"(%33) {shape = [4 : i64, 1024 : i64]} : (f32) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:19
    %36 = "tile.maximum"(%32, %35) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:19
    %37 = "tile.broadcast"(%34) {shape = [4 : i64, 1024 : i64]} : (f32) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:19
    %38 = "tile.minimum"(%36, %37) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:19
    %39 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:20
    %40 = "tile.constant"() {dtype = f32, value = 0xBFE0000000000000 : f64} : () -> f32  // library/exp.tile:20
    %41 = "tile.broadcast"(%39) {shape = [4 : i64, 1024 : i64]} : (f32) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:20
    %42 = "tile.broadcast"(%40) {shape = [4 : i64, 1024 : i64]} : (f32) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:20
    %43 = "tile.fma"(%38, %41, %42) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:20
    %44 = "tile.constant"() {dtype = f32, value = 0x4168000000000000 : f64} : () -> f32  // library/exp.tile:20
    %45 = "tile.broadcast"(%44) {shape = [4 : i64, 1024 : i64]} : (f32) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:20
    %46 = "tile.add"(%43, %45) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:20
    %47 = "tile.sub"(%46, %45) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:21
    %48 = "tile.neg"(%47) : (tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:22
    %49 = "tile.fma"(%38, %41, %48) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:22
    %50 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:22
    %51 = "tile.broadcast"(%50) {shape = [4 : i64, 1024 : i64]} : (f32) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:22
    %52 = "tile.fma"(%38, %51, %49) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:22
    %53 = "tile.bitcast"(%46) {to = si32} : (tensor<4x1024xf32, #layout1>) -> tensor<4x1024xsi32, #layout1>  // library/exp.tile:23
    %54 = "tile.constant"() {dtype = si32, value = 1 : i64} : () -> si32  // library/exp.tile:24
    %55 = "tile.broadcast"(%54) {shape = [4 : i64, 1024 : i64]} : (si32) -> tensor<4x1024xsi32, #layout1>  // library/exp.tile:24
    %56 = "tile.shr"(%53, %55) : (tensor<4x1024xsi32, #layout1>, tensor<4x1024xsi32, #layout1>) -> tensor<4x1024xsi32, #layout1>  // library/exp.tile:24
    %57 = "tile.ex2.approx.ftz"(%52) : (tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:25
    %58 = "tile.constant"() {dtype = si32, value = 127 : i64} : () -> si32  // library/exp.tile:25
    %59 = "tile.broadcast"(%58) {shape = [4 : i64, 1024 : i64]} : (si32) -> tensor<4x1024xsi32, #layout1>  // library/exp.tile:25
    %60 = "tile.add"(%56, %59) : (tensor<4x1024xsi32, #layout1>, tensor<4x1024xsi32, #layout1>) -> tensor<4x1024xsi32, #layout1>  // library/exp.tile:25
    %61 = "tile.constant"() {dtype = si32, value = 23 : i64} : () -> si32  // library/exp.tile:25
    %62 = "tile.broadcast"(%61) {shape = [4 : i64, 1024 : i64]} : (si32) -> tensor<4x1024xsi32, #layout1>  // library/exp.tile:25
    %63 = "tile.shl"(%60, %62) : (tensor<4x1024xsi32, #layout1>, tensor<4x1024xsi32, #layout1>) -> tensor<4x1024xsi32, #layout1>  // library/exp.tile:25
    %64 = "tile.bitcast"(%63) {to = f32} : (tensor<4x1024xsi32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:25
    %65 = "tile.mul"(%57, %64) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:25
    %66 = "tile.sub"(%53, %56) : (tensor<4x1024xsi32, #layout1>, tensor<4x1024xsi32, #layout1>) -> tensor<4x1024xsi32, #layout1>  // library/exp.tile:25
    %67 = "tile.add"(%66, %59) : (tensor<4x1024xsi32, #layout1>, tensor<4x1024xsi32, #layout1>) -> tensor<4x1024xsi32, #layout1>  // library/exp.tile:25
    %68 = "tile.shl"(%67, %62) : (tensor<4x1024xsi32, #layout1>, tensor<4x1024xsi32, #layout1>) -> tensor<4x1024xsi32, #layout1>  // library/exp.tile:25
    %69 = "tile.bitcast"(%68) {to = f32} : (tensor<4x1024xsi32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:25
    %e = "tile.mul"(%65, %69) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // library/exp.tile:25
    %70 = "tile.reduce"(%e) ({
    ^bb0(%71: f32, %72: f32):
      %73 = "tile.add"(%71, %72) : (f32, f32) -> f32  // samples/softmax.tile:11
      "tile.yield"(%73) : (f32) -> ()  // samples/softmax.tile:11
    }) {axis = 1 : i64} : (tensor<4x1024xf32, #layout1>) -> tensor<4xf32, #layout0>  // samples/softmax.tile:11
    %74 = "tile.reshape"(%70) {shape = [4 : i64, 1 : i64]} : (tensor<4xf32, #layout0>) -> tensor<4x1xf32, #layout0>  // samples/softmax.tile:11
    %75 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:11
    %76 = "tile.broadcast"(%75) {shape = [4 : i64, 1 : i64]} : (f32) -> tensor<4x1xf32, #layout0>  // samples/softmax.tile:11
    %77 = "tile.div"(%76, %74) : (tensor<4x1xf32, #layout0>, tensor<4x1xf32, #layout0>) -> tensor<4x1xf32, #layout0>  // samples/softmax.tile:11
    %78 = "tile.broadcast"(%77) {shape = [4 : i64, 1024 : i64]} : (tensor<4x1xf32, #layout0>) -> tensor<4x1024xf32, #layout1>  // samples/softmax.tile:11
    %79 = "tile.mul"(%e, %78) : (tensor<4x1024xf32, #layout1>, tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf32, #layout1>  // samples/softmax.tile:11
    %80 = "tile.cast"(%79) {rounding = unit, saturate = false, to = f16} : (tensor<4x1024xf32, #layout1>) -> tensor<4x1024xf16, #layout1>  // samples/softmax.tile:11
    "tile.store"(%y, %14, %23, %80) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4x1024xindex, #layout1>, tensor<4x1024xi1, #layout1>, tensor<4x1024xf16, #layout1>) -> ()  // samples/softmax.tile:11
  }) {index_bits = 32 : i64, name = "softmax_registers", shared_bytes = 0 : i64, warps = 4 : i64} : () -> ()
}) : () -> ()
