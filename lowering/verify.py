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


def _fail(op: Op, after: str, message: str) -> Malformed:
    return Malformed(f"after {after or 'building'}: {op.name} ({op.loc}): {message}")


def _block(block: Block, defined: set[Value], after: str, with_layouts: bool) -> None:
    defined = defined | set(block.args)
    for op in block.ops:
        for operand in op.operands:
            if operand not in defined:
                raise _fail(op, after, f"operand {operand!r} is not defined here")
        least, most = op.spec.arity if isinstance(op.spec.arity, tuple) else (op.spec.arity, op.spec.arity)
        if len(op.operands) < least or (most is not None and len(op.operands) > most):
            raise _fail(op, after, f"{len(op.operands)} operands")
        for name in op.spec.attrs:
            if name not in op.attrs:
                raise _fail(op, after, f"no attribute '{name}'")
        if len(op.regions) != op.spec.regions:
            raise _fail(op, after, f"{len(op.regions)} regions")
        try:
            types = op.spec.infer(op.operands, op.attrs)
        except Mismatch as mismatch:
            raise _fail(op, after, str(mismatch)) from None
        for result, type in zip(op.results, types, strict=True):
            same = (
                (result.tile.shape, result.dtype) == (type.shape, type.dtype)
                if isinstance(type, TileType)
                else result.type == type
            )
            if not same:
                raise _fail(op, after, f"the result is {result.type}, its rule says {type}")
            if with_layouts and isinstance(result.type, TileType) and result.tile.shape:
                if result.tile.layout is None:
                    raise _fail(op, after, f"{result!r} has no layout")
                if result.tile.layout.shape != result.tile.shape:
                    raise _fail(op, after, f"the layout of {result!r} is for {result.tile.layout.shape}")
                if op.spec.elementwise and any(o.tile.layout != result.tile.layout for o in op.operands):
                    raise _fail(op, after, "operands and result are in different layouts")
        for region in op.regions:
            if not region.ops or not region.ops[-1].spec.ends:
                raise _fail(op, after, "a region without its end")
            _block(region, defined, after, with_layouts)
        defined.update(op.results)
