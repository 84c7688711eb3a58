#layout0 = {register = [], lane = [0, 0, 0, 0, 0], warp = [1]}
#layout1 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [256]}
#layout2 = {register = [1, 2, 4], lane = [8, 16, 32, 64, 128], warp = [0]}
#layout3 = {register = [], lane = [1, 2, 4, 8, 16], warp = [32]}
"builtin.module"() ({
  "tile.kernel"() ({
  ^bb0(%y: memref<?x?xf16, 1>, %x: memref<?x?xf16, 1>, %rows: index, %cols: index):
    %0 = "tile.block_id"() {axis = 0 : i64} : () -> index  // samples/softmax.tile:26
    %1 = "tile.constant"() {dtype = index, value = 2 : i64} : () -> index  // samples/softmax.tile:26
    %2 = "tile.mul"(%0, %1) : (index, index) -> index  // samples/softmax.tile:26
    %3 = "tile.constant"() {dtype = f32, value = 0xFFF0000000000000 : f64} : () -> f32  // samples/softmax.tile:32
    %4 = "tile.constant"() {dtype = index, value = 8 : i64} : () -> index  // /work/wt/softmax/samples/softmax/rows.tile:7
    %5 = "tile.constant"() {dtype = index, value = 7 : i64} : () -> index  // /work/wt/softmax/samples/softmax/rows.tile:9
    %6 = "tile.broadcast"(%2) {shape = [2 : i64]} : (index) -> tensor<2xindex, #layout0>  // samples/softmax.tile:26
    %7 = "tile.arange"() {extent = 2 : i64} : () -> tensor<2xindex, #layout0>  // samples/softmax.tile:26
    %r = "tile.add"(%6, %7) : (tensor<2xindex, #layout0>, tensor<2xindex, #layout0>) -> tensor<2xindex, #layout0>  // samples/softmax.tile:26
    %8 = "tile.broadcast"(%cols) {shape = [2 : i64]} : (index) -> tensor<2xindex, #layout0>  // /work/wt/softmax/samples/softmax/rows.tile:6
    %start = "tile.mul"(%r, %8) : (tensor<2xindex, #layout0>, tensor<2xindex, #layout0>) -> tensor<2xindex, #layout0>  // /work/wt/softmax/samples/softmax/rows.tile:6
    %9 = "tile.broadcast"(%5) {shape = [2 : i64]} : (index) -> tensor<2xindex, #layout0>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %10 = "tile.add"(%start, %9) : (tensor<2xindex, #layout0>, tensor<2xindex, #layout0>) -> tensor<2xindex, #layout0>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %11 = "tile.broadcast"(%4) {shape = [2 : i64]} : (index) -> tensor<2xindex, #layout0>  // /work/wt/softmax/samples/softmax/rows.tile:7
    %12 = "tile.floordiv"(%10, %11) : (tensor<2xindex, #layout0>, tensor<2xindex, #layout0>) -> tensor<2xindex, #layout0>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %13 = "tile.mul"(%12, %11) : (tensor<2xindex, #layout0>, tensor<2xindex, #layout0>) -> tensor<2xindex, #layout0>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %14 = "tile.reshape"(%13) {shape = [2 : i64, 1 : i64]} : (tensor<2xindex, #layout0>) -> tensor<2x1xindex, #layout0>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %15 = "tile.broadcast"(%14) {shape = [2 : i64, 256 : i64]} : (tensor<2x1xindex, #layout0>) -> tensor<2x256xindex, #layout1>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %16 = "tile.arange"() {extent = 256 : i64} : () -> tensor<256xindex, #layout2>  // /work/wt/softmax/samples/softmax/rows.tile:8
    %at = "tile.reshape"(%16) {shape = [1 : i64, 256 : i64]} : (tensor<256xindex, #layout2>) -> tensor<1x256xindex, #layout2>  // /work/wt/softmax/samples/softmax/rows.tile:8
    %17 = "tile.broadcast"(%at) {shape = [2 : i64, 256 : i64]} : (tensor<1x256xindex, #layout2>) -> tensor<2x256xindex, #layout1>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %i = "tile.add"(%15, %17) : (tensor<2x256xindex, #layout1>, tensor<2x256xindex, #layout1>) -> tensor<2x256xindex, #layout1>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %18 = "tile.constant"() {dtype = f16, value = 0xFFF0000000000000 : f64} : () -> f16  // samples/softmax.tile:128
    %19 = "tile.broadcast"(%cols) {shape = [2 : i64, 256 : i64]} : (index) -> tensor<2x256xindex, #layout1>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %own = "tile.lt"(%17, %19) : (tensor<2x256xindex, #layout1>, tensor<2x256xindex, #layout1>) -> tensor<2x256xi1, #layout1>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %20 = "tile.broadcast"(%rows) {shape = [2 : i64]} : (index) -> tensor<2xindex, #layout0>  // samples/softmax.tile:29
    %21 = "tile.lt"(%r, %20) : (tensor<2xindex, #layout0>, tensor<2xindex, #layout0>) -> tensor<2xi1, #layout0>  // samples/softmax.tile:29
    %22 = "tile.reshape"(%21) {shape = [2 : i64, 1 : i64]} : (tensor<2xi1, #layout0>) -> tensor<2x1xi1, #layout0>  // samples/softmax.tile:29
    %23 = "tile.broadcast"(%22) {shape = [2 : i64, 256 : i64]} : (tensor<2x1xi1, #layout0>) -> tensor<2x256xi1, #layout1>  // samples/softmax.tile:29
    %24 = "tile.and"(%own, %23) : (tensor<2x256xi1, #layout1>, tensor<2x256xi1, #layout1>) -> tensor<2x256xi1, #layout1>  // samples/softmax.tile:29
    %25 = "tile.broadcast"(%18) {shape = [2 : i64, 256 : i64]} : (f16) -> tensor<2x256xf16, #layout1>  // samples/softmax.tile:128
    %26 = "tile.load"(%x, %i, %24, %25) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<2x256xindex, #layout1>, tensor<2x256xi1, #layout1>, tensor<2x256xf16, #layout1>) -> tensor<2x256xf16, #layout1>  // samples/softmax.tile:128
    %27 = "tile.cast"(%26) {rounding = unit, saturate = false, to = f32} : (tensor<2x256xf16, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:128
    %m = "tile.broadcast"(%3) {shape = [2 : i64, 256 : i64]} : (f32) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:32
    %m_28 = "tile.maximum"(%m, %27) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:36
    %29 = "tile.constant"() {dtype = index, value = 256 : i64} : () -> index  // /work/wt/softmax/samples/softmax/rows.tile:8
    %30 = "tile.broadcast"(%29) {shape = [1 : i64, 256 : i64]} : (index) -> tensor<1x256xindex, #layout2>  // /work/wt/softmax/samples/softmax/rows.tile:8
    %at_31 = "tile.add"(%30, %at) : (tensor<1x256xindex, #layout2>, tensor<1x256xindex, #layout2>) -> tensor<1x256xindex, #layout2>  // /work/wt/softmax/samples/softmax/rows.tile:8
    %32 = "tile.broadcast"(%at_31) {shape = [2 : i64, 256 : i64]} : (tensor<1x256xindex, #layout2>) -> tensor<2x256xindex, #layout1>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %i_33 = "tile.add"(%15, %32) : (tensor<2x256xindex, #layout1>, tensor<2x256xindex, #layout1>) -> tensor<2x256xindex, #layout1>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %own_34 = "tile.lt"(%32, %19) : (tensor<2x256xindex, #layout1>, tensor<2x256xindex, #layout1>) -> tensor<2x256xi1, #layout1>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %35 = "tile.and"(%own_34, %23) : (tensor<2x256xi1, #layout1>, tensor<2x256xi1, #layout1>) -> tensor<2x256xi1, #layout1>  // samples/softmax.tile:29
    %36 = "tile.load"(%x, %i_33, %35, %25) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<2x256xindex, #layout1>, tensor<2x256xi1, #layout1>, tensor<2x256xf16, #layout1>) -> tensor<2x256xf16, #layout1>  // samples/softmax.tile:128
    %37 = "tile.cast"(%36) {rounding = unit, saturate = false, to = f32} : (tensor<2x256xf16, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:128
    %m_38 = "tile.maximum"(%m_28, %37) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:36
    %39 = "tile.constant"() {dtype = index, value = 512 : i64} : () -> index  // /work/wt/softmax/samples/softmax/rows.tile:8
    %40 = "tile.broadcast"(%39) {shape = [1 : i64, 256 : i64]} : (index) -> tensor<1x256xindex, #layout2>  // /work/wt/softmax/samples/softmax/rows.tile:8
    %at_41 = "tile.add"(%40, %at) : (tensor<1x256xindex, #layout2>, tensor<1x256xindex, #layout2>) -> tensor<1x256xindex, #layout2>  // /work/wt/softmax/samples/softmax/rows.tile:8
    %42 = "tile.broadcast"(%at_41) {shape = [2 : i64, 256 : i64]} : (tensor<1x256xindex, #layout2>) -> tensor<2x256xindex, #layout1>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %i_43 = "tile.add"(%15, %42) : (tensor<2x256xindex, #layout1>, tensor<2x256xindex, #layout1>) -> tensor<2x256xindex, #layout1>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %own_44 = "tile.lt"(%42, %19) : (tensor<2x256xindex, #layout1>, tensor<2x256xindex, #layout1>) -> tensor<2x256xi1, #layout1>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %45 = "tile.and"(%own_44, %23) : (tensor<2x256xi1, #layout1>, tensor<2x256xi1, #layout1>) -> tensor<2x256xi1, #layout1>  // samples/softmax.tile:29
    %46 = "tile.load"(%x, %i_43, %45, %25) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<2x256xindex, #layout1>, tensor<2x256xi1, #layout1>, tensor<2x256xf16, #layout1>) -> tensor<2x256xf16, #layout1>  // samples/softmax.tile:128
    %47 = "tile.cast"(%46) {rounding = unit, saturate = false, to = f32} : (tensor<2x256xf16, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:128
    %m_48 = "tile.maximum"(%m_38, %47) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:36
    %49 = "tile.constant"() {dtype = index, value = 768 : i64} : () -> index  // /work/wt/softmax/samples/softmax/rows.tile:8
    %50 = "tile.broadcast"(%49) {shape = [1 : i64, 256 : i64]} : (index) -> tensor<1x256xindex, #layout2>  // /work/wt/softmax/samples/softmax/rows.tile:8
    %at_51 = "tile.add"(%50, %at) : (tensor<1x256xindex, #layout2>, tensor<1x256xindex, #layout2>) -> tensor<1x256xindex, #layout2>  // /work/wt/softmax/samples/softmax/rows.tile:8
    %52 = "tile.broadcast"(%at_51) {shape = [2 : i64, 256 : i64]} : (tensor<1x256xindex, #layout2>) -> tensor<2x256xindex, #layout1>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %i_53 = "tile.add"(%15, %52) : (tensor<2x256xindex, #layout1>, tensor<2x256xindex, #layout1>) -> tensor<2x256xindex, #layout1>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %own_54 = "tile.lt"(%52, %19) : (tensor<2x256xindex, #layout1>, tensor<2x256xindex, #layout1>) -> tensor<2x256xi1, #layout1>  // /work/wt/softmax/samples/softmax/rows.tile:9
    %55 = "tile.and"(%own_54, %23) : (tensor<2x256xi1, #layout1>, tensor<2x256xi1, #layout1>) -> tensor<2x256xi1, #layout1>  // samples/softmax.tile:29
    %56 = "tile.load"(%x, %i_53, %55, %25) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "other"]} : (memref<?x?xf16, 1>, tensor<2x256xindex, #layout1>, tensor<2x256xi1, #layout1>, tensor<2x256xf16, #layout1>) -> tensor<2x256xf16, #layout1>  // samples/softmax.tile:128
    %57 = "tile.cast"(%56) {rounding = unit, saturate = false, to = f32} : (tensor<2x256xf16, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:128
    %m_58 = "tile.maximum"(%m_48, %57) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:36
    %59 = "tile.reshape"(%m_58) {shape = [2 : i64, 32 : i64, 8 : i64]} : (tensor<2x256xf32, #layout1>) -> tensor<2x32x8xf32, #layout1>  // samples/softmax.tile:37
    %top = "tile.reduce"(%59) ({
    ^bb0(%60: f32, %61: f32):
      %62 = "tile.maximum"(%60, %61) : (f32, f32) -> f32  // samples/softmax.tile:37
      "tile.yield"(%62) : (f32) -> ()  // samples/softmax.tile:37
    }) {axis = 2 : i64} : (tensor<2x32x8xf32, #layout1>) -> tensor<2x32xf32, #layout3>  // samples/softmax.tile:37
    %63 = "tile.reduce"(%top) ({
    ^bb0(%64: f32, %65: f32):
      %66 = "tile.maximum"(%64, %65) : (f32, f32) -> f32  // samples/softmax.tile:42
      "tile.yield"(%66) : (f32) -> ()  // samples/softmax.tile:42
    }) {axis = 1 : i64} : (tensor<2x32xf32, #layout3>) -> tensor<2xf32, #layout0>  // samples/softmax.tile:42
    %top_67 = "tile.reshape"(%63) {shape = [2 : i64, 1 : i64]} : (tensor<2xf32, #layout0>) -> tensor<2x1xf32, #layout0>  // samples/softmax.tile:42
    %68 = "tile.constant"() {dtype = f32, value = 0x0000000000000000 : f64} : () -> f32  // samples/softmax.tile:43
    %69 = "tile.broadcast"(%top_67) {shape = [2 : i64, 256 : i64]} : (tensor<2x1xf32, #layout0>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:45
    %70 = "tile.sub"(%27, %69) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:45
    %71 = "tile.constant"() {dtype = f32, value = 0x3FF71547652B82FE : f64} : () -> f32  // samples/softmax.tile:9
    %72 = "tile.broadcast"(%71) {shape = [2 : i64, 256 : i64]} : (f32) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:9
    %73 = "tile.mul"(%70, %72) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:9
    %74 = "tile.ex2.approx.ftz"(%73) : (tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:9
    %z = "tile.broadcast"(%68) {shape = [2 : i64, 256 : i64]} : (f32) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:43
    %z_75 = "tile.add"(%z, %74) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:45
    %76 = "tile.sub"(%37, %69) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:45
    %77 = "tile.mul"(%76, %72) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:9
    %78 = "tile.ex2.approx.ftz"(%77) : (tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:9
    %z_79 = "tile.add"(%z_75, %78) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:45
    %80 = "tile.sub"(%47, %69) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:45
    %81 = "tile.mul"(%80, %72) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:9
    %82 = "tile.ex2.approx.ftz"(%81) : (tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:9
    %z_83 = "tile.add"(%z_79, %82) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:45
    %84 = "tile.sub"(%57, %69) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:45
    %85 = "tile.mul"(%84, %72) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:9
    %86 = "tile.ex2.approx.ftz"(%85) : (tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:9
    %z_87 = "tile.add"(%z_83, %86) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:45
    %88 = "tile.reshape"(%z_87) {shape = [2 : i64, 32 : i64, 8 : i64]} : (tensor<2x256xf32, #layout1>) -> tensor<2x32x8xf32, #layout1>  // samples/softmax.tile:46
    %total = "tile.reduce"(%88) ({
    ^bb0(%89: f32, %90: f32):
      %91 = "tile.add"(%89, %90) : (f32, f32) -> f32  // samples/softmax.tile:46
      "tile.yield"(%91) : (f32) -> ()  // samples/softmax.tile:46
    }) {axis = 2 : i64} : (tensor<2x32x8xf32, #layout1>) -> tensor<2x32xf32, #layout3>  // samples/softmax.tile:46
    %92 = "tile.reduce"(%total) ({
    ^bb0(%93: f32, %94: f32):
      %95 = "tile.add"(%93, %94) : (f32, f32) -> f32  // samples/softmax.tile:49
      "tile.yield"(%95) : (f32) -> ()  // samples/softmax.tile:49
    }) {axis = 1 : i64} : (tensor<2x32xf32, #layout3>) -> tensor<2xf32, #layout0>  // samples/softmax.tile:49
    %96 = "tile.reshape"(%92) {shape = [2 : i64, 1 : i64]} : (tensor<2xf32, #layout0>) -> tensor<2x1xf32, #layout0>  // samples/softmax.tile:49
    %97 = "tile.constant"() {dtype = f32, value = 0x3FF0000000000000 : f64} : () -> f32  // samples/softmax.tile:15
    %98 = "tile.broadcast"(%97) {shape = [2 : i64, 1 : i64]} : (f32) -> tensor<2x1xf32, #layout0>  // samples/softmax.tile:15
    %total_99 = "tile.div"(%98, %96) : (tensor<2x1xf32, #layout0>, tensor<2x1xf32, #layout0>) -> tensor<2x1xf32, #layout0>  // samples/softmax.tile:15
    %100 = "tile.broadcast"(%total_99) {shape = [2 : i64, 256 : i64]} : (tensor<2x1xf32, #layout0>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:21
    %101 = "tile.mul"(%74, %100) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:21
    %102 = "tile.cast"(%101) {rounding = unit, saturate = false, to = f16} : (tensor<2x256xf32, #layout1>) -> tensor<2x256xf16, #layout1>  // samples/softmax.tile:130
    "tile.store"(%y, %i, %24, %102) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<2x256xindex, #layout1>, tensor<2x256xi1, #layout1>, tensor<2x256xf16, #layout1>) -> ()  // samples/softmax.tile:130
    %103 = "tile.mul"(%78, %100) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:21
    %104 = "tile.cast"(%103) {rounding = unit, saturate = false, to = f16} : (tensor<2x256xf32, #layout1>) -> tensor<2x256xf16, #layout1>  // samples/softmax.tile:130
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:130
    "tile.store"(%y, %i_33, %35, %104) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<2x256xindex, #layout1>, tensor<2x256xi1, #layout1>, tensor<2x256xf16, #layout1>) -> ()  // samples/softmax.tile:130
    %105 = "tile.mul"(%82, %100) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:21
    %106 = "tile.cast"(%105) {rounding = unit, saturate = false, to = f16} : (tensor<2x256xf32, #layout1>) -> tensor<2x256xf16, #layout1>  // samples/softmax.tile:130
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:130
    "tile.store"(%y, %i_43, %45, %106) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<2x256xindex, #layout1>, tensor<2x256xi1, #layout1>, tensor<2x256xf16, #layout1>) -> ()  // samples/softmax.tile:130
    %107 = "tile.mul"(%86, %100) : (tensor<2x256xf32, #layout1>, tensor<2x256xf32, #layout1>) -> tensor<2x256xf32, #layout1>  // samples/softmax.tile:21
    %108 = "tile.cast"(%107) {rounding = unit, saturate = false, to = f16} : (tensor<2x256xf32, #layout1>) -> tensor<2x256xf16, #layout1>  // samples/softmax.tile:130
    "tile.barrier"() {scope = "block"} : () -> ()  // samples/softmax.tile:130
    "tile.store"(%y, %i_53, %55, %108) {cache = unit, evict = unit, has = ["memory", "offset", "mask", "value"]} : (memref<?x?xf16, 1>, tensor<2x256xindex, #layout1>, tensor<2x256xi1, #layout1>, tensor<2x256xf16, #layout1>) -> ()  // samples/softmax.tile:130
  }) {index_bits = 32 : i64, name = "softmax_registers", shared_bytes = 0 : i64, warps = 2 : i64} : () -> ()
}) : () -> ()
