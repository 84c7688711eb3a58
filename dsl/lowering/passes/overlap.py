"""Launches of one call that overlap: where a kernel waits for those in front, and where it lets the next one start.

`function.attrs` say how a kernel stands in its call: `follows`, the tensors that no launch in front of it writes, and
`leads`, that another launch comes right behind. A kernel that overlaps those in front computes indices, sets up shared
memory and reads these tensors; then, ahead of all else that it does to global memory, each thread waits. The wait
stands in the kernel's outermost block, or once in each role of its warps, so that no block ends without it: by that
alone a third launch which waits for the second has waited for the first (PTX ISA, "griddepcontrol").

Behind all other passes: nothing moves an access over a wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from dsl.lowering.ir.function import Block, Function, Op, Value, walk
from dsl.lowering.ops import OPS

START, NEXT = "start", "next"
BEHIND, HEAD, ACCESS, LOADS, END = "behind", "head", "access", "loads", "end"
Spots = Sequence[tuple[Block, int]]
"""Places: how many operations of a block stand ahead."""


def overlap(function: Function) -> None:
    """Puts in the wait and the word to the next launch, as two choices say; for a kernel that is called alone neither:
    a schedule's lines that take them are for calls in which it has neighbours. `function.attrs["overlaps"]`: its launch
    may start before the one in front of it has ended."""
    follows, leads = "follows" in function.attrs, "leads" in function.attrs
    waits = _wait(function) if follows else []
    if leads:
        _let_next_start(function, waits)
    absent = [f"overlap.{subject}" for subject, there in ((START, follows), (NEXT, leads)) if not there]
    function.choices.excuse(*absent, *([] if follows or leads else ["overlap"]))


def _wait(function: Function) -> list[Op]:
    """The waits that are put in."""
    body, follows = function.body, function.by_subject("follows", bool)
    early = {p.value for p in function.params if p.value is not None and p.name in follows}
    spots: dict[str, Spots] = {BEHIND: [], HEAD: [(body, 0)], ACCESS: list(_ahead_of_need(body, early))}
    because = "what it does ahead of its first need of the launch in front, it does while that ends"
    costs = {option: _behind(body, spots[option]) for option in spots}
    unit = "operations behind the wait"
    chosen: Spots = function.choices.choose(
        "overlap", START, spots, ACCESS, loc=function.loc, because=because, costs=costs, unit=unit
    )
    waits = []
    for block, at in chosen:
        near = block.ops[at].loc if 0 < at < len(block.ops) else None
        waits.append(Op(OPS["wait_for_launches"], [], [], {}, (), near or function.loc))
        block.ops.insert(at, waits[-1])
    function.attrs["overlaps"] = bool(waits)
    return waits


def _let_next_start(function: Function, waits: Collection[Op]) -> None:
    spots: dict[str, Spots] = {END: [], LOADS: [_behind_reads(function.body, waits)]}
    if not waits:  # else blocks of the next launch could take up room, and wait for this one to wait
        spots[HEAD] = [(function.body, 0)]
    because, rule = "blocks of the next launch find room as blocks of this one end", LOADS if waits else HEAD
    chosen: Spots = function.choices.choose("overlap", NEXT, spots, rule, loc=function.loc, because=because)
    for block, at in chosen:
        near = block.ops[at - 1].loc if at else None
        block.ops.insert(at, Op(OPS["let_next_start"], [], [], {}, (), near or function.loc))


def _ahead_of_need(block: Block, early: Collection[Value]) -> Iterator[tuple[Block, int]]:
    """Ahead of the first operation that may touch what a launch in front does; in each role, where roles are all that
    needs it."""
    needs = [at for at, op in enumerate(block.ops) if _needs(op, early)]
    if len(needs) == 1 and block.ops[needs[0]].spec.control.concurrent:
        for region in block.ops[needs[0]].regions:
            yield from _ahead_of_need(region, early)
    else:
        end = len(block.ops) - bool(block.ops and block.ops[-1].spec.control.ends)
        yield block, needs[0] if needs else end


def _behind_reads(block: Block, waits: Collection[Op]) -> tuple[Block, int]:
    """Behind the last operation that reads global memory or waits for launches; of roles, in the first that reads."""

    def reads(op: Op) -> bool:
        is_wait = any(each in waits for each in _with_inner(op))
        return is_wait or any(kind == "read" for kind, _ in _global(op))

    last = max((at for at, op in enumerate(block.ops, 1) if reads(op)), default=0)
    if last and block.ops[last - 1].spec.control.concurrent:
        first, *_ = (region for region in block.ops[last - 1].regions if any(map(reads, region.ops)))
        return _behind_reads(first, waits)
    return block, last


def _behind(body: Block, spots: Spots) -> int:
    """Operations that threads come to behind these places; all, where there are none."""
    ahead = sum(len(_with_inner(op)) for block, at in spots for op in block.ops[:at])
    return len(walk(body)) - ahead


def _with_inner(op: Op) -> list[Op]:
    return [op, *(each for region in op.regions for each in walk(region))]


def _global(op: Op) -> list[tuple[str, Value]]:
    """(what is done, where) to global memory in an operation and its regions."""
    effects = [e for each in _with_inner(op) for e in each.spec.access.effects(each)]
    return [(e.kind, e.memory) for e in effects if e.space == "global"]


def _needs(op: Op, early: Collection[Value]) -> bool:
    """Whether it may touch what a launch in front does."""
    return any(kind != "read" or memory not in early for kind, memory in _global(op))
