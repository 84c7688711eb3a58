"""`delay acc`: an iteration starts the product `acc` of the iteration before it, behind its own first products.

    for j:                              for the first j:
        consumer_wait j                     consumer_wait j
        x = dot(q, k[j])                    x = dot(q, k[j])
        p, shrink = softmax(x)              p, shrink = softmax(x)
        acc = dot(p, v[j],                  acc = acc * shrink
                  acc * shrink)             consumer_release j
        consumer_release j         →    for each other j:
                                            consumer_wait j
                                            x = dot(q, k[j])
                                            consumer_wait j - 1, of v
                                            acc = dot(p, v[j - 1], acc)
                                            p, shrink = softmax(x)
                                            acc = acc * shrink
                                            consumer_release j
                                            consumer_release j - 1, of v
                                        for the last j:
                                            acc = dot(p, v[j], acc)

Warpgroup MMAs run asynchronously. So the tensor cores compute `acc` while the same warps compute the next probabilities
(FlashAttention-3, Shah et al. 2024, "intra-warpgroup overlap"). The loop carries the left operand of the product, and
the accumulator as the product gets it. What the product alone reads gets stages of its own, which are free one
iteration later. The first and the last iteration stand in branches, because the loop may have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from dsl.lowering.building.builder import Builder
from dsl.lowering.building.iterations import carry, hand_on
from dsl.lowering.directives.pingpong import computed_operand, work_of_element
from dsl.lowering.directives.slices import impure, inside, leaves_of, located, reached, reads, slice_of, without
from dsl.lowering.directives.staged import retype
from dsl.lowering.hopper.boxes import CopiedBox
from dsl.lowering.ir.choices import ON_OFF
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, blocks_of, clone, replace_uses, uses, walk
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ops import OPS
from dsl.lowering.ops.memory import clears
from dsl.lowering.ops.pipelines import base_of, rings_of, roles_of
from dsl.lowering.plan.products import is_wgmma

LEAST_WORK = 256
"""The default delays products from this number of multiplications per computed element on. Attention with heads of 64
(128 multiplications) takes 1.05 to 1.10 times as long. The factor is 0.95 to 1.01 for heads of 128, with turns or
without, and 0.85 to 0.95 for heads of 256 (bf16, 1024 to 16384 tokens, H200; the other way has turns for heads of
128)."""

FED_BY_NONE = "its left operand is computed from no other product of the iteration"
HINT = "a wgmma in a loop with TMA copies, fed by another product, which alone reads its right operand"


def delay(function: Function) -> None:
    """Delays the products in `delay` lines, and by default those whose left operand is computed from another product of
    the iteration. Raises TileError `schedule` if a named product cannot be delayed."""
    said, (found, why) = function.by_subject("delay", bool), _found(function)
    has_turns = any(function.by_subject("pingpong", bool).values())
    for name, holds in said.items():
        if holds and name not in {each.name for each in found}:
            raise _refusal(function, name, function.lines.get(("delay", name)), found, why)
    taken = []
    for each in found:
        loc = function.lines.get(("delay", each.name)) if said.get(each.name) else None
        work = work_of_element(each.loop.regions[0], each.computed)
        because = f"{work} multiplications per element of its computed operand"
        rule = "on" if said.get(each.name, work >= LEAST_WORK and not has_turns) else "off"
        if function.choices.choose(
            "delay", each.name, ON_OFF, rule, loc=each.product.loc, pinned=loc, because=because,
            line=f"delay {each.name}",
        ):  # fmt: skip
            taken.append(each)
    for each in reversed(taken):  # inner loops first, because an outer one copies its body for the first iteration
        each.apply(function)


def _refusal(function: Function, name: str, loc: Loc | None, found: list[_Product], why: dict[str, str]) -> TileError:
    reason = why.get(name, "it is no wgmma in a loop with TMA copies")
    message = f"'{name}' cannot start in the next iteration: {reason}"
    others = " and ".join(f"'{each}'" for each in dict.fromkeys(each.name for each in found))
    return TileError("schedule", loc or function.loc, message, f"here {others} can" if others else HINT)


def _found(function: Function) -> tuple[list[_Product], dict[str, str]]:
    """Returns the products that can be delayed, and why others cannot, by their names."""
    roles, found, why = roles_of(function), list[_Product](), dict[str, str]()
    for block in [] if roles is None else list(blocks_of(roles.regions[1])):
        for loop in [op for op in block.ops if op.spec.control.counters]:
            assert roles is not None
            one = _Product.of(roles, block, loop)
            found += [] if isinstance(one, str) else [one]
            for product in filter(is_wgmma, loop.regions[0].ops):
                why.setdefault(product.result.name or "", one if isinstance(one, str) else FED_BY_NONE)
    return found, why


class _Product(Struct):
    """A product that the next iteration can start.

    `computed` computes its left operand. `column` is the number of its accumulator among the carried values. `part`
    contains the operations that load its right operand, from the shared tiles `tiles` that nothing else reads, or that
    set elements of these tiles to 0. `own` are those that nothing else needs. `place` is the product behind which the
    next iteration starts the delayed one."""

    roles: Op
    block: Block
    loop: Op
    wait: Op
    release: Op
    computed: Op
    product: Op
    column: int
    part: list[Op]
    own: set[Op]
    tiles: set[Value]
    place: Op

    @property
    def number(self) -> Value:
        """The number of the pipeline's iteration."""
        return self.wait.operands[1]

    @property
    def name(self) -> str:
        return self.product.result.name or "product"

    @classmethod
    def of(cls, roles: Op, block: Block, loop: Op) -> _Product | str:
        """Returns the loop's product that can be delayed, or why there is none."""
        body = loop.regions[0]
        steps = [op for op in body.ops if op.spec.access.at_pipeline]
        found = computed_operand(body)
        if found is None:
            return FED_BY_NONE
        if [op.spec.access.at_pipeline for op in steps] != ["wait", "free"]:
            return "its loop has no pipeline of TMA copies of its own"
        wait, release = steps
        waits = [op for op in walk(roles.regions[1]) if op.spec.access.at_pipeline == "wait"]
        if any(base_of(op) == base_of(wait) for op in waits if op is not wait):
            return "another loop reads the same stages"  # `pipeline` makes several of a loop in another one
        (_, _, computed, product), end = found, body.ops[-1]
        column = end.operands.index(product.result) if product.result in end.operands else -1
        if column < 0 or uses(body).get(product.result) != [end] or wait.operands != release.operands:
            return "not only the next iteration takes its result"
        total, number = body.args[1 + column], wait.operands[1]
        part = slice_of(body.ops, [product.operands[1]])
        loads = [op for op in part if op.spec.access.kind == "read"]
        others = [op for op in part if op not in loads]
        made_here = {result for op in body.ops for result in op.results} | {*body.args}
        if wait.attrs["stages"] == 1 and any(op.spec.access.at_pipeline for op in inside(loop) if op not in steps):
            # The producer would wait for the only stage, ahead of copies for this iteration's inner loops.
            return "a loop inside has copies, too, and the pipeline has one stage"
        if number not in body.args or impure(others) or leaves_of(part, []) & made_here - {number}:
            return "the iteration computes its right operand"
        tiles, made = {op.operands[0] for op in loads}, {result for op in part for result in op.results}
        clearing, remaining = _clearing(body, tiles)
        own = {product, *part, *clearing} - remaining
        rest = without(body.ops, own)
        if any(tiles.intersection(op.operands) or made.intersection(op.operands) for op in rest):
            return "something else reads its right operand"
        later = {op for op in rest if _depends(op, total)}
        # Behind products of the operand itself, tensor cores would have nothing to do while warps compute it.
        ahead = [op for op in rest[: rest.index(computed)] if is_wgmma(op) and op not in later]
        if not ahead or any(rest.index(op) < rest.index(ahead[-1]) for op in later if op is not end):
            return "the iteration uses its sums ahead of another product"
        filled = {op.operands[0] for op in _copies(walk(roles.regions[0]), base_of(wait))}
        part += slice_of(body.ops, [value for op in clearing for value in op.operands])
        if impure([op for op in part if op not in loads]) or leaves_of(part, []) & made_here - {number, body.args[0]}:
            return "masks of its right operand change in the iteration"
        if not tiles or not tiles < filled or any(op.attrs.get("resident") for op in walk(roles.regions[0])):
            return "its right operand and another one are not both copied in each iteration"
        part = [op for op in body.ops if op in {*part, *clearing}]
        return cls(roles, block, loop, wait, release, computed, product, column, part, own, tiles, ahead[-1])

    def apply(self, function: Function) -> None:
        b, around = Builder(located(function, self.product)), Block()
        base, body, operand = self._own_stages(), self.loop.regions[0], self.product.operands[0]
        start, stop, step, *_ = self.loop.operands
        with b.region(around):
            self._carry_operands(b.constant(0, operand.dtype, operand.shape))
            before = "gt" if (constant_of(step) or 1) < 0 else "lt"  # a loop may count down
            carried, is_any = self.loop.operands[3:], b.value(before, start, stop)
            first = _only_if(b, is_any, lambda into: clone(body, [start, *carried], into.ops), carried)
            self.loop.operands = [b.value("add", start, step), stop, step, *first]
            self._start_one_before(b, base, step)
            b.block.ops.append(self.loop)
            *_, left = self.loop.results
            total, number = self.loop.results[self.column], self.loop.results[body.args.index(self.number) - 1]
            steps = b.value("floordiv", b.value("sub", b.value("sub", stop, start), b.constant(1, step.dtype)), step)
            of_last = number, b.value("add", start, b.value("mul", steps, step))  # for masks: their loops count up
            (last,) = _only_if(b, is_any, lambda _: [self._of_before(b, *of_last, left, total, base)], [total])
        replace_uses(function.body, {total: last})  # before the operations around the loop are in the function
        at = self.block.ops.index(self.loop)
        self.block.ops[at : at + 1] = around.ops

    def _own_stages(self) -> int:
        """Gives the tiles stages of their own, and returns the index of the first mbarrier of these stages."""
        base, stages = 2 * sum(rings_of(self.roles)), self.wait.attrs["stages"]
        retype(self.wait.operands[0], shape=(base + 2 * stages,))
        self.roles.attrs["outer"] = (*self.roles.attrs.get("outer", ()), stages)
        for block in blocks_of(self.roles.regions[0]):
            waits = [op for op in block.ops if op.spec.access.waits and op.operands[0] is self.wait.operands[0]]
            for op in [op for op in waits if base_of(op) == base_of(self.wait)]:
                copies = [copy for copy in _copies(block.ops, base_of(op)) if copy.operands[0] in self.tiles]
                own, kept = Op(op.spec, op.operands, [], op.attrs | {"base": base}, (), op.loc), block.ops
                if copies:
                    own.attrs["bytes"] = sum(CopiedBox.of(copy).size * copy.operands[0].dtype.bytes for copy in copies)
                    op.attrs["bytes"] -= own.attrs["bytes"]
                    kept = without(kept, set(copies))
                at = kept.index([op, *_copies(kept, base_of(op))][-1]) + 1
                block.ops = [*kept[:at], own, *copies, *kept[at:]]
                for copy in copies:
                    copy.attrs["base"] = base
        return base

    def _carry_operands(self, left: Value) -> None:
        """Takes the product out of the loop. The loop carries its left operand, and the accumulator before it."""
        body, operand, total = self.loop.regions[0], self.product.operands[0], self.product.operands[2]
        body.ops = without(body.ops, self.own)
        body.ops[-1].operands[self.column] = total
        carry([self.loop], [left], [operand.name])
        hand_on([self.loop], [operand])

    def _start_one_before(self, b: Builder, base: int, step: Value) -> None:
        """Each iteration starts the product of the one before, behind the product at `place`."""
        body, made, rest = self.loop.regions[0], Block(), Block()
        total = body.args[1 + self.column]
        with b.region(made):
            before = b.value("sub", body.args[0], step)
            result = self._of_before(b, self.number, before, body.args[-1], total, base)
        at, release = body.ops.index(self.place) + 1, made.ops.pop()
        rest.ops = body.ops[at:]
        replace_uses(rest, {total: result})
        body.ops[at:] = [*made.ops, *rest.ops[:-1], release, rest.ops[-1]]

    def _of_before(self, b: Builder, number: Value, counter: Value, left: Value, total: Value, base: int) -> Value:
        """Builds the product of the iteration before `number`, between its wait and its release. `counter` is the
        loop's counter there."""
        old, before = self.product, b.value("sub", number, b.index(1))
        _step(b, self.wait, before, base)
        part = Block([self.number, self.loop.regions[0].args[0]])
        part.ops = [*self.part, Op(OPS["yield"], [old.operands[1]], [], {}, (), old.loc)]
        (right,) = clone(part, [before, counter], b.block.ops)
        made = Op(old.spec, [left, right, total], [old.result.type], dict(old.attrs), (), old.loc)
        b.block.ops.append(made)
        _step(b, self.release, before, base)
        return made.result.stands_for(old.result, in_turn=True)


def _step(b: Builder, like: Op, number: Value, base: int) -> None:
    """Builds the step of a pipeline with the first mbarrier `base`."""
    b.op(like.name, [like.operands[0], number], **like.attrs | {"base": base})


def _copies(ops: Iterable[Op], base: int) -> list[Op]:
    """Returns the TMA copies of a pipeline."""
    return [op for op in ops if op.spec.access.at_pipeline == "fill" and "box" in op.attrs and base_of(op) == base]


def _clearing(body: Block, tiles: set[Value]) -> tuple[list[Op], set[Op]]:
    """Returns the operations that set elements of `tiles` to 0, with the barrier behind them. Also returns those of
    them that must remain: the barrier, if threads set elements of other tiles to 0 ahead of it."""
    stores = [op for op in body.ops if clears(op)]
    barriers = [op for op in body.ops if op.attrs.get("clears") and op not in stores]
    own = [op for op in stores if op.operands[0] in tiles]
    return [*own, *barriers] if own else [], set() if own == stores else {*barriers}


def _only_if(b: Builder, is_any: Value, build: Callable[[Block], list[Value]], otherwise: list[Value]) -> list[Value]:
    """Builds an `if` around what `build` appends, and returns its values, or else those of `otherwise`."""
    then, other = Block(), Block()
    with b.region(then):
        b.op("yield", build(then))
    with b.region(other):
        b.op("yield", otherwise)
    made = b.op("if", [is_any], [then, other], types=[value.type for value in otherwise])
    for old, new in zip(otherwise, made.results, strict=True):
        new.name = old.name
    return made.results


def _depends(op: Op, on: Value) -> bool:
    return on in reached(reads(op), lambda value: reads(value.op) if value.op is not None else ())
