"""How much of a long list of cases the tests take: CI some of them, `.ci/full` all (DSL_WHOLE=1)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

Case = TypeVar("Case")


def some(cases: Iterable[Case], every: int) -> list[Case]:
    """All with DSL_WHOLE=1, else the first of each so many."""
    return [*cases][:: 1 if os.environ.get("DSL_WHOLE") == "1" else every]
