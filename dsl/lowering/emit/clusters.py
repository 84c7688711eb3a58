"""Emits exchanges between the blocks of a cluster, through distributed shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from dsl.lowering.emit.carriers import from_word, into_word
from dsl.lowering.emit.rules import rule
from dsl.lowering.emit.shared_address import shared_base
from dsl.lowering.emit.words import layout_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import SharedType
from dsl.lowering.layouts.layout import BasisSpan, Layout, bits_of
from dsl.lowering.ops.threads import word_bytes

WAIT = "barrier.cluster.wait.acquire.aligned"


def meet_cluster(w: Writer, op: Op, order: str) -> None:
    """Emits a barrier of all threads of the cluster. `order` is that of the arrival: `.release` or `.relaxed`."""
    w.template(f"barrier.cluster.arrive{order}.aligned", [], op)
    w.template(WAIT, [], op)


@rule("cluster_arrive")
def _arrive(w: Writer, op: Op) -> None:
    if _exchanges(w):
        w.template("barrier.cluster.arrive.relaxed.aligned", [], op)


@rule("cluster_gather")
def _gather(w: Writer, op: Op) -> None:
    """Emits an exchange. Threads store the block's elements in the shared memory of all blocks. All blocks meet. Each
    thread loads the elements of all blocks."""
    memory, blocks = op.operands[0], op.attrs["blocks"]
    assert isinstance(memory.type, SharedType)
    size = memory.type.shape[1]
    base, rank = shared_base(w, memory), w.head.narrow_special("cluster.ctarank")
    own = w.head.once(f"add i32 {base}, {w.head.once(f'mul i32 {rank}, {size}')}")
    if op is _exchanges(w)[0]:
        w.template(WAIT, [], op)
    parts, bits = list(_parts(w, op)), 8 * word_bytes(op.operands[1:])
    for part in parts:
        writers, peers = part.writers(w, blocks)
        for register, element in enumerate(w.registers[part.value]):
            address, word = part.address(w, own, register), into_word(w.text, element, part.value.dtype, bits)
            for peer in peers:
                (there,) = w.template("mapa.shared::cluster.u32", [address, peer], op)
                w.template(f"@st.shared::cluster.b{bits}", [there, word, writers], op)
    meet_cluster(w, op, ".release")
    for part, result in zip(parts, op.results, strict=True):
        span, made = BasisSpan(part.layout.register), list[str]()
        for coordinate in layout_of(result).offsets:
            block, place = divmod(coordinate, prod(part.layout.shape))
            found = span.solve(place)
            assert found is not None
            address = w.let(f"add i32 {part.address(w, base, found)}, {block * size}")
            (word,) = w.template(f"ld.shared.b{bits}", [address], op)
            made.append(from_word(w.text, word, result.dtype, bits))
        w.registers[result] = made


def _exchanges(w: Writer) -> list[Op]:
    return [op for op in w.function.body.ops if op.spec.acts == "exchanges" and op.results]


@dataclass(frozen=True, slots=True)
class _Words:
    """The place of a value's elements in the part of a block, from byte `start` on. An element has `bytes` bytes. Each
    thread's elements are neighbours. Threads with equal elements share them."""

    value: Value
    layout: Layout
    start: int
    bytes: int

    def address(self, w: Writer, base: str, register: int) -> str:
        """Returns the address of a register's element in the part of a block that begins at `base`."""
        used = [bit for bit, basis in enumerate(self.layout.thread) if basis]
        thread = w.head.once(f"mul i32 {_bits(w, used)}, {self.layout.count * self.bytes}") if used else "0"
        begin = w.head.once(f"add i32 {base}, {thread}") if used else base
        at = self.start + register * self.bytes
        return w.head.once(f"add i32 {begin}, {at}") if at else begin

    def writers(self, w: Writer, blocks: int) -> tuple[str, list[str]]:
        """Returns a flag that is true in threads that store, and the ranks of the blocks to which each one stores."""
        # Lanes with equal elements store to different blocks.
        free = [bit for bit, basis in enumerate(self.layout.thread) if not basis]
        chosen = [bit for bit in free if bit < 5][: bits_of(blocks)]
        idle = sum(1 << bit for bit in free if bit not in chosen)
        flag = w.head.once(f"icmp eq i32 {w.head.once(f'and i32 {w.head.thread()}, {idle}')}, 0") if idle else "true"
        peer, step = _bits(w, chosen), 1 << len(chosen)
        return flag, [w.head.once(f"add i32 {peer}, {first}") for first in range(0, blocks, step)]


def _parts(w: Writer, op: Op) -> Iterator[_Words]:
    start, size = 0, word_bytes(op.operands[1:])
    for value in op.operands[1:]:
        layout = value.tile.layout or Layout.of_one((), w.function.warps)
        yield _Words(value, layout, start, size)
        start += prod(layout.shape) * size


def _bits(w: Writer, bits: Sequence[int]) -> str:
    """Returns the number that these bits of the thread's number form, as i32."""
    number = "0"
    for place, bit in enumerate(bits):
        one = w.head.once(f"and i32 {w.head.once(f'lshr i32 {w.head.thread()}, {bit}')}, 1")
        number = w.head.once(f"or i32 {number}, {w.head.once(f'shl i32 {one}, {place}')}")
    return number
