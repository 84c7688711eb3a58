"""Two passes: reductions of one shape that do not wait for each other meet in shared memory once, not each by itself.

Across warps a reduction stores its parts, waits, and loads them. The `reduce` of the IR takes several tiles at once:
the first pass makes one of two, before layouts are chosen, so that both lie alike. The second one moves loads behind
the stores of the others, so that one barrier serves all.

    dsl run FILE --plugin join_reductions.py
    dsl run FILE --plugin join_reductions.py --skip-pass loads_late
"""

from dsl.lowering.ir.function import Block, Function, Op, Value, replace_uses, walk
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import SharedType
from dsl.plugin import pass_


@pass_(after="simplify")
def join_reductions(function: Function, target: Target) -> None:
    joined: dict[Value, Value] = {}
    first: Op | None = None
    known: set[Value] = set()  # what is defined before `first`
    defined = set(function.body.args)
    ops: list[Op] = []
    for op in function.body.ops:
        if first is not None and may_join(first, op) and known.issuperset(op.operands):
            both = join(first, op)
            joined |= dict(zip([*first.results, *op.results], both.results, strict=True))
            ops[ops.index(first)] = first = both
        else:
            if op.name == "reduce":
                first, known = op, set(defined)
            ops.append(op)
        defined |= {*op.results}
    function.body.ops = ops
    replace_uses(function.body, joined)


def may_join(first: Op, other: Op) -> bool:
    """One axis of tiles of one shape."""
    alike = other.name == "reduce" and other.attrs["axis"] == first.attrs["axis"]
    return alike and other.operands[0].tile.shape == first.operands[0].tile.shape


def join(first: Op, other: Op) -> Op:
    """Both at once: the region joins the elements of all tiles on the left with those on the right."""
    (a,), (b,) = first.regions, other.regions
    i, j = len(first.operands), len(other.operands)
    region = Block([*a.args[:i], *b.args[:j], *a.args[i:], *b.args[j:]])
    region.ops = [*a.ops[:-1], *b.ops[:-1], a.ops[-1]]
    region.ops[-1].operands += b.ops[-1].operands
    results = [*first.results, *other.results]
    both = Op(
        first.spec, [*first.operands, *other.operands], [r.type for r in results], first.attrs, [region], first.loc
    )
    for new, old in zip(both.results, results, strict=True):
        new.stands_for(old)  # `dsl verify` compares the two
    return both


@pass_(after="lower_conversions")
def loads_late(function: Function, target: Target) -> None:
    ops = function.body.ops
    for at in reversed(range(len(ops))):
        load = ops[at]
        if load.name == "load" and isinstance(load.operands[0].type, SharedType):
            behind = next((i for i in range(at + 1, len(ops)) if stops(ops[i], load)), len(ops))
            ops.insert(behind - 1, ops.pop(at))


def stops(op: Op, load: Op) -> bool:
    """Whether a load may not go past an operation: one that uses it, touches its tile, or has threads meet."""
    inside = [op, *(each for region in op.regions for each in walk(region))]
    memory, result = load.operands[0], load.result
    return op.spec.keep or any(memory in each.operands or result in each.operands for each in inside)
