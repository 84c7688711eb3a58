"""Barriers stand where the order of accesses needs them and nowhere else.

The emulator is the judge: with the inserted barriers it finds nothing, and without any one of them it finds a race.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from dsl.lowering.ir.function import Block, Function, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.passes import PASSES, Pass
from dsl.runtime.emulator.findings import Kind
from tests.compile_and_run import compile_kernel, launch

X = np.random.default_rng(7).standard_normal((32, 256)).astype(np.float32)
SPREAD = "layout v: vector [1], lanes [32], warps [4]\n    layout w: vector [2], lanes [32], warps [4]"


@dataclass
class Case:
    """A kernel over y and x, the number of barriers of each scope, and what y is."""

    text: str
    block: int
    warp: int
    expected: Callable[[np.ndarray], np.ndarray]
    shape: tuple[int, ...] = (256,)
    warps: int = 4
    constants: dict[str, Any] = field(default_factory=dict)
    for_order: tuple[int, ...] = ()  # barriers between atomics: the result needs them, and no race shows it


def reversed_rows(x: np.ndarray) -> np.ndarray:
    return x[:4, ::-1].sum(0)


def every_third(x: np.ndarray) -> np.ndarray:
    out = np.zeros(256, np.float32)
    out[0:128:3] = x[0, 127::-1][0:128:3]
    return out


def overwritten(x: np.ndarray) -> np.ndarray:
    out = np.zeros(256, np.float32)
    for r in range(8):
        out[r // 3 * 3 :][:128] = x[r, :128]
    return out


CASES = {
    # Each thread comes back to its own elements.
    "own elements": Case(
        """
    shared s: f32[256]
    v = load(x[0, 0 : 256])
    s[0 : 256] = v
    store(y[0 : 256], s[0 : 256] * 2.0)
""", 0, 0, lambda x: x[0] * 2),
    "neighbours across warps": Case(
        """
    shared s: f32[256]
    s[0 : 256] = load(x[0, 0 : 256])
    i = 255 - arange(256)
    store(y[0 : 256], s[i])
""", 1, 0, lambda x: x[0, ::-1]),
    "one warp": Case(
        """
    shared s: f32[256]
    s[0 : 256] = load(x[0, 0 : 256])
    store(y[0 : 256], s[255 - arange(256)])
""", 0, 1, lambda x: x[0, ::-1], warps=1),
    "two writers": Case(
        """
    shared s: f32[256]
    s[0 : 256] = load(x[0, 0 : 256])
    s[255 - arange(256)] = load(x[1, 0 : 256])
    store(y[0 : 256], s[255 - arange(256)])
""", 2, 0, lambda x: x[1]),
    # Elements that no analysis tells apart.
    "stores in any order": Case(
        """
    i = arange(256)
    v = load(x[0, 0 : 256])
    store(y[i // 3 * 3 + i % 3], v, mask=i < 128, order=none)
    store(y[255 - i // 3 * 3 - i % 3], load(x[0, 255 - i]), mask=i < 128, order=none)
""", 0, 0, lambda x: x[0]),
    "different stages": Case(
        """
    shared s: f32[2, 256]
    s[0] = load(x[0, 0 : 256])
    s[1] = load(x[1, 0 : 256])
    a = load(s[0, 255 - arange(256)])
    b = load(s[1, 255 - arange(256)])
    store(y[0 : 256], a + b)
""", 1, 0, lambda x: (x[0] + x[1])[::-1]),
    "different parts": Case(
        """
    shared s: f32[512]
    s[0 : 256] = load(x[0, 0 : 256])
    s[256 : 512] = load(x[1, 0 : 256])
    store(y[0 : 256], s[255 - arange(256)] + s[511 - arange(256)])
""", 1, 0, lambda x: (x[0] + x[1])[::-1]),
    # One before the first loop serves the second loop, too, also if the first has no iteration.
    "two loops, one after the other": Case(
        """
    shared s: f32[256]
    s[0 : 256] = load(x[0, 0 : 256])
    a = zeros(f32[256])
    for i in range(0, rows // 32):
        a = a + s[255 - arange(256)]
    for i in range(0, rows // 32):
        a = a * s[255 - arange(256)]
    store(y[0 : 256], a)
""", 1, 0, lambda x: x[0, ::-1] ** 2),
    "read, then written in the next iteration": Case(
        """
    shared s: f32[256]
    t = zeros(f32[256])
    for i in range(0, 4):
        s[0 : 256] = load(x[i, 0 : 256])
        t = t + s[255 - arange(256)]
    store(y[0 : 256], t)
""", 2, 0, reversed_rows),
    "two stages by turns": Case(
        """
    shared s: f32[ring 2, 256]
    t = zeros(f32[256])
    for i in range(0, 4):
        s[i] = load(x[i, 0 : 256])
        t = t + load(s[i, 255 - arange(256)])
    store(y[0 : 256], t)
""", 1, 0, reversed_rows),
    "three stages by turns": Case(
        """
    shared s: f32[ring 3, 256]
    t = zeros(f32[256])
    for i in range(0, 4):
        s[i] = load(x[i, 0 : 256])
        t = t + load(s[i, 255 - arange(256)])
    store(y[0 : 256], t)
""", 1, 0, reversed_rows),
    "a stage an iteration, read in the next": Case(
        """
    shared s: f32[8, 256]
    t = zeros(f32[256])
    s[0] = load(x[0, 0 : 256])
    for i in range(0, 4):
        t = t + load(s[i, 255 - arange(256)])
        s[i + 1] = load(x[i + 1, 0 : 256])
    store(y[0 : 256], t)
""", 1, 0, reversed_rows),
    "all stages written, then all read": Case(
        """
    shared s: f32[4, 256]
    t = zeros(f32[256])
    for i in range(0, 4):
        s[i] = load(x[i, 0 : 256])
    for i in range(0, 4):
        t = t + load(s[i, 255 - arange(256)])
    store(y[0 : 256], t)
""", 1, 0, reversed_rows),
    "a while loop writes what its next iteration reads": Case(
        """
    shared s: f32[8, 256]
    s[0] = load(x[0, 0 : 256])
    t = zeros(f32[256])
    i = 0
    while i < 4:
        t = t + load(s[i, 255 - arange(256)])
        i = i + 1
        s[i] = load(x[i, 0 : 256])
    store(y[0 : 256], t)
""", 1, 0, reversed_rows),
    "stores of a loop": Case(
        """
    for i in range(0, 4):
        store(y[i * 64 : i * 64 + 64], load(x[0, i * 64 : i * 64 + 64]))
""", 0, 0, lambda x: x[0]),
    "global memory written and read back": Case(
        """
    store(y[0 : 256], load(x[0, 0 : 256]))
    v = load(y[255 - arange(256)])
    store(y[0 : 256], v)
""", 2, 0, lambda x: x[0, ::-1]),
    "a sum over warps": Case(
        """
    v = load(x[0, 0 : 256])
    store(y[0 : 256], v * 0.0 + max(v))
""", 1, 0, lambda x: np.full(256, x[0].max())),
    "a change of layout": Case(
        """
    v = load(x[0, 0 : 256])
    w = v + 1.0
    store(y[0 : 256], w)
""", 1, 0, lambda x: x[0] + 1),
    "atomics that combine": Case(
        """
    shared s: u32[8]
    s[0 : 8] = zeros(u32[8])
    for i in range(0, 4):
        atomic_add(s[arange(256) % 8], full(u32[256], 1))
    store(y[0 : 8], s[0 : 8].to(f32))
""", 2, 0, lambda x: np.where(np.arange(256) < 8, 128, 0)),
    "atomics that do not combine": Case(
        """
    shared s: u32[8]
    s[0 : 8] = zeros(u32[8])
    atomic_add(s[arange(256) % 8], full(u32[256], 1))
    atomic_max(s[arange(256) % 8], full(u32[256], 40))
    store(y[0 : 8], s[0 : 8].to(f32))
""", 3, 0, lambda x: np.where(np.arange(256) < 8, 40, 0), for_order=(1,)),
    "a branch of the block": Case(
        """
    shared s: f32[256]
    s[0 : 256] = load(x[0, 0 : 256])
    t = zeros(f32[256])
    if block(0) == 0:
        t = s[255 - arange(256)]
    store(y[0 : 256], t)
""", 1, 0, lambda x: x[0, ::-1]),
    "a warp's own elements, permuted": Case(
        """
    shared s: f32[128]
    s[0 : 128] = load(x[0, 0 : 128])
    store(y[0 : 128], s[arange(128) ^ 1])
    store(y[128 : 256], s[arange(128) // 3 * 3])
""", 1, 1, lambda x: np.concatenate([x[0, np.arange(128) ^ 1], x[0, np.arange(128) // 3 * 3]])),
    "two stages by turns, by a remainder": Case(
        """
    shared s: f32[2, 256]
    t = zeros(f32[256])
    for i in range(0, 4):
        s[i % 2] = load(x[i, 0 : 256])
        t = t + load(s[i & 1, 255 - arange(256)]) * (i % 2 + 1).to(f32)
    store(y[0 : 256], t)
""", 1, 0, lambda x: x[0, ::-1] + 2 * x[1, ::-1] + x[2, ::-1] + 2 * x[3, ::-1]),
    "a branch of threads": Case(
        """
    shared s: f32[128]
    s[0 : 128] = load(x[0, 0 : 128])
    k = arange(128)
    if k % 3 == 0:
        store(y[k], s[127 - k], mask=k >= 0)
""", 1, 0, every_third),
    # Where a row starts is one number, however it came about: its parts are apart (softmax's, of any columns).
    "parts behind one number that is no sum": Case(
        """
    i = ((arange(1) + cols - 256) // 3 * 3)[:, None] + arange(64)[None, :]
    for static k in range(4):
        store(y[i + 64 * k], load(x[k, 0 : 64])[None, :])
""", 0, 0, lambda x: x[:4, :64].reshape(-1)),
    "places behind two such numbers": Case(
        """
    i = ((arange(1) + cols - 256) // 3 * 3)[:, None] + arange(256)[None, :]
    j = ((arange(1) + cols - 256) // 5 * 5)[:, None] + arange(256)[None, :]
    store(y[i], load(x[0, 0 : 256])[None, :])
    store(y[255 - j], load(x[1, 0 : 256])[None, :])
""", 1, 0, lambda x: x[1, ::-1]),
    "places behind a number of each iteration": Case(
        """
    for r in range(0, 8):
        i = ((arange(1) + r) // 3 * 3)[:, None] + arange(128)[None, :]
        store(y[i], load(x[r, 0 : 128])[None, :])
""", 1, 0, overwritten),
}  # fmt: skip

RING = """
    shared s: f32[ring STAGES, 256]
    t = zeros(f32[256])
    for static i in range(STAGES - 1):
        copy(s[i], x[i, 0 : 256])
        commit()
    for i in range(0, 16):
        wait(STAGES - 2)
        t = t + load(s[i, 255 - arange(256)])
        copy(s[i + STAGES - 1], x[i + STAGES - 1, 0 : 256])
        commit()
    store(y[0 : 256], t)
"""
LATE_RING = """
    shared s: f32[ring STAGES, 256]
    t = zeros(f32[256])
    for static i in range(STAGES - 1):
        copy(s[i], x[i, 0 : 256])
        commit()
    wait(STAGES - 2)
    for i in range(0, 16):
        copy(s[i + STAGES - 1], x[i + STAGES - 1, 0 : 256])
        commit()
        t = t + load(s[i, 255 - arange(256)])
        wait(STAGES - 2)
    store(y[0 : 256], t)
"""
NESTED_RING = """
    shared s: f32[ring STAGES, 256]
    t = zeros(f32[256])
    for static i in range(STAGES - 1):
        copy(s[i], x[i, 0 : 256])
        commit()
    wait(STAGES - 2)
    at = 0
    for r in range(0, 4):
        t = t + 0.0 * load(s[at, 255 - arange(256)])
        for i in range(0, 4):
            copy(s[at + STAGES - 1], x[4 * r + i + STAGES - 1, 0 : 256])
            commit()
            t = t + load(s[at, 255 - arange(256)])
            wait(STAGES - 2)
            at = at + 1
    wait(0)
    store(y[0 : 256], t)
"""
for _stages in (2, 3, 4, 5):
    for _name, _text, _count in (
        ("a ring of copies", RING, 1),
        ("a ring of copies fetched first", LATE_RING, 1),
        ("a ring that goes on from loop to loop", NESTED_RING, 2),
    ):
        # With two stages, what is fetched first goes where the iteration before has read.
        CASES[f"{_name}, {_stages} stages"] = Case(
            _text, _count, 0, lambda x: x[:16, ::-1].astype(np.float64).sum(0), constants={"STAGES": _stages}
        )


def text_of(case: Case) -> str:
    rule = f"""
schedule s of k:
    warps = {case.warps}
    STAGES = 2
"""
    if "w = v" in case.text:
        rule += f"    {SPREAD}\n"
    return f"kernel k(y: f32[n], x: f32[rows, cols]; STAGES):\n    grid 1{case.text}{rule}"


def barriers(function: Function) -> list[tuple[Block, int]]:
    """The place of each barrier."""
    blocks = [function.body, *(region for op in walk(function.body) for region in op.regions)]
    return [(b, i) for b in blocks for i, op in enumerate(b.ops) if op.name == "barrier"]


def races(case: Case, without: int | None, seed: int) -> list[Kind]:
    """What the emulator finds, with barrier number `without` left out. Checks the result if it finds nothing."""

    def leave_out(function: Function, target: Any) -> None:
        if without is not None:
            block, i = barriers(function)[without]
            del block.ops[i]

    y = np.zeros(case.shape, np.float32)
    args = {"y": y, "x": X}
    passes = (*PASSES, Pass("leave_out", leave_out))
    kernel = compile_kernel(text_of(case), args, passes=passes, constants=case.constants)
    found = [f.kind for f in launch(kernel, args, seed=seed, collect=True).findings]
    if not found and without is None:
        np.testing.assert_allclose(y, case.expected(X), rtol=1e-5, atol=1e-5)
    return found


@pytest.mark.parametrize("name", CASES)
def test_barriers_are_where_they_are_needed(name: str) -> None:
    case = CASES[name]
    kernel = compile_kernel(text_of(case), {"x": X, "y": np.zeros(case.shape, np.float32)}, constants=case.constants)
    inserted = (kernel.count("barrier", scope="block"), kernel.count("barrier", scope="warp"))
    assert inserted == (case.block, case.warp)
    assert races(case, None, 0) == races(case, None, 1) == []


def test_the_emulator_finds_stores_that_do_need_an_order() -> None:
    body = """
    i = arange(256)
    store(y[i // 3 * 3 + i % 3], load(x[0, 0 : 256]), order=none)
    store(y[255 - i // 3 * 3 - i % 3], load(x[1, 0 : 256]), order=none)
"""
    assert Kind.RACE in races(Case(body, 0, 0, lambda x: x[1, ::-1]), None, 0)


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.block + c.warp])
def test_no_barrier_can_be_left_out(name: str) -> None:
    case = CASES[name]
    for i in {*range(case.block + case.warp)} - {*case.for_order}:
        found = races(case, i, 0) or races(case, i, 1)
        assert set(found) & {Kind.RACE, Kind.IN_FLIGHT}, f"barrier {i} of '{name}' is not needed"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "copy(s[0], x[0, 0 : 256])\n    commit()\n    v = load(s[0, 0 : 256])",
            "'s' while the copy of line 5 into it",
        ),
        (
            "copy(s[0], x[0, 0 : 256])\n    wait(0)\n    v = load(s[0, 0 : 256])",
            "'s' while the copy of line 5 into it",
        ),
        (
            "copy(s[0], x[0, 0 : 256])\n    commit()\n    copy(s[1], x[1, 0 : 256])\n    commit()\n    wait(1)\n"
            "    v = load(s[1, 0 : 256])",
            "reads 's' while the copy of line 7 into it",
        ),
        ("copy(s[0], x[0, 0 : 256])\n    commit()\n    s[0] = zeros(f32[256])\n    v = zeros(f32[256])", "writes 's'"),
        (
            "copy(s[0], y[0 : 256])\n    commit()\n    v = zeros(f32[256])",
            "writes 'y' while the copy of line 5 from it",
        ),
    ],
)
def test_a_copy_in_flight_is_not_touched(body: str, message: str) -> None:
    text = f"""
kernel k(y: f32[n], x: f32[rows, cols]):
    grid 1
    shared s: f32[4, 256]
    {body}
    store(y[0 : 256], v)
"""
    with pytest.raises(TileError) as caught:
        compile_kernel(text, {"x": X, "y": np.zeros(256, np.float32)})
    assert message in caught.value.message and caught.value.loc is not None


def test_a_ring_that_does_not_go_on_is_an_error() -> None:
    """Its stages are counted from 0 in each iteration of the outer loop, while copies of the last one are in flight.
    With four stages they come out where they would have gone on."""
    text = NESTED_RING.replace("        t = t + 0.0 * load", "        at = 0\n        t = t + 0.0 * load")
    args = {"x": X, "y": np.zeros(256, np.float32)}
    for stages in (3, 5):
        with pytest.raises(TileError, match=r"while the copy of line .* into it may be in flight"):
            compile_kernel(text_of(Case(text, 0, 0, reversed_rows)), args, constants={"STAGES": stages})
    compile_kernel(text_of(Case(text, 0, 0, reversed_rows)), args, constants={"STAGES": 4})


def test_a_wait_for_all_copies_may_find_them_there() -> None:
    """It says so to a reader, and holds for any number of stages; one that leaves copies in flight must wait."""
    text = """
kernel k(y: f32[n], x: f32[rows, cols]; LEFT):
    grid 1
    shared s: f32[2, 256]
    copy(s[0], x[0, 0 : 256])
    commit()
    wait(0)
    wait(LEFT)
    store(y[0 : 256], s[0])
"""
    args = {"x": X, "y": np.zeros(256, np.float32)}
    launch(compile_kernel(text, args, constants={"LEFT": 0}), args)
    assert (args["y"] == X[0]).all()
    with pytest.raises(TileError, match=r"wait\(1\) never waits"):
        compile_kernel(text, args, constants={"LEFT": 1})


def test_a_loop_that_commits_without_waiting_is_waited_for_after_it() -> None:
    y = np.zeros(256, np.float32)
    text = """
kernel k(y: f32[n], x: f32[rows, cols]):
    grid 1
    shared s: f32[8, 256]
    for i in range(0, 8):
        copy(s[i], x[i, 0 : 256])
        commit()
    wait(0)
    t = zeros(f32[256])
    for i in range(0, 8):
        t = t + load(s[i, 255 - arange(256)])
    store(y[0 : 256], t)
"""
    kernel = compile_kernel(text, {"x": X, "y": y})
    assert kernel.count("barrier") == 1
    launch(kernel, {"x": X, "y": y})
    np.testing.assert_allclose(y, X[:8, ::-1].sum(0), rtol=1e-5, atol=1e-5)


def test_what_an_outer_round_did_is_ordered_before_the_inner_loop() -> None:
    """Not in each iteration of the inner loop."""
    text = """
kernel k(y: f32[rows, n], x: f32[rows, cols]):
    grid 1
    for r in range(block(0), rows, grid(0)):
        for i in range(0, n, 64):
            store(y[r, i : i + 64], load(x[r, i : i + 64]))
"""
    args = {"x": X, "y": np.zeros((32, 256), np.float32)}
    kernel = compile_kernel(text, args)
    outer = next(op for op in kernel.ops if op.name == "for").regions[0]
    assert [op.name for op in outer.ops if op.name in ("barrier", "for")] == ["barrier", "for"]
    assert kernel.count("barrier") == 1
    launch(kernel, args)
    assert (args["y"] == X).all()


def test_manual_barriers_are_the_users() -> None:
    text = """
kernel k(y: f32[n], x: f32[rows, cols]):
    grid 1
    shared s: f32[256]
    s[0 : 256] = load(x[0, 0 : 256])
    store(y[0 : 256], s[255 - arange(256)])
schedule s of k:
    barriers manual
"""
    args = {"x": X, "y": np.zeros(256, np.float32)}
    kernel = compile_kernel(text, args)
    assert kernel.count("barrier") == 0
    assert Kind.RACE in [f.kind for f in launch(kernel, args, collect=True).findings]


OWN = """
kernel k(y: f32[256], x: f32[256, 256], ticket: s32[1]):
    grid 1
    {body}
schedule s of k:
    warps = 4
    barriers manual
    {line}
"""
SUMS = """acc = zeros(f32[16])
    for i in range(0, 64, 16):
        acc = acc + sum(load(x[i : i + 16, 0 : 16]), axis=0)
    store(y[0 : 16], acc)"""


@pytest.mark.parametrize(("body", "line"), [
    ("t = atomic_add(ticket[0], 1)\n    store(y[0 : 256], load(x[t, 0 : 256]) + t.to(f32))", ""),
    ("store(y[0 : 256], load(x[0, 0 : 256]) + load(ticket[0], cache=volatile).to(f32))", ""),
    ("y[0 : 256] = load(x[0, 0 : 256]) + sum(load(x[0, 0 : 256]))", ""),
    ("for i in range(3):\n        t = atomic_add(ticket[0], 1)\n        y[0 : 256] = load(x[t, 0 : 256])", ""),
    ("v = load(x[0 : 16, 0 : 16])\n    store(y[0 : 16], sum(v, axis=0) + sum(v, axis=1))",
     "layout v: vector [1, 2], lanes [4, 8], warps [4, 1]"),
    (SUMS, "stage x: shared"),
    (SUMS, "stage x: shared\n    pipeline i: 2"),
])  # fmt: skip
def test_barriers_of_the_compilers_own_tiles_stay_with_manual_ones(body: str, line: str) -> None:
    """No text can have a barrier between a store to scratch memory and its load."""
    results, barriers = [], []
    for words in ("manual", "automatic"):
        text = OWN.format(body=body, line=line).replace("manual", words)
        args = {"x": np.arange(65536, dtype=np.float32).reshape(256, 256), "y": np.zeros(256, np.float32)}
        args["ticket"] = np.zeros(1, np.int32)
        kernel = compile_kernel(text, args)
        launch(kernel, args)
        results.append(args["y"])
        barriers.append(kernel.count("barrier"))
    assert barriers[0] >= 1 and np.array_equal(*results)


def test_threads_that_meet_in_a_branch_of_threads_are_an_error() -> None:
    text = """
kernel k(y: f32[n], x: f32[rows, cols]):
    grid 1
    shared s: f32[128]
    k = arange(128)
    v = load(x[0, 0 : 128])
    if k % 2 == 0:
        store(s[k], v)
        store(y[k], s[127 - k])
"""
    with pytest.raises(TileError, match="branch of threads"):
        compile_kernel(text, {"x": X, "y": np.zeros(128, np.float32)})
