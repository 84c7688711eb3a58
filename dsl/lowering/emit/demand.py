"""Finds which registers of each value are read. Index arithmetic is emitted only for the first element of each wide
access."""

from __future__ import annotations

from collections.abc import Iterable

from dsl.lowering.emit.masks import leaves
from dsl.lowering.emit.partial import whole_flags
from dsl.lowering.emit.shapes import read_registers
from dsl.lowering.emit.words import count_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Block, Function, Op, Value, walk
from dsl.lowering.ir.types import TileType
from dsl.lowering.ops import operand, space_of
from dsl.lowering.ops.memory import by_threads


def mark_needed(w: Writer, function: Function) -> None:
    """Fills `w.needed`, from the last operation to the first."""
    _block(w, function.body)


def _add(w: Writer, value: Value, registers: Iterable[int]) -> None:
    if isinstance(value.type, TileType):
        w.needed.add(value, registers)


def _all(w: Writer, value: Value) -> None:
    if isinstance(value.type, TileType):
        _add(w, value, range(count_of(value)))


def _block(w: Writer, block: Block) -> None:
    for op in reversed(block.ops):  # backwards: all uses of a value are noted before the operation that computes it
        for region in op.regions:
            if op.spec.control.flows:
                _block(w, region)
            else:  # the function of a reduction, which is emitted for each pair; it may use scalars of the kernel
                for inner in walk(region):
                    for o in inner.operands:
                        _all(w, o)
        _op(w, op)


def _op(w: Writer, op: Op) -> None:
    if op.spec.pure:
        for result in op.results:  # noted as unread, so that it is not emitted: its operands may have no registers
            w.needed.add(result, ())
    if (op.spec.elementwise and op.spec.pure) or op.spec.placement.picks is not None:
        needed = read_registers(op, w.needed.noted(op.result))
        for o in op.operands:
            _add(w, o, needed)
    elif op.spec.leaves:  # a TMA store: scalar corners say where, and no offset of an element is needed
        for o in op.operands:
            if isinstance(o.type, TileType) and o.shape:
                _add(w, o, ())
            else:
                _all(w, o)
    elif op.spec.joint:  # `ldmatrix`, `stmatrix`: the address belongs to the thread, not to a register of the offsets
        for what, o in zip(op.attrs["has"], op.operands, strict=True):
            if what != "offset":
                _all(w, o)
            else:
                _starts(w, op)
                _add(w, o, ())
    elif op.attrs.get("in_place"):  # wgmma reads it: the descriptor needs the stage only
        for o in op.operands:
            _add(w, o, ())
        stage = operand(op, "stage") if "has" in op.attrs else None
        if stage is not None:
            _all(w, stage)
    elif by_threads(op) and op.spec.access.kind != "update" and space_of(op.operands[0]) != "param":
        _access(w, op)
    else:
        for o in op.operands:
            _all(w, o)


def _starts(w: Writer, op: Op) -> bool:
    """Marks the scalars of the linear map of a shared access. Returns whether there is such a map."""
    found = w.accesses[op].shared
    for scalar, _ in found.terms if found else ():
        _all(w, scalar)
    return found is not None


def _access(w: Writer, op: Op) -> None:
    """Marks what an access reads: the address of its first element, and its mask if that is the same for all of its
    elements. If not, the branches of a partial access read the ends of the mask, and compute the masks of elements
    again where these are needed."""
    mask, offset = operand(op, "mask"), operand(op, "offset")
    assert offset is not None
    way, count = w.accesses[op], count_of(offset)
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
