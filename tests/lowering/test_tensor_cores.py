"""Products of tiles: every instruction reached from the language, layouts, swizzles, pipelines, located errors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dsl.lowering.ir.location import TileError
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.machine.tensor_cores import Mma, accumulator, instructions, product
from dsl.lowering.passes.swizzle_shared import bank_conflicts
from tests.compile_and_run import compile_kernel, launch

STORED = {"tf32": "f32", "e4m3": "u8", "e5m2": "u8", "s4": "u8", "u4": "u8", "b1": "u8"}
FP8 = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
NUMPY = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "s8": np.int8, "u8": np.uint8,
    "s32": np.int32,
}  # fmt: skip
BITS = {"s4": 4, "u4": 4, "b1": 1}
PRODUCT = """
kernel k(d: C[m, n], c: C[m, n], a: A[m, ka], b: B[n, kb]; C in {c}, A in {a}, B in {b}, M, N, KA, KB):
    grid 1
    shared sa: A[M, KA]
    shared sb: B[N, KB]
    sa = load(a[0 : M, 0 : KA])
    sb = load(b[0 : N, 0 : KB])
    left, right = {left}, {right}
    store(d[0 : M, 0 : N], {product})

schedule s of k:
    M, N, KA, KB = {m}, {n}, {ka}, {kb}
    warps = {warps}
"""


def numbers(random: np.random.Generator, kind: str, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Random elements of a type as they lie in memory, packed along the last axis, and as exact numbers."""
    if kind in BITS:
        bits = BITS[kind]
        low = -8 if kind == "s4" else 0
        values = random.integers(low, low + (1 << bits), shape)
        parts = (values & (1 << bits) - 1).reshape(*shape[:-1], -1, 8 // bits)
        return (parts << np.arange(8 // bits) * bits).sum(-1).astype(np.uint8), values
    if kind in FP8:
        values = random.integers(-4, 5, shape).astype(FP8[kind])
        return values.view(np.uint8), values.astype(np.float64)
    if kind in ("s8", "u8"):
        values = random.integers(-128 if kind == "s8" else 0, 128 if kind == "s8" else 256, shape)
        return values.astype(NUMPY[kind]), values
    values = random.integers(-4, 5, shape)
    return values.astype(NUMPY[STORED.get(kind, kind)]), values


def formula(instruction: Mma, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    if instruction.a == "b1":
        pairs = a[:, None, :] ^ b[None] if "xor" in instruction.modifier else a[:, None, :] & b[None]
        return c + pairs.sum(-1)
    if instruction.modifier == "satfinite":  # each instruction saturates
        for k in range(0, a.shape[1], instruction.k):
            part = slice(k, k + instruction.k)
            c = (c + a[:, part] @ b[:, part].T).clip(-(1 << 31), (1 << 31) - 1)
        return c
    total = c + a @ b.T
    return (total + (1 << 31)) % (1 << 32) - (1 << 31) if instruction.c == "s32" else total


def operand_text(kind: str, memory: str) -> str:
    return f"bitcast({memory}[:, :], {kind})" if kind in STORED else f"{memory}[:, :]"


@pytest.mark.parametrize("named", [True, False], ids=["named", "chosen"])
@pytest.mark.parametrize("instruction", instructions(), ids=lambda i: i.name)
def test_every_instruction_is_its_formula(instruction: Mma, named: bool) -> None:
    """Two repeats along each axis; exact, because the numbers are small integers."""
    if not named and (instruction.modifier or instruction.row.arch < 80):
        pytest.skip("only a name asks for it")
    random = np.random.default_rng(7)
    m, n, k = (2 * e if named else e for e in (instruction.m, instruction.n, instruction.k))
    (a, exact_a), (b, exact_b) = numbers(random, instruction.a, (m, k)), numbers(random, instruction.b, (n, k))
    c = random.integers(-9, 10, (m, n)).astype(np.int64)
    if instruction.c == "s32":
        c += random.choice([0, (1 << 31) - 5000, 5000 - (1 << 31)], c.shape)
    name = f"mma.sync.{instruction.shape}" + f".{instruction.modifier}" * bool(instruction.modifier)
    text = PRODUCT.format(
        c=instruction.c, a=STORED.get(instruction.a, instruction.a), b=STORED.get(instruction.b, instruction.b),
        left=operand_text(instruction.a, "sa"), right=operand_text(instruction.b, "sb") + ".T",
        product=f"{name if named else 'dot'}(left, right, c[0 : M, 0 : N])",
        m=m, n=n, ka=a.shape[1], kb=b.shape[1], warps=2 if named else 1,
    )  # fmt: skip
    d = np.zeros((m, n), NUMPY[instruction.c])
    args = {"d": d, "c": c.astype(d.dtype), "a": a, "b": b}
    kernel = compile_kernel(text, args, arch=instruction.row.target if instruction.row.arch > 80 else "sm_80")
    launch(kernel, args)
    wanted = formula(instruction, exact_a, exact_b, c)
    assert np.array_equal(d.astype(np.float64), wanted.astype(np.float64))
    dots = [op for op in kernel.ops if op.name == "dot"]
    assert len(dots) == 1
    if named:
        assert dots[0].attrs["instruction"] is instruction


# ---- layouts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contiguous", [(1, 1), (1, 8), (8, 1), (2, 4)], ids=str)
@pytest.mark.parametrize("warps", [(1, 1), (2, 4), (4, 2), (8, 1)], ids=str)
def test_every_element_of_a_product_is_made_from_its_row_and_column(
    warps: tuple[int, int], contiguous: tuple[int, int]
) -> None:
    """What the instruction adds up in a lane's register is the element that the layout has there."""
    mma = next(i for i in instructions() if i.name == "mma.sync.m16n8k16.f32.f16.f16.f32")
    layout = accumulator(mma, (512, 128), warps, contiguous)
    spread = product(mma, layout, 32)
    assert spread is not None
    for one in (spread.c, spread.a, spread.b):
        one.invert()
    rows, columns = dict(spread.rows), dict(spread.columns)
    fragment = mma.row["c"].fragment
    for lane in range(32):
        row, column = fragment.coordinate(lane, 0)
        moved = sum(rows[b] for b in rows if row & b), sum(columns[b] for b in columns if column & b)
        assert layout.coordinates(layout.place(lane=lane)) == moved
    # A warp's operands are the rows and the columns of its accumulators.
    for warp in range(8 if warps != (1, 1) else 1):
        held = {layout.coordinates(layout.place(warp=warp, lane=ln) ^ r) for ln in range(32) for r in layout.offsets}
        a = {
            spread.a.coordinates(spread.a.place(warp=warp, lane=ln) ^ r)[0]
            for ln in range(32)
            for r in spread.a.offsets
        }
        b = {
            spread.b.coordinates(spread.b.place(warp=warp, lane=ln) ^ r)[1]
            for ln in range(32)
            for r in spread.b.offsets
        }
        assert {i for i, _ in held} == a and {j for _, j in held} == b
    near = [layout.coordinates(offset) for offset in layout.offsets[: contiguous[0] * contiguous[1]]]
    if min(contiguous) == 1:
        assert sorted(near) == [(i, j) for i in range(contiguous[0]) for j in range(contiguous[1])]


SMALL = """
kernel k(d: f32[m, n], a: f16[m, k], b: f16[k, n]; M = 64, N = 64, K = 64):
    grid 1
    shared sa: f16[M, K]
    shared sb: f16[K, N]
    sa = load(a[0 : M, 0 : K])
    sb = load(b[0 : K, 0 : N])
    acc = dot(ldmatrix(sa[:, :]), ldmatrix(sb[:, :]), zeros(f32[M, N]))
    store(d[0 : M, 0 : N], acc)
"""


def arrays(m: int, n: int, k: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(m + n + k)
    a, b = random.integers(-4, 5, (m, k)).astype(np.float16), random.integers(-4, 5, (k, n)).astype(np.float16)
    return {"d": np.zeros((m, n), np.float32), "a": a, "b": b}


def checked(text: str, args: dict[str, np.ndarray], **request: Any) -> tuple[Any, Any]:
    """Compiles and runs; the product is right, and each access has the conflicts that were said of it."""
    kernel = compile_kernel(text, args, **request)
    result = launch(kernel, args)
    assert np.array_equal(args["d"], args["a"].astype(np.float32) @ args["b"].astype(np.float32))
    return kernel, result.counters.totals


@pytest.mark.parametrize(
    "lines",
    [
        "warps = 1",
        "warps = 4",
        "warps = 8",
        "warps = 32",  # more than 32x16 x 8 parts: some hold the same
        "warps = 4\n    layout acc: warps [4, 1]",
        "warps = 4\n    layout acc: warps [1, 4]",
        "warps = 4\n    layout acc: warps [2, 2], contiguous [4, 1]",
        "warps = 2\n    instruction acc: mma.sync.m16n8k8",
    ],
)
def test_a_product_is_right_and_free_of_conflicts(lines: str) -> None:
    kernel, counters = checked(SMALL + f"\nschedule s of k:\n    {lines}\n", arrays(64, 64, 64))
    assert counters.bank_conflicts == 0
    assert kernel.count("ldmatrix") == 2
    if "m16n8k8" in lines:
        assert "mma.sync.aligned.m16n8k8.row" in kernel.ptx
    assert "ldmatrix.sync.aligned.m8n8.x4.shared" in kernel.ptx
    assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared" in kernel.ptx


def test_ldmatrix_of_two_and_of_one() -> None:
    """A 16x8 part of A is two matrices, an 8x8 part of B one."""
    text = SMALL.replace("M = 64, N = 64, K = 64", "M = 16, N = 8, K = 8") + "\nschedule s of k:\n    warps = 1\n"
    kernel, _ = checked(text, arrays(16, 8, 8))
    assert "ldmatrix.sync.aligned.m8n8.x2.shared" in kernel.ptx
    assert "ldmatrix.sync.aligned.m8n8.x1.trans.shared" in kernel.ptx


def test_a_thread_may_hold_neighbours_of_the_result() -> None:
    """With both operands contiguous along K, columns are permuted so that a thread stores 16 bytes."""
    text = SMALL.replace("b: f16[k, n]", "b: f16[n, k]").replace("sb: f16[K, N]", "sb: f16[N, K]")
    text = text.replace("load(b[0 : K, 0 : N])", "load(b[0 : N, 0 : K])").replace("(sb[:, :])", "(sb[:, :]).T")
    args = arrays(64, 64, 64)
    transposed = {**args, "b": args["b"].T.copy()}
    kernel = compile_kernel(text + "\nschedule s of k:\n    layout acc: warps [2, 2], contiguous [1, 8]\n", transposed)
    result = launch(kernel, transposed)
    assert np.array_equal(transposed["d"], args["a"].astype(np.float32) @ args["b"].astype(np.float32))
    assert result.counters.totals.bank_conflicts == 0
    assert "st.global.v4.b32" in kernel.ptx and "ldmatrix.sync.aligned.m8n8.x4.shared" in kernel.ptx


ACROSS = """
kernel k(d: C[m, n], a: T[ra, ca], b: T[rb, cb]; C in {c}, T in {t}, M, N, K, A_T, B_T):
    grid 1
    assert ra == where(A_T, K, M) and rb == where(B_T, N, K)
    if A_T:
        shared sa: T[K, M]
        sa = load(a[0 : K, 0 : M])
        left = ldmatrix(sa[:, :]).T
    else:
        shared sa: T[M, K]
        sa = load(a[0 : M, 0 : K])
        left = ldmatrix(sa[:, :])
    if B_T:
        shared sb: T[N, K]
        sb = load(b[0 : N, 0 : K])
        right = ldmatrix(sb[:, :]).T
    else:
        shared sb: T[K, N]
        sb = load(b[0 : K, 0 : N])
        right = ldmatrix(sb[:, :])
    acc = dot({left}, {right}, zeros(C[M, N]))
    store(d[0 : M, 0 : N], acc)

schedule s of k:
    M, N, K = {m}, {n}, {k}
    warps = {warps}
    {more}
    layout acc: warps [{warps}, 1], contiguous [{near}]
"""


@pytest.mark.parametrize(
    ("kind", "m", "n", "k", "warps", "more"),
    [
        ("s8", 32, 32, 64, 1, ""),
        ("u8", 64, 64, 32, 4, ""),
        ("s8", 64, 16, 32, 2, "instruction acc: mma.sync.m16n8k16"),
        ("e4m3", 32, 32, 64, 2, ""),
        ("e5m2", 32, 64, 32, 1, ""),
    ],
)
@pytest.mark.parametrize(("a_t", "b_t"), [(False, False), (True, True), (True, False)])
def test_bytes_across_k_are_transposed_by_pairs(
    kind: str, m: int, n: int, k: int, warps: int, more: str, a_t: bool, b_t: bool
) -> None:
    random, near = np.random.default_rng(m + n + k), f"{2 if a_t else 1}, {1 if b_t else 4}"
    sums, stored = "f32" if kind in FP8 else "s32", STORED.get(kind, kind)
    operands = {x: f"bitcast({x}, {kind})" if kind in STORED else x for x in ("left", "right")}
    (a, left), (b, right) = numbers(random, kind, (m, k)), numbers(random, kind, (k, n))
    args = {
        "d": np.zeros((m, n), NUMPY[sums]),
        "a": np.ascontiguousarray(a.T) if a_t else a,
        "b": np.ascontiguousarray(b.T) if b_t else b,
    }
    text = ACROSS.format(c=sums, t=stored, m=m, n=n, k=k, warps=warps, more=more, near=near, **operands)
    kernel = compile_kernel(text, args, constants={"A_T": a_t, "B_T": b_t})
    result = launch(kernel, args)
    assert np.array_equal(args["d"], left @ right)
    assert result.counters.totals.bank_conflicts == 0
    assert kernel.count("ldmatrix", trans=True) == a_t + (not b_t) and "prmt.b32" in kernel.ptx


@pytest.mark.parametrize("near", ["1, 1", "1, 2", "1, 8"])
def test_bytes_across_k_elsewhere_are_refused_by_name(near: str) -> None:
    args = {"d": np.zeros((32, 32), np.int32), "a": np.zeros((32, 64), np.int8), "b": np.zeros((64, 32), np.int8)}
    text = ACROSS.format(c="s32", t="s8", m=32, n=32, k=64, warps=1, more="", near=near, left="left", right="right")
    with pytest.raises(TileError, match="contiguous") as caught:
        compile_kernel(text, args, constants={"A_T": False, "B_T": False})
    assert caught.value.code == "layout"


# ---- swizzles ------------------------------------------------------------------------------------------------------


def predicted(kernel: Any) -> int:
    """Passes over the banks beyond the fewest, of a kernel of one block without loops, from the verdicts alone."""
    total = 0
    warps = kernel.variant.function.warps
    for op, beyond in bank_conflicts(kernel.variant.function):
        assert beyond is not None, op
        moved = op.results[0] if op.results else op.operands[-1]
        layout: Layout = moved.tile.layout
        size = op.operands[0].dtype.bytes
        acting = warps >> (0 if op.results else layout.replicated["warp"].bit_count())
        if op.name in ("ldmatrix", "stmatrix"):
            phases = layout.count * size // 4
        else:
            phases = (
                layout.count // WIDTHS[op.name] * (size * WIDTHS[op.name] // 4 if size * WIDTHS[op.name] > 4 else 1)
            )
        total += acting * phases * beyond
    return total


WIDTHS = {"load": 1, "store": 8}


def test_without_swizzle_the_conflicts_are_those_that_were_predicted() -> None:
    text = SMALL + "\nschedule s of k:\n    swizzle sa: none\n    swizzle sb: none\n"
    kernel, counters = checked(text, arrays(64, 64, 64))
    assert {beyond for _, beyond in bank_conflicts(kernel.variant.function)} == {0, 7}  # rows of 128 bytes
    assert counters.bank_conflicts == predicted(kernel) > 0


def test_a_pinned_swizzle_is_used() -> None:
    text = SMALL + "\nschedule s of k:\n    swizzle sa: 3, 4, 3\n    swizzle sb: 2, 5, 3\n"
    kernel, counters = checked(text, arrays(64, 64, 64))
    assert counters.bank_conflicts == predicted(kernel) > 0
    swizzles = {op.attrs["name"]: op.attrs["type"].swizzle for op in kernel.ops if op.name == "shared_alloc"}
    assert swizzles == {"sa": ((7, 16), (8, 32), (9, 64)), "sb": ((8, 32), (9, 64))}


@pytest.mark.parametrize(("rows", "columns"), [(8, 128), (16, 32), (32, 16), (64, 8), (32, 64), (128, 128)])
def test_a_transposition_through_shared_memory_is_free_of_conflicts(rows: int, columns: int) -> None:
    """Rows written and columns read, or a change of layout: XORed columns instead of the didactic padding."""
    text = f"""
kernel k(y: f32[n, m], x: f32[m, n]):
    grid 1
    v = load(x[0 : {rows}, 0 : {columns}])
    y[0 : {columns}, 0 : {rows}] = v.T + 1.0
"""
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    args = {"y": np.zeros((columns, rows), np.float32), "x": x}
    kernel = compile_kernel(text, args)
    result = launch(kernel, args)
    assert np.array_equal(args["y"], x.T + 1)
    assert result.counters.totals.bank_conflicts == 0


# ---- order ---------------------------------------------------------------------------------------------------------


def test_a_warp_that_reads_matrices_waits_for_its_own_stores() -> None:
    """One warp: each lane stores what the layout says it reads, and ldmatrix reads it through other lanes."""
    text = """
kernel k(d: f32[m, n], a: f16[m, k], b: f16[k, n]):
    grid 1
    shared sa: f16[16, 16]
    v = load(a[0 : 16, 0 : 16])
    sa = v
    w = load(b[0 : 16, 0 : 8])
    acc = dot(ldmatrix(sa[:, :]), w, zeros(f32[16, 8]))
    store(d[0 : 16, 0 : 8], acc)

schedule s of k:
    warps = 1
    layout v: register [[0, 1], [8, 0], [0, 8]], lane [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp []
"""
    kernel, _ = checked(text, arrays(16, 8, 16))
    assert kernel.count("barrier") == 1


ATTENTION = """
kernel k(d: f32[m, n], a: f16[m, k], b: f16[k, n]):
    grid 1
    shared sa: f16[64, 32]
    shared sb: f16[32, 32]
    sa = load(a[0 : 64, 0 : 32])
    sb = load(b[0 : 32, 0 : 32])
    fa = ldmatrix(sa[:, :])
    p = dot(fa, ldmatrix(sb[:, :]), zeros(f32[64, 32]))
    acc = dot(p.to(f16), ldmatrix(sb[:, :]), zeros(f32[64, 32]))
    store(d[0 : 64, 0 : 32], acc)

schedule s of k:
    warps = 4
    layout acc, p: warps [4, 1]
"""


def test_a_product_of_a_product_stays_in_its_registers() -> None:
    args = arrays(64, 32, 32)
    kernel = compile_kernel(ATTENTION, args)
    launch(kernel, args)
    a, b = args["a"].astype(np.float32), args["b"].astype(np.float32)
    assert np.array_equal(args["d"], (a @ b).astype(np.float16).astype(np.float32) @ b)
    assert [op.attrs["name"] for op in kernel.ops if op.name == "shared_alloc"] == ["sa", "sb"]


@pytest.mark.parametrize("way", ["stmatrix(s[:, :], v)", "s = v", "stmatrix(s[:, :], v.T)"])
def test_results_leave_by_stmatrix(way: str) -> None:
    text = f"""
kernel k(d: f16[m, n], a: f16[m, k], b: f16[k, n]):
    grid 1
    shared s: f16[64, 64]
    acc = a[0 : 64, 0 : 32] @ b[0 : 32, 0 : 64]
    v = acc.to(f16)
    {way}
    store(d[0 : 64, 0 : 64], s[:, :])
"""
    args = arrays(64, 64, 32)
    args["d"] = args["d"].astype(np.float16)
    kernel = compile_kernel(text, args, arch="sm_90")
    result = launch(kernel, args)
    wanted = (args["a"].astype(np.float32) @ args["b"].astype(np.float32)).astype(np.float16)
    assert np.array_equal(args["d"], wanted.T if ".T" in way else wanted)
    assert kernel.count("stmatrix", trans=".T" in way) == 1
    assert result.counters.totals.bank_conflicts == 0
    if not way.startswith("stmatrix"):
        older = compile_kernel(text, args, arch="sm_80")
        launch(older, args)
        assert np.array_equal(args["d"], wanted) and older.count("stmatrix") == 0


def test_a_target_without_the_instruction_is_a_located_error() -> None:
    text = PRODUCT.format(
        c="f32", a="u8", b="u8", left=operand_text("e4m3", "sa"), right=operand_text("e4m3", "sb") + ".T",
        product="dot(left, right, c[0 : M, 0 : N])", m=16, n=8, ka=32, kb=32, warps=1,
    )  # fmt: skip
    with pytest.raises(TileError, match="sm_80 has no tensor-core product of e4m3 and e4m3: it needs sm_89") as caught:
        compile_kernel(text, arch="sm_80")
    assert caught.value.loc is not None and caught.value.loc.line == 9
    store = """
kernel k(d: f16[m, n]):
    grid 1
    shared s: f16[16, 16]
    stmatrix(s[:, :], zeros(f16[16, 16]))
    store(d[0 : 16, 0 : 16], s[:, :])
"""
    with pytest.raises(TileError, match="sm_80 has no stmatrix: it needs sm_90"):
        compile_kernel(store, arch="sm_80")


def test_an_assertion_of_divisors_makes_masks_uniform() -> None:
    """What every launch promises of a dim, wide accesses may rely on: k % 64 == 0 leaves 16-byte copies of f16."""
    text = """
kernel k(d: f16[m, n], a: f16[m, n]):
    grid 1
    assert n % 64 == 0 and m % 2 == 0
    shared s: f16[16, 64]
    copy(s, a[0 : 16, 0 : 64])
    commit()
    wait(0)
    store(d[0 : 16, 0 : 64], s[:, :])
"""
    kernel = compile_kernel(text, dims={})
    assert kernel.variant.function.divisors == {"n": 64, "m": 2}
    assert kernel.count("copy", bytes=16) == 1
    without = compile_kernel(text.replace("assert n % 64 == 0 and m % 2 == 0", "assert n > 0"), dims={})
    assert without.count("copy", bytes=16) == 0
    a = np.arange(16 * 64).reshape(16, 64).astype(np.float16)
    args = {"a": a, "d": np.zeros_like(a)}
    launch(kernel, args)
    assert np.array_equal(args["d"], a)
