"""Modules, functions and kernels are copied, and sent to other processes. What the package shows of itself."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

import dsl

sys.path.insert(0, str(Path(__file__).resolve().parent))
from declared_kernels import RULES

ROOT = Path(__file__).parents[2]


def copies(x: Any) -> list[Any]:
    return [copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))]


def test_modules_functions_and_kernels_can_be_copied() -> None:
    """A network that held one of them could be neither copied nor saved nor sent to a worker."""
    x = np.random.default_rng(0).standard_normal((4, 50)).astype(np.float32)
    m = dsl.load(ROOT / "samples" / "softmax.tile", device="emulator", arch="sm_90")
    y = m.softmax(x)
    for module in copies(m):
        assert module is not m and module.arch == "sm_90" and module.device == "emulator"
        assert (module.softmax(x) == y).all()
    for function in copies(m.log_softmax):
        assert (function(x) == m.log_softmax(x)).all()
    kernel = m.compile("softmax_rows", rows=4, cols=50, T="f32")
    for other in copies(kernel):
        made = np.zeros_like(x)
        other(made, x)
        assert other is not kernel and other.ptx == kernel.ptx and (made == y).all()
    first, second = copy.deepcopy((m.softmax, m.log_softmax))
    assert first.module is second.module is not m
    assert all(
        (each.shorter(x[0]) == x[0, :48]).all() for each in copies(dsl.parse(RULES, device="emulator"))
    )  # a text without a file


def test_a_pickle_is_read_by_another_process(tmp_path: Path) -> None:
    (tmp_path / "own.tile").write_text(RULES)
    x = np.arange(40, dtype=np.float32)
    data = tmp_path / "data"
    data.write_bytes(pickle.dumps((dsl.load(tmp_path / "own.tile", device="emulator").shorter, x)))
    code = "import pickle, sys; f, x = pickle.load(open(sys.argv[1], 'rb')); print(f(x).sum())"
    run = subprocess.run([sys.executable, "-c", code, data], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout.strip() == str(x[:38].sum()), run.stderr


def test_the_package_lists_its_names() -> None:
    assert {"load", "parse", "Module", "TileError", "__version__"} <= {*dir(dsl)} and "import_module" not in dir(dsl)
    assert dsl.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for name in dir(dsl):
        assert name.startswith("__") or inspect.getdoc(getattr(dsl, name)), name


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, dsl; dsl.load; dsl.Module; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
