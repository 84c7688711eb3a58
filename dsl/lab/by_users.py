"""Calls the searches and cost models of plug-ins.

Wrong results, exceptions and endless calls are reported at the plug-in's line.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from dsl.lowering.ir.location import Loc, Source, TileError, closest
from dsl.lowering.ir.plugins import guarded, of_line

OURS = "dsl.lab."
Class = TypeVar("Class", bound=type)
Base = TypeVar("Base")


def is_anew(known: type, made: type) -> bool:
    """Whether `made` is the class `known`, defined again because the plug-in's file was loaded again."""
    # Each load of a plug-in defines new classes.
    return known is not made and known.__module__ == made.__module__ and not made.__module__.startswith(OURS)


def registered(known: dict[str, Any], name: str, base: type[Any], what: str) -> Callable[[Class], Class]:
    """Returns a decorator that adds a class derived from `base` to `known`. `what` names such a class in messages.

    The decorator raises ValueError if another file has registered the name, and TypeError for anything but such a
    class.
    """

    def register(made: Class) -> Class:
        if not isinstance(made, type) or not issubclass(made, base):
            raise TypeError(f"{made!r:.60} is no class derived from {base.__name__}")
        # Loading a plug-in's file again replaces its own class.
        if name in known and not is_anew(known[name], made):
            raise ValueError(f"there is a {what} '{name}' already: {known[name].__module__}")
        known[name] = made
        return made

    return register


def class_named(known: Mapping[str, type[Base]], name: str, what: str) -> type[Base]:
    """The class registered under this name. Raises a TileError `option` for an unknown name."""
    if name not in known:
        hint = closest(name, known) or f"known: {', '.join(known)}"
        raise TileError("option", None, f"there is no {what} '{name}'", hint)
    return known[name]


@contextmanager
def called(of: Any, method: str) -> Iterator[None]:
    """A context manager in which a method is called. `of` is the object or the class that has the method.

    Raises a TileError `plugin` if the class comes from a plug-in and the call fails.
    """
    made = of if isinstance(of, type) else type(of)
    # Our own classes are not guarded. Their errors are internal errors and show a traceback.
    if made.__module__.startswith(OURS):
        yield
        return
    with guarded(place_of(made, method), f"'{made.__name__}.{method}'"):
        yield


def wrong(of: Any, method: str, message: str, hint: str | None = None) -> TileError:
    """Returns the error for a wrong result of a plug-in's method, located at the method's line."""
    made = type(of)
    return TileError("plugin", place_of(made, method), f"'{made.__name__}.{method}' {message}", hint)


def place_of(made: type, method: str) -> Loc:
    """The location of a method's first line."""
    code = getattr(getattr(made, method, None), "__code__", None)
    # The method may be inherited from C code, or missing.
    if code is None:
        return of_line(Source(made.__module__, ""), 1)
    text = "".join(linecache.getlines(code.co_filename))
    return of_line(Source(code.co_filename, text), code.co_firstlineno)
