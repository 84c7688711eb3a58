"""What a search is: it asks for points of a launch, and is told what became of them.

A search of one's own is a class derived from `Search`, registered under a name:

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
    """A point of a launch. index: its place in the order of the file's sets, by which ties are decided; settings: what
    it takes, by name: `schedule`, constants and choices, without the names that its other settings do away with;
    is_default: the first of each set of its schedule."""

    index: int
    settings: Mapping[str, Any]
    is_default: bool


class Search:
    """The state of one search over the points of one launch at one case.

    The tuner calls `ask(count)`, tries what it gets, and calls `tell`; several times over, and again before all that
    was asked for is told: devices work side by side. An empty answer while nothing is awaited is the end. Trials that
    the log has are told before the first `ask`, and may be of points that were never asked for.

    A point that was asked for may be asked for again: on a GPU it is measured once more, for `rungs`; on the emulator,
    whose counters are the same each time, it is told again. Only the first time counts against the budget.

    points: in the order in which to take them where nothing else is known: the defaults, then the others in random
    order, or as a model predicts. budget: how many may be tried, None for all. random: seeded by `--seed`, and the only
    source of chance: the same command tries the same points.
    """

    is_ordered: ClassVar[bool] = False
    """Whether it takes points in the order of `points`, so that a model can say which come first."""
    rungs: Sequence[int] = RUNGS
    """Rounds of the rungs of the contest that the points of the last `ask` go through. Points are told when they have:
    behind each rung, those that are certainly slower than the best are left behind."""

    def __init__(self, points: Sequence[Point], budget: int | None, seed: int):
        self.points, self.budget, self.random = points, budget, Random(seed)
        self.asked: set[int] = set()
        self.told: dict[int, Trial] = {}

    def ask(self, count: int) -> Sequence[Point]:
        """At most `count` points to try next; fewer, or none, where what is awaited must be told first."""
        raise NotImplementedError

    def tell(self, trials: Mapping[int, Trial]) -> None:
        """What became of points, by index. `Trial.is_fine` says whether it is right and was measured, `Trial.rank` how
        good it is: smaller is better."""
        self.told.update(trials)

    # ---- what searches have in common ----

    @property
    def left(self) -> int:
        """How many more points may be tried."""
        return len(self.points) if self.budget is None else max(0, self.budget - len(self.asked))

    def is_fresh(self, point: Point) -> bool:
        """Whether it was neither asked for nor told."""
        return point.index not in self.asked and point.index not in self.told

    def fresh(self) -> list[Point]:
        """The points that were neither asked for nor told, in order."""
        return [point for point in self.points if self.is_fresh(point)]

    def take(self, points: Iterable[Point], count: int) -> list[Point]:
        """The first of some fresh points, at most `count` and within the budget; they are asked for with this."""
        found = list(islice(points, min(count, self.left)))
        self.asked |= {point.index for point in found}
        return found

    def fine(self) -> list[Point]:
        """The points that were told to be right, the best first; of equals the first in the file's order."""
        good = [point for point in self.points if point.index in self.told and self.told[point.index].is_fine]
        return sorted(good, key=lambda point: (self.told[point.index].rank, point.index))

    @property
    def is_waiting(self) -> bool:
        """Whether some point was asked for and is not told yet."""
        return not self.asked <= self.told.keys()


Class = TypeVar("Class", bound=type[Search])
SEARCHES: dict[str, type[Search]] = {}
"""By name."""


def search(name: str) -> Callable[[Class], Class]:
    """Registers a class derived from `Search` under a name for `dsl tune --search`. ValueError for a name
    that another file has given, TypeError for what is no such class."""

    def register(made: Class) -> Class:
        if not isinstance(made, type) or not issubclass(made, Search):
            raise TypeError(f"{made!r:.60} is no class derived from Search")
        if name in SEARCHES and not is_anew(SEARCHES[name], made):
            raise ValueError(f"there is a search '{name}' already: {SEARCHES[name].__module__}")
        SEARCHES[name] = made
        return made

    return register
