"""Examples of `.tile` files at other numbers, for all types."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import dsl
from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import resolve
from dsl.examples.run import run_example
from dsl.text.program import Program, load, reached_kernels, type_parameters
from dsl.text.tree import Example, Name, walk


@cache
def loaded(path: Path) -> Program:
    """The program of a file, read once by a worker: of calls, too, many share one."""
    return load(path)


@cache
def module_of(path: Path, device: str, arch: str | None = None) -> dsl.Module:
    """The module of a file on a device: its tests share what they compile."""
    return dsl.load(path, device=device, arch=arch)


def check(
    program: Program, example: Example, given: list[str], device: str, contracts: bool = False, arch: str | None = None
) -> None:
    """Runs it with these settings; an AssertionError names the worst check, and the contracts that do not hold."""
    overrides = resolve(program, example, given)
    report = run_example(program, example, device, "test", overrides, LaunchSettings(contracts=contracts, arch=arch))
    told = "\n".join([str(report.worst), *(verdict.rendered for verdict in report.failed)])
    assert report.checks and report.passed, f"{program.source.name} {given}: {told}"


def types_of(program: Program, example: Example) -> list[list[str]]:
    """A setting for each type of each type parameter that it leaves open."""
    said = {node.id for node in walk(example.lines) if isinstance(node, Name)}
    parameters = {k: v for k, v in type_parameters(reached_kernels(program, example)).items() if k in said}
    return [[f"{name}={choice}"] for name, choices in parameters.items() for choice in choices] or [[]]
