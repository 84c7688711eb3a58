"""What an operation is called is asked in its own files alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from dsl.lowering.ops import OPS

ROOT = Path(__file__).parents[1]
FAMILIES = ("control", "elementwise", "matrix", "memory", "shapes", "tensor", "threads")
OWN = ("dsl/lowering/ops/", *(f"dsl/lowering/{room}/{name}.py" for room in ("emit", "meaning") for name in FAMILIES))
"""Rows, rules of emission and meanings of operations."""


SAID = re.compile("OPS\\[|[\"'](" + "|".join(map(re.escape, OPS)) + ")[\"']")
"""What a file must have for a comparison: half of them need not be parsed, 2.8 s for all."""


def strings(node: ast.AST, known: dict[str, set[str]]) -> set[str]:
    """The texts that a comparison is with; `known`: those of the module's constants."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    if isinstance(node, ast.Name):
        return known.get(node.id, set())
    if isinstance(node, ast.Dict):
        return {text for each in node.keys if each is not None for text in strings(each, known)}
    if isinstance(node, ast.Tuple | ast.Set | ast.List | ast.Starred | ast.Call | ast.MatchOr | ast.MatchValue):
        return {text for each in ast.iter_child_nodes(node) for text in strings(each, known)}
    return set()


def sides_of(node: ast.AST) -> list[ast.expr | ast.pattern]:
    """What a node compares with each other, or looks up one in the other."""
    match node:
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.Subscript():
            return [node.value, node.slice]
        case ast.Call(func=ast.Attribute(attr="get")):
            return [node.func.value, *node.args]
        case ast.Match():
            return [node.subject, *(case.pattern for case in node.cases)]
    return []


def is_row(node: ast.AST) -> bool:
    """Whether it is a row by its name: `OPS["add"]`."""
    return isinstance(node, ast.Subscript) and ast.unparse(node.value) == "OPS" and isinstance(node.slice, ast.Constant)


def comparisons(path: Path) -> list[int]:
    """The lines in which the name of an operation is compared, or looked up in a table."""
    text = path.read_text()
    if not SAID.search(text):
        return []
    tree = ast.parse(text)
    known: dict[str, set[str]] = {}
    names = {"name"} if "lowering" in path.parts else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node in tree.body:
                known[node.targets[0].id] = strings(node.value, known)
            if isinstance(node.value, ast.Attribute) and node.value.attr == "name":
                names.add(node.targets[0].id)
    found = []
    for node in ast.walk(tree):
        sides = sides_of(node)
        asks = any(
            (isinstance(side, ast.Attribute) and side.attr == "name")
            or (isinstance(side, ast.Name) and side.id in names)
            for side in sides
        )
        of_rows = isinstance(node, ast.Compare) and any(is_row(side) for side in sides)
        if of_rows or (asks and any(strings(side, known) & OPS.keys() for side in sides)):
            found.append(node.lineno)
    return sorted(found)


def test_operations_are_not_asked_for_their_names() -> None:
    found = {}
    for path in (ROOT / "dsl").rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(OWN) and (lines := comparisons(path)):
            found[name] = lines
    assert not found


def test_a_comparison_is_found(tmp_path: Path) -> None:
    path = tmp_path / "lowering" / "pass.py"
    path.parent.mkdir()
    path.write_text("""\
SUMS = {"add": 1, "sub": -1}
a = op.name in ("add", "sub")
b = value.name == "add"
c = made.op.name != "mul"
d = SUMS[op.name], SUMS.get(op.name)
e = op.name in (*SUMS, "mul")
f = found[-1].name == "bitcast"
g = user.name in frozenset(("cast", "bitcast"))
of = user.name
h = of == "bitcast"
i = op.spec is OPS["copy"]
match user.name:
    case "add" | "sub":
        pass
k = user.name == "a", OPS["add"], op.name in OPS, OPS[op.name]
""")
    assert comparisons(path) == [2, 3, 4, 5, 5, 6, 7, 8, 10, 11, 12]
