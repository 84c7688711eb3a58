"""The functions of the language. Importing this package adds a row for each function to the table
(`dsl/values/table.py`).

A function's implementation for tiles takes the kernel builder, the location of the call and the arguments. An
implementation for arrays takes the host instead of the builder. Elementwise functions that are written in the language
(`dsl/library/`) have no implementation for tiles in their row.
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
