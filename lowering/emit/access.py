"""Addresses of accesses, the registers in which their elements travel, and the names of their instructions."""

from __future__ import annotations

from lowering.emit.carriers import from_carrier, into_carrier
from lowering.emit.global_address import GlobalAddress, global_map
from lowering.emit.shared_address import SharedAddress
from lowering.emit.writer import Writer
from lowering.ir import Op, Value
from lowering.layout import Layout
from lowering.location import TileError
from lowering.types import I1, DType


def width_name(bytes: int) -> str:
    return {1: "b8", 2: "b16", 4: "b32", 8: "v2.b32", 16: "v4.b32"}[bytes]


class Address:
    """Addresses of the elements of one access."""

    def __init__(self, w: Writer, op: Op, memory: Value, slot: Value | None, offset: Value, space: str):
        self.w, self.memory, self.space = w, memory, space
        self.size = memory.dtype.bytes
        self.offset = offset
        self.parts: SharedAddress | GlobalAddress | None = None
        if space == "shared":
            self.parts = SharedAddress(w, op, slot)
        elif (map := global_map(w, offset)) is not None:
            self.parts = GlobalAddress(w, memory, map)

    def behind(self, address: str, elements: int) -> str:
        """The address that many elements behind another, of the same wide access."""
        if not elements:
            return address
        return self.w.let(f"add i{32 if self.space == 'shared' else 64} {address}, {elements * self.size}")

    def of(self, register: int) -> str:
        w = self.w
        if self.parts is not None:
            return self.parts.of(register)
        offset = w.registers[self.offset][register]
        if w.index == "i32" and offset.startswith("%"):
            offset = w.let(f"sext i32 {offset} to i64")
        element = w.let(f"getelementptr i{8 * self.size}, ptr addrspace(1) {w.registers[self.memory][0]}, i64 {offset}")
        return w.let(f"ptrtoint ptr addrspace(1) {element} to i64")


def pack(w: Writer, elements: list[str], dtype: DType) -> list[str]:
    """Elements → the registers of an access: one b16 for a single small element, else b32s."""
    llvm, bits = w.llvm(dtype), max(w.bits(dtype), 8)
    if dtype is I1:
        elements, llvm = [w.let(f"zext i1 {e} to i8") for e in elements], "i8"
    total = bits * len(elements)
    if total <= 16:
        if len(elements) == 1:
            return [
                into_carrier(w, elements[0], dtype, "i16") if llvm != "i8" else w.let(f"zext i8 {elements[0]} to i16")
            ]
        return [w.let(f"bitcast <2 x i8> {_vector(w, elements, 'i8')} to i16")]
    if bits == 64:
        out = []
        for e in elements:
            raw = e if llvm == "i64" else w.let(f"bitcast {llvm} {e} to i64")
            pair = w.let(f"bitcast i64 {raw} to <2 x i32>")
            out += [w.let(f"extractelement <2 x i32> {pair}, i32 {k}") for k in (0, 1)]
        return out
    if bits == 32:
        return [e if llvm == "i32" else w.let(f"bitcast {llvm} {e} to i32") for e in elements]
    per = 32 // bits
    chunks = [elements[i : i + per] for i in range(0, len(elements), per)]
    return [w.packed.get(tuple(c)) or w.let(f"bitcast <{per} x {llvm}> {_vector(w, c, llvm)} to i32") for c in chunks]


def _vector(w: Writer, elements: list[str], llvm: str) -> str:
    if all(not e.startswith("%") for e in elements):
        return "<" + ", ".join(f"{llvm} {e}" for e in elements) + ">"
    made = "poison"
    for i, e in enumerate(elements):
        made = w.let(f"insertelement <{len(elements)} x {llvm}> {made}, {llvm} {e}, i32 {i}")
    return made


def unpack(w: Writer, registers: list[str], dtype: DType, count: int) -> list[str]:
    """The registers of an access → its elements."""
    llvm, bits = w.llvm(dtype), max(w.bits(dtype), 8)
    narrow = "i8" if dtype is I1 else llvm
    if bits * count <= 16:
        if count == 1:
            raw = registers[0]
            out = [w.let(f"trunc i16 {raw} to i8") if bits == 8 else from_carrier(w, raw, dtype, "i16")]
        else:
            pair = w.let(f"bitcast i16 {registers[0]} to <2 x i8>")
            out = [w.let(f"extractelement <2 x i8> {pair}, i32 {k}") for k in (0, 1)]
    elif bits == 64:
        out = []
        for low, high in zip(registers[::2], registers[1::2], strict=True):
            joined = w.let(f"bitcast <2 x i32> {_vector(w, [low, high], 'i32')} to i64")
            out.append(joined if llvm == "i64" else w.let(f"bitcast i64 {joined} to {llvm}"))
    elif bits == 32:
        out = [r if llvm == "i32" else w.let(f"bitcast i32 {r} to {llvm}") for r in registers]
    else:
        per = 32 // bits
        out = []
        for r in registers:
            many = w.let(f"bitcast i32 {r} to <{per} x {narrow}>")
            elements = [w.let(f"extractelement <{per} x {narrow}> {many}, i32 {k}") for k in range(per)]
            if bits == 8:
                w.bytes.update({e: (r, 0xFF << 8 * k) for k, e in enumerate(elements)})
            w.packed[tuple(elements)] = r
            out += elements
    if dtype is I1:
        out = [w.let(f"icmp ne i8 {e}, 0") for e in out]
    return out


_LOAD_CACHE = {"all": ".ca", "global": ".cg", "streaming": ".cs", "last_use": ".lu"}
_STORE_CACHE = {"write_back": ".wb", "global": ".cg", "streaming": ".cs", "write_through": ".wt"}
_EVICT = {"first": ".L1::evict_first", "last": ".L1::evict_last", "no_allocate": ".L1::no_allocate"}


def access_name(op: Op, verb: str, space: str, bytes: int) -> str:
    cache, evict = op.attrs["cache"], op.attrs["evict"]
    if cache == "volatile":
        return f"{verb}.volatile.{space}.{width_name(bytes)}"
    if space == "shared":
        return f"{verb}.shared.{width_name(bytes)}"
    if cache and evict:
        raise TileError("call", op.loc, "cache= and evict= exclude each other")
    hint = (_LOAD_CACHE if verb == "ld" else _STORE_CACHE)[cache] if cache else _EVICT.get(evict or "", "")
    return f"{verb}.global{hint}.{width_name(bytes)}"


def guard(w: Writer, mask: str | None, layout: Layout | None) -> str | None:
    """The mask, and: this thread is the one that writes for all that hold the element."""
    chosen = w.chosen(layout)
    if mask is None or chosen is None:
        return mask or chosen
    return w.let(f"and i1 {mask}, {chosen}")
