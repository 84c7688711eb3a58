"""Moves TMA copies that are the same in all iterations in front of the loops. Their data is called a resident operand.

    for tile:                        copy sf, f[…]         iteration 0 of the pipeline
        for c:                       for tile:
            copy sx, x[tile, c]  →       for c:
            copy sf, f[…]                    copy sx, x[tile, c]      iterations from 1 on
            …                                …

Example: all tiles of a persistent block are multiplied by the same filter. A resident operand needs no ring of stages:
its shared tile is written once, and every iteration reads it. The copies in front of the loops form iteration 0 of the
pipeline. The consumer releases that iteration as soon as the copies have arrived, because stage 0 of the other
operands' rings contains no data yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from dsl.lowering.building.builder import Builder
from dsl.lowering.building.iterations import known_iterations
from dsl.lowering.directives.slices import impure, leaves_of, made_anew, slice_of
from dsl.lowering.hopper.boxes import CopiedBox
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Function, Op, Value
from dsl.lowering.ops import operand
from dsl.lowering.ops.memory import clears

ONCE = {"once": True, "always": False}


def choose_resident(function: Function, loops: Sequence[Op], copies: Sequence[Op]) -> list[Op]:
    """Chooses which `copies` at the start of the innermost loop's body become resident. `loops` starts with the
    outermost loop."""
    if not all(loop.spec.control.counters for loop in loops):  # `roles` refuses copies in a branch or a `while`
        return []
    if function.blocks_of_cluster > 1:  # multicast is used instead: each block of a cluster copies a part
        return []
    tiles = {copy.operands[0] for copy in copies}
    others = {copy.operands[0] for copy in copies if not _may_last(loops, copy)}
    # An iteration whose mask excludes elements sets them to 0, and the next one may need them.
    others |= {op.operands[0] for op in loops[-1].regions[0].ops if clears(op)}
    if not others:  # the pipeline needs a copy in each iteration
        return []
    last = {}
    for tile in tiles - others:
        tensors = [operand(copy, "tensor") for copy in copies if copy.operands[0] is tile]
        name = next((tensor.name for tensor in tensors if tensor is not None and tensor.name), "tensor")
        why = "all iterations of all loops around copy the same box"
        last[tile] = function.choices.choose("reload", name, ONCE, "once", loc=loops[-1].loc, because=why)
    return [copy for copy in copies if last.get(copy.operands[0])]


def _may_last(loops: Sequence[Op], copy: Op) -> bool:
    """Whether a copy has the same TMA box in all iterations: no corner may depend on counters or carried values."""
    if "box" not in copy.attrs:
        return False
    part = _part(loops, copy)
    own = {arg for loop in loops for arg in loop.regions[0].args} - _of_one_iteration(loops).keys()
    return impure(part) is None and not own & leaves_of(part, _corners(copy))


def _of_one_iteration(loops: Sequence[Op]) -> dict[Value, int]:
    """Maps the counter of each loop with a single iteration to its constant value."""
    starts = {loop.regions[0].args[0]: constant_of(loop.operands[0]) for loop in loops if known_iterations(loop) == 1}
    return {counter: int(start) for counter, start in starts.items() if start is not None}


def _corners(copy: Op) -> list[Value]:
    return [value for value in CopiedBox.of(copy).operands.values() if value is not None]


def _part(loops: Sequence[Op], copy: Op) -> list[Op]:
    """Returns the operations in the loops that compute the corners of a copy's box."""
    return slice_of([op for loop in loops for op in loop.regions[0].ops if op not in loops], _corners(copy))


def copied_ahead(b: Builder, loops: Sequence[Op], copies: Sequence[Op]) -> None:
    """Builds `copies` again at the insertion point of `b`, in front of the loops."""
    table = {counter: b.constant(start, counter.dtype) for counter, start in _of_one_iteration(loops).items()}
    for copy in copies:
        part, box = _part(loops, copy), CopiedBox.of(copy)
        b.place = (copy.loc or b.loc, None)
        parts = {"memory": copy.operands[0], "offset": operand(copy, "offset"), "tensor": operand(copy, "tensor")}
        corners = {n: v if v is None else made_anew(b, part, table, v) for n, v in box.operands.items()}
        b.access("copy", parts | corners, cache=None, bytes=0, **box.attrs)
