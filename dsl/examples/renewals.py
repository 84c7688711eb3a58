"""What the launches of a call change of what they read: kept as it was, so that they can be made again.

A launch that takes a ticket, adds to a sum or works in place does at its second time something else, or never ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dsl.runtime.errors import DeviceError
from dsl.runtime.renewed import KeptMemory, changed_spans

Launches = Sequence[tuple[Any, Sequence[Any]]]
"""Of a call: kernels, and the arguments that they take where they run."""


class Renewals:
    """Before the call, made with this, and before each launch, told by `before`. `reason`: why nothing is kept, where
    there is no room for it: such launches are made once. ordinal: of the device, None for the emulator."""

    def __init__(self, launches: Launches, ordinal: int | None):
        self.launches = [(kernel.header, values) for kernel, values in launches]
        self.ordinal, self.reason = ordinal, ""
        self.whole = self.kept(self.launches)
        self.each: list[KeptMemory] = []

    def before(self, number: int) -> None:
        """The launch of this number is about to be made, all in front of it were."""
        if len(self.launches) > 1:
            self.each.append(self.kept(self.launches[number : number + 1]))

    def kept(self, readers: Sequence[tuple[Any, Sequence[Any]]]) -> KeptMemory:
        try:
            return KeptMemory([] if self.reason else changed_spans(self.launches, readers), self.ordinal)
        except DeviceError as error:
            self.reason = no_room(error)
            return KeptMemory([], None)

    def of(self, number: int) -> KeptMemory:
        """What one launch of the call reads."""
        return self.each[number] if self.each else self.whole

    def together(self, launch: Callable[[], object]) -> Callable[[], object]:
        """`launch`, which is all launches of the call, to be repeated."""
        return self.whole.before(launch)


def no_room(error: DeviceError) -> str:
    """Why a launch that changes what it reads is not timed."""
    return f"there is no room for a copy of what a launch changes, which the next one needs: {error.message}"
