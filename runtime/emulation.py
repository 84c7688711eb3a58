"""The emulator as a back end of `Kernel`: the same arguments, grid and threads, in numpy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from runtime.arguments import Layout
from runtime.arrays import Array
from runtime.checks import CallClass
from runtime.header import RECORD_WORDS, Header


class EmulatedLaunch:
    """Launches of one class on the emulator. Every launch waits, and a failed `assert` raises at once."""

    ordinal = None

    def __init__(self, ptx: str, header: Header, layout: Layout, call: CallClass) -> None:
        self.ptx = ptx
        self.header = header
        self.call = call
        self.overlaps = call.overlaps
        self._layout = layout
        self._template = layout.template(call.arrays, call.dims, record=0)

    def launch(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None = None) -> None:
        """Runs the kernel; the stream does not matter."""
        self.run(values, arguments)

    def bind(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None) -> Callable[[], None]:
        """A launch with these arguments."""
        return partial(self.launch, values, arguments, stream)

    def run(self, values: Sequence[Any], arguments: Sequence[Any], **options: Any) -> Any:
        """Runs the kernel; the emulator's Result. `options` go to `emulate`: seed, budget, on_finding."""
        import numpy

        from runtime.emulator import emulate
        from runtime.record import assert_error

        packed = bytearray(self._template)
        self._layout.pack_into(packed, 0, *values)
        record = numpy.zeros(RECORD_WORDS, numpy.uint32)
        tensors = {
            tensor.name: host_view(self.call.arrays[tensor.name], pointer)
            for tensor, pointer in zip(self.header.tensors, values, strict=False)
        }
        given: list[Any] = []
        for argument, raw in zip(self.header.arguments, self._layout.split(packed), strict=True):
            given.append(
                tensors[argument.of] if argument.kind == "pointer" else record if argument.kind == "record" else raw
            )
        result = emulate(
            self.ptx,
            self.header.entry,
            self.call.grid,
            (self.header.threads, 1, 1),
            given,
            cluster=self.header.cluster,
            shared_bytes=self.header.shared_bytes,
            arch=self.header.arch,
            **options,
        )
        error = assert_error(self.header.label, record.tobytes())
        if error is not None:
            raise error
        return result


def host_view(array: Array, pointer: int) -> Any:
    """A one-dimensional numpy array of the bytes that a host array at `pointer` spans, not a copy."""
    import numpy

    low, high = array.span
    if low == high:
        return numpy.empty(0, numpy.uint8)
    return numpy.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(pointer + low))
