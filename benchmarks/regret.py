"""The points that costs choose, against the other points of the same schedules, at random shapes.

    python3 benchmarks/regret.py products --count 60 --points 30 --log products.jsonl
    python3 benchmarks/regret.py rows --seed 5 --seconds 200

The families, types and seeds are those of random_shapes.py, but fewer shapes and smaller reduced arrays by default. For
each shape, the points of all schedules of the kernel are sorted by cost. Two thirds of `--points` are the cheapest
ones. The others are drawn from points that cost at most `--within` times the cheapest one. All of them are compiled in
other processes, and timed in one interleaved run with the peers.

The output is that of `dsl calibrate --check`, and the times of the peers. The log has a trial for each point, so
`dsl calibrate` can judge another text, and fit the numbers of the device.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from math import inf
from pathlib import Path
from socket import gethostname
from statistics import median
from typing import Any, NamedTuple
from uuid import uuid4

from harness import LeftOut, interleaved
from harness.intervals import geometric_mean
from msgspec.structs import replace
from random_shapes import FAMILIES, LAUNCH, Case, parser

from dsl.calls.plan import BoundPlan, Plan
from dsl.calls.planner import Planner
from dsl.calls.tuned import StepChoice, branch_steps
from dsl.command.calibrate import show_scores
from dsl.lab.clocks import clocks
from dsl.lab.compiling import Compiler, Made
from dsl.lab.costs import LoggedCosts
from dsl.lab.place import TuningPlace, find_place
from dsl.lab.runner import described
from dsl.lab.trial import CostFacts, Log, Trial, blank_trial
from dsl.lowering.ir.location import TileError
from dsl.runtime import Kernel
from dsl.text.terminal import Terminal

ROUNDS = 9


class Point(NamedTuple):
    """A schedule at one point of its sets: the launches of the call with it."""

    steps: Sequence[StepChoice]
    plan: Plan


class Compared(NamedTuple):
    """The trials of a case's points, cheapest first, and the median microseconds of its first peer."""

    trials: list[Trial]
    peer: float


def planner_of(case: Case) -> Planner:
    given, rest = case.function.order(case.arguments, dict(case.call.constants))
    return case.function.planner(case.function.facts(given), **rest)


def planned(case: Case, chosen: Sequence[StepChoice] | None = None) -> Plan:
    """The plan of a case's call, or the plan with these launches."""
    planner = planner_of(case)
    planner.chosen = chosen
    return planner.plan()


def points(case: Case, most: int, within: float, least: float, source: random.Random) -> list[Point]:
    """The points of a call's last launch that are measured: the cheapest ones, and a draw from the others. There are
    none if the cheapest one costs less than `least` microseconds."""
    planner = planner_of(case)
    planner.plan()
    assert planner.branch is not None  # all calls that are measured have a dispatch
    *before, last = branch_steps(planner.branch, case.file.program)

    def chosen(schedule: str, values: dict[str, Any]) -> Point:
        steps = [*before, replace(last, schedule=schedule, constants=values)]
        return Point(steps, planned(case, steps))

    listed: list[tuple[float, str, dict[str, Any]]] = []
    for schedule in case.file.program.schedules_of(last.kernel):
        try:
            found = case.file.points(chosen(schedule, {}).plan.steps[-1].request)
        except TileError:  # no branch launches it, or it has no value for this call
            continue
        if found is not None:
            listed += [(cost, schedule, found.at(place)) for place, cost in enumerate(found.costs) if cost < inf]
    listed.sort(key=lambda each: each[0])
    if not listed or listed[0][0] < least:
        return []
    first = most * 2 // 3
    others = [each for each in listed[first:] if each[0] <= within * listed[0][0]]
    every = listed[:first] + source.sample(others, min(most - first, len(others)))
    return [chosen(schedule, values) for _, schedule, values in every]


class Loaded(NamedTuple):
    """The launches of a plan with compiled kernels, and what the compiler says of each kernel."""

    plan: BoundPlan
    made: Sequence[Made]


def bound(case: Case, plan: Plan, compiler: Compiler) -> Loaded | None:
    """The launches of a plan with compiled kernels, or None if the compiler refuses one of them."""
    made = compiler.made_plan(plan)
    if any(each.ptx is None for each in made):
        return None
    kernels = [Kernel(each.ptx or "", each.entry, "cuda") for each in made]
    return Loaded(BoundPlan(case.function, plan, kernels), made)


def measured(
    case: Case,
    listed: Sequence[Point],
    compiler: Compiler,
    loaders: Executor,
    blank: Callable[..., Trial],
    place: TuningPlace,
) -> Compared:
    """Checks and times the points of a call, and its peers."""
    given, rest = case.function.order(case.arguments, dict(case.call.constants))
    compiled = [(point, made) for point in listed if (made := bound(case, point.plan, compiler)) is not None]
    # The driver assembles PTX without Python's lock, so several texts at once.
    list(loaders.map(Kernel.attributes, [kernel for _, made in compiled for kernel in made.plan.kernels]))
    launches: dict[Any, Callable[[], object]] = dict(case.peers)
    for number, (point, (plan, _)) in enumerate(compiled):
        case.arguments[0].fill_(77)  # the output: a launch that writes nothing is not right
        plan.launch(given)
        if not case.right():
            raise SystemExit(f"WRONG: {case.name} {case.dtype} {case.shape} with {point.steps}")
        launches[number] = partial(plan.launch, given)
    times = interleaved(launches, ROUNDS, warmups=1)
    facts = case.function.planner(case.function.facts(given), **rest).facts()
    together = {"contest": uuid4().hex[:12], "clocks": clocks(place), "where": f"{gethostname()} {place.device}"}
    trials = []
    for number, (point, (plan, made)) in enumerate(compiled):
        about = {"steps": [step.as_json() for step in point.steps], "times_us": times[number], **together}
        about["launches"] = [described(*pair, place) for pair in zip(plan.kernels, made, strict=True)]
        requests = [CostFacts.of(step.request) for step in point.plan.steps]
        values = {"operation": case.name, **case.shape}
        trials.append(blank(case.file.program, facts, values=values, requests=requests, **about))
    return Compared(trials, median(times[next(iter(case.peers))]))


def summary(rows: Sequence[Compared]) -> Iterator[str]:
    """The first peer's times divided by those of our points, over all shapes, and over those for which the peer takes
    LAUNCH microseconds and more."""
    rows = [row for row in rows if row.trials]  # ptxas or the compiler may refuse all points of a shape
    long = [row for row in rows if row.peer >= LAUNCH]
    for name, group in ("all", rows), (f"{LAUNCH:.0f} us and more", long):
        if group:
            times = [(row.peer, [trial.interval[0] for trial in row.trials]) for row in group]
            cheapest = geometric_mean(peer / ours[0] for peer, ours in times)
            best = geometric_mean(peer / min(ours) for peer, ours in times)
            yield f"{name}: {len(group)} shapes; peer / cheapest point {cheapest:.3f}, peer / best point {best:.3f}"


def main() -> None:
    options = parser(__doc__, 60, 1 << 26)
    options.add_argument("--points", type=int, default=30)
    options.add_argument("--within", type=float, default=1.5, help="costs of the drawn points, in cheapest ones")
    options.add_argument("--least", type=float, default=0.0, help="microseconds: leave out shapes that cost less")
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    options.add_argument("--log", type=Path, metavar="FILE.jsonl", help="add a trial for each point")
    chosen = options.parse_args()
    make, types = FAMILIES[chosen.family]
    source, begun = random.Random(chosen.seed), time.perf_counter()
    out, place = Terminal(), find_place("cuda")

    def blank(program: Any, facts: Any, **about: Any) -> Trial:
        made = blank_trial(program, place, facts, chosen.seed, sys.argv, example=None, index=0, **about)
        made.file = os.path.relpath(made.file)  # the log may be read on another machine
        return made

    cases = []
    for _ in range(chosen.count):
        with suppress(LeftOut):
            cases.append(make(source, source.choice(chosen.types or types), chosen))
    compilers: dict[Any, Compiler] = {}
    listed, rows = [], list[Compared]()
    with ExitStack() as running:
        for case in cases:
            found, path = points(case, chosen.points, chosen.within, chosen.least, source), case.file.program.path
            if not found:
                continue
            listed.append((case, found))
            if path not in compilers:
                compilers[path] = running.enter_context(Compiler(case.file.program, chosen.jobs, "none"))
            for point in found:
                compilers[path].begin_plan(point.plan)
        count, seconds = sum(len(found) for _, found in listed), time.perf_counter() - begun
        out.print(f"planned {count} points after {seconds:.0f} s")
        loaders = running.enter_context(ThreadPoolExecutor(chosen.jobs))
        for case, found in listed:
            if time.perf_counter() - begun > chosen.seconds:
                break
            rows.append(measured(case, found, compilers[case.file.program.path], loaders, blank, place))
    out.print(f"{place.name}, {chosen.family}, seed {chosen.seed}, {time.perf_counter() - begun:.0f} s")
    trials = [trial for row in rows for trial in row.trials]
    costs = LoggedCosts(trials)
    show_scores(out, costs.scores(costs.start, costs.cases))
    for line in summary(rows):
        out.print(line)
    log = Log(chosen.log) if chosen.log else None
    for trial in trials if log else ():
        log.add(trial)


if __name__ == "__main__":
    main()
