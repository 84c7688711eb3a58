"""Elementwise functions. Those without an implementation for tiles are written in the language, in `dsl/library/`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dsl.lowering.ir.function import Value
from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.types import DTYPES, F32, F64, FP8, I1, DType, int_range, nearest_number
from dsl.lowering.known.facts import counts_elements
from dsl.lowering.ops import OPS
from dsl.lowering.ops.elementwise import FUNCTIONS, LanguageFunction
from dsl.values.arithmetic import cdiv, clamp, extreme, log2, next_pow2, pow2_divisor, power, rsqrt, sign
from dsl.values.bindings import Binding
from dsl.values.building import Building
from dsl.values.facts import UNKNOWN, ArrayFacts, widened
from dsl.values.host import Host
from dsl.values.later import np, on_arrays, reference
from dsl.values.table import Meaning, rows

row = rows("Functions of elements")

Numbers = Callable[..., int | float | bool]


def agreed(b: Building, loc: Loc, args: tuple[Binding, ...]) -> list[Value]:
    """Converts the arguments to values of one type and shape."""
    operands = [b.value_or_number(a, loc) for a in args]
    b.place(loc)
    first = operands[0]
    if not isinstance(first, Value) and not any(isinstance(o, Value) for o in operands):
        operands[0] = b.natural(first, loc)
    return b.agree(operands, loc)


def _of_shapes(domain: Any, loc: Loc, *sides: Any) -> Any:
    return widened(*sides)


# ---- the operations of dsl/lowering/ops/elementwise/ ----------------------------------------------------------------


def _operation(each: LanguageFunction) -> None:
    """Adds the row of an elementwise operation, with its implementations for tiles and for arrays. Arrays are computed
    in float64. A function that rounds to integers returns arrays of integers unchanged."""
    rounds = OPS[each.name].algebra.rounds is not None

    def tiles(b: Building, loc: Loc, *args: Binding) -> Value:
        values = agreed(b, loc, args)
        # The PTX instruction exists only for f32, so 16-bit floats are converted.
        if each.of == "f32" and values[0].dtype.name in ("f16", "bf16"):
            wide = [b.cast(v, F32) for v in values]
            return b.cast(b.ir.value(each.name, *wide), values[0].dtype)
        return b.ir.value(each.name, *values)

    def arrays(host: Host, loc: Loc, *values: Any) -> Any:
        def compute(*arrays: Any) -> Any:
            return each.compute(F64, *arrays)

        if rounds:
            return on_arrays.whole(host, loc, compute, lambda x: x, *values)
        return on_arrays.floats(host, loc, compute, *values)

    on_host = {"arrays": arrays, "shapes": _of_shapes} if each.on_host else {}
    more: dict[str, Any] = {"tiles": tiles, "numbers": each.numbers, **on_host, **_MORE.get(each.name, {})}
    row(each.usage, each.means, each.types, each.error, **more)


def _abs(host: Host, loc: Loc, value: Any) -> Any:
    return on_arrays.absolute(host, loc, value)


def _fma(host: Host, loc: Loc, a: Any, b: Any, c: Any) -> Any:
    return on_arrays.either(host, "+", on_arrays.either(host, "*", a, b, loc), c, loc)


_MORE: dict[str, dict[str, Meaning]] = {
    "abs": {"arrays": _abs, "shapes": _of_shapes, "trees": lambda x: ["max", x, ["-", 0, x]]},
    "fma": {"arrays": _fma, "shapes": _of_shapes},
}
"""Meanings that the operations' own files do not define."""

for _each in FUNCTIONS.values():
    _operation(_each)


# ---- written in the language, in dsl/library/; float64 on the host ---------------------------------------------------

FLOATS: tuple[tuple[str, str, str, str | Callable[..., Any], Numbers | None], ...] = (
    ("exp(x)", "e^x", "1.93, 1.0", "exp", math.exp),
    ("exp2(x)", "2^x; in f32 the hardware's ex2 (2.06 for normal results)", "2.4, 1.0", "exp2", math.exp2),
    ("expm1(x)", "e^x − 1", "1.6, 1.7", "expm1", math.expm1),
    ("log(x)", "ln x; −∞ at 0, NaN below", "0.9, 0.7", "log", math.log),
    ("log2(x)", "logarithm to base 2", "1.7, 1.3", "log2", log2),
    ("log10(x)", "logarithm to base 10", "2.5, 1.3", "log10", math.log10),
    ("log1p(x)", "log(1 + x)", "1.5, 1.4", "log1p", math.log1p),
    ("pow(x, y)", "`x ** y`; special cases as in C99", "3.5, 1.8", "power", power),
    ("rsqrt(x)", "1/√x", "1.5, 1.4", lambda x: 1.0 / np.sqrt(x), rsqrt),
    ("sin(x)", "radians; f32 1.9 for |x| < 10^5; slower beyond that (f64: 2^30)", "3.2, 2.0",
     "sin", math.sin),
    ("cos(x)", "as sin", "3.2, 2.0", "cos", math.cos),
    ("tan(x)", "radians", "4.7, 2.7", "tan", math.tan),
    ("asin(x)", "NaN outside [−1, 1]", "3.3, 2.8", "arcsin", math.asin),
    ("acos(x)", "NaN outside [−1, 1]", "2.1, 1.8", "arccos", math.acos),
    ("atan(x)", "arc tangent", "1.9, 1.6", "arctan", math.atan),
    ("atan2(y, x)", "angle of (x, y)", "2.1, 1.7", "arctan2", math.atan2),
    ("sinh(x)", "in f32 the last argument before overflow may give ∞", "3.9, 1.4", "sinh", math.sinh),
    ("cosh(x)", "as sinh", "3.0, 1.2", "cosh", math.cosh),
    ("tanh(x)", "hyperbolic tangent", "2.0, 1.4", "tanh", math.tanh),
    ("erf(x)", "error function", "2.4, 1.4", lambda x: reference.erf(x), math.erf),
    ("erfc(x)", "1 − erf(x)", "5.2, 3.6", lambda x: reference.erfc(x), math.erfc),
    ("sigmoid(x)", "1/(1+e^−x)", "4.0, 2.0", lambda x: reference.sigmoid(x), None),
    ("silu(x)", "x·sigmoid(x); subnormal results: |x|/2 ulp", "4.5, 2.5",
     lambda x: reference.silu(x), None),
    ("softplus(x)", "log(1+e^x)", "2.8, 1.5", lambda x: np.logaddexp(x, 0.0), None),
    ("gelu(x)", "x·Φ(x), accurate for negative x; subnormal results as silu", "6.4, 6",
     lambda x: reference.gelu(x), None),
    ("gelu_tanh(x)", "the tanh form, with u = √(8/π)·(x + 0.044715·x³)", "4 + 2|u|",
     lambda x: reference.gelu_tanh(x), None),
)  # fmt: skip
"""Each row holds the usage, the meaning, the largest errors, the function of float64 arrays and the function of Python
numbers. The errors are those of f32 and f64, in units in the last place, as measured in docs/functions.md. The function
of arrays is given by numpy's name for it or as a callable."""


def _floats(apply: str | Callable[..., Any]) -> Meaning:
    def arrays(host: Host, loc: Loc, *values: Any) -> Any:
        return on_arrays.floats(host, loc, getattr(np, apply) if isinstance(apply, str) else apply, *values)

    return arrays


for _usage, _means, _error, _apply, _numbers in FLOATS:
    _trees = (lambda n: ["log2", n]) if _usage == "log2(x)" else None
    row(_usage, _means, "floats", _error, numbers=_numbers, arrays=_floats(_apply), shapes=_of_shapes, trees=_trees)


def _of_both(apply: Callable[..., Any], integers: Callable[..., Any]) -> Meaning:
    """Returns an implementation for arrays that calls `apply` for floats and `integers` for integers."""
    return lambda host, loc, value: on_arrays.whole(host, loc, apply, integers, value)


def _no(x: Any) -> Any:
    return np.zeros(x.shape, bool)


def _isnan(b: Building, loc: Loc, *args: Binding) -> Binding:
    (value,) = agreed(b, loc, args)
    return b.ir.value("ne", value, value)


def _isinf(b: Building, loc: Loc, *args: Binding) -> Binding:
    (value,) = agreed(b, loc, args)
    infinity = b.ir.broadcast(b.literal(float("inf"), value.dtype, loc), value.tile.shape)
    return b.ir.value("eq", b.ir.value("abs", value), infinity)


row("relu(x)", "x, or 0 if negative; NaN stays", "numbers", "exact",
    numbers=lambda x: x if x != x else extreme(max)(x, type(x)(0)),
    arrays=_of_both(lambda x: reference.relu(x), lambda x: reference.relu(x)))  # fmt: skip
row("sign(x)", "−1 or 1; zeros and NaN stay", "numbers", "exact",
    numbers=sign, arrays=_of_both(lambda x: np.sign(x), lambda x: np.sign(x)))  # fmt: skip
row("isfinite(x)", "is finite", "floats", "exact",
    numbers=math.isfinite, arrays=_of_both(lambda x: np.isfinite(x), lambda x: ~_no(x)))  # fmt: skip
row("isnan(x)", "is NaN", "floats", "exact",
    numbers=math.isnan, arrays=_of_both(lambda x: np.isnan(x), _no), tiles=_isnan)  # fmt: skip
row("isinf(x)", "is infinite", "floats", "exact",
    numbers=math.isinf, arrays=_of_both(lambda x: np.isinf(x), _no), tiles=_isinf)  # fmt: skip


# ---- the hardware's approximations in other bases --------------------------------------------------------------------


def _scaled(name: str, before: float, after: float) -> Meaning:
    def tiles(b: Building, loc: Loc, *args: Binding) -> Value:
        (value,) = agreed(b, loc, args)
        dtype = value.dtype
        if not dtype.is_float or dtype.bits > 32:
            b.error("type", loc, f"{name} is of f32, f16 and bf16; this is {value.tile}")
        value = b.cast(value, F32)
        if before != 1.0:
            value = b.ir.value("mul", value, b.ir.broadcast(b.literal(before, F32, loc), value.tile.shape))
        value = b.ir.value("ex2.approx.ftz" if name.startswith("exp") else "lg2.approx", value)
        if after != 1.0:
            value = b.ir.value("mul", value, b.ir.broadcast(b.literal(after, F32, loc), value.tile.shape))
        return b.cast(value, dtype)

    return tiles


for _name, _before, _after, _means in (
    ("exp", math.log2(math.e), 1.0, "`ex2.approx.ftz(x·log2 e)`: further relative error |x|·2^−24; 0 below 2^−126"),
    ("exp2", 1.0, 1.0, "`ex2.approx.ftz`: 0 below 2^−126"),
    ("log", 1.0, math.log(2), "scaled `lg2.approx`: absolute error about 2^−22 near 1"),
    ("log2", 1.0, 1.0, "`lg2.approx`"),
    ("log10", 1.0, math.log10(2), "scaled `lg2.approx`"),
):
    _approx = f"{_name}.approx"
    row(f"{_approx}(x)", _means, "f32, f16, bf16", tiles=_scaled(_approx, _before, _after), arrays=_floats(_name),
        shapes=_of_shapes)  # fmt: skip


# ---- of several values -----------------------------------------------------------------------------------------------


def _polynomial_tiles(b: Building, loc: Loc, *args: Binding) -> Value:
    x, *coefficients = agreed(b, loc, args)
    total = coefficients.pop()
    while coefficients:
        total = b.ir.value("fma", total, x, coefficients.pop())
    return total


def _polynomial_arrays(host: Host, loc: Loc, x: Any, *coefficients: Any) -> Any:
    *rest, total = coefficients
    for each in reversed(rest):
        total = _fma(host, loc, total, x, each)
    return total


def _extreme(name: str) -> dict[str, Meaning]:
    def tiles(b: Building, loc: Loc, *args: Binding) -> Binding:
        total, *values = agreed(b, loc, args)
        for value in values:
            total = b.ir.value(name, total, value)
        return total

    return {"tiles": tiles, "arrays": lambda host, loc, *values: on_arrays.extreme(host, loc, values, name)}


def _where(b: Building, loc: Loc, *args: Binding) -> Binding:
    condition, yes, no = (b.value_or_number(a, loc) for a in args)
    if not isinstance(condition, Value):
        return yes if condition else no
    if condition.dtype is not I1:
        b.error("type", loc, f"the condition of where is {condition.tile}, not i1", "compare with '!= 0'")
    b.place(loc)
    if not isinstance(yes, Value) and not isinstance(no, Value):
        # In where(c, 1, 0.5), the integer literal takes the type of the float literal, so the result is f32.
        yes = b.natural(float(yes) if isinstance(no, float) and not isinstance(yes, bool) else yes, loc)
    yes, no = b.agree([yes, no], loc)
    condition, yes, no = b.ir.same_shape([condition, yes, no])
    return b.ir.value("select", condition, yes, no)


def _clamp_tiles(b: Building, loc: Loc, *args: Binding) -> Binding:
    value, low, high = agreed(b, loc, args)
    return b.ir.value("minimum", b.ir.value("maximum", value, low), high)


def _clamp_arrays(host: Host, loc: Loc, x: Any, low: Any, high: Any) -> Any:
    return on_arrays.extreme(host, loc, [on_arrays.extreme(host, loc, [x, low], "maximum"), high], "minimum")


def _cdiv_tiles(b: Building, loc: Loc, *args: Binding) -> Binding:
    """Computes `a / by`, rounded up. If known facts prove that a + by - 1 does not overflow, the quotient is (a + by -
    1) // by. Otherwise the quotient is a // by, plus 1 if there is a remainder."""
    a, by = agreed(b, loc, args)
    b.check_divisor(by, loc)
    ir, high, size = b.ir, b.facts.of(a).high, b.facts.of(by)
    one = ir.broadcast(b.literal(1, by.dtype, loc), by.tile.shape)
    if high is None or size.high is None:
        fits = counts_elements(a) and counts_elements(by)
    else:
        fits = high + size.high - 1 <= int_range(a.dtype)[1]
    if fits and size.low is not None and size.low >= 0:
        return ir.value("floordiv", ir.value("add", a, ir.value("sub", by, one)), by)
    below = ir.value("floordiv", a, by)
    rest = ir.value("ne", ir.value("mul", below, by), a)
    return ir.value("add", below, b.cast(rest, a.dtype))


def _cdiv_arrays(host: Host, loc: Loc, a: Any, by: Any) -> Any:
    down = on_arrays.either(host, "//", on_arrays.either(host, "-", 0, a, loc), by, loc)
    return on_arrays.either(host, "-", 0, down, loc)


row("minimum(a, b, …)", "the least; NaN stays", "numbers",
    numbers=extreme(min), trees=lambda *all: ["min", *all], **_extreme("minimum"))  # fmt: skip
row("maximum(a, b, …)", "the greatest; NaN stays", "numbers",
    numbers=extreme(max), trees=lambda *all: ["max", *all], **_extreme("maximum"))  # fmt: skip
row("clamp(x, low, high)", "x within bounds; NaN stays", "numbers", numbers=clamp,
    trees=lambda x, low, high: ["min", ["max", x, low], high], arrays=_clamp_arrays, tiles=_clamp_tiles)  # fmt: skip
row("where(c, a, b)", "a or b by an i1 tile; computes both sides", "any",
    numbers=lambda c, a, b: a if c else b, trees=lambda c, a, b: ["where", c, a, b],
    arrays=lambda host, loc, c, a, b: on_arrays.where(host, loc, c, a, b), tiles=_where)  # fmt: skip
row("cdiv(a, b)", "quotient rounded up", "integers", numbers=cdiv, trees=lambda a, b: ["cdiv", a, b],
    arrays=_cdiv_arrays, tiles=_cdiv_tiles)  # fmt: skip
row("polynomial(x, c0, c1, …)", "c0 + c1·x + … by fma", "floats",
    arrays=_polynomial_arrays, tiles=_polynomial_tiles)  # fmt: skip
row("next_pow2(n)", "least power of two ≥ n", "integers", numbers=next_pow2,
    trees=lambda n: ["next_pow2", n])  # fmt: skip
row("pow2_divisor(n)", "greatest power of two that divides n", "integers", numbers=pow2_divisor,
    trees=lambda n: ["pow2_divisor", n])  # fmt: skip


# ---- conversions -----------------------------------------------------------------------------------------------------

ROUNDINGS = {"nearest": "rn", "zero": "rz", "up": "rp", "down": "rm"}


def _to_tiles(
    b: Building, loc: Loc, source: Binding, dtype: Any, saturate: str | None = None, rounding: str | None = None
) -> Binding:
    source = b.value_or_number(source, loc)
    if not isinstance(dtype, DType):
        b.error("type", b.place_of(0, loc), f"{b.describe(dtype)} is no type", "for example .to(f32)")
    if saturate and not dtype.is_int and dtype not in FP8:
        b.error("type", loc, f"'saturate' is for integers, e4m3 and e5m2; this is {dtype}")
    b.place(loc)
    if not isinstance(source, Value):
        if dtype.is_int and not isinstance(source, bool):
            return b.literal(whole_number(source, dtype, bool(saturate), rounding), dtype, loc)
        if isinstance(source, bool) or not dtype.has_fractions:
            return b.literal(source, dtype, loc)
        # As at run time, a number that is too large becomes infinity or the greatest number of the type.
        near = nearest_number(source, dtype)
        if rounding is None and dtype.is_float:
            return b.ir.constant(near, dtype)
        source = b.ir.constant(near, F32) if dtype in FP8 else b.literal(source, F64, loc)
    saturates = bool(saturate) and dtype.is_int  # FP8 always saturates: the hardware has no other conversion
    return b.cast(source, dtype, saturates, ROUNDINGS[rounding] if rounding else None)


_WHOLE: dict[str, Callable[[float], int]] = {
    "nearest": round, "zero": math.trunc, "up": math.ceil, "down": math.floor
}  # fmt: skip


def whole_number(source: int | float, dtype: DType, saturate: bool, rounding: str | None) -> int:
    """Converts a number to an integer as at run time. Floats saturate, and NaN becomes 0."""
    low, high = int_range(dtype)
    if isinstance(source, float):
        if math.isnan(source):
            return 0
        if math.isinf(source):
            return high if source > 0 else low
        source = _WHOLE[rounding or "zero"](source)
        saturate = True
    return min(max(source, low), high) if saturate else source


def _to_arrays(
    host: Host, loc: Loc, value: Any, dtype: Any, saturate: str | None = None, rounding: str | None = None
) -> Any:
    if not isinstance(dtype, DType):
        host.error("type", loc, ".to takes a type", "for example .to(f32)")
    return on_arrays.convert(host, loc, value, dtype, bool(saturate), rounding)


def _to_shapes(domain: Any, loc: Loc, value: Any, to: Any, *rest: Any, **more: Any) -> Any:
    if isinstance(value, ArrayFacts) and isinstance(to, DType):
        return ArrayFacts(value.shape, to.name)
    if isinstance(value, list | tuple) and all(type(x) in (int, float) for x in value) and isinstance(to, DType):
        return ArrayFacts((len(value),), to.name)
    return UNKNOWN


row(f".to(T, ['saturate'], rounding={'|'.join(ROUNDINGS)})", "`x.to(T)`: the value as a T", "any",
    arrays=_to_arrays, shapes=_to_shapes, tiles=_to_tiles)  # fmt: skip


def _bitcast(b: Building, loc: Loc, source: Binding, to: Binding) -> Value:
    if not isinstance(to, DType):
        b.error("type", loc, "bitcast(value, TYPE)")
    value = b.as_value(source, loc)
    b.place(loc)
    if {value.dtype.bits, to.bits} <= WORDS.keys() and value.dtype.bits != to.bits and value.tile.shape:
        return _resized(b, loc, value, to)
    return b.ir.value("split" if to.bits < 8 and to.kind == "operand" else "bitcast", value, to=to)


WORDS = {bits: DTYPES[f"u{bits}"] for bits in (8, 16, 32, 64)}


def _resized(b: Building, loc: Loc, value: Value, to: DType) -> Value:
    """Reinterprets the bits of a tile as larger or smaller elements. Adjacent small elements along the last axis form
    one large element. The first small element is in the lowest bits."""
    have, (*around, last) = value.dtype.bits, value.tile.shape
    small, large = WORDS[min(have, to.bits)], WORDS[max(have, to.bits)]
    count = large.bits // small.bits
    if have > to.bits:
        whole = b.ir.value("bitcast", value, to=large)
        shifts = [b.ir.constant(i * small.bits, large, value.tile.shape) for i in range(count)]
        parts = b.ir.value("stack", *(b.cast(b.ir.value("shr", whole, bits), small) for bits in shifts))
        return b.ir.value("bitcast", b.ir.reshape(parts, (*around, last * count)), to=to)
    if last % count:
        message = f"{count} elements of {value.dtype} make one of {to}; a row of {value.tile} has {last}"
        b.error("type", loc, message)
    shape = (*around, last // count)
    groups = b.ir.reshape(value, (*shape, count))
    picked = [b.ir.value("pick", groups, axis=len(shape), index=i) for i in range(count)]
    return b.ir.value("bitcast", b.ir.value("join_bits", *picked, to=large), to=to)


row("bitcast(x, T)", "the same bits; a larger T takes neighbours in a row", "any", tiles=_bitcast)
