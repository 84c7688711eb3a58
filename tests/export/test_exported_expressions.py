"""Expressions of headers mean the same in C as in Python."""

from __future__ import annotations

import math
import random
import subprocess
from pathlib import Path
from typing import Any

from exported_c import FLAGS, STUB, needs_compiler

from dsl.export.expressions import CValue, NoC, c_expression, literal
from dsl.export.text import STATUS, support
from dsl.runtime.expressions import ExpressionError, compile_expression

NAMES: dict[str, Any] = {"m": 1000, "n": 7, "zero": 0, "minus": -13, "big": (1 << 62) + 5, "x": 0.75, "y": -2.5}
BINARY = ["+", "-", "*", "/", "//", "%", "cdiv", "==", "same", "!=", "<", "<=", ">", ">=", "<<", ">>"]
BINARY += ["min", "max", "&", "|", "^", "and", "or"]
UNARY = ["-", "not", "next_pow2", "pow2_divisor", "log2"]


def tree(random_: random.Random, depth: int) -> Any:
    if depth == 0 or random_.random() < 0.15:
        return random_.choice([*NAMES, 0, 1, 2, 8, 64, -1, -4, 3.5, True, False])
    kind = random_.random()
    if kind < 0.15:
        return [random_.choice(UNARY), tree(random_, depth - 1)]
    if kind < 0.25:
        return ["where", *(tree(random_, depth - 1) for _ in range(3))]
    if kind < 0.35:
        return [random_.choice(["+", "*", "min", "max", "and", "or"]), *(tree(random_, depth - 1) for _ in range(3))]
    return [random_.choice(BINARY), tree(random_, depth - 1), tree(random_, depth - 1)]


def trees(count: int) -> list[tuple[Any, Any, CValue]]:
    """Random trees with their values (None: there is none), and their C."""
    random_, found = random.Random(0), []
    c_names = {name: CValue(name, isinstance(value, float)) for name, value in NAMES.items()}
    while len(found) < count:
        made = tree(random_, 3)
        try:
            value: Any = compile_expression(made).evaluate(NAMES)
        except (ExpressionError, OverflowError, ValueError):
            value = None
        except TypeError:  # an operation of integers with a float
            continue
        try:
            found.append((made, value, c_expression(made, c_names)))
        except NoC:  # an operation of integers, or a choice between an integer and a float
            continue
    return found


@needs_compiler
def test_expressions_have_the_values_of_python(tmp_path: Path) -> None:
    cases = trees(1500)
    assert sum(value is None for _, value, _ in cases) > 60
    assert sum(isinstance(value, float) for _, value, _ in cases) > 60
    declared = "".join(
        f"static volatile {'double' if isinstance(value, float) else 'int64_t'} {name} = {literal(value).text};\n"
        for name, value in NAMES.items()
    )
    lines = "".join(
        f"bad = 0; {{ {'double' if each.is_float else 'int64_t'} value = {each.text}; "
        f'if (bad) puts("none"); else printf("{"%a" if each.is_float else "%lld"}\\n", '
        f"{'' if each.is_float else '(long long)'}value); }}\n"
        for _, _, each in cases
    )
    heads = "".join(f"#include <{each}.h>\n" for each in ("cuda", "math", "stdarg", "stdio", "string"))
    text = f"{heads}{STATUS}#define DSL_AXES 1\n{support()}{declared}int main(void) {{ int bad; {lines} return 0; }}\n"
    (tmp_path / "all.c").write_text(text)
    flags = [*FLAGS, "-O0", "-I", str(STUB), "-Wno-error", "-w"]
    sources = [str(tmp_path / "all.c"), str(STUB / "driver.c")]
    subprocess.run(["gcc", *flags, *sources, "-lm", "-o", str(tmp_path / "all")], check=True)
    printed = subprocess.run([tmp_path / "all"], capture_output=True, text=True, check=True).stdout.splitlines()
    for (made, value, each), line in zip(cases, printed, strict=True):
        if value is None:
            assert line == "none", made
        else:
            found = float.fromhex(line) if each.is_float else None if line == "none" else int(line)
            assert found is not None, (made, value)
            assert found == value or math.isclose(found, value, rel_tol=1e-15), (made, value, found)
