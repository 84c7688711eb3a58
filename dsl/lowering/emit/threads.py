"""Emits operations that exchange data between the lanes of a warp: reductions, scans, shuffles, votes."""

from __future__ import annotations

from math import prod

from dsl.lowering.building.builder import attribute_key
from dsl.lowering.emit.carriers import from_word, into_word
from dsl.lowering.emit.rules import inline, rule
from dsl.lowering.emit.words import count_of, layout_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Block, Op
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import DType
from dsl.lowering.layouts.layout import BasisSpan, Layout, moved_index
from dsl.lowering.ops.gather import GatherPlaces, gather_places

ALL_LANES = "-1"


def shuffle(w: Writer, x: str, dtype: DType, mode: str, lane: str, clamp: str = "31") -> str:
    """Emits a `shfl.sync` of all lanes for one element of any width. The instruction moves 32 bits. So smaller elements
    are widened, and 64-bit elements need two instructions."""
    if w.bits(dtype) < 64:
        word = into_word(w.text, x, dtype)
        return from_word(w.text, w.template(f"shfl.sync.{mode}.b32", [word, lane, clamp, ALL_LANES])[0], dtype)
    llvm = w.llvm(dtype)
    raw = x if not dtype.is_float else w.let(f"bitcast {llvm} {x} to i64")
    low = w.let(f"trunc i64 {raw} to i32")
    high = w.let(f"trunc i64 {w.let(f'lshr i64 {raw}, 32')} to i32")
    low, high = (w.template(f"shfl.sync.{mode}.b32", [v, lane, clamp, ALL_LANES])[0] for v in (low, high))
    wide_low, wide_high = w.let(f"zext i32 {low} to i64"), w.let(f"zext i32 {high} to i64")
    joined = w.let(f"or i64 {wide_low}, {w.let(f'shl i64 {wide_high}, 32')}")
    return joined if not dtype.is_float else w.let(f"bitcast i64 {joined} to {llvm}")


_REDUX = {"add": "add", "minimum": "min", "maximum": "max", "and": "and", "or": "or", "xor": "xor"}


def _redux(op: Op) -> str | None:
    """Returns the name of the `redux.sync` instruction for a reduction over all lanes. Returns None if there is no such
    instruction."""
    region = op.regions[0]
    dtype = op.operands[0].dtype
    if len(op.operands) != 1 or len(region.ops) != 2 or dtype.name not in ("s32", "u32"):
        return None
    step = region.ops[0]
    if step.name not in _REDUX or set(step.operands) != set(region.args):
        return None
    kind = _REDUX[step.name]
    return f"redux.sync.{kind}.{'b32' if kind in ('and', 'or', 'xor') else dtype}"


@rule("reduce", "partial_reduce")
def _reduce(w: Writer, op: Op) -> None:
    """Emits a reduction: first over the registers of each lane, pairwise, and then over the lanes, by butterfly
    shuffles. Afterwards, each lane has the result."""
    axis = op.attrs["axis"]
    layout = layout_of(op.operands[0])
    mask = layout.axis_mask(axis)
    groups, lanes = _groups(layout, mask)
    dtypes = [o.dtype for o in op.operands]
    region = op.regions[0]
    # `redux.sync` reduces only the lanes of one mask. For several groups of lanes, each group would need its own
    # instruction.
    redux = _redux(op) if len(lanes) == 5 else None
    if redux is not None:
        costs = {"redux": 1, "shuffles": len(lanes)}
        because = "one instruction joins 32-bit integers of all lanes"
        options, unit = {"redux": redux, "shuffles": None}, "exchanges between lanes"
        redux = w.switches.of(op, "reduction", options, because, costs=costs, unit=unit)
    stored = op.name == "partial_reduce"  # one lane stores the result, so lanes need not agree
    agree = redux is not None or not lanes or stored or op.attrs.get("commutes", False) or commutes(region)
    done: dict[int, list[str]] = {}
    for key, members in groups.items():
        value = _pairwise(w, op, members)
        if redux is not None:
            value = w.template(redux, [value[0], ALL_LANES], op)
        else:
            for bit in lanes:
                other = [shuffle(w, v, d, "bfly", str(1 << bit)) for v, d in zip(value, dtypes, strict=True)]
                value = inline(w, region, value + other)
        done[key] = value if agree else [_of_first(w, v, d, lanes) for v, d in zip(value, dtypes, strict=True)]
    for i, result in enumerate(op.results):
        target = result.tile.layout
        if target is None:
            w.registers[result] = [next(iter(done.values()))[i]]
            continue
        w.registers[result] = [done[_widened(c, target, layout, axis)][i] for c in target.offsets]


def _groups(layout: Layout, mask: int) -> tuple[dict[int, list[int]], list[int]]:
    """Groups registers by their coordinate along all axes except one. Returns the groups, and the lane bits that change
    the index along that axis. `mask` contains the coordinate bits of that axis."""
    groups: dict[int, list[int]] = {}
    for register, coordinate in enumerate(layout.offsets):
        groups.setdefault(coordinate & ~mask, []).append(register)
    return groups, [bit for bit, basis in enumerate(layout.lane) if basis & mask]


def _of_first(w: Writer, x: str, dtype: DType, lanes: list[int]) -> str:
    """Broadcasts the result of the first lane of a reduction. In the reduction, each lane passes its own value as the
    first argument. So the lanes have different results if the function does not commute."""
    others = sum(1 << bit for bit in lanes)
    first = "0" if others == 31 else w.head.once(f"and i32 {w.head.thread()}, {31 & ~others}")
    return shuffle(w, x, dtype, "idx", first)


def commutes(region: Block) -> bool:
    """Whether f(a, b) = f(b, a) for the function f of a reduction, where a and b are groups of scalars. The check swaps
    them and compares the operations."""
    half = len(region.args) // 2
    forms: dict[tuple, int] = {}  # maps (operation, operand numbers, attributes) to the number of the result
    ends = []
    for order in (region.args, [*region.args[half:], *region.args[:half]]):
        form = {a: i for i, a in enumerate(order)}
        for op in region.ops[:-1]:
            if op.regions or not op.spec.pure or len(op.results) != 1:
                return False
            operands = [form[o] if o in form else forms.setdefault((o,), -1 - len(forms)) for o in op.operands]
            name = op.name
            if op.spec.algebra.commutes:
                operands.sort()
            # a < b and b > a are equal, so both get the name that comes first in the alphabet
            elif op.spec.algebra.mirror is not None and op.spec.algebra.mirror < name:
                operands.reverse()
                name = op.spec.algebra.mirror
            made = (name, *operands, attribute_key(op.attrs))
            form[op.result] = forms.setdefault(made, -1 - len(forms))
        ends.append([form.get(v) for v in region.ops[-1].operands])
    return ends[0] == ends[1]


def _pairwise(w: Writer, op: Op, registers: list[int]) -> list[str]:
    """Reduces `registers`, whose number is a power of two, as a binary tree. The tree is evaluated depth first, so that
    few partial results are live."""
    if len(registers) == 1:
        return [w.registers[o][registers[0]] for o in op.operands]
    # In a tree, unlike a chain, half of the additions are independent, and f32 loses less precision.
    half = len(registers) // 2
    return inline(w, op.regions[0], _pairwise(w, op, registers[:half]) + _pairwise(w, op, registers[half:]))


def _widened(coordinate: int, target: Layout, layout: Layout, axis: int) -> int:
    """Converts a coordinate of the reduced tile to a coordinate of the unreduced tile. Its index along the reduced axis
    is 0."""
    inner = prod(layout.shape[axis + 1 :])
    # A partial reduction keeps the axis, and the index along it is 0 in every thread.
    kept = len(target.shape) == len(layout.shape)
    outer_step = inner * (target.shape[axis] if kept else 1)
    return coordinate // outer_step * inner * layout.shape[axis] + coordinate % inner


@rule("scan")
def _scan(w: Writer, op: Op) -> None:
    """Emits a scan. Each thread scans its own registers in order. Then, for each lane bit, the later half of the lanes
    adds the total of the earlier half."""
    axis, reverse = op.attrs["axis"], op.attrs["reverse"]
    layout = layout_of(op.operands[0])
    mask = layout.axis_mask(axis)
    region = op.regions[0]
    dtypes = [o.dtype for o in op.operands]
    groups, lanes = _groups(layout, mask)
    out: list[list[str]] = [[""] * layout.count for _ in op.results]

    def join(first: list[str], second: list[str]) -> list[str]:
        """Combines two partial results. `first` precedes `second` along the scan's axis."""
        return inline(w, region, second + first if reverse else first + second)

    def chosen(flag: str, then: list[str], otherwise: list[str]) -> list[str]:
        each = zip(dtypes, then, otherwise, strict=True)
        return [w.let(f"select i1 {flag}, {w.llvm(d)} {a}, {w.llvm(d)} {b}") for d, a, b in each]

    for members in groups.values():
        members.sort(key=lambda r: layout.offsets[r] & mask, reverse=reverse)
        rows = [[w.registers[o][r] for o in op.operands] for r in members]
        for i in range(1, len(rows)):
            rows[i] = inline(w, region, rows[i - 1] + rows[i])
        total = rows[-1]
        for bit in lanes:
            other = [shuffle(w, v, d, "bfly", str(1 << bit)) for v, d in zip(total, dtypes, strict=True)]
            lane_bit = w.head.once(f"and i32 {w.head.thread()}, {1 << bit}")
            after = w.head.once(f"icmp {'eq' if reverse else 'ne'} i32 {lane_bit}, 0")
            for i, row in enumerate(rows):
                joined = inline(w, region, other + row)
                rows[i] = chosen(after, joined, row)
            total = chosen(after, inline(w, region, other + total), inline(w, region, total + other))
        for register, row in zip(members, rows, strict=True):
            for k, value in enumerate(row):
                out[k][register] = value
    for result, registers in zip(op.results, out, strict=True):
        w.registers[result] = registers


def _places(layout: Layout, axis: int, bits: int) -> str:
    """Returns text for an error message, which lists the lane and register bits that contain the low bits of an
    index."""
    stride = layout.axis_mask(axis) & -layout.axis_mask(axis)
    out = []
    for bit in range(bits):
        names = [f"{n} bit {i}" for n, bases in layout.places for i, b in enumerate(bases) if b == stride << bit]
        out.append(f"bit {bit} of the index in {names[0] if names else 'no single place'}")
    return "; ".join(out)


def _first_lane_bit(layout: Layout, stride: int, bits: int) -> int | None:
    """Returns the first of `bits` consecutive lane bits with the bases `stride`, 2 · `stride`, 4 · `stride` … Returns
    None if there are fewer such bits. Also returns None if other bits change the same index bits, because each register
    would then need a different lane."""
    low = [i for i, b in enumerate(layout.lane) if b == stride]
    first = low[0] if low else 0
    if bits and (not low or any(layout.lane[first + k : first + k + 1] != (stride << k,) for k in range(bits))):
        return None
    others = (*layout.lane[:first], *layout.lane[first + bits :], *layout.register, *layout.warp)
    return None if any(basis & ((1 << bits) - 1) * stride for basis in others) else first


@rule("shuffle")
def _shuffle(w: Writer, op: Op) -> None:
    """Emits one `shfl.sync` for each element, or only renames registers. Raises TileError `layout` if neither is
    possible. The hint of the error lists which lane and register bits contain the index."""
    layout = layout_of(op.operands[0])
    axis, mode, width, distance = (op.attrs[k] for k in ("axis", "mode", "width", "distance"))
    stride = layout.axis_mask(axis) & -layout.axis_mask(axis) or 1
    bits = width.bit_length() - 1
    source = w.registers[op.operands[0]]
    dtype = op.operands[0].dtype

    def refuse() -> TileError:
        message = f"shfl.{mode} within {width} elements is no single shfl.sync in this layout"
        return TileError("layout", op.loc, message, _places(layout, axis, bits))

    if mode == "xor" and distance is not None:
        split = BasisSpan(layout.lane + layout.register).solve(distance * stride)
        if split is None:
            raise refuse()
        lanes, registers = split & 31, split >> 5
        moved = [source[r ^ registers] for r in range(len(source))]
        w.registers[op.result] = [shuffle(w, v, dtype, "bfly", str(lanes)) for v in moved] if lanes else moved
        return
    first = _first_lane_bit(layout, stride, bits)
    if first is None:
        raise refuse()
    lane = str((distance or 0) << first)
    # If a distance is known only at run time, it may exceed the width. Each lane then keeps its own element.
    inside: str | None = None
    if distance is None:
        amount = w.registers[op.operands[1]][0]
        given = op.operands[1].dtype
        llvm = w.llvm(given)
        inside = w.let(f"icmp ult {llvm} {amount}, {width}")
        if w.bits(given) > 32:
            amount = w.let(f"trunc {llvm} {amount} to i32")
        elif w.bits(given) < 32:
            amount = w.let(f"zext {llvm} {amount} to i32")
        lane = w.let(f"shl i32 {amount}, {first}") if first else amount
    segment = (~((width << first) - 1)) & 31  # the lane bits that select the segment of `width` lanes
    if mode == "idx" and first:  # the low lane bits are those of this lane
        own = w.head.once(f"and i32 {w.head.thread()}, {(1 << first) - 1}")
        lane = w.let(f"or i32 {lane}, {own}")
    clamp = str(segment << 8 | (0 if mode == "up" else 31))
    name = {"xor": "bfly", "up": "up", "down": "down", "idx": "idx"}[mode]
    moved = [shuffle(w, v, dtype, name, lane, clamp) for v in source]
    if inside is not None:
        llvm = w.llvm(dtype)
        moved = [w.let(f"select i1 {inside}, {llvm} {m}, {llvm} {v}") for m, v in zip(moved, source, strict=True)]
    w.registers[op.result] = moved


@rule("gather")
def _gather(w: Writer, op: Op) -> None:
    """Emits a gather within warps. The bits of an index that lie in lane numbers select the lane of a `shfl.sync`. Each
    register in which the element may lie there is shuffled, and the other bits of the index select one."""
    (x, index), axis = op.operands, op.attrs["axis"]
    source, made = layout_of(x), layout_of(op.result)
    places = gather_places(source, made, axis)
    if places is None:  # only if a layout was edited in the IR text
        raise TileError("ir", op.loc, "a gather from other warps", "the layouts as 'lower_conversions' leaves them")
    register_at = {offset: register for register, offset in enumerate(source.offsets)}
    bits, out = w.bits(index.dtype), []
    way = "trunc" if bits > 32 else "sext" if index.dtype.is_signed else "zext"
    for offset, number in zip(made.offsets, w.registers[index], strict=True):
        word = number if bits == 32 else w.let(f"{way} i{bits} {number} to i32")
        first = register_at[moved_index(offset & ~made.axis_mask(axis), made.shape, source.shape)]
        found = [first]
        for _, bit in places.registers:
            found += [register | 1 << bit for register in found]
        values = [w.registers[x][register] for register in found]
        if places.lanes:
            lane = _gathered_lane(w, word, places)
            values = [shuffle(w, value, x.dtype, "idx", lane) for value in values]
        llvm = w.llvm(x.dtype)
        for bit, _ in places.registers:
            flag = w.let(f"icmp ne i32 {w.let(f'and i32 {word}, {1 << bit}')}, 0")
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [w.let(f"select i1 {flag}, {llvm} {one}, {llvm} {zero}") for zero, one in pairs]
        out.append(values[0])
    w.registers[op.result] = out


def _gathered_lane(w: Writer, word: str, places: GatherPlaces) -> str:
    """Emits the number of the lane that has the element of an index: some bits are those of the index, and the others
    those of this lane."""
    others = 31 & ~sum(1 << lane for _, lane in places.lanes)
    lane = w.head.once(f"and i32 {w.head.thread()}, {others}") if others else ""
    moves: dict[int, int] = {}  # maps a distance to the bits of the index that move by it
    for bit, to in places.lanes:
        moves[to - bit] = moves.get(to - bit, 0) | 1 << bit
    for distance, mask in moves.items():
        part = w.let(f"and i32 {word}, {mask}")
        if distance:
            part = w.let(f"{'shl' if distance > 0 else 'lshr'} i32 {part}, {abs(distance)}")
        lane = w.let(f"or i32 {lane}, {part}") if lane else part
    return lane


@rule("vote")
def _vote(w: Writer, op: Op) -> None:
    if count_of(op.operands[0]) != 1:
        raise TileError("layout", op.loc, f"a vote takes one element a thread; {op.operands[0].tile} has more here")
    flag, mode = w.registers[op.operands[0]][0], op.attrs["mode"]
    name = "vote.sync.ballot.b32" if mode == "ballot" else f"vote.sync.{mode}.pred"
    w.registers[op.result] = w.template(name, [flag, ALL_LANES], op)
