"""Swizzles that a schedule pins: right, or an error at the line that pins them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from warpgroup_products import text

import dsl
from dsl.command import main
from dsl.lowering.ir.location import TileError
from tests.compile_and_run import NUMPY, compile_kernel, launch

TEXT = """
kernel k(y: {type}[64, 64], x: {type}[64, 64]):
    grid 1
    shared s: {type}[64, 64]
    {how}
    v = s[:, :]
    store(y[0 : 64, 0 : 64], v)
schedule p of k:
    warps = 4
    swizzle s: 2, {base}, 3
    {layout}
"""
STORED = "v = load(x[0 : 64, 0 : 64])\n    s = v"
COPIED = "copy(s[0 : 64, 0 : 64], x[0 : 64, 0 : 64])\n    commit()\n    wait(0)"


@pytest.mark.parametrize("how", [STORED, COPIED], ids=["stored", "copied"])
@pytest.mark.parametrize("name", ["u8", "f16", "f32", "f64"])
def test_a_swizzle_keeps_accesses_together_or_is_refused(name: str, how: str) -> None:
    """Of 16 bytes: bits below 4 would tear them apart."""
    x = np.arange(4096).reshape(64, 64).astype(NUMPY[name])
    for base in range(6):
        args = {"y": np.zeros_like(x), "x": x}
        text = TEXT.format(type=name, how=how, base=base, layout="")
        if base >= 4:
            launch(compile_kernel(text, args), args)
            assert np.array_equal(args["y"], x)
            continue
        with pytest.raises(TileError, match=f"moves bits from {base} up, within the 16 bytes of an access") as caught:
            compile_kernel(text, args)
        assert "swizzle s" in caught.value.loc.source.line(caught.value.loc.line)


WIDE = """
kernel k(y: f64[16, 256], x: f64[16, 256]):
    grid 1
    shared s: f64[16, 256]
    v = load(x[0 : 16, 0 : 256])
    s = v
    w = s[:, :]
    store(y[0 : 16, 0 : 256], w)
schedule p of k:
    warps = 4
    swizzle s: {bits}
    layout v: vector [1, 1], lanes [1, 32], warps [1, 4]
    layout w: vector [1, 1], lanes [16, 2], warps [1, 4]
"""


@pytest.mark.parametrize("bits", ["3, 4, 3", "4, 3, 4", "4, 3, 8", "3, 7, 4"])
def test_shared_memory_begins_at_a_multiple_of_1024_and_no_more(bits: str) -> None:
    """With `.align 2048` it is at 0x400 on a device. Bits from 1024 up that are moved, or moved by, were XORed with its
    address: threads read another's element, or outside of the block's memory (seed 97014024 of the random kernels)."""
    x = np.arange(4096.0).reshape(16, 256)
    args = {"y": np.zeros_like(x), "x": x}
    kernel = compile_kernel(WIDE.format(bits=bits), args)
    launch(kernel, args)
    assert np.array_equal(args["y"], x)
    (declared,) = re.findall(r"\.extern \.shared \.align (\d+)", kernel.ptx)
    assert int(declared) <= 1024


@pytest.mark.parametrize(("name", "base"), [("f32", 2), ("f32", 3), ("f16", 1), ("u8", 0), ("f64", 3)])
def test_narrow_accesses_allow_low_bits_above_an_element(name: str, base: int) -> None:
    x = np.arange(4096).reshape(64, 64).astype(NUMPY[name])
    args = {"y": np.zeros_like(x), "x": x}
    narrow = "layout v: vector [1, 1], lanes [1, 32], warps [4, 1]"
    launch(compile_kernel(TEXT.format(type=name, how=STORED, base=base, layout=narrow), args), args)
    assert np.array_equal(args["y"], x)
    if base:
        with pytest.raises(TileError, match="within the"):
            compile_kernel(TEXT.format(type=name, how=STORED, base=base - 1 if base < 3 else 1, layout=narrow), args)


MATRICES = """
kernel k(y: f16[64, 64], x: f16[64, 64]):
    grid 1
    shared s: f16[64, 64]
    a = load(x[0 : 64, 0 : 64])
    {how}
schedule p of k:
    swizzle s: {bits}
"""


@pytest.mark.parametrize(
    "how",
    [
        "s[:, :] = a\n    b = ldmatrix(s[:, :])\n    store(y[0 : 64, 0 : 64], (b @ b.T).to(f16))",
        "c = (a @ a.T).to(f16)\n    stmatrix(s[:, :], c)\n    store(y[0 : 64, 0 : 64], s[:, :])",
    ],
    ids=["ldmatrix", "stmatrix"],
)
def test_rows_of_matrices_are_kept_together_too(how: str) -> None:
    args = {"y": np.zeros((64, 64), np.float16), "x": np.eye(64, dtype=np.float16)}
    with pytest.raises(TileError, match="moves bits from 3 up, within the 16 bytes of an access"):
        compile_kernel(MATRICES.format(how=how, bits="3, 3, 5"), args)
    launch(compile_kernel(MATRICES.format(how=how, bits="3, 4, 3"), args), args)
    assert np.array_equal(args["y"], args["x"])


@pytest.mark.parametrize("command", [["check"], ["layout", "--value", "v"], ["layout"], ["run"]], ids=" ".join)
def test_every_command_refuses_a_swizzle_that_cuts_an_access(command: list[str], tmp_path: Path, capsys) -> None:
    text = TEXT.format(type="f32", how=COPIED, base=3, layout="")
    path = tmp_path / "k.tile"
    path.write_text(text + "example:\n    x = randn(f32[64, 64])\n    y = empty(f32[64, 64])\n    k(y, x) with p\n")
    with pytest.raises(SystemExit) as end:
        main([command[0], str(path), *command[1:]])
    assert end.value.code
    printed = capsys.readouterr()
    assert "moves bits from 3 up, within the 16 bytes of an access" in printed.out + printed.err


BOXES = """
kernel f(y: f32[TR, 64], x: f16[n, TR, 64]; TR=32):
    grid 1
    total = zeros(f32[TR, 64])
    for p in range(n):
        total = total + x[p, 0 : TR, 0 : 64].to(f32)
    y[0 : TR, 0 : 64] = total
schedule boxes of f:
    stage x: tma
    pipeline p: 2
    swizzle sx: {bits}
"""


@pytest.mark.parametrize(
    ("rows", "bits", "said"),
    [(32, "3, 4, 3", "3, 4, 3"), (32, "none", "3, 4, 3"), (32, "2, 4, 3", "3, 4, 3"), (4, "none", "none"),
     (4, "2, 4, 3", "none")],
)  # fmt: skip
def test_a_swizzle_of_boxes_is_that_of_their_rows_or_an_error(rows: int, bits: str, said: str) -> None:
    """It was left aside without a word."""
    module = dsl.parse(BOXES.format(bits=bits), device="emulator")
    if bits == said:
        x, y = np.arange(3 * rows * 64).reshape(3, rows, 64).astype(np.float16) % 99, np.zeros((rows, 64), np.float32)
        module.f(y, x, TR=rows)
        assert np.array_equal(y, x.astype(np.float32).sum(0))
        return
    message = f"'sx' has the swizzle of its {rows} rows of 128 bytes, which is {said}: copies of boxes"
    with pytest.raises(TileError, match=message) as caught:
        module.compile("f", n=3, TR=rows)
    assert caught.value.loc is not None and f"swizzle sx: {bits}" in caught.value.loc.source.line(caught.value.loc.line)
    assert caught.value.hint == f"swizzle sx: {said}, or leave out the line"


@pytest.mark.parametrize("bits", ["none", "3, 4, 3"])
def test_a_swizzle_of_what_warp_groups_read_too(bits: str) -> None:
    source = text(64, 64, 64, 4, f"swizzle sa: {bits}")
    module = dsl.parse(source, device="emulator")
    if bits == "none":
        with pytest.raises(TileError, match="'sa' has the swizzle of its 64 rows of 128 bytes, which is 3, 4, 3"):
            module.compile("product", m=64, n=64, k=128)
    else:
        assert "wgmma" in module.compile("product", m=64, n=64, k=128).ptx
