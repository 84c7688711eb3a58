"""Where the meanings of operations are registered: one function an operation, by its name in `lowering/ops/`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lowering.ir import Op

if TYPE_CHECKING:
    from lowering.meaning.run import Run

Array = Any
"""A numpy array, or a numpy number for a scalar."""
Meaning = Callable[["Run", Op, "list[Array]"], Sequence[Array]]
"""From the run of a block, an operation and the values of its operands to the values of its results."""

MEANINGS: dict[str, Meaning] = {}


class Undecided(Exception):
    """What the meaning does not say: text of an `asm`, a block that waits for a later one."""

    def __init__(self, op: Op, message: str):
        super().__init__(message)
        self.op, self.message = op, message


class Outside(Exception):
    """An access of an element that its memory has not."""

    def __init__(self, op: Op, message: str):
        super().__init__(message)
        self.op, self.message = op, message


def meaning(*names: str) -> Callable[[Meaning], Meaning]:
    """Registers the meaning of the operations of these names."""

    def register(function: Meaning) -> Meaning:
        for name in names:
            assert name not in MEANINGS, name
            MEANINGS[name] = function
        return function

    return register
