"""Computes how much each choice of the compiler is worth. In random orders, the choices change one after another from
plain options to those that the compiler chose. The worth of a choice is its mean gain over these orders.

Changing one choice alone would hide joint effects. In each order, the gains add up to the whole difference (Shapley, A
value for n-person games, 1953).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from statistics import fmean, median
from typing import Any

from msgspec import Struct, field

from dsl.lab.bisect import Decision, joined, plain
from dsl.lab.contest import mean_interval
from dsl.lab.experiment import Experiment
from dsl.lab.trial import Trial


class Share(Struct):
    """A group of choices. `gains` lists, for each order, how much the figure falls when the group changes."""

    decision: Decision
    gains: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        return fmean(self.gains)

    def interval(self, random: Random) -> tuple[float, float]:
        """The 95 % interval of the mean gain, by bootstrap."""
        return mean_interval(self.gains, random)


class Shares(Struct):
    """The shares of all groups of choices.

    `shares` is sorted by mean gain, greatest first. `asked` is the number of orders tried, and `orders` the number of
    those that gave all figures. `whole` is the mean gain when all groups change from plain to chosen options.
    """

    figure: str
    shares: list[Share]
    asked: int
    orders: int = 0
    whole: float = 0.0

    def rows(self, seed: int) -> list[dict[str, Any]]:
        """The data of each share."""
        random, rows = Random(seed), []
        for share in self.shares:
            low, high = share.interval(random)
            row: dict[str, Any] = {"group": share.decision.label, "plain": share.decision.option}
            row |= {"chosen": share.decision.taken, "gain": share.mean, "interval": [low, high]}
            rows.append(row)
        return rows


def shapley(
    experiment: Experiment,
    figure: str,
    orders: int,
    kinds: Sequence[str],
    keys: Sequence[str],
    advance: Callable[[str], None],
) -> Shares:
    """Tries random orders in which the choices of these kinds and keys change from plain to chosen options.

    An order is left out if one of its trials is wrong or lacks the figure.
    """
    shares = {each.label: Share(each) for each in plain(experiment, kinds, keys)}
    made = Shares(figure, [*shares.values()], orders)
    random = Random(experiment.conditions.seed)
    wholes = []
    for _ in range(orders):
        order = [share.decision for share in shares.values()]
        random.shuffle(order)
        # The path starts with all groups plain. Each step changes one more group to its chosen options.
        path = [experiment.trial(joined(order[at:])) for at in range(len(order) + 1)]
        gains = steps(experiment, path, figure)
        advance("left out" if gains is None else "right")
        if gains is not None:
            wholes.append(sum(gains))
            for decision, gain in zip(order, gains, strict=True):
                shares[decision.label].gains.append(gain)
    made.orders = len(wholes)
    made.whole = fmean(wholes) if wholes else 0.0
    made.shares = sorted((s for s in made.shares if s.gains), key=lambda share: -share.mean)
    return made


def steps(experiment: Experiment, path: Sequence[Trial], figure: str) -> list[float] | None:
    """Returns how much the figure falls from each trial of a path to the next. Returns None if a trial is wrong or
    lacks the figure.

    Times are compared within rounds.
    """
    # A wrong variant on the path would have a figure without meaning.
    if any(trial.verdict not in ("right", "not run") for trial in path):
        return None
    if figure == "time":
        experiment.measure(path)
        pairs = pairwise([trial.times_us for trial in path])
        return [median(a - b for a, b in zip(before, after, strict=True)) for before, after in pairs]
    values = [trial.figures().get(figure) for trial in path]
    known = [value for value in values if value is not None]
    return [before - after for before, after in pairwise(known)] if len(known) == len(path) else None
