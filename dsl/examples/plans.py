"""The launches of an example that shapes alone do not tell: its lines are evaluated, and nothing is launched.

What `dsl compile` and `dsl layout` need where an argument comes from a reference or a function of the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

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
    """Keeps what planning needs of each launch's arguments, in place of launching."""

    arguments: list[dict[str, Any]]

    def launch(
        self, function: ModuleFunction, given: Mapping[str, Any], schedule: str | None, rest: Mapping[str, Any]
    ) -> None:
        self.arguments.append(function.facts(given))


def evaluated(
    program: Program, example: ast.Example, overrides: Overrides, launches: Sequence[LaunchFacts]
) -> list[LaunchFacts]:
    """`launches`, all of the example's, with their unknown arguments as the host's arithmetic has them.

    A number behind another launch stays unknown, since it may hang on what that one writes; of an array only its shape,
    type and alignment count. Raises TileError.
    """
    settings = LaunchSettings()
    run = ExampleRun(program, example, "emulator", "", overrides, settings)
    run.launcher = recorder = PlanRecorder(run.module, settings, run.report)
    recorder.arguments = []
    last = max(number for number, line in enumerate(example.lines) if isinstance(line, ast.Launch))
    for line in example.lines[: last + 1]:
        if isinstance(line, ast.Assign):
            run.assign(line)
        elif isinstance(line, ast.Launch):
            run.launch(line)
    out = []
    for number, (launch, told) in enumerate(zip(launches, recorder.arguments, strict=True)):
        arguments = {
            name: told[name] if value is UNKNOWN and (number == 0 or isinstance(told[name], ArrayFacts)) else value
            for name, value in launch.arguments.items()
        }
        out.append(replace(launch, arguments=arguments))
    return out
