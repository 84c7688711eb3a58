"""Defers the wait for the wgmma products of an iteration to the next iteration of a pipelined loop:

    for p:                            for p:
        consumer_wait e                   consumer_wait e
        acc = wgmma acc, a[e], b[e]       acc = wgmma acc, a[e], b[e]
        acc = wgmma_wait acc        →     wgmma_wait_group 1
        consumer_release e                consumer_release e - 1
                                      acc = wgmma_wait acc
                                      consumer_release e - 1

The tensor cores then get the products of an iteration before they have finished those of the previous one. With one
warp group a block, they would idle for about 190 cycles an iteration (H200): 512 x 512 x 512 takes 0.95 of the time,
and 16 products of one wave, with tiles from 64 x 64 to 128 x 192, take 0.94 to 1.01. But a stage is free one iteration
later. With 4 stages of 128 x 256, products of 2048 to 8192 take 1.02 to 1.04 of the time.
"""

from __future__ import annotations

from itertools import groupby

from msgspec import Struct

from dsl.lowering.ir.function import Block, Function, Op, Value, blocks_of, replace_uses, uses
from dsl.lowering.ir.types import ViewType
from dsl.lowering.ops import OPS
from dsl.lowering.ops.matrix import views_of
from dsl.lowering.ops.memory import clears

FEW_STAGES = 4
"""With so few stages, an iteration waits for its own products: the producer needs a free stage more."""


def defer_waits(function: Function) -> None:
    for block in list(blocks_of(function.body)):
        for loop in [op for op in block.ops if op.spec.control.counters]:
            found = Deferred.of(function, loop)
            if found is not None and found.wanted(function):
                found.apply(function, block)


class Deferred(Struct):
    """A loop whose waits can be deferred: its products, their waits, and the release of the stage that they read."""

    loop: Op
    products: list[Op]
    waits: list[Op]
    release: Op

    @classmethod
    def of(cls, function: Function, loop: Op) -> Deferred | None:
        """Finds them, or returns None if the loop does anything else with its accumulators, or has no pipeline of its
        own."""
        body = loop.regions[0]
        products = [op for op in body.ops if op.spec.wgmma]
        waits = [op for op in body.ops if op.spec.acts == "awaits"]
        steps = [op for op in body.ops if op.spec.access.at_pipeline]
        if not products or not waits or any(op.regions for op in body.ops):
            return None
        tiles = [view.operands[0].op for op in products for view in views_of(op)]
        stored = [tile for tile in tiles if tile is not None and tile.attrs.get("computed")]
        cleared = {op.operands[0].op for op in body.ops if clears(op)}
        if any(tile in cleared or not tile.attrs.get("staged") for tile in stored):
            return None  # threads store its operand: in the next iteration, or in the same bytes later
        if [op.spec.access.at_pipeline for op in steps] != ["wait", "free"]:  # else warp groups take turns, say
            return None
        start, release = steps
        own = start.operands == release.operands and start.operands[1] in body.args[loop.spec.control.counters :]
        if not own or release.attrs["stages"] < 2 or body.ops.index(release) < body.ops.index(waits[-1]):
            return None
        if not all(isinstance(op.operands[0].type, ViewType) and not op.attrs.get("from_zero") for op in products):
            return None
        return cls(loop, products, waits, release) if _only_added(function, loop, products, waits) else None

    def wanted(self, function: Function) -> bool:
        name, stages = self.waits[-1].results[-1].name or "product", self.release.attrs["stages"]
        rule = "next" if stages > FEW_STAGES else "own"
        because = f"a stage of {stages} is then free an iteration later"
        ways = {"next": True, "own": False}
        return function.choices.choose("wgmma_wait", name, ways, rule, loc=self.waits[-1].loc, because=because)

    def apply(self, function: Function, block: Block) -> None:
        body, control, loc = self.loop.regions[0], self.loop.spec.control, self.waits[-1].loc
        replace_uses(
            body, {new: old for wait in self.waits for new, old in zip(wait.results, wait.operands, strict=True)}
        )
        pending = Op(OPS["wgmma_wait_group"], [], [], {"pending": len(self.products)}, (), loc)
        body.ops[body.ops.index(self.waits[-1])] = pending
        body.ops = [op for op in body.ops if op not in self.waits]
        pipeline, number = self.release.operands
        carried = body.args.index(number) - control.counters
        first = self.loop.operands[control.leading + carried]
        at = body.ops.index(self.release)
        body.ops[at : at + 1] = self.release_before(pipeline, number, first)
        yielded = body.ops[-1].operands
        sums = [result for result, value in zip(self.loop.results, yielded, strict=True) if value.op in self.products]
        behind = [_wait_of(function, list(group)) for _, group in groupby(sums, lambda each: each.dtype)]
        behind += self.release_before(pipeline, self.loop.results[carried], first)
        at = block.ops.index(self.loop) + 1
        block.ops[at:at] = behind

    def release_before(self, pipeline: Value, number: Value, first: Value) -> list[Op]:
        """The release of the iteration before `number`, if this is not before the loop's `first` iteration."""
        type, loc = number.type, self.release.loc
        one = Op(OPS["constant"], [], [type], {"value": 1, "dtype": type.dtype}, (), loc)
        before = Op(OPS["sub"], [number, one.result], [type], {}, (), loc)
        return [one, before, Op(self.release.spec, [pipeline, before.result, first], [], self.release.attrs, (), loc)]


def _wait_of(function: Function, sums: list[Value]) -> Op:
    """A wait for all products, with which accumulators that a loop returns are complete."""
    wait = Op(OPS["wgmma_wait"], sums, [each.type for each in sums], {}, (), function.loc)
    for made, old in zip(wait.results, sums, strict=True):
        made.stands_for(old)
    replace_uses(function.body, dict(zip(sums, wait.results, strict=True)))
    return wait


def _only_added(function: Function, loop: Op, products: list[Op], waits: list[Op]) -> bool:
    """Whether each accumulator of the loop goes from the body's argument through products and a wait to the same
    argument of the next iteration, and nowhere else. All results of products must be such accumulators."""
    users, seen = uses(function.body), set[Value]()
    yielded = loop.regions[0].ops[-1]
    for total, end in zip(loop.regions[0].args[loop.spec.control.counters :], yielded.operands, strict=True):
        while total is not end:
            taking = users.get(total, [])
            if len(taking) != 1 or taking[0] not in (*products, *waits):
                break  # it is no accumulator, or is used otherwise
            (op,) = taking
            total = op.results[op.operands.index(total) - (len(op.operands) - len(op.results))]
            seen.add(total)
        if total in seen and (total is not end or total.op not in waits or users[total] != [yielded]):
            return False
    return seen.issuperset(result for op in (*products, *waits) for result in op.results)
