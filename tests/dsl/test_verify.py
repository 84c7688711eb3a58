"""`dsl verify`: kernels that are right agree at every stage; more than 40 seeded miscompilations are named each by the
pass that makes it, a value, and the lane of its first wrong element (before layouts are assigned there are no lanes).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from dsl.command import cli
from dsl.kernels.variant import Request, build_variant
from dsl.lowering.emit.rules import RULES
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Block, Function, Op, walk
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import DTYPES, SharedType
from dsl.lowering.meaning import blocks_of
from dsl.lowering.meaning.levels import allowed, compare_ptx, run_level
from dsl.lowering.ops import OPS
from dsl.lowering.passes import PASSES, Pass, run_passes
from dsl.studies.verify import Verified, grid_of, verify_example, verify_kernel
from dsl.text.program import Program, parse_program
from tests.whole import some

SAMPLES = Path(__file__).parents[2] / "samples"
TEXT = """
kernel rows(y: f32[rows, cols], x: f16[rows, cols]; COLS = 256):
    grid rows
    r = block(0)
    v = x[r, 0 : COLS]
    wide = v.to(f32)
    top = max(wide)
    e = ex2.approx((wide - top) * 1.5)
    total = sum(e)
    shared s: f32[COLS]
    s[0 : COLS] = e
    turned = s[COLS - 1 - arange(COLS)]
    shared late: f32[COLS]
    out = where(turned > 0.25, turned / total, wide)
    acc = zeros(f32[COLS])
    for i in range(7):
        acc = acc * 0.5 + out * (i + 1).to(f32)
    late[arange(COLS) ^ 3] = acc
    last = late[0 : COLS]
    y[r, 0 : COLS] = last

schedule four of rows:
    warps = 4
    unroll i: 2
    choose recompute.wide: anew

kernel product(c: f32[m, n], a: f16[m, k], b: f16[k, n], d: s8[m, k], o: s32[k]; STEP = 32):
    grid 1
    shared sa: f16[ring 2, 32, STEP]
    shared sb: f16[ring 2, STEP, 32]
    shared sd: s8[32, 32]
    acc = zeros(f32[32, 32])
    for i in range(cdiv(k, STEP)):
        copy(sa[i], a[0 : 32, i * STEP : i * STEP + STEP])
        copy(sb[i], b[i * STEP : i * STEP + STEP, 0 : 32])
        commit()
        wait(0)
        acc = dot(sa[i], sb[i], acc)
    copy(sd[0 : 32, 0 : 32], d[0 : 32, 1 : 33])
    commit()
    wait(0)
    bytes = sd[0 : 32, 0 : 32]
    c[0 : 32, 0 : 32] = acc + bytes.to(f32)
    one = o[3]
    o[5] = one * 3

schedule pair of product:
    warps = 2

kernel groups(c: f32[m, n], a: f16[m, k], b: f16[n, k]):
    grid 1
    acc = zeros(f32[64, 32])
    for p in range(0, k, 64):
        acc = dot(a[0 : 64, p : p + 64], b[0 : 32, p : p + 64].T, acc)
    c[0 : 64, 0 : 32] = acc

schedule four of groups:
    warps = 4
    pipeline p: 2
    instruction acc: wgmma
    stage a, b: shared
    persistent 0
"""
BOXES = "stage a, b: tma\n    choose wgmma_wait.acc: next"
TEXT += TEXT[TEXT.index("kernel groups") :].replace("groups", "boxes").replace("stage a, b: shared", BOXES)
"""And the same by copies of boxes."""
TEXT += TEXT[TEXT.index("kernel boxes") :].replace("boxes", "stored") + "    stage c: tma\n"
"""And with the result stored by TMA."""


def given_rows() -> dict[str, Any]:
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 250)).astype(np.float16)
    return {"y": np.zeros((2, 250), np.float32), "x": x}


def given_product() -> dict[str, Any]:
    random = np.random.default_rng(1)
    a, b = (random.integers(-4, 5, s).astype(np.float16) for s in ((32, 96), (96, 32)))
    d = random.integers(-100, 100, (32, 96), np.int8)
    return {"c": np.zeros((32, 32), np.float32), "a": a, "b": b, "d": d, "o": np.arange(96, dtype=np.int32)}


def given_groups() -> dict[str, Any]:
    random = np.random.default_rng(2)
    a, b = (random.integers(-4, 5, s).astype(np.float16) for s in ((64, 192), (32, 192)))
    return {"c": np.zeros((64, 32), np.float32), "a": a, "b": b}


GIVEN = {
    "rows": (given_rows, "four"),
    "product": (given_product, "pair"),
    "groups": (given_groups, "four"),
    "boxes": (given_groups, "four"),
    "stored": (given_groups, "four"),
}
DIMS = {
    "rows": {"rows": 2, "cols": 250},
    "product": {"m": 32, "n": 32, "k": 96},
    "groups": {"m": 64, "n": 32, "k": 192},
    "boxes": {"m": 64, "n": 32, "k": 192},
    "stored": {"m": 64, "n": 32, "k": 192},
}
PROGRAM: Program = parse_program(TEXT, "faults.tile")


def verified(kernel: str, passes: Any = PASSES) -> Verified:
    given, schedule = GIVEN[kernel][0](), GIVEN[kernel][1]
    return verify_kernel(PROGRAM, Request(kernel, schedule, DIMS[kernel]), given, passes=passes)


@pytest.mark.parametrize("kernel", GIVEN)
def test_kernels_that_are_right_agree(kernel: str) -> None:
    found = verified(kernel)
    assert found.divergence is None and found.undecided is None
    assert found.levels == len(PASSES) and found.values > 20


# ---- faults of passes ----

Change = Callable[[Function], None]


def ops(function: Function, name: str) -> list[Op]:
    found = [op for op in walk(function.body) if op.name == name]
    assert found, f"no {name}"
    return found


def renamed(name: str, to: str, which: int = 0) -> Change:
    """One operation for another."""

    def change(function: Function) -> None:
        op = ops(function, name)[which]
        op.name, op.spec = to, OPS[to]

    return change


def swapped(name: str, which: int = 0, at: tuple[int, int] = (0, 1)) -> Change:
    """Two operands exchanged."""

    def change(function: Function) -> None:
        op = ops(function, name)[which]
        i, j = at
        op.operands[i], op.operands[j] = op.operands[j], op.operands[i]

    return change


def numbered(by: float, holds: Callable[[Any], bool]) -> Change:
    """The first constant of which `holds` is true becomes another."""

    def change(function: Function) -> None:
        op = next(op for op in ops(function, "constant") if holds(op.attrs["value"]))
        op.attrs = op.attrs | {"value": op.attrs["value"] + by}

    return change


def dropped(name: str, which: int = 0) -> Change:
    """An operation without results left out."""

    def change(function: Function) -> None:
        op = ops(function, name)[which]
        assert not op.results

        def visit(block: Block) -> None:
            block.ops = [o for o in block.ops if o is not op]
            for o in block.ops:
                for region in o.regions:
                    visit(region)

        visit(function.body)

    return change


def unmasked(name: str, to: str, which: int = 0) -> Change:
    """An operand left out."""

    def change(function: Function) -> None:
        op = [o for o in ops(function, name) if to in o.attrs["has"]][which]
        at = op.attrs["has"].index(to)
        op.attrs = op.attrs | {"has": [h for h in op.attrs["has"] if h != to]}
        del op.operands[at]

    return change


def changed(name: str, key: str, value: Any, which: int = 0) -> Change:
    """Another attribute."""

    def change(function: Function) -> None:
        op = ops(function, name)[which]
        op.attrs = op.attrs | {key: value(op.attrs.get(key)) if callable(value) else value}

    return change


def folded(name: str, to: str, which: int = 0) -> Change:
    """Another function that joins."""

    def change(function: Function) -> None:
        op = ops(function, name)[which].regions[0].ops[0]
        op.name, op.spec = to, OPS[to]

    return change


def moved(name: str) -> Change:
    """A shared tile at the bytes of another one that is needed."""

    def change(function: Function) -> None:
        tiles = ops(function, "shared_alloc")
        tile = next(o for o in tiles if o.attrs["name"] == name)
        tile.attrs["offset"] = next(o.attrs["offset"] for o in tiles if o is not tile and o.attrs["offset"] == 0)

    return change


def swizzled(swizzle: tuple[tuple[int, int], ...]) -> Change:
    """A swizzle that puts two elements in one place."""

    def change(function: Function) -> None:
        op = next(o for o in ops(function, "shared_alloc") if o.attrs["name"] == "sa")
        type = op.attrs["type"]
        assert isinstance(type, SharedType)
        made = SharedType(type.shape, type.dtype, type.ring, swizzle)
        op.attrs["type"] = op.result.type = made

    return change


def not_waited(function: Function) -> None:
    """What a wait gives are the sums before the product."""
    wait, product = ops(function, "wgmma_wait")[0], ops(function, "wgmma")[0]
    wait.operands = [product.operands[2]]


def without_iterations(function: Function) -> None:
    """What the wait behind a loop gives are the sums before the loop."""
    (wait,) = ops(function, "wgmma_wait")
    loop = wait.operands[0].op
    assert loop is not None
    wait.operands = [loop.operands[loop.spec.control.leading + loop.results.index(wait.operands[0])]]


@dataclass
class Fault:
    """What goes wrong behind a pass. `value`: what is named; `lane`: layouts are known there."""

    behind: str
    kernel: str
    change: Change
    value: str
    lane: bool = True

    def passes(self) -> tuple[Pass, ...]:
        def wrong(right: Pass) -> Pass:
            def run(function: Function, target: Target) -> None:
                right.run(function, target)
                self.change(function)

            return replace(right, run=run)

        return tuple(wrong(each) if each.name == self.behind else each for each in PASSES)


def turned(box: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """A box along the tensor's other axes."""
    return tuple((1 - axis, *rest) for axis, *rest in box)


def early(function: Function) -> None:
    """A stage is freed before it is read."""
    (body,) = (
        r for op in walk(function.body) for r in op.regions if any(each.name == "consumer_release" for each in r.ops)
    )
    (freed,) = (op for op in body.ops if op.name == "consumer_release")
    body.ops.remove(freed)
    body.ops.insert(1 + next(i for i, op in enumerate(body.ops) if op.name == "consumer_wait"), freed)


FAULTS = [
    Fault("check_names", "rows", renamed("gt", "le"), "out", lane=False),
    Fault("check_names", "product", swapped("dot"), "acc", lane=False),
    Fault("turned_tiles", "product", swapped("dot"), "acc", lane=False),
    Fault("grid", "rows", renamed("mul", "add", -1), "acc", lane=False),
    Fault("split", "product", swapped("dot"), "acc", lane=False),
    Fault("precompute", "rows", swapped("div"), "out", lane=False),
    Fault("subtile", "product", swapped("dot"), "acc", lane=False),
    Fault("cluster_tiles", "rows", swapped("sub", 0), "e", lane=False),
    Fault("pieces", "rows", swapped("div"), "out", lane=False),
    Fault("align", "rows", swapped("sub", 0), "e", lane=False),
    Fault("loop", "rows", swapped("sub", 0), "e", lane=False),
    Fault("loads_once", "rows", swapped("sub", 0), "e", lane=False),
    Fault("turned", "product", swapped("dot"), "acc", lane=False),
    Fault("earlier_iterations", "rows", swapped("div"), "out", lane=False),
    Fault("stage", "rows", swapped("sub", -1), "turned", lane=False),
    Fault("tma_stores", "stored", dropped("tma_wait"), "c", lane=False),
    Fault("tma_stores", "stored", changed("tma_store", "box", turned), "c", lane=False),
    Fault("pipeline", "product", swapped("dot"), "acc", lane=False),
    Fault("pipeline", "boxes", changed("tma_copy", "box", turned), "acc", lane=False),
    Fault("pipeline", "boxes", swapped("tma_copy", at=(4, 5)), "acc", lane=False),
    Fault("pipeline", "boxes", early, "acc", lane=False),
    Fault("delay", "product", swapped("dot"), "acc", lane=False),
    Fault("peel", "rows", swapped("div"), "out", lane=False),
    Fault("pingpong", "rows", swapped("div"), "out", lane=False),
    Fault("peel_loops", "rows", swapped("div"), "out", lane=False),
    Fault("prefetch_fragments", "product", swapped("dot"), "acc", lane=False),
    Fault("fold_again", "rows", renamed("maximum", "minimum"), "top", lane=False),
    Fault("unroll_loops", "rows", renamed("mul", "sub", -1), "acc", lane=False),
    Fault("unroll_loops", "rows", renamed("add", "sub", -1), "acc", lane=False),
    Fault("simplify", "rows", numbered(0.25, lambda v: v == 1.5), "e", lane=False),
    Fault("simplify", "rows", swapped("sub", -1), "turned", lane=False),
    Fault("simplify", "product", dropped("copy"), "acc", lane=False),
    Fault("assign_layouts", "rows", swapped("div"), "out"),
    Fault("assign_layouts", "rows", renamed("maximum", "minimum"), "top"),
    Fault("assign_layouts", "product", numbered(2.0, lambda v: v == 0.0), "acc"),
    Fault("lower_conversions", "rows", folded("reduce", "minimum"), "top"),
    Fault("lower_conversions", "rows", folded("partial_reduce", "maximum", 1), "total"),
    Fault("lower_copies", "product", numbered(1, lambda v: v == 1), "acc"),
    Fault("lower_copies", "product", dropped("store", 0), "bytes"),
    Fault("clean", "rows", swapped("select", at=(1, 2)), "out"),
    Fault("clean", "rows", unmasked("load", "mask"), "v"),
    Fault("sink", "rows", swapped("div"), "out"),
    Fault("early_loads", "rows", swapped("div"), "out"),
    Fault("check_registers", "rows", renamed("add", "sub", -3), "acc"),
    Fault("check_registers", "product", changed("wait", "groups", 1), "acc"),
    Fault("narrow_scalars", "product", renamed("mul", "add", -1), "o"),
    Fault("narrow_scalars", "rows", renamed("div", "mul"), "out"),
    Fault("anew_behind_loops", "rows", swapped("div"), "out"),
    Fault("recompute", "rows", renamed("ex2.approx", "rcp.approx"), "e"),
    Fault("recompute", "rows", renamed("xor", "or"), "late"),
    Fault("lower_matrix_accesses", "product", changed("ldmatrix", "trans", lambda t: not t), "acc"),
    Fault("lower_matrix_accesses", "product", changed("ldmatrix", "trans", lambda t: not t, 1), "acc"),
    Fault("swizzle_shared", "product", swizzled(((7, 1 << 7),)), "acc"),
    Fault("insert_barriers", "rows", dropped("barrier", 0), "top"),
    Fault("insert_barriers", "rows", dropped("barrier", -1), "last"),
    Fault("insert_barriers", "product", dropped("barrier", 0), "acc"),
    Fault("insert_barriers", "groups", dropped("barrier", 0), "acc"),
    Fault("place_waits", "groups", not_waited, "acc"),
    Fault("defer_waits", "boxes", without_iterations, "acc"),
    Fault("late_waits", "groups", not_waited, "acc"),
    Fault("occupancy", "rows", swapped("div"), "out"),
    Fault("place_shared", "product", moved("sb"), "acc"),
    Fault("check_pingpong", "product", moved("sb"), "acc"),
    Fault("overlap", "product", moved("sb"), "acc"),
    Fault("marks", "product", moved("sb"), "acc"),
    Fault("place_shared", "product", changed("shared_alloc", "offset", lambda o: o - 16, 1), "sa"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.behind)
def test_a_fault_of_a_pass_is_named(fault: Fault) -> None:
    found = verified(fault.kernel, fault.passes()).divergence
    assert found is not None
    assert found.level == fault.behind, str(found)
    assert found.value == fault.value, f"{found.value}: {found}"
    assert found.lane is not None or not fault.lane, str(found)


# ---- faults of the emission ----

Emit = Callable[[Writer, Op], None]


def of_another(to: str) -> Callable[[Emit], Emit]:
    """As if it were another operation."""

    def wrong(rule: Emit) -> Emit:
        def emit(w: Writer, op: Op) -> None:
            name, op.name = op.name, to
            RULES[to](w, op)
            op.name = name

        return emit

    return wrong


def of_exchanged(rule: Emit) -> Emit:
    """The last two operands exchanged."""

    def emit(w: Writer, op: Op) -> None:
        op.operands[-1], op.operands[-2] = op.operands[-2], op.operands[-1]
        rule(w, op)
        op.operands[-1], op.operands[-2] = op.operands[-2], op.operands[-1]

    return emit


def of_turned(rule: Emit) -> Emit:
    """The registers of the result in reversed order."""

    def emit(w: Writer, op: Op) -> None:
        rule(w, op)
        w.registers[op.result] = w.registers[op.result][::-1]

    return emit


def of_floats(wrong: Callable[[Emit], Emit]) -> Callable[[Emit], Emit]:
    """Where operands are floats alone: with integers, addresses go wrong."""

    def chosen(rule: Emit) -> Emit:
        other = wrong(rule)

        def emit(w: Writer, op: Op) -> None:
            (other if op.operands[-1].dtype.is_float else rule)(w, op)

        return emit

    return chosen


EMISSION: list[tuple[str, str, Callable[[Emit], Emit], str]] = [
    ("sub", "rows", of_floats(of_exchanged), "last"),
    ("mul", "rows", of_floats(of_another("add")), "last"),
    ("gt", "rows", of_another("lt"), "last"),
    ("select", "rows", of_floats(of_exchanged), "last"),
    ("div", "rows", of_exchanged, "last"),
    ("maximum", "rows", of_another("minimum"), "last"),
    ("dot", "product", of_turned, "c"),
    ("wgmma", "groups", of_turned, "acc"),
    ("wgmma_wait", "groups", of_turned, "acc"),
    ("add", "product", of_floats(of_another("mul")), "c"),
    ("xor", "rows", of_another("or"), "late"),
    ("ex2.approx", "rows", of_another("rcp.approx"), "last"),
]


@contextmanager
def emitted(name: str, wrong: Callable[[Emit], Emit]) -> Iterator[None]:
    right = RULES[name]
    RULES[name] = wrong(right)
    try:
        yield
    finally:
        RULES[name] = right


@pytest.mark.long
@pytest.mark.parametrize(("name", "kernel", "wrong", "value"), [pytest.param(*e, id=e[0]) for e in some(EMISSION, 2)])
def test_a_fault_of_the_emission_is_named(name: str, kernel: str, wrong: Callable[[Emit], Emit], value: str) -> None:
    with emitted(name, wrong):
        found = verified(kernel).divergence
    assert found is not None and found.level == "emission", str(found)
    assert found.value == value and found.loc is not None and found.lane is not None, f"{found.value}: {found}"


def test_there_are_forty_faults_in_every_pass_and_the_emission() -> None:
    assert len(FAULTS) + len(EMISSION) >= 40
    assert {fault.behind for fault in FAULTS} == {each.name for each in PASSES}


# ---- how far PTX may be from the meaning ----


def test_a_unit_is_that_of_subnormal_numbers_too() -> None:
    """A gradient of softmax in f16 was one of 2^-24 away at 4.7e-05, and was called wrong."""
    wanted = np.array([4.7206878662109375e-05, 1.0], np.float16)
    found = allowed(wanted, [wanted], DTYPES["f16"], inexact=True)
    assert found.bound.tolist() == [2.0**-24, 2.0**-10]
    assert not found.wrong(np.array([4.7147274017333984e-05, 1.0], np.float16)).any()
    assert found.wrong(wanted + np.array([2.0**-23, 2.0**-9], np.float16)).all()


@pytest.mark.parametrize(
    ("kernel", "by", "differs"),
    [("rows", 1e-3, True), ("rows", 1e-7, False), ("product", 0.25, True), ("product", 0.0, False)],
)
def test_what_is_left_open_allows_little(kernel: str, by: float, differs: bool) -> None:
    """Approximations and orders of sums move results by a few units; a thousandth is wrong."""
    given, schedule = GIVEN[kernel][0](), GIVEN[kernel][1]
    dims = {"rows": {"rows": 2, "cols": 250}, "product": {"m": 32, "n": 32, "k": 96}}[kernel]
    variant = build_variant(PROGRAM, Request(kernel, schedule, dims))
    run_passes(variant.function, variant.target)
    grid = grid_of(variant, given)
    blocks = blocks_of(grid)
    name = next(iter(given))
    left = run_level(variant.function, given, grid, blocks).memories
    made = {name: left[name].data.copy()}
    made[name][40] += by * abs(made[name][40]) if kernel == "rows" else by
    found = compare_ptx(variant.function, given, made, grid, blocks)
    assert (found is not None) == differs, str(found)
    if found is not None:
        assert found.element == ((40,) if kernel == "rows" else (1, 8)) and found.lane is not None


ORDERS: Program = parse_program("""
def affine(a, b, c, d):
    return a * c, b * c + d

def times(a, b):
    return a * b

def join(f, v, g, w):
    return f | g, where(g, w, v + w)

def first(v, i, w, j):
    take = (w > v) | (w == v) & (j < i)
    return where(take, w, v), where(take, j, i)

kernel k(sums: f32[n], halves: f16[n], whole: f16[n], products: f32[n], steps: f32[n], parts: f32[n], most: f32[n],
         places: s32[n], meet: f32[bins], x: f32[n], at: s32[n]):
    grid cdiv(n, 256)
    i = block(0) * 256
    v = load(x[i : i + 256])
    sums[i : i + 256] = cumsum(v, axis=0)
    halves[i : i + 256] = cumsum(v.to(f16), axis=0, reverse=true)
    whole[i : i + 256] = cumsum((v * 2.0).to(s32).to(f16), axis=0)
    products[i : i + 256] = scan(times, 1.0 + v * 0.1, axis=0)
    factor, step = scan(affine, (0.5 + v * 0.1, v), axis=0)
    steps[i : i + 256] = step
    head, part = scan(join, (arange(256) % 50 == 0, v), axis=0)
    parts[i : i + 256] = part
    top, place = scan(first, (v, i.to(s32) + arange(256).to(s32)), axis=0)
    most[i : i + 256] = top
    places[i : i + 256] = place
    for r in range(2):
        atomic_add(meet[load(at[i : i + 256])], v * (r + 1).to(f32), mask=i + arange(256) < n)

schedule four of k:
    warps = 2
    layout v: vector [4], lanes [32], warps [2]
""")  # each thread sums its four elements, then the warps join theirs: not as numpy does it
KINDS = {"halves": np.float16, "whole": np.float16, "places": np.int32}
NAMES = ("sums", "halves", "whole", "products", "steps", "parts", "most", "places")
"""Tensors with an element for each of x."""


def given_orders(seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    made: dict[str, Any] = {name: np.zeros(300, KINDS.get(name, np.float32)) for name in NAMES}
    x, at = random.standard_normal(300).astype(np.float32), random.integers(0, 3, 300, np.int32)
    return {**made, "meet": np.zeros(3, np.float32), "x": x, "at": at}


@pytest.mark.parametrize("seed", [0, 1])
def test_scans_and_atomics_of_floats_may_be_joined_in_any_order(seed: int) -> None:
    """A plain cumsum was called wrong: its PTX sums what a thread has first, and the meaning knew one order alone."""
    found = verify_kernel(ORDERS, Request("k", "four", {"n": 300, "bins": 3}), given_orders(seed))
    assert found.divergence is None and found.undecided is None, str(found.divergence)


def test_an_order_that_is_open_hides_no_wrong_element() -> None:
    """What is rounded may differ by units; what is exact in each order, maxima, places and whole numbers, by none but
    the unit that any tensor may that hangs on what is open."""
    given = given_orders(0)
    variant = build_variant(ORDERS, Request("k", "four", {"n": 300, "bins": 3}))
    run_passes(variant.function, variant.target)
    grid = grid_of(variant, given)
    blocks = blocks_of(grid)
    left = run_level(variant.function, given, grid, blocks).memories
    assert compare_ptx(variant.function, given, {name: m.data for name, m in left.items()}, grid, blocks) is None
    rounded = dict.fromkeys(("sums", "products", "steps", "parts"), 1e-4) | {"halves": 0.25, "meet": 1e-3}
    for name, by in {**rounded, "whole": 0.25, "most": 1e-6, "places": 1}.items():
        for at in (2, -1):
            made = {name: left[name].data.copy()}
            made[name][at] += by
            assert made[name][at] != left[name].data[at], name
            found = compare_ptx(variant.function, given, made, grid, blocks)
            assert found is not None and f"tensor '{name}' differs at {at % made[name].size}" in found.message, name


# ---- the command ----


def test_the_command_says_that_a_sample_agrees_and_as_data() -> None:
    """Also at boundary shapes; a shape that the file refuses is told."""
    out = CliRunner().invoke(cli, ["verify", str(SAMPLES / "add.tile"), "n=300", "--json"], standalone_mode=False)
    record = json.loads(out.output)
    assert record["passed"] and out.return_value == 0
    (kernel,) = record["examples"][0]["kernels"]
    assert kernel["kernel"] == "add" and kernel["levels"] == len(PASSES) and kernel["divergence"] is None
    out = CliRunner().invoke(cli, ["verify", str(SAMPLES / "rmsnorm.tile"), "rows=2"], standalone_mode=False)
    assert out.return_value == 0 and "cols=1:" in out.output and "cols=33:" in out.output


def test_the_command_fails_where_something_differs() -> None:
    with emitted("add", of_floats(of_another("mul"))):
        arguments = ["verify", str(SAMPLES / "add.tile"), "n=300", "--given-only"]
        text = CliRunner().invoke(cli, arguments, standalone_mode=False)
        data = CliRunner().invoke(cli, [*arguments, "--json"], standalone_mode=False)
    assert text.return_value == data.return_value == 1
    assert "first diverging pass emission: tensor" in text.output and "of lane 0 of warp 0" in text.output
    found = json.loads(data.output)["examples"][0]["kernels"][0]["divergence"]
    assert found["level"] == "emission" and found["line"] and found["lane"] == 0


def test_what_is_the_kernels_own_fault_is_not_decided() -> None:
    """Two blocks that store in one place, an index outside of its array: no pass is to blame."""
    text = """
kernel k(y: s32[n], x: s32[n]; AT = 0, HALF = 1):
    grid cdiv(n, 128)
    i = block(0) * 128 // HALF + arange(128)
    store(y[i], load(x[i + AT]))

example:
    x = randint(s32[256], 0, 9)
    y = empty(s32[256])
    k(y, x) with AT={}, HALF={}
"""
    for at, half, message in ((0, 1, None), (1, 1, "line 5: load of element 256 of 'x', which has 256"),
                              (0, 2, "blocks (0, 0, 0) and (1, 0, 0) both store element 64 of 'y'")):  # fmt: skip
        program = parse_program(text.format(at, half))
        (kernel,) = verify_example(program, program.examples[0]).kernels
        assert kernel.divergence is None and kernel.undecided == message


def test_what_an_asm_does_is_not_decided() -> None:
    text = """
kernel k(y: s32[n], x: s32[n]):
    grid cdiv(n, 128)
    i = block(0) * 128
    y[i : i + 128] = asm("add.s32 {d}, {0}, {0};", s32, x[i : i + 128])

example:
    x = randint(s32[200], 0, 9)
    y = empty(s32[200])
    k(y, x)
    expect y == x * 2
"""
    program = parse_program(text)
    (kernel,) = verify_example(program, program.examples[0]).kernels
    assert kernel.divergence is None and kernel.undecided == "line 5: what the text of an asm does is not known here"
