"""Emits loads, stores, atomics, asynchronous copies and barriers."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from dsl.lowering.emit.access import AccessAddress, access_name, guard
from dsl.lowering.emit.carriers import from_carrier, into_carrier
from dsl.lowering.emit.constants import constant
from dsl.lowering.emit.control import close_phi, meet
from dsl.lowering.emit.elementwise import extreme_of_floats
from dsl.lowering.emit.partial import load_partly, source_bytes, store_partly
from dsl.lowering.emit.pipelines import OF_ROLE
from dsl.lowering.emit.rules import rule
from dsl.lowering.emit.shifted import shifted_words
from dsl.lowering.emit.words import count_of, layout_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Op, Value, subject_of
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import BF16, I1, DType
from dsl.lowering.ops import operand, required, space_of
from dsl.lowering.ops.memory import atomic_row


def _mask_of(op: Op) -> Value | None:
    """Returns the mask of an access, or None if the mask is on for all elements."""
    mask = operand(op, "mask")
    return None if mask is None or constant_of(mask) is True else mask


@rule("load")
def _load(w: Writer, op: Op) -> None:
    memory, offset, mask, other = op.operands[0], required(op, "offset"), _mask_of(op), operand(op, "other")
    space = space_of(memory)
    if space == "param":
        _load_table(w, op, memory, offset)
        return
    dtype = memory.dtype
    way, count = w.accesses[op], count_of(op.result)
    width = way.width
    address = AccessAddress(w, op, memory, operand(op, "stage"), offset, space)
    fill = w.registers[other] if other is not None else [constant(0, dtype)] * count
    if mask is not None and way.partial:
        w.registers[op.result] = load_partly(w, op, address, mask, fill, width)
        return
    if way.shifted:
        words = [shifted_words(w, op, address.of(first), width) for first in range(0, count, width)]
        w.registers[op.result] = [e for each in words for e in w.words.unpack(each, dtype, width)]
        return
    alone = w.head.chosen(op.result.tile.layout) if op.attrs.get("one_thread") else None
    out: list[str] = []
    for first in range(0, count, width):
        name = access_name(op, "ld", space, width, dtype.bytes)
        inputs = [address.of(first)]
        condition = None if mask is None else w.registers[mask][first]
        if alone is not None:
            condition = alone if condition is None else w.let(f"and i1 {condition}, {alone}")
        if condition is not None:
            inputs = [*w.words.pack(fill[first : first + width], dtype), *inputs, condition]
            name = "@" + name
        out += w.words.unpack(w.template(name, inputs, op), dtype, width)
    w.registers[op.result] = out


def _load_table(w: Writer, op: Op, memory: Value, offset: Value) -> None:
    """Emits a load from a table in the kernel's parameters. If the mask is off, element 0 is read but not used. This is
    always legal and needs no branch."""
    mask, other = operand(op, "mask"), operand(op, "other")
    dtype, llvm = memory.dtype, w.llvm(memory.dtype)
    stored = "i8" if dtype is I1 else llvm
    out = []
    for i, o in enumerate(w.registers[offset]):
        if mask is not None:
            o = w.let(f"select i1 {w.registers[mask][i]}, {w.index} {o}, {w.index} 0")
        place = w.let(f"getelementptr {stored}, ptr {w.registers[memory][0]}, {w.index} {o}")
        element = w.let(f"load {stored}, ptr {place}")
        if dtype is I1:
            element = w.let(f"icmp ne i8 {element}, 0")
        if mask is not None and other is not None:
            element = w.let(f"select i1 {w.registers[mask][i]}, {llvm} {element}, {llvm} {w.registers[other][i]}")
        out.append(element)
    w.registers[op.result] = out


@rule("store")
def _store(w: Writer, op: Op) -> None:
    memory, offset, mask, value = op.operands[0], required(op, "offset"), _mask_of(op), required(op, "value")
    dtype, space = memory.dtype, space_of(memory)
    layout = value.tile.layout
    way = w.accesses[op]
    width = way.width
    address = AccessAddress(w, op, memory, operand(op, "stage"), offset, space)
    if mask is not None and way.partial:
        store_partly(w, op, address, mask, value, width)
        return
    for first in range(0, count_of(value), width):
        name = access_name(op, "st", space, width, dtype.bytes)
        data = w.words.pack(w.registers[value][first : first + width], dtype)
        condition = guard(w, None if mask is None else w.registers[mask][first], layout)
        inputs = [address.of(first), *data]
        if condition is not None:
            name, inputs = "@" + name, [*inputs, condition]
        w.template(name, inputs, op)


def _atomic_type(w: Writer, dtype: DType, action: str) -> str:
    bits = w.bits(dtype)
    if action in ("and", "or", "xor", "exchange", "cas"):
        return f"b{bits}"
    if dtype.is_float:
        return f"noftz.{dtype}" if bits == 16 else str(dtype)
    if action == "add" and bits == 64:
        return "u64"  # PTX has no atomic add.s64, but add.u64 computes the same bits
    return f"{'s' if dtype.is_signed else 'u'}{bits}"


@rule("atomic")
def _atomic(w: Writer, op: Op) -> None:
    memory, offset, mask = op.operands[0], required(op, "offset"), operand(op, "mask")
    value, expected = required(op, "value"), operand(op, "expected")
    dtype, space = memory.dtype, space_of(memory)
    layout, action = value.tile.layout, op.attrs["action"]
    address = AccessAddress(w, op, memory, operand(op, "stage"), offset, space)
    llvm = w.llvm(dtype)
    if (join := _without_instruction(w, dtype, action)) is not None:
        on = [w.registers[mask][i] if mask is not None else None for i in range(count_of(value))]
        chosen = [guard(w, each, layout) for each in on]
        given = w.registers[value]
        w.registers[op.result] = [_swapped(w, op, address.of(i), given[i], chosen[i], join) for i in range(len(given))]
        return
    row_type = _atomic_type(w, dtype, action)
    name = atomic_row(op, f"{'exch' if action == 'exchange' else action}.{row_type}")
    # asm has no f16 and bf16 operands, so these are passed as i16. f32 and f64 are passed unchanged.
    carrier = f"i{max(w.bits(dtype), 16)}" if row_type.startswith(("b", "noftz")) or not dtype.is_float else llvm
    out = []
    for i in range(count_of(value)):
        inputs = [address.of(i)]
        if expected is not None:
            inputs.append(into_carrier(w.text, w.registers[expected][i], dtype, carrier))
        inputs.append(into_carrier(w.text, w.registers[value][i], dtype, carrier))
        condition = guard(w, None if mask is None else w.registers[mask][i], layout)
        row = name
        if condition is not None:
            # If the guard is off, the instruction leaves its output unchanged. So the output is initialised with 0, the
            # result of masked elements.
            zero = "0.0" if carrier in ("float", "double") else "0"
            row, inputs = "@" + name, [zero, *inputs, condition]
        out.append(from_carrier(w.text, w.template(row, inputs, op)[0], dtype, carrier))
    w.registers[op.result] = out


def _without_instruction(w: Writer, dtype: DType, action: str) -> Callable[[str, str], str] | None:
    """Returns what emits an atomic's action on two values, if PTX has no instruction for the atomic.

    The bits of floats, compared as integers, would give the maximum by one instruction, but not always: NaN in memory
    may have either sign, and one of them would lose against a number.
    """
    llvm = w.llvm(dtype)
    if dtype.is_float and action in ("min", "max"):
        return lambda old, value: extreme_of_floats(w, f"{action}imum", llvm, [old, value])
    if dtype is BF16 and action == "add" and w.target.number < 90:
        return lambda old, value: w.let(f"fadd {llvm} {old}, {value}")
    return None


def _swapped(w: Writer, op: Op, place: str, value: str, condition: str | None, join: Callable[[str, str], str]) -> str:
    """Emits an atomic of floats as a compare-and-swap loop, which writes the joined value if the memory still contains
    the old one. The first guess for the old value, with which such atomics usually start, saves a load. In each round,
    one of the competing threads succeeds."""
    action, dtype = op.attrs["action"], op.result.dtype
    llvm, bits = w.llvm(dtype), w.bits(dtype)
    name = atomic_row(op, f"cas.b{bits}")
    guess = constant({"add": 0.0, "min": inf, "max": -inf}[action], dtype)
    entry, again, done = w.text.label, w.fresh_label(action), w.fresh_label(f"{action}_done")
    first = w.let(f"bitcast {llvm} {guess} to i{bits}")
    w.do(f"br label %{again}" if condition is None else f"br i1 {condition}, label %{again}, label %{done}")
    w.start(again)
    seen = w.text.phi(f"i{bits} [ {first}, %{entry} ]")
    line = len(w.text.lines) - 1

    def joined(old: str) -> str:
        total = join(w.let(f"bitcast i{bits} {old} to {llvm}"), value)
        return w.let(f"bitcast {llvm} {total} to i{bits}")

    (found,) = w.template(name, [place, seen, joined(seen)], op)
    close_phi(w, line, found, again)
    ends = w.let(f"icmp eq i{bits} {found}, {seen}")
    if action != "add" and op.attrs["order"] in ("relaxed", "acquire"):
        # Most values do not exceed what the memory contains, so one round is enough. A release has to write, since
        # other threads synchronise with the written value.
        ends = w.let(f"or i1 {ends}, {w.let(f'icmp eq i{bits} {joined(found)}, {found}')}")
    w.do(f"br i1 {ends}, label %{done}, label %{again}")
    w.start(done)
    was = found if condition is None else w.text.phi(f"i{bits} [ 0, %{entry} ], [ {found}, %{again} ]")
    if w.loops:
        meet(w)
    return w.let(f"bitcast i{bits} {was} to {llvm}")


def _level(w: Writer, op: Op) -> str:
    """Chooses the cache operator, `cg` or `ca`, of an asynchronous copy of 16 bytes. Smaller copies have only `.ca`
    (PTX ISA, cp.async)."""
    rule = "all" if op.attrs["cache"] == "all" else "global"
    because = f"cache={rule}" if op.attrs["cache"] else "what a block copies into its shared memory it keeps there"
    return w.switches.of(op, "cache", {"global": "cg", "all": "ca"}, because, rule, subject_of)


@rule("copy")
def _copy(w: Writer, op: Op) -> None:
    """Emits an asynchronous copy. Each thread copies 16, 8 or 4 bytes at a time. If the mask is on for only the first
    of these bytes, the copy reads only these, and the hardware writes zeros for the rest."""
    shared, tensor = op.operands[0], required(op, "tensor")
    offset, source, mask = required(op, "offset"), required(op, "source"), _mask_of(op)
    layout, size = layout_of(source), shared.dtype.bytes
    way = w.accesses[op]
    width = way.width
    bytes = op.attrs["bytes"]
    if bytes != width * size:  # only if `bytes` or the address was edited in the IR text
        hint = "the copies as 'lower_copies' leaves them"
        raise TileError("ir", op.loc, f"copies of {bytes} bytes each, where {width * size} fit", hint)
    to = AccessAddress(w, op, shared, operand(op, "stage"), offset, "shared")
    origin = AccessAddress(w, op, tensor, None, source, "global")
    # 16-byte copies bypass the L1 cache (`.cg`). With `.ca`, matrix products are 3 to 12 % slower
    # (docs/measurements.md). Smaller copies have no `.cg`.
    level = "ca" if bytes < 16 else _level(w, op)
    sizes = source_bytes(w, op, mask, way) if mask is not None and way.partial else []
    for first in range(0, layout.count, width):
        name = f"cp.async.{level}.shared.global"
        inputs = [to.of(first), origin.of(first)]
        if mask is not None:
            name += ".zfill"
            if way.partial:
                inputs.append(sizes[first // width])
            else:
                inputs.append(_bytes_if(w, w.registers[mask][first], bytes))
        name += f".{bytes}"
        chosen = w.head.chosen(layout)
        if chosen is not None:
            name, inputs = "@" + name, [*inputs, chosen]
        w.template(name, inputs, op)


def _bytes_if(w: Writer, on: str, bytes: int) -> str:
    """Returns `bytes`, or 0 if the flag `on` is off."""
    # The code uses asm instead of `select`, because LLVM makes a chain of selects for a mask with several flags. This
    # takes three instructions for each row of a tile. ptxas turns a single `selp` into the predicate of the copy.
    if on in ("true", "false"):
        return str(bytes if on == "true" else 0)
    return w.let(f'call i32 asm "selp.b32 $0, {bytes}, 0, $1;", "=r,b"(i1 {on})')


@rule("commit", "wait", "tma_commit", "tma_wait", "tma_fence", "wait_for_launches", "let_next_start")
def _alone(w: Writer, op: Op) -> None:
    """Emits a single instruction. Its operand is the attribute `groups`, the number of copy groups that may be
    unfinished."""
    w.template(op.spec.becomes, [str(op.attrs["groups"])] if "groups" in op.attrs else [], op)


@rule("barrier")
def _barrier(w: Writer, op: Op) -> None:
    if op.attrs["scope"] == "warp":
        w.template("bar.warp.sync", ["-1"], op)
    else:
        if w.has_warpgroups:
            # wgmma reads shared memory through the asynchronous proxy. The fence makes earlier writes of this thread
            # visible to wgmma after the barrier.
            w.template("fence.proxy.async.shared::cta", [], op)
        # barrier 0 would also wait for the producer threads, which never arrive
        if w.function.attrs.get("producers"):
            w.template("bar.sync.threads", [str(OF_ROLE), str(w.function.threads)], op)
        else:
            w.template("bar.sync", ["0"], op)


@rule("shared_alloc")
def _shared_alloc(w: Writer, op: Op) -> None:
    w.registers[op.result] = []  # no register: accesses add the offset that `place_shared` has set
