"""Splits the levels of a kernel into rows. Each row is linked to its origin: a place in the `.tile` text, or an
operation of the IR."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from msgspec import Struct, field

from dsl.kernels.plain_rows import DEBUG, LOC, METADATA, NODE, WITHOUT_CODE, ir_rows, split_place, without_metadata
from dsl.lowering.ir.function import Function, walk
from dsl.lowering.ir.location import Loc, Source
from dsl.lowering.text.level import Level
from dsl.lowering.text.printer import PrintedNames, printed

NO_INSTRUCTION = re.compile(r"^\s*(?:[.(){}$]?$|[.)}$]|//)")
"""Matches rows of PTX that are not instructions: labels, directives, braces, comments."""


class Places(Struct):
    """Numbers the places in the `.tile` text. A place is [file, line, column, length, caller], where `caller` is the
    number of the place of the inlined call, or -1.

    `file` is the number of a source text. If another variant reads the same text again, its number stays the same.
    """

    sources: dict[tuple[str, str], int] = field(default_factory=dict)
    rows: list[list[int]] = field(default_factory=list)
    known: dict[tuple[int, ...], int] = field(default_factory=dict)

    def source(self, source: Source) -> int:
        return self.sources.setdefault((source.name, source.text), len(self.sources))

    def add(self, file: int, line: int, column: int, length: int, caller: int) -> int:
        key = (file, line, column, length, caller)
        if key not in self.known:
            self.known[key] = len(self.rows)
            self.rows.append(list(key))
        return self.known[key]

    def of(self, loc: Loc) -> int:
        caller = -1 if loc.caller is None else self.of(loc.caller)
        return self.add(self.source(loc.source), loc.line, loc.column, loc.end - loc.start, caller)

    def read(self, text: str, files: Sequence[int]) -> int:
        """Returns the number of a place that the IR's text contains in the form `1:6:3+8<4:9+4`."""
        # From the outermost call inwards, since each place names its caller's number.
        found = -1
        for part in reversed(text.split("<")):
            position, _, length = part.partition("+")
            *source, line, column = map(int, position.split(":"))
            found = self.add(files[source[0] if source else 0], line, column, int(length), found)
        return found

    def chain(self, place: int) -> Iterator[tuple[int, int]]:
        """Yields the file and line of a place, then those of the inlined calls around it, innermost first."""
        while place >= 0:
            file, line, _, _, caller = self.rows[place]
            yield file, line
            place = caller


Row = tuple[str, int]
"""A row of the IR: its text, and the number of its source place or -1."""


class IrRows:
    """The rows of the IR at the start and after each pass. Values keep their names from level to level.

    `levels` has the changes of each level from the level before. A change has the first changed row, the number of
    removed rows, and the texts and places of the new rows.
    """

    def __init__(self, places: Places) -> None:
        self.places = places
        self.names = PrintedNames()
        self.rows: list[Row] = []
        self.levels: list[dict[str, Any]] = []

    def add(self, name: str, seconds: float, level: Level) -> None:
        text = printed(level, self.names)
        files = [self.places.source(source) for source in self.names.sources]  # in the order of their numbers
        rows = [self.row(line, files) for line in ir_rows(text)]
        # Only changes are stored, since consecutive levels share most of their rows.
        matcher = SequenceMatcher(None, self.rows, rows, autojunk=False)
        changed = [(i, j - i, rows[m:n]) for tag, i, j, m, n in matcher.get_opcodes() if tag != "equal"]
        changes = [[at, gone, [text for text, _ in new], [place for _, place in new]] for at, gone, new in changed]
        self.levels.append({"name": name, "ms": round(seconds * 1e3, 1), "changes": changes})
        self.rows = rows

    def row(self, line: str, files: Sequence[int]) -> Row:
        text, place = split_place(line)
        return text, self.places.read(place, files) if place else -1

    def operations(self) -> list[int]:
        """The row of each operation of the last level, in the order of `walk`."""
        texts = [text for text, _ in self.rows]
        first = texts.index("body {") + 1
        # Rows that close a region are not operations.
        return [i for i, text in enumerate(texts[first:-1], first) if not text.lstrip().startswith("}")]


def operation_places(function: Function, places: Places) -> list[int]:
    """The source place of each operation, then the source place of the kernel's signature.

    An operation without a source place gets the place of the previous operation.
    """
    assert function.loc is not None
    head = places.of(function.loc)
    found, last = [], head
    for op in walk(function.body):
        last = last if op.loc is None else places.of(op.loc)
        found.append(last)
    return [*found, head]


def llvm_rows(text: str, numbered: str) -> list[Row]:
    """The rows of LLVM IR without debug information. Each row is a pair: the text, and the number of its IR operation
    or -1.

    `numbered` is the same LLVM IR, but its debug information contains operation numbers in place of line numbers.
    """
    code, _, metadata = numbered.partition(METADATA)
    nodes = {found[1]: int(found[2]) - 1 for found in NODE.finditer(metadata)}
    out = []
    for row, other in zip(text.partition(METADATA)[0].splitlines(), code.splitlines(), strict=True):
        found, plain = DEBUG.search(other), without_metadata(row)
        assert plain == without_metadata(other), "other lines make other code"
        is_code = found is not None and not row.startswith("define")
        out.append((plain, nodes.get(found[1], -1) if found and is_code else -1))
    return out


def ptx_operations(text: str, numbered: str, head: int) -> list[int]:
    """Returns, for each row of PTX, the number of its IR operation. Rows before the code get -1.

    `numbered` is the same PTX with operation numbers in place of line numbers. Code without a line gets the number
    `head`; LLVM has merged it from several operations.
    """
    operations, now = [], -1
    for row in numbered.splitlines():
        if found := LOC.match(row):
            now = int(found["line"]) - 1 if int(found["line"]) else head
        elif not WITHOUT_CODE.match(row):
            operations.append((row, now))
    left = iter(operations)
    out = []
    for row in text.splitlines():
        other, number = (row, -1) if WITHOUT_CODE.match(row) else next(left, ("", -1))
        assert other == row, "other lines make other code"
        out.append(number)
    assert next(left, None) is None, "other lines make other code"
    return out


def is_instruction(row: str) -> bool:
    """Whether a row of PTX is an instruction."""
    return NO_INSTRUCTION.match(row) is None
