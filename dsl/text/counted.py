"""Selects the source lines and counters that the terminal and HTML pages show side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from dsl.lowering.ir.location import TileError
from dsl.text.figures import units
from dsl.text.files import MAX_TEXT, read_text

COUNTED = (
    *("instructions", "moves", "active_lanes", "global_load_sectors", "global_store_sectors", "global_atomic_sectors"),
    *("atomic_waits", "wavefronts", "conflicts", "barriers"),
)
"""The columns of counters beside source lines."""
BEFORE = 3
"""The number of lines that are shown above the first line with counters."""


class CountedLine(Struct, frozen=True):
    """A source line with its counters. `counts` is empty if nothing was counted for the line. If `number` is 0, the
    line is a heading for the lines that follow: its text is the name of their file."""

    number: int
    text: str
    counts: Mapping[str, float]


def counted_lines(
    files: Mapping[str, Mapping[int, Any]], whole: str | None, read: Callable[[str], Sequence[str]] | None = None
) -> tuple[list[str], list[CountedLine]]:
    """Returns the names of the counters that are nonzero in some line, and the lines to show. These are all lines with
    counters. For the file `whole`, the lines between them are also included. `read` returns the lines of a file. By
    default, the file is read from the disk."""
    rows = {file: {at: each.figures for at, each in by_line.items()} for file, by_line in files.items()}
    # A column whose entries are all zero carries no information.
    used = [name for name in COUNTED if any(row[name] for by_line in rows.values() for row in by_line.values())]
    return used, [*_lines(rows, whole, read or source_lines)]


def _lines(
    files: Mapping[str, Mapping[int, Mapping[str, float]]], whole: str | None, read: Callable[[str], Sequence[str]]
) -> Iterator[CountedLine]:
    for file, by_line in files.items():
        source = read(file)
        if file != whole:
            yield CountedLine(0, file, {})
        # The lines of the kernels' file are shown without gaps. For the library and imported files, only lines with
        # counters are shown, since whole files would hide the kernel.
        first, last = min(by_line, default=1), max(by_line, default=0)
        shown = range(max(1, first - BEFORE), min(last + 1, len(source)) + 1) if file == whole else sorted(by_line)
        for at in shown:
            yield CountedLine(at, source[at - 1] if at <= len(source) else "", by_line.get(at, {}))


def legend(used: Sequence[str]) -> str:
    """Returns the legend below a table of counters. It states what each column counts."""
    return "; ".join(filter(None, ["all blocks", units(used)]))


def source_lines(file: str) -> list[str]:
    """Returns the lines of a file. The result is empty if the file can no longer be read."""
    try:
        return read_text(Path(file), MAX_TEXT).splitlines()
    except TileError:
        # The file may have moved since the kernel was compiled. The counters are useful even without their source
        # lines.
        return []
