"""What the search for undefined bits knows of an instruction."""

from __future__ import annotations

from dataclasses import dataclass

from .code import Site
from .reader import PtxInstruction


@dataclass(frozen=True)
class RegisterStep:
    """What an instruction does with registers, in the order of a segment: `at` is its place among the operations."""

    at: int
    ins: PtxInstruction
    site: Site
    effect: bool
    uses: tuple[str, ...]  # without the guard
    writes: tuple[str, ...]
    widths: dict[str, int]  # bits of the registers
    entries: dict[str, int]  # of a register that is read, where the instruction sees it as one type
    known: dict[str, int]  # registers that hold one constant only
    guard: str | None
    guard_entry: int | None
    negated: bool
