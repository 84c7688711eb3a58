"""What the language's types and operations mean in numpy, from docs/language.md and docs/functions.md alone.

Integers wrap. Floats are kept to integers small enough that sums are exact in any order: each value has a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

SIGNED = ("s8", "s16", "s32", "s64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("f16", "bf16", "f32", "f64")
NUMBERS = INTEGERS + FLOATS
NUMPY: dict[str, Any] = {
    "i1": np.bool_, "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f32": np.float32, "f64": np.float64, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
BITS = {name: 8 * np.dtype(t).itemsize for name, t in NUMPY.items()} | {"i1": 1}
LIMIT = {"f16": 128, "bf16": 64, "f32": 4096, "f64": 1 << 20}
"""The largest magnitude that a named float value may have."""
EXACT = {"f16": 1 << 11, "bf16": 1 << 8, "f32": 1 << 24, "f64": 1 << 53}
"""Integers up to here are exact, so that sums that stay below are exact in any order."""


def lowest(dtype: str) -> int:
    return -(1 << (BITS[dtype] - 1)) if dtype in SIGNED else 0


def highest(dtype: str) -> int:
    return (1 << (BITS[dtype] - (dtype in SIGNED))) - 1


def wrapped(value: int, dtype: str) -> int:
    value &= (1 << BITS[dtype]) - 1
    return value - (1 << BITS[dtype]) if dtype in SIGNED and value >> (BITS[dtype] - 1) else value


def exactly(f: Callable[..., int], dtype: str, *operands: Any) -> np.ndarray:
    """`f` of each element in Python's integers, wrapped."""
    spread = np.broadcast_arrays(*operands)
    out = [wrapped(f(*map(int, row)), dtype) for row in zip(*(s.reshape(-1) for s in spread), strict=True)]
    return np.array(out, NUMPY[dtype]).reshape(spread[0].shape)


def shifted(a: Any, b: Any, dtype: str, left: bool) -> np.ndarray:
    """A distance outside 0 … bits - 1 shifts everything out."""
    bits = BITS[dtype]

    def one(x: int, d: int) -> int:
        d = d if 0 <= d < bits else bits
        return x << d if left else x >> d

    return exactly(one, dtype, a, b)


def converted(a: Any, source: str, to: str, saturate: bool = False) -> np.ndarray:
    """`.to`: integers wrap or saturate, floats truncate and saturate into integers, and round into floats."""
    a = np.asarray(a)
    if to == "i1":
        return a != 0
    if to in FLOATS or source == "i1":
        return a.astype(np.float64).astype(NUMPY[to]) if source in FLOATS else a.astype(NUMPY[to])
    if source in FLOATS:
        whole = np.trunc(a.astype(np.float64))
        return exactly(lambda x: min(max(x, lowest(to)), highest(to)), to, whole)
    if saturate:
        return exactly(lambda x: min(max(x, lowest(to)), highest(to)), to, a)
    return a.astype(NUMPY[to])


@dataclass
class State:
    """What a kernel's names and memory hold while one block runs."""

    arrays: dict[str, np.ndarray]
    names: dict[str, Any] = field(default_factory=dict)
    block: int = 0
    active: np.ndarray | None = None
    """Inside branches of threads: which elements take this way."""


@dataclass
class Expr:
    """A text of the language with its meaning. `bound`: the largest magnitude, of floats."""

    text: str
    of: Callable[[State], Any]
    dtype: str
    shape: tuple[int, ...] = ()
    bound: float = 0

    def value(self, state: State) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.of(state)).astype(NUMPY[self.dtype]), self.shape)


def whole_number(value: int) -> str:
    return str(value) if value >= 0 else f"({value})"


def literal(value: int | float, dtype: str) -> Expr:
    text = "true" if value and dtype == "i1" else "false" if dtype == "i1" else whole_number(int(value))
    if dtype in FLOATS:
        text = f"{float(value)}" if value >= 0 else f"({float(value)})"
    return Expr(text, lambda s: np.array(value, NUMPY[dtype]), dtype, (), abs(value))


def clamped(e: Expr, bound: float) -> Expr:
    """The same within a bound, where it may be beyond."""
    if e.bound <= bound:
        return e
    low, high = NUMPY[e.dtype](-bound), NUMPY[e.dtype](bound)
    return Expr(
        f"clamp({e.text}, {-float(bound)}, {float(bound)})",
        lambda s: np.minimum(np.maximum(e.value(s), low), high), e.dtype, e.shape, bound,
    )  # fmt: skip


def fitting(e: Expr) -> Expr:
    return clamped(e, LIMIT[e.dtype]) if e.dtype in FLOATS else e
