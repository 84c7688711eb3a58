"""What a target does not have, and what no instruction has: located errors, to the letter or for every row."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from dsl.kernels.compile import lower
from dsl.kernels.variant import Request
from dsl.lowering.ir.location import Loc, Source, TileError
from dsl.lowering.ir.targets import TARGETS
from dsl.lowering.ir.types import DTYPES, OPERAND_TYPES, TileType
from dsl.lowering.machine.tensor_cores import accumulators, fitting, instructions
from dsl.text.program import parse_program

CASES = {
    "e4m3 before sm_89": (
        "sm_80",
        """\
kernel k(d: f32[m, n], a: u8[m, k], b: u8[n, k]):
    grid 1
    x = bitcast(a[0 : 16, 0 : 32], e4m3)
    y = bitcast(b[0 : 8, 0 : 32], e4m3)
    d[0 : 16, 0 : 8] = x @ y.T
""",
        """\
k.tile:5:24: error[target]: sm_80 has no tensor-core product of e4m3 and e4m3: it needs sm_89
    5 |     d[0 : 16, 0 : 8] = x @ y.T
      |                        ^^^^^^^""",
    ),
    "a shape of f64 before sm_90": (
        "sm_89",
        """\
kernel k(d: f64[m, n], a: f64[m, k], b: f64[k, n]):
    grid 1
    acc = zeros(f64[16, 8])
    d[0 : 16, 0 : 8] = mma.sync.m16n8k16(a[0 : 16, 0 : 16], b[0 : 16, 0 : 8], acc)
""",
        """\
k.tile:4:24: error[target]: sm_89 has no mma.sync.m16n8k16 of f64: it needs sm_90
    4 |     d[0 : 16, 0 : 8] = mma.sync.m16n8k16(a[0 : 16, 0 : 16], b[0 : 16, 0 : 8], acc)
      |                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "stmatrix before sm_90": (
        "sm_86",
        """\
kernel k(d: f16[m, n]):
    grid 1
    shared s: f16[16, 16]
    stmatrix(s[:, :], zeros(f16[16, 16]))
    d[0 : 16, 0 : 16] = s[:, :]
""",
        """\
k.tile:4:5: error[target]: sm_86 has no stmatrix: it needs sm_90
    4 |     stmatrix(s[:, :], zeros(f16[16, 16]))
      |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: store with '=': it takes stmatrix where there is one""",
    ),
    "more shared memory than sm_89 has": (
        "sm_89",
        """\
kernel k(d: f32[n]):
    grid 1
    shared s: f32[ring 4, 8192]
    s[0] = 1.0
    d[0 : 8192] = s[0]
""",
        """\
k.tile:3:12: error[shared]: the kernel needs 131072 bytes of shared memory; sm_89 has 101376 a block
    3 |     shared s: f32[ring 4, 8192]
      |            ^^^^^^^^^^^^^^^^^^^
  hint: the largest tile is shared f32[ring 4, 8192] with 131072 bytes""",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name: str, tmp_path: Path) -> None:
    arch, text, expected = CASES[name]
    program = parse_program(text, "k.tile", tmp_path)
    with pytest.raises(TileError) as caught:
        lower(program, Request("k", None, {}, {}, arch=arch))
    assert caught.value.render() == expected
    if arch != "sm_90":
        lower(program, Request("k", None, {}, {}, arch="sm_90"))


def tile(name: str, *shape: int) -> TileType:
    return TileType(shape, {**DTYPES, **OPERAND_TYPES}[name])


LOC = Loc(Source("k.tile", "a @ b\n"), 0, 5)


@pytest.mark.parametrize("arch", TARGETS)
def test_each_row_is_chosen_where_the_target_has_it_and_an_error_elsewhere(arch: str) -> None:
    refused = 0
    for i in instructions():
        operands = tile(i.a, i.m, i.k), tile(i.b, i.k, i.n), tile(i.c, i.m, i.n)
        if i.row.available(arch):
            assert fitting(TARGETS[arch], *operands, i.shape, i.modifier, LOC) == [i]
            continue
        refused += 1
        with pytest.raises(TileError, match=f"{arch} has no mma.sync.{i.shape} .* it needs {i.row.target}") as caught:
            fitting(TARGETS[arch], *operands, i.shape, i.modifier, LOC)
        assert (caught.value.code, caught.value.loc) == ("target", LOC)
    assert (refused > 0) == (TARGETS[arch].number < 90)


def test_types_that_no_instruction_has_are_errors() -> None:
    """Of all pairs of operands and accumulators, those that no row has; and no others."""
    names = [*(n for n in DTYPES if n != "index"), *OPERAND_TYPES]
    has = {(i.a, i.b, i.c): i for i in instructions() if not i.modifier}
    for a, b, c in itertools.product(names, names, ("f16", "f32", "f64", "s32", "s64")):
        if (a, b, c) in has or a == b == "b1":
            continue
        with pytest.raises(TileError) as caught:
            fitting(TARGETS["sm_90"], tile(a, 64, 512), tile(b, 512, 64), tile(c, 64, 64), None, "", LOC)
        assert (caught.value.code, caught.value.loc) == ("type", LOC), (a, b, c)
        known = accumulators(tile(a, 1).dtype, tile(b, 1).dtype)
        assert (f"adds products of {a} and {b} to {c}" in caught.value.message) == bool(known)


def test_shapes_smaller_than_every_instruction_are_errors() -> None:
    for i in instructions():
        others = [o for o in instructions() if (o.a, o.b, o.c, o.modifier) == (i.a, i.b, i.c, i.modifier)]
        m, n, k = (min(getattr(o, axis) for o in others) // 2 for axis in "mnk")
        for small in ((m, 64, 512), (64, n, 512), (64, 64, k)):
            operands = tile(i.a, small[0], small[2]), tile(i.b, small[2], small[1]), tile(i.c, small[0], small[1])
            with pytest.raises(TileError, match=r"is smaller than mma\.sync") as caught:
                fitting(TARGETS["sm_90"], *operands, None, i.modifier, LOC)
            assert (caught.value.code, caught.value.loc) == ("shape", LOC)
