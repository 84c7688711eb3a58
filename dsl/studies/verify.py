"""Tests whether a compiler pass, or the generation of PTX, changes the results of kernels. The inputs are those of an
example's launches.

The IR of each kernel is executed in numpy, before the passes and after each pass (`dsl/lowering/meaning`). Then the
emulator executes the kernel's PTX. The first difference is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from dsl.examples.launches import ExampleLaunch, Launcher
from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import assigned_names, resolve
from dsl.examples.report import LaunchReport
from dsl.examples.run import ExampleRun
from dsl.kernels.compile import Lowered, compile_lowered, settled
from dsl.kernels.kept_meaning import grid_of
from dsl.kernels.variant import Request, build_variant, record_access
from dsl.lowering.emit.rules import OWN
from dsl.lowering.ir.choices import Choice
from dsl.lowering.ir.function import Block, Function, Op, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import WARP, Target
from dsl.lowering.meaning.levels import Divergence, Undecided, compare_levels, compare_ptx, leads_to, met, name_of
from dsl.lowering.meaning.orders import order_of_blocks
from dsl.lowering.meaning.run import Outside, as_memory, blocks_of, carried_blocks
from dsl.lowering.ops import OPS
from dsl.lowering.ops.control import parting
from dsl.lowering.passes import Pass, passes_of, run_passes
from dsl.lowering.shared.shared_map import period
from dsl.runtime.errors import DeviceAssertError, DeviceError, LaunchError
from dsl.text import tree as ast
from dsl.text.program import Program

Passes = Sequence[Pass]
BOUNDARIES = (1, 33)
"""Values for the numbers of an example: 1, and one more than the number of lanes in a warp.

All numbers of the example together take each value. Then each number alone takes the value.
"""
BLOCKS = 8
"""The number of blocks of a launch that are executed. These are the first blocks."""


class Verified(Struct):
    """The result for one kernel.

    `levels` counts the compared levels, and `values` the values in the last level. `undecided` is the reason why the
    comparison has no answer.
    """

    kernel: str
    schedule: str | None
    dims: dict[str, int]
    blocks: int
    grid: tuple[int, ...]
    levels: int = 0
    values: int = 0
    divergence: Divergence | None = None
    undecided: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The data of `--json`."""
        divergence = None if self.divergence is None else self.divergence.as_json()
        rest = {k: v for k, v in asdict(self).items() if k != "divergence"}
        return {**rest, "grid": list(self.grid), "divergence": divergence}


class Verification(Struct):
    """All verified kernels of an example, in order. `refused` lists the boundary shapes with which the example cannot
    run, with the reasons."""

    example: str | None
    kernels: list[Verified] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def divergence(self) -> Divergence | None:
        """The first divergence, or None."""
        return next((k.divergence for k in self.kernels if k.divergence is not None), None)


def verify_kernel(
    program: Program,
    request: Request,
    given: Mapping[str, Any],
    most: int = BLOCKS,
    passes: Passes | None = None,
) -> Verified:
    """Executes the IR of one variant after each pass, then its PTX, on the arguments `given`, and compares the results.
    The arguments stay unchanged.

    `most` limits the number of blocks. If `passes` is None, the program's passes are used.
    """
    passes = passes_of(program.plugins) if passes is None else passes
    request = settled(program, request)
    variant = build_variant(program, request)
    grid = grid_of(variant, given)
    function, blocks = variant.function, blocks_of(grid, most)
    found = Verified(request.kernel, request.schedule, dict(request.dims), len(blocks), grid)
    if not blocks:
        return found
    launch = _Emulated(program, request, given, most)
    try:
        regrid = partial(grid_of, variant, given)
        levels = compare_levels(function, variant.target, given, grid, blocks, passes, regrid)
        found.levels, found.values, found.divergence = levels.passes, levels.values, levels.divergence
        if found.divergence is not None:
            found.divergence.level = _whose(found.divergence.level, passes)
        else:
            found.divergence = launch.divergence(passes)
            if found.divergence is not None:
                now = regrid()
                found.undecided = met(function, given, now, carried_blocks(function, now, most))
            if found.undecided is not None:
                found.divergence = None
            elif found.divergence is not None:
                found.divergence.level = launch.to_blame(passes)
            else:
                found.undecided = order_of_blocks(build_variant(program, request).function, given, grid, blocks)
    except (Undecided, Outside) as error:
        line = "" if error.op.loc is None else f"line {error.op.loc.line}: "
        found.undecided = f"{line}{error.message}"
    return found


class _Emulated(Struct):
    """Runs the first blocks of a launch on the emulator."""

    program: Program
    request: Request
    given: Mapping[str, Any]
    most: int
    rules: dict[str, Choice] = field(default_factory=dict)  # rules of plug-ins that the last compilation took

    def divergence(self, passes: Passes, forced: Mapping[str, str] | None = None) -> Divergence | None:
        """Compiles the variant with the forced options, and runs its PTX on the emulator.

        Returns the first difference from the results of the last IR, which numpy executes.
        """
        from dsl.runtime import Kernel

        variant = build_variant(self.program, self.request)
        variant.function.choices.force(forced or {}, "verify")
        run_passes(variant.function, variant.target, passes)
        record_access(variant.function)
        compiled = compile_lowered(self.program, Lowered(variant, {}))
        self.rules = {k: c for k, c in variant.function.choices.keyed().items() if c.kind == "rule"}
        copies: dict[int, Any] = {}  # an array that is passed twice is copied once
        values: dict[str, Any] = {}
        for param in compiled.header.params:
            value = self.given[param.name]
            if isinstance(value, np.ndarray):
                value = copies.setdefault(id(value), copy_of(value))
            values[param.name] = value
        failed = None
        try:
            # A workspace passes data between blocks. If only some blocks ran, some of them would wait for ever.
            part: dict[str, Any] = {} if variant.function.workspaces else {"blocks": self.most}
            Kernel(compiled.ptx, device="emulator").run(*values.values(), **part)
        except DeviceAssertError as error:
            failed = error
        except DeviceError as error:
            return _of_finding(error, variant.function)
        made = {}
        for p in variant.function.params:
            if p.kind == "tensor" and p.value is not None:
                made[p.name] = as_memory(values[p.name], p.dtype)[0]
        grid = grid_of(variant, self.given)
        blocks = carried_blocks(variant.function, grid, self.most)
        return compare_ptx(variant.function, self.given, made, grid, blocks, failed)

    def to_blame(self, passes: Passes) -> str:
        """Finds the cause of a divergence: a rule of a plug-in, a pass, or the emission of PTX.

        A rule is the cause if the PTX agrees without it. Otherwise, passes are left out one by one, the last pass
        first, until the PTX agrees. This test is needed because the IR does not show where elements are stored, which
        threads wait and which threads load. If no pass is the cause, the emission is.
        """
        by_rule: dict[str, list[str]] = {}
        for key, choice in self.rules.items():
            if choice.taken != OWN:
                by_rule.setdefault(f"rule {choice.taken} ({choice.because})", []).append(key)
        for rule, keys in by_rule.items():
            if self.divergence(passes, dict.fromkeys(keys, OWN)) is None:
                return rule
        for at in reversed(range(len(passes))):
            name = passes[at].name
            forced: dict[str, str] = {}
            tried = list(passes)
            if name in INSTEAD:
                tried[at : at + 1] = INSTEAD[name](passes[at])
            elif not passes[at].may_go:
                continue
            else:
                forced = {f"pass.{name}": "off"}
            try:
                if self.divergence(tuple(tried), forced) is None:
                    return _whose(name, passes)
            except (TileError, LaunchError):
                continue
        return "emission"


def _whose(name: str, passes: Passes) -> str:
    """The name of a pass. If a plug-in added the pass, the text includes the plug-in's file and line."""
    added = next((each.plugin for each in passes if each.name == name), None)
    return name if added is None else f"{name} ({added.place})"


def _of_finding(error: Any, function: Function) -> Divergence:
    """Converts a fault that the emulator found to a divergence. The divergence names the thread of the fault, and the
    value that the fault's line accesses."""
    found = Divergence("emission", " ".join(str(error).split()))
    finding = getattr(error, "finding", None)
    if finding is not None and finding.thread is not None:
        found.block, found.lane, found.warp = finding.block, finding.thread[0] % WARP, finding.thread[0] // WARP
    for op in walk(function.body):
        if finding is not None and op.spec.access.touches and op.loc is not None and op.loc.line == finding.line:
            found.loc = op.loc
            found.value = found.value or op.operands[0].name
            found.value = next((name_of(r) or leads_to(function, r) for r in op.results), found.value)
    return found


def copy_of(array: np.ndarray) -> np.ndarray:
    """Copies an array, with the same strides. The addresses of the first elements are equal modulo 16, so that aligned
    accesses stay aligned."""
    if array.flags.c_contiguous and (1 not in array.shape or not array.size):  # axes of extent 1 may have any stride
        raw = np.zeros(array.nbytes + 16, np.uint8)
        start = (array.ctypes.data - raw.ctypes.data) % 16
        out = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    else:
        size = sum((e - 1) * s for e, s in zip(array.shape, array.strides, strict=True)) + array.itemsize
        raw = np.zeros(size + 16, np.uint8)
        start = (array.ctypes.data - raw.ctypes.data) % 16
        out = np.ndarray(array.shape, array.dtype, raw[start : start + size].data, 0, array.strides)
    out[...] = array
    return out


def _with_all_barriers(right: Pass) -> Passes:
    """A pass, followed by another pass that adds barriers.

    The second pass adds a barrier of the block before each memory access that all threads of the block reach.
    """

    def everywhere(function: Function, target: Target) -> None:
        _barriers(function.body)

    return right, Pass("barriers_everywhere", everywhere)


def _barriers(block: Block) -> None:
    ops: list[Op] = []
    for op in block.ops:
        if op.spec.access.touches:
            ops.append(Op(OPS["barrier"], [], [], {"scope": "block"}, (), op.loc))
        if parting(op) is None:
            for region in op.regions:
                _barriers(region)
        ops.append(op)
    block.ops = ops


def _apart(right: Pass) -> Passes:
    """A pass that places every shared tile in separate bytes, however many bytes this takes."""

    def apart(function: Function, target: Target) -> None:
        total, most = 0, 16
        for op in walk(function.body):
            if op.spec.allocates:
                type = op.attrs["type"]
                align = max(16, period(type.swizzle))
                op.attrs["offset"] = -(-total // align) * align
                total, most = op.attrs["offset"] + type.bytes, max(most, align)
        function.attrs |= {"shared_bytes": total, "shared_align": most}

    return (replace(right, run=apart),)


INSTEAD: dict[str, Callable[[Pass], Passes]] = {
    "insert_barriers": _with_all_barriers,
    "place_shared": _apart,
}
"""Replacements for passes that cannot be left out. The replacements are correct by construction and do not optimise."""


# ---- examples ----


class _Finished(Exception):
    """Raised to end an example early. Either no launch follows, or later lines would read results of a wrong kernel."""


def verify_example(
    program: Program,
    example: ast.Example,
    given: Sequence[str] = (),
    settings: LaunchSettings | None = None,
    most: int = BLOCKS,
    boundaries: Sequence[int] = BOUNDARIES,
) -> Verification:
    """Verifies every kernel that an example launches, and stops after the first divergence. Raises TileError.

    First, the example runs with `given`, a list of NAME=VALUE. Then it runs with the values `boundaries` for the
    integers that `given` does not set."""
    found = Verification(example.name)

    class Verifier(Launcher):
        """Verifies each kernel before it runs. The last kernel need not run."""

        def run(self, plan: Any, launch: ExampleLaunch, values: list[Any]) -> LaunchReport:
            arguments = dict(zip(launch.names, values, strict=True))
            found.kernels.append(verify_kernel(program, launch.step.request, arguments, most))
            is_last = launch.step is plan.steps[-1] and len(self.calls) == count
            if found.divergence is not None or is_last:
                raise _Finished
            return super().run(plan, launch, values)

    # Only lines that make arrays or launch kernels are run.
    only = replace(example, lines=[line for line in example.lines if isinstance(line, ast.Assign | ast.Launch)])
    count = sum(isinstance(line, ast.Launch) for line in only.lines)

    def run(values: Sequence[str]) -> dict[str, Any]:
        overrides = resolve(program, example, list(values))
        made = ExampleRun(program, only, "emulator", "verify", overrides, settings or LaunchSettings(), Verifier)
        with suppress(_Finished):
            made.run()
        return made.names

    names = run(given)
    numbers = {n for n in assigned_names(example) if isinstance(names.get(n), int) and not isinstance(names[n], bool)}
    free = sorted(numbers - {each.partition("=")[0] for each in given})
    # A shape that a file refuses is no error, since most kernels do not take a single element.
    for shape in boundary_shapes(free, boundaries):
        if found.divergence is not None:
            break
        try:
            run([*given, *shape])
        except (TileError, LaunchError, DeviceError) as error:
            found.refused.append(f"{' '.join(shape)}: {str(error).splitlines()[0]}")
    return found


def boundary_shapes(names: Sequence[str], extents: Sequence[int]) -> list[list[str]]:
    """For each extent, first sets all names to it together, then each name alone.

    >>> boundary_shapes(["m", "n"], [1])
    [['m=1', 'n=1'], ['m=1'], ['n=1']]
    """
    out = []
    for extent in extents:
        each = [f"{name}={extent}" for name in names]
        out += [each, *([one] for one in each if len(each) > 1)]
    return [shape for shape in out if shape]
