"""What a dispatch launches: kernel, schedule, constants, registers; and what the emulator counts of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dsl
from dsl.api import BoundPlan


@dataclass(frozen=True, slots=True)
class Facts:
    """One launch. Registers a thread, spilled bytes a thread, shared bytes a block; occupancy of full."""

    kernel: str
    constants: dict[str, Any]
    threads: int
    registers: int
    spills: int
    shared_bytes: int
    occupancy: float


def bound_plan(module: dsl.Module, name: str, arguments: tuple[Any, ...]) -> tuple[BoundPlan, dict[str, Any]]:
    """The launches of a call, compiled, and its arguments by name."""
    function = getattr(module, name)
    given, rest = function.order(arguments, {})
    return function.plan_for(given, rest), given


def facts_of(module: dsl.Module, name: str, arguments: tuple[Any, ...]) -> list[Facts]:
    """Of each launch of a call on GPU 0, as the driver compiled it."""
    facts = []
    for kernel in bound_plan(module, name, arguments)[0].kernels:
        header, attributes = kernel.compiled.header, kernel.kernel.attributes()
        facts.append(
            Facts(
                header.label,
                dict(header.constants),
                header.threads,
                attributes.registers,
                attributes.local_bytes,
                attributes.static_shared_bytes + attributes.dynamic_shared_bytes,
                attributes.occupancy,
            )
        )
    return facts


def counted(module: dsl.Module, name: str, arguments: tuple[Any, ...]) -> dict[str, float]:
    """The emulator's counters of a call with host arrays, all launches together; `module` is on the emulator."""
    plan, given = bound_plan(module, name, arguments)
    totals = None
    for step, kernel in zip(plan.plan.steps, plan.kernels, strict=True):
        counters = kernel.run(*plan.arguments(step, given), counters=True).counters.totals
        totals = counters if totals is None else totals + counters
    return totals.as_dict() if totals is not None else {}
