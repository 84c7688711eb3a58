"""Reference semantics of elementwise operations. Integers wrap around. Floats are rounded once to nearest. bf16 is
computed in float32.

The semantics of the language's functions, such as `exp`, are in `dsl/lowering/ops/elementwise/`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dsl.lowering.ir.function import Op
from dsl.lowering.ir.types import BF16, F32, F64, FP8, I1, TF32, DType
from dsl.lowering.machine import formats
from dsl.lowering.machine.formats import Array
from dsl.lowering.meaning.run import Run, Undecided, meaning, wider
from dsl.lowering.ops.elementwise import FUNCTIONS

Element = Callable[..., Array]
CONTRACTED = ("add", "sub", "mul")
"""Operations that `contract fast` may fuse to an fma, which removes one rounding."""
ROUNDED: dict[str, Element] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "fma": lambda a, b, c: a * b + c
}  # fmt: skip
"""Operations that combine elements in sums, products and recurrences. Their order affects the rounding of results."""


def elementwise(*names: str) -> Callable[[Element], Element]:
    """Registers the semantics of operations, as a function of the first operand's dtype and of the operands' values.
    The function computes bf16 in float32, so bf16 results are rounded afterwards."""

    def register(function: Element) -> Element:
        def mean(run: Run, op: Op, x: list[Array]) -> list[Array]:
            out = function(op.operands[0].dtype, *x)
            dtype = op.result.dtype
            if dtype is BF16 and op.operands[0].dtype is BF16:
                out = formats.to_bf16(out)
            if run.noise is not None and dtype.is_float:
                if run.contracts and op.name in CONTRACTED:
                    out = run.shaken(out, dtype)
                elif run.is_scan and op.name in ROUNDED:  # the language does not define the order of a scan's additions
                    out = run.shaken_if_rounded(out, ROUNDED[op.name](*map(wider, x)), dtype)
            return [out]

        meaning(*names)(mean)
        return function

    return register


for _name, _function in {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "neg": np.negative, "eq": np.equal,
    "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "floordiv": np.floor_divide, "mod": np.mod,
}.items():  # fmt: skip
    elementwise(_name)(lambda dtype, *x, _function=_function: _function(*x))


def extreme(dtype: DType, a: Array, b: Array, least: bool) -> Array:
    """Returns the minimum or maximum. NaN stays, as in numpy. In the language, -0 is less than +0; numpy treats them as
    equal."""
    out = np.minimum(a, b) if least else np.maximum(a, b)
    if not dtype.is_float:
        return out
    a, b = np.asarray(a), np.asarray(b)
    zeros = (a == 0) & (b == 0)
    if not zeros.any():
        return out
    sign = (np.signbit(a) | np.signbit(b)) if least else (np.signbit(a) & np.signbit(b))
    return np.where(zeros, np.where(sign, a.dtype.type(-0.0), a.dtype.type(0.0)), out)


elementwise("minimum")(lambda dtype, a, b: extreme(dtype, a, b, least=True))
elementwise("maximum")(lambda dtype, a, b: extreme(dtype, a, b, least=False))


def _shift(a: Array, b: Array, left: bool) -> Array:
    """Shifts integers. If the distance is at least the width, the result is 0, or all sign bits for a right shift of a
    signed integer."""
    a, b = np.asarray(a), np.asarray(b)
    bits = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < bits)
    safe = np.where(inside, b, bits - 1).astype(a.dtype)
    moved = (a << safe) if left else (a >> safe)
    return moved if not left and a.dtype.kind == "i" else np.where(inside, moved, a.dtype.type(0))


elementwise("shl")(lambda dtype, a, b: _shift(a, b, left=True))
elementwise("shr")(lambda dtype, a, b: _shift(a, b, left=False))
elementwise("select")(lambda dtype, condition, yes, no: np.where(condition, yes, no))


# ---- the hardware's approximations ----


def _flushed(x: Array) -> Array:
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


def _approximate(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Rounds the exact result to f32. With noise, the result is random within the error bound of the hardware."""
    function, flush = FUNCTIONS[op.name], op.name.endswith(".ftz")
    (value,) = x
    exact = function.compute(F64, np.asarray(_flushed(value) if flush else value, np.float64))
    if run.noise is not None:
        assert function.bound is not None
        relative, absolute = function.bound
        exact = exact + run.noise.uniform(-1, 1, np.shape(exact)) * (np.abs(exact) * relative + absolute)
    run.inexact = True
    out = np.asarray(exact).astype(np.float32)
    return [_flushed(out) if flush else out]


for _each in FUNCTIONS.values():
    if _each.bound is not None:
        meaning(_each.name)(_approximate)
    else:
        elementwise(_each.name)(_each.compute)


# ---- conversions ----


@meaning("cast")
def _cast(run: Run, op: Op, x: list[Array]) -> list[Array]:
    source, to = op.operands[0].dtype, op.attrs["to"]
    return [converted(x[0], source, to, formats.held(to, run.index_bits), op.attrs["saturate"], op.attrs["rounding"])]


def converted(x: Array, source: DType, to: DType, kind: np.dtype, saturate: bool, rounding: str | None) -> Array:
    """Converts elements to another type. `kind` is the numpy type of the result."""
    if source is to:
        return x
    if to is TF32:
        return formats.to_tf32(x)
    if to in FP8:  # through f32, because the hardware converts from f32
        return formats.to_fp8(formats.nearest(formats.as_float(x, source), F32), to)
    if source in FP8:
        return formats.nearest(formats.from_fp8(x, source), to)
    if to is I1:
        return np.not_equal(x, 0)
    if source.is_float and to.is_float:
        return formats.round_to(formats.as_float(x, source), to, rounding)
    if source.is_float:
        return formats.float_to_int(x, kind, rounding)
    if source is I1:
        return np.asarray(x).astype(kind)
    if to.is_float:
        return formats.int_to_float(x, to, rounding)
    return formats.int_to_int(x, to, kind, saturate)


@meaning("bitcast")
def _bitcast(run: Run, op: Op, x: list[Array]) -> list[Array]:
    source, to = op.operands[0].dtype, op.attrs["to"]
    if {source.name, to.name} <= {"tf32", "f32"} or source is to:
        return [x[0]]
    bits = np.ascontiguousarray(formats.store(x[0], source) if source.kind != "index" else x[0])
    other = formats.held(to, run.index_bits) if to.kind == "index" else formats.stored(to)
    if bits.dtype.itemsize != other.itemsize:  # an index of 64 bits viewed as 32 bits, or vice versa
        bits = bits.astype(f"i{other.itemsize}")
    return [formats.load(bits.reshape(np.shape(x[0])).view(other), to)]


@meaning("join_bits")
def _join_bits(run: Run, op: Op, x: list[Array]) -> list[Array]:
    source, to = op.operands[0].dtype, op.attrs["to"]
    bits = np.stack(np.broadcast_arrays(*(formats.store(each, source) for each in x)), -1)
    return [formats.load(np.ascontiguousarray(bits).view(formats.stored(to))[..., 0], to)]


@meaning("split")
def _split(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Splits bytes into elements of fewer bits along the last axis. The lowest bits come first."""
    to = op.attrs["to"]
    source = np.ascontiguousarray(x[0]).view(np.uint8)
    parts = [(source >> np.uint8(at)) & np.uint8((1 << to.bits) - 1) for at in range(0, 8, to.bits)]
    out = np.stack(parts, -1).reshape(*source.shape[:-1], -1)
    if to.name == "s4":  # flipping the sign bit (3) and subtracting 8 extends the sign
        return [((out ^ np.uint8(8)).astype(np.int8) - np.int8(8)).astype(np.int8)]
    return [out.astype(formats.held(to))]


@meaning("asm")
def _asm(run: Run, op: Op, x: list[Array]) -> list[Array]:
    raise Undecided(op, "what the text of an asm does is not known here")
