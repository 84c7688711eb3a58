"""Checks `wgmma` products in flight: nobody may overwrite their operands, and they must see earlier writes.

A product reads shared memory from its issue until its threads have waited for its group. Until then nobody may write
the operands (`copies.py`). Afterwards a thread may write them only if it knows that each of the reading warps has
waited. Products read through the asynchronous proxy. So they see the writes of ordinary stores and of `cp.async` only
after a `fence.proxy.async`. Either the writing thread executes it, or the multiplying thread does after a barrier that
follows the write. The four warps of a warp group must issue the same products, which is checked at the end of the wave.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .code import Site
from .copies import Copies, Operation
from .findings import Kind
from .shadow import PLAIN_READ, PLAIN_WRITE, STRONG_READ, WRITES, SpacePlace
from .spaces import Space
from .stamps import THREAD_SHIFT, TIME_SHIFT, U, threads_of, times

# Number of warps of a warp group. These warps issue products together.
GROUP = 4
# The multiplier of a running hash: 2^64 divided by the golden ratio, an odd number.
FACTOR = U(0x9E3779B97F4A7C15)
# Number of bytes of a chunk. Products read whole chunks.
CHUNK = 16


class TilePlace(SpacePlace):
    """The tiles of shared memory that products read, as arrays of 16-byte chunks. Each warp in `warps` (numbers in the
    wave) reads one tile, and several warps may read the same tile.

    `units_of_warps` has the chunk numbers, [warps, chunks]. `which` has the tile of each warp. For each tile, `first`
    has the index of a warp that reads it.
    """

    warps: Any = None
    units_of_warps: Any = None
    first: Any = None
    which: Any = None

    @classmethod
    def of(cls, warps: Any, units: Any) -> TilePlace:
        """Makes a place from `units`, an array [warps, chunks] of chunk numbers in the wave's shared memory. Tiles with
        the same first chunk must be the same tile."""
        _, first, which = np.unique(units[:, 0], return_index=True, return_inverse=True)
        return cls(CHUNK, units.size, 0, units.reshape(-1), False, warps, units, first, which)

    def covered(self, granule: int) -> Any:
        return SpacePlace(CHUNK, 0, 0, self.units_of_warps[self.first].reshape(-1)).units(granule).reshape(-1)

    def restricted(self, lanes: Any) -> TilePlace:
        """Returns the tiles of the warps to which `lanes` belong. All lanes of a warp wait together."""
        chosen = np.unique(lanes // self.units_of_warps.shape[1])
        return TilePlace.of(self.warps[chosen], self.units_of_warps[chosen])


class Products(Copies):
    """The wgmma products of a wave that are in flight. `issued` has, for each warp, a hash of all products that it has
    issued. `sites` has the last product instruction of each warp group. `places` caches operands' places by their
    descriptors."""

    def __init__(self, wave: Any):
        super().__init__(wave)
        self.issued = np.zeros(wave.lanes // 32, U)
        self.sites: dict[int, Site] = {}
        self.places: dict[Any, tuple[TilePlace, list[SpacePlace]]] = {}

    def complete(self, operation: Operation) -> None:
        """Completes an operation's products after their warps have waited for them."""
        shadow = operation.device.shadow
        if shadow.readings is None:
            shadow.readings = Readings(self.wave)
        for _, place in operation.sources:
            assert isinstance(place, TilePlace)
            shadow.readings.add(place, operation.site, self.wave.ordering.clock.now)

    def note(self, g: Any, site: Site, operands: Any) -> None:
        """Records that these warps issue a product. `operands` has one number for each warp, which must be the same for
        the four warps of a warp group."""
        warps = g.index()[::32] >> 5
        # One hash of all products so far, so that four warps are compared by one number each.
        self.issued[warps] = (self.issued[warps] ^ operands ^ U(site.number + 1)) * FACTOR
        self.sites.update(dict.fromkeys((warps // GROUP).tolist(), site))

    def end(self) -> None:
        """At the end of the wave, reports warp groups whose warps have not issued the same products."""
        if not self.sites:
            return
        per_block = self.wave.block_lanes // 32
        for slot in range(self.wave.slots):
            marks = self.issued[slot * per_block : (slot + 1) * per_block]
            for first in range(0, per_block, GROUP):
                group = marks[first : first + GROUP]
                if len(group) == GROUP and not (group != group[0]).any():
                    continue
                if group.any():
                    self.report(slot * per_block + first, group)

    def report(self, first: int, group: Any) -> None:
        message = f"the block's last {len(group)} warps are no warp group, which has {GROUP}"
        if len(group) == GROUP:
            message = "the four warps of a warp group have issued different products"
        site = next(each for warp, each in self.sites.items() if warp == first // GROUP or len(group) < GROUP)
        lanes = self.wave.lanes_at(np.arange(32 * first, 32 * first + 32))
        self.wave.launch.report(Kind.MISSING_LANE, message, lanes, 0, site)


class Readings:
    """The reads of a wave's shared memory by completed products.

    A product belongs to a warp. A thread may write the operands once it knows that any lane of the warp has waited. So
    one lane's arrival for each warp frees a pipeline stage, and reads are stored by warp and not by lane. `stamps` is
    an array [warps of a block, chunks of 16 bytes]. Each stamp has the time of the warp's last wait for a product that
    read the chunk, and names lane 0 of the warp.
    """

    def __init__(self, wave: Any):
        self.wave = wave
        self.stamps = np.zeros((wave.block_lanes // 32, len(wave.spaces["shared"].data) // CHUNK), U)
        self.warps: list[int] = []  # warps of a block that have issued products

    def add(self, place: TilePlace, site: Site, now: int) -> None:
        """Records that these warps have read these chunks, and have waited for the product."""
        warps = place.warps % (self.wave.block_lanes // 32)
        self.warps = sorted({*self.warps, *warps.tolist()})
        stamps = self.wave.constant("gid stamp")[32 * place.warps] | U(now << TIME_SHIFT | site.stamp)
        self.stamps[warps[:, None], place.units_of_warps] = stamps[:, None]

    def check_write(self, place: SpacePlace, g: Any, site: Site) -> None:
        """Reports a write by a thread that does not know of a wait by each warp that has read the memory.

        For each lane and each warp, only the warp's latest wait is checked, since the earlier ones came before it.
        """
        chunks = place.widened(CHUNK) if place.size < CHUNK else place
        boxes = g.n // g.each
        met = [chunks.take(self.stamps[warp], CHUNK).reshape(boxes, -1).max(1) for warp in self.warps]
        latest = np.stack(met)
        asked = latest >= g.limit()[:: g.each] if g.wave.cluster == 1 else latest != 0
        asked &= latest != 0
        if asked.any():
            self.check_waits(latest[asked], np.nonzero(asked)[1] * g.each, g, site)

    def check_waits(self, stamps: Any, lanes: Any, g: Any, site: Site) -> None:
        """Reports a lane that knows of no wait by any lane of the stamp's warp. `lanes` has a position in the group for
        each stamp."""
        every = np.repeat(stamps, 32) + np.tile(np.arange(32, dtype=U) << U(THREAD_SHIFT), len(stamps))
        known = g.ordering.ordered(every, np.zeros(len(every), np.int64), g, np.repeat(lanes, 32))
        unknown = np.flatnonzero(~known.reshape(-1, 32).any(1))
        if len(unknown):
            reader = g.launch.origins.author(stamps[unknown[0]])
            message = "writes shared memory that a product has read, with nothing after its wait to order the two"
            g.launch.report(Kind.RACE, message, g, int(lanes[unknown[0]]), site, f"read by {reader}")


READS_AND_WRITES = {*WRITES, PLAIN_READ, STRONG_READ}


class ProxyFences:
    """The `fence.proxy.async` that threads have executed, for one memory space. `own` has the time of each thread's
    last fence. `block` has the time of the block's last barrier before that fence."""

    def __init__(self, threads: int):
        self.own = np.zeros(threads, U)
        self.block = np.zeros(threads, U)

    def fence(self, g: Any) -> None:
        """Makes earlier accesses visible to the asynchronous proxy: the accesses of these threads, and those that a
        barrier of their block has ordered before the fence."""
        who, ordering = g.lane("gid").astype(np.int64), g.wave.ordering
        self.own[who] = ordering.clock.tick()
        self.block[who] = ordering.block_since[g.lane("slot")]

    def unfenced(self, met: Any, g: Any) -> Any:
        """Returns a mask of the writes (stamps in `met`) that no fence separates from the current access."""
        who, when = threads_of(met).astype(np.int64), times(met)
        mine = g.lane("gid").astype(np.int64)
        behind = self.block[mine]
        if met.ndim == 2:
            mine, behind = mine[:, None], behind[:, None]
        lanes = g.wave.block_lanes
        return (met != 0) & (when > self.own[who]) & ~((who // lanes == mine // lanes) & (when < behind))

    def in_flight(self, met: Any, g: Any) -> Any:
        """Returns a mask of the reads (stamps in `met`) that may not have finished, although their thread has gone on.

        A barrier of the block waits for its threads' loads, so reads before the block's last barrier have finished.
        Reads by copies are excluded, since copies read through the asynchronous proxy.
        """
        since = g.wave.ordering.block_since[g.lane("slot")]
        late = times(met) > (since[:, None] if met.ndim == 2 else since)
        sites = {int(stamp): g.launch.origins.site_of(int(stamp)) for stamp in np.unique(met[late])}
        by_copies = [stamp for stamp, site in sites.items() if site is not None and site.ins.opcode[0] == "cp"]
        return late & ~np.isin(met, by_copies)

    def check(self, memory: Space, place: SpacePlace, g: Any, site: Site, does: str, overwrites: bool = False) -> None:
        """Reports bytes that ordinary stores have written, and that an access through the asynchronous proxy may not
        see. `does` is the access in words, such as "a tensor copy reads".

        With `overwrites`, bytes that ordinary loads have read are reported, too. An `ldmatrix` may finish after its
        thread's arrival at an mbarrier, and a copy may overwrite the bytes before. On an H100 such copies made 3 of
        2,971 random kernels wrong (ptxas 13.0).
        """
        shadow = memory.shadow
        for kind, record in shadow.records.items():
            if kind.base not in (READS_AND_WRITES if overwrites else WRITES) or kind.proxy:
                continue
            met = place.take(record, shadow.granule)
            if kind.base == PLAIN_WRITE and shadow.by_proxy is not None:
                met = np.where(place.take(shadow.by_proxy, shadow.granule), U(0), met)
            if not met.any():
                continue
            bad = self.unfenced(met, g)
            if kind.base not in WRITES and bad.any():
                bad &= self.in_flight(met, g)
            if bad.any():
                where = np.nonzero(bad)
                author = g.launch.origins.author(met[tuple(axis[0] for axis in where)])
                done = "written" if kind.base in WRITES else "read"
                message = f"{does} {shadow.name} memory that was {done} without a fence.proxy.async after it"
                g.launch.report(Kind.RACE, message, g, int(where[0][0]), site, f"{done} by {author}")
                return
