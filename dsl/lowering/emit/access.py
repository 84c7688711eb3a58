"""Computes the addresses and the instruction names of memory accesses."""

from __future__ import annotations

from dsl.lowering.emit.global_address import GlobalAddress
from dsl.lowering.emit.shared_address import SharedAddress
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.location import TileError
from dsl.lowering.layouts.layout import Layout


def width_name(elements: int, size: int) -> str:
    """Returns the instruction suffix for an access of `elements` elements of `size` bytes, for example `v4.b32`.

    The hardware may access each element of a vector separately (PTX ISA, vector data types). So an 8-byte tile element
    must be one vector element. If it were split into two, another thread could see only one half updated.
    """
    bytes = elements * size
    if size == 8:
        return {8: "b64", 16: "v2.b64"}[bytes]
    return {1: "b8", 2: "b16", 4: "b32", 8: "v2.b32", 16: "v4.b32"}[bytes]


class AccessAddress:
    """Computes the addresses of the elements of one access."""

    def __init__(self, w: Writer, op: Op, memory: Value, stage: Value | None, offset: Value, space: str):
        self.w, self.memory, self.space = w, memory, space
        self.size = memory.dtype.bytes
        self.offset = offset
        self.parts: SharedAddress | GlobalAddress | None = None
        way = w.accesses[op]
        if space == "shared":
            self.parts = SharedAddress(w, op, stage, way.shared)
        elif way.tensor is not None:
            self.parts = GlobalAddress(w, memory, way.tensor)

    def behind(self, address: str, elements: int) -> str:
        """Returns the address that is `elements` elements after `address`, within one wide access."""
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


# Map words of the language to PTX cache operators. The operators of loads and stores differ.
_LOAD_CACHE = {"all": ".ca", "global": ".cg", "streaming": ".cs", "last_use": ".lu"}
_STORE_CACHE = {"write_back": ".wb", "global": ".cg", "streaming": ".cs", "write_through": ".wt"}
_EVICT = {"first": ".L1::evict_first", "last": ".L1::evict_last", "no_allocate": ".L1::no_allocate"}


def access_name(op: Op, verb: str, space: str, elements: int, size: int) -> str:
    """Returns the name of the instruction that loads or stores `elements` elements of `size` bytes. `verb` is `ld` or
    `st`."""
    cache, evict = op.attrs["cache"], op.attrs["evict"]
    if cache == "volatile":  # `.volatile` excludes a cache operator (PTX ISA, ld)
        return f"{verb}.volatile.{space}.{width_name(elements, size)}"
    if space == "shared":
        return f"{verb}.shared.{width_name(elements, size)}"
    if cache and evict:
        raise TileError("call", op.loc, "cache= and evict= exclude each other")
    hint = (_LOAD_CACHE if verb == "ld" else _STORE_CACHE)[cache] if cache else _EVICT.get(evict or "", "")
    return f"{verb}.global{hint}.{width_name(elements, size)}"


def guard(w: Writer, mask: str | None, layout: Layout | None) -> str | None:
    """Returns `mask`, combined with a flag that selects one thread if several threads hold the same element. Returns
    None if neither is needed."""
    chosen = w.head.chosen(layout)
    if mask is None or chosen is None:
        return mask or chosen
    return w.let(f"and i1 {mask}, {chosen}")
