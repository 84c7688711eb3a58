"""Searches and models of the user's own: what they raise, give or never end is told at their line."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dsl.lowering.ir.location import Loc, Source, TileError
from dsl.lowering.ir.plugins import guarded, of_line

OURS = "dsl.lab."


def is_anew(known: type, made: type) -> bool:
    """Whether a class is what a file of the user's, which is read again, has in place of another one."""
    return known is not made and known.__module__ == made.__module__ and not made.__module__.startswith(OURS)


@contextmanager
def called(of: Any, method: str) -> Iterator[None]:
    """A call of a method of an object, or of a class of theirs. TileError `plugin` where it is not of this package."""
    made = of if isinstance(of, type) else type(of)
    if made.__module__.startswith(OURS):
        yield
        return
    with guarded(place_of(made, method), f"'{made.__name__}.{method}'"):
        yield


def wrong(of: Any, method: str, message: str, hint: str | None = None) -> TileError:
    """The error for what a method gave."""
    made = type(of)
    return TileError("plugin", place_of(made, method), f"'{made.__name__}.{method}' {message}", hint)


def place_of(made: type, method: str) -> Loc:
    """The first line of a class's method."""
    code = getattr(getattr(made, method, None), "__code__", None)
    if code is None:
        return of_line(Source(made.__module__, ""), 1)
    text = "".join(linecache.getlines(code.co_filename))
    return of_line(Source(code.co_filename, text), code.co_firstlineno)
