"""A few random schedules of random kernels; `python -m tests.random_directives` tries thousands."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.random_directives.hopper_trying import attempt_hopper
from tests.random_directives.trying import Outcome, attempt
from tests.whole import some


@pytest.mark.long
@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_any_schedule_means_the_same(seed: int) -> None:
    for each in range(seed, seed + 3):
        outcome = attempt(each, choices=each % 2 == 0)
        assert outcome.kind in ("right", "refused"), f"{outcome.message}\n{outcome.text}"


FOUND = {
    (attempt, 5419): "an instruction forced for one of two products in a row, whose sums lie otherwise",
    (
        attempt,
        91106,
    ): "one iteration of a ring of two stages: fragments of the next one came from a stage never written",
    (attempt_hopper, 3000139): "an outer loop of a pipelined nest was peeled by a choice",
    (attempt_hopper, 7062023): "copies by threads for each turn of a loop that boxes stand in were pipelined first",
    (attempt_hopper, 5056982): "of two products whose sums lie together one was by warp groups: wrong sums, or none",
}
"""Seeds that failed with other options, and why."""


@pytest.mark.long
@pytest.mark.parametrize(("tries", "seed"), FOUND)
def test_what_was_found_stays_mended(tries: Callable[..., Outcome], seed: int) -> None:
    outcome = tries(seed, choices=True)
    assert outcome.kind in ("right", "refused"), f"{outcome.message}\n{outcome.text}"


@pytest.mark.long
@pytest.mark.parametrize("seed", some(range(0, 42, 7), 2))
def test_any_schedule_of_hopper_means_the_same(seed: int) -> None:
    """Products of warp groups and copies of boxes. Where most were refused, nothing would be tried."""
    kinds = []
    for each in range(seed, seed + 7):
        outcome = attempt_hopper(each)
        assert outcome.kind in ("right", "refused"), f"{outcome.message}\n{outcome.text}"
        kinds.append(outcome.kind)
    assert kinds.count("right") >= 0.4 * len(kinds)


MENDED = {
    208: "a product read its operand behind a barrier that stood for the end of its reads",
    217: "rows that a warp has copied itself were read by products without a fence of the asynchronous proxy",
    80635: "the barrier with that fence was taken out, as one of a warp ordered the same accesses",
    1436: "queries in boxes for each tile, beside a pipelined loop whose copies are none",
    13050: "the outer loop of a pipelined nest was peeled",
    1474: "more registers by `maxnreg` than a thread of so many has",
    11003544: "copies overtook `ldmatrix` on an H100: no fence stood between reads and the release of a stage",
    41061: "an operand that threads load across k from global memory",
}
"""Seeds of Hopper that failed, and why."""


@pytest.mark.long
@pytest.mark.parametrize("seed", MENDED)
def test_what_was_found_of_hopper_stays_mended(seed: int) -> None:
    outcome = attempt_hopper(seed)
    assert outcome.kind == "right", f"{outcome.message}\n{outcome.text}"


def test_products_that_become_one_have_the_registers_for_it() -> None:
    """Two blocks of 640 threads have 48 each, for four parts of columns, 58 are needed."""
    outcome = attempt_hopper(5007697, assembled=True)
    assert outcome.kind == "right", f"{outcome.message}\n{outcome.text}"
