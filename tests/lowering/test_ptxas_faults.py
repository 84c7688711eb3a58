"""What ptxas makes wrong machine code of is not written: the result is numpy's, on the emulator and on a GPU."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import warpgroup_products
from ptxas_texts import ALIKE, APART, FAULTS, HEAD, entry, kernels_of, products_in

import dsl
from dsl.lowering.machine.ptxas_faults import avoid_faults, keep_products
from dsl.runtime import device_facts
from dsl.runtime.errors import DeviceError
from dsl.runtime.tools import assemble, find, sass

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


def needs_tools() -> None:
    try:
        find("ptxas"), find("nvdisasm")
    except DeviceError as error:
        pytest.skip(str(error))


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
    needs_tools()
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
    text = first[: first.index(".visible .entry")] + "\n".join(bodies)
    found = kernels_of(sass(assemble(text, arch).cubin))
    assert found.keys() == texts.keys()
    return found


@pytest.mark.parametrize("arch", ["sm_89", "sm_90", "sm_100"])
def test_no_conversion_to_unsigned_bytes_has_a_maximum_with_0(arch: str) -> None:
    """F2IP.U8.F32.RELU is an illegal instruction on an H200."""
    needs_tools()
    kernels = {f"k{number}": text for number, text in enumerate(RELUS)}
    texts = {}
    for name, text in kernels.items():
        module = dsl.parse(re.sub(r"\bk\b", name, QUANTISED.format(text)), device="emulator")
        texts[name] = module.compile(name, "s", arch=arch, T="u8").ptx
    for name, code in machine_codes(texts, arch).items():
        text = kernels[name]
        assert ("F2IP.U8" in code or "floor" in text) and ".RELU" not in code, text


@cache
def machine_code_of_texts() -> dict[str, str]:
    """Of all faults' texts and of products that are alike, as they are and mended, by name. One run is cheaper."""
    bodies = {name: fault.body for name, fault in FAULTS.items()}
    bodies |= {name: body for name, (body, _) in (ALIKE | APART).items()}
    ptx = HEAD
    for name, body in bodies.items():
        ptx += entry(name, body) + avoid_faults(entry(f"{name}_mended", body))
    return kernels_of(sass(assemble(ptx, "sm_90a").cubin))


@pytest.mark.parametrize("name", FAULTS)
def test_an_assembler_makes_the_faults_that_are_known_of_its_version_and_none_of_what_is_mended(name: str) -> None:
    needs_tools()
    fault, code = FAULTS[name], machine_code_of_texts()
    said = subprocess.run([find("ptxas"), "--version"], capture_output=True, text=True, timeout=60).stdout
    release = re.search(r"release (\d+)\.(\d+)", said)
    assert release is not None, said
    assert fault.shows(code[name]) == fault.is_known((int(release[1]), int(release[2]))), code[name]
    assert not fault.shows(code[f"{name}_mended"]), code[f"{name}_mended"]


def test_products_that_are_alike_are_all_done() -> None:
    needs_tools()
    code = machine_code_of_texts()
    found = {name: products_in(code[f"{name}_mended"]) for name in ALIKE | APART}
    assert found == {name: count for name, (_, count) in (ALIKE | APART).items()}


@pytest.mark.parametrize("name", APART)
def test_no_fence_is_written_where_products_differ(name: str) -> None:
    text = entry(name, APART[name][0])
    assert keep_products(text) == text


AGAIN = """
def as_it_is(v; T):
    if T == f32:
        return bitcast(v, tf32)
    return v

def twice(v; T):
    return as_it_is(v + v, T=T)

kernel k(c: O[64, 16], a: T[64, n], b: T[16, n]; T in f16|bf16|f32|s8|u8|e4m3|e5m2, O in f32|s32, STEP):
    grid 1
    acc = zeros(O[64, 16])
    for p in range(0, n, STEP):
        x = {left}(a[0 : 64, p : p + STEP], T=T)
        y = as_it_is(b[0 : 16, p : p + STEP].T, T=T)
{products}    c[0 : 64, 0 : 16] = acc

schedule s of k:
    STEP, warps = {step}, 4
    instruction acc: wgmma
"""
OPERANDS: dict[str, tuple[Any, int]] = {
    "f16": (np.float16, 2),
    "bf16": (ml_dtypes.bfloat16, 2),
    "f32": (np.float32, 4),
    "s8": (np.int8, 1),
    "u8": (np.uint8, 1),
    "e4m3": (ml_dtypes.float8_e4m3fn, 1),
    "e5m2": (ml_dtypes.float8_e5m2, 1),
}


def of_products_again(name: str, left: str, times: int) -> str:
    """A kernel that multiplies one step along K so many times."""
    lines = "        acc = dot(x, y, acc)\n" * times
    return AGAIN.format(left=left, products=lines, step=32 // OPERANDS[name][1])


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("left", ["as_it_is", "twice"])
@pytest.mark.parametrize("name", OPERANDS)
def test_a_product_of_the_same_operands_several_times_in_a_row(name: str, left: str, device: str) -> None:
    """Eight times on the emulator; on a device 2, 3, 4 and 8 times, where a fault of ptxas left products out."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    if name.startswith("e") and left == "twice":
        pytest.skip("there are no sums of eight-bit floats")
    dtype, size = OPERANDS[name]
    digits = np.random.default_rng(0).integers(0, 4, (80, 2 * 32 // size))
    a, b = digits[:64].astype(dtype), digits[64:].astype(dtype)
    for times in (8,) if device == "emulator" else (2, 3, 4, 8):
        c = np.zeros((64, 16), np.int32 if name in ("s8", "u8") else np.float32)
        module = dsl.parse(of_products_again(name, left, times), device=device, arch="sm_90a")
        module.k(c, a, b)
        np.testing.assert_array_equal(c, times * (2 if left == "twice" else 1) * (digits[:64] @ digits[64:].T))


def test_each_slot_of_products_has_a_fence_of_its_own() -> None:
    """So nothing is written around the fifth fault in what the compiler makes of products."""
    texts = [
        dsl.parse(of_products_again("f16", "as_it_is", 3), device="emulator", arch="sm_90a")
        .compile("k", n=64, T="f16", O="f32")
        .ptx
    ]
    asked = {"m": 512, "n": 512, "k": 4096, "T": "f16", "O": "f32"}
    module = dsl.parse(warpgroup_products.text(64, 64, 64, 4, "pipeline p: 3"), device="emulator")
    texts.append(module.compile("product", **asked).ptx)
    for ptx in texts:
        assert "wgmma.mma_async" in ptx
        for part in re.split(r"wgmma\.fence", ptx)[1:]:
            stage = part.partition("wgmma.commit_group")[0]
            assert (
                stage.count("wgmma.mma_async") == 1 + stage.count("add.u64 b, b, ") and "add.u64 b, b, 0" not in stage
            )
        assert keep_products(ptx) == ptx
