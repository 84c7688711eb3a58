"""The functions that `example`, `dispatch` and host-run `def`s know, on numpy arrays and numbers.

Floats calculate in float64. Integers are exact: what does not fit in 64 bits is an error. A handler takes the host, the
call, its arguments and keywords; `host.fail(code, loc, message, hint)` raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dsl.text import tree as ast
from dsl.values.arithmetic import infix as number_infix
from dsl.values.element_types import element_type, fill, narrow, numpy_type, poisoned, widen
from dsl.values.functions.reductions import REDUCTIONS
from dsl.values.reference import abs_max, erf, erfc, gelu, gelu_tanh, logsumexp, matmul, relu, sigmoid, silu
from dsl.values.signatures import misfit
from lowering.location import Loc
from lowering.ops import OPS
from lowering.ops.elementwise import FUNCTIONS as OPERATIONS
from lowering.ops.elementwise import Function
from lowering.types import DTYPES, F64, DType, int_range

if TYPE_CHECKING:
    from dsl.values.arrays import Host

Handler = Callable[..., Any]
HANDLERS: dict[str, Handler] = {}
WORDS_OF_TO = {"nearest": np.rint, "zero": np.trunc, "up": np.ceil, "down": np.floor}
KERNEL_ONLY = frozenset((
    "load", "store", "copy", "commit", "wait", "barrier", "block", "grid", "ldmatrix", "stmatrix", "dot", "asm",
    "print", "atomic_add", "atomic_and", "atomic_cas", "atomic_exchange", "atomic_max", "atomic_min", "atomic_or",
    "atomic_xor", "shfl", "vote", "redux", "mma", "bitcast", "given",
    *(each.name for each in OPERATIONS.values() if not each.on_host),
))  # fmt: skip


def function(name: str, least: int, most: int | None = None, keywords: str = "") -> Callable[[Handler], Handler]:
    """Registers a handler that takes `least` to `most` positional arguments (-1: any number) and these keywords."""
    allowed = keywords.split()

    def register(handler: Handler) -> Handler:
        def checked(host: Host, node: ast.Call, args: list, given: dict) -> Any:
            top = least if most is None else None if most < 0 else most
            wrong = misfit(name, len(args), given, least, top, allowed)
            if wrong is not None:
                host.fail("call", node.loc, *wrong)
            return handler(host, node, args, given)

        HANDLERS[name] = checked
        return handler

    return register


# ---- values ---------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A numpy scalar, or an array without axes, as a Python number."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return widen(np.asarray(value)).item()
    return value


def wide(host: Host, loc: Loc, value: Any, what: str = "an operand") -> np.ndarray:
    """A number or array as float64, int64, uint64 or bool. A number's array has no axes."""
    if isinstance(value, np.ndarray):
        host.room(loc, 0 if value.dtype in (np.float64, np.int64, np.bool_) else value.size * 8)
        try:
            return widen(value)
        except TypeError as error:
            host.fail("type", loc, str(error))
    if isinstance(value, bool):
        return np.asarray(value)
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            host.fail("limit", loc, f"{value} does not fit in 64 bits")
        return np.asarray(value, np.int64 if value < 1 << 63 else np.uint64)
    if isinstance(value, float):
        return np.asarray(value, np.float64)
    host.fail("type", loc, f"{what} is {host.describe(value)}, not a number or an array")


def together(host: Host, loc: Loc, values: list) -> list[np.ndarray]:
    """Values widened, with room for their common shape; all float64 if one is."""
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
        host.fail("shape", loc, f"the shapes {' and '.join(str(list(a.shape)) for a in arrays)} do not fit together")


def bounds(array: np.ndarray) -> tuple[int, int]:
    """Least and greatest element of integers; (0, 0) of an empty array."""
    return (int(array.min()), int(array.max())) if array.size else (0, 0)


def fitting(host: Host, loc: Loc, low: int, high: int, what: str) -> type:
    """The 64-bit type that holds low … high."""
    if low >= -(1 << 63) and high < 1 << 63:
        return np.int64
    if low >= 0 and high < 1 << 64:
        return np.uint64
    host.fail(
        "limit",
        loc,
        f"{what} may not fit in 64 bits",
        "integers on the host do not wrap; convert to f64, or narrow first",
    )


def integer_number(host: Host, loc: Loc, value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        host.fail("constant", loc, f"{what} is an integer; this is {host.describe(value)}")
    return value


def axis_of(host: Host, loc: Loc, value: Any, rank: int) -> int:
    axis = integer_number(host, loc, value, "axis=")
    if not -rank <= axis < rank:
        host.fail("shape", loc, f"an array of rank {rank} has no axis {axis}")
    return axis % rank


def flag(host: Host, loc: Loc, value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        host.fail("constant", loc, f"{name}= is true or false")
    return value


# ---- operators -----------------------------------------------------------------------------------------------

_FLOAT_INFIX: dict[str, Callable] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide, "%": np.mod, "**": np.power,
}  # fmt: skip
_COMPARE: dict[str, Callable] = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_BITS: dict[str, Callable] = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}


def infix(host: Host, op: str, left: Any, right: Any, loc: Loc) -> Any:
    """`left op right` where at least one side is an array."""
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
                host.fail("type", loc, f"'{op}' takes integers")
            return plain(_FLOAT_INFIX[op](a, b))
        return plain(_integers(host, op, a, b, loc))


def _bits(host: Host, op: str, a: np.ndarray, b: np.ndarray, loc: Loc) -> np.ndarray:
    if a.dtype.kind == "f":
        host.fail("type", loc, f"'{op}' takes integers")
    if a.dtype.kind == "b" and b.dtype.kind == "b":
        return _BITS[op](a, b)
    type_ = fitting(
        host, loc, min(bounds(a)[0], bounds(b)[0]), max(bounds(a)[1], bounds(b)[1]), f"the operands of '{op}'"
    )
    return _BITS[op](a.astype(type_), b.astype(type_))


def _integers(host: Host, op: str, a: np.ndarray, b: np.ndarray, loc: Loc) -> np.ndarray:
    (al, ah), (bl, bh) = bounds(a), bounds(b)
    if op in ("//", "%", "/") and bool((b == 0).any()):
        host.fail("constant", loc, "division by zero")
    if op in ("<<", ">>") and (bl < 0 or bh > 63):
        host.fail("constant", loc, f"a shift by {bl if bl < 0 else bh}")
    if op == "**" and bl < 0:
        host.fail("constant", loc, "a negative power of integers", "convert to a float type first")
    if op == "+":
        low, high = al + bl, ah + bh
    elif op == "-":
        low, high = al - bh, ah - bl
    elif op in ("*", "//", "/", "%"):
        ends = [x * y for x in (al, ah) for y in (bl, bh)] if op == "*" else [al, ah, -al, -ah, bl, bh]
        if op != "*" and bl >= 0:
            ends = [al, ah, bh]
        low, high = min(ends), max(ends)
    elif op in ("<<", ">>"):
        ends = [al, ah] if op == ">>" else [x << y for x in (al, ah) for y in (bl, bh)]
        low, high = min(ends), max(ends)
    else:
        most = max(abs(al), abs(ah))
        power = 1 << 64 if most > 1 and bh > 64 else most**bh if most > 1 else 1
        low, high = (-power if al < 0 else 0), power
    type_ = fitting(host, loc, min(low, al, bl), max(high, ah, bh), f"the result of '{op}'")
    x: np.ndarray = a.astype(type_, copy=False)
    y: np.ndarray = b.astype(type_, copy=False)
    if op == "/":
        quotient = np.floor_divide(x, y)
        rest = quotient * y != x
        if rest.any():
            at = np.unravel_index(int(rest.argmax()), rest.shape)
            pair = [np.broadcast_to(v, rest.shape)[at].item() for v in (x, y)]
            host.fail(
                "constant",
                loc,
                f"{pair[0]} / {pair[1]} is no integer",
                "'//' rounds down; .to(f32) first divides as floats",
            )
        return quotient
    functions: dict[str, Callable] = {**_FLOAT_INFIX, "<<": np.left_shift, ">>": np.right_shift}
    if op not in functions:
        host.fail("type", loc, f"'{op}' does not take arrays")
    return functions[op](x, y)


def product(host: Host, loc: Loc, left: Any, right: Any) -> Any:
    """`left @ right`, over the last two axes."""
    a, b = wide(host, loc, left), wide(host, loc, right)
    if a.ndim < 1 or b.ndim < 1:
        host.fail("shape", loc, "'@' takes arrays, not numbers")
    inner = b.shape[0] if b.ndim == 1 else b.shape[-2]
    if a.shape[-1] != inner:
        host.fail(
            "shape", loc, f"the inner extents of {list(a.shape)} @ {list(b.shape)} differ: {a.shape[-1]} and {inner}"
        )
    try:
        outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        host.fail("shape", loc, f"the outer extents of {list(a.shape)} @ {list(b.shape)} do not fit together")
    rows = a.shape[-2] if a.ndim > 1 else 1
    host.room(loc, math.prod(outer) * rows * (b.shape[-1] if b.ndim > 1 else 1) * 8)
    with np.errstate(all="ignore"):
        try:
            return plain(matmul(a, b))
        except ValueError as error:
            host.fail("limit", loc, str(error), "convert to f64 first")


def negative(host: Host, op: str, value: Any, loc: Loc) -> Any:
    """A prefix operator on an array."""
    x = wide(host, loc, value)
    if op == "not":
        if x.dtype.kind != "b":
            host.fail("type", loc, "'not' takes i1", "compare with '== 0'")
        return ~x
    if op == "~":
        if x.dtype.kind == "f":
            host.fail("type", loc, "'~' takes integers")
        return ~x
    if x.dtype.kind == "b":
        host.fail("type", loc, "'-' takes numbers")
    return -x if x.dtype.kind == "f" else infix(host, "-", 0, x, loc)


def logic(host: Host, op: str, left: Any, right: Any, loc: Loc) -> Any:
    """`and`, `or` of which at least one side is an array, element by element."""
    a, b = together(host, loc, [left, right])
    for side in (a, b):
        if side.dtype.kind != "b":
            host.fail("type", loc, f"'{op}' takes i1", "compare with '!= 0'")
    return plain((np.logical_and if op == "and" else np.logical_or)(a, b))


# ---- making arrays -----------------------------------------------------------------------------------------------


def shaped(host: Host, node: ast.Call, value: Any, name: str) -> tuple[DType, tuple[int, ...]]:
    """The type and shape of an argument like f32[m, n]; room for it is taken."""
    from dsl.values.arrays import Shaped

    if isinstance(value, DType):
        value = Shaped(value, ())
    if not isinstance(value, Shaped):
        host.fail("type", node.args[0].loc, f"{name} takes a type with extents", "for example f32[128]")
    host.room(node.args[0].loc, value.bytes)
    return value.dtype, value.shape


def made(host: Host, array: np.ndarray) -> Any:
    """A new array, counted against the limit for as long as it lives."""
    if array.ndim == 0:
        return plain(array)
    host.hold(array)
    return array


def _constant_array(host: Host, node: ast.Call, name: str, given: Any, value: Any) -> Any:
    dtype, shape = shaped(host, node, given, name)
    if isinstance(value, np.ndarray) or not isinstance(value, bool | int | float):
        host.fail("type", node.args[-1].loc, f"{name} takes a number")
    if dtype.is_int and (isinstance(value, float) or not _fits(value, dtype)):
        host.fail("type", node.args[-1].loc, f"{value} is no {dtype}")
    element = narrow(wide(host, node.loc, value), dtype)
    # Zeros cost nothing until they are touched; anything else is written.
    array = np.zeros(shape, numpy_type(dtype))
    if value != 0 or math.copysign(1.0, value) < 0:
        array[...] = element
    return made(host, array)


def _fits(value: int, dtype: DType) -> bool:
    low, high = int_range(dtype)
    return low <= value <= high


@function("zeros", 1)
def _zeros(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    return _constant_array(host, node, "zeros", args[0], 0)


@function("ones", 1)
def _ones(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    return _constant_array(host, node, "ones", args[0], 1)


@function("full", 2)
def _full(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    return _constant_array(host, node, "full", args[0], args[1])


@function("empty", 1)
def _empty(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    dtype, shape = shaped(host, node, args[0], "empty")
    return made(host, poisoned(shape, dtype))


@function("arange", 1)
def _arange(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    from dsl.values.arrays import Shaped

    given = args[0]
    if not isinstance(given, Shaped):
        given = Shaped(DTYPES["index"], (integer_number(host, node.loc, given, "the extent of arange"),))
    if len(given.shape) != 1 or given.shape[0] < 0:
        host.fail(
            "shape", node.loc, "arange takes one extent", "arange(n) or arange(s32[n]); reshape gives other shapes"
        )
    host.room(node.loc, given.shape[0] * 8)
    if (
        given.dtype.is_int
        and given.dtype.bits < 64
        and given.shape[0]
        and not _fits(given.shape[0] - 1, given.dtype)
        and given.dtype.kind != "index"
    ):
        host.fail("type", node.loc, f"{given.shape[0] - 1} is no {given.dtype}")
    return made(host, narrow(np.arange(given.shape[0]), given.dtype))


def _drawn(name: str, draw: Callable[[np.random.Generator, int], np.ndarray]) -> None:
    @function(name, 1)
    def handler(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
        if name == "uniform" and not isinstance(args[0], DType) and isinstance(args[0], np.ndarray | int):
            # Of the bits that philox gives, as in kernels: the upper 24 as a number in [0, 1).
            return infix_any(host, "*", infix_any(host, ">>", args[0], 8, node), 2.0**-24, node)
        dtype, shape = shaped(host, node, args[0], name)
        if not dtype.has_fractions:
            host.fail(
                "type", node.args[0].loc, f"{name} makes floats; this is {dtype}", f"randint({dtype}[…], low, high)"
            )
        return made(host, fill(shape, dtype, lambda n: draw(host.random, n)))


_drawn("randn", lambda random, n: random.standard_normal(n))
_drawn("uniform", lambda random, n: random.random(n))


@function("philox", 2)
def _philox(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    """Four u32 for each (seed, offset): Philox 4x32-10, as the kernels' (library/philox-uniform.tile)."""
    key, counter = (v.astype(np.uint64) for v in together(host, node.loc, args))
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    k0, k1, c0, c1 = key & low, key >> half, counter & low, counter >> half
    c2 = c3 = np.zeros_like(c0)
    for _ in range(10):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = p1 >> half ^ c1 ^ k0, p1 & low, p0 >> half ^ c3 ^ k1, p0 & low
        k0, k1 = k0 + np.uint64(0x9E3779B9) & low, k1 + np.uint64(0xBB67AE85) & low
    return tuple(plain(c.astype(np.uint32)) for c in (c0, c1, c2, c3))


@function("randint", 3)
def _randint(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    """Integers from low to below high, as numpy's."""
    dtype, shape = shaped(host, node, args[0], "randint")
    low, high = (
        integer_number(host, a.loc, v, "a bound of randint") for a, v in zip(node.args[1:], args[1:], strict=True)
    )
    if not low < high:
        host.fail("constant", node.loc, f"randint from {low} to below {high} has no values")
    if dtype.is_int and not (_fits(low, dtype) and _fits(high - 1, dtype)):
        host.fail("type", node.loc, f"{low} to below {high} is beyond {dtype}")
    type_ = fitting(host, node.loc, low, high - 1, "a bound of randint")
    return made(host, fill(shape, dtype, lambda n: host.random.integers(low, high - 1, n, dtype=type_, endpoint=True)))


# ---- elementwise -----------------------------------------------------------------------------------------------


def _of_elements(operation: Function) -> None:
    """What an operation of kernels means, in float64; what rounds to whole numbers leaves integers as they are."""
    rounds = OPS[operation.name].rounds is not None

    @function(operation.name, operation.arity)
    def handler(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
        values = together(host, node.loc, args)
        if rounds and values[0].dtype.kind in "iu":
            return plain(values[0])
        with np.errstate(all="ignore"):
            return plain(operation.compute(F64, *(x.astype(np.float64, copy=False) for x in values)))


for _operation in OPERATIONS.values():
    if _operation.on_host:
        _of_elements(_operation)


def _unary(names: str, apply: Callable, integers: Callable | None = None) -> None:
    """Registers functions of one value; `integers` is the form for integers, else they become floats."""

    def register(name: str) -> None:
        @function(name, 1)
        def handler(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
            (x,) = together(host, node.loc, args)
            with np.errstate(all="ignore"):
                if x.dtype.kind in "iu" and integers is not None:
                    return plain(integers(x))
                return plain(apply(x.astype(np.float64, copy=False)))

    for name in names.split():
        register(name)


_unary("exp exp.approx", np.exp)
_unary("exp2 exp2.approx", np.exp2)
_unary("expm1", np.expm1)
_unary("log log.approx", np.log)
_unary("log2 log2.approx", np.log2)
_unary("log1p", np.log1p)
_unary("rsqrt", lambda x: 1.0 / np.sqrt(x))
_unary("sin", np.sin)
_unary("cos", np.cos)
_unary("tanh", np.tanh)
_unary("tan", np.tan)
_unary("asin", np.arcsin)
_unary("acos", np.arccos)
_unary("atan", np.arctan)
_unary("sinh", np.sinh)
_unary("cosh", np.cosh)
_unary("log10 log10.approx", np.log10)
_unary("erf", erf)
_unary("erfc", erfc)
_unary("sigmoid", sigmoid)
_unary("silu", silu)
_unary("softplus", lambda x: np.logaddexp(x, 0.0))
_unary("gelu", gelu)
_unary("gelu_tanh", gelu_tanh)
_unary("relu", relu, relu)
_unary("sign", np.sign, np.sign)
_unary("isfinite", np.isfinite, lambda x: np.ones(x.shape, bool))
_unary("isnan", np.isnan, lambda x: np.zeros(x.shape, bool))
_unary("isinf", np.isinf, lambda x: np.zeros(x.shape, bool))


@function("abs", 1)
def _abs(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    x = wide(host, node.loc, args[0])
    if x.dtype.kind == "i":
        return plain(
            np.abs(
                x.astype(fitting(host, node.loc, min(0, bounds(x)[0]), abs_max(x) if x.size else 0, "abs"), copy=False)
            )
        )
    return plain(np.abs(x))


def _binary(name: str, apply: Callable) -> None:
    """Registers a function of two floats."""

    @function(name, 2)
    def handler(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
        a, b = (x.astype(np.float64, copy=False) for x in together(host, node.loc, args))
        with np.errstate(all="ignore"):
            return plain(apply(a, b))


_binary("atan2", np.arctan2)
_binary("pow", np.power)


@function("fma", 3)
def _fma(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    return infix_any(host, "+", infix_any(host, "*", args[0], args[1], node), args[2], node)


@function("polynomial", 3, -1)
def _polynomial(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    x, *coefficients = args
    total = coefficients.pop()
    while coefficients:
        total = infix_any(host, "+", infix_any(host, "*", total, x, node), coefficients.pop(), node)
    return total


def infix_any(host: Host, op: str, left: Any, right: Any, node: ast.Expr) -> Any:
    """`left op right` on arrays or numbers."""
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return infix(host, op, left, right, node.loc)
    return number_infix(op, left, right)


def _extreme(host: Host, node: ast.Call, values: list, pick: Callable) -> Any:
    arrays = together(host, node.loc, values)
    if arrays[0].dtype.kind != "f":
        low, high = min(bounds(a)[0] for a in arrays), max(bounds(a)[1] for a in arrays)
        if not all(a.dtype.kind == "b" for a in arrays):
            type_ = fitting(host, node.loc, low, high, "the operands")
            arrays = [a.astype(type_, copy=False) for a in arrays]
    total = arrays[0]
    for a in arrays[1:]:
        chosen = pick(total, a)
        if chosen.dtype.kind == "f":  # of zeros of both signs, -0 is the smaller one
            first = np.signbit(total) == (pick is np.minimum)
            chosen = np.where(total == a, np.where(first, total, a), chosen)
        total = chosen
    return plain(total)


@function("maximum", 2, -1)
def _maximum(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    return _extreme(host, node, args, np.maximum)


@function("minimum", 2, -1)
def _minimum(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    return _extreme(host, node, args, np.minimum)


@function("clamp", 3)
def _clamp(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    return _extreme(host, node, [_extreme(host, node, args[:2], np.maximum), args[2]], np.minimum)


@function("where", 3)
def _where(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    condition = wide(host, node.loc, args[0])
    if condition.dtype.kind != "b":
        host.fail("type", node.loc, "the condition of where is i1", "compare with '!= 0'")
    yes, no = together(host, node.loc, args[1:])
    host.room(node.loc, math.prod(common_shape(host, node.loc, [condition, yes, no])) * 8)
    if yes.dtype.kind != no.dtype.kind and yes.dtype.kind != "f":
        type_ = fitting(host, node.loc, min(bounds(yes)[0], bounds(no)[0]), max(bounds(yes)[1], bounds(no)[1]), "where")
        yes, no = yes.astype(type_), no.astype(type_)
    return plain(np.where(condition, yes, no))


@function("cdiv", 2)
def _cdiv(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    down = infix_any(host, "//", infix_any(host, "-", 0, args[0], node), args[1], node)
    return infix_any(host, "-", 0, down, node)


# ---- reductions and scans --------------------------------------------------------------------------------------------


KINDS = {"numbers": "biuf", "integers": "iu", "i1": "b"}
"""What a reduction takes, as numpy calls the types."""


def _reduction(name: str, apply: Callable, takes: str = "numbers", empty: bool = False) -> None:
    """`empty`: of no elements it has a result."""

    @function(name, 1, 2, "axis keepdims")
    def handler(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
        x, axis, keep = _reduced(host, node, name, args, keywords)
        if x.dtype.kind not in KINDS[takes]:
            host.fail("type", node.loc, f"{name} takes {takes}", "compare first" if takes == "i1" else None)
        terms = x.size if axis is None else x.shape[axis]
        if terms == 0 and not empty:
            host.fail("shape", node.loc, f"{name} of no elements")
        if name == "sum" and x.dtype.kind in "iu" and x.size and abs_max(x) * terms >= 1 << 63:
            host.fail("limit", node.loc, "the sum may not fit in 64 bits", "convert to f64 first")
        if name == "prod" and x.dtype.kind in "iu" and x.size:
            with np.errstate(all="ignore"):
                if float(np.abs(np.prod(np.maximum(np.abs(x.astype(np.float64)), 1.0), axis=axis)).max()) >= 2.0**62:
                    host.fail("limit", node.loc, "the product may not fit in 64 bits", "convert to f64 first")
        with np.errstate(all="ignore"):
            return plain(apply(x, axis=axis, keepdims=keep))


def _reduced(host: Host, node: ast.Call, name: str, args: list, keywords: dict) -> tuple[np.ndarray, int | None, bool]:
    if len(args) == 2:
        if isinstance(args[1], np.ndarray) or "axis" in keywords:
            hint = f"{name}imum(a, b) joins two arrays" if name in ("max", "min") else f"{name}(array, axis=1)"
            host.fail("call", node.loc, f"{name} reduces one array", hint)
        keywords = keywords | {"axis": args[1]}
    x = wide(host, node.loc, args[0])
    if x.ndim == 0:
        host.fail("shape", node.loc, f"{name} takes an array; this is a number")
    axis = None if keywords.get("axis") is None else axis_of(host, node.loc, keywords["axis"], x.ndim)
    return x, axis, flag(host, node.loc, keywords.get("keepdims", False), "keepdims")


for _row in REDUCTIONS:
    _joins = getattr(np, _row.ufunc)
    _reduction(_row.name, _joins.reduce, _row.takes, empty=_joins.identity is not None)
_reduction("mean", np.mean)
_reduction("logsumexp", logsumexp)
_reduction("argmax", np.argmax)
_reduction("argmin", np.argmin)


def _scan(name: str, ufunc: np.ufunc) -> None:
    @function(name, 1, 1, "axis reverse")
    def handler(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
        x = wide(host, node.loc, args[0])
        axis = _scan_axis(host, node, name, x.ndim, keywords)
        terms = x.shape[axis]
        if x.dtype.kind in "iu" and x.size:
            most = abs_max(x)
            most = (
                most * terms if name == "cumsum" else most if name != "cumprod" or most < 2 else most ** min(terms, 64)
            )
            if most >= 1 << 63:
                host.fail("limit", node.loc, f"{name} may not fit in 64 bits", "convert to f64 first")
        reverse = flag(host, node.loc, keywords.get("reverse", False), "reverse")
        with np.errstate(all="ignore"):
            turned = np.flip(x, axis) if reverse else x
            out = ufunc.accumulate(turned.astype(np.int64) if x.dtype.kind == "b" else turned, axis=axis)
        return np.flip(out, axis) if reverse else out


@function("sort", 1, 1, "axis reverse")
def _sort(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    """Rising along an axis, NaN last; with `reverse` the other way round."""
    x = wide(host, node.loc, args[0])
    axis = _scan_axis(host, node, "sort", x.ndim, keywords)
    rising = np.sort(x, axis=axis)
    return np.flip(rising, axis) if flag(host, node.loc, keywords.get("reverse", False), "reverse") else rising


def _scan_axis(host: Host, node: ast.Call, name: str, rank: int, keywords: dict) -> int:
    if rank == 0:
        host.fail("shape", node.loc, f"{name} takes an array; this is a number")
    if "axis" not in keywords and rank > 1:
        host.fail("call", node.loc, f"{name} of an array of rank {rank} needs axis=")
    return axis_of(host, node.loc, keywords.get("axis", 0), rank)


for _row in REDUCTIONS:
    if _row.scan is not None:
        _scan(_row.scan, getattr(np, _row.ufunc))


@function("reduce", 2, 3, "axis keepdims")
def _reduce(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    """Joins neighbours pairwise until one is left: log2(extent) calls of the function."""
    if len(args) == 3:
        keywords = keywords | {"axis": args[2]}
    tiles, many = _joined(host, node, args[1], "reduce")
    keep = flag(host, node.loc, keywords.get("keepdims", False), "keepdims")
    if keywords.get("axis") is None:
        if keep:
            host.fail("call", node.loc, "keepdims= needs axis=")
        tiles, axis = [t.reshape(-1) for t in tiles], 0
    else:
        axis = axis_of(host, node.loc, keywords["axis"], tiles[0].ndim)
    if tiles[0].shape[axis] == 0:
        host.fail("shape", node.loc, "reduce of no elements")
    tiles = [np.moveaxis(t, axis, 0) for t in tiles]
    while (extent := tiles[0].shape[0]) > 1:
        pairs = extent // 2 * 2
        joined = _apply_joiner(host, node, args[0], [t[0:pairs:2] for t in tiles], [t[1:pairs:2] for t in tiles])
        tiles = [np.concatenate([j, t[pairs:].astype(j.dtype)]) for j, t in zip(joined, tiles, strict=True)]
    out = [plain(np.moveaxis(t, 0, axis) if keep else t[0]) for t in tiles]
    return tuple(out) if many else out[0]


@function("scan", 2, 3, "axis reverse")
def _scan_with(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    """Inclusive, by doubling distances: log2(extent) calls of the function."""
    if len(args) == 3:
        keywords = keywords | {"axis": args[2]}
    tiles, many = _joined(host, node, args[1], "scan")
    axis = _scan_axis(host, node, "scan", tiles[0].ndim, keywords)
    reverse = flag(host, node.loc, keywords.get("reverse", False), "reverse")
    tiles = [np.moveaxis(np.flip(t, axis) if reverse else t, axis, 0) for t in tiles]
    distance, extent = 1, tiles[0].shape[0]
    while distance < extent:
        joined = _apply_joiner(host, node, args[0], [t[:-distance] for t in tiles], [t[distance:] for t in tiles])
        tiles = [np.concatenate([t[:distance].astype(j.dtype), j]) for j, t in zip(joined, tiles, strict=True)]
        distance *= 2
    tiles = [np.moveaxis(t, 0, axis) for t in tiles]
    out = [np.flip(t, axis) if reverse else t for t in tiles]
    return tuple(out) if many else out[0]


def _joined(host: Host, node: ast.Call, value: Any, name: str) -> tuple[list[np.ndarray], bool]:
    many = isinstance(value, tuple)
    tiles = [wide(host, node.loc, v) for v in (value if many else (value,))]
    shape = common_shape(host, node.loc, tiles)
    if not shape:
        host.fail("shape", node.loc, f"{name} takes an array; this is a number")
    return [np.broadcast_to(t, shape) for t in tiles], many


def _apply_joiner(host: Host, node: ast.Call, joiner: Any, left: list, right: list) -> list[np.ndarray]:
    result = host.apply(joiner, [*left, *right], {}, node)
    out = list(result) if isinstance(result, tuple) else [result]
    if len(out) != len(left):
        host.fail("type", node.loc, f"the function joins {len(left)} values and returns {len(out)}")
    return [np.broadcast_to(wide(host, node.loc, o), l.shape) for o, l in zip(out, left, strict=True)]


# ---- shapes --------------------------------------------------------------------------------------------------------


def array(host: Host, loc: Loc, value: Any, name: str) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        host.fail("type", loc, f"{name} takes an array; this is {host.describe(value)}")
    return value


def _extents(host: Host, loc: Loc, value: Any) -> tuple[int, ...]:
    items = tuple(value) if isinstance(value, list | tuple) else (value,)
    return tuple(integer_number(host, loc, v, "an extent") for v in items)


@function("reshape", 2)
def _reshape(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    x, shape = array(host, node.loc, args[0], "reshape"), _extents(host, node.loc, args[1])
    if any(e < 0 for e in shape) or math.prod(shape) != x.size:
        host.fail("shape", node.loc, f"{list(x.shape)} cannot be seen as {list(shape)}")
    return plain(x.reshape(shape))


@function("flat", 1)
def _flat(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    return array(host, node.loc, args[0], "flat").reshape(-1)


@function("tuple", 0, -1)
def _tuple(host: Host, node: ast.Call, args: list, keywords: dict) -> tuple:
    return tuple(args)


@function("append", 2)
def _append(host: Host, node: ast.Call, args: list, keywords: dict) -> tuple:
    if not isinstance(args[0], tuple):
        host.fail("type", node.loc, f"append takes a tuple; this is {host.describe(args[0])}", "begin with tuple()")
    return (*args[0], args[1])


@function("transpose", 1, 2)
def _transpose(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    x = array(host, node.loc, args[0], "transpose")
    axes = tuple(reversed(range(x.ndim))) if len(args) == 1 else _extents(host, node.loc, args[1])
    if sorted(axes) != list(range(x.ndim)):
        host.fail("shape", node.loc, f"{list(axes)} is no order of the axes of an array of rank {x.ndim}")
    return x.transpose(axes)


def _alike(host: Host, node: ast.Call, values: list, name: str) -> list[np.ndarray]:
    """Arrays of one type: as they are if they agree, else widened."""
    arrays = [v if isinstance(v, np.ndarray) else wide(host, node.loc, v) for v in values]
    host.room(node.loc, sum(a.size for a in arrays) * 8)
    if any(a.dtype != arrays[0].dtype for a in arrays):
        arrays = together(host, node.loc, values) if name == "stack" else [wide(host, node.loc, a) for a in arrays]
        if len({a.dtype.kind for a in arrays}) > 1 and any(a.dtype.kind == "f" for a in arrays):
            arrays = [a.astype(np.float64) for a in arrays]
    return arrays


@function("stack", 1, -1, "axis")
def _stack(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    """Arrays of one shape along a new axis: the last, as on tiles, unless axis= says otherwise."""
    values = list(args[0]) if len(args) == 1 and isinstance(args[0], list | tuple) else args
    arrays = _alike(host, node, values, "stack")
    shape = common_shape(host, node.loc, arrays)
    axis = axis_of(host, node.loc, keywords.get("axis", -1), len(shape) + 1)
    return np.stack([np.broadcast_to(a, shape) for a in arrays], axis=axis)


@function("concatenate", 1, -1, "axis")
def _concatenate(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    values = list(args[0]) if len(args) == 1 and isinstance(args[0], list | tuple) else args
    arrays = _alike(host, node, [array(host, node.loc, v, "concatenate") for v in values], "concatenate")
    axis = axis_of(host, node.loc, keywords.get("axis", 0), arrays[0].ndim)
    rests = {(a.ndim, a.shape[:axis] + a.shape[axis + 1 :]) for a in arrays}
    if len(rests) > 1:
        shapes = " and ".join(str(list(a.shape)) for a in arrays)
        host.fail("shape", node.loc, f"the shapes {shapes} cannot be joined along axis {axis}")
    return np.concatenate(arrays, axis=axis)


@function("broadcast", 2)
def _broadcast(host: Host, node: ast.Call, args: list, keywords: dict) -> Any:
    shape = _extents(host, node.loc, args[1])
    source = args[0] if isinstance(args[0], np.ndarray) else wide(host, node.loc, args[0])
    try:
        return np.broadcast_to(source, shape)
    except ValueError:
        host.fail("shape", node.loc, f"{list(source.shape)} does not broadcast to {list(shape)}")


def subscript(host: Host, node: ast.Index, value: np.ndarray) -> Any:
    """`array[i, a : b, None, indices]` as in numpy."""
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
            key = host(sub)
            if isinstance(key, np.ndarray):
                key = wide(host, sub.loc, key)
                if key.dtype.kind not in "iu":
                    host.fail("type", sub.loc, "an index is an integer", "where(mask, a, b) selects")
            else:
                key = integer_number(host, sub.loc, key, "an index")
            if axes < value.ndim:
                low, high = bounds(np.asarray(key))
                extent = value.shape[axes]
                if np.size(key) and not (-extent <= low and high < extent):
                    bad = low if low < -extent else high
                    host.fail("shape", sub.loc, f"index {bad} is outside of axis {axes}, which has {extent} elements")
            keys.append(key)
            axes += 1
    if axes > value.ndim:
        host.fail("shape", node.loc, f"an array of rank {value.ndim} takes no {axes} indices")
    common_shape(host, node.loc, [k for k in keys if isinstance(k, np.ndarray)] or [np.asarray(0)])
    return plain(value[tuple(keys)])


def transposed(host: Host, node: ast.Expr, value: Any) -> np.ndarray:
    """`value.T`."""
    x = array(host, node.loc, value, ".T")
    if x.ndim != 2:
        host.fail("shape", node.loc, f".T takes an array of rank 2; this has rank {x.ndim}")
    return x.T


# ---- types ----------------------------------------------------------------------------------------------------


def convert(host: Host, node: ast.Call, value: Any) -> Any:
    """`value.to(TYPE[, saturate][, rounding=zero])`; of a sequence of numbers, `[0, 64].to(s32)`, an array."""
    dtype = host(node.args[0]) if node.args else None
    if not isinstance(dtype, DType):
        host.fail("type", node.loc, ".to takes a type", "for example .to(f32)")
    saturate = False
    for extra in node.args[1:]:
        if not (isinstance(extra, ast.Name) and extra.id == "saturate"):
            host.fail("call", extra.loc, "after the type only 'saturate' may follow")
        saturate = True
    if isinstance(value, list | tuple) and value:
        x = np.stack(together(host, node.loc, list(value)))
    else:
        x = wide(host, node.loc, value)
    for key, word in node.keywords.items():
        text = word.id if isinstance(word, ast.Name) else None
        if key != "rounding" or text not in WORDS_OF_TO:
            host.fail("call", word.loc, ".to takes rounding=nearest, zero, up or down")
        if dtype.has_fractions:
            host.fail("call", word.loc, "rounding= to floats is known in kernels only")
        if x.dtype.kind == "f":
            x = WORDS_OF_TO[text](x)
    host.room(node.loc, x.size * 8)
    return plain(narrow(x, dtype, saturate))


@function("dtype", 1)
def _dtype(host: Host, node: ast.Call, args: list, keywords: dict) -> DType:
    if isinstance(args[0], np.ndarray):
        found = element_type(args[0])
        if found is None:
            host.fail("type", node.loc, f"an array of {args[0].dtype} is none of the language")
        return found
    if isinstance(args[0], bool):
        return DTYPES["i1"]
    return DTYPES["f64" if isinstance(args[0], float) else "s64"]
