#layout0 = {register = [], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
#layout1 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256, 512, 1024, 2048]}
#layout2 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2, 4, 8]}
#layout3 = {register = [1, 2, 4, 8], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%y: memref<?x?xf16, 1>, %x: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %scratch = "tile.shared_alloc"() {name = "scratch", offset = 0 : i64, own = true, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:16
    %scratch_0 = "tile.shared_alloc"() {name = "scratch", offset = 64 : i64, own = true, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:17
    %sv = "tile.shared_alloc"() {name = "sv", offset = 128 : i64, own = true, type = memref<5x1x4096xf16, 3>} : () -> memref<5x1x4096xf16, 3>  // samples/softmax.tile:45
    %1 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:45
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
      %16 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:45
      %17 = "tile.mul"(%15, %16) : (index, index) -> index  // samples/softmax.tile:45
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
    %31 = "tile.arange"() {extent = 1 : i64} : () -> tensor<1xindex, #layout0>  // samples/softmax.tile:12
    %32 = "tile.reshape"(%31) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    "tile.commit"() : () -> ()  // samples/softmax.tile:12
    %33 = "tile.constant"() {dtype = f32, value = 0xFFF0000000000000 : f64} : () -> f32  // samples/softmax.tile:12
    "tile.wait"() {groups = 0 : i64} : () -> ()  // samples/softmax.tile:12
    %34 = "tile.broadcast"(%33) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
    %35 = "tile.for"(%1, %8, %2, %34) ({
    ^bb0(%36: index, %37: tensor<1x4096xf32, #layout1>):
      %38 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:12
      %39 = "tile.mul"(%36, %38) : (index, index) -> index  // samples/softmax.tile:12
      %40 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %41 = "tile.reshape"(%40) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %42 = "tile.broadcast"(%38) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
      %43 = "tile.mul"(%32, %42) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
      %44 = "tile.broadcast"(%43) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %45 = "tile.add"(%41, %44) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %46 = "tile.broadcast"(%39) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %47 = "tile.add"(%46, %40) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %48 = "tile.reshape"(%47) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %49 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %50 = "tile.lt"(%48, %49) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %51 = "tile.broadcast"(%4) {shape = [1 : i64, 4096 : i64]} : (i1) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %52 = "tile.xor"(%50, %51) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xi1, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      %53 = "tile.broadcast"(%5) {shape = [1 : i64, 4096 : i64]} : (f16) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      "tile.store"(%sv, %36, %45, %52, %53) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "mask", "value"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:12
      %54 = "tile.load"(%sv, %36, %45) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %v = "tile.cast"(%54) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %55 = "tile.maximum"(%37, %v) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:16
      "tile.yield"(%55) : (tensor<1x4096xf32, #layout1>) -> ()  // samples/softmax.tile:16
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:16
    %56 = "tile.arange"() {extent = 1 : i64} : () -> tensor<1xindex, #layout0>  // samples/softmax.tile:12
    %57 = "tile.reshape"(%56) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %58 = "tile.partial_reduce"(%35) ({
    ^bb0(%59: f32, %60: f32):
      %61 = "tile.maximum"(%59, %60) : (f32, f32) -> f32  // samples/softmax.tile:16
      "tile.yield"(%61) : (f32) -> ()  // samples/softmax.tile:16
    }) {axis = 1 : i64, parts = 16 : i64} : (tensor<1x4096xf32, #layout1>) -> tensor<1x16xf32, #layout2>  // samples/softmax.tile:16
    %62 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout2>  // samples/softmax.tile:16
    %63 = "tile.reshape"(%62) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout2>) -> tensor<1x16xindex, #layout2>  // samples/softmax.tile:16
    "tile.store"(%scratch, %63, %58) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout2>, tensor<1x16xf32, #layout2>) -> ()  // samples/softmax.tile:16
    %64 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout3>  // samples/softmax.tile:16
    %65 = "tile.reshape"(%64) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout3>) -> tensor<1x16xindex, #layout3>  // samples/softmax.tile:16
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:16
    %66 = "tile.load"(%scratch, %65) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>) -> tensor<1x16xf32, #layout3>  // samples/softmax.tile:16
    %top = "tile.reduce"(%66) ({
    ^bb0(%67: f32, %68: f32):
      %69 = "tile.maximum"(%67, %68) : (f32, f32) -> f32  // samples/softmax.tile:16
      "tile.yield"(%69) : (f32) -> ()  // samples/softmax.tile:16
    }) {axis = 1 : i64} : (tensor<1x16xf32, #layout3>) -> tensor<1xf32, #layout0>  // samples/softmax.tile:16
    %70 = "tile.reshape"(%top) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:17
    %71 = "tile.constant"() {dtype = f32, value = 0x8000000000000000 : f64} : () -> f32  // samples/softmax.tile:16
    %72 = "tile.broadcast"(%71) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:16
    %73 = "tile.for"(%1, %8, %2, %72) ({
    ^bb0(%74: index, %75: tensor<1x4096xf32, #layout1>):
      %76 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:16
      %77 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %78 = "tile.reshape"(%77) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %79 = "tile.broadcast"(%76) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
      %80 = "tile.mul"(%57, %79) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
      %81 = "tile.broadcast"(%80) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %82 = "tile.add"(%78, %81) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %83 = "tile.load"(%sv, %74, %82) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %v_84 = "tile.cast"(%83) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %85 = "tile.broadcast"(%70) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %d = "tile.sub"(%v_84, %85) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %86 = "tile.broadcast"(%6) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %87 = "tile.mul"(%d, %86) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %88 = "tile.ex2.approx.ftz"(%87) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %89 = "tile.add"(%75, %88) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      "tile.yield"(%89) : (tensor<1x4096xf32, #layout1>) -> ()  // samples/softmax.tile:17
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
    %90 = "tile.arange"() {extent = 1 : i64} : () -> tensor<1xindex, #layout0>  // samples/softmax.tile:12
    %91 = "tile.reshape"(%90) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %92 = "tile.broadcast"(%3) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %93 = "tile.broadcast"(%cols) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %94 = "tile.mul"(%91, %93) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %95 = "tile.add"(%92, %94) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
    %96 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout2>  // samples/softmax.tile:16
    %97 = "tile.reshape"(%96) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout2>) -> tensor<1x16xindex, #layout2>  // samples/softmax.tile:16
    %98 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout3>  // samples/softmax.tile:16
    %99 = "tile.reshape"(%98) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout3>) -> tensor<1x16xindex, #layout3>  // samples/softmax.tile:16
    %100 = "tile.partial_reduce"(%73) ({
    ^bb0(%101: f32, %102: f32):
      %103 = "tile.add"(%101, %102) : (f32, f32) -> f32  // samples/softmax.tile:17
      "tile.yield"(%103) : (f32) -> ()  // samples/softmax.tile:17
    }) {axis = 1 : i64, parts = 16 : i64} : (tensor<1x4096xf32, #layout1>) -> tensor<1x16xf32, #layout2>  // samples/softmax.tile:17
    "tile.store"(%scratch_0, %97, %100) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout2>, tensor<1x16xf32, #layout2>) -> ()  // samples/softmax.tile:17
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:17
    %104 = "tile.load"(%scratch_0, %99) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>) -> tensor<1x16xf32, #layout3>  // samples/softmax.tile:17
    %total = "tile.reduce"(%104) ({
    ^bb0(%105: f32, %106: f32):
      %107 = "tile.add"(%105, %106) : (f32, f32) -> f32  // samples/softmax.tile:17
      "tile.yield"(%107) : (f32) -> ()  // samples/softmax.tile:17
    }) {axis = 1 : i64} : (tensor<1x16xf32, #layout3>) -> tensor<1xf32, #layout0>  // samples/softmax.tile:17
    %108 = "tile.broadcast"(%7) {shape = [1 : i64]} : (f32) -> tensor<1xf32, #layout0>  // samples/softmax.tile:22
    %109 = "tile.div"(%108, %total) : (tensor<1xf32, #layout0>, tensor<1xf32, #layout0>) -> tensor<1xf32, #layout0>  // samples/softmax.tile:22
    %110 = "tile.reshape"(%109) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:22
    "tile.for"(%1, %8, %2) ({
    ^bb0(%111: index):
      %112 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:17
      %113 = "tile.mul"(%111, %112) : (index, index) -> index  // samples/softmax.tile:17
      %114 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %115 = "tile.reshape"(%114) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %116 = "tile.broadcast"(%112) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
      %117 = "tile.mul"(%91, %116) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:12
      %118 = "tile.broadcast"(%117) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %119 = "tile.add"(%115, %118) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %120 = "tile.load"(%sv, %111, %119) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:12
      %v_121 = "tile.cast"(%120) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:12
      %122 = "tile.broadcast"(%70) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %d_123 = "tile.sub"(%v_121, %122) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %124 = "tile.broadcast"(%6) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %125 = "tile.mul"(%d_123, %124) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %126 = "tile.ex2.approx.ftz"(%125) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:17
      %127 = "tile.broadcast"(%110) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %128 = "tile.mul"(%126, %127) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:22
      %129 = "tile.cast"(%128) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:22
      %130 = "tile.broadcast"(%95) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %131 = "tile.broadcast"(%113) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %132 = "tile.add"(%131, %114) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:12
      %133 = "tile.reshape"(%132) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %134 = "tile.add"(%130, %133) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %135 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:12
      %136 = "tile.lt"(%133, %135) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:12
      "tile.store"(%y, %134, %136, %129) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"], order = "none"} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:22
      "tile.yield"() : () -> ()  // samples/softmax.tile:22
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:22
  }) {index_bits = 32 : i64, loop = {v = [1 : i64, 4096 : i64, false]}, math = {exp = "fast"}, name = "softmax_rows", shared_align = 16 : i64, shared_bytes = 41088 : i64, stage = {}, warps = 16 : i64} : () -> ()
}) : () -> ()
