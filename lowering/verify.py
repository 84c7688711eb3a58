"""What well-formed tile IR is. Run after every pass in the tests."""

from __future__ import annotations

from lowering.ir import Block, Function, Op, Value
from lowering.ops import Mismatch
from lowering.types import TileType, Type


class Malformed(Exception):
    """A bug of the compiler: which operation breaks which rule, after which pass."""


def verify(function: Function, after: str = "") -> None:
    """Operands are defined before use, arities and types are what the op rows say, regions end as they must."""
    with_layouts = any(isinstance(r.type, TileType) and r.tile.layout for op in function.body.ops for r in op.results)
    _block(function.body, set(function.body.args), after, with_layouts)


def _block(block: Block, defined: set[Value], after: str, with_layouts: bool) -> None:
    defined = defined | set(block.args)
    for op in block.ops:
        found = None
        if not defined.issuperset(op.operands):
            found = next(f"operand {o!r} is not defined here" for o in op.operands if o not in defined)
        found = found or flaw(op, with_layouts)
        if found is not None:
            raise Malformed(f"after {after or 'building'}: {op.name} ({op.loc}): {found}")
        for region in op.regions:
            _block(region, defined, after, with_layouts)
        defined.update(op.results)


def flaw(op: Op, with_layouts: bool) -> str | None:
    """What is wrong with an operation by itself, in words. `with_layouts`: tiles must have them."""
    spec, count = op.spec, len(op.operands)
    if op.name != spec.name:
        return f"its row is that of '{spec.name}'"
    least, most = spec.arity if isinstance(spec.arity, tuple) else (spec.arity, spec.arity)
    if count < least or (most is not None and count > most):
        return f"{count} operands"
    for name in spec.attrs:
        if name not in op.attrs:
            return f"no attribute '{name}'"
    if len(op.regions) != spec.regions:
        return f"{len(op.regions)} regions"
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
    for region in op.regions:
        if not region.ops or not region.ops[-1].spec.ends:
            return "a region without its end"
    return None


def flaw_of_result(op: Op, result: Value, type: Type, with_layouts: bool) -> str | None:
    """`type`: what the operation's rule says of it."""
    own = result.type
    if not isinstance(own, TileType):
        return None if own == type else f"the result is {own}, its rule says {type}"
    # Mostly the rule gives an operand's type, which is the result's, too.
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
