"""Computes addresses in shared memory. The part that depends on the thread is computed at the start of the kernel. The
part that depends on the register is an immediate."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from dsl.lowering.ir.types import SharedType
from dsl.lowering.layouts.layout import apply
from dsl.lowering.ops import required
from dsl.lowering.shared.access_width import stage_bytes
from dsl.lowering.shared.shared_map import MOST_ALIGNMENT, SharedMap, Swizzle, matrix_lanes, period, swizzled

if TYPE_CHECKING:
    from dsl.lowering.emit.writer import Writer
    from dsl.lowering.ir.function import Op, Value

SHARED = "@dsl_shared"


class SharedAddress:
    """Computes the addresses of one access to a shared tile, as i32.

    If the access has a linear map, an offset is t ^ r: t depends on the thread, and r depends on the register. The
    swizzle S is linear, so the address is S(t) ^ S(r). Bits of S(r) that are 0 in all S(t) are added, and the other
    bits are XORed. Scalars are added. Without a linear map, or if a scalar is no multiple of the swizzle's period, each
    offset is swizzled at run time (`is_late`).
    """

    def __init__(self, w: Writer, op: Op, stage: Value | None, map: SharedMap | None):
        self.w = w
        self.memory = op.operands[0]
        assert isinstance(self.memory.type, SharedType)
        self.type = self.memory.type
        self.swizzle: Swizzle = self.type.swizzle
        self.offset = required(op, "offset")
        self.stage = stage
        self.map = map
        self.is_late = self.map is None or (bool(self.swizzle) and self.map.aligned % period(self.swizzle) != 0)
        if self.is_late:
            self.base = shared_base(w, self.memory)
            if stage is not None and (self.type.ring or (self.map is None and not self.swizzle)):
                self.base = w.let(f"add i32 {self.base}, {self.stage_offset(stage)}")
        if self.map is None:
            return
        self.terms = [w.let(f"mul i32 {self.scalar(value)}, {factor}") for value, factor in self.map.terms]
        bases = matrix_lanes(op, self.map) + self.map.warp if op.spec.joint else self.map.thread
        if self.is_late:
            self.thread = bases
            return
        self.thread = tuple(swizzled(b, self.swizzle) for b in bases)
        self.moved = reduce(or_, self.thread, 0)
        self.bases: dict[int, str] = {}
        self.added = [self.stage_offset(stage)] if stage is not None and self.type.ring else []
        self.added += self.terms

    def scalar(self, value: Value) -> str:
        register = self.w.registers[value][0]
        return self.w.let(f"trunc i64 {register} to i32") if self.w.bits(value.dtype) == 64 else register

    def stage_offset(self, stage: Value) -> str:
        """Returns the number of bytes from the start of the tile to a stage, as i32."""
        return self.w.text.here(("stage", stage, self.type), lambda: self._stage_offset(stage))

    def _stage_offset(self, stage: Value) -> str:
        w, type = self.w, self.type
        number, stages = w.registers[stage][0], type.shape[0]
        if type.ring and stages & (stages - 1):
            # The stage index of a ring keeps increasing, so it is reduced modulo `stages` here. If `stages` is a power
            # of two, a mask below does this.
            if (low := w.facts.of(stage).low) is not None and low >= 0:
                number = w.let(f"urem {w.index} {number}, {stages}")
            else:  # stage -1 is the last stage
                rest = w.let(f"srem {w.index} {number}, {stages}")
                negative = w.let(f"icmp slt {w.index} {rest}, 0")
                up = w.let(f"select i1 {negative}, {w.index} {stages}, {w.index} 0")
                number = w.let(f"add {w.index} {rest}, {up}")
        if w.index == "i64":
            number = w.let(f"trunc i64 {number} to i32")
        if type.ring and not stages & (stages - 1):
            number = w.let(f"and i32 {number}, {stages - 1}")
        return w.let(f"mul i32 {number}, {stage_bytes(type)}")

    def of(self, register: int) -> str:
        """Returns the address of the element in the given register."""
        w = self.w
        if self.map is not None:
            return self.at(apply(self.map.register, register))
        offset = w.registers[self.offset][register]
        if w.index == "i64" and offset.startswith("%"):
            offset = w.let(f"trunc i64 {offset} to i32")
        size = self.memory.dtype.bytes
        scaled = offset
        if size > 1:
            known = not offset.startswith("%")
            scaled = str(int(offset) * size) if known else w.let(f"mul i32 {offset}, {size}")
        if self.swizzle:
            if self.stage is not None and not self.type.ring:
                scaled = w.let(f"add i32 {scaled}, {self.stage_offset(self.stage)}")
            scaled = swizzle_at_run_time(w, scaled, self.swizzle)
        return self.base if scaled == "0" else w.let(f"add i32 {self.base}, {scaled}")

    def at(self, register_part: int) -> str:
        """Returns the address of the element at the byte offset t ^ `register_part`, where t depends on the thread.

        All other terms are multiples of the swizzle's period. So bits below the period are XORed last, and all
        registers share one base address. Bits above the alignment of shared memory are XORed before the address of
        shared memory is added.
        """
        w = self.w
        assert self.map is not None
        if self.is_late:
            return self.late(self.map.constant ^ register_part)
        part = swizzled(self.map.constant ^ register_part, self.swizzle)
        # An addition folds into the access as an immediate offset, but an XOR does not. So only bits that the thread's
        # part may contain are XORed.
        met = part & self.moved
        if met not in self.bases:
            last = met % min(period(self.swizzle), MOST_ALIGNMENT)
            base = self.based(met ^ last)
            self.bases[met] = w.let(f"xor i32 {base}, {last}") if last else base
        number = (part ^ met) + tile_offset(self.memory)
        return w.let(f"add i32 {self.bases[met]}, {number}") if number else self.bases[met]

    def late(self, part: int) -> str:
        """Like `at`, but the emitted code applies the swizzle at run time."""
        w = self.w
        offset = w.head.linear(self.thread)
        if part:
            offset = w.head.once(f"xor i32 {offset}, {part}")
        for term in self.terms:
            offset = w.let(f"add i32 {offset}, {term}")
        return w.let(f"add i32 {self.base}, {swizzle_at_run_time(w, offset, self.swizzle)}")

    def based(self, met: int) -> str:
        """Computes the thread's part XOR `met`, plus the address of shared memory, the stage offset and the scalars."""
        w = self.w
        base = w.head.linear(self.thread)
        if met:
            base = w.head.once(f"xor i32 {base}, {met}")
        first = shared_memory(w)
        base = first if base == "0" else w.head.once(f"add i32 {first}, {base}")
        for more in self.added:
            base = w.let(f"add i32 {base}, {more}")
        return base


def shared_memory(w: Writer) -> str:
    """Returns the address of the block's dynamic shared memory in the shared window, as i32."""
    return w.head.once(f"ptrtoint ptr addrspace(3) {SHARED} to i32")


def tile_offset(memory: Value) -> int:
    """Returns the byte offset of a shared tile in dynamic shared memory."""
    assert memory.op is not None
    return memory.op.attrs["offset"]


def shared_base(w: Writer, memory: Value) -> str:
    """Returns the address of a shared tile in the shared window, as i32."""
    offset = tile_offset(memory)
    return w.head.once(f"add i32 {shared_memory(w)}, {offset}") if offset else shared_memory(w)


def swizzle_at_run_time(w: Writer, offset: str, swizzle: Swizzle) -> str:
    """Like `swizzled`, for an offset that is known only at run time."""
    out = offset
    for bit, mask in swizzle:
        flag = w.let(f"and i32 {w.let(f'lshr i32 {offset}, {bit}')}, 1")
        out = w.let(f"xor i32 {out}, {w.let(f'mul i32 {flag}, {mask}')}")
    return out
