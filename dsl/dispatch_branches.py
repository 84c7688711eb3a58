"""The branches of a dispatch: those of a `match` made from the choice that it names, and the launches of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dsl import tree as ast
from lowering.location import TileError, closest

if TYPE_CHECKING:
    from dsl.program import Program


def expand(program: Program, dispatch: ast.Dispatch, choices: Mapping[str, ast.Choice]) -> None:
    """Puts branches in place of each `match` of a dispatch. TileError for a choice that does not fit it."""
    lines: list[ast.Option | ast.Require | ast.Assign | ast.When | ast.Match] = []
    for line in dispatch.lines:
        lines += _branches(program, line, choices) if isinstance(line, ast.Match) else [line]
    dispatch.lines = lines


def _branches(program: Program, line: ast.Match, choices: Mapping[str, ast.Choice]) -> Iterator[ast.When]:
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


def _named(program: Program, step: ast.Launch | ast.Assign, name: str) -> ast.Launch | ast.Assign:
    """A step with the schedule of this name, where its kernel has one and it names none itself."""
    if not isinstance(step, ast.Launch) or any(item.value is None for item in step.items):
        return step
    if name not in program.schedules_of(step.name):
        return step
    return ast.Launch(step.loc, step.name, step.args, step.keywords, [ast.WithItem(step.loc, name, None), *step.items])


def names_of_branch(line: ast.When) -> list[str]:
    """What a caller may ask a branch for by: its name, and the schedules that its launches name."""
    launches = [step for step in line.steps if isinstance(step, ast.Launch)]
    named = [item.name for launch in launches for item in launch.items if item.value is None]
    return ([line.name] if line.name is not None else []) + named


def named_ways(dispatch: ast.Dispatch) -> dict[str, None]:
    """What a caller may ask a dispatch for: names of branches, and schedules that they name."""
    return dict.fromkeys(
        name for line in dispatch.lines if isinstance(line, ast.When) for name in names_of_branch(line)
    )
