"""A launch with arguments of the class of the last one: the shortest way from a call to the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dsl.runtime.frameworks import Framework, Recogniser, unrecognised

Again = Callable[[Sequence[Any]], bool]
"""(arrays) → whether they were of its class, and are launched; else nothing was done."""


Changed = Callable[[list[Any]], object]
"""(the arrays that were written) → nothing."""


def never(arguments: Sequence[Any]) -> bool:
    """The Again of what has none."""
    return False


def unread(x: Any) -> int:
    """The `pointer` of a class that recognises no arrays."""
    raise TypeError(x)


class Repeated:
    """The launches of a class. recognise: arrays of it; pointer: the address of one that was recognised."""

    recognise: Recogniser = staticmethod(unrecognised)
    pointer: Callable[[Any], int] = staticmethod(unread)
    changed: Changed | None = None
    """Tells a framework which arrays were written; None where it need not know."""
    places: tuple[int, ...] = ()
    """Which of a launch's tensors those are."""

    def again(self, rest: Sequence[Any] = ()) -> Again:
        """What checks, packs and launches arrays of the class, and no others: `never` where there is no short way.
        `rest`: the values of scalars and tables, as `ParamLayout` packs them."""
        return never

    def recognises(self, framework: Framework, tensors: Sequence[Any]) -> None:
        """Its arrays are all of one framework: those of the first call are `tensors`."""
        self.recognise = framework.recogniser(tensors)
        if self.recognise is not unrecognised:
            self.pointer = framework.pointer()

    def tells(self, frameworks: Sequence[Framework], written: Sequence[bool]) -> None:
        """Its launches tell of what they have written. frameworks: that of each tensor; written: whether the kernel
        writes it."""
        told = [(each.changed(), i) for i, (each, is_one) in enumerate(zip(frameworks, written, strict=True)) if is_one]
        known = {changed: None for changed, _ in told if changed is not None}
        self.changed, self.places = next(iter(known), None), tuple(i for changed, i in told if changed is not None)
