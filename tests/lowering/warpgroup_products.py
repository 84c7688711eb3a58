"""Products by warp groups for the tests: a kernel, schedules, arrays, and what comes out."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dsl
from dsl.lowering.ir.location import TileError

KERNEL = """
def factor(v; T):
    if T == f32:
        return bitcast(v, tf32)
    return v

def twice(v):
    return v + v

kernel product(c: O[m, n], a: T[{a}], b: T[{b}]; T in f16|bf16|s8|u8|e4m3|f32, O in f32|s32|f16, TM, TN, TK):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(sum_type(T)[TM, TN])
    for p in range(0, k, TK):
        acc = dot(factor({left}, T=T), factor({right}, T=T), acc)
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
    "f32": (np.float32, "f32", np.float32),
}
LEFT = {
    "along": ("m, k", "a[i : i + TM, p : p + TK]"),
    "across": ("k, m", "a[p : p + TK, i : i + TM].T"),
    "made": ("m, k", "twice(a[i : i + TM, p : p + TK])"),
    "made across": ("k, m", "twice(a[p : p + TK, i : i + TM]).T"),
}
RIGHT = {
    "along": ("n, k", "b[j : j + TN, p : p + TK].T"),
    "across": ("k, n", "b[p : p + TK, j : j + TN]"),
    "made": ("n, k", "twice(b[j : j + TN, p : p + TK]).T"),
    "made across": ("k, n", "twice(b[p : p + TK, j : j + TN])"),
}
"""How operands lie in memory: along K or across it; or that they are computed."""


def text(
    tm: int = 64, tn: int = 64, tk: int = 64, warps: int = 4, *lines: str, a: str = "along", b: str = "along"
) -> str:
    """The product in tiles of `tm` x `tn` x `tk`. Where no line stages a or b, threads copy them: TMA has its own tests
    (test_roles.py, test_plan.py)."""
    if not any(line.startswith(("stage a", "stage b")) for line in lines):
        blocks = () if any(line.startswith("persistent") for line in lines) else ("persistent 0",)
        lines = ("stage a, b: shared", *blocks, *lines)
    said = "".join(f"    {line}\n" for line in lines)
    (dims_a, left), (dims_b, right) = LEFT[a], RIGHT[b]
    return KERNEL.format(tm=tm, tn=tn, tk=tk, warps=warps, lines=said, a=dims_a, b=dims_b, left=left, right=right)


def arrays(dtype: str, m: int, n: int, k: int, left: str = "along", right: str = "along") -> tuple[Any, Any, Any, Any]:
    """c, a, b, and c as it should be. Numbers of f32 are some of tf32."""
    random, (kind, _, result) = np.random.default_rng(m * n + k), TYPES[dtype]
    made = [random.integers(0, 100, shape) if result == np.int32 else random.standard_normal(shape)
            for shape in ((m, k), (n, k))]  # fmt: skip
    a, b = (each.astype(ml_dtypes.bfloat16 if dtype == "f32" else kind).astype(kind) for each in made)
    wanted = (1 + ("made" in left)) * (1 + ("made" in right)) * (a.astype(np.float64) @ b.astype(np.float64).T)
    a, b = (np.ascontiguousarray(x.T) if "across" in order else x for x, order in ((a, left), (b, right)))
    return np.zeros((m, n), result), a, b, wanted


CASES: dict[str, tuple[Any, ...]] = {
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
    "one stage": ("f16", (64, 64, 64, 4, "pipeline p: 1"), (64, 64, 192)),
    "two stages": ("f16", (64, 64, 64, 4, "pipeline p: 2", "unroll p: 1"), (64, 64, 320)),
    "through shared memory": ("f16", (64, 64, 64, 4, "stage c: shared"), (64, 128, 128)),
    "tf32": ("f32", (64, 64, 32, 4), (70, 64, 100)),
    "rows in two atoms": ("f16", (64, 32, 128, 4), (64, 40, 256)),
    "in two parts": ("f16", (64, 128, 64, 4, "subtile acc: 64, 64"), (72, 256, 192)),
    "in three parts": ("s8", (128, 192, 64, 8, "subtile acc: 128, 64"), (130, 200, 256)),
    "tf32 in eight parts": ("f32", (64, 256, 32, 4, "subtile acc: 64, 32"), (72, 256, 96)),
    "in parts, b across K": ("bf16", (64, 64, 64, 4, "subtile acc: 64, 32"), (64, 72, 128), {"b": "across"}),
    "rows in two parts": ("f16", (256, 64, 64, 8), (300, 72, 192)),
    "rows in two parts of one group": ("s8", (128, 48, 128, 4), (136, 56, 272)),
    "rows in three parts, b across K": ("bf16", (384, 96, 64, 8, "persistent 1"), (400, 200, 128), {"b": "across"}),
    "rows in two parts, a across K": ("f16", (256, 128, 64, 8), (264, 136, 192), {"a": "across"}),
    "rows in two parts, a in registers": ("f16", (128, 64, 64, 4), (136, 64, 128), {"a": "made"}),
    "b across K": ("f16", (64, 128, 64, 4), (64, 136, 128), {"b": "across"}),
    "b across K, rows of 64 bytes": ("bf16", (128, 32, 32, 8), (128, 64, 96), {"b": "across"}),
    "b across K, rows of 32 bytes": ("f16", (64, 16, 64, 4), (64, 32, 72), {"b": "across"}),
    "a across K": ("f16", (128, 64, 64, 8), (136, 64, 200), {"a": "across"}),
    "a in registers": ("f16", (64, 64, 64, 4), (72, 64, 128), {"a": "made"}),
    "a in registers, tf32": ("f32", (128, 32, 32, 8), (128, 64, 96), {"a": "made"}),
    "a in registers, b across K": ("bf16", (64, 64, 32, 4), (64, 72, 96), {"a": "made", "b": "across"}),
    "tf32, a across K": ("f32", (64, 64, 32, 4), (72, 64, 100), {"a": "across"}),
    "tf32, b across K": ("f32", (32, 64, 32, 4), (70, 136, 100), {"b": "across"}),
    "tf32, b across K, two groups": ("f32", (64, 128, 32, 8, "persistent 1"), (136, 264, 96), {"b": "across"}),
    "tf32, b across K, in parts": ("f32", (64, 64, 32, 4, "subtile acc: 32, 64"), (70, 136, 100), {"b": "across"}),
    "tf32, b across K, shared": ("f32", (64, 64, 32, 4, "split p: 2"), (64, 64, 256), {"b": "across"}),
    "bytes, a across K": ("s8", (64, 64, 128, 4), (80, 64, 272), {"a": "across"}),
    "bytes, b across K": ("s8", (64, 128, 128, 8), (136, 272, 384), {"b": "across"}),
    "bytes, b across K, rows of 64 bytes": ("s8", (32, 64, 64, 4), (70, 144, 160), {"b": "across"}),
    "bytes, b across K, in two parts": ("u8", (64, 256, 64, 8), (72, 272, 192), {"b": "across"}),
    "bytes, a across K, in two parts": ("e4m3", (256, 32, 128, 8), (272, 40, 272), {"a": "across"}),
    "bytes, b across K, subtiles": ("s8", (64, 64, 128, 4, "subtile acc: 32, 64"), (70, 144, 272), {"b": "across"}),
    "bytes, b across K, shared": ("s8", (48, 128, 128, 8, "split p: 2"), (48, 128, 512), {"b": "across"}),
    "turned": ("f16", (48, 64, 64, 4), (100, 136, 192)),
    "turned, of three groups' rows": ("f16", (192, 128, 64, 8), (200, 264, 192)),
    "turned, of bytes": ("s8", (80, 64, 128, 4), (130, 72, 256)),
    "turned, b across K": ("bf16", (80, 128, 64, 8), (90, 136, 192), {"b": "across"}),
    "turned, a across K": ("bf16", (192, 64, 64, 4), (200, 72, 192), {"a": "across"}),
    "turned, rows in two parts": ("f16", (48, 256, 64, 8), (100, 264, 192)),
    "turned, rows in three parts, shared among blocks": ("bf16", (128, 384, 64, 8, "split p: 2"), (136, 392, 256)),
    "turned, shared among blocks": ("f16", (16, 128, 64, 8, "split p: 2"), (40, 136, 512)),
    "b computed": ("f16", (64, 64, 64, 4), (72, 72, 200), {"b": "made"}),
    "b computed, across K": ("bf16", (128, 128, 64, 8), (136, 136, 192), {"b": "made across"}),
    "b computed, in two atoms": ("f16", (64, 64, 128, 4, "pipeline p: 2"), (64, 72, 384), {"b": "made"}),
    "b computed, of bytes": ("u8", (64, 32, 64, 4), (64, 40, 192), {"b": "made"}),
    "a computed, across K": ("f16", (64, 64, 32, 4, "unroll p: 1"), (72, 64, 160), {"a": "made across"}),
    "both computed": ("bf16", (64, 64, 64, 4), (64, 72, 192), {"a": "made across", "b": "made"}),
    "turned, a computed": ("f16", (48, 64, 64, 4), (100, 72, 192), {"a": "made"}),
    "computed, in parts": ("f16", (64, 128, 64, 4, "subtile acc: 64, 64"), (72, 136, 192), {"b": "made"}),
    "computed, shared among blocks": ("f16", (64, 64, 64, 4, "split p: 2"), (64, 64, 256), {"b": "made across"}),
    "both across K": ("bf16", (128, 64, 32, 8, "pipeline p: 3"), (128, 72, 160), {"a": "across", "b": "across"}),
}


def check(found: Any, wanted: Any) -> None:
    if found.dtype == np.int32:
        assert np.array_equal(found, wanted)
    else:
        assert np.abs(found - wanted).max() <= 2.0**-10 * max(1.0, np.abs(wanted).max())


def of_case(name: str, *lines: str) -> tuple[str, Any, Any, Any, Any]:
    """The text of a case, with more lines in its schedule, and c, a, b, and c as it should be."""
    dtype, schedule, shape, *rest = CASES[name]
    orders = rest[0] if rest else {}
    given = arrays(dtype, *shape, orders.get("a", "along"), orders.get("b", "along"))
    return text(*schedule, *lines, **orders), *given


def check_refused(source: str, changes: dict[str, Any], message: str) -> None:
    """A product of 1024 x 1024 x 1024, but for `changes`, is an error that says so, at a place and with a hint."""
    request = {"m": 1024, "n": 1024, "k": 1024, "T": "f16", "O": "f32"} | changes
    with pytest.raises(TileError, match=message) as told:
        dsl.parse(source, device="emulator").compile("product", **request)
    assert told.value.loc is not None and told.value.hint
