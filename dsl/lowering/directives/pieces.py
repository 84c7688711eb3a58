"""`stage v: shared` for a tile of whole rows in registers: the rows of a block pass through shared memory as one piece.

    v = load x[r · cols + …]           copy s[p], x[r · cols + p], p < count; commit; wait
    top = max(v)                       v = load s[row · cols + column]
    y[r · cols + …] = v - top     →    top = max(v)
                                       store t[row · cols + column], v - top
                                       y[r · cols + p] = load t[p], p < count

Rows of a block that are neighbours in memory form one contiguous piece, and a piece begins at a multiple of 16 bytes
even if its rows do not. So copies between the tensors and shared memory access 16 bytes at a time. In between, few
lanes share a row, or one lane has all of it, and reads it at any place.

The rewrite applies to all loads and stores whose offsets equal those of the first load. A loaded value is copied by
`cp.async`. If the line names a value that is computed from loads and from offsets before any reduction, it is computed
in the order of the piece, and stored in shared memory. If it names a value behind a reduction, this value passes
through shared memory, and what is stored is computed from it in the order of the piece. So the random bits of a dropout
are drawn once for eight neighbours.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct, field

from dsl.lowering.building.builder import Builder
from dsl.lowering.directives.kept import last_named
from dsl.lowering.directives.part_maker import PartMaker
from dsl.lowering.directives.rows import accesses, flags_of
from dsl.lowering.directives.slices import located, reads, slice_of, without
from dsl.lowering.directives.stage import WAYS, choose_stage, unstage
from dsl.lowering.directives.staged import copy, shared_tile, taken_names
from dsl.lowering.directives.subjects import named_tiles
from dsl.lowering.directives.wide import WideRegion, WideSubject, name_of, slices, tiles_of, wide_region
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, in_line, replace_uses, uses, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import I1, INDEX, SharedType, TileType
from dsl.lowering.known.affine import AffineOffsets, Linear, Offsets, Product
from dsl.lowering.known.facts import facts_now
from dsl.lowering.known.forms import Forms
from dsl.lowering.ops import operand
from dsl.lowering.ops.memory import writes
from dsl.lowering.plan.tile_loads import is_load, is_store
from dsl.lowering.shared.access_width import MAX_BYTES, offset_of


class _PieceSubject(WideSubject):
    """The value of a `stage` line, with the location of the line for error messages."""

    def refused(self, message: str, hint: str) -> TileError:
        return TileError("schedule", self.loc, f"'{self.name}' is no piece of shared memory: {message}", hint)


def pieces(function: Function, target: Target) -> None:
    """Rewrites the rows of values in `stage … shared` lines, if a `loop` line keeps the rows in registers. Raises
    TileError `schedule` or `shared` if these rows cannot be one piece of memory."""
    done: set[str] = set()
    words, names = function.by_subject("stage", str), {param.name for param in function.params}
    for name in [name for name, word in words.items() if word == "shared" and name not in names]:
        tiles = [value for value in named_tiles(function, name) if len(value.shape) == 2 and value.shape[0] > 1]
        if name in done or not tiles:
            continue
        about = _PieceSubject(name, 1, function.lines.get(("stage", name)))
        if not any(lines[2] for lines in function.by_subject("loop", tuple).values()):
            continue  # no rows stay in registers
        region = wide_region(function, tiles[-1], about)
        if not _is_static(function, region):
            continue
        if any(tile not in region.axes for tile in tiles):
            raise about.refused("the name stands for tiles of different rows", "a name of its own for each")
        mine = {each for each in words if each in region.names and words[each] == "shared"}
        done |= mine
        staged = [_value(function, region, each) for each in mine if _is_chosen(function, each)]
        if staged:
            _Pieces(function, target, _neighbours_of(region), staged).run()
        aligned = function.by_subject("align", int)
        function.attrs["align"] = {each: step for each, step in aligned.items() if each not in region.names}
    unstage(function, done)


def _is_static(function: Function, region: WideRegion) -> bool:
    """Whether a line `loop …: static` names a value of the region."""
    lines = function.by_subject("loop", tuple)
    said = [lines[value.name] for value, axis in region.axes.items() if value.name in lines]
    return any(static and axis == 1 for axis, _, static in said)


def _is_chosen(function: Function, name: str) -> bool:
    loc, why = function.lines.get(("stage", name)), "the schedule says so"
    chosen: bool = choose_stage(function, name, WAYS, "shared", why, loc, pinned=loc)
    return chosen


def _value(function: Function, region: WideRegion, name: str) -> Value:
    """Returns the value of a line, before conversions."""
    return last_named(name, region)


class _Limits(Forms[tuple[Value, Value]]):
    """Finds both sides of a flag `a < b`."""

    def ordered(self, op: Op, low: int, apart: int) -> tuple[Value, Value] | None:
        return (op.operands[low], op.operands[1 - low]) if apart == 1 else None

    def repeated(self, op: Op) -> tuple[Value, Value] | None:
        return self.told(op.operands[0])

    reshaped = repeated


_LIMITS = _Limits()


class _Masked(Forms[Value]):
    """Computes the number that a value has where the masks of its loads are false, as a scalar. Returns None if the
    number depends on the position."""

    def __init__(self, b: Builder):
        self.b = b
        self.known: dict[Value, Value | None] = {}

    def of(self, value: Value) -> Value | None:
        if value not in self.known:
            self.known[value] = self._of(value)
        return self.known[value]

    def _of(self, value: Value) -> Value | None:
        op, number = value.op, constant_of(value)
        if number is not None:
            return self.b.constant(number, value.dtype)
        if not value.shape or op is None:
            return value if not value.shape else None
        if op.spec.access.kind:
            mask, other = operand(op, "mask"), operand(op, "other")
            return None if mask is None else self.b.constant(0, value.dtype) if other is None else self.of(other)
        found = self.told(value)
        if found is not None or not op.spec.elementwise:
            return found
        numbers = [self.of(each) for each in op.operands]
        return None if None in numbers else self.b.value(op.name, *(n for n in numbers if n), **op.attrs)

    def chosen(self, op: Op) -> Value | None:
        flag, *others = (self.of(each) for each in op.operands)
        number = None if flag is None else constant_of(flag)
        if number is not None:
            return others[0 if number else 1]
        return others[0] if others[0] is others[1] else None

    def repeated(self, op: Op) -> Value | None:
        return self.of(op.operands[0])

    reshaped = repeated


class NeighbourRows(Struct):
    """Neighbouring rows of a region. `found` contains the accesses to them, loads first, and `offsets` the tiles of
    their offsets. `first` and `count` are the offset of the first element in a tensor and the number of elements, as
    sums of products of scalars. A row has `pitch` elements."""

    region: WideRegion
    found: list[Op]
    offsets: set[Value]
    affines: AffineOffsets
    first: Offsets
    pitch: Product | int
    limits: list[tuple[Offsets, Offsets]]
    masks: set[Value] = field(default_factory=set)

    @property
    def shape(self) -> tuple[int, ...]:
        return offset_of(self.found[0]).shape

    @property
    def step(self) -> int:
        """The number of elements in 16 bytes of the widest type."""
        return MAX_BYTES // max(op.operands[0].dtype.bytes for op in self.found)


def _neighbours_of(region: WideRegion) -> NeighbourRows:
    """Finds the rows of a region. Raises TileError `schedule` if the rows of a block are no neighbours in memory."""
    affines, found, refused = AffineOffsets(), accesses(region), region.about.refused
    if not found or len(offset_of(found[0]).shape) != 2:
        raise refused("nothing of it is loaded", "rows of a tensor: x[r : r + ROWS, 0 : COLS]")
    offset = offset_of(found[0])
    wides = [(tile, axis) for sink, axis in region.sinks.items() for tile in sink.operands if tile in region.axes]
    alike = {v for op in slices(wides) for v in op.results if v.dtype is INDEX and v.shape == offset.shape}
    told = affines.offsets(offset)
    offsets = {v for v in alike | {offset} if told is not None and affines.offsets(v) == told}
    mine = [op for op in found if offset_of(op) in offsets]
    pitch = None if told is None else _pitch(told)
    if told is None or pitch is None:
        raise refused(f"its rows{in_line(found[0])} are no neighbours in memory", "rows of a tensor, one by one")
    rows = NeighbourRows(region, mine, offsets, affines, _without_coordinates(told), pitch, [])
    for op in mine:
        mask = operand(op, "mask")
        if mask is not None and mask not in rows.masks:
            limits = _limits(rows, mask)
            if rows.masks and limits != rows.limits:
                raise refused(f"its accesses have different masks{in_line(op)}", "one mask for all")
            rows.limits, rows.masks = limits, rows.masks | {mask}
    if any(operand(op, "mask") is None for op in mine) and (rows.masks or pitch != offset.shape[1]):
        raise refused("not all of its accesses end where rows end", "a slice, or a mask of each access: c < cols")
    return rows


def _pitch(offsets: Offsets) -> Product | int | None:
    """Returns the distance of rows in offsets of [row, column], a number or a product of scalars. Returns None if
    columns are no neighbours, or the distance is a sum."""
    along = {product: part.coefficients for product, part in offsets.items() if any(part.coefficients)}
    numbers = along.pop((), (0, 0))
    if numbers[1] != 1 or len(along) > 1 or (along and numbers[0]):
        return None
    for product, coefficients in along.items():
        return product if coefficients == (1, 0) else None
    return numbers[0]


def _without_coordinates(offsets: Offsets) -> Offsets:
    """Returns the part of offsets that is the same for all elements."""
    return {product: Linear((), part.constant) for product, part in offsets.items() if part.constant}


def _limits(rows: NeighbourRows, mask: Value) -> list[tuple[Offsets, Offsets]]:
    """Returns the limits of row numbers in a mask, as pairs of a start and an end. Raises TileError `schedule` if the
    mask is not true for exactly the columns of a row, and for rows below a limit."""
    found, ends, refused = [], False, rows.region.about.refused
    for flag in flags_of(mask):
        if constant_of(flag) is True:
            continue
        where = "" if flag.op is None else in_line(flag.op)
        sides = _LIMITS.told(flag)
        below, above = (None, None) if sides is None else map(rows.affines.offsets, sides)
        along = None if below is None else _coordinate(below, flag.shape, rows.shape)
        if below is None or above is None or along is None or any(any(p.coefficients) for p in above.values()):
            raise refused(f"a mask{where} cuts pieces out of it", "masks of whole rows")
        if along == 0:
            found.append((_without_coordinates(below), _without_coordinates(above)))
        elif _without_coordinates(below) or _without_coordinates(above) != _number(rows.pitch):
            raise refused(f"rows{where} end elsewhere than the next ones begin", "c < cols")
        ends |= along == 1
    if not ends and rows.pitch != rows.shape[1]:
        raise refused("nothing says where rows end", "a slice, or a mask of each access: c < cols")
    return found


def _number(pitch: Product | int) -> Offsets:
    return {(): Linear((), pitch)} if isinstance(pitch, int) else {pitch: Linear((), 1)}


def _coordinate(offsets: Offsets, shape: tuple[int, ...], whole: tuple[int, ...]) -> int | None:
    """Returns the axis of `whole` along which offsets of a tile of `shape` count 0, 1, 2 … Returns None if they do
    otherwise."""
    moving = {product: part.coefficients for product, part in offsets.items() if any(part.coefficients)}
    if moving.keys() != {()}:
        return None
    axes = [axis for axis, times in enumerate(moving[()]) if times]
    if len(axes) != 1 or moving[()][axes[0]] != 1:
        return None
    return axes[0] + len(whole) - len(shape)


class _FlatParts(PartMaker):
    """Computes values in the order of the piece: parts of `part` elements, along one axis."""

    def __init__(self, b: Builder, part: int, about: WideSubject):
        super().__init__(b, part)
        self.rows, self.named, self.about = (), False, about

    def now(self, value: Value) -> Value:
        if isinstance(value.type, TileType) and value.shape:
            said = f"'{name_of(value)}' has a number a row or a column"
            raise self.about.refused(said, "a value that is computed of loads and of offsets alone")
        return value

    def counted(self) -> Value:
        raise self.about.refused("it depends on the column", "a value that is computed of loads and of offsets alone")


class _Pieces:
    """Rewrites the rows of a region. `staged` contains the values of the lines."""

    def __init__(self, function: Function, target: Target, rows: NeighbourRows, staged: Collection[Value]):
        self.function, self.target, self.rows, self.region = function, target, rows, rows.region
        self.ops, self.axis = self.region.block.ops, len(rows.shape) - 1
        self.b = Builder(located(function, rows.found[0]), facts_now(function))
        self.late = [v for v in staged if any(op in self.region.sinks for op in slice_of(self.ops, [v]))]
        self.early = [v for v in staged if v not in self.late and v.op not in rows.found]
        self.copied = self._copied()
        self.allocated, self.taken = Block(), taken_names(function.body)
        self.tiles: dict[Value, Value] = {}  # maps a value to the shared tile through which it passes
        self.made: dict[Value, Value] = {}
        with self.b.region(Block()):  # what they compute may be defined later in the block: `bring` builds it again
            self.fillings = self._fillings()
        self.check()

    def _fillings(self) -> dict[Value, Value | None]:
        """Maps each value that passes through shared memory on its way in to its number past the end of a row."""
        numbers = _Masked(self.b)
        return {value: numbers.of(value) for value in [*(op.result for op in self.copied), *self.early]}

    def _copied(self) -> list[Op]:
        """Returns the loads whose rows are needed element by element."""
        sinks = [sink for sink in self.region.sinks if not self._behind(sink)]
        wides = [(tile, self.axis) for sink in sinks for tile in tiles_of(sink) if tile in self.region.axes]
        needed = slices([*wides, *((value, self.axis) for value in self.late)], self.early)
        return [op for op in self.rows.found if op.results and op in needed]

    def _behind(self, sink: Op) -> bool:
        """Whether `sink` stores what is computed from a value of `late`."""
        return not sink.results and any(v.op in slice_of(self.ops, tiles_of(sink)) for v in self.late)

    def check(self) -> None:
        """Raises TileError `schedule` or `shared` if the rows cannot be one piece."""
        refused = self.region.about.refused
        for value in (*self.early, *self.late):
            if value.dtype in (I1, INDEX):
                raise refused(f"'{value.name}' has no type in memory", "a value of numbers")
            if value.shape != self.rows.shape:
                raise refused(f"'{value.name}' is no tile of these rows", "a tile of the rows that are loaded")
        for value, number in self.fillings.items():
            if number is None and self.rows.masks:
                said = f"'{name_of(value)}' has no one number past the end of a row"
                raise refused(said, "where(flag, x, 0.0) of a load")
        for sink in self.region.sinks:
            if not sink.results and sink not in self.rows.found:
                raise refused(f"other places are stored{in_line(sink)}", "stores to the places that are loaded")
        begin, end = self.extent_of_loads
        if any(writes(op) for op in self.ops[begin : end + 1]):
            raise refused("something is stored between its loads", "loads first")
        written = {op.operands[0] for op in walk(self.function.body) if writes(op)}
        again = slice_of(
            self.ops, [*self.early, *self.late, *(tile for op in self.region.sinks for tile in tiles_of(op))]
        )
        if (self.early or self.late) and any(is_load(op) and op.operands[0] in written for op in again):
            raise refused("a tensor that is loaded again in the order of the piece is written", "other tensors")

    @property
    def extent_of_loads(self) -> tuple[int, int]:
        """Returns the first and the last position at which rows are loaded, or computed in the order of the piece."""
        places = [self.ops.index(op) for op in (*self.copied, *(v.op for v in self.early)) if op in self.ops]
        return min(places), max(places)

    def run(self) -> None:
        """Builds the block's operations again."""
        end = self.extent_of_loads[1] + 1
        waiting = {*self.fillings}  # values that exist once the copies have arrived
        later: list[Op] = []
        for op in self.ops[:end]:
            # Operations with effects, such as prints, keep their order.
            in_order = _has_effects(op) and any(map(_has_effects, later))
            if in_order or waiting.intersection(reads(op)) or waiting.intersection(op.results):
                waiting.update(op.results)
                later.append(op)
            else:
                self.b.block.ops.append(op)
        self.bring()
        for op in [*later, *self.ops[end:]]:
            self.b.place = (op.loc or self.b.loc, None)
            value = op.results[0] if op.results else None
            if value is not None and value in self.fillings:
                self.made[value] = self.read(value).stands_for(value)
            elif is_store(op) and op in self.rows.found:
                self.leave(op)
            else:
                self.b.block.ops.append(op)
        self.region.block.ops = self.b.block.ops
        self.function.body.ops[:0] = self.allocated.ops
        replace_uses(self.function.body, self.made)
        self.region.block.ops = used(self.function, self.region.block, set(self.ops))

    def scalar(self, offsets: Offsets) -> Value:
        """Computes a sum of products of scalars."""
        total = self.b.index(0)
        for product, part in offsets.items():
            term = self.b.index(part.constant)
            for name in product:
                term = self.b.value("mul", self.rows.affines.scalars[name], term)
            total = self.b.value("add", total, term)
        return total

    def bring(self) -> None:
        """Copies rows to shared memory, computes values in the order of the piece, and waits for the copies."""
        self.fillings = self._fillings()
        rows, _ = self.rows.shape
        pitch = self.scalar(_number(self.rows.pitch))
        if not isinstance(self.rows.pitch, int):
            covers = self.b.value("le", pitch, self.b.index(self.rows.shape[1]))
            said = f"rows have more columns than the tile of '{self.region.about.name}', {self.rows.shape[1]}"
            self.b.op("assert", [covers], message=said, line=self.b.loc.line)
            self.function.attrs["record"] = True
        count = self.b.index(rows)
        for start, end in self.rows.limits:
            left = self.b.value("sub", self.scalar(end), self.scalar(start))
            count = self.b.value("minimum", count, left)
        count, first = self.b.value("mul", count, pitch), self.scalar(self.rows.first)
        if facts_now(self.function).of(first).every % self.rows.step:
            said = f"pieces begin at no multiples of {self.rows.step} elements"
            raise self.region.about.refused(said, f"a multiple of {self.rows.step} rows a block")
        total = rows * (self.rows.pitch if isinstance(self.rows.pitch, int) else self.rows.shape[1])
        self.part = min(1 << (total - 1).bit_length(), self.function.threads * self.rows.step)
        self.count = -(-total // self.part)
        self.flat: list[dict[str, Value]] = []
        numbers, wide = self.b.value("arange", extent=self.part), (self.part,)
        for number in range(self.count):
            place = self.b.value("add", numbers, self.b.broadcast(self.b.index(number * self.part), wide))
            offset = self.b.value("add", place, self.b.broadcast(first, wide))
            mask = self.b.value("lt", place, self.b.broadcast(count, wide))
            self.flat.append({"place": place, "offset": offset, "mask": mask})
        row = self.b.reshape(self.b.value("arange", extent=rows), (rows, 1))
        column = self.b.broadcast(self.b.value("arange", extent=self.rows.shape[1]), self.rows.shape)
        before = self.b.value("mul", row, self.b.broadcast(pitch, (rows, 1)))
        self.place = self.b.value("add", self.b.broadcast(before, self.rows.shape), column)
        for op in self.copied:
            self.b.place = (op.loc or self.b.loc, None)
            for flat in self.flat:
                copy(
                    self.b,
                    self.tile(op.result, op.operands[0].name),
                    None,
                    flat["place"],
                    op.operands[0],
                    flat["offset"],
                    flat["mask"],
                )
        if self.copied:
            self.b.op("commit")
        for value in self.early:
            for flat in self.flat:
                made = self.in_order(flat, {}).of(value, self.axis)
                parts = {"memory": self.tile(value), "offset": flat["place"], "value": made}
                self.b.access("store", parts, cache=None, evict=None)
        if self.copied:
            self.b.op("wait", groups=0)

    def tile(self, value: Value, name: str | None = None) -> Value:
        """Returns the shared tile of `value`, and allocates it if necessary."""
        if value not in self.tiles:
            stem = name or value.name or "rows"
            with self.b.region(self.allocated):
                type = SharedType((self.count, self.part), value.dtype)
                self.tiles[value] = shared_tile(self.b, f"s{stem}", self.taken, type)
        return self.tiles[value]

    def in_order(self, flat: dict[str, Value], known: dict[Value, Value]) -> _FlatParts:
        """Returns what computes a part of values in the order of the piece."""
        maker = _FlatParts(self.b, self.part, self.region.about)
        told = dict.fromkeys(self.rows.offsets, flat["offset"]) | dict.fromkeys(self.rows.masks, flat["mask"]) | known
        maker.memo = {(value, self.axis): made for value, made in told.items()}
        return maker

    def read(self, value: Value) -> Value:
        """Loads the rows of `value` from shared memory."""
        number, mask = self.fillings[value], next(iter(self.rows.masks), None)
        other = None if mask is None or number is None else self.b.broadcast(number, self.rows.shape)
        parts = {"memory": self.tile(value), "offset": self.place, "mask": mask, "other": other}
        return self.b.access("load", parts, cache=None, evict=None).result

    def leave(self, store: Op) -> None:
        """Replaces a store of rows by stores in the order of the piece."""
        value = operand(store, "value")
        assert value is not None
        through = [v for v in self.late if v.op in slice_of(self.ops, [value])] or [value]
        for each in through:
            if each not in self.tiles:
                tile = self.tile(each, each.name or store.operands[0].name)
                parts = {"memory": tile, "offset": self.place, "mask": operand(store, "mask"), "value": each}
                self.b.access("store", parts, cache=None, evict=None)
        for flat in self.flat:
            known = {v: self.b.access("load", self._at(v, flat), cache=None, evict=None).result for v in through}
            made = self.in_order(flat, known).of(value, self.axis)
            parts = {"memory": store.operands[0], "offset": flat["offset"], "mask": flat["mask"], "value": made}
            self.b.access("store", parts, cache=store.attrs["cache"], evict=store.attrs["evict"])

    def _at(self, value: Value, flat: dict[str, Value]) -> dict[str, Value | None]:
        return {"memory": self.tiles[value], "offset": flat["place"], "mask": flat["mask"]}


def _has_effects(op: Op) -> bool:
    return not op.spec.pure and not is_load(op)


def used(function: Function, block: Block, old: Collection[Op]) -> list[Op]:
    """Returns the operations of `block` without those of `old` that only load or compute what nothing uses."""
    users, gone = uses(function.body), set[Op]()
    for op in reversed(block.ops):
        idle = op in old and not _has_effects(op)
        if idle and all(user in gone for result in op.results for user in users.get(result, ())):
            gone.add(op)
    return without(block.ops, gone)
