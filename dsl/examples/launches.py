"""The launches of an example: planned by the Module, run on the emulator or a GPU, measured, and reported.

On the emulator the arrays stay in host memory. On a GPU each launch line copies its arrays there, launches, copies back
what was written, and then measures the same launches again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import prod
from typing import Any

from dsl.calls.api import CompiledKernel, Module, ModuleFunction
from dsl.calls.plan import BoundPlan, FromCall, Plan, Step
from dsl.examples.bounds import bound_of
from dsl.examples.contracts import JudgedContracts
from dsl.examples.evidence import Evidence
from dsl.examples.first_blocks import whole_launch
from dsl.examples.report import Explanation, LaunchReport, Report
from dsl.examples.timeline import Timeline, TimelineSettings, check_lines, timeline_of, write_trace
from dsl.examples.work import Work, counted_work, work_of
from dsl.kernels.edited import headers_of
from dsl.kernels.variant import resolve
from lowering.choices import Asked
from lowering.location import TileError

MOST_KEPT = 1 << 28
"""Bytes of arrays whose writers are kept from launch to launch: their records take up to eight times as many."""


@dataclass(slots=True)
class LaunchSettings:
    """How to run an example. `ptx`: text whose kernels replace those of the same name; `seed`: of the random inputs;
    `budget`: instructions that the emulator may run, `time_limit`: seconds that it may take for a launch, None for its
    own; `most_bytes`: of the arrays of a launch;
    `measure`: time the launches on a GPU; `strict_bounds`: kernels assert that index tiles lie inside of their axes;
    `arch`: the target, None for the device's; `choose`: options of choices by key; `contracts`: judge them;
    `ptx_lines`: count by line of the PTX, too; `timeline`: launch kernels with marks, and what to make of these;
    `bound_seconds`: that the emulator may count of a launch on a GPU to say what bounds it; None: that is not asked;
    `bounds`: say it of launches on the emulator."""

    schedule: str | None = None
    ptx: str | None = None
    seed: int = 0
    explain: bool = False
    counters: bool = False
    budget: int | None = None
    time_limit: float | None = None
    most_bytes: int | None = None
    measure: bool = True
    strict_bounds: bool = False
    arch: str | None = None
    choose: Asked = field(default_factory=Asked)
    contracts: bool = False
    ptx_lines: bool = False
    timeline: TimelineSettings | None = None
    bound_seconds: float | None = None
    bounds: bool = False


@dataclass(slots=True)
class ExampleLaunch:
    """One kernel of a plan: what was compiled, and what runs (an edited text may take its place)."""

    step: Step
    compiled: CompiledKernel
    kernel: Any

    @property
    def names(self) -> list[str]:
        """Names of the kernel's parameters."""
        return [param.name for param in self.kernel.header.params]


@dataclass(slots=True)
class ExampleCall:
    """A launch line that ran: its arguments in host memory, and its kernels with the arguments that they took."""

    function: ModuleFunction
    plan: Plan
    given: Mapping[str, Any]
    launches: list[tuple[ExampleLaunch, list[Any]]]

    def prepared(self) -> list[Any]:
        """Each kernel as a launch without arguments."""
        return [launch.kernel.bind(*values) for launch, values in self.launches]

    def on_host(self) -> list[tuple[ExampleLaunch, list[Any]]]:
        """Its kernels with the arguments in host memory, workspaces of their own among them."""
        bound = BoundPlan(self.function, self.plan)
        return [(launch, bound.arguments(launch.step, self.given)) for launch, _ in self.launches]


class Launcher:
    """Launches for one example; adds to its report."""

    def __init__(self, module: Module, settings: LaunchSettings, report: Report):
        self.module, self.settings, self.report = module, settings, report
        self.ordinal = None if module.device == "emulator" else int(module.device.partition(":")[2] or 0)
        self.calls: list[ExampleCall] = []
        self.written: list[Any] = []  # who wrote each array in each launch, the newest last
        self.judged = JudgedContracts(report.contracts)
        self.evidence: list[Evidence] = []  # of the kernels of the last launch line
        self.edited = edited_kernels(settings.ptx, module.device) if settings.ptx is not None else {}
        self.timelines: list[Timeline] = []
        self.recorded: Any = None  # by warps, in the last launch

    def launch(
        self, function: ModuleFunction, given: Mapping[str, Any], schedule: str | None, rest: Mapping[str, Any]
    ) -> None:
        """One launch line: the kernels that the plan of the call takes."""
        check_size(given, self.settings.most_bytes)
        arrays = given if self.ordinal is None else on_device(given, self.ordinal)
        plan = function.plan(function.facts(arrays), schedule=schedule, **rest)
        bound = BoundPlan(function, plan)
        launches = [
            ExampleLaunch(step, compiled, self.runs(step, compiled))
            for step, compiled in zip(plan.steps, bound.kernels, strict=True)
        ]
        if self.edited and not any(launch.kernel is not launch.compiled.kernel for launch in launches):
            used = ", ".join(step.request.kernel for step in plan.steps)
            has = ", ".join(self.edited)
            raise TileError("ptx", None, f"the PTX has the kernels {has}; this example launches {used}")
        arguments = [bound.arguments(launch.step, arrays) for launch in launches]
        call = ExampleCall(function, plan, given, list(zip(launches, arguments, strict=True)))
        self.calls.append(call)
        self.evidence = []
        with bound.call():
            for launch, values in call.launches:
                self.report.launches.append(self.run(plan, launch, values))
        if self.ordinal is not None:
            seconds = self.settings.bound_seconds if self.settings.measure else None
            works = None if seconds is None else self.works(call, seconds)
            copy_back(given, arrays, written_arguments(call.launches))
            if self.settings.measure:
                self.measure(call)
            if works is not None:
                for report, work in zip(self.report.launches[-len(works) :], works, strict=True):
                    report.bound = bound_of(work, self.module.place()[1], report.time_us)
        if self.settings.contracts:
            self.judge_schedules()

    def runs(self, step: Step, compiled: CompiledKernel) -> Any:
        """What is launched for a step: what was compiled for it, its like with marks, or what was edited."""
        if self.settings.timeline is None:
            return self.edited.get(step.request.kernel, compiled.kernel)
        return self.module.variant(replace(step.request, marks=self.settings.timeline.marks)).kernel

    def run(self, plan: Plan, launch: ExampleLaunch, values: list[Any]) -> LaunchReport:
        self.check_plugins(launch.step, launch.names, values)
        report = run_kernel(launch.kernel, values, self.ordinal, self.settings, self.keep)
        if self.recorded is not None:
            report.timeline = self.add_timeline(launch, report, self.recorded).as_record()
        request = launch.step.request
        report.dims = {name: int(extent) for name, extent in request.dims.items()}
        report.types = dict(request.types)
        if self.settings.explain:
            report.explanation = explanation(plan, launch.compiled)
        if self.settings.contracts:
            self.evidence.append(self.evidence_of(launch, report))
        return report

    def check_plugins(self, step: Step, names: Sequence[str], values: Sequence[Any]) -> None:
        """TileError `plugin` where a pass of a plug-in changes what is about to be launched."""
        if self.module.program.plugins.added:
            from dsl.kernels.kept_meaning import check_meaning

            given = {n: v.numpy() if hasattr(v, "allocation") else v for n, v in zip(names, values, strict=True)}
            check_meaning(self.module.program, self.module.as_asked(step.request), given)

    def add_timeline(self, launch: ExampleLaunch, report: LaunchReport, warps: Any) -> Timeline:
        """The timeline of a launch, which begins where the one before ends. warps: what they recorded."""
        start = max((each.end for each in self.timelines), default=0.0)
        on_gpu, number = self.ordinal is not None, len(self.timelines)
        made = timeline_of(launch.kernel.header, report.grid, warps, on_gpu, number, start)
        self.timelines.append(made)
        return made

    def record(self, launch: ExampleLaunch, values: list[Any], report: LaunchReport) -> None:
        """The timeline of a launch on a GPU that was made before, so that its code is there; the L2 is cold. Beside it
        the kernel's time and registers without marks and with them."""
        from runtime.cuda.timing import flush_l2

        assert self.ordinal is not None and self.settings.timeline is not None
        both = launch.compiled.kernel, launch.kernel
        asked = self.settings.timeline.events, self.settings.timeline.blocks
        times = in_turn([both[0].bind(*values), both[1].bind(*values, timeline=asked)], self.ordinal)
        flush_l2(self.ordinal)
        result = launch.kernel.run(*values, timeline=asked)
        if result.timeline is not None:
            made = self.add_timeline(launch, report, result.timeline)
            made.times_us = times
            attributes = [kernel.attributes(self.ordinal) for kernel in both]
            made.registers = [[each.registers, each.local_bytes] for each in attributes]
            report.timeline = made.as_record()

    def end(self) -> None:
        """All lines of the example have run: writes the timelines. TileError for lines without operations."""
        if self.settings.timeline is None:
            return
        launches = [launch for call in self.calls for launch, _ in call.launches]
        functions = [launch.compiled.compiled.variant.function for launch in launches]
        check_lines(self.settings.timeline.marks, [launch.kernel.header for launch in launches], functions)
        if not self.timelines:
            raise TileError("call", None, "the example launches nothing that has a timeline")
        write_trace(self.settings.timeline.path, self.timelines, f"{self.report.device} ({self.report.chip})")

    def evidence_of(self, launch: ExampleLaunch, report: LaunchReport) -> Evidence:
        from runtime.emulator.counters import LaunchCounters

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
            evidence.counters, evidence.blocks = self.counted or LaunchCounters(), prod(report.grid)
            return evidence
        evidence.registers_known, evidence.spills_known = report.registers, report.spills
        return evidence

    def judge_schedules(self) -> None:
        """The contracts of the schedules of the last launch line's kernels."""
        for evidence in self.evidence:
            for stated in resolve(self.module.program, evidence.request).schedule.contracts:
                if self.settings.timeline is None:
                    self.judged.judge(stated, [evidence])
                else:
                    self.judged.leave(stated, "it is of the kernel without marks")

    def measure(self, call: ExampleCall) -> None:
        """Times the launches of a call: each alone where there are several, and all together. For a timeline it records
        those with marks, and times those without."""
        assert self.ordinal is not None
        if self.settings.timeline is not None:
            reports = self.report.launches[-len(call.launches) :]
            for (launch, values), report in zip(call.launches, reports, strict=True):
                self.record(launch, values, report)
            plain = [(replace(each, kernel=each.compiled.kernel), values) for each, values in call.launches]
            call = replace(call, launches=plain)
        prepared = call.prepared()
        reports = self.report.launches[-len(prepared) :]
        for bound, report in zip(prepared, reports, strict=True):
            report.time_us = timed([bound], self.ordinal)[1]
        together = timed(prepared, self.ordinal)
        for evidence in self.evidence:
            evidence.time_us, evidence.copy_us = together[1], partial(copy_time, device=self.ordinal)
        before = self.report.times or [0.0, 0.0, 0.0]
        self.report.times = [a + b for a, b in zip(before, together, strict=True)]

    def works(self, call: ExampleCall, seconds: float) -> list[Work]:
        """What the launches of the last call do in all, by some blocks on the emulator: in the host's arrays, to which
        results of a GPU are copied afterwards."""
        reports, facts = self.report.launches[-len(call.launches) :], self.module.place()[1]
        return [
            counted_work(launch.kernel, values, report.grid, facts, seconds)
            for (launch, values), report in zip(call.on_host(), reports, strict=True)
        ]

    def writer_of(self, array: Any, index: list[int]) -> str | None:
        """What wrote an element last, in words; known on the emulator only, which keeps it of each launch."""
        address = array.ctypes.data + sum(i * stride for i, stride in zip(index, array.strides, strict=True))
        written = [one for one in reversed(self.written) if one.holds(address)]
        if not written:
            return None
        return next(filter(None, (one.writer(address) for one in written)), "nothing: no store reached it")

    def keep(self, result: Any) -> None:
        """The counters of the last launch, and who wrote what in the last ones, as many as `MOST_KEPT` allows; the
        newest always."""
        self.counted, self.recorded = result.counters, result.timeline
        self.written += result.writers
        while sum(one.size for one in self.written) > MOST_KEPT and len(self.written) > len(result.writers):
            self.written.pop(0)


def run_kernel(
    kernel: Any,
    values: list[Any],
    ordinal: int | None,
    settings: LaunchSettings,
    keep: Callable[[Any], None] | None = None,
) -> LaunchReport:
    """Launches a `runtime.Kernel` once on a GPU, or on the emulator for None, and says what it costs.

    `keep` takes the result of a launch on the emulator, with who wrote its arrays.
    """
    from runtime import device_facts

    header = kernel.header
    report = LaunchReport(header.kernel, header.schedule, [], header.threads, header.shared_bytes)
    report.maxregs = header.maxregs
    limits = {"budget": settings.budget, "time_limit": settings.time_limit} if ordinal is None else {}
    options: dict[str, Any] = {name: limit for name, limit in limits.items() if limit is not None}
    if keep is not None and ordinal is None:
        options["writers"] = True
    if (settings.ptx_lines or settings.counters or settings.bounds) and ordinal is None:
        options["ptx_lines"] = True
    if settings.timeline is not None and ordinal is None:
        options["timeline"] = settings.timeline.events, settings.timeline.blocks
    result = kernel.run(*values, **options)
    if keep is not None:
        keep(result)
    report.grid, report.output = list(result.grid), result.output
    if result.counters is not None:
        report.counters = result.counters.totals.as_dict()
        if settings.counters:
            lines = sorted(result.counters.by_line.items())
            others = sorted(result.counters.elsewhere.items())
            report.by_line = {str(line): counters.as_dict() for line, counters in lines}
            report.by_line |= {f"{file}:{line}": counters.as_dict() for (file, line), counters in others}
    if ordinal is not None:
        attributes = kernel.attributes(ordinal)
        report.registers, report.spills = attributes.registers, attributes.local_bytes
        report.shared_bytes = attributes.static_shared_bytes + attributes.dynamic_shared_bytes
        report.occupancy, report.limited_by = attributes.occupancy, attributes.limited_by
    elif settings.explain or settings.counters or settings.bounds or header.maxregs is not None:
        code = assembled(kernel.ptx, header, report, must=settings.explain or header.maxregs is not None)
        if (settings.counters or settings.bounds) and result.counters is not None:
            work = work_of(kernel, values, whole_launch(result), code and code.cubin)
            report.bound = bound_of(work, device_facts("emulator", header.arch))
    return report


def copy_time(size: float, device: int) -> float:
    """Microseconds in which the device copies, reading and writing so many bytes together; the L2 cold, the median."""
    from runtime.cuda.timing import measure_copy, percentiles

    return percentiles(measure_copy(max(int(size) // 2, 1), device))[1]


def timed(launches: list[Any], ordinal: int) -> list[float]:
    """Microseconds of prepared launches together: 20th percentile, median, 80th of 20 runs, the L2 cold before each."""
    from runtime.cuda.timing import measure, percentiles

    def launch() -> None:
        for bound in launches:
            bound()

    return list(percentiles(measure(launch, device=ordinal)))


def in_turn(launches: list[Any], ordinal: int) -> list[float]:
    """The median microseconds of each of these launches, which take turns, the L2 cold before each."""
    from runtime.cuda.timing import measure_rounds, percentiles

    return [percentiles(times)[1] for times in measure_rounds(launches, 20, device=ordinal)]


def edited_kernels(ptx: str, device: str) -> dict[str, Any]:
    """The kernels of a PTX text with headers by their names in the `.tile` file. Raises LaunchError."""
    from runtime import Kernel

    return {name: Kernel(ptx, header.entry, device) for name, header in headers_of(ptx).items()}


def array_bytes(given: Mapping[str, Any]) -> int:
    from runtime import describe, is_array

    return sum(array.size * array.itemsize for array in map(describe, filter(is_array, given.values())))


def check_size(given: Mapping[str, Any], most_bytes: int | None) -> None:
    """TileError `limit` if the arrays of a call have more bytes."""
    size = array_bytes(given)
    if most_bytes is not None and size > most_bytes:
        raise TileError("limit", None, f"the arrays have {size >> 20} MiB; the limit is {most_bytes >> 20} MiB")


def on_device(given: Mapping[str, Any], ordinal: int) -> dict[str, Any]:
    """The arrays of a call copied to a GPU; one that is given twice stays one."""
    from runtime import is_array, to_device

    copies: dict[int, Any] = {}
    out: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or not is_array(value):
            out[name] = value
            continue
        if id(value) not in copies:
            copies[id(value)] = to_device(value, ordinal)
        out[name] = copies[id(value)]
    return out


def written_arguments(launches: list[tuple[ExampleLaunch, list[Any]]]) -> set[str]:
    """Names of the call's arguments that some kernel writes."""
    from runtime.header import HeaderTensor

    found = set()
    for launch, _ in launches:
        for argument, param in zip(launch.step.arguments, launch.kernel.header.params, strict=True):
            if isinstance(argument, FromCall) and isinstance(param, HeaderTensor) and param.written:
                found.add(argument.name)
    return found


def copy_back(given: Mapping[str, Any], arrays: Mapping[str, Any], names: set[str]) -> None:
    """Copies the written arrays from the GPU."""
    for name in names:
        arrays[name].allocation.copy_out(given[name].ctypes.data, given[name].nbytes)


def assembled(ptx: str, header: Any, report: LaunchReport, on_gpu: bool = False, must: bool = True) -> Any:
    """Registers and spills by ptxas, instructions of the machine code by nvdisasm, where these are installed. On a GPU
    its driver assembles, and has said what registers that takes. Raises LaunchError for PTX that ptxas refuses, unless
    it need not take it: one that is older than the PTX then says nothing. What ptxas said; None for nothing."""
    from runtime import assemble
    from runtime.errors import DeviceError, LaunchError
    from runtime.machine_code import machine_code

    figures = None
    with suppress(DeviceError) if must else suppress(DeviceError, LaunchError):
        figures = assemble(ptx, header.arch, header.entry, header.maxregs)
        if not on_gpu:
            report.registers, report.spills = figures.registers, figures.spill_stores + figures.spill_loads
        report.machine_code = asdict(machine_code(figures.cubin, header.entry))
    return figures


def explanation(plan: Plan, kernel: CompiledKernel) -> Explanation:
    """Why this variant: the dispatch's reasons, constants, conditions, layouts of named values, seconds by stage."""
    from dsl.kernels.stages import named_values

    compiled = kernel.compiled
    tiles = named_values(compiled.variant.function)
    return Explanation(
        list(plan.reasons),
        dict(compiled.header.constants),
        [f"{require.text}  (line {require.line})" for require in compiled.header.requires],
        [[name, kind, layout] for _, name, kind, layout in tiles],
        dict(compiled.seconds),
    )
