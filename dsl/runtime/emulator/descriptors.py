"""Computes the layout of `wgmma` operands in shared memory (PTX ISA, "Shared Memory Matrix Layout" and "Matrix
Descriptor").

A descriptor contains a start address, two distances (`leading` and `stride`) and a swizzle. An instruction reads 32
bytes along K from each row, as two *chunks* of 16 bytes. Rows form groups of eight. A row has `width` bytes: 16 without
a swizzle, else the 32, 64 or 128 bytes of the swizzle.

- If `across` is false, the elements of a row are neighbours in memory (K-major). Chunk c of row r has the offset r % 8
  · width + r / 8 · stride + 16 c from the start. Without a swizzle, chunks are `leading` bytes apart instead of 16.
- If `across` is true, elements of neighbouring rows are neighbours in memory. This layout exists only for 16-bit
  elements with a swizzle. Element k of row r has the offset r % (width / 2) · 2 + r / (width / 2) · leading + k % 8 ·
  width + k / 8 · stride from the start.

A swizzle of n bits (1 to 3) XORs n address bits, starting at bit 7, into the n bits that start at bit 4.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from msgspec import Struct

CHUNK = 16
# Number of bytes along K that one instruction reads from each row.
STEP = 32
# Number of address bits that a swizzle XORs, by the swizzle mode of the descriptor. Mode 0 is no swizzle. Modes 1, 2
# and 3 are swizzles of 128, 64 and 32 bytes.
BITS = {0: 0, 1: 3, 2: 2, 3: 1}
# Mask of the address field of a descriptor. The field's 14 bits count units of 16 bytes, so the field can contain a
# shared address of 18 bits.
ADDRESS = (1 << 14) - 1


class Unfit(Exception):
    """Raised for a descriptor that the emulator does not support. The message states why."""


class Pattern(Struct, frozen=True):
    """The layout of an operand, without its start address. `chunks` contains the offsets of the chunks in bytes, as an
    array [rows, 2], or [16, rows / 8] if `across` is true. `bits` is the number of address bits that the swizzle
    XORs."""

    chunks: Any
    bits: int

    def addresses(self, starts: Any, chunks: Any) -> Any:
        """Returns the addresses of the chunks for each start address, [starts, chunks]. `chunks` contains offsets in
        bytes."""
        found = starts[:, None] + chunks
        return found ^ ((found >> 7 & (1 << self.bits) - 1) << 4)


def starts_of(descriptors: Any) -> Any:
    """Returns the start addresses in shared memory that the descriptors contain."""
    return (descriptors & np.uint64(ADDRESS)).astype(np.int64) << 4


def rest_of(descriptors: Any) -> Any:
    """Returns the descriptors with their start addresses set to 0."""
    return descriptors & ~np.uint64(ADDRESS)


@lru_cache(maxsize=256)
def pattern(rest: int, rows: int, across: bool) -> Pattern:
    """Returns the layout of an operand with `rows` rows. `rest` is the descriptor without its start address. Raises
    Unfit."""
    # The two distances begin at bits 16 and 32. They are in units of 16 bytes (PTX ISA, "Matrix Descriptor").
    leading, stride = (rest >> 16 & ADDRESS) << 4, (rest >> 32 & ADDRESS) << 4
    mode, base = rest >> 62 & 3, rest >> 49 & 7
    if base:
        raise Unfit(f"has base offset {base}; the emulator knows only tiles at multiples of their swizzle")
    bits = BITS[mode]
    width = CHUNK << bits
    if not across:
        row, chunk = np.arange(rows)[:, None], np.arange(STEP // CHUNK)[None, :]
        return Pattern(row % 8 * width + row // 8 * stride + chunk * (CHUNK if bits else leading), bits)
    if not bits:
        raise Unfit("has no swizzle, and its rows lie across: the emulator knows such operands only with a swizzle")
    k, row = np.arange(STEP // 2)[:, None], np.arange(0, rows, 8)[None, :]
    many = width // 2
    return Pattern(row % many * 2 + row // many * leading + k % 8 * width + k // 8 * stride, bits)


def check_starts(starts: Any, bits: int, across: bool) -> None:
    """Raises Unfit for a start address that the emulator does not support. If `across` is false, an operand may begin
    in any row of a tile, at a multiple of 32 bytes, since the swizzle depends only on addresses. If `across` is true,
    an operand must begin in the first of eight rows.

    A test on an H100 used operands of 64 rows, with each of the three swizzles. Operands began in any row. The distance
    between an operand's groups of eight rows was 8 to 26 rows. With the base offset field set to 0, all 3,192 operands
    were read correctly. With the field set to the number of the first row, 2,508 of them were read incorrectly.
    """
    width = CHUNK << bits
    bad = starts % (8 * width) >= width
    if bits and across and bad.any():
        start = int(starts[np.flatnonzero(bad)[0]])
        raise Unfit(
            f"begins at {start:#x}, in row {start % (8 * width) // width} of the eight that its swizzle of {width} "
            f"bytes counts from a multiple of {8 * width}"
        )
    bad = starts % STEP != 0
    if bits and not across and bad.any():
        start = int(starts[np.flatnonzero(bad)[0]])
        raise Unfit(
            f"begins at {start:#x}, which is no multiple of {STEP}: tiles with its swizzle begin at multiples of "
            f"{8 * width}, and so must their shared memory"
        )
