"""Computes which shared tiles may share bytes.

Two tiles may not share bytes if one is written while the other is live, or while copies into the other are in flight. A
tile is live if it may still be read. It is not live directly before a store of the whole tile.

Different threads may access two tiles that share bytes, so a block-wide barrier is needed between the accesses.
`unordered` contains the pairs that do not have this barrier yet.

A set of tiles is an integer: bit i is 1 if tile i is in the set.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from msgspec import Struct
from msgspec.structs import astuple, replace

from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, walk
from dsl.lowering.known.affine import AffineOffsets
from dsl.lowering.ops import operand
from dsl.lowering.ops.control import parting
from dsl.lowering.ops.spec import AccessEffect


def members(tiles: int) -> list[int]:
    return [i for i in range(tiles.bit_length()) if tiles >> i & 1]


class _State(Struct):
    """Sets of tiles at one point of the kernel. `touched` contains the tiles accessed since the last block-wide
    barrier. Copies into the tiles `open` and `committed` are in flight. TMA stores from the tiles `stored` are in
    flight."""

    touched: int = 0
    open: int = 0  # copies that are not committed yet: a wait does not end them
    committed: int = 0
    stored: int = 0

    def merged(self, other: _State) -> _State:
        return _State(*(a | b for a, b in zip(astuple(self), astuple(other), strict=True)))


class Lifetimes:
    """Analyses the lifetimes of shared tiles. `apart[i]` is the set of tiles that may not share bytes with tile i.
    `unordered[i]` is the set of tiles that may share bytes with tile i only if a barrier is added. `needs[op]` maps
    each tile i that `op` accesses to a set of tiles: if one of them shares bytes with tile i, `op` needs a barrier
    before it."""

    def __init__(self, function: Function):
        self.function = function
        self.tiles = [op for op in function.body.ops if op.spec.allocates]
        self.number = {op.result: i for i, op in enumerate(self.tiles)}
        self.affines = AffineOffsets()
        self.stepped: dict[Block, list[Op]] = {}
        self.effects: dict[Op, Sequence[AccessEffect]] = {}
        self.apart = [0] * len(self.tiles)
        self.unordered = [0] * len(self.tiles)
        self.needs: dict[Op, dict[int, int]] = {}
        if len(self.tiles) > 1:
            for op in self.tiles:
                if op.attrs.get("remote"):
                    self.keep_apart(op.result)
            self.forward(function.body, _State(), False)
            self.backward(function.body, 0)
            for sets in (self.apart, self.unordered):
                for i, tiles in enumerate(sets):
                    for j in members(tiles):
                        sets[j] |= 1 << i

    def steps(self, block: Block) -> list[Op]:
        """Returns the relevant operations of an IR block: accesses to shared tiles, barriers, waits, loops and
        branches."""
        known = self.stepped.get(block)
        if known is None:
            known = [op for op in block.ops if op.spec.control.flows or op.spec.orders or self.tiles_of(op)]
            self.stepped[block] = known
        return known

    def tiles_of(self, op: Op) -> list[int]:
        """Returns the numbers of the shared tiles that `op` accesses."""
        if not op.spec.access.touches:
            return []
        memories = dict.fromkeys(effect.memory for effect in self.effects_of(op))
        return [self.number[memory] for memory in memories if memory in self.number]

    def effects_of(self, op: Op) -> Sequence[AccessEffect]:
        known = self.effects.get(op)
        if known is None:
            known = self.effects[op] = op.spec.access.effects(op)
        return known

    # ---- unordered accesses, and copies in flight ----

    def forward(self, block: Block, state: _State, divided: bool) -> _State:
        """Computes the state after an IR block from the `state` before it. If `divided`, only some threads execute the
        IR block, so it cannot contain a block-wide barrier."""
        for op in self.steps(block):
            if op.spec.control.loops:
                state = self.loop(op, state, divided or parting(op) is not None)
            elif op.spec.control.concurrent:
                self.pipeline(op)
                state = self.forward(op.regions[-1], _State(), divided)
            elif op.spec.control.flows:
                apart = divided or parting(op) is not None
                if apart:  # different threads execute both sides, one after the other
                    for region in op.regions:
                        state = state.merged(self.forward(region, replace(state), apart))
                else:
                    sides = [self.forward(region, replace(state), apart) for region in op.regions]
                    state = sides[0].merged(sides[1])
            elif op.spec.orders == "threads":
                if op.attrs["scope"] == "block" or self.function.warps == 1:  # one warp: its barrier is the block's
                    state.touched = 0
            elif op.spec.orders == "group":
                state.open, state.committed = 0, state.committed | state.open
            elif op.spec.orders == "end":
                # A wait that leaves some groups in flight does not change the state, because the state does not
                # distinguish groups.
                if not op.attrs["groups"]:
                    state.touched, state.committed = state.touched | state.committed, 0
            elif op.spec.orders == "their end":
                if not op.attrs["groups"]:
                    state.touched, state.stored = state.touched | state.stored, 0
            else:
                for tile in self.tiles_of(op):
                    self.access(op, tile, state, divided)
        return state

    def pipeline(self, roles: Op) -> None:
        """Forbids that the tiles of a TMA pipeline share bytes with any other tile: the producer may write them at any
        time."""
        mine = {roles.operands[0], *(op.operands[0] for op in walk(roles.regions[0]) if op.spec.access.touches)}
        for tile in mine & self.number.keys():  # the producer may read tensors, too
            self.keep_apart(tile)

    def keep_apart(self, tile: Value) -> None:
        """Forbids that a tile shares bytes with any other tile."""
        number = self.number[tile]
        self.apart[number] |= (1 << len(self.tiles)) - 1 & ~(1 << number)

    def loop(self, op: Op, state: _State, divided: bool) -> _State:
        while True:  # until the state stops growing
            leaving = state
            for test in op.regions[:-1]:
                leaving = self.forward(test, replace(leaving), divided)
            following = state.merged(self.forward(op.regions[-1], replace(leaving), divided))
            if following == state:
                return leaving
            state = following

    def access(self, op: Op, tile: int, state: _State, divided: bool) -> None:
        others = ~(1 << tile)
        self.apart[tile] |= (state.open | state.committed | state.stored) & others
        met = state.touched & others
        if divided:  # no barrier can be inserted here, so these tiles may not share bytes at all
            self.apart[tile] |= met
        self.unordered[tile] |= met
        if met:
            before = self.needs.setdefault(op, {})
            before[tile] = before.get(tile, 0) | met
        if op.spec.in_flight:
            state.open |= 1 << tile
        elif op.spec.leaves:
            state.stored |= 1 << tile
        else:
            state.touched |= 1 << tile

    # ---- tiles that are still to be read ----

    def backward(self, block: Block, live: int) -> int:
        """Returns the tiles that are live before an IR block. `live` contains the tiles that are live after it."""
        for op in reversed(self.steps(block)):
            if op.spec.control.loops:
                live = self.iterations(op, live)
            elif op.spec.control.concurrent:
                live = self.backward(op.regions[-1], live)
            elif op.spec.control.flows:
                live = self.backward(op.regions[0], live) | self.backward(op.regions[1], live)
            else:
                for tile in self.tiles_of(op):
                    live = self.before(op, tile, live)
        return live

    def before(self, access: Op, tile: int, live: int) -> int:
        """Returns the tiles that are live before an access. `live` contains the tiles that are live after it."""
        kinds = {effect.kind for effect in self.effects_of(access) if effect.space == "shared"}
        if "write" in kinds:
            self.apart[tile] |= live & ~(1 << tile)
            if self.is_whole(access):
                live &= ~(1 << tile)
        return live | 1 << tile if "read" in kinds else live

    def iterations(self, op: Op, live: int) -> int:
        """Returns the tiles that are live before a loop. `live` contains the tiles that are live after it."""
        head = 0
        while True:  # until nothing is added, as in `loop`
            before = live | self.backward(op.regions[-1], head)
            for test in reversed(op.regions[:-1]):
                before = self.backward(test, before)
            if before | head == head:
                return head
            head |= before

    def is_whole(self, op: Op) -> bool:
        """Whether a store writes all elements of its tile: it writes as many elements as the tile has, at different
        offsets."""
        if {e.kind for e in self.effects_of(op)} != {"write"}:
            return False
        mask, offset = operand(op, "mask"), operand(op, "offset")
        assert offset is not None
        affine = self.affines.of(offset)
        type = self.tiles[self.number[op.operands[0]]].attrs["type"]
        is_full = offset.tile.size == prod(type.shape) and (mask is None or constant_of(mask) is True)
        return is_full and affine is not None and affine.one_to_one(offset.tile.shape)
