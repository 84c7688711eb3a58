"""Draws shapes for the examples of a file, for `dsl calibrate`."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from random import Random

from dsl.examples.overrides import Overrides
from dsl.examples.shapes import examine
from dsl.lab.place import TuningPlace
from dsl.lab.space import calls
from dsl.lowering.ir.location import TileError
from dsl.text import tree as ast
from dsl.text.program import Program
from dsl.text.tree import names_in

LEAST_EXTENT = 8
"""Smaller numbers of an example are no extents to vary: taps of a filter, heads, strides."""
SMALLER, LARGER = -2.0, 12.0
"""The least factor of an extent, and about the greatest factor of all extents together, as powers of two."""
ALIGNED = 64
"""A drawn extent is divisible by the same power of two as the example's extent, up to this power."""
MOST_BYTES, MOST_OPERATIONS = 1 << 27, 1 << 35
"""Limits of the bytes of all arrays and of the operations of an example. The host makes the arrays, and computes the
expected results."""
TRIES = 50
"""The number of draws for each wanted case. An example may have no result at most shapes."""


def random_cases(
    program: Program, example: ast.Example, place: TuningPlace, count: int, seed: int
) -> Iterator[Overrides]:
    """Yields up to `count` sets of extents at which all launches of the example can be planned."""
    extents, draw = extents_of(program, example), Random(seed)
    seen: set[tuple[int, ...]] = set()
    for _ in range(TRIES * count if extents else 0):
        if len(seen) == count:
            return
        largest = LARGER / len(extents) - SMALLER
        drawn = {name: drawn_extent(extent, draw.uniform(SMALLER, largest)) for name, extent in extents.items()}
        key = tuple(drawn.values())
        if key not in seen and serves(program, example, place, Overrides(names={**drawn})):
            seen.add(key)
            yield Overrides(names={**drawn})


def extents_of(program: Program, example: ast.Example) -> dict[str, int]:
    """The extents that the example states: whole numbers that do not depend on other names."""
    known, found = examine(program, example).numbers, dict[str, int]()
    for line in example.lines:
        if isinstance(line, ast.Assign) and not names_in(line.value):
            names = [each.id for each in line.targets if isinstance(each, ast.Name)]
            found |= {name: known[name] for name in names if known.get(name, 0) >= LEAST_EXTENT}
    return found


def drawn_extent(extent: int, power: float) -> int:
    step = gcd(extent, ALIGNED)
    return max(1, round(extent * 2**power / step)) * step


def serves(program: Program, example: ast.Example, place: TuningPlace, overrides: Overrides) -> bool:
    """Whether all launches can be planned, within the limits."""
    facts = examine(program, example, overrides)
    if facts.errors or facts.computes > MOST_OPERATIONS or sum(each.bytes for each in facts.launches) > MOST_BYTES:
        return False
    try:
        for call in calls(program, example, overrides, place):
            if call.facts.is_known:
                call.planner().plan()
    except TileError:
        return False
    return True
