"""Lists what `dsl tune` tries: cases (sets of dims and types), and the points of each launch (combinations of `tune`
values)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import inf, prod
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from dsl.calls.plan import Plan
from dsl.calls.planner import Planner
from dsl.calls.tuned import StepChoice, branch_steps, described_step
from dsl.examples.overrides import Overrides, resolve
from dsl.examples.shapes import LaunchFacts, examine
from dsl.kernels.edited import Edited
from dsl.kernels.variant import Request
from dsl.lab.place import TuningPlace
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import DTYPES
from dsl.runtime.numbers import exact_key
from dsl.schedules import ScheduleRequest, launch_facts, resolve_schedule
from dsl.text import tree as ast
from dsl.text.program import Program

MAX_POINTS = 100_000
"""At most `MAX_POINTS` points are listed for one launch."""
MAX_CASES = 1000
"""Limit of the cases of one `dsl tune`. The example is examined for each case."""


def cases(program: Program, example: ast.Example, given: Sequence[str]) -> tuple[list[Overrides], dict[str, list[Any]]]:
    """Parses texts of the form `NAME=VALUE,VALUE`. Returns all combinations of the dims, types and options, and the
    values of each constant. Raises a TileError `option` or `limit`."""
    axes: dict[tuple[str, str], list[Any]] = {}
    domains: dict[str, list[Any]] = {}
    words: set[str] = set()
    for text in given:
        word, equals, values = text.partition("=")
        # Too many values are refused by counting commas. With 30,000 values of a dim, `dsl tune` planned for minutes
        # before it tried a point.
        if values.count(",") >= MAX_CASES:
            raise TileError("limit", None, f"'{word}' has more than {MAX_CASES} values", "fewer at a time")
        single = [f"{word}={value}" for value in values.split(",")] if equals else [text]
        if word in words:
            raise TileError("option", None, f"'{word}' is given twice", f"{word}=VALUE,VALUE tries several")
        words.add(word)
        for one in single:
            found = resolve(program, example, [one])
            for kind in ("names", "types", "options"):
                for name, value in getattr(found, kind).items():
                    axes.setdefault((kind, name), []).append(value)
            for name, value in found.constants.items():
                domains.setdefault(name, []).append(value)
    count = prod(len(distinct(axis)) for axis in axes.values())
    if count > MAX_CASES:
        raise TileError("limit", None, f"these values make {count} cases; the limit is {MAX_CASES}", "fewer at a time")
    out = []
    for chosen in product(*(distinct(axis) for axis in axes.values())):
        overrides = Overrides()
        for (kind, name), value in zip(axes, chosen, strict=True):
            getattr(overrides, kind)[name] = value
        out.append(overrides)
    return out, {name: distinct(values) for name, values in domains.items()}


def distinct(values: Sequence[Any]) -> list[Any]:
    """Removes repeated values and keeps the order."""
    # In Python, 1, 1.0 and true are equal, but here they are different constants.
    return list({exact_key(value): value for value in values}.values())


class TuningCall(Struct, frozen=True):
    """A launch line of an example.

    `index` is its position among the example's launches, from 0. If `facts.is_known` is false, only a run gives the
    arguments.
    """

    program: Program
    place: TuningPlace
    facts: LaunchFacts
    index: int

    @property
    def name(self) -> str:
        return self.facts.line.name

    def planner(self, **what: Any) -> Planner:
        """The planner of this call. It ignores tuned data."""
        dispatch = self.program.dispatches.get(self.name)
        known = {line.name for line in dispatch.lines if isinstance(line, ast.Option)} if dispatch else set()
        options = {k: v for k, v in self.facts.rest.items() if k in known}
        constants = {k: v for k, v in self.facts.rest.items() if k not in known}
        place = self.place
        return Planner(
            *(self.program, self.name, self.facts.arguments, place.target, place.sms, constants, options),
            **{"device": place.name, **what},
        )

    def plan(self, steps: Sequence[StepChoice], choices: Mapping[str, str]) -> Plan:
        """Plans this call with the kernels, schedules and constants in `steps`, and with the forced options
        `choices`."""
        plan = self.planner(chosen=steps).plan()
        for step in plan.steps:
            step.request = replace(step.request, choices=choices)
        return plan


def calls(program: Program, example: ast.Example, overrides: Overrides, place: TuningPlace) -> list[TuningCall]:
    """Returns the launches of an example with one set of values, as far as they are known without a run."""
    facts = examine(program, example, overrides)
    for error in facts.errors:
        raise error
    return [TuningCall(program, place, launch, i) for i, launch in enumerate(facts.launches)]


class Candidate(Struct, frozen=True):
    """A point: a branch of the dispatch, with values for the constants of its schedules.

    `index` is its position in the list of all points of the launch. Points of a branch are sorted by cost, or are in
    the order of the `tune` lines if the schedule computes no cost. `is_default` is true if the constants are those that
    the schedules choose by default. `edited` is a file whose kernels replace the branch's kernels. `cost` is the sum of
    the costs of the schedules in microseconds, or None if no schedule computes one.
    """

    steps: tuple[StepChoice, ...]
    index: int
    is_default: bool
    edited: Edited | None = None
    cost: float | None = None

    @property
    def key(self) -> str:
        return json.dumps([step.as_json() for step in self.steps])

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by name: `schedule` and the constants. The value of `schedule` also names the kernel.

        With several kernels, each name starts with the kernel's number: `1.warps`.
        """
        out: dict[str, Any] = {}
        several = len(self.steps) > 1
        for number, step in enumerate(self.steps):
            prefix = f"{number}." if several else ""
            fixed = "".join(f", {text}" for text in step.fixed)
            out[f"{prefix}schedule"] = f"{step.kernel} {step.schedule or ''}{fixed}".strip()
            out |= {f"{prefix}{name}": value for name, value in step.constants.items()}
        if self.edited is not None:
            out["from"] = self.edited.name
        return out

    def described(self) -> str:
        by_hand = [] if self.edited is None else [f"from {self.edited.name}"]
        return "; ".join([*map(described_step, self.steps), *by_hand])


class SpaceChoice(Struct, frozen=True):
    """Selects the points to list.

    `domains` maps constants to values that replace those of the file's `tune` lines. If `schedules` is not empty, only
    these are tried. With `branches`, all branches of the dispatch are tried. With `rivals`, those are tried that launch
    the same kernels as the chosen branch, at the points to which their schedules give a cost. Launches that no `expect`
    line judges are then left out.
    """

    domains: Mapping[str, list[Any]] = field(default_factory=dict)
    schedules: Sequence[str] = ()
    branches: bool = False
    rivals: bool = False


def candidates(call: TuningCall, choice: SpaceChoice) -> list[Candidate]:
    """The points of a launch, branch after branch.

    Raises a TileError for a schedule that the launch does not have, or for more than MAX_POINTS points.
    """
    seen: dict[str, Candidate] = {}
    for steps in branches(call, choice):
        spaces = [points(call, step, request, choice.domains) for step, request in with_requests(call, steps)]
        for at, chosen in enumerate(product(*spaces)):
            made = tuple(replace(step, constants=values) for step, (_, values) in zip(steps, chosen, strict=True))
            costs = [cost for cost, _ in chosen if cost is not None]
            cost = sum(costs) if costs else None
            if choice.rivals and (cost is None or cost == inf):
                continue
            candidate = Candidate(made, len(seen), at == 0, cost=cost)
            # If two branches lead to the same launch, they are one point.
            seen.setdefault(candidate.key, candidate)
            # Checked while listing, since the product of a few sets may not fit into memory.
            if len(seen) > MAX_POINTS:
                hint = "give values for some of the sets: NAME=VALUE"
                raise TileError("limit", call.facts.line.loc, f"there are more than {MAX_POINTS} points", hint)
    return list(seen.values())


def by_hand(listed: Sequence[Candidate], edited: Sequence[Edited]) -> list[Candidate]:
    """Makes a point for each edited file (`--from`) that contains a kernel of a listed point. The new points have
    greater indices than the listed points.

    If possible, the new point has the branch and constants of a listed point with the schedule and constants in the
    file's header.
    """
    found: list[Candidate] = []
    for each in edited:

        def agreeing(candidate: Candidate, each: Edited = each) -> tuple[bool, bool]:
            pairs = [(s, each.headers[s.kernel]) for s in candidate.steps if s.kernel in each.headers]
            known = ((header.constants.get(name), v) for s, header in pairs for name, v in s.constants.items())
            same = all(exact_key(a) == exact_key(b) for a, b in known)
            return all(header.schedule == step.schedule for step, header in pairs), same

        able = [one for one in listed if any(step.kernel in each.headers for step in one.steps)]
        if able:
            base = max(able, key=agreeing)
            index = 1 + max(candidate.index for candidate in [*listed, *found])
            found.append(Candidate(base.steps, index, False, each))
    return found


def branches(call: TuningCall, choice: SpaceChoice) -> list[tuple[StepChoice, ...]]:
    """The branches to try for a call, each as a tuple of kernels with schedules, without constants.

    The branch that the conditions of the dispatch choose comes first. If it has several schedules, and none compiles
    where its cost is least, all branches are tried.
    """
    schedules = choice.schedules or ([call.facts.schedule] if call.facts.schedule is not None else [])
    for name in schedules:
        call.planner(schedule=name).check_schedule()
    several = bool(schedules or choice.branches or choice.rivals)
    planner = call.planner()
    try:
        chosen = default_steps(call, planner)
    except TileError:
        if not several and planner.refused is None:  # the conditions choose no branch for the call
            raise
        chosen = None
    if not several and chosen is not None:
        return [chosen]
    found = [tuple(steps) for steps in call.planner().alternatives(schedules)]
    if not found:
        named = ", ".join(schedules)
        raise TileError("dispatch", call.facts.line.loc, f"no branch of '{call.name}' launches {named} here")
    if choice.rivals and chosen is not None:
        found = [steps for steps in found if [s.kernel for s in steps] == [s.kernel for s in chosen]]
    return sorted(found, key=lambda steps: steps != chosen)


def default_steps(call: TuningCall, planner: Planner) -> tuple[StepChoice, ...]:
    """The branch that the conditions of the dispatch choose. Raises a TileError if they choose none, or if none of its
    several schedules compiles. In the latter case, `planner.refused` is the compiler's error."""
    kernel, schedule = call.name, next(iter(call.program.schedules_of(call.name)), None)
    try:
        (step, *_) = planner.plan().steps
        kernel, schedule = step.request.kernel, step.request.schedule
    except TileError:
        # The only schedule is chosen, also if its cheapest points do not compile.
        if planner.refused is None or (planner.dispatch is not None and planner.branch is None):
            raise
    if planner.branch is not None:
        return branch_steps(planner.branch, call.program)
    return (StepChoice(kernel, schedule, {}),)


def with_requests(call: TuningCall, steps: Sequence[StepChoice]) -> list[tuple[StepChoice, Request | None]]:
    """Returns each step with its variant. The variant is None if the branch cannot be planned. The branch's trial will
    report the error."""
    try:
        plan = call.planner(chosen=steps).plan()
    except TileError:
        return [(step, None) for step in steps]
    return [(step, made.request) for step, made in zip(steps, plan.steps, strict=True)]


def points(
    call: TuningCall, step: StepChoice, request: Request | None, domains: Mapping[str, list[Any]]
) -> list[tuple[float | None, dict[str, Any]]]:
    """Returns all combinations of the values in the `tune` lines of one kernel's schedule, but those that its cost
    excludes. Each is (cost, constants), sorted by cost. If the schedule computes no cost, they are in the order of the
    `tune` lines.

    A `tune` line may use names that earlier lines define. If the first few constants already make the schedule wrong,
    such as `warps` = 3, they alone are a point. The trial of this point reports the error.
    """
    if request is None:
        return [(None, {})]
    program = call.program
    kernel = program.kernels[step.kernel]
    settable = program.settable(step.kernel)
    # A constant that the branch itself sets is no longer free.
    mine = {name: values for name, values in domains.items() if name in settable and name not in request.constants}
    types = {name: DTYPES[dtype] for name, dtype in request.types.items() if dtype in DTYPES}
    # Sets may depend on the strides of tensors, and on which tensors are given.
    place = call.place
    facts = launch_facts(kernel, place.target, place.sms, request.device, request.absent, request.strides)

    def extend(chosen: dict[str, Any]) -> Iterator[tuple[float | None, dict[str, Any]]]:
        given = {**request.constants, **chosen}
        try:
            known = ScheduleRequest(kernel, step.schedule, request.dims, types, facts, given, request.scalars)
            resolved = resolve_schedule(program, known)
        except TileError:
            yield None, chosen
            return
        # Costs exclude most combinations: 3,700 of 3,960 in samples/matmul.tile. If they exclude all, the first stays.
        found, asked = resolved.points, [name for name in mine if name not in given]
        if found is not None and not asked:
            if found.least == inf:
                firsts = {name: values[0] for name, values in resolved.tune.items() if name not in given}
                yield inf, {**chosen, **firsts}
                return
            if found.names:
                for place in range(sum(cost < inf for cost in found.costs)):
                    yield from extend({**chosen, **found.at(place)})
                return
        added = {name: values for name, values in mine.items() if name not in resolved.tune}
        # Values of the command line replace a set. If a name has no set, its values form a new set in front of the
        # other sets.
        sets = {**added, **resolved.tune, **mine}
        open_names = [name for name in sets if name not in given]
        if not open_names:
            yield resolved.costs.get("cost"), chosen
            return
        name = asked[0] if found is not None and asked else open_names[0]
        for value in distinct(sets[name]):
            yield from extend({**chosen, name: value})

    return sorted(extend({}), key=lambda each: inf if each[0] is None else each[0])
