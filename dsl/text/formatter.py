"""Formats a `.tile` text: indentation, spaces between tokens, blank lines, the columns of comments.

The formatter moves white space, and changes nothing else: lines stay lines, and comments keep their text. It goes by
the tokens of the parser, so a text with a syntax error is not formatted. The result is parsed and compared with the
original. A second pass changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from typing import Any

from lark import Token
from msgspec import Struct

from dsl.lowering.ir.location import Loc
from dsl.text import tree as ast
from dsl.text.spacing import spaces_between
from dsl.text.syntax import parse, tokens

INDENT = 4
TAB = 8
"""The width of a tab, as the parser reads it."""
BLANK_LINES = {True: 2, False: 1}
"""How many blank lines may follow each other between blocks, and inside of them."""
TRAILING = 2
"""Spaces between code and a comment behind it. A comment that stands further to the right keeps its column."""
_STRUCTURE = frozenset({"_NL", "_INDENT", "_DEDENT", "$END"})
_OPEN, _CLOSE = ("LPAR", "LSQB"), ("RPAR", "RSQB")
_COMMENT = re.compile(r'"[^"\n]*"|(#[^\n]*)')


class Unfaithful(Exception):
    """The formatted text would mean something else. This is a fault of the formatter, not of the text."""


def formatted(text: str, name: str = "<text>") -> str:
    """Returns the text in the style of the samples. Raises TileError for a text that does not parse."""
    before = parse(text, name)
    result = "\n".join(_Layout(text).lines())
    result = result + "\n" if result else ""
    if not alike(before.blocks, parse(result, name).blocks) or comments(text) != comments(result):
        raise Unfaithful(f"{name}: the formatted text differs by more than white space")
    return result


def alike(one: Any, other: Any) -> bool:
    """Whether two trees differ only in their locations."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Loc):
        return True
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict):
        return [*one] == [*other] and all(map(alike, one.values(), other.values()))
    if (names := ast.PARTS.get(type(one))) is not None:
        return all(alike(getattr(one, each), getattr(other, each)) for each in names)
    return bool(one == other)


def comments(text: str) -> list[str]:
    """Returns the comments of a text, without the spaces behind them."""
    return [found[1].rstrip() for found in _COMMENT.finditer(text) if found[1]]


class _Line(Struct):
    """A line of the result, with the number of blank lines above it. `column` is the column of a comment behind code in
    the original, and `gap` the number of columns ahead of it. Both are None for a comment on a line of its own."""

    code: str
    comment: str = ""
    blanks: int = 0
    column: int | None = None
    gap: int | None = None


class _Opened(Struct):
    """An open bracket: the column behind it, in the original and in the result."""

    old: int
    new: int


class _Layout:
    def __init__(self, text: str):
        self.text = text
        self.made: list[_Line] = []
        self.blanks = 0  # that wait for the next line
        self.opened: list[_Opened] = []
        self.columns = [0]  # by level, the column of its lines in the original
        self.shift = 0  # of the statement's first line, to the right

    def lines(self) -> list[str]:
        found, end, level = self._significant(), 0, 0
        spaces = self._spaces(found)
        for (token, new_level), space in zip(found, spaces, strict=True):
            start = token.start_pos or 0
            pieces = self.text[end:start].split("\n")
            if new_level is not None:
                self._statement(pieces, end, level, new_level)
                level = new_level
            elif len(pieces) > 1:
                self._continuation(pieces, end, token.type in _CLOSE)
            elif space:
                self.made[-1].code += " "
            self._add(token, start)
            end = token.end_pos or 0
        self._between(
            [*self.text[end:].split("\n"), ""], end, lambda column: self._comment_level(column, level, 0), True
        )
        return self._joined()

    def _significant(self) -> list[tuple[Token, int | None]]:
        """Returns the tokens of code. The first one of a statement comes with its level, the others with None."""
        found: list[tuple[Token, int | None]] = []
        level, starts = 0, True
        for token in tokens(self.text):
            level += (token.type == "_INDENT") - (token.type == "_DEDENT")
            starts |= token.type == "_NL"
            if token.type not in _STRUCTURE:
                found.append((token, level if starts else None))
                starts = False
        return found

    @staticmethod
    def _spaces(found: list[tuple[Token, int | None]]) -> list[bool]:
        in_schedule, blocks = False, []
        for token, level in found:
            if level == 0:
                in_schedule = token.type == "SCHEDULE"
            blocks.append(in_schedule and level != 0)
        return spaces_between([token for token, _ in found], [level is not None for _, level in found], blocks)

    def _statement(self, pieces: list[str], end: int, before: int, level: int) -> None:
        self._between(pieces, end, lambda column: self._comment_level(column, before, level), level == 0)
        width = _width(pieces[-1])
        del self.columns[level:]
        self.columns.append(width)
        self.shift = level * INDENT - width
        self._begin(level * INDENT)

    def _continuation(self, pieces: list[str], end: int, closes: bool) -> None:
        """Begins a line inside of brackets."""
        self._between(pieces, end, self._continued, False)
        self._begin(self._continued(_width(pieces[-1]), closes))

    def _continued(self, column: int, closes: bool = False) -> int:
        """Returns the new column of a line inside of brackets. If it is aligned with a bracket, it stays so. Otherwise
        it moves with the statement."""
        for each in reversed(self.opened):
            if column == each.old:
                return each.new
        least = (len(self.columns) - closes) * INDENT
        return max(column + self.shift, least)

    def _comment_level(self, column: int, before: int, level: int) -> int:
        """Returns the new column of a comment between statements of the levels `before` and `level`. Where a block
        ends, the comment belongs to one of the blocks around it."""
        fitting = (each for each in range(before, level, -1) if self.columns[each] <= column)
        return next(fitting, level) * INDENT

    def _begin(self, column: int) -> None:
        self.made.append(_Line(" " * column, blanks=self.blanks))
        self.blanks = 0

    def _add(self, token: Token, start: int) -> None:
        self.made[-1].code += str(token)
        if token.type in _OPEN:
            self.opened.append(_Opened(self._column(start + 1), len(self.made[-1].code)))
        elif token.type in _CLOSE:
            self.opened.pop()

    def _column(self, offset: int) -> int:
        return _width(self.text[self.text.rfind("\n", 0, offset) + 1 : offset])

    def _between(self, pieces: list[str], end: int, column_of: Callable[[int], int], outside: bool) -> None:
        """Adds what is between two lines of code: the comment behind the first one, blank lines, and comments. `pieces`
        is the text from the offset `end`, by lines. The last one is the indentation of the second line."""
        if end:
            comment = pieces[0].strip()
            if comment:
                column = self._column(end + pieces[0].index("#"))
                self.made[-1].comment = comment
                self.made[-1].column, self.made[-1].gap = column, column - self._column(end)
            pieces = pieces[1:]
        for piece in pieces[:-1]:
            comment = piece.strip()
            if comment:
                self._comment(comment, _width(piece[: piece.index("#")]), column_of)
            elif self.made:
                self.blanks = min(self.blanks + 1, BLANK_LINES[outside])

    def _comment(self, comment: str, column: int, column_of: Callable[[int], int]) -> None:
        """Adds a comment on a line of its own. It may go on with the comment behind the code above."""
        above = self.made[-1] if self.made and not self.blanks else None
        if above is not None and above.column == column:
            self.made.append(_Line("", comment, 0, column))
        else:
            self.made.append(_Line(" " * column_of(column), comment, self.blanks))
        self.blanks = 0

    def _joined(self) -> list[str]:
        found: list[str] = []
        number = 0

        def group_of(line: _Line) -> tuple[int, int | None]:
            # Comments of neighbouring lines that are aligned stay so.
            nonlocal number
            number += line.column is None or bool(line.blanks)
            return number, line.column

        for (_, column), each in groupby(self.made, group_of):
            group = [*each]
            if column is not None:
                least = max(len(line.code) for line in group) + TRAILING
                is_near = min(line.gap for line in group if line.gap is not None) <= TRAILING
                column = least if is_near else max(column, least)
            for line in group:
                found += [""] * line.blanks
                found.append((line.code if column is None else line.code.ljust(column)) + line.comment)
        return found


def _width(indentation: str) -> int:
    return len(indentation.expandtabs(TAB))
