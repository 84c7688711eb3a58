"""The GPUs that the compiler supports as targets. Each has one row."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.lowering.ir.location import TileError

WARP = 32
"""Number of threads of a warp (PTX ISA, "Special registers: WARP_SZ")."""
MOST_REGISTERS = 255
"""The maximum number of 32-bit registers of a thread (CUDA C++ Programming Guide, table of compute capabilities)."""
LEAST_REGISTERS = 24
"""The least number of registers that ptxas gives a thread, from sm_80 on. ptxas raises a lower cap to this number."""
MOST_THREADS = 1024
"""The maximum number of threads of a block (the same table)."""
RESERVED_SHARED = 1024
"""Bytes of shared memory that the system reserves for each block (the same table, compute capability 8.0 to 12.0)."""

WARPS_AT_WORK = 8
"""The number of warps that a multiprocessor should have: two for each of its four schedulers, so that one warp computes
while the other waits. Registers always allow this: eight warps with 255 registers per thread fit."""

Version = tuple[int, int]
"""A PTX version: major and minor number."""


@dataclass(frozen=True, slots=True)
class Target:
    """A target.

    `arch`: the name in `.target`.
    `ptx`: the first PTX version that has the target.
    `chip`, `sms`: a device of this kind and its number of multiprocessors. The emulator pretends to be this device. If
        there is no device, schedules are evaluated for `chip`.
    Other fields: the capacity of a multiprocessor in bytes of shared memory, threads, blocks and 32-bit registers.
    """

    arch: str
    ptx: Version
    chip: str
    sms: int
    shared_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    registers: int = 65536

    @property
    def number(self) -> int:
        """The compute capability times ten, such as 90 for `sm_90a`."""
        return int(self.arch.removeprefix("sm_").rstrip("af"))

    @property
    def shared(self) -> int:
        """The maximum number of bytes of dynamic shared memory that a block may opt in to."""
        return self.shared_per_sm - RESERVED_SHARED

    def cap(self, asked: int, threads: int) -> int:
        """The register cap of a thread if a schedule requests `asked`. The cap is limited to what a block of `threads`
        threads can have, because otherwise no launch would fit."""
        return min(asked, self.each(threads))

    def each(self, threads: int, blocks: int = 1) -> int:
        """The number of registers of a thread if a multiprocessor holds `blocks` blocks of `threads` threads."""
        # the hardware allocates registers in steps of 8 per thread
        return self.registers // (threads * blocks) // 8 * 8

    def has_enough(self, threads: int, shared: int) -> bool:
        """Whether a multiprocessor has WARPS_AT_WORK warps when it holds as many blocks as fit its shared memory."""
        return self.blocks(shared) * threads >= WARPS_AT_WORK * WARP

    def blocks(self, shared: int) -> int:
        """The number of blocks that fit a multiprocessor if each has `shared` bytes of dynamic shared memory."""
        return self.shared_per_sm // (shared + RESERVED_SHARED)


def row(
    arch: str, ptx: Version, chip: str, sms: int, shared_kib: int, threads: int, blocks: int,
    accelerated: Version | None = None, family: Version | None = None,
) -> list[Target]:  # fmt: skip
    """The targets of an architecture. These targets include `a` and `f` targets like `sm_90a` and `sm_100f`, if PTX has
    them. `accelerated` is the first PTX version that has the `a` target, and `family` is the first PTX version that has
    the `f` target.

    PTX for an `a` target runs only on this architecture. PTX for an `f` target also runs on later architectures of its
    family (PTX ISA 9.0, 11.1.2 ".target").
    """
    versions = {"": ptx, "a": accelerated, "f": family}
    return [
        Target(arch + letter, version, chip, sms, shared_kib << 10, threads, blocks)
        for letter, version in versions.items()
        if version is not None
    ]


# Versions: PTX ISA 9.0, 13 "Release Notes". Capacity of a multiprocessor: CUDA C++ Programming Guide 13, "Technical
# specifications per compute capability". Chips: NVIDIA's data sheets and the papers on the architectures GA102, Ada and
# RTX Blackwell.
TARGETS = {
    target.arch: target
    for targets in (
        row("sm_80", (7, 0), "A100", 108, 164, 2048, 32),
        row("sm_86", (7, 1), "RTX 3090", 82, 100, 1536, 16),
        row("sm_89", (7, 8), "RTX 4090", 128, 100, 1536, 24),
        row("sm_90", (7, 8), "H200", 132, 228, 2048, 32, accelerated=(8, 0)),
        row("sm_100", (8, 6), "B200", 148, 228, 2048, 32, accelerated=(8, 6), family=(8, 8)),
        row("sm_120", (8, 7), "RTX 5090", 170, 100, 1536, 24, accelerated=(8, 7), family=(8, 8)),
    )
    for target in targets
}


def target(arch: str) -> Target:
    """The row for `arch`. Raises TileError `target` if there is none."""
    if arch not in TARGETS:
        raise TileError("target", None, f"unknown target '{arch}'", "known: " + ", ".join(TARGETS))
    return TARGETS[arch]
