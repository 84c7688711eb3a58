"""The interface of searches: a search requests points of a launch, and receives their results.

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

from dsl.lab.by_users import is_anew
from dsl.lab.contest import RUNGS
from dsl.lab.trial import Trial


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a launch. index: its place in the order of the file's sets, which decides ties; settings by name:
    `schedule`, constants and choices, without names that do not exist under its other settings; is_default: the first
    of each set of its schedule."""

    index: int
    settings: Mapping[str, Any]
    is_default: bool


class Search:
    """The state of one search over the points of one launch at one case.

    The tuner calls `ask(count)`, tries those points, and calls `tell`; repeatedly, and again before all results are
    told, since devices work side by side. An empty answer while no result is pending ends the search. Trials of the log
    are told before the first `ask`, also for points that are never requested.

    A point may be requested again: a GPU measures it once more, for `rungs`; on the emulator, whose counters never
    vary, its result is told again. Only the first request counts against the budget.

    points: in the order in which to try them by default: the defaults, then the others in random order, or as a model
    predicts. budget: how many may be tried, None for all. random: seeded by `--seed`, the only source of chance, so
    that the same command tries the same points."""

    is_ordered: ClassVar[bool] = False
    """Whether it takes points in the order of `points`, so that a model can decide which come first."""
    rungs: Sequence[int] = RUNGS
    """Rounds of each rung of the contest for the points of the last `ask`. Their results are told after all rungs;
    after each rung, points that are certainly slower than the best drop out."""

    def __init__(self, points: Sequence[Point], budget: int | None, seed: int):
        self.points, self.budget, self.random = points, budget, Random(seed)
        self.asked: set[int] = set()
        self.told: dict[int, Trial] = {}

    def ask(self, count: int) -> Sequence[Point]:
        """At most `count` points to try next; fewer, or none, if pending results must be told first."""
        raise NotImplementedError

    def tell(self, trials: Mapping[int, Trial]) -> None:
        """Results of points, by index. `Trial.is_fine`: it is right and was measured; `Trial.rank`: smaller is
        better."""
        self.told.update(trials)

    # ---- what searches have in common ----

    @property
    def left(self) -> int:
        """How many more points may be tried."""
        return len(self.points) if self.budget is None else max(0, self.budget - len(self.asked))

    def is_fresh(self, point: Point) -> bool:
        """Whether the point was neither requested nor told."""
        return point.index not in self.asked and point.index not in self.told

    def fresh(self) -> list[Point]:
        """The points that were neither requested nor told, in order."""
        return [point for point in self.points if self.is_fresh(point)]

    def take(self, points: Iterable[Point], count: int) -> list[Point]:
        """The first of some fresh points, at most `count` and within the budget; marks them as requested."""
        found = list(islice(points, min(count, self.left)))
        self.asked |= {point.index for point in found}
        return found

    def fine(self) -> list[Point]:
        """The points with a right result, the best first; equals in the file's order."""
        good = [point for point in self.points if point.index in self.told and self.told[point.index].is_fine]
        return sorted(good, key=lambda point: (self.told[point.index].rank, point.index))

    @property
    def is_waiting(self) -> bool:
        """Whether the result of a requested point is pending."""
        return not self.asked <= self.told.keys()


Class = TypeVar("Class", bound=type[Search])
SEARCHES: dict[str, type[Search]] = {}
"""Classes of searches by name."""


def search(name: str) -> Callable[[Class], Class]:
    """Registers a class derived from `Search` for `dsl tune --search`. ValueError for a name that another file has
    registered, TypeError for anything else than such a class."""

    def register(made: Class) -> Class:
        if not isinstance(made, type) or not issubclass(made, Search):
            raise TypeError(f"{made!r:.60} is no class derived from Search")
        if name in SEARCHES and not is_anew(SEARCHES[name], made):
            raise ValueError(f"there is a search '{name}' already: {SEARCHES[name].__module__}")
        SEARCHES[name] = made
        return made

    return register
