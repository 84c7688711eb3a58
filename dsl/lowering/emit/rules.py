"""The table of emission rules: for each operation of `ops/`, the function that emits it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dsl.lowering.emit.words import count_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Block, Op
from dsl.lowering.ir.plugins import Added

Rule = Callable[[Writer, Op], None]
RULES: dict[str, Rule] = {}
OWN = "own"
"""The option of the choice `rule.SUBJECT` that selects the compiler's own rule."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


def emit_op(w: Writer, op: Op) -> None:
    w.at(op)
    added = w.plugins.of("rule", op.name) if w.plugins.added else ()
    mine = _chosen(w, op, added) if added else None
    if mine is None:
        RULES[op.name](w, op)
    else:
        _emit_by(w, op, mine)


def _chosen(w: Writer, op: Op, added: Sequence[Added]) -> Added | None:
    """Returns the plug-in rule that emits an operation, or None for the compiler's own rule. The default is the first
    plug-in rule that applies. The choice `rule` can select another one."""
    fitting = {each.label: each for each in added if each.fits(op, w.target)}
    if not fitting:
        return None
    first = next(iter(fitting))
    options: dict[str, Added | None] = {OWN: None, **fitting}
    taken: Added | None = w.switches.of(op, "rule", options, fitting[first].place, rule=first)
    return taken


def _emit_by(w: Writer, op: Op, rule: Added) -> None:
    """Emits an operation with a plug-in's rule. Raises TileError `plugin` if the rule returns no value for a needed
    element."""
    held = count_of(op.result)
    needed = w.needed.of(op.result, held)
    if rule.about["whole"]:
        rule(w, op)
        made = w.registers.get(op.result)
        if made is None or len(made) != held or not all(isinstance(made[i], str) and made[i] for i in needed):
            raise rule.wrong(f"left '{op.name}' without values: w.registers[op.result] has {held}", "w.let gives one")
        return
    sources, out = [w.registers[o] for o in op.operands], [""] * held
    for i in needed:
        out[i] = rule(w, op, [each[i] for each in sources])
        if not isinstance(out[i], str) or not out[i]:
            raise rule.wrong(f"gave {out[i]!r:.60} for an element of '{op.name}'", "a value of LLVM: w.let gives one")
    w.registers[op.result] = out


def inline(w: Writer, region: Block, arguments: list[str]) -> list[str]:
    """Emits a region that computes scalars. `arguments` contains a register for each argument of the region. Returns
    the registers that the region yields."""
    saved = w.text.dbg
    for arg, register in zip(region.args, arguments, strict=True):
        w.registers[arg] = [register]
    for op in region.ops[:-1]:
        for result in op.results:
            w.needed.forget(result)
        emit_op(w, op)
    w.text.dbg = saved
    return [w.registers[v][0] for v in region.ops[-1].operands]
