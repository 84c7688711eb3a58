"""How much a piece of code does, as a number that is the same on a busy machine: calls of functions."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from cProfile import Profile

OFTEN = 0.1
"""Seconds of processor time from one look at the calls to the next."""


@contextmanager
def at_most(calls: int) -> Iterator[None]:
    """AssertionError where the code in it calls functions, those of C too, more often; it ends within a moment.

    They are counted in C: a function of Python for each call took three quarters of the time of such tests, 10 s."""
    profile = Profile(subcalls=False)

    def done() -> int:
        return sum(row.callcount for row in profile.getstats())

    def look(*_: object) -> None:
        if done() > calls:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            raise AssertionError(f"more than {calls} calls")

    before = signal.signal(signal.SIGVTALRM, look)
    signal.setitimer(signal.ITIMER_VIRTUAL, OFTEN, OFTEN)
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert done() <= calls, f"{done()} calls"
