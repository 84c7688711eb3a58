"""Waits for a wgmma where its accumulator is first used, while later products run.

    acc = wgmma acc, p, v               acc = wgmma acc, p, v
    acc = wgmma_wait acc                store sw, w
    store sw, w                   →     barrier
    barrier                             x = wgmma sw, k
    x = wgmma sw, k                     x = wgmma_wait x
    x = wgmma_wait x                    …
    …                                   acc = wgmma_wait acc
    release                             release

Products complete in order. A wait that lets later products run says how many of them are `pending`. It stays ahead of
what writes or frees the shared memory that its products read. If threads write such a tile anywhere in the kernel, it
stays ahead of barriers, too: behind a barrier, other warps may write the tile, or other tiles in the same bytes.
"""

from __future__ import annotations

from collections.abc import Collection

from dsl.lowering.directives.slices import reached
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, blocks_of, walk
from dsl.lowering.ir.types import ViewType
from dsl.lowering.ops.elementwise.declare import FUNCTIONS
from dsl.lowering.ops.pipelines import base_of
from dsl.lowering.passes.place_waits import registers_of

MOST_BESIDE_LATE = 208
"""Above this number of registers, late waits make ptxas 13.0 spill: the gradients of keys with heads of 64, which have
224, take 2387 us in place of 1637 (H200, f16, 4096 keys). With 208, those with heads of 128 spill nothing."""


def late_waits(function: Function) -> None:
    """Moves each wait behind the operations that need neither its accumulators nor the memory of its products."""
    accesses = [op for op in walk(function.body) if op.spec.access.touches]
    for block in blocks_of(function.body):
        for wait in [op for op in reversed(block.ops) if _awaits_sums(op)]:
            _move(function, block, wait, accesses)


def _move(function: Function, block: Block, wait: Op, accesses: Collection[Op]) -> None:
    """Moves one wait. `accesses` are the operations of the kernel that read or write memory."""
    products = _products(wait)
    if not products or not products <= {*block.ops}:
        return  # another block has started them
    read = {effect.memory for op in products for effect in op.spec.access.effects(op)}
    by_threads = any(_writes(op, read) for op in accesses)
    stages = {base_of(op) for op in accesses if op.spec.access.at_pipeline == "fill" and op.operands[0] in read}
    # ptxas 13.0 serialises products (C7514) if one that reads registers is waited for behind the start of another.
    alone = any(not isinstance(op.operands[0].type, ViewType) for op in products)
    at = end = block.ops.index(wait)
    while end + 1 < len(block.ops) and _may_pass(block.ops[end + 1], wait, read, by_threads, stages):
        if alone and block.ops[end + 1].spec.wgmma:
            break
        end += 1
    passed = block.ops[at + 1 : end + 1]
    if not any(map(_takes_long, passed)) or not _is_late(function, wait, _held(function, block)):
        return
    block.ops[at : end + 1] = [*passed, *_second_wait(block.ops[: end + 1], passed), wait]
    last = max(map(block.ops.index, products))
    wait.attrs["pending"] = sum(op.spec.wgmma for op in block.ops[last + 1 : block.ops.index(wait)])


def _products(wait: Op) -> set[Op]:
    """Returns the products for which a wait waits: those that make its accumulators, and those that they add to."""

    def before(value: Value) -> list[Value]:
        op = value.op
        return list(op.operands[1 + len(op.results) :]) if op is not None and op.spec.wgmma else []

    return {value.op for value in reached(wait.operands, before) if value.op is not None and value.op.spec.wgmma}


def _awaits_sums(op: Op) -> bool:
    """Whether an operation waits for products, and gives their accumulators."""
    return op.spec.acts == "awaits" and bool(op.results)


def _writes(op: Op, memories: Collection[Value]) -> bool:
    """Whether an operation writes one of these shared tiles, and no mbarrier tells when."""
    effects = op.spec.access.effects(op) if op.spec.access.touches else []
    return any(e.kind == "write" and e.memory in memories and e.by.completion != "mbarrier" for e in effects)


def _is_approximation(op: Op) -> bool:
    """Whether a unit of its own computes the operation, for 16 lanes in a cycle, such as `ex2.approx`."""
    function = FUNCTIONS.get(op.name)
    return function is not None and function.bound is not None


def _second_wait(ahead: list[Op], passed: list[Op]) -> list[Op]:
    """Returns a second wait for a stage that is full, to stand ahead of a wait for products. ptxas 13.0 moves waits for
    products to the start of their basic block, past the exponentials that are to be computed meanwhile, but not past
    the loop of a `mbarrier.try_wait`: attention with heads of 128 takes 0.94 to 0.98 of the time (H200)."""
    freed = [base_of(op) for op in ahead if op.spec.access.at_pipeline == "free"]
    full = [op for op in ahead if op.spec.access.at_pipeline == "wait" and base_of(op) not in freed]
    if not full or not any(map(_is_approximation, passed)):
        return []
    return [Op(full[-1].spec, full[-1].operands, [], dict(full[-1].attrs), (), full[-1].loc)]


def _takes_long(op: Op) -> bool:
    """Whether it pays that products run during an operation, such as the exponentials of a tile."""
    return op.spec.wgmma or op.spec.orders == "threads" or _awaits_sums(op) or _is_approximation(op)


def _may_pass(op: Op, wait: Op, read: Collection[Value], by_threads: bool, stages: Collection[int]) -> bool:
    """Whether a wait may come behind an operation. Its products read the tiles `read`, in `stages` of pipelines."""
    if op.spec.control.flows or op.spec.control.ends or not {*op.operands}.isdisjoint(wait.results):
        return False
    if op.spec.access.at_pipeline:
        return op.spec.access.at_pipeline != "free" or base_of(op) not in stages
    if op.spec.orders == "threads" or op.regions:  # a reduction may have barriers
        return not by_threads
    if op.spec.pure or op.spec.wgmma or _awaits_sums(op) or op.spec.orders == "group":
        return True
    if not op.spec.access.touches:
        return op.spec.acts == "synchronizes"
    return not _writes(op, read)


def _held(function: Function, block: Block) -> int:
    """Returns the number of registers of a thread that products of the block hold at a time: those of carried values,
    of accumulators from the start of a product at 0 to their last use, and of a left operand."""
    products, held = [op for op in block.ops if op.spec.wgmma], [0] * len(block.ops)
    for op in products:
        for sums in op.results if constant_of(op.operands[-1]) == 0 else []:
            awaited = [result for each in block.ops if _awaits_sums(each) and sums in each.operands
                       for result in each.results]  # fmt: skip
            first, *_, last = (
                i for i, each in enumerate(block.ops) if each is op or {sums, *awaited} & {*each.operands}
            )
            for i in range(first, last):
                held[i] += registers_of(function, sums)
    left = [op.operands[0] for op in products if not isinstance(op.operands[0].type, ViewType)]
    return max(held) + sum(registers_of(function, each) for each in (*block.args, *left[:1]))


def _is_late(function: Function, wait: Op, held: int) -> bool:
    name, why = wait.results[-1].name or "product", f"{held} registers of a thread hold operands and accumulators"
    ways, rule = {"late": True, "own": False}, "late" if held <= MOST_BESIDE_LATE else "own"
    late: bool = function.choices.choose("late_wait", name, ways, rule, loc=wait.loc, because=why)
    return late
