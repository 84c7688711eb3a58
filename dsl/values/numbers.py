"""Evaluates expressions of numbers and types, which are in schedules, defaults, literal dims and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dsl.values.functions  # noqa: F401 (the rows)
from dsl.values.scope import Scope
from dsl.values.walk import Walk


class Numbers(Walk):
    """Evaluates expressions of numbers with the bindings in `names`."""

    domain = "numbers"

    def __init__(self, names: Mapping[str, Any]):
        super().__init__(Scope(None, names))  # type: ignore[arg-type]
