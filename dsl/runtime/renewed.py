"""Makes launches repeatable: memory that a launch both reads and changes is restored before each launch.

A kernel may increment a counter, add to a sum or work in place. If memory were not restored, the second launch of such
a kernel would read the results of the first. It would then do different work, or wait forever.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dsl.runtime.frameworks import describe
from dsl.runtime.header import Header, HeaderTensor

if TYPE_CHECKING:
    from dsl.runtime.cuda.memory import Allocation

Span = tuple[int, int]
"""A range of addresses: begin (inclusive) and end (exclusive)."""


class Renewed(Struct, frozen=True):
    """A launch that can be repeated.

    `renew` queues copies that restore memory. The copies run on the legacy default stream. `renew` must be called
    before each launch. A caller that measures the launch calls `renew` outside the measured interval."""

    launch: Callable[[], object]
    renew: Callable[[], None]

    def __call__(self) -> None:
        self.launch()


class KeptMemory:
    """Copies the memory ranges `spans` when it is made, so that `put_back` can restore them. The memory is on the
    device `ordinal`, or on the host if `ordinal` is None.

    Raises DeviceError if the device has no room for the copy."""

    def __init__(self, spans: Sequence[Span], ordinal: int | None) -> None:
        self.context: Any = None
        if ordinal is not None and spans:
            from dsl.runtime.cuda.context import context

            self.context = context(ordinal)
        self.copies = [(start, self._copied(start, end - start)) for start, end in spans]

    def put_back(self) -> None:
        """Restores the memory. On a device, the copies are queued on the legacy default stream without waiting."""
        for start, copy in self.copies:
            if isinstance(copy, bytes):
                ctypes.memmove(start, copy, len(copy))
            else:
                self._move(start, copy.pointer, copy.size)

    def before(self, launch: Callable[[], object]) -> Callable[[], object]:
        """Wraps `launch` in a Renewed, whose `renew` restores this memory."""
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
            # The stream runs the copy before the launch.
            self.context.call(cuda.cuMemcpyDtoDAsync, target, source, size, cuda.CUstream(0))


def in_a_row(launches: Sequence[Callable[[], object]]) -> Callable[[], object]:
    """Combines launches into one callable, which runs the launches one after another. If some launches are Renewed, the
    callable is Renewed, too. Its `renew` calls the `renew` of each Renewed launch."""
    if len(launches) == 1:
        return launches[0]

    def launch() -> None:
        for each in launches:
            each()

    renewals = [each.renew for each in launches if isinstance(each, Renewed)]

    def renew() -> None:
        for each in renewals:
            each()

    # Without renewals the plain function is returned, which costs nothing extra.
    return Renewed(launch, renew) if renewals else launch


def changed_spans(
    launches: Sequence[tuple[Header, Sequence[Any]]], read_by: Sequence[tuple[Header, Sequence[Any]]] | None = None
) -> list[Span]:
    """Returns the memory ranges that `launches` write and that the launches in `read_by` read. By default, `read_by` is
    `launches`.

    Each launch is a pair of its header and its arguments. The result contains each written range that overlaps a range
    that is read. The two ranges may belong to different tensors, because tensors may share memory."""
    written, read = (
        _spans(each, way) for each, way in ((launches, "w"), (launches if read_by is None else read_by, "r"))
    )
    return joined(span for span in written if any(span[0] < end and start < span[1] for start, end in read))


def _spans(launches: Sequence[tuple[Header, Sequence[Any]]], way: str) -> list[Span]:
    """Returns the memory ranges that the launches read (if `way` is "r") or write (if `way` is "w")."""
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
    """Sorts the spans and merges overlapping spans. Adjacent spans are not merged, since they may belong to two
    allocations."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start < out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((start, end))
    return out
