"""Launches the kernels of an example on the emulator or a GPU, and measures and reports the launches. A Module plans
the launches.

On the emulator, arrays stay in host memory. On a GPU, each launch line copies its arrays to the device, launches, and
copies the written arrays back. Then the same launches are repeated for measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from dsl.calls.api import CompiledKernel, Module, ModuleFunction
from dsl.calls.plan import BoundPlan, FromCall, Plan, Step, overlaps
from dsl.examples.bounds import bound_of
from dsl.examples.contracts import JudgedContracts
from dsl.examples.evidence import Evidence
from dsl.examples.marked import MarkedLaunches
from dsl.examples.one_kernel import LaunchSettings, explanation, run_kernel
from dsl.examples.renewals import Renewals
from dsl.examples.report import UNREACHED, LaunchReport, Report
from dsl.examples.times import copy_time, timed
from dsl.examples.transfers import check_size, copy_back, on_device
from dsl.examples.unwritten import EmptyArrays
from dsl.examples.work import Work, counted_work
from dsl.kernels.edited import headers_of
from dsl.kernels.variant import resolve
from dsl.lowering.ir.location import TileError
from dsl.runtime.header import HeaderTensor
from dsl.runtime.renewed import in_a_row

MOST_KEPT = 1 << 28
"""The emulator's records of which thread wrote each element are kept for at most this many bytes of arrays. The records
take up to eight times as many bytes."""


class ExampleLaunch(Struct):
    """One launch of a plan. `compiled` is the kernel compiled for this step. `kernel` is the kernel that runs, which
    may come from an edited PTX text. `overlaps` is True if the launch may start before the preceding launch has
    ended."""

    step: Step
    compiled: CompiledKernel
    kernel: Any
    overlaps: bool = False

    @property
    def launched(self) -> Any:
        """The kernel in the form that is launched: overlapping or not."""
        return self.kernel.overlapping if self.overlaps else self.kernel

    @property
    def names(self) -> list[str]:
        """The names of the kernel's parameters."""
        return [param.name for param in self.kernel.header.params]


class ExampleCall(Struct):
    """A launch line that ran. `given` holds its arguments in host memory. `launches` holds its kernels, each with its
    arguments. `renewals` keeps the old contents of memory that the kernels changed. `before` holds copies of the host
    arrays that the kernels both read and write. The copies are made before the GPU's results are copied back."""

    function: ModuleFunction
    plan: Plan
    given: Mapping[str, Any]
    launches: list[tuple[ExampleLaunch, list[Any]]]
    renewals: Renewals
    before: dict[str, Any] = field(default_factory=dict)

    def prepared(self) -> list[Callable[[], object]]:
        """Returns each launch as a function without arguments."""
        return [launch.launched.bind(*values) for launch, values in self.launches]

    def repeated(self) -> Callable[[], object]:
        """Returns all launches of the call as one function that can be called repeatedly."""
        return self.renewals.whole.before(in_a_row(self.prepared()))

    def on_host(self) -> list[tuple[ExampleLaunch, list[Any]]]:
        """Returns the kernels with arguments in host memory. Arrays have their values from before the call, and
        workspaces are new."""
        bound, copies = BoundPlan(self.function, self.plan), {id(self.given[n]): a for n, a in self.before.items()}
        given = {name: copies.get(id(value), value) for name, value in self.given.items()}
        return [(launch, bound.arguments(launch.step, given)) for launch, _ in self.launches]


class Launcher:
    """Launches the kernels of one example, and adds each launch to the example's report."""

    def __init__(self, module: Module, settings: LaunchSettings, report: Report):
        self.module, self.settings, self.report = module, settings, report
        self.ordinal = None if module.device == "emulator" else int(module.device.partition(":")[2] or 0)
        self.calls: list[ExampleCall] = []
        self.written: list[Any] = []  # records of writers, by array and launch, newest last
        self.judged = JudgedContracts(report.contracts)
        self.evidence: list[Evidence] = []  # evidence about the kernels of the last launch line
        self.edited = edited_kernels(settings.ptx, module.device) if settings.ptx is not None else {}
        asked = settings.timeline
        self.marked = None if asked is None else MarkedLaunches(asked, self.ordinal)
        self.recorded: Any = None  # records of the warps of the last launch
        self.empty = EmptyArrays()  # the empty arrays of the example

    def launch(
        self, function: ModuleFunction, given: Mapping[str, Any], schedule: str | None, rest: Mapping[str, Any]
    ) -> None:
        """Runs one launch line: the kernels of its plan."""
        check_size(given, self.settings.most_bytes)
        arrays = self.empty.tracked(given) if self.ordinal is None else on_device(given, self.ordinal)
        plan = function.plan(function.facts(arrays), schedule=schedule, **rest)
        bound = BoundPlan(function, plan)
        launches = [
            ExampleLaunch(step, compiled, self.runs(step, compiled))
            for step, compiled in zip(plan.steps, bound.kernels, strict=True)
        ]
        # Without this check, an example that launches no kernel of the edited text would pass without testing the text.
        if self.edited and not any(launch.kernel is not launch.compiled.kernel for launch in launches):
            used = ", ".join(step.request.kernel for step in plan.steps)
            has = ", ".join(self.edited)
            raise TileError("ptx", None, f"the PTX has the kernels {has}; this example launches {used}")
        arguments = [bound.arguments(launch.step, arrays) for launch in launches]
        for launch, does in zip(launches, overlaps([each.kernel for each in launches], arguments), strict=True):
            launch.overlaps = does
        pairs = list(zip(launches, arguments, strict=True))
        # The copies in `renewals` are made before the first launch, which changes the memory.
        renewals = Renewals([(launch.kernel, values) for launch, values in pairs], self.ordinal)
        call = ExampleCall(function, plan, given, pairs, renewals)
        self.calls.append(call)
        self.evidence = []
        with bound.call(any(launch.overlaps for launch in launches)):
            for number, (launch, values) in enumerate(call.launches):
                renewals.before(number)
                self.report.launches.append(self.run(plan, launch, values))
        taken = [*tensors_of((launch.step, launch.kernel.header) for launch in launches)]
        written, read = ({name for name, access in taken if way in access} for way in "wr")
        self.empty.wrote(given[name] for name in written)
        if self.ordinal is not None:
            call.before = {name: given[name].copy() for name in written & read}
            seconds = self.settings.bound_seconds if self.settings.measure else None
            # The work is computed before the results are copied back. The emulator works on the host arrays, which
            # still hold the inputs.
            works = None if seconds is None else self.works(call, seconds)
            copy_back(given, arrays, written)
            if self.settings.measure:
                self.measure(call)
            if works is not None:
                for report, work in zip(self.report.launches[-len(works) :], works, strict=True):
                    report.bound = bound_of(work, self.module.place()[1], report.time_us)
        if self.settings.contracts:
            self.judge_schedules()

    def runs(self, step: Step, compiled: CompiledKernel) -> Any:
        """Returns the kernel that is launched for a step: the compiled kernel, its variant with marks, or an edited
        kernel."""
        if self.marked is None:
            return self.edited.get(step.request.kernel, compiled.kernel)
        return self.module.variant(replace(step.request, marks=self.marked.settings.marks)).kernel

    def run(self, plan: Plan, launch: ExampleLaunch, values: list[Any]) -> LaunchReport:
        self.check_plugins(launch.step, launch.names, values)
        report = run_kernel(launch.launched, values, self.ordinal, self.settings, self.keep)
        if self.marked is not None and self.recorded is not None:
            report.timeline = self.marked.add(launch.kernel.header, report.grid, self.recorded).as_record()
        request = launch.step.request
        report.dims = {name: int(extent) for name, extent in request.dims.items()}
        report.types = dict(request.types)
        if self.settings.explain:
            report.explanation = explanation(plan, launch.compiled, launch.overlaps, report.spills)
        if self.settings.contracts:
            self.evidence.append(self.evidence_of(launch, report))
        return report

    def check_plugins(self, step: Step, names: Sequence[str], values: Sequence[Any]) -> None:
        """Raises TileError `plugin` if a plug-in's pass changes the results of a launch with these arguments."""
        if self.module.program.plugins.added:
            from dsl.kernels.kept_meaning import check_meaning

            given = {n: v.numpy() if hasattr(v, "allocation") else v for n, v in zip(names, values, strict=True)}
            check_meaning(self.module.program, self.module.as_asked(step.request), given)

    def end(self) -> None:
        """Writes the timelines, after all lines of the example. Raises TileError for a marked line that has no
        operations."""
        if self.marked is not None:
            launches = [launch for call in self.calls for launch, _ in call.launches]
            functions = [launch.compiled.compiled.variant.function for launch in launches]
            headers = [launch.kernel.header for launch in launches]
            self.marked.write(headers, functions, f"{self.report.device} ({self.report.chip})")

    def evidence_of(self, launch: ExampleLaunch, report: LaunchReport) -> Evidence:
        from dsl.runtime.emulator.counters import LaunchCounters

        compiled = launch.compiled.compiled
        is_edited = launch.kernel is not launch.compiled.kernel
        evidence = Evidence(
            launch.step.request,
            None if is_edited else compiled.variant.function,
            self.module.place()[1],
            f"{self.report.device} ({self.report.chip})",
            lambda: (launch.kernel.header, launch.kernel.ptx),
        )
        if self.ordinal is None:
            # A launch without blocks has no counters. All its figures are 0.
            evidence.counters, evidence.blocks = self.counted or LaunchCounters(), prod(report.grid)
            return evidence
        evidence.registers_known, evidence.spills_known = report.registers, report.spills
        return evidence

    def judge_schedules(self) -> None:
        """Judges the contracts in the schedules of the kernels that the last launch line launched."""
        for evidence in self.evidence:
            for stated in resolve(self.module.program, evidence.request).schedule.contracts:
                if self.marked is None:
                    self.judged.judge(stated, [evidence])
                else:
                    self.judged.leave(stated, "it applies to the kernel without marks")

    def measure(self, call: ExampleCall) -> None:
        """Measures the time of each launch of a call, and the time of all launches together. For a timeline, the
        kernels with marks are recorded, and the kernels without marks are timed."""
        assert self.ordinal is not None
        # A repeated launch with changed inputs might do different work, or never end.
        if call.renewals.reason:
            self.report.untimed = call.renewals.reason
            return
        reports = self.report.launches[-len(call.launches) :]
        if self.marked is not None:
            for number, ((launch, values), report) in enumerate(zip(call.launches, reports, strict=True)):
                self.marked.record(launch.compiled.kernel, launch.kernel, values, report, call.renewals.of(number))
            # Marks take time, so the report has the figures of kernels without marks.
            plain = [(replace(each, kernel=each.compiled.kernel), values) for each, values in call.launches]
            call = replace(call, launches=plain)
        for number, (bound, report) in enumerate(zip(call.prepared(), reports, strict=True)):
            report.time_us = timed(call.renewals.of(number).before(bound), self.ordinal)[1]
        together = timed(call.repeated(), self.ordinal)
        for evidence in self.evidence:
            evidence.time_us, evidence.copy_us = together[1], partial(copy_time, device=self.ordinal)
        before = self.report.times or [0.0, 0.0, 0.0]
        self.report.times = [a + b for a, b in zip(before, together, strict=True)]

    def works(self, call: ExampleCall, seconds: float) -> list[Work]:
        """Estimates the work of each launch of a call by running some blocks on the emulator. They run on the host
        arrays, before the GPU's results are copied back."""
        reports, facts = self.report.launches[-len(call.launches) :], self.module.place()[1]
        return [
            counted_work(launch.kernel, values, report.grid, facts, seconds)
            for (launch, values), report in zip(call.on_host(), reports, strict=True)
        ]

    def writer_of(self, array: Any, index: list[int]) -> str | None:
        """Describes which thread wrote an element last. Returns None if this is unknown, as always on a GPU."""
        address = array.ctypes.data + sum(i * stride for i, stride in zip(index, array.strides, strict=True))
        written = [one for one in reversed(self.written) if one.holds(address)]
        if not written:
            return None
        return next(filter(None, (one.writer(address) for one in written)), UNREACHED)

    def keep(self, result: Any) -> None:
        """Keeps the counters of the last launch, and the records of who wrote which element for up to `MOST_KEPT`
        bytes. The records of the newest launch are always kept."""
        self.counted, self.recorded = result.counters, result.timeline
        self.written += result.writers
        # The oldest records are dropped first, because an `expect` mostly reads results of the last launch.
        while sum(one.size for one in self.written) > MOST_KEPT and len(self.written) > len(result.writers):
            self.written.pop(0)


def edited_kernels(ptx: str, device: str) -> dict[str, Any]:
    """Loads the kernels of a PTX text with headers, by their names in the `.tile` file. Raises LaunchError."""
    from dsl.runtime import Kernel

    return {name: Kernel(ptx, header.entry, device) for name, header in headers_of(ptx).items()}


def tensors_of(launches: Iterable[tuple[Step, Any]]) -> Iterator[tuple[str, str]]:
    """Yields the tensors that the launches of a call use, in order: the name of the call's argument, and its access
    ("r", "w" or "rw"). `launches` are steps with the headers of their kernels."""
    for step, header in launches:
        for argument, param in zip(step.arguments, header.params, strict=True):
            if isinstance(argument, FromCall) and isinstance(param, HeaderTensor):
                yield argument.name, param.access
