"""Choices of the emission between forms of one operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dsl.lowering.ir.choices import Choices, Costs
from dsl.lowering.ir.function import Op


class Switches:
    """Such choices, each made once for an operation, however often it is emitted."""

    def __init__(self, choices: Choices):
        self._choices = choices
        self._taken: dict[tuple[str, Op], Any] = {}

    def of(
        self,
        op: Op,
        kind: str,
        options: Mapping[str, Any],
        because: str,
        rule: str | None = None,
        subject: Callable[[Op], str] | None = None,
        costs: Costs | None = None,
        unit: str = "",
    ) -> Any:
        """The chosen option: the forced one, else `rule`, else the first. The default subject is the name of the
        operation's result."""
        key = kind, op  # once for each operation: the function of a reduction, for example, is emitted many times
        if key not in self._taken:
            name = subject(op) if subject else op.result.name or op.name
            rule = rule or next(iter(options))
            self._taken[key] = self._choices.choose(
                kind, name, options, rule, loc=op.loc, because=because, costs=costs, unit=unit
            )
        return self._taken[key]
