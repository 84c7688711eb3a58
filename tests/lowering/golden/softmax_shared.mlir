#layout0 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256, 512, 1024, 2048]}
#layout1 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2, 4, 8]}
#layout2 = {register = [1, 2, 4, 8], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%y: memref<?x?xf16, 1>, %x: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %scratch = "tile.shared_alloc"() {name = "scratch", offset = 0 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:24
    %scratch_0 = "tile.shared_alloc"() {name = "scratch", offset = 64 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:28
    %1 = "tile.constant"() {dtype = index, value = 1 : i64} : () -> index  // samples/softmax.tile:14
    %s = "tile.shared_alloc"() {name = "s", offset = 128 : i64, type = memref<5x4096xf16, 3>} : () -> memref<5x4096xf16, 3>  // samples/softmax.tile:17
    %2 = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:18
    %3 = "tile.grid_size"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:18
    "tile.for"(%2, %rows, %3) ({
    ^bb0(%r: index):
      %4 = "tile.constant"() {dtype = f32, value = 0xFFF0000000000000 : f64} : () -> f32  // samples/softmax.tile:19
      %m = "tile.broadcast"(%4) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:19
      %5 = "tile.constant"() {dtype = index, value = 5 : i64} : () -> index  // samples/softmax.tile:19
      %6 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:19
      %7 = "tile.constant"() {dtype = index, value = 4 : i64} : () -> index  // samples/softmax.tile:20
      %8 = "tile.sub"(%5, %6) : (index, index) -> index  // samples/softmax.tile:20
      %9 = "tile.floordiv"(%8, %7) : (index, index) -> index  // samples/softmax.tile:20
      %10 = "tile.maximum"(%9, %6) : (index, index) -> index  // samples/softmax.tile:20
      %11 = "tile.mul"(%10, %7) : (index, index) -> index  // samples/softmax.tile:20
      %12 = "tile.add"(%6, %11) : (index, index) -> index  // samples/softmax.tile:20
      %13 = "tile.for"(%6, %12, %7, %m) ({
      ^bb0(%i: index, %m_14: tensor<4096xf32, #layout0>):
        %15 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:21
        %16 = "tile.mul"(%i, %15) : (index, index) -> index  // samples/softmax.tile:21
        %17 = "tile.lt"(%r, %rows) : (index, index) -> i1  // samples/softmax.tile:21
        %18 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:21
        %19 = "tile.add"(%18, %16) : (index, index) -> index  // samples/softmax.tile:21
        %20 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:21
        %21 = "tile.broadcast"(%19) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %22 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %23 = "tile.add"(%21, %22) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %24 = "tile.broadcast"(%17) {shape = [4096 : i64]} : (i1) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %25 = "tile.broadcast"(%16) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %26 = "tile.add"(%25, %22) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %27 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %28 = "tile.lt"(%26, %27) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %29 = "tile.and"(%24, %28) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %30 = "tile.broadcast"(%20) {shape = [4096 : i64]} : (f16) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:21
        %v = "tile.load"(%x, %23, %29, %30) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:21
        "tile.store"(%s, %i, %22, %v) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:22
        %31 = "tile.cast"(%v) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %m_32 = "tile.maximum"(%m_14, %31) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %33 = "tile.add"(%i, %1) : (index, index) -> index  // samples/softmax.tile:20
        %34 = "tile.mul"(%33, %15) : (index, index) -> index  // samples/softmax.tile:21
        %35 = "tile.add"(%18, %34) : (index, index) -> index  // samples/softmax.tile:21
        %36 = "tile.broadcast"(%35) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %37 = "tile.add"(%36, %22) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %38 = "tile.broadcast"(%34) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %39 = "tile.add"(%38, %22) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %40 = "tile.lt"(%39, %27) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %41 = "tile.and"(%24, %40) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %v_42 = "tile.load"(%x, %37, %41, %30) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:21
        "tile.store"(%s, %33, %22, %v_42) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:22
        %43 = "tile.cast"(%v_42) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %m_44 = "tile.maximum"(%m_32, %43) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %45 = "tile.constant"() {dtype = index, value = 2 : i64} : () -> index  // samples/softmax.tile:20
        %46 = "tile.add"(%i, %45) : (index, index) -> index  // samples/softmax.tile:20
        %47 = "tile.mul"(%46, %15) : (index, index) -> index  // samples/softmax.tile:21
        %48 = "tile.add"(%18, %47) : (index, index) -> index  // samples/softmax.tile:21
        %49 = "tile.broadcast"(%48) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %50 = "tile.add"(%49, %22) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %51 = "tile.broadcast"(%47) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %52 = "tile.add"(%51, %22) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %53 = "tile.lt"(%52, %27) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %54 = "tile.and"(%24, %53) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %v_55 = "tile.load"(%x, %50, %54, %30) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:21
        "tile.store"(%s, %46, %22, %v_55) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:22
        %56 = "tile.cast"(%v_55) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %m_57 = "tile.maximum"(%m_44, %56) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %58 = "tile.constant"() {dtype = index, value = 3 : i64} : () -> index  // samples/softmax.tile:20
        %59 = "tile.add"(%i, %58) : (index, index) -> index  // samples/softmax.tile:20
        %60 = "tile.mul"(%59, %15) : (index, index) -> index  // samples/softmax.tile:21
        %61 = "tile.add"(%18, %60) : (index, index) -> index  // samples/softmax.tile:21
        %62 = "tile.broadcast"(%61) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %63 = "tile.add"(%62, %22) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %64 = "tile.broadcast"(%60) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %65 = "tile.add"(%64, %22) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %66 = "tile.lt"(%65, %27) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %67 = "tile.and"(%24, %66) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %v_68 = "tile.load"(%x, %63, %67, %30) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:21
        "tile.store"(%s, %59, %22, %v_68) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:22
        %69 = "tile.cast"(%v_68) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %m_70 = "tile.maximum"(%m_57, %69) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        "tile.yield"(%m_70) : (tensor<4096xf32, #layout0>) -> ()  // samples/softmax.tile:20
      }) {unroll = 1 : i64} : (index, index, index, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:20
      %m_71 = "tile.for"(%12, %5, %1, %13) ({
      ^bb0(%i_72: index, %m_73: tensor<4096xf32, #layout0>):
        %74 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:21
        %75 = "tile.mul"(%i_72, %74) : (index, index) -> index  // samples/softmax.tile:21
        %76 = "tile.lt"(%r, %rows) : (index, index) -> i1  // samples/softmax.tile:21
        %77 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:21
        %78 = "tile.add"(%77, %75) : (index, index) -> index  // samples/softmax.tile:21
        %79 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:21
        %80 = "tile.broadcast"(%78) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %81 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %82 = "tile.add"(%80, %81) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %83 = "tile.broadcast"(%76) {shape = [4096 : i64]} : (i1) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %84 = "tile.broadcast"(%75) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %85 = "tile.add"(%84, %81) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %86 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %87 = "tile.lt"(%85, %86) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %88 = "tile.and"(%83, %87) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %89 = "tile.broadcast"(%79) {shape = [4096 : i64]} : (f16) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:21
        %v_90 = "tile.load"(%x, %82, %88, %89) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:21
        "tile.store"(%s, %i_72, %81, %v_90) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:22
        %91 = "tile.cast"(%v_90) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %m_92 = "tile.maximum"(%m_73, %91) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        "tile.yield"(%m_92) : (tensor<4096xf32, #layout0>) -> ()  // samples/softmax.tile:23
      }) {unroll = 1 : i64} : (index, index, index, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:20
      %93 = "tile.partial_reduce"(%m_71) ({
      ^bb0(%94: f32, %95: f32):
        %96 = "tile.maximum"(%94, %95) : (f32, f32) -> f32  // samples/softmax.tile:24
        "tile.yield"(%96) : (f32) -> ()  // samples/softmax.tile:24
      }) {axis = 0 : i64, parts = 16 : i64} : (tensor<4096xf32, #layout0>) -> tensor<16xf32, #layout1>  // samples/softmax.tile:24
      %97 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout1>  // samples/softmax.tile:24
      "tile.store"(%scratch, %97, %93) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<16xindex, #layout1>, tensor<16xf32, #layout1>) -> ()  // samples/softmax.tile:24
      %98 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout2>  // samples/softmax.tile:24
      "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:24
      %99 = "tile.load"(%scratch, %98) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<16xindex, #layout2>) -> tensor<16xf32, #layout2>  // samples/softmax.tile:24
      %top = "tile.reduce"(%99) ({
      ^bb0(%100: f32, %101: f32):
        %102 = "tile.maximum"(%100, %101) : (f32, f32) -> f32  // samples/softmax.tile:24
        "tile.yield"(%102) : (f32) -> ()  // samples/softmax.tile:24
      }) {axis = 0 : i64} : (tensor<16xf32, #layout2>) -> f32  // samples/softmax.tile:24
      %103 = "tile.constant"() {dtype = f32, value = 0x0000000000000000 : f64} : () -> f32  // samples/softmax.tile:25
      %z = "tile.broadcast"(%103) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:25
      %104 = "tile.for"(%6, %12, %7, %z) ({
      ^bb0(%i_105: index, %z_106: tensor<4096xf32, #layout0>):
        %107 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:27
        %108 = "tile.load"(%s, %i_105, %107) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:27
        %109 = "tile.cast"(%108) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %110 = "tile.broadcast"(%top) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %111 = "tile.sub"(%109, %110) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %112 = "tile.constant"() {dtype = f32, value = 0xC062C00000000000 : f64} : () -> f32  // library/exp.tile:19
        %113 = "tile.constant"() {dtype = f32, value = 0x4062C00000000000 : f64} : () -> f32  // library/exp.tile:19
        %114 = "tile.broadcast"(%112) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %115 = "tile.maximum"(%111, %114) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %116 = "tile.broadcast"(%113) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %117 = "tile.minimum"(%115, %116) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %118 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:20
        %119 = "tile.constant"() {dtype = f32, value = 0xBFE0000000000000 : f64} : () -> f32  // library/exp.tile:20
        %120 = "tile.broadcast"(%118) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %121 = "tile.broadcast"(%119) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %122 = "tile.fma"(%117, %120, %121) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %123 = "tile.constant"() {dtype = f32, value = 0x4168000000000000 : f64} : () -> f32  // library/exp.tile:20
        %124 = "tile.broadcast"(%123) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %125 = "tile.add"(%122, %124) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %126 = "tile.sub"(%125, %124) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %127 = "tile.neg"(%126) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %128 = "tile.fma"(%117, %120, %127) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %129 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:22
        %130 = "tile.broadcast"(%129) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %131 = "tile.fma"(%117, %130, %128) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %132 = "tile.bitcast"(%125) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %133 = "tile.constant"() {dtype = si32, value = 1 : i64} : () -> si32  // library/exp.tile:24
        %134 = "tile.broadcast"(%133) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %135 = "tile.shr"(%132, %134) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %136 = "tile.ex2.approx.ftz"(%131) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %137 = "tile.constant"() {dtype = si32, value = 127 : i64} : () -> si32  // library/exp.tile:25
        %138 = "tile.broadcast"(%137) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %139 = "tile.add"(%135, %138) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %140 = "tile.constant"() {dtype = si32, value = 23 : i64} : () -> si32  // library/exp.tile:25
        %141 = "tile.broadcast"(%140) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %142 = "tile.shl"(%139, %141) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %143 = "tile.bitcast"(%142) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %144 = "tile.mul"(%136, %143) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %145 = "tile.sub"(%132, %135) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %146 = "tile.add"(%145, %138) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %147 = "tile.shl"(%146, %141) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %148 = "tile.bitcast"(%147) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %149 = "tile.mul"(%144, %148) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %z_150 = "tile.add"(%z_106, %149) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %151 = "tile.add"(%i_105, %1) : (index, index) -> index  // samples/softmax.tile:26
        %152 = "tile.load"(%s, %151, %107) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:27
        %153 = "tile.cast"(%152) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %154 = "tile.sub"(%153, %110) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %155 = "tile.maximum"(%154, %114) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %156 = "tile.minimum"(%155, %116) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %157 = "tile.fma"(%156, %120, %121) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %158 = "tile.add"(%157, %124) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %159 = "tile.sub"(%158, %124) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %160 = "tile.neg"(%159) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %161 = "tile.fma"(%156, %120, %160) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %162 = "tile.fma"(%156, %130, %161) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %163 = "tile.bitcast"(%158) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %164 = "tile.shr"(%163, %134) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %165 = "tile.ex2.approx.ftz"(%162) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %166 = "tile.add"(%164, %138) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %167 = "tile.shl"(%166, %141) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %168 = "tile.bitcast"(%167) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %169 = "tile.mul"(%165, %168) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %170 = "tile.sub"(%163, %164) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %171 = "tile.add"(%170, %138) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %172 = "tile.shl"(%171, %141) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %173 = "tile.bitcast"(%172) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %174 = "tile.mul"(%169, %173) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %z_175 = "tile.add"(%z_150, %174) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %176 = "tile.constant"() {dtype = index, value = 2 : i64} : () -> index  // samples/softmax.tile:26
        %177 = "tile.add"(%i_105, %176) : (index, index) -> index  // samples/softmax.tile:26
        %178 = "tile.load"(%s, %177, %107) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:27
        %179 = "tile.cast"(%178) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %180 = "tile.sub"(%179, %110) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %181 = "tile.maximum"(%180, %114) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %182 = "tile.minimum"(%181, %116) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %183 = "tile.fma"(%182, %120, %121) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %184 = "tile.add"(%183, %124) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %185 = "tile.sub"(%184, %124) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %186 = "tile.neg"(%185) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %187 = "tile.fma"(%182, %120, %186) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %188 = "tile.fma"(%182, %130, %187) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %189 = "tile.bitcast"(%184) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %190 = "tile.shr"(%189, %134) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %191 = "tile.ex2.approx.ftz"(%188) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %192 = "tile.add"(%190, %138) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %193 = "tile.shl"(%192, %141) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %194 = "tile.bitcast"(%193) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %195 = "tile.mul"(%191, %194) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %196 = "tile.sub"(%189, %190) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %197 = "tile.add"(%196, %138) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %198 = "tile.shl"(%197, %141) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %199 = "tile.bitcast"(%198) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %200 = "tile.mul"(%195, %199) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %z_201 = "tile.add"(%z_175, %200) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %202 = "tile.constant"() {dtype = index, value = 3 : i64} : () -> index  // samples/softmax.tile:26
        %203 = "tile.add"(%i_105, %202) : (index, index) -> index  // samples/softmax.tile:26
        %204 = "tile.load"(%s, %203, %107) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:27
        %205 = "tile.cast"(%204) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %206 = "tile.sub"(%205, %110) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %207 = "tile.maximum"(%206, %114) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %208 = "tile.minimum"(%207, %116) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %209 = "tile.fma"(%208, %120, %121) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %210 = "tile.add"(%209, %124) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %211 = "tile.sub"(%210, %124) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %212 = "tile.neg"(%211) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %213 = "tile.fma"(%208, %120, %212) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %214 = "tile.fma"(%208, %130, %213) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %215 = "tile.bitcast"(%210) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %216 = "tile.shr"(%215, %134) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %217 = "tile.ex2.approx.ftz"(%214) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %218 = "tile.add"(%216, %138) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %219 = "tile.shl"(%218, %141) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %220 = "tile.bitcast"(%219) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %221 = "tile.mul"(%217, %220) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %222 = "tile.sub"(%215, %216) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %223 = "tile.add"(%222, %138) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %224 = "tile.shl"(%223, %141) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %225 = "tile.bitcast"(%224) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %226 = "tile.mul"(%221, %225) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %z_227 = "tile.add"(%z_201, %226) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        "tile.yield"(%z_227) : (tensor<4096xf32, #layout0>) -> ()  // samples/softmax.tile:26
      }) {unroll = 1 : i64} : (index, index, index, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:26
      %z_228 = "tile.for"(%12, %5, %1, %104) ({
      ^bb0(%i_229: index, %z_230: tensor<4096xf32, #layout0>):
        %231 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:27
        %232 = "tile.load"(%s, %i_229, %231) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:27
        %233 = "tile.cast"(%232) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %234 = "tile.broadcast"(%top) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %235 = "tile.sub"(%233, %234) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %236 = "tile.constant"() {dtype = f32, value = 0xC062C00000000000 : f64} : () -> f32  // library/exp.tile:19
        %237 = "tile.constant"() {dtype = f32, value = 0x4062C00000000000 : f64} : () -> f32  // library/exp.tile:19
        %238 = "tile.broadcast"(%236) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %239 = "tile.maximum"(%235, %238) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %240 = "tile.broadcast"(%237) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %241 = "tile.minimum"(%239, %240) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %242 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:20
        %243 = "tile.constant"() {dtype = f32, value = 0xBFE0000000000000 : f64} : () -> f32  // library/exp.tile:20
        %244 = "tile.broadcast"(%242) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %245 = "tile.broadcast"(%243) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %246 = "tile.fma"(%241, %244, %245) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %247 = "tile.constant"() {dtype = f32, value = 0x4168000000000000 : f64} : () -> f32  // library/exp.tile:20
        %248 = "tile.broadcast"(%247) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %249 = "tile.add"(%246, %248) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %250 = "tile.sub"(%249, %248) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %251 = "tile.neg"(%250) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %252 = "tile.fma"(%241, %244, %251) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %253 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:22
        %254 = "tile.broadcast"(%253) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %255 = "tile.fma"(%241, %254, %252) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %256 = "tile.bitcast"(%249) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %257 = "tile.constant"() {dtype = si32, value = 1 : i64} : () -> si32  // library/exp.tile:24
        %258 = "tile.broadcast"(%257) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %259 = "tile.shr"(%256, %258) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %260 = "tile.ex2.approx.ftz"(%255) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %261 = "tile.constant"() {dtype = si32, value = 127 : i64} : () -> si32  // library/exp.tile:25
        %262 = "tile.broadcast"(%261) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %263 = "tile.add"(%259, %262) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %264 = "tile.constant"() {dtype = si32, value = 23 : i64} : () -> si32  // library/exp.tile:25
        %265 = "tile.broadcast"(%264) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %266 = "tile.shl"(%263, %265) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %267 = "tile.bitcast"(%266) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %268 = "tile.mul"(%260, %267) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %269 = "tile.sub"(%256, %259) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %270 = "tile.add"(%269, %262) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %271 = "tile.shl"(%270, %265) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %272 = "tile.bitcast"(%271) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %273 = "tile.mul"(%268, %272) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %z_274 = "tile.add"(%z_230, %273) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        "tile.yield"(%z_274) : (tensor<4096xf32, #layout0>) -> ()  // samples/softmax.tile:27
      }) {unroll = 1 : i64} : (index, index, index, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:26
      %275 = "tile.partial_reduce"(%z_228) ({
      ^bb0(%276: f32, %277: f32):
        %278 = "tile.add"(%276, %277) : (f32, f32) -> f32  // samples/softmax.tile:28
        "tile.yield"(%278) : (f32) -> ()  // samples/softmax.tile:28
      }) {axis = 0 : i64, parts = 16 : i64} : (tensor<4096xf32, #layout0>) -> tensor<16xf32, #layout1>  // samples/softmax.tile:28
      "tile.store"(%scratch_0, %97, %275) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<16xindex, #layout1>, tensor<16xf32, #layout1>) -> ()  // samples/softmax.tile:28
      "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:28
      %279 = "tile.load"(%scratch_0, %98) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<16xindex, #layout2>) -> tensor<16xf32, #layout2>  // samples/softmax.tile:28
      %280 = "tile.reduce"(%279) ({
      ^bb0(%281: f32, %282: f32):
        %283 = "tile.add"(%281, %282) : (f32, f32) -> f32  // samples/softmax.tile:28
        "tile.yield"(%283) : (f32) -> ()  // samples/softmax.tile:28
      }) {axis = 0 : i64} : (tensor<16xf32, #layout2>) -> f32  // samples/softmax.tile:28
      %284 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:28
      %inverse = "tile.div"(%284, %280) : (f32, f32) -> f32  // samples/softmax.tile:28
      "tile.for"(%6, %12, %7) ({
      ^bb0(%i_285: index):
        %286 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:30
        %287 = "tile.mul"(%i_285, %286) : (index, index) -> index  // samples/softmax.tile:30
        %288 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %289 = "tile.load"(%s, %i_285, %288) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %290 = "tile.cast"(%289) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %291 = "tile.broadcast"(%top) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %292 = "tile.sub"(%290, %291) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %293 = "tile.constant"() {dtype = f32, value = 0xC062C00000000000 : f64} : () -> f32  // library/exp.tile:19
        %294 = "tile.constant"() {dtype = f32, value = 0x4062C00000000000 : f64} : () -> f32  // library/exp.tile:19
        %295 = "tile.broadcast"(%293) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %296 = "tile.maximum"(%292, %295) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %297 = "tile.broadcast"(%294) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %298 = "tile.minimum"(%296, %297) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %299 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:20
        %300 = "tile.constant"() {dtype = f32, value = 0xBFE0000000000000 : f64} : () -> f32  // library/exp.tile:20
        %301 = "tile.broadcast"(%299) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %302 = "tile.broadcast"(%300) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %303 = "tile.fma"(%298, %301, %302) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %304 = "tile.constant"() {dtype = f32, value = 0x4168000000000000 : f64} : () -> f32  // library/exp.tile:20
        %305 = "tile.broadcast"(%304) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %306 = "tile.add"(%303, %305) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %307 = "tile.sub"(%306, %305) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %308 = "tile.neg"(%307) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %309 = "tile.fma"(%298, %301, %308) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %310 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:22
        %311 = "tile.broadcast"(%310) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %312 = "tile.fma"(%298, %311, %309) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %313 = "tile.bitcast"(%306) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %314 = "tile.constant"() {dtype = si32, value = 1 : i64} : () -> si32  // library/exp.tile:24
        %315 = "tile.broadcast"(%314) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %316 = "tile.shr"(%313, %315) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %317 = "tile.ex2.approx.ftz"(%312) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %318 = "tile.constant"() {dtype = si32, value = 127 : i64} : () -> si32  // library/exp.tile:25
        %319 = "tile.broadcast"(%318) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %320 = "tile.add"(%316, %319) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %321 = "tile.constant"() {dtype = si32, value = 23 : i64} : () -> si32  // library/exp.tile:25
        %322 = "tile.broadcast"(%321) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %323 = "tile.shl"(%320, %322) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %324 = "tile.bitcast"(%323) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %325 = "tile.mul"(%317, %324) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %326 = "tile.sub"(%313, %316) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %327 = "tile.add"(%326, %319) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %328 = "tile.shl"(%327, %322) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %329 = "tile.bitcast"(%328) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %330 = "tile.mul"(%325, %329) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %331 = "tile.broadcast"(%inverse) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %332 = "tile.mul"(%330, %331) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %333 = "tile.cast"(%332) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %334 = "tile.lt"(%r, %rows) : (index, index) -> i1  // samples/softmax.tile:30
        %335 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:30
        %336 = "tile.add"(%335, %287) : (index, index) -> index  // samples/softmax.tile:30
        %337 = "tile.broadcast"(%336) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %338 = "tile.add"(%337, %288) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %339 = "tile.broadcast"(%334) {shape = [4096 : i64]} : (i1) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        %340 = "tile.broadcast"(%287) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %341 = "tile.add"(%340, %288) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %342 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %343 = "tile.lt"(%341, %342) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        %344 = "tile.and"(%339, %343) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        "tile.store"(%y, %338, %344, %333) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:30
        %345 = "tile.add"(%i_285, %1) : (index, index) -> index  // samples/softmax.tile:29
        %346 = "tile.mul"(%345, %286) : (index, index) -> index  // samples/softmax.tile:30
        %347 = "tile.load"(%s, %345, %288) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %348 = "tile.cast"(%347) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %349 = "tile.sub"(%348, %291) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %350 = "tile.maximum"(%349, %295) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %351 = "tile.minimum"(%350, %297) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %352 = "tile.fma"(%351, %301, %302) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %353 = "tile.add"(%352, %305) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %354 = "tile.sub"(%353, %305) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %355 = "tile.neg"(%354) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %356 = "tile.fma"(%351, %301, %355) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %357 = "tile.fma"(%351, %311, %356) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %358 = "tile.bitcast"(%353) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %359 = "tile.shr"(%358, %315) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %360 = "tile.ex2.approx.ftz"(%357) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %361 = "tile.add"(%359, %319) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %362 = "tile.shl"(%361, %322) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %363 = "tile.bitcast"(%362) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %364 = "tile.mul"(%360, %363) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %365 = "tile.sub"(%358, %359) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %366 = "tile.add"(%365, %319) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %367 = "tile.shl"(%366, %322) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %368 = "tile.bitcast"(%367) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %369 = "tile.mul"(%364, %368) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %370 = "tile.mul"(%369, %331) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %371 = "tile.cast"(%370) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %372 = "tile.add"(%335, %346) : (index, index) -> index  // samples/softmax.tile:30
        %373 = "tile.broadcast"(%372) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %374 = "tile.add"(%373, %288) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %375 = "tile.broadcast"(%346) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %376 = "tile.add"(%375, %288) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %377 = "tile.lt"(%376, %342) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        %378 = "tile.and"(%339, %377) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        "tile.store"(%y, %374, %378, %371) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:30
        %379 = "tile.constant"() {dtype = index, value = 2 : i64} : () -> index  // samples/softmax.tile:29
        %380 = "tile.add"(%i_285, %379) : (index, index) -> index  // samples/softmax.tile:29
        %381 = "tile.mul"(%380, %286) : (index, index) -> index  // samples/softmax.tile:30
        %382 = "tile.load"(%s, %380, %288) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %383 = "tile.cast"(%382) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %384 = "tile.sub"(%383, %291) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %385 = "tile.maximum"(%384, %295) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %386 = "tile.minimum"(%385, %297) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %387 = "tile.fma"(%386, %301, %302) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %388 = "tile.add"(%387, %305) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %389 = "tile.sub"(%388, %305) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %390 = "tile.neg"(%389) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %391 = "tile.fma"(%386, %301, %390) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %392 = "tile.fma"(%386, %311, %391) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %393 = "tile.bitcast"(%388) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %394 = "tile.shr"(%393, %315) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %395 = "tile.ex2.approx.ftz"(%392) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %396 = "tile.add"(%394, %319) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %397 = "tile.shl"(%396, %322) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %398 = "tile.bitcast"(%397) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %399 = "tile.mul"(%395, %398) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %400 = "tile.sub"(%393, %394) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %401 = "tile.add"(%400, %319) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %402 = "tile.shl"(%401, %322) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %403 = "tile.bitcast"(%402) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %404 = "tile.mul"(%399, %403) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %405 = "tile.mul"(%404, %331) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %406 = "tile.cast"(%405) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %407 = "tile.add"(%335, %381) : (index, index) -> index  // samples/softmax.tile:30
        %408 = "tile.broadcast"(%407) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %409 = "tile.add"(%408, %288) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %410 = "tile.broadcast"(%381) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %411 = "tile.add"(%410, %288) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %412 = "tile.lt"(%411, %342) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        %413 = "tile.and"(%339, %412) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        "tile.store"(%y, %409, %413, %406) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:30
        %414 = "tile.constant"() {dtype = index, value = 3 : i64} : () -> index  // samples/softmax.tile:29
        %415 = "tile.add"(%i_285, %414) : (index, index) -> index  // samples/softmax.tile:29
        %416 = "tile.mul"(%415, %286) : (index, index) -> index  // samples/softmax.tile:30
        %417 = "tile.load"(%s, %415, %288) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %418 = "tile.cast"(%417) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %419 = "tile.sub"(%418, %291) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %420 = "tile.maximum"(%419, %295) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %421 = "tile.minimum"(%420, %297) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %422 = "tile.fma"(%421, %301, %302) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %423 = "tile.add"(%422, %305) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %424 = "tile.sub"(%423, %305) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %425 = "tile.neg"(%424) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %426 = "tile.fma"(%421, %301, %425) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %427 = "tile.fma"(%421, %311, %426) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %428 = "tile.bitcast"(%423) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %429 = "tile.shr"(%428, %315) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %430 = "tile.ex2.approx.ftz"(%427) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %431 = "tile.add"(%429, %319) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %432 = "tile.shl"(%431, %322) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %433 = "tile.bitcast"(%432) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %434 = "tile.mul"(%430, %433) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %435 = "tile.sub"(%428, %429) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %436 = "tile.add"(%435, %319) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %437 = "tile.shl"(%436, %322) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %438 = "tile.bitcast"(%437) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %439 = "tile.mul"(%434, %438) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %440 = "tile.mul"(%439, %331) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %441 = "tile.cast"(%440) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %442 = "tile.add"(%335, %416) : (index, index) -> index  // samples/softmax.tile:30
        %443 = "tile.broadcast"(%442) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %444 = "tile.add"(%443, %288) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %445 = "tile.broadcast"(%416) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %446 = "tile.add"(%445, %288) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %447 = "tile.lt"(%446, %342) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        %448 = "tile.and"(%339, %447) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        "tile.store"(%y, %444, %448, %441) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:30
        "tile.yield"() : () -> ()  // samples/softmax.tile:29
      }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:29
      "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:29
      "tile.for"(%12, %5, %1) ({
      ^bb0(%i_449: index):
        %450 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:30
        %451 = "tile.mul"(%i_449, %450) : (index, index) -> index  // samples/softmax.tile:30
        %452 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %453 = "tile.load"(%s, %i_449, %452) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %454 = "tile.cast"(%453) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %455 = "tile.broadcast"(%top) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %456 = "tile.sub"(%454, %455) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %457 = "tile.constant"() {dtype = f32, value = 0xC062C00000000000 : f64} : () -> f32  // library/exp.tile:19
        %458 = "tile.constant"() {dtype = f32, value = 0x4062C00000000000 : f64} : () -> f32  // library/exp.tile:19
        %459 = "tile.broadcast"(%457) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %460 = "tile.maximum"(%456, %459) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %461 = "tile.broadcast"(%458) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %462 = "tile.minimum"(%460, %461) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %463 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:20
        %464 = "tile.constant"() {dtype = f32, value = 0xBFE0000000000000 : f64} : () -> f32  // library/exp.tile:20
        %465 = "tile.broadcast"(%463) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %466 = "tile.broadcast"(%464) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %467 = "tile.fma"(%462, %465, %466) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %468 = "tile.constant"() {dtype = f32, value = 0x4168000000000000 : f64} : () -> f32  // library/exp.tile:20
        %469 = "tile.broadcast"(%468) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %470 = "tile.add"(%467, %469) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %471 = "tile.sub"(%470, %469) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %472 = "tile.neg"(%471) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %473 = "tile.fma"(%462, %465, %472) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %474 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:22
        %475 = "tile.broadcast"(%474) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %476 = "tile.fma"(%462, %475, %473) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %477 = "tile.bitcast"(%470) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %478 = "tile.constant"() {dtype = si32, value = 1 : i64} : () -> si32  // library/exp.tile:24
        %479 = "tile.broadcast"(%478) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %480 = "tile.shr"(%477, %479) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %481 = "tile.ex2.approx.ftz"(%476) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %482 = "tile.constant"() {dtype = si32, value = 127 : i64} : () -> si32  // library/exp.tile:25
        %483 = "tile.broadcast"(%482) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %484 = "tile.add"(%480, %483) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %485 = "tile.constant"() {dtype = si32, value = 23 : i64} : () -> si32  // library/exp.tile:25
        %486 = "tile.broadcast"(%485) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %487 = "tile.shl"(%484, %486) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %488 = "tile.bitcast"(%487) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %489 = "tile.mul"(%481, %488) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %490 = "tile.sub"(%477, %480) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %491 = "tile.add"(%490, %483) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %492 = "tile.shl"(%491, %486) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %493 = "tile.bitcast"(%492) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %494 = "tile.mul"(%489, %493) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %495 = "tile.broadcast"(%inverse) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %496 = "tile.mul"(%494, %495) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %497 = "tile.cast"(%496) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %498 = "tile.lt"(%r, %rows) : (index, index) -> i1  // samples/softmax.tile:30
        %499 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:30
        %500 = "tile.add"(%499, %451) : (index, index) -> index  // samples/softmax.tile:30
        %501 = "tile.broadcast"(%500) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %502 = "tile.add"(%501, %452) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %503 = "tile.broadcast"(%498) {shape = [4096 : i64]} : (i1) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        %504 = "tile.broadcast"(%451) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %505 = "tile.add"(%504, %452) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %506 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %507 = "tile.lt"(%505, %506) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        %508 = "tile.and"(%503, %507) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        "tile.store"(%y, %502, %508, %497) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:30
        "tile.yield"() : () -> ()  // samples/softmax.tile:30
      }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:29
      "tile.yield"() : () -> ()  // samples/softmax.tile:30
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:18
  }) {index_bits = 32 : i64, name = "softmax_shared", shared_bytes = 41088 : i64, unroll = {i = 4 : i64}, warps = 16 : i64} : () -> ()
}) : () -> ()
