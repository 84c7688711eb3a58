"""Decides between which tokens of a line the formatter puts a space."""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token
from msgspec import Struct

_OPEN, _CLOSE = ("LPAR", "LSQB"), ("RPAR", "RSQB")
_OPERANDS = ("NAME", "NUMBER", "STRING", "RPAR", "RSQB")
"""A bracket behind these is that of a call or of an index."""
_HEADS = ("KERNEL", "DEF")
_TIGHT_PREFIXES = ("-", "~")


class _Bracket(Struct):
    """An open bracket. `is_head` says whether it has the parameters of a kernel or function. `types` says whether type
    names follow, as in `T in f16|bf16`."""

    kind: str
    is_head: bool = False
    types: bool = False


class _Statement:
    """What is known of a statement up to a token."""

    def __init__(self, first: Token, in_schedule: bool):
        self.first, self.in_schedule = first, in_schedule
        self.brackets: list[_Bracket] = []
        self.launches = False  # constants of a launch follow
        self.has_colon = False

    @property
    def inner(self) -> _Bracket | None:
        return self.brackets[-1] if self.brackets else None

    def pass_over(self, token: Token) -> None:
        inner = self.inner
        if token.type in _OPEN:
            is_head = inner is None and self.first.type in _HEADS and token.type == "LPAR"
            self.brackets.append(_Bracket(token.type, is_head))
        elif token.type in _CLOSE:
            self.brackets.pop()
        elif inner is None:
            self.launches |= token.type == "WITH"
            self.has_colon |= token.type == "COLON"
        elif inner.is_head:
            inner.types = token.type == "IN" or (inner.types and token.type not in ("COMMA", "EQUAL"))

    def takes_list(self, before: Token) -> bool:
        """Whether a bracket behind the name `before` is a value, not an index: `contiguous [2, 1]`, `vector [1, 8]`."""
        if not self.in_schedule or self.brackets or before.type != "NAME":
            return False
        return before is self.first or (self.first.type == "LAYOUT" and self.has_colon)

    def joins(self, token: Token, before: Token, after: Token | None) -> bool:
        """Whether `=`, `|` or `:` joins what stands on both sides."""
        inner = self.inner
        if token.type == "EQUAL":
            return self.launches if inner is None else inner.kind == "LPAR" and not inner.is_head
        if token.type == "OPERATOR":
            return inner is not None and inner.types
        if token.type == "COLON" and inner is not None and inner.kind == "LSQB":
            return before.type in ("LSQB", "COMMA") or (after is None or after.type in ("RSQB", "COMMA"))
        return False


def spaces_between(found: Sequence[Token], starts: Sequence[bool], in_schedule: Sequence[bool]) -> list[bool]:
    """Returns for each token whether a space precedes it, if it does not begin a line. `starts` says which tokens begin
    statements, and `in_schedule` which are lines of schedules."""
    spaces = []
    statement = None
    joined = False  # the token before joins its neighbours
    for at, token in enumerate(found):
        if statement is None or starts[at]:
            statement = _Statement(token, in_schedule[at])
            spaces.append(False)
            joined = _joins_next(token)
            statement.pass_over(token)
            continue
        before = found[at - 1]
        joins = statement.joins(token, before, found[at + 1] if at + 1 < len(found) else None)
        is_slice = token.type == "COLON" and joins
        tight = joined or (joins and not (is_slice and before.type == "COMMA"))
        spaces.append(not tight and _apart(statement, before, token))
        joined = joins or _joins_next(token)
        statement.pass_over(token)
    return spaces


def _joins_next(token: Token) -> bool:
    return token.type in (*_OPEN, "DOT") or (token.type == "PREFIX" and token in _TIGHT_PREFIXES)


def _apart(statement: _Statement, before: Token, token: Token) -> bool:
    """Whether two tokens have a space between them, if neither of them joins its neighbours."""
    if token.type in _OPEN:
        return before.type not in _OPERANDS or statement.takes_list(before)
    if token.type == "DOT":
        # `2.to` would be the number `2.` and a name.
        return before.isdigit()
    if token.type == "COLON":
        return statement.inner is not None and statement.inner.kind == "LSQB"
    return token.type not in (*_CLOSE, "COMMA", "SEMICOLON", "OPTIONAL")
