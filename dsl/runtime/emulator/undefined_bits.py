"""Computes which bits of a result are undefined, from the undefined bits of the operands. A function that computes this
for one instruction is a *transfer*.

Compilers put a value into a part of a register and leave the rest undefined. The part may be a word of a pair, a half
of a register, or the bits that a mask keeps. So each bit is tracked separately:

- Moves, selections, logic, shifts, bit fields, byte permutations and integer conversions are tracked exactly.
- A bit of a sum is undefined if an operand's bit or the carry into the bit is undefined.
- In products all bits from the lowest undefined bit on are undefined.
- Comparisons, minima and maxima are defined if the result is the same for all values of the undefined bits.
- Otherwise an undefined bit of any operand makes the whole result undefined.

An undefined bit that occurs in two operands counts as two independent bits. But logic instructions and `sub` treat
equal registers as one value: `xor r, r` is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, reduce
from operator import or_
from typing import Any

import numpy as np

from . import integers
from .code import DTYPES, PACKED, Values
from .instructions.integer import COMPUTED
from .reader import Float, Integer, Not, Operand, PtxInstruction, Register, Vector
from .step import RegisterStep

Bits = np.uint64
ALL = (1 << 64) - 1
Masks = dict[str, Any]  # the undefined bits of each destination; the key "" is for all other destinations
MaskOf = Callable[[str], Any]  # the undefined bits of a register for the threads of the group
Transfer = Callable[[Values, MaskOf], Masks]
Source = Callable[[Values, MaskOf], tuple[Any, Any]]  # an operand's bits, and a mask of the undefined ones
# Truth tables, as in lop3. The result for the operand bits a, b, c is bit 4a + 2b + c of the table. For two operands it
# is bit 2a + b, and for one operand bit a.
AND, OR, XOR, NOT, SELECT = 0b1000, 0b1110, 0b0110, 0b01, 0b11100100


def ones(width: int) -> int:
    return (1 << min(width, 64)) - 1


def width_of(type_name: str) -> int:
    if type_name == "pred":
        return 1
    return 32 if type_name in PACKED else 8 * np.dtype(DTYPES[type_name]).itemsize if type_name in DTYPES else 64


def is_integer(type_name: str) -> bool:
    return type_name in DTYPES and type_name[0] in "bsu" and type_name != "bf16"


def name_of(operand: Operand) -> str:
    if isinstance(operand, Not):
        operand = operand.operand
    return operand.name if isinstance(operand, Register) else ""


def transfer(step: RegisterStep) -> Transfer:
    """Returns a function that computes the undefined bits of an instruction's results. The instruction must have no
    effect except on registers."""
    row = ROWS.get(step.ins.opcode[0])
    if row is None and step.ins.opcode[-1] in PACKED:
        row = halves
    found = None if row is None else row(step)
    return whole(step) if found is None else found


# Operands


def bits_of(values: Any) -> Any:
    """Returns the bits of a frame entry, as a 64-bit word for each lane."""
    if values.dtype == np.bool_:
        return values.astype(Bits)
    values = np.ascontiguousarray(values)
    if values.ndim == 2:
        return values.view(np.uint32)[:, 0].astype(Bits)
    return values.view(f"u{values.dtype.itemsize}").astype(Bits)


def extended(bits: Any, width: int, signed: bool) -> Any:
    """Extends the low `width` bits to 64, with zeros or with copies of the sign bit. For a mask of undefined bits, the
    result is the mask of the extended value."""
    bits = bits & Bits(ones(width))
    if signed and width < 64:
        bits = bits | (Bits(0) - (bits >> Bits(width - 1))) << Bits(width)
    return bits


def source(step: RegisterStep, operand: Operand, width: int) -> Source | None:
    """Returns a function that returns an operand's value and its undefined bits. Returns None if the value cannot be
    read here."""
    cut = Bits(ones(width))
    if isinstance(operand, Not):
        inner = source(step, operand.operand, width)
        if inner is None:
            return None
        take = inner

        def complement(v: Values, of: MaskOf) -> tuple[Any, Any]:
            value, mask = take(v, of)
            return ~value & cut, mask

        return complement
    fixed = None
    if isinstance(operand, Integer):
        fixed = operand.value
    elif isinstance(operand, Float) and operand.width == width:
        fixed = operand.bits
    elif isinstance(operand, Register) and operand.name in step.known:
        fixed = step.known[operand.name]
    name = name_of(operand)
    if fixed is not None:
        constant = np.array([fixed & int(cut)], Bits)
        return lambda v, of: (constant, of(name) & cut)
    if name not in step.entries:
        return None
    entry = step.entries[name]
    return lambda v, of: (bits_of(v[entry]) & cut, of(name) & cut)


def sources(step: RegisterStep, operands: tuple[Operand, ...], *widths: int) -> list[Source] | None:
    found = [source(step, operand, width) for operand, width in zip(operands, widths, strict=True)]
    return [each for each in found if each is not None] if None not in found else None


def mask_source(operand: Operand, width: int) -> Callable[[MaskOf], Any]:
    """Returns a function that returns only the undefined bits of an operand, and not its value."""
    name, cut = name_of(operand), Bits(ones(width))
    return lambda of: of(name) & cut


def union(masks: Iterable[Any]) -> Any:
    return reduce(or_, masks, Bits(0))


def if_any(mask: Any, bits: int = ALL) -> Any:
    return np.where(mask != 0, Bits(bits), Bits(0))


# Instructions


def whole(step: RegisterStep, width: int = 64) -> Transfer:
    """Returns a transfer for which any undefined bit of an operand makes the whole result undefined."""
    names, cut = tuple(dict.fromkeys(step.uses)), Bits(ones(width))
    return lambda v, of: {"": if_any(union(of(name) & cut for name in names))}


def moved(step: RegisterStep) -> Transfer | None:
    ins = step.ins
    to, given = ins.operands[:2]
    width = width_of(ins.opcode[-1])
    if len(ins.opcode) != 2:
        return None
    if isinstance(given, Vector) and not isinstance(to, Vector):
        part = width // len(given.items)
        parts = [(mask_source(item, part), Bits(part * place)) for place, item in enumerate(given.items)]
        return lambda v, of: {"": union(take(of) << shift for take, shift in parts)}
    take = mask_source(given, width)
    if isinstance(to, Vector):
        part = width // len(to.items)
        wanted = [(name_of(item), Bits(part * place)) for place, item in enumerate(to.items)]
        return lambda v, of: {name: take(of) >> shift & Bits(ones(part)) for name, shift in wanted}
    return lambda v, of: {"": take(of)}


def passed(step: RegisterStep) -> Transfer | None:
    """Returns the transfer of a load or store by which a call passes a value. Its memory location is tracked like a
    register."""
    opcode = step.ins.opcode
    if any(word in opcode for word in ("v2", "v4", "v8")):
        return None
    width, name = width_of(opcode[-1]), step.uses[0]
    signed = opcode[0] == "ld" and opcode[-1][0] == "s"
    return lambda v, of: {"": extended(of(name), width, signed)}


def logical(step: RegisterStep) -> Transfer | None:
    ins = step.ins
    width = width_of(ins.opcode[-1])
    if ins.opcode[0] != "lop3":
        table = {"and": AND, "or": OR, "xor": XOR, "not": NOT}[ins.opcode[0]]
        return by_table(table, ins.operands[1:], sources(step, ins.operands[1:], *[width] * (len(ins.operands) - 1)))
    if len(ins.operands) != 5 or not isinstance(ins.operands[4], Integer):
        return None
    given = ins.operands[1:4]
    return by_table(ins.operands[4].value, given, sources(step, given, 32, 32, 32))


def by_table(table: int, operands: tuple[Operand, ...], given: list[Source] | None) -> Transfer | None:
    """Returns a transfer by a truth table. A result bit is undefined if the possible operand bits give both 0 and 1."""
    if given is None:
        return None
    count = len(operands)
    lines = []
    for line in range(1 << count):
        bits = tuple(line >> count - 1 - place & 1 for place in range(count))
        chosen: dict[Operand, int] = {}
        # If two operands are the same register, they have the same value: `xor r, r` is 0, whatever r is.
        if all(chosen.setdefault(operand, bit) == bit for operand, bit in zip(operands, bits, strict=True)):
            lines.append((bits, table >> line & 1))

    def run(v: Values, of: MaskOf) -> Masks:
        read = [take(v, of) for take in given]
        can_be = [(~value | mask, value | mask) for value, mask in read]
        results = [Bits(0), Bits(0)]
        for bits, result in lines:
            possible = Bits(ALL)
            for either, bit in zip(can_be, bits, strict=True):
                possible = possible & either[bit]
            results[result] = results[result] | possible
        return {"": results[0] & results[1]}

    return run


def selected(step: RegisterStep) -> Transfer | None:
    operands = step.ins.operands[1:4]
    width = width_of(step.ins.opcode[-1])
    given = sources(step, operands, width, width, 1)
    if given is None:
        return None
    first, second, predicate = given

    def everywhere(v: Values, of: MaskOf) -> tuple[Any, Any]:
        value, mask = predicate(v, of)
        return Bits(0) - value, Bits(0) - mask

    return by_table(SELECT, operands, [first, second, everywhere])


def rearranged(step: RegisterStep) -> Transfer | None:
    """Returns the transfer of an instruction that moves bits, such as `shl`. If the operands that state how to move
    them are defined, the undefined bits move in the same way."""
    ins = step.ins
    root, type_name = ins.opcode[0], ins.opcode[-1]
    if type_name in PACKED:
        return None
    width = 32 if root in {"prmt", "shf"} else width_of(type_name)
    data, more = {"brev": (1, 0), "shl": (1, 1), "shr": (1, 1), "bfe": (1, 2), "szext": (1, 1)}.get(root, (2, 1))
    if root == "bfi":
        more = 2
    given = sources(step, ins.operands[1:], *[width] * data, *[32] * more)
    if given is None:
        return None
    shifts = {"shl": integers.shl, "shr": integers.shr}
    function = partial(shifts[root], dtype=type_name) if root in shifts else COMPUTED[root][2](ins.opcode)

    def run(v: Values, of: MaskOf) -> Masks:
        read = [take(v, of) for take in given]
        masks = [np.atleast_1d(mask).astype(f"u{width // 8}") for _, mask in read[:data]]
        how = [value.astype(np.uint32) for value, _ in read[data:]]
        return {"": function(*masks, *how).astype(Bits) | if_any(union(mask for _, mask in read[data:]))}

    return run


def converted(step: RegisterStep) -> Transfer | None:
    ins = step.ins
    result, given = ins.opcode[-2], ins.opcode[-1]
    if "pack" in ins.opcode:
        return None
    if result.endswith("x2"):
        return converted_pair(step, result, given)
    width = width_of(given)
    if not (is_integer(result) and is_integer(given)) or "sat" in ins.opcode:
        return whole(step, width)
    take, narrow = mask_source(ins.operands[1], width), width_of(result)

    def run(v: Values, of: MaskOf) -> Masks:
        mask = extended(take(of), width, given[0] == "s")
        return {"": extended(mask, narrow, result[0] == "s")}

    return run


def converted_pair(step: RegisterStep, result: str, given: str) -> Transfer | None:
    """Returns the transfer of a conversion to two packed values. The source is one register with two packed values, or
    two registers, of which the first gives the upper half."""
    half = 8 if result[0] == "e" else 16
    operands = step.ins.operands[1:]
    if given.endswith("x2"):
        part = 8 if given[0] == "e" else 16
        take = mask_source(operands[0], 2 * part)
        return lambda v, of: {"": by_parts(take(of), part, half)}
    if len(operands) != 2:
        return None
    width = width_of(given)
    upper, lower = (mask_source(operand, width) for operand in operands)
    return lambda v, of: {"": if_any(upper(of), ones(half) << half) | if_any(lower(of), ones(half))}


def by_parts(mask: Any, part: int, to: int) -> Any:
    """Returns the undefined bits of two packed results of `to` bits. Each is undefined if any bit of its part of
    `mask`, `part` bits, is set."""
    return if_any(mask & Bits(ones(part)), ones(to)) | if_any(mask >> Bits(part) & Bits(ones(part)), ones(to) << to)


def halves(step: RegisterStep) -> Transfer:
    """Returns the transfer of arithmetic on two independent 16-bit halves."""
    names = tuple(dict.fromkeys(step.uses))
    return lambda v, of: {"": by_parts(union(map(of, names)), 16, 16)}


def sum_mask(a: tuple[Any, Any], b: tuple[Any, Any], carry: int = 0) -> Any:
    """Returns the undefined bits of a sum. A bit is defined if both operands' bits and the carry into it are defined.
    The carries of the smallest and the largest possible sum show which carries are defined."""
    (x, m), (y, n) = a, b
    least, largest = (x & ~m, y & ~n), (x | m, y | n)
    first = (largest[0] + largest[1] + Bits(carry)) ^ largest[0] ^ largest[1]
    last = (least[0] + least[1] + Bits(carry)) ^ least[0] ^ least[1]
    return m | n | first & ~last


def added(step: RegisterStep) -> Transfer | None:
    ins = step.ins
    root, type_name = ins.opcode[0], ins.opcode[-1]
    if type_name in PACKED:
        return halves(step)
    if not is_integer(type_name) or {"cc", "sat"} & set(ins.opcode):
        return None
    operands = ins.operands[1:]
    # r - r is 0, whatever r is.
    if root == "sub" and operands[0] == operands[1]:
        return lambda v, of: {"": Bits(0)}
    width = width_of(type_name)
    given = sources(step, operands, *[width] * len(operands))
    if given is None:
        return None

    def run(v: Values, of: MaskOf) -> Masks:
        read = [take(v, of) for take in given]
        if root == "add":
            return {"": sum_mask(read[0], read[1])}
        first = read[0] if root == "sub" else (Bits(0), Bits(0))
        value, mask = read[-1]
        return {"": sum_mask(first, (~value, mask), carry=1)}

    return run


def from_lowest(mask: Any) -> Any:
    """Returns a mask of all bits from the lowest set bit of `mask` on."""
    return mask | (Bits(0) - mask)


def multiplied(step: RegisterStep) -> Transfer | None:
    """Returns the transfer of a product. A factor's lowest undefined bit is shifted left by the other factor's number
    of trailing zeros. In the product, this bit and all higher bits are undefined."""
    ins = step.ins
    type_name = ins.opcode[-1]
    if type_name in PACKED:
        return halves(step)
    if not is_integer(type_name) or ins.opcode[1] not in {"lo", "wide"} or "cc" in ins.opcode:
        return None
    width, signed = width_of(type_name), type_name[0] == "s" and ins.opcode[1] == "wide"
    wide = width if ins.opcode[1] == "lo" else 2 * width
    given = sources(step, ins.operands[1:], width, width, *[wide] * (len(ins.operands) - 3))
    if given is None:
        return None

    def run(v: Values, of: MaskOf) -> Masks:
        read = [take(v, of) for take in given]
        (x, m), (y, n) = [tuple(extended(each, width, signed) for each in pair) for pair in read[:2]]
        lowest_x, lowest_y = ((each & (Bits(0) - each)) for each in (x | m, y | n))
        mask = from_lowest(from_lowest(m) * lowest_y | from_lowest(n) * lowest_x)
        return {"": mask if len(read) == 2 else sum_mask((x * y, mask), read[2])}

    return run


Ends = tuple[Any, Any]


def range_of(read: tuple[Any, Any], width: int, signed: bool) -> Ends:
    """Returns the smallest and the largest possible value of an operand. Signed values are converted so that unsigned
    comparison orders them."""
    value, mask = read
    if signed:
        # Signed numbers whose sign bit is flipped sort like unsigned numbers.
        value = value ^ Bits(1 << width - 1)
    return value & ~mask, value | mask


def compared(step: RegisterStep) -> Transfer | None:
    ins = step.ins
    opcode, type_name = ins.opcode, ins.opcode[-1]
    if not is_integer(type_name) or type_name in PACKED or len(ins.operands) != 3:
        return None
    width, relation = width_of(type_name), integers.UNSIGNED_ORDER.get(opcode[1], opcode[1])
    signed = type_name[0] == "s" and opcode[1] == relation
    given = sources(step, ins.operands[1:], width, width)
    if given is None or relation not in {"eq", "ne", "lt", "le", "gt", "ge"}:
        return None

    def run(v: Values, of: MaskOf) -> Masks:
        a, b = (take(v, of) for take in given)
        unsure = a[1] | b[1]
        if relation in {"eq", "ne"}:
            differ = (a[0] ^ b[0]) & ~unsure
            return {"": if_any(np.where(differ != 0, Bits(0), unsure))}
        low, high = (a, b) if relation in {"lt", "ge"} else (b, a)
        first, second = range_of(low, width, signed), range_of(high, width, signed)
        always, never = first[1] < second[0], first[0] >= second[1]  # low < high
        return {"": if_any(np.where(always | never, Bits(0), unsure))}

    return run


def extreme(step: RegisterStep) -> Transfer | None:
    ins = step.ins
    type_name = ins.opcode[-1]
    if type_name in PACKED:
        return halves(step)
    if not is_integer(type_name) or len(ins.operands) != 3 or len(ins.opcode) != 2:
        return None
    width, signed = width_of(type_name), type_name[0] == "s"
    given = sources(step, ins.operands[1:], width, width)
    if given is None:
        return None

    def run(v: Values, of: MaskOf) -> Masks:
        a, b = (take(v, of) for take in given)
        first, second = range_of(a, width, signed), range_of(b, width, signed)
        below, above = first[1] <= second[0], first[0] >= second[1]
        if ins.opcode[0] == "max":
            below, above = above, below
        either = a[1] | b[1] | (a[0] ^ b[0])
        return {"": np.where(below, a[1], np.where(above, b[1], np.where((a[1] | b[1]) == 0, Bits(0), either)))}

    return run


ROWS: dict[str, Callable[[RegisterStep], Transfer | None]] = {
    "mov": moved,
    **dict.fromkeys(("ld", "st"), passed),
    **dict.fromkeys(("and", "or", "xor", "not", "lop3"), logical),
    "selp": selected,
    **dict.fromkeys(("brev", "shl", "shr", "shf", "bfe", "bfi", "szext", "prmt"), rearranged),
    "cvt": converted,
    **dict.fromkeys(("add", "sub", "neg"), added),
    **dict.fromkeys(("mul", "mad"), multiplied),
    **dict.fromkeys(("setp", "set"), compared),
    **dict.fromkeys(("min", "max"), extreme),
}


def looked_at(ins: PtxInstruction, names: Iterable[str]) -> dict[str, int]:
    """Returns a mask for each of these registers: which bits an instruction with an effect uses. For data, these are at
    most the bits of the instruction's type. For other operands, they are all bits."""
    root = ins.opcode[0]
    data = {"st": {1}, "red": {1}, "atom": {2, 3} if "cas" in ins.opcode else {2}}.get(root)
    if data is None:
        return dict.fromkeys(names, ALL)
    entire: set[str] = set()
    for place, operand in enumerate(ins.operands):
        if place not in data:
            items = operand.items if isinstance(operand, Vector) else (operand,)
            entire.update(name_of(getattr(item, "base", item)) for item in items)
    bits = ones(width_of(ins.opcode[-1]))
    return {name: ALL if name in entire else bits for name in names}
