"""Checks a call by the shapes and types of its arguments, without planning it. Extents may be symbols, such as torch's
SymInt: then a condition on a symbol becomes a guard of torch's trace.

The checks are those that depend on neither a schedule nor memory: kinds, ranks, element types, dims that agree, numbers
in range, and the lines `require` and `assert` that read only dims, types, options and numbers. The launch checks the
rest: strides, alignment, overlap, and what a variant requires. Nothing is lowered here, so that a tracer can ask for
each operator of a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dsl.calls.binding import BoundArguments, Misfit, bind
from dsl.calls.called import Called, is_number
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import DTYPES, DType
from dsl.runtime.expressions import ExpressionError, compile_expression
from dsl.text import tree as ast
from dsl.text.branches import by_launch
from dsl.values.facts import UNKNOWN, ArrayFacts
from dsl.values.trees import to_tree


def check_agreement(called: Called, facts: Mapping[str, Any], rest: Mapping[str, Any]) -> None:
    """Raises TileError if no branch of a dispatch takes arguments with these facts, or if the kernel does not. `rest`
    holds the options, types and constants that the caller names."""
    if called.dispatch is None:
        check_launch(called, ast.Launch(called.node.loc, called.name, None, {}, []), facts, rest)
        return
    dims, types = called.bind_names(facts)
    values = {
        **{name: first for name, (first, *_) in called.option_values.items()},
        **rest,
        **dims,
        **numbers_of(facts),
        **given(facts, called.asked),
    }
    for line in called.dispatch.lines:
        if isinstance(line, ast.Require):
            check_condition(called.name, line.condition, values, types)
    mistakes = []
    for branch, *_ in by_launch(called.dispatch.branches):
        try:
            check_branch(called, branch, facts, rest)
            return
        except TileError as error:
            mistakes.append(error)
    if mistakes:
        raise mistakes[0]


def check_branch(called: Called, branch: ast.Branch, facts: Mapping[str, Any], rest: Mapping[str, Any]) -> None:
    """Raises TileError if the launches of a branch do not take the arguments."""
    known = dict(facts)
    for step in branch.steps:
        if isinstance(step, ast.Assign):
            known |= copies_of(step, known)
        elif isinstance(step, ast.Launch):
            check_launch(called, step, known, rest)


def copies_of(step: ast.Assign, facts: Mapping[str, Any]) -> dict[str, ArrayFacts]:
    """Returns the facts about `x` after `x = workspace_like(a)`. Later launches take the copy x in place of a."""
    match step.targets, step.value:
        case [ast.Name(id=name)], ast.Call(function=ast.Name(id="workspace_like"), args=[ast.Name(id=of), *_]):
            like = facts.get(of)
            return {name: ArrayFacts(like.shape, like.dtype)} if isinstance(like, ArrayFacts) else {}
    return {}


def check_launch(called: Called, launch: ast.Launch, facts: Mapping[str, Any], rest: Mapping[str, Any]) -> None:
    """Raises TileError if the kernel of a launch does not take the arguments that the call passes on to it."""
    head = called.program.head(launch.name)
    passed = {p: facts[name] for p, name in called.arguments_of(launch, facts) if facts.get(name) is not None}
    bound = bind(head, passed, BoundArguments.shape)
    types = {name: DTYPES[found] for name, found in bound.types.items()}
    types |= {n: DTYPES[v] for n, v in rest.items() if n in head.types and n not in types and v in DTYPES}
    optional = [name for name, array in head.arrays.items() if array.optional]
    values = {**rest, **bound.dims, **numbers_of(passed), **given(passed, optional)}
    for line in called.program.kernels[launch.name].body:
        if isinstance(line, ast.Assert):
            check_condition(launch.name, line.condition, values, types, line.message)


def numbers_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if is_number(value)}


def given(facts: Mapping[str, Any], optional: Sequence[str] | frozenset[str]) -> dict[str, bool]:
    """Returns what `given(x)` is for each optional tensor."""
    return {f"given({name})": isinstance(facts.get(name), ArrayFacts) for name in optional}


def check_condition(
    of: str, node: ast.Expr, values: Mapping[str, Any], types: Mapping[str, DType], message: str | None = None
) -> None:
    """Raises Misfit `requires` if a condition is false. A condition that reads anything else than `values` and `types`
    is left to the launch."""
    for part in parts_of(node):
        try:
            names = {name: value if isinstance(value, bool) else None for name, value in values.items()}
            holds = compile_expression(to_tree(part, names, types)).evaluate(values)
        except (TileError, ExpressionError):
            continue
        if not holds:
            read = sorted(ast.names_in(part) & values.keys())
            said = ", ".join(f"{name} = {values[name]}" for name in read)
            raise Misfit("requires", node.loc, f"'{of}' requires {node.loc.text}", message or said or None)


def parts_of(node: ast.Expr) -> Iterator[ast.Expr]:
    """Yields the conditions that `and` joins. Each can be checked without the others."""
    if isinstance(node, ast.Binary) and node.op == "and":
        yield from parts_of(node.left)
        yield from parts_of(node.right)
    else:
        yield node


def has_symbols(facts: Mapping[str, Any]) -> bool:
    """Returns whether an extent or a number is not known yet."""
    extents = [extent for each in facts.values() if isinstance(each, ArrayFacts) for extent in each.shape]
    return any(value is UNKNOWN for value in facts.values()) or not all(isinstance(extent, int) for extent in extents)
