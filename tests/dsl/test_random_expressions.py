"""Random expressions: none ends in a Python exception, and `dsl check` knows of each on the host what a run has.

`DSL_EXPRESSIONS=N` tries N of them. Without `and` and `or`: check looks at a right side that a run may not reach.
"""

from __future__ import annotations

import os
import random
import sys
from typing import Any

import numpy as np
import pytest

from dsl.kernels.variant import Request, build_variant
from dsl.lowering.ir.location import TileError
from dsl.text import tree as ast
from dsl.text.program import parse_program
from dsl.values.arrays import Arrays
from dsl.values.element_types import element_type
from dsl.values.facts import UNKNOWN, ArrayFacts
from dsl.values.host import Shaped
from dsl.values.numbers import Numbers
from dsl.values.shapes import Shapes
from dsl.values.table import ROWS
from tests.whole import is_whole

COUNT = int(os.environ.get("DSL_EXPRESSIONS", "600" if is_whole() else "300"))
DEFS = """\
def g(v):
    return v + 1

def h(v; K, L = 2):
    if K > 1:
        return v * K
    return v - L
"""
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "==", "<", ">=", "!=", "@"]
ATOMS = [
    *[
        "x",
        "y",
        "i",
        "m",
        "f",
        "b",
        "n",
        "t",
        "1",
        "2",
        "3.5",
        "0",
        "true",
        "false",
        "inf",
        "f16",
        "s32",
        "7",
        "-1",
        "0.5",
        "f32[4]",
        "nosuch",
    ],
    "[1, 2]",
]
KEYWORDS = ["axis=0", "axis=1", "axis=-1", "keepdims=true", "reverse=true", "axis=7", "foo=1", "axis=x"]
TO = ["f16", "s8", "f32", "s8, saturate", "s32, rounding=up", "x", "f32, foo"]
NAMES = sorted({name for name in ROWS if not name.startswith(".")} | {"g", "nosuch"})


def expression(r: random.Random, depth: int) -> str:
    kind = r.random()
    if depth <= 0 or kind < 0.18:
        return r.choice(ATOMS)
    if kind < 0.45:
        return f"({expression(r, depth - 1)} {r.choice(OPERATORS)} {expression(r, depth - 1)})"
    if kind < 0.5:
        return f"({r.choice(['-', 'not ', '~'])}{expression(r, depth - 1)})"
    if kind < 0.88:
        arguments = [expression(r, depth - 1) for _ in range(r.choice([1, 1, 1, 2, 2, 3]))]
        arguments += [r.choice(KEYWORDS)] * (r.random() < 0.25)
        return f"{r.choice(NAMES)}({', '.join(arguments)})"
    if kind < 0.92:
        return f"({expression(r, depth - 1)}).to({r.choice(TO)})"
    if kind < 0.95:
        return f"{r.choice('xyimtfn')}[{expression(r, depth - 1)}]"
    if kind < 0.97:
        return f"{r.choice('xyimtfn')}.T"
    return f"h({expression(r, depth - 1)}, {r.choice(['K=2', 'L=3', 'K=f', '1'])})"


def tried(domain: Any, node: ast.Expr) -> Any:
    """What it comes to; its error where it has none."""
    try:
        with np.errstate(all="ignore"):
            return domain(node)
    except TileError as error:
        assert error.render()
        return error


def test_random_expressions_are_values_or_errors_and_check_knows_them() -> None:
    rng = np.random.default_rng(0)
    values: dict[str, Any] = {
        "x": rng.standard_normal((3, 4)).astype(np.float16),
        "y": rng.standard_normal((3, 4)),
        "i": np.arange(12, dtype=np.int32).reshape(3, 4) - 5,
        "m": rng.standard_normal((3, 4)) > 0,
        **{"f": 2.5, "b": True, "n": 12, "t": (1, 2.0, 3)},
    }
    known = {k: facts_of(v) if isinstance(v, np.ndarray) else v for k, v in values.items()}
    numbers = {k: v for k, v in values.items() if not isinstance(v, np.ndarray)}
    functions = parse_program(DEFS).functions
    r = random.Random(int(os.environ.get("DSL_SEED", "7")))
    ran = 0
    for _ in range(COUNT):
        text = expression(r, r.choice([1, 2, 2, 3]))
        line = parse_program(f"example:\n    v_ = {text}\n").examples[0].lines[0]
        assert isinstance(line, ast.Assign)
        value = tried(Arrays(values, functions), line.value)
        shape = tried(Shapes(known, functions), line.value)
        tried(Numbers(numbers), line.value)
        if isinstance(value, TileError):
            continue
        ran += 1
        assert not isinstance(shape, TileError), (text, shape)
        if isinstance(value, np.ndarray) and shape is not UNKNOWN:
            assert (shape.shape, shape.dtype) == (facts_of(value).shape, facts_of(value).dtype), text
        elif isinstance(value, int | float) and shape is not UNKNOWN:
            assert value == shape or value != value, text
        elif isinstance(value, Shaped):
            assert value == shape, text
    assert ran > COUNT // 8


def facts_of(array: np.ndarray) -> ArrayFacts:
    found = element_type(array)
    assert found is not None
    return ArrayFacts(array.shape, found.name)


KERNEL = """\
def g(a):
    return a + 1

kernel k(y: f32[n], x: f32[n], z: f32[n]?, q: s32; N = 64, T in f32|f16):
    grid cdiv(n, N)
    i = block(0) * N + arange(N)
    v = x[0 : N]
    m = v > 0.0
    s = 3
    t = (v, i)
    w = zeros(f16[16, 16])
    shared sh: f32[64]
"""
OF_KERNELS = [
    "v",
    "i",
    "m",
    "s",
    "x",
    "sh",
    "n",
    "q",
    "1",
    "2",
    "3.5",
    "0",
    "true",
    "inf",
    "f16",
    "f32[4]",
    "N",
    "T",
    "t",
    "w",
    "x[0:N]",
    "sh[0:8]",
    "(v,i)",
]
WORDS = ["axis=0", "axis=1", "keepdims=true", "mask=m", "mask=v", "other=0", "cache=global", "cache=foo", "order=none"]
FORMS = ["    u = {}\n", "    {}\n", "    if m:\n        u = {}\n", "    for j in range(q):\n        v = {}\n"]


def test_random_statements_of_kernels_are_built_or_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ATOMS", OF_KERNELS)
    monkeypatch.setattr(sys.modules[__name__], "KEYWORDS", WORDS)
    r = random.Random(int(os.environ.get("DSL_SEED", "7")))
    built = 0
    for _ in range(COUNT):
        text = KERNEL + r.choice(FORMS).format(expression(r, r.choice([1, 2, 2, 3])))
        try:
            build_variant(parse_program(text), Request("k", None, {"n": 1000}, {"T": "f32"}))
            built += 1
        except TileError as error:
            assert error.render()
    assert built > COUNT // 20
