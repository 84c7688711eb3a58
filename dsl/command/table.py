"""The result of a command that is called as a Python function, such as `dsl.why`. `print` shows the command's text, and
notebooks show a table."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any, Generic, TypeVar, overload

import click

from dsl.command.rows import flat
from dsl.lowering.ir.location import TileError
from dsl.text import html

Row = TypeVar("Row")
MOST_LETTERS = 60
"""The most characters in a notebook's cell. `to_dict` has the whole value."""

CELLS: list[str] = []
"""Folders of notebook cells. Shown text names their files without the folder."""


def shown(text: str) -> str:
    for folder in CELLS:
        text = text.replace(f"{folder}/", "")
    return text


class ResultTable(Sequence[Row], Generic[Row]):
    """A sequence of rows, each an object with fields. `print` shows the text that the command prints. A notebook shows
    a table.

    `title` is the heading. `record` is the data of `--json`. `text` is the text that the command prints, or None to
    print the columns. `columns` maps a heading to the name of a field or figure, or to a function of the row. `base`
    maps a row's index to the index of the row that it is compared with. HTML texts in `parts=` replace the title and
    the table."""

    def __init__(
        self,
        title: str,
        rows: Sequence[Row],
        record: Mapping[str, Any],
        text: str | None,
        columns: Mapping[str, str | Callable[[Row], Any]],
        base: Callable[[int], int] | None = None,
        parts: Sequence[str] = (),
        flatten: Callable[[Row], dict[str, Any]] = flat,
    ):
        self.title, self.rows, self.record = shown(title), list(rows), record
        self.columns, self.base, self.flatten = columns, base, flatten
        # The HTML of reports also names files.
        self.parts = [*map(shown, parts)]
        self.text = self._plain() if text is None else shown(text)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> list[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | list[Row]:
        return self.rows[at]

    def __repr__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """The data that the command prints with `--json`."""
        return dict(self.record)

    def frame(self) -> Any:
        """A `pandas.DataFrame` with one row for each row of the table. Figures are columns. Raises TileError `call`
        without pandas."""
        try:
            from pandas import DataFrame
        except ImportError:
            hint = "pip install pandas; to_dict() gives the same as plain data"
            raise TileError("call", None, "a frame needs pandas, which is not installed", hint) from None
        return DataFrame([self.flatten(row) for row in self.rows])

    def _repr_html_(self) -> str:
        parts = self.parts or [html.title(self.title), html.table([*self.columns], self._cells())]
        return html.page(*parts, html.folded("as text", self.text))

    def _plain(self) -> str:
        """The columns as text."""
        from dsl.text.terminal import plain, table

        rows = [[html.as_cell(each).text for each in row] for row in self._cells()]
        if not rows:
            return "nothing"
        # Columns that are empty in all rows are left out, as in the commands.
        shown = [at for at in range(len(self.columns)) if any(row[at] not in html.EMPTY for row in rows)]
        heads = [*self.columns]
        return plain(table([heads[at] for at in shown], [[row[at] for at in shown] for row in rows], len(shown)))[:-1]

    def _cells(self) -> list[list[html.Cell]]:
        rows = [self._row(row, self.flatten(row)) for row in self.rows]
        if self.base is None:
            return rows
        bases = [self.base(at) for at in range(len(rows))]
        return [
            # The base itself has no ratio.
            row if base == at else [html.compared(*pair) for pair in zip(row, rows[base], strict=True)]
            for at, (row, base) in enumerate(zip(rows, bases, strict=True))
        ]

    def _row(self, row: Row, found: Mapping[str, Any]) -> list[html.Cell]:
        asked = self.columns.values()
        return [cell(found.get(each) if isinstance(each, str) else each(row)) for each in asked]


def cell(value: Any) -> html.Cell:
    """Converts a value to a table cell."""
    if isinstance(value, bool):
        return "yes" if value else ""
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        value = ", ".join(f"{name}={each}" for name, each in value.items())
    elif isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    # Takes only the first line. A hint has several lines, which would make the row of a table higher.
    text = shown(str(value)).partition("\n")[0]
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


def captured(show: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    """Calls `show(*arguments)`. Returns its result and its printed text. Colours are removed, because a notebook's
    front end may request colours."""
    out = io.StringIO()
    with redirect_stdout(out):
        given = show(*arguments)
    lines = click.unstyle(out.getvalue()).splitlines()
    return given, "\n".join(line.rstrip() for line in lines).strip("\n")
