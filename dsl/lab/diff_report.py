"""Prints the output of `dsl diff` on the terminal, from the data of `--json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from dsl.lab.diff import BY_LINE, is_number
from dsl.lowering.ir.choices import RULE
from dsl.lowering.ir.location import printable
from dsl.text.figures import COLUMNS, FigureColumn
from dsl.text.terminal import Terminal, add, table

Record = Mapping[str, Any]
LINES = 6
"""Number of source lines that are shown. `--json` has all lines."""
ROWS = 80
"""At most this many rows of the first level that differs are shown. `--level` shows the whole level."""
COLOURS = {"-": "red", "+": "green"}


def show_difference(made: Record, level: str | None, console: Terminal) -> None:
    """Prints the differences in choices, figures, lines and levels, in this order.

    If `level` is given, all its differences are printed.
    """
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


def say(console: Terminal, markup: str) -> None:
    console.print(markup, soft_wrap=True)


def text(given: object) -> str:
    return escape(printable(str(given)))


def name_of(each: Record) -> str:
    return each["a"] if each["a"] == each["b"] else f"{each['a']} and {each['b']}"


# ---- choices ----


def show_choices(each: Record, of: str, console: Terminal) -> None:
    if each["choices"] is None:
        say(console, f"choices{of}: unknown for PTX")
        return
    made, choices = " and ".join(dict.fromkeys(map(str, each["made"]))), each["choices"]
    count = sum(len(one["keys"]) for one in choices) or "none"
    say(console, f"choices{of} that differ: {count} of {made}")
    both = [one for one in choices if one["a"] and one["b"]]
    if both:
        rows = [[one["label"], one["a"]["option"], "→", one["b"]["option"], by(one)] for one in both]
        console.show(table([""] * 5, rows, left=5))
    for letter, other in (("A", "b"), ("B", "a")):
        alone = [said_alone(one) for one in choices if one[other] is None]
        if alone:
            say(console, f"  only {letter} makes: {text('; '.join(alone))}")


def by(one: Record) -> str:
    """Describes what decided the choice on each side. The text is empty if it was the compiler's rule on both sides."""
    who = [one[letter]["by"] for letter in "ab"]
    if who == [RULE, RULE]:
        return ""
    if who[0] == who[1]:
        return f"by {who[0]}"
    return ", ".join(f"{letter} by {each}" for letter, each in zip("AB", who, strict=True))


def said_alone(one: Record) -> str:
    """Describes a choice that only one side has, with its option. If the compiler's rule did not decide it, the text
    adds what did."""
    made = one["a"] or one["b"]
    return f"{one['label']} {made['option']}" + ("" if made["by"] == RULE else f" by {made['by']}")


def show_constants(each: Record, of: str, console: Terminal) -> None:
    if each["constants"]:
        say(console, f"constants{of} that differ: {len(each['constants'])}")
        rows = [[name, constant(pair["a"]), "→", constant(pair["b"])] for name, pair in each["constants"].items()]
        console.show(table([""] * 4, rows, left=4))


def constant(value: Any) -> str:
    return "none" if value is None else str(value)


# ---- figures ----


def show_figures(made: Record, sides: Mapping[str, Record], console: Terminal) -> None:
    columns = [(COLUMNS[name], pair["a"], pair["b"]) for name, pair in made["figures"].items()]
    rows = [[column.label, column.text(a), column.text(b), ratio(a, b)] for column, a, b in columns]
    if "ratio" in made:
        low, high = made["ratio_interval"]
        ties = "" if made["time_differs"] else ": a tie"
        rows.append(["us", *map(time_of, sides.values()), f"{made['ratio']:.4f} ({low:.4f} to {high:.4f}){ties}"])
    console.show(table(["", "A", "B", "B / A"], rows), 0)
    for letter, side in sides.items():
        if side["reason"]:
            say(console, f"   {letter}: {text(side['reason'].splitlines()[0])}")
    if "ratio" in made:
        say(console, "   counted by the emulator in the first blocks, times the grid; timed in rounds of one contest")
    if made["same_code"]:
        say(console, "   the same PTX")


def ratio(a: Any, b: Any) -> str:
    """The ratio `b / a` as text, or `=` for equal figures."""
    if a == b:
        return "="
    return f"{b / a:.3f}" if is_number(a) and is_number(b) and a else ""


def time_of(side: Record) -> str:
    low, high = side["interval_us"]
    return f"{side['median_us']:.2f} ({low:.2f} to {high:.2f})"


def show_lines(lines: list[Record], console: Terminal) -> None:
    """Prints the source lines whose counters differ most. Each column is a counter that differs in at least one of
    these lines."""
    if not lines:
        return
    shown = lines[:LINES]
    names = [name for name in BY_LINE if any(one["first"][name] != one["second"][name] for one in shown)]
    made = table(["line", *(COLUMNS[name].label for name in names), ""], left=0)
    for one in shown:
        cells = [pair(COLUMNS[name], one["first"][name], one["second"][name]) for name in names]
        add(made, [one["line"], *cells, one["text"] + ("  (of B's file)" if one["is_second"] else "")])
    console.show(made, 0)
    if rest := len(lines) - len(shown):
        say(console, f"   and {rest} more line{'s' * (rest > 1)}; --json has all")


def pair(column: FigureColumn, a: float, b: float) -> str:
    return "=" if a == b else f"{column.text(a)} → {column.text(b)}"


# ---- levels ----


def show_levels(each: Record, of: str, asked: str | None, console: Terminal) -> None:
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
    rows = [[one["level"], changes(one)] for one in distinct(levels) if one["level"] != name]
    rows += [[level, f"only {letter} has it"] for level, letter in each["only"].items()]
    if rows:
        console.show(table(["", ""], rows), 3)
    for why in each["missing"]:
        say(console, f"   {text(why)}")


def changes(one: Record) -> str:
    return f"{one['removed']} row{'s' * (one['removed'] != 1)} out, {one['added']} in"


def distinct(levels: list[Record]) -> list[Record]:
    """The levels that differ. If consecutive levels have the same difference, only the first of them is returned."""
    found: list[Record] = []
    for one in levels:
        if one["hunks"] and (not found or one["hunks"] != found[-1]["hunks"]):
            found.append(one)
    return found


def show_level(one: Record, is_whole: bool, console: Terminal) -> None:
    say(console, f"{one['level']}: {changes(one) if one['hunks'] else 'equal'}")
    # A whole level may have thousands of rows. The first 80 rows show where the difference begins.
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
    """Describes the source line at which a hunk begins."""
    if hunk["line"] is None:
        return "header"
    return f"line {hunk['line']}{' of B' * hunk['second']}" + (f": {hunk['text']}" if hunk["text"] else "")
