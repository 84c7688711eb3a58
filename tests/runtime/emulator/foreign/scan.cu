// Inclusive scan of each block's 256 elements: shuffles in warps, then over the warps' totals.
extern "C" __global__ void scan(const int* in, int* out, int n) {
  __shared__ int totals[8];
  int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int v = i < n ? in[i] : 0;
  for (int d = 1; d < 32; d <<= 1) { int u = __shfl_up_sync(0xffffffffu, v, d); if (lane >= d) v += u; }
  if (lane == 31) totals[warp] = v;
  __syncthreads();
  if (warp == 0) {
    int t = lane < 8 ? totals[lane] : 0;
    for (int d = 1; d < 8; d <<= 1) { int u = __shfl_up_sync(0xffffffffu, t, d); if (lane >= d) t += u; }
    if (lane < 8) totals[lane] = t;
  }
  __syncthreads();
  if (warp) v += totals[warp - 1];
  if (i < n) out[i] = v;
}
