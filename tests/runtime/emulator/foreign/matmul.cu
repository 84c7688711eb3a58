// C = A B with 16x16 tiles in shared memory; any sizes.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float ta[16][16], tb[16][17];
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0.f;
  for (int start = 0; start < k; start += 16) {
    int ka = start + threadIdx.x, kb = start + threadIdx.y;
    ta[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0.f;
    tb[threadIdx.y][threadIdx.x] = kb < k && column < n ? b[kb * n + column] : 0.f;
    __syncthreads();
    for (int i = 0; i < 16; i++) sum += ta[threadIdx.y][i] * tb[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}
