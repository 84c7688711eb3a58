"""The base class of launches that are prepared once for a class of calls, and then repeated with little overhead."""

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
    """The `Again` function for a class of calls that has no fast path. It always returns False."""
    return False


def unread(x: Any) -> int:
    """The `pointer` function for a class of calls whose arrays cannot be recognised. It always raises TypeError."""
    raise TypeError(x)


class Repeated:
    """Launches the calls of one class. `recognise(*arrays)` returns whether arrays belong to the class.
    `pointer(array)` returns the address of such an array."""

    framework: Framework | None = None
    """The framework to which all arrays belong, or None if there are several."""
    recognise: Recogniser = staticmethod(unrecognised)
    pointer: Callable[[Any], int] = staticmethod(unread)
    changed: Changed | None = None
    """Reports written arrays to a framework. The value is None if no framework needs the report."""
    places: tuple[int, ...] = ()
    """The positions of the reported arrays among a launch's tensors."""

    def again(self, rest: Sequence[Any] = ()) -> Again:
        """Returns a function that launches with given arrays if they belong to this class. The function returns whether
        it has launched.

        Returns `never` if there is no fast path. `rest` contains the values of the scalars and tables, as `ParamLayout`
        packs them."""
        return never

    def knows(self, rest: Sequence[Any] = ()) -> Again:
        """Returns a function that tells whether the function of `again` would launch with given arrays."""
        return never

    def launch(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None = None) -> None:
        """Packs `values` (see `ParamLayout`) and launches once."""
        raise NotImplementedError

    def bind(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None) -> Callable[[], None]:
        """Returns a function that launches with these arguments. The caller must keep the arguments alive."""
        return partial(self.launch, values, arguments, stream)

    def recognises(self, framework: Framework, tensors: Sequence[Any]) -> None:
        """Sets `recognise` and `pointer` to functions of `framework`, to which all arrays belong. `tensors` are the
        arrays of the first call."""
        self.framework, self.recognise = framework, framework.recogniser(tensors)
        if self.recognise is not unrecognised:
            self.pointer = framework.pointer()

    def renew(self, tensors: Sequence[Any]) -> bool:
        """Makes `recognise` anew if it does not recognise `tensors`, which belong to this class. Returns whether it was
        made anew.

        torch's guards also compare which dispatch keys a thread excludes. Inside an operator of torch, these are others
        than outside, and others again while torch compiles. Without new guards, each call of an operator in a compiled
        graph was planned: 300 to 900 µs, compared with 50 µs."""
        if self.framework is None or self.recognise is unrecognised or self.recognise(*tensors):
            return False
        self.recognises(self.framework, tensors)
        return True

    def tells(self, frameworks: Sequence[Framework], written: Sequence[bool]) -> None:
        """Sets `changed` and `places`, so that each launch reports the arrays that it writes. For each tensor,
        `frameworks` contains its framework, and `written` contains whether the kernel writes it."""
        told = [(each.changed(), i) for i, (each, is_one) in enumerate(zip(frameworks, written, strict=True)) if is_one]
        # At most one framework needs the report: torch.
        known = {changed: None for changed, _ in told if changed is not None}
        self.changed, self.places = next(iter(known), None), tuple(i for changed, i in told if changed is not None)
