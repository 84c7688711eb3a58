"""Prints the table of a timeline on the terminal."""

from __future__ import annotations

from typing import Any

import click

from dsl.lowering.ir.location import printable
from dsl.text.figures import amount

MOST_SHARE = 0.05
"""The share of a launch's time above which the cost of the marks is reported. On the emulator the cost is subtracted
exactly, but other warps still wait longer for a marked warp."""
MOST_ROWS = 20
HEADINGS = ("mark", "line", "count", "total", "mean", "longest", "share", "warps")


def show_timeline(timeline: dict[str, Any]) -> None:
    """Prints a timeline. `timeline` is a `Timeline` as a dict. The share of a mark is its time divided by the lifetimes
    of the warps that reach the mark."""
    from dsl.text.terminal import Terminal, table

    unit, rows = timeline["unit"], timeline["rows"]
    click.echo(printable(f"timeline of {timeline['kernel']}, in {unit}: {_extent(timeline)}"))
    shown = rows[:MOST_ROWS]
    if shown:
        Terminal().show(table(HEADINGS, map(_cells, shown)))
    else:
        click.echo("  only the lives of the warps: --marks also takes lines of the file")
    if len(rows) > len(shown):
        click.echo(f"  … and {len(rows) - len(shown)} more marks: --json has them")
    if (most := timeline["longest_wait"]) is not None:
        where = f"at line {most['line']}, {most['name']}" if most["line"] else f"at no line, {most['name']}"
        share = f"{most['share']:.1%} of the life of {amount(most['warps'], 'warp')}"
        click.echo(printable(f"  warps wait longest {where}: {share}"))
        click.echo("  waits include the cost of marks in the warps that others wait for")
    if timeline["unreached"]:
        # A mark without events may have lost its events, because not all events fit into the buffer.
        lost = ", or its events were dropped" if timeline["dropped"] else ""
        click.echo(printable(f"  lane 0 of no warp came to{lost}: {', '.join(timeline['unreached'])}"))
    _show_marks(timeline)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    times = (_time(row[key]) for key in ("total", "mean", "longest"))
    return (row["name"], str(row["line"] or ""), f"{row['count']:,}", *times, f"{row['share']:.1%}", str(row["warps"]))


def _time(value: float) -> str:
    """A time as text: a whole number (turns of the emulator), or microseconds with three decimals."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3f}"


def _extent(timeline: dict[str, Any]) -> str:
    blocks = amount(timeline["grid_blocks"], "block")
    if timeline["blocks"] != timeline["grid_blocks"]:
        blocks = f"the first {timeline['blocks']:,} of {blocks}"
    return f"{amount(timeline['events'], 'event')} of {amount(timeline['warps'], 'warp')} in {blocks}"


def _show_marks(timeline: dict[str, Any]) -> None:
    """Prints the time and registers that the marks cost, and the number of missing events."""
    unit, cost = timeline["unit"], timeline["cost"]
    text = f"a mark costs {_time(cost)} {unit}, subtracted above; marks are {timeline['marks_share']:.1%} of the lives"
    share = 0.0
    if timeline["times_us"] is not None:
        without, with_marks = timeline["times_us"]
        share = with_marks / without - 1
        text += f"; the launch takes {without:.1f} us, {with_marks:.1f} us with them ({share:+.1%})"
    click.echo(f"  {text}")
    if timeline["registers"] is not None:
        (registers, spills), (more, spilled) = timeline["registers"]
        click.echo(f"  {registers} registers and {spills} bytes spilled without marks, {more} and {spilled} with them")
    if abs(share) > MOST_SHARE:
        click.echo(f"  more than {MOST_SHARE:.0%}: marks disturb what they show; fewer marks (--marks) disturb less")
    if timeline["dropped"]:
        count = timeline["dropped"]
        lost = f"{amount(count, 'event')} did not fit and {'is' if count == 1 else 'are'} missing"
        click.echo(f"  {lost}, {amount(timeline['unfinished'], 'begun span')} with them: --events takes more")
