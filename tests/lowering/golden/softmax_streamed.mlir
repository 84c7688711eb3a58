#layout0 = {register = [], lane = [1, 2, 4, 8, 16], warp = [32, 64, 128, 256]}
#layout1 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256, 512, 1024, 2048]}
#layout2 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1, 2, 4, 8]}
#layout3 = {register = [1, 2, 4, 8], lane = [0, 0, 0, 0, 0], warp = [0, 0, 0, 0]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%y: memref<?x?xf16, 1>, %x: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %scratch = "tile.shared_alloc"() {name = "scratch", offset = 0 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:79
    %scratch_0 = "tile.shared_alloc"() {name = "scratch", offset = 64 : i64, type = memref<16xf32, 3>} : () -> memref<16xf32, 3>  // samples/softmax.tile:79
    %r = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:70
    %1 = "tile.constant"() {dtype = f32, value = 0xFFF0000000000000 : f64} : () -> f32  // samples/softmax.tile:71
    %2 = "tile.constant"() {dtype = f32, value = 0x0000000000000000 : f64} : () -> f32  // samples/softmax.tile:72
    %3 = "tile.constant"() {dtype = index, value = 0 : i64} : () -> index  // samples/softmax.tile:72
    %start = "tile.mul"(%r, %cols) : (index, index) -> index  // samples/softmax.tile:73
    %4 = "tile.constant"() {dtype = index, value = 4096 : i64} : () -> index  // samples/softmax.tile:73
    %m = "tile.broadcast"(%1) {shape = [512 : i64]} : (f32) -> tensor<512xf32, #layout0>  // samples/softmax.tile:71
    %z = "tile.broadcast"(%2) {shape = [512 : i64]} : (f32) -> tensor<512xf32, #layout0>  // samples/softmax.tile:72
    %m_5, %z_6 = "tile.for"(%3, %cols, %4, %m, %z) ({
    ^bb0(%k: index, %m_7: tensor<512xf32, #layout0>, %z_8: tensor<512xf32, #layout0>):
      %9 = "tile.add"(%start, %k) : (index, index) -> index  // samples/softmax.tile:18
      %10 = "tile.broadcast"(%9) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:18
      %11 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax.tile:17
      %i = "tile.add"(%10, %11) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:18
      %12 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:108
      %13 = "tile.broadcast"(%k) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:17
      %column = "tile.add"(%13, %11) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:17
      %14 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:18
      %own = "tile.lt"(%column, %14) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xi1, #layout1>  // samples/softmax.tile:18
      %15 = "tile.broadcast"(%12) {shape = [4096 : i64]} : (f16) -> tensor<4096xf16, #layout1>  // samples/softmax.tile:108
      %16 = "tile.load"(%x, %i, %own, %15) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout1>, tensor<4096xi1, #layout1>, tensor<4096xf16, #layout1>) -> tensor<4096xf16, #layout1>  // samples/softmax.tile:108
      %17 = "tile.cast"(%16) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout1>) -> tensor<4096xf32, #layout1>  // samples/softmax.tile:108
      %v = "tile.reshape"(%17) {shape = [512 : i64, 8 : i64]} : (tensor<4096xf32, #layout1>) -> tensor<512x8xf32, #layout1>  // samples/softmax.tile:75
      %top = "tile.reduce"(%v) ({
      ^bb0(%18: f32, %19: f32):
        %20 = "tile.maximum"(%18, %19) : (f32, f32) -> f32  // samples/softmax.tile:76
        "tile.yield"(%20) : (f32) -> ()  // samples/softmax.tile:76
      }) {axis = 1 : i64} : (tensor<512x8xf32, #layout1>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:76
      %21 = "tile.eq"(%top, %m) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xi1, #layout0>  // samples/softmax.tile:77
      %22 = "tile.select"(%21, %z, %top) : (tensor<512xi1, #layout0>, tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:77
      %23 = "tile.reshape"(%22) {shape = [512 : i64, 1 : i64]} : (tensor<512xf32, #layout0>) -> tensor<512x1xf32, #layout0>  // samples/softmax.tile:77
      %24 = "tile.broadcast"(%23) {shape = [512 : i64, 8 : i64]} : (tensor<512x1xf32, #layout0>) -> tensor<512x8xf32, #layout1>  // samples/softmax.tile:77
      %25 = "tile.sub"(%v, %24) : (tensor<512x8xf32, #layout1>, tensor<512x8xf32, #layout1>) -> tensor<512x8xf32, #layout1>  // samples/softmax.tile:77
      %26 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:77
      %27 = "tile.broadcast"(%26) {shape = [512 : i64, 8 : i64]} : (f32) -> tensor<512x8xf32, #layout1>  // samples/softmax.tile:77
      %28 = "tile.mul"(%25, %27) : (tensor<512x8xf32, #layout1>, tensor<512x8xf32, #layout1>) -> tensor<512x8xf32, #layout1>  // samples/softmax.tile:77
      %e = "tile.ex2.approx"(%28) : (tensor<512x8xf32, #layout1>) -> tensor<512x8xf32, #layout1>  // samples/softmax.tile:77
      %29 = "tile.reduce"(%e) ({
      ^bb0(%30: f32, %31: f32):
        %32 = "tile.add"(%30, %31) : (f32, f32) -> f32  // samples/softmax.tile:78
        "tile.yield"(%32) : (f32) -> ()  // samples/softmax.tile:78
      }) {axis = 1 : i64} : (tensor<512x8xf32, #layout1>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:78
      %top_33 = "tile.maximum"(%m_7, %top) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:65
      %34 = "tile.eq"(%m_7, %top_33) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xi1, #layout0>  // samples/softmax.tile:66
      %35 = "tile.sub"(%m_7, %top_33) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:66
      %36 = "tile.broadcast"(%26) {shape = [512 : i64]} : (f32) -> tensor<512xf32, #layout0>  // samples/softmax.tile:66
      %37 = "tile.mul"(%35, %36) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:66
      %38 = "tile.ex2.approx"(%37) : (tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:66
      %39 = "tile.mul"(%z_8, %38) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:66
      %40 = "tile.select"(%34, %z_8, %39) : (tensor<512xi1, #layout0>, tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:66
      %41 = "tile.eq"(%top, %top_33) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xi1, #layout0>  // samples/softmax.tile:66
      %42 = "tile.sub"(%top, %top_33) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:66
      %43 = "tile.mul"(%42, %36) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:66
      %44 = "tile.ex2.approx"(%43) : (tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:66
      %45 = "tile.mul"(%29, %44) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:66
      %46 = "tile.select"(%41, %29, %45) : (tensor<512xi1, #layout0>, tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:66
      %z_47 = "tile.add"(%40, %46) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> tensor<512xf32, #layout0>  // samples/softmax.tile:66
      "tile.yield"(%top_33, %z_47) : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> ()  // samples/softmax.tile:66
    }) {unroll = 1 : i64} : (index, index, index, tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>)  // samples/softmax.tile:73
    %48, %49 = "tile.partial_reduce"(%m_5, %z_6) ({
    ^bb0(%50: f32, %51: f32, %52: f32, %53: f32):
      %top_54 = "tile.maximum"(%50, %52) : (f32, f32) -> f32  // samples/softmax.tile:65
      %55 = "tile.eq"(%50, %top_54) : (f32, f32) -> i1  // samples/softmax.tile:66
      %56 = "tile.sub"(%50, %top_54) : (f32, f32) -> f32  // samples/softmax.tile:66
      %57 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:66
      %58 = "tile.mul"(%56, %57) : (f32, f32) -> f32  // samples/softmax.tile:66
      %59 = "tile.ex2.approx"(%58) : (f32) -> f32  // samples/softmax.tile:66
      %60 = "tile.mul"(%51, %59) : (f32, f32) -> f32  // samples/softmax.tile:66
      %61 = "tile.select"(%55, %51, %60) : (i1, f32, f32) -> f32  // samples/softmax.tile:66
      %62 = "tile.eq"(%52, %top_54) : (f32, f32) -> i1  // samples/softmax.tile:66
      %63 = "tile.sub"(%52, %top_54) : (f32, f32) -> f32  // samples/softmax.tile:66
      %64 = "tile.mul"(%63, %57) : (f32, f32) -> f32  // samples/softmax.tile:66
      %65 = "tile.ex2.approx"(%64) : (f32) -> f32  // samples/softmax.tile:66
      %66 = "tile.mul"(%53, %65) : (f32, f32) -> f32  // samples/softmax.tile:66
      %67 = "tile.select"(%62, %53, %66) : (i1, f32, f32) -> f32  // samples/softmax.tile:66
      %68 = "tile.add"(%61, %67) : (f32, f32) -> f32  // samples/softmax.tile:66
      "tile.yield"(%top_54, %68) : (f32, f32) -> ()  // samples/softmax.tile:66
    }) {axis = 0 : i64, parts = 16 : i64} : (tensor<512xf32, #layout0>, tensor<512xf32, #layout0>) -> (tensor<16xf32, #layout2>, tensor<16xf32, #layout2>)  // samples/softmax.tile:79
    %69 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout2>  // samples/softmax.tile:79
    "tile.store"(%scratch, %69, %48) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<16xindex, #layout2>, tensor<16xf32, #layout2>) -> ()  // samples/softmax.tile:79
    %70 = "tile.arange"() {extent = 16 : i64} : () -> tensor<16xindex, #layout3>  // samples/softmax.tile:79
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:79
    %71 = "tile.load"(%scratch, %70) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<16xindex, #layout3>) -> tensor<16xf32, #layout3>  // samples/softmax.tile:79
    "tile.store"(%scratch_0, %69, %49) {cache = unit, evict = unit, has = ["memory", "offset", "value"]} : (memref<16xf32, 3>, tensor<16xindex, #layout2>, tensor<16xf32, #layout2>) -> ()  // samples/softmax.tile:79
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:79
    %72 = "tile.load"(%scratch_0, %70) {cache = unit, evict = unit, has = ["memory", "offset"]} : (memref<16xf32, 3>, tensor<16xindex, #layout3>) -> tensor<16xf32, #layout3>  // samples/softmax.tile:79
    %top_73, %total = "tile.reduce"(%71, %72) ({
    ^bb0(%74: f32, %75: f32, %76: f32, %77: f32):
      %78 = "tile.maximum"(%74, %76) : (f32, f32) -> f32  // samples/softmax.tile:65
      %79 = "tile.eq"(%74, %78) : (f32, f32) -> i1  // samples/softmax.tile:66
      %80 = "tile.sub"(%74, %78) : (f32, f32) -> f32  // samples/softmax.tile:66
      %81 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:66
      %82 = "tile.mul"(%80, %81) : (f32, f32) -> f32  // samples/softmax.tile:66
      %83 = "tile.ex2.approx"(%82) : (f32) -> f32  // samples/softmax.tile:66
      %84 = "tile.mul"(%75, %83) : (f32, f32) -> f32  // samples/softmax.tile:66
      %85 = "tile.select"(%79, %75, %84) : (i1, f32, f32) -> f32  // samples/softmax.tile:66
      %86 = "tile.eq"(%76, %78) : (f32, f32) -> i1  // samples/softmax.tile:66
      %87 = "tile.sub"(%76, %78) : (f32, f32) -> f32  // samples/softmax.tile:66
      %88 = "tile.mul"(%87, %81) : (f32, f32) -> f32  // samples/softmax.tile:66
      %89 = "tile.ex2.approx"(%88) : (f32) -> f32  // samples/softmax.tile:66
      %90 = "tile.mul"(%77, %89) : (f32, f32) -> f32  // samples/softmax.tile:66
      %91 = "tile.select"(%86, %77, %90) : (i1, f32, f32) -> f32  // samples/softmax.tile:66
      %92 = "tile.add"(%85, %91) : (f32, f32) -> f32  // samples/softmax.tile:66
      "tile.yield"(%78, %92) : (f32, f32) -> ()  // samples/softmax.tile:66
    }) {axis = 0 : i64} : (tensor<16xf32, #layout3>, tensor<16xf32, #layout3>) -> (f32, f32)  // samples/softmax.tile:79
    "tile.for"(%3, %cols, %4) ({
    ^bb0(%k_93: index):
      %94 = "tile.add"(%start, %k_93) : (index, index) -> index  // samples/softmax.tile:18
      %95 = "tile.broadcast"(%94) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:18
      %96 = "tile.arange"() {extent = 4096 : i64} : () -> tensor<4096xindex, #layout1>  // samples/softmax.tile:17
      %i_97 = "tile.add"(%95, %96) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:18
      %98 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:108
      %99 = "tile.broadcast"(%k_93) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:17
      %column_100 = "tile.add"(%99, %96) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:17
      %101 = "tile.broadcast"(%cols) {shape = [4096 : i64]} : (index) -> tensor<4096xindex, #layout1>  // samples/softmax.tile:18
      %own_102 = "tile.lt"(%column_100, %101) : (tensor<4096xindex, #layout1>, tensor<4096xindex, #layout1>) -> tensor<4096xi1, #layout1>  // samples/softmax.tile:18
      %103 = "tile.broadcast"(%98) {shape = [4096 : i64]} : (f16) -> tensor<4096xf16, #layout1>  // samples/softmax.tile:108
      %104 = "tile.load"(%x, %i_97, %own_102, %103) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout1>, tensor<4096xi1, #layout1>, tensor<4096xf16, #layout1>) -> tensor<4096xf16, #layout1>  // samples/softmax.tile:108
      %105 = "tile.cast"(%104) {rounding = unit, saturate = false, to = f32} : (tensor<4096xf16, #layout1>) -> tensor<4096xf32, #layout1>  // samples/softmax.tile:108
      %106 = "tile.broadcast"(%top_73) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout1>  // samples/softmax.tile:82
      %107 = "tile.sub"(%105, %106) : (tensor<4096xf32, #layout1>, tensor<4096xf32, #layout1>) -> tensor<4096xf32, #layout1>  // samples/softmax.tile:82
      %108 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:34
      %109 = "tile.broadcast"(%108) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout1>  // samples/softmax.tile:34
      %110 = "tile.mul"(%107, %109) : (tensor<4096xf32, #layout1>, tensor<4096xf32, #layout1>) -> tensor<4096xf32, #layout1>  // samples/softmax.tile:34
      %111 = "tile.ex2.approx"(%110) : (tensor<4096xf32, #layout1>) -> tensor<4096xf32, #layout1>  // samples/softmax.tile:34
      %112 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:34
      %113 = "tile.div"(%112, %total) : (f32, f32) -> f32  // samples/softmax.tile:34
      %114 = "tile.broadcast"(%113) {shape = [4096 : i64]} : (f32) -> tensor<4096xf32, #layout1>  // samples/softmax.tile:34
      %115 = "tile.mul"(%111, %114) : (tensor<4096xf32, #layout1>, tensor<4096xf32, #layout1>) -> tensor<4096xf32, #layout1>  // samples/softmax.tile:34
      %116 = "tile.cast"(%115) {rounding = unit, saturate = false, to = f16} : (tensor<4096xf32, #layout1>) -> tensor<4096xf16, #layout1>  // samples/softmax.tile:110
      "tile.store"(%y, %i_97, %own_102, %116) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<4096xindex, #layout1>, tensor<4096xi1, #layout1>, tensor<4096xf16, #layout1>) -> ()  // samples/softmax.tile:110
      "tile.yield"() : () -> ()  // samples/softmax.tile:110
    }) {unroll = 1 : i64} : (index, index, index) -> ()  // samples/softmax.tile:80
  }) {index_bits = 32 : i64, name = "softmax_streamed", shared_bytes = 128 : i64, warps = 16 : i64} : () -> ()
}) : () -> ()
