"""Addresses of tensors: the same elements whichever way an offset is written, and few instructions for many rows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dsl.lowering.ir.function import uses
from tests.compile_and_run import compile_kernel, launch

ROOT = Path(__file__).parents[2]
M, N = 37, 40
PLACES = {
    "rows and columns": ("i + R", "8 * j + C", lambda r, c, i, j: (i + r, 8 * j + c)),
    "rows behind": ("i - 3 + R", "8 * j + C", lambda r, c, i, j: (i - 3 + r, 8 * j + c)),
    "every second row": ("2 * R + j", "i + C", lambda r, c, i, j: (2 * r + j, i + c)),
    "a diagonal": ("R + i", "R + C", lambda r, c, i, j: (i + r, r + c)),
    "backwards": ("i + 15 - R", "8 * j + C", lambda r, c, i, j: (i + 15 - r, 8 * j + c)),
    "scaled by a scalar": ("j * R", "i + C", lambda r, c, i, j: (j * r, i + c)),
}
LAYOUTS = ["vector [1, 4], lanes [16, 2], warps [1, 1]", "vector [4, 1], lanes [4, 8], warps [1, 1]"]
TEXT = """
kernel k(y: f32[16, 8], x: f32[m, n{kind}], i: s32, j: s32):
    grid 1
    p, q = {row} + zeros(s32[16, 8]), {column} + zeros(s32[16, 8])
    v = load(x[p, q], mask=(p >= 0) & (p < m) & (q >= 0) & (q < n), other=-1.0)
    y[0 : 16, 0 : 8] = v
schedule s of k:
    warps = 1
    layout v: {layout}
"""


@pytest.mark.parametrize("index_bits", [32, 64])
@pytest.mark.parametrize("kind", ["", "; strided"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PLACES)
def test_the_same_elements(name: str, layout: str, kind: str, index_bits: int) -> None:
    row, column, where = PLACES[name]
    row, column = (e.replace("R", "arange(16)[:, None]").replace("C", "arange(8)[None, :]") for e in (row, column))
    x = np.random.default_rng(1).standard_normal((M, N)).astype(np.float32)
    if kind:
        x = x.T.copy().T
    for i, j in ((0, 0), (5, 3), (33, 4)):
        y = np.zeros((16, 8), np.float32)
        args = {"y": y, "x": x, "i": i, "j": j}
        launch(compile_kernel(TEXT.format(**locals()), args, index_bits=index_bits), args)
        for r in range(16):
            for c in range(8):
                p, q = where(r, c, i, j)
                assert y[r, c] == (x[p, q] if 0 <= p < M and 0 <= q < N else -1.0), (r, c)


ROWS = """
kernel k(y: f32[p, q], x: f32[m, n]):
    grid 1
    assert p == m and where(true, q, m) == n
    r, c = arange(32), arange(128)
    for i in range(0, m, 32):
        v = load(x[(i + r)[:, None], c[None, :]])
        store(y[(i + r)[:, None], c[None, :]], v)
schedule s of k:
    warps = 1
    layout v: vector [1, 4], lanes [1, 32], warps [1, 1]
"""


def test_rows_are_steps_of_one_stride() -> None:
    """32 rows a thread: an addition for each row, products for the first ones."""
    kernel = compile_kernel(ROWS, {"y": np.zeros((64, 128), np.float32), "x": np.zeros((64, 128), np.float32)})
    assert len(re.findall(r"ld\.global\.v4", kernel.ptx)) == len(re.findall(r"st\.global\.v4", kernel.ptx)) == 32
    assert len(re.findall(r"\b(?:mul|mad)\.", kernel.ptx)) <= 8
    assert len(re.findall(r"\bshl\.b64|\badd\.s64", kernel.ptx)) <= 2 * 31 + 8


def test_dims_that_every_launch_has_equal_are_one_value() -> None:
    kernel = compile_kernel(ROWS, {"y": np.zeros((64, 128), np.float32), "x": np.zeros((64, 128), np.float32)})
    function = kernel.variant.function
    used = uses(function.body)
    assert len({name for name in ("q", "n") if used.get(function.dims[name])}) == 1
    x = np.arange(64 * 128, dtype=np.float32).reshape(64, 128)
    y = np.zeros_like(x)
    launch(kernel, {"y": y, "x": x})
    assert (y == x).all()


OPTIONAL = """
kernel k(y: f32[n], x: f32[m, n]?):
    grid where(given(x), 2, 1)
    v = full(f32[16], block(0).to(f32))
    if given(x):
        v = v + x[m - 1, 0 : 16]
    y[block(0) * 16 : block(0) * 16 + 16] = v
"""


def test_what_is_absent_takes_its_dims_along() -> None:
    y, x = np.full(32, -1, np.float32), np.arange(64, dtype=np.float32).reshape(2, 32)
    alone = compile_kernel(OPTIONAL, {"y": y, "x": None})
    assert list(alone.variant.function.dims) == ["n"]
    launch(alone, {"y": y, "x": None})
    assert (y[:16] == 0).all() and (y[16:] == -1).all()
    launch(compile_kernel(OPTIONAL, {"y": y, "x": x}), {"y": y, "x": x})
    assert (y == np.concatenate([x[1, :16], x[1, :16] + 1])).all()


def test_a_text_has_one_machine_code() -> None:
    """In another process, where values have other identities, the same PTX."""
    program = (
        "import dsl, hashlib\n"
        "m = dsl.load('samples/matmul.tile', device='emulator')\n"
        "absent = {'scale', 'bias', 'residual'}\n"
        "ptx = m.compile('product', 'mma_sync', absent=absent, T='f16', m=1000, n=1000, k=1000).ptx\n"
        "print(hashlib.sha256(ptx.encode()).hexdigest())\n"
    )
    said = set()
    for seed in ("1", "999"):
        ballast = f"keep = [object() for _ in range({seed})]\n"
        command = [sys.executable, "-c", ballast + program]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        said.add(done.stdout)
    assert len(said) == 1 and len(said.pop()) == 65
