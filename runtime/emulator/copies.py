"""Asynchronous operations: what one reads, what it writes, how it completes.

A `cp.async` is such an operation, completed by a group that its thread waits for.  At issue its destination is in
flight; at completion the destination becomes a write of the issuing thread, made then, and the source must still hold
what was copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .code import Site
from .findings import Kind
from .ordering import U
from .shadow import Place
from .spaces import Space


@dataclass
class Operation:
    """Copies in flight, issued by one instruction for some threads (positions in the wave)."""

    site: Site
    threads: Any
    groups: Any  # the number of the group, of its thread, that each copy belongs to
    memory: Space
    target: Place
    device: Space
    source_lanes: Any  # positions among `threads` of those that read a source, for `source` and `data`
    source: Place | None
    data: Any
    dtype: Any
    count: int
    stamps: Any  # without the time


class Copies:
    """The asynchronous copies of a wave."""

    def __init__(self, wave: Any):
        self.wave = wave
        self.open = np.zeros(wave.lanes, np.int64)
        self.pending: list[Operation] = []

    def start(
        self,
        g: Any,
        site: Site,
        memory: Space,
        target: Place,
        device: Space,
        source_lanes: Any,
        source: Place | None,
        data: Any,
        dtype: Any,
        count: int,
    ) -> None:
        threads = g.index()
        stamps = g.lane("gid stamp") | U(site.stamp)
        groups = self.open[threads]
        self.pending.append(
            Operation(site, threads, groups, memory, target, device, source_lanes, source, data, dtype, count, stamps)
        )

    def commit(self, g: Any) -> None:
        self.open[g.index()] += 1

    def wait(self, g: Any, allowed: int | None) -> None:
        """Completes all but the `allowed` latest committed groups of these threads; None completes everything."""
        if not self.pending:
            return
        done_below = np.zeros(self.wave.lanes, np.int64)
        index = g.index()
        done_below[index] = self.open[index] + 1 if allowed is None else self.open[index] - allowed
        rest = []
        for operation in self.pending:
            done = operation.groups < done_below[operation.threads]
            if done.any():
                remaining = self.complete(operation, done, g)
                if remaining is not None:
                    rest.append(remaining)
            else:
                rest.append(operation)
        self.pending = rest

    def complete(self, operation: Operation, done: Any, g: Any) -> Operation | None:
        lanes = np.flatnonzero(done)
        everything = len(lanes) == len(done)
        target = operation.target if everything else operation.target.restricted(lanes)
        shadow = operation.memory.shadow
        assert shadow is not None
        shadow.finish_copy(target, operation.stamps[lanes], self.wave.ordering.clock.now)
        if operation.source is not None:
            self.check_source(operation, done, g)
        if everything:
            return None
        keep = np.flatnonzero(~done)
        position = np.cumsum(~done) - 1
        kept = ~done[operation.source_lanes]
        source = None if operation.source is None else operation.source.restricted(np.flatnonzero(kept))
        return Operation(
            operation.site,
            operation.threads[keep],
            operation.groups[keep],
            operation.memory,
            operation.target.restricted(keep),
            operation.device,
            position[operation.source_lanes[kept]],
            source,
            operation.data[kept],
            operation.dtype,
            operation.count,
            operation.stamps[keep],
        )

    def check_source(self, operation: Operation, done: Any, g: Any) -> None:
        assert operation.source is not None
        now = operation.device.load(operation.source, operation.dtype, operation.count)
        changed = (now.reshape(-1, operation.count) != operation.data).any(1) & done[operation.source_lanes]
        if changed.any():
            lane = int(operation.source_lanes[np.flatnonzero(changed)[0]])
            part = g.wave.lanes_at(operation.threads[lane : lane + 1])
            message = "the source of an asynchronous copy changed before the copy was complete"
            g.launch.report(Kind.SOURCE_CHANGED, message, part, 0, operation.site)
