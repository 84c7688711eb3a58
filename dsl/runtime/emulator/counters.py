"""Defines the counters of a launch, in total and for each `.loc` line. They count PTX instructions, which ptxas may
still change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct, field

# Bytes of global memory that move together.
SECTOR = 32


class Counters(Struct):
    """The counts for a set of instructions, for example those of one source line.

    `instructions` counts warp instructions of the PTX. `moves` counts warp instructions that only copy a register or
    set it to a constant. The assembler removes most of these instructions. `thread_instructions` is the sum of the
    active lanes of all warp instructions.

    `shared_wavefronts` counts the passes over the 32 banks of shared memory. `shared_ideal` counts one pass for each
    phase of an access: a phase is a warp, or less if a lane accesses 8 or 16 bytes. All further passes are bank
    conflicts, with two exceptions that no other placement in the banks would avoid. The first exception is extra passes
    of `cp.async`, since one pass writes only bytes of one line of global memory. The second exception is atomic
    operations of several lanes on one word.

    Global memory is counted in 32-byte sectors. `global_load_bytes` and similar counters sum up the distinct bytes that
    each warp instruction accesses. `global_ideal_sectors` is the least number of sectors for this many bytes. If each
    access moves a sector for only 4 bytes, `global_ideal_sectors` is an eighth of the sectors moved.

    `barriers`, `cluster_barriers` and `warp_barriers` count the warps that arrive at barriers of a block, that wait at
    barriers of a cluster, and that execute barriers of a warp.

    `atomic_waits` counts atomic operations that must wait for another one on the same address. In shared memory, an
    operation waits only for other lanes of its warp. In global memory, each instruction counts the operations of the
    whole launch on its most used address. `products` counts multiply-adds of tensor cores, each as the number of 16-bit
    multiply-adds that take the same time. `operand_bytes` is the number of bytes that wgmma products read from shared
    memory. These reads do not count as wavefronts. `special` counts instructions of the special function unit, which
    computes exponentials, roots and similar functions.
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
    cluster_barriers: float = 0
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
        """Average number of active lanes in a warp instruction. 32 means that no warp diverged."""
        return self.thread_instructions / self.instructions if self.instructions else 0.0

    @property
    def sectors(self) -> float:
        """Number of sectors that all loads, stores and atomic operations move in global memory."""
        return self.global_load_sectors + self.global_store_sectors + self.global_atomic_sectors

    @property
    def sectors_over_fewest(self) -> float | None:
        """`sectors` divided by the least number of sectors for the same bytes. None if there was no access."""
        return self.sectors / self.global_ideal_sectors if self.global_ideal_sectors else None

    @property
    def shared_fewest(self) -> float:
        """Number of passes that the same accesses take without bank conflicts."""
        return self.shared_wavefronts - self.bank_conflicts

    @property
    def wavefronts_over_fewest(self) -> float | None:
        """Number of passes over the banks, divided by the number without bank conflicts. None if there was no
        access."""
        return self.shared_wavefronts / self.shared_fewest if self.shared_fewest else None

    @property
    def work(self) -> float:
        """Number of warp instructions, except moves."""
        return self.instructions - self.moves

    @property
    def figures(self) -> dict[str, float]:
        """All values that tables and `expect` lines can name: the counters, sums of counters, and short names for two
        counters."""
        short = {"wavefronts": self.shared_wavefronts, "conflicts": self.bank_conflicts}
        return {"sectors": self.sectors, **short, "work": self.work, **self.as_dict()}

    @property
    def ratios(self) -> dict[str, float | None]:
        return {name: getattr(self, name) for name in ("sectors_over_fewest", "wavefronts_over_fewest")}

    @classmethod
    def from_dict(cls, counts: Mapping[str, float]) -> Counters:
        """The inverse of `as_dict`. A missing count is 0, since logs omit zeros."""
        return cls(**{name: counts[name] for name in NAMES if name in counts})

    def times(self, factor: float) -> Counters:
        """Multiplies the counters by `factor`, to estimate a whole grid of which only a part has run."""
        return self if factor == 1 else Counters(**{name: getattr(self, name) * factor for name in NAMES})

    def settle(self) -> None:
        """Sets `global_ideal_sectors`. The bytes of all loads, stores and atomic operations must be counted before this
        call."""
        # Loads, stores and atomic operations move sectors separately, so each sum of bytes is rounded up by itself.
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


NAMES = Counters.__struct_fields__


class LaunchCounters(Struct):
    """The counters of a launch: in total, by line of the kernel's own file, by line of other files, and by array.

    If requested, there are also counters by line of the PTX. `runs_of_ptx_lines` is the number of times that a warp
    executed each line. Instruction counts do not show this, since a line may contain several instructions. `file` is
    the kernel's own file, as the PTX names it.

    An instruction inlined from another file counts at the line of the kernel's file that called it, if the PTX states
    that line. An instruction without a `.loc` counts only in the totals.
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
            for name in ("by_line", "elsewhere", "by_array", "by_ptx_line"):
                for place, counters in getattr(part, name).items():
                    getattr(result, name).setdefault(place, Counters()).add(counters)
        return result

    @property
    def places(self) -> dict[str, Counters]:
        """The counters by source line. The key `12` is a line of the kernel's own file, and `FILE:12` is a line of
        another file."""
        others = {f"{file}:{line}": counters for (file, line), counters in sorted(self.elsewhere.items())}
        return {**{str(line): counters for line, counters in sorted(self.by_line.items())}, **others}
