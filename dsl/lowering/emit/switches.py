"""Chooses between several ways to emit one operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dsl.lowering.ir.choices import Choices
from dsl.lowering.ir.function import Op


class Switches:
    """Makes each choice once per operation, even if the operation is emitted several times."""

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
        **more: Any,
    ) -> Any:
        """Returns the value of the option that the user forces, or else of the option `rule`. By default, `rule` is the
        first option, and `subject` is the name of the operation's result. `more` is passed on to `Choices.choose`."""
        key = kind, op  # once per operation, because a reduction's function is emitted many times
        if key not in self._taken:
            name = subject(op) if subject else op.result.name or op.name
            rule = rule or next(iter(options))
            self._taken[key] = self._choices.choose(kind, name, options, rule, loc=op.loc, because=because, **more)
        return self._taken[key]
