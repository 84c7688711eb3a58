"""Dispatch: which kernels with which schedules serve a call, as a plan of launches.

A call names a dispatch or a kernel. Its arguments give dims and types; the first branch whose condition holds gives the
launches. Everything is data of the file: `explain` says what was chosen and why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import is_
from typing import Any

from dsl.calls.tuned import (
    CallFacts,
    Found,
    StepChoice,
    Tuned,
    branch_of,
    branch_steps,
    described_step,
    text_digest,
)
from dsl.kernels.compile import lower
from dsl.kernels.variant import Request, Variant
from dsl.schedules import target_facts
from dsl.text import tree as ast
from dsl.text.branches import named_ways, names_of_branch
from dsl.text.program import Program
from dsl.text.tree import names_in
from dsl.values.arrays import Arrays
from dsl.values.facts import ArrayFacts
from dsl.values.host import Shaped
from dsl.values.table import Function
from lowering.ir import stride_name
from lowering.location import Loc, TileError, closest
from lowering.targets import Target
from lowering.types import DTYPES, DType


class Misfit(TileError):
    """What is wrong with the arguments of a call; its place is that of a parameter or a condition."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Scratch global memory of a plan. One with `zero` holds zeros at the first call, and each call leaves it so;
    another holds nothing that a call may read before it writes it."""

    dtype: str
    shape: tuple[int, ...]
    zero: bool
    loc: Loc

    @property
    def text(self) -> str:
        return self.loc.source.text[self.loc.start : self.loc.end]

    @property
    def location(self) -> Any:
        """Where it stands, as the emulator's findings have it."""
        from runtime.emulator.findings import Location

        return Location(self.loc.source.name, self.loc.line)


@dataclass(slots=True)
class Step:
    """One launch of a plan: the variant, and where each parameter's argument comes from."""

    request: Request
    arguments: list[Any]  # a name of the call's argument (str in _Name), a Workspace, a number or a host array


@dataclass(frozen=True, slots=True)
class FromCall:
    """The call's own argument of this name."""

    name: str


@dataclass(slots=True)
class Plan:
    """The launches of one class of calls, and why these."""

    steps: list[Step]
    reasons: list[str] = field(default_factory=list)


class _Names(Arrays):
    """Expressions of a dispatch: numbers, tables made on the host, `workspace` and `fits`."""

    def __init__(self, names: Mapping[str, Any], planner: Planner, branch: ast.When | None = None):
        super().__init__(names, planner.program.functions)
        self.planner, self.branch = planner, branch

    def function_of(self, name: str, loc: Loc) -> Function | None:
        return OWN[name] if name in OWN else super().function_of(name, loc)

    def known_names(self) -> list[str]:
        return [*super().known_names(), *OWN]

    def _name(self, node: ast.Name) -> Any:
        if node.id == "fits" and self.branch is not None and node.id not in self.names:
            return self.planner.branch_fits(self.branch, node.loc)
        return super()._name(node)


def _workspace(names: _Names, loc: Loc, given: Any, zero: str | None = None) -> Workspace:
    dtype, shape = (given.dtype, given.shape) if isinstance(given, Shaped) else (given, ())
    if not isinstance(dtype, DType):
        names.error("call", names.place_of(0, loc), "workspace takes a type with extents", "workspace(f32[4 * sms])")
    return Workspace(dtype.name, shape, zero is not None, loc)


def _fits(names: _Names, node: ast.Call) -> bool:
    return names.planner.fits(node)


OWN = {
    each.name: each
    for each in (
        Function("workspace(T[…], ['zero'])", "scratch memory of the call", arrays=_workspace),
        Function("fits(kernel)", "whether `kernel with schedule` compiles for this call", arrays=_fits, unread=True),
    )
}
"""The functions of a dispatch alone."""


def check_array(
    p: ast.Parameter,
    type: ast.TensorType,
    shape: Sequence[int],
    dtype: str,
    type_parameters: Mapping[str, list[str]],
) -> None:
    """What an array alone tells: TileError 'shape' or 'type' where its type parameter has no such alternative."""
    if len(shape) != len(type.dims):
        raise Misfit("shape", p.loc, f"'{p.name}' has rank {len(type.dims)}; the array has shape {list(shape)}")
    if dtype not in type_parameters.get(type.dtype, [dtype]):
        choices = ", ".join(type_parameters[type.dtype])
        raise Misfit("type", p.loc, f"'{p.name}' is {dtype}; '{type.dtype}' is one of {choices}")


def match_array(
    kernel: ast.Kernel,
    p: ast.Parameter,
    type: ast.TensorType,
    facts: ArrayFacts,
    dims: dict[str, int],
    types: dict[str, str],
    type_parameters: Mapping[str, list[str]],
) -> None:
    """Binds the dims and type parameters of one tensor. TileError 'shape' or 'type' if it does not fit."""
    check_array(p, type, facts.shape, facts.dtype, type_parameters)
    for node, extent in zip(type.dims, facts.shape, strict=True):
        if isinstance(node, ast.Name) and node.id not in {c.name for c in kernel.constants}:
            if dims.setdefault(node.id, extent) != extent:
                raise Misfit(
                    "shape",
                    p.loc,
                    f"'{node.id}' is {dims[node.id]}, and {extent} in '{p.name}'",
                    "the arrays' shapes must agree",
                )
        elif isinstance(node, ast.Number) and node.value != extent:
            raise Misfit("shape", p.loc, f"'{p.name}' has the literal dim {node.value}; the array has {extent}")
    if type.dtype in type_parameters:
        if types.setdefault(type.dtype, facts.dtype) != facts.dtype:
            raise Misfit("type", p.loc, f"'{type.dtype}' is {types[type.dtype]}, and {facts.dtype} in '{p.name}'")
    elif type.dtype != facts.dtype:
        raise Misfit("type", p.loc, f"'{p.name}' is {type.dtype}; the array is {facts.dtype}", "convert the array")


class Planner:
    """Plans one call of `name` (a dispatch or a kernel) with these arguments.

    What decides, the first that says something: `schedule`; `chosen`, the steps of a branch; the entry of `tuned` for
    `device` (its name) that serves the call; the conditions of the dispatch. `constants` win over all of these. `built`
    lowers the variant of a request, where it is asked whether one fits.
    """

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
    ):
        self.program, self.name, self.target, self.sms = program, name, target, sms
        self.arguments = dict(arguments)
        self.constants = dict(constants or {})
        self.options = dict(options or {})
        self.schedule, self.chosen = schedule, chosen
        self.device, self.tuned = device, tuned
        self.built = built or (lambda request: lower(program, request).variant)
        self.reasons: list[str] = []
        self.dims: dict[str, int] = {}
        self.branch: ast.When | None = None  # the branch that was taken

    def plan(self) -> Plan:
        self.check_schedule()
        if self.name not in self.program.dispatches and self.name not in self.program.kernels:
            known = [*self.program.dispatches, *self.program.kernels]
            raise TileError(
                "name",
                None,
                f"{self.program.source.name} has no kernel or dispatch '{self.name}'",
                closest(self.name, known),
            )
        if self.chosen is None and self.schedule is None and self.tuned is not None and self.device is not None:
            plan = self.tuned_plan(self.tuned, self.device)
            if plan is not None:
                return plan
        return self.planned()

    def planned(self) -> Plan:
        dispatch = self.program.dispatches.get(self.name)
        if dispatch is not None:
            return self.dispatched(dispatch)
        kernel = self.program.kernels[self.name]
        names = [p.name for p in kernel.params]
        launch = ast.Launch(kernel.loc, self.name, [ast.Name(kernel.loc, n) for n in names], {}, [])
        step = self.step(launch, {n: FromCall(n) for n in names}, {}, self.chosen[0] if self.chosen else None)
        return Plan([step], [*self.reasons, f"kernel {self.name} with {step.request.schedule or 'no schedule'}"])

    def check_schedule(self) -> None:
        """A schedule that is asked for is one of some kernel of the call, or a branch."""
        known = {name: None for kernel, _, _ in self.parameters for name in self.program.schedules_of(kernel.name)}
        dispatch = self.program.dispatches.get(self.name)
        lines = dispatch.lines if dispatch is not None else []
        known |= {line.name: None for line in lines if isinstance(line, ast.When) and line.name is not None}
        if self.schedule is not None and self.schedule not in known:
            hint = closest(self.schedule, known) or f"known: {', '.join(known) or 'none'}"
            if self.schedule in self.program.parts:
                hint = f"'{self.schedule}' belongs to no kernel: a schedule that is like it does"
            raise TileError("name", None, f"'{self.name}' has no schedule '{self.schedule}'", hint)

    # ---- what was tuned ----

    def tuned_plan(self, tuned: Tuned, device: str) -> Plan | None:
        """The plan of the entry that serves this call; None, with the reason noted, if none does."""
        if tuned.path is None:
            return None
        found = tuned.find(device, self.facts())
        if found is None:
            absent = "" if tuned.path.is_file() else f": there is no {tuned.path.name}"
            self.reasons.append(f"no tuned entry for {device} serves this call{absent}")
            return None
        steps = found.entry.steps
        differing = {k for s in steps for k, v in self.constants.items() if k in s.constants and s.constants[k] != v}
        if differing:
            self.reasons.append(f"the tuned entry is left out: {', '.join(sorted(differing))} was given")
            return None
        changed = found.entry.text != text_digest(self.program, steps)
        reasons = [self.tuned_reason(found, changed)]
        self.chosen, self.reasons = steps, list(reasons)
        plan = self.planned()
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
        """This call, as far as tuned entries tell calls apart."""
        dispatch = self.program.dispatches.get(self.name)
        names = {**target_facts(self.target, self.sms), **self.bound_dims, **self.types}
        options: dict[str, Any] = {}
        for line in dispatch.lines if dispatch is not None else ():
            if isinstance(line, ast.Option):
                chosen = self.options.get(line.name)
                options[line.name] = _Names(names, self)(line.values[0]) if chosen is None else chosen
        tensors = [(a, p.type) for _, a, p in self.parameters if isinstance(p.type, ast.TensorType)]
        absent = sorted({argument for argument, _ in tensors if self.arguments.get(argument) is None})
        inner = frozenset(d.id for _, t in tensors for d in t.dims[-1:] if isinstance(d, ast.Name))
        types = {name: dtype.name for name, dtype in self.types.items()}
        return CallFacts(self.name, options, types, self.bound_dims, tuple(absent), inner)

    def serves(self, request: Request) -> bool:
        """Whether a variant compiles for these dims, within the device's limits, and all that it requires holds."""
        try:
            variant = self.built(request)
        except TileError:
            return False
        return self.holds_clusters(variant) and self.all_hold(variant, [c.expr for c in variant.requires])

    def holds_clusters(self, variant: Variant) -> bool:
        """Whether the grid is a multiple of the schedule's `cluster`, if it has one."""
        size = variant.function.number("cluster", 1)
        return size == 1 or self.all_hold(variant, [["==", ["%", variant.grid[0], size], 0]])

    def all_hold(self, variant: Variant, conditions: Sequence[Any]) -> bool:
        """Whether these trees of a variant are true for the dims of its request."""
        from runtime.expressions import ExpressionError, compile_expression

        request = variant.request
        names = {"sms": request.sms or self.target.sms, **variant.constants, **request.scalars, **request.dims}
        names |= {stride_name(n, axis): s for n, of in request.strides.items() for axis, s in enumerate(of)}
        try:
            return all(compile_expression(condition).evaluate(names) for condition in conditions)
        except ExpressionError:
            return False

    def alternatives(self, schedules: Sequence[str] = ()) -> list[tuple[StepChoice, ...]]:
        """The branches that may serve this call, each as its steps without constants; for a kernel its schedules.

        A branch whose condition reads an option is one only if that condition holds, and then the later ones are none:
        the caller wishes it so. `schedules`: only branches that take one of these.
        """
        dispatch = self.program.dispatches.get(self.name)
        if dispatch is None:
            known: list[str | None] = [*self.program.schedules_of(self.name)]
            return [
                (StepChoice(self.name, name, {}),) for name in known or [None] if not schedules or name in schedules
            ]
        names, passed = self.start(dispatch)
        evaluate = _Names(names, self)
        options = {line.name for line in dispatch.lines if isinstance(line, ast.Option)}
        out = []
        for line in dispatch.lines:
            if not isinstance(line, ast.When):
                self.line(dispatch, line, evaluate, names, passed)
                continue
            is_wish = bool(self.read_by(line) & options)
            if is_wish and not self.holds(line, evaluate):
                continue
            steps = branch_steps(line, self.program)
            if not schedules or line.name in schedules or any(step.schedule in schedules for step in steps):
                out.append(steps)
            else:
                out += [made for name in schedules if (made := self.with_schedule(steps, name)) is not None]
            if is_wish:
                break
        return out

    def with_schedule(self, steps: tuple[StepChoice, ...], name: str) -> tuple[StepChoice, ...] | None:
        """The steps with a schedule that the branch does not name, where their kernels have it; None where none has."""
        has = [name in self.program.schedules_of(step.kernel) for step in steps]
        if not any(has) or name in named_ways(self.program.dispatches[self.name]):
            return None
        return tuple(replace(step, schedule=name) if own else step for step, own in zip(steps, has, strict=True))

    # ---- the branches of a dispatch ----

    def read_by(self, line: ast.When) -> set[str]:
        """The names of the dispatch that a branch's conditions read."""
        bound = line.bound or {}
        read = set() if line.condition is None else names_in(line.condition)
        outside = [value for name, value in bound.items() if name in read]
        return (read - bound.keys()).union(*map(names_in, [*outside, *line.guards]))

    def holds(self, line: ast.When, evaluate: _Names) -> bool:
        """Whether a branch's conditions hold."""
        if not all(_Names(evaluate.names, self, line)(guard) for guard in line.guards):
            return False
        if line.condition is None:
            return True
        names = evaluate.names
        if line.bound:
            names = {**names, **{name: evaluate(value) for name, value in line.bound.items()}}
        return bool(_Names(names, self, line)(line.condition))

    def branch_fits(self, line: ast.When, loc: Loc) -> bool:
        """`fits` alone: whether the one launch of its branch does."""
        launches = [step for step in line.steps if isinstance(step, ast.Launch)]
        if len(launches) != 1 or launches[0].name not in self.program.kernels:
            raise TileError("call", loc, "'fits' alone is of a branch with one launch", "fits(kernel with schedule)")
        (launch,) = launches
        schedule = next((item.name for item in launch.items if item.value is None), None)
        return self.kernel_fits(self.program.kernels[launch.name], schedule)

    def start(self, dispatch: ast.Dispatch) -> tuple[dict[str, Any], dict[str, Any]]:
        """(names that its expressions read, what its launches may pass on), before its first line."""
        self.dims = self.bound_dims
        names: dict[str, Any] = {**target_facts(self.target, self.sms), **self.dims, **self.types}
        names |= {k: v for k, v in self.arguments.items() if not isinstance(v, ArrayFacts)}
        optional = optional_among(self.parameters)
        names |= {f"given({name})": self.arguments.get(name) is not None for name in optional}
        self.names = names
        known_options = {line.name for line in dispatch.lines if isinstance(line, ast.Option)}
        for option in self.options:
            if option not in known_options:
                raise TileError(
                    "name", None, f"'{dispatch.name}' has no option '{option}'", closest(option, known_options)
                )
        return names, {k: FromCall(k) for k in dispatch.params}

    def dispatched(self, dispatch: ast.Dispatch) -> Plan:
        names, passed = self.start(dispatch)
        evaluate = _Names(names, self)
        wanted: Callable[[ast.When], bool] | None = None
        if self.chosen is not None:
            branch = branch_of(dispatch, self.chosen, self.program)
            if branch is None:
                steps = "; ".join(described_step(step) for step in self.chosen)
                raise TileError("dispatch", dispatch.loc, f"no branch of '{dispatch.name}' launches {steps}")
            wanted = partial(is_, branch)
        elif self.schedule is not None and self.schedule in named_ways(dispatch):
            wanted = self.is_asked_for
        spare: ast.When | None = None  # of a schedule that no branch names: the first of its kernel
        for line in dispatch.lines:
            if not isinstance(line, ast.When):
                self.line(dispatch, line, evaluate, names, passed)
            elif wanted is not None:
                if wanted(line):
                    if self.schedule is not None:
                        self.reasons.append(f"schedule {self.schedule} was asked for")
                    return self.branch_plan(line, evaluate, names, passed)
            elif self.schedule is None or self.launches_its_kernel(line):
                spare = spare or line
                if self.taken(line, evaluate):
                    return self.branch_plan(line, evaluate, names, passed)
        if self.schedule is not None and spare is not None:
            self.reasons.append(
                f"schedule {self.schedule} was asked for, which no branch names: the first of its kernel"
            )
            return self.branch_plan(spare, evaluate, names, passed)
        raise Misfit(
            "dispatch", dispatch.loc, f"no branch of '{dispatch.name}' serves this call", "add an 'otherwise:' branch"
        )

    def branch_plan(self, line: ast.When, evaluate: _Names, names: dict[str, Any], passed: dict[str, Any]) -> Plan:
        self.branch = line
        return Plan(self.steps(line, evaluate, names, passed), self.reasons)

    def is_asked_for(self, line: ast.When) -> bool:
        """Whether the caller names this branch, or the schedule of one of its launches."""
        return self.schedule in names_of_branch(line)

    def launches_its_kernel(self, line: ast.When) -> bool:
        """Whether a branch launches a kernel that has the schedule that is asked for."""
        launches = [step for step in line.steps if isinstance(step, ast.Launch)]
        return any(self.schedule in self.program.schedules_of(launch.name) for launch in launches)

    def line(
        self,
        dispatch: ast.Dispatch,
        line: ast.Option | ast.Require | ast.Assign | ast.Match,
        evaluate: _Names,
        names: dict[str, Any],
        passed: dict[str, Any],
    ) -> None:
        """A line that is no branch."""
        assert not isinstance(line, ast.Match), "branches stand in its place"
        if isinstance(line, ast.Option):
            values = [evaluate(v) for v in line.values]
            chosen = self.options.get(line.name, values[0])
            if chosen not in values:
                raise TileError(
                    "call", line.loc, f"option '{line.name}' is one of {', '.join(map(str, values))}; not {chosen}"
                )
            names[line.name] = chosen
        elif isinstance(line, ast.Require):
            if not evaluate(line.condition):
                text = line.loc.source.text[line.loc.start : line.loc.end]
                values_text = ", ".join(f"{k} = {v}" for k, v in self.dims.items() if k in text)
                raise Misfit("requires", line.loc, f"'{dispatch.name}' requires {text}", values_text or None)
        else:
            self.assign(line, evaluate, names, passed)

    def taken(self, line: ast.When, evaluate: _Names) -> bool:
        """Whether the conditions choose this branch, with the reason."""
        text = "otherwise"
        if line.condition is not None or line.guards:
            parts = [each.loc for each in (*line.guards, line.condition) if each is not None]
            text = " and ".join(loc.source.text[loc.start : loc.end] for loc in parts)
        holds = self.holds(line, evaluate)
        self.reasons.append(text if text == "otherwise" else f"{text}: {'yes' if holds else 'no'}")
        return holds

    def assign(self, line: ast.Assign, evaluate: _Names, names: dict[str, Any], passed: dict[str, Any]) -> None:
        value = evaluate(line.value)
        values = list(value) if len(line.targets) > 1 and isinstance(value, tuple) else [value]
        if len(values) != len(line.targets):
            raise TileError("type", line.loc, f"{len(line.targets)} names for {len(values)} values")
        for target, v in zip(line.targets, values, strict=True):
            if not isinstance(target, ast.Name):
                raise TileError("syntax", target.loc, "a dispatch assigns to names")
            names[target.id] = passed[target.id] = v

    def steps(self, line: ast.When, evaluate: _Names, names: dict[str, Any], passed: dict[str, Any]) -> list[Step]:
        out: list[Step] = []
        for step in line.steps:
            if isinstance(step, ast.Assign):
                self.assign(step, evaluate, names, passed)
            else:
                out.append(self.step(step, passed, names, self.chosen[len(out)] if self.chosen else None))
        return out

    # ---- one launch ----

    def step(
        self,
        launch: ast.Launch,
        passed: Mapping[str, Any],
        names: Mapping[str, Any],
        choice: StepChoice | None = None,
    ) -> Step:
        kernel = self.program.kernels.get(launch.name)
        if kernel is None:
            raise TileError(
                "name", launch.loc, f"unknown kernel '{launch.name}'", closest(launch.name, self.program.kernels)
            )
        arguments = self.launch_arguments(launch, kernel, passed, names)
        schedule, constants = self.with_items(launch, kernel, names)
        if choice is not None:
            schedule, constants = choice.schedule, {**constants, **choice.constants}
        request = self.request(
            kernel, schedule, constants, dict(zip([p.name for p in kernel.params], arguments, strict=True))
        )
        return Step(request, arguments)

    def launch_arguments(
        self, launch: ast.Launch, kernel: ast.Kernel, passed: Mapping[str, Any], names: Mapping[str, Any]
    ) -> list[Any]:
        params = [p.name for p in kernel.params]
        if launch.args is None:
            missing = [p.name for p in kernel.params if p.name not in passed and not p.is_optional]
            if missing:
                raise TileError(
                    "call", launch.loc, f"'{kernel.name}' needs '{missing[0]}', which the dispatch does not have"
                )
            return [passed.get(p) for p in params]
        if len(launch.args) > len(params):
            raise TileError(
                "call", launch.loc, f"'{kernel.name}' takes {len(params)} arguments; got {len(launch.args)}"
            )
        given: dict[str, ast.Expr] = dict(zip(params, launch.args, strict=False))
        for key, node in launch.keywords.items():
            if key not in params or key in given:
                raise TileError(
                    "call", node.loc, f"'{kernel.name}' has no free parameter '{key}'", closest(key, params)
                )
            given[key] = node
        out: list[Any] = []
        evaluate = _Names(names, self)
        for p in kernel.params:
            expression = given.get(p.name)
            if expression is None:
                if p.is_optional:
                    out.append(None)
                    continue
                raise TileError("call", launch.loc, f"'{kernel.name}' needs '{p.name}'")
            if ast.is_none(expression) and p.is_optional:
                out.append(None)
            elif isinstance(expression, ast.Name) and expression.id in passed:
                out.append(passed[expression.id])
            else:
                out.append(evaluate(expression))
        return out

    def with_items(
        self, launch: ast.Launch, kernel: ast.Kernel, names: Mapping[str, Any]
    ) -> tuple[str | None, dict[str, Any]]:
        known = self.program.schedules_of(kernel.name)
        schedule = None
        constants: dict[str, Any] = {}
        for item in launch.items:
            if item.value is not None:
                value = self.function_name(item.value, names) or _Names(names, self)(item.value)
                constants[item.name] = value.item() if hasattr(value, "item") else value
            elif schedule is not None:
                raise TileError("call", item.loc, "a launch takes one schedule")
            else:
                schedule = self.program.schedule(kernel.name, item.name, item.loc).name
        if self.schedule is not None and self.schedule in known:
            schedule = self.schedule
        if schedule is None and known:
            schedule = next(iter(known))
        return schedule, constants

    def function_name(self, node: ast.Expr, names: Mapping[str, Any]) -> str | None:
        """Of an expression that names a function; None for any other."""
        if isinstance(node, ast.Name) and node.id not in names and self.program.function(node.id) is not None:
            return node.id
        return None

    def request(
        self, kernel: ast.Kernel, schedule: str | None, constants: dict[str, Any], bound: Mapping[str, Any]
    ) -> Request:
        dims: dict[str, int] = {}
        types: dict[str, str] = {}
        align: dict[str, int] = {}
        strides: dict[str, tuple[int, ...]] = {}
        scalars: dict[str, Any] = {}
        absent = set()
        type_parameters = {c.name: c.types for c in kernel.constants if c.types is not None}
        for p in kernel.params:
            value = bound[p.name]
            value = self.arguments.get(value.name) if isinstance(value, FromCall) else value
            if isinstance(p.type, ast.TensorType):
                if value is None:
                    absent.add(p.name)
                    continue
                facts = value
                if isinstance(value, Workspace):
                    facts = ArrayFacts(value.shape, value.dtype)
                if not isinstance(facts, ArrayFacts):
                    message = f"'{p.name}' of '{kernel.name}' is an array; got {described(value)}"
                    hint = "[0, 64].to(s32) makes an array of numbers" if isinstance(value, list | tuple) else None
                    raise TileError("call", p.loc, message, hint)
                match_array(kernel, p, p.type, facts, dims, types, type_parameters)
                align[p.name] = facts.align
                if p.type.strided and facts.strides is not None:
                    strides[p.name] = facts.strides
            elif isinstance(p.type, ast.ScalarType):
                if isinstance(value, bool | int | float):
                    check_scalar(p.name, types.get(p.type.dtype, p.type.dtype), value)
                    scalars[p.name] = value
                elif isinstance(value, ArrayFacts) or value is None:
                    raise TileError("call", p.loc, f"'{p.name}' of '{kernel.name}' is a scalar; got {described(value)}")
        given = {**constants, **self.constants}
        for name, choices in type_parameters.items():
            if name in given:
                given_type(name, given[name], types, choices)
        for name, wanted in self.constants.items():
            if dims.get(name, wanted) != wanted:
                raise Misfit("shape", None, f"'{name}' is {dims[name]} in the arrays; {wanted} was given")
        plain = {k: v for k, v in self.constants.items() if k in self.program.settable(kernel.name)}
        own = {k: v for k, v in constants.items() if k not in type_parameters}
        return Request(
            kernel.name,
            schedule,
            dims,
            types,
            {**own, **plain},
            scalars,
            align,
            frozenset(absent),
            self.target.arch,
            self.sms,
            strides=strides,
        )

    # ---- what conditions read ----

    @cached_property
    def parameters(self) -> list[tuple[ast.Kernel, str, ast.Parameter]]:
        """(kernel, argument of the call, parameter of the kernel) wherever a launch passes an argument on unchanged."""
        dispatch = self.program.dispatches.get(self.name)
        if dispatch is not None:
            return parameters_of(self.program, dispatch)
        kernel = self.program.kernels.get(self.name)
        return [] if kernel is None else [(kernel, p.name, p) for p in kernel.params]

    @cached_property
    def bound_dims(self) -> dict[str, int]:
        """Dims by the names that the kernels of the call give them."""
        out: dict[str, int] = {}
        for kernel, argument, p in self.parameters:
            facts = self.arguments.get(argument)
            if (
                isinstance(facts, ArrayFacts)
                and isinstance(p.type, ast.TensorType)
                and len(facts.shape) == len(p.type.dims)
            ):
                for node, extent in zip(p.type.dims, facts.shape, strict=True):
                    if isinstance(node, ast.Name) and node.id not in {c.name for c in kernel.constants}:
                        out.setdefault(node.id, extent)
        return out

    @cached_property
    def types(self) -> dict[str, DType]:
        out: dict[str, DType] = {}
        for kernel, argument, p in self.parameters:
            facts = self.arguments.get(argument)
            if not isinstance(facts, ArrayFacts) or not isinstance(p.type, ast.TensorType):
                continue
            if p.type.dtype in {c.name for c in kernel.constants} and facts.dtype in DTYPES:
                out.setdefault(p.type.dtype, DTYPES[facts.dtype])
        return out

    def fits(self, node: ast.Call) -> bool:
        """fits(kernel with schedule): the variant for these dims compiles within what the device has: memory,
        registers, instructions and clusters; and its grid is of whole clusters."""
        if len(node.args) != 1 or node.keywords:
            raise TileError("call", node.loc, "fits takes 'kernel with schedule'")
        inner = node.args[0]
        schedule = None
        if isinstance(inner, ast.WithSchedule):
            schedule, inner = inner.schedule, inner.kernel
        if not isinstance(inner, ast.Name) or inner.id not in self.program.kernels:
            raise TileError("name", node.loc, "fits takes a kernel of this file")
        kernel = self.program.kernels[inner.id]
        if schedule is not None:
            self.program.schedule(kernel.name, schedule, node.loc)
        return self.kernel_fits(kernel, schedule)

    def kernel_fits(self, kernel: ast.Kernel, schedule: str | None) -> bool:
        """Whether the variant for these dims compiles within what the device has, and its grid is of whole clusters."""
        known = self.program.schedules_of(kernel.name)
        bound = {p.name: FromCall(p.name) for p in kernel.params}
        request = self.request(kernel, schedule or next(iter(known), None), {}, bound)
        try:
            variant = self.built(request)
        except TileError as error:
            if all(e.code in ("shared", "limit", "registers", "target") for e in error.errors):
                return False
            raise
        return self.holds_clusters(variant)


def given_type(name: str, value: Any, types: dict[str, str], choices: list[str]) -> None:
    """Sets a type parameter that is given by name; TileError 'type' if the arrays say otherwise, or it has no such."""
    wanted = str(value)
    if wanted not in choices:
        raise Misfit("type", None, f"'{name}' is one of {', '.join(choices)}; not {wanted}")
    if types.setdefault(name, wanted) != wanted:
        raise Misfit("type", None, f"'{name}' is {types[name]} in the arrays; {wanted} was given")


def check_scalar(name: str, dtype: str, value: bool | int | float) -> None:
    """TileError for a number that a scalar of this type cannot be, as a call would be told."""
    from runtime.dtypes import DTYPES, converter
    from runtime.errors import LaunchError

    if dtype not in DTYPES:  # a type parameter that no array before it binds
        return
    try:
        converter(dtype, name)(value)
    except LaunchError as error:
        raise TileError(error.code, None, error.message, error.hint) from None


def described(value: Any) -> str:
    """An argument in words."""
    if isinstance(value, ArrayFacts | Workspace):
        return f"an array {value.dtype}{list(value.shape)}"
    return "nothing" if value is None else f"{value}"


def optional_tensors(program: Program, name: str) -> set[str]:
    """Arguments of a dispatch or kernel that are optional tensors: to the first kernel that takes them."""
    if name in program.kernels and name not in program.dispatches:
        return {p.name for p in program.kernels[name].params if p.is_optional}
    return optional_among(parameters_of(program, program.dispatches[name]))


def optional_among(parameters: list[tuple[ast.Kernel, str, ast.Parameter]]) -> set[str]:
    """The arguments whose first parameter is optional."""
    first: dict[str, ast.Parameter] = {}
    for _, argument, p in parameters:
        first.setdefault(argument, p)
    return {argument for argument, p in first.items() if p.is_optional}


def read_in_order(
    free: Sequence[str], optional: Collection[str], count: int, outputs: Collection[str] = ()
) -> list[str]:
    """The parameters that `count` positional arguments are, of those that are `free`: without `outputs`, and without
    the last optional tensors."""
    required = sum(p not in optional and p not in outputs for p in free)
    absent = [p for p in free if p in optional][max(count - required, 0) :]
    return [p for p in free if p not in absent and p not in outputs]


def parameters_of(program: Program, dispatch: ast.Dispatch) -> list[tuple[ast.Kernel, str, ast.Parameter]]:
    """(kernel, argument of the dispatch, parameter of the kernel) wherever a launch passes an argument on unchanged."""
    out = []
    for line in dispatch.lines:
        if not isinstance(line, ast.When):
            continue
        for step in line.steps:
            if not isinstance(step, ast.Launch) or step.name not in program.kernels:
                continue
            kernel = program.kernels[step.name]
            for i, p in enumerate(kernel.params):
                if step.args is None:
                    argument: ast.Expr | str | None = p.name
                else:
                    argument = step.args[i] if i < len(step.args) else step.keywords.get(p.name)
                name = argument.id if isinstance(argument, ast.Name) else argument
                if isinstance(name, str) and name in dispatch.params:
                    out.append((kernel, name, p))
    return out
