"""Tuning, case by case: candidates compiled, checked, measured against each other, and logged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Protocol
from uuid import uuid4

from dsl.calls.plan import BoundPlan, Plan
from dsl.examples.overrides import Overrides
from dsl.kernels.edited import Edited
from dsl.kernels.variant import Request
from dsl.text import tree as ast
from dsl.text.program import Program, reached_kernels
from dsl.tuning.case import TuningCase
from dsl.tuning.compiling import Compiler, Made, made_of
from dsl.tuning.contest import contest, tying
from dsl.tuning.space import Candidate, SpaceChoice, TuningCall, TuningPlace, by_hand, calls, candidates
from dsl.tuning.trials import Log, StepFacts, Trial, versions
from lowering.location import TileError
from runtime.errors import DeviceError, RuntimeFault

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


@dataclass(slots=True)
class Ready:
    """A candidate that can be launched."""

    bound: BoundPlan
    arguments: list[list[Any]]
    launches: list[StepFacts]


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
        self.digest, self.versions = program.digest(), versions()
        if settings.choose:
            self.versions["choose"] = ", ".join(f"{key}={option}" for key, option in settings.choose.items())

    def run(self, cases: Sequence[Overrides]) -> Iterator[Outcome]:
        """The outcomes, one after the other. Raises TileError; DeviceError after a fault that poisons the device, which
        the log then has, so that the same command goes on past it."""
        with Compiler(self.program, self.settings.jobs, assemble=self.place.ordinal is None) as compiler:
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


class LazyCase:
    """A case that is run when its arrays are first needed."""

    def __init__(self, make: Callable[[], TuningCase]):
        self.make = make
        self.made: TuningCase | None = None

    def __call__(self) -> TuningCase:
        if self.made is None:
            self.made = self.make()
        return self.made


class _Tuning:
    """One launch at one case."""

    def __init__(self, session: Session, compiler: Compiler, call: TuningCall, overrides: Overrides, case: LazyCase):
        self.session, self.compiler, self.call, self.case = session, compiler, call, case
        self.place = session.place
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
                for request in compiled_requests(candidate, plan):
                    self.compiler.begin(request)
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
        made = self.made(candidate, plan)
        error = next((each.error for each in made if each.error is not None), None)
        if error is not None:
            trial.status, trial.reason = "compile", error
            return
        try:
            ready = self.prepare(plan, made)
            trial.launches = ready.launches
            spilled = [step for step in ready.launches if step.spills]
            if spilled:
                trial.status = "spills"
                trial.reason = ", ".join(f"{step.kernel} spills {step.spills} bytes a thread" for step in spilled)
                return
            self.check(trial, ready)
        except RuntimeFault as fault:
            trial.status, trial.reason = "failed", f"{fault.code}: {fault.message}"
            if isinstance(fault, DeviceError) and fault.code == "poisoned":
                self.record(candidate, trial)
                hint = "this trial is in the log: the same command goes on after it"
                raise DeviceError(fault.code, f"{candidate.described()}: {fault.message}", hint) from None
            return
        if trial.status == "measured":
            self.ready[candidate.index] = ready

    def made(self, candidate: Candidate, plan: Plan) -> list[Made]:
        """The code of each step: compiled, or from the edited file."""
        edited = candidate.edited
        found: list[Made] = []
        for step in plan.steps:
            if edited is not None and step.request.kernel in edited.headers:
                header = edited.headers[step.request.kernel]
                found.append(made_of(edited.ptx, header, self.compiler.assemble))
            else:
                found.append(self.compiler.made(step.request))
        return found

    def prepare(self, plan: Plan, made: Sequence[Made]) -> Ready:
        """Loads the kernels. Raises LaunchError or DeviceError."""
        from runtime import Kernel

        launched = self.case().recorder.launched[self.call.index]
        kernels = [Kernel(each.ptx or "", each.entry, self.place.device) for each in made]
        bound = BoundPlan(launched.function, plan, kernels)
        facts = [self.describe(kernel, each) for kernel, each in zip(kernels, made, strict=True)]
        return Ready(bound, [bound.arguments(step, launched.arrays) for step in plan.steps], facts)

    def describe(self, kernel: Any, made: Made) -> StepFacts:
        header = kernel.header
        facts = StepFacts(
            header.kernel, header.schedule, dict(header.constants), header.threads, made.registers, made.spills
        )
        facts.shared_bytes = header.shared_bytes
        if self.place.ordinal is not None:
            attributes = kernel.attributes(self.place.ordinal)
            facts.registers, facts.spills = attributes.registers, attributes.local_bytes
            facts.shared_bytes = attributes.static_shared_bytes + attributes.dynamic_shared_bytes
            facts.occupancy, facts.limited_by = attributes.occupancy, attributes.limited_by
        return facts

    def check(self, trial: Trial, ready: Ready, whole: bool = False) -> None:
        """Runs it once; its status is `wrong` if the answer is, and by the emulator `counted` otherwise."""
        case = self.case()
        counters: dict[str, float] = {}

        def launch() -> None:
            with ready.bound.call():
                for kernel, values in zip(ready.bound.kernels, ready.arguments, strict=True):
                    result = kernel.run(*values)
                    for name, count in result.counters.totals.as_dict().items() if result.counters else ():
                        counters[name] = counters.get(name, 0) + count

        trial.answer, wrong = case.answer(self.call.index, launch, whole)
        if wrong is not None:
            trial.status, trial.reason = "wrong", wrong
        elif self.place.ordinal is None:
            counters["active_lanes"] = counters["thread_instructions"] / max(1, counters["instructions"])
            trial.status, trial.counters = "counted", counters

    # ---- times ----

    def measure(self, entrants: Mapping[int, Trial]) -> None:
        """A contest among candidates that are ready; sets the times of their trials and logs them."""
        if not entrants:
            return
        from runtime.cuda.timing import measure_rounds

        ordinal = self.place.ordinal
        assert ordinal is not None

        def measured(launches: list[Callable[[], None]], rounds: int, order: Random) -> list[list[float]]:
            return measure_rounds(launches, rounds, order=order, device=ordinal)

        bound = {index: prepared(self.ready[index]) for index in entrants}
        name = uuid4().hex[:12]
        for index, times in contest(bound, measured, self.session.settings.seed).items():
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
            self.check(self.outcome.trials[best], self.ready[best], whole=True)
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
            plan = self.plan(self.outcome.candidates[index])
            self.ready[index] = self.prepare(plan, self.made(self.outcome.candidates[index], plan))


def compiled_requests(candidate: Candidate, plan: Plan) -> list[Request]:
    """The variants of a candidate that are compiled: all but those that an edited file has."""
    by_hand = () if candidate.edited is None else candidate.edited.headers
    return [step.request for step in plan.steps if step.request.kernel not in by_hand]


def prepared(ready: Ready) -> Callable[[], None]:
    """All launches of a candidate, with their arguments checked and packed."""
    launches = [kernel.bind(*values) for kernel, values in zip(ready.bound.kernels, ready.arguments, strict=True)]
    if len(launches) == 1:
        return launches[0]

    def launch() -> None:
        for each in launches:
            each()

    return launch
