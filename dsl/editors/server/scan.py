"""Splits a text into blocks and finds the names in them: which of them a block binds, and what the others belong to.

It reads tokens and not the syntax tree, so it also works for a text with syntax errors. A name stands in a role. Most
are plain: a variable, a parameter, a function. Others are named for another block: `axis` in `sum(x, axis=1)`, `TM` in
`k(x) with TM=64`, a schedule, or the tile of a kernel in a contract.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct, field

from dsl.text.contracts import NAMES as TERMS
from dsl.text.syntax_errors import BLOCKS, block_starts

_PIECE = re.compile(
    r'(?P<string>"[^"\n]*"?)|(?P<comment>#[^\n]*)|(?P<name>[A-Za-z_]\w*)|(?P<number>\d[\w.]*|\.\d\w*)'
    r"|(?P<newline>\n)|(?P<sign>\.\.\.|[-+*/%@|^&<>=!~]+|\S)"
)
PLAIN, ARGUMENT, CONSTANT, SCHEDULE, SUBJECT, MEMBER = "plain", "argument", "constant", "schedule", "subject", "member"
"""Roles of names: `ARGUMENT` is the name of an argument of a call, `CONSTANT` is set by a launch, `SUBJECT` is a value
of a kernel in a contract or in the key of a choice, and `MEMBER` follows a dot."""
HEAD, LAUNCHED = "block", "launched"
"""The field `of` of a plain name that is the name of a block: in its first line, and in a launch. A variable of the
same name does not hide it there."""


class Piece(Struct, frozen=True):
    """A token."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class NameUse(Struct, frozen=True):
    """A name at a place. `of` is the callee of an argument, the launched block of a constant, or what precedes the dot
    of a member. `binds` says whether the name is defined here."""

    name: str
    start: int
    role: str = PLAIN
    of: str = ""
    binds: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.name)


class ScannedBlock(Struct, eq=False):
    """A block: its word, its name, and the names in it. `kernels` are those of a schedule, `launched` are the blocks
    that a dispatch or an example launches. Of these, `by_name` are those without arguments, which get arguments by the
    names of their parameters. `included` are the schedules of `like`, and `rest` are functions that are called with
    `...`, which get the constants of the block by their names. `called` are all callees."""

    kind: str
    name: str
    start: int
    end: int
    uses: list[NameUse] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    launched: list[str] = field(default_factory=list)
    by_name: list[str] = field(default_factory=list)
    included: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    head: set[str] = field(default_factory=set)  # the names that the first line binds
    facts: set[str] = field(default_factory=set)  # those of them that a launch knows: dims, types, constants

    @property
    def bound(self) -> set[str]:
        return {use.name for use in self.uses if use.binds and use.role == PLAIN and use.of != HEAD}

    def mentions(self, name: str) -> bool:
        return any(use.name == name and use.role in (PLAIN, SUBJECT) for use in self.uses)


def pieces_of(text: str, start: int = 0, end: int | None = None) -> Iterator[Piece]:
    for found in _PIECE.finditer(text, start, len(text) if end is None else end):
        yield Piece(found.lastgroup or "", found[0], found.start())


def blocks_of(text: str) -> list[ScannedBlock]:
    starts = [*block_starts(text), len(text)]
    found = []
    for start, end in pairwise(starts):
        pieces = [each for each in pieces_of(text, start, end) if each.kind != "comment"]
        if pieces and pieces[0].text in BLOCKS:
            found.append(_Scan(pieces, start, end).block)
    return found


class _ScannedBracket(Struct):
    sign: str
    callee: str
    is_head: bool
    constants: bool = False  # behind the `;` of a head, or of a tensor's type


class _Scan:
    def __init__(self, pieces: list[Piece], start: int, end: int):
        self.pieces = pieces
        self.at = 0
        self.brackets: list[_ScannedBracket] = []
        named = len(pieces) > 1 and pieces[1].kind == "name"
        self.block = ScannedBlock(pieces[0].text, pieces[1].text if named else "", start, end)
        self.in_head = True
        self.line: list[Piece] = []  # of the statement, up to here
        self.launch = ""  # the block that a line launches, once its `with` has been read
        for self.at, piece in enumerate(pieces):
            self._take(piece)

    def _near(self, distance: int) -> Piece | None:
        at = self.at + distance
        while 0 <= at < len(self.pieces) and self.pieces[at].kind == "newline" and self.brackets:
            at += 1 if distance > 0 else -1
        return self.pieces[at] if 0 <= at < len(self.pieces) else None

    def _is(self, distance: int, text: str) -> bool:
        near = self._near(distance)
        return near is not None and near.text == text

    def _callee(self) -> str:
        """Returns the name ahead of a bracket, with what precedes its dots."""
        name, distance = "", -1
        while (near := self._near(distance)) is not None and near.kind == "name":
            name = f"{near.text}.{name}" if name else near.text
            if not self._is(distance - 1, "."):
                return name
            distance -= 2
        return f".{name}" if name else ""  # a method, as in `f(x).to(…)`

    def _take(self, piece: Piece) -> None:
        if piece.kind == "newline":
            if not self.brackets:
                self.line, self.launch, self.in_head = [], "", False
            return
        if piece.text in ("(", "["):
            callee = self._callee()
            self.block.called += [callee] if callee and piece.text == "(" else []
            is_head = self.in_head and not self.brackets and piece.text == "(" and self.block.kind in ("kernel", "def")
            is_head |= self.in_head and not self.brackets and self.block.kind == "dispatch" and len(self.line) == 2
            self.brackets.append(_ScannedBracket(piece.text, callee, is_head))
        elif piece.text in (")", "]"):
            if self.brackets:
                self.brackets.pop()
        elif piece.text == ";" and self.brackets:
            self.brackets[-1].constants = True
        elif piece.text == "..." and self.brackets:
            self.block.rest.append(self.brackets[-1].callee)
        elif piece.kind == "name":
            self._name(piece)
        self.line.append(piece)
        if piece.text == ":" and not self.brackets:
            if self.block.kind in ("kernel", "def", "dispatch"):
                self.line = []  # a statement may follow on the line
            self.in_head = False

    def _name(self, piece: Piece) -> None:
        use = self._use(piece)
        if use is None:
            return
        self.block.uses.append(use)
        if use.binds and self.in_head and use.of != HEAD:
            self.block.head.add(use.name)
            if len(self.brackets) > 1 or self.brackets[-1].constants:
                self.block.facts.add(use.name)

    def _use(self, piece: Piece) -> NameUse | None:
        name, start = piece.text, piece.start
        first = self.line[0].text if self.line else ""
        if self._is(-1, ".") and not self._is(-1, "..."):
            return self._member(name, start, first)
        if self.in_head and len(self.line) < 2:
            return self._of_head(name, start)
        if self.in_head and self.block.kind == "schedule" and not self.brackets:
            if name != "of":
                self.block.kernels.append(name)
                return NameUse(name, start)
            return None
        inner = self.brackets[-1] if self.brackets else None
        if self._is(1, "=") and inner is not None and inner.sign == "(" and not inner.is_head:
            return NameUse(name, start, ARGUMENT, inner.callee)
        if inner is not None and inner.callee in TERMS and first == "expect":
            return NameUse(name, start, SUBJECT)
        if special := self._of_line(name, start, first, inner):
            return special
        return NameUse(name, start, PLAIN, "", self._binds(name, first, inner))

    def _member(self, name: str, start: int, first: str) -> NameUse:
        base = self._near(-2)
        of = base.text if base is not None and base.kind == "name" else ""
        words = [each.text for each in self.line]
        if first == "like":
            self.block.included.append(name)
            return NameUse(name, start, SCHEDULE, of)
        if not self.brackets and ("choose" in words or "choice" in words) and "in" not in words and ":" not in words:
            return NameUse(name, start, SUBJECT)
        return NameUse(name, start, MEMBER, of)

    def _of_head(self, name: str, start: int) -> NameUse | None:
        if not self.line:
            return None  # the word of the block
        kind = self.block.kind
        if kind == "example":
            return None
        role = SCHEDULE if kind == "schedule" else PLAIN
        return NameUse(name, start, role, HEAD, binds=True)

    def _of_line(self, name: str, start: int, first: str, inner: _ScannedBracket | None) -> NameUse | None:
        """Names of schedules, constants that launches set, and the words of a layout."""
        if first == "layout" and inner is None and self._is(1, "["):
            return NameUse(name, start, MEMBER, first)
        if first == "like" and inner is None and not self._is(1, "."):
            self.block.included.append(name)
            return NameUse(name, start, SCHEDULE)
        if self._is(-1, "with") and inner is not None:
            before = self._near(-2)  # fits(kernel with schedule)
            return NameUse(name, start, SCHEDULE, before.text if before is not None else "")
        if name == "with" and inner is None and self.line:
            self.launch = self.line[0].text
        elif self.launch and inner is None and (self._is(-1, "with") or self._is(-1, ",")):
            if self._is(1, "="):
                return NameUse(name, start, CONSTANT, self.launch)
            if not self._is(1, "."):
                return NameUse(name, start, SCHEDULE, self.launch)
        if self.block.kind in ("dispatch", "example") and not self.line and not self.in_head:
            after = self._near(1)
            if after is None or after.text in ("(", "with") or after.kind == "newline":
                self.block.launched.append(name)
                if after is None or after.text != "(":
                    self.block.by_name.append(name)
                return NameUse(name, start, PLAIN, LAUNCHED)
        return None

    def _binds(self, name: str, first: str, inner: _ScannedBracket | None) -> bool:
        if self.in_head and self.block.kind in ("kernel", "def", "dispatch"):
            return self._binds_in_head(inner)
        before = self._near(-1)
        if first in ("for", "tune", "option", "def", "shared") and inner is None:
            if first == "shared":
                return not any(each.text == ":" for each in self.line)
            return before is not None and before.text in (first, "static")
        if first == "def" and len(self.brackets) == 1:
            return before is not None and before.text in ("(", ",", ";")
        # `a, b = …`: nothing but names and commas up to the sign.
        if inner is not None or any(each.kind != "name" and each.text != "," for each in self.line):
            return False
        if any(each.kind == "name" for each in self.line[-1:]):
            return False
        at = self.at + 1
        while at + 1 < len(self.pieces) and self.pieces[at].text == "," and self.pieces[at + 1].kind == "name":
            at += 2
        sign = self.pieces[at].text if at < len(self.pieces) else ""
        return sign == "=" or (sign.endswith("=") and sign[:-1] in ("**", "//", "<<", ">>", *"-+*/%@|^&"))

    def _binds_in_head(self, inner: _ScannedBracket | None) -> bool:
        if inner is None:
            return False
        before = self._near(-1)
        starts = before is not None and before.text in ("(", ",", ";")
        if inner.is_head:
            return starts and not self._is(1, "(")
        # A dim of a tensor: `x: f32[n, m; strided]`, `f32[n = m - 2]`.
        is_type = len(self.brackets) == 2 and inner.sign == "[" and not self.brackets[0].constants
        starts = before is not None and before.text in ("[", ",")
        alone = self._is(1, ",") or self._is(1, "]") or self._is(1, ";") or self._is(1, "=")
        return is_type and starts and alone and not inner.constants and self.block.kind == "kernel"
