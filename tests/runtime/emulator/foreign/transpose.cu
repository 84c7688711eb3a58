// 32x32 tiles with 32x8 threads; `padded` avoids the bank conflicts that `plain` has.
template <int pad> __device__ void body(const float* in, float* out, int width, int height) {
  __shared__ float tile[32][32 + pad];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
extern "C" __global__ void plain(const float* in, float* out, int w, int h) { body<0>(in, out, w, h); }
extern "C" __global__ void padded(const float* in, float* out, int w, int h) { body<1>(in, out, w, h); }
