"""docs/from_triton.md and docs/from_cuda.md: both kernels of each pair compute what numpy does, on the emulator.

The `.tile` text runs with each of its schedules. CUDA C++ becomes PTX by nvcc, and Triton by triton where that is
installed: the emulator runs these, too, and reports their races.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.runtime.foreign import ForeignKernel

ROOT = Path(__file__).parents[1]
TRITON, CUDA = ROOT / "docs" / "from_triton.md", ROOT / "docs" / "from_cuda.md"
RNG = np.random.default_rng(1)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


@dataclass
class Pair:
    """A kernel of a page: its output and inputs, what numpy says, and how the other language launches it."""

    out: np.ndarray
    inputs: list[Any]
    wanted: Callable[..., np.ndarray]
    sizes: list[int]
    grid: tuple[int, ...]
    block: tuple[int, ...] = (128,)
    constants: dict[str, int] | None = None
    arch: str | None = None
    error: float = 2e-5


def softmax_of(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention_of(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float) -> np.ndarray:
    return softmax_of(q @ k.swapaxes(1, 2) * scale) @ v


def linear_of(a: np.ndarray, b: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return np.maximum(a @ b + bias, 0)


def total_of(x: np.ndarray) -> np.ndarray:
    return x.sum(keepdims=True)


def halves_of(x: np.ndarray) -> np.ndarray:
    return np.pad(x, (0, -len(x) % 256)).reshape(-1, 256).sum(axis=1)


f16, f32 = np.float16, np.float32


def empty(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def pairs_of_triton() -> dict[str, Pair]:
    x, rows = [normal(3000), normal(3000)], normal(9, 300)
    a, b, bias = normal(70, 56, dtype=f16), normal(56, 72, dtype=f16), normal(72)
    heads = [normal(2, 100, 64, dtype=f16) for _ in range(3)]
    tiles = {"TM": 64, "TN": 64, "TK": 32}
    return {
        "add": Pair(empty(3000), x, lambda x, y: x + y, [3000], (3,), constants={"BLOCK": 1024}),
        "softmax": Pair(empty(9, 300), [rows], softmax_of, [300], (9,), constants={"COLS": 512}),
        "linear": Pair(
            empty(70, 72, dtype=f16), [a, b, bias], linear_of, [70, 72, 56], (2, 2), constants=tiles, error=2e-3
        ),
        "total": Pair(empty(1), x[:1], total_of, [3000], (3,), constants={"BLOCK": 1024}, error=1e-4),
        "row_sums": Pair(empty(9), [normal(9, 3000)], lambda x: x.sum(axis=1), [], (), error=1e-4),
        "attend": Pair(
            empty(2, 100, 64, dtype=f16), [*heads, 0.125], attention_of, [100], (2, 2),
            constants={"D": 64, "TM": 64, "TN": 64}, error=2e-3,
        ),
        "scale": Pair(empty(3000), x[:1], lambda x: 2 * x, [3000], (3,), constants={"BLOCK": 1024}),
    }  # fmt: skip


def pairs_of_cuda() -> dict[str, Pair]:
    x, n = [normal(3000), normal(3000)], 3000
    a, b = normal(64, 48, dtype=f16), normal(48, 80, dtype=f16)
    return {
        "add": Pair(empty(n), x, lambda x, y: x + y, [n], (3,), (1024,)),
        "softmax": Pair(empty(9, 300), [normal(9, 300)], softmax_of, [300], (9,), (256,)),
        "turn": Pair(empty(70, 50), [normal(50, 70)], lambda x: x.T, [50, 70], (3, 2), (32, 8), error=0),
        "product": Pair(
            empty(50, 40), [normal(50, 33), normal(33, 40)], np.matmul, [50, 40, 33], (3, 4), (16, 16), error=1e-4
        ),
        "tensor": Pair(empty(64, 80), [a, b], np.matmul, [80, 48], (4, 10), (32,), error=1e-4),
        "total": Pair(empty(1), x[:1], total_of, [n], (4,), (256,), error=1e-4),
        "halves": Pair(empty(12), x[:1], halves_of, [n], (12,), (256,), error=1e-4),
    }


PAIRS = {TRITON: pairs_of_triton(), CUDA: pairs_of_cuda()}
CASES = [(page, name) for page, pairs in PAIRS.items() for name in pairs]


def check(pair: Pair, out: np.ndarray) -> None:
    wide = [each.astype(np.float64) if isinstance(each, np.ndarray) else each for each in pair.inputs]
    np.testing.assert_allclose(out, pair.wanted(*wide), rtol=pair.error, atol=pair.error)


@cache
def module_of(page: Path, arch: str | None = None) -> dsl.Module:
    return dsl.parse("\n".join(blocks(page, "tile")), page.name, device="emulator", arch=arch)


def schedules_of(page: Path, name: str) -> list[str]:
    return re.findall(rf"^schedule (\w+) of {name}:", "\n".join(blocks(page, "tile")), re.M)


def test_each_kernel_of_a_page_has_a_case() -> None:
    for page, pairs in PAIRS.items():
        assert set(re.findall(r"^kernel (\w+)\(", "\n".join(blocks(page, "tile")), re.M)) == set(pairs)


@pytest.mark.parametrize(("page", "name"), CASES, ids=lambda each: getattr(each, "stem", each))
def test_the_tile_text_computes_what_numpy_does(page: Path, name: str) -> None:
    pair = PAIRS[page][name]
    for schedule in [None, *schedules_of(page, name)]:
        module, out = module_of(page, "sm_90a" if schedule == "hopper" else None), np.zeros_like(pair.out)
        given = {} if schedule is None else {"schedule": schedule}
        getattr(module, name)(out, *pair.inputs, **given)
        check(pair, out)


def emulate(ptx: str, name: str, pair: Pair, shared: int = 0, warps: int | None = None, extra: int = 0) -> None:
    kernel, out = ForeignKernel(ptx, name), np.zeros_like(pair.out)
    block = pair.block if warps is None else (32 * warps,)
    shape = kernel.shape((*pair.grid, 1, 1)[:3], (*block, 1, 1)[:3], None, (shared, 1024))
    arguments = [out, *pair.inputs, *pair.sizes, *[0] * extra]
    kernel.emulate(shape, arguments, [f"argument {i}" for i in range(len(arguments))])
    check(pair, out)


@pytest.mark.parametrize("page", [TRITON, CUDA], ids=lambda page: page.stem)
def test_the_launch_from_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.tile").write_text("\n".join(blocks(page, "tile")))
    (code,) = (block for block in blocks(page, "python") if "dsl.load" in block)
    shape = (9, 1000) if page == TRITON else (1000,)
    names: dict[str, Any] = {"dsl": dsl, "stream": None, "x": normal(*shape), "y": normal(*shape)}
    exec(code, names)
    x, y = names["x"], names["y"]
    out = y if page == TRITON else names["z"]
    np.testing.assert_allclose(out, softmax_of(x) if page == TRITON else x + y, rtol=1e-5, atol=1e-6)


# ---- CUDA C++ ----


@cache
def ptx_of_cuda() -> str:
    """All kernels of the page, as one file: the page has no name twice, but for what it declares again."""
    nvcc = nvcc_path()
    text = "\n".join(blocks(CUDA, "cuda"))
    command = [nvcc, "-ptx", "-O3", "-arch=sm_90", "-x", "cu", "-o", "-", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def nvcc_path() -> str | None:
    found = importlib.util.find_spec("nvidia")
    folders = found.submodule_search_locations if found else None
    wheels = [Path(folder, "cu13", "bin", "nvcc") for folder in folders or ()]
    return next((str(path) for path in wheels if path.is_file()), shutil.which("nvcc"))


@pytest.mark.skipif(nvcc_path() is None, reason="there is no nvcc")
@pytest.mark.parametrize("name", PAIRS[CUDA])
def test_the_cuda_kernel_computes_what_numpy_does(name: str) -> None:
    emulate(ptx_of_cuda(), name, PAIRS[CUDA][name])


# ---- Triton ----

OF_TRITON = [block for block in blocks(TRITON, "python") if "@triton.jit" in block]


def test_the_blocks_of_triton_are_python() -> None:
    names = [node.name for block in blocks(TRITON, "python") for node in ast.parse(block).body if is_function(node)]
    assert names == [name for name, pair in PAIRS[TRITON].items() if pair.constants]


def is_function(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef)


@pytest.mark.parametrize("name", [name for name, pair in PAIRS[TRITON].items() if pair.constants])
def test_the_triton_kernel_computes_what_numpy_does(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    (tmp_path / "of_triton.py").write_text("import triton\nimport triton.language as tl\n\n" + "\n".join(OF_TRITON))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "of_triton", raising=False)
    found, pair = getattr(importlib.import_module("of_triton"), name), PAIRS[TRITON][name]
    kernel = getattr(found, "fn", found) if hasattr(found, "configs") else found
    kinds = {"float16": "*fp16", "float32": "*fp32"}
    given = [pair.out, *pair.inputs, *pair.sizes]
    types = [kinds[str(e.dtype)] if isinstance(e, np.ndarray) else {int: "i32", float: "fp32"}[type(e)] for e in given]
    signature = dict(zip(kernel.arg_names, [*types, *["constexpr"] * len(pair.constants or {})], strict=True))
    made = compile(ASTSource(kernel, signature, pair.constants), target=GPUTarget("cuda", 90, 32))
    ptx = made.asm["ptx"]
    emulate(ptx[: ptx.find("\t.section")] + "\n", name, pair, made.metadata.shared, made.metadata.num_warps, extra=2)
