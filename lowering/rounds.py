"""Rounds of a loop made once more: what is done in several of them at once, or in a loop of its own."""

from __future__ import annotations

from lowering.ir import Block, Op, Value
from lowering.ops import OPS
from lowering.types import TileType


def clone(block: Block, arguments: list[Value], into: list[Op]) -> list[Value]:
    """The operations of a region appended to `into` with its arguments replaced; what its end yields."""
    mapping: dict[Value, Value] = dict(zip(block.args, arguments, strict=True))
    for op in block.ops[:-1]:
        into.append(_copy(op, mapping))
    return [mapping.get(v, v) for v in block.ops[-1].operands]


def _copy(op: Op, mapping: dict[Value, Value]) -> Op:
    regions = []
    for region in op.regions:
        inner = dict(mapping)
        made = Block()
        for arg in region.args:
            inner[arg] = Value(arg.type, name=arg.name)
            made.args.append(inner[arg])
        made.ops = [_copy(o, inner) for o in region.ops]
        regions.append(made)
    out = Op(
        op.spec, [mapping.get(o, o) for o in op.operands], [r.type for r in op.results], dict(op.attrs), regions, op.loc
    )
    for old, new in zip(op.results, out.results, strict=True):
        new.stands_for(old, in_turn=True)
        mapping[old] = new
    return out


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
