"""What the marks of a launch found, as a table on the terminal."""

from __future__ import annotations

from typing import Any

import click

from dsl.lowering.ir.location import printable
from dsl.text.figures import amount

MOST_SHARE = 0.05
"""Of a launch's time that marks may add before it is said. On the emulator, whose turns are subtracted to the last,
they add to what others wait alone."""
MOST_ROWS = 20
HEADINGS = ("mark", "line", "count", "total", "mean", "longest", "share", "warps")


def show_timeline(timeline: dict[str, Any]) -> None:
    """`timeline` is a `Timeline` as a record; the shares are of the lives of the warps that came to a mark."""
    from dsl.text.terminal import Terminal, table

    unit, rows = timeline["unit"], timeline["rows"]
    click.echo(printable(f"timeline of {timeline['kernel']}, in {unit}: {_extent(timeline)}"))
    shown = rows[:MOST_ROWS]
    if shown:
        Terminal().show(table(HEADINGS, map(_cells, shown)))
    else:
        click.echo("  no marks but the lives of the warps: --marks takes lines of the file, too")
    if len(rows) > len(shown):
        click.echo(f"  … and {len(rows) - len(shown)} more marks: --json has them")
    if (most := timeline["longest_wait"]) is not None:
        where = f"at line {most['line']}, {most['name']}" if most["line"] else f"at no line, {most['name']}"
        share = f"{most['share']:.1%} of the life of {amount(most['warps'], 'warp')}"
        click.echo(printable(f"  warps wait longest {where}: {share}"))
        click.echo("  waits include what marks cost the warps that are waited for")
    if timeline["unreached"]:
        lost = ", or had room for its events" if timeline["dropped"] else ""
        click.echo(printable(f"  lane 0 of no warp came to{lost}: {', '.join(timeline['unreached'])}"))
    _show_marks(timeline)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    times = (_time(row[key]) for key in ("total", "mean", "longest"))
    return (row["name"], str(row["line"] or ""), f"{row['count']:,}", *times, f"{row['share']:.1%}", str(row["warps"]))


def _time(value: float) -> str:
    """Whole turns, or what a clock tells of a microsecond."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3f}"


def _extent(timeline: dict[str, Any]) -> str:
    blocks = amount(timeline["grid_blocks"], "block")
    if timeline["blocks"] != timeline["grid_blocks"]:
        blocks = f"the first {timeline['blocks']:,} of {blocks}"
    return f"{amount(timeline['events'], 'event')} of {amount(timeline['warps'], 'warp')} in {blocks}"


def _show_marks(timeline: dict[str, Any]) -> None:
    """What the marks cost, and what is missing."""
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
        click.echo(f"  more than {MOST_SHARE:.0%}: marks change what they show; fewer of them (--marks) change less")
    if timeline["dropped"]:
        count = timeline["dropped"]
        lost = f"{amount(count, 'event')} did not fit and {'is' if count == 1 else 'are'} missing"
        click.echo(f"  {lost}, {amount(timeline['unfinished'], 'begun span')} with them: --events takes more")
