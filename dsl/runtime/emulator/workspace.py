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
    """What the launches of a call know of a workspace. `unwritten`: [bytes] not written since it began; None where
    that does not matter. `left`: of one that must be zero after the call. `is_argument`: it is an array of the caller,
    which kernels may be given to write only. `is_zeroed`: it holds zeros when a call begins. `is_read`: this launch's
    kernel may read it. `elements`: [bytes] that belong to one, where not all do: rows may end ahead of the next one.
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
        """A call begins: what an earlier one left is not to be read; a zeroed one holds zeros."""
        self.left = None
        every = np.ones(self.size, bool) if self.elements is None else self.elements.copy()
        self.unwritten = None if self.must_be_zero or self.is_zeroed else every
