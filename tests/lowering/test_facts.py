"""Facts about integers: every claim holds on random expressions, and the claims that vector widths rest on are made."""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dsl.lowering.building.builder import Builder
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, walk
from dsl.lowering.ir.location import Loc, Source
from dsl.lowering.ir.types import DTYPES, I1, INDEX, S32, U32, DType, TileType, int_range
from dsl.lowering.known.affine import Affine, AffineOffsets, apply_affine
from dsl.lowering.known.facts import ANY, Analysis, Facts, facts_of
from dsl.lowering.known.forms import linear
from dsl.lowering.known.listed_offsets import ListedOffsets
from dsl.lowering.ops import OPS
from tests.compile_and_run import compile_kernel
from tests.whole import draws

LOC = Loc(Source("test.tile", " "), 0, 1)
INTEGERS = [d for d in DTYPES.values() if d.is_int]


@dataclass
class Kernel:
    """A function under construction: its builder, and the numbers that its scalars have in one run."""

    divisors: dict[str, int] = field(default_factory=dict)
    index_bits: int = 32
    numbers: dict[Value, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ir = Builder(LOC)
        self.dims = {name: Value(TileType((), INDEX), name=name) for name in ("rows", "cols")}
        self.function = Function("k", [], self.dims, self.ir.block, 4, self.index_bits, dict(self.divisors))
        self.analysis = Analysis(self.function)

    def scalar(self, dtype: DType, number: int) -> Value:
        value = Value(TileType((), dtype))
        self.numbers[value] = number
        return value

    def arange(self, extent: int) -> Value:
        return self.ir.value("arange", extent=extent)

    def binary(self, name: str, a: Value, b: Value) -> Value:
        return self.ir.value(name, *self.ir.same_shape([a, b]))

    def facts(self, value: Value) -> Facts:
        return self.analysis.of(value)


# ---- what the operations mean, on exact integers ---------------------------------------------------------------


def stored(value: int, dtype: DType) -> int:
    """Modulo 2^bits; an index must not overflow at all."""
    if dtype is I1:
        return value & 1
    low, high = int_range(dtype)
    if dtype is INDEX:
        assume(low <= value <= high)
        return value
    return (value - low) % (1 << dtype.bits) + low


def shifted(name: str, a: int, b: int, dtype: DType) -> int:
    if not 0 <= b < dtype.bits:
        return -1 if name == "shr" and a < 0 else 0
    return a << b if name == "shl" else a >> b


MEANING = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "minimum": min,
    "maximum": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "neg": lambda a: -a,
    "not": lambda a: ~a,
    "abs": abs,
    "select": lambda c, a, b: a if c else b,
}


def evaluate(op: Op, inputs: list[np.ndarray]) -> np.ndarray:
    """The elements of the one result, as Python integers."""
    name, shape = op.name, op.result.tile.shape
    if name == "constant":
        return np.array(int(op.attrs["value"]), dtype=object).reshape(shape)
    if name == "arange":
        return np.array([*range(op.attrs["extent"])], dtype=object)
    if name == "broadcast":
        return np.broadcast_to(inputs[0], shape)
    if name == "reshape":
        return inputs[0].reshape(shape)
    if name == "transpose":
        return inputs[0].transpose(op.attrs["axes"])
    dtype = op.result.dtype
    if name in ("floordiv", "mod"):
        assume(all(inputs[1].flat))

    def element(*x: int) -> int:
        if name == "cast":
            low, high = int_range(dtype) if dtype is not INDEX else int_range(S32)
            return stored(min(max(x[0], low), high) if op.attrs["saturate"] else x[0], S32 if dtype is INDEX else dtype)
        exact = shifted(name, *x, op.operands[0].dtype) if name in ("shl", "shr") else MEANING[name](*x)
        return stored(int(exact), dtype)

    out = np.empty(shape, dtype=object)
    out.flat = [element(*x) for x in zip(*(i.flat for i in inputs), strict=True)]
    return out


def run(kernel: Kernel) -> dict[Value, np.ndarray]:
    """Every value of the kernel."""
    known = {value: np.array(number, dtype=object) for value, number in kernel.numbers.items()}
    for op in walk(kernel.ir.block):
        known[op.result] = evaluate(op, [known[o] for o in op.operands])
    return known


def check(facts: Facts, elements: np.ndarray) -> None:
    """Each claim against all elements."""
    numbers = [int(x) for x in elements.flat]
    assert all(x % facts.every == 0 for x in numbers), facts
    assert facts.low is None or min(numbers) >= facts.low, facts
    assert facts.high is None or max(numbers) <= facts.high, facts
    assert len(facts.run) == len(facts.start) == len(facts.same) == elements.ndim
    for axis, extent in enumerate(elements.shape):
        rows = np.moveaxis(elements, axis, -1).reshape(-1, extent)
        for length, start in ((facts.run[axis], facts.start[axis]), (1, 1)):
            assert extent % length == 0
            for row in rows:
                for first in range(0, extent, length):
                    assert row[first] % start == 0, ("start", axis, facts)
                    assert all(row[first + i] == row[first] + i for i in range(length)), ("run", axis, facts)
        for name, holds in GROUPS.items():
            length = getattr(facts, name)[axis]
            assert extent % length == 0
            for row in rows:
                for first in range(0, extent, length):
                    assert holds([int(x) for x in row[first : first + length]]), (name, axis, facts)


GROUPS = {
    "same": lambda x: len(set(x)) == 1,
    "falls": lambda x: x == sorted(x, reverse=True),
    "rises": lambda x: x == sorted(x),
    "convex": lambda x: len(set(x)) == 1 or "01" not in "".join(map(str, x)).strip("0"),
}
"""What each of the claims says of a group: numbers of one group of `convex` that are no flags are equal."""


# ---- random expressions -------------------------------------------------------------------------------------------


@cache
def numbers_of(dtype: DType) -> st.SearchStrategy[int]:
    """A strategy is looked through when it is first drawn from, which takes longer than to draw."""
    low, high = int_range(dtype)
    near = [x for e in (low, 0, high) for x in range(e - 20, e + 21) if low <= x <= high]
    if dtype is INDEX:
        return st.integers(-64, 4096)
    return st.one_of(st.sampled_from(near), st.integers(low, high))


SHAPES = [(1, 32), (32, 1), (4, 8), (8, 4), (2, 4, 4), (32,)]
BINARY = ["add", "add", "sub", "mul", "floordiv", "mod", "minimum", "maximum", "and", "or", "xor", "shl", "shr"]
COMPARE = ["eq", "ne", "lt", "le", "gt", "ge"]


@st.composite
def kernels(draw: st.DrawFn, index_bits: int = 32) -> Kernel:
    """A dozen random operations over ranges, dims, scalars and constants."""
    divisors = {name: draw(st.sampled_from([1, 2, 4, 16])) for name in ("rows", "cols")}
    kernel = Kernel(divisors, index_bits)
    for name, dim in kernel.dims.items():
        kernel.numbers[dim] = divisors[name] * draw(st.integers(0, 40))
    ir = kernel.ir
    other = draw(st.sampled_from(INTEGERS))
    pool = [*kernel.dims.values(), kernel.arange(32), kernel.arange(8)]
    pool.append(kernel.scalar(other, draw(numbers_of(other))))
    flags: list[Value] = []
    for _ in range(draw(st.integers(3, 14))):
        kind = draw(
            st.sampled_from(["binary"] * 6 + ["constant", "constant", "cast", "shape", "compare", "unary", "select"])
        )
        a = draw(st.sampled_from(pool))
        if kind == "constant":
            pool.append(ir.constant(draw(numbers_of(a.dtype)), a.dtype))
            continue
        if kind == "cast":
            to = draw(st.sampled_from([other, INDEX, *INTEGERS]))
            pool.append(ir.value("cast", a, to=to, saturate=draw(st.booleans()), rounding=None))
            continue
        if kind == "shape":
            pool.append(reshaped(draw, ir, a))
            continue
        if kind == "unary":
            pool.append(ir.value(draw(st.sampled_from(["neg", "not", "abs"])), a))
            continue
        b = draw(st.sampled_from([v for v in pool if v.dtype is a.dtype]))
        if not compatible(a.tile.shape, b.tile.shape):
            continue
        if kind == "compare":
            flags.append(kernel.binary(draw(st.sampled_from(COMPARE)), a, b))
            other_flag = draw(st.sampled_from(flags))
            if compatible(flags[-1].tile.shape, other_flag.tile.shape):
                flags.append(kernel.binary(draw(st.sampled_from(["and", "or", "xor"])), flags[-1], other_flag))
            if draw(st.booleans()):
                flags.append(reshaped(draw, ir, flags[-1]))
        elif kind == "select" and flags:
            flag = draw(st.sampled_from(flags))
            if compatible(flag.tile.shape, a.tile.shape) and compatible(flag.tile.shape, b.tile.shape):
                pool.append(ir.value("select", *ir.same_shape([flag, a, b])))
        else:
            pool.append(kernel.binary(draw(st.sampled_from(BINARY)), a, b))
    return kernel


def compatible(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def reshaped(draw: st.DrawFn, ir: Builder, a: Value) -> Value:
    if not a.tile.shape:
        return ir.broadcast(a, draw(st.sampled_from(SHAPES)))
    shapes = [s for s in SHAPES if np.prod(s) == a.tile.size] or [(a.tile.size,), (1, a.tile.size), (a.tile.size, 1)]
    if len(a.tile.shape) > 1 and draw(st.booleans()):
        return ir.value("transpose", a, axes=tuple(draw(st.permutations(range(len(a.tile.shape))))))
    return ir.reshape(a, draw(st.sampled_from(shapes)))


@settings(max_examples=draws(800))
@given(kernels())
def test_every_claim_holds(kernel: Kernel) -> None:
    for value, elements in run(kernel).items():
        check(kernel.facts(value), elements)


@settings(max_examples=draws(100))
@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-6, 6).filter(bool), st.sampled_from([INDEX, S32]))
def test_a_counter_stays_within_its_claims(start: int, stop: int, step: int, dtype: DType) -> None:
    kernel = Kernel()
    bounds = [kernel.ir.constant(x, dtype) for x in (start, stop, step)]
    counter = Value(TileType((), dtype), name="i")
    loop = Op(OPS["for"], bounds, [], {"unroll": None}, [Block([counter])], LOC)
    kernel.analysis.enter_loop(loop)
    for i in range(start, stop, step):
        check(kernel.facts(counter), np.array(i, dtype=object))


# ---- what must be known, for accesses to be wide ------------------------------------------------------------------


def test_offsets_of_rows_with_an_aligned_pitch() -> None:
    """r * cols + (0 … 31): runs of 32 that start at multiples of the pitch's divisor."""
    k = Kernel({"cols": 8})
    rows = k.ir.reshape(k.arange(4), (4, 1))
    offset = k.binary("add", k.binary("mul", rows, k.dims["cols"]), k.arange(32))
    facts = k.facts(offset)
    assert facts.run == (1, 32) and facts.start[1] == 8 and facts.same == (1, 1)


def test_a_block_of_a_row_starts_at_a_multiple_of_its_extent() -> None:
    k = Kernel()
    first = k.binary("mul", k.ir.value("block_id", axis=0), k.ir.index(256))
    facts = k.facts(k.binary("add", first, k.arange(256)))
    assert facts.run == (256,) and facts.start == (256,) and facts.low == 0


@pytest.mark.parametrize(("divisor", "same"), [(1, 1), (4, 4), (16, 16)])
def test_a_mask_at_the_edge_is_constant_over_the_divisor_of_the_edge(divisor: int, same: int) -> None:
    k = Kernel({"cols": divisor})
    assert k.facts(k.binary("lt", k.arange(64), k.dims["cols"])).same == (same,)
    assert k.facts(k.binary("gt", k.dims["cols"], k.arange(64))).same == (same,)
    assert k.facts(k.binary("ge", k.arange(64), k.dims["cols"])).same == (same,)


@pytest.mark.parametrize("q", [8, 24, "cols"])
def test_pixels_of_one_row_share_their_quotient(q: int | str) -> None:
    """pixel // q and pixel % q with q a multiple of 8: groups of 8 pixels lie in one row, side by side."""
    k = Kernel({"cols": 8})
    width = k.dims["cols"] if q == "cols" else k.ir.index(int(q))
    pixel = k.binary("add", k.binary("mul", k.ir.value("block_id", axis=0), k.ir.index(64)), k.arange(64))
    row, column = k.facts(k.binary("floordiv", pixel, width)), k.facts(k.binary("mod", pixel, width))
    assert row.same == (8,) and row.low == 0
    assert column.run == (8,) and column.start == (8,) and column.low == 0
    address = k.binary("add", k.binary("mul", k.binary("floordiv", pixel, width), width), k.binary("mod", pixel, width))
    assert k.facts(address).run == (8,) and k.facts(address).start == (8,)


def test_a_range_split_into_rows_keeps_its_runs() -> None:
    k = Kernel()
    facts = k.facts(k.ir.reshape(k.arange(64), (4, 16)))
    assert facts.run == (1, 16) and facts.start[1] == 16 and (facts.low, facts.high) == (0, 63)


def test_unsigned_runs_end_at_the_wrap() -> None:
    """x + (0 … 31) in u32 may wrap anywhere, unless x is a multiple of the group."""
    k = Kernel()
    lane = k.ir.value("cast", k.arange(32), to=U32, saturate=False, rounding=None)
    x = k.scalar(U32, 2**32 - 2)
    assert k.facts(k.binary("add", x, lane)).run == (1,)
    aligned = k.binary("mul", x, k.ir.constant(8, U32))
    assert k.facts(k.binary("add", aligned, lane)).run == (8,)


def test_a_downward_counter_is_bounded_above_by_its_start() -> None:
    k = Kernel()
    bounds = [k.ir.index(x) for x in (10, 0, -1)]
    counter = Value(TileType((), INDEX))
    k.analysis.enter_loop(Op(OPS["for"], bounds, [], {"unroll": None}, [Block([counter])], LOC))
    assert (k.facts(counter).low, k.facts(counter).high) == (1, 10)


@pytest.mark.parametrize("divisor", [1, 4, 8])
def test_the_mask_of_a_row_that_starts_anywhere(divisor: int) -> None:
    """Columns from the last multiple of 8 elements before the row: aligned addresses, a mask with one run of ones."""
    k = Kernel({"cols": divisor})
    cols, eight = k.dims["cols"], k.ir.index(8)
    rows = k.ir.reshape(k.arange(4), (4, 1))
    start = k.binary("mul", rows, cols)
    address = k.binary("add", k.binary("mul", k.binary("floordiv", start, eight), eight), k.arange(64))
    assert k.facts(address).run == (1, 64) and k.facts(address).start[1] >= 8
    c = k.binary("sub", k.arange(64), k.binary("mod", start, eight))
    behind, before = k.binary("ge", c, k.ir.index(0)), k.binary("lt", c, cols)
    assert k.facts(c).low == -7 and k.facts(c).high == 63
    assert k.facts(behind).rises[1] == k.facts(before).falls[1] == 64
    own = k.facts(k.binary("and", behind, before))
    assert own.convex == (1, 64) and own.same == (1, divisor)
    assert k.facts(k.binary("or", behind, before)).convex == (1, own.same[1])


def test_comparisons_fall_or_rise() -> None:
    k = Kernel()
    i, n = k.arange(32), k.dims["cols"]
    for name, a, b in (("lt", i, n), ("le", i, n), ("gt", n, i), ("ge", n, i)):
        assert k.facts(k.binary(name, a, b)).falls == (32,) and k.facts(k.binary(name, a, b)).rises == (1,)
    for name, a, b in (("gt", i, n), ("ge", i, n), ("lt", n, i), ("le", n, i)):
        assert k.facts(k.binary(name, a, b)).rises == (32,) and k.facts(k.binary(name, a, b)).falls == (1,)


def test_zero_is_divisible_by_everything() -> None:
    k = Kernel()
    assert k.facts(k.ir.index(0)).every == ANY


# ---- sums -----------------------------------------------------------------------------------------------------------


@settings(max_examples=draws(200))
@given(kernels())
def test_a_linear_form_has_the_value_of_what_it_stands_for(kernel: Kernel) -> None:
    """Index arithmetic does not overflow, so its linear form is exact."""
    known = run(kernel)
    for value, elements in known.items():
        if value.tile.shape or value.dtype is not INDEX:
            continue
        terms, constant = linear(value)
        assert constant + sum(k * int(known[v]) for v, k in terms.items()) == int(elements)


@settings(max_examples=draws(300))
@given(kernels())
def test_told_offsets_are_the_elements(kernel: Kernel) -> None:
    """Of tiles of indices: as functions of coordinates, and listed one by one. Modulo 2^32: an s32 that becomes an
    index keeps its form, and a sum of s32 that overflows has no meaning as an index."""
    known, affine, listed = run(kernel), AffineOffsets(), ListedOffsets()
    by_identity = {id(value): elements for value, elements in known.items()}
    for value, elements in known.items():
        if value.dtype is not INDEX:
            continue
        products = affine.offsets(value)
        for at in np.ndindex(*value.tile.shape) if products is not None else ():
            told = 0
            for product, part in products.items():
                factors = [int(known[affine.scalars[name]].flat[0]) for name in product]
                told += math.prod(factors) * apply_affine(part, at)
            assert (told - elements[at]) % (1 << 32) == 0
        found = listed.of(value)
        if found is not None:
            terms = sum(k * int(by_identity[name]) for name, k in found.terms)
            told = [e + terms for e in found.values(value.tile.shape)]
            assert all((a - int(b)) % (1 << 32) == 0 for a, b in zip(told, elements.flat, strict=True))


def test_offsets_follow_transposes_and_shifts() -> None:
    """(r << 5) + c of a transposed tile of rows is c * 32 + r."""
    k = Kernel()
    rows = k.binary("shl", k.ir.reshape(k.arange(4), (4, 1)), k.ir.index(5))
    offset = k.ir.value("transpose", k.binary("add", rows, k.arange(32)), axes=(1, 0))
    assert AffineOffsets().of(offset) == Affine((1, 32), (), 0)


def test_linear_gathers_equal_terms() -> None:
    k = Kernel()
    r, four = k.dims["rows"], k.ir.index(4)
    form = k.binary("add", k.binary("mul", k.binary("add", r, k.ir.index(3)), four), k.binary("sub", k.dims["cols"], r))
    assert linear(form) == ({r: 3, k.dims["cols"]: 1}, 12)


# ---- folding --------------------------------------------------------------------------------------------------------

NUMPY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
WIDTHS = {d: np.dtype(f"{'u' if d.kind == 'unsigned' else ''}int{d.bits}") for d in INTEGERS if d is not INDEX}


@pytest.mark.long
@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
@settings(max_examples=draws(150))
@given(data=st.data())
def test_constants_fold_to_what_numpy_gives(dtype: DType, data: st.DataObject) -> None:
    """Every operation on two constants, wrapping around as the type does."""
    a, b = data.draw(numbers_of(dtype)), data.draw(numbers_of(dtype))
    k = Kernel()
    with np.errstate(all="ignore"):
        for name, function in NUMPY.items():
            folded = constant_of(k.ir.value(name, k.ir.constant(a, dtype), k.ir.constant(b, dtype)))
            if name in ("floordiv", "mod") and b == 0:
                assert folded is None
            else:
                assert folded == function(WIDTHS[dtype].type(a), WIDTHS[dtype].type(b)), name
        distance = b % dtype.bits
        for name, function in (("shl", np.left_shift), ("shr", np.right_shift)):
            folded = constant_of(k.ir.value(name, k.ir.constant(a, dtype), k.ir.constant(distance, dtype)))
            assert folded == function(WIDTHS[dtype].type(a), WIDTHS[dtype].type(distance)), name
        for to, wide in WIDTHS.items():
            folded = constant_of(k.ir.value("cast", k.ir.constant(a, dtype), to=to, saturate=False, rounding=None))
            assert folded == WIDTHS[dtype].type(a).astype(wide)
        negated = constant_of(k.ir.value("neg", k.ir.constant(a, dtype)))
        assert negated == np.negative(WIDTHS[dtype].type(a))


@settings(max_examples=draws(200))
@given(kernels())
def test_identities_keep_the_value(kernel: Kernel) -> None:
    """x + 0, x * 1, 0 * x, x // 1, x % 1, min(x, x): what folding returns equals what it replaces."""
    known = run(kernel)
    for value in list(known):
        if value.dtype is I1 or value.op is None:
            continue
        zero, one = (kernel.ir.constant(n, value.dtype, value.tile.shape) for n in (0, 1))
        kernel_values = {
            "add": [(value, zero), (zero, value)],
            "sub": [(value, zero)],
            "mul": [(value, one), (one, value), (value, zero), (zero, value)],
            "floordiv": [(value, one)],
            "mod": [(value, one)],
            "and": [(value, zero)],
            "or": [(value, zero)],
            "xor": [(zero, value)],
            "shl": [(value, zero)],
            "shr": [(value, zero)],
            "minimum": [(value, value)],
        }
        for name, pairs in kernel_values.items():
            for a, b in pairs:
                got = kernel.ir.value(name, a, b)
                number = constant_of(got)
                assert got is value or number is not None
                expected = [
                    stored(int(shifted(name, x, 0, value.dtype) if name in ("shl", "shr") else x), value.dtype)
                    for x in known[value].flat
                ]
                if name == "mod" or (name in ("mul", "and") and zero in (a, b)):
                    expected = [0] * len(expected)
                if got is not value:
                    assert all(x == number for x in expected), name


@settings(max_examples=draws(300))
@given(kernels())
def test_what_facts_decide_is_so(kernel: Kernel) -> None:
    """Comparisons and multiples folded by facts have the value of the operations that they replace."""
    known = run(kernel)
    plain, kernel.ir.facts = Builder(LOC), kernel.analysis

    def elements(value: Value) -> np.ndarray:
        if value not in known:
            assert value.op is not None
            known[value] = evaluate(value.op, [elements(o) for o in value.op.operands])
        return known[value]

    def check_value(name: str, a: Value, b: Value) -> None:
        got = kernel.ir.value(name, a, b)
        if got.op is not None and got.op.name == name and list(got.op.operands) == [a, b]:
            return  # nothing is decided
        expected = evaluate(plain.op(name, [a, b]), [elements(a), elements(b)])
        assert (elements(got) == expected).all(), name

    values = [v for v in known if v.dtype.is_int]
    for a in values:
        for b in values:
            if a.dtype is b.dtype and a.tile.shape == b.tile.shape:
                for name in COMPARE:
                    check_value(name, a, b)
        for n in (1, 2, 8, 64):
            number = kernel.ir.constant(n, a.dtype, a.tile.shape)
            check_value("mod", a, number)
            check_value("mul", kernel.ir.value("floordiv", a, number), number)


def test_rows_that_start_at_a_multiple_cost_nothing() -> None:
    k = Kernel({"cols": 16})
    k.ir.facts = k.analysis
    start, eight = k.binary("mul", k.ir.value("block_id", axis=0), k.dims["cols"]), k.ir.index(8)
    assert k.binary("mul", k.binary("floordiv", start, eight), eight) is start
    c = k.binary("sub", k.arange(64), k.binary("mod", start, eight))
    assert c is k.arange(64) and constant_of(k.binary("ge", c, k.ir.index(0))) is True
    other = k.ir.index(32)
    assert constant_of(k.binary("mod", start, other)) is None
    assert k.binary("mul", k.binary("floordiv", start, other), other) is not start


def test_an_index_beyond_32_bits_is_not_folded() -> None:
    """Its width is not known yet."""
    k = Kernel()
    product = k.ir.value("mul", k.ir.index(1 << 20), k.ir.index(1 << 20))
    assert constant_of(product) is None


def test_floats_are_compared_by_the_machine() -> None:
    """0.1 and 0.10000001 are one number in f16, 0.1 and 0.10001 are two: constants are rounded first."""
    k = Kernel()
    numbers = (0.1, 0.10000001, 0.10001, -0.0, 0.0, 65519.0, 65520.0, np.inf, np.nan)
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        for a, b in itertools.product(numbers, repeat=2):
            made = k.ir.value(name, *(k.ir.constant(each, DTYPES["f16"]) for each in (a, b)))
            with np.errstate(over="ignore"):
                of_machine = getattr(operator, name)(np.float16(a), np.float16(b))
            assert constant_of(made) is bool(of_machine), (name, a, b)


def test_a_shift_by_a_negative_constant_is_left_to_the_machine() -> None:
    k = Kernel()
    x = k.scalar(U32, 5)
    shifted_value = k.ir.value("shl", x, k.ir.constant(40, U32))
    assert k.facts(shifted_value).every >= 1 and linear(shifted_value) == ({shifted_value: 1}, 0)
    y = k.dims["rows"]
    negative = k.ir.value("shl", y, k.ir.index(-1))
    assert k.facts(negative).every == 1 and linear(negative) == ({negative: 1}, 0)


def test_a_narrow_unsigned_value_is_never_negative() -> None:
    k = Kernel()
    assert k.facts(k.scalar(DTYPES["u8"], 3)).low == 0


def test_what_a_loop_carries_is_known_from_its_start_and_from_round_to_round() -> None:
    """A tile's place, which the loop takes from the tile behind it, a counter of its own, and what becomes of it in an
    inner loop; what half of the iterations spoil is not known."""
    text = """
kernel k(y: s32[n], x: s32[n]):
    grid 1
    i, at, spoilt = block(0) * 64, 0, 0
    for t in range(n):
        for r in range(4):
            at = at + 8
        store(y[i + arange(128)], x[i + arange(128)])
        store(y[spoilt + arange(128)], x[at + arange(128)])
        i = where(t > 3, t * 32, i)
        if t > 5:
            spoilt = spoilt + 3
"""
    kernel = compile_kernel(text, {"y": np.zeros(1024, np.int32), "x": np.zeros(1024, np.int32)})
    facts = facts_of(kernel.variant.function)
    outer = next(op for op in kernel.variant.function.body.ops if op.name == "for")
    known = {v.name: facts.of(v) for v in outer.regions[0].args[1:]}
    divisors = sorted(f.every for f in known.values())
    assert divisors == [1, 8, 32]
    assert all(facts.of(v).low == 0 for v in outer.regions[0].args[1:] if facts.of(v).every > 1)
    inner = next(op for op in outer.regions[0].ops if op.name == "for")
    assert facts.of(inner.results[0]).every == 8


def test_what_a_branch_chooses_is_known_as_far_as_both_ways_are() -> None:
    """A start that a branch chose had no divisor, and accesses from it were narrow."""
    text = """
kernel k(y: f16[n], x: f16[n], far: s32):
    grid 1
    i = 8
    if far > 0:
        i = block(0) * 1024 + 64
    y[i : i + 256] = x[i : i + 256]

schedule s of k:
    warps = 1
"""
    kernel = compile_kernel(text, dims={"n": 4096})
    assert "ld.global.v4" in kernel.ptx and "st.global.v4" in kernel.ptx
