"""Pairs of 16-bit elements that stay in one register."""

from __future__ import annotations

from lowering.emit.access import pack, unpack
from lowering.emit.rules import RULES, count_of, rule, wanted
from lowering.emit.writer import Writer
from lowering.ir import Op
from lowering.types import BF16, F16

_plain_select = RULES["select"]


@rule("select")
def _select_pairs(w: Writer, op: Op) -> None:
    """Pairs of 16 bits that two bytes of a word choose, being zero or not, are masked as words."""
    flags, a, b = (w.registers[o] for o in op.operands)
    out = [""] * count_of(op.result)
    left = wanted(w, op.result, len(out))
    pairs = [i for i in left if i % 2 == 0 and _neighbours(w, flags[i : i + 2])]
    if op.result.dtype not in (F16, BF16) or {*pairs, *(i + 1 for i in pairs)} != set(left):
        _plain_select(w, op)
        return
    for i in pairs:
        word, bits, nonzero = w.byte_flags[flags[i]]
        mask = _spread(w, word, bits, op)
        chosen, other = (pack(w, x[i : i + 2], op.result.dtype)[0] for x in ((a, b) if nonzero else (b, a)))
        taken = w.let(f"and i32 {chosen}, {mask}")
        rest = w.let(f"and i32 {other}, {w.let(f'xor i32 {mask}, -1')}")
        made = w.let(f"or i32 {taken}, {rest}")
        out[i : i + 2] = unpack(w, [made], op.result.dtype, 2)
    w.registers[op.result] = out


def _neighbours(w: Writer, flags: list[str]) -> bool:
    """True if these are comparisons of bytes 0 and 1, or 2 and 3, of one word with zero, for one answer."""
    if len(flags) != 2 or any(flag not in w.byte_flags for flag in flags):
        return False
    (word, low, nonzero), (same, high, too) = (w.byte_flags[flag] for flag in flags)
    return word == same and nonzero == too and low in (0xFF, 0xFF0000) and high == low << 8


def _spread(w: Writer, word: str, low: int, op: Op) -> str:
    """16 bits of ones for each of two bytes of a word that is not zero: `low` are the bits of the first.

    The sum has the upper bit of each byte if any other bit is set; `prmt` repeats the upper bits of bytes.
    """
    upper = w.here(("upper bits", word), lambda: _upper_bits(w, word))
    return w.template("prmt.b32", [upper, "0", str(0x9988 if low == 0xFF else 0xBBAA)], op)[0]


def _upper_bits(w: Writer, word: str) -> str:
    others = w.let(f"add i32 {w.let(f'and i32 {word}, {0x7F7F7F7F}')}, {0x7F7F7F7F}")
    return w.let(f"or i32 {others}, {word}")


_plain_extreme = RULES["maximum"]


@rule("minimum", "maximum")
def _extreme_of_pairs(w: Writer, op: Op) -> None:
    """Of pairs of 16 bits at once."""
    result, llvm = op.result, w.llvm(op.result.dtype)
    a, b = (w.registers[o] for o in op.operands)
    out = [""] * count_of(result)
    left = wanted(w, result, len(out))
    pairs = [i for i in left if i % 2 == 0 and any(tuple(x[i : i + 2]) in w.packed for x in (a, b))]
    if result.dtype not in (F16, BF16) or {*pairs, *(i + 1 for i in pairs)} != set(left):
        _plain_extreme(w, op)
        return
    name, pair = f"llvm.{op.name}.v2{result.dtype}", f"<2 x {llvm}>"
    for i in pairs:
        both = [(pair, w.let(f"bitcast i32 {pack(w, x[i : i + 2], result.dtype)[0]} to {pair}")) for x in (a, b)]
        made = w.let(f"bitcast {pair} {w.intrinsic(name, pair, both)} to i32")
        out[i : i + 2] = unpack(w, [made], result.dtype, 2)
    w.registers[result] = out
