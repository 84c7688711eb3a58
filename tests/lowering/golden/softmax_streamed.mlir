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
    %m_5, %z_6 = "tile.for"(%3, %cols, %4, %m, %z) ({
    ^bb0(%i: index, %m_7: tensor<4096xf32, #layout0>, %z_8: tensor<4096xf32, #layout0>):
      %9 = "tile.lt"(%r, %rows) : (index, index) -> i1  // samples/softmax.tile:44
      %10 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:44
      %11 = "tile.add"(%10, %i) : (index, index) -> index  // samples/softmax.tile:44
      %12 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:44
      %13 = "tile.broadcast"(%11) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %14 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %15 = "tile.add"(%13, %14) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %16 = "tile.broadcast"(%9) {shape = [4096 : i64]} : (i1) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:44
      %17 = "tile.broadcast"(%i) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %18 = "tile.add"(%17, %14) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %19 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:44
      %20 = "tile.lt"(%18, %19) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:44
      %21 = "tile.and"(%16, %20) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:44
      %22 = "tile.broadcast"(%12) {shape = [4096 : i64]} : (f16) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:44
      %23 = "tile.load"(%x, %15, %21, %22) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:44
      %v = "tile.cast"(%23) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:44
      %24 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:45
      %top = "tile.maximum"(%m_7, %v) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:34
      %25 = "tile.eq"(%m_7, %top) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:35
      %26 = "tile.sub"(%m_7, %top) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %27 = "tile.constant"() {dtype = f32, value = 0xC08F400000000000 : f64} : () -> f32  // library/exp.tile:18
      %28 = "tile.constant"() {dtype = f32, value = 0x408F400000000000 : f64} : () -> f32  // library/exp.tile:18
      %29 = "tile.broadcast"(%27) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
      %30 = "tile.maximum"(%26, %29) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
      %31 = "tile.broadcast"(%28) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
      %c = "tile.minimum"(%30, %31) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
      %32 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:19
      %33 = "tile.broadcast"(%32) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %hi = "tile.mul"(%c, %33) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %34 = "tile.neg"(%hi) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %35 = "tile.fma"(%c, %33, %34) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %36 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:20
      %37 = "tile.broadcast"(%36) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %lo = "tile.fma"(%c, %37, %35) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %38 = "tile.ex2.approx"(%hi) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %39 = "tile.constant"() {dtype = f32, value = 0x3FE62E42FEFA39EF : f64} : () -> f32  // library/exp.tile:21
      %40 = "tile.broadcast"(%39) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %41 = "tile.broadcast"(%24) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:45
      %42 = "tile.fma"(%lo, %40, %41) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %43 = "tile.mul"(%38, %42) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %44 = "tile.mul"(%z_8, %43) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %45 = "tile.select"(%25, %z_8, %44) : (tensor<4096xi1, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %46 = "tile.eq"(%v, %top) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:35
      %47 = "tile.sub"(%v, %top) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %48 = "tile.maximum"(%47, %29) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
      %c_49 = "tile.minimum"(%48, %31) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
      %hi_50 = "tile.mul"(%c_49, %33) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %51 = "tile.neg"(%hi_50) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %52 = "tile.fma"(%c_49, %33, %51) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %lo_53 = "tile.fma"(%c_49, %37, %52) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %54 = "tile.ex2.approx"(%hi_50) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %55 = "tile.fma"(%lo_53, %40, %41) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %56 = "tile.mul"(%54, %55) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %57 = "tile.mul"(%41, %56) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %58 = "tile.select"(%46, %41, %57) : (tensor<4096xi1, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      %z_59 = "tile.add"(%45, %58) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:35
      "tile.yield"(%top, %z_59) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> ()  // samples/softmax.tile:35
    }) {unroll = 1 : i64} : (index, index, index, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>)  // samples/softmax.tile:43
    %60, %61 = "tile.partial_reduce"(%m_5, %z_6) ({
    ^bb0(%62: f32, %63: f32, %64: f32, %65: f32):
      %top_66 = "tile.maximum"(%62, %64) : (f32, f32) -> f32  // samples/softmax.tile:34
      %67 = "tile.eq"(%62, %top_66) : (f32, f32) -> i1  // samples/softmax.tile:35
      %68 = "tile.sub"(%62, %top_66) : (f32, f32) -> f32  // samples/softmax.tile:35
      %69 = "tile.constant"() {dtype = f32, value = 0xC08F400000000000 : f64} : () -> f32  // library/exp.tile:18
      %70 = "tile.constant"() {dtype = f32, value = 0x408F400000000000 : f64} : () -> f32  // library/exp.tile:18
      %71 = "tile.maximum"(%68, %69) : (f32, f32) -> f32  // library/exp.tile:18
      %c_72 = "tile.minimum"(%71, %70) : (f32, f32) -> f32  // library/exp.tile:18
      %73 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:19
      %hi_74 = "tile.mul"(%c_72, %73) : (f32, f32) -> f32  // library/exp.tile:19
      %75 = "tile.neg"(%hi_74) : (f32) -> f32  // library/exp.tile:20
      %76 = "tile.fma"(%c_72, %73, %75) : (f32, f32, f32) -> f32  // library/exp.tile:20
      %77 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:20
      %lo_78 = "tile.fma"(%c_72, %77, %76) : (f32, f32, f32) -> f32  // library/exp.tile:20
      %79 = "tile.ex2.approx"(%hi_74) : (f32) -> f32  // library/exp.tile:21
      %80 = "tile.constant"() {dtype = f32, value = 0x3FE62E42FEFA39EF : f64} : () -> f32  // library/exp.tile:21
      %81 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // library/exp.tile:21
      %82 = "tile.fma"(%lo_78, %80, %81) : (f32, f32, f32) -> f32  // library/exp.tile:21
      %83 = "tile.mul"(%79, %82) : (f32, f32) -> f32  // library/exp.tile:21
      %84 = "tile.mul"(%63, %83) : (f32, f32) -> f32  // samples/softmax.tile:35
      %85 = "tile.select"(%67, %63, %84) : (i1, f32, f32) -> f32  // samples/softmax.tile:35
      %86 = "tile.eq"(%64, %top_66) : (f32, f32) -> i1  // samples/softmax.tile:35
      %87 = "tile.sub"(%64, %top_66) : (f32, f32) -> f32  // samples/softmax.tile:35
      %88 = "tile.maximum"(%87, %69) : (f32, f32) -> f32  // library/exp.tile:18
      %c_89 = "tile.minimum"(%88, %70) : (f32, f32) -> f32  // library/exp.tile:18
      %hi_90 = "tile.mul"(%c_89, %73) : (f32, f32) -> f32  // library/exp.tile:19
      %91 = "tile.neg"(%hi_90) : (f32) -> f32  // library/exp.tile:20
      %92 = "tile.fma"(%c_89, %73, %91) : (f32, f32, f32) -> f32  // library/exp.tile:20
      %lo_93 = "tile.fma"(%c_89, %77, %92) : (f32, f32, f32) -> f32  // library/exp.tile:20
      %94 = "tile.ex2.approx"(%hi_90) : (f32) -> f32  // library/exp.tile:21
      %95 = "tile.fma"(%lo_93, %80, %81) : (f32, f32, f32) -> f32  // library/exp.tile:21
      %96 = "tile.mul"(%94, %95) : (f32, f32) -> f32  // library/exp.tile:21
      %97 = "tile.mul"(%65, %96) : (f32, f32) -> f32  // samples/softmax.tile:35
      %98 = "tile.select"(%86, %65, %97) : (i1, f32, f32) -> f32  // samples/softmax.tile:35
      %99 = "tile.add"(%85, %98) : (f32, f32) -> f32  // samples/softmax.tile:35
      "tile.yield"(%top_66, %99) : (f32, f32) -> ()  // samples/softmax.tile:35
    }) {axis = 0 : i64, parts = 16 : i64} : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> (tensor<16xf32, #layout1>, tensor<16xf32, #layout1>)  // samples/softmax.tile:46
    %100 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout1>  // samples/softmax.tile:46
    "tile.store"(%scratch, %100, %60) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<16xindex, #layout1>, tensor<16xf32, #layout1>) -> ()  // samples/softmax.tile:46
    %101 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout2>  // samples/softmax.tile:46
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:46
    %102 = "tile.load"(%scratch, %101) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<16xindex, #layout2>) -> tensor<16xf32, #layout2>  // samples/softmax.tile:46
    "tile.store"(%scratch_0, %100, %61) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<16xindex, #layout1>, tensor<16xf32, #layout1>) -> ()  // samples/softmax.tile:46
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:46
    %103 = "tile.load"(%scratch_0, %101) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<16xindex, #layout2>) -> tensor<16xf32, #layout2>  // samples/softmax.tile:46
    %top_104, %total = "tile.reduce"(%102, %103) ({
    ^bb0(%105: f32, %106: f32, %107: f32, %108: f32):
      %109 = "tile.maximum"(%105, %107) : (f32, f32) -> f32  // samples/softmax.tile:34
      %110 = "tile.eq"(%105, %109) : (f32, f32) -> i1  // samples/softmax.tile:35
      %111 = "tile.sub"(%105, %109) : (f32, f32) -> f32  // samples/softmax.tile:35
      %112 = "tile.constant"() {dtype = f32, value = 0xC08F400000000000 : f64} : () -> f32  // library/exp.tile:18
      %113 = "tile.constant"() {dtype = f32, value = 0x408F400000000000 : f64} : () -> f32  // library/exp.tile:18
      %114 = "tile.maximum"(%111, %112) : (f32, f32) -> f32  // library/exp.tile:18
      %115 = "tile.minimum"(%114, %113) : (f32, f32) -> f32  // library/exp.tile:18
      %116 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:19
      %117 = "tile.mul"(%115, %116) : (f32, f32) -> f32  // library/exp.tile:19
      %118 = "tile.neg"(%117) : (f32) -> f32  // library/exp.tile:20
      %119 = "tile.fma"(%115, %116, %118) : (f32, f32, f32) -> f32  // library/exp.tile:20
      %120 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:20
      %121 = "tile.fma"(%115, %120, %119) : (f32, f32, f32) -> f32  // library/exp.tile:20
      %122 = "tile.ex2.approx"(%117) : (f32) -> f32  // library/exp.tile:21
      %123 = "tile.constant"() {dtype = f32, value = 0x3FE62E42FEFA39EF : f64} : () -> f32  // library/exp.tile:21
      %124 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // library/exp.tile:21
      %125 = "tile.fma"(%121, %123, %124) : (f32, f32, f32) -> f32  // library/exp.tile:21
      %126 = "tile.mul"(%122, %125) : (f32, f32) -> f32  // library/exp.tile:21
      %127 = "tile.mul"(%106, %126) : (f32, f32) -> f32  // samples/softmax.tile:35
      %128 = "tile.select"(%110, %106, %127) : (i1, f32, f32) -> f32  // samples/softmax.tile:35
      %129 = "tile.eq"(%107, %109) : (f32, f32) -> i1  // samples/softmax.tile:35
      %130 = "tile.sub"(%107, %109) : (f32, f32) -> f32  // samples/softmax.tile:35
      %131 = "tile.maximum"(%130, %112) : (f32, f32) -> f32  // library/exp.tile:18
      %132 = "tile.minimum"(%131, %113) : (f32, f32) -> f32  // library/exp.tile:18
      %133 = "tile.mul"(%132, %116) : (f32, f32) -> f32  // library/exp.tile:19
      %134 = "tile.neg"(%133) : (f32) -> f32  // library/exp.tile:20
      %135 = "tile.fma"(%132, %116, %134) : (f32, f32, f32) -> f32  // library/exp.tile:20
      %136 = "tile.fma"(%132, %120, %135) : (f32, f32, f32) -> f32  // library/exp.tile:20
      %137 = "tile.ex2.approx"(%133) : (f32) -> f32  // library/exp.tile:21
      %138 = "tile.fma"(%136, %123, %124) : (f32, f32, f32) -> f32  // library/exp.tile:21
      %139 = "tile.mul"(%137, %138) : (f32, f32) -> f32  // library/exp.tile:21
      %140 = "tile.mul"(%108, %139) : (f32, f32) -> f32  // samples/softmax.tile:35
      %141 = "tile.select"(%129, %108, %140) : (i1, f32, f32) -> f32  // samples/softmax.tile:35
      %142 = "tile.add"(%128, %141) : (f32, f32) -> f32  // samples/softmax.tile:35
      "tile.yield"(%109, %142) : (f32, f32) -> ()  // samples/softmax.tile:35
    }) {axis = 0 : i64} : (tensor<16xf32, #layout2>, tensor<16xf32, #layout2>) -> (f32, f32)  // samples/softmax.tile:46
    "tile.for"(%3, %cols, %4) ({
    ^bb0(%i_143: index):
      %144 = "tile.lt"(%r, %rows) : (index, index) -> i1  // samples/softmax.tile:48
      %145 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:48
      %146 = "tile.add"(%145, %i_143) : (index, index) -> index  // samples/softmax.tile:48
      %147 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:48
      %148 = "tile.broadcast"(%146) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %149 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %150 = "tile.add"(%148, %149) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %151 = "tile.broadcast"(%144) {shape = [4096 : i64]} : (i1) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:48
      %152 = "tile.broadcast"(%i_143) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %153 = "tile.add"(%152, %149) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %154 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:48
      %155 = "tile.lt"(%153, %154) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:48
      %156 = "tile.and"(%151, %155) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:48
      %157 = "tile.broadcast"(%147) {shape = [4096 : i64]} : (f16) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:48
      %158 = "tile.load"(%x, %150, %156, %157) {cache = unit, evict = "first", has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:48
      %v_159 = "tile.cast"(%158) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:48
      %160 = "tile.broadcast"(%top_104) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %161 = "tile.sub"(%v_159, %160) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %162 = "tile.constant"() {dtype = f32, value = 0xC08F400000000000 : f64} : () -> f32  // library/exp.tile:18
      %163 = "tile.constant"() {dtype = f32, value = 0x408F400000000000 : f64} : () -> f32  // library/exp.tile:18
      %164 = "tile.broadcast"(%162) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
      %165 = "tile.maximum"(%161, %164) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
      %166 = "tile.broadcast"(%163) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
      %c_167 = "tile.minimum"(%165, %166) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
      %168 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:19
      %169 = "tile.broadcast"(%168) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %hi_170 = "tile.mul"(%c_167, %169) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
      %171 = "tile.neg"(%hi_170) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %172 = "tile.fma"(%c_167, %169, %171) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %173 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:20
      %174 = "tile.broadcast"(%173) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %lo_175 = "tile.fma"(%c_167, %174, %172) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
      %176 = "tile.ex2.approx"(%hi_170) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %177 = "tile.constant"() {dtype = f32, value = 0x3FE62E42FEFA39EF : f64} : () -> f32  // library/exp.tile:21
      %178 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // library/exp.tile:21
      %179 = "tile.broadcast"(%177) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %180 = "tile.broadcast"(%178) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %181 = "tile.fma"(%lo_175, %179, %180) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %182 = "tile.mul"(%176, %181) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
      %183 = "tile.div"(%178, %total) : (f32, f32) -> f32  // samples/softmax.tile:49
      %184 = "tile.broadcast"(%183) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %185 = "tile.mul"(%182, %184) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:49
      %186 = "tile.cast"(%185) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:49
      "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:49
      "tile.store"(%y, %150, %156, %186) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:49
      "tile.yield"() : () -> ()  // samples/softmax.tile:49
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:47
  }) {index_bits = 32 : i64, name = "softmax_streamed", shared_bytes = 128 : i64, warps = 16 : i64} : () -> ()
}) : () -> ()
