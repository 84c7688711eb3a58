"""`stage c: tma`: writes tensor c by TMA, from shared memory, while the block continues.

    store c[…], v        →        tma_wait; store sc, v; tma_fence; tma_store c[…], sc; tma_commit
                                  …
                                  tma_wait 0

The thread that starts a TMA store waits for it before the block writes the same shared memory again, as in the next
iteration of a loop. The thread also waits at the kernel's end, because shared memory is released there.
`insert_barriers` adds barriers as for any access. After layouts are assigned, `lower_copies` chooses the threads that
start the stores. If each warp has whole rows, one lane of each warp stores the warp's rows. Otherwise one thread stores
the whole tile.

`atomic_add(c[…], v)` and other atomics whose result is unused become TMA stores that reduce: the memory adds each
element of the tile to that of the tensor.

Subtiles use the stages of one shared tile in turn. By default, it has two stages.
"""

from __future__ import annotations

from math import prod

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.building.builder import Builder
from dsl.lowering.directives.slices import enclosing, located
from dsl.lowering.directives.staged import shared_tile, taken_names
from dsl.lowering.directives.tma import TMA, boxed, flaw_of_box, part_of_rows, swizzle_of_box
from dsl.lowering.hopper.boxes import AHEAD, OF_BLOCKS, CopiedBox, with_box
from dsl.lowering.ir.function import Block, Function, Op, Value, blocks_of, in_line, parents, put, uses, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import SharedType, TileType
from dsl.lowering.known.facts import Analysis, facts_now
from dsl.lowering.ops import operand
from dsl.lowering.ops.control import parting
from dsl.lowering.plan.tile_loads import is_reduction, is_store
from dsl.lowering.shared.atoms import places_in_atoms, shape_in_atoms

MOST_AT_ONCE = 32768
"""By default, at most this many bytes of TMA stores are in flight, or one subtile.

These times are for products of 4096 and of 8192 on an H100, as factors of the time with stores by threads. With s32
results of s8 and subtiles of 16 KB, they are 0.947 and 0.986 for two stages, and 0.951 and 0.986 for one. With bf16
results of e4m3 and subtiles of 32 KB, they are 0.973 and 0.996 for one stage, and 0.988 and 1.000 for two. The second
32 KB come from the ring of operands, which then has one stage less.
"""


INTEGERS = ("u32", "s32", "u64")
HALVES = ("f16", "bf16")
REDUCED = {
    "add": (*INTEGERS, *HALVES, "f32"),
    **dict.fromkeys(("min", "max"), (*INTEGERS, "s64")),
    **dict.fromkeys(("and", "or", "xor"), INTEGERS),
}
"""Maps the actions of atomics to the element types for which TMA has them (PTX ISA, "cp.reduce.async.bulk.tensor"). It
does not say what min and max of f16 and bf16 make of NaN."""


def tma_stores(function: Function, target: Target) -> None:
    """Rewrites the stores of each tensor with a line `stage …: tma`. Raises TileError `instruction` if TMA cannot do a
    store."""
    said = function.by_subject("stage", str)
    writing = [op for op in walk(function.body) if is_store(op) or is_reduction(op)]
    stores = [op for op in writing if said.get(op.operands[0].name or "") == TMA]
    if not stores:
        return
    for op in stores:
        _by_axes(function, op)
    facts, around = facts_now(function), parents(function.body)
    for op in stores:
        wrong = flaw_of_store(function, target, facts, op, around, stores)
        if wrong is not None:
            place, name = function.lines.get(("stage", op.operands[0].name or "")), op.operands[0].name
            raise TileError("instruction", place or op.loc, f"'{name}' cannot be stored by TMA: {wrong[0]}", wrong[1])
    head = Block()
    ways = _stages(function, facts, stores, head)
    waits = _waits(function, ways, around)
    for op in stores:
        _lower(function, op, ways[op], waits[op])
    b = Builder(located(function, stores[-1]))
    with b.region(Block()) as end:
        b.op("tma_wait", groups=0)
    function.body.ops = [*head.ops, *function.body.ops, *end.ops]


def _by_axes(function: Function, op: Op) -> None:
    """Reshapes a stored tile so that each of its axes is an axis of the box. Example: an axis of 128 = 16 x 8 pixels
    becomes two axes."""
    value = operand(op, "value")
    if value is None or "box" not in op.attrs:
        return
    box = CopiedBox.of(op)
    told = sorted((axis for axis in box.axes if axis.along >= 0), key=lambda axis: (axis.along, -axis.step))
    shape = tuple(axis.extent for axis in told)
    if len(shape) == len(value.shape) or prod(shape) != prod(value.shape):
        return
    b = Builder(located(function, op))
    with b.region(Block()) as made:
        same = {v: b.reshape(v, shape) for v in op.operands if isinstance(v.type, TileType) and v.shape == value.shape}
    axes = [replace(axis, along=told.index(axis), step=1) if axis in told else axis for axis in box.axes]
    operands = [same.get(v, v) for v in op.operands]
    op.operands = with_box(op.attrs, operands, replace(box, axes=tuple(axes)))
    put(function.body, op, [*made.ops, op])


def flaw_of_store(
    function: Function, target: Target, facts: Analysis, op: Op, around: dict[Op, Op], stores: list[Op]
) -> tuple[str, str] | None:
    """Checks whether TMA can do a store. Returns None if it can, otherwise the reason why not and a hint."""
    shared = f"stage {op.operands[0].name}: shared"
    # Nothing orders a TMA store with other accesses to the same tensor: they may run while the store is in flight.
    for other in walk(function.body):
        if other.spec.access.touches and other not in stores and op.operands[0] in other.operands:
            return f"the kernel accesses it elsewhere, too{in_line(other)}", shared
    if is_reduction(op) and (flaw := _flaw_of_reduction(function, op)) is not None:
        return flaw, f"stage {op.operands[0].name}: registers"
    if any(parting(outside) is not None for outside in enclosing(op, around)):
        return f"it is stored in a branch of threads{in_line(op)}", shared
    if op.attrs.get("no_box", "").startswith((AHEAD, OF_BLOCKS)):
        return op.attrs["no_box"], shared
    wrong = flaw_of_box(function, target, facts, op)
    if wrong is not None:
        return wrong
    part = part_of_rows(function, facts, op)
    if part is not None:  # only if the pass `stage` was skipped, which would have staged this store
        return part, shared
    if op.attrs.get("evict"):
        return "it is stored with an eviction priority, which TMA stores do not have", "leave out evict="
    value, box = operand(op, "value"), CopiedBox.of(op)
    assert value is not None
    whole = {axis.along for axis in box.axes if axis.step == 1 and axis.extent == value.shape[axis.along]}
    if box.walks or not whole.issuperset(range(len(value.shape))):
        return "an axis of the stored tile is no slice of one axis of the tensor", shared
    return None


def _flaw_of_reduction(function: Function, op: Op) -> str | None:
    """Checks whether TMA can combine a tile with elements of a tensor. Returns the reason why not, or None."""
    action, dtype = op.attrs["action"], op.operands[0].dtype.name
    if dtype not in REDUCED.get(action, ()):
        return f"TMA has no {action} of {dtype}"
    if uses(function.body).get(op.result):
        return f"the kernel uses what 'atomic_{action}' returns{in_line(op)}"
    if (op.attrs["order"], op.attrs["scope"]) != ("relaxed", "gpu"):
        return "TMA has atomics of order relaxed and scope gpu alone"
    return None


class _Stage(Struct, frozen=True):
    """The position of a value in shared memory, from which TMA stores it. `axes` contains the value's axes in the order
    of shared memory. `run` is the number of columns in an atom. The value starts at element `at` of the shared tile."""

    tile: Value
    axes: tuple[int, ...]
    run: int
    at: int


def _stages(function: Function, facts: Analysis, stores: list[Op], head: Block) -> dict[Op, _Stage]:
    """Allocates a shared tile for each tensor and shape of a store. All stores of one shape to one tensor use its
    stages in turn."""
    alike: dict[tuple[Value, tuple[int, ...]], list[Op]] = {}
    for op in stores:
        value = operand(op, "value")
        assert value is not None
        alike.setdefault((op.operands[0], value.shape), []).append(op)
    found: dict[Op, _Stage] = {}
    taken = taken_names(function.body)
    for (tensor, shape), ops in alike.items():
        axes, run = _order(facts, ops[0], shape)
        lying = tuple(shape[axis] for axis in axes)
        held = shape_in_atoms(lying, run)
        options = {str(count): count for count in dict.fromkeys((1, 2, 4, 8, len(ops))) if count <= len(ops)}
        stages = function.choices.choose(
            "stages",
            tensor.name or "tensor",
            options,
            str(min(max(1, MOST_AT_ONCE // (prod(shape) * tensor.dtype.bytes)), 2, len(ops))),
            loc=ops[0].loc,
            because="a subtile is made while the one before is stored" if len(ops) > 1 else "it is stored as a whole",
            costs={name: count * prod(shape) * tensor.dtype.bytes for name, count in options.items()},
            unit="bytes of shared memory",
        )
        b = Builder(located(function, ops[0]))
        with b.region(head):
            swizzle = swizzle_of_box(prod(lying[:-1]), run * tensor.dtype.bytes)
            type = SharedType(held if stages == 1 else (stages, *held), tensor.dtype, swizzle=swizzle, fixed=True)
            tile = shared_tile(b, f"s{tensor.name}", taken, type)
        for number, op in enumerate(ops):
            found[op] = _Stage(tile, axes, run, number % stages * prod(shape))
    return found


def _order(facts: Analysis, op: Op, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Returns the axes of a value in the order of shared memory, and the number of columns in an atom. The axis that is
    contiguous in the tensor is the last one."""
    offset, axes = operand(op, "offset"), tuple(range(len(shape)))
    assert offset is not None
    runs = facts.of(offset).run
    last = len(shape) - 1 if runs[-1] > 1 else runs.index(max(runs))
    rows = prod(shape) // shape[last]
    run = boxed(shape[last], rows, max(runs), op.operands[0].dtype.bytes)
    return (*(axis for axis in axes if axis != last), last), run


def _waits(function: Function, ways: dict[Op, _Stage], around: dict[Op, Op]) -> dict[Op, int | None]:
    """Returns for each store how many groups of TMA stores may still be in flight when the store's stage is written.
    The number is None if no earlier store uses that stage."""
    together = [[op for op in block.ops if op in ways] for block in blocks_of(function.body)]
    together = [ops for ops in together if ops]
    waits: dict[Op, int | None] = {}
    for ops in together:
        for number, op in enumerate(ops):
            way = ways[op]
            same = [i for i, other in enumerate(ops) if (ways[other].tile, ways[other].at) == (way.tile, way.at)]
            before = [i for i in same if i < number]
            if before:
                waits[op] = number - before[-1] - 1
            elif len(together) > 1:
                waits[op] = 0  # with stores in several IR blocks, groups cannot be counted
            else:  # in a loop, after the last store of the previous iteration
                is_in_loop = any(outside.spec.control.loops for outside in enclosing(op, around))
                waits[op] = len(ops) - 1 - same[-1] + number if is_in_loop else None
    return waits


def _lower(function: Function, op: Op, way: _Stage, wait: int | None) -> None:
    """Replaces a store by a store to shared memory, a fence for the async proxy, a TMA store and its commit."""
    value, tensor = operand(op, "value"), op.operands[0]
    assert value is not None
    b = Builder(located(function, op))
    with b.region(Block()) as made:
        if way.axes != tuple(range(len(way.axes))):
            value = b.value("transpose", value, axes=way.axes)
        place = places_in_atoms(b, value.shape, way.run)
        if way.at:
            place = b.value("add", *b.same_shape([place, b.index(way.at)]))
        if wait is not None:
            b.op("tma_wait", groups=wait)
        held = b.reshape(value, place.shape)
        b.access("store", {"memory": way.tile, "offset": place, "value": held}, cache=None, evict=None)
        b.op("tma_fence")
        box = _as_it_lies(CopiedBox.of(op), way.axes)
        parts = {"memory": way.tile, "place": place, "tensor": tensor, "target": operand(op, "offset")}
        pieces = tuple(way.run if axis.along == len(way.axes) - 1 else axis.extent for axis in box.axes)
        attrs = box.attrs | {"pieces": pieces, "by": "block"}
        kept = ("action",) if is_reduction(op) else ("order",)
        attrs |= {name: op.attrs[name] for name in kept if name in op.attrs}
        b.access("tma_store", parts | {"mask": operand(op, "there")} | box.operands, **attrs)
        b.op("tma_commit")
    put(function.body, op, made.ops)


def _as_it_lies(box: CopiedBox, order: tuple[int, ...]) -> CopiedBox:
    """Renumbers the axes of a box for a tile that is transposed to `order`. The innermost axis becomes the first, and
    axes of single elements the last."""
    axes = [replace(axis, along=order.index(axis.along)) if axis.along >= 0 else axis for axis in box.axes]
    return replace(box, axes=tuple(sorted(axes, key=lambda axis: -axis.along)))
