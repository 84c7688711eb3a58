"""PTX that nvcc made of ordinary CUDA kernels (`foreign/*.cu`, -O3 -arch=sm_90 -lineinfo): right results, no findings.

The emulator raises at the first finding, so that every test here also shows that there are none.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dsl.runtime.emulator import Memory, Result, emulate
from dsl.runtime.foreign import ForeignKernel

FOREIGN = Path(__file__).parent / "foreign"
SEEDS = (0, 7)


def run(name: str, entry: str, grid: Any, block: Any, args: list[Any], text: str = "", **options: Any) -> Result:
    kernel = ForeignKernel(text or (FOREIGN / f"{name}.ptx").read_text(), entry)
    shape = kernel.shape(three(grid), three(block), None, (options.pop("shared_bytes", 0), 0))
    names = [f"argument {number}" for number in range(len(args))]
    return kernel.emulate(shape, args, names, **options).result


def three(extents: Any) -> tuple[int, int, int]:
    x, y, z = [*(extents if isinstance(extents, tuple) else (extents,)), 1, 1][:3]
    return x, y, z


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("columns", [1, 31, 255, 256, 257, 1000])
def test_softmax(columns: int, seed: int) -> None:
    x = random(9, columns).astype(np.float16)
    y = np.zeros_like(x)
    run("softmax", "softmax", 9, 256, [x, y, columns], seed=seed)
    wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, wide / wide.sum(1, keepdims=True), rtol=2e-3, atol=1e-7)


def test_softmax_counts_its_memory_traffic() -> None:
    """1024 columns of f16, read three times and written once: 64 sectors a row, and no bank conflicts."""
    x = random(4, 1024).astype(np.float16)
    totals = run("softmax", "softmax", 4, 256, [x, np.zeros_like(x), 1024]).counters.totals
    assert totals.global_load_sectors == 3 * 4 * 64
    assert totals.global_store_sectors == 4 * 64
    assert totals.bank_conflicts == 0
    assert totals.barriers == 4 * 4 * 8


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n", [1, 255, 4096, 10007])
def test_reduce(n: int, seed: int) -> None:
    x, total = random(n), np.zeros(1, np.float32)
    run("reduce", "reduce", 5, 256, [x, total, n], seed=seed)
    np.testing.assert_allclose(total[0], x.astype(np.float64).sum(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 16), (33, 50, 17), (1, 1, 1), (64, 48, 100)])
def test_matmul(m: int, n: int, k: int) -> None:
    a, b, c = random(m, k), random(k, n), np.zeros((m, n), np.float32)
    run("matmul", "matmul", (-(-n // 16), -(-m // 16)), (16, 16), [a, b, c, m, n, k])
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("entry", ["plain", "padded"])
def test_transpose(entry: str) -> None:
    x = random(70, 100)
    y = np.zeros((100, 70), np.float32)
    run("transpose", entry, (4, 3), (32, 8), [x, y, 100, 70])
    np.testing.assert_array_equal(y, x.T)


def test_padding_removes_the_bank_conflicts_of_a_transpose() -> None:
    x, y = random(64, 64), np.zeros((64, 64), np.float32)
    plain = run("transpose", "plain", (2, 2), (32, 8), [x, y, 64, 64]).counters.totals
    padded = run("transpose", "padded", (2, 2), (32, 8), [x, y, 64, 64]).counters.totals
    assert plain.bank_conflicts == 4 * 32 * 31  # each of a tile's 32 column reads takes 32 passes
    assert padded.bank_conflicts == 0
    assert plain.global_load_sectors == padded.global_load_sectors == 64 * 64 * 4 // 32


@pytest.mark.parametrize("seed", SEEDS)
def test_histogram(seed: int) -> None:
    x = np.random.default_rng(2).integers(0, 200, 5000).astype(np.uint8)
    bins = np.zeros(256, np.uint32)
    run("histogram", "histogram", 3, 256, [x, bins, len(x)], seed=seed)
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=256))


def test_scan() -> None:
    x = np.random.default_rng(3).integers(-50, 50, 1000).astype(np.int32)
    y = np.zeros_like(x)
    run("scan", "scan", 4, 256, [x, y, len(x)])
    expected = np.concatenate([np.cumsum(part) for part in np.split(x, [256, 512, 768])])
    np.testing.assert_array_equal(y, expected)


def test_stencil_in_dynamic_shared_memory() -> None:
    x = random(20, 70)
    y = np.zeros_like(x)
    run("stencil", "stencil", (3, 3), (32, 8), [x, y, 70, 20], shared_bytes=34 * 10 * 4)
    p = np.pad(x.astype(np.float64), 1, mode="edge")
    expected = 0.5 * x + 0.125 * (p[1:-1, :-2] + p[1:-1, 2:] + p[:-2, 1:-1] + p[2:, 1:-1])
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_pipeline_of_asynchronous_copies() -> None:
    x = random(3 * 5 * 128, 4)
    y = np.zeros_like(x)
    run("pipeline", "pipeline", 3, 128, [x, y, 5])
    tiles = x.reshape(15, 128, 4)
    np.testing.assert_allclose(y.reshape(15, 128, 4), 2 * tiles + np.roll(tiles, -1, axis=1), rtol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("entry", "lanes", "partner"), [("together", 64, 33), ("apart", 32, 5)])
def test_stages_that_copies_fill_and_mbarriers_guard(entry: str, lanes: int, partner: int, seed: int) -> None:
    """The library's pipelines; of one group, and of a warp that fills and a warp that reads."""
    x = np.random.default_rng(1).integers(-99, 99, (7, lanes)).astype(np.int32)
    y = np.zeros(lanes, np.int32)
    run("stages", entry, 1, 64, [x, y, 7], seed=seed)
    np.testing.assert_array_equal(y, x.sum(0)[np.arange(lanes) ^ partner])


def test_gemm_on_tensor_cores() -> None:
    a, b = random(128, 96).astype(np.float16), random(64, 96).astype(np.float16)
    c = np.zeros((128, 64), np.float32)
    result = run("gemm", "gemm", (1, 2), 128, [a, b, c, 64, 96])
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.T.astype(np.float64), rtol=1e-3, atol=1e-3)
    assert result.counters.totals.mma == 2 * 4 * 3 * 2 * 8  # blocks, warps, steps of k, halves of a step, tiles
    # Rows of 80 bytes suit ldmatrix; a phase of a copy fills 64 bytes of two rows, which share four banks.
    assert result.counters.totals.bank_conflicts == 2 * 4 * 3 * 4 * 4


def test_saxpy_in_a_grid_stride_loop() -> None:
    x, y = random(10007), random(10007)[::-1].copy()
    expected = (np.float64(2.5) * x + y).astype(np.float32)
    run("saxpy", "saxpy", 7, 96, [2.5, x, y, len(x)])
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_hello_prints_and_uses_structs_locals_constants_and_calls() -> None:
    out = np.zeros(40, np.float32)
    pair = np.array([(3, (0.5, 0.25, 0.125))], [("first", np.int32), ("weights", np.float32, 3)])
    result = run("hello", "hello", 1, 40, [pair, out])
    assert result.output == "first 3 weight 0.25 text x 100%\n"
    table, weights = np.array([3, 1, 4, 1]), np.array([0.5, 0.25, 0.125, 0.5])
    t = np.arange(40)
    index = (3 + t) & 3
    # The module's `scale` and the initialised `table` are copied for each launch.
    np.testing.assert_allclose(out, (table[index] * weights[index] + t) * np.where(t & 1, 2.0, 0.5))


@pytest.mark.parametrize("seed", SEEDS)
def test_last_block_is_ordered_by_its_fence_and_counter(seed: int) -> None:
    x, partial, total = random(600 * 128), np.zeros(600, np.float32), np.zeros(1, np.float32)
    run("last_block", "last_block", 600, 128, [x, partial, total], seed=seed)
    np.testing.assert_allclose(total[0], x.astype(np.float64).sum(), rtol=1e-3, atol=1e-2)


def test_cluster_reads_distributed_shared_memory() -> None:
    x = np.arange(8 * 64, dtype=np.int32)
    y = np.zeros_like(x)
    run("cluster", "cluster", 8, 64, [x, y])
    tiles = x.reshape(2, 4, 64)
    np.testing.assert_array_equal(y.reshape(2, 4, 64), tiles + 10 * np.roll(tiles, -1, axis=1)[:, :, ::-1])


def test_pointers_of_one_memory_may_point_into_one_allocation() -> None:
    memory = Memory()
    x = random(256)
    both = memory.allocate(np.concatenate([x, np.zeros(256, np.float32)]))
    text = (FOREIGN / "saxpy.ptx").read_text()
    for _ in range(2):
        emulate(text, "saxpy", 1, 64, [1.0, both, both + 1024, 256])
    np.testing.assert_array_equal(memory.read(both + 1024, np.float32, 256), x + x)


def test_counters_by_line_add_up_to_the_totals() -> None:
    x = random(64, 64)
    counters = run("transpose", "plain", (2, 2), (32, 8), [x, np.zeros((64, 64), np.float32), 64, 64]).counters
    for name in ("instructions", "thread_instructions", "bank_conflicts", "global_load_sectors", "barriers"):
        assert sum(getattr(line, name) for line in counters.by_line.values()) == getattr(counters.totals, name)
    assert counters.by_line[7].barriers == 4 * 8
    assert counters.totals.active_lanes == 32
