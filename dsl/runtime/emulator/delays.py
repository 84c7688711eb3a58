"""Delays strong writes for some threads, so that one load may return different values to the threads of a block.

The emulator runs threads in lockstep, so all of them would load the same value of a flag. On a GPU, each thread loads
the flag at its own time. So the emulator keeps the value that a strong write overwrites. A thread's first load after
the write may still return this old value, unless the write is ordered before the load. With a seed, random threads get
the old value. Without a seed, the threads whose number has an odd number of 1 bits get the old value. After a thread
has loaded the old value, its next load returns the new value.

The memory model allows the old value under three conditions (PTX ISA 8.10). First, the new write is not before the load
in causality order. Second, the new write directly follows the write of the old value in coherence order. Third, the
thread cannot have observed the new write in another way. The emulator checks the third condition for whole blocks:
since the new write, no thread of the block may have loaded an old value or learned of accesses through synchronisation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .shadow import PLAIN_WRITE, AccessKind, SpacePlace
from .spaces import Space
from .stamps import LAST_TIME, U, threads_of, times

# For each thread of a block: does its number have an odd number of 1 bits? Threads 2 n and 2 n + 1 always differ, so
# one of them gets the old value and the other the new value.
ODD = np.array([bin(thread).count("1") & 1 for thread in range(1024)], bool)


class Delays:
    """Stores the values that the last strong writes to a memory space have overwritten."""

    def __init__(self, space: Space):
        self.space, self.shadow = space, space.shadow
        self.before = Space(np.zeros_like(space.data), None)
        self.stamps = np.zeros(self.shadow.count, U)  # of these writes; 0 if there was none, or several at once

    def wrote(self, place: SpacePlace, g: Any, site: Any, before: Any, dtype: Any, count: int) -> None:
        """Records a strong write. `before` contains the values that the write overwrites."""
        granule = self.shadow.granule
        stamps = g.stamps(site)
        column = stamps[:, None] if place.size != granule else stamps
        self.before.store(place, before, dtype, count)
        place.put(self.stamps, granule, column)
        if place.index is not None:
            lost = place.take(self.stamps, granule) != column
            # If several lanes wrote to the same place, the place has no single old value. Then no thread gets an old
            # value.
            if lost.any():
                place.restricted(np.flatnonzero(lost if lost.ndim == 1 else lost.any(1))).put(
                    self.stamps, granule, U(0)
                )

    def read(self, place: SpacePlace, g: Any, values: Any, dtype: Any, count: int) -> tuple[Any, Any]:
        """Returns (loaded values, mask [lanes, count] of old values) of a strong load. The mask is None if no value is
        old."""
        late = self.late(place, g, count)
        if late is None:
            return values, None
        late &= self.choose(late.any(1), g)[:, None]
        before = self.before.load(place, dtype, count)
        return np.where(late if count > 1 else late[:, 0], before, values), late

    def polled(self, place: SpacePlace, g: Any, dtype: Any, unchanged: Any) -> tuple[Any, Any]:
        """Returns (old values, mask of the lanes that get them) for an atomic operation, or (None, None) if no lane
        gets an old value. A lane gets the old value only if the operation does not change it, such as a failed
        compare-and-swap."""
        late = self.late(place, g, 1)
        if late is None:
            return None, None
        before = self.before.load(place, dtype, 1)
        lanes = late[:, 0] & unchanged(before)
        return (before, self.choose(lanes, g)) if lanes.any() else (None, None)

    def late(self, place: SpacePlace, g: Any, count: int) -> Any:
        """Returns a mask [lanes, count] of the elements for which a lane may still load the value from before the last
        strong write. Returns None if there is no such element."""
        met = place.take(self.stamps, self.shadow.granule).reshape(g.n, -1)
        if not met.any():
            return None
        stamps = of_elements(met, count)
        whole = (of_elements(met, count, True) == stamps) & (stamps != 0)
        slots, learned = g.lane("slot"), g.ordering.learned
        late = whole & (times(stamps) > learned[slots].astype(U)[:, None])
        late &= threads_of(stamps) != g.lane("gid")[:, None]
        if late.any():
            self.leave_unordered(late, stamps, place, g)
            # So a block gets the old value at most once for each write, and a polling loop can end.
            learned[slots[late.any(1)]] = g.ordering.clock.now
        return late if late.any() else None

    def leave_unordered(self, late: Any, stamps: Any, place: SpacePlace, g: Any) -> None:
        """Clears `late` for an element if its strong write is ordered before the load, or if a plain write followed the
        strong write."""
        lanes, elements = np.nonzero(late)
        asked = stamps[lanes, elements]
        at = place.start + lanes if place.index is None else place.index[lanes]
        addresses = self.shadow.base + at * place.size + elements * (place.size // late.shape[1])
        ok = g.ordering.ordered(asked, addresses, g, lanes)
        # A plain write after the strong write has replaced both values.
        plain = self.shadow.records.get(AccessKind(PLAIN_WRITE))
        if plain is not None:
            since = place.take(plain, self.shadow.granule).reshape(g.n, -1)
            since = times(of_elements(since, late.shape[1], True)[lanes, elements])
            ok |= (since >= times(asked)) & (since != U(LAST_TIME))
        late[lanes[ok], elements[ok]] = False

    def choose(self, late: Any, g: Any) -> Any:
        """Chooses the lanes that get the old value, among those in the mask `late`."""
        launch, lanes = g.launch, np.flatnonzero(late)
        if launch.seed:
            odd = launch.random.random(len(lanes)) < 0.5
        else:
            odd = ODD[(g.lane("gid")[lanes] % U(launch.block_lanes)).astype(np.int64)]
        if odd.any() and not odd.all():
            g.wave.block_meetings.note_split(g.index()[lanes[odd]], g.index()[lanes[~odd]])
        found = late.copy()
        found[lanes[~odd]] = False
        return found


def of_elements(stamps: Any, count: int, greatest: bool = False) -> Any:
    """Converts stamps of granules, [lanes, granules], to stamps of elements, [lanes, count]. If an element consists of
    several granules, takes the least of their stamps, or the greatest if `greatest` is true."""
    lanes, granules = stamps.shape
    if granules < count:
        return np.repeat(stamps, count // granules, 1)
    parts = stamps.reshape(lanes, count, -1)
    return parts.max(2) if greatest else parts.min(2)
