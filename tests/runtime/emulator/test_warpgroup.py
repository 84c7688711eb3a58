"""`wgmma`: products against numpy, and what may not happen while they are in flight."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from warpgroup_kernel import Case, Side, fragments, headed, image, numpy_types, sums_at, text

from dsl.runtime import Kernel, assemble, device_facts, to_device
from dsl.runtime.emulator import Kind, PtxError, emulate
from dsl.runtime.emulator.sums_in_flight import FlyingSums, step

FLOATS: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "f32": np.float32,
}
INTEGERS: dict[str, Any] = {"s8": np.int8, "u8": np.uint8, "s32": np.int32}
ACROSS = Side(1, True)
CASES = {
    "f16": Case("f32", "f16", "f16", 64, k_bytes=128),
    "f16 all columns": Case("f32", "f16", "f16", 256),
    "f16 sums": Case("f16", "f16", "f16", 24),
    "f16 b across": Case("f32", "f16", "f16", 128, right=ACROSS, k_bytes=128),
    "f16 both across, 64 and 32 bytes": Case("f32", "f16", "f16", 48, Side(2, True), Side(3, True)),
    "bf16 no swizzle": Case("f32", "bf16", "bf16", 40, Side(0), Side(0)),
    "f16 two panels": Case("f32", "f16", "f16", 16, k_bytes=256),
    "f16 registers": Case("f32", "f16", "f16", 32, in_registers=True),
    "bf16 registers, b across": Case("f32", "bf16", "bf16", 64, right=ACROSS, in_registers=True),
    "tf32": Case("f32", "tf32", "tf32", 72, Side(2), Side(1)),
    "tf32 registers": Case("f32", "tf32", "tf32", 8, in_registers=True),
    "s8": Case("s32", "s8", "s8", 96, k_bytes=128),
    "u8 s8 registers": Case("s32", "u8", "s8", 32, in_registers=True),
    "s8 u8, clamped": Case("s32", "s8", "u8", 8, saturate=True),
    "e4m3 e5m2": Case("f32", "e4m3", "e5m2", 32, Side(3), Side(2)),
    "e5m2, f16 sums": Case("f16", "e5m2", "e4m3", 16),
    "negated": Case("f32", "f16", "f16", 16, signs=(-1, 1)),
    "negated twice": Case("f32", "f16", "f16", 16, signs=(-1, -1)),
    "from zero": Case("f32", "f16", "f16", 32, starts_at_zero=True),
    "s8 from the third row on": Case("s32", "s8", "s8", 16, Side(1, first=3, eights=10), Side(2, first=7), k_bytes=64),
    "windows of 32 bytes": Case("s32", "s8", "s8", 24, Side(3, first=13, eights=9), Side(3, first=2, eights=13), 32),
    "f16 windows, two panels": Case("f32", "f16", "f16", 32, Side(1, first=22, eights=12), Side(2, first=1), 256),
    "s8 from zero": Case("s32", "s8", "s8", 16, starts_at_zero=True),
}


def operand(case: Case, name: str, rows: int, random: Any) -> tuple[Any, Any]:
    """(bits, values) of a random operand, [rows, k]."""
    if name in INTEGERS:
        made = random.integers(-128, 256, (rows, case.k)).astype(INTEGERS[name])
        return made.view(np.uint8), made.astype(np.int64)
    made = random.standard_normal((rows, case.k)).astype(FLOATS[name])
    bits = made.view(numpy_types(case)[0])
    if name == "tf32":
        bits = bits & np.uint32(0xFFFFE000)
        return bits, bits.view(np.float32).astype(np.float64)
    return bits, made.astype(np.float64)


def problem(case: Case) -> tuple[list[Any], Any, Any]:
    """(arrays of the kernel, the sums as they should be, and of the absolute values of all that is added)."""
    random = np.random.default_rng(1)
    a, left = operand(case, case.a, 64, random)
    b, right = operand(case, case.b, case.n, random)
    kind = INTEGERS.get(case.d) or FLOATS[case.d]
    start = random.standard_normal((64, case.n)).astype(kind)
    if case.is_integer:
        start = random.integers(-(2**31), 2**31, (64, case.n)).astype(kind)
    sums = left @ right.T * (case.signs[0] * case.signs[1])
    sums = sums + (0 if case.starts_at_zero else start.astype(sums.dtype))
    if case.saturate:
        sums = np.clip(sums, -(2**31), 2**31 - 1)
    wanted = sums.astype(kind)
    at = sums_at(case.n)
    result = np.zeros((128, case.n // 2), kind)
    sizes = np.abs(left.astype(np.float64)) @ np.abs(right.astype(np.float64)).T + np.abs(start.astype(np.float64))
    return [image(case, a, b), fragments(case, a), np.ascontiguousarray(start[at]), result], wanted[at], sizes[at]


def words(array: Any) -> Any:
    return np.ascontiguousarray(array).view(np.uint32).ravel()


def check(case: Case, found: Any, wanted: Any, sizes: Any, unit: float) -> None:
    """Each instruction rounds once, by `unit` of what is added."""
    if case.is_integer:
        assert np.array_equal(found, wanted)
    else:
        error = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
        assert (error <= (case.k_bytes // 32 + 1) * unit * sizes).all()


UNITS = {"f32": 2.0**-24, "f16": 2.0**-11, "s32": 0.0}


@pytest.mark.parametrize("name", CASES)
def test_a_product_is_numpys(name: str) -> None:
    case = CASES[name]
    arrays, wanted, sizes = problem(case)
    passed = [words(each) for each in arrays]
    emulate(text(case), "kernel", 1, 128, passed)
    check(case, passed[3].view(wanted.dtype).reshape(wanted.shape), wanted, sizes, UNITS[case.d])


@pytest.mark.parametrize(("adds", "found"), [("%p1", False), ("0", False), ("!%p2", False), ("1", True), ("%p2", True)])
def test_sums_that_nothing_is_added_to_need_no_value(adds: str, found: bool) -> None:
    """Of a first product; %p1 is false there, %p2 true."""
    case = CASES["from zero"]
    arrays, wanted, sizes = problem(case)
    passed = [words(each) for each in arrays]
    lines = [line for line in text(case).splitlines() if not line.startswith("ld.global.b32 %f")]
    first = next(at for at, line in enumerate(lines) if line.startswith("wgmma.mma_async"))
    assert " %p1," in lines[first]
    lines[first] = lines[first].replace(" %p1,", f" {adds},")
    kinds = [each.kind for each in emulate("\n".join(lines), "kernel", 1, 128, passed, on_finding="collect").findings]
    assert kinds == ([Kind.UNINITIALISED] if found else [])
    if not found:
        check(case, passed[3].view(wanted.dtype).reshape(wanted.shape), wanted, sizes, UNITS[case.d])


@pytest.mark.parametrize("name", CASES)
def test_it_is_ptx_and_no_product_is_serialised(name: str) -> None:
    """By ptxas, which waits behind each product where registers in flight are touched, and says so (C75xx)."""
    made = assemble(text(CASES[name]), "sm_90a")
    assert made.spill_stores == 0 and "C75" not in made.log, made.log


DEVICE_UNITS = UNITS | {"f32": 2.0**-20, "f16": 2.0**-10}
"""Tensor cores add in another order and width, and of fp8 in fewer bits: PTX leaves it open."""


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_a_device_gives_the_same(name: str) -> None:
    if not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    case = CASES[name]
    arrays, wanted, sizes = problem(case)
    passed = [to_device(words(each)) for each in arrays]
    Kernel(headed(case), device="cuda").run(*passed)
    unit = 2.0**-12 if case.size == 1 and case.d == "f32" else DEVICE_UNITS[case.d]
    check(case, passed[3].numpy().view(wanted.dtype).reshape(wanted.shape), wanted, sizes, unit)


BASE = Case("f32", "f16", "f16", 16)
STORE = "st.shared.b32 [%r1], %r0;"
FENCE, COMMIT = "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;"
NARROW = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd20, %rd21, %p1, 1, 1, 0, 0;"
ONE = f"setp.eq.u32 %p3, %r0, 5;\n@%p3 {STORE}"
REFUSED = {
    "sums are read before the wait": ({"wait": ""}, "must stand before its use"),
    "one group may be left": ({"wait": "wgmma.wait_group.sync.aligned 1;"}, "must stand before its use"),
    "a group that is not committed": ({"commit": ""}, "must stand before its use"),
    "sums are touched, and nothing fences": ({"fence": ""}, "no wgmma.fence stands between"),
    "sums are set behind the fence": ({"fence": f"{FENCE}\nmov.f32 %f0, 0f00000000;"}, "stands between"),
    "another shape takes the sums": ({"commit": f"{NARROW}\n{COMMIT}"}, "which uses it in another way"),
    "a tile in the middle of a step": ({"products": "add.u32 %r1, %r1, 16;\n{products}"}, "which is no multiple of 32"),
}  # fmt: skip


def changed(case: Case, parts: dict[str, str]) -> str:
    """The kernel with other lines; `{products}` are those that it has."""
    own = text(case).partition("wgmma.fence.sync.aligned;\n")[2].partition("\nwgmma.commit_group")[0]
    return text(case, **{name: part.replace("{products}", own) for name, part in parts.items()})


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_text_alone_tells(name: str) -> None:
    parts, message = REFUSED[name]
    with pytest.raises(PtxError, match=message):
        emulate(changed(BASE, parts), "kernel", 1, 128, [words(each) for each in problem(BASE)[0]])


FAULTS = {
    "nothing fences the proxy": ({"proxy": ""}, Kind.RACE),
    "only one warp fences the proxy": (
        {"proxy": "setp.lt.u32 %p3, %r0, 32;\n@%p3 fence.proxy.async;"}, Kind.RACE,
    ),
    "a fence for another thing": ({"proxy": "fence.proxy.async.global;"}, Kind.RACE),
    "an operand is written before the wait": ({"commit": f"{COMMIT}\n{ONE}"}, Kind.SOURCE_CHANGED),
    "written by a thread that a barrier orders": (
        {"commit": f"{COMMIT}\nbar.sync 0;\n{ONE}"},
        Kind.SOURCE_CHANGED,
    ),
    "written by another warp behind one's own wait": (
        {"wait": f"wgmma.wait_group.sync.aligned 0;\n{ONE.replace('5;', '37;')}"}, Kind.RACE,
    ),
    "a warp stays out": ({"products": "setp.gt.u32 %p3, %r0, 95;\n@%p3 bra OUT;\n{products}\nOUT:"}, Kind.MISSING_LANE),
    "a warp multiplies another tile": (
        {"products": "setp.gt.u32 %p3, %r0, 95;\n@%p3 add.u32 %r1, %r1, 1024;\n{products}"}, Kind.MISSING_LANE,
    ),
    "threads give other descriptors": (
        {"products": "setp.eq.u32 %p3, %r0, 7;\n@%p3 add.u32 %r1, %r1, 1024;\n{products}"}, Kind.MISSING_LANE,
    ),
    "an operand lies beyond shared memory": ({"products": "add.u32 %r1, %r1, 65536;\n{products}"}, Kind.OUT_OF_BOUNDS),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_what_a_run_finds(name: str) -> None:
    parts, kind = FAULTS[name]
    arrays = [words(each) for each in problem(BASE)[0]]
    found = emulate(changed(BASE, parts), "kernel", 1, 128, arrays, on_finding="collect").findings
    assert kind in [each.kind for each in found], found


HARMLESS = {
    "the multiplying threads fence the proxy, behind the barrier": {
        "proxy": "", "load": "fence.proxy.async;\n{load}",
    },
    "written behind everybody's wait": {
        "wait": f"wgmma.wait_group.sync.aligned 0;\nbar.sync 0;\n{ONE}",
    },
    "written by the warp that alone has read it, behind its wait": {
        "wait": f"wgmma.wait_group.sync.aligned 0;\n{ONE}",
    },
    "only what the products did not read is written": {
        "commit": f"{COMMIT}\n{ONE.replace('[%r1]', '[%r1+64]')}",
    },
    "one group in flight may be left where there is none": {
        "wait": "wgmma.wait_group.sync.aligned 0;\nwgmma.wait_group.sync.aligned 1;",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_fault(name: str) -> None:
    arrays, wanted, sizes = problem(BASE)
    passed = [words(each) for each in arrays]
    load = text(BASE).partition("bar.sync 0;\n")[2].partition("\nsetp.ne.u32 %p1")[0]
    parts = {key: part.replace("{load}", load) for key, part in HARMLESS[name].items()}
    emulate(text(BASE, **parts), "kernel", 1, 128, passed)
    check(BASE, passed[3].view(wanted.dtype).reshape(wanted.shape), wanted, sizes, UNITS["f32"])


def test_a_warp_group_has_four_warps() -> None:
    short = text(BASE).replace(".reqntid 128", ".reqntid 96")
    arrays = [words(each) for each in problem(BASE)[0]]
    found = emulate(short, "kernel", 1, 96, arrays, on_finding="collect").findings
    assert any("no warp group" in each.message for each in found)


def test_what_two_ways_take_differently_is_in_flight() -> None:
    """A register that is a sum on one way and a part of A on another: behind both, nobody may even read it."""
    state = FlyingSums({"%r1": (0, "A")})
    assert state.joined(FlyingSums({"%r1": (0, "m64n8k16")}))
    assert not state.joined(FlyingSums({"%r1": (0, "A")}))
    reads = SimpleNamespace(product=None, uses=["%r1"], reads=[], writes=[])
    with pytest.raises(PtxError, match="belongs to a product in flight"):
        step(state, reads, SimpleNamespace(text="mov.b32 %r2, %r1;", ptx_line=1), {"%r1"})
