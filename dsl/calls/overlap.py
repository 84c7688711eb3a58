"""Decides which launches of a call may overlap, and which tensors a launch may read while earlier launches still run.

Each launch except the first may start before the preceding launch has ended. `dsl/lowering/passes/overlap.py` inserts
the wait for earlier launches. Code before the wait may read a tensor only if no earlier launch writes it.

Two names certainly refer to different memory in two cases. In the first case, one of the names is a workspace of the
call. In the second case, both names are arguments of the launch that writes, which would be refused if its tensors
overlapped. All earlier launches count, not only the preceding one, because they may all still be running."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from dsl.calls.plan import Step, Workspace
from dsl.calls.uses import names_given, tensors_used
from dsl.text.program import Program


def overlapping(program: Program, steps: Sequence[Step]) -> list[Step]:
    """Returns the launches of a call with `follows` and `leads` set in each request. `follows` names the tensors that
    no earlier launch writes. `leads` is True if another launch follows."""
    if len(steps) == 1:
        return [*steps]
    made = []
    for at, step in enumerate(steps):
        follows = tuple(_unwritten(program, step, steps[:at])) if at else None
        made.append(replace(step, request=replace(step.request, follows=follows, leads=at + 1 < len(steps))))
    return made


def _unwritten(program: Program, step: Step, before: Sequence[Step]) -> Iterator[str]:
    """Yields the tensors of a launch that no earlier launch writes, according to the text of the kernels."""
    head = program.head(step.request.kernel)
    for name, argument in zip(head.names, step.arguments, strict=True):
        if name in head.arrays and argument is not None and all(_leaves(program, each, argument) for each in before):
            yield name


def _leaves(program: Program, step: Step, argument: Any) -> bool:
    """Returns whether a launch certainly does not write the array `argument`."""
    head = program.head(step.request.kernel)
    written = program.once(tensors_used, head.name)[0].union(program.once(names_given, head.name))
    given = [(n, a) for n, a in zip(head.names, step.arguments, strict=True) if n in head.arrays and a is not None]
    # Two arrays of a call may be the same memory under two names. They are different memory if a launch takes both
    # arrays, because this launch would be refused otherwise.
    is_apart = isinstance(argument, Workspace) or any(a == argument for _, a in given)
    return all(a != argument and (is_apart or isinstance(a, Workspace)) for n, a in given if n in written)
