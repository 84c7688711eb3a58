"""Computes the least time of a launch, its bound. Each unit of a device, such as memory or the tensor cores, needs some
time for its share of the work at its full rate. The longest of these times is the bound. Any time above the bound is
spent waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from dsl.examples.work import Work

if TYPE_CHECKING:
    from dsl.runtime.chips import DeviceFacts

MEMORY, L2, SHARED, ISSUE, TENSOR, SPECIAL = "memory", "L2", "shared memory", "issue", "tensor cores", "exponentials"


class Rates(Struct, frozen=True):
    """The rates of a multiprocessor per clock. `mma` and `wgmma` are 16-bit multiply-adds, and 0 means unknown.

    Each multiprocessor has four schedulers, and each scheduler issues one instruction per clock. Shared memory has 32
    banks, so a multiprocessor serves one wavefront per clock. A multiprocessor computes sixteen exponentials, roots or
    similar functions per clock, which is half a warp instruction (CUDA C++ Programming Guide, "Arithmetic
    Instructions"). The L2 has no rate here, because data that several multiprocessors need is read from memory only
    once."""

    mma: int = 0
    wgmma: int = 0
    instructions: int = 4
    wavefronts: int = 1
    special: float = 0.5


RATES = {
    "sm_80": Rates(1024),  # NVIDIA A100 Tensor Core GPU Architecture: 4 tensor cores, 256 each
    "sm_86": Rates(512),  # NVIDIA Ampere GA102 GPU Architecture: with 16-bit accumulation
    "sm_89": Rates(512),  # NVIDIA Ada GPU Architecture: the same
    # NVIDIA H100 Tensor Core GPU Architecture: 4 tensor cores, 512 each. With mma.sync, a product of
    # 8192 x 8192 x 8192 bytes took 870 us at 1980 MHz.
    "sm_90": Rates(1210, 2048),
}


class LaunchBound(Struct):
    """The bound of a launch.

    `terms` maps each unit to the microseconds that it needs for `work` at its full rate, longest first. `time_us` is
    the measured time of the launch, or None without a GPU. `busy` is the fraction of multiprocessors that have a block.
    `measured` is the utilization of each unit according to a profiler, from 0 to 1. `bandwidth` is the memory bandwidth
    in bytes per second, or None if it is unknown. `ceilings` maps each kind of operation to its peak operations per
    second on all multiprocessors. `Work.operations` counts these operations."""

    terms: dict[str, float]
    work: Work
    time_us: float | None = None
    busy: float = 1.0
    measured: dict[str, float] = field(default_factory=dict)
    bandwidth: float | None = None
    ceilings: dict[str, float] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """A sentence for each kind of missing terms: which are missing, and why."""
        if not self.work.counted:
            return ["nothing but memory is known: the emulator did not count a block in time"]
        without = "issue is of the PTX: the machine code needs ptxas and nvdisasm"
        return [] if self.work.of_machine_code else [without]

    @property
    def name(self) -> str | None:
        """The unit that bounds the launch, or None if no term is known."""
        return next(iter(self.terms), None)

    def as_json(self, kernel: str) -> dict[str, Any]:
        """Returns the data for `dsl run --json`: the bounding unit, the microseconds and shares of all units, and the
        work."""
        shares = {unit: self.share(unit) for unit in self.terms} if self.time_us else None
        about = {"kernel": kernel, "bound": self.name, "us": self.terms, "shares": shares, "profiler": self.measured}
        return {**about, "bytes": self.work.bytes, "operations": self.work.operations}

    def share(self, unit: str) -> float:
        """Returns the fraction of the measured time that a unit needs at its full rate."""
        return self.terms[unit] / self.time_us if self.time_us else 0.0


def bound_of(work: Work, facts: DeviceFacts, time_us: float | None = None) -> LaunchBound:
    """Computes the bound of a launch from the units whose rates are known. `facts` are the facts of the device."""
    # sm_90a is the same chip as sm_90.
    rates = RATES.get(facts.arch.rstrip("af"), Rates())
    products = rates.wgmma if work.by_warp_groups else rates.mma
    is_part = work.counted < work.blocks
    # If only some blocks were counted, all blocks are assumed to be alike. Then the multiprocessor with the most blocks
    # determines the bound. If all blocks were counted, each multiprocessor gets an equal share of the work. Otherwise,
    # one more block without work could double the bound.
    most = -(-work.blocks // facts.sms) / max(work.blocks, 1) if is_part else 1 / max(min(work.blocks, facts.sms), 1)
    clock = (facts.clock or 0.0) / 1e6  # clocks per microsecond
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
    """Returns the `ceilings` of a `LaunchBound`. `products` is the number of 16-bit multiply-adds per clock. `clocks`
    is the number of clocks per second, summed over all multiprocessors."""
    by = "wgmma" if work.by_warp_groups else "mma.sync"
    found = {
        f"{dtype} by {by}": 2 * products * clocks * count / of_16_bits
        for dtype, (count, of_16_bits) in work.multiply_adds.items()
    }
    if work.counted and not work.multiply_adds:
        found["issue of all lanes"] = 32 * rates.instructions * clocks
    return {name: rate for name, rate in found.items() if rate}
