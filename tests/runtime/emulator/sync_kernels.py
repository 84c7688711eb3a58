"""Kernels whose synchronisation is taken apart by `sync_mutations.py`: twelve of ours, and some of other compilers.

Of each its PTX, and what runs a changed text and says whether the results are right; a finding is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import test_foreign_hopper as hopper
import test_foreign_triton as triton
from foreign_hopper import text_of
from test_foreign import random
from test_foreign import run as run_foreign

import dsl
from dsl.calls.plan import BoundPlan
from dsl.runtime import Kernel
from dsl.runtime.emulator import emulate
from tests.compile_and_run import few_blocks

BUDGET: dict[str, Any] = {"budget": 1 << 22, "time_limit": 120.0}  # what goes on for ever takes some seconds
Run = Callable[[str, int], bool]  # of a text and a seed


@dataclass(frozen=True)
class Case:
    """`make` gives the text and what runs it."""

    name: str
    make: Callable[[], tuple[str, Run]]


PRODUCT = """
kernel product(c: O[m, n], a: f16[m, k], b: f16[n, k]; O in f32|f16, TM = 64, TN = 64, TK = 64):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(f32[TM, TN])
    for p in range(0, k, TK):
        acc = dot(a[i : i + TM, p : p + TK], b[j : j + TN, p : p + TK].T, acc)
    c[i : i + TM, j : j + TN] = acc.to(O)

schedule s of product:
"""
WEIGH = """
kernel weigh(o: f32[m, d], a: f16[m, k], b: f16[n, k], v: f16[n, d]; TM, TN, K, D):
    grid cdiv(m, TM)
    i = block(0) * TM
    acc, rows = zeros(f32[TM, D]), a[i : i + TM, 0 : K]
    for j in range(0, n, TN):
        x = dot(rows, b[j : j + TN, 0 : K].T)
        e = x * 0.5
        w = e.to(f16)
        acc = dot(w, v[j : j + TN, 0 : D], acc)
    o[i : i + TM, 0 : D] = acc

schedule s of weigh:
    TM, TN, K, D, warps = 128, 32, 64, 64, 8
    instruction x, acc: wgmma
    stage a: shared
    stage b, v: tma
    pipeline j: 2
    pingpong e
"""
ROWS = """
kernel rows(y: f32[m, n], x: f32[m, n]):
    grid m
    i = block(0)
    v = x[i : i + 1, 0 : 512]
    w = v - max(v, axis=1)[:, None]
    y[i : i + 1, 0 : 512] = w / sum(w, axis=1)[:, None]

schedule s of rows:
    warps = 4
"""
TRANSPOSED = """
kernel turned(y: f32[n, m], x: f32[m, n]):
    grid cdiv(m, 32), cdiv(n, 32)
    i, j = block(0) * 32, block(1) * 32
    t = x[i : i + 32, j : j + 32]
    y[j : j + 32, i : i + 32] = t.T

schedule s of turned:
    warps = 4
    stage y: shared
"""
HANDED_ON = """
kernel handed_on(y: s32[n], turn: u32[one]):
    grid 6
    now = atomic_add(turn[0], 0, order=acquire)
    while now != block(0).to(u32):
        now = atomic_add(turn[0], 0, order=acquire)
    left = load(y[0 : 128])
    store(y[0 : 128], left * 3 + block(0))
    atomic_add(turn[0], 1, order=release)
"""
LOCKED = """
kernel locked(y: s32[n], held: u32[one]):
    grid 6
    got = atomic_cas(held[0], 0, 1, order=acquire)
    while got != 0:
        got = atomic_cas(held[0], 0, 1, order=acquire)
    before = load(y[0 : 128])
    store(y[0 : 128], before + block(0))
    atomic_exchange(held[0], 0, order=release)
"""
CHAIN = """
kernel first(t: f32[n], x: f32[n]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    t[i : i + BLOCK] = x[i : i + BLOCK] + 1.0

kernel second(u: f32[n], t: f32[n], x: f32[n]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    w = x[i : i + BLOCK]
    u[i : i + BLOCK] = t[i : i + BLOCK] * w

dispatch chain(u, x):
    t = workspace(f32[n])
    first(t, x)
    second(u, t, x)
"""


def of_text(source: str, name: str, arrays: dict[str, Any], wanted: Any, arch: str, few: int = 0) -> tuple[str, Run]:
    """The first array is the result. few: so many multiprocessors, so that a block has several tiles."""
    types = {"O": "f16" if next(iter(arrays.values())).dtype == np.float16 else "f32"} if "O in" in source else {}
    module = dsl.parse(source, device="emulator", arch=arch)
    dims: dict[str, Any] = {}
    for each in module.program.kernels[name].params:
        if each.name in arrays:
            kind: Any = each.type
            dims |= {dim.id: extent for dim, extent in zip(kind.dims, arrays[each.name].shape, strict=True)}
    made = module.compile(name, "s" if "schedule s" in source else None, types=types, **dims)

    def run(text: str, seed: int) -> bool:
        given = {key: array.copy() for key, array in arrays.items()}
        options = BUDGET | {"budget": 1 << 24}  # blocks that wait for each other take more
        Kernel(text, device="emulator").run(*given.values(), seed=seed, **options)
        return bool(np.allclose(next(iter(given.values())), wanted, atol=1e-3))

    return few_blocks(made.ptx, few) if few else made.ptx, run


def product(
    *lines: str, arch: str = "sm_90a", shape: tuple[int, int, int] = (128, 64, 256), few: int = 0, out: Any = np.float32
) -> Callable[[], tuple[str, Run]]:
    def make() -> tuple[str, Run]:
        m, n, k = shape
        r = np.random.default_rng(0)
        a, b = (r.integers(-2, 3, size).astype(np.float16) for size in ((m, k), (n, k)))
        source = PRODUCT + "".join(f"    {line}\n" for line in lines)
        wanted = a.astype(np.float32) @ b.astype(np.float32).T
        return of_text(source, "product", {"c": np.full((m, n), np.nan, out), "a": a, "b": b}, wanted, arch, few)

    return make


def weigh() -> tuple[str, Run]:
    r = np.random.default_rng(0)
    a, b, v = (r.integers(-2, 3, size).astype(np.float16) for size in ((128, 64), (96, 64), (96, 64)))
    wanted = (a.astype(np.float32) @ b.astype(np.float32).T * 0.5) @ v.astype(np.float32)
    return of_text(WEIGH, "weigh", {"o": np.zeros((128, 64), "f4"), "a": a, "b": b, "v": v}, wanted, "sm_90a")


def rows() -> tuple[str, Run]:
    x = np.random.default_rng(0).random((3, 512), np.float32)
    w = x - x.max(1, keepdims=True)
    return of_text(ROWS, "rows", {"y": np.zeros_like(x), "x": x}, w / w.sum(1, keepdims=True), "sm_90")


def turned() -> tuple[str, Run]:
    x = np.random.default_rng(0).random((64, 96), np.float32)
    return of_text(TRANSPOSED, "turned", {"y": np.zeros((96, 64), "f4"), "x": x}, x.T, "sm_90")


def handed_on() -> tuple[str, Run]:
    wanted = np.zeros(128, np.int32)
    for block in range(6):
        wanted = wanted * 3 + block
    arrays = {"y": np.zeros(128, np.int32), "turn": np.zeros(1, np.uint32)}
    return of_text(HANDED_ON, "handed_on", arrays, wanted, "sm_90")


def locked() -> tuple[str, Run]:
    arrays = {"y": np.zeros(128, np.int32), "held": np.zeros(1, np.uint32)}
    return of_text(LOCKED, "locked", arrays, np.full(128, 15), "sm_90")


def overlapped() -> tuple[str, Run]:
    module = dsl.parse(CHAIN, device="emulator", arch="sm_90")
    module.asked.options.update({"overlap.start": "access", "overlap.next": "loads"})
    x = np.random.default_rng(0).random(500, np.float32)
    given = {"u": np.zeros_like(x), "x": x}
    bound = BoundPlan(module.chain, module.chain.plan(module.chain.facts(given)))

    def run(text: str, seed: int) -> bool:
        given["u"][:] = 0
        kernels = [bound.kernels[0], Kernel(text, device="emulator")]
        BoundPlan(module.chain, bound.plan, kernels).launch(given)
        return bool(np.allclose(given["u"], (x + 1) * x))

    return bound.kernels[1].ptx, run


OURS = [
    Case(
        "copies in groups",
        product("warps = 4", "stage a, b: shared", "pipeline p: 3", arch="sm_80", shape=(128, 64, 320)),
    ),
    Case(
        "products of a warp group",
        product("warps = 4", "instruction acc: wgmma", "stage a, b: shared", "pipeline p: 3"),
    ),
    Case(
        "boxes",
        product("warps = 4", "instruction acc: wgmma", "stage a, b: tma", "pipeline p: 2", "persistent 0"),
    ),
    Case(
        "boxes, out too",
        product("warps = 4", "instruction acc: wgmma", "stage a, b, c: tma", "pipeline p: 2", "persistent 1",
                shape=(192, 128, 128), few=2, out=np.float16),
    ),
    Case(
        "a cluster",
        product("warps = 4", "instruction acc: wgmma", "stage a, b: tma", "pipeline p: 2", "cluster 2",
                "persistent 0"),
    ),
    Case("turns", weigh),
    Case("shared among blocks", product("warps = 4", "split p: 3", arch="sm_80", shape=(64, 64, 512))),
    Case(
        "equal shares",
        product("warps = 4", "instruction acc: wgmma", "stage a, b: tma", "pipeline p: 2", "split p: stream",
                shape=(128, 128, 512), few=3),
    ),
    Case("reductions of a block", rows),
    Case("a transposition", turned),
    Case("handed on", handed_on),
    Case("a lock", locked),
    Case("launches that overlap", overlapped),
]  # fmt: skip


def of_nvcc(name: str, entry: str, grid: Any, block: Any, make: Callable[[], tuple[list[Any], Any, Any]]) -> Case:
    """make: arguments, which of them is the result, and what that should be."""

    def made() -> tuple[str, Run]:
        def run(text: str, seed: int) -> bool:
            args, result, wanted = make()
            run_foreign(name, entry, grid, block, args, text=text, seed=seed, **BUDGET)
            return bool(np.allclose(result, wanted, rtol=1e-3, atol=1e-3))

        return text_of(name), run

    return Case(f"nvcc: {entry}", made)


def reduce_arguments() -> tuple[list[Any], Any, Any]:
    x, total = random(1000), np.zeros(1, np.float32)
    return [x, total, 1000], total, x.astype(np.float64).sum()


def scan_arguments() -> tuple[list[Any], Any, Any]:
    x = np.random.default_rng(3).integers(-50, 50, 512).astype(np.int32)
    y = np.zeros_like(x)
    return [x, y, 512], y, np.concatenate([np.cumsum(part) for part in np.split(x, [256])])


def last_block_arguments() -> tuple[list[Any], Any, Any]:
    x, total = random(10 * 128), np.zeros(1, np.float32)
    return [x, np.zeros(600, np.float32), total], total, x.astype(np.float64).sum()


def cluster_arguments() -> tuple[list[Any], Any, Any]:
    x = np.arange(8 * 64, dtype=np.int32)
    y, tiles = np.zeros_like(x), x.reshape(2, 4, 64)
    return [x, y], y, (tiles + 10 * np.roll(tiles, -1, axis=1)[:, :, ::-1]).reshape(-1)


def nvcc_stages() -> tuple[str, Run]:
    """The library's pipelines, of one group of threads and of a warp that fills and a warp that reads."""

    def run(text: str, seed: int) -> bool:
        right = True
        for entry, lanes, partner in (("together", 64, 33), ("apart", 32, 5)):
            x = np.random.default_rng(1).integers(-99, 99, (7, lanes)).astype(np.int32)
            y = np.zeros(lanes, np.int32)
            run_foreign("stages", entry, 1, 64, [x, y, 7], text=text, seed=seed, **BUDGET)
            right = right and bool((y == x.sum(0)[np.arange(lanes) ^ partner]).all())
        return right

    return text_of("stages"), run


def nvcc_gemm() -> tuple[str, Run]:
    def run(text: str, seed: int) -> bool:
        launch, _ = hopper.gemm(text, 128, 256, 256, 1, seed=seed, **BUDGET)
        a, b = (launch.arrays[name].astype(np.float64) for name in "ab")
        return bool(np.allclose(launch.read("d"), a @ b.T, rtol=2e-3, atol=2e-2))

    return text_of("hopper_gemm"), run


def of_triton(name: str) -> Case:
    def made() -> tuple[str, Run]:
        def run(text: str, seed: int) -> bool:
            launch, _ = triton.mapped(name, 72, 128, 320, text, seed=seed, **BUDGET)
            a, b = (launch.arrays[each].astype(np.float64) for each in "ab")
            wanted = a @ (b.T if triton.SHAPES[name][5] else b)
            return bool(np.allclose(launch.read("c").astype(np.float64), wanted, rtol=1e-2, atol=0.05))

        # Where roles are the text's own, it fences the mbarriers itself.
        return text_of("triton_roles") if name == "roles" else triton.fenced(name), run

    return Case(f"Triton: {name}", made)


def triton_locked() -> tuple[str, Run]:
    def run(text: str, seed: int) -> bool:
        a, b, c, lock = random(128, 128), random(128, 64), np.zeros((128, 64), np.float32), np.zeros(2, np.int32)
        args = [a, b, c, lock, 64, 128, *triton.SCRATCH]
        options = {"shared_bytes": 49152, "seed": seed, **triton.ALIGNED, **BUDGET}
        emulate(text, "shares", (2, 2), 128, args, **options)
        return bool(np.allclose(c, a.astype(np.float64) @ b, rtol=1e-2, atol=0.1))

    return text_of("triton_locked"), run


def cute_ring() -> tuple[str, Run]:
    def run(text: str, seed: int) -> bool:
        x, y = random(7, 32), np.zeros(32, np.float32)
        emulate(text, "ring", 1, 64, [x, y, 7], shared_bytes=512, seed=seed, **BUDGET)
        return bool(np.allclose(y, x.sum(0)[::-1], atol=1e-5))

    return text_of("cute_ring"), run


FOREIGN = [
    of_nvcc("reduce", "reduce", 2, 256, reduce_arguments),
    of_nvcc("scan", "scan", 2, 256, scan_arguments),
    of_nvcc("last_block", "last_block", 10, 128, last_block_arguments),
    of_nvcc("cluster", "cluster", 8, 64, cluster_arguments),
    Case("nvcc: stages", nvcc_stages),
    Case("nvcc: hopper_gemm", nvcc_gemm),
    of_triton("turns"),
    of_triton("roles"),
    Case("Triton: locked", triton_locked),
    Case("CuTe: ring", cute_ring),
]


@cache
def case(name: str) -> tuple[str, Run]:
    """The text of a kernel, and what runs it."""
    return next(each for each in [*OURS, *FOREIGN] if each.name == name).make()
