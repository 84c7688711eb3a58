"""The kernels of the samples that spill registers, at random shapes. Needs no GPU.

    python3 benchmarks/spills.py --count 100
    python3 benchmarks/spills.py products gradients --count 300 --seed 4 --jobs 4

Calls of each family are drawn with extents like those of random_shapes.py, log-uniform, and planned for --arch. What
they launch is compiled and assembled by ptxas, each kernel once. The output has the number of kernels of each family,
and a line for each kernel that spills: the bytes that a thread stores and loads, the call, the schedule and its
constants. The exit status is 1 if a kernel spills.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from harness.table import console, constants
from int8_conv_shapes import NETS, Shape
from random_shapes import ROWS, WHAT, log_uniform

import dsl
from dsl.kernels.variant import Request
from dsl.kernels.variants import request_key
from dsl.lab.compiling import Compiler
from dsl.lowering.ir.location import TileError
from dsl.runtime import header
from dsl.values.facts import ArrayFacts

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
MOST = 1 << 28
"""The maximum number of elements of an array."""


class Drawn(NamedTuple):
    """A call: the sample, its dispatch, what it gets (facts of arrays, and numbers), and constants."""

    sample: str
    dispatch: str
    arguments: tuple[Any, ...]
    constants: Mapping[str, Any] = {}


def array(dtype: str, *extents: int, turned: bool = False) -> ArrayFacts:
    """The facts of an array. The columns of a turned one are contiguous."""
    return ArrayFacts(extents[::-1], dtype).turned if turned else ArrayFacts(extents, dtype)


def multiple(source: random.Random, step: int, least: float = 32, most: float = 8192) -> int:
    return max(step, int(log_uniform(source, least, most)) // step * step)


def product(source: random.Random) -> Drawn:
    dtype, step = source.choice(("bf16", "f16", "f32", "s8", "e4m3")), source.choice((64, 8, 1))
    m, n, k = (multiple(source, step) for _ in range(3))
    order = source.choice(("b", "b.T", "a.T"))
    c = array({"s8": "s32", "e4m3": "bf16"}.get(dtype, dtype), m, n)
    a, b = array(dtype, m, k, turned=order == "a.T"), array(dtype, k, n, turned=order == "b.T")
    return Drawn("matmul", "matmul", (c, a, b))


def kind(source: random.Random) -> Drawn:
    """A product with groups, scales or packed weights."""
    name = source.choice(("grouped", "scaled", "w4"))
    step, m = source.choice((128, 8)) if name == "grouped" else 128, int(log_uniform(source, 1, 8193))
    n, k = multiple(source, step, 64), multiple(source, step, 64)
    if name == "grouped":
        dtype, g = source.choice(("bf16", "f16")), int(log_uniform(source, 1, 65))
        operands: tuple[ArrayFacts, ...] = array(dtype, m, k), array(dtype, g, n, k), array("s32", g)
    elif name == "scaled":
        dtype, scales = "bf16", (array("f32", k // 128, m), array("f32", -(-n // 128), k // 128))
        operands = array("e4m3", m, k), array("e4m3", n, k), *scales
    else:
        dtype = source.choice(("bf16", "f16"))
        operands = array(dtype, m, k), array("u8", n, k // 2), array(dtype, k // 128, n)
    return Drawn(f"matmul_{name}", f"matmul_{name}", (array(dtype, m, n), *operands))


def convolution(source: random.Random) -> Drawn:
    """A layer of a net. Channels that are no multiple of 32 lie innermost."""
    c, h, k, r, stride = source.choice([layer for layers in NETS.values() for layer in layers if layer[0] % 32 == 0])
    shape, act = Shape(source.choice((1, 8, 32, 128)), c, h, k, r, stride), source.choice(({}, {"ACT": "rectified"}))
    n, p, blocked = shape.n, shape.p, k % 32 == 0 and source.random() < 0.5
    y, x, f = ((n, k // 32, p, p, 32), (n, c // 32, h, h, 32), (c // 32, r, r, k, 32)) if blocked else (
        (n, p, p, k), (n, h, h, c), (k, r, r, c))  # fmt: skip
    arrays = array("s8", *y), array("s8", *x), array("s8", *f), array("f32", k), None
    return Drawn(
        "int8_conv", "conv2d" if blocked else "conv2d_nhwc", (*arrays, 1.0, 1.0, 0.0, 6.0, *shape.geometry), act
    )


def attention(source: random.Random, backward: bool = False) -> Drawn:
    dtype, d = source.choice(("bf16", "f16")), 8 * source.randint(2, 32) if source.random() < 0.5 else 0
    d, group, batch = d or source.choice((64, 128, 256)), source.choice((1, 1, 4)), int(log_uniform(source, 1, 17))
    heads, (s, t) = group * int(log_uniform(source, 1, 17)), (int(log_uniform(source, 16, 8192)) for _ in range(2))
    q, k = array(dtype, batch, heads, s, d), array(dtype, batch, heads // group, t, d)
    lse, causal = array("f32", batch, heads, s), {"CAUSAL": source.random() < 0.5}
    if backward:
        return Drawn("attention_backward", "attention_backward", (q, k, k, q, k, k, q, q, lse, 0.125), causal)
    return Drawn("attention", "attention", (q, q, k, k, 0.125, lse), causal)


def gradient(source: random.Random) -> Drawn:
    return attention(source, backward=True)


def row_wise(source: random.Random) -> Drawn:
    what, dtype = source.choice(ROWS), source.choice(("f16", "bf16", "f32"))
    total = log_uniform(source, 1 << 14, MOST)
    cols = int(log_uniform(source, 16, min(total, 1 << 17)))
    cols = max(8, cols // 8 * 8) if source.random() < 0.5 else cols
    rows = max(1, int(total / cols))
    x, w, of_row = array(dtype, rows, cols), array(dtype, cols), array("f32", rows)
    if "mask" in what:
        middle = {"scale_mask_softmax": (x,), "scale_mask_softmax_dropout": (x, x)}.get(what, (x, x))
        keep = () if "backward" in what else (array("u8", rows, cols),)
        seed = (0.1, 5) if "dropout" in what else ()
        return Drawn("softmax_fused", what, (x, *middle, *keep, 0.125, *seed))
    arguments: dict[str, tuple[Any, ...]] = {
        "rmsnorm": (x, x, w, 1e-5),
        "layer_norm": (x, x, 1e-5, w, w, of_row, of_row),
        "layer_norm_backward": (x, x, x, of_row, of_row, w, w, w),
    }
    files = {"rmsnorm": "rmsnorm", "layer_norm": "layer_norm", "layer_norm_backward": "layer_norm"}
    softmax = (x, x, x) if "backward" in what else (x, x)
    file = files.get(what, "softmax_backward" if "backward" in what else "softmax")
    return Drawn(file, what, arguments.get(what, softmax))


def reduction(source: random.Random) -> Drawn:
    what, form = source.choice(tuple(WHAT)), source.choice(("everything", "rows", "axis", "axis"))
    dtype, total = source.choice(("f32", "f16", "s32")), log_uniform(source, 1, MOST)
    along = max(1, round(total if form == "everything" else log_uniform(source, 1, total)))
    outer = max(1, round(log_uniform(source, 1, total / along)))
    inner = max(1, round(total / along / outer))
    kind = "s64" if what == "argmax" else "s32" if dtype == "s32" else "f32"
    extents = {"everything": ((1,), (1, along)), "rows": ((inner,), (inner, along))}
    out, x = extents.get(form, ((outer, inner), (outer, along, inner)))
    name = ("arg_" if what == "argmax" else "") + ("axis" if form == "axis" else "rows")
    return Drawn("reduce", name, (array(kind, *out), array(dtype, *x)), WHAT[what])


FAMILIES: dict[str, Callable[[random.Random], Drawn]] = {
    "products": product,
    "kinds": kind,
    "convolutions": convolution,
    "attention": attention,
    "gradients": gradient,
    "rows": row_wise,
    "reductions": reduction,
}


def requests_of(drawn: Drawn, arch: str) -> tuple[dsl.Module, list[Request]]:
    """The kernels that a call launches."""
    module = dsl.load(SAMPLES / f"{drawn.sample}.tile", device="emulator", arch=arch)
    function = getattr(module, drawn.dispatch)
    given, rest = function.order(drawn.arguments, dict(drawn.constants))
    return module, [step.request for step in function.planner(given, **rest).plan().steps]


def told(ptx: str | None) -> str:
    """The constants of a kernel's variant."""
    return "" if ptx is None else " ".join(constants(each.constants) for each in header.read(ptx).values())


def spilling(family: str, options: argparse.Namespace) -> tuple[int, list[str]]:
    """The number of different kernels that calls of a family launch, and a line for each one that spills."""
    source, modules, found = random.Random(options.seed), {}, {}
    for _ in range(options.count):
        drawn = FAMILIES[family](source)
        try:
            module, requests = requests_of(drawn, options.arch)
        except TileError as error:
            raise SystemExit(f"{drawn}: {error}") from None
        modules[drawn.sample] = module
        for request in requests:
            found.setdefault((drawn.sample, request_key(request)), (drawn, request))
    lines: list[str] = []
    for sample, module in modules.items():
        mine = [(drawn, request) for drawn, request in found.values() if drawn.sample == sample]
        with Compiler(module.program, options.jobs, "assembled") as compiler:
            for _, request in mine:
                compiler.begin(request)
            for drawn, request in mine:
                made = compiler.made(request)
                if made.spills != 0:
                    what = f"{made.spills} bytes" if made.error is None else made.error
                    shapes = ", ".join(
                        f"{x.dtype}{list(x.shape)}" for x in drawn.arguments if isinstance(x, ArrayFacts)
                    )
                    call = f"{drawn.dispatch}({shapes}) {constants(drawn.constants)}".rstrip()
                    lines.append(f"  {what}: {call}: {request.kernel} with {request.schedule} {told(made.ptx)}")
    return len(found), lines


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("families", nargs="*", metavar="FAMILY", help=f"{', '.join(FAMILIES)}; all without one")
    options.add_argument("--count", type=int, default=100, help="calls of each family")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--arch", default="sm_90a")
    options.add_argument("--jobs", type=int, default=2)
    chosen, out, all_spill = options.parse_args(), console(), 0
    for family in chosen.families or FAMILIES:
        kernels, lines = spilling(family, chosen)
        all_spill += len(lines)
        out.print(f"{family}: {len(lines)} of {kernels} kernels spill")
        for line in lines:
            out.print(line, soft_wrap=True)
    if all_spill:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
