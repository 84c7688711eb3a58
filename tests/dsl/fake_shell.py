"""What the cell magic needs of IPython's shell, and no more; and notebooks run by it, as Jupyter would."""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any


class FakeShell:
    """`run_cell` takes lines of Python, `%load_ext NAME`, and cells of the magics that extensions register."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.magics: dict[str, Callable[[str, str], Any]] = {}

    def register_magic_function(self, function: Callable[[str, str], Any], kind: str, name: str) -> None:
        assert kind == "cell"
        self.magics[name] = function

    def run_cell(self, text: str) -> Any:
        """The value of the cell's last line, if that is an expression."""
        if text.startswith("%%"):
            head, _, cell = text.removeprefix("%%").partition("\n")
            name, _, line = head.partition(" ")
            return self.magics[name](line, cell)
        lines = text.splitlines()
        for line in lines:
            if line.startswith("%load_ext "):
                import_module(line.split()[1]).load_ipython_extension(self)
        tree = ast.parse("\n".join("" if line.startswith("%") else line for line in lines))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<cell>", "exec"), self.user_ns)
        return None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), self.user_ns)


def ran(path: Path) -> dict[str, Any]:
    """A notebook with the outputs that its code cells give now."""
    shell, notebook = FakeShell(), json.loads(path.read_text())
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        out = io.StringIO()
        with redirect_stdout(out):
            value = shell.run_cell("".join(cell["source"]))
        cell["outputs"], cell["execution_count"] = [], count
        if out.getvalue():
            text = out.getvalue().splitlines(keepends=True)
            cell["outputs"].append({"name": "stdout", "output_type": "stream", "text": text})
        if value is not None:
            data = {"text/plain": repr(value).splitlines(keepends=True)}
            if hasattr(value, "_repr_html_"):
                data["text/html"] = value._repr_html_().splitlines(keepends=True)
            result = {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}
            cell["outputs"].append(result)
    return notebook
