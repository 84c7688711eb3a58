"""Copies whose place comes from a table: pages of a cache, gathered rows, blocks of a sparse matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsl.kernels.variant import Request
from dsl.lowering.directives.pipeline import source_of
from dsl.lowering.directives.slices import slice_of
from dsl.lowering.ir.function import Function, Op, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ops import operand
from tests.compile_and_run import Kernel, compile_kernel, dims_of, few_blocks, launch, passed, program_of, through
from tests.random_directives.hopper_trying import attempt_hopper
from tests.random_kernels.trying import compiled, kernel_of

Arrays = dict[str, Any]

PAGED = """
kernel paged(y: f32[batch, heads, TM, D], x: f16[batch, heads, TM, TN], v: f16[count, heads, P, D],
             pages: s32[batch, most], ends: s32[batch]; TM = 16, TN = 32, P = 64, D = 64):
    grid heads, batch
    of, b = block(0), block(1)
    acc = zeros(f32[TM, D])
    for j in range(0, minimum(ends[b], most * P), TN):
        page = pages[b, j // P]
        acc = dot(x[b, of, :, :], v[page, of, j % P : j % P + TN, :], acc)
    y[b, of, :, :] = acc

schedule s of paged:
    {lines}
"""
ROW = """        at = j + arange(TN)
        page = pages[b, at // P]
        rows = v[page[:, None], of, (at % P)[:, None], arange(D)[None, :]]
        acc = dot(x[b, of, :, :], rows, acc)
"""


def by_rows(text: str) -> str:
    """The kernel with an index for each row of a tile, which may have rows of several pages."""
    before, _, after = text.partition("        page = ")
    return before + ROW + after[after.index("    y[b") :]


def pages(p: int = 64, tn: int = 32, most: int = 4, heads: int = 2) -> tuple[Arrays, np.ndarray]:
    """The arrays of PAGED. The entries behind the last page of a sequence are no pages."""
    random = np.random.default_rng(p)
    ends = np.array([tn, 0, 2 * max(p, tn) - tn, most * p], np.int32)
    table = np.full((4, most), 1 << 30, np.int32)
    v = random.integers(-3, 4, (5, heads, p, 64)).astype(np.float16)
    x = random.integers(-3, 4, (4, heads, 16, tn)).astype(np.float16)
    wanted = np.zeros((4, heads, 16, 64), np.float32)
    for b, end in enumerate(ends):
        count = -(-end // p)
        table[b, :count] = random.integers(0, 5, count)
        for j in range(0, end, tn):
            rows = [v[table[b, i // p], :, i % p] for i in range(j, j + tn)]
            wanted[b] += x[b].astype(np.float32) @ np.stack(rows, axis=1).astype(np.float32)
    return {"y": np.full_like(wanted, np.nan), "x": x, "v": v, "pages": table, "ends": ends}, wanted


def loops(function: Function) -> list[Op]:
    """The innermost loops."""
    found = [op for op in walk(function.body) if op.spec.control.counters]
    return [loop for loop in found if not any(op.spec.control.counters for op in walk(loop.regions[0]))]


def waits_for_entries(function: Function) -> bool:
    """Whether some copy of a loop needs what the same iteration loads."""
    for loop in loops(function):
        ops = loop.regions[0].ops
        wanted = [value for op in ops if op.name == "copy" for value in source_of(op)]
        if any(op.name == "load" for op in slice_of(ops, wanted)):
            return True
    return False


def piped(text: str, args: Arrays, stages: int | None, **request: Any) -> Kernel:
    """Compiles a kernel whose ring must have so many stages, and whose copies must not wait for entries."""
    kernel = compile_kernel(text, args, **request)
    asked = Request(kernel.variant.function.name, "s", dims=dims_of(kernel.variant, args), **request)
    pipelined = passed(program_of(text), asked, through("pipeline")).function
    copies = [op for loop in loops(pipelined) for op in loop.regions[0].ops if op.name == "copy"]
    assert [op.operands[0].type.shape[0] for op in copies] == [stages] * len(copies) != []  # type: ignore[union-attr]
    assert not waits_for_entries(pipelined)
    return kernel


SHARED = "stage v: shared\n    "
LINES = {"itself": "unroll j: 1", "two": SHARED + "pipeline j: 2\n    unroll j: 1", "four": SHARED + "pipeline j: 4"}
STAGES = {"itself": 3, "two": 2, "four": 4}


@pytest.mark.parametrize(
    ("lines", "arch"), [("itself", "sm_80"), ("two", "sm_80"), ("two", "sm_90"), ("four", "sm_90")]
)
@pytest.mark.parametrize("form", ["pages", "rows"])
def test_pages_are_copied_ahead(lines: str, form: str, arch: str) -> None:
    text = PAGED.format(lines=LINES[lines])
    args, wanted = pages()
    kernel = piped(by_rows(text) if form == "rows" else text, args, STAGES[lines], arch=arch)
    assert {op.attrs["bytes"] for op in kernel.ops if op.name == "copy"} == {16}
    launch(kernel, args)
    assert np.array_equal(args["y"], wanted)


@pytest.mark.parametrize("way", ["early", "late"])
@pytest.mark.parametrize("form", ["pages", "rows"])
def test_fragments_are_loaded_early_beside_entries(form: str, way: str) -> None:
    text = PAGED.format(lines=f"pipeline j: 3\n    prefetch_fragments j: {way}\n    unroll j: 3")
    args, wanted = pages()
    kernel = piped(by_rows(text) if form == "rows" else text, args, 3, arch="sm_80")
    assert any(op.attrs.get("stepped") == way for op in kernel.ops)
    launch(kernel, args)
    assert np.array_equal(args["y"], wanted)


def test_a_tile_may_have_rows_of_several_pages() -> None:
    args, wanted = pages(p=16, tn=64, most=16)
    text = by_rows(PAGED.replace("TN = 32, P = 64", "TN = 64, P = 16").format(lines="pipeline j: 3"))
    kernel = piped(text, args, 3, arch="sm_80")
    assert {op.attrs["bytes"] for op in kernel.ops if op.name == "copy"} == {16}
    loads = [op for op in kernel.ops if op.name == "load" and op.operands[0].name not in ("pages", "ends", "sv", "sx")]
    assert not loads  # each thread loads the entries of the rows that it copies
    launch(kernel, args)
    assert np.array_equal(args["y"], wanted)


BAG = """
kernel bag(y: f32[bags, D], w: f16[rows, D], table: s32[bags, n]; D = 64, R = 16):
    grid bags
    b = block(0)
    acc = zeros(f32[D])
    for i in range(0, n, R):
        at = i + arange(R)
        row = load(table[b, at], mask=at < n, other=-1)
        values = load(w[row[:, None], arange(D)[None, :]], mask=(row >= 0)[:, None], other=0.0)
        acc = acc + sum(values.to(f32), axis=0)
    y[b, :] = acc

schedule s of bag:
    stage w: shared
    pipeline i: 4
"""


@pytest.mark.parametrize("n", [0, 1, 16, 77])
def test_rows_that_a_table_lists_are_summed(n: int) -> None:
    """Entries below zero are none."""
    random = np.random.default_rng(n)
    table = random.integers(-1, 9, (3, n)).astype(np.int32)
    w = random.integers(-3, 4, (9, 64)).astype(np.float16)
    args = {"y": np.full((3, 64), np.nan, np.float32), "w": w, "table": table}
    launch(piped(BAG, args, 4, arch="sm_80"), args)
    assert np.array_equal(args["y"], np.where((table >= 0)[..., None], w[table].astype(np.float32), 0).sum(1))


SPARSE = """
kernel sparse(c: f32[m, n], a: f16[blocks, TM, TK], b: f16[k, n], begins: s32[ends], order: s32[blocks],
              column: s32[blocks]; TM = 32, TN = 32, TK = 32):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0), block(1) * TN
    acc = zeros(f32[TM, TN])
    for e in range(begins[i].to(index), begins[i + 1].to(index)):
        at = order[e]
        p = column[at] * TK
        acc = dot(a[at, :, :], b[p : p + TK, j : j + TN], acc)
    c[i * TM : i * TM + TM, j : j + TN] = acc

schedule s of sparse:
    {lines}
"""


def blocks() -> tuple[Arrays, np.ndarray]:
    """The arrays of SPARSE: the blocks of three rows of blocks, in any order."""
    random = np.random.default_rng(1)
    begins, order = np.array([0, 5, 5, 7], np.int32), random.permutation(7).astype(np.int32)
    column = random.integers(0, 4, 7).astype(np.int32)
    a = random.integers(-3, 4, (7, 32, 32)).astype(np.float16)
    b = random.integers(-3, 4, (128, 64)).astype(np.float16)
    wanted = np.zeros((96, 64), np.float32)
    for row in range(3):
        for at in order[begins[row] : begins[row + 1]]:
            part = b[column[at] * 32 : column[at] * 32 + 32].astype(np.float32)
            wanted[row * 32 : row * 32 + 32] += a[at].astype(np.float32) @ part
    args = {"a": a, "b": b, "begins": begins, "order": order, "column": column}
    return {"c": np.full_like(wanted, np.nan), **args}, wanted


@pytest.mark.parametrize("stages", [2, 3, 6])
def test_entries_of_entries_are_loaded_a_round_earlier(stages: int) -> None:
    """A column is loaded one round ahead of its copy, and the number of its block one more."""
    args, wanted = blocks()
    text = SPARSE.format(lines=f"pipeline e: {stages}\n    unroll e: 1")
    kernel = piped(text, args, stages, arch="sm_80")
    (loop,) = loops(kernel.variant.function)
    ops = loop.regions[0].ops
    entries = [op for op in ops if op.name == "load" and not op.result.shape]
    assert len(entries) == 2
    assert all(not set(entries) & set(slice_of(ops, op.operands)) for op in entries)
    launch(kernel, args)
    assert np.array_equal(args["c"], wanted)


NEST = """
kernel nest(c: f32[m, n], a: f16[m, g, k], b: f16[count, n, k], table: s32[g]; TM = 32, TN = 32, TK = 32):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(f32[TM, TN])
    for e in range(g):
        own = table[e]
        for p in range(0, {end}, TK):
            acc = {more}dot(a[i : i + TM, e, p : p + TK], b[own, j : j + TN, p : p + TK].T, acc)
    c[i : i + TM, j : j + TN] = acc

schedule s of nest:
    {lines}
"""


def experts(k: int) -> tuple[Arrays, np.ndarray]:
    random = np.random.default_rng(k)
    a = random.integers(-3, 4, (64, 3, k)).astype(np.float16)
    b = random.integers(-3, 4, (4, 32, k)).astype(np.float16)
    table = np.array([2, 0, 2], np.int32)
    wanted = np.einsum("mgk,gnk->mn", a.astype(np.float32), b[table].astype(np.float32))
    return {"c": np.full((64, 32), np.nan, np.float32), "a": a, "b": b, "table": table}, wanted


@pytest.mark.parametrize(("end", "more"), [("k", ""), ("minimum(k, 96)", "e.to(f32) * 0.0 + ")])
@pytest.mark.parametrize("lines", ["pipeline e, p: 3", "pipeline p: 3", "persistent 1"])
def test_loops_of_loops(lines: str, end: str, more: str) -> None:
    """In a nest, the entries of the next round may be those of the next round of an outer loop."""
    args, wanted = experts(96)
    kernel = piped(NEST.format(lines=lines, end=end, more=more), args, 3, arch="sm_80")
    launch(kernel, args)
    assert np.array_equal(args["c"], wanted)


def test_blocks_that_take_several_tiles_start_anew_for_each() -> None:
    text = PAGED.replace("grid heads, batch", "grid heads * batch, 1").replace(
        "block(0), block(1)", "block(0) % heads, block(0) // heads"
    )
    args, wanted = pages()
    kernel = compile_kernel(text.format(lines="persistent 1\n    pipeline j: 3"), args, arch="sm_80")
    kernel.ptx = few_blocks(kernel.ptx)
    launch(kernel, args, grid=(3, 1, 1))
    assert np.array_equal(args["y"], wanted)


WRITES = {
    "pages[b, j // P] = page": r"its place comes from 'load' in line \d+, and the kernel writes 'pages'",
    "v[page, of, j % P : j % P + TN, :] = zeros(f16[TN, D])": "the kernel writes it, and a copy would read it earlier",
    "atomic_add(pages[b, 0], 0)": r"its place comes from 'load' in line \d+, and the kernel writes 'pages'",
}


@pytest.mark.parametrize("line", WRITES)
def test_what_the_kernel_writes_is_not_copied_ahead(line: str) -> None:
    """A line says so. Without it, the rows come where they are used."""
    args, wanted = pages(heads=1)
    text = PAGED.replace("    y[b, of", f"        {line}\n    y[b, of")
    with pytest.raises(TileError, match=WRITES[line]):
        compile_kernel(text.format(lines="stage v: shared"), args, arch="sm_80")
    kernel = compile_kernel(text.format(lines="contract off"), args, arch="sm_80")
    assert not [op for op in kernel.ops if op.name == "copy" and (of := operand(op, "tensor")) and of.name == "v"]
    if "v[" not in line:
        launch(kernel, {**args, "pages": args["pages"].copy()})
        assert np.array_equal(args["y"], wanted)


def test_copies_stay_behind_what_orders_them() -> None:
    """Another kernel may write the table or the pages until then."""
    args, wanted = pages()
    text = PAGED.replace("s32[batch];", "s32[batch], flags: s32[batch];").replace(
        "        page =", "        seen = atomic_add(flags[b], 0, order=acquire, scope=system)\n        page ="
    )
    args["flags"] = np.zeros(4, np.int32)
    for line in ("stage v: shared", "stage x: shared"):
        with pytest.raises(TileError, match="it comes after 'atomic' in line 8, which orders it behind"):
            compile_kernel(text.format(lines=line), args, arch="sm_80")
    kernel = compile_kernel(text.format(lines="contract off"), args, arch="sm_80")
    assert kernel.count("copy") == 0
    launch(kernel, args)
    assert np.array_equal(args["y"], wanted)


@pytest.mark.parametrize(("way", "stages"), [("cache=volatile", None), ("evict=first", 3)])
def test_entries_that_others_change_are_loaded_where_they_stand(way: str, stages: int | None) -> None:
    args, wanted = pages()
    text = PAGED.replace("pages[b, j // P]", f"load(pages[b, j // P], {way})")
    text = text.format(lines="stage v: shared\n    pipeline j: 3")
    if stages is None:
        with pytest.raises(TileError, match="its place comes from 'load'"):
            compile_kernel(text, args, arch="sm_80")
    else:
        launch(piped(text, args, stages, arch="sm_80"), args)
        assert np.array_equal(args["y"], wanted)


def test_a_table_that_is_staged_itself_arrives_too_late() -> None:
    text = by_rows(PAGED).replace("pages[b, at // P]", "pages[b, j // P : j // P + 1]")
    with pytest.raises(TileError, match="its place comes from 'load'"):
        compile_kernel(text.format(lines="stage v, pages: shared"), pages()[0], arch="sm_80")


def loads_late(kernel: Kernel) -> bool:
    """Whether a producer warp loads an entry in the iteration that copies what it says."""
    (roles,) = (op for op in kernel.ops if op.name == "warp_specialize")
    for loop in (op for op in walk(roles.regions[0]) if op.spec.control.counters):
        ops = loop.regions[0].ops
        corners = [value for op in ops if op.name == "tma_copy" for value in op.operands]
        if corners and any(op.name == "load" for op in slice_of(ops, corners)):
            return True
    return False


TMA = {"itself": "unroll j: 1", "three": "stage v, x: tma\n    pipeline j: 3", "tiles": "persistent 1"}


@pytest.mark.parametrize("lines", TMA)
@pytest.mark.parametrize("form", ["pages", "rows"])
def test_producer_warps_load_the_table(lines: str, form: str) -> None:
    args, wanted = pages()
    text = PAGED.replace("grid heads, batch", "grid heads * batch, 1").replace(
        "block(0), block(1)", "block(0) % heads, block(0) // heads"
    )
    text = (by_rows(text) if form == "rows" else text).format(lines=TMA[lines])
    kernel = compile_kernel(text, args, arch="sm_90")
    assert kernel.count("tma_copy") and kernel.count("copy") == 0 and not loads_late(kernel)
    (roles,) = (op for op in kernel.ops if op.name == "warp_specialize")
    tables = [op.operands[0].name for op in walk(roles.regions[1]) if op.name == "load"]
    assert "pages" not in tables  # the warps that multiply need no entry
    launch(kernel, args, grid=(3, 1, 1) if lines == "tiles" else None)
    assert np.array_equal(args["y"], wanted)


@pytest.mark.parametrize("lines", ["unroll e: 1", "persistent 1"])
def test_producer_warps_load_entries_of_entries(lines: str) -> None:
    args, wanted = blocks()
    text = SPARSE.replace("TM = 32, TN = 32, TK = 32", "TM = 64, TN = 32, TK = 32")
    args["a"] = np.concatenate([args["a"], np.zeros_like(args["a"])], 1)
    wanted = np.concatenate([wanted.reshape(3, 32, 64), np.zeros((3, 32, 64), np.float32)], 1).reshape(192, 64)
    args["c"] = np.full_like(wanted, np.nan)
    kernel = compile_kernel(text.format(lines=lines), args, arch="sm_90")
    assert kernel.count("tma_copy") == 2 and not loads_late(kernel)
    launch(kernel, args, grid=(2, 1, 1) if lines.startswith("persistent") else None)
    assert np.array_equal(args["c"], wanted)


WAYS = {"mma.sync": "instruction acc: mma.sync\n    stage v, x: tma\n    pipeline j: 3", "wgmma": "unroll j: 1"}


def boxes(kernel: Kernel) -> list[int]:
    """The number of rows of each box of v that an iteration copies."""
    (roles,) = (op for op in kernel.ops if op.name == "warp_specialize")
    copies = [op for op in walk(roles.regions[0]) if op.name == "tma_copy"]
    own = [op for op in copies if (tensor := operand(op, "tensor")) is not None and tensor.name == "v"]
    return [max(axis[1] for axis in op.attrs["box"] if axis[2] == 0) for op in own]


@pytest.mark.parametrize(("p", "most"), [(8, 24), (16, 12), (48, 4), (64, 3), (256, 2)])
@pytest.mark.parametrize("way", ["mma.sync", "wgmma"])
def test_rows_of_several_pages_are_a_box_for_each(p: int, most: int, way: str) -> None:
    """By itself where wgmma reads them."""
    args, wanted = pages(p=p, tn=64, most=most)
    text = PAGED.replace("TM = 16, TN = 32, P = 64", f"TM = 16, TN = 64, P = {p}")
    if way == "wgmma":
        text, (args, wanted) = text.replace("TM = 16", "TM = 64"), four_times(args, wanted)
    kernel = compile_kernel(by_rows(text.format(lines=WAYS[way])), args, arch="sm_90a")
    assert boxes(kernel) == [min(p & -p, 64)] * (64 // min(p & -p, 64)) and not loads_late(kernel)
    assert kernel.count("wgmma") == (way == "wgmma")
    launch(kernel, args)
    assert np.array_equal(args["y"], wanted)


def four_times(args: Arrays, wanted: np.ndarray) -> tuple[Arrays, np.ndarray]:
    """With 64 rows of x in place of 16."""
    x, wanted = np.tile(args["x"], (1, 1, 4, 1)), np.tile(wanted, (1, 1, 4, 1))
    return args | {"x": x, "y": np.full_like(wanted, np.nan)}, wanted


SHEARED = """
kernel sheared(y: f32[TM, D], x: f16[TM, n], v: f16[count, 17, 192], pages: s32[most];
               TM = 16, TN = 64, P = 16, D = 128):
    grid 1
    acc = zeros(f32[TM, D])
    for j in range(0, n, TN):
        at, column = j + arange(TN), arange(D)
        acc = dot(x[:, j : j + TN], v[pages[at // P][:, None], {row}, {column}], acc)
    y[:, :] = acc

schedule s of sheared:
    stage v: {way}
    instruction acc: mma.sync
"""
SHEARS = {
    "row": ("(at % P)[:, None] + column[None, :] // 64", "column[None, :]", 1),
    "column": ("(at % P)[:, None]", "column[None, :] + (at // P % 2 * 64)[:, None]", 2),
}


@pytest.mark.parametrize("of", SHEARS)
def test_rows_that_do_not_begin_together_are_no_boxes(of: str) -> None:
    """An index that differs within a row, too, says more than where a group of rows begins."""
    row, column, axis = SHEARS[of]
    random = np.random.default_rng(2)
    v, x = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((5, 17, 192), (16, 128)))
    args = {"y": np.zeros((16, 128), np.float32), "x": x, "v": v, "pages": random.integers(0, 5, 8).astype(np.int32)}
    at, place = np.arange(128)[:, None], np.arange(128)[None, :]
    rows = at % 16 + place // 64 if of == "row" else at % 16
    columns = place if of == "row" else place + at // 16 % 2 * 64
    wanted = x.astype(np.float32) @ v[args["pages"][at // 16], rows, columns].astype(np.float32)
    text = SHEARED.format(row=row, column=column, way="{way}")
    with pytest.raises(TileError, match=f"its index along axis {axis} differs within its rows"):
        compile_kernel(text.format(way="tma"), args, arch="sm_90a")
    launch(compile_kernel(text.format(way="shared"), args, arch="sm_90a"), args)
    assert np.array_equal(args["y"], wanted)


ENDS = """        at = j + arange(TN)
        page = load(pages[b, at // P], mask={table}, other=0)
        rows = load(v[page, of, at % P, 0 : D], mask={rows})
        acc = dot(x[b, of, :, :], rows, acc)
"""
END = "at < end"


def to_the_end(table: str = END, rows: str = "at[:, None] < end", tm: int = 16, p: int = 16) -> str:
    before, _, after = PAGED.partition("        page = ")
    before = before.replace("    acc =", "    end = ends[b]\n    acc =")
    text = before + ENDS.format(table=table, rows=rows) + after[after.index("    y[b") :]
    return text.replace("TM = 16, TN = 32, P = 64", f"TM = {tm}, TN = 64, P = {p}")


@pytest.mark.parametrize("p", [16, 48])
@pytest.mark.parametrize(("way", "arch"), [("mma.sync", "sm_90a"), ("wgmma", "sm_90a"), ("wgmma", "sm_80")])
def test_what_is_behind_the_end_is_not_read(way: str, arch: str, p: int) -> None:
    """Neither its rows nor entries of the table, which are no pages there."""
    args, wanted = pages(p=p, tn=64, most=192 // p)
    ends = args["ends"] = np.array([1, 0, 64 + p + 3, 192 - 5], np.int32)
    args["pages"][:] = 1 << 30
    args["v"] = np.concatenate([args["v"]] * 6)
    places = np.random.default_rng(p).permutation(len(args["v"])).astype(np.int32)
    wanted[:] = 0
    held = np.zeros((len(args["v"]), p), bool)
    for b, end in enumerate(ends):
        count = -(-int(end) // p)
        args["pages"][b, :count], places = places[:count], places[count:]
        for i in range(end):
            page, row = args["pages"][b, i // p], i % p
            held[page, row] = True
            wanted[b] += np.einsum("hm,hd->hmd", *(each.astype(np.float32) for each in (
                args["x"][b, :, :, i % 64], args["v"][page, :, row])))  # fmt: skip
    args["v"][(~held)[:, None, :].repeat(args["v"].shape[1], 1)] = np.nan
    args, wanted = four_times(args, wanted)
    kernel = compile_kernel(to_the_end(tm=64, p=p).format(lines=WAYS[way]), args, arch=arch)
    assert arch == "sm_80" or boxes(kernel)[:4] == [16] * 4
    launch(kernel, args)
    assert np.array_equal(args["y"], wanted)


NO_BOXES = {
    "rows apart": (by_rows(PAGED).replace("at // P", "at // 4").replace("at % P", "at % 4"), "its rows have places"),
    "backwards": (by_rows(PAGED).replace("(at % P)", "(P - 1 - at % P)"), "its rows have places"),
    "table": (to_the_end(table="at < end - 1"), "the mask of its table says more than its own"),
    "first": (to_the_end(table="at >= end", rows="at[:, None] >= end"), "may exclude the first one"),
    "columns": (to_the_end(rows="arange(D)[None, :] < end"), "says more than its"),
    "mixed": (by_rows(PAGED).replace("page[:, None]", "cumsum(page, axis=0)[:, None]"), "its place comes from 'scan'"),
    "ahead": (
        by_rows(PAGED).replace("{lines}", "stage pages: ahead\n    {lines}"),
        "where its boxes begin is computed by",
    ),
}


@pytest.mark.parametrize("name", NO_BOXES)
def test_rows_that_are_no_boxes(name: str) -> None:
    text, why = NO_BOXES[name]
    text = text.replace("ROW", "").replace("TN = 32", "TN = 64")
    with pytest.raises(TileError, match=why) as told:
        compile_kernel(text.format(lines="stage v: tma"), pages(p=64, tn=64)[0], arch="sm_90")
    assert "stage NAME: shared" in str(told.value) or name == "mixed"


def test_rows_that_span_several_swizzle_atoms_come_by_ldmatrix() -> None:
    """Two atoms of 128 bytes: the boxes of the second one lie behind all rows of the first one."""
    args, _ = pages(p=16, tn=64, most=12)
    random = np.random.default_rng(0)
    args["v"] = random.integers(-3, 4, (*args["v"].shape[:3], 128)).astype(np.float16)
    wanted = np.zeros((*args["y"].shape[:3], 128), np.float32)
    for b, end in enumerate(args["ends"]):
        for i in range(end):
            row = args["v"][args["pages"][b, i // 16], :, i % 16].astype(np.float32)
            wanted[b] += args["x"][b, :, :, i % 64, None].astype(np.float32) * row[:, None]
    args["y"] = np.full_like(wanted, np.nan)
    text = PAGED.replace("TN = 32, P = 64, D = 64", "TN = 64, P = 16, D = 128").format(lines=WAYS["mma.sync"])
    kernel = compile_kernel(by_rows(text), args, arch="sm_90a")
    assert boxes(kernel) == [16] * 8
    read = {op.name for op in kernel.ops if op.operands and op.operands[0].name == "sv" and op.results}
    assert read == {"ldmatrix"}
    launch(kernel, args)
    assert np.array_equal(args["y"], wanted)


TILES = """
kernel paged(y: f32[batch, m, D], x: f16[batch, m, TN], v: f16[count, P, D], pages: s32[batch, most], ends: s32[batch];
             TM = 64, TN = 64, P = 16, D = 128):
    grid m // TM, batch
    i, b = block(0) * TM, block(1)
    end = ends[b].to(index)
    acc = zeros(f32[TM, D])
    for j in range(0, end, TN):
        at = j + arange(TN)
        page = load(pages[b, at // P], mask=at < end, other=0)
        acc = dot(x[b, i : i + TM, :], load(v[page, at % P, 0 : D], mask=at[:, None] < end), acc)
    y[b, i : i + TM, :] = acc

schedule s of paged:
    {lines}
    stage x, v: tma
"""


@pytest.mark.parametrize("instruction", ["wgmma", "mma.sync"])
@pytest.mark.parametrize("lines", ["cluster 2", "persistent 1"])
def test_blocks_of_a_cluster_share_boxes_of_pages(lines: str, instruction: str) -> None:
    random, ends = np.random.default_rng(0), np.array([7, 130, 187], np.int32)
    table, places = np.full((3, 12), 1 << 30, np.int32), random.permutation(40)
    v = random.integers(-3, 4, (40, 16, 128)).astype(np.float16)
    x = random.integers(-3, 4, (3, 128, 64)).astype(np.float16)
    wanted, held = np.zeros((3, 128, 128), np.float32), np.zeros((40, 16), bool)
    for b, end in enumerate(ends):
        table[b, : -(-end // 16)], places = places[: -(-end // 16)], places[-(-end // 16) :]
        for i in range(end):
            page, row = table[b, i // 16], i % 16
            held[page, row] = True
            wanted[b] += np.outer(x[b, :, i % 64].astype(np.float32), v[page, row].astype(np.float32))
    v[~held] = np.nan
    args = {"y": np.full_like(wanted, np.nan), "x": x, "v": v, "pages": table, "ends": ends}
    text = TILES.format(lines=f"{lines}\n    instruction acc: {instruction}")
    kernel = compile_kernel(text, args, arch="sm_90a")
    assert boxes(kernel) == [16] * 8
    (roles,) = (op for op in kernel.ops if op.name == "warp_specialize")
    shared = [op.attrs.get("blocks") for op in walk(roles.regions[0]) if op.name == "tma_copy"]
    assert shared.count(2) == (8 if lines == "cluster 2" else 0)
    launch(kernel, args, grid=(2, 1, 1) if lines == "persistent 1" else None)
    assert np.array_equal(args["y"], wanted)


def test_what_is_no_load_is_no_entry() -> None:
    """In two random kernels, asm computes an index of a load, and a loop finds the group whose rows a copy reads. Both
    were taken for loads of a table."""
    program = kernel_of(5836)
    compiled(program, "emulator", "sm_90a", program.arrays())
    assert attempt_hopper(2259).kind == "right"
