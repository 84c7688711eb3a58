"""A wave: the threads of many blocks, which the emulator runs together. Decides which threads run next.

Each thread either has a basic block to run next, or waits. The program's basic blocks are numbered in a fixed order.
The threads at the lowest numbered block run first, merged into one group. So diverged threads merge again where their
paths meet, and the emulator needs no reconvergence points.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .causality import Strong
from .code import DTYPES, REGISTER_DTYPE, OperandEntry, Site, seen_as
from .copies import Copies
from .delays import Delays
from .findings import Kind
from .group import Group, Lanes
from .mbarriers import Mbarriers
from .memory import GLOBAL_WINDOW, LOCAL_WINDOW, RANK_SHIFT
from .ordering import Ordering
from .origins import coordinates
from .products import Products
from .program import Segment
from .register_counts import RegisterCounts
from .relaxed import Relaxed
from .rendezvous import BlockMeetings, WarpMeetings
from .shadow import Shadow, SpacePlace
from .spaces import LocalSpace, SharedSpace, Space
from .stamps import THREAD_SHIFT, U
from .tensor_copies import TensorLoads, TensorStores
from .visits import Visits

# Number of loop iterations after which a group lets the other groups of the wave run. This limit applies only to
# programs whose loops may wait for other threads.
BACK_EDGES = 64
# The same number for a rehearsal (`forward.py`). After 12 iterations, a loop that polls 1, 2, 3, 4 or 6 words in turn
# is back at its first word, and the rehearsal mostly ends.
FEW_BACK_EDGES = 12
# In the shadow memory, each wave's shared memory begins at another multiple of 2^36, and is smaller than that. So no
# two waves of a launch have an address in common.
SHARED_BASE_BITS = 36
LANE_BITS = np.uint32(1) << np.arange(32, dtype=np.uint32)


class WaveRegisters:
    """The registers of a wave: one array for each register, with an element for each thread. `frame` has typed views of
    these arrays. A later wave uses the same arrays again."""

    def __init__(self, launch: Any, lanes: int):
        program = launch.program
        self.lanes = lanes
        self.rows: list[Any] = [np.zeros(lanes, REGISTER_DTYPE[size]) for size in program.slot_bytes]
        self.frame = list(launch.constants)
        for number, entry in enumerate(program.code.entries):
            if entry.kind == "register" and entry.name in program.slots:
                self.frame[number] = seen_as(self.rows[program.slots[entry.name]], entry.type, entry.register_bytes)

    def clear(self) -> None:
        for row in self.rows:
            row[...] = 0


class Wave:
    """The threads of whole clusters. `blocks` has the linear numbers of the wave's blocks, one cluster after
    another."""

    def __init__(self, launch: Any, blocks: Any):
        self.launch, self.program = launch, launch.program
        self.blocks = blocks
        self.cluster = launch.cluster_size
        self.block_lanes = launch.block_lanes
        self.slots = len(blocks)
        self.lanes = self.slots * self.block_lanes
        self.positions = np.arange(self.lanes)
        self.exists = np.tile(np.arange(self.block_lanes) < launch.threads, self.slots)
        self.live = self.exists.copy()
        self.left_by = np.full(self.lanes, -1)  # the site number of the instruction where each thread has ended, or -1
        self.constants: dict[str, Any] = {}
        program = self.program
        how = program.needs_clocks, program.names_narrow_scopes, program.reads_clocks
        self.ordering = Ordering(launch.clock, blocks, self.block_lanes, self.cluster, self.exists, *how)
        self.time = self.ordering.time
        self.causality = self.ordering.causality
        self.spaces: dict[str, Space] = {"global": launch.device, "const": launch.constant_memory}
        self.make_spaces()
        self.registers = launch.registers_of(self.lanes)
        self.rows = self.registers.rows
        self.values = self.full_frame()
        self.undefined = self.program.undefined.table(self.lanes)
        self.relaxed = Relaxed(self)
        self.copies = Copies(self)
        self.products = Products(self)
        self.loads, self.stores = TensorLoads(self), TensorStores(self)
        self.register_counts = RegisterCounts(self)
        self.mbarriers = Mbarriers(self)
        self.visits = Visits(self)
        self.warp_meetings = WarpMeetings(self)
        self.block_meetings = BlockMeetings(self)
        self.pending: dict[int, list[Group]] = {}
        threads = None if self.exists.all() else np.flatnonzero(self.exists)
        self.put(Group(self, threads), self.program.start)

    def make_spaces(self) -> None:
        launch, granules = self.launch, self.program.granules
        arena, start, end = launch.arena, launch.shared_start, launch.shared_end
        # The base is negative, so that it is no address of global memory. It depends on the first block's number, so
        # that each wave has its own base.
        base = -(1 + int(self.blocks[0])) << SHARED_BASE_BITS
        # Blocks of a cluster can access each other's shared memory, and a block's barrier does not order such accesses.
        exact, private = self.program.has_chains, self.cluster == 1
        size = self.slots * arena
        shadow = Shadow("shared", size, granules["shared"], private, True, launch.report, base, exact)
        # To free a pipeline stage, one lane of each warp arrives at an mbarrier. If one record had the reads of the
        # whole block, this would look like a race with the other warps.
        shadow.by_warps = self.program.has_mbarriers
        self.spaces["shared"] = SharedSpace(self.slots, arena, start, end, self.cluster, shadow)
        if self.program.waits_for_memory:
            self.spaces["shared"].delays = Delays(self.spaces["shared"])
        size = launch.local_bytes
        written = Shadow("local", self.lanes * size, granules["local"], True, True, launch.report)
        self.spaces["local"] = LocalSpace(self.lanes, size, written)

    def full_frame(self) -> list[Any]:
        frame = list(self.registers.frame)
        for number, entry in self.program.special_entries:
            if frame[number] is None:
                values = self.constant(entry.name) if entry.kind == "special" else self.own_addresses(entry)
                frame[number] = seen_as(values, entry.type, values.dtype.itemsize)
        return frame

    def own_addresses(self, entry: OperandEntry) -> Any:
        """Returns the address of a shared variable in each thread's own block.

        In a cluster the address includes the block's rank, as on a device. This shows a fault that the compiler once
        had: a wgmma descriptor kept more than 18 bits of the address, so bits of the rank entered its next field. An
        H100 showed the fault. The emulator did not while all blocks had the same addresses.
        """
        name, offset = entry.name
        rank = self.constant("rank").astype(np.uint64) + np.uint64(1)
        address = (rank << np.uint64(RANK_SHIFT)) + np.uint64(self.launch.addresses[name] + offset)
        return address.astype(DTYPES[entry.type])

    def constant(self, name: str) -> Any:
        """Returns a value for each thread that never changes: gid, slot, warp, rank, or a special register that differs
        between threads."""
        found = self.constants.get(name)
        if found is None:
            found = self.constants[name] = self.computed_constant(name)
        return found

    def computed_constant(self, name: str) -> Any:
        launch, lanes = self.launch, self.block_lanes
        thread = np.tile(np.arange(lanes, dtype=np.uint32), self.slots)
        if name == "gid":
            return np.repeat(self.blocks.astype(U) * U(lanes), lanes) + thread.astype(U)
        if name == "gid stamp":
            return self.constant("gid") << U(THREAD_SHIFT)
        if name == "slot":
            return np.repeat(np.arange(self.slots), lanes)
        if name == "warp":
            return self.positions >> 5
        if name in {"rank", "%cluster_ctarank"}:
            return np.repeat(self.blocks % self.cluster, lanes).astype(np.uint32)
        if name.startswith("%tid."):
            return coordinates(thread, launch.block)["xyz".index(name[-1])]
        if name == "%laneid":
            return thread & np.uint32(31)
        if name == "%warpid":
            return thread >> np.uint32(5)
        if name.startswith("%lanemask_"):
            return lane_mask(name[-2:], thread & np.uint32(31))
        # An H100 has 132 multiprocessors.
        if name in {"%smid", "%gridid"}:
            return np.repeat(self.blocks % 132 if name == "%smid" else self.blocks * 0, lanes).astype(np.uint32)
        axis = "xyz".index(name[-1])
        within = coordinates((self.blocks % self.cluster).astype(np.uint32), launch.cluster)[axis]
        clusters = (self.blocks // self.cluster + launch.first_cluster).astype(np.uint32)
        cluster = coordinates(clusters, launch.cluster_grid)[axis]
        if name.startswith("%ctaid."):
            return np.repeat(cluster * np.uint32(launch.cluster[axis]) + within, lanes)
        if name.startswith("%clusterid."):
            return np.repeat(cluster, lanes)
        return np.repeat(within, lanes)

    # Groups

    def lanes_at(self, threads: Any) -> Lanes:
        return Lanes(self, np.sort(threads))

    def live_bits(self, warps: Any) -> Any:
        return self.bits_of(self.live.reshape(-1, 32)[warps])

    def bits_of(self, table: Any) -> Any:
        """Packs bools of shape [warps, 32] into one 32-bit word for each warp."""
        return (table * LANE_BITS).sum(1, dtype=np.uint32)

    def live_counts(self) -> Any:
        return self.live.reshape(self.slots, -1).sum(1)

    def put(self, g: Group, number: int) -> None:
        self.pending.setdefault(number, []).append(g)

    def merge(self, groups: list[Group], segment: Segment) -> Group:
        if len(groups) == 1:
            return groups[0]
        for g in groups:
            g.write_back(segment.live_slots)
        here = np.zeros(self.lanes, bool)
        for g in groups:
            here[g.index()] = True
        threads = np.flatnonzero(here)
        # The merged group gets the lowest turn, so that it runs no later than any of its parts would. It gets the
        # largest count of back edges, so that it yields no later than any of its parts would.
        turn = min(g.turn for g in groups)
        return Group(self, None if len(threads) == self.lanes else threads, turn, max(g.back_edges for g in groups))

    def restrict(self, g: Group, positions: Any, segment: Segment) -> Group:
        """Returns a group of some lanes of `g`, at the start of `segment`."""
        g.write_back(segment.live_slots)
        return Group(self, g.index()[positions], g.turn, g.back_edges)

    def flush(self, g: Group, segment: Segment) -> None:
        for target in segment.end.targets:
            g.write_back(self.program.segments[target].live_slots)

    # Running

    def step(self) -> bool:
        """Runs the threads at the lowest segment once. Returns False if nothing is left to run."""
        if not self.pending:
            return self.unblock()
        # The lowest turn runs first, then the lowest segment. So a group that has spun in a loop runs after the groups
        # that may end its wait.
        number = min(self.pending, key=lambda each: (min(g.turn for g in self.pending[each]), each))
        segment = self.program.segments[number]
        g = self.merge(self.pending.pop(number), segment)
        for op in segment.arrival:
            op([], g)
        if segment.sync == "barrier":
            self.block_meetings.arrive(segment, g)
            return True
        if segment.sync == "warp":
            met = self.warp_meetings.meet(segment, g)
            if met is None:
                return True
            g = met
        self.run(segment, g)
        return True

    def run(self, segment: Segment, g: Group) -> None:
        if self.block_meetings.watched and not segment.only_leaves:
            self.block_meetings.check_watched(segment, g)
        values = g.frame(segment)
        # Tracking each instruction's position costs time, so this is done only in programs that read a clock.
        if self.time is None:
            for op in segment.ops:
                op(values, g)
        else:
            for self.time.position, op in zip(segment.places, segment.ops, strict=True):
                op(values, g)
            self.time.position = 0
        self.account(segment, g)
        self.go_on(segment, g, values)

    def account(self, segment: Segment, g: Group) -> None:
        launch = self.launch
        launch.segment_warps[segment.number] += g.warps
        launch.segment_lanes[segment.number] += g.n
        launch.spent += g.n * segment.size
        if self.time is not None:
            self.time.passed(g, segment.size)
        launch.check_limits(g, segment)

    def go_on(self, segment: Segment, g: Group, values: list[Any]) -> None:
        end = segment.end
        if end.kind in {"next", "jump"}:
            self.move(segment, g, end.targets[0])
        elif end.kind == "exit":
            self.leave(g, end.site)
        elif end.kind == "switch":
            self.switch(segment, g, values)
        else:
            taken = ~values[end.entry] if end.negated else values[end.entry]
            self.branch(segment, g, taken)

    def move(self, segment: Segment, g: Group, target: int) -> None:
        if target <= segment.number and self.program.waits_for_memory:
            g.back_edges += 1
            if g.back_edges >= (FEW_BACK_EDGES if self.launch.hurries else BACK_EDGES):
                g.back_edges = 0
                g.turn += 1
        self.put(g, target)

    def branch(self, segment: Segment, g: Group, taken: Any) -> None:
        end = segment.end
        leaves = end.kind == "exit where"
        if taken.all():
            if leaves:
                self.leave(g, end.site)
            else:
                self.move(segment, g, end.targets[0])
            return
        if not taken.any():
            self.move(segment, g, end.targets[-1])
            return
        # If both targets of the branch are the same segment, the group stays whole.
        if not leaves and end.targets[0] == end.targets[-1]:
            self.move(segment, g, end.targets[0])
            return
        if end.site is not None:
            rows = g.by_warp(taken.astype(np.int8))
            mixed = int(((rows == 1).any(1) & (rows == 0).any(1)).sum())
            self.launch.counters_of(end.site).divergent_branches += mixed
            if mixed and end.uniform:
                self.report_divergence(g, taken, end.site)
        self.flush(g, segment)
        index = g.index()
        gone, stay = (Group(self, index[np.flatnonzero(each)], g.turn, g.back_edges) for each in (taken, ~taken))
        self.move(segment, stay, end.targets[-1])
        if leaves:
            self.leave(gone, end.site)
        else:
            self.move(segment, gone, end.targets[0])

    def report_divergence(self, g: Group, taken: Any, site: Site) -> None:
        """Reports a `.uni` branch whose threads diverge. By `.uni`, the program promises that the branch does not
        diverge within a warp (PTX ISA "bra")."""
        warps = g.index() >> 5
        first = np.flatnonzero(np.diff(warps, prepend=-1))
        own = np.searchsorted(warps[first], warps)
        lane = int(np.flatnonzero(taken != taken[first][own])[0])
        message = f"{site.text.split()[-2]} is .uni, but threads of one warp go different ways"
        self.launch.report(Kind.DIVERGENT_BRANCH, message, g, lane, site)

    def switch(self, segment: Segment, g: Group, values: list[Any]) -> None:
        which = np.broadcast_to(values[segment.end.entry], g.n)
        self.flush(g, segment)
        index = g.index()
        # Lanes with the same target stay together.
        for each in np.unique(which):
            lanes = np.flatnonzero(which == each)
            part = Group(self, index[lanes], g.turn, g.back_edges)
            if int(each) >= len(segment.end.targets):
                message = f"brx.idx takes target {int(each)} of {len(segment.end.targets)}; the first is 0"
                self.launch.report(Kind.BRANCH_TARGET, message, g, int(lanes[0]), segment.end.site)
                self.leave(part, segment.end.site)
                continue
            self.move(segment, part, segment.end.targets[int(each)])

    def leave(self, g: Group, site: Site | None) -> None:
        """Records that these threads have exited. Then checks again the barriers and `.sync` instructions that may have
        waited for them."""
        self.live[g.index()] = False
        if site is not None:
            self.left_by[g.index()] = site.number
        if self.launch.overlap is not None:
            self.launch.overlap.left(g, site)
        if self.warp_meetings.parked:
            self.warp_meetings.requeue()
        self.block_meetings.somebody_left()

    def unblock(self) -> bool:
        """Handles a wave that has nothing to run: it has ended, or it is deadlocked. Reports a deadlock. Returns
        False."""
        if self.block_meetings.anybody() or self.warp_meetings.parked:
            # Threads at mbarriers are reported first, since a lane at an mbarrier keeps the rest of its warp waiting,
            # not the other way round. Otherwise the report would name warps without a warp role, which wait at a
            # barrier, instead of the threads that wait for missing bytes.
            first = self.block_meetings.waits_for_phases()
            if first:
                self.block_meetings.report_stuck()
            self.warp_meetings.report_stuck()
            if not first:
                self.block_meetings.report_stuck()
        return False

    @property
    def turns(self) -> int:
        """The lowest turn of all runnable groups: each of them has spun and yielded at least so many times."""
        return min((g.turn for groups in self.pending.values() for g in groups), default=0)

    def state(self) -> Any:
        """Returns everything except memory that decides how the wave continues: the segment and the live registers of
        each group, all registers of waiting threads, and the phases of the mbarriers."""
        turns = self.turns
        found: list[Any] = []
        parked = self.live.copy()
        for number in sorted(self.pending):
            slots = sorted(self.program.segments[number].live_slots)
            for g in self.pending[number]:
                index = g.index()
                parked[index] = False
                rows = [g.rows[slot] if slot in g.rows else self.rows[slot][index] for slot in slots]
                values = tuple(hash(row.tobytes()) for row in rows)
                found.append((number, g.turn - turns, hash(index.tobytes()), values))
        # The registers of threads that wait at a barrier matter, too. They may count the iterations of a polling loop.
        if parked.any():
            found.append(tuple(hash(row[parked].tobytes()) for row in self.rows))
        return self.blocks[0], found, self.mbarriers.state()

    def wake_waiters(self) -> None:
        self.mbarriers.waiting.clear()
        self.block_meetings.wake()

    def atomic_order(self, count: int) -> Any:
        """Returns the order in which the lanes execute one atomic instruction. A seed other than 0 permutes the lanes
        at random."""
        if self.launch.seed == 0:
            return slice(None)
        return self.launch.random.permutation(count)

    def warps_met(self, g: Lanes, masks: Any) -> None:
        """Executes `bar.warp.sync`: orders the accesses of the lanes that each mask names."""
        # The usual case: all warps are whole and have full masks.
        if g.whole and (masks == 0xFFFFFFFF).all():
            self.ordering.warps_joined(g.index()[::32] >> 5 if g.threads is not None else slice(None))
            return
        warps, rows = g.warp_rows
        live = self.live_bits(warps)[rows]
        present = self.bits_of(g.presence)[rows]
        whole = masks & live == live
        done = np.flatnonzero(whole & (present == live))
        if len(done):
            self.ordering.warps_joined(np.unique(g.index()[done] >> 5))
        rest = np.flatnonzero(~(whole & (present == live)))
        keys = (g.index()[rest] >> 5) << 32 | masks[rest]
        for key in np.unique(keys):
            self.ordering.lanes_joined(g.index()[rest[keys == key]])

    # Release and acquire

    def addresses(self, place: SpacePlace, memory: Space) -> Any:
        """Returns an address for each lane. The launch's other memory spaces do not have the same addresses."""
        index = place.index if place.index is not None else place.start + np.arange(place.lanes)
        return memory.shadow.base + index * place.size

    def observe(self, place: SpacePlace, g: Lanes, memory: Space, strong: Strong, late: Any = None) -> None:
        """Handles a strong read. `late` is a mask [lanes, elements] of the elements whose value is from before the last
        write."""
        if self.launch.clock.published:
            for element, offset in enumerate(range(0, place.size, strong.size)):
                addresses = self.addresses(place, memory) + offset
                self.causality.observe(addresses, g.index(), strong, None if late is None else late[:, element])

    def publish(self, place: SpacePlace, g: Lanes, memory: Space, strong: Strong) -> None:
        """Handles a strong write. If several lanes write one address, the last lane's value is kept."""
        if strong.releases or self.causality.fences or self.launch.clock.published or self.program.waits_for_memory:
            for offset in range(0, place.size, strong.size):
                addresses = self.addresses(place, memory) + offset
                self.causality.publish(addresses, g.index(), strong, memory.shadow.granule)

    def modify(self, place: SpacePlace, g: Lanes, memory: Space, order: Any, wrote: Any, strong: Strong) -> None:
        """Handles atomic operations, one after another. Each operation sees what the earlier operations have published.

        `wrote` states which lanes write. A compare-and-swap that fails only reads.
        """
        if strong.releases or self.causality.fences or self.launch.clock.published or self.program.waits_for_memory:
            writes = True if wrote is True else wrote[order]
            for offset in range(0, place.size, strong.size):
                addresses = (self.addresses(place, memory) + offset)[order]
                self.causality.modify(addresses, g.index()[order], writes, strong, memory.shadow.granule)

    def bytes_behind(self, address: int, position: int) -> tuple[Any, int]:
        """Converts a generic address of one thread, in local or device memory, to an array of bytes and an offset in
        it. `position` is the thread's position in the wave."""
        if address >= LOCAL_WINDOW:
            local = self.spaces["local"]
            return local.data, position * self.launch.local_bytes + address - LOCAL_WINDOW
        return self.launch.memory.data, address - GLOBAL_WINDOW


def lane_mask(relation: str, lane: Any) -> Any:
    own = np.uint32(1) << lane
    below = own - np.uint32(1)
    return {"eq": own, "lt": below, "le": below | own, "gt": ~(below | own), "ge": ~below}[relation]
