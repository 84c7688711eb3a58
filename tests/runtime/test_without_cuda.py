"""The package installs and emulates where NVIDIA has no wheels, as on macOS."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
NVIDIA = {"cuda-bindings", "nvidia-cuda-nvcc", "nvidia-cuda-nvdisasm"}


@pytest.mark.parametrize("platform", ["linux", "win32", "darwin"])
def test_nvidia_packages_are_asked_for_where_they_have_wheels(platform: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for lines in project["optional-dependencies"].values() for line in lines)]
    asked = {
        requirement.name
        for requirement in map(Requirement, lines)
        if requirement.marker is None or requirement.marker.evaluate({"sys_platform": platform, "extra": "test"})
    }
    assert {"numpy", "llvmlite", "pytest"} <= asked
    assert asked & NVIDIA == (set() if platform == "darwin" else NVIDIA)


SCRIPT = """
import sys

sys.modules["cuda"] = None  # an import of cuda, or of a part of it, fails as if it were not installed
import numpy as np
import dsl
from dsl.runtime import DeviceError, gpu_reason
from dsl.runtime.tools import find

x = np.ones((4, 64), np.float32)
y = dsl.load("samples/softmax.tile").softmax(x)
assert abs(y - 1 / 64).max() < 1e-6, y
assert "cuda" in gpu_reason(), gpu_reason()
try:
    find("no-such-program")
except DeviceError as error:
    assert error.code == "tool", error
else:
    raise AssertionError("a program that is not there was found")
"""


def test_a_kernel_runs_without_cuda_bindings() -> None:
    """Nor does a missing assembler end in an ImportError."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
