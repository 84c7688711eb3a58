"""`pipeline p: 3`: each iteration of loop p starts the copies for a later iteration, into a ring of 3 stages.

    for p:                               copies of iteration 0 to stage 0; commit
        copy s, a[p]; commit; wait 0     copies of iteration 1 to stage 1; commit
        … load s …                  →    for p:
                                             wait 1
                                             copies of iteration p + 2 to stage p + 2; commit
                                             … load s[p] …
                                         wait 0

The copies are those that `stage` inserts or that the kernel contains. They must be one group at the start of the loop
body, directly followed by a wait for that group.

`pipeline c, t: 3` treats the iterations of the nested loops c and t as one sequence. The copies then have their own
loop counters, called the cursor, which are ahead of the loops' counters. If only the copies read the loop counters, the
loop nest becomes one loop over all iterations. Otherwise the nest stays, and each of its loops carries the cursor.
Nothing is copied past the last iteration.

What a copy reads may come from tables, such as the pages of a cache. The loop carries their entries, which it loads one
iteration earlier (`entries.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import reduce
from itertools import pairwise

from msgspec import Struct

from dsl.lowering.building.builder import Builder
from dsl.lowering.building.iterations import carry, hand_on, known_iterations
from dsl.lowering.directives.entries import Entries, unsteady, written_in
from dsl.lowering.directives.grid import TILE
from dsl.lowering.directives.places import Split, also, is_linear, split
from dsl.lowering.directives.resident import choose_resident
from dsl.lowering.directives.roles import PipelinedLoop, roles
from dsl.lowering.directives.slices import around, impure, leaves_of, located, made_anew, reads, slice_of, without
from dsl.lowering.directives.staged import CopyHead, read_stage, retype
from dsl.lowering.directives.staged import copy as make_copy
from dsl.lowering.hopper.boxes import CopiedBox
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, clone, in_line, replace_uses, uses, walk
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import I1, INDEX, SharedType, TileType
from dsl.lowering.known.facts import Analysis, Facts, facts_now
from dsl.lowering.ops import OPS, operand
from dsl.lowering.ops.memory import clears, writes
from dsl.lowering.plan.ledger import Ledger
from dsl.lowering.plan.tile_loads import feeds_product, is_load

USUAL = (3, 2)
"""Default numbers of stages for `cp.async`. A ring gets the greater number if it fits and leaves room for enough warps
on an SM. Attention with heads of 128 takes 1.25 times as long with one block per SM as with two."""
MOST, MOST_OF_TMA = 8, 12


class Nest(Struct):
    """A loop nest. `loops` starts with the outermost loop, and `block` is the block that contains it. `head` describes
    the copies at the start of the innermost loop's body."""

    loops: list[Op]
    block: Block
    head: CopyHead

    def leave_tiles(self) -> None:
        """Removes the loop over a persistent block's tiles from the nest. The pipeline then restarts for each tile."""
        self.block = self.loops[0].regions[0]
        del self.loops[0]

    def drop_single_iterations(self, function: Function) -> None:
        """Inlines the loops of the nest that have only one iteration, such as the loop over the taps of a 1×1
        filter."""
        # The loop over tiles is never inlined. With `cp.async`, the loops inside it are not inlined either, because
        # `_run_tiles` needs them. With TMA, inlining lets the first MMA of a tile initialize the accumulators. That
        # saves 32 of the epilogue's 320 instructions (convolution, 128 to 512 channels).
        of_tiles = bool(self.loops[0].attrs.get("tiles"))
        for loop in [] if of_tiles and not self.head.is_tma else self.loops[of_tiles:]:
            if len(self.loops) == 1 or known_iterations(loop) != 1:
                continue
            body, at = loop.regions[0], self.loops.index(loop)
            block = self.loops[at - 1].regions[0] if at else self.block
            place = block.ops.index(loop)
            block.ops[place : place + 1] = body.ops[:-1]
            mapping = dict(zip(body.args, (loop.operands[0], *loop.operands[3:]), strict=True))
            mapping |= dict(zip(loop.results, body.ops[-1].operands, strict=True))
            replace_uses(function.body, mapping)
            self.loops.remove(loop)

    @property
    def is_tiles(self) -> bool:
        """Whether the nest has two loops: a loop over a block's tiles, and one loop in it."""
        return len(self.loops) == 2 and bool(self.loops[0].attrs.get("tiles"))

    @property
    def inner(self) -> Op:
        return self.loops[-1]

    def is_beside(self, other: Nest) -> bool:
        """Whether neither nest's innermost loop contains the innermost loop of the other."""
        return self.inner not in walk(other.inner.regions[0]) and other.inner not in walk(self.inner.regions[0])

    @property
    def counters(self) -> list[Value]:
        return [loop.regions[0].args[0] for loop in self.loops]

    @property
    def scope(self) -> list[Op]:
        """All operations in the bodies of the loops, except the loops themselves."""
        return [op for loop in self.loops for op in loop.regions[0].ops if op not in self.loops]

    @property
    def name(self) -> str:
        return self.counters[-1].name or "loop"


def pipeline(function: Function, target: Target) -> None:
    """Pipelines the loops in `pipeline` lines. By default, also pipelines loops whose copies the pass `stage` has
    inserted. Raises TileError `schedule`, `shared` or `instruction` if a `pipeline` line is impossible for this
    kernel."""
    said = function.by_subject("pipeline", int)
    found = _nests(function, said)
    for name, stages in said.items():
        if stages > 1 and not any(name == c.name for nest in found for c in nest.counters):
            _refuse(function, name, stages, found)
    if said.get(TILE, 1) > 1 and not any(nest.name == TILE for nest in found):
        loc = function.lines.get(("pipeline", TILE))
        message = "a block copies nothing at the head of each of its tiles"
        hint = "stage NAMES: tma, for what a tile loads ahead of its loops; or choose reload.NAME: always"
        raise TileError("schedule", loc, message, hint)
    for nest in found:
        nest.drop_single_iterations(function)
    facts, levels = facts_now(function), list[PipelinedLoop]()
    # Loop nests with TMA copies come first, because `roles` moves them into the two regions of `warp_specialize`. If a
    # loop with `cp.async` copies were pipelined first, it could become two loops, each with its own loop of TMA copies.
    boxes, copies = ([nest for nest in found if nest.head.is_tma is which] for which in (True, False))
    # Outer loops come first. The sort is needed because inlined loops may have changed the order.
    boxes.sort(key=lambda nest: len(around(function, nest.inner)))
    for number, nest in enumerate(boxes, 1):
        # Only the innermost loop may have resident operands: no loop around it changes them.
        if number == len(boxes) and not any(each.is_beside(nest) for each in boxes if each is not nest):
            nest.head.resident = choose_resident(function, around(function, nest.inner), nest.head.copies)
        outer = sum((level.stages - 1) * level.head.bytes for level in levels)
        stages = _stages(function, target, facts, nest, said, [*boxes[number:], *copies], outer)
        levels.append(PipelinedLoop(nest.inner, nest.head, stages))
    resident = roles(function, target, levels) if levels else None
    # The loops with other copies are now inside the new operation, so they are found again.
    copies = _remaining(function, copies, said) if levels else copies
    while copies:
        nest, *copies = copies
        stages = _stages(function, target, facts, nest, said, copies)
        if stages > 1:
            _Pipeline(function, nest, stages, facts).run()
            copies = _remaining(function, copies, said)
    if resident is not None:
        resident.wait()  # last, so that the first copies by threads are in flight during the wait


def copies_halos(function: Function) -> bool:
    """Whether some copy has a TMA box but no offsets. Only producer warps can execute such a copy."""
    return any(op.spec.in_flight and "box" in op.attrs and operand(op, "source") is None for op in walk(function.body))


def _remaining(function: Function, nests: Sequence[Nest], said: dict[str, int]) -> list[Nest]:
    """Finds `nests`, the loop nests that are not pipelined yet, in the rewritten function."""
    # If a name occurs twice, the pipelined loop comes first. So the last loop nests are the remaining ones.
    names = {nest.name for nest in nests}
    now = [nest for nest in _nests(function, said) if nest.name in names]
    return now[len(now) - len(nests) :]


def _nests(function: Function, said: dict[str, int]) -> list[Nest]:
    """Finds the loop nests whose innermost body starts with copies. Surrounding loops belong to the nest if `pipeline`
    lines contain their names, too. The loop over a persistent block's tiles always belongs to it."""
    return _nests_in(function.body, [], said, written_in(function))


def _nests_in(
    block: Block, around: list[tuple[Op, Block]], said: dict[str, int], written: Collection[Value]
) -> list[Nest]:
    found: list[Nest] = []
    for op in block.ops:
        if not op.spec.control.counters:
            found += [n for region in op.regions for n in _nests_in(region, [], said, written)]
            continue
        loops = [*around, (op, block)]
        head = _head(op, written)
        if head is not None:
            first = len(loops) - 1
            while first and _joins(loops[first - 1][0], loops[first][0], said):
                first -= 1
            found.append(Nest([loop for loop, _ in loops[first:]], loops[first][1], head))
        found += _nests_in(op.regions[0], loops, said, written)
    return found


def _joins(outer: Op, inner: Op, said: dict[str, int]) -> bool:
    """Whether the iterations of `inner`, over all iterations of `outer`, form one sequence for the pipeline."""
    return bool(outer.attrs.get("tiles")) or all(loop.regions[0].args[0].name in said for loop in (outer, inner))


def _head(loop: Op, written: Collection[Value]) -> CopyHead | None:
    """Returns the copies at the start of a loop's body. Returns None unless they are one group, followed by a wait for
    that group. Entries of tables may be loaded before the copies."""
    copies: list[Op] = []
    commit: Op | None = None
    for op in loop.regions[0].ops:
        if op.spec.in_flight and commit is None:
            copies.append(op)
        elif op.spec.orders == "group" and copies and commit is None:
            commit = op
        elif op.spec.orders == "end" and commit is not None and op.attrs["groups"] == 0:
            return CopyHead(copies, commit, op)
        elif unsteady([op], written) is not None:
            return None
    return None


def _refuse(function: Function, name: str, stages: int, found: list[Nest]) -> None:
    """Raises TileError `schedule` for a loop of a `pipeline` line that has no copies at its start. Raises no error if
    constants have removed the loop, or if its loads are too narrow for `cp.async`."""
    loc = function.lines.get(("pipeline", name))
    said, users = function.by_subject("stage", str), uses(function.body)
    for op in walk(function.body):
        if op.spec.control.counters and op.regions[0].args[0].name == name:
            wrong = _misfit_of_loop(op)
            if wrong is not None:
                raise TileError("schedule", loc or op.loc, f"loop '{name}' cannot be pipelined: {wrong[0]}", wrong[1])
            loads = [each for each in walk(op.regions[0]) if is_load(each)]
            if any(each.operands[0].name not in said and feeds_product(each, users) for each in loads):
                # Example: rows of 51 f16 columns. `cp.async` copies at least 4 aligned bytes, so these rows are loaded
                # without copies. The kernel works without a pipeline, and `dsl why` shows the choice.
                why = f"{stages} stages are requested, and nothing that it loads is staged"
                function.choices.choose("pipeline", name, {"1": 1}, "1", loc=op.loc, because=why, pinned=loc)
                return
            inside = {nest.name for nest in found if nest.inner in set(walk(op.regions[0]))}
            if not loads and not inside:  # or none that something uses: `stage` removes those
                message = f"loop '{name}' loads no tile that is used, so nothing could run ahead"
                raise TileError("schedule", loc or op.loc, message, f"leave out 'pipeline {name}'")
            message = f"loop '{name}' has no copies at the head of its body that could run ahead"
            tensors = ", ".join(sorted({each.operands[0].name or "a" for each in loads}))
            hint = f"stage what it loads, as in: stage {tensors}: shared"
            if inside:
                hint = f"a loop inside has them: pipeline {', '.join([name, *sorted(inside)])}: {stages}"
            raise TileError("schedule", loc or op.loc, message, hint)


def _stages(
    function: Function, target: Target, facts: Analysis, nest: Nest, said: dict[str, int], others: Sequence[Nest],
    outer: int = 0,
) -> int:  # fmt: skip
    """Chooses the number of stages of a loop nest's ring. `said` maps loop names to the numbers in `pipeline` lines.
    `others` are the loop nests that are pipelined later. `outer` is the number of bytes of the surrounding loops'
    rings."""
    name, ledger = nest.name, Ledger(function, target)
    loc = function.lines.get(("pipeline", name))
    named = said.get(name)
    wrong = _misfit(function, facts, nest)
    if wrong is not None and nest.loops[0].attrs.get("tiles") and len(nest.loops) > 1:
        nest.leave_tiles()  # then the pipeline restarts for each tile
        wrong = _misfit(function, facts, nest)
    if named is not None:
        _check_named(nest, named, wrong, ledger, loc)
    # Bytes are reserved for the stages that `pipeline` lines request for later rings. Otherwise, in a persistent
    # convolution, the outer loop's ring had three stages of 32 KB, and the three stages of the inner loop did not fit.
    is_tma = nest.head.is_tma
    # A later loop beside this loop must get as many stages as this loop.
    beside = [each for each in others if is_tma and each.head.is_tma and each.name not in said and each.is_beside(nest)]
    later = [each for each in others if each not in beside]
    reserved = sum((said.get(each.name, _reserved(is_tma, each)) - 1) * each.head.bytes for each in later)
    held = outer + _held(ledger, nest) + reserved
    room = ledger.left_for_ring(held, nest.head.bytes, is_tma)
    shared = sum(each.head.bytes for each in beside)
    most = 0 if wrong is not None else MOST_OF_TMA if is_tma else MOST
    fits = [n for n in range(2, most + 1) if n * nest.head.bytes + (n - 1) * shared <= room]
    options = {str(n): n for n in (1, *fits)} | ({str(named): named} if named else {})
    is_outer = any(each.head.is_tma and not each.is_beside(nest) for each in others)
    rule = named or _usual_stages(function, target, nest, fits, held, is_outer)
    because = f"{nest.head.bytes} bytes a stage, {max(room, 0)} free" if wrong is None else wrong[0]
    if beside and wrong is None:
        because += f", also for {' and '.join(each.name for each in beside)}"
    iterations = known_iterations(nest.inner) if len(nest.loops) == 1 else None
    if iterations and rule > iterations + 1:  # more stages would never be filled
        rule, because = iterations + 1, f"of {iterations} iterations"
        options[str(rule)] = rule
    return function.choices.choose(
        "pipeline",
        name,
        options,
        str(rule),
        loc=nest.inner.loc,
        because=because,
        costs={option: number * nest.head.bytes for option, number in options.items()},
        unit="bytes of shared memory",
        pinned=loc if named else None,
        line=f"pipeline {name}: {{option}}",
        retreats=((f"pipeline.{name}", str(rule - 1), ("shared",)),) if rule > 1 and not named else (),
    )


def _reserved(is_tma: bool, other: Nest) -> int:
    """Returns the number of stages to reserve for the ring of a later loop nest. A TMA ring uses all memory that it
    gets. So it must leave two stages for a later TMA ring, and three for a later `cp.async` ring. A `cp.async` ring
    leaves one stage."""
    return (2 if other.head.is_tma else max(USUAL)) if is_tma else 1


def _check_named(nest: Nest, named: int, wrong: tuple[str, str] | None, ledger: Ledger, loc: Loc | None) -> None:
    """Checks the `pipeline` line of a loop nest. Raises TileError `schedule` if the nest cannot be pipelined, and
    `shared` if `named` stages do not fit."""
    name, bytes = nest.name, named * nest.head.bytes
    if wrong is not None and named > 1:
        raise TileError("schedule", loc or nest.inner.loc, f"loop '{name}' cannot be pipelined: {wrong[0]}", wrong[1])
    if not ledger.fits(bytes):
        message = f"{named} stages of loop '{name}' take {bytes} bytes of shared memory"
        most = max(1, ledger.target.shared // nest.head.bytes)
        has = f"{ledger.target.arch} has {ledger.target.shared}"
        raise TileError("shared", loc, f"{message}; {has}", f"pipeline {name}: {most}")


def _usual_stages(
    function: Function, target: Target, nest: Nest, fits: list[int], held: int, is_outer: bool
) -> int:  # fmt: skip
    """Returns the default number of stages. With TMA, it is the greatest number that fits, but at most 3 or 2 for outer
    loops. Without TMA, it is 3 or 2: the ring must leave room for enough warps on an SM, or for as many blocks on an SM
    as a ring with fewer stages. `is_outer` is true if an inner loop has a pipeline, too."""
    if nest.head.is_tma:
        # An iteration over tiles takes long, so copies a few tiles ahead hide all latency.
        most = 2 if is_outer else USUAL[0] if nest.inner.attrs.get("tiles") else MOST_OF_TMA
        return max((n for n in fits if n <= most), default=1)
    # Copies that the kernel contains are not pipelined by default.
    if not all(copy.operands[0].op.attrs.get("staged") for copy in nest.head.copies):  # type: ignore[union-attr]
        return 1
    # With three stages, attention with heads of 128 has one block of four warps per SM, and takes 1.42 times as long as
    # with two stages.
    taken = {n: held + n * nest.head.bytes for n in USUAL if n in fits}
    blocks = max((target.blocks(each) for each in taken.values()), default=0)
    good = [
        n for n, each in taken.items() if target.blocks(each) == blocks or target.has_enough(function.threads, each)
    ]
    return max(good, default=1)


def _held(ledger: Ledger, nest: Nest) -> int:
    """Returns the number of bytes of shared memory that other tiles need while the loop nest runs."""
    # Only tiles that are used up to the end of the loop nest count. A tile for results, used after the nest, shares the
    # ring's bytes. With separate bytes, only one block would fit on an SM (attention, heads of 128: 1.23 times the
    # time).
    loop, function = nest.loops[0], ledger.function
    before = nest.block.ops[: nest.block.ops.index(loop) + 1]
    used = {v for op in (before if nest.block is function.body else function.body.ops) for v in reads(op)}
    # With TMA, all other tiles count: a ring that TMA fills shares its bytes with no other tile
    # (`dsl/lowering/plan/lifetimes.py`).
    return ledger.taken(None if nest.head.is_tma else used) - nest.head.bytes


def _misfit(function: Function, facts: Analysis, nest: Nest) -> tuple[str, str] | None:
    """Checks whether a loop nest can be pipelined. Returns None if it can, otherwise the reason why not and a hint."""
    for loop in nest.loops:
        wrong = _misfit_of_loop(loop)
        if wrong is not None:
            return wrong
    carried = {v for loop in nest.loops for v in loop.regions[0].args[1:]}
    carried |= {v for loop in nest.loops[1:] for v in loop.results}
    bounds = [v for loop in nest.loops[1:] for v in loop.operands[:2]]
    wanted = [v for copy in nest.head.copies for v in source_of(copy)] + bounds
    part = slice_of(nest.scope, wanted)
    found = unsteady(part, written_in(function)) or impure(slice_of(nest.scope, bounds))
    if found is not None:
        return f"what it copies is found by '{found.name}'", "compute the place from the counter"
    if impure(part) is not None and nest.is_tiles and not nest.head.is_tma:
        return "the entries that say what it copies are loaded anew for each tile", "name the inner loop alone"
    by = sorted(v.name or "a value" for v in leaves_of(part, wanted) & carried)
    if by:
        return f"what it copies depends on '{by[0]}', which a loop carries", "compute the place from the counter"
    return _misfit_of_tiles(function, nest) or _misfit_of_iterations(facts, nest)


def _misfit_of_loop(loop: Op) -> tuple[str, str] | None:
    step, kind = constant_of(loop.operands[2]), loop.regions[0].args[0].dtype
    if step is None or step < 1:
        return "its step is no positive constant", "count up by a constant"
    if kind is not INDEX:
        return f"its counter is an {kind}", "count an index: bounds are dims, or constants"
    return None


def source_of(copy: Op) -> list[Value]:
    """Returns the source offsets, the mask and the shared-tile offsets of a copy, and where its TMA box begins."""
    box = CopiedBox.of(copy).operands.values() if "box" in copy.attrs else ()
    return [v for v in (*(operand(copy, name) for name in ("source", "mask", "offset")), *box) if v is not None]


def _misfit_of_tiles(function: Function, nest: Nest) -> tuple[str, str] | None:
    inside = set(walk(nest.inner.regions[0]))
    users = uses(function.body)
    for copy in nest.head.copies:
        tile = copy.operands[0]
        assert isinstance(tile.type, SharedType)
        if tile.type.ring or operand(copy, "stage") is not None:
            return f"'{tile.name}' is a ring already", "leave out the pipeline: the kernel has one"
        for user in users.get(tile, []):
            if user in nest.head.copies:
                continue
            if (writes(user) and not clears(user)) or user not in inside:
                hint = "read it in the loop alone, and fill it by the copies alone"
                return f"'{tile.name}' is used by '{user.name}'{in_line(user)}, too", hint
    written = {op.operands[0] for op in walk(function.body) if writes(op)}
    for copy in nest.head.copies:
        tensor = operand(copy, "tensor")
        assert tensor is not None
        if tensor in written:  # a copy that runs ahead would read elements before this write
            said = f"the kernel writes '{tensor.name}', which it would read iterations earlier"
            return said, f"pipeline {nest.name}: 1"
    return None


def _misfit_of_iterations(facts: Analysis, nest: Nest) -> tuple[str, str] | None:
    """Returns an error and a hint if an inner loop may be empty in some iterations of an outer loop, but not in others.
    The cursor would then copy data that no iteration reads."""
    if nest.is_tiles:  # `_run_tiles` has no cursor: it copies for the next tile only if that tile has iterations
        return None
    for level, loop in enumerate(nest.loops[1:], 1):
        outer = set(nest.counters[:level])
        bounds = loop.operands[:2]
        if leaves_of(slice_of(nest.scope, bounds), bounds) & outer and may_be_empty(facts, loop):
            name = loop.regions[0].args[0].name or "loop"
            return f"loop '{name}' may have no iterations for some of those around it", "name the inner loop alone"
    return None


def may_be_empty(facts: Analysis, loop: Op) -> bool:
    """Whether a loop may have no iterations. Returns False only if `facts` prove that it has at least one."""
    start, stop = (facts.of(v) for v in loop.operands[:2])
    return start.high is None or stop.low is None or stop.low <= start.high


class _Iterations:
    """The iterations of the inner loop for one tile. `count` is their number. `table` maps values of the current tile
    to the values recomputed for that tile."""

    def __init__(self, b: Builder, start: Value, stop: Value, step: int, table: dict[Value, Value]):
        self.b, self.start, self.stop, self.step, self.table = b, start, stop, step, table
        self.count = b.value("maximum", b.cdiv(b.value("sub", stop, start), b.index(step)), b.index(0))

    def place(self, number: Value) -> Value:
        """Computes the loop counter's value in iteration `number`."""
        return self.b.value("add", self.start, self.b.value("mul", number, self.b.index(self.step)))


class _Pipeline:
    """Pipelines one loop nest with `cp.async` copies. `b` builds operations. `rings` contains the shared tiles that the
    copies fill. `scope` contains the operations in the loops. `kept` contains scalars that need a division and change
    only with the outer loops: they are part of the cursor. `splits` maps a copy to its addresses, split into a
    loop-invariant tile and a scalar. `moves` maps a copy to that scalar for the current iteration, if the loop carries
    the scalar. `entries` are the entries of tables that say what the copies read.
    """

    def __init__(self, function: Function, nest: Nest, stages: int, facts: Analysis):
        self.function, self.nest, self.stages, self.facts = function, nest, stages, facts
        self.b, self.scope = Builder(located(function, nest.inner)), nest.scope
        self.rings = {copy.operands[0] for copy in nest.head.copies}
        self.kept: list[Value] = []
        self.splits: dict[Op, Split] = {}
        self.moves: dict[Op, Value] = {}
        self.entries = Entries(self.b, self.scope, [v for copy in nest.head.copies for v in source_of(copy)])

    @property
    def steps(self) -> list[int]:
        return [int(constant_of(loop.operands[2]) or 1) for loop in self.nest.loops]

    def run(self) -> None:
        for ring in self.rings:
            retype(ring, shape=(self.stages, *ring.shape), ring=True)
        # A single loop computes the stage and all addresses from its counter. Carrying the stage costs 1 to 16 more
        # instructions per iteration. But for non-linear addresses, such as those of pixels, a loop that carries them is
        # cheaper.
        if len(self.nest.loops) == 1 and (self._is_linear() or not self._is_flat()):
            self._run_single()
        elif self.nest.is_tiles:
            self._run_tiles()
        elif self._is_flat():
            self._run_flat()
        else:
            self._run_nest()

    # ---- a single loop, which counts iterations ----

    def _run_single(self) -> None:
        b, loop, ahead = self.b, self.nest.inner, self.stages - 1
        body, counter, step = loop.regions[0], self.nest.counters[0], self.steps[0]
        start, stop = loop.operands[:2]
        before, inside = Block(), Block()
        with b.region(before):
            self._split_places()
            self._first_entries([start])
            for s in range(ahead):
                cursor = [b.value("add", start, b.index(s * step))]
                self._fetch(b.index(s), cursor)
                self.entries.move()
            iterations = b.cdiv(b.value("sub", stop, start), b.index(step))
            zero, one = b.index(0), b.index(1)
        iteration = Value(TileType((), INDEX), name=counter.name)
        self.entries.take(carry([loop], self.entries.values, [None] * len(self.entries.values)))

        def at(number: Value) -> Value:
            return b.value("add", start, b.value("mul", number, b.index(step)))

        with b.region(inside):
            # The wait comes before the copies. The barrier after the wait then also guarantees that all threads have
            # read the stage that the copies overwrite. If the copies came first, an iteration would need a second
            # barrier.
            b.op("wait", groups=ahead - 1)
            write = b.value("add", iteration, b.index(ahead))
            self._fetch(write, [at(write)], ahead=True)
            self._next_entries([at(write)])
            here = b.own(at(iteration))
            here.stands_for(counter)
        self._rebuild(body, inside.ops, iteration, {counter: here})
        hand_on([loop], self.entries.values)
        body.args[0] = iteration
        loop.operands[:3] = [zero, iterations, one]
        loop.attrs = loop.attrs | {"stages": self.stages, "nest": 1}
        self._surround(before.ops)

    # ---- a loop inside the loop over tiles: its last iterations copy for the next tile ----

    def _run_tiles(self) -> None:
        """Splits the inner loop into two loops. The first loop copies data of the current tile. The second loop has the
        last `stages - 1` iterations, and copies data of the next tile.

        If a tile has fewer than `stages - 1` iterations, it copies nothing for the next tile. The next tile then begins
        with these copies.
        """
        # With two loops, a kernel takes 289 µs. With a single loop, which computes in each iteration for which tile it
        # copies, it takes 337 µs.
        b, (tiles, loop), ahead = self.b, self.nest.loops, self.stages - 1
        outer, step = tiles.regions[0], self.steps[1]
        at, fetched = Value(TileType((), INDEX), name=f"{self.nest.name}_iteration"), Value(TileType((), I1))
        made = Block()
        with b.region(made):
            this = _Iterations(b, loop.operands[0], loop.operands[1], step, {})
            self._begin_tile(at, fetched, this)
            main = b.value("maximum", b.value("sub", this.count, b.index(ahead)), b.index(0))
            first = self._loop_of_iterations(loop, b.index(0), main, this, [*loop.operands[3:], at], None)
            following = b.value("add", outer.args[0], tiles.operands[2])
            is_tile = b.value("lt", following, tiles.operands[1])
            goes_on = b.value("and", is_tile, b.value("ge", this.count, b.index(ahead)))
            then = self._of_tile(following)
            last = self._loop_of_iterations(loop, main, this.count, this, first.results, (then, goes_on))
        place = outer.ops.index(loop)
        outer.ops[place : place + 1] = made.ops
        *results, behind = last.results
        replace_uses(outer, dict(zip(loop.results, results, strict=True)))
        for old, new in zip(loop.results, results, strict=True):
            new.stands_for(old)
        before = Block()
        with b.region(before):
            starts = [b.index(0), b.constant(False, I1)]
        args = carry([tiles], starts, [at.name, None])
        hand_on([tiles], [behind, goes_on])
        replace_uses(outer, dict(zip((at, fetched), args, strict=True)))
        self._surround(before.ops)

    def _begin_tile(self, at: Value, fetched: Value, this: _Iterations) -> None:
        """Starts the copies for a tile's first iterations, unless the previous tile has started them (`fetched`)."""
        b, then, other = self.b, Block(), Block()
        with b.region(other):
            b.op("wait", groups=0)  # masked copies of the previous tile write zeros to the same stages
            for s in range(self.stages - 1):
                self._fetch_of(b.value("add", at, b.index(s)), this, b.index(s), True, None)
            b.op("yield")
        with b.region(then):
            b.op("yield")
        b.op("if", [fetched], [then, other], types=[])

    def _of_tile(self, tile: Value) -> _Iterations:
        """Computes the iterations of another tile, and recomputes for that tile the values that its copies read from
        outside the inner loop."""
        loops, wanted = self.nest.loops, [v for copy in self.nest.head.copies for v in source_of(copy)]
        inner = slice_of(loops[1].regions[0].ops, wanted)
        outer = [op for op in loops[0].regions[0].ops if op is not loops[1]]
        bounds = loops[1].operands[:2]
        table: dict[Value, Value] = {}
        needed = leaves_of(inner, wanted) | set(bounds)
        for leaf in [result for op in outer for result in op.results if result in needed]:
            part = slice_of(outer, [leaf])
            if loops[0].regions[0].args[0] in leaves_of(part, [leaf]):
                table[leaf] = made_anew(self.b, part, {loops[0].regions[0].args[0]: tile}, leaf)
        start, stop = (table.get(v, v) for v in bounds)
        return _Iterations(self.b, start, stop, self.steps[1], table)

    def _loop_of_iterations(
        self, loop: Op, start: Value, stop: Value, this: _Iterations, carried: Sequence[Value],
        then: tuple[_Iterations, Value] | None,
    ) -> Op:  # fmt: skip
        """Builds a loop over the iterations `start` to `stop` of a tile. The loop also carries the number of the stage.

        If `then` is None, the loop copies data of the tile `this`. Otherwise it copies data of the next tile: `then`
        contains that tile's iterations, and the condition for the copies.
        """
        b, ahead, old = self.b, self.stages - 1, loop.regions[0]
        iteration = Value(TileType((), INDEX), name=old.args[0].name)
        at = Value(TileType((), INDEX), name=f"{self.nest.name}_iteration")
        body = Block([iteration, *(Value(a.type, name=a.name) for a in old.args[1:]), at])
        with b.region(body):
            b.op("wait", groups=ahead - 1)
            write = b.value("add", at, b.index(ahead))
            if then is None:
                self._fetch_of(write, this, b.value("add", iteration, b.index(ahead)), False, None)
            else:
                self._fetch_of(write, then[0], b.value("sub", iteration, start), True, then[1])
            here = b.own(this.place(iteration))
            here.stands_for(old.args[0])
            following = b.value("add", at, b.index(1))
        rest = Block(old.args)
        rest.ops = without(old.ops, self.nest.head.ops)
        yielded = clone(rest, [here, *body.args[1:-1]], body.ops)
        body.ops.append(Op(OPS["yield"], [*yielded, following], [], {}, (), loop.loc))
        read_stage(body, self.rings, at)
        # The attribute `few` prevents the unrolling of the second loop. A persistent f16 product of 4096 then has 1568
        # instructions instead of 2072, and compiles in two thirds of the time.
        attrs = loop.attrs | {"nest": 1, "stages": self.stages, "few": then is not None}
        return b.op("for", [start, stop, b.index(1), *carried], [body], **attrs)

    # ---- a loop nest whose copies have counters of their own ----

    def _run_nest(self) -> None:
        b, loops, ahead = self.b, self.nest.loops, self.stages - 1
        self.kept = self._costly()
        before, inside = Block(), Block()
        with b.region(before):
            self._split_places()
            cursor: list[Value] = []
            for level in range(len(loops)):
                cursor.append(self._bound(level, 0, cursor))
            cursor += [self._anew(value, cursor) for value in self.kept]
            cursor = self._first_rounds(cursor)
            states: list[Value] = [b.index(0), *cursor]
        names = [f"{self.nest.name}_iteration", *(f"{c.name}_ahead" for c in [*self.nest.counters, *self.kept])]
        entries = self.entries.values
        iteration, *args = carry(loops, [*states, *entries], [*names, *[None] * len(entries)])
        cursor = args[: len(cursor)]
        self.entries.take(args[len(cursor) :])
        with b.region(inside):
            b.op("wait", groups=ahead - 1)
            self._fetch(b.value("add", iteration, b.index(ahead)), cursor, ahead=True)
            following = [b.value("add", iteration, b.index(1)), *self._after(cursor), *self.entries.values]
        self._rebuild(loops[-1].regions[0], inside.ops, iteration, {})
        hand_on(loops, following)
        loops[-1].attrs = loops[-1].attrs | {"nest": len(loops)}
        self._surround(before.ops)

    # ---- a loop nest that becomes one loop ----

    def _is_flat(self) -> bool:
        """Whether one loop can replace the nest. The bounds of inner loops must not depend on outer counters. An outer
        loop must contain only the next loop and pure operations. All loops must carry the same values, and only the
        copies may read the counters."""
        loops = self.nest.loops
        for outer, inner in pairwise(loops):
            body = outer.regions[0]
            others = without(body.ops[:-1], {inner})
            if (
                impure(others) is not None
                or inner.operands[3:] != body.args[1:]
                or body.ops[-1].operands != inner.results
            ):
                return False
        asked = [v for loop in loops[1:] for v in loop.operands[:2]]
        asked += [v for op in self._rest() for v in reads(op)]
        given = {v for loop in loops[:-1] for v in loop.regions[0].args} | {self.nest.counters[-1]}
        return not leaves_of(slice_of(self.scope, asked), asked) & given

    def _rest(self) -> list[Op]:
        """Returns an iteration's operations with effects, except the copies, and the operations on which they
        depend."""
        rest = without(self.nest.inner.regions[0].ops, self.nest.head.ops)
        effects = [op for op in rest if not op.spec.pure and op not in self.entries.loads]
        needed = {*effects, *slice_of(rest, [v for op in effects for v in reads(op)])}
        return [op for op in rest if op in needed]

    def _run_flat(self) -> None:
        b, loops, ahead = self.b, self.nest.loops, self.stages - 1
        inner, rest = loops[-1], self._rest()
        body, before, inside = inner.regions[0], Block(), Block()
        others = [op for loop in loops[:-1] for op in loop.regions[0].ops[:-1] if op not in loops]
        before.ops = without(others, self._moving(others))
        with b.region(before):
            self._split_places()
            cursor: list[Value] = []
            total = b.index(1)
            for level, step in enumerate(self.steps):
                cursor.append(self._bound(level, 0, cursor))
                iterations = _Iterations(b, cursor[level], self._bound(level, 1, cursor), step, {})
                total = b.value("mul", total, iterations.count)
            cursor = self._first_rounds(cursor)
            starts = [b.index(0), total, b.index(1), *loops[0].operands[3:]]
            kinds = self._kinds_of_moves()
            moved = self._moves(cursor)
        names: list[str | None] = [f"{c.name}_ahead" for c in self.nest.counters]
        firsts = list(dict.fromkeys(kinds.values()))
        states = [*cursor, *(moved[copy] for copy in firsts), *self.entries.values]
        args = carry([inner], states, [*names, *[None] * (len(states) - len(names))])
        cursor, carried = args[: len(cursor)], dict(zip(firsts, args[len(cursor) :], strict=False))
        self.entries.take(args[len(cursor) + len(firsts) :])
        iteration = Value(TileType((), INDEX), name=body.args[0].name)
        with b.region(inside):
            b.op("wait", groups=ahead - 1)
            self.moves = {copy: carried[first] for copy, first in kinds.items()}
            self._fetch(b.value("add", iteration, b.index(ahead)), cursor, ahead=True)
            following = self._after(cursor)
            moved = self._moves(following)
            following += [*(moved[copy] for copy in carried), *self.entries.values]
        inner.operands = [*starts, *inner.operands[len(starts) :]]  # last, as the code above reads the old bounds
        body.args[0], body.ops = iteration, [*inside.ops, *rest]
        read_stage(body, self.rings, iteration)
        hand_on([inner], following)
        inner.attrs = inner.attrs | {"stages": self.stages, "nest": 1}
        outermost = loops[0]
        if outermost is not inner:
            replace_uses(self.function.body, dict(zip(outermost.results, inner.results, strict=False)))
        self.nest.block.ops[self.nest.block.ops.index(outermost)] = inner
        self.nest.loops = [inner]
        self._surround(before.ops)

    def _kinds_of_moves(self) -> dict[Op, Op]:
        """Maps each copy whose address changes per iteration to the first copy whose address changes by the same
        number."""
        # The builder returns the same value for equal operations. So two moves are equal exactly if they are the same
        # value. The loop carries one scalar for each distinct move.
        firsts: dict[Value, Op] = {}
        with self.b.region(Block()):
            return {copy: firsts.setdefault(move, copy) for copy, move in self._moves(self.nest.counters).items()}

    def _moves(self, cursor: Sequence[Value]) -> dict[Op, Value]:
        """Computes for each copy the scalar that is added to its addresses in the iteration at `cursor`."""
        # A scalar that comes from an entry is not carried: the round that loads an entry must not wait for it.
        return {
            copy: self._anew(parts.move, cursor)
            for copy, parts in self.splits.items()
            if impure(slice_of(self.scope, [parts.move])) is None
        }

    def _moving(self, ops: list[Op]) -> set[Op]:
        """Returns the operations in `ops` that depend on a counter or a carried value of the loops."""
        moved = {v for loop in self.nest.loops for v in loop.regions[0].args}
        found: set[Op] = set()
        for op in ops:
            if moved.intersection(op.operands):
                moved.update(op.results)
                found.add(op)
        return found

    # ---- common parts ----

    def _is_linear(self) -> bool:
        """Whether all copies' addresses are linear functions of the coordinates in the tile."""
        sources = [operand(copy, "source") for copy in self.nest.head.copies]
        return all(source is None or is_linear(source) for source in sources)

    def _split_places(self) -> None:
        """Builds the loop-invariant part of non-linear addresses before the loops, and fills `splits`."""
        # Linear addresses need no split: code generation computes their loop-invariant part before the loop anyway. For
        # other addresses, the split reduces 312 instructions per iteration to 233 (convolution 3×3, 192×128×64, 4
        # warps, 96 MMAs).
        for copy in [] if self._is_linear() else self.nest.head.copies:
            self.b.place, source = (located(self.function, copy), None), operand(copy, "source")
            moving = [*self.nest.counters, *self.entries.results]
            found = None if source is None else split(self.b, self.scope, moving, source)
            if found is not None:
                self.splits[copy] = found
                self.scope += found.ops

    def _costly(self) -> list[Value]:
        """Returns the scalars in the copies' addresses that need a division by a non-constant value, and change only
        with the outer loops. The loops carry these scalars, and recompute them when an outer counter advances."""
        # Example: the row and column of a persistent block's tile need two to five divisions, which each iteration
        # would otherwise repeat.
        inner = self.nest.counters[-1]
        wanted = [v for copy in self.nest.head.copies for v in source_of(copy)]
        part = slice_of(self.scope, wanted)
        moves, divided = {inner, *self.entries.results}, set[Value]()
        for op in part:
            if moves.intersection(op.operands):
                moves.update(op.results)
            if divided.intersection(op.operands) or (op.spec.algebra.divides and constant_of(op.operands[1]) is None):
                divided.update(op.results)
        outer = slice_of(part, self.nest.counters[:-1])
        made = {result for op in part for result in op.results} - set(outer)
        ends = [v for op in part if op.result in moves or op.result.tile.shape for v in op.operands]
        ends += wanted
        fit = [v for v in ends if v in made and v in divided and v not in moves and not v.tile.shape]
        return list(dict.fromkeys(fit))

    def _bound(self, level: int, which: int, cursor: Sequence[Value]) -> Value:
        """Computes the start (`which` is 0) or stop (`which` is 1) of loop number `level`, for the counters `cursor` of
        the outer loops."""
        value = self.nest.loops[level].operands[which]
        return self._anew(value, cursor[:level]) if level else value

    def _anew(self, value: Value, cursor: Sequence[Value], number: int = 0) -> Value:
        """Recomputes a value of the innermost loop for the counters `cursor`. This is the iteration `number` iterations
        after the one that the next copies are for."""
        counters = len(self.nest.counters)
        table = self.entries.at(number) | dict(zip(self.nest.counters, cursor, strict=False))
        table |= dict(zip(self.kept, cursor[counters:], strict=False))
        return made_anew(self.b, slice_of(self.scope, [value]), table, value)

    def _next(self, cursor: Sequence[Value]) -> list[Value]:
        """Computes the cursor of the iteration after `cursor`."""
        b, levels = self.b, len(self.nest.counters)
        out = list(cursor[:levels])
        over: list[Value] = []  # whether each loop has ended, from the innermost loop outwards
        for level in reversed(range(levels)):
            ahead = b.value("add", cursor[level], b.index(self.steps[level]))
            out[level] = ahead if not over else b.value("select", over[-1], ahead, cursor[level])
            if level:
                done = b.value("ge", ahead, self._bound(level, 1, cursor))
                over.append(done if not over else b.value("and", over[-1], done))
        for level, done in zip(range(1, levels), reversed(over), strict=True):
            start = self._bound(level, 0, out[:level])
            out[level] = b.value("select", done, start, out[level])
        return [*out, *self._kept_of(out, cursor[levels:], over)]

    def _kept_of(self, counters: Sequence[Value], kept: Sequence[Value], over: Sequence[Value]) -> list[Value]:
        """Returns the `kept` scalars of the next iteration. If the innermost loop has ended, a branch recomputes
        them."""
        if not kept:
            return []
        b, then, other = self.b, Block(), Block()  # a branch pays off here: it skips the divisions
        with b.region(then):
            b.op("yield", [self._anew(value, counters) for value in self.kept])
        with b.region(other):
            b.op("yield", kept)
        return b.op("if", [over[0]], [then, other], types=[v.type for v in kept]).results

    def _fetch(self, stage: Value, cursor: Sequence[Value], ahead: bool = False) -> None:
        """Copies the data of the iteration at `cursor` into a stage. `ahead` is true for copies inside the loop, and
        false for copies before the loop.

        Copies nothing if that iteration does not exist.
        """
        self._copy(stage, lambda value: self._anew(value, cursor), self._bounds(cursor), None, ahead)

    def _bounds(self, cursor: Sequence[Value]) -> list[tuple[int, Value, Value]]:
        """Returns each loop in which `cursor` may be past the last iteration: its level, its counter and its stop."""
        bounds: list[tuple[int, Value, Value]] = []
        for level, loop in enumerate(self.nest.loops):
            # When an inner counter reaches its stop, the cursor advances the outer counter and resets the inner one. So
            # only in an empty inner loop can the cursor be at or past the stop.
            if not level or may_be_empty(self.facts, loop):
                at = self._bound(level, 0, cursor) if level else cursor[0]
                bounds.append((level, at, self._bound(level, 1, cursor)))
        return bounds

    def _first_rounds(self, cursor: Sequence[Value]) -> list[Value]:
        """Copies the data of the first iterations, before the loops. Returns the cursor of the next copies."""
        known = self._first_entries(cursor)
        for s in range(self.stages - 1):
            cursor = known[s]
            self._fetch(self.b.index(s), cursor)
            known = self._cursors(known, s + 2)
            self.entries.move()
        return list(known[self.stages - 1])

    def _first_entries(self, cursor: Sequence[Value]) -> list[Sequence[Value]]:
        """Loads the entries for the copies before the loops, the first of which are those of the iteration at `cursor`,
        and for those that the loops start with. Returns the cursors that this took."""
        if not self.entries.loads:
            return [cursor]
        ahead = self.stages - 1  # all at once: each copy would wait for the entry after the one before
        known = self._cursors([cursor], self.entries.most + ahead)
        self.entries.begin(ahead, self._anew_at(known), self._exists(known))
        return known

    def _next_entries(self, *cursors: Sequence[Value]) -> None:
        """Loads the entries for the copies after those of the iteration at the first cursor. The next cursor may
        follow."""
        if self.entries.loads:
            known = self._cursors(cursors, self.entries.most + 1)
            self.entries.go_on(self._anew_at(known), self._exists(known))

    def _after(self, cursor: Sequence[Value]) -> list[Value]:
        """Loads the entries for the copies after those of the iteration at `cursor`. Returns the next cursor."""
        following = self._next(cursor)
        self._next_entries(cursor, following)
        return following

    def _cursors(self, known: Sequence[Sequence[Value]], count: int) -> list[Sequence[Value]]:
        """Returns the cursors of `count` iterations. Those in `known` are the first."""
        cursors = list(known)
        while len(cursors) < count:
            cursors.append(self._next(cursors[-1]))
        return cursors

    def _anew_at(self, cursors: Sequence[Sequence[Value]]) -> Callable[[int, Value], Value]:
        """Returns a function that recomputes a value for the cursor with a number."""
        return lambda number, value: self._anew(value, cursors[number], number)

    def _exists(self, cursors: Sequence[Sequence[Value]]) -> Callable[[int], Value]:
        """Returns a function that computes whether there is an iteration at the cursor with a number."""

        def exists(number: int) -> Value:
            inside = [self.b.value("lt", at, end) for _, at, end in self._bounds(cursors[number])]
            return reduce(lambda a, b: self.b.value("and", a, b), inside)

        return exists

    def _fetch_of(
        self, stage: Value, iterations: _Iterations, number: Value, ends: bool, condition: Value | None
    ) -> None:
        """Copies the data of iteration `number` of a tile, if `condition` is true or None. If `ends` is true, also
        checks at run time that the tile has this iteration."""
        at = iterations.place(number)
        table = iterations.table | {self.nest.counters[1]: at}
        scope = self.nest.inner.regions[0].ops

        def anew(value: Value) -> Value:
            return made_anew(self.b, slice_of(scope, [value]), table, value)

        self._copy(stage, anew, [(1, at, iterations.stop)] if ends else [], condition)

    def _copy(
        self,
        stage: Value,
        anew: Callable[[Value], Value],
        bounds: Sequence[tuple[int, Value, Value]],
        condition: Value | None,
        ahead: bool = False,
    ) -> None:
        """Copies the data of one iteration as one group. A mask disables the copies if a counter in `bounds` has
        reached its stop."""
        # A branch around the copies, instead of the mask, costs 22 more instructions and a barrier per iteration.
        # Copying the last iteration again costs 25 % more sectors.
        b = self.b
        for copy in self.nest.head.copies:
            b.place = (located(self.function, copy), None)
            source, mask = operand(copy, "source"), operand(copy, "mask")
            offset, tensor = operand(copy, "offset"), operand(copy, "tensor")
            assert source is not None and offset is not None and tensor is not None
            place, on = anew(offset), None if mask is None else anew(mask)
            parts = self.splits.get(copy)
            if parts is None:
                there = anew(source)
            else:
                there = parts.place(b, self.moves.get(copy) or anew(parts.move), source.tile.shape)
            within = [b.value("lt", at, end) for level, at, end in bounds if not self._is_off_past_the_end(mask, level)]
            for each in [*within, *([] if condition is None else [condition])]:
                on = b.broadcast(each, source.tile.shape) if on is None else also(b, on, each)
            make_copy(b, copy.operands[0], stage, place, tensor, there, on, copy.attrs["cache"], ahead)
        b.place = (located(self.function, self.nest.head.commit), None)
        b.op("commit")

    def _is_off_past_the_end(self, mask: Value | None, level: int) -> bool:
        """Whether a mask is certainly false if the counter of loop `level` is at or past its stop. Example: the mask of
        `a[p : p + 32]` in `range(0, k, 32)`."""
        if mask is None:
            return False
        # The mask is rebuilt for a counter of "stop plus an unknown number >= 0". If it folds to false, the condition
        # `p < k` is redundant.
        b, behind = Builder(self.b.loc, self.facts), Value(TileType((), INDEX))
        self.facts.known[behind] = Facts(1, (), (), (), 0, None)
        past = b.value("add", self.nest.loops[level].operands[1], behind)
        table = {self.nest.counters[level]: past}
        return constant_of(made_anew(b, slice_of(self.scope, [mask]), table, mask)) is False

    def _rebuild(self, body: Block, inside: list[Op], stage: Value, table: dict[Value, Value]) -> None:
        """Rebuilds the body of the innermost loop. The operations `inside` replace the copies, and all loads from the
        rings read `stage`. `table` maps old operands to new ones."""
        body.ops = without(body.ops, self.nest.head.ops)
        for op in walk(body):
            op.operands = [table.get(v, v) for v in op.operands]
        read_stage(body, self.rings, stage)
        body.ops = inside + body.ops

    def _surround(self, before: list[Op]) -> None:
        """Inserts the operations `before` in front of the outermost loop, and a wait for all copies after the loop."""
        block, outermost = self.nest.block, self.nest.loops[0]
        ahead = block.ops[: block.ops.index(outermost)]
        # Copies with the attribute `besides` copy data for code after the loop. They move behind the first copies of
        # the pipeline, so that the first iterations do not wait for them. Such copies in front of an earlier loop stay
        # there, because code after that loop reads their data.
        others = max((i for i, op in enumerate(ahead, 1) if op.spec.control.counters), default=0)
        besides = [op for op in ahead[others:] if op.attrs.get("besides")]
        block.ops = without(block.ops, besides)
        at = block.ops.index(outermost)
        drain = Op(OPS["wait"], [], [], {"groups": 0}, (), outermost.loc)
        block.ops[at : at + 1] = [*before, *besides, outermost, drain]
