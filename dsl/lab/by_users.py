"""Searches and models of plug-ins: wrong results, exceptions and endless calls are reported at their line."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dsl.lowering.ir.location import Loc, Source, TileError
from dsl.lowering.ir.plugins import guarded, of_line

OURS = "dsl.lab."


def is_anew(known: type, made: type) -> bool:
    """Whether class `made` is the same class of a plug-in as `known`, from a later reading of its file."""
    # Each load of a plug-in makes new classes.
    return known is not made and known.__module__ == made.__module__ and not made.__module__.startswith(OURS)


@contextmanager
def called(of: Any, method: str) -> Iterator[None]:
    """Around a call of a method of an object or class. TileError `plugin` if the class is a plug-in's and fails."""
    made = of if isinstance(of, type) else type(of)
    # Our own classes are not guarded: their errors are internal ones, with a traceback.
    if made.__module__.startswith(OURS):
        yield
        return
    with guarded(place_of(made, method), f"'{made.__name__}.{method}'"):
        yield


def wrong(of: Any, method: str, message: str, hint: str | None = None) -> TileError:
    """The error for a wrong result of a method, at the method's line."""
    made = type(of)
    return TileError("plugin", place_of(made, method), f"'{made.__name__}.{method}' {message}", hint)


def place_of(made: type, method: str) -> Loc:
    """The first line of a class's method."""
    code = getattr(getattr(made, method, None), "__code__", None)
    # A class may inherit the method from C code, or lack it.
    if code is None:
        return of_line(Source(made.__module__, ""), 1)
    text = "".join(linecache.getlines(code.co_filename))
    return of_line(Source(code.co_filename, text), code.co_firstlineno)
