"""Makes garbage collections rare while modules are imported and while a kernel is compiled."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

OBJECTS = 100_000
"""The number of new objects after which the youngest are collected, instead of Python's 700. A product of f16 leaves
20,000, which live until its PTX is complete. With 700, it takes 76 ms of processor time instead of 66, including the
collections that follow."""

OF_PYTHON = 1000
"""Fewer frozen objects are not the caller's: Python 3.12.1 starts with 375, others with none, and whoever freezes after
an import freezes thousands."""

_lock = Lock()
_outer: list[tuple[int, int, int]] = []
"""For each compilation that runs now, in any thread, the thresholds before the first of them."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """A context manager in which Python collects garbage rarely. It changes nothing where the caller has disabled
    collections."""
    with _lock:
        before = _outer[0] if _outer else gc.get_threshold()
        _outer.append(before)
        if before[0]:
            gc.set_threshold(max(before[0], OBJECTS), *before[1:])
    try:
        yield
    finally:
        with _lock:
            if len(_outer) == 1:
                gc.set_threshold(*before)
            _outer.pop()


@contextmanager
def imports() -> Iterator[None]:
    """A context manager for imports. What modules make lives as long as the process, so it goes to the oldest
    generation of Python's collector at once. Otherwise the first compile in a process looks through it for garbage,
    which takes 13 ms."""
    with rare_collections():
        before = len(sys.modules)
        yield
        # `unfreeze` moves all that is frozen to the oldest generation. Objects that the caller froze stay frozen.
        if len(sys.modules) > before and gc.isenabled() and gc.get_freeze_count() < OF_PYTHON:
            gc.freeze()
            gc.unfreeze()
