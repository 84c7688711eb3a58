"""Declares operations between the threads of a warp, a block or a cluster: reductions, scans, shuffles, votes, layout
conversions, and the exchange between the blocks of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from dsl.lowering.ir.function import Block, Op, Value, walk
from dsl.lowering.ir.targets import WARP
from dsl.lowering.ir.types import I1, INDEX, TileType, Type
from dsl.lowering.known.facts import Analysis, Facts
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.ops.placing import Placed, Placing, alike, in_one, plain
from dsl.lowering.ops.shapes import axis_of, in_registers, stacked
from dsl.lowering.ops.spec import Algebra, Control, ElementFacts, Mismatch, Placement, nothing, row, same_types


def _infer_reduce(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    axis = axis_of(operands[0], attrs)
    out: list[Type] = []
    for operand in operands:
        shape = operand.shape
        if shape != operands[0].shape:
            raise Mismatch("tiles of different shapes are reduced together")
        out.append(TileType((*shape[:axis], *shape[axis + 1 :]), operand.dtype))
    return out


def _infer_vote(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    if operands[0].dtype is not I1:
        raise Mismatch(f"a vote takes i1; got {operands[0].dtype}")
    return [operands[0].tile.with_dtype(attrs["dtype"])]


def _infer_partial(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    axis, parts = axis_of(operands[0], attrs), attrs["parts"]
    if any(o.shape != operands[0].shape for o in operands) or operands[0].shape[axis] % parts:
        raise Mismatch(f"the tiles have not {parts} parts along axis {axis}")
    return [TileType((*o.shape[:axis], parts, *o.shape[axis + 1 :]), o.dtype) for o in operands]


def _infer_scan(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    axis_of(operands[0], attrs)
    if any(o.shape != operands[0].shape for o in operands):
        raise Mismatch("tiles of different shapes are scanned together")
    return same_types(operands, attrs)


SCATTER_HEAD = 16
"""The number of bytes in front of the elements of a `cluster_scatter`: its mbarrier, and padding."""
TURNS = 8
"""The shared tile of an exchange in a loop has room for two rounds of so many exchanges."""
MBARRIERS = 8 * (2 * TURNS + 2)
"""The number of bytes in front of them: an mbarrier for each exchange, and one for each round."""


def word_bytes(values: Sequence[Value]) -> int:
    """Returns the number of bytes of the words in which blocks exchange the elements of these tiles: 4 or 8."""
    return 8 if any(value.dtype is INDEX or value.dtype.bits > 32 for value in values) else 4


def scattered_bytes(values: Sequence[Value]) -> int:
    """Returns the number of bytes in which a block gives these tiles to another block of its cluster."""
    return sum(prod(value.tile.shape) for value in values) * word_bytes(values)


def scattered_place(values: Sequence[Value]) -> int:
    """Returns the number of bytes between the places of what two blocks give. Accesses have up to 16 bytes."""
    return -(-scattered_bytes(values) // 16) * 16


def exchanges_in(body: Block) -> list[Op]:
    """Returns the operations by which the blocks of a cluster exchange tiles."""
    return [op for op in walk(body) if op.spec.acts == "exchanges" and op.results]


def _infer_gather(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [TileType((attrs["blocks"], *o.tile.shape), o.dtype) for o in operands[1 : len(operands) - attrs["again"]]]


def _infer_scatter(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    if (len(operands) - 1) % attrs["blocks"]:
        raise Mismatch(f"{len(operands) - 1} tiles are no groups of {attrs['blocks']}")
    return [operand.type for operand in operands[1:]]


def _infer_shuffle(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    extent, width = operands[0].shape[axis_of(operands[0], attrs)], attrs["width"]
    # the width may exceed a warp, because a shuffle may also rename registers
    if width is None or width & (width - 1) or width > extent:
        raise Mismatch(f"groups of {width} along an axis of {extent}: a power of two up to it")
    if (attrs["distance"] is None) != (len(operands) == 2):
        raise Mismatch("the distance is an operand or an attribute")
    return [operands[0].tile]


# ---- layouts ----


def _spread_reduce(op: Op, value: Value, layout: Layout) -> list[tuple[Value, Layout]]:
    if value not in op.operands:
        return [(r, layout) for r in op.results]
    if not (layout.is_pure(op.attrs["axis"]) and layout.has_plain_copies):
        return []
    result = layout.drop(op.attrs["axis"])
    return [(v, layout) for v in op.operands] + [(r, result) for r in op.results if r.tile.shape]


def _place_reduce(a: Placing, op: Op) -> Placed:
    layout, axis = _reducible(a, op), op.attrs["axis"]
    return [layout] * len(op.operands), [layout.drop(axis) if r.tile.shape else None for r in op.results]


def _reducible(a: Placing, op: Op) -> Layout:
    axis = op.attrs["axis"]
    for o in op.operands:
        layout = a.layouts.get(o)
        if layout is not None and layout.is_pure(axis) and layout.has_plain_copies:
            return layout
    shape = op.operands[0].tile.shape
    wanted = a.layouts.get(op.results[0])
    if wanted is not None and axis == len(shape) - 1 and all(a.is_cheap(o) for o in op.operands):
        # the operands are cheap, so each thread computes all elements that it reduces
        return stacked(wanted, shape[axis])
    return Layout.default(shape, a.warps)


def _scan_layout(shape: tuple[int, ...], axis: int, warps: int) -> Layout:
    """Returns a layout in which all elements along `axis` are in one warp. Each lane holds consecutive elements in its
    registers, and the next lane holds the following elements. A scan in this layout needs no shared memory."""
    rest = [e if i != axis else 1 for i, e in enumerate(shape)]
    lanes = [1] * len(shape)
    lanes[axis] = min(WARP, shape[axis])
    left = WARP // lanes[axis]
    vector = [1] * len(shape)
    vector[axis] = shape[axis] // lanes[axis]
    rows = [1] * len(shape)
    count = warps
    for i in reversed(range(len(shape))):
        if i != axis:
            lanes[i] = min(left, rest[i])
            left //= lanes[i]
            rows[i] = min(count, rest[i] // lanes[i])
            count //= rows[i]
    lanes[axis] *= left  # the remaining lanes have copies of elements
    rows[axis] *= count
    return Layout.blocked(shape, tuple(vector), tuple(lanes), tuple(rows))


def _place_scan(a: Placing, op: Op) -> Placed:
    axis = op.attrs["axis"]
    for o in op.operands:
        layout = a.layouts.get(o)
        if layout is None or not layout.is_ordered(axis):
            continue
        if not any(b & layout.axis_mask(axis) for b in layout.warp):
            return in_one(op, layout)
    return in_one(op, _scan_layout(op.operands[0].tile.shape, axis, a.warps))


def _spread_gather(op: Op, value: Value, layout: Layout) -> list[tuple[Value, Layout]]:
    pairs = list(zip(op.operands[1:], op.results, strict=False))
    back = [(o, layout.drop(0)) for o, r in pairs if r is value and o.tile.shape and in_registers(layout, 0)]
    return back + [(r, stacked(layout, op.attrs["blocks"], 0)) for o, r in pairs if o is value]


def _place_gather(a: Placing, op: Op) -> Placed:
    """Each thread gets the elements of all blocks that it has of its own block."""
    own: list[Layout | None] = [None]
    lying: list[Layout | None] = []
    for value in op.operands[1 : 1 + len(op.results)]:
        shape = value.tile.shape
        layout = a.chosen(value) if shape else Layout.of_one((), a.warps)
        if layout is None or not layout.has_plain_copies:
            layout = Layout.default(shape, a.warps)
        own.append(layout if shape else None)
        lying.append(stacked(layout, op.attrs["blocks"], 0))
    return [*own, *[None] * op.attrs["again"]], lying


def groups_of_scatter(op: Op) -> list[list[Value]]:
    """Returns the operands and results of a `cluster_scatter`, in groups that have one layout."""
    count = op.attrs["blocks"]
    return [
        [*op.operands[1 + first : 1 + first + count], *op.results[first : first + count]]
        for first in range(0, len(op.results), count)
    ]


def _spread_scatter(op: Op, value: Value, layout: Layout) -> list[tuple[Value, Layout]]:
    return [(other, layout) for group in groups_of_scatter(op) if value in group for other in group]


def _place_scatter(a: Placing, op: Op) -> Placed:
    """A thread gets the elements that it has of its own block. Copies of an element are in other threads."""
    layouts: list[Layout | None] = []
    for group in groups_of_scatter(op):
        shape, layout = group[0].tile.shape, None
        if shape:
            found = [each for value in group if (each := a.chosen(value)) is not None and each.has_plain_copies]
            layout = found[0] if found else Layout.default(shape, a.warps)
        layouts += [layout] * op.attrs["blocks"]
    return [None, *layouts], layouts


def _place_vote(a: Placing, op: Op) -> Placed:
    """Chooses a layout in which a warp holds 32 neighbours. For a ballot, lane i must hold the i-th neighbour, because
    its flag becomes bit i of the result."""
    (layout,), _ = plain(a, op)
    default = Layout.default(op.result.tile.shape, a.warps)
    if layout is not None and (
        layout.lane == default.lane if op.attrs["mode"] == "ballot" else sorted(layout.lane) == sorted(default.lane)
    ):
        return in_one(op, layout)
    return in_one(op, default)


def _vote_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    """Returns the facts about a vote: in each group of 32 neighbours in row-major order, all elements of the result are
    equal."""
    same, left = [], WARP
    for extent in reversed(shape):
        same.append(min(extent, left))
        left //= same[-1]
    ones = (1,) * len(shape)
    return Facts(1, ones, ones, tuple(same[::-1]))


def _along_reduce(op: Op, value: Value, axis: int) -> dict[Value, int] | None:
    """Maps the values of a reduction to corresponding axes. Returns None for the reduced axis."""
    gone = op.attrs["axis"]
    if value in op.results:
        axis += gone <= axis
    if axis == gone:
        return None
    return dict.fromkeys(op.operands, axis) | dict.fromkeys(op.results, axis - (gone < axis))


# ---- the operations ----

row(
    "reduce", (1, None), _infer_reduce, "axis", control=Control("joins"), algebra=Algebra(unordered=True),
    placement=Placement(_spread_reduce, place=_place_reduce, exchange=lambda a, op: a.reduce(op)),
    elements=ElementFacts(along=_along_reduce),
)  # fmt: skip
# Along the axis, the result has one element for each warp.
row(
    "partial_reduce", (1, None), _infer_partial, "axis parts", control=Control("joins"),
    algebra=Algebra(unordered=True),
)  # fmt: skip
row(
    "scan", (1, None), _infer_scan, "axis reverse", control=Control("joins"),
    placement=Placement(alike, place=_place_scan),
)  # fmt: skip
row(
    "shuffle", (1, 2), _infer_shuffle, "mode axis width distance", operands="tile whole", becomes="shfl.sync.up.b32",
    acts="meets", placement=Placement(alike),
)  # fmt: skip
row(
    "vote", 1, _infer_vote, "mode dtype", becomes="vote.sync.any.pred", acts="meets",
    placement=Placement(alike, place=_place_vote), elements=ElementFacts(_vote_facts),
)  # fmt: skip
row(
    "convert_layout", 1, same_types, "layout", elements=ElementFacts(form=lambda forms, op: forms.moved(op)),
    placement=Placement(anywhere=False, exchange=lambda a, op: a.convert(op),
                        picks=lambda op, source, result: source.registers_of(result)),
)  # fmt: skip
# The blocks of a cluster exchange tiles: element [b, …] of a result is element […] of the operand in block b. The first
# operand is a shared tile of bytes for the operands of all blocks. `cluster_wait` before the first exchange waits until
# all blocks have arrived at `cluster_arrive`, because a block must run before others may write its shared memory. An
# exchange in a loop has the attribute `again`. Its last operand counts how often it was executed, and its shared tile
# has room for two exchanges: a block writes for the next one while others still read. At `cluster_leave`, a block has
# read for the last time. No block ends before all have: it waits at a last `cluster_wait`.
row(
    "cluster_gather", (2, None), _infer_gather, "blocks again", operands="shared tile", acts="exchanges",
    placement=Placement(_spread_gather, place=_place_gather),
)  # fmt: skip
# The blocks of a cluster give parts of tiles to each other. The operands are groups of one tile for each block, and
# number b of a group is for block b. Number b of the same group of results is what block b gave to this block.
row(
    "cluster_scatter", (2, None), _infer_scatter, "blocks", operands="shared tile", acts="exchanges",
    placement=Placement(_spread_scatter, place=_place_scatter),
)  # fmt: skip
row("cluster_arrive", 0, nothing, acts="exchanges")
row("cluster_wait", 0, nothing, acts="exchanges")
row("cluster_leave", 0, nothing, acts="exchanges")
