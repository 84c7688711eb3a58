"""The table of emission rules: one for each operation of `ops/`."""

from __future__ import annotations

from collections.abc import Callable

from lowering.emit.writer import Writer
from lowering.ir import Block, Op

Rule = Callable[[Writer, Op], None]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


def emit_op(w: Writer, op: Op) -> None:
    if op.attrs.get("in_place"):
        return  # its only user reads it where it lies
    w.at(op)
    RULES[op.name](w, op)


def inline(w: Writer, region: Block, arguments: list[str]) -> list[str]:
    """A region on scalars, with its arguments bound to registers: what it yields."""
    saved = w.text.dbg
    for arg, register in zip(region.args, arguments, strict=True):
        w.registers[arg] = [register]
    for op in region.ops[:-1]:
        for result in op.results:
            w.needed.forget(result)
        emit_op(w, op)
    w.text.dbg = saved
    return [w.registers[v][0] for v in region.ops[-1].operands]
