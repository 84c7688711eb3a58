"""Computes values that depend only on the thread, the block and the kernel's parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, reduce
from operator import or_

from dsl.lowering.emit.calls import Calls
from dsl.lowering.emit.text import Lines, Text
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, blocks_of, walk
from dsl.lowering.layouts.layout import Layout

STRETCHES, SHUFFLED, HEAD, PLACE = "stretches", "shuffled", "head", "place"
MANY_SUMS = 64
"""With so many registers of a thread for accumulators of two loops with products of products, such as attention's, its
index behind a loop comes from a shuffle. Otherwise ptxas merges it with the index ahead of the loop, and what is
computed from it spills: 28 to 148 bytes."""
MOST_UNIFORM = 8
"""The maximum number of warps for which descriptors of wgmma are in uniform registers by default."""
BECAUSE = "known at the head of the kernel; behind a loop computed once more, so that no register holds it meanwhile"


class Head:
    """Computes values that depend only on the thread, the block and the parameters. The choice `hoist` selects where:
    once at the start of each stretch, once at the start of the kernel, or at each use. A stretch is the code from the
    end of one loop to the end of the next. With `shuffled`, ptxas cannot merge values of different stretches.

    `first`: lines at the start of the function, before the first stretch.
    """

    def __init__(self, text: Text, calls: Calls, function: Function):
        self.text, self.calls, self._choices, self._warps = text, calls, function.choices, function.warps
        # A matrix product of size 8192 takes 5 % longer with the option `place`, and 1 % longer with `head`. The five
        # other measured kernels take at most 2 % longer (docs/measurements.md). Stretches help epilogues, whose
        # addresses spilled when they were computed at the start of the kernel.
        options = {name: name for name in (STRETCHES, SHUFFLED, HEAD, PLACE)}
        rule = SHUFFLED if _sums_of_loops(function) >= MANY_SUMS else STRETCHES
        self.where = function.choices.choose("hoist", "thread", options, rule, because=BECAUSE)
        self.first: Lines = []
        self._lines: Lines = self.first  # the lines at the start of the current stretch
        self._known: dict[str, str] = {}
        self._stretches = 0
        self._block: Block | None = None  # the block whose loops end stretches
        self._behind = False  # whether a loop with matrix products of this block came before

    def once(self, text: str) -> str:
        """Returns the register of the LLVM expression `text`. Equal expressions are computed once per stretch, unless
        the choice is `place`."""
        if self.where == PLACE:
            return self.text.let(text)
        known = self._known.get(text)
        if known is None:
            known = self.text.name()
            self._lines.append(f"  {known} = {text}, !dbg !{self.text.debug.head}")
            self._known[text] = known
        return known

    def buffer(self, bytes: int) -> str:
        """Allocates local memory of this thread at the start of the function. An `alloca` inside a loop would allocate
        more memory in each iteration."""
        name = self.text.name()
        self.first.append(f"  {name} = alloca [{bytes} x i8], align 8, !dbg !{self.text.debug.head}")
        return name

    @contextmanager
    def stretches_of(self, block: Block) -> Iterator[None]:
        """A context manager in which each loop of `block` ends a stretch. Entering the context begins the first
        stretch."""
        kept = self._lines, self._known, self._block, self._behind
        self._block, self._behind = block, False
        self._anew()
        try:
            yield
        finally:
            self._lines, self._known, self._block, self._behind = kept

    def after_loop(self, op: Op) -> None:
        """Begins a new stretch after the loop `op`, if the loop is directly in the block that was passed to
        `stretches_of`."""
        if self._block is not None and any(op is each for each in self._block.ops):
            # Threads of a warp multiply together, so they also run the code behind the loop together.
            self._behind |= any(inner.spec.product for inner in walk(op.regions[0]))
            self._anew()

    def _anew(self) -> None:
        """Begins a new stretch, which reads the thread index again and recomputes the values of `once`. So they occupy
        no registers during the preceding loop. The start of the stretch must dominate all later code in the block."""
        if self._stretches and self.where == HEAD:
            return
        self._lines, self._known = [], {}
        self.text.lines.append(self._lines)
        self._stretches += 1

    @contextmanager
    def nothing_ahead(self) -> Iterator[None]:
        """A context manager in which `once` computes new values at the current place, not at the start of the
        stretch."""
        lines, known, behind = self._lines, self._known, self._behind
        # Only some threads of a warp may run this place, so they do not shuffle.
        self._lines, self._known, self._behind = self.text.lines, dict(known), False
        try:
            yield
        finally:
            self._lines, self._known, self._behind = lines, known, behind

    # ---- threads and blocks ----

    def thread(self) -> str:
        """Returns this thread's index in its block (`threadIdx.x`), as i32."""
        # `sideeffect` keeps LLVM from merging this index with the index read in an earlier stretch. Otherwise, all
        # values computed from the index would stay in registers during the loop. The addresses of an epilogue spilled
        # then (docs/int8_conv.md).
        if self._behind and self.where == SHUFFLED:
            return self._shuffled()
        if self._stretches > 1:
            return self.once('call i32 asm sideeffect "mov.u32 $0, %tid.x;", "=r"()')
        return self._read("tid.x")

    def _shuffled(self) -> str:
        """Reads the thread index by a shuffle in which each lane reads its own: the lower five bits select the lane.
        ptxas does not know that this is the index ahead of the loop, so it computes values from it anew."""
        index = self.once('call i32 asm sideeffect "mov.u32 $0, %tid.x;", "=r"()')
        return self._of_lane(index, index)

    def _of_lane(self, value: str, lane: str) -> str:
        """Reads `value`, an i32, from a lane of the warp."""
        shuffle = "llvm.nvvm.shfl.sync.idx.i32"
        self.calls.declare(shuffle, "i32", "i32, i32, i32, i32")
        return self.once(f"call i32 @{shuffle}(i32 -1, i32 {value}, i32 {lane}, i32 31)")

    def special(self, register: str) -> str:
        """Returns the value of a PTX special register such as `ctaid.x`, in the kernel's index type."""
        return self.index(self._read(register))

    def narrow_special(self, register: str) -> str:
        """Returns the value of a PTX special register such as `ctaid.x`, as i32."""
        value = self.special(register)
        return value if self.text.index == "i32" else self.once(f"trunc i64 {value} to i32")

    def index(self, number: str) -> str:
        """Converts an i32 that is not negative to the kernel's index type."""
        is_index = self.text.index == "i32" or not number.startswith("%")
        return number if is_index else self.once(f"zext i32 {number} to i64")

    def _read(self, register: str) -> str:
        name = f"llvm.nvvm.read.ptx.sreg.{register}"
        self.calls.declare(name, "i32")
        return self.once(f"call i32 @{name}()")

    def coordinate(self, layout: Layout) -> str:
        """Returns the part of an element's coordinate that depends on the thread, in the kernel's index type. The
        coordinate is the XOR of this part and the register's part."""
        return self.index(self.linear(layout.thread))

    def linear(self, bases: tuple[int, ...]) -> str:
        """Computes the XOR of `bases[k]` over all set bits k of the thread index, as i32."""
        # Groups of consecutive bits whose bases double: (first bit, number of bits, basis of the first bit). Each group
        # takes one shift and one mask.
        groups: list[tuple[int, int, int]] = []
        bit = 0
        while bit < len(bases):
            basis, run = bases[bit], 1
            # A basis with several set bits is multiplied by one bit of the index, so it is in a group of its own.
            while not basis & (basis - 1) and bit + run < len(bases) and bases[bit + run] == basis << run:
                run += 1
            if basis:
                groups.append((bit, run, basis))
            bit += run
        total: str | None = None
        thread = self.thread()
        all_bits = len(bases)
        # LLVM treats `or disjoint` as an addition and folds it into addresses. Only overlapping bases need XOR.
        joint = "or disjoint" if sum(bases) == reduce(or_, bases, 0) else "xor"
        for first, run, basis in groups:
            part = thread
            if first:
                part = self.once(f"lshr i32 {part}, {first}")
            if first + run < all_bits:
                part = self.once(f"and i32 {part}, {(1 << run) - 1}")
            if basis & (basis - 1):
                part = self.once(f"mul nuw nsw i32 {part}, {basis}")
            elif basis > 1:
                part = self.once(f"shl nuw nsw i32 {part}, {basis.bit_length() - 1}")
            total = part if total is None else self.once(f"{joint} i32 {total}, {part}")
        return "0" if total is None else total

    def of_warp(self, bases: tuple[int, ...]) -> str:
        """Like `linear`, for bases of a warp's bits alone, where all threads of the warp run. The value comes from the
        first lane. This tells ptxas that it is the same in all lanes."""
        return self._of_lane(self.linear(bases), "0")

    @cached_property
    def has_uniform_descriptors(self) -> bool:
        """Whether the places of warp groups in descriptors of wgmma are in uniform registers. In f16 products this
        takes 0.995 to 0.997 of the time on an H200. Where few registers are left it may be slower: 1.03 in gradients of
        keys with heads of 64, and 1.15 in attention by 16 warps (4 x 16 x 4096 x 64: 635 in place of 554 us)."""
        ways, rule, why = {"uniform": True, "thread": False}, "uniform", "the same in all lanes"
        if self._warps > MOST_UNIFORM:
            rule, why = "thread", f"more than {MOST_UNIFORM} warps leave a thread few registers"
        return self._choices.choose("descriptor", "wgmma", ways, rule, because=why)

    def chosen(self, layout: Layout | None) -> str | None:
        """Returns a flag (i1) that is true in one of the threads that hold the same elements. For a scalar (no layout),
        this is thread 0. Returns None if no two threads hold the same elements."""
        if layout is None:
            return self.once(f"icmp eq i32 {self.thread()}, 0")
        free = layout.replicated["lane"] | layout.replicated["warp"] << 5
        if not free:
            return None
        masked = self.once(f"and i32 {self.thread()}, {free}")
        return self.once(f"icmp eq i32 {masked}, 0")


def _sums_of_loops(function: Function) -> int:
    """Returns the number of registers of a thread for accumulators, if a block has several loops that compute with the
    result of a product by mma.sync: what the loops carry, and that result. Otherwise returns 0."""
    found = [0]
    for block in blocks_of(function.body):
        bodies = [op.regions[0] for op in block.ops if op.spec.control.counters]
        begun = [(body, of_iteration) for body in bodies if (of_iteration := _begun(body))]
        if len(begun) > 1:
            found += [sum(arg.registers for arg in body.args) + of_iteration for body, of_iteration in begun]
    return max(found)


def _begun(body: Block) -> int:
    """Returns the number of registers of the largest product by mma.sync in a loop body that starts at 0."""
    products = [op for op in body.ops if op.spec.product and not op.spec.wgmma]
    return max((op.result.registers for op in products if constant_of(op.operands[-1]) == 0), default=0)
