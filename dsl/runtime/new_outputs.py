"""Finds elements of new outputs that no launch of a call has written. Only the emulator can: it records each store."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsl.runtime.emulator.scratch import Scratch

WITHIN = ("dsl", "torch", "jax")
"""The packages in which nobody looks for the call that a warning is about."""


class UnwrittenOutput(UserWarning):
    """The warning that a call returns elements that it has not written."""


class NewOutputs:
    """A context manager around the launches of a call of `label`, which has allocated the arrays `made` under `names`.
    `describe` gives an array's address, shape and type.

    Launches on the emulator note what they write to them. If elements are left, the call returns what was in their
    memory before, so there is a warning. It is no error, since the rest of an output may have no meaning, as rows
    behind the last group of a grouped matrix product."""

    __slots__ = ("_describe", "_known", "_token", "label", "made", "names")

    def __init__(self, label: str, names: Sequence[str], made: Sequence[Any], describe: Callable[[Any], Any]) -> None:
        self._describe, self.label, self.names, self.made = describe, label, names, made
        self._known: dict[int, tuple[str, Any, Scratch]] | None = None  # by the addresses of the arrays

    def __enter__(self) -> NewOutputs:
        self._token: Token[NewOutputs | None] = new_outputs.set(self)
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        new_outputs.reset(self._token)
        if kind is None and self._known is not None:
            for name, array, scratch in self._known.values():
                self._check(name, array, scratch)

    def scratch_at(self, start: int, size: int) -> Scratch | None:
        """Returns the emulator's record of the output that occupies these bytes, or None if no output does."""
        if self._known is None:
            self._known = dict(self._described())
        _, _, scratch = self._known.get(start, (None, None, None))
        return scratch if scratch is not None and scratch.size == size else None

    def _described(self) -> Any:
        from dsl.runtime.emulator.scratch import Scratch

        for name, x in zip(self.names, self.made, strict=True):
            array = self._describe(x)
            if array.size:
                scratch = Scratch(array.size * array.itemsize, False)
                scratch.begin()
                yield array.pointer, (name, array, scratch)

    def _check(self, name: str, array: Any, scratch: Scratch) -> None:
        import numpy

        left = numpy.flatnonzero(scratch.unwritten.reshape(-1, array.itemsize).any(axis=1))
        if len(left):
            first = ", ".join(map(str, numpy.unravel_index(int(left[0]), array.shape)))
            message = (
                f"{self.label} returns '{name}' with {len(left):,} of {array.size:,} elements that no store reached, "
                f"the first at [{first}]: they hold what was in the memory before\n"
                "hint: let the grid and the tiles reach all (assert COLS >= cols), or pass the array to be written"
            )
            warnings.warn(message, UnwrittenOutput, stacklevel=caller_level())


def caller_level() -> int:
    """Returns the `stacklevel` of a warning for the nearest frame outside of this package and of the frameworks that
    call it."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in WITHIN:
        level, frame = level + 1, frame.f_back
    return level


new_outputs: ContextVar[NewOutputs | None] = ContextVar("new_outputs", default=None)
"""The outputs that the current call has allocated."""
