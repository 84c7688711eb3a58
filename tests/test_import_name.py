"""All is imported as `dsl.…`: nothing else is in the way of a user's own modules."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
needs_history = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a source distribution has no list of files")
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


def write_rooms(folder: Path, kind: str) -> None:
    """A user's own modules, "files" or "folders", that are named as our rooms are."""
    for name in ("lowering", "ptx_templates", "runtime"):
        path = folder / f"{name}.py" if kind == "files" else folder / name / "__init__.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("MINE = 1\n")


@pytest.mark.parametrize("kind", ["files", "folders"])
def test_a_user_s_modules_may_have_the_names_of_rooms(tmp_path: Path, kind: str) -> None:
    """A `runtime.py` beside the user's program was imported in place of ours: ImportError."""
    write_rooms(tmp_path, kind)
    (tmp_path / "main.py").write_text(USER)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    new = [sys.executable, "-m", "dsl", "new", "mine"]
    for command in ([sys.executable, "main.py"], new, [sys.executable, "-m", "dsl", "check", "mine.tile"]):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stderr)


def test_one_top_level_name_is_packaged() -> None:
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    assert packaged == ["dsl*"] and [path.parent for path in ROOT.glob("*/__init__.py")] == [ROOT / "dsl"]


@needs_history
def test_the_wheel_holds_all_files_that_are_no_code() -> None:
    """A file of data without a row of package-data is in a checkout and in an editable install, but in no wheel.

    `python -m tests.packaged` builds one."""
    tracked = subprocess.run(["git", "ls-files", "dsl"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    data = {ROOT / name for name in tracked.splitlines() if not name.endswith((".py", ".md"))}
    assert {path.suffix for path in data} >= {".toml", ".lark", ".html", ".json", ".tile", ".typed"}
    rows = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    packaged = {
        path
        for package, patterns in rows.items()
        for pattern in patterns
        for path in ROOT.joinpath(*package.split(".")).glob(pattern)
    }
    assert not data - packaged


@needs_history
def test_the_source_distribution_names_all_folders() -> None:
    """A new folder without a row of MANIFEST.in is in a checkout only. `python -m tests.packaged` builds one."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    folders = {name.split("/")[0] for name in listed.splitlines() if "/" in name}
    grafted = {row.split()[1] for row in (ROOT / "MANIFEST.in").read_text().splitlines() if row.startswith("graft ")}
    assert folders == grafted
