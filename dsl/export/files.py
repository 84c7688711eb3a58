"""Writes the files of `dsl export`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dsl.calls.api import ModuleFunction
from dsl.calls.planner import Planner
from dsl.export.images import image_of
from dsl.export.model import FUNCTIONS, KEYWORDS, Compiles, ExportedFunction, Exporter
from dsl.export.text import CMAKE, header_text, program_text, source_text
from dsl.kernels.request import Request
from dsl.lowering.ir.location import TileError
from dsl.runtime.header import Header
from dsl.text.files import write_text
from dsl.text.program import Program

C_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


def function_of(
    program: Program,
    name: str,
    exported: str,
    targets: Sequence[str],
    planners: Iterable[tuple[Planner, int, int]],
    compiles: Compiles | None = None,
) -> ExportedFunction:
    """Plans and compiles the calls of a kernel or dispatch, whose name in C is `exported`. Each planner comes with the
    number of its target and the number of its call. `compiles` is as in `Exporter`. Raises TileError."""
    if not C_NAME.match(exported) or exported in KEYWORDS | FUNCTIONS or exported.startswith("dsl_"):
        raise TileError("option", None, f"'{exported}' cannot be the name of a new function in C", "--name NAME")
    exporter = Exporter(program, name, exported, targets, compiles)
    for planner, target, number in planners:
        exporter.add(planner, target, number)
    return exporter.function()


def function_of_call(
    function: ModuleFunction, facts: Mapping[str, Any], constants: Mapping[str, Any], exported: str
) -> ExportedFunction:
    """Plans and compiles a call of a module as a launch from Python does, for the target of the module. `facts` are
    the facts about its arguments, and `constants` its other named values. Raises TileError."""
    module, rest = function.module, dict(constants)
    schedule = rest.pop("schedule", None)
    planner = function.planner(facts, schedule, None if schedule is not None else module.tuned, **rest)

    def compiles(request: Request) -> tuple[Header, str]:
        kernel = module.variant(request)
        return kernel.header, kernel.ptx.partition("\n")[2]  # the header is one line

    return function_of(module.program, function.name, exported, (module.arch,), [(planner, 0, 0)], compiles)


def texts_of(function: ExportedFunction, has_cubin: bool) -> dict[str, str]:
    """Returns the texts of one function by the names of their files."""
    name = function.name
    images = [image_of(code, has_cubin) for code in function.codes]
    texts = {
        f"{name}.h": header_text(function),
        f"{name}.c": source_text(function, images),
        f"{name}_program.c": program_text(function),
    }
    for number, code in enumerate(function.codes):
        texts[f"{name}.{number}.{code.header.entry}.{function.targets[code.target]}.ptx"] = code.ptx
    return texts


def write_files(functions: Sequence[ExportedFunction], folder: Path, has_cubin: bool) -> Iterator[Path]:
    """Writes the files of functions to a folder, and yields their paths. All texts are made before the first file is
    written. Raises TileError."""
    texts: dict[str, str] = {}
    for function in functions:
        texts |= texts_of(function, has_cubin)
    texts["CMakeLists.txt"] = CMAKE
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TileError("file", None, f"cannot make the folder {folder}: {error.strerror}") from None
    for name, text in texts.items():
        write_text(folder / name, text)
        yield folder / name
