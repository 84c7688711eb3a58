"""Emits constants, `arange`, block numbers and changes of shape. A change of shape only renames registers."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from operator import or_

from dsl.lowering.emit.constants import constant
from dsl.lowering.emit.rules import rule
from dsl.lowering.emit.words import count_of, layout_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Op
from dsl.lowering.layouts.layout import BasisSpan, Layout, apply
from dsl.lowering.ops import OPS


def source_registers(op: Op) -> list[int]:
    """Returns, for each register of the result, the operand register that contains its value."""
    result = op.result.tile.layout
    source = op.operands[0].tile.layout
    if result is None or source is None:
        return [0] * count_of(op.result)
    registers = op.spec.placement.picks(op, source, result)
    assert registers is not None, (op, str(source), str(result))
    return registers


def read_registers(op: Op, registers: Collection[int]) -> set[int]:
    """Returns the operand registers from which `registers` of the result are computed. `op` must be elementwise or a
    change of shape."""
    if op.spec.elementwise or not op.operands:
        return set(registers)
    if not registers:  # the tile of a TMA box's places, which is not in registers, counts 32,768 registers
        return set()
    picked = source_registers(op)
    return {picked[r] for r in registers}


@rule("constant")
def _constant(w: Writer, op: Op) -> None:
    text = constant(op.attrs["value"], op.attrs["dtype"])
    w.registers[op.result] = [text] * count_of(op.result)


@rule("arange")
def _arange(w: Writer, op: Op) -> None:
    layout = layout_of(op.result)
    part = w.head.coordinate(layout)
    out = [""] * layout.count
    disjoint = _disjoint(layout)
    for i in w.needed.of(op.result, layout.count):
        out[i] = plus(w, part, layout.offsets[i], disjoint)
    w.registers[op.result] = out


def plus(w: Writer, part: str, offset: int, disjoint: bool) -> str:
    """Combines the part of a coordinate that depends on the thread with the part that depends on the register."""
    if not offset:
        return part
    if part == "0":
        return str(offset)
    kind = "add nuw nsw" if disjoint else "xor"  # both compute the same result if no bit is set in both parts
    return w.head.once(f"{kind} {w.index} {part}, {offset}")


def _disjoint(layout: Layout) -> bool:
    thread = reduce(or_, layout.thread, 0)
    return not any(b & thread for b in layout.register)


@rule(*(name for name, spec in OPS.items() if spec.placement.picks is not None))
def _rename(w: Writer, op: Op) -> None:
    if not w.needed.of(op.result, 1):  # nothing reads the tile: a TMA box's places count 32,768 registers
        w.registers[op.result] = [""] * count_of(op.result)
        return
    picked = source_registers(op)
    packed = w.words.held.get(op.operands[0])
    # If no word is split, whole words are renamed, which saves unpacking and packing.
    if packed is not None:
        per = len(picked) // len(packed) if len(picked) == count_of(op.operands[0]) else 0
        groups = [picked[i : i + per] for i in range(0, len(picked), per)] if per else []
        if all(g[0] % per == 0 and g == list(range(g[0], g[0] + per)) for g in groups) and groups:
            w.words.held[op.result] = [packed[g[0] // per] for g in groups]
            return
    source = w.registers[op.operands[0]]
    out = [""] * len(picked)
    for i in w.needed.of(op.result, len(picked)):
        out[i] = source[picked[i]]
    w.registers[op.result] = out


@rule("stack")
def _stack(w: Writer, op: Op) -> None:
    layout, count, span = layout_of(op.result), len(op.operands), BasisSpan(layout_of(op.operands[0]).register)
    out = []
    for r in range(layout.count):
        coordinate = apply(layout.register, r)
        which, rest = coordinate % count, coordinate // count
        solved = span.solve(rest)
        assert solved is not None
        out.append(w.registers[op.operands[which]][solved])
    w.registers[op.result] = out


_SPECIAL = {"block_id": "ctaid.{}", "grid_size": "nctaid.{}", "cluster_id": "clusterid.x"}


@rule(*_SPECIAL)
def _of_grid(w: Writer, op: Op) -> None:
    w.registers[op.result] = [w.head.special(_SPECIAL[op.name].format("xyz"[op.attrs["axis"]]))]


@rule("cluster_rank")
def _rank(w: Writer, op: Op) -> None:
    rank = w.head.special("cluster.ctarank")
    if op.attrs["axis"]:
        rank = w.head.once(f"udiv {w.index} {rank}, {op.attrs['apart']}")
    elif op.attrs["blocks"] < w.function.blocks_of_cluster:
        rank = w.head.once(f"urem {w.index} {rank}, {op.attrs['blocks']}")
    w.registers[op.result] = [rank]
