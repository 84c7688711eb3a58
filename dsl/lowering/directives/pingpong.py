"""`pingpong e`: one warpgroup at a time computes a value and starts the MMAs that use it.

    consumer_wait n                  consumer_wait n
    x = dot(…)                       x = dot(…)
    e = exp(x)                 →     pingpong_begin n
    acc = dot(e, …)                  e = exp(x)
    consumer_release n               acc = dot(e, …)
                                     pingpong_end n
                                     consumer_release n

MMAs of a warpgroup run asynchronously once they have started. Without ping-pong, warpgroups drift together: all compute
at the same time, and then all wait for the tensor cores. With ping-pong, one warpgroup computes while the MMAs of
another run.

Each warpgroup has one turn in each iteration of a pipeline, so the iteration determines whose turn it is. Group g waits
until group g - 1 has ended its turn of the same iteration. The first group waits for the last group's turn of the
previous iteration. For each group, the pipeline has an mbarrier that counts the ends of the group's turns.
"""

from __future__ import annotations

from dsl.lowering.hopper.warpgroup import WARPS
from dsl.lowering.ir.function import Block, Function, Op, Value, walk
from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.lowering.ir.types import SharedType
from dsl.lowering.ops import OPS
from dsl.lowering.ops.pipelines import rings_of

WAYS = {"one": True, "all": False}


def pingpong(function: Function) -> None:
    """Inserts the begin and end of a turn around each value that the schedule names. Raises TileError `schedule` if
    warpgroups cannot take turns there."""
    for name, holds in function.by_subject("pingpong", bool).items():
        if holds:
            _take(function, name, function.lines.get(("pingpong", name)))


def _take(function: Function, name: str, loc: Loc | None) -> None:
    def refuse(message: str, hint: str) -> TileError:
        return TileError("schedule", loc or function.loc, f"warp groups take no turns at '{name}': {message}", hint)

    if any(op.spec.access.at_pipeline == "begin" for op in walk(function.body)):
        raise refuse("they take turns at something else", "one value of an iteration")
    groups = function.warps // WARPS
    if function.warps % WARPS or groups < 2:
        raise refuse(f"{function.warps} warps are no groups of four, or one alone", "warps = 8")
    roles = next((op for op in function.body.ops if op.spec.control.concurrent), None)
    if roles is None:
        raise refuse("they go by the iterations of a TMA pipeline, and there is none", "stage NAMES: tma")
    found = list(_iterations(roles.regions[1], name))
    if not found:
        named = {r.name for op in walk(roles.regions[1]) for r in op.results if r.name}
        hint = closest(name, named) or "a value that is made after the copies of its iteration"
        raise refuse("no iteration of the pipeline makes it", hint)
    ways = [(block, filled, op, _last_product(block, op)) for block, filled, op in found]
    if any(last is None for *_, last in ways):
        raise refuse("no product of its iteration takes it", "a value that is the left operand of one")
    if len({filled for _, filled, *_ in ways}) < len(ways):
        raise refuse("an iteration makes it several times", "a value that is made once")
    taken = function.choices.choose(
        "pingpong",
        name,
        WAYS,
        "one",
        loc=found[0][2].loc,
        pinned=loc,
        because=f"{groups} groups",
        line=f"pingpong {name}",
    )
    if not taken:
        return
    pipeline, stages = roles.operands[0], sum(rings_of(roles))
    assert isinstance(pipeline.type, SharedType) and pipeline.op is not None
    # Each group adds one mbarrier, behind the two mbarriers of each stage.
    pipeline.op.attrs["type"] = pipeline.type = SharedType((2 * stages + groups,), pipeline.type.dtype)
    roles.attrs["pingpong"] = groups
    for block, filled, op, last in ways:
        assert last is not None
        operands, attrs = [pipeline, filled.operands[1]], {"stages": stages, "groups": groups}
        # The turn ends when the last MMA has started, not when it has finished. The index has + 2 because the begin,
        # which is inserted first, shifts the operations behind it.
        for row, place in (("pingpong_begin", block.ops.index(op)), ("pingpong_end", block.ops.index(last) + 2)):
            block.ops.insert(place, Op(OPS[row], operands, [], dict(attrs), (), op.loc))


def check_pingpong(function: Function) -> None:
    """Raises TileError `schedule` for a barrier of the whole block within a turn. Such a barrier would be a deadlock:
    groups that wait for their turn never arrive at it."""
    begun = False
    for op in walk(function.body):
        if op.spec.access.at_pipeline in ("begin", "end"):
            begun = op.spec.access.at_pipeline == "begin"
        elif begun and op.spec.orders == "threads" and op.attrs["scope"] != "warp":
            ((name, _),) = [each for each in function.by_subject("pingpong", bool).items() if each[1]]
            message = f"warp groups take turns at '{name}', and a barrier for all of them stands within a turn"
            hint = "make what warps exchange before it"
            raise TileError("schedule", function.lines.get(("pingpong", name)) or op.loc, message, hint)


def _iterations(block: Block, name: str) -> list[tuple[Block, Op, Op]]:
    """The operations that compute a value of this name after the wait for an iteration. Each entry has the block, the
    wait and the operation."""
    found: list[tuple[Block, Op, Op]] = []
    filled: Op | None = None
    for op in block.ops:
        if op.spec.access.at_pipeline == "wait":
            filled = op
        if filled is not None and any(r.name == name for r in op.results):
            found.append((block, filled, op))
        for region in op.regions:
            found += _iterations(region, name)
    return found


def _last_product(block: Block, op: Op) -> Op | None:
    """The last MMA of a block that uses the results of `op`. The MMA may use the results directly, or through pure
    operations other than MMAs."""
    made: set[Value] = set(op.results)
    last = None
    for each in block.ops[block.ops.index(op) + 1 :]:
        if made.intersection(each.operands):
            if each.spec.product:
                last = each
            elif each.spec.pure:
                made.update(each.results)
    return last
