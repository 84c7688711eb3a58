"""Strong writes that are seen late: one instruction may load two values for the threads of one block.

The threads of a wave run in lockstep, so a flag that each of them loads would have one value for all. On a GPU each
load happens at a time of its own. So a strong write keeps the value that it replaces, and the first loads that nothing
orders after it give some threads the old value: with a seed random ones, else those with an odd number of ones in their
number. The next load of such a thread gives the new value.

The memory model allows each of these values (PTX ISA 8.10): the write is not before the load in causality order, the
value is that of its predecessor in coherence order, and the thread cannot have observed the write by another way. The
last is kept for whole blocks, by time: the block has neither read a late write nor learned anything since.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .shadow import PLAIN_WRITE, AccessKind, SpacePlace
from .spaces import Space
from .stamps import LAST_TIME, U, threads_of, times

# By thread of a block: has its number an odd number of ones? So no aligned pair of lanes loads one value only.
ODD = np.array([bin(thread).count("1") & 1 for thread in range(1024)], bool)


class Delays:
    """The values that the last strong writes to a space have replaced."""

    def __init__(self, space: Space):
        assert space.shadow is not None
        self.space, self.shadow = space, space.shadow
        self.before = Space(np.zeros_like(space.data), None)
        self.stamps = np.zeros(self.shadow.count, U)  # of those writes; 0 without one, or with several at once

    def wrote(self, place: SpacePlace, g: Any, site: Any, before: Any, dtype: Any, count: int) -> None:
        """A strong write has happened. `before` is what was there."""
        granule = self.shadow.granule
        stamps = g.stamps(site)
        column = stamps[:, None] if place.size != granule else stamps
        self.before.store(place, before, dtype, count)
        place.put(self.stamps, granule, column)
        if place.index is not None:
            lost = place.take(self.stamps, granule) != column
            # Several lanes wrote one place: no single earlier value belongs to it, so nobody sees it late.
            if lost.any():
                place.restricted(np.flatnonzero(lost if lost.ndim == 1 else lost.any(1))).put(
                    self.stamps, granule, U(0)
                )

    def read(self, place: SpacePlace, g: Any, values: Any, dtype: Any, count: int) -> tuple[Any, Any]:
        """(values of a strong load, which of them are earlier ones: [lanes, count], or None)."""
        late = self.late(place, g, count)
        if late is None:
            return values, None
        late &= self.choose(late.any(1), g)[:, None]
        before = self.before.load(place, dtype, count)
        return np.where(late if count > 1 else late[:, 0], before, values), late

    def polled(self, place: SpacePlace, g: Any, dtype: Any, unchanged: Any) -> tuple[Any, Any]:
        """(earlier values, which lanes get them: [lanes]) for an atomic operation that would leave those values as they
        are."""
        late = self.late(place, g, 1)
        if late is None:
            return None, None
        before = self.before.load(place, dtype, 1)
        lanes = late[:, 0] & unchanged(before)
        return (before, self.choose(lanes, g)) if lanes.any() else (None, None)

    def late(self, place: SpacePlace, g: Any, count: int) -> Any:
        """[lanes, count]: which elements meet a write that their lane need not see yet. None if there are none."""
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
            # So a block sees each write late at most once, and a loop that polls goes on.
            learned[slots[late.any(1)]] = g.ordering.clock.now
        return late if late.any() else None

    def leave_unordered(self, late: Any, stamps: Any, place: SpacePlace, g: Any) -> None:
        """Removes elements for which something orders the write, or a later plain one, before the load."""
        lanes, elements = np.nonzero(late)
        asked = stamps[lanes, elements]
        at = place.start + lanes if place.index is None else place.index[lanes]
        addresses = self.shadow.base + at * place.size + elements * (place.size // late.shape[1])
        ok = g.ordering.ordered(asked, addresses, g, lanes)
        # A plain write since then has replaced both values.
        plain = self.shadow.records.get(AccessKind(PLAIN_WRITE))
        if plain is not None:
            since = place.take(plain, self.shadow.granule).reshape(g.n, -1)
            since = times(of_elements(since, late.shape[1], True)[lanes, elements])
            ok |= (since >= times(asked)) & (since != U(LAST_TIME))
        late[lanes[ok], elements[ok]] = False

    def choose(self, late: Any, g: Any) -> Any:
        """Which of the lanes in `late` get the old value."""
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
    """[lanes, count] from the stamps of granules. If an element has several, the least of them, or the greatest."""
    lanes, granules = stamps.shape
    if granules < count:
        return np.repeat(stamps, count // granules, 1)
    parts = stamps.reshape(lanes, count, -1)
    return parts.max(2) if greatest else parts.min(2)
