"""Launches that are repeated: memory that they read and change is restored before each.

A kernel that takes numbers from a ticket, adds to a sum or works in place finds the results of the first launch at its
second: it would do other work, or wait for ever.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsl.runtime.frameworks import describe
from dsl.runtime.header import Header, HeaderTensor

if TYPE_CHECKING:
    from dsl.runtime.cuda.memory import Allocation

Span = tuple[int, int]
"""Addresses of memory: from (inclusive), to (exclusive)."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """A launch to be repeated. renew: queues what must precede each launch, on the legacy default stream; callers that
    measure call it outside the measured interval."""

    launch: Callable[[], object]
    renew: Callable[[], None]

    def __call__(self) -> None:
        self.launch()


class KeptMemory:
    """A copy of the present contents of some memory, of a device or of the host (None). DeviceError if a device has no
    room for it."""

    def __init__(self, spans: Sequence[Span], ordinal: int | None) -> None:
        self.context: Any = None
        if ordinal is not None and spans:
            from dsl.runtime.cuda.context import context

            self.context = context(ordinal)
        self.copies = [(start, self._copied(start, end - start)) for start, end in spans]

    def put_back(self) -> None:
        """Restores the memory. On a device it queues the copies on the legacy default stream, without waiting."""
        for start, copy in self.copies:
            if isinstance(copy, bytes):
                ctypes.memmove(start, copy, len(copy))
            else:
                self._move(start, copy.pointer, copy.size)

    def before(self, launch: Callable[[], object]) -> Callable[[], object]:
        """`launch` for callers that repeat it: with this memory restored before each."""
        return Renewed(launch, self.put_back) if self.copies else launch

    def _copied(self, start: int, size: int) -> Allocation | bytes:
        if self.context is None:
            return bytes((ctypes.c_ubyte * size).from_address(start))
        from dsl.runtime.cuda.memory import Allocation

        copy = Allocation(self.context, size)
        self._move(copy.pointer, start, size)
        return copy

    def _move(self, target: int, source: int, size: int) -> None:
        from dsl.runtime.cuda import driver

        cuda = driver.bindings()
        with self.context.current():
            # Ordered by the stream, in front of the launch.
            self.context.call(cuda.cuMemcpyDtoDAsync, target, source, size, cuda.CUstream(0))


def in_a_row(launches: Sequence[Callable[[], object]]) -> Callable[[], object]:
    """All launches as one: first everything that they restore, then the launches, right behind each other."""
    if len(launches) == 1:
        return launches[0]

    def launch() -> None:
        for each in launches:
            each()

    renewals = [each.renew for each in launches if isinstance(each, Renewed)]

    def renew() -> None:
        for each in renewals:
            each()

    # A launch that restores nothing costs nothing more.
    return Renewed(launch, renew) if renewals else launch


def changed_spans(
    launches: Sequence[tuple[Header, Sequence[Any]]], read_by: Sequence[tuple[Header, Sequence[Any]]] | None = None
) -> list[Span]:
    """The memory that launches write and that some of them, or of `read_by`, read: each with its header and its
    arguments. Two tensors may share memory: one may be written, and the other read."""
    written, read = (
        _spans(each, way) for each, way in ((launches, "w"), (launches if read_by is None else read_by, "r"))
    )
    return joined(span for span in written if any(span[0] < end and start < span[1] for start, end in read))


def _spans(launches: Sequence[tuple[Header, Sequence[Any]]], way: str) -> list[Span]:
    """The memory of the tensors that launches access in a way: "r" or "w"."""
    found = []
    for header, values in launches:
        for param, value in zip(header.params, values, strict=True):
            if isinstance(param, HeaderTensor) and value is not None and way in param.access:
                array = describe(value)
                low, high = array.span
                if low < high:
                    found.append((array.pointer + low, array.pointer + high))
    return found


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same memory with each byte once, in order. Spans that only touch may belong to two allocations, and stay
    two."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start < out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((start, end))
    return out
