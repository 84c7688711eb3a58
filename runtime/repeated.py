"""A launch with arguments of the class of the last one: the shortest way from a call to the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runtime.frameworks import Framework, Recogniser, unrecognised

Again = Callable[[Sequence[Any]], bool]
"""(arrays) → whether they were of its class, and are launched; else nothing was done."""


Tell = Callable[[Sequence[Any]], object]
"""(the tensors of a launch) → nothing."""


def never(arguments: Sequence[Any]) -> bool:
    """The Again of what has none."""
    return False


def unread(x: Any) -> int:
    """The `pointer` of a class that recognises no arrays."""
    raise TypeError(x)


def telling(frameworks: Sequence[Framework], written: Sequence[bool]) -> Tell | None:
    """What tells of written tensors. frameworks: that of each tensor; written: whether the kernel writes it."""
    at: dict[Framework, list[int]] = {}
    for number, (framework, is_written) in enumerate(zip(frameworks, written, strict=True)):
        if is_written:
            at.setdefault(framework, []).append(number)
    parts = [(changed, places) for each, places in at.items() if (changed := each.changed()) is not None]
    if not parts:
        return None
    if len(parts) == 1:
        ((changed, places),) = parts
        if len(places) == 1:
            (place,) = places
            return lambda tensors: changed([tensors[place]])
        return lambda tensors: changed([tensors[i] for i in places])
    return lambda tensors: [changed([tensors[i] for i in places]) for changed, places in parts]


class Repeated:
    """The launches of a class. recognise: arrays of it; pointer: the address of one that was recognised."""

    recognise: Recogniser = staticmethod(unrecognised)
    pointer: Callable[[Any], int] = staticmethod(unread)
    tell: Tell | None = None
    """Tells frameworks that a launch has written its tensors; None where none need know."""

    def again(self, rest: Sequence[Any] = ()) -> Again:
        """What checks, packs and launches arrays of the class, and no others: `never` where there is no short way.
        `rest`: the values of scalars and tables, as `ParamLayout` packs them."""
        return never

    def recognises(self, framework: Framework, tensors: Sequence[Any]) -> None:
        """Its arrays are all of one framework: those of the first call are `tensors`."""
        self.recognise = framework.recogniser(tensors)
        if self.recognise is not unrecognised:
            self.pointer = framework.pointer()
