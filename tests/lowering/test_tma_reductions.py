"""`stage c: tma` for atomics whose result is unused: boxes that the memory adds to a tensor."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.kernels.variant import Request
from dsl.lowering.ir.location import TileError
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from tests.compile_and_run import compile_kernel

JOIN = """
kernel join(c: T[m, n], a: T[z, m, n], best: T[m, n]?; T in f32|f16|s32|s64|f64, TM = 32, TN = 32):
    grid cdiv(m, TM), cdiv(n, TN), z
    i, j, b = block(0) * TM, block(1) * TN, block(2)
    {body}

schedule s of join:
    warps = {warps}
    stage c: tma
"""
PART, VALUE = "c[i : i + TM, j : j + TN]", "a[b, i : i + TM, j : j + TN]"
ACTIONS: dict[str, Any] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "xor": np.bitwise_xor,
}


def text(body: str = f"atomic_add({PART}, {VALUE})", warps: int = 4) -> str:
    return JOIN.format(body=body, warps=warps)


def arrays(dtype: Any, m: int = 40, n: int = 72, z: int = 3) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(m + n)
    return random.integers(-50, 50, (m, n)).astype(dtype), random.integers(-50, 50, (z, m, n)).astype(dtype)


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    ("dtype", "action"),
    [("float32", "add"), ("float16", "add"), ("int32", "add"), ("int32", "min"), ("int64", "max"), ("int32", "xor")],
)
def test_blocks_add_boxes_to_a_tensor(dtype: str, action: str, device: str) -> None:
    """Also behind the last row and column."""
    module = dsl.parse(text(f"atomic_{action}({PART}, {VALUE})"), device=device)
    c, a = arrays(dtype)
    wanted = ACTIONS[action].reduce([c, *a])
    module.join(c, a, None)
    assert np.array_equal(c, wanted)


@pytest.mark.parametrize("warps", [1, 8])
def test_a_reduction_is_one_instruction_of_each_warp_or_block(warps: int) -> None:
    c, a = arrays("float32", 64, 64, 2)
    kernel = compile_kernel(text(warps=warps), {"c": c, "a": a, "best": None}, arch="sm_90")
    assert kernel.ptx.count("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group") == 1
    assert not re.search(r"\s(atom|red)\.", kernel.ptx)


def test_what_a_box_adds_may_be_turned_and_added_in_a_loop() -> None:
    body = f"for r in range(2):\n        atomic_add({PART}, a[b, j : j + TN, i : i + TM].T)"
    module, (c, a) = dsl.parse(text(body), device="emulator"), arrays("float32", 64, 64, 2)
    wanted = c + 2 * a.sum(axis=0).T
    module.join(c, a, None)
    assert np.array_equal(c, wanted)


def test_all_levels_agree() -> None:
    c, a = arrays("float32", 40, 64, 2)
    dims = {"m": 40, "n": 64, "z": 2}
    request = Request("join", "s", dims, {"T": "f32"}, absent=frozenset({"best"}), arch="sm_90")
    assert verify_kernel(parse_program(text()), request, {"c": c, "a": a, "best": None}).divergence is None


REFUSED = {
    "what it gives": (f"best[i : i + TM, j : j + TN] = atomic_add({PART}, {VALUE})", "uses what 'atomic_add' returns"),
    "an order": (f"atomic_add({PART}, {VALUE}, order=acq_rel)", "order relaxed and scope gpu alone"),
    "another access": (f"atomic_add({PART}, {VALUE} + {PART})", "the kernel accesses it elsewhere, too"),
    "a mask of elements": (f"atomic_add({PART}, {VALUE}, mask={VALUE} > 0.0)", "cannot be stored by TMA"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_tma_does_not_add_is_told(name: str) -> None:
    body, message = REFUSED[name]
    c, a = arrays("float32", 64, 64, 2)
    with pytest.raises(TileError, match=message):
        compile_kernel(text(body), {"c": c, "a": a, "best": c.copy()}, arch="sm_90")
