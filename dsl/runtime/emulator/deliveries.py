"""Bulk copies, asynchronous stores and reductions within a cluster. An mbarrier in the destination's block completes
these operations.

`cp.async.bulk` and `cp.reduce.async.bulk` from shared memory read and write through the async proxy. `st.async` and
`red.async` write values of registers through the generic proxy. As for tensor copies, the emulator delivers the bytes
as late as possible (`tensor_copies.py`). Only threads that have waited for the mbarrier's phase may use the bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from .code import Site
from .copies import Operation, landings_of, sources_of
from .landings import Landing
from .mbarriers import teams
from .reductions import BulkReduction
from .reductions_in_flight import ReductionInFlight
from .shadow import PLAIN_READ, SpacePlace
from .stamps import U
from .tensor_copies import shared_place, start_reduction


class Delivery(Struct):
    """Bytes in flight that will arrive at one mbarrier. Each lane of `part` writes `size` bytes to the wave's shared
    memory, from its offset in `starts` on. `values` contains the bytes of all lanes, [lanes, size]. If it is None, the
    bytes are read at the offset `source` when they arrive."""

    wave: Any
    part: Any
    site: Site
    starts: Any
    size: int
    values: Any
    source: int
    reading: Operation | None
    reduction: BulkReduction | None
    pending: ReductionInFlight | None
    units: Any
    number: int
    began: int  # the logical time

    @property
    def bytes(self) -> int:
        return self.size * len(self.starts)

    def land(self, landing: Landing) -> None:
        memory = self.wave.spaces["shared"]
        values = self.values
        # The source is read only when the bytes arrive. A write to the source before that time is reported, and the
        # copy then reads the new value.
        if self.reading is not None:
            values = memory.data[None, self.source : self.source + self.size].copy()
            sources_of(memory).remove(self.reading)
            self.wave.visits.read.append((self.part, self.site, landing))
        memory.changes += 1
        if self.reduction is None:
            memory.data[self.starts[:, None] + np.arange(self.size)] = values
            landings_of(memory, self.wave).land(self.units, self.number, landing)
            return
        assert self.pending is not None
        elements = self.starts[:, None] + np.arange(0, self.size, self.reduction.size)
        self.reduction.apply(memory.data, elements.reshape(-1), values)
        self.pending.landing = landing


class Deliveries(Struct, frozen=True):
    """Starts the copies or reductions of one instruction. `by_proxy` is true if the instruction uses the async
    proxy."""

    site: Site
    reduction: BulkReduction | None
    by_proxy: bool

    def start(self, g: Any, starts: Any, size: int, keys: Any, values: Any = None, source: int = 0) -> None:
        """Starts one delivery for each mbarrier. `keys` contains the mbarrier of each lane. `starts` and `values` are
        as in `Delivery`. If `values` is None, a single lane copies `size` bytes from the offset `source`."""
        for key, lanes in teams(keys).items():
            part = g.part(np.array(lanes))
            own = None if values is None else values[lanes]
            g.wave.mbarriers.await_copy(key, self.made(part, starts[lanes], size, own, source))

    def made(self, g: Any, starts: Any, size: int, values: Any, source: int) -> Delivery:
        wave, memory, site = g.wave, g.wave.spaces["shared"], self.site
        place = shared_place(starts, size) if values is None else SpacePlace(size, g.n, 0, starts // size)
        rows = g.part(np.repeat(np.arange(g.n), place.lanes // g.n))
        reading = None if values is not None else self.read(g, source, size)
        if self.by_proxy:
            does = "a bulk copy writes" if self.reduction is None else "a bulk reduction changes"
            g.launch.proxies.check(memory, place, rows, site, does, overwrites=True)
        pending = None
        wave.copies.made += 1
        units = place.units(memory.shadow.granule)
        if self.reduction is not None:
            pending = start_reduction(memory, place, rows, site, self.reduction, self.by_proxy)
        else:
            with wave.ordering.of_copies(self.by_proxy):
                memory.shadow.start_copy(place, rows, site, by_proxy=self.by_proxy)
            landings_of(memory, wave).started(units, np.full(len(units), wave.copies.made))
        began = 0 if wave.time is None else wave.time.behind(g.index())
        own = (self.reduction, pending, units.reshape(-1), wave.copies.made, int(np.max(began)))
        return Delivery(wave, g, site, starts, size, values, source, reading, *own)

    def read(self, g: Any, source: int, size: int) -> Operation:
        """Creates the operation that reads the source in the block's own shared memory. No thread may write to the
        source until the bytes have arrived."""
        memory = g.wave.spaces["shared"]
        place = shared_place(np.array([source]), size)
        rows = g.part(np.zeros(place.lanes, np.int64))
        g.launch.proxies.check(memory, place, rows, self.site, "a bulk copy reads")
        memory.shadow.access(PLAIN_READ, place, rows, self.site, record=False)
        zero, readers = np.zeros(1, np.int64), np.zeros(place.lanes, np.int64)
        stamps = g.lane("gid stamp") | U(self.site.stamp)
        found = Operation(self.site, g.index(), zero, zero, memory, place, memory, [(readers, place)], stamps)
        sources_of(memory).add(g.wave, found)
        return found
