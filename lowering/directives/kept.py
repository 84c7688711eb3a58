"""`stage v: shared` of a value that is done in parts: it lies in shared memory between the loops over its parts.

A load is kept as it is loaded, whatever it is converted to. Where 4 aligned bytes are neighbours it goes there by
copies, which are all on their way before the first of them is read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from lowering.access_width import ASYNC_BYTES, neighbours
from lowering.directives.stage import place_of
from lowering.directives.wide import Wide, WideRegion, slices
from lowering.facts import Analysis, facts_now
from lowering.fold import constant_of
from lowering.ir import Function, Op, Value, walk
from lowering.location import TileError
from lowering.ops import operand
from lowering.targets import Target
from lowering.types import INDEX, TensorType


@dataclass(slots=True)
class Kept:
    """A value that stays in shared memory. by_copies: it is a load, and goes there by copies. tile: where it lies, a
    slot for each part; full: all parts are there."""

    value: Value
    axis: int
    name: str
    by_copies: bool
    tile: Value | None = None
    full: bool = False

    @property
    def op(self) -> Op:
        """What makes it."""
        assert self.value.op is not None
        return self.value.op

    @property
    def filling(self) -> tuple[Value, Value] | None:
        """Mask of the load, and what is in place of what is not loaded; None where those are zeros, as copies leave."""
        mask, other = operand(self.op, "mask"), operand(self.op, "other")
        return (mask, other) if mask is not None and other is not None and constant_of(other) != 0 else None


def words_of(function: Function, names: Collection[str]) -> dict[str, str]:
    """What the schedule says of values of these names: `shared` or `registers`."""
    tensors = {p.name for p in function.params}
    said = function.by_subject("stage", str)
    return {name: word for name, word in said.items() if name in names and name not in tensors}


def kept_of(function: Function, region: WideRegion, target: Target, static: bool) -> list[Kept]:
    """The values that the schedule keeps in shared memory. TileError `schedule` for those that cannot be."""
    facts, found = facts_now(function), []
    room = target.shared - sum(op.attrs["type"].bytes for op in walk(function.body) if op.spec.allocates)
    for name, word in words_of(function, region.names).items():
        place = function.lines.get(("stage", name))
        if word != "shared":
            continue
        if static:
            message = f"'{name}' stays in registers: the parts of '{region.about.name}' are static"
            raise TileError("schedule", place, message, f"loop {region.about.name}, {region.about.axis}: N")
        value = _narrowest([v for op in region.block.ops for v in op.results if v.name == name][-1], region)
        if value.dtype is INDEX:
            raise TileError(
                "schedule", place, f"'{name}' is an index, which has no type in memory", f"recompute {name}"
            )
        size = prod(value.shape) * value.dtype.bytes
        if size > room:
            message = f"'{name}' cannot be staged: it has {size} bytes, and {max(room, 0)} of shared memory are left"
            raise TileError("schedule", place, message, f"recompute {name}")
        room -= size
        found.append(Kept(value, region.axes[value], name, _by_copies(value, facts)))
    values = {each.value for each in found}
    for each in found:
        if each.by_copies and any(values.intersection(op.results) for op in slices(_places(each))):
            each.by_copies = False  # it is loaded from where another one says, which comes at the same time
    return found


def _places(kept: Kept) -> list[Wide]:
    """What decides what a load reads."""
    return [(value, kept.axis) for value in place_of(kept.op) if value.shape]


def _narrowest(value: Value, region: WideRegion) -> Value:
    """The value that this one is a wider conversion of."""
    op = value.op
    while op is not None and op.spec.converts and op.operands[0] in region.axes:
        if op.operands[0].dtype.bits >= value.dtype.bits:
            break
        value = op.operands[0]
        op = value.op
    return value


def _by_copies(value: Value, facts: Analysis) -> bool:
    """Whether it is a load that asynchronous copies can do."""
    op = value.op
    if op is None or not op.spec.accesses or not isinstance(op.operands[0].type, TensorType):
        return False
    return not op.attrs["evict"] and neighbours(facts, op, "falls") * value.dtype.bytes in ASYNC_BYTES
