"""The ways of peers/by_hand/int8_conv.tile side by side, and its other types, at ResNet-50's shapes.

    python3 benchmarks/int8_conv_ways.py --n 32,256 --json ways.json

Both orders of channels, both forms of addresses, with and without z, and both other orientations of the tile, all with
the tile that `folded` is tuned to. Then, at every third shape, s4, f16, bf16 and tf32 by the dispatch, on
small integers, of which all sums are exact. Every result must equal the float64 epilogue of exact sums.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from harness.intervals import Interval
from harness.record import versions
from harness.timing import ROUNDS, interleaved
from int8_conv import BY_HAND as SAMPLE
from int8_conv import facts
from int8_conv_shapes import RESNET50, Operands, Shape, blocked, blocked_filters, innermost

import dsl
from dsl.calls.plan import BoundPlan, Plan
from dsl.runtime import Kernel, device_facts, gpu_reason
from dsl.values.facts import ArrayFacts

TILE = ("PM", "PN", "TM", "TN", "G", "BYTES", "BLOCK", "DEPTH", "NEAR", "WARPS")
Launch = Callable[[], object]


Way = tuple[str, str, bool]
WAYS: list[Way] = [
    ("conv2d", "folded", False),
    ("conv2d", "folded", True),
    ("conv2d", "table", False),
    ("conv2d", "table", True),
    ("conv2d", "permuted", False),
    ("conv2d", "exchanged", False),
    ("conv2d_nhwc", "folded", False),
    ("conv2d_nhwc", "folded", True),
    ("conv2d_nhwc", "table", False),
    ("conv2d_nhwc", "table", True),
]
"""Call, schedule, with z?"""


def title(way: Way) -> str:
    call, schedule, has_z = way
    return f"{call} {schedule}{' z' if has_z else ''}"


def planned(module: dsl.Module, shape: Shape, call: str, schedule: str, has_z: bool) -> Plan:
    """One launch of the kernel, with the tile that the call is tuned to."""
    given = facts(shape, call == "conv2d")
    given |= {"z": given["y"] if has_z else None}
    step = getattr(module, call).plan(given, ACT="rectified").steps[0]
    constants = dict(module.variant(step.request).compiled.header.constants)
    tile = {name: constants[name] for name in TILE if name in constants}
    given |= {"parts": None, "delta": ArrayFacts((shape.r**2,), "s32", 16)}
    return kernel_of(module, call).plan(given, schedule=schedule, ACT="rectified", **tile)


def kernel_of(module: dsl.Module, call: str) -> Any:
    return module.conv if call == "conv2d" else module.conv_nhwc


def make(shape: Shape, way: Way) -> tuple[str, int] | str:
    """In a process of a pool: PTX, which the driver compiles and keeps, and bytes spilled; or why there is none."""
    module = dsl.load(SAMPLE, device="cuda")
    try:
        kernel = module.variant(planned(module, shape, *way).steps[0].request)
    except dsl.TileError as error:
        return str(error).partition("\n")[0].partition("error")[2]
    return kernel.ptx, kernel.kernel.attributes().local_bytes


class Checked:
    """Launches on one output, and how many of its elements differ from what is wanted."""

    def __init__(self, launch: Launch, y: Any, numbers: Callable[[Any], Any], wanted: Any):
        self.launch, self.y, self.numbers, self.wanted = launch, y, numbers, wanted

    def __call__(self) -> None:
        self.launch()

    def differ(self) -> int:
        import torch

        self.y.fill_(77)
        self.launch()
        torch.cuda.synchronize()
        return int((self.numbers(self.y) != self.wanted).sum())


def ways(module: dsl.Module, shape: Shape, texts: dict[Way, str]) -> dict[str, Checked]:
    """Of bytes."""
    import torch

    o = Operands(shape)
    z = torch.randint(-128, 128, (shape.n, shape.p, shape.p, shape.k), dtype=torch.int8, device="cuda")
    wanted = {False: o.wanted(relu), True: o.wanted(relu, z)}
    inputs = {"conv2d": (blocked(o.x), blocked_filters(o.f), blocked(z)), "conv2d_nhwc": (o.x, o.f, z)}
    y = {call: torch.empty_like(z) for call, (*_, z) in inputs.items()}
    out: dict[str, Checked] = {}
    for way, text in texts.items():
        call, _, has_z = way
        x, f, old = inputs[call]
        scalars = (o.alpha, o.beta, o.gamma if has_z else 0.0, o.six, *shape.geometry)
        arguments = (y[call], x, f, o.bias, old if has_z else None, None, *scalars, steps(shape, call))
        function, plan = kernel_of(module, call), planned(module, shape, *way)
        given, _ = function.order(arguments, {})
        bound = BoundPlan(function, plan, [Kernel(text, device="cuda")])
        launch = bound.kernels[0].bind(*bound.arguments(plan.steps[0], given))
        numbers = innermost if call == "conv2d" else as_it_is
        out[title(way)] = Checked(launch, y[call], numbers, wanted[has_z])
    return out


def steps(shape: Shape, call: str) -> Any:
    """The table of a kernel: how far it is from each tap to the next one, and from the last to the first."""
    import numpy as np

    t, last = np.arange(shape.r**2), shape.r**2 - 1
    rows = 1 + np.where(t % shape.r == shape.r - 1, shape.h - shape.r, 0)
    if call == "conv2d":
        delta = rows + np.where(t == last, (shape.h - shape.r) * shape.h, 0)
    else:
        delta = (rows + np.where(t == last, -shape.r * shape.h, 0)) * shape.c
    return delta.astype(np.int32)


def relu(v: Any) -> Any:
    return v.clamp(min=0)


def as_it_is(y: Any) -> Any:
    return y


def packed(x: Any) -> Any:
    """s4 in bytes: neighbours of the last axis, the lower bits first."""
    import torch

    return (x[..., 0::2] & 15 | x[..., 1::2] << 4).view(torch.uint8)


def types(module: dsl.Module, shape: Shape) -> dict[str, Checked]:
    """Of s4, f16, bf16 and tf32, on numbers from -8 to 7 or, of floats, -4 to 3."""
    import torch

    out: dict[str, Checked] = {}
    scalars = (2.0**-9, 1.0, 0.0, 96.0, *shape.geometry)

    def epilogue(o: Operands) -> Any:
        return relu(o.sums.double() * 2.0**-9 + o.bias).view(shape.n, shape.p, shape.p, shape.k)

    o = Operands(shape)
    o.x, o.f = o.x >> 5, o.f >> 5
    sums = epilogue(o)
    for name, kind in (("f16", torch.float16), ("bf16", torch.bfloat16), ("tf32", torch.float32)):
        y = torch.empty(shape.n, shape.p, shape.p, shape.k, dtype=kind, device="cuda")
        given = (y, o.x.to(kind), o.f.to(kind), o.bias, None, *scalars)
        launch = lambda given=given: module.conv2d_nhwc(*given, ACT="rectified")  # noqa: E731
        out[name] = Checked(launch, y, as_it_is, sums.float().to(kind))
    o = Operands(shape)
    o.x, o.f, o.bias = o.x >> 4, o.f >> 4, o.bias / 32
    wanted = epilogue(o).round().clamp(-8, 7).to(torch.int8)

    def channels_of_64(x: Any) -> Any:
        n, h, w, c = x.shape
        return packed(x.view(n, h, w, c // 64, 64).permute(0, 3, 1, 2, 4).contiguous())

    k, r, _, c = o.f.shape
    filters = packed(o.f.view(k, r, r, c // 64, 64).permute(3, 1, 2, 0, 4).contiguous())
    z = channels_of_64(wanted)
    y = torch.empty_like(z)
    given = (y, channels_of_64(o.x), filters, o.bias, None, *scalars)
    out["s4"] = Checked(lambda: module.conv2d(*given, ACT="rectified"), y, as_it_is, z)
    return out


def measured(each: dict[str, Checked], rounds: int) -> dict[str, dict[str, Any]]:
    """For each way the median with its interval, and how many elements are wrong."""
    wrong = {name: launch.differ() for name, launch in each.items()}
    times = {name: Interval.of(t) for name, t in interleaved(each, rounds).items()}
    return {
        name: {"us": [times[name].low, times[name].median, times[name].high], "wrong": wrong[name]} for name in each
    }


def compiled(shapes: Sequence[Shape]) -> dict[Shape, dict[Way, str]]:
    """PTX of every way that there is, made in as many processes as there are cores. Says what spills, and what is left
    out."""
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 1) - 1), get_context("spawn")) as pool:
        futures = {(shape, way): pool.submit(make, shape, way) for shape in shapes for way in WAYS}
        made = {key: future.result() for key, future in futures.items()}
    out: dict[Shape, dict[Way, str]] = {shape: {} for shape in shapes}
    for (shape, way), found in made.items():
        if isinstance(found, str):
            print(f"left out: {shape} {title(way)}: {found}")
            continue
        text, spilled = found
        out[shape][way] = text
        if spilled:
            print(f"{shape} {title(way)} spills {spilled} bytes")
    return out


def report(n: int, found: Sequence[dict[str, dict[str, Any]]]) -> None:
    """Sums over the shapes that have a way."""
    for name in dict.fromkeys(name for each in found for name in each):
        rows = [each[name] for each in found if name in each]
        total, wrong = sum(row["us"][1] for row in rows), sum(row["wrong"] for row in rows)
        print(f"N = {n:3}  {name:26} {total:8.1f} µs of {len(rows)} shapes, {wrong} wrong", flush=True)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--n", default="32,256", help="numbers of images")
    made.add_argument("--rounds", type=int, default=ROUNDS)
    made.add_argument("--json", type=Path, metavar="FILE")
    chosen = made.parse_args()
    if (reason := gpu_reason()) is not None:
        raise SystemExit(f"nothing to measure: {reason}")
    import torch

    begun, module, device = time.perf_counter(), dsl.load(SAMPLE), device_facts("cuda").name
    record: list[dict[str, Any]] = []
    for n in map(int, chosen.n.split(",")):
        shapes = [Shape(n, *each) for each in RESNET50]
        texts = compiled(shapes)
        makers = (lambda shape, texts=texts: ways(module, shape, texts[shape]), lambda shape: types(module, shape))
        for maker, some in zip(makers, (shapes, shapes[::3]), strict=True):
            found = []
            for shape in some:
                found.append(measured(maker(shape), chosen.rounds))
                record.append({"shape": str(shape), "ways": found[-1]})
                torch.cuda.empty_cache()
            report(n, found)
    print(f"{device}, {time.perf_counter() - begun:.0f} s")
    if chosen.json:
        chosen.json.write_text(json.dumps({"device": device, "versions": versions(), "rows": record}, indent=1) + "\n")
    if any(way["wrong"] for row in record for way in row["ways"].values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
