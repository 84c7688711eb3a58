"""A line that is an expression does something, or is an error (tests/errors/statements_without_effect.tile)."""

from __future__ import annotations

import pytest

from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import Overrides
from dsl.examples.run import run_example
from dsl.lowering.ir.location import TileError
from dsl.text.program import parse_program

TEXT = """\
def keep(p, v; ON=true):
    if ON:
        store(p, v)
    return v

def keep_some(p, v; COUNT):
    for static i in range(COUNT):
        store(p, v)
    return v

def even(n):
    assert n % 2 == 0
    return n

def counted(p):
    return atomic_add(p, 1.0)

def on_the_host(x):
    even(4)
    return x

kernel k(y: f32[4, 32], x: f32[4, 32]):
    grid 1
    "A text may stand alone."
    shared s: f32[4, 32]
    v = x[0 : 4, 0 : 32]
    keep(y[0 : 4, 0 : 32], v)
    keep(y[0 : 4, 0 : 32], v + 1.0, ON=false)
    keep_some(y[0 : 4, 0 : 32], v + 1.0, COUNT=0)
    even(4)
    counted(y[0, 0])
    atomic_add(y[0, 0], 1.0)
    store(s[0 : 4, 0 : 32], v)
    barrier()

example:
    x, y = on_the_host(randn(f32[4, 32])), empty(f32[4, 32])
    k(y, x)
    expect y ~= x + where((arange(4)[:, None] == 0) & (arange(32)[None, :] == 0), 2.0, 0.0) within 1e-6
"""


def test_a_call_whose_value_is_not_used_may_have_an_effect_or_have_it_elsewhere() -> None:
    program = parse_program(TEXT)
    report = run_example(program, program.examples[0], "emulator", "", Overrides(), LaunchSettings())
    assert report.passed and report.checks


def test_a_line_of_a_def_of_the_host_is_judged_too() -> None:
    program = parse_program(TEXT.replace("    even(4)\n    return x", "    append((x, x), x)\n    return x"))
    with pytest.raises(TileError, match="does nothing: its value is not used"):
        run_example(program, program.examples[0], "emulator", "", Overrides(), LaunchSettings())
