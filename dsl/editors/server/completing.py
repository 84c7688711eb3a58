"""What may stand at a place: words of the language, names in scope, schedules, members, files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from dsl.editors.server.describing import Explained, head_of
from dsl.editors.server.scan import ScannedBlock
from dsl.editors.server.symbols import CALLABLE, Symbols
from dsl.editors.words import words
from dsl.text.program import packaged_files

FUNCTION, VARIABLE, CONSTANT, KEYWORD, PROPERTY, TYPE, FILE, MODULE = (
    *("function", "variable", "constant", "keyword", "property", "type"),
    *("file", "module"),
)
STATEMENTS = {
    "kernel": ("grid", "assert", "shared", "if", "for", "while", "def", "elif", "else"),
    "def": ("return", "if", "for", "while", "elif", "else", "assert"),
    "dispatch": ("option", "require", "if", "elif", "else"),
    "example": ("expect", "moves", "computes"),
}
"""Words that begin lines of blocks."""


class Proposal(Struct, frozen=True):
    """A text that may be written at the place."""

    label: str
    kind: str
    detail: str = ""


def proposals(symbols: Symbols, offset: int, known: Explained, path: Path | None) -> list[Proposal]:
    line = symbols.text[symbols.text.rfind("\n", 0, offset) + 1 : offset]
    if "#" in re.sub(r'"[^"]*"', "", line):
        return []
    if re.match(r'\s*import\s+"[^"]*$', line):
        return [*_files(path)]
    if line.count('"') % 2:
        return []
    before = re.sub(r"\w*$", "", line)
    if before.endswith(".") and not re.search(r"\d\.$", before):
        return [*_members(symbols, before, known)]
    block = _block_of(symbols, offset, line)
    if block is None:
        return [Proposal(word, KEYWORD) for word in sorted(words().callable_heads | words().other_heads | {"import"})]
    found = dict[str, Proposal]()
    for each in _in_block(symbols, block, before, known):
        found.setdefault(each.label, each)
    return [*found.values()]


def _block_of(symbols: Symbols, offset: int, line: str) -> ScannedBlock | None:
    """Returns the block in which a line is. A line without indentation begins one, unless it is a head."""
    block = symbols.block_at(offset)
    if block is None or (not line[:1].isspace() and not re.match(r"\w+\s", line)):
        return None
    return block


def _in_block(symbols: Symbols, block: ScannedBlock, before: str, known: Explained) -> Iterator[Proposal]:
    if re.search(r"\bwith\s+(?:[^#]*,\s*)?$", before) or re.match(r"\s+like\s", before):
        yield from _schedules(symbols)
        yield from (Proposal(name, CONSTANT) for name in _constants(symbols))
        return
    is_start = not before.strip()
    if block.kind == "schedule" and is_start:
        for name in sorted(words().directives):
            yield Proposal(name, PROPERTY, known.get(name, {}).get("property", ""))
    if is_start:
        yield from (Proposal(word, KEYWORD) for word in STATEMENTS.get(block.kind, ()))
    yield from _locals(symbols, block)
    for each in symbols.blocks:
        if each.kind in CALLABLE:
            yield Proposal(each.name, FUNCTION, " ".join(head_of(symbols.text, each.start).split()))
    if symbols.program is not None:
        groups = symbols.program.functions, symbols.program.kernels, symbols.program.dispatches
        yield from (Proposal(name, FUNCTION, "imported") for group in groups for name in group)
    yield from (_function(name, known) for name in sorted(words().functions | words().dotted))
    yield from (Proposal(name, TYPE) for name in sorted(words().types))
    yield from (Proposal(name, CONSTANT) for name in sorted(words().values))
    yield from (Proposal(name, KEYWORD) for name in sorted(words().operators))


def _function(name: str, known: Explained) -> Proposal:
    return Proposal(name, FUNCTION, known.get(name, {}).get("operation", ""))


def _locals(symbols: Symbols, block: ScannedBlock) -> Iterator[Proposal]:
    """The names that the block binds, and those of kernels that it can read."""
    for name in sorted(block.bound):
        yield Proposal(name, CONSTANT if name.isupper() else VARIABLE)
    for kernel in symbols.kernels_of(block):
        names = kernel.bound if block.kind == "schedule" else kernel.facts
        for name in sorted(names):
            yield Proposal(name, CONSTANT if name.isupper() else VARIABLE, f"of {kernel.name}")


def _schedules(symbols: Symbols) -> Iterator[Proposal]:
    for block in symbols.blocks:
        if block.kind == "schedule":
            yield Proposal(block.name, PROPERTY, head_of(symbols.text, block.start))
    program = symbols.program
    if program is not None:
        yield from (Proposal(name, PROPERTY, "schedule") for _, name in program.schedules)
        yield from (Proposal(name, PROPERTY, "imported") for name in program.parts)


def _constants(symbols: Symbols) -> list[str]:
    return sorted(
        {name for block in symbols.blocks if block.kind == "kernel" for name in block.facts if name.isupper()}
    )


def _members(symbols: Symbols, before: str, known: Explained) -> Iterator[Proposal]:
    base = re.search(r"([\w.]*)\.$", before)
    dotted = f"{base[1]}." if base is not None and base[1] else "?"
    for name in sorted(words().dotted):
        if name.startswith(dotted):
            yield Proposal(name.removeprefix(dotted), FUNCTION, known.get(name, {}).get("operation", ""))
    program = symbols.program
    modules = [] if program is None else [*program.functions, *program.parts]
    members = [name.removeprefix(dotted) for name in modules if name.startswith(dotted)]
    yield from (Proposal(name, MODULE) for name in members)
    if not members:
        for name in sorted(words().methods):
            yield Proposal(name, FUNCTION, known.get(f".{name}", {}).get("operation", ""))


def _files(path: Path | None) -> Iterator[Proposal]:
    yield from (Proposal(name, FILE) for name in packaged_files())
    if path is not None:
        yield from (Proposal(each.name, FILE) for each in sorted(path.parent.glob("*.tile")) if each.name != path.name)
