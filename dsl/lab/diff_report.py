"""What differs between two launches, on the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dsl.lab.diff import BY_LINE, FIGURES, Difference, KernelDifference, LineDifference, Side, is_number
from dsl.lab.diff_choices import ChoiceDifference
from dsl.lab.diff_stages import StagesDifference
from dsl.lab.diff_text import Hunk, StageDifference
from dsl.lowering.ir.choices import RULE
from dsl.lowering.ir.location import printable

LINES = 6
"""Lines of the source that are shown; `--json` has all."""
ROWS = 80
"""Rows of the first stage that differs; `--stage` shows all of it."""
COLOURS = {"-": "red", "+": "green"}


def show_difference(made: Difference, stage: str | None, console: Console) -> None:
    """All of it, in the order: choices, figures, lines, stages. stage: the one to show in place of the first that
    differs, whole."""
    console.print()
    sides = (("A", made.first), ("B", made.second))
    one = made.first.title == made.second.title
    if one:
        say(console, f"[bold]{text(made.first.title)}[/bold]")
    for letter, side in sides:
        title = "" if one else f": {text(side.title)}"
        say(console, f"[bold]{letter}[/bold]  {text(side.label)}{title}")
    for note in dict.fromkeys([*made.first.notes, *made.second.notes]):
        say(console, f"   {text(note)}")
    if made.is_equal:
        say(console, "nothing differs" + ("" if made.ratio is None else " but times"))
    for each in made.kernels:
        show_choices(each, len(made.kernels) > 1, console)
        show_constants(each, len(made.kernels) > 1, console)
    show_figures(made, console)
    show_lines(made.lines, console)
    for each in made.kernels:
        show_stages(each, made, len(made.kernels) > 1, stage, console)
    for letter, kernel in made.unpaired:
        say(console, f"only {letter} launches {text(kernel)}")


def say(console: Console, markup: str) -> None:
    console.print(markup, highlight=False, soft_wrap=True)


def text(given: str) -> str:
    return escape(printable(given))


def named(each: KernelDifference) -> str:
    return each.first if each.first == each.second else f"{each.first} and {each.second}"


# ---- choices ----


def show_choices(each: KernelDifference, is_named: bool, console: Console) -> None:
    of = f" of {text(named(each))}" if is_named else ""
    if each.choices is None:
        say(console, f"choices{of}: those of PTX are not known")
        return
    made = " and ".join(dict.fromkeys(map(str, each.made)))
    if not each.choices:
        say(console, f"choices{of} that differ: none of {made}")
        return
    say(console, f"choices{of} that differ: {sum(len(one.keys) for one in each.choices)} of {made}")
    table = listed()
    for one in each.choices:
        if one.first is not None and one.second is not None:
            table.add_row("", text(one.label), text(one.first.option), "→", text(one.second.option), by(one))
    if table.row_count:
        console.print(table)
    only = {"A": [one for one in each.choices if one.second is None]}
    only["B"] = [one for one in each.choices if one.first is None]
    for letter, alone in only.items():
        if alone:
            say(console, f"  only {letter} makes: {text('; '.join(map(said_alone, alone)))}")


def by(one: ChoiceDifference) -> str:
    """Who chose it, where that is not the rule on both sides."""
    who = [None if each is None else each.by for each in (one.first, one.second)]
    if who == [RULE, RULE]:
        return ""
    if who[0] == who[1]:
        return text(f"by {who[0]}")
    return text(", ".join(f"{letter} by {each}" for letter, each in zip("AB", who, strict=True)))


def said_alone(one: ChoiceDifference) -> str:
    """A choice that one side makes, with its option and who took it, if not the rule."""
    made = one.first or one.second
    assert made is not None
    return f"{one.label} {made.option}" + ("" if made.by == RULE else f" by {made.by}")


def show_constants(each: KernelDifference, is_named: bool, console: Console) -> None:
    if each.constants:
        of = f" of {text(named(each))}" if is_named else ""
        say(console, f"constants{of} that differ: {len(each.constants)}")
        table = listed()
        for name, (a, b) in each.constants.items():
            table.add_row("", text(name), constant(a), "→", constant(b))
        console.print(table)


def constant(value: Any) -> str:
    return "[dim]none[/dim]" if value is None else text(str(value))


def listed() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)


# ---- figures ----


def show_figures(made: Difference, console: Console) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for head in ("A", "B", "B / A"):
        table.add_column(head, justify="right")
    for head, (a, b) in made.figures.items():
        table.add_row(head, figure(head, a), figure(head, b), ratio(a, b))
    if made.ratio is not None:
        cells = [time_of(side) for side in (made.first, made.second)]
        median, low, high = made.ratio
        ties = "" if made.differs else ": a tie"
        table.add_row("time (us)", *cells, f"{median:.4f} ({low:.4f} to {high:.4f}){ties}")
    console.print(table)
    for letter, side in (("A", made.first), ("B", made.second)):
        if side.trial.reason:
            say(console, f"   {letter}: {text(side.trial.reason.splitlines()[0])}")
    if made.ratio is not None:
        say(console, "   counted by the emulator in the first blocks, times the grid; timed in rounds of one contest")
    if made.is_same_code:
        say(console, "   the same PTX")


def figure(head: str, value: Any) -> str:
    if value is None:
        return "-"
    if not is_number(value):
        return text(str(value))
    return f"{value:.0%}" if head == "occupancy" else f"{value:,.0f}"


def ratio(a: Any, b: Any) -> str:
    """`=` of equal figures."""
    if a == b:
        return "="
    return f"{b / a:.3f}" if is_number(a) and is_number(b) and a else ""


def time_of(side: Side) -> str:
    median, low, high = side.trial.interval
    return f"{median:.2f} ({low:.2f} to {high:.2f})"


def show_lines(lines: list[LineDifference], console: Console) -> None:
    """Those that differ most, with the counters that differ in some of them."""
    if not lines:
        return
    shown = lines[:LINES]
    names = [name for name in BY_LINE if any(one.first[name] != one.second[name] for one in shown)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("line", justify="right")
    for head, name in FIGURES.items():
        if name in names:
            table.add_column(head, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for one in shown:
        cells = [pair(one.first[name], one.second[name]) for name in names]
        table.add_row(one.line, *cells, text(one.text + ("  (of B's file)" if one.is_second else "")))
    console.print(table)
    if len(lines) > len(shown):
        rest = len(lines) - len(shown)
        say(console, f"   and {rest} more line{'s' * (rest > 1)}; --json has all")


def pair(a: float, b: float) -> str:
    return "=" if a == b else f"{a:,.0f} → {b:,.0f}"


# ---- stages ----


def show_stages(each: KernelDifference, made: Difference, is_named: bool, asked: str | None, console: Console) -> None:
    of = f" of {text(named(each))}" if is_named else ""
    stages = each.stages
    shown = stages.first if asked is None else the_stage(stages, asked)
    if stages.first is None:
        say(console, f"stages{of}: all {len(stages.stages)} are equal")
    else:
        equal = [one.stage for one in stages.stages[: stages.stages.index(stages.first)]]
        before = f"equal up to {equal[-1]}; " if equal else ""
        say(console, f"stages{of}: {before}they differ from [bold]{stages.first.stage}[/bold] on")
    if shown is not None:
        show_stage(shown, made, asked is not None, console)
    for one in counts(stages):
        if shown is None or one.stage != shown.stage:
            say(console, f"   {one.stage:<24}{changes(one)}")
    for stage, letter in stages.only.items():
        say(console, f"   {stage:<24}only {letter} has it")
    for why in stages.missing:
        say(console, f"   {text(why)}")


def changes(one: StageDifference) -> str:
    return f"{one.removed} row{'s' * (one.removed != 1)} out, {one.added} in"


def counts(stages: StagesDifference) -> list[StageDifference]:
    """The stages that differ; of passes in a row with the same difference the first one."""
    found: list[StageDifference] = []
    for one in stages.stages:
        if one.hunks and (not found or one.hunks != found[-1].hunks):
            found.append(one)
    return found


def the_stage(stages: StagesDifference, name: str) -> StageDifference | None:
    return next((one for one in stages.stages if one.stage == name), None)


def show_stage(one: StageDifference, made: Difference, is_whole: bool, console: Console) -> None:
    say(console, f"{one.stage}: {changes(one)}" if one.hunks else f"{one.stage}: equal")
    left = None if is_whole else ROWS
    for hunk in one.hunks:
        rows = hunk.rows if left is None else hunk.rows[:left]
        say(console, f"[cyan]@@ {text(place(hunk, made))}[/cyan]")
        for row in rows:
            colour = COLOURS.get(row[0])
            say(console, f"[{colour}]{text(row)}[/{colour}]" if colour else text(row))
        if left is not None:
            left -= len(rows)
            if left <= 0:
                rest = sum(len(each.rows) for each in one.hunks) - ROWS
                if rest > 0:
                    say(console, f"… {rest} more rows: --stage {one.stage}")
                return


def place(hunk: Hunk, made: Difference) -> str:
    """The line of the source that a hunk begins at."""
    if hunk.line is None:
        return "head"
    source = (made.second if hunk.is_second else made.first).line(str(hunk.line))
    texts = [None if side.source is None else side.source.text for side in (made.first, made.second)]
    where = " of B" if hunk.is_second and texts[0] != texts[1] else ""
    return f"line {hunk.line}{where}" + (f": {source}" if source else "")
