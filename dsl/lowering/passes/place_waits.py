"""Starts wgmma products as soon as their operands are ready, and waits for them where their accumulators are needed.

An iteration of a pipelined loop waits for its operands, starts the copies of a later iteration, and multiplies. This
pass starts the products directly after the barrier, so that the copies are issued while the products run. The copies
write memory that the products do not read: they were already in flight during the products before this pass, and
`insert_barriers` found no conflict.

A product may add to the accumulator of the previous product, for example in a convolution over the taps of a filter.
Such a product starts directly after the previous product, and one wait serves both products.

Products of adjacent subtiles are joined into one product, which reads the left operand once. For example, a result of
128 x 192 consists of three products of 64 columns before they are joined.

If loads after a product do not depend on its accumulator, they run while the product runs. With blockwise scales, a
product of 8192 x 8192 x 8192 in e4m3 then takes 911 us instead of 985.

A product whose accumulator starts at 0 may reuse the registers of an earlier accumulator. Such a product starts after
the last use of the earlier accumulator, so one set of registers is enough (choice `chained_mma`).
"""

from __future__ import annotations

from itertools import takewhile
from math import prod
from typing import Any

from msgspec.structs import replace

from dsl.lowering.directives.slices import reached
from dsl.lowering.hopper.warpgroup import atoms_of, has_columns, most_columns, registers_at_start
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, replace_uses, uses
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import TileType
from dsl.lowering.ops import OPS, operand

MOST_FROM_ZERO = 128
"""The maximum number of columns of a joined product that starts at 0. Its accumulators are added to other accumulators
in registers, so there is no room for more columns."""
MOST_HELD = 224
"""The maximum number of registers of a thread for accumulators. A thread of a consumer warp has 240 registers."""


def place_waits(function: Function, target: Target) -> None:
    """Starts wgmma products early, and inserts a wait at the original place of each product."""
    _in_block(function, function.body, most_columns(registers_at_start(function, target)))


def _in_block(function: Function, block: Block, most: int) -> None:
    """Handles one block and its regions. `most` is the maximum number of columns of one product."""
    _join(function, block, most)
    for op in list(block.ops):
        for region in op.regions:
            _in_block(function, region, most)
        if op.spec.wgmma and not _is_gone_on_with(function, block, op):
            wait = Op(OPS["wgmma_wait"], op.results, [each.type for each in op.results], {}, (), op.loc)
            for made, result in zip(wait.results, op.results, strict=True):
                made.stands_for(result)
            replace_uses(function.body, dict(zip(op.results, wait.results, strict=True)))
            wait.operands = op.results
            block.ops.insert(block.ops.index(op) + 1, wait)
            _end_turn_first(block, wait)
            spent = _taken_over(function, block, op)
            if spent is not None:
                _go_behind(block, [op, wait], spent)
            _begin_early(block, op, set() if spent is None else _made_of(block.ops, {spent}))
    # This runs only when all products have their waits: a load moves ahead of one wait, but not across the next.
    for op in [op for op in block.ops if op.spec.acts == "awaits"]:
        _read_meanwhile(block, op)


def _is_gone_on_with(function: Function, block: Block, product: Op) -> bool:
    """Whether the accumulator of `product` is used only by one later product of the block, which adds to it. One wait
    then serves both products."""
    behind = block.ops[block.ops.index(product) + 1 :]
    taking = [op for op in behind if product.results[0] in op.operands]
    if len(product.results) > 1 or len(taking) != 1:
        return False
    (other,) = taking
    if not other.spec.wgmma or other.operands[2] is not product.result:
        return False
    return all(map(_may_pass, behind[: behind.index(other)])) and uses(function.body)[product.result] == taking


def _end_turn_first(block: Block, wait: Op) -> None:
    """Moves a wait after `pingpong_end`, because the next warp group may start as soon as this group has started its
    products."""
    at = block.ops.index(wait)
    behind = list(takewhile(lambda op: op.spec.pure and not _takes(op, [wait]), block.ops[at + 1 :]))
    end = at + 1 + len(behind)
    if block.ops[end].spec.access.at_pipeline == "end":
        block.ops[at : end + 1] = [*behind, block.ops[end], wait]


def _join(function: Function, block: Block, most: int) -> None:
    """Joins products with the same left operand, if their right operands are adjacent in memory like the subtiles of a
    tile."""
    runs: list[list[Op]] = [[]]
    for op in block.ops:
        if op.spec.wgmma:
            runs += [[op]] if not _follows(runs[-1], op, most) else [[*runs.pop(), op]]
        elif not _may_pass(op) or _takes(op, runs[-1]):
            runs.append([])
    for run in runs:
        if len(run) > 1:
            _make_one(function, block, run)


def _takes(op: Op, run: list[Op]) -> bool:
    return any(result in op.operands for each in run for result in each.results)


def _follows(run: list[Op], op: Op, most: int) -> bool:
    """Whether the columns of the product `op` follow those of `run`, and one instruction with at most `most` columns
    can compute all of them."""
    left = op.operands[0]
    if not run or left is not run[-1].operands[0]:
        return False
    first, view = run[0].operands[1].op, op.operands[1].op
    assert first is not None and view is not None
    columns, anew = op.result.tile.shape[1], constant_of(op.operands[2]) == 0
    atoms = atoms_of(first)
    ahead = atoms.columns(columns * len(run), op.operands[1].dtype.bytes)
    return (
        (view.operands[0], operand(view, "stage")) == (first.operands[0], operand(first, "stage"))
        and (op.attrs["form"], op.attrs["steps"]) == (run[-1].attrs["form"], run[-1].attrs["steps"])
        and atoms_of(view) == replace(atoms, base=atoms.base + ahead)
        and anew == (constant_of(run[-1].operands[2]) == 0)
        and has_columns(columns * (len(run) + 1), op.result.dtype.name)
        and columns * (len(run) + 1) <= min(most, MOST_FROM_ZERO if anew else most)
        and not _takes(op, run)
    )


def _make_one(function: Function, block: Block, run: list[Op]) -> None:
    """Replaces the last product of `run` with one product that computes all results, and removes the other products."""
    first, columns = run[0], run[0].result.tile.shape[1]
    form = first.attrs["form"].replace(f"n{columns}k", f"n{columns * len(run)}k")
    operands = [first.operands[0], *(op.operands[1] for op in run), *(op.operands[2] for op in run)]
    made = Op(first.spec, operands, [op.result.type for op in run], first.attrs | {"form": form}, (), first.loc)
    for result, op in zip(made.results, run, strict=True):
        result.stands_for(op.result)
    block.ops[block.ops.index(run[-1])] = made
    block.ops = [op for op in block.ops if op not in run]
    replace_uses(function.body, {op.result: result for op, result in zip(run, made.results, strict=True)})


def _taken_over(function: Function, block: Block, product: Op) -> Value | None:
    """Returns the earlier accumulator whose registers this product takes over, or None. All uses of that accumulator
    must be able to move before the product. The product must start at 0, and gets the attribute `from_zero`."""
    if len(product.results) > 1 or constant_of(product.operands[-1]) != 0:
        return None
    at = block.ops.index(product)
    waits = [op for op in block.ops[:at] if op.spec.acts == "awaits"]
    sums = [wait.results[0] for wait in waits if wait.results[0].type == product.result.type]
    if not sums:
        return None
    spent = sums[-1]
    if not all(user in block.ops for user in uses(function.body).get(spent, ())):
        return None
    _, *later = _until_last(block.ops[at:], spent) or [product]
    own = _made_of(later, {product.result})  # the wait for this product, and the operations that use its accumulator
    if len(own & {*later}) > 1 or not all(_may_go_before(op) or op in own for op in later):
        return None
    if not _uses_of(function, spent).isdisjoint(_uses_of(function, product.result)):
        return None
    held = sum(registers_of(function, each) for each in (*block.args, spent, product.result))
    why = f"{held} registers of a thread hold sums if it begins ahead of what is made of the ones before"
    name, rule = product.result.name or "product", "behind" if held > MOST_HELD else "ahead"
    ways = {"ahead": False, "behind": True}
    if not function.choices.choose("chained_mma", name, ways, rule, loc=product.loc, because=why):
        return None
    # The old accumulator becomes an operand. Without this dependency, ptxas would start the product before the uses of
    # the old accumulator, regardless of the order of instructions, and would spill.
    product.operands = [*product.operands[:-1], spent]
    product.attrs["from_zero"] = True
    return spent


def _uses_of(function: Function, sums: Value) -> set[tuple[Any, ...]]:
    """Describes the operations that use an accumulator: what they compute with it, and of which other values.

    ptxas 13.0 and 13.5 do not see that a product changes registers which an earlier product has written. If both
    results are multiplied by the same number, they merge the multiplications, and drop one of the products.
    """
    users, found = uses(function.body), set[tuple[Any, ...]]()

    def waited_for(value: Value) -> list[Value]:
        return [result for op in users.get(value, ()) if op.spec.acts == "awaits" for result in op.results]

    for value in reached([sums], waited_for):
        found |= {_described(op, value) for op in users.get(value, ()) if op.spec.acts != "awaits"}
    return found


def _described(op: Op, sums: Value) -> tuple[Any, ...]:
    others = [None if each is sums else _source(each) for each in op.operands]
    return (op.spec.name, repr(sorted(op.attrs.items())), *others)


def _source(value: Value) -> Any:
    """What a tile repeats: a number, a scalar or a row; or the value itself."""
    while value.op is not None and value.op.spec.elements.splat and value.op.operands:
        value = value.op.operands[0]
    number = constant_of(value)
    return value if number is None else number


def registers_of(function: Function, value: Value) -> int:
    """Returns the number of 32-bit registers that each thread needs for a loop-carried value or an accumulator."""
    tile = value.type if isinstance(value.type, TileType) else None
    return 0 if tile is None else prod(tile.shape) * tile.dtype.bytes // (4 * function.threads)


def _until_last(ops: list[Op], value: Value) -> list[Op]:
    """Returns the operations up to and including the last one that uses `value`."""
    takes = [value in op.operands for op in ops]
    return ops[: len(ops) - takes[::-1].index(True)] if any(takes) else []


def _go_behind(block: Block, ops: list[Op], spent: Value) -> None:
    """Moves `ops`, a product and its wait, after the last use of the accumulator `spent`."""
    at = block.ops.index(ops[0])
    part = _until_last(block.ops[at:], spent)
    block.ops[at : at + len(part)] = sorted(part, key=lambda op: op in ops)


def _begin_early(block: Block, product: Op, taking: set[Op]) -> None:
    """Moves a product, and the operations that compute its operands, ahead of all operations that it may pass. The
    product stays behind the operations in `taking`."""
    end = block.ops.index(product)
    start = end
    while start and _may_pass(block.ops[start - 1]) and block.ops[start - 1] not in taking:
        start -= 1
    needed, made = {product}, set(product.operands)
    for op in reversed(block.ops[start:end]):
        if made.intersection(op.results):
            needed.add(op)
            made.update(op.operands)
    between = block.ops[start : end + 1]
    block.ops[start : end + 1] = [op for op in between if op in needed] + [op for op in between if op not in needed]


def _may_pass(op: Op) -> bool:
    """Whether a product may move ahead of an operation: one that starts a copy, commits a group of copies, only
    computes, or is a wgmma. The pipeline's barriers order the reads of a wgmma."""
    return op.spec.in_flight or op.spec.orders == "group" or op.spec.pure or op.spec.wgmma


def _read_meanwhile(block: Block, wait: Op) -> None:
    """Moves loads that do not depend on a product's accumulator ahead of the wait for that product."""
    at = block.ops.index(wait)
    behind = list(takewhile(_may_go_before, block.ops[at + 1 :]))
    later = _made_of(behind, set(block.ops[at].results))
    needed = {op for op in behind if op.spec.access.kind == "read"} - later
    for op in reversed(behind):
        if any(result in user.operands for user in needed for result in op.results):
            needed.add(op)
    first = [op for op in behind if op in needed]
    rest = [op for op in behind if op not in needed]
    block.ops[at : at + 1 + len(behind)] = [*first, block.ops[at], *rest]


def _made_of(ops: list[Op], values: set[Value]) -> set[Op]:
    """Returns the operations in `ops` that depend on one of `values`, directly or through other operations in `ops`."""
    found: set[Op] = set()
    for op in ops:
        if values.intersection(op.operands):
            found.add(op)
            values |= set(op.results)
    return found


def _may_go_before(op: Op) -> bool:
    """Whether an operation may move ahead of a wait: it only computes, is a wgmma, or reads memory that is not
    volatile."""
    reads = op.spec.access.kind == "read" and op.attrs["cache"] != "volatile"
    return not op.regions and not op.spec.keep and (not op.spec.access.touches or op.spec.wgmma or reads)
