"""ResNet-50's 22 convolutions of bytes, with bias, requantisation and ReLU, against cuDNN's int8 NHWC and torch's f16.

    python3 benchmarks/int8_conv.py --n 32,256 --json conv.json --plot conv.png

The reference applies the epilogue to the exact sums in float64 and rounds to nearest even. Outputs are poisoned, and
every result of our kernels and of cuDNN must equal this reference. Then all variants are timed in one interleaved run.
The L2 is overwritten between launches, and launches are queued ahead so that the device never waits for the host. With
fewer than 256 images, launches in a CUDA graph are timed, too. In a graph, the L2 still contains data of the previous
launch.

"dsl" is our kernel for the layout NC/32HW32. "dsl nhwc" has channels innermost. "dsl any" is a single variant for all
image sizes of the same divisibility. "by hand" and "by hand nhwc" are peers/by_hand/int8_conv.tile. In this file,
rings, waits and fragments are written out, and tiles were tuned for each shape. torch's variant has f16 operands, and
neither bias nor ReLU. `floor` is the longer of two times: the time of the bytes at 4.27 TB/s, and the time of the
operations at the 1280 TOPS of `mma.sync`. The emulator counts bank conflicts and sectors of the launch with one image.
Peers that are not installed are left out and reported.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple
from math import exp, log
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from harness import Call
from harness.contest import Contest
from harness.record import save
from harness.rows import OURS, Row
from harness.table import console, show
from harness.timing import ROUNDS
from int8_conv_shapes import BLOCK, RESNET50, Operands, Shape, blocked, blocked_filters, innermost

import dsl
from dsl.runtime import device_facts, gpu_reason
from dsl.values.facts import ArrayFacts

HERE = Path(__file__).resolve().parent
SAMPLE = HERE.parent / "samples" / "int8_conv.tile"
BY_HAND = HERE / "peers" / "by_hand" / "int8_conv.tile"
BYTES_A_SECOND, OPERATIONS_A_SECOND = 4.27e12, 1280e12
"""Rates of the H200, as reached by copies and by `mma.sync` on bytes."""
OTHERS = ("dsl nhwc", "dsl any")
"""Further variants of our kernel, beside the row's own variant."""


class Problem:
    """One shape. See harness.contest.Problem. An error is the number of elements that differ."""

    name, dtype, bound = "conv2d", "s8", 0.0
    call = Call("conv2d", {"ACT": "rectified"})

    def __init__(self, shape: Shape):
        import torch

        self.of, self.operands = shape, Operands(shape)
        self.shape: dict[str, Any] = {"n": shape.n, "shape": str(shape).partition(",")[2]}
        o = self.operands
        self.wanted = o.wanted(lambda v: v.clamp(min=0))
        self.y = torch.empty_like(self.wanted)
        self.blocked_y, self.blocked_x, self.blocked_f = blocked(self.y), blocked(o.x), blocked_filters(o.f)
        self.scalars = (o.alpha, o.beta, 0.0, o.six, *shape.geometry)

    @property
    def moves(self) -> int:
        return self.of.moves

    @property
    def computes(self) -> int:
        return self.of.operations

    @property
    def arguments(self) -> tuple[Any, ...]:
        return (self.blocked_y, self.blocked_x, self.blocked_f, self.operands.bias, None, *self.scalars)

    def error(self, launch: Callable[[], object]) -> float:
        import torch

        if isinstance(launch, TorchConvolution):
            return launch.error()
        self.y.fill_(77)
        self.blocked_y.fill_(77)
        launch()
        torch.cuda.synchronize()
        found = self.y if getattr(launch, "is_innermost", False) else innermost(self.blocked_y)
        return float((found != self.wanted).sum())


class Innermost:
    """A module's convolution on NHWC."""

    is_innermost = True

    def __init__(self, module: dsl.Module, problem: Problem):
        o = problem.operands
        self.arguments = (problem.y, o.x, o.f, o.bias, None, *problem.scalars)
        self.function = module.conv2d_nhwc

    def __call__(self) -> None:
        self.function(*self.arguments, ACT="rectified")


class Cudnn:
    """cuDNN's convolution, by implicit products with precomputed indices."""

    is_innermost = True

    def __init__(self, problem: Problem):
        from peers import cudnn

        s, o = problem.of, problem.operands
        x, f, y = (s.n, s.c, s.h, s.h), (s.k, s.c, s.r, s.r), (s.n, s.k, s.p, s.p)
        arrays = (problem.y, o.x, o.f, o.bias)
        self.launch = cudnn.convolution_s8(x, f, y, s.stride, s.pad, o.alpha, arrays)

    def __call__(self) -> None:
        self.launch()


class TorchConvolution:
    """torch's f16 convolution without an epilogue. Channels are innermost. Operands are scaled so that sums stay
    finite."""

    def __init__(self, problem: Problem):
        import torch

        s, o = problem.of, problem.operands
        torch.backends.cudnn.benchmark = True
        last = torch.channels_last
        self.x = (o.x.half() / 128).permute(0, 3, 1, 2).contiguous(memory_format=last)
        self.f = (o.f.half() / 128).permute(0, 3, 1, 2).contiguous(memory_format=last)
        self.stride, self.pad = s.stride, s.pad
        self.sums, self.k = o.sums, s.k
        self.out: Any = None

    def __call__(self) -> None:
        import torch

        self.out = torch.nn.functional.conv2d(self.x, self.f, None, self.stride, self.pad)

    def error(self) -> float:
        """The number of elements that are not within the rounding of f16."""
        self()
        wanted = self.sums[:4096].double() / 128**2
        found = self.out.permute(0, 2, 3, 1).reshape(-1, self.k)[:4096].double()
        return float(((found - wanted).abs() > 0.05 + 0.01 * wanted.abs()).sum())


def floor(shape: Shape) -> float:
    """The least time that a shape can take, in microseconds."""
    return 1e6 * max(shape.moves / BYTES_A_SECOND, shape.operations / OPERATIONS_A_SECOND)


def peers(module: dsl.Module) -> dict[str, Callable[[Any], tuple[Callable[[], object], str]]]:
    hand = dsl.load(BY_HAND)

    def any_image(problem: Problem) -> tuple[Callable[[], object], str]:
        return lambda: module.conv2d(*problem.arguments, ACT="rectified", ANY_IMAGE=True), ""

    def by_hand(problem: Problem) -> tuple[Callable[[], object], str]:
        return lambda: hand.conv2d(*problem.arguments, ACT="rectified"), ""

    return {
        "dsl nhwc": lambda problem: (Innermost(module, problem), ""),
        "dsl any": any_image,
        "by hand": by_hand,
        "by hand nhwc": lambda problem: (Innermost(hand, problem), ""),
        "cudnn": lambda problem: (Cudnn(problem), ""),
        "torch f16": lambda problem: (TorchConvolution(problem), ""),
    }


# ---- variants compiled beforehand ----


def facts(shape: Shape, is_blocked: bool) -> dict[str, Any]:
    """The facts that planning needs for a call at this shape."""
    s, block = shape, BLOCK
    x, y = (s.n, s.h, s.h, s.c), (s.n, s.p, s.p, s.k)
    f: tuple[int, ...] = (s.k, s.r, s.r, s.c)
    if is_blocked:
        x, y = (s.n, s.c // block, s.h, s.h, block), (s.n, s.k // block, s.p, s.p, block)
        f = (s.c // block, s.r, s.r, s.k, block)
    arrays = {name: ArrayFacts(extents, "s8", 16) for name, extents in (("y", y), ("x", x), ("f", f))}
    scalars = zip(("sh", "sw", "ph", "pw", "dh", "dw"), s.geometry, strict=True)
    numbers = {"alpha": 1.0, "beta": 1.0, "gamma": 0.0, "six": 6.0}
    return {**arrays, "bias": ArrayFacts((s.k,), "f32", 16), "z": None, **numbers, **dict(scalars)}


def counted(shape: Shape) -> dict[str, float]:
    """The emulator's counters of `conv2d` for one image, with the variant that the dispatch chooses."""
    s, random = Shape(1, *astuple(shape)[1:]), np.random.default_rng(0)
    cb, kb = s.c // BLOCK, s.k // BLOCK
    module = dsl.load(SAMPLE, device="emulator")
    x = random.integers(-128, 128, (1, cb, s.h, s.h, BLOCK)).astype(np.int8)
    f = random.integers(-128, 128, (cb, s.r, s.r, s.k, BLOCK)).astype(np.int8)
    y, bias = np.zeros((1, kb, s.p, s.p, BLOCK), np.int8), np.zeros(s.k, np.float32)
    kernel = module.variant(module.conv2d.plan(facts(s, True), ACT="rectified").steps[0].request)
    result = kernel.run(y, x, f, bias, None, 1.0, 1.0, 0.0, 6.0, *s.geometry, counters=True)
    return result.counters.totals.as_dict()


CALLS: tuple[tuple[Path, str, dict[str, bool]], ...] = (
    (SAMPLE, "conv2d", {}), (SAMPLE, "conv2d", {"ANY_IMAGE": True}), (SAMPLE, "conv2d_nhwc", {}),
    (BY_HAND, "conv2d", {}), (BY_HAND, "conv2d_nhwc", {}),
)  # fmt: skip
"""The calls whose kernels are compiled beforehand."""


def compile_beforehand(shape: Shape) -> dict[str, float]:
    """Compiles the variants of a shape in a separate process, and returns the counters of our kernel.

    The driver caches the machine code of these variants on disk.
    """
    for file, name, rest in CALLS:
        module = dsl.load(file)
        plan = getattr(module, name).plan(facts(shape, name == "conv2d"), ACT="rectified", **rest)
        for step in plan.steps:
            module.variant(step.request).kernel.attributes()
    return counted(shape)


def prepare(shapes: Sequence[Shape]) -> dict[Shape, dict[str, float]]:
    """Compiles all variants in several processes, one fewer than there are cores. Returns the counters of our
    kernel."""
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 1) - 1), get_context("spawn")) as pool:
        return dict(zip(shapes, pool.map(compile_beforehand, shapes), strict=True))


def summary(rows: Sequence[Row]) -> list[str]:
    """The sums over the shapes, in microseconds, and the shapes at which our kernel is slower than the best peer."""
    lines = []
    names = [name for name in rows[0].times if all(name in row.times for row in rows)]
    sums = {name: sum(row.times[name].median for row in rows) for name in names}
    lines.append("sums: " + ", ".join(f"{name} {total:.0f}" for name, total in sums.items()))
    others = [name for name in names if name not in (OURS, *OTHERS, rows[0].yardstick)]
    for ours in (OURS, *OTHERS):
        if ours not in sums:
            continue
        for peer in others:
            worst = max(rows, key=lambda row: row.times[ours].median / row.times[peer].median)
            ratio = worst.times[ours].median / worst.times[peer].median
            lines.append(
                f"{ours}: {sums[ours] / sums[peer]:.3f} of {peer}, at worst {ratio:.2f} ({worst.shape['shape']})"
            )
    for ours, hand in ((OURS, "by hand"), ("dsl nhwc", "by hand nhwc")):
        if ours in sums and hand in sums:
            ratios = [row.times[hand].median / row.times[ours].median for row in rows]
            mean = exp(sum(map(log, ratios)) / len(ratios))
            lines.append(f"{ours}: {mean:.3f} of the speed of {hand} (geometric mean), {min(ratios):.3f} at worst")
    wrong = [f"{name} at {row.shape}" for row in rows for name in row.errors if row.is_wrong(name)]
    return [*lines, f"WRONG: {', '.join(wrong)}" if wrong else "all exact"]


def roofline(path: Path, rows: Sequence[tuple[Shape, Row]], device: str) -> None:
    """Draws operations per second over operations per byte."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(9, 6))
    intensity = [shape.operations / shape.moves for shape, _ in rows]
    ends = (min(intensity) / 1.5, OPERATIONS_A_SECOND / BYTES_A_SECOND, max(intensity) * 1.5)
    axis.plot(ends, [min(x * BYTES_A_SECOND, OPERATIONS_A_SECOND) / 1e12 for x in ends], color="black", linewidth=1)
    for name, colour, marker in ((OURS, "#D55E00", "o"), ("dsl nhwc", "#0072B2", "s"), ("cudnn", "#009E73", "^")):
        points = [
            (x, s.operations / r.times[name].median / 1e6)
            for x, (s, r) in zip(intensity, rows, strict=True)
            if name in r.times
        ]
        axis.scatter(*zip(*points, strict=True), s=18, color=colour, marker=marker, label=name) if points else None
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)
    axis.set_xlabel("operations a byte")
    axis.set_ylabel("TOPS")
    axis.legend(frameon=False)
    axis.set_title(
        f"{device}: ResNet-50's convolutions, s8, N = {', '.join(sorted({str(s.n) for s, _ in rows}))}",
        loc="left",
        fontsize=10,
    )
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--n", default="1,32,256", help="numbers of images")
    made.add_argument("--shapes", default="", help="indices into the 22 shapes, all without")
    made.add_argument("--rounds", type=int, default=ROUNDS, help="timed launches of each variant")
    made.add_argument("--json", type=Path, metavar="FILE")
    made.add_argument("--plot", type=Path, metavar="FILE.png")
    chosen = made.parse_args()
    if (reason := gpu_reason()) is not None:
        raise SystemExit(f"nothing to measure: {reason}")
    import torch

    begun, out, device = time.perf_counter(), console(), device_facts("cuda").name
    module = dsl.load(SAMPLE)
    contest = Contest({SAMPLE: module}, peers(module), chosen.rounds)
    shapes = [RESNET50[int(i)] for i in chosen.shapes.split(",") if i] or RESNET50
    counters = prepare([Shape(n, *each) for n in map(int, chosen.n.split(",")) for each in shapes])
    out.print(f"prepared after {time.perf_counter() - begun:.0f} s")
    measured: list[tuple[Shape, Row]] = []
    wrong = 0
    for n in map(int, chosen.n.split(",")):
        rows = []
        contest.replay = (OURS, "dsl nhwc", "by hand", "cudnn") if n < 256 else ()
        for each in shapes:
            shape = Shape(n, *each)
            problem = Problem(shape)
            row = contest.measure(problem)
            row.notes["floor"] = f"{floor(shape):.1f}"
            row.counters, row.counted_shape = counters[shape], {**row.shape, "n": 1}
            rows.append(row)
            measured.append((shape, row))
            wrong += sum(row.is_wrong(name) for name in (OURS, *OTHERS))
            del problem
            torch.cuda.empty_cache()
        out.print(show(rows, f"{device}, N = {n}, microseconds", "shape"))
        out.print(f"floors: {sum(floor(Shape(n, *each)) for each in shapes):.0f}")
        for line in summary(rows):
            out.print(line)
        if chosen.json:
            every = [row for _, row in measured]
            save(chosen.json, every, device, [SAMPLE], rounds=chosen.rounds, left_out=contest.left_out)
    for left_out, places in contest.left_out.items():
        out.print(f"left out: {left_out} ({', '.join(places[:3])}, …)")
    if chosen.plot:
        roofline(chosen.plot, measured, device)
    out.print(f"{time.perf_counter() - begun:.0f} s")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
