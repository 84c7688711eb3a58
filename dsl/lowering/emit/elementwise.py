"""Emits elementwise operations. Each element becomes one or a few LLVM instructions."""

from __future__ import annotations

from collections.abc import Callable

from dsl.lowering.emit.carriers import from_carrier, into_carrier
from dsl.lowering.emit.constants import float_constant
from dsl.lowering.emit.neighbours import equal_quotients, known_rests
from dsl.lowering.emit.packed_bytes import convert_pair, converts_pairs, in_words
from dsl.lowering.emit.pairs import extreme_in_pairs, select_in_pairs
from dsl.lowering.emit.rules import RULES, rule
from dsl.lowering.emit.words import count_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import BF16, F16, F32, F64, FP8, I1, S32, TF32, U32, DType, int_range
from dsl.lowering.ops.elementwise import FUNCTIONS, suffix

Element = Callable[[Writer, Op, DType, str, list[str]], str]
"""Emits one element. The arguments are the writer, the operation, the dtype of the first operand, its LLVM type, and
the operands. Returns the result."""


def elementwise(
    *names: str,
    at_once: Callable[[Writer, Op], bool] | None = None,
    alike: Callable[[Writer, Op], list[int]] | None = None,
) -> Callable[[Element], Element]:
    """Decorator that registers a function as the emission rule of the operations `names`. The function emits one
    element.

    `at_once`: tries to emit all elements together, and returns whether it did.
    `alike`: returns a group number for each register. All elements of a group are equal, so only one of them is
        computed.
    """

    def register(function: Element) -> Element:
        def emit(w: Writer, op: Op) -> None:
            if at_once is not None and at_once(w, op):
                return
            result = op.result
            first = op.operands[0].dtype
            llvm = w.llvm(first)
            sources = [w.registers[o] for o in op.operands]
            out = [""] * count_of(result)
            group, made = alike(w, op) if alike is not None else range(len(out)), dict[int, str]()
            for i in w.needed.of(result, len(out)):
                if group[i] not in made:
                    made[group[i]] = function(w, op, first, llvm, [s[i] for s in sources])
                out[i] = made[group[i]]
            w.registers[result] = out

        for name in names:
            RULES[name] = emit
        return function

    return register


for _function in FUNCTIONS.values():
    elementwise(_function.name)(_function.emit)


@elementwise("add", "sub", "mul", "div", "and", "or", "xor")
def _arithmetic(w: Writer, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
    if dtype.is_float:
        return w.let(f"f{op.name}{w.contract} {llvm} {x[0]}, {x[1]}")
    # `nsw` is correct for indices, because their width is chosen such that they do not overflow.
    flags = " nsw" if dtype.kind == "index" and op.name in ("add", "sub", "mul") else ""
    return w.let(f"{op.name}{flags} {llvm} {x[0]}, {x[1]}")


_plain_and = RULES["and"]


@rule("and")
def _and(w: Writer, op: Op) -> None:
    """Merges `0 <= v` and `v < n` into one unsigned comparison if n is not negative."""
    # The convolution `table` in NHWC has 895 machine instructions with one comparison and 993 with two. Of 87 kernels,
    # 11 change.
    inside, because = _bounds(w, op), "0 <= v < n, of an n that is not negative"
    if inside is None or not w.switches.of(op, "bounds", {"one": True, "two": False}, because):
        _plain_and(w, op)
        return
    v, n = (w.registers[o] for o in inside)
    llvm, out = w.llvm(inside[0].dtype), [""] * count_of(op.result)
    for i in w.needed.of(op.result, len(out)):
        out[i] = w.let(f"icmp ult {llvm} {v[i]}, {n[i]}")
    w.registers[op.result] = out


def _bounds(w: Writer, op: Op) -> tuple[Value, Value] | None:
    """Returns (v, n) if `op` computes `0 <= v and v < n`, for a signed v and an n that is not negative. Otherwise
    returns None."""
    for at_least, below in (op.operands, op.operands[::-1]):
        (zero, v), (same, n) = (_in_order(flag, name) for flag, name in ((at_least, "le"), (below, "lt")))
        if v is not None and v is same and n is not None and zero is not None and constant_of(zero) == 0:
            low = w.facts.of(n).low
            return (v, n) if v.dtype.is_signed and low is not None and low >= 0 else None
    return None


def _in_order(flag: Value, name: str) -> tuple[Value | None, Value | None]:
    """Returns (a, b) if `flag` is the comparison `a name b`, or the same comparison written with swapped operands."""
    if flag.op is not None and flag.op.name == name:
        return flag.op.operands[0], flag.op.operands[1]
    if flag.op is not None and flag.op.name == {"le": "ge", "lt": "gt"}[name]:
        return flag.op.operands[1], flag.op.operands[0]
    return None, None


def _known_nonnegative(w: Writer, op: Op) -> bool:
    lows = [w.facts.of(o).low for o in op.operands]
    return all(low is not None and low >= 0 for low in lows)


@elementwise("floordiv", alike=equal_quotients)
@elementwise("mod", at_once=known_rests)
def _division(w: Writer, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
    by = constant_of(op.operands[1])
    quotient = op.name == "floordiv"
    # shift and mask round down, also for negative numbers
    if by is not None and by > 0 and int(by) & (int(by) - 1) == 0:
        if quotient:
            shift = "ashr" if dtype.is_signed else "lshr"
            return w.let(f"{shift} {llvm} {x[0]}, {int(by).bit_length() - 1}")
        return w.let(f"and {llvm} {x[0]}, {int(by) - 1}")
    if not dtype.is_signed or _known_nonnegative(w, op):
        return w.let(f"{'udiv' if quotient else 'urem'} {llvm} {x[0]}, {x[1]}")
    # The hardware truncates, while the language rounds down. The results differ if there is a remainder and the signs
    # differ.
    rest = w.let(f"srem {llvm} {x[0]}, {x[1]}")
    inexact = w.let(f"icmp ne {llvm} {rest}, 0")
    signs = w.let(f"xor {llvm} {rest}, {x[1]}")
    differ = w.let(f"icmp slt {llvm} {signs}, 0")
    correct = w.let(f"and i1 {inexact}, {differ}")
    if quotient:
        down = w.let(f"sdiv {llvm} {x[0]}, {x[1]}")
        one = w.let(f"zext i1 {correct} to {llvm}")
        return w.let(f"sub {llvm} {down}, {one}")
    more = w.let(f"select i1 {correct}, {llvm} {x[1]}, {llvm} 0")
    return w.let(f"add {llvm} {rest}, {more}")


@elementwise("minimum", "maximum", at_once=extreme_in_pairs)
def _extreme(w: Writer, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
    if dtype is I1:
        return w.let(f"{'and' if op.name == 'minimum' else 'or'} i1 {x[0]}, {x[1]}")
    if dtype.is_float:
        return extreme_of_floats(w, op.name, llvm, x)
    made = w.intrinsic(f"llvm.{'s' if dtype.is_signed else 'u'}{op.name[:3]}.{llvm}", llvm, [(llvm, v) for v in x])
    # `freeze` stops LLVM's scalar evolution and produces no instruction. Without it, LLVM spends 16 s on nested maxima
    # and sums in 512 steps of dynamic programming.
    return w.let(f"freeze {llvm} {made}") if op.result.tile.shape else made


def extreme_of_floats(w: Writer, name: str, llvm: str, x: list[str]) -> str:
    """Emits the `minimum` or `maximum` of two floats. NaN is propagated, and -0 counts as smaller than +0."""
    if llvm != "double":
        return w.intrinsic(f"llvm.{name}.{suffix(llvm)}", llvm, [(llvm, v) for v in x])
    # The PTX instructions for f64 do not propagate NaN. Equal operands differ at most in the sign bit, so their bitwise
    # `or` is the minimum, and their bitwise `and` is the maximum.
    less = name == "minimum"
    first = w.let(f"fcmp {'olt' if less else 'ogt'} double {x[0]}, {x[1]}")
    chosen = w.let(f"select i1 {first}, double {x[0]}, double {x[1]}")
    bits = [w.let(f"bitcast double {v} to i64") for v in x]
    joined = w.let(f"{'or' if less else 'and'} i64 {bits[0]}, {bits[1]}")
    joined = w.let(f"bitcast i64 {joined} to double")
    equal = w.let(f"fcmp oeq double {x[0]}, {x[1]}")
    number = w.let(f"select i1 {equal}, double {joined}, double {chosen}")
    unordered = w.let(f"fcmp uno double {x[0]}, {x[1]}")
    return w.let(f"select i1 {unordered}, double {float_constant(float('nan'), 'double')}, double {number}")


@elementwise("neg")
def _negate(w: Writer, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
    return w.let(f"fneg {llvm} {x[0]}" if dtype.is_float else f"sub {llvm} 0, {x[0]}")


@elementwise("not")
def _not(w: Writer, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
    return w.let(f"xor {llvm} {x[0]}, {'true' if dtype is I1 else '-1'}")


@elementwise("shl", "shr")
def _shift(w: Writer, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
    """Emits a shift. If the distance is at least the bit width, the result is 0, or all sign bits for `shr` of a signed
    number. LLVM does not define such a shift, so the code limits the distance first."""
    bits = w.bits(dtype)
    amount = constant_of(op.operands[1])
    name = "shl" if op.name == "shl" else "ashr" if dtype.is_signed else "lshr"
    if amount is not None and 0 <= amount < bits:
        return w.let(f"{name} {llvm} {x[0]}, {x[1]}")
    inside = w.let(f"icmp ult {llvm} {x[1]}, {bits}")
    safe = w.let(f"select i1 {inside}, {llvm} {x[1]}, {llvm} {bits - 1}")
    shifted = w.let(f"{name} {llvm} {x[0]}, {safe}")
    if name == "ashr":
        return shifted
    return w.let(f"select i1 {inside}, {llvm} {shifted}, {llvm} 0")


def of_word(w: Writer, op: Op) -> bool:
    """Chooses whether an operation on bytes works on whole 32-bit words."""
    return w.switches.of(op, "bytes", {"word": True, "single": False}, "bytes of a word")


_PREDICATES = {"eq": ("oeq", "eq", "eq"), "ne": ("une", "ne", "ne"), "lt": ("olt", "slt", "ult"),
               "le": ("ole", "sle", "ule"), "gt": ("ogt", "sgt", "ugt"), "ge": ("oge", "sge", "uge")}  # fmt: skip


@elementwise("eq", "ne", "lt", "le", "gt", "ge")
def _compare(w: Writer, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
    of_float, signed, unsigned = _PREDICATES[op.name]
    if dtype.is_float:
        return w.let(f"fcmp {of_float} {llvm} {x[0]}, {x[1]}")
    byte = w.words.bytes.get(x[0])
    # Masking the word takes one instruction. Extracting the byte takes two.
    if byte is not None and x[1] == "0" and op.name in ("eq", "ne") and of_word(w, op):
        word, bits = byte
        flag = w.let(f"icmp {signed} i32 {w.let(f'and i32 {word}, {bits}')}, 0")
        w.words.byte_flags[flag] = word, bits, op.name == "ne"
        return flag
    return w.let(f"icmp {signed if dtype.is_signed else unsigned} {llvm} {x[0]}, {x[1]}")


@elementwise("select", at_once=select_in_pairs)
def _select(w: Writer, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
    of = w.llvm(op.result.dtype)
    return w.let(f"select i1 {x[0]}, {of} {x[1]}, {of} {x[2]}")


@elementwise("bitcast")
def _bitcast(w: Writer, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
    to = w.llvm(op.attrs["to"])
    return x[0] if to == llvm else w.let(f"bitcast {llvm} {x[0]} to {to}")


@elementwise("join_bits")
def _join_bits(w: Writer, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
    """Emits an integer made of the bits of smaller elements. The first element is in the lowest bits."""
    words = w.words.pack(x, dtype)
    if len(words) == 1:
        return words[0]
    low, high = (w.let(f"zext i32 {word} to i64") for word in words)
    return w.let(f"or i64 {low}, {w.let(f'shl i64 {high}, 32')}")


@rule("cast")
def _cast(w: Writer, op: Op) -> None:
    """Emits a conversion. Four consecutive elements that become saturated bytes or FP8 are converted together, and two
    bytes that become f16 or bf16. Other elements are converted one at a time."""
    source, result = op.operands[0], op.result
    x, out = w.registers[source], [""] * count_of(result)
    left = w.needed.of(result, len(out))
    four = None
    if _saturates_bytes(source.dtype, op.attrs["to"], op.attrs["saturate"]):
        four = _four_bytes
    elif op.attrs["to"] in FP8 and source.dtype is not op.attrs["to"]:
        four = _four_of_fp8
    elif converts_pairs(source.dtype, op.attrs["to"]):
        _pairs_of_bytes(w, op, x, out, left)
    while left:
        first = left[0]
        if out[first]:
            left = left[1:]
        elif four is not None and first % 4 == 0 and left[:4] == list(range(first, first + 4)) and of_word(w, op):
            out[first : first + 4] = four(w, x[first : first + 4], op)
            left = left[4:]
        else:
            out[first] = _cast_one(w, op, x[first])
            left = left[1:]
    w.registers[result] = out


def _pairs_of_bytes(w: Writer, op: Op, x: list[str], out: list[str], needed: list[int]) -> None:
    """Converts the pairs of neighbours that lie in known words. A pair of results is one word."""
    there = set(needed)
    for first in (i for i in needed if i % 2 == 0 and i + 1 in there):
        if in_words(w, x[first : first + 2]) and of_word(w, op):
            out[first : first + 2] = w.words.unpack([convert_pair(w, op, x[first : first + 2])], op.attrs["to"], 2)


def _saturates_bytes(source: DType, to: DType, saturate: bool) -> bool:
    """Whether a conversion to a byte goes through s32, which `cvt.pack` then saturates."""
    return to.is_int and to.bits == 8 and (source in (F16, BF16, F32) or (saturate and source is S32))


def _four_bytes(w: Writer, x: list[str], op: Op) -> list[str]:
    """Converts four elements to bytes with `cvt.pack`. ptxas merges `cvt.pack` with the preceding conversions from f32,
    so two bytes take one instruction."""
    source, to = op.operands[0].dtype, op.attrs["to"]
    s32 = [x if source is S32 else _float_to_int(w, x, source, S32, op.attrs["rounding"]) for x in x]
    name = f"cvt.pack.sat.{to}.s32.b32"
    upper = w.template(name, [s32[3], s32[2], "0"], op)[0]
    word = w.template(name, [s32[1], s32[0], upper], op)[0]
    return w.words.apart(word, "i8")


def _four_of_fp8(w: Writer, x: list[str], op: Op) -> list[str]:
    """Converts four elements to FP8 with two instructions, each for two elements."""
    source, to, rounding = op.operands[0].dtype, op.attrs["to"], op.attrs["rounding"]
    wide = [convert(w, e, source, F32, op=op) for e in x]
    halves = [_pair_of_fp8(w, wide[i], wide[i + 1], to, rounding, op) for i in (0, 2)]
    both = w.let(f"insertelement <2 x i16> poison, i16 {halves[0]}, i32 0")
    word = w.let(f"bitcast <2 x i16> {w.let(f'insertelement <2 x i16> {both}, i16 {halves[1]}, i32 1')} to i32")
    return w.words.apart(word, "i8")


def _pair_of_fp8(w: Writer, low: str, high: str, to: DType, rounding: str | None, op: Op | None) -> str:
    """Converts two f32 to two FP8 numbers in 16 bits, rounded to nearest and saturated. Raises TileError `type` for
    other rounding modes, which the hardware lacks."""
    if rounding not in (None, "rn"):
        raise TileError("type", op.loc if op else None, f"{to} is rounded to nearest: the hardware has no other")
    return w.template(f"cvt.rn.satfinite.{to}x2.f32", [high, low], op)[0]


def _cast_one(w: Writer, op: Op, x: str) -> str:
    dtype, llvm = op.operands[0].dtype, w.llvm(op.operands[0].dtype)
    # For the directive `recompute`, `sideeffect` keeps LLVM and ptxas from merging equal conversions.
    if op.attrs.get("anew") and (dtype is F16 or w.target.number >= 90):
        return w.let(f'call float asm sideeffect "cvt.f32.{dtype} $0, $1;", "=f,h"({llvm} {x})')
    return convert(w, x, dtype, op.attrs["to"], op.attrs["saturate"], op.attrs["rounding"], op)


def convert(
    w: Writer,
    x: str,
    source: DType,
    to: DType,
    saturate: bool = False,
    rounding: str | None = None,
    op: Op | None = None,
) -> str:
    """Converts one element. A float that becomes an integer is rounded toward 0 (or by `rounding`) and saturated to the
    integer's range, and NaN becomes 0. An integer that becomes a narrower integer saturates if `saturate` is set, and
    otherwise wraps around."""
    a, b = w.llvm(source), w.llvm(to)
    if source is to:
        return x
    if to is TF32:
        return w.template("cvt.rna.tf32.f32", [x], op)[0]
    if to in FP8:
        # The 0 that fills a masked load needs no conversion, which would exist only from sm_89 on.
        if source.is_float and x == float_constant(0.0, a):
            return "0"
        pair = _pair_of_fp8(w, convert(w, x, source, F32, op=op), float_constant(0.0, "float"), to, rounding, op)
        return w.let(f"trunc i16 {pair} to i8")
    if source in FP8:
        pair = w.template(f"cvt.rn.f16x2.{source}x2", [w.let(f"zext i8 {x} to i16")], op)[0]
        half = w.let(f"bitcast i16 {w.let(f'trunc i32 {pair} to i16')} to half")
        return convert(w, half, F16, to, op=op)
    if source.is_float and to.is_float:
        return _float_to_float(w, x, source, to, rounding, op)
    if source.is_float:
        return _float_to_int(w, x, source, to, rounding)
    if to.is_float:
        return _int_to_float(w, x, source, to, rounding, op)
    if to is I1:
        return w.let(f"icmp ne {a} {x}, 0")
    if source is I1:
        return w.let(f"zext i1 {x} to {b}")
    if saturate:
        x = _clamp(w, x, source, to)
    wide, narrow = w.bits(source), w.bits(to)
    if wide == narrow:
        return x
    if wide > narrow:
        return w.let(f"trunc {a} {x} to {b}")
    return w.let(f"{'sext' if source.is_signed else 'zext'} {a} {x} to {b}")


def _clamp(w: Writer, x: str, source: DType, to: DType) -> str:
    llvm, wide, narrow = w.llvm(source), w.bits(source), w.bits(to)
    low, high = (0, (1 << narrow) - 1) if not to.is_signed else (-(1 << (narrow - 1)), (1 << (narrow - 1)) - 1)
    least, most = (-(1 << (wide - 1)), (1 << (wide - 1)) - 1) if source.is_signed else (0, (1 << wide) - 1)
    kind = "s" if source.is_signed else "u"
    if high < most:
        x = w.intrinsic(f"llvm.{kind}min.{llvm}", llvm, [(llvm, x), (llvm, str(high))])
    if low > least:
        x = w.intrinsic(f"llvm.{kind}max.{llvm}", llvm, [(llvm, x), (llvm, str(low))])
    return x


def _float_to_float(w: Writer, x: str, source: DType, to: DType, rounding: str | None, op: Op | None) -> str:
    a, b = w.llvm(source), w.llvm(to)
    if source is BF16 and to is F32 and x in w.words.bf16:
        # A bf16 is the upper half of an f32. For `cvt`, ptxas moves the upper half of a word down, and up again.
        word, is_upper = w.words.bf16[x]
        return w.let(f"bitcast i32 {w.let(f'and i32 {word}, -65536' if is_upper else f'shl i32 {word}, 16')} to float")
    if to.bits > source.bits:
        return w.let(f"fpext {a} {x} to {b}")
    # f16 and bf16 are converted to each other through f32, which represents all numbers of both types
    if source.bits == to.bits:
        x, source, a = w.let(f"fpext {a} {x} to float"), F32, "float"
    if rounding in (None, "rn"):
        return w.let(f"fptrunc {a} {x} to {b}")
    # PTX cannot do this in one step, but rounding twice in the same direction equals rounding once
    if source is F64 and to.bits == 16:
        x, source = _cvt(w, x, source, F32, rounding), F32
    if to is BF16 and rounding != "rz":
        message = "bf16 is rounded to nearest or to zero: the hardware has no other"
        raise TileError("type", op.loc if op else None, message)
    return _cvt(w, x, source, to, rounding)


def _cvt(w: Writer, x: str, source: DType, to: DType, rounding: str | None) -> str:
    """Emits a `cvt` with a rounding mode, from 32 or 64 bits to a float type."""
    kind = {"f16": "h", "bf16": "h", "f32": "f", "f64": "d"}
    of = kind.get(source.name) or ("l" if w.bits(source) == 64 else "r")
    name = source.name if source.is_float else f"{'s' if source.is_signed else 'u'}{w.bits(source)}"
    carrier = "i16" if to.bits == 16 else w.llvm(to)
    instruction, constraints = f"cvt.{rounding}.{to}.{name} $0, $1;", f"={kind[to.name]},{of}"
    made = w.let(f'call {carrier} asm "{instruction}", "{constraints}"({w.llvm(source)} {x})')
    return w.let(f"bitcast i16 {made} to {w.llvm(to)}") if to.bits == 16 else made


_INT_ROUNDING = {None: "rzi", "rz": "rzi", "rn": "rni", "rp": "rpi", "rm": "rmi"}


def _float_to_int(w: Writer, x: str, source: DType, to: DType, rounding: str | None) -> str:
    """Converts a float to an integer. The result is saturated, and NaN becomes 0 (PTX ISA, cvt). Results of 8 and 16
    bits are computed in 32 bits and then clamped."""
    if to is I1:
        return w.let(f"fcmp une {w.llvm(source)} {x}, {float_constant(0.0, source.llvm)}")
    if source in (F16, BF16):
        x, source = w.let(f"fpext {w.llvm(source)} {x} to float"), F32
    bits = max(w.bits(to), 32)
    sign = "s" if to.is_signed or w.bits(to) < 32 else "u"
    kind = {"f32": "f", "f64": "d"}[source.name]
    place = "r" if bits == 32 else "l"
    name = f"cvt.{_INT_ROUNDING[rounding]}.{sign}{bits}.{source}"
    made = w.let(f'call i{bits} asm "{name} $0, $1;", "={place},{kind}"({w.llvm(source)} {x})')
    if bits == 64 or source.name == "f64":
        # `cvt` converts NaN to 0 only from f32 to 32 bits. For other types, the ISA specifies another value.
        is_nan = w.let(f"fcmp uno {w.llvm(source)} {x}, {x}")
        made = w.let(f"select i1 {is_nan}, i{bits} 0, i{bits} {made}")
    if w.bits(to) < 32:
        made = w.let(f"trunc i32 {_clamp(w, made, S32, to)} to {w.llvm(to)}")
    return made


def _int_to_float(w: Writer, x: str, source: DType, to: DType, rounding: str | None, op: Op | None) -> str:
    a, b = w.llvm(source), w.llvm(to)
    name = "sitofp" if source.is_signed else "uitofp"
    if rounding not in (None, "rn") and source is not I1:
        if w.bits(source) < 32:
            x = w.let(f"{'sext' if source.is_signed else 'zext'} {a} {x} to i32")
            source = S32 if source.is_signed else U32
        if to.bits >= 32:
            return _cvt(w, x, source, to, rounding)
        return _float_to_float(w, _cvt(w, x, source, F32, rounding), F32, to, rounding, op)
    if to is F32 and x in w.words.bytes and op is not None and of_word(w, op):
        return _byte_to_float(w, x, source.is_signed)
    if to.bits >= 32:
        return w.let(f"{name} {a} {x} to {b}")
    # For f16, rounding twice equals rounding once: f32 rounds only integers above 2^24, which are infinite in f16.
    if to is F16 or _is_exact_in_f32(w, source, op):
        return w.let(f"fptrunc float {w.let(f'{name} {a} {x} to float')} to {b}")
    if w.target.number >= 90:  # one instruction instead of two through f64
        return _cvt(w, x, source, to, "rn")
    # Before sm_90, a conversion to bf16 first rounds the number to odd in f32: the last bit of the f32 is set if the
    # conversion is inexact. f32 has enough bits that the second rounding then equals a single rounding.
    down, up, cut = (_cvt(w, x, source, F32, r) for r in ("rm", "rp", "rz"))
    inexact = w.let(f"zext i1 {w.let(f'fcmp une float {down}, {up}')} to i32")
    odd = w.let(f"or i32 {w.let(f'bitcast float {cut} to i32')}, {inexact}")
    return w.let(f"fptrunc float {w.let(f'bitcast i32 {odd} to float')} to {b}")


def _is_exact_in_f32(w: Writer, source: DType, op: Op | None) -> bool:
    """Whether all possible values of the integer are exact in f32, because their magnitude is at most 2^24."""
    low, high = int_range(source)
    if op is not None and op.operands[0].dtype is source:
        facts = w.facts.of(op.operands[0])
        low = low if facts.low is None else max(low, facts.low)
        high = high if facts.high is None else min(high, facts.high)
    return low >= -(1 << 24) and high <= 1 << 24


def _byte_to_float(w: Writer, x: str, is_signed: bool) -> str:
    """Converts a byte of a word to f32. `prmt` puts the byte into the lowest mantissa bits of the f32 number 2^23, and
    then 2^23 is subtracted. An epilogue that adds an 8-bit residual took 155 us with this code, and 167 us with
    `cvt`."""
    word, bits = w.words.bytes[x]
    if is_signed:  # flipping the sign bit adds 128, which the bias below subtracts
        word = w.text.here(("flipped", word), lambda: w.let(f"xor i32 {word}, {0x80808080 - (1 << 32)}"))
    selector = 0x7440 + (bits.bit_length() - 1) // 8
    joined = w.intrinsic("llvm.nvvm.prmt", "i32", [("i32", v) for v in (word, str(0x4B000000), str(selector))])
    bias = float_constant(-(2.0**23 + (128 if is_signed else 0)), "float")
    return w.let(f"fadd float {w.let(f'bitcast i32 {joined} to float')}, {bias}")


@rule("asm")
def _asm(w: Writer, op: Op) -> None:
    """Emits the user's asm text once for each element. LLVM keeps the asm in order with other operations that have
    effects."""
    types = op.attrs["types"]
    places = {f"d{i}" if len(types) > 1 else "d": f"${i}" for i in range(len(types))}
    places |= {str(i): f"${len(types) + i}" for i in range(len(op.operands))}
    text = op.attrs["text"].replace("$", "$$")
    for name, place in places.items():
        text = text.replace("{" + name + "}", place)
    text = text.replace("\\", "\\5C").replace('"', "\\22")
    outs = [_carrier(w, t) for t in types]
    ins = [_carrier(w, o.dtype) for o in op.operands]
    constraints = ",".join(["=" + c for _, c in outs] + [c for _, c in ins] + ["~{memory}"])
    result = outs[0][0] if len(outs) == 1 else "{" + ", ".join(t for t, _ in outs) + "}"
    count = count_of(op.results[0])
    registers: list[list[str]] = [[] for _ in types]
    for i in range(count):
        arguments = []
        for o, (carrier, _) in zip(op.operands, ins, strict=True):
            arguments.append(f"{carrier} {into_carrier(w.text, w.registers[o][i], o.dtype, carrier)}")
        value = w.let(f'call {result} asm sideeffect "{text}", "{constraints}"({", ".join(arguments)})')
        for k, (dtype, (carrier, _)) in enumerate(zip(types, outs, strict=True)):
            part = value if len(types) == 1 else w.let(f"extractvalue {result} {value}, {k}")
            registers[k].append(from_carrier(w.text, part, dtype, carrier))
    for r, names in zip(op.results, registers, strict=True):
        w.registers[r] = names


def _carrier(w: Writer, dtype: DType) -> tuple[str, str]:
    """Returns the LLVM type and the constraint letter for an operand of the user's asm."""
    if dtype is I1:
        return "i1", "b"
    bits = w.bits(dtype)
    if dtype.is_float and bits >= 32:
        return dtype.llvm, {32: "f", 64: "d"}[bits]
    return {8: ("i16", "h"), 16: ("i16", "h"), 32: ("i32", "r"), 64: ("i64", "l")}[bits]
