"""Chooses the values of `tune` sets that make the `cost` of a schedule least."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from dsl.schedules.definitions import Said
from dsl.schedules.properties import Setting
from dsl.text.program import Program


class Points(Struct, frozen=True):
    """The combinations of values of the `tune` sets that a cost reads, cheapest first. `costs` are in microseconds. A
    combination with infinite cost is used only if the caller names the schedule, and no other combination exists.
    `names` contains the names of the sets. `at(i)` returns the values of combination i."""

    costs: list[float]
    names: frozenset[str]
    at: Callable[[int], Mapping[str, Any]]


def points(setting: Setting, program: Program, said: Said, *names: Any) -> Points:
    """Evaluates a `cost` line for all values of the `tune` sets that it reads. `names` are further arguments of
    `Names`: the names known so far, the values that the caller gives, and the dims. Raises a TileError if the cost
    cannot be evaluated."""
    # These modules import numpy, which most schedules do not need.
    from dsl.schedules.all_points import AllPoints
    from dsl.schedules.compiled_cost import CompiledCosts

    known, given, dims = names
    found = program.once(CompiledCosts).evaluated(setting, said, known, given, dims)
    if found is None:
        at = AllPoints(program, known, said.definitions, given, dims)
        at.broken = said.mistakes.broken
        found = at.evaluated_cost(setting)
    costs, place = found.cheapest_first()
    return Points(costs, frozenset(found.sets), place)


def costs_at(
    setting: Setting, program: Program, said: Said, known: Any, points: Sequence[Mapping[str, Any]], dims: Any
) -> list[float]:
    """Evaluates a `cost` line at these points, in microseconds. All points set the same names, and the same words."""
    from dsl.schedules.all_points import GivenPoints

    at = GivenPoints(points, program, known, said.definitions, dims)
    at.broken = said.mistakes.broken
    return at.costs(setting).tolist()
