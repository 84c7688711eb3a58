"""Statements as trees: each writes its lines and does in numpy what they mean; a program is parameters and a body."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.random_kernels.meaning import NUMPY, Expr, State, whole_number

INDENT = "    "


class Statement:
    """Bodies are lists that a smaller program has fewer statements in."""

    bodies: tuple[list[Statement], ...] = ()
    kept = False
    """Whether a smaller program must keep it."""

    def lines(self) -> list[str]:
        raise NotImplementedError

    def run(self, state: State) -> None:
        raise NotImplementedError


def text_of(body: list[Statement]) -> list[str]:
    return [INDENT + line for s in body for line in s.lines()]


def run_all(body: list[Statement], state: State) -> None:
    for s in body:
        s.run(state)


@dataclass
class Plain(Statement):
    """Lines without a body."""

    texts: list[str]
    act: Callable[[State], None]
    kept: bool = False

    def lines(self) -> list[str]:
        return self.texts

    def run(self, state: State) -> None:
        self.act(state)


class Assign(Statement):
    """`name = expression`."""

    def __init__(self, name: str, expr: Expr, text: str | None = None):
        self.name, self.expr, self.text = name, expr, text

    def lines(self) -> list[str]:
        return [self.text or f"{self.name} = {self.expr.text}"]

    def run(self, state: State) -> None:
        state.names[self.name] = self.expr.value(state)


class If(Statement):
    """Branches on scalars: pairs of a condition and a body; the last condition may be None, for else."""

    def __init__(self, ways: list[tuple[Expr | None, list[Statement]]]):
        self.ways = ways
        self.bodies = tuple(body for _, body in ways)

    def lines(self) -> list[str]:
        out = []
        for i, (condition, body) in enumerate(self.ways):
            if condition is None:
                if not body:
                    continue
                out.append("else:")
            else:
                out.append(f"{'elif' if i else 'if'} {condition.text}:")
            out += text_of(body) or [INDENT + "nothing = 0"]
        return out

    def run(self, state: State) -> None:
        for condition, body in self.ways:
            if condition is None or bool(condition.value(state)):
                run_all(body, state)
                return


class ThreadIf(Statement):
    """A branch of threads: each side does what its elements say, and names are merged by element."""

    def __init__(self, condition: Expr, then: list[Statement], otherwise: list[Statement]):
        self.condition, self.bodies = condition, (then, otherwise)

    def lines(self) -> list[str]:
        then, otherwise = self.bodies
        out = [f"if {self.condition.text}:", *(text_of(then) or [INDENT + "nothing = 0"])]
        return out + (["else:", *text_of(otherwise)] if otherwise else [])

    def run(self, state: State) -> None:
        condition = self.condition.value(state)
        outer = state.active
        before = state.names
        outcomes = []
        for body, taken in zip(self.bodies, (condition, ~condition), strict=True):
            state.names = dict(before)
            state.active = taken if outer is None else taken & outer
            run_all(body, state)
            outcomes.append(state.names)
        state.active, (a, b) = outer, outcomes
        state.names = {
            name: x if x is b[name] else np.where(condition, x, b[name]) for name, x in a.items() if name in b
        }


class For(Statement):
    """A counted loop; bounds are exact integers, whatever the counter's type."""

    def __init__(self, counter: str, dtype: str, bounds: list[Expr], body: list[Statement], static: bool = False):
        self.counter, self.dtype, self.bounds, self.static = counter, dtype, bounds, static
        self.bodies = (body,)

    def lines(self) -> list[str]:
        word = "for static" if self.static else "for"
        body = text_of(self.bodies[0]) or [INDENT + "nothing = 0"]
        return [f"{word} {self.counter} in range({', '.join(b.text for b in self.bounds)}):", *body]

    def run(self, state: State) -> None:
        before = state.names.get(self.counter)
        for i in range(*(int(b.value(state)) for b in self.bounds)):
            state.names[self.counter] = np.array(i, NUMPY[self.dtype])
            run_all(self.bodies[0], state)
        if before is None:
            state.names.pop(self.counter, None)
        else:
            state.names[self.counter] = before


class While(Statement):
    """A loop that `step`, at the end of its body, brings to an end."""

    def __init__(self, condition: Expr, body: list[Statement], step: Statement):
        self.condition, self.step = condition, step
        self.bodies = (body,)

    def lines(self) -> list[str]:
        return [f"while {self.condition.text}:", *text_of([*self.bodies[0], self.step])]

    def run(self, state: State) -> None:
        while bool(self.condition.value(state)):
            run_all([*self.bodies[0], self.step], state)


class ThreadWhile(While):
    """A loop of threads: an element goes iterations until its condition is false, and `step` brings that about."""

    def run(self, state: State) -> None:
        outer = active = state.active
        while True:
            taken = self.condition.value(state)
            active = taken if active is None else taken & active
            if not active.any():
                break
            state.active, before, state.names = active, state.names, dict(state.names)
            run_all([*self.bodies[0], self.step], state)
            state.names = {
                name: x if x is before[name] else np.where(active, x, before[name])
                for name, x in state.names.items()
                if name in before
            }
        state.active = outer


@dataclass
class Parameter:
    """What a kernel takes: an array, a scalar or a table."""

    name: str
    dtype: str
    dims: tuple[str, ...] = ()
    """As written: numbers or names."""
    value: Any = None
    """An array, a number, or None for an optional tensor that is absent."""
    kind: str = "tensor"
    note: str = ""
    """What stands behind the dims: `; strided`, or `?`."""

    def __str__(self) -> str:
        if self.kind == "scalar":
            return f"{self.name}: {self.dtype}"
        if self.kind == "table":
            return f"{self.name}: table {self.dtype}[{len(self.value)}]"
        strided = "; strided" if "strided" in self.note else ""
        return f"{self.name}: {self.dtype}[{', '.join(self.dims)}{strided}]{'?' if '?' in self.note else ''}"


@dataclass
class Program:
    """One kernel with its arguments, its schedule and its target."""

    seed: int
    arch: str = "sm_80"
    warps: int = 4
    grid: int = 1
    tiled: str = ""
    """The grid as tiles of a dim, which are as many."""
    parameters: list[Parameter] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    body: list[Statement] = field(default_factory=list)
    schedule: list[str] = field(default_factory=list)
    inherits: bool = False
    """Whether the schedule is `like` another one that has its lines."""
    features: Counter[str] = field(default_factory=Counter)

    def text(self) -> str:
        parameters = ", ".join(map(str, self.parameters))
        lines = [
            *self.functions,
            f"kernel k({parameters}):",
            f"{INDENT}grid {self.tiled or self.grid}",
            *text_of(self.body),
        ]
        schedule = [f"{INDENT}warps = {self.warps}", *(INDENT + s for s in self.schedule)]
        if self.inherits:
            lines += ["", "schedule s of k:", f"{INDENT}like base", "", "schedule base of k:", *schedule]
        else:
            lines += ["", "schedule s of k:", *schedule]
        return "\n".join(lines) + "\n"

    def arrays(self) -> dict[str, np.ndarray]:
        """Fresh arrays for one run, with the strides and the alignment of the first ones."""
        return {p.name: copied(p.value) for p in self.parameters if p.kind == "tensor" and p.value is not None}

    def expected(self) -> dict[str, np.ndarray]:
        """What the arrays hold after all blocks have run."""
        arrays = self.arrays()
        scalars = {p.name: np.array(p.value, NUMPY[p.dtype]) for p in self.parameters if p.kind == "scalar"}
        tables = {p.name: p.value for p in self.parameters if p.kind == "table"}
        dims = {
            d: e
            for p in self.parameters
            if p.kind == "tensor" and p.value is not None
            for d, e in zip(p.dims, p.value.shape, strict=True)
            if not d.isdigit()
        }
        with np.errstate(all="ignore"):
            for block in range(self.grid):
                names = {**scalars, **{d: np.array(e, np.int64) for d, e in dims.items()}}
                run_all(self.body, State({**tables, **arrays}, names, block))
        return arrays

    def bodies(self) -> Iterator[list[Statement]]:
        """Every list of statements, outer ones first."""
        waiting = [self.body]
        while waiting:
            body = waiting.pop(0)
            yield body
            waiting += [inner for s in body for inner in s.bodies]


def copied(array: np.ndarray) -> np.ndarray:
    """A copy that lies as the array does: in a base of the same size, at the same place and strides."""
    base = array if array.base is None else array.base
    fresh = np.array(base)
    if array.base is None:
        return fresh
    start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return np.ndarray(array.shape, array.dtype, fresh, start, array.strides)


def counted(value: int) -> Expr:
    return Expr(whole_number(value), lambda s: np.int64(value), "s64")
