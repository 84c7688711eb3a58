"""Checks the names on all ways through a dispatch. A plan reads only the way that serves its call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dsl.calls.called import expressions_of
from dsl.calls.line_names import OF_ARRAYS, OWN, DispatchNames, LineNames, fitting, no_array
from dsl.calls.planner import Planner
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import DTYPES
from dsl.schedules import target_facts
from dsl.text import tree as ast
from dsl.text.program import Program
from dsl.values import table
from dsl.values.walk import WORDS


class NamesOfWays:
    """Finds unknown names, functions and constants, and arguments that a launch lacks. `errors` has each once."""

    def __init__(self, program: Program, dispatch: ast.Dispatch, target: Target):
        self.program, self.dispatch = program, dispatch
        self.planner = Planner(program, dispatch.name, {}, target)
        self.errors: list[TileError] = []
        self.checked: set[tuple[int, frozenset[str]]] = set()  # (identity of a step, names before it)
        known = frozenset([*dispatch.params, *target_facts(target), *self.planner.called.seen])
        for steps in [each.steps for each in dispatch.branches] or [[]]:
            self.way([*dispatch.lines, *steps], known)

    def way(self, steps: Sequence[Any], names: frozenset[str]) -> None:
        """Checks the steps of a way. `names` contains those known before the first step."""
        passed = frozenset(self.dispatch.params)
        for step in steps:
            if (id(step), names) not in self.checked:
                self.checked.add((id(step), names))
                for node in expressions_of(step):
                    self.expression(node, names)
                if isinstance(step, ast.Launch):
                    self.launch(step, names, passed)
            made = frozenset(t.id for t in step.targets if isinstance(t, ast.Name)) if _assigns(step) else frozenset()
            passed |= made
            names |= made | ({step.name} if isinstance(step, ast.Option) else frozenset())

    def launch(self, launch: ast.Launch, names: frozenset[str], passed: frozenset[str]) -> None:
        for node in (*(launch.args or ()), *launch.keywords.values()):
            if isinstance(node, ast.Name):
                self.expression(node, names)
        if launch.name not in self.program.kernels:
            return
        for item in launch.items:
            if item.value is not None:
                with self.told():
                    self.program.check_constant(launch.name, item.name, item.loc)
        head = self.program.head(launch.name)
        if launch.args is None:
            with self.told():
                self.planner.check_passed(launch, head, passed)

    def expression(self, node: ast.Expr, names: frozenset[str]) -> None:
        evaluate = DispatchNames(LineNames(dict.fromkeys(names), {}), self.planner)
        for part in self.parts(node, evaluate, names):
            known = part.id in names or part.id in WORDS or part.id in DTYPES or ast.is_none(part)
            if not known and table.find(part.id) is None and self.program.function(part.id) is None:
                with self.told():
                    evaluate.unknown("name", part.id, part.loc)

    def parts(self, node: Any, evaluate: DispatchNames, names: frozenset[str]) -> Iterator[ast.Name]:
        """Yields the names that an expression reads. Checks the functions that it calls."""
        if isinstance(node, ast.Name):
            yield node
        elif isinstance(node, ast.Call) and isinstance(node.function, ast.Name):
            yield from self.arguments(node, node.function, evaluate, names)
        elif isinstance(node, ast.Call):
            yield from self.parts([node.function, *node.args, *node.keywords.values()], evaluate, names)
        elif isinstance(node, list):
            for each in node:
                yield from self.parts(each, evaluate, names)
        else:
            yield from self.parts([getattr(node, name) for name in ast.PARTS.get(type(node), ())], evaluate, names)

    def arguments(
        self, node: ast.Call, function: ast.Name, evaluate: DispatchNames, names: frozenset[str]
    ) -> Iterator[ast.Name]:
        """Yields the names in a call's arguments, without words of the function such as `zero`."""
        found = OWN.get(function.id) or table.find(function.id)
        if found is None and self.program.function(function.id) is None:
            with self.told():
                evaluate.unknown("function", function.id, function.loc)
        elif function.id == "fits":
            with self.told():
                fitting(self.program, node)
            return
        elif function.id in OF_ARRAYS and node.args:
            asked, *others = node.args
            if not isinstance(asked, ast.Name) or asked.id not in names:
                self.errors.append(no_array(asked.loc))
            yield from self.parts(others, evaluate, names)
            return
        words = found.form.words if found is not None else {}
        given: list[tuple[str | int, ast.Expr]] = [*enumerate(node.args), *node.keywords.items()]
        for place, part in given:
            if not isinstance(part, ast.Name) or part.id not in words.get(place, ()):
                yield from self.parts(part, evaluate, names)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Records the error of a step, and goes on."""
        try:
            yield
        except TileError as error:
            self.errors += error.errors


def _assigns(step: Any) -> bool:
    return isinstance(step, ast.Assign)
