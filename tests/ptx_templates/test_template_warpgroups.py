"""Rows of wgmma: which there are, where their registers' elements lie, and that they multiply as their meanings say."""

from __future__ import annotations

import numpy as np
import pytest
from template_warpgroups import LANES, ROWS, THREADS, Product, places, product, run

from dsl.ptx_templates import family, instruction, joined
from dsl.runtime import device_facts

PRODUCTS = [product(row) for row in family("wgmma").values() if "mma_async" in row.name]
RUN = [of for of in PRODUCTS if of.columns in (8, 24, 256)]


def test_all_columns_of_all_types_are_there() -> None:
    """Eight to 256 columns; of bytes multiples of 16 from 32 on (PTX ISA, tables of shapes and types of wgmma)."""
    same = [(each, each, "f32", k) for each, k in (("f16", 16), ("bf16", 16), ("tf32", 8))]
    small = [(a, b, total, 32) for pair, total in (("e4m3 e5m2", "f32"), ("s8 u8", "s32"))
             for a in pair.split() for b in pair.split()]  # fmt: skip
    wanted = {
        (columns, *types, form)
        for types in same + small
        for columns in range(8, 257, 8)
        for form in (False, True)
        if types[2] != "s32" or columns <= 24 or columns % 16 == 0
    }
    assert {(of.columns, of.left, of.right, of.total, of.k, of.in_registers) for of in PRODUCTS} == wanted
    assert len(wanted) == len(PRODUCTS) == 592


def test_rows_differ_in_their_columns_alone() -> None:
    """So that those which are assembled and run stand for all."""
    alike: dict[tuple[str, ...], set[tuple[object, ...]]] = {}
    for of in PRODUCTS:
        row, columns = of.row, f"n{of.columns}k"
        assert row["d"].registers == row["d"].count == of.columns // 2 and row["d"].role == "inout"
        assert row.name.removesuffix(".registers") == row.asm.split(" ")[0]
        rest = [(o.name, o.role, o.type, o.element, o.count if o.name != "d" else 0) for o in row.operands]
        kind = (of.left, of.right, str(of.in_registers))
        said = (row.asm.replace(columns, ""), *rest, row.effects, row.convergent, row.target, row.ptx, row.meaning)
        alike.setdefault(kind, set()).add(said)
    assert all(len(each) == 1 for each in alike.values()), alike


@pytest.mark.parametrize("of", {of.columns: of for of in PRODUCTS}.values(), ids=lambda of: str(of.columns))
def test_sums(of: Product) -> None:
    """PTX ISA, "Accumulator D": row = 16 warp + lane / 4, and 8 more for each second pair of registers; column =
    8 (i / 4) + 2 (lane % 4) + i % 2."""
    thread, i = np.arange(THREADS)[:, None], np.arange(of.columns // 2)[None, :]
    rows, columns = places(of.row["d"].fragment, of.columns // 2)
    lane = thread % LANES
    assert np.array_equal(rows, thread // LANES * 16 + lane // 4 + i // 2 % 2 * 8)
    assert np.array_equal(columns, 8 * (i // 4) + lane % 4 * 2 + i % 2)
    assert of.row["d"].fragment.shape == (ROWS, of.columns)
    assert len(set(zip(rows.ravel(), columns.ravel(), strict=True))) == ROWS * of.columns


@pytest.mark.parametrize(("k", "each"), [(16, 2), (8, 1), (32, 4)])
def test_left_operand_in_registers(k: int, each: int) -> None:
    """PTX ISA, "Register Fragments" of A: a register has `each` neighbours; the second is 8 rows further, the third
    half of K."""
    rows_of = [of for of in PRODUCTS if of.in_registers and of.k == k]
    thread, i = np.arange(THREADS)[:, None], np.arange(4 * each)[None, :]
    lane, register = thread % LANES, i // each
    for of in rows_of:
        rows, columns = places(of.row["a"].fragment, 4 * each)
        assert np.array_equal(rows, thread // LANES * 16 + lane // 4 + register % 2 * 8)
        assert np.array_equal(columns, lane % 4 * each + i % each + register // 2 * (k // 2))
        assert of.row["a"].fragment.shape == (ROWS, k)


@pytest.mark.parametrize("of", RUN, ids=lambda of: of.row.name.removeprefix("wgmma.mma_async.sync.aligned."))
@pytest.mark.parametrize("adds", [True, False])
def test_meaning(of: Product, adds: bool, device: str) -> None:
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    found, exact = run(of, adds, device, np.random.default_rng(of.columns))
    assert np.array_equal(found, exact)


def test_several_rows_in_one_asm() -> None:
    """Places of the same name are the same registers, whose numbers those of `llvm` are."""
    row = instruction("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16")
    fence = instruction("wgmma.fence.sync.aligned")
    multiply = row.filled(b="$other", scale_d="true", a_across="0", b_across="1")
    assert [operand.name for operand in multiply.operands] == ["d", "a"]
    both = joined("both", (row["a"], row["d"]), [fence, multiply, "text {a};", multiply])
    each = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {$0, $1, $2, $3}, $4, $$other, true, 1, 1, 0, 1;"
    text = f"wgmma.fence.sync.aligned; {each} text $4; {each}"
    assert both.llvm() == (text, "=f,=f,=f,=f,l,0,1,2,3,~{memory}")
    assert (both.target, both.ptx, both.convergent) == ("sm_90a", (8, 0), True)
    assert both.effects == (*fence.effects, *row.effects)
