"""The functions of the language: importing this states their rows (`dsl/values/table.py`).

A meaning of tiles takes the kernel that is built, the place of the call and the bound arguments; one of arrays takes
the host in its place. A function of elements that is written in the language (`dsl/library/`) has a row without a
meaning of tiles.
"""

from __future__ import annotations

from dsl.values.functions import (
    elementwise,
    launch,
    matrix,
    memory,
    output,
    random,
    reductions,
    references,
    shapes,
    warp,
)

__all__ = [
    "elementwise",
    "launch",
    "matrix",
    "memory",
    "output",
    "random",
    "reductions",
    "references",
    "shapes",
    "warp",
]
