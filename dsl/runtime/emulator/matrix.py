"""`mma.sync`, `ldmatrix` and `stmatrix` of many warps at once: registers in, registers out.

A register is an array [warps, 32] of uint32, or of uint64 if it holds one f64. A fragment is a list of registers, in
the order of the operand's braces. The maps from (lane, element of the lane) to (row, column) are those of PTX ISA,
"Matrix multiply-accumulate operation using mma instruction", one section for each shape. Tables are built once for a
fragment.

Integers are exact. f64 is a chain of fused multiply-adds from C along ascending k, which equals an H200 to the bit.
Other floats are a bounded model: products are exact, they and C are added in float64 and rounded once, to nearest even,
to the type of D. Hardware adds in another order and precision, which the ISA leaves open.
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
    """`"m16n8k32"` → (16, 8, 32)."""
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


class WarpProduct(NamedTuple):
    """What one warp does in an `mma.sync` or a `wgmma`, whose rows four warps share. products: multiply-adds, counted
    as the 16-bit ones that take as long. Their time is proportional to the width, except that one of f64 takes sixteen
    times as long (989 and 67 TFLOPS, H100 data sheet). operand_bytes: what a `wgmma` reads of shared memory for it."""

    products: int = 0
    operand_bytes: int = 0


NO_PRODUCT = WarpProduct()


def warp_product(opcode: Sequence[str], in_registers: bool = True) -> WarpProduct:
    """in_registers: whether the left operand is in registers."""
    at = next(i for i, word in enumerate(opcode) if word[0] == "m" and word[1:2].isdigit())
    m, n, k = parse_shape(opcode[at])
    types = [word for word in opcode[at + 1 :] if word in _WIDTH or word == "b1"]
    a_type = types[1]
    rows = m // 4 if opcode[0] == "wgmma" else m
    # (times, over) 16-bit multiply-adds for each of this type.
    weights = {"f64": (16, 1), "b1": (1, 16)}
    width = _WIDTH.get(a_type, 16)
    times, over = weights.get(a_type, (width, 16))
    products = rows * n * k * times // over
    if opcode[0] != "wgmma":
        return WarpProduct(products)
    # B is read once for the four warps, so each counts a quarter of it. An instruction of 64 x 256 x 16 takes 83
    # wavefronts on an H200, of which its operands are 80: 10,240 bytes.
    return WarpProduct(products, (n // 4 + (0 if in_registers else rows)) * k * width // 8)


def _is_quad(mnk: tuple[int, int, int], a_type: str) -> bool:
    """mma.m8n8k4 with f16: four products, each by the lanes {4q..4q+3} and {16+4q..16+4q+3} of quad pair q."""
    return mnk == (8, 8, 4) and a_type == "f16"


@cache
def _places(operand: str, rows: int, words: int, per_word: int, layout: str) -> Array:
    """Where register r of each lane lies in an operand of quad pairs: [32, registers] into flat [matrix, row, word].

    `operand` is "a" with rows of A, "b" with columns of B as rows, "c" (C and D) with rows; col for A and row for B
    have K as rows.
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
    """The inverse of `_places`: for each word of the operand, lane * registers + register."""
    places = _places(operand, rows, words, per_word, layout).ravel()
    sources = np.empty(places.size, np.intp)
    sources[places] = np.arange(places.size)
    return sources


def _parts(matrices: Array, operand: str, per_word: int) -> list[Array]:
    """What each register holds of matrices [warps, rows, words], as views [warps, 8, 4] with one element a lane.

    Registers are words: 32 bits, or one f64. All shapes but the quad pairs follow one rule, with groupID = lane / 4,
    threadID_in_group = lane % 4: a word of A or B, or of C with two f16, is at row groupID + 8 i and word
    threadID_in_group + 4 j, registers counted with i fastest; a C of whole words has two at columns
    2 threadID_in_group and the next one, then 8 rows further.
    """
    warps, rows, words = matrices.shape
    if operand == "c" and per_word == 1:
        pairs = matrices.reshape(warps, rows // 8, 8, 4, 2)
        return [pairs[:, i, :, :, half] for i in range(rows // 8) for half in range(2)]
    blocks = matrices.reshape(warps, rows // 8, 8, words // 4, 4)
    return [blocks[:, i, :, j] for j in range(words // 4) for i in range(rows // 8)]


def _quarters(words: Array) -> Array:
    """uint32 [..., 4] as [...] of 16 bytes: numpy copies runs of four words several times slower than such elements."""
    return words.view(np.complex128)[..., 0]


def _gather(registers: Sequence[Array], operand: str, rows: int, words: int, per_word: int, quad: str) -> Array:
    """The words of an operand, [warps * matrices, rows, words]. `quad` is its layout in a quad pair, else empty."""
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


def _operand(registers: Sequence[Array], operand: str, rows: int, columns: int, dtype: str, quad: str) -> Array:
    """The values of an operand, [warps * matrices, rows, columns]."""
    per_word = max(32 // _WIDTH[dtype], 1)
    return _values(_gather(registers, operand, rows, columns // per_word, per_word, quad), dtype)


def _transposed(registers: Sequence[Array], n: int, k: int, dtype: str, quad: str) -> Array:
    """The values of B by rows, [warps * matrices, k, n].

    Elements are moved while they are narrow, since small products are twice as fast with both matrices by rows.
    """
    width = _WIDTH[dtype]
    if width not in (8, 16):
        return _operand(registers, "b", n, k, dtype, quad).swapaxes(1, 2)
    per_word = 32 // width
    elements = _gather(registers, "b", n, k // per_word, per_word, quad).view(f"u{width // 8}")
    return _values(np.ascontiguousarray(elements.swapaxes(1, 2)), dtype)


def _values(words: Array, dtype: str) -> Array:
    """Packed elements as numbers that a matrix product is exact in: float32 for integers, float64 for floats."""
    if dtype == "u8":
        # Sums of up to 2^24 are exact in float32: 255 · 255 · 256 is below that.
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
    """`mma.sync.aligned.<shape>.<a_layout>.<b_layout>.<d_type>.<a_type>.<b_type>.<c_type>`: the registers of D.

    `shape` is text such as "m16n8k16". `saturate` (.satfinite) clamps s32 accumulators, which wrap otherwise. `bit_op`
    is "xor" or "and" for b1. Layouts other than row and col exist for m8n8k4 with f16 only. The forms of
    `legal/machine.py` list the shapes and types.
    """
    m, n, k = mnk = parse_shape(shape)
    quad = _is_quad(mnk, a_type)
    if not quad and (a_layout, b_layout) != ("row", "col"):
        raise ValueError(f"mma.{shape} with {a_type} takes A by row and B by col")
    if a_type == "b1":
        total = _bit_product(mnk, a, b, bit_op)
    else:
        # Only m8n8k4 has other layouts: A by columns is stored with K as rows.
        if quad and a_layout == "col":
            left = _operand(a, "a", k, m, a_type, "col").swapaxes(1, 2)
        else:
            left = _operand(a, "a", m, k, a_type, "row" if quad else "")
        if quad and b_layout == "row":
            right = _operand(b, "b", k, n, b_type, "row")
        else:
            right = _transposed(b, n, k, b_type, "col" if quad else "")
        if d_type == "f64":
            return _deal(_chain(left, right, _operand(c, "c", m, n, c_type, "")), 64, quad)
        total = left @ right
    if d_type == "s32":
        accumulator = _gather(c, "c", m, n, 1, "").view(np.int32)
        if saturate:
            d = np.clip(total.astype(np.int64) + accumulator, -(2**31), 2**31 - 1).astype(np.int32)
        else:
            d = total.astype(np.int32) + accumulator
    else:
        per_word = 32 // _WIDTH[c_type]
        total += _gather(c, "c", m, n // per_word, per_word, "row" if quad else "").view(FORMATS[c_type].storage)
        d = canonicalise(nearest_of_f64(total, d_type), d_type)
    return _deal(d, _WIDTH[d_type], quad)


def _chain(left: Array, right: Array, start: Array) -> Array:
    """start + left @ right in float64, [matrices, m, n], one fused multiply-add after the other."""
    total = start
    for i in range(left.shape[2]):
        total = fma(left[:, :, i, None], right[:, None, i, :], total, "f64")
    return total


def _deal(d: Array, width: int, quad: bool) -> list[Array]:
    """Matrices [warps * matrices, rows, columns] as the registers of D."""
    words, per_word = d.view(np.uint64 if width == 64 else np.uint32), max(32 // width, 1)
    if not quad:
        return [part.reshape(-1, 32) for part in _parts(words, "c", per_word)]
    places = _places("c", words.shape[1], words.shape[2], per_word, "row")
    dealt = words.reshape(-1, places.size).take(places.T.ravel(), axis=1).reshape(-1, places.shape[1], 32)
    return [dealt[:, r].copy() for r in range(places.shape[1])]


def _bit_product(mnk: tuple[int, int, int], a: Sequence[Array], b: Sequence[Array], bit_op: str | None) -> Array:
    """For each row of A and column of B, how many ones `row op column` has."""
    m, n, k = mnk
    if bit_op not in ("xor", "and"):
        raise ValueError(f"mma with b1 takes .xor or .and, not {bit_op!r}")
    combine = np.bitwise_xor if bit_op == "xor" else np.bitwise_and
    left = _gather(a, "a", m, k // 32, 32, "")
    right = _gather(b, "b", n, k // 32, 32, "")
    total = np.zeros((len(left), m, n), np.int32)
    for word in range(k // 32):
        total += np.bitwise_count(combine(left[:, :, None, word], right[:, None, :, word]))
    return total


def ldmatrix_distribute(rows: Array, trans: bool = False) -> list[Array]:
    """`ldmatrix.m8n8.x<num>{.trans}.b16`: the registers, [warps, 32] uint32 each, for the rows that were read.

    `rows` is contiguous, [warps, num, 8, 16] uint8 (or 8 elements of uint16). Lane l gets elements 2 (l % 4) and
    2 (l % 4) + 1 of row l / 4; with `trans`, of column l / 4. PTX ISA, "ldmatrix".
    """
    elements = rows.view(np.uint16).reshape(*rows.shape[:2], 8, 8)
    if trans:
        elements = np.ascontiguousarray(elements.swapaxes(-1, -2))
    words = elements.view(np.uint32).reshape(*rows.shape[:2], 32)
    return [words[:, i].copy() for i in range(rows.shape[1])]


def stmatrix_collect(registers: Sequence[Array], trans: bool = False) -> Array:
    """`stmatrix.m8n8.x<num>{.trans}.b16`: rows to write, [warps, num, 8, 16] uint8.

    The inverse of `ldmatrix_distribute`. PTX ISA, "stmatrix".
    """
    words = np.stack(registers, axis=1)
    elements = words.view(np.uint16).reshape(*words.shape[:2], 8, 8)
    if trans:
        elements = np.ascontiguousarray(elements.swapaxes(-1, -2))
    return elements.view(np.uint8)


# ---- wgmma ----


def values_of(words: Array, dtype: str) -> Array:
    """Packed elements, uint32 [warps, rows, words], as numbers in which a matrix product is exact."""
    return _values(words, dtype)


def values_of_fragment(registers: Sequence[Array], rows: int, columns: int, dtype: str) -> Array:
    """A in registers, [warps, rows, columns]. A warp's 16 rows lie as in `mma.sync`."""
    return _operand(registers, "a", rows, columns, dtype, "")


def products_by_tiles(a: Array, b: Array, which: Array) -> Array:
    """[warps, rows, n]: each warp's rows of A, [warps, rows, k], times its tile of B, selected by `which` from [tiles,
    n, k].

    Neighbouring warps that share a tile are one matrix product: 1024 x 1024 x 1024 by TMA in f16 took 2.77 s without
    that and the kept places of operands, and 1.99 s with them.
    """
    warps, rows, k = a.shape
    together = warps // len(b)
    if (which == np.arange(warps) // together).all():
        return (a.reshape(len(b), together * rows, k) @ b.swapaxes(1, 2)).reshape(warps, rows, -1)
    return a @ b[which].swapaxes(1, 2)


@np.errstate(all="ignore")
def added(products: Array, start: Sequence[Array], keeps: Array, d_type: str, saturate: bool = False) -> list[Array]:
    """`wgmma`: the registers of D, each [warps, 32], of a warp's 16 rows and n columns. keeps: [warps], whether the
    accumulators begin at `start`.

    Accumulators stay in the order of registers, and only products move. For each eight columns, a register has one row
    of four lanes, or the row eight below; each lane has a pair of columns.
    """
    per_word = 2 if d_type == "f16" else 1
    blocks = products.reshape(len(products), 2, 8, -1, 4, 2)  # half, row, eight columns, pair, of the pair
    order = (3, 1, 0, 2, 4, 5) if per_word == 2 else (3, 1, 5, 0, 2, 4)
    total = blocks.transpose(order).reshape(len(start), len(products), 32 * per_word)
    words = np.stack([each.view(np.uint32) for each in start])
    if not keeps.all():
        words *= keeps[:, None].astype(np.uint32)
    if d_type == "s32":
        before = words.view(np.int32)
        if saturate:
            d = np.clip(total.astype(np.int64) + before, -(2**31), 2**31 - 1).astype(np.int32)
        else:
            d = total.astype(np.int32)
            d += before
    else:
        total += words.view(FORMATS[d_type].storage)
        d = canonicalise(nearest_of_f64(total, d_type), d_type)
    return list(d.view(np.uint32))
