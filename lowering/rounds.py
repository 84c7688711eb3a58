"""Rounds of a loop made once more: what is done in several of them at once, or in a loop of its own."""

from __future__ import annotations

from lowering.ir import Block, Op, Value, clone
from lowering.ops import OPS
from lowering.types import TileType


def several_rounds(op: Op, body: Block, type: TileType, factor: int, step: int) -> Block:
    """The body of a loop that does `factor` rounds of another one at once."""
    main = Block([Value(type, name=body.args[0].name), *(Value(a.type, name=a.name) for a in body.args[1:])])
    values = main.args[1:]
    for i in range(factor):
        counter = main.args[0]
        if i:
            offset = Op(OPS["constant"], [], [type], {"value": i * step, "dtype": type.dtype}, (), op.loc)
            moved = Op(OPS["add"], [counter, offset.result], [type], {}, (), op.loc)
            main.ops += [offset, moved]
            counter = moved.result
        values = clone(body, [counter, *values], main.ops)
    main.ops.append(Op(OPS["yield"], values, [], {}, (), op.loc))
    return main
