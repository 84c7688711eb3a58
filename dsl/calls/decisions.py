"""The decisions of a plan, as objects of class `Choice`: the chosen branch of a dispatch, and the chosen values of
`tune` sets."""

from __future__ import annotations

from collections.abc import Mapping

from dsl.calls.plan import Plan
from dsl.calls.planner import Planner
from dsl.calls.tuned import StepChoice, said_steps
from dsl.kernels.compile import Compiled
from dsl.kernels.variant import Request
from dsl.lowering.ir.choices import Choice, Choices
from dsl.schedules import ResolvedSchedule


def all_choices(request: Request, compiled: Compiled, branch: Choice | None) -> Mapping[str, Choice]:
    """Maps keys to the choices made for one kernel of a plan. The choices of the dispatch and of `tune` sets come
    first."""
    first = [] if branch is None else [branch]
    first += tuned_choices(request, compiled.variant.schedule)
    return {choice.stem: choice for choice in first} | compiled.variant.function.choices.keyed()


def branch_choice(planner: Planner, plan: Plan, asked: str | None) -> Choice | None:
    """Returns the branch of a dispatch as a Choice among the branches that may serve the call, or None for a kernel.
    `asked` is the schedule that the caller named. The Choice is only for display: the conditions of the dispatch decide
    the branch, and `--schedule` overrides them."""
    if planner.name not in planner.program.dispatches:
        return None
    taken = said_steps(tuple(StepChoice(s.request.kernel, s.request.schedule, {}) for s in plan.steps))
    others = [said_steps(steps) for steps in planner.alternatives()]
    options = {name: name for name in dict.fromkeys([taken, *others])}
    choices = Choices()
    loc = None if planner.branch is None else planner.branch.loc
    # `--schedule` names a single schedule, so it cannot request a branch with several launches.
    line = "--schedule {option}" if all(len(steps) == 1 for steps in planner.alternatives()) else None
    choices.choose("branch", planner.name, options, taken, loc=loc, because="; ".join(plan.reasons), line=line)
    (made,) = choices.made
    made.by = "--schedule" if asked else made.by
    return made


def tuned_choices(request: Request, schedule: ResolvedSchedule) -> list[Choice]:
    """Returns one Choice for each name with a `tune` set. Its options are the values of this set."""
    choices = Choices()
    for name, values in schedule.tune.items():
        taken = schedule.warps if name == "warps" else schedule.constants[name]
        given = name in request.constants
        choices.choose(
            "tune",
            name,
            {str(value): value for value in (*values, taken)},  # the keys are text, so that 1 and true are two options
            str(taken),
            because="given by the branch, its tuned entry or the caller" if given else schedule.reason_of_set(name),
            line=f"{name} = {{option}}",
        )
    return choices.made
