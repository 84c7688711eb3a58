"""Counters of a launch, in total and for each `.loc` line. All count PTX instructions, which ptxas may still change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

# Bytes of global memory that move together.
SECTOR = 32


@dataclass(slots=True)
class Counters:
    """What a set of instructions did.

    `instructions` counts warp instructions of the PTX. `moves` counts those that only rename a register or set it to a
    constant, of which the assembler keeps few. `thread_instructions` counts the lanes that took part.

    Shared memory is counted in wavefronts, each one pass over the 32 banks. `shared_ideal` is one pass for each phase
    of an access. Passes beyond are bank conflicts, with two exceptions that no placement in the banks avoids: passes of
    `cp.async`, since a pass writes bytes of one line of global memory, and turns of atomic operations. Without
    conflicts the same accesses take `shared_fewest`.

    Global memory is counted in 32-byte sectors. `global_load_bytes` and similar are the distinct bytes that a warp
    accesses in an instruction. `global_ideal_sectors` is the minimum that holds those of a whole launch in an array: if
    each instruction moves a sector for 4 bytes, it is one of 8.

    `atomic_waits` are turns that atomic operations take on one address: in shared memory among the lanes of a warp, in
    global memory over the launch at the busiest address of each instruction. `products` are multiply-adds of tensor
    cores, each counted as the 16-bit multiply-adds that take as long. `operand_bytes` is what wgmma products read of
    shared memory, which counts as no wavefronts. `special` are instructions for the unit of exponentials, roots and
    similar functions.
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
        """Average of the active lanes of a warp instruction. 32 means that no warp diverged."""
        return self.thread_instructions / self.instructions if self.instructions else 0.0

    @property
    def sectors(self) -> float:
        """All sectors that moved between global memory and the caches."""
        return self.global_load_sectors + self.global_store_sectors + self.global_atomic_sectors

    @property
    def sectors_over_fewest(self) -> float | None:
        """Sectors divided by the minimum for the same bytes; None without an access."""
        return self.sectors / self.global_ideal_sectors if self.global_ideal_sectors else None

    @property
    def shared_fewest(self) -> float:
        """Passes of the same accesses without bank conflicts."""
        return self.shared_wavefronts - self.bank_conflicts

    @property
    def wavefronts_over_fewest(self) -> float | None:
        """Passes divided by those without bank conflicts; None without an access."""
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
        """The inverse of `as_dict`. A missing count is 0, as logs leave zeros out."""
        return cls(**{name: counts[name] for name in NAMES if name in counts})

    def times(self, factor: float) -> Counters:
        """The counters of `factor` such launches: those of a whole grid of which a part has run."""
        return self if factor == 1 else Counters(**{name: getattr(self, name) * factor for name in NAMES})

    def settle(self) -> None:
        """Sets the minimum of sectors for the bytes of loads, stores and atomic operations, once all are counted."""
        # The three kinds move separately, so that each is rounded up by itself.
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
    """Totals; the same by line of the kernel's own file, and by file and line of others; sectors by array. If
    requested, counters by line of the PTX and how many warps ran it, since a line may have many instructions. file: the
    kernel's own, as the PTX names it.

    An instruction inlined from another file counts at the line of the kernel's file into which it was inlined, if the
    PTX states it. One without a `.loc` counts in the totals only.
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
