"""The points that costs choose, against the other points of the same schedules, at random shapes.

    python3 benchmarks/regret.py products --count 60 --points 30 --json products.json
    python3 benchmarks/regret.py rows --seed 5 --seconds 200

The families, types and seeds are those of random_shapes.py, but fewer shapes and smaller reduced arrays by default. For
each shape, the points of all schedules of the kernel are sorted by cost. Two thirds of `--points` are the cheapest
ones. The others are drawn from points that cost at most `--within` times the cheapest one. All of them are compiled in
other processes, and timed in one interleaved run with the call itself and its peers.

The regret of a shape is the time of the call, divided by the time of the best point. The correlation is that of the
ranks of costs and times (Spearman). JSON has the values, the cost and the times of each point, to fit costs to.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import numpy as np
from harness import Interval, LeftOut, interleaved
from harness.intervals import geometric_mean
from harness.rows import OURS
from harness.table import console, constants
from random_shapes import FAMILIES, LAUNCH, Case, parser

from dsl.calls.plan import BoundPlan, Plan
from dsl.calls.tuned import StepChoice
from dsl.lab.compiling import Compiler
from dsl.lowering.ir.location import TileError
from dsl.runtime import Kernel, device_facts

ROUNDS = 9
WORST = 12


@dataclass(frozen=True, slots=True)
class Point:
    """A schedule at one point of its sets, with its predicted microseconds and the launches of the call with it."""

    schedule: str
    values: dict[str, Any]
    cost: float
    plan: Plan

    def __str__(self) -> str:
        return f"{self.schedule} {constants(self.values)}"


@dataclass(slots=True)
class Measured:
    """A case, the points that ran, and the median microseconds of the call, the peers and the points. Points are
    named by their text."""

    case: Case
    points: list[Point]
    times: dict[str, float]

    @property
    def best(self) -> Point | None:
        return min(self.points, key=lambda point: self.times[str(point)], default=None)

    @property
    def regret(self) -> float:
        """The time of the call, divided by that of the best point. Less than 1 if the call is faster than all points:
        both are measured."""
        return self.times[OURS] / self.times[str(self.best)]

    @property
    def of_peer(self) -> float:
        return self.times[next(iter(self.case.peers))]

    @property
    def correlation(self) -> float:
        """Spearman's rank correlation of costs and times."""
        costs, times = ([f(point) for point in self.points] for f in (lambda p: p.cost, lambda p: self.times[str(p)]))
        ranks = [np.argsort(np.argsort(each)) for each in (costs, times)]
        return float(np.corrcoef(*ranks)[0, 1])


def planned(case: Case, chosen: Sequence[StepChoice] | None = None) -> Plan:
    """The plan of a case's call, or the plan with these launches."""
    given, rest = case.function.order(case.arguments, dict(case.call.constants))
    planner = case.function.planner(case.function.facts(given), **rest)
    planner.chosen = chosen
    return planner.plan()


def points(case: Case, call: Plan, most: int, within: float, source: random.Random) -> list[Point]:
    """The points of a call's last launch that are measured: the cheapest ones, and a draw from the others."""
    *before, last = [StepChoice(step.request.kernel, step.request.schedule, {}) for step in call.steps]

    def chosen(schedule: str, values: dict[str, Any]) -> Plan:
        return planned(case, [*before, StepChoice(last.kernel, schedule, values)])

    listed: list[tuple[float, str, dict[str, Any]]] = []
    for schedule in case.file.program.schedules_of(last.kernel):
        try:
            found = case.file.points(chosen(schedule, {}).steps[-1].request)
        except TileError:  # no branch launches it, or it has no value for this call
            continue
        if found is not None:
            listed += [(cost, schedule, found.at(place)) for place, cost in enumerate(found.costs) if cost < inf]
    listed.sort(key=lambda each: each[0])
    first = most * 2 // 3
    others = [each for each in listed[first:] if each[0] <= within * listed[0][0]]
    every = listed[:first] + source.sample(others, min(most - first, len(others)))
    return [Point(schedule, values, cost, chosen(schedule, values)) for cost, schedule, values in every]


def bound(case: Case, plan: Plan, compiler: Compiler) -> BoundPlan | None:
    """The launches of a plan with compiled kernels, or None if the compiler refuses one of them."""
    made = compiler.made_plan(plan)
    if any(each.ptx is None for each in made):
        return None
    kernels = [Kernel(each.ptx or "", each.entry, "cuda") for each in made]
    return BoundPlan(case.function, plan, kernels)


def measured(case: Case, call: Plan, listed: Sequence[Point], compiler: Compiler, loaders: Executor) -> Measured:
    """Checks and times the call, its peers and its points."""
    given, _ = case.function.order(case.arguments, dict(case.call.constants))
    plans = {OURS: bound(case, call, compiler)}
    plans |= {str(point): bound(case, point.plan, compiler) for point in listed}
    compiled = {name: plan for name, plan in plans.items() if plan is not None}
    # The driver assembles PTX without Python's lock, so several texts at once.
    list(loaders.map(Kernel.attributes, [kernel for plan in compiled.values() for kernel in plan.kernels]))
    launches: dict[str, Callable[[], object]] = dict(case.peers)
    for name, plan in compiled.items():
        case.arguments[0].fill_(77)  # the output: a launch that writes nothing is not right
        plan.launch(given)
        if not case.right():
            raise SystemExit(f"WRONG: {case.name} {case.dtype} {case.shape} with {name}")
        launches[name] = partial(plan.launch, given)
    times = interleaved(launches, ROUNDS, warmups=1)
    ran = [point for point in listed if str(point) in compiled]
    return Measured(case, ran, {name: Interval.of(runs).median for name, runs in times.items()})


def ratio(rows: Sequence[Measured], of: Callable[[Measured], str]) -> float:
    """The geometric mean of the first peer's time divided by that of the variant that `of` names."""
    return geometric_mean(row.of_peer / row.times[of(row)] for row in rows)


def summary(rows: Sequence[Measured]) -> Iterator[str]:
    """Regret and correlation over all shapes, and over those for which the peer takes LAUNCH microseconds and more."""
    long = [row for row in rows if row.of_peer >= LAUNCH]
    for name, group in ("all", rows), (f"{LAUNCH:.0f} us and more", long):
        if group:
            regrets, found = sorted(row.regret for row in group), [row.correlation for row in group]
            yield (
                f"{name}: {len(group)} shapes, regret {geometric_mean(regrets):.3f}, "
                f"95% {regrets[len(regrets) * 19 // 20]:.3f}, most {regrets[-1]:.3f}; "
                f"rank correlation {np.nanmean(found):.2f}; the peer takes {ratio(group, lambda row: OURS):.3f} "
                f"of the call's time, {ratio(group, lambda row: str(row.best)):.3f} of the best point's"
            )


def as_data(row: Measured) -> dict[str, Any]:
    """A row of the JSON."""
    case = row.case
    return {
        "operation": case.name,
        "dtype": case.dtype,
        "shape": case.shape,
        "times": {name: row.times[name] for name in (OURS, *case.peers)},
        "points": [
            {"schedule": point.schedule, "values": point.values, "cost": point.cost, "time": row.times[str(point)]}
            for point in row.points
        ],
    }


def main() -> None:
    options = parser(__doc__, 60, 1 << 26)
    options.add_argument("--points", type=int, default=30)
    options.add_argument("--within", type=float, default=1.5, help="costs of the drawn points, in cheapest ones")
    options.add_argument("--least", type=float, default=0.0, help="microseconds: leave out shapes that cost less")
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    chosen = options.parse_args()
    make, types = FAMILIES[chosen.family]
    source, begun = random.Random(chosen.seed), time.perf_counter()
    out, device = console(), device_facts("cuda").name
    cases = []
    for _ in range(chosen.count):
        with suppress(LeftOut):
            cases.append(make(source, source.choice(chosen.types or types), chosen.most))
    compilers: dict[Any, Compiler] = {}
    listed, rows = [], list[Measured]()
    with ExitStack() as running:
        for case in cases:
            call, path = planned(case), case.file.program.path
            found = points(case, call, chosen.points, chosen.within, source)
            if not found or found[0].cost < chosen.least:
                continue
            listed.append((case, call, found))
            if path not in compilers:
                compilers[path] = running.enter_context(Compiler(case.file.program, chosen.jobs, "none"))
            for plan in (call, *(point.plan for point in found)):
                compilers[path].begin_plan(plan)
        count, seconds = sum(len(found) for *_, found in listed), time.perf_counter() - begun
        out.print(f"planned {count} points after {seconds:.0f} s")
        loaders = running.enter_context(ThreadPoolExecutor(chosen.jobs))
        for case, call, found in listed:
            if time.perf_counter() - begun > chosen.seconds:
                break
            rows.append(measured(case, call, found, compilers[case.file.program.path], loaders))
    out.print(f"{device}, {chosen.family}, seed {chosen.seed}, {time.perf_counter() - begun:.0f} s")
    for row in sorted(rows, key=lambda row: -row.regret)[:WORST]:
        case, best = row.case, str(row.best)
        peers = ", ".join(f"{name} {row.times[name]:.1f}" for name in (OURS, *case.peers))
        shape = f"{case.name} {case.dtype} {constants(case.shape)}"
        out.print(f"{shape}: {peers}; {row.times[best]:.1f} with {best}")
    for line in summary(rows):
        out.print(line)
    if chosen.json:
        data = {"device": device, "seed": chosen.seed, "rows": list(map(as_data, rows))}
        chosen.json.write_text(json.dumps(data, indent=1))


if __name__ == "__main__":
    main()
