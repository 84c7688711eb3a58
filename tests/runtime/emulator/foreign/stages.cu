// Pipelines of the library: mbarriers that asynchronous copies arrive at, for one group and for two roles.
#include <cooperative_groups.h>
#include <cuda/pipeline>

namespace cg = cooperative_groups;
constexpr int STAGES = 2;
using State = cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES>;

extern "C" __global__ void together(const int* x, int* y, int n) {
    __shared__ alignas(16) int stage[STAGES][64];
    __shared__ State state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int sum = 0;
    for (int done = 0, asked = 0; done < n; done++) {
        for (; asked < n && asked < done + STAGES; asked++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, stage[asked % STAGES], x + 64 * asked, sizeof(int) * 64, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += stage[done % STAGES][threadIdx.x ^ 33];
        pipe.consumer_release();
    }
    y[threadIdx.x] = sum;
}

extern "C" __global__ void apart(const int* x, int* y, int n) {
    __shared__ alignas(16) int stage[STAGES][32];
    __shared__ State state;
    bool fills = threadIdx.x < 32;
    auto role = fills ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipe = cuda::make_pipeline(cg::this_thread_block(), &state, role);
    int sum = 0, lane = threadIdx.x & 31;
    for (int i = 0; i < n; i++) {
        if (fills) {
            pipe.producer_acquire();
            cuda::memcpy_async(&stage[i % STAGES][lane], x + 32 * i + lane, cuda::aligned_size_t<4>(4), pipe);
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            sum += stage[i % STAGES][lane ^ 5];
            pipe.consumer_release();
        }
    }
    if (!fills) y[lane] = sum;
}
