"""Which way each access is emitted: how many elements at once, what of a mask that cuts some, by which address."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dsl.lowering.emit.global_map import GlobalMap
from dsl.lowering.emit.maps import Maps
from dsl.lowering.emit.switches import Switches
from dsl.lowering.emit.words import count_of
from dsl.lowering.ir.function import Block, Function, Op, Value, walk
from dsl.lowering.ops import operand, space_of
from dsl.lowering.ops.memory import by_threads, subject_of
from dsl.lowering.shared.access_width import access_width, is_partial
from dsl.lowering.shared.shared_map import SharedMap


@dataclass(frozen=True, slots=True)
class Way:
    """width: elements of one access. partial: its mask may be on for a part of them; branches: where it is on for all,
    and where not, are two ways, else each element's mask is asked.

    shared, tensor: the maps by which addresses in a shared tile and in a tensor are added up; None where each comes
    from the register of its offset.
    """

    width: int
    partial: bool
    branches: bool
    shared: SharedMap | None
    tensor: GlobalMap | None


class Accesses(dict[Op, Way]):
    """The ways of a function's accesses to shared tiles and tensors."""

    def __init__(self, function: Function, maps: Maps, switches: Switches):
        super().__init__()
        self.switches, self.maps = switches, maps
        for op in filter(
            _touches, _last_first(function.body)
        ):  # scalars are added in the order in which maps meet them
            self._maps_of(op)
        for op in filter(_touches, walk(function.body)):
            self[op] = self._way(op)

    def _maps_of(self, op: Op) -> tuple[SharedMap | None, GlobalMap | None]:
        there = _offset_in_tensor(op)
        shared = self.maps.of_shared(op) if space_of(op.operands[0]) == "shared" else None
        return shared, None if there is None else self.maps.of_global(there)

    def _way(self, op: Op) -> Way:
        shared, tensor = self._maps_of(op)
        if op.spec.joint:  # its address is the thread's, and no element's
            return Way(1, False, False, shared, None)
        if (shared is not None or tensor is not None) and not self._choose(
            "address", op, {"divided": True, "plain": False}, "the offset is linear in the thread's number and scalars"
        ):
            shared = tensor = None
        width, partial, branches = 1, False, False
        if "action" not in op.attrs:
            width = access_width(self.maps.facts, op)
            partial = is_partial(self.maps.facts, op, width)
        if partial:
            count, options = count_of(_offset_of(op)), {"branches": True, "single": False}
            costs, unit = {"branches": count / width, "single": count}, "accesses a thread where the mask is on"
            because = "the mask may be on for a part of an access"
            branches = self._choose("partial", op, options, because, costs=costs, unit=unit)
            if not branches and not op.spec.in_flight:
                width, partial = 1, False
        return Way(width, partial, branches, shared, tensor)

    def _choose(self, kind: str, op: Op, options: dict[str, bool], because: str, **more: Any) -> bool:
        return self.switches.of(op, kind, options, because, subject=subject_of, **more)


def _touches(op: Op) -> bool:
    return by_threads(op) and space_of(op.operands[0]) != "param"


def _last_first(block: Block) -> Iterator[Op]:
    """Operations in the order in which demand goes through them."""
    for op in reversed(block.ops):
        for region in op.regions:
            yield from _last_first(region)
        yield op


def _offset_of(op: Op) -> Value:
    offset = operand(op, "offset")
    assert offset is not None
    return offset


def _offset_in_tensor(op: Op) -> Value | None:
    """The offsets of an access in a tensor; a copy's are those of its source."""
    return operand(op, "offset" if space_of(op.operands[0]) == "global" else "source")
