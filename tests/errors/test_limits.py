"""Programs that multiply: each ends in a located error, after so many steps (docs/language.md, Limits)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dsl
from dsl.kernels.compile import compile_variant
from dsl.kernels.variant import Request
from dsl.lab.space import cases
from dsl.lowering.emit import text
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import FindingError
from dsl.studies.check import check_file
from dsl.text import files
from dsl.text.program import parse_program

KERNEL = """\
{defs}kernel k(y: f32[n], x: f32[n]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    v = x[block(0) * BLOCK : block(0) * BLOCK + BLOCK]
    a = 0
{body}
    y[block(0) * BLOCK : block(0) * BLOCK + BLOCK] = v

schedule s of k:
    warps = 4
{schedule}"""


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def program(body: str, defs: str = "", schedule: str = "") -> str:
    return KERNEL.format(defs=defs, body=indented(body), schedule=indented(schedule))


def loops(count: int, iterations: int, body: str) -> str:
    heads = [f"{'    ' * i}for static i{i} in range({iterations}):" for i in range(count)]
    return "\n".join([*heads, "    " * count + body])


def doubling(first: str, body: str, count: int = 40) -> str:
    """Functions that each call the one before twice."""
    made = [f"def f0(a):\n    return {first}\n"]
    made += [f"def f{i}(a):\n{indented(body.format(i - 1))}" for i in range(1, count)]
    return "\n".join(made) + "\n"


TWICE = doubling("a + 1", "return f{0}(a) + f{0}(a)")
PAIRS = doubling("a", "b = f{0}(a)\nreturn b, b")
IF = "if n == {i}:\n    a = 1\nelse:\n    a = 2"
NAMES = "".join(f"z{i} = n + {i}\n" for i in range(1500))
STEPS, OPERATIONS = "takes more than 500000 steps to build", "unrolls to more than 60000 operations"
CASES = {
    "loops of constants": (program(loops(3, 1000, "a = i0 + i1")), STEPS),
    "loops of nothing": (program(loops(3, 50000, "b = 1")), STEPS),
    "a def that doubles": (program("a = f39(1)", TWICE), STEPS),
    "a def that doubles values": (program("v = f39(v)", TWICE), STEPS),
    "tuples of tuples": (program("t = f39(1)", PAIRS), STEPS),
    "tuples of tuples of values": (program("t = f39(v)\nif n > 3:\n    t = f39(v + 1.0)", PAIRS), STEPS),
    "append": (program("t = tuple()\nfor static i in range(50000):\n    t = append(t, i)"), STEPS),
    "append of values": (program("t = tuple()\nfor static i in range(50000):\n    t = append(t, v)"), STEPS),
    "branches with many names": (program(NAMES + loops(1, 50000, IF.format(i="i0").replace("\n", "\n    "))), STEPS),
    "unroll": (program("for i in range(1000000000):\n    v = v + 1.0", "", "unroll i: 1000000000"), OPERATIONS),
    "unroll to n": (program("for i in range(n):\n    v = v + 1.0", "", "unroll i: 1000000000"), OPERATIONS),
    "unroll in unroll": (
        program("for i in range(n):\n    for j in range(n):\n        v = v + 1.0", "", "unroll i: 900\nunroll j: 900"),
        OPERATIONS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_multiplies_ends_in_a_limit(name: str, tmp_path: Path) -> None:
    source, message = CASES[name]
    path = tmp_path / "k.tile"
    path.write_text(source)
    error, *others = check_file(path).errors
    assert error.code == "limit"
    assert message in error.message
    assert error.loc is not None
    assert not others, "what comes after says nothing"
    if "unroll" in name:  # the check counts what the pass would make
        with pytest.raises(TileError, match=message):
            compile_variant(parse_program(source), Request("k", "s", {}))


LIKES = "".join(f"schedule s{i} of k:\n    like s{i + 1}\n    like s{i + 1}\n" for i in range(70))
SUMS = "A0 = n\n" + "".join(f"A{i + 1} = A{i} + A{i}\n" for i in range(60)) + "BLOCK = minimum(A60, 128)"
MANY = "".join(f"def f{i}(x):\n    return x\n" for i in range(1100))
GRID = "cdiv(n, BLOCK)"
COUNTED = {
    "definitions": (MANY + program(""), "more than 1000 kernels"),
    "a chain of likes": (
        f"{program('', '', 'like s0')}\n{LIKES}schedule s70 of k:\n    warps = 4\n",
        "than 64 schedules",
    ),
    "definitions of a launch that double": (program("", "", SUMS), "has more than 4096 parts"),
    "a grid that is deep": (program("").replace(GRID, "cdiv(" * 80 + "n" + ", 2)" * 80), "deeper than 64"),
    "a chain of comparisons": (program("").replace(GRID, " < ".join(["n"] * 900)), "is nested deeper than 64"),
}


@pytest.mark.parametrize("name", COUNTED)
def test_what_is_counted_ends_in_a_limit(name: str, tmp_path: Path) -> None:
    source, message = COUNTED[name]
    path = tmp_path / "k.tile"
    path.write_text(source)
    error, *_ = check_file(path).errors
    assert error.code == "limit" and message in error.message and error.loc is not None


PRODUCT = """\
kernel p(c: f32[m, n], a: f16[m, k], b: f16[n, k]):
    grid m // 64, n // 64
    acc = zeros(f32[64, 64])
    for q in range(k // 32):
        acc = dot(a[0 : 64, q * 32 : q * 32 + 32], b[0 : 64, q * 32 : q * 32 + 32].T, acc)
    store(c[0 : 64, 0 : 64], acc)

schedule s of p:
    subtile acc: 1, 1
"""


def test_parts_are_counted_before_they_are_made() -> None:
    with pytest.raises(TileError, match="'acc' is done in 4096 parts; the limit is 256") as caught:
        compile_variant(parse_program(PRODUCT), Request("p", "s", {"m": 64, "n": 64, "k": 64}))
    assert caught.value.code == "limit" and caught.value.loc is not None and caught.value.loc.line == 9


def test_the_code_of_a_thread_is_counted_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_VALUES", 100)
    with pytest.raises(TileError, match="a thread's code has more than 100 instructions") as caught:
        compile_variant(parse_program(program("v = cumsum(v)\n" * 9)), Request("k", "s", {"n": 1000}))
    assert caught.value.code == "limit" and caught.value.loc is not None


@pytest.mark.parametrize("values", [",".join(map(str, range(1, 1200))), "1,2"])
def test_cases_of_a_tuning_are_counted(values: str) -> None:
    parsed = parse_program("kernel k(x: f32[n, m, q]):\n    grid 1\n\nexample:\n    n, m, q = 1, 1, 1\n")
    given = [f"n={values}", *(f"{name}={','.join(map(str, range(1, 40)))}" for name in ("m", "q"))]
    with pytest.raises(TileError, match="1000") as caught:
        cases(parsed, parsed.examples[0], given)
    assert caught.value.code == "limit"


def test_a_log_is_read_up_to_a_size_and_long_lines_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("{}\n" + "x" * 5000 + "\n{}")
    monkeypatch.setattr(files, "MAX_LINE", 1000)
    assert [len(line) for line in files.read_lines(log)] == [2, 1000, 2]
    monkeypatch.setattr(files, "MAX_LOG", 1000)
    with pytest.raises(TileError, match="the limit of a log is 1000"):
        list(files.read_lines(log))


def test_all_types_of_a_kernel_end_at_the_first(tmp_path: Path) -> None:
    path = tmp_path / "k.tile"
    source = CASES["loops of constants"][0].replace(
        "BLOCK = 128", "T in f16|f32|f64|s8|s16|s32|s64|u8|u16|u32, BLOCK = 128"
    )
    path.write_text(source)
    assert len(check_file(path).errors) == 1


ELIFS = "if n == 0:\n    v = v + 1.0\n" + "".join(f"elif n == {i + 1}:\n    v = v * 2.0\n" for i in range(197))


@pytest.mark.parametrize("condition", ["n ==", "x[0] =="])
def test_the_deepest_chain_of_elifs_compiles(condition: str) -> None:
    source = program(ELIFS.replace("n ==", condition))
    compiled = compile_variant(parse_program(source), Request("k", "s", {}))
    assert compiled.ir.count(" = if(") == 198


def test_regions_of_functions_in_functions_are_counted() -> None:
    nested = "".join("    " * i + f"if n > {i}:\n" for i in range(90)) + "    " * 90 + "v = {0}\n"
    defs = "".join(
        f"def g{i}(v, n):\n{indented(nested.format(f'g{i - 1}(v, n)' if i else 'v + 1.0'))}    return v\n\n"
        for i in range(4)
    )
    with pytest.raises(TileError, match="nested more than 256 deep, functions inlined") as caught:
        compile_variant(parse_program(program("v = g3(v, n)", defs)), Request("k", "s", {}))
    assert caught.value.loc is not None


def test_an_endless_kernel_ends_at_the_time_limit() -> None:
    text = program("b = n\nwhile b > 0:\n    b = maximum(b, 1) + 1")
    kernel = dsl.parse(text, device="emulator").compile("k")
    x = np.zeros(300, np.float32)
    with pytest.raises(FindingError, match=r"did not end in 0\.2 seconds") as caught:
        kernel.kernel.run(np.zeros_like(x), x, time_limit=0.2)
    assert caught.value.line == text[: text.index("while")].count("\n") + 1
