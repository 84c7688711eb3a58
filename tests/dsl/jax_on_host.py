"""Foreign calls of JAX on XLA's CPU. The library of a call contains a driver that launches nothing
(`tests/export/stub`), whose hook runs each launch on the emulator, with the bytes that the driver got."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from msgspec.structs import replace

from dsl.calls.plan import FromCall, Workspace
from dsl.export.model import ExportedFunction
from dsl.jax import foreign
from dsl.jax.library import ForeignPlatform
from dsl.operators.spec import OperatorSpec
from dsl.runtime.dtypes import DTYPES, numpy_dtype
from dsl.runtime.header import HeaderTensor
from dsl.runtime.launch import Kernel

STUB = Path(__file__).parents[1] / "export" / "stub"
HOOK = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p))
HOST = ForeignPlatform(
    "cpu", "cpu", lambda device: True, False, (str(STUB),), (str(STUB / "driver.c"),), nullcontext, lambda: None
)
NUMBER = "//function "
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def real_headers() -> Path | None:
    """The folder with NVIDIA's cuda.h, if it is installed."""
    found = find_spec("nvidia")
    folders = (found.submodule_search_locations or ()) if found else ()
    known = (Path(folder) / "cu13" / "include" for folder in folders)
    return next((folder for folder in known if (folder / "cuda.h").is_file()), None)


_functions: list[ExportedFunction] = []
"""What was exported in this process. Libraries outlive a test."""


class EmulatedLaunches:
    """Runs the launches of exported functions. `entries` are the kernels that were launched, and `numbers` their
    numbers by name."""

    def __init__(self) -> None:
        self.functions = _functions
        self.entries: list[str] = []
        self.numbers: list[dict[str, Any]] = []
        self.failures: list[Exception] = []
        self.hook = HOOK(self.launched)

    def exported(self, spec: OperatorSpec, facts: Any) -> ExportedFunction:
        """Exports a function, and says in its PTX which one it is."""
        made = exported(spec, facts)
        number = f"{NUMBER}{len(self.functions)} "
        codes = [replace(code, ptx=f"{code.ptx}\n{number}{place}\n") for place, code in enumerate(made.codes)]
        self.functions.append(replace(made, codes=codes))
        return self.functions[-1]

    def launched(self, ptx: bytes, entry: bytes, arguments: Any) -> None:
        try:
            of, place = ptx.decode().rpartition(NUMBER)[2].split()
            self.run(self.functions[int(of)], int(place), arguments)
        except Exception as error:  # ctypes would only print it
            self.failures.append(error)

    def run(self, function: ExportedFunction, place: int, arguments: Any) -> None:
        (call,), code = function.calls, function.codes[place]
        step = call.steps[[*call.codes].index(place)]
        header = code.header
        raw = {
            (each.kind, each.of): ctypes.string_at(arguments[i], header.argument_bytes(each))
            for i, each in enumerate(header.arguments)
        }
        values, numbers = list[Any](), dict[str, Any]()
        for param, argument in zip(header.params, step.arguments, strict=True):
            if isinstance(param, HeaderTensor):
                facts = argument.facts if isinstance(argument, Workspace) else None
                if isinstance(argument, FromCall):
                    facts = call.arguments[argument.name]
                address = raw.get(("pointer", param.name)) or raw.get(("map", param.name), bytes(8))
                values.append(None if facts is None else array_at(int.from_bytes(address[:8], "little"), facts))
            else:
                values.append(read_number(param, raw))
                numbers[param.name] = values[-1]
        self.entries.append(header.entry)
        self.numbers.append(numbers)
        Kernel(code.ptx, device="emulator")(*values)


def array_at(address: int, facts: Any) -> Any:
    if not address:
        return np.zeros(facts.shape, numpy_dtype(facts.dtype))
    dtype = numpy_dtype(facts.dtype)
    size = sum((extent - 1) * step for extent, step in zip(facts.shape, facts.steps, strict=True)) + 1
    size = 0 if 0 in facts.shape else size
    flat = np.frombuffer((ctypes.c_uint8 * (size * dtype.itemsize)).from_address(address), dtype)
    return np.lib.stride_tricks.as_strided(flat, facts.shape, [step * dtype.itemsize for step in facts.steps])


def read_number(param: Any, raw: Any) -> Any:
    length = getattr(param, "length", None)
    data = raw.get(("scalar" if length is None else "table", param.name))
    code = DTYPES[param.dtype].code
    found = [*struct.unpack(f"<{length or 1}{code}", data or bytes((length or 1) * DTYPES[param.dtype].bytes))]
    if param.dtype == "bf16":
        found = [struct.unpack("<f", struct.pack("<I", bits << 16))[0] for bits in found]
    return found[0] if length is None else found


exported = foreign.exported


@contextmanager
def on_host(folder: Path) -> Iterator[EmulatedLaunches]:
    """Makes XLA's CPU the platform of foreign calls, and runs their launches on the emulator."""
    made = EmulatedLaunches()
    settings = {"STUB_LOG": str(folder / "log"), "STUB_HOOK": str(ctypes.cast(made.hook, ctypes.c_void_p).value)}
    with (
        patch.object(foreign, "platform", lambda: HOST),
        patch.object(foreign, "exported", made.exported),
        patch.dict(os.environ, settings),
    ):
        yield made
    assert not made.failures, made.failures
