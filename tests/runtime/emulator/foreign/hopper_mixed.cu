// y (f32) = scale * A (s8, rows along k) B (bf16, rows across k): 64 x 128 of a block, 64 of k in a slot. One warp group
// turns its bytes into bf16 in registers, which are the left operand of its products; B lies across k, in two panels.
#include <cuda.h>
#include <stdint.h>

constexpr int ROWS = 64, COLUMNS = 128, DEPTH = 64, SLOTS = 2, PANEL = DEPTH * 128;

struct alignas(1024) Slot {
  unsigned char b[2][PANEL];
  unsigned char a[ROWS][DEPTH];  // swizzled by 64 bytes
};

__device__ uint32_t shared_of(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ void wait(const uint64_t* bar, uint32_t parity) {
  uint32_t done = 0;
  while (!done)
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, 1000;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done) : "r"(shared_of(bar)), "r"(parity) : "memory");
}

__device__ void load(void* to, const CUtensorMap* map, int x, int y, const uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          shared_of(to)), "l"(map), "r"(x), "r"(y), "r"(shared_of(bar)) : "memory");
}

// Rows of 128 bytes across k: 8 of k after another, and from one panel to the next.
__device__ uint64_t describe(const void* tile) {
  return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)(PANEL >> 4) << 16 | (shared_of(tile) & 0x3ffff) >> 4;
}

#define E4(i) "+f"(s[i]), "+f"(s[i + 1]), "+f"(s[i + 2]), "+f"(s[i + 3])
#define E16(i) E4(i), E4(i + 4), E4(i + 8), E4(i + 12)

__device__ void multiply(float (&s)[64], const uint32_t (&a)[4], uint64_t b, int adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}"
      : E16(0), E16(16), E16(32), E16(48)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}

// Two neighbours along k of a row, as bf16.
__device__ uint32_t pair(const unsigned char (&a)[ROWS][DEPTH], int row, int k) {
  int at = (k / 16 ^ row / 2 % 4) * 16 + k % 16;
  float low = (float)(signed char)a[row][at], high = (float)(signed char)a[row][at + 1];
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

extern "C" __global__ void __launch_bounds__(128)
    hopper_mixed(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, const float* scale,
                 float* y, int n, int k) {
  __shared__ Slot slots[SLOTS];
  __shared__ uint64_t full[SLOTS];
  int t = threadIdx.x, m0 = blockIdx.y * ROWS, n0 = blockIdx.x * COLUMNS;
  auto ask = [&](int number) {
    int slot = number % SLOTS;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_of(&full[slot])),
                 "n"(ROWS * DEPTH + 2 * PANEL) : "memory");
    load(slots[slot].a, &a, number * DEPTH, m0, &full[slot]);
    for (int i = 0; i < 2; i++) load(slots[slot].b[i], &b, n0 + 64 * i, number * DEPTH, &full[slot]);
  };
  if (t == 0) {
    for (int i = 0; i < SLOTS; i++)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_of(&full[i])) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int i = 0; i < SLOTS && i * DEPTH < k; i++) ask(i);
  }
  __syncthreads();
  int row = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
  float s[64];
#pragma unroll 1
  for (int number = 0; number * DEPTH < k; number++) {
    int slot = number % SLOTS;
    wait(&full[slot], number / SLOTS & 1);
    uint32_t left[4][4];
    for (int i = 0; i < 4; i++)
      for (int j = 0; j < 4; j++) left[i][j] = pair(slots[slot].a, row + j % 2 * 8, 16 * i + j / 2 * 8 + column);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    uint64_t right = describe(slots[slot].b);
#pragma unroll
    for (int i = 0; i < 4; i++) multiply(s, left[i], right + i * (2048 >> 4), number || i);
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    __syncthreads();
    if (t == 0 && (number + SLOTS) * DEPTH < k) ask(number + SLOTS);
  }
  float up = scale[m0 + row], down = scale[m0 + row + 8];
  for (int i = 0; i < 16; i++) {
    float* to = y + (size_t)(m0 + row) * n + n0 + 8 * i + column;
    *(float2*)to = make_float2(up * s[4 * i], up * s[4 * i + 1]);
    *(float2*)(to + 8 * n) = make_float2(down * s[4 * i + 2], down * s[4 * i + 3]);
  }
}
