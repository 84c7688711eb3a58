"""Reads the meanings of error codes from `error_codes.toml`. Tests check that the file has every code, and run its
examples."""

from __future__ import annotations

import tomllib
from pathlib import Path

from msgspec import Struct

TABLE = Path(__file__).with_name("error_codes.toml")


class ErrorCode(Struct, frozen=True):
    """`meaning` explains what is wrong, `example` is a text that leads to the error, and `mend` explains the fix.

    `shown` is true if running the example alone reports the code. It is false if the example needs a GPU, or files in
    another state.
    """

    meaning: str
    example: str
    mend: str
    shown: bool = True


def read_codes() -> dict[str, ErrorCode]:
    """Returns all codes by name, in the order of `error_codes.toml`."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: ErrorCode(**row) for name, row in rows.items()}
