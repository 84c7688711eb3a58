"""Emits MMAs, and the matrix loads and stores (`ldmatrix`, `stmatrix`)."""

from __future__ import annotations

from itertools import chain

from dsl.lowering.emit.rules import rule
from dsl.lowering.emit.shared_address import SharedAddress
from dsl.lowering.emit.words import count_of, layout_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import DType
from dsl.lowering.layouts.layout import Layout, apply
from dsl.lowering.machine.tensor_cores import Mma, accumulator_registers, product
from dsl.lowering.ops import operand, required
from dsl.lowering.shared.shared_map import SharedMap, has_pairs, is_crossed, matrix_registers, word_bits
from dsl.ptx_templates import Operand

MOST = 4  # the maximum number of matrices of an `ldmatrix` or `stmatrix`


def _registers(w: Writer, value: Value, operand: Operand) -> list[str]:
    """Returns the registers of an MMA operand. f32 and f64 need no packing. Elements of other types are packed into
    32-bit words."""
    return w.registers[value] if operand.type in ("f32", "f64") else w.words.of(value)


def _per_register(operand: Operand, dtype: DType) -> int:
    return 1 if operand.type in ("f32", "f64") else 32 // dtype.bits


@rule("dot")
def _dot(w: Writer, op: Op) -> None:
    """Emits the MMAs of a product, or of all products of a batch. Each accumulator sums its products along K in
    order."""
    instruction = op.attrs["instruction"]
    a, b, c = op.operands
    spread = product(instruction, layout_of(op.result), a.tile.shape[-1])
    assert spread is not None and (spread.a, spread.b) == (a.tile.layout, b.tile.layout)
    row = instruction.row
    left, right = _registers(w, a, row["a"]), _registers(w, b, row["b"])
    per, batch = _per_register(row["c"], c.dtype), 1 << len(spread.batch)
    elements = [along for number in range(batch) for along in accumulator_registers(spread, number)]
    # A word of the MMA contains neighbours of the fragment. In the layout, these neighbours may be in any registers.
    # The words of the value are used directly only if the neighbours are aligned.
    aligned = per == 1 or all(_are_words(registers, per) for along in elements for registers in along)
    held = _registers(w, c, row["c"]) if aligned else w.registers[c]

    def given(registers: list[int]) -> list[str]:
        """Returns these accumulator registers, packed as the MMA requires."""
        if aligned:
            return [held[r // per] for r in registers[::per]]
        return w.words.pack([held[r] for r in registers], c.dtype)

    sums = [[given(registers) for registers in along] for along in elements]
    _multiply(w, instruction, a.tile.shape[-1] // instruction.k, batch, left, right, sums)
    out = [""] * (count_of(op.result) // (per if aligned else 1))
    for registers, made in zip(chain(*elements), chain(*sums), strict=True):
        if aligned:
            places = [r // per for r in registers[::per]]
        else:
            places, made = registers, w.words.unpack(made, c.dtype, len(registers))
        for place, register in zip(places, made, strict=True):
            out[place] = register
    (w.words.held if aligned and per > 1 else w.registers)[op.result] = out


def _multiply(
    w: Writer, instruction: Mma, steps: int, batch: int, left: list[str], right: list[str], sums: list[list[list[str]]]
) -> None:
    """Emits one MMA for each step along K, each product of a batch, and each step along M and N. Replaces the
    accumulators in `sums`."""
    row, height, width = instruction.row, len(sums) // batch, len(sums[0])
    size_a, size_b = row["a"].registers, row["b"].registers
    # K is outermost: the MMAs of one step have different accumulators, so no MMA waits for the previous MMA.
    for step in range(steps):
        for at, along in enumerate(sums):
            number, i = divmod(at, height)
            first = number * (len(left) // batch) + (step * height + i) * size_a
            for j in range(width):
                second = number * (len(right) // batch) + (step * width + j) * size_b
                operands = [*left[first : first + size_a], *right[second : second + size_b], *along[j]]
                along[j] = w.calls.asm(row, operands)


def _are_words(registers: list[int], per: int) -> bool:
    """Whether each group of `per` registers holds one whole word, with its elements in order."""
    firsts = registers[::per]
    return all(r % per == 0 for r in firsts) and registers == [r + i for r in firsts for i in range(per)]


@rule("split")
def _split(w: Writer, op: Op) -> None:
    w.words.held[op.result] = w.words.of(op.operands[0])  # only the number of elements per word changes


def _matrices(op: Op, layout: Layout) -> tuple[list[tuple[int, int]], str]:
    """Returns a pair (first register, number of matrices) for each instruction, and the suffix of the instruction's
    name."""
    bits = word_bits(op)
    total = layout.count >> bits
    step = min(total, MOST)
    return [(first << bits, step) for first in range(0, total, step)], ".trans" if op.attrs["trans"] else ""


def _address(w: Writer, op: Op) -> tuple[SharedAddress, SharedMap]:
    """Returns the address of the matrix rows, and its linear map. Raises TileError `ir` if there is no map. The pass
    `lower_matrix_accesses` creates only accesses with a map, so the error occurs only if the IR text was edited
    later."""
    address = SharedAddress(w, op, operand(op, "stage"), w.accesses[op].shared)
    if address.map is None:
        message = f"the rows of {op.name} lie at offsets that no linear map says"
        raise TileError("ir", op.loc, message, "the offsets as 'lower_matrix_accesses' has them")
    return address, address.map


@rule("ldmatrix")
def _ldmatrix(w: Writer, op: Op) -> None:
    address, map = _address(w, op)
    out: list[str] = []
    groups, trans = _matrices(op, layout_of(op.result))
    if has_pairs(op):
        w.words.held[op.result] = _transposed_bytes(w, op, address)
        return
    for first, count in groups:
        place = address.at(apply(map.register, first))
        out += w.template(f"ldmatrix.sync.m8n8.x{count}{trans}.shared.b16", [place], op)
    w.words.held[op.result] = out


EVEN_BYTES, ODD_BYTES = 0x6420, 0x7531
"""Selectors of `prmt`."""
OTHER_WAY = 0x4444
"""Changes a selector so that it exchanges the two operands of `prmt`."""


def _transposed_bytes(w: Writer, op: Op, address: SharedAddress) -> list[str]:
    """Emits a transposed load of bytes, and returns its 32-bit words. The four bytes of a word are in four different
    rows of shared memory.

    `ldmatrix.trans` moves pairs of bytes. A register receives bytes x and x + 1 of the two rows with elements 0 and 1
    of a word. The register of the next matrix receives the same bytes of the rows with elements 2 and 3. In lanes with
    bit 1, it may be the other way around (`is_crossed`). The even bytes of these two registers form the word at x, and
    the odd bytes form the word at x + 1.
    """
    map = address.map
    assert map is not None
    bases = matrix_registers(op, map)
    pair = map.register.index(1)
    total = 1 << len(bases)
    step = min(total, MOST)
    crossed = is_crossed(op, map)
    selectors = [str(EVEN_BYTES), str(ODD_BYTES)]
    if crossed:
        other_way = w.head.linear((0, OTHER_WAY, 0))
        selectors = [w.head.once(f"xor i32 {other_way}, {selector}") for selector in selectors]
    out, elements = [""] * total, [""] * (4 * total)
    for first in range(0, total, step):
        place = address.at(apply(bases, first))
        halves = w.template(f"ldmatrix.sync.m8n8.x{step}.trans.shared.b16", [place], op)
        for i in range(0, step, 2):
            counted = first + i >> 1  # the register bits from 2 on, except bit `pair`
            low = counted & (1 << pair - 2) - 1
            at = (counted ^ low) << 1 | low
            for number, selector in ((at, selectors[0]), (at | 1 << pair - 2, selectors[1])):
                out[number] = w.template("prmt.b32", [halves[i], halves[i + 1], selector], op)[0]
            if not crossed:
                _note_pairs(w, halves[i : i + 2], out, elements, (at, at | 1 << pair - 2))
    if not crossed:
        w.registers[op.result] = elements
    return out


def _note_pairs(w: Writer, halves: list[str], out: list[str], elements: list[str], numbers: tuple[int, int]) -> None:
    """Takes the elements of two words from the registers of `ldmatrix`. Conversions of bytes need no others: LLVM drops
    words that nothing reads."""
    of = [w.words.apart(half, "i8") for half in halves]
    for odd, number in enumerate(numbers):
        mine = [of[0][odd], of[0][2 + odd], of[1][odd], of[1][2 + odd]]
        elements[4 * number : 4 * number + 4] = mine
        w.words.packed[tuple(mine)] = out[number]
        for i, element in enumerate(mine):
            w.words.bytes[element] = halves[i // 2], 0xFF << 8 * (2 * (i % 2) + odd)


@rule("stmatrix")
def _stmatrix(w: Writer, op: Op) -> None:
    value = required(op, "value")
    address, map = _address(w, op)
    data, bits = w.words.of(value), word_bits(op)
    groups, trans = _matrices(op, layout_of(value))
    for first, count in groups:
        place = address.at(apply(map.register, first))
        moved = data[first >> bits : (first >> bits) + count]
        w.template(f"stmatrix.sync.m8n8.x{count}{trans}.shared.b16", [place, *moved], op)
