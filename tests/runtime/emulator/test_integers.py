"""Integer instructions against Python integers, coded from the ISA's pseudocode."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl.runtime.emulator import integers
from dsl.runtime.emulator.code import DTYPES
from dsl.runtime.emulator.instructions.comparison import comparison
from tests.whole import draws

ARITHMETIC = ["s16", "u16", "s32", "u32", "s64", "u64"]
WIDE = ["s32", "u32", "s64", "u64"]


def bits_of(dtype):
    return int(dtype[1:])


def array(values, bits):
    return np.array([v % (1 << bits) for v in values], f"u{bits // 8}")


def signed(value, bits):
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


def read(value, dtype):
    """The number that `dtype` reads in a pattern."""
    return signed(value, bits_of(dtype)) if dtype[0] == "s" else value % (1 << bits_of(dtype))


def limits(dtype):
    bits = bits_of(dtype)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype[0] == "s" else (0, (1 << bits) - 1)


def specials(bits):
    top = 1 << (bits - 1)
    return [0, 1, 2, 3, 7, 0xFF, 0x5555 % (1 << bits), top - 1, top, top + 1, 2 * top - 2, 2 * top - 1]


def samples(bits, count, columns, seed=0):
    """All combinations of special patterns, then random ones of every magnitude."""
    rng = np.random.default_rng(seed)
    rows = list(itertools.product(specials(bits), repeat=columns)) if columns < 4 else []
    for _ in range(count):
        rows.append(
            tuple(
                int(rng.integers(0, 1 << 64, dtype=np.uint64)) % (1 << bits) >> int(rng.integers(0, bits))
                for _ in range(columns)
            )
        )
    return list(zip(*rows, strict=True))


def check(result, expected, bits):
    assert result.dtype == np.dtype(f"u{bits // 8}")
    assert result.tolist() == [e % (1 << bits) for e in expected]


@pytest.mark.parametrize("dtype", ARITHMETIC)
def test_add_sub_mulhi(dtype):
    bits = bits_of(dtype)
    a, b = samples(bits, 300, 2)
    x, y = array(a, bits), array(b, bits)
    pairs = [(read(v, dtype), read(w, dtype)) for v, w in zip(a, b, strict=True)]
    check(integers.add(x, y, dtype), [v + w for v, w in pairs], bits)
    check(integers.sub(x, y, dtype), [v - w for v, w in pairs], bits)
    check(integers.mulhi(x, y, dtype), [(v * w) >> bits for v, w in pairs], bits)


def test_saturation_of_s32():
    a, b = samples(32, 300, 2)
    x, y = array(a, 32), array(b, 32)
    pairs = [(signed(v, 32), signed(w, 32)) for v, w in zip(a, b, strict=True)]
    low, high = limits("s32")
    check(integers.add(x, y, "s32", saturate=True), [min(max(v + w, low), high) for v, w in pairs], 32)
    check(integers.sub(x, y, "s32", saturate=True), [min(max(v - w, low), high) for v, w in pairs], 32)
    high_parts = [min(max((v * w >> 32) + v, low), high) for v, w in pairs]
    check(integers.mad_hi(x, y, x, "s32", saturate=True), high_parts, 32)


@pytest.mark.parametrize("dtype", ARITHMETIC)
def test_mad(dtype):
    bits = bits_of(dtype)
    a, b, c = samples(bits, 300, 3)
    x, y, z = (array(v, bits) for v in (a, b, c))
    rows = [tuple(read(v, dtype) for v in row) for row in zip(a, b, c, strict=True)]
    check(integers.mad_hi(x, y, z, dtype), [(v * w >> bits) + u for v, w, u in rows], bits)


@pytest.mark.parametrize("dtype", ["u32", "s32", "u64", "s64"])
def test_carries(dtype):
    bits = bits_of(dtype)
    a, b, c = samples(bits, 300, 3)
    x, y, z = (array(v, bits) for v in (a, b, c))
    for carry in (None, np.zeros(len(a), bool), np.ones(len(a), bool)):
        one = 0 if carry is None else int(carry[0])
        d, out = integers.addc(x, y, carry)
        check(d, [v + w + one for v, w in zip(a, b, strict=True)], bits)
        assert out.tolist() == [v + w + one >> bits == 1 for v, w in zip(a, b, strict=True)]
        d, out = integers.subc(x, y, carry)
        borrow = 0 if carry is None else 1 - one  # the flag is 1 where nothing is borrowed
        check(d, [v - w - borrow for v, w in zip(a, b, strict=True)], bits)
        assert out.tolist() == [v - w - borrow >= 0 for v, w in zip(a, b, strict=True)]
        for mode, shift in (("lo", 0), ("hi", bits)):
            products = [(read(v, dtype) * read(w, dtype) >> shift) % (1 << bits) for v, w in zip(a, b, strict=True)]
            d, out = integers.madc(x, y, z, carry, dtype, mode)
            check(d, [p + u + one for p, u in zip(products, c, strict=True)], bits)
            assert out.tolist() == [p + u + one >> bits == 1 for p, u in zip(products, c, strict=True)]


@settings(max_examples=draws(100), deadline=None)
@given(st.integers(0, 2**128 - 1), st.integers(0, 2**128 - 1))
def test_carry_chain_adds_and_subtracts_128_bits(a, b):
    words = [(array([a >> s], 32), array([b >> s], 32)) for s in range(0, 128, 32)]
    for operation, expected in ((integers.addc, a + b), (integers.subc, a - b)):
        carry, total = None, 0
        for i, (x, y) in enumerate(words):
            d, carry = operation(x, y, carry)
            total |= int(d[0]) << (32 * i)
        assert total == expected % 2**128


@pytest.mark.parametrize("a_type", ["s32", "u32"])
@pytest.mark.parametrize("b_type", ["s32", "u32"])
def test_dot_products(a_type, b_type):
    def field(value, place, bits, dtype):
        value = value >> (place * bits) & ((1 << bits) - 1)
        return signed(value, bits) if dtype == "s32" else value

    a, b, c = samples(32, 300, 3)
    x, y, z = (array(v, 32) for v in (a, b, c))
    rows = list(zip(a, b, c, strict=True))
    four = [u + sum(field(v, i, 8, a_type) * field(w, i, 8, b_type) for i in range(4)) for v, w, u in rows]
    check(integers.dp4a(x, y, z, a_type, b_type), four, 32)
    for mode, first in (("lo", 0), ("hi", 2)):
        two = [u + sum(field(v, i, 16, a_type) * field(w, first + i, 8, b_type) for i in range(2)) for v, w, u in rows]
        check(integers.dp2a(x, y, z, a_type, b_type, mode), two, 32)


def isa_bfe(a, b, c, dtype):
    msb = bits_of(dtype) - 1
    position, length = b & 0xFF, c & 0xFF
    sign = 0 if dtype[0] == "u" or length == 0 else a >> min(position + length - 1, msb) & 1
    d = 0
    for i in range(msb + 1):
        d |= (a >> (position + i) & 1 if i < length and position + i <= msb else sign) << i
    return d


def isa_bfi(a, b, c, d, bits):
    position, length, f = c & 0xFF, d & 0xFF, b
    i = 0
    while i < length and position + i <= bits - 1:
        f = f & ~(1 << (position + i)) | (a >> i & 1) << (position + i)
        i += 1
    return f


COUNTS = [0, 1, 5, 8, 16, 31, 32, 33, 63, 64, 65, 200, 255, 256, 300, 0xFFFFFFFF]


@pytest.mark.parametrize("dtype", WIDE)
def test_bit_fields(dtype):
    bits = bits_of(dtype)
    rows = list(itertools.product(samples(bits, 6, 1)[0], COUNTS, COUNTS))
    a, b, c = zip(*rows, strict=True)
    position, length = array(b, 32), array(c, 32)
    check(integers.bfe(array(a, bits), position, length, dtype), [isa_bfe(*row, dtype) for row in rows], bits)
    under = array([v * 0x9E3779B97F4A7C15 for v in a], bits)
    expected = [isa_bfi(v, u, p, n, bits) for (v, p, n), u in zip(rows, under.tolist(), strict=True)]
    check(integers.bfi(array(a, bits), under, position, length, f"b{bits}"), expected, bits)


@pytest.mark.parametrize("dtype", WIDE)
def test_finding_and_counting_bits(dtype):
    bits = bits_of(dtype)
    a = (
        samples(bits, 300, 1)[0]
        + tuple(1 << i for i in range(bits))
        + tuple((1 << bits) - (1 << i) for i in range(bits))
    )
    x = array(a, bits)
    found = []
    for v in a:
        number = read(v, dtype)
        found.append((number if number >= 0 else ~number).bit_length() - 1)
    check(integers.bfind(x, dtype), found, 32)
    check(integers.bfind(x, dtype, shiftamt=True), [f if f < 0 else bits - 1 - f for f in found], 32)
    check(integers.clz(x, f"b{bits}"), [bits - v.bit_length() for v in a], 32)
    check(integers.popc(x), [v.bit_count() for v in a], 32)
    check(integers.brev(x), [int(f"{v:0{bits}b}"[::-1], 2) for v in a], bits)
    check(integers.cnot(x), [int(v == 0) for v in a], bits)


def isa_fns(mask, base, offset):
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    position, count, step = base, abs(offset) - 1, 1 if offset > 0 else -1
    while 0 <= position < 32:
        if mask >> position & 1:
            if count == 0:
                return position
            count -= 1
        position += step
    return 0xFFFFFFFF


def test_fns():
    masks = [0, 0xAAAAAAAA, 0xFFFFFFFF, 1, 1 << 31, 0x80010040]
    rows = list(
        itertools.product(masks, range(32), [-(2**31), -33, -32, -9, -2, -1, 0, 1, 2, 5, 16, 31, 32, 33, 2**31 - 1])
    )
    mask, base, offset = zip(*rows, strict=True)
    got = integers.fns(array(mask, 32), array(base, 32), array(offset, 32))
    check(got, [isa_fns(*row) for row in rows], 32)
    examples = integers.fns(array([0xAAAAAAAA] * 4, 32), array([3, 3, 2, 2], 32), array([1, -1, 1, -1], 32))
    assert examples.tolist() == [3, 3, 3, 1]


# The source byte for each byte of the result, most significant first, and control 0 to 3: the ISA's tables.
PRMT_TABLES = {
    "f4e": ["3210", "4321", "5432", "6543"],
    "b4e": ["5670", "6701", "7012", "0123"],
    "rc8": ["0000", "1111", "2222", "3333"],
    "ecl": ["3210", "3211", "3222", "3333"],
    "ecr": ["0000", "1110", "2210", "3210"],
    "rc16": ["1010", "3232", "1010", "3232"],
}


def test_prmt_generic():
    a, b, c = samples(32, 3000, 3)
    expected = []
    for v, w, control in zip(a, b, c, strict=True):
        source = (w << 32 | v).to_bytes(8, "little")
        out = []
        for place in range(4):
            select = control >> (4 * place) & 15
            byte = source[select & 7]
            out.append((255 if byte & 128 else 0) if select & 8 else byte)
        expected.append(int.from_bytes(bytes(out), "little"))
    check(integers.prmt(array(a, 32), array(b, 32), array(c, 32)), expected, 32)
    one = integers.prmt(array(a, 32), array(b, 32), array([0x9876], 32))
    check(one, integers.prmt(array(a, 32), array(b, 32), array([0x9876] * len(a), 32)).tolist(), 32)


@pytest.mark.parametrize("mode", PRMT_TABLES)
def test_prmt_modes(mode):
    a, b = array([0x83828180] * 8, 32), array([0x87868584] * 8, 32)
    control = array([0, 1, 2, 3, 4, 5, 6, 0xFFFFFFFF], 32)
    expected = [int("".join("8" + digit for digit in PRMT_TABLES[mode][i & 3]), 16) for i in control.tolist()]
    check(integers.prmt(a, b, control, mode), expected, 32)


def test_every_lop3_table():
    a, b, c = array([0xF0] * 3, 32), array([0xCC] * 3, 32), array([0xAA] * 3, 32)
    for lut in range(256):
        result = integers.lop3(a, b, c, lut)
        assert (result & np.uint32(0xFF)).tolist() == [lut] * 3
        assert (result >> np.uint32(8)).tolist() == [(lut & 1) * 0xFFFFFF] * 3


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_clamp_the_count(bits):
    rows = list(itertools.product(samples(bits, 40, 1)[0], [*COUNTS, 15, 17]))
    a, n = zip(*rows, strict=True)
    x, count = array(a, bits), array(n, 32)
    check(integers.shl(x, count, f"b{bits}"), [v << min(k, bits) for v, k in rows], bits)
    check(integers.shr(x, count, f"u{bits}"), [v >> min(k, bits) for v, k in rows], bits)
    check(integers.shr(x, count, f"b{bits}"), [v >> min(k, bits) for v, k in rows], bits)
    check(integers.shr(x, count, f"s{bits}"), [signed(v, bits) >> min(k, bits) for v, k in rows], bits)


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_funnel_shifts(mode):
    values = samples(32, 8, 2)
    rows = [(a, b, n) for a, b in zip(*values, strict=True) for n in COUNTS]
    a, b, n = (array(column, 32) for column in zip(*rows, strict=True))
    counts = [min(k, 32) if mode == "clamp" else k & 31 for _, _, k in rows]
    left = [(w << 32 | v) << k >> 32 for (v, w, _), k in zip(rows, counts, strict=True)]
    right = [(w << 32 | v) >> k for (v, w, _), k in zip(rows, counts, strict=True)]
    check(integers.shf(a, b, n, "l", mode), left, 32)
    check(integers.shf(a, b, n, "r", mode), right, 32)


@pytest.mark.parametrize("dtype", ARITHMETIC)
def test_sad_and_abs(dtype):
    bits = bits_of(dtype)
    a, b, c = samples(bits, 300, 3)
    x, y, z = (array(v, bits) for v in (a, b, c))
    rows = [tuple(read(v, dtype) for v in row) for row in zip(a, b, c, strict=True)]
    check(integers.sad(x, y, z, dtype), [u + abs(v - w) for v, w, u in rows], bits)
    if dtype[0] == "s":
        check(integers.abs(x, dtype), [abs(v) for v, _, _ in rows], bits)


@pytest.mark.parametrize("dtype", ARITHMETIC)
def test_division(dtype):
    bits = bits_of(dtype)
    a, b = samples(bits, 400, 2)
    quotients, remainders = [], []
    for v, w in zip(a, b, strict=True):
        n, d = read(v, dtype), read(w, dtype)
        q = -1 if d == 0 else abs(n) // abs(d) * (1 if (n < 0) == (d < 0) else -1)
        quotients.append(q)
        remainders.append(-1 if d == 0 else n - q * d)
    check(integers.div(array(a, bits), array(b, bits), dtype), quotients, bits)
    check(integers.rem(array(a, bits), array(b, bits), dtype), remainders, bits)


def isa_szext(a, b, dtype, mode):
    n = b & 31
    too_large = b >= 32 and mode == "clamp"
    mask = 0 if too_large else (0xFFFFFFFF << n) & 0xFFFFFFFF
    sign = n != 0 and not too_large and dtype == "s32" and a >> ((n - 1) & 31) & 1
    return a & ~mask | (mask if sign else 0)


def isa_bmsk(a, b, mode):
    a1, b1 = a & 31, b & 31
    mask0 = 0xFFFFFFFF << a1
    total = a1 + b1
    mask1 = 0xFFFFFFFF << total
    overflow = total >= 32
    if mode == "clamp":
        if a >= 32:
            overflow, mask0 = True, 0
        overflow = overflow or b >= 32
    if overflow:
        mask1 = 0
    elif b1 == 0:
        mask1 = 0xFFFFFFFF
    return mask0 & ~mask1 & 0xFFFFFFFF


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_extension_and_masks(mode):
    rows = list(itertools.product(samples(32, 40, 1)[0], [*range(40), 63, 64, 65, 0xFFFFFFFF]))
    a, b = (array(column, 32) for column in zip(*rows, strict=True))
    for dtype in ("s32", "u32"):
        check(integers.szext(a, b, dtype, mode), [isa_szext(*row, dtype, mode) for row in rows], 32)
    rows = list(itertools.product([*range(40), 63, 64, 0xFFFFFFFF], repeat=2))
    a, b = (array(column, 32) for column in zip(*rows, strict=True))
    check(integers.bmsk(a, b, mode), [isa_bmsk(*row, mode) for row in rows], 32)


@pytest.mark.parametrize("dtype", ARITHMETIC)
def test_comparisons(dtype):
    bits = bits_of(dtype)
    a, b = samples(bits, 200, 2)
    pairs = [(read(v, dtype), read(w, dtype)) for v, w in zip(a, b, strict=True)]
    expected = {
        "eq": [v == w for v, w in pairs],
        "ne": [v != w for v, w in pairs],
        "lt": [v < w for v, w in pairs],
        "le": [v <= w for v, w in pairs],
        "gt": [v > w for v, w in pairs],
        "ge": [v >= w for v, w in pairs],
        "lo": [v < w for v, w in zip(a, b, strict=True)],
        "ls": [v <= w for v, w in zip(a, b, strict=True)],
        "hi": [v > w for v, w in zip(a, b, strict=True)],
        "hs": [v >= w for v, w in zip(a, b, strict=True)],
    }
    for op, truth in expected.items():
        seen, compare = comparison(dtype, op, ftz=False)
        assert compare(*(array(v, bits).view(DTYPES[seen]) for v in (a, b))).tolist() == truth


def test_operands_are_not_changed_and_broadcast():
    a, b, c = (array(v, 32) for v in samples(32, 20, 3))
    copies = [v.copy() for v in (a, b, c)]
    shift = array([3], 32)
    integers.lop3(a, b, c, 0x96)
    integers.prmt(a, b, c)
    integers.shf(a, b, shift, "l", "wrap")
    integers.bfi(a, b, shift, shift, "b32")
    integers.div(a, b, "s32")
    assert all((v == w).all() for v, w in zip((a, b, c), copies, strict=True))
    assert integers.shl(a, shift, "b32").tolist() == [(v << 3) % 2**32 for v in a.tolist()]
    assert integers.lop3(a, shift, shift, 0xF0).tolist() == a.tolist()
