"""Products whose results lie as a schedule pins them: every type of operand and sum, and what is made of the result."""

from __future__ import annotations

import numpy as np
import pytest
from test_tensor_cores import FP8, NUMPY, STORED, formula, numbers, operand_text

from dsl.lowering.machine.tensor_cores import Mma, instructions
from tests.compile_and_run import compile_kernel, launch, run

TEXT = """
kernel k(d: C[m, n], t: C[n, m], rows: C[m], columns: C[n], chosen: C[m, n], c: C[m, n], a: A[m, ka], b: B[n, kb];
         C in {c}, A in {a}, B in {b}, M, N, KA, KB):
    grid 1
    shared sa: A[M, KA]
    shared sb: B[N, KB]
    shared sc: C[M, N]
    sa = load(a[0 : M, 0 : KA])
    sb = load(b[0 : N, 0 : KB])
    acc = load(c[0 : M, 0 : N])
    for i in range(2):
        acc = {product}
    sc = acc
    store(d[0 : M, 0 : N], sc[:, :])
    store(t[0 : N, 0 : M], acc.T)
    store(rows[0 : M], max(acc, axis=1))
    store(columns[0 : N], min(acc, axis=0))
    store(chosen[0 : M, 0 : N], where(arange(N)[None, :] % 3 == 0, acc, maximum(acc, 1) + acc))

schedule s of k:
    M, N, KA, KB = {m}, {n}, {ka}, {kb}
    warps = 2
    layout acc: warps {warps}, contiguous {contiguous}
"""


OPERANDS = [*((t, t) for t in ("f16", "bf16", "tf32", "f64", "s8", "e4m3", "s4", "b1")), ("s8", "u8"), ("e4m3", "e5m2")]


def each_type() -> list[Mma]:
    """An instruction for each of these pairs of operands and each type of their sums."""
    found: dict[tuple[str, str, str], Mma] = {}
    for i in instructions():
        if i.row.arch >= 80 and i.modifier != "satfinite" and (i.a, i.b) in OPERANDS:
            found.setdefault((i.a, i.b, i.c), i)
    return list(found.values())


@pytest.mark.parametrize(
    ("contiguous", "warps"),
    [([2, 1], [2, 1]), ([4, 2], [1, 2])],
    ids=lambda v: "x".join(map(str, v)),
)
@pytest.mark.parametrize("instruction", each_type(), ids=lambda i: i.name)
def test_a_pinned_result_is_right_wherever_it_goes(instruction: Mma, contiguous: list[int], warps: list[int]) -> None:
    """Words of 16-bit sums pair the fragment's columns, whatever neighbours a thread is to hold."""
    random = np.random.default_rng(5)
    m, n, k = 2 * instruction.m, 4 * instruction.n, instruction.k
    (a, exact_a), (b, exact_b) = numbers(random, instruction.a, (m, k)), numbers(random, instruction.b, (n, k))
    c = random.integers(-9, 10, (m, n)).astype(np.int64)
    name = f"mma.sync.{instruction.shape}" + f".{instruction.modifier}" * bool(instruction.modifier)
    left, right = operand_text(instruction.a, "sa"), operand_text(instruction.b, "sb") + ".T"
    text = TEXT.format(
        c=instruction.c, a=STORED.get(instruction.a, instruction.a), b=STORED.get(instruction.b, instruction.b),
        product=f"{name}({left}, {right}, acc)", m=m, n=n, ka=a.shape[1], kb=b.shape[1],
        warps=warps, contiguous=contiguous,
    )  # fmt: skip
    kind = NUMPY[instruction.c]
    d, chosen, t = np.zeros((m, n), kind), np.zeros((m, n), kind), np.zeros((n, m), kind)
    rows, columns = np.zeros(m, kind), np.zeros(n, kind)
    args = {"d": d, "t": t, "rows": rows, "columns": columns, "chosen": chosen, "c": c.astype(kind), "a": a, "b": b}
    launch(compile_kernel(text, args, arch=instruction.row.target), args)
    wanted = formula(instruction, exact_a, exact_b, formula(instruction, exact_a, exact_b, c)).astype(kind)
    assert np.array_equal(d, wanted) and np.array_equal(t, wanted.T)
    assert np.array_equal(rows, wanted.max(1)) and np.array_equal(columns, wanted.min(0))
    both = (np.maximum(wanted, kind(1)) + wanted).astype(kind)
    assert np.array_equal(chosen, np.where(np.arange(n) % 3 == 0, wanted, both))


@pytest.mark.parametrize("line", ["warps [4, 1]", "warps [4, 1], contiguous [1, 4]"])
@pytest.mark.parametrize(("kind", "sums"), [("s8", "s32"), ("e4m3", "f32")])
def test_sums_of_bytes_are_the_next_operand_as_they_lie(kind: str, sums: str, line: str) -> None:
    """A thread holds a word of neighbours, unasked: four stores are the tiles' own, an exchange took 16 more."""
    text = f"""
kernel k(y: {sums}[64, 64], x: {kind}[64, 64], w: {kind}[64, 64], v: {kind}[64, 64]):
    grid 1
    shared s: {kind}[2, 64, 64]
    s[0, 0 : 64, 0 : 64] = load(w[0 : 64, 0 : 64])
    s[1, 0 : 64, 0 : 64] = load(v[0 : 64, 0 : 64])
    p = load(x[0 : 64, 0 : 64]) @ s[0].T
    r = p.to({kind}) @ s[1].T
    store(y[0 : 64, 0 : 64], r)
schedule s of k:
    warps = 4
    layout p, r: {line}
"""
    rng = np.random.default_rng(0)
    x, w, v = (rng.integers(-1, 2, (64, 64)).astype(np.int8) for _ in range(3))
    y = np.zeros((64, 64), np.int32 if sums == "s32" else np.float32)
    type = np.int8 if kind == "s8" else FP8[kind]
    given = {"x": x.astype(type), "w": w.astype(type), "v": v.astype(type)}
    kernel = compile_kernel(text, {"y": y, **given})
    assert kernel.ptx.count("st.shared") == 4
    run(text, {"y": y, **given})
    p = x.astype(np.int32) @ w.T.astype(np.int32)
    if kind == "e4m3":  # 4 bits of a sum: to nearest, ties to even
        unit = 2.0 ** np.maximum(np.floor(np.log2(np.maximum(np.abs(p), 1))) - 3, 0)
        p = np.rint(p / unit) * unit
    assert np.array_equal(y, p @ v.T.astype(np.int32))
