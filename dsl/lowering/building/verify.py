"""The verifier: checks that tile IR is well-formed. Tests run the verifier after each pass."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, is_

from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value
from dsl.lowering.ir.types import TileType, Type
from dsl.lowering.ops import Mismatch
from dsl.lowering.ops.control import names
from dsl.lowering.ops.kinds import flaw_of_kinds


class Malformed(Exception):
    """Raised for a bug in the compiler. The message contains the operation, the violated requirement, and the pass."""


TYPE = attrgetter("type")
Known = dict[Op, list[object]]
"""Maps operations without a flaw to the objects that were checked."""


def verify(function: Function, after: str = "", known: Known | None = None) -> None:
    """Raises Malformed if an operand is used before its definition, or if a region has a wrong last operation. Also
    raises Malformed if operand counts or types contradict the operation's entry in `OPS`.

    `known` contains the operations that an earlier call found correct, and is updated. Operations that have not changed
    since are not checked again, which saves two thirds of the time.
    """
    with_layouts = any(isinstance(r.type, TileType) and r.tile.layout for op in function.body.ops for r in op.results)
    _block(function.body, set(function.body.args), after, with_layouts, {} if known is None else known)


def _block(block: Block, defined: set[Value], after: str, with_layouts: bool, known: Known) -> None:
    defined = defined | set(block.args)
    for op in block.ops:
        found = None
        if not defined.issuperset(op.operands):
            found = next(f"operand {o!r} is not defined here" for o in op.operands if o not in defined)
        parts = None if op.regions else parts_of(op, with_layouts)  # operations with regions are always checked
        if parts is None or not are_same(known.get(op, ()), parts):
            found = found or flaw(op, with_layouts)
            if found is not None:
                raise Malformed(f"after {after or 'building'}: {op.name} ({op.loc}): {found}")
            if parts is not None:
                known[op] = parts
            for region in op.regions:
                _block(region, defined, after, with_layouts, known)
        elif found is not None:
            raise Malformed(f"after {after or 'building'}: {op.name} ({op.loc}): {found}")
        defined.update(op.results)


def parts_of(op: Op, with_layouts: bool) -> list[object]:
    """For an operation without regions, lists all objects that the checks read."""
    # Each pass lists the parts of all operations: 9 of 10 lists are only compared, so loops in Python took half of the
    # time.
    operands, results = op.operands, op.results
    parts = [with_layouts, op.spec, op.name, *operands, None, *results, *map(TYPE, operands), *map(TYPE, results)]
    if op.attrs:
        parts += op.attrs
        values = op.attrs.values()
        parts += values
        if list in map(type, values):
            for value in values:
                parts += (*value, None) if type(value) is list else ()
    return parts


def are_same(before: Sequence[object], now: Sequence[object]) -> bool:
    """Whether two lists contain the same objects. Compares them by identity, because 1 == 1.0, but an extent must not
    be 1.0."""
    return len(before) == len(now) and all(map(is_, before, now))


def flaw(op: Op, with_layouts: bool) -> str | None:
    """Describes what is wrong with one operation. Returns None if nothing is wrong. If `with_layouts` is true, tiles
    must have layouts."""
    spec, count = op.spec, len(op.operands)
    if op.name != spec.name:
        return f"its row is that of '{spec.name}'"
    # Cheap checks come first. `infer` below may then assume that the number of operands is right and that no attribute
    # is missing.
    least, most = spec.arity if isinstance(spec.arity, tuple) else (spec.arity, spec.arity)
    if count < least or (most is not None and count > most):
        return f"{count} operands"
    for name in spec.attrs:
        if name not in op.attrs:
            return f"no attribute '{name}'"
    if len(op.regions) != spec.control.regions:
        return f"{len(op.regions)} regions"
    if (found := flaw_of_kinds(op)) is not None:
        return found
    try:
        types = spec.infer(op.operands, op.attrs)
    except Mismatch as mismatch:
        return str(mismatch)
    if len(types) != len(op.results):
        return f"{len(op.results)} results, its rule says {len(types)}"
    for result, type in zip(op.results, types, strict=True):
        found = flaw_of_result(op, result, type, with_layouts)
        if found is not None:
            return found
    return (with_layouts and flaw_of_layouts(op)) or flaw_of_regions(op, with_layouts)


def flaw_of_layouts(op: Op) -> str | None:
    """Describes a conflict between the layouts of an operation's values. Returns None if there is none."""
    if op.spec.placement.exchange is None and (found := flaw_of_picks(op)) is not None:
        return found
    if op.spec.access.kind:
        moved = [value.tile.layout for value in (*op.operands, *op.results) if isinstance(value.type, TileType)]
        if len({layout for layout in moved if layout is not None}) > 1:
            return "places, mask and what is moved are in different layouts"
    return None


def flaw_of_picks(op: Op) -> str | None:
    """Describes the flaw of an operation that only renames registers: a thread does not hold the operand elements of
    its results. Returns None if there is none."""
    picks = op.spec.placement.picks
    if picks is None:
        return None
    source, result = op.operands[0].tile.layout, op.result.tile.layout
    if source is None or result is None or picks(op, source, result) is not None:
        return None
    return "a thread holds elements of its result whose operand it has not"


def flaw_of_regions(op: Op, with_layouts: bool) -> str | None:
    """Describes a flaw of an operation's regions: a wrong last operation, or a wrong value that enters or leaves a
    region. Returns None if there is none."""
    for number, region in enumerate(op.regions):
        end = "condition" if op.spec.control.loops and not op.spec.control.counters and not number else "yield"
        if not region.ops or region.ops[-1].name != end:
            return f"a region without its end, '{end}'"
        if any(each.spec.control.ends for each in region.ops[:-1]):
            return f"something stands behind the end of a region, '{end}'"
    if op.spec.control.flows:
        return _flaw_of_flow(op, with_layouts)
    # The function of a reduction combines two groups of elements into one, that of `join_parts` two groups of tiles.
    takes, what = (plain, "a value") if op.spec.acts == "joins" else (_element, "an element")
    for region in op.regions:
        wanted = [takes(o.type) for o in op.operands]
        if [plain(argument.type) for argument in region.args] != wanted * 2:
            return f"its region takes {what} of each operand, and once more: {', '.join(map(str, wanted * 2))}"
        if [plain(value.type) for value in region.ops[-1].operands] != wanted:
            return f"its region gives {what} for each operand: {', '.join(map(str, wanted))}"
    return None


def _flaw_of_flow(op: Op, with_layouts: bool) -> str | None:
    """Describes a flaw in the values that enter and leave an operation's regions, or in the loop bounds. Returns None
    if there is none."""
    for region in op.regions:
        counters = region.args[: op.spec.control.counters] if op.spec.control.loops else []
        counted = op.operands[: len(counters)]
        if op.spec.control.loops and [each.type for each in counters] != [each.type for each in counted]:
            return "its counter has another type than its bounds"
        if not op.spec.control.loops and region.args:
            return "its regions take no arguments"
    bounds = op.operands[: op.spec.control.leading] if op.spec.control.counters else []
    if len({bound.type for bound in bounds}) > 1:
        return f"its bounds are of different types: {', '.join(str(bound.type) for bound in bounds)}"
    if bounds and constant_of(bounds[-1]) == 0:
        return "its step is 0"
    try:
        through = list(names(op))
    except ValueError:
        return "its regions hand on other values than it has results"
    for values in through:
        kinds = dict.fromkeys(str(plain(value.type)) for value in values)
        if len(kinds) > 1:
            return f"what goes through its regions changes its type: {', '.join(kinds)}"
        if with_layouts and len({value.type for value in values}) > 1:
            return "what goes through its regions changes its layout"
    return None


def _element(type: Type) -> Type:
    assert isinstance(type, TileType)
    return TileType((), type.dtype)


def plain(type: Type) -> Type:
    """Returns a type without its layout."""
    return type.with_layout(None) if isinstance(type, TileType) else type


def flaw_of_result(op: Op, result: Value, type: Type, with_layouts: bool) -> str | None:
    """Describes the flaw of a result. `type` is the type that `spec.infer` returned for it. Returns None if there is no
    flaw."""
    own = result.type
    if not isinstance(own, TileType):
        return None if own == type else f"the result is {own}, its rule says {type}"
    # The identity test comes first, because `infer` usually returns the type object of an operand, which the result
    # has, too.
    if own is not type and not (isinstance(type, TileType) and own.shape == type.shape and own.dtype == type.dtype):
        return f"the result is {own}, its rule says {type}"
    if not with_layouts or not own.shape:
        return None
    layout = own.layout
    if layout is None:
        return f"{result!r} has no layout"
    if layout.shape != own.shape:
        return f"the layout of {result!r} is for {layout.shape}"
    if op.spec.elementwise:
        for operand in op.operands:
            if operand.tile.layout is not layout and operand.tile.layout != layout:
                return "operands and result are in different layouts"
    return None
