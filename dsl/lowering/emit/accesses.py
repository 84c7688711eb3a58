"""Decides how each memory access is emitted: its width, its handling of masks, and its address computation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from dsl.lowering.emit.global_map import GlobalMap
from dsl.lowering.emit.maps import Maps
from dsl.lowering.emit.switches import Switches
from dsl.lowering.emit.words import count_of
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, subject_of, walk
from dsl.lowering.ops import operand, required, space_of
from dsl.lowering.ops.memory import by_threads
from dsl.lowering.shared.access_width import access_width, is_partial, shifted_width
from dsl.lowering.shared.shared_map import SharedMap


class Way(Struct, frozen=True):
    """How one memory access is emitted.

    `width`: the number of elements that one instruction accesses.
    `partial`: True if the mask may be on (true) for some of these elements and off for others.
    `branches`: True if the access is emitted in two branches: one for a mask that is on for all elements, one for other
        masks. If False, each element is tested separately.
    `shifted`: True if a load reads the two aligned blocks of 16 bytes that contain these elements, and shifts them.
    `shared`, `tensor`: the linear maps that give addresses in a shared tile and in a tensor. If None, each address is
        computed from the register that contains its offset.
    """

    width: int
    partial: bool
    branches: bool
    shared: SharedMap | None
    tensor: GlobalMap | None
    shifted: bool = False


class Accesses(dict[Op, Way]):
    """Maps each access to a shared tile or a tensor to its `Way`."""

    def __init__(self, function: Function, maps: Maps, switches: Switches):
        super().__init__()
        self.switches, self.maps = switches, maps
        # Maps are built for the last access first, as in `demand.py`, because this order determines the order of the
        # scalars in addresses.
        for op in filter(_touches, _last_first(function.body)):
            self._maps_of(op)
        for op in filter(_touches, walk(function.body)):
            self[op] = self._way(op)

    def _maps_of(self, op: Op) -> tuple[SharedMap | None, GlobalMap | None]:
        there = _offset_in_tensor(op)
        shared = self.maps.of_shared(op) if space_of(op.operands[0]) == "shared" else None
        return shared, None if there is None else self.maps.of_global(there)

    def _way(self, op: Op) -> Way:
        shared, tensor = self._maps_of(op)
        if op.spec.joint:  # `ldmatrix`, `stmatrix`: a thread's address is that of a row
            return Way(1, False, False, shared, None)
        if (shared is not None or tensor is not None) and not self._choose(
            "address", op, {"divided": True, "plain": False}, "the offset is linear in the thread's number and scalars"
        ):
            shared = tensor = None
        width, partial, branches = 1, False, False
        if "action" not in op.attrs:
            width = access_width(self.maps.facts, op)
            partial = is_partial(self.maps.facts, op, width)
        wide = shifted_width(self.maps.facts, op) if width == 1 else 0
        if wide:
            mask = operand(op, "mask")
            masked = mask is not None and constant_of(mask) is not True
            return Way(wide, masked, masked, shared, tensor, True)
        if partial:
            count, options = count_of(required(op, "offset")), {"branches": True, "single": False}
            costs, unit = {"branches": count / width, "single": count}, "accesses a thread where the mask is on"
            because = "the mask may be on for a part of an access"
            branches = self._choose("partial", op, options, because, costs=costs, unit=unit)
            # `cp.async` stays wide, because it has an operand for the number of bytes that it reads
            if not branches and not op.spec.in_flight:
                width, partial = 1, False
        return Way(width, partial, branches, shared, tensor)

    def _choose(self, kind: str, op: Op, options: dict[str, bool], because: str, **more: Any) -> bool:
        return self.switches.of(op, kind, options, because, subject=subject_of, **more)


def _touches(op: Op) -> bool:
    return by_threads(op) and space_of(op.operands[0]) != "param"


def _last_first(block: Block) -> Iterator[Op]:
    """Yields operations from last to first, as `demand.py` visits them. The operations of a region come before the
    operation that contains the region."""
    for op in reversed(block.ops):
        for region in op.regions:
            yield from _last_first(region)
        yield op


def _offset_in_tensor(op: Op) -> Value | None:
    """Returns the offsets of an access into its tensor. For a copy from a tensor, these are the offsets of its
    source."""
    return operand(op, "offset" if space_of(op.operands[0]) == "global" else "source")
