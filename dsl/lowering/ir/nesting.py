"""Limits for nested blocks of a kernel, and for the recursion of walks through these blocks. Blocks of inlined
functions count, too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

MAX_REGIONS = 256
"""The maximum depth of nested regions. Run-time branches and loops of inlined functions count, too."""
RECURSION_LIMIT = 12_000


@contextmanager
def deep_recursion() -> Iterator[None]:
    """A context with a higher recursion limit of Python, for nested syntax and regions. Other checks limit the nesting
    itself, by errors with a location."""
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(max(old, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(old)
