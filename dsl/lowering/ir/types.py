"""Element types, and the types of IR values."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from math import copysign, inf, isfinite, prod
from typing import ClassVar

from msgspec import Struct

from dsl.lowering.ir.location import closest
from dsl.lowering.layouts.layout import Layout


class DType(Struct, frozen=True, eq=False):
    """An element type: its name in the language, its number of bits, its kind, and its name in LLVM."""

    name: str
    bits: int
    kind: str  # "signed", "unsigned", "float", "bool", "index" or "operand"
    llvm: str

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def has_fractions(self) -> bool:
        """Whether the type is a float or FP8."""
        return self.is_float or self.name in ("e4m3", "e5m2")

    @property
    def is_int(self) -> bool:
        """Whether the type is an integer with arithmetic: signed, unsigned or index."""
        return self.kind in ("signed", "unsigned", "index")

    @property
    def is_signed(self) -> bool:
        return self.kind in ("signed", "index")

    def __str__(self) -> str:
        return self.name


# `index` counts elements: dims, block numbers, `arange`, loop counters. Each variant of a kernel sets its width to 32
# or 64 bits.
DTYPES = {
    d.name: d
    for d in (
        DType("i1", 1, "bool", "i1"),
        DType("s8", 8, "signed", "i8"),
        DType("s16", 16, "signed", "i16"),
        DType("s32", 32, "signed", "i32"),
        DType("s64", 64, "signed", "i64"),
        DType("u8", 8, "unsigned", "i8"),
        DType("u16", 16, "unsigned", "i16"),
        DType("u32", 32, "unsigned", "i32"),
        DType("u64", 64, "unsigned", "i64"),
        DType("f16", 16, "float", "half"),
        DType("bf16", 16, "float", "bfloat"),
        DType("f32", 32, "float", "float"),
        DType("f64", 64, "float", "double"),
        DType("index", 32, "index", "i32"),
    )
}
I1, U8, S32, S64, U32, U64 = (DTYPES[n] for n in ("i1", "u8", "s32", "s64", "u32", "u64"))
F16, BF16, F32, F64, INDEX = (DTYPES[n] for n in ("f16", "bf16", "f32", "f64", "index"))


# Types that only tensor cores accept. They have no arithmetic. e4m3 and e5m2 may also be in memory. Elements with fewer
# than 8 bits exist only as parts of 32-bit words.
OPERAND_TYPES = {
    d.name: d
    for d in (
        DType("tf32", 32, "operand", "i32"),
        DType("e4m3", 8, "operand", "i8"),
        DType("e5m2", 8, "operand", "i8"),
        DType("s4", 4, "operand", "i4"),
        DType("u4", 4, "operand", "i4"),
        DType("b1", 1, "operand", "i1"),
    )
}
TF32 = OPERAND_TYPES["tf32"]
FP8 = (OPERAND_TYPES["e4m3"], OPERAND_TYPES["e5m2"])
"""The operand types that may be in memory and that have conversions to and from other floats."""
DTYPES |= {d.name: d for d in FP8}


_ELSEWHERE = {
    "bool": "i1", "char": "s8", "int": "s32", "long": "s64", "half": "f16", "float": "f32", "double": "f64",
    "fp16": "f16", "fp32": "f32", "fp64": "f64", "float16": "f16", "float32": "f32", "float64": "f64",
    "bfloat16": "bf16", "int8": "s8", "int16": "s16", "int32": "s32", "int64": "s64", "uint8": "u8",
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "i8": "s8", "i16": "s16", "i32": "s32", "i64": "s64",
}  # fmt: skip
"""Type names of other languages, for hints."""


def type_hint(name: str, more: Iterable[str] = ()) -> str:
    """Returns a hint with the type that the user probably meant by `name`. `more` contains type parameters."""
    known = [*(n for n in DTYPES if n != "index"), *more]
    meant = _ELSEWHERE.get(name.lower())
    return f"did you mean '{meant}'?" if meant else closest(name, known) or "types: " + ", ".join(known)


FLOATS = {
    "f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023),
    "e4m3": (4, -6, 8), "e5m2": (3, -14, 15),
}  # fmt: skip
"""Maps a float type to (bits of the significand, exponent of the least normal number, exponent of the greatest
number)."""


def greatest(dtype: DType) -> float:
    """Returns the greatest finite number of a float type. In e4m3, the greatest bit pattern is a NaN, so the next lower
    one counts."""
    digits, _, exponent = FLOATS[dtype.name]
    return (2.0 - 2.0 ** ((2 if dtype.name == "e4m3" else 1) - digits)) * 2.0**exponent


def nearest_number(value: int | float, dtype: DType) -> float:
    """Rounds `value` once to the nearest number of a float type, ties to even. The result is infinite if `value` is
    beyond the type's range.

    >>> nearest_number(1 + 2**-8 + 2**-40, BF16), nearest_number(2**60 + 2**36 + 1, F32) == 2**60 + 2**37
    (1.0078125, True)
    >>> nearest_number(-1e-46, F32)
    -0.0
    """
    if isinstance(value, float) and (dtype is F64 or not isfinite(value)):
        return value
    return _nearest(value, dtype) if value else float(value)  # zeros are not cached: 0.0 and -0.0 are equal keys


@lru_cache(1024)
def _nearest(value: int | float, dtype: DType) -> float:
    exact = Fraction(value)  # exact, because conversion to float would round an int above 2^53 a first time
    size, (digits, least, _) = abs(exact), FLOATS[dtype.name]
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, least) - digits + 1)
    near = round(exact / unit) * unit
    return copysign(float(abs(near)) if abs(near) <= greatest(dtype) else inf, -1 if value < 0 else 1)


def int_range(dtype: DType) -> tuple[int, int]:
    """Returns the least and the greatest value of an integer type. For `index`, they are those of 32 bits."""
    if dtype.kind == "bool":
        return 0, 1
    if dtype.kind == "unsigned":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


class TileType(Struct, frozen=True):
    """A tile in registers. A scalar has the shape `()` and the same value in each thread.

    `layout` is None for scalars, and before layouts are assigned.
    """

    shape: tuple[int, ...]
    dtype: DType
    layout: Layout | None = None

    @property
    def size(self) -> int:
        return prod(self.shape)

    def with_layout(self, layout: Layout | None) -> TileType:
        return self if layout is self.layout else TileType(self.shape, self.dtype, layout)

    def with_dtype(self, dtype: DType) -> TileType:
        return self if dtype is self.dtype else TileType(self.shape, dtype, self.layout)

    def __str__(self) -> str:
        """The type in the language's notation."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]" if self.shape else str(self.dtype)


class TensorType(Struct, frozen=True):
    """A tensor parameter in global memory. It has `rank` dims, whose extents are known at run time."""

    rank: int
    dtype: DType

    def __str__(self) -> str:
        return f"tensor of {self.dtype}, rank {self.rank}"


class SharedType(Struct, frozen=True):
    """A tile in shared memory. If `ring` is True, the first extent is the number of stages, and stage indices wrap
    around.

    `swizzle`: pairs (bit, mask). If this bit of a byte offset is set, the offset is XORed with the mask. All bits of
        the mask are lower than `bit`. In a ring, offsets begin at the start of the stage, otherwise at the start of the
        tile.
    `fixed`: whether TMA or wgmma determines the swizzle. Then it must not be changed.
    """

    shape: tuple[int, ...]
    dtype: DType
    ring: bool = False
    swizzle: tuple[tuple[int, int], ...] = ()
    fixed: bool = False

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.dtype.bytes

    def __str__(self) -> str:
        return f"shared {self.dtype}[{'ring ' if self.ring else ''}{', '.join(map(str, self.shape))}]"


class ViewType(Struct, frozen=True):
    """A tile that stays in shared memory, where wgmma reads it. No thread holds its elements in registers, so it has no
    layout."""

    shape: tuple[int, ...]
    dtype: DType
    layout: ClassVar[None] = None

    def __str__(self) -> str:
        return f"view of {self.dtype}[{', '.join(map(str, self.shape))}]"


class TableType(Struct, frozen=True):
    """A small array that is passed by value in the kernel's parameters."""

    length: int
    dtype: DType

    def __str__(self) -> str:
        return f"table of {self.length} {self.dtype}"


Type = TileType | ViewType | TensorType | SharedType | TableType
