"""How much of long lists of cases the tests take: CI some of them, `.ci/full` all (DSL_WHOLE=1).

Two ways. `some` thins a list where it stands. Beyond that, a bare `pytest`, which is the README's command, takes
half of the cases of a test that has more than LONG, and a third of more than VERY_LONG. Whoever names a file, a
test, `-k` or `-m` gets all cases.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar
from zlib import crc32

import pytest

Case = TypeVar("Case")
LONG, VERY_LONG = 15, 48
"""Tests with more than 15 cases took 624 of 1,549 s of all tests (two workers, two cores)."""
BARE = "DSL_BARE_PYTEST"


def is_whole() -> bool:
    return os.environ.get("DSL_WHOLE") == "1"


def some(cases: Iterable[Case], every: int) -> list[Case]:
    """All with DSL_WHOLE=1, else the first of each so many."""
    return [*cases][:: 1 if is_whole() else every]


def note_command(config: pytest.Config) -> None:
    """Leaves word for the workers whether the command names nothing: they get the folders of `testpaths` as arguments,
    as if somebody had named these."""
    if not hasattr(config, "workerinput"):
        named = config.args_source is not config.ArgsSource.TESTPATHS or config.option.keyword or config.option.markexpr
        os.environ[BARE] = "" if named else "1"


def thin(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out cases of long lists in a bare `pytest`. Tests on a GPU stay: their twins may be left out."""
    if is_whole() or not os.environ.get(BARE):
        return
    tests: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("gpu"):
            tests[item.nodeid.partition("[")[0]].append(item)
    out = set[pytest.Item]()
    for cases in tests.values():
        every = 3 if len(cases) > VERY_LONG else 2 if len(cases) > LONG else 1
        # By a checksum of the name: every second of a list would leave out whole values of one of its parameters.
        out |= {case for case in cases[1:] if crc32(case.nodeid.encode()) % every}
    if out:
        items[:] = [item for item in items if item not in out]
        config.hook.pytest_deselected(items=[*out])
