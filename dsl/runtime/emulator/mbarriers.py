"""mbarrier objects (PTX ISA 9.7.13.15): phases that complete when the expected arrivals and bytes have come.

The object's 64 bits in shared memory are opaque, so the state is kept beside it, by its place. To the shadow memory
`init` is a plain write and every other operation is strong: an operation that nothing orders after `init` is a race. No
other instruction may touch a valid object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from .answers import DOUBTED, IGNORED, REPEATS
from .code import Site
from .copies import Tracked
from .findings import Kind
from .knowledge import Snapshot
from .landings import Landing
from .memory import RANK_SHIFT
from .relaxed import BLOCK, CLUSTER
from .shadow import PLAIN_WRITE, STRONG_READ, STRONG_WRITE, AccessKind, SpacePlace
from .spaces import BadLanes, SharedSpace, Space
from .stamps import SITE_MASK, U, threads_of, times

BYTES = 8
# Arrivals, and bytes, that an object can count: 2^20 - 1 (PTX ISA 9.7.13.15.2).
MOST = (1 << 20) - 1
# A state, the token that an arrival returns: the pending count before it, the phase, the object.
PHASE_SHIFT, OBJECT_SHIFT = 20, 44
PHASE_MASK = (1 << OBJECT_SHIFT - PHASE_SHIFT) - 1
OBJECT_MASK = (1 << 64 - OBJECT_SHIFT) - 1
# Index in `arriving` and `published` of an order for copies alone. An arrival at another block's object publishes there
# if it names no scope of the cluster. All such code relies on it, though PTX does not state it: with `.release.cluster`
# ptxas 13.0 emits MEMBAR.ALL.GPU in each iteration.
COPIES = CLUSTER + 1
# Completed phases, from the last one back, whose copies a wait makes known.
KEPT_LANDINGS = 4
# How often a wait says in vain that a phase is not complete, if its "no" may lead elsewhere: a text may count that many
# tries before it goes on. With three, a loop that gave up after ten tries was never found.
DENIALS = 128
# A thread that got 1,024 such answers at one wait gets only three a phase from then on, so that a wait in a long loop
# stays cheap.
FEW_DENIALS, MOST_DENIALS = 3, 1024


class ArrivingCopy(Protocol):
    """A copy whose bytes an mbarrier counts."""

    part: Any  # who started it
    site: Site
    began: int  # the logical time

    @property
    def bytes(self) -> int: ...

    def land(self, landing: Landing) -> None:
        """Its bytes are there."""


@dataclass(frozen=True)
class ArrivalOrder:
    """What an arrival or a wait orders. reach: with which threads. relaxed: only together with a fence."""

    reach: int = BLOCK
    relaxed: bool = False


ORDERS = ArrivalOrder()


@dataclass
class Mbarrier:
    number: int  # of the object, in its wave
    expected: int
    pending: int
    phase: int = 0
    bytes: int = 0
    # What the arrivals of this phase know, and what the completed phases have published. There are three of each: for
    # waits of block scope, for waits of cluster scope, and for copies that are started after a wait.
    arriving: list[Snapshot | None] = field(default_factory=lambda: [None] * 3)
    published: list[Snapshot | None] = field(default_factory=lambda: [None] * 3)
    deferred: list[Tracked] = field(default_factory=list)  # arrivals of asynchronous copies, which may come late
    loads: list[ArrivingCopy] = field(default_factory=list)  # copies whose bytes are still to come
    landing: Landing | None = None  # the copies that have arrived in this phase
    landed: list[Landing] = field(default_factory=list)  # those of the last phases
    coming: int = 0  # logical time of the last arrival of this phase, or of the start of a copy
    came: int = 0  # the same of the last complete phase

    def join(self, known: Snapshot | None, reach: int) -> None:
        """Adds what an arriving thread knows. Waits of block scope learn nothing from a thread of another block
        (`reach` CLUSTER)."""
        if known is None:
            return
        for each in range(reach, max(reach, CLUSTER) + 1):
            self.arriving[each] = joined(self.arriving[each], known)

    def arrived(self) -> Landing:
        """The landing of the copies that arrive in this phase."""
        if self.landing is None:
            self.landing = Landing()
        return self.landing

    def advance(self) -> bool:
        """Completes the phase if no arrival and no byte is missing. Returns whether it did."""
        if self.pending or self.bytes:
            return False
        self.phase += 1
        self.pending = self.expected
        self.came, self.coming = max(self.came, self.coming), 0
        self.published = [joined(*each) for each in zip(self.published, self.arriving, strict=True)]
        self.arriving = [None] * 3
        if self.landing is not None:
            self.landed = [*self.landed, self.landing][-KEPT_LANDINGS:]
            self.landing = None
        return True

    def state(self) -> int:
        """The token that an arrival returns."""
        return self.pending | (self.phase & PHASE_MASK) << PHASE_SHIFT | (self.number & OBJECT_MASK) << OBJECT_SHIFT


class Mbarriers:
    """The mbarrier objects of a wave, by the number of their 8 bytes in the wave's shared memory."""

    def __init__(self, wave: Any):
        self.wave = wave
        self.objects: dict[int, Mbarrier] = {}
        self.made = 0
        self.waiting: set[int] = set()
        # By doubted wait and thread: how many answers were "no" in vain since the last "yes", and before it.
        self.denied: dict[int, Any] = {}
        self.denied_before: dict[int, Any] = {}
        # By thread: the wait that answered "no" in vain and was not repeated. A race after it names this wait.
        self.doubt = np.full(wave.lanes, -1)
        self.refused = np.zeros(wave.lanes, bool)  # waited for an object that is none, which is reported

    def state(self) -> list[tuple[int, ...]]:
        """Of each object, what decides whether those that wait for it go on."""
        return [
            (key, one.pending, one.phase, one.bytes, len(one.deferred), len(one.loads))
            for key, one in sorted(self.objects.items())
        ]

    # Where they are

    def place(self, g: Any, memory: Space, address: Any, site: Site, own: bool) -> SpacePlace:
        """Where the lanes' objects lie. `own`: the operation is allowed only in the object's own block."""
        # PTX ISA 9.7.13.15: an mbarrier object lies in shared memory, at a multiple of 8.
        if not isinstance(memory, SharedSpace):
            message = "an mbarrier lies in shared memory, which this address does not"
            g.launch.report(Kind.BARRIER_MISUSE, message, g, 0, site)
            raise BadLanes(np.ones(g.n, bool))
        address = np.broadcast_to(address, g.n)
        place = memory.place(address, BYTES, g, site, True, None)
        if own:
            foreign = place.index // (memory.arena // BYTES) != g.lane("slot")
            if foreign.any():
                lane = int(np.flatnonzero(foreign)[0])
                message = "this mbarrier belongs to another block, and only that block's threads may do this"
                g.launch.report(Kind.BARRIER_MISUSE, message, g, lane, site)
                raise BadLanes(foreign)
        return place

    def objects_at(self, g: Any, memory: Space, address: Any, site: Site, own: bool = False) -> tuple[SpacePlace, Any]:
        """(place, numbers of the places) of valid objects. Lanes whose address has none are reported."""
        place = self.place(g, memory, address, site, own)
        return place, self.valid(g, place, address, site)

    def valid(self, g: Any, place: SpacePlace, address: Any, site: Site) -> Any:
        """[lanes] numbers of the places, all of which have valid objects."""
        keys = place.index
        none = [start for start, _ in runs(keys) if int(keys[start]) not in self.objects]
        if none:
            lane = none[0]
            missing = np.isin(keys, keys[none])
            where = int(np.broadcast_to(address, g.n)[lane]) & ((1 << RANK_SHIFT) - 1)
            message = f"no mbarrier was initialised at shared address {where:#x}"
            g.launch.report(Kind.BARRIER_MISUSE, message, g, lane, site)
            raise BadLanes(missing)
        return keys

    def touch(self, kind: int, place: SpacePlace, g: Any, memory: Space, site: Site) -> None:
        """Records the access of an mbarrier instruction. Only these may access a valid object, so that check is off
        meanwhile."""
        shadow = memory.shadow
        assert shadow is not None
        reserved, shadow.reserved = shadow.reserved, None
        try:
            shadow.access(kind, place, g, site)
        finally:
            shadow.reserved = reserved

    # Operations

    def init(self, g: Any, memory: Space, address: Any, counts: Any, site: Site) -> None:
        place = self.place(g, memory, address, site, own=True)
        counts = np.broadcast_to(counts, g.n).astype(np.int64)
        self.check_range(counts, 1, MOST, "an mbarrier expects {} arrivals", g, site)
        self.touch(PLAIN_WRITE, place, g, memory, site)
        for lane, (key, count) in enumerate(zip(place.index.tolist(), counts.tolist(), strict=True)):
            if key in self.objects:
                message = "initialises an mbarrier that is valid already: mbarrier.inval must come between"
                g.launch.report(Kind.BARRIER_MISUSE, message, g, lane, site)
            self.made += 1
            self.objects[key] = Mbarrier(self.made, count, count)
        memory.shadow.reserve(place, True)  # type: ignore[union-attr]

    def invalidate(self, g: Any, memory: Space, address: Any, site: Site) -> None:
        place, keys = self.objects_at(g, memory, address, site, own=True)
        self.note_users(place, g, memory, site)
        self.touch(STRONG_WRITE, place, g, memory, site)
        for lane, key in enumerate(keys.tolist()):
            found = self.objects.pop(key, None)
            if found is not None and (found.deferred or found.loads or key in self.waiting):
                # A later arrival would write to memory that may hold something else by then.
                is_early = found.deferred or found.loads
                what = "asynchronous copies are still to arrive" if is_early else "threads wait"
                g.launch.report(Kind.BARRIER_MISUSE, f"invalidates an mbarrier at which {what}", g, lane, site)
        memory.shadow.reserve(place, False)  # type: ignore[union-attr]

    def note_users(self, place: SpacePlace, g: Any, memory: Space, site: Site) -> None:
        """Notes uses that nothing orders before the end of an object.

        Strictly they may come too late. But libcu++'s pipeline ends its objects after an atomic that one lane of each
        warp makes for all of them, which on every GPU is late enough. So this is a note and no finding.
        """
        for kind in (STRONG_WRITE, STRONG_READ):
            met = memory.shadow.unordered(kind, place, g, site)  # type: ignore[union-attr]
            if met is not None:
                lane, user = met
                message = "invalidates an mbarrier that another thread has used, with nothing to order the two"
                g.launch.note(Kind.RACE, message, g, lane, site, f"used by {user}")

    def transfer(self, g: Any, memory: Space, address: Any, amounts: Any, site: Site, expects: bool) -> None:
        """`expect_tx` adds bytes that the phase waits for; `complete_tx` removes bytes that have come."""
        place, keys = self.objects_at(g, memory, address, site)
        amounts = np.broadcast_to(amounts, g.n).astype(np.int64)
        self.check_range(amounts, 0, MOST, "{} bytes at an mbarrier", g, site)
        self.touch(STRONG_WRITE, place, g, memory, site)
        for lane, (key, amount) in enumerate(zip(keys.tolist(), amounts.tolist(), strict=True)):
            found = self.objects[key]
            found.bytes += amount if expects else -amount
            if abs(found.bytes) > MOST:
                message = f"{abs(found.bytes)} bytes at an mbarrier, which can count {MOST}"
                g.launch.report(Kind.BARRIER_MISUSE, message, g, lane, site)
            # `expect_tx` cannot complete a phase; `complete_tx` can.
            if not expects:
                self.advance(found)

    def check_range(self, values: Any, low: int, high: int, words: str, g: Any, site: Site) -> None:
        wrong = (values < low) | (values > high)
        if wrong.any():
            lane = int(np.flatnonzero(wrong)[0])
            message = f"{words.format(int(values[lane]))}, which must be {low} to {high}"
            g.launch.report(Kind.BARRIER_MISUSE, message, g, lane, site)
            raise BadLanes(wrong)

    def advance(self, found: Mbarrier) -> None:
        if found.advance():
            self.wave.wake_waiters()

    def arrive(
        self,
        g: Any,
        memory: Space,
        address: Any,
        amounts: Any,
        site: Site,
        drops: bool = False,
        order: ArrivalOrder = ORDERS,
        completes: bool = True,
    ) -> Any:
        """Each lane arrives. Returns the states before, which a wait takes. `completes`: may this end the phase?"""
        place, keys = self.objects_at(g, memory, address, site)
        amounts = np.broadcast_to(amounts, g.n).astype(np.int64)
        self.check_range(amounts, 1, MOST, "{} arrivals at an mbarrier", g, site)
        self.touch(STRONG_WRITE, place, g, memory, site)
        state = np.zeros(g.n, np.uint64)
        assert isinstance(memory, SharedSpace)
        owner = place.index // (memory.arena // BYTES) == g.lane("slot")
        for key, lanes in teams(keys).items():
            found = self.objects[key]
            if self.wave.time is not None:
                found.coming = max(found.coming, self.wave.time.behind(g.index()[lanes]))
            members, own = g.index()[lanes], owner[lanes]
            if not own.all():
                found.join(self.wave.ordering.begun(members[~own]), BLOCK)
            known = [
                self.released(members[own == (reach == BLOCK)], reach, order) for reach in (BLOCK, CLUSTER, COPIES)
            ]
            # Lane by lane: several phases may complete within one instruction, and each state is that before its own
            # arrival.
            for lane in lanes.tolist():
                state[lane] = found.state()
                for reach, each in enumerate(known):
                    found.join(each, reach)
                if drops:
                    found.expected -= int(amounts[lane])
                found.pending -= int(amounts[lane])
                self.check_counts(found, g, lane, site, completes)
                self.advance(found)
        return state

    def released(self, members: Any, reach: int, order: ArrivalOrder) -> Any:
        """What these threads publish by arriving. reach: BLOCK for the object's own block, CLUSTER for others, COPIES
        for copies."""
        narrow = order.reach == BLOCK and not order.relaxed
        if not len(members) or (not narrow if reach == COPIES else order.reach < reach):
            return None
        return self.wave.relaxed.released(members, reach) if order.relaxed else self.wave.ordering.snapshot(members)

    def check_counts(self, found: Mbarrier, g: Any, lane: int, site: Site, completes: bool) -> None:
        message = ""
        if found.pending < 0:
            message = "more arrivals at an mbarrier than it expects"
        elif found.expected < 0:
            message = "more arrivals are dropped from an mbarrier than it expects"
        elif not completes and found.pending == 0:
            message = "an arrival with .noComplete completes the phase of its mbarrier"
        if message:
            g.launch.report(Kind.BARRIER_MISUSE, message, g, lane, site)
            found.pending, found.expected = max(found.pending, 0), max(found.expected, 0)

    # Arrivals of asynchronous copies

    def defer(self, g: Any, memory: Space, address: Any, site: Site, raises_pending: bool) -> None:
        """`cp.async.mbarrier.arrive`: arrives once the thread's copies are complete, which may be late.

        Here it arrives as late as possible, when somebody looks at the object. What the thread did before counts as
        released.
        """
        place, keys = self.objects_at(g, memory, address, site, own=True)
        self.touch(STRONG_WRITE, place, g, memory, site)
        for key, lanes in teams(keys).items():
            found = self.objects[key]
            if raises_pending:
                found.pending += len(lanes)
                if found.pending > MOST:
                    message = f"{found.pending} arrivals are pending at an mbarrier, which can count {MOST}"
                    g.launch.report(Kind.BARRIER_MISUSE, message, g, int(lanes[-1]), site)
            found.deferred.append(self.wave.copies.tracked(g, lanes, site))
            if key in self.waiting:
                self.wave.wake_waiters()

    def awaited(self, g: Any, memory: Space, address: Any, site: Site, away: Any = 0, by_proxy: bool = True) -> Any:
        """[lanes] The objects at which copies will arrive. If copies use the asynchronous proxy, that proxy must know
        of the init.

        away: by lane, how many blocks further the object lies, at the same place there.
        """
        place = self.place(g, memory, address, site, own=True)
        assert isinstance(memory, SharedSpace)
        self.wave.visits.check_begun(g, g.lane("slot") + away, site)
        place = SpacePlace(BYTES, g.n, 0, place.index + away * (memory.arena // BYTES))
        keys = self.valid(g, place, address, site)
        if by_proxy:
            self.check_fenced(place, g, memory, site)
        self.touch(STRONG_WRITE, place, g, memory, site)
        return keys

    def check_fenced(self, place: SpacePlace, g: Any, memory: Space, site: Site) -> None:
        """Reports an object that the asynchronous proxy will use, without a fence after its init."""
        shadow = memory.shadow
        assert shadow is not None
        stamps = place.take(shadow.record(AccessKind(PLAIN_WRITE)), shadow.granule)
        inits = stamps if stamps.ndim == 1 else stamps[:, 0]
        own = g.launch.init_fences.own[threads_of(inits).astype(np.int64)]
        bad = np.flatnonzero(g.launch.proxies.unfenced(inits, g) & (times(inits) > own))
        if len(bad):
            stamp = int(inits[bad[0]])
            author = g.launch.who(int(threads_of(U(stamp))), stamp & SITE_MASK)
            message = (
                "a tensor copy arrives at an mbarrier with no fence.mbarrier_init or fence.proxy.async after its init"
            )
            g.launch.report(Kind.RACE, message, g, int(bad[0]), site, f"initialised by {author}")

    def await_copy(self, key: int, load: ArrivingCopy) -> None:
        """A copy will arrive at this object: when somebody looks at it, or at once for some copies if there is a
        seed."""
        self.objects[key].loads.append(load)
        launch = self.wave.launch
        # A thread already waits here, so the copy arrives when it looks again.
        if key in self.waiting:
            self.wave.wake_waiters()
        elif launch.seed and launch.random.integers(2):
            self.settle_loads(self.objects[key])

    def settle_loads(self, found: Mbarrier) -> None:
        loads, found.loads = found.loads, []
        for load in loads:
            load.land(found.arrived())
            # The waiting block learns that the block which started the copy has begun.
            if self.wave.cluster > 1:
                found.join(self.wave.ordering.begun(load.part.index()), BLOCK)
            found.coming = max(found.coming, load.began)
            found.arrived().loads.append(load)
            found.bytes -= load.bytes
            if abs(found.bytes) > MOST:
                message = f"{abs(found.bytes)} bytes at an mbarrier, which can count {MOST}"
                self.wave.launch.report(Kind.BARRIER_MISUSE, message, load.part, 0, load.site)
            self.advance(found)

    def end(self) -> None:
        """The wave has ended: reports copies that nobody has waited for."""
        for found in self.objects.values():
            # Landings without waiters: nobody has waited for the copies of these phases.
            landings = [each for each in (*found.landed, found.landing) if each is not None and not len(each.waiters)]
            for load in [*found.loads, *(load for landing in landings for load in landing.loads)]:
                message = "the block may end while this copy fills its shared memory: nobody has waited for its bytes"
                self.wave.launch.report(Kind.IN_FLIGHT, message, load.part, 0, load.site)

    def settle(self, key: int) -> None:
        """The copies that this object waits for arrive now."""
        found = self.objects.get(key)
        if found is None:
            return
        if found.loads:
            self.settle_loads(found)
        if not found.deferred:
            return
        deferred, found.deferred = found.deferred, []
        for tracked in deferred:
            found.coming = max(found.coming, tracked.began)
            part = self.wave.lanes_at(tracked.threads)
            for lane in range(part.n):
                self.wave.copies.land(tracked, lane, found.arrived())
                found.join(tracked.known, BLOCK)
                found.pending -= 1
                self.check_counts(found, part, lane, tracked.site, completes=True)
                self.advance(found)

    # Waiting

    def own_keys(self, g: Any, address: Any) -> Any:
        """[lanes] Numbers of the places of objects in each lane's own block; -1 where the address cannot have one."""
        memory = self.wave.space("shared")
        rank, offset = address >> RANK_SHIFT, address & ((1 << RANK_SHIFT) - 1)
        inside = (offset >= memory.start) & (offset + BYTES <= memory.end) & (offset % BYTES == 0)
        inside &= (rank == 0) | (rank == g.lane("rank").astype(np.int64) + 1)
        return np.where(inside, (g.lane("slot") * memory.arena + offset) // BYTES, -1)

    def denials(self, g: Any, site: Site) -> Any:
        """[lanes] Which lanes get the answer "not complete" in any case: a device may give it at any time."""
        way = g.launch.program.answers.waits[site.number]
        if way == REPEATS:
            return np.zeros(1, bool)
        if way == IGNORED:
            return np.ones(g.n, bool)
        if site.number not in self.denied:
            # 16 bits are enough for `MOST_DENIALS`.
            self.denied[site.number] = np.zeros(self.wave.lanes, np.int16)
            self.denied_before[site.number] = np.zeros(self.wave.lanes, np.int16)
        index = g.index()
        many = self.denied_before[site.number][index] < MOST_DENIALS
        return self.denied[site.number][index] < np.where(many, DENIALS, FEW_DENIALS)

    def answered(self, g: Any, site: Site, denied: Any, done: Any) -> None:
        """Counts which lanes got "no" in vain, and which "yes"."""
        way, index = g.launch.program.answers.waits[site.number], g.index()
        if way == REPEATS:
            return
        if way == DOUBTED:
            counts, before = self.denied[site.number], self.denied_before[site.number]
            before[index] = np.minimum(before[index] + np.where(done, counts[index], 0), MOST_DENIALS)
            counts[index] = np.where(done, 0, counts[index] + denied)
        self.doubt[index[denied]] = site.number
        self.doubt[index[done]] = -1

    def in_doubt(self, thread: int) -> str | None:
        """The wait, in words, that answered "no" to this thread (a position in the wave) and was not repeated; None
        without one."""
        number = int(self.doubt[thread])
        if number < 0:
            return None
        site = self.wave.program.code.sites[number]
        where = f"{site.location or 'no source line'} (PTX line {site.ptx_line})"
        return (
            f"the wait at {where} may say at any time that the phase is not complete, and the thread went on then: "
            "repeat it until it says yes"
        )

    def ready(self, g: Any, keys: Any, state: Any, parity: bool, site: Site) -> Any:
        """For each lane that would wait: may it go on? Lanes with an invalid wait go on and are reported later."""
        done = np.ones(g.n, bool)
        denied = np.broadcast_to(self.denials(g, site), g.n)
        for start, end in runs(keys, state, denied):
            key, asked = int(keys[start]), int(state[start])
            found = self.objects.get(key)
            # A denied lane does not sleep: it gets its "no" and goes on.
            if denied[start] or found is None or (not parity and wrong_state(found, asked)):
                continue
            if not self.is_complete(key, asked, parity):
                done[start:end] = False
                self.waiting.add(key)
        return done

    def is_complete(self, key: int, state: int, parity: bool) -> bool:
        """Is the phase complete? If it is not, copies still to come arrive now."""
        found = self.objects[key]
        if is_complete(found, state, parity):
            return True
        self.settle(key)
        return is_complete(found, state, parity)

    def missing(self, key: int, state: int, parity: bool) -> str:
        """In words, what a wait is for and why it does not end."""
        found = self.objects.get(key)
        if found is None:
            return ""
        offset = key * BYTES % self.wave.space("shared").arena
        name = self.wave.launch.barriers.get(offset - self.wave.launch.dynamic_start)
        called = "" if name is None else f" ('{name}')"
        wanted = f"the phase of parity {state & 1}" if parity else f"phase {state >> PHASE_SHIFT & PHASE_MASK}"
        text = f"the mbarrier at shared address {offset:#x}{called} is in phase {found.phase}, "
        text += f"and the wait is for the end of {wanted}: {found.pending} of {found.expected} arrivals are missing"
        if found.bytes:
            more = "have come that nobody expected" if found.bytes < 0 else "are missing"
            text += f", and {abs(found.bytes)} bytes {more}"
        return text

    def test(
        self, g: Any, memory: Space, address: Any, state: Any, parity: bool, site: Site, order: ArrivalOrder = ORDERS
    ) -> Any:
        """For each lane: is the phase that it names complete? Lanes that get "yes" learn what the phase published."""
        place, keys = self.objects_at(g, memory, address, site, own=True)
        self.touch(STRONG_READ, place, g, memory, site)
        done = np.zeros(g.n, bool)
        denied = np.broadcast_to(self.denials(g, site), g.n)
        for start, end in runs(keys, state, denied):
            key, asked = int(keys[start]), int(state[start])
            wrong = "" if parity else wrong_state(self.objects[key], asked)
            if wrong:
                g.launch.report(Kind.BARRIER_MISUSE, wrong, g, start, site)
            done[start:end] = bool(wrong) or (not denied[start] and self.is_complete(key, asked, parity))
        self.answered(g, site, denied, done)
        index = g.index()
        stamps = g.stamps(site)
        for key, lanes in teams(np.where(done, keys, -1)).items():
            if key < 0:
                continue
            found = self.objects[key]
            if self.wave.time is not None:
                self.wave.time.reach(index[lanes], found.came)
            published = found.published[order.reach]
            if published is not None:
                learn = self.wave.relaxed.saw if order.relaxed else self.wave.ordering.learn
                learn(index[lanes], published)
            if not order.relaxed:
                # An arrival from another block without a scope of the cluster orders only the copies that these lanes
                # start from now on.
                if found.published[COPIES] is not None:
                    self.wave.ordering.learn_for_copies(index[lanes], found.published[COPIES])
                for landing in found.landed:
                    landing.seen_by(stamps[lanes])
        return done


def joined(first: Snapshot | None, second: Snapshot | None) -> Snapshot | None:
    """What two snapshots know together; None is nothing."""
    if first is None or second is None:
        return second if first is None else first
    return first.join(second)


def is_complete(found: Mbarrier, state: int, parity: bool) -> bool:
    if parity:
        return (found.phase & 1) != (state & 1)
    return found.phase & PHASE_MASK != state >> PHASE_SHIFT & PHASE_MASK


def wrong_state(found: Mbarrier, state: int) -> str:
    """What is wrong with a state that a wait names; mostly nothing, the empty text."""
    if state >> OBJECT_SHIFT != found.number & OBJECT_MASK:
        return "waits for an mbarrier with a state that no arrival at it returned"
    age = found.phase - (state >> PHASE_SHIFT & PHASE_MASK) & PHASE_MASK
    if age > 1:
        return f"waits with a state of {age} phases back; a wait can name only the last one"
    return ""


def runs(*columns: Any) -> list[tuple[int, int]]:
    """(first, end) of neighbouring lanes that are alike in all columns. An object is looked up once for each run: all
    threads of a block wait for one phase, which were a million look-ups in a matrix product of 1024 x 1024 x 1024 by
    TMA."""
    changes = np.zeros(len(columns[0]) - 1, bool)
    for column in columns:
        changes |= column[1:] != column[:-1]
    edges = (np.flatnonzero(changes) + 1).tolist()
    return list(zip([0, *edges], [*edges, len(columns[0])], strict=True))


def teams(keys: Any) -> dict[int, Any]:
    """The lanes of each object, by its number."""
    found: dict[int, list[Any]] = {}
    for start, end in runs(keys):
        found.setdefault(int(keys[start]), []).append(np.arange(start, end))
    return {key: parts[0] if len(parts) == 1 else np.concatenate(parts) for key, parts in found.items()}
