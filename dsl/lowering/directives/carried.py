"""Lets a loop carry tiles in parts.

for i, s = 0:                  for i, s0 = 0, s1 = 0:
    yield s + v          →         yield s0 + v0, s1 + v1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsl.lowering.ir.function import Op, Value

LEADING = 3
"""The number of operands of a `for` before its loop-carried values: start, stop and step."""


def carry_in_parts(
    loop: Op,
    starts: Mapping[int, Sequence[Value]],
    inside: Mapping[int, Sequence[Value]],
    following: Mapping[int, Sequence[Value]],
) -> dict[Value, list[Value]]:
    """Replaces loop-carried values of a `for` by several values each. The keys of all maps are the positions of the
    replaced values. `starts` has the new values before the loop, `inside` the new arguments of the body, and
    `following` those for the next iteration. Returns the results that replace each old result."""
    body = loop.regions[0]
    behind = {number: [Value(v.type, loop, v.name) for v in values] for number, values in inside.items()}
    made = {loop.results[number]: values for number, values in behind.items()}
    loop.operands = loop.operands[:LEADING] + _several(loop.operands[LEADING:], starts)
    body.args = body.args[:1] + _several(body.args[1:], inside)
    body.ops[-1].operands = _several(body.ops[-1].operands, following)
    loop.results = _several(loop.results, behind)
    for old in made:
        old.op = None
    return made


def _several(values: Sequence[Value], parts: Mapping[int, Sequence[Value]]) -> list[Value]:
    return [each for number, value in enumerate(values) for each in parts.get(number, [value])]
