"""The parts of the barrier pass, each by itself: places, sets of accesses, when two meet, iterations of loops, the
walk."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dsl.kernels.variant import Request, build_variant
from dsl.lowering.building.loop_forms import Carried, Form
from dsl.lowering.ir.function import Function, Op, Value, walk
from dsl.lowering.ir.types import F32, INDEX, SharedType, TensorType, TileType
from dsl.lowering.known.affine import Affine
from dsl.lowering.known.listed_offsets import Listed
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.passes import PASSES, run_passes
from dsl.lowering.passes.barriers import order_of
from dsl.lowering.passes.barriers.conflicts import (
    Comparisons,
    collision,
    conflict,
    disjoint,
    earlier_iterations,
    meeting,
)
from dsl.lowering.passes.barriers.iterations import next_iteration
from dsl.lowering.passes.barriers.state import Flight, OpenAccesses, State, members
from dsl.lowering.passes.barriers.threads import Doubt, Meeting
from dsl.lowering.passes.barriers.touches import Stage, Touch
from dsl.lowering.passes.barriers.walking import BarrierWalk, Need
from dsl.text.program import parse_program

SHARED = Value(SharedType((4096,), F32), name="s")
TENSOR = Value(TensorType(F32, 1), name="x")
N, M = Value(TileType((), INDEX), name="n"), Value(TileType((), INDEX), name="m")
WARPS = 4
LAYOUT = Layout.blocked((128,), (1,), (32,), (WARPS,))
LARGE = Layout.blocked((1 << 16,), (1,), (32,), (WARPS,))
FIRST_WARP = Layout.blocked((32,), (1,), (32,), (WARPS,))  # the others hold the same


def access(
    coefficient: int,
    constant: int = 0,
    terms: tuple[tuple[int, int], ...] = (),
    layout: Layout = LAYOUT,
    write: bool = True,
    stage: Stage | None = None,
) -> Touch:
    """Each thread touches element coefficient · its number + terms + constant."""
    offsets = Affine((coefficient,), terms, constant)
    return Touch(SHARED, write, stage, offsets, layout, one_thread=write, in_stage=stage is not None)


def scope_of(met: Meeting | None) -> str | None:
    return None if met is None else met.scope


# ---- when two meet ----


@pytest.mark.parametrize(
    ("a", "b", "scope"),
    [
        (access(1), access(1), None),  # each thread its own
        (access(1), access(1, 128), None),  # behind each other
        (access(1), access(1, 127), "block"),  # one element: the last thread's and the first one's
        (access(2), access(2, 1), None),  # even ones and odd ones
        (access(1), access(2), "block"),
        (access(-1, 127), access(1), "block"),
        (access(1, layout=FIRST_WARP), access(-1, 31, layout=FIRST_WARP), "warp"),
        (access(1, 0, ((id(N), 4),)), access(1, 0, ((id(N), 4),)), None),  # one unknown, the same times
        (access(1, 0, ((id(N), 4),)), access(1, 128, ((id(N), 4),)), None),
        (access(1, 0, ((id(N), 4),)), access(1, 0, ((id(N), 8),)), "block"),
        (access(1, 0, ((id(N), 4),)), access(1, 0, ((id(M), 4),)), "block"),
        (access(1), replace(access(1), offsets=None), "block"),
        (access(1), replace(access(1), offsets=Listed(tuple(range(128)), (), 0)), None),
        (access(1), replace(access(1), offsets=Listed(tuple(i ^ 1 for i in range(128)), (), 0)), "warp"),
        (access(1), replace(access(1), joint=True), "warp"),  # each lane for others
    ],
)
def test_two_places(a: Touch, b: Touch, scope: str | None) -> None:
    assert scope_of(conflict(a, b, WARPS)) == scope
    assert scope_of(conflict(b, a, WARPS)) == scope
    assert not (disjoint(a, b) and scope)


@pytest.mark.parametrize(
    ("a", "b", "met"),
    [
        (Stage((), 0, None), Stage((), 1, None), False),
        (Stage((), 1, None), Stage((), 1, None), True),
        (Stage(((id(N), 1),), 0, None), Stage(((id(N), 1),), 1, None), False),
        (Stage(((id(N), 1),), 0, None), Stage(((id(M), 1),), 1, None), True),
        (Stage(((id(N), 1),), 0, 3), Stage(((id(N), 1),), 3, 3), True),
        (Stage(((id(N), 1),), 0, 3), Stage(((id(N), 1),), 2, 3), False),
        (Stage((), 0, 3), Stage((), 1, 4), True),  # not comparable
    ],
)
def test_two_slots(a: Stage, b: Stage, met: bool) -> None:
    first, second = access(1, stage=a), access(-1, 127, stage=b)
    assert (conflict(first, second, WARPS) is not None) == met
    assert (collision(first, second) is not None) == met


@pytest.mark.parametrize(
    ("a", "b", "doubt"),
    [
        (access(1), access(2), None),
        (access(1), replace(access(1), offsets=None), Doubt.PLACE),
        (access(1, 0, ((id(N), 4),)), access(1, 0, ((id(M), 4),)), Doubt.BASE),
        (access(1, stage=Stage((), 1, None)), access(2, stage=Stage((), 1, None)), None),
        (access(1, stage=Stage((), 1, None)), access(2, stage=Stage(((id(N), 1),), 1, None)), Doubt.SLOT),
        (access(1, stage=Stage((), 1, None)), replace(access(2), in_stage=True), Doubt.SLOT),
        (access(3, layout=LARGE), access(5, layout=LARGE), Doubt.SIZE),
    ],
)
def test_what_is_not_known(a: Touch, b: Touch, doubt: Doubt | None) -> None:
    met = conflict(a, b, WARPS)
    assert met == conflict(b, a, WARPS) == Meeting("block", doubt)


def test_a_release_meets_what_all_threads_did() -> None:
    release = Touch(TENSOR, True, None, None, None, True, bond="release")
    assert scope_of(conflict(access(1), release, WARPS)) == "block"
    assert scope_of(conflict(access(1, layout=FIRST_WARP), release, 1)) == "warp"
    assert conflict(replace(release), release, WARPS) is None  # thread 0 did both


def test_stores_that_need_no_order() -> None:
    a, b = replace(access(1), combines="store"), replace(access(2), combines="store")
    assert meeting(a, b, WARPS) is None
    assert scope_of(meeting(replace(a, combines="add"), b, WARPS)) == "block"
    assert scope_of(meeting(a, replace(b, combines=None), WARPS)) == "block"


def test_behind_a_warp_barrier_only_other_warps_meet() -> None:
    a, b = access(1), replace(access(1), joint=True)
    assert scope_of(meeting(a, b, WARPS)) == "warp"
    assert meeting(replace(a, warp_ordered=True), b, WARPS) is None
    assert scope_of(meeting(replace(a, warp_ordered=True), access(1, 32), WARPS)) == "block"


def test_all_earlier_rounds() -> None:
    """What moves on by 64 elements an iteration was 128 back two iterations ago."""
    moved = replace(access(1, 0, ((id(N), 64),)), before=(0, 64))
    back = [
        touch.offsets.constant for touch in earlier_iterations(moved, access(1, -100, ((id(N), 64),))) if touch.offsets
    ]
    assert back == [0, -64, -128, -192]
    assert meeting(replace(moved, before=(0, 256)), access(1, -128, ((id(N), 64),)), WARPS) is None
    assert scope_of(meeting(moved, access(1, -128, ((id(N), 64),)), WARPS)) == "block"
    unknown = earlier_iterations(moved, access(1, 0, ((id(M), 64),)))
    assert [touch.offsets for touch in unknown] == [None]


def test_each_pair_is_compared_once() -> None:
    accesses, pairs = OpenAccesses(), []

    def met(pending: Touch, touch: Touch) -> Meeting | None:
        pairs.append((pending, touch))
        return conflict(pending, touch, WARPS)

    comparisons = Comparisons(accesses, met)
    same, apart, across = (accesses.number(touch) for touch in (access(1), access(1, 128), access(-1, 127)))
    read = accesses.number(access(-1, 127, write=False))
    assert comparisons.scope(across, 1 << same | 1 << apart) == "block"
    assert comparisons.scope(across, 1 << apart) is None
    assert comparisons.scope(across, 1 << same | 1 << apart) == "block"
    assert len(pairs) == len(set(pairs)) <= 2
    assert comparisons.met(across, 1 << same | 1 << apart) == 1 << same
    unknown = accesses.number(replace(access(1), offsets=None))
    assert comparisons.scope(across, 1 << unknown) == "block"
    assert comparisons.one(across, 1 << unknown) == unknown
    other = accesses.number(access(1, 1))
    assert comparisons.scope(across, 1 << other) == "block"
    assert comparisons.one(across, 1 << unknown | 1 << other) == other  # known to meet
    assert comparisons.scope(accesses.number(access(1, write=False)), 1 << read) is None  # two reads
    other = accesses.number(replace(access(1), memory=TENSOR))
    assert comparisons.scope(other, 1 << same) is None  # another memory


# ---- sets of accesses ----


def test_sets_change_member_by_member() -> None:
    accesses = OpenAccesses()
    numbers = [accesses.number(access(1, i)) for i in range(100)]
    assert [accesses.number(access(1, i)) for i in range(100)] == numbers
    everything = sum(1 << i for i in numbers)
    assert list(members(everything)) == numbers
    moved = accesses.changing(lambda touch: touch.shifted(0, 7))(everything)
    places = {touch.offsets.constant for i in members(moved) if (touch := accesses.touches[i]).offsets is not None}
    assert places == set(range(-7, 93))
    first = accesses.number(access(1, -7))
    assert numbers[0] in set().union(*accesses.generations(first))


def test_groups_of_copies() -> None:
    state = State(1, Flight(open=2).ended(3))
    assert state.copies == Flight((2,), 0, True)
    for accesses in (4, 8, 16):
        state.copies = state.copies.begun(accesses).ended(3)
    assert state.copies.groups == (2 | 4, 8, 16)  # the oldest are not told apart
    assert state.in_flight == 2 | 4 | 8 | 16
    state.land(2, stores=False)
    assert (state.pending, state.copies.groups) == (1 | 2 | 4, (8, 16))
    other = State(32, Flight((64,)))
    other.merge(state)
    assert (other.pending, other.copies.groups) == (1 | 2 | 4 | 32, (8, 16 | 64))  # the newest of both together


def test_stores_have_groups_of_their_own() -> None:
    """What they have read is done when they are waited for; that what they write is there nothing tells."""
    state = State(0, Flight((1,)), Flight((2, 4), 8), 16)
    state.land(1, stores=True)
    assert (state.pending, state.copies.groups, state.stores.groups, state.sent) == (2, (1,), (4,), 16)
    assert state.in_flight == 1 | 4 | 8 | 16


# ---- iterations ----

START: Form = ({}, 0)


def test_what_a_round_moves() -> None:
    """At 64 · n in one iteration, at 64 · n - 64 in the next, where n has become one more; after that, all
    iterations."""
    follow = next_iteration([Carried(START, id(N), None, ({id(N): 1}, 1))], {id(N)})
    once = follow(access(1, 0, ((id(N), 64),)))
    assert once.offsets == Affine((1,), ((id(N), 64),), -64) and once.before is None
    twice = follow(once)
    assert twice.offsets == Affine((1,), ((id(N), 64),), -128) and twice.before == (0, 64)
    assert follow(twice) == twice
    assert follow(access(1, 5)) == access(1, 5)


def test_what_a_round_computes_anew_is_not_known() -> None:
    follow = next_iteration([], {id(N)})
    assert follow(access(1, 0, ((id(N), 64),))).offsets is None
    assert follow(access(1, 0, ((id(M), 64),))) == access(1, 0, ((id(M), 64),))


def test_a_ring_comes_round() -> None:
    follow = next_iteration([Carried(START, id(N), None, ({id(N): 1}, 1))], {id(N)})
    seen = [access(1, stage=Stage(((id(N), 1),), 0, 3))]
    for _ in range(3):
        seen.append(follow(seen[-1]))
    assert seen[3] == seen[0] and len(set(seen)) == 3


def test_what_is_carried_by_another_name() -> None:
    """`m = n` at the end of an iteration: what was at n is at m in the next one."""
    follow = next_iteration([Carried(START, id(M), None, ({id(N): 1}, 2))], {id(N), id(M)})
    assert follow(access(1, 0, ((id(N), 8),))).offsets == Affine((1,), ((id(M), 8),), -16)


# ---- the walk ----

TEXT = """
kernel k(y: f32[256], x: f32[32, 256]):
    grid 1
    shared s: f32[256]
    s[0 : 256] = load(x[0, 0 : 256])
    t = zeros(f32[256])
    for i in range(0, 4):
        t = t + s[255 - arange(256)]
        s[0 : 256] = load(x[i, 0 : 256])
    store(y[0 : 256], t)
schedule p of k:
    warps = 4
"""


def laid_out(text: str) -> Function:
    """A kernel, ready for barriers."""
    variant = build_variant(parse_program(text), Request("k", "p"))
    before = [each.name for each in PASSES].index("insert_barriers")
    run_passes(variant.function, variant.target, PASSES[:before])
    return variant.function


def test_a_walk_says_what_needs_a_barrier() -> None:
    """A read of what was stored before the loop, and of what the iteration before stored; a store of what was read."""
    function = laid_out(TEXT)
    needs: list[Need] = []

    def needed(need: Need) -> None:
        needs.append(need)
        if len(needs) == 2:
            raise StopIteration

    with pytest.raises(StopIteration):
        BarrierWalk(order_of(function), needed).block(function.body, State())
    (loop,) = (op for op in function.body.ops if op.spec.control.loops)
    assert [need.scope for need in needs] == ["block", "block"]
    assert [(need.op.operands[0].name, bool(need.op.results)) for need in needs] == [("s", True), ("s", False)]
    assert all(need.block is loop.regions[0] for need in needs)
    assert not any(op.spec.orders for op in walk(function.body))


def test_steps_are_what_matters() -> None:
    function = laid_out(TEXT)
    steps = order_of(function).steps
    (loop,) = (op for op in function.body.ops if op.spec.control.loops)

    def told(ops: list[Op]) -> list[str | None]:
        return [op.operands[0].name if op.spec.access.kind else op.name for op in ops]

    assert told(steps.of(function.body)) == ["s", "for", "y"]
    assert told(steps.of(loop.regions[0])) == ["s", "s"]  # x is only read
    load, store = (steps.accesses.touches[i] for op in steps.of(loop.regions[0]) for i in steps.accesses_of(op))
    assert (load.write, store.write) == (False, True)
    assert (load.offsets, store.offsets) == (Affine((-1,), (), 255), Affine((1,), (), 0))
