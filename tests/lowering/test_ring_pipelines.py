"""Rings of copies, however their stages are counted: what is right is taken, rolled and unrolled; short waits never."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dsl.lowering.ir.location import TileError
from dsl.studies.check import check_file
from tests.compile_and_run import compile_kernel, launch
from tests.whole import some

BLOCK, ROUNDS, TILES = 64, 5, 3
X = np.random.default_rng(1).standard_normal((TILES * ROUNDS + 8) * BLOCK).astype(np.float32)

HEAD = """kernel k(y: f32[n], x: f32[m], iterations: s32; STAGES = {stages}):
    grid 1
    shared s: f32[ring STAGES, 64]
    total = 3
    depth = {depth}
    for static j in range(STAGES - 1):
        copy(s[j], x[j * 64 : j * 64 + 64])
        commit()
"""

ROW = """        wait({left})
        acc = acc + s[READ]
        copy(s[WRITE], x[FROM * 64 : FROM * 64 + 64])
        commit()
"""
DOUBLE = """        wait({left})
        v = s[READ]
        copy(s[WRITE], x[FROM * 64 : FROM * 64 + 64])
        commit()
        store(y[t * 64 : t * 64 + 64], v * 2.0)
"""


def one(read: str, write: str, start: str = "", count: str = "", loop: str = "for t in range(depth):") -> str:
    """A loop over the iterations of one tile."""
    row = DOUBLE.replace("READ", read).replace("WRITE", write).replace("FROM", "(t + STAGES - 1)")
    return f"{start}    {loop}\n{row}{count}"


def tiles(read: str, write: str, count: str = "", start: str = "", behind: str = "") -> str:
    """Tile after tile, whose copies go on from one to the next."""
    row = ROW.replace("READ", read).replace("WRITE", write).replace("FROM", f"({write})" if "%" not in count else "put")
    inner = "".join(f"    {line}\n" for line in (row + count).splitlines())
    return (
        f"{start}    for tile in range(total):\n        acc = zeros(f32[64])\n        for t in range(depth):\n"
        f"{inner}{behind}        store(y[tile * 64 : tile * 64 + 64], acc)\n"
    )


AT = "    at = 0\n"
ON = "        at = at + 1\n"
PIPELINES = {
    "by its counter": one("t", "t + STAGES - 1"),
    "by a number of its own": one("at", "at + STAGES - 1", AT, ON),
    "by two numbers": one("at", "put", AT + "    put = STAGES - 1\n", ON + "        put = put + 1\n"),
    "by a counter and a number": one("t", "put", "    put = STAGES - 1\n", "        put = put + 1\n"),
    "by a remainder": one("t % STAGES", "(t + STAGES - 1) % STAGES"),
    "by a number that wraps": one("at", "at + STAGES - 1", AT, "        at = (at + 1) % STAGES\n"),
    "while": one("t", "t + STAGES - 1", "    t = 0\n", "        t = t + 1\n", "while t < depth:"),
    "tiles by a number": tiles("at", "at + STAGES - 1", "        at = at + 1\n", AT),
    "tiles by two numbers": tiles(
        "at", "put", "        at = at + 1\n        put = put + 1\n", AT + "    put = STAGES - 1\n"
    ),
    "tiles by a base": tiles(
        "base + t", "base + t + STAGES - 1", "", "    base = 0\n", "        base = base + depth\n"
    ),
    "tiles by a number that wraps": tiles(
        "at",
        "at + STAGES - 1",
        "        at = (at + 1) % STAGES\n        put = put + 1\n",
        AT + "    put = STAGES - 1\n",
    ),
}
DEPTHS = {"a number": "5", "a dim": "n // 192", "a scalar": "iterations"}
UNKNOWN = {("tiles by a base", "a scalar")}  # the loop may have no iterations where the base goes on by fewer than none


def text_of(name: str, stages: int, unroll: int, depth: str, left: int | None = None) -> str:
    left = stages - 2 if left is None else left
    text = (HEAD + PIPELINES[name]).format(stages=stages, left=left, depth=DEPTHS[depth])
    return text + "schedule p of k:\n    warps = 2\n" + (f"    unroll t: {unroll}\n" if name != "while" else "")


def arguments(name: str) -> tuple[dict, np.ndarray]:
    size = TILES * ROUNDS * BLOCK if "tiles" not in name else TILES * BLOCK
    rows = X[: TILES * ROUNDS * BLOCK].reshape(TILES, ROUNDS, BLOCK)
    want = rows.sum(1).ravel() if "tiles" in name else X[: ROUNDS * BLOCK] * 2
    return {"y": np.zeros(max(size, ROUNDS * 192), np.float32), "x": X, "iterations": ROUNDS}, want


@pytest.mark.long
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("name", PIPELINES)
def test_a_ring_is_taken_rolled_and_unrolled(name: str, depth: str) -> None:
    for stages, unroll in some(product((2, 3, 4), (1, 2, 3, 4)), 2):
        args, want = arguments(name)
        if (name, depth) in UNKNOWN and stages > 2:
            with pytest.raises(TileError, match="in flight"):
                compile_kernel(text_of(name, stages, unroll, depth), args)
            continue
        variant = compile_kernel(text_of(name, stages, unroll, depth), args)
        if (stages, unroll) in ((3, 1), (3, 2), (4, 3)):
            launch(variant, args)
            assert np.allclose(args["y"][: want.size], want, atol=1e-5), (stages, unroll)


@pytest.mark.parametrize("name", PIPELINES)
def test_a_ring_whose_wait_is_too_short_is_refused_rolled_and_unrolled(name: str) -> None:
    for unroll in (1, 2, 3):
        with pytest.raises(TileError, match="in flight"):
            compile_kernel(text_of(name, 4, unroll, "a number", left=3), arguments(name)[0])


@pytest.mark.parametrize("name", PIPELINES)
def test_a_ring_with_fewer_slots_than_are_in_flight_is_refused(name: str) -> None:
    text = text_of(name, 4, 2, "a dim").replace("ring STAGES,", "ring 2,")
    with pytest.raises(TileError, match="in flight"):
        compile_kernel(text, arguments(name)[0])


def test_check_says_of_unrolled_code_what_a_run_says(tmp_path: Path) -> None:
    """Of a loop too that may begin beyond its end, so that nothing is known of what is behind it."""
    tail = "    for static j in range(STAGES - 1):\n        wait(STAGES - 2 - j)\n        u = depth + j\n"
    tail += "        store(y[u * 64 : u * 64 + 64], s[u])\n"
    for depth in DEPTHS:
        text = text_of("by its counter", 3, 2, depth).replace("schedule", tail + "schedule")
        path = tmp_path / "k.tile"
        path.write_text(text)
        try:
            compile_kernel(text, arguments("by its counter")[0])
            said = None
        except TileError as error:
            said = error.message
        assert [error.message for error in check_file(path).errors] == ([] if said is None else [said]), depth
