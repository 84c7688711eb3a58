"""Tunes launches. A search chooses points, stations try the points on devices, and the results are logged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from random import Random

from msgspec.structs import replace

from dsl.examples.overrides import Overrides
from dsl.lab.case import TuningCase
from dsl.lab.compiling import Code, Compiler, Made
from dsl.lab.contest import RUNGS
from dsl.lab.crew import Crew, Worker
from dsl.lab.machines import Machines, There
from dsl.lab.model import Model, features_of, known_before, predicted
from dsl.lab.models import lacks
from dsl.lab.outcome import Outcome
from dsl.lab.runner import LazyCase, with_arguments
from dsl.lab.search import Point
from dsl.lab.searches import SearchRun
from dsl.lab.session import Session
from dsl.lab.space import Candidate, by_hand, calls, candidates
from dsl.lab.station import Batch, Entrant, Station
from dsl.lab.trial import CostFacts, Trial
from dsl.lab.worker import Here
from dsl.lowering.ir.location import TileError

GROUP = 64
"""Limit of the points in a batch, which are measured together."""
LEAST = 4
"""Least number of points in a batch for several workers, since each batch also measures the reference point."""
MOST_CONTESTS = 3
"""The limit of further contests for points that tie but were not measured together. Each contest may show new ties."""


def tune(session: Session, cases: Sequence[Overrides], machines: Machines | None = None) -> Iterator[Outcome]:
    """Tunes all launches in all cases, and yields one outcome after another. The points are tried by `machines`, or by
    this process if `machines` is None.

    Each trial is logged once it is complete. Raises TileError. Without `machines`, also raises DeviceError after a
    fault that makes the GPU unusable. The trial with the fault is logged, so the same command continues after this
    trial when it is run again.
    """
    model = session.settings.model
    # Without a model, a GPU needs no ptxas: the driver reports registers and spills when the code is loaded.
    code: Code = "none" if session.place.is_timed and model is None else "assembled"
    if model is not None and model.needs_machine_code:
        code = "counted"
    elsewhere = None if machines is None else machines.compiling
    with Compiler(session.program, session.settings.jobs, code, elsewhere) as compiler:
        for overrides in cases:
            found = calls(session.program, session.example, overrides, session.place)
            if not found:
                raise TileError("example", session.example.loc, "this example launches nothing to tune")
            seed = session.settings.seed
            about = session.program, session.example, overrides, session.place, seed, session.settings.choice
            case = LazyCase(partial(TuningCase, *about))
            for call in found:
                call = with_arguments(call, case)
                if session.settings.choice.rivals and not case().is_judged(call.index):
                    continue
                counters = session.settings.counters
                station = Station(call, case, seed, lambda trial: session.progress.advance(trial.status), counters)
                workers: list[Worker] = [Here(station)]
                if machines is not None:
                    launch = session.launch(call, overrides)
                    workers = [There(machine, launch) for machine in machines.all]
                yield Tuning(session, compiler, station, overrides, workers).run()


class Tuning:
    """Tunes one launch with one set of values. It holds the points, the search, and the workers that try the points.

    `station` is the station of this process. If `workers` are other processes, it tries no points.
    """

    def __init__(
        self, session: Session, compiler: Compiler, station: Station, overrides: Overrides, workers: Sequence[Worker]
    ):
        self.session, self.compiler, self.station = session, compiler, station
        self.call = call = station.call
        settings = session.settings
        values = overrides.names | overrides.types | overrides.options
        listed = candidates(call, settings.choice)
        # Kernels written by hand are not points of a set, so the search does not receive them.
        edited = by_hand(listed, settings.edited)
        self.candidates = {candidate.index: candidate for candidate in [*listed, *edited]}
        self.facts = call.planner().facts()
        blank = session.blank(self.facts, call.index, values)
        self.blanks = {index: trial_of(each, blank) for index, each in self.candidates.items()}
        self.outcome = Outcome(call, values, len(self.candidates))
        if settings.model is not None:
            self.outcome.predicted = self.predicted(settings.model)
        costs = self.outcome.costs = {each.index: each.cost for each in listed if each.cost is not None}
        known = {} if settings.model is not None else costs
        points = [Point(each.index, each.settings, each.is_default, known.get(each.index)) for each in listed]
        points = in_order(points, settings.seed, self.outcome.predicted or self.outcome.costs)
        self.search = SearchRun(settings.search, points, settings.budget, settings.seed)
        self.edited = [candidate.index for candidate in edited]
        self.begun: set[int] = set()
        """The new points that the search has requested."""
        self.crew = Crew(workers, self.prepare, self.record, self.heard)
        self.settled: dict[int, Trial] = {}
        """Trials that the search has not received yet."""

    def run(self) -> Outcome:
        outcome, session = self.outcome, self.session
        facts = self.facts
        values = ", ".join(f"{name}={value}" for name, value in {**facts.types, **facts.dims}.items())
        self.from_log()
        new = len(self.search.fresh()[: session.settings.budget]) + len([*self.unknown(self.edited)])
        session.progress.begin(f"{self.call.name} {values}", new + outcome.found)
        for _ in range(outcome.found):
            session.progress.advance("from the log")
        self.explore()
        if self.is_over:
            self.leave_out()
        outcome.slower = self.search.slower()
        self.settle()
        # Workers settle points in any order.
        outcome.candidates = dict(sorted(outcome.candidates.items()))
        made = self.station.case.made
        outcome.moves = self.crew.moves if made is None else made.moves
        return outcome

    @property
    def is_over(self) -> bool:
        return self.session.seconds_left == 0

    def unknown(self, indices: Sequence[int]) -> Iterator[int]:
        return (index for index in indices if index not in self.outcome.trials)

    def from_log(self) -> None:
        """Finds the points that have a trial in the log, and passes these trials to the search."""
        for index, blank in self.blanks.items():
            known = None if self.session.settings.fresh else self.session.log.find(blank)
            if known is not None:
                self.note(index, known)
        self.outcome.found = len(self.outcome.trials)
        self.tell()

    def leave_out(self) -> None:
        """Records the points that were not tried for lack of time: those that the search requested, and those that the
        budget still allowed."""
        rest = [point.index for point in self.search.fresh()[: self.search.left]]
        left = {*self.unknown([*self.begun, *self.edited]), *rest}
        self.outcome.candidates |= {index: self.candidates[index] for index in left}
        self.outcome.left_out = len(left)

    def predicted(self, model: Model) -> dict[int, float]:
        """Computes the model's prediction for each point that compiles. Raises a TileError for a missing feature."""
        found: dict[int, float] = {}
        entrants = [self.entrant(candidate.index) for candidate in self.candidates.values() if not candidate.edited]
        self.session.progress.begin(f"{self.call.name}: predictions of the model", len(entrants))
        for each in entrants:
            trial = self.station.unmeasured(each, model.needs_counters)
            self.session.progress.advance("" if trial is not None else "compile")
            if trial is not None:
                try:
                    found[each.index] = predicted(model, known_before(features_of(trial), model.of))
                except KeyError as error:
                    raise lacks(self.candidates[each.index].described(), error) from None
        return found

    # ---- what is tried ----

    def explore(self) -> None:
        """Requests points, tries them, and passes the results to the search, until the search ends or the time is
        up."""
        goes_on = True
        while goes_on and not self.is_over:
            while self.crew.wants and (batch := self.next_batch()) is not None:
                self.crew.ahead.append(batch)
            goes_on = self.turn()
        self.crew.ahead.clear()
        # Waits for running batches, so that their results are not lost.
        while self.turn():
            pass

    def turn(self) -> bool:
        """Waits until a batch ends, and passes its results to the search. Returns False if none was running."""
        goes_on = self.crew.turn()
        self.tell()
        return goes_on

    def size(self) -> int:
        """The number of points in the next batch. With several workers, batches become smaller, so that all workers end
        together."""
        count = len(self.crew.workers)
        budget, fresh = self.session.settings.budget, len(self.search.fresh())
        left = fresh if budget is None else min(fresh, budget - len(self.begun))
        return GROUP // count if count == 1 or left <= 0 else max(LEAST, min(GROUP, -(-left // (2 * count))))

    def next_batch(self) -> Batch | None:
        """The next batch: first the kernels of `--from`, then the points that the search requests. Returns None if the
        search requests nothing for now."""
        if edited := [*self.unknown(self.edited)]:
            self.edited = []
            return self.batch(edited)
        while points := self.search.ask(self.size()):
            wanted = self.wanted(points)
            self.search.note(any(index not in self.outcome.trials for index in wanted))
            again = [index for index in wanted if index in self.outcome.trials]
            if again and not self.call.place.is_timed:  # the emulator's counters never vary
                self.settled |= {index: self.outcome.trials[index] for index in again}
                self.tell()
                wanted = [*self.unknown(wanted)]
            if wanted:
                return self.batch(wanted, self.search.rungs)
            if not again:
                return None
        return None

    def wanted(self, points: Sequence[Point]) -> list[int]:
        """The indices of the requested points, without new points beyond the budget. Raises a TileError for an unknown
        point."""
        budget, found = self.session.settings.budget, []
        for index in dict.fromkeys(point.index for point in points):
            if index not in self.candidates:
                name = self.session.settings.search
                raise TileError("option", None, f"the search '{name}' requests point {index}, which does not exist")
            is_new = index not in self.begun and index not in self.outcome.trials
            if not is_new or budget is None or len(self.begun) < budget:
                found.append(index)
                self.begun |= {index} if is_new else set()
        return found

    def batch(self, indices: Sequence[int], rungs: Sequence[int] = RUNGS, whole: bool = False) -> Batch:
        """Makes a batch of these points, and begins to compile their code."""
        return Batch([self.entrant(index) for index in indices], rungs, whole=whole)

    def entrant(self, index: int) -> Entrant:
        candidate = self.candidates[index]
        trial = self.outcome.trials.get(index, self.blanks[index])
        try:
            plan = self.call.plan(candidate.steps, trial.choices)
        except TileError as error:
            refused = Made(error=error.render())
            return Entrant(index, trial, lambda: [refused])
        trial.requests = [CostFacts.of(step.request) for step in plan.steps]
        self.compiler.begin_plan(plan, candidate.edited)
        return Entrant(index, trial, partial(self.compiler.made_plan, plan, candidate.edited), plan)

    # ---- what comes of it ----

    def prepare(self, batch: Batch) -> None:
        """Sets the remaining seconds and the reference point of a batch."""
        batch.seconds = None if batch.whole else self.session.seconds_left
        batch.reference = None if batch.whole else self.reference(batch.is_retried)

    def reference(self, is_retried: bool) -> Entrant | None:
        """The reference point, which is the default point with the smallest index. It is timed in every batch, so that
        times of several batches can be compared. Returns None if this point is wrong.

        After a process died, the default point may be the cause. Then returns None, unless this point is already known
        to be right.
        """
        if not self.call.place.is_timed:
            return None
        index = min(index for index, candidate in self.candidates.items() if candidate.is_default)
        known = self.outcome.trials.get(index)
        return self.entrant(index) if (known.is_fine if known is not None else not is_retried) else None

    def go(self, batch: Batch) -> None:
        """Tries one batch, and waits until it ends."""
        self.crew.ahead.append(batch)
        while self.turn():
            pass

    def record(self, index: int, trial: Trial) -> None:
        self.note(index, trial)
        self.session.log.add(trial)

    def heard(self, index: int, trial: Trial) -> None:
        """Records a trial from another process."""
        self.record(index, trial)
        self.session.progress.advance(trial.status)

    def note(self, index: int, trial: Trial) -> None:
        self.outcome.trials[index] = self.settled[index] = trial
        self.outcome.candidates[index] = self.candidates[index]

    def tell(self) -> None:
        """Passes the new results to the search. Handwritten kernels are left out, because the search did not request
        them."""
        told = {index: trial for index, trial in self.settled.items() if self.candidates[index].edited is None}
        self.settled = {}
        if told:
            self.search.tell(told)

    def settle(self) -> None:
        """Times points again, in one contest, if they tie but were timed in different contests. Then checks the winner
        with the `expect` lines."""
        if not self.call.place.is_timed:
            return
        outcome = self.outcome
        strays = [index for index in outcome.fine if outcome.trials[index].reference_us is None]
        if 0 < len(strays) < len(outcome.fine) and not self.is_over:  # tried before the reference was known to be right
            self.go(self.batch(strays))
        for _ in range(MOST_CONTESTS):
            ties = outcome.ties
            if len({outcome.trials[index].contest for index in ties}) <= 1 or self.is_over:
                break
            self.go(self.batch(ties))
        while (best := outcome.winner) is not None and outcome.trials[best].answer != "expect":
            self.go(self.batch([best], whole=True))


def trial_of(candidate: Candidate, blank: Trial) -> Trial:
    """Makes the trial of a point before it runs. `blank` is the empty trial of its launch."""
    # Handwritten code differs from the code that its schedule gives, although both have the same constants. So the
    # handwritten code is another trial.
    made_from = {} if candidate.edited is None else {"from": candidate.edited.digest}
    edited = "" if candidate.edited is None else candidate.edited.name
    steps = [step.as_json() for step in candidate.steps]
    return replace(blank, versions=blank.versions | made_from, edited=edited, steps=steps, launches=[])


def in_order(points: Sequence[Point], seed: int, predicted: Mapping[int, float]) -> list[Point]:
    """The default points, then the other points sorted by `predicted`, least first. `predicted` contains a model's
    predictions or the schedules' costs. Points without a prediction are last, in random order."""
    first = [point for point in points if point.is_default]
    rest = [point for point in points if not point.is_default]
    # A budget takes the first points. In the file's order, the first points would all be alike.
    Random(seed).shuffle(rest)
    return [*first, *sorted(rest, key=lambda point: predicted.get(point.index, math.inf))]
