"""Rows as a printed table, with a summary."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from dsl.runtime.emulator import Counters

from .intervals import TIE, geometric_mean
from .rows import OURS, Row

WIDE = 240


def console() -> Console:
    """The terminal, or a file wide enough for a row."""
    return Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)


def show(rows: Sequence[Row], title: str, key: str) -> Table:
    """A table of one operation and type, with times in microseconds. `key` is the dim in the first column.

    `⟳` marks the time of one launch in a CUDA graph of many launches.
    """
    names = [name for name in dict.fromkeys(n for row in rows for n in row.times) if name != OURS]
    table = Table(title=title, title_justify="left")
    yardstick = rows[0].yardstick
    for heading in (
        key,
        OURS,
        "20–80%",
        *names,
        f"of {yardstick}",
        "of best peer",
        rows[0].unit,
        "regs",
        "spills",
        "shared",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    has_counters = any(row.counters for row in rows)
    if has_counters:
        table.add_column("conflicts", justify="right")
        table.add_column("sectors / ideal", justify="right")
    has_clocks = any(row.clocks for row in rows)
    if has_clocks:
        table.add_column("MHz", justify="right")
    graphs = list(dict.fromkeys(name for row in rows for name in row.replayed))
    for name in graphs:
        table.add_column(f"{name} ⟳", justify="right", no_wrap=True)
    table.add_column("kernel")
    for row in rows:
        table.add_row(*cells(row, key, names, has_counters, has_clocks, graphs))
    return table


def cells(
    row: Row, key: str, names: Sequence[str], has_counters: bool, has_clocks: bool, graphs: Sequence[str]
) -> list[str]:
    """The cells of one row. A dash marks values that were not measured."""
    ours = row.times.get(OURS)
    out = [
        str(row.shape[key]),
        time_of(row, OURS),
        f"{ours.low:.1f}–{ours.high:.1f}" if ours else "–",
        *(time_of(row, name) for name in names),
        ratio(row.share_of_yardstick()),
        ratio(row.against_best) + ("" if row.keeps_up else " [red]slower[/red]"),
        "–" if ours is None else f"{row.rate():.0f}",
        most(row, "registers"),
        most(row, "spills"),
        most(row, "shared_bytes"),
    ]
    if has_counters:
        out += counter_cells(row)
    if has_clocks:
        out.append(f"{row.clocks.low:.0f}–{row.clocks.high:.0f}" if row.clocks else "–")
    out += [f"{row.replayed[name].median:.2f}" if name in row.replayed else "–" for name in graphs]
    out.append("; ".join(f"{f.kernel}: {constants(f.constants)}" for f in row.launches) or "–")
    return out


def time_of(row: Row, name: str) -> str:
    if name not in row.times:
        return "–"
    return f"{row.times[name].median:.1f}" + (" [red]wrong[/red]" if row.is_wrong(name) else "")


def ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def most(row: Row, name: str) -> str:
    """The greatest value over the row's launches."""
    return str(max(getattr(f, name) for f in row.launches)) if row.launches else "–"


def constants(values: dict[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def counter_cells(row: Row) -> list[str]:
    """The bank conflicts, and the global sectors divided by the least number of sectors that the same bytes need."""
    if not row.counters:
        return ["–", "–"]
    counted = Counters.from_dict(row.counters)
    return [f"{counted.bank_conflicts:.0f}", ratio(counted.sectors_over_fewest)]


def summary(rows: Sequence[Row], least: int, key: str) -> list[str]:
    """A summary of the rows: the share of the yardstick, wrong results, and rows in which a peer is faster.

    The share covers rows whose `key` is at least `least`.
    """
    long = [row for row in rows if row.shape[key] >= least and row.share_of_yardstick() is not None]
    lines = []
    if long:
        worst = min(long, key=lambda row: row.share_of_yardstick() or 0.0)
        mean = geometric_mean(row.share_of_yardstick() or 0.0 for row in long)
        lowest = f"least {worst.share_of_yardstick():.3f} at {worst.shape[key]}"
        lines.append(f"of the {worst.yardstick}, {key} >= {least}: geometric mean {mean:.3f}, {lowest}")
    raced = [row for row in rows if row.against_best is not None]
    slower = [
        f"{row.shape[key]} ({row.best_peer} {1 / (row.against_best or 1.0):.2f} times faster)"
        for row in raced
        if not row.keeps_up
    ]
    if raced:
        lines.append(f"of {len(raced)} slower than the best peer by more than {TIE:.0%}: {', '.join(slower) or 'none'}")
    wrong = [
        f"{name} at {row.shape[key]} ({row.errors[name]:.1e})"
        for row in rows
        for name in row.errors
        if row.is_wrong(name)
    ]
    if wrong:
        lines.append(f"WRONG: {', '.join(wrong)}")
    return lines
