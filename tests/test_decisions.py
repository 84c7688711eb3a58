"""Law 5 of choices: what picks among candidates is a choice, or stands here with the reason why it is none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ELSEWHERE = (
    "dsl/lowering/text/",
    "dsl/lowering/meaning/",
    "dsl/lowering/ops/",
    "dsl/lowering/ir/choices.py",
    "dsl/lowering/ir/location.py",
)
"""Texts, meanings, and rows, which say what an operation is."""
NO_CHOICE = {
    "dsl/lowering/passes/barriers/choose.py": "the accesses that a reason names",
    "dsl/lowering/passes/barriers/touches.py": "the one operand that a touch is of",
    "dsl/lowering/passes/barriers/copies.py": "of several accesses in flight, the one that an error names",
    "dsl/lowering/passes/swizzle_shared.py:_check_accesses": "the access that an error names",
    "dsl/lowering/machine/tensor_cores.py:fitting": "the instructions that exist and fit; the caller chooses; errors",
    "dsl/lowering/building/verify.py": "the first thing that is wrong",
    "dsl/lowering/directives/roles.py:_misfit": "the loop that an error names",
    "dsl/lowering/shared/access_width.py:bytes_along": "the one axis along which bytes are neighbours",
    "dsl/lowering/directives/tma.py:flaw_of_box": "the one axis along which elements are neighbours; errors",
    "dsl/lowering/passes/__init__.py:giver": "the one pass that gives something",
    "dsl/lowering/emit/calls.py:template": "whether the target has the instruction that was chosen",
    "dsl/lowering/emit/elementwise.py:_cast_one": "a conversion made anew is one instruction where there is one",
    "dsl/lowering/emit/elementwise.py:_int_to_float": "one conversion is one instruction where there is one",
    "dsl/lowering/emit/memory.py:_without_instruction": "an addition of bf16 is one instruction where there is one",
    "dsl/lowering/emit/masks.py:ends": "the one axis along which a mask moves",
    "dsl/lowering/passes/layouts/anchors.py:product_layout": "the pin that a schedule has given of a product",
    "dsl/lowering/passes/layouts/anchors.py:chained_layout": "what avoids a layout conversion; `neighbours` chooses it",
    "dsl/lowering/directives/pingpong.py:computed_operand": "the first wait of an iteration",
    "dsl/lowering/passes/place_shared.py:_smaller": "the tile that an error names",
    "dsl/lowering/plan/products.py:part_of": "the line of the product",
    "dsl/lowering/directives/cluster_tiles.py:parts_of_block": "the line of the tile that errors name",
    "dsl/lowering/directives/cluster_tiles.py:first_block": "the one flag that tells the first block of a cluster",
    "dsl/lowering/directives/loop.py:_innermost": "of tiles with one name, the one from which all others are found",
    "dsl/lowering/directives/kept.py:_source": "the load that brings what is kept: its own, if copies can do that",
}
"""file, or file:function → why."""


def picks(node: ast.AST) -> bool:
    """An expression that picks one of several, or asks what the target has."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in ("min", "max"):
            return any(keyword.arg == "key" for keyword in node.keywords)
        return node.func.id == "next" and bool(node.args) and isinstance(node.args[0], ast.GeneratorExp)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == "available"
    return isinstance(node, ast.Attribute) and ast.unparse(node).endswith("target.number")


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_what_picks_among_candidates_is_a_choice() -> None:
    undeclared, used = [], set()
    for path in sorted((ROOT / "dsl" / "lowering").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(ELSEWHERE):
            continue
        for function in functions(ast.parse(path.read_text())):
            nodes = [*ast.walk(function)]
            if not any(map(picks, nodes)):
                continue
            if any(isinstance(n, ast.Attribute) and n.attr == "choose" for n in nodes):
                continue
            reasons = {name, f"{name}:{function.name}"} & NO_CHOICE.keys()
            used |= reasons
            if not reasons:
                undeclared.append(f"{name}:{function.name}")
    assert not undeclared, undeclared
    assert used == NO_CHOICE.keys(), NO_CHOICE.keys() - used


def test_a_decision_without_a_record_is_found() -> None:
    for text in (
        "min(a, key=cost)",
        "next(c for c in candidates if c.fits)",
        "row.available(arch)",
        "w.target.number >= 90",
    ):
        assert any(map(picks, ast.walk(ast.parse(text)))), text
    for text in ("min(a, b)", "next(iterator)", "row.next()"):
        assert not any(map(picks, ast.walk(ast.parse(text)))), text


def test_every_kind_is_documented() -> None:
    """The kinds of choices in the code are the rows of docs/choices.md."""
    made = set()
    for path in (ROOT / "dsl").rglob("*.py"):
        text = path.read_text()
        if not re.search(r"switches\.of|choices\.choose|self\._choose", text):  # to parse all files takes 2 s
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            place = (
                1
                if called.endswith("switches.of")
                else 0
                if called.endswith(("choices.choose", "self._choose"))
                else None
            )
            if place is not None and isinstance(kind := node.args[place], ast.Constant):
                made.add(kind.value)
    table = (ROOT / "docs" / "choices.md").read_text().partition("| kind |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert made == {word for row in rows for word in row.replace("`", " ").replace(",", " ").split()}
