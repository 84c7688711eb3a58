"""TMA copies of several loops in one another: those of a block's tiles, and of the iterations of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsl
from dsl.kernels.variant import Request
from dsl.lowering.ir.location import TileError
from dsl.runtime import Kernel, device_facts
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from tests.compile_and_run import few_blocks

# Of each tile of a: products with all tiles of b, the greatest of which are added; or what is not multiplied.
TEXT = """
kernel scores(y: f32[m], a: f16[m, 64], b: f16[n, 64]):
    grid cdiv(m, 128)
    i, total = block(0) * 128, zeros(f32[128])
    rows = a[i : i + 128, 0 : 64]
    for j in range(0, n, 64):
        x = dot(rows, b[j : j + 64, 0 : 64].T)
        total = total + max(x, axis=1)
    y[i : i + 128] = total

schedule boxes of scores:
    warps = 8
    instruction x: wgmma
    stage a, b: tma
    pipeline j: 3
    pipeline tile: {stages}
    persistent 1

kernel sums(y: f32[m, 32], a: f32[m, 32], b: f32[n, 32]):
    grid cdiv(m, 16)
    i = block(0) * 16
    rows, total = a[i : i + 16, 0 : 32], zeros(f32[16, 32])
    for j in range(0, n, 16):
        total = total + maximum(rows, b[j : j + 16, 0 : 32])
    y[i : i + 16, 0 : 32] = total

schedule boxes of sums:
    warps = 2
    stage a, b: tma
    pipeline j: 2
    pipeline tile: {stages}
    persistent 1
"""
DEVICES = ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)]


def skip_elsewhere(device: str) -> None:
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")


def arrays(kernel: str, m: int, n: int) -> tuple[dict[str, Any], Any]:
    random = np.random.default_rng(m)
    if kernel == "scores":
        a, b = random.integers(-4, 5, (m, 64)).astype(np.float16), random.integers(-4, 5, (n, 64)).astype(np.float16)
        x = a.astype(np.float64) @ b.T.astype(np.float64)
        x = np.pad(x, ((0, 0), (0, -n % 64)))  # rows of b past the last one are zeros
        return {"y": np.full(m, np.nan, np.float32), "a": a, "b": b}, x.reshape(m, -1, 64).max(2).sum(1)
    a, b = random.integers(-9, 10, (m, 32)).astype(np.float32), random.integers(-9, 10, (n, 32)).astype(np.float32)
    padded = [np.pad(each, ((0, -len(each) % 16), (0, 0))) for each in (a, b)]
    wanted = np.maximum(padded[0].reshape(-1, 1, 16, 32), padded[1].reshape(1, -1, 16, 32)).sum(1)
    return {"y": np.full((m, 32), np.nan, np.float32), "a": a, "b": b}, wanted.reshape(-1, 32)[:m]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "m", "n"), [("scores", 1000, 200), ("scores", 128, 64), ("sums", 200, 50)])
def test_tiles_and_rounds_have_a_channel_each(kernel: str, m: int, n: int, stages: int, device: str) -> None:
    """Two blocks go through all tiles."""
    skip_elsewhere(device)
    given, wanted = arrays(kernel, m, n)
    made = dsl.parse(TEXT.format(stages=stages), device=device, arch="sm_90a").compile(kernel, m=m, n=n)
    Kernel(few_blocks(made.ptx, 2), device=device)(*given.values())
    np.testing.assert_array_equal(given["y"], wanted)
    assert made.ptx.count("mbarrier.arrive.expect_tx") == 2 == made.ptx.count(".mbarrier::complete_tx::bytes")
    assert [pipeline.stages for pipeline in made.compiled.header.pipelines] == [3 if kernel == "scores" else 2, stages]
    assert [pipeline.of for pipeline in made.compiled.header.pipelines] == [("b",), ("a",)]


@pytest.mark.parametrize("kernel", ["scores", "sums"])
def test_all_stages_mean_the_same(kernel: str) -> None:
    """What is read behind its release is poison: products of warp groups read it until they are done."""
    given, _ = arrays(kernel, 300, 100)
    found = verify_kernel(
        parse_program(TEXT.format(stages=1), "levels.tile"),
        Request(kernel, "boxes", {"m": 300, "n": 100}, arch="sm_90a"),
        given,
    )
    assert found.divergence is None and found.undecided is None, str(found.divergence)


@pytest.mark.parametrize("kernel", ["scores", "sums"])
def test_a_tile_is_free_behind_the_rounds_that_need_it(kernel: str) -> None:
    """And ahead of the store: the next tile comes meanwhile."""
    ir = dsl.parse(TEXT.format(stages=1), device="emulator", arch="sm_90a").compile(kernel, m=300, n=100).ir
    ir = ir[ir.index("consumer_wait") :]
    order = sorted((ir.rindex(word), word) for word in ("consumer_wait", "consumer_release", "store"))
    assert [word for _, word in order] == ["consumer_wait", "consumer_release", "store"]
    assert ir.count("consumer_wait") == ir.count("consumer_release") == 2 and ir.index("consumer_release") > ir.rindex(
        "consumer_wait"
    )


TWO_LOOPS = """
kernel twice(y: f32[n, 32], a: f32[n, 32], b: f32[n, 32]):
    grid 1
    total = zeros(f32[16, 32])
    for i in range(0, n, 16):
        total = total + a[i : i + 16, 0 : 32]
    for j in range(0, n, 16):
        total = total + b[j : j + 16, 0 : 32]
    y[0 : 16, 0 : 32] = total

schedule boxes of twice:
    warps = 2
    stage a, b: tma
    pipeline i: 2
    pipeline j: 2
"""


@pytest.mark.parametrize("persistent", [0, 1])
@pytest.mark.parametrize("n", [16, 64, 72])
def test_loops_one_after_another_have_a_pipeline_each(n: int, persistent: int, device: str) -> None:
    text = TWO_LOOPS.replace("warps = 2", f"warps = 2\n    persistent {persistent}")
    module = dsl.parse(text, device=device, arch="sm_90a")
    y, a, b = np.zeros((n, 32), np.float32), *np.random.default_rng(n).standard_normal((2, n, 32)).astype(np.float32)
    compiled = module.compile("twice", n=n)
    assert [each.stages for each in compiled.header.pipelines] == [2, 2]
    module.twice(y, a, b)
    padded = np.zeros((2, 80, 32), np.float32)
    padded[0, :n], padded[1, :n] = a, b
    np.testing.assert_allclose(y[:16], padded.reshape(10, 16, 32).sum(0), rtol=1e-5, atol=1e-5)


GATES = """
kernel gates(c: f32[m, n], x: f16[m, k], w: f16[n, k], h: f16[m, l], u: f16[n, l]; SECOND):
    grid cdiv(m, 128), cdiv(n, 128)
    i, j = block(0) * 128, block(1) * 128
    acc = zeros(f32[128, 128])
    for p in range(0, k, 64):
        acc = dot(x[i : i + 128, p : p + 64], w[j : j + 128, p : p + 64].T, acc)
    for q in range(0, l, SECOND):
        acc = dot(h[i : i + 128, q : q + SECOND], u[j : j + 128, q : q + SECOND].T, acc)
    c[i : i + 128, j : j + 128] = acc

schedule boxes of gates:
    stage x, w, h, u: tma
"""


@pytest.mark.parametrize(("second", "stages"), [(64, (3, 4)), (16, (5, 8)), (128, (2, 2))])
def test_a_ring_leaves_room_for_that_of_the_next_loop(second: int, stages: tuple[int, int]) -> None:
    """A stage of the first loop has 32 KB, one of the second 8 to 64 KB: the first ring leaves room for as many stages
    of the second one, which takes what is left."""
    module, dims = dsl.parse(GATES, device="emulator", arch="sm_90a"), dict.fromkeys("mnkl", 4096)
    made = module.compile("gates", SECOND=second, **dims)
    assert tuple(each.stages for each in reversed(made.header.pipelines)) == stages


@pytest.mark.long
@pytest.mark.parametrize(("second", "ways"), [(64, "tma tma"), (16, "tma shared"), (128, "shared shared")])
def test_by_rule_loops_one_after_another_have_boxes_if_three_stages_of_each_fit(second: int, ways: str) -> None:
    """A stage of the first loop has 32 KB. At 128, one of the second has 64: three of each have 288 of 227. At 16, the
    second loop's rows of 32 bytes are left to threads."""
    module = dsl.parse(GATES[: GATES.index("schedule")], device="emulator", arch="sm_90a")
    compiled = module.compile("gates", SECOND=second, **dict.fromkeys("mnkl", 256)).compiled
    made = compiled.variant.function.choices.keyed()
    assert [made[f"stage.{name}"].taken for name in "xwhu"] == [way for way in ways.split() for _ in range(2)]
    no_room = "3 stages for each of the loops one after another have 294912 bytes"
    assert (second == 128) == (no_room in made["stage.u"].because)
    c, random = np.zeros((200, 140), np.float32), np.random.default_rng(3)
    x, w, h, u = (random.integers(-2, 3, (rows, 200)).astype(np.float16) for rows in (200, 140, 200, 140))
    module.gates(c, x, w, h, u, SECOND=second)
    np.testing.assert_array_equal(c, x.astype(int) @ w.T.astype(int) + h.astype(int) @ u.T.astype(int))


def test_a_ring_of_tiles_is_of_persistent_blocks() -> None:
    text = TEXT.format(stages=2).replace("    persistent 1\n", "    persistent 0\n")
    with pytest.raises(TileError, match="no loop loads it"):
        dsl.parse(text, device="emulator", arch="sm_90a").compile("scores", m=300, n=100)


def test_a_ring_of_tiles_that_copy_nothing_is_refused() -> None:
    text = TEXT.format(stages=2).replace("stage a, b: tma", "stage b: tma")
    with pytest.raises(TileError, match="copies nothing at the head of each of its tiles") as caught:
        dsl.parse(text, device="emulator", arch="sm_90a").compile("sums", m=300, n=100)
    assert caught.value.loc is not None


ONE_ITERATION = """
kernel twice(c: f32[m, n], x: f16[m, 64], w: f16[n, 64], h: f16[m, 64], u: f16[n, 64]):
    grid cdiv(m, 128), cdiv(n, 64)
    i, j = block(0) * 128, block(1) * 64
    acc = zeros(f32[128, 64])
    for p in range(0, 64, 64):
        acc = dot(x[i : i + 128, p : p + 64], w[j : j + 64, p : p + 64].T, acc)
    for q in range(0, 64, 64):
        acc = dot(h[i : i + 128, q : q + 64], u[j : j + 64, q : q + 64].T, acc)
    c[i : i + 128, j : j + 64] = acc

schedule boxes of twice:
    warps = 8
    persistent 1
    instruction acc: wgmma
    stage x, w, h, u: tma
"""


def test_loops_of_one_iteration_have_a_pipeline_each_in_the_loop_over_tiles(device: str) -> None:
    """Both become part of the loop over tiles, whose copies are then those of two pipelines."""
    m, n = 300, 200
    c, random = np.zeros((m, n), np.float32), np.random.default_rng(3)
    x, w, h, u = (random.integers(-2, 3, (rows, 64)).astype(np.float16) for rows in (m, n, m, n))
    module = dsl.parse(ONE_ITERATION, device=device, arch="sm_90a")
    ptx = module.compile("twice", m=m, n=n).ptx
    Kernel(few_blocks(ptx, 2) if device == "emulator" else ptx, device=device)(c, x, w, h, u)
    np.testing.assert_array_equal(c, (x.astype(int) @ w.T.astype(int) + h.astype(int) @ u.T.astype(int)))


AXIS = """
kernel k(c: f32[b, 64, 64], a: f16[b, 64, k], w: f16[k, 64]):
    grid b
    acc = zeros(f32[64, 64])
    for p in range(0, k, 64):
        acc = dot(a[block(0), 0:64, p : p + 64], w[p : p + 64, 0:64], acc)
    c[block(0), 0:64, 0:64] = acc

schedule s of k:
    warps = 4
    instruction acc: wgmma
"""


def test_blocks_that_are_persistent_by_rule_compute_other_tiles() -> None:
    """Only the first blocks are compared, and `grid` gives them tiles of others."""
    random = np.random.default_rng(0)
    args: dict[str, Any] = {"a": random.integers(-2, 3, (20, 64, 64)).astype(np.float16)}
    args |= {"w": random.integers(-2, 3, (64, 64)).astype(np.float16), "c": np.zeros((20, 64, 64), np.float32)}
    request = Request("k", "s", {"b": 20, "k": 64}, arch="sm_90a")
    found = verify_kernel(parse_program(AXIS), request, args, most=4)
    assert found.divergence is None and found.undecided is None, str(found.divergence)
