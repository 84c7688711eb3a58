"""Two passes that let independent reductions of the same shape share one barrier.

A reduction across warps stores partial results to shared memory, waits, and loads them. The IR's `reduce` takes several
tiles at once. The first pass merges two reductions before layouts are chosen, so that both get the same layout. The
second pass moves the loads of each reduction behind the stores of all, so that one barrier is enough.

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
    known: set[Value] = set()  # values that are defined before `first`
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
    """Whether both operations reduce the same axis of tiles of the same shape."""
    alike = other.name == "reduce" and other.attrs["axis"] == first.attrs["axis"]
    return alike and other.operands[0].tile.shape == first.operands[0].tile.shape


def join(first: Op, other: Op) -> Op:
    """One operation for both reductions. Its region takes the left elements of all tiles, then the right elements."""
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
        new.stands_for(old)  # `dsl verify` compares `new` with `old`
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
    """Whether a load must stay before `op`, because `op` uses the result, accesses the tile or synchronises threads."""
    inside = [op, *(each for region in op.regions for each in walk(region))]
    memory, result = load.operands[0], load.result
    return op.spec.keep or any(memory in each.operands or result in each.operands for each in inside)
