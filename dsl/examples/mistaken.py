"""Tests whether a common mistake explains a failed `expect`. A hint names a mistake only if it gives exactly the wrong
result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from dsl.lowering.ir.location import TileError
from dsl.text import tree as ast

MOST = 1 << 20
"""No mistakes are tried for a result with more elements. Each try takes as long as the comparison of the `expect`."""
MOST_HALF = 65504.0
"""The greatest number of an f16."""
DRAWS = frozenset({"randn", "uniform", "randint"})
"""Functions that return new random numbers at each call. Evaluating them again would change the numbers of later lines,
so no mistake is tried for lines that call them."""


HALF = re.compile(r"\b(?:add|sub|mul|fma)\.(?:\w+\.)*f16|mma\S*(?:col|k\d+)\.f16\.|\b(?:atom|red)\.\S*add\S*\.f16")
"""Matches a PTX instruction that adds or multiplies in f16."""


def overflow_of(array: Any, wanted: Any, texts: Iterable[str]) -> str | None:
    """Returns the likely cause of an infinity in `array`. "sum" means that the executed PTX adds or multiplies in f16.
    "result" means that `array` is f16 and the wanted number exceeds 65504. None means that the cause is unknown."""
    if any(HALF.search(text) for text in texts):
        return "sum"
    is_half = str(getattr(array, "dtype", "")) == "float16"
    return "result" if is_half and isinstance(wanted, int | float) and abs(wanted) > MOST_HALF else None


def mistake_of(wanted: ast.Expr, arrays: tuple[Any, Any], host: Callable[[ast.Expr], Any], agree: Any) -> str | None:
    """Returns a hint about the mistake that gives the actual result, or None. `wanted` is the expression of the wanted
    array. `arrays` holds the actual and the wanted array. `host` evaluates an expression, and `agree(actual, wanted)`
    compares arrays."""
    actual, target = arrays
    shape = getattr(actual, "shape", ())
    # For a single element, too many mistakes would give the actual result by chance.
    if not shape or getattr(target, "shape", None) != shape or not 1 < actual.size <= MOST:
        return None
    if len(shape) > 1 and shape[-1] == shape[-2] and agree(actual.swapaxes(-1, -2), target):
        return "the result is the wanted one with its last two axes exchanged: store v.T, or exchange the two indices"
    calls = [node for node in ast.walk(wanted) if isinstance(node, ast.Call)]
    if any(isinstance(call.function, ast.Name) and call.function.id in DRAWS for call in calls):
        return None
    for call, axis, other in _other_axes(calls):
        # The other axis may not exist, or may give a shape that does not fit. Then the axis is not the mistake.
        with suppress(TileError):
            value = host(changed(wanted, partial(_with_axis, call=call, axis=other)))
            if getattr(value, "shape", None) == shape and agree(actual, value):
                return (
                    f"the result is what axis={other} gives where this line has axis={axis}: exchange the axis in the "
                    "kernel, or here"
                )
    return None


def _other_axes(calls: list[ast.Call]) -> Iterator[tuple[ast.Call, int, int]]:
    """Yields each call with `axis=0` or `axis=1`, with this axis and the other axis."""
    for call in calls:
        axis = call.keywords.get("axis")
        if isinstance(axis, ast.Number) and axis.value in (0, 1):
            yield call, int(axis.value), 1 - int(axis.value)


def _with_axis(node: Any, call: ast.Call, axis: int) -> ast.Call | None:
    """Returns a copy of `call` with another axis if `node` is `call`, and None otherwise."""
    if node is not call:
        return None
    number = ast.Number(call.keywords["axis"].loc, axis)
    return replace(call, keywords={**call.keywords, "axis": number})


def changed(node: Any, change: Callable[[Any], Any]) -> Any:
    """Copies a tree with replaced parts. `change(part)` returns the replacement of a part, or None to keep the part."""
    if (other := change(node)) is not None:
        return other
    if isinstance(node, list):
        return [changed(each, change) for each in node]
    if isinstance(node, dict):
        return {name: changed(each, change) for name, each in node.items()}
    parts = ast.PARTS.get(type(node))
    return node if parts is None else replace(node, **{part: changed(getattr(node, part), change) for part in parts})
