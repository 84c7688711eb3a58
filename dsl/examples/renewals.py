"""Copies the memory that the launches of a call both read and change, so that the launches can be repeated and timed.
Without the copies, a launch that increments a counter, adds to a sum or works in place would do different work the
second time, or never end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsl.runtime.errors import DeviceError
from dsl.runtime.renewed import KeptMemory, changed_spans

Launches = Sequence[tuple[Any, Sequence[Any]]]
"""The kernels of a call, with their arguments on the device."""


class Renewals:
    """Saves the contents of memory when the object is made, and again at each `before`. If there is no room for copies,
    nothing is kept, and `reason` states this. Then the launches run only once. `ordinal` is the device's number, or
    None for the emulator."""

    def __init__(self, launches: Launches, ordinal: int | None):
        self.launches = [(kernel.header, values) for kernel, values in launches]
        self.ordinal, self.reason = ordinal, ""
        self.whole = self.kept(self.launches)
        self.each: list[KeptMemory] = []

    def before(self, number: int) -> None:
        """Saves the memory that launch `number` reads and that some launch changes. Must be called before this launch,
        after all earlier launches."""
        # A single launch reads the same memory as the whole call.
        if len(self.launches) > 1:
            self.each.append(self.kept(self.launches[number : number + 1]))

    def kept(self, readers: Sequence[tuple[Any, Sequence[Any]]]) -> KeptMemory:
        try:
            return KeptMemory([] if self.reason else changed_spans(self.launches, readers), self.ordinal)
        except DeviceError as error:
            # If one copy does not fit, nothing is kept. Restoring only a part of the memory would be wrong.
            self.reason = no_room(error)
            return KeptMemory([], None)

    def of(self, number: int) -> KeptMemory:
        """Returns the saved memory that launch `number` of the call reads."""
        return self.each[number] if self.each else self.whole


def no_room(error: DeviceError) -> str:
    """Formats the reason why a launch that changes its inputs is not timed."""
    return f"there is no room for a copy of the memory that a launch changes and the next one needs: {error.message}"
