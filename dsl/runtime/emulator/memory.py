"""Device memory of a launch: allocations at realistic addresses, and a range of addresses for each state space.

Global memory is one flat array with gaps between allocations. An address minus `GLOBAL_WINDOW` is an index into this
array. Generic addresses of shared memory and of local memory are in ranges of their own (PTX ISA 5.3, generic
addressing).
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from .workspace import Scratch

GLOBAL_WINDOW = 0x7F00_0000_0000
SHARED_WINDOW = 0x7FE0_0000_0000
LOCAL_WINDOW = 0x7FF0_0000_0000
WINDOW_BYTES = 1 << 32
# The bits of a shared::cluster address from this bit on contain 1 + the block's rank. 0 means the thread's own block.
RANK_SHIFT = 24
# A device reserves the first 1,024 bytes of shared memory, so no variable has address 0.
SHARED_START = 0x400
# The emulator aligns shared memory to at most this many bytes, since an H200 (driver 580.159.04) puts a variable at
# 0x400 even with `.align 8192`. When the emulator allowed a larger alignment, it accepted a swizzle that read past the
# block's memory on the device.
MOST_ALIGNMENT = 1024
ALIGNMENT = 256
# If an address is further from an array than this many bytes, the message suggests that the index is negative or has
# overflowed. An index that is wrong by a row or two does not lead so far away.
FAR = 1 << 30
# Number of bytes between allocations, so that an index that is wrong by a row or two does not reach another array.
GAP = 1 << 16


class DevicePointer(Struct, frozen=True):
    """An address in a `Memory`. Adding an int moves the pointer by that many bytes."""

    memory: Memory
    address: int

    def __add__(self, offset: int) -> DevicePointer:
        return DevicePointer(self.memory, self.address + offset)


class ArrayPlaces(Struct, frozen=True):
    """Where the elements of an array are in memory. `first` is the address of element (0, 0, …). Strides are counted in
    elements."""

    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    def outside(self, address: int) -> str:
        """Returns a text that names an axis whose index is out of range at `address`, and the index. The text is empty
        if there is no such axis, or if a stride is below 1.

        An address may belong to several indices. In an array [2, 4], the indices (2, 0) and (1, 4) have the same
        address, and the text names axis 0.
        """
        rest, index = (address - self.first) // self.itemsize, [0] * len(self.shape)
        # Axes are sorted by stride, the largest first, since the largest stride accounts for the largest part of the
        # offset.
        order = sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis])
        if any(self.strides[axis] < 1 for axis in order):
            return ""
        for axis in order:
            index[axis], rest = divmod(rest, self.strides[axis])
        for axis in order:
            if not 0 <= index[axis] < self.shape[axis]:
                others = ", if the indices of the other axes are within theirs" if len(order) > 1 else ""
                return f": index {index[axis]} of axis {axis}, which has {self.shape[axis]}{others}"
        return ""


class EmulatedAllocation(Struct, frozen=True):
    address: int
    size: int
    name: str
    read_only: bool = False
    elements: ArrayPlaces | None = None

    @property
    def end(self) -> int:
        return self.address + self.size


def after(start: int, size: int) -> int:
    """Returns the start of the next allocation after an allocation of `size` bytes at `start`."""
    return -(-(start + size + GAP) // ALIGNMENT) * ALIGNMENT


class Memory:
    """Device memory that several launches may share. Allocations are aligned to 256 bytes, with unused gaps between
    them."""

    def __init__(self) -> None:
        self.data = np.zeros(1 << 20, np.uint8)
        self.top = ALIGNMENT
        self.allocations: list[EmulatedAllocation] = []
        self.starts: list[int] = []
        self.scratch: list[tuple[DevicePointer, Scratch]] = []  # each workspace with its address
        self.own: set[int] = set()  # addresses of the launch's own data, which kernels do not index

    def allocate(self, array: Any, name: str = "array") -> DevicePointer:
        """Copies a numpy array into the memory and returns its address."""
        image = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return DevicePointer(self, self.reserve(image, len(image), name).address)

    def describe(self, pointer: DevicePointer, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> None:
        """Records where the elements of an array are, for messages about the array. `pointer` is the address of element
        (0, 0, …)."""
        lies = ArrayPlaces(pointer.address, shape, strides, itemsize)
        at = bisect.bisect_right(self.starts, pointer.address) - 1
        self.allocations[at] = replace(self.allocations[at], elements=lies)

    def reserve(self, image: Any, size: int, name: str, read_only: bool = False) -> EmulatedAllocation:
        start = self.top
        self.make_room([size])
        self.top = after(start, size)
        self.data[start : start + len(image)] = image
        allocation = EmulatedAllocation(GLOBAL_WINDOW + start, size, name, read_only)
        self.allocations.append(allocation)
        self.starts.append(allocation.address)
        return allocation

    def make_room(self, sizes: list[int]) -> None:
        """Grows the memory so that new allocations of these sizes fit."""
        end = self.top
        for size in sizes:
            end = after(end, size)
        if end > len(self.data):
            # The memory at least doubles each time it grows, so that many allocations copy it only a few times.
            grown = np.zeros(max(end + (1 << 20), len(self.data) * 2), np.uint8)
            grown[: self.top] = self.data[: self.top]
            self.data = grown

    def free(self, allocation: EmulatedAllocation) -> None:
        """Removes an allocation. If no allocation follows it, later allocations reuse its bytes."""
        self.allocations.remove(allocation)
        self.starts.remove(allocation.address)
        self.own.discard(allocation.address)
        start = allocation.address - GLOBAL_WINDOW
        # The bytes are cleared, so that a later allocation here begins with zeros.
        self.data[start : start + allocation.size] = 0
        if not self.allocations or self.allocations[-1].address < allocation.address:
            end = self.allocations[-1].end - GLOBAL_WINDOW + GAP if self.allocations else ALIGNMENT
            self.top = -(-end // ALIGNMENT) * ALIGNMENT

    def find(self, address: int) -> EmulatedAllocation | None:
        """Returns the allocation that contains an address, or None."""
        index = bisect.bisect_right(self.starts, address) - 1
        if index >= 0 and address < self.allocations[index].end:
            return self.allocations[index]
        return None

    def nearest(self, address: int, meant: EmulatedAllocation | None = None) -> str:
        """Returns a text that states how far an out-of-bounds address is from the allocation `meant`. If `meant` is
        None, the closest allocation is used."""
        if not self.allocations:
            return "there is no allocation"

        def distance(one: EmulatedAllocation) -> int:
            return one.address - address if address < one.address else address - one.end + 1

        # The parameters may lie nearer than any array, but kernels do not index them.
        near = min([a for a in self.allocations if a.address not in self.own] or self.allocations, key=distance)
        best = near if meant is None else meant
        side = "before" if address < best.address else "past the end of"
        gap = distance(best) - (address >= best.end)  # 0 for the first byte after the end
        far = "just" if gap == 0 else f"{gap} byte{'s' * (gap != 1)}"
        place = f"{far} {side} {best.name} ({best.size} bytes at {best.address:#x})"
        if gap > FAR:
            which = "" if meant is not None else ", the nearest array"
            return f"{place}{which}: an index that is negative, or more than its type holds"
        return place + (best.elements.outside(address) if best.elements is not None else "")

    def read(self, pointer: DevicePointer, dtype: Any, count: int) -> Any:
        """Returns a copy of the `count` elements at `pointer`."""
        start = pointer.address - GLOBAL_WINDOW
        size = np.dtype(dtype).itemsize * count
        return self.data[start : start + size].copy().view(dtype)
