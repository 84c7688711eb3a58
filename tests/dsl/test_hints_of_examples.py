"""An `expect` that fails says what gives just this result, and each mistake of a launch has a line and its mend."""

from __future__ import annotations

import numpy as np
import pytest

import dsl
from dsl.command.failures import located
from dsl.examples.mistaken import mistake_of, overflow_of
from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import Overrides
from dsl.examples.run import run_example
from dsl.runtime import FindingError, LaunchError
from dsl.text import tree as ast
from dsl.text.program import parse_program

KERNELS = """\
kernel turned(y: f32[n, n], x: f32[n, n]; N):
    grid 1
    y[0 : N, 0 : N] = x[0 : N, 0 : N].T

kernel sums(y: f32[n], x: f32[n, n]; N):
    grid 1
    y[0 : N] = sum(x[0 : N, 0 : N], axis=0)

kernel short(y: f32[n, n], x: f32[n, n]; N):
    grid n - 1
    y[block(0), 0 : N] = x[block(0), 0 : N]

kernel narrow(y: f32[n, n], x: f32[n, n]):
    grid n
    y[block(0), 0 : 4] = x[block(0), 0 : 4]

kernel greatest(y: f32[n], x: f32[n, n]; N):
    grid 1
    y[0 : N] = max(load(x[0 : N, 0 : N]), axis=1)

kernel least(y: s32[n], x: s32[n, n]; N):
    grid 1
    y[0 : N] = min(load(x[0 : N, 0 : N]), axis=1)

schedule s of turned:
    N = next_pow2(n)

schedule s of sums:
    N = next_pow2(n)

schedule s of short:
    N = next_pow2(n)

schedule s of greatest:
    N = next_pow2(n)

schedule s of least:
    N = next_pow2(n)

example:
    n = 6
    x, y, v = randn(f32[n, n]), empty(f32[n, n]), empty(f32[n])
    negative, positive, w = (0.0 - abs(x)).to(f32), randint(s32[n, n], 1, 9), empty(s32[n])
"""
WRONG = [
    ("turned(y, x)", "y == x", "last two axes exchanged"),
    ("turned(y, x)", "y == x + 1.0", None),
    ("sums(v, x)", "v ~= sum(x, axis=1) within 1e-5", "what axis=0 gives where this line has axis=1"),
    ("sums(v, x)", "v ~= sum(x + 1.0, axis=1) within 1e-5", None),
    ("short(y, x)", "y == x", "let the grid reach all"),
    ("narrow(y, x)", "y == x", "'assert COLS >= cols' checks it"),
    (
        "greatest(v, negative)",
        "v == max(negative, axis=1)",
        "'max' counts it: all is right with other=-inf in the load of",
    ),
    ("greatest(v, negative)", "v == max(negative, axis=0)", None),
    ("least(w, positive)", "w == min(positive, axis=1)", "all is right with other=2147483647 in the load of line 23"),
]


@pytest.mark.parametrize(("launch", "expect", "hint"), WRONG)
def test_a_mistake_that_gives_just_this_result_is_named(launch: str, expect: str, hint: str | None) -> None:
    program = parse_program(f"{KERNELS}    {launch}\n    expect {expect}\n")
    (check,) = run_example(program, program.examples[0], "emulator", "", Overrides(), LaunchSettings()).checks
    assert not check.passed
    assert check.hint is None if hint is None else hint in (check.hint or "")


HALVES = """\
kernel k(y: U[32], x: T[32]; T in f16|f32, U in f16|f32):
    grid 1
    v = x[0 : 32]
    y[0 : 32] = (BODY).to(U)

example:
    x, y = (arange(32) * 2000.0).to(A), empty(B[32])
    k(y, x)
    expect y ~= WANTED within 0.0, 1e-2
"""
INFINITE = [
    ("v * v", "f16", "f16", "x * x", "a sum or a product of f16"),
    ("v + v", "f16", "f32", "x + x", "a sum or a product of f16"),
    ("sum(v, axis=0)", "f16", "f16", "sum(x, axis=0)", "a sum or a product of f16"),
    ("fma(v, v, v)", "f16", "f16", "x * x + x", "a sum or a product of f16"),
    ("v + v", "f32", "f16", "x + x", "less than is wanted here"),
    ("max(where(v < 0.0, v, -inf), axis=0)", "f16", "f16", "x", None),
    ("where(v > 0.0, v / 0.0, v)", "f32", "f32", "x", None),
]


@pytest.mark.parametrize(("body", "given", "made", "wanted", "hint"), INFINITE)
def test_an_overflow_of_f16_is_told_only_where_one_can_be(
    body: str, given: str, made: str, wanted: str, hint: str | None
) -> None:
    text = HALVES.replace("BODY", body).replace("A)", f"{given})").replace("B[", f"{made}[")
    program = parse_program(text.replace("WANTED", wanted))
    (check,) = run_example(program, program.examples[0], "emulator", "", Overrides(), LaunchSettings()).checks
    assert not check.passed and np.isinf(check.actual)
    assert check.hint is None if hint is None else hint in (check.hint or "")


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("fma.rn.f16x2 \t%r1, %r2, %r3, %r4;", True),
        ("fma.rn.bf16x2 \t%r1, %r2, %r3, %r4;", False),
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1, %r2}", True),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1, %r2}", False),
        ("wgmma.mma_async.sync.aligned.m64n64k16.f16.f16.f16 {%r1}", True),
        ("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%f1}", False),
        ("red.relaxed.gpu.global.add.noftz.f16 [%rd1], %h1;", True),
        ("cvt.rn.f16.f32 \t%h1, %f1;", False),
    ],
)
def test_sums_and_products_of_f16_are_found_in_ptx(line: str, is_one: bool) -> None:
    assert (overflow_of(None, 0.0, [line]) == "sum") is is_one


def test_arrays_that_overlap_are_told_at_the_launch() -> None:
    program = parse_program(f"{KERNELS}    w = randn(f32[n, n])\n    turned(w, w)\n")
    with pytest.raises(LaunchError, match="y and x share memory") as caught:
        run_example(program, program.examples[0], "emulator", "", Overrides(), LaunchSettings())
    assert caught.value.caller == program.examples[0].lines[-1].loc


def test_what_draws_numbers_is_not_evaluated_again() -> None:
    """The draws of the lines below would change."""
    program = parse_program(f"{KERNELS}    sums(v, x)\n    expect v ~= sum(randn(f32[n, n]), axis=1) within 1e-5\n")
    line = program.examples[0].lines[-1]
    assert isinstance(line, ast.Expect) and line.wanted is not None
    ones = np.ones(6, np.float32)

    def evaluated(node: object) -> None:
        raise AssertionError("drawn again")

    assert mistake_of(line.wanted, (ones, 0 * ones), evaluated, lambda *_: False) is None


RACES = [
    ("y[i : i + 32] = x[i : i + 32]", "grid cdiv(n, 30)", "stores an element twice: give each block a tile of its own"),
    ("y[i : i + 32] = y[i : i + 32] + x[i : i + 32]", "grid cdiv(n, 30)", "one statement loads and stores"),
    ("atomic_add(y[i + arange(32)], x[i : i + 32])", "grid cdiv(n, 30)", "--strict-bounds names the axis"),
]


@pytest.mark.parametrize(("line", "grid", "hint"), RACES)
def test_a_finding_s_hint_is_of_what_the_statement_does(line: str, grid: str, hint: str) -> None:
    text = f"kernel k(y: f32[n], x: f32[n]):\n    {grid}\n    i = block(0) * 30\n    {line}\n"
    x = np.ones(100, np.float32)
    with pytest.raises(FindingError) as caught:
        dsl.parse(text, device="emulator").k(np.zeros_like(x), x)
    error = located(caught.value)
    assert error is not None and error.hint is not None and hint in error.hint
