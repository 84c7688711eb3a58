"""The table of the language's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Handler = Callable[..., Any]
BUILTINS: dict[str, Handler] = {}


def function(*names: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for name in names:
            BUILTINS[name] = handler
        return handler

    return register


FAMILIES: dict[str, Callable[[str], Handler | None]] = {}
"""Functions named after instructions: what the names begin with → the handler of a whole name, or None."""


def family(prefix: str) -> Callable[[Callable[[str], Handler | None]], Callable[[str], Handler | None]]:
    def register(find: Callable[[str], Handler | None]) -> Callable[[str], Handler | None]:
        FAMILIES[prefix] = find
        return find

    return register


def find(name: str) -> Handler | None:
    """The handler of a function of the language, by its whole name."""
    handler = BUILTINS.get(name)
    if handler is None:
        for prefix, member in FAMILIES.items():
            if name.startswith(prefix):
                handler = member(name)
    return handler


def takes_syntax(handler: Handler) -> Handler:
    handler.takes_syntax = True  # type: ignore[attr-defined]
    return handler
