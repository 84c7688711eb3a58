"""Tries launches of an example: loads compiled code, counts costs on the emulator, checks results, and prepares for
timing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from socket import gethostname
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dsl.calls.plan import BoundPlan, Plan
from dsl.examples.first_blocks import COUNTED_BYTES, FirstBlocks, first_blocks, in_words, whole_launch
from dsl.examples.report import take
from dsl.examples.transfers import array_bytes
from dsl.lab.case import Launched, TuningCase, on_host
from dsl.lab.compiling import Made
from dsl.lab.place import TuningPlace
from dsl.lab.provenance import ptx_digest
from dsl.lab.space import TuningCall
from dsl.lab.trial import StepFacts, Trial
from dsl.runtime import Kernel, device_facts
from dsl.runtime.errors import LASTING, DeviceError, FindingError, RuntimeFault
from dsl.runtime.renewed import Renewed, changed_spans, in_a_row

FIRST_BLOCKS = 8
COUNT_SECONDS = 60.0
"""For each trial on a GPU, the emulator counts at most `FIRST_BLOCKS` blocks, for at most `COUNT_SECONDS` seconds."""
RACES = ("race", "uninitialised read", "in flight")
"""Kinds of findings that missing order causes: a thread did not wait for another thread."""


class Ready(Struct):
    """The kernels of a launch with their arguments, ready to be launched repeatedly.

    `renew` restores the memory that a launch changes. It is None if the kernels do not read this memory.
    """

    bound: BoundPlan
    arguments: list[list[Any]]
    renew: Callable[[], None] | None = None


class LazyCase:
    """A `TuningCase` that runs the example only when it is first needed."""

    def __init__(self, make: Callable[[], TuningCase]):
        self.make = make
        self.made: TuningCase | None = None

    def __call__(self) -> TuningCase:
        if self.made is None:
            self.made = self.make()
        return self.made


def with_arguments(call: TuningCall, case: LazyCase) -> TuningCall:
    """A launch with known properties of its arguments, such as shapes. The example runs only if these are not known
    otherwise."""
    if call.facts.is_known:
        return call
    return replace(call, facts=replace(call.facts, arguments=case().arguments(call.index)))


class Counts:
    """The emulator's counters, added up over the kernels of a launch. Counts of first blocks are scaled to the whole
    grid."""

    def __init__(self) -> None:
        from dsl.runtime.emulator import Counters

        self.totals, self.launches = Counters(), 0
        self.by_line: dict[str, Counters] = {}
        self.findings: list[Any] = []

    def add(self, part: FirstBlocks) -> None:
        """Adds the counters and findings of one kernel launch, or of its first blocks."""
        result, whole = part.result, part.times
        self.findings += result.findings
        if result.counters is None:
            return
        self.launches += 1
        self.totals += result.counters.totals.times(whole)
        for place, found in result.counters.places.items():
            self.by_line[place] = found.times(whole) + self.by_line.get(place, type(found)())

    def note(self, trial: Trial, lines: bool) -> None:
        """Stores the counters in a trial. With `lines`, also stores the counters of each source line."""
        if self.launches:
            trial.counters = self.totals.as_dict()
        kept = self.by_line if lines else {}
        trial.by_line = {at: {name: n for name, n in found.as_dict().items() if n} for at, found in kept.items()}


class Runner:
    """Tries plans for one launch of an example, with one set of values.

    With `lines`, trials have counters of each source line. Without `may_spill`, plans that spill registers do not run.
    `budget` limits the thread instructions of a launch on the emulator. For a launch on a GPU, the emulator counts the
    first `blocks` blocks.
    """

    def __init__(self, place: TuningPlace, case: LazyCase, index: int):
        self.place, self.case, self.index = place, case, index
        self.lines, self.may_spill = False, True
        self.budget: int | None = None
        self.blocks = FIRST_BLOCKS

    def attempt(self, trial: Trial, plan: Plan, made: Sequence[Made], run: bool = True) -> Ready | None:
        """Loads, runs and checks a plan, but does not time it. Sets the trial's status and counters.

        Without `run`, the plan is only compiled. Returns None if the plan cannot be timed. Raises DeviceError after a
        fault that makes the GPU unusable.
        """
        # A shared log has trials of many hosts.
        trial.where = f"{gethostname()} {self.place.device}"
        error = next((each.error for each in made if each.error is not None), None)
        if error is not None:
            trial.status, trial.reason = "compile", error
            return None
        try:
            kernels = self.kernels(trial, made)
            spilled = [step for step in trial.launches if step.spills]
            if spilled and not self.may_spill:
                trial.status = "spills"
                trial.reason = ", ".join(f"{step.kernel} spills {step.spills} bytes a thread" for step in spilled)
                return None
            if not run:
                trial.status = "compiled"
                return None
            ready = self.ready(plan, kernels)
            self.check(trial, ready)
            return ready
        except RuntimeFault as fault:
            trial.status, trial.reason = "failed", f"{fault.code}: {fault.message}"
            if isinstance(fault, FindingError):
                trial.reason = in_words(fault.finding)
                trial.status = "race" if fault.finding.kind in RACES else "failed"
            # After this fault, this process can launch nothing more.
            if isinstance(fault, DeviceError) and fault.code in LASTING:
                raise
            return None

    def kernels(self, trial: Trial, made: Sequence[Made]) -> list[Any]:
        """Loads the code, and stores the kernels' resources in the trial. Raises LaunchError or DeviceError."""
        kernels = [Kernel(each.ptx or "", each.entry, self.place.device) for each in made]
        trial.launches = [described(*pair, self.place) for pair in zip(kernels, made, strict=True)]
        return kernels

    def ready(self, plan: Plan, kernels: list[Any]) -> Ready:
        launched = self.case().recorder.launched[self.index]
        bound = BoundPlan(launched.function, plan, kernels)
        arguments = [bound.arguments(step, launched.arrays) for step in plan.steps]
        launches = [(kernel.header, values) for kernel, values in zip(kernels, arguments, strict=True)]
        return Ready(bound, arguments, partial(renew, launched, bound) if changed_spans(launches) else None)

    def check(self, trial: Trial, ready: Ready, whole: bool = False) -> None:
        """Runs the plan once and sets the status.

        The status is `wrong` after a wrong result, and `counted` after a right result on the emulator. After a right
        result on a GPU it stays `measured`, and the times are added later. On the emulator, the counters are set even
        if a fault raises FindingError.
        """
        emulated = self.place.ordinal is None
        # The emulator continues after a finding, so that a racing launch has counters, too.
        options: dict[str, Any] = {"on_finding": "collect"} if emulated else {}
        if emulated and self.budget is not None:
            options["budget"] = self.budget
        counts = Counts()

        def launch() -> None:
            label = ""  # of the first kernel with a finding
            with ready.bound.call():
                for kernel, values in zip(ready.bound.in_turn(ready.arguments), ready.arguments, strict=True):
                    counts.add(whole_launch(kernel.run(*values, **options)))
                    label = label or (kernel.header.label if counts.findings else "")
                if counts.findings:
                    raise FindingError(f"{label}: {counts.findings[0]}", counts.findings[0])

        try:
            with self.place.limited():
                trial.answer, wrong = self.case().answer(self.index, launch, whole)
        finally:
            if emulated:
                counts.note(trial, self.lines)
        if wrong is not None:
            trial.status, trial.reason = "wrong", wrong
        elif emulated:
            trial.status = "counted"

    def count(self, trial: Trial, plan: Plan, made: Sequence[Made]) -> list[Any]:
        """For a launch on a GPU, runs the first blocks on the emulator, and scales their counters to the whole grid.
        Returns the faults that the emulator found.

        Nothing is counted if the arrays are large or the emulator cannot run the launch.
        """
        launched = self.case().recorder.launched[self.index]
        if array_bytes(launched.given) > COUNTED_BYTES:
            return []
        # The host's arrays already have the results of the example, so written arrays are copied from `before`.
        written = {name: on_host(launched.before[name], launched.given[name]) for name in launched.written}
        given = {**launched.given, **written}
        bound = BoundPlan(launched.function, plan, [Kernel(each.ptx or "", each.entry, "emulator") for each in made])
        counts = Counts()
        try:
            for kernel, step in zip(bound.kernels, plan.steps, strict=True):
                counts.add(first_blocks(kernel, bound.arguments(step, given), self.blocks, time_limit=COUNT_SECONDS))
        except RuntimeFault as fault:
            trial.reason = f"not counted: {fault.message}"
            return []
        counts.note(trial, self.lines)
        trial.blocks = self.blocks
        return counts.findings


def renew(launched: Launched, bound: BoundPlan) -> None:
    """Restores the array contents that a launch changed, and zeroes its workspaces."""
    launched.put_back()
    bound.zero_workspaces()


def described(kernel: Any, made: Made, place: TuningPlace) -> StepFacts:
    """The resources of a kernel, such as registers. On a GPU, the driver reports them."""
    facts = expected(kernel.header, made, place)
    if place.ordinal is not None:
        take(facts, kernel.attributes(place.ordinal))
    return facts


def expected(header: Any, made: Made, place: TuningPlace) -> StepFacts:
    """The resources of a kernel before it is loaded. Registers and spills are known only if ptxas is installed."""
    from dsl.runtime.chips import occupancy

    facts = StepFacts(header.kernel, header.schedule, dict(header.constants), header.threads)
    facts.registers, facts.spills, facts.instructions = made.registers, made.spills, made.instructions
    facts.choices, facts.ptx = dict(made.taken), ptx_digest(made.ptx or "")
    facts.shared_bytes = header.shared_bytes
    if made.registers is not None:
        device = device_facts(place.device, *([] if place.is_timed else [place.arch]))
        taken = occupancy(device, made.registers, header.threads, header.shared_bytes)
        facts.occupancy, facts.limited_by = taken
    return facts


def prepared(ready: Ready) -> Callable[[], object]:
    """A function that launches all kernels of a plan, and can be called repeatedly. The arguments are checked and
    packed only once."""
    kernels = ready.bound.in_turn(ready.arguments)
    launch = in_a_row([kernel.bind(*values) for kernel, values in zip(kernels, ready.arguments, strict=True)])
    return launch if ready.renew is None else Renewed(launch, ready.renew)
