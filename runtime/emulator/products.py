"""Products of warp groups (`wgmma`) in flight, and what the asynchronous proxy, which they read by, may see.

A product reads shared memory from its issue until its threads have waited for its group: nobody may write there
meanwhile (`copies.py`). It sees what ordinary stores and `cp.async` have written if a `fence.proxy.async` stands
between: of the thread that wrote, or of the one that multiplies, behind a barrier after the write. Four warps issue it
together, which is told where the wave ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .code import Site
from .copies import Copies
from .findings import Kind
from .shadow import PLAIN_WRITE, STRONG_WRITE, SpacePlace
from .spaces import Space
from .stamps import SITE_MASK, U, threads_of, times

GROUP = 4
"""Warps that multiply together."""
FACTOR = U(0x9E3779B97F4A7C15)  # of a running hash, odd


class Products(Copies):
    """The products in flight of a wave. issued: a hash of what each warp has issued; sites: its last one."""

    def __init__(self, wave: Any):
        super().__init__(wave)
        self.issued = np.zeros(wave.lanes // 32, U)
        self.sites: dict[int, Site] = {}

    def note(self, g: Any, site: Site, operands: Any) -> None:
        """That these warps issue a product. operands: [warps], what is the same for all four."""
        warps = g.index()[::32] >> 5
        self.issued[warps] = (self.issued[warps] ^ operands ^ U(site.number + 1)) * FACTOR
        self.sites.update(dict.fromkeys((warps // GROUP).tolist(), site))

    def end(self) -> None:
        """The wave has ended: its warp groups have issued the same products, warp by warp."""
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


class ProxyFences:
    """When each thread of a launch has fenced the asynchronous proxy, and what it knew of its block then."""

    def __init__(self, threads: int):
        self.own = np.zeros(threads, U)
        self.block = np.zeros(threads, U)

    def fence(self, g: Any) -> None:
        """What these threads have done, and what a barrier has ordered before them, is before what they read so."""
        who, ordering = g.lane("gid").astype(np.int64), g.wave.ordering
        self.own[who] = ordering.clock.tick()
        self.block[who] = ordering.block_since[g.lane("slot")]

    def check(self, memory: Space, place: SpacePlace, g: Any, site: Site) -> None:
        """Reports bytes written by ordinary means that a read by the asynchronous proxy may not see."""
        shadow = memory.shadow
        assert shadow is not None
        for kind, record in shadow.records.items():
            if kind.base not in (PLAIN_WRITE, STRONG_WRITE):
                continue
            met = place.take(record, shadow.granule)
            if not met.any():
                continue
            who, when = threads_of(met).astype(np.int64), times(met)
            mine = g.lane("gid").astype(np.int64)
            behind = self.block[mine] if met.ndim == 1 else self.block[mine][:, None]
            lanes = U(g.wave.block_lanes)
            in_block = who // int(lanes) == (mine if met.ndim == 1 else mine[:, None]) // int(lanes)
            bad = (met != 0) & (when > self.own[who]) & ~(in_block & (when < behind))
            if bad.any():
                where = np.nonzero(bad)
                stamp = int(met[tuple(axis[0] for axis in where)])
                author = g.launch.who(int(threads_of(U(stamp))), stamp & SITE_MASK)
                message = "wgmma reads shared memory that was written without a fence.proxy.async behind it"
                g.launch.report(Kind.RACE, message, g, int(where[0][0]), site, f"written by {author}")
                return
