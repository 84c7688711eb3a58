"""The built-in searches, and the lookup of a search by its name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

import dsl.lab.search_optuna  # noqa: F401 (registers itself)
from dsl.lab.by_users import called, class_named, wrong
from dsl.lab.contest import RUNGS
from dsl.lab.outcome import intervals_of
from dsl.lab.search import SEARCHES, Point, Search, search
from dsl.lab.space import distinct
from dsl.lab.trial import Trial
from dsl.lowering.ir.location import TileError
from dsl.runtime.numbers import exact_key

MOST_IN_VAIN = 4
"""The limit of consecutive requests with only known points, as a multiple of the number of points. After this many
requests, the search is stopped."""


LEAST_TIMED, STEP = 8, 8
"""Costs leave out points once so many points are timed. So many points are requested at a time, since those that are
requested already are tried in any case."""
DEVIATIONS = 2.0
"""The error of a predicted time, in standard deviations of log(time / cost). With about 24 points of each of 275 random
products (H200), 2 leaves out 31 % of the points, and the best of the others takes 1.0007 times the best time. 3 leaves
out 23 %, and the number is 1.0001."""


@search("all")
class InOrder(Search):
    """Tries all points in the given order, or with a budget, the first of them."""

    is_ordered = True

    def ask(self, count: int) -> Sequence[Point]:
        return self.take(self.fresh(), count)


@search("cost")
class LeastCost(InOrder):
    """Tries the points in the order of their costs, until the others are predicted to be slower than the best.

    A predicted time is the cost times the mean quotient of time and cost (geometric mean) of the points so far. A point
    is left out if this time exceeds the best time by more than the error. Points without a cost are always tried.
    """

    def ask(self, count: int) -> Sequence[Point]:
        return super().ask(min(count, STEP))

    def fresh(self) -> list[Point]:
        left_out = self.slower()
        return [point for point in super().fresh() if point.index not in left_out]

    def slower(self) -> Mapping[int, float]:
        times = {index: middle for index, (middle, _, _) in intervals_of(self.told).items()}
        costs = {point.index: point.cost for point in self.points if point.cost and 0 < point.cost < math.inf}
        errors = [math.log(time / costs[index]) for index, time in times.items() if index in costs]
        if len(errors) < LEAST_TIMED:
            return {}
        mean, limit = fmean(errors), min(times.values()) * math.exp(DEVIATIONS * stdev(errors))
        predicted = {
            point.index: costs[point.index] * math.exp(mean) for point in super().fresh() if point.index in costs
        }
        return {index: time for index, time in predicted.items() if time > limit}


@search("random")
class AtRandom(Search):
    """Draws points at random, one setting after another. No point is drawn twice.

    The first setting is the schedule. So a schedule with three points is drawn as often as a schedule with a thousand
    points.
    """

    def ask(self, count: int) -> Sequence[Point]:
        found: list[Point] = []
        while len(found) < count and self.left and (fresh := self.fresh()):
            found += self.take([self.draw(fresh)], 1)
        return found

    def draw(self, points: list[Point]) -> Point:
        while len(points) > 1:
            name = first_difference(points)
            value = self.random.choice(values(points, name))
            points = [point for point in points if exact_key(point.settings.get(name)) == exact_key(value)]
        return points[0]


def values(points: Sequence[Point], name: str) -> list[object]:
    """The distinct values of a setting. For a point without the setting, the value is None."""
    return distinct([point.settings.get(name) for point in points])


def first_difference(points: Sequence[Point]) -> str:
    """The first setting in which the points differ."""
    names = dict.fromkeys(name for point in points for name in point.settings)
    return next(name for name in names if len(values(points, name)) > 1)


@search("one")
class OneAtATime(Search):
    """Coordinate descent: starts from the best default point and tries all values of one setting.

    Then it tries all values of the next setting from the best point so far (the base), until no setting improves the
    result. If no default point is right, the search starts at the first other point that is right. For each
    value, it tries the point that has this value and otherwise equals the base. If no such point exists, it tries the
    point with this value that shares the most settings with the base.
    """

    def __init__(self, points: Sequence[Point], budget: int | None, seed: int):
        super().__init__(points, budget, seed)
        self.names = list(dict.fromkeys(name for point in points for name in point.settings))
        self.base: Point | None = None
        self.steps = self.in_vain = 0
        """`steps` counts the settings that were tried. `in_vain` counts how many of the last settings in a row improved
        nothing."""
        self.queue = [point for point in points if point.is_default]

    def ask(self, count: int) -> Sequence[Point]:
        while True:
            self.queue = [point for point in self.queue if self.is_fresh(point)]
            if self.queue or self.is_waiting:
                return self.take(self.queue, count)
            if not self.step():
                return []

    def step(self) -> bool:
        """Queues the points for the next setting. Returns False at the end of the search."""
        if not (found := self.fine()):  # requests the other points in order, until one is right
            self.queue = self.fresh()[:1]
            return bool(self.queue)
        is_better = self.base is None or found[0].index != self.base.index
        self.base, self.in_vain = found[0], 0 if is_better else self.in_vain + 1
        # A whole round over all settings brought no improvement.
        if self.in_vain == len(self.names):
            return False
        self.queue = self.along(self.base, self.names[self.steps % len(self.names)])
        self.steps += 1
        return True

    def along(self, base: Point, name: str) -> list[Point]:
        """Returns, for each other value of a setting, the point that agrees with the base in most settings."""
        found: dict[object, Point] = {}

        def agreement(point: Point) -> tuple[int, int]:
            # Among equally near points, the first in the file's order wins.
            return sum(point.settings.get(each) == base.settings.get(each) for each in self.names), -point.index

        for point in self.points:
            value = exact_key(point.settings.get(name))
            if value != exact_key(base.settings.get(name)):
                found[value] = max(found.get(value, point), point, key=agreement)
        return list(found.values())


@search("halving")
class Halving(Search):
    """Successive halving. The points are timed in stages (rungs).

    In the first rung, all points within the budget are timed. In the next rung, the better half is timed again, with
    twice the rounds. In the last rung, the better half of these is timed.
    """

    is_ordered = True

    def __init__(self, points: Sequence[Point], budget: int | None, seed: int):
        super().__init__(points, budget, seed)
        self.rung = 0
        self.rungs = RUNGS[:1]
        self.field = {point.index for point in points}
        """The points of this rung."""
        self.queue: list[Point] = []
        """The points of this rung that have not been requested yet."""
        self.awaited: set[int] = set()

    def ask(self, count: int) -> Sequence[Point]:
        if self.rung == 0 and (found := self.take(self.fresh(), count)):
            self.awaited |= {point.index for point in found}
            return found
        if not self.queue and not self.awaited and self.rung + 1 < len(RUNGS):
            self.halve()
        found, self.queue = self.queue[:count], self.queue[count:]
        self.awaited |= {point.index for point in found}
        return found

    def halve(self) -> None:
        """Starts the next rung with the better half."""
        good = [point for point in self.fine() if point.index in self.field]
        better = good[: -(-len(good) // 2)]
        self.rung += 1
        self.rungs = RUNGS[self.rung : self.rung + 1]
        self.field = {point.index for point in better}
        # A single point has no other point to compare with.
        self.queue = better if len(better) > 1 else []

    def tell(self, trials: Mapping[int, Trial]) -> None:
        super().tell(trials)
        self.awaited -= trials.keys()


class SearchRun:
    """Calls a search, which is built in or from a plug-in, and checks what it returns.

    Raises a TileError `plugin` if a plug-in's search raises, never returns, or returns something other than points.
    Raises a TileError `option` if the search requests only known points for too long.
    """

    def __init__(self, name: str, points: Sequence[Point], budget: int | None, seed: int):
        made = search_named(name)
        self.name, self.most, self.in_vain = name, MOST_IN_VAIN * (len(points) + 1), 0
        with called(made, "__init__"):
            self.search = made(points, budget, seed)

    def ask(self, count: int) -> list[Point]:
        with called(self.search, "ask"):
            found = self.search.ask(count)
            found = found if found is None else list(found)
        if found is None or not all(isinstance(each, Point) for each in found):
            raise wrong(self.search, "ask", f"gave {found!r:.80}", "points: self.take(self.fresh(), count)")
        return found

    def tell(self, trials: Mapping[int, Trial]) -> None:
        with called(self.search, "tell"):
            self.search.tell(trials)

    def note(self, is_new: bool) -> None:
        """Counts consecutive requests without a new point. Raises a TileError if there are too many."""
        self.in_vain = 0 if is_new else self.in_vain + 1
        if self.in_vain > self.most:
            message = f"the search '{self.name}' has requested known points {self.in_vain} times in a row"
            raise TileError("option", None, message, "self.take(self.fresh(), count) returns new points, [] ends it")

    @property
    def rungs(self) -> Sequence[int]:
        rungs = self.search.rungs
        # `type` and not isinstance, since in Python True is an int.
        if not isinstance(rungs, Sequence) or not rungs or not all(type(n) is int and n > 0 for n in rungs):
            raise wrong(self.search, "ask", f"has left `rungs` {rungs!r:.60}", "rounds of each rung: (5, 10, 20)")
        return rungs

    def fresh(self) -> list[Point]:
        with called(self.search, "fresh"):
            return self.search.fresh()

    def slower(self) -> Mapping[int, float]:
        with called(self.search, "slower"):
            return self.search.slower()

    @property
    def left(self) -> int:
        with called(self.search, "left"):
            return self.search.left


def search_named(name: str) -> type[Search]:
    """The search class of this name. Raises a TileError `option`."""
    return class_named(SEARCHES, name, "search")
