"""How much of long lists of cases the tests take: CI some of them, `.ci/full` all (DSL_WHOLE=1).

Two ways. `some` thins a list where it stands. Beyond that, a bare `pytest`, which is the README's command, takes
some of the cases of a test that has many. Whoever names a file, a test, `-k` or `-m` gets all cases.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha1
from typing import TypeVar

import pytest

Case = TypeVar("Case")
LISTS, PRODUCTS = {48: 4, 24: 3, 15: 2}, {24: 6, 12: 4, 6: 3, 3: 2}
LONG = {48: 8, 24: 6, 6: 3, 1: 2}
"""Of a test with more cases than the key, every so many runs. Of combinations of parameters fewer do: each value of
each parameter stays (`chosen`). With {48: 3, 15: 2} for both, all tests took 1,570 s (two workers, two cores), of which
combinations took 600; now 1,250. LONG is of tests marked `long`, whose cases are alike and take 0.2 to 4 s each."""
BARE = "DSL_BARE_PYTEST"


def is_whole() -> bool:
    return os.environ.get("DSL_WHOLE") == "1"


def some(cases: Iterable[Case], every: int) -> list[Case]:
    """All with DSL_WHOLE=1, else the first of each so many."""
    return [*cases][:: 1 if is_whole() else every]


def draws(count: int) -> int:
    """So many examples that hypothesis draws with DSL_WHOLE=1, else half: each run draws others."""
    return count if is_whole() else count // 2


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
    tests: defaultdict[str, list[str]] = defaultdict(list)
    long = set[str]()
    for item in items:
        if not item.get_closest_marker("gpu"):
            test = item.nodeid.partition("[")[0]
            tests[test].append(item.nodeid)
            long |= {test} if item.get_closest_marker("long") else set()
    left = set[str]()
    for test, cases in tests.items():
        values = values_of(cases)
        table = LONG if test in long else PRODUCTS if are_combinations(values.values()) else LISTS
        every = next((every for most, every in table.items() if len(cases) > most), 1)
        if every > 1:
            left |= {*cases} - {*chosen(values, -(-len(cases) // every))}
    out = [item for item in items if item.nodeid in left and not item.get_closest_marker("gpu")]
    if out:
        gone = {*out}
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=out)


def values_of(cases: Sequence[str]) -> dict[str, set[str]]:
    """What the name of each case says of its parameters, without what all names say."""
    words = {case: {*re.split(r"[-\[\]]", case)[1:]} for case in cases}
    common = set.intersection(*words.values())
    return {case: own - common for case, own in words.items()}


def are_combinations(values: Collection[set[str]]) -> bool:
    """Whether each value of a case is one of another case, too."""
    counts = Counter(value for own in values for value in own)
    return all(counts[value] > 1 for own in values for value in own)


def chosen(values: Mapping[str, set[str]], count: int) -> list[str]:
    """So many of the cases of a test: the first one, then always one with the most values of parameters that no other
    has had yet. Of combinations, as many more as it takes for each value.

    Every second of a list would leave out whole values of a parameter. So did a checksum of the name: of ten cases, of
    five extents and two types, the lowest bit of CRC-32 was the same in all.
    """
    first, *rest = values
    left = sorted(rest, key=lambda case: sha1(case.encode()).digest())
    taken, seen = [first], {*values[first]}
    missing = set[str]().union(*values.values()) - seen if are_combinations(values.values()) else set()
    while left and (missing or len(taken) < count):
        best = max(left, key=lambda case: len(values[case] - seen))
        if values[best] <= seen:
            seen.clear()  # all values have been taken: once more
            best = left[0]
        seen |= values[best]
        missing -= values[best]
        taken.append(best)
        left.remove(best)
    return taken
