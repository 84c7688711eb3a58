"""Counters of a launch, in total and for each `.loc` line.  All are "of the PTX": ptxas may still change them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
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

    instructions: float = 0
    thread_instructions: float = 0
    moves: float = 0
    branches: float = 0
    divergent_branches: float = 0
    shared_wavefronts: float = 0
    shared_ideal: float = 0
    bank_conflicts: float = 0
    global_load_sectors: float = 0
    global_store_sectors: float = 0
    global_atomic_sectors: float = 0
    global_ideal_sectors: float = 0
    global_load_bytes: float = 0
    global_store_bytes: float = 0
    global_atomic_bytes: float = 0
    barriers: float = 0
    warp_barriers: float = 0
    atomics: float = 0
    atomic_waits: float = 0
    shuffles: float = 0
    mma: float = 0
    products: float = 0
    operand_bytes: float = 0
    special: float = 0

    @property
    def active_lanes(self) -> float:
        """Average lanes active in a warp instruction; 32 is a warp that never diverged."""
        return self.thread_instructions / self.instructions if self.instructions else 0.0

    @property
    def sectors(self) -> float:
        """All that moved between global memory and the caches."""
        return self.global_load_sectors + self.global_store_sectors + self.global_atomic_sectors

    @property
    def sectors_over_fewest(self) -> float | None:
        """Sectors over those that the same bytes need; None without an access."""
        return self.sectors / self.global_ideal_sectors if self.global_ideal_sectors else None

    @property
    def shared_fewest(self) -> float:
        """Passes of the same accesses without bank conflicts."""
        return self.shared_wavefronts - self.bank_conflicts

    @property
    def wavefronts_over_fewest(self) -> float | None:
        """Passes over those without bank conflicts; None without an access."""
        return self.shared_wavefronts / self.shared_fewest if self.shared_fewest else None

    @property
    def work(self) -> float:
        """Warp instructions without moves."""
        return self.instructions - self.moves

    @property
    def figures(self) -> dict[str, float]:
        """What tables and predicates name: the counters, their sums, and short names of two of them."""
        short = {"wavefronts": self.shared_wavefronts, "conflicts": self.bank_conflicts}
        return {"sectors": self.sectors, **short, "work": self.work, **self.as_dict()}

    @property
    def ratios(self) -> dict[str, float | None]:
        return {name: getattr(self, name) for name in ("sectors_over_fewest", "wavefronts_over_fewest")}

    @classmethod
    def from_dict(cls, counts: Mapping[str, float]) -> Counters:
        """The inverse of `as_dict`. A count that is missing is 0: logs leave these out."""
        return cls(**{name: counts[name] for name in NAMES if name in counts})

    def times(self, factor: float) -> Counters:
        """The counters of so many such launches: of a whole grid, where a part of its blocks ran."""
        return self if factor == 1 else Counters(**{name: getattr(self, name) * factor for name in NAMES})

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

    @property
    def places(self) -> dict[str, Counters]:
        """By line: `12` of the kernel's own file, `FILE:12` of others."""
        others = {f"{file}:{line}": counters for (file, line), counters in sorted(self.elsewhere.items())}
        return {**{str(line): counters for line, counters in sorted(self.by_line.items())}, **others}
