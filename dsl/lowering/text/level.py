"""A kernel on its way to code: all that its text holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dsl.lowering.ir.function import Function
from dsl.lowering.ir.location import Source, TileError
from dsl.lowering.ir.targets import Target

VERSION = 1
"""Of the text: another one is refused."""
FIRST = f"tile-ir {VERSION}"
"""The first line of a text."""
MLIR = '"builtin.module"'
"""What the other form of the IR has near its head: that of `--emit ir` and `--print-after`."""


def form_of(text: str) -> str | None:
    """Whether a text is a kernel's IR: `text`, which is read back, `mlir`, or None for neither."""
    head = next((line for line in text.splitlines() if line.strip() and not line.startswith(("#", "!", "//"))), "")
    return "text" if head.split(" ")[0] == FIRST.split()[0] else "mlir" if head.startswith(MLIR) else None


def check_form(text: str, name: str) -> None:
    """TileError `ir` for a text of MLIR's generic form."""
    if form_of(text) == "mlir":
        message = f"{name} has the IR in MLIR's form, that of --emit ir, which is not read back"
        raise TileError(
            "ir", None, message, "dsl compile FILE --after PASS -o k.ir writes the text that is: docs/ir.md"
        )


@dataclass(slots=True)
class LevelCondition:
    """A condition of the variant, for the header's `requires`."""

    expr: Any
    text: str
    line: int
    hint: str | None = None


@dataclass(slots=True)
class Level:
    """A kernel variant after some passes: its function, and what its launch needs beside.

    source: the `.tile` file. requires: trees as the header of the PTX has them. passes: those that were run.
    """

    function: Function
    target: Target
    source: Source
    schedule: str | None
    constants: dict[str, int | float | bool | str]
    requires: list[LevelCondition]
    passes: list[str]
