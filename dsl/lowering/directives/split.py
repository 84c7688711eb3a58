"""`split p: 4` (split-K): divides the iterations of loop p among 4 blocks. The loop may only add to accumulators.

    acc = zeros(…)                 acc = zeros(…)
    for p in range(…):             for p in part of range(…):
        acc = dot(…, acc)              acc = dot(…, acc)
    c[…] = acc              →      sums[block] = acc
                                   if this block is the last one to arrive:
                                       acc = the blocks' sums, added in order
                                       c[…] = acc

The grid's last axis becomes 4 times as long. Partial sums and arrival counters are in workspaces, which the launch
allocates. The last block to arrive adds the partial sums in ascending order, so a result has the same bits on every
call. No block waits for another block, so blocks may run in any order. `joins.py` finds the accumulators, and how
partial sums are combined. If only a reduction reads an accumulator, each block reduces its own sums before it stores
them. If partial sums are small, the last block loads several at once, one beside the other in a tile, and reduces the
tile.

`split p: stream` (stream-K): the grid has as many blocks as run at the same time (`blocks_per_sm` on each SM, 1 by
default). Each block loops over tiles. Each block first computes whole tiles, as long as enough tiles for all blocks are
left. The iterations of all remaining tiles form one sequence, of which each block computes an equal share. If one block
computes a whole tile, it does not store the sums in a workspace. Stream-K with whole tiles first is from Osama et al.,
PPoPP 2023.

No loop is split by default, because a split changes the order of the additions, and more blocks help only a small grid.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from math import prod

from dsl.lowering.building.iterations import copied_region
from dsl.lowering.directives.cluster_split import ClusterSplit, check_cluster
from dsl.lowering.directives.grid import in_ir, replace_grid
from dsl.lowering.directives.joins import LoopShare, PartialSums, Unsplit, check_joined, partial_sums
from dsl.lowering.directives.slices import impure, inside, slice_of
from dsl.lowering.directives.stage import unstage
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, blocks_of, in_line, replace_uses, uses, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import I1, INDEX, S32, S64, U32, DType, TileType
from dsl.lowering.ops import OPS, space_of
from dsl.lowering.ops.memory import BONDS
from dsl.lowering.plan.lifetimes import Lifetimes
from dsl.lowering.plan.tile_loads import is_load
from dsl.lowering.shared.atoms import offsets_within

PARTS = (1, 2, 4)
STREAM = 0
"""The value of `parts` for `split p: stream`."""
Values = Sequence[Value]
AXIS = 2
"""The grid axis that `split` makes longer. It is the last axis, so that known facts about block(0) and block(1) stay
valid. Masks and access widths depend on these facts."""
MOST, AHEAD, MOST_AHEAD = 4, 4, 64
"""`MOST` is the number of elements per thread that the last block loads at a time. `AHEAD` is the unroll factor of the
loop over partial sums, if these have at most `MOST_AHEAD` elements per thread."""


def split(function: Function) -> None:
    """Splits the loops in `split` lines. Raises TileError `schedule` for a loop that cannot be split."""
    check_joined(function)
    done: str | None = None
    for name, parts in function.by_subject("split", int).items():
        loops = [op for op in walk(function.body) if op.spec.control.counters and op.regions[0].args[0].name == name]
        if loops and _split(function, name, parts, loops, done):
            done = name
    for block in blocks_of(function.body):
        block.ops = [op for op in block.ops if op.spec.acts != "joins"]


def _split(function: Function, name: str, named: int, loops: list[Op], done: str | None) -> bool:
    """Splits a loop if that is chosen, and returns whether it was. `done` is the counter of a loop that was split."""
    loc = function.lines.get(("split", name))
    loop, sums = loops[0], []
    try:
        _check_place(function, loops, done)
        if named == STREAM:
            _check_iterations(function, loop)
        sums = partial_sums(function, loop)
        _check_effects(function, loop)
        if named < 0:
            check_cluster(function, loop)
        wrong = None
    except Unsplit as error:
        wrong = error
    if wrong is not None and named != 1:
        message = f"loop '{name}' cannot be split: {wrong.message}"
        raise TileError("schedule", loc or loop.loc, message, wrong.hint)
    options = {_said(each): each for each in dict.fromkeys((*PARTS, named))}
    ways, rule = options if wrong is None else {"1": 1}, _said(named)
    why, line = "the schedule says so", f"split {name}: {{option}}"
    parts: int = function.choices.choose("split", name, ways, rule, loc=loop.loc, because=why, pinned=loc, line=line)
    if parts not in (named, 1):  # an override chose `parts`: other lines may not fit the split kernel
        _leave_behind(function, loop)
    if parts == STREAM:
        _Stream(function, loop, sums).run()
    elif parts > 1:
        _Split(function, loop, sums, parts).run()
    elif parts < 0:
        ClusterSplit(function, loop, sums, -parts).run()
    function.deals += parts != 1
    return parts != 1


def _said(parts: int) -> str:
    """Returns the number of parts as a schedule says it."""
    return "stream" if parts == STREAM else f"{-parts}, cluster" if parts < 0 else str(parts)


def _leave_behind(function: Function, loop: Op) -> None:
    """Drops the `stage` lines of tensors that are loaded only after the loop. The code after the loop is then in a
    branch, which only one block of a tile executes."""
    top = function.body.ops
    behind = {op.operands[0].name for op in top[top.index(loop) + 1 :] if is_load(op)}
    ahead = {op.operands[0].name for each in top[: top.index(loop) + 1] for op in (each, *inside(each)) if is_load(op)}
    unstage(function, {name for name in behind - ahead if name})


# ---- requirements ----


def _check_place(function: Function, loops: list[Op], done: str | None) -> None:
    if done is not None:
        raise Unsplit(f"loop '{done}' is split, and blocks share one loop of a kernel", f"one of them: split {done}: 1")
    if len(loops) > 1:
        raise Unsplit(f"{len(loops)} loops have this counter", "give the counters names of their own")
    if function.number("persistent", 0):
        raise Unsplit("blocks of a persistent kernel take whole tiles", "persistent 0")
    if loops[0] not in function.body.ops:
        raise Unsplit("it stands in another loop or a branch", "split the outermost loop")
    if function.word("barriers") == "manual":
        raise Unsplit("its blocks meet after barriers, which 'barriers manual' leaves out", "barriers automatic")
    step = constant_of(loops[0].operands[2])
    if step is None or step <= 0:
        raise Unsplit("its step is no positive constant", "count up by a constant")


def _check_iterations(function: Function, loop: Op) -> None:
    """Raises Unsplit unless all tiles have the same trip count, computed before the first tile. Stream-K needs the
    total number of iterations of all tiles."""
    if any(op.spec.elements.of_grid == "rank" for op in walk(function.body)):
        raise Unsplit("the blocks of a cluster take tiles together", "cluster 1, or a number of parts")
    before = function.body.ops[: function.body.ops.index(loop)]
    part = slice_of(before, loop.operands[:3])
    wrong = impure(part)
    what = "the number of the tile" if wrong is None else f"'{wrong.name}'{in_line(wrong)}"
    if wrong is not None or any(op.spec.elements.of_grid for op in part):
        message = f"its trip count comes from {what}, and may differ from tile to tile"
        raise Unsplit(message, "bounds of dims and constants, or a number of parts")


def _check_effects(function: Function, loop: Op) -> None:
    """Raises Unsplit if the code in or before the loop has visible effects, such as stores. In the loop, each block
    would cause only some of them. Before the loop, every block would repeat them. Asserts may be repeated, and each
    block checks those of its iterations."""
    before = function.body.ops[: function.body.ops.index(loop)]
    for op in (each for top in before for each in (top, *inside(top))):
        if op.spec.acts != "checks" and (what := _effect(op, ("global",))) is not None:
            message = f"'{what}'{in_line(op)} stands before it, and each of its blocks would do it"
            raise Unsplit(message, "do it after the loop")
    own = _own_tiles(function, loop)
    for op in inside(loop):
        if op.spec.acts != "checks" and (what := _effect(op, ("global", "shared"), own)) is not None:
            hint = "a loop that adds to accumulators; 'stage' makes copies to shared memory"
            raise Unsplit(f"'{what}'{in_line(op)} does more than add to accumulators", hint)


def _own_tiles(function: Function, loop: Op) -> set[Value]:
    """Returns the shared tiles that only `loop` accesses, and that each iteration writes as a whole before it reads
    them. So it does not matter which block executes an iteration."""
    lifetimes = Lifetimes(function)
    read_first = lifetimes.backward(loop.regions[0], 0)
    within = set(inside(loop))
    outside = {v for op in walk(function.body) if op not in within for v in op.operands}
    return {tile for tile, i in lifetimes.number.items() if not read_first >> i & 1 and tile not in outside}


def _effect(op: Op, spaces: tuple[str, ...], own: Collection[Value] = ()) -> str | None:
    """Returns the name of an operation with a visible effect: it prints, writes memory in one of the `spaces`, or
    orders memory accesses for other blocks. Returns None for any other operation. A store to a tile of `own` has no
    visible effect, but a copy may arrive in another iteration."""
    spec = op.spec
    for effect in spec.access.effects(op):
        is_hidden = effect.memory in own and effect.by.completion == "at once"
        if effect.kind in BONDS or (effect.kind == "write" and space_of(effect.memory) in spaces and not is_hidden):
            return op.name
    silent = spec.control.regions or spec.control.ends or spec.allocates or spec.orders is not None
    return op.name if spec.keep and not silent else None


# ---- the rewrite ----


class _Meeting(LoopShare):
    """Builds the code by which blocks combine their partial sums of one tile. A block stores at most `each` partial
    sums. The last block loads `at_once` partial sums at a time, in `ahead` iterations of a loop together. If
    `keeps_layout` is true, the combined sums have the same register layout as the sums of the loop. `fragments` then
    maps each sum of an MMA to its shape in memory, chosen for this layout. Otherwise, sums in `crosswise`, which the
    code after the loop only transposes, lie in column-major order: the last block then loads and stores neighbours of
    the result, whose rows are a sum's columns.
    """

    each = 1
    at_once = 1
    ahead = 1
    keeps_layout = False

    def __init__(self, function: Function, loop: Op, sums: list[PartialSums]):
        super().__init__(function, loop, sums)
        self.results = [value for each in sums for value in each.values]
        body = function.body.ops
        at = body.index(loop)
        self.before, self.behind = body[:at], [op for op in body[at + 1 :] if op not in self.alone]
        found = [(value, _fragments(function, loop, each)) for each in sums for value in each.values]
        self.fragments = {value: shape for value, shape in found if shape is not None and self.keeps_layout}
        self.crosswise = set[Value]() if self.keeps_layout else set(filter(self._is_transposed, self.results))

    def provide(self) -> None:
        """Declares the workspaces that the launch provides."""
        names = [value.name or each.name for each in self.sums for value in each.values]
        self.memories = [
            self.function.workspace(f"{name}_parts", self._stored(r), self.each * prod(r.tile.shape))
            for name, r in zip(names, self.results, strict=True)
        ]
        # The counter is zero before and after each launch: the last block to arrive resets it.
        self.arrived = self.function.workspace("arrived", U32, 1, zero=True)

    def arrive(self, place: Value, counter: Value, others: Value) -> Value:
        """Builds the code that stores this block's sums and counts its arrival. Returns a flag that is true if `others`
        other blocks have arrived before."""
        b = self.b
        for memory, result in zip(self.memories, self.results, strict=True):
            value = self._in_memory(result)
            self._store(memory, self._at(place, value.tile.shape, result in self.crosswise), value)
        has = ["memory", "offset", "value"]
        operands = [self.arrived, counter, b.constant(1, U32)]
        # Release makes the sums visible before the count. Acquire lets the last block read the sums of all other
        # blocks.
        count = b.op("atomic", operands, has=has, action="add", order="acq_rel", scope="gpu").result
        return b.value("eq", count, self.as_type(others, U32))

    def joined(
        self, counter: Value, first: Value, turns: tuple[Value, Value], place: Callable[[Value], Value]
    ) -> Values:
        """Builds the code that combines the sums of all blocks in ascending order. It loads the sums at `first`. Then a
        loop adds the sums at `place(turn)` in each iteration."""
        b, results = self.b, self.results
        self._store(self.arrived, counter, b.constant(0, U32))  # ready for the next launch
        starts = self._parts(first)
        turn = Value(TileType((), INDEX), name="part")
        body = Block([turn, *(Value(start.type) for start in starts)])
        with b.region(body):
            here = self.there(turn)
            ends = self._join(body.args[1:], self._parts(place(turn), here))
            if here is not None:
                ends = [self._choose(here, end, total) for end, total in zip(ends, body.args[1:], strict=True)]
        body.ops.append(self.end(*ends))
        made = b.op("for", [*turns, b.index(self.at_once), *starts], [body], unroll=self.ahead)
        for result, new, within in zip(results, made.results, body.args[1:], strict=True):
            # A `layout` line for this name applies to the whole tile, not to these values.
            new.name = within.name = None if result in self.fragments else result.name
        totals = made.results if self.at_once == 1 else self._reduced(made.results)
        return [self._from_memory(total, result) for total, result in zip(totals, results, strict=True)]

    def there(self, turn: Value) -> Value | None:
        """Computes a mask for the `at_once` partial sums from number `turn` on: true for those that exist. Returns None
        if all exist."""
        return None

    def _is_transposed(self, value: Value) -> bool:
        """Whether the code after the loop reads a sum, and only to transpose it."""
        users = uses(self.function.body).get(value)
        return users is not None and all(op.attrs.get("axes") == (1, 0) for op in users)

    def _groups(self, values: Values) -> Iterator[tuple[PartialSums, Values]]:
        """Yields the groups of accumulators that are combined together, each with the corresponding part of
        `values`."""
        left = iter(values)
        for each in self.sums:
            yield each, [next(left) for _ in each.values]

    def _join(self, left: Values, right: Values) -> list[Value]:
        pairs = zip(self._groups(left), self._groups(right), strict=True)
        return [value for (each, a), (_, b) in pairs for value in each.joined(self.b, a, b)]

    def _reduced(self, tiles: Values) -> list[Value]:
        """Reduces tiles whose first axis enumerates partial sums."""
        out: list[Value] = []
        for each, values in self._groups(tiles):
            out += self.b.op("reduce", values, [copied_region(each.join)], axis=0).results
        return out

    def _choose(self, here: Value, yes: Value, no: Value) -> Value:
        return self.b.value("select", self._aligned(here, yes.tile.shape), yes, no)

    def _aligned(self, along: Value, shape: tuple[int, ...]) -> Value:
        """Broadcasts a tile that has one value per partial sum to `shape`, the shape of several partial sums."""
        b = self.b
        return b.broadcast(b.reshape(along, (*along.tile.shape, *(1 for _ in shape[1:]))), shape)

    def end(self, *values: Value) -> Op:
        return Op(OPS["yield"], values, [], {}, (), self.b.loc)

    def behind_if(self, condition: Value, then: Block, sums: Values) -> None:
        """Moves the operations after the loop into a branch that runs if `condition` is true. There they read `sums`
        instead of the loop's results."""
        # Shared tiles are allocated at the top of a function, never in a branch.
        then.ops += [op for op in self.behind if not op.spec.allocates]
        replace_uses(then, dict(zip(self.results, sums, strict=True)))
        otherwise = Block()
        then.ops.append(self.end())
        otherwise.ops.append(self.end())
        self.b.op("if", [condition], [then, otherwise], types=[])

    def _stored(self, value: Value) -> DType:
        """Returns the type of a sum in its workspace. An index is stored as s32 or s64."""
        return value.dtype if value.dtype is not INDEX else S64 if self.function.index_bits == 64 else S32

    def _parts(self, place: Value, there: Value | None = None) -> list[Value]:
        """Loads the sums at `place`. If `place` is a tile, loads several partial sums into one tile."""
        pairs = zip(self.memories, self.results, strict=True)
        shapes = [self.fragments.get(r, r.tile.shape) for r in self.results]
        return [
            self._load(memory, self._at(place, shape, r in self.crosswise), r.dtype, there)
            for (memory, r), shape in zip(pairs, shapes, strict=True)
        ]

    def _in_memory(self, value: Value) -> Value:
        """Rearranges a sum to its shape in the workspace."""
        if value not in self.fragments:
            return value
        b, (rows, columns) = self.b, value.tile.shape
        parts = b.reshape(value, (rows // 16, 2, 8, columns // 8, 4, 2))
        return b.reshape(b.value("transpose", parts, axes=(0, 3, 2, 4, 1, 5)), self.fragments[value])

    def _from_memory(self, stored: Value, result: Value) -> Value:
        """Reverses `_in_memory`: rearranges a loaded sum to the tile `result`."""
        if result not in self.fragments:
            return stored
        b, (rows, columns) = self.b, result.tile.shape
        parts = b.reshape(stored, (rows // 16, columns // 8, 8, 4, 2, 2))
        total = b.reshape(b.value("transpose", parts, axes=(0, 4, 2, 1, 3, 5)), (rows, columns))
        total.name = result.name
        return total

    def _at(self, place: Value, shape: tuple[int, ...], crosswise: bool) -> Value:
        """Computes the workspace offsets of the elements of sum number `place`. `shape` is the sum's shape in the
        workspace. The elements lie in row-major order, or in column-major order if `crosswise`."""
        b = self.b
        start = b.value("mul", *b.same_shape([place, b.index(prod(shape))]))
        if not shape:
            return start
        if place.tile.shape:
            start = self._aligned(start, (*place.tile.shape, *shape))
        within = offsets_within(b, shape[::-1] if crosswise else shape)
        if crosswise:
            within = b.value("transpose", within, axes=(1, 0))
        return b.value("add", *b.same_shape([start, within]))

    def _store(self, memory: Value, at: Value, value: Value) -> None:
        value = self.as_type(value, memory.dtype)
        self.b.access("store", {"memory": memory, "offset": at, "value": value}, cache=None, evict=None)

    def _load(self, memory: Value, at: Value, dtype: DType, there: Value | None) -> Value:
        mask = None if there is None else self._aligned(there, at.tile.shape)
        made = self.b.access("load", {"memory": memory, "offset": at, "mask": mask}, cache=None, evict=None).result
        return self.as_type(made, dtype)


def _fragments(function: Function, loop: Op, sums: PartialSums) -> tuple[int, int] | None:
    """Returns the shape in memory of an accumulator of MMAs, chosen so that each warp accesses contiguous memory, 16
    bytes per lane. Returns None for any other sum.

    In an m16n8 fragment, a thread has two neighbours of one row, and two more eight rows below (PTX ISA, "Matrix
    fragments"). A row in memory contains the 128 elements of one m16n8, ordered by thread. In row-major order, a thread
    would access only 8 bytes: stream-K with 128 x 256 sums took 1.1 to 1.6 times as long (H200, 11 products).
    """
    if len(sums.values) > 1 or sums.alone or sums.whole:
        return None
    (value,) = sums.values
    shape, is_cut = value.tile.shape, value.name in function.by_subject("subtile", tuple)
    if len(shape) != 2 or is_cut or shape[0] < 16 or shape[1] < 8 or any(extent & (extent - 1) for extent in shape):
        return None
    if not any(op.spec.product and op.result.tile.shape == shape for op in inside(loop)):
        return None
    return shape[0] * shape[1] // 128, 128


class _Split(_Meeting):
    """Split-K: a fixed number of blocks for each tile, along the grid's last axis."""

    def __init__(self, function: Function, loop: Op, sums: list[PartialSums], parts: int):
        super().__init__(function, loop, sums)
        self.parts = parts
        shapes = [result.tile.shape for result in self.results]
        # Several partial sums form one tile, whose extents must be powers of two.
        whole, most = any(each.whole for each in sums), max(map(prod, shapes))
        if not whole and not any(extent & (extent - 1) for shape in shapes for extent in shape):
            self.at_once = 1 << min(parts, max(1, function.threads * MOST // most)).bit_length() - 1  # a power of two
        # Parts that a function joins form no tile. Those of products, which are larger, are loaded one by one.
        if self.at_once > 1 or (whole and AHEAD * most <= MOST_AHEAD * function.threads):
            self.ahead = AHEAD

    def run(self) -> None:
        b, function = self.b, self.function
        top, head, meeting = Block(), Block(), Block()
        with b.region(top):
            part = self._divide()
            with b.region(head):
                every = b.index(self.parts)
                each = b.cdiv(self.as_type(self.iterations(), INDEX), every)
                self.shorten(b.value("mul", part, each), each)
            with b.region(meeting):
                self._meet(part)
        kept = [op for op in self.behind if op.spec.allocates]
        function.body.ops = [*kept, *top.ops, *self.before, *head.ops, self.loop, *self.alone, *meeting.ops]

    def _divide(self) -> Value:
        """Computes which part of the iterations this block executes. The kernel's own reads of the grid's last axis
        still return the values from before the split."""
        b, function = self.b, self.function
        number, parts = b.value("block_id", axis=AXIS), b.index(self.parts)
        single = function.grid[AXIS] == 1  # then no division is needed
        self.block = b.index(0) if single else b.value("floordiv", number, parts)
        blocks = b.index(1) if single else b.value("floordiv", b.value("grid_size", axis=AXIS), parts)
        replace_grid(function, {AXIS: self.block}, {AXIS: blocks})
        function.grid[AXIS] = self.parts if single else ["*", function.grid[AXIS], self.parts]
        return number if single else b.value("mod", number, parts)

    def _meet(self, part: Value) -> None:
        """Builds the code after the loop. The last block of a tile to arrive combines the sums of all blocks, and runs
        the rest of the kernel."""
        b = self.b
        rows, columns = (self._extent(axis) for axis in (0, 1))
        plane = b.value("mul", rows, columns)
        tile = b.value("add", b.value("block_id", axis=0), b.value("mul", rows, b.value("block_id", axis=1)))
        depth = b.value("mul", self.block, b.index(self.parts))
        first = b.value("add", tile, b.value("mul", plane, depth))  # the block that computes the first part of the tile

        def place(turn: Value) -> Value:
            each = self._side_by_side(turn)
            return b.value("add", *b.same_shape([first, b.value("mul", *b.same_shape([plane, each]))]))

        self.provide()
        is_last = self.arrive(b.value("add", first, b.value("mul", plane, part)), first, b.index(self.parts - 1))
        then = Block()
        with b.region(then):
            opening = place(b.index(0))
            sums = self.joined(first, opening, (b.index(self.at_once), b.index(self.parts)), place)
        self.behind_if(is_last, then, sums)

    def _extent(self, axis: int) -> Value:
        """Returns the number of blocks along a grid axis."""
        known = self.function.grid[axis]
        return self.b.index(known) if isinstance(known, int) else self.b.value("grid_size", axis=axis)

    def _side_by_side(self, turn: Value) -> Value:
        """Computes the numbers of the `at_once` partial sums from number `turn` on."""
        if self.at_once == 1:
            return turn
        return self.b.value("add", *self.b.same_shape([turn, self.b.value("arange", extent=self.at_once)]))

    def there(self, turn: Value) -> Value | None:
        if self.parts % self.at_once == 0:
            return None
        return self.b.value("lt", *self.b.same_shape([self._side_by_side(turn), self.b.index(self.parts)]))


class _Stream(_Meeting):
    """Stream-K: each block computes whole tiles first, then an equal share of the iterations of all remaining tiles.

    A block stores at most two partial sums: one of a tile whose first iteration it executes, and one of a tile that
    another block started.
    """

    each = 2
    # A block that computes a tile alone continues with its own sums, so all sums have the loop's layout. In split-K,
    # where all sums come from memory, row-major sums are 2 to 4 % faster, because the result then has wide stores
    # (products with 2 to 8 parts, H200).
    keeps_layout = True

    def run(self) -> None:
        b, function = self.b, self.function
        ahead = slice_of(self.before, self.loop.operands[:3])
        kept = [op for op in (*self.before, *self.behind) if op.spec.allocates]
        top, inside = Block(), Block()
        with b.region(top):
            place = function.lines.get(("split", self.loop.regions[0].args[0].name or ""), b.loc)
            sizes = [in_ir(b, function, tree, place) for tree in function.grid]
            block, blocks = b.value("block_id", axis=0), b.value("grid_size", axis=0)
            plane = b.value("mul", sizes[0], sizes[1])
            # An empty loop counts as one iteration, so that some block gets the tile and stores it.
            iterations = b.value("maximum", self.as_type(self.iterations(), INDEX), b.index(1))
            tiles, one = b.value("mul", plane, sizes[2]), b.index(1)
            waves = b.value("floordiv", tiles, blocks)
            dealt = b.value("mul", waves, blocks)  # number of tiles that one block computes alone
            total = b.value("mul", b.value("sub", tiles, dealt), iterations)
            share = b.value("maximum", b.cdiv(total, blocks), one)
            low = b.value("minimum", b.value("mul", block, share), total)
            high = b.value("minimum", b.value("add", low, share), total)
            begun = b.value("floordiv", low, iterations)  # the first remaining tile with iterations of this block
            parted = b.value("maximum", b.value("sub", b.cdiv(high, iterations), begun), b.index(0))
            parted = b.value("select", b.value("lt", low, high), parted, b.index(0))
            bounds = [b.index(0), b.value("add", waves, parted), one]
        turn = Value(TileType((), INDEX), name="turn")
        self.provide()
        with b.region(top), b.region(inside):
            is_whole = b.value("lt", turn, waves)

            def of(whole: Value, part: Value) -> Value:
                return b.value("select", is_whole, whole, part)

            number = b.value("add", begun, b.value("sub", turn, waves))  # index among the remaining tiles
            own = b.value("add", block, b.value("mul", turn, blocks))
            tile = of(own, b.value("add", dealt, number))
            flat = b.value("mod", tile, plane)
            numbers = [b.value(name, flat, sizes[0]) for name in ("mod", "floordiv")]
            numbers.append(b.value("floordiv", tile, plane))
            replace_grid(function, dict(enumerate(numbers)), dict(enumerate(sizes)))
            origin = b.value("mul", number, iterations)
            first = of(b.index(0), b.value("maximum", b.value("sub", low, origin), b.index(0)))
            last = of(iterations, b.value("minimum", b.value("sub", high, origin), iterations))
            self.shorten(first, b.value("sub", last, first))
            rest = [op for op in self.before if op not in ahead and not op.spec.allocates]
            meeting = Block()
            with b.region(meeting):
                opening = of(block, b.value("floordiv", origin, share))  # the block with the tile's first part
                end = b.value("add", origin, b.value("sub", iterations, one))
                self._meet(block, first, opening, of(block, b.value("floordiv", end, share)))
        body = Block([turn])
        body.ops = [*inside.ops, *rest, self.loop, *self.alone, *meeting.ops, self.end()]
        # With the attribute `tiles`, copies of `pipeline` continue from tile to tile, as in a persistent block.
        around = Op(OPS["for"], bounds, [], {"unroll": 1, "tiles": True}, [body], b.loc)
        function.body.ops = [*kept, *ahead, *top.ops, around]
        function.grid = [["*", "sms", max(1, function.number("blocks_per_sm"))], 1, 1]

    def _meet(self, block: Value, first: Value, opening: Value, ending: Value) -> None:
        """Builds the code after the loop. If a block executes all iterations of a tile, it runs the rest of the kernel
        with its own sums. Otherwise the last block to arrive combines all sums and runs the rest."""
        b, two, one = self.b, self.b.index(2), self.b.index(1)
        types = [*(result.type for result in self.results), TileType((), I1)]
        yes = b.constant(True, I1)
        whole, parted, last, others = Block(), Block(), Block(), Block()
        whole.ops.append(self.end(*self.results, yes))
        with b.region(parted):
            stage = b.value("select", b.value("eq", first, b.index(0)), b.index(0), one)
            place = b.value("add", b.value("mul", block, two), stage)
            is_last = self.arrive(place, opening, b.value("sub", ending, opening))
            with b.region(last):
                turns = b.value("add", opening, one), b.value("add", ending, one)
                at = b.value("mul", opening, two)
                sums = self.joined(opening, at, turns, lambda turn: b.value("add", b.value("mul", turn, two), one))
            last.ops.append(self.end(*sums))
            others.ops.append(self.end(*self.results))
            joined = b.op("if", [is_last], [last, others], types=types[:-1]).results
        parted.ops.append(self.end(*joined, is_last))
        *sums, goes_on = b.op("if", [b.value("eq", opening, ending)], [whole, parted], types=types).results
        for result, old in zip(sums, self.results, strict=True):
            result.name = old.name
        self.behind_if(goes_on, Block(), sums)
