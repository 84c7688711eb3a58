"""Symbolic bounds of indices: every claim holds of random expressions over dims, blocks and counters."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl.lowering.building.builder import Builder
from dsl.lowering.ir.function import Block, Function, Op, Value
from dsl.lowering.ir.location import Loc, Source
from dsl.lowering.ir.types import INDEX, TileType
from dsl.lowering.known.bounds import Bounds
from dsl.lowering.known.facts import Analysis
from dsl.lowering.known.forms import plus
from dsl.lowering.ops import OPS
from tests.whole import draws

LOC = Loc(Source("test.tile", " "), 0, 1)
SCALAR = TileType((), INDEX)
DIMS = ("m", "n")
PAIRS, STATEMENTS = draws(500), draws(1800)
BINARY = ("add", "add", "sub", "mul", "floordiv", "mod", "minimum", "maximum")
MEANING: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "minimum": min,
    "maximum": max,
    "select": lambda c, a, b: a if c else b,
    "lt": lambda a, b: a < b,
}
TREES: dict[str, Any] = {
    "+": MEANING["add"],
    "-": MEANING["sub"],
    "*": MEANING["mul"],
    "//": MEANING["floordiv"],
    "min": min,
    "max": max,
    "cdiv": lambda a, b: -(-a // b),
}


def tree_value(tree: Any, dims: dict[str, int]) -> int:
    if isinstance(tree, list):
        return TREES[tree[0]](*(tree_value(each, dims) for each in tree[1:]))
    return dims[tree] if isinstance(tree, str) else tree


class Kernel:
    """A function of dims with a grid and loops, one in the other, and random indices in the innermost."""

    def __init__(self, draw: Any):
        self.draw = draw
        tile = lambda: draw(st.sampled_from([2, 3, 4, 8]))  # noqa: E731
        self.tiles = {dim: tile() for dim in DIMS}
        self.divisors = {dim: draw(st.sampled_from([1, 2, self.tiles[dim], 2 * self.tiles[dim]])) for dim in DIMS}
        self.ir = Builder(LOC)
        self.dims = {dim: Value(SCALAR, name=dim) for dim in DIMS}
        self.function = Function("k", [], self.dims, self.ir.block, 4, 32, dict(self.divisors))
        self.function.grid = [self.extent(), draw(st.sampled_from([1, 2, ["cdiv", "n", self.tiles["n"]]])), 1]
        self.analysis = Analysis(self.function)
        self.leaves = [*self.dims.values(), *(self.ir.value("block_id", axis=axis) for axis in (0, 1))]
        self.leaves.append(self.ir.value("grid_size", axis=0))
        self.loops: list[Op] = []
        for _ in range(draw(st.integers(0, 2))):
            bounds = [self.index(2), self.index(2), self.step()]
            counter = Value(SCALAR)
            loop = Op(OPS["for"], bounds, [], {"unroll": None}, [Block([counter])], LOC)
            self.analysis.enter_loop(loop)
            self.loops.append(loop)
            self.leaves.append(counter)

    def extent(self) -> Any:
        m, n = (["cdiv", dim, self.tiles[dim]] for dim in DIMS)
        number = self.draw(st.integers(1, 6))
        forms = (m, ["*", m, n], ["min", m, number], ["min", number, ["*", m, n]], "m", ["//", "m", self.tiles["m"]])
        return self.draw(st.sampled_from([*forms, ["max", m, number], ["+", m, number], ["-", m, number], number]))

    def step(self) -> Value:
        return self.draw(st.sampled_from([self.ir.index(s) for s in (1, 2, 4, -1, -3)] + self.leaves[-1:]))

    def index(self, depth: int) -> Value:
        if depth == 0 or self.draw(st.integers(0, 3)) == 0:
            if self.draw(st.booleans()):
                return self.draw(st.sampled_from(self.leaves))
            return self.ir.index(self.draw(st.sampled_from([-1, 0, 1, 2, 3, 5, *self.tiles.values()])))
        name = self.draw(st.sampled_from([*BINARY, "select", "cdiv"]))
        a, b = self.index(depth - 1), self.index(depth - 1)
        if name == "select":
            return self.ir.value("select", self.ir.value("lt", *self.pair()), a, b)
        if name == "cdiv":
            tile = self.draw(st.sampled_from([*self.tiles.values()]))
            return self.rounded_up(a, tile - 1, self.ir.index(tile))
        return self.ir.value(name, a, b)

    def rounded_up(self, a: Value, more: int, by: Value) -> Value:
        return self.ir.value("floordiv", self.ir.value("add", a, self.ir.index(more)), by)

    def pair(self) -> tuple[Value, Value]:
        return self.draw(st.sampled_from(self.leaves)), self.draw(st.sampled_from(self.leaves))

    def typical(self) -> Value:
        """What rows of a block come to: a number of a tile times its extent, and the like."""
        tile = self.ir.index(self.tiles[self.draw(st.sampled_from(DIMS))])
        tiles = self.rounded_up(self.dims["n"], self.tiles["n"] - 1, tile)
        at = self.draw(st.sampled_from(self.leaves[2:]))
        form = self.draw(st.sampled_from(["mul", "floordiv", "mod", "plain"]))
        if form in ("floordiv", "mod"):
            at = self.ir.value(form, at, tiles)
        return at if form == "plain" else self.ir.value("mul", at, tile)

    def placed(self) -> Value:
        """A row or column of tiles of a block's work, in an order of tiles that may be a wrong one."""
        make, pick = self.ir.value, lambda *of: self.draw(st.sampled_from(of))

        def tiles(dim: str) -> Value:
            tile = self.tiles[dim]
            return self.rounded_up(self.dims[dim], tile - pick(1, 1, 1, 0, 2), self.ir.index(tile))

        group, tm, tn = self.ir.index(pick(1, 2, 3)), tiles("m"), tiles("n")
        t = pick(*self.leaves[2:], make("add", make("mul", tm, tn), self.ir.index(pick(-1, 0, 1, 4))))
        if self.draw(st.booleans()):
            t = make("add", t, make("mul", pick(*self.leaves[2:]), pick(*self.leaves)))
        wide = make("mul", group, tn) if self.draw(st.booleans()) else pick(tn, tm, group)
        first = make("mul", make("floordiv", t, wide), pick(group, group, self.ir.index(1), tn))
        left = make("sub", tm, make("add", first, self.ir.index(pick(0, 0, 1, -1))))
        high = pick(make("minimum", left, group), left, group, make("maximum", left, group))
        within = pick(make("mod", t, wide), make("sub", t, make("mul", first, tn)))
        row = make("add", first, make("mod", within, high))
        return pick(row, make("floordiv", within, high), first, within, make("mod", within, high))

    def runs(self) -> Iterator[dict[Value, int]]:
        """What the leaves are in all blocks and iterations of some launches."""
        sizes = [self.draw(st.integers(0, 5)) * self.divisors[dim] for dim in DIMS]
        dims = dict(zip(DIMS, sizes, strict=True))
        grid = [tree_value(tree, dims) for tree in self.function.grid]
        fewer = self.draw(st.sampled_from([0, 0, 1]))  # a launch may have fewer blocks
        grid[0] = max(0, grid[0] - fewer)
        for x, y in product(range(min(grid[0], 30)), range(grid[1])):
            env = {self.dims[dim]: dims[dim] for dim in DIMS}
            yield from self.rounds(env | dict(zip(self.leaves[2:5], (x, y, grid[0]), strict=True)), 0)

    def rounds(self, env: dict[Value, int], depth: int) -> Iterator[dict[Value, int]]:
        if depth == len(self.loops):
            yield env
            return
        loop = self.loops[depth]
        try:
            start, stop, step = (evaluated(v, env) for v in loop.operands[:3])
        except ZeroDivisionError:
            return
        if step == 0 or (step < 0 and loop.operands[2].op is None):
            return
        for at in range(start, stop, step)[:12]:
            yield from self.rounds(env | {loop.regions[0].args[0]: at}, depth + 1)


def evaluated(value: Value, env: dict[Value, int]) -> int:
    if value in env:
        return env[value]
    op = value.op
    assert op is not None
    if op.name == "constant":
        return op.attrs["value"]
    return MEANING[op.name](*(evaluated(o, env) for o in op.operands))


def compared(data: st.DataObject, kernel: Kernel) -> tuple[Value, Value]:
    """Two indices of a kernel, of which one may be below the other."""
    a = data.draw(st.sampled_from([kernel.typical, kernel.placed, lambda: kernel.index(3)]))()
    others = [*kernel.dims.values(), kernel.ir.index(0), kernel.ir.index(3), a]
    other = data.draw(st.sampled_from(others))
    b = data.draw(st.sampled_from([lambda: other, lambda: kernel.index(2), kernel.placed]))()
    if data.draw(st.integers(0, 3)) == 0:
        a, b = b, a
    if data.draw(st.booleans()):
        a, b = kernel.ir.value("add", a, kernel.index(1)), kernel.ir.value("add", b, kernel.index(1))
    return a, b


@given(data=st.data())
@settings(max_examples=PAIRS, deadline=None)
def check_claim(data: st.DataObject, claims: list[int]) -> None:
    kernel = Kernel(data.draw)
    a, b = compared(data, kernel)
    distance = next((d for d in range(12, -12, -1) if kernel.analysis.bounds.not_above(a, b, d)), None)
    if distance is None:
        return
    claims.append(distance)
    for env in kernel.runs():
        try:
            left, right = evaluated(a, env), evaluated(b, env)
        except ZeroDivisionError:
            continue
        assert left + distance <= right, (env, left, right, distance)


def test_every_claim_holds() -> None:
    """Of 500 pairs of indices, 98 to 150 are claimed to be so far apart."""
    claims: list[int] = []
    check_claim(claims=claims)
    assert len(claims) > PAIRS // 10


@given(data=st.data())
@settings(max_examples=STATEMENTS // 9, deadline=None)
def check_counterexamples(data: st.DataObject, refuted: list[int]) -> None:
    kernel = Kernel(data.draw)
    a, b = compared(data, kernel)
    without = copy(kernel.analysis)
    without.bounds = Bounds(without)
    without.bounds.assignments = []
    for distance in range(-4, 5):
        if without.bounds.not_above(a, b, distance):
            assert kernel.analysis.bounds.not_above(a, b, distance)
        left, right = (kernel.analysis.bounds.of(value) for value in (a, b))
        difference, limit = plus(left.sum, right.sum, -1), right.low - left.high - distance
        refuted += [distance] * any(each.breaks(difference, limit) for each in kernel.analysis.bounds.assignments)


def test_no_counterexample_ends_a_proof() -> None:
    """Of 1,800 statements, 940 to 1,170 have a counterexample."""
    refuted: list[int] = []
    check_counterexamples(refuted=refuted)
    assert len(refuted) > STATEMENTS // 6


# ---- claims that are as sharp as they may be ----

SHARP: dict[str, tuple[str, str, int | None]] = {
    "quotient of what is below": ("upto(tm * tn) // tn", "tm", 1),
    "quotient of what is not above": ("upto(tm * tn + 1) // tn", "tm", 0),
    "quotient of what may be above": ("upto(tm * tn + 2) // tn", "tm", None),
    "remainder": ("block % tn", "tn", 1),
    "remainder of what may be negative": ("block % signed", "signed", None),
    "quotient by what may be negative": ("block // signed * signed", "block", None),
    "times what may be negative": ("block * signed", "(tm * tn - 1) * signed", None),
    "what may be negative times what is less": ("signed * upto(m)", "(m - 1) * signed", None),
    "quotient of what may be negative": ("0", "signed // 4", -1),
    "times what is not negative": ("block * tm", "(tm * tn - 1) * tm", 0),
    "last row of tiles": ("block // tn * 8", "m", 8),
    "rows of a dim that is no multiple": ("block % tn * 4", "n", 1),
    "what a quotient leaves": ("n", "n // 4 * 4", -3),
    "what a quotient leaves of a multiple": ("m", "m // 8 * 8", 0),
    "what a quotient leaves of a multiple and 3": ("m + 3", "(m + 3) // 8 * 8", -3),
    "down": ("0", "down(m - 8)", 0),
    "whole iterations of a share": ("whole + 15", "n", 1),
    "whole iterations of a share, four at once": ("four + 63", "n", 1),
    "the others of these": ("other + 15", "n", 1),
}


@pytest.mark.parametrize("name", SHARP)
def test_claims_are_sharp(name: str) -> None:
    """The greatest distance that is claimed; m is a multiple of 8, and the grid is cdiv(m, 8) * cdiv(n, 4)."""
    ir = Builder(LOC)
    dims = {dim: Value(SCALAR, name=dim) for dim in DIMS}
    function = Function("k", [], dims, ir.block, 4, 32, {"m": 8})
    function.grid = [["*", ["cdiv", "m", 8], ["cdiv", "n", 4]], 1, 1]
    analysis = Analysis(function)

    class Index:
        def __init__(self, value: Value | int):
            self.value = ir.index(value) if isinstance(value, int) else value

        def with_other(self, name: str, other: Index | int) -> Index:
            return Index(ir.value(name, self.value, Index(other).value if isinstance(other, int) else other.value))

        __add__, __sub__, __mul__, __floordiv__, __mod__ = (
            lambda a, b, name=name: a.with_other(name, b) for name in ("add", "sub", "mul", "floordiv", "mod")
        )

    def counter(start: Index | int, stop: Index | int, step: int) -> Index:
        value = Value(SCALAR)
        bounds = [Index(0).with_other("add", bound).value for bound in (start, stop, step)]
        analysis.enter_loop(Op(OPS["for"], bounds, [], {"unroll": None}, [Block([value])], LOC))
        return Index(value)

    names = {
        "m": Index(dims["m"]),
        "n": Index(dims["n"]),
        "block": Index(ir.value("block_id", axis=0)),
        "upto": lambda stop: counter(0, stop, 1),
        "down": lambda start: counter(start, -1, -8),
    }
    names["signed"] = counter(-3, names["n"], 1)
    names["tm"], names["tn"] = (names["m"] + 7) // 8, (names["n"] + 3) // 4
    start = names["block"] * 80
    whole = ((names["n"].with_other("minimum", start + 80) - start) // 16).with_other("maximum", 0) * 16
    four = start + whole // 64 * 64
    names["whole"], names["four"] = counter(start, start + whole, 16), counter(start, four, 64)
    names["other"] = counter(four, start + whole, 16)
    a, b, most = SHARP[name]
    left, right = (Index(0).with_other("add", eval(text, dict(names))).value for text in (a, b))
    claimed = [d for d in range(-20, 20) if analysis.bounds.not_above(left, right, d)]
    assert max(claimed, default=None) == most
