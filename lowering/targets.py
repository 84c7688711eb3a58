"""The GPUs that PTX is made for: one row a target."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.location import TileError

WARP = 32
"""Threads of a warp, its lanes (PTX ISA, "Special registers: WARP_SZ")."""
MOST_REGISTERS = 255
LEAST_REGISTERS = 24  # that ptxas gives a thread, from sm_80 on: a lower cap is raised to it
"""32-bit registers of a thread, at most (CUDA C++ Programming Guide, table of compute capabilities)."""
RESERVED_SHARED = 1024
"""Bytes of shared memory that the system takes of each block (the same, compute capability 8 and 9)."""


@dataclass(frozen=True, slots=True)
class Target:
    """arch: as `.target` spells it. ptx: the least PTX version that knows it. shared: dynamic shared memory a block may
    opt in to, bytes. sms: of a typical device, for schedules evaluated without one. The others: what a multiprocessor
    holds (CUDA C++ Programming Guide, table of compute capabilities; H200, A100, RTX 3090, RTX 4090, B200 data sheets).
    """

    arch: str
    ptx: tuple[int, int]
    shared: int
    sms: int
    shared_per_sm: int
    threads_per_sm: int = 2048
    blocks_per_sm: int = 32
    registers: int = 65536

    @property
    def number(self) -> int:
        return int(self.arch.removeprefix("sm_").rstrip("a"))


TARGETS = {
    t.arch: t
    for t in (
        Target("sm_80", (7, 0), 163 * 1024, 108, 164 * 1024),
        Target("sm_86", (7, 1), 99 * 1024, 82, 100 * 1024, 1536, 16),
        Target("sm_89", (7, 8), 99 * 1024, 128, 100 * 1024, 1536, 24),
        Target("sm_90", (7, 8), 227 * 1024, 132, 228 * 1024),
        Target("sm_90a", (8, 0), 227 * 1024, 132, 228 * 1024),
        Target("sm_100", (8, 6), 227 * 1024, 148, 228 * 1024),
        Target("sm_100a", (8, 6), 227 * 1024, 148, 228 * 1024),
    )
}


def target(arch: str) -> Target:
    """The row of `arch`; TileError without one."""
    if arch not in TARGETS:
        raise TileError("target", None, f"unknown target '{arch}'", "known: " + ", ".join(TARGETS))
    return TARGETS[arch]
