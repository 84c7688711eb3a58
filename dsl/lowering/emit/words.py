"""Stores the LLVM registers of values. A value has one register for each element, or 32-bit words that contain several
small elements."""

from __future__ import annotations

from dsl.lowering.emit.carriers import from_carrier, into_carrier
from dsl.lowering.emit.text import Text
from dsl.lowering.ir.function import Value
from dsl.lowering.ir.types import I1, DType
from dsl.lowering.layouts.layout import Layout


def layout_of(value: Value) -> Layout:
    """Returns the layout of a tile, which must have one."""
    layout = value.tile.layout
    assert layout is not None
    return layout


def count_of(value: Value) -> int:
    """Returns how many elements of a tile each thread holds, or 1 for a scalar."""
    layout = value.tile.layout
    return 1 if layout is None else layout.count


class Registers(dict[Value, list[str]]):
    """Maps a value to the LLVM names of its elements in this thread. A value in words is unpacked at each use, because
    unpacked elements must dominate their uses, and the uses may be in any block."""

    def __init__(self, words: Words):
        super().__init__()
        self._words = words

    def __missing__(self, value: Value) -> list[str]:
        return self._words.unpack(self._words.held[value], value.dtype, count_of(value))


class Words:
    """Records which 32-bit words contain which elements.

    `registers`: maps values to the registers of their elements.
    `held`: maps values to words, for operands and results of matrix instructions.
    `packed`: maps elements to the word from which they were unpacked.
    `halves`: maps two adjacent bytes to (their word, the bit position of the first byte).
    `bytes`: maps a byte to (its word, a mask of its bits).
    `bf16`: maps a bf16 to (its word, whether it is the upper half).
    `byte_flags`: maps a comparison of a byte with zero to (the byte's word, a mask of its bits, whether the comparison
        is !=).
    """

    def __init__(self, text: Text):
        self.text = text
        self.registers = Registers(self)
        self.held: dict[Value, list[str]] = {}
        self.packed: dict[tuple[str, ...], str] = {}
        self.halves: dict[tuple[str, ...], tuple[str, int]] = {}
        self.bytes: dict[str, tuple[str, int]] = {}
        self.bf16: dict[str, tuple[str, bool]] = {}
        self.byte_flags: dict[str, tuple[str, int, bool]] = {}

    def of(self, value: Value) -> list[str]:
        """Returns the registers that hold a value's elements, packed by `pack` into words of mostly 32 bits. The first
        elements are in the lowest bits."""
        known = self.held.get(value)
        return known if known is not None else self.pack(self.registers[value], value.dtype)

    def pack(self, elements: list[str], dtype: DType) -> list[str]:
        """Packs elements into the registers of a memory access: b64 for 64-bit elements, b16 for at most 16 bits in
        total, otherwise b32."""
        text, let = self.text, self.text.let
        llvm, bits = text.llvm(dtype), max(text.bits(dtype), 8)
        if dtype is I1:
            elements, llvm = [let(f"zext i1 {e} to i8") for e in elements], "i8"
        total = bits * len(elements)
        if total <= 16:
            if len(elements) == 1:
                (only,) = elements
                return [into_carrier(text, only, dtype, "i16") if llvm != "i8" else let(f"zext i8 {only} to i16")]
            whole, below = self.halves.get(tuple(elements), ("", 0))
            # Without `halves`, an epilogue that stores two bytes per thread would take 2 more instructions per byte.
            if whole:
                return [let(f"trunc i32 {let(f'lshr i32 {whole}, {below}') if below else whole} to i16")]
            return [let(f"bitcast <2 x i8> {self._vector(elements, 'i8')} to i16")]
        if bits >= 32:
            return [e if llvm == f"i{bits}" else let(f"bitcast {llvm} {e} to i{bits}") for e in elements]
        per = 32 // bits
        out = []
        for i in range(0, len(elements), per):
            chunk = elements[i : i + per]
            word = self.packed.get(tuple(chunk))
            out.append(word or let(f"bitcast <{per} x {llvm}> {self._vector(chunk, llvm)} to i32"))
        return out

    def _vector(self, elements: list[str], llvm: str) -> str:
        if all(not e.startswith("%") for e in elements):
            return "<" + ", ".join(f"{llvm} {e}" for e in elements) + ">"
        made = "poison"
        for i, e in enumerate(elements):
            made = self.text.let(f"insertelement <{len(elements)} x {llvm}> {made}, {llvm} {e}, i32 {i}")
        return made

    def unpack(self, registers: list[str], dtype: DType, count: int) -> list[str]:
        """Unpacks `count` elements from the registers of a memory access."""
        text, let = self.text, self.text.let
        llvm, bits = text.llvm(dtype), max(text.bits(dtype), 8)
        narrow = "i8" if dtype is I1 else llvm
        if bits * count <= 16:
            if count == 1:
                raw = registers[0]
                out = [let(f"trunc i16 {raw} to i8") if bits == 8 else from_carrier(text, raw, dtype, "i16")]
            else:
                pair = let(f"bitcast i16 {registers[0]} to <2 x i8>")
                out = [let(f"extractelement <2 x i8> {pair}, i32 {k}") for k in (0, 1)]
        elif bits >= 32:
            out = [r if llvm == f"i{bits}" else let(f"bitcast i{bits} {r} to {llvm}") for r in registers]
        else:
            per = 32 // bits
            out = []
            for r in registers:
                out += self.apart(r, narrow, bits)
                if bits == 8:
                    self.bytes.update({e: (r, 0xFF << 8 * k) for k, e in enumerate(out[-per:])})
        if dtype is I1:
            out = [let(f"icmp ne i8 {e}, 0") for e in out]
        return out

    def apart(self, word: str, llvm: str, bits: int = 8) -> list[str]:
        """Extracts the elements of a word. If `pack` later receives all of them together, it returns the same word."""
        count = 32 // bits
        many = self.text.let(f"bitcast i32 {word} to <{count} x {llvm}>")
        elements = [self.text.let(f"extractelement <{count} x {llvm}> {many}, i32 {k}") for k in range(count)]
        self.packed[tuple(elements)] = word
        if bits == 8:
            self.halves |= {tuple(elements[k : k + 2]): (word, 8 * k) for k in (0, 2)}
        if llvm == "bfloat":
            self.bf16 |= {element: (word, k == 1) for k, element in enumerate(elements)}
        return elements
