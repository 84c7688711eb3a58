"""Caches prepared launches. Calls whose arguments have the same signature form a class and share one prepared
launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")


class CallClasses(dict[Any, Made]):
    """Maps the signature of a call's arguments to the prepared launch of its class. The least recently used class comes
    first.

    `ways` contains one function for each of the most recent classes. Such a function launches if its arguments belong
    to its class. It returns whether it has launched."""

    def __init__(self) -> None:
        super().__init__()
        self.ways: list[Callable[..., bool]] = []

    def find(self, signature: Any) -> Made | None:
        # Remove the entry and add it again. A dict keeps insertion order, so its first key is the least recently used.
        made = self.pop(signature, None)
        if made is not None:
            self[signature] = made
        return made

    def keep(self, signature: Any, made: Made, most: int, stays: Callable[[Made], object] = lambda made: None) -> Made:
        """Adds a class. If there are then more than `most` classes, removes the least recently used class for which
        `stays` returns false."""
        self[signature] = made
        if len(self) > most:
            self.pop(next((old for old, each in self.items() if not stays(each)), None), None)
        return made

    def remember(self, way: Callable[..., bool], most: int) -> None:
        self.ways[:] = [way, *self.ways[: most - 1]]
