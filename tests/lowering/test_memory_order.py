"""What a block releases to others is what all its threads did, and what it acquires is there for all of them.

A release and an acquire are made by one thread; barriers join it with the others (PTX ISA 8, "Causality order"). Each
kernel is compiled, counted, and run with and without the barriers that stand for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsl.lowering.ir.function import walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.passes import PASSES, Pass
from dsl.runtime.emulator.findings import Kind
from tests.compile_and_run import Kernel, compile_kernel, launch

WARPS = 4
PER_BLOCK = 32 * WARPS
X = np.arange(2 * PER_BLOCK, dtype=np.float32)
HEAD = "kernel k(y: f32[n], x: f32[n], flag: u32[flags]):\n    grid {blocks}\n"
SCHEDULE = f"\nschedule s of k:\n    warps = {WARPS}\n"


def compiled(body: str, blocks: int = 2, without: int | None = None) -> Kernel:
    """The kernel of `body`; with `without`, that barrier of scope block is left out."""

    def leave_out(function: Any, target: Any) -> None:
        regions = [function.body, *(r for op in walk(function.body) for r in op.regions)]
        places = [(b, op) for b in regions for op in b.ops if op.name == "barrier" and op.attrs["scope"] == "block"]
        if without is not None:
            block, barrier = places[without]
            block.ops.remove(barrier)

    args = {"y": np.zeros_like(X), "x": X, "flag": np.zeros(2, np.uint32)}
    passes = (*PASSES, Pass("leave_out", leave_out))
    return compile_kernel(HEAD.format(blocks=blocks) + body + SCHEDULE, args, passes=passes)


def found(kernel: Kernel, seed: int = 0) -> tuple[set[Kind], np.ndarray]:
    args = {"y": np.zeros_like(X), "x": X, "flag": np.zeros(2, np.uint32)}
    result = launch(kernel, args, seed=seed, collect=True)
    return {f.kind for f in result.findings}, args["y"]


MINE = f"[block(0) * {PER_BLOCK} : block(0) * {PER_BLOCK} + {PER_BLOCK}]"
OTHERS = f"[(1 - block(0)) * {PER_BLOCK} : (1 - block(0)) * {PER_BLOCK} + {PER_BLOCK}]"

LAST_DOUBLES = f"""
    store(y{MINE}, load(x{MINE}))
    if atomic_add(flag[0], 1, order=acq_rel) == 1:
        store(y{OTHERS}, 2.0 * load(y{OTHERS}))
"""
LOCK = f"""
    while atomic_cas(flag[0], 0, 1, order=acquire) != 0:
        pass_by = 0
    store(y[0 : {PER_BLOCK}], load(y[0 : {PER_BLOCK}]) + load(x[0 : {PER_BLOCK}]))
    atomic_exchange(flag[0], 0, order=release)
"""
WAITING = f"""
    if block(0) == 0:
        store(y[0 : {PER_BLOCK}], load(x[0 : {PER_BLOCK}]))
        atomic_exchange(flag[0], 1, order=release)
    else:
        while atomic_add(flag[0], 0, order=acquire) == 0:
            pass_by = 0
        store(y[{PER_BLOCK} : {2 * PER_BLOCK}], load(y[0 : {PER_BLOCK}]))
"""

ADD = "atomic_add(flag[arange(128) % 2], full(u32[128], 1)"

# body, barriers of the block in the text, what y is.
ORDERED: dict[str, tuple[str, int, Any]] = {
    "the last block reads what others stored": (LAST_DOUBLES, 2, None),
    "a lock": (LOCK, 3, np.concatenate([2 * X[:PER_BLOCK], 0 * X[:PER_BLOCK]])),
    "a flag that others wait for": (WAITING, 3, np.concatenate([X[:PER_BLOCK], X[:PER_BLOCK]])),
}


@pytest.mark.parametrize("name", ORDERED)
def test_a_release_covers_what_all_threads_did(name: str) -> None:
    body, barriers, expected = ORDERED[name]
    kernel = compiled(body)
    assert kernel.count("barrier", scope="block") == barriers
    for seed in (0, 1):
        kinds, y = found(kernel, seed)
        assert not kinds
        assert expected is None or (y == expected).all()


@pytest.mark.parametrize("name", ORDERED)
def test_no_barrier_for_it_can_be_left_out(name: str) -> None:
    """Each of them orders what a release or an acquire concerns, or the scratch through which the result goes."""
    body, barriers, _ = ORDERED[name]
    for i in range(barriers):
        kernel = compiled(body, without=i)
        kinds = set().union(*(found(kernel, seed)[0] for seed in range(4)))  # a second iteration may need luck
        assert kinds & {Kind.RACE, Kind.DEADLOCK}, f"barrier {i} of '{name}' is not needed"


@pytest.mark.parametrize(
    ("body", "barriers"),
    [
        ("    store(y[block(0)], x[0])\n    atomic_add(flag[0], 1, order=release)\n", 0),  # thread 0 did both
        ("    v = load(x[0 : 128])\n    atomic_add(flag[0], 1, order=release)\n    store(y[0 : 128], v)\n", 0),
        (f"    store(y{MINE}, load(x{MINE}))\n    atomic_add(flag[0], 1)\n", 0),  # relaxed
        (f"    store(y{MINE}, load(x{MINE}))\n    atomic_add(flag[0], 1, order=acquire)\n", 0),
        (f"    store(y{MINE}, load(x{MINE}))\n    atomic_add(flag[0], 1, order=release, scope=block)\n", 0),
        (f"    store(y{MINE}, load(x{MINE}))\n    atomic_add(flag[0], 1, order=release, scope=system)\n", 1),
        # A host or another kernel may write what this one only reads, and wait for its release to write more.
        ("    assert x[3] < 256.0\n    atomic_add(flag[0], 1, order=release, scope=system)\n", 1),
        ("    atomic_add(flag[0], 1, order=acquire, scope=system)\n    assert x[3] < 256.0\n", 1),
        (f"    v = load(y{MINE})\n    atomic_add(flag[0], 1, order=release)\n    store(y{MINE}, v)\n", 1),
        (f"    atomic_add(flag[0], 1, order=acquire)\n    store(y{MINE}, load(x{MINE}))\n", 1),
        (f"    atomic_add(flag[0], 1, order=acquire)\n    {ADD}, order=release)\n", 1),
        # Each thread releases what it did itself, but others see one release of what the block did.
        (f"    store(y{MINE}, load(x{MINE}))\n    {ADD}, order=release)\n", 1),
    ],
)  # fmt: skip
def test_barriers_stand_where_a_release_or_an_acquire_concerns_others(body: str, barriers: int) -> None:
    assert compiled(body).count("barrier", scope="block") == barriers


def test_an_order_inside_a_branch_of_threads_is_refused_where_it_concerns_others() -> None:
    body = """
    t = arange(128)
    if t < 64:
        store(y[t], x[t])
        atomic_add(flag[t % 2], full(u32[128], 1), order=release)
"""
    with pytest.raises(TileError, match="the order of this atomic"):
        compiled(body)


def test_a_release_waits_for_copies_from_what_others_may_write() -> None:
    body = """
    shared s: f32[128]
    copy(s[0 : 128], y[0 : 128])
    commit()
    atomic_add(flag[0], 1, order=release)
    wait(0)
    store(y[128 : 256], s[0 : 128])
"""
    with pytest.raises(TileError, match=r"releases what .* while the copy of line .* from 'y' may be in flight"):
        compiled(body)


POLL = f"""
    shared s: f32[128]
    if block(0) == 0:
        atomic_exchange(flag[0], 1)
    else:
        v = load(x[0 : {PER_BLOCK}])
        while WHAT == 0:
            s[0 : 128] = v
            v = s[127 - arange(128)]
        store(y[0 : {PER_BLOCK}], v * 0.0)
"""


@pytest.mark.parametrize(
    "what",
    [
        "load(flag[0], cache=volatile)",
        "max(load(flag[0 : 2], cache=volatile))",
        "max(load(flag[arange(2)], cache=volatile))",
    ],
)
def test_what_others_may_write_is_loaded_by_one_thread_for_all(what: str) -> None:
    """It decides a loop that holds barriers: threads that each load it could leave in different iterations."""
    kernel = compiled(POLL.replace("WHAT", what))
    flags = [op for op in kernel.ops if op.name == "load" and op.attrs["cache"] == "volatile"]
    assert [op.attrs.get("one_thread") for op in flags] == [True]
    for seed in (0, 1):
        assert not found(kernel, seed)[0]


def test_a_volatile_scalar_in_a_branch_of_threads_is_refused() -> None:
    body = "    t = arange(128)\n    if t < 64:\n        store(y[t], load(y[0], cache=volatile) + x[t])\n"
    with pytest.raises(TileError, match="a volatile load of a scalar inside a tile 'if'"):
        compiled(body)


NESTED = """
    shared s: f32[128]
    t = arange(128)
    s[t] = load(x[0 : 128])
    if OUTER:
        if INNER:
            s[t] = 1.0
        else:
            store(y[t], s[127 - t])
"""


@pytest.mark.parametrize(
    ("outer", "inner"), [("t < 100", "t < 50"), ("block(0) == 0", "t < 50"), ("t < 100", "t % 2 == 0")]
)
def test_the_sides_of_a_nested_branch_of_threads_are_compared(outer: str, inner: str) -> None:
    with pytest.raises(TileError, match="meets one of another thread in the same branch"):
        compiled(NESTED.replace("OUTER", outer).replace("INNER", inner))


def test_the_sides_of_a_branch_of_the_block_are_not_compared() -> None:
    assert compiled(NESTED.replace("OUTER", "t < 100").replace("INNER", "block(0) == 0")).count("barrier") == 1
