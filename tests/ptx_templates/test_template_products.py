"""A thousand matrices for each row of mma.sync, ldmatrix and stmatrix: the formula, the emulator and a GPU agree.

Integers to the bit, f64 on the GPU and the emulator likewise; other floats within a bound relative to the largest term
of each sum. Operands have all values that their types have: infinities and NaN, subnormals, both zeros, the largest.
"""

from __future__ import annotations

import numpy as np
import pytest
from template_kernel import ADDRESSES, LANES, given, kernel, written
from template_meaning import execute
from template_products import KINDS, MATRICES, ROWS, element_of, packed, places, run, tiles, unpacked

from dsl.ptx_templates import Instruction, family
from dsl.runtime import Kernel

MOVES = [row for name in ("ldmatrix", "stmatrix") for row in family(name).values()]
BOUND = {"f32": 2.0**-20, "f16": 2.0**-7, "f64": 2.0**-48}
BOUND_FP8 = {"f32": 2.0**-19, "f16": 2.0**-6}
"""By the type of the sum, for one product of a warp; docs/tensor_cores.md has what was measured. Products of fp8 are
two of f16 and a sum on sm_90 (docs/machine_code.md)."""


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_products(row: Instruction, device: str) -> None:
    outcome = run(row, device)
    assert len(outcome.found) == MATRICES
    if outcome.found.dtype == np.int64:
        assert np.array_equal(outcome.found, outcome.exact)
        return
    assert outcome.same_specials
    bound = (BOUND_FP8 if element_of(row["a"]) in ("e4m3", "e5m2") else BOUND)[element_of(row["d"])]
    assert outcome.error() <= bound
    small = slice(KINDS.index("small integers"), None, len(KINDS))
    assert np.array_equal(outcome.found[small], outcome.exact[small])
    assert not outcome.finite.all() and outcome.finite.mean() > 0.9
    if device == "cuda":
        emulated = run(row, "emulator").found
        assert outcome.error(emulated) <= bound
        if element_of(row["d"]) == "f64":
            assert np.array_equal(outcome.found, emulated, equal_nan=True)


@pytest.mark.parametrize("row", [ROWS[0], ROWS[24], ROWS[48], ROWS[54]], ids=lambda row: row.name)
def test_operands_have_all_values_of_their_types(row: Instruction) -> None:
    rng = np.random.default_rng(1)
    made = tiles(row, rng)
    for name, tile in made.items():
        element = element_of(row[name])
        if element in ("f16", "f32"):
            assert np.isnan(tile).any() and (np.abs(tile) == np.inf).any()
            assert ((tile == 0) & np.signbit(tile)).any() and ((tile != 0) & (np.abs(tile) < 2.0**-14)).any()
        elif int(element[1:]) <= 8:
            width = int(element[1:])
            low = -(1 << width - 1) if element[0] == "s" else 0
            assert set(np.unique(tile)) == set(range(low, low + (1 << width)))
        else:
            assert tile.min() == -(1 << 31) and tile.max() == (1 << 31) - 1


def test_packing_is_undone() -> None:
    row = family("mma_sync")["mma.sync.m16n8k16.f16.f16.f16.f16"]
    rng = np.random.default_rng(2)
    made = tiles(row, rng)["a"]
    assert np.array_equal(unpacked(packed(made, row["a"], rng), row["a"]), made, equal_nan=True)
    rows, columns = places(row["a"])
    assert len(set(zip(rows.ravel(), columns.ravel(), strict=True))) == rows.size


@pytest.mark.long
@pytest.mark.parametrize("row", MOVES, ids=lambda row: row.name)
def test_moves(row: Instruction, device: str) -> None:
    """Random memory and registers, and rows in any order: what each of a thousand warps reads, or leaves in memory."""
    rng = np.random.default_rng(3)
    image = 16 * LANES
    memory = rng.integers(0, 256, (MATRICES, image), np.uint8)
    registers = sum(operand.registers for operand in row.operands if given(operand))
    inputs = np.zeros((MATRICES, registers, LANES, 8), np.uint8)
    inputs[..., :4] = rng.integers(0, 256, (*inputs.shape[:3], 4), np.uint8)
    order = np.argsort(rng.random((MATRICES, LANES)), axis=1)
    inputs[:, 0] = (16 * order)[..., None].astype("<u8").view(np.uint8).reshape(MATRICES, LANES, 8)
    results = sum(operand.registers for operand in row.operands if written(operand))
    outputs = np.zeros((MATRICES, max(results, 1), LANES, 8), np.uint8)
    shared = memory.copy()
    arguments = [
        inputs.reshape(-1),
        outputs.reshape(-1) if results else np.zeros(1, np.uint8),
        memory.reshape(-1).copy(),
    ]
    Kernel(kernel([row], "sm_90", (7, 8), image, MATRICES), device=device)(*arguments, shared.reshape(-1))
    names = [operand.name for operand in row.operands if given(operand)]
    assert names[0] in ADDRESSES
    for matrix in range(MATRICES):
        of_lanes = inputs[matrix].swapaxes(0, 1)  # [lanes, registers, 8]
        given_registers = {names[0]: [lane[0, :4].tobytes() for lane in of_lanes]}
        if len(names) > 1:
            given_registers[names[1]] = [lane[1:, :4].tobytes() for lane in of_lanes]
        images = {"global": memory[matrix], "shared": memory[matrix].copy()}
        expected = execute(row, given_registers, images)
        assert np.array_equal(shared[matrix], images["shared"])
        for raw in expected.values():
            assert [lane[:, :4].tobytes() for lane in outputs[matrix].swapaxes(0, 1)] == raw
