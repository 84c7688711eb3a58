"""Implements the integer arithmetic of PTX on numpy arrays, with one element for each lane.

Operands are unsigned arrays of the type's width (uint16, uint32, uint64). The PTX type `dtype` (s16 s32 s64, u16 u32
u64, b16 b32 b64) determines whether their bits are read as signed numbers. Results are unsigned arrays, too. On
overflow, arithmetic wraps around. Operands have at least one axis, broadcast as in numpy, and are not changed. Shift
counts, positions and lengths are uint32. See PTX ISA, "Integer Arithmetic Instructions", "Extended-Precision Integer
Arithmetic Instructions" and "Logic and Shift Instructions".
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

UNSIGNED_ORDER = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}  # comparisons that read operands as unsigned
_UNSIGNED: dict[int, type[np.unsignedinteger[Any]]] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_SIGNED: dict[int, type[np.signedinteger[Any]]] = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def _width(dtype: str) -> int:
    return int(dtype[1:])


def _is_signed(dtype: str) -> bool:
    return dtype[0] == "s"


def _as(x: Array, dtype: str) -> Array:
    """Views `x` as signed or unsigned numbers, depending on `dtype`."""
    width = _width(dtype)
    return x.view(_SIGNED[width] if _is_signed(dtype) else _UNSIGNED[width])


def _bits(x: Array) -> Array:
    return x.view(_UNSIGNED[x.dtype.itemsize * 8])


def _widened(x: Array, dtype: str) -> Array:
    """Sign- or zero-extends `x` to twice its width, as an unsigned array."""
    width = 2 * _width(dtype)
    return _bits(_as(x, dtype).astype((_SIGNED if _is_signed(dtype) else _UNSIGNED)[width]))


def _count(b: Array, limit: int, kind: type[np.unsignedinteger[Any]]) -> Array:
    """Clamps the shift count `b` to `limit`, and converts it to the type of the shifted value. In numpy, a shift by the
    whole width gives 0."""
    return np.minimum(b, np.uint32(limit)).astype(kind)


def add(a: Array, b: Array, dtype: str, saturate: bool = False) -> Array:
    """`add{.sat}`: a + b. `saturate` (only for s32) clamps the sum to MININT..MAXINT."""
    d = a + b
    if saturate:
        x, y, z = _as(a, dtype), _as(b, dtype), _as(d, dtype)
        return _saturated(d, ((x ^ z) & (y ^ z)) < 0, x < 0, dtype)
    return d


def sub(a: Array, b: Array, dtype: str, saturate: bool = False) -> Array:
    """`sub{.sat}`: a - b. `saturate` (only for s32) clamps the difference to MININT..MAXINT."""
    d = a - b
    if saturate:
        x, y, z = _as(a, dtype), _as(b, dtype), _as(d, dtype)
        return _saturated(d, ((x ^ y) & (x ^ z)) < 0, x < 0, dtype)
    return d


def _saturated(d: Array, overflow: Array, negative: Array, dtype: str) -> Array:
    if overflow.any():
        limits = np.iinfo(_SIGNED[_width(dtype)])
        d = _bits(np.where(overflow, np.where(negative, limits.min, limits.max).astype(limits.dtype), _as(d, dtype)))
    return d


def mulhi(a: Array, b: Array, dtype: str) -> Array:
    """`mul.hi`: the upper half of the product."""
    width = _width(dtype)
    if width < 64:
        return (_widened(a, dtype) * _widened(b, dtype) >> _UNSIGNED[2 * width](width)).astype(_UNSIGNED[width])
    # numpy has no 128-bit integers, so the product is a sum of four products of 32-bit halves.
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    a_low, a_high, b_low, b_high = a & mask, a >> half, b & mask, b >> half
    middle = a_high * b_low + (a_low * b_low >> half)
    other = a_low * b_high + (middle & mask)
    high = a_high * b_high + (middle >> half) + (other >> half)
    if _is_signed(dtype):
        high -= np.where(_as(a, dtype) < 0, b, np.uint64(0)) + np.where(_as(b, dtype) < 0, a, np.uint64(0))
    return high


def mad_hi(a: Array, b: Array, c: Array, dtype: str, saturate: bool = False) -> Array:
    """`mad.hi{.sat}`: the upper half of a * b, plus c. `saturate` exists only for s32."""
    return add(mulhi(a, b, dtype), c, dtype, saturate)


def addc(a: Array, b: Array, carry: Array | None) -> tuple[Array, Array]:
    """`add.cc` (`carry` is None) and `addc{.cc}`: returns (a + b + carry, carry out). Carries are bool arrays."""
    d = a + b
    out = d < a
    if carry is not None:
        d = d + carry
        out = out | (carry & (d == 0))
    return d, out


def subc(a: Array, b: Array, carry: Array | None) -> tuple[Array, Array]:
    """`sub.cc` (`carry` is None and counts as 1) and `subc{.cc}`: returns (a + ~b + carry, carry out). The carry out is
    1 if there is no borrow. A `sub.cc` followed by an `addc` shows that GPUs also add ~b (`IADD3`)."""
    return addc(a, ~b, np.array(True) if carry is None else carry)


def madc(a: Array, b: Array, c: Array, carry: Array | None, dtype: str, mode: str) -> tuple[Array, Array]:
    """`mad.{hi,lo}.cc` (`carry` is None) and `madc.{hi,lo}{.cc}`: returns (upper or lower half of a * b + c + carry,
    carry out)."""
    return addc(a * b if mode == "lo" else mulhi(a, b, dtype), c, carry)


def _parts(x: Array, dtype: str, width: int) -> list[Array]:
    """Splits a 32-bit register into fields of `width` bits, lowest first, as int64 arrays."""
    kind = (_SIGNED if _is_signed(dtype) else _UNSIGNED)[width]
    shifts = range(0, 32, width)
    return [(x >> np.uint32(s)).astype(_UNSIGNED[width]).view(kind).astype(np.int64) for s in shifts]


def dp4a(a: Array, b: Array, c: Array, a_type: str, b_type: str) -> Array:
    """`dp4a.atype.btype`: c plus the dot product of the bytes of a and b. The types of a and b (s32 or u32) state
    whether the bytes are signed or unsigned."""
    for x, y in zip(_parts(a, a_type, 8), _parts(b, b_type, 8), strict=True):
        # Sums wrap, so the order of the four products does not matter.
        c = c + (x * y).astype(np.uint32)
    return c


def dp2a(a: Array, b: Array, c: Array, a_type: str, b_type: str, mode: str) -> Array:
    """`dp2a.{lo,hi}.atype.btype`: c plus the dot product of the two halves of a and two bytes of b. Mode lo uses the
    lower two bytes of b, and mode hi uses the upper two."""
    low, high = _parts(a, a_type, 16)
    first = {"lo": 0, "hi": 2}[mode]
    fields = _parts(b, b_type, 8)
    return c + (low * fields[first] + high * fields[first + 1]).astype(np.uint32)


def bfe(a: Array, b: Array, c: Array, dtype: str) -> Array:
    """`bfe`: c bits of a, from bit b on. b and c are taken modulo 256. The result is sign-extended if `dtype` is
    signed."""
    width, kind = _width(dtype), _UNSIGNED[_width(dtype)]
    position, length = b & np.uint32(0xFF), c & np.uint32(0xFF)
    taken = np.minimum(length, np.uint32(width) - np.minimum(position, np.uint32(width)))
    outside = ~kind(0) << taken.astype(kind)
    d = (a >> _count(position, width, kind)) & ~outside
    if _is_signed(dtype):
        last = _count(position + length - np.uint32(1), width - 1, kind)
        d = d | (outside * ((a >> last) & kind(1) & (length != 0)))
    return d


def bfi(a: Array, b: Array, c: Array, d: Array, dtype: str) -> Array:
    """`bfi`: b, where d bits from bit c on are replaced by the d lowest bits of a. c and d are taken modulo 256. Bits
    past the width of b are dropped."""
    width, kind = _width(dtype), _UNSIGNED[_width(dtype)]
    position = _count(c & np.uint32(0xFF), width, kind)
    field = ~(~kind(0) << _count(d & np.uint32(0xFF), width, kind)) << position
    return (b & ~field) | ((a << position) & field)


def _bit_length(x: Array) -> Array:
    """Returns the number of bits up to the highest set bit, as uint32, and 0 for 0."""
    width = x.dtype.itemsize * 8
    filled, step = x, 1
    # numpy has no integer logarithm, so all bits below the highest set bit are set and then counted.
    while step < width:
        filled = filled | (filled >> x.dtype.type(step))
        step *= 2
    return np.bitwise_count(filled).astype(np.uint32)


def bfind(a: Array, dtype: str, shiftamt: bool = False) -> Array:
    """`bfind{.shiftamt}`: position (uint32) of the highest bit that differs from the sign bit, or 0xffffffff if there
    is none. For unsigned types, it is the highest set bit. With `shiftamt`, the result is the count of the left shift
    that moves this bit to the top."""
    if _is_signed(dtype):
        x = _as(a, dtype)
        a = _bits(x ^ (x >> x.dtype.type(_width(dtype) - 1)))
    position = _bit_length(a) - np.uint32(1)
    if shiftamt:
        return np.where(a == 0, position, np.uint32(_width(dtype) - 1) - position)
    return position


def clz(a: Array, dtype: str) -> Array:
    """`clz`: the number of leading zeros, as uint32. For 0, the result is the width."""
    return np.uint32(_width(dtype)) - _bit_length(a)


def popc(a: Array) -> Array:
    """`popc`: the number of set bits, as uint32."""
    return np.bitwise_count(a).astype(np.uint32)


def brev(a: Array) -> Array:
    """`brev`: the bits in reverse order."""
    kind = a.dtype.type
    d = a.byteswap()
    for step, mask in ((4, 0x0F), (2, 0x33), (1, 0x55)):
        low = kind(int.from_bytes([mask] * a.dtype.itemsize, "little"))
        d = ((d >> kind(step)) & low) | ((d & low) << kind(step))
    return d


def fns(mask: Array, base: Array, offset: Array) -> Array:
    """`fns.b32`: position of the `offset`-th set bit of `mask`, counted upwards from bit `base`, or downwards if
    `offset` is negative. If there is no such bit, or if `base` > 31, the result is 0xffffffff.

    The ISA leaves `base` > 31 undefined.
    """
    mask, base, offset = np.broadcast_arrays(mask, base, offset)
    start, wanted = base.astype(np.int64), offset.view(np.int32).astype(np.int64)
    step = np.where(wanted < 0, -1, 1)
    left = np.maximum(np.abs(wanted), 1)
    reach = np.where(wanted == 0, 1, 32)
    d = np.full(mask.shape, 0xFFFFFFFF, np.uint32)
    for i in range(32):
        position = start + i * step
        inside = (position >= 0) & (position < 32) & (start < 32) & (i < reach)
        found = inside & ((mask >> np.where(inside, position, 0).astype(np.uint32)) & np.uint32(1) != 0)
        left = left - found
        hit = found & (left == 0)
        d[hit] = position[hit]
    return d


# For each mode of prmt, four constants that contain four selectors each. The low two bits of c choose the constant (PTX
# ISA, tables of "prmt").
_PRMT_MODES = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}


def prmt(a: Array, b: Array, c: Array, mode: str | None = None) -> Array:
    """`prmt.b32{.mode}`: selects each byte of the result from the bytes of a (0 to 3) and b (4 to 7). Without a mode,
    nibble i of c selects byte i. If bit 3 of the nibble is set, the byte becomes eight copies of its sign bit."""
    if mode is not None:
        c = np.array(_PRMT_MODES[mode], np.uint32)[c & np.uint32(3)]
    source = (b.astype(np.uint64) << np.uint64(32)) | a
    d = np.zeros(1, np.uint32)
    for place in range(4):
        select = c >> np.uint32(4 * place)
        shift = (select & np.uint32(7)) << np.uint32(3)
        byte = (source >> shift.astype(np.uint64)).astype(np.uint32) & np.uint32(0xFF)
        # If bit 3 of the selector is set, the byte becomes eight copies of its sign bit.
        sign = select & np.uint32(8)
        if np.any(sign):
            replicated = (byte >> np.uint32(7)) * np.uint32(0xFF)
            byte = byte ^ ((byte ^ replicated) * (sign >> np.uint32(3)))
        d = d | (byte << np.uint32(8 * place))
    return d


def lop3(a: Array, b: Array, c: Array, lut: int) -> Array:
    """`lop3.b32`: bit i of the result is bit (4 a_i + 2 b_i + c_i) of `lut`.

    The function computes the result as an XOR of ANDs of a, b and c. The Moebius transform of `lut` states which ANDs
    take part.
    """
    coefficient = [(lut >> i) & 1 for i in range(8)]
    for step in (1, 2, 4):
        for i in range(8):
            if i & step:
                coefficient[i] ^= coefficient[i ^ step]
    a, b, c = np.broadcast_arrays(a, b, c)
    d = np.full(a.shape, 0xFFFFFFFF if coefficient[0] else 0, np.uint32)
    for i, factors in enumerate([(), (c,), (b,), (b, c), (a,), (a, c), (a, b), (a, b, c)]):
        if i and coefficient[i]:
            term = factors[0]
            for factor in factors[1:]:
                term = term & factor
            d ^= term
    return d


def shl(a: Array, b: Array, dtype: str) -> Array:
    """`shl`: a << b. A count above the width is clamped to the width, which gives 0."""
    return a << _count(b, _width(dtype), _UNSIGNED[_width(dtype)])


def shr(a: Array, b: Array, dtype: str) -> Array:
    """`shr`: a >> b. A count above the width is clamped to the width. Signed types shift in the sign bit, and other
    types zeros."""
    width = _width(dtype)
    if _is_signed(dtype):
        return _bits(_as(a, dtype) >> _as(_count(b, width - 1, _UNSIGNED[width]), dtype))
    return a >> _count(b, width, _UNSIGNED[width])


def shf(a: Array, b: Array, c: Array, direction: str, mode: str) -> Array:
    """`shf.{l,r}.{clamp,wrap}.b32`: shifts the 64-bit number with the upper word b and the lower word a. The count is
    min(c, 32) for clamp and c mod 32 for wrap. The result is the upper word for l and the lower word for r."""
    count = (np.minimum(c, np.uint32(32)) if mode == "clamp" else c & np.uint32(31)).astype(np.uint64)
    source = (b.astype(np.uint64) << np.uint64(32)) | a
    if direction == "l":
        return (source << count >> np.uint64(32)).astype(np.uint32)
    return (source >> count).astype(np.uint32)


def sad(a: Array, b: Array, c: Array, dtype: str) -> Array:
    """`sad`: c + |a - b|."""
    x, y = _as(a, dtype), _as(b, dtype)
    return c + (_bits(np.maximum(x, y)) - _bits(np.minimum(x, y)))


def _divide(a: Array, b: Array, dtype: str) -> tuple[Array, Array]:
    """Returns (quotient, remainder) as unsigned arrays. The quotient is rounded towards zero, and the remainder has the
    sign of a. A divisor of 0 is replaced by 1."""
    # numpy would warn of a division by 0. `div` and `rem` replace the result for such elements.
    b = np.where(b == 0, b.dtype.type(1), b)
    if not _is_signed(dtype):
        q = a // b
        return q, a - q * b
    q = abs(a, dtype) // abs(b, dtype)
    negative = _as(a ^ b, dtype) < 0
    q = np.where(negative, np.negative(q), q)
    return q, a - q * b


def div(a: Array, b: Array, dtype: str) -> Array:
    """`div`: a / b, rounded towards zero. MININT / -1 wraps to MININT.

    The ISA does not specify division by zero. This function then sets all bits of the result, as measured on an H200
    for every width.
    """
    # `undefined.py` tracks quotients of divisions by 0. A launch still needs a value for such quotients.
    return np.where(b == 0, ~b.dtype.type(0), _divide(a, b, dtype)[0])


def rem(a: Array, b: Array, dtype: str) -> Array:
    """`rem`: a - b * (a / b), with the sign of a. MININT rem -1 is 0. If b is 0, all bits of the result are set, as in
    `div`."""
    return np.where(b == 0, ~b.dtype.type(0), _divide(a, b, dtype)[1])


def szext(a: Array, b: Array, dtype: str, mode: str) -> Array:
    """`szext.{clamp,wrap}`: the b lowest bits of a, sign-extended for s32 and zero-extended for u32. If b > 31, clamp
    returns a, and wrap takes b modulo 32."""
    n = b & np.uint32(31)
    above = ~np.uint32(0) << n
    if mode == "clamp":
        above = np.where(b >= 32, np.uint32(0), above)
    d = a & ~above
    if _is_signed(dtype):
        sign = (a >> ((n - np.uint32(1)) & np.uint32(31))) & np.uint32(1) & (n != 0)
        d = d | (above * sign)
    return d


def bmsk(a: Array, b: Array, mode: str) -> Array:
    """`bmsk.{clamp,wrap}.b32`: a mask of b set bits from bit a on. Bits past bit 31 are dropped. In mode wrap, a and b
    are taken modulo 32."""
    if mode == "wrap":
        a, b = a & np.uint32(31), b & np.uint32(31)
    position = np.minimum(a, np.uint32(32))
    return ~(~np.uint32(0) << np.minimum(b, np.uint32(32))) << position


def abs(a: Array, dtype: str) -> Array:
    """`abs`: |a|. MININT stays MININT, whose bits read as unsigned are its magnitude."""
    return _bits(np.abs(_as(a, dtype)))


def cnot(a: Array) -> Array:
    """`cnot`: 1 if a is 0, otherwise 0."""
    return (a == 0).astype(a.dtype)
