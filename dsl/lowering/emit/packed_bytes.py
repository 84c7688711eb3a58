"""Converts bytes to f16 and bf16, two at a time.

`prmt` puts two bytes of a word into the halves of a register, in front of constant bits. The bits are chosen such that
one packed operation gives both results, exactly. For a word, which is four bytes, these are the machine instructions
of sm_90 (of e4m3, where the pairs are bytes 0 and 1 and bytes 2 and 3 | bytes 0 and 2 and bytes 1 and 3):

        s8       u8       e4m3     e5m2
f16     5        4        2 | 3    2
bf16    7        6        8 | 9    8

One byte at a time, a word of s8 takes 6, of which 4 are `I2F`, with a quarter of the throughput.
"""

from __future__ import annotations

from collections.abc import Callable

from dsl.lowering.emit.constants import float_constant
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Op
from dsl.lowering.ir.types import BF16, F16, DType

ALL_BYTES = 0x01010101
SIGNS = 0x80808080
UPPER_F16 = 0x64
"""The upper byte of 1024 in f16, whose lower byte counts ones."""

_Pair = Callable[[Writer, Op, str, int, int], str]
"""Emits the word with the results of two bytes of a word. The last arguments are the numbers of the bytes."""


def converts_pairs(source: DType, to: DType) -> bool:
    """Whether pairs of bytes of this type can be converted at once."""
    return (source.name, to.name) in _CONVERSIONS


def in_words(w: Writer, pair: list[str]) -> bool:
    """Whether it is known which words contain these bytes."""
    return all(x in w.words.bytes for x in pair)


def convert_pair(w: Writer, op: Op, pair: list[str]) -> str:
    """Emits the conversion of two bytes of known words, and returns the word with both results."""
    (word, low), (other, high) = (_place(w, x) for x in pair)
    if word != other:
        word, low, high = _joined(w, word, other, low, high), 0, 1
    return _CONVERSIONS[op.operands[0].dtype.name, op.attrs["to"].name](w, op, word, low, high)


def _place(w: Writer, x: str) -> tuple[str, int]:
    """Returns the word of a byte, and the number of the byte in it."""
    word, bits = w.words.bytes[x]
    return word, (bits.bit_length() - 1) // 8


def _prmt(w: Writer, word: str, other: int | str, selector: int) -> str:
    return w.intrinsic("llvm.nvvm.prmt", "i32", [("i32", v) for v in (word, str(other), str(selector))])


def _joined(w: Writer, word: str, other: str, low: int, high: int) -> str:
    return w.text.here(("joined bytes", word, other, low, high), lambda: _prmt(w, word, other, low | (4 + high) << 4))


def _above_1024(w: Writer, word: str, low: int, high: int) -> str:
    """Returns 1024 plus each byte, in f16."""
    return _prmt(w, word, UPPER_F16 * ALL_BYTES, 0x4040 | low | high << 8)


def _flipped(w: Writer, word: str) -> str:
    """Returns the word with the other sign bits. As unsigned numbers, its bytes are the signed ones plus 128."""
    return w.text.here(("flipped", word), lambda: w.let(f"xor i32 {word}, {SIGNS - (1 << 32)}"))


def _vector(w: Writer, word: str, element: str) -> str:
    return w.let(f"bitcast i32 {word} to <2 x {element}>")


def _word(w: Writer, vector: str, element: str) -> str:
    return w.let(f"bitcast <2 x {element}> {vector} to i32")


def _twice(number: float, element: str) -> str:
    constant = float_constant(number, element)
    return f"<{element} {constant}, {element} {constant}>"


def _f16_of_s8(w: Writer, op: Op, word: str, low: int, high: int) -> str:
    return _f16_above(w, _above_1024(w, _flipped(w, word), low, high), 1024.0 + 128.0)


def _f16_of_u8(w: Writer, op: Op, word: str, low: int, high: int) -> str:
    return _f16_above(w, _above_1024(w, word, low, high), 1024.0)


def _f16_above(w: Writer, word: str, number: float) -> str:
    """Subtracts a number from both halves."""
    return _word(w, w.let(f"fadd <2 x half> {_vector(w, word, 'half')}, {_twice(-number, 'half')}"), "half")


def _fma(w: Writer, a: str, factor: float, c: float) -> str:
    """Emits a · factor + c. Targets before sm_90 have no other packed operation of bf16."""
    pair = "<2 x bfloat>"
    constants = [(pair, _twice(number, "bfloat")) for number in (factor, c or -0.0)]
    return w.intrinsic("llvm.fma.v2bf16", pair, [(pair, a), *constants])


def _bf16_of_s8(w: Writer, op: Op, word: str, low: int, high: int) -> str:
    return _bf16_of_byte(w, _flipped(w, word), low, high, 128.0)


def _bf16_of_u8(w: Writer, op: Op, word: str, low: int, high: int) -> str:
    return _bf16_of_byte(w, word, low, high, 0.0)


def _bf16_of_byte(w: Writer, word: str, low: int, high: int, bias: float) -> str:
    """Returns the two bytes minus `bias`, which is 0 or 128.

    bf16 has 8 bits for a number, so no number plus a byte is exact. But a byte is a number of bf16 as it is: byte ·
    2^-133. The 128 lowest of them are subnormal. The factor 2^133 takes two steps. Constants in front of the bytes, as
    for f16, would take two more instructions for a pair, to separate the highest bits, and moves of constants: a tile
    of 128 keys and 128 values took 1022 instructions in place of 844.
    """
    bits = _vector(w, _prmt(w, word, "0", 0x4040 | low | high << 8), "bfloat")
    part = _fma(w, bits, 2.0**127, -bias / 64.0)
    return _word(w, _fma(w, part, 64.0, 0.0), "bfloat")


_ALTERNATING = 0x3120
"""A selector of `prmt` that exchanges bytes 1 and 2."""
_HALVES = {(0, 1): (None, 0), (2, 3): (None, 1), (0, 2): (_ALTERNATING, 0), (1, 3): (_ALTERNATING, 1)}
"""Maps two bytes of a word to the selector that makes them neighbours, and to the half in which they then lie. The
instruction takes either half of a register, so one `prmt` serves both pairs of a word."""


def _ordered(w: Writer, word: str, order: int) -> str:
    return w.text.here(("bytes", word, order), lambda: _prmt(w, word, "0", order))


def _f16_of_e4m3(w: Writer, op: Op, word: str, low: int, high: int) -> str:
    order, half = _HALVES.get((low, high), (low | high << 4, 0))
    if order is not None:
        word = _ordered(w, word, order)
    if half:
        word = w.let(f"lshr i32 {word}, 16")
    return w.template("cvt.rn.f16x2.e4m3x2", [w.let(f"trunc i32 {word} to i16")], op)[0]


def _f16_of_e5m2(w: Writer, op: Op, word: str, low: int, high: int) -> str:
    return _prmt(w, word, "0", 0x0404 | low << 4 | high << 12)  # a number of e5m2 is the upper byte of one of f16


def _bf16_of(through: _Pair) -> _Pair:
    def convert(w: Writer, op: Op, word: str, low: int, high: int) -> str:
        wide = w.let(f"fpext <2 x half> {_vector(w, through(w, op, word, low, high), 'half')} to <2 x float>")
        return _word(w, w.let(f"fptrunc <2 x float> {wide} to <2 x bfloat>"), "bfloat")

    return convert


_CONVERSIONS: dict[tuple[str, str], _Pair] = {
    ("s8", F16.name): _f16_of_s8,
    ("u8", F16.name): _f16_of_u8,
    ("e4m3", F16.name): _f16_of_e4m3,
    ("e5m2", F16.name): _f16_of_e5m2,
    ("s8", BF16.name): _bf16_of_s8,
    ("u8", BF16.name): _bf16_of_u8,
    ("e4m3", BF16.name): _bf16_of(_f16_of_e4m3),
    ("e5m2", BF16.name): _bf16_of(_f16_of_e5m2),
}
