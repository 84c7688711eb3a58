"""Overlaps the launches of one call (programmatic dependent launch). Decides where a kernel waits for the preceding
launches, and where it lets the next launch start.

Two entries of `function.attrs` describe the position of the launch in its call. `follows` exists if there are preceding
launches, and lists the tensors that none of them writes. `leads` exists if another launch follows directly. Before the
wait, an overlapping kernel computes indices, sets up shared memory and reads the tensors in `follows`. Each thread
waits before any other access to global memory. The wait is in the kernel's outermost block, or once in each warp role,
so every thread block waits before it ends. Otherwise, a third launch that waits for the second would not also wait for
the first (PTX ISA, "griddepcontrol").

This pass runs after all passes that move accesses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from dsl.lowering.directives.slices import inside
from dsl.lowering.ir.function import Block, Function, Op, Value, walk
from dsl.lowering.ops import OPS

START, NEXT = "start", "next"
BEHIND, HEAD, ACCESS, LOADS, END = "behind", "head", "access", "loads", "end"
Spots = Sequence[tuple[Block, int]]
"""Places in blocks: (block, number of the block's operations before the place)."""


def overlap(function: Function) -> None:
    """Inserts the wait for preceding launches, and the signal that lets the next launch start. Two choices select their
    places. A kernel that is launched alone gets neither of them. Its schedule may still contain lines about them,
    because the kernel may have neighbours in other calls. Sets `function.attrs["overlaps"]` to True if the launch may
    start before the preceding launch has ended."""
    follows, leads = "follows" in function.attrs, "leads" in function.attrs
    waits = _wait(function) if follows else []
    if leads:
        _let_next_start(function, waits)
    absent = [f"overlap.{subject}" for subject, there in ((START, follows), (NEXT, leads)) if not there]
    function.choices.excuse(*absent, *([] if follows or leads else ["overlap"]))


def _wait(function: Function) -> list[Op]:
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
    # The start of the kernel is an option only if this launch does not wait itself. Otherwise blocks of the next launch
    # could fill the multiprocessors while this launch still waits.
    if not waits:
        spots[HEAD] = [(function.body, 0)]
    because, rule = "blocks of the next launch find room as blocks of this one end", LOADS if waits else HEAD
    chosen: Spots = function.choices.choose("overlap", NEXT, spots, rule, loc=function.loc, because=because)
    for block, at in chosen:
        near = block.ops[at - 1].loc if at else None
        block.ops.insert(at, Op(OPS["let_next_start"], [], [], {}, (), near or function.loc))


def _ahead_of_need(block: Block, early: Collection[Value]) -> Iterator[tuple[Block, int]]:
    """Yields the place before the first operation that may access memory that a preceding launch accesses. If only the
    warp roles need the wait, yields one such place in each role."""
    needs = [at for at, op in enumerate(block.ops) if _needs(op, early)]
    if len(needs) == 1 and block.ops[needs[0]].spec.control.concurrent:
        for region in block.ops[needs[0]].regions:
            yield from _ahead_of_need(region, early)
    else:
        # If no operation needs the wait, the wait is at the end, before the terminator: every thread block must wait
        # before the block ends.
        end = len(block.ops) - bool(block.ops and block.ops[-1].spec.control.ends)
        yield block, needs[0] if needs else end


def _behind_reads(block: Block, waits: Collection[Op]) -> tuple[Block, int]:
    """Returns the place after the last operation that reads global memory or waits for launches. If that operation
    contains the warp roles, the place is in the first role that reads."""

    def reads(op: Op) -> bool:
        is_wait = any(each in waits for each in (op, *inside(op)))
        return is_wait or any(kind == "read" for kind, _ in _global(op))

    last = max((at for at, op in enumerate(block.ops, 1) if reads(op)), default=0)
    if last and block.ops[last - 1].spec.control.concurrent:
        first, *_ = (region for region in block.ops[last - 1].regions if any(map(reads, region.ops)))
        return _behind_reads(first, waits)
    return block, last


def _behind(body: Block, spots: Spots) -> int:
    """Counts the operations after these places. If there are no places, counts all operations."""
    ahead = sum(1 + len(inside(op)) for block, at in spots for op in block.ops[:at])
    return len(walk(body)) - ahead


def _global(op: Op) -> list[tuple[str, Value]]:
    """Lists the accesses to global memory in an operation and its regions, as pairs (kind, memory)."""
    effects = [e for each in (op, *inside(op)) for e in each.spec.access.effects(each)]
    return [(e.kind, e.memory) for e in effects if e.space == "global"]


def _needs(op: Op, early: Collection[Value]) -> bool:
    """Whether an operation may access memory that a preceding launch accesses."""
    return any(kind != "read" or memory not in early for kind, memory in _global(op))
