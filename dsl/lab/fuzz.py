"""Is every option right? Random assignments, whose results must be right; one that fails is made smaller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from dsl.lab.assignments import Assignment, reduced
from dsl.lab.experiment import Experiment, said
from dsl.lowering.ir.choices import drawn

FINE = ("right", "refused")
"""Verdicts that are no failure: that some options do not go together is said in a sentence."""


@dataclass(slots=True)
class FuzzFailure:
    """An assignment that gave no right result, and what of it is needed for that. number: None as the launch is chosen
    without any."""

    number: int | None
    example: str | None
    verdict: str
    reason: str
    drawn: Assignment
    needed: Assignment

    @property
    def options(self) -> str:
        """What the command line repeats it with."""
        example = [] if self.example is None else [f"--example {self.example}"]
        return " ".join([*example, said(self.needed)])


@dataclass(slots=True)
class Fuzzed:
    """verdicts: how many assignments came to each; kinds: how often each kind of choice was varied."""

    verdicts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    failures: list[FuzzFailure] = field(default_factory=list)


def fuzz(
    experiments: Sequence[Experiment], seed: int, count: int, share: float, advance: Callable[[str], None]
) -> Fuzzed:
    """Tries the assignments of the numbers from `seed` on, each other options for about a `share` of the choices."""
    found = Fuzzed()
    wrong = {id(each) for each in experiments if _fails_as_chosen(each, found)}
    for number in range(seed, seed + count):
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
            needed = reduced(assignment, lambda some, e=experiment: e.trial(some).verdict not in FINE)  # type: ignore[misc]
            worst = experiment.trial(needed)
            made = FuzzFailure(number, experiment.example.name, worst.verdict, worst.reason, assignment, needed)
            found.failures.append(made)
        experiment.forget()
        advance(trial.verdict)
    return found


def _fails_as_chosen(experiment: Experiment, found: Fuzzed) -> bool:
    """Whether a launch is not right without other options, which its assignments would be blamed for."""
    trial = experiment.trial({})
    if trial.verdict in FINE:
        return False
    found.failures.append(FuzzFailure(None, experiment.example.name, trial.verdict, trial.reason, {}, {}))
    return True


def first_line(reason: str) -> str:
    """What a refusal says, without its place."""
    return reason.strip().splitlines()[0].rpartition("error")[2] if reason.strip() else ""


def as_json(found: Fuzzed) -> dict[str, Any]:
    """What `dsl fuzz --json` prints."""
    failures = [
        {
            "number": each.number,
            "example": each.example,
            "verdict": each.verdict,
            "reason": each.reason,
            "choose": dict(each.needed),
            "drawn": dict(each.drawn),
        }
        for each in found.failures
    ]
    record: dict[str, Any] = {"verdicts": dict(found.verdicts), "kinds": dict(sorted(found.kinds.items()))}
    return record | {"refusals": dict(found.refusals.most_common()), "failures": failures}
