"""Implements `unroll i: 4`: joins four iterations of the loop over `i` into one, and adds a second loop for the
remaining iterations.

If the number of iterations is constant, the second loop becomes straight-line code. If this number is less than eight,
the whole loop becomes straight-line code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any

from dsl.lowering.building.iterations import known_iterations, several_iterations
from dsl.lowering.building.loop_forms import iterations_of
from dsl.lowering.directives.slices import slice_of, without
from dsl.lowering.hopper.warpgroup import is_loaded_across
from dsl.lowering.ir.budget import Budget
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Rewriter, Value, clone, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import DTYPES, INDEX, DType, TileType, int_range
from dsl.lowering.known.facts import Analysis, facts_now, in_order
from dsl.lowering.ops import OPS, space_of
from dsl.lowering.plan.products import is_wgmma
from dsl.lowering.plan.tile_loads import adds_products


def unroll_loops(function: Function) -> None:
    """Unrolls loops whose attribute `unroll` is above 1 and whose step is constant."""
    for op in walk(function.body):
        if op.spec.control.counters:
            _choose(function, op)
    check_room(function, _copies)
    if not any(op.attrs.get("unroll", 1) > 1 for op in walk(function.body)):
        return
    rewriter = _Unroller(facts_now(function), {*function.by_subject("split", int)})
    function.body = rewriter.block(function.body, rewriter.visit)


USUAL = (1, 2, 4, 8)
MOST_SLOTS = 4
"""The maximum number of iterations that a pipelined loop of MMAs joins: one for each stage. On an H200, joining three
iterations makes matrix products of size 4096 10% faster, for f16 and for bytes. Loops that do more than MMAs need the
registers: attention is 6% slower if two iterations are joined."""
STEPPED = 2
"""The number of iterations that are joined in a loop that `prefetch_fragments` has rewritten (a stepped loop). On an
H200, f16 products of size 4096 take 293, 286 and 296 microseconds with one, two and three iterations joined. Products
of size 8192 take 2288, 2242 and 2300 microseconds."""
STEPPED_LATE = 4
"""The same for operands of 32 bits whose fragments are `late`, if a thread has MOST_SUMS accumulators. Then 256 x 128 x
32 spills nothing; with one iteration and `early`, it spills up to 136 bytes."""
LOADED_WORDS, LOADED_APART = 4, 2
"""The numbers of iterations that are joined if threads load operands of wgmma: of 32 bits, or bytes whose sums are
added apart."""
MOST_SUMS = 128
"""A stepped loop joins iterations only if a thread has at most this many accumulators. With 192, two joined iterations
spill 150 bytes, and products of size 8192 take 2470 microseconds instead of 2264."""


def _choose(function: Function, loop: Op) -> None:
    """Chooses how many iterations of a loop are joined into one."""
    rule, name = loop.attrs["unroll"], loop.regions[0].args[0].name or "loop"
    why = "only what a line names is unrolled"
    iterations = known_iterations(loop) if "stages" in loop.attrs else None
    if loop.attrs.get("few"):
        why = "it has the last iterations of a tile alone"
    elif ("unroll", name) not in function.lines and iterations and iterations < loop.attrs["stages"]:
        rule, why = max(iterations, 2), "all its iterations are copied ahead: there is nothing left to copy in them"
    elif ("unroll", name) not in function.lines and loop.attrs.get("stepped"):
        rule, why = _stepped(function, loop), "its iterations are products alone, step by step"
    elif ("unroll", name) not in function.lines and "stages" in loop.attrs and adds_products(loop):
        rule, why = loop.attrs["stages"], "an iteration for each stage of the ring: their places are numbers"
        rule = min(rule, MOST_SLOTS)
    elif ("unroll", name) not in function.lines and (loaded := _loaded(loop)):
        rule, why = loaded, "threads load operands of wgmma, also while others multiply"
    step = constant_of(loop.operands[2])
    # Two kinds of loops allow only factor 1 and the default factor. These are loops over tiles whose results TMA
    # stores, and loops whose step is known only at run time.
    in_flight = "tiles" in loop.attrs and any(op.spec.leaves for op in walk(loop.regions[0]))
    free = step is not None and step >= 1 and not in_flight
    loop.attrs["unroll"] = function.choices.choose(
        "unroll",
        name,
        {str(each): each for each in (*(USUAL if free else (1,)), rule)},
        str(rule),
        loc=loop.loc,
        because=why if free else "its results leave by TMA" if in_flight else "its step is known at run time alone",
        pinned=function.lines.get(("unroll", name)),
        # no loop in the kernel's text has that name
        line=None if "tiles" in loop.attrs else f"unroll {name}: {{option}}",
    )


def _loaded(loop: Op) -> int:
    """Returns how many iterations are joined if threads load operands of wgmma to registers, otherwise 0. On an H200,
    four iterations take 0.94 of the time of one in a tf32 product of 4096, and two take 0.97 in an e4m3 product whose
    sums are added apart. Four of these spill up to 272 bytes, and other products of bytes take as long as with one."""
    products = [op for op in loop.regions[0].ops if is_wgmma(op)]
    lefts = [op.operands[0] for op in products if is_loaded_across(op.operands[0])]
    if not lefts or any(op.spec.in_flight for op in loop.regions[0].ops):
        return 0  # with copies of 4 bytes, f32 816 x 1367 x 41 takes 1.09 of the time if four are joined, and spills
    apart = any(constant_of(op.operands[2]) == 0 for op in products)
    return LOADED_WORDS if lefts[0].dtype.bits == 32 else LOADED_APART if apart else 1


def _stepped(function: Function, loop: Op) -> int:
    """Returns how many iterations of a stepped loop (a loop that `prefetch_fragments` has rewritten) are joined. The
    number is 1 if the accumulators and fragments of 32 bits do not leave enough registers."""
    carried = [v for v in loop.results if v.tile.shape and v.dtype.bits == 32]
    sums = {op.operands[2] for op in loop.regions[0].ops if op.spec.product}.intersection(loop.regions[0].args)
    most = MOST_SUMS * function.threads
    if sum(prod(v.tile.shape) for v in carried) <= most:
        return STEPPED
    return STEPPED_LATE if loop.attrs["stepped"] == "late" and sum(prod(v.tile.shape) for v in sums) <= most else 1


def constant_step(loop: Op) -> int:
    """Returns the step of a loop to unroll. Raises TileError `schedule` if the step is not constant and positive."""
    step = constant_of(loop.operands[2])
    if step is None or step < 1:
        raise TileError("schedule", loop.loc, "only a loop with a constant, positive step is unrolled")
    return int(step)


def check_room(function: Function, copies: Callable[[Op], int]) -> None:
    """Raises TileError `limit` if a rewrite of loops would exceed the number of operations that a kernel may have.
    `copies` returns how often the new code contains the regions of an operation. The check runs before any new code is
    built."""

    def size(op: Op) -> int:
        return 1 + copies(op) * sum(size(each) for region in op.regions for each in region.ops)

    budget = Budget()
    for op in function.body.ops:
        budget.spend_operations(size(op), op.loc)


def _copies(op: Op) -> int:
    """Returns how often the unrolled code of a loop contains its body. Returns 1 for other operations."""
    if not op.spec.control.counters or op.attrs["unroll"] <= 1:
        return 1
    factor, start, stop = op.attrs["unroll"], constant_of(op.operands[0]), constant_of(op.operands[1])
    if start is None or stop is None:
        return factor + 1
    iterations = iterations_of(int(start), int(stop), constant_step(op))
    return iterations if iterations < 2 * factor else factor + iterations % factor


class Splitter(Rewriter):
    """Splits a loop into a loop with joined iterations and a remainder."""

    def __init__(self, facts: Analysis):
        super().__init__()
        self.facts = facts

    def visit(self, op: Op) -> bool:
        raise NotImplementedError

    def covered(self, distance: Value, by: int, loop: Op) -> Value:
        """Emits the greatest multiple of `by` that does not exceed `distance`. The division is unsigned: the distance
        between two signed counters may exceed the signed range, but not the unsigned range."""
        type, unsigned = distance.tile, DTYPES[f"u{distance.dtype.bits}"]

        def made(name: str, operands: list[Value], of: DType, **attrs: Any) -> Value:
            return self.emit(Op(OPS[name], operands, [type.with_dtype(of)], attrs, (), loop.loc)).result

        def cast(value: Value, to: DType) -> Value:
            return made("cast", [value], to, to=to, saturate=False, rounding=None) if value.dtype is not to else value

        iteration = made("constant", [], unsigned, value=by, dtype=unsigned)
        iterations = cast(made("floordiv", [cast(distance, unsigned), iteration], unsigned), type.dtype)
        return made("mul", [iterations, made("constant", [], type.dtype, value=by, dtype=type.dtype)], type.dtype)

    def straight(self, loop: Op, body: Block, counters: Sequence[Value], values: list[Value]) -> list[Value]:
        """Emits the last iterations of a loop as straight-line code. Copies that a pipeline would issue for iterations
        past the end are left out."""
        ahead = 0 if loop.attrs.get("goes_on") else loop.attrs.get("stages", 1) - 1
        for left, counter in zip(reversed(range(len(counters))), counters, strict=True):
            ops: list[Op] = []
            values = clone(body, [counter, *values], ops)
            for each in ops:
                if left >= ahead or not each.attrs.get("ahead"):
                    self.emit(each)
        return values

    def split(self, op: Op, factor: int, step: int, whole: bool = False) -> None:
        """Splits a loop into two loops. The first loop joins `factor` iterations into one. If `whole` is true, the
        first loop contains only the whole iterations, and the second loop contains the partial iteration."""
        start, stop = self[op.operands[0]], self[op.operands[1]]
        carried = [self[v] for v in op.operands[3:]]
        body = self.block(op.regions[0], self.visit)
        type = start.tile
        assert isinstance(type, TileType)

        def number(value: int) -> Value:
            return self.emit(Op(OPS["constant"], [], [type], {"value": value, "dtype": type.dtype}, (), op.loc)).result

        def join(name: str, a: Value, b: Value) -> Value:
            return self.emit(Op(OPS[name], [a, b], [type], {}, (), op.loc)).result

        first_turn, end = constant_of(start), constant_of(stop)
        turns = range(int(first_turn), int(end), step) if first_turn is not None and end is not None else None

        count = 0 if turns is None else iterations_of(turns.start, turns.stop, step)
        if turns is not None and count < 2 * factor:
            self.map.update(zip(op.results, self.straight(op, body, [*map(number, turns)], carried), strict=True))
            return
        if step * factor > int_range(type.dtype)[1]:
            message = f"iterations of {factor} steps of {step} pass what {type.dtype} holds"
            raise TileError("schedule", op.loc, message, "unroll it less")
        iteration = number(step * factor)
        at_once = count // factor * factor
        if turns is not None and whole:
            at_once = (turns.stop - turns.start) // step
        if turns is not None:
            middle = number(turns.start + at_once * step)
        elif type.dtype.kind == "index":  # a difference of indices does not overflow
            iterations = join("floordiv", join("sub", stop, start), iteration)
            middle = join("add", start, join("mul", join("maximum", iterations, number(0)), iteration))
        else:
            covered = self.covered(join("sub", join("maximum", start, stop), start), step * factor, op)
            middle = join("add", start, covered)
        main = several_iterations(op, body, type, factor, step)
        if factor > 1:
            loads_first(main)
        attrs = op.attrs | {"unroll": 1}
        own = attrs | {"exact": True} | ({"unroll": op.attrs["unroll"]} if whole else {})
        types = [r.type for r in op.results]
        first = self.emit(Op(op.spec, [start, middle, iteration, *carried], types, own, [main], op.loc))
        if turns is not None:
            rest = self.straight(op, body, [*map(number, turns[at_once:])], first.results)
            self.map.update(zip(op.results, rest, strict=True))
            return
        if step == 1 and in_order(op.operands[0], op.operands[1], self.facts):
            attrs["exact"] = True
        if not whole and _copies_past_the_end(attrs, factor):
            body.ops = [each for each in body.ops if not each.attrs.get("ahead")]
        operands = [middle, stop, self[op.operands[2]], *first.results]
        behind = self.emit(Op(op.spec, operands, types, attrs, [body], op.loc))
        for old, new in zip(op.results, behind.results, strict=True):
            new.stands_for(old)
            self.map[old] = new


def _copies_past_the_end(attrs: dict[str, Any], factor: int) -> bool:
    """Whether the copies that the remainder issues ahead can be removed, because all of them are for iterations past
    the end of the loop.

    This is true under two conditions: the remainder has fewer iterations than there are stages, and no other loop
    continues the pipeline. A stepped loop also reads the first fragments of one more stage, but does not use them. That
    stage must have been written, so one more stage is required.
    """
    return not attrs.get("goes_on") and factor <= attrs.get("stages", 1) - bool(attrs.get("stepped"))


def loads_first(body: Block) -> None:
    """Moves loads of global memory to the start of a loop body that writes nothing. If a stride is known only at run
    time, ptxas would keep each load behind the uses of the previous load. Then only one load would be in flight."""
    effects = [effect for op in walk(body) for effect in op.spec.access.effects(op)]
    if any(effect.kind != "read" for effect in effects):
        return
    loads = [op for op in body.ops if op.spec.access.kind == "read" and space_of(op.operands[0]) == "global"]
    ahead = slice_of(body.ops, {result for op in loads for result in op.results})
    if all(op.spec.pure or op in loads for op in ahead):
        body.ops = [*ahead, *without(body.ops, set(ahead))]


class _Unroller(Splitter):
    def __init__(self, facts: Analysis, shared: Collection[str]):
        super().__init__(facts)
        self.shared = shared  # the counters of loops whose iterations blocks share

    def visit(self, op: Op) -> bool:
        if not op.spec.control.counters:
            return False
        if op.regions[0].args[0].name in self.shared and _has_one_iteration(op, self.facts):
            start, carried = self[op.operands[0]], [self[v] for v in op.operands[3:]]
            body = self.block(op.regions[0], self.visit)
            self.map.update(zip(op.results, self.straight(op, body, [start], carried), strict=True))
            return True
        if op.attrs["unroll"] <= 1:
            return False
        self.split(op, op.attrs["unroll"], constant_step(op))
        return True


def _has_one_iteration(loop: Op, facts: Analysis) -> bool:
    """Whether a loop certainly has one iteration. Around another loop, a loop of one iteration would keep LLVM from
    moving the code between both ahead of the two."""
    start, stop = loop.operands[:2]
    step = constant_of(loop.operands[2])
    if step is None or step < 1 or start.dtype is not INDEX or "stages" in loop.attrs:
        return False
    return facts.bounds.not_above(start, stop, 1) and facts.bounds.not_above(stop, start, -int(step))
