"""The shortest path from a call to the driver, for repeated launches with arguments of one class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dsl.runtime.frameworks import Framework, Recogniser, unrecognised

Again = Callable[[Sequence[Any]], bool]
"""(arrays) → whether the function has launched. The function launches only if the arrays belong to its class."""


Changed = Callable[[list[Any]], object]
"""A function that reports written arrays to a framework. It gets the list of the written arrays."""


def never(arguments: Sequence[Any]) -> bool:
    """The `Again` of a class that has no short path. It never launches."""
    return False


def unread(x: Any) -> int:
    """The `pointer` of a class that recognises no arrays. It always raises TypeError."""
    raise TypeError(x)


class Repeated:
    """The launches of a class of calls. `recognise` tells whether arrays belong to the class, and `pointer` returns the
    address of a recognised array."""

    recognise: Recogniser = staticmethod(unrecognised)
    pointer: Callable[[Any], int] = staticmethod(unread)
    changed: Changed | None = None
    """Reports written arrays to a framework. The value is None if no framework needs the report."""
    places: tuple[int, ...] = ()
    """The positions of the reported arrays among a launch's tensors."""

    def again(self, rest: Sequence[Any] = ()) -> Again:
        """A function that checks and packs arrays of this class and launches with them. The function refuses other
        arrays.

        The result is `never` if there is no short path. `rest` holds the values of the scalars and tables in the form
        that `ParamLayout` packs."""
        return never

    def launch(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None = None) -> None:
        """Launches once. `values` are packed (see `ParamLayout`)."""
        raise NotImplementedError

    def bind(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None) -> Callable[[], None]:
        """A function that launches with these arguments. The caller must keep the arguments alive."""
        return partial(self.launch, values, arguments, stream)

    def recognises(self, framework: Framework, tensors: Sequence[Any]) -> None:
        """Uses the recogniser of `framework`, to which all arrays belong. `tensors` are the first call's arrays."""
        self.recognise = framework.recogniser(tensors)
        if self.recognise is not unrecognised:
            self.pointer = framework.pointer()

    def tells(self, frameworks: Sequence[Framework], written: Sequence[bool]) -> None:
        """Makes launches report the arrays that they write. `frameworks` and `written` have one item for each tensor:
        its framework, and whether the kernel writes the tensor."""
        told = [(each.changed(), i) for i, (each, is_one) in enumerate(zip(frameworks, written, strict=True)) if is_one]
        # At most one framework needs the report: torch.
        known = {changed: None for changed, _ in told if changed is not None}
        self.changed, self.places = next(iter(known), None), tuple(i for changed, i in told if changed is not None)
