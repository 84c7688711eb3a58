"""`mma` against scalar models that gather, multiply and scatter element by element with the ISA's formulas.

Each `row, col = ...` below is that of the ISA's section on the fragment, for element i of the thread `lane`.
"""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from dsl.runtime.emulator import matrix
from dsl.runtime.emulator.legal.check import forms_of

WIDTH = {"f64": 64, "f32": 32, "tf32": 32, "s32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8}
WIDTH |= {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
WARPS = 3


def a_place(shape, dtype, lane, i, layout):
    group, thread = lane >> 2, lane % 4
    match shape, WIDTH[dtype]:
        case "m8n8k4", 16:
            if layout == "row":
                return (lane % 4 if lane < 16 else lane % 4 + 4), i
            return (i % 4 if lane < 16 else i % 4 + 4), lane % 4
        case "m8n8k4", 64:
            return lane >> 2, lane % 4
        case ("m16n8k4", _) | ("m16n8k8", 32 | 64):  # tf32 and f64
            return (group if i in (0, 2) else group + 8), (thread if i in (0, 1) else thread + 4)
        case "m16n8k16", 64:
            return (group if i % 2 == 0 else group + 8), (i * 2 + thread if i % 2 == 0 else i * 2 - 2 + thread)
        case "m16n8k8", 16:
            return (group if i in (0, 1) else group + 8), thread * 2 + (i & 1)
        case "m16n8k16", 16:
            row = group if 0 <= i < 2 or 4 <= i < 6 else group + 8
            return row, (thread * 2 + (i & 1) if i < 4 else thread * 2 + (i & 1) + 8)
        case "m8n8k16", 8:
            return lane >> 2, (lane % 4) * 4 + i
        case "m16n8k16", 8:
            return (group if i < 4 else group + 8), thread * 4 + (i & 3)
        case "m16n8k32", 8:
            row = group if 0 <= i < 4 or 8 <= i < 12 else group + 8
            return row, (thread * 4 + (i & 3) if i < 8 else thread * 4 + (i & 3) + 16)
        case "m8n8k32", 4:
            return lane >> 2, (lane % 4) * 8 + i
        case "m16n8k32", 4:
            return (group if i < 8 else group + 8), thread * 8 + (i & 7)
        case "m16n8k64", 4:
            row = group if 0 <= i < 8 or 16 <= i < 24 else group + 8
            return row, (thread * 8 + (i & 7) if i < 16 else thread * 8 + (i & 7) + 32)
        case "m8n8k128", 1:
            return lane >> 2, (lane % 4) * 32 + i
        case "m16n8k128", 1:
            return (group if i < 32 else group + 8), thread * 32 + (i & 31)
        case "m16n8k256", 1:
            row = group if 0 <= i < 32 or 64 <= i < 96 else group + 8
            return row, (thread * 32 + i % 32 if i < 64 else thread * 32 + i % 32 + 128)
    raise AssertionError((shape, dtype))


def b_place(shape, dtype, lane, i, layout):
    group, thread = lane >> 2, lane % 4
    match shape, WIDTH[dtype]:
        case "m8n8k4", 16:
            if layout == "row":
                return lane % 4, (i if lane < 16 else i + 4)
            return i, (lane % 4 if lane < 16 else lane % 4 + 4)
        case "m8n8k4", 64:
            return lane % 4, lane >> 2
        case "m16n8k4", _:
            return thread, group
        case "m16n8k8", 32 | 64:
            return (thread if i == 0 else thread + 4), group
        case "m16n8k16", 64:
            return thread + i * 4, group
        case "m16n8k8", 16:
            return thread * 2 + i, group
        case "m16n8k16", 16:
            return (thread * 2 + (i & 1) if i < 2 else thread * 2 + (i & 1) + 8), group
        case (("m8n8k16" | "m16n8k16"), 8):
            return thread * 4 + i, group
        case "m16n8k32", 8:
            return (thread * 4 + (i & 3) if i < 4 else thread * 4 + (i & 3) + 16), group
        case (("m8n8k32" | "m16n8k32"), 4):
            return thread * 8 + i, group
        case "m16n8k64", 4:
            return (thread * 8 + (i & 7) if i < 8 else thread * 8 + (i & 7) + 32), group
        case (("m8n8k128" | "m16n8k128"), 1):
            return thread * 32 + i, group
        case "m16n8k256", 1:
            return (thread * 32 + i % 32 if i < 32 else thread * 32 + i % 32 + 128), group
    raise AssertionError((shape, dtype))


def c_place(shape, a_type, dtype, lane, i):
    group, thread = lane >> 2, lane % 4
    if shape == "m8n8k4" and a_type == "f16":
        if dtype == "f16":
            return (lane % 4 if lane < 16 else lane % 4 + 4), i
        row = (lane & 0b1) + (i & 0b10)
        return (row if lane < 16 else row + 4), (i & 0b100) + (lane & 0b10) + (i & 0b1)
    if shape.startswith("m8"):
        return lane >> 2, (lane % 4) * 2 + (i & 1)
    return (group if i < 2 else group + 8), thread * 2 + (i & 1)


def element(raw, dtype):
    """The number in a raw element."""
    if dtype in ("s8", "s4"):
        bits = WIDTH[dtype]
        return raw - (1 << bits) if raw >> (bits - 1) else raw
    if dtype in ("u8", "u4", "b1"):
        return raw
    if dtype == "s32":
        return raw - (1 << 32) if raw >> 31 else raw
    if dtype == "tf32":
        raw &= ~0x1FFF
    kinds = {"f64": np.float64, "f32": np.float32, "tf32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
    kinds |= {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
    return float(np.array([raw], f"u{WIDTH[dtype] // 8}").view(kinds[dtype])[0])


def unpack(registers, warp, lane, dtype):
    """All elements of a thread's fragment, element 0 in the lowest bits of the first register."""
    width = WIDTH[dtype]
    held = []
    for register in registers:
        word = int(register[warp, lane])
        held += [word >> s & ((1 << width) - 1) for s in range(0, max(width, 32), width)]
    return [element(raw, dtype) for raw in held]


def quads(shape, a_type):
    return [lane % 16 // 4 for lane in range(32)] if shape == "m8n8k4" and a_type == "f16" else [0] * 32


def gather(registers, warp, shape, a_type, dtype, place):
    """{(matrix, row, column): number}; asserts that each is held exactly once."""
    found = {}
    for lane, quad in enumerate(quads(shape, a_type)):
        for i, value in enumerate(unpack(registers, warp, lane, dtype)):
            key = (quad, *place(lane, i))
            assert key not in found
            found[key] = value
    return found


def registers_of(shape, a_type, dtype, elements):
    m, n, k = matrix.parse_shape(shape)
    count = {"a": m * k, "b": k * n, "c": m * n}[elements] * (4 if shape == "m8n8k4" and a_type == "f16" else 1)
    return count // 32 * WIDTH[dtype] // (64 if dtype == "f64" else 32)


def random_registers(rng, count, dtype):
    """Random bits for integers, floats of moderate size, whose sums float64 holds almost exactly."""
    made = []
    for _ in range(count):
        if dtype == "f64":
            made.append(rng.integers(-50, 50, (WARPS, 32)).astype(np.float64).view(np.uint64))
        elif dtype in ("f32", "tf32"):
            made.append(rng.standard_normal((WARPS, 32)).astype(np.float32).view(np.uint32))
        elif dtype in ("f16", "bf16"):
            kind = np.float16 if dtype == "f16" else ml_dtypes.bfloat16
            made.append(rng.standard_normal((WARPS, 64)).astype(kind).view(np.uint32))
        elif dtype in ("e4m3", "e5m2"):
            kind = ml_dtypes.float8_e4m3fn if dtype == "e4m3" else ml_dtypes.float8_e5m2
            made.append(rng.standard_normal((WARPS, 128)).astype(kind).view(np.uint32))
        else:
            made.append(rng.integers(0, 1 << 32, (WARPS, 32), dtype=np.uint32))
    return made


def combinations():
    bytes_, nibbles, fp8 = ("s8", "u8"), ("s4", "u4"), ("e4m3", "e5m2")
    for shape in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"):
        yield shape, "f64", "f64", "f64", "f64"
    for shape in ("m16n8k8", "m16n8k16"):
        yield shape, "f16", "f16", "f16", "f16"
        yield shape, "f16", "f16", "f32", "f32"
        yield shape, "bf16", "bf16", "f32", "f32"
    for shape in ("m16n8k4", "m16n8k8"):
        yield shape, "tf32", "tf32", "f32", "f32"
    for shape in ("m8n8k16", "m16n8k16", "m16n8k32"):
        yield from ((shape, a, b, "s32", "s32") for a in bytes_ for b in bytes_)
    for shape in ("m8n8k32", "m16n8k32", "m16n8k64"):
        yield from ((shape, a, b, "s32", "s32") for a in nibbles for b in nibbles)
    for shape in ("m16n8k16", "m16n8k32"):
        yield from ((shape, a, b, c, c) for a in fp8 for b in fp8 for c in ("f16", "f32"))


def combine(shape, types, warp, a, b, c, layouts=("row", "col")):
    """The exact C + A B of one warp as {(matrix, row, column): number}, Fractions for floats."""
    a_type, b_type, c_type, _ = types
    m, n, k = matrix.parse_shape(shape)
    left = gather(a, warp, shape, a_type, a_type, lambda lane, i: a_place(shape, a_type, lane, i, layouts[0]))
    right = gather(b, warp, shape, a_type, b_type, lambda lane, i: b_place(shape, b_type, lane, i, layouts[1]))
    total = gather(c, warp, shape, a_type, c_type, lambda lane, i: c_place(shape, a_type, c_type, lane, i))
    number = Fraction if c_type != "s32" else int
    left, right = ({key: number(v) for key, v in side.items()} for side in (left, right))
    for quad, row, column in total:
        products = (left[quad, row, i] * right[quad, i, column] for i in range(k))
        total[quad, row, column] = number(total[quad, row, column]) + sum(products)
    assert len(total) == m * n * (4 if max(quads(shape, a_type)) else 1)
    return total


def rounded(value, dtype):
    """A Fraction rounded to nearest even; through float64 to odd for the small formats."""
    if dtype == "f64":
        return float(value)
    near = float(value)
    if Fraction(near) != value:
        towards = math.nextafter(near, math.inf if value > near else -math.inf)
        odd = [v for v in (near, towards) if np.float64(v).view(np.uint64) & np.uint64(1)]
        near = odd[0]
    return float(np.float64(near).astype(np.float32 if dtype == "f32" else np.float16))


def assert_matches(d, shape, types, a, b, c, layouts=("row", "col")):
    a_type, _, _, d_type = types
    assert len(d) == registers_of(shape, a_type, d_type, "c")
    for warp in range(WARPS):
        expected = combine(shape, types, warp, a, b, c, layouts)
        got = gather(d, warp, shape, a_type, d_type, lambda lane, i: c_place(shape, a_type, d_type, lane, i))
        for key, value in expected.items():
            want = (value + 2**31) % 2**32 - 2**31 if d_type == "s32" else rounded(value, d_type)
            assert got[key] == want, (key, got[key], want)


def operands(shape, types, seed=0):
    rng = np.random.default_rng(seed)
    a_type, b_type, c_type, _ = types
    return [
        random_registers(rng, registers_of(shape, a_type, dtype, which), dtype)
        for which, dtype in (("a", a_type), ("b", b_type), ("c", c_type))
    ]


@pytest.mark.parametrize(("shape", "a_type", "b_type", "c_type", "d_type"), list(combinations()))
def test_every_dense_shape_and_type(shape, a_type, b_type, c_type, d_type):
    types = (a_type, b_type, c_type, d_type)
    a, b, c = operands(shape, types)
    assert_matches(matrix.mma(shape, *types, a, b, c), shape, types, a, b, c)


@pytest.mark.parametrize(("c_type", "d_type"), [("f16", "f16"), ("f16", "f32"), ("f32", "f32")])
@pytest.mark.parametrize("layouts", [("row", "col"), ("row", "row"), ("col", "col"), ("col", "row")])
def test_quad_pairs_in_every_layout(layouts, c_type, d_type):
    types = ("f16", "f16", c_type, d_type)
    a, b, c = operands("m8n8k4", types)
    d = matrix.mma("m8n8k4", *types, a, b, c, a_layout=layouts[0], b_layout=layouts[1])
    assert_matches(d, "m8n8k4", types, a, b, c, layouts)


@pytest.mark.parametrize("bit_op", ["xor", "and"])
@pytest.mark.parametrize("shape", ["m8n8k128", "m16n8k128", "m16n8k256"])
def test_bits(shape, bit_op):
    types = ("b1", "b1", "s32", "s32")
    a, b, c = operands(shape, types)
    d = matrix.mma(shape, *types, a, b, c, bit_op=bit_op)
    k = matrix.parse_shape(shape)[2]
    for warp in range(WARPS):
        left = gather(a, warp, shape, "b1", "b1", lambda lane, i: a_place(shape, "b1", lane, i, "row"))
        right = gather(b, warp, shape, "b1", "b1", lambda lane, i: b_place(shape, "b1", lane, i, "col"))
        start = gather(c, warp, shape, "b1", "s32", lambda lane, i: c_place(shape, "b1", "s32", lane, i))
        got = gather(d, warp, shape, "b1", "s32", lambda lane, i: c_place(shape, "b1", "s32", lane, i))
        for (_, row, column), value in got.items():
            pairs = [(left[0, row, i], right[0, i, column]) for i in range(k)]
            count = sum(x ^ y if bit_op == "xor" else x & y for x, y in pairs)
            assert value == (start[0, row, column] + count + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize("shape", ["m8n8k4", "m16n8k16"])
def test_f64_is_a_chain_of_fused_multiply_adds(shape):
    """Each step rounds once, k ascending from C: what an H200 gives."""
    rng = np.random.default_rng(9)
    counts = [registers_of(shape, "f64", "f64", operand) for operand in "abc"]
    a, b, c = ([rng.standard_normal((1, 32)).view(np.uint64) for _ in range(n)] for n in counts)
    d = matrix.mma(shape, "f64", "f64", "f64", "f64", a, b, c)
    left = gather(a, 0, shape, "f64", "f64", lambda lane, i: a_place(shape, "f64", lane, i, "row"))
    right = gather(b, 0, shape, "f64", "f64", lambda lane, i: b_place(shape, "f64", lane, i, "col"))
    total = gather(c, 0, shape, "f64", "f64", lambda lane, i: c_place(shape, "f64", "f64", lane, i))
    got = gather(d, 0, shape, "f64", "f64", lambda lane, i: c_place(shape, "f64", "f64", lane, i))
    for (_, row, column), start in total.items():
        value = start
        for i in range(matrix.parse_shape(shape)[2]):
            value = float(Fraction(left[0, row, i]) * Fraction(right[0, i, column]) + Fraction(value))
        assert got[0, row, column] == value


def filled(count, word, dtype=np.uint32):
    return [np.full((1, 32), word, dtype) for _ in range(count)]


@pytest.mark.parametrize(
    ("shape", "a_type", "a_word", "b_type", "b_word", "product"),
    [
        ("m16n8k32", "s8", 0x80808080, "s8", 0x80808080, 32 * 128 * 128),
        ("m16n8k32", "u8", 0xFFFFFFFF, "u8", 0xFFFFFFFF, 32 * 255 * 255),
        ("m16n8k32", "u8", 0xFFFFFFFF, "s8", 0x80808080, -32 * 255 * 128),
        ("m16n8k64", "s4", 0x88888888, "u4", 0xFFFFFFFF, -64 * 8 * 15),
    ],
)
def test_integer_extremes_wrap_or_saturate(shape, a_type, a_word, b_type, b_word, product):
    for start in (0, 2**31 - 1, -(2**31)):
        types = (a_type, b_type, "s32", "s32")
        a, b, c = filled(4, a_word), filled(2, b_word), filled(4, start % 2**32)
        wrapped = matrix.mma(shape, *types, a, b, c)
        clamped = matrix.mma(shape, *types, a, b, c, saturate=True)
        assert all((r == (start + product) % 2**32).all() for r in wrapped)
        limit = min(max(start + product, -(2**31)), 2**31 - 1)
        assert all((r == limit % 2**32).all() for r in clamped)


def test_special_values_of_floats():
    """0 x inf and inf - inf are the canonical NaN, an infinity stays, an overflowing f16 result is infinite."""
    one, infinity, zero = filled(4, 0x3C003C00), filled(4, 0x7C007C00), filled(4, 0)
    c = filled(4, 0x3F800000)
    types = ("f16", "f16", "f32", "f32")
    assert all((r == 0x7F800000).all() for r in matrix.mma("m16n8k16", *types, infinity, one[:2], c))
    assert all((r == 0x7FFFFFFF).all() for r in matrix.mma("m16n8k16", *types, infinity, zero[:2], c))
    minus = filled(4, 0xFF800000)
    assert all((r == 0x7FFFFFFF).all() for r in matrix.mma("m16n8k16", *types, infinity, one[:2], minus))
    large = filled(4, 0x70007000)  # 8192
    types = ("f16", "f16", "f16", "f16")
    assert all((r == 0x7C007C00).all() for r in matrix.mma("m16n8k16", *types, large, one[:2], zero[:2]))
    tiny = filled(4, 0x00010001)  # 2^-24, a subnormal
    assert all((r == 0x00100010).all() for r in matrix.mma("m16n8k16", *types, tiny, one[:2], zero[:2]))


def test_tf32_ignores_the_low_bits():
    a, c = filled(4, 0x3F801FFF), filled(4, 0)
    d = matrix.mma("m16n8k8", "tf32", "tf32", "f32", "f32", a, filled(2, 0x3F800000), c)
    assert all((r.view(np.float32) == 8).all() for r in d)


@pytest.mark.parametrize(
    ("shape", "types"),
    [
        ("m16n8k32", ("f16", "f16", "f32", "f32")),
        ("m16n8k16", ("f16", "bf16", "f32", "f32")),
        ("m16n8k16", ("f16", "f16", "f16", "f32")),
        ("m16n8k16", ("bf16", "bf16", "f16", "f16")),
        ("m8n8k4", ("f16", "f16", "f32", "f16")),
        ("m8n8k8", ("f16", "f16", "f16", "f16")),
        ("m16n8k32", ("s8", "s4", "s32", "s32")),
    ],
)
def test_what_does_not_exist_has_no_form(shape, types):
    a_type, b_type, c_type, d_type = types
    assert not forms_of(f"mma.sync.aligned.{shape}.row.col.{d_type}.{a_type}.{b_type}.{c_type}")


@pytest.mark.parametrize(("shape", "a_type", "b_type", "c_type", "d_type"), list(combinations()))
def test_what_is_compared_with_the_formulas_has_a_form(shape, a_type, b_type, c_type, d_type):
    assert forms_of(f"mma.sync.aligned.{shape}.row.col.{d_type}.{a_type}.{b_type}.{c_type}")


def test_other_layouts_and_bit_operations_have_no_form():
    assert not forms_of("mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32")
    assert not forms_of("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.or.popc")


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("num", [1, 2, 4])
def test_ldmatrix_and_stmatrix(num, trans):
    rng = np.random.default_rng(7)
    rows = rng.integers(0, 256, (WARPS, num, 8, 16), dtype=np.uint8)
    registers = matrix.ldmatrix_distribute(rows, trans)
    elements = rows.view(np.uint16)
    assert len(registers) == num
    for warp in range(WARPS):
        for i, register in enumerate(registers):
            for lane in range(32):
                row, column = lane // 4, 2 * (lane % 4)
                pair = [(row, column), (row, column + 1)]
                low, high = (elements[warp, i, c, r] if trans else elements[warp, i, r, c] for r, c in pair)
                assert register[warp, lane] == int(low) | int(high) << 16
    assert (matrix.ldmatrix_distribute(elements, trans)[0] == registers[0]).all()
    assert (matrix.stmatrix_collect(registers, trans) == rows).all()


def test_ldmatrix_feeds_the_fragments_of_mma():
    """A by ldmatrix.x4 and B by ldmatrix.x2 of its columns give A B, as in the ISA's examples."""
    rng = np.random.default_rng(8)
    left, right = (rng.integers(-8, 8, shape).astype(np.float16) for shape in ((16, 16), (16, 8)))
    tiles = np.stack([left[:8, :8], left[8:, :8], left[:8, 8:], left[8:, 8:]])[None]
    a = matrix.ldmatrix_distribute(np.ascontiguousarray(tiles).view(np.uint8))
    rows = np.stack([right[:8], right[8:]])[None]
    b = matrix.ldmatrix_distribute(np.ascontiguousarray(rows).view(np.uint8), trans=True)
    d = matrix.mma("m16n8k16", "f16", "f16", "f32", "f32", a, b, filled(4, 0))
    product = left.astype(np.float32) @ right.astype(np.float32)
    for i, register in enumerate(d):
        for lane in range(32):
            row, column = c_place("m16n8k16", "f16", "f32", lane, i)
            assert register.view(np.float32)[0, lane] == product[row, column]
