"""Converts the arguments of a launch to parameter bytes, and copies arrays to device memory and back."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from .code import DTYPES
from .memory import GLOBAL_WINDOW, DevicePointer, EmulatedAllocation, Memory
from .program import EmulatedProgram
from .reader import TYPE_BYTES, Variable
from .tensor_maps import TensorMapArgument


class Arguments:
    """The arguments of one launch. Arrays are copied to emulated device memory. Arrays that overlap share one
    allocation."""

    def __init__(self, program: EmulatedProgram, args: Sequence[Any]):
        self.params = program.function.params
        if len(args) != len(self.params):
            raise ValueError(f"{program.function.name} takes {len(self.params)} arguments, {len(args)} were given")
        self.args = args
        memories = {id(arg.memory): arg.memory for arg in args if isinstance(arg, DevicePointer | TensorMapArgument)}
        if len(memories) > 1:
            raise ValueError("the pointers of one launch must belong to one Memory")
        self.memory = next(iter(memories.values()), None) or Memory()
        self.temporary: list[EmulatedAllocation] = []
        self.placed: dict[int, int] = {}
        self.place_arrays()

    def place_arrays(self) -> None:
        spans = []
        for position, arg in enumerate(self.args):
            if isinstance(arg, np.ndarray):
                if not arg.flags.c_contiguous:
                    raise ValueError(f"argument {position} must be a C-contiguous array")
                start = arg.__array_interface__["data"][0]
                spans.append((start, start + arg.nbytes, position))
        # The spans are sorted by address, so that arrays that overlap are neighbours in the list.
        spans.sort()
        # One call makes room for all arrays, so that memory grows only once.
        self.memory.make_room([end - start for start, end, _ in spans])
        for members in overlapping(spans):
            low, high = members[0][0], max(span[1] for span in members)
            name = ", ".join(self.params[position].name for _, _, position in members)
            allocation = self.memory.reserve(np.zeros(0, np.uint8), high - low, name)
            self.temporary.append(allocation)
            for start, _, position in members:
                self.placed[position] = allocation.address + start - low
                self.bytes_at(position)[...] = np.asarray(self.args[position]).reshape(-1).view(np.uint8)

    def bytes_at(self, position: int) -> Any:
        start = self.placed[position] - GLOBAL_WINDOW
        return self.memory.data[start : start + self.args[position].nbytes]

    def images(self) -> list[bytes]:
        return [self.image(position, param) for position, param in enumerate(self.params)]

    def image(self, position: int, param: Variable) -> bytes:
        arg = self.args[position]
        if position in self.placed:
            arg = self.placed[position]
        elif isinstance(arg, DevicePointer):
            arg = arg.address
        elif isinstance(arg, TensorMapArgument):
            arg = arg.image()
        if isinstance(arg, bytes | bytearray):
            if len(arg) != param.size:
                raise ValueError(f"argument {position} has {len(arg)} bytes, the parameter {param.size}")
            return bytes(arg)
        if param.type in {"f32", "f64", "f16"}:
            return np.array([arg], DTYPES[param.type]).tobytes()
        if isinstance(arg, np.generic):
            if arg.nbytes == param.size:
                return arg.tobytes()
            arg = arg.item()
        if isinstance(arg, float) and param.size in {4, 8}:
            return struct.pack("<f" if param.size == 4 else "<d", arg)
        if param.size != TYPE_BYTES[param.type]:
            raise ValueError(f"argument {position} must be bytes: the parameter is an array of {param.size} bytes")
        # Integers are stored in two's complement, cut to the parameter's size.
        return (int(arg) & ((1 << 8 * param.size) - 1)).to_bytes(param.size, "little")

    def copy_back(self) -> None:
        for position in self.placed:
            array = self.args[position]
            if array.flags.writeable:
                array.reshape(-1).view(np.uint8)[...] = self.bytes_at(position)

    def release(self, others: list[EmulatedAllocation]) -> None:
        """Frees the allocations `others` and those of the arguments, the latest first. So the end of device memory can
        be reused."""
        for allocation in others[::-1] + self.temporary[::-1]:
            self.memory.free(allocation)


def overlapping(spans: list[tuple[int, int, int]]) -> list[list[tuple[int, int, int]]]:
    """Puts overlapping spans into one list: spans from 0 to 8, 4 to 12 and 20 to 24 give two lists. `spans` contains
    tuples (start, end, position), sorted by start."""
    found: list[list[tuple[int, int, int]]] = []
    end = 0
    for span in spans:
        if not found or span[0] >= end:
            found.append([])
        found[-1].append(span)
        end = max(end, span[1])
    return found
