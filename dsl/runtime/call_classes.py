"""Classes of calls: prepared objects for calls whose arguments differ only in their addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")


class CallClasses(dict[Any, Made]):
    """Prepared objects of call classes, found in two ways: any of them by the signature of its arguments, the least
    recently used one first; the latest ones also by their `ways`, which recognise arguments and launch at once, and
    return whether they did."""

    def __init__(self) -> None:
        super().__init__()
        self.ways: list[Callable[..., bool]] = []

    def find(self, signature: Any) -> Made | None:
        # Removed and added again: a dict keeps insertion order, so the first key is the least recently used.
        made = self.pop(signature, None)
        if made is not None:
            self[signature] = made
        return made

    def keep(self, signature: Any, made: Made, most: int, stays: Callable[[Made], object] = lambda made: None) -> Made:
        """Adds a class; beyond `most` drops the least recently used one of those that need not stay."""
        self[signature] = made
        if len(self) > most:
            self.pop(next((old for old, each in self.items() if not stays(each)), None), None)
        return made

    def remember(self, way: Callable[..., bool], most: int) -> None:
        self.ways[:] = [way, *self.ways[: most - 1]]
