"""The targets (architectures such as `sm_90a`) that the compiler supports."""

from __future__ import annotations

from msgspec import Struct

from dsl.lowering.ir.location import TileError

WARP = 32
"""Number of threads of a warp (PTX ISA, "Special registers: WARP_SZ")."""
MOST_REGISTERS = 255
"""The maximum number of 32-bit registers of a thread (CUDA C++ Programming Guide, table of compute capabilities)."""
LEAST_REGISTERS = 24
"""The least number of registers of a thread, from sm_80 on. ptxas raises a lower `.maxnreg` to this number."""
MOST_THREADS = 1024
"""The maximum number of threads of a block (the same table)."""
RESERVED_SHARED = 1024
"""Bytes of shared memory that the system reserves for each block (the same table, compute capability 8.0 to 12.0)."""

WARPS_AT_WORK = 8
"""The number of warps that a multiprocessor should run: two for each of its four schedulers, so that one warp computes
while the other waits. Eight warps with 255 registers per thread always fit."""

Version = tuple[int, int]
"""A PTX version: major and minor number."""


class Target(Struct, frozen=True):
    """An architecture for which PTX is compiled.

    `arch`: the name in the PTX directive `.target`.
    `ptx`: the first PTX version that supports the target.
    `chip`, `sms`: a device of this architecture, and its number of multiprocessors. The emulator simulates this device.
        If there is no GPU, schedules are evaluated for `chip`.
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
    def flaw_of_clusters(self) -> str:
        """The reason why a launch on this target has no clusters of blocks, or "" if it can have them."""
        return "" if self.number >= 90 else f"{self.arch} has no clusters of blocks: they need sm_90"

    @property
    def shared(self) -> int:
        """The maximum number of bytes of dynamic shared memory that a block may opt in to."""
        return self.shared_per_sm - RESERVED_SHARED

    def cap(self, asked: int, threads: int) -> int:
        """Returns the register limit of a thread: `asked`, but at most the number with which a block of `threads`
        threads can be launched."""
        return min(asked, self.each(threads))

    def each(self, threads: int, blocks: int = 1) -> int:
        """Returns the number of registers that each thread may use if `blocks` blocks of `threads` threads run on a
        multiprocessor."""
        # the hardware allocates registers in steps of 8 per thread
        return self.registers // (threads * blocks) // 8 * 8

    def has_enough(self, threads: int, shared: int) -> bool:
        """Returns whether a multiprocessor runs at least WARPS_AT_WORK warps. Only shared memory is considered as a
        limit."""
        return self.blocks(shared) * threads >= WARPS_AT_WORK * WARP

    def blocks(self, shared: int) -> int:
        """Returns the number of blocks that fit a multiprocessor if each block uses `shared` bytes of dynamic shared
        memory."""
        return self.shared_per_sm // (shared + RESERVED_SHARED)


def row(
    arch: str, ptx: Version, chip: str, sms: int, shared_kib: int, threads: int, blocks: int,
    accelerated: Version | None = None, family: Version | None = None,
) -> list[Target]:  # fmt: skip
    """Returns the targets of an architecture, including `a` and `f` targets such as `sm_90a` and `sm_100f` if they
    exist. `accelerated` and `family` are the first PTX versions that support the `a` and the `f` target.

    PTX for an `a` target runs only on the same architecture. PTX for an `f` target also runs on later architectures of
    its family (PTX ISA 9.0, 11.1.2 ".target").
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
    """Returns the target `arch`. Raises TileError `target` if it is not supported."""
    if arch not in TARGETS:
        raise TileError("target", None, f"unknown target '{arch}'", "known: " + ", ".join(TARGETS))
    return TARGETS[arch]
