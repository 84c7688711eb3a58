"""What depends on nothing but the thread, the block and the parameters, and where it is computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from operator import or_

from dsl.lowering.emit.calls import Calls
from dsl.lowering.emit.text import Lines, Text
from dsl.lowering.ir.choices import Choices
from dsl.lowering.ir.function import Block, Op
from dsl.lowering.layouts.layout import Layout

STRETCHES, HEAD, PLACE = "stretches", "head", "place"
BECAUSE = "known at the head of the kernel; behind a loop computed once more, so that no register holds it meanwhile"


class Head:
    """Such values, each computed once at the head of a stretch of the function, or of all of it, or where it is asked.

    first: lines at the head of the function, ahead of the first stretch.
    """

    def __init__(self, text: Text, calls: Calls, choices: Choices):
        self.text, self.calls = text, calls
        # Forced to `place`, a product of 8192 takes 5 % longer, to `head` 1 %; the five others no more than 2 %
        # (docs/measurements.md). Stretches are for epilogues, whose addresses spilled when they were computed at the
        # head.
        self.where = choices.choose(
            "hoist", "thread", {name: name for name in (STRETCHES, HEAD, PLACE)}, STRETCHES, because=BECAUSE
        )
        self.first: Lines = []
        self._lines: Lines = self.first  # the head of this stretch
        self._known: dict[str, str] = {}
        self._stretches = 0
        self._block: Block | None = None  # in which loops end stretches

    def once(self, text: str) -> str:
        """A value that depends on nothing but the thread, the block and the parameters: computed at the head, once."""
        if self.where == PLACE:
            return self.text.let(text)
        known = self._known.get(text)
        if known is None:
            known = self.text.name()
            self._lines.append(f"  {known} = {text}, !dbg !{self.text.debug.head}")
            self._known[text] = known
        return known

    def buffer(self, bytes: int) -> str:
        """Memory of this thread, of which the function has one piece however often this is passed."""
        name = self.text.name()
        self.first.append(f"  {name} = alloca [{bytes} x i8], align 8, !dbg !{self.text.debug.head}")
        return name

    @contextmanager
    def stretches_of(self, block: Block) -> Iterator[None]:
        """Meanwhile loops of this block end stretches, the first of which begins here."""
        kept = self._lines, self._known, self._block
        self._block = block
        self._anew()
        try:
            yield
        finally:
            self._lines, self._known, self._block = kept

    def after_loop(self, op: Op) -> None:
        """Begins a stretch behind a loop that ends one."""
        if self._block is not None and any(op is each for each in self._block.ops):
            self._anew()

    def _anew(self) -> None:
        """Begins a stretch: what follows computes once more what `once` has computed, from a thread's number that is
        read again, so that none of it is kept in registers meanwhile. All that follows in the block must pass here."""
        if self._stretches and self.where == HEAD:
            return
        self._lines, self._known = [], {}
        self.text.lines.append(self._lines)
        self._stretches += 1

    @contextmanager
    def nothing_ahead(self) -> Iterator[None]:
        """Meanwhile what `once` would add to the head of the function is computed in place."""
        lines, known = self._lines, self._known
        self._lines, self._known = self.text.lines, dict(known)
        try:
            yield
        finally:
            self._lines, self._known = lines, known

    # ---- threads and blocks ----

    def thread(self) -> str:
        """This thread's number in its block, i32."""
        # `sideeffect`, so that LLVM does not join it with the number read at the head: that would keep all that follows
        # from it in registers through the loop, where addresses of an epilogue spilled (docs/int8_conv.md).
        if self._stretches > 1:
            return self.once('call i32 asm sideeffect "mov.u32 $0, %tid.x;", "=r"()')
        return self._read("tid.x")

    def special(self, register: str) -> str:
        """A special register, as index."""
        value = self._read(register)
        return value if self.text.index == "i32" else self.once(f"zext i32 {value} to i64")

    def _read(self, register: str) -> str:
        name = f"llvm.nvvm.read.ptx.sreg.{register}"
        self.calls.declare(name, "i32")
        return self.once(f"call i32 @{name}()")

    def coordinate(self, layout: Layout) -> str:
        """The part of an element's coordinate that the thread's number decides, as index; XOR a register's offset."""
        total = self.linear(layout.thread)
        return total if total == "0" or self.text.index == "i32" else self.once(f"zext i32 {total} to i64")

    def linear(self, bases: tuple[int, ...]) -> str:
        """The XOR of the bases of the set bits of the thread's number, i32."""
        groups: list[tuple[int, int, int]] = []  # first thread bit, number of bits, shift of the image
        bit = 0
        while bit < len(bases):
            basis = bases[bit]
            if not basis:
                bit += 1
                continue
            if basis & (basis - 1):  # several bits: one at a time
                groups.append((bit, 1, basis))
                bit += 1
                continue
            run = 1
            while bit + run < len(bases) and bases[bit + run] == basis << run:
                run += 1
            groups.append((bit, run, basis))
            bit += run
        total: str | None = None
        thread = self.thread()
        all_bits = len(bases)
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

    def chosen(self, layout: Layout | None) -> str | None:
        """An i1: this thread is the one that stores elements held by several. None if each lies in one thread."""
        if layout is None:
            return self.once(f"icmp eq i32 {self.thread()}, 0")
        free = layout.replicated["lane"] | layout.replicated["warp"] << 5
        if not free:
            return None
        masked = self.once(f"and i32 {self.thread()}, {free}")
        return self.once(f"icmp eq i32 {masked}, 0")
