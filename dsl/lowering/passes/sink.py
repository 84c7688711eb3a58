"""Moves index computations from before a loop to after the loop if the indices are needed there. So the indices occupy
no registers during the loop. Indices that one branch alone needs move into the branch first, and behind its loops.

The pass moves tiles that are computed only from thread and block numbers and from scalars. If the loop also uses such a
tile, an earlier pass has merged the two computations into one before the loop. This pass then computes the tile a
second time, after the loop.
"""

from __future__ import annotations

from dsl.lowering.directives.slices import inside
from dsl.lowering.ir.function import Block, Function, Op, Value, blocks_of, uses


def sink(function: Function) -> None:
    """Moves index computations into branches, and from before loops to after them, or repeats them there."""
    for block in list(blocks_of(function.body)):
        for branches in [op for op in block.ops if op.spec.control.kind == "chooses"]:
            _into_branches(block, branches, uses(function.body))
        for loop in [op for op in block.ops if op.spec.control.loops]:
            _sink(block, loop, uses(function.body))


def _into_branches(block: Block, branches: Op, users: dict[Value, list[Op]]) -> None:
    """Moves indices that are computed before `branches` into the only region that reads them. The shares of a product
    are added in such a region: with the flags of 16 rows in registers, tiles of 128 x 128 in f32 spilled."""
    ahead = block.ops[: block.ops.index(branches)]
    given = _given(ahead)
    for region in branches.regions:
        within = {op for each in blocks_of(region) for op in each.ops}
        moved: list[Op] = []
        for op in reversed(ahead):
            if op in given and within.issuperset(users.get(op.result, ())) and users.get(op.result):
                moved.insert(0, op)
                within.add(op)
        region.ops[:0] = moved
        block.ops = [op for op in block.ops if op not in moved]


def _sink(block: Block, loop: Op, users: dict[Value, list[Op]]) -> None:
    at = block.ops.index(loop)
    ahead, behind = block.ops[:at], block.ops[at + 1 :]
    later = {each for op in behind for each in (op, *inside(op))}
    needed, stays = _needed(ahead, later, users)
    made: list[Op] = []
    anew: dict[Value, Value] = {}
    for op in (op for op in ahead if op in needed):
        copy = op
        if op in stays:
            copy = Op(op.spec, op.operands, [r.type for r in op.results], dict(op.attrs), (), op.loc)
            copy.result.stands_for(op.result, in_turn=True)
            anew[op.result] = copy.result
        copy.operands = [anew.get(v, v) for v in copy.operands]
        made.append(copy)
    for op in later:
        op.operands = [anew.get(v, v) for v in op.operands]
    block.ops = [*(op for op in ahead if op not in needed or op in stays), loop, *made, *behind]


def _needed(ahead: list[Op], later: set[Op], users: dict[Value, list[Op]]) -> tuple[set[Op], set[Op]]:
    """Returns two sets of operations that come before a loop: those needed after the loop, and those needed before or
    inside it."""
    needed, stays = set[Op](), set[Op]()
    given = _given(ahead)
    # in reverse: the readers of a result are visited first, so it is known whether they move
    for op in reversed(ahead):
        readers = [user for result in op.results for user in users.get(result, ())] if op in given else []
        if any(user in later or user in needed for user in readers):
            needed.add(op)
        if any(user not in later and (user not in needed or user in stays) for user in readers):
            stays.add(op)
    return needed, stays


def _given(ops: list[Op]) -> set[Op]:
    """Returns the operations whose tiles are computed only from scalars and element indices."""
    found: set[Op] = set()
    for op in ops:
        if op.spec.pure and op.result.tile.shape and all(v.op in found for v in op.operands if v.tile.shape):
            found.add(op)
    return found
