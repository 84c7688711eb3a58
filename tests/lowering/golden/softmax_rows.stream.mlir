#layout0 = {register = [], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
#layout1 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256, 512, 1024, 2048]}
#layout2 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2, 4, 8]}
#layout3 = {register = [1, 2, 4, 8], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%y: memref<?x?xf16, 1>, %x: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %scratch = "tile.shared_alloc"() {name = "scratch", offset = 0 : i64, own = true, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:14
    %scratch_0 = "tile.shared_alloc"() {name = "scratch", offset = 64 : i64, own = true, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:14
    %1 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:45
    %2 = "tile.constant"() {dtype = index, value = 1 : i64} : () -> index  // samples/softmax.tile:9
    %r = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:11
    %3 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:12
    %4 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:12
    %5 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:14
    %6 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:22
    %7 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:45
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
    %22 = "tile.constant"() {dtype = index, value = 17 : i64} : () -> index  // samples/softmax.tile:14
    %23 = "tile.constant"() {dtype = index, value = 4 : i64} : () -> index  // samples/softmax.tile:14
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
      "tile.yield"(%110, %123) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> ()  // samples/softmax.tile:14
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>)  // samples/softmax.tile:14
    %124 = "tile.broadcast"(%3) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %125 = "tile.arange"() {extent = 1 : i64} : () -> tensor<1xindex, #layout0>  // samples/softmax.tile:12
    %126 = "tile.reshape"(%125) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %127 = "tile.broadcast"(%cols) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %128 = "tile.mul"(%126, %127) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %129 = "tile.add"(%124, %128) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %130 = "tile.broadcast"(%129) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %131 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
    %132 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %133 = "tile.broadcast"(%4) {shape = [1 : i64, 4096 : i64]} : (f16) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
    %134 = "tile.broadcast"(%5) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:14
    %135 = "tile.constant"() {dtype = index, value = 69632 : i64} : () -> index  // samples/softmax.tile:14
    %136 = "tile.broadcast"(%135) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
    %137 = "tile.add"(%136, %131) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
    %138 = "tile.reshape"(%137) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %139 = "tile.add"(%130, %138) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %140 = "tile.lt"(%138, %132) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
    %141 = "tile.load"(%x, %139, %140, %133) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
    %v_142 = "tile.cast"(%141) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
    %143 = "tile.maximum"(%25, %v_142) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:6
    %144 = "tile.eq"(%25, %143) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:7
    %145 = "tile.sub"(%25, %143) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %146 = "tile.broadcast"(%6) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %147 = "tile.mul"(%145, %146) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %148 = "tile.ex2.approx.ftz"(%147) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %149 = "tile.mul"(%26, %148) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %150 = "tile.select"(%144, %26, %149) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %151 = "tile.eq"(%v_142, %143) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:7
    %152 = "tile.sub"(%v_142, %143) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %153 = "tile.mul"(%152, %146) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %154 = "tile.ex2.approx.ftz"(%153) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %155 = "tile.mul"(%134, %154) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %156 = "tile.select"(%151, %134, %155) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %157 = "tile.add"(%150, %156) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %158, %159 = "tile.partial_reduce"(%143, %157) ({
    ^bb0(%160: f32, %161: f32, %162: f32, %163: f32):
      %top = "tile.maximum"(%160, %162) : (f32, f32) -> f32  // samples/softmax.tile:6
      %164 = "tile.eq"(%160, %top) : (f32, f32) -> i1  // samples/softmax.tile:7
      %165 = "tile.sub"(%160, %top) : (f32, f32) -> f32  // samples/softmax.tile:7
      %166 = "tile.mul"(%165, %6) : (f32, f32) -> f32  // samples/softmax.tile:7
      %167 = "tile.ex2.approx.ftz"(%166) : (f32) -> f32  // samples/softmax.tile:7
      %168 = "tile.mul"(%161, %167) : (f32, f32) -> f32  // samples/softmax.tile:7
      %169 = "tile.select"(%164, %161, %168) : (i1, f32, f32) -> f32  // samples/softmax.tile:7
      %170 = "tile.eq"(%162, %top) : (f32, f32) -> i1  // samples/softmax.tile:7
      %171 = "tile.sub"(%162, %top) : (f32, f32) -> f32  // samples/softmax.tile:7
      %172 = "tile.mul"(%171, %6) : (f32, f32) -> f32  // samples/softmax.tile:7
      %173 = "tile.ex2.approx.ftz"(%172) : (f32) -> f32  // samples/softmax.tile:7
      %174 = "tile.mul"(%163, %173) : (f32, f32) -> f32  // samples/softmax.tile:7
      %175 = "tile.select"(%170, %163, %174) : (i1, f32, f32) -> f32  // samples/softmax.tile:7
      %176 = "tile.add"(%169, %175) : (f32, f32) -> f32  // samples/softmax.tile:7
      "tile.yield"(%top, %176) : (f32, f32) -> ()  // samples/softmax.tile:7
    }) {axis = 1 : i64, parts = 16 : i64} : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> (tensor<1x16xf32, #layout2>, tensor<1x16xf32, #layout2>)  // samples/softmax.tile:14
    %177 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout2>  // samples/softmax.tile:14
    %178 = "tile.reshape"(%177) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout2>) -> tensor<1x16xindex, #layout2>  // samples/softmax.tile:14
    "tile.store"(%scratch, %178, %158) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout2>, tensor<1x16xf32, #layout2>) -> ()  // samples/softmax.tile:14
    %179 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout3>  // samples/softmax.tile:14
    %180 = "tile.reshape"(%179) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout3>) -> tensor<1x16xindex, #layout3>  // samples/softmax.tile:14
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:14
    %181 = "tile.load"(%scratch, %180) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>) -> tensor<1x16xf32, #layout3>  // samples/softmax.tile:14
    "tile.store"(%scratch_0, %178, %159) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout2>, tensor<1x16xf32, #layout2>) -> ()  // samples/softmax.tile:14
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:14
    %182 = "tile.load"(%scratch_0, %180) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>) -> tensor<1x16xf32, #layout3>  // samples/softmax.tile:14
    %top_183, %total = "tile.reduce"(%181, %182) ({
    ^bb0(%184: f32, %185: f32, %186: f32, %187: f32):
      %188 = "tile.maximum"(%184, %186) : (f32, f32) -> f32  // samples/softmax.tile:6
      %189 = "tile.eq"(%184, %188) : (f32, f32) -> i1  // samples/softmax.tile:7
      %190 = "tile.sub"(%184, %188) : (f32, f32) -> f32  // samples/softmax.tile:7
      %191 = "tile.mul"(%190, %6) : (f32, f32) -> f32  // samples/softmax.tile:7
      %192 = "tile.ex2.approx.ftz"(%191) : (f32) -> f32  // samples/softmax.tile:7
      %193 = "tile.mul"(%185, %192) : (f32, f32) -> f32  // samples/softmax.tile:7
      %194 = "tile.select"(%189, %185, %193) : (i1, f32, f32) -> f32  // samples/softmax.tile:7
      %195 = "tile.eq"(%186, %188) : (f32, f32) -> i1  // samples/softmax.tile:7
      %196 = "tile.sub"(%186, %188) : (f32, f32) -> f32  // samples/softmax.tile:7
      %197 = "tile.mul"(%196, %6) : (f32, f32) -> f32  // samples/softmax.tile:7
      %198 = "tile.ex2.approx.ftz"(%197) : (f32) -> f32  // samples/softmax.tile:7
      %199 = "tile.mul"(%187, %198) : (f32, f32) -> f32  // samples/softmax.tile:7
      %200 = "tile.select"(%195, %187, %199) : (i1, f32, f32) -> f32  // samples/softmax.tile:7
      %201 = "tile.add"(%194, %200) : (f32, f32) -> f32  // samples/softmax.tile:7
      "tile.yield"(%188, %201) : (f32, f32) -> ()  // samples/softmax.tile:7
    }) {axis = 1 : i64} : (tensor<1x16xf32, #layout3>, tensor<1x16xf32, #layout3>) -> (tensor<1xf32, #layout0>, tensor<1xf32, #layout0>)  // samples/softmax.tile:14
    %202 = "tile.reshape"(%top_183) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:18
    %203 = "tile.broadcast"(%5) {shape = [1 : i64]} : (f32) -> tensor<1xf32, #layout0>  // samples/softmax.tile:22
    %204 = "tile.div"(%203, %total) : (tensor<1xf32, #layout0>, tensor<1xf32, #layout0>) -> tensor<1xf32, #layout0>  // samples/softmax.tile:22
    %205 = "tile.reshape"(%204) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:22
    %206 = "tile.constant"() {dtype = index, value = 16 : i64} : () -> index  // samples/softmax.tile:22
    "tile.for"(%1, %206, %23) ({
    ^bb0(%207: index):
      %208 = "tile.add"(%207, %2) : (index, index) -> index  // samples/softmax.tile:14
      %209 = "tile.constant"() {dtype = index, value = 2 : i64} : () -> index  // samples/softmax.tile:14
      %210 = "tile.add"(%207, %209) : (index, index) -> index  // samples/softmax.tile:14
      %211 = "tile.constant"() {dtype = index, value = 3 : i64} : () -> index  // samples/softmax.tile:14
      %212 = "tile.add"(%207, %211) : (index, index) -> index  // samples/softmax.tile:14
      %213 = "tile.mul"(%207, %7) : (index, index) -> index  // samples/softmax.tile:14
      %214 = "tile.broadcast"(%213) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %215 = "tile.add"(%214, %131) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %216 = "tile.reshape"(%215) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %217 = "tile.add"(%130, %216) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %218 = "tile.lt"(%216, %132) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %219 = "tile.load"(%x, %217, %218, %133) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %220 = "tile.mul"(%208, %7) : (index, index) -> index  // samples/softmax.tile:12
      %221 = "tile.broadcast"(%220) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %222 = "tile.add"(%221, %131) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %223 = "tile.reshape"(%222) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %224 = "tile.add"(%130, %223) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %225 = "tile.lt"(%223, %132) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %226 = "tile.load"(%x, %224, %225, %133) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %227 = "tile.mul"(%210, %7) : (index, index) -> index  // samples/softmax.tile:12
      %228 = "tile.broadcast"(%227) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %229 = "tile.add"(%228, %131) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %230 = "tile.reshape"(%229) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %231 = "tile.add"(%130, %230) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %232 = "tile.lt"(%230, %132) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %233 = "tile.load"(%x, %231, %232, %133) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %234 = "tile.mul"(%212, %7) : (index, index) -> index  // samples/softmax.tile:12
      %235 = "tile.broadcast"(%234) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %236 = "tile.add"(%235, %131) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %237 = "tile.reshape"(%236) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %238 = "tile.add"(%130, %237) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %239 = "tile.lt"(%237, %132) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %240 = "tile.load"(%x, %238, %239, %133) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %v_241 = "tile.cast"(%219) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %242 = "tile.broadcast"(%202) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:18
      %d = "tile.sub"(%v_241, %242) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:18
      %243 = "tile.mul"(%d, %146) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %244 = "tile.ex2.approx.ftz"(%243) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %245 = "tile.broadcast"(%205) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %246 = "tile.mul"(%244, %245) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %247 = "tile.cast"(%246) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:22
      "tile.store"(%y, %217, %218, %247) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"], order = "none"} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:22
      %v_248 = "tile.cast"(%226) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %d_249 = "tile.sub"(%v_248, %242) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:18
      %250 = "tile.mul"(%d_249, %146) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %251 = "tile.ex2.approx.ftz"(%250) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %252 = "tile.mul"(%251, %245) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %253 = "tile.cast"(%252) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:22
      "tile.store"(%y, %224, %225, %253) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"], order = "none"} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:22
      %v_254 = "tile.cast"(%233) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %d_255 = "tile.sub"(%v_254, %242) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:18
      %256 = "tile.mul"(%d_255, %146) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %257 = "tile.ex2.approx.ftz"(%256) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %258 = "tile.mul"(%257, %245) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %259 = "tile.cast"(%258) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:22
      "tile.store"(%y, %231, %232, %259) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"], order = "none"} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:22
      %v_260 = "tile.cast"(%240) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %d_261 = "tile.sub"(%v_260, %242) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:18
      %262 = "tile.mul"(%d_261, %146) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %263 = "tile.ex2.approx.ftz"(%262) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %264 = "tile.mul"(%263, %245) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %265 = "tile.cast"(%264) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:22
      "tile.store"(%y, %238, %239, %265) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"], order = "none"} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:22
      "tile.yield"() : () -> ()  // samples/softmax.tile:22
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:22
    %266 = "tile.broadcast"(%3) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %267 = "tile.arange"() {extent = 1 : i64} : () -> tensor<1xindex, #layout0>  // samples/softmax.tile:12
    %268 = "tile.reshape"(%267) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %269 = "tile.broadcast"(%cols) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %270 = "tile.mul"(%268, %269) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %271 = "tile.add"(%266, %270) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %272 = "tile.broadcast"(%271) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %273 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
    %274 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %275 = "tile.broadcast"(%4) {shape = [1 : i64, 4096 : i64]} : (f16) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
    %276 = "tile.broadcast"(%135) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
    %277 = "tile.add"(%276, %273) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
    %278 = "tile.reshape"(%277) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %279 = "tile.add"(%272, %278) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %280 = "tile.lt"(%278, %274) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
    %281 = "tile.broadcast"(%6) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:7
    %282 = "tile.constant"() {dtype = index, value = 65536 : i64} : () -> index  // samples/softmax.tile:22
    %283 = "tile.broadcast"(%282) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
    %284 = "tile.add"(%283, %273) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
    %285 = "tile.reshape"(%284) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %286 = "tile.add"(%272, %285) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
    %287 = "tile.lt"(%285, %274) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
    %288 = "tile.load"(%x, %286, %287, %275) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
    %289 = "tile.load"(%x, %279, %280, %275) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
    %v_290 = "tile.cast"(%288) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
    %291 = "tile.broadcast"(%202) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:18
    %d_292 = "tile.sub"(%v_290, %291) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:18
    %293 = "tile.mul"(%d_292, %281) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
    %294 = "tile.ex2.approx.ftz"(%293) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
    %295 = "tile.broadcast"(%205) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
    %296 = "tile.mul"(%294, %295) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
    %297 = "tile.cast"(%296) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:22
    "tile.store"(%y, %286, %287, %297) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"], order = "none"} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:22
    %v_298 = "tile.cast"(%289) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
    %d_299 = "tile.sub"(%v_298, %291) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:18
    %300 = "tile.mul"(%d_299, %281) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
    %301 = "tile.ex2.approx.ftz"(%300) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
    %302 = "tile.mul"(%301, %295) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
    %303 = "tile.cast"(%302) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:22
    "tile.store"(%y, %279, %280, %303) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"], order = "none"} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:22
  }) {index_bits = 32 : i64, loop = {v = [1 : i64, 4096 : i64, false]}, math = {exp = "fast"}, name = "softmax_rows", shared_align = 16 : i64, shared_bytes = 128 : i64, stage = {}, warps = 16 : i64} : () -> ()
}) : () -> ()
