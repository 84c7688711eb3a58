"""Emits exchanges between the blocks of a cluster, through distributed shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod

from msgspec import Struct

from dsl.lowering.emit.carriers import from_word, into_word
from dsl.lowering.emit.mbarriers import BARRIER, arrive_in_blocks, await_phase, begin_mbarriers, narrow
from dsl.lowering.emit.rules import rule
from dsl.lowering.emit.shared_address import shared_base
from dsl.lowering.emit.words import layout_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.layouts.layout import BasisSpan, Layout, bits_of
from dsl.lowering.ops.threads import (
    MBARRIERS,
    SCATTER_HEAD,
    TURNS,
    exchanges_in,
    groups_of_scatter,
    scattered_bytes,
    scattered_place,
    word_bytes,
)

WAIT = "barrier.cluster.wait.acquire.aligned"


def meet_cluster(w: Writer, op: Op, order: str) -> None:
    """Emits a barrier of all threads of the cluster. `order` is that of the arrival: `.release` or `.relaxed`."""
    w.template(f"barrier.cluster.arrive{order}.aligned", [], op)
    w.template(WAIT, [], op)


@rule("cluster_arrive")
def _arrive(w: Writer, op: Op) -> None:
    """Emits the start of a block of a cluster, with the mbarriers of its exchanges in loops."""
    exchanges = exchanges_in(w.function.body)
    for each in {each.operands[0]: each for each in exchanges}.values():  # an unrolled loop has copies of an exchange
        if "again" not in each.attrs:  # cluster_scatter
            begin_mbarriers(w, op, shared_base(w, each.operands[0]), [(0, 1)])
        elif each.attrs["again"]:
            readers = w.function.warps * each.attrs["blocks"]
            counts = [1] * (2 * TURNS) + [readers] * 2
            begin_mbarriers(w, op, shared_base(w, each.operands[0]), enumerate(counts))
    if exchanges:
        w.template("barrier.cluster.arrive.relaxed.aligned", [], op)


@rule("cluster_wait")
def _wait(w: Writer, op: Op) -> None:
    w.template(WAIT, [], op)


@rule("cluster_leave")
def _leave(w: Writer, op: Op) -> None:
    w.template("barrier.cluster.arrive.release.aligned", [], op)


@rule("cluster_gather")
def _gather(w: Writer, op: Op) -> None:
    """Emits an exchange. Threads store the block's elements in the shared memory of all blocks. Each thread waits, and
    loads the elements of all blocks."""
    exchange = _Repeated(w, op) if op.attrs["again"] else _Once(w, op)
    parts, bits = list(_parts(w, op)), 8 * word_bytes(_values(op))
    for part in parts:
        writers, peers = part.writers(w, op.attrs["blocks"])
        for register, element in enumerate(w.registers[part.value]):
            address = exchange.now(part.address(w, exchange.own, register))
            word = into_word(w.text, element, part.value.dtype, bits)
            for peer in peers:
                (there,) = w.template("mapa.shared::cluster.u32", [address, peer], op)
                exchange.store(there, word, bits, peer, writers)
    exchange.meet()
    for part, result in zip(parts, op.results, strict=True):
        span, made = BasisSpan(part.layout.register), list[str]()
        for coordinate in layout_of(result).offsets:
            block, place = divmod(coordinate, prod(part.layout.shape))
            found = span.solve(place)
            assert found is not None
            address = exchange.now(w.let(f"add i32 {part.address(w, exchange.base, found)}, {block * exchange.size}"))
            (word,) = w.template(f"ld.shared.b{bits}", [address], op)
            made.append(from_word(w.text, word, result.dtype, bits))
        w.registers[result] = made
    exchange.end()


class _Once:
    """An exchange in straight code. All blocks meet between its stores and its loads. The elements of a block have
    `size` bytes. Those of the first block begin at address `base`, those of this block at `own`."""

    def __init__(self, w: Writer, op: Op, ahead: int = 0):
        self.w, self.op, self.size = w, op, _size(op)
        self.begin, rank = shared_base(w, op.operands[0]), w.head.narrow_special("cluster.ctarank")
        self.base = w.head.once(f"add i32 {self.begin}, {ahead}") if ahead else self.begin
        self.own = w.head.once(f"add i32 {self.base}, {w.head.once(f'mul i32 {rank}, {self.size}')}")

    def now(self, address: str) -> str:
        """Returns the address for this execution of the exchange."""
        return address

    def store(self, there: str, word: str, bits: int, peer: str, writers: str) -> None:
        self.w.template(f"@st.shared::cluster.b{bits}", [there, word, writers], self.op)

    def meet(self) -> None:
        meet_cluster(self.w, self.op, ".release")

    def end(self) -> None: ...


class _Repeated(_Once):
    """An exchange in a loop. Asynchronous stores complete a phase of the `full` mbarrier of each block. The shared tile
    has room for two rounds of TURNS exchanges. At the end of a round, all warps arrive at the `free` mbarriers of all
    blocks. Such an arrival waits for the thread's stores (MEMBAR.ALL.GPU), and so would a barrier of the cluster at
    each exchange, which also clears the L1 (CCTL.IVALL)."""

    def __init__(self, w: Writer, op: Op):
        super().__init__(w, op, MBARRIERS)
        turn, bytes = narrow(w, op.operands[-1]), op.attrs["blocks"] * self.size
        number, half = w.let(f"and i32 {turn}, {2 * TURNS - 1}"), w.let(f"and i32 {self._over(turn, TURNS)}, 1")
        self.place = w.let(f"and i32 {turn}, {TURNS - 1}")
        self.used = self._over(turn, 2 * TURNS)
        self.apart = w.let(f"mul i32 {number}, {bytes}")
        self.full = w.let(f"add i32 {self.begin}, {w.let(f'mul i32 {number}, {BARRIER}')}")
        free = w.let(f"add i32 {self.begin}, {w.let(f'mul i32 {half}, {BARRIER}')}")
        self.free = w.let(f"add i32 {free}, {2 * TURNS * BARRIER}")
        with w.text.only_if(w.let(f"icmp eq i32 {self.place}, 0")):
            # The `1` is added because the phases of `free` are one use behind.
            await_phase(w, op, self.free, w.let(f"add i32 {self.used}, 1"), ".acquire.cluster")
        first = w.head.once(f"icmp eq i32 {w.head.thread()}, 0")
        w.template("@mbarrier.arrive.expect_tx.shared.b64", [self.full, str(bytes), first], op)

    def _over(self, turn: str, count: int) -> str:
        return self.w.let(f"lshr i32 {turn}, {count.bit_length() - 1}")

    def now(self, address: str) -> str:
        return self.w.let(f"add i32 {address}, {self.apart}")

    def store(self, there: str, word: str, bits: int, peer: str, writers: str) -> None:
        (full,) = self.w.template("mapa.shared::cluster.u32", [self.full, peer], self.op)
        name = f"@st.async.shared::cluster.mbarrier::complete_tx::bytes.b{bits}"
        self.w.template(name, [there, word, full, writers], self.op)

    def meet(self) -> None:
        await_phase(self.w, self.op, self.full, self.used)

    def end(self) -> None:
        with self.w.text.only_if(self.w.let(f"icmp eq i32 {self.place}, {TURNS - 1}")):
            self.w.template("bar.warp.sync", ["-1"], self.op)
            arrive_in_blocks(self.w, self.op, self.free, self.op.attrs["blocks"], ".release.cluster")


@rule("cluster_scatter")
def _scatter(w: Writer, op: Op) -> None:
    """Emits an exchange in which each block gives other elements to each block. A thread stores its elements where the
    thread of the same number in the other block loads them: up to 16 bytes at a time, side by side with those of the
    next thread. Asynchronous stores complete the phase of the other block's mbarrier."""
    blocks, groups = op.attrs["blocks"], groups_of_scatter(op)
    bits = 8 * word_bytes(op.results)
    full, rank = shared_base(w, op.operands[0]), w.head.narrow_special("cluster.ctarank")
    given = op.results[::blocks]
    first = w.head.once(f"icmp eq i32 {w.head.thread()}, 0")
    w.template("@mbarrier.arrive.expect_tx.shared.b64", [full, str((blocks - 1) * scattered_bytes(given)), first], op)
    words = dict[Value, list[str]]()
    parts = [_Vectors(w, group[0], start, bits) for group, start in zip(groups, _starts(groups, bits), strict=True)]

    def place(giver: str, taker: str) -> str:
        """Returns the address at which a block's memory has what another one gives: there is no place for its own."""
        behind = w.let(f"zext i1 {w.let(f'icmp ugt i32 {giver}, {taker}')} to i32")
        place = w.let(f"mul i32 {w.let(f'sub i32 {giver}, {behind}')}, {scattered_place(given)}")
        return w.let(f"add i32 {w.let(f'add i32 {full}, {SCATTER_HEAD}')}, {place}")

    for peer in range(blocks):
        at, other = place(rank, str(peer)), w.let(f"icmp ne i32 {rank}, {peer}")
        to, barrier = (w.template("mapa.shared::cluster.u32", [each, str(peer)], op)[0] for each in (at, full))
        for part, group in zip(parts, groups, strict=True):
            own = [into_word(w.text, each, group[peer].dtype, bits) for each in w.registers[group[peer]]]
            words[group[peer]] = own
            flag = w.let(f"and i1 {part.writers}, {other}")
            for at, vector in part.addresses(to):
                name = f"@st.async.shared::cluster.mbarrier::complete_tx::bytes.{part.width}"
                w.template(name, [at, *(own[each] for each in vector), barrier, flag], op)
    await_phase(w, op, full, "0")
    for peer in range(blocks):
        there, other = place(str(peer), rank), w.let(f"icmp ne i32 {rank}, {peer}")
        for part, group in zip(parts, groups, strict=True):
            result, own = group[blocks + peer], words[group[peer]]
            name, got = f"@ld.shared.{part.width}", list[str]()
            for at, vector in part.addresses(there):
                got += w.template(name, [*(own[each] for each in vector), at, other], op)
            w.registers[result] = [from_word(w.text, word, result.dtype, bits) for word in got]


class _Vectors:
    """The places of a value's elements in the part of a block, from byte `start` on. `width` is that of an access.
    Threads with equal elements share them, and the flag `writers` is true in one of them."""

    def __init__(self, w: Writer, value: Value, start: int, bits: int):
        self.w, self.start = w, start
        layout = value.tile.layout or Layout.of_one((), w.function.warps)
        used = [bit for bit, basis in enumerate(layout.thread) if basis]
        idle = sum(1 << bit for bit, basis in enumerate(layout.thread) if not basis)
        self.count, self.threads = layout.count, 1 << len(used)
        self.each = min(self.count, 128 // bits)
        self.width = f"v{self.each}.b{bits}" if self.each > 1 else f"b{bits}"
        self.bytes = self.each * bits // 8
        self.place = w.head.once(f"mul i32 {_bits(w, used)}, {self.bytes}") if used else "0"
        copies = w.head.once(f"and i32 {w.head.thread()}, {idle}") if idle else "0"
        self.writers = w.head.once(f"icmp eq i32 {copies}, 0") if idle else "true"

    def addresses(self, base: str) -> Iterator[tuple[str, range]]:
        """Yields the address of each vector in the part of a block that begins at `base`, with its registers."""
        begin = self.w.let(f"add i32 {base}, {self.place}")
        for first in range(0, self.count, self.each):
            at = self.start + first // self.each * self.threads * self.bytes
            yield self.w.let(f"add i32 {begin}, {at}"), range(first, first + self.each)


def _starts(groups: Sequence[Sequence[Value]], bits: int) -> list[int]:
    """Returns the bytes at which the groups begin in the part of a block."""
    return [0, *accumulate(prod(group[0].tile.shape) * bits // 8 for group in groups)][:-1]


def _values(op: Op) -> list[Value]:
    """Returns the tiles that an operation exchanges."""
    return op.operands[1 : 1 + len(op.results)]


def _size(op: Op) -> int:
    """Returns the number of bytes of a block's elements."""
    values = _values(op)
    return sum(prod(value.tile.shape) for value in values) * word_bytes(values)


class _Words(Struct, frozen=True):
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
    start, size = 0, word_bytes(_values(op))
    for value in _values(op):
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
