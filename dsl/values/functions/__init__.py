"""The functions of the language: calls in kernels → operations.

A handler takes the builder, the place of the call, the evaluated arguments and keywords. Functions that need a type
with extents (`zeros(f32[M, N])`) take the syntax itself. Functions of one number that are not here may stand in
`library/`, written in the language.
"""

from __future__ import annotations

from dsl.values.functions import elementwise, matrix, memory, output, reductions, shapes, warp
from dsl.values.functions.elementwise import convert
from dsl.values.functions.registry import BUILTINS, find

__all__ = ["BUILTINS", "convert", "elementwise", "find", "matrix", "memory", "output", "reductions", "shapes", "warp"]
