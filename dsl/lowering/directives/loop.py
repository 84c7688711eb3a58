"""`loop v, 1: 512`: a wide tile, and all values computed with it along axis 1, are computed in parts of 512 elements.

    v = load x[0 : 4096]              m = -inf
    top = max(v)                      for k: m = maximum(m, load x[k · 512 + …])
    z = sum(exp(v - top))       →     top = max(m)
    y[…] = exp(v - top) / z           z = 0
                                      for k: z = z + exp(load x[k · 512 + …] - top)
                                      …

All operations between two reductions along the axis form one loop. Loops carry accumulators that are as wide as a part.
These accumulators are reduced after the loop. `static` unrolls the parts, and values that are needed again stay in
registers. A loop that is not unrolled recomputes such values and repeats their loads, unless `stage v: shared` keeps
them in shared memory. By default, a tile whose extent is no power of two is computed in static parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from dsl.lowering.directives.kept import Kept, kept_of, words_of
from dsl.lowering.directives.phases import LoopOfParts, StaticParts
from dsl.lowering.directives.rows import AnyRows
from dsl.lowering.directives.slices import without
from dsl.lowering.directives.stage import WAYS, choose_stage, unstage
from dsl.lowering.directives.subjects import named_tiles, unknown
from dsl.lowering.directives.wide import (
    Surroundings,
    Wide,
    WideRegion,
    WideSubject,
    blocks_of,
    out_of_order,
    wide_region,
)
from dsl.lowering.ir.function import Function, Op, Value, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import TileType
from dsl.lowering.plan.tile_loads import is_load


def loop(function: Function, target: Target) -> None:
    """Computes in parts the values that the schedule names. Raises TileError `name`, `schedule` or `extent` if a value
    cannot be computed in parts."""
    staged: set[str] = set()
    for name, (axis, part, static) in function.by_subject("loop", tuple).items():
        about = WideSubject(name, axis, function.lines.get(("loop", name)))
        if not named_tiles(function, name):
            unknown(function, "loop", name, tile_names(function))
        if all(_extent(v, about) <= part for v in named_tiles(function, name)):
            staged |= words_of(function, tile_names(function)).keys()  # a single part stays in registers
        while wide := [v for v in named_tiles(function, name) if _extent(v, about) > part]:
            region = wide_region(function, wide[0], about)
            staged |= words_of(function, region.names).keys()
            kept = kept_of(function, region, about, target, static)
            way = way_of(function, region, about, part, static, kept)
            if way is None:
                break
            in_parts(region, part, way, kept)
    _odd_ones(function)
    _check_extents(function)
    unstage(function, staged)  # done here, so the pass `stage` must not look for them


LEAST = 256
"""The default minimum number of elements of a part. A warp loads 256 16-bit floats at once, 16 bytes a lane."""


def usual_part(extent: int) -> int:
    """Default number of elements of a part: the greatest power of two that divides the extent. The number is 1 if that
    power of two is less than LEAST."""
    part = extent & -extent
    return part if part >= LEAST or part == extent else 1


def _odd_ones(function: Function) -> None:
    """Computes tiles in static parts if their extents are no powers of two, as far as that is possible."""
    # A tile for 5003 columns has five parts of 1024 columns instead of eight. A block then executes 5240 warp
    # instructions instead of 8120.
    loads = [op for op in walk(function.body) if is_load(op)]
    axes = [(op, axis, extent) for op in loads for axis, extent in enumerate(op.result.shape)]
    odd = [(op, axis) for op, axis, extent in axes if usual_part(extent) not in (1, extent)]
    if not odd:
        return
    seen, around = set[Wide](), Surroundings(function)
    for op, axis in odd:
        if (op.result, axis) in seen or op not in around.home:
            continue
        about = WideSubject(op.result.name or op.operands[0].name or "tile", axis, None)
        try:
            region = wide_region(function, op.result, about, around, seen)
        except TileError:
            continue  # `_check_extents` reports it
        if out_of_order(region, True) is None:
            in_parts(region, usual_part(region.extent), True, [])
            around = Surroundings(function)


def in_parts(region: WideRegion, part: int, static: bool, kept: Sequence[Kept], rows: AnyRows | None = None) -> None:
    """Computes a region in parts, unrolled or in loops at run time. Only loops at run time keep values in shared
    memory."""
    if static:
        StaticParts(region, part, rows).run()
    else:
        # A loop over parts recomputes values where it needs them, which satisfies `choose recompute.…` for them.
        region.function.choices.excuse(*(f"recompute.{name}" for name in region.names))
        LoopOfParts(region, part, _chosen(region.function, region, kept), rows).run()


def _check_extents(function: Function) -> None:
    """Removes tiles that parts have replaced. Raises TileError `extent` for any other tile whose extent is no power of
    two."""
    needed: set[Value] = set()
    gone: set[Op] = set()
    for op in reversed(walk(function.body)):
        odd = [r for r in op.results if isinstance(r.type, TileType) and any(e & (e - 1) for e in r.shape)]
        if op.spec.pure and not needed.intersection(op.results):
            gone.update([op] if odd else [])
            continue
        if odd:
            message = f"a tile of {list(odd[0].shape)} is not computed in parts: extents of others are powers of two"
            raise TileError("extent", op.loc, message, "a power of two, and a mask")
        needed.update(op.operands)
    for block in blocks_of(function.body) if gone else ():
        block.ops = without(block.ops, gone)


def tile_names(function: Function) -> set[str]:
    """The names of all tiles."""
    return {r.name for op in walk(function.body) for r in op.results if r.name and isinstance(r.type, TileType)}


def _extent(value: Value, about: WideSubject) -> int:
    if not 0 <= about.axis < len(value.shape):
        axes = f"axes 0 to {len(value.shape) - 1}" if value.shape else "no axes"
        message = f"'{about.name}' is {value.tile}, without an axis {about.axis}"
        raise TileError("schedule", about.loc, message, f"it has {axes}")
    return value.shape[about.axis]


def way_of(
    function: Function, region: WideRegion, about: WideSubject, part: int, static: bool, kept: Sequence[Kept]
) -> bool | None:
    """Whether parts are unrolled. Returns None if the tile stays whole. Raises TileError `schedule` if the requested
    way would change the order of loads and stores."""
    if region.extent % part:
        message = f"{region.extent} elements are no multiple of {part}"
        raise about.refused(message, "a power of two that divides the extent")
    ways: dict[str, bool | None] = {} if region.extent & (region.extent - 1) else {"whole": None}
    for each in (False, True):
        wrong = out_of_order(region, each, [k.value for k in kept])
        if wrong is None:
            ways[f"{'static ' * each}{part}"] = each
        elif each == static:
            raise wrong
    rule, line = f"{'static ' * static}{part}", f"loop {about.name}, {about.axis}: {{option}}"
    loc, why = about.loc, "the schedule says so"
    return function.choices.choose("loop", about.name, ways, rule, loc=loc, because=why, pinned=loc, line=line)


def _chosen(function: Function, region: WideRegion, kept: Sequence[Kept]) -> list[Kept]:
    """The values that the choice `stage` keeps in shared memory. The loop recomputes the other values."""
    free = out_of_order(region, False) is None  # else a load would move behind a store, so there is no choice
    ways, why = WAYS if free else {"shared": True}, "the schedule says so"
    lines = {each.name: function.lines.get(("stage", each.name)) for each in kept}
    return [
        each
        for each in kept
        if choose_stage(function, each.name, ways, "shared", why, each.op.loc, pinned=lines[each.name])
    ]
