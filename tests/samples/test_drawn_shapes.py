"""Any call of a sample's dispatches is served: extents, types, strides, alignments, what is absent, and targets are
drawn; what is planned is lowered. Nothing is launched, so that extents may be large."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

import dsl
from dsl.calls.called import Called
from dsl.kernels.variant import stride_class
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import DTYPES
from dsl.lowering.layouts.layout import row_major
from dsl.values.facts import ArrayFacts

SAMPLES = Path(__file__).parents[2] / "samples"
ARCHS = ("sm_80", "sm_86", "sm_90", "sm_90a")
EXTENTS = (
    *(1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 60, 63, 64, 65, 96, 100, 127, 128, 129, 192, 255, 256, 257, 320, 511),
    *(512, 1000, 1023, 1024, 1025, 2047, 2048, 4096, 4097, 5003, 8192, 16392, 32768, 50257, 65537, 100003, 1000003),
)
WINDOWS = ((1, 1), (3, 3), (5, 5), (7, 7), (1, 3), (2, 2))
DRAWS = {"matmul": 8, "attention": 4, "int8_conv": 3}
"""Of each sample; of the others 2."""
UNSERVED = ("requires", "no tensor-core product")
"""What a call may be told: what the dispatch asks for, and that e4m3 and e5m2 need sm_89."""


def maybe_none(random: Random, extent: int) -> int:
    return 0 if random.random() < 0.06 else extent


def attention(random: Random) -> dict[str, Any]:
    heads, s = random.choice((1, 2, 3, 8)), random.choice(EXTENTS[:-2])
    return {
        "batch": random.choice((0, 1, 2, 3, 16)), "kv_heads": heads, "heads": heads * random.choice((1, 2, 4)),
        "s": maybe_none(random, s), "t": maybe_none(random, random.choice((s, *EXTENTS[:-2]))),
        "d": random.choice((1, 8, 32, 40, 60, 63, 64, 72, 80, 96, 100, 128, 160, 192, 200, 256)),
        "n": random.choice((2, 3, 9)),
    }  # fmt: skip


def convolution(random: Random, T: str, nhwc: bool) -> dict[str, Any]:
    (r, s), dh, sh = random.choice(WINDOWS), random.choice((1, 1, 2)), random.choice((1, 2, 3))
    h, w = random.choice((13, 14, 35, 56, 224)), random.choice((13, 20, 56, 224))
    ph, pw, groups, each = (
        random.choice((0, r // 2)),
        s // 2,
        random.choice((1, 1, 2, 3)),
        random.choice((1, 2, 3, 8, 13)),
    )
    dims = {"r": r, "s": s, "h": h, "w": w, "ph": ph, "pw": pw, "dh": dh, "dw": 1, "sh": sh, "sw": 1}
    dims |= {"p": (h + 2 * ph - dh * (r - 1) - 1) // sh + 1, "q": w + 2 * pw - (s - 1), "T": T}
    dims["n"] = random.choice((0, 1, 2, 32, 130))
    if nhwc:
        cg = 32 // DTYPES[T].bytes * each
        return dims | {"cg": cg, "c": cg * groups, "k": groups * random.choice((1, 3, 8, 32, 64, 96, 256, 416))}
    kb = groups * random.choice((1, 2, 3, 8))
    return dims | {"cg": each, "cb": each * groups, "kb": kb, "k": (32 if T == "s8" else 64) * kb}


def related(random: Random, name: str) -> dict[str, Any]:
    """Names whose values depend on each other."""
    groups = random.choice((0, 1, 2, 7, 32, 86))
    if name.startswith("attention"):
        return attention(random)
    if name == "matmul_w4":
        return {"groups": groups, "k": 128 * groups, "kh": 64 * groups}
    if name == "matmul_scaled":
        n = random.choice(EXTENTS)
        return {"kb": groups, "k": 128 * groups, "n": n, "nb": -(-n // 128)}
    if name == "conv2d":
        return convolution(random, random.choice(("s8", "u8")), False)
    if name == "conv2d_nhwc":
        return convolution(random, random.choice(("s8", "f16", "bf16", "f32")), True)
    return {}


def strides(random: Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Of a view: axes change places, rows have a pitch, every other element, from below, or far apart."""
    if random.random() < 0.35:
        return row_major(shape)
    order, steps = [*range(len(shape))], [0] * len(shape)
    if len(shape) > 1 and random.random() < 0.5:
        i, j = random.sample(order, 2)
        order[i], order[j] = order[j], order[i]
    step = 2 if random.random() < 0.08 else 1
    for axis in reversed(order):
        steps[axis] = step
        step *= max(1, shape[axis])
        step += random.choice((0, 0, 1, 3, 8, 64)) if axis == order[-1] else 0
    sign = -1 if random.random() < 0.05 else 1
    return tuple(sign * each for each in steps)


def drawn(random: Random, module: dsl.Module, name: str) -> dict[str, Any]:
    """Facts of the arguments of a call."""
    called, known, facts = module.program.once(Called, name), related(random, name), {}
    types = {"T": known.pop("T")} if "T" in known else {}
    for p in called.params:
        head, array = called.heads.get(p), called.array(p)
        if array is None or head is None:
            scalar = head and head.scalars.get(called.parameters[p])
            is_float = not scalar or scalar.type.dtype not in DTYPES or DTYPES[scalar.type.dtype].is_float
            facts[p] = known.get(p, random.choice((0.125, 1.0)) if is_float else random.choice((1, 2, 7, 100)))
            continue
        if p in called.optional and random.random() < 0.4:
            facts[p] = None
            continue
        for dim in array.dims:
            known.setdefault(dim, maybe_none(random, random.choice(EXTENTS)))
        shape = tuple(known[dim] if isinstance(dim, str) else dim for dim in array.dims)
        dtype = types.setdefault(array.dtype, random.choice(head.types.get(array.dtype, [array.dtype])))
        align = random.choice([16, 16, 16, *(n for n in (1, 2, 4, 8) if n >= DTYPES[dtype].bytes)])
        lies = stride_class(strides(random, shape)) if p in called.strided else None
        facts[p] = ArrayFacts(shape, dtype, align, lies, lies is not None and random.random() < 0.1)
    return facts


@pytest.fixture(scope="module")
def modules() -> Any:
    return cache(lambda name, arch: dsl.load(SAMPLES / f"{name}.tile", device="emulator", arch=arch))


@pytest.mark.parametrize("name", sorted(path.stem for path in SAMPLES.glob("*.tile")))
def test_every_drawn_call_is_served_or_told_what_is_required(modules: Any, name: str) -> None:
    for seed in range(DRAWS.get(name, 2)):
        random = Random(f"{name} {seed}")
        module = modules(name, random.choice(ARCHS))
        if not module.program.dispatches:
            return
        call = random.choice(sorted(module.program.dispatches))
        facts = drawn(random, module, call)
        try:
            for step in module[call].plan(facts).steps:
                module.built(step.request)
        except TileError as error:
            told = [f"{each.code}: {each.message}" for each in error.errors]
            assert all(any(word in each for word in UNSERVED) for each in told), (seed, module.arch, call, facts, told)


WRONG: list[tuple[str, str, str, dict[str, Any]]] = [
    ("matmul", "matmul", "sm_80", {"m": 8192, "n": 50257, "k": 768}),
    ("matmul", "matmul", "sm_90a", {"m": 8192, "n": 50257, "k": 768}),
    ("rmsnorm", "rmsnorm", "sm_86", {"rows": 64, "cols": 50257}),
    ("layer_norm", "layer_norm", "sm_86", {"rows": 64, "cols": 50257}),
    ("layer_norm", "layer_norm_backward", "sm_86", {"rows": 64, "cols": 25000}),
    ("layer_norm", "layer_norm_backward", "sm_80", {"rows": 4, "cols": 0}),
    *(
        ("attention", "attention", arch, {"d": d, "heads": 4, "kv_heads": 2, "batch": 1, "s": 70, "t": 60})
        for arch, d in (("sm_80", 256), ("sm_86", 160))
    ),
]
"""Calls that were errors; all of 16 bits, row-major."""


@pytest.mark.parametrize(("name", "call", "arch", "dims"), WRONG)
def test_calls_that_were_not_served_are(modules: Any, name: str, call: str, arch: str, dims: dict[str, Any]) -> None:
    """Operands of a product that are not staged; a row that fills shared memory to the byte beside sums; no columns;
    heads of which a thread holds 256 registers."""
    module = modules(name, arch)
    called, facts = module.program.once(Called, call), {}
    for p in called.params:
        array, head = called.array(p), called.heads.get(p)
        if array is None or p in called.optional:
            facts[p] = 0.125 if array is None else None
        else:
            shape = tuple(dims[d] if isinstance(d, str) else d for d in array.dims)
            facts[p] = ArrayFacts(shape, "bf16" if array.dtype in head.types else array.dtype)
    for step in module[call].plan(facts).steps:
        module.built(step.request)
