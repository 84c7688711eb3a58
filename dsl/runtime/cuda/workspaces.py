"""Memory in which the blocks of a launch meet: of each stream, shared by all that is launched there, one after another.

What must be zero at a launch is zeroed once: each launch leaves it so. What has been given is never taken back, since
launches in flight and captured graphs know its address; a larger piece is twice as large at least.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dsl.runtime.cuda import driver
from dsl.runtime.cuda.context import Context
from dsl.runtime.dtypes import DTYPES
from dsl.runtime.header import Header

ALIGNMENT = 256
PER_THREAD = 2
"""The handle that is another stream in each thread (CU_STREAM_PER_THREAD)."""


class StreamWorkspaces:
    """The workspaces of one stream. pieces: address and bytes of what is given now, by whether it is zeroed."""

    def __init__(self, owner: Context) -> None:
        self.context = owner
        self.pieces: dict[bool, tuple[int, int]] = {}
        self.lock = threading.Lock()

    def addresses(self, header: Header, counts: Mapping[str, int]) -> dict[str, int]:
        """Where the workspaces of a launch lie, by name."""
        found: dict[str, int] = {}
        with self.lock:
            for zero in (True, False):
                ends, size = {}, 0
                for each in header.workspaces:
                    if each.zero == zero:
                        ends[each.name] = size
                        size += -(-counts[each.name] * DTYPES[each.dtype].bytes // ALIGNMENT) * ALIGNMENT
                base = self._piece(size, zero) if ends else 0
                found |= {name: base + at for name, at in ends.items()}
        return found

    def _piece(self, size: int, zero: bool) -> int:
        """An address with so many bytes behind it."""
        pointer, room = self.pieces.get(zero, (0, 0))
        if room < size:
            cuda, call, room = driver.bindings(), self.context.call, max(size, 2 * room)
            with uncaptured(self.context):
                pointer = int(call(cuda.cuMemAlloc, room))
                if zero:  # on a stream of its own: no other one waits for it, and none is captured with it
                    stream = call(cuda.cuStreamCreate, cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)
                    call(cuda.cuMemsetD8Async, pointer, 0, room, stream)
                    call(cuda.cuStreamSynchronize, stream)
                    call(cuda.cuStreamDestroy, stream)
            self.pieces[zero] = pointer, room
        return pointer


@contextmanager
def uncaptured(owner: Context) -> Iterator[None]:
    """Meanwhile the context is current, and this thread may allocate memory, whatever streams are being captured."""
    cuda = driver.bindings()
    with owner.current():
        before = owner.call(
            cuda.cuThreadExchangeStreamCaptureMode, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        )
        try:
            yield
        finally:
            owner.call(cuda.cuThreadExchangeStreamCaptureMode, before)


_streams: dict[tuple[int, int, int], StreamWorkspaces] = {}


def of_stream(owner: Context, stream: int) -> StreamWorkspaces:
    """The workspaces of a raw stream handle."""
    thread = threading.get_ident() if stream == PER_THREAD else 0
    key: Any = (owner.ordinal, stream, thread)
    found = _streams.get(key)
    return _streams.setdefault(key, StreamWorkspaces(owner)) if found is None else found
