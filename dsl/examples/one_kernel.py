"""Launches one kernel of an example once, and reports its costs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import Struct, field, to_builtins

from dsl.calls.api import CompiledKernel
from dsl.calls.plan import Plan
from dsl.examples.bounds import bound_of
from dsl.examples.first_blocks import whole_launch
from dsl.examples.report import Explanation, LaunchReport, take
from dsl.examples.timeline import TimelineSettings
from dsl.examples.work import work_of
from dsl.lowering.ir.choices import Asked


class LaunchSettings(Struct):
    """How to run an example.

    `ptx` is a PTX text whose kernels replace the kernels of the same names. `seed` is the seed of the random inputs.
    The emulator runs at most `budget` instructions and `time_limit` seconds for one launch. None means the emulator's
    own limits. `most_bytes` limits the arrays of a launch.

    `measure` times the launches on a GPU. With `strict_bounds`, kernels assert that tiles used as indices are inside
    their axes. `arch` is the target. None means the device's own target. `choose` maps keys of choices to options. With
    `contracts`, contracts are judged. With `ptx_lines`, the emulator also counts by line of the PTX. With `timeline`,
    kernels are launched with marks, and timelines are made.

    `bound_seconds` is the time that the emulator may take to find the bound of a launch on a GPU. If it is None, no
    bound is computed. With `bounds`, the bounds of launches on the emulator are also found."""

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


def run_kernel(
    kernel: Any, values: list[Any], ordinal: int | None, settings: LaunchSettings, keep: Callable[[Any], None]
) -> LaunchReport:
    """Launches a `dsl.runtime.Kernel` once, and reports its costs. `ordinal` is the GPU's number, or None for the
    emulator.

    On the emulator, the launch also records which thread wrote each element. `keep` is called with the result of the
    launch."""
    header, on_gpu = kernel.header, ordinal is not None
    report = LaunchReport(header.kernel, header.schedule, [], header.threads, header.shared_bytes, header.cluster)
    report.maxnreg = header.maxnreg
    result = kernel.run(*values, **({} if on_gpu else emulator_options(settings)))
    keep(result)
    report.grid, report.output = list(result.grid), result.output
    if result.counters is not None:
        report.counters = result.counters.totals.as_dict()
        if settings.counters:
            report.by_line = {place: counters.as_dict() for place, counters in result.counters.places.items()}
    if on_gpu:
        # The driver's figures describe the code that ran on the GPU.
        take(report, kernel.attributes(ordinal))
    else:
        add_code(kernel, values, settings, report, result)
    return report


def emulator_options(settings: LaunchSettings) -> dict[str, Any]:
    """Returns the options of `Kernel.run` on the emulator."""
    limits = {"budget": settings.budget, "time_limit": settings.time_limit}
    options: dict[str, Any] = {name: limit for name, limit in limits.items() if limit is not None}
    options["writers"] = True
    # Bounds weight machine code by how often each line of PTX ran.
    if settings.ptx_lines or settings.counters or settings.bounds:
        options["ptx_lines"] = True
    if settings.timeline is not None:
        options["timeline"] = settings.timeline.events, settings.timeline.blocks
    return options


def add_code(kernel: Any, values: list[Any], settings: LaunchSettings, report: LaunchReport, result: Any) -> None:
    """Adds the assembler's figures and the bound to the report of a kernel that the emulator ran, if the settings
    request them."""
    from dsl.runtime import device_facts

    header, counts = kernel.header, settings.counters or settings.bounds
    # Assembling may take seconds. Tests and tuning would spend this time at each launch.
    if not counts and not settings.explain and header.maxnreg is None:
        return
    code = assembled(kernel.ptx, header, report, must=settings.explain or header.maxnreg is not None)
    if counts and result.counters is not None:
        work = work_of(kernel, values, whole_launch(result), code and code.cubin)
        report.bound = bound_of(work, device_facts("emulator", header.arch))


def assembled(
    ptx: str, header: Any, report: LaunchReport, on_gpu: bool = False, must: bool = True, arch: str | None = None
) -> Any:
    """Adds figures of the machine code to the report: registers and spills from ptxas, and instruction counts from
    nvdisasm. Adds nothing if these tools are not installed. Returns the result of ptxas, or None.

    `on_gpu` means that the driver has already reported the registers. With `must`, raises LaunchError for PTX that
    ptxas rejects, and DeviceError if ptxas takes too long. Without `must`, nothing is added in these cases, for example
    if ptxas is older than the PTX. `arch` is the target, by default the header's."""
    from dsl.runtime import assemble
    from dsl.runtime.errors import DeviceError, LaunchError, MissingToolError
    from dsl.runtime.machine_code import machine_code

    figures = None
    with suppress(MissingToolError) if must else suppress(DeviceError, LaunchError):
        figures = assemble(ptx, arch or header.arch, header.entry, header.maxnreg)
        if not on_gpu:
            report.registers, report.spills = figures.registers, figures.spill_stores + figures.spill_loads
        report.machine_code = to_builtins(machine_code(figures.cubin, header.entry))
    return figures


def explanation(plan: Plan, kernel: CompiledKernel, overlaps: bool, spills: int | None) -> Explanation:
    """Explains a variant: the dispatch's reasons, constants, conditions, layouts of named values, and compile times by
    level. `overlaps` is True if the launch may start before the preceding launch has ended. `spills` is the number of
    spilled bytes of a thread, or None if it is unknown."""
    from dsl.kernels.levels import named_values

    compiled = kernel.compiled
    tiles = named_values(compiled.variant.function)
    reasons = [*plan.reasons, *["it may start before the launch in front of it has ended"] * overlaps]
    # ptxas decides what is spilled, after a cost has chosen.
    if spills and compiled.variant.schedule.costs:
        reasons.append(f"this point spills {spills:,} bytes a thread; dsl tune rejects such points")
    return Explanation(
        reasons,
        dict(compiled.header.constants),
        [f"{require.text}  ({require.place})" for require in compiled.header.requires],
        [[name, kind, layout] for _, name, kind, layout in tiles],
        dict(compiled.seconds),
    )
