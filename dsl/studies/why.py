"""Why a kernel is as it is: the choices that were made of each kernel that an example launches, and what else could
have been taken. `dsl why` shows them, `dsl schedule` prints them as a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dsl.calls.plan import Plan
from dsl.calls.planner import Planner
from dsl.calls.tuned import StepChoice, tuned_path
from dsl.calls.tuned_file import usable
from dsl.examples.shapes import LaunchFacts
from dsl.kernels.compile import Compiled, compile_variant
from dsl.kernels.variant import Request
from dsl.schedules import ResolvedSchedule
from dsl.studies.check import at, planner_of
from dsl.text.program import Program
from lowering.choices import Choice, Choices, keys_of, kinds
from lowering.location import Loc, TileError, closest


@dataclass(slots=True)
class ExplainedKernel:
    """A kernel of an example with its choices by key. plan: that of its launch, None for one named by itself."""

    program: Program
    request: Request
    plan: Plan | None
    compiled: Compiled
    branch: Choice | None = None

    @property
    def choices(self) -> dict[str, Choice]:
        """By key, those of the dispatch and of `tune` sets first."""
        variant = self.compiled.variant
        first = [] if self.branch is None else [self.branch]
        first += tuned_choices(self.request, variant.schedule)
        return {choice.stem: choice for choice in first} | variant.function.choices.keyed()

    @property
    def title(self) -> str:
        request = self.request
        words = [f"{request.kernel} with {request.schedule or 'no schedule'}"]
        words += [f"{name}={value}" for name, value in {**request.types, **request.dims}.items()]
        return " ".join([*words, f"for {request.arch}"])

    def measured(self, key: str, option: str) -> str:
        """Registers, spills and machine instructions with another option, or why there is no such code."""
        from runtime import assemble
        from runtime.errors import LaunchError
        from runtime.machine_code import machine_code

        request = replace(self.request, constants={**self.request.constants, key: option})
        try:
            made = compile_variant(self.program, request)
            header = made.header
            code = assemble(made.ptx, header.arch, header.entry, header.maxregs)
        except (TileError, LaunchError) as error:
            return f"none: {str(error).splitlines()[0]}"
        spilled, count = code.spill_stores + code.spill_loads, machine_code(code.cubin, header.entry).instructions
        return f"{code.registers} registers, {spilled} bytes of spills, {count} instructions"


def kernels_of(
    program: Program,
    launches: list[LaunchFacts],
    arch: str,
    schedule: str | None = None,
    choose: Mapping[str, str] | None = None,
    device: str | None = None,
) -> Iterator[ExplainedKernel]:
    """The kernels that the launches of an example come to with these options, each variant once; with what was tuned
    for a device, if one is named."""
    path = program.path
    tuned = None if device is None or path is None else usable(tuned_path(path))
    seen: list[Request] = []
    for launch in launches:
        try:
            planner = planner_of(program, launch, arch, schedule, device, tuned)
            plan = planner.plan()
            branch = branch_choice(planner, plan, schedule or launch.schedule)
        except TileError as error:
            raise at(error, launch.line) from None
        for step in plan.steps:
            if step.request not in seen:
                seen.append(step.request)
                request = replace(step.request, choices=choose or {})
                yield ExplainedKernel(program, request, plan, compile_variant(program, request), branch)


def branch_choice(planner: Planner, plan: Plan, asked: str | None) -> Choice | None:
    """The branch of a dispatch as a choice among those that may serve the call. It is no `Choices.choose`: whether a
    branch is right, its conditions say, and a caller asks for another one by `--schedule`."""
    if planner.name not in planner.program.dispatches:
        return None
    taken = said_steps(tuple(StepChoice(s.request.kernel, s.request.schedule, {}) for s in plan.steps))
    others = [said_steps(steps) for steps in planner.alternatives()]
    options = {name: name for name in dict.fromkeys([taken, *others])}
    choices = Choices()
    loc = None if planner.branch is None else planner.branch.loc
    line = "--schedule {option}" if all(len(steps) == 1 for steps in planner.alternatives()) else None
    choices.choose("branch", planner.name, options, taken, loc=loc, because="; ".join(plan.reasons), line=line)
    (made,) = choices.made
    made.by = "--schedule" if asked else made.by
    return made


def tuned_choices(request: Request, schedule: ResolvedSchedule) -> list[Choice]:
    """The names that are tuned, as choices among the values of their sets."""
    choices = Choices()
    for name, values in schedule.tune.items():
        taken = schedule.warps if name == "warps" else schedule.constants[name]
        given = name in request.constants
        choices.choose(
            "tune",
            name,
            {str(value): value for value in dict.fromkeys([*values, taken])},
            str(taken),
            because="given by the branch, its tuned entry or the caller" if given else "the first of its set",
            line=f"{name} = {{option}}",
        )
    return choices.made


def said_steps(steps: tuple[StepChoice, ...]) -> str:
    return " then ".join(step.schedule or step.kernel for step in steps)


def chosen(
    choices: Mapping[str, Choice],
    line: int | None = None,
    value: str | None = None,
    key: str | None = None,
    all_of_them: bool = False,
) -> dict[str, Choice]:
    """The choices of a line, about a value, or under a key; else those whose options differ in cost, and those that
    the rule did not take."""
    asked = line is not None or value is not None or key is not None
    found = {}
    for name, choice in choices.items():
        if line is not None and line not in lines_of(choice.loc):
            continue
        if value is not None and value not in words_of(choice):
            continue
        if key is not None and key not in keys_of(name, choice):
            continue
        if asked or all_of_them or matters(choice):
            found[name] = choice
    return found


def matters(choice: Choice) -> bool:
    """Whether another option has another cost, or someone else than a rule of the compiler decided."""
    costs = choice.costs
    several = len(choice.options) > 1 and choice.kind in ("branch", "tune")
    return several or choice.is_pinned or len({costs.get(name) for name in choice.options}) > 1


def lines_of(loc: Loc | None) -> list[int]:
    """The lines of a place and of the calls that led there."""
    found = []
    while loc is not None:
        found.append(loc.line)
        loc = loc.caller
    return found


def words_of(choice: Choice) -> list[str]:
    return choice.subject.split(".")


def check_found(found: bool, choices: Mapping[str, Choice], value: str | None, key: str | None) -> None:
    """TileError where nothing has the value or the key that was asked for."""
    if found:
        return
    if key is not None:
        known = [each for name, choice in choices.items() for each in keys_of(name, choice)]
        raise TileError(
            "choice", None, f"no choice has the key '{key}'", closest(key, known) or ", ".join(kinds(choices))
        )
    if value is not None:
        known = list(dict.fromkeys(word for choice in choices.values() for word in words_of(choice)))
        raise TileError("name", None, f"no choice is about '{value}'", closest(value, known) or ", ".join(known))


def grouped(found: Mapping[str, Choice], made: Mapping[str, Choice]) -> list[list[str]]:
    """The keys of equal choices together."""
    groups: dict[tuple, list[str]] = {}
    for name, choice in found.items():
        place = lines_of(choice.loc)[:1]
        same = (choice.stem, *place, choice.options, choice.taken, choice.by, choice.because, *choice.costs.values())
        groups.setdefault(same, []).append(name)
    return list(groups.values())


def as_json(keys: Sequence[str], made: Mapping[str, Choice]) -> dict[str, Any]:
    """Equal choices as data. `key` stands for all of them, if it can, else for the first."""
    choice = made[keys[0]]
    whole = len(keys) == sum(each.stem == choice.stem for each in made.values())
    name = choice.stem if whole else keys[0]
    return {
        "key": name,
        "keys": list(keys),
        "kind": choice.kind,
        "subject": choice.subject,
        "line": choice.loc.line if choice.loc is not None else None,
        "options": list(choice.options),
        "taken": choice.taken,
        "rule": choice.rule,
        "by": choice.by,
        "because": choice.because,
        "costs": choice.costs,
        "unit": choice.unit,
        "unsafe": list(choice.unsafe),
        "override": {option: choice.override(option, name) for option in choice.options if option != choice.taken},
    }
