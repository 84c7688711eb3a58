#layout0 = {register = [], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
#layout1 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256, 512, 1024, 2048]}
#layout2 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2, 4, 8]}
#layout3 = {register = [1, 2, 4, 8], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
#layout4 = {register = [512, 1024, 2048], lane = [1, 2, 4, 8, 16], warp = [32, 64, 128, 256]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%dx: memref<?x?xf16, 1>, %y: memref<?x?xf16, 1>, %dy: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %scratch = "tile.shared_alloc"() {name = "scratch", offset = 0 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:216
    %0 = "tile.constant"() {dtype = index, value = 1 : i64} : () -> index  // samples/softmax.tile:197
    %s = "tile.shared_alloc"() {name = "s", offset = 64 : i64, type = memref<5x1x4096xf16, 3>} : () -> memref<5x1x4096xf16, 3>  // samples/softmax.tile:200
    %t = "tile.shared_alloc"() {name = "t", offset = 41024 : i64, type = memref<5x1x4096xf16, 3>} : () -> memref<5x1x4096xf16, 3>  // samples/softmax.tile:200
    %1 = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:201
    %2 = "tile.constant"() {dtype = index, value = 5 : i64} : () -> index  // samples/softmax.tile:201
    %3 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:201
    %4 = "tile.broadcast"(%1) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // samples/softmax.tile:201
    %5 = "tile.arange"() {extent = 1 : i64} : () -> tensor<1xindex, #layout0>  // samples/softmax.tile:201
    %r = "tile.add"(%4, %5) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax.tile:201
    "tile.for"(%3, %2, %0) ({
    ^bb0(%k: index):
      %6 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:11
      %7 = "tile.mul"(%k, %6) : (index, index) -> index  // samples/softmax.tile:11
      %8 = "tile.broadcast"(%cols) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // samples/softmax.tile:10
      %start = "tile.mul"(%r, %8) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax.tile:10
      %9 = "tile.reshape"(%start) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:13
      %10 = "tile.broadcast"(%9) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:13
      %11 = "tile.broadcast"(%7) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
      %12 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax.tile:11
      %13 = "tile.reshape"(%12) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
      %at = "tile.add"(%11, %13) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
      %i = "tile.add"(%10, %at) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:13
      %14 = "tile.reshape"(%5) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:204
      %15 = "tile.broadcast"(%6) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:204
      %16 = "tile.mul"(%14, %15) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:204
      %17 = "tile.broadcast"(%16) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:204
      %18 = "tile.add"(%17, %13) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:204
      %19 = "tile.broadcast"(%0) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // samples/softmax.tile:204
      %20 = "tile.add"(%r, %19) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax.tile:204
      %21 = "tile.mul"(%20, %8) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax.tile:204
      %22 = "tile.reshape"(%21) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:204
      %23 = "tile.broadcast"(%22) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:204
      %24 = "tile.lt"(%i, %23) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:204
      "tile.copy"(%s, %k, %18, %y, %i, %24) {bytes = 16 : i64, cache = unit, has = ["memory", "slot", "offset", "tensor", "source", "mask"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>) -> ()  // samples/softmax.tile:204
      "tile.copy"(%t, %k, %18, %dy, %i, %24) {bytes = 16 : i64, cache = unit, has = ["memory", "slot", "offset", "tensor", "source", "mask"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>) -> ()  // samples/softmax.tile:205
      "tile.yield"() : () -> ()  // samples/softmax.tile:205
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:202
    "tile.commit"() : () -> ()  // samples/softmax.tile:206
    "tile.wait"() {groups = 0 : i64} : () -> ()  // samples/softmax.tile:207
    %25 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:211
    %26 = "tile.reshape"(%5) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:211
    %27 = "tile.broadcast"(%25) {shape = [1 : i64, 1 : i64]} : (index) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:211
    %28 = "tile.mul"(%26, %27) : (tensor<1x1xindex, #layout0>, tensor<1x1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:211
    %29 = "tile.broadcast"(%28) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:211
    %30 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax.tile:11
    %at_31 = "tile.reshape"(%30) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
    %32 = "tile.add"(%29, %at_31) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:211
    %33 = "tile.load"(%s, %3, %32) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:211
    %34 = "tile.constant"() {dtype = f16, value = 0x0000000000000000 : f64} : () -> f16  // samples/softmax.tile:211
    %35 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:13
    %own = "tile.lt"(%at_31, %35) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:13
    %36 = "tile.broadcast"(%34) {shape = [1 : i64, 4096 : i64]} : (f16) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:211
    %37 = "tile.select"(%own, %33, %36) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:211
    "tile.store"(%s, %3, %32, %37) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:211
    %38 = "tile.load"(%t, %3, %32) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:212
    %39 = "tile.select"(%own, %38, %36) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:212
    "tile.store"(%t, %3, %32, %39) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:212
    %40 = "tile.constant"() {dtype = index, value = 12288 : i64} : () -> index  // samples/softmax.tile:11
    %41 = "tile.constant"() {dtype = index, value = 3 : i64} : () -> index  // samples/softmax.tile:211
    %42 = "tile.load"(%s, %41, %32) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:211
    %43 = "tile.broadcast"(%40) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
    %at_44 = "tile.add"(%43, %at_31) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
    %own_45 = "tile.lt"(%at_44, %35) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:13
    %46 = "tile.select"(%own_45, %42, %36) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:211
    "tile.store"(%s, %41, %32, %46) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:211
    %47 = "tile.load"(%t, %41, %32) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:212
    %48 = "tile.select"(%own_45, %47, %36) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:212
    "tile.store"(%t, %41, %32, %48) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:212
    %49 = "tile.constant"() {dtype = index, value = 16384 : i64} : () -> index  // samples/softmax.tile:11
    %50 = "tile.broadcast"(%cols) {shape = [1 : i64]} : (index) -> tensor<1xindex, #layout0>  // samples/softmax.tile:10
    %start_51 = "tile.mul"(%r, %50) : (tensor<1xindex, #layout0>, tensor<1xindex, #layout0>) -> tensor<1xindex, #layout0>  // samples/softmax.tile:10
    %52 = "tile.reshape"(%start_51) {shape = [1 : i64, 1 : i64]} : (tensor<1xindex, #layout0>) -> tensor<1x1xindex, #layout0>  // samples/softmax.tile:13
    %53 = "tile.broadcast"(%52) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xindex, #layout0>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:13
    %54 = "tile.broadcast"(%49) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
    %at_55 = "tile.add"(%54, %at_31) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
    %i_56 = "tile.add"(%53, %at_55) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:13
    %57 = "tile.constant"() {dtype = index, value = 4 : i64} : () -> index  // samples/softmax.tile:211
    %58 = "tile.load"(%s, %57, %32) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:211
    %own_59 = "tile.lt"(%at_55, %35) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:13
    %60 = "tile.select"(%own_59, %58, %36) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:211
    "tile.store"(%s, %57, %32, %60) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:211
    %61 = "tile.load"(%t, %57, %32) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:212
    %62 = "tile.select"(%own_59, %61, %36) : (tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>, tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:212
    "tile.store"(%t, %57, %32, %62) {cache = unit, evict = unit, has = ["memory", "slot", "offset", "value"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:212
    %63 = "tile.constant"() {dtype = f32, value = 0x0000000000000000 : f64} : () -> f32  // samples/softmax.tile:213
    %z = "tile.broadcast"(%63) {shape = [1 : i64, 4096 : i64]} : (f32) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:213
    %z_64 = "tile.for"(%3, %2, %0, %z) ({
    ^bb0(%k_65: index, %z_66: tensor<1x4096xf32, #layout1>):
      %67 = "tile.load"(%s, %k_65, %32) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:215
      %68 = "tile.cast"(%67) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:215
      %69 = "tile.load"(%t, %k_65, %32) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:215
      %70 = "tile.cast"(%69) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:215
      %71 = "tile.mul"(%68, %70) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:172
      %z_72 = "tile.add"(%z_66, %71) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:215
      "tile.yield"(%z_72) : (tensor<1x4096xf32, #layout1>) -> ()  // samples/softmax.tile:215
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:214
    %73 = "tile.partial_reduce"(%z_64) ({
    ^bb0(%74: f32, %75: f32):
      %76 = "tile.add"(%74, %75) : (f32, f32) -> f32  // samples/softmax.tile:216
      "tile.yield"(%76) : (f32) -> ()  // samples/softmax.tile:216
    }) {axis = 1 : i64, parts = 16 : i64} : (tensor<1x4096xf32, #layout1>) -> tensor<1x16xf32, #layout2>  // samples/softmax.tile:216
    %77 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout2>  // samples/softmax.tile:216
    %78 = "tile.reshape"(%77) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout2>) -> tensor<1x16xindex, #layout2>  // samples/softmax.tile:216
    "tile.store"(%scratch, %78, %73) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout2>, tensor<1x16xf32, #layout2>) -> ()  // samples/softmax.tile:216
    %79 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout3>  // samples/softmax.tile:216
    %80 = "tile.reshape"(%79) {shape = [1 : i64, 16 : i64]} : (tensor<16xindex, #layout3>) -> tensor<1x16xindex, #layout3>  // samples/softmax.tile:216
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:216
    %81 = "tile.load"(%scratch, %80) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<1x16xindex, #layout3>) -> tensor<1x16xf32, #layout3>  // samples/softmax.tile:216
    %82 = "tile.reduce"(%81) ({
    ^bb0(%83: f32, %84: f32):
      %85 = "tile.add"(%83, %84) : (f32, f32) -> f32  // samples/softmax.tile:216
      "tile.yield"(%85) : (f32) -> ()  // samples/softmax.tile:216
    }) {axis = 1 : i64} : (tensor<1x16xf32, #layout3>) -> tensor<1xf32, #layout0>  // samples/softmax.tile:216
    %dot = "tile.reshape"(%82) {shape = [1 : i64, 1 : i64]} : (tensor<1xf32, #layout0>) -> tensor<1x1xf32, #layout0>  // samples/softmax.tile:216
    %86 = "tile.broadcast"(%49) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout4>  // samples/softmax.tile:11
    %87 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout4>  // samples/softmax.tile:11
    %at_88 = "tile.reshape"(%87) {shape = [1 : i64, 4096 : i64]} : (tensor<4096xindex, #layout4>) -> tensor<1x4096xindex, #layout4>  // samples/softmax.tile:11
    %at_89 = "tile.add"(%86, %at_88) : (tensor<1x4096xindex, #layout4>, tensor<1x4096xindex, #layout4>) -> tensor<1x4096xindex, #layout4>  // samples/softmax.tile:11
    %90 = "tile.broadcast"(%cols) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout4>  // samples/softmax.tile:13
    %own_91 = "tile.lt"(%at_89, %90) : (tensor<1x4096xindex, #layout4>, tensor<1x4096xindex, #layout4>) -> tensor<1x4096xi1, #layout4>  // samples/softmax.tile:13
    %i_92, %own_93 = "tile.for"(%3, %2, %0, %i_56, %own_91) ({
    ^bb0(%k_94: index, %i_95: tensor<1x4096xindex, #layout1>, %own_96: tensor<1x4096xi1, #layout4>):
      %97 = "tile.mul"(%k_94, %25) : (index, index) -> index  // samples/softmax.tile:11
      %98 = "tile.broadcast"(%97) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
      %at_99 = "tile.add"(%98, %at_31) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:11
      %i_100 = "tile.add"(%53, %at_99) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xindex, #layout1>  // samples/softmax.tile:13
      %101 = "tile.load"(%s, %k_94, %32) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:219
      %102 = "tile.cast"(%101) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:219
      %103 = "tile.load"(%t, %k_94, %32) {cache = unit, evict = unit, has = ["memory", "slot", "offset"]} : (memref<5x1x4096xf16, 3>, index, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:219
      %104 = "tile.cast"(%103) {rounding = unit, saturate = false, to = f32} : (tensor<1x4096xf16, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:219
      %105 = "tile.broadcast"(%dot) {shape = [1 : i64, 4096 : i64]} : (tensor<1x1xf32, #layout0>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:166
      %106 = "tile.sub"(%104, %105) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:166
      %107 = "tile.mul"(%102, %106) : (tensor<1x4096xf32, #layout1>, tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf32, #layout1>  // samples/softmax.tile:166
      %108 = "tile.cast"(%107) {rounding = unit, saturate = false, to = f16} : (tensor<1x4096xf32, #layout1>) -> tensor<1x4096xf16, #layout1>  // samples/softmax.tile:219
      %own_109 = "tile.lt"(%at_99, %35) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xindex, #layout1>) -> tensor<1x4096xi1, #layout1>  // samples/softmax.tile:13
      "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:219
      "tile.store"(%dx, %i_100, %own_109, %108) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout1>, tensor<1x4096xf16, #layout1>) -> ()  // samples/softmax.tile:219
      %110 = "tile.broadcast"(%97) {shape = [1 : i64, 4096 : i64]} : (index) -> tensor<1x4096xindex, #layout4>  // samples/softmax.tile:11
      %at_111 = "tile.add"(%110, %at_88) : (tensor<1x4096xindex, #layout4>, tensor<1x4096xindex, #layout4>) -> tensor<1x4096xindex, #layout4>  // samples/softmax.tile:11
      %own_112 = "tile.lt"(%at_111, %90) : (tensor<1x4096xindex, #layout4>, tensor<1x4096xindex, #layout4>) -> tensor<1x4096xi1, #layout4>  // samples/softmax.tile:13
      "tile.yield"(%i_100, %own_112) : (tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout4>) -> ()  // samples/softmax.tile:219
    }) {unroll = 1 : i64} : (index, index, index, tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout4>) -> (tensor<1x4096xindex, #layout1>, tensor<1x4096xi1, #layout4>)  // samples/softmax.tile:217
  }) {index_bits = 32 : i64, name = "backward_shared", shared_bytes = 81984 : i64, warps = 16 : i64} : () -> ()
}) : () -> ()
