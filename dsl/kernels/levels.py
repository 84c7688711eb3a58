"""Prints a kernel at any level: syntax tree, IR, layouts, LLVM IR, PTX or machine code. Source lines can be added to
the text."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from dsl.kernels.compile import compile_lowered, compile_variant, lower
from dsl.kernels.plain_rows import split_place
from dsl.kernels.variant import Request
from dsl.lowering.ir.choices import Asked
from dsl.lowering.ir.function import Function, walk
from dsl.lowering.ir.location import Loc, Source, printable
from dsl.lowering.ir.types import SharedType, TileType
from dsl.lowering.text.printer import printed
from dsl.text.files import is_file, read_text
from dsl.text.program import LIBRARY, STD, Program

LEVELS = ("ast", "ir", "layout", "llvm", "ptx", "sass")


def level(
    program: Program, request: Request, name: str, annotate: bool = False, asked: Asked | None = None, **options: Any
) -> str:
    """Returns a kernel's text at the level `name`, one of `LEVELS`. With `annotate`, each source line is printed above
    the rows generated from it. The kernel's choices are recorded in `asked`. `options` are those of `lower`.

    Raises TileError. For sass, also raises LaunchError or DeviceError.
    """
    if name == "ast":
        return tree(program.kernels[request.kernel])
    if name in ("ir", "layout"):
        lowered = lower(program, request, **options)
        function = lowered.variant.function
        if asked is not None and asked.options:
            compile_lowered(program, lowered)  # emission also makes choices
            asked.note(function.choices)
        text = printed(lowered.level(program)) if name == "ir" else layouts(function)
    else:
        compiled = compile_variant(program, request, **options)
        if asked is not None:
            asked.note(compiled.variant.function.choices)
        text = compiled.generated.llvm_text if name == "llvm" else compiled.ptx
        if name == "sass":
            from dsl.runtime import assemble, sass

            header = compiled.header
            text = sass(assemble(text, header.arch, header.entry, header.maxnreg).cubin)
    return ANNOTATORS[name](text, Lines(program.source)) if annotate and name in ANNOTATORS else text


# ---- syntax trees -----------------------------------------------------------------------------------------


def tree(node: Any) -> str:
    """Formats a syntax tree as text: one line per node, with the number of its source line."""
    lines: list[str] = []
    _tree(node, "", 0, lines)
    return printable("\n".join(lines)) + "\n"


def _tree(node: Any, label: str, depth: int, lines: list[str]) -> None:
    indent = "  " * depth
    if isinstance(node, list | tuple):
        lines.append(f"{'':6}{indent}{label}{'' if node else '[]'}")
        for item in node:
            _tree(item, "", depth + 1, lines)
        return
    if isinstance(node, dict):
        lines.append(f"{'':6}{indent}{label}{'' if node else '{}'}")
        for key, item in node.items():
            _tree(item, f"{key} = ", depth + 1, lines)
        return
    if not isinstance(node, Struct) or isinstance(node, Source):
        lines.append(f"{'':6}{indent}{label}{node!r}")
        return
    values = list(asdict(node).items())
    plain = [f"{name}={value!r}" for name, value in values if isinstance(value, str | int | float | NoneType)]
    place = next((value for name, value in values if name == "loc" and value is not None), None)
    lines.append(f"{place.line if place else '':>5} {indent}{label}{type(node).__name__} {' '.join(plain)}".rstrip())
    for name, value in values:
        if name != "loc" and not isinstance(value, str | int | float | NoneType):
            _tree(value, f"{name}: ", depth + 1, lines)


# ---- layouts -----------------------------------------------------------------------------------------------


def named_values(function: Function) -> list[tuple[int, str, str, str]]:
    """Returns (line, name, type, layout) for each named tile of the kernel and its functions, in program order."""
    rows: dict[tuple[str, str, str], int] = {}
    for op in walk(function.body):
        for value in [*op.results, *(argument for region in op.regions for argument in region.args)]:
            if value.name is None or not isinstance(value.type, TileType | SharedType) or not value.shape:
                continue
            layout = value.type.layout if isinstance(value.type, TileType) else "shared memory"
            kind = f"{value.dtype}[{', '.join(map(str, value.shape))}]"
            rows.setdefault((value.name, kind, str(layout)), outermost_line(op.loc))
    return [(line, *row) for row, line in rows.items()]


def outermost_line(loc: Loc | None) -> int:
    """Returns the source line in the kernel itself. For inlined code, this is the line of the outermost call. Returns 0
    if `loc` is None."""
    while loc is not None and loc.caller is not None:
        loc = loc.caller
    return loc.line if loc else 0


def layouts(function: Function) -> str:
    """Formats a table of the named tiles with their layouts. A layout is printed as the coordinates of its basis
    vectors."""
    from dsl.text.terminal import plain, table

    return plain(table(["line", "name", "type", "layout"], named_values(function), left=4))


# ---- source lines beside the text -----------------------------------------------------------------------------


class Lines:
    """Formats source lines of the program's files as comments. A line that was just printed is not repeated."""

    def __init__(self, source: Source):
        self.source = source
        self.last: tuple[str, int] | None = None

    def comment(self, mark: str, file: str, line: int) -> list[str]:
        """Returns the comment for a source line, as a list. The list is empty if the previous call had the same
        line."""
        if line == 0 or self.last == (file, line):
            return []
        self.last = (file, line)
        return [printable(f"{mark} {file}:{line}: {self.text(file, line)}".rstrip())]

    def text(self, file: str, line: int) -> str:
        if file in (self.source.name, Path(self.source.name).name):
            lines = self.source.text.splitlines()
        else:
            lines = _read_lines(file)
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""


@cache
def _read_lines(file: str) -> list[str]:
    is_ours = file.startswith((f"{LIBRARY.name}/", f"{STD.name}/"))
    path = LIBRARY.parent / file if is_ours else Path(file)
    return read_text(path).splitlines() if is_file(path) else []


def annotate_ir(text: str, lines: Lines) -> str:
    files = dict(re.findall(r'^source (\d+) "(.*)"$', text, re.M))
    out = []
    for row in text.splitlines():
        _, place = split_place(row)
        if place and row.startswith(" "):
            *source, line, _ = place.partition("+")[0].split(":")
            comments = lines.comment("//", files.get("".join(source) or "0", "?"), int(line))
            out += [" " * (len(row) - len(row.lstrip())) + each for each in comments]
        out.append(row)
    return "\n".join(out) + "\n"


def annotate_llvm(text: str, lines: Lines) -> str:
    places = {m[1]: int(m[2]) for m in re.finditer(r"^(!\d+) = (?:distinct )?!DILocation\(line: (\d+)", text, re.M)}
    scopes = dict(re.findall(r"^(!\d+) = (?:distinct )?!DILocation\(.*scope: (!\d+)", text, re.M))
    owners = dict(re.findall(r"^(!\d+) = (?:distinct )?!DISubprogram\(.*file: (!\d+)", text, re.M))
    files = dict(re.findall(r'^(!\d+) = (?:distinct )?!DIFile\(filename: "([^"]*)"', text, re.M))
    out = []
    for row in text.splitlines():
        found = re.search(r"!dbg (!\d+)$", row)
        if found and found[1] in places and row.startswith(" "):
            file = files.get(owners.get(scopes.get(found[1], ""), ""), lines.source.name)
            out += ["  " + c for c in lines.comment(";", file, places[found[1]])]
        out.append(row)
    return "\n".join(out) + "\n"


def annotate_ptx(text: str, lines: Lines) -> str:
    files = dict(re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', text, re.M))
    out = []
    for row in text.splitlines():
        found = re.match(r"\s*\.loc\s+(\d+)\s+(\d+)", row)
        if found:
            out += ["\t" + c for c in lines.comment("//", files.get(found[1], "?"), int(found[2]))]
        out.append(row)
    return "\n".join(out) + "\n"


def annotate_sass(text: str, lines: Lines) -> str:
    out = []
    for row in text.splitlines():
        out.append(row)
        found = re.match(r'\s*//## File "([^"]*)", line (\d+)', row)
        if found:
            out += ["\t" + c for c in lines.comment("//", found[1], int(found[2]))]
    return "\n".join(out) + "\n"


ANNOTATORS = {"ir": annotate_ir, "llvm": annotate_llvm, "ptx": annotate_ptx, "sass": annotate_sass}
"""The function that adds source lines, by level."""
