"""The table of instructions: the first word of an opcode to the function that builds its closure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..code import Code, Op, Values
from ..reader import PtxInstruction

Builder = Callable[[Code, PtxInstruction], Op]


@dataclass(frozen=True)
class Row:
    """`effect` marks what touches more than its destinations: under a guard it runs on the guarded lanes only.

    `sync` says which rendezvous the instruction starts with ("warp" or "barrier"), `counts` which counter it adds to.
    """

    build: Builder
    effect: bool = False
    sync: str = ""
    counts: str = ""


ROWS: dict[str, Row] = {}


def instruction(*names: str, effect: bool = False, sync: str = "", counts: str = "") -> Callable[[Builder], Builder]:
    """Enters a builder into the table under the first words of its opcodes."""

    def enter(build: Builder) -> Builder:
        for name in names:
            ROWS[name] = Row(build, effect, sync, counts)
        return build

    return enter


def row_of(ins: PtxInstruction) -> Row | None:
    return row_of_opcode(ins.opcode)


@lru_cache(maxsize=1024)
def row_of_opcode(opcode: tuple[str, ...]) -> Row | None:
    """The row of the longest prefix of the opcode that the table knows."""
    for length in range(len(opcode), 0, -1):
        row = ROWS.get(".".join(opcode[:length]))
        if row is not None:
            return row
    return None


def merged_by_guard(op: Op, guard: int, negated: bool, written: list[int]) -> Op:
    """`@p op` for arithmetic: computed for all threads, kept where the guard holds."""

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
    """`@p op` for what touches memory: run by the threads whose guard holds."""

    def run(v: Values, g: Any) -> None:
        active = ~v[guard] if negated else v[guard]
        if active.all():
            op(v, g)
        elif active.any():
            g.run_on(np.flatnonzero(active), op, v, entries, written)

    return run


def take_modifiers(ins: PtxInstruction, known: set[str]) -> tuple[set[str], list[str]]:
    """Splits the words after the first into the known modifiers and the rest (types, mostly)."""
    words = ins.opcode[1:]
    return {word for word in words if word in known}, [word for word in words if word not in known]
