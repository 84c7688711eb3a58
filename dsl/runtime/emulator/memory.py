"""Memory as the launch sees it: device allocations at realistic addresses, and the windows of the state spaces.

Global memory is one flat array with gaps between allocations. A lane's address minus `GLOBAL_WINDOW` is its index.
Generic addresses of shared and local memory lie in windows of their own (PTX ISA 5.3, generic addressing).
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .workspace import Scratch

GLOBAL_WINDOW = 0x7F00_0000_0000
SHARED_WINDOW = 0x7FE0_0000_0000
LOCAL_WINDOW = 0x7FF0_0000_0000
WINDOW_BYTES = 1 << 32
# A shared::cluster address holds 1 + the block's rank above this bit; 0 there means the thread's own block.
RANK_SHIFT = 24
# A device keeps the first 1,024 bytes of shared memory for itself, so no variable has address 0.
SHARED_START = 0x400
# No more alignment of shared memory than this: an H200 (driver 580.159.04) puts a variable at 0x400 even with
# `.align 8192`. With more, the emulator accepted a swizzle that read past the block's memory on the device.
MOST_ALIGNMENT = 1024
ALIGNMENT = 256
# Bytes from an array beyond which a message names a negative or overflown index: an index that is off by a row or two
# does not lead so far.
FAR = 1 << 30
# Bytes between allocations, so that an index that is off by a row or two does not meet another array.
GAP = 1 << 16


@dataclass(frozen=True)
class DevicePointer:
    """An address in a `Memory`. Adding an int moves it by that many bytes."""

    memory: Memory
    address: int

    def __add__(self, offset: int) -> DevicePointer:
        return DevicePointer(self.memory, self.address + offset)


@dataclass(frozen=True)
class ArrayPlaces:
    """How the elements of an array lie. Strides are in elements. `first` is the address of element (0, 0, …)."""

    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    def outside(self, address: int) -> str:
        """In words, the axis along which an address lies outside and its index there. Empty if no axis can be named."""
        rest, index = (address - self.first) // self.itemsize, [0] * len(self.shape)
        # The axis with the largest stride first, as the quotient of that one takes the largest part of the offset.
        order = sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis])
        if any(self.strides[axis] < 1 for axis in order):
            return ""
        for axis in order:
            index[axis], rest = divmod(rest, self.strides[axis])
        for axis in order:
            if not 0 <= index[axis] < self.shape[axis]:
                return f": index {index[axis]} of axis {axis}, which has {self.shape[axis]}"
        return ""


@dataclass(frozen=True)
class EmulatedAllocation:
    address: int
    size: int
    name: str
    read_only: bool = False
    elements: ArrayPlaces | None = None

    @property
    def end(self) -> int:
        return self.address + self.size


def after(start: int, size: int) -> int:
    """Where the next allocation begins."""
    return -(-(start + size + GAP) // ALIGNMENT) * ALIGNMENT


class Memory:
    """Device memory that several launches may share. Allocations are aligned to 256 bytes, with gaps between them."""

    def __init__(self) -> None:
        self.data = np.zeros(1 << 20, np.uint8)
        self.top = ALIGNMENT
        self.allocations: list[EmulatedAllocation] = []
        self.starts: list[int] = []
        self.scratch: list[tuple[DevicePointer, Scratch]] = []  # workspaces, and where they lie
        self.own: set[int] = set()  # addresses of the launch's own data, which no index of a kernel means

    def allocate(self, array: Any, name: str = "array") -> DevicePointer:
        """Copies a numpy array in and returns its address."""
        image = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return DevicePointer(self, self.reserve(image, len(image), name).address)

    def describe(self, pointer: DevicePointer, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> None:
        """Records how the elements of an array lie, for messages about it. Its element (0, 0, …) is at the pointer."""
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
        """Grows the memory so that allocations of these sizes fit."""
        end = self.top
        for size in sizes:
            end = after(end, size)
        if end > len(self.data):
            # Twice as large each time, so that many allocations copy the memory only a few times.
            grown = np.zeros(max(end + (1 << 20), len(self.data) * 2), np.uint8)
            grown[: self.top] = self.data[: self.top]
            self.data = grown

    def free(self, allocation: EmulatedAllocation) -> None:
        """Removes an allocation. The space at the end of memory is used again."""
        self.allocations.remove(allocation)
        self.starts.remove(allocation.address)
        self.own.discard(allocation.address)
        start = allocation.address - GLOBAL_WINDOW
        # A later allocation here begins as zeros.
        self.data[start : start + allocation.size] = 0
        if not self.allocations or self.allocations[-1].address < allocation.address:
            end = self.allocations[-1].end - GLOBAL_WINDOW + GAP if self.allocations else ALIGNMENT
            self.top = -(-end // ALIGNMENT) * ALIGNMENT

    def find(self, address: int) -> EmulatedAllocation | None:
        """The allocation that contains an address."""
        index = bisect.bisect_right(self.starts, address) - 1
        if index >= 0 and address < self.allocations[index].end:
            return self.allocations[index]
        return None

    def nearest(self, address: int, meant: EmulatedAllocation | None = None) -> str:
        """In words, where an address out of bounds lies, relative to the allocation that is meant, or else to the
        closest one."""
        if not self.allocations:
            return "there is no allocation"

        def distance(one: EmulatedAllocation) -> int:
            return one.address - address if address < one.address else address - one.end + 1

        # The parameters may lie nearer than any array, but no index means them.
        near = min([a for a in self.allocations if a.address not in self.own] or self.allocations, key=distance)
        best = near if meant is None else meant
        side = "before" if address < best.address else "past the end of"
        gap = distance(best) - (address >= best.end)  # 0 for the first byte past the end
        far = "just" if gap == 0 else f"{gap} byte{'s' * (gap != 1)}"
        place = f"{far} {side} {best.name} ({best.size} bytes at {best.address:#x})"
        if gap > FAR:
            which = "" if meant is not None else ", the nearest array"
            return f"{place}{which}: an index that is negative, or more than its type holds"
        return place + (best.elements.outside(address) if best.elements is not None else "")

    def read(self, pointer: DevicePointer, dtype: Any, count: int) -> Any:
        """A copy of `count` elements at a pointer."""
        start = pointer.address - GLOBAL_WINDOW
        size = np.dtype(dtype).itemsize * count
        return self.data[start : start + size].copy().view(dtype)
