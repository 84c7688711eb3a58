"""Counters beside the lines of files, for the terminal and for pages: which lines and columns, and how numbers look."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dsl.lowering.ir.location import TileError
from dsl.text.files import MAX_TEXT, read_text

COUNTED = {
    "instructions": "warp instr",
    "moves": "moves",
    "active_lanes": "lanes",
    "global_load_sectors": "loads",
    "global_store_sectors": "stores",
    "global_atomic_sectors": "atomics",
    "atomic_waits": "waits",
    "shared_wavefronts": "wavefronts",
    "bank_conflicts": "conflicts",
    "barriers": "barriers",
}
"""Columns of the counted source: counter → heading. Loads, stores and atomics in 32-byte sectors."""
BEFORE = 3
"""Lines that are shown above the first one that has counters."""


@dataclass(frozen=True, slots=True)
class CountedLine:
    """A line of a file with its counters; none where nothing was counted. number 0: the name of the file, in front of
    lines of another one than that of the kernels."""

    number: int
    text: str
    counts: Mapping[str, float]


def number(value: float | None) -> str:
    """A count with separators, another number to four digits."""
    if value is None:
        return "-"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.4g}"


def amount(value: float, noun: str) -> str:
    """`1 lane`, `2,048 lanes`, `1.5 lanes`."""
    return f"{number(value)} {noun}{'s' * (value != 1)}"


def counted_lines(
    files: Mapping[str, Mapping[int, Mapping[str, float]]],
    whole: str | None,
    read: Callable[[str], Sequence[str]] | None = None,
) -> tuple[list[str], list[CountedLine]]:
    """The counters that are not 0 everywhere, and lines of files with them; of the file `whole` those between, too.
    read: the lines of a file; from the disk without it."""
    rows = {file: {at: with_lanes(row) for at, row in by_line.items()} for file, by_line in files.items()}
    used = [name for name in COUNTED if any(row[name] for by_line in rows.values() for row in by_line.values())]
    return used, [*_lines(rows, whole, read or source_lines)]


def with_lanes(row: Mapping[str, float]) -> Mapping[str, float]:
    """The mean over launches: of a sum of counters, the lanes are none."""
    return {**row, "active_lanes": row["thread_instructions"] / row["instructions"] if row["instructions"] else 0}


def _lines(
    files: Mapping[str, Mapping[int, Mapping[str, float]]], whole: str | None, read: Callable[[str], Sequence[str]]
) -> Iterator[CountedLine]:
    for file, by_line in files.items():
        source = read(file)
        if file != whole:
            yield CountedLine(0, file, {})
        first, last = min(by_line, default=1), max(by_line, default=0)
        shown = range(max(1, first - BEFORE), min(last + 1, len(source)) + 1) if file == whole else sorted(by_line)
        for at in shown:
            yield CountedLine(at, source[at - 1] if at <= len(source) else "", by_line.get(at, {}))


def units(used: Sequence[str]) -> str:
    """What the columns count, in words."""
    waits = "; waits: turns of atomics on one address" if "atomic_waits" in used else ""
    return f"all blocks; loads, stores, atomics: sectors of 32 bytes; barriers: of warps{waits}"


def source_lines(file: str) -> list[str]:
    """The lines of a file; none of one that cannot be read any more."""
    try:
        return read_text(Path(file), MAX_TEXT).splitlines()
    except TileError:
        return []
