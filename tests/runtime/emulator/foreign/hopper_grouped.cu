// y = 2 * x in groups of rows, each an array of its own: group g has rows[g] rows of 64 f32, from row at[g] of x and y
// on. A block makes maps of its groups, one after another, from those that are parameters: their addresses and extents
// are replaced in shared memory and copied to made[block]. What is doubled goes out with the other map; it is added to
// what is there (`adds`) or takes its place.
#include <cuda.h>
#include <stdint.h>

constexpr int ROWS = 32, COLUMNS = 64;

__device__ uint32_t shared_of(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ void replace(uint32_t map, const void* array, int rows) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(map), "l"(array)
               : "memory");
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(map), "r"(rows)
               : "memory");
}

__device__ void publish(CUtensorMap* to, uint32_t map) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
      " [%0], [%1], 128;" ::"l"(to), "r"(map) : "memory");
}

__device__ void load(void* to, const CUtensorMap* map, int row, const uint64_t* bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_of(bar)), "r"(bytes) : "memory");
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {0, %2}], [%3];" ::"r"(shared_of(to)), "l"(map), "r"(row), "r"(shared_of(bar)) : "memory");
}

__device__ void wait(const uint64_t* bar, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN;\n}" ::"r"(shared_of(bar)),
      "r"(parity) : "memory");
}

__device__ void store(const CUtensorMap* map, int row, const void* from, bool adds) {
  if (adds)
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {0, %1}], [%2];" ::"l"(map),
                 "r"(row), "r"(shared_of(from)) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {0, %1}], [%2];" ::"l"(map), "r"(row),
                 "r"(shared_of(from)) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ void acquire(const CUtensorMap* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
    hopper_grouped(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to, const float* x,
                   float* y, const int* at, const int* rows, int groups, CUtensorMap* made, int adds) {
  __shared__ alignas(128) float box[ROWS * COLUMNS];
  __shared__ alignas(128) CUtensorMap maps[2];
  __shared__ uint64_t bar;
  const CUtensorMap *in = made + 2 * blockIdx.x, *out = in + 1;
  if (threadIdx.x == 0) {
    maps[0] = from;
    maps[1] = to;
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_of(&bar)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  int phase = 0;
  for (int group = blockIdx.x; group < groups; group += gridDim.x) {
    if (threadIdx.x < 32) {
      if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        replace(shared_of(&maps[0]), x + at[group] * COLUMNS, rows[group]);
        replace(shared_of(&maps[1]), y + at[group] * COLUMNS, rows[group]);
      }
      __syncwarp();
      publish(const_cast<CUtensorMap*>(in), shared_of(&maps[0]));
      publish(const_cast<CUtensorMap*>(out), shared_of(&maps[1]));
      acquire(in);
      acquire(out);
      __syncwarp();
    }
    for (int row = 0; row < rows[group]; row += ROWS, phase ^= 1) {
      if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        load(box, in, row, &bar, sizeof(box));
      }
      __syncthreads();
      wait(&bar, phase);
      for (int i = threadIdx.x; i < ROWS * COLUMNS; i += blockDim.x) box[i] *= 2;
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncthreads();
      if (threadIdx.x == 0) store(out, row, box, adds);
    }
  }
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
