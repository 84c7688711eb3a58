"""The table that maps the first words of an opcode to the function that builds a closure for the instruction."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from msgspec import Struct

from ..code import Code, Op, Values
from ..reader import Integer, Operand, PtxInstruction

Builder = Callable[[Code, PtxInstruction], Op]


class Row(Struct, frozen=True):
    """An entry of the table. `effect` is true if the instruction affects more than its destination registers. With a
    guard, such an instruction runs only for the lanes whose guard is true.

    If `sync` is "warp" or "barrier", threads wait for each other before the instruction runs (`rendezvous.py`).
    `counts` is the name of the counter that the instruction increments.
    """

    build: Builder
    effect: bool = False
    sync: str = ""
    counts: str = ""


ROWS: dict[str, Row] = {}


def instruction(*names: str, effect: bool = False, sync: str = "", counts: str = "") -> Callable[[Builder], Builder]:
    """Decorates a builder: adds it to the table under `names`, the first words of its opcodes."""

    def enter(build: Builder) -> Builder:
        for name in names:
            ROWS[name] = Row(build, effect, sync, counts)
        return build

    return enter


def row_of(ins: PtxInstruction) -> Row | None:
    return row_of_opcode(ins.opcode)


@lru_cache(maxsize=1024)
def row_of_opcode(opcode: tuple[str, ...]) -> Row | None:
    """Returns the row of the longest prefix of the opcode that is in the table, or None."""
    for length in range(len(opcode), 0, -1):
        row = ROWS.get(".".join(opcode[:length]))
        if row is not None:
            return row
    return None


def constant_of(operand: Operand) -> int:
    """Returns the value of an operand, which the legal forms restrict to integer constants."""
    assert isinstance(operand, Integer)
    return operand.value


def into(function: np.ufunc, d: int, *sources: int) -> Op:
    """Returns a closure that runs a ufunc. The ufunc writes directly to the destination, without a temporary array."""
    if len(sources) == 1:
        (a,) = sources

        def unary(v: Values, g: Any) -> None:
            function(v[a], v[d])

        return unary
    a, b = sources

    def binary(v: Values, g: Any) -> None:
        function(v[a], v[b], out=v[d])

    return binary


def computed(function: Callable[..., Any], d: int, sources: list[int]) -> Op:
    """Returns a closure that calls `function` on the sources and copies the result to the destination."""

    def run(v: Values, g: Any) -> None:
        v[d][...] = function(*[v[source] for source in sources])

    return run


def merged_by_guard(op: Op, guard: int, negated: bool, written: list[int]) -> Op:
    """Builds `@p op` for arithmetic. All threads compute the result, and only the threads whose guard is true keep it.
    Computing it for some lanes only would need copies of their operands."""

    def run(v: Values, g: Any) -> None:
        keep = v[guard] if negated else ~v[guard]
        if keep.all():
            return
        if not keep.any():
            op(v, g)
            return
        keep = keep.copy()
        old = [v[entry].copy() for entry in written]
        op(v, g)
        for entry, values in zip(written, old, strict=True):
            np.copyto(v[entry], values, where=keep if values.ndim == 1 else keep[:, None])

    return run


def restricted_by_guard(op: Op, guard: int, negated: bool, entries: list[int], written: list[int]) -> Op:
    """Builds `@p op` for instructions with side effects. Only the threads whose guard is true run it."""

    def run(v: Values, g: Any) -> None:
        active = ~v[guard] if negated else v[guard]
        if active.all():
            op(v, g)
        elif active.any():
            g.run_on(np.flatnonzero(active), op, v, entries, written)

    return run


def take_modifiers(ins: PtxInstruction, known: set[str]) -> tuple[set[str], list[str]]:
    """Splits the words of an opcode, except the first, into the modifiers that are in `known` and the other words. For
    example, `cvt.rn.f16.f32` gives {rn} and [f16, f32]."""
    words = ins.opcode[1:]
    return {word for word in words if word in known}, [word for word in words if word not in known]
