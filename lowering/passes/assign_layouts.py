"""Gives every tile a layout, and makes each remaining change of layout an explicit `convert_layout`.

1. Anchors: what the schedule pins, then what products on tensor cores dictate, then loads and stores (wide, coalesced
   accesses), then what is left.
2. A layout spreads from its anchor through operations that determine one operand's layout from another's.
3. The function is rebuilt with layouts. A value needed in another layout is converted; a pure chain of index
   arithmetic (arange, constants, scalars) is computed again in that layout instead.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn

from lowering.access_width import masked_groups, vector_width
from lowering.facts import Analysis, facts_of
from lowering.ir import Block, Function, Op, Value, uses, walk
from lowering.layout import Layout, LayoutError
from lowering.location import TileError
from lowering.ops import OPS, operand
from lowering.ops.control import handed_on, names, parting
from lowering.passes.check_names import defined_tiles
from lowering.passes.lower_matrix_accesses import feeding
from lowering.targets import WARP, Target
from lowering.tensor_cores import Mma, Product, accumulator, choose, product, replicated, split_of_warps
from lowering.types import TileType, Type


@dataclass(frozen=True, slots=True)
class Pin:
    """A `layout` line of a schedule: rows by key, the place of the line. See `resolve_pin`."""

    parts: dict[str, Any]
    loc: Any

    @property
    def is_of_product(self) -> bool:
        """True if it says how warps share a product, and leaves the rest to the instruction."""
        return "warps" in self.parts and self.parts.keys() <= {"warps", "contiguous"}


@dataclass(frozen=True, slots=True)
class Named:
    """An `instruction` line of a schedule: shape and modifier, the place of the line."""

    name: tuple[str, str]
    loc: Any


WANTED = {
    "lanes": "over all axes they make up a warp: [1, 32], [4, 8], …",
    "warps": "over all axes they make up the block, whose 'warps' the schedule sets (4 unless it does)",
}


def resolve_pin(pin: Pin, shape: tuple[int, ...], warps: int) -> Layout:
    """A schedule's layout line for a tile of `shape`: blocked (vector, lanes, warps) or raw (register, lane, warp)."""

    def fail(message: str, hint: str | None = None) -> TileError:
        return TileError("layout", pin.loc, message, hint)

    parts = pin.parts
    raw = {"register", "lane", "warp"} & parts.keys()
    if raw:
        if parts.keys() != {"register", "lane", "warp"}:
            raise fail("raw bases need 'register', 'lane' and 'warp'")
        strides = [1] * len(shape)
        for i in range(len(shape) - 2, -1, -1):
            strides[i] = strides[i + 1] * shape[i + 1]
        flat = {}
        for key, bases in parts.items():
            for basis in bases:
                if not isinstance(basis, list | tuple) or len(basis) != len(shape):
                    raise fail(f"a basis of a tile of rank {len(shape)} has {len(shape)} coordinates")
                if any(not isinstance(c, int) or not 0 <= c < e for c, e in zip(basis, shape, strict=True)):
                    raise fail(f"basis {list(basis)} is outside a tile of {list(shape)}")
            flat[key] = [sum(c * s for c, s in zip(b, strides, strict=True)) for b in bases]
        if len(flat["warp"]) != warps.bit_length() - 1:
            raise fail(f"{len(flat['warp'])} bases of warps for {warps} warps")
        try:
            layout = Layout.registers(shape, flat["register"], flat["lane"], flat["warp"])
            layout.invert()
        except LayoutError as error:
            raise fail(str(error)) from None
        return layout
    rows: dict[str, tuple[int, ...]] = {}
    for key, default in (("vector", 1), ("lanes", None), ("warps", None)):
        if key not in parts and default is None:
            raise fail(f"a layout needs '{key}'", "layout v: vector [1, 8], lanes [1, 32], warps [4, 1]")
        rows[key] = _extents(pin, key, len(shape))
    for key, wanted in (("lanes", WARP), ("warps", warps)):
        product = 1
        for extent in rows[key]:
            product *= extent
        if product != wanted:
            raise fail(f"'{key}' multiply to {product}; there are {wanted}", WANTED[key])
    for axis, extent in enumerate(rows["vector"]):
        if extent > shape[axis]:
            raise fail(f"a vector of {extent} along an axis of {shape[axis]} elements")
    return Layout.blocked(shape, rows["vector"], rows["lanes"], rows["warps"])


def _extents(pin: Pin, key: str, rank: int) -> tuple[int, ...]:
    """A row of powers of two of a layout line, one an axis; ones where it is not given."""
    row = pin.parts.get(key, [1] * rank)
    if len(row) != rank:
        raise TileError("layout", pin.loc, f"'{key}' has {len(row)} extents; the tile has rank {rank}")
    for extent in row:
        if not isinstance(extent, int) or isinstance(extent, bool) or extent < 1 or extent & (extent - 1):
            raise TileError("layout", pin.loc, f"'{key}' has the extent {extent}: a power of two is needed")
    return tuple(row)


def accumulator_layout(
    instruction: Mma, shape: tuple[int, ...], pin: Pin | None, warps: int, near: tuple[int, int] | None = None
) -> Layout:
    """The layout of a product's result: as the pin says, else with the split of warps that reads fewest operands.
    `near`: neighbours of a thread along each axis, where the pin says nothing of them."""
    extents = (shape[0], shape[1])
    if pin is None:
        split = split_of_warps(instruction, extents, warps)
        return replicated(accumulator(instruction, extents, split, near or (1, 1)), warps)
    along, pinned = _extents(pin, "warps", 2), _extents(pin, "contiguous", 2)
    if along[0] * along[1] != warps:
        raise TileError(
            "layout", pin.loc, f"'warps' multiply to {along[0] * along[1]}; there are {warps}", WANTED["warps"]
        )
    try:
        return accumulator(instruction, extents, (along[0], along[1]), near or (pinned[0], pinned[1]))
    except LayoutError as error:
        raise TileError("layout", pin.loc, str(error)) from None


def access_layout(analysis: Analysis, op: Op, warps: int) -> Layout:
    """The layout that makes a memory access wide and coalesced: up to 16 bytes a lane along the axis of neighbours."""
    offset = operand(op, "offset")
    assert offset is not None
    shape = offset.tile.shape
    facts, under = analysis.of(offset), masked_groups(analysis, op, shape)
    size = op.operands[0].dtype.bytes
    best, fast = 1, len(shape) - 1
    for axis in reversed(range(len(shape))):
        width = min(facts.run[axis], facts.start[axis], under[axis], max(1, 16 // size))
        if facts.run[axis] > 1 and (width > best or facts.run[fast] == 1):
            best, fast = max(width, 1), axis
    total = offset.tile.size
    while best > 1 and total // best < WARP * warps:
        best //= 2
    return Layout.default(shape, warps, best, fast)


def scan_layout(shape: tuple[int, ...], axis: int, warps: int) -> Layout:
    """All of `axis` inside a warp, neighbours first in registers: what a scan without shared memory needs."""
    rest = [e if i != axis else 1 for i, e in enumerate(shape)]
    lanes = [1] * len(shape)
    lanes[axis] = min(WARP, shape[axis])
    left = WARP // lanes[axis]
    vector = [1] * len(shape)
    vector[axis] = shape[axis] // lanes[axis]
    rows = [1] * len(shape)
    count = warps
    for i in reversed(range(len(shape))):
        if i != axis:
            lanes[i] = min(left, rest[i])
            left //= lanes[i]
            rows[i] = min(count, rest[i] // lanes[i])
            count //= rows[i]
    lanes[axis] *= left  # what is left over holds copies
    rows[axis] *= count
    return Layout.blocked(shape, tuple(vector), tuple(lanes), tuple(rows))


class _Assigner:
    def __init__(self, function: Function, target: Target):
        self.function, self.target = function, target
        self.warps = function.warps
        self.analysis = facts_of(function)
        self.layouts: dict[Value, Layout] = {}
        self.users = uses(function.body)
        self.home: dict[Value, Block] = {}
        self.alike: dict[Value, list[Value]] = {}  # the names of what goes through a loop or a branch
        self.cheap: dict[Value, bool] = {}
        self.pinned: set[Value] = set()
        self.operands = feeding(function.body)  # of products
        for each in (each for op in walk(function.body) for each in names(op)):
            for value in each:
                self.alike.setdefault(value, []).extend(each)
        self._find_homes(function.body)
        # the rewrite
        self.map: dict[Value, Value] = {}
        self.out: dict[Block, list[Op]] = {}
        self.current: Block = function.body
        self.made: dict[tuple[Value, Layout], Value] = {}
        self.branch: Layout | None = None
        """Inside a branch of single threads: the layout of its condition, which says whose element each thread has."""

    def _find_homes(self, block: Block) -> None:
        for arg in block.args:
            self.home[arg] = block
        for op in block.ops:
            for result in op.results:
                self.home[result] = block
            for region in op.regions:
                self._find_homes(region)

    # ---- 1 and 2: choosing ----

    def is_cheap(self, value: Value) -> bool:
        """A tile made of arange, constants and scalars by pure operations: computed again rather than converted."""
        known = self.cheap.get(value)
        if known is None:
            op = value.op
            known = (
                op is not None
                and op.spec.pure
                and op.name not in ("convert_layout", "stack", "split", "dot")  # these do not lie in every layout
                and not value.dtype.is_float
                and all(not o.tile.shape or self.is_cheap(o) for o in op.operands)
            ) or (
                op is not None and op.name in ("constant", "broadcast") and not any(o.tile.shape for o in op.operands)
            )
            self.cheap[value] = known
        return known

    def choose(self) -> None:
        pins = self.function.pins
        values = [v for op in walk(self.function.body) for v in defined_tiles(op)]
        products = self.products()
        for value in values:
            if value.name in pins and value.tile.shape:
                pin = pins[value.name]
                self.pinned.add(value)
                if pin.is_of_product and value in products:
                    self.layouts[value] = products[value]
                else:
                    self.layouts[value] = self.pinned_layout(value, pin)
        for op in walk(self.function.body):
            if op.name == "dot" and op.result not in self.layouts:
                self.give(op.result, products[op.result])
        for value in values:
            if value in self.pinned:
                self.give(value, self.layouts.pop(value))
        for op in walk(self.function.body):
            if op.name == "dot":
                spread = self.product_of(op)
                self.give(op.operands[0], spread.a)
                self.give(op.operands[1], spread.b)
        for op in walk(self.function.body):
            if op.name in ("load", "store", "atomic"):
                moved = op.results[0] if op.results else operand(op, "value")
                assert moved is not None
                if moved.tile.shape and moved not in self.layouts and not self.is_cheap(moved):
                    self.give(moved, access_layout(self.analysis, op, self.warps))
        for value in values:
            if value.tile.shape and value not in self.layouts and not self.is_cheap(value):
                self.give(value, Layout.default(value.tile.shape, self.warps))

    def pinned_layout(self, value: Value, pin: Pin) -> Layout:
        try:
            return resolve_pin(pin, value.tile.shape, self.warps)
        except TileError as error:
            line = "" if value.op is None or value.op.loc is None else f" in line {value.op.loc.line}"
            told = f"'{value.name}'{line} is {value.tile.dtype}{list(value.tile.shape)}"
            raise TileError(
                error.code, error.loc, error.message, f"{told}; {error.hint}" if error.hint else told
            ) from None

    def products(self) -> dict[Value, Layout]:
        """The layout of each product's result and of what has the same layout; each product gets its instruction."""
        out: dict[Value, Layout] = {}
        together: dict[Value, set[Value]] = {}
        free: dict[Op, Pin | None] = {}  # products of which no pin says which elements a thread has
        for op in walk(self.function.body):
            if op.name != "dot":
                continue
            if op.result not in together:
                joined = self.joined(op.result)
                together |= dict.fromkeys(joined, joined)
            joined = together[op.result]
            names = {v.name for v in joined if v.name}
            named = [(n, i) for n, i in self.function.instructions.items() if n in names]
            shape, modifier, loc = op.attrs["shape"], op.attrs["modifier"], op.loc
            if shape is None and named:
                (shape, modifier), loc = named[0][1].name, named[0][1].loc
            a, b, c = (o.tile for o in op.operands)
            instruction = choose(self.target, a, b, c, shape, modifier, loc)
            op.attrs["instruction"] = instruction
            if op.result in out:
                continue
            pinned = [self.function.pins[n] for n in sorted(names & self.function.pins.keys())]
            pin = next((p for p in pinned if p.is_of_product), None)
            own = next((self.function.pins.get(v.name) for v in (op.result, op.operands[2]) if v.name), None)
            if pin is None and own is not None:
                layout = resolve_pin(own, c.shape, self.warps)
            else:
                layout = accumulator_layout(instruction, c.shape, pin, self.warps)
                if pin is None or "contiguous" not in pin.parts:
                    free[op] = pin
            out |= dict.fromkeys(joined, layout)
        for op, pin in free.items():
            chained = self.chained_layout(op, together[op.result], pin, out)
            if chained is not None:
                out |= dict.fromkeys(together[op.result], chained)
        return out

    def chained_layout(
        self, op: Op, joined: set[Value], pin: Pin | None, layouts: dict[Value, Layout]
    ) -> Layout | None:
        """The layout of a product's result, of those with the same warps, in which the next product takes it as an
        operand without an exchange; None where there is none, or nothing to change. A thread holds as many neighbours
        of a row of bytes as a word has: 4."""
        for user in (u for value in joined for u in self.users.get(value, ()) if u.name == "dot"):
            place = next((i for i in (0, 1) if user.operands[i] in joined), None)
            spread = product(user.attrs["instruction"], layouts[user.result], user.operands[0].tile.shape[1])
            if place is None or spread is None:
                continue
            wanted = (spread.a, spread.b)[place]
            if layouts[op.result] == wanted:
                return None
            instruction, shape = op.attrs["instruction"], op.result.tile.shape
            for count in (2, 4, 8):
                near = (1, count) if place == 0 else (count, 1)
                with suppress(LayoutError, TileError):  # the tile is too small for as many
                    if (found := accumulator_layout(instruction, shape, pin, self.warps, near)) == wanted:
                        return found
        return None

    def joined(self, result: Value) -> set[Value]:
        """The values that have the layout of a product's result: by elementwise operations, loops and branches."""
        layout = Layout.default(result.tile.shape, self.warps)
        joined, work = set(), [result]
        while work:
            value = work.pop()
            if value in joined:
                continue
            joined.add(value)
            if self.is_cheap(value):  # a constant belongs to all that use it
                continue
            work += [v for v, same in self.neighbours(value, layout) if same is layout and v.tile.shape == layout.shape]
        return joined

    def neighbours(self, value: Value, layout: Layout) -> list[tuple[Value, Layout]]:
        """What the operations around a value make of it having `layout`."""
        out = self.spread(value.op, value, layout) if value.op is not None else []
        for user in self.users.get(value, ()):
            out += self.spread(user, value, layout)
        return out + [(name, layout) for name in self.alike.get(value, ())]

    def product_of(self, op: Op) -> Product:
        """How a product is spread in the layout that its result has."""
        layout = self.layouts[op.result]
        instruction = op.attrs["instruction"]
        spread = product(instruction, layout, op.operands[0].tile.shape[1])
        if spread is None:
            raise TileError(
                "layout",
                op.loc,
                f"the result of a product by {instruction.shape} cannot have this layout: {layout}",
                "pin it as 'layout acc: warps [2, 4]'; the instruction says the rest",
            )
        return spread

    def give(self, value: Value, layout: Layout) -> None:
        """Sets a layout and spreads it."""
        work = [(value, layout)]
        while work:
            value, layout = work.pop()
            if value in self.layouts or not value.tile.shape:
                continue
            if self.is_cheap(value) and value not in self.pinned:
                continue
            self.layouts[value] = layout
            work += self.neighbours(value, layout)

    def spread(self, op: Op, value: Value, layout: Layout) -> list[tuple[Value, Layout]]:
        """What `op` makes of one of its values having `layout`."""
        name = op.name
        if op.spec.elementwise or name in ("shuffle", "vote", "scan", "load", "store", "atomic"):
            values = (*op.operands, *op.results)
            return [(v, layout) for v in values if isinstance(v.type, TileType) and v.type.shape]
        if name == "reshape":
            other = op.result if value is op.operands[0] else op.operands[0]
            return [(other, layout.reshape(other.tile.shape))] if other.tile.shape else []
        if name == "transpose":
            axes = op.attrs["axes"]
            if value is op.operands[0]:
                return [(op.result, layout.transpose(axes))]
            inverse = tuple(axes.index(i) for i in range(len(axes)))
            return [(op.operands[0], layout.transpose(inverse))]
        if name == "dot" and value in (op.result, op.operands[2]):
            return [(op.result, layout), (op.operands[2], layout)]
        if name == "split":
            if value is op.operands[0]:
                return [(op.result, split_layout(layout, op.result.tile.shape))]
            whole = unsplit_layout(layout, op.operands[0].tile.shape)
            return [(op.operands[0], whole)] if whole is not None else []
        if name == "broadcast" and value is op.result and op.operands[0].tile.shape:
            return [(op.operands[0], _narrowed(layout, op.operands[0].tile.shape))]
        if name == "reduce":
            if value in op.operands:
                if not (layout.is_pure(op.attrs["axis"]) and layout.has_plain_copies):
                    return []
                result = layout.drop(op.attrs["axis"])
                return [(v, layout) for v in op.operands] + [(r, result) for r in op.results if r.tile.shape]
            return [(r, layout) for r in op.results]
        if name == "stack" and value in op.operands:
            return [(v, layout) for v in op.operands] + [(op.result, _stacked(layout, len(op.operands)))]
        if name == "stack" and _in_registers(layout, -1):
            return [(v, layout.drop(len(layout.shape) - 1)) for v in op.operands]
        if name == "pick" and value is op.result:
            return [(op.operands[0], _unpicked(op, layout))]
        if name == "pick" and _in_registers(layout, op.attrs["axis"]) and op.result.tile.shape:
            return [(op.result, layout.drop(op.attrs["axis"]))]
        return []

    # ---- 3: rebuilding ----

    def rebuild(self, block: Block) -> None:
        outer, self.current = self.current, block
        self.out[block] = []
        old = block.ops
        for op in old:
            self.visit(op)
        block.ops = self.out.pop(block)
        self.current = outer

    def emit(self, op: Op, at: Block | None = None) -> Op:
        self.out[at or self.current].append(op)
        return op

    def get(self, value: Value, layout: Layout | None) -> Value:
        """`value` in `layout`."""
        if not isinstance(value.type, TileType) or not value.tile.shape or layout is None:
            return self.map.get(value, value)
        if self.is_cheap(value) and value not in self.pinned:
            return self.materialise(value, layout)
        have = self.map.get(value)
        assert have is not None, value
        if have.tile.layout == layout:
            return have
        key = (value, layout)
        if key not in self.made:
            if self.is_cheap(value):
                return self.materialise(value, layout)
            home = self.home[value] if self.home[value] in self.out else self.current
            converted = Op(
                OPS["convert_layout"],
                [have],
                [have.tile.with_layout(layout)],
                {"layout": layout},
                (),
                have.op.loc if have.op else None,
            )
            converted.result.name = value.name
            self.emit(converted, home)
            self.made[key] = converted.result
        return self.made[key]

    def materialise(self, value: Value, layout: Layout) -> Value:
        """A cheap tile, computed in `layout` where it was first defined."""
        key = (value, layout)
        if key not in self.made:
            op = value.op
            assert op is not None
            operands = [self.get(o, operand_layout(op, o, layout)) for o in op.operands]
            made = Op(op.spec, operands, [value.tile.with_layout(layout)], dict(op.attrs), (), op.loc)
            made.result.name = value.name
            self.analysis.equal(made.result, value)
            self.emit(made, self.home[value])
            self.made[key] = made.result
        return self.made[key]

    def visit(self, op: Op) -> None:
        name = op.name
        if op.results and op.spec.pure and op.result.tile.shape and self.is_cheap(op.result):
            if op.result in self.pinned:
                self.map[op.result] = self.materialise(op.result, self.layouts[op.result])
            return
        if op.spec.flows:
            self.visit_control(op)
            return
        layout: Layout | None = None
        types: list[Type]
        if name == "reduce":
            layout = self.reducible(op)
            operands = [self.get(o, layout) for o in op.operands]
            types = [r.tile.with_layout(layout.drop(op.attrs["axis"]) if r.tile.shape else None) for r in op.results]
        elif name in ("scan", "vote"):
            layout = self.scannable(op) if name == "scan" else self.votable(op)
            operands = [self.get(o, layout) for o in op.operands]
            types = [r.tile.with_layout(layout) for r in op.results]
        elif name == "stack":
            layout = self.stackable(op)
            operands = [self.get(o, operand_layout(op, o, layout)) for o in op.operands]
            types = [op.result.tile.with_layout(layout)]
        elif name == "pick":
            part, around = self.pickable(op)
            operands = [self.get(op.operands[0], around)]
            types = [op.result.tile.with_layout(part)]
        elif name == "dot":
            spread = self.product_of(op)
            dictated = (spread.a, spread.b, spread.c)
            operands = [self.get(o, w) for o, w in zip(op.operands, dictated, strict=True)]
            types = [op.result.tile.with_layout(spread.c)]
        elif name == "split":
            layout = self.layouts[op.result]
            whole = unsplit_layout(layout, op.operands[0].tile.shape)
            if whole is None:
                whole = self.layouts.get(op.operands[0]) or Layout.default(op.operands[0].tile.shape, self.warps)
            operands = [self.get(op.operands[0], whole)]
            types = [op.result.tile.with_layout(split_layout(whole, op.result.tile.shape))]
        elif name == "copy":
            layout = self.copy_layout(op)
            operands = [self.get(o, layout) for o in op.operands]
            types = []
        else:
            layout = self.layout_for(op)
            operands = [self.get(o, operand_layout(op, o, layout)) for o in op.operands]
            types = [
                r.tile.with_layout(layout if r.tile.shape else None) if isinstance(r.type, TileType) else r.type
                for r in op.results
            ]
        for inner in (o for region in op.regions for o in walk(region)):  # may name scalars of the kernel
            inner.operands = [self.map.get(o, o) for o in inner.operands]
        made = Op(op.spec, operands, types, op.attrs, op.regions, op.loc)
        for old, new in zip(op.results, made.results, strict=True):
            new.name = old.name
            self.map[old] = new
        self.emit(made)
        for old, new in zip(op.results, made.results, strict=True):
            wanted = self.layouts.get(old)
            if wanted is not None and old in self.pinned and new.tile.layout != wanted:
                self.map[old] = self.get(old, wanted)

    def layout_for(self, op: Op) -> Layout | None:
        """The layout in which an operation is done."""
        for result in op.results:
            if result in self.layouts:
                return self.widest(op, self.chosen(result))
        if op.name in ("store", "atomic"):
            value = operand(op, "value")
            assert value is not None
            if not value.tile.shape:
                return None
            return self.widest(op, self.chosen(value) or access_layout(self.analysis, op, self.warps))
        for o in op.operands:
            if isinstance(o.type, TileType) and o.tile.shape:
                return self.chosen(o) or Layout.default(o.tile.shape, self.warps)
        return None

    def widest(self, op: Op, layout: Layout | None) -> Layout | None:
        """For a load or store, the order of registers in which most elements are accessed at once: the transpose of
        what leaves as rows is in the same threads, in another order. Operands of products keep theirs, for ldmatrix."""
        if op.name not in ("load", "store") or op.attrs.get("matrix") or layout is None:
            return layout
        if op.name == "load" and op.result in self.operands:
            return layout
        offset = operand(op, "offset")
        assert offset is not None

        def width(layout: Layout) -> int:
            return vector_width(self.analysis, op, offset, op.operands[0], layout)

        runs = self.analysis.of(offset).run
        return max([layout, *(layout.with_first(axis) for axis, run in enumerate(runs) if run > 1)], key=width)

    def of_branch(self, value: Value) -> Layout | None:
        """The layout of a tile with an element for each one of the condition of a branch around: row-major, one by
        one. A thread takes a branch of single threads for the element that the condition gives it, and does inside
        what belongs to that element."""
        if self.branch is None or prod(value.tile.shape) != prod(self.branch.shape):
            return None
        return self.branch.reshape(value.tile.shape)

    def chosen(self, value: Value) -> Layout | None:
        """The layout of a value where the rewrite stands."""
        return self.of_branch(value) or self.layouts.get(value)

    def reducible(self, op: Op) -> Layout:
        axis = op.attrs["axis"]
        for o in op.operands:
            layout = self.layouts.get(o)
            if layout is not None and layout.is_pure(axis) and layout.has_plain_copies:
                return layout
        shape = op.operands[0].tile.shape
        wanted = self.layouts.get(op.results[0])
        if wanted is not None and axis == len(shape) - 1 and all(self.is_cheap(o) for o in op.operands):
            return _stacked(wanted, shape[axis])  # made anew where the result is wanted: each thread joins its own
        return Layout.default(shape, self.warps)

    def stackable(self, op: Op) -> Layout:
        """The stacked tiles lie in one thread each: the new axis is in registers alone."""
        wanted = self.layouts[op.result]
        inside = self.of_branch(op.operands[0])
        if inside is not None:
            return _stacked(inside, len(op.operands))
        if _in_registers(wanted, -1):
            return wanted
        return _stacked(self.layouts.get(op.operands[0]) or wanted.drop(len(wanted.shape) - 1), len(op.operands))

    def pickable(self, op: Op) -> tuple[Layout, Layout]:
        """The layouts of a part and of the whole: where the whole lies if the axis is in registers there, and nothing
        moves."""
        whole, axis = self.chosen(op.operands[0]), op.attrs["axis"]
        if whole is not None and _in_registers(whole, axis):
            return whole.drop(axis), whole
        layout = self.chosen(op.result) or Layout.default(op.result.tile.shape, self.warps)
        return layout, _unpicked(op, layout)

    def scannable(self, op: Op) -> Layout:
        axis = op.attrs["axis"]
        for o in op.operands:
            layout = self.layouts.get(o)
            if (
                layout is not None
                and layout.is_ordered(axis)
                and not any(b & layout.axis_mask(axis) for b in layout.warp)
            ):
                return layout
        return scan_layout(op.operands[0].tile.shape, axis, self.warps)

    def votable(self, op: Op) -> Layout:
        """The lanes of a warp have 32 neighbours; of a ballot, whose bit i is the i-th of them, in order."""
        layout, default = self.layout_for(op), Layout.default(op.result.tile.shape, self.warps)
        if layout is not None and (
            layout.lane == default.lane if op.attrs["mode"] == "ballot" else sorted(layout.lane) == sorted(default.lane)
        ):
            return layout
        return default

    def copy_layout(self, op: Op) -> Layout:
        """Up to 16 bytes a thread, neighbours in both memories; a schedule may pin it under the name NAME.copy."""
        offset, source = operand(op, "offset"), operand(op, "source")
        assert offset is not None and source is not None
        shape = offset.tile.shape
        pin = self.function.pins.get(f"{op.operands[0].name}.copy")
        if pin is not None:
            return resolve_pin(pin, shape, self.warps)
        size = op.operands[0].dtype.bytes
        there, here = self.analysis.of(source), self.analysis.of(offset)
        under = masked_groups(self.analysis, op, shape)
        axis = len(shape) - 1
        width = min(there.run[axis], there.start[axis], here.run[axis], here.start[axis], under[axis], 16 // size or 1)
        return Layout.default(shape, self.warps, max(width, 1), axis)

    def visit_control(self, op: Op) -> None:
        outer, decides, layout = self.branch, parting(op), None
        if decides is not None:
            layout = self.branch_layout(op, decides)
            if layout.count == 1 or op.spec.loops:
                self.branch = layout
        results = [self.chosen(r) for r in op.results]
        first = op.spec.leading
        operands = [self.get(o, layout) for o in op.operands[:first]]
        operands += [self.get(o, r) for o, r in zip(op.operands[first:], results, strict=False)]  # none of a branch
        for region in op.regions:
            for arg, given in zip(region.args[op.spec.counters :], results, strict=False):
                arg.type = arg.tile.with_layout(given)
                self.map[arg] = arg
        for region in op.regions:
            self.rebuild_region(region, results, layout)
        self.branch = outer
        types = [r.tile.with_layout(layout) for r, layout in zip(op.results, results, strict=True)]
        attrs = dict(op.attrs)
        if "types" in attrs:
            attrs["types"] = types
        made = Op(op.spec, operands, types, attrs, op.regions, op.loc)
        if decides is not None and layout is not None and layout.count > 1:
            exchanges = any(o.name == "convert_layout" for region in op.regions for o in walk(region))
            if exchanges or any(result != layout for result in results):
                self.refuse_branch(op, decides, layout)
        for old, new in zip(op.results, made.results, strict=True):
            new.name = old.name
            self.map[old] = new
        self.emit(made)
        for old, new in zip(op.results, made.results, strict=True):
            if old in self.pinned and new.tile.layout != self.layouts[old]:
                self.map[old] = self.get(old, self.layouts[old])

    def rebuild_region(self, region: Block, results: list[Layout | None], condition: Layout | None) -> None:
        outer, self.current = self.current, region
        self.out[region] = []
        for op in region.ops[:-1]:
            self.visit(op)
        end = region.ops[-1]
        operands = [self.get(o, condition) for o in end.operands[: end.spec.leading]]
        operands += [self.get(o, layout) for o, layout in zip(handed_on(region), results, strict=True)]
        self.emit(Op(end.spec, operands, [], end.attrs, (), end.loc))
        region.ops = self.out.pop(region)
        self.current = outer

    def branch_layout(self, op: Op, condition: Value) -> Layout:
        """A branch or a loop of single threads: its condition has one element a thread, unless what is inside has no
        effects."""
        shape = condition.tile.shape
        layout = self.chosen(condition)
        pinned = (
            {}
            if self.of_branch(condition) is not None
            else {
                r: self.layouts[r].reshape(shape)
                for region in op.regions
                for o in walk(region)
                for r in o.results
                if r in self.pinned and prod(r.tile.shape) == prod(shape)
            }
        )
        if pinned:  # the schedule says whose elements the threads have; the condition can be moved, these cannot
            layout = next(iter(pinned.values()))
            self.refuse_pins(op, pinned, layout)
        if layout is None:
            inside = [
                self.layouts[v]
                for region in op.regions
                for o in walk(region)
                for v in (*o.operands, *o.results)
                if isinstance(v.type, TileType) and v.tile.shape == shape and v in self.layouts
            ]
            layout = inside[0] if inside else Layout.default(shape, self.warps)
        plain = all(
            o.spec.pure or o.name in ("if", "for", "yield", "condition") or (o.name == "while" and parting(o) is None)
            for region in op.regions
            for o in walk(region)
        )
        if layout.count != 1 and not (plain and all(r.tile.shape == shape for r in op.results)):
            self.refuse_branch(op, condition, layout)
        joint = [o for region in op.regions for o in walk(region) if o.name in ("shuffle", "vote", "barrier")]
        if joint and not self.keeps_warps(condition, layout):
            raise TileError(
                "layout",
                joint[0].loc,
                f"{joint[0].name} in a branch that divides warps in this layout: some lanes never arrive",
                "lay the condition out so that 32 neighbours are the lanes of a warp",
            )
        return layout

    def refuse_pins(self, op: Op, pinned: dict[Value, Layout], layout: Layout) -> None:
        """Values in a branch of single threads stay where they are: all lie as the condition does."""
        if layout.count != 1:
            return
        for value, other in pinned.items():
            if other != layout:
                first = next(iter(pinned)).name
                raise TileError(
                    "layout",
                    self.function.pins[value.name].loc if value.name in self.function.pins else op.loc,
                    f"'{value.name}' lies in another layout than '{first}', and a branch of threads holds both",
                    "give both the same layout, or compute one of them before the branch",
                )

    def keeps_warps(self, condition: Value, layout: Layout) -> bool:
        """True if all lanes of a warp hold the same condition."""
        same = self.analysis.of(condition).same
        return all(c < group for basis in layout.lane for c, group in zip(layout.coordinates(basis), same, strict=True))

    def refuse_branch(self, op: Op, condition: Value, layout: Layout) -> NoReturn:
        raise TileError(
            "layout",
            op.loc,
            f"a tile '{op.name}' with effects or loops of threads in it needs one element a thread; "
            f"{condition.tile} has {layout.count} on {self.function.threads} threads",
            f"use {'masks' if op.spec.loops else 'where()'}, or a tile as large as the block has threads",
        )


def _narrowed(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """The layout of a tile of `shape` that is broadcast to `layout`'s shape."""
    for axis, extent in enumerate(shape):
        if extent == 1 and layout.shape[axis] != 1:
            layout = layout.drop(axis, keep=True)
    return layout


def _in_registers(layout: Layout, axis: int) -> bool:
    """True if an axis lies in registers alone."""
    axis %= len(layout.shape)
    return layout.is_pure(axis) and not any(b & layout.axis_mask(axis) for b in layout.thread)


def _unpicked(op: Op, layout: Layout) -> Layout:
    """A layout of what a part in `layout` is picked from: the parts lie in the same threads."""
    axis = op.attrs["axis"]
    count = op.operands[0].tile.shape[axis]
    return layout.expand(axis, count, tuple(1 << i for i in range(count.bit_length() - 1)))


def _stacked(layout: Layout, count: int) -> Layout:
    """A new last axis, in registers."""
    bases = tuple(1 << i for i in range(count.bit_length() - 1))
    return layout.expand(len(layout.shape), count, bases)


def split_layout(whole: Layout, shape: tuple[int, ...]) -> Layout:
    """The layout of elements that bytes are split into: those of a byte are a thread's first registers."""
    parts = shape[-1] // whole.shape[-1]
    inner = tuple(1 << i for i in range(parts.bit_length() - 1))
    return Layout.registers(
        shape,
        (*inner, *(b * parts for b in whole.register)),
        (b * parts for b in whole.lane),
        (b * parts for b in whole.warp),
    )


def unsplit_layout(layout: Layout, shape: tuple[int, ...]) -> Layout | None:
    """The layout of bytes that are split into elements of `layout`; None if a byte's elements are not together."""
    parts = layout.shape[-1] // shape[-1]
    bits = parts.bit_length() - 1
    whole = Layout.registers(
        shape,
        (b // parts for b in layout.register[bits:]),
        (b // parts for b in layout.lane),
        (b // parts for b in layout.warp),
    )
    return whole if split_layout(whole, layout.shape) == layout else None


def operand_layout(op: Op, value: Value, layout: Layout | None) -> Layout | None:
    """The layout that an operand needs when the operation is done in `layout`."""
    if layout is None or not isinstance(value.type, TileType) or not value.tile.shape:
        return None
    if op.name == "broadcast":
        return _narrowed(layout, value.tile.shape)
    if op.name == "reshape":
        return layout.reshape(value.tile.shape)
    if op.name == "transpose":
        axes = op.attrs["axes"]
        return layout.transpose(tuple(axes.index(i) for i in range(len(axes))))
    if op.name == "pick":
        return _unpicked(op, layout)
    if op.name == "stack":
        bits = len(op.operands).bit_length() - 1
        rest = layout.drop(len(layout.shape) - 1)
        return rest if bits else layout
    return layout


def assign_layouts(function: Function, target: Target) -> None:
    """Every tile value gets a layout; see the module's text."""
    assigner = _Assigner(function, target)
    assigner.choose()
    assigner.rebuild(function.body)
