"""Counters of a launch, in total and for each `.loc` line.  All are "of the PTX": ptxas may still change them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields

SECTOR = 32  # bytes of global memory that are moved together


@dataclass(slots=True)
class Counters:
    """What a set of instructions did.

    `instructions` counts warp instructions of the PTX, `moves` those of them that only rename a register or set it to a
    constant, of which the assembler keeps few; `thread_instructions` the lanes that took part in them.

    Shared memory is counted in wavefronts (one pass over the 32 banks). `shared_ideal` is a pass for each phase of an
    access. Passes beyond are bank conflicts, except what `cp.async` takes because a pass writes bytes of one line of
    global memory, and turns of atomic operations, which no place in the banks would spare: without conflicts the same
    accesses take `shared_fewest`.

    Global memory is counted in 32-byte sectors. `global_load_bytes` and its like are the distinct bytes that a warp
    accesses in an instruction, `global_ideal_sectors` as few as hold those of a whole launch in an array: where each
    instruction moves a sector for 4 bytes, that is one of 8.

    `atomic_waits` are turns that atomic operations take on one address, in shared memory lanes of a warp, in global
    memory all of the launch at the busiest address of each instruction. `products` are multiply-adds of tensor cores,
    each as many as of 16 bits take its time; `operand_bytes` what products of warp groups read of shared memory, which
    are no wavefronts; `special` are instructions for the unit of exponentials, roots and the like.
    """

    instructions: int = 0
    thread_instructions: int = 0
    moves: int = 0
    branches: int = 0
    divergent_branches: int = 0
    shared_wavefronts: int = 0
    shared_ideal: int = 0
    bank_conflicts: int = 0
    global_load_sectors: int = 0
    global_store_sectors: int = 0
    global_atomic_sectors: int = 0
    global_ideal_sectors: int = 0
    global_load_bytes: int = 0
    global_store_bytes: int = 0
    global_atomic_bytes: int = 0
    barriers: int = 0
    warp_barriers: int = 0
    atomics: int = 0
    atomic_waits: int = 0
    shuffles: int = 0
    mma: int = 0
    products: int = 0
    operand_bytes: int = 0
    special: int = 0

    @property
    def active_lanes(self) -> float:
        """Average lanes active in a warp instruction; 32 is a warp that never diverged."""
        return self.thread_instructions / self.instructions if self.instructions else 0.0

    @property
    def global_sectors(self) -> int:
        return self.global_load_sectors + self.global_store_sectors + self.global_atomic_sectors

    @property
    def shared_fewest(self) -> int:
        """Passes of the same accesses without bank conflicts."""
        return self.shared_wavefronts - self.bank_conflicts

    def settle(self) -> None:
        """Says in how few sectors the bytes could be, of loads, stores and atomic operations, once all are counted."""
        kinds = self.global_load_bytes, self.global_store_bytes, self.global_atomic_bytes
        self.global_ideal_sectors = sum(-(-each // SECTOR) for each in kinds)

    def add(self, other: Counters) -> None:
        for name in NAMES:
            if value := getattr(other, name):  # most are 0
                setattr(self, name, getattr(self, name) + value)

    def __add__(self, other: Counters) -> Counters:
        total = Counters()
        total.add(self)
        total.add(other)
        return total

    def as_dict(self) -> dict[str, float]:
        made = {"shared_fewest": self.shared_fewest, "active_lanes": self.active_lanes}
        return {**{name: getattr(self, name) for name in NAMES}, **made}


NAMES = tuple(column.name for column in fields(Counters))


@dataclass(slots=True)
class LaunchCounters:
    """Totals and the same by line of the kernel's own file, and by file and line of others; by array its sectors; by
    line of the PTX where that was asked for, and how many warps ran it: a line may have many instructions. file: the
    kernel's own, as the PTX names it.

    An instruction inlined from another file counts at the line of the kernel's file that it was inlined into, where the
    PTX tells it; one without any `.loc` counts only in the totals.
    """

    totals: Counters = field(default_factory=Counters)
    by_line: dict[int, Counters] = field(default_factory=dict)
    elsewhere: dict[tuple[str, int], Counters] = field(default_factory=dict)
    by_array: dict[str, Counters] = field(default_factory=dict)
    by_ptx_line: dict[int, Counters] = field(default_factory=dict)
    runs_of_ptx_lines: Counter[int] = field(default_factory=Counter)
    file: str | None = None

    def at(self, line: int) -> Counters:
        return self.by_line.setdefault(line, Counters())

    def outside(self, file: str, line: int) -> Counters:
        return self.elsewhere.setdefault((file, line), Counters())

    def __add__(self, other: LaunchCounters) -> LaunchCounters:
        result = LaunchCounters(self.totals + other.totals, file=self.file)
        result.runs_of_ptx_lines = self.runs_of_ptx_lines + other.runs_of_ptx_lines
        for part in (self, other):
            for line, counters in part.by_line.items():
                result.at(line).add(counters)
            for place, counters in part.elsewhere.items():
                result.outside(*place).add(counters)
            for name, counters in part.by_array.items():
                result.by_array.setdefault(name, Counters()).add(counters)
            for line, counters in part.by_ptx_line.items():
                result.by_ptx_line.setdefault(line, Counters()).add(counters)
        return result

    def as_dict(self) -> dict[str, object]:
        lines = {line: counters.as_dict() for line, counters in sorted(self.by_line.items())}
        others = {f"{file}:{line}": counters.as_dict() for (file, line), counters in sorted(self.elsewhere.items())}
        arrays = {name: counters.as_dict() for name, counters in sorted(self.by_array.items())}
        return {"totals": self.totals.as_dict(), "by_line": lines, "elsewhere": others, "by_array": arrays}
