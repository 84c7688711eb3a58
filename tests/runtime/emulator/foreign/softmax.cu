#include <cuda_fp16.h>
// Row-wise softmax of f16, one block of 256 threads a row.
__device__ float block_max(float v, float* part) {
  for (int d = 16; d; d >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  v = part[threadIdx.x & 7];
  for (int d = 4; d; d >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
  __syncthreads();
  return v;
}
__device__ float block_sum(float v, float* part) {
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  v = part[threadIdx.x & 7];
  for (int d = 4; d; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  __syncthreads();
  return v;
}
extern "C" __global__ void softmax(const __half* __restrict__ x, __half* __restrict__ y, int columns) {
  __shared__ float part[8];
  const __half* row = x + (size_t)blockIdx.x * columns;
  __half* out = y + (size_t)blockIdx.x * columns;
  float top = -INFINITY;
  for (int c = threadIdx.x; c < columns; c += 256) top = fmaxf(top, __half2float(row[c]));
  top = block_max(top, part);
  float sum = 0.f;
  for (int c = threadIdx.x; c < columns; c += 256) sum += __expf(__half2float(row[c]) - top);
  sum = block_sum(sum, part);
  float scale = 1.f / sum;
  for (int c = threadIdx.x; c < columns; c += 256) out[c] = __float2half(__expf(__half2float(row[c]) - top) * scale);
}
