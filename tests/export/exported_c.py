"""Exports functions, builds them with the system's C compiler against a driver that launches nothing (`stub/`), and
compares what the driver is asked for with what a launch from Python passes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from msgspec import Struct

from dsl.calls.plan import FromCall, Step, Workspace
from dsl.command.export import ExportRequest, function_of_example
from dsl.export.files import texts_of
from dsl.export.launches import element_count
from dsl.export.model import ExportedCall, ExportedFunction
from dsl.runtime.arguments import MappedValues, ParamLayout
from dsl.runtime.arrays import Array
from dsl.runtime.checks import Checker
from dsl.runtime.cuda import driver, tensor_maps
from dsl.runtime.dtypes import DTYPES
from dsl.runtime.header import HeaderTensor
from dsl.text.program import Program
from dsl.values.facts import ArrayFacts

STUB = Path(__file__).parent / "stub"
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O2")
needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")


class StubLaunch(Struct):
    """What the driver was asked for by a launch. `arguments` are the bytes of each one."""

    entry: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    cluster: int
    overlaps: bool
    arguments: list[bytes]


class StubLog(Struct):
    """All that the driver was asked for. `maps` are the arguments of each encoding of a tensor map."""

    launches: list[StubLaunch] = []
    allocated: list[tuple[int, int]] = []
    maps: list[str] = []
    others: list[str] = []


def asked(
    values: Sequence[str] = (), calls: Sequence[str] = (), targets: Sequence[str] = ("sm_90a",), **options: Any
) -> ExportRequest:
    return ExportRequest(values, calls, targets, **options)


def exported(
    program: Program, name: str, what: ExportRequest, folder: Path, has_cubin: bool = False
) -> ExportedFunction:
    """Exports a function to a folder."""
    function = function_of_example(program, name, what)
    for file, text in texts_of(function, has_cubin).items():
        (folder / file).write_text(text)
    return function


def real_headers() -> Path | None:
    """The folder with NVIDIA's cuda.h, if it is installed."""
    found = find_spec("nvidia")
    for folder in (found.submodule_search_locations or ()) if found else ():
        if (include := Path(folder) / "cu13" / "include" / "cuda.h").is_file():
            return include.parent
    return None


def build(folder: Path, name: str, program: str | None = None) -> Path:
    """Builds a program with the exported function and the stub: the exported program, or the C text `program`. With
    NVIDIA's header, the files are compiled but not linked."""
    main = folder / f"{name}_program.c"
    if program is not None:
        main = folder / "own.c"
        main.write_text(program)
    sources = [str(folder / f"{name}.c"), str(main)]
    if (real := real_headers()) is not None:
        compiled(["-fsyntax-only", "-isystem", str(real), *sources])
    binary = folder / main.stem
    compiled(["-I", str(STUB), "-I", str(folder), *sources, str(STUB / "driver.c"), "-o", str(binary), "-lm"])
    return binary


def compiled(arguments: Sequence[str]) -> None:
    done = subprocess.run(["gcc", *FLAGS, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]


def sizes_of(function: ExportedFunction) -> str:
    """The bytes of each kernel's arguments, as the stub reads them."""
    rows = []
    for code in function.codes:
        header = code.header
        rows.append(f"{header.entry}:{','.join(str(header.argument_bytes(each)) for each in header.arguments)}")
    return ";".join(rows)


def run(binary: Path, *words: str, sizes: str = "", status: int = 0, **settings: str) -> tuple[StubLog, str]:
    """Runs a program, which ends with `status`. Returns what it asked the driver for, and what it printed."""
    log = binary.parent / "log"
    log.write_text("")
    # The process has no Python: only the program, libc, libm.
    environment = {"STUB_LOG": str(log), "STUB_SIZES": sizes, **settings}
    done = subprocess.run([str(binary), *words], capture_output=True, text=True, env=environment)
    assert done.returncode == status, done.stdout + done.stderr
    return parsed(log.read_text()), done.stdout + done.stderr


def parsed(text: str) -> StubLog:
    log = StubLog([], [], [], [])
    for line in text.splitlines():
        what, *words = line.split(" ")
        if what == "launch":
            entry, *numbers = words[:11]
            x, y, z, a, b, c, shared, _, cluster, overlaps = map(int, numbers)
            arguments = [bytes.fromhex(each) for each in words[11:]]
            log.launches.append(StubLaunch(entry, (x, y, z), (a, b, c), shared, cluster, bool(overlaps), arguments))
        elif what == "alloc":
            log.allocated.append((int(words[0]), int(words[1])))
        elif what == "map":
            log.maps.append(" ".join(words))
        else:
            log.others.append(line)
    return log


def write_inputs(function: ExportedFunction, call: ExportedCall, folder: Path) -> None:
    """Writes the files that the exported program reads."""
    for array in function.arrays.values():
        facts = call.arguments[array.name]
        if isinstance(facts, ArrayFacts):
            size = max(1, element_count(facts) * DTYPES[array.dtype].bytes)
            np.random.default_rng(0).integers(0, 256, size, np.uint8).tofile(folder / f"{array.name}.bin")


class MapRecorder:
    """The driver for Python. It encodes a map as the stub does, and keeps what it is asked for."""

    cuuint32_t = cuuint64_t = int

    def __init__(self) -> None:
        from cuda.bindings import driver as real

        self.real, self.maps = real, list[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def cuDriverGetVersion(self) -> tuple[Any, int]:
        return self.real.CUresult.CUDA_SUCCESS, 13000

    def cuTensorMapEncodeTiled(self, *arguments: Any) -> tuple[Any, Any]:
        self.maps.append(" ".join(map(plain, arguments)))
        return self.real.CUresult.CUDA_SUCCESS, SimpleNamespace(opaque=[arguments[2], 0xFFFFFFFF, *(0,) * 14])

    cuTensorMapEncodeIm2col = cuTensorMapEncodeTiled


def plain(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(int(value))


def python_launch(
    step: Step, ptx: str, pointers: Mapping[Any, int], call: ExportedCall, maps: MapRecorder
) -> tuple[tuple[int, ...], list[bytes | None]]:
    """Returns the grid and the bytes of the arguments of a launch from Python. Addresses that the launcher allocates
    are None. `pointers` are the addresses of the call's arrays and of workspaces."""
    from dsl.runtime.launch import Kernel

    kernel = Kernel(ptx)
    header = kernel.header
    arrays, values = dict[str, Array](), list[Any]()
    given = dict(zip(step.names, step.arguments, strict=True))
    for tensor in header.tensors:
        argument = given[tensor.name]
        key = argument.name if isinstance(argument, FromCall) else id(argument)
        facts = argument.facts if isinstance(argument, Workspace) else call.arguments[argument.name]
        what = (facts.shape, tuple(facts.steps), facts.dtype, 0)
        arrays[tensor.name] = Array("test", pointers[key], *what)
        values.append(pointers[key])
    numbers = {
        param.name: call.arguments[argument.name] if isinstance(argument := given[param.name], FromCall) else argument
        for param in header.params
        if not isinstance(param, HeaderTensor)
    }
    scalars = {name: value for name, value in numbers.items() if not isinstance(value, tuple | list)}
    found = Checker(header).check(arrays, scalars, 132 if header.cluster == 1 else 30 * header.cluster)
    layout = ParamLayout(header)
    for position, convert in layout.converters:
        values += convert(numbers[header.params[position].name])
    buffer = bytearray(layout.template(arrays, found.dims, 0, dict.fromkeys(found.workspaces, 0)))
    context: Any = SimpleNamespace(ordinal=0, current=nullcontext, call=lambda f, *given: f(*given)[1])
    with patch.object(driver, "bindings", lambda: maps), patch.dict(tensor_maps._objects, clear=True):
        encode = partial(fresh, context)
        pack = MappedValues(layout, found.maps, encode).pack_into if layout.maps and found.maps else layout.pack_into
        pack(buffer, 0, *values)
    own = ("workspace", "record")
    parts = zip(header.arguments, layout.split(buffer), strict=True)
    return found.grid, [None if argument.kind in own else data for argument, data in parts]


def fresh(context: Any, tensor_map: Any, pointer: int) -> bytes:
    """Encodes a map, and not from that of another address."""
    tensor_maps._objects.clear()
    return tensor_maps.encode(context, tensor_map, pointer)


def pointers_of(function: ExportedFunction, call: ExportedCall, log: StubLog) -> dict[Any, int]:
    """The addresses of the call's arrays: the program allocates them in their order, after the records of asserts."""
    records = sum(code.record and code.target == call.target for code in function.codes)
    allocated = iter(log.allocated[records:])
    present = [name for name in function.arrays if isinstance(call.arguments[name], ArrayFacts)]
    return {name: next(allocated)[0] for name in present}


def compare(function: ExportedFunction, call: ExportedCall, log: StubLog) -> Iterator[str]:
    """Compares all launches of a call with those of Python, and yields a line for each."""
    pointers, maps = pointers_of(function, call, log), MapRecorder()
    assert len(log.launches) == len(call.steps)
    memory = [(at, at + size) for at, size in log.allocated]
    for step, number, launch in zip(call.steps, call.codes, log.launches, strict=True):
        code = function.codes[number]
        header = code.header
        for place, argument in enumerate(header.arguments):  # workspaces of the dispatch have the exported address
            given = dict(zip(step.names, step.arguments, strict=True)).get(argument.of)
            if argument.kind == "pointer" and isinstance(given, Workspace):
                address = int.from_bytes(launch.arguments[place], "little")
                assert pointers.setdefault(id(given), address) == address
                assert address % 256 == 0 and any(low <= address < high for low, high in memory)
        grid, wanted = python_launch(step, code.ptx, pointers, call, maps)
        assert (launch.entry, launch.grid, launch.block) == (header.entry, grid, (header.threads, 1, 1))
        assert (launch.shared, launch.cluster) == (header.shared_bytes, header.cluster)
        assert launch.overlaps == (header.overlaps and step is not call.steps[0])
        assert len(launch.arguments) == len(wanted) > 0
        for data, own, argument in zip(launch.arguments, wanted, header.arguments, strict=True):
            if own is not None:
                assert data == own, argument
            else:
                address = int.from_bytes(data, "little")
                assert any(low <= address < high for low, high in memory), argument
        yield header.label
    assert sorted(log.maps) == sorted(maps.maps)
