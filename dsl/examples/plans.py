"""Finds the arguments of an example's launches if they do not follow from shapes alone, for example if an argument is
computed by a reference `ref.*`. The example's lines are evaluated, but nothing is launched. `dsl compile` and `dsl
layout` use this module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from dsl.calls.api import ModuleFunction
from dsl.examples.launches import Launcher
from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import Overrides
from dsl.examples.run import ExampleRun
from dsl.examples.shapes import UNKNOWN, LaunchFacts
from dsl.text import tree as ast
from dsl.text.program import Program
from dsl.values.facts import ArrayFacts


class PlanRecorder(Launcher):
    """Records the facts about each launch's arguments instead of launching."""

    arguments: list[dict[str, Any]]

    def launch(
        self, function: ModuleFunction, given: Mapping[str, Any], schedule: str | None, rest: Mapping[str, Any]
    ) -> None:
        self.arguments.append(function.facts(given))


def evaluated(
    program: Program, example: ast.Example, overrides: Overrides, launches: Sequence[LaunchFacts]
) -> list[LaunchFacts]:
    """Returns the launches of an example. Their unknown arguments are evaluated on the host. Raises TileError."""
    settings = LaunchSettings()
    run = ExampleRun(program, example, "emulator", "", overrides, settings)
    run.launcher = recorder = PlanRecorder(run.module, settings, run.report)
    recorder.arguments = []
    # Lines after the last launch, such as references, may take long, and cannot change the launch's arguments.
    last = max(number for number, line in enumerate(example.lines) if isinstance(line, ast.Launch))
    for line in example.lines[: last + 1]:
        if isinstance(line, ast.Assign):
            run.assign(line)
        elif isinstance(line, ast.Launch):
            run.launch(line)
    out = []
    for number, (launch, told) in enumerate(zip(launches, recorder.arguments, strict=True)):
        arguments = {
            # A number after a launch stays unknown, because it may depend on results. An array's shape, type and
            # alignment cannot depend on results.
            name: told[name] if value is UNKNOWN and (number == 0 or isinstance(told[name], ArrayFacts)) else value
            for name, value in launch.arguments.items()
        }
        out.append(replace(launch, arguments=arguments))
    return out
