"""A complete schedule as text: its own lines, the lines that it inherits by `like`, and the choices of the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from dsl.kernels.variant import Variant
from dsl.lowering.ir.choices import Choice, choose_line
from dsl.schedules.properties import PropertyRow, rows_of
from dsl.schedules.resolve import ResolvedSchedule
from dsl.text.program import Program

INDENT = "    "
WARPS = "block.warps"
"""The choice of the plan for which the schedule has the line `warps = N`."""


class Line(Struct, frozen=True):
    """A line of a schedule, with its reason as a comment."""

    text: str
    reason: str

    def __str__(self) -> str:
        return f"{INDENT}{self.text}" + (f"  # {self.reason}" if self.reason else "")


def schedule_text(program: Program, variant: Variant, name: str, reasons: list[str]) -> str:
    """The complete schedule of a variant, as text. With this schedule, the same call of the kernel gives the same
    code."""
    lines = [*constants(program, variant), *properties(variant.schedule, rows_of(program.plugins))]
    made = variant.function.choices.keyed()
    lines += chosen({key: choice for key, choice in made.items() if key != WARPS})
    head = [*(f"# {each}" for each in [*reasons, *refused_routes(made)])]
    head.append(f"schedule {name} of {variant.request.kernel}:")
    return "\n".join([*head, *map(str, lines)])


def constants(program: Program, variant: Variant) -> list[Line]:
    """The lines that set `warps` and the kernel's constants."""
    kernel = program.kernels[variant.request.kernel]
    # `warps` is not a constant of the kernel, but the code depends on `warps`. The plan may have chosen its value.
    planned = variant.function.choices.keyed().get(WARPS)
    warps = variant.schedule.warps if planned is None else planned.taken
    reason = place_of(variant, "warps") if planned is None else reason_of(planned)
    values = {c.name: variant.constants[c.name] for c in kernel.constants if c.types is None}
    found = [Line(f"{name} = {said(value)}", place_of(variant, name)) for name, value in values.items()]
    return [Line(f"warps = {warps}", reason), *found]


def refused_routes(made: Mapping[str, Choice]) -> list[str]:
    """Returns, for each matrix product that cannot use wgmma, the reason."""
    routes = {choice.subject: choice for choice in made.values() if choice.kind == "route" and len(choice.options) == 1}
    return [f"{subject} is {choice.taken}: {choice.because}" for subject, choice in routes.items()]


def place_of(variant: Variant, name: str) -> str:
    """Describes what set a constant: the call, or a line of the schedule."""
    schedule = variant.schedule
    if name in variant.request.constants:
        return "the call, its branch, or the next point of the cost"
    if name in schedule.tune:
        taken = schedule.warps if name == "warps" else schedule.constants.get(name)
        others = ", ".join(said(each) for each in schedule.tune[name] if each != taken)
        return schedule.reason_of_set(name) + (f"; others: {others}" if others else "")
    definition = schedule.definitions.get(name)
    if definition is None:
        return "4 by default" if name == "warps" else ""
    loc = definition.value.loc
    return f"{loc.source.name}:{loc.line}: {loc.source.text[loc.start : loc.end]}"


def said(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def properties(schedule: ResolvedSchedule, rows: Mapping[str, PropertyRow]) -> list[Line]:
    """The lines that set the properties of a schedule. The `cost` line is left out, because the constants that it chose
    are printed."""
    found = []
    for (name, subject), loc in schedule.places.items():
        row = rows[name]
        values: Any = getattr(schedule, row.field)
        value = values[name][subject] if row.field == "attrs" and subject is not None else values[subject or name]
        found.append(Line(row.line(subject, value), f"{loc.source.name}:{loc.line}"))
    return found


def chosen(made: Mapping[str, Choice]) -> list[Line]:
    """The `choose` lines of a schedule. A choice gets a line if it has another option and no property decided it.

    Choices of one stem (`swizzle.s[0]`, `swizzle.s[1]`) share a line if all took the same option.
    """
    stems: dict[str, list[tuple[str, Choice]]] = {}
    for key, choice in made.items():
        stems.setdefault(choice.stem, []).append((key, choice))
    found = []
    for stem, choices in stems.items():
        free = [(key, choice) for key, choice in choices if says_something(choice)]
        # A key without a number selects all choices of a stem. Such a key is shorter, and stays valid after edits of
        # the kernel.
        alike = len(free) == len(choices) and len({choice.taken for _, choice in free}) == 1
        for key, choice in [(stem, free[0][1])] if alike else free:
            found.append(Line(choose_line(key, choice.taken), reason_of(choice)))
    return found


def says_something(choice: Choice) -> bool:
    """Whether a choice needs a line. It does not if a property decided it, if it has no other option (except the depth
    of a pipeline), or if it is a pass with its default setting."""
    several = len(choice.options) > 1 or choice.kind == "pipeline"
    return several and not choice.is_property and (choice.kind != "pass" or choice.taken != choice.rule)


def reason_of(choice: Choice) -> str:
    """Describes what chose the option and why, the option's cost, and the costs of the other options."""
    costs = choice.costs
    others = [f"{name}: {costs[name]:g}" if name in costs else name for name in choice.options if name != choice.taken]
    cost = f"{choice.unit}: {costs[choice.taken]:g}" if choice.taken in costs else ""
    by = choice.by if choice.is_pinned else ""
    rest = f"others: {' | '.join(others)}" if others else ""
    return "; ".join(filter(None, [by, choice.because, cost, rest]))
