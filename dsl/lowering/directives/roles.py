"""`stage a, b: tma`: producer warps execute the copies of a pipelined loop.

    for tile:                        producer:                      consumer:
        for p:                           for tile:                      for tile:
            copy sa, a[…]                    for p:                         for p:
            commit; wait 0        →              producer_acquire e             consumer_wait e
            … load sa …                          tma_copy sa[e], a[…]           … load sa[e] …
        store c                                  e + 1                          consumer_release e; e + 1
                                                                            store c

The producer and the consumer both execute the loops around the copies. The producer's loops contain only the copies,
and the scalars that determine which TMA boxes are copied. It loads entries of tables by itself, one iteration ahead
(`entries.py`). The consumer's loops contain all other operations. Each warp role has its own count of the pipeline's
iterations, which continues from tile to tile.

Outer loops may copy, too: in attention, a persistent block copies the queries of each tile. Each loop with copies then
has its own pipeline, and one shared tile contains the mbarriers of all pipelines. In an outer loop, the consumer
releases a stage after the last operation that reads it. So the copy for the next outer iteration overlaps the rest of
the current one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

from msgspec import Struct

from dsl.lowering.building.builder import Builder
from dsl.lowering.building.iterations import carry, hand_on
from dsl.lowering.directives.entries import load_ahead
from dsl.lowering.directives.multicast import multicast
from dsl.lowering.directives.resident import copied_ahead
from dsl.lowering.directives.slices import around, inside, located, without
from dsl.lowering.directives.staged import CopyHead, read_stage, retype, shared_tile, taken_names
from dsl.lowering.directives.tma import TMA
from dsl.lowering.hopper.boxes import CopiedBox
from dsl.lowering.hopper.warpgroup import WARPS, registers_at_start
from dsl.lowering.ir.function import Block, Function, Op, Value, blocks_of, clone, parents, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import LEAST_REGISTERS, MOST_THREADS, WARP, Target
from dsl.lowering.ir.types import U64, SharedType, TileType
from dsl.lowering.ops import OPS, operand
from dsl.lowering.ops.control import names
from dsl.lowering.ops.memory import writes

MOST_OF_ROLE = 240
"""The maximum number of registers of a consumer thread, for two consumer warpgroups and one producer warpgroup: (168 ·
384 - 24 · 128) / 256 = 240. The hardware allows 255."""


class PipelinedLoop(Struct, frozen=True):
    """A loop whose body starts with copies, and the number of stages of its ring."""

    loop: Op
    head: CopyHead
    stages: int


def roles(function: Function, target: Target, levels: Sequence[PipelinedLoop]) -> Resident | None:
    """Moves the copies of the loops `levels` into producer warps. In `levels`, an outer loop comes before its inner
    loops. Each loop gets its own pipeline.

    Returns the resident copies, or None if there are none. The caller inserts the wait for them. Raises TileError
    `instruction` if the producer cannot execute the copies, such as copies whose position depends on a tile.
    """
    inner = levels[-1]
    loops = around(function, inner.loop)
    wrong = _misfit(function, levels)
    if wrong is not None:
        loc = function.lines.get(("stage", _name_of(inner.head.copies[0])))
        message = f"TMA copies are done by producer warps: {wrong[0]}"
        raise TileError("instruction", loc or inner.loop.loc, message, wrong[1])
    b, allocated, main = Builder(located(function, inner.loop)), Block(), Block()
    with b.region(allocated):
        name = inner.loop.regions[0].args[0].name or "loop"
        count = sum(2 * level.stages for level in levels)  # two mbarriers a stage: full and free
        tile = shared_tile(b, f"{name}_pipeline", taken_names(function.body), SharedType((count,), U64))
    # All warps of a cluster meet at its start, also the producers.
    tiles = [op for op in function.body.ops if op.spec.allocates or (op.spec.acts == "exchanges" and not op.results)]
    rest = without(function.body.ops, set(tiles))
    pipelines = _pipelines(function, b, tile, levels, main)
    _copy_ahead(b, loops, inner.head, rest)
    main.ops += [*rest, Op(OPS["yield"], [], [], {}, (), inner.loop.loc)]
    fetch, same = _fetching(function, main, pipelines)  # `main` must still have the copies, as it is cloned
    blocks = multicast(function, target, fetch)
    if blocks > 1:
        _await_readers(b, fetch, pipelines, same)
    for pipeline in pipelines:
        _multiplying(b, pipeline, blocks)
    function.attrs["producers"] = WARPS
    registers = _registers(function, target)
    stages, *outer = (pipeline.level.stages for pipeline in pipelines)
    attrs: dict[str, Any] = {"stages": stages, "producers": WARPS, "registers": registers, "pingpong": 0}
    attrs |= _of_blocks(blocks) | ({"outer": tuple(outer)} if outer else {})
    if registers is not None and not function.number("blocks_per_sm"):
        function.attrs["blocks_per_sm"] = 1  # else ptxas does not know the number of registers at the start
    made = Op(OPS["warp_specialize"], [tile], [], attrs, [fetch, main], inner.head.wait.loc)
    function.body.ops = [*tiles, *allocated.ops, made]
    return Resident(b, main, pipelines[0]) if inner.head.resident else None


class _RingPipeline(Struct, frozen=True):
    """The pipeline of one loop. `tile` is the shared tile with the mbarriers of all pipelines. Those of this pipeline
    start at index `base`. `number` is the current iteration of this pipeline, and `end` the number behind all loops."""

    level: PipelinedLoop
    tile: Value
    base: int
    number: Value
    end: Value

    @property
    def attrs(self) -> dict[str, int]:
        """The attributes of operations on this pipeline."""
        return {"stages": self.level.stages} | ({"base": self.base} if self.base else {})


class Resident(Struct, frozen=True):
    """Copies that are executed once, before the loops, as iteration 0 of a pipeline."""

    b: Builder
    main: Block
    pipeline: _RingPipeline

    def wait(self) -> None:
        """Inserts the consumer's wait for the resident copies directly before its loops, after the first `cp.async`
        copies."""
        # Iteration 0 is released at once, because resident tiles are not in the ring: stage 0 contains no data of this
        # iteration.
        with self.b.region(Block()) as made:
            number = self.b.index(0)
            self.b.op("consumer_wait", [self.pipeline.tile, number], **self.pipeline.attrs)
            self.b.op("consumer_release", [self.pipeline.tile, number], **self.pipeline.attrs)
        self.main.ops = without(self.main.ops, {op for op in self.main.ops if _is_box(op)})
        at = [op.spec.control.loops for op in self.main.ops].index(True)
        self.main.ops[at:at] = made.ops


def _pipelines(
    function: Function, b: Builder, tile: Value, levels: Sequence[PipelinedLoop], before: Block
) -> list[_RingPipeline]:
    """Builds the pipelines of the loops. The innermost one is the first, also in the order of mbarriers."""
    pipelines: list[_RingPipeline] = []
    base = 0
    for level in reversed(levels):
        name = level.loop.regions[0].args[0].name or "loop"
        first = int(bool(level.head.resident))
        loops = around(function, level.loop)
        number = _numbered(b, loops, f"{name}_iteration", before, first)
        pipelines.append(_RingPipeline(level, tile, base, number, loops[0].results[-1]))
        base += 2 * level.stages
    return pipelines


def _copy_ahead(b: Builder, loops: list[Op], head: CopyHead, ops: list[Op]) -> None:
    """Moves the resident copies in front of the loops, as iteration 0 of the pipeline."""
    if not head.resident:
        return
    with b.region(Block()) as ahead:
        copied_ahead(b, loops, head.resident)
    inner = loops[-1].regions[0]
    inner.ops = without(inner.ops, set(head.resident))
    at = ops.index(loops[0])
    ops[at:at] = ahead.ops


def _numbered(b: Builder, loops: list[Op], name: str, before: Block, first: int) -> Value:
    """Adds a counter of the innermost loop's iterations, which starts at `first`. All loops in `loops` carry the
    counter."""
    behind, body = Block(), loops[-1].regions[0]
    with b.region(before):
        start = b.index(first)
    (number,) = carry(loops, [start], [name])
    with b.region(behind):
        following = b.value("add", number, b.index(1))
    body.ops[-1:-1] = behind.ops
    hand_on(loops, [following])
    return number


def _name_of(copy: Op) -> str:
    """Returns the name of the tensor that a copy reads."""
    tensor = operand(copy, "tensor")
    return tensor.name or "" if tensor is not None else ""


def _misfit(function: Function, levels: Sequence[PipelinedLoop]) -> tuple[str, str] | None:
    """Checks whether the copies can move to producer warps. Returns None if they can, otherwise the reason why not and
    a hint."""
    copies = [copy for level in levels for copy in level.head.copies]
    for copy in copies:
        if "box" not in copy.attrs:
            name = _name_of(copy)
            return f"those of '{name}' at the same place are not", f"stage {name}: {TMA}"
    if any(_is_box(op) and op not in copies for op in walk(function.body)):
        return "another loop has some, too, which do not stand at its head", "tma in one of them alone"
    if function.threads + WARPS * WARP > MOST_THREADS:
        return f"{function.warps} warps and {WARPS} more are more than a block has", f"warps = {function.warps // 2}"
    loops = [loop for level in levels for loop in around(function, level.loop)]
    other = next((loop for loop in loops if not loop.spec.control.counters), None)
    if other is not None:
        return f"their loop stands in a '{other.name}'", "a loop in loops that count"
    return None


def _of_blocks(blocks: int) -> dict[str, int]:
    """Returns the attributes of a pipeline that `blocks` blocks of a cluster fill by multicast."""
    return {"blocks": blocks} if blocks > 1 else {}


def _multiplying(b: Builder, pipeline: _RingPipeline, blocks: int) -> None:
    """Rewrites the consumer's loop: an iteration waits for its stage of the rings, reads it, and releases it. `blocks`
    is the number of blocks that fill each other's stages by multicast.
    """
    head, body, first, last = pipeline.level.head, pipeline.level.loop.regions[0], Block(), Block()
    rings = {copy.operands[0]: 1 if copy in head.resident else pipeline.level.stages for copy in head.copies}
    for tile, stages in rings.items():
        retype(tile, shape=(stages, *tile.shape), ring=True)
    with b.region(first):
        b.op("consumer_wait", [pipeline.tile, pipeline.number], **pipeline.attrs)
    with b.region(last):
        b.op("consumer_release", [pipeline.tile, pipeline.number], **pipeline.attrs, **_of_blocks(blocks))
    at = body.ops.index(head.wait)
    body.ops[at : at + 1] = first.ops
    body.ops = without(body.ops, {*head.copies, head.commit})
    # An outer loop releases its stage right after the stage's last reader. The copy for the next iteration then
    # overlaps the rest of this iteration, such as the stores of results.
    has_pipeline = any(op.spec.access.at_pipeline == "wait" for op in walk(body) if op not in first.ops)
    end = _last_reader(body, set(rings)) + 1 if has_pipeline else len(body.ops) - 1
    body.ops[end:end] = last.ops
    read_stage(body, rings.keys(), pipeline.number)


def _last_reader(body: Block, tiles: set[Value]) -> int:
    """Returns the index of the last operation in `body` that reads `tiles`, or a value loaded from them."""
    # A warpgroup MMA counts as a reader of shared memory: its operands' loads emit no code.
    read, last = set(tiles), 0
    for number, op in enumerate(body.ops):
        for each in (op, *inside(op)):
            if read.intersection(each.operands):
                last = number
                if each.spec.access.kind == "read" or (each.spec.pure and not each.spec.product and not each.regions):
                    read.update(each.results)
    return last


def _is_box(op: Op) -> bool:
    return op.spec.in_flight and "box" in op.attrs


def _fetching(function: Function, main: Block, pipelines: list[_RingPipeline]) -> tuple[Block, dict[Value, Value]]:
    """Builds the producer's body: the TMA copies, and the operations of `main` that determine which boxes they copy.
    Also returns a map from each value of `main` to its clone in this body."""
    fetch = Block()
    # At first, the body is a full clone of `main`. `_keep_copies` then removes the operations that the copies do not
    # need.
    clone(main, [], fetch.ops)
    fetch.ops.append(Op(OPS["yield"], [], [], {}, (), main.ops[-1].loc))
    same = dict(zip(_values(main), _values(fetch), strict=True))
    for value in same.values():
        value.origin = value.name = None  # names and `dsl verify` refer to the consumer's value
    _copy_boxes(function, fetch, pipelines, same)
    _keep_copies(fetch, {op.operands[0] for op in walk(main) if writes(op)})
    load_ahead(Builder(located(function, main.ops[-1])), fetch, _corners)
    return fetch, same


def _corners(body: Block) -> list[Value]:
    """Returns the values that say which boxes a loop's body copies."""
    copies = [op for op in body.ops if op.spec.access.at_pipeline == "fill" and "box" in op.attrs]
    return [value for op in copies for value in CopiedBox.of(op).operands.values() if value is not None]


def _await_readers(b: Builder, fetch: Block, pipelines: list[_RingPipeline], same: dict[Value, Value]) -> None:
    """Appends to the producer's body: a block of a cluster ends after all blocks have read what it copied, and have
    arrived at its mbarriers."""
    with b.region(Block()) as made:
        for pipeline in pipelines:
            b.op("producer_tail", [pipeline.tile, same[pipeline.end]], **pipeline.attrs)
    fetch.ops[-1:-1] = made.ops


def _values(block: Block) -> list[Value]:
    """Returns all values that the operations of a block define, in order."""
    found: list[Value] = []
    for op in walk(block):
        found += op.results
        found += [arg for region in op.regions for arg in region.args]
    return found


def _copy_boxes(function: Function, block: Block, pipelines: list[_RingPipeline], same: dict[Value, Value]) -> None:
    """Replaces the copies in the producer's `block` by TMA copies. Copies in front of the loops are iteration 0. `same`
    maps each value of the consumer to its clone."""
    of_tile = {copy.operands[0]: pipeline for pipeline in pipelines for copy in pipeline.level.head.copies}
    for region in list(blocks_of(block)):
        groups: dict[int, list[Op]] = {}  # by pipeline: a region may contain copies of several
        for op in region.ops:
            if _is_box(op):
                groups.setdefault(of_tile[op.operands[0]].base, []).append(op)
        for copies in groups.values():
            _copy_group(function, region, copies, of_tile[copies[0].operands[0]], same, region is block)


def _copy_group(
    function: Function, region: Block, copies: list[Op], pipeline: _RingPipeline, same: dict[Value, Value],
    is_ahead: bool,
) -> None:  # fmt: skip
    """Replaces the copies of one pipeline in a region by TMA copies. `is_ahead` is true for copies in front of the
    loops."""
    b, made = Builder(located(function, copies[0])), Block()
    with b.region(made):
        resident: dict[str, object] = {"resident": True} if is_ahead else {}
        number = b.index(0) if resident else same[pipeline.number]
        # All boxes of an iteration share one acquire, because the full barrier expects the sum of their bytes.
        size = sum(CopiedBox.of(op).size * op.operands[0].dtype.bytes for op in copies)
        b.op("producer_acquire", [pipeline.tile, number], bytes=size, **pipeline.attrs)
        for op in copies:
            b.place = (located(function, op), None)
            parts = {"memory": op.operands[0], "stage": number, "tensor": operand(op, "tensor")}
            box, base = CopiedBox.of(op), {"base": pipeline.base} if pipeline.base else {}
            b.access("tma_copy", parts | {"pipeline": pipeline.tile} | box.operands, **box.attrs, **resident, **base)
    at = region.ops.index(copies[-1])
    region.ops[at:at] = made.ops
    region.ops = without(region.ops, set(copies))


def _keep_copies(block: Block, written: set[Value]) -> None:
    """Removes all operations that the copies in `block` do not need. Raises TileError `instruction` if the copies
    depend on a tile, or on a scalar from a tensor that the kernel writes (`written`)."""
    around = parents(block)
    # A carried value of a loop is several IR values: outside the loop, inside it, and at the end of its body. `same`
    # maps each of them to all of them. Either all of them stay, or none.
    same: defaultdict[Value, list[Value]] = defaultdict(list)
    for column in (column for op in walk(block) for column in names(op)):
        for value in column:
            same[value] += column
    needed: set[Value] = set()
    own, kept = set(walk(block)), set[Op]()
    todo: list[Value] = []

    def keep(op: Op) -> None:
        while op not in kept:
            kept.add(op)
            scalar = op.spec.access.kind == "read" and not op.result.shape and op.operands[0] not in written
            # A single thread copies, and it cannot hold a whole tile. So all values must be scalars.
            numbers = op.spec.pure and not any(isinstance(v.type, TileType) and v.shape for v in op.operands)
            is_program = op.spec.control.flows or op.spec.control.ends or op.spec.access.at_pipeline == "fill"
            if not (numbers or scalar or is_program):
                message = f"'{op.name}' decides what they copy"
                raise TileError("instruction", op.loc, message, "places come from counters, dims, scalars")
            todo.extend(op.operands[: op.spec.control.leading] if op.spec.control.flows else op.operands)
            for end in (region.ops[-1] for region in op.regions):
                todo.extend(end.operands[: end.spec.control.leading])  # the condition on which a `while` continues
            if op not in around:
                return
            op = around[op]

    for op in walk(block):
        if op.spec.access.at_pipeline == "fill":
            keep(op)
    while todo:
        value = todo.pop()
        if value in needed:
            continue
        needed.add(value)
        todo.extend(same[value])
        if value.op in own:
            keep(value.op)
    _leave(block, lambda op: op in kept, needed)


def _leave(block: Block, is_kept: Callable[[Op], bool], needed: set[Value]) -> None:
    """Removes all operations for which `is_kept` is false. Loops and branches no longer carry values that are not in
    `needed`."""
    block.ops = [op for op in block.ops if is_kept(op) or op.spec.control.ends]
    for op in block.ops:
        if op.spec.control.flows:
            columns = [any(v in needed for v in column) for column in names(op)]
            lead, counters = op.spec.control.leading, op.spec.control.counters
            if op.spec.control.loops:
                op.operands = [*op.operands[:lead], *compress(op.operands[lead:], columns)]
            for region in op.regions:
                if op.spec.control.loops:
                    region.args = [*region.args[:counters], *compress(region.args[counters:], columns)]
                end = region.ops[-1]
                test = end.spec.control.leading
                end.operands = [*end.operands[:test], *compress(end.operands[test:], columns)]
            op.results = list(compress(op.results, columns))
            if "types" in op.attrs:
                op.attrs["types"] = [result.type for result in op.results]
        for region in op.regions:
            _leave(region, is_kept, needed)


def _registers(function: Function, target: Target) -> tuple[int, int] | None:
    """Chooses the registers of a producer thread and of a consumer thread, for `setmaxnreg`. Returns None if all
    threads keep the registers that they have at the start.

    Example: with 384 threads, each starts with 168 of an SM's 65536 registers. Then a producer keeps 24, and a consumer
    gets 240.
    """
    # Without `setmaxnreg`, ptxas 13.0 spills 8 bytes in the product with bias and residual. A producer could keep what
    # consumers leave, 32 registers beside 16 warps, but attention with heads of 64 then takes 1.10 of the time: ptxas
    # orders the consumers' instructions in another way (H200).
    ways, rule = dict[str, tuple[int, int] | None](none=None), "none"
    at_start = registers_at_start(function, target) // 8 * 8
    left = (at_start * function.launched - LEAST_REGISTERS * WARPS * WARP) // function.threads // 8 * 8
    most = min(left, MOST_OF_ROLE)
    if target.arch.endswith("a") and function.warps % WARPS == 0 and most > at_start >= LEAST_REGISTERS:
        kept = (at_start * function.launched - most * function.threads) // (WARPS * WARP) // 8 * 8
        ways |= {f"{each}, {most}": (each, most) for each in (LEAST_REGISTERS, kept)}
        rule = f"{LEAST_REGISTERS}, {most}"
    because = f"{at_start} a thread at the start; producer warps need few"
    return function.choices.choose("registers", "roles", ways, rule, because=because)
