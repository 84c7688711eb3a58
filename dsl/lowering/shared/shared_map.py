"""Describes byte offsets in shared tiles as linear maps over F2, applies swizzles, and counts bank conflicts.

If a tile is a ring of stages, byte offsets count from the start of the stage. Otherwise, they count from the start of
the tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import SharedType
from dsl.lowering.known.affine import AffineOffsets, free_of_carries
from dsl.lowering.known.facts import ANY, Analysis, power_of_two_divisor
from dsl.lowering.known.forms import linear
from dsl.lowering.layouts.layout import BasisSpan, Layout
from dsl.lowering.ops import operand, space_of
from dsl.lowering.ops.memory import by_threads, writes
from dsl.lowering.shared.access_width import access_width, stage_bytes

Swizzle = tuple[tuple[int, int], ...]

BANKS = 128  # bytes that one pass over the banks serves: 32 banks of 4
WORD = 4


def swizzled(offset: int, swizzle: Swizzle) -> int:
    """Applies a swizzle to a byte offset."""
    for bit, mask in swizzle:
        if offset >> bit & 1:
            offset ^= mask
    return offset


def row_swizzle(width: int) -> Swizzle:
    """Returns the swizzle that TMA and wgmma apply to rows of `width` bytes (PTX ISA, "Swizzling Modes"). If `width` is
    not 32, 64 or 128, the result is empty."""
    # The swizzle permutes the 16-byte pieces of each row. An access to one column of eight rows then uses all banks.
    return tuple((7 + i, 16 << i) for i in range((width // 16).bit_length() - 1)) if width in (32, 64, 128) else ()


class SharedMap(Struct, frozen=True):
    """Byte offsets of the elements of one access, before the swizzle.

    Each bit of the register, lane and warp numbers has a base. The offset of an element is the XOR of `constant` and
    the bases of all set bits, plus the sum of `terms`. Each term is a scalar times a factor. `aligned` is a power of
    two that divides the sum of the terms.
    """

    register: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]
    constant: int
    terms: tuple[tuple[Value, int], ...]
    aligned: int

    @property
    def thread(self) -> tuple[int, ...]:
        return self.lane + self.warp

    def all_multiples(self, size: int, *bases: int) -> bool:
        """Whether the bases, the constant and the terms are multiples of `size`."""
        return not any(b % size for b in (*bases, self.constant, self.aligned))


class SharedMaps:
    """Computes the `SharedMap` of each access of one function."""

    def __init__(self, analysis: Analysis):
        self.analysis = analysis
        self.affines = AffineOffsets()

    def of(self, op: Op, layout: Layout | None) -> SharedMap | None:
        """Returns the map of an access to a shared tile. `layout` is the layout of the accessed elements in registers.
        Returns None if the map is not linear."""
        memory, offset, stage = op.operands[0], operand(op, "offset"), operand(op, "stage")
        assert offset is not None and isinstance(memory.type, SharedType)
        affine = self.affines.of(offset)
        if affine is None or layout is None or not free_of_carries(affine, layout.shape):
            return None
        size = memory.dtype.bytes
        # The order is fixed, because compilation must be deterministic across processes.
        in_order = sorted(affine.terms, key=lambda term: self.affines.ranks[term[0]])
        terms = {self.affines.scalars[name]: factor * size for name, factor in in_order}
        constant = affine.constant * size
        if stage is not None and not memory.type.ring:
            scalars, number = linear(stage)
            constant += number * stage_bytes(memory.type)
            for value, factor in scalars.items():
                terms[value] = terms.get(value, 0) + factor * stage_bytes(memory.type)
        reached = sum(c * (e - 1) for c, e in zip(affine.coefficients, layout.shape, strict=True)) * size
        # The map XORs the constant with the contributions of thread bits and register bits. XOR equals the sum only if
        # no bit of the constant is also a bit of the contributions.
        if constant < 0 or constant & reached:
            return None
        aligned = min((self.divisor(v) * power_of_two_divisor(f) for v, f in terms.items()), default=ANY)

        moved = iter(layout.weighed(tuple(c * size for c in affine.coefficients)))
        register, lane, warp = (tuple(islice(moved, len(bases))) for _, bases in layout.places)
        return SharedMap(register, lane, warp, constant, tuple(terms.items()), min(aligned, ANY))

    def divisor(self, value: Value) -> int:
        return self.analysis.of(value).every


def matrix_lanes(op: Op, map: SharedMap) -> tuple[int, ...]:
    """Returns the number of bytes that each lane bit adds to the row address of an `ldmatrix` or `stmatrix`. The bits
    that select the row come first, then the bits that select the matrix."""
    matrices = (*matrix_registers(op, map), 0, 0)[:2]
    if not op.attrs["trans"]:
        return (*map.lane[2:], *matrices)
    last = map.lane[1] ^ (matrices[0] if is_crossed(op, map) else 0)
    return (map.register[0], map.lane[0], last, *matrices)


def has_pairs(op: Op) -> bool:
    """Whether `ldmatrix.trans` moves bytes in pairs: two pairs, one of each of two matrices, form a word of a lane."""
    return bool(op.attrs["trans"]) and op.operands[0].dtype.bytes == 1


def is_crossed(op: Op, map: SharedMap) -> bool:
    """Whether lanes with bit 1 get their second pair from the first matrix.

    Otherwise, if the four bytes of a word lie in neighbouring rows, the eight rows of a matrix would be 0, 1, 4, 5, 8,
    9, 12 and 13, which the swizzles of TMA put into four different places: two passes over the banks. Now they are 0,
    1, 4, 5, 10, 11, 14 and 15. In fragments of 16-bit elements, the rows of a matrix are neighbours anyway."""
    return has_pairs(op) and map.lane[0] != 2 * map.register[0]


def matrix_registers(op: Op, map: SharedMap) -> tuple[int, ...]:
    """Returns the bases of the register bits that count matrices."""
    # `ldmatrix.trans` moves pairs of bytes. A transposed matrix of bytes therefore fills half of each of two words. The
    # register bit that moves by one byte selects the word.
    if has_pairs(op):
        return tuple(b for b in map.register[1:] if b != 1)
    return map.register[word_bits(op) :]


def word_bits(op: Op) -> int:
    """Returns the number of register bits that count the elements of one 32-bit word."""
    return (WORD // op.operands[0].dtype.bytes).bit_length() - 1


# ---- banks --------------------------------------------------------------------------------------------------------


class Phase(Struct, frozen=True):
    """The lanes that shared memory serves together. `lanes` contains the byte offset that each lane bit adds. `bytes`
    is the number of bytes that each lane accesses."""

    lanes: tuple[int, ...]
    bytes: int

    def passes(self, swizzle: Swizzle) -> int:
        """Returns the number of passes over the banks that the phase needs. It is the greatest number of accessed words
        in one bank."""
        # The offsets are linear over F2, so each used bank has the same number of words: 2^(rank of words - rank of
        # banks).
        inside = [WORD << i for i in range((self.bytes // WORD).bit_length() - 1)]
        moved = [swizzled(b, swizzle) & -WORD for b in self.lanes]
        words, banks = BasisSpan(inside), BasisSpan(inside)
        for vector in moved:
            words.add(vector)
            banks.add(vector % BANKS)
        return 1 << words.rank - banks.rank


def lanes_together(size: int) -> int:
    """Returns the binary logarithm of the number of lanes in one `Phase`, if each lane accesses `size` bytes."""
    # A pass over the banks serves 128 bytes: 8 lanes of 16 bytes, or 16 lanes of 8 bytes. If the lanes access fewer
    # bytes, a pass serves the whole warp.
    return {16: 3, 8: 4}.get(size, 5)


def access_layout_of(op: Op) -> Layout | None:
    """Returns the layout of the value that an access moves."""
    moved = op.results[0] if op.results else operand(op, "source") if op.spec.in_flight else operand(op, "value")
    assert moved is not None
    return moved.tile.layout


def access_bytes(analysis: Analysis, op: Op) -> int:
    """Returns the number of bytes that one instruction of an access moves for one lane."""
    memory = op.operands[0]
    if op.spec.joint:
        return 16
    width = 1 if op.spec.access.kind == "update" else access_width(analysis, op)
    return width * memory.dtype.bytes


def phase_of(analysis: Analysis, op: Op, map: SharedMap) -> Phase:
    """Returns one `Phase` of an access. All other phases differ only in their offsets."""
    size = access_bytes(analysis, op)
    lanes = matrix_lanes(op, map) if op.spec.joint else map.lane
    lanes = lanes[: lanes_together(size)]
    layout = access_layout_of(op)
    if writes(op) and not op.spec.joint and layout is not None:  # one lane stores for all lanes that have the element
        free = layout.replicated["lane"]
        lanes = tuple(b for i, b in enumerate(lanes) if not free >> i & 1)
    return Phase(lanes, size)


def shared_accesses(ops: Iterable[Op]) -> Iterator[Op]:
    """Yields the accesses of threads to shared tiles. Accesses by wgmma are not included."""
    for op in ops:
        if by_threads(op) and space_of(op.operands[0]) == "shared":
            yield op


def conflicts(maps: SharedMaps, op: Op) -> int | None:
    """Returns the number of extra passes over the banks for each `Phase` of an access. Returns None if the number
    depends on data or masks."""
    memory, offset = op.operands[0], operand(op, "offset")
    assert offset is not None and isinstance(memory.type, SharedType)
    layout = access_layout_of(op)
    if not offset.tile.shape:
        return 0
    mask = operand(op, "mask")
    # A mask removes lanes from a `Phase`, so the computed number would be too high. In a masked copy all lanes take
    # part, because masked lanes write zeros.
    if not op.spec.in_flight and mask is not None and constant_of(mask) is not True:
        return None
    map = maps.of(op, layout)
    swizzle = memory.type.swizzle
    if map is not None and (not swizzle or map.aligned >= period(swizzle)):
        return phase_of(maps.analysis, op, map).passes(swizzle) - 1
    return None


MOST_ALIGNMENT = 1024
"""The alignment of a block's shared memory, even if `.align` is greater. On an H200 (driver 580) shared memory starts
at 0x400, even with `.align 2048`."""


def period(swizzle: Swizzle) -> int:
    """Returns the number of bytes after which a swizzle repeats."""
    return max((2 << bit for bit, _ in swizzle), default=1)
