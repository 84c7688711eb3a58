"""Products by warp groups (`instruction acc: wgmma`): right, in flight while copies go on, refused elsewhere."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dsl
from lowering.location import TileError
from runtime import assemble, device_facts

KERNEL = """
kernel product(c: O[m, n], a: T[m, k], b: T[n, k]; T in f16|bf16|s8|u8|e4m3|f32, O in f32|s32|f16, TM, TN, TK):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(sum_type(T)[TM, TN])
    for p in range(0, k, TK):
        acc = dot(a[i : i + TM, p : p + TK], b[j : j + TN, p : p + TK].T, acc)
    c[i : i + TM, j : j + TN] = acc.to(O)

schedule groups of product:
    TM, TN, TK, warps = {tm}, {tn}, {tk}, {warps}
    instruction acc: wgmma
{lines}
"""
TYPES: dict[str, tuple[Any, str, Any]] = {
    "f16": (np.float16, "f32", np.float32),
    "bf16": (ml_dtypes.bfloat16, "f32", np.float32),
    "s8": (np.int8, "s32", np.int32),
    "u8": (np.uint8, "s32", np.int32),
    "e4m3": (ml_dtypes.float8_e4m3fn, "f32", np.float32),
}


def text(tm: int = 64, tn: int = 64, tk: int = 64, warps: int = 4, *lines: str) -> str:
    return KERNEL.format(tm=tm, tn=tn, tk=tk, warps=warps, lines="".join(f"    {line}\n" for line in lines))


def arrays(dtype: str, m: int, n: int, k: int) -> tuple[Any, Any, Any, Any]:
    """c, a, b, and c as it should be."""
    random, (kind, _, result) = np.random.default_rng(m * n + k), TYPES[dtype]
    made = [random.integers(0, 100, shape) if result == np.int32 else random.standard_normal(shape)
            for shape in ((m, k), (n, k))]  # fmt: skip
    a, b = (each.astype(kind) for each in made)
    return np.zeros((m, n), result), a, b, a.astype(np.float64) @ b.astype(np.float64).T


CASES = {
    "one group": ("f16", (64, 64, 64, 4), (64, 64, 128)),
    "two groups": ("f16", (128, 128, 64, 8), (128, 256, 192)),
    "rows of 64 bytes": ("bf16", (64, 32, 32, 4), (64, 64, 96)),
    "rows of 32 bytes": ("f16", (64, 16, 16, 4), (128, 16, 80)),
    "odd extents": ("f16", (64, 64, 64, 4), (70, 40, 200)),
    "bytes": ("s8", (128, 64, 128, 8), (130, 70, 272)),
    "unsigned bytes": ("u8", (64, 32, 64, 4), (64, 32, 128)),
    "e4m3": ("e4m3", (64, 64, 128, 4), (64, 64, 256)),
    "persistent": ("f16", (64, 64, 64, 4, "persistent 1", "pipeline p: 3"), (192, 320, 128)),
    "shared among blocks": ("f16", (64, 64, 64, 4, "split p: 2"), (64, 64, 512)),
    "one slot": ("f16", (64, 64, 64, 4, "pipeline p: 1"), (64, 64, 192)),
    "two slots": ("f16", (64, 64, 64, 4, "pipeline p: 2", "unroll p: 1"), (64, 64, 320)),
    "through shared memory": ("f16", (64, 64, 64, 4, "stage c: shared"), (64, 128, 128)),
}


def check(found: Any, wanted: Any) -> None:
    if found.dtype == np.int32:
        assert np.array_equal(found, wanted)
    else:
        assert np.abs(found - wanted).max() <= 2.0**-10 * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize("name", CASES)
def test_products_are_numpys(name: str) -> None:
    dtype, schedule, shape = CASES[name]
    module = dsl.parse(text(*schedule), device="emulator")
    c, a, b, wanted = arrays(dtype, *shape)
    module.product(c, a, b)
    check(c, wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_products_are_numpys_on_a_device(name: str) -> None:
    if not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    dtype, schedule, shape = CASES[name]
    module = dsl.parse(text(*schedule), device="cuda")
    c, a, b, wanted = arrays(dtype, *shape)
    module.product(c, a, b)
    check(c, wanted)


@pytest.mark.parametrize(
    ("dtype", "schedule"),
    [
        ("f16", (128, 256, 64, 8, "pipeline p: 4")),
        ("s8", (128, 256, 128, 8, "pipeline p: 4")),
        ("bf16", (64, 256, 64, 4, "pipeline p: 2", "persistent 1")),
    ],
)
def test_the_assembler_serialises_none_and_nothing_spills(dtype: str, schedule: tuple[Any, ...]) -> None:
    """It says so where sums of products in flight are touched (C75xx)."""
    module = dsl.parse(text(*schedule), device="emulator")
    kernel = module.compile("product", m=4096, n=4096, k=4096, T=dtype, O=TYPES[dtype][1])
    made = assemble(kernel.ptx, "sm_90a")
    assert made.spill_stores == 0 and "C75" not in made.log, made.log
    assert kernel.compiled.header.arch == "sm_90a"


def test_copies_are_started_while_products_run() -> None:
    kernel = dsl.parse(text(64, 64, 64, 4, "pipeline p: 3", "unroll p: 1"), device="emulator").compile(
        "product", m=512, n=512, k=4096, T="f16", O="f32"
    )
    loop = kernel.ptx.partition("bar.sync")[2].partition("wgmma.wait_group")[0]
    assert loop.index("wgmma.commit_group") < loop.index("cp.async.cg")


def test_another_instruction_may_be_chosen() -> None:
    module = dsl.parse(text(64, 64, 64, 4, "choose instruction.acc: m16n8k16"), device="emulator")
    c, a, b, wanted = arrays("f16", 64, 64, 128)
    module.product(c, a, b)
    check(c, wanted)
    kernel = module.compile("product", m=64, n=64, k=128, T="f16", O="f32")
    assert "wgmma" not in kernel.ptx and "mma.sync" in kernel.ptx


REFUSED = {
    "rows for fewer warps": (text(128, 64, 64, 4), {}, "128 rows are not 16 for each of 4 warps"),
    "no whole group": (text(32, 64, 64, 2), {}, "not 16 for each of 2 warps"),
    "too many columns": (text(64, 512, 64, 4), {}, "none of 512 columns"),
    "rows too long": (text(64, 64, 128, 4), {}, "rows of 256 bytes along K; they take 32, 64, 128"),
    "f32": (text(64, 64, 32, 4).replace("dot(a[i : i + TM, p : p + TK], b[j : j + TN, p : p + TK].T",
                                       "dot(a[i : i + TM, p : p + TK].to(tf32), b[j : j + TN, p : p + TK].to(tf32).T"),
            {"T": "f32"}, "none of 64 columns that adds products of tf32"),
    "another target": (text(), {"arch": "sm_80"}, "sm_80 has none"),
    "a later target": (text(), {"arch": "sm_100"}, "sm_100 has none"),
    "operands in registers": (text(64, 64, 64, 4, "stage a, b: registers"), {}, "no load of a staged tile"),
    "step by step": (text(64, 64, 64, 4, "pipeline p: 3", "fragments p: early"), {}, "its (left|right) operand"),
    "rows that begin anywhere": (text(), {"k": 131}, "rows are multiples of 16 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_one_is_told(name: str) -> None:
    source, changes, message = REFUSED[name]
    request = {"m": 1024, "n": 1024, "k": 1024, "T": "f16", "O": "f32"} | changes
    with pytest.raises(TileError, match=message) as told:
        dsl.parse(source, device="emulator").compile("product", **request)
    assert told.value.loc is not None and told.value.hint


def test_b_across_k_is_told() -> None:
    source = text().replace("b: T[n, k]", "b: T[k, n]")
    source = source.replace("b[j : j + TN, p : p + TK].T", "b[p : p + TK, j : j + TN]")
    with pytest.raises(TileError, match="right operand lies across K"):
        dsl.parse(source, device="emulator").compile("product", m=256, n=256, k=256, T="f16", O="f32")
