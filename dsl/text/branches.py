"""Expands the dispatches of a file when the file is read. A dispatch is a list of branches, each with a condition and
kernel launches. A `match` becomes one branch for each case of its choice. A call of another dispatch becomes that
dispatch's branches. A launch with several schedules becomes one branch for each schedule. So plans, tuning and checks
see only branches that launch kernels, each with at most one schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, product
from typing import Any, Protocol

from dsl.lowering.ir.location import TileError, closest
from dsl.text import tree as ast


class Blocks(Protocol):
    """The fields of `Program` that this module uses: blocks by name. `broken` contains the names of blocks that have
    errors."""

    kernels: dict[str, ast.KernelDef]
    choices: dict[str, ast.ChoiceBlock]
    dispatches: dict[str, ast.Dispatch]
    broken: set[str]

    def schedules_of(self, kernel: str) -> dict[str, ast.Schedule]:
        """Returns the schedules of a kernel, keyed by name."""


Step = ast.Launch | ast.Assign
OtherLine = ast.Option | ast.Require | ast.Assign | ast.Match
Line = OtherLine | ast.When


def expand(program: Blocks) -> list[TileError]:
    """Replaces each `match` and each call of a dispatch by branches that launch kernels. An invalid `match` or call is
    left out. Returns the errors."""
    errors: list[TileError] = []
    done: set[str] = set()

    def visit(dispatch: ast.Dispatch, chain: tuple[str, ...]) -> None:
        if dispatch.name in done:
            return
        lines: list[Line] = []
        for line in dispatch.lines:
            try:
                lines += each(dispatch, line, chain)
            except TileError as error:
                errors.extend(error.errors)
                # Without this branch, a plan would silently take a later branch. So the dispatch is marked as broken.
                program.broken.add(dispatch.name)
        dispatch.lines = lines
        done.add(dispatch.name)

    def each(dispatch: ast.Dispatch, line: Line, chain: tuple[str, ...]) -> list[Line]:
        branches = [*_branches(program, line)] if isinstance(line, ast.Match) else [line]
        out: list[Line] = []
        for branch in branches:
            launches = branch.launches if isinstance(branch, ast.When) else []
            call = next((each for each in launches if each.name in program.dispatches), None)
            if call is None or not isinstance(branch, ast.When):
                out.append(branch)
                continue
            # Launches before the call are copied into each branch of the inner dispatch. Launches after the call are an
            # error.
            if call is not branch.steps[-1]:
                message = f"a call of the dispatch '{call.name}' stands last in its branch"
                raise TileError("dispatch", call.loc, message, "launches of kernels may stand ahead of it")
            # The expansion of a dispatch that calls itself would never end.
            if call.name in chain:
                ring = " → ".join([*chain[chain.index(call.name) :], call.name])
                raise TileError("dispatch", call.loc, f"dispatch '{call.name}' calls itself: {ring}")
            inner = program.dispatches[call.name]
            visit(inner, (*chain, call.name))
            out += _inlined(program, dispatch, branch, call, inner)
        return out

    for dispatch in program.dispatches.values():
        visit(dispatch, (dispatch.name,))
    # Calls are expanded first. Two calls of a dispatch may copy different arrays ahead of the same launches, so their
    # schedules must not be compared with each other.
    for dispatch in program.dispatches.values():
        try:
            dispatch.lines = [one for place, line in enumerate(dispatch.lines) for one in _one_schedule(line, place)]
        except TileError as error:
            errors.extend(error.errors)
            program.broken.add(dispatch.name)
    return errors


def by_launch(lines: Iterable[Line]) -> Iterator[OtherLine | list[ast.When]]:
    """Yields the lines of a dispatch, in which each branch is replaced by a list of branches. Branches that were
    expanded from one branch, because its launches name several schedules, are in the same list."""
    for rivals, together in groupby(lines, lambda line: line.rivals if isinstance(line, ast.When) else None):
        if rivals is None:
            yield from ([line] if isinstance(line, ast.When) else line for line in together)
        else:
            yield [line for line in together if isinstance(line, ast.When)]


def _one_schedule(line: Line, place: int) -> Iterator[Line]:
    """Yields the line itself, unless it is a branch whose launches name several schedules. Then yields one branch for
    each combination of the schedules."""
    if not isinstance(line, ast.When):
        yield line
        return
    ways = [_of_one_schedule(step) if isinstance(step, ast.Launch) else [step] for step in line.steps]
    rivals = place if any(len(each) > 1 for each in ways) else None
    for steps in product(*ways):
        yield replace(line, steps=list(steps), rivals=rivals)


def _of_one_schedule(launch: ast.Launch) -> list[Step]:
    """Returns a copy of the launch for each schedule that it names, or the launch itself if it names none."""
    named = [item for item in launch.items if item.value is None]
    for place, item in enumerate(named):
        if item.name in (each.name for each in named[:place]):
            raise TileError("call", item.loc, f"schedule '{item.name}' is named twice")
    rest = [item for item in launch.items if item.value is not None]
    return [replace(launch, items=[item, *rest]) for item in named] or [launch]


def _inlined(
    program: Blocks, dispatch: ast.Dispatch, branch: ast.When, call: ast.Launch, inner: ast.Dispatch
) -> Iterator[Line]:
    """Yields the lines of the dispatch `inner` for a call of `inner` in a branch of `dispatch`. The call's arguments
    replace the parameters, and the branch's conditions are added as guards."""
    names = _arguments(dispatch, call, inner)
    items = {item.name: item for item in call.items}
    if any(item.value is None for item in call.items):
        raise TileError("call", call.loc, "a call of a dispatch takes options and constants", "NAME=VALUE")
    options = [line for line in inner.lines if isinstance(line, ast.Option)]
    for option in options:
        item = items.pop(option.name, None)
        names[option.name] = option.values[0] if item is None or item.value is None else item.value
    passed = [*inner.params]
    guards = (*branch.guards, *([] if branch.condition is None else [branch.condition]))
    for line in inner.lines:
        if isinstance(line, ast.Assign):
            value, own = _with(line.value, names), [t.id for t in line.targets if isinstance(t, ast.Name)]
            passed += own
            # A user cannot write a name with a dot, so the new name clashes with none of the caller's names.
            names |= {name: ast.Name(line.loc, f"{inner.name}.{name}") for name in own}
            yield ast.Assign(line.loc, _with(line.targets, names), value, line.op)
        elif isinstance(line, ast.Require):
            condition = line.condition
            # A requirement of the inner dispatch matters only if the calling branch is taken. So the requirement
            # becomes "not guard or condition".
            for guard in guards:
                condition = ast.Binary(line.loc, "or", ast.Unary(guard.loc, "not", guard), _with(condition, names))
            yield ast.Require(line.loc, condition if guards else _with(condition, names))
        elif isinstance(line, ast.When):
            made = _with(line, names)
            made.guards = (*guards, *made.guards)
            made.name = line.name or branch.name
            given = [*items.values()]
            made.steps = branch.steps[:-1] + [_launch(program, step, names, passed, given) for step in made.steps]
            yield made


def _arguments(dispatch: ast.Dispatch, call: ast.Launch, inner: ast.Dispatch) -> dict[str, ast.Expr]:
    """Returns the arguments of a call of `inner`, keyed by parameter name. Raises TileError `call` if the arguments do
    not match the parameters."""
    passed_on = {name: ast.Name(call.loc, name) for name in inner.params if name in dispatch.params}
    given = given_by_name(call, inner.params, passed_on if call.args is None else {})
    for node in given.values():
        if not isinstance(node, ast.Name):
            raise TileError("call", node.loc, "an argument of a dispatch is a name, or None", "NAME = … above")
    return {name: given.get(name, ast.Name(call.loc, "None")) for name in inner.params}


def given_by_name(
    launch: ast.Launch, params: Sequence[str], implied: Mapping[str, ast.Expr] | None = None
) -> dict[str, ast.Expr]:
    """Returns the arguments of a launch, keyed by parameter name. `implied` contains arguments that are passed without
    being written. Raises TileError `call` if the arguments do not match the parameters."""
    args = launch.args or []
    if len(args) > len(params):
        message = f"'{launch.name}' takes {len(params)} argument{'s' * (len(params) != 1)}; got {len(args)}"
        raise TileError("call", launch.loc, message)
    given = {**(implied or {}), **dict(zip(params, args, strict=False))}
    for key, node in launch.keywords.items():
        if key not in params or key in given:
            message = f"'{launch.name}' has no free parameter '{key}'"
            raise TileError("call", node.loc, message, closest(key, params))
        given[key] = node
    return given


def _launch(
    program: Blocks, step: Step, names: Mapping[str, ast.Expr], passed: list[str], items: list[ast.WithItem]
) -> Step:
    """Adapts a step of an inlined dispatch. A launch without an argument list passes arguments by equal names. These
    become explicit. The constants of the call are added to the launch. Other steps are returned unchanged."""
    if not isinstance(step, ast.Launch):
        return step
    args, keywords = step.args, step.keywords
    if args is None and step.name in program.kernels:
        own = [p.name for p in program.kernels[step.name].params if p.name in passed]
        args, keywords = [], {name: names.get(name, ast.Name(step.loc, name)) for name in own}
    return ast.Launch(step.loc, step.name, args, keywords, [*step.items, *items])


def _with(node: Any, names: Mapping[str, ast.Expr]) -> Any:
    """Returns a copy of a tree in which each name in `names` is replaced by its expression."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node)
    if isinstance(node, ast.Call) and isinstance(node.function, ast.Name):
        # If the caller omits the argument x, `given(x)` is false. The call `given(x)` is replaced here, where the
        # argument is known.
        asked = node.args[0] if node.function.id == "given" and len(node.args) == 1 else None
        if isinstance(asked, ast.Name) and ast.is_none(names.get(asked.id)):
            return ast.Name(node.loc, "false")
        args, keywords = _with(node.args, names), _with(node.keywords, names)
        return ast.Call(node.loc, node.function, args, keywords, node.rest)
    return ast.rebuilt(node, lambda part: _with(part, names))


def _branches(program: Blocks, line: ast.Match) -> Iterator[ast.When]:
    choices = program.choices
    choice = choices.get(line.name)
    if choice is None:
        raise TileError("name", line.loc, f"there is no choice '{line.name}'", closest(line.name, choices))
    if len(line.args) != len(choice.params):
        message = f"choice '{choice.name}' takes {len(choice.params)} arguments; got {len(line.args)}"
        raise TileError("call", line.loc, message, ", ".join(choice.params) or None)
    known = dict.fromkeys(case.name for case in choice.cases)
    arms: dict[str, ast.Arm] = {}
    rest: ast.Arm | None = None
    for arm in line.arms:
        for name in arm.names:
            if name not in known:
                hint = closest(name, known) or ", ".join(known)
                raise TileError("name", arm.loc, f"choice '{choice.name}' has no '{name}'", hint)
            if name in arms:
                raise TileError("name", arm.loc, f"'{name}' has two arms")
            arms[name] = arm
        rest = rest if arm.names else arm
    for case in choice.cases:
        taken = arms.get(case.name, rest)
        if taken is None:
            raise TileError("dispatch", line.loc, f"no arm for '{case.name}' of choice '{choice.name}'", "otherwise: …")
        steps = [_named(program, step, case.name) for step in taken.steps]
        loc = case.loc if case.condition is None else case.condition.loc
        yield ast.When(loc, case.condition, steps, case.name, dict(zip(choice.params, line.args, strict=True)))


def _named(program: Blocks, step: Step, name: str) -> Step:
    """Adds the schedule `name` to a launch that states no schedule, if its kernel has a schedule of this name. Other
    steps are returned unchanged."""
    if not isinstance(step, ast.Launch) or any(item.value is None for item in step.items):
        return step
    if name not in program.schedules_of(step.name):
        return step
    return ast.Launch(step.loc, step.name, step.args, step.keywords, [ast.WithItem(step.loc, name, None), *step.items])


def names_of_branch(line: ast.When) -> list[str]:
    """Returns the names by which a caller can select a branch: the branch's own name, and the schedules of its
    launches."""
    named = [item.name for launch in line.launches for item in launch.items if item.value is None]
    return ([line.name] if line.name is not None else []) + named


def named_ways(dispatch: ast.Dispatch) -> dict[str, None]:
    """Returns the names by which a caller can select a branch of a dispatch: the branches' own names, and the schedules
    of their launches."""
    return dict.fromkeys(name for branch in dispatch.branches for name in names_of_branch(branch))
