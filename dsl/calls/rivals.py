"""Chooses the cheapest way to serve a call, among schedules and values of their `tune` sets (points).

The cost of a way is the sum of the `cost` lines of its schedules. The cheapest way that compiles is used. Ways without
a cost come last, in the order of the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from dsl.calls.plan import Step
from dsl.kernels.variant import Request
from dsl.lowering.ir.location import Errors, TileError
from dsl.schedules.cheapest import Points

MOST_TRIES = 4
"""The greatest number of points of a launch that are lowered. Lowering a point takes 50 ms."""

PointsOfLaunches = Mapping[int, Mapping[str, Any]]
"""Maps the number of a launch to the values of its names with `tune` sets."""


class Judge(Protocol):
    """The part of a planner that `cheapest` calls. `unfit` is the reason why the last request did not fit. `refused` is
    the compiler's error for it, or None. `skipped` maps rivals that do not serve the call to the reasons."""

    reasons: list[str]
    skipped: dict[str, str]
    unfit: str | None
    refused: TileError | None

    def points(self, request: Request) -> Points | None: ...

    def request_fits(self, request: Request) -> bool: ...

    def is_unfit(self, error: TileError, request: Request) -> bool: ...


class Rival(Struct, frozen=True, eq=False):
    """One way to serve a call. `steps` are its launches with the `tune` values that their schedules choose. `make`
    returns its launches with other values."""

    name: str
    steps: list[Step]
    make: Callable[[PointsOfLaunches], list[Step]]


class RivalPoint(Struct, frozen=True, dict=True):
    """A rival with chosen `tune` values for each launch. `points` contains all points of each launch, or None if its
    schedule has no cost. `ranks` contains the index of the chosen point of each launch, where 0 is the cheapest."""

    rival: Rival
    points: Sequence[Points | None]
    ranks: tuple[int, ...]

    @cached_property
    def cost(self) -> float | None:
        """The sum of the costs in microseconds, or None if no schedule has a cost."""
        found = [
            each.costs[rank] if rank else each.least
            for each, rank in zip(self.points, self.ranks, strict=True)
            if each is not None
        ]
        return sum(found) if found else None

    @cached_property
    def values(self) -> PointsOfLaunches:
        pairs = enumerate(zip(self.points, self.ranks, strict=True))
        return {number: each.at(rank) for number, (each, rank) in pairs if each is not None}

    @property
    def steps(self) -> list[Step]:
        # A schedule chooses its cheapest point by itself.
        if not any(self.ranks):
            return self.rival.steps
        return self.rival.make({number: values for number, values in self.values.items() if self.ranks[number]})

    def next_of(self, launch: int) -> RivalPoint | None:
        """Returns the rival with the next more expensive point of one launch. Returns None if there is none, or if
        `MOST_TRIES` points were tried."""
        points, rank = self.points[launch], self.ranks[launch] + 1
        if points is None or rank == min(MOST_TRIES, len(points.costs)) or points.costs[rank] == inf:
            return None
        return replace(self, ranks=(*self.ranks[:launch], rank, *self.ranks[launch + 1 :]))

    def __str__(self) -> str:
        said = ", ".join(f"{name}={value}" for values in self.values.values() for name, value in values.items())
        if self.cost is None:
            return self.rival.name
        figure = f"{self.cost:.1f} us" if self.cost < inf else "an infinite cost"
        return f"{self.rival.name}: {figure}{f' ({said})' if said else ''}"


def cheapest(judge: Judge, rivals: Sequence[Rival]) -> RivalPoint | None:
    """Returns the cheapest rival that serves the call, with the chosen point of each launch. Returns None if none of
    several rivals does. Then `judge.refused` is the compiler's error for the first of them that it refuses, or None.
    For a single rival, this error is raised."""
    judge.skipped, judge.refused = {}, None
    if len(rivals) == 1:
        return _of_one(judge, rivals[0])
    candidates = [each for rival in rivals if (each := _candidate(judge, rival)) is not None]
    refused = judge.refused
    candidates.sort(key=_cost)
    if any(each.cost is not None for each in candidates):
        judge.reasons.append("; ".join(map(str, candidates)))
    found = _first_that_fits(judge, candidates)
    if found is None:
        judge.refused = judge.refused or refused
    return found


def _of_one(judge: Judge, rival: Rival) -> RivalPoint:
    """Returns a point of the only rival: the first that compiles. If there is none, raises the TileError of the
    cheapest. A point with an infinite cost is returned in any case."""
    try:
        first = RivalPoint(rival, [judge.points(step.request) for step in rival.steps], (0,) * len(rival.steps))
    except TileError:
        return RivalPoint(rival, [None] * len(rival.steps), (0,) * len(rival.steps))  # the compiler reports it
    if first.cost is None:
        return first
    judge.reasons.append(str(first))
    found = _first_that_fits(judge, [first])
    if found is None and judge.refused is not None and first.cost < inf:
        raise judge.refused
    return found or first


def _candidate(judge: Judge, rival: Rival) -> RivalPoint | None:
    """Returns a rival at its cheapest point. Returns None if its cost is infinite, or has no value for this call."""
    points = []
    for step in rival.steps:
        try:
            points.append(judge.points(step.request))
        except TileError as error:
            if not judge.is_unfit(error, step.request):
                raise
            _skip(judge, rival, rival.name, judge.unfit)
            return None
    first = RivalPoint(rival, points, (0,) * len(rival.steps))
    if first.cost == inf:
        _skip(judge, rival, rival.name, "its cost is infinite")
        return None
    return first


def _skip(judge: Judge, rival: Rival, point: str, reason: str | None) -> None:
    """Records that a point of a rival does not serve the call. In `skipped`, the cheapest point stands for all."""
    judge.skipped.setdefault(rival.name, str(reason))
    judge.reasons.append(f"{point}: no ({reason})")


def _first_that_fits(judge: Judge, candidates: Sequence[RivalPoint]) -> RivalPoint | None:
    """Returns the cheapest point at which all launches compile. If a launch does not compile, its next point is
    tried. If none compiles, returns None, and `judge.refused` is the compiler's error for the cheapest point."""
    heap = [(_cost(each), number, each) for number, each in enumerate(candidates)]
    heapify(heap)
    refused = 0
    errors: list[TileError] = []
    while heap:
        _, number, each = heappop(heap)
        launch = next((i for i, step in enumerate(each.steps) if not judge.request_fits(step.request)), None)
        if launch is None:
            judge.reasons += [f"taken: {each}"] if refused else []
            return each
        refused += 1
        _skip(judge, each.rival, str(each), judge.unfit)
        # No other point has what the target lacks.
        codes = [] if judge.refused is None else [error.code for error in judge.refused.errors]
        errors += [] if judge.refused is None else [_of_point(judge.refused, each)]
        if "target" not in codes and (other := each.next_of(launch)) is not None:
            heappush(heap, (_cost(other), number, other))
    judge.refused = errors[0] if errors else None
    return None


def _of_point(error: TileError, point: RivalPoint) -> TileError:
    """Returns the compiler's error for a point, with a hint that names the values that its cost chose."""
    values = [(name, value) for each in point.values.values() for name, value in each.items()]
    if not values:
        return error
    first, *others = error.errors
    chosen = ", ".join(f"{name}={value}" for name, value in values)
    names = " or ".join(dict(values))
    said = f"the cost of '{point.rival.name}' chose {chosen}; set {names}, or exclude the point by an infinite cost"
    hint = f"{first.hint}; {said}" if first.hint else said
    told = TileError(first.code, first.loc, first.message, hint)
    return Errors([told, *others]) if others else told


def _cost(each: RivalPoint) -> float:
    return inf if each.cost is None else each.cost
