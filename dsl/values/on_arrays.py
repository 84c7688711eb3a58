"""Arithmetic on numpy arrays and numbers, for examples, dispatches and the `def`s that these call.

Float arithmetic uses float64. Integer arithmetic is exact, and a result that may not fit in 64 bits is an error. Each
function takes `host`, whose `error` method raises, and `loc`, the source location for messages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.types import DType, greatest, int_range, nearest_number
from dsl.text import tree as ast
from dsl.values import reference
from dsl.values.element_types import fill, narrow, numpy_type, widen
from dsl.values.host import Host, Shaped
from dsl.values.reference import abs_max, matmul
from dsl.values.scope import arguments_of_join

# ---- values ---------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Converts a numpy scalar, or an array without axes, to a Python number. Other values are returned unchanged."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return widen(np.asarray(value)).item()
    return value


def wide(host: Host, loc: Loc, value: Any, what: str = "an operand") -> np.ndarray:
    """Converts a number or array to an array of float64, int64, uint64 or bool. A number becomes an array without
    axes."""
    if isinstance(value, np.ndarray):
        host.room(loc, 0 if value.dtype in (np.float64, np.int64, np.bool_) else value.size * 8)
        try:
            return widen(value)
        except TypeError as error:
            host.error("type", loc, str(error))
    if isinstance(value, bool):
        return np.asarray(value)
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            host.error("limit", loc, f"{value} does not fit in 64 bits")
        return np.asarray(value, np.int64 if value < 1 << 63 else np.uint64)
    if isinstance(value, float):
        return np.asarray(value, np.float64)
    host.error("type", loc, f"{what} is {host.describe(value)}, not a number or an array")


def together(host: Host, loc: Loc, values: list) -> list[np.ndarray]:
    """Converts values by `wide`. If one result is float64, all become float64. Raises an error if an array of their
    broadcast shape would exceed the memory limit."""
    arrays = [wide(host, loc, v) for v in values]
    shape = common_shape(host, loc, arrays)
    host.room(loc, math.prod(shape) * 8)
    if any(a.dtype.kind == "f" for a in arrays):
        return [a.astype(np.float64, copy=False) for a in arrays]
    return arrays


def common_shape(host: Host, loc: Loc, arrays: list[np.ndarray]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError:
        host.error("shape", loc, f"the shapes {' and '.join(str(list(a.shape)) for a in arrays)} do not fit together")


def bounds(array: np.ndarray) -> tuple[int, int]:
    """Returns the least and the greatest element of an array of integers, and (0, 0) for an empty array."""
    return (int(array.min()), int(array.max())) if array.size else (0, 0)


def fitting(host: Host, loc: Loc, low: int, high: int, what: str) -> type:
    """Returns a 64-bit integer type that can represent low … high. Raises an error, with `what` in its message, if
    there is none."""
    if low >= -(1 << 63) and high < 1 << 63:
        return np.int64
    if low >= 0 and high < 1 << 64:
        return np.uint64
    hint = "integers on the host do not wrap; convert to f64, or narrow first"
    host.error("limit", loc, f"{what} may not fit in 64 bits", hint)


def joint_type(host: Host, loc: Loc, arrays: Sequence[np.ndarray], what: str) -> type:
    """Returns a 64-bit integer type that can represent all elements of these arrays."""
    ends = [end for array in arrays for end in bounds(array)]
    return fitting(host, loc, min(ends), max(ends), what)


# ---- operators -----------------------------------------------------------------------------------------------

_FLOAT_INFIX: dict[str, Callable] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide, "%": np.mod, "**": np.power,
}  # fmt: skip
_COMPARE: dict[str, Callable] = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_BITS: dict[str, Callable] = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}


def infix(host: Host, op: str, left: Any, right: Any, loc: Loc) -> Any:
    """Computes `left op right`, where at least one side is an array."""
    if op == "@":
        return product(host, loc, left, right)
    a, b = together(host, loc, [left, right])
    with np.errstate(all="ignore"):
        if op in _COMPARE:
            return plain(_COMPARE[op](a, b))
        if op in _BITS:
            return plain(_bits(host, op, a, b, loc))
        if a.dtype.kind == "f":
            if op not in _FLOAT_INFIX:
                host.error("type", loc, f"'{op}' takes integers")
            return plain(_FLOAT_INFIX[op](a, b))
        return plain(_integers(host, op, a, b, loc))


def _bits(host: Host, op: str, a: np.ndarray, b: np.ndarray, loc: Loc) -> np.ndarray:
    if a.dtype.kind == "f":
        host.error("type", loc, f"'{op}' takes integers")
    if a.dtype.kind == "b" and b.dtype.kind == "b":
        return _BITS[op](a, b)
    type_ = joint_type(host, loc, [a, b], f"the operands of '{op}'")
    return _BITS[op](a.astype(type_), b.astype(type_))


def _integers(host: Host, op: str, a: np.ndarray, b: np.ndarray, loc: Loc) -> np.ndarray:
    (al, ah), (bl, bh) = bounds(a), bounds(b)
    if op in ("//", "%", "/") and bool((b == 0).any()):
        host.error("constant", loc, "division by zero")
    if op in ("<<", ">>") and (bl < 0 or bh > 63):
        host.error("constant", loc, f"a shift by {bl if bl < 0 else bh}")
    if op == "**" and bl < 0:
        host.error("constant", loc, "a negative power of integers", "convert to a float type first")
    # numpy wraps around silently. So the bounds of the result are first computed with Python's integers.
    ends = _ENDS.get(op, _ends_of_a_power)(al, ah, bl, bh)
    type_ = fitting(host, loc, min(*ends, al, bl), max(*ends, ah, bh), f"the result of '{op}'")
    x: np.ndarray = a.astype(type_, copy=False)
    y: np.ndarray = b.astype(type_, copy=False)
    if op == "/":
        return _quotient(host, loc, x, y)
    functions: dict[str, Callable] = {**_FLOAT_INFIX, "<<": np.left_shift, ">>": np.right_shift}
    if op not in functions:
        host.error("type", loc, f"'{op}' does not take arrays")
    return functions[op](x, y)


def _quotient(host: Host, loc: Loc, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Divides integers exactly. Raises TileError if a quotient is not an integer, as for Python numbers."""
    quotient = np.floor_divide(x, y)
    rest = quotient * y != x
    if rest.any():
        at = np.unravel_index(int(rest.argmax()), rest.shape)
        pair = [np.broadcast_to(v, rest.shape)[at].item() for v in (x, y)]
        hint = "'//' rounds down; .to(f32) first divides as floats"
        host.error("constant", loc, f"{pair[0]} / {pair[1]} is no integer", hint)
    return quotient


def _ends_of_a_quotient(al: int, ah: int, bl: int, bh: int) -> list[int]:
    return [al, ah, bh] if bl >= 0 else [al, ah, -al, -ah, bl, bh]


def _ends_of_a_power(al: int, ah: int, bl: int, bh: int) -> list[int]:
    most = max(abs(al), abs(ah))
    power = 1 << 64 if most > 1 and bh > 64 else most**bh if most > 1 else 1
    return [-power if al < 0 else 0, power]


_ENDS: dict[str, Callable[[int, int, int, int], list[int]]] = {
    "+": lambda al, ah, bl, bh: [al + bl, ah + bh],
    "-": lambda al, ah, bl, bh: [al - bh, ah - bl],
    "*": lambda al, ah, bl, bh: [x * y for x in (al, ah) for y in (bl, bh)],
    "<<": lambda al, ah, bl, bh: [x << y for x in (al, ah) for y in (bl, bh)],
    ">>": lambda al, ah, bl, bh: [al, ah],
    **dict.fromkeys(("//", "/", "%"), _ends_of_a_quotient),
}
"""For each operator, a function that bounds the operator's integer result. Its arguments are the bounds of the left
operand (al, ah) and of the right operand (bl, bh). The result lies between the least and the greatest number that the
function returns."""


def product(host: Host, loc: Loc, left: Any, right: Any) -> Any:
    """Computes the matrix product `left @ right` over the last two axes."""
    a, b = wide(host, loc, left), wide(host, loc, right)
    if a.ndim < 1 or b.ndim < 1:
        host.error("shape", loc, "'@' takes arrays, not numbers")
    inner = b.shape[0] if b.ndim == 1 else b.shape[-2]
    if a.shape[-1] != inner:
        message = f"the inner extents of {list(a.shape)} @ {list(b.shape)} differ: {a.shape[-1]} and {inner}"
        host.error("shape", loc, message)
    try:
        outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        host.error("shape", loc, f"the outer extents of {list(a.shape)} @ {list(b.shape)} do not fit together")
    rows = a.shape[-2] if a.ndim > 1 else 1
    host.room(loc, math.prod(outer) * rows * (b.shape[-1] if b.ndim > 1 else 1) * 8)
    with np.errstate(all="ignore"):
        try:
            return plain(matmul(a, b))
        except ValueError as error:
            host.error("limit", loc, str(error), "convert to f64 first")


def prefix(host: Host, op: str, value: Any, loc: Loc) -> Any:
    """Applies a prefix operator to an array."""
    x = wide(host, loc, value)
    if op == "not":
        if x.dtype.kind != "b":
            host.error("type", loc, "'not' takes i1", "compare with '== 0'")
        return ~x
    if op == "~":
        if x.dtype.kind == "f":
            host.error("type", loc, "'~' takes integers")
        return ~x
    if x.dtype.kind == "b":
        host.error("type", loc, "'-' takes numbers")
    return -x if x.dtype.kind == "f" else infix(host, "-", 0, x, loc)


def logic(host: Host, op: str, left: Any, right: Any, loc: Loc) -> Any:
    """Computes `and` or `or` elementwise, where at least one side is an array."""
    a, b = together(host, loc, [left, right])
    for side in (a, b):
        if side.dtype.kind != "b":
            host.error("type", loc, f"'{op}' takes i1", "compare with '!= 0'")
    return plain((np.logical_and if op == "and" else np.logical_or)(a, b))


# ---- making arrays ---------------------------------------------------------------------------------------------


def shaped(host: Host, loc: Loc, value: Any, name: str) -> tuple[DType, tuple[int, ...]]:
    """Returns the type and shape in an argument such as `f32[m, n]`. Raises an error if such an array would exceed the
    memory limit."""
    loc = host.place_of(0, loc)
    if isinstance(value, DType):
        value = Shaped(value, ())
    if not isinstance(value, Shaped):
        host.error("type", loc, f"{name} takes a type with extents", "for example f32[128]")
    host.room(loc, value.bytes)
    return value.dtype, value.shape


def made(host: Host, array: np.ndarray) -> Any:
    """Counts a new array against the memory limit until it is freed, and returns it. An array without axes becomes a
    number."""
    if array.ndim == 0:
        return plain(array)
    host.hold(array)
    return array


def constant(host: Host, loc: Loc, name: str, given: Any, value: Any) -> Any:
    """Makes an array whose elements all have one value. `given` is the type and shape."""
    dtype, shape = shaped(host, loc, given, name)
    if isinstance(value, np.ndarray) or not isinstance(value, bool | int | float):
        host.error("type", host.place_of(1, loc), f"{name} takes a number")
    if dtype.is_int and (isinstance(value, float) or not fits(value, dtype)):
        host.error("type", host.place_of(1, loc), f"{value} is no {dtype}")
    if dtype.has_fractions and math.isinf(nearest_number(value, dtype)) and abs(value) != math.inf:
        most = f"{greatest(dtype):.6g}"
        host.error("type", host.place_of(1, loc), f"{value} does not fit {dtype} (-{most} … {most})")
    element = narrow(wide(host, loc, value), dtype)
    # The OS allocates pages of zeros only when they are touched, so zeros are not written. -0.0 has to be written.
    array = np.zeros(shape, numpy_type(dtype))
    if value != 0 or math.copysign(1.0, value) < 0:
        array[...] = element
    return made(host, array)


def fits(value: int, dtype: DType) -> bool:
    low, high = int_range(dtype)
    return low <= value <= high


def drawn(host: Host, loc: Loc, given: Any, name: str, draw: Callable[[int], np.ndarray]) -> Any:
    """Makes an array of random floats. `draw(n)` returns the next n floats."""
    dtype, shape = shaped(host, loc, given, name)
    if not dtype.has_fractions:
        hint = f"randint({dtype}[…], low, high)"
        host.error("type", host.place_of(0, loc), f"{name} makes floats; this is {dtype}", hint)
    return made(host, fill(shape, dtype, draw))


def integers_drawn(host: Host, loc: Loc, given: Any, least: Any, most: Any) -> Any:
    """Makes an array of random integers that are at least `least` and below `most`."""
    dtype, shape = shaped(host, loc, given, "randint")
    ends = enumerate((least, most), 1)
    low, high = (host.whole(v, host.place_of(i, loc), "a bound of randint") for i, v in ends)
    if not low < high:
        host.error("constant", loc, f"randint from {low} to below {high} has no values")
    if dtype.is_int and not (fits(low, dtype) and fits(high - 1, dtype)):
        host.error("type", loc, f"{low} to below {high} is beyond {dtype}")
    # `endpoint=True` is used, since `high` may be 2^64, which no 64-bit type can represent.
    type_ = fitting(host, loc, low, high - 1, "a bound of randint")
    return made(host, fill(shape, dtype, lambda n: host.random.integers(low, high - 1, n, dtype=type_, endpoint=True)))


# ---- functions of elements -------------------------------------------------------------------------------------------


def floats(host: Host, loc: Loc, apply: Callable, *values: Any) -> Any:
    """Calls `apply`, a function of float64 arrays, with the values."""
    arrays = together(host, loc, list(values))
    with np.errstate(all="ignore"):
        return plain(apply(*(x.astype(np.float64, copy=False) for x in arrays)))


def whole(host: Host, loc: Loc, apply: Callable, of_integers: Callable, value: Any) -> Any:
    """Calls `of_integers` for an array of integers, and `apply` for any other value."""
    (x,) = together(host, loc, [value])
    if x.dtype.kind not in "iu":
        return floats(host, loc, apply, x)
    with np.errstate(all="ignore"):
        return plain(of_integers(x))


def either(host: Host, op: str, left: Any, right: Any, loc: Loc) -> Any:
    """Computes `left op right` on arrays or numbers. Raises an error for an operand of another kind."""
    for side in (left, right):
        if not isinstance(side, bool | int | float | np.ndarray):
            host.error("type", loc, f"an operand is {host.describe(side)}, not a number or an array")
    return host.infix(op, left, right, loc)


def extreme(host: Host, loc: Loc, values: Sequence[Any], name: str) -> Any:
    """Returns the elementwise least or greatest of the values. `name` is numpy's `minimum` or `maximum`."""
    pick = getattr(np, name)
    arrays = together(host, loc, list(values))
    if arrays[0].dtype.kind != "f" and not all(a.dtype.kind == "b" for a in arrays):
        type_ = joint_type(host, loc, arrays, "the operands")
        arrays = [a.astype(type_, copy=False) for a in arrays]
    total = arrays[0]
    for a in arrays[1:]:
        chosen = pick(total, a)
        # Given -0 and 0, numpy may return either. The hardware and this language treat -0 as the smaller.
        if chosen.dtype.kind == "f":
            first = np.signbit(total) == (pick is np.minimum)
            chosen = np.where(total == a, np.where(first, total, a), chosen)
        total = chosen
    return plain(total)


def where(host: Host, loc: Loc, condition: Any, yes: Any, no: Any) -> Any:
    condition = wide(host, loc, condition)
    if condition.dtype.kind != "b":
        host.error("type", loc, "the condition of where is i1", "compare with '!= 0'")
    yes, no = together(host, loc, [yes, no])
    host.room(loc, math.prod(common_shape(host, loc, [condition, yes, no])) * 8)
    if yes.dtype.kind != no.dtype.kind and yes.dtype.kind != "f":
        type_ = joint_type(host, loc, [yes, no], "where")
        yes, no = yes.astype(type_), no.astype(type_)
    return plain(np.where(condition, yes, no))


def absolute(host: Host, loc: Loc, value: Any) -> Any:
    """Computes the elementwise absolute value."""
    x = wide(host, loc, value)
    if x.dtype.kind == "i":
        x = x.astype(fitting(host, loc, min(0, bounds(x)[0]), abs_max(x) if x.size else 0, "abs"), copy=False)
    return plain(np.abs(x))


WHOLE = {"nearest": np.rint, "zero": np.trunc, "up": np.ceil, "down": np.floor}


def convert(host: Host, loc: Loc, value: Any, dtype: DType, saturate: bool, rounding: str | None) -> Any:
    """Computes `value.to(TYPE)`. A sequence of numbers, as in `[0, 64].to(s32)`, becomes an array."""
    if isinstance(value, list | tuple) and value:
        x = np.stack(together(host, loc, list(value)))
    else:
        x = wide(host, loc, value)
    if rounding is not None and dtype.has_fractions:
        host.error("call", loc, "rounding= to floats is known in kernels only")
    if rounding is not None and x.dtype.kind == "f":
        x = WHOLE[rounding](x)
    host.room(loc, x.size * 8)
    return plain(narrow(x, dtype, saturate))


# ---- reductions and scans --------------------------------------------------------------------------------------------

KINDS = {"numbers": "biuf", "integers": "iu", "i1": "b"}
"""Maps each class of types that a reduction takes to numpy's letters for these types."""


def reduced(
    host: Host, loc: Loc, value: Any, axis: Any, keepdims: Any, name: str, apply: Callable, takes: str, empty: bool
) -> Any:
    """Reduces an array by the function `apply`. `empty` tells whether the reduction is defined for zero elements."""
    if isinstance(axis, np.ndarray):
        hint = f"{name}imum(a, b) joins two arrays" if name in ("max", "min") else f"{name}(array, axis=1)"
        host.error("call", loc, f"{name} reduces one array", hint)
    x = wide(host, loc, value)
    if x.ndim == 0:
        host.error("shape", loc, f"{name} takes an array; this is a number")
    along = None if axis is None else host.axis(axis, loc, x.ndim)
    keep = host.flag(keepdims, loc, "keepdims")
    if x.dtype.kind not in KINDS[takes]:
        host.error("type", loc, f"{name} takes {takes}", "compare first" if takes == "i1" else None)
    terms = x.size if along is None else x.shape[along]
    if terms == 0 and not empty:
        host.error("shape", loc, f"{name} of no elements")
    if name == "sum" and x.dtype.kind in "iu" and x.size and abs_max(x) * terms >= 1 << 63:
        host.error("limit", loc, "the sum may not fit in 64 bits", "convert to f64 first")
    # The product of magnitudes is computed in float64, which rounds. So the limit is 2^62 rather than 2^63. Zeros count
    # as 1, since a partial product may overflow before a zero is reached.
    if name == "prod" and x.dtype.kind in "iu" and x.size:
        with np.errstate(all="ignore"):
            if float(np.abs(np.prod(np.maximum(np.abs(x.astype(np.float64)), 1.0), axis=along)).max()) >= 2.0**62:
                host.error("limit", loc, "the product may not fit in 64 bits", "convert to f64 first")
    with np.errstate(all="ignore"):
        return plain(apply(x, axis=along, keepdims=keep))


def running(
    host: Host, loc: Loc, value: Any, name: str, ufunc: np.ufunc, axis: Any = None, reverse: Any = False
) -> Any:
    """Computes the running reduction (scan) of an array. `ufunc` is the numpy function that combines two values."""
    x = wide(host, loc, value)
    along = _along(host, loc, name, x.ndim, axis)
    terms = x.shape[along]
    if x.dtype.kind in "iu" and x.size:
        most = abs_max(x)
        most = most * terms if name == "cumsum" else most if name != "cumprod" or most < 2 else most ** min(terms, 64)
        if most >= 1 << 63:
            host.error("limit", loc, f"{name} may not fit in 64 bits", "convert to f64 first")
    backwards = host.flag(reverse, loc, "reverse")
    with np.errstate(all="ignore"):
        turned = np.flip(x, along) if backwards else x
        out = ufunc.accumulate(turned.astype(np.int64) if x.dtype.kind == "b" else turned, axis=along)
    return np.flip(out, along) if backwards else out


def _along(host: Host, loc: Loc, name: str, rank: int, axis: Any) -> int:
    if rank == 0:
        host.error("shape", loc, f"{name} takes an array; this is a number")
    if axis is None and rank > 1:
        hint = f"{name}(x, axis=0), or another of its {rank} axes"
        host.error("call", loc, f"{name} of an array of rank {rank} needs axis=", hint)
    return host.axis(0 if axis is None else axis, loc, rank)


def sort(host: Host, loc: Loc, value: Any, axis: Any = None, reverse: Any = False) -> Any:
    x = wide(host, loc, value)
    along = _along(host, loc, "sort", x.ndim, axis)
    rising = np.sort(x, axis=along)
    return np.flip(rising, along) if host.flag(reverse, loc, "reverse") else rising


def reduce(host: Host, loc: Loc, function: Any, value: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """Reduces by the user's `function`. Each step combines adjacent pairs in one call on whole arrays, so there are
    about log2(extent) calls."""
    tiles, many = _joined(host, loc, value, "reduce")
    keep = host.flag(keepdims, loc, "keepdims")
    if axis is None:
        if keep:
            host.error("call", loc, "keepdims= needs axis=")
        tiles, along = [t.reshape(-1) for t in tiles], 0
    else:
        along = host.axis(axis, loc, tiles[0].ndim)
    if tiles[0].shape[along] == 0:
        host.error("shape", loc, "reduce of no elements")
    tiles = [np.moveaxis(t, along, 0) for t in tiles]
    while (extent := tiles[0].shape[0]) > 1:
        # With an odd count, the last element is left for the next step, so that elements are combined in their order.
        pairs = extent // 2 * 2
        joined = _apply(host, loc, function, [t[0:pairs:2] for t in tiles], [t[1:pairs:2] for t in tiles])
        tiles = [np.concatenate([j, t[pairs:].astype(j.dtype)]) for j, t in zip(joined, tiles, strict=True)]
    out = [plain(np.moveaxis(t, 0, along) if keep else t[0]) for t in tiles]
    return tuple(out) if many else out[0]


def scan(host: Host, loc: Loc, function: Any, value: Any, axis: Any = None, reverse: Any = False) -> Any:
    """Computes an inclusive scan by the user's `function`. Each step combines elements at twice the previous distance.
    A step is one call on whole arrays, so there are about log2(extent) calls."""
    tiles, many = _joined(host, loc, value, "scan")
    along = _along(host, loc, "scan", tiles[0].ndim, axis)
    backwards = host.flag(reverse, loc, "reverse")
    tiles = [np.moveaxis(np.flip(t, along) if backwards else t, along, 0) for t in tiles]
    distance, extent = 1, tiles[0].shape[0]
    while distance < extent:
        joined = _apply(host, loc, function, [t[:-distance] for t in tiles], [t[distance:] for t in tiles])
        tiles = [np.concatenate([t[:distance].astype(j.dtype), j]) for j, t in zip(joined, tiles, strict=True)]
        distance *= 2
    tiles = [np.moveaxis(t, 0, along) for t in tiles]
    out = [np.flip(t, along) if backwards else t for t in tiles]
    return tuple(out) if many else out[0]


def _joined(host: Host, loc: Loc, value: Any, name: str) -> tuple[list[np.ndarray], bool]:
    many = isinstance(value, tuple)
    tiles = [wide(host, loc, v) for v in (value if many else (value,))]
    shape = common_shape(host, loc, tiles)
    if not shape:
        host.error("shape", loc, f"{name} takes an array; this is a number")
    return [np.broadcast_to(t, shape) for t in tiles], many


def _apply(host: Host, loc: Loc, function: Any, left: list, right: list) -> list[np.ndarray]:
    result = host.apply(function, arguments_of_join(function, left, right), loc)
    out = list(result) if isinstance(result, tuple) else [result]
    if len(out) != len(left):
        host.error("type", loc, f"the function joins {len(left)} values and returns {len(out)}")
    return [np.broadcast_to(wide(host, loc, o), each.shape) for o, each in zip(out, left, strict=True)]


# ---- parts and shapes ----------------------------------------------------------------------------------------------


def array(host: Host, loc: Loc, value: Any, name: str) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        host.error("type", loc, f"{name} takes an array; this is {host.describe(value)}")
    return value


def extents(host: Host, loc: Loc, value: Any) -> tuple[int, ...]:
    items = tuple(value) if isinstance(value, list | tuple) else (value,)
    return tuple(host.whole(v, loc, "an extent") for v in items)


def alike(host: Host, loc: Loc, values: Sequence[Any], broadcast: bool) -> list[np.ndarray]:
    """Converts values to arrays of one type. If their types agree, they stay unchanged, and otherwise they are widened.
    Raises an error if the arrays would exceed the memory limit."""
    arrays = [v if isinstance(v, np.ndarray) else wide(host, loc, v) for v in values]
    host.room(loc, sum(a.size for a in arrays) * 8)
    if any(a.dtype != arrays[0].dtype for a in arrays):
        arrays = together(host, loc, list(values)) if broadcast else [wide(host, loc, a) for a in arrays]
        if len({a.dtype.kind for a in arrays}) > 1 and any(a.dtype.kind == "f" for a in arrays):
            arrays = [a.astype(np.float64) for a in arrays]
    return arrays


def subscript(host: Host, node: ast.Index, value: np.ndarray) -> Any:
    """Applies subscripts to an array, as in `x[i, a : b, None, indices]`. The subscripts have the same meaning as in
    numpy."""
    keys: list[Any] = []
    axes = 0
    for sub in node.subscripts:
        if isinstance(sub, ast.Slice):
            ends = [None if e is None else host.integer(e, "the end of a slice") for e in (sub.start, sub.stop)]
            keys.append(slice(*ends))
            axes += 1
        elif ast.is_none(sub):
            keys.append(None)
        else:
            key = host.expr(sub)
            if isinstance(key, np.ndarray):
                key = wide(host, sub.loc, key)
                if key.dtype.kind not in "iu":
                    host.error("type", sub.loc, "an index is an integer", "where(mask, a, b) selects")
            else:
                key = host.whole(key, sub.loc, "an index")
            if axes < value.ndim:
                low, high = bounds(np.asarray(key))
                extent = value.shape[axes]
                if np.size(key) and not (-extent <= low and high < extent):
                    bad = low if low < -extent else high
                    host.error("shape", sub.loc, f"index {bad} is outside of axis {axes}, which has {extent} elements")
            keys.append(key)
            axes += 1
    if axes > value.ndim:
        host.error("shape", node.loc, f"an array of rank {value.ndim} takes no {axes} indices")
    common_shape(host, node.loc, [k for k in keys if isinstance(k, np.ndarray)] or [np.asarray(0)])
    return plain(value[tuple(keys)])


def reshape(host: Host, loc: Loc, value: Any, given: Any) -> Any:
    x, shape = array(host, loc, value, "reshape"), extents(host, loc, given)
    if any(e < 0 for e in shape) or math.prod(shape) != x.size:
        host.error("shape", loc, f"{list(x.shape)} cannot be seen as {list(shape)}")
    return plain(x.reshape(shape))


def transpose(host: Host, loc: Loc, value: Any, order: Any = None) -> Any:
    x = array(host, loc, value, "transpose")
    axes = tuple(reversed(range(x.ndim))) if order is None else extents(host, loc, order)
    if sorted(axes) != list(range(x.ndim)):
        host.error("shape", loc, f"{list(axes)} is no order of the axes of an array of rank {x.ndim}")
    return x.transpose(axes)


def turned(host: Host, loc: Loc, value: Any) -> np.ndarray:
    """Returns the transposed array `value.T`."""
    x = array(host, loc, value, ".T")
    if x.ndim != 2:
        host.error("shape", loc, f".T takes an array of rank 2; this has rank {x.ndim}")
    return x.T


def stack(host: Host, loc: Loc, values: Sequence[Any], axis: Any = -1) -> Any:
    """Stacks arrays of one shape along a new axis. By default, the new axis is the last axis of the result, as for
    tiles."""
    arrays = alike(host, loc, _each(values), True)
    shape = common_shape(host, loc, arrays)
    along = host.axis(axis, loc, len(shape) + 1)
    return np.stack([np.broadcast_to(a, shape) for a in arrays], axis=along)


def gather(host: Host, loc: Loc, value: Any, index: Any, axis: Any = -1) -> Any:
    x, at = array(host, loc, value, "gather"), array(host, loc, index, "gather")
    along = host.axis(axis, loc, x.ndim)
    if at.dtype.kind not in "iu":
        host.error("type", loc, "the indices of gather are integers")
    if x.ndim != at.ndim or np.delete(x.shape, along).tolist() != np.delete(at.shape, along).tolist():
        host.error(
            "shape", loc, f"gather of {list(x.shape)} by {list(at.shape)}: shapes that differ along axis {along}"
        )
    if at.size and not x.shape[along]:
        host.error("shape", loc, f"gather from an axis without elements: {list(x.shape)}")
    wide = at if at.dtype == np.uint64 else at.astype(np.int64)  # the extent may exceed a narrow type
    return np.take_along_axis(x, wide % wide.dtype.type(max(x.shape[along], 1)), axis=along)


def concatenate(host: Host, loc: Loc, values: Sequence[Any], axis: Any = 0) -> Any:
    arrays = alike(host, loc, [array(host, loc, v, "concatenate") for v in _each(values)], False)
    along = host.axis(axis, loc, arrays[0].ndim)
    rests = {(a.ndim, a.shape[:along] + a.shape[along + 1 :]) for a in arrays}
    if len(rests) > 1:
        shapes = " and ".join(str(list(a.shape)) for a in arrays)
        host.error("shape", loc, f"the shapes {shapes} cannot be joined along axis {along}")
    return np.concatenate(arrays, axis=along)


def _each(values: Sequence[Any]) -> Sequence[Any]:
    """Returns the items of `values`. If the only item is itself a sequence, returns the items of this sequence."""
    return values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values


def broadcast(host: Host, loc: Loc, value: Any, given: Any) -> Any:
    shape = extents(host, loc, given)
    source = value if isinstance(value, np.ndarray) else wide(host, loc, value)
    try:
        return np.broadcast_to(source, shape)
    except ValueError:
        host.error("shape", loc, f"{list(source.shape)} does not broadcast to {list(shape)}")


# ---- references ------------------------------------------------------------------------------------------------------


def refer(host: Host, loc: Loc, name: str, values: Sequence[Any], named: dict[str, Any]) -> Any:
    """Computes `ref.NAME(…)`, where `name` is NAME."""
    given = [wide(host, loc, v) if isinstance(v, np.ndarray) else v for v in values]
    more = {k: wide(host, loc, v) if isinstance(v, np.ndarray) else v for k, v in named.items()}
    arrays = [a for a in (*given, *more.values()) if isinstance(a, np.ndarray)]
    if not arrays:
        host.error("type", loc, f"ref.{name} takes arrays")
    host.room(loc, sum(a.nbytes for a in arrays))
    try:
        with np.errstate(all="ignore"):
            return plain(getattr(reference, name)(*given, **more))
    except (ValueError, IndexError) as error:
        host.error("shape", loc, f"ref.{name}: {error}")
    except TypeError as error:
        host.error("type", loc, f"ref.{name}: {error}")
