"""`subtile acc: 128, 64`: divides a tile, and all values that depend on it, into subtiles of 128 x 64, without a loop.

    acc = zeros[256, 64]                     acc, acc' = zeros[128, 64], zeros[128, 64]
    for p:                                   for p, carrying acc, acc':
        x = load a[0 : 256]                      x, x' = load a[0 : 128], load a[128 : 256]
        acc = dot(x, y, acc)             →       acc, acc' = dot(x, y, acc), dot(x', y, acc')
    store c[0 : 256], acc                    store c[0 : 128], acc; store c[128 : 256], acc'

Each subtile is a separate carried value of a loop. An operand of several MMAs is loaded only once. With subtiles,
extents need not be powers of two: a tile of 256 x 192 is six subtiles of 128 x 64.

By default, the accumulator of an MMA is divided into four subtiles if a warp then has at least 32 x 32 elements of
each. With `prefetch_fragments`, a warp loads the next fragments of one subtile while it multiplies the other subtiles.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from dsl.lowering.building.builder import Builder
from dsl.lowering.directives.part_maker import PartMaker
from dsl.lowering.directives.slices import located, reached
from dsl.lowering.directives.subjects import named_tiles, note_gone, unknown
from dsl.lowering.directives.tma_stores import MOST_AT_ONCE
from dsl.lowering.directives.wide import Wide, is_reduction, name_of
from dsl.lowering.hopper.warpgroup import is_turn, rows_together
from dsl.lowering.ir.function import Block, Function, Op, Value, in_line, parents, replace_uses, uses, walk
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.types import SharedType, TileType
from dsl.lowering.known.facts import facts_now
from dsl.lowering.ops.control import names, parting
from dsl.lowering.ops.memory import writes
from dsl.lowering.plan.products import adding, is_sum_of_wgmma, is_wgmma
from dsl.lowering.plan.tile_loads import adds_products, is_store

LEAST = 32 * 32
"""By default, a subtile has at least this many elements per warp."""
LEAST_COLUMNS = 32
MOST_WHOLE = 65536
"""By default, TMA stores tiles up to this number of bytes as a whole, and larger tiles in parts of MOST_AT_ONCE bytes.

An s8 product of 4096 with s32 results (128 x 256 x 128, H200) takes 124 us if the whole tile of 128 KB is stored at
once. The ring then has room for only two stages. The product takes 97 us with parts of 128 columns, and 96 us with
parts of 64 columns. An f16 product of 8192 takes 1474 us with the whole tile of 64 KB, and 1505 us with parts of 128
columns.
"""
MOST_OF_JOINED = 192
"""The maximum number of registers per thread for accumulators and for the MMA results that are added to them. An e4m3
product of 4096 with accumulation in f32 takes 220 us with 256 such registers, which spill, and 100 us with 192."""
MOST_PARTS = 256
"""The maximum number of subtiles. Each subtile has its own operations, and building 4,096 subtiles took 10 s."""


def subtile(function: Function) -> None:
    """Cuts the values in `subtile` lines. By default, also cuts accumulators of MMAs. Raises TileError `name`,
    `schedule` or `limit` for a value that cannot be cut."""
    said = function.by_subject("subtile", tuple)
    for name in said:
        if not _named(function, name):
            tiles = {r.name for op in walk(function.body) for r in op.results if r.name and _is_tile(r)}
            unknown(function, "subtile", name, tiles)
    for name, value in _subjects(function, said).items():
        loc = function.lines.get(("subtile", name))
        if name in said:
            _check(name, value, said[name], loc)
            rule, why = said[name], "the schedule says so"
        elif is_sum_of_wgmma(function, name) or _joins_wgmma(function, value):
            rule, why = _columns_of_wgmma(function, value)
        else:
            rule, why = _quarters(function, value), f"a warp has {LEAST} elements of each part, or more"
        if not _is_even(value.shape):
            why = "extents of tiles are powers of two"
        options = {", ".join(map(str, each)): each for each in (value.shape, rule) if each == rule or _is_even(each)}
        usual, line, place = ", ".join(map(str, rule)), f"subtile {name}: {{option}}", loc or function.loc
        way = function.choices.choose("subtile", name, options, usual, loc=place, because=why, pinned=loc, line=line)
        for axis, part in enumerate(way):  # the cut along axis 1 finds the parts of the cut along axis 0
            while wide := [v for v in _named(function, name) if v.shape[axis] > part]:
                _Cut(function, name, axis, part, loc).run(wide[0])


def cut(function: Function, value: Value, axis: int, part: int) -> None:
    """Cuts a value, and all values that depend on it, into parts along an axis. Raises TileError `schedule` if that is
    not possible."""
    _Cut(function, name_of(value), axis, part, None).run(value)


def _subjects(function: Function, said: Collection[str]) -> dict[str, Value]:
    """Returns the values that may be cut, by name: values in `subtile` lines, and accumulators of MMAs in loops."""
    found = {name: named[0] for name in said if (named := _named(function, name))}
    given = {value for op in walk(function.body) if op.spec.acts == "exchanges" for value in op.operands}
    for loop in walk(function.body):
        if not loop.spec.control.counters:
            continue
        for total in loop.results:
            # Blocks of a cluster give each other parts of a tile: `split` has cut it.
            if not total.name or total.name in found or len(total.tile.shape) != 2 or total in given:
                continue
            is_cut = adds_products(loop) and _quarters(function, total) != total.shape
            if any(map(is_wgmma, loop.regions[0].ops)):
                is_cut |= _columns_of_wgmma(function, total)[0] != total.shape
            if is_cut and _fits(function, total):
                found[total.name] = total
    return found


def _joins_wgmma(function: Function, total: Value) -> bool:
    """Whether a loop adds the results of wgmma to a value that the loop carries, as in `acc = acc + dot(x, y)`."""
    loop = total.op
    if loop is None or not loop.spec.control.counters or total not in loop.results:
        return False
    users, body = uses(function.body), loop.regions[0]
    joined = body.ops[-1].operands[loop.results.index(total)].op
    return any(is_wgmma(op) and any(each is joined for each, _ in adding(users, op)) for op in body.ops)


def _columns_of_wgmma(function: Function, total: Value) -> tuple[tuple[int, ...], str]:
    """Returns the default subtile of an accumulator of wgmma, and the reason for it. MMAs of subtiles are merged into
    one instruction later, so the size of a subtile affects only registers and shared memory."""
    columns, joins = total.shape[1], _joins_wgmma(function, total)
    rows = rows_together(total.shape[0], function.warps) or total.shape[0]
    stored = max((_stored_bytes(op) for op in _stores_of(function, total)), default=0)
    part = columns & -columns
    most = MOST_WHOLE if prod(total.shape) * stored <= MOST_WHOLE else MOST_AT_ONCE
    while part % 2 == 0 and part > LEAST_COLUMNS:
        registers = rows * (columns + part if joins else 0) // function.threads
        if registers <= MOST_OF_JOINED and rows * part * stored <= most:
            break
        part //= 2
    if (rows, part) == total.shape:
        return total.shape, "MMAs of warp groups read no fragments"
    if part == columns:
        return (rows, part), "all warps together have so many rows"
    why = "a thread has registers for a part" if joins else "TMA stores a part while the next one is made"
    return (rows, part), why


def _stores_of(function: Function, total: Value) -> list[Op]:
    """Returns the stores of `total` and of all values computed from it by elementwise operations and transposes."""
    users = uses(function.body)

    def next_of(value: Value) -> list[Value]:
        return [r for user in users.get(value, ()) if user.spec.elementwise or is_turn(user) for r in user.results]

    made = reached([total], next_of)
    return [user for value in made for user in users.get(value, ()) if is_store(user)]


def _stored_bytes(store: Op) -> int:
    """Returns the number of bytes of a stored element if TMA stores it by default. Returns 0 for 32-bit floats, which
    threads store."""
    dtype = store.operands[0].dtype
    return dtype.bytes if dtype.is_int or dtype.bits == 16 else 0


def _fits(function: Function, total: Value) -> bool:
    """Whether an accumulator, all values of its name, and all values that must be cut with these can be cut along both
    axes. With `split`, the joined sums have the accumulator's name, too."""
    try:
        for value in _named(function, name_of(total)):
            for axis, extent in enumerate(value.shape):
                _Cut(function, name_of(total), axis, extent, None).grow(value)
    except TileError:
        return False
    return True


def _quarters(function: Function, total: Value) -> tuple[int, ...]:
    """Returns the default subtile of an accumulator: a quarter of the tile, or the whole tile. If an extent of the tile
    is not a power of two, a subtile has the greatest powers of two that divide the extents."""
    if not _is_even(total.shape):
        rows, columns = (extent & -extent for extent in total.shape)
        return rows, columns
    rows, columns = total.shape
    fits = min(rows, columns) >= 128 and rows * columns // 4 >= function.warps * LEAST
    return (rows // 2, columns // 2) if fits else total.shape


def _is_even(extents: Sequence[int]) -> bool:
    return all(e & (e - 1) == 0 for e in extents)


def _is_tile(value: Value) -> bool:
    return isinstance(value.type, TileType) and bool(value.shape)


def _named(function: Function, name: str) -> list[Value]:
    """Returns all tiles called `name` with at least one axis, in program order."""
    return [value for value in named_tiles(function, name) if value.shape]


def _check(name: str, value: Value, extents: Sequence[int], loc: Loc | None) -> None:
    if len(extents) != len(value.shape):
        axes = f"{len(value.shape)} extents" if len(value.shape) > 1 else "one extent"
        raise TileError("schedule", loc, f"'{name}' is {value.tile}; its parts have {axes}", f"subtile {name}: 64, 64")
    for extent, part in zip(value.shape, extents, strict=True):
        if extent % part:
            message = f"'{name}' has {extent} elements along an axis, which is no multiple of {part}"
            raise TileError("schedule", loc, message, "a power of two that divides the extent")
    count = prod(extent // part for extent, part in zip(value.shape, extents, strict=True))
    if count > MOST_PARTS:
        message = f"'{name}' is done in {count} parts; the limit is {MOST_PARTS}"
        raise TileError("limit", loc, message, "larger parts")


class _Of(PartMaker):
    """Builds one part of each tile. `made` maps uncut results of old loops to the results of new loops."""

    def __init__(self, b: Builder, part: int, made: dict[Value, Value]):
        super().__init__(b, part)
        self.made = made

    def now(self, value: Value) -> Value:
        return self.made.get(value, value)


class _Cut:
    """Cuts one tile along one axis. `wide` maps each tile that is cut to its axis. `needed` contains these tiles, and
    also tiles that stay whole but are also needed in parts."""

    def __init__(self, function: Function, name: str, axis: int, part: int, loc: Loc | None):
        self.function, self.name, self.axis, self.part, self.loc = function, name, axis, part, loc
        self.wide: dict[Value, int] = {}
        self.needed: dict[Wide, None] = {}
        self.sinks: dict[Op, int] = {}
        self.of: list[_Of] = []
        self.made: dict[Value, Value] = {}

    def refused(self, message: str, hint: str) -> TileError:
        return TileError("schedule", self.loc, f"'{self.name}' cannot be done in parts: {message}", hint)

    def run(self, value: Value) -> None:
        body, extent = self.function.body, value.shape[self.axis]
        if extent % self.part:  # another tile of this name may have another extent
            raise self.refused(f"{extent} elements are no multiple of {self.part}", "a power of two that divides them")
        self.once = set(body.ops)  # in no loop and no branch
        # Operations directly in the loop over tiles. Each iteration accesses the elements of another tile.
        self.of_tile = {op for loop in body.ops if loop.attrs.get("tiles") for op in loop.regions[0].ops}
        self.written = [op.operands[0] for op in walk(body) if writes(op)]  # the memory of each operation that writes
        self.grow(value)
        self.b = Builder(self.loc or located(self.function, body.ops[0]), facts_now(self.function))
        head = Block()
        with self.b.region(head):
            for number in range(extent // self.part):
                self.of.append(_Of(self.b, self.part, self.made))
                self.of[-1].origin = self.b.index(number * self.part)
            self._block(body, head)
        body.ops = head.ops
        replace_uses(body, self.made)
        note_gone(self.function, {name for each in self.of for name in each.folded_away})

    # ---- the values that are cut ----

    def grow(self, value: Value) -> None:
        """Finds all values that must be cut together with `value`. Raises TileError `schedule` for a value that cannot
        be cut."""
        self.users, self.around = uses(self.function.body), parents(self.function.body)
        # Maps an argument of a loop's body to the loop.
        self.home = {a: op for op in walk(self.function.body) for region in op.regions for a in region.args}
        self.work: list[Wide] = []  # values whose operations and users are still to be visited
        self._add(self.axis, value)
        while self.work:
            value, axis = self.work.pop()
            op = value.op or self.home.get(value)
            if op is None:
                raise self.refused(f"'{name_of(value)}' is no tile that the kernel computes", "leave it whole")
            self._grow_to_operands(op, value, axis)
            if value in self.wide:
                for user in dict.fromkeys(self.users.get(value, ())):
                    self._grow_to_user(user, value, axis)

    def _grow_to_operands(self, op: Op, value: Value, axis: int) -> None:
        """Propagates the cut of a value to the operands of `op`, which computes the value."""
        if op.spec.control.flows:
            self._add(axis, *self._carried_with(op, value))
            return
        if op.spec.access.kind:
            self._add(axis, value)
        for other, along in self._along(op, value, axis).items():
            if other in op.operands:
                self._need(other, along)

    def _grow_to_user(self, user: Op, value: Value, axis: int) -> None:
        """Propagates the cut of a value to `user`, an operation that reads the value."""
        if user.spec.control.ends:
            self._add(axis, *self._carried_with(self.around[user], value))
        elif user.spec.control.flows:
            self._add(axis, *self._carried_with(user, value))
        elif user.spec.acts == "exchanges":
            if user.operands.count(value) > 1:  # else each block gets parts of its own
                raise self.refused(f"all blocks of a cluster get all of it{in_line(user)}", "leave it whole")
        elif user.spec.access.kind == "write":
            self.sinks[user] = axis
            for v in user.operands:
                if _is_tile(v):
                    self._need(v, axis)
        else:
            for other, along in self._along(user, value, axis).items():
                if other in user.results:
                    self._add(along, other)
                else:
                    self._need(other, along)

    def _add(self, axis: int, *values: Value) -> None:
        """Records that `values` are cut along `axis`. No operation then reads them as whole tiles."""
        for value in values:
            if value in self.wide and self.wide[value] != axis:
                raise self.refused(f"'{name_of(value)}' has parts along two of its axes", "leave it whole")
            if value not in self.wide:
                self.wide[value] = axis
                self.needed[value, axis] = None
                self.work.append((value, axis))

    def _need(self, value: Value, axis: int) -> None:
        """Records that parts of a value are needed. Other operations may still read the whole value."""
        if (value, axis) not in self.needed:
            self.needed[value, axis] = None
            self.work.append((value, axis))

    def _carried_with(self, loop: Op, value: Value) -> list[Value]:
        """Returns all IR values that represent the same carried value of a loop or branch: outside, inside and at the
        end of the body."""
        if parting(loop) is not None:
            raise self.refused(f"threads diverge at it{in_line(loop)}", "a condition that is the same for all threads")
        return [v for each in names(loop) if value in each for v in each]

    def _along(self, op: Op, value: Value, axis: int) -> dict[Value, int]:
        """Maps the other operands and results of `op` to the axis that corresponds to `axis` of `value`."""
        found = op.spec.elements.along(op, value, axis) if op.spec.elements.along is not None else None
        if found is None or is_reduction(op, axis):
            message = f"'{op.spec.symbol or op.name}'{in_line(op)} mixes the elements along its axis"
            raise self.refused(message, "elementwise operations, products, loads and stores")
        if op.spec.access.kind and isinstance(op.operands[0].type, SharedType):
            raise self.refused(f"it comes from shared memory{in_line(op)}", "a load of a tensor")
        return found

    # ---- the rewrite ----

    def _block(self, block: Block, made: Block) -> None:
        """Rebuilds the operations of a block. Operations on cut tiles become operations on parts."""
        # Parts that are built in a branch or loop body are undefined after it. So the memos are restored at the end.
        at_hand = [dict(each.memo) for each in self.of]
        late = self._late(block)
        for op in block.ops:
            wide = [each for each in self.needed if each[0] in op.results] if op.results else []
            if op in late:
                continue
            if op.spec.control.flows:
                self._flow(op)
            elif op in self.sinks:
                for each in self.of:
                    self._store(op, each)
            elif wide:
                for value, axis in wide:
                    for each in self.of:
                        each.of(value, axis)
                if not all(result in self.wide for result in op.results):
                    made.ops.append(op)  # other operations need the whole tile
            elif op.spec.control.ends or op.spec.acts == "exchanges":
                op.operands = self._several(op.operands)
                made.ops.append(op)
            else:
                for i, region in enumerate(op.regions):
                    op.regions[i] = Block(region.args)
                    with self.b.region(op.regions[i]):
                        self._block(region, op.regions[i])
                made.ops.append(op)
        for each, memo in zip(self.of, at_hand, strict=True):
            each.memo = memo

    def _late(self, block: Block) -> set[Op]:
        """Returns the operations whose results only stores need. They are built separately for each part, directly
        before the store of the part."""
        # When a residual of 256 x 192 elements was loaded at once, 148 bytes were spilled. If it is loaded part by
        # part, nothing is spilled. A load does not move past a write of another operation, or past a loop or branch.
        late, stored, is_open = set[Op](), set[Value](), True
        inside = set(block.ops)
        for op in reversed(block.ops):
            if op in self.sinks:
                stored.add(op.operands[0])
                continue
            if writes(op) or op.regions:
                is_open = False
            users = [user for result in op.results for user in self.users.get(result, ())]
            alone = users and all(user in inside and (user in late or user in self.sinks) for user in users)
            moves = op.spec.pure or (op.spec.access.kind == "read" and is_open and op.operands[0] not in stored)
            if alone and moves and any(result in self.wide for result in op.results):
                late.add(op)
        return late

    def _store(self, op: Op, part: _Of) -> None:
        """Builds the store of one part."""
        operands = [part.of(v, self.sinks[op]) if _is_tile(v) else part.now(v) for v in op.operands]
        self.b.place = (op.loc or self.b.loc, None)
        # Each part has other elements, so stores of parts need no order among each other. They need no order with other
        # accesses either, if no other operation writes the tensor and each element is stored only once.
        once = op in self.once or ("box" in op.attrs and op in self.of_tile)
        alone = once and self.written.count(op.operands[0]) == 1
        part.store(op, operands, self.sinks[op], **({"order": "none"} if alone and "order" not in op.attrs else {}))

    def _several(self, values: Sequence[Value]) -> list[Value]:
        """Returns `values` with each cut value replaced by its parts."""
        out: list[Value] = []
        for v in values:
            out += [each.of(v, self.wide[v]) for each in self.of] if v in self.wide else [v]
        return out

    def _flow(self, op: Op) -> None:
        """Rebuilds a loop that carries parts, or a branch that yields them."""
        leading = op.spec.control.leading
        operands = [*op.operands[:leading], *self._several(op.operands[leading:])]
        regions = []
        for region in op.regions:
            counters = op.spec.control.counters
            inside = Block([*region.args[:counters], *self._pieces(region.args[counters:])])
            with self.b.region(inside):
                self._block(region, inside)
            regions.append(inside)
        self.b.place = (op.loc or self.b.loc, None)
        attrs = dict(op.attrs)
        if "types" in attrs:
            attrs["types"] = [v.type for v in regions[0].ops[-1].operands]
        results = iter(self.b.op(op.name, operands, regions, **attrs).results)
        for old in op.results:
            if old in self.wide:
                for each in self.of:
                    each.memo[old, self.wide[old]] = next(results).stands_for(old)
            else:
                self.made[old] = next(results).stands_for(old)

    def _pieces(self, args: Sequence[Value]) -> list[Value]:
        """Returns the arguments of a loop's body, with each cut argument replaced by new arguments for its parts."""
        out: list[Value] = []
        for arg in args:
            if arg not in self.wide:
                out.append(arg)
                continue
            axis = self.wide[arg]
            for each in self.of:
                made = Value(TileType(each.shape(arg, axis), arg.dtype), name=arg.name)
                each.memo[arg, axis] = made
                out.append(made)
        return out
