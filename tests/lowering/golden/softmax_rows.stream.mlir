#layout0 = {register = [], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
#layout1 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256, 512, 1024, 2048]}
#layout2 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2, 4, 8]}
#layout3 = {register = [1, 2, 4, 8], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%y: memref<?x?xf16, 1>, %x: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %scratch = "tile.shared_alloc"() {name = "scratch", offset = 0 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:14
    %scratch_0 = "tile.shared_alloc"() {name = "scratch", offset = 64 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:14
    %1 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:46
    %2 = "tile.constant"() {dtype = index, value = 1 : i64} : () -> index  // samples/softmax.tile:9
    %r = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:11
    %3 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:12
    %4 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:12
    %5 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:14
    %6 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:22
    %7 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:46
    %8 = "tile.broadcast"(%3) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %9 = "tile.arange"() {extent = 1 : i64} : () -> tensor<1xindex, #layout0>  // samples/softmax.tile:12
    %10 = "tile.reshape"(%9) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %11 = "tile.broadcast"(%cols) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %12 = "tile.mul"(%10, %11) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %13 = "tile.add"(%8, %12) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %14 = "tile.broadcast"(%13) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %15 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
    %16 = "tile.reshape"(%15) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %17 = "tile.add"(%14, %16) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %18 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %19 = "tile.lt"(%16, %18) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
    %20 = "tile.broadcast"(%4) {shape = [1 : i64, 4096 : i64]} : (f16) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
    %21 = "tile.load"(%x, %17, %19, %20) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
    %v = "tile.cast"(%21) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
    %22 = "tile.constant"() {dtype = index, value = 17 : i64} : () -> index  // samples/softmax.tile:7
    %23 = "tile.constant"() {dtype = index, value = 4 : i64} : () -> index  // samples/softmax.tile:7
    %24 = "tile.broadcast"(%5) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:14
    %25, %26 = "tile.for"(%2, %22, %23, %v, %24) ({
    ^bb0(%27: index, %28: tensor<1x4096xf32, #layout1>, %29: tensor<1x4096xf32, #layout1>):
      %30 = "tile.add"(%27, %2) : (index, index) -> index  // samples/softmax.tile:14
      %31 = "tile.constant"() {dtype = index, value = 2 : i64} : () -> index  // samples/softmax.tile:14
      %32 = "tile.add"(%27, %31) : (index, index) -> index  // samples/softmax.tile:14
      %33 = "tile.constant"() {dtype = index, value = 3 : i64} : () -> index  // samples/softmax.tile:14
      %34 = "tile.add"(%27, %33) : (index, index) -> index  // samples/softmax.tile:14
      %35 = "tile.mul"(%27, %7) : (index, index) -> index  // samples/softmax.tile:14
      %36 = "tile.broadcast"(%35) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %37 = "tile.add"(%36, %15) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %38 = "tile.reshape"(%37) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %39 = "tile.add"(%14, %38) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %40 = "tile.lt"(%38, %18) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %41 = "tile.load"(%x, %39, %40, %20) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %42 = "tile.mul"(%30, %7) : (index, index) -> index  // samples/softmax.tile:12
      %43 = "tile.broadcast"(%42) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %44 = "tile.add"(%43, %15) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %45 = "tile.reshape"(%44) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %46 = "tile.add"(%14, %45) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %47 = "tile.lt"(%45, %18) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %48 = "tile.load"(%x, %46, %47, %20) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %49 = "tile.mul"(%32, %7) : (index, index) -> index  // samples/softmax.tile:12
      %50 = "tile.broadcast"(%49) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %51 = "tile.add"(%50, %15) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %52 = "tile.reshape"(%51) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %53 = "tile.add"(%14, %52) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %54 = "tile.lt"(%52, %18) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %55 = "tile.load"(%x, %53, %54, %20) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %56 = "tile.mul"(%34, %7) : (index, index) -> index  // samples/softmax.tile:12
      %57 = "tile.broadcast"(%56) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %58 = "tile.add"(%57, %15) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %59 = "tile.reshape"(%58) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %60 = "tile.add"(%14, %59) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %61 = "tile.lt"(%59, %18) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %62 = "tile.load"(%x, %60, %61, %20) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %v_63 = "tile.cast"(%41) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %64 = "tile.maximum"(%28, %v_63) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:6
      %65 = "tile.eq"(%28, %64) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:7
      %66 = "tile.sub"(%28, %64) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %67 = "tile.broadcast"(%6) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %68 = "tile.mul"(%66, %67) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %69 = "tile.ex2.approx.ftz"(%68) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %70 = "tile.mul"(%29, %69) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %71 = "tile.select"(%65, %29, %70) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %72 = "tile.eq"(%v_63, %64) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:7
      %73 = "tile.sub"(%v_63, %64) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %74 = "tile.mul"(%73, %67) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %75 = "tile.ex2.approx.ftz"(%74) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %76 = "tile.mul"(%24, %75) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %77 = "tile.select"(%72, %24, %76) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %78 = "tile.add"(%71, %77) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %v_79 = "tile.cast"(%48) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %80 = "tile.maximum"(%64, %v_79) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:6
      %81 = "tile.eq"(%64, %80) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:7
      %82 = "tile.sub"(%64, %80) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %83 = "tile.mul"(%82, %67) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %84 = "tile.ex2.approx.ftz"(%83) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %85 = "tile.mul"(%78, %84) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %86 = "tile.select"(%81, %78, %85) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %87 = "tile.eq"(%v_79, %80) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:7
      %88 = "tile.sub"(%v_79, %80) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %89 = "tile.mul"(%88, %67) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %90 = "tile.ex2.approx.ftz"(%89) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %91 = "tile.mul"(%24, %90) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %92 = "tile.select"(%87, %24, %91) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %93 = "tile.add"(%86, %92) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %v_94 = "tile.cast"(%55) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %95 = "tile.maximum"(%80, %v_94) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:6
      %96 = "tile.eq"(%80, %95) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:7
      %97 = "tile.sub"(%80, %95) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %98 = "tile.mul"(%97, %67) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %99 = "tile.ex2.approx.ftz"(%98) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %100 = "tile.mul"(%93, %99) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %101 = "tile.select"(%96, %93, %100) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %102 = "tile.eq"(%v_94, %95) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:7
      %103 = "tile.sub"(%v_94, %95) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %104 = "tile.mul"(%103, %67) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %105 = "tile.ex2.approx.ftz"(%104) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %106 = "tile.mul"(%24, %105) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %107 = "tile.select"(%102, %24, %106) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %108 = "tile.add"(%101, %107) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %v_109 = "tile.cast"(%62) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %110 = "tile.maximum"(%95, %v_109) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:6
      %111 = "tile.eq"(%95, %110) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:7
      %112 = "tile.sub"(%95, %110) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %113 = "tile.mul"(%112, %67) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %114 = "tile.ex2.approx.ftz"(%113) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %115 = "tile.mul"(%108, %114) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %116 = "tile.select"(%111, %108, %115) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %117 = "tile.eq"(%v_109, %110) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:7
      %118 = "tile.sub"(%v_109, %110) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %119 = "tile.mul"(%118, %67) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %120 = "tile.ex2.approx.ftz"(%119) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %121 = "tile.mul"(%24, %120) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %122 = "tile.select"(%117, %24, %121) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      %123 = "tile.add"(%116, %122) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
      "tile.yield"(%110, %123) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> ()  // samples/softmax.tile:7
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>)  // samples/softmax.tile:7
    %124 = "tile.constant"() {dtype = index, value = 69632 : i64} : () -> index  // samples/softmax.tile:7
    %125 = "tile.broadcast"(%124) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
    %126 = "tile.add"(%125, %15) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
    %127 = "tile.reshape"(%126) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %128 = "tile.add"(%14, %127) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %129 = "tile.lt"(%127, %18) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
    %130 = "tile.load"(%x, %128, %129, %20) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
    %v_131 = "tile.cast"(%130) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
    %132 = "tile.maximum"(%25, %v_131) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:6
    %133 = "tile.eq"(%25, %132) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:7
    %134 = "tile.sub"(%25, %132) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %135 = "tile.broadcast"(%6) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %136 = "tile.mul"(%134, %135) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %137 = "tile.ex2.approx.ftz"(%136) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %138 = "tile.mul"(%26, %137) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %139 = "tile.select"(%133, %26, %138) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %140 = "tile.eq"(%v_131, %132) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:7
    %141 = "tile.sub"(%v_131, %132) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %142 = "tile.mul"(%141, %135) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %143 = "tile.ex2.approx.ftz"(%142) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %144 = "tile.mul"(%24, %143) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %145 = "tile.select"(%140, %24, %144) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %146 = "tile.add"(%139, %145) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %147, %148 = "tile.partial_reduce"(%132, %146) ({
    ^bb0(%149: f32, %150: f32, %151: f32, %152: f32):
      %top = "tile.maximum"(%149, %151) : (f32, f32) -> f32  // samples/softmax.tile:6
      %153 = "tile.eq"(%149, %top) : (f32, f32) -> i1  // samples/softmax.tile:7
      %154 = "tile.sub"(%149, %top) : (f32, f32) -> f32  // samples/softmax.tile:7
      %155 = "tile.mul"(%154, %6) : (f32, f32) -> f32  // samples/softmax.tile:7
      %156 = "tile.ex2.approx.ftz"(%155) : (f32) -> f32  // samples/softmax.tile:7
      %157 = "tile.mul"(%150, %156) : (f32, f32) -> f32  // samples/softmax.tile:7
      %158 = "tile.select"(%153, %150, %157) : (i1, f32, f32) -> f32  // samples/softmax.tile:7
      %159 = "tile.eq"(%151, %top) : (f32, f32) -> i1  // samples/softmax.tile:7
      %160 = "tile.sub"(%151, %top) : (f32, f32) -> f32  // samples/softmax.tile:7
      %161 = "tile.mul"(%160, %6) : (f32, f32) -> f32  // samples/softmax.tile:7
      %162 = "tile.ex2.approx.ftz"(%161) : (f32) -> f32  // samples/softmax.tile:7
      %163 = "tile.mul"(%152, %162) : (f32, f32) -> f32  // samples/softmax.tile:7
      %164 = "tile.select"(%159, %152, %163) : (i1, f32, f32) -> f32  // samples/softmax.tile:7
      %165 = "tile.add"(%158, %164) : (f32, f32) -> f32  // samples/softmax.tile:7
      "tile.yield"(%top, %165) : (f32, f32) -> ()  // samples/softmax.tile:7
    }) {axis = 1 : i64, parts = 16 : i64} : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> (tensor<1x16xf32, #layout2>, tensor<1x16xf32, #layout2>)  // samples/softmax.tile:14
    %166 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout2>  // samples/softmax.tile:14
    %167 = "tile.reshape"(%166) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout2>) -> tensor<1x16xindex, #layout2>  // samples/softmax.tile:14
    "tile.store"(%scratch, %167, %147) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout2>, tensor<1x16xf32, #layout2>) -> ()  // samples/softmax.tile:14
    %168 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout3>  // samples/softmax.tile:14
    %169 = "tile.reshape"(%168) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout3>) -> tensor<1x16xindex, #layout3>  // samples/softmax.tile:14
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:14
    %170 = "tile.load"(%scratch, %169) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>) -> tensor<1x16xf32, #layout3>  // samples/softmax.tile:14
    "tile.store"(%scratch_0, %167, %148) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout2>, tensor<1x16xf32, #layout2>) -> ()  // samples/softmax.tile:14
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:14
    %171 = "tile.load"(%scratch_0, %169) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>) -> tensor<1x16xf32, #layout3>  // samples/softmax.tile:14
    %top_172, %total = "tile.reduce"(%170, %171) ({
    ^bb0(%173: f32, %174: f32, %175: f32, %176: f32):
      %177 = "tile.maximum"(%173, %175) : (f32, f32) -> f32  // samples/softmax.tile:6
      %178 = "tile.eq"(%173, %177) : (f32, f32) -> i1  // samples/softmax.tile:7
      %179 = "tile.sub"(%173, %177) : (f32, f32) -> f32  // samples/softmax.tile:7
      %180 = "tile.mul"(%179, %6) : (f32, f32) -> f32  // samples/softmax.tile:7
      %181 = "tile.ex2.approx.ftz"(%180) : (f32) -> f32  // samples/softmax.tile:7
      %182 = "tile.mul"(%174, %181) : (f32, f32) -> f32  // samples/softmax.tile:7
      %183 = "tile.select"(%178, %174, %182) : (i1, f32, f32) -> f32  // samples/softmax.tile:7
      %184 = "tile.eq"(%175, %177) : (f32, f32) -> i1  // samples/softmax.tile:7
      %185 = "tile.sub"(%175, %177) : (f32, f32) -> f32  // samples/softmax.tile:7
      %186 = "tile.mul"(%185, %6) : (f32, f32) -> f32  // samples/softmax.tile:7
      %187 = "tile.ex2.approx.ftz"(%186) : (f32) -> f32  // samples/softmax.tile:7
      %188 = "tile.mul"(%176, %187) : (f32, f32) -> f32  // samples/softmax.tile:7
      %189 = "tile.select"(%184, %176, %188) : (i1, f32, f32) -> f32  // samples/softmax.tile:7
      %190 = "tile.add"(%183, %189) : (f32, f32) -> f32  // samples/softmax.tile:7
      "tile.yield"(%177, %190) : (f32, f32) -> ()  // samples/softmax.tile:7
    }) {axis = 1 : i64} : (tensor<1x16xf32, #layout3>, tensor<1x16xf32, #layout3>) -> (tensor<1xf32, #layout0>, tensor<1xf32, #layout0>)  // samples/softmax.tile:14
    %191 = "tile.reshape"(%top_172) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:18
    %192 = "tile.broadcast"(%5) {shape = [1 : i64]} : (f32) -> tensor<1xf32, #layout0>  // samples/softmax.tile:22
    %193 = "tile.div"(%192, %total) : (tensor<1xf32, #layout0>, tensor<1xf32, #layout0>) -> tensor<1xf32, #layout0>  // samples/softmax.tile:22
    %194 = "tile.reshape"(%193) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:22
    %195 = "tile.constant"() {dtype = index, value = 16 : i64} : () -> index  // samples/softmax.tile:22
    "tile.for"(%1, %195, %23) ({
    ^bb0(%196: index):
      %197 = "tile.add"(%196, %2) : (index, index) -> index  // samples/softmax.tile:14
      %198 = "tile.constant"() {dtype = index, value = 2 : i64} : () -> index  // samples/softmax.tile:14
      %199 = "tile.add"(%196, %198) : (index, index) -> index  // samples/softmax.tile:14
      %200 = "tile.constant"() {dtype = index, value = 3 : i64} : () -> index  // samples/softmax.tile:14
      %201 = "tile.add"(%196, %200) : (index, index) -> index  // samples/softmax.tile:14
      %202 = "tile.mul"(%196, %7) : (index, index) -> index  // samples/softmax.tile:14
      %203 = "tile.broadcast"(%202) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %204 = "tile.add"(%203, %15) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %205 = "tile.reshape"(%204) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %206 = "tile.add"(%14, %205) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %207 = "tile.lt"(%205, %18) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %208 = "tile.load"(%x, %206, %207, %20) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %209 = "tile.mul"(%197, %7) : (index, index) -> index  // samples/softmax.tile:12
      %210 = "tile.broadcast"(%209) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %211 = "tile.add"(%210, %15) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %212 = "tile.reshape"(%211) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %213 = "tile.add"(%14, %212) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %214 = "tile.lt"(%212, %18) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %215 = "tile.load"(%x, %213, %214, %20) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %216 = "tile.mul"(%199, %7) : (index, index) -> index  // samples/softmax.tile:12
      %217 = "tile.broadcast"(%216) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %218 = "tile.add"(%217, %15) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %219 = "tile.reshape"(%218) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %220 = "tile.add"(%14, %219) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %221 = "tile.lt"(%219, %18) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %222 = "tile.load"(%x, %220, %221, %20) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %223 = "tile.mul"(%201, %7) : (index, index) -> index  // samples/softmax.tile:12
      %224 = "tile.broadcast"(%223) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %225 = "tile.add"(%224, %15) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %226 = "tile.reshape"(%225) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %227 = "tile.add"(%14, %226) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %228 = "tile.lt"(%226, %18) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %229 = "tile.load"(%x, %227, %228, %20) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %v_230 = "tile.cast"(%208) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %231 = "tile.broadcast"(%191) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:18
      %d = "tile.sub"(%v_230, %231) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:18
      %232 = "tile.mul"(%d, %135) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %233 = "tile.ex2.approx.ftz"(%232) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %234 = "tile.broadcast"(%194) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %235 = "tile.mul"(%233, %234) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %236 = "tile.cast"(%235) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:22
      "tile.store"(%y, %206, %207, %236) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"], order = "none"} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:22
      %v_237 = "tile.cast"(%215) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %d_238 = "tile.sub"(%v_237, %231) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:18
      %239 = "tile.mul"(%d_238, %135) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %240 = "tile.ex2.approx.ftz"(%239) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %241 = "tile.mul"(%240, %234) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %242 = "tile.cast"(%241) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:22
      "tile.store"(%y, %213, %214, %242) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"], order = "none"} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:22
      %v_243 = "tile.cast"(%222) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %d_244 = "tile.sub"(%v_243, %231) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:18
      %245 = "tile.mul"(%d_244, %135) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %246 = "tile.ex2.approx.ftz"(%245) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %247 = "tile.mul"(%246, %234) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %248 = "tile.cast"(%247) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:22
      "tile.store"(%y, %220, %221, %248) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"], order = "none"} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:22
      %v_249 = "tile.cast"(%229) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %d_250 = "tile.sub"(%v_249, %231) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:18
      %251 = "tile.mul"(%d_250, %135) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %252 = "tile.ex2.approx.ftz"(%251) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %253 = "tile.mul"(%252, %234) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %254 = "tile.cast"(%253) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:22
      "tile.store"(%y, %227, %228, %254) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"], order = "none"} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:22
      "tile.yield"() : () -> ()  // samples/softmax.tile:22
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:22
    %255 = "tile.constant"() {dtype = index, value = 65536 : i64} : () -> index  // samples/softmax.tile:22
    %256 = "tile.broadcast"(%255) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
    %257 = "tile.add"(%256, %15) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
    %258 = "tile.reshape"(%257) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %259 = "tile.add"(%14, %258) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %260 = "tile.lt"(%258, %18) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
    %261 = "tile.load"(%x, %259, %260, %20) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
    %262 = "tile.load"(%x, %128, %129, %20) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
    %v_263 = "tile.cast"(%261) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
    %264 = "tile.broadcast"(%191) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:18
    %d_265 = "tile.sub"(%v_263, %264) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:18
    %266 = "tile.mul"(%d_265, %135) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
    %267 = "tile.ex2.approx.ftz"(%266) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
    %268 = "tile.broadcast"(%194) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
    %269 = "tile.mul"(%267, %268) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
    %270 = "tile.cast"(%269) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:22
    "tile.store"(%y, %259, %260, %270) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"], order = "none"} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:22
    %v_271 = "tile.cast"(%262) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
    %d_272 = "tile.sub"(%v_271, %264) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:18
    %273 = "tile.mul"(%d_272, %135) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
    %274 = "tile.ex2.approx.ftz"(%273) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
    %275 = "tile.mul"(%274, %268) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
    %276 = "tile.cast"(%275) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:22
    "tile.store"(%y, %128, %129, %276) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"], order = "none"} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:22
  }) {align = {v = 8 : i64}, index_bits = 32 : i64, loop = {v = [1 : i64, 4096 : i64, false]}, math = {exp = "fast"}, name = "softmax_rows", shared_align = 16 : i64, shared_bytes = 128 : i64, stage = {}, warps = 16 : i64} : () -> ()
}) : () -> ()
