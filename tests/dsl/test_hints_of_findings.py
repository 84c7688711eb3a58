"""What mends a finding of the emulator stands in its message: the place outside, the atomic, the schedule's line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dsl
from dsl.command.failures import GOES_ON, located
from dsl.examples.report import Check
from dsl.runtime import FindingError
from dsl.runtime.emulator.findings import Finding, Kind

ADDING = """\
kernel k(h: s32[16], x: s32[n]; B = 32):
    grid cdiv(n, B)
    i = block(0) * B + arange(B)
    b = load(x[i], mask=i < n)
    {store}
"""
REVERSED = """\
kernel k(y: f32[n], x: f32[n]; B = 64):
    grid cdiv(n, B)
    i = block(0) * B
    shared s: f32[B]
    v = x[i : i + B]
    s[arange(B)] = v
    y[i : i + B] = s[B - 1 - arange(B)]

schedule by_hand of k:
    warps = 2
    barriers manual                                                  # none is written
    layout v: vector [1], lanes [32], warps [2]
"""
OUTSIDE = """\
kernel k(y: f32[m, n], x: f32[m, n; strided], of: s32, at: s32):
    grid 1
    store(y[arange(1), arange(1)], load(x[of + arange(1), at + arange(1)]))
"""


def told(text: str, path: Path, *arguments: object) -> str:
    """The finding of a call, as commands show it."""
    path.write_text(text)
    with pytest.raises(FindingError) as caught:
        dsl.load(path, device="emulator").k(*arguments)
    error = located(caught.value, str(path))
    assert error is not None and error.loc is not None
    return error.render()


def test_a_race_within_one_statement_names_the_atomic(tmp_path: Path) -> None:
    h, x = np.zeros(16, np.int32), np.arange(64, dtype=np.int32) % 16
    store = "store(h[b], h[b] + 1, mask=i < n)"
    assert "hint: one statement" in told(ADDING.format(store=store), tmp_path / "k.tile", h, x)
    module = dsl.parse(ADDING.format(store="atomic_add(h[b], 1, mask=i < n)"), device="emulator")
    module.k(h := np.zeros(16, np.int32), x)
    assert (h == 4).all()


def test_a_race_in_shared_memory_names_the_line_that_left_barriers_out(tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.float32)
    text = told(REVERSED, tmp_path / "k.tile", np.zeros_like(x), x)
    line = 1 + REVERSED[: REVERSED.index("    barriers manual")].count("\n")
    assert f"hint: 'barriers manual' (line {line}) turns off automatic barriers" in text
    module = dsl.parse(REVERSED.replace("    barriers manual", "    math exp: fast"), device="emulator")
    module.k(y := np.zeros_like(x), x)
    assert (y == x[::-1]).all()


CHAIN = """\
kernel k(y: s32[n], flags: s32[n]):
    grid n
    i = block(0)
    store(y[i], 1, cache=volatile)
    if i > 0:
        while load(flags[i - 1], cache=volatile) == 0:
            i = block(0)
    store(flags[i], 1, cache=volatile)

schedule s of k:
    warps = 1
    choose tile_order.grid: {order}
"""


def test_a_wait_for_a_later_block_names_the_line_that_starts_it_later(tmp_path: Path) -> None:
    text = told(CHAIN.format(order="descending"), tmp_path / "k.tile", np.zeros(4, np.int32), np.zeros(4, np.int32))
    assert "comes later in the grid" in text and "hint: 'choose tile_order.grid: descending' (line 12)" in text
    module = dsl.parse(CHAIN.format(order="ascending"), device="emulator")
    module.k(np.zeros(4, np.int32), flags := np.zeros(4, np.int32))
    assert (flags == 1).all()


PLACES = {
    "behind": (np.ones((5, 8), np.float32), 5, 0, "just past the end of x", "index 5 of axis 0, which has 5"),
    "two rows further": (
        np.ones((5, 8), np.float32),
        7,
        3,
        "bytes past the end of x",
        "index 7 of axis 0, which has 5",
    ),
    "before": (np.ones((5, 8), np.float32), -1, 7, "before x", "index -1 of axis 0, which has 5"),
    "columns first": (np.ones((8, 5), np.float32).T, 0, 9, "past the end of x", "index 9 of axis 1, which has 8"),
    "far": (np.ones((5, 8), np.float32), 1 << 27, 0, "past the end of x", "negative, or more than its type holds"),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_place_outside_is_told_as_an_index(place: str, tmp_path: Path) -> None:
    x, of, at, where, index = PLACES[place]
    text = told(OUTSIDE, tmp_path / "k.tile", np.zeros(x.shape, np.float32), x, of, at)
    assert where in text and index in text and "assert record" not in text and "i < n" in text


AMONG = """\
kernel k(y: f32[n], x: f32[n], at: {type}[n]; CHOSEN = 0):
    grid 1
    i = at[0].to(s32) + arange(32)
    {line}
"""


@pytest.mark.parametrize("type", ["s32", "u64"])
@pytest.mark.parametrize("index", [2_000_000, -2_000_000])
@pytest.mark.parametrize(
    ("line", "meant"),
    [("store(y[i], x[0 : 32])", "y"), ("y[0 : 32] = load(x[i])", "x"), ("old = atomic_add(y[i], 1.0)", "y")],
)
def test_a_place_outside_is_told_of_the_array_that_is_indexed(
    line: str, meant: str, index: int, type: str, tmp_path: Path
) -> None:
    """Others lie nearer, and the parameters. A number that is loaded is no pointer to anywhere."""
    x, at = np.ones(32, np.float32), np.full(32, index, np.int64).astype(np.int32 if type == "s32" else np.uint64)
    text = told(AMONG.format(type=type, line=line), tmp_path / "k.tile", np.ones_like(x), x, at)
    assert f"{'before' if index < 0 else 'past the end of'} {meant} (128 bytes" in text
    assert f": index {index} of axis 0, which has 32" in text


NUMBERS = [
    (float("inf"), 9.5, None),
    (float("nan"), 1, "empty"),
    (2.0, 1.0, None),
    (float("inf"), float("inf"), None),
]


@pytest.mark.parametrize(("actual", "wanted", "word"), NUMBERS)
def test_a_result_that_is_no_number_says_what_makes_it_so(actual: float, wanted: float, word: str | None) -> None:
    hint = Check(False, 1.0, 0.0, 1, 4, [0], actual, wanted, text="y == x", line=1).hint
    assert word in hint if word is not None and hint is not None else hint is word


MENDS = [
    ("out of bounds: reads 4 bytes: 9 bytes before y (…), the nearest array: an index that is negative", "s64"),
    ("out of bounds: accesses shared memory of block 1 of the cluster, which may have ended before", "barrier.cluster"),
    ("out of bounds: a shared::cluster address of block rank 2 in a cluster of 2", "the ranks 0 to N - 1"),
    ("out of bounds: writes 4 bytes: just past the end of y", "store(y[i], v, mask="),
    ("out of bounds: reads 4 bytes: just past the end of y", "load(x[i], mask="),
    ("deadlock: every thread that can run repeats its loop", "the condition must become false"),
    ("division by zero: memory is written", "assert d != 0"),
]


@pytest.mark.parametrize(("said", "mend"), MENDS)
def test_the_mend_is_that_of_the_fault(said: str, mend: str) -> None:
    kind = said.partition(":")[0]
    finding = Finding(Kind(kind), said, last_writer=f"{GOES_ON} what another thread may write")
    error = located(FindingError(said, finding))
    assert error is not None and error.hint is not None and mend in error.hint


SHARED = """\
kernel k(y: f32[256], x: f32[256], bins: s32[256]):
    grid 1
    t = arange(256)
    shared a: f32[8]
    shared s: f32[256]
    {lines}

schedule lanes of k:
    warps = 8
    layout t: vector [1], lanes [32], warps [8]
    barriers {barriers}
"""
IN_SHARED_MEMORY = {
    "a statement of several threads": (["s = zeros(f32[256])", "s[bins[t]] += x[t]", "y[t] = s[t]"], "atomic_add(part"),
    "an index beyond its tile": (
        ["s[t] = x[t]", "if t % 32 == 31:", "    a[t // 32 + 1] = 1.0", "y[t] = s[t] + a[t // 32]"],
        "--strict-bounds tells",
    ),
    "a tile that nobody filled": (["y[t] = s[t]"], "a shared tile begins unwritten"),
    "no wait": (["copy(s, x[0 : 256])", "commit()", "wait(1)", "y[t] = s[t]"], "wait(0) none; then barrier()"),
}


@pytest.mark.parametrize("mistake", IN_SHARED_MEMORY)
def test_a_mistake_in_shared_memory_has_a_mend(mistake: str, tmp_path: Path) -> None:
    lines, mend = IN_SHARED_MEMORY[mistake]
    barriers = "manual" if mistake == "no wait" else "automatic"
    text = SHARED.format(lines="\n    ".join(lines), barriers=barriers)
    arrays = np.zeros(256, np.float32), np.arange(256, dtype=np.float32), np.arange(256, dtype=np.int32) // 8
    assert mend in told(text, tmp_path / "k.tile", *arrays)
