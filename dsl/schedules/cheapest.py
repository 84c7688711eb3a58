"""Chooses the values of `tune` sets by the `cost` of a schedule."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dsl.schedules.definitions import Said
from dsl.text.program import Program


@dataclass(frozen=True, slots=True)
class Points:
    """The points of the `tune` sets that a cost reads, cheapest first. `costs` are in microseconds. A point with an
    infinite cost is taken only if the schedule is asked for by name, and has no other point. `sets` maps each name to
    its values, one for each point."""

    costs: list[float]
    sets: Mapping[str, list[Any]]

    def at(self, place: int) -> dict[str, Any]:
        """The values of the names at the point with this place in the order."""
        return {name: values[place] for name, values in self.sets.items()}


def points(
    program: Program, said: Said, known: Mapping[str, Any], given: Mapping[str, Any], dims: Collection[str]
) -> Points | None:
    """The points of a schedule, or None if the schedule states no cost. The parameters are those of `Names`. Raises a
    TileError if the cost cannot be evaluated."""
    setting = said.settings.get(("cost", None))
    if setting is None:
        return None
    from dsl.schedules.all_points import AllPoints  # imports numpy, which most schedules do not need

    names = AllPoints(program, known, said.definitions, given, dims)
    names.broken = said.mistakes.broken
    return Points(*names.cheapest_first(setting))
