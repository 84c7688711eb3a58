// y[i] = x[i] + x[n - 1 - i] with copies in bulk of plain ranges of memory: both ends come with the library's barrier,
// and the result goes out as one range. n: words, a multiple of 4 for each block's share.
#include <cuda.h>
#include <cuda/barrier>
#include <cuda/ptx>
#include <cuda/std/utility>
#pragma nv_diag_suppress static_var_with_dynamic_init
namespace ptx = cuda::ptx;
constexpr int SHARE = 256;

extern "C" __global__ void __launch_bounds__(128) hopper_bulk(const int* x, int* y, int n) {
  __shared__ alignas(16) int front[SHARE + 4], back[SHARE];  // the first one begins at 16 bytes, to be turned there
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  int first = blockIdx.x * SHARE, count = min(SHARE, n - first);
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::device::memcpy_async_tx(front + 4, x + first, cuda::aligned_size_t<16>(count * sizeof(int)), bar);
    cuda::device::memcpy_async_tx(back, x + n - first - count, cuda::aligned_size_t<16>(count * sizeof(int)), bar);
    cuda::device::barrier_expect_tx(bar, 2 * count * sizeof(int));
  }
  bar.wait(bar.arrive());
  for (int i = threadIdx.x; i < count; i += blockDim.x) front[4 + i] += back[count - 1 - i];
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y + first, front + 4, count * sizeof(int));
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}
