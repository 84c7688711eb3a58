"""The emulator's counters of one variant in the launches of an example."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from dsl.calls.plan import Plan
from dsl.examples.launches import ExampleLaunch, Launcher
from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import Overrides
from dsl.examples.report import LaunchReport
from dsl.examples.run import ExampleRun
from dsl.kernels.compile import Compiled
from dsl.lowering.ir.location import TileError
from dsl.text import tree as ast
from dsl.text.program import Program

if TYPE_CHECKING:
    from dsl.runtime.emulator.counters import Counters


class CountedCode(Struct):
    """The counters of each PTX line, and how many times warps executed the line.

    Both are totals over `launches` launches, which have `blocks` blocks together.
    """

    launches: int = 0
    blocks: int = 0
    by_line: dict[int, Counters] = field(default_factory=dict)
    runs: Counter[int] = field(default_factory=Counter)


def counted_code(
    program: Program, example: ast.Example, overrides: Overrides, settings: LaunchSettings, code: Compiled
) -> CountedCode:
    """Runs an example on the emulator and returns the counters of `code`. In all launches, `code` replaces other
    variants of its kernel.

    Raises a TileError `option` if the example does not launch the kernel, and LaunchError if the code does not fit a
    launch.
    """
    from dsl.runtime import Kernel

    found, header = CountedCode(), code.header
    kernel = Kernel(code.ptx, header.entry, "emulator")

    class CountingLauncher(Launcher):
        """Launches `code` for its kernel, and adds up its counters."""

        def run(self, plan: Plan, launch: ExampleLaunch, values: list[Any]) -> LaunchReport:
            if launch.step.request.kernel != header.kernel:
                return super().run(plan, launch, values)
            report = super().run(plan, replace(launch, kernel=kernel), values)
            if self.counted is not None:  # None for a launch without blocks
                found.launches += 1
                found.blocks += prod(report.grid)
                for line, counters in self.counted.by_ptx_line.items():
                    found.by_line.setdefault(line, type(counters)()).add(counters)
                found.runs += self.counted.runs_of_ptx_lines
            return report

    # Only arrays and launches are needed. `expect` lines compute on the host, and may fail with other code.
    only = replace(example, lines=[*(line for line in example.lines if isinstance(line, ast.Assign | ast.Launch))])
    settings = replace(settings, ptx_lines=True)
    ExampleRun(program, only, "emulator", "inspect", overrides, settings, CountingLauncher).run()
    if not found.launches:
        message = f"the example does not launch '{header.kernel}', so nothing is counted"
        raise TileError("option", None, message, "leave out --counters")
    return found
