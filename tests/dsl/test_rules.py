"""Constants that neither the kernel, the schedule nor the caller says: rules find them by what they tile."""

from __future__ import annotations

import numpy as np
import pytest

import dsl
from dsl.kernels.compile import compile_variant
from dsl.kernels.variant import Request, build_variant, costs_of
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import DeviceError
from dsl.runtime.tools import assemble, find
from dsl.schedules.rules import rule_of
from dsl.text.program import parse_program
from dsl.values.facts import ArrayFacts

TEXT = """
kernel product(c: f32[m, n], a: T[m, k], b: T[n, k]; T in f16|s8, ROWS, BN, ROUND):
    grid cdiv(m, ROWS), cdiv(n, BN)
    i, j = block(0) * ROWS, block(1) * BN
    acc = zeros({sum}[ROWS, BN])
    for p in range(0, k, ROUND):
        acc = dot(a[i : i + ROWS, p : p + ROUND], b[j : j + BN, p : p + ROUND].T, acc)
    c[i : i + ROWS, j : j + BN] = acc.to(f32)

kernel softmax(y: T[rows, cols], x: T[rows, cols]; T in f16|f32, HEIGHT, WIDTH):
    grid cdiv(rows, HEIGHT)
    r = block(0) * HEIGHT
    v = load(x[r : r + HEIGHT, 0 : WIDTH], other=-inf).to(f32)
    e = exp(v - max(v, axis=1, keepdims=true))
    y[r : r + HEIGHT, 0 : WIDTH] = (e / sum(e, axis=1, keepdims=true)).to(T)

kernel one(y: T[rows, cols], x: T[rows, cols]; T in f16|f32, WIDTH):
    grid rows
    v = load(x[block(0), 0 : WIDTH], other=-inf).to(f32)
    y[block(0), 0 : WIDTH] = exp(v - max(v)).to(T)

kernel add(z: T[n], x: T[n], y: T[n]; T in f32|f16, BLOCK):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    z[i : i + BLOCK] = x[i : i + BLOCK] + y[i : i + BLOCK]

kernel none(z: f32[n], x: f32[n]; BLOCK, WIDTH):
    grid cdiv(n, BLOCK)
    z[0 : BLOCK] = x[0 : BLOCK] + WIDTH

schedule low of product:
    ROWS = 32
""".replace("{sum}", "f32")


PLAIN = """
schedule plain of product:
    instruction acc: mma.sync
"""


def constants(kernel: str, dims: dict[str, int], schedule: str | None = None, text=TEXT, **request: object) -> dict:
    variant = build_variant(parse_program(text), Request(kernel, schedule, dims, **request))  # type: ignore[arg-type]
    return variant.constants


@pytest.mark.parametrize(
    ("m", "n", "by_warps", "by_groups"),
    [
        (8192, 8192, (128, 128, 64, 4), (128, 256, 64, 8)), (4096, 4096, (128, 128, 64, 4), (128, 256, 64, 8)),
        (1024, 2048, (128, 128, 64, 4), (128, 128, 64, 8)), (1024, 1024, (64, 128, 64, 4), (64, 128, 128, 4)),
        (512, 512, (64, 64, 64, 4), (64, 64, 128, 4)), (8, 4096, (16, 32, 128, 4), (64, 32, 128, 4)),
        (4096, 32, (16, 32, 128, 4), (64, 32, 128, 4)),
    ],
)  # fmt: skip
def test_the_tile_of_a_product_has_the_least_cost(
    m: int, n: int, by_warps: tuple[int, ...], by_groups: tuple[int, ...]
) -> None:
    """With mma.sync, which a line asks for, and with wgmma by the plan."""
    for schedule, tile in (("plain", by_warps), (None, by_groups)):
        found = constants("product", {"m": m, "n": n, "k": 4096}, schedule, TEXT + PLAIN)
        assert tuple(found[name] for name in ("ROWS", "BN", "ROUND", "warps")) == tile


@pytest.mark.parametrize(("a", "b", "tile"), [
    ("m, k", "n, k", (128, 256, 128, 8)), ("m, k", "k, n", (128, 256, 128, 8)), ("k, m", "k, n", (128, 128, 128, 4)),
])  # fmt: skip
def test_bytes_across_k_have_the_tile_of_wgmma_unless_both_lie_so(a: str, b: str, tile: tuple[int, ...]) -> None:
    changes = {"a: T[m, k]": f"a: s8[{a}]", "b: T[n, k]": f"b: s8[{b}]", "T in f16|s8, ": "", "c: f32": "c: s32"}
    changes |= {"f32[ROWS": "s32[ROWS", "acc.to(f32)": "acc"}
    if a == "k, m":
        changes["a[i : i + ROWS, p : p + ROUND]"] = "a[p : p + ROUND, i : i + ROWS].T"
    if b == "k, n":
        changes["b[j : j + BN, p : p + ROUND].T"] = "b[p : p + ROUND, j : j + BN]"
    text = TEXT
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new, 1)
    found = constants("product", dict.fromkeys("mnk", 4096), text=text)
    assert tuple(found[name] for name in ("ROWS", "BN", "ROUND", "warps")) == tile


GATES = """
kernel gates(c: f32[m, n], a: f16[m, k], u: f16[n, k], v: f16[n, k], b: f16[m, h], w: f16[n, h]; TM, TN, TK):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    x, y = zeros(f32[TM, TN]), zeros(f32[TM, TN])
    for p in range(0, k, TK):
        rows = a[i : i + TM, p : p + TK]
        x, y = dot(rows, u[j : j + TN, p : p + TK].T, x), dot(rows, v[j : j + TN, p : p + TK].T, y)
{second}    c[i : i + TM, j : j + TN] = x * y
"""
SECOND = """    for q in range(0, h, TK):
        x += b[i : i + TM, q : q + TK] @ w[j : j + TN, q : q + TK].T
"""


@pytest.mark.parametrize(("second", "tile"), [("", (128, 128, 64, 8)), (SECOND, (128, 128, 32, 8))])
def test_sums_and_loops_of_a_kernel_share_registers_and_memory(second: str, tile: tuple[int, ...]) -> None:
    """Two sums of 128 x 128 have the registers of one of 128 x 256. Two rings have half the bytes each."""
    found = constants("gates", {"m": 4096, "n": 4096, "k": 4096, "h": 4096}, text=GATES.replace("{second}", second))
    assert tuple(found[name] for name in ("TM", "TN", "TK", "warps")) == tile


def test_the_loops_of_a_kernel_count_together() -> None:
    """The k of a product of two loops is the sum of both."""
    program = parse_program(GATES.replace("{second}", SECOND))
    point = {"TM": 64, "TN": 64}
    costs = [
        costs_of(program, Request("gates", None, {"m": 512, "n": 512, "k": k, "h": h}), [point], {})
        for k, h in ((4096, 64), (64, 4096), (2080, 2080), (4096, 4096))
    ]
    assert costs[0] == costs[1] == costs[2] < costs[3]


BODIES = """
def both(rows, b, x, y):
    return dot(rows, b, x), dot(rows, b * 2.0, y)

kernel sums(c: f32[m, n], a: f16[m, k], u: f16[n, k], v: f16[n, k]?; TM, TN, TK, GATED = false):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    x, y, norm = zeros(f32[TM, TN]), zeros(f32[TM, TN]), zeros(f32[TM])
    for p in range(0, k, TK):
        rows, cols = a[i : i + TM, p : p + TK], u[j : j + TN, p : p + TK].T
        {body}
    c[i : i + TM, j : j + TN] = (x + y) * norm[:, None]
"""
GATE = "x = dot(rows, cols, x)\n        if {}:\n            y = dot(rows, v[j : j + TN, p : p + TK].T, y)"
NORM = """norm += sum((rows * rows).to(f32), axis=1)
    for p in range(0, k, TK):
        x = dot(a[i : i + TM, p : p + TK], u[j : j + TN, p : p + TK].T, x)"""


@pytest.mark.parametrize(
    ("body", "sums"),
    [
        (GATE.format("GATED"), 1),
        (GATE.format("not GATED"), 2),
        (GATE.format("given(v)"), 1),
        (GATE.format("m > 5"), 2),
        (GATE.format("GATED") + "\n        else:\n            y += rows @ (cols * 2.0)", 2),
        ("x, y = both(rows, cols, x, y)", 2),
        ("x += rows @ cols + rows @ (cols * 2.0)", 2),
        ("c[i : i + TM, j : j + TN] += rows @ cols", 1),
        (NORM, 1),
    ],
)
def test_the_sums_that_a_kernel_has_share_the_registers(body: str, sums: int) -> None:
    """A branch left out has none; a called function has those that it returns. Two products in an expression have two
    tiles at once, and a loop without a product shares no memory: TK is 64."""
    text, dims = BODIES.replace("{body}", body), {"m": 4096, "n": 4096, "k": 4096}
    found = constants("sums", dims, text=text, arch="sm_90a", absent=frozenset({"v"} if "(v)" in body else ()))
    assert tuple(found[name] for name in ("TM", "TN", "TK")) == (128, 256 // sums, 64)


ODD = """
kernel odd(c: f32[m, n], a: T[m, k; strided], b: T[k, n], d: T[m, h], e: T[h, n]; T in f16|s8, TM, TN, TK):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(sum_type(T)[TM, TN])
    for p in range(0, k, TK):
        acc = dot(a[i : i + TM, p : p + TK], b[p : p + TK, j : j + TN], acc)
    for p in range(0, h, TK):
        acc = dot(d[i : i + TM, p : p + TK], e[p : p + TK, j : j + TN], acc)
    c[i : i + TM, j : j + TN] = acc.to(f32)
"""


@pytest.mark.parametrize("type", ["f16", "s8"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("extents", [(4096, 4097, 4096, 64), (4096, 4096, 4097, 64), (4096, 4096, 2047, 2049)])
def test_rows_that_are_loaded_by_elements_have_a_tile_that_does_not_spill(
    type: str, arch: str, extents: tuple[int, ...]
) -> None:
    """128 x 256 spilled 22 KB a thread where n is odd; now it is 40 bytes at most. Two odd k make an
    even sum, so that their rows count apart."""
    request = Request("odd", None, dict(zip("mnkh", extents, strict=True)), {"T": type}, arch=arch)
    compiled = compile_variant(parse_program(ODD), request)
    assert tuple(compiled.variant.constants[name] for name in ("TM", "TN", "TK")) == (64, 64, 64)
    try:
        find("ptxas")
    except DeviceError as error:
        pytest.skip(str(error))
    assert assemble(compiled.ptx, arch, "odd").spill_loads <= 40


def test_a_loop_that_an_absent_tensor_leaves_out_does_not_count() -> None:
    """Its extent h is not known then, and its rows have no place."""
    loop = "    for p in range(0, h, TK):\n        acc"
    text = ODD.replace("T[m, h]", "T[m, h]?").replace("T[h, n]", "T[h, n]?")
    text = text.replace(loop, f"    if given(d):\n    {loop}".replace("\n        acc", "\n            acc"))
    dims = {"m": 4096, "n": 4096, "k": 4096}
    program, absent = parse_program(text), frozenset({"d", "e"})
    found = constants("odd", dims, text=text, arch="sm_90a", absent=absent)
    assert tuple(found[name] for name in ("TM", "TN", "TK")) == (128, 256, 64)
    assert constants("odd", dims | {"k": 4097}, text=text, arch="sm_90a", absent=absent)["TM"] == 64
    costs = [
        costs_of(program, Request("odd", None, dims | more, absent=none), [{"TM": 64, "TN": 64}], {})
        for more, none in (({}, absent), ({"h": 64}, frozenset[str]()), ({"k": 8192}, absent))
    ]
    assert costs[0] < costs[1] < costs[2]


def test_a_view_counts_by_the_rows_that_it_has_in_memory() -> None:
    dims = {"m": 4096, "n": 4096, "k": 4097, "h": 64}
    assert constants("odd", dims, text=ODD, arch="sm_90a")["TM"] == 64
    lying = constants("odd", dims, text=ODD, arch="sm_90a", strides={"a": (1, 16)})
    assert lying["TM"] * lying["TN"] > 64 * 64


def test_a_tile_that_was_not_measured_is_taken_if_a_line_asks_for_it() -> None:
    found = constants("product", {"m": 512, "n": 512, "k": 64}, constants={"BN": 16})
    assert found["BN"] == 16 and found["ROWS"] in (16, 32, 64, 128)


def test_a_tile_for_which_there_are_no_registers_is_passed_over() -> None:
    """Sums of 128 x 256 and another tile that the loop carries have 256 registers of each of 256 threads."""
    lines = (
        ("acc = zeros(f32[ROWS, BN])", "acc, more = zeros(f32[ROWS, BN]), zeros(f32[ROWS, BN])"),
        (".T, acc)", ".T, acc)\n        more = more * 2.0 + load(c[i : i + ROWS, j : j + BN], other=0.0)"),
        ("acc.to(f32)", "acc + more"),
    )
    text = TEXT
    for old, new in lines:
        assert old in text
        text = text.replace(old, new, 1)
    module = dsl.parse(text, device="emulator", arch="sm_90a")
    facts = {
        "c": ArrayFacts((4096, 4096), "f32"),
        "a": ArrayFacts((4096, 4096), "f16"),
        "b": ArrayFacts((4096, 4096), "f16"),
    }
    (step,) = module.product.plan(facts).steps
    made = module.variant(step.request).header.constants
    assert made["ROWS"] * made["BN"] <= 128 * 128


def test_what_the_schedule_or_the_caller_says_stays_and_the_rest_goes_by_it() -> None:
    dims = {"m": 8192, "n": 8192, "k": 64}
    assert constants("product", dims, "low")["ROWS"] == 32
    found = constants("product", dims, "low", constants={"BN": 128, "warps": 2})
    assert (found["ROWS"], found["BN"], found["ROUND"], found["warps"]) == (32, 128, 64, 2)


@pytest.mark.parametrize(
    ("cols", "type", "rows", "width", "warps"),
    [(40, "f16", 16, 64, 4), (1000, "f16", 4, 1024, 4), (1025, "f32", 1, 1280, 2), (9000, "f16", 1, 10240, 8)],
)
def test_rows_are_a_warps_or_a_blocks(cols: int, type: str, rows: int, width: int, warps: int) -> None:
    """A block's are in parts of what its threads load at once: 256 of f32, 2048 of f16."""
    found = constants("softmax", {"rows": 64, "cols": cols}, types={"T": type})
    assert (found["HEIGHT"], found["WIDTH"], found["warps"]) == (rows, width, warps)


@pytest.mark.parametrize(("cols", "width", "warps"), [(40, 256, 1), (512, 512, 1), (5000, 5120, 4), (65536, 65536, 16)])
def test_a_block_with_one_row_has_a_warp_for_4_kb_of_it(cols: int, width: int, warps: int) -> None:
    found = constants("one", {"rows": 64, "cols": cols}, types={"T": "f16"})
    assert (found["WIDTH"], found["warps"]) == (width, warps)


def test_kernels_without_a_schedule_run_at_any_shape(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "bare.tile"
    path.write_text(TEXT)
    m = dsl.load(str(path), device="emulator")
    random = np.random.default_rng(0)
    for shape in ((33, 65, 40), (1, 300, 8), (200, 130, 64)):
        a, b = (random.integers(-3, 4, (e, shape[2])).astype(np.float16) for e in shape[:2])
        c = np.zeros(shape[:2], np.float32)
        m.product(c, a, b)
        assert np.array_equal(c, a.astype(np.float32) @ b.T.astype(np.float32))
    for cols in (1, 33, 1000, 2049):
        x = random.standard_normal((7, cols)).astype(np.float32)
        y = np.zeros_like(x)
        m.softmax(y, x)
        e = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)
    x = random.standard_normal(5001).astype(np.float32)
    z = np.zeros_like(x)
    m.add(z, x, x)
    assert np.array_equal(z, x + x)


def test_a_launch_checks_what_the_rule_went_by() -> None:
    """The width of rows is that of the dims: other dims need another variant."""
    variant = build_variant(parse_program(TEXT), Request("softmax", None, {"rows": 64, "cols": 1000}))
    texts = [each.text for each in variant.requires]
    assert any(text.startswith("WIDTH == where(SHORT") for text in texts)


def test_a_kernel_of_another_form_has_no_rule() -> None:
    program = parse_program(TEXT)
    assert rule_of(program, "none") is None
    assert [rule_of(program, name).part for name in ("product", "softmax", "add")] == ["product", "rows", "elements"]  # type: ignore[union-attr]
    with pytest.raises(TileError, match="'BLOCK' is not set"):
        constants("none", {"n": 5})


def test_a_constant_that_is_misspelt_is_no_rules() -> None:
    text = TEXT.replace("    ROWS = 32", "    ROW = 32")
    with pytest.raises(TileError, match="nothing reads 'ROW'") as caught:
        build_variant(parse_program(text), Request("product", "low", {"m": 64, "n": 64, "k": 64}))
    assert caught.value.hint == "did you mean 'ROWS'?"
