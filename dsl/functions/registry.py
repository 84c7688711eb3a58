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


def takes_syntax(handler: Handler) -> Handler:
    handler.takes_syntax = True  # type: ignore[attr-defined]
    return handler
