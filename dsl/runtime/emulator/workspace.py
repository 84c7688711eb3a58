"""The state of a workspace, which is kept between the launches of a call."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from .findings import Location


class Left(Struct, frozen=True):
    """The first byte of a workspace that a launch left nonzero, and the store that wrote it."""

    byte: int
    location: Location | None
    ptx_line: int | None
    writer: str


class Scratch(Struct):
    """The state of a workspace during a call.

    `unwritten` is a mask of the bytes that have not been written since the call began, or None if such bytes may be
    read. `left` is used if the workspace must be zero after the call. `is_argument` is true for an array of the caller
    that kernels may write but not read. `is_zeroed` states that the workspace contains zeros when a call begins.
    `is_read` states that this launch's kernel may read the workspace. `elements` is a mask of the bytes that belong to
    elements, or None if all do. In an aligned array, there may be unused bytes between two rows.
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
        """Begins a call. Bytes that an earlier call wrote count as unwritten, unless the workspace contains zeros."""
        self.left = None
        every = np.ones(self.size, bool) if self.elements is None else self.elements.copy()
        self.unwritten = None if self.must_be_zero or self.is_zeroed else every
