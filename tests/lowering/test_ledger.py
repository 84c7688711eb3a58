"""The ledger of shared memory: what directives may still take, beside what `place_shared` finds in the end."""

from __future__ import annotations

import numpy as np
import pytest
from sample_variants import Case, cases

from dsl.lowering.ir.function import walk
from dsl.lowering.ir.targets import target
from dsl.lowering.passes import run_passes
from dsl.lowering.plan.ledger import OF_CONVERSIONS, OF_MBARRIERS, Ledger
from tests.run_meaning import variant_of
from tests.whole import some

TEXT = """
kernel k(y: f32[n], x: f32[n]):
    grid 1
    shared s: f32[256]
    shared t: f16[ring 4, 256]
    s[0 : 256] = x[0 : 256]
    t[0] = x[0 : 256].to(f16)
    y[0 : 256] = s[255 - arange(256)] + t[0, 255 - arange(256)].to(f32)
"""
H100 = target("sm_90a")


def ledger() -> Ledger:
    given = {name: np.zeros(256, np.float32) for name in "xy"}
    return Ledger(variant_of(TEXT, given).function, H100)


def test_all_tiles_are_taken() -> None:
    book = ledger()
    first = next(op.result for op in walk(book.function.body) if op.spec.allocates)
    assert book.taken() == 256 * 4 + 4 * 256 * 2 and book.taken({first}) == 1024
    assert book.left() == H100.shared - 3072
    assert book.fits(H100.shared) and not book.fits(H100.shared + 1)


def test_a_ring_leaves_room_for_what_comes_later() -> None:
    book = ledger()
    assert book.left_for_ring(5000, 1024, False) == H100.shared - H100.shared // OF_CONVERSIONS - 5000
    assert book.left_for_ring(5000, 1024, True) == H100.shared - OF_MBARRIERS - 5000


def test_a_ring_leaves_room_for_the_blocks_of_a_multiprocessor_if_two_stages_fit() -> None:
    book = ledger()
    book.function.attrs["blocks_per_sm"] = 2
    half = H100.shared_per_sm // 2 - 1024
    assert book.left_for_ring(0, 1024, True) == half - OF_MBARRIERS
    assert book.left_for_ring(0, half, True) == H100.shared - OF_MBARRIERS


@pytest.mark.long
@pytest.mark.parametrize("case", some(cases(), 12), ids=str)
def test_tiles_that_share_bytes_take_at_most_what_the_ledger_counts(case: Case) -> None:
    """`place_shared` may only save bytes, but for the gaps that alignment leaves."""
    variant = case.build()
    run_passes(variant.function, variant.target)
    tiles = [op for op in walk(variant.function.body) if op.spec.allocates]
    assert variant.function.number("shared_bytes") <= Ledger(variant.function, variant.target).taken() + 1024 * len(
        tiles
    )
    assert Ledger(variant.function, variant.target).fits(variant.function.number("shared_bytes"))
