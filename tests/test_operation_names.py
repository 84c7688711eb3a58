"""What an operation is called is asked in its own files alone."""

from __future__ import annotations

import ast
from pathlib import Path

from dsl.lowering.ops import OPS

ROOT = Path(__file__).parents[1]
FAMILIES = ("control", "elementwise", "matrix", "memory", "shapes", "tensor", "threads")
OWN = ("dsl/lowering/ops/", *(f"dsl/lowering/{room}/{name}.py" for room in ("emit", "meaning") for name in FAMILIES))
"""Rows, rules of emission and meanings of operations."""


def strings(node: ast.expr, known: dict[str, set[str]]) -> set[str]:
    """The texts that a comparison is with; `known`: those of the module's constants."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    if isinstance(node, ast.Tuple | ast.Set | ast.List):
        return {text for each in node.elts for text in strings(each, known)}
    if isinstance(node, ast.Dict):
        return {text for each in node.keys if each is not None for text in strings(each, known)}
    if isinstance(node, ast.Starred):
        return strings(node.value, known)
    return known.get(node.id, set()) if isinstance(node, ast.Name) else set()


def comparisons(path: Path) -> list[int]:
    """The lines in which the name of an operation is compared, or looked up in a table."""
    tree = ast.parse(path.read_text())
    known: dict[str, set[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            known[node.targets[0].id] = strings(node.value, known)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Subscript):
            sides = [node.value, node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            sides = [node.func.value, *node.args]
        else:
            continue
        texts = [ast.unparse(side) for side in sides]
        named = any(text.endswith("op.name") or (text == "name" and "lowering" in path.parts) for text in texts)
        if named and any(strings(side, known) & OPS.keys() for side in sides):
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
""")
    assert comparisons(path) == [2, 4, 5, 5, 6]
