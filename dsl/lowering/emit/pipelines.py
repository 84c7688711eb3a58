"""Emits the roles of producer and consumer warps, and the mbarriers of the pipelines between them.

The producer warps are the last warps of the block. One producer thread issues all copies, since a TMA copy is one
instruction. A waiting warp repeats `try_wait`, during which the hardware may suspend the warp.
"""

from __future__ import annotations

from dsl.lowering.emit.chains import emit_block
from dsl.lowering.emit.clusters import meet_cluster
from dsl.lowering.emit.mbarriers import BARRIER, arrive_in_blocks, await_phase, begin_mbarriers, narrow, only_when
from dsl.lowering.emit.rules import rule
from dsl.lowering.emit.shared_address import shared_base
from dsl.lowering.emit.writer import Writer
from dsl.lowering.hopper.boxes import CopiedBox, map_of
from dsl.lowering.hopper.warpgroup import WARPS
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.targets import WARP
from dsl.lowering.ops import required
from dsl.lowering.ops.pipelines import base_of, copy_of, is_read_by_threads, rings_of

OF_ROLE = 1
"""The number of the named barrier for the consumer warps. Barrier 0 is for all threads of the block."""


@rule("warp_specialize")
def _warp_specialize(w: Writer, op: Op) -> None:
    fetch, main = op.regions
    threads = w.function.threads
    _begin(w, op)
    warp = w.let(f"lshr i32 {w.head.thread()}, {WARP.bit_length() - 1}")
    # The warp number is the same in all lanes. The shuffle makes this visible to ptxas, so that the branch is uniform.
    (warp,) = w.template("shfl.sync.idx.b32", [warp, "0", "31", "-1"], op)
    fetches, copying, works, done = (w.fresh_label(s) for s in ("fetch", "copy", "multiply", "end"))
    w.do(f"br i1 {w.let(f'icmp uge i32 {warp}, {w.function.warps}')}, label %{fetches}, label %{works}")
    registers = op.attrs["registers"]
    w.start(fetches)
    if registers is not None:
        w.template("setmaxnreg.dec.sync.aligned.u32", [str(registers[0])], op)
    w.do(f"br i1 {w.let(f'icmp eq i32 {w.head.thread()}, {threads}')}, label %{copying}, label %{done}")
    w.start(copying)
    emit_block(w, fetch)
    w.at(op)
    w.do(f"br label %{done}")
    w.start(works)
    if registers is not None:
        w.template("setmaxnreg.inc.sync.aligned.u32", [str(registers[1])], op)
    with w.head.stretches_of(main):
        emit_block(w, main)
    w.at(op)
    w.do(f"br label %{done}")
    w.start(done)


def _blocks(op: Op) -> int:
    """Returns the number of blocks of a cluster that share each copy (multicast)."""
    blocks: int = op.attrs.get("blocks", 1)
    return blocks


def _sharing(w: Writer, copy: Op) -> tuple[str, str]:
    """Returns the number of this block among the blocks that share a copy (i32), and the bit mask of the cluster ranks
    of these blocks (i16)."""
    rank, blocks, apart = w.head.narrow_special("cluster.ctarank"), _blocks(copy), copy.attrs["apart"]
    ranks = sum(1 << number * apart for number in range(blocks))
    if blocks == w.function.blocks_of_cluster:
        return rank, str(ranks)
    number = w.head.once(f"urem i32 {w.head.once(f'udiv i32 {rank}, {apart}')}, {blocks}")
    first = w.head.once(f"sub i32 {rank}, {w.head.once(f'mul i32 {number}, {apart}')}")
    mask = w.head.once(f"shl i32 {ranks}, {first}")
    return number, w.head.once(f"trunc i32 {mask} to i16")


def _begin(w: Writer, op: Op) -> None:
    """Initialises the mbarriers of all pipelines with their arrival counts. The `full` mbarrier of a stage expects one
    arrival, by the thread that copies. The `free` mbarrier expects an arrival from each consumer warp in all blocks
    that share the copies. A ping-pong barrier expects an arrival from each warp of a warp group."""
    pingpong, readers, counts = op.attrs["pingpong"], w.function.warps * _blocks(op), list[tuple[int, int]]()
    for stages in rings_of(op):
        at = len(counts)
        counts += [each for stage in range(stages) for each in ((at + stage, 1), (at + stages + stage, readers))]
    counts += [(len(counts) + group, WARPS) for group in range(pingpong)]
    begin_mbarriers(w, op, shared_base(w, op.operands[0]), counts)
    if _blocks(op) > 1:
        meet_cluster(w, op, ".relaxed")  # `.relaxed` suffices, because the fence above orders the initialisation
    else:
        w.template("bar.sync", ["0"], op)


LEAST, MOST = -(1 << 31), (1 << 31) - 1
"""The least and the greatest TMA coordinate."""


def coordinate(w: Writer, first: Value, far: int) -> str:
    """Converts an index to a TMA coordinate (i32). An index of more than 32 bits is outside of every tensor, but its
    lower 32 bits may be inside. So it is replaced with `far`, which is outside of every tensor."""
    low = narrow(w, first)
    if w.index == "i32":
        return low
    same = w.let(f"icmp eq i64 {w.let(f'sext i32 {low} to i64')}, {w.registers[first][0]}")
    return w.let(f"select i1 {same}, i32 {low}, i32 {far}")


@rule("producer_acquire")
def _fill(w: Writer, op: Op) -> None:
    number = narrow(w, op.operands[1])
    _await_free(w, op, number)
    full = _place(w, op.operands[0], number, op.attrs["stages"], base_of(op))
    w.template("mbarrier.arrive.expect_tx.shared.b64", [full, str(op.attrs["bytes"])], op)


@rule("producer_tail")
def _tail(w: Writer, op: Op) -> None:
    # A barrier of the cluster would wait for the stores of all its blocks: 0.5 us on an H200.
    number = narrow(w, op.operands[1])
    for stage in range(op.attrs["stages"]):
        _await_free(w, op, w.let(f"add i32 {number}, {stage}"))


def _await_free(w: Writer, op: Op, number: str) -> None:
    """Emits a wait until the stage of iteration `number` is free."""
    stages = op.attrs["stages"]
    free = _place(w, op.operands[0], number, stages, base_of(op) + stages)
    # The `1` is added because the phases of `free` are one use behind. The first use of a stage waits for the phase
    # before the first phase, which counts as completed. So no reader has to arrive before the first use.
    await_phase(w, op, free, w.let(f"add i32 {_times(w, number, stages)}, 1"))


@rule("consumer_wait")
def _filled(w: Writer, op: Op) -> None:
    number, stages = narrow(w, op.operands[1]), op.attrs["stages"]
    await_phase(w, op, _place(w, op.operands[0], number, stages, base_of(op)), _times(w, number, stages))


def _times(w: Writer, number: str, stages: int) -> str:
    """Returns how often earlier iterations have used the stage of iteration `number`."""
    return w.let(f"udiv i32 {number}, {stages}")


@rule("pingpong_begin")
def _pingpong_begin(w: Writer, op: Op) -> None:
    """Emits a wait until the previous warp group has ended its turn in this iteration. The first group waits until the
    last group has ended the previous iteration."""
    first = w.head.once(f"zext i1 {w.head.once(f'icmp eq i32 {_group(w)}, 0')} to i32")
    phase = w.let(f"add i32 {narrow(w, op.operands[1])}, {first}")
    await_phase(w, op, _place_of_turn(w, op, _group(w)), phase)


@rule("pingpong_end")
def _pingpong_end(w: Writer, op: Op) -> None:
    """Emits an arrival that lets the next warp group begin its turn."""
    following = w.head.once(f"add i32 {_group(w)}, 1")
    last = w.head.once(f"icmp eq i32 {following}, {op.attrs['groups']}")
    _arrive(w, op, _place_of_turn(w, op, w.head.once(f"select i1 {last}, i32 0, i32 {following}")))


def _group(w: Writer) -> str:
    return w.head.once(f"lshr i32 {w.head.thread()}, {(WARP * WARPS).bit_length() - 1}")


def _place_of_turn(w: Writer, op: Op, group: str) -> str:
    """Returns the address of the ping-pong barrier of a warp group."""
    first = w.let(f"add i32 {shared_base(w, op.operands[0])}, {BARRIER * 2 * op.attrs['stages']}")
    return w.let(f"add i32 {first}, {w.head.once(f'mul i32 {group}, {BARRIER}')}")


def _arrive(w: Writer, op: Op, barrier: str, when: str | None = None) -> None:
    """Emits an arrival at an mbarrier, if `when` is true or None. Lane 0 arrives for its whole warp."""
    lane = w.head.once(f"and i32 {w.head.thread()}, {WARP - 1}")
    first = w.head.once(f"icmp eq i32 {lane}, 0")
    w.template("@mbarrier.arrive.shared.b64", [barrier, only_when(w, first, when)], op)


@rule("consumer_release")
def _consumer_release(w: Writer, op: Op) -> None:
    """Frees a stage. After all lanes of a warp have read it, one lane arrives at the `free` mbarrier of each block that
    shares the copies.

    A fence is required between reads by threads and writes by the asynchronous proxy (PTX ISA, "Async proxy"). Without
    the fence, loads may still be in flight at the arrival: ptxas 13.0 moves the arrival ahead of `mma.sync`, and on an
    H100, copies overtook `ldmatrix`.
    """
    pipeline, stages = op.operands[0], op.attrs["stages"]
    if is_read_by_threads(op, w.function.body):
        w.template("fence.proxy.async.shared::cta", [], op)
    w.template("bar.warp.sync", ["-1"], op)
    number, blocks = narrow(w, op.operands[1]), _blocks(op)
    free = _place(w, pipeline, number, stages, base_of(op) + stages)
    when = None
    if len(op.operands) == 3:
        when = w.let(f"icmp sge i32 {number}, {narrow(w, op.operands[2])}")
    if blocks == 1:
        _arrive(w, op, free, when)
    else:
        arrive_in_blocks(w, op, free, blocks, when=when)


def _place(w: Writer, pipeline: Value, number: str, stages: int, first: int) -> str:
    """Returns the address of the `full` or `free` mbarrier of the stage that iteration `number` uses. `first` is the
    index of the first mbarrier of that kind."""
    stage = w.let(f"urem i32 {number}, {stages}")
    place = w.let(f"add i32 {shared_base(w, pipeline)}, {w.let(f'mul i32 {stage}, {BARRIER}')}")
    return w.let(f"add i32 {place}, {BARRIER * first}") if first else place


@rule("tma_copy")
def _tma_copy(w: Writer, op: Op) -> None:
    memory, pipeline, iteration = op.operands[0], required(op, "pipeline"), narrow(w, required(op, "stage"))
    stages, map = memory.type.shape[0], map_of(op)  # type: ignore[union-attr]
    number = w.let(f"urem i32 {iteration}, {stages}")
    size = memory.type.bytes // stages  # type: ignore[union-attr]
    target = w.let(f"add i32 {shared_base(w, memory)}, {w.let(f'mul i32 {number}, {size}')}")
    if op.attrs["at"]:
        target = w.let(f"add i32 {target}, {op.attrs['at'] * memory.dtype.bytes}")
    place = w.head.once(f"ptrtoint ptr %{map.name} to i64")
    box, own = CopiedBox.of(op), CopiedBox.own(op)
    far = MOST if box.walks else LEAST  # for im2col, MOST: coordinates before the first image are not outside
    corner = [coordinate(w, axis.first, far) for axis in box.axes]
    more = []
    if _blocks(op) > 1:  # each block copies its part of the box into the shared memory of all blocks that need it
        part, (rank, mask) = box.outermost, _sharing(w, op)
        corner[part] = w.let(f"add i32 {corner[part]}, {w.head.once(f'mul i32 {rank}, {own.axes[part].extent}')}")
        target = w.let(f"add i32 {target}, {w.head.once(f'mul i32 {rank}, {own.size * memory.dtype.bytes}')}")
        more = [mask]
    taps = [w.let(f"trunc i32 {narrow(w, walk.tap)} to i16") for walk in box.walks]
    full = _place(w, pipeline, iteration, stages, base_of(op))
    w.template(copy_of(op), [target, place, *corner, full, *taps, *more], op)
