#layout0 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256, 512, 1024, 2048]}
#layout1 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2, 4, 8]}
#layout2 = {register = [1, 2, 4, 8], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%y: memref<?x?xf16, 1>, %x: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %scratch = "tile.shared_alloc"() {name = "scratch", offset = 0 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:46
    %scratch_0 = "tile.shared_alloc"() {name = "scratch", offset = 64 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:46
    %r = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:40
    %1 = "tile.constant"() {dtype = f32, value = 0xFFF0000000000000 : f64} : () -> f32  // samples/softmax.tile:41
    %m = "tile.broadcast"(%1) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:41
    %2 = "tile.constant"() {dtype = f32, value = 0x0000000000000000 : f64} : () -> f32  // samples/softmax.tile:42
    %z = "tile.broadcast"(%2) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:42
    %3 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:42
    %4 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:42
    %5 = "tile.constant"() {dtype = index, value = 16384 : i64} : () -> index  // samples/softmax.tile:43
    %6 = "tile.sub"(%cols, %3) : (index, index) -> index  // samples/softmax.tile:43
    %7 = "tile.floordiv"(%6, %5) : (index, index) -> index  // samples/softmax.tile:43
    %8 = "tile.maximum"(%7, %3) : (index, index) -> index  // samples/softmax.tile:43
    %9 = "tile.mul"(%8, %5) : (index, index) -> index  // samples/softmax.tile:43
    %10 = "tile.add"(%3, %9) : (index, index) -> index  // samples/softmax.tile:43
    %11, %12 = "tile.for"(%3, %10, %5, %m, %z) ({
    ^bb0(%i: index, %m_13: tensor<4096xf32, #layout0>, %z_14: tensor<4096xf32, #layout0>):
      %15 = "tile.add"(%i, %4) : (index, index) -> index  // samples/softmax.tile:44
      %16 = "tile.lt"(%r, %rows) : (index, index) -> i1  // samples/softmax.tile:44
      %17 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:44
      %18 = "tile.add"(%17, %i) : (index, index) -> index  // samples/softmax.tile:44
      %19 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:44
      %20 = "tile.broadcast"(%18) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %21 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %22 = "tile.add"(%20, %21) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %23 = "tile.broadcast"(%16) {shape = [4096 : i64]} : (i1) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:44
      %24 = "tile.broadcast"(%i) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %25 = "tile.add"(%24, %21) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %26 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %27 = "tile.lt"(%25, %26) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:44
      %28 = "tile.and"(%23, %27) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:44
      %29 = "tile.broadcast"(%19) {shape = [4096 : i64]} : (f16) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:44
      %30 = "tile.load"(%x, %22, %28, %29) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:44
      %v = "tile.cast"(%30) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:44
      %31 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:45
      %top = "tile.maximum"(%m_13, %v) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:34
      %32 = "tile.eq"(%m_13, %top) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:35
      %33 = "tile.sub"(%m_13, %top) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %34 = "tile.constant"() {dtype = f32, value = 0xC062C00000000000 : f64} : () -> f32  // library/exp.tile:19
      %35 = "tile.constant"() {dtype = f32, value = 0x4062C00000000000 : f64} : () -> f32  // library/exp.tile:19
      %36 = "tile.broadcast"(%34) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %37 = "tile.maximum"(%33, %36) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %38 = "tile.broadcast"(%35) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %39 = "tile.minimum"(%37, %38) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %40 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:20
      %41 = "tile.constant"() {dtype = f32, value = 0xBFE0000000000000 : f64} : () -> f32  // library/exp.tile:20
      %42 = "tile.broadcast"(%40) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %43 = "tile.broadcast"(%41) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %44 = "tile.fma"(%39, %42, %43) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %45 = "tile.constant"() {dtype = f32, value = 0x4168000000000000 : f64} : () -> f32  // library/exp.tile:20
      %46 = "tile.broadcast"(%45) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %47 = "tile.add"(%44, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %48 = "tile.sub"(%47, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %49 = "tile.neg"(%48) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %50 = "tile.fma"(%39, %42, %49) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %51 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:22
      %52 = "tile.broadcast"(%51) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %53 = "tile.fma"(%39, %52, %50) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %54 = "tile.bitcast"(%47) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
      %55 = "tile.constant"() {dtype = si32, value = 1 : i64} : () -> si32  // library/exp.tile:24
      %56 = "tile.broadcast"(%55) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %57 = "tile.shr"(%54, %56) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %58 = "tile.ex2.approx.ftz"(%53) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %59 = "tile.constant"() {dtype = si32, value = 127 : i64} : () -> si32  // library/exp.tile:25
      %60 = "tile.broadcast"(%59) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %61 = "tile.add"(%57, %60) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %62 = "tile.constant"() {dtype = si32, value = 23 : i64} : () -> si32  // library/exp.tile:25
      %63 = "tile.broadcast"(%62) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %64 = "tile.shl"(%61, %63) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %65 = "tile.bitcast"(%64) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %66 = "tile.mul"(%58, %65) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %67 = "tile.sub"(%54, %57) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %68 = "tile.add"(%67, %60) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %69 = "tile.shl"(%68, %63) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %70 = "tile.bitcast"(%69) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %71 = "tile.mul"(%66, %70) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %72 = "tile.mul"(%z_14, %71) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %73 = "tile.select"(%32, %z_14, %72) : (tensor<4096xi1, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %74 = "tile.eq"(%v, %top) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:35
      %75 = "tile.sub"(%v, %top) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %76 = "tile.maximum"(%75, %36) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %77 = "tile.minimum"(%76, %38) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %78 = "tile.fma"(%77, %42, %43) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %79 = "tile.add"(%78, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %80 = "tile.sub"(%79, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %81 = "tile.neg"(%80) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %82 = "tile.fma"(%77, %42, %81) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %83 = "tile.fma"(%77, %52, %82) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %84 = "tile.bitcast"(%79) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
      %85 = "tile.shr"(%84, %56) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %86 = "tile.ex2.approx.ftz"(%83) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %87 = "tile.add"(%85, %60) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %88 = "tile.shl"(%87, %63) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %89 = "tile.bitcast"(%88) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %90 = "tile.mul"(%86, %89) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %91 = "tile.sub"(%84, %85) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %92 = "tile.add"(%91, %60) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %93 = "tile.shl"(%92, %63) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %94 = "tile.bitcast"(%93) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %95 = "tile.mul"(%90, %94) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %96 = "tile.broadcast"(%31) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:45
      %97 = "tile.mul"(%96, %95) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %98 = "tile.select"(%74, %96, %97) : (tensor<4096xi1, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %z_99 = "tile.add"(%73, %98) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %100 = "tile.add"(%17, %15) : (index, index) -> index  // samples/softmax.tile:44
      %101 = "tile.broadcast"(%100) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %102 = "tile.add"(%101, %21) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %103 = "tile.broadcast"(%15) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %104 = "tile.add"(%103, %21) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %105 = "tile.lt"(%104, %26) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:44
      %106 = "tile.and"(%23, %105) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:44
      %107 = "tile.load"(%x, %102, %106, %29) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:44
      %v_108 = "tile.cast"(%107) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:44
      %top_109 = "tile.maximum"(%top, %v_108) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:34
      %110 = "tile.eq"(%top, %top_109) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:35
      %111 = "tile.sub"(%top, %top_109) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %112 = "tile.maximum"(%111, %36) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %113 = "tile.minimum"(%112, %38) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %114 = "tile.fma"(%113, %42, %43) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %115 = "tile.add"(%114, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %116 = "tile.sub"(%115, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %117 = "tile.neg"(%116) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %118 = "tile.fma"(%113, %42, %117) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %119 = "tile.fma"(%113, %52, %118) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %120 = "tile.bitcast"(%115) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
      %121 = "tile.shr"(%120, %56) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %122 = "tile.ex2.approx.ftz"(%119) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %123 = "tile.add"(%121, %60) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %124 = "tile.shl"(%123, %63) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %125 = "tile.bitcast"(%124) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %126 = "tile.mul"(%122, %125) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %127 = "tile.sub"(%120, %121) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %128 = "tile.add"(%127, %60) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %129 = "tile.shl"(%128, %63) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %130 = "tile.bitcast"(%129) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %131 = "tile.mul"(%126, %130) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %132 = "tile.mul"(%z_99, %131) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %133 = "tile.select"(%110, %z_99, %132) : (tensor<4096xi1, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %134 = "tile.eq"(%v_108, %top_109) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:35
      %135 = "tile.sub"(%v_108, %top_109) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %136 = "tile.maximum"(%135, %36) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %137 = "tile.minimum"(%136, %38) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %138 = "tile.fma"(%137, %42, %43) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %139 = "tile.add"(%138, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %140 = "tile.sub"(%139, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %141 = "tile.neg"(%140) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %142 = "tile.fma"(%137, %42, %141) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %143 = "tile.fma"(%137, %52, %142) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %144 = "tile.bitcast"(%139) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
      %145 = "tile.shr"(%144, %56) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %146 = "tile.ex2.approx.ftz"(%143) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %147 = "tile.add"(%145, %60) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %148 = "tile.shl"(%147, %63) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %149 = "tile.bitcast"(%148) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %150 = "tile.mul"(%146, %149) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %151 = "tile.sub"(%144, %145) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %152 = "tile.add"(%151, %60) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %153 = "tile.shl"(%152, %63) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %154 = "tile.bitcast"(%153) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %155 = "tile.mul"(%150, %154) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %156 = "tile.mul"(%96, %155) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %157 = "tile.select"(%134, %96, %156) : (tensor<4096xi1, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %z_158 = "tile.add"(%133, %157) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %159 = "tile.constant"() {dtype = index, value = 8192 : i64} : () -> index  // samples/softmax.tile:43
      %160 = "tile.add"(%i, %159) : (index, index) -> index  // samples/softmax.tile:43
      %161 = "tile.add"(%17, %160) : (index, index) -> index  // samples/softmax.tile:44
      %162 = "tile.broadcast"(%161) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %163 = "tile.add"(%162, %21) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %164 = "tile.broadcast"(%160) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %165 = "tile.add"(%164, %21) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %166 = "tile.lt"(%165, %26) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:44
      %167 = "tile.and"(%23, %166) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:44
      %168 = "tile.load"(%x, %163, %167, %29) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:44
      %v_169 = "tile.cast"(%168) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:44
      %top_170 = "tile.maximum"(%top_109, %v_169) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:34
      %171 = "tile.eq"(%top_109, %top_170) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:35
      %172 = "tile.sub"(%top_109, %top_170) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %173 = "tile.maximum"(%172, %36) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %174 = "tile.minimum"(%173, %38) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %175 = "tile.fma"(%174, %42, %43) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %176 = "tile.add"(%175, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %177 = "tile.sub"(%176, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %178 = "tile.neg"(%177) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %179 = "tile.fma"(%174, %42, %178) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %180 = "tile.fma"(%174, %52, %179) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %181 = "tile.bitcast"(%176) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
      %182 = "tile.shr"(%181, %56) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %183 = "tile.ex2.approx.ftz"(%180) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %184 = "tile.add"(%182, %60) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %185 = "tile.shl"(%184, %63) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %186 = "tile.bitcast"(%185) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %187 = "tile.mul"(%183, %186) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %188 = "tile.sub"(%181, %182) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %189 = "tile.add"(%188, %60) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %190 = "tile.shl"(%189, %63) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %191 = "tile.bitcast"(%190) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %192 = "tile.mul"(%187, %191) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %193 = "tile.mul"(%z_158, %192) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %194 = "tile.select"(%171, %z_158, %193) : (tensor<4096xi1, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %195 = "tile.eq"(%v_169, %top_170) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:35
      %196 = "tile.sub"(%v_169, %top_170) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %197 = "tile.maximum"(%196, %36) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %198 = "tile.minimum"(%197, %38) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %199 = "tile.fma"(%198, %42, %43) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %200 = "tile.add"(%199, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %201 = "tile.sub"(%200, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %202 = "tile.neg"(%201) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %203 = "tile.fma"(%198, %42, %202) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %204 = "tile.fma"(%198, %52, %203) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %205 = "tile.bitcast"(%200) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
      %206 = "tile.shr"(%205, %56) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %207 = "tile.ex2.approx.ftz"(%204) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %208 = "tile.add"(%206, %60) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %209 = "tile.shl"(%208, %63) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %210 = "tile.bitcast"(%209) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %211 = "tile.mul"(%207, %210) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %212 = "tile.sub"(%205, %206) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %213 = "tile.add"(%212, %60) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %214 = "tile.shl"(%213, %63) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %215 = "tile.bitcast"(%214) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %216 = "tile.mul"(%211, %215) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %217 = "tile.mul"(%96, %216) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %218 = "tile.select"(%195, %96, %217) : (tensor<4096xi1, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %z_219 = "tile.add"(%194, %218) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %220 = "tile.constant"() {dtype = index, value = 12288 : i64} : () -> index  // samples/softmax.tile:43
      %221 = "tile.add"(%i, %220) : (index, index) -> index  // samples/softmax.tile:43
      %222 = "tile.add"(%17, %221) : (index, index) -> index  // samples/softmax.tile:44
      %223 = "tile.broadcast"(%222) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %224 = "tile.add"(%223, %21) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %225 = "tile.broadcast"(%221) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %226 = "tile.add"(%225, %21) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %227 = "tile.lt"(%226, %26) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:44
      %228 = "tile.and"(%23, %227) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:44
      %229 = "tile.load"(%x, %224, %228, %29) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:44
      %v_230 = "tile.cast"(%229) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:44
      %top_231 = "tile.maximum"(%top_170, %v_230) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:34
      %232 = "tile.eq"(%top_170, %top_231) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:35
      %233 = "tile.sub"(%top_170, %top_231) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %234 = "tile.maximum"(%233, %36) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %235 = "tile.minimum"(%234, %38) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %236 = "tile.fma"(%235, %42, %43) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %237 = "tile.add"(%236, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %238 = "tile.sub"(%237, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %239 = "tile.neg"(%238) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %240 = "tile.fma"(%235, %42, %239) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %241 = "tile.fma"(%235, %52, %240) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %242 = "tile.bitcast"(%237) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
      %243 = "tile.shr"(%242, %56) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %244 = "tile.ex2.approx.ftz"(%241) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %245 = "tile.add"(%243, %60) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %246 = "tile.shl"(%245, %63) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %247 = "tile.bitcast"(%246) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %248 = "tile.mul"(%244, %247) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %249 = "tile.sub"(%242, %243) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %250 = "tile.add"(%249, %60) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %251 = "tile.shl"(%250, %63) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %252 = "tile.bitcast"(%251) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %253 = "tile.mul"(%248, %252) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %254 = "tile.mul"(%z_219, %253) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %255 = "tile.select"(%232, %z_219, %254) : (tensor<4096xi1, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %256 = "tile.eq"(%v_230, %top_231) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:35
      %257 = "tile.sub"(%v_230, %top_231) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %258 = "tile.maximum"(%257, %36) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %259 = "tile.minimum"(%258, %38) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %260 = "tile.fma"(%259, %42, %43) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %261 = "tile.add"(%260, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %262 = "tile.sub"(%261, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %263 = "tile.neg"(%262) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %264 = "tile.fma"(%259, %42, %263) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %265 = "tile.fma"(%259, %52, %264) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %266 = "tile.bitcast"(%261) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
      %267 = "tile.shr"(%266, %56) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %268 = "tile.ex2.approx.ftz"(%265) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %269 = "tile.add"(%267, %60) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %270 = "tile.shl"(%269, %63) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %271 = "tile.bitcast"(%270) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %272 = "tile.mul"(%268, %271) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %273 = "tile.sub"(%266, %267) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %274 = "tile.add"(%273, %60) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %275 = "tile.shl"(%274, %63) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %276 = "tile.bitcast"(%275) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %277 = "tile.mul"(%272, %276) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %278 = "tile.mul"(%96, %277) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %279 = "tile.select"(%256, %96, %278) : (tensor<4096xi1, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %z_280 = "tile.add"(%255, %279) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      "tile.yield"(%top_231, %z_280) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> ()  // samples/softmax.tile:43
    }) {unroll = 1 : i64} : (index, index, index, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>)  // samples/softmax.tile:43
    %m_281, %z_282 = "tile.for"(%10, %cols, %4, %11, %12) ({
    ^bb0(%i_283: index, %m_284: tensor<4096xf32, #layout0>, %z_285: tensor<4096xf32, #layout0>):
      %286 = "tile.lt"(%r, %rows) : (index, index) -> i1  // samples/softmax.tile:44
      %287 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:44
      %288 = "tile.add"(%287, %i_283) : (index, index) -> index  // samples/softmax.tile:44
      %289 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:44
      %290 = "tile.broadcast"(%288) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %291 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %292 = "tile.add"(%290, %291) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %293 = "tile.broadcast"(%286) {shape = [4096 : i64]} : (i1) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:44
      %294 = "tile.broadcast"(%i_283) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %295 = "tile.add"(%294, %291) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %296 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %297 = "tile.lt"(%295, %296) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:44
      %298 = "tile.and"(%293, %297) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:44
      %299 = "tile.broadcast"(%289) {shape = [4096 : i64]} : (f16) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:44
      %300 = "tile.load"(%x, %292, %298, %299) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:44
      %v_301 = "tile.cast"(%300) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:44
      %302 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:45
      %top_303 = "tile.maximum"(%m_284, %v_301) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:34
      %304 = "tile.eq"(%m_284, %top_303) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:35
      %305 = "tile.sub"(%m_284, %top_303) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %306 = "tile.constant"() {dtype = f32, value = 0xC062C00000000000 : f64} : () -> f32  // library/exp.tile:19
      %307 = "tile.constant"() {dtype = f32, value = 0x4062C00000000000 : f64} : () -> f32  // library/exp.tile:19
      %308 = "tile.broadcast"(%306) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %309 = "tile.maximum"(%305, %308) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %310 = "tile.broadcast"(%307) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %311 = "tile.minimum"(%309, %310) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %312 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:20
      %313 = "tile.constant"() {dtype = f32, value = 0xBFE0000000000000 : f64} : () -> f32  // library/exp.tile:20
      %314 = "tile.broadcast"(%312) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %315 = "tile.broadcast"(%313) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %316 = "tile.fma"(%311, %314, %315) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %317 = "tile.constant"() {dtype = f32, value = 0x4168000000000000 : f64} : () -> f32  // library/exp.tile:20
      %318 = "tile.broadcast"(%317) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %319 = "tile.add"(%316, %318) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %320 = "tile.sub"(%319, %318) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %321 = "tile.neg"(%320) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %322 = "tile.fma"(%311, %314, %321) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %323 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:22
      %324 = "tile.broadcast"(%323) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %325 = "tile.fma"(%311, %324, %322) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %326 = "tile.bitcast"(%319) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
      %327 = "tile.constant"() {dtype = si32, value = 1 : i64} : () -> si32  // library/exp.tile:24
      %328 = "tile.broadcast"(%327) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %329 = "tile.shr"(%326, %328) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %330 = "tile.ex2.approx.ftz"(%325) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %331 = "tile.constant"() {dtype = si32, value = 127 : i64} : () -> si32  // library/exp.tile:25
      %332 = "tile.broadcast"(%331) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %333 = "tile.add"(%329, %332) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %334 = "tile.constant"() {dtype = si32, value = 23 : i64} : () -> si32  // library/exp.tile:25
      %335 = "tile.broadcast"(%334) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %336 = "tile.shl"(%333, %335) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %337 = "tile.bitcast"(%336) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %338 = "tile.mul"(%330, %337) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %339 = "tile.sub"(%326, %329) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %340 = "tile.add"(%339, %332) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %341 = "tile.shl"(%340, %335) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %342 = "tile.bitcast"(%341) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %343 = "tile.mul"(%338, %342) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %344 = "tile.mul"(%z_285, %343) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %345 = "tile.select"(%304, %z_285, %344) : (tensor<4096xi1, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %346 = "tile.eq"(%v_301, %top_303) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:35
      %347 = "tile.sub"(%v_301, %top_303) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %348 = "tile.maximum"(%347, %308) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %349 = "tile.minimum"(%348, %310) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %350 = "tile.fma"(%349, %314, %315) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %351 = "tile.add"(%350, %318) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %352 = "tile.sub"(%351, %318) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %353 = "tile.neg"(%352) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %354 = "tile.fma"(%349, %314, %353) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %355 = "tile.fma"(%349, %324, %354) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %356 = "tile.bitcast"(%351) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
      %357 = "tile.shr"(%356, %328) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %358 = "tile.ex2.approx.ftz"(%355) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %359 = "tile.add"(%357, %332) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %360 = "tile.shl"(%359, %335) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %361 = "tile.bitcast"(%360) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %362 = "tile.mul"(%358, %361) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %363 = "tile.sub"(%356, %357) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %364 = "tile.add"(%363, %332) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %365 = "tile.shl"(%364, %335) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %366 = "tile.bitcast"(%365) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %367 = "tile.mul"(%362, %366) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %368 = "tile.broadcast"(%302) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:45
      %369 = "tile.mul"(%368, %367) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %370 = "tile.select"(%346, %368, %369) : (tensor<4096xi1, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %z_371 = "tile.add"(%345, %370) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      "tile.yield"(%top_303, %z_371) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> ()  // samples/softmax.tile:35
    }) {unroll = 1 : i64} : (index, index, index, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>)  // samples/softmax.tile:43
    %372, %373 = "tile.partial_reduce"(%m_281, %z_282) ({
    ^bb0(%374: f32, %375: f32, %376: f32, %377: f32):
      %top_378 = "tile.maximum"(%374, %376) : (f32, f32) -> f32  // samples/softmax.tile:34
      %379 = "tile.eq"(%374, %top_378) : (f32, f32) -> i1  // samples/softmax.tile:35
      %380 = "tile.sub"(%374, %top_378) : (f32, f32) -> f32  // samples/softmax.tile:35
      %381 = "tile.constant"() {dtype = f32, value = 0xC062C00000000000 : f64} : () -> f32  // library/exp.tile:19
      %382 = "tile.constant"() {dtype = f32, value = 0x4062C00000000000 : f64} : () -> f32  // library/exp.tile:19
      %383 = "tile.maximum"(%380, %381) : (f32, f32) -> f32  // library/exp.tile:19
      %384 = "tile.minimum"(%383, %382) : (f32, f32) -> f32  // library/exp.tile:19
      %385 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:20
      %386 = "tile.constant"() {dtype = f32, value = 0xBFE0000000000000 : f64} : () -> f32  // library/exp.tile:20
      %387 = "tile.fma"(%384, %385, %386) : (f32, f32, f32) -> f32  // library/exp.tile:20
      %388 = "tile.constant"() {dtype = f32, value = 0x4168000000000000 : f64} : () -> f32  // library/exp.tile:20
      %389 = "tile.add"(%387, %388) : (f32, f32) -> f32  // library/exp.tile:20
      %390 = "tile.sub"(%389, %388) : (f32, f32) -> f32  // library/exp.tile:21
      %391 = "tile.neg"(%390) : (f32) -> f32  // library/exp.tile:22
      %392 = "tile.fma"(%384, %385, %391) : (f32, f32, f32) -> f32  // library/exp.tile:22
      %393 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:22
      %394 = "tile.fma"(%384, %393, %392) : (f32, f32, f32) -> f32  // library/exp.tile:22
      %395 = "tile.bitcast"(%389) {to = si32} : (f32) -> si32  // library/exp.tile:23
      %396 = "tile.constant"() {dtype = si32, value = 1 : i64} : () -> si32  // library/exp.tile:24
      %397 = "tile.shr"(%395, %396) : (si32, si32) -> si32  // library/exp.tile:24
      %398 = "tile.ex2.approx.ftz"(%394) : (f32) -> f32  // library/exp.tile:25
      %399 = "tile.constant"() {dtype = si32, value = 127 : i64} : () -> si32  // library/exp.tile:25
      %400 = "tile.add"(%397, %399) : (si32, si32) -> si32  // library/exp.tile:25
      %401 = "tile.constant"() {dtype = si32, value = 23 : i64} : () -> si32  // library/exp.tile:25
      %402 = "tile.shl"(%400, %401) : (si32, si32) -> si32  // library/exp.tile:25
      %403 = "tile.bitcast"(%402) {to = f32} : (si32) -> f32  // library/exp.tile:25
      %404 = "tile.mul"(%398, %403) : (f32, f32) -> f32  // library/exp.tile:25
      %405 = "tile.sub"(%395, %397) : (si32, si32) -> si32  // library/exp.tile:25
      %406 = "tile.add"(%405, %399) : (si32, si32) -> si32  // library/exp.tile:25
      %407 = "tile.shl"(%406, %401) : (si32, si32) -> si32  // library/exp.tile:25
      %408 = "tile.bitcast"(%407) {to = f32} : (si32) -> f32  // library/exp.tile:25
      %409 = "tile.mul"(%404, %408) : (f32, f32) -> f32  // library/exp.tile:25
      %410 = "tile.mul"(%375, %409) : (f32, f32) -> f32  // samples/softmax.tile:35
      %411 = "tile.select"(%379, %375, %410) : (i1, f32, f32) -> f32  // samples/softmax.tile:35
      %412 = "tile.eq"(%376, %top_378) : (f32, f32) -> i1  // samples/softmax.tile:35
      %413 = "tile.sub"(%376, %top_378) : (f32, f32) -> f32  // samples/softmax.tile:35
      %414 = "tile.maximum"(%413, %381) : (f32, f32) -> f32  // library/exp.tile:19
      %415 = "tile.minimum"(%414, %382) : (f32, f32) -> f32  // library/exp.tile:19
      %416 = "tile.fma"(%415, %385, %386) : (f32, f32, f32) -> f32  // library/exp.tile:20
      %417 = "tile.add"(%416, %388) : (f32, f32) -> f32  // library/exp.tile:20
      %418 = "tile.sub"(%417, %388) : (f32, f32) -> f32  // library/exp.tile:21
      %419 = "tile.neg"(%418) : (f32) -> f32  // library/exp.tile:22
      %420 = "tile.fma"(%415, %385, %419) : (f32, f32, f32) -> f32  // library/exp.tile:22
      %421 = "tile.fma"(%415, %393, %420) : (f32, f32, f32) -> f32  // library/exp.tile:22
      %422 = "tile.bitcast"(%417) {to = si32} : (f32) -> si32  // library/exp.tile:23
      %423 = "tile.shr"(%422, %396) : (si32, si32) -> si32  // library/exp.tile:24
      %424 = "tile.ex2.approx.ftz"(%421) : (f32) -> f32  // library/exp.tile:25
      %425 = "tile.add"(%423, %399) : (si32, si32) -> si32  // library/exp.tile:25
      %426 = "tile.shl"(%425, %401) : (si32, si32) -> si32  // library/exp.tile:25
      %427 = "tile.bitcast"(%426) {to = f32} : (si32) -> f32  // library/exp.tile:25
      %428 = "tile.mul"(%424, %427) : (f32, f32) -> f32  // library/exp.tile:25
      %429 = "tile.sub"(%422, %423) : (si32, si32) -> si32  // library/exp.tile:25
      %430 = "tile.add"(%429, %399) : (si32, si32) -> si32  // library/exp.tile:25
      %431 = "tile.shl"(%430, %401) : (si32, si32) -> si32  // library/exp.tile:25
      %432 = "tile.bitcast"(%431) {to = f32} : (si32) -> f32  // library/exp.tile:25
      %433 = "tile.mul"(%428, %432) : (f32, f32) -> f32  // library/exp.tile:25
      %434 = "tile.mul"(%377, %433) : (f32, f32) -> f32  // samples/softmax.tile:35
      %435 = "tile.select"(%412, %377, %434) : (i1, f32, f32) -> f32  // samples/softmax.tile:35
      %436 = "tile.add"(%411, %435) : (f32, f32) -> f32  // samples/softmax.tile:35
      "tile.yield"(%top_378, %436) : (f32, f32) -> ()  // samples/softmax.tile:35
    }) {axis = 0 : i64, parts = 16 : i64} : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> (tensor<16xf32, #layout1>, tensor<16xf32, #layout1>)  // samples/softmax.tile:46
    %437 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout1>  // samples/softmax.tile:46
    "tile.store"(%scratch, %437, %372) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<16xindex, #layout1>, tensor<16xf32, #layout1>) -> ()  // samples/softmax.tile:46
    %438 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout2>  // samples/softmax.tile:46
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:46
    %439 = "tile.load"(%scratch, %438) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<16xindex, #layout2>) -> tensor<16xf32, #layout2>  // samples/softmax.tile:46
    "tile.store"(%scratch_0, %437, %373) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<16xindex, #layout1>, tensor<16xf32, #layout1>) -> ()  // samples/softmax.tile:46
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:46
    %440 = "tile.load"(%scratch_0, %438) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<16xindex, #layout2>) -> tensor<16xf32, #layout2>  // samples/softmax.tile:46
    %top_441, %total = "tile.reduce"(%439, %440) ({
    ^bb0(%442: f32, %443: f32, %444: f32, %445: f32):
      %446 = "tile.maximum"(%442, %444) : (f32, f32) -> f32  // samples/softmax.tile:34
      %447 = "tile.eq"(%442, %446) : (f32, f32) -> i1  // samples/softmax.tile:35
      %448 = "tile.sub"(%442, %446) : (f32, f32) -> f32  // samples/softmax.tile:35
      %449 = "tile.constant"() {dtype = f32, value = 0xC062C00000000000 : f64} : () -> f32  // library/exp.tile:19
      %450 = "tile.constant"() {dtype = f32, value = 0x4062C00000000000 : f64} : () -> f32  // library/exp.tile:19
      %451 = "tile.maximum"(%448, %449) : (f32, f32) -> f32  // library/exp.tile:19
      %452 = "tile.minimum"(%451, %450) : (f32, f32) -> f32  // library/exp.tile:19
      %453 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:20
      %454 = "tile.constant"() {dtype = f32, value = 0xBFE0000000000000 : f64} : () -> f32  // library/exp.tile:20
      %455 = "tile.fma"(%452, %453, %454) : (f32, f32, f32) -> f32  // library/exp.tile:20
      %456 = "tile.constant"() {dtype = f32, value = 0x4168000000000000 : f64} : () -> f32  // library/exp.tile:20
      %457 = "tile.add"(%455, %456) : (f32, f32) -> f32  // library/exp.tile:20
      %458 = "tile.sub"(%457, %456) : (f32, f32) -> f32  // library/exp.tile:21
      %459 = "tile.neg"(%458) : (f32) -> f32  // library/exp.tile:22
      %460 = "tile.fma"(%452, %453, %459) : (f32, f32, f32) -> f32  // library/exp.tile:22
      %461 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:22
      %462 = "tile.fma"(%452, %461, %460) : (f32, f32, f32) -> f32  // library/exp.tile:22
      %463 = "tile.bitcast"(%457) {to = si32} : (f32) -> si32  // library/exp.tile:23
      %464 = "tile.constant"() {dtype = si32, value = 1 : i64} : () -> si32  // library/exp.tile:24
      %465 = "tile.shr"(%463, %464) : (si32, si32) -> si32  // library/exp.tile:24
      %466 = "tile.ex2.approx.ftz"(%462) : (f32) -> f32  // library/exp.tile:25
      %467 = "tile.constant"() {dtype = si32, value = 127 : i64} : () -> si32  // library/exp.tile:25
      %468 = "tile.add"(%465, %467) : (si32, si32) -> si32  // library/exp.tile:25
      %469 = "tile.constant"() {dtype = si32, value = 23 : i64} : () -> si32  // library/exp.tile:25
      %470 = "tile.shl"(%468, %469) : (si32, si32) -> si32  // library/exp.tile:25
      %471 = "tile.bitcast"(%470) {to = f32} : (si32) -> f32  // library/exp.tile:25
      %472 = "tile.mul"(%466, %471) : (f32, f32) -> f32  // library/exp.tile:25
      %473 = "tile.sub"(%463, %465) : (si32, si32) -> si32  // library/exp.tile:25
      %474 = "tile.add"(%473, %467) : (si32, si32) -> si32  // library/exp.tile:25
      %475 = "tile.shl"(%474, %469) : (si32, si32) -> si32  // library/exp.tile:25
      %476 = "tile.bitcast"(%475) {to = f32} : (si32) -> f32  // library/exp.tile:25
      %477 = "tile.mul"(%472, %476) : (f32, f32) -> f32  // library/exp.tile:25
      %478 = "tile.mul"(%443, %477) : (f32, f32) -> f32  // samples/softmax.tile:35
      %479 = "tile.select"(%447, %443, %478) : (i1, f32, f32) -> f32  // samples/softmax.tile:35
      %480 = "tile.eq"(%444, %446) : (f32, f32) -> i1  // samples/softmax.tile:35
      %481 = "tile.sub"(%444, %446) : (f32, f32) -> f32  // samples/softmax.tile:35
      %482 = "tile.maximum"(%481, %449) : (f32, f32) -> f32  // library/exp.tile:19
      %483 = "tile.minimum"(%482, %450) : (f32, f32) -> f32  // library/exp.tile:19
      %484 = "tile.fma"(%483, %453, %454) : (f32, f32, f32) -> f32  // library/exp.tile:20
      %485 = "tile.add"(%484, %456) : (f32, f32) -> f32  // library/exp.tile:20
      %486 = "tile.sub"(%485, %456) : (f32, f32) -> f32  // library/exp.tile:21
      %487 = "tile.neg"(%486) : (f32) -> f32  // library/exp.tile:22
      %488 = "tile.fma"(%483, %453, %487) : (f32, f32, f32) -> f32  // library/exp.tile:22
      %489 = "tile.fma"(%483, %461, %488) : (f32, f32, f32) -> f32  // library/exp.tile:22
      %490 = "tile.bitcast"(%485) {to = si32} : (f32) -> si32  // library/exp.tile:23
      %491 = "tile.shr"(%490, %464) : (si32, si32) -> si32  // library/exp.tile:24
      %492 = "tile.ex2.approx.ftz"(%489) : (f32) -> f32  // library/exp.tile:25
      %493 = "tile.add"(%491, %467) : (si32, si32) -> si32  // library/exp.tile:25
      %494 = "tile.shl"(%493, %469) : (si32, si32) -> si32  // library/exp.tile:25
      %495 = "tile.bitcast"(%494) {to = f32} : (si32) -> f32  // library/exp.tile:25
      %496 = "tile.mul"(%492, %495) : (f32, f32) -> f32  // library/exp.tile:25
      %497 = "tile.sub"(%490, %491) : (si32, si32) -> si32  // library/exp.tile:25
      %498 = "tile.add"(%497, %467) : (si32, si32) -> si32  // library/exp.tile:25
      %499 = "tile.shl"(%498, %469) : (si32, si32) -> si32  // library/exp.tile:25
      %500 = "tile.bitcast"(%499) {to = f32} : (si32) -> f32  // library/exp.tile:25
      %501 = "tile.mul"(%496, %500) : (f32, f32) -> f32  // library/exp.tile:25
      %502 = "tile.mul"(%445, %501) : (f32, f32) -> f32  // samples/softmax.tile:35
      %503 = "tile.select"(%480, %445, %502) : (i1, f32, f32) -> f32  // samples/softmax.tile:35
      %504 = "tile.add"(%479, %503) : (f32, f32) -> f32  // samples/softmax.tile:35
      "tile.yield"(%446, %504) : (f32, f32) -> ()  // samples/softmax.tile:35
    }) {axis = 0 : i64} : (tensor<16xf32, #layout2>, tensor<16xf32, #layout2>) -> (f32, f32)  // samples/softmax.tile:46
    "tile.for"(%3, %10, %5) ({
    ^bb0(%i_505: index):
      %506 = "tile.add"(%i_505, %4) : (index, index) -> index  // samples/softmax.tile:48
      %507 = "tile.lt"(%r, %rows) : (index, index) -> i1  // samples/softmax.tile:48
      %508 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:48
      %509 = "tile.add"(%508, %i_505) : (index, index) -> index  // samples/softmax.tile:48
      %510 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:48
      %511 = "tile.broadcast"(%509) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %512 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %513 = "tile.add"(%511, %512) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %514 = "tile.broadcast"(%507) {shape = [4096 : i64]} : (i1) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:48
      %515 = "tile.broadcast"(%i_505) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %516 = "tile.add"(%515, %512) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %517 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %518 = "tile.lt"(%516, %517) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:48
      %519 = "tile.and"(%514, %518) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:48
      %520 = "tile.broadcast"(%510) {shape = [4096 : i64]} : (f16) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:48
      %521 = "tile.load"(%x, %513, %519, %520) {cache = unit, evict = "first", has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:48
      %v_522 = "tile.cast"(%521) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:48
      %523 = "tile.broadcast"(%top_441) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %524 = "tile.sub"(%v_522, %523) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %525 = "tile.constant"() {dtype = f32, value = 0xC062C00000000000 : f64} : () -> f32  // library/exp.tile:19
      %526 = "tile.constant"() {dtype = f32, value = 0x4062C00000000000 : f64} : () -> f32  // library/exp.tile:19
      %527 = "tile.broadcast"(%525) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %528 = "tile.maximum"(%524, %527) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %529 = "tile.broadcast"(%526) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %530 = "tile.minimum"(%528, %529) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %531 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:20
      %532 = "tile.constant"() {dtype = f32, value = 0xBFE0000000000000 : f64} : () -> f32  // library/exp.tile:20
      %533 = "tile.broadcast"(%531) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %534 = "tile.broadcast"(%532) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %535 = "tile.fma"(%530, %533, %534) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %536 = "tile.constant"() {dtype = f32, value = 0x4168000000000000 : f64} : () -> f32  // library/exp.tile:20
      %537 = "tile.broadcast"(%536) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %538 = "tile.add"(%535, %537) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %539 = "tile.sub"(%538, %537) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %540 = "tile.neg"(%539) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %541 = "tile.fma"(%530, %533, %540) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %542 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:22
      %543 = "tile.broadcast"(%542) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %544 = "tile.fma"(%530, %543, %541) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %545 = "tile.bitcast"(%538) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
      %546 = "tile.constant"() {dtype = si32, value = 1 : i64} : () -> si32  // library/exp.tile:24
      %547 = "tile.broadcast"(%546) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %548 = "tile.shr"(%545, %547) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %549 = "tile.ex2.approx.ftz"(%544) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %550 = "tile.constant"() {dtype = si32, value = 127 : i64} : () -> si32  // library/exp.tile:25
      %551 = "tile.broadcast"(%550) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %552 = "tile.add"(%548, %551) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %553 = "tile.constant"() {dtype = si32, value = 23 : i64} : () -> si32  // library/exp.tile:25
      %554 = "tile.broadcast"(%553) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %555 = "tile.shl"(%552, %554) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %556 = "tile.bitcast"(%555) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %557 = "tile.mul"(%549, %556) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %558 = "tile.sub"(%545, %548) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %559 = "tile.add"(%558, %551) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %560 = "tile.shl"(%559, %554) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %561 = "tile.bitcast"(%560) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %562 = "tile.mul"(%557, %561) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %563 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:49
      %564 = "tile.div"(%563, %total) : (f32, f32) -> f32  // samples/softmax.tile:49
      %565 = "tile.broadcast"(%564) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %566 = "tile.mul"(%562, %565) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %567 = "tile.cast"(%566) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:49
      "tile.store"(%y, %513, %519, %567) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:49
      %568 = "tile.add"(%508, %506) : (index, index) -> index  // samples/softmax.tile:48
      %569 = "tile.broadcast"(%568) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %570 = "tile.add"(%569, %512) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %571 = "tile.broadcast"(%506) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %572 = "tile.add"(%571, %512) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %573 = "tile.lt"(%572, %517) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:48
      %574 = "tile.and"(%514, %573) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:48
      %575 = "tile.load"(%x, %570, %574, %520) {cache = unit, evict = "first", has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:48
      %v_576 = "tile.cast"(%575) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:48
      %577 = "tile.sub"(%v_576, %523) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %578 = "tile.maximum"(%577, %527) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %579 = "tile.minimum"(%578, %529) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %580 = "tile.fma"(%579, %533, %534) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %581 = "tile.add"(%580, %537) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %582 = "tile.sub"(%581, %537) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %583 = "tile.neg"(%582) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %584 = "tile.fma"(%579, %533, %583) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %585 = "tile.fma"(%579, %543, %584) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %586 = "tile.bitcast"(%581) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
      %587 = "tile.shr"(%586, %547) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %588 = "tile.ex2.approx.ftz"(%585) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %589 = "tile.add"(%587, %551) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %590 = "tile.shl"(%589, %554) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %591 = "tile.bitcast"(%590) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %592 = "tile.mul"(%588, %591) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %593 = "tile.sub"(%586, %587) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %594 = "tile.add"(%593, %551) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %595 = "tile.shl"(%594, %554) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %596 = "tile.bitcast"(%595) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %597 = "tile.mul"(%592, %596) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %598 = "tile.mul"(%597, %565) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %599 = "tile.cast"(%598) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:49
      "tile.store"(%y, %570, %574, %599) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:49
      %600 = "tile.constant"() {dtype = index, value = 8192 : i64} : () -> index  // samples/softmax.tile:47
      %601 = "tile.add"(%i_505, %600) : (index, index) -> index  // samples/softmax.tile:47
      %602 = "tile.add"(%508, %601) : (index, index) -> index  // samples/softmax.tile:48
      %603 = "tile.broadcast"(%602) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %604 = "tile.add"(%603, %512) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %605 = "tile.broadcast"(%601) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %606 = "tile.add"(%605, %512) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %607 = "tile.lt"(%606, %517) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:48
      %608 = "tile.and"(%514, %607) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:48
      %609 = "tile.load"(%x, %604, %608, %520) {cache = unit, evict = "first", has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:48
      %v_610 = "tile.cast"(%609) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:48
      %611 = "tile.sub"(%v_610, %523) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %612 = "tile.maximum"(%611, %527) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %613 = "tile.minimum"(%612, %529) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %614 = "tile.fma"(%613, %533, %534) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %615 = "tile.add"(%614, %537) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %616 = "tile.sub"(%615, %537) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %617 = "tile.neg"(%616) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %618 = "tile.fma"(%613, %533, %617) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %619 = "tile.fma"(%613, %543, %618) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %620 = "tile.bitcast"(%615) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
      %621 = "tile.shr"(%620, %547) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %622 = "tile.ex2.approx.ftz"(%619) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %623 = "tile.add"(%621, %551) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %624 = "tile.shl"(%623, %554) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %625 = "tile.bitcast"(%624) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %626 = "tile.mul"(%622, %625) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %627 = "tile.sub"(%620, %621) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %628 = "tile.add"(%627, %551) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %629 = "tile.shl"(%628, %554) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %630 = "tile.bitcast"(%629) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %631 = "tile.mul"(%626, %630) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %632 = "tile.mul"(%631, %565) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %633 = "tile.cast"(%632) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:49
      "tile.store"(%y, %604, %608, %633) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:49
      %634 = "tile.constant"() {dtype = index, value = 12288 : i64} : () -> index  // samples/softmax.tile:47
      %635 = "tile.add"(%i_505, %634) : (index, index) -> index  // samples/softmax.tile:47
      %636 = "tile.add"(%508, %635) : (index, index) -> index  // samples/softmax.tile:48
      %637 = "tile.broadcast"(%636) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %638 = "tile.add"(%637, %512) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %639 = "tile.broadcast"(%635) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %640 = "tile.add"(%639, %512) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %641 = "tile.lt"(%640, %517) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:48
      %642 = "tile.and"(%514, %641) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:48
      %643 = "tile.load"(%x, %638, %642, %520) {cache = unit, evict = "first", has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:48
      %v_644 = "tile.cast"(%643) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:48
      %645 = "tile.sub"(%v_644, %523) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %646 = "tile.maximum"(%645, %527) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %647 = "tile.minimum"(%646, %529) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %648 = "tile.fma"(%647, %533, %534) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %649 = "tile.add"(%648, %537) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %650 = "tile.sub"(%649, %537) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %651 = "tile.neg"(%650) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %652 = "tile.fma"(%647, %533, %651) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %653 = "tile.fma"(%647, %543, %652) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %654 = "tile.bitcast"(%649) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
      %655 = "tile.shr"(%654, %547) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %656 = "tile.ex2.approx.ftz"(%653) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %657 = "tile.add"(%655, %551) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %658 = "tile.shl"(%657, %554) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %659 = "tile.bitcast"(%658) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %660 = "tile.mul"(%656, %659) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %661 = "tile.sub"(%654, %655) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %662 = "tile.add"(%661, %551) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %663 = "tile.shl"(%662, %554) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %664 = "tile.bitcast"(%663) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %665 = "tile.mul"(%660, %664) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %666 = "tile.mul"(%665, %565) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %667 = "tile.cast"(%666) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:49
      "tile.store"(%y, %638, %642, %667) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:49
      "tile.yield"() : () -> ()  // samples/softmax.tile:47
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:47
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:47
    "tile.for"(%10, %cols, %4) ({
    ^bb0(%i_668: index):
      %669 = "tile.lt"(%r, %rows) : (index, index) -> i1  // samples/softmax.tile:48
      %670 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:48
      %671 = "tile.add"(%670, %i_668) : (index, index) -> index  // samples/softmax.tile:48
      %672 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:48
      %673 = "tile.broadcast"(%671) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %674 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %675 = "tile.add"(%673, %674) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %676 = "tile.broadcast"(%669) {shape = [4096 : i64]} : (i1) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:48
      %677 = "tile.broadcast"(%i_668) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %678 = "tile.add"(%677, %674) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %679 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %680 = "tile.lt"(%678, %679) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:48
      %681 = "tile.and"(%676, %680) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:48
      %682 = "tile.broadcast"(%672) {shape = [4096 : i64]} : (f16) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:48
      %683 = "tile.load"(%x, %675, %681, %682) {cache = unit, evict = "first", has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:48
      %v_684 = "tile.cast"(%683) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:48
      %685 = "tile.broadcast"(%top_441) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %686 = "tile.sub"(%v_684, %685) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %687 = "tile.constant"() {dtype = f32, value = 0xC062C00000000000 : f64} : () -> f32  // library/exp.tile:19
      %688 = "tile.constant"() {dtype = f32, value = 0x4062C00000000000 : f64} : () -> f32  // library/exp.tile:19
      %689 = "tile.broadcast"(%687) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %690 = "tile.maximum"(%686, %689) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %691 = "tile.broadcast"(%688) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %692 = "tile.minimum"(%690, %691) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %693 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:20
      %694 = "tile.constant"() {dtype = f32, value = 0xBFE0000000000000 : f64} : () -> f32  // library/exp.tile:20
      %695 = "tile.broadcast"(%693) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %696 = "tile.broadcast"(%694) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %697 = "tile.fma"(%692, %695, %696) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %698 = "tile.constant"() {dtype = f32, value = 0x4168000000000000 : f64} : () -> f32  // library/exp.tile:20
      %699 = "tile.broadcast"(%698) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %700 = "tile.add"(%697, %699) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %701 = "tile.sub"(%700, %699) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %702 = "tile.neg"(%701) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %703 = "tile.fma"(%692, %695, %702) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %704 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:22
      %705 = "tile.broadcast"(%704) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %706 = "tile.fma"(%692, %705, %703) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
      %707 = "tile.bitcast"(%700) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
      %708 = "tile.constant"() {dtype = si32, value = 1 : i64} : () -> si32  // library/exp.tile:24
      %709 = "tile.broadcast"(%708) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %710 = "tile.shr"(%707, %709) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
      %711 = "tile.ex2.approx.ftz"(%706) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %712 = "tile.constant"() {dtype = si32, value = 127 : i64} : () -> si32  // library/exp.tile:25
      %713 = "tile.broadcast"(%712) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %714 = "tile.add"(%710, %713) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %715 = "tile.constant"() {dtype = si32, value = 23 : i64} : () -> si32  // library/exp.tile:25
      %716 = "tile.broadcast"(%715) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %717 = "tile.shl"(%714, %716) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %718 = "tile.bitcast"(%717) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %719 = "tile.mul"(%711, %718) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %720 = "tile.sub"(%707, %710) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %721 = "tile.add"(%720, %713) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %722 = "tile.shl"(%721, %716) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
      %723 = "tile.bitcast"(%722) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %724 = "tile.mul"(%719, %723) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
      %725 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:49
      %726 = "tile.div"(%725, %total) : (f32, f32) -> f32  // samples/softmax.tile:49
      %727 = "tile.broadcast"(%726) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %728 = "tile.mul"(%724, %727) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %729 = "tile.cast"(%728) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:49
      "tile.store"(%y, %675, %681, %729) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:49
      "tile.yield"() : () -> ()  // samples/softmax.tile:49
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:47
  }) {index_bits = 32 : i64, name = "softmax_streamed", shared_bytes = 128 : i64, unroll = {i = 4 : i64}, warps = 16 : i64} : () -> ()
}) : () -> ()
