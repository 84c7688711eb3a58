"""`stage a, b: tma`: the copies of a pipelined loop are done by warps of their own.

    for tile:                        fetch:                         multiply:
        for p:                           for tile:                      for tile:
            copy sa, a[…]                    for p:                         for p:
            commit; wait 0        →              fill e                         filled e
            … load sa …                          tma_copy sa[e], a[…]          … load sa[e] …
        store c                                  e + 1                          release e; e + 1
                                                                            store c

Both roles are the loops around the copies. The one keeps of them what decides which boxes are copied: that hangs on
counters, dims and scalars alone. The other keeps all the rest. Each counts the numbers of the pipeline by itself, from
tile to tile.

Loops around may copy, too, as a block that stays for several tiles copies the queries of each: then each such loop has
a pipeline, all of them in one tile of barriers. What an iteration of such a loop has copied is free behind the last
operation that reads it, so that the next one's comes while the rest of the iteration is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dsl.lowering.building.builder import Builder
from dsl.lowering.building.iterations import carry, hand_on
from dsl.lowering.directives.multicast import multicast
from dsl.lowering.directives.resident import copied_ahead
from dsl.lowering.directives.slices import located, without
from dsl.lowering.directives.staged import CopyHead, shared_tile, taken_names
from dsl.lowering.directives.tma import TMA
from dsl.lowering.hopper.boxes import CopiedBox
from dsl.lowering.hopper.warpgroup import WARPS, registers_at_start
from dsl.lowering.ir.function import Block, Function, Op, Value, clone, parents, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import LEAST_REGISTERS, MOST_THREADS, WARP, Target
from dsl.lowering.ir.types import U64, SharedType, TileType
from dsl.lowering.ops import OPS, operand
from dsl.lowering.ops.control import names
from dsl.lowering.ops.memory import writes

MOST_OF_ROLE = 240
"""Registers of a thread that multiplies, at most: the greatest number of `setmaxnreg` that is no more than 255."""


@dataclass(frozen=True, slots=True)
class PipelinedLoop:
    """A loop that copies at the head of its body, and how many stages the ring of these copies has."""

    loop: Op
    head: CopyHead
    stages: int


def roles(function: Function, target: Target, levels: Sequence[PipelinedLoop]) -> Resident | None:
    """Parts the copies at the heads of loops' bodies from all the rest; the loops are in one another, the innermost one
    last. What is copied once is not waited for yet. TileError `instruction` where they cannot be parted."""
    inner = levels[-1]
    loops = around(function, inner.loop)
    wrong = _misfit(function, levels, loops)
    if wrong is not None:
        loc = function.lines.get(("stage", _name_of(inner.head.copies[0])))
        message = f"copies by TMA are done by warps of their own: {wrong[0]}"
        raise TileError("instruction", loc or inner.loop.loc, message, wrong[1])
    b, allocated, main = Builder(located(function, inner.loop)), Block(), Block()
    with b.region(allocated):
        name = inner.loop.regions[0].args[0].name or "loop"
        count = sum(2 * level.stages for level in levels)
        tile = shared_tile(b, f"{name}_pipeline", taken_names(function.body), SharedType((count,), U64))
    tiles = [op for op in function.body.ops if op.spec.allocates]
    rest = without(function.body.ops, set(tiles))
    pipelines = _pipelines(b, tile, levels, loops, main)
    _copy_ahead(b, loops, inner.head, rest)
    main.ops += [*rest, Op(OPS["yield"], [], [], {}, (), inner.loop.loc)]
    fetch = _fetching(function, main, pipelines)
    blocks = multicast(function, target, fetch)
    for pipeline in pipelines:
        _multiplying(b, pipeline, blocks, pipeline is pipelines[0])
    function.attrs["producers"] = WARPS
    registers = _registers(function, target)
    stages, *outer = (pipeline.level.stages for pipeline in pipelines)
    attrs: dict[str, Any] = {"stages": stages, "producers": WARPS, "registers": registers, "pingpong": 0} | _of_blocks(
        blocks
    )
    attrs |= {"outer": tuple(outer)} if outer else {}
    if registers is not None and not function.number("blocks_per_sm"):
        function.attrs["blocks_per_sm"] = 1  # else ptxas does not know how many registers there are at the start
    made = Op(OPS["warp_specialize"], [tile], [], attrs, [fetch, main], inner.head.wait.loc)
    function.body.ops = [*tiles, *allocated.ops, made]
    return Resident(b, main, pipelines[0]) if inner.head.resident else None


@dataclass(frozen=True, slots=True)
class _RingPipeline:
    """A pipeline: its loop, the tile of all barriers and how many of these are ahead of its own, and the number that
    goes through it in an iteration."""

    level: PipelinedLoop
    tile: Value
    base: int
    number: Value

    @property
    def attrs(self) -> dict[str, int]:
        """Of its operations."""
        return {"stages": self.level.stages} | ({"base": self.base} if self.base else {})


@dataclass(frozen=True, slots=True)
class Resident:
    """What is copied once, ahead of the loops of those that multiply, as number 0 of a pipeline."""

    b: Builder
    main: Block
    pipeline: _RingPipeline

    def wait(self) -> None:
        """Waits for it directly before the loops, when copies by threads have been started. Its stage has nothing to be
        read."""
        with self.b.region(Block()) as made:
            number = self.b.index(0)
            self.b.op("consumer_wait", [self.pipeline.tile, number], **self.pipeline.attrs)
            self.b.op("consumer_release", [self.pipeline.tile, number], **self.pipeline.attrs)
        self.main.ops = without(self.main.ops, {op for op in self.main.ops if _is_box(op)})
        at = [op.spec.control.loops for op in self.main.ops].index(True)
        self.main.ops[at:at] = made.ops


def _pipelines(
    b: Builder, tile: Value, levels: Sequence[PipelinedLoop], loops: list[Op], before: Block
) -> list[_RingPipeline]:
    """Those of the loops, the innermost one first, whose barriers are the first ones."""
    pipelines: list[_RingPipeline] = []
    base = 0
    for level in reversed(levels):
        name = level.loop.regions[0].args[0].name or "loop"
        of_loops = loops[: loops.index(level.loop) + 1]
        number = _numbered(b, of_loops, f"{name}_iteration", before, int(bool(level.head.resident)))
        pipelines.append(_RingPipeline(level, tile, base, number))
        base += 2 * level.stages
    return pipelines


def around(function: Function, inner: Op) -> list[Op]:
    """A loop and the operations around it, the outermost first."""
    loops, outside = [inner], parents(function.body)
    while loops[0] in outside:
        loops.insert(0, outside[loops[0]])
    return loops


def _copy_ahead(b: Builder, loops: list[Op], head: CopyHead, ops: list[Op]) -> None:
    """Puts what is copied once ahead of the loops: number 0, which is released as soon as it is there."""
    if not head.resident:
        return
    with b.region(Block()) as ahead:
        copied_ahead(b, loops, head.resident)
    inner = loops[-1].regions[0]
    inner.ops = without(inner.ops, set(head.resident))
    at = ops.index(loops[0])
    ops[at:at] = ahead.ops


def _numbered(b: Builder, loops: list[Op], name: str, before: Block, first: int) -> Value:
    """The number of an iteration of the innermost loop, from the first on, which all loops around carry."""
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
    """Of the tensor that a copy is from."""
    tensor = operand(copy, "tensor")
    return tensor.name or "" if tensor is not None else ""


def _misfit(function: Function, levels: Sequence[PipelinedLoop], loops: list[Op]) -> tuple[str, str] | None:
    """Why copies cannot be parted from the rest, and what would fit; None if they can."""
    copies = [copy for level in levels for copy in level.head.copies]
    for copy in copies:
        if "box" not in copy.attrs:
            name = _name_of(copy)
            return f"those of '{name}' at the same place are not", f"stage {name}: {TMA}"
    if any(_is_box(op) and op not in copies for op in walk(function.body)) or not {e.loop for e in levels} <= {*loops}:
        return "another loop has some, too", "bulk in one of them alone, or in loops in one another"
    if function.threads + WARPS * WARP > MOST_THREADS:
        return f"{function.warps} warps and {WARPS} more are more than a block has", f"warps = {function.warps // 2}"
    other = next((loop for loop in loops if not loop.spec.control.counters), None)
    if other is not None:
        return f"their loop stands in a '{other.name}'", "a loop in loops that count"
    return None


def _of_blocks(blocks: int) -> dict[str, int]:
    """Attributes of what goes by a pipeline that so many blocks fill for each other."""
    return {"blocks": blocks} if blocks > 1 else {}


def _multiplying(b: Builder, pipeline: _RingPipeline, blocks: int, innermost: bool) -> None:
    """The loop without its copies: it waits for a number, reads its stage of the tiles, now rings, and frees it."""
    head, body, first, last = pipeline.level.head, pipeline.level.loop.regions[0], Block(), Block()
    rings = {copy.operands[0]: 1 if copy in head.resident else pipeline.level.stages for copy in head.copies}
    for tile, stages in rings.items():
        assert tile.op is not None and isinstance(tile.type, SharedType)
        type = SharedType((stages, *tile.type.shape), tile.type.dtype, ring=True)
        tile.op.attrs["type"] = tile.type = type
    with b.region(first):
        b.op("consumer_wait", [pipeline.tile, pipeline.number], **pipeline.attrs)
    with b.region(last):
        b.op("consumer_release", [pipeline.tile, pipeline.number], **pipeline.attrs, **_of_blocks(blocks))
    at = body.ops.index(head.wait)
    body.ops[at : at + 1] = first.ops
    body.ops = without(body.ops, {*head.copies, head.commit})
    end = len(body.ops) - 1 if innermost else _last_reader(body, set(rings)) + 1
    body.ops[end:end] = last.ops
    for op in walk(body):
        if op.operands and op.operands[0] in rings and "stage" not in op.attrs.get("has", ["stage"]):
            op.operands.insert(1, pipeline.number)
            op.attrs["has"] = [op.attrs["has"][0], "stage", *op.attrs["has"][1:]]


def _last_reader(body: Block, tiles: set[Value]) -> int:
    """The last operation of a body that reads these tiles, or takes what is read of them, as it is or changed: products
    of warp groups read their operands when they are done."""
    read, last = set(tiles), 0
    for number, op in enumerate(body.ops):
        for each in [op, *(inside for region in op.regions for inside in walk(region))]:
            if read.intersection(each.operands):
                last = number
                if each.spec.access.kind == "read" or (each.spec.pure and not each.spec.product and not each.regions):
                    read.update(each.results)
    return last


def _is_box(op: Op) -> bool:
    return op.spec.in_flight and "box" in op.attrs


def _fetching(function: Function, main: Block, pipelines: list[_RingPipeline]) -> Block:
    """What of a body decides which boxes are copied, and copies them."""
    fetch = Block()
    clone(main, [], fetch.ops)
    fetch.ops.append(Op(OPS["yield"], [], [], {}, (), main.ops[-1].loc))
    same = dict(zip(_values(main), _values(fetch), strict=True))
    for value in same.values():
        value.origin = value.name = None  # of the two, the other one is what the value was
    _copy_boxes(function, fetch, pipelines, same)
    _keep_copies(fetch, {op.operands[0] for op in walk(main) if writes(op)})
    return fetch


def _values(block: Block) -> list[Value]:
    """All that is made in a block, in order."""
    found: list[Value] = []
    for op in walk(block):
        found += op.results
        found += [arg for region in op.regions for arg in region.args]
    return found


def _copy_boxes(function: Function, block: Block, pipelines: list[_RingPipeline], same: dict[Value, Value]) -> None:
    """Boxes in the place of the copies of a body that was made once more; those ahead of its loops are number 0. same:
    the values of that body here."""
    of_tile = {copy.operands[0]: pipeline for pipeline in pipelines for copy in pipeline.level.head.copies}
    for region in [block, *(region for op in walk(block) for region in op.regions)]:
        copies = [op for op in region.ops if _is_box(op)]
        if not copies:
            continue
        b, made, pipeline = Builder(located(function, copies[0])), Block(), of_tile[copies[0].operands[0]]
        with b.region(made):
            resident: dict[str, object] = {"resident": True} if region is block else {}
            number = b.index(0) if resident else same[pipeline.number]
            size = sum(CopiedBox.of(op).size * op.operands[0].dtype.bytes for op in copies)
            b.op("producer_acquire", [pipeline.tile, number], bytes=size, **pipeline.attrs)
            for op in copies:
                b.place = (located(function, op), None)
                parts = {"memory": op.operands[0], "stage": number, "tensor": operand(op, "tensor")}
                box, base = CopiedBox.of(op), {"base": pipeline.base} if pipeline.base else {}
                b.access(
                    "tma_copy", parts | {"pipeline": pipeline.tile} | box.operands, **box.attrs, **resident, **base
                )
        at = region.ops.index(copies[-1])
        region.ops[at:at] = made.ops
        region.ops = without(region.ops, set(copies))


def _keep_copies(block: Block, written: set[Value]) -> None:
    """Leaves in a block what its copies hang on: numbers, some of them from tensors that are not written. TileError
    `instruction` where that is more."""
    around = parents(block)
    same: defaultdict[Value, list[Value]] = defaultdict(list)
    for column in (column for op in walk(block) for column in names(op)):
        for value in column:
            same[value] += column
    needed: set[Value] = set()
    inside, kept = set(walk(block)), set[Op]()
    todo: list[Value] = []

    def keep(op: Op) -> None:
        while op not in kept:
            kept.add(op)
            scalar = op.spec.access.kind == "read" and not op.result.shape and op.operands[0] not in written
            # One thread alone copies, and no tile is whole in it.
            numbers = op.spec.pure and not any(isinstance(v.type, TileType) and v.shape for v in op.operands)
            if not (
                numbers
                or op.spec.control.flows
                or op.spec.control.ends
                or op.spec.access.at_pipeline == "fill"
                or scalar
            ):
                message = f"what they copy is found by '{op.name}'"
                raise TileError("instruction", op.loc, message, "places come from counters, dims, scalars")
            todo.extend(op.operands[: op.spec.control.leading] if op.spec.control.flows else op.operands)
            for end in (region.ops[-1] for region in op.regions):
                todo.extend(end.operands[: end.spec.control.leading])  # whether a `while` goes on
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
        if value.op in inside:
            keep(value.op)
    _leave(block, lambda op: op in kept, needed)


def _leave(block: Block, is_kept: Callable[[Op], bool], needed: set[Value]) -> None:
    """Takes the other operations out, and of loops and branches the values that are not needed."""
    block.ops = [op for op in block.ops if is_kept(op) or op.spec.control.ends]
    for op in block.ops:
        if op.spec.control.flows:
            columns = [any(v in needed for v in column) for column in names(op)]
            lead, counters = op.spec.control.leading, op.spec.control.counters
            if op.spec.control.loops:
                op.operands = [*op.operands[:lead], *_chosen(op.operands[lead:], columns)]
            for region in op.regions:
                if op.spec.control.loops:
                    region.args = [*region.args[:counters], *_chosen(region.args[counters:], columns)]
                end = region.ops[-1]
                end.operands = [
                    *end.operands[: end.spec.control.leading],
                    *_chosen(end.operands[end.spec.control.leading :], columns),
                ]
            op.results = _chosen(op.results, columns)
            if "types" in op.attrs:
                op.attrs["types"] = [result.type for result in op.results]
        for region in op.regions:
            _leave(region, is_kept, needed)


def _chosen(values: list[Value], columns: list[bool]) -> list[Value]:
    return [value for value, chosen in zip(values, columns, strict=True) if chosen]


def _registers(function: Function, target: Target) -> tuple[int, int] | None:
    """Registers of a thread that copies, and of one that multiplies: what is left to it of those at the start."""
    ways, rule = dict[str, tuple[int, int] | None](none=None), "none"
    at_start = registers_at_start(function, target) // 8 * 8
    left = (at_start * function.launched - LEAST_REGISTERS * WARPS * WARP) // function.threads // 8 * 8
    most = min(left, MOST_OF_ROLE)
    if target.arch.endswith("a") and function.warps % WARPS == 0 and most > at_start >= LEAST_REGISTERS:
        rule = f"{LEAST_REGISTERS}, {most}"
        ways[rule] = LEAST_REGISTERS, most
    because = f"{at_start} a thread at the start; the warps that copy need few"
    taken: tuple[int, int] | None = function.choices.choose("registers", "roles", ways, rule, because=because)
    return taken
