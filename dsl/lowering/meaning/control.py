"""Reference semantics of loops and branches. If the condition is a tile, each element acts like a thread: an iteration
or branch that an element does not execute leaves the element unchanged."""

from __future__ import annotations

import numpy as np

from dsl.lowering.ir.function import Op
from dsl.lowering.machine.formats import Array, number
from dsl.lowering.meaning.run import Run, Undecided, meaning

MOST_ITERATIONS = 1 << 20
"""The maximum number of iterations of a `while`. A loop with more iterations probably waits for a block that has not
run, because blocks run one by one here."""


def chosen(condition: np.ndarray, yes: Array, no: Array) -> Array:
    """Selects elements of `yes` or `no`. Each has as many elements as the condition, but may have another shape.
    Elements are matched in row-major order."""
    shape = np.shape(yes) or np.shape(no) or condition.shape
    if int(np.prod(shape)) == condition.size:
        condition = condition.reshape(shape)
    return np.where(condition, yes, no)


@meaning("for")
def _for(run: Run, op: Op, x: list[Array]) -> list[Array]:
    start, stop, step = (int(v) for v in x[:3])
    carried, body = list(x[3:]), op.regions[0]
    counter = body.args[0].dtype
    for i in range(start, stop, step):
        carried = run.region(body, [number(i, counter, run.index_bits), *carried])
    return carried


@meaning("while")
def _while(run: Run, op: Op, x: list[Array]) -> list[Array]:
    test, body = op.regions
    carried, around = list(x), run.active
    passed: list[Array] | None = None
    going: np.ndarray | None = None  # the elements that are still in the loop, or None for a scalar condition
    try:
        for _ in range(MOST_ITERATIONS):
            flag, *given = run.region(test, carried)
            if not np.ndim(flag):  # a scalar: all threads continue, or all stop
                if not flag:
                    return given
                carried = run.region(body, given)
                continue
            flag = np.asarray(flag).reshape(-1)
            if going is None:  # first iteration: start with the active elements of the enclosing branch
                outer = run.active_for(flag.size)
                going = np.ones(flag.shape, bool) if outer is None else outer
            passed = given if passed is None else [chosen(going, n, o) for n, o in zip(given, passed, strict=True)]
            going = going & flag
            if not going.any():
                return passed
            run.active = going
            following = run.region(body, given)
            carried = [chosen(going, n, o) for n, o in zip(following, given, strict=True)]
    finally:
        run.active = around  # even after an error, because the run may continue with another block
    message = f"a loop has not ended after {MOST_ITERATIONS} iterations: it may wait for a block that comes later"
    raise Undecided(op, message)


@meaning("if")
def _if(run: Run, op: Op, x: list[Array]) -> list[Array]:
    (condition,) = x
    if not np.ndim(condition):
        return run.region(op.regions[0 if condition else 1], [])
    flag, around = np.asarray(condition).reshape(-1), run.active
    outer = run.active_for(flag.size)
    sides = []  # both sides run, each for the elements that take it
    try:
        for region, takes in zip(op.regions, (flag, ~flag), strict=True):
            run.active = takes if outer is None else takes & outer
            sides.append(run.region(region, []))
    finally:
        run.active = around
    return [chosen(np.asarray(condition), a, b) for a, b in zip(*sides, strict=True)]


@meaning("yield", "condition")
def _end(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Returns the values that a region yields to the enclosing operation."""
    return x


@meaning("join_parts")
def _join_parts(run: Run, op: Op, x: list[Array]) -> list[Array]:
    return []


@meaning("assert")
def _assert(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Records a failed assert and continues, as a kernel does. Inactive elements cannot fail."""
    holds = np.asarray(x[0]).reshape(-1)
    if (active := run.active_for(holds.size)) is not None:
        holds = holds | ~active
    if not holds.all():
        run.failed.add(op.attrs["line"])
    return []


@meaning("print", "mark")
def _print(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Does nothing: printed text and times are not values, and the order of threads is not defined."""
    return []
