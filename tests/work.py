"""How much a piece of code does, as a number that is the same on a busy machine: calls of functions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def at_most(calls: int) -> Iterator[None]:
    """AssertionError where the code in it calls functions, those of C too, more often; it ends there and then."""
    done = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal done
        if event in ("call", "c_call"):
            done += 1
            if done > calls:
                sys.setprofile(None)
                raise AssertionError(f"more than {calls} calls")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)
    assert done <= calls, f"{done} calls"
