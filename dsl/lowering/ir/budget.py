"""Limits the work of building one variant of a kernel. Constructs that repeat code use up steps and operations of a
budget.

The budget limits loops over constants, `def`s that each call another `def` twice, tuples of tuples and `unroll`.
Nothing else limits these constructs. Samples use less than a fiftieth of the budget.
"""

from __future__ import annotations

from dsl.lowering.ir.location import Loc, TileError

MAX_STEPS = 500_000
"""The maximum number of expressions and tuple elements that one compilation may evaluate."""
MAX_OPERATIONS = 60_000
"""The maximum number of operations in a kernel's IR."""


class Exhausted(TileError):
    """Raised if the budget is used up. Later errors are meaningless."""


class Budget:
    """Counts the remaining steps and operations. Raises TileError `limit` at the location that needs more than
    remain."""

    __slots__ = ("given", "operations", "steps")

    def __init__(self, steps: int = MAX_STEPS, operations: int = MAX_OPERATIONS):
        self.given = self.steps, self.operations = steps, operations

    @property
    def spent(self) -> tuple[int, int]:
        """The number of steps and of operations used so far."""
        return self.given[0] - self.steps, self.given[1] - self.operations

    def spend_steps(self, count: int, loc: Loc, caller: Loc | None = None) -> None:
        self.steps -= count
        if self.steps < 0:
            message = f"the kernel takes more than {self.given[0]} steps to build"
            raise Exhausted("limit", loc.under(caller), message, "use a run-time loop")

    def spend_operations(self, count: int, loc: Loc | None, caller: Loc | None = None) -> None:
        self.operations -= count
        if self.operations < 0:
            message = f"the kernel unrolls to more than {self.given[1]} operations"
            raise Exhausted("limit", loc and loc.under(caller), message, "use a run-time loop")
