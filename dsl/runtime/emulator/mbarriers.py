"""mbarrier objects (PTX ISA 9.7.13.15). A phase completes when all expected arrivals and bytes have arrived.

The 64 bits of an object in shared memory are opaque. So the emulator keeps the object's state in a separate table,
whose keys are the objects' positions in shared memory. For the race detector, `init` is a plain write to the object,
and every other operation is a strong access. So an operation that is not ordered after `init` is a race. Only mbarrier
instructions may access the bytes of a valid object.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct, field

from .answers import DOUBTED, IGNORED, REPEATS
from .code import Site
from .copies import Tracked
from .findings import Kind
from .knowledge import Snapshot, either
from .landings import Landing
from .memory import RANK_SHIFT
from .relaxed import BLOCK, CLUSTER
from .shadow import PLAIN_WRITE, STRONG_READ, STRONG_WRITE, AccessKind, SpacePlace
from .spaces import SharedSpace, Space, refuse
from .stamps import threads_of, times

BYTES = 8
# Largest number of arrivals, or of bytes, that an object can count: 2^20 - 1 (PTX ISA 9.7.13.15.2).
MOST = (1 << 20) - 1
# A state is the token that an arrival returns. Its fields are the pending count before the arrival, the phase, and the
# object.
PHASE_SHIFT, OBJECT_SHIFT = 20, 44
PHASE_MASK = (1 << OBJECT_SHIFT - PHASE_SHIFT) - 1
OBJECT_MASK = (1 << 64 - OBJECT_SHIFT) - 1
# Third index of `Mbarrier.arriving` and `published`: accesses that are ordered only before later copies. An arrival at
# another block's object publishes at this index, if it does not name the scope .cluster. PTX does not state that such
# an arrival orders copies, but all code with such arrivals relies on this. The code avoids `.release.cluster` because
# ptxas 13.0 then emits MEMBAR.ALL.GPU in each iteration.
COPIES = CLUSTER + 1
# After a wait, the copies of this many completed phases count as complete.
KEPT_LANDINGS = 4
# How often a DOUBTED wait (`answers.py`) first returns false ("no"), even if the phase is complete. The number is
# large, since a program may count its tries and then give up. With only three forced "no", a loop that gave up after
# ten tries was never found.
DENIALS = 128
# After 1,024 forced answers "no" at one wait, a thread gets only three in each later phase. So a wait in a long loop
# stays cheap.
FEW_DENIALS, MOST_DENIALS = 3, 1024


class ArrivalOrder(Struct, frozen=True):
    """How an arrival or a wait synchronises. `reach` is the scope: BLOCK, or CLUSTER if the instruction names .cluster.
    If `relaxed` is true, the operation orders accesses only together with a fence."""

    reach: int = BLOCK
    relaxed: bool = False


ORDERS = ArrivalOrder()


class Mbarrier(Struct):
    number: int  # number of the object in its wave
    expected: int
    pending: int
    phase: int = 0
    bytes: int = 0
    # `arriving` has the accesses that are ordered before this phase's arrivals. `published` has the same for the
    # completed phases. Each list has three entries: for waits of block scope, for waits of cluster scope, and for
    # copies that are started after a wait.
    arriving: list[Snapshot | None] = field(default_factory=lambda: [None] * 3)
    published: list[Snapshot | None] = field(default_factory=lambda: [None] * 3)
    deferred: list[Tracked] = field(default_factory=list)  # arrivals of asynchronous copies, which may come late
    # copies whose bytes have not arrived yet (`Delivery`, `TensorLoad`)
    loads: list[Any] = field(default_factory=list)
    landing: Landing | None = None  # the copies that have arrived in this phase
    landed: list[Landing] = field(default_factory=list)  # the same for the last completed phases
    coming: int = 0  # latest logical time of an arrival, or of a copy's start, in this phase
    came: int = 0  # the same for the last complete phase

    def join(self, known: Snapshot | None, reach: int) -> None:
        """Adds `known`, the accesses that are ordered before an arrival. `reach` is BLOCK for a thread of the object's
        own block. For a thread of another block `reach` is CLUSTER, and waits of block scope do not get these
        accesses."""
        if known is None:
            return
        for each in range(reach, max(reach, CLUSTER) + 1):
            self.arriving[each] = either(self.arriving[each], known)

    def arrived(self) -> Landing:
        """Returns the record of the copies that arrive in this phase, and creates it at the first call."""
        if self.landing is None:
            self.landing = Landing()
        return self.landing

    def advance(self) -> bool:
        """Completes the phase if all arrivals and bytes have arrived. Returns whether the phase was completed."""
        if self.pending or self.bytes:
            return False
        self.phase += 1
        self.pending = self.expected
        self.came, self.coming = max(self.came, self.coming), 0
        self.published = [either(*each) for each in zip(self.published, self.arriving, strict=True)]
        self.arriving = [None] * 3
        if self.landing is not None:
            self.landed.append(self.landing)
            self.landing = None
            if len(self.landed) > KEPT_LANDINGS:
                oldest = self.landed.pop(0)
                if not len(oldest.waiters):  # who waits for a later phase knows that this one is complete
                    self.landed[0].visitors = oldest.visitors | self.landed[0].visitors
        return True

    def unseen(self) -> list[Landing]:
        """Returns the records of phases that no thread has waited for."""
        return [each for each in (*self.landed, self.landing) if each is not None and not len(each.waiters)]

    def state(self) -> int:
        """Returns the token that an arrival returns: pending count, phase and object number."""
        return self.pending | (self.phase & PHASE_MASK) << PHASE_SHIFT | (self.number & OBJECT_MASK) << OBJECT_SHIFT


class Mbarriers:
    """The mbarrier objects of a wave (the blocks that run at the same time). The key of an object is its byte offset in
    the wave's shared memory, divided by 8."""

    def __init__(self, wave: Any):
        self.wave = wave
        self.objects: dict[int, Mbarrier] = {}
        self.made = 0
        self.waiting: set[int] = set()
        # For each DOUBTED wait and each thread, the number of forced answers "no" (see `denials`). `denied` counts
        # those since the last "yes", and `denied_before` counts the earlier ones.
        self.denied: dict[int, Any] = {}
        self.denied_before: dict[int, Any] = {}
        # For each thread, the site number of a wait that returned a forced "no" and was not repeated, or -1. The report
        # of a later race names this wait.
        self.doubt = np.full(wave.lanes, -1)
        self.refused = np.zeros(wave.lanes, bool)  # has the lane waited for an invalid object?

    def state(self) -> list[tuple[int, ...]]:
        """Returns, for each object, the values that decide whether waiting threads continue."""
        return [
            (key, one.pending, one.phase, one.bytes, len(one.deferred), len(one.loads))
            for key, one in sorted(self.objects.items())
        ]

    # Where they are

    def place(self, g: Any, memory: Space, address: Any, site: Site, own: bool, arrives: bool = False) -> SpacePlace:
        """Returns the place of each lane's object in shared memory. If `own` is true, lanes that name another block's
        object are reported. `arrives` is true for an arrival."""
        # PTX ISA 9.7.13.15: an mbarrier object lies in shared memory, at a multiple of 8.
        if not isinstance(memory, SharedSpace):
            message = "an mbarrier lies in shared memory, which this address does not"
            refuse(Kind.BARRIER_MISUSE, message, g, np.ones(g.n, bool), site)
        address = np.broadcast_to(address, g.n)
        place = memory.place(address, BYTES, g, site, True, None, arrives)
        if own:
            foreign = place.index // (memory.arena // BYTES) != g.lane("slot")
            if foreign.any():
                message = "this mbarrier belongs to another block, and only that block's threads may do this"
                refuse(Kind.BARRIER_MISUSE, message, g, foreign, site)
        return place

    def objects_at(self, g: Any, memory: Space, address: Any, site: Site, own: bool = False) -> tuple[SpacePlace, Any]:
        """Returns the place of the lanes' objects, and the key of each lane's object. Reports lanes whose address has
        no valid object."""
        place = self.place(g, memory, address, site, own)
        return place, self.valid(g, place, address, site)

    def valid(self, g: Any, place: SpacePlace, address: Any, site: Site) -> Any:
        """Returns the key of each lane's object. Reports lanes whose place has no valid object."""
        keys = place.index
        none = [start for start, _ in runs(keys) if int(keys[start]) not in self.objects]
        if none:
            where = int(np.broadcast_to(address, g.n)[none[0]]) & ((1 << RANK_SHIFT) - 1)
            message = f"no mbarrier was initialised at shared address {where:#x}"
            refuse(Kind.BARRIER_MISUSE, message, g, np.isin(keys, keys[none]), site)
        return keys

    def touch(self, kind: int, place: SpacePlace, g: Any, memory: Space, site: Site) -> None:
        """Records an mbarrier instruction's access in the shadow memory. The check that forbids accesses to valid
        objects is off meanwhile."""
        shadow = memory.shadow
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
        memory.shadow.reserve(place, True)

    def invalidate(self, g: Any, memory: Space, address: Any, site: Site) -> None:
        place, keys = self.objects_at(g, memory, address, site, own=True)
        self.note_users(place, g, memory, site)
        self.touch(STRONG_WRITE, place, g, memory, site)
        for lane, key in enumerate(keys.tolist()):
            found = self.objects.pop(key, None)
            if found is not None:
                self.note_visits(key, found)
            if found is not None and (found.deferred or found.loads or key in self.waiting):
                # A later arrival would write to memory that may contain something else by then.
                is_early = found.deferred or found.loads
                what = "asynchronous copies are still to arrive" if is_early else "threads wait"
                g.launch.report(Kind.BARRIER_MISUSE, f"invalidates an mbarrier at which {what}", g, lane, site)
        memory.shadow.reserve(place, False)

    def note_users(self, place: SpacePlace, g: Any, memory: Space, site: Site) -> None:
        """Adds a note if another thread's use of the object is not ordered before this `inval`.

        Strictly, this is a fault, since the use may come after the `inval`. But the pipeline of libcu++ invalidates its
        objects after an atomic operation that one lane executes for its warp. This is late enough on every GPU, so the
        emulator does not report a finding.
        """
        for kind in (STRONG_WRITE, STRONG_READ):
            met = memory.shadow.unordered(kind, place, g, site)
            if met is not None:
                lane, user = met
                message = "invalidates an mbarrier that another thread has used, with nothing to order the two"
                g.launch.note(Kind.RACE, message, g, lane, site, f"used by {user}")

    def transfer(self, g: Any, memory: Space, address: Any, amounts: Any, site: Site, expects: bool) -> None:
        """Executes `expect_tx`, which adds bytes to wait for, or `complete_tx`, which subtracts bytes that have
        arrived."""
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
            # `complete_tx` can complete a phase, and `expect_tx` cannot.
            if not expects:
                self.advance(found)

    def check_range(self, values: Any, low: int, high: int, words: str, g: Any, site: Site) -> None:
        wrong = (values < low) | (values > high)
        if wrong.any():
            lane = int(np.flatnonzero(wrong)[0])
            message = f"{words.format(int(values[lane]))}, which must be {low} to {high}"
            refuse(Kind.BARRIER_MISUSE, message, g, wrong, site)

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
        """Each lane arrives at its object. Returns the object's state before each arrival, which a later wait may name.
        `completes` is false for an arrival with .noComplete, which must not complete the phase."""
        place = self.place(g, memory, address, site, own=False, arrives=True)
        keys = self.valid(g, place, address, site)
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
            # Lanes arrive one by one, since several phases may complete within one instruction. Each returned state is
            # the state before the lane's own arrival.
            for lane in lanes.tolist():
                state[lane] = found.state()
                for reach, each in enumerate(known):
                    found.join(each, reach)
                if drops:
                    found.expected -= int(amounts[lane])
                found.pending -= int(amounts[lane])
                self.check_counts(found, g, lane, site, completes)
                if not owner[lane]:
                    thread = int(g.index()[lane])
                    found.arrived().visitors[thread] = (self.wave.ordering.clock.now, site)
                self.advance(found)
        return state

    def released(self, members: Any, reach: int, order: ArrivalOrder) -> Any:
        """Returns the accesses that the threads `members` publish by arriving. `reach` is BLOCK for threads of the
        object's own block. For threads of other blocks it is CLUSTER or COPIES."""
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
        """Executes `cp.async.mbarrier.arrive`: each thread arrives when its copies are complete.

        The emulator lets each thread arrive as late as possible, when some thread tests the object. The arrival
        releases only what the thread did before this instruction.
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
        """Checks the object at which each lane's copy will arrive. Returns the object's key for each lane. If the copy
        uses the async proxy (`by_proxy`), a fence must come between the object's init and the copy.

        The object is at the offset `address` in a block of the cluster. `away` is that block's number minus the number
        of the lane's block.
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
        """Reports an object that the async proxy will use, if no fence came after its init."""
        shadow = memory.shadow
        stamps = place.take(shadow.record(AccessKind(PLAIN_WRITE)), shadow.granule)
        inits = stamps if stamps.ndim == 1 else stamps[:, 0]
        own = g.launch.init_fences.own[threads_of(inits).astype(np.int64)]
        bad = np.flatnonzero(g.launch.proxies.unfenced(inits, g) & (times(inits) > own))
        if len(bad):
            author = g.launch.origins.author(inits[bad[0]])
            message = (
                "a tensor copy arrives at an mbarrier with no fence.mbarrier_init or fence.proxy.async after its init"
            )
            g.launch.report(Kind.RACE, message, g, int(bad[0]), site, f"initialised by {author}")

    def await_copy(self, key: int, load: Any) -> None:
        """Records that a copy will arrive at the object `key`. The copy arrives when a thread tests the object. In a
        launch with a random seed, some copies arrive at once."""
        self.objects[key].loads.append(load)
        launch = self.wave.launch
        # A thread already waits here, so the copy arrives when that thread tests the object again.
        if key in self.waiting:
            self.wave.wake_waiters()
        elif launch.seed and launch.random.integers(2):
            self.settle_loads(self.objects[key])

    def settle_loads(self, found: Mbarrier) -> None:
        loads, found.loads = found.loads, []
        for load in loads:
            load.land(found.arrived())
            # After this wait, the waiting block can rely on the fact that the copying block has begun.
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
        """At the end of the wave, reports copies that no thread has waited for. Arrivals of other blocks that no thread
        has waited for become accesses, which `visits.py` checks."""
        for key, found in self.objects.items():
            self.note_visits(key, found)
            for load in [*found.loads, *(load for landing in found.unseen() for load in landing.loads)]:
                message = "the block may end while this copy fills its shared memory: nobody has waited for its bytes"
                self.wave.launch.report(Kind.IN_FLIGHT, message, load.part, 0, load.site)

    def note_visits(self, key: int, found: Mbarrier) -> None:
        """Records arrivals from other blocks that no thread of the object's block has waited for. After such a wait,
        the arrivals have taken place, whatever their scope: CUTLASS ends its blocks after such waits."""
        slot = key * BYTES // self.wave.spaces["shared"].arena
        for landing in found.unseen():
            for thread, (time, site) in landing.visitors.items():
                self.wave.visits.note_one(thread, slot % self.wave.cluster, time, site)

    def settle(self, key: int) -> None:
        """Lets all copies arrive that the object `key` waits for."""
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
        """Returns the key of the object at each lane's `address`, or -1 if no object of the lane's own block can be
        there."""
        memory = self.wave.spaces["shared"]
        rank, offset = address >> RANK_SHIFT, address & ((1 << RANK_SHIFT) - 1)
        inside = (offset >= memory.start) & (offset + BYTES <= memory.end) & (offset % BYTES == 0)
        inside &= (rank == 0) | (rank == g.lane("rank").astype(np.int64) + 1)
        return np.where(inside, (g.lane("slot") * memory.arena + offset) // BYTES, -1)

    def denials(self, g: Any, site: Site) -> Any:
        """Returns a mask of the lanes that must get the answer "no", even if the phase is complete. On a device, any
        single test may return "no"."""
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
        """Counts the answers of each lane. `denied` is a mask of the lanes with a forced "no" (see `denials`). `done`
        is a mask of the lanes with a "yes"."""
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
        """Returns a text about the wait that returned a forced "no" and that `thread` did not repeat, or None if there
        is none. `thread` is a position in the wave."""
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
        """Returns a mask of the waiting lanes that need not sleep. It includes lanes whose wait is invalid, which
        `test` reports later."""
        done = np.ones(g.n, bool)
        denied = np.broadcast_to(self.denials(g, site), g.n)
        for start, end in runs(keys, state, denied):
            key, asked = int(keys[start]), int(state[start])
            found = self.objects.get(key)
            # A denied lane does not sleep, since it gets its "no" and goes on.
            if denied[start] or found is None or (not parity and wrong_state(found, asked)):
                continue
            if not self.is_complete(key, asked, parity):
                done[start:end] = False
                self.waiting.add(key)
        return done

    def is_complete(self, key: int, state: int, parity: bool) -> bool:
        """Returns whether the phase is complete. If it is not, lets outstanding copies arrive and tests again."""
        found = self.objects[key]
        if is_complete(found, state, parity):
            return True
        self.settle(key)
        return is_complete(found, state, parity)

    def missing(self, key: int, state: int, parity: bool) -> str:
        """Returns a text for the report of a deadlock: which phase the wait is for, and which arrivals and bytes are
        missing."""
        found = self.objects.get(key)
        if found is None:
            return ""
        offset = key * BYTES % self.wave.spaces["shared"].arena
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
        """Returns a mask of the lanes whose phase is complete. For these lanes, the accesses that the phase published
        become ordered before their later accesses."""
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
                # If an arrival from another block does not name the scope .cluster, the arrival orders only the copies
                # that these lanes start from now on.
                if found.published[COPIES] is not None:
                    self.wave.ordering.learn_for_copies(index[lanes], found.published[COPIES])
                for landing in found.landed:
                    landing.seen_by(stamps[lanes])
        return done


def is_complete(found: Mbarrier, state: int, parity: bool) -> bool:
    if parity:
        return (found.phase & 1) != (state & 1)
    return found.phase & PHASE_MASK != state >> PHASE_SHIFT & PHASE_MASK


def wrong_state(found: Mbarrier, state: int) -> str:
    """Returns a text that explains why a wait may not name `state`. The text is empty if the wait may name it."""
    if state >> OBJECT_SHIFT != found.number & OBJECT_MASK:
        return "waits for an mbarrier with a state that no arrival at it returned"
    age = found.phase - (state >> PHASE_SHIFT & PHASE_MASK) & PHASE_MASK
    if age > 1:
        return f"waits with a state of {age} phases back; a wait can name only the last one"
    return ""


def runs(*columns: Any) -> list[tuple[int, int]]:
    """Returns (first, end) of each run of neighbouring lanes that are equal in all columns. For example, [7, 7, 9] has
    the runs (0, 2) and (2, 3).

    Objects are looked up once for each run. With one look-up for each lane, a 1024 x 1024 x 1024 product with TMA took
    a million look-ups.
    """
    changes = np.zeros(len(columns[0]) - 1, bool)
    for column in columns:
        changes |= column[1:] != column[:-1]
    edges = (np.flatnonzero(changes) + 1).tolist()
    return list(zip([0, *edges], [*edges, len(columns[0])], strict=True))


def teams(keys: Any) -> dict[int, Any]:
    """Groups lanes by object. Returns the lanes of each key, where `keys` has the object's key for each lane."""
    found: dict[int, list[Any]] = {}
    for start, end in runs(keys):
        found.setdefault(int(keys[start]), []).append(np.arange(start, end))
    return {key: parts[0] if len(parts) == 1 else np.concatenate(parts) for key, parts in found.items()}
