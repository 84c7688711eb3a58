"""Operations on elements: integers wrap around, floats are rounded once to nearest, bf16 through float32.

What the hardware approximates is the exact result, rounded to f32; `BOUNDS` says how far the hardware may be from it.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import inf

import numpy as np

from lowering.ir import Op
from lowering.meaning.formats import (
    Array,
    as_float,
    float_to_int,
    from_fp8,
    held,
    int_to_float,
    int_to_int,
    nearest,
    round_to,
    store,
    stored,
    to_bf16,
    to_fp8,
    to_tf32,
)
from lowering.meaning.formats import load as load_bits
from lowering.meaning.registry import Undecided, meaning
from lowering.meaning.run import Run
from lowering.types import BF16, F32, F64, FP8, I1, TF32, DType

Element = Callable[..., Array]


def elementwise(*names: str) -> Callable[[Element], Element]:
    """Registers a function of the operands' type and values; a result of bf16 is rounded."""

    def register(function: Element) -> Element:
        def mean(run: Run, op: Op, x: list[Array]) -> list[Array]:
            out = function(op.operands[0].dtype, *x)
            dtype = op.result.dtype
            if dtype is BF16 and op.operands[0].dtype is BF16:
                out = to_bf16(out)
            if run.noise is not None and run.contracts and op.name in ("add", "sub", "mul") and dtype.is_float:
                out = run.shaken(out, dtype)
            return [out]

        meaning(*names)(mean)
        return function

    return register


for _name, _function in {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "neg": np.negative, "abs": np.abs, "eq": np.equal,
    "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "sqrt": np.sqrt,
    "copysign": np.copysign, "floordiv": np.floor_divide, "mod": np.mod,
}.items():  # fmt: skip
    elementwise(_name)(lambda dtype, *x, _function=_function: _function(*x))


def _signed_zeros(dtype: DType, a: Array, b: Array, out: Array, least: bool) -> Array:
    """Of zeros of both signs the least is -0."""
    if not dtype.is_float:
        return out
    a, b = np.asarray(a), np.asarray(b)
    zeros = (a == 0) & (b == 0)
    if not zeros.any():
        return out
    sign = (np.signbit(a) | np.signbit(b)) if least else (np.signbit(a) & np.signbit(b))
    return np.where(zeros, np.where(sign, a.dtype.type(-0.0), a.dtype.type(0.0)), out)


@elementwise("minimum")
def _minimum(dtype: DType, a: Array, b: Array) -> Array:
    return _signed_zeros(dtype, a, b, np.minimum(a, b), least=True)


@elementwise("maximum")
def _maximum(dtype: DType, a: Array, b: Array) -> Array:
    return _signed_zeros(dtype, a, b, np.maximum(a, b), least=False)


@elementwise("fma")
def _fma(dtype: DType, a: Array, b: Array, c: Array) -> Array:
    """a·b + c, rounded once."""
    if dtype is F64:
        return _fma_of_doubles(*np.broadcast_arrays(a, b, c))
    a, b, c = (np.asarray(v, np.float64) for v in (a, b, c))
    product = a * b  # exact: 48 bits at most
    total = product + c
    back = total - product
    lost = (product - (total - back)) + (c - back)
    # Rounded to odd in float64, which has bits enough that rounding again is rounding once.
    bits = np.asarray(total).view(np.int64)
    even = (bits & 1) == 0
    towards = np.where((lost > 0) == (total > 0), 1, -1)
    moved = np.where(np.isfinite(total) & (lost != 0) & even & (total != 0), bits + np.minimum(towards, 0), bits)
    moved = np.where(np.isfinite(total) & (lost != 0) & (total != 0), moved | 1, moved)
    return nearest(np.asarray(moved, np.int64).view(np.float64), dtype)


def _fma_of_doubles(a: Array, b: Array, c: Array) -> Array:
    plain = np.asarray(np.where(np.isfinite(a) & np.isfinite(b) & np.isinf(c), c, a * b + c))
    out = plain.copy().reshape(-1)
    for i, (x, y, z) in enumerate(zip(a.reshape(-1), b.reshape(-1), c.reshape(-1), strict=True)):
        if np.isfinite(x) and np.isfinite(y) and np.isfinite(z):
            exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            if exact:
                try:
                    out[i] = float(exact)
                except OverflowError:
                    out[i] = inf if exact > 0 else -inf
    return out.reshape(plain.shape)


@elementwise("mulhi")
def _mulhi(dtype: DType, a: Array, b: Array) -> Array:
    a, b = np.asarray(a), np.asarray(b)
    bits = a.dtype.itemsize * 8
    if bits < 64:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return ((a.astype(wide) * b.astype(wide)) >> wide(bits)).astype(a.dtype)
    return ((a.astype(object) * b.astype(object)) >> 64).astype(a.dtype)


def _shift(a: Array, b: Array, left: bool) -> Array:
    """By a distance that the type does not have, what shifting bit by bit leaves: 0, or the sign."""
    a, b = np.asarray(a), np.asarray(b)
    bits = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < bits)
    safe = np.where(inside, b, bits - 1).astype(a.dtype)
    moved = (a << safe) if left else (a >> safe)
    return moved if not left and a.dtype.kind == "i" else np.where(inside, moved, a.dtype.type(0))


elementwise("shl")(lambda dtype, a, b: _shift(a, b, left=True))
elementwise("shr")(lambda dtype, a, b: _shift(a, b, left=False))


def _without_sign(x: Array) -> tuple[Array, int]:
    x = np.asarray(x)
    return x.view(f"u{x.dtype.itemsize}"), x.dtype.itemsize * 8


@elementwise("popc")
def _popc(dtype: DType, x: Array) -> Array:
    return np.bitwise_count(_without_sign(x)[0]).astype(np.asarray(x).dtype)


@elementwise("clz")
def _clz(dtype: DType, x: Array) -> Array:
    rest, bits = _without_sign(x)
    for step in (1, 2, 4, 8, 16, 32)[: bits.bit_length() - 1]:
        rest = rest | (rest >> rest.dtype.type(step))
    return (bits - np.bitwise_count(rest)).astype(np.asarray(x).dtype)


@elementwise("brev")
def _brev(dtype: DType, x: Array) -> Array:
    rest, bits = _without_sign(x)
    out = np.zeros_like(rest)
    for i in range(bits):
        one = rest.dtype.type(1)
        out = out | (((rest >> rest.dtype.type(i)) & one) << rest.dtype.type(bits - 1 - i))
    return out.view(np.asarray(x).dtype)


@elementwise("select")
def _select(dtype: DType, condition: Array, yes: Array, no: Array) -> Array:
    return np.where(condition, yes, no)


# ---- the hardware's approximations ----

BOUNDS: dict[str, tuple[float, float]] = {
    "ex2.approx": (2.0**-22, 0.0), "ex2.approx.ftz": (2.0**-22, 0.0), "lg2.approx": (2.0**-22, 2.0**-22),
    "sin.approx": (0.0, 2.0**-20.5), "cos.approx": (0.0, 2.0**-20.5), "tanh.approx": (2.0**-10.98, 0.0),
    "rcp.approx": (2.0**-23, 0.0), "rsqrt.approx": (2.0**-22.9, 0.0), "sqrt.approx": (2.0**-23, 0.0),
}  # fmt: skip
"""How far each may be from the exact result: relative, or absolute (PTX ISA; sine and cosine from -π to π)."""
_EXACT: dict[str, Element] = {
    "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "rcp": np.reciprocal,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sqrt": np.sqrt,
}  # fmt: skip


def _flushed(x: Array) -> Array:
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


@meaning(*BOUNDS)
def _approximate(run: Run, op: Op, x: list[Array]) -> list[Array]:
    flush = op.name.endswith(".ftz")
    (value,) = x
    exact = _EXACT[op.name.partition(".")[0]](np.asarray(_flushed(value) if flush else value, np.float64))
    if run.noise is not None:
        relative, absolute = BOUNDS[op.name]
        exact = exact + run.noise.uniform(-1, 1, np.shape(exact)) * (np.abs(exact) * relative + absolute)
    run.inexact = True
    out = np.asarray(exact).astype(np.float32)
    return [_flushed(out) if flush else out]


# ---- conversions ----


@meaning("cast")
def _cast(run: Run, op: Op, x: list[Array]) -> list[Array]:
    source, to = op.operands[0].dtype, op.attrs["to"]
    return [converted(x[0], source, to, held(to, run.index_bits), op.attrs["saturate"], op.attrs["rounding"])]


def converted(x: Array, source: DType, to: DType, kind: np.dtype, saturate: bool, rounding: str | None) -> Array:
    """Elements of one type as another; `kind` is numpy's type of the other."""
    if source is to:
        return x
    if to is TF32:
        return to_tf32(x)
    if to in FP8:
        return to_fp8(nearest(as_float(x, source), F32), to)
    if source in FP8:
        return nearest(from_fp8(x, source), to)
    if to is I1:
        return np.not_equal(x, 0)
    if source.is_float:
        return round_to(as_float(x, source), to, rounding) if to.is_float else float_to_int(x, to, kind, rounding)
    if source is I1:
        return np.asarray(x).astype(kind)
    if to.is_float:
        return int_to_float(x, to, rounding)
    return int_to_int(x, source, to, kind, saturate)


@meaning("bitcast")
def _bitcast(run: Run, op: Op, x: list[Array]) -> list[Array]:
    source, to = op.operands[0].dtype, op.attrs["to"]
    if {source.name, to.name} <= {"tf32", "f32"} or source is to:
        return [x[0]]
    bits = np.ascontiguousarray(store(x[0], source) if source.kind != "index" else x[0])
    other = held(to, run.index_bits) if to.kind == "index" else stored(to)
    if bits.dtype.itemsize != other.itemsize:  # an index of 64 bits as 32, and back
        bits = bits.astype(f"i{other.itemsize}")
    return [load_bits(bits.reshape(np.shape(x[0])).view(other), to)]


@meaning("split")
def _split(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Bytes as smaller elements along the last axis, the lowest bits first."""
    to = op.attrs["to"]
    source = np.ascontiguousarray(x[0]).view(np.uint8)
    parts = [(source >> np.uint8(at)) & np.uint8((1 << to.bits) - 1) for at in range(0, 8, to.bits)]
    out = np.stack(parts, -1).reshape(*source.shape[:-1], -1)
    if to.name == "s4":
        return [((out ^ np.uint8(8)).astype(np.int8) - np.int8(8)).astype(np.int8)]
    return [out.astype(held(to))]


@meaning("asm")
def _asm(run: Run, op: Op, x: list[Array]) -> list[Array]:
    raise Undecided(op, "what the text of an asm does is not known here")
