"""Computes offsets in shared tiles that are stored in blocks of columns: first `run` columns of all rows, then the next
`run` columns, and so on.

TMA and wgmma allow rows of at most 128 bytes. A wider tile is divided into swizzle atoms whose rows have at most 128
bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from dsl.lowering.building.builder import Builder, equal
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Value
from dsl.lowering.ir.location import Loc, Source
from dsl.lowering.layouts.layout import row_major

MOST_OF_ROW = 128
"""Maximum number of bytes in a row of a swizzle atom."""


def offsets_within(b: Builder, shape: tuple[int, ...], run: int = 0, rows: int = 0) -> Value:
    """Builds the offset of each element of a tile in row-major order. If `run` is not 0, the first `run` columns of all
    rows are stored first, then the next `run` columns. If the tile is the first part of a larger stored tile, `rows` is
    the number of rows of the larger tile. If `run` exceeds the number of columns, rows of the larger tile have `run`
    columns."""
    if run > shape[-1]:
        return _summed(b, shape, [pitch // shape[-1] * run for pitch in row_major(shape)[:-1]] + [1])
    if run not in (0, shape[-1]):
        columns, width = b.value("arange", extent=shape[-1]), b.broadcast(b.index(run), shape[-1:])
        block = b.broadcast(b.index((rows or prod(shape[:-1])) * run), shape[-1:])
        along = b.value("mul", b.value("floordiv", columns, width), block)
        along = b.value("add", along, b.value("mod", columns, width))
        before = b.value("mul", *b.same_shape([offsets_within(b, (*shape[:-1], 1)), b.index(run)]))
        return b.value("add", b.broadcast(before, shape), b.broadcast(along, shape))
    return _summed(b, shape, row_major(shape))


def _summed(b: Builder, shape: tuple[int, ...], pitches: Sequence[int]) -> Value:
    """Builds the offset of each element, if neighbours along each axis are `pitches[axis]` elements apart."""
    total: Value | None = None
    for axis, (extent, pitch) in enumerate(zip(shape, pitches, strict=True)):
        part = b.reshape(b.value("arange", extent=extent), (1,) * axis + (extent,) + (1,) * (len(shape) - axis - 1))
        if pitch != 1:
            part = b.value("mul", *b.same_shape([part, b.index(pitch)]))
        total = part if total is None else b.value("add", *b.same_shape([part, total]))
    assert total is not None
    return b.broadcast(total, shape)


def shape_in_atoms(shape: tuple[int, ...], run: int) -> tuple[int, ...]:
    """Returns the shape of a shared tile for `shape`, whose swizzle atoms have `run` columns of all rows."""
    *rows, columns = shape
    return (*rows, run) if run == columns else (columns // run, *rows, run)


def places_in_atoms(b: Builder, shape: tuple[int, ...], run: int) -> Value:
    """Builds the same offsets as `offsets_within`, but with two axes for the columns: one counts the swizzle atoms, the
    other counts the columns within an atom."""
    # With two axes the offsets are linear. With one axis, the offset of a column needs a division.
    *rows, columns = shape
    if run == columns:
        return offsets_within(b, shape)
    told = (*rows, columns // run, run)
    pitches = [*(run * prod(rows[axis + 1 :]) for axis in range(len(rows))), prod(rows) * run, 1]
    return _summed(b, told, pitches)


def start_of_whole(offset: Value, shape: tuple[int, ...], run: int, rows: int) -> int | None:
    """If `offset` is the result of `offsets_within` plus a constant, returns this constant (in elements). Otherwise
    returns None."""
    # The offsets of `offsets_within` are built anew, and their operations are compared with those of `offset`.
    b = Builder(Loc(Source("", ""), 0, 0))
    with b.region(Block()):
        whole = offsets_within(b, shape, run, rows)
        if equal(offset, whole):
            return 0
        parts = offset.op.operands if offset.op is not None and offset.op.spec.algebra.sums == (None, "add") else []
        starts = [start for start in map(constant_of, parts) if start is not None]
        is_moved = len(starts) == 1 and any(equal(part, whole) for part in parts)
        return int(starts[0]) if is_moved else None
