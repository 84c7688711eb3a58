"""What ptxas makes wrong machine code of is not written: the result is numpy's, on the emulator and on a GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest

import dsl
from runtime.errors import DeviceError
from runtime.tools import assemble, find, sass

TEXT = """
kernel k(y: T[n], z: i1[n], w: i1[n], x: T[n], a: T[n], b: T[n]; T in s8|s16|s32|u16|u32):
    grid 1
    i = arange(128)
    p, q, r = load(x[i]), load(a[i]), load(b[i])
    store(y[i], maximum(r, maximum(p, 0 - q)) + minimum(p, minimum(0 - r, q)) + maximum(q, abs(p)))
    store(z[i], maximum(p, 0) == 0)
    store(w[i], (clamp(p, 0, 9) == 9) ^ (q.to(u8, saturate) == 255) ^ (maximum(minimum(r, 99), 0) != 99))

schedule s of k:
    warps = 4
"""
TYPES = ("s8", "s16", "s32", "u16", "u32")


def expected(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    zero = x.dtype.type(0)
    y = np.maximum(b, np.maximum(x, zero - a)) + np.minimum(x, np.minimum(zero - b, a)) + np.maximum(a, np.abs(x))
    return y.astype(x.dtype), np.maximum(x, zero) == 0, (x >= 9) ^ (a >= 255) ^ (b < 99)


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", TYPES)
def test_signs_and_halves_are_kept(name: str, device: str) -> None:
    dtype = np.dtype(name.replace("s", "int").replace("u", "uint"))
    random = np.random.default_rng(0)
    x, a, b = (random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 128, dtype, endpoint=True) for _ in range(3))
    x[:32], a[:32], b[:32] = (random.integers(0, 12, 32) + low for low in (0, 100, 92))
    y, z, w = np.zeros(128, dtype), np.zeros(128, bool), np.zeros(128, bool)
    dsl.parse(TEXT, device=device).k(y, z, w, x, a, b)
    wanted = expected(x, a, b)
    assert (y == wanted[0]).all() and (z == wanted[1]).all() and (w == wanted[2]).all()


@pytest.mark.parametrize("name", TYPES)
def test_what_ptxas_takes_wrongly_is_not_written(name: str) -> None:
    """Of unsigned numbers it keeps the signs."""
    ptx = dsl.parse(TEXT, device="emulator").compile("k", "s", arch="sm_90", n=128, T=name).ptx
    assert not re.search(r"\b(?:min|max)\.[su]16\b", ptx)
    assert name.startswith("u") or not re.search(r"\bneg\.s(?:16|32)\b", ptx)
    assert name != "s32" or ptx.count("not.b32 %sign") == 2  # clamped to bytes, and to 0 … 99
    try:
        find("ptxas"), find("nvdisasm")
    except DeviceError as error:
        pytest.skip(str(error))
    code = sass(assemble(ptx, "sm_90").cubin)
    assert "MNMX" in code and not re.search(
        r"MNMX[.\w]* \w+, P\d", code
    )  # by any assembler: no predicate of an extreme


QUANTISED = """
kernel k(y: T[128], x: f32[128]; T in u8|s8):
    grid 1
    v = load(x[0 : 128])
    store(y[0 : 128], {})

schedule s of k:
    warps = 1
"""
RELUS = ("relu(v).to(T)", "round(relu(v)).to(T)", "where(v > 0.0, v, 0.0).to(T, saturate)", "maximum(v, -0.0).to(T)",
         "maximum(minimum(v, 255.0), 0.0).to(T)", "floor(maximum(0.0, v)).to(T)", "clamp(v, 0.0, 255.0).to(T)",
         "where(v < 0.0, 0.0, v).to(T)", "where(v >= 0.0, v, 0.0).to(T)")  # fmt: skip


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("kind", ["u8", "s8"])
@pytest.mark.parametrize("text", RELUS)
def test_bytes_of_floats_that_are_at_least_0(text: str, kind: str, device: str) -> None:
    x = np.random.default_rng(0).uniform(-90, 90, 128).astype(np.float32)
    x[:8] = (-0.0, 0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -127.0)
    y = np.zeros(128, np.uint8 if kind == "u8" else np.int8)
    dsl.parse(QUANTISED.format(text), device=device).k(y, x)
    at_least = np.maximum(x, 0)
    assert (y == (np.round(at_least) if "round" in text else np.floor(at_least))).all()


def machine_codes(texts: Mapping[str, str], arch: str) -> dict[str, str]:
    """The machine code of PTX texts with a kernel each, by its name. nvdisasm takes 0.3 s, of one kernel or of many."""
    entries = [re.search(r"^\.visible \.entry.*?^}$", ptx, re.M | re.S) for ptx in texts.values()]
    first = next(iter(texts.values()))
    bodies = [re.sub(r"^\s*\.loc\s.*$", "", entry[0], flags=re.M) for entry in entries if entry]
    together = first[: first.index(".visible .entry")] + "\n".join(bodies)
    parts = re.split(r"^\s*\.section\s+\.text\.([^,\s]+).*$", sass(assemble(together, arch).cubin), flags=re.M)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert found.keys() == texts.keys()
    return found


@pytest.mark.parametrize("arch", ["sm_89", "sm_90", "sm_100"])
def test_no_conversion_to_unsigned_bytes_has_a_maximum_with_0(arch: str) -> None:
    """F2IP.U8.F32.RELU is an illegal instruction on an H200."""
    try:
        find("ptxas"), find("nvdisasm")
    except DeviceError as error:
        pytest.skip(str(error))
    kernels = {f"k{number}": text for number, text in enumerate(RELUS)}
    texts = {}
    for name, text in kernels.items():
        module = dsl.parse(re.sub(r"\bk\b", name, QUANTISED.format(text)), device="emulator")
        texts[name] = module.compile(name, "s", arch=arch, T="u8").ptx
    for name, code in machine_codes(texts, arch).items():
        text = kernels[name]
        assert ("F2IP.U8" in code or "floor" in text) and ".RELU" not in code, text
