"""Shared tiles lie in the same bytes where one is not needed any more when the other begins, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.lowering.ir.location import TileError
from dsl.runtime.emulator.findings import EmulatorError
from tests.compile_and_run import compile_kernel, launch

HEAD = """
kernel k(y: s32[n, 128], x: s32[n, 128], a: s32):
    grid 1
    shared s: s32[128]
    shared t: s32[128]
"""
TAIL = """
schedule p of k:
    warps = 4
"""
X = np.arange(512, dtype=np.int32).reshape(4, 128)


def body(lines: str) -> str:
    return HEAD + "\n".join("    " + line for line in lines.strip("\n").splitlines()) + TAIL


def bytes_of(text: str, n: int = 4, a: int = 1) -> tuple[int, np.ndarray]:
    """The shared memory that it takes, and what it makes of X: a race or a read of nothing is an error."""
    args = {"y": np.zeros((n, 128), np.int32), "x": X[:n].copy(), "a": a}
    kernel = compile_kernel(text, args)
    launch(kernel, args)
    return kernel.variant.function.attrs["shared_bytes"], args["y"]


TURNED = """
s = load(x[0, :])
store(y[0, :], s[127 - arange(128)])
{between}
t = load(x[1, :])
store(y[1, :], t[127 - arange(128)])
"""


def test_tiles_in_turn_with_a_barrier_between() -> None:
    used, y = bytes_of(body(TURNED.format(between="barrier()")))
    assert used == 512
    assert (y[:2] == X[:2, ::-1]).all()


def test_no_barrier_is_added_while_there_is_room() -> None:
    text = body(TURNED.format(between=""))
    used, y = bytes_of(text)
    assert used == 1024
    assert (y[:2] == X[:2, ::-1]).all()


LARGE = """
kernel k(y: s32[2, 32768], x: s32[2, 32768]):
    grid 1
    shared s: s32[32768]
    shared t: s32[32768]
    {how}
schedule p of k:
    warps = 32
    {manual}
"""
EACH = """v = load(x[0, :])
    s = v
    store(y[0, :], s[32767 - arange(32768)])
    w = load(x[1, :])
    t = w
    store(y[1, :], t[32767 - arange(32768)])"""


def test_barriers_make_room_where_there_is_too_little() -> None:
    """128 kB each: one fits, two do not."""
    x = np.arange(65536, dtype=np.int32).reshape(2, 32768)
    args = {"y": np.zeros_like(x), "x": x}
    kernel = compile_kernel(LARGE.format(how=EACH, manual=""), args, arch="sm_90")
    assert kernel.variant.function.attrs["shared_bytes"] == 131072
    launch(kernel, args)
    assert (args["y"] == x[:, ::-1]).all()
    with pytest.raises(TileError, match="needs 262144 bytes"):
        compile_kernel(LARGE.format(how=EACH, manual="barriers manual"), args, arch="sm_90")


@pytest.mark.parametrize(("warps", "used"), [(4, 65536), (8, 131072)])
def test_barriers_make_room_for_a_second_block(warps: int, used: int) -> None:
    """64 kB each: with both a multiprocessor has one block, whose four warps would be all that it has to do."""
    x = np.arange(32768, dtype=np.int32).reshape(2, 16384)
    args = {"y": np.zeros_like(x), "x": x}
    text = LARGE.format(how=EACH, manual="").replace("32768", "16384").replace("32767", "16383")
    kernel = compile_kernel(text.replace("warps = 32", f"warps = {warps}"), args, arch="sm_90")
    assert kernel.variant.function.attrs["shared_bytes"] == used
    launch(kernel, args)
    assert (args["y"] == x[:, ::-1]).all()


def test_both_needed_at_once_is_too_much() -> None:
    x = np.arange(65536, dtype=np.int32).reshape(2, 32768)
    how = """s = load(x[0, :])
    t = load(x[1, :])
    i = 32767 - arange(32768)
    store(y[0, :], s[i] + t[i])"""
    with pytest.raises(TileError, match="needs 262144 bytes"):
        compile_kernel(LARGE.format(how=how, manual=""), {"y": x, "x": x}, arch="sm_90")


def test_what_a_loop_keeps_is_kept() -> None:
    """s is read in each iteration and written before the loop only; t in each iteration anew."""
    used, y = bytes_of(
        body("""
s = load(x[0, :])
for i in range(n):
    barrier()
    t = load(x[i, :])
    store(y[i, :], t[127 - arange(128)] + s[127 - arange(128)])
    barrier()
""")
    )
    assert used == 1024
    assert (y == X[:, ::-1] + X[0, ::-1]).all()


def test_what_one_round_leaves_to_the_next_is_kept() -> None:
    used, y = bytes_of(
        body("""
s = load(x[0, :])
for i in range(n):
    barrier()
    before = s[127 - arange(128)]
    barrier()
    s = load(x[i, :])
    barrier()
    t = before
    barrier()
    store(y[i, :], t[:])
    barrier()
""")
    )
    assert used == 1024
    assert (y == X[[0, 0, 1, 2], ::-1]).all()


def test_rounds_that_begin_anew_share() -> None:
    used, y = bytes_of(
        body("""
i = 0
while i < n:
    s = load(x[i, :])
    barrier()
    v = s[127 - arange(128)]
    barrier()
    t = v + a
    barrier()
    store(y[i, :], t[arange(128) ^ 1])
    barrier()
    i = i + 1
""")
    )
    assert used == 512
    assert (y == X[:, ::-1].reshape(4, 64, 2)[:, :, ::-1].reshape(4, 128) + 1).all()


def test_a_round_and_the_next_without_a_barrier_between() -> None:
    used, y = bytes_of(
        body("""
for i in range(n):
    s = load(x[i, :])
    barrier()
    v = s[127 - arange(128)]
    barrier()
    t = v + a
    barrier()
    store(y[i, :], t[arange(128) ^ 64])
""")
    )
    assert used == 1024
    assert (y == np.roll(X[:, ::-1], 64, axis=1) + 1).all()


COPIED = """
copy(s[:], x[0, :])
commit()
{wait}
barrier()
v = load(x[1, :])
t = v
barrier()
store(y[1, :], t[127 - arange(128)])
"""


@pytest.mark.parametrize(("wait", "wanted"), [("wait(0)", 512), ("", 1024)])
def test_copies_in_flight_have_their_bytes(wait: str, wanted: int) -> None:
    used, y = bytes_of(body(COPIED.format(wait=wait)))
    assert used == wanted
    assert (y[1] == X[1, ::-1]).all()


def test_one_side_of_a_branch() -> None:
    """t is written on one side only: what it holds on the other is what it held before."""
    text = body("""
t = load(x[0, :])
barrier()
s = load(x[1, :])
barrier()
v = s[127 - arange(128)]
barrier()
if a > 0:
    t = v
barrier()
store(y[0, :], t[:])
""")
    for a, wanted in ((1, X[1, ::-1]), (0, X[0])):
        used, y = bytes_of(text, a=a)
        assert used == 1024
        assert (y[0] == wanted).all()


HALVES = {
    "one": "t[0 : 64] = load(x[1, 0 : 64])",
    "ends": "e = arange(2)[:, None] * 96 + arange(32)[None, :]\nt[e] = load(x[1, e])",
    "even": "i = arange(128)\nif i % 2 == 0:\n    t[i] = load(x[1, i])",
    "twice": "e = arange(32)[:, None] * 4 + zeros(s32[32, 4])\nt[e] = load(x[1, e])",
    "masked": "i = arange(128)\nstore(t[i], load(x[1, i]), mask=i < 64)",
}


@pytest.mark.parametrize("half", HALVES)
def test_elements_that_nothing_wrote_are_found_as_before(half: str) -> None:
    """The half of t that is not written must not be what s left there."""
    text = body(f"""
s = load(x[0, :])
barrier()
store(y[0, :], s[127 - arange(128)])
barrier()
{HALVES[half]}
barrier()
store(y[1, :], t[127 - arange(128)])
""")
    if half == "twice":  # by one thread each
        text = text.replace("warps = 4", "warps = 1\n    layout e: vector [1, 4], lanes [32, 1], warps [1, 1]")
    with pytest.raises(EmulatorError, match="nobody has written"):
        bytes_of(text)


def test_threads_of_a_branch_share_nothing() -> None:
    """No barrier can stand between its reads of s and its writes of t, even if there is too little memory."""
    how = """v = load(x[0, :])
    s = v
    i = arange(1024)
    if i % 2 == 0:
        store(y[0, i], s[32767 - i])
        t[i] = load(x[1, i])"""
    x = np.zeros((2, 32768), np.int32)
    with pytest.raises(TileError, match="needs 262144 bytes"):
        compile_kernel(LARGE.format(how=how, manual=""), {"y": x, "x": x}, arch="sm_90")
