"""The interface of searches. A search chooses the points (schedule and constants) that `dsl tune` tries, and receives
their results.

Your own search is a class derived from `Search`, registered under a name:

    @search("backwards")
    class Backwards(Search):
        def ask(self, count):
            return self.take(reversed(self.fresh()), count)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from random import Random
from typing import Any, ClassVar, TypeVar

from msgspec import Struct

from dsl.lab.by_users import registered
from dsl.lab.contest import RUNGS
from dsl.lab.trial import Trial


class Point(Struct, frozen=True):
    """A point of a launch.

    `index` is the point's number. Of points that tie, the one with the smallest index wins. `settings` maps `schedule`
    and the names of constants to values. A constant that this schedule lacks is missing. `is_default` is true if the
    schedules choose these values by default. `cost` is the time in microseconds that the schedules compute, or None if
    they compute none, or if a model orders the points.
    """

    index: int
    settings: Mapping[str, Any]
    is_default: bool
    cost: float | None = None


class Search:
    """The state of a search over the points of one launch with one set of values.

    The tuner calls `ask(count)`, tries the returned points, and passes their results to `tell`. It repeats these steps.
    With several devices, the tuner may call `ask` again before it has passed all results to `tell`. The search ends if
    `ask` returns nothing while no result is pending. Before the first `ask`, the tuner passes the logged trials of all
    points to `tell`.

    `ask` may return a point again. A GPU then times the point once more, with the rounds of `rungs`. On the emulator,
    whose counters never vary, the tuner passes the known result to `tell` again. Only the first request counts against
    the budget.

    `points` lists the default points first, then the other points. The other points are in random order, or sorted by
    the predictions of a model or the costs that schedules compute. `budget` is the greatest number of points to try, or
    None for all. `random` is seeded by `--seed`. A search must use no other random numbers, so that the same command
    tries the same points.
    """

    is_ordered: ClassVar[bool] = False
    """Whether the search takes points in the order of `points`, so that a model can decide which points come first."""
    rungs: Sequence[int] = RUNGS
    """The number of rounds of each rung (stage) in which the points of the last `ask` are measured.

    After each rung, points that are certainly slower than the best drop out. The results are told after all rungs.
    """

    def __init__(self, points: Sequence[Point], budget: int | None, seed: int):
        self.points, self.budget, self.random = points, budget, Random(seed)
        self.asked: set[int] = set()
        self.told: dict[int, Trial] = {}

    def ask(self, count: int) -> Sequence[Point]:
        """Returns at most `count` points to try next. Returns fewer points, or none, if the search first needs pending
        results."""
        raise NotImplementedError

    def tell(self, trials: Mapping[int, Trial]) -> None:
        """Receives results of points, by index.

        `Trial.is_fine` is true if the result is right and has a time or counters. A smaller `Trial.rank` is better.
        """
        self.told.update(trials)

    # ---- what searches have in common ----

    @property
    def left(self) -> int:
        """Returns how many more points may be tried."""
        return len(self.points) if self.budget is None else max(0, self.budget - len(self.asked))

    def is_fresh(self, point: Point) -> bool:
        """Whether the point has neither been requested nor received a result."""
        return point.index not in self.asked and point.index not in self.told

    def fresh(self) -> list[Point]:
        """The fresh points in order: those that have neither been requested nor received a result."""
        return [point for point in self.points if self.is_fresh(point)]

    def slower(self) -> Mapping[int, float]:
        """The points that the search leaves out because they are predicted to be slower than the best one. Maps their
        indices to the predicted times in microseconds."""
        return {}

    def take(self, points: Iterable[Point], count: int) -> list[Point]:
        """Returns the first `count` of `points`, or fewer if the budget ends, and marks them as requested. `points`
        must be fresh."""
        found = list(islice(points, min(count, self.left)))
        self.asked |= {point.index for point in found}
        return found

    def fine(self) -> list[Point]:
        """The points with a right result, best first. Equally good points are sorted by index."""
        good = [point for point in self.points if point.index in self.told and self.told[point.index].is_fine]
        return sorted(good, key=lambda point: (self.told[point.index].rank, point.index))

    @property
    def is_waiting(self) -> bool:
        """Whether a requested point has no result yet."""
        return not self.asked <= self.told.keys()


Class = TypeVar("Class", bound=type[Search])
SEARCHES: dict[str, type[Search]] = {}
"""Search classes by name."""


def search(name: str) -> Callable[[Class], Class]:
    """Registers a class derived from `Search` for `dsl tune --search`.

    Raises ValueError if another file has registered the name, and TypeError for anything but such a class.
    """
    return registered(SEARCHES, name, Search, "search")
