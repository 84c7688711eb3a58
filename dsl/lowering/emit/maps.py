"""Finds the linear maps from which the addresses of memory accesses are computed."""

from __future__ import annotations

from dsl.lowering.emit.global_map import GlobalMap, map_of
from dsl.lowering.ir.function import Function, Op, Value
from dsl.lowering.known.affine import AffineOffsets, Linear, Offsets
from dsl.lowering.known.facts import facts_of
from dsl.lowering.shared.shared_map import SharedMap, SharedMaps, access_layout_of


class _OfThreads(AffineOffsets):
    """Finds the linear offsets of one thread. If a tile has one element per thread and is not linear (loaded indices,
    for example), this element counts as a scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.exact = AffineOffsets()

    def _compute(self, value: Value) -> Offsets | None:
        layout = value.tile.layout
        if layout is not None and not any(layout.register) and self.exact.offsets(value) is None:
            return {self._named(value): Linear((0,) * len(value.tile.shape), 1)}
        return super()._compute(value)


class Maps:
    """The linear maps of offsets. `given` contains the values that exist at the start of the kernel: parameters,
    strides and run-time sizes."""

    def __init__(self, function: Function):
        self.facts = facts_of(function)
        self.given: set[Value] = set()
        self._maps = SharedMaps(self.facts)
        self.affines = _OfThreads()
        self._global: dict[Value, GlobalMap | None] = {}
        self._shared: dict[Op, SharedMap | None] = {}

    def of_global(self, offset: Value) -> GlobalMap | None:
        """Returns the map from which `GlobalAddress` computes the addresses for these offsets, or None if there is
        none."""
        if offset not in self._global:
            self._global[offset] = map_of(self.affines, self.facts, offset)
        return self._global[offset]

    def of_shared(self, op: Op) -> SharedMap | None:
        """Returns the map from which `SharedAddress` computes the addresses of an access to a shared tile, or None if
        there is none."""
        if op not in self._shared:
            self._shared[op] = self._maps.of(op, access_layout_of(op))
        return self._shared[op]
