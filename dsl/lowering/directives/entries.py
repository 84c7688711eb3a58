"""Loads of tables whose entries say what a copy reads, such as the pages of a cache.

    for p:                               e = load table[first p]
        e = load table[p]                for p, e:
        copy s, a[e]                         copy s, a[e]
        …                        →           f = load table[next p]
                                             …
                                             yield f

A copy waits for the entry that it needs. So a loop carries the entry, which the round before has loaded. If an entry's
own place comes from an entry of another table, the loop carries that one from the round before that, and so on. No
entry is loaded for a round that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from dsl.lowering.building.builder import Builder
from dsl.lowering.building.iterations import carry, hand_on
from dsl.lowering.directives.places import also
from dsl.lowering.directives.slices import leaves_of, made_anew, slice_of, without
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, blocks_of, put, replace_uses, walk
from dsl.lowering.ir.types import TableType, TensorType
from dsl.lowering.ops import operand
from dsl.lowering.ops.memory import writes


def written_in(function: Function) -> set[Value]:
    """Returns the memory that a kernel writes."""
    return {op.operands[0] for op in walk(function.body) if writes(op)}


def is_entry(op: Op, written: Collection[Value]) -> bool:
    """Whether an operation loads numbers that stay the same during the launch. Then it may happen earlier, and again.
    `written` is the memory that the kernel writes."""
    if op.spec.access.kind != "read" or not isinstance(op.operands[0].type, (TensorType, TableType)):
        return False
    return op.operands[0] not in written and op.attrs["cache"] != "volatile"


def unsteady(part: Iterable[Op], written: Collection[Value]) -> Op | None:
    """Returns the first operation of `part` that is neither pure nor a load of an entry, or None. A slice with such an
    operation cannot be built again elsewhere."""
    others = [op for op in part if not op.spec.pure and not is_entry(op, written)]
    return others[0] if others else None


class Entries:
    """The entries on which `wanted` depends in a loop whose body has the operations `scope`.

    `rounds` says how many rounds ahead of its use each entry is loaded: one, and one more for each entry whose place
    comes from it. `state` contains its values for the round of the next copies, and for the rounds after that.
    """

    def __init__(self, b: Builder, scope: Sequence[Op], wanted: Iterable[Value]):
        self.b, self.scope = b, scope
        self.rounds: dict[Op, int] = {}
        self.state: dict[Op, list[Value]] = {}
        for load in reversed([op for op in slice_of(scope, wanted) if not op.spec.pure]):
            behind = [rounds for user, rounds in self.rounds.items() if load in slice_of(scope, user.operands)]
            self.rounds[load] = 1 + max(behind, default=0)
        # An entry whose place comes from another one has fewer rounds, so that one comes first.
        self.loads = sorted(self.rounds, key=lambda load: -self.rounds[load])

    @property
    def are_loads(self) -> bool:
        """Whether nothing but loads must happen earlier: a loop that finds a group cannot, for example."""
        return all(load.spec.access.kind == "read" for load in self.loads)

    @property
    def most(self) -> int:
        """How many rounds ahead of the copies entries are loaded."""
        return max(self.rounds.values(), default=0)

    @property
    def results(self) -> set[Value]:
        """The values that the loads had in the loop before."""
        return {load.result for load in self.loads}

    @property
    def values(self) -> list[Value]:
        """All values of `state`. A loop carries them."""
        return [value for load in self.loads for value in self.state[load]]

    def take(self, values: Iterable[Value]) -> None:
        """Replaces all values of `state`."""
        given = iter(values)
        self.state = {load: [next(given) for _ in self.state[load]] for load in self.loads}

    def at(self, number: int = 0) -> dict[Value, Value]:
        """Maps the results of the loads to their values for the copies `number` rounds on. Entries that are not known
        so early are left out."""
        return {load.result: values[number] for load, values in self.state.items() if number < len(values)}

    def begin(self, more: int, anew: Callable[[int, Value], Value], exists: Callable[[int], Value]) -> None:
        """Loads the entries of the first rounds, and of `more` rounds after them. `anew` computes a value again for the
        round of this number, with the entries `at` it. `exists` computes whether there is such a round."""
        self.state = {load: [] for load in self.loads}
        for load in self.loads:
            for number in range(self.rounds[load] + more):
                self.state[load].append(self._loaded(load, number, anew, exists))

    def go_on(self, anew: Callable[[int, Value], Value], exists: Callable[[int], Value]) -> None:
        """Loads the entries of the next round, and moves on to it. `anew` and `exists` count rounds from the old
        ones."""
        for load in self.loads:
            self.state[load].append(self._loaded(load, self.rounds[load], anew, exists))
        self.move()

    def move(self) -> None:
        """Moves `state` one round on."""
        self.state = {load: values[1:] for load, values in self.state.items()}

    def _loaded(
        self, load: Op, number: int, anew: Callable[[int, Value], Value], exists: Callable[[int], Value]
    ) -> Value:
        b, offset = self.b, operand(load, "offset")
        assert offset is not None
        b.place = (load.loc or b.loc, None)
        parts = {name: operand(load, name) for name in ("offset", "mask", "other")}
        there = {name: None if value is None else anew(number, value) for name, value in parts.items()}
        mask, on = there["mask"], exists(number)
        there["mask"] = b.broadcast(on, offset.tile.shape) if mask is None else also(b, mask, on)
        cache, evict = load.attrs["cache"], load.attrs["evict"]
        return b.access("load", {"memory": load.operands[0], **there}, cache=cache, evict=evict).result


def load_ahead(b: Builder, block: Block, places: Callable[[Block], Sequence[Value]]) -> None:
    """Lets each loop in `block` carry the entries that its copies need. `places` returns what these copies of its body
    read."""
    for each in list(blocks_of(block)):
        for loop in [op for op in each.ops if op.spec.control.counters]:
            entries = Entries(b, loop.regions[0].ops, places(loop.regions[0]))
            if entries.loads and entries.are_loads and _counts_up(loop, entries):
                each.ops[each.ops.index(loop) : each.ops.index(loop)] = _carried(b, loop, entries)


def load_tiles_ahead(b: Builder, block: Block, loop: Op, loads: Collection[Op]) -> bool:
    """Lets a loop somewhere in `block` carry the results of these loads, which it loads one iteration earlier. Returns
    False, and changes nothing, if their places depend on other values that the loop carries."""
    entries = Entries(b, loop.regions[0].ops, [load.result for load in loads])
    if not _counts_up(loop, entries):
        return False
    put(block, loop, [*_carried(b, loop, entries), loop])
    return True


def _counts_up(loop: Op, entries: Entries) -> bool:
    """Whether the counter alone says where the entries of the next round are. A step that is no constant is known to be
    positive."""
    body, wanted = loop.regions[0], [v for load in entries.loads for v in load.operands]
    step = constant_of(loop.operands[2])
    return (step is None or step > 0) and leaves_of(slice_of(body.ops, wanted), wanted).isdisjoint(body.args[1:])


def _carried(b: Builder, loop: Op, entries: Entries) -> list[Op]:
    """Lets a loop carry entries. Returns the operations that load the first ones, before the loop."""
    body, first, following = loop.regions[0], Block(), Block()
    (start, stop, step), scope = loop.operands[:3], list(body.ops)

    def at(number: int) -> Value:
        return b.value("add", start, b.value("mul", b.constant(number, start.dtype), step)) if number else start

    def anew(number: int, value: Value) -> Value:
        table = entries.at(number) | {body.args[0]: at(number)}
        return made_anew(b, slice_of(scope, [value]), table, value)

    def exists(number: int) -> Value:
        return b.value("lt", at(number), stop)

    with b.region(first):
        entries.begin(0, anew, exists)
    entries.take(carry([loop], entries.values, [None] * len(entries.values)))
    known, start = entries.at(), body.args[0]
    with b.region(following):
        entries.go_on(anew, exists)
    body.ops = without(body.ops, set(entries.loads))
    replace_uses(body, known)
    body.ops[-1:-1] = following.ops
    hand_on([loop], entries.values)
    return first.ops
