"""PTX for sm_90a that nvcc made of CUDA kernels (`foreign/hopper_*.cu`, -O3 -arch=sm_90a -lineinfo; the transposition
with -std=c++17): tensor copies both ways, mbarriers, products of warp groups. Right results, no findings, and each
fault put into their texts is found at its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from foreign_hopper import SEEDS, Edit, Fault, Launch, edited, in_turn, last_operand, random, text_of
from msgspec.structs import replace
from on_device import launched

from dsl.runtime.emulator import Kind, PtxError, Result, emulate
from dsl.runtime.foreign import MapOf


def gemm(text: str, m: int, n: int, k: int, blocks: int, **options: Any) -> tuple[Launch, Result]:
    launch = Launch()
    args = [
        launch.map("a", random(m, k, dtype=np.float16), (64, 128), 128),
        launch.map("b", random(n, k, dtype=np.float16), (64, 128), 128),
        launch.map("d", np.zeros((m, n), np.float16), (64, 64), 128),
    ]
    shared = 3 * (128 + 128) * 128 + 4 * 64 * 128 + 1024
    return launch, emulate(text, "hopper_gemm", blocks, 384, [*args, m, n, k], shared_bytes=shared, **options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("m", "n", "k", "blocks"), [(128, 128, 64, 1), (200, 264, 200, 2), (128, 256, 576, 1)])
def test_gemm_of_three_warp_groups(m: int, n: int, k: int, blocks: int, seed: int) -> None:
    """One tile, tiles over the edges, and more rounds than slots with a tile behind another."""
    launch, result = gemm(text_of("hopper_gemm"), m, n, k, blocks, seed=seed)
    a, b = (launch.arrays[name].astype(np.float64) for name in "ab")
    np.testing.assert_allclose(launch.read("d"), a @ b.T, rtol=2e-3, atol=2e-2)
    assert result.notes == []
    tiles = -(-m // 128) * -(-n // 128)
    assert result.counters.totals.mma == tiles * -(-k // 64) * 4 * 8  # rounds, products of each, warps


def transpose(text: str, rows: int, columns: int, **options: Any) -> tuple[Launch, Result]:
    launch = Launch()
    args = [
        launch.map("x", random(rows, columns, dtype=np.int32), (32, 32), 128),
        launch.map("y", np.zeros((columns, rows), np.int32), (32, 32), 128),
    ]
    return launch, emulate(text, "hopper_transpose", -(-rows // 32), 128, [*args, columns], **options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("rows", "columns"), [(32, 32), (48, 164), (64, 8)])
def test_transposition_with_barriers_of_the_library(rows: int, columns: int, seed: int) -> None:
    launch, result = transpose(text_of("hopper_transpose"), rows, columns, seed=seed)
    np.testing.assert_array_equal(launch.read("y"), launch.arrays["x"].T)
    assert result.notes == []


def mixed(text: str, m: int, n: int, k: int, **options: Any) -> tuple[Launch, Result]:
    launch = Launch()
    args = [
        launch.map("a", random(m, k, dtype=np.int8), (64, 64), 64),
        launch.map("b", random(k, n, dtype=ml_dtypes.bfloat16), (64, 64), 128),
        launch.pointer("scale", random(m)),
        launch.pointer("y", np.zeros((m, n), np.float32)),
    ]
    return launch, emulate(text, "hopper_mixed", (n // 128, m // 64), 128, [*args, n, k], **options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("m", "n", "k"), [(64, 128, 64), (128, 256, 320), (64, 128, 144)])
def test_bytes_in_registers_times_bf16_across_k(m: int, n: int, k: int, seed: int) -> None:
    launch, result = mixed(text_of("hopper_mixed"), m, n, k, seed=seed)
    a, b, scale = (launch.arrays[name].astype(np.float64) for name in ("a", "b", "scale"))
    np.testing.assert_allclose(launch.read("y"), scale[:, None] * (a @ b), rtol=1e-4, atol=0.05)
    assert result.notes == []


def bulk(text: str, n: int, **options: Any) -> tuple[Launch, Result]:
    launch = Launch()
    args = [launch.pointer("x", random(n, dtype=np.int32)), launch.pointer("y", np.zeros(n, np.int32)), n]
    return launch, emulate(text, "hopper_bulk", -(-n // 256), 128, args, **options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n", [4, 256, 600])
def test_ranges_of_plain_memory(n: int, seed: int) -> None:
    launch, result = bulk(text_of("hopper_bulk"), n, seed=seed)
    x = launch.arrays["x"]
    np.testing.assert_array_equal(launch.read("y"), x + x[::-1])
    assert result.notes == []


def sums(text: str, rows: int, blocks: int, **options: Any) -> tuple[Launch, Result]:
    launch = Launch()
    args = [launch.pointer("x", random(rows, 256, dtype=np.int8).astype(np.float32))]
    args += [launch.pointer(name, np.zeros(256, np.float32)) for name in ("sums", "arrived", "y")]
    args[2] = launch.pointer("count", np.zeros(1, np.int32))
    return launch, emulate(text, "hopper_sums", blocks, 128, [*args, rows], **options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (37, 5)])
def test_blocks_add_to_the_sums_of_all(rows: int, blocks: int, seed: int) -> None:
    launch, result = sums(text_of("hopper_sums"), rows, blocks, seed=seed)
    np.testing.assert_array_equal(launch.read("y"), launch.arrays["x"].sum(0) / np.float32(rows))
    assert result.notes == []


GROUPS = np.array([37, 5, 0, 64, 1], np.int32)
"""Rows of each, of three tiles and less."""


def group_arrays() -> tuple[Any, Any, Any]:
    """x, y and the first row of each group: between them lie rows that belong to none."""
    at = np.cumsum([3, *(GROUPS[:-1] + 2)]).astype(np.int32)
    return random(int(at[-1]) + 9, 64), random(int(at[-1]) + 9, 64) + 1, at


def group_results(adds: bool) -> Any:
    x, y, at = group_arrays()
    for first, count in zip(at, GROUPS, strict=True):
        y[first : first + count] = 2 * x[first : first + count] + (y[first : first + count] if adds else 0)
    return y


def grouped(text: str, blocks: int, adds: bool = False, **options: Any) -> tuple[Launch, Result]:
    launch = Launch()
    x, y, at = group_arrays()
    maps = [launch.map(name, array, (64, 32), 0) for name, array in (("x", x), ("y", y))]
    maps = [replace(each, map=replace(each.map, type="f32")) for each in maps]
    args = [*maps, launch.pointers["x"], launch.pointers["y"], launch.pointer("at", at), launch.pointer("rows", GROUPS)]
    args += [len(GROUPS), launch.pointer("made", np.zeros(256 * blocks, np.uint8)), int(adds)]
    return launch, emulate(text, "hopper_grouped", blocks, 128, args, **options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("blocks", "adds"), [(1, False), (2, True), (5, False)])
def test_groups_by_maps_that_blocks_make(blocks: int, adds: bool, seed: int) -> None:
    launch, result = grouped(text_of("hopper_grouped"), blocks, adds, seed=seed)
    np.testing.assert_array_equal(launch.read("y"), group_results(adds))
    assert result.notes == []


def test_the_same_texts_on_a_device(device: str) -> None:
    """Those with reductions and with maps of their own."""
    x, y, at = group_arrays()
    made = np.zeros(512, np.uint8)
    args = [MapOf(x, (32, 64)), MapOf(y, (32, 64)), x, y, at, GROUPS, len(GROUPS), made, 1]
    launched(text_of("hopper_grouped"), args, device, grid=2)
    np.testing.assert_array_equal(y, group_results(True))
    x = random(37, 256, dtype=np.int8).astype(np.float32)
    total, count, mean = np.zeros(256, np.float32), np.zeros(1, np.int32), np.zeros(256, np.float32)
    launched(text_of("hopper_sums"), [x, total, count, mean, 37], device, grid=5)
    np.testing.assert_array_equal(total, x.sum(0))
    np.testing.assert_array_equal(mean, total / np.float32(37))


RUNS: dict[str, Callable[..., tuple[Launch, Result]]] = {
    "hopper_gemm": lambda text, **options: gemm(text, 128, 256, 256, 1, **options),
    "hopper_transpose": lambda text, **options: transpose(text, 32, 160, **options),
    "hopper_mixed": lambda text, **options: mixed(text, 64, 128, 320, **options),
    "hopper_bulk": lambda text, **options: bulk(text, 600, **options),
    "hopper_sums": lambda text, **options: sums(text, 37, 5, **options),
    "hopper_grouped": lambda text, **options: grouped(text, 2, True, **options),
}


TRY, EXPECT, INIT, LOAD = "mbarrier.try_wait", "arrive.expect_tx", "mbarrier.init", "cp.async.bulk.tensor.2d.shared"
FEWER = last_operand("4")
FULL = "wait(&shared.full[slot]"
FIRST_STORE, BOX_A, TURN = "store(d, x, y", "load(shared.a[slot]", "out[at][row]"
STORE_BACK = "ptx::space_global, ptx::space_shared"
FAULTS = {
    "gemm: nobody waits for full": Fault(
        "hopper_gemm", (Edit(TRY, 1, "setp.eq.u32 done, 0, 0;"),), Kind.UNINITIALISED, "nobody has written",
        "multiply(s, a",
    ),
    "gemm: the wrong parity of full": Fault(
        "hopper_gemm", (Edit(TRY, 1, last_operand("1")),), Kind.UNINITIALISED, "nobody has written", "multiply(s, a"
    ),
    "gemm: the wrong parity of empty": Fault(
        "hopper_gemm", (Edit(TRY, 0, last_operand("1")),), Kind.DEADLOCK, "1 of 1 arrivals are missing", FULL
    ),
    "gemm: a slot is freed before its products are over": Fault(
        "hopper_gemm", (Edit("wgmma.wait_group", 0, "wgmma.wait_group.sync.aligned 2;"),), Kind.RACE,
        "that a product has read", BOX_A,
    ),
    "gemm: nobody frees a slot": Fault(
        "hopper_gemm", (Edit("mbarrier.arrive.release", 0),), Kind.DEADLOCK, "arrivals are missing", FULL
    ),
    "gemm: half of the readers free a slot": Fault(
        "hopper_gemm", (Edit(INIT, 1, FEWER), Edit(INIT, 3, FEWER), Edit(INIT, 5, FEWER)), Kind.DEADLOCK,
        "1 of 1 arrivals are missing", FULL,
    ),
    "gemm: too few bytes are expected": Fault(
        "hopper_gemm", (Edit(EXPECT, 0, last_operand("32752")),), Kind.DEADLOCK, "16 bytes have come that nobody", FULL
    ),
    "gemm: too many bytes are expected": Fault(
        "hopper_gemm", (Edit(EXPECT, 0, last_operand("32784")),), Kind.DEADLOCK, "16 bytes are missing", FULL
    ),
    "gemm: a box is not asked for": Fault(
        "hopper_gemm", (Edit(LOAD, 1),), Kind.DEADLOCK, "16384 bytes are missing", FULL
    ),
    "gemm: nothing fences the init": Fault(
        "hopper_gemm", (Edit("fence.mbarrier_init", 0),), Kind.RACE, "no fence.mbarrier_init", BOX_A
    ),
    "gemm: nothing fences what goes out": Fault(
        "hopper_gemm", (Edit("fence.proxy.async", 0),), Kind.RACE, "without a fence.proxy.async", FIRST_STORE
    ),
    "gemm: a box goes out before all have written": Fault(
        "hopper_gemm", (Edit("bar.sync", 1),), Kind.RACE, "that another thread has written", FIRST_STORE
    ),
    "gemm: written again before the box has gone out": Fault(
        "hopper_gemm", (Edit("wait_group.read", 0),), Kind.SOURCE_CHANGED, "before the copy is complete", FIRST_STORE
    ),
    "gemm: only who stored knows that the box has gone out": Fault(
        "hopper_gemm", (Edit("bar.sync", 0),), Kind.RACE, "that another thread has read", '"r"(h[2])'
    ),
    "gemm: the group is not closed": Fault(
        "hopper_gemm", (Edit("cp.async.bulk.commit_group", 0),), Kind.SOURCE_CHANGED, "is complete", FIRST_STORE
    ),
    "gemm: the block ends before the boxes have gone out": Fault(
        "hopper_gemm", (Edit("cp.async.bulk.wait_group 0", 0),), Kind.SOURCE_CHANGED, "block may end", FIRST_STORE
    ),
    "gemm: more registers than the block has": Fault(
        "hopper_gemm", (Edit("setmaxnreg.inc", 0, last_operand("240")),), Kind.REGISTERS, "66560 registers",
        "setmaxnreg.inc",
    ),
    "transposition: nobody waits": Fault(
        "hopper_transpose", (Edit(TRY, 0, "setp.eq.u32 p, 0, 0;"),), Kind.IN_FLIGHT, "still filling", TURN
    ),
    "transposition: too few bytes": Fault(
        "hopper_transpose", (Edit(EXPECT, 1, lambda line: re.sub(r"%r[0-9]+;", "4080;", line)),), Kind.DEADLOCK,
        "16 bytes have come that nobody", "bar[at].wait",
    ),
    "transposition: nothing fences the init": Fault(
        "hopper_transpose", (Edit("fence.proxy.async", 0),), Kind.RACE, "no fence.mbarrier_init", "ask(0)"
    ),
    "transposition: nothing fences what goes out": Fault(
        "hopper_transpose", (Edit("fence.proxy.async", 1),), Kind.RACE, "without a fence.proxy.async", STORE_BACK
    ),
    "transposition: one more box may be on its way out": Fault(
        "hopper_transpose", (Edit("wait_group.read", 0, "cp.async.bulk.wait_group.read 2;"),), Kind.SOURCE_CHANGED,
        "before the copy is complete", STORE_BACK,
    ),
    "transposition: only thread 0 knows that the box has gone out": Fault(
        "hopper_transpose", (Edit("bar.sync", 1),), Kind.RACE, "that another thread has read", TURN
    ),
    "transposition: a box goes out before all have written": Fault(
        "hopper_transpose", (Edit("bar.sync", 2),), Kind.RACE, "that another thread has written", STORE_BACK
    ),
    "bytes: the next box comes while others read": Fault(
        "hopper_mixed", (Edit("bar.sync", 1),), Kind.RACE, "that another thread has read", "ask(number + SLOTS)"
    ),
    "bytes: the next box comes while others multiply": Fault(
        "hopper_mixed", (Edit("bar.sync", 1),), Kind.RACE, "that a product has read", "ask(number + SLOTS)"
    ),
    "bytes: too few are expected": Fault(
        "hopper_mixed", (Edit(EXPECT, 0, last_operand("20464")),), Kind.DEADLOCK, "16 bytes have come that nobody",
        "wait(&full[slot]",
    ),
    "ranges: nobody waits": Fault(
        "hopper_bulk", (Edit(TRY, 0, "setp.eq.u32 p, 0, 0;"),), Kind.IN_FLIGHT, "still filling", "front[4 + i] +="
    ),
    "ranges: a range is not asked for": Fault(
        "hopper_bulk", (Edit("cp.async.bulk.shared", 1),), Kind.DEADLOCK, "1024 bytes are missing", "bar.wait"
    ),
    "ranges: nothing fences the init": Fault(
        "hopper_bulk", (Edit("fence.proxy.async", 0),), Kind.RACE, "no fence.mbarrier_init", "memcpy_async_tx(front"
    ),
    "ranges: nothing fences what goes out": Fault(
        "hopper_bulk", (Edit("fence.proxy.async", 1),), Kind.RACE, "without a fence.proxy.async", "ptx::cp_async_bulk("
    ),
    "ranges: a range goes out before all have written": Fault(
        "hopper_bulk", (Edit("bar.sync", 1),), Kind.RACE, "that another thread has written", "ptx::cp_async_bulk("
    ),
    "ranges: the block ends before the range has gone out": Fault(
        "hopper_bulk", (Edit("wait_group.read", 0),), Kind.SOURCE_CHANGED, "block may end", "ptx::cp_async_bulk("
    ),
    "sums: the last block reads before others have added": Fault(
        "hopper_sums", (Edit("cp.async.bulk.wait_group", 0, "cp.async.bulk.wait_group.read 0;"),), Kind.IN_FLIGHT,
        "an asynchronous reduction is still changing", "y[column] = sums",
    ),
    "sums: nothing orders the sums before the count": Fault(
        "hopper_sums", (Edit("membar.gl", 0),), Kind.RACE, "that another thread has written atomically",
        "y[column] = sums",
    ),
    "sums: nothing fences what is added": Fault(
        "hopper_sums", (Edit("fence.proxy.async", 0),), Kind.RACE, "without a fence.proxy.async",
        "sizeof(own)",
    ),
    "groups: nobody acquires the map": Fault(
        "hopper_grouped", (Edit("generic.acquire", 0),), Kind.RACE, "no fence.proxy.tensormap::generic.acquire",
        "load(box, in",
    ),
    "groups: nobody acquires the other map": Fault(
        "hopper_grouped", (Edit("generic.acquire", 1),), Kind.RACE, "no fence.proxy.tensormap::generic.acquire",
        "store(out, row",
    ),
    "groups: a map is changed while its box goes out": Fault(
        "hopper_grouped", (Edit("cp.async.bulk.wait_group 0", 0),), Kind.SOURCE_CHANGED, "is complete",
        "store(out, row",
    ),
    "groups: only one thread has changed the map": Fault(
        "hopper_grouped", (Edit("bar.warp.sync", 0),), Kind.RACE, "that another thread has written", "publish(",
    ),
    "groups: nobody waits for the box": Fault(
        "hopper_grouped", (Edit(TRY, 0, "setp.eq.u32 done, 0, 0;"),), Kind.IN_FLIGHT, "still filling", "box[i] *= 2"
    ),
    "groups: the next box comes while this one goes out": Fault(
        "hopper_grouped", (Edit("wait_group.read", 0),), Kind.SOURCE_CHANGED, "before the copy is complete",
        "store(out, row",
    ),
}  # fmt: skip
REFUSED = {
    "sums are read in flight": (Edit("wgmma.wait_group", 0, "wgmma.wait_group.sync.aligned 1;"), "must stand before"),
    "nothing fences the sums": (Edit("wgmma.fence", 0), "no wgmma.fence stands between"),
}


@pytest.mark.parametrize(("name", "seed"), in_turn(FAULTS))
def test_faults_put_into_foreign_texts(name: str, seed: int) -> None:
    fault = FAULTS[name]
    _, result = RUNS[fault.kernel](fault.text, on_finding="collect", seed=seed)
    fault.assert_found(result.findings, fault.kernel)


@pytest.mark.parametrize("kernel", RUNS)
def test_without_a_fault_nothing_is_found(kernel: str) -> None:
    """In the launches that the faults are put into."""
    assert RUNS[kernel](text_of(kernel), on_finding="collect")[1].findings == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_text_alone_tells(name: str) -> None:
    edit, message = REFUSED[name]
    with pytest.raises(PtxError, match=message):
        RUNS["hopper_mixed"](edited("hopper_mixed", (edit,)))
