"""`align v: 8`: unaligned rows of this value are accessed 8 elements at a time, with separate edges.

    v = load x[start + c], c < n          v = load x[first + p], p < whole          w = load x[…], 16 places at most
    top = max(v)                    →     top = maximum(max(v), max(w))
    y[start + c] = v - top, c < n         y[first + p] = v - top, p < whole         y[…] = w - top

The body of a row begins at the row's first address that is a multiple of 8 elements, and ends at its last such address.
The edges are in front of the body and behind it, with fewer than 8 elements each. One extra access covers both edges
(`w` above). In a reduction, each thread combines its elements of the edges with its elements of the body. The rewrite
changes all accesses whose offsets equal those of the first access, and each `arange` along the row. With a `loop` line,
the body is computed in parts. Rows that are known to begin at multiples of 8 elements are not changed.

Body and edges together contain each column of the tile exactly once, even columns past the end of the row, because a
kernel may use them. The last parts may have more positions than there are columns left. Reductions mask out these
positions, unless the values there cannot change the result, such as -∞ in a maximum.

By default, the compiler aligns rows that a kernel reduces, and accesses them 16 bytes at a time.
"""

from __future__ import annotations

from dsl.lowering.directives.kept import Kept, kept_of, words_of
from dsl.lowering.directives.loop import in_parts, tile_names, usual_part, way_of
from dsl.lowering.directives.rows import AnyRows, is_aligned, rows_of
from dsl.lowering.directives.stage import unstage
from dsl.lowering.directives.subjects import named_tiles, unknown
from dsl.lowering.directives.wide import (
    Surroundings,
    Wide,
    WideRegion,
    WideSubject,
    blocks_of,
    is_join,
    out_of_order,
    wide_region,
)
from dsl.lowering.ir.function import Function, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import Target
from dsl.lowering.plan.tile_loads import is_load

LEAST = 32
"""By default, only rows of at least this many elements are aligned."""
WAYS = {"as they begin": False, "at multiples": True}


class _RowSubject(WideSubject):
    """The value of an `align` line, with the location of the line for error messages."""

    def refused(self, message: str, hint: str) -> TileError:
        return TileError("schedule", self.loc, f"rows of '{self.name}' cannot be aligned: {message}", hint)


def align(function: Function, target: Target) -> None:
    """Aligns the rows of the values in `align` lines. By default, also aligns rows that the kernel reduces. Raises
    TileError `name` for an unknown value, and `schedule` for a value whose rows cannot be aligned."""
    for name, step in function.by_subject("align", int).items():
        about = _RowSubject(name, 0, function.lines.get(("align", name)))
        if step & (step - 1):
            raise about.refused(f"{step} elements are no power of two", f"align {name}: {1 << step.bit_length() - 1}")
        tiles = named_tiles(function, name)
        if not tiles:
            unknown(function, "align", name, tile_names(function))
        for value in tiles if step > 1 else ():
            if any(value.op in block.ops for block in blocks_of(function.body)):  # else an earlier region contained it
                if not value.shape:
                    raise about.refused("it is a number", "a tile of rows")
                about.axis = len(value.shape) - 1
                region = wide_region(function, value, about)
                rows, part = rows_of(region, step), _part(function, region)
                if part < step and not is_aligned(function, rows):
                    said = f"parts of {part} elements begin at no multiples of {step}"
                    raise about.refused(said, f"align {name}: {part}, or longer parts")
                if part & (part - 1) and not is_aligned(function, rows):
                    said, parts = f"a part has {part} elements, no power of two", f"static {part & -part}"
                    raise about.refused(said, f"loop {name}, {about.axis}: {parts}")
                rows.check_joins(part, function.threads)
                if not is_aligned(function, rows):
                    _align(function, target, region, rows, "the schedule says so")
    _by_itself(function, target)


def _by_itself(function: Function, target: Target) -> None:
    """Aligns, where possible, the rows that the kernel reduces and that no `align` line names."""
    # A softmax of 64 × 1023 f16 elements executes 23,808 warp instructions with aligned rows. With one access per
    # element, it executes 33,152.
    wide = [op for op in walk(function.body) if is_load(op) and op.result.shape[-1] >= LEAST]
    if not wide or not any(is_join(op) for op in walk(function.body)):
        return
    said, seen = function.by_subject("align", int), set[Wide]()
    around: Surroundings | None = None
    for load in wide:
        axis, around = len(load.result.shape) - 1, around or Surroundings(function)
        if (load.result, axis) in seen or load not in around.home:
            continue
        about = _RowSubject(load.operands[0].name or "tensor", axis, None)
        try:
            region = wide_region(function, load.result, about, around, seen)
            if region.names & said.keys() or not any(sink.results for sink in region.sinks):
                continue
            rows, part = rows_of(region, None), _part(function, region)
            rows.step = min(rows.step, part & -part)  # so that each part begins at a multiple of the step
            if part & (part - 1) or is_aligned(function, rows) or _out_of_order(function, target, region, rows):
                continue
            rows.check_joins(part, function.threads)
        except TileError:
            continue  # no line requests the alignment, so the rows stay as they are
        _align(function, target, region, rows, "they begin anywhere")
        around = None


def _align(function: Function, target: Target, region: WideRegion, rows: AnyRows, because: str) -> None:
    """Rewrites `region` with aligned rows, unless the choice `align` is "as they begin"."""
    about = region.about
    loc, line = about.loc or function.loc, f"align {about.name}: {rows.step}"
    if not function.choices.choose(
        "align", about.name, WAYS, "at multiples", loc=loc, because=because, pinned=about.loc, line=line
    ):
        return
    way = _parts(function, target, region, rows)
    if way is not None:
        in_parts(region, *way, rows)


def _line(function: Function, region: WideRegion) -> str | None:
    """Finds the `loop` line of the schedule that splits this region. Returns the name of the line's value, or None if
    no line splits the region."""
    lines = function.by_subject("loop", tuple)
    for value, axis in region.axes.items():
        line = lines.get(value.name or "")
        if line is not None and line[0] == axis and line[1] < region.extent:
            return value.name
    return None


def _part(function: Function, region: WideRegion) -> int:
    """Returns the number of elements in a part: that of the region's `loop` line, or the default of `usual_part`."""
    name, usual = _line(function, region), usual_part(region.extent)
    part: int = usual if usual > 1 else region.extent
    return part if name is None else function.by_subject("loop", tuple)[name][1]


def _out_of_order(function: Function, target: Target, region: WideRegion, rows: AnyRows) -> TileError | None:
    """Returns an error if the parts of the region's `loop` line, or else static parts, would move a load behind a later
    store to the same memory, otherwise None."""
    name, lines = _line(function, region), function.by_subject("loop", tuple)
    if name is None or lines[name][2]:
        return out_of_order(region, True)
    kept = kept_of(function, region, WideSubject(name, lines[name][0], None), target, False, rows)
    return out_of_order(region, False, [each.value for each in kept])


def _parts(
    function: Function, target: Target, region: WideRegion, rows: AnyRows
) -> tuple[int, bool, list[Kept]] | None:
    """Decides how to compute the bodies of the rows. A body is computed in parts. Returns the number of elements of
    each part, whether the loop over the parts is unrolled, and the values that stay in shared memory. Returns None if
    the rows cannot be computed in the chosen way."""
    name, lines = _line(function, region), function.by_subject("loop", tuple)
    if name is None:
        wrong = out_of_order(region, True)
        if wrong is not None:
            raise wrong
        return _part(function, region), True, []
    axis, part, static = lines[name]
    about = WideSubject(name, axis, function.lines.get(("loop", name)))
    kept = kept_of(function, region, about, target, static, rows)
    unstage(function, words_of(function, region.names))
    way = way_of(function, region, about, part, static, kept)
    if way is not None:
        return part, way, kept
    try:  # a choice keeps the tile whole, so one part has all elements
        rows.check_joins(region.extent, function.threads)
    except TileError:
        return None
    function.attrs["loop"] = {each: said for each, said in lines.items() if each != name}
    return region.extent, True, []
