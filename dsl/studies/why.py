"""Lists the compiler's choices for each kernel that an example launches, with the options that were not taken.

`dsl why` prints the choices, and `dsl schedule` prints them as lines of a schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dsl.calls.decisions import all_choices, branch_choice
from dsl.calls.plan import Plan
from dsl.calls.tuned_file import usable
from dsl.examples.shapes import LaunchFacts
from dsl.kernels.compile import Compiled, compile_variant
from dsl.kernels.variant import Request
from dsl.lowering.ir.choices import Choice, keys_of, kinds
from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.studies.check import at, planner_of
from dsl.text.files import tuned_path
from dsl.text.program import Program


class ExplainedKernel(Struct):
    """A compiled kernel with the choices that the compiler made. `plan` is the plan of its launch, or None if the
    kernel was selected by `--kernel`."""

    program: Program
    request: Request
    plan: Plan | None
    compiled: Compiled
    branch: Choice | None = None

    @property
    def choices(self) -> Mapping[str, Choice]:
        """The choices by key. Choices of the dispatch and of `tune` lines come first."""
        return all_choices(self.request, self.compiled, self.branch)

    @property
    def title(self) -> str:
        request = self.request
        words = [f"{request.kernel} with {request.schedule or 'no schedule'}"]
        words += [f"{name}={value}" for name, value in {**request.types, **request.dims}.items()]
        return " ".join([*words, f"for {request.arch}"])

    @property
    def spills(self) -> int | None:
        """The spilled bytes of a thread, or None if ptxas cannot assemble the kernel here."""
        from dsl.runtime import assemble
        from dsl.runtime.errors import DeviceError, LaunchError

        header = self.compiled.header
        with suppress(DeviceError, LaunchError):
            made = assemble(self.compiled.ptx, header.arch, header.entry, header.maxnreg)
            return made.spill_stores + made.spill_loads
        return None

    def measured(self, key: str, option: str) -> str:
        """Registers, spills and machine instructions with another option, or the reason why it does not compile."""
        from dsl.runtime.errors import LaunchError
        from dsl.studies.machine_notes import assembled

        # The option is passed as a constant. If the option cannot be taken, the error is shown.
        constants: dict[str, Any] = {key: option}
        if (name := key.removeprefix("tune.")) != key:
            schedule = self.compiled.variant.schedule
            constants = {n: schedule.warps if n == "warps" else schedule.constants[n] for n in schedule.tune}
            constants[name] = next((v for v in schedule.tune[name] if str(v) == option), constants[name])
        request = replace(self.request, constants={**self.request.constants, **constants})
        try:
            return assembled(compile_variant(self.program, request))[1].cost
        except (TileError, LaunchError) as error:
            return f"none: {str(error).splitlines()[0]}"


def kernels_of(
    program: Program,
    launches: list[LaunchFacts],
    arch: str,
    schedule: str | None = None,
    choose: Mapping[str, str] | None = None,
    device: str | None = None,
) -> Iterator[ExplainedKernel]:
    """Compiles the kernels that the launches of an example use. Yields each variant once.

    If `device` is given, the tuned data of this device is used.
    """
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
            # Two launches may use the same variant.
            if step.request not in seen:
                seen.append(step.request)
                request = replace(step.request, choices=choose or {})
                yield ExplainedKernel(program, request, plan, compile_variant(program, request), branch)


def chosen(
    choices: Mapping[str, Choice],
    line: int | None = None,
    value: str | None = None,
    key: str | None = None,
    all_of_them: bool = False,
) -> dict[str, Choice]:
    """The choices that belong to a line of the source, to a named value, or to a key.

    If none of these is given, returns the choices for which `matters` is true, or all choices if `all_of_them` is set.
    """
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
    """Whether a choice is worth showing: its options differ in cost, something other than the compiler's rule decided
    it, or it selects a branch or a `tune` value. `route` always matters: it explains why a product does not use
    wgmma."""
    costs = choice.costs
    several = len(choice.options) > 1 and choice.kind in ("branch", "tune")
    return (
        several or choice.kind == "route" or choice.is_pinned or len({costs.get(name) for name in choice.options}) > 1
    )


def lines_of(loc: Loc | None) -> list[int]:
    """The line number of a source place, then those of the inlined calls around it."""
    found = []
    while loc is not None:
        found.append(loc.line)
        loc = loc.caller
    return found


def words_of(choice: Choice) -> list[str]:
    return choice.subject.split(".")


def check_found(found: bool, choices: Mapping[str, Choice], value: str | None, key: str | None) -> None:
    """Raises a TileError if no choice has the requested value or key."""
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
    """Groups the keys of choices that are shown alike."""
    groups: dict[tuple, list[str]] = {}
    for name, choice in found.items():
        place = lines_of(choice.loc)[:1]
        # Choices are joined if everything that a row shows is equal.
        same = (choice.stem, *place, choice.options, choice.taken, choice.by, choice.because, *choice.costs.values())
        groups.setdefault(same, []).append(name)
    return list(groups.values())


def as_json(keys: Sequence[str], made: Mapping[str, Choice]) -> dict[str, Any]:
    """The data of equal choices. `key` is their common stem, such as `swizzle.s`, or their first key if other choices
    have the same stem."""
    choice = made[keys[0]]
    # The stem may also cover choices of other rows. The stem is used only if these keys are all choices of the stem.
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
