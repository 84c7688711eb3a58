"""The pytest plug-in: examples of `.tile` files as tests, and nothing of it where none is asked for."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = """
kernel k(y: f32[n], x: f32[n]):
    grid 1
    y[0 : 64] = x[0 : 64] * 2.0

example:
    x, y = ones(f32[64]), empty(f32[64])
    k(y, x)
    expect y == 2.0 * x
    expect barriers == 0

example wrong:
    x, y = ones(f32[64]), empty(f32[64])
    k(y, x)
    expect y ~= x within 0.5

example broken:
    x, y = ones(f32[64]), empty(f32[64])
    k(y, x)
    expect barriers == 1
    expect time <= 1e9
"""


def pytest_of(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "dsl.pytest_plugin", "-p", "no:cacheprovider", "-rA", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "a.tile").write_text(TEXT)
    (tmp_path / "kernels" / "b.tile").write_text("kernel k(:\n")
    (tmp_path / "kernels" / "test_one.py").write_text("def test_one():\n    pass\n")
    return tmp_path


def test_each_example_of_a_named_file_is_a_test(folder: Path) -> None:
    text = pytest_of(folder, "kernels/a.tile", "kernels/b.tile", "--continue-on-collection-errors")
    assert "2 failed, 1 passed, 1 error" in text and "Traceback" not in text
    assert re.search(r"FAILED kernels/a.tile::wrong\[emulator\]", text)
    assert "first at [0]: 2.0, wanted 1.0" in text
    assert re.search(r"a.tile:20:12: error\[contract\]: barriers == 1: 0 a block", text)
    assert "time <= 1e9: only a GPU measures it" in text
    assert "b.tile:1:10: error[syntax]" in text


def test_folders_are_searched_if_they_are_configured(folder: Path) -> None:
    assert "1 passed" in pytest_of(folder, "kernels") and "a.tile" not in pytest_of(folder, "kernels")
    (folder / "kernels" / "b.tile").unlink()
    (folder / "pytest.ini").write_text("[pytest]\ntile_paths = kernels\n")
    text = pytest_of(folder, "kernels", "-n", "2", "-k", "one or example")
    assert "2 passed" in text and "::example[emulator]" in text


def test_it_is_an_entry_point_that_loads_nothing() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"dsl.pytest_plugin": "dsl.pytest_plugin"}
    told = "import sys, pytest, dsl.pytest_plugin; print({'numpy', 'lark', 'click', 'llvmlite'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", told], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n", done.stderr
