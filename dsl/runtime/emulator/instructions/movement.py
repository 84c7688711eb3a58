"""Implements mov, cvt, cvta, isspacep, mapa, getctarank and reads of clocks (PTX ISA 9.7.9)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..code import DTYPES, Code, Op, Values
from ..conversions import convert
from ..memory import GLOBAL_WINDOW, LOCAL_WINDOW, RANK_SHIFT, SHARED_WINDOW, WINDOW_BYTES
from ..reader import Integer, Operand, PtxInstruction, Register, Vector
from .floating import ROUNDINGS
from .memory_access import VECTORS, vector_items
from .registry import computed, instruction, into, take_modifiers

CONVERSION_MODIFIERS = ROUNDINGS | {"sat", "relu", "satfinite", "ftz"}


@instruction("mov")
def mov(code: Code, ins: PtxInstruction) -> Op:
    target, source = ins.operands
    type_name = ins.opcode[-1]
    if ins.opcode[1] in VECTORS:
        return move_vector(code, target, source, type_name)
    if isinstance(target, Vector):
        return unpack(code, ins, target)
    if isinstance(source, Vector):
        return pack(code, ins, source)
    if isinstance(source, Register) and source.name in {"%clock64", "%clock", "%globaltimer", "%globaltimer_lo"}:
        return read_clock(code, ins, type_name)
    a = code.read(source, type_name)
    d = code.write(target, type_name)
    return copy(d, a)


def move_vector(code: Code, target: Operand, source: Operand, type_name: str) -> Op:
    """Implements `mov.v4.b32 d, a`. The operands are lists of registers. The source may also be a special register such
    as `%tid`, whose elements are x, y, z and 0."""
    targets = vector_items(target)
    sources = vector_items(source)
    if len(sources) == 1:
        name = str(source)
        sources = (*tuple(Register(f"{name}.{axis}") for axis in "xyz"), Integer(0))
    a = [code.read(item, type_name) for item in sources]
    wanted = [(code.write(item, type_name), a[index]) for index, item in enumerate(targets) if str(item) != "_"]

    def run(v: Values, g: Any) -> None:
        values = [v[entry].copy() for _, entry in wanted]  # a source register may also be a destination
        for (d, _), value in zip(wanted, values, strict=True):
            v[d][...] = value

    return run


def copy(d: int, a: int) -> Op:
    def run(v: Values, g: Any) -> None:
        v[d][...] = v[a]

    return run


def read_clock(code: Code, ins: PtxInstruction, type_name: str) -> Op:
    """Reads a clock register. Clocks count the instructions of a warp, not time (`logical_time.py`)."""
    d = code.write(ins.operands[0], type_name)

    def run(v: Values, g: Any) -> None:
        v[d][...] = g.ordering.time.now(g).astype(v[d].dtype)

    return run


def part_type(total: str, parts: int) -> str:
    return f"b{int(total[1:]) // parts}"


def pack(code: Code, ins: PtxInstruction, source: Vector) -> Op:
    """Implements `mov.b32 d, {a, b}`. a becomes the least significant part of d."""
    part = part_type(ins.opcode[-1], len(source.items))
    sources = [code.read(item, part) for item in source.items]
    d = code.write(ins.operands[0], ins.opcode[-1])
    dtype, count = DTYPES[part], len(sources)

    def run(v: Values, g: Any) -> None:
        columns = [v[entry] for entry in sources]
        out = v[d].view(dtype).reshape(-1, count)
        # A source may be a part of the destination register. Without a copy, it would be overwritten before it is read.
        if any(column.base is not None and np.may_share_memory(column, out) for column in columns):
            columns = [column.copy() for column in columns]
        for index, column in enumerate(columns):
            out[:, index] = column

    return run


def unpack(code: Code, ins: PtxInstruction, target: Vector) -> Op:
    part = part_type(ins.opcode[-1], len(target.items))
    a = code.read(ins.operands[1], ins.opcode[-1])
    wanted = [
        (index, code.write_extended(item, part))
        for index, item in enumerate(target.items)
        if not (isinstance(item, Register) and item.name == "_")
    ]
    dtype, count = DTYPES[part], len(target.items)

    def run(v: Values, g: Any) -> None:
        columns = v[a].view(dtype).reshape(-1, count)
        for index, d in wanted:
            v[d][...] = columns[:, index]

    return run


@instruction("cvt")
def cvt(code: Code, ins: PtxInstruction) -> Op:
    modifiers, (result, source) = take_modifiers(ins, CONVERSION_MODIFIERS)
    rounding = next(iter(modifiers & ROUNDINGS), None)
    options = {"saturate": "sat" in modifiers, **{each: each in modifiers for each in ("ftz", "relu", "satfinite")}}
    build = pack_converted if result.endswith("x2") else convert_one
    return build(code, ins, result, source, rounding, options)


def convert_one(
    code: Code, ins: PtxInstruction, result: str, source: str, rounding: str | None, options: dict[str, bool]
) -> Op:
    is_integer = result[0] in "su" and source[0] in "su"
    a = code.read(ins.operands[1], source)
    if result == "tf32":
        d = code.write(ins.operands[0], "f32" if code.registers[str(ins.operands[0])] == "f32" else "b32")
    else:
        d = code.write_extended(ins.operands[0], result)
    if is_integer and not options["saturate"]:
        return truncate_or_extend(d, a, result)
    dtype = np.dtype(DTYPES[result])

    def run(v: Values, g: Any) -> None:
        found = convert(v[a], source, result, rounding, **options)
        out = v[d]
        if result == "tf32":
            out = out.view(np.float32)
        if result[0] in "su":
            found = found.view(dtype)
        elif out.dtype.itemsize > found.dtype.itemsize:
            found = found.view(f"u{found.dtype.itemsize}")  # a wider register gets the bits
        out[...] = found

    return run


def truncate_or_extend(d: int, a: int, result: str) -> Op:
    dtype = np.dtype(DTYPES[result])

    def run(v: Values, g: Any) -> None:
        source, out = v[a], v[d]
        if source.dtype.itemsize > dtype.itemsize or out.dtype.itemsize > dtype.itemsize:
            source = source.astype(dtype)
        np.copyto(out, source, casting="unsafe")

    return run


def pack_converted(
    code: Code, ins: PtxInstruction, result: str, source: str, rounding: str | None, options: dict[str, bool]
) -> Op:
    """Implements conversions to packed types, such as `cvt.rn.f16x2.f32 d, a, b`. a becomes the upper half of d. A
    conversion to or from fp8 may have one packed source, as in `cvt.rn.f16x2.e4m3x2 d, a`."""
    kind, element = result.removesuffix("x2"), source.removesuffix("x2")
    to_fp8 = kind in {"e4m3", "e5m2"}

    def put(out: Any, lower: Any, upper: Any) -> None:
        if to_fp8:
            out[...] = lower.astype(np.uint16) | upper.astype(np.uint16) << 8
        else:
            out[:, 0], out[:, 1] = lower, upper

    if element != source:
        a = code.read(ins.operands[1], source if to_fp8 else "u16")
        d = code.write(ins.operands[0], "u16" if to_fp8 else result)

        def from_packed(v: Values, g: Any) -> None:
            pairs = v[a] if to_fp8 else np.ascontiguousarray(v[a]).view(np.uint8).reshape(-1, 2)
            put(v[d], *convert(pairs, element, kind, rounding, **options).T)

        return from_packed
    a, b = (code.read(operand, source) for operand in ins.operands[1:])
    d = code.write(ins.operands[0], "u16" if to_fp8 else result)

    def from_two(v: Values, g: Any) -> None:
        upper = convert(v[a], source, kind, rounding, **options)
        put(v[d], convert(v[b], source, kind, rounding, **options), upper)

    return from_two


@instruction("cvt.pack")
def cvt_pack(code: Code, ins: PtxInstruction) -> Op:
    """Implements `cvt.pack.sat.convertType.s32{.b32} d, a, b{, c}`. In d, the bits of a are above those of b, and both
    are above the low part of c (PTX ISA "cvt.pack")."""
    kind = ins.opcode[3]
    bits = int(kind[1:])
    limits = np.iinfo(DTYPES[kind])
    a, b = code.read(ins.operands[1], "s32"), code.read(ins.operands[2], "s32")
    c = code.read(ins.operands[3], "u32") if len(ins.operands) > 3 else None
    d = code.write(ins.operands[0], "u32")
    mask = np.uint32((1 << bits) - 1)

    def run(v: Values, g: Any) -> None:
        upper, lower = (np.clip(v[entry], limits.min, limits.max).astype(np.uint32) & mask for entry in (a, b))
        pair = lower | upper << np.uint32(bits)
        v[d][...] = pair if c is None else pair | v[c] << np.uint32(2 * bits)

    return run


WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "global": 0, "const": 0, "param": 0}


@instruction("cvta")
def cvta(code: Code, ins: PtxInstruction) -> Op:
    """Converts between generic addresses and addresses of a state space. Shared and local addresses are offsets in the
    address windows of these spaces. Global, const and param addresses are already generic."""
    to_space = ins.opcode[1] == "to"
    space = ins.opcode[2 if to_space else 1].split("::")[0]
    type_name = ins.opcode[-1]
    a = code.read(ins.operands[1], type_name)
    d = code.write(ins.operands[0], type_name)
    window = WINDOWS[space]
    if space == "param" and not to_space:
        return parameter_address(d, a)
    if window == 0:
        return copy(d, a)
    return into(np.subtract if to_space else np.add, d, a, code.constant(window, type_name))


def parameter_address(d: int, a: int) -> Op:
    """Converts the address of a parameter to a generic 64-bit address. Uses only the low 32 bits of the operand, since
    LLVM keeps no more. They suffice, since all parameters lie within 2^32 bytes."""

    def run(v: Values, g: Any) -> None:
        first = g.launch.parameter_memory.address
        v[d][...] = first + (v[a].astype(np.int64) - first & 0xFFFFFFFF)

    return run


@instruction("isspacep")
def isspacep(code: Code, ins: PtxInstruction) -> Op:
    space = ins.opcode[1].split("::")[0]
    a = code.read(ins.operands[1], "u64")
    d = code.write(ins.operands[0], "pred")
    first = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, GLOBAL_WINDOW)
    last = first + WINDOW_BYTES if space in {"shared", "local"} else SHARED_WINDOW
    return computed(lambda address: (address >= first) & (address < last), d, [a])


@instruction("mapa")
def mapa(code: Code, ins: PtxInstruction) -> Op:
    """Computes the address of the same variable in another block of the cluster (PTX ISA "mapa")."""
    type_name = "u" + ins.opcode[-1][1:]
    generic = "shared::cluster" not in ins.opcode
    address = ins.operands[1]
    a = code.read(address, type_name)
    rank = code.read(ins.operands[2], "u32")
    d = code.write(ins.operands[0], type_name)
    is_window_offset = not generic or not code.is_register(address)
    window = SHARED_WINDOW if type_name == "u64" else SHARED_WINDOW & 0xFFFFFFFF  # u32: the low half of an address
    base = 0 if not generic else window

    def run(v: Values, g: Any) -> None:
        dtype = v[d].dtype
        offset = v[a] if is_window_offset else v[a] - dtype.type(window)
        offset = offset & dtype.type((1 << RANK_SHIFT) - 1)
        v[d][...] = dtype.type(base) + offset + ((v[rank].astype(dtype) + dtype.type(1)) << dtype.type(RANK_SHIFT))

    return run


@instruction("getctarank")
def getctarank(code: Code, ins: PtxInstruction) -> Op:
    type_name = "u" + ins.opcode[-1][1:]
    a = code.read(ins.operands[1], type_name)
    d = code.write(ins.operands[0], "u32")

    def run(v: Values, g: Any) -> None:
        field = (v[a].astype(np.uint64) & np.uint64(WINDOW_BYTES - 1)) >> np.uint64(RANK_SHIFT)
        v[d][...] = np.where(field == 0, g.lane("rank"), field.astype(np.uint32) - np.uint32(1))

    return run
