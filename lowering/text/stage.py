"""A kernel on its way to code: all that its text holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lowering.ir import Function
from lowering.location import Source
from lowering.targets import Target

VERSION = 1
"""Of the text: another one is refused."""
FIRST = f"tile-ir {VERSION}"
"""The first line of a text."""


@dataclass(slots=True)
class StageCondition:
    """A condition of the variant, for the header's `requires`."""

    expr: Any
    text: str
    line: int
    hint: str | None = None


@dataclass(slots=True)
class Stage:
    """A kernel variant after some passes: its function, and what its launch needs beside.

    source: the `.tile` file. requires: trees as the header of the PTX has them. passes: those that were run.
    """

    function: Function
    target: Target
    source: Source
    schedule: str | None
    constants: dict[str, int | float | bool | str]
    requires: list[StageCondition]
    passes: list[str]
