"""Compiles a cost for the calls on which its conditions have the same values as on one call.

Most conditions of a cost compare dims with constants: whether rows begin at multiples of 16 bytes, for example. If
their values are known, further conditions and times depend on the points alone. They are computed once. Points that no
such call can choose are left out from the start: of the 10,647 points of the schedule `wgmma`, 511 remain for f16. 250
operations become 100. The function checks the values of the conditions first. It returns None if one differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dsl.lowering.ir.location import Loc
from dsl.schedules.traced_cost import NAMES, CodeLine, Traced, Tracer, is_array
from dsl.text import tree as ast
from dsl.values.walk import NUMBERS


class SpecialTracer(Tracer):
    """Traces a cost as on a call with the dims `now`. Conditions on dims are Python's True and False."""

    def __init__(self, *what: Any, now: Mapping[str, int]):
        super().__init__(*what)
        self.now: dict[str, Any] = {"dims": now}  # the values of numbers on this call
        self.bounds: dict[str, tuple[Any, Any]] = {}  # where a condition of points may be true, and where it must be

    def let(
        self, code: str, is_array: bool, is_flag: bool = False, may_fold: bool = True, is_whole: bool = False
    ) -> Any:
        made = super().let(code, is_array, is_flag, may_fold, is_whole)
        if is_array or made.code in self.constants:
            return made
        if made.code not in self.now:
            if any(name not in self.now and name not in self.constants for name in NAMES.findall(code)):
                return made  # a number that is computed from arrays
            self.now[made.code] = value = eval(code, self.constants, self.now)
            if is_flag:
                self.code.append(CodeLine(None, f"if {'' if not value else 'not '}{made.code}: return None"))
        return bool(self.now[made.code]) if is_flag else made

    # ---- points that no such call can choose ----

    def bounds_of(self, value: Any) -> tuple[Any, Any]:
        """Where a condition may be true, and where it must be. Both broadcast to the points."""
        if not isinstance(value, Traced):
            return bool(value), bool(value)
        if value.code in self.constants:
            known = np.asarray(self.constants[value.code]) != 0
            return known, known
        return self.bounds.get(value.code, (True, False))

    def bounded(self, made: Any, may: Any, must: Any) -> Any:
        if isinstance(made, Traced) and made.code not in self.constants:
            self.bounds[made.code] = may, must
        return made

    def both(self, op: str, left: Any, right: Any, node: ast.Binary | None = None) -> Any:
        join = np.logical_and if op == "and" else np.logical_or
        pairs = zip(self.bounds_of(left), self.bounds_of(right), strict=True)
        return self.bounded(super().both(op, left, right, node), *(join(a, b) for a, b in pairs))

    def prefixed(self, op: str, value: Any, loc: Loc) -> Any:
        made = super().prefixed(op, value, loc)
        may, must = self.bounds_of(value)
        return self.bounded(made, np.logical_not(must), np.logical_not(may)) if op == "not" else made

    def selected(self, condition: Traced, yes: Any, no: Any) -> Any:
        may, must = self.bounds_of(condition)
        of_yes, of_no = self.bounds_of(yes), self.bounds_of(no)
        may_be = np.logical_or(np.logical_and(may, of_yes[0]), np.logical_and(np.logical_not(must), of_no[0]))
        must_be = np.logical_and(np.logical_or(~np.asarray(may), of_yes[1]), np.logical_or(must, of_no[1]))
        return self.bounded(super().selected(condition, yes, no), may_be, must_be)

    def meets(self, node: ast.Expr) -> bool:
        if isinstance(node, ast.Binary) and node.op == "and":
            return self.meets(node.left) and self.meets(node.right)
        condition = self.side(self.expr(node), node, "where")
        if isinstance(condition, NUMBERS):
            return bool(condition)
        shape, may = self.constants.get(self.points.code), self.bounds_of(condition)[0]
        if shape is not None and is_array(condition) and condition.code not in self.constants and self.counted is None:
            kept = np.flatnonzero(np.broadcast_to(may, shape))
            if 0 < len(kept) < np.prod(shape):
                self.gather(Traced(self.constant(kept), False))
                condition = self.side(self.expr(node), node, "where")
        self.keep(condition)
        return True

    def arranged(self, lines: list[CodeLine]) -> list[CodeLine]:
        """The lines that check conditions come first, with those that they read."""
        checks = [line for line in lines if line.code.endswith("return None")]
        needed = {name for line in checks for name in NAMES.findall(line.code)}
        for line in reversed(lines):
            if line.target in needed:
                needed.update(NAMES.findall(line.code))
        first = {id(line) for line in lines if line.target in needed} | {id(line) for line in checks}
        return sorted(lines, key=lambda line: id(line) not in first)
