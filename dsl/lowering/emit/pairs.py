"""Emits operations on pairs of 16-bit elements. A pair stays in one 32-bit register."""

from __future__ import annotations

from collections.abc import Callable

from dsl.lowering.emit.words import count_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Op
from dsl.lowering.ir.types import BF16, F16


def _in_pairs(w: Writer, op: Op, is_pair: Callable[[int], bool], word_of: Callable[[int], str]) -> bool:
    """Emits an operation as one 32-bit word for each pair of elements. `word_of(i)` emits the word of the elements in
    registers i and i + 1. Emits nothing and returns False if some needed elements form no pair."""
    dtype, out = op.result.dtype, [""] * count_of(op.result)
    left = w.needed.of(op.result, len(out))
    pairs = [i for i in left if i % 2 == 0 and is_pair(i)]
    if dtype not in (F16, BF16) or {*pairs, *(i + 1 for i in pairs)} != set(left):
        return False
    if not pairs or not w.switches.of(op, "pairs", {"pairs": True, "single": False}, "neighbours lie in one word"):
        return False
    for i in pairs:
        out[i : i + 2] = w.words.unpack([word_of(i)], dtype, 2)
    w.registers[op.result] = out
    return True


def select_in_pairs(w: Writer, op: Op) -> bool:
    """Emits a `select` on 16-bit pairs. The two conditions of a pair must compare two bytes of a word with zero. They
    become one bit mask."""
    flags, a, b = (w.registers[o] for o in op.operands)

    def word_of(i: int) -> str:
        word, bits, nonzero = w.words.byte_flags[flags[i]]
        mask = _spread(w, word, bits, op)
        chosen, other = (w.words.pack(x[i : i + 2], op.result.dtype)[0] for x in ((a, b) if nonzero else (b, a)))
        taken = w.let(f"and i32 {chosen}, {mask}")
        rest = w.let(f"and i32 {other}, {w.let(f'xor i32 {mask}, -1')}")
        return w.let(f"or i32 {taken}, {rest}")

    return _in_pairs(w, op, lambda i: _neighbours(w, flags[i : i + 2]), word_of)


def extreme_in_pairs(w: Writer, op: Op) -> bool:
    """Emits the minimum or maximum of pairs of 16-bit elements. At least one operand must already contain the pair in
    one word."""
    a, b = (w.registers[o] for o in op.operands)
    name, pair = f"llvm.{op.name}.v2{op.result.dtype}", f"<2 x {w.llvm(op.result.dtype)}>"

    def word_of(i: int) -> str:
        packed = [w.words.pack(x[i : i + 2], op.result.dtype)[0] for x in (a, b)]
        both = [(pair, w.let(f"bitcast i32 {word} to {pair}")) for word in packed]
        return w.let(f"bitcast {pair} {w.intrinsic(name, pair, both)} to i32")

    return _in_pairs(w, op, lambda i: any(tuple(x[i : i + 2]) in w.words.packed for x in (a, b)), word_of)


def _neighbours(w: Writer, flags: list[str]) -> bool:
    """Whether two flags result from the same comparison with zero: for bytes 0 and 1 of a word, or for bytes 2 and
    3."""
    if len(flags) != 2 or any(flag not in w.words.byte_flags for flag in flags):
        return False
    (word, low, nonzero), (same, high, too) = (w.words.byte_flags[flag] for flag in flags)
    return word == same and nonzero == too and low in (0xFF, 0xFF0000) and high == low << 8


def _spread(w: Writer, word: str, low: int, op: Op) -> str:
    """Returns a 32-bit mask for two bytes of a word. A half of the mask is 0xFFFF if its byte is not zero, and
    otherwise 0. `low` is the bit mask of the first byte.

    Adding 0x7F to the low seven bits of a byte sets its highest bit, unless these bits are all 0. `prmt` then copies
    the highest bit of each byte to its whole half.
    """
    upper = w.text.here(("upper bits", word), lambda: _upper_bits(w, word))
    return w.template("prmt.b32", [upper, "0", str(0x9988 if low == 0xFF else 0xBBAA)], op)[0]


def _upper_bits(w: Writer, word: str) -> str:
    others = w.let(f"add i32 {w.let(f'and i32 {word}, {0x7F7F7F7F}')}, {0x7F7F7F7F}")
    return w.let(f"or i32 {others}, {word}")
