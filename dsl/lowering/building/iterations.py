"""Copies of loop iterations, and loop-carried values."""

from __future__ import annotations

from collections.abc import Sequence

from dsl.lowering.building.loop_forms import iterations_of
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Op, Value, clone
from dsl.lowering.ir.types import TileType
from dsl.lowering.ops import OPS


def several_iterations(op: Op, body: Block, type: TileType, factor: int, step: int) -> Block:
    """A loop body in which one iteration does the work of `factor` iterations of `op`."""
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


def copied_region(region: Block) -> Block:
    """A copy of a region, such as that of a reduction."""
    made = Block([Value(a.type, name=a.name) for a in region.args])
    results = clone(region, made.args, made.ops)
    made.ops.append(Op(region.ops[-1].spec, results, [], {}, (), region.ops[-1].loc))
    return made


def carry(loops: Sequence[Op], states: Sequence[Value], names: Sequence[str | None]) -> list[Value]:
    """Makes values loop-carried in nested loops. `loops` starts with the outermost loop. Returns the values as
    arguments of the innermost body. The caller must then call `hand_on` to set the values for the next iteration."""
    for loop in loops:
        args = [Value(v.type, name=n) for v, n in zip(states, names, strict=True)]
        loop.operands += states
        loop.regions[0].args += args
        loop.results += [Value(v.type, loop, n) for v, n in zip(states, names, strict=True)]
        states = args
    return list(states)


def hand_on(loops: Sequence[Op], following: Sequence[Value]) -> None:
    """Sets the next values for the last `carry`. `following` contains the values at the end of an iteration of the
    innermost loop."""
    for loop in reversed(loops):  # the results of an inner loop are the next values of the enclosing loop
        loop.regions[0].ops[-1].operands += following
        following = loop.results[len(loop.results) - len(following) :]


def known_iterations(loop: Op) -> int | None:
    """The number of iterations of a loop. Returns None if the number is not constant."""
    start, stop, step = (constant_of(v) for v in loop.operands[:3])
    if start is None or stop is None or not step:
        return None
    return iterations_of(int(start), int(stop), int(step))
