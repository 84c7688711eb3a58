"""Tuning, case by case: candidates compiled, checked, measured against each other, and logged."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol
from uuid import uuid4

from dsl.calls.plan import Plan
from dsl.examples.overrides import Overrides
from dsl.kernels.edited import Edited
from dsl.lab.case import TuningCase
from dsl.lab.compiling import Code, Compiler
from dsl.lab.contest import contest, tying
from dsl.lab.runner import LazyCase, Ready, Runner, prepared
from dsl.lab.space import Candidate, SpaceChoice, TuningCall, TuningPlace, by_hand, calls, candidates
from dsl.lab.trial import Log, Trial, versions
from dsl.text import tree as ast
from dsl.text.program import Program, reached_kernels
from lowering.location import TileError
from runtime.errors import DeviceError

GROUP = 64
"""Candidates that are measured together."""
MOST_CONTESTS = 3
"""Times that candidates that tie are measured together, if they were not: each may show others that tie."""


class Progress(Protocol):
    """Is told what is going on."""

    def begin(self, title: str, count: int) -> None: ...

    def advance(self, what: str) -> None: ...


@dataclass(slots=True)
class Settings:
    """choice: of the candidates; seconds: after which none is begun; jobs: compiling processes; fresh: measure what the
    log has, too; seed: of inputs and orders; choose: options of choices by key; edited: files whose kernels are points,
    too."""

    choice: SpaceChoice
    jobs: int = 1
    seconds: float | None = None
    fresh: bool = False
    seed: int = 0
    choose: Mapping[str, str] = field(default_factory=dict)
    edited: Sequence[Edited] = ()


@dataclass(slots=True)
class Outcome:
    """A launch at one case. trials: by the candidate's index; left_out: candidates that there was no time for; found:
    trials that the log had; moves: bytes of the launch, None if unknown."""

    call: TuningCall
    values: dict[str, Any]
    candidates: dict[int, Candidate]
    trials: dict[int, Trial] = field(default_factory=dict)
    left_out: int = 0
    found: int = 0
    moves: float | None = None

    @property
    def fine(self) -> list[int]:
        """Candidates that are not thrown out, the best first."""
        good = [index for index, trial in self.trials.items() if trial.is_fine]
        return sorted(good, key=lambda index: (self.trials[index].rank, index))

    @property
    def thrown_out(self) -> list[int]:
        return sorted(index for index, trial in self.trials.items() if not trial.is_fine)

    @property
    def ties(self) -> list[int]:
        """Those that tie with the best, the best first: by intervals, or by equal counters."""
        fine = self.fine
        if fine and self.trials[fine[0]].status == "counted":
            return [index for index in fine if self.trials[index].rank == self.trials[fine[0]].rank]
        return tying({index: self.trials[index].times_us for index in fine})

    @property
    def winner(self) -> int | None:
        """Among those that tie, the first in the order of the file's sets."""
        return min(self.ties, default=None)


class Session:
    """Tunes the launches of an example at several cases. Trials go to the log as soon as they are settled."""

    def __init__(
        self,
        program: Program,
        example: ast.Example,
        place: TuningPlace,
        log: Log,
        settings: Settings,
        progress: Progress,
    ):
        self.program, self.example, self.place = program, example, place
        self.log, self.settings, self.progress = log, settings, progress
        self.deadline = None if settings.seconds is None else time.monotonic() + settings.seconds
        reached = [kernel.name for kernel in reached_kernels(program, example)]
        for edited in settings.edited:
            if not edited.headers.keys() & {*reached}:
                raise edited.not_launched(f"this example may launch {', '.join(reached) or 'none'}")
        self.digest, self.versions = program.digest(), versions(program.plugins)

    def run(self, cases: Sequence[Overrides]) -> Iterator[Outcome]:
        """The outcomes, one after the other. Raises TileError; DeviceError after a fault that poisons the device, which
        the log then has, so that the same command goes on past it."""
        code: Code = "assembled" if self.place.ordinal is None else "none"
        with Compiler(self.program, self.settings.jobs, code) as compiler:
            for overrides in cases:
                found = calls(self.program, self.example, overrides, self.place)
                if not found:
                    raise TileError("example", self.example.loc, "this example launches nothing to tune")
                case = LazyCase(
                    partial(TuningCase, self.program, self.example, overrides, self.place, self.settings.seed)
                )
                for call in found:
                    if not call.facts.is_known:
                        call = replace(call, facts=replace(call.facts, arguments=case().arguments(call.index)))
                    yield _Tuning(self, compiler, call, overrides, case).run()

    @property
    def is_over(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline


class _Tuning:
    """One launch at one case."""

    def __init__(self, session: Session, compiler: Compiler, call: TuningCall, overrides: Overrides, case: LazyCase):
        self.session, self.call, self.case = session, call, case
        self.place = session.place
        self.runner = Runner(session.place, compiler, case, call.index)
        self.runner.may_spill = False
        self.facts = call.planner().facts()
        values = overrides.names | overrides.types | overrides.options
        listed = candidates(call, session.settings.choice)
        listed += by_hand(listed, session.settings.edited)
        self.outcome = Outcome(call, values, {candidate.index: candidate for candidate in listed})
        self.ready: dict[int, Ready] = {}

    def run(self) -> Outcome:
        outcome, session = self.outcome, self.session
        values = ", ".join(f"{name}={value}" for name, value in {**self.facts.types, **self.facts.dims}.items())
        session.progress.begin(f"{self.call.name} {values}", len(outcome.candidates))
        todo = []
        for candidate in outcome.candidates.values():
            known = None if session.settings.fresh else session.log.find(self.blank(candidate))
            if known is None:
                todo.append(candidate)
            else:
                outcome.trials[candidate.index] = known
                outcome.found += 1
                session.progress.advance("from the log")
        for first in range(0, len(todo), GROUP):
            self.group(todo[first : first + GROUP])
        outcome.left_out = len(outcome.candidates) - len(outcome.trials)
        self.settle()
        if self.case.made is not None:
            outcome.moves = self.case.made.moves
        return outcome

    def blank(self, candidate: Candidate) -> Trial:
        """The trial of a candidate, before it is made."""
        session, facts = self.session, self.facts
        made_from = {} if candidate.edited is None else {"from": candidate.edited.digest}
        return Trial(
            source=session.digest,
            device=self.place.name,
            driver=self.place.driver,
            versions=session.versions | made_from,
            call=self.call.name,
            example=session.example.name,
            index=self.call.index,
            values=self.outcome.values,
            options=dict(facts.options),
            types=dict(facts.types),
            dims=dict(facts.dims),
            steps=[step.as_json() for step in candidate.steps],
            choices=dict(session.settings.choose),
        )

    def record(self, candidate: Candidate, trial: Trial) -> None:
        self.outcome.trials[candidate.index] = trial
        self.session.log.add(trial)

    # ---- a group of candidates ----

    def group(self, members: Sequence[Candidate]) -> None:
        """Compiles, checks and measures candidates together."""
        plans: dict[int, Plan | TileError] = {}
        for candidate in members:
            try:
                plans[candidate.index] = plan = self.plan(candidate)
                self.runner.begin(plan, candidate.edited)
            except TileError as error:
                plans[candidate.index] = error
        entrants: dict[int, Trial] = {}
        for candidate in members:
            if self.session.is_over:
                break
            trial = self.blank(candidate)
            self.attempt(candidate, trial, plans[candidate.index])
            self.session.progress.advance(trial.status)
            if trial.status == "measured":
                entrants[candidate.index] = trial
            else:
                self.record(candidate, trial)
        self.measure(entrants)

    def attempt(self, candidate: Candidate, trial: Trial, plan: Plan | TileError) -> None:
        """Everything about a candidate but its times: sets the trial's status."""
        if isinstance(plan, TileError):
            trial.status, trial.reason = "compile", plan.render()
            return
        try:
            ready = self.runner.attempt(trial, plan, self.runner.made(plan, candidate.edited))
        except DeviceError as fault:
            self.record(candidate, trial)
            hint = "this trial is in the log: the same command goes on after it"
            raise DeviceError(fault.code, f"{candidate.described()}: {fault.message}", hint) from None
        if ready is not None and trial.status == "measured":
            self.ready[candidate.index] = ready

    # ---- times ----

    def measure(self, entrants: Mapping[int, Trial]) -> None:
        """A contest among candidates that are ready; sets the times of their trials and logs them."""
        if not entrants:
            return
        bound = {index: prepared(self.ready[index]) for index in entrants}
        name = uuid4().hex[:12]
        for index, times in contest(bound, self.runner.rounds, self.session.settings.seed).items():
            entrants[index].times_us, entrants[index].contest = [round(t, 3) for t in times], name
            self.record(self.outcome.candidates[index], entrants[index])

    def settle(self) -> None:
        """Measures those that tie together, if they were not; and lets the best answer to `expect` itself."""
        if self.place.ordinal is None:
            return
        for _ in range(MOST_CONTESTS):
            ties = self.outcome.ties
            if len({self.outcome.trials[index].contest for index in ties}) <= 1 or self.session.is_over:
                break
            for index in ties:
                self.make_ready(index)
            self.measure({index: self.outcome.trials[index] for index in ties})
        while (best := self.outcome.winner) is not None and self.outcome.trials[best].answer != "expect":
            self.make_ready(best)
            self.runner.check(self.outcome.trials[best], self.ready[best], whole=True)
            self.record(self.outcome.candidates[best], self.outcome.trials[best])

    def plan(self, candidate: Candidate) -> Plan:
        """The launches of a candidate, with the options that are asked for."""
        plan, choose = self.call.plan(candidate), self.session.settings.choose
        for step in plan.steps:
            step.request = replace(step.request, choices=choose)
        return plan

    def make_ready(self, index: int) -> None:
        """Compiles and loads a candidate that the log had."""
        if index not in self.ready:
            candidate, trial = self.outcome.candidates[index], self.outcome.trials[index]
            plan = self.plan(candidate)
            self.ready[index] = self.runner.ready(
                plan, self.runner.kernels(trial, self.runner.made(plan, candidate.edited))
            )
