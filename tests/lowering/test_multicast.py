"""`cluster 2` with copies by TMA: what both blocks of a cluster need is copied once, by halves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_pingpong import DEVICES, arrays, changed, skip_without_boxes
from warpgroup_products import CASES, check, of_case, text
from warpgroup_products import arrays as matrices

import dsl
from dsl.kernels.variant import Request, build_variant
from dsl.lowering.directives import roles
from dsl.lowering.ir.location import TileError
from dsl.lowering.passes import PASSES, run_passes
from dsl.runtime import FindingError, Kernel, assemble
from dsl.runtime.errors import RuntimeFault
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from tests.compile_and_run import through

SAMPLES = Path(__file__).parents[2] / "samples"
MORE: dict[str, list[str]] = {
    "a block a tile": [],
    "persistent": ["persistent 1"],
    "in groups": ["persistent 1", "l2_group 4"],
    "in groups, a block a tile": ["l2_group 2"],
    "in groups of four": ["l2_group 4"],
    "through shared memory": ["stage c: shared"],
    "shared among blocks": ["split p: 2"],
}
OWN = {
    "persistent": "persistent",
    "shared among blocks": "split",
    "tf32, b across K, shared": "split",
    "turned, shared among blocks": "split",
    "through shared memory": "stage c",
}
"""Cases that say themselves what one of these lines says."""


def variants() -> list[tuple[str, str]]:
    """Each case with one of the further lines, by turns."""
    turns = [*MORE]
    return [(case, turns[0 if case in OWN else i % len(turns)]) for i, case in enumerate(CASES)]


def clustered(*lines: str, **orders: str) -> str:
    return text(64, 64, 64, 4, "stage a, b: tma", "pipeline p: 3", "cluster 2", *lines, **orders)


@pytest.mark.long
@pytest.mark.parametrize(("case", "more"), variants())
def test_products_are_numpys(case: str, more: str) -> None:
    source, c, a, b, wanted = of_case(case, "stage a, b: tma", "cluster 2", *MORE[more])
    dsl.parse(source, device="emulator").product(c, a, b)
    check(c, wanted)


@pytest.mark.gpu
@pytest.mark.parametrize(("case", "more"), variants())
def test_products_are_numpys_on_a_device(case: str, more: str) -> None:
    skip_without_boxes("cuda")
    source, c, a, b, wanted = of_case(case, "stage a, b: tma", "cluster 2", *MORE[more])
    dsl.parse(source, device="cuda").product(c, a, b)
    check(c, wanted)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("shape", [(64, 64, 64), (192, 72, 320), (70, 200, 640), (448, 128, 128)])
def test_any_number_of_tiles(shape: tuple[int, int, int], more: str, device: str) -> None:
    """One, odd ones, more than blocks run at once; of one iteration and of more than stages."""
    skip_without_boxes(device)
    c, a, b, wanted = matrices("f16", *shape)
    module = dsl.parse(clustered(*MORE[more]), device=device)
    module.product(c, a, b)
    check(c, wanted)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("cluster", [4, 8])
def test_more_blocks_copy_smaller_parts(cluster: int, device: str) -> None:
    skip_without_boxes(device)
    c, a, b, wanted = matrices("f16", 64 * (cluster + 1), 64, 320)
    module = dsl.parse(clustered().replace("cluster 2", f"cluster {cluster}"), device=device)
    module.product(c, a, b)
    check(c, wanted)
    ptx = module.compile("product", m=1024, n=64, k=320, T="f16", O="f32").ptx
    assert re.findall(r'"of":"b","axes":\[1,0\],"box":\[64,(\d+)\]', ptx) == [str(64 // cluster)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("more", ["a block a tile", "persistent", "in groups of four"])
@pytest.mark.parametrize(("cluster", "parts"), [("1, 2", (32, 64)), ("2, 2", (32, 32)), ("2, 4", (16, 32))])
def test_blocks_along_two_axes_copy_for_their_neighbours(
    cluster: str, parts: tuple[int, int], more: str, device: str
) -> None:
    """Blocks of a row need the same box of a, and blocks of a column the same box of b."""
    skip_without_boxes(device)
    module = dsl.parse(clustered(*MORE[more]).replace("cluster 2", f"cluster {cluster}"), device=device)
    for shape in ((64, 64, 64), (200, 330, 320)):
        c, a, b, wanted = matrices("f16", *shape)
        module.product(c, a, b)
        check(c, wanted)
    ptx = module.compile("product", m=1024, n=1024, k=320, T="f16", O="f32").ptx
    found = {of: int(rows) for of, rows in re.findall(r'"of":"([ab])","axes":\[1,0\],"box":\[64,(\d+)\]', ptx)}
    assert (found["a"], found["b"]) == parts


IN_PLACE = {
    "kernel product(": "kernel product(done: s32[rows], total: s32[one], ",
    "c[i : i + TM, j : j + TN] = acc.to(O)": "c[i : i + TM, j : j + TN] = c[i : i + TM, j : j + TN] + acc.to(O)\n"
    "    done[block(0)] = done[block(0)] + 1\n    atomic_add(total[0], 1)",
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("more", ["a block a tile", "in groups"])
@pytest.mark.parametrize("rows", [1, 3, 4])
def test_a_block_without_a_tile_writes_nothing(rows: int, more: str, device: str) -> None:
    """What a kernel adds to is added to once, by masks or without."""
    skip_without_boxes(device)
    c, a, b, wanted = matrices("f16", 64 * rows, 64, 128)
    done, total = np.zeros(rows, np.int32), np.zeros(1, np.int32)
    dsl.parse(changed(IN_PLACE, clustered(*MORE[more])), device=device).product(done, total, c, a, b)
    check(c, wanted)
    assert (done == 1).all() and total[0] == rows


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("m, n", [(300, 160), (128, 32), (256, 200)])
def test_groups_take_turns_in_each_block(m: int, n: int, device: str) -> None:
    skip_without_boxes(device)
    o, a, b, v, wanted = arrays(m, n)
    dsl.parse(changed({"pingpong e": "pingpong e\n    cluster 2"}), device=device).weigh(o, a, b, v)
    np.testing.assert_array_equal(o, wanted)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("s, t", [(256, 256), (384, 200), (100, 130)])
def test_queries_share_keys(s: int, t: int, device: str) -> None:
    """The sample's attention. With CAUSAL later queries see more keys, so that blocks have different iterations."""
    skip_without_boxes(device)
    source = (SAMPLES / "attention.tile").read_text()
    source += "\nschedule clusters of attend:\n    like attend_groups\n    cluster 2\n"
    module = dsl.parse(source, device=device, **({} if device == "cuda" else {"arch": "sm_90a"}))
    random = np.random.default_rng(s)
    q, k, v = (random.standard_normal((1, 1, each, 128)).astype(np.float16) for each in (s, t, t))
    o = np.zeros_like(q)
    module.attention(o, q, k, v, 128**-0.5, None, schedule="clusters", TM=128)
    x = q[0, 0].astype(np.float64) @ k[0, 0].astype(np.float64).T * 128**-0.5
    e = np.exp(x - x.max(1, keepdims=True))
    assert np.abs(o[0, 0] - e / e.sum(1, keepdims=True) @ v[0, 0]).max() < 2e-3
    with pytest.raises(TileError, match="have different iterations of a loop") as told:
        module.attention(o, q, k, v, 128**-0.5, None, schedule="clusters", TM=128, CAUSAL=True)
    assert told.value.loc is not None and told.value.loc.line == source.count("\n")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("images", [2, 3, 5])
def test_pixels_share_filters(images: int, device: str) -> None:
    """The sample's convolution: boxes of the images are windows, those of the filters the same for neighbours."""
    skip_without_boxes(device)
    source = (SAMPLES / "int8_conv.tile").read_text()
    source += "\nschedule clusters of conv_nhwc:\n    like tma\n    cluster 2\n"
    source = changed({"with taps, tma, pixels": "with clusters"}, source)
    module = dsl.parse(source, device=device, **({} if device == "cuda" else {"arch": "sm_90a"}))
    random = np.random.default_rng(images)
    x, f = (random.integers(-3, 4, shape).astype(np.int8) for shape in ((images, 8, 8, 128), (128, 3, 3, 128)))
    y = np.zeros((images, 8, 8, 128), np.int8)
    module.conv2d_nhwc(y, x, f, np.zeros(128, np.float32), None, 1.0 / 64, 0.0, 0.0, 127.0, 1, 1, 1, 1, 1, 1)
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    taps = (padded[:, i : i + 8, j : j + 8] @ f[:, i, j].astype(np.float64).T for i in range(3) for j in range(3))
    np.testing.assert_array_equal(y, np.clip(np.round(sum(taps) / 64), -128, 127))


def compiled(source: str, **options: Any) -> Any:
    return dsl.parse(source, device="emulator", **options).compile("product", m=256, n=64, k=192, T="f16", O="f32")


def test_what_there_is_of_it() -> None:
    """b is the same for neighbours along m: its map is of half a box, and each half goes to both."""
    ptx = compiled(clustered()).ptx
    assert ptx.count("multicast::cluster") == 1 and ptx.count("cp.async.bulk.tensor") == 2
    assert '"of":"a","axes":[1,0],"box":[64,64]' in ptx and '"of":"b","axes":[1,0],"box":[64,32]' in ptx
    counts = [int(each) for each in re.findall(r"mov.b32 \t%r\d+, (\d+);(?=\n)", ptx)]
    assert 8 in counts and 1 in counts  # the warps of both blocks, and the thread that fills
    assert "arrive.expect_tx.shared.b64 _, [" in ptx and re.search(r"mov.b32 \t%r\d+, 16384;", ptx)
    assert ptx.count("barrier.cluster.arrive") == 1 and "bar.sync 0;" not in ptx
    # The producer waits for a free stage in the loop, and for all three behind it; the consumer waits for a full one.
    assert ptx.count("mbarrier.try_wait") == 1 + 3 + 1
    assert ptx.count("mapa.shared::cluster") == ptx.count("arrive.shared::cluster") >= 1


def test_rows_of_a_are_the_same_where_neighbours_go_along_n() -> None:
    other = {"grid cdiv(m, TM), cdiv(n, TN)": "grid cdiv(n, TN), cdiv(m, TM)",
             "i, j = block(0) * TM, block(1) * TN": "i, j = block(1) * TM, block(0) * TN"}  # fmt: skip
    source = changed(other, clustered())
    c, a, b, wanted = matrices("f16", 128, 192, 128)
    dsl.parse(source, device="emulator").product(c, a, b)
    check(c, wanted)
    ptx = compiled(source).ptx
    assert '"of":"a","axes":[1,0],"box":[64,32]' in ptx and '"of":"b","axes":[1,0],"box":[64,64]' in ptx


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ({}, "the same box for 2 blocks"),
        ({"instruction acc: wgmma": "instruction acc: mma.sync"}, "sm_90 has no multicast copies"),
        ({"TM, TN, TK, warps = 64, 64, 64, 4": "TM, TN, TK, warps = 64, 8, 64, 4"}, "no 2 equal parts of whole groups"),
        ({"block(0) * TM, block(1) * TN": "block(0) * TM, (block(1) + block(0) % 1000) * TN"}, "another box"),
    ],
)
def test_why_a_box_is_copied_so_is_told(lines: dict[str, str], why: str) -> None:
    program = parse_program(changed(lines, clustered()))
    request = Request("product", "groups", {"m": 256, "n": 64, "k": 192}, {"T": "f16", "O": "f32"})
    variant = build_variant(program, request)
    run_passes(variant.function, variant.target, through("pipeline"))
    choices, shares = variant.function.choices.keyed(), why.startswith("the same")
    assert choices["multicast.a"].taken == "none" and choices["multicast.a"].options == ("none",)
    assert why in choices["multicast.b"].because
    assert choices["multicast.b"].taken == ("halves" if shares else "none")
    ptx = compiled(changed(lines, clustered())).ptx
    assert ("multicast::cluster" in ptx) == ("barrier.cluster" in ptx) == shares


def test_each_block_may_copy_all_by_itself() -> None:
    c, a, b, wanted = matrices("f16", 192, 64, 256)
    module = dsl.parse(clustered('choose multicast.b: "none"'), device="emulator")
    module.product(c, a, b)
    check(c, wanted)
    ptx = compiled(clustered('choose multicast.b: "none"')).ptx
    assert "multicast::cluster" not in ptx and "barrier.cluster" not in ptx


@pytest.mark.long
@pytest.mark.parametrize("more", MORE)
def test_a_kernel_keeps_its_meaning(more: str) -> None:
    """Three rows of tiles, in numpy, after each pass."""
    c, a, b, _ = matrices("f16", 192, 64, 128)
    request = Request("product", "groups", {"m": 192, "n": 64, "k": 128}, {"T": "f16", "O": "f32"})
    found = verify_kernel(parse_program(clustered(*MORE[more])), request, {"c": c, "a": a, "b": b})
    assert found.divergence is None and found.levels == len(PASSES), found.divergence


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "other iterations": (
        {"range(0, k, TK)": "range(0, minimum(k, block(0) * TM), TK)"},
        "different iterations of a loop",
    ),
    "in equal shares": ({"cluster 2": "cluster 2\n    split p: stream"}, "blocks of a cluster take tiles together"),
    "an asm": (
        {"    acc = zeros": '    of = asm("mov.u32 {d}, %smid;", s32)\n    acc = zeros'},
        "that has no tile of its own would do 'asm'",
    ),
    "two axes, without boxes": (
        {"stage a, b: tma": "stage a, b: shared\n    persistent 0", "cluster 2": "cluster 2, 2"},
        "a cluster along two axes shares TMA copies",
    ),
    "persistent, without boxes": (
        {"stage a, b: tma": "stage a, b: shared", "cluster 2": "cluster 2\n    persistent 1"},
        "form clusters only if TMA",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_blocks_cannot_do_together_is_told(name: str) -> None:
    lines, message = REFUSED[name]
    with pytest.raises(TileError, match=message) as told:
        compiled(changed(lines, clustered()))
    assert told.value.loc is not None and told.value.hint


def faulty(change: Any) -> None:
    """Runs a product of two tiles, eight iterations each, whose PTX is changed."""
    k = of_two_tiles()
    wrong = change(k.ptx)
    assert wrong != k.ptx
    run(wrong)


def of_two_tiles() -> Any:
    return dsl.parse(clustered(), device="emulator").compile("product", m=128, n=64, k=512, T="f16", O="f32")


def run(ptx: str) -> None:
    c, a, b, _ = matrices("f16", 128, 64, 512)
    Kernel(ptx, device="emulator")(c, a, b)


FIRST_LANES = re.compile(r"(setp\.lt\.u32 \t%p\d+, %r\d+, )2;")
"""Those that arrive for their warp, one in each block."""


def test_a_slot_is_free_when_the_other_block_says_so() -> None:
    """All warps arrive in block 0 alone: the other one waits for ever."""
    with pytest.raises(RuntimeFault, match=r"deadlock.*'stage 0 of a, b is free'.* 8 of 8 arrivals are missing"):
        faulty(lambda ptx: FIRST_LANES.sub(r"\g<1>1;", ptx))


def test_a_slot_is_not_free_without_the_other_block() -> None:
    """`free` counts the warps of one block, which alone arrive: the other's have not read what is overwritten."""

    def alone(ptx: str) -> str:
        ptx = re.sub(r"mapa\.shared::cluster\.u32 (%r\d+), (%r\d+), %r\d+;", r"mov.u32 \1, \2;", ptx)
        return re.sub(r"(mov\.b32 \t%r\d+, )8;", r"\g<1>4;", FIRST_LANES.sub(r"\g<1>1;", ptx))

    with pytest.raises(FindingError, match="race: writes shared memory that"):
        faulty(alone)


def test_a_block_ends_behind_the_other_ones_arrivals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "_await_readers", lambda *of: None)
    with pytest.raises(FindingError, match="of the cluster, which may have ended before"):
        run(of_two_tiles().ptx)


def test_all_bytes_are_waited_for() -> None:
    with pytest.raises(FindingError, match="asynchronous copy is still filling"):
        faulty(lambda ptx: re.sub(r"(mov\.b32 \t%r\d+, )16384;", r"\g<1>12288;", ptx))


@pytest.mark.long
@pytest.mark.parametrize("size", [4096, 8192])
@pytest.mark.parametrize("dtype", ["f16", "s8"])
def test_large_products_spill_nothing(dtype: str, size: int) -> None:
    """The sample's schedule with clusters: the assembler takes all products as they are, and no fence in an
    iteration."""
    kernel = dsl.load(SAMPLES / "matmul.tile", device="emulator", arch="sm_90a").compile(
        "product", "wgmma", m=size, n=size, k=size, CLUSTER=2, TM=128, TN=256, SHARES=1,
        types={"T": dtype, "O": "f16" if dtype == "f16" else "s32", "B": "f32"},
        absent={"scale", "bias", "residual", "row_scale"}, strides={"a": (size, 1), "b": (1, size)},
        align=dict.fromkeys("abc", 16),
    )  # fmt: skip
    assert kernel.ptx.count("multicast::cluster") == 1  # the parts of b are one box
    made = assemble(kernel.ptx, "sm_90a")
    assert made.spill_stores == 0 and "C75" not in made.log, made.log
