"""The GPUs that PTX is made for: one row a target."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.lowering.ir.location import TileError

WARP = 32
"""Threads of a warp, its lanes (PTX ISA, "Special registers: WARP_SZ")."""
MOST_REGISTERS = 255
LEAST_REGISTERS = 24  # that ptxas gives a thread, from sm_80 on: a lower cap is raised to it
"""32-bit registers of a thread, at most (CUDA C++ Programming Guide, table of compute capabilities)."""
MOST_THREADS = 1024
"""Of a block (the same)."""
RESERVED_SHARED = 1024
"""Bytes of shared memory that the system takes of each block (the same, compute capability 8.0 to 12.0)."""

WARPS_AT_WORK = 8
"""Of a multiprocessor: two for each of its four schedulers, so that one computes while the other waits. Registers never
forbid as many: eight warps of 255 registers a thread fit."""

Version = tuple[int, int]
"""Of PTX: major, minor."""


@dataclass(frozen=True, slots=True)
class Target:
    """arch: as `.target` spells it. ptx: the least PTX version that knows it. chip: a device of this kind, and sms: how
    many multiprocessors it has, for schedules evaluated without one; the emulator pretends to be it. The others: what a
    multiprocessor holds, bytes of shared memory, threads, blocks and 32-bit registers.
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
        """Compute capability, ten times: 90 of `sm_90a`."""
        return int(self.arch.removeprefix("sm_").rstrip("af"))

    @property
    def shared(self) -> int:
        """Dynamic shared memory that a block may opt in to, bytes."""
        return self.shared_per_sm - RESERVED_SHARED

    def cap(self, asked: int, threads: int) -> int:
        """Of the registers of a thread, where a schedule asks for so many: no more than a block of so many threads
        has, or no launch would find room."""
        return min(asked, self.each(threads))

    def each(self, threads: int, blocks: int = 1) -> int:
        """Registers of a thread where a multiprocessor has so many blocks of so many."""
        return self.registers // (threads * blocks) // 8 * 8

    def has_enough(self, threads: int, shared: int) -> bool:
        """Whether a multiprocessor that has as many blocks as their shared memory allows has WARPS_AT_WORK of them."""
        return self.blocks(shared) * threads >= WARPS_AT_WORK * WARP

    def blocks(self, shared: int) -> int:
        """Of so many bytes each that a multiprocessor's shared memory holds."""
        return self.shared_per_sm // (shared + RESERVED_SHARED)


def row(
    arch: str, ptx: Version, chip: str, sms: int, shared_kib: int, threads: int, blocks: int,
    accelerated: Version | None = None, family: Version | None = None,
) -> list[Target]:  # fmt: skip
    """An architecture, with its targets `sm_90a` and `sm_100f`, if PTX has them from these versions on.

    The PTX of an `a` target runs on this architecture alone, that of an `f` target on the later ones of its family too
    (PTX ISA 9.0, 11.1.2 ".target").
    """
    versions = {"": ptx, "a": accelerated, "f": family}
    return [
        Target(arch + letter, version, chip, sms, shared_kib << 10, threads, blocks)
        for letter, version in versions.items()
        if version is not None
    ]


# Versions: PTX ISA 9.0, 13 "Release Notes". What a multiprocessor holds: CUDA C++ Programming Guide 13, "Technical
# specifications per compute capability". Chips: NVIDIA's data sheets and the papers on the
# architectures GA102, Ada and RTX Blackwell.
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
    """The row of `arch`; TileError without one."""
    if arch not in TARGETS:
        raise TileError("target", None, f"unknown target '{arch}'", "known: " + ", ".join(TARGETS))
    return TARGETS[arch]
