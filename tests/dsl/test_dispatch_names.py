"""What the expressions of a dispatch see of its arrays."""

from __future__ import annotations

import pytest

from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import Overrides
from dsl.examples.run import run_example
from dsl.text.program import parse_program

TEXT = """\
kernel double(y: T[rows, cols], x: T[rows, cols]; T in f16|f32, TWICE = 0):
    grid rows
    y[block(0), 0 : 32] = x[block(0), 0 : 32] * (2 + TWICE)

def extents(x):
    return shape(x, 0) * shape(x)[1]

dispatch scaled(y, x, weight):
    m = shape(weight, 0)
    if CONDITION: double(y, x) with TWICE=2
    else: double(y, x)

example:
    x, y, weight = ones(f32[3, 30]), empty(f32[3, 30]), ones(f16[7])
    scaled(y, x, weight)
    expect y == 4.0
"""


@pytest.mark.parametrize(
    "condition", ["m == 7 and extents(x) == rows * cols", "bytes(x) == 360 and bytes(weight) == 14 and dtype(x) == T"]
)
def test_a_dispatch_sees_shape_bytes_and_type_of_its_arrays(condition: str) -> None:
    program = parse_program(TEXT.replace("CONDITION", condition))
    report = run_example(program, program.examples[0], "emulator", "", Overrides(), LaunchSettings())
    assert report.passed and report.checks
