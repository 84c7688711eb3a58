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
      %m_7 = "tile.for"(%6, %5, %1, %m) ({
      ^bb0(%i: index, %m_8: tensor<4096xf32, #layout0>):
        %9 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:21
        %10 = "tile.mul"(%i, %9) : (index, index) -> index  // samples/softmax.tile:21
        %11 = "tile.le"(%6, %r) : (index, index) -> i1  // samples/softmax.tile:21
        %12 = "tile.lt"(%r, %rows) : (index, index) -> i1  // samples/softmax.tile:21
        %13 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:21
        %14 = "tile.add"(%13, %10) : (index, index) -> index  // samples/softmax.tile:21
        %15 = "tile.and"(%11, %12) : (i1, i1) -> i1  // samples/softmax.tile:21
        %16 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:21
        %17 = "tile.broadcast"(%14) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %18 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %19 = "tile.add"(%17, %18) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %20 = "tile.broadcast"(%15) {shape = [4096 : i64]} : (i1) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %21 = "tile.broadcast"(%10) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %22 = "tile.add"(%21, %18) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %23 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:21
        %24 = "tile.lt"(%22, %23) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %25 = "tile.and"(%20, %24) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:21
        %26 = "tile.broadcast"(%16) {shape = [4096 : i64]} : (f16) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:21
        %v = "tile.load"(%x, %19, %25, %26) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:21
        "tile.store"(%s, %i, %18, %v) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:22
        %27 = "tile.cast"(%v) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        %m_28 = "tile.maximum"(%m_8, %27) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:23
        "tile.yield"(%m_28) : (tensor<4096xf32, #layout0>) -> ()  // samples/softmax.tile:23
      }) {unroll = 1 : i64} : (index, index, index, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:20
      %29 = "tile.partial_reduce"(%m_7) ({
      ^bb0(%30: f32, %31: f32):
        %32 = "tile.maximum"(%30, %31) : (f32, f32) -> f32  // samples/softmax.tile:24
        "tile.yield"(%32) : (f32) -> ()  // samples/softmax.tile:24
      }) {axis = 0 : i64, parts = 16 : i64} : (tensor<4096xf32, #layout0>) -> tensor<16xf32, #layout1>  // samples/softmax.tile:24
      %33 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout1>  // samples/softmax.tile:24
      "tile.store"(%scratch, %33, %29) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<16xindex, #layout1>, tensor<16xf32, #layout1>) -> ()  // samples/softmax.tile:24
      %34 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout2>  // samples/softmax.tile:24
      "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:24
      %35 = "tile.load"(%scratch, %34) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<16xindex, #layout2>) -> tensor<16xf32, #layout2>  // samples/softmax.tile:24
      %top = "tile.reduce"(%35) ({
      ^bb0(%36: f32, %37: f32):
        %38 = "tile.maximum"(%36, %37) : (f32, f32) -> f32  // samples/softmax.tile:24
        "tile.yield"(%38) : (f32) -> ()  // samples/softmax.tile:24
      }) {axis = 0 : i64} : (tensor<16xf32, #layout2>) -> f32  // samples/softmax.tile:24
      %39 = "tile.constant"() {dtype = f32, value = 0x0000000000000000 : f64} : () -> f32  // samples/softmax.tile:25
      %z = "tile.broadcast"(%39) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:25
      %z_40 = "tile.for"(%6, %5, %1, %z) ({
      ^bb0(%i_41: index, %z_42: tensor<4096xf32, #layout0>):
        %43 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:27
        %44 = "tile.load"(%s, %i_41, %43) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:27
        %45 = "tile.cast"(%44) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %46 = "tile.broadcast"(%top) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %47 = "tile.sub"(%45, %46) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        %48 = "tile.constant"() {dtype = f32, value = 0xC08F400000000000 : f64} : () -> f32  // library/exp.tile:18
        %49 = "tile.constant"() {dtype = f32, value = 0x408F400000000000 : f64} : () -> f32  // library/exp.tile:18
        %50 = "tile.broadcast"(%48) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
        %51 = "tile.maximum"(%47, %50) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
        %52 = "tile.broadcast"(%49) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
        %c = "tile.minimum"(%51, %52) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
        %53 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:19
        %54 = "tile.broadcast"(%53) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %hi = "tile.mul"(%c, %54) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %55 = "tile.neg"(%hi) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %56 = "tile.fma"(%c, %54, %55) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %57 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:20
        %58 = "tile.broadcast"(%57) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %lo = "tile.fma"(%c, %58, %56) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %59 = "tile.ex2.approx"(%hi) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %60 = "tile.constant"() {dtype = f32, value = 0x3FE62E42FEFA39EF : f64} : () -> f32  // library/exp.tile:21
        %61 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // library/exp.tile:21
        %62 = "tile.broadcast"(%60) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %63 = "tile.broadcast"(%61) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %64 = "tile.fma"(%lo, %62, %63) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %65 = "tile.mul"(%59, %64) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %z_66 = "tile.add"(%z_42, %65) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:27
        "tile.yield"(%z_66) : (tensor<4096xf32, #layout0>) -> ()  // samples/softmax.tile:27
      }) {unroll = 1 : i64} : (index, index, index, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:26
      %67 = "tile.partial_reduce"(%z_40) ({
      ^bb0(%68: f32, %69: f32):
        %70 = "tile.add"(%68, %69) : (f32, f32) -> f32  // samples/softmax.tile:28
        "tile.yield"(%70) : (f32) -> ()  // samples/softmax.tile:28
      }) {axis = 0 : i64, parts = 16 : i64} : (tensor<4096xf32, #layout0>) -> tensor<16xf32, #layout1>  // samples/softmax.tile:28
      "tile.store"(%scratch_0, %33, %67) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<16xindex, #layout1>, tensor<16xf32, #layout1>) -> ()  // samples/softmax.tile:28
      "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:28
      %71 = "tile.load"(%scratch_0, %34) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<16xindex, #layout2>) -> tensor<16xf32, #layout2>  // samples/softmax.tile:28
      %72 = "tile.reduce"(%71) ({
      ^bb0(%73: f32, %74: f32):
        %75 = "tile.add"(%73, %74) : (f32, f32) -> f32  // samples/softmax.tile:28
        "tile.yield"(%75) : (f32) -> ()  // samples/softmax.tile:28
      }) {axis = 0 : i64} : (tensor<16xf32, #layout2>) -> f32  // samples/softmax.tile:28
      %76 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:28
      %inverse = "tile.div"(%76, %72) : (f32, f32) -> f32  // samples/softmax.tile:28
      "tile.for"(%6, %5, %1) ({
      ^bb0(%i_77: index):
        %78 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:30
        %79 = "tile.mul"(%i_77, %78) : (index, index) -> index  // samples/softmax.tile:30
        %80 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %81 = "tile.load"(%s, %i_77, %80) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x4096xf16, 3>, index, tensor<4096xindex, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %82 = "tile.cast"(%81) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %83 = "tile.broadcast"(%top) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %84 = "tile.sub"(%82, %83) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %85 = "tile.constant"() {dtype = f32, value = 0xC08F400000000000 : f64} : () -> f32  // library/exp.tile:18
        %86 = "tile.constant"() {dtype = f32, value = 0x408F400000000000 : f64} : () -> f32  // library/exp.tile:18
        %87 = "tile.broadcast"(%85) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
        %88 = "tile.maximum"(%84, %87) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
        %89 = "tile.broadcast"(%86) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
        %c_90 = "tile.minimum"(%88, %89) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:18
        %91 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // library/exp.tile:19
        %92 = "tile.broadcast"(%91) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %hi_93 = "tile.mul"(%c_90, %92) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:19
        %94 = "tile.neg"(%hi_93) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %95 = "tile.fma"(%c_90, %92, %94) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %96 = "tile.constant"() {dtype = f32, value = 0x3E54AE0BFFFFFFDF : f64} : () -> f32  // library/exp.tile:20
        %97 = "tile.broadcast"(%96) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %lo_98 = "tile.fma"(%c_90, %97, %95) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:20
        %99 = "tile.ex2.approx"(%hi_93) : (tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %100 = "tile.constant"() {dtype = f32, value = 0x3FE62E42FEFA39EF : f64} : () -> f32  // library/exp.tile:21
        %101 = "tile.broadcast"(%100) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %102 = "tile.broadcast"(%76) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %103 = "tile.fma"(%lo_98, %101, %102) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %104 = "tile.mul"(%99, %103) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // library/exp.tile:21
        %105 = "tile.broadcast"(%inverse) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %106 = "tile.mul"(%104, %105) : (tensor<4096xf32, #layout0>, tensor<4096xf32, #layout0>) -> tensor<4096xf32, #layout0>  // samples/softmax.tile:30
        %107 = "tile.cast"(%106) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout0>) -> tensor<4096xf16, #layout0>  // samples/softmax.tile:30
        %108 = "tile.le"(%6, %r) : (index, index) -> i1  // samples/softmax.tile:30
        %109 = "tile.lt"(%r, %rows) : (index, index) -> i1  // samples/softmax.tile:30
        %110 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:30
        %111 = "tile.add"(%110, %79) : (index, index) -> index  // samples/softmax.tile:30
        %112 = "tile.and"(%108, %109) : (i1, i1) -> i1  // samples/softmax.tile:30
        %113 = "tile.broadcast"(%111) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %114 = "tile.add"(%113, %80) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %115 = "tile.broadcast"(%112) {shape = [4096 : i64]} : (i1) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        %116 = "tile.broadcast"(%79) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %117 = "tile.add"(%116, %80) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %118 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout0>  // samples/softmax.tile:30
        %119 = "tile.lt"(%117, %118) : (tensor<4096xindex, #layout0>, tensor<4096xindex, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        %120 = "tile.and"(%115, %119) : (tensor<4096xi1, #layout0>, tensor<4096xi1, #layout0>) -> tensor<4096xi1, #layout0>  // samples/softmax.tile:30
        "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:30
        "tile.store"(%y, %114, %120, %107) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout0>, tensor<4096xi1, #layout0>, tensor<4096xf16, #layout0>) -> ()  // samples/softmax.tile:30
        "tile.yield"() : () -> ()  // samples/softmax.tile:30
      }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:29
      "tile.yield"() : () -> ()  // samples/softmax.tile:30
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:18
  }) {index_bits = 32 : i64, name = "softmax_shared", shared_bytes = 41088 : i64, warps = 16 : i64} : () -> ()
}) : () -> ()
