"""Repeated launches of one class of arguments: the shortest path from a call to the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dsl.runtime.frameworks import Framework, Recogniser, unrecognised

Again = Callable[[Sequence[Any]], bool]
"""(arrays) → whether they belong to its class, and were launched; else nothing was done."""


Changed = Callable[[list[Any]], object]
"""(the written arrays) → nothing."""


def never(arguments: Sequence[Any]) -> bool:
    """The `Again` of a class without one."""
    return False


def unread(x: Any) -> int:
    """The `pointer` of a class that recognises no arrays."""
    raise TypeError(x)


class Repeated:
    """The launches of a class. recognise: whether arrays belong to it; pointer: the address of a recognised array."""

    recognise: Recogniser = staticmethod(unrecognised)
    pointer: Callable[[Any], int] = staticmethod(unread)
    changed: Changed | None = None
    """Reports written arrays to a framework; None if the framework need not know."""
    places: tuple[int, ...] = ()
    """The positions of these arrays among a launch's tensors."""

    def again(self, rest: Sequence[Any] = ()) -> Again:
        """A function that checks, packs and launches arrays of the class, and no others; `never` if there is no short
        path. `rest`: the values of scalars and tables, as `ParamLayout` packs them."""
        return never

    def recognises(self, framework: Framework, tensors: Sequence[Any]) -> None:
        """Takes the recogniser of a framework whose arrays are all arguments; `tensors` are those of the first call."""
        self.recognise = framework.recogniser(tensors)
        if self.recognise is not unrecognised:
            self.pointer = framework.pointer()

    def tells(self, frameworks: Sequence[Framework], written: Sequence[bool]) -> None:
        """Makes its launches report the arrays that they write. frameworks: of each tensor; written: whether the kernel
        writes it."""
        told = [(each.changed(), i) for i, (each, is_one) in enumerate(zip(frameworks, written, strict=True)) if is_one]
        # At most one framework wants to know: torch.
        known = {changed: None for changed, _ in told if changed is not None}
        self.changed, self.places = next(iter(known), None), tuple(i for changed, i in told if changed is not None)
