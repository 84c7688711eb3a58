"""What the search for undefined bits knows of an instruction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .code import Code, Record, Site
from .reader import PtxInstruction


@dataclass(eq=False)
class RegisterStep:
    """What an instruction does with registers. `at` is its place among the operations of a segment.

    Each instruction has one, and most are used for `uses` and `writes` only: the rest is computed on demand.
    """

    at: int
    ins: PtxInstruction
    site: Site
    effect: bool
    uses: tuple[str, ...]  # without the guard
    writes: tuple[str, ...]
    guard: str | None
    negated: bool
    code: Code
    record: Record

    @cached_property
    def entries(self) -> dict[str, int]:
        """By register that is read, the entry under which the instruction sees it."""
        found = ((self.code.entries[number], number) for number in self.record.entries)
        return {entry.name: number for entry, number in found if entry.kind in {"register", "special"}}

    @property
    def known(self) -> dict[str, int]:
        """Registers that hold one constant only, with their values."""
        return {name: self.code.known[name][0] for name in self.uses if name in self.code.known}

    @property
    def guard_entry(self) -> int | None:
        return None if self.guard is None else self.entries.get(self.guard)
