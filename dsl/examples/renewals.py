"""Copies of memory that the launches of a call both read and change, so that they can be repeated. A launch that takes
a ticket, adds to a sum or works in place does something else the second time, or never ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dsl.runtime.errors import DeviceError
from dsl.runtime.renewed import KeptMemory, changed_spans

Launches = Sequence[tuple[Any, Sequence[Any]]]
"""The kernels of a call, with their arguments on the device."""


class Renewals:
    """Keeps memory as it is before the call (when this is made) and before each launch (by `before`). reason: why
    nothing is kept, if there is no room; such launches run once. ordinal: of the device, None for the emulator."""

    def __init__(self, launches: Launches, ordinal: int | None):
        self.launches = [(kernel.header, values) for kernel, values in launches]
        self.ordinal, self.reason = ordinal, ""
        self.whole = self.kept(self.launches)
        self.each: list[KeptMemory] = []

    def before(self, number: int) -> None:
        """Called ahead of the launch of this number, behind all launches in front of it."""
        # A single launch reads what the whole call reads.
        if len(self.launches) > 1:
            self.each.append(self.kept(self.launches[number : number + 1]))

    def kept(self, readers: Sequence[tuple[Any, Sequence[Any]]]) -> KeptMemory:
        try:
            return KeptMemory([] if self.reason else changed_spans(self.launches, readers), self.ordinal)
        except DeviceError as error:
            # One copy that does not fit ends all: a part of the memory alone cannot be put back.
            self.reason = no_room(error)
            return KeptMemory([], None)

    def of(self, number: int) -> KeptMemory:
        """The memory that one launch of the call reads."""
        return self.each[number] if self.each else self.whole

    def together(self, launch: Callable[[], object]) -> Callable[[], object]:
        """A repeatable form of `launch`, which makes all launches of the call."""
        return self.whole.before(launch)


def no_room(error: DeviceError) -> str:
    """The reason, in words, that a launch which changes its inputs is not timed."""
    return f"there is no room for a copy of the memory that a launch changes and the next one needs: {error.message}"
