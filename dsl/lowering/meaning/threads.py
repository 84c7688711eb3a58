"""Reference semantics of reductions and scans along an axis, shuffles, votes, and exchanges between blocks.

In a kernel, the layout determines the order in which elements are combined. The reference semantics always combine the
two halves of a tile, then the halves of the result, and so on. A partial reduction is the only operation whose result
depends on a layout: it has one element for each warp.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from dsl.lowering.ir.function import Block, Op
from dsl.lowering.ir.targets import WARP
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.machine.formats import Array, spread
from dsl.lowering.meaning.run import Run, meaning


def _fold(run: Run, region: Block, parts: list[Array], axis: int) -> list[Array]:
    """Reduces the elements along an axis by repeatedly combining its two halves."""
    rows = [np.moveaxis(np.asarray(p), axis, 0) for p in parts]
    if run.noise is not None:
        order = run.noise.permutation(rows[0].shape[0])
        rows = [r[order] for r in rows]
    while rows[0].shape[0] > 1:
        half = rows[0].shape[0] // 2
        # `left` contains an element only if the extent is odd. Extents are powers of two, except before the pass
        # `loop`.
        left = [r[2 * half :] for r in rows]
        joined = run.join(region, [r[:half] for r in rows], [r[half : 2 * half] for r in rows])
        made = [spread(j, (half, *r.shape[1:])) for j, r in zip(joined, rows, strict=True)]
        rows = [np.concatenate([m, rest]) if len(rest) else m for m, rest in zip(made, left, strict=True)]
    return [r[0] for r in rows]


def _mark(run: Run, op: Op) -> None:
    run.inexact |= any(o.dtype.is_float for o in op.operands)


@meaning("reduce")
def _reduce(run: Run, op: Op, x: list[Array]) -> list[Array]:
    _mark(run, op)
    return _fold(run, op.regions[0], x, op.attrs["axis"])


@meaning("partial_reduce")
def _partial_reduce(run: Run, op: Op, x: list[Array]) -> list[Array]:
    _mark(run, op)
    axis, parts, layout = op.attrs["axis"], op.attrs["parts"], op.operands[0].tile.layout
    assert layout is not None
    # Elements are reduced by warps, as in the kernel, because the result of each warp is compared.
    part = _warps_along(layout, axis)
    done = [_fold(run, op.regions[0], [np.compress(part == p, v, axis) for v in x], axis) for p in range(parts)]
    return [np.stack([d[k] for d in done], axis) for k in range(len(x))]


@cache
def _warps_along(layout: Layout, axis: int) -> np.ndarray:
    """Maps each index along an axis to the warp that holds it. Warps are numbered along the axis."""
    mask = layout.axis_mask(axis)
    stride = mask & -mask or 1
    inverse = layout.invert()
    below = len(layout.register) + len(layout.lane)
    numbers = [i for i, b in enumerate(layout.warp) if b & mask]
    out = np.zeros(layout.shape[axis], np.int64)
    for coordinate in range(layout.shape[axis]):
        warp = inverse.apply(coordinate * stride) >> below
        out[coordinate] = sum((warp >> number & 1) << i for i, number in enumerate(numbers))
    return out


@meaning("scan")
def _scan(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Combines each element with all preceding elements, or with all following elements if `reverse` is set."""
    _mark(run, op)
    axis, reverse = op.attrs["axis"], op.attrs["reverse"]
    rows = [np.moveaxis(np.asarray(v), axis, 0) for v in x]
    if reverse:
        rows = [r[::-1] for r in rows]
    if run.noise is None:  # a fixed order, with log2 steps on whole arrays
        step = 1
        while step < rows[0].shape[0]:
            joined = _joined(run, op.regions[0], [r[:-step] for r in rows], [r[step:] for r in rows])
            rows = [np.concatenate([r[:step], j]) for j, r in zip(joined, rows, strict=True)]
            step *= 2
    else:
        run.is_scan = True
        rows = _scanned_in_parts(run, op.regions[0], rows)
        run.is_scan = False
    if reverse:
        rows = [r[::-1] for r in rows]
    return [np.moveaxis(r, 0, axis) for r in rows]


def _joined(run: Run, region: Block, left: list[Array], right: list[Array]) -> list[Array]:
    return [np.broadcast_to(j, r.shape) for j, r in zip(run.join(region, left, right), right, strict=True)]


def _scanned_in_parts(run: Run, region: Block, rows: list[Array]) -> list[Array]:
    """Scans along the first axis, which is divided into parts of random length. Each part is scanned. Then the totals
    of the parts are scanned, and combined with the parts. Elements keep their order, because the function of a scan
    need not commute."""
    assert run.noise is not None
    extent = rows[0].shape[0]
    if extent == 1:
        return rows
    size = int(run.noise.choice(PARTS))
    at = np.arange(extent)
    part, place = np.divmod(at + run.noise.integers(size), size)
    rows = [r.copy() for r in rows]

    def join(left: list[Array], here: np.ndarray) -> None:
        if here.size:
            for row, made in zip(rows, _joined(run, region, left, [r[here] for r in rows]), strict=True):
                row[here] = made

    for number in range(1, size):
        here = at[(place == number) & (at > 0)]
        join([r[here - 1] for r in rows], here)
    last = np.append(at[1:][np.diff(part) > 0] - 1, extent - 1)
    before = _scanned_in_parts(run, region, [r[last] for r in rows])
    behind = at[part > part[0]]
    join([b[part[behind] - part[0] - 1] for b in before], behind)
    return rows


PARTS = (2, 3, 4, 8, 16)
"""The possible lengths of the parts that `_scanned_in_parts` scans."""


@meaning("shuffle")
def _shuffle(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Replaces each element by another element of its group along the axis. An element is unchanged if that other
    element is outside of the group."""
    axis, mode, width = op.attrs["axis"], op.attrs["mode"], op.attrs["width"]
    distance = int(x[1]) if op.attrs["distance"] is None else op.attrs["distance"]
    extent = op.operands[0].tile.shape[axis]
    at = np.arange(extent) % width
    if not 0 <= distance < width:
        return [x[0]]
    there = {"xor": at ^ distance, "up": at - distance, "down": at + distance, "idx": np.full(extent, distance)}[mode]
    there = np.where((there >= 0) & (there < width), there, at)
    return [np.take(x[0], np.arange(extent) - at + there, axis)]


@meaning("gather")
def _gather(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Takes the elements at the indices along the axis, modulo its extent."""
    (tile, index), axis = (spread(v, o.tile.shape) for v, o in zip(x, op.operands, strict=True)), op.attrs["axis"]
    return [np.take_along_axis(tile, index.astype(np.int64) % tile.shape[axis], axis)]


@meaning("vote")
def _vote(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Votes among the 32 lanes of a warp, which hold 32 consecutive elements in row-major order. If the tile is
    smaller, several lanes hold the same element."""
    mode, shape = op.attrs["mode"], np.shape(x[0])
    flags = np.asarray(x[0]).reshape(-1)
    active = np.ones(flags.shape, bool) if run.active is None else np.resize(run.active, flags.shape)
    flags = (flags | ~active) if mode == "all" else (flags & active)
    size = flags.size
    lanes = np.resize(flags, max(size, WARP)).reshape(-1, WARP)
    if mode == "ballot":
        told = (lanes.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(1).astype(np.uint32)
    else:
        told = lanes.any(1) if mode == "any" else lanes.all(1)
    return [np.repeat(told, WARP)[:size].reshape(shape)]


@meaning("convert_layout")
def _convert_layout(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Returns the same elements, because layouts do not change values."""
    return [x[0]]


@meaning("cluster_arrive", "cluster_wait", "cluster_leave")
def _cluster_arrive(run: Run, op: Op, x: list[Array]) -> list[Array]:
    return []


@meaning("cluster_scatter")
def _cluster_scatter(run: Run, op: Op, x: list[Array]) -> list[Array]:
    blocks = op.attrs["blocks"]
    given, rank = run.exchange(x[1:], blocks), run.block[0] % blocks
    return [given[n % blocks][n - n % blocks + rank] for n in range(len(op.results))]


@meaning("cluster_gather")
def _cluster_gather(run: Run, op: Op, x: list[Array]) -> list[Array]:
    return [np.stack(each) for each in zip(*run.exchange(x[1 : 1 + len(op.results)], op.attrs["blocks"]), strict=True)]
