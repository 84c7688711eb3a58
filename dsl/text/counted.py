"""Counters beside the lines of files, for the terminal and for pages: which lines and columns, and how numbers look."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsl.lowering.ir.location import TileError
from dsl.text.figures import units
from dsl.text.files import MAX_TEXT, read_text

COUNTED = (
    *("instructions", "moves", "active_lanes", "global_load_sectors", "global_store_sectors", "global_atomic_sectors"),
    *("atomic_waits", "wavefronts", "conflicts", "barriers"),
)
"""Columns of the counted source."""
BEFORE = 3
"""Lines that are shown above the first one that has counters."""


@dataclass(frozen=True, slots=True)
class CountedLine:
    """A line of a file with its counters; empty where nothing was counted. number 0: the text is the name of a file
    other than that of the kernels; its lines follow."""

    number: int
    text: str
    counts: Mapping[str, float]


def counted_lines(
    files: Mapping[str, Mapping[int, Any]], whole: str | None, read: Callable[[str], Sequence[str]] | None = None
) -> tuple[list[str], list[CountedLine]]:
    """The names of the counters that are not 0 everywhere, and the lines that have counters; of the file `whole` also
    the lines between them. read: gives the lines of a file; without it they come from the disk."""
    rows = {file: {at: each.figures for at, each in by_line.items()} for file, by_line in files.items()}
    # A column of zeros alone says nothing.
    used = [name for name in COUNTED if any(row[name] for by_line in rows.values() for row in by_line.values())]
    return used, [*_lines(rows, whole, read or source_lines)]


def _lines(
    files: Mapping[str, Mapping[int, Mapping[str, float]]], whole: str | None, read: Callable[[str], Sequence[str]]
) -> Iterator[CountedLine]:
    for file, by_line in files.items():
        source = read(file)
        if file != whole:
            yield CountedLine(0, file, {})
        # The lines of the kernels' own file are shown without gaps. Of other files (the library, imports) only counted
        # lines are, since whole files would hide the kernel.
        first, last = min(by_line, default=1), max(by_line, default=0)
        shown = range(max(1, first - BEFORE), min(last + 1, len(source)) + 1) if file == whole else sorted(by_line)
        for at in shown:
            yield CountedLine(at, source[at - 1] if at <= len(source) else "", by_line.get(at, {}))


def legend(used: Sequence[str]) -> str:
    """What the columns count, in words."""
    return "; ".join(filter(None, ["all blocks", units(used)]))


def source_lines(file: str) -> list[str]:
    """The lines of a file; empty if it cannot be read any more."""
    try:
        return read_text(Path(file), MAX_TEXT).splitlines()
    except TileError:
        # The counters are worth showing without their lines: the file may have moved since the kernel was compiled.
        return []
