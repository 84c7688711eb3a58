"""Defines `Level`, a kernel after some passes with all data that its IR text contains."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from dsl.lowering.ir.function import Function
from dsl.lowering.ir.location import Source, said_line
from dsl.lowering.ir.targets import Target

VERSION = 1
"""The version of the text format. The reader rejects other versions."""
FIRST = f"tile-ir {VERSION}"
"""The first line of an IR text."""


def is_ir(text: str) -> bool:
    """Returns whether a text is the IR of a kernel. The first line that is not a comment decides."""
    # Comments may precede the first line.
    head = next((line for line in text.splitlines() if line.strip() and not line.startswith("//")), "")
    return head.split(" ")[0] == FIRST.split()[0]


class LevelCondition(Struct):
    """A condition that the arguments of a launch must meet. It becomes an entry of `requires` in the PTX header. `file`
    is the file of its line, or None for the kernel's own."""

    expr: Any
    text: str
    line: int
    hint: str | None = None
    file: str | None = None

    @property
    def place(self) -> str:
        return said_line(self.line, self.file)


class Level(Struct):
    """A kernel variant after some passes: its function, and the other data that its launch needs.

    `source`: the `.tile` file. `requires`: conditions, as in the header of the PTX. `passes`: the passes that have run.
    """

    function: Function
    target: Target
    source: Source
    schedule: str | None
    constants: dict[str, int | float | bool | str]
    requires: list[LevelCondition]
    passes: list[str]
