"""Splits a line of the IR text into tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from dsl.lowering.ir.location import Loc, Source, TileError

T = TypeVar("T")
# The order matters: strings come before all other tokens, and `0x…` comes before numbers. `inf` and `nan` are numbers,
# so they come before words.
TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*")
      | (?P<value>%(?:\d+|(?:[A-Za-z_][A-Za-z0-9_.]*|"(?:[^"\\]|\\.)*")(?:\#\d+)?))
      | (?P<layout>\#\d+)
      | (?P<place>@(?:\d+:)?\d+:\d+\+\d+(?:<(?:\d+:)?\d+:\d+\+\d+)*)
      | (?P<bits>0x[0-9a-f]+)
      | (?P<number>-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf\b|nan\b))
      | (?P<word>[A-Za-z_][A-Za-z0-9_.]*)
      | (?P<mark>[=(){}\[\],:])
      | (?P<rest>//.*|\s+)
      | (?P<end>$)""",
    re.X,
)


class TextRow:
    """One line of the IR text. Its tokens are read from left to right."""

    def __init__(self, source: Source, start: int, text: str):
        self.source, self.start, self.text = source, start, text
        self.at = 0
        self.depth = 0
        self.next()

    def next(self) -> None:
        """Advances to the next token."""
        while True:
            self.first = self.at
            found = TOKEN.match(self.text, self.at)
            if found is None:
                self.at, self.kind = self.at + 1, "character"
                self.token = self.text[self.first]
                self.fail(f"'{self.token}' has no meaning here")
            self.at, self.kind, self.token = found.end(), found.lastgroup or "", found[0]
            if self.kind != "rest":
                return

    @property
    def loc(self) -> Loc:
        """The location of the next token."""
        return Loc(self.source, self.start + self.first, self.start + max(self.at, self.first + 1))

    def fail(self, message: str, hint: str | None = None, loc: Loc | None = None) -> NoReturn:
        raise TileError("ir", loc or self.loc, message, hint)

    def wanted(self, what: str) -> NoReturn:
        self.fail(f"{what} is wanted here; got {repr(self.token) if self.token else 'the end of the line'}")

    def take(self, kind: str, what: str) -> str:
        if self.kind != kind:
            self.wanted(what)
        token = self.token
        self.next()
        return token

    def has(self, token: str) -> bool:
        """Returns whether the next token is this mark or word. If so, the token is consumed."""
        if self.token != token or self.kind not in ("mark", "word"):
            return False
        self.next()
        return True

    def need(self, token: str) -> None:
        if not self.has(token):
            self.wanted(f"'{token}'")

    def end(self) -> None:
        if self.kind != "end":
            self.wanted("the end of the line")

    def string(self) -> str:
        try:
            return str(json.loads(self.token)) if self.kind == "string" else self.wanted("a text in quotes")
        except ValueError:
            self.fail("this is no text as JSON has it")
        finally:
            self.next()

    def name(self) -> str:
        """Consumes and returns a name: a word, or any text in quotes."""
        return self.string() if self.kind == "string" else self.take("word", "a name")

    def integer(self, least: int = 0) -> int:
        if self.kind != "number" or not self.token.removeprefix("-").isdigit() or len(self.token) > 20:
            self.wanted("a whole number")
        number = int(self.token)
        if number < least:
            self.fail(f"{number} is less than {least}")
        self.next()
        return number

    def bracketed(self, item: Callable[[], T]) -> T:
        """Consumes an item in parentheses, and returns the item."""
        self.need("(")
        made = item()
        self.need(")")
        return made

    def listed(self, item: Callable[[], T]) -> list[T]:
        """Consumes and returns one or more items separated by commas."""
        out = [item()]
        while self.has(","):
            out.append(item())
        return out

    def several(self, open: str, close: str, item: Callable[[], T]) -> list[T]:
        """Consumes `open`, items separated by commas, and `close`. Returns the items. A comma after the last item is
        allowed."""
        self.need(open)
        out: list[T] = []
        while not self.has(close):
            out.append(item())
            if not self.has(","):
                self.need(close)
                break
        return out
