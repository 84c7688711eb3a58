"""TMA copies (`stage a, b: tma`): a warp of its own copies boxes into a pipeline, others multiply what is there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from warpgroup_products import CASES, TYPES, arrays, check, check_refused, of_case, text

import dsl
from dsl.lowering.ir.location import TileError
from dsl.runtime import DeviceError, FindingError, Kernel, assemble, device_facts
from tests.whole import some

MORE: dict[str, list[str]] = {
    "as they are": [],
    "persistent": ["persistent 1"],
    "shared among blocks": ["split p: 2"],
    "in equal shares": ["split p: stream"],
    "through shared memory": ["stage c: shared"],
    "of as many registers": ['choose registers.roles: "none"'],
}
SAID = {name for name, (_, lines, *_) in CASES.items() if {"persistent 1", "split p: 2"}.intersection(lines)}
"""Cases that say themselves how blocks share the work."""


ROWS_IN_PARTS = {f"rows in two parts{more}" for more in ("", ", a across K", ", a in registers")}
ROWS_IN_PARTS |= {f"bytes, {operand} across K, in two parts" for operand in "ab"}
"""Cases whose sums `split p: stream` joins as whole tiles, which parts of rows are not."""


def check_product(case: str, more: str, device: str) -> None:
    source, c, a, b, wanted = of_case(case, "stage a, b: tma", *MORE[more])
    module = dsl.parse(source, device=device)
    if case in ROWS_IN_PARTS and more == "in equal shares":
        with pytest.raises(TileError, match=r"rows(?: of its instruction,)? are not 16 for each of \d warps"):
            module.product(c, a, b)
    else:
        module.product(c, a, b)
        check(c, wanted)


def variants() -> list[tuple[str, str]]:
    """Each case with one of the further lines, by turns."""
    turns = [*MORE]
    return [(case, turns[0 if case in SAID else i % len(turns)]) for i, case in enumerate(CASES)]


@pytest.mark.long
@pytest.mark.parametrize(("case", "more"), variants())
def test_products_are_numpys(case: str, more: str) -> None:
    check_product(case, more, "emulator")


def test_parts_of_rows_have_no_equal_shares() -> None:
    check_product("rows in two parts", "in equal shares", "emulator")


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("more", MORE)
def test_products_are_numpys_on_a_device(case: str, more: str) -> None:
    if not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    if case == more or (case in SAID and more != "as they are"):
        pytest.skip("the case says so itself")
    check_product(case, more, "cuda")


NAMED = "    instruction acc: wgmma\n"
WARPS = text(64, 64, 32, 4, "stage a, b: tma", "pipeline p: 3", "persistent 1").replace(
    NAMED, "    instruction acc: mma.sync\n"
)


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", ["f16", "s8", "f32"])
def test_products_of_single_warps(dtype: str, device: str) -> None:
    """What copies bring may be read by `ldmatrix`, too; sm_90 has such copies."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("TMA is sm_90's")
    c, a, b, wanted = arrays(dtype, 136, 72, 160)
    module = dsl.parse(WARPS, device=device)
    module.product(c, a, b)
    check(c, wanted)
    kernel = module.compile("product", m=136, n=72, k=160, T=dtype, O=TYPES[dtype][1])
    assert kernel.compiled.header.arch == "sm_90" and kernel.compiled.header.threads == 256
    assert "mma.sync" in kernel.ptx and "setmaxnreg" not in kernel.ptx


CLUSTER = text(64, 128, 64, 4, "stage a, b: tma", "cluster 2", b="across")


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_operands_of_a_cluster(device: str) -> None:
    """The second block's shared addresses hold its rank, which is no part of a descriptor: a distance between atoms
    lies there, which an operand across k has."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    c, a, b, wanted = arrays("f16", 128, 128, 192, right="across")
    module = dsl.parse(CLUSTER, device=device)
    module.product(c, a, b)
    check(c, wanted)


def test_a_rank_in_a_descriptor_is_found() -> None:
    c, a, b, _ = arrays("f16", 128, 128, 192, right="across")
    made = dsl.parse(CLUSTER, device="emulator").compile("product", m=128, n=128, k=192, T="f16", O="f32").ptx
    wrong, count = re.subn(r"and\.b32\s+(%r\d+), (%r\d+), 262143;", r"mov.b32 \1, \2;", made)
    assert count
    with pytest.raises(FindingError):
        Kernel(wrong, device="emulator")(c, a, b)


def ptx(*lines: str, k: int = 1024) -> str:
    module = dsl.parse(text(64, 64, 64, 4, "stage a, b: tma", *lines), device="emulator")
    return module.compile("product", m=64, n=64, k=k, T="f16", O="f32").ptx


@pytest.mark.parametrize(
    ("dtype", "more"), [("f16", ["stage c: shared"]), ("s8", []), ("bf16", ["split p: stream"]), ("f32", [])]
)
def test_nothing_spills_and_registers_change_hands(dtype: str, more: list[str]) -> None:
    size = {"f16": 64, "bf16": 64, "s8": 128, "f32": 32}[dtype]
    out = "f16" if dtype == "f16" else TYPES[dtype][1]
    lines = ["stage a, b: tma", f"pipeline p: {3 if more else 4}", *more]
    module = dsl.parse(text(128, 256, size, 8, *lines), device="emulator")
    kernel = module.compile("product", m=4096, n=4096, k=4096, T=dtype, O=out)
    made = assemble(kernel.ptx, "sm_90a")
    assert made.spill_stores == 0 and "C75" not in made.log, made.log
    assert made.registers == 168 and kernel.compiled.header.threads == 384
    assert "setmaxnreg.dec.sync.aligned.u32 24" in kernel.ptx and "setmaxnreg.inc.sync.aligned.u32 240" in kernel.ptx


def test_two_blocks_share_the_registers() -> None:
    """80 a thread at the start, of 384 threads; those that copy keep 24."""
    module = dsl.parse(text(128, 64, 64, 8, "stage a, b: tma", "blocks_per_sm 2"), device="emulator")
    made = module.compile("product", m=4096, n=4096, k=4096, T="f16", O="f16").ptx
    assert "setmaxnreg.inc.sync.aligned.u32 104" in made and ".minnctapersm 2" in made
    c, a, b, wanted = arrays("f16", 128, 64, 256)
    module.product(c, a, b)
    check(c, wanted)


def test_a_product_has_its_registers_at_the_start() -> None:
    """ptxas 13.0 refuses 89 for 128 columns (C7602), whatever `setmaxnreg` gives later; four warps more are enough."""
    lines = "stage a, b: tma", "pipeline p: 2", "blocks_per_sm 2"
    message = "a product of 128 columns takes 90 registers of a thread, and 2 blocks of 384 threads have 80 for it"
    check_refused(text(128, 128, 64, 8, *lines), {}, message)
    made = dsl.parse(text(64, 128, 64, 4, *lines), device="emulator").compile(
        "product", m=64, n=128, k=64, T="f16", O="f32"
    )
    assert assemble(made.ptx, "sm_90a").spill_stores == 0


@pytest.mark.parametrize(("dtype", "b"), [("f16", "along"), ("f16", "across"), ("s8", "along")])
def test_adjacent_parts_are_one_product(dtype: str, b: str) -> None:
    """Three of 64 columns are one of 192, which reads the left operand once. Their rows along k are one box."""
    out, size = TYPES[dtype][1], 128 // np.dtype(TYPES[dtype][0]).itemsize
    lines = "stage a, b: tma", "stage c: registers", "subtile acc: 64, 64", "pipeline p: 2"
    module = dsl.parse(text(64, 192, size, 4, *lines, b=b), device="emulator")
    made = module.compile("product", m=64, n=192, k=512, T=dtype, O=out).ptx
    assert "m64n192k" in made and "m64n64k" not in made
    assert made.count("wgmma.mma_async") == 4
    assert made.count("cp.async.bulk.tensor") == {"along": 2, "across": 4}[b]


@pytest.mark.parametrize("part", [32, 64])
def test_parts_that_begin_at_zero_become_products_of_128_columns(part: int) -> None:
    """Their sums are added to others in registers, which have room for no more."""
    kernel = text(64, 256, 128, 4, "stage a, b: tma", f"subtile acc: 64, {part}", "pipeline p: 2")
    old = "acc = dot(factor(a[i : i + TM, p : p + TK], T=T), factor(b[j : j + TN, p : p + TK].T, T=T), acc)"
    assert old in kernel
    kernel = kernel.replace(old, "part = " + old[6:].replace(", acc)", ")") + "\n        acc = acc + part")
    module = dsl.parse(kernel.replace("instruction acc:", "instruction part:"), device="emulator")
    c, a, b, wanted = arrays("e4m3", 64, 256, 256)
    module.product(c, a, b)
    check(c, wanted)
    made = module.compile("product", m=64, n=256, k=256, T="e4m3", O="f32").ptx
    assert set(map(int, re.findall(r"m64n(\d+)k", made))) == {128}


def test_what_is_read_behind_a_product_is_read_while_it_runs() -> None:
    kernel = text(64, 64, 64, 4, "stage a, b: tma", "pipeline p: 2")
    old = "acc = dot(factor(a[i : i + TM, p : p + TK], T=T), factor(b[j : j + TN, p : p + TK].T, T=T), acc)"
    kernel = kernel.replace(old, old + "\n        acc = acc + c[0, 0].to(f32) * p.to(f32)")
    kernel = kernel.replace("c: O[m, n], a:", "c: O[m, n], s: f32[k], a:").replace("c[0, 0].to(f32)", "s[p]")
    made = dsl.parse(kernel, device="emulator").compile("product", m=64, n=64, k=256, T="f16", O="f32").ptx
    lines = made.splitlines()
    (begins,), (waits,) = lines_with(lines, "wgmma.mma_async"), lines_with(lines, "wgmma.wait_group")
    assert any(begins < at < waits for at in lines_with(lines, "ld.global"))


def test_no_barrier_of_the_block_stands_in_a_role() -> None:
    """Those that multiply meet among themselves alone, and from tile to tile not at all."""
    direct, staged = (ptx("persistent 1", *lines) for lines in ([], ["stage c: shared"]))
    assert (direct.count("bar.sync 0;"), direct.count("bar.sync 1, 128;")) == (1, 0)
    assert (staged.count("bar.sync 0;"), staged.count("bar.sync 1, 128;")) == (1, 2)


def lines_with(lines: list[str], word: str) -> list[int]:
    return [i for i, line in enumerate(lines) if word in line]


def without_wait(number: int) -> Callable[[list[str]], None]:
    """One of the waits is over at once."""

    def change(lines: list[str]) -> None:
        at = lines_with(lines, "mbarrier.try_wait")[number]
        lines[at] = f"\tsetp.eq.u32 {lines[at].split()[1].rstrip(',')}, 0, 0;"

    return change


def without(word: str) -> Callable[[list[str]], None]:
    def change(lines: list[str]) -> None:
        del lines[lines_with(lines, word)[0]]

    return change


def freed_early(lines: list[str]) -> None:
    """A stage is free while products read it."""
    (wait,), arrival = lines_with(lines, "wgmma.wait_group"), lines_with(lines, "mbarrier.arrive.shared")[-1]
    lines.insert(arrival, lines.pop(wait))


def replaced(old: str, new: str) -> Callable[[list[str]], None]:
    def change(lines: list[str]) -> None:
        at = lines_with(lines, old)[0]
        lines[at] = lines[at].replace(old, new)

    return change


FAULTS: dict[str, tuple[Callable[[list[str]], None], str]] = {
    "nobody waits for a full stage": (
        without_wait(1),
        "reads shared memory that an asynchronous copy is still filling",
    ),
    "nobody waits for a free stage": (without_wait(0), "more arrivals at an mbarrier than it expects"),
    "nobody frees a stage": (without("mbarrier.arrive.shared"), "('stage 0 of a, b is free') is in phase 0"),
    "nobody fills a stage": (without("mbarrier.arrive.expect_tx"), "at line 14, 128 threads wait"),
    "a stage is freed early": (freed_early, "an operand of a product is written before the product is complete"),
    "products are not waited for": (without("wgmma.wait_group"), "belongs to a product in flight"),
    "copies do not know the barriers": (without("fence.mbarrier_init"), "race"),
    "too few arrivals are waited for": (replaced(", 4;", ", 3;"), "3 of 3 arrivals are missing"),
    "more bytes than come": (replaced(", 16384;", ", 16400;"), "('stage 0 of a, b is full') is in phase 0"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_goes_wrong_is_found(name: str) -> None:
    """Each part of the code between the roles is needed: the emulator tells of what goes wrong without it."""
    change, message = FAULTS[name]
    lines = ptx("pipeline p: 2", k=512).splitlines()
    change(lines)
    c, a, b, _ = arrays("f16", 64, 64, 512)
    with pytest.raises((FindingError, DeviceError)) as told:
        Kernel("\n".join(lines) + "\n", device="emulator")(c, a, b)
    assert message in str(told.value), told.value


def tile(*extents: int) -> str:
    """A schedule without warp groups."""
    return text(*extents, "stage a, b: tma").replace(NAMED, "    instruction acc: mma.sync\n")


PLAIN = tile(64, 64, 64, 4)
LEFT, LOOP = "factor(a[i : i + TM, p : p + TK], T=T)", "    for p in range(0, k, TK):"
BY_DATA = {"b: T[n, k];": "b: T[n, k], at: s32[n];", "b[j : j + TN, p": "b[j + q : j + q + TN, p",
           "        acc = dot": "        q = at[p // TK]\n        at[p // TK] = q\n        acc = dot"}  # fmt: skip


def changed(source: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        assert old in source
        source = source.replace(old, new)
    return source


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a target before": (PLAIN, {"arch": "sm_80"}, "sm_80 has no TMA"),
    "a mask": (changed(PLAIN, {LEFT: "load(a[i : i + TM, p : p + TK], mask=arange(TK)[None, :] < 40)"}), {},
               "its mask says more than that elements are inside of it"),
    "something else than zeros": (changed(PLAIN, {LEFT: "load(a[i : i + TM, p : p + TK], other=1.0)"}), {"m": 100},
                                  "something else than zeros"),
    "rows that begin anywhere": (PLAIN, {"k": 132}, "8 bytes of its rows are known to be aligned neighbours"),
    "places that change": (changed(PLAIN, BY_DATA), {}, "its place comes from 'load'.*, and the kernel writes 'at'"),
    "a bound that is a sum of a tile": (changed(PLAIN, {"range(0, k, TK)": "range(0, sum(arange(TK)) + k, TK)"}), {},
                                        "'reduce' decides what they copy"),
    "one of two": (changed(PLAIN, {"stage a, b: tma": "stage a: tma\n    stage b: shared"}), {},
                   "those of 'b' at the same place are not"),
    "rows of 16 bytes": (tile(64, 64, 8, 4), {}, "a box of .* elements of 2 bytes"),
    "too many warps": (tile(128, 128, 32, 32), {}, "32 warps and 4 more"),
    "no loop": (changed(PLAIN, {LOOP: "    x = a[i : i + TM, 0 : TK]\n" + LOOP, LEFT: "x",
                                "stage a, b: tma": "stage a, b: tma\n    persistent 0"}), {}, "no loop loads it"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_copied_so_is_told(name: str) -> None:
    check_refused(*REFUSED[name])


STORE = "    c[i : i + TM"


def test_a_value_that_a_loop_does_in_parts_is_no_box() -> None:
    source = """
kernel f(y: f32[n, m], x: f32[n, m]):
    grid n
    v = load(x[block(0), 0 : 4096])
    y[block(0), 0 : 4096] = v - max(v)

schedule s of f:
    loop v, 0: 1024
    stage v: tma
"""
    with pytest.raises(TileError, match="'v' cannot be copied by TMA: it is no tensor") as told:
        dsl.parse(source, device="emulator").compile("f", n=4, m=4096)
    assert told.value.loc is not None and told.value.hint


def test_rows_of_which_no_map_has_the_stride() -> None:
    """A tile of one row begins at 16 bytes, but from row to row there are 280."""
    source = """
kernel f(y: f32[n, m], x: f32[n, m]):
    grid n
    acc = zeros(f32[64])
    for j in range(0, m, 64):
        acc = acc + x[block(0) * 4, j : j + 64]
    y[block(0), 0 : 64] = acc

schedule s of f:
    stage x: tma
    pipeline j: 2
    specialize m
"""
    module, y = dsl.parse(source, device="emulator", arch="sm_90a"), np.zeros((3, 72), np.float32)
    module.f(y, np.ones((3, 72), np.float32))
    assert (y[0, 8:64] == 1).all() and (y[:, :8] == [[2], [0], [0]]).all()
    x = np.ones((3, 70), np.float32)
    with pytest.raises(TileError, match="its stride along axis 0 is not known to be a multiple of 16 bytes"):
        module.f(np.zeros_like(x), x)


def test_a_load_behind_the_loop_is_one_of_its_own() -> None:
    """Of a tensor that the loop has copied by TMA; what no loop loads is no box."""
    behind = changed(PLAIN, {STORE: "    acc = acc + a[i : i + TM, j : j + TN].to(f32)\n" + STORE})
    c, a, b, wanted = arrays("f16", 72, 64, 128)
    dsl.parse(behind, device="emulator").product(c, a, b)
    check(c, wanted + a[:, :64])
    alone = changed(PLAIN, {STORE: "    acc = acc + z[i : i + TM, j : j + TN].to(f32)\n" + STORE,
                            "b: T[n, k];": "b: T[n, k], z: T[m, n];",
                            "stage a, b": "persistent 0\n    stage a, b, z"})  # fmt: skip
    check_refused(alone, {}, "'z' is loaded in line 16, outside of the loops")


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("source", [PLAIN, text(64, 64, 64, 4, "stage a, b: tma", "persistent 1")])
def test_what_both_roles_read_of_a_tensor(source: str, device: str) -> None:
    """Where rows begin, and how many iterations there are, by tensors that nobody writes."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("TMA is sm_90's")
    given = {"b: T[n, k];": "b: T[n, k], at: s32[3], ends: s32[3];", "range(0, k, TK)": "range(0, end, TK)",
             "    acc = zeros": "    row, end = at[block(1)].to(index), ends[block(0)].to(index)\n    acc = zeros",
             "b[j : j + TN, p": "b[row : row + TN, p"}  # fmt: skip
    c, a, b, _ = arrays("f16", 136, 72, 128)
    at, ends = np.array([8, -5, 0], np.int32), np.array([128, 0, 64], np.int32)
    dsl.parse(changed(source, given), device=device).product(c, a, b, at, ends)
    rows = np.concatenate([np.zeros((5, 128)), b, np.zeros((64, 128))]).astype(np.float64)
    there = [a[64 * i : 64 * i + 64, :end].astype(np.float64) for i, end in enumerate(ends)]
    wanted = [[x @ rows[r + 5 : r + 69, : x.shape[1]].T for r in at[:2]] for x in there]
    check(c, np.concatenate([np.concatenate(each, 1) for each in wanted])[:, :72])


def test_a_call_whose_rows_begin_anywhere_takes_another_branch() -> None:
    source = text(64, 64, 64, 4, "stage a, b: tma") + (
        "schedule plain of product:\n    TM, TN, TK, warps = 64, 64, 64, 4\n\n"
        "dispatch multiply(c, a, b):\n    if fits(product with groups): product with groups\n"
        "    else: product with plain\n"
    )
    module = dsl.parse(source, device="emulator")
    for k in (128, 132):
        c, a, b, wanted = arrays("f16", 64, 72, k)
        module.multiply(c, a, b)
        check(c, wanted)
    assert np.isfinite(c).all()


SAMPLES = Path(__file__).parents[2] / "samples"
ATTENTION = [(64, False, 256, 192), (128, True, 136, 200), (40, True, 100, 136), (256, False, 128, 80)]
"""Elements of a head, causal or not, queries, keys."""


HEADS = (2, 136), (2, 136), (1, 200), (1, 200)
"""Of q, g, k, v: heads and rows."""


def scores(q: Any, k: Any, scale: float, causal: bool) -> Any:
    found = scale * np.einsum("bhsd,bhtd->bhst", q.astype(np.float64), k.astype(np.float64))
    s, t = found.shape[-2:]
    sees = np.arange(t)[None, :] <= np.arange(s)[:, None] + t - s
    return np.where(sees | (not causal), found, -np.inf)


@pytest.mark.long
@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("d", "causal", "s", "t"), ATTENTION)
def test_attention_by_warp_groups(d: int, causal: bool, s: int, t: int, device: str) -> None:
    """The schedules for many queries; probabilities are multiplied from registers."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    module = dsl.load(SAMPLES / "attention.tile", device=device)
    random = np.random.default_rng(d)
    q, k, v = (random.standard_normal((1, heads, n, d)).astype(np.float16) for heads, n in ((2, s), (1, t), (1, t)))
    o, lse = np.empty_like(q), np.empty((1, 2, s), np.float32)
    named = {"CAUSAL": causal, "schedule": "attend_long" if d > 128 else "attend_groups" if causal else "attend_four"}
    module.attention(o, q, k, v, 0.125, lse, **named)
    wanted = scores(q, k.repeat(2, 1), 0.125, causal)
    most = wanted.max(-1, keepdims=True)
    parts = np.exp(wanted - most)
    total = parts.sum(-1, keepdims=True)
    assert np.abs(o - np.einsum("bhst,bhtd->bhsd", parts / total, v.repeat(2, 1).astype(np.float64))).max() < 2e-3
    assert np.abs(lse - (most + np.log(total))[..., 0]).max() < 2e-3
    kernel = module.attention.plan_for({"o": o, "q": q, "k": k, "v": v, "scale": 0.125, "lse": lse}, named)
    assert any("wgmma" in each.ptx for each in kernel.kernels)


@pytest.mark.long
@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    ("d", "causal", "tile"), some([(64, True, 64), (64, True, 128), (128, False, 128), (128, False, 64)], 2)
)
def test_gradients_of_attention_by_warp_groups(d: int, causal: bool, tile: int, device: str) -> None:
    """Two heads of q use one of k and v; each product of an iteration is one of warp groups."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    module = dsl.load(SAMPLES / "attention_backward.tile", device=device)
    random, (s, t), scale = np.random.default_rng(d), (HEADS[0][1], HEADS[2][1]), 0.125
    q, g, k, v = (random.standard_normal((1, n, rows, d)).astype(np.float16) for n, rows in HEADS)
    x, y = (each.repeat(2, 1).astype(np.float64) for each in (k, v))
    wanted = scores(q, x, scale, causal)
    most = wanted.max(-1, keepdims=True)
    parts = np.exp(wanted - most)
    total = parts.sum(-1, keepdims=True)
    p = parts / total
    o, lse = (p @ y).astype(np.float16), (most + np.log(total))[..., 0].astype(np.float32)
    dp = g.astype(np.float64) @ y.swapaxes(2, 3)
    dx = scale * p * (dp - (p * dp).sum(-1, keepdims=True))
    dq, dk, dv = np.full_like(q, np.nan), np.full_like(k, np.nan), np.full_like(v, np.nan)
    shifts, sums = (np.empty((1, 2, -s // 4 * -4), np.float32) for _ in range(2))
    module.of_queries(dq, shifts, sums, q, k, v, o, g, lse, scale, 0, None, schedule="groups", CAUSAL=causal, TM=tile)
    module.of_keys(dk, dv, shifts, sums, q, k, v, g, scale, 0, None, schedule="groups", CAUSAL=causal, TN=tile)
    for found, gradient in (
        (dq, dx @ x),
        (dk, (dx.swapaxes(2, 3) @ q.astype(np.float64)).sum(1, keepdims=True)),
        (dv, (p.swapaxes(2, 3) @ g.astype(np.float64)).sum(1, keepdims=True)),
    ):
        assert np.abs(found - gradient).max() < 2e-3 * np.abs(gradient).max()
    strides = dict.fromkeys(("q", "k", "v", "o", "g", "dq", "dk", "dv"), (2 * s * d, s * d, d, 1))
    dims = {"batch": 1, "heads": 2, "kv_heads": 1, "s": s, "t": t, "n": sums.shape[2], "d": d}
    for name in ("of_queries", "of_keys"):
        params = {each.name for each in module.program.kernel(name).params}
        owned, rows = (
            {each: strides[each] for each in strides if each in params},
            "TM" if name == "of_queries" else "TN",
        )
        constants = {"T": "f16", "CAUSAL": causal, rows: tile}
        made = module.compile(name, "groups", arch="sm_90a", strides=owned, absent={"tiles"}, **dims, **constants)
        assert "mma.sync" not in made.ptx and assemble(made.ptx, "sm_90a").spill_stores <= (64 if d == 64 else 0)


def test_a_variant_by_its_strides() -> None:
    """Boxes need rows that begin at multiples of 16 bytes: `compile` is told of strided tensors."""
    module = dsl.load(SAMPLES / "matmul.tile", device="emulator")
    request: dict[str, Any] = {"m": 4096, "n": 4096, "k": 4096, "T": "f16", "O": "f16", "B": "f32", "CLUSTER": 1}
    absent = {"scale", "bias", "residual"}
    with pytest.raises(TileError, match="is no load of a staged tile"):
        module.compile("product", "wgmma", absent=absent, **request)
    made = module.compile("product", "wgmma", absent=absent, strides={"a": (4096, 1), "b": (1, 4096)}, **request)
    assert made.ptx.count("shared::cluster.global.tile") == 2
    with pytest.raises(TileError, match="no strided tensor 'c'") as told:
        module.compile("product", "wgmma", absent=absent, strides={"c": (4096, 1)}, **request)
    assert told.value.hint == "a, b"


SUMS = """
kernel total(y: f32[m, k], x: f32[n, m, k; strided]):
    grid 1
    v = zeros(f32[32, 64])
    for p in range(n):
        v = v + x[p, 0 : 32, 0 : 64]
    y[0 : 32, 0 : 64] = v

schedule boxes of total:
    stage x: tma
    pipeline p: 2

schedule plain of total:
    stage x: registers

dispatch sums(y, x):
    if fits(total with boxes): total(y, x) with boxes
    else: total(y, x) with plain
"""


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_tensor_that_lies_backward_has_no_boxes(axis: int, device: str) -> None:
    """A launch failed, as no tensor map has such strides. Other signs are other variants of one module."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("TMA is sm_90's")
    module = dsl.parse(SUMS, device=device)
    x = np.arange(5 * 32 * 64, dtype=np.float32).reshape(5, 32, 64) % 97
    for each, schedule in ((x, "boxes"), (np.flip(x, axis), "plain")):
        y = np.full((32, 64), np.nan, np.float32)
        module.sums(y, each)
        np.testing.assert_array_equal(y, each.sum(0))
        (step,) = module.sums.plan(module.sums.facts({"y": y, "x": each})).steps
        assert step.request.schedule == schedule
    message = f"along axis {axis} is negative" if axis < 2 else "4 bytes of its rows are known to be aligned"
    with pytest.raises(TileError, match=message) as told:
        module.total(y, np.flip(x, axis), schedule="boxes")
    assert told.value.loc is not None and told.value.hint


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("strided", [False, True])
def test_a_tensor_without_elements_has_no_boxes(strided: bool, device: str) -> None:
    """A launch failed, as its array has no tensor map. One variant served this call and the one before it."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("TMA is sm_90's")
    module = dsl.parse(SUMS if strided else SUMS.replace("; strided", ""), device=device)
    for extent, schedule in ((64, "boxes"), (0, "plain"), (128, "boxes")):
        x, y = np.ones((extent, 32, 64), np.float32), np.full((32, 64), np.nan, np.float32)
        module.sums(y, x)
        np.testing.assert_array_equal(y, extent)
        (step,) = module.sums.plan(module.sums.facts({"y": y, "x": x})).steps
        assert step.request.schedule == schedule


SEARCHED = """
kernel product(c: f32[m, n], a: f16[m, k], b: f16[g, n, k], firsts: s32[g]):
    grid cdiv(n, 64), cdiv(m, 64)
    i, j, group, behind = block(1) * 64, block(0) * 64, 0, g
    while group + 1 < behind:
        middle = (group + behind) // 2
        here = firsts[middle].to(index) <= i
        group, behind = where(here, middle, group), where(here, behind, middle)
    acc = zeros(f32[64, 64])
    for p in range(0, k, 32):
        acc = dot(a[i : i + 64, p : p + 32], b[group, j : j + 64, p : p + 32].T, acc)
    c[i : i + 64, j : j + 64] = acc

schedule tma of product:
    warps = 4
    persistent 1
    instruction acc: wgmma
    stage a, b: tma
    pipeline p: 3
"""


def test_places_that_a_while_finds(device: str) -> None:
    """Both roles search: what a `while` goes on by is part of what boxes hang on."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    m, n, k, firsts = 300, 72, 104, np.array([0, 64, 64, 192], np.int32)
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((m, k), (len(firsts), n, k)))
    c = np.full((m, n), np.nan, np.float32)
    dsl.parse(SEARCHED, device=device).product(c, a, b, firsts)
    groups = np.searchsorted(firsts, np.arange(m), side="right") - 1
    check(c, np.einsum("mk,mnk->mn", a.astype(np.float64), b.astype(np.float64)[groups]))
