"""Chooses among the ways to serve a call: the schedules that a launch names, and the points of their `tune` sets.

The cheapest way that compiles is taken. Its cost is the sum of the `cost` lines of its schedules. Ways without a cost
come last, in the order of the text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from math import inf
from typing import Any, Protocol

from dsl.calls.plan import Step
from dsl.kernels.variant import Request
from dsl.lowering.ir.location import TileError
from dsl.schedules.cheapest import Points

MOST_TRIES = 8
"""The number of points of a way that are lowered at most. If all of them are refused, the way does not fit. Lowering a
point takes 50 ms."""
FOR_ALL_POINTS = ("target", "instruction")
"""Codes of errors after which no other point of the way is tried. Memory and registers depend on the point. What the
target has, and which operands an instruction takes, seldom do."""


class Judge(Protocol):
    """What the choice asks of a planner. `unfit` says why the last request did not fit. `refused` is the compiler's
    error, if there is one."""

    reasons: list[str]
    unfit: str | None
    refused: TileError | None

    def points(self, request: Request) -> Points | None: ...

    def request_fits(self, request: Request) -> bool: ...

    def is_unfit(self, error: TileError) -> bool: ...


@dataclass(frozen=True, slots=True, eq=False)
class Rival:
    """A way to serve a call. `steps` are its launches with the values that its schedules choose. `make` returns its
    launches with other values for names with `tune` sets."""

    name: str
    steps: list[Step]
    make: Callable[[Mapping[str, Any]], list[Step]]


@dataclass(frozen=True, slots=True)
class RivalPoint:
    """A way at one point. `cost` is in microseconds, or infinite if the way states no cost. `rank` is the place of the
    point among the points of the way, the cheapest first."""

    cost: float
    way: Rival
    rank: int
    point: Mapping[str, Any]

    def __str__(self) -> str:
        said = ", ".join(f"{name}={value}" for name, value in self.point.items())
        cost = "no cost" if self.cost == inf else f"{self.cost:.1f} us"
        return f"{self.way.name}: {cost}{f' ({said})' if said else ''}"

    @property
    def steps(self) -> list[Step]:
        # The schedules choose their cheapest points by themselves.
        return self.way.make(self.point) if self.rank else self.way.steps


def cheapest(judge: Judge, ways: Sequence[Rival]) -> RivalPoint:
    """The way that is taken, at its point. Raises TileError if none of several ways compiles. The error is the
    compiler's for the way that would be taken first. The only way is taken even if it does not compile."""
    if len(ways) == 1:
        return _of_one(judge, ways[0])
    found = [(way, points) for way in ways if (points := _points(judge, way)) is not None]
    first = sorted((next(_candidates(*each)) for each in found), key=lambda each: each.cost)
    judge.reasons.append("; ".join(map(str, first)))
    errors: list[TileError] = []
    candidates = merge(*(_candidates(*each) for each in found), key=lambda each: each.cost)
    taken = _first_that_fits(judge, candidates, errors)
    if taken is None:
        names = ", ".join(way.name for way in ways)
        raise next(iter(errors), TileError("dispatch", None, f"none of {names} serves this call", judge.reasons[-1]))
    return taken


def _of_one(judge: Judge, way: Rival) -> RivalPoint:
    """The point of the only way."""
    try:
        found = [points for step in way.steps if (points := judge.points(step.request)) is not None]
    except TileError:
        found = []  # the compiler reports it
    first = next(_candidates(way, found))
    if not found:
        return first
    judge.reasons.append(str(first))
    # If no point fits, the compiler reports why it refuses the cheapest one.
    return _first_that_fits(judge, _candidates(way, found), []) or first


def _first_that_fits(judge: Judge, candidates: Iterable[RivalPoint], errors: list[TileError]) -> RivalPoint | None:
    """The first candidate that compiles and can be launched. Adds the errors of those before it to `errors`."""
    tries: Counter[Rival] = Counter()
    for each in candidates:
        if tries[each.way] >= MOST_TRIES:
            continue
        if all(judge.request_fits(step.request) for step in each.steps):
            return each
        codes = [] if judge.refused is None else [error.code for error in judge.refused.errors]
        tries[each.way] += MOST_TRIES if any(code in FOR_ALL_POINTS for code in codes) else 1
        errors += [] if judge.refused is None else [judge.refused]
        judge.reasons.append(f"{each}: no ({judge.unfit})")
    return None


def _points(judge: Judge, way: Rival) -> list[Points] | None:
    """The points of the launches that state a cost. The result is None if the schedule has no value for this call, or
    if its cost is infinite at all points."""
    try:
        found = [points for step in way.steps if (points := judge.points(step.request)) is not None]
    except TileError as error:
        if not judge.is_unfit(error):
            raise
        judge.reasons.append(f"{way.name}: no ({judge.unfit})")
        return None
    if any(points.costs[0] == inf for points in found):
        judge.reasons.append(f"{way.name}: no (its cost is infinite)")
        return None
    return found


def _candidates(way: Rival, found: Sequence[Points]) -> Iterator[RivalPoint]:
    """The way at each of its points, the cheapest first. The points are those of the first launch that has a cost.
    Other launches add the cost of their cheapest points."""
    if not found:
        yield RivalPoint(inf, way, 0, {})
        return
    first, *others = found
    rest = sum(points.costs[0] for points in others)
    for rank, cost in enumerate(first.costs):
        if rank and cost == inf:
            return
        yield RivalPoint(cost + rest, way, rank, first.at(rank))
