"""A case: an example with one set of values (dims, types). The example runs once, with the variants that the dispatch
chooses.

This run makes the arrays, and the results with which other variants are compared. If a variant that the dispatch
chooses does not compile, another point of the launch runs in its place. Then `answer` can repeat each launch with
another variant. The `expect` lines that read the launch's outputs judge the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from dsl.calls.api import ModuleFunction, load
from dsl.calls.plan import BoundPlan
from dsl.examples.launches import Launcher, tensors_of
from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import Overrides
from dsl.examples.report import LaunchReport
from dsl.examples.run import ExampleRun
from dsl.examples.shapes import LaunchFacts
from dsl.examples.transfers import copy_back, on_device
from dsl.lab.place import TuningPlace
from dsl.lab.space import SpaceChoice, TuningCall, candidates
from dsl.lowering.ir.location import TileError
from dsl.text import tree as ast
from dsl.text.program import Program
from dsl.text.tree import names_in

EXPECTED_BYTES = 16 << 20
"""If a launch's outputs have at most this many bytes, `expect` lines judge every variant.

For larger outputs, numpy on the host would take longer than everything else.
"""
MOST_COMPILED = 64
"""If the dispatch chooses a point that does not compile, at most this many others are compiled. Each takes about 0.1 s,
and none compiles if the mistake is in the kernel.
"""
COMPARED = ("f16", "bf16", "f32", "f64", "s8", "s16", "s32", "u8", "u16", "u32")
"""Element types that `agreement.tile` compares."""


class Launched(Struct):
    """A launch line after its run.

    `given` holds the arguments as the example made them, and `arrays` holds the same arguments on the device. `names`
    are the example's variables at that time. `written` lists the arguments that the launch writes. `before` and `after`
    are copies of these arguments from before and after the launch.
    """

    line: ast.Launch
    function: ModuleFunction
    given: Mapping[str, Any]
    arrays: Mapping[str, Any]
    names: dict[str, Any]
    written: list[str]
    before: dict[str, Any]
    after: dict[str, Any] = field(default_factory=dict)

    def put_back(self) -> None:
        """Restores the contents that the written arguments had before the launch. On a GPU, this copies
        asynchronously."""
        for name in self.written:
            put(self.arrays[name], self.before[name])


class Recorder(Launcher):
    """Runs each launch line with the variants that the dispatch chooses, or else with the first point of `choice` that
    compiles. Stores a `Launched` for each, but measures nothing."""

    place: TuningPlace
    choice: SpaceChoice
    launched: list[Launched]
    run_names: dict[str, Any]
    lines: list[ast.Launch]

    def launch(
        self, function: ModuleFunction, given: Mapping[str, Any], schedule: str | None, rest: Mapping[str, Any]
    ) -> None:
        # Later lines may bind these names to other values, so the dictionary is copied.
        names = dict(self.run_names)
        arrays = given if self.ordinal is None else on_device(given, self.ordinal)
        # Launch lines run in the order of the file.
        line = self.lines[len(self.launched)]
        bound = self.compiled(function, LaunchFacts(line, function.facts(arrays), schedule, dict(rest)))
        headers = [kernel.compiled.header for kernel in bound.kernels]
        taken = tensors_of(zip(bound.plan.steps, headers, strict=True))
        written = list(dict.fromkeys(name for name, access in taken if "w" in access))
        # A variant starts from the contents before the launch. Its results are compared with the contents after the
        # launch.
        before = {name: copied(arrays[name]) for name in written}
        launched = Launched(line, function, given, arrays, names, written, before)
        self.launched.append(launched)
        for step, kernel in zip(bound.plan.steps, bound.kernels, strict=True):
            parameters = [param.name for param in kernel.compiled.header.params]
            self.check_plugins(step, parameters, bound.arguments(step, arrays))
        bound.launch(arrays)
        self.synchronize()
        self.report.launches += [LaunchReport(s.request.kernel, s.request.schedule, [], 0, 0) for s in bound.plan.steps]
        self.empty.wrote(given[name] for name in written)
        launched.after = {name: copied(arrays[name]) for name in written}
        # The host evaluates `expect` lines.
        if self.ordinal is not None:
            copy_back(given, arrays, set(written))

    def compiled(self, function: ModuleFunction, facts: LaunchFacts) -> BoundPlan:
        """The kernels of a launch line. Raises the TileError of the dispatch's choice if no point compiles."""
        try:
            return BoundPlan(function, function.planner(facts.arguments, facts.schedule, **facts.rest).plan())
        except TileError as error:
            refused = error
        call = TuningCall(self.module.program, self.place, facts, len(self.launched))
        listed = candidates(call, self.choice)
        # Cheap points that do not compile are often alike, so that the points compiled are spread over all costs.
        for candidate in listed[:: -(-len(listed) // MOST_COMPILED)]:
            try:
                return BoundPlan(function, call.plan(candidate.steps, {}))
            except TileError:
                continue
        raise refused

    def synchronize(self) -> None:
        if self.ordinal is not None:
            from dsl.runtime.cuda.context import context

            context(self.ordinal).synchronize()

    def writer_of(self, array: Any, index: list[int]) -> str | None:
        return None


def copied(array: Any) -> Any:
    """Copies an array, on the same device."""
    if hasattr(array, "allocation"):
        from dsl.runtime.cuda.memory import DeviceArray

        made = DeviceArray(array.shape, array.dtype, array.array.device)
        made.allocation.copy_from(array.allocation)
        return made
    return array.copy()


def put(array: Any, contents: Any) -> None:
    """Overwrites an array with a copy that `copied` made."""
    if hasattr(array, "allocation"):
        array.allocation.copy_from(contents.allocation)
    else:
        array[...] = contents


def on_host(contents: Any, like: Any) -> Any:
    """Copies an array that `copied` returned to host memory, with the strides of `like`."""
    import numpy as np

    if not hasattr(contents, "allocation"):
        return contents.copy()
    made = np.empty_like(like)
    contents.allocation.copy_out(made.ctypes.data, made.nbytes)
    return made


class TuningCase:
    """An example with one set of values. The constructor runs the example, and raises any error of this run. A wrong
    result raises no error: see `is_verified`. If the point that the dispatch chooses does not compile, one of those
    that `choice` selects runs."""

    def __init__(
        self,
        program: Program,
        example: ast.Example,
        overrides: Overrides,
        place: TuningPlace,
        seed: int,
        choice: SpaceChoice,
    ):
        self.place = place
        settings = LaunchSettings(seed=seed, arch=place.arch)
        self.run = ExampleRun(program, example, place.device, "", overrides, settings)
        recorder = Recorder(self.run.module, settings, self.run.report)
        recorder.launched, recorder.run_names = [], self.run.names
        recorder.place, recorder.choice = place, choice
        recorder.lines = [line for line in example.lines if isinstance(line, ast.Launch)]
        self.run.launcher = self.recorder = recorder
        self.example = example
        with place.limited():
            report = self.run.run()
        # With several launches, `moves` counts the bytes of all launches together.
        self.moves = report.moves if len(recorder.lines) == 1 else None
        # These checks judge the variants of this run. `bounds` compares other variants with their results.
        self.passed = {check.line: check.passed for check in report.checks}

    def arguments(self, index: int) -> dict[str, Any]:
        """For each argument of a launch, the shape, type and other properties."""
        launched = self.recorder.launched[index]
        return launched.function.facts(launched.arrays)

    def is_judged(self, index: int) -> bool:
        """Whether an `expect` line judges the launch."""
        try:
            self.expectation(index)
        except TileError:
            return False
        return True

    def is_verified(self, index: int) -> bool:
        """Whether the launch gave right results in the first run: all `expect` lines that judge it passed."""
        lines = self.expectation(index)
        return all(self.passed[line.loc.line] for line in lines if isinstance(line, ast.Expect))

    def expectation(self, index: int) -> list[ast.Assign | ast.Expect]:
        """The lines that judge a launch, that is, the lines below it that depend on its outputs. Raises a TileError
        `example` if none of them is an `expect` line."""
        launched = self.recorder.launched[index]
        arrays = [launched.given[name] for name in launched.written]
        dirty = {name for name, value in launched.names.items() if any(value is array for array in arrays)}
        below: list[ast.Assign | ast.Expect] = []
        for line in self.example.lines[self.example.lines.index(launched.line) + 1 :]:
            if isinstance(line, ast.Assign):
                targets = {target.id for target in line.targets if isinstance(target, ast.Name)}
                if names_in(line.value) & dirty:
                    below.append(line)
                    dirty |= targets
                # After this line, the name has a value that does not depend on the launch.
                else:
                    dirty -= targets
            elif isinstance(line, ast.Expect) and dirty & set().union(*map(names_in, expressions(line))):
                below.append(line)
        if not any(isinstance(line, ast.Expect) for line in below):
            message = f"no 'expect' reads what '{launched.line.name}' writes: a variant could answer anything"
            raise TileError("example", launched.line.loc, message, "add an 'expect' line below the launch")
        return below

    # ---- answers ----

    def answer(self, index: int, launch: Callable[[], None], whole: bool = False) -> tuple[str, str | None]:
        """Calls `launch`, which launches a variant on `arrays` and waits for it.

        Returns (how the result was judged, the error or None). It is judged by `expect` lines, or by `agreement` with
        the first run's outputs. With `whole`, the `expect` lines always judge.
        """
        launched = self.recorder.launched[index]
        self.expectation(index)
        launched.put_back()
        try:
            launch()
            bounds = None if whole else self.bounds(index)
            if bounds is not None and self.agrees(launched, bounds):
                return "agreement", None
            return "expect", self.expected(index)
        finally:
            # On the emulator, these are the example's own arrays, which later launches read.
            if self.place.ordinal is None:
                for name in launched.written:
                    put(launched.arrays[name], launched.after[name])

    def bounds(self, index: int) -> dict[str, tuple[float, float]] | None:
        """Returns, for each output, the absolute and relative difference allowed from the first run's output.

        Returns None if `expect` lines must judge instead: on the emulator, for small outputs, if the first run was
        wrong, or if an output is not compared element by element.
        """
        launched = self.recorder.launched[index]
        arrays = {name: launched.given[name] for name in launched.written}
        if self.place.ordinal is None or not self.is_verified(index):
            return None
        if sum(array.nbytes for array in arrays.values()) <= EXPECTED_BYTES:
            return None
        if any(launched.arrays[name].dtype not in COMPARED for name in arrays):
            return None
        found: dict[str, tuple[float, float]] = {}
        for line in self.expectation(index):
            if isinstance(line, ast.Assign) or line.wanted is None or not isinstance(line.actual, ast.Name):
                return None
            compared = [name for name in arrays if launched.names.get(line.actual.id) is arrays[name]]
            # Here, the line compares an array that several outputs share, or that this launch does not write.
            if len(compared) != 1:
                return None
            found[compared[0]] = self.run.bounds(line)
        return found if found.keys() == arrays.keys() else None

    def agrees(self, launched: Launched, bounds: Mapping[str, tuple[float, float]]) -> bool:
        """Whether all elements of the outputs are within `bounds` of the first run's outputs.

        If not, the outputs may still be right: both outputs may differ from the example's reference by the bound, but
        in opposite directions.
        """
        import numpy as np

        from dsl.runtime import to_device

        # The device compares the arrays, since the host would take seconds.
        module = load(Path(__file__).with_name("agreement.tile"), self.place.device)
        ordinal = self.place.ordinal
        assert ordinal is not None
        for name, (bound, relative) in bounds.items():
            count = to_device(np.zeros(1, np.uint32), ordinal)
            mine, verified = launched.arrays[name].flat(), launched.after[name].flat()
            module.disagreements(count, mine, verified, bound, relative)
            self.recorder.synchronize()
            if count.numpy()[0]:
                return False
        return True

    def expected(self, index: int) -> str | None:
        """Evaluates the `expect` lines on the outputs. Returns a description of the first error, or None."""
        launched, names = self.recorder.launched[index], self.run.names
        kept = dict(names)
        if self.place.ordinal is not None:
            copy_back(launched.given, launched.arrays, set(launched.written))
        # The variables get their values from the launch, since a later line may have changed a variable.
        names.update(launched.names)
        try:
            for line in self.expectation(index):
                if isinstance(line, ast.Assign):
                    self.run.assign(line)
                elif not (check := self.run.expect(line)).passed:
                    error = "fails" if check.first is None else f"error {check.max_error:.3g}, {check.pattern}"
                    return f"{check.text} (line {check.line}): {error}"
            return None
        finally:
            names.clear()
            # Further launches of the example read the verified results.
            names.update(kept)
            if self.place.ordinal is not None:
                copy_back(launched.given, launched.after, set(launched.written))


def expressions(line: ast.Expect) -> list[ast.Expr]:
    return [node for node in (line.actual, line.wanted, line.bound) if node is not None]
