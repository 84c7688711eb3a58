"""The files of `dsl export`: the same for the same text, without paths, and what other programs need of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from exported_c import STUB, needs_compiler

from dsl.command import cli

SAMPLES = Path(__file__).parents[2] / "samples"


def export(*words: str, status: int = 0) -> str:
    done = CliRunner().invoke(cli, ["export", *words], standalone_mode=False)
    assert done.return_value == status, done.output
    return done.output


def test_files_have_no_paths_and_repeat(tmp_path: Path) -> None:
    texts = []
    for folder in ("one", "quite/another"):
        here = tmp_path / folder
        here.mkdir(parents=True)
        shutil.copy(SAMPLES / "softmax.tile", here / "mine.tile")
        export(str(here / "mine.tile"), "softmax", "rows=64", "-o", str(here / "out"), "--arch", "sm_90")
        texts.append({path.name: path.read_bytes() for path in (here / "out").iterdir()})
    first, second = texts
    assert first == second
    assert sorted(first) == [
        "CMakeLists.txt",
        "softmax.0.softmax_rows.sm_90.ptx",
        "softmax.c",
        "softmax.h",
        "softmax_program.c",
    ]
    images = first["softmax.c"].decode().split("static const unsigned char ")[1:]
    for image in images:  # the cubin and the PTX
        numbers = image.partition("{")[2].partition("}")[0].replace("\n", " ")
        data = bytes(int(each) for each in numbers.split(",") if each.strip())
        assert b"one/" not in data and str(tmp_path).encode() not in data and b"mine.tile" in data
    assert len(images) == 2
    for text in first.values():
        assert str(tmp_path).encode() not in text and b"one/" not in text


def test_the_ptx_is_launched_without_a_compiler(tmp_path: Path) -> None:
    export(str(SAMPLES / "softmax.tile"), "softmax", "rows=8", "-o", str(tmp_path), "--no-cubin")
    (text,) = tmp_path.glob("*.ptx")
    program = f"""
import sys
import numpy as np
from dsl import runtime
kernel = runtime.Kernel(open({str(text)!r}).read(), device="emulator")
x = np.random.default_rng(0).standard_normal((8, 1000)).astype(np.float16)
y = np.empty_like(x)
kernel(y, x)
e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
assert np.abs(y - e / e.sum(axis=1, keepdims=True)).max() < 1e-3
names = ("dsl.lowering", "dsl.kernels.compile", "dsl.text", "dsl.values", "dsl.schedules", "lark", "llvmlite", "click")
print([name for name in names if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_wrong_command_lines_are_refused(tmp_path: Path) -> None:
    softmax, out = str(SAMPLES / "softmax.tile"), str(tmp_path / "out")
    for words, said in (
        (["rows=4"], "no kernel or dispatch is named"),
        (["softmaks"], "has no kernel or dispatch 'softmaks'"),
        (["softmax", "--name", "log"], "'log' cannot be the name of a new function in C"),
        (["softmax", "--name", "a-b"], "'a-b' cannot be the name of a new function in C"),
        (["softmax", "log_softmax", "--name", "one"], "--name is of one function; 2 are exported"),
        (["softmax", "--call", "T=f16", "--call", "T=f32"], "'y' is f16 in one call and f32 in another"),
        (["softmax", "--call", "lines=4"], "lines"),
        (["softmax", "--arch", "sm_1"], "sm_1"),
        (["softmax", "--example", "none"], "has no example 'none'"),
    ):
        assert said in export(softmax, *words, "-o", out, "--no-cubin", status=2)
    assert not Path(out).exists()


@needs_compiler
@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake")
def test_cmake_builds_all_functions(tmp_path: Path) -> None:
    """With a CUDAToolkit of our own, which is the stub."""
    for name in ("softmax", "log_softmax"):  # one after the other into one folder
        export(str(SAMPLES / "softmax.tile"), name, "rows=64", "-o", str(tmp_path), "--no-cubin")
    found = tmp_path / "modules"
    found.mkdir()
    driver = tmp_path / "libcuda.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-I", str(STUB), str(STUB / "driver.c"), "-o", str(driver)], check=True)
    (found / "FindCUDAToolkit.cmake").write_text(
        f"set(CUDAToolkit_FOUND TRUE)\nset(CUDAToolkit_INCLUDE_DIRS {STUB})\n"
        f"add_library(CUDA::cuda_driver SHARED IMPORTED)\n"
        f"set_target_properties(CUDA::cuda_driver PROPERTIES IMPORTED_LOCATION {driver})\n"
    )
    for words in (
        ["-S", str(tmp_path), "-B", str(tmp_path / "build"), f"-DCMAKE_MODULE_PATH={found}"],
        ["--build", str(tmp_path / "build")],
    ):
        done = subprocess.run(["cmake", *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "build" / "softmax_program").is_file() and (tmp_path / "build" / "log_softmax_program").is_file()
