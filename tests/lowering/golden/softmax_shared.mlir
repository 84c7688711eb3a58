#layout0 = {register = [], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
#layout1 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256, 512, 1024, 2048]}
#layout2 = {register = [], lane = [1, 2, 4, 8, 16], warp = [32, 64, 128, 256]}
#layout3 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2, 4, 8]}
#layout4 = {register = [1, 2, 4, 8], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
#layout5 = {register = [512, 1024, 2048], lane = [1, 2, 4, 8, 16], warp = [32, 64, 128, 256]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%y: memref<?x?xf16, 1>, %x: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %scratch = "tile.shared_alloc"() {name = "scratch", offset = 0 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:77
    %scratch_0 = "tile.shared_alloc"() {name = "scratch", offset = 64 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:84
    %1 = "tile.constant"() {dtype = index, value = 1 : i64} : () -> index  // samples/softmax.tile:134
    %s = "tile.shared_alloc"() {name = "s", offset = 128 : i64, type = memref<5x1x4096xf16, 3>} : () -> memref<5x1x4096xf16, 3>  // samples/softmax.tile:137
    %2 = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:60
    %3 = "tile.constant"() {dtype = index, value = 5 : i64} : () -> index  // samples/softmax.tile:60
    %4 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:60
    %5 = "tile.broadcast"(%2) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // samples/softmax.tile:60
    %6 = "tile.arange"() {extent = 1 : i64} : () -> tensor<1xindex, #layout0>  // samples/softmax.tile:60
    %r = "tile.add"(%5, %6) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax.tile:60
    "tile.for"(%4, %3, %1) ({
    ^bb0(%k: index):
      %7 = "tile.constant"() {dtype = index, value = 8 : i64} : () -> index  // samples/softmax/rows.tile:7
      %8 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax/rows.tile:8
      %9 = "tile.mul"(%k, %8) : (index, index) -> index  // samples/softmax/rows.tile:8
      %10 = "tile.constant"() {dtype = index, value = 7 : i64} : () -> index  // samples/softmax/rows.tile:9
      %11 = "tile.broadcast"(%cols) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // samples/softmax/rows.tile:6
      %start = "tile.mul"(%r, %11) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax/rows.tile:6
      %12 = "tile.broadcast"(%10) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // samples/softmax/rows.tile:9
      %13 = "tile.add"(%start, %12) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax/rows.tile:9
      %14 = "tile.broadcast"(%7) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // samples/softmax/rows.tile:7
      %15 = "tile.floordiv"(%13, %14) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax/rows.tile:9
      %16 = "tile.mul"(%15, %14) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax/rows.tile:9
      %17 = "tile.reshape"(%16) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax/rows.tile:9
      %18 = "tile.broadcast"(%17) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax/rows.tile:9
      %19 = "tile.broadcast"(%9) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax/rows.tile:8
      %20 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax/rows.tile:8
      %21 = "tile.reshape"(%20) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax/rows.tile:8
      %at = "tile.add"(%19, %21) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax/rows.tile:8
      %i = "tile.add"(%18, %at) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax/rows.tile:9
      %22 = "tile.reshape"(%6) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:139
      %23 = "tile.broadcast"(%8) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:139
      %24 = "tile.mul"(%22, %23) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:139
      %25 = "tile.broadcast"(%24) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:139
      %26 = "tile.add"(%25, %21) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:139
      %27 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax/rows.tile:9
      %own = "tile.lt"(%at, %27) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax/rows.tile:9
      "tile.copy"(%s, %k, %26, %x, %i, %own) {bytes = 16 : i64, cache = unit, has = ["memory", "slot", "offset", "tensor", "source", "mask"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>) -> ()  // samples/softmax.tile:139
      "tile.yield"() : () -> ()  // samples/softmax.tile:139
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:61
    "tile.commit"() : () -> ()  // samples/softmax.tile:64
    "tile.wait"() {groups = 0 : i64} : () -> ()  // samples/softmax.tile:68
    %28 = "tile.constant"() {dtype = index, value = 8 : i64} : () -> index  // samples/softmax/rows.tile:7
    %29 = "tile.constant"() {dtype = index, value = 16384 : i64} : () -> index  // samples/softmax/rows.tile:8
    %30 = "tile.constant"() {dtype = index, value = 7 : i64} : () -> index  // samples/softmax/rows.tile:9
    %31 = "tile.broadcast"(%cols) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // samples/softmax/rows.tile:6
    %start_32 = "tile.mul"(%r, %31) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax/rows.tile:6
    %33 = "tile.broadcast"(%30) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // samples/softmax/rows.tile:9
    %34 = "tile.add"(%start_32, %33) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax/rows.tile:9
    %35 = "tile.broadcast"(%28) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // samples/softmax/rows.tile:7
    %36 = "tile.floordiv"(%34, %35) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax/rows.tile:9
    %37 = "tile.mul"(%36, %35) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax/rows.tile:9
    %38 = "tile.reshape"(%37) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax/rows.tile:9
    %39 = "tile.broadcast"(%38) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax/rows.tile:9
    %40 = "tile.broadcast"(%29) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax/rows.tile:8
    %41 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax/rows.tile:8
    %42 = "tile.reshape"(%41) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax/rows.tile:8
    %at_43 = "tile.add"(%40, %42) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax/rows.tile:8
    %i_44 = "tile.add"(%39, %at_43) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax/rows.tile:9
    %45 = "tile.constant"() {dtype = index, value = 4 : i64} : () -> index  // samples/softmax.tile:141
    %46 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:141
    %47 = "tile.reshape"(%6) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:141
    %48 = "tile.broadcast"(%46) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:141
    %49 = "tile.mul"(%47, %48) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:141
    %50 = "tile.broadcast"(%49) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:141
    %51 = "tile.add"(%50, %42) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:141
    %52 = "tile.load"(%s, %45, %51) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:141
    %53 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:141
    %54 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax/rows.tile:9
    %own_55 = "tile.lt"(%at_43, %54) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax/rows.tile:9
    %56 = "tile.broadcast"(%53) {shape = [1 : i64, 4096 : i64]} : (f16) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:141
    %57 = "tile.select"(%own_55, %52, %56) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:141
    "tile.store"(%s, %45, %51, %57) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:141
    %58 = "tile.constant"() {dtype = f32, value = 0xFFF0000000000000 : f64} : () -> f32  // samples/softmax.tile:71
    %m = "tile.broadcast"(%58) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:71
    %m_59 = "tile.for"(%4, %3, %1, %m) ({
    ^bb0(%k_60: index, %m_61: tensor<1x4096xf32, #layout1>):
      %62 = "tile.load"(%s, %k_60, %51) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:143
      %63 = "tile.cast"(%62) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:143
      %m_64 = "tile.maximum"(%m_61, %63) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:73
      "tile.yield"(%m_64) : (tensor<1x4096xf32, #layout1>) -> ()  // samples/softmax.tile:73
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:72
    %65 = "tile.reshape"(%m_59) {shape = [1 : i64, 512 : i64, 8 : i64]} : (tensor<1x4096xf32, #layout1>) -> tensor<1x512x8xf32, #layout1>  // samples/softmax.tile:74
    %top = "tile.reduce"(%65) ({
    ^bb0(%66: f32, %67: f32):
      %68 = "tile.maximum"(%66, %67) : (f32, f32) -> f32  // samples/softmax.tile:74
      "tile.yield"(%68) : (f32) -> ()  // samples/softmax.tile:74
    }) {axis = 2 : i64} : (tensor<1x512x8xf32, #layout1>) -> tensor<1x512xf32, #layout2>  // samples/softmax.tile:74
    %69 = "tile.partial_reduce"(%top) ({
    ^bb0(%70: f32, %71: f32):
      %72 = "tile.maximum"(%70, %71) : (f32, f32) -> f32  // samples/softmax.tile:77
      "tile.yield"(%72) : (f32) -> ()  // samples/softmax.tile:77
    }) {axis = 1 : i64, parts = 16 : i64} : (tensor<1x512xf32, #layout2>) -> tensor<1x16xf32, #layout3>  // samples/softmax.tile:77
    %73 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout3>  // samples/softmax.tile:77
    %74 = "tile.reshape"(%73) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout3>) -> tensor<1x16xindex, #layout3>  // samples/softmax.tile:77
    "tile.store"(%scratch, %74, %69) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>, tensor<1x16xf32, #layout3>) -> ()  // samples/softmax.tile:77
    %75 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout4>  // samples/softmax.tile:77
    %76 = "tile.reshape"(%75) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout4>) -> tensor<1x16xindex, #layout4>  // samples/softmax.tile:77
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:77
    %77 = "tile.load"(%scratch, %76) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout4>) -> tensor<1x16xf32, #layout4>  // samples/softmax.tile:77
    %78 = "tile.reduce"(%77) ({
    ^bb0(%79: f32, %80: f32):
      %81 = "tile.maximum"(%79, %80) : (f32, f32) -> f32  // samples/softmax.tile:77
      "tile.yield"(%81) : (f32) -> ()  // samples/softmax.tile:77
    }) {axis = 1 : i64} : (tensor<1x16xf32, #layout4>) -> tensor<1xf32, #layout0>  // samples/softmax.tile:77
    %top_82 = "tile.reshape"(%78) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:77
    %83 = "tile.constant"() {dtype = f32, value = 0x0000000000000000 : f64} : () -> f32  // samples/softmax.tile:78
    %z = "tile.broadcast"(%83) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:78
    %z_84 = "tile.for"(%4, %3, %1, %z) ({
    ^bb0(%k_85: index, %z_86: tensor<1x4096xf32, #layout1>):
      %87 = "tile.load"(%s, %k_85, %51) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:143
      %88 = "tile.cast"(%87) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:143
      %89 = "tile.broadcast"(%top_82) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:80
      %90 = "tile.sub"(%88, %89) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:80
      %91 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:9
      %92 = "tile.broadcast"(%91) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:9
      %93 = "tile.mul"(%90, %92) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:9
      %94 = "tile.ex2.approx.ftz"(%93) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:9
      %z_95 = "tile.add"(%z_86, %94) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:80
      "tile.yield"(%z_95) : (tensor<1x4096xf32, #layout1>) -> ()  // samples/softmax.tile:80
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:79
    %96 = "tile.reshape"(%z_84) {shape = [1 : i64, 512 : i64, 8 : i64]} : (tensor<1x4096xf32, #layout1>) -> tensor<1x512x8xf32, #layout1>  // samples/softmax.tile:81
    %total = "tile.reduce"(%96) ({
    ^bb0(%97: f32, %98: f32):
      %99 = "tile.add"(%97, %98) : (f32, f32) -> f32  // samples/softmax.tile:81
      "tile.yield"(%99) : (f32) -> ()  // samples/softmax.tile:81
    }) {axis = 2 : i64} : (tensor<1x512x8xf32, #layout1>) -> tensor<1x512xf32, #layout2>  // samples/softmax.tile:81
    %100 = "tile.partial_reduce"(%total) ({
    ^bb0(%101: f32, %102: f32):
      %103 = "tile.add"(%101, %102) : (f32, f32) -> f32  // samples/softmax.tile:84
      "tile.yield"(%103) : (f32) -> ()  // samples/softmax.tile:84
    }) {axis = 1 : i64, parts = 16 : i64} : (tensor<1x512xf32, #layout2>) -> tensor<1x16xf32, #layout3>  // samples/softmax.tile:84
    "tile.store"(%scratch_0, %74, %100) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>, tensor<1x16xf32, #layout3>) -> ()  // samples/softmax.tile:84
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:84
    %104 = "tile.load"(%scratch_0, %76) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout4>) -> tensor<1x16xf32, #layout4>  // samples/softmax.tile:84
    %105 = "tile.reduce"(%104) ({
    ^bb0(%106: f32, %107: f32):
      %108 = "tile.add"(%106, %107) : (f32, f32) -> f32  // samples/softmax.tile:84
      "tile.yield"(%108) : (f32) -> ()  // samples/softmax.tile:84
    }) {axis = 1 : i64} : (tensor<1x16xf32, #layout4>) -> tensor<1xf32, #layout0>  // samples/softmax.tile:84
    %109 = "tile.reshape"(%105) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:84
    %110 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:15
    %111 = "tile.broadcast"(%110) {shape = [1 : i64, 1 : i64]} : (f32) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:15
    %total_112 = "tile.div"(%111, %109) : (tensor<1x1xf32, #layout0>, tensor<1x1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:15
    %113 = "tile.broadcast"(%29) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout5>  // samples/softmax/rows.tile:8
    %114 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout5>  // samples/softmax/rows.tile:8
    %115 = "tile.reshape"(%114) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout5>) -> tensor<1x4096xindex, #layout5>  // samples/softmax/rows.tile:8
    %at_116 = "tile.add"(%113, %115) : (tensor<1x4096xindex, #layout5>, tensor<1x4096xindex, #layout5>) -> tensor<1x4096xindex, #layout5>  // samples/softmax/rows.tile:8
    %117 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout5>  // samples/softmax/rows.tile:9
    %own_118 = "tile.lt"(%at_116, %117) : (tensor<1x4096xindex, #layout5>, tensor<1x4096xindex, #layout5>) -> tensor<1x4096xi1, #layout5>  // samples/softmax/rows.tile:9
    %i_119, %own_120 = "tile.for"(%4, %3, %1, %i_44, %own_118) ({
    ^bb0(%k_121: index, %i_122: tensor<1x4096xindex, #layout1>, %own_123: tensor<1x4096xi1, #layout5>):
      %124 = "tile.mul"(%k_121, %46) : (index, index) -> index  // samples/softmax/rows.tile:8
      %125 = "tile.broadcast"(%124) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax/rows.tile:8
      %at_126 = "tile.add"(%125, %42) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax/rows.tile:8
      %i_127 = "tile.add"(%39, %at_126) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax/rows.tile:9
      %128 = "tile.load"(%s, %k_121, %51) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:143
      %129 = "tile.cast"(%128) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:143
      %130 = "tile.broadcast"(%top_82) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:87
      %131 = "tile.sub"(%129, %130) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:87
      %132 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:9
      %133 = "tile.broadcast"(%132) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:9
      %134 = "tile.mul"(%131, %133) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:9
      %135 = "tile.ex2.approx.ftz"(%134) : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:9
      %136 = "tile.broadcast"(%total_112) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:21
      %137 = "tile.mul"(%135, %136) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:21
      %138 = "tile.cast"(%137) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:147
      %own_139 = "tile.lt"(%at_126, %54) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax/rows.tile:9
      "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:147
      "tile.store"(%y, %i_127, %own_139, %138) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:147
      %140 = "tile.broadcast"(%124) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout5>  // samples/softmax/rows.tile:8
      %at_141 = "tile.add"(%140, %115) : (tensor<1x4096xindex, #layout5>, tensor<1x4096xindex, #layout5>) -> tensor<1x4096xindex, #layout5>  // samples/softmax/rows.tile:8
      %own_142 = "tile.lt"(%at_141, %117) : (tensor<1x4096xindex, #layout5>, tensor<1x4096xindex, #layout5>) -> tensor<1x4096xi1, #layout5>  // samples/softmax/rows.tile:9
      "tile.yield"(%i_127, %own_142) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout5>) -> ()  // samples/softmax.tile:147
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout5>) -> (tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout5>)  // samples/softmax.tile:85
  }) {index_bits = 32 : i64, name = "softmax_shared", shared_align = 16 : i64, shared_bytes = 41088 : i64, warps = 16 : i64} : () -> ()
}) : () -> ()
