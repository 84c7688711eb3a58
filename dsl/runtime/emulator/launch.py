"""Emulates one launch: copies the arguments to memory, runs the blocks in waves, and collects findings, counters and
results."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from math import prod
from time import monotonic
from typing import Any

import numpy as np
from msgspec import Struct, field

from .allocation import keep_freed_memory
from .arguments import Arguments
from .code import DTYPES, OperandEntry, Site, array_of_bits, constant_array
from .counters import Counters, LaunchCounters
from .delays import Delays
from .findings import DividedError, EmulatorError, Finding, Kind, LaunchRefusedError, Location
from .forward import FEW, MOST_STEPS, WAITS_FOR_LATER, doubled
from .legal import check_module
from .legal.forms import number_of
from .limits import MOST_LOCAL, MOST_SHARED
from .map_proxy import MapProxy
from .memory import GLOBAL_WINDOW, MOST_ALIGNMENT, SHARED_START, EmulatedAllocation, Memory
from .origins import Origins, Writers, writers_of
from .overlap import Overlap, Touched
from .printf import c_string
from .products import ProxyFences
from .program import EmulatedProgram, Segment, count_alike
from .provenance import ANYWHERE
from .reader import PtxFunction, PtxInstruction, Variable, read_module
from .scratch import end_scratch, unwritten_granules
from .shadow import Shadow
from .spaces import GlobalSpace, PatternCache, Space
from .spinning import Spins
from .stamps import THREAD_BITS, Clock
from .tensor_maps import element_bytes_of, element_sizes
from .wave import Wave, WaveRegisters

MOST_THREADS = 1024  # of a block
BUDGET = 1 << 36  # thread instructions
TIME_LIMIT = 300.0  # seconds
# Largest number of bytes of registers in a wave. Registers of 3 MiB would fit in a second-level cache. But the launch
# would then have more waves with smaller numpy operations, which costs more than the cache saves.
ROWS_BYTES = 12 << 20
RESIDENT_WAVES = 16
# Number of threads that run at once on the largest device known here, an H100 or H200 with 132 multiprocessors. If this
# many resident threads wait for blocks that have not started, those blocks can never start, which is a deadlock.
RESIDENT_LANES = 132 * 2048
# With a seed, a launch is split into this many waves at most, if they fit. When all waves poll, a turn of each wave
# costs some milliseconds.
WAVES_BY_CHANCE = 4
SPINS = 4  # number of turns that a wave runs before it lets another wave run
# Kinds of findings that a missing wait may cause. If the thread did not repeat an mbarrier wait that returned false,
# the report names this wait.
NEEDS_ORDER = {Kind.RACE, Kind.IN_FLIGHT, Kind.UNINITIALISED}
Extent = int | Sequence[int]
# Grid, block, cluster, and (bytes, alignment) of the dynamic shared memory.
Shape = tuple[Extent, Extent, Extent, tuple[int, int]]


class Result(Struct):
    """The result of a launch. `findings` is empty unless findings are collected. `output` is the text that the kernel
    printed. `writers` contains, for the allocation at each watched address, the last writer of each byte. `notes`
    describes code that violates the PTX ISA but is harmless. `touched` contains the memory that this launch accessed,
    for checks of overlapping launches."""

    counters: LaunchCounters
    findings: list[Finding] = field(default_factory=list)
    output: str = ""
    writers: dict[int, Writers] = field(default_factory=dict)
    notes: list[Finding] = field(default_factory=list)
    touched: list[Touched] = field(default_factory=list)


def extent(value: Extent) -> tuple[int, int, int]:
    sizes = [value] if isinstance(value, int | np.integer) else list(value)
    x, y, z = [*map(int, sizes), 1, 1][:3]
    return x, y, z


def align(offset: int, to: int) -> int:
    return -(-offset // to) * to


class BudgetSpent(Exception):
    """Raised to stop a launch, after the reason has been reported."""


class StandsStillError(Exception):
    """Raised if every thread of a rehearsal (`forward.py`) repeats its loop, and nothing changes. `finding` is to be
    reported if some blocks have not started yet."""

    def __init__(self, finding: Finding):
        super().__init__(str(finding))
        self.finding = finding


class RunningLaunch:
    """The state that all waves of a launch share."""

    def __init__(
        self,
        program: EmulatedProgram,
        grid: Extent,
        block: Extent,
        cluster: Extent,
        shared: tuple[int, int],
        memory: Memory,
        seed: int,
        budget: int,
        on_finding: str,
        blocks: int | None,
        time_limit: float = TIME_LIMIT,
        from_middle: bool = False,
    ):
        """`shared` is (bytes, alignment) of dynamic shared memory. Raises LaunchRefusedError for an invalid launch."""
        self.program, self.memory = program, memory
        self.barriers: Mapping[int, str] = {}
        self.overlap: Overlap | None = None
        self.seed, self.budget, self.on_finding = seed, budget, on_finding
        self.time_limit, self.deadline = time_limit, monotonic() + time_limit
        self.random = np.random.default_rng(seed)
        self.grid, self.block = extent(grid), extent(block)
        self.cluster = extent(program.function.required_cluster or cluster)
        if any(blocks % size for blocks, size in zip(self.grid, self.cluster, strict=True)):
            raise LaunchRefusedError(f"the grid {self.grid} is not a multiple of the cluster {self.cluster}")
        self.cluster_grid = extent([blocks // size for blocks, size in zip(self.grid, self.cluster, strict=True)])
        self.cluster_size = prod(self.cluster)
        self.threads = prod(self.block)
        if not 1 <= self.threads <= MOST_THREADS:
            raise LaunchRefusedError(f"a block has 1 to {MOST_THREADS} threads, not {self.threads}")
        self.check_block(program.function)
        self.block_lanes = align(self.threads, 32)
        all_blocks = prod(self.grid)
        self.blocks = all_blocks if blocks is None else min(align(blocks, self.cluster_size), all_blocks)
        self.first_cluster = (all_blocks - self.blocks) // self.cluster_size // 2 if from_middle else 0
        if self.blocks * self.block_lanes >> THREAD_BITS:  # a stamp has THREAD_BITS bits for the thread
            raise LaunchRefusedError(f"{self.blocks} blocks are too many to emulate")
        self.findings, self.notes = list[Finding](), list[Finding]()
        self.divided = self.judges_divisions = False  # divisions of integers by 0
        self.seen: set[tuple[Kind, int]] = set()
        self.output: list[str] = []
        self.spent = 0
        self.segment_warps = [0] * len(program.segments)
        self.segment_lanes = [0] * len(program.segments)
        self.meant: dict[int, EmulatedAllocation | None] = {}  # results of `meant_by`, by the number of the instruction
        self.site_counters = defaultdict[int, Counters](Counters)
        self.patterns = PatternCache()
        self.clock = Clock(self.blocks, np.arange(self.block_lanes) < self.threads)
        self.spare_registers: list[WaveRegisters] = []
        self.addresses: dict[str, int] = {}
        self.allocations: list[EmulatedAllocation] = []
        clusters = (self.cluster, self.cluster_grid, self.first_cluster)
        self.origins = Origins(self.block, self.block_lanes, *clusters, program.code.stamped)
        self.active: list[Wave] = []
        self.waiting: list[Any] = []  # blocks of each wave that has not started; the last wave starts next
        self.begun = 0  # threads
        self.rehearses = self.hurries = False  # is this a rehearsal? does it have short turns?
        self.spins = Spins(self)
        self.lay_out_variables(*shared)

    @cached_property
    def proxies(self) -> ProxyFences:
        """The time at which each thread last executed a proxy fence for shared memory."""
        return ProxyFences(self.blocks * self.block_lanes)

    @cached_property
    def global_proxies(self) -> ProxyFences:
        """The time at which each thread last executed a proxy fence for global memory."""
        return ProxyFences(self.blocks * self.block_lanes)

    @cached_property
    def map_proxy(self) -> MapProxy:
        """The record of threads that have released or acquired tensor maps in global memory."""
        return MapProxy(self)

    @cached_property
    def init_fences(self) -> ProxyFences:
        """The time at which each thread last executed a fence.mbarrier_init."""
        return ProxyFences(self.blocks * self.block_lanes)

    def check_block(self, function: PtxFunction) -> None:
        """Checks the block's shape against `.reqntid`, and its number of threads against `.maxntid` (PTX ISA 11.4)."""
        if function.required_block is not None and extent(function.required_block) != self.block:
            raise LaunchRefusedError(
                f"{function.name} is for blocks of {extent(function.required_block)}, not {self.block}"
            )
        if function.most_threads is not None and prod(extent(function.most_threads)) < self.threads:
            most = prod(extent(function.most_threads))
            raise LaunchRefusedError(f"{function.name} is for blocks of at most {most} threads, not {self.threads}")

    # Memory

    def lay_out_variables(self, shared_bytes: int, shared_alignment: int) -> None:
        variables = self.program.variables.values()
        shared, local = SHARED_START, 0
        dynamic = max(shared_alignment, 1)
        for variable in variables:
            if variable.space == "shared" and variable.external:
                dynamic = max(dynamic, min(variable.align, MOST_ALIGNMENT))
            elif variable.space == "shared":
                shared = SHARED_START + align(shared - SHARED_START, variable.align)
                self.addresses[variable.name] = shared
                shared += variable.size
            elif variable.space in {"local", "param"}:
                local = align(local, max(variable.align, 8 if variable.space == "param" else 1))
                self.addresses[variable.name] = local
                local += variable.size
            else:
                self.reserve(variable)
        self.shared_start = SHARED_START
        # Dynamic shared memory begins at an odd multiple of the alignment that the PTX or the launch requires. So the
        # emulator finds PTX that relies on a larger alignment. Triton relies on the driver's alignment of 1024
        # (`shared_alignment`).
        dynamic_start = align(shared, 2 * dynamic) + dynamic if dynamic > 1 else shared
        for variable in variables:
            if variable.space == "shared" and variable.external:
                self.addresses[variable.name] = dynamic_start
        self.dynamic_start = dynamic_start
        self.shared_end = dynamic_start + shared_bytes if shared_bytes else shared
        self.dynamic_bytes = shared_bytes
        self.arena = align(self.shared_end, 1024)
        self.local_bytes = align(local, 64)
        # The padding that the emulator puts before dynamic shared memory is not counted.
        asked = shared - SHARED_START + shared_bytes
        if asked > MOST_SHARED:
            raise LaunchRefusedError(f"a block has {asked} bytes of shared memory, of {MOST_SHARED} at most")
        if self.local_bytes * self.block_lanes * self.cluster_size > MOST_LOCAL:
            total = self.local_bytes * self.block_lanes * self.cluster_size
            raise LaunchRefusedError(
                f"the threads of a cluster have {total} bytes of local memory, of {MOST_LOCAL} at most"
            )
        for variable in variables:
            for offset, name, addend in variable.pointers:
                start = self.addresses[variable.name] - GLOBAL_WINDOW + offset
                self.memory.data[start : start + 8] = np.frombuffer(
                    struct.pack("<Q", self.addresses[name] + addend), np.uint8
                )

    def reserve(self, variable: Variable) -> None:
        image = np.frombuffer(variable.data, np.uint8)
        allocation = self.memory.reserve(
            image, variable.size, f".{variable.space} {variable.name}", variable.space == "const"
        )
        self.allocations.append(allocation)
        self.addresses[variable.name] = allocation.address

    def set_arguments(self, arguments: list[bytes]) -> None:
        """Copies the parameters to memory, one after another and aligned. Also creates the constants of the launch and
        the spaces of device memory."""
        image, offset = bytearray(), 0
        offsets = {}
        for variable, data in zip(self.program.function.params, arguments, strict=True):
            offset = align(offset, variable.align)
            image += bytes(offset - len(image))
            offsets[variable.name] = offset
            image += data
            offset += len(data)
        allocation = self.memory.reserve(np.frombuffer(bytes(image), np.uint8), len(image), "the parameters", True)
        self.allocations.append(allocation)
        self.parameter_memory = allocation
        self.memory.own.add(allocation.address)
        self.addresses.update({name: allocation.address + at for name, at in offsets.items()})
        # np.frombuffer may read past the end of the last parameter.
        padded = bytes(image) + bytes(64)
        self.constants = [self.constant(entry, padded, offsets) for entry in self.program.code.entries]
        # If a tensor has smaller elements than any load of the PTX, the granules of the shadow memory have the size of
        # these elements.
        global_granule = min([self.program.granules["global"], *self.map_granules(arguments)])
        shadow = Shadow(
            "global", self.memory.top, global_granule, False, False, self.report, 0, self.program.has_chains
        )
        shadow.unwritten = unwritten_granules(shadow, self.memory.scratch)
        self.parameters = bytes(image), offsets
        written = self.written_allocations(*self.parameters)
        self.device = GlobalSpace(self.memory, shadow, written)
        if self.program.waits_for_memory:
            self.device.delays = Delays(self.device)
        self.constant_memory = GlobalSpace(self.memory, None, written)

    def map_granules(self, arguments: list[bytes]) -> list[int]:
        """Returns the element sizes in bytes of the tensors that tensor copies may access."""
        found = {size for data in arguments if (size := element_bytes_of(data))}
        if self.program.reads_maps:
            found |= self.program.element_sizes | element_sizes(self.memory.data[: self.memory.top].tobytes())
        return sorted(found)

    def written_allocations(self, image: bytes, offsets: dict[str, int]) -> set[int]:
        """Returns the start addresses of the allocations that global stores may reach."""
        names = self.program.stored_through
        if ANYWHERE in names:
            return set(self.memory.starts)
        return {address for name in names for address in self.pointed_to(name, image, offsets)}

    def pointed_to(self, name: str, image: bytes, offsets: dict[str, int]) -> set[int]:
        """Returns the start addresses of the allocations that contain the variable `name`, or to which the parameter
        `name` points."""
        reached = [self.memory.find(self.addresses[name])] if name in self.addresses else []
        size = next((variable.size for variable in self.program.function.params if variable.name == name), 0)
        if size:
            words = range(offsets[name], offsets[name] + size - 7, 8)
            reached += [self.memory.find(int.from_bytes(image[at : at + 8], "little")) for at in words]
        return {allocation.address for allocation in reached if allocation is not None}

    def meant_by(self, site: Site) -> EmulatedAllocation | None:
        """Returns the array from whose pointer an instruction computes its address. Returns None if there is no such
        array, or more than one."""
        if site.number not in self.meant:
            names = self.program.accessed_through(site.ins)
            found = {address for name in names for address in self.pointed_to(name, *self.parameters)}
            # The allocation of the parameters contains the pointer, not the array.
            found.discard(self.parameter_memory.address)
            self.meant[site.number] = self.memory.find(found.pop()) if len(found) == 1 else None
        return self.meant[site.number]

    def stores_to(self, address: int) -> list[PtxInstruction]:
        """Returns the stores and atomic operations that may reach the allocation at the start address `address`."""
        return [
            ins
            for name, stores in self.program.stored_through.items()
            if name == ANYWHERE or address in self.pointed_to(name, *self.parameters)
            for ins in stores
        ]

    def constant(self, entry: OperandEntry, image: bytes, offsets: dict[str, int]) -> Any:
        if entry.kind == "constant":
            return constant_array(entry.name, entry.type)
        if entry.kind == "bits":
            return array_of_bits(entry.name, entry.type)
        if entry.kind == "parameter":
            name, offset = entry.name
            return np.frombuffer(image, DTYPES[entry.type], 1, offsets[name] + offset)
        if entry.kind == "symbol":
            name, offset = entry.name
            if self.cluster_size > 1 and self.is_shared(name):
                return None
            dtype = np.dtype(DTYPES[entry.type])
            value = (self.addresses[name] + offset) & ((1 << 8 * dtype.itemsize) - 1)
            return np.array([value], np.uint64).astype(dtype)
        if entry.kind == "special":
            value = self.special(entry.name)
            return None if value is None else np.array([value], np.uint64).astype(DTYPES[entry.type])
        return None

    def is_shared(self, name: str) -> bool:
        """Checks whether `name` is a variable in shared memory. In a cluster, its address differs between blocks."""
        return name in self.program.variables and self.program.variables[name].space == "shared"

    def special(self, name: str) -> int | None:
        """Returns the value of the special register `name` if it is the same for all threads of the launch, else None.
        `%nsmid` and `%nwarpid` are those of an H100: 132 multiprocessors with 64 warps each."""
        shapes = {
            "%ntid": self.block,
            "%nctaid": self.grid,
            "%nclusterid": self.cluster_grid,
            "%cluster_nctaid": self.cluster,
        }
        stem, _, axis = name.partition(".")
        if stem in shapes:
            return shapes[stem]["xyz".index(axis)]
        return {
            "%nwarpid": 64,
            "%nsmid": 132,
            "%cluster_nctarank": self.cluster_size,
            "%is_explicit_cluster": int(self.cluster_size > 1),
            "%dynamic_smem_size": self.dynamic_bytes,
            "%total_smem_size": self.shared_end,
            "%clock_hi": 0,
            "%globaltimer_hi": 0,
        }.get(name)

    def global_text(self, address: int) -> str:
        return c_string(self.memory.data, address - GLOBAL_WINDOW)

    # Running

    def wave_blocks(self) -> int:
        """Returns the number of blocks in a wave: as many whole clusters as memory limits such as `ROWS_BYTES` allow,
        but at least one."""
        row_bytes = sum(self.program.slot_bytes) + 64
        # `ROWS_BYTES` does not limit a wave to fewer than 4,096 lanes, since a numpy operation costs less per lane in a
        # large wave.
        lanes = min(max(ROWS_BYTES // row_bytes, 4096), 32768)
        lanes = min(lanes, (64 << 20) // max(self.local_bytes, 1))
        cluster_lanes = self.block_lanes * self.cluster_size
        clusters = max(lanes // cluster_lanes, 1)
        # The vector clocks of a wave contain a word for each pair of threads of a cluster. They may occupy at most 32
        # MiB.
        if self.program.needs_clocks:
            clusters = max(min(clusters, (32 << 20) // (4 * cluster_lanes**2)), 1)
        clusters = max(min(clusters, (64 << 20) // (self.arena * self.cluster_size)), 1)
        return clusters * self.cluster_size

    def fewer(self, size: int, clusters: int) -> int:
        """Returns a random number of blocks in a wave, so that there are a few waves. Blocks of a later wave then find
        the results of an earlier wave complete. In a single wave, each block would find the results of all other blocks
        incomplete."""
        least, most = max(-(-clusters // WAVES_BY_CHANCE), 1), size // self.cluster_size
        doublings = max(min(most, clusters) // least, 1).bit_length()
        return min(least << int(self.random.integers(doublings)), most) * self.cluster_size

    def run(self) -> None:
        """Runs all blocks, unless the launch exceeds its budget or time limit."""
        clusters = np.arange(self.blocks // self.cluster_size)
        if self.seed:
            clusters = self.random.permutation(clusters)
        size = self.wave_blocks()
        if self.seed and self.program.waits_for_memory:
            size = self.fewer(size, len(clusters))
        with np.errstate(all="ignore"), suppress(BudgetSpent):
            self.run_together(clusters, size)
        if self.device.shadow.reductions is not None:
            self.device.shadow.reductions.end_launch(self.clock.now)
        # Few launches divide by 0, so only a second run tracks the undefined quotients.
        if self.divided and self.judges_divisions and not self.program.divisions:
            raise DividedError
        self.end_scratch()

    def run_together(self, clusters: Any, size: int) -> None:
        """Runs clusters in waves of `size` blocks."""
        blocks = (clusters[:, None] * self.cluster_size + np.arange(self.cluster_size)).reshape(-1)
        self.waiting = [blocks[start : start + size] for start in range(0, len(blocks), size)][::-1]
        while self.active or self.waiting:
            if not self.active:
                self.admit()
            self.rotate()

    def rehearse(self, phases: list[Any]) -> bool:
        """Runs the phases one after another. A phase is an array of clusters, which run together. Returns False if a
        limit ends the rehearsal, else True. Raises StandsStillError if the clusters make no more progress."""
        # If the program has no mbarriers, each wave runs only for a short turn. A wait at an mbarrier needs longer
        # turns, since it may first return false 128 times (`mbarriers.py`).
        self.rehearses, self.hurries = True, not self.program.has_mbarriers
        size = self.wave_blocks()
        with np.errstate(all="ignore"), suppress(BudgetSpent):
            for clusters in phases:
                self.run_together(clusters, size)
            return True
        return False

    @property
    def begun_clusters(self) -> int:
        return self.begun // self.threads // self.cluster_size

    def admit(self) -> None:
        """Starts the next wave."""
        wave = Wave(self, self.waiting.pop())
        self.active.append(wave)
        self.begun += int(wave.exists.sum())

    def rotate(self) -> None:
        """Runs each active wave for a turn, or until it ends. If all waves only poll, starts further blocks."""
        for wave in list(self.active):
            until = wave.turns + (1 if self.hurries else SPINS)
            while wave.turns < until or (len(self.active) == 1 and not self.may_admit(wave, until)):
                if not wave.step():
                    self.active.remove(wave)
                    self.end(wave)
                    return
                if self.spins.stepped(wave):
                    self.stuck()
                if self.rehearses and self.spins.steps > MOST_STEPS:
                    raise BudgetSpent
        # Blocks without progress may wait for blocks that have not started. Further blocks start as long as a device
        # has room.
        is_stuck = self.spins.rotated(self.active)
        resident = sum(wave.lanes for wave in self.active)
        if self.waiting and (len(self.active) < RESIDENT_WAVES or (is_stuck and resident < RESIDENT_LANES)):
            self.admit()
        elif is_stuck:
            self.stuck()

    def all_spaces(self) -> list[Space]:
        """Returns all memory spaces that the active waves may write."""
        return [
            self.device,
            *(space for wave in self.active for name, space in wave.spaces.items() if name != "global"),
        ]

    def end(self, wave: Wave) -> None:
        wave.causality.end()
        wave.products.end()
        # After a fault, these checks would report consequences of the fault. For example, a thread that the fault has
        # stopped cannot wait for its copies.
        if not self.findings:
            wave.register_counts.end()
            wave.stores.end()
            wave.mbarriers.end()
            wave.visits.end()
        self.spare_registers.append(wave.registers)
        vars(wave).clear()

    def dissolve(self) -> None:
        """Drops all objects that the launch refers to. The launch and its waves refer to each other. So without this
        call, their arrays and the program would stay until a garbage collection. The call reduced the objects that the
        tests of matrix products leave to the garbage collector from 8.4 to 2.5 million."""
        for wave in self.active:
            vars(wave).clear()
        vars(self).clear()

    def registers_of(self, lanes: int) -> WaveRegisters:
        """Returns registers for a wave of `lanes` lanes: those of an ended wave of the same size, or new ones."""
        for index, spare in enumerate(self.spare_registers):
            if spare.lanes == lanes:
                del self.spare_registers[index]
                spare.clear()
                return spare
        return WaveRegisters(self, lanes)

    def may_admit(self, wave: Wave, until: int) -> bool:
        """Checks whether another wave may run now. If a program does not poll memory, each wave runs to its end before
        the next one starts."""
        return self.program.waits_for_memory and wave.turns >= until

    # Findings

    def report(
        self, kind: Kind, message: str, g: Any, lane: int, site: Site | None, last_writer: str | None = None
    ) -> None:
        """Raises EmulatorError if `on_finding` is "raise". Otherwise, stores the first finding of each kind for each
        instruction."""
        finding = self.described(kind, message, g, lane, site, last_writer)
        if self.on_finding == "raise":
            raise EmulatorError(finding)
        key = (kind, site.number if site else -1)
        if key not in self.seen:
            self.seen.add(key)
            self.findings.append(finding)

    def note(self, kind: Kind, message: str, g: Any, lane: int, site: Site, last_writer: str | None) -> None:
        """Stores the first note of each kind for each instruction. A note describes code that violates the PTX ISA but
        is harmless."""
        if (kind, -2 - site.number) not in self.seen:
            self.seen.add((kind, -2 - site.number))
            self.notes.append(self.described(kind, message, g, lane, site, last_writer))

    def described(
        self, kind: Kind, message: str, g: Any, lane: int, site: Site | None, last_writer: str | None
    ) -> Finding:
        block, thread = self.origins.where(int(g.lane("gid")[lane]))
        location = site.location if site else None
        doubt = g.wave.mbarriers.in_doubt(int(g.index()[lane])) if kind in NEEDS_ORDER else None
        last_writer = "\n  ".join(filter(None, [last_writer, doubt])) or None
        return Finding(kind, message, block, thread, location, site.ptx_line if site else None, last_writer)

    def writer(self, stamp: int) -> tuple[Location | None, int | None, str]:
        """Returns (source location, PTX line, text that names the thread) for the store with the stamp `stamp`."""
        site, who = self.origins.site_of(stamp), self.origins.author(stamp)
        return (None, None, who) if site is None else (site.location, site.ptx_line, who)

    def end_scratch(self) -> None:
        """Records in which state the launch has left the workspaces (`scratch.py`)."""
        if self.memory.scratch:
            end_scratch(self.device.shadow, self.memory.data, self.memory.scratch, self.writer)

    def writers(self, address: int) -> Writers | None:
        """Returns the last writer of each byte of the allocation at `address`, or None if there is no such
        allocation."""
        allocation = self.memory.find(address)
        return None if allocation is None else writers_of(self.device.shadow, allocation, self.origins)

    def check_limits(self, g: Any, segment: Segment) -> None:
        """Stops a launch that has exceeded its instruction budget or its time limit."""
        if self.spent > self.budget:
            limit = (
                f"the launch has run {self.spent} thread instructions, which is more than its budget of {self.budget}"
            )
            self.stop(Kind.BUDGET, limit, g, segment.counters[-1][0] if segment.counters else None)
        if monotonic() > self.deadline:
            limit = f"the launch did not end in {self.time_limit:g} seconds: it was stopped here"
            self.stop(Kind.TIME, limit, g, segment.counters[-1][0] if segment.counters else None)

    def stuck(self) -> None:
        """Reports a deadlock: every thread that can run repeats a loop, and nothing changes any more."""
        # The report names a polling loop if there is one, else the segment that would run next.
        message = "every thread that can run repeats its loop, and nothing changes any more"
        polls, wave = self.spins.current(), self.active[0]
        if self.rehearses:
            g = polls[0].group if polls else wave.lanes_at(np.flatnonzero(wave.live))
            text = self.spins.text(self.blocks - self.begun_clusters * self.cluster_size)
            site = polls[0].site if polls else None
            raise StandsStillError(self.described(Kind.DEADLOCK, WAITS_FOR_LATER, g, 0, site, text))
        if polls or not wave.pending:
            g = polls[0].group if polls else wave.lanes_at(np.flatnonzero(wave.live))
            self.stop(Kind.DEADLOCK, message, g, None)
        number, (g, *_) = min(wave.pending.items())
        counted = self.program.segments[number].counters
        self.stop(Kind.DEADLOCK, message, g, counted[-1][0] if counted else None)

    def stop(self, kind: Kind, message: str, g: Any, site: Site | None) -> None:
        """Ends the launch with a finding. The finding names a polling loop if there is one, else `site`."""
        polls = self.spins.current()
        blocks = sum(map(len, self.waiting))
        self.report(kind, message, g, 0, polls[0].site if polls else site, self.spins.text(blocks))
        raise BudgetSpent

    # Counters

    def counters_of(self, site: Site) -> Counters:
        return self.site_counters[site.number]

    def count_ptx_lines(self, result: LaunchCounters) -> None:
        """Adds the counters of each PTX line to `result`. Only launches with `ptx_lines` call this function, since it
        loops over all instructions: in one kernel, over 10,581 instructions instead of 1,137 pairs (source line, kind
        of instruction). The waits of atomics must be counted before this call."""
        found, runs = result.by_ptx_line, result.runs_of_ptx_lines
        for segment in self.program.segments:
            warps, lanes = self.segment_warps[segment.number], self.segment_lanes[segment.number]
            for site, kind, product in segment.counters if warps else ():
                runs[site.ptx_line] = max(runs[site.ptx_line], warps)
                count_alike(found.setdefault(site.ptx_line, Counters()), kind, product, warps, lanes)
        for number, counters in self.site_counters.items():
            found.setdefault(self.program.code.sites[number].ptx_line, Counters()).add(counters)

    def counted(self, ptx_lines: bool) -> LaunchCounters:
        main = self.main_file()
        result = LaunchCounters(by_array=self.device.counted(), file=main)

        def of_line(location: Location | None) -> Counters | None:
            line = line_in(location, main)
            if line is not None:
                return result.at(line)
            return result.outside(location.file, location.line) if location is not None and location.line else None

        for segment in self.program.segments:
            warps, lanes = self.segment_warps[segment.number], self.segment_lanes[segment.number]
            for location, kinds in segment.alike if warps else ():
                own = of_line(location)
                for (kind, product), times in kinds.items():
                    for counters in (result.totals, own):
                        if counters is not None:
                            count_alike(counters, kind, product, warps * times, lanes * times)
        for number, counters in self.site_counters.items():
            counters.atomic_waits += self.device.waits(number)
            result.totals.add(counters)
            if (own := of_line(self.program.code.sites[number].location)) is not None:
                own.add(counters)
        if ptx_lines:
            self.count_ptx_lines(result)
        for each in (*result.by_line.values(), *result.elsewhere.values(), *result.by_ptx_line.values()):
            each.settle()
        result.totals.global_ideal_sectors = sum(each.global_ideal_sectors for each in result.by_array.values())
        return result

    def prepare(
        self, arguments: list[bytes], barriers: Mapping[int, str], after: Sequence[Touched] | None, keeps: bool
    ) -> None:
        """Sets the arguments. Also sets up the checks against earlier launches that may overlap this one. `barriers`,
        `after` and `keeps` are as in `emulate`."""
        self.barriers = barriers
        self.set_arguments(arguments)
        if after is not None or keeps:
            self.overlap = self.device.overlap = Overlap(self, after, keeps)

    def result(self, watch: Sequence[int], ptx_lines: bool) -> Result:
        """Returns the result of `emulate`, once all blocks have run."""
        writers = {address: found for address in watch if (found := self.writers(address)) is not None}
        output = "".join(self.output)
        return Result(self.counted(ptx_lines), self.findings, output, writers, self.notes, self.touched())

    def touched(self) -> list[Touched]:
        """Returns the memory that this launch has accessed and that other launches may also access."""
        if self.overlap is None or not self.overlap.keeps:
            return []
        shared = [each for each in self.memory.allocations if not each.read_only]
        return self.overlap.touched(shared, self.program.function.name)

    def main_file(self) -> str | None:
        """Returns the source file of the kernel: the file of the first instruction with a `.loc`. If that instruction
        was inlined, returns the file of its outermost caller."""
        located = (site.location.chain()[-1].file for site in self.program.code.sites if site.location)
        return next(located, None)


def line_in(location: Location | None, file: str | None) -> int | None:
    """Returns the line of `location` in `file`: in a chain of inlined calls, the innermost line in `file`. Skips line
    0, which compilers emit for "no line"."""
    if location is None:
        return None
    return next((place.line for place in location.chain() if place.file == file and place.line), None)


def emulate(
    ptx: str,
    entry: str,
    grid: Extent,
    block: Extent,
    args: Sequence[Any],
    *,
    cluster: Extent = 1,
    shared_bytes: int = 0,
    arch: str = "sm_90a",
    seed: int = 0,
    budget: int = BUDGET,
    on_finding: str = "raise",
    watch: Sequence[int] = (),
    blocks: int | None = None,
    time_limit: float = TIME_LIMIT,
    barriers: Mapping[int, str] | None = None,
    shared_alignment: int = 0,
    ptx_lines: bool = False,
    from_middle: bool = False,
    after: Sequence[Touched] | None = None,
    keeps: bool = False,
    divisions: bool = False,
) -> Result:
    """Runs the kernel `entry` of a PTX text. If there is no finding, writes the array arguments back.

    `args` contains numpy arrays (copied to device memory and back), scalars, `bytes` for structs by value, and pointers
    and tensor maps (`TensorMapArgument`) in a `Memory`. `shared_bytes` is the size of a block's dynamic shared memory.
    Its alignment is `shared_alignment`, or the declared one if that is larger. `budget` limits thread instructions, and
    `time_limit` seconds. A `seed` other than 0 permutes blocks and the order of atomics, and delays some blocks.

    With `on_finding="raise"`, the first finding is raised as `EmulatorError`. With "collect", the first finding of each
    kind and instruction is stored, and the run continues if it can. A harmless fault becomes a note of the result. For
    the allocation at each address in `watch`, the result contains the last writer of each byte. With `divisions`, uses
    of integer quotients by 0 are reported, too. Raises `PtxError` for invalid or unsupported PTX. Raises
    LaunchRefusedError if `arch` does not run PTX for the text's target.

    With `blocks`, only the first `blocks` blocks run, rounded up to whole clusters. With `from_middle`, blocks from the
    middle of the grid run instead. `barriers` maps offsets of mbarriers in dynamic shared memory to names for messages.
    With `ptx_lines`, the result also contains counters by PTX line. `after` is the memory accessed by earlier launches
    that may still run (`overlap.py`). With `keeps`, the result contains the memory accessed by this launch.
    """
    keep_freed_memory()
    limits = seed, budget, on_finding, blocks, time_limit, from_middle
    shape = grid, block, cluster, (shared_bytes, shared_alignment)
    told = barriers or {}, after, keeps, watch, ptx_lines, divisions
    program = program_of(ptx, entry)
    check_target(program.module.target, arch)
    if program.may_wait and not program.reads_clocks and blocks is None:
        stands = wait_for_later(program, args, shape, limits, barriers or {})
        if stands is not None and stands.found is not None:
            if on_finding != "raise":
                return Result(LaunchCounters(), [stands.found], stands.output)
            error = EmulatorError(stands.found)
            error.output = stands.output
            raise error
    try:
        return run_once(program, args, shape, limits, *told)
    except DividedError:
        return run_once(program_of(ptx, entry, True), args, shape, limits, *told)


def run_once(
    program: EmulatedProgram,
    args: Sequence[Any],
    shape: Shape,
    limits: tuple[Any, ...],
    barriers: Mapping[int, str],
    after: Sequence[Touched] | None,
    keeps: bool,
    watch: Sequence[int],
    ptx_lines: bool,
    divisions: bool,
) -> Result:
    """Runs one launch; the parameters are those of `emulate`. If the launch divides by 0 and `program` does not track
    the quotients, restores memory and raises DividedError."""
    arguments = Arguments(program, args)
    memory = arguments.memory
    may_go_again = divisions and program.divides and not program.divisions
    before = memory.data[: memory.top].copy() if may_go_again else None
    launch: RunningLaunch | None = None
    try:
        launch = RunningLaunch(program, *shape, memory, *limits)
        launch.judges_divisions = divisions
        launch.prepare(arguments.images(), barriers, after, keeps)
        launch.run()
        if not launch.findings:
            arguments.copy_back()
        return launch.result(watch, ptx_lines)
    except (EmulatorError, DividedError) as error:
        if before is not None and launch is not None and launch.divided:
            memory.data[: len(before)] = before
            raise DividedError from None
        error.output = "".join(launch.output) if launch else ""  # type: ignore[union-attr]
        raise
    finally:
        arguments.release(launch.allocations if launch else [])
        if launch is not None:
            launch.dissolve()


class Rehearsed(Struct):
    """The result of a rehearsal. `found` is the finding if the rehearsal stopped making progress, else None. `output`
    is the text that the kernel printed. `has_ended` is true if all blocks have ended. `begun` is the number of clusters
    that have started."""

    found: Finding | None
    output: str
    has_ended: bool
    begun: int


def rehearsed(
    program: EmulatedProgram,
    args: Sequence[Any],
    shape: Shape,
    limits: tuple[Any, ...],
    barriers: Mapping[int, str],
    phases: list[Any],
) -> Rehearsed:
    """Runs the clusters of `phases`, one phase after another, and then restores memory. Reports only a deadlock. The
    launch itself reports all other findings."""
    arguments = Arguments(program, args)
    memory = arguments.memory
    before = memory.data[: memory.top].copy()
    launch: RunningLaunch | None = None
    try:
        _, budget, _, _, time_limit, _ = limits
        # The seed is 0, so that a rehearsal is the same each time. Findings are collected and dropped.
        launch = RunningLaunch(program, *shape, memory, 0, budget, "collect", None, time_limit)
        launch.prepare(arguments.images(), barriers, None, False)
        return Rehearsed(None, "", launch.rehearse(phases), launch.begun_clusters)
    except StandsStillError as error:
        assert launch is not None
        found = error.finding if not launch.findings else None
        return Rehearsed(found, "".join(launch.output), False, launch.begun_clusters)
    finally:
        memory.data[: len(before)] = before
        arguments.release(launch.allocations if launch else [])
        if launch is not None:
            launch.dissolve()


def wait_for_later(
    program: EmulatedProgram, args: Sequence[Any], shape: Shape, limits: tuple[Any, ...], barriers: Mapping[int, str]
) -> Rehearsed | None:
    """Returns the rehearsal if the first blocks of a launch hang because they wait for later blocks. Returns None
    otherwise, or if the later blocks also wait for the first blocks."""
    told = program, args, shape, limits, barriers
    cluster = program.function.required_cluster or shape[2]
    clusters = np.arange(prod(extent(shape[0])) // prod(extent(cluster)))
    stands = rehearsed(*told, doubled(clusters[:FEW]))
    first, later = np.split(clusters, [stands.begun])
    if stands.found is None or not len(later):
        return None
    # If the later clusters end without the first ones, the first ones wait for blocks that may never start, which is a
    # deadlock. Otherwise the wait is a grid barrier, and whoever launches the kernel must know that all blocks fit.
    last = doubled(later[::-1][:FEW]) + ([first] if len(later) <= FEW else [])
    return stands if rehearsed(*told, last).has_ended or rehearsed(*told, [later, first]).has_ended else None


@lru_cache(maxsize=32)
def program_of(ptx: str, entry: str, divisions: bool = False) -> EmulatedProgram:
    """Returns the program of the kernel `entry` in the text `ptx`. It is cached, so that all launches of a text share
    it."""
    module = read_module(ptx)
    check_module(module)
    return EmulatedProgram(module, entry, divisions)


def check_target(target: str, arch: str) -> None:
    """Raises LaunchRefusedError if PTX for `target` does not run on `arch`. PTX for sm_90 runs on sm_90 and later, and
    PTX for sm_90a only on sm_90a. PTX for sm_100f runs on sm_100 and on later devices of its family (PTX ISA
    11.1.2)."""
    if not target:
        return
    wanted, have = number_of(target), number_of(arch)
    fits = {"a": target == arch, "f": have // 10 == wanted // 10 and have >= wanted}.get(target[-1], have >= wanted)
    if not fits:
        raise LaunchRefusedError(f"PTX for {target} does not run on {arch}", "target")
