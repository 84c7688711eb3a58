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
        %17 = "tile.le"(%6, %r) : (index, index) -> i1  // samples/softmax.tile:21
        %18 = "tile.lt"(%r, %rows) : (index, index) -> i1  // samples/softmax.tile:21
        %19 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:21
        %20 = "tile.add"(%19, %16) : (index, index) -> index  // samples/softmax.tile:21
        %21 = "tile.and"(%17, %18) : (i1, i1) -> i1  // samples/softmax.tile:21
        %22 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:21
        %23 = "tile.broadcast"(%20) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %24 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %25 = "tile.add"(%23, %24) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %26 = "tile.broadcast"(%21) {shape = [4096 : i64]} : (i1) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %27 = "tile.broadcast"(%16) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %28 = "tile.add"(%27, %24) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %29 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %30 = "tile.lt"(%28, %29) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %31 = "tile.and"(%26, %30) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %32 = "tile.broadcast"(%22) {shape = [4096 : i64]} : (f16) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:21
        %v = "tile.load"(%x, %25, %31, %32) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:21
        "tile.store"(%s, %i, %24, %v) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:22
        %33 = "tile.cast"(%v) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %m_34 = "tile.maximum"(%m_14, %33) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %35 = "tile.add"(%i, %1) : (index, index) -> index  // samples/softmax.tile:20
        %36 = "tile.mul"(%35, %15) : (index, index) -> index  // samples/softmax.tile:21
        %37 = "tile.add"(%19, %36) : (index, index) -> index  // samples/softmax.tile:21
        %38 = "tile.broadcast"(%37) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %39 = "tile.add"(%38, %24) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %40 = "tile.broadcast"(%36) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %41 = "tile.add"(%40, %24) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %42 = "tile.lt"(%41, %29) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %43 = "tile.and"(%26, %42) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %v_44 = "tile.load"(%x, %39, %43, %32) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:21
        "tile.store"(%s, %35, %24, %v_44) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:22
        %45 = "tile.cast"(%v_44) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %m_46 = "tile.maximum"(%m_34, %45) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %47 = "tile.constant"() {dtype = index, value = 2 : i64} : () -> index  // samples/softmax.tile:20
        %48 = "tile.add"(%i, %47) : (index, index) -> index  // samples/softmax.tile:20
        %49 = "tile.mul"(%48, %15) : (index, index) -> index  // samples/softmax.tile:21
        %50 = "tile.add"(%19, %49) : (index, index) -> index  // samples/softmax.tile:21
        %51 = "tile.broadcast"(%50) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %52 = "tile.add"(%51, %24) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %53 = "tile.broadcast"(%49) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %54 = "tile.add"(%53, %24) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %55 = "tile.lt"(%54, %29) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %56 = "tile.and"(%26, %55) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %v_57 = "tile.load"(%x, %52, %56, %32) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:21
        "tile.store"(%s, %48, %24, %v_57) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:22
        %58 = "tile.cast"(%v_57) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %m_59 = "tile.maximum"(%m_46, %58) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %60 = "tile.constant"() {dtype = index, value = 3 : i64} : () -> index  // samples/softmax.tile:20
        %61 = "tile.add"(%i, %60) : (index, index) -> index  // samples/softmax.tile:20
        %62 = "tile.mul"(%61, %15) : (index, index) -> index  // samples/softmax.tile:21
        %63 = "tile.add"(%19, %62) : (index, index) -> index  // samples/softmax.tile:21
        %64 = "tile.broadcast"(%63) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %65 = "tile.add"(%64, %24) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %66 = "tile.broadcast"(%62) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %67 = "tile.add"(%66, %24) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %68 = "tile.lt"(%67, %29) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %69 = "tile.and"(%26, %68) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %v_70 = "tile.load"(%x, %65, %69, %32) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:21
        "tile.store"(%s, %61, %24, %v_70) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:22
        %71 = "tile.cast"(%v_70) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %m_72 = "tile.maximum"(%m_59, %71) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        "tile.yield"(%m_72) : (tensor<4096xf32, #layout0>) -> ()  // samples/softmax.tile:20
      }) {unroll = 1 : i64} : (index, index, index, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:20
      %m_73 = "tile.for"(%12, %5, %1, %13) ({
      ^bb0(%i_74: index, %m_75: tensor<4096xf32, #layout0>):
        %76 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:21
        %77 = "tile.mul"(%i_74, %76) : (index, index) -> index  // samples/softmax.tile:21
        %78 = "tile.le"(%6, %r) : (index, index) -> i1  // samples/softmax.tile:21
        %79 = "tile.lt"(%r, %rows) : (index, index) -> i1  // samples/softmax.tile:21
        %80 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:21
        %81 = "tile.add"(%80, %77) : (index, index) -> index  // samples/softmax.tile:21
        %82 = "tile.and"(%78, %79) : (i1, i1) -> i1  // samples/softmax.tile:21
        %83 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:21
        %84 = "tile.broadcast"(%81) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %85 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %86 = "tile.add"(%84, %85) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %87 = "tile.broadcast"(%82) {shape = [4096 : i64]} : (i1) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %88 = "tile.broadcast"(%77) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %89 = "tile.add"(%88, %85) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %90 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %91 = "tile.lt"(%89, %90) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %92 = "tile.and"(%87, %91) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %93 = "tile.broadcast"(%83) {shape = [4096 : i64]} : (f16) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:21
        %v_94 = "tile.load"(%x, %86, %92, %93) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:21
        "tile.store"(%s, %i_74, %85, %v_94) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:22
        %95 = "tile.cast"(%v_94) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %m_96 = "tile.maximum"(%m_75, %95) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        "tile.yield"(%m_96) : (tensor<4096xf32, #layout0>) -> ()  // samples/softmax.tile:23
      }) {unroll = 1 : i64} : (index, index, index, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:20
      %97 = "tile.partial_reduce"(%m_73) ({
      ^bb0(%98: f32, %99: f32):
        %100 = "tile.maximum"(%98, %99) : (f32, f32) -> f32  // samples/softmax.tile:24
        "tile.yield"(%100) : (f32) -> ()  // samples/softmax.tile:24
      }) {axis = 0 : i64, parts = 16 : i64} : (tensor<4096xf32, #layout0>) -> tensor<16xf32, #layout1>  // samples/softmax.tile:24
      %101 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout1>  // samples/softmax.tile:24
      "tile.store"(%scratch, %101, %97) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<16xindex, #layout1>, tensor<16xf32, #layout1>) -> ()  // samples/softmax.tile:24
      %102 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout2>  // samples/softmax.tile:24
      "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:24
      %103 = "tile.load"(%scratch, %102) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<16xindex, #layout2>) -> tensor<16xf32, #layout2>  // samples/softmax.tile:24
      %top = "tile.reduce"(%103) ({
      ^bb0(%104: f32, %105: f32):
        %106 = "tile.maximum"(%104, %105) : (f32, f32) -> f32  // samples/softmax.tile:24
        "tile.yield"(%106) : (f32) -> ()  // samples/softmax.tile:24
      }) {axis = 0 : i64} : (tensor<16xf32, #layout2>) -> f32  // samples/softmax.tile:24
      %107 = "tile.constant"() {dtype = f32, value = 0x0000000000000000 : f64} : () -> f32  // samples/softmax.tile:25
      %z = "tile.broadcast"(%107) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:25
      %108 = "tile.for"(%6, %12, %7, %z) ({
      ^bb0(%i_109: index, %z_110: tensor<4096xf32, #layout0>):
        %111 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:27
        %112 = "tile.load"(%s, %i_109, %111) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:27
        %113 = "tile.cast"(%112) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %114 = "tile.broadcast"(%top) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %115 = "tile.sub"(%113, %114) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %116 = "tile.constant"() {dtype = f32, value = 0xC062C00000000000 : f64} : () -> f32  // library/exp.tile:19
        %117 = "tile.constant"() {dtype = f32, value = 0x4062C00000000000 : f64} : () -> f32  // library/exp.tile:19
        %118 = "tile.broadcast"(%116) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %119 = "tile.maximum"(%115, %118) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %120 = "tile.broadcast"(%117) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %121 = "tile.minimum"(%119, %120) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %122 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:20
        %123 = "tile.constant"() {dtype = f32, value = 0xBFE0000000000000 : f64} : () -> f32  // library/exp.tile:20
        %124 = "tile.broadcast"(%122) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %125 = "tile.broadcast"(%123) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %126 = "tile.fma"(%121, %124, %125) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %127 = "tile.constant"() {dtype = f32, value = 0x4168000000000000 : f64} : () -> f32  // library/exp.tile:20
        %128 = "tile.broadcast"(%127) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %129 = "tile.add"(%126, %128) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %130 = "tile.sub"(%129, %128) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %131 = "tile.neg"(%130) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %132 = "tile.fma"(%121, %124, %131) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %133 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:22
        %134 = "tile.broadcast"(%133) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %135 = "tile.fma"(%121, %134, %132) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %136 = "tile.bitcast"(%129) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %137 = "tile.constant"() {dtype = si32, value = 1 : i64} : () -> si32  // library/exp.tile:24
        %138 = "tile.broadcast"(%137) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %139 = "tile.shr"(%136, %138) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %140 = "tile.ex2.approx.ftz"(%135) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %141 = "tile.constant"() {dtype = si32, value = 127 : i64} : () -> si32  // library/exp.tile:25
        %142 = "tile.broadcast"(%141) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %143 = "tile.add"(%139, %142) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %144 = "tile.constant"() {dtype = si32, value = 23 : i64} : () -> si32  // library/exp.tile:25
        %145 = "tile.broadcast"(%144) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %146 = "tile.shl"(%143, %145) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %147 = "tile.bitcast"(%146) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %148 = "tile.mul"(%140, %147) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %149 = "tile.sub"(%136, %139) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %150 = "tile.add"(%149, %142) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %151 = "tile.shl"(%150, %145) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %152 = "tile.bitcast"(%151) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %153 = "tile.mul"(%148, %152) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %z_154 = "tile.add"(%z_110, %153) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %155 = "tile.add"(%i_109, %1) : (index, index) -> index  // samples/softmax.tile:26
        %156 = "tile.load"(%s, %155, %111) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:27
        %157 = "tile.cast"(%156) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %158 = "tile.sub"(%157, %114) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %159 = "tile.maximum"(%158, %118) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %160 = "tile.minimum"(%159, %120) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %161 = "tile.fma"(%160, %124, %125) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %162 = "tile.add"(%161, %128) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %163 = "tile.sub"(%162, %128) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %164 = "tile.neg"(%163) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %165 = "tile.fma"(%160, %124, %164) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %166 = "tile.fma"(%160, %134, %165) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %167 = "tile.bitcast"(%162) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %168 = "tile.shr"(%167, %138) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %169 = "tile.ex2.approx.ftz"(%166) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %170 = "tile.add"(%168, %142) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %171 = "tile.shl"(%170, %145) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %172 = "tile.bitcast"(%171) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %173 = "tile.mul"(%169, %172) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %174 = "tile.sub"(%167, %168) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %175 = "tile.add"(%174, %142) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %176 = "tile.shl"(%175, %145) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %177 = "tile.bitcast"(%176) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %178 = "tile.mul"(%173, %177) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %z_179 = "tile.add"(%z_154, %178) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %180 = "tile.constant"() {dtype = index, value = 2 : i64} : () -> index  // samples/softmax.tile:26
        %181 = "tile.add"(%i_109, %180) : (index, index) -> index  // samples/softmax.tile:26
        %182 = "tile.load"(%s, %181, %111) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:27
        %183 = "tile.cast"(%182) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %184 = "tile.sub"(%183, %114) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %185 = "tile.maximum"(%184, %118) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %186 = "tile.minimum"(%185, %120) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %187 = "tile.fma"(%186, %124, %125) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %188 = "tile.add"(%187, %128) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %189 = "tile.sub"(%188, %128) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %190 = "tile.neg"(%189) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %191 = "tile.fma"(%186, %124, %190) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %192 = "tile.fma"(%186, %134, %191) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %193 = "tile.bitcast"(%188) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %194 = "tile.shr"(%193, %138) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %195 = "tile.ex2.approx.ftz"(%192) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %196 = "tile.add"(%194, %142) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %197 = "tile.shl"(%196, %145) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %198 = "tile.bitcast"(%197) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %199 = "tile.mul"(%195, %198) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %200 = "tile.sub"(%193, %194) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %201 = "tile.add"(%200, %142) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %202 = "tile.shl"(%201, %145) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %203 = "tile.bitcast"(%202) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %204 = "tile.mul"(%199, %203) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %z_205 = "tile.add"(%z_179, %204) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %206 = "tile.constant"() {dtype = index, value = 3 : i64} : () -> index  // samples/softmax.tile:26
        %207 = "tile.add"(%i_109, %206) : (index, index) -> index  // samples/softmax.tile:26
        %208 = "tile.load"(%s, %207, %111) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:27
        %209 = "tile.cast"(%208) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %210 = "tile.sub"(%209, %114) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %211 = "tile.maximum"(%210, %118) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %212 = "tile.minimum"(%211, %120) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %213 = "tile.fma"(%212, %124, %125) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %214 = "tile.add"(%213, %128) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %215 = "tile.sub"(%214, %128) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %216 = "tile.neg"(%215) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %217 = "tile.fma"(%212, %124, %216) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %218 = "tile.fma"(%212, %134, %217) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %219 = "tile.bitcast"(%214) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %220 = "tile.shr"(%219, %138) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %221 = "tile.ex2.approx.ftz"(%218) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %222 = "tile.add"(%220, %142) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %223 = "tile.shl"(%222, %145) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %224 = "tile.bitcast"(%223) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %225 = "tile.mul"(%221, %224) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %226 = "tile.sub"(%219, %220) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %227 = "tile.add"(%226, %142) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %228 = "tile.shl"(%227, %145) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %229 = "tile.bitcast"(%228) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %230 = "tile.mul"(%225, %229) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %z_231 = "tile.add"(%z_205, %230) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        "tile.yield"(%z_231) : (tensor<4096xf32, #layout0>) -> ()  // samples/softmax.tile:26
      }) {unroll = 1 : i64} : (index, index, index, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:26
      %z_232 = "tile.for"(%12, %5, %1, %108) ({
      ^bb0(%i_233: index, %z_234: tensor<4096xf32, #layout0>):
        %235 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:27
        %236 = "tile.load"(%s, %i_233, %235) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:27
        %237 = "tile.cast"(%236) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %238 = "tile.broadcast"(%top) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %239 = "tile.sub"(%237, %238) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %240 = "tile.constant"() {dtype = f32, value = 0xC062C00000000000 : f64} : () -> f32  // library/exp.tile:19
        %241 = "tile.constant"() {dtype = f32, value = 0x4062C00000000000 : f64} : () -> f32  // library/exp.tile:19
        %242 = "tile.broadcast"(%240) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %243 = "tile.maximum"(%239, %242) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %244 = "tile.broadcast"(%241) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %245 = "tile.minimum"(%243, %244) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %246 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:20
        %247 = "tile.constant"() {dtype = f32, value = 0xBFE0000000000000 : f64} : () -> f32  // library/exp.tile:20
        %248 = "tile.broadcast"(%246) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %249 = "tile.broadcast"(%247) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %250 = "tile.fma"(%245, %248, %249) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %251 = "tile.constant"() {dtype = f32, value = 0x4168000000000000 : f64} : () -> f32  // library/exp.tile:20
        %252 = "tile.broadcast"(%251) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %253 = "tile.add"(%250, %252) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %254 = "tile.sub"(%253, %252) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %255 = "tile.neg"(%254) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %256 = "tile.fma"(%245, %248, %255) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %257 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:22
        %258 = "tile.broadcast"(%257) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %259 = "tile.fma"(%245, %258, %256) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %260 = "tile.bitcast"(%253) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %261 = "tile.constant"() {dtype = si32, value = 1 : i64} : () -> si32  // library/exp.tile:24
        %262 = "tile.broadcast"(%261) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %263 = "tile.shr"(%260, %262) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %264 = "tile.ex2.approx.ftz"(%259) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %265 = "tile.constant"() {dtype = si32, value = 127 : i64} : () -> si32  // library/exp.tile:25
        %266 = "tile.broadcast"(%265) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %267 = "tile.add"(%263, %266) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %268 = "tile.constant"() {dtype = si32, value = 23 : i64} : () -> si32  // library/exp.tile:25
        %269 = "tile.broadcast"(%268) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %270 = "tile.shl"(%267, %269) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %271 = "tile.bitcast"(%270) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %272 = "tile.mul"(%264, %271) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %273 = "tile.sub"(%260, %263) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %274 = "tile.add"(%273, %266) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %275 = "tile.shl"(%274, %269) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %276 = "tile.bitcast"(%275) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %277 = "tile.mul"(%272, %276) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %z_278 = "tile.add"(%z_234, %277) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        "tile.yield"(%z_278) : (tensor<4096xf32, #layout0>) -> ()  // samples/softmax.tile:27
      }) {unroll = 1 : i64} : (index, index, index, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:26
      %279 = "tile.partial_reduce"(%z_232) ({
      ^bb0(%280: f32, %281: f32):
        %282 = "tile.add"(%280, %281) : (f32, f32) -> f32  // samples/softmax.tile:28
        "tile.yield"(%282) : (f32) -> ()  // samples/softmax.tile:28
      }) {axis = 0 : i64, parts = 16 : i64} : (tensor<4096xf32, #layout0>) -> tensor<16xf32, #layout1>  // samples/softmax.tile:28
      "tile.store"(%scratch_0, %101, %279) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<16xindex, #layout1>, tensor<16xf32, #layout1>) -> ()  // samples/softmax.tile:28
      "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:28
      %283 = "tile.load"(%scratch_0, %102) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<16xindex, #layout2>) -> tensor<16xf32, #layout2>  // samples/softmax.tile:28
      %284 = "tile.reduce"(%283) ({
      ^bb0(%285: f32, %286: f32):
        %287 = "tile.add"(%285, %286) : (f32, f32) -> f32  // samples/softmax.tile:28
        "tile.yield"(%287) : (f32) -> ()  // samples/softmax.tile:28
      }) {axis = 0 : i64} : (tensor<16xf32, #layout2>) -> f32  // samples/softmax.tile:28
      %288 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:28
      %inverse = "tile.div"(%288, %284) : (f32, f32) -> f32  // samples/softmax.tile:28
      "tile.for"(%6, %12, %7) ({
      ^bb0(%i_289: index):
        %290 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:30
        %291 = "tile.mul"(%i_289, %290) : (index, index) -> index  // samples/softmax.tile:30
        %292 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %293 = "tile.load"(%s, %i_289, %292) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %294 = "tile.cast"(%293) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %295 = "tile.broadcast"(%top) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %296 = "tile.sub"(%294, %295) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %297 = "tile.constant"() {dtype = f32, value = 0xC062C00000000000 : f64} : () -> f32  // library/exp.tile:19
        %298 = "tile.constant"() {dtype = f32, value = 0x4062C00000000000 : f64} : () -> f32  // library/exp.tile:19
        %299 = "tile.broadcast"(%297) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %300 = "tile.maximum"(%296, %299) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %301 = "tile.broadcast"(%298) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %302 = "tile.minimum"(%300, %301) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %303 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:20
        %304 = "tile.constant"() {dtype = f32, value = 0xBFE0000000000000 : f64} : () -> f32  // library/exp.tile:20
        %305 = "tile.broadcast"(%303) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %306 = "tile.broadcast"(%304) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %307 = "tile.fma"(%302, %305, %306) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %308 = "tile.constant"() {dtype = f32, value = 0x4168000000000000 : f64} : () -> f32  // library/exp.tile:20
        %309 = "tile.broadcast"(%308) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %310 = "tile.add"(%307, %309) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %311 = "tile.sub"(%310, %309) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %312 = "tile.neg"(%311) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %313 = "tile.fma"(%302, %305, %312) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %314 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:22
        %315 = "tile.broadcast"(%314) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %316 = "tile.fma"(%302, %315, %313) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %317 = "tile.bitcast"(%310) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %318 = "tile.constant"() {dtype = si32, value = 1 : i64} : () -> si32  // library/exp.tile:24
        %319 = "tile.broadcast"(%318) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %320 = "tile.shr"(%317, %319) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %321 = "tile.ex2.approx.ftz"(%316) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %322 = "tile.constant"() {dtype = si32, value = 127 : i64} : () -> si32  // library/exp.tile:25
        %323 = "tile.broadcast"(%322) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %324 = "tile.add"(%320, %323) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %325 = "tile.constant"() {dtype = si32, value = 23 : i64} : () -> si32  // library/exp.tile:25
        %326 = "tile.broadcast"(%325) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %327 = "tile.shl"(%324, %326) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %328 = "tile.bitcast"(%327) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %329 = "tile.mul"(%321, %328) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %330 = "tile.sub"(%317, %320) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %331 = "tile.add"(%330, %323) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %332 = "tile.shl"(%331, %326) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %333 = "tile.bitcast"(%332) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %334 = "tile.mul"(%329, %333) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %335 = "tile.broadcast"(%inverse) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %336 = "tile.mul"(%334, %335) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %337 = "tile.cast"(%336) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %338 = "tile.le"(%6, %r) : (index, index) -> i1  // samples/softmax.tile:30
        %339 = "tile.lt"(%r, %rows) : (index, index) -> i1  // samples/softmax.tile:30
        %340 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:30
        %341 = "tile.add"(%340, %291) : (index, index) -> index  // samples/softmax.tile:30
        %342 = "tile.and"(%338, %339) : (i1, i1) -> i1  // samples/softmax.tile:30
        %343 = "tile.broadcast"(%341) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %344 = "tile.add"(%343, %292) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %345 = "tile.broadcast"(%342) {shape = [4096 : i64]} : (i1) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        %346 = "tile.broadcast"(%291) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %347 = "tile.add"(%346, %292) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %348 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %349 = "tile.lt"(%347, %348) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        %350 = "tile.and"(%345, %349) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:30
        "tile.store"(%y, %344, %350, %337) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:30
        %351 = "tile.add"(%i_289, %1) : (index, index) -> index  // samples/softmax.tile:29
        %352 = "tile.mul"(%351, %290) : (index, index) -> index  // samples/softmax.tile:30
        %353 = "tile.load"(%s, %351, %292) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %354 = "tile.cast"(%353) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %355 = "tile.sub"(%354, %295) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %356 = "tile.maximum"(%355, %299) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %357 = "tile.minimum"(%356, %301) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %358 = "tile.fma"(%357, %305, %306) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %359 = "tile.add"(%358, %309) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %360 = "tile.sub"(%359, %309) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %361 = "tile.neg"(%360) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %362 = "tile.fma"(%357, %305, %361) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %363 = "tile.fma"(%357, %315, %362) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %364 = "tile.bitcast"(%359) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %365 = "tile.shr"(%364, %319) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %366 = "tile.ex2.approx.ftz"(%363) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %367 = "tile.add"(%365, %323) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %368 = "tile.shl"(%367, %326) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %369 = "tile.bitcast"(%368) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %370 = "tile.mul"(%366, %369) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %371 = "tile.sub"(%364, %365) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %372 = "tile.add"(%371, %323) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %373 = "tile.shl"(%372, %326) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %374 = "tile.bitcast"(%373) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %375 = "tile.mul"(%370, %374) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %376 = "tile.mul"(%375, %335) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %377 = "tile.cast"(%376) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %378 = "tile.add"(%340, %352) : (index, index) -> index  // samples/softmax.tile:30
        %379 = "tile.broadcast"(%378) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %380 = "tile.add"(%379, %292) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %381 = "tile.broadcast"(%352) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %382 = "tile.add"(%381, %292) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %383 = "tile.lt"(%382, %348) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        %384 = "tile.and"(%345, %383) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        "tile.store"(%y, %380, %384, %377) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:30
        %385 = "tile.constant"() {dtype = index, value = 2 : i64} : () -> index  // samples/softmax.tile:29
        %386 = "tile.add"(%i_289, %385) : (index, index) -> index  // samples/softmax.tile:29
        %387 = "tile.mul"(%386, %290) : (index, index) -> index  // samples/softmax.tile:30
        %388 = "tile.load"(%s, %386, %292) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %389 = "tile.cast"(%388) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %390 = "tile.sub"(%389, %295) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %391 = "tile.maximum"(%390, %299) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %392 = "tile.minimum"(%391, %301) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %393 = "tile.fma"(%392, %305, %306) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %394 = "tile.add"(%393, %309) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %395 = "tile.sub"(%394, %309) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %396 = "tile.neg"(%395) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %397 = "tile.fma"(%392, %305, %396) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %398 = "tile.fma"(%392, %315, %397) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %399 = "tile.bitcast"(%394) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %400 = "tile.shr"(%399, %319) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %401 = "tile.ex2.approx.ftz"(%398) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %402 = "tile.add"(%400, %323) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %403 = "tile.shl"(%402, %326) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %404 = "tile.bitcast"(%403) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %405 = "tile.mul"(%401, %404) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %406 = "tile.sub"(%399, %400) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %407 = "tile.add"(%406, %323) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %408 = "tile.shl"(%407, %326) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %409 = "tile.bitcast"(%408) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %410 = "tile.mul"(%405, %409) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %411 = "tile.mul"(%410, %335) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %412 = "tile.cast"(%411) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %413 = "tile.add"(%340, %387) : (index, index) -> index  // samples/softmax.tile:30
        %414 = "tile.broadcast"(%413) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %415 = "tile.add"(%414, %292) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %416 = "tile.broadcast"(%387) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %417 = "tile.add"(%416, %292) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %418 = "tile.lt"(%417, %348) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        %419 = "tile.and"(%345, %418) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        "tile.store"(%y, %415, %419, %412) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:30
        %420 = "tile.constant"() {dtype = index, value = 3 : i64} : () -> index  // samples/softmax.tile:29
        %421 = "tile.add"(%i_289, %420) : (index, index) -> index  // samples/softmax.tile:29
        %422 = "tile.mul"(%421, %290) : (index, index) -> index  // samples/softmax.tile:30
        %423 = "tile.load"(%s, %421, %292) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %424 = "tile.cast"(%423) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %425 = "tile.sub"(%424, %295) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %426 = "tile.maximum"(%425, %299) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %427 = "tile.minimum"(%426, %301) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %428 = "tile.fma"(%427, %305, %306) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %429 = "tile.add"(%428, %309) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %430 = "tile.sub"(%429, %309) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %431 = "tile.neg"(%430) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %432 = "tile.fma"(%427, %305, %431) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %433 = "tile.fma"(%427, %315, %432) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %434 = "tile.bitcast"(%429) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %435 = "tile.shr"(%434, %319) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %436 = "tile.ex2.approx.ftz"(%433) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %437 = "tile.add"(%435, %323) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %438 = "tile.shl"(%437, %326) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %439 = "tile.bitcast"(%438) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %440 = "tile.mul"(%436, %439) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %441 = "tile.sub"(%434, %435) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %442 = "tile.add"(%441, %323) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %443 = "tile.shl"(%442, %326) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %444 = "tile.bitcast"(%443) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %445 = "tile.mul"(%440, %444) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %446 = "tile.mul"(%445, %335) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %447 = "tile.cast"(%446) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %448 = "tile.add"(%340, %422) : (index, index) -> index  // samples/softmax.tile:30
        %449 = "tile.broadcast"(%448) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %450 = "tile.add"(%449, %292) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %451 = "tile.broadcast"(%422) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %452 = "tile.add"(%451, %292) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %453 = "tile.lt"(%452, %348) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        %454 = "tile.and"(%345, %453) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        "tile.store"(%y, %450, %454, %447) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:30
        "tile.yield"() : () -> ()  // samples/softmax.tile:29
      }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:29
      "tile.for"(%12, %5, %1) ({
      ^bb0(%i_455: index):
        %456 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:30
        %457 = "tile.mul"(%i_455, %456) : (index, index) -> index  // samples/softmax.tile:30
        %458 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %459 = "tile.load"(%s, %i_455, %458) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %460 = "tile.cast"(%459) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %461 = "tile.broadcast"(%top) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %462 = "tile.sub"(%460, %461) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %463 = "tile.constant"() {dtype = f32, value = 0xC062C00000000000 : f64} : () -> f32  // library/exp.tile:19
        %464 = "tile.constant"() {dtype = f32, value = 0x4062C00000000000 : f64} : () -> f32  // library/exp.tile:19
        %465 = "tile.broadcast"(%463) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %466 = "tile.maximum"(%462, %465) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %467 = "tile.broadcast"(%464) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %468 = "tile.minimum"(%466, %467) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %469 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:20
        %470 = "tile.constant"() {dtype = f32, value = 0xBFE0000000000000 : f64} : () -> f32  // library/exp.tile:20
        %471 = "tile.broadcast"(%469) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %472 = "tile.broadcast"(%470) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %473 = "tile.fma"(%468, %471, %472) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %474 = "tile.constant"() {dtype = f32, value = 0x4168000000000000 : f64} : () -> f32  // library/exp.tile:20
        %475 = "tile.broadcast"(%474) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %476 = "tile.add"(%473, %475) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %477 = "tile.sub"(%476, %475) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %478 = "tile.neg"(%477) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %479 = "tile.fma"(%468, %471, %478) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %480 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:22
        %481 = "tile.broadcast"(%480) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %482 = "tile.fma"(%468, %481, %479) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:22
        %483 = "tile.bitcast"(%476) {to = si32} : (tensor<4096xf32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:23
        %484 = "tile.constant"() {dtype = si32, value = 1 : i64} : () -> si32  // library/exp.tile:24
        %485 = "tile.broadcast"(%484) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %486 = "tile.shr"(%483, %485) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:24
        %487 = "tile.ex2.approx.ftz"(%482) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %488 = "tile.constant"() {dtype = si32, value = 127 : i64} : () -> si32  // library/exp.tile:25
        %489 = "tile.broadcast"(%488) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %490 = "tile.add"(%486, %489) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %491 = "tile.constant"() {dtype = si32, value = 23 : i64} : () -> si32  // library/exp.tile:25
        %492 = "tile.broadcast"(%491) {shape = [4096 : i64]} : (si32) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %493 = "tile.shl"(%490, %492) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %494 = "tile.bitcast"(%493) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %495 = "tile.mul"(%487, %494) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %496 = "tile.sub"(%483, %486) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %497 = "tile.add"(%496, %489) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %498 = "tile.shl"(%497, %492) : (tensor<4096xsi32, #layout0>, tensor<4096xsi32, #layout0>) -> tensor<4096xsi32, #layout0>  // library/exp.tile:25
        %499 = "tile.bitcast"(%498) {to = f32} : (tensor<4096xsi32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %500 = "tile.mul"(%495, %499) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:25
        %501 = "tile.broadcast"(%inverse) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %502 = "tile.mul"(%500, %501) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %503 = "tile.cast"(%502) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %504 = "tile.le"(%6, %r) : (index, index) -> i1  // samples/softmax.tile:30
        %505 = "tile.lt"(%r, %rows) : (index, index) -> i1  // samples/softmax.tile:30
        %506 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:30
        %507 = "tile.add"(%506, %457) : (index, index) -> index  // samples/softmax.tile:30
        %508 = "tile.and"(%504, %505) : (i1, i1) -> i1  // samples/softmax.tile:30
        %509 = "tile.broadcast"(%507) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %510 = "tile.add"(%509, %458) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %511 = "tile.broadcast"(%508) {shape = [4096 : i64]} : (i1) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        %512 = "tile.broadcast"(%457) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %513 = "tile.add"(%512, %458) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %514 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %515 = "tile.lt"(%513, %514) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        %516 = "tile.and"(%511, %515) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:30
        "tile.store"(%y, %510, %516, %503) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:30
        "tile.yield"() : () -> ()  // samples/softmax.tile:30
      }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:29
      "tile.yield"() : () -> ()  // samples/softmax.tile:30
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:18
  }) {index_bits = 32 : i64, name = "softmax_shared", shared_bytes = 41088 : i64, unroll = {i = 4 : i64}, warps = 16 : i64} : () -> ()
}) : () -> ()
