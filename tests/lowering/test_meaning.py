"""Every operation has a meaning, and it is what the language says: against integers and exact fractions, and against
numpy on tiles, threads and memory. The emission's own tests compare it with the same tables."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from dsl.lowering.ir.types import DTYPES
from dsl.lowering.machine.formats import fp8_values, held, to_fp8
from dsl.lowering.meaning import FAMILIES, MEANINGS
from dsl.lowering.meaning.elementwise import converted
from dsl.lowering.ops import OPS
from dsl.lowering.ops.elementwise import FUNCTIONS
from tests.compile_and_run import NUMPY
from tests.lowering.test_elementwise import (
    APPROXIMATIONS,
    ARITHMETIC,
    CASES,
    ROWS,
    approximate,
    check,
    specials,
    wrapped,
)
from tests.lowering.test_elementwise import converted as wanted_conversion
from tests.run_meaning import meant


def test_every_operation_has_a_meaning_in_the_file_of_its_family() -> None:
    assert MEANINGS.keys() == OPS.keys()
    files = {family.__name__ for family in FAMILIES}
    assert {function.__module__ for function in MEANINGS.values()} <= files
    assert {name for name, spec in OPS.items() if spec.elementwise} <= {
        name for name, function in MEANINGS.items() if function.__module__.endswith("elementwise")
    }


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_elementwise(name: str, dtype: str) -> None:
    text, on_integers, on_floats = ROWS[name]
    kind = DTYPES[dtype]
    arity = 3 if name in ("fma", "select") else 2 if "b" in text.replace("abs", "").replace("brev", "") else 1
    values = specials(kind, {1: 512, 2: 32, 3: 16}[arity])
    operands = [np.ascontiguousarray(g.reshape(-1)) for g in np.meshgrid(*[values] * arity, indexing="ij")]
    size = 1 << (operands[0].size - 1).bit_length()
    operands = [np.resize(o, size) for o in operands]
    result = "s8" if ".to(s8)" in text else dtype
    names = "abc"[:arity]
    kernel = f"""
kernel k(out: {result}[N], {", ".join(f"{n}: {dtype}[N]" for n in names)}; N):
    grid 1
    {", ".join(names)} = {", ".join(f"load({n}[0 : N])" for n in names)}
    store(out[0 : N], {text})
"""
    out = np.zeros(size, NUMPY[result])
    meant(kernel, {"out": out, **dict(zip(names, operands, strict=True))}, constants={"N": size})
    if kind.is_float:
        assert on_floats is not None
        want = [on_floats(*map(float, row), dtype=kind) for row in zip(*operands, strict=True)]
    else:
        assert on_integers is not None
        want = [on_integers(*row, kind) for row in zip(*[[int(v) for v in o] for o in operands], strict=True)]
        to = DTYPES["s8"] if result == "s8" else kind
        want = [w if w is None else int(w) & 1 if to.kind == "bool" else wrapped(int(w), to) for w in want]
    check(out, want, operands)


def test_the_bounds_of_approximations_are_those_that_their_emission_is_held_to() -> None:
    bounds = {each.name: each.bound for each in FUNCTIONS.values() if each.bound is not None}
    assert bounds.keys() == {approximate(name) for name in APPROXIMATIONS}
    for name, (_, _, relative, absolute) in APPROXIMATIONS.items():
        ours = bounds[approximate(name)]
        assert ours[0] <= relative and ours[1] <= absolute


@pytest.mark.parametrize("source", [d.name for d in ARITHMETIC])
@pytest.mark.parametrize("how", ["", "saturate", "nearest", "zero", "up", "down"])
def test_conversions(source: str, how: str) -> None:
    mode = None if how in ("", "saturate") else how
    row = {"nearest": "rn", "zero": "rz", "up": "rp", "down": "rm"}.get(how)
    x = specials(DTYPES[source], 512)
    if DTYPES[source].bits >= 32 and DTYPES[source].is_int:  # halfway cases of every float type
        ties = np.array([(2**k + 1) * 2**s + e for k in (7, 10, 23) for s in (1, 5) for e in (-1, 0, 1)], np.int64)
        x[100 : 100 + ties.size] = ties.astype(x.dtype)
    if source in ("s64", "u64"):
        ties = np.array([2**62 + 2**54, 2**62 + 2**54 + 1, 2**62 + 2**54 - 1, 2**62 + 2**55 + 2**54 + 1], np.int64)
        x[200:204] = ties.astype(x.dtype)
    kind = DTYPES[source]
    for to in ARITHMETIC:
        if how == "saturate" and not to.is_int:
            continue
        if mode and not (to.is_float or (to.is_int and kind.is_float)):
            continue
        with np.errstate(all="ignore"):
            ours = x.astype(held(kind))
            got = np.asarray(converted(ours, kind, to, held(to), how == "saturate", row))
        want = [
            wanted_conversion(v if kind.is_float else int(v), kind, to, how == "saturate", mode) for v in x.tolist()
        ]
        check(got, want, [x, np.full(x.shape, to.name)])


@pytest.mark.parametrize(("name", "type"), [("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)])
def test_formats_of_8_bits(name: str, type: type) -> None:
    codes = np.arange(256, dtype=np.uint8)
    values = codes.view(type).astype(np.float32)
    assert np.array_equal(fp8_values(name), values, equal_nan=True)
    finite = np.sort(values[np.isfinite(values)])
    x = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2, np.linspace(-500, 500, 4001, dtype=np.float32)])
    most = float(finite[-1])
    want = np.clip(x, -most, most).astype(type).view(np.uint8)
    assert np.array_equal(to_fp8(x, DTYPES[name]), want)
    beyond = to_fp8(np.array([math.inf, -math.inf, 1e9, math.nan], np.float32), DTYPES[name])
    assert beyond.tolist() == [codes[values == most][0], codes[values == -most][0], codes[values == most][0], 0x7F]


TILES = """
kernel k(x: f32[64, 32], r: s32[64], total: f32[64], scanned: s32[64], up: f32[64, 32], ballot: u32[64], p: s32[32, 32],
         q: s8[32, 32], count: u32[4], olds: u32[64]):
    grid 1
    v = x[0 : 64, 0 : 32]
    total[0 : 64] = max(v, axis=1)
    w = r[0 : 64]
    scanned[0 : 64] = cumsum(w, reverse=true)
    up[0 : 64, 0 : 32] = shfl.up(v, 3, axis=1, width=8)
    ballot[0 : 64] = vote.ballot(w > 0)
    a = q[0 : 32, 0 : 32]
    p[0 : 32, 0 : 32] = a @ a
    i = arange(64)
    olds[0 : 64] = atomic_add(count[i % 4], full(u32[64], 1), mask=w > 0)

schedule s of k:
    warps = 2
"""


def test_tiles_threads_products_and_atomics() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((64, 32), np.float32)
    r = random.integers(-9, 9, 64, np.int32)
    q = random.integers(-128, 128, (32, 32), np.int8)
    args = {"x": x, "r": r, "total": np.zeros(64, "f4"), "scanned": np.zeros(64, "i4"), "up": np.zeros_like(x),
            "ballot": np.zeros(64, "u4"), "p": np.zeros((32, 32), "i4"), "q": q, "count": np.zeros(4, "u4"),
            "olds": np.zeros(64, "u4")}  # fmt: skip
    meant(TILES, args)
    assert np.array_equal(args["total"], x.max(1))
    assert np.array_equal(args["scanned"], np.cumsum(r[::-1])[::-1])
    column = np.arange(32)
    assert np.array_equal(args["up"], x[:, np.where(column % 8 >= 3, column - 3, column)])
    bits = ((r > 0).reshape(2, 32) << np.arange(32)).sum(1)
    assert np.array_equal(args["ballot"], np.repeat(bits, 32))
    assert np.array_equal(args["p"], q.astype(int) @ q.astype(int))
    on = r > 0
    places = np.arange(64) % 4
    assert np.array_equal(args["count"], np.bincount(places[on], minlength=4))
    for place in range(4):
        olds = args["olds"][on & (places == place)]
        assert sorted(olds.tolist()) == list(range(olds.size))
    assert not args["olds"][~on].any()


def test_copies_lie_there_when_a_wait_has_ended_their_group() -> None:
    text = """
kernel k(y: s32[64], before: s32[64], x: s32[70]):
    grid 1
    shared s: s32[ring 2, 64]
    c = arange(64)
    store(s[0, c], full(s32[64], 7))
    before[c] = s[0, c]
    copy(s[2, 0 : 64], x[10 : 74])
    commit()
    wait(0)
    y[c] = s[0, c]
"""
    x = np.arange(70, dtype=np.int32)
    y, before = np.zeros(64, np.int32), np.zeros(64, np.int32)
    run = meant(text, {"y": y, "before": before, "x": x})
    assert (before == 7).all()
    assert y.tolist() == [*range(10, 70), 0, 0, 0, 0], "stage 2 of 2 is stage 0, and zeros lie past the edge"
    assert not run.failed


@pytest.mark.parametrize("dtype", ["s64", "u64"])
def test_the_upper_half_of_a_product_of_scalars(dtype: str) -> None:
    """numpy makes Python's integers of scalars of objects."""
    bits = np.dtype(np.int64 if dtype == "s64" else np.uint64)
    for a, b in ((-3, 1 << 62), (1 << 63, (1 << 64) - 1), (7, 9)):
        x, y = (np.array(v % (1 << 64), np.uint64).view(bits) for v in (a, b))
        wanted = (int(x) * int(y)) >> 64
        for shape in ((), (2,)):
            found = FUNCTIONS["mulhi"].meaning(DTYPES[dtype], np.broadcast_to(x, shape), np.broadcast_to(y, shape))
            assert found.dtype == bits and (found == wanted).all()
