"""What is known of a workspace from one launch of a call to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .findings import Location


@dataclass(frozen=True, slots=True)
class Left:
    """The first byte of a workspace that a launch left other than zero, and the store that wrote it."""

    byte: int
    location: Location | None
    ptx_line: int | None
    writer: str


@dataclass(slots=True)
class Scratch:
    """What the launches of a call know of a workspace.

    `unwritten`: [bytes] not written since the call began; None if that does not matter. `left`: for one that must be
    zero after the call. `is_argument`: an array of the caller, which kernels may only write. `is_zeroed`: it holds
    zeros when a call begins. `is_read`: the kernel of this launch may read it. `elements`: [bytes] that belong to an
    element, if not all do: the rows of an aligned array may end before the next one begins.
    """

    size: int
    must_be_zero: bool
    unwritten: Any = None
    left: Left | None = None
    is_argument: bool = False
    is_zeroed: bool = False
    is_read: bool = True
    elements: Any = None

    def begin(self) -> None:
        """A call begins: what an earlier call left may not be read, and a zeroed workspace holds zeros."""
        self.left = None
        every = np.ones(self.size, bool) if self.elements is None else self.elements.copy()
        self.unwritten = None if self.must_be_zero or self.is_zeroed else every
