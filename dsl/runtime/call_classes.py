"""Classes of calls: what serves calls whose arguments differ in their addresses alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")


class CallClasses(dict[Any, Made]):
    """What serves each class of calls, found by two keys. By the signature of its arguments any of them is, the one
    that was not used for longest first; the last ones also by their `ways`, which recognise arguments and launch at
    once: whether one did is what it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.ways: list[Callable[..., bool]] = []

    def find(self, signature: Any) -> Made | None:
        made = self.pop(signature, None)
        if made is not None:
            self[signature] = made
        return made

    def keep(self, signature: Any, made: Made, most: int, stays: Callable[[Made], object] = lambda made: None) -> Made:
        """Keeps one more; beyond `most` without the one that was not used for longest, of those that need not stay."""
        self[signature] = made
        if len(self) > most:
            self.pop(next((old for old, each in self.items() if not stays(each)), None), None)
        return made

    def remember(self, way: Callable[..., bool], most: int) -> None:
        self.ways[:] = [way, *self.ways[: most - 1]]
