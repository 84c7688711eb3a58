"""What well-formed tile IR is. Run after every pass in the tests."""

from __future__ import annotations

from lowering.ir import Block, Function, Op, Value
from lowering.ops import Mismatch
from lowering.types import TileType


class Malformed(Exception):
    """A bug of the compiler: which operation breaks which rule, after which pass."""


def verify(function: Function, after: str = "") -> None:
    """Operands are defined before use, arities and types are what the op rows say, regions end as they must."""
    with_layouts = any(isinstance(r.type, TileType) and r.tile.layout for op in function.body.ops for r in op.results)
    _block(function.body, set(function.body.args), after, with_layouts)


def _block(block: Block, defined: set[Value], after: str, with_layouts: bool) -> None:
    defined = defined | set(block.args)
    for op in block.ops:
        found = next((f"operand {o!r} is not defined here" for o in op.operands if o not in defined), None)
        found = found or flaw(op, with_layouts)
        if found is not None:
            raise Malformed(f"after {after or 'building'}: {op.name} ({op.loc}): {found}")
        for region in op.regions:
            _block(region, defined, after, with_layouts)
        defined.update(op.results)


def flaw(op: Op, with_layouts: bool) -> str | None:
    """What is wrong with an operation by itself, in words. `with_layouts`: tiles must have them."""
    if op.name != op.spec.name:
        return f"its row is that of '{op.spec.name}'"
    least, most = op.spec.arity if isinstance(op.spec.arity, tuple) else (op.spec.arity, op.spec.arity)
    if len(op.operands) < least or (most is not None and len(op.operands) > most):
        return f"{len(op.operands)} operands"
    for name in op.spec.attrs:
        if name not in op.attrs:
            return f"no attribute '{name}'"
    if len(op.regions) != op.spec.regions:
        return f"{len(op.regions)} regions"
    try:
        types = op.spec.infer(op.operands, op.attrs)
    except Mismatch as mismatch:
        return str(mismatch)
    if len(types) != len(op.results):
        return f"{len(op.results)} results, its rule says {len(types)}"
    for result, type in zip(op.results, types, strict=True):
        same = (
            (result.tile.shape, result.dtype) == (type.shape, type.dtype)
            if isinstance(result.type, TileType) and isinstance(type, TileType)
            else result.type == type
        )
        if not same:
            return f"the result is {result.type}, its rule says {type}"
        if with_layouts and isinstance(result.type, TileType) and result.tile.shape:
            if result.tile.layout is None:
                return f"{result!r} has no layout"
            if result.tile.layout.shape != result.tile.shape:
                return f"the layout of {result!r} is for {result.tile.layout.shape}"
            if op.spec.elementwise and any(o.tile.layout != result.tile.layout for o in op.operands):
                return "operands and result are in different layouts"
    for region in op.regions:
        if not region.ops or not region.ops[-1].spec.ends:
            return "a region without its end"
    return None
