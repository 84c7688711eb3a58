"""Terminal output and tables, drawn by rich. Each table is as wide as its contents, so that nothing is cut off."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from dsl.lowering.ir.location import printable

WIDE = 1 << 14
"""The width in columns of an output that is not a terminal. It exceeds the length of every line. Widths of 160 and 200
cut off piped output."""


class Terminal(Console):
    """A console that breaks long lines only on a terminal. In a pipe, lines are not broken. A closed pipe raises
    BrokenPipeError, which the command handles."""

    def __init__(self) -> None:
        width = None if sys.stdout.isatty() else WIDE
        # In a notebook, rich would show the text as HTML instead of printing it. `highlight` would colour all numbers,
        # even in paths and source lines.
        super().__init__(force_jupyter=False, highlight=False, width=width)

    def on_broken_pipe(self) -> None:
        # rich would end the process with status 1. Our commands use status 1 for "the result differs".
        raise BrokenPipeError

    def say(self, text: str, style: str = "") -> None:
        """Prints a line literally: rich interprets no markup in the text."""
        self.print(Text(printable(text), style), soft_wrap=True)

    def show(self, made: Table, indent: int = 2) -> None:
        for line in lines(made, self.width - indent):
            whole = Text(" " * indent) + line
            if not self.is_terminal:
                whole.rstrip()
            self.print(whole, soft_wrap=True)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]] = (), left: int = 1) -> Table:
    """Makes a table with the headings `heads`. The first `left` columns contain text, and the others contain numbers.
    The last column contains text if it has no heading. On a narrow terminal, text wraps but numbers never do."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(heads), header_style="bold")
    for at, head in enumerate(heads):
        is_text = at < left or (at == len(heads) - 1 and not head)
        justify: Any = "left" if is_text else "right"
        made.add_column(Text(printable(head)), justify=justify, no_wrap=not is_text, overflow="fold")
    for row in rows:
        add(made, row)
    return made


def add(made: Table, row: Iterable[object]) -> None:
    made.add_row(*(cell if isinstance(cell, Text) else Text(printable(str(cell))) for cell in row))


def lines(made: Table, width: int = WIDE) -> list[Text]:
    """Draws a table `width` columns wide, and returns its lines. The table is wider if this width would cut off
    text."""
    console = Console(file=io.StringIO(), width=WIDE, force_jupyter=False)
    for column in made.columns:
        # rich assumes that a heading of two words takes two lines, so the width that rich computes is too small. rich
        # then cuts off the second word ('wavefronts' lost its end) and leaves no room for the first column.
        if column.no_wrap:
            column.min_width = max(console.measure(cell).maximum for cell in (column.header, *column.cells))
    least = Measurement.get(console, console.options, made).minimum
    drawn = console.render_lines(made, console.options.update(width=max(width, least)), pad=False)
    return [Text.assemble(*((each.text, each.style or "") for each in line)) for line in drawn]


def plain(made: Table) -> str:
    """Returns the text of a table, without styles."""
    return "".join(f"{line.plain.rstrip()}\n" for line in lines(made))
