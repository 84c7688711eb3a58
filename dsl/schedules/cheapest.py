"""Chooses the values of `tune` sets that make the `cost` of a schedule least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dsl.schedules.definitions import Said
from dsl.schedules.properties import Setting
from dsl.text.program import Program

if TYPE_CHECKING:
    from dsl.schedules.all_points import Evaluated


MOST_LATEST = 32
"""So many results are kept of a program: those of a plan, of all schedules of a kernel. One has up to a megabyte."""


class Points(Struct, frozen=True, dict=True):
    """The combinations of values of the `tune` sets that a cost reads, cheapest first. `costs` are in microseconds. A
    combination with infinite cost is used only if the caller names the schedule, and no other combination exists.
    `names` contains the names of the sets. `at(i)` returns the values of combination i.

    Most launches read only the first combination. Sorting all of them takes 40 us."""

    evaluated: Evaluated
    names: frozenset[str]

    @cached_property
    def least(self) -> float:
        """The first of the `costs`."""
        return inf if self.first is None else self.first[0]

    @cached_property
    def first(self) -> tuple[float, int] | None:
        return self.evaluated.cheapest()

    @cached_property
    def sorted(self) -> tuple[list[float], list[int]]:
        return self.evaluated.cheapest_first()

    @property
    def costs(self) -> list[float]:
        return [inf] if self.first is None else self.sorted[0]

    @cached_property
    def known(self) -> dict[int, Mapping[str, Any]]:  # a launch reads the values of its cheapest point several times
        return {}

    def at(self, place: int) -> Mapping[str, Any]:
        if place not in self.known:
            if self.first is None:
                self.known[place] = self.evaluated.values_at(0, is_first=True)
            else:
                self.known[place] = self.evaluated.values_at(self.sorted[1][place] if place else self.first[1])
        return self.known[place]


def points(setting: Setting, program: Program, said: Said, *names: Any) -> Points:
    """Evaluates a `cost` line for all values of the `tune` sets that it reads. `names` are further arguments of
    `Names`: the names known so far, the values that the caller gives, and the dims. Raises a TileError if the cost
    cannot be evaluated."""
    # These modules import numpy, which most schedules do not need.
    from dsl.schedules.all_points import AllPoints
    from dsl.schedules.compiled_cost import CompiledCosts

    known, given, dims = names
    latest = program.once(LatestPoints)
    key = latest.key(setting, said, known, given, dims) if latest.is_used else None
    if (kept := latest.find(key)) is not None:
        return kept
    found = None
    if not latest.is_used:
        found = program.once(CompiledCosts).evaluated(setting, said, known, given, dims)
    if found is None:
        at = AllPoints(program, known, said.definitions, given, dims)
        at.broken = said.mistakes.broken
        found = at.evaluated_cost(setting)
    return latest.keep(key, Points(found, frozenset(found.sets)), setting, said)


class LatestPoints:
    """The points that a program evaluated last, by all that they depend on. They are kept for a check, which asks
    several times for those of a variant: whether it may be chosen, which point is the cheapest, and with which values
    it is built.

    A check evaluates a cost at a few dims, so it walks costs and compiles none. A walk takes 0.7 ms, and compiling a
    cost 2 to 3. Calls meet new dims again and again, and those with the same dims have a plan."""

    is_used = False

    def __init__(self, program: Program):
        self.found: dict[Any, tuple[Points, Any]] = {}

    def key(self, setting: Setting, said: Said, *names: Any) -> Any:
        """Returns all that a cost depends on, or None if a value of it cannot be compared."""
        known, given, dims = names
        values = [(name, type(value), str(value) if type(value) is float else value) for name, value in known.items()]
        values += [(name, type(value), str(value) if type(value) is float else value) for name, value in given.items()]
        key = id(setting.values[0]), id(said.definitions), frozenset(said.mistakes.broken), len(known), *values, *dims
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def find(self, key: Any) -> Points | None:
        found = None if key is None else self.found.get(key)
        return None if found is None else found[0]

    def keep(self, key: Any, points: Points, *named: Any) -> Points:
        """Keeps points. `named` are the objects that the key names by their addresses, which stay alive."""
        if key is not None:
            self.found[key] = points, named
            if len(self.found) > MOST_LATEST:
                self.found.pop(next(iter([*self.found])), None)  # another thread may have removed it
        return points


def costs_at(
    setting: Setting, program: Program, said: Said, known: Any, points: Sequence[Mapping[str, Any]], dims: Any
) -> list[float]:
    """Evaluates a `cost` line at these points, in microseconds. All points set the same names, and the same words."""
    from dsl.schedules.all_points import GivenPoints

    at = GivenPoints(points, program, known, said.definitions, dims)
    at.broken = said.mistakes.broken
    return at.costs(setting).tolist()
