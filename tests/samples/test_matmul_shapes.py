"""Products of every schedule, type and order of operands at extents around the tiles', on the emulator and on a GPU."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import dsl
from dsl.values.element_types import narrow, widen
from lowering.types import DTYPES
from runtime.errors import LaunchError

SAMPLE = Path(__file__).parents[2] / "samples" / "matmul.tile"
BOUND = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 4e-3}
"""Of the result's rounding, or of f32's 13 lowest bits, which tf32 lacks: relative to sqrt(k), the size of a sum of k
products of normal numbers."""
ALONE = {"shares", "arrived"}
"""What is absent where no block shares a tile."""
PLAIN = {"bias", "residual"}
"""What is absent where the sums of floats are the result."""
SHAPES = [(1, 1, 1), (16, 64, 64), (63, 65, 31), (64, 64, 128), (65, 72, 200), (128, 192, 64)]


@pytest.fixture(scope="module")
def modules() -> dict[str, dsl.Module]:
    return {}


def operands(m: int, n: int, k: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(m * 10007 + n * 101 + k)
    if dtype == "s8":
        return tuple(random.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
    return tuple(narrow(random.standard_normal(s), DTYPES[dtype]) for s in ((m, k), (k, n)))


def check(c: np.ndarray, a: np.ndarray, b: np.ndarray, dtype: str) -> None:
    wanted = widen(a) @ widen(b)
    if dtype == "s8":
        assert np.array_equal(c, wanted)
    else:
        assert np.abs(widen(c) - wanted).max() <= BOUND[dtype] * max(a.shape[1], 4) ** 0.5


def run(module: dsl.Module, shape: tuple[int, int, int], dtype: str, schedule: str, a_t: bool, b_t: bool):
    m, n, k = shape
    a, b = operands(m, n, k, dtype)
    left, right = (np.ascontiguousarray(x.T) if t else x for x, t in ((a, a_t), (b, b_t)))
    c = narrow(np.full((m, n), -7.0), DTYPES["s32" if dtype == "s8" else dtype])
    dims = {"m": m, "n": n, "a0": left.shape[0], "a1": left.shape[1], "b0": right.shape[0], "b1": right.shape[1]}
    if dtype == "s8":
        kernel = module.compile("matmul_bytes", schedule=schedule, absent=ALONE, **dims, O="s32", A_T=a_t, B_T=b_t)
        result = kernel.run(c, left, right, 1.0, None, None)
    else:
        absent = ALONE | PLAIN
        kernel = module.compile("matmul_tensor", schedule=schedule, absent=absent, **dims, T=dtype, A_T=a_t, B_T=b_t)
        result = kernel.run(c, left, right)
    check(c, a, b, dtype)
    return kernel, result


CASES = [(d, *t) for d in ("s8", "f16", "f32") for t in product((False, True), repeat=2)]


@pytest.mark.parametrize(("dtype", "a_t", "b_t"), CASES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_schedule_of_one_wave(modules, device, shape, dtype, a_t, b_t):
    run(modules.setdefault(device, dsl.load(SAMPLE, device=device)), shape, dtype, "wave", a_t, b_t)


@pytest.mark.parametrize(
    ("dtype", "a_t", "b_t"), [*((d, False, False) for d in ("f16", "bf16", "f32")), *(c for c in CASES if c[0] == "s8")]
)
@pytest.mark.parametrize("schedule", ["large", "wide", "tall", "square"])
def test_the_large_schedules_have_no_conflicts_and_one_barrier_a_step(modules, schedule, dtype, a_t, b_t):
    """Two tiles along an axis, four rounds. Bytes in every order: those across K are transposed in registers."""
    module = modules.setdefault("emulator", dsl.load(SAMPLE, device="emulator"))
    k = 4 * 128 // DTYPES[dtype].bytes
    shape = {"large": (256, 384, k), "wide": (256, 256, k), "tall": (256, 256, k), "square": (128, 256, k)}[schedule]
    kernel, result = run(module, shape, dtype, schedule, a_t, b_t)
    counters, constants = result.counters.totals, kernel.compiled.header.constants
    assert constants["EVEN_M"] is constants["EVEN_N"] is constants["EVEN_K"] is True
    assert counters.bank_conflicts == 0
    blocks = 2
    warps = kernel.compiled.header.threads // 32
    # Around each part that goes through shared memory; else, where blocks do several tiles, before the first copies.
    goes_on, staged = constants["AT_ONCE"] < 1 << 30, 2 * constants["PM"] * constants["PN"] - 1
    more = staged if constants["STAGED"] else goes_on
    assert counters.barriers == blocks * warps * (1 + 4 + more)  # behind each wait
    assert counters.mma == blocks * warps * 4 * (192 if schedule == "large" else 128)
    assert "ldmatrix.sync.aligned.m8n8.x4" in kernel.ptx and "cp.async.cg.shared.global" in kernel.ptx
    if dtype == "s8":
        assert "ld.shared" not in kernel.ptx
        assert counters.global_load_sectors + counters.global_store_sectors == counters.global_ideal_sectors


SHARED = [
    ("deep", (1, 1), 3, 2),  # one tile, the last piece the shortest
    ("deep", (1, 2), 9, 1),
    ("deep", (2, 3), 4, 1),  # whole tiles, then two by two blocks each
    ("deep", (2, 3), 5, 1),
    ("deep", (3, 3), 7, 1),
    ("deep", (2, 3), 7, 1),  # pieces that end one tile and begin the next
    ("deep", (2, 3), 6, 1),  # none left over
    ("deep", (3, 3), 4, 16),  # too few rounds to share
    ("large", (1, 3), 2, 1),
]
"""Schedule, tiles along each axis, blocks that run at once, least rounds of a piece."""
TILE = {"deep": (64, 64), "large": (256, 192)}


@pytest.mark.parametrize("dtype", ["s8", "f16"])
@pytest.mark.parametrize(("schedule", "tiles", "at_once", "least"), SHARED, ids=str)
def test_the_last_tiles_are_shared_along_k(modules, device, dtype, schedule, tiles, at_once, least):
    """Twice with one workspace. What no block wrote is never read: the workspace is full of what would show."""
    module = modules.setdefault(device, dsl.load(SAMPLE, device=device))
    tm, tn = TILE[schedule]
    m, n, k = tm * tiles[0] - 1, tn * tiles[1] - 3, 9 * 256 // DTYPES[dtype].bytes + 16
    a, b = operands(m, n, k, dtype)
    right = np.ascontiguousarray(b.T)
    sums = DTYPES["s32" if dtype == "s8" else "f32"]
    shares, arrived = narrow(np.full(2 * at_once * tm * tn, 1e9), sums), np.zeros(at_once, np.int32)
    dims = {"m": m, "n": n, "a0": m, "a1": k, "b0": n, "b1": k, "space": shares.size, "blocks": at_once}
    name = "matmul_bytes" if dtype == "s8" else "matmul_tensor"
    types = {"O": "s32"} if dtype == "s8" else {}
    constants = {"AT_ONCE": at_once, "LEAST": least, "B_T": True}
    kernel = module.compile(name, schedule=schedule, absent=PLAIN, **dims, **types, T=dtype, **constants)
    results = []
    for _ in range(2):
        c = narrow(np.full((m, n), -7.0), sums if dtype == "s8" else DTYPES[dtype])
        kernel.run(c, a, right, *([1.0] if dtype == "s8" else []), shares=shares, arrived=arrived)
        check(c, a, b, dtype)
        assert not arrived.any()
        results.append(c)
    assert np.array_equal(*results)


GOES_ON = [
    ("wide", (5, 1), 2, 4, {}),
    ("wide", (3, 2), 4, 1, {}),  # pieces too short to have fetched for the one behind them
    ("tall", (2, 3), 5, 2, {}),
    ("large", (1, 3), 2, 3, {}),
    ("large", (2, 2), 1, 5, {"UNROLL": 2}),  # an odd number of rounds
]
"""Schedule, tiles along each axis, blocks, rounds of k."""


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("dtype", ["s8", "f16"])
@pytest.mark.parametrize(("schedule", "tiles", "blocks", "rounds", "unroll"), GOES_ON, ids=str)
def test_blocks_go_on_from_tile_to_tile(modules, device, dtype, schedule, tiles, blocks, rounds, unroll, even):
    """What is fetched for the following tile is that tile's, in whole tiles and at the edges of all three extents."""
    module = modules.setdefault(device, dsl.load(SAMPLE, device=device))
    tm, tn = {"wide": (128, 256), "tall": (256, 128), "large": (256, 192)}[schedule]
    m, n, k = tm * tiles[0], tn * tiles[1], rounds * 128 // DTYPES[dtype].bytes
    if not even:
        m, n, k = m - 5, n - 9, k - 16
    a, b = operands(m, n, k, dtype)
    right = np.ascontiguousarray(b.T)
    dims = {"m": m, "n": n, "a0": m, "a1": k, "b0": n, "b1": k}
    name, types = ("matmul_bytes", {"O": "s32"}) if dtype == "s8" else ("matmul_tensor", {})
    constants = unroll | {"AT_ONCE": blocks, "B_T": True}
    kernel = module.compile(name, schedule, absent=ALONE | PLAIN, **dims, **types, T=dtype, **constants)
    c = narrow(np.full((m, n), -7.0), DTYPES["s32" if dtype == "s8" else dtype])
    kernel.run(c, a, right, *([1.0] if dtype == "s8" else []))
    check(c, a, b, dtype)


@pytest.mark.parametrize("b_t", [False, True])
def test_operands_rounded_to_tf32_err_half_as_much(modules, device, b_t):
    module = modules.setdefault(device, dsl.load(SAMPLE, device=device))
    a, b = operands(64, 64, 512, "f32")
    right = np.ascontiguousarray(b.T) if b_t else b
    errors = []
    for rounded in (False, True):
        dims = {"m": 64, "n": 64, "a0": 64, "a1": 512, "b0": right.shape[0], "b1": right.shape[1]}
        kernel = module.compile("matmul_tensor", "wave", absent=ALONE | PLAIN, **dims, T="f32", B_T=b_t, ROUND=rounded)
        c = np.zeros((64, 64), np.float32)
        kernel.run(c, a, right)
        errors.append(np.abs(c - widen(a) @ widen(b)).mean())
    assert 0 < errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize("schedule", ["element", "registers"])
def test_the_first_rungs(modules, device, schedule):
    module = modules.setdefault(device, dsl.load(SAMPLE, device=device))
    for kernel, name in (("matmul_global", schedule), ("matmul_shared", "cooperative")):
        a, b = operands(65, 70, 33, "f32")
        c = np.zeros((65, 70), np.float32)
        module.compile(kernel, schedule=name, m=65, n=70, k=33, T="f32").run(c, a, b)
        assert np.abs(c - a.astype(np.float64) @ b).max() <= 1e-5


CHOSEN = [
    ((1, 136, 700), "wave"),
    ((15, 136, 12000), "deep"),
    ((17, 130, 8200), "deep"),
    ((65, 8700, 40), "square"),
    ((1900, 2000, 40), "wide"),
    ((4100, 130, 40), "wave"),
]


@pytest.mark.parametrize(("shape", "schedule"), CHOSEN, ids=str)
def test_the_dispatch_chooses_by_tiles_and_multiprocessors(modules, shape, schedule):
    module = modules.setdefault("emulator", dsl.load(SAMPLE, device="emulator"))
    a, b = operands(*shape, "s8")
    c, right = np.zeros(shape[:2], np.int32), np.ascontiguousarray(b.T)
    module.matmul_s8(c, a, right, 1.0)
    check(c, a, b, "s8")
    plan = module.matmul_s8.plan(module.matmul_s8.facts({"c": c, "a": a, "b": right, "scale": 1.0}))
    assert [step.request.schedule for step in plan.steps] == [schedule]


def test_what_a_launch_cannot_do_is_said_before_it(modules):
    """No elements to sum, and a workspace for smaller tiles."""
    module = modules.setdefault("emulator", dsl.load(SAMPLE, device="emulator"))
    c, a = np.zeros((64, 64), np.float16), np.zeros((64, 0), np.float16)
    with pytest.raises(LaunchError, match=r"requires .* > 0"):
        module.matmul(c, a, a, B_T=True)
    a = np.zeros((64, 64), np.float16)
    with pytest.raises(LaunchError, match="requires space >= 2"):
        module.matmul(c, a, a, B_T=True, schedule="large")


@pytest.mark.parametrize("scale", [1 / 4096, 1.0])
def test_sums_of_bytes_are_rounded_to_bytes(modules, device, scale):
    """Ties to even, saturated; every sum is exact in f32."""
    module = modules.setdefault(device, dsl.load(SAMPLE, device=device))
    a, b = operands(65, 70, 100, "s8")
    c = np.zeros((65, 70), np.int8)
    module.matmul_s8(c, a, np.ascontiguousarray(b.T), scale)
    assert np.array_equal(c, np.rint(widen(a) @ widen(b) * scale).clip(-128, 127))
