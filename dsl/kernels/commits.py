"""`commit()` twice in a row: the second closes a group of nothing, and every wait(n) after it waits for a copy more."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from dsl.text import tree as ast
from dsl.values.table import ROWS
from lowering.location import TileError

GROUPS = frozenset({"copy", "commit", "wait"})


def double_commits(body: list[ast.Statement]) -> Iterator[TileError]:
    """An error for each commit() that follows another one with nothing between that copies, waits, or may do so.

    Only the text counts: what some constants leave out, a branch or a loop that holds a copy, may leave a group empty
    that has to be closed all the same, so that the count of groups is right.
    """
    events = [statement for statement in body if any(map(_concerns_groups, _called(statement)))]
    for before, statement in pairwise(events):
        if _is_commit(before) and _is_commit(statement):
            yield _error(statement)
    for statement in body:
        for name in ("then", "otherwise", "body"):
            inner = getattr(statement, name, None)
            if isinstance(inner, list):
                yield from double_commits(inner)
        if isinstance(statement, ast.For | ast.While):
            turn = [each for each in statement.body if any(map(_concerns_groups, _called(each)))]
            if len(turn) > 1 and _is_commit(turn[0]) and _is_commit(turn[-1]):
                yield _error(turn[0])


def _error(statement: ast.Statement) -> TileError:
    message = "this commit() closes a group without copies: nothing is copied since the commit() before it"
    hint = "wait(n) counts that group too, and waits for a copy more; one commit() closes all copies before it"
    return TileError("instruction", statement.loc, message, hint)


def _concerns_groups(name: str) -> bool:
    """Does a call of this name copy, commit or wait, or may it, as a function of the file's own?"""
    return name in GROUPS or name not in ROWS


def _is_commit(statement: ast.Statement) -> bool:
    return isinstance(statement, ast.ExprStatement) and list(_called(statement)) == ["commit"]


def _called(node: Any) -> Iterator[str]:
    """Names of the functions that are called anywhere in a part of the tree."""
    if isinstance(node, list | tuple):
        for each in node:
            yield from _called(each)
    elif isinstance(node, dict):
        yield from _called(list(node.values()))
    elif dataclasses.is_dataclass(node) and type(node).__module__ == ast.__name__:
        if isinstance(node, ast.Call) and isinstance(node.function, ast.Name):
            yield node.function.id
        for part in dataclasses.fields(node):
            yield from _called(getattr(node, part.name))
