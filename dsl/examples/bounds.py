"""Bounds of a launch: the time that each unit of a device takes for its share at its full rate. The longest is the
bound; any time above it is waiting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dsl.examples.work import Work

if TYPE_CHECKING:
    from dsl.runtime.chips import DeviceFacts

MEMORY, L2, SHARED, ISSUE, TENSOR, SPECIAL = "memory", "L2", "shared memory", "issue", "tensor cores", "exponentials"


@dataclass(frozen=True, slots=True)
class Rates:
    """What a multiprocessor does a clock. mma, wgmma: multiply-adds of 16 bits; 0 if unknown. All have four schedulers,
    which issue one instruction a clock each; shared memory of 32 banks, so one wavefront; and sixteen results of
    exponentials, roots and the like, so half a warp instruction (CUDA C++ Programming Guide, "Arithmetic
    Instructions"). The L2 has no rate: data that several multiprocessors need comes from memory once."""

    mma: int = 0
    wgmma: int = 0
    instructions: int = 4
    wavefronts: int = 1
    special: float = 0.5


RATES = {
    "sm_80": Rates(1024),  # NVIDIA A100 Tensor Core GPU Architecture: 4 tensor cores of 256
    "sm_86": Rates(512),  # NVIDIA Ampere GA102 GPU Architecture: with sums of 16 bits
    "sm_89": Rates(512),  # NVIDIA Ada GPU Architecture: the same
    # NVIDIA H100 Tensor Core GPU Architecture: 4 of 512. By mma.sync: 870 us for 8192 x 8192 x 8192 of bytes, 1980 MHz.
    "sm_90": Rates(1210, 2048),
}


@dataclass(slots=True)
class LaunchBound:
    """terms: microseconds of each unit at its full rate, the longest first, by `work`. time_us: the measured time of
    the launch, None without a GPU. busy: the share of multiprocessors that have a block. measured: how busy a profiler
    found each unit, 0 to 1. bandwidth: bytes a second of the memory, None if unknown. ceilings: operations a second
    (`Work.operations`) of the units that do them, on all multiprocessors."""

    terms: dict[str, float]
    work: Work
    time_us: float | None = None
    busy: float = 1.0
    measured: dict[str, float] = field(default_factory=dict)
    bandwidth: float | None = None
    ceilings: dict[str, float] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The terms that are missing, and why, in words."""
        if not self.work.counted:
            return ["nothing but memory is known: the emulator did not count a block in time"]
        without = "issue is of the PTX: without an assembler there is no machine code"
        return [] if self.work.of_machine_code else [without]

    @property
    def name(self) -> str | None:
        """The unit that bounds the launch."""
        return next(iter(self.terms), None)

    def as_json(self, kernel: str) -> dict[str, Any]:
        """For `dsl run --json`: the bounding unit, microseconds and shares of all units, and the work."""
        shares = {unit: self.share(unit) for unit in self.terms} if self.time_us else None
        did = {"bytes": self.work.bytes, "operations": self.work.operations}
        return {
            "kernel": kernel,
            "bound": self.name,
            "us": self.terms,
            "shares": shares,
            "profiler": self.measured,
        } | did

    def share(self, unit: str) -> float:
        """The share of the time for which a unit worked, if it did so at its full rate."""
        return self.terms[unit] / self.time_us if self.time_us else 0.0


def bound_of(work: Work, facts: DeviceFacts, time_us: float | None = None) -> LaunchBound:
    """The bound of a launch, from the units whose rates are known. facts: of the device."""
    # sm_90a is the same chip as sm_90.
    rates = RATES.get(facts.arch.rstrip("af"), Rates())
    products = rates.wgmma if work.by_warp_groups else rates.mma
    is_part = work.counted < work.blocks
    # If a part of the blocks was counted, all are taken to be like it, and the multiprocessor with most blocks decides.
    # If all were counted, each has an equal share: one block more that did nothing would else double the bound.
    most = -(-work.blocks // facts.sms) / max(work.blocks, 1) if is_part else 1 / max(min(work.blocks, facts.sms), 1)
    clock = (facts.clock or 0.0) / 1e6  # clocks a microsecond
    terms: dict[str, float] = {}
    if facts.memory_bandwidth:
        terms[MEMORY] = work.bytes / facts.memory_bandwidth * 1e6
    amounts = {
        SHARED: (work.wavefronts, rates.wavefronts),
        ISSUE: (work.instructions, rates.instructions),
        TENSOR: (work.products, products),
        SPECIAL: (work.special, rates.special),
    }
    for unit, (amount, rate) in amounts.items():
        if clock and rate and work.counted:
            terms[unit] = amount * most / (rate * clock)
    ordered = {unit: us for unit, us in sorted(terms.items(), key=lambda term: -term[1]) if us > 0}
    bound = LaunchBound(ordered, work, time_us, min(1.0, work.blocks / facts.sms), bandwidth=facts.memory_bandwidth)
    bound.ceilings = ceilings(work, rates, products, facts.sms * (facts.clock or 0.0))
    return bound


def ceilings(work: Work, rates: Rates, products: int, clocks: float) -> dict[str, float]:
    """The ceilings of a `LaunchBound`. products: multiply-adds of 16 bits a clock. clocks: a second, of all
    multiprocessors."""
    by = "wgmma" if work.by_warp_groups else "mma.sync"
    found = {
        f"{dtype} by {by}": 2 * products * clocks * count / of_16_bits
        for dtype, (count, of_16_bits) in work.multiply_adds.items()
    }
    if work.counted and not work.multiply_adds:
        found["issue of all lanes"] = 32 * rates.instructions * clocks
    return {name: rate for name, rate in found.items() if rate}
