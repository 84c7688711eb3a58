"""Classes of calls. The calls of a class differ only in the addresses of their arguments. They share one prepared
object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")


class CallClasses(dict[Any, Made]):
    """Prepared objects of call classes, by the signature of the arguments. The least recently used class comes first.

    `ways` holds a function for each of the latest classes. The function launches if it recognises the arguments of its
    class, and returns whether it has launched."""

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
        """Adds a class. If there are then more than `most` classes, the method drops the least recently used class for
        which `stays` is false."""
        self[signature] = made
        if len(self) > most:
            self.pop(next((old for old, each in self.items() if not stays(each)), None), None)
        return made

    def remember(self, way: Callable[..., bool], most: int) -> None:
        self.ways[:] = [way, *self.ways[: most - 1]]
