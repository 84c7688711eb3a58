"""The GPUs that PTX is made for: one row a target."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.location import TileError


@dataclass(frozen=True, slots=True)
class Target:
    """arch: as `.target` spells it. ptx: the least PTX version that knows it. shared: dynamic shared memory a block may
    opt in to, bytes. sms, registers: of a typical device, for schedules evaluated without one (CUDA C++ Programming
    Guide, table of compute capabilities; H200, A100, RTX 3090, RTX 4090, B200 data sheets).
    """

    arch: str
    ptx: tuple[int, int]
    shared: int
    sms: int
    registers: int = 65536

    @property
    def number(self) -> int:
        return int(self.arch.removeprefix("sm_").rstrip("a"))


TARGETS = {
    t.arch: t
    for t in (
        Target("sm_80", (7, 0), 163 * 1024, 108),
        Target("sm_86", (7, 1), 99 * 1024, 82),
        Target("sm_89", (7, 8), 99 * 1024, 128),
        Target("sm_90", (7, 8), 227 * 1024, 132),
        Target("sm_90a", (8, 0), 227 * 1024, 132),
        Target("sm_100", (8, 6), 227 * 1024, 148),
        Target("sm_100a", (8, 6), 227 * 1024, 148),
    )
}


def target(arch: str) -> Target:
    """The row of `arch`; TileError without one."""
    if arch not in TARGETS:
        raise TileError("target", None, f"unknown target '{arch}'", "known: " + ", ".join(TARGETS))
    return TARGETS[arch]
