"""Implements the PTX instructions, with one file for each family. Importing this package fills the table of
instructions (`registry.py`)."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from ..code import Code, Op
from ..reader import PtxInstruction
from .registry import Row

for family in iter_modules(__path__):
    import_module(f"{__name__}.{family.name}")


def build(code: Code, ins: PtxInstruction, row: Row) -> Op:
    """Builds the closure that executes one instruction. Raises `PtxError` if the builder does not support its form."""
    try:
        return row.build(code, ins)
    # The check for legal forms has already refused nearly all unknown forms. If it accepts one by mistake, the user
    # must still get an error with a line number.
    except (IndexError, KeyError, StopIteration, ValueError) as error:
        raise code.error(f"unknown form ({error})") from error
