"""How often a program is lowered and compiled: once for each code, whatever dims divide by."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsl
import dsl.calls.planner
import dsl.kernels.compile
import dsl.kernels.variant
import dsl.kernels.variants
from dsl import runtime
from dsl.kernels.variant import Request, resolve
from dsl.lowering.emit import codegen
from dsl.text.program import dim_names
from dsl.values.facts import ArrayFacts

SAMPLES = Path(__file__).resolve().parents[2] / "samples"

ROWS = """\
kernel {name}(y: f32[rows, cols], x: f32[rows, cols]; COLS):
    grid rows
    r = block(0)
    v = x[r, 0 : COLS]
    y[r, 0 : COLS] = v / (1.0 + sum(v * v))

schedule one of {name}:
    COLS = next_pow2(cols)
    warps = 4
    align v: 1
    layout v: vector [{vector}], lanes [32], warps [4]
"""


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Calls of the passes, and of LLVM."""
    counts = {"lowered": 0, "llvm": 0}

    def counting(name: str, function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            counts[name] += 1
            return function(*arguments, **named)

        return call

    lower = counting("lowered", dsl.kernels.compile.lower)
    for place in (dsl.kernels.compile, dsl.kernels.variants, dsl.calls.planner):
        monkeypatch.setattr(place, "lower", lower)
    monkeypatch.setattr(codegen, "to_ptx", counting("llvm", codegen.to_ptx))
    return counts


def run(module: Any, cols: int) -> None:
    x = np.random.default_rng(cols).standard_normal((3, cols)).astype(np.float32)
    wanted = x / (1 + (x.astype(np.float64) ** 2).sum(1, keepdims=True))
    assert np.allclose(module.row(x), wanted, atol=1e-5)


@pytest.mark.parametrize("order", [(96, 97, 98, 100, 104), (97, 96, 98, 100, 104), (104, 98, 100, 97, 96, 112)])
def test_divisors_that_change_no_code_make_no_variant(counted: dict[str, int], order: tuple[int, ...]) -> None:
    """With one element a thread all widths are 1: these five shapes were five variants, of byte-equal PTX."""
    module = dsl.parse(ROWS.format(name="row", vector=1), device="emulator")
    for cols in order:
        run(module, cols)
    assert counted["llvm"] == 1
    assert counted["lowered"] <= 4
    for cols in order:
        module.compile("row", cols=cols)
    kernels = {id(kernel): kernel for kernel in (module.compile("row", cols=cols) for cols in order)}
    assert len(kernels) == 1
    (kernel,) = kernels.values()
    assert "%" not in " ".join(require.text for require in kernel.compiled.header.requires)


def test_divisors_that_change_code_make_variants(counted: dict[str, int]) -> None:
    module = dsl.parse(ROWS.format(name="row", vector=4), device="emulator")
    for cols in (500, 497, 498, 496, 504, 501, 502):
        run(module, cols)
    assert counted["llvm"] == 3
    widths = {cols: module.compile("row", cols=cols).ptx.count("ld.global.v4") for cols in (497, 496, 500, 504)}
    assert widths[497] == 4 and widths[500] == widths[496] == widths[504] == 1  # odd rows: two blocks, and a shift


@pytest.mark.parametrize("cols", [1000, 40_000])
def test_what_fits_lowered_is_compiled(counted: dict[str, int], cols: int) -> None:
    """`softmax` asks which of its kernels fit; what it has lowered for that it compiles."""
    module = dsl.load(SAMPLES / "softmax.tile", device="emulator")
    x = np.zeros((2, cols), np.float16)
    assert module.softmax(x)[0, 0] == np.float16(1 / cols)
    first = dict(counted)
    assert first["llvm"] == 1
    module.softmax(np.zeros((4, cols), np.float16))
    assert counted == first


def test_variants_of_other_index_widths_are_others() -> None:
    """They were one in the table of compiled requests: who asked second got the first one's."""
    module = dsl.parse(ROWS.format(name="row", vector=1), device="emulator")
    wide, narrow = (module.variant(Request("row", "one", {"cols": 96}, index_bits=bits)) for bits in (64, 32))
    assert (wide.compiled.header.index_bits, narrow.compiled.header.index_bits) == (64, 32)


def test_dims_that_are_whole_tiles_make_one_more_variant(counted: dict[str, int]) -> None:
    """Not one for each power of two, nor for tiles that change no code."""
    text = """
kernel twice(y: f32[n], x: f32[n]; BLOCK = 256):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    v = x[i : i + BLOCK]
    y[i : i + BLOCK] = v * 2.0

schedule one of twice:
    warps = 8
    layout v: vector [1], lanes [32], warps [8]
"""
    module = dsl.parse(text, device="emulator")
    for n in (256, 255, 257, 264, 512, 768, 1000, 1008, 1024, 4096):
        x = np.arange(n, dtype=np.float32)
        assert np.array_equal(module.twice(x), 2 * x)
    assert counted["llvm"] == 2


@pytest.fixture
def counted_calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often what a first call is made of runs, each wherever it is called from."""
    places = {
        "lower": (dsl.kernels.compile, dsl.kernels.variants, dsl.calls.planner),
        "resolve_schedule": (dsl.kernels.variant,),
        "schedule_points": (dsl.kernels.variant,),
        "bind": (dsl.calls.planner,),
        "describe": (runtime,),
    }
    counts = dict.fromkeys(places, 0)

    def counting(name: str, function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            counts[name] += 1
            return function(*arguments, **named)

        return call

    for name, modules in places.items():
        function = counting(name, getattr(modules[0], name))
        for module in modules:
            monkeypatch.setattr(module, name, function)
    return counts


def test_a_call_binds_once(counted_calls: dict[str, int]) -> None:
    """One array is read once, and the emulator looks at the output. The launch is bound, and the costs of its six
    schedules are evaluated. The cheapest is resolved as a whole, lowered and launched."""
    module = dsl.load(SAMPLES / "softmax.tile", device="emulator")
    module.softmax(np.zeros((2, 1000), np.float16))
    once = {"lower": 1, "resolve_schedule": 1, "schedule_points": 6, "bind": 1, "describe": 2}
    assert counted_calls == once
    module.softmax(np.zeros((2, 1000), np.float16))
    assert counted_calls == {**once, "describe": 4}


def test_each_candidate_is_bound_and_lowered_once(counted_calls: dict[str, int]) -> None:
    """The costs of all four schedules are evaluated. The cheapest is resolved as a whole, lowered and launched."""
    module = dsl.load(SAMPLES / "softmax.tile", device="emulator")
    module.softmax.plan_for({"y": None, "x": np.zeros((1, 20_000), np.float32)}, {})
    once = {"lower": 1, "resolve_schedule": 1, "schedule_points": 6, "bind": 1, "describe": 1}
    assert counted_calls == once
    module.softmax.plan_for({"y": None, "x": np.zeros((1, 70_000), np.float32)}, {})
    assert counted_calls == {name: 2 * count for name, count in once.items()}


BOX, COPY = "cp.async.bulk.tensor.2d.shared", "cp.async.ca.shared"


@pytest.mark.long
@pytest.mark.parametrize(
    ("extent", "k", "schedule", "operands", "lowered"),
    [(8192, 8192, "wgmma", BOX, 1), (8192, 8194, "wgmma", COPY, 1), (8192, 8193, "stream_k", None, 5),
     (256, 8193, "mma_sync", None, 5)],
)  # fmt: skip
def test_what_a_product_fits_as_is_what_is_launched(
    counted_calls: dict[str, int], extent: int, k: int, schedule: str, operands: str | None, lowered: int
) -> None:
    """The launch is bound, and the costs of the three schedules that it names are evaluated. In the order of costs they
    are resolved and lowered until one fits, at most four points of each. `wgmma` takes rows that begin at multiples of
    16 bytes as boxes, and of 4 by `cp.async`; others are left to `mma.sync`. `matmul` would copy such rows to aligned
    ones first."""
    text = (SAMPLES / "matmul.tile").read_text()
    text += "\ndispatch products(c, a, b, scale, bias, residual, gain, row_scale):\n"
    text += "    product with mma_sync, stream_k, wgmma\n"
    module = dsl.parse(text, "matmul.tile", device="emulator", arch="sm_90")
    result, given = ArrayFacts((extent, extent), "f16"), ArrayFacts((extent, k), "f16")
    others = dict.fromkeys(("scale", "bias", "residual", "row_scale"))
    arrays = {"c": result, "a": given, "b": ArrayFacts((k, extent), "f16"), **others, "gain": 1.0}
    (step,) = module.products.plan(arrays).steps
    assert step.request.schedule == schedule
    ptx = module.variant(step.request).compiled.ptx
    counts = {"lower": lowered, "resolve_schedule": lowered, "schedule_points": 3, "bind": 1, "describe": 0}
    assert counted_calls == counts
    brought = {each for each in (BOX, COPY) if each in ptx} if "wgmma" in ptx else set()
    assert brought == ({operands} if operands else set())


CORNERS = """
kernel corners(y: s32[3], a: s32[p, ka], b: s32[p, kb], c: s32[p, kc]):
    grid 1
    y[0] = a[p - 1, ka - 1]
    y[1] = b[p - 1, kb - 1]
    y[2] = c[p - 1, kc - 1]
"""


def test_a_kernel_that_asks_for_less_serves_those_alone_that_have_it() -> None:
    """One code for all. What is even of all three serves nobody once the first two are; where then the first and the
    last one are, that kernel takes the place of the first one's, and not of the second one's, which serves it."""
    module = dsl.parse(CORNERS, device="emulator")
    for extents in ((2, 2, 2), (2, 2, 3), (2, 3, 2), (6, 6, 7), (6, 7, 6), (6, 6, 6), (7, 7, 7), (6, 6, 9), (3, 2, 2)):
        arrays = [np.arange(2 * extent, dtype=np.int32).reshape(2, extent) for extent in extents]
        y = np.zeros(3, np.int32)
        module.corners(y, *arrays)
        assert y.tolist() == [2 * extent - 1 for extent in extents]


def test_a_call_checks_only_conditions_that_its_variant_does_not_imply() -> None:
    q = ArrayFacts((2, 4, 96, 64), "f16", strides=(24576, 6144, 64, 1))
    function = dsl.load(SAMPLES / "attention.tile", device="emulator")["attention"]
    (step,) = function.plan({**dict.fromkeys(("o", "q", "k", "v"), q), "scale": 0.125, "lse": None}).steps
    variant = function.module.built(step.request)
    implied = [each.text for each in variant.of_class]
    assert {"d % 16 == 0", "q.stride3 == 1", "q.stride2 >= 0"} <= {*implied} and len(implied) > 20
    assert [text.split()[1] for _, text in variant.limits] == ["D"]  # >= d: that of the file


@pytest.mark.long
@pytest.mark.parametrize("sample", ["matmul", "softmax", "layer_norm", "attention"])
def test_a_schedule_of_an_earlier_call_has_the_same_code(sample: str) -> None:
    """If all expressions that a schedule reads have the values of an earlier call, so have constants and properties."""
    program, rng, shared = dsl.load(SAMPLES / f"{sample}.tile", device="emulator").program, random.Random(8), 0
    for kernel, schedule in program.schedules:
        dims = dict.fromkeys(dim_names(program.kernel(kernel)), 64)
        for _ in range(20):
            dims |= {rng.choice([*dims]): rng.choice([1, 8]) * int(2 ** rng.uniform(0, 12))}
            request = Request(kernel, schedule, dict(dims), {}, {}, {"gain": 1.0, "eps": 1e-5}, arch="sm_90")
            known, own = resolve(program, request, may_share=True), resolve(program, request)
            assert (known.family, known.divisors) == (own.family, own.divisors)
            shared += not known.is_own
    assert shared > 20


NUMBERED = """
kernel times(y: f32[n], x: f32[n], count: s32; FACTOR = 1, B = 128):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = x[i : i + B] * FACTOR.to(f32)

schedule twice of times:
    FACTOR = count * 2
"""


def test_a_variant_refuses_numbers_for_which_its_constants_are_others() -> None:
    """It launched with the constants of the number that it was compiled for."""
    module = dsl.parse(NUMBERED, device="emulator")
    x = np.ones(128, np.float32)
    y = np.zeros_like(x)
    compiled = module.compile("times", n=128, count=3, schedule="twice")
    compiled(y, x, 3)
    assert (y == 6).all()
    with pytest.raises(runtime.LaunchError, match=r"FACTOR == count \* 2"):
        compiled(y, x, 4)
    module.times(y, x, 4, schedule="twice")
    assert (y == 8).all()
