// y = x.T of 32-bit words, 32 x 32 boxes (TMA) in two buffers each way, with libcu++: `cuda::barrier` counts the bytes,
// and the next box comes while this one is turned.
#include <cuda.h>
#include <cuda/barrier>
#include <cuda/ptx>
#include <cuda/std/utility>
#pragma nv_diag_suppress static_var_with_dynamic_init
namespace ptx = cuda::ptx;
using Barrier = cuda::barrier<cuda::thread_scope_block>;
constexpr int SIDE = 32, BUFFERS = 2;

extern "C" __global__ void __launch_bounds__(128)
    hopper_transpose(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to, int columns) {
  __shared__ alignas(1024) int in[BUFFERS][SIDE][SIDE];
  __shared__ alignas(1024) int out[BUFFERS][SIDE][SIDE];
  __shared__ Barrier bar[BUFFERS];
  int tiles = (columns + SIDE - 1) / SIDE, y = blockIdx.x * SIDE;
  if (threadIdx.x == 0) {
    for (int i = 0; i < BUFFERS; i++) init(&bar[i], blockDim.x);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  __syncthreads();
  Barrier::arrival_token token[BUFFERS];
  auto ask = [&](int tile) {
    int at = tile % BUFFERS;
    if (threadIdx.x == 0) {
      int corner[] = {tile * SIDE, y};
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, in[at], &from, corner,
                                cuda::device::barrier_native_handle(bar[at]));
      token[at] = cuda::device::barrier_arrive_tx(bar[at], 1, sizeof(in[at]));
    } else {
      token[at] = bar[at].arrive();
    }
  };
  ask(0);
#pragma unroll 1
  for (int tile = 0; tile < tiles; tile++) {
    int at = tile % BUFFERS;
    if (tile + 1 < tiles) ask(tile + 1);
    bar[at].wait(cuda::std::move(token[at]));
    if (threadIdx.x == 0) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<BUFFERS - 1>());
    __syncthreads();  // the box that lay in this buffer has gone out
    // Four neighbours at a time, where a swizzle of 128 bytes has put them.
    for (int i = threadIdx.x; i < SIDE * SIDE; i += blockDim.x) {
      int row = i / SIDE, column = i % SIDE;
      out[at][row][column ^ row % 8 * 4] = in[at][column][row ^ column % 8 * 4];
    }
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
      int corner[] = {y, tile * SIDE};
      ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &to, corner, out[at]);
      ptx::cp_async_bulk_commit_group();
    }
  }
  if (threadIdx.x == 0) ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
}
