"""The launches of a dispatch: kernel, schedule, constants, registers, and the emulator's counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import dsl
from dsl.calls.api import CompiledKernel
from dsl.calls.plan import BoundPlan
from dsl.runtime import assemble


@dataclass(frozen=True, slots=True)
class Facts:
    """One launch.

    Registers and spilled bytes are per thread. The driver reports these numbers. Without a GPU, `ptxas` reports them.
    Shared bytes are per block. `occupancy` is a share of the full occupancy, or None without a GPU.
    """

    kernel: str
    constants: dict[str, Any]
    threads: int
    registers: int
    spills: int
    shared_bytes: int
    occupancy: float | None


@dataclass(frozen=True, slots=True)
class Call:
    """A dispatch, and the constants that it is called with."""

    dispatch: str
    constants: Mapping[str, Any] = field(default_factory=dict)


def bound_plan(module: dsl.Module, call: Call, arguments: tuple[Any, ...]) -> tuple[BoundPlan, dict[str, Any]]:
    """The compiled launches of a call, and its arguments by name."""
    function = getattr(module, call.dispatch)
    given, rest = function.order(arguments, dict(call.constants))
    return function.plan_for(given, rest), given


def facts_of(module: dsl.Module, call: Call, arguments: tuple[Any, ...]) -> list[Facts]:
    """The facts of each launch of a call, on GPU 0. If `module` is on the emulator, the facts are for the emulator's
    target."""
    plan, _ = bound_plan(module, call, arguments)
    return [(assembled if module.device == "emulator" else loaded)(kernel) for kernel in plan.kernels]


def loaded(kernel: CompiledKernel) -> Facts:
    header, found = kernel.compiled.header, kernel.kernel.attributes()
    shared = found.static_shared_bytes + found.dynamic_shared_bytes
    constants = dict(header.constants)
    return Facts(header.label, constants, header.threads, found.registers, found.local_bytes, shared, found.occupancy)


def assembled(kernel: CompiledKernel) -> Facts:
    header = kernel.compiled.header
    found = assemble(kernel.ptx, header.arch, header.entry, header.maxnreg)
    spills, shared = found.spill_stores + found.spill_loads, found.shared + header.shared_bytes
    return Facts(header.label, dict(header.constants), header.threads, found.registers, spills, shared, None)


def counted(module: dsl.Module, call: Call, arguments: tuple[Any, ...]) -> dict[str, float]:
    """The emulator's counters of a call with host arrays, over all launches. `module` must be on the emulator."""
    plan, given = bound_plan(module, call, arguments)
    totals = None
    for step, kernel in zip(plan.plan.steps, plan.kernels, strict=True):
        counters = kernel.run(*plan.arguments(step, given), counters=True).counters.totals
        totals = counters if totals is None else totals + counters
    return totals.as_dict() if totals is not None else {}
