"""What a dispatch has decided for one call, as conditions on other calls. A call for which all of them hold gets the
same launches, with the same constants, numbers and workspaces.

A condition is an expression of headers. It may read dims, numbers of the call, `x.address` and `x.stride0`. A line that
has no such form, for example because it calls a `def`, fixes everything that it reads: the condition is then that the
call has the same dims and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from dsl.calls.plan import FromCall, Step, Workspace
from dsl.calls.planner import Planner
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import DTYPES
from dsl.runtime.expressions import ExpressionError, Tree, compile_expression
from dsl.runtime.header import Header
from dsl.text import tree as ast
from dsl.text.branches import given_by_name
from dsl.text.tree import names_in
from dsl.values.facts import ROW, ArrayFacts
from dsl.values.trees import Trees

AskedArray = tuple[str, ArrayFacts]
"""An array of the call: its name in the call, and the facts about it."""


class CallCondition(Struct, frozen=True):
    """A condition on a call: the expression, and the text of the dispatch that states it."""

    expr: Tree
    text: str


class Untold(Struct, frozen=True):
    """A value that has no form as an expression. `reads` names the dims, numbers and arrays on which it depends."""

    reads: frozenset[str]


class Extents(Struct, frozen=True):
    """The extents of a workspace, as expressions."""

    trees: tuple[Tree, ...]


def address_name(argument: str) -> str:
    return f"{argument}.address"


def extent_of(argument: str, axis: int) -> str:
    """Returns the name of an extent of an array of the call in expressions."""
    return f"{argument}.extent{axis}"


def stride_of(argument: str, axis: int) -> str:
    return f"{argument}.stride{axis}"


def array_values(argument: str, facts: ArrayFacts) -> dict[str, int]:
    """Returns the values of the names that expressions may use for an array of the call."""
    values = {address_name(argument): facts.align}
    values |= {extent_of(argument, axis): extent for axis, extent in enumerate(facts.shape)}
    return values | {stride_of(argument, axis): stride for axis, stride in enumerate(facts.steps)}


def item_of_table(argument: str, number: int) -> str:
    """Returns the name of an element of a table of the call in expressions."""
    return f"{argument}.item{number}"


def decisions(planner: Planner, steps: Sequence[Step], headers: Sequence[Header] = ()) -> list[CallCondition]:
    """Returns the conditions under which the plan `steps`, which `planner` has made, serves a call. Those that the
    `headers` of its launches state are left out."""
    stated = [{*map(str, (require.expr for require in header.requires))} for header in headers]
    found = [*_of_schedules(planner, steps, stated or [set()] * len(steps))]
    if planner.dispatch is not None:
        found = [*_Decisions(planner).all(), *found]
    # Launches may repeat a condition. The first one has the text.
    return [*{str(each.expr): each for each in reversed(found)}.values()][::-1]


def _of_schedules(planner: Planner, steps: Sequence[Step], stated: Sequence[set[str]]) -> Iterator[CallCondition]:
    """Yields the conditions on numbers and tables that schedules and defaults of constants read. `stated` are the
    expressions of each launch's header. They state what depends on dims alone, and specialised numbers."""
    for step, known in zip(steps, stated, strict=True):
        kernel = planner.program.kernels[step.request.kernel]
        read = set(planner.program.read_by_schedules(kernel.name))
        for constant in kernel.constants:
            if constant.default is not None and constant.types is None:
                read |= names_in(constant.default)
        for parameter, argument in zip(step.names, step.arguments, strict=True):
            if parameter in read and isinstance(argument, FromCall):
                value = planner.arguments.get(argument.name)
                is_stated = known & {str([op, parameter, value]) for op in ("==", "same")}
                if not isinstance(value, ArrayFacts) and not is_stated:
                    yield from same_number(argument.name, value, f"schedules of {kernel.name}")


def same_number(name: str, value: Any, text: str) -> Iterator[CallCondition]:
    """Yields the conditions that a number or table of the call has this value."""
    if isinstance(value, tuple | list):
        for number, item in enumerate(value):
            yield CallCondition(["same", item_of_table(name, number), item], f"{name}[{number}] == {item}, for {text}")
    elif value is not None:
        shown = str(value).lower() if isinstance(value, bool) else value
        yield CallCondition(["same", name, value], f"{name} == {shown}, for {text}")


class _DecisionTrees(Trees):
    """Trees of a dispatch's expressions, with what it asks of arrays: `aligned(x)`, `contiguous(x, axis)`, `shape(x,
    axis)`."""

    def __init__(self, names: Mapping[str, Any], types: Mapping[str, Any], arrays: Mapping[str, AskedArray]):
        super().__init__(names, types)
        self.arrays = arrays

    def expr(self, node: ast.Expr) -> Any:
        if isinstance(node, ast.Call) and isinstance(node.function, ast.Name) and node.args:
            of = node.args[0].id if isinstance(node.args[0], ast.Name) else ""
            if of in self.arrays and node.function.id in ("aligned", "contiguous", "shape"):
                return self.asked(node, *self.arrays[of])
        return super().expr(node)

    def asked(self, node: ast.Call, argument: str, facts: ArrayFacts) -> Tree:
        assert isinstance(node.function, ast.Name)
        if node.function.id == "aligned":
            return aligned_tree(argument, facts)
        axis = self.expr(node.args[1]) if len(node.args) == 2 else None
        if type(axis) is not int or not 0 <= axis < len(facts.shape):
            self.fail(node, "this has no form as an expression")
        if node.function.id == "shape":
            return extent_of(argument, axis)
        return ["==", stride_of(argument, axis), 1]


def aligned_tree(argument: str, facts: ArrayFacts) -> Tree:
    """Returns the expression of `aligned(x)`: the array and its rows begin at multiples of 16 bytes. Rows lie along the
    last axis with stride 1."""
    size, rank = DTYPES[facts.dtype].bits // 8, len(facts.shape)
    ways: list[Tree] = []
    for near in range(rank):
        way: list[Tree] = [["==", stride_of(argument, near), 1]]
        way += [["!=", stride_of(argument, axis), 1] for axis in range(near + 1, rank)]
        others = (axis for axis in range(rank) if axis != near)
        way += [["==", ["%", ["*", stride_of(argument, axis), size], ROW], 0] for axis in others]
        ways.append(joined("and", way))
    return ["and", ["==", ["%", address_name(argument), ROW], 0], joined("or", ways)]


def joined(op: str, parts: Sequence[Tree]) -> Tree:
    return parts[0] if len(parts) == 1 else [op, *parts]


class _Decisions:
    """Goes through the lines of a dispatch and those of the branch that was taken.

    `names` maps a name to its value, its expression or an `Untold`. None stands for a name that expressions may read;
    `values` has the values of these names in the planned call. `arrays` are the arrays of the call, by the names that
    the lines use."""

    def __init__(self, planner: Planner):
        self.planner, self.called = planner, planner.called
        dims, types = planner.bound_names
        self.types = dict(types)
        given = planner.arguments.items()
        self.arrays: dict[str, AskedArray] = {n: (n, facts) for n, facts in given if isinstance(facts, ArrayFacts)}
        self.values: dict[str, Any] = {**dims, **{n: v for n, v in given if isinstance(v, bool | int | float)}}
        for argument, facts in self.arrays.values():
            self.values |= array_values(argument, facts)
        # Options, facts about the device, and `given(x)`. The lines that all branches share are gone through again, so
        # that the names that they assign become expressions.
        assigned = {name for line in self.lines if isinstance(line, ast.Assign) for name in _targets(line) if name}
        known = planner.shared.values.items()
        hidden = ArrayFacts | Workspace
        self.names: dict[str, Any] = {n: v for n, v in known if n not in assigned and not isinstance(v, hidden)}
        self.names |= dict.fromkeys(self.values)

    @property
    def lines(self) -> list[Any]:
        assert self.planner.dispatch is not None and self.planner.branch is not None
        return [*self.planner.dispatch.lines, *self.planner.branch.steps]

    def all(self) -> Iterator[CallCondition]:
        for line in self.lines:
            if isinstance(line, ast.Assign):
                self.assign(line)
            elif isinstance(line, ast.Require):
                yield from self.parts(line.condition, True)
            elif isinstance(line, ast.Test):
                yield from self.parts(line.condition, line.wanted)
            elif isinstance(line, ast.Launch):
                yield from self.launch(line)

    def assign(self, line: ast.Assign) -> None:
        nodes = [line.value]
        if isinstance(line.value, ast.Sequence) and len(line.targets) > 1:
            nodes = line.value.items
        if len(nodes) == len(line.targets):
            made = [self.value(each) for each in nodes]
        else:  # one expression with several values, such as the shape of an array
            nodes = [line.value] * len(line.targets)
            made = [Untold(self.reads(line.value))] * len(line.targets)
        aliases = [self.arrays.get(node.id) if isinstance(node, ast.Name) else None for node in nodes]
        for name, value, alias in zip(_targets(line), made, aliases, strict=True):
            if name is None:
                continue
            self.names[name] = value
            self.arrays.pop(name, None)
            if alias is not None:
                self.arrays[name] = alias
                del self.names[name]

    def value(self, node: ast.Expr) -> Any:
        """Returns a value, an expression, the extents of a workspace, or an `Untold`."""
        match node:
            case ast.Call(function=ast.Name(id="workspace"), args=[ast.Index(subscripts=extents), *_]):
                trees = [None if isinstance(each, ast.Slice) else self.tree(each) for each in extents]
                if all(tree is not None for tree in trees):
                    return Extents(tuple(tree[0] for tree in trees if tree is not None))
        tree = self.tree(node)
        return Untold(self.reads(node)) if tree is None else tree[0]

    def tree(self, node: ast.Expr) -> tuple[Tree] | None:
        """Returns the expression in a tuple, or None if there is none. An expression may be 0 or false."""
        hidden = Untold | Extents | tuple | list
        if any(isinstance(self.named(name), hidden) for name in names_in(node)):
            return None
        known = {name: value for name, value in self.names.items() if not isinstance(value, Untold | Extents)}
        try:
            tree = _DecisionTrees(known, self.types, self.arrays).operand(node, "a launch")
            compile_expression(tree)
        except (TileError, ExpressionError, KeyError):
            return None
        return (tree,)

    def named(self, name: str) -> Any:
        """Returns what a name stands for. An expression is a list, too, so it is returned as a text."""
        value = self.names.get(name)
        return str(value) if isinstance(value, list) else value

    def reads(self, node: ast.Expr) -> frozenset[str]:
        found: set[str] = set()
        for name in names_in(node):
            value = self.names.get(name)
            if name in self.arrays:
                found.add(self.arrays[name][0])
            elif isinstance(value, Untold):
                found |= value.reads
            elif (isinstance(value, tuple) and name in self.called.params) or (name in self.names and value is None):
                found.add(name)
            elif isinstance(value, Extents):
                found = found.union(*(compile_expression(tree).names for tree in value.trees))
            elif isinstance(value, list | str):
                found |= compile_expression(value).names
        return frozenset(found)

    def parts(self, node: ast.Expr, wanted: bool) -> Iterator[CallCondition]:
        """Yields the conditions that fix a condition of the dispatch. `fits` needs none: a launch's own conditions say
        which calls it takes."""
        found = [(part, self.tree(part)) for part in _conjuncts(node)]
        told = [(part, tree[0], self.holds(tree[0])) for part, tree in found if tree is not None]
        false = next(((part, tree) for part, tree, holds in told if holds is False), None)
        if not wanted and false is not None:  # one part that is false makes the whole false
            yield from self.fixed(["not", false[1]], f"not ({false[0].loc.text})")
            return
        for part, tree, holds in told:
            if holds is None:
                yield from self.exact(compile_expression(tree).names, part.loc.text)
            else:
                yield from self.fixed(tree if holds else ["not", tree], part.loc.text)
        for part, made in found:
            if made is None and not _asks_fits(part):
                yield from self.exact(self.reads(part), part.loc.text)

    def holds(self, tree: Tree) -> bool | None:
        try:
            return bool(compile_expression(tree).evaluate(self.values))
        except ExpressionError:
            return None

    def fixed(self, tree: Tree, text: str) -> Iterator[CallCondition]:
        """Yields a condition, unless it is true for all calls."""
        if compile_expression(tree).names:
            yield CallCondition(tree, text)

    def same(self, node: ast.Expr, text: str) -> Iterator[CallCondition]:
        """Yields the condition that an expression has the same value as in this call, or a workspace the same
        extents."""
        made = self.names.get(node.id) if isinstance(node, ast.Name) else None
        tree = self.tree(node)
        if isinstance(made, Extents):
            for axis, extent in enumerate(made.trees):
                yield from self.same_tree(extent, f"extent {axis} of {text}")
        elif tree is None:
            yield from self.exact(self.reads(node), text)
        else:
            yield from self.same_tree(tree[0], text)

    def same_tree(self, tree: Tree, text: str) -> Iterator[CallCondition]:
        if not isinstance(tree, list | str):
            return
        expression = compile_expression(tree)
        try:
            value = expression.evaluate(self.values)
        except ExpressionError:
            yield from self.exact(expression.names, text)
            return
        if expression.names:
            shown = str(value).lower() if isinstance(value, bool) else value
            yield CallCondition(["same", tree, value], f"{text} == {shown}")

    def exact(self, names: frozenset[str], text: str) -> Iterator[CallCondition]:
        for name in sorted(names):
            facts = self.planner.arguments.get(name)
            if isinstance(facts, ArrayFacts):
                for axis, extent in enumerate(facts.shape):
                    yield CallCondition(
                        ["==", extent_of(name, axis), extent], f"shape({name}, {axis}) == {extent}, for {text}"
                    )
                for axis, stride in enumerate(facts.steps):
                    tree = ["==", stride_of(name, axis), 1]
                    yield CallCondition(tree if stride == 1 else ["not", tree], f"the strides of {name}, for {text}")
                tree = ["==", ["%", address_name(name), facts.align], 0]
                yield CallCondition(tree, f"{name} aligned to {facts.align} bytes, for {text}")
            else:
                yield from same_number(name, facts if isinstance(facts, tuple | list) else self.values.get(name), text)

    def launch(self, launch: ast.Launch) -> Iterator[CallCondition]:
        """Yields the conditions that fix the constants of a launch, and the numbers and workspaces that it takes."""
        for item in launch.items:
            is_function = isinstance(item.value, ast.Name) and item.value.id not in self.names
            if item.value is not None and not is_function:
                yield from self.same(item.value, f"{item.name} of {launch.name}")
        names = self.planner.program.head(launch.name).names
        given: dict[str, ast.Expr] = {name: ast.Name(launch.loc, name) for name in names}
        if launch.args is not None:
            given = given_by_name(launch, names)
        for parameter, node in given.items():
            if not self.is_passed_on(node):
                yield from self.same(node, f"{parameter} of {launch.name}")

    def is_passed_on(self, node: ast.Expr) -> bool:
        """Returns whether an argument of a launch is one of the call, or absent."""
        if not isinstance(node, ast.Name):
            return False
        if node.id in self.arrays or node.id not in self.names:
            return True
        value = self.names[node.id]
        return node.id in self.called.params and (value is None or value is self.planner.arguments.get(node.id))


def _targets(line: ast.Assign) -> list[str | None]:
    return [target.id if isinstance(target, ast.Name) else None for target in line.targets]


def _conjuncts(node: ast.Expr) -> Iterator[ast.Expr]:
    """Yields the conditions that `and` joins."""
    if isinstance(node, ast.Binary) and node.op == "and":
        yield from _conjuncts(node.left)
        yield from _conjuncts(node.right)
    else:
        yield node


def _asks_fits(node: ast.Expr) -> bool:
    calls = (each.function for each in ast.walk(node) if isinstance(each, ast.Call))
    return any(isinstance(function, ast.Name) and function.id == "fits" for function in calls)
