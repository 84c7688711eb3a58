"""The budget for building one variant of a kernel: steps and operations, counted for everything that multiplies.

It limits loops of constants, `def`s that call one another twice, tuples of tuples and `unroll`; none of these has a
limit of its own. Samples use less than a fiftieth of it.
"""

from __future__ import annotations

from dsl.lowering.ir.location import Loc, TileError

MAX_STEPS = 500_000
"""Most evaluated expressions and elements of tuples of a compilation."""
MAX_OPERATIONS = 60_000
"""Most operations of a kernel's IR."""


class Exhausted(TileError):
    """The budget is spent. Errors that follow it are meaningless."""


class Budget:
    """Counts down. TileError `limit` at the place that needs more than is left."""

    __slots__ = ("given", "operations", "steps")

    def __init__(self, steps: int = MAX_STEPS, operations: int = MAX_OPERATIONS):
        self.given = self.steps, self.operations = steps, operations

    @property
    def spent(self) -> tuple[int, int]:
        """(steps, operations)"""
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
