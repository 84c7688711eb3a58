"""The part of the cases that a bare `pytest` takes has each value of each parameter."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.whole import BARE, are_combinations, chosen, thin, values_of


def names(*parameters: list[str]) -> list[str]:
    return [f"tests/test_whole.py::test_b[emulator-{'-'.join(each)}]" for each in product(*parameters)]


def test_a_part_of_all_combinations_has_each_value() -> None:
    for one, other in ((5, 2), (3, 4), (2, 20), (7, 7)):
        cases = names([f"a{n}" for n in range(one)], [f"b{n}" for n in range(other)])
        values = values_of(cases)
        assert are_combinations(values.values())
        for count in (1, max(one, other), one * other):
            taken = chosen(values, count)
            assert taken[0] == cases[0] and len({*taken}) == len(taken) == max(one, other, count)
            assert set.union(*(values[case] for case in taken)) == set.union(*values.values())


def test_a_list_is_no_combinations() -> None:
    assert not are_combinations(values_of(names(["plain", "in-place", "turned"])).values())
    assert not are_combinations(values_of([*names(["a", "b"], ["c", "d"]), *names(["b"], ["e"])]).values())


def test_a_part_of_a_list_has_no_more_than_it_should() -> None:
    assert len(chosen(values_of(names([f"a{n}" for n in range(20)])), 5)) == 5


def test_what_is_chosen_does_not_depend_on_the_order() -> None:
    """As of a set that cases are drawn from: workers must agree."""
    values = values_of(names(["f16", "f32"], ["1", "33", "1000", "1023", "2049"]))
    first, *rest = values
    assert chosen(values, 5) == chosen({case: values[case] for case in [first, *reversed(rest)]}, 5)


class Case:
    """As much of a test item as `thin` looks at."""

    def __init__(self, nodeid: str, *marks: str):
        self.nodeid, self.marks = nodeid, marks

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None


@pytest.mark.parametrize(("whole", "bare", "left"), [("1", "1", 12), ("0", "", 12), ("0", "1", 5)])
def test_fewer_cases_of_long_tests_are_taken(whole: str, bare: str, left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four cases two, and of eight three, by a bare pytest alone."""
    monkeypatch.setenv("DSL_WHOLE", whole)
    monkeypatch.setenv(BARE, bare)
    four = [Case(name, "long") for name in names([f"a{n}" for n in range(4)])]
    eight = [Case(name.replace("test_b", "test_c"), "long") for name in names([f"a{n}" for n in range(8)])]
    items: list[Any] = [*four, *eight]
    told: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: told.extend(items))
    thin(cast(Any, SimpleNamespace(hook=hook)), items)
    assert len(items) == left and len(told) == 12 - left
    assert four[0] in items and eight[0] in items
