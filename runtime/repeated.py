"""A launch with arguments of the class of the last one: the shortest way from a call to the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runtime.frameworks import Framework, Recogniser, unrecognised

Again = Callable[[Sequence[Any]], bool]
"""(arguments) → whether they were of its class, and are launched; else nothing was done."""


def never(arguments: Sequence[Any]) -> bool:
    """The Again of what has none."""
    return False


def unread(x: Any) -> int:
    """The `pointer` of a class that recognises no arrays."""
    raise TypeError(x)


class Repeated:
    """The launches of a class. recognise: arrays of it; pointer: the address of one that was recognised; again: checks,
    packs and launches such arrays, where there is a short way."""

    recognise: Recogniser = staticmethod(unrecognised)
    pointer: Callable[[Any], int] = staticmethod(unread)
    again: Again = staticmethod(never)

    def recognises(self, framework: Framework, tensors: Sequence[Any]) -> None:
        """Its arrays are all of one framework: those of the first call are `tensors`."""
        self.recognise = framework.recogniser(tensors)
        if self.recognise is not unrecognised:
            self.pointer = framework.pointer()
