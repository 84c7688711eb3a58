"""Declares operations that make tiles without operands, and operations that change shapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import INDEX, TileType, Type
from dsl.lowering.known.facts import ANY, Analysis, Facts, start_of, unknown
from dsl.lowering.layouts.layout import BasisSpan, Layout
from dsl.lowering.ops.kinds import flaw_of_number
from dsl.lowering.ops.placing import Placed, Placing, in_one, spread_back
from dsl.lowering.ops.spec import Algebra, ElementFacts, Makes, Mismatch, Placement, row, same_axis


def _infer_constant(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    if (flaw := flaw_of_number(attrs["value"], attrs["dtype"])) is not None:
        raise Mismatch(flaw)
    return [TileType(tuple(attrs.get("shape", ())), attrs["dtype"])]


def _infer_arange(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [TileType((attrs["extent"],), INDEX)]


def _infer_reshape(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    if prod(operands[0].tile.shape) != prod(attrs["shape"]):
        raise Mismatch(f"{operands[0].tile} has not the elements of {list(attrs['shape'])}")
    return [TileType(tuple(attrs["shape"]), operands[0].dtype)]


def _infer_broadcast(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    source, shape = operands[0].tile, tuple(attrs["shape"])
    if source.shape and (
        len(source.shape) != len(shape) or any(a not in (1, b) for a, b in zip(source.shape, shape, strict=True))
    ):
        raise Mismatch(f"cannot broadcast {list(source.shape)} to {list(shape)}")
    return [TileType(shape, source.dtype)]


def _infer_transpose(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    if sorted(attrs["axes"]) != list(range(len(operands[0].shape))):
        raise Mismatch(f"{list(attrs['axes'])} are not the axes of {operands[0].tile}")
    return [TileType(tuple(operands[0].shape[a] for a in attrs["axes"]), operands[0].dtype)]


def _infer_stack(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    first = operands[0].tile
    if any(o.tile.shape != first.shape or o.dtype is not first.dtype for o in operands):
        raise Mismatch(f"cannot stack {', '.join(str(o.tile) for o in operands)}")
    return [TileType((*first.shape, len(operands)), first.dtype)]


def _infer_pick(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    source, axis = operands[0].tile, axis_of(operands[0], attrs)
    if attrs["index"] >= source.shape[axis]:
        raise Mismatch(f"there is no index {attrs['index']} along axis {axis} of {source}")
    return [TileType((*source.shape[:axis], *source.shape[axis + 1 :]), source.dtype)]


def _infer_split(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    source, to = operands[0].tile, attrs["to"]
    if not source.shape or source.dtype.bits != 8 or to.kind != "operand" or to.bits >= 8:
        raise Mismatch(f"the elements of {source} cannot be split into {to}")
    return [TileType((*source.shape[:-1], source.shape[-1] * (8 // to.bits)), to)]


def axis_of(operand: Value, attrs: dict[str, Any]) -> int:
    """Returns the attribute `axis`. Raises Mismatch if the operand has no such axis."""
    axis: int = attrs["axis"]
    if axis >= len(operand.shape):
        raise Mismatch(f"{operand.tile} has no axis {axis}")
    return axis


def _infer_of_grid(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    if attrs["axis"] > 2:
        raise Mismatch(f"a grid has no axis {attrs['axis']}")
    return [TileType((), INDEX)]


# ---- layouts ----

Spreading = list[tuple[Value, Layout]]


def _spread_reshape(op: Op, value: Value, layout: Layout) -> Spreading:
    other = op.result if value is op.operands[0] else op.operands[0]
    return [(other, layout.reshape(other.tile.shape))] if other.tile.shape else []


def _inverse(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(axes.index(i) for i in range(len(axes)))


def _spread_transpose(op: Op, value: Value, layout: Layout) -> Spreading:
    axes = op.attrs["axes"]
    if value is op.operands[0]:
        return [(op.result, layout.transpose(axes))]
    return [(op.operands[0], layout.transpose(_inverse(axes)))]


def _narrowed(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """Returns the layout of the source of a broadcast, given the layout of its result. `shape` is the shape of the
    source."""
    for axis, extent in enumerate(shape):
        if extent == 1 and layout.shape[axis] != 1:
            layout = layout.drop(axis, keep=True)
    return layout


def _spread_broadcast(op: Op, value: Value, layout: Layout) -> Spreading:
    """Propagates layouts only from the result to the source. The other direction is ambiguous, because many layouts of
    the result correspond to one layout of the source."""
    source = op.operands[0]
    return [(source, _narrowed(layout, source.tile.shape))] if value is op.result and source.tile.shape else []


def in_registers(layout: Layout, axis: int) -> bool:
    """Returns whether all elements along an axis are in registers of the same thread."""
    axis %= len(layout.shape)
    return layout.is_pure(axis) and not any(b & layout.axis_mask(axis) for b in layout.thread)


def stacked(layout: Layout, count: int, axis: int | None = None) -> Layout:
    """Adds an axis to a layout, by default as the last axis. All elements along it are in registers of the same
    thread."""
    bases = tuple(1 << i for i in range(count.bit_length() - 1))
    return layout.expand(len(layout.shape) if axis is None else axis, count, bases)


def _unpicked(op: Op, layout: Layout) -> Layout:
    """Returns a layout of the whole tile, given the layout of the part that `pick` selects. Each thread holds the same
    elements of all parts."""
    axis = op.attrs["axis"]
    return stacked(layout, op.operands[0].tile.shape[axis], axis)


def _spread_stack(op: Op, value: Value, layout: Layout) -> Spreading:
    if value in op.operands:
        return [(v, layout) for v in op.operands] + [(op.result, stacked(layout, len(op.operands)))]
    return [(v, layout.drop(len(layout.shape) - 1)) for v in op.operands] if in_registers(layout, -1) else []


def _place_stack(a: Placing, op: Op) -> Placed:
    """Keeps the new axis in registers, because one thread holds all elements that are stacked together."""
    wanted, first, count = a.layouts[op.result], op.operands[0], len(op.operands)
    inside = a.of_branch(first)
    if inside is not None:
        wanted = stacked(inside, count)
    elif not in_registers(wanted, -1):
        wanted = stacked(a.layouts.get(first) or wanted.drop(len(wanted.shape) - 1), count)
    return in_one(op, wanted)


def _spread_pick(op: Op, value: Value, layout: Layout) -> Spreading:
    if value is op.result:
        return [(op.operands[0], _unpicked(op, layout))]
    axis = op.attrs["axis"]
    return [(op.result, layout.drop(axis))] if in_registers(layout, axis) and op.result.tile.shape else []


def _place_pick(a: Placing, op: Op) -> Placed:
    """Uses the layout of the whole tile if its axis is in registers. Then no element moves to another thread."""
    whole, axis = a.chosen(op.operands[0]), op.attrs["axis"]
    if whole is not None and in_registers(whole, axis):
        return [whole], [whole.drop(axis)]
    layout = a.chosen(op.result) or Layout.default(op.result.tile.shape, a.warps)
    return [_unpicked(op, layout)], [layout]


def _split(whole: Layout, shape: tuple[int, ...]) -> Layout:
    """Returns the layout of the elements into which bytes are split, given the layout of the bytes. The elements of one
    byte are in consecutive registers."""
    parts = shape[-1] // whole.shape[-1]
    inner = tuple(1 << i for i in range(parts.bit_length() - 1))
    return Layout.registers(
        shape,
        (*inner, *(b * parts for b in whole.register)),
        (b * parts for b in whole.lane),
        (b * parts for b in whole.warp),
    )


def _whole_of(layout: Layout, shape: tuple[int, ...]) -> Layout | None:
    """The inverse of `_split`: returns the layout of the bytes, given the layout of their elements. Returns None if the
    elements of a byte are not in consecutive registers of one thread."""
    parts = layout.shape[-1] // shape[-1]
    bits = parts.bit_length() - 1
    whole = Layout.registers(
        shape,
        (b // parts for b in layout.register[bits:]),
        (b // parts for b in layout.lane),
        (b // parts for b in layout.warp),
    )
    return whole if _split(whole, layout.shape) == layout else None


def _spread_split(op: Op, value: Value, layout: Layout) -> Spreading:
    if value is op.operands[0]:
        return [(op.result, _split(layout, op.result.tile.shape))]
    whole = _whole_of(layout, op.operands[0].tile.shape)
    return [(op.operands[0], whole)] if whole is not None else []


def _place_split(a: Placing, op: Op) -> Placed:
    source = op.operands[0]
    whole = _whole_of(a.layouts[op.result], source.tile.shape)
    if whole is None:
        whole = a.layouts.get(source) or Layout.default(source.tile.shape, a.warps)
    return [whole], [_split(whole, op.result.tile.shape)]


def _takes_stack(op: Op, value: Value, layout: Layout) -> Layout:
    return layout.drop(len(layout.shape) - 1)


# ---- axes ----


def _along_broadcast(op: Op, value: Value, axis: int) -> dict[Value, int]:
    """Returns the same axis for the source, unless the source is repeated along this axis."""
    source, whole = op.operands[0], op.result.shape
    repeated = not source.shape or source.shape[axis] != whole[axis]
    return {op.result: axis} if repeated else {op.result: axis, source: axis}


def _along_reshape(op: Op, value: Value, axis: int) -> dict[Value, int] | None:
    """Returns the corresponding axis of the other shape. Returns None if the reshape splits the axis or joins it with
    another axis."""
    other = op.result if value is op.operands[0] else op.operands[0]
    before = prod(value.shape[:axis])
    same = [i for i, e in enumerate(other.shape) if e == value.shape[axis] and prod(other.shape[:i]) == before]
    return {value: axis, other: same[0]} if same else None


def _along_transpose(op: Op, value: Value, axis: int) -> dict[Value, int]:
    if value is op.result:
        axis = op.attrs["axes"][axis]
    return {op.operands[0]: axis, op.result: op.attrs["axes"].index(axis)}


def _along_stack(op: Op, value: Value, axis: int) -> dict[Value, int] | None:
    """Returns the same axis for all values, or None for the last axis, along which tiles are stacked."""
    if axis == len(op.result.shape) - 1:
        return None
    return {**dict.fromkeys(op.operands, axis), op.result: axis}


def _along_split(op: Op, value: Value, axis: int) -> dict[Value, int] | None:
    """Returns the same axis for both values, or None for the last axis, along which the result has more elements."""
    return None if axis == len(value.shape) - 1 else {op.operands[0]: axis, op.result: axis}


# ---- registers ----


def _repeated(op: Op, source: Layout, result: Layout) -> list[int] | None:
    return source.repeated_in(result)


def _reshaped(op: Op, source: Layout, result: Layout) -> list[int] | None:
    return source.reshape(result.shape).registers_of(result)


def _transposed(op: Op, source: Layout, result: Layout) -> list[int] | None:
    return source.transpose(op.attrs["axes"]).registers_of(result)


def _picked(op: Op, source: Layout, result: Layout) -> list[int] | None:
    """Returns the registers that hold the elements with the picked index. Returns None if the axis is not in
    registers."""
    axis, index = op.attrs["axis"], op.attrs["index"]
    span, inner = BasisSpan(source.register), prod(source.shape[axis + 1 :])
    out = []
    for at in result.offsets:
        register = span.solve(at // inner * inner * source.shape[axis] + index * inner + at % inner)
        if register is None:
            return None
        out.append(register)
    return out


# ---- numbers ----


def _fold_broadcast(builder: Makes, operands: Sequence[Value], attrs: dict[str, Any]) -> Value | None:
    """Removes a broadcast to the same shape, and merges two broadcasts of a scalar."""
    (value,), shape = operands, tuple(attrs["shape"])
    if value.tile.shape == shape:
        return value
    made = value.op
    if made is not None and made.name == "broadcast" and not made.operands[0].tile.shape:
        return builder.value("broadcast", made.operands[0], shape=shape)
    return None


def _fold_reshape(builder: Makes, operands: Sequence[Value], attrs: dict[str, Any]) -> Value | None:
    (value,), shape = operands, tuple(attrs["shape"])
    made = value.op
    if value.tile.shape != shape and made is not None and made.name == "reshape":
        return builder.reshape(made.operands[0], shape)
    return _fold_broadcast(builder, operands, attrs)


def _broadcast_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a = an.of(op.operands[0])
    source = op.operands[0].tile.shape
    if not source:
        return Facts(a.every, (1,) * len(shape), (a.every,) * len(shape), shape, a.low, a.high)
    repeated = [x != y for x, y in zip(source, shape, strict=True)]
    run = tuple(1 if again else length for again, length in zip(repeated, a.run, strict=True))
    start = tuple(a.every if again else first for again, first in zip(repeated, a.start, strict=True))
    same, *of_masks = (
        tuple(extent if again else x for again, extent, x in zip(repeated, shape, group, strict=True))
        for group in a.groups
    )
    return Facts(a.every, run, start, same, a.low, a.high, *of_masks)


def _reshape_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    """Returns the facts about the result of a reshape. If the reshape only adds or removes axes of extent 1, all facts
    stay valid. Otherwise, only the facts about the innermost axis stay valid, limited to its new extent."""
    a = an.of(op.operands[0])
    wide = [i for i, e in enumerate(op.operands[0].tile.shape) if e > 1]
    to = [i for i, e in enumerate(shape) if e > 1]
    if [op.operands[0].tile.shape[i] for i in wide] != [shape[i] for i in to]:
        wide, to = wide[-1:], to[-1:]
    source = dict(zip(to, wide, strict=True))
    fitted = [
        tuple(min(group[source[j]], extent) if j in source else 1 for j, extent in enumerate(shape))
        for group in (a.run, *a.groups)
    ]
    run, same, *of_masks = fitted
    start = tuple(start_of(a, source[j], run[j]) if j in source else a.every for j in range(len(shape)))
    return Facts(a.every, run, start, same, a.low, a.high, *of_masks)


def _transpose_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a, axes = an.of(op.operands[0]), op.attrs["axes"]
    run, start, same, *of_masks = (tuple(t[x] for x in axes) for t in (a.run, a.start, *a.groups))
    return Facts(a.every, run, start, same, a.low, a.high, *of_masks)


def _block_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    most = an.bounds.most_blocks(op.attrs["axis"])
    return unknown(shape, 0, None if most is None else most - 1)


def _blocks_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    return unknown(shape, 1, an.bounds.most_blocks(op.attrs["axis"]))  # at least 1: the current block


def _cluster_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    most = an.bounds.most_blocks(op.attrs["axis"])
    return unknown(shape, 0, None if most is None else (most - 1) // op.attrs["blocks"])


# ---- the operations ----

row(
    "constant", 0, _infer_constant, "value dtype",
    elements=ElementFacts(form=lambda forms, op: forms.number(op), kind="number"),
)  # fmt: skip
row(
    "arange", 0, _infer_arange, "extent",
    elements=ElementFacts(lambda an, op, shape: Facts(1, shape, (ANY,), (1,), 0, shape[0] - 1),
                          lambda forms, op: forms.counted(op), same_axis, kind="places"),
)  # fmt: skip
row(
    "broadcast", 1, _infer_broadcast, "shape",
    placement=Placement(_spread_broadcast, spread_back, picks=_repeated), algebra=Algebra(fold=_fold_broadcast),
    elements=ElementFacts(
        _broadcast_facts, lambda forms, op: forms.repeated(op), _along_broadcast, kind="equal", reshapes=True
    ),
)  # fmt: skip
row(
    "reshape", 1, _infer_reshape, "shape",
    placement=Placement(_spread_reshape, spread_back, picks=_reshaped), algebra=Algebra(fold=_fold_reshape),
    elements=ElementFacts(_reshape_facts, lambda forms, op: forms.reshaped(op), _along_reshape, reshapes=True),
)  # fmt: skip
row(
    "transpose", 1, _infer_transpose, "axes",
    placement=Placement(_spread_transpose, spread_back, picks=_transposed),
    elements=ElementFacts(_transpose_facts, lambda forms, op: forms.transposed(op), _along_transpose),
)  # fmt: skip
row(
    "stack", (2, None), _infer_stack, elements=ElementFacts(along=_along_stack),
    placement=Placement(_spread_stack, _takes_stack, _place_stack, anywhere=False),
)  # fmt: skip
# Picks the elements of a tile that have a given index along an axis.
row("pick", 1, _infer_pick, "axis index", placement=Placement(_spread_pick, spread_back, _place_pick, picks=_picked))
# Splits bytes into smaller elements along the last axis, with the lowest bits first.
row(
    "split", 1, _infer_split, "to", elements=ElementFacts(along=_along_split),
    placement=Placement(_spread_split, place=_place_split, anywhere=False),
)  # fmt: skip
row(
    "block_id", 0, _infer_of_grid, "axis",
    elements=ElementFacts(_block_facts, lambda forms, op: forms.block(op), of_grid="block"),
)  # fmt: skip
row(
    "grid_size", 0, _infer_of_grid, "axis",
    elements=ElementFacts(_blocks_facts, lambda forms, op: forms.blocks(op), of_grid="blocks"),
)  # fmt: skip
# `cluster_id` is the index of this cluster of `blocks` blocks along x. `cluster_rank` is the index of this block in its
# cluster along one axis of tiles. Along this axis there are `blocks` blocks, and their ranks differ by `apart`.
row("cluster_id", 0, _infer_of_grid, "axis blocks", elements=ElementFacts(_cluster_facts, of_grid="cluster"))
row(
    "cluster_rank", 0, _infer_of_grid, "axis blocks apart",
    elements=ElementFacts(lambda an, op, shape: unknown(shape, 0, op.attrs["blocks"] - 1), of_grid="rank"),
)  # fmt: skip
