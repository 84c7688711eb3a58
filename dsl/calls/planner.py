"""Plans a call: finds the launches that serve it.

A call names a dispatch or a kernel. The arguments determine dims and types. The first branch whose condition holds
determines the launches. `--explain` prints the launches, and the reasons for choosing them.

The launches of a branch are built once: when its condition evaluates `fits`, or else when the branch is chosen.
Therefore `fits` lowers exactly the variant that is launched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NoReturn

from dsl.calls.binding import BoundArguments, Misfit, bind
from dsl.calls.called import Called
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
from dsl.kernels.compile import lower
from dsl.kernels.variant import Request, Variant, as_parameter, points_of
from dsl.lowering.hopper.boxes import maps_of
from dsl.lowering.ir.function import stride_name
from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import DTYPES, DType
from dsl.runtime.numbers import exact_key
from dsl.schedules import target_facts
from dsl.schedules.cheapest import Points
from dsl.text import tree as ast
from dsl.text.branches import by_launch, given_by_name, named_ways, names_of_branch
from dsl.text.heads import KernelHead
from dsl.text.program import Program
from dsl.text.tree import names_in
from dsl.values.arrays import Arrays
from dsl.values.facts import ArrayFacts, CallArray
from dsl.values.host import Shaped
from dsl.values.table import Builtin

ASKING = ("shape", "bytes", "dtype")
"""Functions of arrays that do not need the elements."""
UNFIT = ("shared", "limit", "registers", "target", "instruction")
"""Codes of the errors for a device that lacks memory, registers or an instruction that a variant needs."""


def one_of(values: Sequence[Any], chosen: Any) -> Any:
    """Returns the element of `values` that equals the option `chosen`, or `chosen` itself. 0.0 and -0.0 differ, but 1.0
    finds 1."""
    exact = (value for value in values if exact_key(value) == exact_key(chosen))
    return next(exact, next((value for value in values if value == chosen), chosen))


def passed_on(value: Any, loc: Loc) -> Any:
    """Returns a value of a dispatch as the argument of a launch. Raises TileError `call` if the value is an array that
    a dispatch has renamed, as in `z = x`. `Called` finds the arrays of each launch by name."""
    if isinstance(value, CallArray):
        message = f"array '{value.argument}' of the call goes to launches by its own name alone"
        raise TileError("call", loc, message, "a branch for each array that a launch may take")
    return value


class DispatchNames(Arrays):
    """Evaluates the expressions of a dispatch: numbers, tables made on the host, `workspace`, `fits`, and facts about
    the call's arrays. One plan serves a class of calls, so these expressions cannot read elements of arrays."""

    operands = "numbers and tables"

    def __init__(self, names: Mapping[str, Any], planner: Planner, branch: ast.When | None = None):
        super().__init__(names, planner.program.functions)
        self.planner, self.branch = planner, branch

    def function_of(self, name: str, loc: Loc) -> Builtin | None:
        return OWN[name] if name in OWN else super().function_of(name, loc)

    def known_names(self) -> list[str]:
        return [*super().known_names(), *OWN]

    def _name(self, node: ast.Name) -> Any:
        # `when fits:` is short for `fits` of the branch's only launch.
        if node.id == "fits" and self.branch is not None and node.id not in self.names:
            return self.planner.fits_alone(self.branch, node.loc)
        return super()._name(node)

    def describe(self, value: Any) -> str:
        if isinstance(value, CallArray):
            return f"the array '{value.argument}' of the call"
        return super().describe(value)

    def unknown(self, what: str, name: str, loc: Loc) -> NoReturn:
        dims, types = self.planner.bound_names
        hint = closest(name, self.known_names() if what == "function" else [*self.scope.all_names(), *DTYPES])
        if hint is None and what == "name":
            said = ", ".join([*dims, *types]) or "none here"
            hint = f"dims and types that it sees: {said}; any other extent of its array x is shape(x, axis)"
        self.error("name", loc, f"unknown {what} '{name}'", hint)

    def of(
        self, function: Builtin, values: list[Any], keywords: dict[str, Any], loc: Loc, node: ast.Call | None = None
    ) -> Any:
        # The plan is kept for the class of the call. A decision that reads elements could be wrong for the next call.
        if function.name not in ASKING:
            self.check_unseen(function.name, [*values, *keywords.values()], loc)
        return super().of(function, values, keywords, loc, node)

    def member(self, node: ast.Attribute, value: Any) -> Any:
        self.check_unseen(f".{node.name}", [value], node.loc)
        return super().member(node, value)

    def check_unseen(self, name: str, values: Sequence[Any], loc: Loc) -> None:
        """Raises an error if one of `values`, the operands of the function `name`, is an array of the call. The
        function would read elements of this array or make another array from it."""
        found = next((value for value in values if isinstance(value, CallArray)), None)
        if found is not None:
            array = found.argument
            message = f"'{name}' of {self.describe(found)}: a dispatch knows of it {', '.join(ASKING)} alone"
            is_view = name in ("reshape", "transpose", "flat", ".T")
            hint = f"a kernel takes '{array}' as it is, and its text makes other views of it" if is_view else None
            self.error("call", loc, message, hint or "let a kernel, or the caller, do what depends on elements")


def _workspace(names: DispatchNames, loc: Loc, given: Any, zero: str | None = None) -> Workspace:
    dtype, shape = (given.dtype, given.shape) if isinstance(given, Shaped) else (given, ())
    if not isinstance(dtype, DType):
        names.error("call", names.place_of(0, loc), "workspace takes a type with extents", "workspace(f32[4 * sms])")
    return Workspace(dtype.name, shape, zero == "zero", loc, zero == "zeroed")


def _asked(names: DispatchNames, node: ast.Call) -> tuple[ArrayFacts, Loc]:
    """Returns the facts about the array that is the first argument of `node`, and the location of `node`. Raises an
    error if the argument is not an array of the call."""
    asked = node.args[0]
    known = names.planner.known(names.planner.passed.get(asked.id)) if isinstance(asked, ast.Name) else None
    if not isinstance(known, ArrayFacts):
        names.error("type", asked.loc, "this takes an array of the call", "a parameter that is a tensor")
    return known, node.loc


def _workspace_like(names: DispatchNames, node: ast.Call) -> Workspace:
    like, loc = _asked(names, node)
    axis = _axis(names, like, node.args[1]) if len(node.args) > 1 else None
    return Workspace(like.dtype, like.shape, False, loc, strides=like.pitched(axis))


def _axis(names: DispatchNames, of: ArrayFacts, node: ast.Expr) -> int:
    """Evaluates an argument that is an axis of an array. Raises an error if the array has no such axis."""
    axis = names.expr(node)
    if type(axis) is int and 0 <= axis < len(of.shape):
        return axis
    names.error("shape", node.loc, f"an array of rank {len(of.shape)} has no axis {names.describe(axis)}", "from 0 on")


def _contiguous(names: DispatchNames, node: ast.Call) -> bool:
    asked, _ = _asked(names, node)
    return asked.is_contiguous(_axis(names, asked, node.args[1]))


def _aligned(names: DispatchNames, node: ast.Call) -> bool:
    return _asked(names, node)[0].rows_are_aligned


def _fits(names: DispatchNames, node: ast.Call) -> bool:
    return names.planner.fits(node, names.branch)


_OWN = (
    Builtin("workspace(T[…], [zero|zeroed])", "scratch memory of the call", arrays=_workspace),
    Builtin("workspace_like(x, [axis])", "scratch memory with an array's shape; rows, along its contiguous or the "
            "given axis, begin at multiples of 64 bytes", arrays=_workspace_like, unread=True),
    Builtin("contiguous(x, axis)", "whether an axis of an array has stride 1", arrays=_contiguous, unread=True),
    Builtin("aligned(x)", "whether an array's rows begin at multiples of 16 bytes", arrays=_aligned, unread=True),
    Builtin("fits(kernel)", "whether `kernel with schedule` compiles for this call", arrays=_fits, unread=True),
)  # fmt: skip
OWN = {each.name: each for each in _OWN}
"""Functions that only dispatches have."""


class Planner:
    """Plans one call of `name` (a dispatch or a kernel) with these arguments.

    The launches come from the first of these sources that is given: `schedule`, `chosen` (the steps of a branch), the
    entry of `tuned` that serves the call on `device` (a device name), or the conditions of the dispatch. `constants`
    override all of these sources. `fits` calls `built` to lower the variant of a request. `points` evaluates the cost
    of a request's schedule."""

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
        self.reasons: list[str] = []
        self.unfit: str | None = None  # why the variant of the last `fits` does not fit
        self.refused: TileError | None = None  # the compiler's error for this variant
        self.branch: ast.When | None = None  # the branch that was taken
        self.names: dict[str, Any] = {}  # names that expressions of the dispatch may read
        self.passed: dict[str, Any] = {}  # names that launches of the dispatch may pass on, after the lines so far
        self.made: dict[int, list[Step]] = {}  # the launches of each branch, by the branch's identity
        self.bound: dict[tuple, tuple[list[Any], BoundArguments]] = {}  # arguments of launches, until a name changes

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
            return [Step(self.request(head, choice.schedule, constants, self.bind(head, arguments)), arguments)]

        steps = self.taken_steps([Rival(choice.schedule or self.name, made({}), made)])
        return Plan(steps or made({}), [*self.reasons, f"kernel {self.name} with {choice.schedule or 'no schedule'}"])

    def check_schedule(self) -> None:
        """Raises TileError `name` if the requested schedule is unknown. Known names are the schedules of the call's
        kernels and the names of branches."""
        if self.schedule is None:
            return
        known = {name: None for kernel in self.called.launched for name in self.program.schedules_of(kernel)}
        lines = self.dispatch.lines if self.dispatch is not None else []
        known |= {line.name: None for line in lines if isinstance(line, ast.When) and line.name is not None}
        if self.schedule not in known:
            hint = closest(self.schedule, known) or f"known: {', '.join(known) or 'none'}"
            if self.schedule in self.program.parts:
                hint = f"'{self.schedule}' belongs to no kernel: a schedule that is like it does"
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
        options: dict[str, Any] = {}
        for line in self.dispatch.lines if self.dispatch is not None else ():
            if isinstance(line, ast.Option):
                values = [DispatchNames(names, self)(value) for value in line.values]
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
        holds = self.all_hold(request, variant, [c.expr for c in variant.requires])
        return holds and self.flaw_of_launch(request, variant) is None

    def flaw_of_launch(self, request: Request, variant: Variant) -> str | None:
        """Returns the reason why the variant cannot be launched for these dims, or None if it can. The grid must be a
        whole number of clusters, and a tensor with a TMA map must not be empty."""
        function, size = variant.function, variant.function.blocks_of_cluster
        # A tensor without elements has no tensor map, so a matrix product with k = 0 takes another branch.
        empty = {name for name, extent in request.dims.items() if extent == 0}
        mapped = {map.tensor for map in maps_of(function.body)} if empty else set()
        if any(p.name in mapped and empty.intersection(p.dims) for p in function.params):
            return "TMA copies no part of a tensor without elements"
        if size == 1 or self.all_hold(request, variant, [["==", ["%", variant.grid[0], size], 0]]):
            return None
        return f"its grid is no multiple of its clusters of {size} blocks"

    def all_hold(self, request: Request, variant: Variant, conditions: Sequence[Any]) -> bool:
        """Returns whether all conditions of a variant, given as expression trees, are true for the dims of a
        request."""
        from dsl.runtime.expressions import ExpressionError, compile_expression

        # Uses the dims of the request, because the variant may have been built for another call. With the first call's
        # dims, a grid of six blocks in clusters of four was launched and refused.
        names = {"sms": request.sms or self.target.sms, **variant.constants, **request.scalars, **request.dims}
        types = {p.name: p.dtype for p in variant.function.params if p.name in request.scalars}
        # Scalars are rounded as in the launch, because 0.1 as an f32 differs from Python's 0.1.
        names |= {name: as_parameter(names[name], dtype) for name, dtype in types.items()}
        names |= {stride_name(n, axis): s for n, of in request.strides.items() for axis, s in enumerate(of)}
        try:
            return all(compile_expression(condition).evaluate(names) for condition in conditions)
        except ExpressionError:
            return False

    def alternatives(self, schedules: Sequence[str] = ()) -> list[tuple[StepChoice, ...]]:
        """Returns the branches that may serve this call, each as its steps without constants. For a call of a kernel,
        each schedule counts as a branch. If `schedules` is given, only branches that use one of these schedules are
        returned.

        An option lets the caller choose a branch. If a condition that reads an option is true, later branches are left
        out. If it is false, only its own branch is left out."""
        if self.dispatch is None:
            known: list[str | None] = [*self.program.schedules_of(self.name)]
            asked = [name for name in known or [None] if not schedules or name in schedules]
            return [(StepChoice(self.name, name, {}),) for name in asked]
        self.start(self.dispatch)
        out = []
        for branches in by_launch(self.dispatch.lines):
            if not isinstance(branches, list):
                self.line(self.dispatch, branches)
                continue
            is_wish = bool(self.read_by(branches[0]) & self.called.options)
            if is_wish and not self.holds(branches[0]):
                continue
            for branch in branches:
                steps = branch_steps(branch, self.program)
                if not schedules or branch.name in schedules or any(step.schedule in schedules for step in steps):
                    out.append(steps)
                else:
                    out += [made for name in schedules if (made := self.with_schedule(steps, name)) is not None]
            if is_wish:
                break
        return out

    def with_schedule(self, steps: tuple[StepChoice, ...], name: str) -> tuple[StepChoice, ...] | None:
        """Returns the steps with the schedule `name`, for each step whose kernel has such a schedule. Returns None if
        no kernel has it, or if a branch of the dispatch already names it."""
        has = [name in self.program.schedules_of(step.kernel) for step in steps]
        if not any(has) or name in named_ways(self.program.dispatches[self.name]):
            return None
        return tuple(replace(step, schedule=name) if own else step for step, own in zip(steps, has, strict=True))

    # ---- the branches of a dispatch ----

    def read_by(self, line: ast.When) -> set[str]:
        """Returns the names of the dispatch that the conditions of a branch read."""
        bound = line.bound or {}
        read = set() if line.condition is None else names_in(line.condition)
        outside = [value for name, value in bound.items() if name in read]
        return (read - bound.keys()).union(*map(names_in, [*outside, *line.guards]))

    def holds(self, line: ast.When) -> bool:
        """Returns whether the conditions of a branch are true."""
        if not all(DispatchNames(self.names, self, line)(guard) for guard in line.guards):
            return False
        if line.condition is None:
            return True
        bound = {name: DispatchNames(self.names, self)(value) for name, value in (line.bound or {}).items()}
        return bool(DispatchNames({**self.names, **bound}, self, line)(line.condition))

    def start(self, dispatch: ast.Dispatch) -> None:
        """Initialises the names that the first line of a dispatch may read, and those that it may pass on."""
        dims, types = self.bound_names
        arrays = {k: CallArray.of(v, k) for k, v in self.arguments.items() if isinstance(v, ArrayFacts)}
        self.names = {**arrays, **target_facts(self.target, self.sms, self.device), **dims, **types}
        self.names |= {k: v for k, v in self.arguments.items() if not isinstance(v, ArrayFacts)}
        self.names |= {f"given({name})": self.arguments.get(name) is not None for name in self.called.asked}
        self.passed = {k: FromCall(k) for k in dispatch.params}
        self.made, self.bound = {}, {}
        for option in self.options:
            if option not in self.called.options:
                hint = closest(option, self.called.options)
                raise TileError("name", None, f"'{dispatch.name}' has no option '{option}'", hint)

    def dispatched(self, dispatch: ast.Dispatch) -> Plan:
        self.start(dispatch)
        wanted = self.wanted(dispatch)
        failed = False  # whether a taken branch with several schedules does not serve the call
        spare: ast.When | None = None  # the first branch whose kernel has the schedule, if no branch names the schedule
        for branches in by_launch(dispatch.lines):
            if not isinstance(branches, list):
                self.line(dispatch, branches)
                continue
            first, found = branches[0], list[ast.When]()
            if wanted is not None:
                found = [each for each in branches if wanted(each)]
                if found and self.schedule is not None:
                    self.reasons.append(f"schedule {self.schedule} was requested")
                    # A branch that its own name selects may have several schedules.
                    found = found if first.name == self.schedule else found[:1]
            elif self.schedule is None:
                found = branches if self.taken(first) else []
            elif self.launches_its_kernel(first):
                spare = spare or first
                found = [first] if self.taken(first) else []
            if found:
                if (plan := self.branch_plan(found)) is not None:
                    return plan
                failed = True
        if self.schedule is not None and spare is not None:
            why = "but no branch names it: the first branch of its kernel"
            self.reasons.append(f"schedule {self.schedule} was requested, {why}")
            plan = self.branch_plan([spare])
            assert plan is not None, "a single branch is taken in any case"
            return plan
        if failed and self.refused is not None:
            raise self.refused  # at its line, and says more than that no schedule compiles
        hint = f"not served: {self.reasons[-1]}" if failed else "add an 'otherwise:' branch"
        raise Misfit("dispatch", dispatch.loc, f"no branch of '{dispatch.name}' serves this call", hint)

    def wanted(self, dispatch: ast.Dispatch) -> Callable[[ast.When], bool] | None:
        """Returns a function that recognises the requested branch, which is used whatever its conditions are. Returns
        None if no branch was requested, so that the conditions decide."""
        if self.chosen is not None:
            branch = branch_of(dispatch, self.chosen, self.program)
            if branch is None:
                steps = "; ".join(described_step(step) for step in self.chosen)
                raise TileError("dispatch", dispatch.loc, f"no branch of '{dispatch.name}' launches {steps}")
            return lambda line: line is branch
        if self.schedule is not None and self.schedule in named_ways(dispatch):
            return lambda line: self.schedule in names_of_branch(line)
        return None

    def branch_plan(self, lines: Sequence[ast.When]) -> Plan | None:
        """Returns the plan of a branch, or of the cheapest of several branches. Returns None if there are several and
        none serves the call."""
        self.branch = lines[0] if len(lines) == 1 else None  # also if it does not compile
        rivals = [self.rival(each) for each in lines]
        steps = self.taken_steps(rivals)
        if steps is None:
            return None
        self.branch = next(each for each in lines if self.made[id(each)] is steps)
        return Plan(steps, self.reasons)

    def rival(self, line: ast.When) -> Rival:
        steps = self.steps(line)
        asked = tuple(StepChoice(step.request.kernel, step.request.schedule, {}) for step in steps)
        return Rival(said_steps(asked), steps, partial(self.steps, line))

    def taken_steps(self, rivals: Sequence[Rival]) -> list[Step] | None:
        """Returns the launches of the cheapest rival. Returns None if there are several and none compiles. Launches
        that tuned data or the caller has chosen are returned unchanged."""
        if self.chosen is not None and len(rivals) == 1:
            return rivals[0].steps
        taken = cheapest(self, rivals)
        return None if taken is None else taken.steps

    def launches_its_kernel(self, line: ast.When) -> bool:
        """Returns whether a branch launches a kernel that has the requested schedule."""
        return any(self.schedule in self.program.schedules_of(launch.name) for launch in line.launches)

    def line(self, dispatch: ast.Dispatch, line: ast.Option | ast.Require | ast.Assign | ast.Match) -> None:
        """Evaluates a line of a dispatch that is not a branch: an option, a requirement or an assignment."""
        self.bound = {}
        assert not isinstance(line, ast.Match), "branches stand in its place"
        if isinstance(line, ast.Assign):
            self.assign(line, self.names, self.passed)
            return
        evaluate = DispatchNames(self.names, self)
        if isinstance(line, ast.Option):
            values = [evaluate(v) for v in line.values]
            chosen = one_of(values, self.options.get(line.name, values[0]))
            if chosen not in values:
                message = f"option '{line.name}' is one of {', '.join(map(str, values))}; not {chosen}"
                raise TileError("call", line.loc, message)
            self.names[line.name] = chosen
        elif not evaluate(line.condition):
            text = line.loc.source.text[line.loc.start : line.loc.end]
            values_text = ", ".join(f"{k} = {v}" for k, v in self.bound_names[0].items() if k in text)
            raise Misfit("requires", line.loc, f"'{dispatch.name}' requires {text}", values_text or None)

    def taken(self, line: ast.When) -> bool:
        """Returns whether the conditions choose this branch, and records the reason."""
        text = "otherwise"
        if line.condition is not None or line.guards:
            parts = [each.loc for each in (*line.guards, line.condition) if each is not None]
            text = " and ".join(loc.source.text[loc.start : loc.end] for loc in parts)
        self.unfit = None
        holds = self.holds(line)
        why = f" ({self.unfit})" if self.unfit is not None and not holds else ""
        self.reasons.append(text if text == "otherwise" else f"{text}: {'yes' if holds else 'no'}{why}")
        return holds

    def assign(self, line: ast.Assign, names: dict[str, Any], passed: dict[str, Any]) -> None:
        value = DispatchNames(names, self)(line.value)
        values = list(value) if len(line.targets) > 1 and isinstance(value, tuple) else [value]
        if len(values) != len(line.targets):
            raise TileError("type", line.loc, f"{len(line.targets)} names for {len(values)} values")
        for target, v in zip(line.targets, values, strict=True):
            if not isinstance(target, ast.Name):
                raise TileError("syntax", target.loc, "a dispatch assigns to names")
            names[target.id], passed[target.id] = v, passed_on(v, line.value.loc)

    def steps(self, line: ast.When, values: PointsOfLaunches | None = None) -> list[Step]:
        """Returns the launches of a branch, each with its request. `values` sets names that have a `tune` set. The
        result is cached for each branch until `values` is given again."""
        if values is not None or id(line) not in self.made:
            names, passed = self.names, self.passed
            made: list[Step] = []
            for step in line.steps:
                if isinstance(step, ast.Assign):
                    if names is self.names:
                        names, passed = dict(names), dict(passed)
                    self.assign(step, names, passed)
                else:
                    choice = self.chosen[len(made)] if self.chosen else None
                    made.append(self.step(step, names, passed, choice, (values or {}).get(len(made), {})))
            # Programmatic dependent launch needs sm_90.
            self.made[id(line)] = overlapping(self.program, made) if self.target.number >= 90 else made
        return self.made[id(line)]

    # ---- one launch ----

    def step(
        self,
        launch: ast.Launch,
        names: Mapping[str, Any],
        passed: Mapping[str, Any],
        choice: StepChoice | None,
        point: Mapping[str, Any],
    ) -> Step:
        """Makes one launch of a branch. Constants come from the text, from `choice` and from `point`. Where they
        conflict, `point` overrides `choice`, and `choice` overrides the text."""
        if launch.name not in self.program.kernels:
            hint = closest(launch.name, self.program.kernels)
            raise TileError("name", launch.loc, f"unknown kernel '{launch.name}'", hint)
        head = self.program.head(launch.name)
        arguments, bound = self.bound_arguments(launch, head, names, passed)
        schedule, constants = self.with_items(launch, names)
        if choice is not None:
            schedule, constants = choice.schedule, {**constants, **choice.constants}
        constants |= point
        return Step(self.request(head, schedule, constants, bound), arguments)

    def bound_arguments(
        self, launch: ast.Launch, head: KernelHead, names: Mapping[str, Any], passed: Mapping[str, Any]
    ) -> tuple[list[Any], BoundArguments]:
        """Returns the arguments of a launch, and what they bind. Launches of rival branches, which differ only in their
        schedules, share both."""
        key = launch.name, id(launch.args), id(launch.keywords)
        found = self.bound.get(key) if names is self.names else None
        if found is None:
            arguments = self.launch_arguments(launch, head, names, passed)
            found = arguments, self.bind(head, arguments)
            if names is self.names:
                self.bound[key] = found
        return found

    def launch_arguments(
        self, launch: ast.Launch, head: KernelHead, names: Mapping[str, Any], passed: Mapping[str, Any]
    ) -> list[Any]:
        params, optional = head.names, {name for name, array in head.arrays.items() if array.optional}
        if launch.args is None:
            missing = [name for name in params if name not in passed and name not in optional]
            if missing:
                message = f"'{head.name}' needs '{missing[0]}', which the dispatch does not have"
                raise TileError("call", launch.loc, message)
            return [passed.get(name) for name in params]
        given = given_by_name(launch, params)
        out: list[Any] = []
        evaluate = DispatchNames(names, self)
        for name in params:
            expression = given.get(name)
            if expression is None and name not in optional:
                raise TileError("call", launch.loc, f"'{head.name}' needs '{name}'")
            if expression is None or (ast.is_none(expression) and name in optional):
                out.append(None)
            elif isinstance(expression, ast.Name) and expression.id in passed:
                out.append(passed[expression.id])
            else:
                out.append(passed_on(evaluate(expression), expression.loc))
        return out

    def with_items(self, launch: ast.Launch, names: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
        """Returns (schedule, constants) of a launch."""
        known = self.program.schedules_of(launch.name)
        schedule = None
        constants: dict[str, Any] = {}
        for item in launch.items:
            if item.value is not None:
                value = self.function_name(item.value, names) or DispatchNames(names, self)(item.value)
                # An expression of arrays gives numpy numbers. Constants are Python numbers.
                constants[item.name] = value.item() if hasattr(value, "item") else value
            else:
                schedule = self.program.schedule(launch.name, item.name, item.loc).name
        if self.schedule is not None and self.schedule in known:
            schedule = self.schedule
        if schedule is None and known:
            schedule = next(iter(known))
        return schedule, constants

    def function_name(self, node: ast.Expr, names: Mapping[str, Any]) -> str | None:
        """Returns the function that an expression names, or None for any other expression."""
        if isinstance(node, ast.Name) and node.id not in names and self.program.function(node.id) is not None:
            return node.id
        return None

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

    def fits(self, node: ast.Call, branch: ast.When | None) -> bool:
        """Evaluates `fits(kernel with schedule)`: whether the variant for these dims compiles within the device's
        limits (memory, registers, instructions, clusters) and can be launched. If the branch itself launches this
        kernel and schedule, `fits` checks the variant of that launch."""
        if len(node.args) != 1 or node.keywords:
            raise TileError("call", node.loc, "fits takes 'kernel with schedule'")
        inner = node.args[0]
        schedule = None
        if isinstance(inner, ast.WithSchedule):
            schedule, inner = inner.schedule, inner.kernel
        if not isinstance(inner, ast.Name) or inner.id not in self.program.kernels:
            raise TileError("name", node.loc, "fits takes a kernel of this file")
        if schedule is not None:
            self.program.schedule(inner.id, schedule, node.loc)
        schedule = schedule or next(iter(self.program.schedules_of(inner.id)), None)
        if branch is not None and any(launch.name == inner.id for launch in branch.launches):
            for step in self.steps(branch):
                # The launch may set constants, so its variant may differ from the variant of the schedule alone.
                if (step.request.kernel, step.request.schedule) == (inner.id, schedule):
                    return self.request_fits(step.request)
        head = self.program.head(inner.id)
        bound = self.bind(head, [FromCall(name) for name in head.names])
        return self.request_fits(self.request(head, schedule, {}, bound))

    def fits_alone(self, line: ast.When, loc: Loc) -> bool:
        """Evaluates `fits` without an argument: whether the only launch of the branch fits the device."""
        if len(line.launches) != 1 or line.launches[0].name not in self.program.kernels:
            raise TileError("call", loc, "'fits' alone is of a branch with one launch", "fits(kernel with schedule)")
        return self.request_fits(self.steps(line)[0].request)

    def request_fits(self, request: Request) -> bool:
        """Returns whether a variant compiles within the device's limits and can be launched for these dims."""
        try:
            variant = self.built(request)
        except TileError as error:
            if self.is_unfit(error):
                return False
            raise
        flaw = self.flaw_of_launch(request, variant)
        if flaw is not None:
            self.unfit, self.refused = flaw, None
        return flaw is None

    def is_unfit(self, error: TileError) -> bool:
        """Returns whether the error means that the device cannot run a variant, and if so records the reason. Any other
        error is a mistake in the file, which choosing another branch would hide."""
        if not all(each.code in UNFIT for each in error.errors):
            return False
        first = error.errors[0]
        self.unfit = f"line {first.loc.line}: {first.message}" if first.loc else first.message
        self.refused = error
        return True
