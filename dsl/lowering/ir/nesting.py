"""Limits for nested blocks of a kernel with its functions inlined, and for the recursion of walks through them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

MAX_REGIONS = 256
"""Most nested regions: run-time branches and loops, those of inlined functions included."""
RECURSION_LIMIT = 12_000


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Raises Python's recursion limit for nested syntax and regions. Located errors limit the nesting itself."""
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(max(old, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(old)
