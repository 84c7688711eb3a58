"""Inserts the barriers that the order of accesses within a block needs, at the narrowest scope, and no others.

Walks the program with the accesses that no barrier has ordered yet. An access that touches what another thread may
have touched (one of the two writing) needs a barrier before it. Loops are walked until their back edge brings nothing
new. Copies in flight are accesses of their own: touching one is an error, `wait` makes it a write of its thread.

Where an access is, is known relative to scalars that the kernel computes. A loop's counter is such a scalar: what was
at counter + c in one round is at counter + c - step in the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod

from lowering.affine import Affine, AffineOffsets, Terms, apply_affine, free_of_carries
from lowering.facts import linear
from lowering.fold import constant_of
from lowering.ir import Block, Function, Op, Value, uses, walk
from lowering.layout import Layout, apply
from lowering.location import TileError
from lowering.ops import OPS, operand
from lowering.targets import WARP
from lowering.types import SharedType

MAX_ENUMERATED = 1 << 15
MAX_ROUNDS_BACK = 64  # rounds of a loop looked at one by one
MAX_DROPS = 32  # barriers of one loop looked at again
EXACT_ROUNDS = 2  # rounds after which an access that no barrier has ordered stands for all earlier rounds too


@dataclass(frozen=True, slots=True)
class Touch:
    """One access that is not ordered yet.

    slot: the linear form of the slot's index; None without a slot, or where it is not known (`in_slot` tells).
    affine: offsets, in the slot if there is one; None for any element.
    layout: of the tile; None for a scalar. one_thread: a scalar that only thread 0 touches.
    combines: the action of an atomic whose result nothing reads; such ones need no order among themselves.
    joint: the lanes of a warp do it together, each for others too.
    warp_ordered: a warp barrier came after, so only other warps can still meet it.
    age: rounds of the loop around it since.
    before: it stands for earlier rounds too, each this much (slot, offset) further back.
    """

    memory: Value
    write: bool
    slot: tuple[Terms, int] | None
    affine: Affine | None
    layout: Layout | None
    one_thread: bool
    in_slot: bool = False
    combines: str | None = None
    joint: bool = False
    warp_ordered: bool = False
    age: int = 0
    before: tuple[int, int] | None = None
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Accesses are hashed far more often than made."""
        key = (
            id(self.memory),
            self.write,
            self.slot,
            self.affine,
            self.layout,
            self.age,
            self.before,
            self.warp_ordered,
        )
        object.__setattr__(self, "_hash", hash(key))

    def __hash__(self) -> int:
        return self._hash

    def shifted(self, slot: int, offset: int) -> Touch:
        """The same access that many slots and elements back."""
        out = self
        if slot and out.slot is not None:
            constant = out.slot[1] - slot
            type = out.memory.type
            if isinstance(type, SharedType) and type.ring:
                constant %= type.shape[0]
            out = replace(out, slot=(out.slot[0], constant))
        if offset and out.affine is not None:
            out = replace(out, affine=replace(out.affine, constant=out.affine.constant - offset))
        return out

    def forget(self, values: set[int]) -> Touch:
        """What hangs on these values is not known any more."""
        out = self
        if out.slot is not None and any(v in values for v, _ in out.slot[0]):
            out = replace(out, slot=None, age=0, before=None)
        if out.affine is not None and any(v in values for v, _ in out.affine.terms):
            out = replace(out, affine=None, age=0, before=None)
        return out


@dataclass(slots=True)
class State:
    pending: list[Touch] = field(default_factory=list)
    groups: list[tuple[Touch, ...]] = field(default_factory=list)  # committed copies, oldest first
    open: list[Touch] = field(default_factory=list)  # copies not committed

    def copy(self) -> State:
        return State(list(self.pending), list(self.groups), list(self.open))

    def merge(self, other: State) -> None:
        self.pending = list(dict.fromkeys(self.pending + other.pending))
        self.open = list(dict.fromkeys(self.open + other.open))
        # Groups are matched from the newest: what may be in flight on either way.
        mine, theirs = self.groups[::-1], other.groups[::-1]
        joined = []
        for i in range(max(len(mine), len(theirs))):
            both = (mine[i] if i < len(mine) else ()) + (theirs[i] if i < len(theirs) else ())
            joined.append(tuple(dict.fromkeys(both)))
        self.groups = joined[::-1]

    @property
    def size(self) -> tuple[int, ...]:
        """Grows with every access that `merge` brings, once there are no equal ones."""
        return len(self.pending), len(self.open), len(self.groups), *map(len, self.groups)

    def each(self, change: Callable[[Touch], Touch]) -> State:
        """Every access changed; equal ones become one."""

        def all_of(touches: Iterable[Touch]) -> list[Touch]:
            return list(dict.fromkeys(map(change, touches)))

        return State(all_of(self.pending), [tuple(all_of(g)) for g in self.groups], all_of(self.open))


def insert_barriers(function: Function) -> None:
    """Adds `barrier` operations; `barriers manual` in the schedule adds none."""
    if function.attrs.get("barriers") == "manual":
        return
    inserter = _Inserter(function)
    inserter.block(function.body, State())
    inserter.check_waits()
    inserter.drop_superfluous()


class _Needed(Exception):
    """An access that no barrier orders."""


class _Inserter:
    def __init__(self, function: Function):
        self.function = function
        self.written = {
            e.memory for op in walk(function.body) if op.spec.effects for e in op.spec.effects(op) if e.kind == "write"
        }
        self.users = uses(function.body)
        # More groups than any `wait` leaves in flight need not be told apart, but for one that an error may name.
        waits = [op.attrs["groups"] for op in walk(function.body) if op.name == "wait"]
        self.groups_kept = max(waits, default=0) + 2
        self.in_flight: dict[Op, int] = {}  # at each `wait`: the most groups that may be in flight
        self.affines = AffineOffsets()
        self.touched: dict[Op, list[Touch]] = {}
        self.stepped: dict[Block, list[Op]] = {}
        self.defined: dict[Op, set[int]] = {}
        self.following: dict[Op, dict[Touch, Touch]] = {}  # of each loop: an access as the next round sees it
        self.known_apart: dict[tuple[Touch, Touch], bool] = {}
        self.known_met: dict[tuple[Touch, Touch], str | None] = {}
        self.inserted: list[tuple[Block, Op]] = []
        self.checking = False
        self.branch: list[Touch] | None = None  # inside a branch of threads: the accesses in it

    # ---- the walk ----

    def steps(self, block: Block) -> list[Op]:
        """The operations of a block that matter here: accesses to what is written, and what orders them."""
        known = self.stepped.get(block)
        if known is None:
            known = self.stepped[block] = [op for op in block.ops if self.matters(op)]
        return known

    def matters(self, op: Op) -> bool:
        if op.regions:
            return any(self.steps(region) for region in op.regions)
        return op.name in ("barrier", "commit", "wait") or bool(self.touches(op))

    def defined_in(self, op: Op) -> set[int]:
        known = self.defined.get(op)
        if known is None:
            known = self.defined[op] = _defined_in(op)
        return known

    def block(self, block: Block, state: State) -> State:
        steps, position = self.steps(block), 0
        while position < len(steps):
            op = steps[position]
            if op.name in ("for", "while"):
                state = self.loop(op, state)
            elif op.name == "if" and op.operands[0].tile.shape and self.branch is None:
                position += self.branch_of_threads(block, position, op, state)
            elif op.name == "if":
                other = state.copy()
                state = self.block(op.regions[0], state)
                state.merge(self.block(op.regions[1], other))
            elif op.name == "barrier":
                self.ordered(state, op.attrs["scope"])
            elif op.name == "commit":
                state.groups.append(tuple(state.open))
                state.open = []
                if len(state.groups) > self.groups_kept:
                    state.groups[:2] = [tuple(dict.fromkeys(state.groups[0] + state.groups[1]))]
            elif op.name == "wait":
                self.in_flight[op] = max(self.in_flight.get(op, 0), len(state.groups))
                done = state.groups[: max(0, len(state.groups) - op.attrs["groups"])]
                state.groups = state.groups[len(done) :]
                state.pending += [t for group in done for t in group]
            elif op.spec.effects is not None:
                position += self.access(block, position, op, state)
            position += 1
        return state

    def check_waits(self) -> None:
        """A `wait` that leaves as many groups in flight as there can be never waits: what is read behind it may not be
        there. Of a statement that became several operations, one that waits is enough."""
        waits: dict[tuple[int, int], list[Op]] = {}
        for op in self.in_flight:
            if op.loc is not None:
                waits.setdefault((id(op.loc.source), op.loc.start), []).append(op)
        for ops in waits.values():
            if any(self.in_flight[op] > op.attrs["groups"] for op in ops):
                continue
            op = max(ops, key=lambda o: self.in_flight[o])
            groups, most = op.attrs["groups"], self.in_flight[op]
            if not most:
                message = f"wait({groups}) never waits: no copies were committed on any way here"
                hint = "copy(s, x[…]), then commit(), then wait(n)"
            else:
                number = "1 group of copies is" if most == 1 else f"{most} groups of copies are"
                message = f"wait({groups}) never waits: at most {number} in flight here"
                hint = f"wait({most - 1}) or less"
            raise TileError("hazard", op.loc, message, hint)

    def loop(self, op: Op, state: State) -> State:
        """The body is walked until a round brings nothing new to its head, and again after each barrier put into it."""
        entry = self.entering(op, state)  # without equal accesses
        while True:
            head, count = entry, len(self.inserted)
            while True:
                leaves = end = self.block(op.regions[0], head.copy())
                if op.name == "while":
                    end = self.block(op.regions[1], leaves.copy())
                if len(self.inserted) != count:
                    break
                following = head.copy()
                following.merge(self.next_round(op, end))
                if following.size == head.size:
                    return self.leaving(op, head if op.name == "for" else leaves)
                head = following

    def all_touches(self, block: Block) -> Iterator[Touch]:
        for op in self.steps(block):
            yield from self.touches(op)
            for region in op.regions:
                yield from self.all_touches(region)

    def leaving(self, op: Op, state: State) -> State:
        """Behind a loop, nothing is known relative to the values of its rounds."""
        inside = self.defined_in(op)
        return state.each(lambda t: t.forget(inside))

    def entering(self, op: Op, state: State) -> State:
        """Slots and offsets relative to the counter of a `for`, which is `start` in the first round."""
        if op.name != "for":
            return state.each(lambda t: t)
        counter = id(op.regions[0].args[0])
        start, constant = linear(op.operands[0])
        slots: dict[Value, int] = {}  # the counter's factor in the body's accesses of each memory
        offsets: dict[Value, int] = {}
        for touch in self.all_touches(op.regions[0]):
            if touch.slot is not None and (factor := dict(touch.slot[0]).get(counter)):
                slots[touch.memory] = factor
            if touch.affine is not None and (factor := dict(touch.affine.terms).get(counter)):
                offsets[touch.memory] = factor

        def relative(terms: Terms, factor: int) -> Terms:
            out = dict(terms)
            for value, k in start.items():
                out[id(value)] = out.get(id(value), 0) - factor * k
            out[counter] = factor
            return tuple(sorted((v, k) for v, k in out.items() if k))

        def change(touch: Touch) -> Touch:
            if touch.before is not None:
                return touch
            if touch.slot is not None and (factor := slots.get(touch.memory)):
                touch = replace(touch, slot=(relative(touch.slot[0], factor), touch.slot[1])).shifted(
                    factor * constant, 0
                )
            if touch.affine is not None and (factor := offsets.get(touch.memory)):
                affine = replace(touch.affine, terms=relative(touch.affine.terms, factor))
                touch = replace(touch, affine=affine).shifted(0, factor * constant)
            return replace(touch, age=0)

        return state.each(change)

    def next_round(self, op: Op, state: State) -> State:
        """The accesses of a round as the next one sees them."""
        inside = self.defined_in(op)
        step = constant_of(op.operands[2]) if op.name == "for" else None
        if step is None:
            return state.each(lambda t: t.forget(inside))
        counter = id(op.regions[0].args[0])
        inside = inside - {counter}

        known = self.following.setdefault(op, {})

        def change(touch: Touch) -> Touch:
            out = known.get(touch)
            if out is None:
                out = known[touch] = one_round(touch)
            return out

        def one_round(touch: Touch) -> Touch:
            touch = touch.forget(inside)
            slot = dict(touch.slot[0]).get(counter, 0) * int(step) if touch.slot is not None else 0
            offset = dict(touch.affine.terms).get(counter, 0) * int(step) if touch.affine is not None else 0
            if touch.before is not None or not (slot or offset):
                return touch
            type = touch.memory.type
            exact = type.shape[0] if slot and isinstance(type, SharedType) and type.ring else EXACT_ROUNDS
            before = (slot, offset) if touch.age + 1 >= min(exact, MAX_ROUNDS_BACK) else None
            return replace(touch.shifted(slot, offset), age=touch.age + 1, before=before)

        return state.each(change)

    def branch_of_threads(self, block: Block, position: int, op: Op, state: State) -> int:
        """A branch that threads take one by one holds no barrier: what it needs is put before it."""
        self.branch = []
        inside = State([], state.groups, state.open)
        for region in op.regions:
            inside = self.block(region, inside)
        touches, self.branch = self.branch, None
        scope: str | None = None
        for touch in touches:
            scope = _wider(scope, self.hazard(touch, state.pending))
        added = self.add(block, position, scope, op, state) if scope else 0
        defined = self.defined_in(op)
        state.pending += [t.forget(defined) for t in inside.pending]
        return added

    def add(self, block: Block, position: int, scope: str, op: Op, state: State) -> int:
        if self.branch is not None:
            raise TileError(
                "hazard",
                op.loc,
                "this access meets one of another thread in the same branch, and a branch of threads holds no barrier",
                "use where() or mask= outside the branch, or 'barriers manual' in the schedule",
            )
        if self.checking:
            raise _Needed
        barrier = Op(OPS["barrier"], [], [], {"scope": scope}, (), op.loc)
        block.ops.insert(block.ops.index(op), barrier)
        self.steps(block).insert(position, barrier)
        self.inserted.append((block, barrier))
        self.ordered(state, scope)
        return 1

    def ordered(self, state: State, scope: str) -> None:
        """After a barrier: nothing pending, or (warp scope) only what other warps may meet."""
        if scope == "block" or self.function.warps == 1:
            state.pending = []
        else:
            state.pending = [replace(t, warp_ordered=True) for t in state.pending]

    def access(self, block: Block, position: int, op: Op, state: State) -> int:
        """Handles one access; 1 if a barrier was put before it."""
        added = 0
        touches = self.touches(op)
        scope: str | None = None
        for touch in touches:
            if not self.checking:  # copies are waited for, whatever barriers there are
                self.check_in_flight(touch, state, op)
            scope = _wider(scope, self.hazard(touch, state.pending))
        if scope:
            added = self.add(block, position, scope, op, state)
        (state.open if op.name == "copy" else state.pending).extend(touches)
        if self.branch is not None:
            self.branch += touches
        return added

    def check_in_flight(self, touch: Touch, state: State, op: Op) -> None:
        newest_first = [(0, t) for t in state.open]
        newest_first += [(newer, t) for newer, group in enumerate(reversed(state.groups)) for t in group]
        for newer, flying in newest_first:
            if flying.memory is not touch.memory or not (flying.write or touch.write):
                continue
            if self.apart(flying, touch):
                continue
            if flying in state.open:
                first = "commit() the copy and wait(0)"
            elif newer + 1 == self.groups_kept:
                first = "wait(n) for it"
            else:
                first = f"wait({newer})"
            does, way = ("writes" if touch.write else "reads"), ("into" if flying.write else "from")
            raise TileError(
                "hazard",
                op.loc,
                f"this {does} '{touch.memory.name}' while a copy {way} it may be in flight",
                f"{first} first, or use another slot",
            )

    def hazard(self, touch: Touch, others: list[Touch]) -> str | None:
        """The scope of the barrier between `touch` and what is pending, or None."""
        scope: str | None = None
        for other in others:
            if other.memory is not touch.memory or not (touch.write or other.write):
                continue
            if touch.combines is not None and touch.combines == other.combines:
                continue
            scope = _wider(scope, self.met(other, touch))
            if scope == "block":
                break
        return "warp" if scope and self.function.warps == 1 else scope

    def apart(self, flying: Touch, touch: Touch) -> bool:
        """True if a copy in flight and an access touch different elements, in all rounds that the copy stands for."""
        known = self.known_apart.get((flying, touch))
        if known is None:
            known = all(_disjoint(earlier, touch) for earlier in _rounds(flying, touch))
            self.known_apart[flying, touch] = known
        return known

    def met(self, other: Touch, touch: Touch) -> str | None:
        """The scope in which a pending access meets another one, in any round that it stands for."""
        pair = (other, touch)
        if pair not in self.known_met:
            scope: str | None = None
            for earlier in _rounds(other, touch):
                met = self.conflict(earlier, touch)
                scope = _wider(scope, None if met == "warp" and other.warp_ordered else met)
            self.known_met[pair] = scope
        return self.known_met[pair]

    def drop_superfluous(self) -> None:
        """In a loop, a barrier put in later, for the next round, may order all that an earlier one was put in for.

        And one before the loop may order all that one in it was put in for, but once and not in each round.
        """
        self.checking = True
        for loop in (op for op in self.function.body.ops if op.name in ("for", "while")):
            inside = self.inserted_in(loop)
            if 1 < len(inside) <= MAX_DROPS:
                for place in inside:
                    self.take_out(*place)
        for block, loop in self.loops(self.function.body):
            inside = self.inserted_in(loop)
            if not inside or len(inside) > MAX_DROPS:
                continue
            scope = "block" if any(barrier.attrs["scope"] == "block" for _, barrier in inside) else "warp"
            before = Op(OPS["barrier"], [], [], {"scope": scope}, (), loop.loc)
            self.place(block, before, loop)
            if [self.take_out(*place) for place in inside].count(True):
                self.inserted.append((block, before))
            else:
                self.remove(block, before)

    def loops(self, block: Block) -> Iterator[tuple[Block, Op]]:
        """Loops with the block that they stand in, inner ones first."""
        for op in self.steps(block):
            for region in op.regions:
                yield from self.loops(region)
            if op.name in ("for", "while"):
                yield block, op

    def inserted_in(self, loop: Op) -> list[tuple[Block, Op]]:
        blocks = {b for op in [loop, *(o for r in loop.regions for o in walk(r))] for b in op.regions}
        return [(b, barrier) for b, barrier in self.inserted if b in blocks]

    def place(self, block: Block, barrier: Op, before: Op) -> None:
        for ops in (block.ops, self.steps(block)):
            ops.insert(ops.index(before), barrier)

    def remove(self, block: Block, barrier: Op) -> None:
        for ops in (block.ops, self.steps(block)):
            ops.remove(barrier)

    def take_out(self, block: Block, barrier: Op) -> bool:
        """Removes a barrier if all is ordered without it."""
        places = [(ops, ops.index(barrier)) for ops in (block.ops, self.steps(block))]
        self.remove(block, barrier)
        try:
            self.block(self.function.body, State())
        except _Needed:
            for ops, position in places:
                ops.insert(position, barrier)
            return False
        self.inserted.remove((block, barrier))
        return True

    # ---- accesses ----

    def touches(self, op: Op) -> list[Touch]:
        """The accesses of one operation to what the kernel writes."""
        known = self.touched.get(op)
        if known is None:
            known = self.touched[op] = self._touches(op) if op.spec.effects is not None else []
        return known

    def _touches(self, op: Op) -> list[Touch]:
        assert op.spec.effects is not None
        out = []
        for effect in op.spec.effects(op):
            memory = effect.memory
            if effect.space == "param" or memory not in self.written:
                continue
            if op.name == "atomic" and effect.kind == "read":
                continue  # one touch for both
            copied = op.name == "copy" and effect.kind == "read"
            offset, slot = operand(op, "source" if copied else "offset"), None if copied else operand(op, "slot")
            assert offset is not None
            form = None
            if slot is not None:
                terms, constant = linear(slot)
                form = (tuple(sorted((id(v), k) for v, k in terms.items())), constant)
            one = (op.name in ("store", "atomic") or op.attrs.get("one_thread", False)) and not offset.tile.shape
            combines = None
            if op.name == "atomic" and op.attrs["action"] not in ("exchange", "cas") and not self.users.get(op.result):
                combines = op.attrs["action"]
            where = self.affines.of(offset)
            layout = offset.tile.layout
            joint = op.name in ("ldmatrix", "stmatrix")
            write = effect.kind == "write"
            out.append(Touch(memory, write, form, where, layout, one, slot is not None, combines, joint))
        return out

    # ---- do two accesses of different threads meet? ----

    def conflict(self, a: Touch, b: Touch) -> str | None:
        """The scope in which two accesses meet; None if whatever both touch is touched by one thread alone."""
        if _disjoint(a, b):
            return None
        met = self._meet(a, b)
        return "warp" if met is None and (a.joint or b.joint) else met

    def _meet(self, a: Touch, b: Touch) -> str | None:
        if a.affine is None or b.affine is None or not _comparable(a, b):
            return "block"
        if a.layout is None or b.layout is None:
            return self._with_scalar(a, b)
        images = _images(a, b)
        if images is not None:
            return _scope_by_algebra(images)
        if (
            a.layout.count * self.function.threads > MAX_ENUMERATED
            or b.layout.count * self.function.threads > MAX_ENUMERATED
        ):
            return "block"
        owners = _owners(a, self.function.warps)
        scope: str | None = None
        for offset, threads in _owners(b, self.function.warps).items():
            for mine in owners.get(offset, ()):
                for thread in threads:
                    if thread != mine:
                        scope = _wider(scope, "warp" if thread >> 5 == mine >> 5 else "block")
                        if scope == "block":
                            return scope
        return scope

    def _with_scalar(self, a: Touch, b: Touch) -> str | None:
        if a.layout is None and b.layout is None:
            assert a.affine is not None and b.affine is not None
            if a.affine.constant != b.affine.constant:
                return None
            if a.one_thread and b.one_thread:
                return None
            return "block"
        scalar, tile = (a, b) if a.layout is None else (b, a)
        assert scalar.affine is not None and tile.affine is not None and tile.layout is not None
        offsets = _owners(tile, self.function.warps)
        met = offsets.get(scalar.affine.constant)
        if not met:
            return None
        if scalar.one_thread and set(met) == {0}:
            return None
        if scalar.one_thread and all(t < WARP for t in met):
            return "warp"
        return "block"


def _wider(a: str | None, b: str | None) -> str | None:
    return "block" if "block" in (a, b) else a or b


def _defined_in(op: Op) -> set[int]:
    """The identities of all values of an operation's regions, but for those that are the same each time they run."""
    out = {id(a) for region in op.regions for a in region.args}
    for inner in (o for region in op.regions for o in walk(region)):
        out |= {id(a) for region in inner.regions for a in region.args}
        if not inner.spec.pure or any(id(o) in out for o in inner.operands):
            out |= {id(r) for r in inner.results}
    return out


def _rounds(a: Touch, b: Touch) -> list[Touch]:
    """The accesses that `a` stands for, one for each earlier round that may meet `b`."""
    if a.before is None:
        return [a]
    slot, offset = a.before
    rounds: Iterable[int] | None = None
    if _comparable(a, b) and offset and a.affine is not None and b.affine is not None:
        low_a, high_a = _range(a.affine, a.layout.shape if a.layout else ())
        low_b, high_b = _range(b.affine, b.layout.shape if b.layout else ())
        first, last = low_a - high_b, high_a - low_b  # of the distance by which `a` is moved back
        if offset < 0:
            first, last = -last, -first
        rounds = range(max(0, -(-first // abs(offset))), last // abs(offset) + 1)
    elif slot and a.slot is not None and b.slot is not None and a.slot[0] == b.slot[0]:
        type = a.memory.type
        assert isinstance(type, SharedType)
        if type.ring:
            rounds = range(type.shape[0])
        else:
            away, rest = divmod(a.slot[1] - b.slot[1], slot)
            rounds = [away] if away >= 0 and not rest else []
    if rounds is None or len(list(rounds)) > MAX_ROUNDS_BACK:
        return [replace(a, slot=None, affine=None)]
    return [a.shifted(k * slot, k * offset) for k in rounds]


def _different_slots(a: Touch, b: Touch) -> bool:
    """True if both slots are known and differ, rings taken into account."""
    if a.slot is None or b.slot is None or a.slot[0] != b.slot[0]:
        return False
    distance = a.slot[1] - b.slot[1]
    type = a.memory.type
    if isinstance(type, SharedType) and type.ring:
        return distance % type.shape[0] != 0
    return distance != 0


def _comparable(a: Touch, b: Touch) -> bool:
    """True if the offsets count from the same place (of one slot, if they lie in slots) and the same unknowns."""
    return a.in_slot == b.in_slot and (a.affine is None or b.affine is None or a.affine.terms == b.affine.terms)


def _disjoint(a: Touch, b: Touch) -> bool:
    """True if two accesses are known to touch different elements."""
    if _different_slots(a, b):
        return True
    if a.affine is None or b.affine is None or not _comparable(a, b):
        return False
    shape_a, shape_b = a.layout.shape if a.layout else (), b.layout.shape if b.layout else ()
    low_a, high_a = _range(a.affine, shape_a)
    low_b, high_b = _range(b.affine, shape_b)
    if high_a < low_b or high_b < low_a:
        return True
    if max(prod(shape_a), prod(shape_b)) > MAX_ENUMERATED:
        return False
    elements = _elements(shape_a, a.affine.coefficients)
    distance = b.affine.constant - a.affine.constant
    return not any(e + distance in elements for e in _elements(shape_b, b.affine.coefficients))


@lru_cache(maxsize=256)
def _elements(shape: tuple[int, ...], coefficients: tuple[int, ...]) -> frozenset[int]:
    """All offsets of a tile, its constant and terms left out."""
    out = [0]
    for extent, c in zip(shape, coefficients, strict=True):
        out = [e + c * x for e in out for x in range(extent)]
    return frozenset(out)


def _range(affine: Affine, shape: tuple[int, ...]) -> tuple[int, int]:
    spread = [c * (e - 1) for c, e in zip(affine.coefficients, shape, strict=True)]
    return affine.constant + sum(s for s in spread if s < 0), affine.constant + sum(s for s in spread if s > 0)


def _coordinates(shape: tuple[int, ...]):
    from itertools import product

    return product(*(range(e) for e in shape))


def _one_to_one(affine: Affine, shape: tuple[int, ...]) -> bool:
    """True if different elements have different offsets: each coefficient is beyond the reach of the smaller ones."""
    reach = 0
    for coefficient, extent in sorted(zip(map(abs, affine.coefficients), shape, strict=True)):
        if extent == 1:
            continue
        if coefficient <= reach:
            return False
        reach += coefficient * (extent - 1)
    return True


@dataclass(frozen=True, slots=True)
class Image:
    """What one access touches, as XOR of vectors: one for each bit of the acting threads, one for each register bit."""

    threads: tuple[tuple[int, int], ...]  # (bit of the thread's number, vector)
    registers: tuple[int, ...]


def _images(a: Touch, b: Touch) -> tuple[Image, Image] | None:
    """Both accesses as linear maps into one space of bits, or None where carries make them nonlinear.

    Either both use one formula that gives every element an offset of its own, so that elements may be compared; or the
    offsets themselves are free of carries: each coordinate has bits of its own.
    """
    assert a.affine is not None and b.affine is not None and a.layout is not None and b.layout is not None
    if a.affine == b.affine and a.layout.shape == b.layout.shape and _one_to_one(a.affine, a.layout.shape):
        return _image(a, None), _image(b, None)
    if a.affine.constant != b.affine.constant:
        return None
    if not (free_of_carries(a.affine, a.layout.shape) and free_of_carries(b.affine, b.layout.shape)):
        return None
    return _image(a, a.affine), _image(b, b.affine)


def _image(touch: Touch, affine: Affine | None) -> Image:
    """By offsets less the constant, or by elements if `affine` is None."""
    layout = touch.layout
    assert layout is not None

    def at(basis: int) -> int:
        return basis if affine is None else apply_affine(affine, layout.coordinates(basis)) - affine.constant

    idle = _idle(touch)
    threads = tuple((1 << i, at(b)) for i, b in enumerate(layout.thread) if not idle >> i & 1)
    return Image(threads, tuple(at(b) for b in layout.register))


def _idle(touch: Touch) -> int:
    """Bits of the thread's number that are 0 in all threads that act: one thread stores a replicated element."""
    assert touch.layout is not None
    free = touch.layout.replicated
    return free["lane"] | free["warp"] << 5 if touch.write else 0


def _scope_by_algebra(images: tuple[Image, Image]) -> str | None:
    """How far apart two threads can be that touch one element: None if they are one thread, else "warp" or "block".

    The pairs (thread of a, its register, thread of b, its register) that touch one element are the kernel of a linear
    map, so the differences between the two threads are a linear space too: its basis tells all.
    """
    rows: list[tuple[int, int]] = []  # echelon form of the vectors, with the difference of threads behind each
    scope: str | None = None
    for image in images:
        for thread, vector in (*image.threads, *((0, v) for v in image.registers)):
            for row, behind in rows:
                if vector ^ row < vector:
                    vector, thread = vector ^ row, thread ^ behind
            if vector:
                rows.append((vector, thread))
                rows.sort(reverse=True)
            elif thread:
                scope = _wider(scope, "block" if thread >> 5 else "warp")
    return scope


def _owners(touch: Touch, warps: int) -> dict[int, list[int]]:
    """Offset → the threads that touch it."""
    layout, affine = touch.layout, touch.affine
    assert layout is not None and affine is not None
    idle = _idle(touch)
    offsets = [apply_affine(affine, c) for c in _coordinates(layout.shape)]
    registers, bases = layout.offsets, layout.thread
    out: dict[int, list[int]] = {}
    for thread in range(WARP * warps):
        if not thread & idle:
            part = apply(bases, thread)
            for register in registers:
                out.setdefault(offsets[part ^ register], []).append(thread)
    return out
