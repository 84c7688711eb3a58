"""Products of groups of rows, on the emulator and on a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dsl.lowering.ir.types import DTYPES
from dsl.runtime import device_facts
from dsl.values.element_types import narrow, widen
from tests.run_examples import module_of

SAMPLE = Path(__file__).parents[2] / "samples" / "matmul_grouped.tile"


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["tile", "tma"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("ends", [[300], [0, 100, 100, 229, 290], [1, 2, 3, 130, 131, 260], [*range(0, 300, 2)]])
def test_each_group_has_its_matrix(device, schedule, dtype, ends):
    """Groups of no row, of one, of several tiles, more than are read at once; rows behind the last one are left."""
    if schedule == "tma" and device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    m, n, k, random = 300, 264 if len(ends) < 9 else 40, 136, np.random.default_rng(len(ends))
    a, b = (narrow(random.standard_normal(each), DTYPES[dtype]) for each in ((m, k), (len(ends), n, k)))
    c = np.full((m, n), 77.0, np.float32)
    module_of(SAMPLE, device).matmul_grouped(c, a, b, np.array(ends, np.int32), schedule=schedule)
    wanted, start = np.full((m, n), 77.0), 0
    for number, end in enumerate(ends):
        wanted[start:end] = widen(a)[start:end].astype(np.float64) @ widen(b)[number].astype(np.float64).T
        start = end
    assert np.abs(c - wanted).max() < 1e-3
    assert (c[ends[-1] :] == 77.0).all()


def test_no_product_is_zeros(device):
    """Of as many tiles as boxes would bring: an array without elements has no tensor map."""
    c, ends = np.full((4096, 2048), np.nan, np.float16), np.array([1000, 4096], np.int32)
    a, b = np.zeros((4096, 0), np.float16), np.zeros((2, 2048, 0), np.float16)
    module_of(SAMPLE, device).matmul_grouped(c, a, b, ends)
    assert not c.any()
