"""Emits loads of 16 bytes that begin anywhere: a thread reads the two aligned blocks of 16 bytes that contain them, and
shifts. These are 14 instructions in place of 8 loads of 16 bits, each of which takes four wavefronts if lanes are 16
bytes apart."""

from __future__ import annotations

from dsl.lowering.emit.access import access_name
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.shared.access_width import MAX_BYTES, stays_inside


def shifted_words(w: Writer, op: Op, address: str, width: int, on: str | None = None) -> list[str]:
    """Returns the four words that begin at `address`. If the flag `on` is off, nothing is read, and they have no
    meaning."""
    size = op.result.dtype.bytes
    name, more = access_name(op, "ld", "global", width, size), []
    if on is not None:
        name, more = "@" + name, [on]
    nothing = ["0"] * (4 if more else 0)
    blocks = [w.let(f"and i64 {end}, {-MAX_BYTES}") for end in (address, _last_byte(w, address))]
    words = [word for block in blocks for word in w.template(name, [*nothing, block, *more], op)]
    place = w.let(f"trunc i64 {address} to i32")
    for step in (2, 1):
        moves = w.let(f"icmp ne i32 {w.let(f'and i32 {place}, {4 * step}')}, 0")
        pairs = zip(words[step:], words, strict=False)
        words = [w.let(f"select i1 {moves}, i32 {later}, i32 {word}") for later, word in pairs]
    if size < 4:
        bits = w.let(f"shl i32 {w.let(f'and i32 {place}, 3')}, 3")
        both = zip(words[1:], words, strict=False)
        words = [w.intrinsic("llvm.fshr.i32", "i32", [("i32", b), ("i32", a), ("i32", bits)]) for b, a in both]
    return words[:4]


def inside(w: Writer, op: Op, address: str) -> list[str]:
    """Returns a flag: whether the aligned block that contains the last byte lies in the tensor. Returns no flag if it
    always does."""
    memory = op.operands[0]
    if stays_inside(w.facts, op):
        return []
    block = w.let(f"or i64 {_last_byte(w, address)}, {MAX_BYTES - 1}")
    return [w.let(f"icmp ult i64 {block}, {_end_of(w, memory)}")]


def _last_byte(w: Writer, address: str) -> str:
    return w.let(f"add i64 {address}, {MAX_BYTES - 1}")


def _end_of(w: Writer, memory: Value) -> str:
    """Returns the address behind the last element of a contiguous tensor."""
    bytes = str(memory.dtype.bytes)
    for extent in w.function.extents_of(memory):
        if not isinstance(extent, int):
            number = w.registers[w.function.dims[extent]][0]
            extent = number if w.index == "i64" else w.let(f"zext i32 {number} to i64")
        bytes = w.let(f"mul i64 {bytes}, {extent}")
    base = w.let(f"ptrtoint ptr addrspace(1) {w.registers[memory][0]} to i64")
    return w.let(f"add i64 {base}, {bytes}")
