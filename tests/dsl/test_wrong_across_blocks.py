"""Programs that are wrong where blocks, parts of a loop or pages meet. Each is refused, or found in a run or by `dsl
verify`, at the line that ends in `# <-`, with the words that say what is wrong."""

from __future__ import annotations

from string import Template
from typing import Any, NamedTuple

import numpy as np
import pytest

import dsl
from dsl.command.failures import located
from dsl.kernels.variant import Request
from dsl.runtime.errors import RuntimeFault
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from tests.compile_and_run import dims_of
from tests.run_meaning import variant_of

Arrays = dict[str, Any]
REFUTED, UNDECIDED = "refuted", "not decided"
"""What `dsl verify` says; other words are codes of errors."""


class Wrong(NamedTuple):
    """`found`: the code of the error, or what `dsl verify` says; `words`: what its message and hint have."""

    text: str
    args: Arrays
    found: str
    words: tuple[str, ...]
    strict: bool = False


def of(text: str, **parts: str) -> str:
    """A program: `;` ends a line of a part, which stands as deep as its place in the text."""
    for name, part in parts.items():
        lines = part.split("; ")
        place = next(line for line in text.splitlines() if f"${name}" in line)
        depth = len(place) - len(place.lstrip())
        parts[name] = ("\n" + " " * depth).join(lines)
    return Template(text).substitute(parts)


def normal(*shape: int, type: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(type)


# ---- parts of a loop ----

LOOP = """
def meet(a, b):
    $meet

def online(a, b):
    top = maximum(a[0], b[0])
    return top, a[1] * exp(a[0] - top) + b[1] * exp(b[0] - top)

kernel k(y: f32[rows], x: f32[rows, cols]; N = 16):
    grid rows
    r = block(0)
    s, t, at = $start, 0
    for j in range(0, cols, N):
        v = x[r, j : j + N]
        $body
    $behind
    y[r] = $result

schedule s of k:
    warps = 1
    split j: $split
"""
ONLINE = "top = maximum(s, max(v)); s, t = top, t * exp(s - top) + sum(exp(v - top))"
BOTH, ONE = "s, t = joined(meet, (s, t))  # <-", "s = joined(meet, s)  # <-"
CUT = "loop 'j' gives another result if it is cut before iterations ", " and its parts join: tensor 'y' differs"


def loop(split: str, body: str, meet: str, behind: str = BOTH, start: str = "0.0, 0.0", result: str = "s + t") -> Wrong:
    """A loop whose parts this function does not join."""
    text = of(LOOP, meet=meet, start=start, body=body, behind=behind, result=result, split=split)
    return Wrong(text, {"y": np.zeros(3, np.float32), "x": normal(3, 92)}, REFUTED, CUT)


def unsplit(made: Wrong, *words: str) -> Wrong:
    return made._replace(found="schedule", words=("loop 'j' cannot be split: ", *words))


LOOPS = {
    "a function that does not associate": loop(
        "2, cluster", "s = s * 0.5 + sum(v)", "return (a + b) * 0.5", ONE
    ),
    "a function of the later part first": loop(
        "3", "u = max(v); s, t = s * u, t * u + 1.0", "return a[0] * b[0], b[1] * a[0] + a[1]", start="1.0, 0.0"
    ),
    "a function that is wrong beside an empty part": loop("stream", "s = max(v)", "return b", ONE),
    "a function that is wrong for -inf beside -inf": loop(
        "3", ONLINE, "return online(a, b)", start="-inf, 0.0", result="s + log(t)"
    ),
    "one of two carried values without its scale": loop(
        "2, cluster", ONLINE, "return maximum(a[0], b[0]), a[1] + b[1]", start="-3e38, 0.0", result="s + log(t)"
    ),
    "a start that each part counts": loop("2", "s = s + sum(v)", "return a + b", ONE, start="1.0, 0.0"),
    "a reduction by a function that does not associate": loop(
        "4",
        "s, t = meet((s, t), (v, (j + arange(N)).to(s32)))",
        "more = b[0] > a[0]; return where(more, b[0], a[0]), where(more, a[1], b[1])",
        "s, t = reduce(meet, (s, t), axis=0)  # <-",
        start="full(f32[N], -9.0), zeros(s32[N])",
        result="t.to(f32)",
    ),
    "a place that is carried": unsplit(
        loop("2, cluster  # <-", "s, at = s + sum(x[r, at : at + N]), at + 16", "return a", "u = 0"),
        "'at' is read in the loop in line 15, where a block has only a part of it",
    ),
    "a value that nothing joins": unsplit(
        loop("stream  # <-", ONLINE, "return a", "s = joined(maximum, s)", start="-3e38, 0.0"),
        "'t' is made by 'add' and by 'mul' in line 16", "or joined(f, …) behind the loop",
    ),
}  # fmt: skip

# ---- clusters ----

ROW = """
kernel k(y: f32[rows, cols], m: f32[rows], x: f32[rows, cols], at: s32[rows, cols]; COLS = 256):
    grid rows
    r = block(0)
    v = x[r : r + 1, 0 : COLS]
    $body

schedule s of k:
    warps = 2
    layout v: vector [1, 2], lanes [1, 32], warps [1, 2], blocks [1, 4]  # <-
    $line
"""


def row(body: str, *words: str, line: str = "", found: str = "schedule") -> Wrong:
    """A row that the blocks of a cluster cannot share."""
    at = np.random.default_rng(0).integers(0, 256, (3, 256), np.int32)
    args = {"y": np.zeros((3, 256), np.float32), "m": np.zeros(3, np.float32), "x": normal(3, 256), "at": at}
    return Wrong(of(ROW, body=body, line=line), args, found, words)


PEERS = """
kernel k(y: s32[blocks, 32], x: s32[blocks, 32]):
    grid blocks
    shared s: s32[32]
    b, i = block(0), arange(32)
    place, peer = (1040 + i * 4).to(u32), (b % 2 ^ 1).to(u32)
    $body

schedule s of k:
    warps = 1
    cluster 2
"""
"""Shared memory begins at 0x400; 16 bytes of it come before the tile."""
MEET = 'asm("{ barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 {d}, 0; }", s32)'
OF_PEER = "{ .reg .b32 a; mapa.shared::cluster.u32 a, {0}, {1};"
READ = f'asm("{OF_PEER} ld.shared::cluster.u32 {{d}}, [a]; }}", s32, place, '
WRITE = f'asm("{OF_PEER} st.shared::cluster.u32 [a], {{0}}; mov.u32 {{d}}, 0; }}", s32, place, peer)  # <-'


def peers(*words: str, body: list[str]) -> Wrong:
    """Blocks of a cluster that access each other's shared memory by instructions of the text."""
    x = np.arange(4 * 32, dtype=np.int32).reshape(4, 32)
    text = Template(PEERS).substitute(body="\n    ".join(body))
    return Wrong(text, {"y": np.zeros_like(x), "x": x}, "finding", words)


OWN, END = "s[i] = x[b, i]", "y[b, i] = t + q"
CLUSTERS = {
    "two tiles in other numbers of parts": row(
        "w = v - max(v); y[r : r + 1, 0 : COLS] = w", "are divided among blocks in 4 and 2 parts", found="layout",
        line="layout w: vector [1, 2], lanes [1, 32], warps [1, 2], blocks [1, 2]",
    ),
    "elements of other blocks": row(
        "y[r : r + 1, 0 : COLS] = gather(v, at[r : r + 1, 0 : COLS], axis=1)",
        "'v' cannot be done in parts: 'gather' in line 6 mixes the elements along its axis",
    ),
    "running sums over blocks": row(
        "y[r : r + 1, 0 : COLS] = cumsum(v, axis=1)", "'scan' in line 6 mixes the elements along its axis"
    ),
    "blocks that a loop divides, too": row(
        "t = 0.0.to(f32); for j in range(0, cols, 64):;     t = t + sum(x[r, j : j + 64]); m[r] = sum(v) + t",
        "blocks cannot compute 'v' together: they share the grid's tiles in another way",
        line="split j: 2, cluster",
    ),
    "a neighbour that has not begun": peers(
        "of the cluster, which may not have begun: a barrier of the cluster", "ahead of the access",
        body=[f"t = {WRITE}", f"q = {MEET}", END],
    ),
    "a neighbour that has ended": peers(
        "accesses shared memory of block 1 of the cluster, which may have ended before", "before either ends",
        body=[OWN, f"q = {MEET}", f"t = {READ}peer)  # <-", END],
    ),
    "no barrier of the cluster": peers(
        "race: reads shared memory that another thread has written", "must meet at the barrier of their cluster",
        body=[OWN, f"t = {READ}peer)  # <-", f"q = {MEET}", END],
    ),
    "a rank of no block": peers(
        "a shared::cluster address of block rank 2 in a cluster of 2", "have the ranks 0 to N - 1: %cluster_ctarank",
        body=[OWN, f"q = {MEET}", f"t = {READ}b.to(u32))  # <-", f"q = q + {MEET}", END],
    ),
    "a wait without an arrival": peers(
        "waits at the barrier of its cluster without having arrived at it",
        body=[OWN, 't = asm("{ barrier.cluster.wait.aligned; mov.u32 {d}, 0; }", s32)  # <-', "q = 0", END],
    ),
}  # fmt: skip

# ---- workspaces, tables and pages ----

SPACE = """
kernel part(p: f32[m], x: f32[n]):
    grid cdiv(n, 64)
    $rule
    i = block(0) + arange(1)
    $store

kernel total(y: f32[1], p: f32[m]):
    grid 1
    y[0] = sum(p[0 : 8])

dispatch k(y, x):
    p = workspace(f32[4])
    part(p, x)
    total(y, p)
"""
PAGES = """
kernel k(y: f32[batch, N], x: f32[count, p, N], rows: s32[batch, most], pages: s32[batch, most]; N = 64, TN = 8):
    grid batch
    b, i = block(0), arange(8)
    $rule
    acc = zeros(f32[N])
    for j in range(0, most * p, TN):
        page, r = pages[b, j // p], j % p
        $load
        acc = acc + sum(v, axis=0)
        $write
    y[b, 0 : N] = acc

schedule s of k:
    warps = 2
    $line
"""
TABLE = [[0, 1], [2, 3]]


def pages(
    *words: str, rule: str = "", load: str = "v = x[page, r : r + TN, 0 : N]", write: str = "", line: str = "",
    table: Any = TABLE, found: str = "finding", rows: Any = TABLE, p: int = 16, strict: bool = False,
) -> Wrong:  # fmt: skip
    args = {"y": np.zeros((2, 64), np.float32), "x": normal(4, p, 64)}
    args |= {"rows": np.array(rows, np.int32), "pages": np.array(table, np.int32)}
    return Wrong(of(PAGES, rule=rule, load=load, write=write, line=line), args, found, words, strict)


def space(store: str, *words: str, rule: str = "", found: str = "finding") -> Wrong:
    return Wrong(of(SPACE, store=store, rule=rule), {"y": np.zeros(1, np.float32), "x": normal(500)}, found, words)


SUM = "sum(x[block(0) * 64 : block(0) * 64 + 64])"
MEMORY = {
    "a workspace that is too small": space(
        f"p[i] = {SUM}  # <-", "just past the end of p", "index 4 of axis 0, which has 4", "mask=i < n"
    ),
    "a workspace that is too small for a rule": space(
        f"p[block(0)] = {SUM}", "requires m >= cdiv(n, 64)", rule="assert m >= cdiv(n, 64)  # <-", found="requires"
    ),
    "an entry behind the last page": pages(
        "an index of k with s lies outside of axis 0", "also one that a table has; mask= leaves others out",
        load="v = x[page, r : r + TN, 0 : N]  # <-", table=[[0, 1], [4, 3]], found="device-assert", strict=True,
    ),
    "a negative entry in a part of a cluster": pages(
        "an index of k with s lies outside of axis 0", load="v = x[page, r : r + TN, 0 : N]  # <-",
        table=[[0, -1], [2, 3]], found="device-assert", strict=True, line="split j: 2, cluster",
    ),
    "rows behind the last of a page": pages(
        "an index of k with s lies outside of axis 1", load="v = x[page, rows[b, j // p] + i, 0 : N]  # <-",
        rows=[[0, 9], [8, 8]], line="split j: 3", found="device-assert", strict=True,
    ),
    "a page that does not hold whole tiles": pages(
        "requires p % TN == 0 (TN = 8, p = 12)", rule="assert p % TN == 0  # <-", p=12, found="requires"
    ),
    "a page that another sequence writes": pages(
        "race: writes global memory that another thread has written", "of block (1, 0, 0)", "stores an element twice",
        table=[[0, 1], [1, 2]], load="v = x[3, r : r + TN, 0 : N]", write="x[page, r, 0 : N] = acc  # <-",
    ),
    "a page that another sequence reads": pages(
        "race: ", "global memory that another thread", rows=[[2, 2], [2, 2]],
        load="v = x[rows[b, 0], r : r + TN, 0 : N]", write="x[page, r, 0 : N] = acc  # <-",
    ),
    "copies whose page is written in the loop": pages(
        "'x' cannot be loaded ahead: its place comes from 'load' in line 8, and the kernel writes 'pages'",
        "compute the place before the loop", write="pages[b, j // p] = 0", line="stage x: ahead  # <-",
        found="schedule",
    ),
}  # fmt: skip

# ---- atomics ----

ORDER = """
kernel k(y: f32[n], x: f32[n], count: s32[n]):
    grid cdiv(n, 32)
    b = block(0) * 32
    $body

schedule s of k:
    warps = 1
"""


def order(body: str, *words: str, found: str = "finding") -> Wrong:
    args = {"y": np.zeros(128, np.float32), "x": normal(128), "count": np.zeros(128, np.int32)}
    return Wrong(of(ORDER, body=body), args, found, words)


DEPENDS = "line 5: 'y' depends on the order of its blocks: element 0 is ", " in reverse"
ATOMICS = {
    "the last exchange wins": order("atomic_exchange(y[0], x[b])", *DEPENDS, found=UNDECIDED),
    "a place for each ticket": order(
        "i = atomic_add(count[0], 1); y[i] = x[b]", DEPENDS[0].replace("5", "6"), DEPENDS[1], found=UNDECIDED
    ),
    "a sum that is read before all have added": order(
        "atomic_add(y[0], sum(x[b : b + 32])); y[b + 1] = y[0]  # <-", "race: reads global memory", "order=release"
    ),
    "the last block without an order": order(
        "y[b : b + 32] = 1.0; i = atomic_add(count[0], 1); if i == 3:;     count[1] = sum(y[0 : 128]).to(s32)  # <-",
        "race: reads global memory that another thread has written", "one with order=acquire before the reads",
    ),
}  # fmt: skip
ALL = {**LOOPS, **CLUSTERS, **MEMORY, **ATOMICS}


def told_in_a_run(wrong: Wrong) -> tuple[str, str, str]:
    """The code, the line and the words of the error of a call."""
    module = dsl.parse(wrong.text, device="emulator", arch="sm_90a", strict_bounds=wrong.strict)
    schedule = {"schedule": "s"} if "schedule s" in wrong.text else {}
    with pytest.raises((dsl.TileError, RuntimeFault)) as caught:
        module.k(*wrong.args.values(), **schedule)
    error = located(caught.value)
    assert error is not None
    line = error.loc.line if error.loc is not None else caught.value.line
    return error.code, wrong.text.splitlines()[line - 1], f"{error.message} {error.hint}"


def told_by_verify(wrong: Wrong) -> tuple[str, str, str]:
    """What `dsl verify` says, with the line of a divergence."""
    dims = dims_of(variant_of(wrong.text, wrong.args, arch="sm_90a"), wrong.args)
    found = verify_kernel(parse_program(wrong.text), Request("k", "s", dims, arch="sm_90a"), wrong.args)
    if found.undecided is not None:
        return UNDECIDED, "# <-", found.undecided
    assert found.divergence is not None and found.divergence.loc is not None
    loc = found.divergence.loc
    return REFUTED, loc.source.line(loc.line), str(found.divergence)


@pytest.mark.parametrize("name", ALL)
def test_what_is_wrong_is_told_at_its_line(name: str) -> None:
    wrong = ALL[name]
    found, line, said = (told_by_verify if wrong.found in (REFUTED, UNDECIDED) else told_in_a_run)(wrong)
    assert found == wrong.found, said
    assert line.endswith("# <-"), f"{line}\n{said}"
    assert all(word in said for word in wrong.words), said
