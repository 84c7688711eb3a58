"""Functions of elements, conversions, and what is asked of types."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dsl.text import tree as ast
from dsl.values.bindings import Absent, Binding, describe
from dsl.values.functions.arguments import signature, word_argument
from dsl.values.functions.registry import BUILTINS, Handler, function
from lowering.facts import counts_elements
from lowering.ir import Value
from lowering.location import Loc
from lowering.ops.elementwise import FUNCTIONS
from lowering.types import DTYPES, F32, F64, I1, INDEX, DType, int_range

if TYPE_CHECKING:
    from dsl.values.expressions import Expressions


def _elementwise(name: str) -> Handler:
    arity = FUNCTIONS[name].arity

    def handler(b: Expressions, loc: Loc, args: list, keywords: dict) -> Value:
        signature(b, loc, name, args, keywords, arity, arity)
        values = agreed(b, loc, args)
        if FUNCTIONS[name].of == "f32" and values[0].dtype.name in ("f16", "bf16"):
            wide = [cast(b, v, F32) for v in values]
            return cast(b, b.ir.value(name, *wide), values[0].dtype)
        return b.ir.value(name, *values)

    return handler


def agreed(b: Expressions, loc: Loc, args: list) -> list[Value]:
    """Arguments as values of one type and shape."""
    operands = [b.operand(a, loc) for a in args]
    b.place(loc)
    first = operands[0]
    if not isinstance(first, Value) and not any(isinstance(o, Value) for o in operands):
        operands[0] = b.natural(first, loc)
    return b.agree(operands, loc)


for _name in FUNCTIONS:
    BUILTINS[_name] = _elementwise(_name)


def table() -> str:
    """The operations that are functions, as the table of docs/functions.md."""
    lines = ["| function | means | types | error at most |", "|---|---|---|---|"]
    lines += [f"| `{each.usage}` | {each.means} | {each.types} | {each.error} |" for each in FUNCTIONS.values()]
    return "\n".join(lines) + "\n"


@function("polynomial")
def _polynomial(b: Expressions, loc: Loc, args: list, keywords: dict) -> Value:
    """`polynomial(x, c0, c1, …)`: c0 + c1·x + …, by Horner's rule in fused steps."""
    signature(b, loc, "polynomial", args, keywords, 3, None)
    x, *coefficients = agreed(b, loc, args)
    total = coefficients.pop()
    while coefficients:
        total = b.ir.value("fma", total, x, coefficients.pop())
    return total


def _scaled(name: str, before: float, after: float) -> Handler:
    """The hardware's approximation in another base."""

    def handler(b: Expressions, loc: Loc, args: list, keywords: dict) -> Value:
        signature(b, loc, name, args, keywords, 1, 1)
        (value,) = agreed(b, loc, args)
        dtype = value.dtype
        if not dtype.is_float or dtype.bits > 32:
            b.error("type", loc, f"{name} is of f32, f16 and bf16; this is {value.tile}")
        value = cast(b, value, F32)
        if before != 1.0:
            value = b.ir.value("mul", value, b.ir.broadcast(b.number(before, F32, loc), value.tile.shape))
        value = b.ir.value("ex2.approx" if name.startswith("exp") else "lg2.approx", value)
        if after != 1.0:
            value = b.ir.value("mul", value, b.ir.broadcast(b.number(after, F32, loc), value.tile.shape))
        return cast(b, value, dtype)

    return handler


for _name, _before, _after in (
    ("exp.approx", math.log2(math.e), 1.0),
    ("exp2.approx", 1.0, 1.0),
    ("log.approx", 1.0, math.log(2)),
    ("log2.approx", 1.0, 1.0),
    ("log10.approx", 1.0, math.log10(2)),
):
    BUILTINS[_name] = _scaled(_name, _before, _after)


def cast(b: Expressions, value: Value, to: DType, saturate: bool = False, rounding: str | None = None) -> Value:
    return b.ir.value("cast", value, to=to, saturate=saturate, rounding=rounding)


_ROUNDINGS = {"nearest": "rn", "zero": "rz", "up": "rp", "down": "rm"}


def convert(b: Expressions, node: ast.Call) -> Binding:
    """`value.to(TYPE[, saturate][, rounding=zero])`."""

    assert isinstance(node.function, ast.Attribute)
    source = b.operand(b.expr(node.function.value), node.function.value.loc)
    if not node.args:
        b.error("call", node.loc, ".to takes a type")
    dtype = b.expr(node.args[0])
    if not isinstance(dtype, DType):
        b.error("type", node.args[0].loc, f"{describe(dtype)} is no type", "for example .to(f32)")
    saturate = False
    for extra in node.args[1:]:
        if not (isinstance(extra, ast.Name) and extra.id == "saturate"):
            b.error("call", extra.loc, "after the type only 'saturate' may follow")
        saturate = True
    for key in node.keywords:
        if key != "rounding":
            b.error("call", node.loc, f".to has no argument '{key}'", "known: rounding")
    word = word_argument(b, node.loc, node.keywords.get("rounding"), "rounding", tuple(_ROUNDINGS))
    if saturate and not dtype.is_int:
        b.error("type", node.loc, f"'saturate' is for integer types; this is {dtype}")
    b.place(node.loc)
    if not isinstance(source, Value):
        if dtype.is_int and not isinstance(source, bool):
            return b.number(whole_number(source, dtype, saturate, word, node.loc), dtype, node.loc)
        if word is None or not dtype.is_float or isinstance(source, bool):
            return b.number(source, dtype, node.loc)
        source = b.number(source, F64, node.loc)
    return cast(b, source, dtype, saturate, _ROUNDINGS[word] if word else None)


_WHOLE: dict[str, Callable[[float], int]] = {
    "nearest": round, "zero": math.trunc, "up": math.ceil, "down": math.floor
}  # fmt: skip


def whole_number(source: int | float, dtype: DType, saturate: bool, rounding: str | None, loc: Loc) -> int:
    """A number as an integer, as the conversion of a value does it: floats saturate, NaN is 0."""
    low, high = int_range(dtype)
    if isinstance(source, float):
        if math.isnan(source):
            return 0
        if math.isinf(source):
            return high if source > 0 else low
        source = _WHOLE[rounding or "zero"](source)
        saturate = True
    return min(max(source, low), high) if saturate else source


@function("bitcast")
def _bitcast(b: Expressions, loc: Loc, args: list, keywords: dict) -> Value:
    signature(b, loc, "bitcast", args, keywords, 2, 2)
    if not isinstance(args[1], DType):
        b.error("type", loc, "bitcast(value, TYPE)")
    value, to = b.as_value(args[0], loc), args[1]
    b.place(loc)
    if {value.dtype.bits, to.bits} <= WORDS.keys() and value.dtype.bits != to.bits and value.tile.shape:
        return _resized(b, loc, value, to)
    return b.ir.value("split" if to.bits < 8 and to.kind == "operand" else "bitcast", value, to=to)


WORDS = {bits: DTYPES[f"u{bits}"] for bits in (8, 16, 32, 64)}


def _resized(b: Expressions, loc: Loc, value: Value, to: DType) -> Value:
    """The bits of neighbours along the last axis, the first in the lowest bits, as larger or smaller elements."""
    have, (*around, last) = value.dtype.bits, value.tile.shape
    small, large = WORDS[min(have, to.bits)], WORDS[max(have, to.bits)]
    places = [(i, b.ir.constant(i * small.bits, large)) for i in range(large.bits // small.bits)]
    if have > to.bits:
        whole = b.ir.value("bitcast", value, to=large)
        shifts = [b.ir.broadcast(bits, value.tile.shape) for _, bits in places]
        parts = b.ir.value("stack", *(cast(b, b.ir.value("shr", whole, bits), small) for bits in shifts))
        return b.ir.value("bitcast", b.ir.reshape(parts, (*around, last * len(places))), to=to)
    if last % len(places):
        b.error(
            "type", loc, f"{len(places)} elements of {value.dtype} make one of {to}; a row of {value.tile} has {last}"
        )
    shape = (*around, last // len(places))
    pairs = b.ir.reshape(b.ir.value("bitcast", value, to=small), (*shape, len(places)))
    total = None
    for i, bits in places:
        part = cast(b, b.ir.value("pick", pairs, axis=len(shape), index=i), large)
        part = b.ir.value("shl", part, b.ir.broadcast(bits, shape))
        total = part if total is None else b.ir.value("or", total, part)
    assert total is not None
    return b.ir.value("bitcast", total, to=to)


def _extreme(name: str) -> Handler:
    def handler(b: Expressions, loc: Loc, args: list, keywords: dict) -> Binding:
        signature(b, loc, name, args, keywords, 2, None)
        values = agreed(b, loc, args)
        total = values[0]
        for value in values[1:]:
            total = b.ir.value(name, total, value)
        return total

    return handler


BUILTINS["minimum"] = _extreme("minimum")
BUILTINS["maximum"] = _extreme("maximum")


@function("where")
def _where(b: Expressions, loc: Loc, args: list, keywords: dict) -> Binding:
    signature(b, loc, "where", args, keywords, 3, 3)
    condition, yes, no = (b.operand(a, loc) for a in args)
    if not isinstance(condition, Value):
        return yes if condition else no
    if condition.dtype is not I1:
        b.error("type", loc, f"the condition of where is {condition.tile}, not i1", "compare with '!= 0'")
    b.place(loc)
    if not isinstance(yes, Value) and not isinstance(no, Value):
        yes = b.natural(float(yes) if isinstance(no, float) and not isinstance(yes, bool) else yes, loc)
    yes, no = b.agree([yes, no], loc)
    condition, yes, no = b.ir.same_shape([condition, yes, no])
    return b.ir.value("select", condition, yes, no)


@function("clamp")
def _clamp(b: Expressions, loc: Loc, args: list, keywords: dict) -> Binding:
    signature(b, loc, "clamp", args, keywords, 3, 3)
    value, low, high = agreed(b, loc, args)
    return b.ir.value("minimum", b.ir.value("maximum", value, low), high)


@function("cdiv")
def _cdiv(b: Expressions, loc: Loc, args: list, keywords: dict) -> Binding:
    """a / by, rounded up. Where a sum of the two fits, rounded down is enough; else what is left over adds 1."""
    signature(b, loc, "cdiv", args, keywords, 2, 2)
    a, by = agreed(b, loc, args)
    b.check_divisor(by, loc)
    ir, high, size = b.ir, b.facts.of(a).high, b.facts.of(by)
    one = ir.broadcast(b.number(1, by.dtype, loc), by.tile.shape)
    if (
        size.low is not None
        and size.low >= 0
        and (
            counts_elements(a) and counts_elements(by)
            if high is None or size.high is None
            else high + size.high - 1 <= int_range(a.dtype)[1]
        )
    ):
        return ir.value("floordiv", ir.value("add", a, ir.value("sub", by, one)), by)
    below = ir.value("floordiv", a, by)
    rest = ir.value("ne", ir.value("mul", below, by), a)
    return ir.value("add", below, cast(b, rest, a.dtype))


@function("next_pow2", "pow2_divisor")
def _constants_only(b: Expressions, loc: Loc, args: list, keywords: dict) -> Binding:
    b.error("constant", loc, "next_pow2 and pow2_divisor take constants", "compute it in the schedule")


@function("isnan")
def _isnan(b: Expressions, loc: Loc, args: list, keywords: dict) -> Binding:
    signature(b, loc, "isnan", args, keywords, 1, 1)
    (value,) = agreed(b, loc, args)
    return b.ir.value("ne", value, value)


@function("isinf")
def _isinf(b: Expressions, loc: Loc, args: list, keywords: dict) -> Binding:
    signature(b, loc, "isinf", args, keywords, 1, 1)
    (value,) = agreed(b, loc, args)
    infinity = b.ir.broadcast(b.number(float("inf"), value.dtype, loc), value.tile.shape)
    return b.ir.value("eq", b.ir.value("abs", value), infinity)


@function("size")
def _size(b: Expressions, loc: Loc, args: list, keywords: dict) -> int:
    signature(b, loc, "size", args, keywords, 1, 1)
    if not isinstance(args[0], DType):
        b.error("type", loc, "size takes a type: its bytes")
    return args[0].bytes


@function("dtype")
def _dtype(b: Expressions, loc: Loc, args: list, keywords: dict) -> DType:
    signature(b, loc, "dtype", args, keywords, 1, 1)
    operand = b.operand(args[0], loc)
    return operand.dtype if isinstance(operand, Value) else F32 if isinstance(operand, float) else INDEX


@function("given")
def _given(b: Expressions, loc: Loc, args: list, keywords: dict) -> bool:

    signature(b, loc, "given", args, keywords, 1, 1)
    return not isinstance(args[0], Absent)
