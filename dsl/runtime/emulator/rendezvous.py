"""Threads that wait for each other: at warp instructions with `.sync`, and at barriers of blocks and clusters.

A group of threads that cannot continue is parked. It is checked again when other threads arrive or exit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct, field

from .code import BarrierOperands, Site
from .findings import Kind
from .group import Group
from .instructions.barrier import reduced
from .knowledge import Snapshot, either
from .program import Segment
from .relaxed import CLUSTER

FULL = 0xFFFFFFFF
BARRIERS = 16  # number of barriers of a block (PTX ISA, "bar, barrier")


def ready_part(parked: dict[int, list[Group]], segment: Segment, g: Group, ready: Any) -> Group | None:
    """Parks the lanes of a group that are not ready. Returns the other lanes, or None if there are none."""
    if ready.all():
        return g
    waiting = g.wave.restrict(g, np.flatnonzero(~ready), segment)
    parked.setdefault(segment.number, []).append(waiting)
    return g.wave.restrict(g, np.flatnonzero(ready), segment) if ready.any() else None


class WarpMeetings:
    """Handles instructions with `.sync`. A lane continues when all live lanes that its member mask names have
    arrived."""

    def __init__(self, wave: Any):
        self.wave = wave
        self.parked: dict[int, list[Group]] = {}

    def meet(self, segment: Segment, g: Group) -> Group | None:
        """Merges the group with the lanes that wait at this instruction. Returns the lanes that can continue, and parks
        the others."""
        before = self.parked.pop(segment.number, None)
        if before:
            g = self.wave.merge([*before, g], segment)
        if g.threads is None and segment.mask is None:
            return g
        values = g.frame(segment)
        mask = np.array([FULL], np.uint32) if segment.mask is None else values[segment.mask]
        # The usual case: whole warps, with the full mask as a constant.
        if g.whole and len(mask) == 1 and int(mask[0]) == FULL:
            return g
        if segment.mask is None and not g.whole:
            return self.whole_warps(segment, g)
        masks = np.broadcast_to(mask, g.n)
        self.check_own_bit(segment, g, masks)
        ready = self.ready(segment, g, masks)
        return ready_part(self.parked, segment, g, ready)

    def check_own_bit(self, segment: Segment, g: Group, masks: Any) -> None:
        outside = masks >> (g.index() & 31).astype(np.uint32) & np.uint32(1) == 0
        if outside.any():
            lane = int(np.flatnonzero(outside)[0])
            message = f"the mask {int(masks[lane]):#x} does not name the lane that executes the instruction"
            g.launch.report(Kind.MEMBER_MASK, message, g, lane, segment.site)

    def ready(self, segment: Segment, g: Group, masks: Any) -> Any:
        warps, rows = g.warp_rows
        live = self.wave.live_bits(warps)[rows]
        present = self.wave.bits_of(g.presence)[rows]
        needed = masks & live
        ready = needed & ~present == 0
        table = g.by_warp(masks, 0)
        lowest = np.where(g.presence, table, np.uint32(FULL)).min(1)
        highest = table.max(1)
        for row in np.flatnonzero(lowest != highest):
            self.check_masks(segment, g, rows, int(row), table[row], needed, ready)
        return ready

    def check_masks(self, segment: Segment, g: Group, rows: Any, row: int, table: Any, needed: Any, ready: Any) -> None:
        """Checks a warp whose lanes have different masks. Reports a lane whose mask names a lane with another mask.
        Lanes with different masks are legal if they do not name each other."""
        for position in np.flatnonzero(rows == row):
            if not ready[position]:
                continue
            named = np.flatnonzero(int(needed[position]) >> np.arange(32) & 1)
            other = next((int(lane) for lane in named if table[lane] != table[int(g.index()[position]) & 31]), None)
            if other is not None:
                mine = int(table[int(g.index()[position]) & 31])
                message = f"the mask {mine:#x} names lane {other}, whose own mask is {int(table[other]):#x}"
                g.launch.report(Kind.MEMBER_MASK, message, g, int(position), segment.site)

    def whole_warps(self, segment: Segment, g: Group) -> Group | None:
        """Handles `.aligned` warp instructions, which require all 32 lanes."""
        warps, rows = g.warp_rows
        present = self.wave.bits_of(g.presence)
        live = self.wave.live_bits(warps)
        full = present == FULL
        gone = live & ~present == 0
        # In these warps lanes are missing, and no other lane can arrive.
        broken = ~full & gone
        if broken.any():
            lane = int(np.flatnonzero(broken[rows])[0])
            message = "a warp instruction needs all 32 lanes, but some have exited or do not exist"
            g.launch.report(Kind.MISSING_LANE, message, g, lane, segment.site)
            self.wave.leave(self.wave.restrict(g, np.flatnonzero(broken[rows]), segment), segment.site)
            rest = np.flatnonzero(~broken[rows])
            if not len(rest):
                return None
            return ready_part(self.parked, segment, self.wave.restrict(g, rest, segment), full[rows][rest])
        return ready_part(self.parked, segment, g, full[rows])

    def requeue(self) -> None:
        """Puts all parked groups back into the queue, since a thread has exited that they may wait for."""
        for number, groups in self.parked.items():
            self.wave.pending.setdefault(number, []).extend(groups)
        self.parked = {}

    def report_stuck(self) -> None:
        for number, groups in self.parked.items():
            segment = self.wave.program.segments[number]
            g = groups[0]
            warp = int(g.index()[0]) >> 5
            here = [int(lane) & 31 for lane in g.index() if int(lane) >> 5 == warp]
            missing = [lane for lane in range(32) if self.wave.live[32 * warp + lane] and lane not in here]
            message = f"lanes {compact(here)} wait for lanes {compact(missing)} of their warp, which wait elsewhere"
            g.launch.report(Kind.MISSING_LANE, message, g, 0, segment.site)


def waiting(count: int) -> str:
    return "1 thread waits" if count == 1 else f"{count} threads wait"


def compact(lanes: list[int]) -> str:
    """Converts a list of lanes to text, such as "0-3, 7"."""
    parts: list[list[int]] = []
    for lane in lanes:
        if parts and parts[-1][1] == lane - 1:
            parts[-1][1] = lane
        else:
            parts.append([lane, lane])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


class BarrierMeeting(Struct):
    """The threads that have arrived at one barrier of one block. `segment` begins with the barrier instruction of the
    latest arrival.

    `arrived` has arrays of the threads' positions in the wave. For each of these arrays, `following` has the segment
    where the threads continue, or None if they do not wait.
    """

    segment: Segment
    arrived: list[Any] = field(default_factory=list)
    following: list[int | None] = field(default_factory=list)
    flags: list[Any] = field(default_factory=list)
    known: list[Any] = field(default_factory=list)
    reductions: list[BarrierOperands | None] = field(default_factory=list)
    count: int = 0
    expected: int | None = None  # the number of threads that the instruction names, or None for all of the block
    turn: int = 0  # the groups' largest turn; it is kept, so that turns add up in a loop with a barrier
    back_edges: int = 0
    came: int = 0  # the logical time at which the last thread arrived


def meeting_kind(segment: Segment) -> str:
    """Returns the kind of a barrier. `bar.sync` and `bar.arrive` may be used together at one barrier. A `bar.red` may
    be used only with the same reduction."""
    barrier = segment.barrier
    if barrier is None or barrier.mode != "red":
        return "bar.sync or bar.arrive"
    return f"bar.red.{barrier.reduction}"


class BlockMeetings:
    """Handles barriers of blocks, including named barriers, and barriers of clusters. Threads that wait for an mbarrier
    sleep here, too."""

    def __init__(self, wave: Any):
        self.wave = wave
        self.meetings: dict[tuple[int, int], BarrierMeeting] = {}
        self.partial: dict[int, list[Group]] = {}
        self.sleeping: list[tuple[int, Group]] = []
        self.watched: dict[int, int] = {}
        # by block, the two sets of threads that have loaded different values of one word
        self.split: dict[int, tuple[Any, Any]] = {}
        clusters = wave.slots // wave.cluster
        self.cluster_arrived = np.zeros(wave.lanes, bool)
        self.cluster_owed = np.zeros(wave.lanes, bool)  # lanes that have arrived and not waited yet
        self.cluster_phase = np.zeros(clusters, np.int64)
        self.lane_phase = np.zeros(wave.lanes, np.int64)
        self.cluster_known: dict[int, Any] = {}
        self.cluster_published: dict[int, Any] = {}
        self.cluster_coming = np.zeros(clusters, np.int64)  # the logical time of the last arrival in this phase
        self.cluster_came = np.zeros(clusters, np.int64)  # the same for the previous phase

    def arrive(self, segment: Segment, g: Group) -> None:
        barrier = segment.barrier
        assert barrier is not None
        if barrier.mode == "try_wait":
            assert barrier.ready is not None
            self.sleep_until(segment, g, barrier.ready(g.frame(segment), g))
            return
        if barrier.aligned:
            aligned = self.aligned(segment, g)
            if aligned is None:
                return
            g = aligned
        if barrier.mode.startswith("cluster"):
            self.cluster(segment, barrier, g)
            return
        values = g.frame(segment)
        assert barrier.number is not None
        number = values[barrier.number]
        count = None if barrier.count is None else values[barrier.count]
        wrong = self.wrong_operands(segment, g, number, count, barrier.mode == "arrive")
        if wrong is not None:
            self.pass_by(segment, g, np.flatnonzero(wrong))
            rest = np.flatnonzero(~wrong)
            if len(rest):
                self.arrive(segment, self.wave.restrict(g, rest, segment))
            return
        # In the usual case all threads of the blocks have arrived together, and need not be parked.
        if self.is_everybody(g, number, count, barrier.mode):
            if self.split:
                self.check_split(segment, g)
            slots = np.unique(g.lane("slot")) if g.threads is not None else slice(None)
            self.wave.ordering.blocks_joined(slots)
            if self.wave.time is not None:
                self.wave.time.meet_blocks(slots, self.wave.block_lanes // 32)
            self.wave.run(segment, g)
            return
        counts = None if count is None else np.broadcast_to(count, g.n)
        self.some(segment, barrier, g, np.broadcast_to(number, g.n), counts)

    def wrong_operands(self, segment: Segment, g: Group, number: Any, count: Any, arrives: bool) -> Any:
        """Returns a mask of the lanes whose barrier does not exist or whose thread count is impossible. Returns None if
        there are none, as is usual."""
        outside = number >= BARRIERS
        if outside.any():
            lane = int(np.flatnonzero(outside)[0])
            text = f"barrier {int(number[lane])} does not exist: a block has the barriers 0 to {BARRIERS - 1}"
            g.launch.report(Kind.BARRIER_MISUSE, text, g, lane, segment.site)
        if count is None:
            return np.broadcast_to(outside, g.n) if outside.any() else None
        wrong = (count % 32 != 0) | (count == 0) | (count > self.wave.block_lanes)
        if wrong.any():
            lane = int(np.flatnonzero(wrong)[0])
            threads = int(count[lane])
            reason = "which is not a multiple of the warp size"
            if threads == 0:
                reason = "which an arrival must name" if arrives else "which nobody can meet"
            elif threads % 32 == 0:
                reason = f"but the block has {self.wave.block_lanes}"
            text = f"a barrier for {threads} threads, {reason}"
            g.launch.report(Kind.BARRIER_MISUSE, text, g, lane, segment.site)
        wrong = wrong | outside
        return np.broadcast_to(wrong, g.n) if wrong.any() else None

    def pass_by(self, segment: Segment, g: Group, lanes: Any) -> None:
        """Lets lanes with invalid operands continue as if the instruction were not there. These lanes have already been
        reported."""
        part = self.wave.restrict(g, lanes, segment)
        self.wave.account(segment, part)
        self.wave.put(Group(self.wave, part.index(), part.turn, part.back_edges), segment.end.targets[0])

    def is_everybody(self, g: Group, number: Any, count: Any, mode: str) -> bool:
        """Returns whether all live threads of the group's blocks are in the group, at one barrier for the whole
        block."""
        if mode == "arrive" or len(number) > 1:
            return False
        if count is not None and (len(count) > 1 or int(count[0]) != self.wave.block_lanes):
            return False
        if any(barrier == int(number[0]) for _, barrier in self.meetings):
            return False
        if g.threads is None:
            return True
        here = np.bincount(g.lane("slot"), minlength=self.wave.slots)
        return bool((here == self.wave.live_counts())[here > 0].all())

    def aligned(self, segment: Segment, g: Group) -> Group | None:
        """Handles an aligned barrier. Returns the lanes of the warps whose live lanes have all arrived. The lanes of
        other warps wait."""
        before = self.partial.pop(segment.number, None)
        if before:
            g = self.wave.merge([*before, g], segment)
            self.watched = {warp: at for warp, at in self.watched.items() if at != segment.number}
        if g.whole:
            return g
        warps, rows = g.warp_rows
        present = self.wave.bits_of(g.presence)
        complete = self.wave.live_bits(warps) & ~present == 0
        self.check_ended(segment, g, warps[complete])
        # The missing lanes may still arrive. If they run past the barrier instead, `check_watched` reports them.
        self.watched.update({int(warp): segment.number for warp in warps[~complete]})
        return ready_part(self.partial, segment, g, complete[rows])

    def check_ended(self, segment: Segment, g: Group, warps: Any) -> None:
        """Reports lanes that have bypassed this barrier and exited at the end of the kernel, although lanes of their
        warp have arrived.

        A lane that has returned earlier is not reported, since no barrier waits for it (CUDA C++ guide,
        "synchronization functions").
        """
        end = self.wave.program.end_behind(segment)
        if end is None or not len(warps):
            return
        around = (self.wave.left_by.reshape(-1, 32)[warps] == end.number).any(1)
        if around.any():
            lane = int(np.flatnonzero(g.index() >> 5 == warps[np.argmax(around)])[0])
            message = (
                "part of a warp comes to an aligned barrier, and other lanes of the warp have gone around it and ended"
            )
            self.wave.launch.report(Kind.DIVERGENT_BARRIER, message, g, lane, segment.site)

    def check_watched(self, segment: Segment, g: Group) -> None:
        """Reports lanes that run past an aligned barrier at which other lanes of their warp wait."""
        warps = g.index() >> 5
        for warp, number in list(self.watched.items()):
            if segment.number <= number:
                continue
            lanes = np.flatnonzero(warps == warp)
            if len(lanes):
                del self.watched[warp]
                at = self.wave.program.segments[number].site
                message = "part of a warp waits at an aligned barrier, and other lanes of the warp have passed it by"
                self.wave.launch.report(Kind.DIVERGENT_BARRIER, message, g, int(lanes[0]), at)

    def note_split(self, late: Any, others: Any) -> None:
        """Notes that the threads `late` and the threads `others` have loaded different values of one word. Blocks are
        stored only if all their live threads have loaded the word."""
        lanes = self.wave.block_lanes
        counts = np.bincount(late // lanes, minlength=self.wave.slots)
        for slot in np.flatnonzero(counts).tolist():
            sides = late[late // lanes == slot], others[others // lanes == slot]
            if len(sides[1]) and len(sides[0]) + len(sides[1]) == self.wave.live_counts()[slot]:
                self.split[slot] = sides

    def check_split(self, segment: Segment, g: Group) -> None:
        """Reports a barrier where the threads wait that have loaded one value of a word, after those with the other
        value have ended (see `note_split`)."""
        live = self.wave.live
        for slot, (late, others) in list(self.split.items()):
            here = live[late], live[others]
            if any(one.all() and not other.any() for one, other in (here, here[::-1])):
                del self.split[slot]
                message = (
                    "threads wait at a barrier, and the others of their block have ended: each has loaded a word by "
                    "itself that another thread writes, and two loads may differ (let one thread load and share it)"
                )
                lane = int(np.argmax(g.lane("slot") == slot))
                self.wave.launch.report(Kind.DIVERGENT_BARRIER, message, g, lane, segment.site)

    def some(self, segment: Segment, barrier: BarrierOperands, g: Group, numbers: Any, counts: Any) -> None:
        """Handles the general case. Each block and each barrier is handled separately."""
        values = g.frame(segment)
        flags = None
        if barrier.flag is not None:
            flags = np.broadcast_to(values[barrier.flag], g.n) ^ barrier.flag_negated
        self.wave.account(segment, g)
        self.wave.flush(g, segment)
        slots, index = g.lane("slot"), g.index()
        keys = slots * BARRIERS + numbers
        touched = []
        for key in np.unique(keys):
            lanes = np.flatnonzero(keys == key)
            slot, number = int(key) // BARRIERS, int(key) % BARRIERS
            named = None if counts is None else self.one_count(segment, g, lanes, counts)
            meeting = self.meetings.get((slot, number))
            if meeting is None:
                meeting = self.meetings[slot, number] = BarrierMeeting(segment, expected=named)
            else:
                self.check_meeting(meeting, named, number, segment, g, int(lanes[0]))
            touched.append((slot, number))
            meeting.segment = segment
            meeting.reductions.append(barrier if barrier.mode == "red" else None)
            meeting.arrived.append(index[lanes])
            meeting.turn, meeting.back_edges = max(meeting.turn, g.turn), max(meeting.back_edges, g.back_edges)
            meeting.following.append(None if barrier.mode == "arrive" else segment.end.targets[0])
            if self.wave.time is not None:
                meeting.came = max(meeting.came, self.wave.time.latest(index[lanes]))
            meeting.flags.append(None if flags is None else flags[lanes])
            is_arrival = barrier.mode == "arrive"
            meeting.known.append(self.wave.ordering.snapshot(index[lanes]) if is_arrival else None)
            # An aligned barrier counts whole warps (PTX ISA, "bar, barrier").
            meeting.count += 32 * len(np.unique(index[lanes] >> 5)) if barrier.aligned else len(lanes)
            if is_arrival:
                self.wave.put(Group(self.wave, index[lanes], g.turn, g.back_edges), segment.end.targets[0])
        self.complete(touched)

    def one_count(self, segment: Segment, g: Group, lanes: Any, counts: Any) -> int:
        """Returns the thread count that these lanes name at one barrier. Reports lanes that name different counts."""
        named = counts[lanes]
        other = np.flatnonzero(named != named[0])
        if len(other):
            message = f"a barrier for {int(named[0])} threads and for {int(named[other[0]])} at once"
            g.launch.report(Kind.BARRIER_MISUSE, message, g, int(lanes[other[0]]), segment.site)
        return int(named[0])

    def check_meeting(
        self, meeting: BarrierMeeting, named: int | None, number: int, segment: Segment, g: Group, lane: int
    ) -> None:
        """Reports a lane whose barrier instruction does not fit the earlier arrivals. They must agree in the kind of
        barrier and in the number of threads."""
        mine, theirs = meeting_kind(segment), meeting_kind(meeting.segment)
        if mine != theirs:
            message = f"{mine} at barrier {number}, where other threads of the block wait with {theirs}"
            self.report_meeting(message, meeting, segment, g, lane)
        wanted, other = (self.wave.block_lanes if each is None else each for each in (named, meeting.expected))
        if wanted != other:
            message = f"barrier {number} for {wanted} threads, where others wait for {other}"
            self.report_meeting(message, meeting, segment, g, lane)

    def report_meeting(self, message: str, meeting: BarrierMeeting, segment: Segment, g: Group, lane: int) -> None:
        site = meeting.segment.site
        where = None
        if site is not None:
            where = f"the others came at {site.location or 'no source line'} (PTX line {site.ptx_line})"
        g.launch.report(Kind.BARRIER_MISUSE, message, g, lane, segment.site, where)

    def complete(self, keys: list[tuple[int, int]]) -> None:
        """Releases the threads of each barrier in `keys` at which no thread is missing any more."""
        joined = []
        live = self.wave.live_counts()
        for key in keys:
            meeting = self.meetings[key]
            everyone = sum(len(lanes) for lanes in meeting.arrived) >= live[key[0]]
            if meeting.expected is None and not everyone:
                continue
            if meeting.expected is not None and meeting.count < meeting.expected:
                continue
            if meeting.expected is not None and meeting.count > meeting.expected:
                part = self.wave.lanes_at(meeting.arrived[-1])
                message = f"{meeting.count} threads at a barrier for {meeting.expected}"
                self.wave.launch.report(Kind.BARRIER_MISUSE, message, part, 0, meeting.segment.site)
            del self.meetings[key]
            waiting = [
                lanes for lanes, after in zip(meeting.arrived, meeting.following, strict=True) if after is not None
            ]
            if everyone and len(waiting) == len(meeting.arrived):
                joined.append(key[0])
            elif waiting:
                together = np.sort(np.concatenate(waiting))
                if self.wave.ordering.vector:
                    self.wave.ordering.lanes_joined(together)
                for known in meeting.known:
                    if known is not None:
                        self.wave.ordering.learn(together, known)
            self.give_result(meeting)
            if self.wave.time is not None and waiting:
                self.wave.time.reach(np.concatenate(waiting), meeting.came)
            for lanes, after in zip(meeting.arrived, meeting.following, strict=True):
                if after is not None:
                    self.wave.put(Group(self.wave, np.sort(lanes), meeting.turn, meeting.back_edges), after)
        if joined:
            self.wave.ordering.blocks_joined(np.array(joined))

    def give_result(self, meeting: BarrierMeeting) -> None:
        votes = sum(int(flags.sum()) for flags in meeting.flags if flags is not None)
        present = sum(len(lanes) for lanes in meeting.arrived)
        for lanes, barrier in zip(meeting.arrived, meeting.reductions, strict=True):
            if barrier is not None:
                row = self.wave.rows[self.wave.program.slots[barrier.result]]
                row[lanes] = reduced(barrier.reduction, np.uint32(votes), np.uint32(present))

    # mbarrier and cluster

    def sleep_until(self, segment: Segment, g: Group, ready: Any) -> None:
        """Runs the segment for the lanes that are ready. The other lanes sleep until an mbarrier's or a cluster's phase
        completes."""
        if not ready.all():
            self.sleeping.append((segment.number, self.wave.restrict(g, np.flatnonzero(~ready), segment)))
            if not ready.any():
                return
            g = self.wave.restrict(g, np.flatnonzero(ready), segment)
        self.wave.run(segment, g)

    def wake(self) -> None:
        for number, g in self.sleeping:
            self.wave.put(g, number)
        self.sleeping = []

    def cluster(self, segment: Segment, barrier: BarrierOperands, g: Group) -> None:
        index = g.index()
        clusters = g.lane("slot") // self.wave.cluster
        ordering = self.wave.ordering
        arrives = barrier.mode == "cluster.arrive"
        wrong = self.cluster_owed[index] == arrives
        if wrong.any():
            message = "waits at the barrier of its cluster without having arrived at it"
            if arrives:
                message = "arrives at the barrier of its cluster again, without having waited since it arrived"
            g.launch.report(Kind.BARRIER_MISUSE, message, g, int(np.flatnonzero(wrong)[0]), segment.site)
            self.pass_by(segment, g, np.flatnonzero(wrong))
            rest = np.flatnonzero(~wrong)
            if len(rest):
                self.cluster(segment, barrier, self.wave.restrict(g, rest, segment))
            return
        if arrives:
            self.cluster_owed[index] = True
            self.cluster_arrived[index] = True
            # A lane's wait ends when the cluster is in a later phase than at the lane's arrival.
            self.lane_phase[index] = self.cluster_phase[clusters]
            for cluster in np.unique(clusters):
                lanes = index[clusters == cluster]
                if self.wave.time is not None:
                    self.cluster_coming[cluster] = max(self.cluster_coming[cluster], self.wave.time.behind(lanes))
                known = ordering.snapshot(lanes) if barrier.orders else self.relaxed(lanes)
                self.cluster_known[int(cluster)] = either(self.cluster_known.get(int(cluster)), known)
            self.wave.run(segment, g)
            self.complete_clusters()
            return
        ready = self.lane_phase[index] < self.cluster_phase[clusters]
        for cluster in np.unique(clusters[ready]):
            lanes = index[ready & (clusters == cluster)]
            ordering.learn(lanes, self.cluster_published[int(cluster)])
            if self.wave.time is not None:
                self.wave.time.reach(lanes, int(self.cluster_came[cluster]))
        self.cluster_owed[index[ready]] = False
        self.sleep_until(segment, g, ready)

    def relaxed(self, lanes: Any) -> Snapshot:
        """Returns the knowledge that a relaxed arrival publishes: that the blocks of these lanes have begun, and what
        the lanes knew at their last fences."""
        return either(self.wave.ordering.begun(lanes), self.wave.relaxed.released(lanes, CLUSTER))

    def complete_clusters(self) -> None:
        lanes = self.wave.lanes // len(self.cluster_phase)
        here = (self.cluster_arrived | ~self.wave.live).reshape(-1, lanes).all(1)
        arrived = self.cluster_arrived.reshape(-1, lanes).any(1)
        for cluster in np.flatnonzero(here & arrived):
            self.cluster_phase[cluster] += 1
            self.cluster_came[cluster], self.cluster_coming[cluster] = self.cluster_coming[cluster], 0
            self.cluster_arrived.reshape(-1, lanes)[cluster] = False
            self.cluster_published[int(cluster)] = self.cluster_known.pop(int(cluster))
            self.wake()

    # Exits and deadlock

    def somebody_left(self) -> None:
        for number, groups in self.partial.items():
            self.wave.pending.setdefault(number, []).extend(groups)
        self.partial = {}
        self.watched = {}
        if self.meetings:
            self.complete(list(self.meetings))
        if self.cluster_arrived.any():
            self.complete_clusters()

    def report_stuck(self) -> None:
        for number, groups in self.partial.items():
            message = "part of a warp waits at an aligned barrier for lanes that wait elsewhere"
            segment = self.wave.program.segments[number]
            self.wave.launch.report(Kind.DIVERGENT_BARRIER, message, groups[0], 0, segment.site)
        # For each instruction where threads wait: a group of these threads, a text about what they wait for, and a text
        # about what is missing. Waits for mbarriers come first. In a warp-specialized kernel, warps without a role wait
        # at a barrier for the other warps.
        waits: dict[Site | None, tuple[Any, str, str]] = {}
        for number, g in self.sleeping:
            segment = self.wave.program.segments[number]
            barrier = segment.barrier
            what = "an mbarrier's phase" if barrier and barrier.mode == "try_wait" else "its cluster"
            there = sum(each.n for at, each in self.sleeping if at == number)
            why = f": {barrier.missing(g.frame(segment), g)}" if barrier and barrier.missing else ""
            waits.setdefault(segment.site, (g, f"{waiting(there)} for {what}", why))
        for (slot, number), meeting in self.meetings.items():
            there = sum(len(lanes) for lanes in meeting.arrived)
            wanted = meeting.expected if meeting.expected is not None else int(self.wave.live_counts()[slot])
            message = f"{waiting(there)} at barrier {number} for {wanted} of the block"
            waits.setdefault(meeting.segment.site, (self.wave.lanes_at(meeting.arrived[0]), message, ""))
        if waits:
            self.report_deadlock(waits)

    def report_deadlock(self, waits: dict[Site | None, tuple[Any, str, str]]) -> None:
        """Reports all waiting threads in one finding, since each wait may be the cause of the deadlock."""
        (site, (g, message, why)), *others = waits.items()
        message += ", and no running thread can end that" + why
        for there, (_, who, why) in others:
            place = f"line {there.location.line}" if there and there.location else "another place"
            message += f"; at {place}, {who}{why}"
        self.wave.launch.report(Kind.DEADLOCK, message, g, 0, site)

    def anybody(self) -> bool:
        return bool(self.partial or self.meetings or self.sleeping)

    def waits_for_phases(self) -> bool:
        """Returns whether any thread waits for an mbarrier's phase."""
        barriers = (self.wave.program.segments[number].barrier for number, _ in self.sleeping)
        return any(barrier is not None and barrier.mode == "try_wait" for barrier in barriers)
