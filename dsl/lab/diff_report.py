"""What differs between two launches, on the terminal: from what `dsl diff --json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dsl.lab.diff import BY_LINE, FIGURES, is_number
from dsl.lowering.ir.choices import RULE
from dsl.lowering.ir.location import printable

Record = Mapping[str, Any]
LINES = 6
"""Lines of the source that are shown; `--json` has all."""
ROWS = 80
"""Rows of the first level that differs; `--level` shows all of it."""
COLOURS = {"-": "red", "+": "green"}


def show_difference(made: Record, level: str | None, console: Console) -> None:
    """All of it, in the order: choices, figures, lines, levels. level: the one to show in place of the first that
    differs, whole."""
    console.print()
    sides = {letter: made[letter.lower()] for letter in "AB"}
    one = made["a"]["title"] == made["b"]["title"]
    if one:
        say(console, f"[bold]{text(made['a']['title'])}[/bold]")
    for letter, side in sides.items():
        title = "" if one else f": {text(side['title'])}"
        say(console, f"[bold]{letter}[/bold]  {text(side['side'])}{title}")
    for note in dict.fromkeys([*made["a"]["notes"], *made["b"]["notes"]]):
        say(console, f"   {text(note)}")
    if not made["differs"]:
        say(console, "nothing differs" + (" but times" if "ratio" in made else ""))
    named = [(each, f" of {text(name_of(each))}" if len(made["kernels"]) > 1 else "") for each in made["kernels"]]
    for each, of in named:
        show_choices(each, of, console)
        show_constants(each, of, console)
    show_figures(made, sides, console)
    show_lines(made["lines"], console)
    for each, of in named:
        show_levels(each, of, level, console)
    for letter, kernel in made["only"]:
        say(console, f"only {letter} launches {text(kernel)}")


def say(console: Console, markup: str) -> None:
    console.print(markup, highlight=False, soft_wrap=True)


def text(given: object) -> str:
    return escape(printable(str(given)))


def name_of(each: Record) -> str:
    return each["a"] if each["a"] == each["b"] else f"{each['a']} and {each['b']}"


def grid(*heads: str) -> Table:
    """A table without lines, its columns to the right but for the first."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(heads))
    for head in heads:
        table.add_column(head, justify="right" if head else "left", no_wrap=True)
    return table


# ---- choices ----


def show_choices(each: Record, of: str, console: Console) -> None:
    if each["choices"] is None:
        say(console, f"choices{of}: those of PTX are not known")
        return
    made, choices = " and ".join(dict.fromkeys(map(str, each["made"]))), each["choices"]
    count = sum(len(one["keys"]) for one in choices) or "none"
    say(console, f"choices{of} that differ: {count} of {made}")
    table = grid()
    for one in choices:
        if one["a"] and one["b"]:
            table.add_row("", text(one["label"]), text(one["a"]["option"]), "→", text(one["b"]["option"]), by(one))
    if table.row_count:
        console.print(table)
    for letter, other in (("A", "b"), ("B", "a")):
        alone = [said_alone(one) for one in choices if one[other] is None]
        if alone:
            say(console, f"  only {letter} makes: {text('; '.join(alone))}")


def by(one: Record) -> str:
    """Who chose it, where that is not the rule on both sides."""
    who = [one[letter]["by"] for letter in "ab"]
    if who == [RULE, RULE]:
        return ""
    if who[0] == who[1]:
        return text(f"by {who[0]}")
    return text(", ".join(f"{letter} by {each}" for letter, each in zip("AB", who, strict=True)))


def said_alone(one: Record) -> str:
    """A choice that one side makes, with its option and who took it, if not the rule."""
    made = one["a"] or one["b"]
    return f"{one['label']} {made['option']}" + ("" if made["by"] == RULE else f" by {made['by']}")


def show_constants(each: Record, of: str, console: Console) -> None:
    if each["constants"]:
        say(console, f"constants{of} that differ: {len(each['constants'])}")
        table = grid()
        for name, pair in each["constants"].items():
            a, b = ("[dim]none[/dim]" if pair[side] is None else text(pair[side]) for side in "ab")
            table.add_row("", text(name), a, "→", b)
        console.print(table)


# ---- figures ----


def show_figures(made: Record, sides: Mapping[str, Record], console: Console) -> None:
    table = grid("", "A", "B", "B / A")
    for name, pair in made["figures"].items():
        ratio = "=" if pair["a"] == pair["b"] else f"{pair['ratio']:.3f}" if "ratio" in pair else ""
        table.add_row(FIGURES[name], figure(name, pair["a"]), figure(name, pair["b"]), ratio)
    if "ratio" in made:
        low, high = made["ratio_interval"]
        ties = "" if made["time_differs"] else ": a tie"
        table.add_row(
            "time (us)", *map(time_of, sides.values()), f"{made['ratio']:.4f} ({low:.4f} to {high:.4f}){ties}"
        )
    console.print(table)
    for letter, side in sides.items():
        if side["reason"]:
            say(console, f"   {letter}: {text(side['reason'].splitlines()[0])}")
    if "ratio" in made:
        say(console, "   counted by the emulator in the first blocks, times the grid; timed in rounds of one contest")
    if made["same_code"]:
        say(console, "   the same PTX")


def figure(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if not is_number(value):
        return text(value)
    return f"{value:.0%}" if name == "occupancy" else f"{value:,.0f}"


def time_of(side: Record) -> str:
    low, high = side["interval_us"]
    return f"{side['median_us']:.2f} ({low:.2f} to {high:.2f})"


def show_lines(lines: list[Record], console: Console) -> None:
    """Those that differ most, with the counters that differ in some of them."""
    if not lines:
        return
    shown = lines[:LINES]
    names = [name for name in BY_LINE if any(one["first"][name] != one["second"][name] for one in shown)]
    table = grid("line", *(FIGURES[name] for name in names), "")
    for one in shown:
        cells = [pair(one["first"][name], one["second"][name]) for name in names]
        table.add_row(one["line"], *cells, text(one["text"] + ("  (of B's file)" if one["is_second"] else "")))
    console.print(table)
    if rest := len(lines) - len(shown):
        say(console, f"   and {rest} more line{'s' * (rest > 1)}; --json has all")


def pair(a: float, b: float) -> str:
    return "=" if a == b else f"{a:,.0f} → {b:,.0f}"


# ---- levels ----


def show_levels(each: Record, of: str, asked: str | None, console: Console) -> None:
    levels, first = each["levels"], each["first_difference"]
    names = [one["level"] for one in levels]
    if first is None:
        say(console, f"levels{of}: all {len(levels)} are equal")
    else:
        before = f"equal up to {names[names.index(first) - 1]}; " if first != names[0] else ""
        say(console, f"levels{of}: {before}they differ from [bold]{first}[/bold] on")
    name = asked or first
    if name in names:
        show_level(levels[names.index(name)], asked is not None, console)
    last: Any = None
    for one in levels:
        if one["hunks"] and one["hunks"] != last:  # of passes in a row with the same difference the first one
            last = one["hunks"]
            if one["level"] != name:
                say(console, f"   {one['level']:<24}{changes(one)}")
    for level, letter in each["only"].items():
        say(console, f"   {level:<24}only {letter} has it")
    for why in each["missing"]:
        say(console, f"   {text(why)}")


def changes(one: Record) -> str:
    return f"{one['removed']} row{'s' * (one['removed'] != 1)} out, {one['added']} in"


def show_level(one: Record, is_whole: bool, console: Console) -> None:
    say(console, f"{one['level']}: {changes(one) if one['hunks'] else 'equal'}")
    left, rest = ROWS, sum(len(hunk["rows"]) for hunk in one["hunks"]) - ROWS
    for hunk in one["hunks"]:
        say(console, f"[cyan]@@ {text(place(hunk))}[/cyan]")
        for row in hunk["rows"] if is_whole else hunk["rows"][:left]:
            colour = COLOURS.get(row[0])
            say(console, f"[{colour}]{text(row)}[/{colour}]" if colour else text(row))
        left -= len(hunk["rows"])
        if left <= 0 and not is_whole:
            if rest > 0:
                say(console, f"… {rest} more rows: --level {one['level']}")
            return


def place(hunk: Record) -> str:
    """The line of the source that a hunk begins at."""
    if hunk["line"] is None:
        return "head"
    return f"line {hunk['line']}{' of B' * hunk['second']}" + (f": {hunk['text']}" if hunk["text"] else "")
