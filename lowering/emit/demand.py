"""Which registers of a value are read: index arithmetic is done only for the first element of each wide access."""

from __future__ import annotations

from lowering.access_width import vector_width
from lowering.emit.rules import count_of
from lowering.emit.shapes import source_registers
from lowering.emit.writer import Writer
from lowering.ir import Block, Function, Op, Value, walk
from lowering.ops import operand, space_of
from lowering.types import TileType


def mark_needed(w: Writer, function: Function) -> None:
    """Fills `w.needed`, from the last operation to the first."""
    _block(w, function.body)


def _add(w: Writer, value: Value, registers: set[int]) -> None:
    if isinstance(value.type, TileType):
        w.needed.setdefault(value, set()).update(registers)


def _all(w: Writer, value: Value) -> None:
    if isinstance(value.type, TileType):
        _add(w, value, set(range(count_of(value))))


def _block(w: Writer, block: Block) -> None:
    for op in reversed(block.ops):
        for region in op.regions:
            if op.name not in ("reduce", "partial_reduce", "scan"):
                _block(w, region)
            else:  # emitted anew for every pair that it joins; scalars of the kernel may be named in it
                for inner in walk(region):
                    for o in inner.operands:
                        _all(w, o)
        _op(w, op)


def _op(w: Writer, op: Op) -> None:
    name = op.name
    if op.spec.elementwise and name != "asm":
        needed = w.needed.get(op.result, set())
        for o in op.operands:
            _add(w, o, needed)
    elif name in ("broadcast", "reshape", "transpose", "convert_layout"):
        picked = source_registers(op)
        _add(w, op.operands[0], {picked[i] for i in w.needed.get(op.result, set())})
    elif name in ("load", "store") and space_of(op.operands[0]) != "param":
        offset, mask = operand(op, "offset"), operand(op, "mask")
        assert offset is not None
        value = op.results[0] if op.results else operand(op, "value")
        assert value is not None
        layout = value.tile.layout
        width = vector_width(w.facts, op, offset, op.operands[0], mask, layout)
        firsts = set(range(0, count_of(value), width))
        for o in op.operands:
            if o is offset or o is mask:
                _add(w, o, firsts)
            else:
                _all(w, o)
    else:
        for o in op.operands:
            _all(w, o)
