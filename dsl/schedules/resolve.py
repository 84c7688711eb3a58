"""Evaluates a schedule for given dims and types. The result is the constants and properties of one kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from dsl.lowering.ir.choices import TUNED, Forced, is_key
from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.lowering.ir.machines import machine_numbers, own_version
from dsl.lowering.ir.schedule import Named, Pin, SwizzlePin
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import DType
from dsl.schedules.cheapest import Points, costs_at, points
from dsl.schedules.definitions import Definition, Mistakes, Names, Said, said_with_defaults, through
from dsl.schedules.known_schedules import KnownSchedules
from dsl.schedules.properties import PROPERTIES, Setting
from dsl.schedules.rules import by_rule, misnamed
from dsl.text import tree as ast
from dsl.text.contracts import CHOICE, folded, option_of
from dsl.text.program import Program
from dsl.values.fast_math import FAST

DEFAULT_WARPS = 4


class StatedContract(Struct, frozen=True):
    """A contract, such as `expect barriers == 0`, with its bound evaluated. The bound is an option of a choice, or an
    expression of numbers and `copy`.

    `loc` is the contract's location, together with the `like` line that included the contract.
    """

    contract: ast.Contract
    bound: str | ast.Expr
    loc: Loc


class ResolvedSchedule(Struct):
    """A schedule, evaluated for one variant, as it was first requested.

    `constants` contains the kernel's constants, and all names that have a `tune` set or a value from the caller.
    `definitions` contains the other evaluated names, each after the names that it reads. `tune` maps each name with a
    `tune` set to the values of the set, default first. Each name follows the names that it depends on. `derived`
    contains the values of names that are not constants. `unasked` contains definitions that were never evaluated.
    `choices` maps keys to forced options. `places` maps (property, subject) to the location of the line.
    `may_set_warps` is True if neither a line nor the caller sets `warps`. `contracts` lists the contracts that the code
    must meet. `costs` contains the `cost` in microseconds, if a line states it. `points` contains the combinations of
    values among which the cost chose. `text` keeps what the code depends on as text, once it is asked for.
    """

    name: str | None
    request: ScheduleRequest
    constants: dict[str, Any] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    tune: dict[str, list[Any]] = field(default_factory=dict)
    pins: dict[str, Pin] = field(default_factory=dict)
    instructions: dict[str, Named] = field(default_factory=dict)
    swizzles: dict[str, SwizzlePin] = field(default_factory=dict)
    specialize: dict[str, bool] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    derived: dict[str, Any] = field(default_factory=dict)
    unasked: dict[str, Definition] = field(default_factory=dict)
    choices: dict[str, Forced] = field(default_factory=dict)
    places: dict[tuple[str, str | None], Loc] = field(default_factory=dict)
    contracts: list[StatedContract] = field(default_factory=list)
    costs: dict[str, float] = field(default_factory=dict)
    points: Points | None = None
    warps: int = DEFAULT_WARPS
    may_set_warps: bool = False
    text: str | None = None

    def reason_of_set(self, name: str) -> str:
        """Explains in words why a name has this value of its `tune` set, if the caller does not set the name."""
        finite = 0 if self.points is None else sum(cost < inf for cost in self.points.costs)
        if self.points is None or name not in self.points.names or not finite:
            return "the first of its set"
        return f"the least cost of {finite} points: {self.points.least:.1f} us"

    @property
    def lines(self) -> dict[tuple[str, str], Loc]:
        """Maps (property, subject) to the location of its line, for the properties that the compiler's passes read.

        For a property of the whole kernel, the subject is the property's name.
        """
        apart = {row.name for row in PROPERTIES.values() if row.field != "attrs"}
        return {(row, name or row): loc for (row, name), loc in self.places.items() if row not in apart}


def target_facts(target: Target, sms: int | None = None, device: str | None = None) -> dict[str, Any]:
    """Returns facts about the device, such as `shared_memory`, by the names that schedules and dispatches use. `sms`
    and `device` (a name) describe the actual device, if known."""
    return _target_facts(target, sms, device, own_version()).copy()


# Each schedule of a launch asks. Only the file of the user is looked at again.
@lru_cache(maxsize=16)
def _target_facts(target: Target, sms: int | None, device: str | None, version: object) -> dict[str, Any]:
    return {
        **machine_numbers(target, device),
        "gpu_arch": target.number,
        "sms": sms or target.sms,
        "shared_memory": target.shared,
        "registers": target.registers,
        "shared_per_sm": target.shared_per_sm,
        "threads_per_sm": target.threads_per_sm,
        "blocks_per_sm": target.blocks_per_sm,
    }


def tensor_names(
    kernel: ast.KernelDef, absent: Collection[str], strides: Mapping[str, Sequence[int]]
) -> dict[str, bool]:
    """Computes the values of `given(x)` for each optional tensor x, and of `contiguous(x, axis)` for each axis of a
    tensor x. A tensor without known strides counts as row-major.
    """
    found = {f"given({p.name})": p.name not in absent for p in kernel.params if p.is_optional}
    for p in kernel.params:
        if isinstance(p.type, ast.TensorAnnotation):
            # `dsl run` makes the arrays of examples row-major, too. So `dsl check`, `dsl compile` and `dsl why` use the
            # variant that runs.
            of, rank = strides.get(p.name) if p.type.strided else None, len(p.type.dims)
            near = [stride == 1 for stride in of] if of else [axis == rank - 1 for axis in range(rank)]
            found |= {f"contiguous({p.name}, {axis})": is_near for axis, is_near in enumerate(near)}
    return found


def launch_facts(
    kernel: ast.KernelDef,
    target: Target,
    sms: int | None,
    device: str | None,
    absent: frozenset[str],
    strides: Mapping[str, tuple[int, ...]],
) -> Mapping[str, Any]:
    """Returns `target_facts` and `tensor_names` of a launch. Launches share the mapping, so it must not be changed."""
    return _launch_facts(kernel, target, sms, device, absent, tuple(strides.items()), own_version())


# A new class of calls asks for each of its schedules. To find the facts takes 20 us.
@lru_cache(maxsize=256)
def _launch_facts(
    kernel: ast.KernelDef,
    target: Target,
    sms: int | None,
    device: str | None,
    absent: frozenset[str],
    strides: tuple[tuple[str, tuple[int, ...]], ...],
    version: object,
) -> Mapping[str, Any]:
    return {**_target_facts(target, sms, device, version), **tensor_names(kernel, absent, dict(strides))}


class ScheduleRequest(Struct, frozen=True):
    """A kernel with one of its schedules, and what is known of a launch: the extents of dims, the types of type
    parameters, facts about the device and the tensors, the constants that override those of the schedule, and the
    values of scalar parameters."""

    kernel: ast.KernelDef
    name: str | None
    dims: Mapping[str, int]
    types: Mapping[str, DType]
    facts: Mapping[str, Any]
    overrides: Mapping[str, Any]
    scalars: Mapping[str, Any]


def resolve_schedule(
    program: Program, request: ScheduleRequest, chosen: Points | None = None, may_share: bool = False
) -> ResolvedSchedule:
    """Evaluates the kernel's constants, its number of warps and its properties.

    Constants without a value are left out. `chosen` contains the points of the schedule's cost, if already computed.
    With `may_share`, the result may be that of an earlier request with the same constants, properties and choices. Of
    such a request, `derived`, `costs`, `points`, `tune`, `definitions` and the bounds of `contracts` may differ. Raises
    a TileError or Errors with all wrong lines.
    """
    start = ScheduleStart(program, request)
    cheapest, found = start.by_cost(chosen)

    def evaluate(names: Names) -> ResolvedSchedule:
        return start.resolved(request, found, cheapest, names)

    if not may_share:
        return evaluate(Names(*start.names()))
    values = cheapest if found is None else {**cheapest, **found.at(0)}
    return program.once(KnownSchedules).evaluated(start.lines, values, evaluate, *start.names())


def schedule_points(program: Program, request: ScheduleRequest) -> Points | None:
    """Evaluates only the cost of a schedule. Returns None if it states none. Raises a TileError or Errors with all
    lines that are wrong so far."""
    start = ScheduleStart(program, request)
    _, found = start.by_cost()
    start.said.mistakes.tell()
    return found


def costs_of_points(
    program: Program, request: ScheduleRequest, points: Sequence[Mapping[str, Any]]
) -> list[float] | None:
    """Returns the cost of a schedule in microseconds at these points, or None if no line states a cost. Each point maps
    the same names to values, as the overrides of `request` do, and words are equal at all points. Raises a TileError or
    Errors."""
    start = ScheduleStart(program, request)
    start.said.mistakes.tell()
    if not start.lines.costs:
        return None
    return costs_at(start.lines.costs[-1], program, start.said, start.known, points, start.dims)


class ScheduleLines(Struct, frozen=True):
    """All lines of a schedule, for all requests that give values to the same names. `said` includes the definitions of
    the kernel's default rule. `costs` lists the `cost` lines: that of the rule, which chooses the values of the sets
    that it reads, and that of the schedule, which chooses those of other sets. `keys` are the names of choices."""

    said: Said
    costs: Sequence[Setting]
    keys: Collection[str]
    may_set_warps: bool


def _lines(
    program: Program, kernel: str, schedule: str | None, given: frozenset[str], dims: frozenset[str]
) -> ScheduleLines:
    own, rule = program.once(said_with_defaults, kernel, schedule), by_rule(program, kernel, schedule, given, dims)
    wrong = misnamed(program, kernel, schedule, given)
    mistakes = Mistakes([*own.mistakes.errors, *wrong], own.mistakes.broken) if wrong else own.mistakes
    said = replace(own, definitions=own.definitions | rule.definitions, mistakes=mistakes)
    costs = [each.settings["cost", None] for each in (rule, own) if ("cost", None) in each.settings]
    keys = dict.fromkeys(name for name in said.definitions if is_key(name))
    return ScheduleLines(said, costs, keys, "warps" not in own.definitions.keys() | given)


class ScheduleStart:
    """What the evaluation of a schedule begins with: its lines, with mistakes to which the evaluation adds, and the
    names that are known."""

    def __init__(self, program: Program, request: ScheduleRequest):
        name, given = request.kernel.name, request.overrides
        self.program, self.overrides, self.dims = program, given, program.head(name).dims
        self.lines = program.once(_lines, name, request.name, frozenset(given), frozenset(request.dims))
        self.said = replace(self.lines.said, mistakes=self.lines.said.mistakes.copy())
        self.known: dict[str, Any] = {
            "warps": DEFAULT_WARPS,
            **request.facts,
            **request.dims,
            **request.types,
            **request.scalars,
        }

    def by_cost(self, chosen: Points | None = None) -> tuple[dict[str, Any], Points | None]:
        """Returns the values of the sets that all costs but the last choose, and the points of the last cost. `chosen`
        contains these points, if already computed."""
        cheapest: dict[str, Any] = {}
        found: Points | None = None
        for setting in self.lines.costs:
            with self.said.mistakes:
                cheapest |= {} if found is None else found.at(0)
                given = {**self.overrides, **cheapest}
                known_points = chosen if setting is self.lines.costs[-1] else None
                found = known_points or points(setting, self.program, self.said, self.known, given, self.dims)
        return cheapest, found

    def names(self) -> tuple[Any, ...]:
        """The arguments of `Names`."""
        return self.program, self.known, self.said.definitions, self.overrides, self.dims

    def resolved(
        self, request: ScheduleRequest, points: Points | None, cheapest: Mapping[str, Any], names: Names
    ) -> ResolvedSchedule:
        """Evaluates all lines with `names`. `points` and `cheapest` are those of `by_cost`."""
        lines, said, mistakes = self.lines, self.said, self.said.mistakes
        kernel, overrides, program = request.kernel, request.overrides, self.program
        out = ResolvedSchedule(request.name, request, may_set_warps=lines.may_set_warps, points=points)
        names.broken, names.cheapest = mistakes.broken, cheapest
        if points is not None:
            names.cheapest, out.costs["cost"] = {**cheapest, **points.at(0)}, points.least
        for constant in kernel.constants:
            if constant.name in said.definitions:
                with mistakes:
                    out.constants[constant.name] = names.value(constant.name, constant.loc)
        with mistakes:
            _warps(kernel, out, said, names)
        _force_choices(out, said, lines.keys, names, overrides)
        _settings(kernel, out, said, names, program.once(_lacking, kernel.name, request.name))
        _sort_names(out, lines, names, overrides)
        for contract, caller in (each for found in said.contracts.values() for each in found):
            with mistakes:
                out.contracts.append(stated(contract, caller, names, names.option))
        mistakes.tell()
        return out


def _force_choices(
    out: ResolvedSchedule, said: Said, keys: Collection[str], names: Names, overrides: Mapping[str, Any]
) -> None:
    """Adds the choices that are fixed by lines of the schedule, by a tuned entry or by the caller."""
    for name in keys:
        definition = said.definitions[name]
        at = definition.loc.under(definition.caller)
        by = TUNED if definition.is_tuned else "the caller" if name in overrides else str(at)
        with said.mistakes:
            out.choices[name] = Forced(names.value(name, definition.loc), by, at)
    for name, option in overrides.items():
        if is_key(name) and name not in out.choices:
            out.choices[name] = Forced(str(option), "the caller")


def _sort_names(out: ResolvedSchedule, lines: ScheduleLines, names: Names, overrides: Mapping[str, Any]) -> None:
    """Sorts the names into four kinds: tuned, constant, derived, and never evaluated. In `tune`, `derived` and
    `definitions`, a name comes after the names that it reads."""
    definitions, asked, keys = lines.said.definitions, names.asked, lines.keys
    order = names.in_order([each for each in definitions if each in asked])
    tuned = names.in_order([each for each in definitions if each in names.tuned])
    out.tune = {each: names.tuned[each] for each in tuned if each in names.tuned}
    out.constants |= {each: asked[each] for each in out.tune if each != "warps"}
    out.derived = {
        each: asked[each] for each in order if each not in out.constants and each != "warps" and each not in keys
    }
    out.constants |= {each: value for each, value in overrides.items() if each != "warps"}
    out.unasked = {each: found for each, found in definitions.items() if each not in asked and each not in keys}
    decided = {*out.tune, *overrides, *keys}
    out.definitions = {each: definitions[each] for each in order if each not in decided}


def stated(
    contract: ast.Contract,
    caller: Loc | None,
    evaluate: Callable[[ast.Expr], Any],
    option: Callable[[ast.Expr], str] | None = None,
) -> StatedContract:
    """Evaluates the bound of a contract. Raises a TileError for a bound that has no value or the wrong unit."""
    bound: str | ast.Expr
    try:
        if contract.term == CHOICE:
            bound = option(contract.bound) if option is not None else option_of(contract.bound, evaluate)
        else:
            bound = folded(contract, evaluate)
    except TileError as error:
        raise through(error, caller) from None
    return StatedContract(contract, bound, contract.loc.under(caller))


def _lacking(program: Program, kernel: str, schedule: str | None) -> frozenset[tuple[str, str | None]]:
    """Returns the (property, subject) of lines of other files whose subject the kernel lacks, although it has another
    subject of the same line. A schedule part may name the values and tensors of several kernels."""
    node, settings = program.kernels[kernel], program.once(said_with_defaults, kernel, schedule).settings
    of_parts = {key: each.loc for key, each in settings.items() if each.loc.source is not node.loc.source}
    if not of_parts:
        return frozenset()
    bodies = [node.body, *(each.body for each in program.functions.values())]
    targets = (t for each in ast.walk(bodies) if isinstance(each, ast.Assign) for t in each.targets)
    own = {t.id for t in targets if isinstance(t, ast.Name)} | {p.name for p in node.params}
    met = {loc for (_, subject), loc in of_parts.items() if subject in own}
    return frozenset(key for key, loc in of_parts.items() if key[1] is not None and key[1] not in own and loc in met)


def _settings(
    kernel: ast.KernelDef, out: ResolvedSchedule, said: Said, names: Names, lacking: Collection[tuple[str, str | None]]
) -> None:
    """Evaluates the properties, except those of subjects that the kernel is `lacking`. The row of each property names
    the field that stores the value."""
    mistakes = said.mistakes
    for (row, subject), setting in said.settings.items():
        if setting.row.field == "costs" or (row, subject) in lacking:  # costs are evaluated with all points
            continue
        with mistakes:
            value = _read(kernel, subject, setting, names)
            out.places[row, subject] = setting.loc if setting.subject is None else setting.subject.loc
            place: dict[str, Any] = getattr(out, setting.row.field)
            if setting.row.field == "attrs" and subject is not None:
                place.setdefault(row, {})[subject] = value
            else:
                place[subject or row] = value


def _read(kernel: ast.KernelDef, subject: str | None, setting: Setting, names: Names) -> Any:
    """Evaluates a property's value for a subject. Raises a TileError `name` if the subject is no parameter of the
    kernel, or no function with an approximation."""
    parameters = {p.name for p in kernel.params}
    try:
        if setting.row.subject == "tensor" and subject not in parameters and setting.subject is not None:
            hint = closest(str(subject), parameters)
            raise TileError("name", setting.subject.loc, f"the kernel has no parameter '{subject}'", hint)
        if setting.row.subject == "functions" and subject not in FAST and setting.subject is not None:
            hint = closest(str(subject), FAST) or ", ".join(FAST)
            raise TileError("name", setting.subject.loc, f"'{subject}' is no function with an approximation", hint)
        return setting.read(names)
    except TileError as error:
        raise through(error, setting.caller) from None


def _near(warps: object) -> str:
    """Returns a hint with a valid number of warps near `warps`."""
    if isinstance(warps, bool) or not isinstance(warps, int) or warps < 1:
        return f"warps = {DEFAULT_WARPS}"
    less = 1 << min(warps.bit_length() - 1, 5)
    return f"warps = {less}" if less == 32 else f"warps = {less}, or warps = {2 * less}"


def _warps(kernel: ast.KernelDef, out: ResolvedSchedule, said: Said, names: Names) -> None:
    written = said.definitions.get("warps")
    loc = kernel.loc if written is None else written.value.loc
    warps = names.given.get("warps", DEFAULT_WARPS) if written is None else names.value("warps", loc)
    if isinstance(warps, bool) or not isinstance(warps, int) or not 1 <= warps <= 32 or warps & (warps - 1):
        raise TileError("schedule", loc, f"warps is a power of two from 1 to 32; this is {warps}", _near(warps))
    out.warps = warps
