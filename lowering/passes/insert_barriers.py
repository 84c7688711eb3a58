"""Inserts the barriers that the order of accesses within a block needs, at the narrowest scope, and no others.

Walks the program with the accesses that no barrier has ordered yet. An access that touches what another thread may
have touched (one of the two writing) needs a barrier before it. Loops are walked until their back edge brings nothing
new. Copies in flight are accesses of their own: touching one is an error, `wait` makes it a write of its thread.

What a thread releases to other blocks is what it did itself and what barriers brought it from others, and what it
acquires is known to others behind a barrier (PTX ISA 8, "Causality order"). So a release is an access that meets all
accesses of global memory by other threads before it, and an acquire one that meets all those behind it.

Where an access is, is known relative to scalars that the kernel computes, and to the numbers of the rounds of loops:
what was at k * round + c in one round is at k * round + c - k in the next (`lowering/loop_forms.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, reduce
from itertools import zip_longest
from math import prod
from operator import or_
from typing import NamedTuple, NoReturn

from lowering.affine import Affine, AffineOffsets, Terms, apply_affine, free_of_carries
from lowering.facts import facts_of
from lowering.ir import Block, Function, Op, Value, walk
from lowering.layout import Layout, apply
from lowering.listed_offsets import Listed, ListedOffsets
from lowering.location import TileError
from lowering.loop_forms import (
    EXACT,
    Carried,
    Form,
    LoopForms,
    holds,
    loop_forms_of,
    plus,
    reduced,
    remainder,
    substituted,
)
from lowering.ops import OPS, operand
from lowering.ops.control import parting
from lowering.targets import WARP
from lowering.types import SharedType

MAX_ENUMERATED = 1 << 15
MAX_ROUNDS_BACK = 64  # rounds of a loop looked at one by one
PART_BITS = 5  # accesses of a set that are changed as one
MAX_ENTERED = (
    256  # places from before a loop that its numbers tell apart: rounds of an outer loop may add more and more
)
MAX_DROPS = 32  # barriers of one loop looked at again
EXACT_ROUNDS = 2  # rounds after which an access that no barrier has ordered stands for all earlier rounds too
NEVER = "wait(n) for it"  # of copies that no wait stands behind, in however many slots


class Slot(NamedTuple):
    """The index of a slot: Σ terms + constant, modulo `modulus` if there is one."""

    terms: Terms
    constant: int
    modulus: int | None

    @property
    def holds(self) -> int:
        """The modulus under which forms of the index are needed."""
        return self.modulus or EXACT

    @property
    def form(self) -> Form:
        return dict(self.terms), self.constant

    def of(self, form: Form) -> Slot:
        """Such a slot at another index."""
        factors, constant = reduced(form, self.holds)
        return self._replace(terms=_terms(factors), constant=constant)


@dataclass(slots=True)
class Touch:
    """One access that is not ordered yet.

    bond: "acquire" or "release" if it orders global memory with other blocks, and touches nothing itself.
    slot: the slot's index; None without a slot, or where it is not known (`in_slot` tells).
    offsets: of elements, in the slot if there is one; None for any element.
    layout: of the tile; None for a scalar. one_thread: each element is touched by one of the threads that hold it, a
        scalar by thread 0.
    combines: the action of an atomic whose result nothing reads, or "store" for stores that say so; such ones need no
        order among themselves.
    joint: the lanes of a warp do it together, each for others too.
    warp_ordered: a warp barrier came after, so only other warps can still meet it.
    age: rounds of loops that moved it since.
    before: it stands for earlier rounds too, each this much (slot, offset) further back.
    """

    memory: Value
    write: bool
    slot: Slot | None
    offsets: Affine | Listed | None
    layout: Layout | None
    one_thread: bool
    in_slot: bool = False
    combines: str | None = None
    joint: bool = False
    bond: str | None = None
    warp_ordered: bool = False
    age: int = 0
    before: tuple[int, int] | None = None
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Accesses are hashed far more often than made."""
        place = (self.memory, self.slot, self.offsets, self.layout, self.bond)
        self._hash = hash((place, self.write, self.age, self.before, self.warp_ordered))

    def __hash__(self) -> int:
        return self._hash

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape if self.layout else ()

    def shifted(self, slot: int, offset: int) -> Touch:
        """The same access that many slots and elements back."""
        out = self
        if slot and out.slot is not None:
            out = replace(out, slot=out.slot.of((dict(out.slot.terms), out.slot.constant - slot)))
        if offset and out.offsets is not None:
            out = replace(out, offsets=out.offsets._replace(constant=out.offsets.constant - offset))
        return out

    def expressed(self, change: Callable[[Form, int], Form | None]) -> Touch:
        """The same access with its forms, of slot and offsets, told otherwise: `change` gets one and the modulus under
        which it is needed, and gives None where it is not known any more."""
        slot, offsets = self.slot, self.offsets
        if slot is not None and slot.terms:
            form = change(slot.form, slot.holds)
            slot = None if form is None else slot.of(form)
        if offsets is not None and offsets.terms:
            form = change((dict(offsets.terms), offsets.constant), EXACT)
            offsets = None if form is None else offsets._replace(terms=_terms(form[0]), constant=form[1])
        if slot == self.slot and offsets == self.offsets:
            return self
        out = self.without(self.slot is not None and slot is None, self.offsets is not None and offsets is None)
        return replace(out, slot=slot, offsets=offsets)

    def forget(self, values: set[int]) -> Touch:
        """What hangs on these values is not known any more."""
        slot = self.slot is not None and any(v in values for v, _ in self.slot.terms)
        offsets = self.offsets is not None and any(v in values for v, _ in self.offsets.terms)
        return self.without(slot, offsets)

    def without(self, slot: bool, offsets: bool) -> Touch:
        """The same access without its slot or its offsets. What is left may still move from round to round."""
        if not (slot or offsets):
            return self
        before = self.before and (self.before[0] * (not slot), self.before[1] * (not offsets))
        return replace(
            self,
            slot=None if slot else self.slot,
            offsets=None if offsets else self.offsets,
            before=before if before and any(before) else None,
        )


def _terms(factors: dict[int, int]) -> Terms:
    return tuple(sorted((v, k) for v, k in factors.items() if k))


@dataclass(slots=True)
class State:
    """What no barrier has ordered and what copies are in flight, as sets of accesses (see `_Accesses`)."""

    pending: int = 0
    groups: tuple[int, ...] = ()  # committed copies, oldest first
    open: int = 0  # copies not committed
    committed: bool = False  # some were, waited for or not

    def copy(self) -> State:
        return replace(self)

    def merge(self, other: State) -> None:
        self.pending |= other.pending
        self.open |= other.open
        self.committed |= other.committed
        # Groups are matched from the newest: what may be in flight on either way.
        pairs = zip_longest(reversed(self.groups), reversed(other.groups), fillvalue=0)
        self.groups = tuple(mine | theirs for mine, theirs in pairs)[::-1]

    def each(self, change: Callable[[int], int]) -> State:
        return State(change(self.pending), tuple(map(change, self.groups)), change(self.open), self.committed)


class _Accesses:
    """All accesses met, numbered: a set of them is an integer, whose bit i says that access i is in it."""

    def __init__(self) -> None:
        self.touches: list[Touch] = []
        self.numbers: dict[Touch, int] = {}
        self.of_memory: dict[Value, int] = defaultdict(int)
        self.of_global = 0
        self.acquires = 0
        self.earlier: dict[int, list[int]] = defaultdict(list)  # by number: as what a loop or a barrier changed it from

    def number(self, touch: Touch) -> int:
        known = self.numbers.get(touch)
        if known is None:
            known = self.numbers[touch] = len(self.touches)
            self.touches.append(touch)
            if touch.bond is None:
                self.of_memory[touch.memory] |= 1 << known
                self.of_global |= _is_global(touch) << known
            self.acquires |= (touch.bond == "acquire") << known
        return known

    def before(self, touch: Touch) -> int:
        """The accesses that `touch` may meet when it comes behind them."""
        if touch.bond == "acquire":
            return 0
        if touch.bond == "release":
            return self.of_global | self.acquires
        return self.of_memory[touch.memory] | (self.acquires if _is_global(touch) else 0)

    def changed(self, number: int, change: Callable[[Touch], Touch]) -> int:
        new = self.number(change(self.touches[number]))
        if new != number:
            self.earlier[new].append(number)
        return new

    def generations(self, number: int) -> Iterator[set[int]]:
        """An access, what it was before one change, before two, and so on."""
        seen, now = set(), {number}
        while now:
            yield now
            seen |= now
            now = {old for new in now for old in self.earlier[new]} - seen

    def changing(self, change: Callable[[Touch], Touch]) -> Callable[[int], int]:
        """`change` of accesses as a function of sets; of each set it is found once."""

        @cache
        def changed(accesses: int) -> int:
            if not accesses & (accesses - 1):
                return 1 << self.changed(accesses.bit_length() - 1, change) if accesses else 0
            return reduce(or_, map(changed, _parts(accesses)))  # from round to round, most parts stay the same

        return changed


def _members(accesses: int) -> Iterator[int]:
    while accesses:
        lowest = accesses & -accesses
        yield lowest.bit_length() - 1
        accesses ^= lowest


def _parts(accesses: int) -> Iterator[int]:
    """A set in parts of neighbouring numbers; a set that is one part, in its members."""
    low, high = (accesses & -accesses).bit_length() - 1, accesses.bit_length() - 1
    if low >> PART_BITS == high >> PART_BITS:
        yield from (1 << i for i in _members(accesses))
        return
    while accesses:
        first = (accesses & -accesses).bit_length() - 1 >> PART_BITS << PART_BITS
        part = accesses & (1 << first + (1 << PART_BITS)) - 1
        yield part
        accesses ^= part


@dataclass(slots=True)
class _Meetings:
    """Sets of accesses: those compared with one, those of them that it meets within a warp, and within the block."""

    compared: int = 0
    warp: int = 0
    block: int = 0


@dataclass(frozen=True, slots=True)
class _Rounds:
    """What a loop makes of accesses: on the way into it, from one round to the next, on the way out."""

    entering: Callable[[int], int]
    following: Callable[[int], int]
    leaving: Callable[[int], int]


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
        ops = walk(function.body)
        effects = [e for op in ops if op.spec.effects for e in op.spec.effects(op)]
        self.written = {e.memory for e in effects if e.kind == "write"}
        # What this kernel only reads stays as it is while it runs, but for a kernel that has an order with the whole
        # system: a host or another kernel may write it.
        self.all_global = any(op.attrs.get("scope") == "system" and op.attrs.get("order") != "relaxed" for op in ops)
        self.used = {value for op in ops for value in op.operands}
        # More groups than any `wait` leaves in flight need not be told apart, but for one that an error may name.
        waits = [op.attrs["groups"] for op in ops if op.spec.orders == "end"]
        self.groups_kept = max(waits, default=0) + 2
        self.in_flight: dict[Op, int] = {}  # at each `wait`: the most groups that may be in flight
        self.forms = loop_forms_of(function, facts_of(function))
        self.affines = AffineOffsets()
        self.listed = ListedOffsets()
        self.accesses = _Accesses()
        self.touched: dict[Op, list[int]] = {}
        self.stepped: dict[Block, list[Op]] = {}
        self.known_rounds: dict[Op, _Rounds] = {}
        self.in_warp = self.accesses.changing(lambda t: replace(t, warp_ordered=True))
        self.met: dict[int, _Meetings] = defaultdict(_Meetings)  # with accesses before
        self.hit: dict[int, _Meetings] = defaultdict(_Meetings)  # with copies in flight
        self.inserted: list[tuple[Block, Op]] = []
        self.checking = False
        self.outcomes: dict[Block, dict[tuple, State]] = defaultdict(dict)  # of blocks as they stand, while checking
        self.around = {region: block for block in _blocks(function.body) for op in block.ops for region in op.regions}
        self.branch: int | None = None  # inside a branch of threads: the accesses in it

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
        return op.spec.orders is not None or bool(self.touches(op))

    def block(self, block: Block, state: State) -> State:
        """What is not ordered behind a block that is entered with `state`; puts barriers into it."""
        if not self.checking or self.branch is not None:
            return self.through(block, state.copy())
        known, key = self.outcomes[block], (state.pending, state.groups, state.open)
        if key not in known:
            known[key] = self.through(block, state.copy())
        return known[key].copy()

    def through(self, block: Block, state: State) -> State:
        steps, position = self.steps(block), 0
        while position < len(steps):
            op = steps[position]
            if parting(op) is not None and self.branch is None:
                position += self.branch_of_threads(block, position, op, state)
            elif op.spec.loops:
                state = self.loop(op, state)
            elif parting(op) is not None:
                state = self.one_after_the_other(op, state)
            elif op.spec.flows:
                other = self.block(op.regions[1], state)
                state = self.block(op.regions[0], state)
                state.merge(other)
            elif op.spec.orders == "threads":
                self.ordered(state, op.attrs["scope"])
            elif op.spec.orders == "group":
                state.groups += (state.open,)
                state.open, state.committed = 0, True
                if len(state.groups) > self.groups_kept:
                    state.groups = (state.groups[0] | state.groups[1], *state.groups[2:])
            elif op.spec.orders == "end":
                drains = state.committed and not op.attrs["groups"]  # says that all is there, if only to a reader
                self.in_flight[op] = max(self.in_flight.get(op, 0), len(state.groups), drains)
                done = state.groups[: max(0, len(state.groups) - op.attrs["groups"])]
                state.groups = state.groups[len(done) :]
                state.pending = reduce(or_, done, state.pending)
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
        rounds = self.rounds(op)
        entry = state.each(rounds.entering)
        while True:
            head, count = entry, len(self.inserted)
            while True:
                leaves = head
                for test in op.regions[:-1]:
                    leaves = self.block(test, leaves)
                end = self.block(op.regions[-1], leaves)
                if len(self.inserted) != count:
                    break
                following = head.copy()
                following.merge(end.each(rounds.following))
                if following == head:
                    return leaves.each(rounds.leaving)
                head = following

    def rounds(self, op: Op) -> _Rounds:
        known = self.known_rounds.get(op)
        if known is None:
            changing = self.accesses.changing
            inside = _defined_in(op, self.forms)
            carried = self.forms.carried.get(op, [])
            behind = {c.inside: c.behind for c in carried if c.behind is not None}

            def leave(form: Form, modulus: int) -> Form:
                return self.forms.canonical(substituted(form, behind), modulus)

            leaving = changing(lambda t: _renamed(t, leave).forget(inside))
            following = changing(_next_round(carried, inside))
            entering = changing(self.first_round(op, carried))
            known = self.known_rounds[op] = _Rounds(entering, following, leaving)
        return known

    def at_first(self, block: Block) -> Iterator[Touch]:
        """The accesses of a block, those of loops in it in the first round."""
        for op in self.steps(block):
            for access in self.touches(op):
                yield self.accesses.touches[access]
            starts = {c.inside: c.start for c in self.forms.carried.get(op, [])}
            for region in op.regions:
                for touch in self.at_first(region):
                    yield touch.expressed(lambda form, m: self.forms.canonical(substituted(form, starts), m))  # noqa: B023

    def first_round(self, op: Op, carried: list[Carried]) -> Callable[[Touch], Touch]:
        """Slots and offsets relative to what the loop carries, which has its start in the first round."""
        starts = {c.inside: c.start for c in carried}
        # Factors of what is carried, in the body's accesses of a memory.
        slots: dict[Value, dict[int, int]] = defaultdict(dict)
        offsets: dict[Value, dict[int, int]] = defaultdict(dict)
        for touch in (touch for region in op.regions for touch in self.at_first(region)):
            if touch.slot is not None:
                slots[touch.memory].update((v, k) for v, k in touch.slot.terms if v in starts)
            if touch.offsets is not None:
                offsets[touch.memory].update((v, k) for v, k in touch.offsets.terms if v in starts)

        def relative(form: Form, factors: dict[int, int], modulus: int) -> Form:
            for value, factor in factors.items():
                form = plus(plus(form, ({value: 1}, 0), factor), self.forms.canonical(starts[value], modulus), -factor)
            return form

        entered: set[Touch] = set()

        def change(touch: Touch) -> Touch:
            if touch.before is not None:
                return touch
            if len(entered) >= MAX_ENTERED:
                return touch.without(bool(slots.get(touch.memory)), bool(offsets.get(touch.memory)))
            if touch.slot is not None and (factors := slots.get(touch.memory)):
                form = relative(touch.slot.form, factors, touch.slot.holds)
                touch = replace(touch, slot=touch.slot.of(form))
            if touch.offsets is not None and (factors := offsets.get(touch.memory)):
                terms, constant = relative((dict(touch.offsets.terms), touch.offsets.constant), factors, EXACT)
                touch = replace(touch, offsets=touch.offsets._replace(terms=_terms(terms), constant=constant))
            entered.add(touch)
            return touch

        return change

    def branch_of_threads(self, block: Block, position: int, op: Op, state: State) -> int:
        """A branch or a loop that threads take one by one holds no barrier: what it needs is put before it."""
        self.branch = 0
        inside = State(0, state.groups, state.open, state.committed)
        inside = self.loop(op, inside) if op.spec.loops else self.one_after_the_other(op, inside)
        accesses, self.branch = self.branch, None
        scope: str | None = None
        for access in _members(accesses):
            scope = _wider(scope, self.hazard(access, state.pending))
        added = self.add(block, position, scope, op, state) if scope else 0
        state.pending |= self.rounds(op).leaving(inside.pending)
        state.groups, state.open, state.committed = inside.groups, inside.open, inside.committed
        return added

    def one_after_the_other(self, op: Op, state: State) -> State:
        """Behind a branch of which some threads take one side while others take the other one."""
        for region in op.regions:
            state = self.block(region, state)
        return state

    def add(self, block: Block, position: int, scope: str, op: Op, state: State) -> int:
        if self.branch is not None:
            what = "this access meets one of another thread"
            if "action" in op.attrs and op.attrs["order"] != "relaxed":
                what = f"the order of this atomic ({op.attrs['order']}) concerns accesses of other threads"
            elif op.attrs.get("cache") == "volatile":
                what = "one thread loads this for all that need it"
            message = f"{what} in the same branch, and a branch of threads holds no barrier"
            hint = "use where() or mask= outside the branch, or 'barriers manual' in the schedule"
            raise TileError("hazard", op.loc, message, hint)
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
            state.pending = 0
        else:
            state.pending = self.in_warp(state.pending)

    def access(self, block: Block, position: int, op: Op, state: State) -> int:
        """Handles one access; 1 if a barrier was put before it."""
        added, accesses, scope = 0, 0, None
        flying = 0 if self.checking else reduce(or_, state.groups, state.open)  # copies are waited for in any case
        for access in self.touches(op):
            if flying and self.compare(access, flying, self.hit[access], self.collide):
                self.fail_in_flight(access, state, op)
            if met := self.hazard(access, state.pending):
                scope = _wider(scope, met)
            accesses |= 1 << access
        if scope:
            added = self.add(block, position, scope, op, state)
        if op.spec.in_flight:
            state.open |= accesses
        else:
            state.pending |= accesses
        if self.branch is not None:
            self.branch |= accesses
        return added

    def fail_in_flight(self, access: int, state: State, op: Op) -> NoReturn:
        touch, hit = self.accesses.touches[access], self.hit[access].block
        if hit & state.open:
            first, met = "commit() the copy and wait(0)", hit & state.open
        else:
            newer, met = next((i, hit & group) for i, group in enumerate(reversed(state.groups)) if hit & group)
            first = NEVER if newer + 1 == self.groups_kept else f"wait({newer})"
        flying = next(_members(met))
        other, copy = self.accesses.touches[flying], self.copy_of(flying)
        line = "" if copy is None or copy.loc is None else f" of {_line(copy, op)}"
        if touch.bond is not None:
            copied = f"the copy{line} from '{other.memory.name}'"
            message = f"this releases what the block did while {copied} may be in flight"
            raise TileError("hazard", op.loc, message, f"{first} first")
        does, way = ("writes" if touch.write else "reads"), ("into" if other.write else "from")
        message = f"this {does} '{touch.memory.name}' while the copy{line} {way} it may be in flight"
        same = None if copy is None else self.same_slot(copy, other, op, touch)
        others = "" if first == NEVER else ", or a ring of more slots" if same else ", or use another slot"
        raise TileError("hazard", op.loc, message + (f": {same}" if same else ""), f"{first} first{others}")

    def copy_of(self, flying: int) -> Op | None:
        """The copy that an access in flight belongs to: of several that became one access, one nearest to it."""
        copies = [op for op in walk(self.function.body) if op.spec.in_flight]
        for numbers in self.accesses.generations(flying):
            for op in copies:
                if numbers & set(self.touched.get(op, ())):
                    return op
        return None

    def same_slot(self, copy: Op, flying: Touch, op: Op, touch: Touch) -> str | None:
        """Which two slots of a ring are one: that of a copy in flight, told by the round of the access, and that of the
        access. None where they are not known, or have one index."""
        ring = touch.slot.modulus if touch.slot is not None else None
        index, to = operand(op, "slot"), operand(copy, "slot")
        if not ring or flying.slot is None or index is None or to is None:
            return None
        began = self.slot_of(copy.operands[0], to)
        began = began.of(self.forms.canonical(began.form, began.holds))
        if [factor for _, factor in began.terms] != [1]:
            return None
        order = [each for each in walk(self.function.body) if each is op or each is copy]
        rounds = (began.constant - flying.slot.constant) % ring
        if not rounds and order[0] is op:  # the copy comes behind the access: it is of an earlier round
            rounds = ring
        here, there = self.slot_text(index), self.slot_text(to, rounds)
        if here is None or there is None or here == there:
            return None
        before = f", {rounds} round{'s' * (rounds > 1)} before," if rounds else ""
        return f"slot {here} here and slot {there} of the copy{before} are the same in a ring of {ring}"

    def slot_text(self, index: Value, less: int = 0) -> str | None:
        """The index of a slot, less a number, as a kernel writes it; None where a part of it has no name."""
        index, _ = remainder(index)
        factors, constant = self.forms.form(index)
        constant -= less
        names = [(self.forms.values[value].name, factor) for value, factor in factors.items()]
        if any(name is None for name, _ in names):
            return None
        parts = [f"{name}" if factor == 1 else f"{factor} * {name}" for name, factor in names]
        parts += [str(constant)] * (constant != 0 or not parts)
        return " + ".join(parts).replace("+ -", "- ")

    def hazard(self, access: int, pending: int) -> str | None:
        """The scope of the barrier between an access and what is pending, or None."""
        scope = self.compare(access, pending, self.met[access], self.meet)
        return "warp" if scope and self.function.warps == 1 else scope

    def compare(
        self, access: int, others: int, known: _Meetings, meeting: Callable[[Touch, Touch], str | None]
    ) -> str | None:
        """The widest scope in which an access meets one of `others`, or None. Each pair is looked at once."""
        touches = self.accesses.touches
        touch = touches[access]
        new = others & self.accesses.before(touch) & ~known.compared
        for number in _members(new) if new else ():
            if others & known.block:
                break
            other = touches[number]
            scope = meeting(other, touch) if touch.write or other.write else None
            known.compared |= 1 << number
            known.warp |= (scope == "warp") << number
            known.block |= (scope == "block") << number
        return "block" if others & known.block else "warp" if others & known.warp else None

    def collide(self, flying: Touch, touch: Touch) -> str | None:
        """Scope "block" unless a copy in flight and an access touch different elements, in all rounds that the copy
        stands for."""
        for earlier in _rounds(flying, touch):
            if not _disjoint(earlier, touch):
                return "block"
        return None

    def meet(self, other: Touch, touch: Touch) -> str | None:
        """The scope in which a pending access meets another one, in any round that it stands for."""
        if touch.combines is not None and touch.combines == other.combines:
            return None
        scope: str | None = None
        for earlier in _rounds(other, touch):
            met = self.conflict(earlier, touch)
            scope = _wider(scope, None if met == "warp" and other.warp_ordered else met)
        return scope

    def drop_superfluous(self) -> None:
        """In a loop, a barrier put in later, for the next round, may order all that an earlier one was put in for.

        And one before the loop may order all that one in it was put in for, but once and not in each round.
        """
        self.checking = True
        for loop in (op for op in self.function.body.ops if op.spec.loops):
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
            if op.spec.loops:
                yield block, op

    def inserted_in(self, loop: Op) -> list[tuple[Block, Op]]:
        blocks = {b for op in [loop, *(o for r in loop.regions for o in walk(r))] for b in op.regions}
        return [(b, barrier) for b, barrier in self.inserted if b in blocks]

    def changing(self, block: Block) -> tuple[list[Op], list[Op]]:
        """The operations of a block, and its steps, to be changed: what was found of it and what it is in is void."""
        around: Block | None = block
        while around is not None:
            self.outcomes.pop(around, None)
            around = self.around.get(around)
        return block.ops, self.steps(block)

    def place(self, block: Block, barrier: Op, before: Op) -> None:
        for ops in self.changing(block):
            ops.insert(ops.index(before), barrier)

    def remove(self, block: Block, barrier: Op) -> None:
        for ops in self.changing(block):
            ops.remove(barrier)

    def take_out(self, block: Block, barrier: Op) -> bool:
        """Removes a barrier if all is ordered without it."""
        places = [(ops, ops.index(barrier)) for ops in (block.ops, self.steps(block))]
        self.remove(block, barrier)
        try:
            self.block(self.function.body, State())
        except _Needed:
            self.changing(block)
            for ops, position in places:
                ops.insert(position, barrier)
            return False
        self.inserted.remove((block, barrier))
        return True

    # ---- accesses ----

    def touches(self, op: Op) -> list[int]:
        """The accesses of one operation to what the kernel writes."""
        known = self.touched.get(op)
        if known is None:
            touches = self._touches(op) if op.spec.effects is not None else []
            known = self.touched[op] = [self.accesses.number(touch) for touch in touches]
        return known

    def _touches(self, op: Op) -> list[Touch]:
        assert op.spec.effects is not None
        out = []
        effects = op.spec.effects(op)
        written = {effect.memory for effect in effects if effect.kind == "write"}
        for effect in effects:
            memory = effect.memory
            if not (memory in self.written or (self.all_global and effect.space == "global")):
                continue
            bond = effect.kind if effect.kind in ("acquire", "release") else None
            if effect.kind == "read" and memory in written:
                continue  # one touch for both
            copied = op.spec.in_flight and effect.kind == "read"
            offset, slot = operand(op, "source" if copied else "offset"), None if copied else operand(op, "slot")
            assert offset is not None
            one = bool(written) or op.attrs.get("one_thread", False)
            combines = None
            action = op.attrs.get("action")
            if action is not None and action not in ("exchange", "cas") and op.result not in self.used:
                combines = action
            elif op.attrs.get("order") == "none":
                combines = "store"
            layout = offset.tile.layout
            if bond is not None:
                out.append(Touch(memory, True, None, None, layout, one, bond=bond))
                continue
            where = self.affines.of(offset) or self.listed.of(offset)
            joint = op.spec.joint
            write = effect.kind == "write"
            form = None if slot is None else self.slot_of(memory, slot)
            touch = Touch(memory, write, form, where, layout, one, slot is not None, combines, joint)
            out.append(touch.expressed(self.forms.canonical))
        return out

    def slot_of(self, memory: Value, index: Value) -> Slot:
        """The slot that an index chooses: of a ring modulo its slots; `i % 2` takes two in turn."""
        assert isinstance(memory.type, SharedType)
        modulus = memory.type.shape[0] if memory.type.ring else None
        inner, taken = remainder(index)
        if taken is not None and (modulus is None or taken <= modulus):
            index, modulus = inner, taken
        elif taken is not None and modulus is not None and taken % modulus == 0:
            index = inner
        return Slot((), 0, modulus).of(self.forms.form(index))

    # ---- do two accesses of different threads meet? ----

    def conflict(self, a: Touch, b: Touch) -> str | None:
        """The scope in which two accesses meet; None if whatever both touch is touched by one thread alone."""
        if a.bond is not None or b.bond is not None:
            return _between(self.acting(a) | self.acting(b))
        if _disjoint(a, b):
            return None
        met = self._meet(a, b)
        return "warp" if met is None and (a.joint or b.joint) else met

    def acting(self, touch: Touch) -> int:
        """The bits of thread numbers in which the threads that do an access differ."""
        if touch.layout is None:
            return 0 if touch.one_thread else self.function.threads - 1
        return (self.function.threads - 1) & ~_idle(touch)

    def _meet(self, a: Touch, b: Touch) -> str | None:
        if a.offsets is None or b.offsets is None or not _comparable(a, b):
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
            assert a.offsets is not None and b.offsets is not None
            if a.offsets.constant != b.offsets.constant:
                return None
            if a.one_thread and b.one_thread:
                return None
            return "block"
        scalar, tile = (a, b) if a.layout is None else (b, a)
        assert scalar.offsets is not None and tile.offsets is not None and tile.layout is not None
        offsets = _owners(tile, self.function.warps)
        met = offsets.get(scalar.offsets.constant)
        if not met:
            return None
        if scalar.one_thread and set(met) == {0}:
            return None
        if scalar.one_thread and all(t < WARP for t in met):
            return "warp"
        return "block"


def _line(op: Op, near: Op) -> str:
    """Where an operation is, for a message at another one."""
    assert op.loc is not None
    is_near = near.loc is not None and near.loc.source is op.loc.source
    return f"line {op.loc.line}" if is_near else str(op.loc)


def _between(threads: int) -> str | None:
    """The scope of a barrier between threads whose numbers differ in these bits."""
    return None if not threads else "warp" if threads < WARP else "block"


def _is_global(touch: Touch) -> bool:
    return not isinstance(touch.memory.type, SharedType)


def _wider(a: str | None, b: str | None) -> str | None:
    return "block" if "block" in (a, b) else a or b


def _blocks(block: Block) -> Iterator[Block]:
    """A block and those in it."""
    yield block
    for op in block.ops:
        for region in op.regions:
            yield from _blocks(region)


def _defined_in(op: Op, forms: LoopForms) -> set[int]:
    """The identities of all values of an operation's regions, but for those that are the same each time they run."""
    out = {id(a) for region in op.regions for a in region.args}
    out |= {id(name) for name in forms.names.get(op, ())[:1]}
    for inner in (o for region in op.regions for o in walk(region)):
        out |= {id(a) for region in inner.regions for a in region.args}
        out |= {id(name) for name in forms.names.get(inner, ())}
        if not inner.spec.pure or any(id(o) in out for o in inner.operands):
            out |= {id(r) for r in inner.results}
    return out


def _new(value: int) -> int:
    """The identity of what a value becomes in the next round, beside its own, as long as both stand in one form."""
    return ~value


def _next_round(carried: list[Carried], inside: set[int]) -> Callable[[Touch], Touch]:
    """An access of one round of a loop as the next one sees it."""
    # What keeps its name from round to round, and what a round adds to it; what the next round knows by another name;
    # what a round adds to that only the run knows.
    steps = {c.inside: c.next[1] for c in carried if c.next[0] == {c.inside: 1} and c.modulus == EXACT}
    renamed: dict[int, Form] = {}
    added: dict[int, tuple[Form, int]] = {}
    for c in carried:
        if list(c.next[0].values()) == [1]:
            (value,) = c.next[0]
            if value in inside and value not in steps:
                renamed[value] = ({c.inside: 1}, -c.next[1])
        elif c.next[0].get(c.inside) == 1:
            added[c.inside] = plus(c.next, ({c.inside: 1}, 0), -1), c.modulus
    unknown = inside - steps.keys() - renamed.keys() - added.keys()

    def follow(form: Form, modulus: int) -> Form | None:
        """A form by the names of the next round, which have become more; None where not all that they have is in it."""
        left: set[int] = set()
        for value, (more, under) in added.items():
            factor = form[0].get(value)
            if factor:
                if not holds(under, modulus):
                    return None
                before = plus(({_new(value): 1}, 0), more, -1)  # what it was, by what it has become
                form = reduced(plus(plus(form, ({value: 1}, 0), -factor), before, factor), modulus)
                left |= {value, *more[0]}
        if form[0].keys() & (unknown | left):
            return None
        return substituted(form, renamed | {_new(value): ({value: 1}, 0) for value in added})

    def change(touch: Touch) -> Touch:
        touch = _renamed(touch, follow)
        slot = sum(k * steps.get(v, 0) for v, k in touch.slot.terms) if touch.slot is not None else 0
        offset = sum(k * steps.get(v, 0) for v, k in touch.offsets.terms) if touch.offsets is not None else 0
        if not (slot or offset) or touch.before == (slot, offset):
            return touch
        if touch.before is not None:  # another loop made it stand for rounds of its own
            return touch.without(bool(slot), bool(offset))
        ring = (slot and touch.slot is not None and touch.slot.modulus) or 0
        if 0 < ring <= MAX_ROUNDS_BACK and not offset:  # it comes round again
            return touch.shifted(slot, 0)
        before = (slot, offset) if touch.age + 1 >= min(ring or EXACT_ROUNDS, MAX_ROUNDS_BACK) else None
        return replace(touch.shifted(slot, offset), age=touch.age + 1, before=before)

    return change


def _renamed(touch: Touch, follow: Callable[[Form, int], Form | None]) -> Touch:
    """An access by the names of the next round, or of what is behind a loop. Names that come round again, each time
    with another constant (a pair exchanged and counted on), would go on for ever: after a few rounds such a place is
    not known any more. The slots of a ring come round again themselves."""
    out = touch.expressed(follow)
    slot = out.slot is not None and not out.slot.modulus and _moved(touch.slot, out.slot)
    offsets = out.offsets is not None and _moved(touch.offsets, out.offsets)
    if not (slot or offsets):
        return out
    return replace(out, age=out.age + 1) if out.age < EXACT_ROUNDS else out.without(slot, offsets)


def _moved(old: Slot | Affine | Listed | None, new: Slot | Affine | Listed) -> bool:
    """True if a place has another constant, or more or other factors, and not just other names."""
    assert old is not None
    return old.constant != new.constant or sorted(k for _, k in old.terms) != sorted(k for _, k in new.terms)


def _rounds(a: Touch, b: Touch) -> list[Touch]:
    """The accesses that `a` stands for, one for each earlier round that may meet `b`."""
    if a.before is None:
        return [a]
    slot, offset = a.before
    rounds: Iterable[int] | None = None
    if _comparable(a, b) and offset and a.offsets is not None and b.offsets is not None:
        low_a, high_a = a.offsets.reach(a.shape)
        low_b, high_b = b.offsets.reach(b.shape)
        first, last = low_a - high_b, high_a - low_b  # of the distance by which `a` is moved back
        if offset < 0:
            first, last = -last, -first
        rounds = range(max(0, -(-first // abs(offset))), last // abs(offset) + 1)
    elif slot and a.slot is not None and b.slot is not None and _same_kind(a.slot, b.slot):
        if a.slot.modulus:
            rounds = range(a.slot.modulus)
        else:
            away, rest = divmod(a.slot.constant - b.slot.constant, slot)
            rounds = [away] if away >= 0 and not rest else []
    if rounds is None or len(list(rounds)) > MAX_ROUNDS_BACK:
        return [a.without(bool(slot), bool(offset))]
    return [a.shifted(k * slot, k * offset) for k in rounds]


def _different_slots(a: Touch, b: Touch) -> bool:
    """True if both slots are known and differ, rings taken into account."""
    if a.slot is None or b.slot is None or not _same_kind(a.slot, b.slot):
        return False
    distance = a.slot.constant - b.slot.constant
    return distance % a.slot.modulus != 0 if a.slot.modulus else distance != 0


def _same_kind(a: Slot, b: Slot) -> bool:
    """True if the distance of two slots is that of their constants."""
    return a.terms == b.terms and a.modulus == b.modulus


def _comparable(a: Touch, b: Touch) -> bool:
    """True if the offsets count from the same place (of one slot, if they lie in slots) and the same unknowns."""
    return a.in_slot == b.in_slot and (a.offsets is None or b.offsets is None or a.offsets.terms == b.offsets.terms)


def _disjoint(a: Touch, b: Touch) -> bool:
    """True if two accesses are known to touch different elements."""
    if _different_slots(a, b):
        return True
    if a.offsets is None or b.offsets is None or not _comparable(a, b):
        return False
    low_a, high_a = a.offsets.reach(a.shape)
    low_b, high_b = b.offsets.reach(b.shape)
    if high_a < low_b or high_b < low_a:
        return True
    if max(prod(a.shape), prod(b.shape)) > MAX_ENUMERATED:
        return False
    elements = _elements(a.offsets._replace(terms=(), constant=0), a.shape)
    distance = b.offsets.constant - a.offsets.constant
    return not any(e + distance in elements for e in _elements(b.offsets._replace(terms=(), constant=0), b.shape))


@lru_cache(maxsize=256)
def _elements(offsets: Affine | Listed, shape: tuple[int, ...]) -> frozenset[int]:
    return frozenset(offsets.values(shape))


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
    assert a.offsets is not None and b.offsets is not None and a.layout is not None and b.layout is not None
    if a.offsets == b.offsets and a.shape == b.shape and a.offsets.one_to_one(a.shape):
        return _image(a, None), _image(b, None)
    if isinstance(a.offsets, Listed) or isinstance(b.offsets, Listed):
        return None
    if a.offsets.constant != b.offsets.constant:
        return None
    if not (free_of_carries(a.offsets, a.layout.shape) and free_of_carries(b.offsets, b.layout.shape)):
        return None
    return _image(a, a.offsets), _image(b, b.offsets)


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
    """Bits of the thread's number that are 0 in all threads that act."""
    assert touch.layout is not None
    free = touch.layout.replicated
    return free["lane"] | free["warp"] << 5 if touch.one_thread else 0


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
    layout = touch.layout
    assert layout is not None and touch.offsets is not None
    idle = _idle(touch)
    offsets = touch.offsets.values(layout.shape)
    registers, bases = layout.offsets, layout.thread
    out: dict[int, list[int]] = {}
    for thread in range(WARP * warps):
        if not thread & idle:
            part = apply(bases, thread)
            for register in registers:
                out.setdefault(offsets[part ^ register], []).append(thread)
    return out
