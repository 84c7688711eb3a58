"""wgmma reads an operand that the kernel computes from shared memory, unless it is a left operand along k.

    w = f16(dx)                      w = f16(dx); store sw, w
    dq = dot(w.T, k)         →       dq = dot(load(sw).T, k)

A left operand along k stays in registers. A right operand, and a left operand that is the transpose of what threads
hold, have one shared tile for all products that read them. In the gradients of attention, the tile of dx is the left
operand of the gradient of k, and its transpose is that of q.
"""

from __future__ import annotations

from dsl.lowering.building.builder import Builder
from dsl.lowering.directives.slices import located
from dsl.lowering.directives.staged import shared_tile, taken_names
from dsl.lowering.hopper.warpgroup import EIGHT, WIDTHS, chain, is_loaded, is_turn
from dsl.lowering.ir.function import Block, Function, Op, Value, put, walk
from dsl.lowering.ir.types import SharedType
from dsl.lowering.plan.products import is_wgmma
from dsl.lowering.shared.atoms import MOST_OF_ROW, offsets_within, shape_in_atoms


def computed_operands(function: Function) -> None:
    """Puts computed operands of wgmma into shared memory where wgmma does not read registers."""
    tiles: dict[Value, Value] = {}
    for product in [op for op in walk(function.body) if is_wgmma(op)]:
        for side, value in enumerate(product.operands[:2]):
            ops = chain(value)
            if not ops or is_loaded(value) or (side == 0 and not sum(map(is_turn, ops)) % 2):
                continue
            turns = list(reversed(ops[:-1]))  # transposes and bitcasts, in program order
            made = turns[0].operands[0] if turns else value
            run = _run(made)
            if run:
                if made not in tiles:
                    tiles[made] = _stored(function, made, run)
                product.operands[side] = _loaded(function, product, tiles[made], turns, made, run)


def _run(made: Value) -> int:
    """Returns the number of elements in a row of a swizzle atom, or 0 if the tile has no rows that wgmma takes."""
    rows, columns = made.tile.shape
    run = min(columns, MOST_OF_ROW // made.dtype.bytes)
    return run if run * made.dtype.bytes in WIDTHS and rows % EIGHT == 0 and columns % run == 0 else 0


def _stored(function: Function, made: Value, run: int) -> Value:
    """Stores a value to a shared tile, where it is computed."""
    assert made.op is not None
    b, head, behind = Builder(located(function, made.op)), Block(), Block()
    with b.region(head):
        type = SharedType(shape_in_atoms(made.tile.shape, run), made.dtype)
        tile = shared_tile(b, f"s{made.name or 'operand'}", taken_names(function.body), type, computed=True)
    with b.region(behind):
        place = offsets_within(b, made.tile.shape, run)
        b.access("store", {"memory": tile, "offset": place, "value": made}, cache=None, evict=None)
    function.body.ops[:0] = head.ops
    put(function.body, made.op, [made.op, *behind.ops])
    return tile


def _loaded(function: Function, product: Op, tile: Value, turns: list[Op], made: Value, run: int) -> Value:
    """Loads the tile again for one product, and repeats the transposes and bitcasts in front of it."""
    b, ahead = Builder(located(function, product)), Block()
    with b.region(ahead):
        place = offsets_within(b, made.tile.shape, run)
        value = b.access("load", {"memory": tile, "offset": place}, cache=None, evict=None).result
        for op in turns:
            value = b.value(op.name, value, **op.attrs)
    put(function.body, product, [*ahead.ops, product])
    return value
