"""Every fragment of mma.sync, ldmatrix and stmatrix, and the sums of wgmma, against CuTe's atoms.

They are those of the public package `tensor-layouts`.
An atom maps (thread, value) to n + N * k and the like, or for the moves of matrices to a bit of the tile. Where the
package has no atom of a row's own name, one of the same shape and widths stands for it, and the table says so.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from tensor_layouts import atoms_nv, size

from dsl.ptx_templates import Fragment, Instruction, family

BITS = {"b1": 1, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f16": 16, "bf16": 16, "tf32": 32, "f64": 64}
PRODUCTS = list(family("mma_sync").values())
ATOMS = {
    atom.ptx: atom
    for name in ("SM75", "SM80", "SM89", "SM90")
    for atom in getattr(atoms_nv, f"MMA_ATOMS_{name}")
    if atom.ptx.startswith("mma.sync")
}
MOVES = {atom.ptx: atom for atom in [*atoms_nv.COPY_ATOMS_SM75, *atoms_nv.COPY_ATOMS_SM90]}

STAND_INS = {
    r"m16n8k32(\.satfinite)?\.s32\.[su]8\.[su]8": "m16n8k32.row.col.s32.s8.s8.s32",
    r"m16n8k16(\.satfinite)?\.s32\.[su]8\.[su]8": "m16n8k16.row.col.s32.s8.s8.s32",
    r"m8n8k16(\.satfinite)?\.s32\.[su]8\.[su]8": "m8n8k16.row.col.s32.s8.s8.s32",
    r"m16n8k64(\.satfinite)?\.s32\.[su]4\.[su]4": "m16n8k64.row.col.s32.s4.s4.s32",
    r"m16n8k32(\.satfinite)?\.s32\.[su]4\.[su]4": "m16n8k32.row.col.s32.s4.s4.s32",
    r"m8n8k32(\.satfinite)?\.s32\.[su]4\.[su]4": "m8n8k32.row.col.s32.s4.s4.s32",
    r"m16n8k256\.s32\.b1\.b1\.s32\.and": "m16n8k256.row.col.s32.b1.b1.s32.xor.popc",
    r"m16n8k128\.s32\.b1\.b1\.s32\.and": "m16n8k128.row.col.s32.b1.b1.s32.xor.popc",
    r"m8n8k128\.s32\.b1\.b1\.s32\.and": "m8n8k128.row.col.s32.b1.b1.s32.xor.popc",
    r"m16n8k16\.f(32|16)\.e\dm\d\.e\dm\d": "m16n8k16.row.col.s32.s8.s8.s32",
}
"""Rows that the package lacks by name → the atom of the same shape and widths that stands for them."""


WRONG_B = {"m16n8k32.row.col.s32.s4.s4.s32": "m8n8k32.row.col.s32.s4.s4.s32"}
"""Atoms whose B cannot be one (in 0.3.2: 256 values on 160 elements) → the atom whose B is of that shape and width."""


def own_atom(row: Instruction) -> Any:
    return ATOMS.get(row.asm.split(" ")[0])


def stand_in(row: Instruction) -> Any:
    found = [ptx for pattern, ptx in STAND_INS.items() if re.match(rf"mma\.sync\.{pattern}", row.name)]
    assert len(found) == 1, row.name
    return ATOMS[f"mma.sync.aligned.{found[0]}"]


def right_b(atom: Any) -> Any:
    other = WRONG_B.get(atom.ptx.removeprefix("mma.sync.aligned."))
    return atom.b_layout if other is None else ATOMS[f"mma.sync.aligned.{other}"].b_layout


def element(row: Instruction, name: str) -> int:
    return BITS.get(row[name].element, 32)


def check(fragment: Fragment, layout: Any, transposed: bool) -> None:
    """Each value of each thread is the element that the fragment says; `transposed`: of n + N * k, as CuTe's B."""
    rows, columns = fragment.shape
    count = 2 ** len(fragment.register)
    assert size(layout) == 32 * count
    seen = set()
    for lane in range(32):
        for i in range(count):
            row, column = fragment.coordinate(lane, i)
            expected = column + columns * row if transposed else row + rows * column
            assert layout(lane, i) == expected, (lane, i)
            seen.add(expected)
    assert len(seen) == rows * columns


@pytest.mark.parametrize("row", PRODUCTS, ids=lambda row: row.name)
def test_products(row: Instruction) -> None:
    atom = own_atom(row) or stand_in(row)
    said = family("mma_sync").product(row.name)
    assert atom.shape_mnk == (said.m, said.n, said.k)
    check(row["a"].fragment, atom.a_layout, transposed=False)
    check(row["b"].fragment, right_b(atom), transposed=True)
    for name in "cd":
        check(row[name].fragment, atom.c_layout, transposed=False)


def test_what_the_package_lacks() -> None:
    """The rows without an atom of their own are those of the table, and each stand-in is of the same widths."""
    lacking = [row for row in PRODUCTS if own_atom(row) is None]
    of_own = {row.asm.split(" ")[0]: row for row in PRODUCTS if own_atom(row) is not None}
    assert len(of_own) == 29 and len(lacking) == len(PRODUCTS) - 29
    for row in lacking:
        other = of_own[stand_in(row).ptx]
        assert [element(row, name) for name in "ab"] == [element(other, name) for name in "ab"], row.name


def test_where_the_package_is_wrong() -> None:
    """An operand of a warp is each of its elements once: that alone refutes the atoms of the table, and no other."""
    for ptx, atom in ATOMS.items():
        for layout in (atom.a_layout, atom.b_layout, atom.c_layout):
            count = size(layout) // 32
            elements = {layout(lane, i) for lane in range(32) for i in range(count)}
            whole = len(elements) == size(layout)
            assert whole or (layout is atom.b_layout and ptx.removeprefix("mma.sync.aligned.") in WRONG_B), ptx


@pytest.mark.parametrize("name", ["ldmatrix", "stmatrix"])
@pytest.mark.parametrize("tiles", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_moves_of_matrices(name: str, tiles: int, trans: str) -> None:
    """In registers: 16 bits an element, tiles one below the other. In memory: lane i has the address of row i."""
    row = family(name)[f"{name}.sync.m8n8.x{tiles}{trans}.shared.b16"]
    atom = MOVES[f"{name}.sync.aligned.x{tiles}{trans}.m8n8.shared.b16"]
    load = name == "ldmatrix"
    fragment = row["d" if load else "a"].fragment
    registers = atom.dst_layout_bits if load else atom.src_layout_bits
    memory = atom.src_layout_bits if load else atom.dst_layout_bits
    for lane in range(32):
        for i in range(2 ** len(fragment.register)):
            r, c = fragment.coordinate(lane, i)
            for bit in (0, 15):
                assert registers(lane, 16 * i + bit) == 128 * r + 16 * c + bit, (lane, i)
    for lane in range(8 * tiles):
        assert [memory(lane, bit) for bit in (0, 1, 127)] == [128 * lane + bit for bit in (0, 1, 127)]


def test_all_moves_are_there() -> None:
    assert len(MOVES) == 12 == len(family("ldmatrix")) + len(family("stmatrix"))


GROUP_ATOMS = [*atoms_nv.MMA_ATOMS_SM90_GMMA, *atoms_nv.MMA_ATOMS_SM90_GMMA_EXT]


@pytest.mark.parametrize("columns", sorted({atom.shape_mnk[1] for atom in GROUP_ATOMS}))
def test_sums_of_warp_groups(columns: int) -> None:
    """Of any types, as those of f16 in the rows: where a sum lies depends on the columns alone."""
    fragment = family("wgmma")[f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16"]["d"].fragment
    rows = fragment.shape[0]
    expected = [
        (thread, i, row + rows * column)
        for thread in range(128)
        for i in range(columns // 2)
        for row, column in (fragment.coordinate(thread % 32, i, thread // 32),)
    ]
    layouts = {str(atom.c_layout): atom.c_layout for atom in GROUP_ATOMS if atom.shape_mnk[1] == columns}
    for layout in layouts.values():
        assert size(layout) == len(expected) == rows * columns
        assert all(layout(thread, i) == place for thread, i, place in expected)
