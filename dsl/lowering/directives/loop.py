"""`loop v, 1: 512`: computes tile v, and all values that depend on it, in parts of 512 elements along axis 1.

    v = load x[0 : 4096]              m = -inf
    top = max(v)                      for k: m = maximum(m, load x[k · 512 + …])
    z = sum(exp(v - top))       →     top = max(m)
    y[…] = exp(v - top) / z           z = 0
                                      for k: z = z + exp(load x[k · 512 + …] - top)
                                      …

All operations between two reductions along the axis form one loop. Each reduction gets an accumulator as wide as a
part. After the loop, the accumulator is reduced to the result. `static` unrolls the loops. Values that a later loop
needs again then stay in registers. Without `static`, a later loop recomputes these values and repeats their loads,
unless `stage v: shared` keeps them in shared memory. By default, a tile whose extent is not a power of two is computed
in static parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dsl.lowering.directives.cluster_tiles import check_divided, meet, sharing_blocks
from dsl.lowering.directives.kept import Kept, kept_of, words_of
from dsl.lowering.directives.slices import enclosing, without
from dsl.lowering.directives.stage import WAYS, choose_stage, unstage
from dsl.lowering.directives.subjects import named_tiles, unknown
from dsl.lowering.directives.wide import (
    LoopResults,
    Surroundings,
    Wide,
    WideRegion,
    WideSubject,
    blocks_of,
    out_of_order,
    wide_region,
)
from dsl.lowering.ir.function import Function, Op, Value, parents, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import TileType
from dsl.lowering.plan.tile_loads import is_load

if TYPE_CHECKING:
    from dsl.lowering.directives.phases import StaticParts
    from dsl.lowering.directives.rows import AnyRows


def loop(function: Function, target: Target) -> None:
    """Computes the values of `loop` lines in parts. Raises TileError `name`, `schedule` or `extent` if a value cannot
    be computed in parts."""
    staged: set[str] = set()
    for name, (axis, part, static) in function.by_subject("loop", tuple).items():
        about = WideSubject(name, axis, function.lines.get(("loop", name)))
        if not named_tiles(function, name):
            unknown(function, "loop", name, tile_names(function))
        if all(_extent(v, about) <= part for v in named_tiles(function, name)):
            staged |= words_of(function, tile_names(function)).keys()  # a single part stays in registers
        while wide := [v for v in named_tiles(function, name) if _extent(v, about) > part]:
            region = wide_region(function, _innermost(function, wide), about)
            staged |= words_of(function, region.names).keys()
            kept = kept_of(function, region, about, target, static)
            way = way_of(function, region, about, part, static, kept)
            if way is None:
                break
            in_parts(region, part, way, kept)
    _odd_ones(function)
    _check_extents(function)
    check_divided(function)
    meet(function)
    unstage(function, staged)  # done here: the pass `stage` must not process these names again


def _innermost(function: Function, values: Sequence[Value]) -> Value:
    """Returns the first value in the deepest block. What a loop carries is found from its body, not from its start."""
    outside = parents(function.body)

    def depth(value: Value) -> int:
        assert value.op is not None
        return len(list(enclosing(value.op, outside))) + bool(value.op.spec.control.counters)

    return max(values, key=depth)


LEAST = 256
"""By default, a part has at least this many elements. One warp loads 256 16-bit floats with one instruction, 16 bytes
per lane."""


def usual_part(extent: int) -> int:
    """Returns the default number of elements of a part: the greatest power of two that divides `extent`. Returns 1 (no
    parts) if that power of two is less than both LEAST and `extent`."""
    part = extent & -extent
    return part if part >= LEAST or part == extent else 1


def _odd_ones(function: Function) -> None:
    """Computes tiles in static parts, where possible, if an extent is not a power of two."""
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
    """Computes a region in parts: unrolled if `static`, otherwise in loops at run time. Only loops at run time keep the
    values in `kept` in shared memory."""
    # Imported here, as `asked` does: many kernels have no tile in parts.
    from dsl.lowering.directives.phases import LoopOfParts, StaticParts

    if static:
        parts = StaticParts(region, part, rows)
        parts.run()
        _behind_loop(region, part, parts)
    else:
        # A loop at run time recomputes values wherever it needs them. So a forced choice `recompute.v` of a value v in
        # the region is satisfied.
        region.function.choices.excuse(*(f"recompute.{name}" for name in region.names))
        LoopOfParts(region, part, _chosen(region.function, region, kept), rows).run()


def _behind_loop(region: WideRegion, part: int, made: StaticParts) -> None:
    """Computes in parts what depends on the tiles that the region's loop carries."""
    done, starts = set[Wide](), made.later
    for value, axis in made.results:
        if (value, axis) not in done:
            assert region.loop is not None
            given = LoopResults(region.loop, made.results, made.blocks, starts)
            about = replace(region.about, axis=axis, loc=region.about.loc or region.loop.loc)
            outer = wide_region(region.function, value, about, given=given)
            done |= outer.axes.items()
            if wrong := out_of_order(outer, True):
                raise wrong
            in_parts(outer, part, True, [])
            starts = {}


def _check_extents(function: Function) -> None:
    """Removes the tiles that parts have replaced. Raises TileError `extent` if a tile that is still needed has an
    extent that is not a power of two."""
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
    """Returns the names of all tiles that the function computes."""
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
    """Returns True for unrolled parts, False for a loop at run time, and None for a whole tile. Raises TileError
    `schedule` if the extent is no multiple of `part`, or if the `loop` line would move a load across a store."""
    if region.extent % part:
        message = f"{region.extent} elements are no multiple of {part}"
        raise about.refused(message, "a power of two that divides the extent")
    may_stay = sharing_blocks(region) == 1 and not region.extent & (region.extent - 1)
    ways: dict[str, bool | None] = {"whole": None} if may_stay else {}
    for each in (False, True):
        wrong = out_of_order(region, each, [k.value for k in kept])
        if region.carried and not each:
            said = "a loop carries tiles that are computed from it"
            wrong = about.refused(said, f"loop {about.name}, {about.axis}: static {part}")
        if wrong is None:
            ways[f"{'static ' * each}{part}"] = each
        elif each == static:
            raise wrong
    rule, line = f"{'static ' * static}{part}", f"loop {about.name}, {about.axis}: {{option}}"
    loc, why = about.loc, "the schedule says so"
    return function.choices.choose("loop", about.name, ways, rule, loc=loc, because=why, pinned=loc, line=line)


def _chosen(function: Function, region: WideRegion, kept: Sequence[Kept]) -> list[Kept]:
    """Returns the values of `kept` for which the choice `stage` is "shared". The loops recompute the others."""
    free = out_of_order(region, False) is None  # else a load would move behind a store, so there is no choice
    ways, why = WAYS if free else {"shared": True}, "the schedule says so"
    lines = {each.name: function.lines.get(("stage", each.name)) for each in kept}
    return [
        each
        for each in kept
        if choose_stage(function, each.name, ways, "shared", why, each.op.loc, pinned=lines[each.name])
    ]
