"""A division of integers by 0 has no meaning: the emulator says where what it gave is used, and nothing elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsl
from dsl.runtime import FindingError
from dsl.runtime.emulator import Kind

TEXT = """
kernel quotients(y: s32[n], x: s32[n], d: s32[n]; B = 64):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = x[i : i + B] // d[i : i + B]

kernel rests(y: u32[n], x: u32[n], d: u32[n]; B = 64):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = x[i : i + B] % d[i : i + B]

kernel guarded(y: s32[n], x: s32[n], d: s32[n]; B = 64):
    grid cdiv(n, B)
    i = block(0) * B
    v = d[i : i + B]
    y[i : i + B] = where(v != 0, x[i : i + B] // v, 0)

kernel by_scalar(y: s64[n], x: s64[n], parts: s64; B = 64):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = x[i : i + B] // parts

kernel by_dim(y: s32[n], g: s32[groups]; B = 64):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = full(s32[B], 0) + (n // groups).to(s32)

kernel branches(y: s32[n], d: s32; B = 64):
    grid cdiv(n, B)
    i = block(0) * B
    if 100 // d > 3:
        y[i : i + B] = full(s32[B], 1)

kernel gathered(y: s32[n], x: s32[n], d: s32; B = 64):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = full(s32[B], 0) + x[(100 // d) % 2]
"""


@pytest.fixture(scope="module")
def module() -> Any:
    return dsl.parse(TEXT, device="emulator")


def finding(launch: Any) -> Any:
    with pytest.raises(FindingError, match="division by zero") as caught:
        launch()
    assert caught.value.finding.kind == Kind.DIVISION and "divided at <text>:" in str(caught.value)
    return caught.value.finding


@pytest.mark.parametrize("kernel", ["quotients", "rests"])
def test_a_quotient_of_zero_is_told_where_it_is_stored(module: Any, kernel: str) -> None:
    dtype = np.int32 if kernel == "quotients" else np.uint32
    x, d = np.arange(100, dtype=dtype), np.full(100, 3, dtype)
    assert (
        module[kernel](x, d) == (x // 3 if kernel == "quotients" else x % 3)
    ).all()  # lanes behind the end divide by 0
    d[70] = 0
    assert finding(lambda: module[kernel](x, d)).block == (1, 0, 0)


def test_what_nobody_looks_at_may_be_divided_by_zero(module: Any) -> None:
    x, d = np.arange(100, dtype=np.int32), np.arange(100, dtype=np.int32) % 3
    assert (module.guarded(x, d) == np.where(d, x // np.maximum(d, 1), 0)).all()


def test_scalars_and_dims_of_zero(module: Any) -> None:
    """A dim of 0 gave -1."""
    x = np.arange(100, dtype=np.int64)
    assert (module.by_scalar(x, 7) == x // 7).all()
    finding(lambda: module.by_scalar(x, 0))
    y = np.zeros(100, np.int32)
    module.by_dim(y, np.zeros(7, np.int32))
    assert (y == 14).all()
    finding(lambda: module.by_dim(y, np.zeros(0, np.int32)))
    assert (y == 14).all()


def test_branches_and_addresses_by_a_quotient_of_zero(module: Any) -> None:
    y, x = np.zeros(100, np.int32), np.ones(100, np.int32)
    module.branches(y, 10)
    module.gathered(y, x, 10)
    finding(lambda: module.branches(y, 0))
    finding(lambda: module.gathered(y, x, 0))


def test_findings_that_are_collected_have_it_too(module: Any) -> None:
    x = np.arange(100, dtype=np.int32)
    kernel, y, d = module.compile("quotients"), np.empty(100, np.int32), np.zeros(100, np.int32)
    result = kernel.run(y, x, d, on_finding="collect")
    assert {each.kind for each in result.findings} == {Kind.DIVISION} and result.counters.totals.instructions
