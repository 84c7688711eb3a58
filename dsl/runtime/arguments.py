"""Computes the position of each kernel argument in the argument buffer of a launch, and packs arguments.

The buffer begins with the changing part: the values that change from call to call. These are the tensors' pointers in
the order of the parameters, then the scalars, then the tables. One `struct.pack_into` writes all of them.

Then comes the fixed part. Its values are equal in all calls of a class on one stream: dims, strides, and the addresses
of the workspaces, the assert record and the timeline. `cuLaunchKernel` gets the address of each value, so the values
may be in any order.

A template is a buffer in which only the fixed part is filled in. It contains zeros in place of tensor maps. Within a
class of calls, a tensor map depends only on the tensor's address. So `MappedValues` packs the changing part, and then
writes the tensor map of each pointer.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dsl.runtime.arrays import Array
from dsl.runtime.dtypes import DTYPES, converter
from dsl.runtime.errors import LaunchError
from dsl.runtime.header import KINDS, Argument, Header, HeaderTable, Scalar
from dsl.runtime.numbers import is_masked
from dsl.runtime.recorded import refuse_recorded
from dsl.runtime.tensor_map import MAP_BYTES, TensorMap

MOST_MAPS = 1024
"""Maximum number of encoded maps that are kept for one argument of a class. Most programs pass few arrays, but a
program that allocates in a loop may pass any number."""


class ParamLayout:
    """The layout of the argument buffer for one header.

    `pack_into(buffer, 0, *values)` writes the changing part of a buffer. `values` are pointers, then scalars, then
    table elements.

    `converters` contains a pair for each scalar and table: its position among the parameters, and a function that
    converts its argument to a list of numbers.

    `is_exact` is True if equal values always have equal bytes. It is False if there is a float parameter, since 0.0
    equals -0.0.

    `maps` contains a triple for each tensor map: its offset in the buffer, the position of its tensor's pointer among
    the values, and its `Argument`."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.converters: list[tuple[int, Callable[[Any], Sequence[Any]]]] = []
        # "Q" with standard sizes ("=") is a pointer of 8 bytes without padding.
        codes = "Q" * len(header.tensors)
        at = {("pointer", tensor.name): 8 * index for index, tensor in enumerate(header.tensors)}
        # Scalars come before tables. Each kind keeps the order of the parameters.
        for kind in (Scalar, HeaderTable):
            for position, param in enumerate(header.params):
                if isinstance(param, Scalar | HeaderTable) and isinstance(param, kind):
                    at[KINDS[kind], param.name] = struct.calcsize(f"={codes}")
                    length = param.length if isinstance(param, HeaderTable) else 1
                    codes += f"{length}{DTYPES[param.dtype].code}"
                    # The converter is made once, because it computes the range of its type.
                    self.converters.append((position, _converter(param)))
        changing = struct.Struct(f"={codes}")
        numbers = [param for param in header.params if isinstance(param, Scalar | HeaderTable)]
        self.is_exact = not any(DTYPES[param.dtype].is_float for param in numbers)
        self.pack_into = changing.pack_into
        fixed_codes = ""
        self.fixed: list[Argument] = []
        self.maps: list[tuple[int, int, Argument]] = []
        self.offsets: list[int] = []
        for argument in header.arguments:
            if (offset := at.get((argument.kind, argument.of))) is None:
                offset = changing.size + struct.calcsize(f"={fixed_codes}")
                is_map = argument.kind == "map"
                fixed_codes += f"{MAP_BYTES}s" if is_map else DTYPES[header.argument_dtype(argument)].code
                self.fixed.append(argument)
                if is_map:
                    self.maps.append((offset, at["pointer", argument.of] // 8, argument))
            # There is one offset for each `.param`, in the entry's order.
            self.offsets.append(offset)
        self._fixed = struct.Struct(f"={fixed_codes}")
        self._fixed_at = changing.size
        self.size = changing.size + self._fixed.size

    def template(
        self,
        arrays: Mapping[str, Array],
        dims: Mapping[str, int],
        record: int,
        workspaces: Mapping[str, int],
        timeline: int = 0,
    ) -> bytes:
        """Returns the bytes of a buffer in which only the fixed part is filled in.

        `record` is the address of the assert record. `timeline` is the address of the timeline records. `workspaces`
        maps the names of workspaces to addresses."""

        def value(argument: Argument) -> int | bytes:
            if argument.kind == "map":
                return bytes(MAP_BYTES)
            if argument.kind == "stride":
                return arrays[argument.of].strides[argument.axis]
            known: Mapping[str, int] = {"dim": dims, "workspace": workspaces}.get(argument.kind, {})
            own = {"record": record, "timeline": timeline}.get(argument.kind)
            return known[argument.of] if own is None else own

        return bytes(self._fixed_at) + self._fixed.pack(*map(value, self.fixed))

    def split(self, buffer: bytes | bytearray) -> list[bytes]:
        """Splits a filled buffer into the bytes of each argument, in the order of the entry's parameters."""
        sizes = [self.header.argument_bytes(argument) for argument in self.header.arguments]
        return [bytes(buffer[at : at + size]) for at, size in zip(self.offsets, sizes, strict=True)]


class EncodedMaps(dict[int, bytes]):
    """Maps the address of an array to the bytes of its tensor map. At first use, `encode(tensor_map, address)` computes
    these bytes."""

    def __init__(self, tensor_map: TensorMap, encode: Callable[[TensorMap, int], bytes]) -> None:
        self._encode = partial(encode, tensor_map)

    def __missing__(self, pointer: int) -> bytes:
        encoded = self._encode(pointer)
        if len(self) >= MOST_MAPS:
            # Clearing all entries avoids bookkeeping in every launch.
            self.clear()
        self[pointer] = encoded
        return encoded


class MappedValues:
    """Packs the argument values of a kernel that has tensor maps. `maps` contains the tensor map of each map
    argument."""

    def __init__(
        self, layout: ParamLayout, maps: Mapping[Argument, TensorMap], encode: Callable[[TensorMap, int], bytes]
    ) -> None:
        self._pack_into = layout.pack_into
        self._places = [
            (slice(offset, offset + MAP_BYTES), position, EncodedMaps(maps[argument], encode))
            for offset, position, argument in layout.maps
        ]

    def pack_into(self, buffer: bytearray, at: int, *values: Any) -> None:
        """Packs `values` as `ParamLayout.pack_into` does, and then writes the tensor map of each pointer. `at` is 0."""
        self._pack_into(buffer, at, *values)
        for place, position, encoded in self._places:
            buffer[place] = encoded[values[position]]


class Buffer:
    """An argument buffer for `cuLaunchKernel`. It starts as a copy of a template.

    `address` is the address of an array that contains the address of each argument. `values` are the values that were
    packed last. If the launch needs attributes, `config` is its CUlaunchConfig.
    """

    __slots__ = ("_addresses", "_view", "address", "bytes", "config", "values")

    def __init__(self, layout: ParamLayout, template: bytes) -> None:
        self.bytes = bytearray(template)
        # A kernel without arguments also needs an address.
        self._view = (ctypes.c_char * max(1, len(template))).from_buffer(self.bytes or bytearray(1))
        # The driver gets addresses of the values, so the bytes must not move while this object exists.
        base = ctypes.addressof(self._view)
        self._addresses = (ctypes.c_void_p * len(layout.offsets))(*(base + offset for offset in layout.offsets))
        self.address = ctypes.addressof(self._addresses)
        self.config: Any = None
        self.values: Sequence[Any] | None = None


def _converter(param: Scalar | HeaderTable) -> Callable[[Any], Sequence[Any]]:
    convert = converter(param.dtype, param.name)
    if isinstance(param, Scalar):
        return lambda value: (convert(value),)
    name, length = param.name, param.length

    def table(values: Any) -> Sequence[Any]:
        if is_masked(values):
            raise LaunchError("type", f"{name} takes {length} elements of {param.dtype}, not masked ones")
        # A tensor that is passed as a table would lose its gradient.
        refuse_recorded(values)
        elements = values.tolist() if hasattr(values, "tolist") else values
        if not isinstance(elements, (list, tuple)) or len(elements) != length:
            raise LaunchError("type", f"{name} takes {length} elements of {param.dtype}")
        return [convert(element) for element in elements]

    return table
