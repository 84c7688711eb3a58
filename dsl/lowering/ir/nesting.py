"""Limits how deeply regions of a kernel may nest, and raises Python's recursion limit for functions that walk through
them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

MAX_REGIONS = 256
"""The maximum depth of nested regions. Run-time branches and loops of inlined functions count, too."""
RECURSION_LIMIT = 12_000


@contextmanager
def deep_recursion() -> Iterator[None]:
    """A context manager that raises Python's recursion limit, for nested syntax and regions. Other code reports too
    deep nesting as an error with a location."""
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(max(old, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(old)
