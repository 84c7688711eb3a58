"""Products whose results lie as a schedule pins them: every type of operand and sum, and what is made of the result."""

from __future__ import annotations

import numpy as np
import pytest
from test_tensor_cores import NUMPY, STORED, formula, numbers, operand_text

from lowering.tensor_cores import Mma, instructions
from tests.compile_and_run import compile_kernel, launch

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
