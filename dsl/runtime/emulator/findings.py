"""Defines findings: the faults that the strict emulator reports about a launch."""

from __future__ import annotations

import enum

from msgspec import Struct


class Kind(enum.StrEnum):
    """The kind of a finding. The value of each member is its text in messages."""

    OUT_OF_BOUNDS = "out of bounds"
    MISALIGNED = "misaligned"
    UNINITIALISED = "uninitialised read"
    RACE = "race"
    UNORDERED = "unordered volatile"
    IN_FLIGHT = "in flight"
    TENSOR_MAP = "tensor map"
    REGISTERS = "registers"
    SOURCE_CHANGED = "source changed"
    READ_ONLY_ALIAS = "read-only alias"
    MISSING_LANE = "missing lane"
    SOURCE_LANE = "source lane"
    MEMBER_MASK = "member mask"
    DIVERGENT_BARRIER = "divergent barrier"
    BARRIER_MISUSE = "barrier misuse"
    DEADLOCK = "deadlock"
    DIVERGENT_BRANCH = "divergent branch"
    BRANCH_TARGET = "branch target"
    BUDGET = "instruction budget"
    TIME = "time limit"
    TRAP = "trap"
    NOT_ZERO = "workspace not zero"
    NO_WAIT = "missing wait"
    DIVISION = "division by zero"


class Location(Struct, frozen=True):
    """A `.loc` position. If the code at this position was inlined, `inlined_at` is the position of the call (PTX ISA
    11.5.5)."""

    file: str
    line: int
    column: int = 0
    inlined_at: Location | None = None

    def chain(self) -> list[Location]:
        """Returns this position, followed by the positions of the calls into which it was inlined, innermost call
        first."""
        found: list[Location] = []
        here: Location | None = self
        while here is not None:
            found.append(here)
            here = here.inlined_at
        return found

    def __str__(self) -> str:
        return ", inlined at ".join(f"{place.file}:{place.line}" for place in self.chain())


class Finding(Struct, frozen=True):
    """One fault of the program.

    `block` and `thread` are (x, y, z). `last_writer` describes an earlier access that the fault involves, such as the
    other access of a race.
    """

    kind: Kind
    message: str
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    location: Location | None = None
    ptx_line: int | None = None
    last_writer: str | None = None

    @property
    def file(self) -> str | None:
        return self.location.file if self.location else None

    @property
    def line(self) -> int | None:
        return self.location.line if self.location else None

    def __str__(self) -> str:
        text = f"{self.kind}: {self.message}"
        # Without a `.loc`, only the line of the PTX is known.
        if self.location or self.ptx_line is not None:
            line = "" if self.ptx_line is None else f" (PTX line {self.ptx_line})"
            text += f"\n  at {self.location or 'no source line'}{line}"
        if self.block is not None:
            text += f"\n  block {self.block}, thread {self.thread}"
        if self.last_writer:
            text += f"\n  {self.last_writer}"
        return text


class DividedError(Exception):
    """Raised if a launch has divided integers by 0. The launch must run again, with a program that tracks the uses of
    these quotients."""


class EmulatorError(Exception):
    """Raised if a finding has stopped the launch. No array argument is then written back. `output` is the text that the
    kernel had printed before it stopped."""

    def __init__(self, finding: Finding):
        super().__init__(str(finding))
        self.finding = finding
        self.output = ""


class LaunchRefusedError(ValueError):
    """Raised for a grid, a block or a target architecture that cannot be launched. `code` is "target" for a target,
    else "grid"."""

    def __init__(self, message: str, code: str = "grid"):
        super().__init__(message)
        self.code = code


class PtxError(Exception):
    """Raised for PTX that the emulator cannot read or does not support. The message contains the PTX line if it is
    known."""

    def __init__(self, message: str, ptx_line: int | None = None):
        super().__init__(message if ptx_line is None else f"PTX line {ptx_line}: {message}")
        self.ptx_line = ptx_line
