"""Examines an example without allocating its arrays. Only numbers, types and shapes are computed, without numpy. `dsl
check` and `dsl compile` use this module. Names and functions are checked as in a run. A value that only a run can
compute is `UNKNOWN`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

from msgspec import Struct, field

from dsl.calls.called import Called
from dsl.calls.front import read_in_order
from dsl.examples.overrides import Overrides
from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.lowering.ir.types import DTYPES, DType
from dsl.schedules.resolve import StatedContract, stated
from dsl.text import tree as ast
from dsl.text.contracts import NAMES
from dsl.text.program import Program, reached_kernels, type_parameters
from dsl.values.facts import UNKNOWN, ArrayFacts
from dsl.values.shapes import Shapes
from dsl.values.table import find


def find_example(program: Program, name: str | None) -> ast.Example:
    """Returns the example of this name, or the first example. Raises TileError `example`."""
    if not program.examples:
        hint = "add an 'example:' block with inputs, a launch and 'expect'"
        raise TileError("example", None, f"{program.source.name} has no example", hint)
    if name is None:
        return program.examples[0]
    known = [example.name for example in program.examples if example.name is not None]
    for example in program.examples:
        if example.name == name:
            return example
    hint = closest(name, known) or f"known: {', '.join(known) or 'one without a name'}"
    raise TileError("example", None, f"{program.source.name} has no example '{name}'", hint)


class LaunchFacts(Struct, frozen=True):
    """A launch line: its arguments by name, and its `with` items. An argument is ArrayFacts, a number, `UNKNOWN`, or
    None if it is left out."""

    line: ast.Launch
    arguments: dict[str, Any]
    schedule: str | None
    rest: dict[str, Any]

    @property
    def is_known(self) -> bool:
        return not any(value is UNKNOWN for value in self.arguments.values())

    @property
    def bytes(self) -> int:
        """The bytes of all known arrays."""
        return sum(value.bytes for value in self.arguments.values() if isinstance(value, ArrayFacts))


class ExampleFacts(Struct):
    """The facts about an example before it runs. `contracts` holds each contract with the launch that it judges.
    `computes` is the number of operations that its `computes` lines state."""

    numbers: dict[str, int] = field(default_factory=dict)
    launches: list[LaunchFacts] = field(default_factory=list)
    contracts: list[tuple[ast.Launch, StatedContract]] = field(default_factory=list)
    errors: list[TileError] = field(default_factory=list)
    computes: float = 0.0


def examine(program: Program, example: ast.Example, overrides: Overrides | None = None) -> ExampleFacts:
    """Evaluates the lines of an example as far as shapes allow, and collects the errors of all lines."""
    overrides = overrides or Overrides()
    parameters = type_parameters(reached_kernels(program, example))
    names: dict[str, Any] = {}
    for name, choices in parameters.items():
        chosen = overrides.types.get(name, choices[0])
        if chosen in DTYPES:
            names[name] = DTYPES[chosen]
    shapes = Shapes(names, program.functions)
    facts = ExampleFacts()
    for number, line in enumerate(example.lines):
        try:
            if isinstance(line, ast.Assign):
                _assign(shapes, line, names, overrides.names)
            elif isinstance(line, ast.Launch):
                if line.name not in program.dispatches and line.name not in program.kernels:
                    continue  # reported as an error of the program
                facts.launches.append(_launch(program, shapes, line, overrides))
            elif isinstance(line, ast.Expect):
                with with_terms():
                    _expect(shapes, line)
            elif isinstance(line, ast.Contract):
                _contract(facts, shapes, line, number, example)
            else:
                value = shapes(line.value)
                check_cost(line, any(isinstance(each, ast.Launch) for each in example.lines[:number]), value)
                facts.computes += value if line.kind == "computes" and isinstance(value, int | float) else 0
        except TileError as error:
            facts.errors += error.errors
            for target in getattr(line, "targets", ()):
                if isinstance(target, ast.Name):
                    # Later lines that read the name report no errors of their own.
                    names.setdefault(target.id, UNKNOWN)
    facts.numbers = {k: v for k, v in names.items() if isinstance(v, int) and not isinstance(v, bool)}
    return facts


def _expect(shapes: Shapes, line: ast.Expect) -> None:
    actual = shapes(line.actual)
    if line.wanted is None:
        if isinstance(actual, ArrayFacts) and actual.dtype != "i1":
            message = f"'expect' takes a condition; this is an array of {actual.dtype}"
            raise TileError("type", line.actual.loc, message, "expect actual ~= wanted within bound")
        _same_shapes(shapes, line.actual)
        return
    wanted = shapes(line.wanted)
    check_bound(line, [shapes(node) for node in bound_nodes(line)])
    for node, value in ((line.actual, actual), (line.wanted, wanted)):
        if isinstance(value, DType | str | tuple | list):
            raise TileError("type", node.loc, "'expect' compares arrays and numbers")
    _equal(actual, wanted, line.loc)


class _OfARun(Exception):
    """Raised if a bound depends on a value that only a run can compute."""


@contextmanager
def with_terms() -> Iterator[None]:
    """A context manager that adds a hint to the error for an unknown name in an `expect`. The name may be a misspelt
    term of a contract."""
    try:
        yield
    except TileError as error:
        # The message ends with the unknown name.
        name = error.message.rpartition(" ")[2].strip("'")
        if error.code != "name" or len(error.errors) > 1:
            raise
        raise TileError(error.code, error.loc, error.message, closest(name, NAMES) or error.hint) from None


def check_contract(line: ast.Contract, is_launched: bool) -> None:
    """Raises TileError for a contract that precedes all launches."""
    if not is_launched:
        raise TileError("example", line.loc, f"'expect {line.term}' stands below a launch", "it is of the launch above")


def _contract(facts: ExampleFacts, shapes: Shapes, line: ast.Contract, number: int, example: ast.Example) -> None:
    above = [each for each in example.lines[:number] if isinstance(each, ast.Launch)]
    check_contract(line, bool(above))

    def evaluate(node: ast.Expr) -> Any:
        value = shapes(node)
        if value is UNKNOWN:
            raise _OfARun
        return value

    with suppress(_OfARun):
        facts.contracts.append((above[-1], stated(line, None, evaluate)))


def bound_nodes(line: ast.Expect) -> list[ast.Expr]:
    """Returns the expressions of the bounds of `~=`: an absolute bound, and optionally one relative to the wanted
    value. Raises TileError if there is no bound."""
    if line.bound is None:
        raise TileError("syntax", line.loc, "'~=' needs a bound", "within 1e-3, or within 0 for equal")
    nodes: list[ast.Expr] = line.bound.items if isinstance(line.bound, ast.Sequence) else [line.bound]
    if not 1 <= len(nodes) <= 2:
        raise TileError("expect", line.bound.loc, "'within' takes a bound, and one relative to the wanted value")
    return nodes


def check_bound(line: ast.Expect, values: list[Any]) -> None:
    """Raises TileError for a bound that is not a number, not finite, or negative."""
    for node, value in zip(bound_nodes(line), values, strict=True):
        if value is UNKNOWN:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TileError("expect", node.loc, "a bound is a number")
        if not 0 <= value < float("inf"):
            raise TileError("expect", node.loc, f"a bound is finite and not negative; this is {value}")


def _same_shapes(shapes: Shapes, node: ast.Expr) -> None:
    """Raises TileError if an expectation compares known shapes that differ."""
    if isinstance(node, ast.Compare):
        for left, right in pairwise(node.operands):
            _equal(shapes(left), shapes(right), right.loc)
    elif isinstance(node, ast.Binary) and node.op in ("and", "or", "&", "|"):
        _same_shapes(shapes, node.left)
        _same_shapes(shapes, node.right)


def _equal(left: Any, right: Any, loc: Loc) -> None:
    if isinstance(left, ArrayFacts) and isinstance(right, ArrayFacts) and left.shape != right.shape:
        raise TileError("shape", loc, f"shapes {list(left.shape)} and {list(right.shape)} are not equal")


def _assign(shapes: Shapes, line: ast.Assign, names: dict[str, Any], given: Mapping[str, Any]) -> None:
    if line.op is not None:
        raise TileError("syntax", line.loc, "an example assigns with '='")
    value = shapes(line.value)
    values = list(value) if isinstance(value, tuple) and len(line.targets) > 1 else [value] * len(line.targets)
    if len(line.targets) > 1 and value is UNKNOWN:
        values = [UNKNOWN] * len(line.targets)
    elif len(line.targets) > 1 and (not isinstance(value, tuple) or len(value) != len(line.targets)):
        raise TileError("shape", line.loc, f"{len(line.targets)} names for {len(values)} values")
    for target, part in zip(line.targets, values, strict=True):
        if not isinstance(target, ast.Name):
            raise TileError("syntax", target.loc, "an example assigns to names")
        names[target.id] = given.get(target.id, part)


def check_cost(line: ast.Cost, is_launched: bool, value: Any) -> None:
    """Raises TileError for a `moves` or `computes` line that precedes all launches, or whose value is not a number."""
    if not is_launched:
        raise TileError("example", line.loc, f"'{line.kind}' stands below a launch")
    if isinstance(value, ArrayFacts | DType | str | tuple):
        raise TileError("type", line.value.loc, f"{line.kind} is a number")


def _launch(program: Program, shapes: Shapes, line: ast.Launch, overrides: Overrides) -> LaunchFacts:
    if line.name in program.dispatches:
        params = program.dispatches[line.name].params
    else:
        params = [p.name for p in program.kernels[line.name].params]
    values, named = given_by(line, params, shapes)
    free = [p for p in params if p not in named]
    if len(values) > len(free):
        raise TileError("call", line.loc, f"{line.name} takes {len(params)} arguments; got {len(values) + len(named)}")
    # An example also passes outputs, so readings that leave out outputs do not count.
    taken = read_in_order(free, program.once(Called, line.name).optional, len(values))
    given = {**dict(zip(taken, values, strict=False)), **named}
    arguments = {p: given.get(p) for p in params}
    for p in program.kernels[line.name].params if line.name in program.kernels else ():
        if arguments[p.name] is None and not p.is_optional:
            raise missing(line, params, p.name)
    schedule, constants = items_of(line, program, shapes)
    rest = {k: v for k, v in named.items() if k not in params} | constants
    return LaunchFacts(line, arguments, schedule, rest | overrides.of_launch(program, line.name))


def given_by(line: ast.Launch, params: Sequence[str], host: Any) -> tuple[list[Any], dict[str, Any]]:
    """Returns the arguments of a launch line, in order and by name. A launch without parentheses gets the example's
    variables with the names of the parameters. `host` evaluates expressions."""
    named = {name: argument_of(node, host) for name, node in line.keywords.items()}
    if line.args is None:
        named |= {p: host.names[p] for p in params if p in host.names and p not in named}
    return [argument_of(node, host) for node in line.args or ()], named


def argument_of(node: ast.Expr, host: Any) -> Any:
    """Returns an argument of a launch line. Raises TileError; that for an output that nobody has made says how."""
    try:
        return host.argument(node)
    except TileError as error:
        if isinstance(node, ast.Name) and error.code == "name" and error.hint is None:
            hint = f"an output is an array that the example makes before: {node.id} = empty(T[…])"
            raise TileError("name", error.loc, error.message, hint) from None
        raise


def items_of(line: ast.Launch, program: Program, host: Any) -> tuple[str | None, dict[str, Any]]:
    """Returns the `with` items of a launch: a schedule, and constants. The value of a constant is a number, or the name
    of a `def`."""
    schedule, constants = None, {}
    for item in line.items:
        value = item.value
        if value is None:
            if schedule is not None:
                raise TileError("call", item.loc, "a launch takes one schedule")
            schedule = item.name
        elif (
            isinstance(value, ast.Name)
            and value.id not in host.names
            and (program.function(value.id) or find(value.id)) is not None
        ):
            constants[item.name] = value.id
        else:
            constants[item.name] = host(value)
    return schedule, constants


def missing(line: ast.Launch, params: Sequence[str], name: str) -> TileError:
    """Returns the error for a launch with too few arguments. It lists all parameters and all given arguments, because
    any argument may be the missing one."""
    hint = f"it takes {', '.join(params)}: outputs, too, empty(…)"
    if line.args is not None:
        texts = [node.loc.source.text[node.loc.start : node.loc.end] for node in line.args]
        given = [" ".join(text.split()) for text in (*texts, *line.keywords)]
        hint += f"; {len(given)} of {len(params)} are given: {', '.join(given)}"
    return TileError("call", line.loc, f"{line.name} needs '{name}'", hint)


def from_launch(error: TileError, line: ast.Launch) -> TileError:
    """Returns an error of planning with the location of the launch line added."""
    if error.loc is None:
        return TileError(error.code, line.loc, error.message, error.hint)
    return TileError(error.code, error.loc.called_from(line.loc), error.message, error.hint)
