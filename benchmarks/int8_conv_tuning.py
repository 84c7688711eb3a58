"""Tunes peers/by_hand/int8_conv.tile at ResNet-50's shapes, and writes the winners beside it.

    python3 benchmarks/int8_conv_tuning.py --n 1,32,256 --calls conv2d,conv2d_nhwc

`dsl tune` checks against numpy, which takes minutes for these sums; here operands stay on the GPU. Candidates are
compiled in parallel, spilling ones thrown out; each answer is compared with the exact one on a poisoned output; those
that remain are measured against each other in shuffled rounds, the L2 overwritten in between.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import product
from multiprocessing import get_context
from random import Random
from typing import Any

from int8_conv import BY_HAND as SAMPLE
from int8_conv import facts
from int8_conv_shapes import RESNET50, Operands, Shape, blocked, blocked_filters, innermost

import dsl
from dsl.calls.plan import BoundPlan, Plan
from dsl.calls.tuned import Entry, StepChoice, Tuned, branch_steps, read_tuned, text_digest, tuned_path
from dsl.lab.contest import contest, median_interval, tying
from dsl.runtime import Kernel, device_facts
from dsl.runtime.cuda.timing import measure_rounds
from dsl.text import tree as ast

SERVED = {1: (1, 5), 32: (6, 90), 256: (91, None)}
"""Numbers of images that an entry serves, by the tuned one."""
TILES = (
    (2, 3, 64, 64, 4),
    (1, 3, 128, 64, 4),
    (2, 3, 64, 128, 8),
    (2, 3, 128, 64, 8),
    (2, 2, 64, 64, 4),
    (1, 1, 128, 128, 4),
    (2, 5, 32, 64, 4),
    (1, 3, 64, 64, 4),
    (1, 4, 64, 64, 4),
    (1, 1, 128, 64, 4),
    (1, 1, 64, 128, 4),
    (1, 1, 64, 64, 4),
    (1, 1, 64, 32, 2),
)
"""PM, PN, TM, TN, WARPS: parts of channels and of pixels, channels and pixels of a part."""
DEPTHS = ((64, 4), (64, 3), (64, 2), (128, 3), (128, 2))
"""Bytes of a step along K, and stages."""
Made = tuple[list[str], int]


def candidates(call: str, shape: Shape, sms: int) -> Iterator[dict[str, Any]]:
    """Constants of the product's launch: tiles that make sense for the shape."""
    depth, everything = shape.c * shape.r**2, shape.n * shape.p**2
    for (pm, pn, tm, tn, warps), (size, stages) in product(TILES, DEPTHS):
        channels, pixels = pm * tm, pn * tn
        tiles = -(-everything // pixels) * -(-shape.k // channels)
        is_large = channels * pixels > 96 * 64 * warps // 2
        if channels > max(64, shape.k) or size > depth or (channels + pixels) * size * stages > 227 << 10:
            continue
        if stages > max(2, depth // size + 1) or (is_large and size == 128 and warps == 4 and stages > 2):
            continue
        if tiles < sms * channels * pixels * 4 // (128 * 192 * warps) and pixels > 32:
            continue  # far too few
        if (tiles > 8 * sms and pixels < 128) or (tiles > 2 * sms and pixels == 32):
            continue  # far too many
        tile = {"PM": pm, "PN": pn, "TM": tm, "TN": tn, "WARPS": warps, "DEPTH": stages, "NEAR": False, "SPLIT": False}
        if call == "conv2d":
            steps = [{"G": size // 32}]
        else:
            steps = [{"BYTES": size, "BLOCK": block} for block in ((32, size) if is_large else (size,))]
        for constants in (tile | step for step in steps):
            yield constants
            if shape.r > 1 and channels * pixels <= 64 * 128 and stages > 2:
                yield constants | {"NEAR": True}
            if tiles < sms and depth >= 512:
                yield constants | {"SPLIT": True}


def choose(module: dsl.Module, call: str, constants: dict[str, Any]) -> tuple[StepChoice, ...]:
    """The branch of the dispatch with one launch or, where the sums are split, with two; and these constants."""
    branches = [line for line in module.program.dispatches[call].lines if isinstance(line, ast.When)]
    count = 2 if constants["SPLIT"] else 1
    steps = next(s for s in (branch_steps(line, module.program) for line in branches[1:]) if len(s) == count)
    return replace(steps[0], constants={k: v for k, v in constants.items() if k != "SPLIT"}), *steps[1:]


def planner_of(module: dsl.Module, call: str, shape: Shape, has_z: bool) -> Any:
    given = facts(shape, call == "conv2d")
    return getattr(module, call).planner(given | {"z": given["y"] if has_z else None}, ACT="rectified")


def planned(module: dsl.Module, call: str, shape: Shape, has_z: bool, constants: dict[str, Any]) -> Plan:
    """The launches of a candidate."""
    planner = planner_of(module, call, shape, has_z)
    planner.chosen = choose(module, call, constants)
    return planner.plan()


def make(call: str, shape: Shape, has_z: bool, constants: dict[str, Any]) -> Made | str:
    """In a process of the pool: PTX of the launches, which the driver compiles and keeps, and bytes spilled."""
    try:
        module = module_of()
        kernels = [module.variant(step.request) for step in planned(module, call, shape, has_z, constants).steps]
        return [kernel.ptx for kernel in kernels], sum(k.kernel.attributes().local_bytes for k in kernels)
    except Exception as error:  # a candidate that does not compile is one less
        return f"{type(error).__name__}: {error}"


@cache
def module_of() -> dsl.Module:
    """The sample, once a process, without the entries that it has: each candidate names its constants."""
    module = dsl.load(SAMPLE, device="cuda")
    module._tuned = Tuned()
    return module


def entry(
    module: dsl.Module, call: str, shape: Shape, has_z: bool, pool: Sequence[tuple[dict[str, Any], Future]]
) -> Entry | None:
    """Checks and measures the candidates of one call."""
    import torch

    o = Operands(shape)
    z = torch.randint(-128, 128, (shape.n, shape.p, shape.p, shape.k), dtype=torch.int8, device="cuda")
    wanted = o.wanted(lambda v: v.clamp(min=0), z if has_z else None)
    is_blocked, title = call == "conv2d", f"{shape}{' z' if has_z else ''}"
    y = blocked(torch.empty_like(wanted)) if is_blocked else torch.empty_like(wanted)
    x, f = (blocked(o.x), blocked_filters(o.f)) if is_blocked else (o.x, o.f)
    old = None if not has_z else blocked(z) if is_blocked else z
    arguments = (y, x, f, o.bias, old, o.alpha, o.beta, o.gamma if has_z else 0.0, o.six, *shape.geometry)
    function = getattr(module, call)
    given, _ = function.order(arguments, {})
    ready: dict[int, tuple[dict[str, Any], Any]] = {}
    thrown_out: dict[str, int] = {}
    for index, (constants, future) in enumerate(pool):
        made = future.result()
        reason = made if isinstance(made, str) else "spills" if made[1] else None
        if reason is None:
            plan = planned(module, call, shape, has_z, constants)
            bound = BoundPlan(function, plan, [Kernel(ptx, device="cuda") for ptx in made[0]])
            launches = [k.bind(*bound.arguments(s, given)) for s, k in zip(plan.steps, bound.kernels, strict=True)]
            y.fill_(77)
            run = launches[0] if len(launches) == 1 else lambda launches=launches: [each() for each in launches]
            run()
            torch.cuda.synchronize()
            if torch.equal(innermost(y) if is_blocked else y, wanted):
                ready[index] = constants, run
            else:
                reason = f"wrong: {constants}"
        if reason is not None:
            thrown_out[reason[:160]] = thrown_out.get(reason[:160], 0) + 1
    if not ready:
        print(call, title, "nothing is left", thrown_out)
        return None
    times = contest(
        {index: run for index, (_, run) in ready.items()},
        lambda launches, rounds, order: measure_rounds(launches, rounds, order=order),
        0,
    )
    ties = tying(times)
    best = min(ties)
    median, low, high = (round(v, 2) for v in median_interval(times[best]))
    constants = ready[best][0]
    print(call, title, f"{median:.1f} µs of {len(ready)}, {len(ties)} tie", constants, thrown_out or "", flush=True)
    planner = planner_of(module, call, shape, has_z)
    found, steps = planner.facts(), choose(module, call, constants)
    digest, ranges = text_digest(module.program, steps), {"n": SERVED[shape.n]}
    named = (found.call, found.options, found.types, found.dims, found.absent, steps, digest, ranges)
    return Entry(device_facts("cuda").name, *named, median, (low, high), len(ties))


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--n", default="1,32,256", help=f"numbers of images: {', '.join(map(str, SERVED))}")
    made.add_argument("--calls", default="conv2d,conv2d_nhwc")
    made.add_argument("--z", default="without,with", help="whether something is added to the sums")
    made.add_argument("--taps", default="1,3", help="sizes of filters")
    made.add_argument("--seconds", type=float, default=600, help="after which no shape is begun")
    chosen = made.parse_args()
    begun, sms = time.perf_counter(), device_facts("cuda").sms
    shapes = [Shape(n, *each) for n in map(int, chosen.n.split(",")) for each in RESNET50]
    shapes = [shape for shape in shapes if str(shape.r) in chosen.taps.split(",")]
    calls, z = chosen.calls.split(","), [each == "with" for each in chosen.z.split(",")]
    work = [(call, shape, has_z) for shape in shapes for call in calls for has_z in z]
    order = Random(0)
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 1) - 2), get_context("spawn")) as executor:
        pool = {}
        for each in work:
            listed = list(candidates(*each[:2], sms))
            order.shuffle(listed)
            pool[each] = [(constants, executor.submit(make, *each, constants)) for constants in listed]
        print(sum(map(len, pool.values())), "candidates", flush=True)
        module, entries = module_of(), []
        tuned = read_tuned(tuned_path(SAMPLE))
        for each in work:
            if time.perf_counter() - begun < chosen.seconds:
                entries.append(entry(module, *each, pool[each]))
        executor.shutdown(cancel_futures=True)
        tuned.put([each for each in entries if each is not None])
        tuned.write()
    print(f"{len(entries)} calls, {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
