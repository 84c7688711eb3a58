"""Removes debug information, bookkeeping and comments from tile IR, LLVM IR or PTX, so that two texts can be
compared."""

from __future__ import annotations

import re
from collections.abc import Iterator

BOOKKEEPING = ("passes [", "holds [")
"""Prefixes of rows that every pass changes in the IR's text."""
PLACE = re.compile(r" @([\d:+<]+)(?=$| \{$| \{ \(.*\)$)")
"""The place of an operation, at the end of a row or before the region that the row opens."""
DEBUG = re.compile(r",? !dbg !(\d+)")
LOOP = re.compile(r", !llvm\.loop !\d+")
METADATA = "!llvm.dbg.cu"
NODE = re.compile(r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+),.*?scope: !(\d+)(?:, inlinedAt: !(\d+))?", re.M)
"""A node of debug information: its number, line and scope, and the node number of the call that was inlined."""
OWNER = re.compile(r"^!(\d+) = (?:distinct )?!DISubprogram\(.*file: !(\d+)", re.M)
LOC = re.compile(r"^\s*\.loc\s+(?P<file>\d+)\s+(?P<line>\d+)(?:.*inlined_at (?P<caller>\d+) (?P<at>\d+))?")
WITHOUT_CODE = re.compile(r"^\s*(?:$|\.loc\s|\.file\s|\$L__(?:tmp|func_))")
"""Rows of PTX without code. These rows differ even if only source lines have moved."""


def ir_rows(text: str) -> list[str]:
    """Returns the rows of an IR's text, without the quoted sources and without rows that every pass changes."""
    return [row for row in text.partition("\nsource 0 ")[0].splitlines() if not row.startswith(BOOKKEEPING)]


def split_place(row: str) -> tuple[str, str]:
    """Splits a row of the IR into the row without its source location, and the location. The location is empty, or a
    text such as `1:6:3+8<4:9+4` with the innermost call first."""
    found = PLACE.search(row)
    return (row, "") if found is None else (row[: found.start()] + row[found.end() :], found[1])


def without_metadata(row: str) -> str:
    """Removes references to debug information from a row of LLVM IR."""
    return LOOP.sub("", DEBUG.sub("", row))


def llvm_lines(text: str) -> dict[str, int]:
    """Maps the number of each `!dbg` node in LLVM IR to a source line in the kernel's own file. Code inlined from
    another file gets the line of the call."""
    nodes = {found[1]: (int(found[2]), found[3], found[4]) for found in NODE.finditer(text)}
    files = dict(OWNER.findall(text))
    head = DEBUG.search(text)  # the first one belongs to the kernel itself
    own = None if head is None else files.get(head[1])

    def line_of(number: str) -> int:
        line, scope, caller = nodes[number]
        return line if caller not in nodes or files.get(scope, own) == own else line_of(caller)

    return {number: line_of(number) for number in nodes}


def ptx_lines(text: str) -> Iterator[tuple[str, int | None]]:
    """Yields each row of PTX with its source line in the kernel's own file. Code inlined from another file has the line
    of the call. The line is None before the first `.loc`."""
    line: int | None = None
    own: str | None = None
    for row in text.splitlines():
        if found := LOC.match(row):
            own = own or found["file"]
            is_inlined = found["file"] != own and found["at"]
            line = int(found["at"] if is_inlined else found["line"]) or line
        yield row, line
