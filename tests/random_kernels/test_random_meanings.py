"""Random kernels on numpy by the meaning of their operations: after each pass as before it, and what is expected.

40 programs, always the same; DSL_RANDOM_MEANINGS=1000 tries that many, from DSL_RANDOM_SEED on.
"""

from __future__ import annotations

import os
from functools import partial

import pytest

from dsl.kernels.variant import Request, build_variant
from dsl.lowering.ir.location import Errors, TileError
from dsl.lowering.meaning.levels import Undecided, compare_levels, run_level
from dsl.lowering.meaning.run import blocks_of, write_back
from dsl.studies.verify import grid_of
from dsl.text.program import parse_program
from tests.random_kernels.kernels import kernel_of
from tests.random_kernels.tree import Program
from tests.random_kernels.trying import differences

COUNT = int(os.environ.get("DSL_RANDOM_MEANINGS", "40"))
ASM = 'asm("sub.s32 {d}, {0}, {1};", s32, '
FIRST = int(os.environ.get("DSL_RANDOM_SEED", "0"))


def verdict(program: Program) -> str:
    """`right`, `refused` (the compiler takes no such program), `undecided`, or what differs."""
    arrays = program.arrays()
    dims: dict[str, int] = {}
    align: dict[str, int] = {}
    for p in program.parameters:
        if p.kind == "tensor" and p.value is not None:
            dims |= {d: e for d, e in zip(p.dims, p.value.shape, strict=True) if not d.isdigit()}
            pointer = arrays[p.name].__array_interface__["data"][0]
            align[p.name] = min(16, pointer & -pointer)
    absent = frozenset(p.name for p in program.parameters if p.kind == "tensor" and p.value is None)
    given = {p.name: arrays.get(p.name) if p.kind == "tensor" else p.value for p in program.parameters}
    text = "\n".join(line for line in program.text().splitlines() if line.strip() != "require async")
    if ASM in text:  # whose text has no meaning
        text = text.replace(ASM, "less(") + "\n\ndef less(a, b):\n    return a - b\n"
    try:
        variant = build_variant(
            parse_program(text), Request("k", "s", dims, align=align, absent=absent, arch=program.arch)
        )
        grid = grid_of(variant, given)
        regrid = partial(grid_of, variant, given)
        found = compare_levels(variant.function, variant.target, given, grid, blocks_of(grid), grid_of=regrid)
    except (TileError, Errors):
        return "refused"
    except Undecided as error:
        return f"undecided: {error}"
    if found.divergence is not None:
        return str(found.divergence)
    if regrid() != grid:  # not all blocks ran behind the pass that made more of them
        found.last = run_level(variant.function, given, regrid(), blocks_of(regrid()))
    for p in variant.function.params:
        if p.kind == "tensor" and p.value is not None:
            write_back(found.last.memories[p.name], arrays[p.name], p.dtype)
    return differences(program, arrays) or "right"


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_every_stage_means_what_is_expected(seed: int) -> None:
    program = kernel_of(seed)
    said = verdict(program)
    assert said in ("right", "refused"), f"seed {seed}: {said}\n{program.text()}"
