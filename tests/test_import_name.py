"""All is imported as `dsl.…`: nothing else is in the way of a user's own modules."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
USER = """
import lowering, ptx_templates, runtime
assert runtime.MINE == lowering.MINE == ptx_templates.MINE == 1
import numpy as np
import dsl
x = np.arange(300, dtype=np.float32)
text = "kernel k(y: f32[n], x: f32[n]):\\n    grid 3\\n    i = block(0) * 128\\n    y[i : i + 128] = x[i : i + 128]\\n"
y = np.zeros_like(x)
dsl.parse(text, device="emulator").k(y, x)
assert (y == x).all()
"""


@pytest.mark.parametrize("kind", ["files", "folders"])
def test_a_user_s_modules_may_have_the_names_of_rooms(tmp_path: Path, kind: str) -> None:
    """A `runtime.py` beside the user's program was imported in place of ours: ImportError."""
    for name in ("lowering", "ptx_templates", "runtime"):
        path = tmp_path / f"{name}.py" if kind == "files" else tmp_path / name / "__init__.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("MINE = 1\n")
    (tmp_path / "main.py").write_text(USER)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_one_top_level_name_is_packaged() -> None:
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    assert packaged == ["dsl*"] and [path.parent for path in ROOT.glob("*/__init__.py")] == [ROOT / "dsl"]
