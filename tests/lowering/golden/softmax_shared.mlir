#layout0 = {register = [], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
#layout1 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256, 512, 1024, 2048]}
#layout2 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2, 4, 8]}
#layout3 = {register = [1, 2, 4, 8], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
#layout4 = {register = [512, 1024, 2048], lane = [1, 2, 4, 8, 16], warp = [32, 64, 128, 256]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%y: memref<?x?xf16, 1>, %x: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %scratch = "tile.shared_alloc"() {name = "scratch", offset = 0 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:72
    %scratch_0 = "tile.shared_alloc"() {name = "scratch", offset = 64 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:76
    %1 = "tile.constant"() {dtype = index, value = 1 : i64} : () -> index  // samples/softmax.tile:119
    %s = "tile.shared_alloc"() {name = "s", offset = 128 : i64, type = memref<5x1x4096xf16, 3>} : () -> memref<5x1x4096xf16, 3>  // samples/softmax.tile:122
    %2 = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:59
    %3 = "tile.constant"() {dtype = index, value = 5 : i64} : () -> index  // samples/softmax.tile:59
    %4 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:59
    %5 = "tile.broadcast"(%2) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // samples/softmax.tile:59
    %6 = "tile.arange"() {extent = 1 : i64} : () -> tensor<1xindex, #layout0>  // samples/softmax.tile:59
    %r = "tile.add"(%5, %6) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax.tile:59
    "tile.for"(%4, %3, %1) ({
    ^bb0(%k: index):
      %7 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:11
      %8 = "tile.mul"(%k, %7) : (index, index) -> index  // samples/softmax.tile:11
      %9 = "tile.broadcast"(%cols) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // samples/softmax.tile:10
      %start = "tile.mul"(%r, %9) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax.tile:10
      %10 = "tile.reshape"(%start) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:13
      %11 = "tile.broadcast"(%10) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:13
      %12 = "tile.broadcast"(%8) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
      %13 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax.tile:11
      %14 = "tile.reshape"(%13) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
      %at = "tile.add"(%12, %14) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
      %i = "tile.add"(%11, %at) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:13
      %15 = "tile.reshape"(%6) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:124
      %16 = "tile.broadcast"(%7) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:124
      %17 = "tile.mul"(%15, %16) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:124
      %18 = "tile.broadcast"(%17) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:124
      %19 = "tile.add"(%18, %14) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:124
      %20 = "tile.broadcast"(%1) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // samples/softmax.tile:62
      %21 = "tile.add"(%r, %20) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax.tile:62
      %22 = "tile.mul"(%21, %9) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax.tile:62
      %23 = "tile.reshape"(%22) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:62
      %24 = "tile.broadcast"(%23) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:62
      %25 = "tile.lt"(%i, %24) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:62
      "tile.copy"(%s, %k, %19, %x, %i, %25) {bytes = 16 : i64, cache = unit, has = ["memory", "slot", "offset", "tensor", "source", "mask"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>) -> ()  // samples/softmax.tile:124
      "tile.yield"() : () -> ()  // samples/softmax.tile:124
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:60
    "tile.commit"() : () -> ()  // samples/softmax.tile:63
    "tile.wait"() {groups = 0 : i64} : () -> ()  // samples/softmax.tile:64
    %26 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:126
    %27 = "tile.reshape"(%6) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:126
    %28 = "tile.broadcast"(%26) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:126
    %29 = "tile.mul"(%27, %28) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:126
    %30 = "tile.broadcast"(%29) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:126
    %31 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax.tile:11
    %at_32 = "tile.reshape"(%31) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
    %33 = "tile.add"(%30, %at_32) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:126
    %34 = "tile.load"(%s, %4, %33) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:126
    %35 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:126
    %36 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:13
    %own = "tile.lt"(%at_32, %36) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:13
    %37 = "tile.broadcast"(%35) {shape = [1 : i64, 4096 : i64]} : (f16) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:126
    %38 = "tile.select"(%own, %34, %37) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:126
    "tile.store"(%s, %4, %33, %38) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:126
    %39 = "tile.constant"() {dtype = index, value = 12288 : i64} : () -> index  // samples/softmax.tile:11
    %40 = "tile.constant"() {dtype = index, value = 3 : i64} : () -> index  // samples/softmax.tile:126
    %41 = "tile.load"(%s, %40, %33) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:126
    %42 = "tile.broadcast"(%39) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
    %at_43 = "tile.add"(%42, %at_32) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
    %own_44 = "tile.lt"(%at_43, %36) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:13
    %45 = "tile.select"(%own_44, %41, %37) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:126
    "tile.store"(%s, %40, %33, %45) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:126
    %46 = "tile.constant"() {dtype = index, value = 16384 : i64} : () -> index  // samples/softmax.tile:11
    %47 = "tile.broadcast"(%cols) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // samples/softmax.tile:10
    %start_48 = "tile.mul"(%r, %47) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax.tile:10
    %49 = "tile.reshape"(%start_48) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:13
    %50 = "tile.broadcast"(%49) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:13
    %51 = "tile.broadcast"(%46) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
    %at_52 = "tile.add"(%51, %at_32) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
    %i_53 = "tile.add"(%50, %at_52) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:13
    %54 = "tile.constant"() {dtype = index, value = 4 : i64} : () -> index  // samples/softmax.tile:126
    %55 = "tile.load"(%s, %54, %33) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:126
    %own_56 = "tile.lt"(%at_52, %36) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:13
    %57 = "tile.select"(%own_56, %55, %37) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:126
    "tile.store"(%s, %54, %33, %57) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:126
    %58 = "tile.constant"() {dtype = f32, value = 0xFFF0000000000000 : f64} : () -> f32  // samples/softmax.tile:69
    %m = "tile.broadcast"(%58) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:69
    %m_59 = "tile.for"(%4, %3, %1, %m) ({
    ^bb0(%k_60: index, %m_61: tensor<1x4096xf32, #layout1>):
      %62 = "tile.load"(%s, %k_60, %33) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:128
      %63 = "tile.cast"(%62) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:128
      %m_64 = "tile.maximum"(%m_61, %63) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:71
      "tile.yield"(%m_64) : (tensor<1x4096xf32, #layout1>) -> ()  // samples/softmax.tile:71
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:70
    %65 = "tile.partial_reduce"(%m_59) ({
    ^bb0(%66: f32, %67: f32):
      %68 = "tile.maximum"(%66, %67) : (f32, f32) -> f32  // samples/softmax.tile:72
      "tile.yield"(%68) : (f32) -> ()  // samples/softmax.tile:72
    }) {axis = 1 : i64, parts = 16 : i64} : (tensor<1x4096xf32, #layout1>) -> tensor<1x16xf32, #layout2>  // samples/softmax.tile:72
    %69 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout2>  // samples/softmax.tile:72
    %70 = "tile.reshape"(%69) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout2>) -> tensor<1x16xindex, #layout2>  // samples/softmax.tile:72
    "tile.store"(%scratch, %70, %65) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout2>, tensor<1x16xf32, #layout2>) -> ()  // samples/softmax.tile:72
    %71 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout3>  // samples/softmax.tile:72
    %72 = "tile.reshape"(%71) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout3>) -> tensor<1x16xindex, #layout3>  // samples/softmax.tile:72
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:72
    %73 = "tile.load"(%scratch, %72) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>) -> tensor<1x16xf32, #layout3>  // samples/softmax.tile:72
    %74 = "tile.reduce"(%73) ({
    ^bb0(%75: f32, %76: f32):
      %77 = "tile.maximum"(%75, %76) : (f32, f32) -> f32  // samples/softmax.tile:72
      "tile.yield"(%77) : (f32) -> ()  // samples/softmax.tile:72
    }) {axis = 1 : i64} : (tensor<1x16xf32, #layout3>) -> tensor<1xf32, #layout0>  // samples/softmax.tile:72
    %top = "tile.reshape"(%74) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:72
    %78 = "tile.constant"() {dtype = f32, value = 0x0000000000000000 : f64} : () -> f32  // samples/softmax.tile:73
    %z = "tile.broadcast"(%78) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:73
    %z_79 = "tile.for"(%4, %3, %1, %z) ({
    ^bb0(%k_80: index, %z_81: tensor<1x4096xf32, #layout1>):
      %82 = "tile.load"(%s, %k_80, %33) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:128
      %83 = "tile.cast"(%82) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:128
      %84 = "tile.broadcast"(%top) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:75
      %85 = "tile.sub"(%83, %84) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:75
      %86 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:26
      %87 = "tile.broadcast"(%86) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:26
      %88 = "tile.mul"(%85, %87) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:26
      %89 = "tile.ex2.approx.ftz"(%88) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:26
      %z_90 = "tile.add"(%z_81, %89) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:75
      "tile.yield"(%z_90) : (tensor<1x4096xf32, #layout1>) -> ()  // samples/softmax.tile:75
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:74
    %91 = "tile.partial_reduce"(%z_79) ({
    ^bb0(%92: f32, %93: f32):
      %94 = "tile.add"(%92, %93) : (f32, f32) -> f32  // samples/softmax.tile:76
      "tile.yield"(%94) : (f32) -> ()  // samples/softmax.tile:76
    }) {axis = 1 : i64, parts = 16 : i64} : (tensor<1x4096xf32, #layout1>) -> tensor<1x16xf32, #layout2>  // samples/softmax.tile:76
    "tile.store"(%scratch_0, %70, %91) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout2>, tensor<1x16xf32, #layout2>) -> ()  // samples/softmax.tile:76
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:76
    %95 = "tile.load"(%scratch_0, %72) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>) -> tensor<1x16xf32, #layout3>  // samples/softmax.tile:76
    %96 = "tile.reduce"(%95) ({
    ^bb0(%97: f32, %98: f32):
      %99 = "tile.add"(%97, %98) : (f32, f32) -> f32  // samples/softmax.tile:76
      "tile.yield"(%99) : (f32) -> ()  // samples/softmax.tile:76
    }) {axis = 1 : i64} : (tensor<1x16xf32, #layout3>) -> tensor<1xf32, #layout0>  // samples/softmax.tile:76
    %total = "tile.reshape"(%96) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:76
    %100 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:77
    %101 = "tile.broadcast"(%100) {shape = [1 : i64, 1 : i64]} : (f32) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:77
    %factor = "tile.div"(%101, %total) : (tensor<1x1xf32, #layout0>, tensor<1x1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:77
    %102 = "tile.broadcast"(%46) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout4>  // samples/softmax.tile:11
    %103 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout4>  // samples/softmax.tile:11
    %at_104 = "tile.reshape"(%103) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout4>) -> tensor<1x4096xindex, #layout4>  // samples/softmax.tile:11
    %at_105 = "tile.add"(%102, %at_104) : (tensor<1x4096xindex, #layout4>, tensor<1x4096xindex, #layout4>) -> tensor<1x4096xindex, #layout4>  // samples/softmax.tile:11
    %106 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout4>  // samples/softmax.tile:13
    %own_107 = "tile.lt"(%at_105, %106) : (tensor<1x4096xindex, #layout4>, tensor<1x4096xindex, #layout4>) -> tensor<1x4096xi1, #layout4>  // samples/softmax.tile:13
    %i_108, %own_109 = "tile.for"(%4, %3, %1, %i_53, %own_107) ({
    ^bb0(%k_110: index, %i_111: tensor<1x4096xindex, #layout1>, %own_112: tensor<1x4096xi1, #layout4>):
      %113 = "tile.mul"(%k_110, %26) : (index, index) -> index  // samples/softmax.tile:11
      %114 = "tile.broadcast"(%113) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
      %at_115 = "tile.add"(%114, %at_32) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
      %i_116 = "tile.add"(%50, %at_115) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:13
      %117 = "tile.load"(%s, %k_110, %33) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:128
      %118 = "tile.cast"(%117) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:128
      %119 = "tile.broadcast"(%top) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:85
      %120 = "tile.sub"(%118, %119) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:85
      %121 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:26
      %122 = "tile.broadcast"(%121) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:26
      %123 = "tile.mul"(%120, %122) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:26
      %124 = "tile.ex2.approx.ftz"(%123) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:26
      %125 = "tile.broadcast"(%factor) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:85
      %126 = "tile.mul"(%124, %125) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:85
      %127 = "tile.cast"(%126) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:130
      %own_128 = "tile.lt"(%at_115, %36) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:13
      "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:130
      "tile.store"(%y, %i_116, %own_128, %127) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:130
      %129 = "tile.broadcast"(%113) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout4>  // samples/softmax.tile:11
      %at_130 = "tile.add"(%129, %at_104) : (tensor<1x4096xindex, #layout4>, tensor<1x4096xindex, #layout4>) -> tensor<1x4096xindex, #layout4>  // samples/softmax.tile:11
      %own_131 = "tile.lt"(%at_130, %106) : (tensor<1x4096xindex, #layout4>, tensor<1x4096xindex, #layout4>) -> tensor<1x4096xi1, #layout4>  // samples/softmax.tile:13
      "tile.yield"(%i_116, %own_131) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout4>) -> ()  // samples/softmax.tile:130
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout4>) -> (tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout4>)  // samples/softmax.tile:80
  }) {index_bits = 32 : i64, name = "softmax_shared", shared_bytes = 41088 : i64, warps = 16 : i64} : () -> ()
}) : () -> ()
