"""`commit()` twice in a row: the second closes a group of nothing, and every wait(n) after it waits for a copy more."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from dsl.lowering.ir.location import TileError
from dsl.text import tree as ast
from dsl.text.program import Program
from dsl.values.table import ROWS

GROUPS = frozenset({"copy", "commit", "wait"})


def repeated_commits(program: Program, kernel: str) -> list[TileError]:
    """The errors of a kernel and of all functions that it may call."""
    body = program.kernels[kernel].body
    if program.kernels[kernel].loc.source.text.count("commit()") < 2:
        return []
    bodies = [body, *(each.body for each in program.functions.values())]
    return [error for each in bodies for error in double_commits(each)]


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
    for part in ast.walk([node]):
        if isinstance(part, ast.Call) and isinstance(part.function, ast.Name):
            yield part.function.id
