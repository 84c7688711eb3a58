"""Inserts the barriers that the order of accesses within a block needs, at the narrowest scope, and no others.

Walks the program with the accesses that no barrier has ordered yet. An access that touches what another thread may
have touched (one of the two writing) needs a barrier before it. Loops are walked until their back edge brings nothing
new. Copies in flight are accesses of their own: touching one is an error, `wait` makes it a write of its thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from lowering.facts import Analysis, linear
from lowering.fold import constant_of
from lowering.ir import Block, Function, Op, Value, walk
from lowering.layout import Layout, apply
from lowering.location import TileError
from lowering.ops import OPS, operand
from lowering.types import SharedType, TileType

MAX_TURNS = 32
TURNS_BEFORE_WIDENING = 3
MAX_ENUMERATED = 1 << 15


@dataclass(frozen=True, slots=True)
class Affine:
    """Element offsets of a tile: Σ coefficient · coordinate + Σ terms + constant.

    `terms` are scalars that nothing resolves further.
    """

    coefficients: tuple[int, ...]
    terms: tuple[tuple[int, int], ...]  # (identity of a value, factor), sorted
    constant: int


@dataclass(frozen=True, slots=True)
class Touch:
    """One access that is not ordered yet."""

    memory: Value
    write: bool
    slot: tuple[tuple[tuple[int, int], ...], int] | None  # linear form of the slot's index, or None: any slot
    affine: Affine | None  # None: any element
    layout: Layout | None  # of the tile; None for a scalar
    one_thread: bool  # a scalar stored by thread 0
    warp_ordered: bool = False  # a warp barrier came after: only other warps can still meet it


@dataclass(slots=True)
class State:
    pending: list[Touch] = field(default_factory=list)
    groups: list[tuple[Touch, ...]] = field(default_factory=list)  # committed copies, oldest first
    open: list[Touch] = field(default_factory=list)  # copies not committed

    def copy(self) -> State:
        return State(list(self.pending), list(self.groups), list(self.open))

    def map(self, change: Callable[[Touch], Touch]) -> State:
        return State(
            list(dict.fromkeys(change(t) for t in self.pending)),
            [tuple(dict.fromkeys(change(t) for t in group)) for group in self.groups],
            list(dict.fromkeys(change(t) for t in self.open)),
        )

    def merge(self, other: State) -> None:
        self.pending += [t for t in other.pending if t not in self.pending]
        self.open += [t for t in other.open if t not in self.open]
        # Groups are matched from the newest: what may be in flight on either way.
        mine, theirs = self.groups[::-1], other.groups[::-1]
        joined = []
        for i in range(max(len(mine), len(theirs))):
            group = list(mine[i]) if i < len(mine) else []
            group += [t for t in (theirs[i] if i < len(theirs) else ()) if t not in group]
            joined.append(tuple(group))
        self.groups = joined[::-1]


def insert_barriers(function: Function) -> None:
    """Adds `barrier` operations; `barriers manual` in the schedule adds none."""
    if function.attrs.get("barriers") == "manual":
        return
    _Inserter(function).run()


class _Inserter:
    def __init__(self, function: Function):
        self.function = function
        self.written = {
            e.memory for op in walk(function.body) if op.spec.effects for e in op.spec.effects(op) if e.kind == "write"
        }
        self.affines: dict[Value, Affine | None] = {}
        self.facts = Analysis(function)
        self.inserted = 0

    def run(self) -> None:
        self.block(self.function.body, State())

    # ---- the walk ----

    def block(self, block: Block, state: State) -> State:
        position = 0
        while position < len(block.ops):
            op = block.ops[position]
            if op.name in ("for", "while"):
                state = self.loop(op, state)
            elif op.name == "if" and op.operands[0].tile.shape:
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
            elif op.name == "wait":
                done = state.groups[: max(0, len(state.groups) - op.attrs["groups"])]
                state.groups = state.groups[len(done) :]
                state.pending += [t for group in done for t in group]
            elif op.spec.effects is not None:
                position += self.access(block, position, op, state)
            position += 1
        return state

    def loop(self, op: Op, state: State) -> State:
        """Rounds are walked from the join of all that may hold at the loop's head, until that and the barriers settle."""
        head = self.enter(op, state)
        for turn in range(MAX_TURNS):
            inserted = self.inserted
            state = head.copy()
            leaving = head.copy()
            for region in op.regions:
                state = self.block(region, state)
                if op.name == "while" and region is op.regions[0]:  # its condition is what ends it
                    leaving = state.copy()
            state = self.next_round(op, state, widen=turn >= TURNS_BEFORE_WIDENING)
            joined = head.copy()
            joined.merge(state)
            if self.inserted == inserted and joined == head:
                return leaving
            head = joined
        raise TileError("copy", op.loc, "copies are committed in this loop and never waited for", "wait(n) in each round")

    def enter(self, op: Op, state: State) -> State:
        """In the first round the counter is its start: slots that are start + c are counter + c."""
        if op.name != "for":
            return state
        counter = op.regions[0].args[0]
        terms, constant = linear(op.operands[0])
        start = tuple(sorted((id(v), k) for v, k in terms.items()))

        def relative(touch: Touch) -> Touch:
            if touch.slot is None or touch.slot[0] != start:
                return touch
            return replace(touch, slot=_slot(touch, ((id(counter), 1),), touch.slot[1] - constant))

        return state.map(relative)

    def next_round(self, op: Op, state: State, widen: bool) -> State:
        """What was counter + c in the last round is counter + c - step in the next.

        Other values of the body are others in the next round: what hangs on them is unknown, and with `widen` so is
        what hangs on the counter (unless it wraps around a ring).
        """
        inside = {id(r) for region in op.regions for o in walk(region) for r in o.results}
        inside |= {id(a) for region in op.regions for a in region.args}
        counter, step = None, None
        if op.name == "for":
            counter, step = id(op.regions[0].args[0]), constant_of(op.operands[2])
            inside.discard(counter)

        def changed(touch: Touch) -> Touch:
            if touch.slot is not None:
                factors = dict(touch.slot[0])
                factor = factors.get(counter, 0) if counter is not None else 0
                ring = isinstance(touch.memory.type, SharedType) and touch.memory.type.ring
                if inside & factors.keys() or (factor and (step is None or (widen and not ring))):
                    touch = replace(touch, slot=None)
                elif factor and step is not None:
                    touch = replace(touch, slot=_slot(touch, touch.slot[0], touch.slot[1] - factor * int(step)))
            if touch.affine is not None:
                factors = dict(touch.affine.terms)
                factor = factors.get(counter, 0) if counter is not None else 0
                if inside & factors.keys() or (factor and (step is None or widen)):
                    touch = replace(touch, affine=None)
                elif factor and step is not None:
                    moved = replace(touch.affine, constant=touch.affine.constant - factor * int(step))
                    touch = replace(touch, affine=moved)
            return touch

        return state.map(changed)

    def branch_of_threads(self, block: Block, position: int, op: Op, state: State) -> int:
        """A branch that threads take one by one holds no block barrier: what it needs is put before it."""
        inside = State()
        scope: str | None = None
        for inner in (o for region in op.regions for o in walk(region)):
            if inner.name == "barrier":
                self.ordered(inside, inner.attrs["scope"])
                continue
            for touch in self.touches(inner):
                self.check_in_flight(touch, state, inner)
                scope = _wider(scope, self.hazard(touch, state.pending))
                if self.hazard(touch, inside.pending):
                    raise TileError(
                        "hazard",
                        inner.loc,
                        "this access meets one of another thread in this branch; a branch of threads has no barrier",
                        "use where() or mask= outside the branch, or 'barriers manual' in the schedule",
                    )
                inside.pending.append(touch)
        added = self.add(block, position, scope, op, state) if scope else 0
        state.pending += inside.pending
        return added

    def add(self, block: Block, position: int, scope: str, op: Op, state: State) -> int:
        block.ops.insert(position, Op(OPS["barrier"], [], [], {"scope": scope}, (), op.loc))
        self.inserted += 1
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
            self.check_in_flight(touch, state, op)
            scope = _wider(scope, self.hazard(touch, state.pending))
        if scope:
            added = self.add(block, position, scope, op, state)
        for touch in touches:
            (state.open if op.name == "copy" and touch.write else state.pending).append(touch)
        return added

    def check_in_flight(self, touch: Touch, state: State, op: Op) -> None:
        for flying in [t for g in state.groups for t in g] + state.open:
            if flying.memory is not touch.memory or _different_slots(touch, flying) or _disjoint(touch, flying):
                continue
            raise TileError(
                "copy",
                op.loc,
                f"this {'writes' if touch.write else 'reads'} '{touch.memory.name}' "
                "while a copy into it may be in flight",
                "commit() the copy and wait(n) for it first, or use another slot",
            )

    def hazard(self, touch: Touch, others: list[Touch]) -> str | None:
        """The scope of the barrier between `touch` and what is pending, or None."""
        scope: str | None = None
        for other in others:
            if other.memory is touch.memory and (touch.write or other.write):
                met = self.conflict(other, touch)
                if met == "warp" and other.warp_ordered:
                    met = None
                scope = _wider(scope, met)
        return "warp" if scope and self.function.warps == 1 else scope

    # ---- accesses ----

    def touches(self, op: Op) -> list[Touch]:
        if op.spec.effects is None:
            return []
        out = []
        for effect in op.spec.effects(op):
            memory = effect.memory
            if effect.space == "param" or memory not in self.written:
                continue
            if op.name == "copy" and effect.kind == "read":
                continue
            if op.name == "atomic" and effect.kind == "read":
                continue  # one touch for both; atomics order nothing among themselves but conflict with plain accesses
            offset, slot = operand(op, "offset"), operand(op, "slot")
            assert offset is not None
            form = None
            if slot is not None:
                terms, constant = linear(slot)
                form = (tuple(sorted((id(v), k) for v, k in terms.items())), constant)
            layout = offset.tile.layout
            one = op.name in ("store", "atomic") and not offset.tile.shape
            out.append(Touch(memory, effect.kind == "write", form, self.affine(offset), layout, one))
        return out

    def affine(self, value: Value) -> Affine | None:
        if value not in self.affines:
            self.affines[value] = self._affine(value)
        return self.affines[value]

    def _affine(self, value: Value) -> Affine | None:
        """The offsets as an affine function of the coordinates, as far as the definition shows."""
        if not isinstance(value.type, TileType):
            return None
        shape = value.tile.shape
        if not shape:
            terms, constant = linear(value)
            return Affine((), tuple(sorted((id(v), k) for v, k in terms.items())), constant)
        op = value.op
        if op is None:
            return None
        if op.name == "arange":
            return Affine((1,), (), 0)
        if op.name == "constant":
            return Affine((0,) * len(shape), (), int(op.attrs["value"]))
        if op.name in ("broadcast", "reshape"):
            inner = self.affine(op.operands[0])
            if inner is None:
                return None
            source = op.operands[0].tile.shape
            if not source:
                return replace(inner, coefficients=(0,) * len(shape))
            if op.name == "broadcast":
                kept = tuple(c if a == b else 0 for c, a, b in zip(inner.coefficients, source, shape, strict=True))
                return replace(inner, coefficients=kept)
            return _reshaped(inner, source, shape)
        if op.name in ("add", "sub"):
            a, b = self.affine(op.operands[0]), self.affine(op.operands[1])
            if a is None or b is None:
                return None
            sign = 1 if op.name == "add" else -1
            merged = dict(a.terms)
            for key, factor in b.terms:
                merged[key] = merged.get(key, 0) + sign * factor
            return Affine(
                tuple(x + sign * y for x, y in zip(a.coefficients, b.coefficients, strict=True)),
                tuple(sorted((k, f) for k, f in merged.items() if f)),
                a.constant + sign * b.constant,
            )
        if op.name == "mul":
            for i in (0, 1):
                number = constant_of(op.operands[i])
                if number is not None:
                    inner = self.affine(op.operands[1 - i])
                    if inner is None:
                        return None
                    k = int(number)
                    return Affine(
                        tuple(c * k for c in inner.coefficients),
                        tuple((v, f * k) for v, f in inner.terms),
                        inner.constant * k,
                    )
        if op.name == "convert_layout":
            return self.affine(op.operands[0])
        return None

    # ---- do two accesses of different threads meet? ----

    def conflict(self, a: Touch, b: Touch) -> str | None:
        if _different_slots(a, b):
            return None
        if a.affine is None or b.affine is None or a.affine.terms != b.affine.terms:
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
        if scalar.one_thread and all(t < 32 for t in met):
            return "warp"
        return "block"


def _slot(touch: Touch, terms: tuple[tuple[int, int], ...], constant: int) -> tuple[tuple[tuple[int, int], ...], int]:
    """A slot's linear form; the constant wraps around a ring."""
    type = touch.memory.type
    if isinstance(type, SharedType) and type.ring:
        constant %= type.shape[0]
    return terms, constant


def _wider(a: str | None, b: str | None) -> str | None:
    return "block" if "block" in (a, b) else a or b


def _different_slots(a: Touch, b: Touch) -> bool:
    """True if both slots are known and differ, rings taken into account."""
    if a.slot is None or b.slot is None or a.slot[0] != b.slot[0]:
        return False
    distance = a.slot[1] - b.slot[1]
    type = a.memory.type
    if isinstance(type, SharedType) and type.ring:
        return distance % type.shape[0] != 0
    return distance != 0


def _disjoint(a: Touch, b: Touch) -> bool:
    """True if two accesses are known to touch different elements."""
    if a.affine is None or b.affine is None or a.layout is None or b.layout is None or a.affine.terms != b.affine.terms:
        return False
    if a.layout.shape != b.layout.shape:
        return False
    low_a, high_a = _range(a.affine, a.layout.shape)
    low_b, high_b = _range(b.affine, b.layout.shape)
    if high_a < low_b or high_b < low_a:
        return True
    elements = {apply_affine(a.affine, c) for c in _coordinates(a.layout.shape)}
    return not any(apply_affine(b.affine, c) in elements for c in _coordinates(b.layout.shape))


def _range(affine: Affine, shape: tuple[int, ...]) -> tuple[int, int]:
    spread = [c * (e - 1) for c, e in zip(affine.coefficients, shape, strict=True)]
    return affine.constant + sum(s for s in spread if s < 0), affine.constant + sum(s for s in spread if s > 0)


def _coordinates(shape: tuple[int, ...]):
    from itertools import product

    return product(*(range(e) for e in shape))


def apply_affine(affine: Affine, coordinates: tuple[int, ...]) -> int:
    return affine.constant + sum(c * x for c, x in zip(affine.coefficients, coordinates, strict=True))


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
    if not (_free_of_carries(a.affine, a.layout.shape) and _free_of_carries(b.affine, b.layout.shape)):
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


def _free_of_carries(affine: Affine, shape: tuple[int, ...]) -> bool:
    """True if the sum of the coordinates' parts is their XOR: no two coefficients reach the same bit."""
    taken = 0
    for coefficient, extent in zip(affine.coefficients, shape, strict=True):
        if coefficient < 0 or coefficient & (coefficient - 1):
            return False
        reached = coefficient * (extent - 1)
        if reached & taken:
            return False
        taken |= reached
    return True


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
    for thread in range(32 * warps):
        if not thread & idle:
            part = apply(bases, thread)
            for register in registers:
                out.setdefault(offsets[part ^ register], []).append(thread)
    return out


def _reshaped(affine: Affine, old: tuple[int, ...], new: tuple[int, ...]) -> Affine | None:
    """Coefficients under another shape: axes of extent 1 come and go; a row-major tile splits and joins freely."""
    if tuple(e for e in old if e > 1) == tuple(e for e in new if e > 1):
        kept = iter([c for c, e in zip(affine.coefficients, old, strict=True) if e > 1])
        return replace(affine, coefficients=tuple(next(kept) if e > 1 else 0 for e in new))
    step = 1
    expected: list[int] = []
    for extent in reversed(old):
        expected.insert(0, step)
        step *= extent
    unit = [c for c, e in zip(affine.coefficients, old, strict=True) if e > 1]
    want = [c for c, e in zip(expected, old, strict=True) if e > 1]
    if not unit:
        return replace(affine, coefficients=(0,) * len(new))
    scale = unit[-1]
    if unit != [w * scale // want[-1] for w in want] or scale % want[-1]:
        return None
    out: list[int] = []
    step = scale // want[-1]
    for extent in reversed(new):
        out.insert(0, step)
        step *= extent
    return replace(affine, coefficients=tuple(out))
