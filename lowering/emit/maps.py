"""How the addresses of accesses are added up."""

from __future__ import annotations

from lowering.emit.global_map import GlobalMap, map_of
from lowering.facts import facts_of
from lowering.ir import Function, Op, Value
from lowering.shared_map import SharedMap, SharedMaps, access_layout_of


class Maps:
    """The linear maps of offsets. given: parameters, strides and dims, which are known at the head."""

    def __init__(self, function: Function):
        self.facts = facts_of(function)
        self.given: set[Value] = set()
        self._maps = SharedMaps(self.facts)
        self.affines = self._maps.affines
        self._global: dict[Value, GlobalMap | None] = {}
        self._shared: dict[Op, SharedMap | None] = {}

    def of_global(self, offset: Value) -> GlobalMap | None:
        """The map of offsets that `GlobalAddress` adds up without their registers; None where it needs them."""
        if offset not in self._global:
            self._global[offset] = map_of(self.affines, self.facts, offset)
        return self._global[offset]

    def of_shared(self, op: Op) -> SharedMap | None:
        """The same of an access of a shared tile, for `SharedAddress`."""
        if op not in self._shared:
            self._shared[op] = self._maps.of(op, access_layout_of(op))
        return self._shared[op]
