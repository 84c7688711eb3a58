"""Finds which elements of which memory an operation touches, and which threads touch them.

The stage and the offsets of an access are expressed in scalars of the kernel and in iteration numbers of loops
(`dsl/lowering/building/loop_forms.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import reduce
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.building.loop_forms import EXACT, Form, LoopForms, number, plus, reduced, remainder
from dsl.lowering.hopper.boxes import CopiedBox
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import SharedType, TileType, ViewType
from dsl.lowering.known.affine import Affine, AffineOffsets, Terms
from dsl.lowering.known.listed_offsets import Listed, ListedOffsets
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.ops import operand
from dsl.lowering.ops.memory import BONDS, clears, commutes, counts_iterations, place_of

Change = Callable[[Form, int], Form | None]
"""Rewrites a form (terms and a constant). The new form must be right modulo the second argument. Returns None if the
form is not known any more."""


BEYOND = 1 << 32
"""The base of the digits of a box number. It exceeds the distance, counted in tiles, between any two tiles of an array
along an axis."""


def along(box: int, axes: Collection[int]) -> int:
    """Removes all digits from a box number except those of `axes`. A box number has one digit in base BEYOND for each
    axis. Digits are signed, and their magnitude is less than half of BEYOND."""
    kept, axis = 0, 0
    while box:
        digit = (box + BEYOND // 2) % BEYOND - BEYOND // 2
        kept += digit * BEYOND**axis * (axis in axes)
        box, axis = (box - digit) // BEYOND, axis + 1
    return kept


class Stage(NamedTuple):
    """The index of a pipeline stage: Σ terms + constant, modulo `modulus` if it is given. For a TMA box of a tensor,
    the index is the number of the box, which has one digit for each axis. `axes` lists the axes whose digit is
    known."""

    terms: Terms
    constant: int
    modulus: int | None
    axes: tuple[int, ...] = ()

    @property
    def holds(self) -> int:
        """The modulus for which forms of the index must be correct."""
        return self.modulus or EXACT

    @property
    def form(self) -> Form:
        return dict(self.terms), self.constant

    def of(self, form: Form) -> Stage:
        """Returns the same stage with the index `form`."""
        factors, constant = reduced(form, self.holds)
        return self._replace(terms=terms_of(factors), constant=constant)

    def along(self, axes: Collection[int]) -> Stage:
        """Removes all digits of a box number except those along `axes`. Returns a stage that is not a box unchanged."""
        if not self.axes:
            return self
        terms = terms_of({value: along(factor, axes) for value, factor in self.terms})
        kept = tuple(axis for axis in self.axes if axis in axes)
        return self._replace(terms=terms, constant=along(self.constant, axes), axes=kept)

    def changed(self, change: Change) -> Stage | None:
        """Returns the stage with `change` applied to its index. The digits of a box are rewritten one by one, so one
        digit may stay known while another becomes unknown. Returns None if nothing is known any more."""
        if not self.axes:
            form = change(self.form, self.holds)
            return None if form is None else self.of(form)
        told = {axis: change(self.along([axis]).form, self.holds) for axis in self.axes}
        known = {axis: form for axis, form in told.items() if form is not None}
        whole = reduce(plus, known.values(), number(0))
        return self._replace(axes=tuple(known)).of(whole) if known else None


class Touch(Struct, frozen=True, cache_hash=True):
    """One memory access that is not ordered yet.

    `bond`: "acquire" or "release" if the access orders global memory with other blocks. Such an access touches no
        element itself.
    `stage`: the index of the stage. It is None if there is no stage, or if the index is unknown; `in_stage` is True in
        the second case.
    `offsets`: the offsets of the elements, within the stage if there is one. It is None if any element may be touched.
    `layout`: the layout of the tile, or None for a scalar.
    `one_thread`: True if only one of the threads that hold an element touches it. For a scalar, this is thread 0.
    `combines`: the action of the access, if accesses with the same action need no order between them
        (`dsl/lowering/ops/memory.py`).
    `polls`: the operation, if it is an atomic whose executions in one loop need no order between them.
    `joint`: True if the lanes of a warp do the access together, so that a lane also accesses elements of other lanes.
    `grouped`: True if the warps of a warp group do the access together, through the asynchronous proxy. The compiler
        emits the fence for this proxy only with block barriers.
    `warp_ordered`: True if a warp barrier came after the access. Then it can conflict only with accesses of other
        warps.
    `age`: how many iterations of loops have passed since the access.
    `before`: (stage, offset), if the access also represents earlier iterations. One iteration earlier, its stage and
        offset are lower by these numbers.
    """

    memory: Value
    write: bool
    stage: Stage | None
    offsets: Affine | Listed | None
    layout: Layout | None
    one_thread: bool
    in_stage: bool = False
    combines: str | None = None
    joint: bool = False
    grouped: bool = False
    bond: str | None = None
    warp_ordered: bool = False
    age: int = 0
    before: tuple[int, int] | None = None
    polls: Op | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape if self.layout else ()

    @property
    def is_global(self) -> bool:
        return not isinstance(self.memory.type, SharedType)

    def shifted(self, stage: int, offset: int) -> Touch:
        """Returns the same access, moved back by `stage` stages and `offset` elements."""
        out = self
        if stage and out.stage is not None:
            out = replace(out, stage=out.stage.of((dict(out.stage.terms), out.stage.constant - stage)))
        if offset and out.offsets is not None:
            out = replace(out, offsets=out.offsets._replace(constant=out.offsets.constant - offset))
        return out

    def expressed(self, change: Change) -> Touch:
        """Returns the same access with `change` applied to its stage and offsets."""
        stage, offsets = self.stage, self.offsets
        if stage is not None and stage.terms:
            stage = stage.changed(change)
        if offsets is not None and offsets.terms:
            form = change((dict(offsets.terms), offsets.constant), EXACT)
            offsets = None if form is None else offsets._replace(terms=terms_of(form[0]), constant=form[1])
        if stage == self.stage and offsets == self.offsets:
            return self
        out = self.without(self.stage is not None and stage is None, self.offsets is not None and offsets is None)
        out = out.along(stage.axes) if stage is not None else out
        return replace(out, stage=stage, offsets=offsets)

    def along(self, axes: tuple[int, ...]) -> Touch:
        """Returns the same access to a box, except that only the digits of the box number along `axes` are known."""
        if self.stage is None or self.stage.axes == axes:
            return self
        before = self.before and (along(self.before[0], axes), self.before[1])
        return replace(self, stage=self.stage.along(axes), before=before if before and any(before) else None)

    def forget(self, values: set[int]) -> Touch:
        """Makes the stage or the offsets unknown if they depend on `values`."""
        return self.expressed(lambda form, _: None if form[0].keys() & values else form)

    def without(self, stage: bool, offsets: bool) -> Touch:
        """Returns the same access with an unknown stage (`stage`) or unknown offsets (`offsets`). If only one of them
        becomes unknown, the other may still change from iteration to iteration."""
        if not (stage or offsets):
            return self
        before = self.before and (self.before[0] * (not stage), self.before[1] * (not offsets))
        known = None if stage else self.stage, None if offsets else self.offsets
        return replace(self, stage=known[0], offsets=known[1], before=before if before and any(before) else None)


def terms_of(factors: dict[int, int]) -> Terms:
    return tuple(sorted((v, k) for v, k in factors.items() if k))


def stage_of(forms: LoopForms, memory: Value, index: Value) -> Stage:
    """Returns the stage that an index selects. In a ring buffer, the index counts modulo the number of stages. An index
    `i % 2` counts modulo 2."""
    assert isinstance(memory.type, SharedType)
    modulus = memory.type.shape[0] if memory.type.ring else None
    inner, taken = remainder(index)
    if taken is not None and (modulus is None or taken <= modulus):
        index, modulus = inner, taken
    elif taken is not None and modulus is not None and taken % modulus == 0:
        index = inner
    return Stage((), 0, modulus).of(forms.form(index))


def tiles_of_stores(ops: list[Op]) -> dict[Value, dict[int, int]]:
    """For each tensor that is written by TMA stores: maps each axis to the extent of the stored boxes along it. Axes
    along which the extents differ are left out."""
    found: dict[Value, dict[int, int]] = {}
    for op in ops:
        tensor = operand(op, "tensor") if op.spec.leaves else None
        if tensor is not None:
            extents = {axis.axis: axis.extent for axis in CopiedBox.of(op).axes}
            known = found.setdefault(tensor, extents)
            alike = known.keys() == extents.keys()  # otherwise one map has joined axes that are separate in another map
            found[tensor] = {axis: each for axis, each in known.items() if alike and extents[axis] == each}
    return found


def stage_of_box(forms: LoopForms, op: Op, tiles: dict[int, int]) -> Stage | None:
    """Returns the number of the box that a TMA store writes. Boxes with different numbers have no element in common.

    The number has one digit for each axis along which all boxes begin at multiples of their extent. One digit may be
    known while another is unknown. After a loop over the columns, for example, the digit of the row is still known.
    Returns None if there is no such axis.
    """
    terms: dict[int, int] = {}
    constant, axes = 0, []
    for axis in CopiedBox.of(op).axes:
        extent = tiles.get(axis.axis)
        factors, first = forms.canonical(forms.form(axis.first), EXACT)
        if extent and not first % extent and not any(factor % extent for factor in factors.values()):
            digit = BEYOND**axis.axis
            constant += first // extent * digit
            axes.append(axis.axis)
            for value, factor in factors.items():
                terms[value] = terms.get(value, 0) + factor // extent * digit
    return Stage(terms_of(terms), constant, None, tuple(sorted(axes))) if axes else None


class Touches:
    """Finds the accesses of one function's operations to memory that may be written while the kernel runs. `ops`
    contains all operations of the function. If `by_hand` is true, only tiles that the compiler created are considered,
    because the user writes the barriers between all other accesses."""

    def __init__(self, ops: list[Op], forms: LoopForms, by_hand: bool = False):
        self.effects = {op: op.spec.access.effects(op) for op in ops if op.spec.access.touches}
        effects = [e for found in self.effects.values() for e in found]
        self.written = {e.memory for e in effects if e.kind == "write"}
        # The mbarriers of a pipeline order the accesses to tiles that go through the pipeline, but only the copies to
        # tiles in which threads set elements to 0.
        self.in_pipelines = {e.memory for e in effects if e.by.completion == "mbarrier"}
        self.in_pipelines -= {op.operands[0] for op in ops if clears(op)}
        # Memory that a kernel only reads does not change while the kernel runs. There is one exception: if an atomic
        # has system scope, the host or another kernel may write the memory.
        self.all_global = any(e.kind in BONDS and e.by.scope == "sys" for e in effects)
        self.used = {value for op in ops for value in op.operands}
        self.tiles = tiles_of_stores(ops)
        self.own = {op.results[0] for op in ops if op.attrs.get("own")} if by_hand else None
        self.forms = forms
        self.affines = AffineOffsets()
        self.listed = ListedOffsets()

    def offset_of(self, op: Op, touch: Touch) -> Value:
        """Returns the offsets that an operation uses for one of its accesses."""
        if isinstance(op.result.type if op.results else None, ViewType):
            offset = operand(op, "offset")
            assert offset is not None
            return offset
        kind = "write" if touch.write else "read"
        return next(place_of(op, e)[0] for e in self.effects[op] if e.memory is touch.memory and e.kind == kind)

    def source_of_doubt(self, offset: Value) -> Op | None:
        """Returns the operation that makes offsets unknown. Returns None if they are unknown because they are
        loop-carried."""
        while (op := offset.op) is not None:
            unknown = [v for v in op.operands if isinstance(v.type, TileType) and not self.place(v)]
            if not unknown:
                return op
            offset = unknown[0]
        return None

    def place(self, offset: Value) -> Affine | Listed | None:
        """Returns the offsets in closed form. Returns None if no such form is found."""
        return self.affines.of(offset) or self.listed.of(offset)

    def of(self, op: Op) -> list[Touch]:
        """Lists the accesses of an operation to memory that may be written."""
        effects = self.effects.get(op)
        if not effects:
            return []
        out = []
        written = {effect.memory for effect in effects if effect.kind == "write"}
        for effect in effects:
            memory = effect.memory
            is_ordered = memory in self.in_pipelines or effect.by.completion == "mbarrier"
            if is_ordered or (self.own is not None and memory not in self.own):
                continue
            if not (memory in self.written or (self.all_global and effect.space == "global")):
                continue
            if effect.kind == "read" and memory in written:
                continue  # an atomic reads and writes: one touch stands for both accesses
            offset, stage = place_of(op, effect)
            layout = offset.tile.layout
            one = bool(written) or op.attrs.get("one_thread", False)
            if effect.kind in BONDS:
                out.append(Touch(memory, True, None, None, layout, one, bond=effect.kind))
                continue
            where = self.place(offset)
            write = effect.kind == "write"
            form = None if stage is None else stage_of(self.forms, memory, stage)
            if op.spec.leaves and write:
                form = stage_of_box(self.forms, op, self.tiles[memory])
            in_stage = stage is not None or form is not None
            combines = commutes(op, self.used)
            grouped = effect.view is not None
            touch = Touch(memory, write, form, where, layout, one, in_stage, combines, op.spec.joint, grouped)
            touch = replace(touch, polls=op) if counts_iterations(op) else touch
            out.append(touch.expressed(self.forms.canonical))
        return out
