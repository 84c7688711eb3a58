"""The functions of the language in all places where they stand: one value, and the table in docs/functions.md."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from textwrap import wrap

import numpy as np
import pytest

import dsl
from dsl.calls.line_names import OWN
from dsl.lowering.ir.location import TileError
from dsl.runtime.expressions import compile_expression
from dsl.text import tree as ast
from dsl.text.program import library_names, parse_program
from dsl.values.arrays import Arrays
from dsl.values.numbers import Numbers
from dsl.values.shapes import Shapes
from dsl.values.table import PLACES, ROWS, Builtin
from dsl.values.trees import to_tree
from tests.compile_and_run import compile_kernel, launch

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "functions.md"
BEGIN, END = "<!-- rows: tests/dsl/test_functions_everywhere.py writes them -->\n", "<!-- end of rows -->\n"

MARKS = {"tiles": "k", "numbers": "s", "trees": "l", "arrays": "h"}

CASES: dict[str, list[tuple[float, ...]]] = {
    "next_pow2": [(1000,), (1,), (64,)],
    "pow2_divisor": [(1000,), (7,)],
    "cdiv": [(10, 4), (8, 4)],
    "log2": [(64,), (10.0,)],
    "minimum": [(3, -2), (1.5, 2.5, 0.5)],
    "maximum": [(3, -2), (1.5, 2.5, 0.5)],
    "min": [(3, -2)],
    "max": [(3, -2)],
    "abs": [(-3,), (-2.5,)],
    "sqrt": [(2.0,)],
    "exp": [(1.25,)],
    "exp2": [(1.25,)],
    "log": [(1.25,)],
    "floor": [(-2.5,), (2.5,)],
    "ceil": [(-2.5,), (2.5,)],
    "round": [(2.5,), (3.5,), (-1.25,)],
    "trunc": [(-2.5,), (2.5,)],
    "where": [(True, 3, 4), (False, 3.5, 4.5)],
    "clamp": [(7, 0, 5), (-7, 0, 5), (2.5, 0.5, 9.5)],
    "sign": [(-3,), (0,), (2.5,), (-2.5,)],
    "relu": [(-3,), (3,), (-2.5,), (2.5,)],
    "copysign": [(2.5, -1.0)],
    "pow": [(2.5, 1.5)],
    "isnan": [(2.5,)],
    "isinf": [(2.5,)],
    "isfinite": [(2.5,)],
    "rsqrt": [(2.0,)],
    "atan2": [(1.0, -2.0)],
    **{name: [(0.625,)] for name in ("log10", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan")},
    **{name: [(0.625,)] for name in ("sinh", "cosh", "tanh", "erf", "erfc")},
}
"""Arguments of every function of numbers."""
CALLS = [(name, arguments) for name, cases in CASES.items() for arguments in cases]
OF_NUMBERS = {"next_pow2", "pow2_divisor", "min", "max"}
"""In kernels of constants alone: of tiles min and max are reductions along an axis, and the others mean nothing."""


def text_of(name: str, arguments: Iterable[object]) -> str:
    return f"{name}({', '.join(str(a).lower() for a in arguments)})"


def parsed(expression: str) -> ast.Expr:
    line = parse_program(f"example:\n    v = {expression}\n").examples[0].lines[0]
    assert isinstance(line, ast.Assign)
    return line.value


def test_every_function_of_numbers_is_tried() -> None:
    assert set(CASES) == {name for name, each in ROWS.items() if each.numbers is not None}


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=str)
def test_schedules_the_host_and_launches_agree(name: str, arguments: tuple[float, ...]) -> None:
    node = parsed(text_of(name, arguments))
    value = Numbers({})(node)
    assert Arrays({}, {})(node) == value == Shapes({}, {})(node)
    names = dict(zip("abc", arguments, strict=False))
    if ROWS[name].arrays is not None and name not in OF_NUMBERS:
        arrays = {k: np.asarray([v]) for k, v in names.items()}
        assert np.allclose(Arrays(arrays, {})(parsed(text_of(name, names))), value, rtol=1e-12)
    if ROWS[name].trees is not None:
        tree = to_tree(parsed(text_of(name, names)), dict.fromkeys(names), {})
        if all(isinstance(a, int) for a in arguments):
            assert compile_expression(tree).evaluate(names) == value


def test_kernels_agree_on_constants() -> None:
    """As what a kernel computes before it runs."""
    lines = [f"    y[{i} : {i + 1}] = full(f64[1], C{i} + 0.0)" for i in range(len(CALLS))]
    constants = [f"    C{i} = {text_of(*call)} * 1" for i, call in enumerate(CALLS)]
    text = "\n".join(["kernel k(y: f64[n]):", "    grid 1", *constants, *lines, ""])
    y = np.zeros(len(CALLS))
    launch(compile_kernel(text, {"y": y}), {"y": y})
    assert np.allclose(y, [float(Numbers({})(parsed(text_of(*call)))) for call in CALLS], rtol=1e-12)


@pytest.mark.parametrize("kind", ["s32", "f64"])
def test_kernels_agree_on_tiles(kind: str) -> None:
    integers = kind == "s32"
    calls = [c for c in CALLS if c[0] not in OF_NUMBERS and all(isinstance(a, int) == integers for a in c[1][-1:])]
    calls = [c for c in calls if not (integers and c[0] == "log2")]
    x = np.zeros((len(calls), 3), np.int32 if integers else np.float64)
    lines = []
    for i, (name, arguments) in enumerate(calls):
        x[i, : len(arguments)] = arguments
        tiles = [f"load(x[{i}, {j} : {j + 1}])" for j in range(len(arguments))]
        tiles[:1] = [f"{tiles[0]} != 0"] if name == "where" else tiles[:1]
        result = text_of(name, tiles)
        result = f"where({result}, 1.0, 0.0)" if name in ("isnan", "isinf", "isfinite") else result
        lines.append(f"    y[{i} : {i + 1}] = ({result}).to(f64)")
    text = "\n".join([f"kernel k(y: f64[n], x: {kind}[n, three]):", "    grid 1", *lines, ""])
    arrays = {"y": np.zeros(len(calls)), "x": x}
    launch(compile_kernel(text, arrays), arrays)
    assert np.allclose(arrays["y"], [float(Numbers({})(parsed(text_of(*call)))) for call in calls], rtol=1e-12)


def test_arguments_of_a_launch_are_counted() -> None:
    for call in ("cdiv(a)", "clamp(a, 1)", "minimum(a)", "abs(a, a)", "where(a, 1)"):
        with pytest.raises(TileError, match=r"takes \d"):
            to_tree(parsed(call), {"a": None}, {})


DISPATCH = """\
kernel add(y: f32[n], x: f32[n], r: f32[n]?; BLOCK = 64):
    grid clamp(cdiv(n, BLOCK), 1, abs(0 - n))
    i = block(0) * BLOCK
    v = x[i : i + BLOCK] + ones(f32[BLOCK])
    if given(r):
        v = v + r[i : i + BLOCK]
    y[i : i + BLOCK] = v

schedule narrow of add:
    warps = 1

schedule wide of add:
    warps = 2

dispatch added(y, x, r):
    if given(r): add with narrow
    elif occupancy(2, 0) >= clamp(cdiv(n, 64), 1, 8): add with wide
    else: add with narrow
"""


def test_a_dispatch_asks_what_a_schedule_asks() -> None:
    """Whether an optional tensor is given, and how many blocks a multiprocessor holds."""
    module = dsl.parse(DISPATCH, device="emulator")
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    for given, schedule in ((None, "wide"), (x, "narrow"), (None, "wide")):
        plan = module.added.plan(module.added.facts({"y": y, "x": x, "r": given}))
        assert [step.request.schedule for step in plan.steps] == [schedule]
        module.added(y, x, r=given)
        assert np.array_equal(y, x + 1 if given is None else x + x + 1)


def test_a_function_of_the_file_is_taken_by_check_too() -> None:
    """Not the language's own of that name."""
    program = parse_program("def sign(x):\n    return x + 7\n\nexample:\n    v = sign(2)\n")
    line = program.examples[0].lines[0]
    assert isinstance(line, ast.Assign)
    assert Arrays({}, program.functions)(line.value) == 9
    assert not isinstance(Shapes({}, program.functions)(line.value), int)


def test_defs_of_tuples_and_polynomials_run_on_the_host() -> None:
    text = "def f(x):\n    t = append(tuple(x), x * 2.0)\n    return polynomial(flat(t[1]), 1.0, 2.0, 3.0)\n"
    program = parse_program(text + "\nexample:\n    v = f(x)\n")
    x = np.asarray([[1.0, 2.0]])
    line = program.examples[0].lines[0]
    assert isinstance(line, ast.Assign)
    assert Arrays({"x": x}, program.functions)(line.value).tolist() == [17.0, 57.0]


def test_numbers_are_counted_as_usages_say() -> None:
    """Not as Python's own functions of that name: math.log takes a base."""
    for text in ("log(8, 2)", "max(3)", "cdiv(1)", "sign(1, 2)"):
        for domain in (Numbers({}), Arrays({}, {}), Shapes({}, {})):
            with pytest.raises(TileError, match=r"takes \d"):
                domain(parsed(text))


def test_tiles_are_stacked_along_the_axis_that_is_asked_for() -> None:
    lines = ["    grid 1", "    v = x[0 : 4]", "    y[0 : 2, 0 : 4] = stack(v, v + 9, axis=0)", ""]
    text = "\n".join(["kernel k(y: s32[2, 4], x: s32[4]):", *lines])
    arrays = {"y": np.zeros((2, 4), np.int32), "x": np.arange(4, dtype=np.int32)}
    launch(compile_kernel(text, arrays), arrays)
    assert arrays["y"].tolist() == [[0, 1, 2, 3], [9, 10, 11, 12]]


# ---- the table ----


def stands(name: str, domain: str) -> bool:
    return ROWS[name].stands_in(domain) or (domain in ("tiles", "arrays") and name in library_names())


def documented() -> str:
    """All rows, by group: how each is called, where it stands, what it means, what it takes, its error.

    What all rows of a group share is said once. Rows that differ by their names alone are one.
    """
    lines: list[str] = []
    for group in dict.fromkeys(each.group for each in ROWS.values()):
        rows = [each for each in ROWS.values() if each.group == group]
        places = {
            each.name: "".join(mark for domain, mark in MARKS.items() if stands(each.name, domain)) for each in rows
        }
        common = next(iter(places.values())) if len(set(places.values())) == 1 else ""
        types, count = Counter(each.types for each in rows).most_common(1)[0]
        taken = types if types != "any" and count > 4 else ""
        said = [f"All: *{common}*." if common else "", f"They take {taken}, unless said." if taken else ""]
        takes = {taken: "", "": "", "any": "takes any type" if taken else "", "f32, f16, bf16": "not f64"}
        lines += [f"### {group}", "", *([" ".join(filter(None, said)), ""] if any(said) else [])]
        for alike in together(rows, places):
            first = alike[0]
            usage = f"`{first.usage}`" + "".join(f", `{each.name}`" for each in alike[1:])
            where = "" if common else f" *{places[first.name]}*"
            of_ulp = re.fullmatch(r"[\d.]+, [\d.]+|exact|", first.error)
            error = first.error if of_ulp else f"error {first.error}"
            parts = [first.means, takes.get(first.types, f"takes {first.types}"), error]
            text = f"{usage}{where} {'; '.join(filter(None, parts))}"
            lines += wrap(text, 120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
        lines.append("")
    lines += ["### Dispatches alone", ""]
    for each in (each for name, each in OWN.items() if name not in ROWS):
        lines += wrap(f"- `{each.usage}` {each.means}", 120, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join([*lines, ""])


def together(rows: list[Builtin], places: dict[str, str]) -> list[list[Builtin]]:
    """Neighbours that differ by their names alone."""

    def about(each: Builtin) -> tuple[str, ...]:
        return (each.usage.removeprefix(each.name), places[each.name], each.means, each.types, each.error)

    return [list(alike) for _, alike in groupby(rows, about)]


def test_the_document_has_the_rows(update_golden: bool) -> None:
    before, rest = DOCUMENT.read_text().split(BEGIN)
    written, after = rest.split(END)
    if update_golden:
        DOCUMENT.write_text(before + BEGIN + documented() + END + after)
        written = documented()
    assert written == documented()


@pytest.mark.parametrize("name", ROWS)
def test_a_row_says_what_it_means_and_stands_somewhere(name: str) -> None:
    each = ROWS[name]
    assert each.means and each.group and any(stands(name, domain) for domain in PLACES)


def test_every_function_of_the_library_has_a_row() -> None:
    assert library_names() <= ROWS.keys()


def test_numbers_have_the_types_of_values() -> None:
    assert math.isnan(Numbers({})(parsed("relu(nan)"))) and math.isnan(Numbers({})(parsed("sign(nan)")))
    assert Numbers({})(parsed("sign(-2.5)")) == -1.0 and isinstance(Numbers({})(parsed("sign(-3)")), int)
