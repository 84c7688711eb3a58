"""Products by warp groups (`instruction acc: wgmma`): right, in flight while copies go on, refused elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from warpgroup_products import CASES, TYPES, arrays, check, check_refused, of_case, text

import dsl
from dsl.command import cli
from dsl.lowering.ir.location import TileError
from dsl.runtime import assemble, device_facts

SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_products_are_numpys(name: str) -> None:
    source, c, a, b, wanted = of_case(name)
    dsl.parse(source, device="emulator").product(c, a, b)
    check(c, wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_products_are_numpys_on_a_device(name: str) -> None:
    if not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    source, c, a, b, wanted = of_case(name)
    dsl.parse(source, device="cuda").product(c, a, b)
    check(c, wanted)


@pytest.mark.parametrize(
    ("dtype", "schedule"),
    [
        ("f16", (128, 256, 64, 8, "pipeline p: 4")),
        ("s8", (128, 256, 128, 8, "pipeline p: 4")),
        ("bf16", (64, 256, 64, 4, "pipeline p: 2", "persistent 1")),
    ],
)
def test_the_assembler_serialises_none_and_nothing_spills(dtype: str, schedule: tuple[Any, ...]) -> None:
    """It says so where sums of products in flight are touched (C75xx)."""
    module = dsl.parse(text(*schedule), device="emulator")
    kernel = module.compile("product", m=4096, n=4096, k=4096, T=dtype, O=TYPES[dtype][1])
    made = assemble(kernel.ptx, "sm_90a")
    assert made.spill_stores == 0 and "C75" not in made.log, made.log
    assert kernel.compiled.header.arch == "sm_90a"


def test_the_rows_of_a_warp_group_are_the_same_in_all_lanes() -> None:
    """Two warp groups read where their rows begin from the first lane. One warp group has all rows."""
    for rows, lanes in ((128, {"0"}), (64, set())):
        module = dsl.parse(text(rows, 128, 64, rows // 16, "pipeline p: 4"), device="emulator")
        ptx = module.compile("product", m=4096, n=4096, k=4096, T="f16", O="f16").ptx
        found = re.findall(r"shfl\.sync\.idx\.b32\s+%r\d+, %r\d+, (\S+), 31, -1;", ptx)
        assert set(found) == lanes


def test_a_product_begins_in_the_registers_of_sums_that_are_added() -> None:
    """Two products of 64 x 128 a warp group, whose sums are scaled and added: 192 registers hold sums, and not 256,
    which spill."""
    spills = {}
    for way in ("behind", "ahead"):
        module = dsl.load(SAMPLES / "matmul_scaled.tile", device="emulator", arch="sm_90a", choose={"chained_mma": way})
        dims = {"m": 4096, "n": 4096, "k": 4096, "kb": 32, "nb": 32}
        kernel = module.compile("by_blocks", "tma", **dims, T="e4m3", O="bf16", TM=128, TN=256)
        made = assemble(kernel.ptx, "sm_90a")
        assert "C75" not in made.log, made.log
        spills[way] = made.spill_stores
    assert spills["behind"] == 0 < spills["ahead"]


@pytest.mark.parametrize("way", ["behind", "ahead"])
def test_products_behind_or_ahead_of_the_sums_before_are_right(way: str, device: str) -> None:
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    where = ["--device", device] + (["--arch", "sm_90a"] if device == "emulator" else [])
    asked = ["m=132", "n=384", "k=256", "TM=128", "TN=256"]
    asked += ["--schedule", "tma", "--choose", f"chained_mma={way}", "--json"]
    result = CliRunner().invoke(cli, ["run", str(SAMPLES / "matmul_scaled.tile"), *asked, *where])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["passed"] is True


TWO = """
kernel k(c: f32[m, n], a: s8[m, k], b: s8[n, k], d: s8[n, k]):
    grid cdiv(m, 64), cdiv(n, 16)
    i, j = block(0) * 64, block(1) * 16
    acc = zeros(s32[64, 16])
    more = zeros(s32[64, 16])
    for p in range(0, k, 128):
        x = a[i : i + 64, p : p + 128] * 2
        acc = dot(x, b[j : j + 16, p : p + 128].T, acc)
        more = dot(x, d[j : j + 16, p : p + 128].T, more)
    c[i : i + 64, j : j + 16] = (acc - more).to(f32)

schedule s of k:
    warps = 4
    stage a, b, d: tma
    instruction acc, more: wgmma
"""


@pytest.mark.parametrize(("said", "way"), [("", "wgmma"), ("    choose instruction.acc: m16n8k32\n", "mma.sync")])
def test_products_whose_sums_lie_together_go_one_way(said: str, way: str, device: str) -> None:
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    digits = np.random.default_rng(0).integers(-2, 3, (3, 64, 256)).astype(np.int8)
    a, b, d = digits[0], digits[1, :16], digits[2, :16]
    c = np.full((64, 16), np.nan, np.float32)
    module = dsl.parse(TWO + said, device=device, arch="sm_90a")
    module.k(c, a, b, d)
    np.testing.assert_array_equal(c, 2 * a.astype(int) @ (b.astype(int) - d).T)
    ptx = module.compile("k", m=64, n=16, k=256).ptx
    assert [name for name in ("wgmma.mma_async", "mma.sync.aligned") if name in ptx] == [
        {"wgmma": "wgmma.mma_async", "mma.sync": "mma.sync.aligned"}[way]
    ]


def test_no_thread_is_given_more_registers_than_there_are() -> None:
    """20 warps of 128 would be 81,920: no launch had room."""
    source = text(256, 64, 64, 16, "stage a, b: tma", "maxnreg 128")
    module = dsl.parse(source, device="emulator", arch="sm_90a")
    kernel = module.compile("product", m=256, n=64, k=128, T="f16", O="f32")
    assert kernel.compiled.header.maxnreg == 96 and ".maxnreg 96" in kernel.ptx


def test_copies_are_started_while_products_run() -> None:
    kernel = dsl.parse(text(64, 64, 64, 4, "pipeline p: 3", "unroll p: 1"), device="emulator").compile(
        "product", m=512, n=512, k=4096, T="f16", O="f32"
    )
    loop = kernel.ptx.partition("bar.sync")[2].partition("wgmma.wait_group")[0]
    assert loop.index("wgmma.commit_group") < loop.index("cp.async.cg")


def test_another_instruction_may_be_chosen() -> None:
    module = dsl.parse(text(64, 64, 64, 4, "choose instruction.acc: m16n8k16"), device="emulator")
    c, a, b, wanted = arrays("f16", 64, 64, 128)
    module.product(c, a, b)
    check(c, wanted)
    kernel = module.compile("product", m=64, n=64, k=128, T="f16", O="f32")
    assert "wgmma" not in kernel.ptx and "mma.sync" in kernel.ptx


@pytest.mark.parametrize("lines", [(), ("stage a, b: tma",)])
@pytest.mark.parametrize("dtype", ["f32", "s8"])
def test_what_threads_load_across_k_has_no_conflicts(dtype: str, lines: tuple[str, ...]) -> None:
    """f32: four rows of an atom of 128 bytes, eight columns of each, two of them a thread's. Bytes: eight rows."""
    c, a, b, wanted = arrays(dtype, 128, 128, 256, right="across")
    tile = (64, 64, 32, 4) if dtype == "f32" else (64, 128, 128, 8)
    module = dsl.parse(text(*tile, *lines, b="across"), device="emulator")
    kernel = module.compile("product", m=128, n=128, k=256, T=dtype, O="f32" if dtype == "f32" else "s32")
    counters = kernel.run(c, a, b, counters=True).counters.totals
    check(c, wanted)
    assert counters.bank_conflicts == 0
    assert ("ld.shared.v2.b32" if dtype == "f32" else "ldmatrix.sync.aligned.m8n8.x4.trans") in kernel.ptx


REFUSED = {
    "rows for other warps": (text(64, 64, 64, 8), {}, "64 rows are not 16 for each of 8 warps"),
    "no whole group": (text(32, 64, 64, 2), {}, "2 warps are no warp groups of 4 warps, with 64 rows each"),
    "too many columns": (text(64, 512, 64, 4), {}, "the loop carries 256 registers of a thread"),
    "rows too short": (text(64, 64, 8, 4), {}, "rows of 16 bytes; wgmma takes 32, 64, 128"),
    "bytes, both across K": (
        text(64, 64, 64, 4, a="across", b="across"), {"T": "s8", "O": "s32"}, "both operands lie across k, .* 'copy'",
    ),
    "tf32, both across K": (text(64, 64, 32, 4, a="across", b="across"), {"T": "f32"}, "both operands lie across k"),
    "tf32, columns for fewer warps": (text(64, 32, 32, 4, b="across"), {"T": "f32"}, "its 32 columns, rows of"),
    "another target": (text(), {"arch": "sm_80"}, "sm_80 has none"),
    "a later target": (text(), {"arch": "sm_100"}, "sm_100 has none"),
    "operands in registers": (text(64, 64, 64, 4, "stage a, b: registers"), {}, "no load of a staged tile"),
    "a right one that is computed, in rows too short": (
        text(64, 64, 8, 4, b="made"), {}, "its left operand has rows of 16 bytes",
    ),
    "step by step": (text(64, 64, 64, 4, "pipeline p: 3", "prefetch_fragments p: early"),
                     {}, "its (left|right) operand"),
    "rows that begin anywhere": (text(64, 64, 64, 4, "stage a: registers", "stage b: registers"), {"k": 131},
                                 "rows are multiples of 16 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_one_is_told(name: str) -> None:
    check_refused(*REFUSED[name])


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    ("example", "chosen"),
    [
        ([], "conv with groups"),
        (["--example", "nhwc"], "conv_nhwc with taps"),
        (["--example", "nhwc"], "conv_nhwc with tma"),
    ],
)
def test_convolutions_by_warp_groups(example: list[str], chosen: str, device: str, tmp_path: Path) -> None:
    """The sample as it is, where its filters are deep and many: exact, with a residual."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    source = (SAMPLES / "int8_conv.tile").read_text()
    source, count = re.subn(r"if many and .* and fits", "if fits", source)
    assert count == 1
    if "nhwc" in chosen:
        source, count = re.subn("conv_nhwc with taps, tma, pixels", chosen, source)
        assert count == 1
    source = re.sub("    expect (choice|spills|registers) .*\n", "", source)  # of another schedule
    (tmp_path / "conv.tile").write_text(source)
    done = CliRunner().invoke(cli, ["run", str(tmp_path / "conv.tile"), *example, "--device", device])
    assert done.exit_code == 0 and chosen in done.output and "passed" in done.output, done.output


SECOND = """
kernel second(z: f32[64, 64], a: f16[64, 64], b: f16[k, 64], o: f16[64, 64]; TK = 64):
    grid 1
    w, v = o[0 : TK, 0 : 64], zeros(f16[TK, 64])
    for p in range(0, k, TK):
        w = w + b[p : p + TK, 0 : 64]
        v = v + b[p : p + TK, 0 : 64] * 2.0
    x = dot(a[0 : 64, 0 : TK] * 2.0, w)
    z[0 : 64, 0 : 64] = x + v.to(f32)

schedule s of second:
    warps = 4
    instruction x: wgmma
    stage a, b, o, z: registers
"""


def test_a_computed_operand_may_be_any_result_of_a_loop() -> None:
    z = np.zeros((64, 64), np.float32)
    a, b, o = (np.ones((rows, 64), np.float16) for rows in (64, 128, 64))
    dsl.parse(SECOND, device="emulator").second(z, a, b, o)
    assert (z == 2 * 64 * 3 + 4).all()


CHAINED = """
kernel k(o: f32[64, 32], q: f16[64, 32], k: f16[t, 32], v: f16[t, 32]):
    grid 1
    qs = q[0 : 64, 0 : 32]
    acc = zeros(f32[64, 32])
    for j in range(0, t, 32):
        x = dot(qs, k[j : j + 32, 0 : 32].T)
        acc = dot(x.to(f16), v[j : j + 32, 0 : 32], acc)
    o[0 : 64, 0 : 32] = acc

schedule s of k:
    warps = 4
    instruction acc: wgmma
"""


@pytest.mark.parametrize("line", ["", "pipeline j: 1", "pipeline j: 2", "stage q: shared", "stage k: registers"])
def test_a_product_reads_where_it_stands(device: str, line: str) -> None:
    """Behind the barrier of an exchange, which its load is ahead of: the next iteration's copies wait for another
    one."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    random = np.random.default_rng(0)
    q, k, v = (random.integers(-2, 3, (extent, 32)).astype(np.float16) for extent in (64, 128, 128))
    o = np.zeros((64, 32), np.float32)
    dsl.parse(f"{CHAINED}    {line}\n", device=device).k(o, q, k, v)
    assert np.array_equal(o, q.astype(np.float64) @ k.T.astype(np.float64) @ v.astype(np.float64))


@pytest.mark.parametrize("line", ["stage c: shared", "stage c: tma"])
def test_a_result_does_not_lie_where_a_product_still_reads(device: str, line: str) -> None:
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    c, a, b, wanted = arrays("f16", 64, 32, 96)
    dsl.parse(text(64, 32, 32, 4, "pipeline p: 1", line), device=device).product(c, a, b)
    check(c, wanted)


def test_products_of_one_name_go_one_way() -> None:
    """Their sums lie alike, and nobody loads what one of them reads in place."""
    c, a, b, wanted = arrays("f16", 64, 64, 256)
    for key, option in (("instruction.acc", "m16n8k16"), ("instruction.acc[0]", "m16n8k8")):
        c[:] = 0
        dsl.parse(text(64, 64, 32, 4, f'choose {key}: "{option}"'), device="emulator").product(c, a, b)
        check(c, wanted)
    module = dsl.parse(text(64, 64, 32, 4, 'choose instruction.acc[1]: "m16n8k16"'), device="emulator")
    with pytest.raises(TileError, match=r"'instruction\.acc\[1\]' has no option 'm16n8k16'"):
        module.product(c, a, b)


STRIDED = """
kernel product(c: s32[m, n], a: s8[m, k; strided], b: s8[n, k; strided]; TM = 64, TN = 64, TK = 64):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(s32[TM, TN])
    for p in range(0, k, TK):
        acc = dot(a[i : i + TM, p : p + TK], b[j : j + TN, p : p + TK].T, acc)
    c[i : i + TM, j : j + TN] = acc

schedule s of product:
    warps = 4
    instruction acc: wgmma
    stage a, b: shared
    pipeline p: 2
"""


def test_views_without_a_contiguous_axis_keep_the_order_of_their_axes() -> None:
    """wgmma reads bytes along k alone."""
    random = np.random.default_rng(0)
    a = random.integers(-3, 4, (70, 640)).astype(np.int8)[:, ::4]
    b = random.integers(-3, 4, (66, 320)).astype(np.int8)[:, ::2]
    c = np.zeros((70, 66), np.int32)
    dsl.parse(STRIDED, device="emulator", arch="sm_90a").product(c, a, b, schedule="s")
    assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32).T)
