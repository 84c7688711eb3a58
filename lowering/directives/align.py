"""`align v: 8`: the rows that this value is made of begin anywhere, and are accessed 8 elements at a time all the same.

    v = load x[start + c], c < n          v = load x[first + p], p < whole          w = load x[…], 16 places at most
    top = max(v)                    →     top = maximum(max(v), max(w))
    y[start + c] = v - top, c < n         y[first + p] = v - top, p < whole         y[…] = w - top

A row has a body from its first multiple of 8 elements to its last, and edges of fewer than 8 elements before and
behind. Those are one more part, which a reduction joins with the body's elements of the same thread. All that lies in
memory as the row does is accessed so, and what is counted as it is. With `loop` the body is done in parts. Rows that
are known to begin at multiples stay as they are.

By itself: rows that are reduced, 16 bytes at a time.
"""

from __future__ import annotations

from lowering.access_width import MAX_BYTES
from lowering.directives.kept import Kept, kept_of, words_of
from lowering.directives.loop import done, in_parts, named_tiles, unknown_tile, usual_part, way_of
from lowering.directives.rows import AnyRows, is_aligned, rows_of
from lowering.directives.stage import is_load
from lowering.directives.wide import WideRegion, WideSubject, blocks_of, out_of_order, wide_region
from lowering.ir import Function, Value, walk
from lowering.location import TileError
from lowering.targets import Target

LEAST = 64
"""Elements of a row that is aligned by itself, at least."""
WAYS = {"as they begin": False, "at multiples": True}


class _RowSubject(WideSubject):
    """A value whose rows the schedule aligns."""

    def refused(self, message: str, hint: str) -> TileError:
        return TileError("schedule", self.loc, f"rows of '{self.name}' cannot be aligned: {message}", hint)


def align(function: Function, target: Target) -> None:
    """Aligns the rows that the schedule names. TileError `schedule` for what has no such rows."""
    for name, step in function.by_subject("align", int).items():
        about = _RowSubject(name, 0, function.lines.get(("align", name)))
        if step & (step - 1):
            raise about.refused(f"{step} elements are no power of two", f"align {name}: {1 << step.bit_length() - 1}")
        tiles = named_tiles(function, name)
        if not tiles:
            unknown_tile(function, about)
        for value in tiles if step > 1 else ():
            if _stands(function, value):  # no row before has taken it along
                if not value.shape:
                    raise about.refused("it is a number", "a tile of rows")
                about.axis = len(value.shape) - 1
                region = wide_region(function, value, about)
                _align(function, target, region, rows_of(region, step), "the schedule says so")
    _by_itself(function, target)


def _stands(function: Function, value: Value) -> bool:
    """Whether what makes a value is still there."""
    return any(value.op in block.ops for block in blocks_of(function.body))


def _by_itself(function: Function, target: Target) -> None:
    """Aligns rows of which the schedule says nothing, as far as they can be."""
    said = function.by_subject("align", int)
    for load in [op for op in walk(function.body) if is_load(op)]:
        value = load.result
        if value.shape[-1] < LEAST or not _stands(function, value):
            continue
        about = _RowSubject(load.operands[0].name or "tensor", len(value.shape) - 1, None)
        try:
            region = wide_region(function, value, about)
            rows = rows_of(region, MAX_BYTES // value.dtype.bytes)
        except TileError:
            continue  # a loop goes on with them, say
        if region.names & said.keys() or not any(sink.results for sink in region.sinks) or out_of_order(region, True):
            continue
        _align(function, target, region, rows, "they begin anywhere")


def _align(function: Function, target: Target, region: WideRegion, rows: AnyRows, because: str) -> None:
    """Aligns the rows of a region, unless all begin at multiples."""
    about = region.about
    if is_aligned(function, rows) or not function.choices.choose(
        "align",
        about.name,
        WAYS,
        "at multiples",
        loc=about.loc or function.loc,
        because=because,
        pinned=about.loc,
        line=f"align {about.name}: {rows.step}",
    ):
        return
    part, static, kept = _parts(function, target, region, rows)
    in_parts(region, part, static, kept, rows)


def _parts(function: Function, target: Target, region: WideRegion, rows: AnyRows) -> tuple[int, bool, list[Kept]]:
    """How the body is done: elements of a part, whether parts are written out, and what stays in shared memory."""
    lines = function.by_subject("loop", tuple)
    for value, axis in region.axes.items():
        name = value.name or ""
        if name in lines and lines[name][0] == axis and lines[name][1] < region.extent:
            about = WideSubject(name, axis, function.lines.get(("loop", name)))
            _, part, static = lines[name]
            kept = kept_of(function, region, about, target, static, rows)
            done(function, words_of(function, region.names))
            way = way_of(function, region, about, part, static, kept)
            if way is None:
                function.attrs["loop"] = {each: said for each, said in lines.items() if each != name}
                return region.extent, True, []
            return part, way, kept
    usual = usual_part(region.extent)
    wrong = out_of_order(region, True)
    if wrong is not None:
        raise wrong
    return usual if usual > 1 else region.extent, True, []
