"""Allocates shared tiles for the data of loads, and builds the copies that fill them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import prod
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from dsl.lowering.building.builder import Builder
from dsl.lowering.building.single import SingleElements
from dsl.lowering.directives.halo import Halo, are_adjacent, halo_of, widened
from dsl.lowering.directives.slices import reached
from dsl.lowering.directives.tma import TMA
from dsl.lowering.hopper.boxes import ATOM, MOST_OF_BOX, CopiedBox
from dsl.lowering.hopper.warpgroup import keeps_bits
from dsl.lowering.ir.function import Block, Function, Op, Value, walk
from dsl.lowering.ir.types import SharedType
from dsl.lowering.ops import operand
from dsl.lowering.ops.memory import CUT
from dsl.lowering.plan.products import is_wgmma
from dsl.lowering.plan.tile_loads import is_operand
from dsl.lowering.shared.atoms import MOST_OF_ROW, offsets_within
from dsl.lowering.shared.shared_map import row_swizzle


class Staged(Struct):
    """A load that goes through shared memory.

    `axes` contains the axes of the loaded tile in their order in shared memory. The last axis is contiguous in global
    memory, so that copies are wide. `place` contains the offsets of the elements in the shared tile. There, `run`
    elements of a row are contiguous, and the next row's elements follow. This load's elements start at element `at` of
    the shared tile. If `halo` is not None, it is the box with a halo that contains this load as window `number`.
    `joint` is the number of loads that are adjacent both in the tensor and in the shared tile, or 0. Load 0 copies for
    all of them. If the adjacent loads share the rows of swizzle atoms, `atom` is the number of columns of an atom.
    Otherwise it is 0.
    """

    load: Op
    axes: tuple[int, ...]
    tile: Value
    place: Value
    run: int
    at: int = 0
    halo: Halo | None = None
    joint: int = 0
    number: int = 0
    atom: int = 0

    @property
    def is_in_atoms(self) -> bool:
        """Whether the rows of a tile of its own, which TMA fills, span several swizzle atoms."""
        is_own = self.halo is None and not self.joint
        return bool(self.load.attrs.get(TMA)) and is_own and self.run < self.place.tile.shape[-1]

    @property
    def is_turned(self) -> bool:
        return self.axes != tuple(range(len(self.axes)))

    def turned(self, b: Builder, value: Value | None) -> Value | None:
        """Transposes `value`, which has the load's shape, to the order of axes in shared memory."""
        return b.value("transpose", value, axes=self.axes) if value is not None and self.is_turned else value


class CopyHead(Struct):
    """The copies at the start of a loop's body, the commit of their group, and the wait for the group. `resident`
    contains the copies that are executed once, before the loop."""

    copies: list[Op]
    commit: Op
    wait: Op
    resident: list[Op] = field(default_factory=list)

    @property
    def ops(self) -> set[Op]:
        return {*self.copies, self.commit, self.wait}

    @property
    def is_tma(self) -> bool:
        """Whether some of the copies are TMA copies."""
        return any("box" in copy.attrs for copy in self.copies)

    @property
    def bytes(self) -> int:
        """The number of bytes in one stage of the ring."""
        types = [tile.type for tile in dict.fromkeys(op.operands[0] for op in self.copies if op not in self.resident)]
        return sum(type.bytes for type in types if isinstance(type, SharedType))


def retype(tile: Value, **changes: Any) -> None:
    """Changes fields of the type of a shared tile."""
    assert tile.op is not None and isinstance(tile.type, SharedType)
    tile.op.attrs["type"] = tile.type = replace(tile.type, **changes)


def read_stage(body: Block, rings: Collection[Value], stage: Value) -> None:
    """Adds the operand `stage` to each access to `rings` in `body` that has no stage yet."""
    for op in walk(body):
        if op.operands and op.operands[0] in rings and "stage" not in op.attrs.get("has", ["stage"]):
            op.operands.insert(1, stage)
            op.attrs["has"] = [op.attrs["has"][0], "stage", *op.attrs["has"][1:]]


def taken_names(block: Block) -> set[str]:
    """Returns the names of all shared tiles that `block` allocates."""
    return {op.attrs["name"] for op in walk(block) if op.spec.allocates}


def shared_tile(b: Builder, stem: str, taken: set[str], type: SharedType, **attrs: bool) -> Value:
    """Allocates a shared tile with an unused name: `sa`, or `sa2` if the kernel already has an `sa`. The attribute
    `own` marks a tile of the compiler: accesses to it get barriers even with `barriers manual`."""
    number, name = 2, stem
    while name in taken:
        name, number = f"{stem}{number}", number + 1
    taken.add(name)
    tile = b.op("shared_alloc", type=type, name=name, own=True, **attrs).result
    tile.name = name
    return tile


def copy(
    b: Builder, tile: Value, stage: Value | None, place: Value, tensor: Value, source: Value | None, mask: Value | None,
    cache: str | None = None, ahead: bool = False, box: CopiedBox | None = None,
) -> None:  # fmt: skip
    """Builds a copy from offsets of a tensor to offsets of a shared tile, or of a stage of a ring.

    If `ahead` is true, the copy is for a later iteration (by the number of stages minus one), and does nothing past the
    last iteration. `box` is the TMA box of these offsets, if one TMA instruction does the copy.
    """
    parts = {"memory": tile, "stage": stage, "offset": place, "tensor": tensor, "source": source, "mask": mask}
    more: dict[str, object] = {"ahead": True} if ahead else {}
    if box is not None:
        parts |= box.operands
        more |= box.attrs
    b.access("copy", parts, cache=cache, bytes=0, **more)


def with_halos(function: Function, b: Builder, staged: list[Staged]) -> list[Staged]:
    """Replaces the shared tiles of overlapping windows by one shared tile with a halo."""
    several: dict[tuple[Any, ...], list[Staged]] = {}
    for each in staged:
        load = each.load
        is_whole = each.axes == (0, 1) and each.run == load.result.tile.shape[1]
        if load.attrs.get(TMA) and is_whole and operand(load, CUT) is None and "rows" not in load.attrs:
            several.setdefault((load.operands[0], load.result.tile), []).append(each)
    seen: dict[Op, Staged] = {}
    for windows in several.values():
        shape = windows[0].load.result.tile.shape
        halo = halo_of([_box(b, each) for each in windows])
        if halo is None or not _is_one(function, windows, halo):
            continue
        first = windows[0].tile
        rows = -(-halo.rows // ATOM) * ATOM  # the swizzle repeats after eight rows
        retype(first, shape=(rows, shape[1]), swizzle=row_swizzle(shape[1] * first.dtype.bytes), fixed=True)
        for number, each in enumerate(windows):
            row = b.value("mul", *b.same_shape([halo.row(b, number), b.index(shape[1])]))
            column = b.value("arange", extent=shape[1])
            place = b.value("add", b.broadcast(b.reshape(row, (shape[0], 1)), shape), b.broadcast(column, shape))
            seen[each.load] = replace(each, tile=first, place=place, halo=halo, number=number)
    return _in_place(b, staged, seen)


def _is_one(function: Function, windows: list[Staged], halo: Halo) -> bool:
    """Makes the choice `halo`: whether several windows become one box."""
    load = windows[0].load
    own = prod(load.result.tile.shape) * len(windows) * load.result.dtype.bytes
    return function.choices.choose(
        "halo",
        load.operands[0].name or "tensor",
        {"joined": True, "apart": False},
        "joined",
        loc=load.loc,
        because=f"{len(windows)} boxes of an iteration overlap",
        costs={"joined": halo.box.size * load.result.dtype.bytes, "apart": own},
        unit="bytes an iteration",
    )


def copy_halo(b: Builder, each: Staged) -> None:
    """Builds the copy of a box with its halo, for all its windows. The copy has no source offsets, only the TMA box."""
    assert each.halo is not None
    if each.number == 0:  # the first window does the copy for all
        place = offsets_within(b, (each.halo.rows, each.run))
        copy(b, each.tile, None, place, each.load.operands[0], None, None, box=each.halo.box)


def copy_joint(b: Builder, each: Staged) -> None:
    """Builds the copies for several adjacent loads, one copy for each swizzle atom."""
    if each.number:
        return  # load 0 copies for all
    *rows, columns = each.place.tile.shape
    if each.atom:
        whole, held = widened(_box(b, each), 0, each.atom), (prod(rows), each.atom)
        boxes = [_shifted(b, whole, start) for start in range(0, columns * each.joint, each.atom)]
    else:
        held = (prod(rows) * each.joint, each.run)
        narrow = [_box(b, each, start) for start in range(0, columns, each.run)]
        boxes = [widened(box, box.outermost, box.axes[box.outermost].extent * each.joint) for box in narrow]
    for number, box in enumerate(boxes):
        at = number * prod(held)
        place = offsets_within(b, held)
        place = b.value("add", b.broadcast(b.index(at), held), place) if number else place
        copy(b, each.tile, None, place, each.load.operands[0], None, None, box=replace(box, at=at))


def copy_rows(b: Builder, elements: SingleElements, each: Staged) -> None:
    """Builds the copies of a load that is several boxes, one below the other."""
    box, shape, columns = CopiedBox.of(each.load), each.load.result.tile.shape, each.place.tile.shape[-1]
    assert box.rows is not None
    along, rows = box.rows
    beside = prod(each.place.tile.shape[:-1]) // shape[along]
    for start in range(0, columns, each.run):
        part = box.columns(b, each.axes, shape, start, each.run)
        for row in range(0, shape[along], rows):
            held, at = (rows * beside, each.run), part.at + row * beside * each.run
            place = offsets_within(b, held)
            place = b.value("add", b.broadcast(b.index(at), held), place) if at else place
            one = replace(part.from_row(elements, shape, row), at=at)
            copy(b, each.tile, None, place, each.load.operands[0], None, None, box=one)


def _shifted(b: Builder, box: CopiedBox, columns: int) -> CopiedBox:
    """Returns the box that starts `columns` elements later along the innermost axis of `box`."""
    first, *others = box.axes
    moved = replace(first, first=b.value("add", first.first, b.index(columns))) if columns else first
    return replace(box, axes=(moved, *others))


def side_by_side(
    function: Function, b: Builder, staged: list[Staged], users: dict[Value, list[Op]], room: int
) -> list[Staged]:
    """Places the TMA loads of one source line, such as subtiles of one load, in one shared tile, one behind the other.
    If rows span several swizzle atoms, each atom contains the rows of all loads. Loads of short rows share the rows of
    an atom, unless the stages that a `pipeline` line asks for then exceed the `room` bytes of a block."""
    depth = max(function.by_subject("pipeline", int).values(), default=1)
    types = [tile.type for tile in dict.fromkeys(each.tile for each in staged)]
    left = room // depth - sum(type.bytes for type in types if isinstance(type, SharedType))
    # Warpgroup MMAs that differ only in these loads can then become one instruction (`place_waits`). Instead of three
    # wgmma of 64 columns, one wgmma of 192 columns reads the left operand only once. An f16 product of 3072 on an H100
    # then takes 82.8 µs instead of 105.
    moved: dict[Op, Staged] = {}
    for several in _parts_of_loads(staged):
        first, run, shape = several[0].tile, several[0].run, several[0].place.tile.shape
        rows, is_whole = prod(shape[:-1]), run == shape[-1]
        boxes = [_box(b, each) for each in several]
        atom = _shared_atom(function, several, boxes, users, left) if is_whole else 0
        place, extent = boxes[0].outermost, boxes[0].axes[boxes[0].outermost].extent
        is_joint = place > 0 and extent * len(several) <= MOST_OF_BOX and are_adjacent(boxes, place)
        joint = len(several) if is_joint or atom else 0
        if len(several) == 1 or not (is_whole or joint):
            continue
        if atom:
            swizzle = row_swizzle(atom * first.dtype.bytes)
            retype(first, shape=(-(-run * len(several) // atom), rows, atom), swizzle=swizzle, fixed=True)
        else:
            held = (len(several), *first.shape) if is_whole else (shape[-1] // run, rows * len(several), run)
            retype(first, shape=held)
        for number, each in enumerate(several):
            at, places = number * rows * run, each.place
            if atom:
                whole, within = divmod(number * run, atom)
                at, places = whole * rows * atom + within, offsets_within(b, shape, atom)
            elif not is_whole:
                places = offsets_within(b, shape, run, rows * len(several))
            places = b.value("add", b.broadcast(b.index(at), shape), places) if number else places
            moved[each.load] = replace(each, tile=first, place=places, at=at, joint=joint, number=number, atom=atom)
    return _in_place(b, staged, moved)


def _parts_of_loads(staged: list[Staged]) -> Iterable[list[Staged]]:
    """Returns the TMA loads of each source line, if they have the same shape."""
    parts: dict[tuple[Any, ...], list[Staged]] = {}
    for each in staged:
        load = each.load
        if load.attrs.get(TMA) and load.loc is not None and not each.halo and "rows" not in load.attrs:
            parts.setdefault((load.operands[0], load.loc, load.result.tile), []).append(each)
    return parts.values()


def _shared_atom(
    function: Function, several: list[Staged], boxes: list[CopiedBox], users: dict[Value, list[Op]], room: int
) -> int:
    """Returns the number of columns of the swizzle atoms whose rows several loads share, by the choice `atoms`. Returns
    0 if the loads share no rows. The last atom may have more columns than the loads need. TMA copies them, too."""
    load, run, count = several[0].load, several[0].run, len(several)
    rows, size = prod(several[0].place.tile.shape[:-1]), load.result.dtype.bytes
    most = MOST_OF_ROW // size
    if (
        count == 1
        or run >= most
        or most % run
        or rows % ATOM
        or not feeds_wgmma(load, users)
        or not are_adjacent(boxes, 0)
    ):
        return 0
    # TMA takes as long for a row of 32 bytes as for one of 128: 2.95 cycles on an H200.
    atoms = -(-count * run // most)
    fits = (atoms * most - count * run) * rows * size <= room
    name = load.operands[0].name or "tensor"
    return function.choices.choose(
        "atoms",
        name,
        {"shared": most, "apart": 0},
        "shared" if fits else "apart",
        loc=load.loc,
        because=f"{count} rows of {run * size} bytes fit into {atoms} of {MOST_OF_ROW} bytes",
        costs={"shared": atoms * rows, "apart": count * rows},
        unit="rows of boxes an iteration",
        retreats=((f"atoms.{name}", "apart", ("shared",)),),  # the last atom may be wider than the tile
    )


def feeds_wgmma(load: Op, users: dict[Value, list[Op]]) -> bool:
    """Whether a wgmma reads the loaded value as its operand."""
    return bool(wgmmas_of(load, users))


def wgmmas_of(load: Op, users: dict[Value, list[Op]]) -> list[Op]:
    """Returns the wgmma MMAs that read the loaded value, directly or transposed, as their operand."""
    same = reached([load.result], lambda v: [r for user in users.get(v, ()) if keeps_bits(user) for r in user.results])
    return [op for value in same for op in users.get(value, ()) if is_operand(op, value) and is_wgmma(op)]


def _box(b: Builder, each: Staged, start: int = 0) -> CopiedBox:
    """Returns the TMA box of `run` columns of a load, from column `start` on. Its axes are in the order of shared
    memory."""
    return CopiedBox.of(each.load).columns(b, each.axes, each.load.result.tile.shape, start, each.run)


def _in_place(b: Builder, staged: list[Staged], moved: dict[Op, Staged]) -> list[Staged]:
    """Replaces the entries of `staged` that are in `moved`, and removes the allocations of shared tiles that are no
    longer used."""
    now = [moved.get(each.load, each) for each in staged]
    left_out = {each.tile.op for each in staged} - {each.tile.op for each in now}
    b.block.ops = [op for op in b.block.ops if op not in left_out]
    return now
