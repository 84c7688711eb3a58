#layout0 = {register = [], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
#layout1 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256, 512, 1024, 2048]}
#layout2 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2, 4, 8]}
#layout3 = {register = [1, 2, 4, 8], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%y: memref<?x?xf16, 1>, %x: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %scratch = "tile.shared_alloc"() {name = "scratch", offset = 0 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:16
    %scratch_0 = "tile.shared_alloc"() {name = "scratch", offset = 64 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:17
    %sv = "tile.shared_alloc"() {name = "sv", offset = 128 : i64, type = memref<5x1x4096xf16, 3>} : () -> memref<5x1x4096xf16, 3>  // samples/softmax.tile:46
    %1 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:46
    %2 = "tile.constant"() {dtype = index, value = 1 : i64} : () -> index  // samples/softmax.tile:9
    %r = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:11
    %3 = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:12
    %4 = "tile.constant"() {dtype = i1, value = true} : () -> i1  // samples/softmax.tile:12
    %5 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:12
    %6 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:17
    %7 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:22
    %8 = "tile.constant"() {dtype = index, value = 5 : i64} : () -> index  // samples/softmax.tile:12
    %9 = "tile.arange"() {extent = 1 : i64} : () -> tensor<1xindex, #layout0>  // samples/softmax.tile:12
    %10 = "tile.reshape"(%9) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %11 = "tile.broadcast"(%3) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %12 = "tile.broadcast"(%cols) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %13 = "tile.mul"(%10, %12) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %14 = "tile.add"(%11, %13) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    "tile.for"(%1, %8, %2) ({
    ^bb0(%15: index):
      %16 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:46
      %17 = "tile.mul"(%15, %16) : (index, index) -> index  // samples/softmax.tile:46
      %18 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %19 = "tile.reshape"(%18) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %20 = "tile.broadcast"(%16) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
      %21 = "tile.mul"(%10, %20) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
      %22 = "tile.broadcast"(%21) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %23 = "tile.add"(%19, %22) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %24 = "tile.broadcast"(%14) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %25 = "tile.broadcast"(%17) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %26 = "tile.add"(%25, %18) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %27 = "tile.reshape"(%26) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %28 = "tile.add"(%24, %27) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %29 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %30 = "tile.lt"(%27, %29) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      "tile.copy"(%sv, %15, %23, %x, %28, %30) {bytes = 16 : i64, cache = unit, has = ["memory", "slot", "offset", "tensor", "source", "mask"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>) -> ()  // samples/softmax.tile:12
      "tile.yield"() : () -> ()  // samples/softmax.tile:12
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:12
    "tile.commit"() : () -> ()  // samples/softmax.tile:12
    %31 = "tile.constant"() {dtype = f32, value = 0xFFF0000000000000 : f64} : () -> f32  // samples/softmax.tile:12
    "tile.wait"() {groups = 0 : i64} : () -> ()  // samples/softmax.tile:12
    %32 = "tile.broadcast"(%31) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
    %33 = "tile.for"(%1, %8, %2, %32) ({
    ^bb0(%34: index, %35: tensor<1x4096xf32, #layout1>):
      %36 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:12
      %37 = "tile.mul"(%34, %36) : (index, index) -> index  // samples/softmax.tile:12
      %38 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %39 = "tile.reshape"(%38) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %40 = "tile.broadcast"(%36) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
      %41 = "tile.mul"(%10, %40) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
      %42 = "tile.broadcast"(%41) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %43 = "tile.add"(%39, %42) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %44 = "tile.broadcast"(%37) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %45 = "tile.add"(%44, %38) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %46 = "tile.reshape"(%45) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %47 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %48 = "tile.lt"(%46, %47) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %49 = "tile.broadcast"(%4) {shape = [1 : i64, 4096 : i64]} : (i1) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %50 = "tile.xor"(%48, %49) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xi1, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %51 = "tile.broadcast"(%5) {shape = [1 : i64, 4096 : i64]} : (f16) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      "tile.store"(%sv, %34, %43, %50, %51) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "mask", "value"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:12
      %52 = "tile.load"(%sv, %34, %43) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %v = "tile.cast"(%52) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %53 = "tile.maximum"(%35, %v) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:16
      "tile.yield"(%53) : (tensor<1x4096xf32, #layout1>) -> ()  // samples/softmax.tile:16
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:16
    %54 = "tile.partial_reduce"(%33) ({
    ^bb0(%55: f32, %56: f32):
      %57 = "tile.maximum"(%55, %56) : (f32, f32) -> f32  // samples/softmax.tile:16
      "tile.yield"(%57) : (f32) -> ()  // samples/softmax.tile:16
    }) {axis = 1 : i64, parts = 16 : i64} : (tensor<1x4096xf32, #layout1>) -> tensor<1x16xf32, #layout2>  // samples/softmax.tile:16
    %58 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout2>  // samples/softmax.tile:16
    %59 = "tile.reshape"(%58) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout2>) -> tensor<1x16xindex, #layout2>  // samples/softmax.tile:16
    "tile.store"(%scratch, %59, %54) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout2>, tensor<1x16xf32, #layout2>) -> ()  // samples/softmax.tile:16
    %60 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout3>  // samples/softmax.tile:16
    %61 = "tile.reshape"(%60) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout3>) -> tensor<1x16xindex, #layout3>  // samples/softmax.tile:16
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:16
    %62 = "tile.load"(%scratch, %61) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>) -> tensor<1x16xf32, #layout3>  // samples/softmax.tile:16
    %top = "tile.reduce"(%62) ({
    ^bb0(%63: f32, %64: f32):
      %65 = "tile.maximum"(%63, %64) : (f32, f32) -> f32  // samples/softmax.tile:16
      "tile.yield"(%65) : (f32) -> ()  // samples/softmax.tile:16
    }) {axis = 1 : i64} : (tensor<1x16xf32, #layout3>) -> tensor<1xf32, #layout0>  // samples/softmax.tile:16
    %66 = "tile.reshape"(%top) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:17
    %67 = "tile.constant"() {dtype = f32, value = 0x8000000000000000 : f64} : () -> f32  // samples/softmax.tile:16
    %68 = "tile.broadcast"(%67) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:16
    %69 = "tile.for"(%1, %8, %2, %68) ({
    ^bb0(%70: index, %71: tensor<1x4096xf32, #layout1>):
      %72 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:16
      %73 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %74 = "tile.reshape"(%73) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %75 = "tile.broadcast"(%72) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
      %76 = "tile.mul"(%10, %75) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
      %77 = "tile.broadcast"(%76) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %78 = "tile.add"(%74, %77) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %79 = "tile.load"(%sv, %70, %78) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %v_80 = "tile.cast"(%79) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %81 = "tile.broadcast"(%66) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %d = "tile.sub"(%v_80, %81) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %82 = "tile.broadcast"(%6) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %83 = "tile.mul"(%d, %82) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %84 = "tile.ex2.approx.ftz"(%83) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %85 = "tile.add"(%71, %84) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      "tile.yield"(%85) : (tensor<1x4096xf32, #layout1>) -> ()  // samples/softmax.tile:17
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
    %86 = "tile.partial_reduce"(%69) ({
    ^bb0(%87: f32, %88: f32):
      %89 = "tile.add"(%87, %88) : (f32, f32) -> f32  // samples/softmax.tile:17
      "tile.yield"(%89) : (f32) -> ()  // samples/softmax.tile:17
    }) {axis = 1 : i64, parts = 16 : i64} : (tensor<1x4096xf32, #layout1>) -> tensor<1x16xf32, #layout2>  // samples/softmax.tile:17
    "tile.store"(%scratch_0, %59, %86) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout2>, tensor<1x16xf32, #layout2>) -> ()  // samples/softmax.tile:17
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:17
    %90 = "tile.load"(%scratch_0, %61) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>) -> tensor<1x16xf32, #layout3>  // samples/softmax.tile:17
    %total = "tile.reduce"(%90) ({
    ^bb0(%91: f32, %92: f32):
      %93 = "tile.add"(%91, %92) : (f32, f32) -> f32  // samples/softmax.tile:17
      "tile.yield"(%93) : (f32) -> ()  // samples/softmax.tile:17
    }) {axis = 1 : i64} : (tensor<1x16xf32, #layout3>) -> tensor<1xf32, #layout0>  // samples/softmax.tile:17
    %94 = "tile.broadcast"(%7) {shape = [1 : i64]} : (f32) -> tensor<1xf32, #layout0>  // samples/softmax.tile:22
    %95 = "tile.div"(%94, %total) : (tensor<1xf32, #layout0>, tensor<1xf32, #layout0>) -> tensor<1xf32, #layout0>  // samples/softmax.tile:22
    %96 = "tile.reshape"(%95) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:22
    "tile.for"(%1, %8, %2) ({
    ^bb0(%97: index):
      %98 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:17
      %99 = "tile.mul"(%97, %98) : (index, index) -> index  // samples/softmax.tile:17
      %100 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %101 = "tile.reshape"(%100) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %102 = "tile.broadcast"(%98) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
      %103 = "tile.mul"(%10, %102) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
      %104 = "tile.broadcast"(%103) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %105 = "tile.add"(%101, %104) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %106 = "tile.load"(%sv, %97, %105) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %v_107 = "tile.cast"(%106) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %108 = "tile.broadcast"(%66) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %d_109 = "tile.sub"(%v_107, %108) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %110 = "tile.broadcast"(%6) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %111 = "tile.mul"(%d_109, %110) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %112 = "tile.ex2.approx.ftz"(%111) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %113 = "tile.broadcast"(%96) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %114 = "tile.mul"(%112, %113) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %115 = "tile.cast"(%114) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:22
      %116 = "tile.broadcast"(%14) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %117 = "tile.broadcast"(%99) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %118 = "tile.add"(%117, %100) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %119 = "tile.reshape"(%118) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %120 = "tile.add"(%116, %119) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %121 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %122 = "tile.lt"(%119, %121) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      "tile.store"(%y, %120, %122, %115) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"], order = "none"} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:22
      "tile.yield"() : () -> ()  // samples/softmax.tile:22
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:22
  }) {align = {v = 8 : i64}, index_bits = 32 : i64, loop = {v = [1 : i64, 4096 : i64, false]}, math = {exp = "fast"}, name = "softmax_rows", shared_align = 16 : i64, shared_bytes = 41088 : i64, stage = {}, warps = 16 : i64} : () -> ()
}) : () -> ()
