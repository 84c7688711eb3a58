"""Computes the picture of a shared tile: which banks hold its elements, and which banks each access touches."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.ir.function import Function, Op, Value, walk
from dsl.lowering.ir.types import SharedType
from dsl.lowering.known.facts import facts_of
from dsl.lowering.layouts.layout import apply
from dsl.lowering.ops.memory import writes
from dsl.lowering.shared.access_width import stage_bytes
from dsl.lowering.shared.shared_map import (
    BANKS,
    WORD,
    SharedMaps,
    access_bytes,
    access_layout_of,
    conflicts,
    lanes_together,
    phase_of,
    shared_accesses,
    swizzled,
)
from dsl.pictures.names import AXES, coordinates, line_of

MOST_LINES = 8
"""The maximum number of lines in a picture. A line is 128 bytes."""


class DrawnTouch(Struct, frozen=True):
    """The access of one lane: the lane's number, and the byte offset in a stage."""

    lane: int
    offset: int


class DrawnAccess(Struct, frozen=True):
    """A kind of access to shared memory: its operation, its line in the kernel, the bytes per lane, and how many
    operations are of this kind.

    A phase is a group of lanes that shared memory serves together. `beyond` is the number of passes over the banks in a
    phase, minus the one pass that is always needed. It is None if the number of passes is unknown. `touches` holds the
    lanes of the phase that begins at offset 0. The offsets of all other phases differ from these by an XOR. `touches`
    is empty if the offsets depend on data."""

    name: str
    line: int
    bytes: int
    beyond: int | None
    touches: tuple[DrawnTouch, ...]
    count: int = 1

    @property
    def passes(self) -> tuple[tuple[tuple[int, str], ...], ...]:
        """The passes over the banks. Each pass is a tuple of (bank, lanes), in the order of the banks. In a pass, a
        bank serves one word to all lanes that access this word."""
        words: dict[int, list[int]] = {}
        for touch in self.touches:
            for byte in range(touch.offset // WORD * WORD, touch.offset + self.bytes, WORD):
                # Lanes that read the same word are served together, so the word counts once.
                words.setdefault(byte, []).append(touch.lane)
        queue: dict[int, list[str]] = {}
        # The words are sorted by lane, so that the lanes of each pass are in order.
        for byte, lanes in sorted(words.items(), key=lambda item: (item[1], item[0])):
            # A bank serves one word per pass.
            queue.setdefault(byte % BANKS // WORD, []).append(ranges(lanes))
        deepest = max(map(len, queue.values()), default=0)
        return tuple(
            tuple((bank, waiting[i]) for bank, waiting in sorted(queue.items()) if i < len(waiting))
            for i in range(deepest)
        )

    @property
    def group(self) -> int:
        """The number of banks that the access of one lane covers."""
        return max(1, self.bytes // WORD)

    @property
    def rows(self) -> list[dict[int, str]]:
        """The passes over the banks. Each pass maps the first bank of a lane's access to the lanes that are served."""
        return [{bank: lanes for bank, lanes in row if bank % self.group == 0} for row in self.passes]

    @property
    def heads(self) -> dict[int, str]:
        """Maps the first bank of each lane's access to the name of all its banks, for example 4 to "4-7"."""
        return {bank: bank_name(bank, self.group) for bank in range(0, BANKS // WORD, self.group)}

    @property
    def verdict(self) -> str:
        if self.beyond is None:
            return "unknown: a mask or data decides where lanes access"
        return "no conflict" if self.beyond == 0 else f"{self.beyond + 1} passes, {self.beyond} by conflicts"


class SharedPicture(Struct, frozen=True):
    """The picture of a shared tile. A line shows 128 bytes, which are divided into units of `unit` bytes."""

    type: SharedType
    unit: int
    accesses: tuple[DrawnAccess, ...]

    @property
    def lines(self) -> list[list[tuple[int, ...]]]:
        """For each line, the coordinates of the first element in each unit, up to the period of the swizzle.
        Coordinates are relative to a stage."""
        swizzle, size = self.type.swizzle, self.type.dtype.bytes
        # The pattern of a swizzle repeats beyond the highest address bit that the swizzle reads.
        period = max((2 << bit for bit, _ in swizzle), default=2 * BANKS)
        end = min(period, MOST_LINES * BANKS, self.stage_bytes)
        units = (range(line, min(line + BANKS, end), self.unit) for line in range(0, end, BANKS))
        # A swizzle is its own inverse, because a swizzle does not change the bits that it reads.
        return [[coordinates(swizzled(place, swizzle) // size, self.stage) for place in each] for each in units]

    @property
    def stage(self) -> tuple[int, ...]:
        """The extents of a stage. If the tile is not a ring, the stage is the whole tile."""
        return self.type.shape[1:] if self.type.ring else self.type.shape

    @property
    def heads(self) -> list[str]:
        """The name of the banks of each unit of a line, for example "4-7"."""
        banks = max(1, self.unit // WORD)
        return [bank_name(i * banks, banks) for i in range(max(map(len, self.lines)))]

    @property
    def axes(self) -> tuple[str, ...]:
        rank = len(self.stage)
        return AXES.get(rank, tuple(f"axis {i}" for i in range(rank)))

    def shade(self, coordinates: tuple[int, ...]) -> int:
        """Returns the number of the lane whose colour an element gets. Elements that would be in the same bank without
        a swizzle have the same colour."""
        place = 0
        for extent, coordinate in zip(self.stage, coordinates, strict=True):
            place = place * extent + coordinate
        return place * self.type.dtype.bytes % BANKS // WORD

    @property
    def stage_bytes(self) -> int:
        return stage_bytes(self.type) if self.type.ring else self.type.bytes


def ranges(numbers: list[int]) -> str:
    """Formats numbers as ranges, for example `0-3,8`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def first_lane(lanes: str) -> int:
    return int(lanes.split(",")[0].split("-")[0])


def bank_name(first: int, count: int) -> str:
    return f"{first}-{first + count - 1}" if count > 1 else str(first)


def accesses(function: Function, memory: Value) -> list[DrawnAccess]:
    """Returns the kinds of accesses to a shared tile, each with the number of its operations."""
    maps = SharedMaps(facts_of(function))
    mine = (op for op in shared_accesses(walk(function.body)) if op.operands[0] is memory)
    found = Counter(access_of(function, maps, op) for op in mine)
    return [replace(access, count=count) for access, count in found.items()]


def access_of(function: Function, maps: SharedMaps, op: Op) -> DrawnAccess:
    memory = op.operands[0].type
    assert isinstance(memory, SharedType)
    layout = access_layout_of(op)
    size = access_bytes(maps.analysis, op)
    touches: tuple[DrawnTouch, ...] = ()
    map = maps.of(op, layout) if layout is not None and layout.shape else None
    if map is not None and layout is not None:
        phase = phase_of(maps.analysis, op, map)
        # A lane that holds a copy of another lane's elements does not store them.
        silent = layout.replicated["lane"] if writes(op) and not op.spec.joint else 0
        acting = [lane for lane in range(1 << lanes_together(size)) if not lane & silent]
        touches = tuple(
            DrawnTouch(lane, swizzled(apply(phase.lanes, i), memory.swizzle)) for i, lane in enumerate(acting)
        )
    return DrawnAccess(op.name, line_of(op.loc, function), size, conflicts(maps, op), touches)


def picture(function: Function, memory: Value) -> SharedPicture:
    """Computes the picture of a shared tile, in a function after all passes."""
    type = memory.type
    assert isinstance(type, SharedType)
    # A swizzle moves whole units. The lowest bit that the swizzle changes determines the size of a unit, at most 16
    # bytes.
    unit = min([16, *(mask & -mask for _, mask in type.swizzle)])
    # An element is never split.
    unit = max(unit, type.dtype.bytes)
    return SharedPicture(type, unit, tuple(accesses(function, memory)))
