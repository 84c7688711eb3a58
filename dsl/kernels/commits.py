"""Checks for two `commit()` calls with no copy between them. The second call closes an empty group of copies. Then
every later wait(n) waits for one copy more than intended."""

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
    """Returns an error for each repeated commit() in a kernel or in any function of the program."""
    body = program.kernels[kernel].body
    # Few kernels have two commits. Counting them first avoids a walk over all functions.
    if program.kernels[kernel].loc.source.text.count("commit()") < 2:
        return []
    bodies = [body, *(each.body for each in program.functions.values())]
    return [error for each in bodies for error in double_commits(each)]


def double_commits(body: list[ast.Statement]) -> Iterator[TileError]:
    """Yields an error for each commit() that follows another commit(), if no statement between the two may copy or
    wait. Only the text is checked. A copy in a branch or loop between the two also prevents the error, even if some
    constants skip it. For these constants, the second commit() keeps the number of groups the same."""
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
            # The end of a loop's body is followed by its start.
            turn = [each for each in statement.body if any(map(_concerns_groups, _called(each)))]
            if len(turn) > 1 and _is_commit(turn[0]) and _is_commit(turn[-1]):
                yield _error(turn[0])


def _error(statement: ast.Statement) -> TileError:
    message = "this commit() closes an empty group: nothing was copied since the commit() before it"
    hint = "wait(n) counts that group too, and waits for a copy more; one commit() closes all copies before it"
    return TileError("instruction", statement.loc, message, hint)


def _concerns_groups(name: str) -> bool:
    """Whether a call of this function may copy, commit or wait. Any function that is not built in may do so."""
    return name in GROUPS or name not in ROWS


def _is_commit(statement: ast.Statement) -> bool:
    return isinstance(statement, ast.ExprStatement) and list(_called(statement)) == ["commit"]


def _called(node: Any) -> Iterator[str]:
    for part in ast.walk([node]):
        if isinstance(part, ast.Call) and isinstance(part.function, ast.Name):
            yield part.function.id
