"""`prefetch_fragments p: early`: divides the MMAs of loop p into steps along k, and loads fragments one step ahead.

    for p:                                   wait; x, y = first step of stage 0
        wait; copies of iteration p + 2          for p, carrying x, y:
        x = load sa[p]; y = load sb[p]   →       x', y' = second step of sa[p], sb[p]
        acc = dot(x, y, acc)                     acc = dot(x, y, acc)
                                                 copies of iteration p + 2; wait
                                                 x, y = first step of sa[p + 1], sb[p + 1]
                                                 acc = dot(x', y', acc)

A step is as long along k as one MMA instruction. At the barrier of an iteration, the fragments of its last step are
already in registers. So MMAs continue while threads load the first fragments of the next iteration. `early` loads a
step's fragments before the MMAs of the previous step, into additional registers. `late` loads a fragment right after
the last use of the previous step's fragment, into the same register.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from dsl.lowering.building.builder import Builder
from dsl.lowering.building.iterations import carry, hand_on
from dsl.lowering.directives.entries import is_entry, written_in
from dsl.lowering.directives.part_maker import PartMaker
from dsl.lowering.directives.places import scalar_of
from dsl.lowering.directives.slices import impure, located, made_anew, reached, slice_of
from dsl.lowering.directives.staged import copy as make_copy
from dsl.lowering.ir.function import Block, Function, Op, Value, in_line, uses, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import SharedType, TileType
from dsl.lowering.known.facts import facts_now
from dsl.lowering.ops import operand
from dsl.lowering.plan.products import is_wgmma
from dsl.lowering.plan.tile_loads import is_load

COPY_BYTES = 16
"""The maximum number of bytes that one `cp.async` copies."""
STEP_BYTES = 32
"""The number of bytes along k of one MMA instruction, for most types."""
WAYS = ("whole", "early", "late")
MOST_SUMS = 128
"""`early` is the default up to this number of accumulators per thread. The fragments of two steps then still fit into
the thread's 255 registers."""
MOST_HELD = 136
"""`early` is the default up to this number of accumulators and copies of an iteration per thread, if the copies have
masks. With 128 accumulators, 16 copies spill up to 40 bytes (128 x 128 x 128 bytes, four warps), and 6 do not (256 x
128 x 64 bytes, eight warps)."""
Piece = tuple[Value, int]
"""An operand of an MMA, and the number of its axis along k."""


def prefetch_fragments(function: Function) -> None:
    """Rewrites the loops in `prefetch_fragments` lines. By default, also rewrites loops that contain only MMAs of
    staged operands. Raises TileError `schedule` if the MMAs of a named loop cannot be divided into steps."""
    said = function.by_subject("prefetch_fragments", str)
    found: set[str | None] = set()
    for loops, block in nests(function.body):
        name = loops[-1].regions[0].args[0].name or "loop"
        found.add(name)
        word, line = said.get(name), function.lines.get(("prefetch_fragments", name))
        iteration = _Iteration(function, loops, block)
        is_named = word not in (None, "whole")
        if is_named and iteration.unstaged and "registers" not in function.by_subject("stage", str).values():
            # Only the shapes of this variant prevent the rewrite: its rows begin at any address, so they are not
            # staged. The line then has no effect, and `dsl why` shows the reason.
            function.choices.choose("prefetch_fragments", name, {"whole": "whole"}, "whole", because=iteration.unstaged)
            continue
        if is_named and iteration.wrong is not None:
            message = f"the MMAs of loop '{name}' cannot go step by step: {iteration.wrong[0]}"
            raise TileError("schedule", line or loops[-1].loc, message, iteration.wrong[1])
        if word is None and iteration.wrong is not None:
            continue
        way = function.choices.choose(
            "prefetch_fragments",
            name,
            {each: each for each in (WAYS if iteration.wrong is None else WAYS[:1])},
            word or _rule(function, iteration),
            loc=loops[-1].loc,
            because="an iteration has only MMAs of staged operands",
            pinned=line if word else None,
            line=f"prefetch_fragments {name}: {{option}}",
        )
        if way != "whole":
            _Stepping(iteration, way).run()
    for name, word in said.items():
        if name not in found and word != "whole":
            _refuse(function, name)


def _rule(function: Function, iteration: _Iteration) -> str:
    if any(op.spec.product and is_wgmma(op) for op in walk(iteration.body)):
        return "whole"  # warpgroups read operands in shared memory: there are no fragments
    # With `early`, a warp with a tile of 64 × 64 needs the registers of two steps. Four subtiles of 32 × 32 need half
    # of them. f16 at 4096 (256×128×32, H200) takes 286 µs with subtiles, 304 with one tile, and 295 with whole
    # iterations.
    sums = sums_of_thread(function, iteration.inner)
    if iteration.is_masked and sums + iteration.copies_of_thread > MOST_HELD:
        return "late"
    return "late" if sums > MOST_SUMS else "early"


def sums_of_thread(function: Function, loop: Op) -> int:
    """Returns the number of 32-bit accumulators per thread that a loop carries."""
    sums = [v for v in loop.results if v.tile.shape and v.dtype.bits == 32]
    return sum(prod(v.tile.shape) for v in sums) // function.threads


def _refuse(function: Function, name: str) -> None:
    """Raises TileError `schedule` for a named loop without a pipeline. Raises no error if the loop has MMAs, but
    `stage` could not copy their operands."""
    loops = [op for op in walk(function.body) if op.spec.control.counters and op.regions[0].args[0].name == name]
    line = function.lines.get(("prefetch_fragments", name))
    if not loops:
        return  # `check_names` reports names that no loop has
    stages, made = function.by_subject("pipeline", int).get(name), function.choices.keyed().get(f"pipeline.{name}")
    stepped_back = stages is not None and stages > 1 and made is not None and made.taken == "1"
    if any(op.spec.product for op in walk(loops[0].regions[0])) and (stages is None or stepped_back):
        why = "nothing that it multiplies is staged"
        function.choices.choose("prefetch_fragments", name, {"whole": "whole"}, "whole", loc=loops[0].loc, because=why)
        return
    message = f"loop '{name}' is no pipeline: it has no copies that run ahead of its iterations"
    raise TileError("schedule", line or loops[0].loc, message, f"stage what it multiplies, and pipeline {name}: 3")


def nests(block: Block, around: Sequence[tuple[Op, Block]] = ()) -> list[tuple[list[Op], Block]]:
    """Finds the pipelined loop nests. Returns for each of them the list of its loops, outermost first, and the block
    that contains the outermost loop. The last loop is the pipelined one."""
    found: list[tuple[list[Op], Block]] = []
    for op in block.ops:
        if not op.spec.control.counters:
            for region in op.regions:
                found += nests(region)
            continue
        loops = [*around, (op, block)]
        if "nest" in op.attrs:
            depth = op.attrs["nest"]
            found.append(([loop for loop, _ in loops[-depth:]], loops[-depth][1]))
        found += nests(op.regions[0], loops)
    return found


class _Iteration:
    """Analyses an iteration of a pipelined loop. `loops` starts with the outermost loop, and `block` contains that
    loop. `products` contains the MMAs in order, and `pieces` their operands. `step` is the number of elements along k
    in one step. `gone` contains the operations that the rewrite replaces. `wrong` is None, or the reason why the
    iteration cannot be rewritten and a hint. `unstaged` repeats the reason if an operand is not staged.
    """

    def __init__(self, function: Function, loops: list[Op], block: Block):
        self.function, self.loops, self.block = function, loops, block
        self.products = [op for op in self.body.ops if op.spec.product]
        self.copies = [op for op in self.body.ops if op.spec.in_flight]
        self.commits = [op for op in self.body.ops if op.spec.orders == "group"]
        self.waits = [op for op in self.body.ops if op.spec.orders == "end"]
        self.pieces = list(dict.fromkeys(piece for op in self.products for piece in self.operands_of(op)))
        self.gone: set[Op] = set()
        self.step, self.unstaged = 0, ""
        self.wrong = self._misfit()

    @property
    def inner(self) -> Op:
        return self.loops[-1]

    @property
    def body(self) -> Block:
        return self.inner.regions[0]

    @property
    def steps(self) -> int:
        value, axis = self.pieces[0]
        return value.shape[axis] // self.step

    @property
    def copies_of_thread(self) -> int:
        """The number of copies of 16 bytes that a thread makes in an iteration."""
        bits = sum(prod(value.shape) * value.dtype.bits for value, _ in self.pieces)
        return bits // 8 // COPY_BYTES // self.function.threads

    @property
    def is_masked(self) -> bool:
        """Whether copies leave out single elements, whose flags registers hold. Operands of 32 bits do not count: their
        loops are not unrolled, and `late` takes 1.00 to 1.05 times as long (H200, six products)."""
        masks = [mask for copy in self.copies if (mask := operand(copy, "mask")) is not None]
        return self.pieces[0][0].dtype.bits < 32 and any(scalar_of(mask) is None for mask in masks)

    def operands_of(self, op: Op) -> list[Piece]:
        """Returns the two operands of an MMA, each with its axis along k."""
        last = len(op.result.tile.shape) - 1
        return [(op.operands[0], last), (op.operands[1], last - 1)]

    def _misfit(self) -> tuple[str, str] | None:
        """Checks whether the MMAs can be divided into steps. Returns None if they can, otherwise the reason why not and
        a hint."""
        if not self.products:
            return "it has none of its own", "products in the body of the loop itself"
        extents = {(value.shape[axis], value.dtype.bits) for value, axis in self.pieces}
        if len(extents) > 1:
            lengths = ", ".join(dict.fromkeys(map(self._length, self.products)))
            return f"they sum over different lengths: {lengths}", "products that all sum over one extent, of one type"
        extent, bits = extents.pop()
        self.step = STEP_BYTES * 8 // bits
        if extent % self.step:
            return f"a k-tile of {extent} elements is no whole step of {self.step}", f"TK = {self.step} or a multiple"
        loads: set[Op] = set()
        for value, axis in self.pieces:
            sources = list(self._sources(value, axis))
            if not all(map(self._reads_ring, sources)):
                wrong = f"'{value.name or 'an operand'}' does not come from shared memory alone"
                if any(source is not None and is_load(source) for source in sources):
                    self.unstaged = wrong
                return wrong, "stage both operands"
            loads.update(source for source in sources if source is not None)
        return self._misfit_of_rest(loads)

    def _length(self, op: Op) -> str:
        """Describes an MMA and its extent along k, for a message."""
        value, axis = self.operands_of(op)[0]
        name = f"'{op.result.name}'" if op.result.name else "one"
        return f"{name}{in_line(op)} over {value.shape[axis]} of {value.dtype}"

    def _sources(self, value: Value, axis: int) -> Iterator[Op | None]:
        """Yields the loads from which parts of an operand are computed. Yields None for an operation that cannot be
        computed in parts."""
        op = value.op
        if op is not None and op.spec.access.kind:
            yield op
            return
        is_pure = op is not None and op.spec.pure and op.spec.elements.along is not None
        along = op.spec.elements.along(op, value, axis) if op is not None and is_pure else None
        if op is None or along is None:
            yield None
            return
        for each in op.operands:
            if each in along:
                yield from self._sources(each, along[each])

    def _reads_ring(self, op: Op | None) -> bool:
        """Whether `op` is a load of the loop body from a ring of stages."""
        memory = None if op is None else op.operands[0].type
        return op in self.body.ops and isinstance(memory, SharedType) and memory.ring

    def _misfit_of_rest(self, loads: set[Op]) -> tuple[str, str] | None:
        """Returns the reason why another operation prevents the rewrite, and a hint, or None. Only MMAs may depend on
        the loads. All other operations must be pure, or load entries of tables, so that they can move in front of the
        MMAs."""
        end = self.body.ops[-1]
        made = {r for op in loads for r in op.results}
        ahead, entries = {*self.copies, *self.commits, *self.waits, end}, self._entries()
        for op in self.body.ops:
            if op in loads or op in self.products:
                self.gone.add(op)
                made.update(op.results)
            elif op is not end and made.intersection(op.operands):
                if any(p.result in op.operands for p in self.products) or not op.spec.pure:
                    return f"an iteration goes on with '{op.name}' after its MMAs", "do it after the loop"
                self.gone.add(op)
                made.update(op.results)
            elif op not in ahead and not op.spec.pure and op not in entries:
                return f"an iteration does '{op.name}' besides", "leave it out of the loop"
        return self._misfit_of_sums(made) or self._misfit_of_places(loads)

    def _entries(self) -> set[Op]:
        """Returns the loads of tables whose entries only a later iteration reads, or nothing any more, since copies of
        their own iteration read those that the loop carries."""
        end, users, written = self.body.ops[-1], uses(self.body), written_in(self.function)
        loads = [op for op in self.body.ops if is_entry(op, written)]

        def readers(value: Value) -> list[Op]:
            return [op for op in users.get(value, ()) if op is not end or value.op not in loads]

        def following(op: Op) -> list[Op]:
            return [reader for result in op.results for reader in readers(result)]

        return {op for op in loads if all(each.spec.pure or each in loads for each in reached([op], following))}

    def _misfit_of_sums(self, made: set[Value]) -> tuple[str, str] | None:
        """Returns the reason why an accumulator prevents the rewrite, and a hint, or None. The loop must carry each
        accumulator, and only one MMA may read it. `made` contains the values that depend on the loads."""
        sums = {p.operands[2] for p in self.products}
        results = [v for v in self.body.ops[-1].operands if v in made]
        if not sums <= set(self.body.args) or sorted(map(id, results)) != sorted(id(p.result) for p in self.products):
            return "they are no accumulators that the loop carries", "acc = dot(a, b, acc), once an iteration"
        readers = [op for op in self.body.ops if sums.intersection(op.operands)]
        if len(readers) > len(self.products):
            return "an iteration reads the accumulators", "read them after the loop"
        return None

    def _misfit_of_places(self, loads: set[Op]) -> tuple[str, str] | None:
        """Returns the reason why the loads' addresses cannot be computed for the next iteration, and a hint. Returns
        None if they can."""
        places = [v for load in loads for v in load.operands[1:]]
        wrong = impure(slice_of([op for op in self.body.ops if op not in self.gone], places))
        return None if wrong is None else (f"places come from '{wrong.name}'", "compute them from the counter")


def _is_carried(value: Value) -> bool:
    """Whether a tile is computed from tiles that a loop carries."""

    def tiles(value: Value) -> list[Value]:
        operands = [] if value.op is None else value.op.operands
        return [each for each in operands if isinstance(each.type, TileType) and each.tile.shape]

    return any(each.op is None for each in reached([value], tiles))


class _Steps(PartMaker):
    """Computes the operands of one step. If `table` is empty, the step belongs to the current iteration. Otherwise it
    belongs to another iteration, and `table` maps each counter and carried value to its value there."""

    def __init__(self, b: Builder, iteration: _Iteration):
        super().__init__(b, iteration.step)
        self.scope = [op for op in iteration.body.ops if op not in iteration.gone]
        self.table: dict[Value, Value] = {}

    def begin(self, step: int, table: dict[Value, Value]) -> None:
        self.memo, self.table = {}, table
        self.origin = self.b.index(step * self.part)

    def now(self, value: Value) -> Value:
        if not self.table:
            return value
        return made_anew(self.b, slice_of(self.scope, [value]), self.table, value)


class _Rows(PartMaker):
    """Computes the operands of one piece of a copy: some rows that are copied together. `b` builds operations in the
    loop, and `ahead` builds operations before the loop."""

    # Loop-invariant values are computed before the loops. When they were computed in the loop, each iteration of a
    # convolution extracted the mask's bits again, and 10 KB were spilled.

    def __init__(self, b: Builder, ahead: Builder, inside: set[Value], first: int, rows: int):
        super().__init__(b, rows)
        self.within, self.ahead, self.inside = b, ahead, inside
        self.origin = ahead.index(first)

    def of(self, value: Value, axis: int) -> Value:
        outer, self.b = self.b, self.within if value in self.inside else self.ahead
        try:
            return super().of(value, axis)
        finally:
            self.b = outer


class _Stepping:
    """Rewrites one pipelined loop. `ahead` builds operations before the loop."""

    def __init__(self, iteration: _Iteration, way: str):
        self.iteration, self.early = iteration, way == "early"
        place, facts = located(iteration.function, iteration.inner), facts_now(iteration.function)
        self.b, self.ahead = Builder(place, facts), Builder(place, facts)
        loops = [iteration.loops[0], *walk(iteration.loops[0].regions[0])]
        self.inside = {v for op in loops for region in op.regions for v in region.args}
        self.inside |= {v for op in loops[1:] for v in op.results}
        self.rows: dict[tuple[int, int], _Rows] = {}

    def run(self) -> None:
        """Loads the fragments of the first step before the loops. Each loop then carries the fragments of the next
        step."""
        b, iteration = self.b, self.iteration
        before, inside = Block(), Block()
        with b.region(before):
            b.op("wait", groups=iteration.waits[0].attrs["groups"])
            self.maker = _Steps(b, iteration)
            self.maker.begin(0, self._at_start())
            states = [self.maker.of(*piece) for piece in iteration.pieces]
        args = carry(iteration.loops, states, [None] * len(states))
        body = iteration.body
        scope = [op for op in body.ops if op not in iteration.gone]
        end = scope.pop()
        ahead = {*iteration.copies, *iteration.commits, *iteration.waits}
        inside.ops = [op for op in scope if op not in ahead]
        with b.region(inside):
            following = self._iterations(dict(zip(iteration.pieces, args, strict=True)), end)
        body.ops = [*inside.ops, end]
        sums = {op.result: self.sums[op.operands[2]] for op in iteration.products}
        end.operands = [sums.get(v, v) for v in end.operands]
        for op in iteration.products:
            sums[op.result].stands_for(op.result)
        hand_on(iteration.loops, following)
        iteration.inner.attrs = iteration.inner.attrs | {"stepped": "early" if self.early else "late"}
        at = iteration.block.ops.index(iteration.loops[0])
        iteration.block.ops[at:at] = [*self.ahead.outermost.ops, *before.ops]

    def _at_start(self) -> dict[Value, Value]:
        """Maps the loops' counters and carried values to their start values."""
        table: dict[Value, Value] = {}
        for loop in self.iteration.loops:
            starts = [loop.operands[0], *loop.operands[3:]]
            table |= {arg: table.get(v, v) for arg, v in zip(loop.regions[0].args, starts, strict=True)}
        return table

    def _next(self, end: Op) -> dict[Value, Value]:
        """Maps the innermost loop's counter and carried scalars to their values in the next iteration."""
        inner = self.iteration.inner
        counter = self.iteration.body.args[0]
        carried = dict(zip(self.iteration.body.args[1:], end.operands, strict=False))
        scalars = {arg: v for arg, v in carried.items() if not arg.tile.shape}
        return scalars | {counter: self.b.value("add", counter, inner.operands[2])}

    def _iterations(self, now: dict[Piece, Value], end: Op) -> list[Value]:
        """Builds all steps of an iteration. `now` contains the fragments of the first step. Returns the fragments of
        the first step of the next iteration."""
        iteration, count = self.iteration, self.iteration.steps
        self.sums = {op.operands[2]: op.operands[2] for op in iteration.products}
        last = {piece: i for i, op in enumerate(iteration.products) for piece in iteration.operands_of(op)}
        # After `waits_at` MMAs, the iteration commits its copies and waits for the next stage. So all copies must come
        # before.
        waits_at = (count - 1) * len(iteration.products) + (0 if self.early else min(last.values()) + 1)
        self.left = self._spread(waits_at)
        self.done, self.waited = 0, False
        self._bring()
        for step in range(count):
            following = dict(now) if not self.early else {}
            is_last = step == count - 1
            if is_last and self.early:
                self._wait()
            self.maker.begin((step + 1) % count, self._next(end) if is_last else {})
            if self.early:
                following = {piece: self.maker.of(*piece) for piece in iteration.pieces}
            for i, op in enumerate(iteration.products):
                a, b = (now[piece] for piece in iteration.operands_of(op))
                self.b.place = (op.loc or self.b.loc, None)
                total = self.b.op("dot", [a, b, self.sums[op.operands[2]]], **op.attrs).result
                self.sums[op.operands[2]] = total
                total.name = op.result.name
                self.done += 1
                self._bring()
                if not self.early:
                    over = [piece for piece in dict.fromkeys(iteration.operands_of(op)) if last[piece] == i]
                    if is_last and over and not self.waited:
                        self._wait()
                    following |= {piece: self.maker.of(*piece) for piece in over}
            now = following
        return [now[piece] for piece in iteration.pieces]

    def _spread(self, places: int) -> list[tuple[int, Op, int, int]]:
        """Divides all copies into pieces, and spreads the pieces evenly over the `places` MMAs before the wait. Returns
        for each piece the number of MMAs before it, the copy, the first row and the number of rows. In a piece, each
        thread copies 16 bytes."""
        pieces: list[tuple[Op, int, int]] = []
        for copy in self.iteration.copies:
            source = operand(copy, "source")
            assert source is not None
            count, *row = source.tile.shape
            at_once = self.iteration.function.threads * COPY_BYTES * 8 // (prod(row) * copy.operands[0].dtype.bits)
            # Which rows a tile gathers is a tile that the loop carries. It has no parts.
            rows = count if _is_carried(source) else min(count, max(1, at_once))
            pieces += [(copy, first, rows) for first in range(0, count, rows)]
        return [(i * places // len(pieces), *piece) for i, piece in enumerate(pieces)]

    def _bring(self) -> None:
        """Builds the pieces of copies that are due after the MMAs built so far."""
        while self.left and self.left[0][0] <= self.done:
            _, copy, first, rows = self.left.pop(0)
            parts = [operand(copy, name) for name in ("offset", "source", "mask")]
            assert parts[1] is not None
            if rows == parts[1].tile.shape[0]:
                self.b.block.ops.append(copy)
                continue
            maker = self.rows.get((first, rows))
            if maker is None:
                maker = self.rows[first, rows] = _Rows(self.b, self.ahead, self.inside, first, rows)
            place, source, mask = (None if v is None else maker.of(v, 0) for v in parts)
            self.b.place = (copy.loc or self.b.loc, None)
            ring, stage, tensor = copy.operands[0], operand(copy, "stage"), operand(copy, "tensor")
            assert place is not None and tensor is not None
            ahead = copy.attrs.get("ahead", False)
            make_copy(self.b, ring, stage, place, tensor, source, mask, copy.attrs["cache"], ahead)

    def _wait(self) -> None:
        """Builds the commit of this iteration's copies, and the wait for the data of the next iteration."""
        assert not self.left
        self.waited = True
        self.b.block.ops += [*self.iteration.commits, *self.iteration.waits]
