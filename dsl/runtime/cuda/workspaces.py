"""Memory that the blocks of a launch share: one for each stream, used by all its launches one after another.

Memory that must be zero at a launch is zeroed once: each launch leaves zeros. Memory is never freed, since launches in
flight and captured graphs know its address; a larger piece has at least twice the size.
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
"""The handle that means another stream in each thread (CU_STREAM_PER_THREAD)."""


class StreamWorkspaces:
    """The workspaces of one stream. pieces: address and size in bytes of the current piece, by whether it is zeroed."""

    def __init__(self, owner: Context) -> None:
        self.context = owner
        self.pieces: dict[bool, tuple[int, int]] = {}
        self.lock = threading.Lock()

    def addresses(self, header: Header, counts: Mapping[str, int]) -> dict[str, int]:
        """The addresses of the workspaces of a launch, by name."""
        found: dict[str, int] = {}
        # Two threads may launch on one stream.
        with self.lock:
            # Zeroed memory is a piece of its own: it need never be zeroed again.
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
        """The address of at least `size` bytes."""
        pointer, room = self.pieces.get(zero, (0, 0))
        if room < size:
            # Doubling: a growing size leaves at most as much unused memory as is in use.
            cuda, call, room = driver.bindings(), self.context.call, max(size, 2 * room)
            with uncaptured(self.context):
                pointer = int(call(cuda.cuMemAlloc, room))
                if zero:  # on its own stream: no other waits for it or is captured with it
                    stream = call(cuda.cuStreamCreate, cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)
                    call(cuda.cuMemsetD8Async, pointer, 0, room, stream)
                    call(cuda.cuStreamSynchronize, stream)
                    call(cuda.cuStreamDestroy, stream)
            self.pieces[zero] = pointer, room
        return pointer


@contextmanager
def uncaptured(owner: Context) -> Iterator[None]:
    """Makes the context current, and lets this thread allocate memory even while streams are being captured."""
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
    # One handle, but a stream for each thread.
    thread = threading.get_ident() if stream == PER_THREAD else 0
    key: Any = (owner.ordinal, stream, thread)
    found = _streams.get(key)
    return _streams.setdefault(key, StreamWorkspaces(owner)) if found is None else found
