"""On a GPU, a process without Python gives the bits that a launch from Python gives."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported_c import FLAGS, asked, exported, needs_compiler, real_headers

import dsl
from dsl.calls.plan import BoundPlan, Plan
from dsl.export.model import ExportedArray
from dsl.runtime.devices import device_facts
from dsl.runtime.dtypes import DTYPES, numpy_dtype
from dsl.text.program import load
from dsl.values.facts import ArrayFacts

SAMPLES = Path(__file__).parents[2] / "samples"
CASES = {
    "softmax": ("softmax", "softmax", []),
    "softmax in a cluster": ("softmax", "softmax", ["rows=16", "cols=200000"]),
    "a reduction": ("reduction", "v5", []),
    "rows": ("reduce", "rows", []),
    "int8 convolution": ("int8_conv", "conv2d", []),
    "f16 convolution": ("int8_conv", "conv2d_nhwc", ["T=f16"]),
    "wgmma": ("matmul", "matmul", ["m=1024", "n=1024", "k=1024"]),
    "copies of operands": ("matmul", "matmul", ["m=401", "n=401", "k=401"]),
    "split": ("matmul", "matmul", ["m=256", "n=256", "k=16384"]),
    "attention": ("attention", "attention", []),
}


def random_array(array: ExportedArray, facts: ArrayFacts, number: int) -> Any:
    random = np.random.default_rng(number)
    dtype = numpy_dtype(array.dtype)
    if DTYPES[array.dtype].is_float:
        return random.standard_normal(facts.shape, np.float32).astype(dtype)
    return random.integers(-128 if array.dtype[0] == "s" else 0, 128, facts.shape).astype(dtype)


def libcuda() -> str:
    """The path of the driver's library, which this process has loaded."""
    dsl.runtime.device_facts("cuda")  # type: ignore[attr-defined]
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(path for line in lines if "libcuda.so" in (path := line.split()[-1]))


def built(folder: Path, name: str) -> Path:
    include = real_headers()
    assert include is not None
    sources = [str(folder / f"{name}.c"), str(folder / f"{name}_program.c")]
    command = ["gcc", *FLAGS, "-isystem", str(include), *sources, libcuda(), "-lm", "-o", str(folder / "program")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "program"


@pytest.mark.gpu
@needs_compiler
@pytest.mark.skipif(real_headers() is None, reason="NVIDIA's cuda.h is not installed")
@pytest.mark.parametrize("has_cubin", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_a_c_program_gives_the_bits_of_python(case: str, has_cubin: bool, tmp_path: Path) -> None:
    file, name, values = CASES[case]
    path, arch = SAMPLES / f"{file}.tile", device_facts("cuda").arch
    arch = f"{arch}a" if int(arch.removeprefix("sm_")) >= 90 else arch
    function = exported(load(str(path)), name, asked(values, targets=(arch,)), tmp_path, has_cubin)
    (call,) = function.calls
    given = dict(call.arguments)
    for number, array in enumerate(function.arrays.values()):
        facts = call.arguments[array.name]
        if isinstance(facts, ArrayFacts):
            assert facts.strides is None
            given[array.name] = random_array(array, facts, number)
            if array.read:
                given[array.name].tofile(tmp_path / f"{array.name}.bin")
            else:
                given[array.name] = np.zeros_like(given[array.name])
    kept = {name: value for name, value in os.environ.items() if name.startswith(("CUDA_", "LD_"))}
    done = subprocess.run([built(tmp_path, name), tmp_path], capture_output=True, text=True, env=kept)
    assert done.returncode == 0, done.stdout + done.stderr
    module = dsl.load(path, device="cuda", arch=arch)
    BoundPlan(module[name], Plan([*call.steps])).launch(given)
    for array in function.arrays.values():
        if array.written and isinstance(call.arguments[array.name], ArrayFacts):
            assert (tmp_path / f"{array.name}.out").read_bytes() == given[array.name].tobytes(), array.name
            assert given[array.name].tobytes().strip(b"\0"), "the kernel has written something"
