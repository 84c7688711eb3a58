"""Finds which registers of each value are read. With this result, index arithmetic is emitted only for the first
element of each wide access."""

from __future__ import annotations

from collections.abc import Iterable

from dsl.lowering.emit.masks import leaves
from dsl.lowering.emit.partial import whole_flags
from dsl.lowering.emit.shapes import read_registers
from dsl.lowering.emit.words import count_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Block, Function, Op, Value, walk
from dsl.lowering.ir.types import TileType, ViewType
from dsl.lowering.ops import operand, required, space_of
from dsl.lowering.ops.memory import by_threads


def mark_needed(w: Writer, function: Function) -> None:
    """Fills `w.needed`. Visits the operations from the last to the first."""
    _block(w, function.body)


def _add(w: Writer, value: Value, registers: Iterable[int]) -> None:
    if isinstance(value.type, TileType):
        w.needed.add(value, registers)


def _all(w: Writer, value: Value) -> None:
    if isinstance(value.type, TileType):
        _add(w, value, range(count_of(value)))


def _block(w: Writer, block: Block) -> None:
    for op in reversed(block.ops):  # reversed, so that all uses of a value come before its operation
        for region in op.regions:
            if op.spec.control.flows:
                _block(w, region)
            else:  # the function of a reduction, which may use scalars of the kernel
                for inner in walk(region):
                    for o in inner.operands:
                        _all(w, o)
        _op(w, op)


def _op(w: Writer, op: Op) -> None:
    if op.spec.pure:
        for result in op.results:  # Noted as unread, so that it is not emitted: its operands may have no registers.
            _add(w, result, ())
    if (op.spec.elementwise and op.spec.pure) or op.spec.placement.picks is not None:
        needed = read_registers(op, w.needed.noted(op.result))
        for o in op.operands:
            _add(w, o, needed)
    elif op.spec.leaves:  # a TMA store: only the scalar coordinates of its corner are needed
        for o in op.operands:
            if isinstance(o.type, TileType) and o.shape:
                _add(w, o, ())
            else:
                _all(w, o)
    elif op.spec.joint:  # `ldmatrix`, `stmatrix`: the registers of the offsets are not needed
        for what, o in zip(op.attrs["has"], op.operands, strict=True):
            if what != "offset":
                _all(w, o)
            else:
                _starts(w, op)
                _add(w, o, ())
    elif op.results and isinstance(op.result.type, ViewType):  # its descriptor needs only the stage
        for o in op.operands:
            _add(w, o, ())
        stage = operand(op, "stage")
        if stage is not None:
            _all(w, stage)
    elif by_threads(op) and op.spec.access.kind != "update" and space_of(op.operands[0]) != "param":
        _access(w, op)
    else:
        for o in op.operands:
            _all(w, o)


def _starts(w: Writer, op: Op) -> bool:
    """Marks the scalars in the linear address map of a shared memory access as read. Returns whether the access has
    such a map."""
    found = w.accesses[op].shared
    for scalar, _ in found.terms if found else ():
        _all(w, scalar)
    return found is not None


def _access(w: Writer, op: Op) -> None:
    """Marks the registers that an access reads: the offset of its first element, and one mask if all elements have the
    same mask. If masks may differ, the access first reads the flags at both ends of a thread's contiguous elements. It
    then recomputes the masks of single elements."""
    mask, way, count = operand(op, "mask"), w.accesses[op], count_of(required(op, "offset"))
    firsts = range(0, count, way.width)
    space = space_of(op.operands[0])
    for what, o in zip(op.attrs["has"], op.operands, strict=True):
        if what == "mask":
            _add(w, o, firsts if not way.partial else () if way.branches else range(count))
        elif what == "source" or (what == "offset" and space == "global"):
            _add(w, o, firsts if way.tensor is None else ())
            for scalar in way.tensor.scalars(w.maps.affines) if way.tensor else ():
                _all(w, scalar)
        elif what == "offset":
            _add(w, o, () if _starts(w, op) else firsts)
        else:
            _all(w, o)
    if mask is None or not (way.partial and way.branches):
        return
    for flag, register in whole_flags(w, mask):
        _add(w, flag, {register})
    for leaf, registers in leaves(mask, range(count)).items():
        _add(w, leaf, registers)
