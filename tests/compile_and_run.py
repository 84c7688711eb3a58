"""Compiles the text of a kernel, each pass verified, and runs it on the strict emulator with numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from dsl.kernels.compile import settled
from dsl.kernels.variant import Request, Resolved, Variant, build_variant, resolve
from dsl.kernels.variants import kind_of
from dsl.lowering.building.verify import verify
from dsl.lowering.emit import emit
from dsl.lowering.emit.codegen import llvm_level_for, to_ptx
from dsl.lowering.hopper.boxes import BoxMap, maps_of
from dsl.lowering.ir.function import Op, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.passes import PASSES, Pass, run_passes
from dsl.runtime.dtypes import NAME_OF_NUMPY
from dsl.runtime.emulator import Memory, Result, TensorMapArgument, emulate
from dsl.runtime.emulator.memory import DevicePointer
from dsl.runtime.expressions import compile_expression
from dsl.runtime.tensor_map import TensorMap, own_axes
from dsl.text.program import Program, parse_program

NUMPY = {
    "i1": np.dtype(bool), "s8": np.dtype("i1"), "s16": np.dtype("i2"), "s32": np.dtype("i4"), "s64": np.dtype("i8"),
    "u8": np.dtype("u1"), "u16": np.dtype("u2"), "u32": np.dtype("u4"), "u64": np.dtype("u8"),
    "f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype("f4"), "f64": np.dtype("f8"),
}  # fmt: skip
ARRAYS = {**NUMPY, "e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2)}
"""All types that arrays have: those that are calculated with, and those that lie in memory alone."""
SMS = 132


@dataclass
class Kernel:
    """A compiled variant: PTX with what is needed to launch it."""

    variant: Variant
    ptx: str

    @property
    def ops(self) -> list[Op]:
        return list(walk(self.variant.function.body))

    def count(self, name: str, **attrs: Any) -> int:
        """How many operations of this name (and these attributes) the passes left."""
        return sum(op.name == name and all(op.attrs.get(k) == v for k, v in attrs.items()) for op in self.ops)


def dims_of(variant: Variant, args: Mapping[str, Any]) -> dict[str, int]:
    """Each named dim from the arrays; arrays that disagree are a mistake of the test."""
    out: dict[str, int] = {}
    for p in variant.function.params:
        if p.kind == "tensor" and args.get(p.name) is not None:
            for dim, extent in zip(p.dims, args[p.name].shape, strict=True):
                assert out.setdefault(str(dim), extent) == extent and (isinstance(dim, str) or dim == extent)
    return out


def through(name: str) -> tuple[Pass, ...]:
    """The passes up to the one of this name."""
    return PASSES[: [each.name for each in PASSES].index(name) + 1]


MADE: dict[tuple, Kernel] = {}
MOST_MADE = 64
"""Kernels that are kept: cases beside one another share them, and a worker does not grow."""


@lru_cache(maxsize=64)
def program_of(text: str) -> Program:
    return parse_program(text)


def passed(program: Program, asked: Request, passes: Sequence[Pass], resolved: Resolved | None = None) -> Variant:
    """A variant behind these passes, each verified."""
    variant = build_variant(program, asked, resolved=resolved)
    verify(variant.function)
    run_passes(variant.function, variant.target, passes, check=True)
    return variant


def compile_kernel(
    text: str,
    args: Mapping[str, Any] | None = None,
    kernel: str | None = None,
    schedule: str | None = None,
    passes: Sequence[Pass] = PASSES,
    **request: Any,
) -> Kernel:
    """The (only) kernel of `text`, for dims taken from `args`, through every pass with verification.

    `schedule` defaults to the kernel's only one; further keywords are those of `Request`. Requests of one code, as of
    other extents with the same divisors, get one kernel, as calls do: nobody changes it.
    """
    program = program_of(text)
    name = kernel or next(iter(program.kernels))
    if schedule is None:
        schedule = next(iter(program.schedules_of(name)), None)
    if args is not None and "dims" not in request:
        dims = {}
        for p in program.kernels[name].params:
            array = args.get(p.name)
            if isinstance(array, np.ndarray):
                named = getattr(p.type, "dims", ())
                dims |= {d.id: e for d, e in zip(named, array.shape, strict=False) if hasattr(d, "id")}
        request["dims"] = dims
    if args is not None:
        request.setdefault("absent", frozenset(k for k, v in args.items() if v is None))
    asked = Request(name, schedule, **request)
    resolved = resolve(program, asked)
    key = (text, tuple(passes), kind_of(resolved.family, resolved))
    found = MADE.get(key)
    if found is None:
        try:
            variant = passed(program, asked, passes, resolved)
        except TileError:  # where a pass refuses what the plan chose, `lower` builds the kernel again
            variant = passed(program, settled(program, asked), passes)
        llvm, version = emit(variant.function, variant.target)
        found = Kernel(variant, to_ptx(llvm, variant.target, version, llvm_level_for(variant.function)))
        MADE[key] = found
        if len(MADE) > MOST_MADE:
            del MADE[next(iter(MADE))]
    return found


def tensor_map(map: BoxMap, array: Any) -> TensorMap:
    """Of an array that a kernel copies boxes of."""
    own = own_axes(map.axes)
    extents = tuple(prod(array.shape[each] for each in own[axis]) for axis in map.axes)
    strides = tuple(array.strides[axis] for axis in map.axes[1:])
    type = NAME_OF_NUMPY[array.dtype.name] if map.reduces else ""
    return TensorMap(array.itemsize, extents, strides, map.box, map.swizzle, type=type)


def launch(
    kernel: Kernel, args: Mapping[str, Any], *, grid: Any = None, seed: int = 0, collect: bool = False
) -> Result:
    """Runs a compiled kernel; arrays in `args` are written in place. The first finding is raised unless `collect`.

    A strided tensor is a view that starts at the first element of its base. Missing tables and scalars fail by name.
    """
    variant, function = kernel.variant, kernel.variant.function
    dims = dims_of(variant, args)
    index = np.int64 if function.index_bits == 64 else np.int32
    values: list[Any] = []
    memory, maps = Memory(), maps_of(function.body)
    placed: dict[str, DevicePointer] = {}
    bases: dict[str, Any] = {}
    for p in (p for p in function.params if p.kind == "tensor" and p.value is not None):
        array = args[p.name]
        assert array.dtype == ARRAYS[p.dtype.name], (p.name, array.dtype)
        base = array if array.base is None or not p.strided else array.base
        if any(map.tensor == p.name for map in maps):
            bases[p.name] = base
            base = placed[p.name] = memory.allocate(base, p.name)
        values.append(base)
        values += [index(s // array.itemsize) for s in array.strides] if p.strided else []
    for p in (p for p in function.params if p.kind == "scalar" and p.value is not None):
        values.append(np.array(args[p.name], NUMPY[p.dtype.name])[()])
    for p in (p for p in function.params if p.kind == "table" and p.value is not None):
        values.append(np.asarray(args[p.name], NUMPY[p.dtype.name]).tobytes())
    values += [index(dims[name]) for name in function.dims]
    if grid is None:
        scalars = {p.name: args[p.name] for p in function.params if p.kind == "scalar"}
        names = {**variant.constants, **dims, **scalars, "sms": SMS}
        grid = tuple(compile_expression(e).evaluate(names) for e in variant.grid)
    counts = [each.each * int(np.prod(grid)) for each in function.workspaces]
    values += [np.zeros(n, NUMPY[w.dtype.name]) for n, w in zip(counts, function.workspaces, strict=True)]
    values += [TensorMapArgument(tensor_map(map, args[map.tensor]), placed[map.tensor]) for map in maps]
    if function.attrs.get("record"):
        values.append(args["record"] if "record" in args else np.zeros(8, np.uint32))
    result = emulate(
        kernel.ptx,
        function.name,
        grid,
        (function.launched, 1, 1),
        values,
        shared_bytes=function.attrs["shared_bytes"],
        seed=seed,
        on_finding="collect" if collect else "raise",
    )
    for name, pointer in placed.items():
        base = bases[name]
        base[...] = memory.read(pointer, base.dtype, base.size).reshape(base.shape)
    return result


def run(text: str, args: Mapping[str, Any], *, grid: Any = None, seed: int = 0, **request: Any) -> Result:
    """Compiles and launches in one step."""
    return launch(compile_kernel(text, args, **request), args, grid=grid, seed=seed)


def few_blocks(ptx: str, most: int = 4) -> str:
    """For a device of so few multiprocessors that a block has several tiles."""
    return ptx.replace('"sms"', str(most))
