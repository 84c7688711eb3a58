"""Expands the dispatches of a file when the file is read: into branches, the ways through their statements.

A branch is a list of steps. After an `if`, there are two branches for each branch before it, which share their first
steps. A call of another dispatch is replaced by that dispatch's statements. A launch with several schedules makes one
branch for each schedule. So plans, tuning and checks see only branches that launch kernels, each with at most one
schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, product, takewhile
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.ir.location import TileError, closest
from dsl.text import tree as ast

MOST_BRANCHES = 256
"""The greatest number of ways through the conditions of a dispatch."""


class Blocks(Protocol):
    """The fields of `Program` that this module uses: blocks by name. `broken` contains the names of blocks that have
    errors."""

    kernels: dict[str, ast.KernelDef]
    dispatches: dict[str, ast.Dispatch]
    broken: set[str]


Step = ast.Launch | ast.Assign | ast.Require | ast.Test


def expand(program: Blocks) -> list[TileError]:
    """Makes the branches of all dispatches. The lines of a dispatch before its first condition or launch stay in its
    `lines`. Returns the errors. A dispatch with an error has no branches."""
    errors: list[TileError] = []
    found: dict[str, tuple[list[Any], list[ast.Branch]]] = {}
    for name, dispatch in program.dispatches.items():
        found[name] = [], []
        # Of dispatches that call each other in a ring, the first one has told so.
        if name in program.broken:
            continue
        try:
            found[name] = _expanded(program, dispatch)
        except TileError as error:
            # A dispatch that calls this one has the same error.
            known = [(each.loc, each.message) for each in errors]
            errors += [each for each in error.errors if (each.loc, each.message) not in known]
            # Without all branches, a plan would silently take another one. So the dispatch is marked as broken.
            program.broken.add(name)
    # A call reads the lines of the called dispatch, so all lines are replaced last.
    for name, dispatch in program.dispatches.items():
        dispatch.lines, dispatch.branches = found[name]
    return errors


def by_launch(branches: Iterable[ast.Branch]) -> list[list[ast.Branch]]:
    """Returns lists of branches. Branches that differ only in the schedules of their launches are in the same list."""
    return [list(together) for _, together in groupby(branches, lambda branch: branch.way)]


def _expanded(program: Blocks, dispatch: ast.Dispatch) -> tuple[list[Any], list[ast.Branch]]:
    """Returns the lines before the first condition or launch of a dispatch, and its branches."""
    ways = _WayReader(program, dispatch).ways(dispatch.lines, [_Way([], {}, dispatch.params)])
    shared = list(takewhile(_is_line, ways[0].steps))
    rest = [way.steps[len(shared) :] for way in ways]
    launching = [steps for steps in rest if any(isinstance(step, ast.Launch) for step in steps)]
    return shared, [each for number, steps in enumerate(launching) for each in _one_schedule(steps, number)]


def _is_line(step: Any) -> bool:
    return isinstance(step, ast.Option | ast.Require | ast.Assign)


def _one_schedule(steps: Sequence[Step], number: int) -> Iterator[ast.Branch]:
    """Yields a branch for each combination of the schedules that the launches name."""
    choices = [_of_one_schedule(step) if isinstance(step, ast.Launch) else [step] for step in steps]
    loc = next(step.loc for step in steps if isinstance(step, ast.Launch))
    for chosen in product(*choices):
        yield ast.Branch(loc, list(chosen), number)


def _of_one_schedule(launch: ast.Launch) -> list[Step]:
    """Returns a copy of the launch for each schedule that it names, or the launch itself if it names none."""
    named = [item for item in launch.items if item.value is None]
    for place, item in enumerate(named):
        if item.name in (each.name for each in named[:place]):
            raise TileError("call", item.loc, f"schedule '{item.name}' is named twice")
    rest = [item for item in launch.items if item.value is not None]
    return [replace(launch, items=[item, *rest]) for item in named] or [launch]


class _Way(Struct, frozen=True):
    """The steps of a way so far. `names` maps a name to the expression that replaces it in later steps. A launch
    without arguments passes on the names in `passed`."""

    steps: list[Any]
    names: dict[str, ast.Expr]
    passed: list[str]

    def then(self, step: Any) -> _Way:
        return replace(self, steps=[*self.steps, step])

    def of(self, node: Any) -> Any:
        """Returns a node in which the way's names are replaced."""
        return _with(node, self.names) if self.names else node


class _WayReader(Struct, frozen=True):
    """Reads the statements of a dispatch. If another dispatch calls it, `chain` contains the names of the callers, the
    first caller first, `prefix` comes before the names that the statements bind, and `items` are the constants of the
    call."""

    program: Blocks
    dispatch: ast.Dispatch
    chain: tuple[str, ...] = ()
    prefix: str = ""
    items: tuple[ast.WithItem, ...] = ()

    def ways(self, lines: Sequence[Any], ways: list[_Way]) -> list[_Way]:
        """Returns the ways that go on from `ways` through `lines`."""
        for line in lines:
            ways = [each for way in ways for each in self.after(line, way)]
            if len(ways) > MOST_BRANCHES:
                message = f"the conditions of '{self.dispatch.name}' make more than {MOST_BRANCHES} branches"
                raise TileError("limit", line.loc, message)
        return ways

    def after(self, line: Any, way: _Way) -> list[_Way]:
        """Returns the ways after a line: several if the line has conditions."""
        if isinstance(line, ast.If):
            condition, out = way.of(line.condition), list[_Way]()
            for wanted, body in ((True, line.then), (False, line.otherwise)):
                out += self.ways(body, [way.then(ast.Test(line.loc, condition, wanted))])
            return out
        if isinstance(line, ast.Launch):
            return self.called(line, way) if line.name in self.program.dispatches else [self.launched(line, way)]
        if isinstance(line, ast.Assign):
            return [self.assigned(line, way)]
        if isinstance(line, ast.Require):
            return [way.then(way.of(line))]
        # The names of the options of a called dispatch stand for their values.
        if self.prefix:
            return [way]
        if not all(map(_is_line, way.steps)):
            raise TileError("syntax", line.loc, "an option stands before all conditions and launches of its dispatch")
        return [way.then(line)]

    def assigned(self, line: ast.Assign, way: _Way) -> _Way:
        """Binds names. A name that is bound to a parameter or to None is replaced by it in later steps, because
        `Called` finds the arrays of each launch by the names of parameters."""
        value, targets = way.of(line.value), list[ast.Name]()
        for target in line.targets:
            if not isinstance(target, ast.Name):
                raise TileError("syntax", target.loc, "a dispatch assigns to names")
            if target.id in self.dispatch.params:
                raise TileError("name", target.loc, f"'{target.id}' is a parameter", "bind another name")
            targets.append(target)
        own = [target.id for target in targets]
        names = {name: of for name, of in way.names.items() if name not in own}
        # A user cannot write a name with a dot, so the new name clashes with none of the caller's names.
        names |= {name: ast.Name(line.loc, f"{self.prefix}{name}") for name in own if self.prefix}
        passed = [*way.passed, *(name for name in own if name not in way.passed)]
        values = value.items if isinstance(value, ast.Sequence) and not value.is_list else [value]
        if len(values) != len(own):
            made = ast.Assign(line.loc, _with(line.targets, names), value, line.op)
            return _Way([*way.steps, made], names, passed)
        params = [*self.program.dispatches[(*self.chain, self.dispatch.name)[0]].params, "None"]
        same = {name: of for name, of in zip(own, values, strict=True) if isinstance(of, ast.Name) and of.id in params}
        left = [(_with(t, names), of) for t, of in zip(targets, values, strict=True) if t.id not in same]
        steps = [*way.steps]
        if left:
            items = [of for _, of in left]
            made_of = items[0] if len(items) == 1 else ast.Sequence(line.loc, items)
            steps.append(ast.Assign(line.loc, [target for target, _ in left], made_of, line.op))
        return _Way(steps, {**names, **same}, passed)

    def launched(self, launch: ast.Launch, way: _Way) -> _Way:
        """A launch without an argument list passes arguments by equal names. These become explicit if names are
        replaced. The constants of the call are added."""
        made = way.of(launch)
        if way.names and launch.args is None and launch.name in self.program.kernels:
            own = [p.name for p in self.program.kernels[launch.name].params if p.name in way.passed]
            made.args, made.keywords = [], {name: way.of(ast.Name(launch.loc, name)) for name in own}
        return way.then(replace(made, items=[*made.items, *self.items]) if self.items else made)

    def called(self, call: ast.Launch, way: _Way) -> list[_Way]:
        """Returns the ways through the dispatch that a launch names. The arguments of the call replace the names of the
        parameters."""
        inner, chain = self.program.dispatches[call.name], (*self.chain, self.dispatch.name)
        # The expansion of a dispatch that calls itself would never end.
        if call.name in chain:
            ring = chain[chain.index(call.name) :]
            self.program.broken.update(ring)
            said = " → ".join([*ring, call.name])
            raise TileError("dispatch", call.loc, f"dispatch '{call.name}' calls itself: {said}")
        if any(item.value is None for item in call.items):
            raise TileError("call", call.loc, "a call of a dispatch takes options and constants", "NAME=VALUE")
        prefix, steps = f"{self.prefix}{inner.name}.", [*way.steps]
        passed_on = {name: ast.Name(call.loc, name) for name in inner.params if name in way.passed}
        given = given_by_name(call, inner.params, passed_on if call.args is None else {})
        names: dict[str, ast.Expr] = {}
        for name in inner.params:
            names[name] = way.of(given.get(name, ast.Name(call.loc, "None")))
            if not isinstance(names[name], ast.Name):
                own = ast.Name(names[name].loc, f"{prefix}{name}")
                steps.append(ast.Assign(own.loc, [own], names[name]))
                names[name] = own
        items = {item.name: replace(item, value=way.of(item.value)) for item in call.items}
        for option in (line for line in inner.lines if isinstance(line, ast.Option)):
            item = items.pop(option.name, None)
            names[option.name] = option.values[0] if item is None or item.value is None else item.value
        reader = _WayReader(self.program, inner, chain, prefix, (*items.values(), *self.items))
        ways = reader.ways(inner.lines, [_Way(steps, names, inner.params)])
        return [_Way(each.steps, way.names, way.passed) for each in ways]


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


def names_of_branch(branch: ast.Branch) -> list[str]:
    """Returns the schedules that the launches of a branch name. A caller can select the branch by them."""
    return [item.name for launch in branch.launches for item in launch.items if item.value is None]


def named_ways(dispatch: ast.Dispatch) -> dict[str, None]:
    """Returns the names by which a caller can select a branch of a dispatch: the schedules of its launches."""
    return dict.fromkeys(name for branch in dispatch.branches for name in names_of_branch(branch))
