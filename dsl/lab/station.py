"""A station tries points of a launch on one device. It takes the points in batches: loads their code, checks their
results, and times them against each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from dsl.calls.plan import Plan
from dsl.calls.tuned import StepChoice, described_step
from dsl.lab.clocks import clocks
from dsl.lab.compiling import Made
from dsl.lab.contest import RUNGS, contest, median_interval
from dsl.lab.runner import LazyCase, Ready, Runner, expected, prepared
from dsl.lab.space import TuningCall
from dsl.lab.trial import Trial
from dsl.runtime.errors import DeviceError


class Entrant(Struct):
    """A point of a batch.

    `index` is the point's index. `trial` receives the results. If it has times already, the point is timed again.
    `code()` waits for the compiled code of the point's kernels and returns it. `plan` is the point's plan, or None.
    """

    index: int
    trial: Trial
    code: Callable[[], Sequence[Made]]
    plan: Plan | None = None


class Batch(Struct):
    """Points that are tried together.

    `rungs` lists the numbers of rounds for each stage of timing. `reference` is timed together with the points. After
    `seconds`, no new point begins. With `whole`, `expect` lines judge the points, and nothing is timed. `is_retried` is
    true if a process died on this batch, or on a larger one with its points.
    """

    entrants: list[Entrant]
    rungs: Sequence[int] = RUNGS
    reference: Entrant | None = None
    seconds: float | None = None
    whole: bool = False
    is_retried: bool = False


class Station:
    """Tries points of one launch with one set of values, on one device.

    `attempted(trial)` is called after each new point was run and checked, before it is timed. With `counters` on a GPU,
    the emulator also counts the first blocks of points that pass.
    """

    def __init__(self, call: TuningCall, case: LazyCase, seed: int, attempted: Callable[[Trial], None], counters: bool):
        self.call, self.case, self.seed, self.attempted, self.counters = call, case, seed, attempted, counters
        self.runner = Runner(call.place, case, call.index)
        # Spills go to local memory. A point that spills is assumed to be slow and is rejected without a measurement.
        self.runner.may_spill = False
        self.loaded: dict[str, Ready] = {}
        self.thrown_out: set[str] = set()

    def go(self, batch: Batch, settled: Callable[[int, Trial], None]) -> None:
        """Tries a batch. Calls `settled(index, trial)` for each complete trial, but not for points that did not begin
        for lack of time.

        Raises DeviceError after a fault that makes the GPU unusable.
        """
        end = None if batch.seconds is None else time.monotonic() + batch.seconds
        racing: dict[int, Entrant] = {}
        for each in batch.entrants:
            is_new = not each.trial.times_us
            # Only new points are skipped. Other points are already part of a contest.
            if is_new and end is not None and time.monotonic() >= end:
                continue
            if batch.whole:
                self.runner.check(each.trial, self.ready(each), whole=True)
            elif is_new:
                self.attempt(each, settled)
            if each.trial.status == "measured" and not batch.whole:
                racing[each.index] = each
            else:
                settled(each.index, each.trial)
        if racing:
            self.measure(racing, batch.rungs, batch.reference and self.refer(batch.reference, settled))
        for each in racing.values():
            settled(each.index, each.trial)

    def attempt(self, each: Entrant, settled: Callable[[int, Trial], None]) -> None:
        """Loads, runs and checks a point, but does not time it."""
        trial = each.trial
        made = each.code()
        refused = any(one.error is not None for one in made)
        plan = Plan([], []) if refused else each.plan or self.plan(trial)
        try:
            ready = self.runner.attempt(trial, plan, made)
        except DeviceError as fault:
            settled(each.index, trial)
            steps = "; ".join(map(described_step, steps_of(trial)))
            hint = "this trial is in the log: the same command goes on after it"
            raise DeviceError(fault.code, f"{steps}: {fault.message}", hint) from None
        if ready is None:
            self.thrown_out.add(trial.key)
        else:
            self.loaded[trial.key] = ready
            if self.counters and self.call.place.is_timed:
                self.runner.count(trial, plan, made)
        self.attempted(trial)

    def unmeasured(self, each: Entrant, counters: bool) -> Trial | None:
        """Returns a copy of a point's trial with the resources of its code, such as registers. Nothing runs on the GPU.
        Returns None if the code does not compile.

        With `counters`, the emulator also counts the first blocks.
        """
        from dsl.runtime.header import read

        made = each.code()
        if any(one.ptx is None for one in made):
            return None
        headers = [read(one.ptx or "")[one.entry or ""] for one in made]
        launches = [expected(header, one, self.runner.place) for header, one in zip(headers, made, strict=True)]
        trial = replace(each.trial, launches=launches)
        if counters:
            self.runner.count(trial, each.plan or self.plan(trial), made)
        return trial

    def ready(self, each: Entrant) -> Ready:
        """The launch of a point that has passed its check. If another process checked the point, its code is loaded
        here first."""
        key = each.trial.key
        if key not in self.loaded:
            kernels = self.runner.kernels(each.trial, each.code())
            self.loaded[key] = self.runner.ready(each.plan or self.plan(each.trial), kernels)
        return self.loaded[key]

    def plan(self, trial: Trial) -> Plan:
        """The plan of a trial, with the trial's forced options."""
        return self.call.plan(steps_of(trial), trial.choices)

    def refer(self, each: Entrant, settled: Callable[[int, Trial], None]) -> Entrant | None:
        """Makes the reference point ready to be timed, and returns it. Returns None if this point is wrong on this
        device."""
        if each.trial.times_us or each.trial.key in self.loaded:
            return each
        if each.trial.key in self.thrown_out:
            return None
        # The trial is copied, since the batch that tries the reference as a point settles the original trial.
        own = replace(each, trial=replace(each.trial, launches=[]))
        self.attempt(own, settled)
        return own if own.trial.key in self.loaded else None

    def measure(self, racing: Mapping[int, Entrant], rungs: Sequence[int], reference: Entrant | None) -> None:
        """Times points against each other, and stores the times in their trials."""
        launching = {**racing} if reference is None else {reference.index: reference, **racing}
        bound = {index: prepared(self.ready(each)) for index, each in launching.items()}
        index = None if reference is None else reference.index
        times, name = contest(bound, self.call.place.rounds, self.seed, rungs, index), uuid4().hex[:12]
        # Rounded to the nanosecond, like the times in the log.
        base = None if index is None else round(median_interval(times[index])[0], 3)
        speeds = clocks(self.call.place)
        for each in racing.values():
            trial = each.trial
            trial.times_us, trial.contest = [round(t, 3) for t in times[each.index]], name
            trial.reference_us, trial.clocks = base, speeds


def steps_of(trial: Trial) -> tuple[StepChoice, ...]:
    """The kernels, schedules and constants of a trial."""
    return tuple(
        StepChoice(step["kernel"], step.get("schedule"), step.get("constants", {}), tuple(step.get("fixed", ())))
        for step in trial.steps
    )
