"""The interface of searches. A search requests points of a launch and receives their results.

Your own search is a class derived from `Search`, registered under a name:

    @search("backwards")
    class Backwards(Search):
        def ask(self, count):
            return self.take(reversed(self.fresh()), count)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any, ClassVar, TypeVar

from dsl.lab.by_users import registered
from dsl.lab.contest import RUNGS
from dsl.lab.trial import Trial


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a launch.

    `index` is the point's position in the order of the file's sets. Between points that tie, the index decides.
    `settings` maps names to values: `schedule`, constants and choices. A name that the other settings rule out is
    missing. `is_default` says whether the point has the values that its schedules choose.
    """

    index: int
    settings: Mapping[str, Any]
    is_default: bool


class Search:
    """The state of a search over the points of one launch with one set of values.

    The tuner calls `ask(count)`, tries the returned points, and passes their results to `tell`. The tuner repeats these
    steps. Since devices work in parallel, the tuner may call `ask` again before it has told all results to the search.
    If `ask` returns nothing while no result is pending, the search ends. Before the first `ask`, the tuner tells the
    trials of the log, even for points that are never requested.

    A search may request a point again. A GPU then measures the point once more, with the rounds of `rungs`. On the
    emulator, whose counters never vary, the tuner tells the point's result again. Only the first request counts against
    the budget.

    `points` has the default order of trying: first the defaults, then the other points. The other points are in random
    order, or in the order that a model predicts. `budget` limits how many points may be tried, None for all. `random`
    is seeded by `--seed` and must be the only source of chance, so that the same command tries the same points.
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
        """At most `count` points to try next. Returns fewer points, or none, if the search first needs pending
        results."""
        raise NotImplementedError

    def tell(self, trials: Mapping[int, Trial]) -> None:
        """Receives results of points, by index.

        `Trial.is_fine` says whether the result is right and has a time or counters. A smaller `Trial.rank` is better.
        """
        self.told.update(trials)

    # ---- what searches have in common ----

    @property
    def left(self) -> int:
        """How many more points may be tried."""
        return len(self.points) if self.budget is None else max(0, self.budget - len(self.asked))

    def is_fresh(self, point: Point) -> bool:
        """Whether the point was not yet requested and has no result."""
        return point.index not in self.asked and point.index not in self.told

    def fresh(self) -> list[Point]:
        """The points that were not yet requested and have no result, in order."""
        return [point for point in self.points if self.is_fresh(point)]

    def take(self, points: Iterable[Point], count: int) -> list[Point]:
        """Takes the first of the given fresh points, at most `count` and within the budget, and marks them as
        requested."""
        found = list(islice(points, min(count, self.left)))
        self.asked |= {point.index for point in found}
        return found

    def fine(self) -> list[Point]:
        """The points with a right result, best first. Equally good points have the file's order."""
        good = [point for point in self.points if point.index in self.told and self.told[point.index].is_fine]
        return sorted(good, key=lambda point: (self.told[point.index].rank, point.index))

    @property
    def is_waiting(self) -> bool:
        """Whether the result of a requested point is pending."""
        return not self.asked <= self.told.keys()


Class = TypeVar("Class", bound=type[Search])
SEARCHES: dict[str, type[Search]] = {}
"""Search classes by name."""


def search(name: str) -> Callable[[Class], Class]:
    """Registers a class derived from `Search` for `dsl tune --search`.

    Raises ValueError for a name that another file has registered, and TypeError for anything but such a class.
    """
    return registered(SEARCHES, name, Search, "search")
