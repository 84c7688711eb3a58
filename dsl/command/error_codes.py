"""Reads the meanings of error codes from the table `error_codes.toml`. Tests check that no code is missing, and run the
examples."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("error_codes.toml")


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """`meaning` says what is wrong, `example` is a text that leads to the error, and `mend` says how to fix it.

    `shown` says whether running the example alone reports the code. `shown` is false if the example needs a GPU or
    another state.
    """

    meaning: str
    example: str
    mend: str
    shown: bool = True


def read_codes() -> dict[str, ErrorCode]:
    """All codes by name, in the order of the table."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: ErrorCode(**row) for name, row in rows.items()}
