"""Copies loop iterations, and adds or divides loop-carried values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsl.lowering.building.loop_forms import iterations_of
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Op, Value, clone
from dsl.lowering.ir.types import TileType
from dsl.lowering.ops import OPS


def several_iterations(op: Op, body: Block, type: TileType, factor: int, step: int) -> Block:
    """Returns a loop body that does `factor` iterations of the loop `op` at once."""
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
    """Returns a copy of a region, for example of the function that a reduction applies."""
    made = Block([Value(a.type, name=a.name) for a in region.args])
    results = clone(region, made.args, made.ops)
    made.ops.append(Op(region.ops[-1].spec, results, [], {}, (), region.ops[-1].loc))
    return made


def carry(loops: Sequence[Op], states: Sequence[Value], names: Sequence[str | None]) -> list[Value]:
    """Adds loop-carried values with the initial values `states` to nested loops, outermost loop first. Returns the new
    arguments of the innermost body. The caller must then call `hand_on` to set the values for the next iteration."""
    for loop in loops:
        args = [Value(v.type, name=n) for v, n in zip(states, names, strict=True)]
        loop.operands += states
        loop.regions[0].args += args
        loop.results += [Value(v.type, loop, n) for v, n in zip(states, names, strict=True)]
        states = args
    return list(states)


def hand_on(loops: Sequence[Op], following: Sequence[Value]) -> None:
    """Completes `carry`: passes the values `following` to the next iteration. `following` is computed in the innermost
    loop."""
    for loop in reversed(loops):  # the results of an inner loop are the next values of the enclosing loop
        loop.regions[0].ops[-1].operands += following
        following = loop.results[len(loop.results) - len(following) :]


def carry_in_parts(
    loop: Op,
    starts: Mapping[int, Sequence[Value]],
    inside: Mapping[int, Sequence[Value]],
    following: Mapping[int, Sequence[Value]],
) -> dict[Value, list[Value]]:
    """Replaces loop-carried values of a `for` by several values each:

        for i, s = 0:                  for i, s0 = 0, s1 = 0:
            yield s + v          →         yield s0 + v0, s1 + v1

    The keys of all maps are the positions of the replaced values. `starts` has the new values before the loop, `inside`
    the new arguments of the body, and `following` those for the next iteration. Returns the results that replace each
    old result."""
    body, control = loop.regions[0], loop.spec.control
    behind = {number: [Value(v.type, loop, v.name) for v in values] for number, values in inside.items()}
    made = {loop.results[number]: values for number, values in behind.items()}
    loop.operands = loop.operands[: control.leading] + _several(loop.operands[control.leading :], starts)
    body.args = body.args[: control.counters] + _several(body.args[control.counters :], inside)
    body.ops[-1].operands = _several(body.ops[-1].operands, following)
    loop.results = _several(loop.results, behind)
    for old in made:
        old.op = None
    return made


def _several(values: Sequence[Value], parts: Mapping[int, Sequence[Value]]) -> list[Value]:
    return [each for number, value in enumerate(values) for each in parts.get(number, [value])]


def known_iterations(loop: Op) -> int | None:
    """Returns the number of iterations of a loop, or None if it is not constant."""
    start, stop, step = (constant_of(v) for v in loop.operands[:3])
    if start is None or stop is None or not step:
        return None
    return iterations_of(int(start), int(stop), int(step))
