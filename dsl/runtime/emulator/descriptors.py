"""Where a `wgmma` finds an operand in shared memory: PTX ISA, "Shared Memory Matrix Layout" and "Matrix Descriptor".

A descriptor has a start, two distances and a swizzle. An instruction reads 32 bytes along K of each row, 16 bytes at a
time, a *chunk*. Rows lie in groups of eight. A row has `width` bytes: 16, or the span of the swizzle.

- K along the rows: chunk c of row r is r % 8 · width + r / 8 · stride + 16 c behind the start; without a swizzle chunks
  are `leading` apart, in place of 16.
- Rows across (16 bits, with a swizzle): row r of k lies with its neighbours, r % (width / 2) · 2 + r / (width / 2) ·
  leading + k % 8 · width + k / 8 · stride behind the start.

A swizzle XORs bits 7, 8 and 9 of the address, as many as it has, into bits 4, 5 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

CHUNK = 16
# Bytes along K that one instruction reads of each row.
STEP = 32
# By mode of the descriptor, the address bits of its swizzle: none, of 128, 64 and 32 bytes.
BITS = {0: 0, 1: 3, 2: 2, 3: 1}
# 14 bits in units of 16 bytes: the 18 bits of a shared address that a descriptor holds.
ADDRESS = (1 << 14) - 1


class Unfit(Exception):
    """Why a descriptor has no meaning for the emulator."""


@dataclass(frozen=True)
class Pattern:
    """The layout of all operands whose descriptors differ in the start only. chunks: offsets in bytes, [rows, 2] if K
    lies along the rows, else [16, rows / 8]. bits: of the swizzle."""

    chunks: Any
    bits: int

    def addresses(self, starts: Any, chunks: Any) -> Any:
        """[starts, chunks]: addresses of some of the chunks."""
        found = starts[:, None] + chunks
        return found ^ ((found >> 7 & (1 << self.bits) - 1) << 4)


def starts_of(descriptors: Any) -> Any:
    """Start addresses in shared memory."""
    return (descriptors & np.uint64(ADDRESS)).astype(np.int64) << 4


def rest_of(descriptors: Any) -> Any:
    """The descriptors without their starts."""
    return descriptors & ~np.uint64(ADDRESS)


@lru_cache(maxsize=256)
def pattern(rest: int, rows: int, across: bool) -> Pattern:
    """The layout of an operand with this many rows. `across`: rows are neighbours in memory. Raises Unfit."""
    # PTX ISA, "Matrix Descriptor": distances are in units of 16 bytes, from bits 16 and 32 on.
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
    """Raises Unfit for a start that the emulator does not know. If K lies along the rows, an operand may begin in any
    row of a tile, at a step of 32 bytes, since the swizzle depends on addresses. Across, it begins in the first row of
    eight.

    An H100 reads 64 rows from each row of three swizzles on, and with 8 to 26 rows from eight to the next eight. All of
    3,192 such operands are right with no base offset, and 2,508 wrong with that of their first row.
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
