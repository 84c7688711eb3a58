"""Where each kernel argument stands in the argument buffer of a launch.

The buffer begins with what changes from call to call, packed by one `struct.pack_into`: the tensors' pointers in the
order of the parameters, then the scalars and tables. Behind it stands what is fixed for a class of calls on a stream:
dims, strides, workspaces, the assert record. `cuLaunchKernel` takes one address an argument and copies, so the order is
free.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runtime.arrays import Array
from runtime.dtypes import DTYPES, converter, is_masked
from runtime.errors import LaunchError
from runtime.header import KINDS, Argument, Header, HeaderTable, Scalar


class ParamLayout:
    """The argument buffer of a header.

    `pack_into(buffer, 0, *values)` writes the changing part: `values` are pointers, scalars, then table elements.
    `converters` has (position among the parameters, function to a list of values) for scalars and tables. `is_exact`:
    values that are equal are packed alike, as 0.0 and -0.0 are not.
    """

    def __init__(self, header: Header) -> None:
        self.header = header
        self.converters: list[tuple[int, Callable[[Any], Sequence[Any]]]] = []
        codes = "Q" * len(header.tensors)
        at = {("pointer", tensor.name): 8 * index for index, tensor in enumerate(header.tensors)}
        for kind in (Scalar, HeaderTable):
            for position, param in enumerate(header.params):
                if isinstance(param, Scalar | HeaderTable) and isinstance(param, kind):
                    at[KINDS[kind], param.name] = struct.calcsize(f"={codes}")
                    length = param.length if isinstance(param, HeaderTable) else 1
                    codes += f"{length}{DTYPES[param.dtype].code}"
                    self.converters.append((position, _converter(param)))
        changing = struct.Struct(f"={codes}")
        numbers = [param for param in header.params if isinstance(param, Scalar | HeaderTable)]
        self.is_exact = not any(DTYPES[param.dtype].is_float for param in numbers)
        self.pack_into = changing.pack_into
        fixed_codes = ""
        self.fixed: list[Argument] = []
        self.offsets: list[int] = []
        for argument in header.arguments:
            if (offset := at.get((argument.kind, argument.of))) is None:
                offset = changing.size + struct.calcsize(f"={fixed_codes}")
                fixed_codes += DTYPES[header.argument_dtype(argument)].code
                self.fixed.append(argument)
            self.offsets.append(offset)
        self._fixed = struct.Struct(f"={fixed_codes}")
        self._fixed_at = changing.size
        self.size = changing.size + self._fixed.size

    def template(
        self, arrays: Mapping[str, Array], dims: Mapping[str, int], record: int, workspaces: Mapping[str, int]
    ) -> bytes:
        """A buffer with the fixed part filled in. record: the address of the assert record; workspaces: theirs."""

        def value(argument: Argument) -> int:
            if argument.kind == "stride":
                return arrays[argument.of].strides[argument.axis]
            known: Mapping[str, int] = {"dim": dims, "workspace": workspaces}.get(argument.kind, {})
            return record if argument.kind == "record" else known[argument.of]

        return bytes(self._fixed_at) + self._fixed.pack(*map(value, self.fixed))

    def split(self, buffer: bytes | bytearray) -> list[bytes]:
        """The bytes of each argument of a filled buffer, in order."""
        sizes = [self.header.argument_bytes(argument) for argument in self.header.arguments]
        return [bytes(buffer[at : at + size]) for at, size in zip(self.offsets, sizes, strict=True)]


class Buffer:
    """A copy of a layout's template that the driver can read: `address` is that of the argument addresses.

    `values` are those that were packed last; `config` is for launches in clusters.
    """

    __slots__ = ("_addresses", "_view", "address", "bytes", "config", "values")

    def __init__(self, layout: ParamLayout, template: bytes) -> None:
        self.bytes = bytearray(template)
        self._view = (ctypes.c_char * max(1, len(template))).from_buffer(self.bytes or bytearray(1))
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
        elements = values.tolist() if hasattr(values, "tolist") else values
        if not isinstance(elements, (list, tuple)) or len(elements) != length:
            raise LaunchError("type", f"{name} takes {length} elements of {param.dtype}")
        return [convert(element) for element in elements]

    return table
