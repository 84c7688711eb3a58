#include <cuda_fp16.h>
#include <stdint.h>
// C (f32) = A (f16, row) B (f16, column): 64x64 block, 4 warps, ldmatrix and mma.m16n8k16, cp.async double buffering.
__device__ uint32_t shared_of(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_of(to)), "l"(from));
}
extern "C" __global__ void gemm(const __half* a, const __half* b, float* c, int n, int k) {
  __shared__ alignas(16) __half ta[2][64][40], tb[2][64][40];
  int t = threadIdx.x, warp = t >> 5, lane = t & 31;
  int m0 = blockIdx.y * 64, n0 = blockIdx.x * 64;
  float acc[4][2][4] = {};
  auto load = [&](int stage, int k0) {
    for (int i = t; i < 256; i += 128) {
      int row = i >> 2, part = (i & 3) * 8;
      copy16(&ta[stage][row][part], &a[(size_t)(m0 + row) * k + k0 + part]);
      copy16(&tb[stage][row][part], &b[(size_t)(n0 + row) * k + k0 + part]);
    }
    asm volatile("cp.async.commit_group;");
  };
  load(0, 0);
  int steps = k / 32;
  for (int s = 0; s < steps; s++) {
    if (s + 1 < steps) load((s + 1) & 1, (s + 1) * 32); else asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    for (int kk = 0; kk < 32; kk += 16) {
      uint32_t fb[4];
      int brow = warp * 16 + (lane & 7) + ((lane >> 4) << 3), bcol = kk + ((lane >> 3) & 1) * 8;
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(fb[0]), "=r"(fb[1]), "=r"(fb[2]), "=r"(fb[3]) : "r"(shared_of(&tb[s & 1][brow][bcol])));
      for (int i = 0; i < 4; i++) {
        uint32_t fa[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                     : "r"(shared_of(&ta[s & 1][i * 16 + (lane & 15)][kk + (lane >> 4) * 8])));
        for (int j = 0; j < 2; j++)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                       : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3])
                       : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[2 * j]), "r"(fb[2 * j + 1]));
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 2; j++) {
      float* out = &c[(size_t)(m0 + i * 16 + (lane >> 2)) * n + n0 + warp * 16 + j * 8 + (lane & 3) * 2];
      *(float2*)out = make_float2(acc[i][j][0], acc[i][j][1]);
      *(float2*)(out + 8 * n) = make_float2(acc[i][j][2], acc[i][j][3]);
    }
}
