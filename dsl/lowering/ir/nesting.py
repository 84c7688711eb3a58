"""The limit for nested regions of a kernel, and the recursion limit of functions that walk through nested regions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

MAX_REGIONS = 256
"""The maximum depth of nested regions. Run-time branches and loops of inlined functions count, too."""
RECURSION_LIMIT = 12_000


@contextmanager
def deep_recursion() -> Iterator[None]:
    """A context in which Python's recursion limit is higher, for nested syntax and regions. Too deep nesting is
    reported elsewhere, by errors with a location."""
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(max(old, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(old)
