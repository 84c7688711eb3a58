"""Indices of every integer type, at and beyond what an index of 32 bits counts: right, masked off, or found."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.lowering.ir.types import DTYPES, int_range
from tests.compile_and_run import NUMPY, compile_kernel, launch, run

TYPES = ["s8", "u8", "s16", "s32", "u32", "s64", "u64"]
NUMBERS = [0, 5, 90, -1, -4, 255, 2**31 - 1, 2**31 - 5, 2**31 + 3, 2**32 - 4, 2**32 + 1, 2**63 - 1, 2**63, 2**64 - 3,
           -(2**31), -(2**32) + 2, -(2**63)]  # fmt: skip
X = np.arange(1000, 1100, dtype=np.int32)


def slice_of(n: int, extent: int) -> np.ndarray:
    """x[n : n + extent] where what is past the edges is 0."""
    i = np.array([n + k for k in range(extent)], object)
    return np.array([X[k] if 0 <= k < len(X) else 0 for k in i], np.int32)


@pytest.mark.parametrize("index_bits", [32, 64])
@pytest.mark.parametrize("name", TYPES)
def test_a_scalar_of_any_type_is_masked_as_the_number_that_it_is(name: str, index_bits: int) -> None:
    """Loads, stores and atomics of an element and of a slice, of global and of shared memory, tables, copies."""
    text = f"""
kernel k(one: s32[4], many: s32[4, 16], z: s32[100], a: s32[100], x: s32[m], t: table s32[4], n: {name}):
    grid 1
    shared s: s32[16]
    shared c: s32[16]
    store(s[0 : 16], load(x[0 : 16]))
    one[0] = x[n]
    one[1] = s[n]
    one[2] = t[n]
    one[3] = x[maximum(n, 0)]
    many[0, 0 : 16] = x[n : n + 16]
    many[1, 0 : 16] = x[maximum(n, 0) : maximum(n, 0) + 16]
    many[2, 0 : 16] = s[n : n + 16]
    copy(c[0 : 16], x[n : n + 16])
    commit()
    wait(0)
    many[3, 0 : 16] = c[0 : 16]
    z[n] = 7
    store(z[n : n + 16], arange(16).to(s32) + 1)
    old = atomic_add(a[n], 5)
    old2 = atomic_add(a[n : n + 16], full(s32[16], 9))
schedule s of k:
    warps = 1
"""
    low, high = int_range(DTYPES[name])
    table = np.array([7, 8, 9, 10], np.int32)
    shape = {"one": 4, "many": (4, 16), "z": 100, "a": 100}
    kernel = compile_kernel(text, {"x": X}, index_bits=index_bits)
    for n in (n for n in NUMBERS if low <= n <= high):
        args = {k: np.zeros(e, np.int32) for k, e in shape.items()} | {"x": X, "t": table, "n": n}
        launch(kernel, args)
        at, up = (lambda v, i: v[i] if 0 <= i < len(v) else 0), max(n, 0)
        assert args["one"].tolist() == [at(X, n), at(X[:16], n), at(table, n), at(X, up)], n
        inside = np.array([at(X[:16], n + k) for k in range(16)])
        assert np.array_equal(args["many"], [slice_of(n, 16), slice_of(up, 16), inside, slice_of(n, 16)]), n
        touched = [k - n for k in range(100)]
        assert args["z"].tolist() == [t + 1 if 0 <= t < 16 else 0 for t in touched], n
        assert args["a"].tolist() == [9 * (0 <= t < 16) + 5 * (t == 0) for t in touched], n


@pytest.mark.parametrize("name", ["s64", "u64"])
def test_a_tile_of_wide_indices_is_found_out_of_bounds(name: str) -> None:
    """Its elements are masked by `mask=` alone: without one, 2^32 + 1 is no element 1."""
    text = f"""
kernel k(y: s32[32], x: s32[m], i: {name}[32]):
    grid 1
    store(y[0 : 32], load(x[load(i[0 : 32])]))
"""
    i = np.arange(32).astype(NUMPY[name])
    args = {"y": np.zeros(32, np.int32), "x": X, "i": i}
    kernel = compile_kernel(text, args)
    launch(kernel, args)
    assert np.array_equal(args["y"], X[:32])
    i[3] = 2**32 + 1
    with pytest.raises(Exception, match="out of bounds"):
        launch(kernel, args)


@pytest.mark.parametrize("index_bits", [32, 64])
@pytest.mark.parametrize("name", ["u32", "s64", "u64", "s32"])
def test_the_slot_of_a_ring_is_counted_in_its_own_type(name: str, index_bits: int) -> None:
    text = f"""
kernel k(y: s32[2], n: {name}):
    grid 1
    shared s: s32[ring 3, 32]
    for i in range(3):
        s[i] = full(s32[32], i.to(s32))
    shared p: s32[ring 4, 32]
    for i in range(4):
        p[i] = full(s32[32], i.to(s32))
    y[0] = s[n, 7]
    y[1] = p[n, 7]
"""
    low, high = int_range(DTYPES[name])
    kernel = compile_kernel(text, {}, index_bits=index_bits)
    for n in (n for n in NUMBERS if low <= n <= high):
        args = {"y": np.zeros(2, np.int32), "n": n}
        launch(kernel, args)
        assert args["y"].tolist() == [n % 3, n % 4], n


def test_numbers_beyond_all_elements_are_masked_off() -> None:
    y = np.ones(18, np.int32)
    text = """
kernel k(y: s32[18], x: s32[m], zero: s64):
    grid 1
    y[0] = x[4294967297]
    y[1] = x[zero - 4294967295]
    y[2 : 18] = x[4294967296 : 4294967312]
    x[1099511627776] = 3
"""
    run(text, {"y": y, "x": X.copy(), "zero": 0})
    assert not y.any()


@pytest.mark.parametrize("name", ["s64", "u64", "u8", "s8"])
def test_a_distance_of_a_shuffle_is_not_cut(name: str) -> None:
    """One that leaves the segment leaves each lane its own."""
    text = f"""
kernel k(y: s32[32], d: {name}):
    grid 1
    store(y[0 : 32], shfl.down(arange(32).to(s32), d, axis=0, width=32))
schedule s of k:
    warps = 1
"""
    kernel = compile_kernel(text, {})
    low, high = int_range(DTYPES[name])
    for d in (d for d in (3, 2**32 + 1, 200, -1) if low <= d <= high):
        args = {"y": np.zeros(32, np.int32), "d": d}
        launch(kernel, args)
        moved = [i + d if 0 <= d < 32 and i + d < 32 else i for i in range(32)]
        assert args["y"].tolist() == moved, d


def test_dims_near_2_31_are_counted_in_64_bits() -> None:
    """A slice that passes the edge of a tensor overflows 32 bits before the tensor does."""
    text = "kernel k(x: u8[n]):\n    grid 1\n    x[n - 1 : n + 7] = full(u8[8], 1)\n"
    for n, bits in ((2**31 - 2**21, 32), (2**31 - 2**21 + 1, 64), (2**31 - 1, 64)):
        assert compile_kernel(text, dims={"n": n}).variant.function.index_bits == bits


@pytest.mark.parametrize("name", ["s64", "u64", "u32", "s32"])
def test_boxes_begin_at_the_number_that_it_is(name: str) -> None:
    """Coordinates of a box have 32 bits, an index 64: what is far away is not what is left of it."""
    text = f"""
kernel k(y: s32[32, 32], x: s8[m, c], n: {name}):
    grid 1
    total = zeros(s32[32, 32])
    for t in range(1):
        total = total + x[n : n + 32, 0 : 32].to(s32)
    y[0 : 32, 0 : 32] = total
schedule s of k:
    warps = 1
    stage x: tma
    pipeline t: 2
    specialize c
"""
    low, high = int_range(DTYPES[name])
    x, y = np.arange(40 * 32).astype(np.int8).reshape(40, 32), np.zeros((32, 32), np.int32)
    kernel = compile_kernel(text, {"x": x}, index_bits=64, arch="sm_90")
    for n in (n for n in NUMBERS if low <= n <= high):
        launch(kernel, {"x": x, "y": y, "n": n})
        assert [row.tolist() for row in y] == [x[i].tolist() if 0 <= i < 40 else [0] * 32 for i in range(n, n + 32)], n
