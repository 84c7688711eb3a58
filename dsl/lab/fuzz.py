"""Tests whether random options of the compiler's choices give right results. A failing set of options is reduced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from dsl.lab.assignments import Assignment, reduced
from dsl.lab.experiment import Experiment, said
from dsl.lowering.ir.choices import drawn

FINE = ("right", "refused")
"""Verdicts that are no failure. Options that exclude each other are refused with a message."""


class FuzzFailure(Struct):
    """A set of options without a right result. `drawn` is the random set, and `choose` its reduced part.

    `number` is None for a launch that fails without any options.
    """

    number: int | None
    example: str | None
    verdict: str
    reason: str
    choose: Assignment
    drawn: Assignment

    @property
    def options(self) -> str:
        """The command-line options that reproduce the failure."""
        example = [] if self.example is None else [f"--example {self.example}"]
        return " ".join([*example, said(self.choose)])


class Fuzzed(Struct):
    """The results of a fuzz run.

    `verdicts` counts the trials by verdict. `kinds` counts how often each kind of choice was varied.
    """

    verdicts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    failures: list[FuzzFailure] = field(default_factory=list)


def fuzz(
    experiments: Sequence[Experiment], seed: int, count: int, share: float, advance: Callable[[str], None]
) -> Fuzzed:
    """Tries `count` random sets of options, numbered from `seed` on. Each set changes about a fraction `share` of the
    choices."""
    found = Fuzzed()
    wrong = {id(each) for each in experiments if _fails_as_chosen(each, found)}
    for number in range(seed, seed + count):
        # The number alone determines the launch and the options. So the number is enough to repeat the trial.
        experiment = experiments[number % len(experiments)]
        if id(experiment) in wrong:
            advance("left out")
            continue
        assignment = drawn(dict(experiment.made), Random(number), share)
        trial = experiment.trial(assignment)
        found.verdicts[trial.verdict] += 1
        found.kinds.update(key.partition(".")[0] for key in assignment)
        if trial.verdict == "refused":
            found.refusals[first_line(trial.reason)] += 1
        elif trial.verdict not in FINE:
            # Any failure counts, even one that differs from the first: a smaller assignment may fail in another way.
            needed = reduced(assignment, lambda some, e=experiment: e.trial(some).verdict not in FINE)  # type: ignore[misc]
            # The reduced assignment has a verdict of its own, which may differ from the verdict of the drawn
            # assignment.
            worst = experiment.trial(needed)
            made = FuzzFailure(number, experiment.example.name, worst.verdict, worst.reason, needed, assignment)
            found.failures.append(made)
        # Thousands of trials would take gigabytes.
        experiment.forget()
        advance(trial.verdict)
    return found


def _fails_as_chosen(experiment: Experiment, found: Fuzzed) -> bool:
    """Whether a launch is wrong even without forced options. Such a launch is not varied, because the options would be
    blamed for the error."""
    trial = experiment.trial({})
    if trial.verdict in FINE:
        return False
    found.failures.append(FuzzFailure(None, experiment.example.name, trial.verdict, trial.reason, {}, {}))
    return True


def first_line(reason: str) -> str:
    """The message of a refusal, without its location."""
    return reason.strip().splitlines()[0].rpartition("error")[2] if reason.strip() else ""


def as_json(found: Fuzzed) -> dict[str, Any]:
    """The data of `dsl fuzz --json`."""
    record: dict[str, Any] = {"verdicts": dict(found.verdicts), "kinds": dict(sorted(found.kinds.items()))}
    return record | {"refusals": dict(found.refusals.most_common()), "failures": [*map(asdict, found.failures)]}
