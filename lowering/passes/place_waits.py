"""Products of warp groups begin as soon as their operands are there, and are waited for where their sums are needed.

A round of a pipelined loop waits for its operands, starts the copies of a later round, and multiplies. Behind the
barrier the products go first: copies are started while they run. That these go elsewhere is known then: they stood
between the barrier and the loads, and `insert_barriers` has found nothing to order.
"""

from __future__ import annotations

from lowering.ir import Block, Function, Op, replace_uses
from lowering.ops import OPS
from lowering.warpgroup import chosen


def place_waits(function: Function) -> None:
    """Begins products of warp groups early, and puts a wait where each stood."""
    _in_block(function, function.body)


def _in_block(function: Function, block: Block) -> None:
    for op in list(block.ops):
        for region in op.regions:
            _in_block(function, region)
        if chosen(op) is not None:
            wait = Op(OPS["product_wait"], [op.result], [op.result.type], {}, (), op.loc)
            wait.result.stands_for(op.result)
            replace_uses(function.body, {op.result: wait.result})
            wait.operands = [op.result]
            block.ops.insert(block.ops.index(op) + 1, wait)
            _begin_early(block, op)


def _begin_early(block: Block, product: Op) -> None:
    """Moves a product, and what it is made of, ahead of what it may pass."""
    end = block.ops.index(product)
    start = end
    while start and _may_pass(block.ops[start - 1]):
        start -= 1
    needed, made = {product}, set(product.operands)
    for op in reversed(block.ops[start:end]):
        if made.intersection(op.results):
            needed.add(op)
            made.update(op.operands)
    between = block.ops[start : end + 1]
    block.ops[start : end + 1] = [op for op in between if op in needed] + [op for op in between if op not in needed]


def _may_pass(op: Op) -> bool:
    """Copies that are started, the end of their group, the product's own loads, and what has no effects."""
    starts_copies = op.spec.in_flight or op.spec.orders == "group"
    is_pure = op.spec.effects is None and not op.spec.keep and not op.regions
    return starts_copies or is_pure or bool(op.attrs.get("in_place"))
