"""How deep a kernel's blocks may be nested once its functions are inlined, and room for those who walk them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

MAX_REGIONS = 256
"""Regions in regions: branches and loops of the run, those of inlined functions included."""
RECURSION_LIMIT = 12_000


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Room for nested syntax and nested regions; nesting itself is limited by a located error."""
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(max(old, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(old)
