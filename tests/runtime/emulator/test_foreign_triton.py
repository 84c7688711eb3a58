"""PTX that Triton 3.9 made for sm_90a of `foreign/triton_kernels.py`: right results, and what it leaves out is found.

Triton relies on the alignment that drivers give to shared memory, so that launches here say so; and it does not fence
the init of an mbarrier that tensor copies arrive at, which the ISA's proxies ask for. With that fence put in there are
no findings.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from foreign_hopper import SEEDS, Edit, Fault, Launch, in_turn, last_operand, lines_of, random, text_of

from dsl.runtime.emulator import Finding, Kind, PtxError, Result, emulate

SCRATCH = [0, 0]  # workspaces, of which no kernel here has one
ALIGNED = {"shared_alignment": 1024}


def plain(name: str, m: int, n: int, k: int, text: str = "", **options: Any) -> tuple[Launch, Result]:
    launch = Launch()
    if name == "bytes":
        a, b, c = random(m, k, dtype=np.int8), random(n, k, dtype=np.int8), np.zeros((m, n), np.int32)
    else:
        a, b, c = (random(*shape, dtype=np.float16) for shape in ((m, k), (k, n), (m, n)))
    args = [launch.pointer(each, array) for each, array in zip("abc", (a, b, c), strict=True)]
    grid = (-(-m // 64), -(-n // 64))
    text = text or text_of(f"triton_{name}")
    shared = {"plain": 49152, "bytes": 24576}[name]
    return launch, emulate(text, "plain", grid, 128, [*args, m, n, k, *SCRATCH], shared_bytes=shared, **options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("name", "m", "n", "k"), [("plain", 64, 128, 320), ("plain", 80, 48, 96), ("bytes", 80, 64, 272)]
)
def test_products_by_pointers(name: str, m: int, n: int, k: int, seed: int) -> None:
    launch, result = plain(name, m, n, k, seed=seed, **ALIGNED)
    a, b = (launch.arrays[each].astype(np.float64) for each in "ab")
    expected = a @ (b.T if name == "bytes" else b)
    np.testing.assert_allclose(launch.read("c"), expected, rtol=1e-3, atol=2e-2)
    assert result.notes == []


@pytest.mark.parametrize("n", [1, 77, 511, 512])
def test_softmax(n: int) -> None:
    x, y = random(5, n), np.zeros((5, n), np.float32)
    emulate(text_of("triton_softmax"), "softmax", 5, 128, [x, y, n, *SCRATCH], shared_bytes=16)
    weights = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, weights / weights.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("seed", SEEDS)
def test_attention(seed: int) -> None:
    launch, n = Launch(), 136
    args: list[Any] = []
    for name in "qkvo":
        array = random(n, 64, dtype=np.float16) if name != "o" else np.zeros((n, 64), np.float16)
        args += [launch.map(name, array, (64, 64), 128), n, 64, 64, 1]
    args += [np.float32(0.2), *SCRATCH]
    emulate(fenced("attention"), "attention", 3, 128, args, shared_bytes=57400, seed=seed, **ALIGNED)
    q, k, v = (launch.arrays[name].astype(np.float64) for name in "qkv")
    scores = np.where(np.tri(n) > 0, 0.2 * q @ k.T, -np.inf)
    weights = np.exp2(scores - scores.max(1, keepdims=True))
    found = launch.read("o").astype(np.float64)
    np.testing.assert_allclose(found, weights / weights.sum(1, keepdims=True) @ v, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["locked", "added"])
def test_shares_of_k(name: str, seed: int) -> None:
    a, b, c, lock = random(128, 128), random(128, 64), np.zeros((128, 64), np.float32), np.zeros(2, np.int32)
    args = [a, b, c, lock, 64, 128, *SCRATCH]
    emulate(text_of(f"triton_{name}"), "shares", (2, 2), 128, args, shared_bytes=49152, seed=seed, **ALIGNED)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-2, atol=0.1)
    assert not lock.any()


def test_without_the_alignment_of_a_driver_the_text_is_refused() -> None:
    with pytest.raises(PtxError, match="tiles with its swizzle begin at multiples of 1024"):
        plain("plain", 64, 64, 64)


# Of each kernel with maps: the type of operands and results, boxes of a, b and c, is b along k, threads, shared bytes.
SHAPES: dict[str, Any] = {
    "boxes": (ml_dtypes.float8_e4m3fn, np.float16, (128, 64), (64, 64), (128, 64), True, 128, 36888),
    "turns": (ml_dtypes.bfloat16, ml_dtypes.bfloat16, (64, 64), (64, 64), (64, 64), False, 128, 57368),
    "roles": (np.float16, np.float16, (64, 64), (64, 64), (64, 64), True, 256, 57404),
    "halves": (ml_dtypes.bfloat16, ml_dtypes.bfloat16, (64, 64), (64, 64), (64, 64), False, 384, 65696),
}


def mapped(name: str, m: int, n: int, k: int, text: str = "", **options: Any) -> tuple[Launch, Result]:
    operands, results, *boxes, along, threads, shared = SHAPES[name]
    launch = Launch()
    arrays = (
        random(m, k, dtype=operands),
        random(*((n, k) if along else (k, n)), dtype=operands),
        np.zeros((m, n), results),
    )
    args: list[Any] = []
    for each, array, box in zip("abc", arrays, boxes, strict=True):
        a_map = launch.map(each, array, box[::-1], box[1] * array.itemsize)
        args += [a_map, *array.shape, array.shape[1], 1]
    in_turn = name in ("turns", "halves")
    args += [m, n, k] if in_turn else [k]
    grid = 2 if in_turn else (-(-m // boxes[2][0]), -(-n // boxes[2][1]))
    entry = {"halves": "turns"}.get(name, name)
    text = text or text_of(f"triton_{name}")
    return launch, emulate(text, entry, grid, threads, [*args, *SCRATCH], shared_bytes=shared, **ALIGNED, **options)


def fenced(name: str) -> str:
    """The text with a fence behind the init of each mbarrier."""
    lines = text_of(f"triton_{name}").splitlines()
    fence = "fence.mbarrier_init.release.cluster;"
    return "\n".join(f"{line}\n{fence}" if "mbarrier.init" in line else line for line in lines)


def assert_right(launch: Launch, name: str) -> None:
    a, b = (launch.arrays[each].astype(np.float64) for each in "ab")
    expected = a @ (b.T if SHAPES[name][5] else b)
    found = launch.read("c").astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=1e-2 if SHAPES[name][1] == ml_dtypes.bfloat16 else 1e-3, atol=2e-2)


def is_about_init(finding: Finding) -> bool:
    return finding.kind == Kind.RACE and "with no fence.mbarrier_init" in finding.message


MAPPED = [("boxes", 136, 128, 272), ("boxes", 128, 64, 64), ("turns", 136, 128, 272), ("roles", 72, 64, 464)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("name", "m", "n", "k"), MAPPED)
def test_products_by_boxes(name: str, m: int, n: int, k: int, seed: int) -> None:
    """Over the edges, and with more rounds than slots. Where warps have roles they are told with constants."""
    launch, result = mapped(name, m, n, k, fenced(name), seed=seed)
    assert_right(launch, name)
    assert len(result.notes) == (2 if name == "roles" else 0)
    assert all("both write the same" in each.message for each in result.notes)


@pytest.mark.parametrize("name", ["boxes", "turns"])
def test_no_fence_behind_the_init_is_found_where_boxes_arrive(name: str) -> None:
    launch, result = mapped(name, 64, 64, 256, on_finding="collect")
    assert_right(launch, name)
    assert result.findings
    for each in result.findings:
        assert is_about_init(each) and "a.load([row, at])" in lines_of(each, "triton_kernels")[0]


def test_the_roles_of_a_kernel_that_is_written_so_are_clean_as_they_are() -> None:
    launch, _ = mapped("roles", 64, 64, 128)
    assert_right(launch, "roles")


@pytest.mark.parametrize("seed", SEEDS)
def test_two_warp_groups_that_store_the_same_tile_are_found(seed: int) -> None:
    """Roles that Triton chose: tiles of 64 rows are not halved, so that both groups multiply and store all of it."""
    launch, result = mapped("halves", 64, 64, 128, fenced("halves"), on_finding="collect", seed=seed)
    assert_right(launch, "halves")
    (found,) = result.findings
    assert found.kind == Kind.RACE and "writes global memory that another thread has written" in found.message
    assert "c.store" in lines_of(found, "triton_kernels")[0]
    assert result.counters.totals.mma == 2 * 2 * 4 * 4  # groups, rounds, products of each, warps


# LLVM counts the lines of inline assembly on from that of its call.
BEHIND_WAIT = "number += 1"
FAULTS = {
    "plain: nothing fences what cp.async has written": Fault(
        "triton_plain", (Edit("fence.proxy.async", 0),), Kind.RACE, "without a fence.proxy.async", "tl.dot("
    ),
    "plain: a copy may be on its way": Fault(
        "triton_plain", (Edit("cp.async.wait_group", 0, "cp.async.wait_group 4;"),), Kind.IN_FLIGHT,
        "still filling", "tl.dot(",
    ),
    "plain: a product reads what the next copy writes": Fault(
        "triton_plain", (Edit("wgmma.wait_group", 0, "wgmma.wait_group.sync.aligned 3;"),), Kind.SOURCE_CHANGED,
        "an operand of a product is written", "tl.dot(",
    ),
    "turns: nothing fences what goes out": Fault(
        "triton_turns", (Edit("fence.proxy.async", 0),), Kind.RACE, "without a fence.proxy.async", "c.store("
    ),
    "turns: written again before the box has gone out": Fault(
        "triton_turns", (Edit("wait_group.read", 0),), Kind.SOURCE_CHANGED, "before the copy is complete", "c.store("
    ),
    "roles: the wrong parity of full": Fault(
        "triton_roles", (Edit("mbarrier.try_wait", 0, last_operand("1")),), Kind.UNINITIALISED,
        "nobody has", "warpgroup_mma(",
    ),
    "roles: the wrong parity of empty": Fault(
        "triton_roles", (Edit("mbarrier.try_wait", 1, last_operand("1")),), Kind.DEADLOCK,
        "arrivals are missing", BEHIND_WAIT,
    ),
    "roles: a slot is freed before its products are over": Fault(
        "triton_roles", (Edit("wgmma.wait_group", 0, "wgmma.wait_group.sync.aligned 2;"),), Kind.RACE,
        "a product", "async_load(",
    ),
    "roles: too few bytes are expected": Fault(
        "triton_roles", (Edit("arrive.expect_tx", 0, last_operand("16368")),), Kind.DEADLOCK,
        "16 bytes have come", BEHIND_WAIT,
    ),
    "roles: nothing fences the init": Fault(
        "triton_roles", (Edit("fence.proxy.async", 0),), Kind.RACE, "no fence.mbarrier_init", "tma.async_load("
    ),
    "roles: nothing fences what goes out": Fault(
        "triton_roles", (Edit("fence.proxy.async", 1),), Kind.RACE, "without a fence.proxy.async", "async_store("
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "seed"), in_turn(FAULTS))
def test_faults_put_into_foreign_texts(name: str, seed: int) -> None:
    fault = FAULTS[name]
    kernel = fault.kernel.removeprefix("triton_")
    if kernel == "plain":
        _, result = plain(kernel, 64, 64, 448, fault.text, on_finding="collect", seed=seed, **ALIGNED)
    else:
        _, result = mapped(kernel, 72, 128, 448, fault.text, on_finding="collect", seed=seed)
    fault.assert_found(result.findings, "triton_kernels")
