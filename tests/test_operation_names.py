"""What an operation is called is asked in its own files alone."""

from __future__ import annotations

import ast
from pathlib import Path

from lowering.ops import OPS

ROOT = Path(__file__).parents[1]
OWN = ("lowering/ops/", "lowering/emit/", "lowering/meaning/")
"""Rows, emission and meaning of operations."""


def strings(node: ast.expr) -> set[str]:
    """The texts that a comparison is with."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    if isinstance(node, ast.Tuple | ast.Set | ast.List):
        return {text for each in node.elts for text in strings(each)}
    return set()


def comparisons(path: Path) -> list[int]:
    """The lines in which the name of an operation is compared."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        texts = [ast.unparse(side) for side in sides]
        named = any(text.endswith("op.name") or (text == "name" and "lowering" in path.parts) for text in texts)
        if named and any(strings(side) & OPS.keys() for side in sides):
            found.append(node.lineno)
    return sorted(found)


def test_operations_are_not_asked_for_their_names() -> None:
    found = {}
    for folder in ("lowering", "dsl"):
        for path in (ROOT / folder).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(OWN) and (lines := comparisons(path)):
                found[name] = lines
    assert not found


def test_a_comparison_is_found(tmp_path: Path) -> None:
    path = tmp_path / "lowering" / "pass.py"
    path.parent.mkdir()
    path.write_text(
        "if op.name in ('add', 'sub'):\n    pass\nif value.name == 'add':\n    pass\nx = made.op.name != 'mul'\n"
    )
    assert comparisons(path) == [1, 5]
