"""`stage a, b: shared`: a loop copies tiles of tensors a and b to shared memory, and loads them from there.

    for p:                         for p:
        x = load a[…]                  copy sa, a[…]; copy sb, b[…]; commit; wait 0
        y = load b[…]       →          x = load sa
        …                              y = load sb
                                       …

Stores can also go through shared memory, so that a thread stores 16 contiguous bytes of a row at once.

If the load is before a loop, it becomes a copy, and each use in the loop loads from the shared tile. So `stage q:
shared` keeps the queries of attention out of the registers. If the load is after a loop, its copy starts before the
loop and arrives during the loop. Example: `stage z: shared` for a tensor z that is added to accumulators.

What the copies read may come from tables that the kernel does not write, such as the pages of a cache (`entries.py`).

`stage a: ahead` keeps the loads, one iteration before the use of what they load.

`pipeline` then starts the copies some iterations earlier. By default, a load is staged if an MMA uses its result. A
16-bit result of an MMA is staged by default if the MMA's operand b is not contiguous along k.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.building.builder import Builder
from dsl.lowering.building.single import SingleElements
from dsl.lowering.building.unused import remove_unused
from dsl.lowering.directives.computed_operands import computed_operands
from dsl.lowering.directives.entries import load_tiles_ahead, unsteady, written_in
from dsl.lowering.directives.halo import are_adjacent
from dsl.lowering.directives.part_maker import PartMaker
from dsl.lowering.directives.peel import may_peel
from dsl.lowering.directives.slices import impure, inside, located, made_anew, reached, slice_of, without
from dsl.lowering.directives.staged import (
    Staged,
    copy,
    copy_halo,
    copy_joint,
    copy_rows,
    feeds_wgmma,
    shared_tile,
    side_by_side,
    taken_names,
    wgmmas_of,
    with_halos,
)
from dsl.lowering.directives.tma import (
    LEAST_ROW,
    LEAST_RUN,
    TMA,
    WHAT_IS_A_MASK,
    boxed,
    flaw_of_box,
    part_of_rows,
    swizzle_of_box,
)
from dsl.lowering.directives.tma_stores import flaw_of_store
from dsl.lowering.directives.wide import Wide
from dsl.lowering.hopper.boxes import MASKED, CopiedBox, with_box
from dsl.lowering.hopper.warpgroup import chain, in_registers, is_turn
from dsl.lowering.ir.fold import constant_of, is_zero_of_bits
from dsl.lowering.ir.function import (
    Block,
    Function,
    Op,
    Value,
    blocks_of,
    in_line,
    parents,
    put,
    replace_uses,
    uses,
    walk,
)
from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.lowering.ir.targets import WARP, Target
from dsl.lowering.ir.types import SharedType, TensorType, TileType
from dsl.lowering.known.facts import Analysis, facts_now
from dsl.lowering.ops import operand
from dsl.lowering.ops.control import started
from dsl.lowering.ops.memory import CUT, leave_out
from dsl.lowering.plan.ledger import Ledger, tile_bytes
from dsl.lowering.plan.products import are_nested, flaw_of_loops, is_wgmma, names_of_product
from dsl.lowering.plan.tile_loads import (
    fed_products,
    feeds_product,
    is_load,
    is_operand,
    is_reduction,
    is_store,
    offset_and_mask,
    place_of,
    row_bytes,
)
from dsl.lowering.shared.access_width import ASYNC_BYTES, MAX_BYTES, lies_along, neighbours, offset_of
from dsl.lowering.shared.atoms import offsets_within, places_in_atoms, shape_in_atoms

WAYS = {"shared": True, "registers": False}
"""The options of the choice `stage` for values computed in parts and for results. True means shared memory."""


AHEAD = "ahead"
UNIT = "bytes of shared memory"
STAGES_OF_EACH = 3
"""Several loops one after another use TMA copies by default only if each loop gets this many stages. Two products of
128 x 128 with 3 stages each take 0.89 to 0.92 times as long as with copies by threads. With tiles of 128 x 256 and 1
and 2 stages, they take 1.00 to 1.49 times as long (H200, f16, four shapes from 1024 to 8192)."""


def stage(function: Function, target: Target) -> None:
    """Stages the loads and stores of tensors in `stage` lines. By default, also stages operands and some results of
    MMAs. Raises TileError `name`, `schedule`, `shared` or `instruction` if a line is impossible for this kernel."""
    computed_operands(function)
    said = function.by_subject("stage", str)
    text = _Subjects.of(function, said)
    _check_subjects(function, said, text.tensors)
    remove_unused(function, set(function.by_subject("peel", str).values()))  # a flag may be on everywhere
    live = _Subjects.of(function, said)
    function.void += [(name, function.lines[key]) for name in said if name in text.tensors - live.tensors
                      and (key := ("stage", name)) in function.lines]  # fmt: skip
    of_results = {name: word for name, word in said.items() if word != AHEAD}
    _stage_results(function, target, live.stores, of_results)  # first: loads get the rest of the shared memory
    if live.found or live.early or live.once or live.behind:
        choosing = _Choosing(function, target, said)
        for loop in dict.fromkeys(loop for loop, _ in live.early):
            _load_ahead(function, choosing, loop, [load for other, load in live.early if other is loop])
        _stage_loads(function, choosing, live.found, live.once, live.behind)
    for load in [op for op in walk(function.body) if is_load(op)]:
        leave_out(load, CUT)  # of boxes that nothing copies


class _Subjects(Struct, frozen=True):
    """What `stage` may stage: loads in loops (`found`, those one iteration `early`), loads before loops that read them
    (`once`) and behind loops, and stores. `tensors` are their names, and those of atomics for TMA."""

    found: list[tuple[Op, Op]]
    early: list[tuple[Op, Op]]
    once: list[Op]
    behind: list[Op]
    stores: list[Op]
    tensors: set[str | None]

    @classmethod
    def of(cls, function: Function, said: dict[str, str]) -> _Subjects:
        loops = [op for op in walk(function.body) if op.spec.control.counters]
        ahead = {name for name, word in said.items() if word == AHEAD}
        early = [
            (loop, op) for loop in loops for op in loop.regions[0].ops if _reads(op) and op.operands[0].name in ahead
        ]
        found = [(loop, op) for loop in loops for op in loop.regions[0].ops if is_load(op) and (loop, op) not in early]
        once = _used_in_loops(function, loops)
        behind = [op for op in _behind_loops(function.body, said) if op not in once]
        stores = [op for op in walk(function.body) if is_store(op)]
        all = [*(load for _, load in (*found, *early)), *once, *behind]
        all += [op for op in stores if op.operands[0].name not in ahead]
        all += [op for op in walk(function.body) if is_reduction(op) and said.get(op.operands[0].name or "") == TMA]
        return cls(found, early, once, behind, stores, {op.operands[0].name for op in all})


def _stage_loads(
    function: Function, choosing: _Choosing, found: list[tuple[Op, Op]], once: list[Op], behind: list[Op]
) -> None:
    """Stages the loads that `choosing` selects. `found` contains pairs of a loop and a load in it. `once` contains
    loads in front of the loops that use them. `behind` contains loads after loops."""
    chosen: dict[Op, list[Op]] = {}
    choosing.find_boxes(found)
    for loop, load in found:
        if way := choosing.way(load, loop.regions[0]):
            chosen.setdefault(loop, []).append(load)
            load.attrs[TMA] = way == TMA
    for load in once:  # not for mma.sync by default: attention with heads of 64 keeps its queries in registers
        if (load.operands[0].name in choosing.said or feeds_wgmma(load, choosing.users)) and choosing.way(load, None):
            _stage_once(function, choosing.facts, load)
    for load in behind:
        if choosing.way(load, None):
            _stage_before(function, choosing.facts, load)
    for loop, loads in chosen.items():
        _stage(function, choosing.facts, loop, loads, choosing.target.shared)


def _reads(op: Op) -> bool:
    """Whether an operation loads a tile or a single element of a tensor."""
    return op.spec.access.kind == "read" and isinstance(op.operands[0].type, TensorType)


def _load_ahead(function: Function, choosing: _Choosing, loop: Op, loads: list[Op]) -> None:
    """Moves loads of a loop to the iteration before. Raises TileError `schedule` if that is not possible."""
    ways, why, taken = {AHEAD: True, "registers": False}, "no iteration waits for it", []

    def refuse(name: str, place: Loc | None, why: str, hint: str) -> TileError:
        return TileError("schedule", place, f"'{name}' cannot be loaded ahead: {why}", hint)

    for load in loads:
        name = load.operands[0].name or "tensor"
        place = function.lines.get(("stage", name))
        if (wrong := choosing.order(load, loop.regions[0])) is not None:
            raise refuse(name, place, *wrong)
        if choose_stage(function, name, ways, AHEAD, why, load.loc, pinned=place):
            taken.append(load)
    if taken and not load_tiles_ahead(Builder(located(function, loop)), function.body, loop, taken):
        if (constant_of(loop.operands[2]) or 1) < 0:
            raise refuse(name, place, "the loop counts down", "for i in range(n): j = n - 1 - i")
        raise refuse(name, place, "its place is not known one iteration earlier", "compute it from the loop's counter")


def choose_stage(
    function: Function, name: str, options: Mapping[str, Any], rule: str, why: str, loc: Loc | None, **more: Any
) -> Any:
    """Makes the choice `stage` for `name`. `more` contains further arguments of `Choices.choose`."""
    line = f"stage {name}: {{option}}"
    return function.choices.choose("stage", name, options, rule, loc=loc, because=why, line=line, **more)


def unstage(function: Function, names: Collection[str]) -> None:
    """Removes the `stage` lines of `names` from the schedule."""
    if names:
        said = function.by_subject("stage", str)
        function.attrs["stage"] = {name: word for name, word in said.items() if name not in names}


def _used_in_loops(function: Function, loops: list[Op]) -> list[Op]:
    """Returns each load that is outside all loops, but is used in a loop."""
    users = uses(function.body)
    inside = {op for loop in loops for op in walk(loop.regions[0])}
    return [op for op in function.body.ops if is_load(op) and inside.intersection(users.get(op.result, ()))]


def _behind_loops(body: Block, said: dict[str, str]) -> list[Op]:
    """Returns each load after the first loop, if its tensor has a line `stage …: shared` or `registers`."""
    loops = [i for i, op in enumerate(body.ops) if op.spec.control.counters]
    found = [op for op in body.ops[loops[0] + 1 :] if is_load(op)] if loops else []
    return [op for op in found if said.get(op.operands[0].name or "", TMA) != TMA]


def _stage_results(function: Function, target: Target, stores: list[Op], said: dict[str, str]) -> None:
    """Stages the stores of tensors in `stage` lines, and by default some stores of MMA results. All stores of one shape
    to one tensor share a shared tile, if the same axis is contiguous in global memory."""
    tiles: dict[tuple[str | None, tuple[int, ...], tuple[int, ...]], Value] = {}
    choosing, head, taken = _ChoosingResults(function, target, stores, said), Block(), taken_names(function.body)
    values = {op: value for op in stores if (value := operand(op, "value")) is not None}
    staged = [op for op, value in values.items() if choosing.is_staged(op, value)]
    for block in blocks_of(function.body):
        _rows_together(block, [op for op in block.ops if op in staged])
    for op in staged:
        name, value = op.operands[0].name, values[op]
        b, axes = Builder(located(function, op)), _axes_in_order(choosing.facts, op)
        if (name, value.shape, axes) not in tiles:
            with b.region(head):
                type = SharedType(tuple(value.shape[axis] for axis in axes), value.dtype)
                tiles[name, value.shape, axes] = shared_tile(b, f"s{name}", taken, type)
        _through(function, op, tiles[name, value.shape, axes], axes)
    function.body.ops[:0] = head.ops


def _rows_together(block: Block, stores: list[Op]) -> None:
    """Orders the stores of parts so that stores to the same rows follow each other. A part then needs no flags of rows
    from a part long before: of 160 x 256 f16 in columns of 128, 284 bytes of them spilled. The products keep their
    order."""
    rows: dict[tuple[Value | None, ...], list[Op]] = {}
    for op in stores:
        if op.attrs.get("order") != "none" or "box" not in op.attrs:
            return
        corners = sum(name.startswith("corner") for name in op.attrs["has"])
        rows.setdefault((op.operands[0], *(operand(op, f"corner{axis}") for axis in range(1, corners))), []).append(op)
    wanted = [op for together in rows.values() for op in together]
    if wanted == stores:
        return
    first, end = block.ops.index(stores[0]), block.ops.index(stores[-1]) + 1
    between = block.ops[first:end]
    written = {op.operands[0] for op in stores}
    others = [op for op in between if op not in stores]
    if not all(op.spec.pure or (op.spec.access.kind == "read" and op.operands[0] not in written) for op in others):
        return
    made: dict[Op, None] = {}
    for op in wanted:
        made |= dict.fromkeys([*slice_of(others, op.operands), op])
    block.ops[first:end] = [*made, *(op for op in others if op not in made)]


class _ChoosingResults:
    """Decides which stores go through shared memory, with one decision per tensor."""

    def __init__(self, function: Function, target: Target, stores: list[Op], said: dict[str, str]):
        self.function, self.target, self.said = function, target, said
        self.facts, self.stores, self.ledger = facts_now(function), stores, Ledger(function, target)
        loops = [op for op in walk(function.body) if op.spec.control.counters]
        self.starts = {arg: start for op in loops for start, arg in started(op)}
        self.many_tiles = any(loop.attrs.get("tiles") for loop in loops)
        self.chosen: dict[str | None, bool] = {}

    def is_staged(self, op: Op, value: Value) -> bool:
        name = op.operands[0].name
        if name not in self.chosen:
            word = self.said.get(name or "")
            if word is None and self._is_planned(op, value) and self._leaves_by_tma(op, value):
                return False
            found = self._of_tma(op, value) if word == TMA else self._of_rows(op, value)
            if found is None:
                return False  # not remembered: another store of the tensor may be staged
            self.chosen[name] = found
        return self.chosen[name]

    def _is_planned(self, op: Op, value: Value) -> bool:
        """Whether `op` stores a result of wgmma that TMA may store by default."""
        bits = op.operands[0].dtype.bits
        if not self.many_tiles:
            return False  # no tile follows, so no other work overlaps a TMA store
        products = list(_products_behind(value))
        return bool(products) and all(map(is_wgmma, products)) and (bits == 16 or op.operands[0].dtype.is_int)

    def _leaves_by_tma(self, op: Op, value: Value) -> bool:
        """Decides whether TMA stores a result without a `stage` line. Makes no choice, and returns False, if some store
        of the tensor cannot be a TMA box."""
        function, name = self.function, op.operands[0].name or "tensor"
        alike = [each for each in self.stores if each.operands[0] is op.operands[0]]
        around = parents(function.body)
        if any(flaw_of_store(function, self.target, self.facts, each, around, alike) for each in alike):
            return False
        bytes = tile_bytes(value)
        options = {TMA: True, **dict.fromkeys(self._options(bytes), False)}
        # Two TMA stores are not ordered, even if they store the same tile.
        retreats = (f"stage.{name}", "registers", ("shared",)), (f"stage.{name}", "shared", ("hazard",))
        costs, why = {TMA: bytes, "shared": bytes, "registers": 0}, "one thread stores it while the block goes on"
        way: bool = choose_stage(function, name, options, TMA, why, op.loc, retreats=retreats, costs=costs, unit=UNIT)
        made = function.choices.made[-1].taken
        if not way:
            for each in alike:
                each.operands = with_box(each.attrs, each.operands, f"stage {name}: {made}")
        self.said = {**self.said, name: made}
        function.attrs["stage"] = dict(self.said)
        return way

    def _of_tma(self, op: Op, value: Value) -> bool:
        """Decides whether to stage a store with a line `stage …: tma`. It is staged only if rows may end inside a unit
        of 16 bytes, which TMA cannot store."""
        function, name = self.function, op.operands[0].name
        is_box = not flaw_of_box(function, self.target, self.facts, op)
        part = part_of_rows(function, self.facts, op) if is_box else None
        if part is None:
            return False  # `tma_stores` rewrites this store, or raises the error that gives the reason
        # Only the shapes of the call determine whether rows end at multiples of 16 bytes. So this is no error: threads
        # store instead.
        bytes = tile_bytes(value)
        fits = self._rule(bytes)
        loc, costs = function.lines.get(("stage", name or "")), {"shared": bytes, "registers": 0}
        options, why = self._options(bytes), f"not 'tma': {part}"
        chosen: bool = choose_stage(function, name or "tensor", options, fits, why, loc, costs=costs, unit=UNIT)
        self.said = {**self.said, name or "": "shared" if chosen else "registers"}
        function.attrs["stage"] = dict(self.said)
        return chosen

    def _of_rows(self, op: Op, value: Value) -> bool | None:
        """Decides whether to stage a store without a line `stage …: tma`, by another `stage` line or by default. By
        default, a store is staged if a thread then stores 16 bytes at once instead of 4. Returns None if there is no
        line and no reason to stage."""
        function, name = self.function, op.operands[0].name
        bytes = tile_bytes(value)
        word, asked = self.said.get(name or ""), function.lines.get(("stage", name or ""))
        if word == "shared" and not self.ledger.fits(bytes):
            message = f"'{name}' cannot be staged: its tile has {bytes} bytes, and {self.target.arch} "
            message += f"{self.target.shared} of shared memory"
            raise TileError("shared", asked or op.loc, message, "a smaller tile, or parts of it")
        why = self._why_staged(op, value)
        if name not in self.said and why is None:
            return None
        options, rule = self._options(bytes), self.said.get(name or "", self._rule(bytes))
        subject, why = name or "tensor", why or "a thread stores more of a row at once"
        retreats = ((f"stage.{subject}", "registers", ("shared",)),)
        return choose_stage(function, subject, options, rule, why, op.loc, retreats=retreats, pinned=asked)

    def _why_staged(self, op: Op, value: Value) -> str | None:
        """Returns the reason to stage a store without a line, or None if it should not be staged."""
        products, dtype = list(_products_behind(value)), op.operands[0].dtype
        if not products:
            return None
        if neighbours(self.facts, op, op.spec.access.under_mask) * dtype.bytes < MAX_BYTES:
            # Rows begin at odd addresses. The lanes that store a row of a fragment then fill only a part of each
            # sector. H200, bf16, 128 x 256: 4096 x 4095 x 64, 23 us in place of 87; 4096 x 4092 x 64, 19 us in place of
            # 44.
            if max(self.facts.of(offset_of(op)).run) < WARP:
                return None
            return "rows begin at odd places, and neighbouring lanes then store neighbouring elements"
        if dtype.bits != 16:
            return None
        # A thread has 4 contiguous bytes of an MMA's result. Without staging, a store writes only half sectors. With
        # mma.sync, a thread can have 16 contiguous bytes if b is contiguous along k.
        apart = any(is_wgmma(p) or not lies_along(self.facts, p.operands[1], 0, self.starts) for p in products)
        return "a thread has 4 bytes of a row of a product, and stores 16" if apart else None

    def _rule(self, bytes: int) -> str:
        return "shared" if self.ledger.fits(bytes) else "registers"

    def _options(self, bytes: int) -> dict[str, bool]:
        return WAYS if self.ledger.fits(bytes) else {"registers": False}


def _axes_in_order(facts: Analysis, access: Op) -> tuple[int, ...]:
    """Returns the axes of a loaded or stored tile in their order in shared memory. An axis that is contiguous in global
    memory comes last. If there is none, the order stays."""
    runs = facts.of(offset_of(access)).run
    last = runs.index(max(runs)) if runs[-1] == 1 < max(runs) else len(runs) - 1
    return (*(axis for axis in range(len(runs)) if axis != last), last)


def _inverse(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(axes.index(axis) for axis in range(len(axes)))


def _through(function: Function, store: Op, tile: Value, axes: tuple[int, ...]) -> None:
    """Stages a store: stores the value to a shared tile, loads it again, and stores the loaded value to the tensor.
    `axes` contains the axes of the value in their order in shared memory."""
    b, ahead, value = Builder(located(function, store)), Block(), operand(store, "value")
    assert value is not None
    with b.region(ahead):
        place = offsets_within(b, tuple(value.shape[axis] for axis in axes))
        if list(axes) != sorted(axes):
            place = b.value("transpose", place, axes=_inverse(axes))
        b.access("store", {"memory": tile, "offset": place, "value": value}, cache=None, evict=None)
        made = b.access("load", {"memory": tile, "offset": place}, cache=None, evict=None).result
    made.stands_for(value)
    made.name = None  # it has another layout, and lines of that name refer to the original value
    store.operands = [made if v is value else v for v in store.operands]
    put(function.body, store, [*ahead.ops, store])


def _products_behind(value: Value) -> Iterator[Op]:
    """Yields the MMAs on which `value` depends through elementwise operations, transposes and loops."""

    def makers(value: Value) -> list[Value]:
        op = value.op
        if op is None or op.spec.product:
            return []
        if op.spec.control.counters:
            return [op.regions[0].ops[-1].operands[op.results.index(value)]]
        return [o for o in op.operands if o.shape] if op.spec.elementwise or is_turn(op) else []

    yield from (v.op for v in reached([value], makers) if v.op is not None and v.op.spec.product)


def _check_subjects(function: Function, said: dict[str, str], loaded: set[str | None]) -> None:
    """Raises TileError `name` for a `stage` line whose tensor is neither loaded for a loop nor stored."""
    for name in said:
        loc = function.lines.get(("stage", name))
        if name in loaded or (said[name] == "registers" and any(name == p.name for p in function.params)):
            continue
        if name in function.in_branches or any(p.name == name and p.value is None for p in function.params):
            function.void += [(name, loc)] if loc else []
            continue
        raise TileError("name", loc, *_not_loaded(function, name, sorted(each for each in loaded if each)))


def _not_loaded(function: Function, name: str, known: list[str]) -> tuple[str, str]:
    """Returns the message and hint for a `stage` line whose value or tensor cannot be staged."""
    reads = [op for op in walk(function.body) if op.spec.access.kind == "read" and op.operands[0].name == name]
    tiles = [r for op in walk(function.body) for r in op.results if isinstance(r.type, TileType) and r.shape]
    of = {op.result.name: op.operands[0].name for op in walk(function.body) if _reads(op)}
    if name in of or any(tile.name == name for tile in tiles):
        tensors = [f"{of[name]}, from which it is loaded"] if name in of else known
        hint = ", ".join([*tensors, f"or do it in parts: loop {name}, AXIS: N"])
        return f"'{name}' is no tensor that a loop loads, and no value that is computed in parts", hint
    if not any(isinstance(op.operands[0].type, TensorType) for op in reads):
        hint = closest(name, known) or (", ".join(known) if known else "a loop's loads are staged")
        return f"no loop of kernel '{function.name}' loads a tile of '{name}'", hint
    loads = [op for op in reads if is_load(op)]
    if not loads:
        return f"only single elements of '{name}' are loaded", f"a slice loads a tile: {name}[p : p + 64]"
    hint = "load it in the body of a for loop itself: a mask can stand for a branch"
    if any(parts != 1 for parts in function.by_subject("split", int).values()):
        hint = "not where a loop is split: behind it only one of its blocks goes on"
    return f"'{name}' is loaded{in_line(loads[0])}, outside of the loops whose loads are staged", hint


class _Choosing:
    """Decides for each load whether and how it is staged."""

    def __init__(self, function: Function, target: Target, said: dict[str, str]):
        self.function, self.target, self.said = function, target, said
        self.facts, self.users = facts_now(function), uses(function.body)
        self.written = written_in(function)
        self.loops = {op.regions[0]: op for op in walk(function.body) if op.spec.control.counters}
        self.acquires = {op for op in walk(function.body) if _acquires(op)}
        self.room = Ledger(function, target).left()
        self.boxes: dict[Op, tuple[str, str] | None] = {}  # why a load of wgmma is no TMA box
        self.lines: set[tuple[Value, Loc | None]] = set()  # tensor and source line of each load by TMA

    def way(self, load: Op, body: Block | None) -> str:
        """Returns how to stage a load: `shared`, `tma`, or "" for a plain load to registers. A `stage` line decides,
        and without a line the default. Raises TileError `schedule`, `shared` or `instruction` if the line is impossible
        for this load."""
        name = load.operands[0].name or "tensor"
        word, place = self.said.get(name), self.function.lines.get(("stage", name))
        feeds = feeds_product(load, self.users)
        # A fragment is not contiguous in memory, and several warps read the same fragment. With plain loads, a product
        # reads 1.80 times the minimum number of sectors. With staged loads, it reads 1.00 times that number. Other
        # loads gain nothing from staging.
        if word is None and not feeds:
            return ""
        if word == AHEAD:
            hint = f"stage {name}: shared copies it once"
            raise TileError("schedule", place, f"'{name}' cannot be loaded ahead: no loop loads it", hint)
        wrong, is_planned = self.misfit(load, body), word is None and self.is_planned(load)
        no_box = self.boxes.get(load) if is_planned else wrong or self.no_box(load, body) if word == TMA else None
        if wrong is not None and word == "shared":
            code = "shared" if wrong == self.no_room(load) else "schedule"
            raise TileError(code, place or load.loc, f"'{name}' cannot be staged: {wrong[0]}", wrong[1])
        if no_box is not None and word == TMA:
            message = f"'{name}' cannot be copied by TMA: {no_box[0]}"
            raise TileError("instruction", place or load.loc, message, no_box[1])
        bytes = neighbours(self.facts, load, "falls") * load.operands[0].dtype.bytes
        # `cp.async` needs at least 4 aligned bytes. Narrower copies are synchronous, so they would hide no latency.
        rule = word or ("shared" if wrong is None and bytes in ASYNC_BYTES else "registers")
        why = f"{'it feeds a product, and ' * feeds}{bytes} aligned bytes are copied at a time"
        is_box = word == TMA or (is_planned and body is not None and no_box is None)
        if is_box:
            reads = f"{self.reader(load)} it in shared memory, and " if is_planned else ""
            rule, why = TMA, f"{reads}one thread copies a whole TMA box"
        elif wrong is not None:
            why = wrong[0]
        elif is_planned and no_box is not None:
            why = f"{why}; not 'tma': {no_box[0]}"
        elif bytes not in ASYNC_BYTES:
            why = f"{bytes} bytes at a time are no asynchronous copy"
        options = {"shared": "shared"} if wrong is None else {}
        options |= {} if rule != "registers" and self.is_read_in_shared(load) else {"registers": ""}
        options |= {TMA: TMA} if is_box else {}
        pinned = place if word else None
        staged: str = choose_stage(self.function, name, options, rule, why, load.loc, pinned=pinned)
        # Several TMA loads of one source line may become one box with a halo, so their bytes count only once.
        # `pipeline` checks the real size. Without this rule, a filter of 4 × 4 taps failed: its 16 tiles did not fit,
        # although they become one.
        key = load.operands[0], load.loc
        if staged and (staged != TMA or key not in self.lines):
            self.room -= tile_bytes(load.result)
            self.lines |= {key} if staged == TMA else set()
        return staged

    def is_read_in_shared(self, load: Op) -> bool:
        """Whether a line names wgmma for an MMA that reads the loaded tile as it is, and so in shared memory alone."""
        named = self.function.instructions.keys()
        return any(named & names_of_product(self.users, product) for product in wgmmas_of(load, self.users))

    def reader(self, load: Op) -> str:
        """Says who reads a staged operand of wgmma. Threads load a left operand of bytes or tf32 across k."""
        products = wgmmas_of(load, self.users)
        loaded = any(in_registers(op.operands[0]) and load in chain(op.operands[0])[-1:] for op in products)
        return "threads read" if loaded else "wgmma reads"

    def is_planned(self, load: Op) -> bool:
        """Whether all MMAs that use the loaded value are wgmma, and there is at least one."""
        products = fed_products(load, self.users)
        return bool(products) and all(map(is_wgmma, products))

    def find_boxes(self, found: list[tuple[Op, Op]]) -> None:
        """Records in `boxes` why loads for wgmma are no TMA boxes. `found` contains pairs of a loop and a load in it.
        Copies of one loop share a wait. So either all of them are TMA boxes, or none is."""
        together: dict[Op, list[Op]] = {}
        for loop, load in found:
            if self.may_be_staged(load):
                together.setdefault(loop, []).append(load)
        flaw_of_all = flaw_of_loops(self.function, together) or self.flaw_of_rings(together)
        beside = None if flaw_of_all is None else (flaw_of_all, "")
        for loop, loads in together.items():
            body, words = loop.regions[0], {self.said.get(load.operands[0].name or "") for load in loads}
            rows = self.rows_of_boxes(loads)
            flaws = {
                load: self.misfit(load, body) or self.no_box(load, body) or self.slow_box(load, rows[load])
                for load in loads
            }
            by_threads = "shared" in words or not all(
                self.is_planned(load) for load in loads if self.said.get(load.operands[0].name or "") is None
            )
            other = ("copies at the head of one loop are all by TMA, or none is", "") if by_threads else None
            flaw = beside or other or next(filter(None, flaws.values()), None)
            self.boxes |= {load: flaws[load] or flaw for load in loads}

    def flaw_of_rings(self, together: dict[Op, list[Op]]) -> str | None:
        """Checks whether loops that follow each other may all have TMA rings by default. Returns None if they may,
        otherwise the reason: too little shared memory."""
        bytes = STAGES_OF_EACH * sum(tile_bytes(load.result) for loads in together.values() for load in loads)
        if are_nested(together) or bytes <= self.room:
            return None
        return f"{STAGES_OF_EACH} stages for each of the loops one after another have {bytes} bytes, of {self.room}"

    def slow_box(self, load: Op, row: int) -> tuple[str, str] | None:
        """Returns a reason and a hint if TMA is slower than copies by threads, because the `row` bytes of a row of the
        box are too few. Otherwise returns None."""
        name = load.operands[0].name
        if row >= LEAST_ROW or self.said.get(name or "") == TMA:
            return None
        return f"rows of {row} bytes come slowly as a TMA box", f"stage {name}: tma"

    def rows_of_boxes(self, loads: Sequence[Op]) -> dict[Op, int]:
        """Returns the number of bytes of a row of each load's box. Adjacent loads of one source line share the rows of
        a box (`side_by_side`)."""
        lines: dict[tuple[Value, Loc | None], list[Op]] = {}
        for load in loads:
            lines.setdefault((load.operands[0], load.loc), []).append(load)
        found: dict[Op, int] = {}
        for parts in lines.values():
            rows = {load: row_bytes(self.facts, load) for load in parts}
            count = len(parts) if min(rows.values()) < LEAST_ROW and self.are_columns(parts) else 1
            found |= {load: row * count for load, row in rows.items()}
        return found

    def are_columns(self, parts: Sequence[Op]) -> bool:
        """Whether the parts of a load are adjacent along the axis that is contiguous in memory, and feed wgmma."""
        if not all("box" in each.attrs and "rows" not in each.attrs for each in parts):
            return False
        runs, boxes = self.facts.of(offset_of(parts[0])).run, [CopiedBox.of(each) for each in parts]
        contiguous = [axis.along >= 0 and axis.step == 1 and runs[axis.along] == max(runs) for axis in boxes[0].axes]
        is_row = any(each and are_adjacent(boxes, place) for place, each in enumerate(contiguous))
        return is_row and feeds_wgmma(parts[0], self.users)

    def no_box(self, load: Op, body: Block | None) -> tuple[str, str] | None:
        """Checks whether a load can be a TMA box. Returns None if it can, otherwise the reason why not and a hint."""
        if body is None:
            name = load.operands[0].name
            return "no loop loads it", f"stage {name}: shared; or persistent 1, whose loop over tiles loads it"
        cut = operand(load, CUT)
        if cut is not None and not may_peel(self.function, self.loops[body], cut):
            return f"{MASKED}, and not only at the ends of its loop", WHAT_IS_A_MASK
        other = operand(load, "other") if "box" in load.attrs else None
        if other is not None and not _is_zero(other):
            return "elements outside are filled with something else than zeros", "other=0"
        return flaw_of_box(self.function, self.target, self.facts, load)

    def misfit(self, load: Op, body: Block | None) -> tuple[str, str] | None:
        """Checks whether a load can be staged. Returns None if it can, otherwise the reason why not and a hint. The
        copy replaces the load if `body` is None. Otherwise it is at the start of the loop body `body`."""
        return self.order(load, body) or self.no_room(load)

    def order(self, load: Op, body: Block | None) -> tuple[str, str] | None:
        """Checks whether a load may happen earlier. Returns None if it may, otherwise the reason why not and a hint."""
        ops = [] if body is None else body.ops[: body.ops.index(load)]
        wrong = self.unsteady(slice_of(ops, place_of(load)))
        if wrong is not None:
            hint = "compute the place before the loop, or from its counter"
            read = wrong.operands[0] if wrong.spec.access.kind == "read" else None
            more = f", and the kernel writes '{read.name}'" if read in self.written else ""
            return f"its place comes from '{wrong.name}'{in_line(wrong)}{more}", hint
        acquires = [op for top in ops for op in (top, *inside(top)) if op in self.acquires] if self.acquires else []
        if acquires:
            why = f"it comes after '{acquires[0].name}'{in_line(acquires[0])}, which orders it behind what others write"
            return why, f"stage {load.operands[0].name}: registers"
        if load.attrs["cache"] == "volatile":
            return "a load with cache=volatile must happen where it stands", "leave out the cache"
        if load.attrs["evict"]:
            return "it is loaded with an eviction priority, which copies do not have", "leave out evict="
        if load.operands[0] in self.written:
            return "the kernel writes it, and a copy would read it earlier", f"stage {load.operands[0].name}: registers"
        return None

    def unsteady(self, part: list[Op]) -> Op | None:
        """Returns the first operation of a slice that cannot move to the start of a loop's body, or None. Entries of
        tables can, if they are not staged themselves: those arrive later."""
        staged = [op for op in part if is_load(op) and self.may_be_staged(op)]
        return staged[0] if staged else unsteady(part, self.written)

    def may_be_staged(self, load: Op) -> bool:
        word = self.said.get(load.operands[0].name or "")
        return word in ("shared", TMA) or (word is None and feeds_product(load, self.users))

    def no_room(self, load: Op) -> tuple[str, str] | None:
        """Returns a reason and a hint if the load's tile does not fit into the remaining shared memory, otherwise
        None."""
        if tile_bytes(load.result) <= self.room or (load.operands[0], load.loc) in self.lines:
            return None
        left = f"its tile has {tile_bytes(load.result)} bytes, and {max(self.room, 0)} of shared memory are left"
        return left, "a smaller tile"


def _stage(function: Function, facts: Analysis, loop: Op, loads: list[Op], room: int) -> None:
    """Stages the loads of one loop. Inserts the copies at the start of its body, and replaces the loads by loads from
    shared memory."""
    # `pipeline` requires the copies at the start of the body. The operations that compute their addresses move with
    # them.
    body = loop.regions[0]
    allocated, head = Block(), Block()
    b = Builder(located(function, loop))
    cuts = [cut for load in loads if load.attrs.get(TMA) and (cut := operand(load, CUT)) is not None]
    ahead = slice_of(body.ops, [*(v for load in loads for v in place_of(load)), *cuts])
    taken = taken_names(function.body)
    with b.region(allocated):
        users = uses(function.body)  # computed once, because computing it for each of 4,096 loads took 10 s
        staged = [_staged(b, facts, load, taken, users) for load in loads]
        staged = side_by_side(function, b, with_halos(function, b, staged), users, room)
    with b.region(head):
        elements = SingleElements(b)
        for each in staged:
            b.place = (each.load.loc or b.loc, None)
            source, mask = offset_and_mask(each.load)
            if each.load.attrs.get(TMA) and "rows" in each.load.attrs:
                copy_rows(b, elements, each)
            elif each.halo is not None:
                copy_halo(b, each)
            elif each.joint:
                copy_joint(b, each)
            else:
                _copies(b, facts, each, source, mask)
        b.place = (loop.loc or b.loc, None)
        b.op("commit")
        b.op("wait", groups=0)
        _clear(b, [each for each in staged if operand(each.load, CUT) in cuts and wgmmas_of(each.load, users)])
    made = {each.load: _loaded(b, each, users) for each in staged}
    again = _read_by_each_product(b, body, staged, uses(function.body))
    behind = [new for op in without(body.ops, ahead) for new in (*again.get(op, ()), *made.get(op, [op]))]
    body.ops = [*ahead, *head.ops, *behind]
    function.body.ops[:0] = allocated.ops
    replaced = {load.result: ops[-1].result for load, ops in made.items()}
    for op in walk(body):
        op.operands = [replaced.get(v, v) for v in op.operands]


def _stage_once(function: Function, facts: Analysis, load: Op) -> None:
    """Stages a load in front of the loops that use it. A copy replaces the load, and each use in a loop loads from the
    shared tile."""
    # The value then needs no registers during the loop. Attention with heads of 128 reaches 356 TFLOPS, and only 296
    # with its queries in registers (H200, 4096 keys).
    allocated, head = Block(), Block()
    b = Builder(located(function, load))
    with b.region(allocated):
        taken = taken_names(function.body)
        staged = _staged(b, facts, load, taken, uses(function.body), False)
    with b.region(head):
        source, mask = offset_and_mask(load)
        _copies(b, facts, staged, source, mask)
        b.op("commit")
        b.op("wait", groups=0)
    loaded, value = _loaded(b, staged, {}), load.result

    def visit(block: Block, in_loop: bool) -> None:
        ops: list[Op] = []
        for op in block.ops:
            for region in op.regions:
                visit(region, in_loop or op.spec.control.loops)
            if op is load:
                ops += [*head.ops, *loaded]
                continue
            if value in op.operands:
                here = _loaded(b, staged, {}) if in_loop else loaded
                ops += here if in_loop else []
                op.operands = [here[-1].result if v is value else v for v in op.operands]
            ops.append(op)
        block.ops = ops

    visit(function.body, False)
    function.body.ops[:0] = allocated.ops


def _stage_before(function: Function, facts: Analysis, load: Op) -> None:
    """Stages a load after a loop. The copy starts before the loop, and arrives while the loop runs."""
    allocated, ahead, behind = Block(), Block(), Block()
    body, b = function.body, Builder(located(function, load))
    at = body.ops.index(load)
    first = max(i for i, op in enumerate(body.ops[:at]) if op.spec.control.counters)
    part = slice_of(body.ops[first:at], place_of(load))
    wrong = impure(part)
    if wrong is not None:
        line = function.lines.get(("stage", load.operands[0].name or ""))
        message = f"'{load.operands[0].name}' cannot be staged: its place comes from '{wrong.name}'{in_line(wrong)}"
        raise TileError("schedule", line or load.loc, message, "compute the place before the loop")
    with b.region(allocated):
        taken = taken_names(body)
        staged = _staged(b, facts, load, taken, uses(body), False)
    with b.region(ahead):
        source, mask = (v if v is None else made_anew(b, part, {}, v) for v in offset_and_mask(load))
        _copies(b, facts, staged, source, mask)
        for op in ahead.ops:
            if op.spec.in_flight:
                op.attrs["besides"] = True  # moves behind the pipeline's first copies, which then do not wait for it
    with b.region(behind):
        b.op("commit")
        b.op("wait", groups=0)
    loaded = _loaded(b, staged, {})
    body.ops[first : at + 1] = [*ahead.ops, *body.ops[first:at], *behind.ops, *loaded]
    replace_uses(body, {load.result: loaded[-1].result})
    body.ops[:0] = allocated.ops


def _read_by_each_product(
    b: Builder, body: Block, staged: list[Staged], users: dict[Value, list[Op]]
) -> dict[Op, list[Op]]:
    """If several MMAs use a staged value, gives each MMA except the first its own load from shared memory. Does nothing
    if the value is the left operand of all MMAs, or the right operand of all. Returns the new loads for each MMA."""
    # Two MMAs may need different layouts of one tile, such as `k` in `q @ k.T` and in `p @ k`. With a single load, the
    # second MMA needs a layout conversion through shared memory. In the gradient dq of attention, an iteration then has
    # 574 instructions instead of 468. For dk and dv, it has 757 instead of 541, and 79 more spills (f16, heads of 64, 4
    # warps).
    again: dict[Op, list[Op]] = {}
    for each in staged:
        value = each.load.result
        feeding = {user for user in users.get(value, []) if is_operand(user, value) or feeds_product(user, users)}
        sides = {user.operands.index(value) if is_operand(user, value) else None for user in feeding}
        if len(sides) == 1 and None not in sides:
            continue
        for op in [op for op in body.ops if op in feeding][1:]:
            loaded = _loaded(b, each, users)
            op.operands = [loaded[-1].result if v is value else v for v in op.operands]
            again.setdefault(op, []).extend(loaded)
    return again


def _goes_by_steps(load: Op, users: dict[Value, list[Op]]) -> bool:
    """Whether only MMAs use a loaded tile, and its rows are along k. One step of an MMA then reads only a run of each
    row."""
    todo: list[Wide] = [(load.result, len(load.result.tile.shape) - 1)]
    while todo:
        value, axis = todo.pop()
        for user in users.get(value, []):
            if is_operand(user, value):
                if axis != (1 if user.operands[0] is value else 0):
                    return False
                continue
            along = user.spec.elements.along(user, value, axis) if user.spec.elements.along is not None else None
            if not along or not user.spec.pure or any(result not in along for result in user.results):
                return False
            todo += [(result, along[result]) for result in user.results]
    return bool(users.get(load.result))


def _staged(
    b: Builder, facts: Analysis, load: Op, taken: set[str], users: dict[Value, list[Op]], again: bool = True
) -> Staged:
    """Allocates the shared tile for a load: `sa` for `a`, `sa2` for a second load of `a`. `again` is true if each
    iteration of a loop copies the tile."""
    b.place = (load.loc or b.loc, None)
    runs, shape = facts.of(offset_of(load)).run, load.result.tile.shape
    # The tile of `b.T` is transposed in shared memory. Copies are then 16 bytes wide, and `ldmatrix` transposes while
    # it loads.
    axes = _axes_in_order(facts, load)
    shape, run, size = tuple(shape[axis] for axis in axes), max(runs), load.result.dtype.bytes
    if load.attrs.get(TMA) or feeds_wgmma(load, users):
        run = boxed(shape[-1], prod(shape[:-1]), run, size)
    # If tensors store channels in blocks of 32 bytes, the shared tile does so, too. Four pixels are then one line of
    # 128 bytes, which a copy writes in one pass. With rows of 64 bytes, a copy needed up to four passes, and the
    # convolution took 116 µs instead of 70 (3×3, 128 to 128 channels, 256 images of 28×28).
    elif (
        len(shape) < 2 or not LEAST_RUN <= run * size < shape[-1] * size or not (again and _goes_by_steps(load, users))
    ):
        run = shape[-1]
    type = SharedType(shape_in_atoms(shape, run), load.result.dtype)
    if load.attrs.get(TMA):
        type = replace(type, swizzle=swizzle_of_box(prod(shape[:-1]), run * size), fixed=True)
    tile = shared_tile(b, f"s{load.operands[0].name}", taken, type, staged=True)
    return Staged(load, axes, tile, offsets_within(b, shape, run), run)


def _copies(b: Builder, facts: Analysis, each: Staged, source: Value | None, mask: Value | None) -> None:
    """Builds the copies for the data that a load reads: one copy, or one copy for each run of the rows."""
    load, columns = each.load, each.place.tile.shape[-1]
    source, mask = each.turned(b, source), each.turned(b, mask)
    box = CopiedBox.of(load) if load.attrs.get(TMA) else None
    shape = load.result.tile.shape
    if each.run == columns:
        whole = None if box is None else replace(box.columns(b, each.axes, shape, 0, columns), at=each.at)
        copy(b, each.tile, None, each.place, load.operands[0], source, mask, box=whole)
        return
    exact = Builder(b.loc, facts)  # with facts: a part's address folds, and its copies stay wide
    with exact.region(b.block):
        for first in range(0, columns, each.run):
            maker = PartMaker(exact, each.run)
            maker.origin = exact.index(first)
            there, on = (None if v is None else maker.of(v, len(v.tile.shape) - 1) for v in (source, mask))
            place = maker.of(each.place, len(each.place.tile.shape) - 1)
            part = None if box is None else box.columns(exact, each.axes, shape, first, each.run)
            copy(exact, each.tile, None, place, load.operands[0], there, on, box=part)


def _acquires(op: Op) -> bool:
    """Whether an operation orders later accesses behind those of other blocks, kernels or the host."""
    return any(effect.kind == "acquire" for effect in op.spec.access.effects(op))


def _is_zero(value: Value) -> bool:
    """Whether `value`, the number for masked elements, is zero and not -0.0."""
    # A literal of an 8-bit float is a conversion in the IR. If this function does not recognize a converted zero, a
    # select inserts the zeros byte by byte. A product 1 x 8192 x 8192 of e4m3 then took 37.2 µs, longer than the 27.9
    # µs of a product 16 x 8192 x 8192.
    while value.op is not None and (value.op.spec.elements.reshapes or value.op.spec.algebra.keeps == "number"):
        value = value.op.operands[0]
    return is_zero_of_bits(value)


def _loaded(b: Builder, staged: Staged, users: dict[Value, list[Op]]) -> list[Op]:
    """Builds the operations that replace a load: a load from shared memory and, if needed, a transpose. A copy fills
    masked elements with zeros. If the load specifies another number for them, a select inserts that number. A select
    inserts the zeros of a box that `_clear` leaves as it is."""
    ops, load = Block(), staged.load
    cut = operand(load, CUT) if load.attrs.get(TMA) and not wgmmas_of(load, users) else None
    with b.region(ops):
        b.place = (load.loc or b.loc, None)
        window = None if staged.halo is None else staged.halo.window(staged.number)
        more = {} if window is None else {"window": window}
        shape, place = staged.place.tile.shape, staged.place
        if staged.is_in_atoms and not wgmmas_of(load, users):
            # These offsets are linear, so `ldmatrix` loads operands of `mma.sync`. By plain loads, attention of few
            # queries, of heads of 128, spilled 552 bytes.
            place = places_in_atoms(b, shape, staged.run)
        made = b.access("load", {"memory": staged.tile, "offset": place}, cache=None, evict=None, **more).result
        made = b.reshape(made, shape)
        if staged.is_turned:
            made = b.op("transpose", [made], axes=_inverse(staged.axes)).result
        mask, other = operand(load, "mask"), operand(load, "other")
        if mask is not None and other is not None and not _is_zero(other):
            made = b.op("select", [mask, made, other]).result
        elif cut is not None:
            made = b.op("select", [cut, made, b.constant(0, load.result.dtype, load.result.tile.shape)]).result
    made.stands_for(load.result)
    return ops.ops


def _clear(b: Builder, staged: list[Staged]) -> None:
    """Sets the elements of boxes to 0 that their loads' masks exclude. `peel` leaves this to the iterations where they
    exclude any. The barrier is here, because warp groups may take turns later."""
    for each in staged:
        assert each.tile.op is not None
        cut, zeros = each.turned(b, operand(each.load, CUT)), b.constant(0, each.tile.dtype, each.place.tile.shape)
        assert cut is not None
        each.tile.op.attrs["computed"] = True
        named = {"memory": each.tile, "offset": each.place, "value": zeros, "mask": b.value("not", cut)}
        b.access("store", named, cache=None, evict=None, clears=True)
    if staged:
        b.op("barrier", scope="block", clears=True)
