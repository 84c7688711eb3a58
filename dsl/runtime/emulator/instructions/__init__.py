"""The instructions, one file for each family. Importing the files fills the table of instructions."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from ..code import Code, Op
from ..reader import PtxInstruction
from .registry import Row

for family in iter_modules(__path__):
    import_module(f"{__name__}.{family.name}")


def build(code: Code, ins: PtxInstruction, row: Row) -> Op:
    """The closure of one instruction. Raises `PtxError` if the builder does not know the form."""
    try:
        return row.build(code, ins)
    # The table of legal forms refuses nearly all of these forms earlier. A form that it lets through must still end in
    # an error with a line number.
    except (IndexError, KeyError, StopIteration, ValueError) as error:
        raise code.error(f"unknown form ({error})") from error
