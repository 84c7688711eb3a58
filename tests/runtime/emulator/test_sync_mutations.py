"""Synchronisation taken out of whole kernels is found: some changes of each. `sync_mutations.py` makes them all."""

from __future__ import annotations

import pytest
from sync_kernels import FOREIGN, OURS, case
from sync_mutations import NOT_REACHED, REDUNDANT, UNREACHED, judged, mutations, redundant, verdict

EACH = 15  # one of so many changes is made here
KERNELS = [each.name for each in [*OURS, *FOREIGN]]
LONG = {"nvcc: stages"}  # where what goes on for ever takes a minute


def some_of(name: str) -> list[str]:
    """Changes that must be found, spread over the text."""
    text, _ = case(name)
    known = redundant(name) | UNREACHED.get(name, set())
    found = [each.name for each in mutations(text) if each.name not in known and "atom" not in each.name]
    return found[KERNELS.index(name) % 3 :: EACH]


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in KERNELS if name not in LONG])
def test_a_change_of_the_synchronisation_is_found(name: str) -> None:
    text, run = case(name)
    assert verdict(text, run, [0]) == ""
    asked = some_of(name)
    for mutation in mutations(text):
        if mutation.name in asked:
            found = judged(name, mutation)
            assert found and found != NOT_REACHED, mutation.name


def test_each_kernel_has_its_changes() -> None:
    """Of twelve kernels of ours and more than six of others; what is redundant is named as the changes are."""
    assert len(OURS) >= 12 and len(FOREIGN) >= 6
    for name in KERNELS:
        names = [each.name for each in mutations(case(name)[0])]
        assert names, name
        assert redundant(name) <= {*names}, name
    assert REDUNDANT.keys() <= {*KERNELS}
