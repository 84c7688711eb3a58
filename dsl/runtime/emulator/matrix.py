"""Computes `mma.sync`, `ldmatrix`, `stmatrix` and `wgmma` for many warps at once, on arrays of registers.

A register is an array [warps, 32] of uint32. If each element is one f64, a register is an array of uint64. A fragment
is a list of registers, in the order of the operand's braces. The PTX ISA states, for each shape, which element of which
lane is at which row and column ("Matrix multiply-accumulate operation using mma instruction"). Tables of these
positions are built once and cached.

Integer results are exact. An f64 result is a chain of fused multiply-adds. It starts with C and adds the products in
ascending k, which gives the same bits as an H200. Results of other float types have a bounded error. Their products are
exact. The products and C are added in float64, and the sum is rounded once, to nearest even, to the type of D. Hardware
adds in another order and with another precision. The ISA leaves both open.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from .formats import FORMATS, Array, canonicalise, nearest_of_f64, to_f64
from .numerics import fma

_WIDTH = {"f64": 64, "f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8}
_WIDTH |= {"s8": 8, "u8": 8, "s4": 4, "u4": 4}
_NIBBLES, _FP8 = ("s4", "u4"), ("e4m3", "e5m2")


def parse_shape(shape: str) -> tuple[int, int, int]:
    """Parses a shape: `"m16n8k32"` becomes (16, 8, 32)."""
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


class WarpProduct(NamedTuple):
    """The work of one warp in an `mma.sync` or a `wgmma`. In a `wgmma`, each of the four warps computes a quarter of
    the rows.

    `products` counts multiply-adds in units of one 16-bit multiply-add. A multiply-add of 8-bit operands counts 1/2,
    and one of 32-bit operands counts 2, because its time is proportional to the operands' width. An f64 multiply-add
    counts 16 (989 and 67 TFLOPS, H100 data sheet). `operand_bytes` is the number of bytes that a `wgmma` reads from
    shared memory for the warp.
    """

    products: int = 0
    operand_bytes: int = 0


NO_PRODUCT = WarpProduct()


def warp_product(opcode: Sequence[str], in_registers: bool = True) -> WarpProduct:
    """Returns the work of one warp in the instruction `opcode`. `in_registers` states whether the operand A is in
    registers."""
    at = next(i for i, word in enumerate(opcode) if word[0] == "m" and word[1:2].isdigit())
    m, n, k = parse_shape(opcode[at])
    types = [word for word in opcode[at + 1 :] if word in _WIDTH or word == "b1"]
    a_type = types[1]
    rows = m // 4 if opcode[0] == "wgmma" else m
    # A multiply-add of the type counts as times / over 16-bit multiply-adds.
    weights = {"f64": (16, 1), "b1": (1, 16)}
    width = _WIDTH.get(a_type, 16)
    times, over = weights.get(a_type, (width, 16))
    products = rows * n * k * times // over
    if opcode[0] != "wgmma":
        return WarpProduct(products)
    # B is read once for the four warps, so each warp counts a quarter of B. An instruction of 64 x 256 x 16 takes 83
    # wavefronts on an H200. Its operands of 10,240 bytes take 80 of these wavefronts.
    return WarpProduct(products, (n // 4 + (0 if in_registers else rows)) * k * width // 8)


def _is_quad(mnk: tuple[int, int, int], a_type: str) -> bool:
    """Returns whether the instruction is mma.m8n8k4 with f16. It computes four separate products. The lanes 4q to 4q+3
    and 16+4q to 16+4q+3, called a quad pair, compute product q."""
    return mnk == (8, 8, 4) and a_type == "f16"


@cache
def _places(operand: str, rows: int, words: int, per_word: int, layout: str) -> Array:
    """Computes the positions of each lane's registers in an operand of mma.m8n8k4 with f16. Returns an array [32,
    registers] of indices into the flattened array [matrix, row, word].

    `operand` is "a", "b" or "c" (C and D). The axis `row` counts rows of A, C and D, and columns of B. If A has the
    layout col, or B the layout row, the axis runs along K instead.
    """
    lane, r = np.arange(32)[:, None], np.arange(rows * words * 4 // 32)[None, :]
    upper = np.where(lane < 16, 0, 4)
    if operand == "c" and per_word == 1:
        row, word = (lane & 1) + (r & 2) + upper, (r & 4) + (lane & 2) + (r & 1)
    elif operand + layout in ("acol", "brow"):
        row, word = lane % 4, r + upper // 2
    else:
        row, word = lane % 4 + upper, r
    return (lane % 16 // 4 * rows + row) * words + word


@cache
def _sources(operand: str, rows: int, words: int, per_word: int, layout: str) -> Array:
    """Computes the inverse of `_places`. Each entry is the index lane * registers + register of one word of the
    operand."""
    places = _places(operand, rows, words, per_word, layout).ravel()
    sources = np.empty(places.size, np.intp)
    sources[places] = np.arange(places.size)
    return sources


def _parts(matrices: Array, operand: str, per_word: int) -> list[Array]:
    """Splits matrices [warps, rows, words] into one view for each register of a lane. Each view has one word for each
    lane, as an array [warps, 8, 4].

    A word has 32 bits, or is one f64. All shapes except the quad pairs have one layout, with groupID = lane / 4 and
    threadID_in_group = lane % 4. A word of A or B, or of C with two f16, is at row groupID + 8 i and word
    threadID_in_group + 4 j. Successive registers of a lane count i first, then j. If a word of C is one element, a
    lane's first two registers are the columns 2 threadID_in_group and 2 threadID_in_group + 1. The next two registers
    are 8 rows below.
    """
    warps, rows, words = matrices.shape
    if operand == "c" and per_word == 1:
        pairs = matrices.reshape(warps, rows // 8, 8, 4, 2)
        return [pairs[:, i, :, :, half] for i in range(rows // 8) for half in range(2)]
    blocks = matrices.reshape(warps, rows // 8, 8, words // 4, 4)
    return [blocks[:, i, :, j] for j in range(words // 4) for i in range(rows // 8)]


def _quarters(words: Array) -> Array:
    """Views uint32 [..., 4] as an array [...] of 16-byte elements. numpy copies one such element several times faster
    than a run of four words."""
    return words.view(np.complex128)[..., 0]


def _gather(registers: Sequence[Array], operand: str, rows: int, words: int, per_word: int, quad: str) -> Array:
    """Collects an operand's words from its registers, as [warps * matrices, rows, words]. `quad` is "row" or "col", the
    operand's layout, for mma.m8n8k4 with f16. For other shapes `quad` is empty."""
    if quad:
        packed = np.stack(registers, axis=-1)
        table = _sources(operand, rows, words, per_word, quad)
        return packed.reshape(len(packed), -1).take(table, axis=1).reshape(-1, rows, words)
    matrices = np.empty((len(registers[0]), rows, words), registers[0].dtype)
    for part, register in zip(_parts(matrices, operand, per_word), registers, strict=True):
        values = np.ascontiguousarray(register).reshape(-1, 8, 4)
        if part.strides[-1] == 4:
            _quarters(part)[...] = _quarters(values)
        else:
            part[...] = values
    return matrices


def values_of_registers(
    registers: Sequence[Array], operand: str, rows: int, columns: int, dtype: str, quad: str = ""
) -> Array:
    """Returns the values of an operand as [warps * matrices, rows, columns]. If the operand A of a `wgmma` is in
    registers, each warp has 16 rows of it, in the layout of `mma.sync`."""
    per_word = max(32 // _WIDTH[dtype], 1)
    return values_of(_gather(registers, operand, rows, columns // per_word, per_word, quad), dtype)


def _transposed(registers: Sequence[Array], n: int, k: int, dtype: str, quad: str) -> Array:
    """Returns the values of B in row-major order, [warps * matrices, k, n].

    numpy multiplies small matrices twice as fast if both are row-major. B is transposed before its elements are
    widened.
    """
    width = _WIDTH[dtype]
    if width not in (8, 16):
        return values_of_registers(registers, "b", n, k, dtype, quad).swapaxes(1, 2)
    per_word = 32 // width
    elements = _gather(registers, "b", n, k // per_word, per_word, quad).view(f"u{width // 8}")
    return values_of(np.ascontiguousarray(elements.swapaxes(1, 2)), dtype)


def values_of(words: Array, dtype: str) -> Array:
    """Unpacks elements to a type in which their products are exact: float32 for integers, float64 for floats."""
    if dtype == "u8":
        # Sums of up to 2^24 are exact in float32. 255 · 255 · 256 is less than 2^24.
        return words.view(np.uint8).astype(np.float32)
    if dtype == "s8":
        return words.view(np.int8).astype(np.float32)
    if dtype in _NIBBLES:
        pairs = words.view(np.uint8 if dtype == "u4" else np.int8)
        four = pairs.dtype.type(4)
        values = np.empty((*pairs.shape, 2), np.float32)
        values[..., 0] = (pairs << four) >> four
        values[..., 1] = pairs >> four
        return values.reshape(*pairs.shape[:-1], -1)
    if dtype == "tf32":
        return (words & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if dtype in _FP8:
        return to_f64(words.view(np.uint8), dtype)
    return to_f64(words.view(FORMATS[dtype].storage), dtype)


@np.errstate(all="ignore")
def mma(
    shape: str,
    a_type: str,
    b_type: str,
    c_type: str,
    d_type: str,
    a: Sequence[Array],
    b: Sequence[Array],
    c: Sequence[Array],
    *,
    saturate: bool = False,
    bit_op: str | None = None,
    a_layout: str = "row",
    b_layout: str = "col",
) -> list[Array]:
    """Computes `mma.sync.aligned.<shape>.<a_layout>.<b_layout>.<d_type>.<a_type>.<b_type>.<c_type>`. Returns the
    registers of D.

    `shape` is text such as "m16n8k16". `saturate` (.satfinite) clamps s32 results, which wrap otherwise. `bit_op` is
    "xor" or "and" for b1. Only m8n8k4 with f16 has other layouts than row for A and col for B. `legal/machine.py` lists
    the legal shapes and types.
    """
    m, n, k = mnk = parse_shape(shape)
    quad = _is_quad(mnk, a_type)
    if a_type == "b1":
        total = _bit_product(mnk, a, b, bit_op)
    else:
        # Only m8n8k4 has other layouts. If A has the layout col, its stored rows run along K.
        if quad and a_layout == "col":
            left = values_of_registers(a, "a", k, m, a_type, "col").swapaxes(1, 2)
        else:
            left = values_of_registers(a, "a", m, k, a_type, "row" if quad else "")
        if quad and b_layout == "row":
            right = values_of_registers(b, "b", k, n, b_type, "row")
        else:
            right = _transposed(b, n, k, b_type, "col" if quad else "")
        if d_type == "f64":
            return _deal(_chain(left, right, values_of_registers(c, "c", m, n, c_type, "")), 64, quad)
        total = left @ right
    per_word = 32 // _WIDTH[c_type]
    start = _gather(c, "c", m, n // per_word, per_word, "row" if quad else "")
    return _deal(_accumulated(total, start, c_type, d_type, saturate), _WIDTH[d_type], quad)


def _accumulated(total: Array, start: Array, c_type: str, d_type: str, saturate: bool) -> Array:
    """Adds the products `total` to the accumulators and returns the sum. `start` has the accumulators' register words.
    `total` may be overwritten."""
    if d_type != "s32":
        total += start.view(FORMATS[c_type].storage)
        return canonicalise(nearest_of_f64(total, d_type), d_type)
    if saturate:
        return np.clip(total.astype(np.int64) + start.view(np.int32), -(2**31), 2**31 - 1).astype(np.int32)
    d = total.astype(np.int32)
    d += start.view(np.int32)
    return d


def _chain(left: Array, right: Array, start: Array) -> Array:
    """Returns start + left @ right in float64, [matrices, m, n], as a chain of fused multiply-adds."""
    total = start
    for i in range(left.shape[2]):
        total = fma(left[:, :, i, None], right[:, None, i, :], total, "f64")
    return total


def _deal(d: Array, width: int, quad: bool) -> list[Array]:
    """Converts matrices [warps * matrices, rows, columns] to the registers of D."""
    words, per_word = d.view(np.uint64 if width == 64 else np.uint32), max(32 // width, 1)
    if not quad:
        return [part.reshape(-1, 32) for part in _parts(words, "c", per_word)]
    places = _places("c", words.shape[1], words.shape[2], per_word, "row")
    dealt = words.reshape(-1, places.size).take(places.T.ravel(), axis=1).reshape(-1, places.shape[1], 32)
    return [dealt[:, r].copy() for r in range(places.shape[1])]


def _bit_product(mnk: tuple[int, int, int], a: Sequence[Array], b: Sequence[Array], bit_op: str | None) -> Array:
    """Counts the set bits of `row op column` for each row of A and each column of B."""
    m, n, k = mnk
    combine = np.bitwise_xor if bit_op == "xor" else np.bitwise_and
    left = _gather(a, "a", m, k // 32, 32, "")
    right = _gather(b, "b", n, k // 32, 32, "")
    total = np.zeros((len(left), m, n), np.int32)
    for word in range(k // 32):
        total += np.bitwise_count(combine(left[:, :, None, word], right[:, None, :, word]))
    return total


def ldmatrix_distribute(rows: Array, trans: bool = False) -> list[Array]:
    """Computes `ldmatrix.m8n8.x<num>{.trans}.b16`. Converts the rows that were read from memory to registers, each
    [warps, 32] of uint32.

    `rows` is a contiguous array [warps, num, 8, 16] of uint8, or [warps, num, 8, 8] of uint16. Lane l gets elements 2
    (l % 4) and 2 (l % 4) + 1 of row l / 4. With `trans`, lane l gets these elements of column l / 4 (PTX ISA,
    "ldmatrix").
    """
    elements = rows.view(np.uint16).reshape(*rows.shape[:2], 8, 8)
    if trans:
        elements = np.ascontiguousarray(elements.swapaxes(-1, -2))
    words = elements.view(np.uint32).reshape(*rows.shape[:2], 32)
    return [words[:, i].copy() for i in range(rows.shape[1])]


def stmatrix_collect(registers: Sequence[Array], trans: bool = False) -> Array:
    """Computes `stmatrix.m8n8.x<num>{.trans}.b16`, the inverse of `ldmatrix_distribute` (PTX ISA, "stmatrix"). Returns
    the rows to write to memory, [warps, num, 8, 16] of uint8."""
    words = np.stack(registers, axis=1)
    elements = words.view(np.uint16).reshape(*words.shape[:2], 8, 8)
    if trans:
        elements = np.ascontiguousarray(elements.swapaxes(-1, -2))
    return elements.view(np.uint8)


# ---- wgmma ----


def products_by_tiles(a: Array, b: Array, which: Array) -> Array:
    """Multiplies each warp's rows of A, [warps, rows, k], by a tile of B, [tiles, n, k]. `which` has the index of each
    warp's tile. The result is [warps, rows, n].

    Neighbouring warps with the same tile are computed as one matrix product. This, and a cache of operand positions,
    reduced the time of a 1024 x 1024 x 1024 f16 product with TMA from 2.77 s to 1.99 s.
    """
    warps, rows, k = a.shape
    together = warps // len(b)
    if (which == np.arange(warps) // together).all():
        return (a.reshape(len(b), together * rows, k) @ b.swapaxes(1, 2)).reshape(warps, rows, -1)
    return a @ b[which].swapaxes(1, 2)


@np.errstate(all="ignore")
def added(products: Array, start: Sequence[Array], keeps: Array, d_type: str, saturate: bool = False) -> list[Array]:
    """Adds the `products` of a `wgmma` to the accumulators. Returns the registers of D, each [warps, 32].

    `products` has 16 rows and n columns for each warp. `start` has the accumulators' registers. `keeps` has one bool
    for each warp: if it is false, the warp's accumulators start at 0 instead. The accumulators stay in register order,
    and only the products are reordered. In each group of eight columns, a register holds rows 0 to 7 or rows 8 to 15.
    Four lanes share a row, and each lane holds two adjacent columns.
    """
    per_word = 2 if d_type == "f16" else 1
    blocks = products.reshape(len(products), 2, 8, -1, 4, 2)  # axes 1 to 5: half, row, eight columns, pair, element
    order = (3, 1, 0, 2, 4, 5) if per_word == 2 else (3, 1, 5, 0, 2, 4)
    total = blocks.transpose(order).reshape(len(start), len(products), 32 * per_word)
    words = np.stack([each.view(np.uint32) for each in start])
    if not keeps.all():
        words *= keeps[:, None].astype(np.uint32)
    return list(_accumulated(total, words, d_type, d_type, saturate).view(np.uint32))
