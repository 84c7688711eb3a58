"""Lines of dispatches are walked at the first call, and evaluated by Python functions later. Both give the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsl
from dsl.calls.written_lines import WrittenLines
from dsl.lowering.ir.location import TileError
from dsl.text import tree as ast

TEXT = """
def half(x, down):
    if down:
        return x // 2
    return cdiv(x, 2)

kernel scaled(y: T[m, n; strided], x: T[m, n; strided], bias: f32[n]?, by: f32; T in f32|f16, TILE = 32, U = 0.0):
    grid cdiv(m, TILE)
    i = block(0) * TILE
    y[i : i + TILE, 0 : 32] = x[i : i + TILE, 0 : 32] * by.to(T)

dispatch call(y, x, bias, by):
    option WAY in "one", "two", 3
    require m % 7 != 6 or size(T) == 2
    near, far, z = contiguous(x, 1), m > 50 and n / (m - 60) > 0, x
    U = LINE
    if aligned(z) and not given(bias) and WAY == "two": scaled(y, z, bias, by) with TILE=64, U=U
    elif near: scaled(y, z, bias, by) with TILE=128, U=U
    else: scaled(y, z, bias, by) with TILE=where(far, 8, 16), U=U
"""
LINES = {
    "half(m, true) + 0.5 * n": True,
    "half(m, m > 9)": False,  # a number of the call decides
    "next_pow2(m) * 1.5 + where(T == f16, 1, 2)": True,
    "m // (n - 9)": True,  # no value for n == 9
    "minimum(m, n) + by": True,
    "where(by == 2, 1, -0.0)": True,
    "shape(x, 0)": False,  # the facts of an array
    "m << 3": True,
    "1 << n": True,  # no value for a large n
    "-m % 5 == 0 or not n > 3": True,
    "inf - m": True,
    "given(bias) + 1": True,
}


def arrays(m: int, n: int, dtype: Any, view: int) -> tuple[np.ndarray, np.ndarray]:
    """Arrays that are row-major, of wider rows, or transposed."""
    made = (np.empty((m, n), dtype), np.empty((m, n + 3), dtype)[:, :n], np.empty((n, m), dtype).T)[view]
    return made, made


def planned(function: Any, given: tuple[Any, ...], way: Any) -> str:
    """The launches of a call and the reasons for them, or the error."""
    facts = function.facts(function.order(given, {})[0])
    try:
        plan = function.plan(facts, WAY=way)
    except TileError as error:
        return f"{error} {error.hint}"
    return repr([(each.request, plan.reasons) for each in plan.steps])


@pytest.mark.parametrize("line", LINES)
def test_lines_have_the_values_of_the_walk(line: str) -> None:
    text = TEXT.replace("LINE", line)
    later = dsl.parse(text, device="emulator")["call"]
    said = set()
    for number in range(48):
        m, n, dtype = 8 + 5 * number, (9, 64, 200)[number % 3], (np.float32, np.float16)[number % 4 == 3]
        bias = None if number % 5 else np.empty(n, np.float32)
        given = (*arrays(m, n, dtype, number % 7 % 3), bias, (2, 0.25, 3.0)[number % 8 % 3])
        way = ("one", "two", 3)[number % 11 % 3]
        made = planned(later, given, way)
        assert made == planned(dsl.parse(text, device="emulator")["call"], given, way)
        said.add(made)
    assert len(said) > 24  # they are different calls
    node = next(
        each for each in later.called.dispatch.lines if isinstance(each, ast.Assign) and each.loc.text == f"U = {line}"
    )
    found = later.module.program.once(WrittenLines).found[id(node.value)]
    assert found and all((each.function is not None) == LINES[line] for each in found)
