"""Runs an example: evaluates its lines in order, launches kernels, and compares results."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import asdict

from dsl.calls.api import Module, ModuleFunction
from dsl.calls.binding import Misfit
from dsl.examples.comparison import agree, compare
from dsl.examples.launches import Launcher
from dsl.examples.mistaken import mistake_of, overflow_of
from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.outside import MOST_SECONDS, outside_of
from dsl.examples.overrides import Overrides
from dsl.examples.report import Check, Report
from dsl.examples.shapes import (
    bound_nodes,
    check_bound,
    check_contract,
    check_cost,
    from_launch,
    given_by,
    items_of,
    missing,
    with_terms,
)
from dsl.examples.unwritten import EmptyArrays, is_same
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import DTYPES
from dsl.runtime.errors import LaunchError
from dsl.schedules.resolve import stated
from dsl.text import tree as ast
from dsl.text.program import Program, reached_kernels, type_parameters
from dsl.values.arrays import Arrays


def run_example(
    program: Program, example: ast.Example, device: str, why: str, overrides: Overrides, settings: LaunchSettings
) -> Report:
    """Runs one example on `device` (`emulator` or `cuda:0`). Raises TileError, LaunchError or DeviceError."""
    start = time.monotonic()
    report = ExampleRun(program, example, device, why, overrides, settings).run()
    failed = [check for check in report.checks if not check.passed and check.hint is None]
    # A second run may show that zeros outside of a tensor are the cause. It takes as long as the first run.
    if failed and time.monotonic() - start < MOST_SECONDS:
        # The same seed gives the same inputs. Nothing is timed or explained, because only the checks count.
        plain = LaunchSettings(settings.schedule, seed=settings.seed, measure=False, arch=settings.arch)
        ran = {launch.kernel for launch in report.launches}
        hint = outside_of(
            program, ran, failed, lambda text: ExampleRun(text, example, device, why, overrides, plain).run().checks
        )
        for check in failed:
            check.mistake = hint
    return report


class ExampleRun:
    """Runs one example, line by line. Lines can read the type parameters of the example's kernels, such as `T`. Their
    value is the first alternative, or the type from the command line."""

    def __init__(
        self,
        program: Program,
        example: ast.Example,
        device: str,
        why: str,
        overrides: Overrides,
        settings: LaunchSettings,
        launcher: Callable[..., Any] = Launcher,
    ):
        self.program, self.example, self.overrides, self.settings = program, example, overrides, settings
        parameters = type_parameters(reached_kernels(program, example))
        self.defaults = {name: choices[0] for name, choices in parameters.items()}
        chosen = {name: overrides.types.get(name, choices[0]) for name, choices in parameters.items()}
        self.names: dict[str, Any] = {name: DTYPES[chosen[name]] for name in chosen if chosen[name] in DTYPES}
        self.host = Arrays(self.names, program.functions, settings.seed)
        self.empty = EmptyArrays()
        self.host.note_empty = self.empty.add
        self.module = Module(program, device, settings.arch, settings.strict_bounds, settings.choose)
        target, facts = self.module.place()
        self.report = Report(program.source.name, example.name, device, f"{facts.name}, {target.arch}", why)
        if device != "emulator":
            self.report.bandwidth = facts.memory_bandwidth
        self.launcher = launcher(self.module, settings, self.report)

    def run(self) -> Report:
        for line in self.example.lines:
            if isinstance(line, ast.Assign):
                self.assign(line)
            elif isinstance(line, ast.Launch):
                self.launch(line)
            elif isinstance(line, ast.Expect):
                self.report.checks.append(self.expect(line))
            elif isinstance(line, ast.Contract):
                self.contract(line)
            else:
                self.cost(line)
        self.launcher.end()
        # Types are checked after the run, because only the launches show which types they used.
        self.check_types()
        return self.report

    def check_types(self) -> None:
        """Raises TileError if the command line sets a type that no launch used, because the example's arrays have
        another type."""
        for name, wanted in self.overrides.types.items():
            taken = {launch.types[name] for launch in self.report.launches if name in launch.types}
            if taken and wanted not in taken:
                message = f"'{name}={wanted}' changes nothing here: the example's arrays make {name} {min(taken)}"
                hint = f"let the example take its types by that name: randn({name}[…]), empty({name}[…])"
                raise TileError("option", self.example.loc, message, hint)

    def assign(self, line: ast.Assign) -> None:
        """Executes an assignment. A value from the command line replaces the line's own value."""
        if line.op is not None:
            raise TileError("syntax", line.loc, "an example assigns with '='")
        # Both facts are computed before the names are bound, because the line may rebind a name that it reads.
        source = self.empty.unwritten_in([line.value], self.names)
        is_result = self.empty.is_result([line.value], self.names)
        self.host.bind(line.targets, self.host(line.value), line.loc)
        self.empty.assigned(line, self.names, source, is_result)
        for target in line.targets:
            if isinstance(target, ast.Name) and target.id in self.overrides.names:
                if not isinstance(self.names[target.id], bool | int | float):
                    raise TileError("option", target.loc, f"'{target.id}' is no number here and cannot be set")
                self.names[target.id] = self.overrides.names[target.id]

    # ---- launches ----

    def launch(self, line: ast.Launch) -> None:
        function: ModuleFunction = self.module[line.name]
        arguments, named = given_by(line, function.params, self.host)
        try:
            # An example makes its own outputs, so that it can name and compare them.
            given, rest = function.order(tuple(arguments), named, makes_outputs=False)
        except TileError as error:
            raise TileError(error.code, line.loc, error.message, error.hint) from None
        for name, value in given.items():
            if value is None and not function.is_optional(name):
                raise missing(line, list(function.params), name)
        schedule, constants = items_of(line, self.program, self.host)
        rest |= constants | self.overrides.of_launch(self.program, line.name)
        self.launcher.empty = self.empty
        try:
            self.launcher.launch(function, given, self.settings.schedule or schedule, rest)
        except TileError as error:
            # Errors in arguments are reported at the launch line. Errors in the kernel keep their place.
            if len(error.errors) == 1 and (error.loc is None or isinstance(error, Misfit)):
                raise from_launch(error.errors[0], line) from None
            raise
        except LaunchError as error:
            error.caller = line.loc
            raise

    # ---- expectations ----

    def expect(self, line: ast.Expect) -> Check:
        text = line.loc.text
        self.empty.check([line.actual] if line.wanted is None else [line.actual, line.wanted], self.names, line.loc)
        if line.wanted is None:
            with with_terms():
                holds = self.host.expectation(line.actual)
            size = getattr(holds, "size", 1)
            holds = bool(holds.all()) if hasattr(holds, "all") else bool(holds)
            if not holds and isinstance(line.actual, ast.Compare) and line.actual.ops == ["=="]:
                left, right = line.actual.operands
                return self.compare(line, text, left, right, 0.0, 0.0)  # passes if only NaNs differ
            shows = size > 0 and self.shows(line.actual)
            error = 0.0 if holds else 1.0
            return Check(holds, error, 0.0, int(not holds), 1, text=text, line=line.loc.line, shows=shows)
        return self.compare(line, text, line.actual, line.wanted, *self.bounds(line))

    def shows(self, *sides: ast.Expr) -> bool:
        """Returns whether an `expect` tests results of launches. It does not if it compares numbers, inputs, or an
        array with itself."""
        if not self.empty.is_result(sides, self.names):
            return False
        if len(sides) == 1 and isinstance(sides[0], ast.Compare) and len(sides[0].operands) == 2:
            sides = tuple(sides[0].operands)
        texts = {side.loc.text for side in sides}
        values = [self.names.get(side.id) for side in sides if isinstance(side, ast.Name)]
        return len(sides) == 1 or (len(texts) == 2 and not (len(values) == 2 and is_same(*values)))

    def contract(self, line: ast.Contract) -> None:
        """Judges a contract on the launch above it, if the example runs as written."""
        check_contract(line, bool(self.report.launches))
        if not self.settings.contracts:
            return
        said = stated(line, None, self.host)
        other = self.others_set()
        if other is not None:
            self.launcher.judged.leave(said, other)
        else:
            self.launcher.judged.judge(said, self.launcher.evidence)

    def others_set(self) -> str | None:
        """Returns the reason why contracts of the example do not apply, or None. They do not apply if the command line
        sets other inputs, types or a schedule. Other constants and choices do not matter, because contracts exist to
        show their cost."""
        types = {name: choice for name, choice in self.overrides.types.items() if choice != self.defaults[name]}
        given = [f"{name}={value}" for name, value in {**self.overrides.names, **types}.items()]
        given += [] if self.settings.schedule is None else [f"--schedule {self.settings.schedule}"]
        given += [] if self.settings.timeline is None else ["--timeline"]
        return f"it applies to the example as written, without {', '.join(given)}" if given else None

    def compare(self, line: ast.Expect, text: str, left: ast.Expr, right: ast.Expr, bound: float, rel: float) -> Check:
        actual, wanted = self.host(left), self.host(right)
        self.host.same_shapes([left, right], [actual, wanted])
        try:
            result = compare(actual, wanted, bound, rel)
        except (ValueError, TypeError) as error:
            raise TileError("expect", line.loc, f"these cannot be compared: {error}") from None
        shows = result.size > 0 and self.shows(left, right)
        check = Check(**asdict(result), text=text, line=line.loc.line, shows=shows)
        if not check.passed and hasattr(actual, "ctypes") and check.first is not None:
            check.writer = self.launcher.writer_of(actual, check.first)
        if not check.passed and isinstance(result.actual, float) and math.isinf(result.actual):
            ran = (launch.kernel.ptx for call in self.launcher.calls for launch, _ in call.launches)
            check.overflows = overflow_of(actual, result.wanted, ran)
        if not check.passed:
            check.mistake = mistake_of(right, (actual, wanted), self.host, partial(agree, bound=bound, relative=rel))
        return check

    def bounds(self, line: ast.Expect) -> tuple[float, float]:
        """Returns the absolute and the relative bound of an `expect` line `within bound, relative`."""
        values = [self.host(node) for node in bound_nodes(line)]
        numbers = [value.item() if getattr(value, "ndim", None) == 0 else value for value in values]
        check_bound(line, numbers)
        return numbers[0], numbers[1] if len(numbers) > 1 else 0.0

    def cost(self, line: ast.Cost) -> None:
        """Adds the bytes of a `moves` line, or the operations of a `computes` line, to the report."""
        check_cost(line, bool(self.report.launches), None)
        number = float(self.host.number(line.value, line.kind))
        setattr(self.report, line.kind, (getattr(self.report, line.kind) or 0.0) + number)
