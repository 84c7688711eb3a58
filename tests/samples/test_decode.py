"""Attention of few queries to many keys, in all forms of the cache, against numpy."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from dsl.kernels.variant import stride_class
from dsl.lowering.ir.function import walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import DTYPES
from dsl.lowering.layouts.layout import row_major
from dsl.runtime.errors import LaunchError
from dsl.values.element_types import narrow, widen
from dsl.values.facts import ArrayFacts
from tests.run_examples import module_of

SAMPLE = Path(__file__).parents[2] / "samples" / "decode.tile"
Arrays = dict[str, Any]


def scaled(numbers: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray | None]:
    """A cache [count, kv_heads, p, d] of this type, and factors of its heads if it is of bytes."""
    if dtype in ("f16", "bf16"):
        return narrow(numbers, DTYPES[dtype]), None
    factors = np.linspace(0.01, 0.03, numbers.shape[1]).astype(np.float32)
    whole = numbers / factors[:, None, None]
    return (
        np.clip(np.rint(whole), -128, 127).astype(np.int8) if dtype == "s8" else narrow(whole, DTYPES[dtype])
    ), factors


def drawn(seed: int, cached: str, **fixed: int) -> Arrays:
    """A call. The entries of a table behind a sequence's last page are no pages, and rows behind its last key are 9."""
    random, numbers = Random(f"{seed} {cached}"), np.random.default_rng(seed)
    batch, kv_heads, group, s = (random.randint(1, most) for most in (2, 2, 5, 4))
    d, t, p = random.choice((16, 40, 64, 80)), random.randint(1, 200), random.choice((1, 16, 24, 48, 64, 256))
    d, p, paged = fixed.get("d", d), fixed.get("p", p), fixed.get("paged", random.random() < 0.6)
    most = -(-t // p)
    lengths = np.array([random.randint(1, t) for _ in range(batch)], np.int32)
    dtype = DTYPES[random.choice(("f16", "bf16"))]
    q = narrow(numbers.standard_normal((batch, kv_heads * group, s, d)), dtype)
    args: Arrays = {"o": narrow(np.full(q.shape, np.nan), dtype), "q": q, "scale": random.choice((0.2, 0.5))}
    args["window"] = fixed.get("window", random.choice((0, -1, 1, 37, 300)))
    shape = (batch * most + 2, kv_heads, p, d) if paged else (batch, kv_heads, t, d)
    (args["k"], args["k_scale"]), (args["v"], args["v_scale"]) = (
        scaled(numbers.standard_normal(shape), cached) for _ in range(2)
    )
    if paged:
        args["pages"] = numbers.permutation(batch * most + 2)[: batch * most].reshape(batch, most).astype(np.int32)
    if paged or random.random() < 0.5:
        args["lengths"] = lengths
    for b in range(batch if paged else 0):
        args["pages"][b, -(-lengths[b] // p) :] = 1 << 30
    return args


def rows(args: Arrays, name: str, b: int, keys: int) -> np.ndarray:
    """The keys or values of a sequence, [kv_heads, keys, d]."""
    x = widen(args[name]).astype(np.float64)
    if args[f"{name}_scale"] is not None:
        x = x * args[f"{name}_scale"][:, None, None]
    if (pages := args.get("pages")) is None:
        return np.asarray(x[b, :, :keys])
    p = x.shape[2]
    return np.stack([x[pages[b, j // p], :, j % p] for j in range(keys)], 1)


def wanted(args: Arrays) -> np.ndarray:
    q = widen(args["q"]).astype(np.float64)
    out, (batch, heads, s, _) = np.zeros(q.shape), q.shape
    for b in range(batch):
        keys = int(args["lengths"][b]) if "lengths" in args else args["k"].shape[2]
        k, v = (np.repeat(x, heads // x.shape[0], 0) for x in (rows(args, name, b, keys) for name in "kv"))
        ahead = (np.arange(s) + keys - s)[:, None] - np.arange(keys)
        seen = (ahead >= 0) & ((ahead < args["window"]) | (args["window"] <= 0))
        x = np.where(seen, args["scale"] * (q[b] @ k.transpose(0, 2, 1)), -np.inf)
        e = np.where(seen, np.exp(x - np.maximum(x.max(2, keepdims=True), -1e30)), 0)
        out[b] = (e / np.maximum(e.sum(2, keepdims=True), 1e-30)) @ v
    return out


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("cached", ["f16", "bf16", "s8", "e4m3"])
@pytest.mark.parametrize("seed", range(4))
def test_all_forms_of_a_cache(seed: int, cached: str, arch: str) -> None:
    args = drawn(seed, cached)
    module = module_of(SAMPLE, "emulator", "sm_89" if (arch, cached) == ("sm_80", "e4m3") else arch)
    module.attention_of_few(**args)
    unit = 2.0**-8 if args["o"].dtype != np.float16 else 2.0**-11
    found, right = widen(args["o"]).astype(np.float64), wanted(args)
    assert np.abs(found - right).max() <= 4 * unit * max(1.0, np.abs(right).max())


@pytest.mark.parametrize("shares", [1, 3, 4])
@pytest.mark.parametrize("form", [{"p": 16, "paged": 1}, {"paged": 0, "window": 70}, {"paged": 1, "window": 50}])
def test_parts_of_pages_and_windows(shares: int, form: dict[str, int]) -> None:
    args = drawn(1, "f16", **form)
    module_of(SAMPLE, "emulator", "sm_90a").attention_of_few(**args, SHARES=shares)
    assert np.abs(widen(args["o"]) - wanted(args)).max() < 2e-2


@pytest.mark.parametrize("shares", [1, 2])
def test_keys_before_the_window_are_not_read(shares: int) -> None:
    """All but those in the page of its first key. No weight hides what is not finite, and no page has a number that is
    out of range."""
    args = drawn(1, "f16", paged=1, p=16, window=20) | {"lengths": None}
    t, s = 16 * args["pages"].shape[1], args["q"].shape[2]
    args["pages"] = args["pages"] % args["k"].shape[0]
    first = max(t - s + 1 - 20, 0) // 16
    args["v"][args["pages"][:, :first]] = np.nan
    args["v"][args["pages"][:, first:]] = 1.0
    args["pages"][:, : first - 1] = 1 << 30
    assert first > 2
    module_of(SAMPLE, "emulator", "sm_90a").attention_of_few(**args, SHARES=shares)
    assert np.abs(widen(args["o"]) - 1.0).max() < 1e-2


@pytest.mark.parametrize("p", [0, 16, 48, 256])
@pytest.mark.parametrize("shares", [1, 2])
def test_rows_behind_the_last_key_change_no_result(shares: int, p: int) -> None:
    args = drawn(5, "f16", paged=p > 0, p=p or 1, window=0)
    lengths = args["lengths"] = np.full(args["q"].shape[0], 37, np.int32)
    right, held = wanted(args), set[tuple[int, int]]()
    if p:
        args["pages"][:, -(-37 // p) :] = 1 << 30  # no pages
        held = {(int(pages[j // p]), j % p) for pages in args["pages"] for j in range(37)}
    for x in (args["k"], args["v"]):
        for page, row in np.ndindex(x.shape[0], x.shape[2]):
            if (page, row) not in held if p else row >= 37:
                x[page, :, row] = np.nan
    module_of(SAMPLE, "emulator", "sm_90a").attention_of_few(**args, SHARES=shares)
    assert np.isnan(x.astype(np.float32)).any() and len(lengths)
    assert np.abs(widen(args["o"]) - right).max() < 5e-2


@pytest.mark.parametrize("arch", ["sm_89", "sm_90a"])
@pytest.mark.parametrize("cached", ["f16", "s8", "e4m3"])
def test_keys_are_copied_ahead(cached: str, arch: str) -> None:
    """In words of 16 bytes, where threads copy."""
    module = module_of(SAMPLE, "emulator", arch)
    q = ArrayFacts((4, 32, 1, 128), "f16", 16, stride_class(row_major((4, 32, 1, 128))))
    scales = ArrayFacts((8,), "f32", 16)
    tables = [((300, 8, p, 128), ArrayFacts((4, 64), "s32", 16)) for p in (16, 24, 256)]
    for k, pages in (((4, 8, 4096, 128), None), *tables):
        cache = ArrayFacts(k, cached, 16, stride_class(row_major(k)))
        facts = {"o": q, "q": q, "k": cache, "v": cache, "scale": 0.125, "window": 0, "pages": pages, "lengths": None}
        (step,) = module.attention_of_few.plan(facts | {"k_scale": scales, "v_scale": scales}, BOXES=False).steps
        copies = [op for op in walk(module.built(step.request).function.body) if op.name == "copy"]
        assert copies and {op.attrs["bytes"] for op in copies} == {16}
        assert any(op.attrs.get("ahead") for op in copies)


@pytest.mark.parametrize("way", ["boxes", "threads"])
@pytest.mark.parametrize("p", [16, 48, 256])
@pytest.mark.parametrize("cached", ["f16", "s8", "e4m3"])
def test_pages_come_by_tma_or_by_threads(cached: str, p: int, way: str) -> None:
    """A box for each page of a tile, or for each part of 16 rows."""
    args, module = drawn(7, cached, paged=1, p=p, d=128), module_of(SAMPLE, "emulator", "sm_90a")
    module.attention_of_few(**args, SHARES=2, **({"BOXES": False} if way == "threads" else {}))
    assert np.abs(widen(args["o"]) - wanted(args)).max() < 5e-2


def test_rows_of_other_bytes_come_by_threads() -> None:
    args, module = drawn(7, "f16", paged=1, p=16, d=68), module_of(SAMPLE, "emulator", "sm_90a")
    module.attention_of_few(**args)
    assert np.abs(widen(args["o"]) - wanted(args)).max() < 5e-2


WRONG = {
    "d <= 256": {"d": 264},
}


@pytest.mark.parametrize("told", WRONG)
def test_wrong_calls_are_told_what_is_required(told: str) -> None:
    with pytest.raises(TileError, match=re.escape(told)):
        module_of(SAMPLE, "emulator").attention_of_few(**drawn(2, "f16", **WRONG[told]))


def test_other_wrong_calls() -> None:
    args, module = drawn(2, "f16", paged=0), module_of(SAMPLE, "emulator", "sm_80")
    with pytest.raises(TileError, match="heads % kv_heads == 0"):
        heads = [np.repeat(args[name], 3, 1)[:, : 2 * args["k"].shape[1] + 1] for name in ("k", "v")]
        module.attention_of_few(**{**args, "k": heads[0], "v": heads[1]})
    with pytest.raises(LaunchError, match="count == batch"):
        module.attention_of_few(**{**args, "k": np.repeat(args["k"], 2, 0), "v": np.repeat(args["v"], 2, 0)})
    with pytest.raises(TileError, match="C != e4m3 or gpu_arch >= 89"):
        module.attention_of_few(**drawn(2, "e4m3"))
