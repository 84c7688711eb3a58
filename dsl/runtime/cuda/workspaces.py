"""Allocates workspaces: device memory that the blocks of a launch share. All launches in a stream use the same
workspaces, one after another.

A kernel may require zeros in a workspace. This memory is zeroed only once, because each launch leaves zeros in it.
Memory is never freed, since running launches and captured graphs may use its address. If a stream needs more memory,
the new allocation is at least twice as large as the old one.
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
"""The handle CU_STREAM_PER_THREAD. It means a different stream in each thread."""


class StreamWorkspaces:
    """The memory for the workspaces of one stream. `pieces[True]` is the memory that contains zeros before each launch,
    and `pieces[False]` is the other memory. Each is a pair: the address and the size in bytes."""

    def __init__(self, owner: Context) -> None:
        self.context = owner
        self.pieces: dict[bool, tuple[int, int]] = {}
        self.lock = threading.Lock()

    def addresses(self, header: Header, counts: Mapping[str, int]) -> dict[str, int]:
        """Returns the address of each workspace of a launch, by the workspace's name. `counts` maps the name to the
        number of elements."""
        found: dict[str, int] = {}
        # Two threads may launch on one stream.
        with self.lock:
            # Zeroed memory has its own piece, which is never zeroed again.
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
        """Returns the address of at least `size` bytes, which are allocated if necessary. If `zero` is true, they were
        zeroed at their allocation."""
        pointer, room = self.pieces.get(zero, (0, 0))
        if room < size:
            # Since sizes double, the pieces that are no longer used take at most as much memory as the current piece.
            cuda, call, room = driver.bindings(), self.context.call, max(size, 2 * room)
            with uncaptured(self.context):
                pointer = int(call(cuda.cuMemAlloc, room))
                if zero:  # on a stream of its own, so that no other stream waits, and no capture includes the memset
                    stream = call(cuda.cuStreamCreate, cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)
                    call(cuda.cuMemsetD8Async, pointer, 0, room, stream)
                    call(cuda.cuStreamSynchronize, stream)
                    call(cuda.cuStreamDestroy, stream)
            self.pieces[zero] = pointer, room
        return pointer


@contextmanager
def uncaptured(owner: Context) -> Iterator[None]:
    """Makes the context current, and allows this thread to allocate memory even during the capture of a CUDA graph."""
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
    """Returns the workspaces of the stream with the raw handle `stream`."""
    # The handle PER_THREAD means a different stream in each thread.
    thread = threading.get_ident() if stream == PER_THREAD else 0
    key: Any = (owner.ordinal, stream, thread)
    found = _streams.get(key)
    return _streams.setdefault(key, StreamWorkspaces(owner)) if found is None else found
