"""`while` on a tile: each thread, or each warp, goes the iterations that its own elements need."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dsl
from tests.compile_and_run import compile_kernel, run

COLLATZ = """\
kernel collatz(y: s32[n], x: s32[n]; BLOCK = 128, WARPS = 4):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    v = x[i : i + BLOCK]
    steps = 0
    while v > 1:
        v = where(v % 2 == 0, v // 2, 3 * v + 1)
        steps = steps + 1
    y[i : i + BLOCK] = steps.to(s32)

schedule s of collatz:
    warps = WARPS
"""
SCAN = """\
kernel scan_by_looking_back(y: s32[n], x: s32[n], state: u64[m], ticket: s32[1]; ITEMS = 256, THREADS = 128):
    grid cdiv(n, ITEMS)
    b = atomic_add(ticket[0], 1)
    i = b * ITEMS + arange(ITEMS)
    v = load(x[i], mask=i < n)
    total = sum(v)
    store(state[b], total.to(u64) + (where(b == 0, 2, 1).to(u64) << 32), cache=volatile)
    t = arange(THREADS).to(s32)
    before = zeros(s32[THREADS])
    at = b.to(s32) - 1 - t
    if (t < 32) & (b > 0):
        whole = zeros(u32[THREADS])
        while vote.all(whole == 0):
            word = load(state[at], mask=at >= 0, other=1 << 33, cache=volatile)
            while vote.any(word >> 32 == 0):
                word = load(state[at], mask=at >= 0, other=1 << 33, cache=volatile)
            whole = vote.ballot(word >> 32 == 2)
            nearest = popc(~whole & (whole - 1))
            before = before + where(t.to(u32) <= nearest, word.to(u32).to(s32), 0)
            at = at - 32
    offset = sum(before)
    if b > 0:
        store(state[b], (total + offset).to(u64) + (1 << 33), cache=volatile)
    store(y[i], cumsum(v) + offset, mask=i < n)

schedule s of scan_by_looking_back:
    warps = 4
"""


def collatz(n: int) -> int:
    steps = 0
    while n > 1:
        n, steps = n // 2 if n % 2 == 0 else 3 * n + 1, steps + 1
    return steps


@pytest.mark.parametrize(("elements", "warps"), [(128, 4), (32, 4), (512, 4), (64, 1)])
def test_each_element_goes_its_own_rounds(device: str, elements: int, warps: int) -> None:
    """With one element a thread, with several, and with several threads of each. `steps` starts as one number."""
    x = np.arange(700, dtype=np.int32)
    y = np.full_like(x, -1)
    dsl.parse(COLLATZ, device=device).collatz(y, x, BLOCK=elements, WARPS=warps)
    assert y.tolist() == [collatz(n) for n in range(700)]


def test_warps_go_rounds_of_their_own_without_barriers() -> None:
    text = """
kernel k(y: s32[256], x: s32[256]):
    grid 1
    v = x[0 : 256]
    iterations = 0
    while vote.any(v > 0):
        v = v - 1
        iterations = iterations + 1
    y[0 : 256] = iterations.to(s32)

schedule s of k:
    warps = 8
"""
    x = np.random.default_rng(0).integers(0, 50, 256, dtype=np.int32)
    y = np.zeros_like(x)
    run(text, {"y": y, "x": x})
    most = x.reshape(8, 32).max(1)
    assert np.array_equal(y, np.repeat(most, 32))
    ptx = compile_kernel(text, {"y": y, "x": x}).ptx
    assert "bar.sync" not in ptx and ptx.count("vote.sync.any") <= 2


def test_a_scan_looks_back_with_one_warp_and_no_barrier_a_poll(device: str) -> None:
    n = 256 * 67 - 5
    x = np.random.default_rng(1).integers(0, 50, n, dtype=np.int32)
    y = np.zeros_like(x)
    state, ticket = np.zeros(67, np.uint64), np.zeros(1, np.int32)
    module = dsl.parse(SCAN, device=device)
    module.scan_by_looking_back(y, x, state, ticket)
    assert np.array_equal(y, np.cumsum(x))
    ptx = dsl.parse(SCAN, device="emulator").compile("scan_by_looking_back").ptx
    votes = [m.start() for m in re.finditer(r"vote\.sync", ptx)]
    assert len(votes) >= 3 and "bar.sync" not in ptx[votes[0] : votes[-1]]


POLLS = """
kernel poll(y: u32[32], s: u32[64]):
    grid 1
    t = arange(64)
    {first}
    if t < 32:
        seen = full(u32[64], 0)
        going = t >= 0
        at = 63 - t
        while vote.any(going):
            w = {poll}
            seen = seen + w
            at = where(w > 0, at - 32, at)
            going = at >= 0
        store(y[t], seen)

schedule s of poll:
    warps = 2
"""
OR = "atomic_or(s[at], 0, mask=at >= 0, order={order})"


@pytest.mark.parametrize("poll", [OR.format(order="relaxed"), "atomic_max(s[at], 0, mask=at >= 0)"])
@pytest.mark.parametrize("place", ["global", "shared"])
def test_a_loop_of_threads_polls_by_atomics_without_an_order(poll: str, place: str, device: str) -> None:
    """Each thread goes its own iterations, and the action leaves the same however they come: no barrier is needed."""
    text = POLLS.format(first="s[t] = 1", poll=poll)
    if place == "shared":
        text = text.replace(", s: u32[64]", "").replace("    t = ", "    shared s: u32[64]\n    t = ")
    y, s = np.zeros(32, np.uint32), np.zeros(64, np.uint32)
    module = dsl.parse(text, device=device)
    module.poll(y, s) if place == "global" else module.poll(y)
    assert y.tolist() == [2] * 32
    ptx = dsl.parse(text, device="emulator").compile("poll").ptx
    votes = [m.start() for m in re.finditer(r"vote\.sync", ptx)]
    assert "bar.sync" in ptx[: votes[0]] and "bar." not in ptx[votes[0] : votes[-1]]


@pytest.mark.parametrize(("poll", "message"), [
    (OR.format(order="acquire"), r"the order of this atomic \(acquire\) .* \(line 11\)"),
    ("atomic_exchange(s[at], 2, mask=at >= 0)", r"this access meets one of another thread .* \(line 11\)"),
    ("atomic_or(s[at], 0)\n            w = atomic_or(s[63 - at], w)", r"meets one .* \(line 1[12]\)"),
    ("atomic_or(s[at], 0)\n            s[at] = 1", r"this access meets one .* \(line 1[12]\)"),
    ("atomic_or(s[at], 0)\n            for i in range(2):\n                w = atomic_or(s[at], 0)", "meets one"),
])  # fmt: skip
def test_what_a_loop_of_threads_must_order_names_the_other_access(poll: str, message: str) -> None:
    with pytest.raises(dsl.TileError, match=message) as caught:
        compile_kernel(POLLS.format(first="s[t] = 1", poll=poll), {})
    assert caught.value.code == "hazard" and ("order=relaxed here" in str(caught.value.hint)) == ("acquire" in poll)


def test_loops_of_threads_nest_and_store() -> None:
    """A loop in a loop in a branch, with effects; what each thread stores is its own elements' business."""
    text = """
kernel k(y: s32[128], trips: s32[128], a: s32[128]):
    grid 1
    t = arange(128)
    v = load(a[t])
    total = zeros(s32[128])
    for again in range(2):
        left = v
        if v % 3 != 0:
            while left > 0:
                inner = left
                while inner > 2:
                    inner = inner - 2
                    total = total + 1
                left = left - 3
                atomic_add(trips[t], 1)
        store(y[t], total)

schedule s of k:
    warps = 4
"""
    a = np.random.default_rng(2).integers(-3, 20, 128, dtype=np.int32)
    y, trips = np.zeros(128, np.int32), np.zeros(128, np.int32)
    run(text, {"y": y, "trips": trips, "a": a})
    for i, v in enumerate(a.tolist()):
        total = iterations = 0
        for left in range(v, 0, -3) if v % 3 else ():
            total, iterations = total + len(range(left, 2, -2)), iterations + 1
        assert (y[i], trips[i]) == (2 * total, 2 * iterations)


def test_what_a_loop_reads_and_writes_is_ordered_before_and_behind_it() -> None:
    """Its stores meet reads of other threads behind it: a barrier stands there; and one before, for what it reads."""
    text = """
kernel k(y: s32[128], a: s32[128]):
    grid 1
    shared s: s32[128]
    t = arange(128)
    s[t] = load(a[t])
    v = s[127 - t]
    while v > 0:
        v = v - s[127 - t] // 4 - 1
    s[t] = v
    store(y[t], s[127 - t])

schedule s of k:
    warps = 4
"""
    a = np.random.default_rng(3).integers(0, 100, 128, dtype=np.int32)
    y = np.zeros(128, np.int32)
    run(text, {"y": y, "a": a})
    wanted = []
    for x in a.tolist():
        v = x
        while v > 0:
            v -= x // 4 + 1
        wanted.append(v)
    assert y.tolist() == wanted


BODY = """
kernel k(y: s32[128], x: s32[128], z: s32[64]):
    grid 1
    t = arange(128)
    v = load(x[t])
    w = load(z[arange(64)])
    shared s: s32[128]
    s[t] = v
    while v > 0:
        v = v - 1
        {}
    store(y[t], v)
    store(z[arange(64)], w)

schedule s of k:
    warps = {}
"""


@pytest.mark.parametrize(
    ("line", "warps", "message"),
    [
        ("w = w + 1", 4, r"'w' is s32\[64\] and changes in a 'while' of threads that decide about 128"),
        ("store(z[arange(64)], w)", 4, "store of 64 elements in a branch of threads that decide about 128"),
        ("v = v - sum(v)", 4, "sum inside a tile 'if'"),
        ("v = where(vote.any(v > 3), v - 1, v)", 4, "vote.any inside a tile 'if'"),
        ("store(y[t], v)", 1, r"a tile 'while' with effects .* needs one element a thread; i1\[128\] has 4 on 32"),
        ("while v > 9:\n            v = v - 2", 1, "a tile 'while' with effects or loops of threads in it needs one"),
        ("s[127 - t] = v\n        v = v - s[t]", 4, "meets one of another thread in the same branch"),
    ],
)
def test_what_a_loop_of_threads_cannot_do_is_a_located_error(line: str, warps: int, message: str) -> None:
    with pytest.raises(dsl.TileError, match=message) as caught:
        compile_kernel(BODY.format(line, warps), {})
    assert caught.value.loc is not None


LOADS = """
kernel k(y: f32[n], z: s32[n], x: f16[m], start: s32[n], stop: s32[n], next: s32[c], of: s32[8]; TILE = {tile}):
    grid cdiv(n, TILE)
    at = block(0) * TILE + arange(TILE)
    i, end = load(start[at], mask=at < n), load(stop[at], mask=at < n)
    shared s: f32[TILE]
    s[0 : TILE] = (arange(TILE) % 7).to(f32)
    total = zeros(f32[TILE])
    while i < end:
        total = total + x[i].to(f32)
        for r in range(2):
            total = total + load(x[i + r], mask=i + r < end, other=1.0).to(f32)
        if i % 3 == 0:
            total = total + x[end - 1].to(f32) * 2.0
        else:
            total = total - x[i - 1].to(f32)
        total = total + x[0].to(f32) + s[i - start[at]]
        i = i + 1
    if end < m.to(s32):
        total = total + x[end].to(f32)
    else:
        total = total - x[end - m.to(s32)].to(f32)
    store(y[at], total, mask=at < n)
    p = reshape(load(start[at], mask=at < n) % c.to(s32), [TILE / 4, 4])
    steps = zeros(s32[TILE / 4, 4])
    while next[p] != p:
        p = next[p]
        steps = steps + reshape(of[reshape(p, [TILE]) % 8], [TILE / 4, 4])
    store(z[at], reshape(steps, [TILE]), mask=at < n)

schedule s of k:
    warps = 1
    layout total, i: vector [{vector}], lanes [32], warps [1]
"""


@pytest.mark.parametrize("vector", [4, 1])
def test_a_thread_with_several_elements_loads_for_those_that_go_on(vector: int) -> None:
    """A load is no effect, and was refused as one. Elements that are done load nothing: here they would pass the end of
    x. What a condition loads, it loads again from the same place."""
    random = np.random.default_rng(4)
    n, m, c = 150, 64, 16
    x = random.integers(-9, 10, m).astype(np.float16)
    start = random.integers(1, m, n, dtype=np.int32)
    stop = np.minimum(start + random.integers(0, 6, n, dtype=np.int32), m)
    following = np.maximum(np.arange(c, dtype=np.int32) - random.integers(1, 4, c, dtype=np.int32), 0)
    of = random.integers(0, 100, 8, dtype=np.int32)
    y, z = np.zeros(n, np.float32), np.zeros(n, np.int32)
    text = LOADS.format(tile=32 * vector, vector=vector)
    run(text, {"y": y, "z": z, "x": x, "start": start, "stop": stop, "next": following, "of": of})
    for at, (first, last) in enumerate(zip(start.tolist(), stop.tolist(), strict=True)):
        total = 0.0
        for i in range(first, last):
            total += x[i] + x[i] + (x[i + 1] if i + 1 < last else 1.0)
            total += (2 * x[last - 1] if i % 3 == 0 else -x[i - 1]) + x[0] + (i - first) % 7
        total += x[last] if last < m else -x[last - m]
        p, steps = first % c, 0
        while following[p] != p:
            p = int(following[p])
            steps += int(of[p % 8])
        assert (y[at], z[at]) == (total, steps)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("v = v - y[t] - 1", "loads 'y', which the kernel writes, needs one"),
        ("v = v - load(x[t], cache=volatile)", "loads 'x' anew each time needs one"),
        ("v = v - load(x[arange(64)])[0 : 1]", r"loads 64 elements of 'x', and decides about 128, needs one"),
    ],
)
def test_loads_that_several_elements_of_a_thread_cannot_make(line: str, message: str) -> None:
    with pytest.raises(dsl.TileError, match=message) as caught:
        compile_kernel(BODY.format(line, 1), {})
    assert caught.value.code == "layout" and caught.value.loc is not None


def test_loads_inside_lie_as_the_condition_does() -> None:
    """However wide they would be by themselves, rows here and columns there: nothing changes its layout inside."""
    text = """
kernel k(y: f32[8, 32], x: f16[8, 32], t: f16[32, 8], c: s32[8, 32]):
    grid 1
    i, j = arange(8)[:, None], arange(32)[None, :]
    total, left = zeros(f32[8, 32]), load(c[0 : 8, 0 : 32])
    if left > 1:
        total = total + load(x[0 : 8, 0 : 32]).to(f32)
    else:
        total = total - t[j, i].to(f32)
    while left > 0:
        total = total + t[j, i].to(f32) + load(x[0 : 8, 0 : 32]).to(f32)
        left = left - 1
    y[0 : 8, 0 : 32] = total

schedule s of k:
    warps = 1
"""
    random = np.random.default_rng(5)
    x, t = (random.integers(-9, 10, shape).astype(np.float16) for shape in ((8, 32), (32, 8)))
    c, y = random.integers(-2, 4, (8, 32), dtype=np.int32), np.zeros((8, 32), np.float32)
    run(text, {"y": y, "x": x, "t": t, "c": c})
    assert np.array_equal(y, np.where(c > 1, x, -t.T) + np.maximum(c, 0) * (x + t.T))
