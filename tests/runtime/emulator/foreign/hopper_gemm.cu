// D (f16) = A (f16, rows along k) B.T (f16, rows along k), 128x128 of a block at a time, 64 of k in a slot.
// Warp group 0 fills slots with boxes (TMA), two others multiply 64 rows each (wgmma) and store boxes out of shared
// memory. Blocks take tiles in turn, so that boxes go out while the next tile is multiplied.
#include <cuda.h>
#include <cuda_fp16.h>
#include <stdint.h>

constexpr int ROWS = 128, COLUMNS = 128, DEPTH = 64, SLOTS = 3, BOX = 64 * 128;

struct alignas(1024) Storage {
  unsigned char a[SLOTS][ROWS * 128], b[SLOTS][COLUMNS * 128];
  unsigned char d[2][2][BOX];  // of each group 64 rows, in two panels of 64 columns
  uint64_t full[SLOTS], empty[SLOTS];
};

__device__ uint32_t shared_of(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ void wait(const uint64_t* bar, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\n"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
      "@done bra.uni OVER;\nbra.uni AGAIN;\nOVER:\n}" ::"r"(shared_of(bar)), "r"(parity) : "memory");
}

// As kernels with clusters do: the mbarrier of block 0 of the cluster, which is this one.
__device__ void arrive(const uint64_t* bar) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, 0;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(shared_of(bar)) : "memory");
}

__device__ void expect(const uint64_t* bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_of(bar)), "r"(bytes) : "memory");
}

__device__ void load(void* to, const CUtensorMap* map, int x, int y, const uint64_t* bar, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_of(to)), "l"(map), "r"(x), "r"(y), "r"(shared_of(bar)),
      "l"(policy) : "memory");
}

__device__ void store(const CUtensorMap* map, int x, int y, const void* from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y),
               "r"(shared_of(from)) : "memory");
}

__device__ bool elected() {
  uint32_t one;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(one));
  return one;
}

// Rows of 128 bytes, swizzled, in groups of eight.
__device__ uint64_t describe(const void* tile) {
  return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 16 | (shared_of(tile) & 0x3ffff) >> 4;
}

#define E4(i) "+f"(s[i]), "+f"(s[i + 1]), "+f"(s[i + 2]), "+f"(s[i + 3])
#define E16(i) E4(i), E4(i + 4), E4(i + 8), E4(i + 12)

__device__ void multiply(float (&s)[64], uint64_t a, uint64_t b, int adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, 0, 0;\n}"
      : E16(0), E16(16), E16(32), E16(48) : "l"(a), "l"(b), "r"(adds));
}

__device__ void produce(Storage& shared, const CUtensorMap* a, const CUtensorMap* b, int tiles, int across, int k) {
  uint64_t keep;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(keep));
  int slot = 0, turn = 0;
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    int m = tile / across * ROWS, n = tile % across * COLUMNS;
#pragma unroll 1
    for (int at = 0; at < k; at += DEPTH) {
      wait(&shared.empty[slot], turn ^ 1);
      expect(&shared.full[slot], (ROWS + COLUMNS) * 128);
      load(shared.a[slot], a, at, m, &shared.full[slot], keep);
      load(shared.b[slot], b, at, n, &shared.full[slot], keep);
      if (++slot == SLOTS) slot = 0, turn ^= 1;
    }
  }
}

__device__ void consume(Storage& shared, const CUtensorMap* d, int tiles, int across, int k) {
  int group = threadIdx.x / 128 - 1, lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  int slot = 0, turn = 0;
  float s[64];
  bool stores = warp == 0 && elected();
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    int before = -1;  // the slot of products that may still be in flight
#pragma unroll 1
    for (int at = 0; at < k; at += DEPTH) {
      wait(&shared.full[slot], turn);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      uint64_t a = describe(shared.a[slot] + group * 64 * 128), b = describe(shared.b[slot]);
#pragma unroll
      for (int i = 0; i < 4; i++) multiply(s, a + 2 * i, b + 2 * i, at || i);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (before >= 0 && lane == 0) arrive(&shared.empty[before]);
      before = slot;
      if (++slot == SLOTS) slot = 0, turn ^= 1;
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (before >= 0 && lane == 0) arrive(&shared.empty[before]);
    if (stores) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
    uint32_t row = warp * 16 + lane % 16;
#pragma unroll
    for (int i = 0; i < 8; i++) {  // 16 columns
      uint32_t piece = i % 4 * 2 + lane / 16, h[4];
#pragma unroll
      for (int j = 0; j < 4; j++) {
        __half2 both = __floats2half2_rn(s[8 * i + 2 * j], s[8 * i + 2 * j + 1]);
        h[j] = *(uint32_t*)&both;
      }
      uint32_t to = shared_of(shared.d[group][i / 4]) + row * 128 + (piece ^ row % 8) * 16;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(h[0]), "r"(h[1]),
                   "r"(h[2]), "r"(h[3]) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
    if (stores) {
      int x = tile % across * COLUMNS, y = tile / across * ROWS + group * 64;
      store(d, x, y, shared.d[group][0]);
      store(d, x + 64, y, shared.d[group][1]);
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
  }
  if (stores) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

extern "C" __global__ void __cluster_dims__(1, 1, 1) __launch_bounds__(384, 1)
    hopper_gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                const __grid_constant__ CUtensorMap d, int m, int n, int k) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Storage& shared = *reinterpret_cast<Storage*>(memory);
  int across = (n + COLUMNS - 1) / COLUMNS, tiles = (m + ROWS - 1) / ROWS * across;
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&a) : "memory");
    asm volatile("prefetch.tensormap [%0];" ::"l"(&b) : "memory");
    for (int i = 0; i < SLOTS; i++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_of(&shared.full[i])) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 8;" ::"r"(shared_of(&shared.empty[i])) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x < 32 && elected()) produce(shared, &a, &b, tiles, across, k);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    consume(shared, &d, tiles, across, k);
  }
}
