"""Kernels for the CuTe DSL, of which cute_ring.ptx is made.

    CUTE_DSL_ARCH=sm_90a CUTE_DSL_KEEP_PTX=1 python cute_kernels.py

The texts are of nvidia-cutlass-dsl 4.8.1, which needs no GPU for it; the name of the entry has been made short.
"""

import cutlass
import cutlass.cute as cute
import cutlass.pipeline as pipeline
from cutlass.cute.runtime import make_ptr


@cute.kernel
def ring(x: cute.Pointer, y: cute.Pointer, rounds: cutlass.Int32):
    """Warp 1 brings 32 numbers a round into two slots, warp 0 adds them up; it looks ahead before it waits."""
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    lane = tid % 32
    memory = cutlass.memory.SmemAllocator()
    slots = memory.allocate_tensor(cutlass.Float32, cute.make_layout((32, 2)), 16)
    barriers = memory.allocate_array(cutlass.Int64, 4)
    group = pipeline.CooperativeGroup(pipeline.Agent.Thread, 32)
    channel = pipeline.PipelineAsync.create(
        barrier_storage=barriers, num_stages=2, producer_group=group, consumer_group=group
    )
    gx = cute.make_tensor(x, cute.make_layout((32, rounds)))
    gy = cute.make_tensor(y, cute.make_layout(32))
    if warp == 1:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, 2)
        for i in cutlass.range(rounds, unroll=1):
            channel.producer_acquire(state)
            slots[lane, state.index] = gx[lane, i]
            channel.producer_commit(state)
            state.advance()
        channel.producer_tail(state)
    if warp == 0:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 2)
        total = cutlass.Float32(0.0)
        token = channel.consumer_try_wait(state)
        for i in cutlass.range(rounds, unroll=1):
            channel.consumer_wait(state, token)
            total = total + slots[31 - lane, state.index]
            channel.consumer_release(state)
            state.advance()
            token = cutlass.Boolean(1)
            if i + 1 < rounds:
                token = channel.consumer_try_wait(state)
        gy[lane] = total


@cute.jit
def host_ring(x: cute.Pointer, y: cute.Pointer, rounds: cutlass.Int32):
    ring(x, y, rounds).launch(grid=[1, 1, 1], block=[64, 1, 1])


if __name__ == "__main__":
    pointer = make_ptr(cutlass.Float32, 0, cute.AddressSpace.gmem, assumed_align=16)
    with open("cute_ring.ptx", "w") as file:
        file.write(cute.compile(host_ring, pointer, pointer, 7).__ptx__)
