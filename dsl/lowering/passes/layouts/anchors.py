"""Chooses layouts for the values from which layouts propagate, in this order: pinned values, MMAs, memory accesses,
other values."""

from __future__ import annotations

from contextlib import suppress
from math import ceil, prod

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.directives.subjects import defined_tiles
from dsl.lowering.hopper.warpgroup import (
    INSTRUCTION,
    ROWS_OF_THREADS,
    Warpgroups,
    chain,
    is_loaded_across,
    require_swizzles,
    sums_layout,
    warpgroups,
)
from dsl.lowering.ir.function import Function, Op, Value, in_line, subject_of, walk
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.plugins import Opening
from dsl.lowering.ir.schedule import Pin, extents_of, resolve_pin, wanted
from dsl.lowering.ir.targets import WARP, Target
from dsl.lowering.ir.types import TileType
from dsl.lowering.known.facts import Analysis
from dsl.lowering.layouts.layout import Layout, LayoutError, flaw_of_layout
from dsl.lowering.machine.tensor_cores import Mma, accumulator, fitting, product, replicated, splits_of_warps
from dsl.lowering.ops import operand
from dsl.lowering.ops.control import started
from dsl.lowering.ops.matrix import product_of
from dsl.lowering.ops.memory import moved_by, space_of
from dsl.lowering.passes.layouts.spread import Layouts
from dsl.lowering.plan.products import is_wgmma, names_of_product
from dsl.lowering.plan.tile_loads import is_store
from dsl.lowering.shared.access_width import ASYNC_BYTES, bytes_along, lies_along, loads_of, masked_groups, offset_of


def choose_layouts(function: Function, target: Target) -> Layouts:
    """Chooses the layouts of all tiles of a function. Sets the MMA instruction of each matrix product."""
    anchors = _Anchors(function, target)
    anchors.choose()
    return anchors.layouts


Pair = tuple[int, int]
Split = tuple[int, ...]


def said_of_product(pin: Pin, warps: int, rank: int) -> tuple[Split, Pair]:
    """Returns the numbers of warps along each axis of a product's result, and of contiguous elements per thread along M
    and N. A pin (a `layout` line of the schedule) sets them."""
    along, (*batch, near_m, near_n) = extents_of(pin, "warps", rank), extents_of(pin, "contiguous", rank)
    if prod(along) != warps:
        message = f"'warps' multiply to {prod(along)}; there are {warps}"
        raise TileError("layout", pin.loc, message, wanted("warps", rank, warps))
    if prod(batch) > 1:
        raise TileError("layout", pin.loc, "elements along a batch axis are not neighbours", "contiguous [1, 1, 2]")
    return along, (near_m, near_n)


def accumulator_layout(
    instruction: Mma, shape: tuple[int, ...], split: Split, near: Pair, warps: int, pin: Pin | None = None
) -> Layout:
    """Returns the layout of an accumulator. `split` is the number of warps along each axis, and `near` is the number of
    contiguous elements of a thread along M and N. If the tile is too small, raises TileError `layout` if there is a
    pin, and otherwise LayoutError."""
    try:
        return replicated(accumulator(instruction, shape, split, near), warps)
    except LayoutError as error:
        if pin is None:
            raise
        raise TileError("layout", pin.loc, str(error)) from None


def access_layout(analysis: Analysis, op: Op, warps: int) -> Layout:
    """Returns the layout that makes a memory access wide and coalesced."""
    return Layout.default(offset_of(op).tile.shape, warps, *access_vector(analysis, op, warps))


def access_vector(analysis: Analysis, op: Op, warps: int) -> tuple[int, int]:
    """Returns how many contiguous elements a lane accesses at once (up to 16 bytes), and the axis along which they are
    contiguous."""
    offset = offset_of(op)
    shape = offset.tile.shape
    facts, under = analysis.of(offset), masked_groups(analysis, op, shape)
    size = op.operands[0].dtype.bytes
    best, fast = 1, len(shape) - 1
    # From the last axis on: if widths are equal, the last axis wins.
    for axis in reversed(range(len(shape))):
        width = min(facts.run[axis], facts.start[axis], under[axis], max(1, 16 // size))
        if facts.run[axis] > 1 and (width > best or facts.run[fast] == 1):
            best, fast = max(width, 1), axis
    total = offset.tile.size
    # The access is narrower if some threads would otherwise have nothing to move. With a wider access, half of the
    # threads would hold only copies of the elements of the other half.
    while best > 1 and total // best < WARP * warps:
        best //= 2
    return best, fast


def copy_layout(function: Function, analysis: Analysis, op: Op) -> Layout:
    """Returns the layout of an asynchronous copy. Each thread copies up to 16 bytes that are contiguous in both
    memories. A schedule may pin this layout under the name NAME.copy."""
    offset, source = offset_of(op), operand(op, "source")
    assert source is not None
    shape = offset.tile.shape
    pin = function.pins.get(f"{op.operands[0].name}.copy")
    if pin is not None:
        return resolve_pin(pin, shape, function.warps)
    size = op.operands[0].dtype.bytes
    there, here = analysis.of(source), analysis.of(offset)
    under = masked_groups(analysis, op, shape)
    axis = len(shape) - 1
    # A thread copies elements along the last axis, even if another axis has longer contiguous runs in memory.
    # `cp.async` needs contiguous elements on both sides, and rows of shared tiles are along the last axis. A line
    # of 128 bytes takes one pass over the banks, while rows of 64 bytes take twice as many passes
    # (docs/measurements.md, "Passes over the banks"). If the parts of a row are separate in memory, the copy goes
    # part by part. The same part of the next row may follow in memory, as with blocked channels.
    width = min(there.run[axis], there.start[axis], here.run[axis], here.start[axis], under[axis], 16 // size or 1)
    widths = [1 << i for i in reversed(range(max(width, 1).bit_length()))]
    if function.word("require") == "async":
        widths = [each for each in widths if each * size in ASYNC_BYTES] or widths[:1]
    chosen = function.choices.choose(
        "vector",
        subject_of(op),
        {str(each): each for each in widths},
        str(widths[0]),
        loc=op.loc,
        because="neighbours in both memories, up to 16 bytes",
        costs={str(each): ceil(offset.tile.size / (function.threads * each)) for each in widths},
        unit="accesses a thread",
    )
    return Layout.default(shape, function.warps, chosen, axis, run=min(max(there.run[axis], chosen), shape[axis]))


class VectorSubject(Struct, frozen=True):
    """The data that a plug-in receives for a `vector` choice: the type of the tile, the operation that computes or
    accesses it, and the number of warps of a block. `axis` is the axis along which elements are contiguous in memory.
    `widest` is the maximum number of elements of one access."""

    tile: TileType
    op: Op | None
    warps: int
    axis: int
    widest: int


def opened(tile: TileType, op: Op | None, warps: int, axis: int, widest: int) -> Opening:
    """Lets plug-ins add options to a `vector` choice. Each option is a `Layout` of the tile."""

    subject = VectorSubject(tile, op, warps, axis, widest)
    return Opening(
        subject,
        lambda layout: flaw_of_layout(layout, tile.shape, warps),
        lambda layout: layout.count / min(layout.vectors[axis], widest),
    )


class _Anchors:
    def __init__(self, function: Function, target: Target):
        self.function, self.target, self.warps = function, target, function.warps
        self.layouts = Layouts(function)
        self.ops = walk(function.body)
        # Products whose left operand threads load across k come first: the others can follow their rows.
        self.dots = sorted(
            (op for op in self.ops if op.spec.product),
            key=lambda op: not (is_wgmma(op) and is_loaded_across(op.operands[0])),
        )
        # Whether a product uses wgmma. The key is the name of the product, or a value that has the layout of its
        # accumulator.
        self.by_groups: dict[str | Value, bool] = {}
        self.byte_axes: dict[Value, int | None] = {}
        self.starts = {arg: start for op in self.ops if op.spec.control.counters for start, arg in started(op)}

    def choose(self) -> None:
        values = [v for op in self.ops for v in defined_tiles(op)]
        pins = self.function.pins = {name: pin for name, pin in self.function.pins.items() if self.keeps(name, pin)}
        products = self.products()
        self.take_pins([value for value in values if value.name in pins and value.tile.shape], products)
        # Products come before accesses: a product in another layout needs a conversion through shared memory, while an
        # access in another layout is only narrower. With `access=own`, a product of size 4096 takes 44 to 53 % longer
        # (docs/measurements.md).
        for op in self.dots:
            if op.result not in self.layouts.found:
                self.layouts.give(op.result, products[op.result])
        for op in self.layouts.wgmma:
            self.check_rows(op)
        # Pins are propagated after products. `give` stops at values that have a layout, so the pinned layout is removed
        # and given again.
        for value in values:
            if value in self.layouts.pinned:
                self.layouts.give(value, self.layouts.found.pop(value))
        for op in self.dots:
            spread = product_of(op, self.layouts.found[op.result])
            for value, layout in zip(op.operands[:2], spread.loaded, strict=True):
                self.layouts.give(value, layout)
        self.take_copies()
        for op in (op for op in self.ops if op.spec.access.kind and not self.is_passing(op)):
            moved = moved_by(op)
            if moved.tile.shape and moved not in self.layouts.found and not self.layouts.is_cheap(moved):
                self.layouts.give(moved, self.access_layout(op, moved))
        for value in values:
            if value.tile.shape and value not in self.layouts.found and not self.layouts.is_cheap(value):
                self.layouts.give(value, self.default_layout(value))

    def take_copies(self) -> None:
        """Sets the layouts of rows that copies gather, by indices that are loaded. Each thread then loads the indices
        of the rows that it copies. In another layout, they would pass through shared memory in each iteration."""
        for op in self.ops:
            source = operand(op, "source") if op.spec.in_flight else None
            if source is not None and not self.layouts.is_cheap(source) and source not in self.layouts.found:
                self.layouts.copies[op] = copy_layout(self.function, self.layouts.facts, op)
                self.layouts.give(source, self.layouts.copies[op])

    def check_rows(self, op: Op) -> None:
        """Checks the layout that a wgmma's accumulator has in the end. Values that are computed with it, such as the
        accumulator of another product, may have determined it. A left operand in shared memory gives each thread fixed
        rows. For other rows, `ldmatrix` loads the operand to registers. Raises TileError `layout` if no left operand
        gives these rows."""
        found, groups, shape = self.layouts.found[op.result], self.layouts.wgmma[op], op.result.tile.shape
        if found not in [sums_layout((shape[0], shape[1]), self.warps, mixed) for mixed in ROWS_OF_THREADS]:
            message = f"a product by wgmma cannot have the layout of what is computed with it: {found}"
            raise TileError("layout", op.loc, message, "mma.sync takes any layout")
        if groups.left is not None and found != sums_layout((shape[0], shape[1]), self.warps):
            self.layouts.wgmma[op] = replace(groups, left=None)

    def take_pins(self, values: list[Value], products: dict[Value, Layout]) -> None:
        """Sets the layouts of values that the schedule pins."""
        # A value that is not a product but has the name of a product gets the product's layout. An example is the
        # result of `split`, which adds the accumulators of several blocks.
        named = {(v.name, v.tile.shape): layout for v, layout in products.items()}
        for value in values:
            pin = self.function.pins[value.name or ""]
            self.layouts.pinned.add(value)
            if pin.is_of_product and (value.name, value.tile.shape) in named:
                self.layouts.found[value] = products.get(value, named[value.name, value.tile.shape])
            else:
                self.layouts.found[value] = self.pinned_layout(value, pin)

    def access_layout(self, op: Op, moved: Value) -> Layout:
        """Returns the layout of the loaded or stored tile. It allows the widest access, unless a choice selects a
        narrower access."""
        width, axis = access_vector(self.layouts.facts, op, self.warps)
        why = f"neighbours along axis {axis} in memory, up to 16 bytes"
        return self.vectors(moved, subject_of(op), op, width, width, axis, why)

    def is_passing(self, op: Op) -> bool:
        """Whether an operation loads a tile from shared memory, and the only use of the tile is a store to global
        memory with narrower accesses. The store then determines the tile's layout: neighbouring lanes write
        neighbouring elements, even if rows begin at unaligned addresses."""
        if op.spec.access.kind != "read" or space_of(op.operands[0]) != "shared":
            return False
        users = self.layouts.users.get(op.result, ())
        if len(users) != 1 or not is_store(users[0]):
            return False
        loaded, stored = (access_vector(self.layouts.facts, each, self.warps)[0] for each in (op, users[0]))
        return stored < loaded

    def default_layout(self, value: Value) -> Layout:
        """Returns the layout of a value whose layout neither an access nor a product determines."""
        shape = value.tile.shape
        axis = len(shape) - 1
        room = value.tile.size // (WARP * self.warps)
        # The default is one element per lane, although 16 bytes would fit. No access of this value is known, so a
        # larger width has no benefit. A short tile then occupies the most threads.
        widest = min(max(room, 1), shape[axis], 128 // value.dtype.bits)
        return self.vectors(value, value.name or "value", value.op, 1, widest, axis, "no access and no product")

    def vectors(self, value: Value, subject: str, op: Op | None, rule: int, widest: int, axis: int, why: str) -> Layout:
        options = {str(1 << i): 1 << i for i in reversed(range(widest.bit_length()))}
        chosen: int | Layout = self.function.choices.choose(
            "vector",
            subject,
            options,
            str(rule),
            loc=None if op is None else op.loc,
            because=why,
            costs={name: ceil(value.tile.size / (WARP * self.warps * each)) for name, each in options.items()},
            unit="accesses a thread",
            opening=opened(value.tile, op, self.warps, axis, widest),
        )
        if isinstance(chosen, Layout):
            return chosen
        return self.warps_of(value, subject, op, chosen, axis)

    def warps_of(self, value: Value, subject: str, op: Op | None, width: int, axis: int) -> Layout:
        """Returns the layout with `width` contiguous elements along `axis`. If the tile is reduced along this axis, the
        warps are by default placed along another axis. Each row is then reduced within one warp, which needs no
        barrier."""
        along, apart = (Layout.default(value.tile.shape, self.warps, width, axis, apart) for apart in (False, True))
        if apart == along or not any(self.is_reduced(each, axis) for each in self.layouts.joined(value)):
            return along
        why = "it is reduced along the axis of its accesses: warps lie along others"
        ways, loc = {"apart": apart, "along": along}, None if op is None else op.loc
        return self.function.choices.choose("warps", subject, ways, "apart", loc=loc, because=why)

    def is_reduced(self, value: Value, axis: int) -> bool:
        """Whether a value is reduced along `axis`, directly or after a reshape that changes this axis."""
        for user in self.layouts.users.get(value, ()):
            if user.spec.algebra.unordered and user.attrs["axis"] == axis:
                return True
            through = user.spec.elements.along if user.spec.elements.reshapes else None
            if through is not None and through(user, value, axis) is None:
                return any(other.spec.algebra.unordered for other in self.layouts.users.get(user.result, ()))
        return False

    def keeps(self, name: str, pin: Pin) -> bool:
        """Whether the layout that the schedule pins for `name` is used. A choice may drop the pin."""
        options = {"pinned": True, "free": False}
        return self.function.choices.choose("layout", name, options, "pinned", loc=pin.loc, pinned=pin.loc)

    def pinned_layout(self, value: Value, pin: Pin) -> Layout:
        try:
            return resolve_pin(pin, value.tile.shape, self.warps)
        except TileError as error:
            line = "" if value.op is None else in_line(value.op)
            told = f"'{value.name}'{line} is {value.tile.dtype}{list(value.tile.shape)}"
            hint = f"{told}; {error.hint}" if error.hint else told
            raise TileError(error.code, error.loc, error.message, hint) from None

    def products(self) -> dict[Value, Layout]:
        """Returns the layouts of all product results, and of the values that share these layouts. Also sets the
        instruction of each product."""
        out: dict[Value, Layout] = {}
        together: dict[Value, set[Value]] = {}
        # Maps products for which no pin sets the contiguous elements of a thread to the number of warps along each
        # axis.
        free: dict[Op, Split] = {}
        for op in self.dots:
            if op.result not in together:
                joined = self.layouts.joined(op.result)
                together |= dict.fromkeys(joined, joined)
            joined = together[op.result]
            layout, split = self.product_layout(op, joined, out.get(op.result))
            if op.result in out:
                continue
            if split is not None:
                free[op] = split
            out |= dict.fromkeys(joined, layout)
        self.check_together()
        for op, split in free.items():
            joined = together[op.result]
            better = self.chained_layout(op, joined, split, out) or self.stored_layout(op, joined, split, out)
            if better is not None:
                out |= dict.fromkeys(joined, better)
        return out

    def product_layout(self, op: Op, joined: set[Value], given: Layout | None) -> tuple[Layout, Split | None]:
        """Sets the instruction of a product. Returns the layout of its accumulator, and the number of warps along each
        axis. The second result is None if the number of contiguous elements of a thread is already fixed. `given` is
        the layout that another product chose for the accumulator."""
        names = {v.name for v in joined if v.name}
        shape, modifier, loc = self.asked_instruction(op, names)
        groups = self.by_warpgroups(op, shape, loc)
        shape = None if groups is not None else shape
        pinned = [self.function.pins[n] for n in sorted(names & self.function.pins.keys())]
        pin = next((p for p in pinned if p.is_of_product), None)
        c = op.operands[2].tile
        if given is None and pin is None:
            given = self.pinned_accumulator(op)
        rule, found = self.instructions_for(op, (shape, modifier, loc), given, pin)
        subject = self.subject_of(op, names)
        others = {self.subject_of(each, names) for each in self.dots if each.result in joined}
        # A line `instruction` is for all products that share a layout, and an option for one subject.
        line = f"instruction {subject}: mma.sync.{{option}}" if groups is None and others == {subject} else None
        instruction = self.choose_instruction(op, subject, found, rule, groups, None if shape is None else loc, line)
        way = isinstance(instruction, Warpgroups)
        self.by_groups = dict.fromkeys(joined, way) | {subject: way} | self.by_groups
        if isinstance(instruction, Warpgroups):
            self.check_pin_of_groups(subject, pin)
            self.layouts.wgmma[op] = instruction
            require_swizzles(op)
            left = op.operands[0]
            mixed = left.dtype.bits if is_loaded_across(left) else 0
            instruction = rule  # each warp has the layouts of an mma.sync product
            given = sums_layout((c.shape[0], c.shape[1]), self.warps, mixed)
        op.attrs["instruction"] = instruction if way else self.near_bytes(op, subject, instruction)
        if given is not None:
            return given, None
        split = self.split_of_warps(op, subject, instruction, pin)
        near = (1, 1) if pin is None else said_of_product(pin, self.warps, len(c.shape))[1]
        layout = accumulator_layout(instruction, c.shape, split, near, self.warps, pin)
        return layout, split if pin is None or "contiguous" not in pin.parts else None

    def near_bytes(self, op: Op, subject: str, instruction: Mma) -> Mma:
        """Returns the instruction with the axes along which bytes are neighbours in memory that become its operands. A
        thread then loads words. Otherwise, it loads one or two bytes at a time: 192 loads for a tile of 128 keys and
        128 values."""
        if not instruction.takes_bytes:
            return instruction
        near, sharing = self.axes_of_bytes(op), self.sharing(op)
        # Products that share an operand take it in the same order of k. Otherwise, its elements would change threads.
        along_k = any("k" in self.axes_of_bytes(each) for each in sharing)
        if along_k and not any(self.is_asked_for(value) for each in sharing for value in each.operands[:2]):
            near = "".join(letter for letter in "mkn" if letter in near + "k")
        else:
            near = near.replace("k", "")
        if not near:
            return instruction
        ways, why = {"whole": near, "plain": ""}, f"bytes are neighbours along {' and '.join(near)}"
        chosen = self.function.choices.choose("words", subject, ways, "whole", loc=op.loc, because=why)
        return replace(instruction, near=chosen)

    def axes_of_bytes(self, op: Op) -> str:
        """Returns those of the axes m, k and n of a product along which bytes are neighbours in memory."""
        rows, found = len(op.result.tile.shape) - 2, set[str]()
        for value, names in zip(op.operands[:2], ("mk", "kn"), strict=True):
            if value not in self.byte_axes:
                self.byte_axes[value] = bytes_along(self.layouts.facts, value, self.layouts.alike)
            axis = self.byte_axes[value]
            if axis is not None and axis >= rows:
                found.add(names[axis - rows])
        return "".join(letter for letter in "mkn" if letter in found)

    def is_asked_for(self, value: Value) -> bool:
        """Whether the kernel loads wider elements of an operand by `ldmatrix`, which leaves them in the order of k."""
        loads = (load for load, _ in loads_of(value, self.layouts.alike))
        return any(load.attrs.get("matrix") and load.result.dtype.bits > 8 for load in loads)

    def sharing(self, op: Op) -> list[Op]:
        """Returns the products that have an operand in common with a product, itself among them."""
        own = {each for value in op.operands[:2] for each in (value, *self.layouts.alike.get(value, ()))}
        return [other for other in self.dots if not own.isdisjoint(other.operands[:2])]

    def subject_of(self, op: Op, names: set[str]) -> str:
        """Returns the name by which a schedule knows a product, given the names of values that share its layout."""
        return op.result.name or op.operands[2].name or min(names, default="product")

    def check_pin_of_groups(self, subject: str, pin: Pin | None) -> None:
        """Raises TileError `layout` for a pin that wgmma cannot follow. wgmma fixes which rows belong to each warp (PTX
        ISA, wgmma)."""
        if pin is not None and said_of_product(pin, self.warps, 2) != ((self.warps, 1), (1, 1)):
            message = f"'{subject}' is a product of wgmma, whose warps lie [{self.warps}, 1], 16 rows each"
            raise TileError("layout", pin.loc, message, "leave the line out, or name an instruction of mma.sync")

    def asked_instruction(self, op: Op, names: set[str]) -> tuple[str | None, str, Loc | None]:
        """Returns the shape and the modifier of the instruction that the kernel or the schedule requests for a product,
        and the source location of this request."""
        shape, modifier = op.attrs["shape"], op.attrs["modifier"]
        named_by = [named for name, named in self.function.instructions.items() if name in names]
        if named_by and (shape is None or is_wgmma(op)):
            shape, modifier = named_by[0].name
            return shape or None, modifier, named_by[0].loc
        return shape, modifier, op.loc

    def pinned_accumulator(self, op: Op) -> Layout | None:
        """Returns the layout that the schedule pins for a product's accumulator, or None."""
        pins = (self.function.pins.get(v.name) for v in (op.result, op.operands[2]) if v.name)
        own = next(pins, None)
        return None if own is None else resolve_pin(own, op.operands[2].tile.shape, self.warps)

    def instructions_for(
        self, op: Op, asked: tuple[str | None, str, Loc | None], given: Layout | None, pin: Pin | None
    ) -> tuple[Mma, list[Mma]]:
        """Returns the default instruction, and all instructions that fit. `asked` contains the requested shape and
        modifier, and the location of the request."""
        (shape, modifier, loc), (a, b, c) = asked, (o.tile for o in op.operands)
        (rule, *_) = fitting(self.target, a, b, c, shape, modifier, loc)
        found = fitting(self.target, a, b, c, None, modifier, loc)
        admitted = [i for i in found if self.admits(i, c.shape, a.shape[-1], given, pin)]
        if shape is None and given is not None and rule not in admitted and admitted:
            # another product, whose result is the accumulator of this product, has chosen the layout
            rule = admitted[0]
        return rule, [i for i in found if i is rule or i in admitted]

    def check_together(self) -> None:
        """Raises TileError `instruction` if a wgmma product reads an operand of an mma.sync product from shared memory.
        No thread would then load this operand for mma.sync."""
        loads = {each.load for groups in self.layouts.wgmma.values() for each in groups.staged()}
        for op in self.dots:
            if op not in self.layouts.wgmma and not loads.isdisjoint(
                each for value in op.operands[:2] for each in chain(value)
            ):
                message = "a product of warp groups reads an operand of this one where it lies"
                raise TileError("instruction", op.loc, message, "one instruction for both")

    def choose_instruction(
        self, op: Op, subject: str, found: list[Mma], rule: Mma, groups: Warpgroups | None, named: Loc | None,
        line: str | None,
    ) -> Mma | Warpgroups:  # fmt: skip
        """Returns the requested instruction, or the default instruction if none is requested. `line` is the schedule
        line that requests another one, or None for a line `choose`. Products with the same
        name (subtiles or unrolled iterations of a product) must all use wgmma, or all use mma.sync, like the first of
        them. The same applies to products that share the layout of the accumulator."""
        way = self.by_groups.get(op.result, self.by_groups.get(subject))
        groups = None if way is False else groups
        found = found if groups is None or way is None else []
        work, options = prod((*op.result.tile.shape, op.operands[0].tile.shape[-1])), {i.written: i for i in found}
        why = "the largest that fits" if named is None else "named"
        if groups is not None:
            names = names_of_product(self.layouts.users, op)
            lines = [each.loc for name, each in self.function.instructions.items() if name in names]
            named, why = lines[0] if lines else None, f"{groups.form}, {groups.steps} for an iteration"
        chosen: Mma | Warpgroups = self.function.choices.choose(
            "instruction",
            subject,
            options if groups is None else {**options, groups.written: groups},
            rule.written if groups is None else groups.written,
            loc=op.loc,
            because=why,
            costs={i.written: work // (i.m * i.n * i.k) for i in found},
            unit="instructions a block",
            line=line,
            pinned=named,
        )
        return chosen

    def by_warpgroups(self, op: Op, shape: str | None, loc: Loc | None) -> Warpgroups | None:
        """Returns the product's `Warpgroups` if wgmma is requested, and otherwise None. Raises TileError `instruction`
        if wgmma cannot compute the product."""
        if shape != INSTRUCTION:
            return None
        found = warpgroups(op, self.layouts.users, self.target.arch, self.warps)
        if isinstance(found, str):
            hint = "mma.sync takes any product; docs/hopper.md says what wgmma takes"
            name = f" '{op.result.name}'" if op.result.name else ""
            which = f"product{name} of line {op.loc.line}" if op.loc is not None and op.loc != loc else "this product"
            raise TileError("instruction", loc, f"{which} cannot be one of warp groups: {found}", hint)
        return found

    def admits(self, i: Mma, shape: tuple[int, ...], k: int, given: Layout | None, pin: Pin | None) -> bool:
        """Whether a product can use instruction `i` in the layout that another product or a pin determines."""
        if given is not None:
            return product(i, given, k) is not None
        return pin is None or self.fits(i, shape, *said_of_product(pin, self.warps, len(shape)))

    def chained_layout(self, op: Op, joined: set[Value], split: Split, layouts: dict[Value, Layout]) -> Layout | None:
        """Returns a layout for a product's result that the next product can use as an operand without a layout
        conversion. Returns None if no such layout divides the warps in the same way. If elements are bytes, a thread
        then holds 4 neighbours of a row, which form one 32-bit word."""
        for user in (u for value in joined for u in self.layouts.users.get(value, ()) if u.spec.product):
            place = next((i for i in (0, 1) if user.operands[i] in joined), None)
            spread = product(user.attrs["instruction"], layouts[user.result], user.operands[0].tile.shape[-1])
            if place is None or spread is None:
                continue
            wanted = spread.loaded[place]
            if layouts[op.result] == wanted:
                return wanted
            instruction, shape = op.attrs["instruction"], op.result.tile.shape
            # Only the number of contiguous elements is varied. The split of warps stays. With 4 contiguous elements, a
            # product of bytes takes the accumulator of another product without a layout conversion, which saves 16
            # stores per thread.
            for count in (2, 4, 8):
                near = (1, count) if place == 0 else (count, 1)
                with suppress(LayoutError):  # the tile is too small for that many elements
                    if (found := accumulator_layout(instruction, shape, split, near, self.warps)) == wanted:
                        why = "the next product takes it without a layout conversion"
                        return self.neighbours(op, near, layouts[op.result], found, why)
        return None

    def stored_layout(self, op: Op, joined: set[Value], split: Split, layouts: dict[Value, Layout]) -> Layout | None:
        """Returns a layout of a product's result that lets a thread store up to 16 bytes of a row at once, or None.

        The result must be stored, and operand b must be contiguous along k, because its columns can then be read in any
        order. Operands of bytes that are not contiguous along k are transposed 2 rows or 4 columns at a time. In the
        returned layout, a thread then holds these rows or columns as neighbours.
        """
        last = len(op.result.tile.shape) - 1
        near_bytes = op.attrs["instruction"].near
        rows = 2 if "m" in near_bytes or self.is_across(op.operands[0], last - 1) else 1
        if "n" in near_bytes or self.is_across(op.operands[1], last):
            counts, why = [4], "bytes that lie across k are transposed 4 at a time"
        elif lies_along(self.layouts.facts, op.operands[1], last - 1, self.starts):
            counts, why = self.stored_at_once(joined), "a thread stores them at once"
        else:
            counts, why = [1], "bytes that lie across k are transposed 2 at a time"
        for count in counts:
            near = (rows, count)
            if near == (1, 1):
                break
            with suppress(LayoutError):  # a thread holds fewer elements
                found = accumulator_layout(op.attrs["instruction"], op.result.tile.shape, split, near, self.warps)
                if found == layouts[op.result]:
                    return None
                return self.neighbours(op, near, layouts[op.result], found, why)
        return None

    def is_across(self, value: Value, axis: int) -> bool:
        """Whether an operand consists of bytes that are contiguous in memory along `axis`, which is not k."""
        return value.dtype.bits == 8 and lies_along(self.layouts.facts, value, axis, self.starts)

    def stored_at_once(self, joined: set[Value]) -> list[int]:
        """Lists how many neighbouring elements of a row one store instruction may write: the largest number first, then
        smaller ones."""
        users = (user for value in joined for user in self.layouts.users.get(value, ()))
        stores = [u for u in users if u.spec.access.kind == "write" and space_of(u.operands[0]) == "global"]
        stores = [store for store in stores if moved_by(store) in joined]
        wide = [width for width, axis in (access_vector(self.layouts.facts, s, self.warps) for s in stores) if axis]
        count = max(wide, default=1)
        return [count >> i for i in range(count.bit_length())]

    def split_of_warps(self, op: Op, subject: str, instruction: Mma, pin: Pin | None) -> Split:
        """Chooses how many warps divide a product along M, how many along N, and first, along a batch axis."""
        shape = op.result.tile.shape
        rule, near = (None, (1, 1)) if pin is None else said_of_product(pin, self.warps, len(shape))
        costs = splits_of_warps(instruction, shape, self.warps)
        if rule is None:
            rule = min(costs, key=lambda split: (costs[split], split))
        options = {
            ", ".join(map(str, split)): split
            for split in {rule: 0, **costs}
            if split == rule or self.fits(instruction, shape, split, near)
        }
        return self.function.choices.choose(
            "warps",
            subject,
            options,
            ", ".join(map(str, rule)),
            loc=op.loc,
            because="the fewest rows and columns of operands" if pin is None else "",
            costs={name: costs[split] for name, split in options.items() if split in costs},
            unit="rows and columns that a warp reads",
            line=f"layout {subject}: warps [{{option}}]",
            pinned=None if pin is None else pin.loc,
        )

    def fits(self, instruction: Mma, shape: tuple[int, ...], split: Split, near: Pair) -> bool:
        try:
            return bool(accumulator_layout(instruction, shape, split, near, self.warps).shape)
        except LayoutError:
            return False

    def neighbours(self, op: Op, near: Pair, plain: Layout, found: Layout, why: str) -> Layout:
        """Chooses between two layouts of a product's result: `found`, in which a thread has contiguous elements, and
        `plain`."""
        subject, rule = op.result.name or op.operands[2].name or "product", ", ".join(map(str, near))
        ways = {rule: found, "1, 1": plain}
        return self.function.choices.choose("contiguous", subject, ways, rule, loc=op.loc, because=why)
