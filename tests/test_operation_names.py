"""What an operation is called is asked in its own files alone. Where it still is elsewhere, it becomes less."""

from __future__ import annotations

import ast
from pathlib import Path

from lowering.ops import OPS

ROOT = Path(__file__).parents[1]
OWN = ("lowering/ops/", "lowering/emit/", "lowering/meaning/")
"""Rows, emission and meaning of operations."""
LEFT = {
    "dsl/access.py": 3, "dsl/functions/shapes.py": 1, "lowering/affine.py": 8, "lowering/facts.py": 11,
    "lowering/fold.py": 29, "lowering/listed_offsets.py": 9, "lowering/loop_forms.py": 3,
    "lowering/passes/lower_exchanges.py": 5, "lowering/passes/lower_matrix_accesses.py": 5,
    "lowering/passes/narrow_scalars.py": 2, "lowering/passes/recompute.py": 1, "lowering/passes/simplify.py": 2,
}  # fmt: skip
"""Comparisons that are left, by file: none is added, and one that goes is taken out here."""


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
    assert {name: len(lines) for name, lines in found.items()} == LEFT, found
