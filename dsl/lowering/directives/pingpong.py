"""`pingpong e`: only one warpgroup at a time computes `e` and starts the MMAs that read it.

    consumer_wait n                  consumer_wait n
    x = dot(…)                       x = dot(…)
    e = exp(x)                 →     pingpong_begin n
    acc = dot(e, …)                  e = exp(x)
    consumer_release n               acc = dot(e, …)
                                     pingpong_end n
                                     consumer_release n

Warpgroup MMAs run asynchronously. Without ping-pong, all warpgroups soon compute at the same time, and then all wait
for the tensor cores. With ping-pong, one warpgroup computes while the MMAs of another run.

A turn is the code between `pingpong_begin` and `pingpong_end`. Each warpgroup executes one turn in each iteration of a
pipeline. Warpgroup g waits until warpgroup g - 1 has ended its turn in the same iteration. The first warpgroup waits
for the last warpgroup's turn in the previous iteration. For each warpgroup, an mbarrier counts the turns that have
ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from dsl.lowering.directives.slices import reached
from dsl.lowering.directives.staged import retype
from dsl.lowering.hopper.warpgroup import WARPS
from dsl.lowering.ir.choices import Retreat
from dsl.lowering.ir.function import Block, Function, Op, Value, blocks_of, walk
from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.lowering.ops import OPS
from dsl.lowering.ops.pipelines import base_of, rings_of, roles_of
from dsl.lowering.plan.products import is_wgmma

MOST_WORK = 256
"""The default inserts turns only up to this number of multiplications per computed element. Above it, MMAs take so long
that turns bring no gain. Attention with 4096 keys (f16, H200) takes 0.87 times as long with turns for heads of 64 (128
multiplications). The factor is 0.86 for heads of 128 (256 multiplications), and 1.02 for heads of 256 (512). Products
that `delay` starts in the next iteration need no turns.
"""
WAYS = {"one": True, "all": False}


def pingpong(function: Function) -> None:
    """Inserts `pingpong_begin` and `pingpong_end` around the computation of each value in a `pingpong` line. Without
    such lines, a rule chooses the value. Raises TileError `schedule` if turns are impossible at a named value."""
    said = function.by_subject("pingpong", bool)
    for name, holds in said.items():
        if holds:
            _take(function, name, function.lines.get(("pingpong", name)))
    if not said:
        _take_by_itself(function)


def _take_by_itself(function: Function) -> None:
    """Inserts turns if the left operand of a wgmma is computed from the result of another wgmma, as in attention. This
    default applies only to two warpgroups: four warpgroups keep the tensor cores busy without turns."""
    roles = roles_of(function)
    if roles is None or function.warps != 2 * WARPS:
        return
    found = [each for block in blocks_of(roles.regions[1]) if (each := computed_operand(block)) is not None]
    if not found or not _share_iterations(filled for _, filled, *_ in found):
        return
    if any(work_of_element(block, op) > MOST_WORK for block, _, op, _ in found):
        return
    name = found[0][2].result.name or "operand"
    because = "one group computes an operand while the MMAs of the other run"
    if _is_taken(function, name, found[0][2], because, retreats=((f"pingpong.{name}", "all", ("schedule",)),)):
        _put_turns(function, roles, found)


def work_of_element(block: Block, op: Op) -> int:
    """Returns the number of multiplications of all wgmma in `block`, divided by the number of elements that `op`
    computes."""
    products = [each for each in block.ops if is_wgmma(each)]
    work = sum(prod(each.result.tile.shape) * each.operands[0].tile.shape[1] for each in products)
    return work // prod(op.result.tile.shape)


def computed_operand(block: Block) -> tuple[Block, Op, Op, Op] | None:
    """Finds a wgmma whose left operand is computed from the result of another wgmma of the same iteration. Returns the
    block, the iteration's wait, the operation that computes the operand, and the wgmma. Returns None if there is no
    such wgmma."""
    filled = next((op for op in block.ops if op.spec.access.at_pipeline == "wait"), None)
    products = [op for op in block.ops if is_wgmma(op)]
    for product in reversed(products):
        op = product.operands[0].op
        while op is not None and op.spec.algebra.keeps in ("number", "bits"):
            op = op.operands[0].op
        if filled is None or op is None or op not in block.ops or op.spec.product or op.spec.access.kind:
            continue
        if block.ops.index(filled) < block.ops.index(op) and _depends(op, {each.result for each in products}):
            return block, filled, op, product
    return None


def _depends(op: Op, on: set[Value]) -> bool:
    """Whether the operands of `op` depend on a value in `on` through pure operations."""
    makers = reached(op.operands, lambda v: v.op.operands if v.op is not None and v.op.spec.pure else ())
    return not on.isdisjoint(makers)


def _take(function: Function, name: str, loc: Loc | None) -> None:
    def refuse(message: str, hint: str) -> TileError:
        return TileError("schedule", loc or function.loc, f"warp groups take no turns at '{name}': {message}", hint)

    if any(op.spec.access.at_pipeline == "begin" for op in walk(function.body)):
        raise refuse("they take turns at something else", "one value of an iteration")
    groups = function.warps // WARPS
    if function.warps % WARPS or groups < 2:
        raise refuse(f"{function.warps} warps are no groups of four, or one alone", "warps = 8")
    roles = roles_of(function)
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
    if not _share_iterations(filled for _, filled, *_ in ways):
        raise refuse("loops with a pipeline each make it, which count their iterations apart", "two names")
    if len({filled for _, filled, *_ in ways}) < len(ways):
        raise refuse("an iteration makes it several times", "a value that is made once")
    if _is_taken(function, name, found[0][2], f"{groups} groups", pinned=loc):
        _put_turns(function, roles, ways)


def _share_iterations(waits: Iterable[Op]) -> bool:
    """Whether all `waits` belong to the same pipeline. Each pipeline counts its own iterations, and turns depend on
    that count."""
    return len({base_of(wait) for wait in waits}) == 1


def _is_taken(
    function: Function, name: str, op: Op, because: str, pinned: Loc | None = None, retreats: tuple[Retreat, ...] = ()
) -> bool:
    """Makes the choice `pingpong` for the value that `op` computes. Returns True if warpgroups take turns. `pinned` is
    the schedule's line that requests the turns."""
    line = f"pingpong {name}"
    return function.choices.choose(
        "pingpong", name, WAYS, "one", loc=op.loc, pinned=pinned, because=because, line=line, retreats=retreats
    )


def _put_turns(function: Function, roles: Op, ways: Sequence[tuple[Block, Op, Op, Op | None]]) -> None:
    """Inserts turns into the iterations of a pipeline. Each entry of `ways` contains the block of an iteration, its
    wait, the first operation of the turn, and the last MMA of the turn."""
    groups = function.warps // WARPS
    pipeline, stages = roles.operands[0], sum(rings_of(roles))
    # Each group adds one mbarrier, behind the two mbarriers of each stage.
    retype(pipeline, shape=(2 * stages + groups,))
    roles.attrs["pingpong"] = groups
    for block, filled, op, last in ways:
        assert last is not None
        operands, attrs = [pipeline, filled.operands[1]], {"stages": stages, "groups": groups}
        # The turn ends when the last MMA has started, not when it has finished. The index has + 2 because the begin,
        # which is inserted first, shifts the operations behind it.
        for row, place in (("pingpong_begin", block.ops.index(op)), ("pingpong_end", block.ops.index(last) + 2)):
            block.ops.insert(place, Op(OPS[row], operands, [], dict(attrs), (), op.loc))


def check_pingpong(function: Function) -> None:
    """Raises TileError `schedule` for a block-wide barrier within a turn. It would be a deadlock: warpgroups that wait
    for their turn never arrive at the barrier."""
    begun = False
    for op in walk(function.body):
        if op.spec.access.at_pipeline in ("begin", "end"):
            begun = op.spec.access.at_pipeline == "begin"
        elif begun and op.spec.orders == "threads" and op.attrs["scope"] != "warp":
            named = [name for name, holds in function.by_subject("pingpong", bool).items() if holds]
            name = named[0] if named else "operand"
            message = f"warp groups take turns at '{name}', and a barrier for all of them stands within a turn"
            hint = "make what warps exchange before it"
            raise TileError("schedule", function.lines.get(("pingpong", name)) or op.loc, message, hint)


def _iterations(block: Block, name: str) -> list[tuple[Block, Op, Op]]:
    """Finds the operations that compute a value called `name` after the wait of an iteration. Returns for each of them
    the block, the wait and the operation."""
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
    """Returns the last MMA in `block` that reads a result of `op`, directly or through pure operations other than MMAs.
    Returns None if there is no such MMA."""
    made: set[Value] = set(op.results)
    last = None
    for each in block.ops[block.ops.index(op) + 1 :]:
        if made.intersection(each.operands):
            if each.spec.product:
                last = each
            elif each.spec.pure:
                made.update(each.results)
    return last
