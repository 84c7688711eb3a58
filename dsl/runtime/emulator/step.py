"""What the search for undefined bits must know about an instruction."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from .code import Code, Record, Site
from .reader import PtxInstruction


class RegisterStep(Struct, eq=False, dict=True):
    """The effect of an instruction on registers. `at` is its position among the operations of a segment.

    Each instruction has such a step. Most steps are needed only for `uses` and `writes`, so the other properties are
    computed on demand.
    """

    at: int
    ins: PtxInstruction
    site: Site
    effect: bool
    uses: tuple[str, ...]  # the registers that it reads, except the guard
    writes: tuple[str, ...]
    guard: str | None
    negated: bool
    code: Code
    record: Record

    @cached_property
    def entries(self) -> dict[str, int]:
        """For each register that the instruction reads, the entry through which it reads the register (see
        `code.py`)."""
        found = ((self.code.entries[number], number) for number in self.record.entries)
        return {entry.name: number for entry, number in found if entry.kind in {"register", "special"}}

    @property
    def known(self) -> dict[str, int]:
        """The values of those source registers that always contain one constant."""
        return {name: self.code.known[name][0] for name in self.uses if name in self.code.known}

    @property
    def guard_entry(self) -> int | None:
        return None if self.guard is None else self.entries.get(self.guard)
