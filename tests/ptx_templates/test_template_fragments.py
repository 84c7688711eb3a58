"""Every fragment against the formulas of the PTX ISA, coded here as it states them, element by element.

Sections "Matrix Fragments for mma.…", `ldmatrix` and `stmatrix`: groupID = laneid >> 2,
threadID_in_group = laneid % 4; row and column of a_i, b_i, c_i.
"""

import re

import pytest

from dsl.ptx_templates import Fragment, family


def accumulator(m, k, bits, group, thread, i):
    if m == 8:
        return group, thread * 2 + i
    return (group if i < 2 else group + 8), thread * 2 + (i & 1)


def a_1_bit(m, k, bits, group, thread, i):
    row = group if i < 32 or 64 <= i < 96 else group + 8
    return row, thread * 32 + (i & 0x1F) + (128 if i >= 64 else 0)


def b_1_bit(m, k, bits, group, thread, i):
    return thread * 32 + (i & 0x1F) + (128 if i >= 32 else 0), group


def a_4_bits(m, k, bits, group, thread, i):
    row = group if i < 8 or 16 <= i < 24 else group + 8
    return row, thread * 8 + (i & 0x7) + (32 if i >= 16 else 0)


def b_4_bits(m, k, bits, group, thread, i):
    return thread * 8 + (i & 0x7) + (32 if i >= 8 else 0), group


def a_8_bits(m, k, bits, group, thread, i):
    row = group if i < 4 or 8 <= i < 12 else group + 8
    return row, thread * 4 + (i & 0x3) + (16 if i >= 8 else 0)


def b_8_bits(m, k, bits, group, thread, i):
    return thread * 4 + (i & 0x3) + (16 if i >= 4 else 0), group


def a_16_bits(m, k, bits, group, thread, i):
    row = group if i < 2 or 4 <= i < 6 else group + 8
    return row, thread * 2 + (i & 0x1) + (8 if i >= 4 else 0)


def b_16_bits(m, k, bits, group, thread, i):
    return thread * 2 + (i & 0x1) + (8 if i >= 2 else 0), group


def a_32_or_64_bits(m, k, bits, group, thread, i):
    row = group if i % 2 == 0 else group + 8
    if k == 16:
        return row, (i * 2 if i % 2 == 0 else i * 2 - 2) + thread
    return row, thread if i < 2 else thread + 4


def b_32_or_64_bits(m, k, bits, group, thread, i):
    return thread + i * 4, group


FORMULAS = {
    ("a", 1): a_1_bit,
    ("b", 1): b_1_bit,
    ("a", 4): a_4_bits,
    ("b", 4): b_4_bits,
    ("a", 8): a_8_bits,
    ("b", 8): b_8_bits,
    ("a", 16): a_16_bits,
    ("b", 16): b_16_bits,
    ("a", 32): a_32_or_64_bits,
    ("b", 32): b_32_or_64_bits,
    ("a", 64): a_32_or_64_bits,
    ("b", 64): b_32_or_64_bits,
}
BITS = {"b1": 1, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f16": 16, "bf16": 16, "tf32": 32, "f64": 64}


def check(fragment: Fragment, shape: tuple[int, int], expected) -> None:
    """All lanes and elements are where `expected(group, thread, i)` says, and the whole tile is covered once."""
    assert fragment.shape == shape
    assert len(fragment.lane) == 5
    seen = set()
    for lane in range(32):
        for i in range(2 ** len(fragment.register)):
            coordinate = fragment.coordinate(lane, i)
            assert coordinate == expected(lane >> 2, lane % 4, i), (lane, i)
            seen.add(coordinate)
    assert len(seen) == shape[0] * shape[1] == 32 * 2 ** len(fragment.register)
    assert max(seen) == (shape[0] - 1, shape[1] - 1)


@pytest.mark.parametrize("row", family("mma_sync").values(), ids=lambda row: row.name)
def test_products(row):
    said = family("mma_sync").product(row.name)
    m, n, k = said.m, said.n, said.k
    for name, shape in (("a", (m, k)), ("b", (k, n)), ("c", (m, n)), ("d", (m, n))):
        operand = row[name]
        bits = BITS.get(operand.element, 32)
        formula = FORMULAS.get((name, bits), accumulator) if name in "ab" else accumulator

        def expected(group, thread, i, formula=formula, bits=bits):
            return formula(m, k, bits, group, thread, i)

        check(operand.fragment, shape, expected)


@pytest.mark.parametrize("row", family("mma_sync").values(), ids=lambda row: row.name)
def test_names_and_fields_of_products_are_those_of_the_text(row):
    """PTX text says shape, modifier, the types of d, a, b and c, and what is done with bits."""
    text = r"mma\.sync\.aligned\.(m(\d+)n(\d+)k(\d+))\.row\.col(\.satfinite)?\.(\w+)\.(\w+)\.(\w+)\.(\w+)(\.\w+\.popc)?"
    shape, m, n, k, front, *types, back = re.fullmatch(text, row.asm.split(" ")[0]).groups("")
    assert row.name == f"mma.sync.{shape}{front}.{'.'.join(types)}{back}"
    said = family("mma_sync").product(row.name)
    assert (said.m, said.n, said.k) == (int(m), int(n), int(k))
    assert [said.a, said.b, said.c] == types[1:] and said.modifier == (front or back).removeprefix(".")
    assert [row[name].element for name in "dabc"] == types


def test_offsets_of_distinct_bits_share_no_bit():
    """So that exclusive or is addition, as `Fragment` says."""
    for name in ("mma_sync", "ldmatrix", "stmatrix"):
        for row in family(name).values():
            for operand in row.operands:
                if operand.fragment is not None:
                    bases = operand.fragment.register + operand.fragment.lane
                    assert sum(r for r, _ in bases) == operand.fragment.shape[0] - 1
                    assert sum(c for _, c in bases) == operand.fragment.shape[1] - 1


@pytest.mark.parametrize("name", ["ldmatrix", "stmatrix"])
@pytest.mark.parametrize("tiles", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_matrix_moves(name, tiles, trans):
    """Register r of lane 4 * i + j holds elements 2 * j and 2 * j + 1 of row i of tile r; with trans, of column i."""
    row = family(name)[f"{name}.sync.m8n8.x{tiles}{trans}.shared.b16"]

    def expected(group, thread, i):
        tile, half = divmod(i, 2)
        if trans:
            return 8 * tile + thread * 2 + half, group
        return 8 * tile + group, thread * 2 + half

    check(row["d" if name == "ldmatrix" else "a"].fragment, (8 * tiles, 8), expected)


def test_the_worked_example_of_the_docstring():
    fragment = family("mma_sync")["mma.sync.m16n8k16.f32.f16.f16.f32"]["c"].fragment
    assert fragment.register == ((0, 1), (8, 0))
    assert fragment.lane == ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
    assert fragment.coordinate(lane=5, element=3) == (9, 3)
