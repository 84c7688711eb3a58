"""The functions of the language: importing this package adds their rows (`dsl/values/table.py`).

A meaning for tiles takes the kernel that is being built, the place of the call and the bound arguments; one for arrays
takes the host in place of the kernel. A function of elements that is written in the language (`dsl/library/`) has a row
without a meaning for tiles.
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
