"""Plans a call: finds the launches that serve it.

A call names a dispatch or a kernel. The arguments determine dims and types. The branch whose conditions hold determines
the launches. `--explain` prints the launches, and the reasons for choosing them.

Branches share their first steps. Each line is evaluated once for all of them. The launches of a branch are built once:
when its condition evaluates `fits`, or else when the branch is chosen. Therefore `fits` lowers exactly the variant that
is launched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from dsl.calls.binding import BoundArguments, Misfit, bind
from dsl.calls.called import Called
from dsl.calls.line_names import DispatchNames, LineNames, fitting
from dsl.calls.overlap import overlapping
from dsl.calls.plan import FromCall, Plan, Step, Workspace
from dsl.calls.rivals import PointsOfLaunches, Rival, cheapest
from dsl.calls.tuned import (
    CallFacts,
    Found,
    StepChoice,
    Tuned,
    branch_of,
    branch_steps,
    described_step,
    said_steps,
    text_digest,
)
from dsl.calls.written_lines import WrittenLines
from dsl.kernels.compile import lower
from dsl.kernels.variant import Request, Unset, Variant, as_parameter, points_of
from dsl.lowering.hopper.boxes import maps_of
from dsl.lowering.ir.location import Errors, Loc, TileError, closest
from dsl.lowering.ir.machines import looks_once
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import DType
from dsl.runtime.numbers import exact_key
from dsl.schedules import target_facts
from dsl.schedules.cheapest import Points
from dsl.schedules.definitions import said_with_defaults
from dsl.text import tree as ast
from dsl.text.branches import by_launch, given_by_name, named_ways, names_of_branch
from dsl.text.heads import KernelHead
from dsl.text.program import Program
from dsl.text.tree import names_in
from dsl.values.facts import ArrayFacts, CallArray
from dsl.values.table import find
from dsl.values.walk import MISSING

if TYPE_CHECKING:
    from dsl.runtime.expressions import Expression

UNFIT = ("shared", "limit", "registers", "target", "instruction")
"""Codes of the errors for a device that lacks memory, registers or an instruction that a variant needs."""
REFUSED = (*UNFIT, "constant", "schedule", "layout", "extent", "requires")
"""Codes of the errors that may depend on the dims: UNFIT, a false `assert`, and a line of a schedule that has no value
or is refused for these dims. Another schedule may serve the call, as Triton's autotuner skips configs that need too
many resources or fail a static assert."""


def one_of(values: Sequence[Any], chosen: Any) -> Any:
    """Returns the element of `values` that equals the option `chosen`, or `chosen` itself. 0.0 and -0.0 differ, but 1.0
    finds 1."""
    exact = (value for value in values if exact_key(value) == exact_key(chosen))
    return next(exact, next((value for value in values if value == chosen), chosen))


def holds(condition: Expression | None, names: Mapping[str, Any]) -> bool:
    """Returns whether a condition is true. A condition without a value is not."""
    from dsl.runtime.expressions import ExpressionError

    try:
        return condition is not None and bool(condition.evaluate(names))
    except ExpressionError:
        return False


def passed_on(value: Any, loc: Loc) -> Any:
    """Returns a value of a dispatch as the argument of a launch. Raises TileError `call` if the value is an array that
    a dispatch has renamed, as in `z = x`. `Called` finds the arrays of each launch by name."""
    if isinstance(value, CallArray):
        message = f"array '{value.argument}' of the call goes to launches by its own name alone"
        raise TileError("call", loc, message, "a branch for each array that a launch may take")
    return value


def check_rows(head: KernelHead, name: str, given: Any, loc: Loc) -> None:
    """Raises TileError `call` if a launch passes `workspace_like` as a tensor that is not `strided`."""
    array = head.arrays.get(name)
    if isinstance(given, Workspace) and given.strides is not None and array is not None and not array.strided:
        message = f"the rows of {given.text} begin at multiples of 64 bytes, and '{name}' of '{head.name}' is row-major"
        dims = ", ".join(map(str, array.dims))
        raise TileError("call", loc, message, f"{name}: {array.dtype}[{dims}; strided], or workspace(…)")


class Planner:
    """Plans one call of `name` (a dispatch or a kernel) with these arguments.

    The launches come from the first of these sources that is given: `schedule`, `chosen` (the steps of a branch), the
    entry of `tuned` that serves the call on `device` (a device name), or the conditions of the dispatch. `constants`
    override all of these sources. `fits` calls `built` to lower the variant of a request, unless `known_to_fit` returns
    true for it. `points` evaluates the cost of a request's schedule."""

    def __init__(
        self,
        program: Program,
        name: str,
        arguments: Mapping[str, Any],
        target: Target,
        sms: int | None = None,
        constants: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        schedule: str | None = None,
        chosen: Sequence[StepChoice] | None = None,
        device: str | None = None,
        tuned: Tuned | None = None,
        built: Callable[[Request], Variant] | None = None,
        points: Callable[[Request], Points | None] | None = None,
        known_to_fit: Callable[[Request], bool] | None = None,
    ):
        self.program, self.name, self.target, self.sms = program, name, target, sms
        self.called = program.once(Called, name)
        self.dispatch = self.called.dispatch
        self.arguments = dict(arguments)
        self.constants = dict(constants or {})
        self.options = dict(options or {})
        self.schedule, self.chosen = schedule, chosen
        self.device, self.tuned = device, tuned
        self.built = built or (lambda request: lower(program, request).variant)
        self.points = points or partial(points_of, program)
        self.known_to_fit = known_to_fit or (lambda request: False)
        self.fitting: list[Request] = []  # the variants that fit
        self.reasons: list[str] = []
        self.skipped: dict[str, str] = {}  # launches that do not serve the call, with the reasons
        self.unfit: str | None = None  # why the variant of the last `fits` does not fit
        self.refused: TileError | None = None  # the compiler's error for this variant
        self.branch: ast.Branch | None = None  # the branch that was taken
        self.shared = LineNames({}, {})  # the names after the lines that all branches share
        self.made: dict[int, list[Step]] = {}  # the launches of each branch, by the branch's identity
        self.known_steps: dict[tuple[int, int], Any] = {}  # (names, step), by identity → what the step makes of them
        self.bound: dict[tuple, tuple[list[Any], BoundArguments]] = {}  # arguments of launches, by names and launch

    @looks_once()
    def plan(self) -> Plan:
        self.check_schedule()
        # A schedule or steps that the caller names take precedence over tuned data.
        if self.chosen is None and self.schedule is None and self.tuned is not None and self.device is not None:
            plan = self.tuned_plan(self.tuned, self.device)
            if plan is not None:
                return plan
        return self.planned()

    def planned(self) -> Plan:
        if self.dispatch is not None:
            return self.dispatched(self.dispatch)
        head = self.program.head(self.name)
        arguments = [FromCall(name) for name in head.names]
        known = next(iter(self.program.schedules_of(self.name)), None)
        choice = self.chosen[0] if self.chosen else StepChoice(self.name, self.schedule or known, {})

        def made(values: PointsOfLaunches) -> list[Step]:
            constants = {**choice.constants, **values.get(0, {})}
            request = self.request(head, choice.schedule, constants, self.bind(head, arguments))
            return [Step(request, arguments, head.names)]

        steps = self.taken_steps([Rival(choice.schedule or self.name, made({}), made)])
        return Plan(steps or made({}), [*self.reasons, f"kernel {self.name} with {choice.schedule or 'no schedule'}"])

    def check_schedule(self) -> None:
        """Raises TileError `name` if none of the call's kernels has the requested schedule."""
        if self.schedule is None:
            return
        known = {name: None for kernel in self.called.launched for name in self.program.schedules_of(kernel)}
        if self.schedule not in known:
            hint = closest(self.schedule, known) or f"known: {', '.join(known) or 'none'}"
            if self.schedule in self.program.parts:
                hint = f"'{self.schedule}' is a part: name it at a launch, after 'with'"
            raise TileError("name", None, f"'{self.name}' has no schedule '{self.schedule}'", hint)

    # ---- tuned data ----

    def tuned_plan(self, tuned: Tuned, device: str) -> Plan | None:
        """Returns the plan of the tuned entry that serves this call. If no entry serves the call, records the reason
        and returns None."""
        if tuned.path is None:
            return None
        found = tuned.find(device, self.facts(), self.program.plugins.digests) if tuned.entries else None
        if found is None:
            absent = "" if tuned.path.is_file() else f": there is no {tuned.path.name}"
            others = sorted({name for e in tuned.entries for name in e.plugins.keys() - self.program.plugins.digests})
            under = f"; some were made under {', '.join(others)}, and are taken under it alone" if others else ""
            self.reasons.append(f"no tuned entry for {device} serves this call{absent}{under}")
            return None
        steps = found.entry.steps
        given = {name: exact_key(value) for name, value in self.constants.items()}
        tuned_to = ((name, exact_key(value)) for step in steps for name, value in step.constants.items())
        differing = {name for name, key in tuned_to if given.get(name, key) != key}
        # The entry was measured with another value, so its other constants need not be good for the given value.
        if differing:
            self.reasons.append(f"the tuned entry is left out: {', '.join(sorted(differing))} was given")
            return None
        changed = found.entry.text != text_digest(self.program, steps)
        reasons = [self.tuned_reason(found, changed)]
        self.chosen, self.reasons = steps, list(reasons)
        plan = self.planned()
        # An entry for other dims, or for an older text, is only a guess. It is taken only if all of its launches
        # compile.
        if (found.exact and not changed) or all(self.serves(step.request) for step in plan.steps):
            return plan
        self.chosen, self.reasons = None, [*reasons, "it does not serve these dims: the file's conditions decide"]
        return None

    def tuned_reason(self, found: Found, changed: bool) -> str:
        entry = found.entry
        point = ", ".join(f"{name}={extent}" for name, extent in entry.dims.items())
        near = f"at {point}" if found.exact else f"nearest point {point}"
        text = f"tuned for {entry.device}: {near}: {entry.described()}"
        return text + ("; its text has changed since, tune again" if changed else "")

    def facts(self) -> CallFacts:
        """The facts about this call that select a tuned entry."""
        dims, types = self.bound_names
        names = {**target_facts(self.target, self.sms, self.device), **dims, **types}
        options, at = dict[str, Any](), LineNames(names, {})
        for line in self.dispatch.lines if self.dispatch is not None else ():
            if isinstance(line, ast.Option):
                values = [self.value(value, at) for value in line.values]
                options[line.name] = one_of(values, self.options.get(line.name, values[0]))
        absent = sorted(argument for argument in self.called.tensors if self.arguments.get(argument) is None)
        named = {name: dtype.name for name, dtype in types.items()}
        return CallFacts(self.name, options, named, dims, tuple(absent), self.called.inner)

    def serves(self, request: Request) -> bool:
        """Returns whether the variant compiles for these dims within the device's limits, and whether all of its
        requirements hold."""
        try:
            variant = self.built(request)
        except TileError:
            return False
        return self.flaw_of_launch(request, variant) is None

    def flaw_of_launch(self, request: Request, variant: Variant) -> str | None:
        """Returns the reason why the variant cannot be launched for these dims, or None if it can. Its conditions must
        hold, the grid must be a whole number of clusters, and a tensor with a TMA map must not be empty."""
        # A matrix product with k = 0 takes another branch, since a tensor without elements has no tensor map.
        if empty := {name for name, extent in request.dims.items() if extent == 0}:
            mapped = {map.tensor for map in maps_of(variant.function.body)}
            if any(p.name in mapped and empty.intersection(p.dims) for p in variant.function.params):
                return "TMA copies no part of a tensor without elements"
        if not variant.limits:
            return None
        # Uses the dims of the request, because the variant may have been built for another call. With the first call's
        # dims, a grid of six blocks in clusters of four was launched and refused.
        names = {"sms": request.sms or self.target.sms, **variant.constants, **request.scalars, **request.dims}
        types = {p.name: p.dtype for p in variant.function.params if p.name in request.scalars}
        # Scalars are rounded as in the launch, because 0.1 as an f32 differs from Python's 0.1.
        names |= {name: as_parameter(names[name], dtype) for name, dtype in types.items()}
        return next((text for condition, text in variant.limits if not holds(condition, names)), None)

    def alternatives(self, schedules: Sequence[str] = ()) -> list[tuple[StepChoice, ...]]:
        """Returns the branches that may serve this call, each as its steps without constants. For a call of a kernel,
        each schedule counts as a branch. If `schedules` is given, only branches that use one of these schedules are
        returned.

        Conditions that read an option hold for all of these branches, because options are the caller's wishes."""
        if self.dispatch is None:
            known: list[str | None] = [*self.program.schedules_of(self.name)]
            asked = [name for name in known or [None] if not schedules or name in schedules]
            return [(StepChoice(self.name, name, {}),) for name in asked]
        self.start(self.dispatch)
        out = []
        for branch in self.dispatch.branches:
            if not self.is_wished(branch):
                continue
            steps = branch_steps(branch, self.program)
            if not schedules or any(step.schedule in schedules for step in steps):
                out.append(steps)
            else:
                out += [made for name in schedules if (made := self.with_schedule(steps, name)) is not None]
        # Branches whose launches differ only in their arguments count once.
        return [steps for place, steps in enumerate(out) if steps not in out[:place]]

    def with_schedule(self, steps: tuple[StepChoice, ...], name: str) -> tuple[StepChoice, ...] | None:
        """Returns the steps with the schedule `name`, for each step whose kernel has such a schedule. Returns None if
        no kernel has it, or if a branch of the dispatch already names it."""
        has = [name in self.program.schedules_of(step.kernel) for step in steps]
        if not any(has) or name in named_ways(self.program.dispatches[self.name]):
            return None
        return tuple(replace(step, schedule=name) if own else step for step, own in zip(steps, has, strict=True))

    # ---- the branches of a dispatch ----

    def is_wished(self, branch: ast.Branch) -> bool:
        """Returns whether the conditions of a branch that read options are as the branch wants them."""
        names = self.shared
        for step in branch.steps:
            if isinstance(step, ast.Assign):
                names = self.after(step, names)
            elif isinstance(step, ast.Test):
                is_wish = bool(names_in(step.condition) & self.called.options)
                if is_wish and bool(self.value(step.condition, names, branch)) != step.wanted:
                    return False
        return True

    def start(self, dispatch: ast.Dispatch) -> None:
        """Evaluates the lines that all branches of a dispatch share."""
        dims, types = self.bound_names
        arrays = {k: CallArray.of(v, k) for k, v in self.arguments.items() if isinstance(v, ArrayFacts)}
        values = {**arrays, **target_facts(self.target, self.sms, self.device), **dims, **types}
        values |= {k: v for k, v in self.arguments.items() if not isinstance(v, ArrayFacts)}
        values |= {f"given({name})": self.arguments.get(name) is not None for name in self.called.asked}
        self.made, self.known_steps, self.bound = {}, {}, {}
        for option in self.options:
            if option not in self.called.options:
                hint = closest(option, self.called.options)
                raise TileError("name", None, f"'{dispatch.name}' has no option '{option}'", hint)
        names = LineNames(values, {k: FromCall(k) for k in dispatch.params})
        for line in dispatch.lines:
            if isinstance(line, ast.Option):
                names = self.option(line, names)
            elif isinstance(line, ast.Assign | ast.Require):
                names = self.after(line, names)
        self.shared = names

    def dispatched(self, dispatch: ast.Dispatch) -> Plan:
        self.start(dispatch)
        found = self.taken_of(dispatch)
        if found:
            plan = self.branch_plan(found)
            if plan is not None:
                return plan
            if self.refused is not None:
                raise self.with_skipped(self.refused)  # at its line, and says more than that no schedule compiles
        said = "; ".join(f"{name}: {reason}" for name, reason in self.skipped.items())
        hint = f"not served by {said}" if found else "add an 'else:' that launches"
        raise Misfit("dispatch", dispatch.loc, f"no branch of '{dispatch.name}' serves this call", hint)

    def with_skipped(self, error: TileError) -> TileError:
        """Returns the error for a schedule, with a hint that says why the others do not serve the call, either."""
        first, *more = error.errors
        others = [f"{name}: {reason}" for name, reason in self.skipped.items() if first.message not in reason]
        if not others:
            return error
        said = f"nor is the call served by {'; '.join(others)}"
        told = TileError(first.code, first.loc, first.message, f"{first.hint}; {said}" if first.hint else said)
        return Errors([told, *more]) if more else told

    def taken_of(self, dispatch: ast.Dispatch) -> list[ast.Branch]:
        """Returns the branch that serves the call, or several that differ only in their schedules. A requested schedule
        and chosen steps leave some branches. The conditions choose among these. If all of their conditions are false,
        the first one is taken."""
        wanted = self.wanted(dispatch)
        if wanted is None:
            return next((each for each in by_launch(dispatch.branches) if self.taken(each[0])), [])
        found = [branch for branch in dispatch.branches if wanted(branch)]
        return [next((each for each in found if self.taken(each)), found[0]) if len(found) > 1 else found[0]]

    def wanted(self, dispatch: ast.Dispatch) -> Callable[[ast.Branch], bool] | None:
        """Returns a function that recognises the branches that the caller requests. Returns None if the caller requests
        none."""
        if self.chosen is not None:
            branch = branch_of(dispatch, self.chosen, self.program)
            if branch is None:
                steps = " → ".join(map(described_step, self.chosen))
                raise TileError("dispatch", dispatch.loc, f"no branch of '{dispatch.name}' launches {steps}")
            steps_of = branch_steps(branch, self.program)
            return lambda each: branch_steps(each, self.program) == steps_of
        if self.schedule is None:
            return None
        if self.schedule in named_ways(dispatch):
            self.reasons.append(f"schedule {self.schedule} was requested")
            return lambda each: self.schedule in names_of_branch(each)
        self.reasons.append(f"schedule {self.schedule} was requested, but no branch names it")
        return self.launches_its_kernel

    def branch_plan(self, branches: Sequence[ast.Branch]) -> Plan | None:
        """Returns the plan of a branch, or of the cheapest of several branches. Returns None if there are several and
        none serves the call."""
        self.branch = branches[0] if len(branches) == 1 else None  # also if it does not compile
        rivals = [self.rival(each) for each in branches]
        steps = self.taken_steps(rivals)
        if steps is None:
            return None
        if self.branch is None:
            self.branch = next(each for each in branches if self.made[id(each)] is steps)
        return Plan(steps, self.reasons)

    def rival(self, branch: ast.Branch) -> Rival:
        steps = self.steps(branch)
        asked = tuple(StepChoice(step.request.kernel, step.request.schedule, {}) for step in steps)
        return Rival(said_steps(asked), steps, partial(self.steps, branch))

    def taken_steps(self, rivals: Sequence[Rival]) -> list[Step] | None:
        """Returns the launches of the cheapest rival. Returns None if there are several and none compiles. Launches
        that tuned data or the caller has chosen are returned unchanged."""
        if self.chosen is not None and len(rivals) == 1:
            return rivals[0].steps
        taken = cheapest(self, rivals)
        return None if taken is None else taken.steps

    def launches_its_kernel(self, branch: ast.Branch) -> bool:
        """Returns whether a branch launches a kernel that has the requested schedule."""
        return any(self.schedule in self.program.schedules_of(launch.name) for launch in branch.launches)

    def value(self, node: ast.Expr, names: LineNames, branch: ast.Branch | None = None) -> Any:
        """Returns the value of an expression of the dispatch. `branch` is that of a condition."""
        known = self.program.once(WrittenLines).value(node, names, self)
        return DispatchNames(names, self, branch)(node) if known is MISSING else known

    def option(self, line: ast.Option, names: LineNames) -> LineNames:
        """Returns the names after an option, which has the caller's value or the first of its values."""
        values = [self.value(v, names) for v in line.values]
        chosen = one_of(values, self.options.get(line.name, values[0]))
        if chosen not in values:
            message = f"option '{line.name}' is one of {', '.join(map(str, values))}; not {chosen}"
            raise TileError("call", line.loc, message)
        return LineNames({**names.values, line.name: chosen}, names.passed)

    def after(self, step: ast.Assign | ast.Require, names: LineNames) -> LineNames:
        """Returns the names after an assignment or a requirement. Raises Misfit if the requirement does not hold."""
        key = id(names), id(step)
        if key not in self.known_steps:
            if isinstance(step, ast.Assign):
                self.known_steps[key] = self.assigned(step, names)
            else:
                self.require(step, names)
                self.known_steps[key] = names
        return self.known_steps[key]

    def require(self, line: ast.Require, names: LineNames) -> None:
        if not self.value(line.condition, names):
            text = line.loc.source.text[line.loc.start : line.loc.end]
            values = ", ".join(f"{k} = {v}" for k, v in self.bound_names[0].items() if k in text)
            raise Misfit("requires", line.loc, f"'{self.name}' requires {text}", values or None)

    def assigned(self, line: ast.Assign, names: LineNames) -> LineNames:
        value = self.value(line.value, names)
        values = list(value) if len(line.targets) > 1 and isinstance(value, tuple) else [value]
        if len(values) != len(line.targets):
            raise TileError("type", line.loc, f"{len(line.targets)} names for {len(values)} values")
        own = {t.id: v for t, v in zip(line.targets, values, strict=True) if isinstance(t, ast.Name)}
        passed = {name: passed_on(v, line.value.loc) for name, v in own.items()}
        given = {f"given({name})": True for name, v in own.items() if isinstance(v, Workspace)}
        return LineNames({**names.values, **own, **given}, {**names.passed, **passed})

    def taken(self, branch: ast.Branch) -> bool:
        """Returns whether all conditions of a branch are as it wants them."""
        names = self.shared
        for step in branch.steps:
            if isinstance(step, ast.Test):
                if self.holds(step, names, branch) != step.wanted:
                    return False
            elif not isinstance(step, ast.Launch):
                names = self.after(step, names)
        return True

    def holds(self, test: ast.Test, names: LineNames, branch: ast.Branch) -> bool:
        """Returns whether a condition is true. Records this as a reason when the condition is first evaluated, for the
        first branch that wants it to be true."""
        key = id(names), id(test.condition)
        if key not in self.known_steps:
            self.unfit = None
            self.known_steps[key] = holds = bool(self.value(test.condition, names, branch))
            loc = test.condition.loc
            why = f" ({self.unfit})" if self.unfit is not None and not holds else ""
            self.reasons.append(f"{loc.source.text[loc.start : loc.end]}: {'yes' if holds else 'no'}{why}")
        return self.known_steps[key]

    def steps(self, branch: ast.Branch, values: PointsOfLaunches | None = None) -> list[Step]:
        """Returns the launches of a branch, each with its request. `values` sets names that have a `tune` set. The
        result is cached for each branch until `values` is given again."""
        if values is not None or id(branch) not in self.made:
            names, made = self.shared, list[Step]()
            for step in branch.steps:
                if isinstance(step, ast.Launch):
                    choice = self.chosen[len(made)] if self.chosen else None
                    made.append(self.step(step, names, choice, (values or {}).get(len(made), {})))
                elif not isinstance(step, ast.Test):
                    names = self.after(step, names)
            # Programmatic dependent launch needs sm_90.
            self.made[id(branch)] = overlapping(self.program, made) if self.target.number >= 90 else made
        return self.made[id(branch)]

    # ---- one launch ----

    def step(
        self,
        launch: ast.Launch,
        names: LineNames,
        choice: StepChoice | None,
        point: Mapping[str, Any],
    ) -> Step:
        """Makes one launch of a branch. Constants come from the text, from `choice` and from `point`. Where they
        conflict, `point` overrides `choice`, and `choice` overrides the text."""
        if launch.name not in self.program.kernels:
            hint = closest(launch.name, self.program.kernels)
            raise TileError("name", launch.loc, f"unknown kernel '{launch.name}'", hint)
        head = self.program.head(launch.name)
        arguments, bound = self.bound_arguments(launch, head, names)
        schedule, constants = self.with_items(launch, names)
        if choice is not None:
            schedule, constants = choice.schedule, {**constants, **choice.constants}
        constants |= point
        return Step(self.request(head, schedule, constants, bound), arguments, head.names)

    def bound_arguments(
        self, launch: ast.Launch, head: KernelHead, names: LineNames
    ) -> tuple[list[Any], BoundArguments]:
        """Returns the arguments of a launch, and what they bind. Launches of rival branches, which differ only in their
        schedules, share both."""
        key = id(names), launch.name, id(launch.args), id(launch.keywords)
        if key not in self.bound:
            arguments = self.launch_arguments(launch, head, names)
            self.bound[key] = arguments, self.bind(head, arguments)
        return self.bound[key]

    def launch_arguments(self, launch: ast.Launch, head: KernelHead, names: LineNames) -> list[Any]:
        passed = names.passed
        params, optional = head.names, {name for name, array in head.arrays.items() if array.optional}
        if launch.args is None:
            self.check_passed(launch, head, passed)
            for name in params:
                check_rows(head, name, passed.get(name), launch.loc)
            return [passed.get(name) for name in params]
        given = given_by_name(launch, params)
        out: list[Any] = []
        for name in params:
            expression = given.get(name)
            if expression is None and name not in optional:
                raise TileError("call", launch.loc, f"'{head.name}' needs '{name}'")
            if expression is None or (ast.is_none(expression) and name in optional):
                out.append(None)
            elif isinstance(expression, ast.Name) and expression.id in passed:
                out.append(passed[expression.id])
                check_rows(head, name, out[-1], expression.loc)
            else:
                out.append(passed_on(self.value(expression, names), expression.loc))
        return out

    def check_passed(self, launch: ast.Launch, head: KernelHead, passed: Collection[str]) -> None:
        """Raises TileError `call` if a launch without arguments lacks one: `passed` are the names that it passes on."""
        for name in head.names:
            if name not in passed and not (name in head.arrays and head.arrays[name].optional):
                message = f"'{head.name}' needs '{name}', which the dispatch does not have"
                raise TileError("call", launch.loc, message)

    def with_items(self, launch: ast.Launch, names: LineNames) -> tuple[str | None, dict[str, Any]]:
        """Returns (schedule, constants) of a launch."""
        schedule = None
        constants: dict[str, Any] = {}
        for item in launch.items:
            if item.value is not None:
                self.program.check_constant(launch.name, item.name, item.loc)
                value: Any = self.plain_number(item.value, names)
                if value is None:
                    value = self.function_name(item.value, names) or self.value(item.value, names)
                # An expression of arrays gives numpy numbers. Constants are Python numbers.
                constants[item.name] = value.item() if hasattr(value, "item") else value
            else:
                schedule = self.program.schedule(launch.name, item.name, item.loc).name
        if self.schedule is not None and (launch.name, self.schedule) in self.program.schedules:
            schedule = self.schedule
        if schedule is None:
            schedule = next(iter(self.program.schedules_of(launch.name)), None)
        return schedule, constants

    def plain_number(self, node: ast.Expr, names: LineNames) -> int | float | None:
        """Returns the number that an expression is or names, or None for any other expression. Most items of launches
        are such numbers."""
        if isinstance(node, ast.Number):
            return node.value
        value = names.values.get(node.id) if isinstance(node, ast.Name) else None
        return value if type(value) in (bool, int, float) else None

    def function_name(self, node: ast.Expr, names: LineNames) -> str | None:
        """Returns the function that an expression names, or None for any other expression."""
        if not isinstance(node, ast.Name) or node.id in names.values:
            return None
        return node.id if (self.program.function(node.id) or find(node.id)) is not None else None

    def bind(self, head: KernelHead, arguments: Sequence[Any]) -> BoundArguments:
        return bind(head, dict(zip(head.names, map(self.known, arguments), strict=True)))

    def request(
        self, head: KernelHead, schedule: str | None, constants: Mapping[str, Any], shared: BoundArguments
    ) -> Request:
        """Returns the Request for the variant of a launch. `shared` is what its arguments bind, and is not changed."""
        bound = replace(shared, types={**shared.types})
        bound.constants(head, {**constants, **self.constants})
        for name, wanted in self.constants.items():
            if name in bound.dims and bound.dims[name] != wanted:
                raise Misfit("shape", None, f"'{name}' is {bound.dims[name]} in the arrays; {wanted} was given")
        # Type parameters are already bound as types above.
        own = {k: v for k, v in constants.items() if k not in head.types}
        settable = self.program.settable(head.name)
        return Request(
            head.name,
            schedule,
            bound.dims,
            bound.types,
            {**own, **{k: v for k, v in self.constants.items() if k in settable}},
            bound.scalars,
            bound.align,
            frozenset(bound.absent),
            self.target.arch,
            self.sms,
            self.device,
            64 if bound.far else None,
            strides=bound.strides,
        )

    def known(self, argument: Any) -> Any:
        """Returns the facts about an argument of a launch."""
        if isinstance(argument, FromCall):
            return self.arguments.get(argument.name)
        return argument.facts if isinstance(argument, Workspace) else argument

    @cached_property
    def bound_names(self) -> tuple[dict[str, int], dict[str, DType]]:
        """The dims and the type parameters of the call, as two dicts. Names are those of the kernels."""
        return self.called.bind_names(self.arguments)

    # ---- fits ----

    def fits(self, node: ast.Call, branch: ast.Branch | None) -> bool:
        """Evaluates `fits(kernel with schedule)`: whether the variant for these dims compiles within the device's
        limits (memory, registers, instructions, clusters) and can be launched. If the branch itself launches this
        kernel and schedule, `fits` checks the variant of that launch."""
        kernel, schedule = fitting(self.program, node)
        if branch is not None and any(launch.name == kernel for launch in branch.launches):
            for step in self.steps(branch):
                # The launch may set constants, so its variant may differ from the variant of the schedule alone.
                if (step.request.kernel, step.request.schedule) == (kernel, schedule):
                    return self.request_fits(step.request)
        head = self.program.head(kernel)
        bound = self.bind(head, [FromCall(name) for name in head.names])
        return self.request_fits(self.request(head, schedule, {}, bound))

    def request_fits(self, request: Request) -> bool:
        """Returns whether a variant compiles within the device's limits and can be launched for these dims."""
        if self.known_to_fit(request):
            return True
        try:
            variant = self.built(request)
        except TileError as error:
            if self.is_unfit(error, request):
                return False
            raise
        flaw = self.flaw_of_launch(request, variant)
        if flaw is not None:
            self.unfit, self.refused = flaw, None
        else:
            self.fitting.append(request)
        return flaw is None

    def is_unfit(self, error: TileError, request: Request) -> bool:
        """Returns whether the error means that a variant does not serve these dims on this device, and if so records
        the reason. Any other error is a mistake in the file, which choosing another branch would hide. So is any error
        of a schedule whose lines are wrong for all dims, and of a constant that nothing sets."""
        if any(each.code not in REFUSED or isinstance(each, Unset) for each in error.errors):
            return False
        if self.program.once(said_with_defaults, request.kernel, request.schedule).mistakes.errors:
            return False
        first = error.errors[0]
        place = None if first.loc is None else first.loc.place(self.program.source.name)
        self.unfit = first.message if place is None else f"{place}: {first.message}"
        self.refused = error
        return True
