"""The functions of the language. Importing this package adds the rows of all functions to the table
(`dsl/values/table.py`).

A meaning for tiles takes the kernel that is being built, the location of the call and the arguments. A meaning for
arrays takes the host instead of the kernel. A function of elements that is written in the language (`dsl/library/`) has
a row without a meaning for tiles.
"""

from __future__ import annotations

from dsl.values.functions import (  # noqa: F401 (the rows)
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
