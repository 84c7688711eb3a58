"""What the error codes mean: the table `error_codes.toml`. Tests: no code is missing; the examples are run."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("error_codes.toml")


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """`meaning`: what is wrong; `example`: what leads to it; `mend`: how to fix it.

    `shown`: whether running the example alone shows the code; false where it needs a GPU or another state.
    """

    meaning: str
    example: str
    mend: str
    shown: bool = True


def read_codes() -> dict[str, ErrorCode]:
    """All codes by name, in the order of the table."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: ErrorCode(**row) for name, row in rows.items()}
