"""The state of a workspace that is kept between the launches of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .findings import Location


@dataclass(frozen=True, slots=True)
class Left:
    """The first byte of a workspace that a launch left nonzero, and the store that wrote it."""

    byte: int
    location: Location | None
    ptx_line: int | None
    writer: str


@dataclass(slots=True)
class Scratch:
    """The state of a workspace during a call.

    `unwritten` is a mask of the bytes that nobody has written since the call began. It is None if reads of such bytes
    are allowed. `left` is for a workspace that must be zero after the call. `is_argument` marks an array of the caller.
    Kernels may write such an array, but not read it. `is_zeroed` states that the workspace contains zeros when a call
    begins. `is_read` states that the kernel of this launch may read the workspace. `elements` is a mask of the bytes
    that belong to an element. It is None if all bytes belong to elements. In an aligned array, a row may end before the
    next row begins.
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
        """Begins a call. Bytes from an earlier call must not be read, and a zeroed workspace contains zeros."""
        self.left = None
        every = np.ones(self.size, bool) if self.elements is None else self.elements.copy()
        self.unwritten = None if self.must_be_zero or self.is_zeroed else every
