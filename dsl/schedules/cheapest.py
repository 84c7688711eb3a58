"""Chooses the values of `tune` sets by the `cost` of a schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dsl.schedules.definitions import Said
from dsl.schedules.properties import Setting
from dsl.text.program import Program


@dataclass(frozen=True, slots=True)
class Points:
    """The points of the `tune` sets that a cost reads, cheapest first. `costs` are in microseconds. A point with an
    infinite cost is taken only if the schedule is asked for by name, and has no other point. `names` are those of the
    sets. `at` returns their values at the point with a place in the order."""

    costs: list[float]
    names: frozenset[str]
    at: Callable[[int], dict[str, Any]]


def points(setting: Setting, program: Program, said: Said, *names: Any) -> Points:
    """The points of the sets that a `cost` line reads. `names` are further parameters of `Names`: the names known so
    far, the values that the caller gives, and the dims. Raises a TileError if the cost cannot be evaluated."""
    from dsl.schedules.all_points import AllPoints  # imports numpy, which most schedules do not need

    known, given, dims = names
    at = AllPoints(program, known, said.definitions, given, dims)
    at.broken = said.mistakes.broken
    costs, place = at.cheapest_first(setting)
    return Points(costs, frozenset(at.sets), place)
