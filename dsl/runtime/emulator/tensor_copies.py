"""TMA copies of boxes between tensors in global memory and shared memory (PTX ISA, "cp.async.bulk.tensor").

One thread starts the copy of a whole TMA box. A copy into shared memory is in flight until its bytes complete a phase
of its mbarrier. The bytes arrive as late as possible: when some thread looks at the mbarrier. With a seed, some copies
arrive at once. A copy out of shared memory belongs to a bulk group of its thread. Copies in either direction read and
write through the asynchronous proxy.

A TMA box consists of rows of whole 16-byte pieces, one after another. A swizzle moves pieces within 128 bytes. So a box
that begins at a multiple of 128 fills one contiguous range of shared memory.

Copies into shared memory are cut at the array's edges, to the byte. Copies and reductions out of shared memory consist
of whole pieces. If the rows of the array end inside a piece, a device also writes the rest of the piece. No manual
states this. All of 1,672 reductions tried on an H200 wrote the rest (driver 580.159.04), and an H100 overwrote 420
elements beside a view. The emulator reports such copies.

Each row of an im2col copy is a pixel. The pixels run through the map's window, in one image after another (PTX ISA,
"im2col mode").
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .causality import Strong
from .code import Site
from .copies import Copies, Operation, landings_of, sources_of
from .findings import Kind
from .knowledge import CLUSTER, GPU
from .landings import Landing
from .memory import GLOBAL_WINDOW
from .reductions import BulkReduction
from .reductions_in_flight import ReductionInFlight, ReductionsInFlight
from .shadow import PLAIN_READ, STRONG_WRITE, SpacePlace
from .spaces import GlobalSpace, Space
from .stamps import U
from .tensor_maps import ALIGNMENT as MAP_ALIGNMENT
from .tensor_maps import BYTES, UNIT, PlacedMap

# A TMA box in shared memory begins at a multiple of this many bytes.
ALIGNMENT = 128


@dataclass(frozen=True)
class Box:
    """The part of a TMA box that lies in the array. `sizes` has the number of elements of this part along each axis.
    `before` has the number of elements that are cut off along each axis because they lie before the array."""

    placed: PlacedMap
    first: int  # offset of the first element in global memory
    sizes: tuple[int, ...]
    before: tuple[int, ...]
    beyond: int = 0  # bytes of each row that lie past the end of the array's row

    @property
    def is_empty(self) -> bool:
        return 0 in self.sizes

    @property
    def row_bytes(self) -> int:
        return self.sizes[0] * self.placed.map.element_bytes

    @property
    def last(self) -> int:
        """Offset in global memory just past the last byte of the box."""
        outer = zip(self.sizes[1:], self.placed.strides[1:], strict=True)
        return self.first + self.row_bytes + sum((size - 1) * stride for size, stride in outer)

    def rows(self) -> Any:
        """Offsets of the box's rows in global memory."""
        at = np.array([self.first], np.int64)
        for size, stride in zip(self.sizes[1:], self.placed.strides[1:], strict=True):
            at = (np.arange(size)[:, None] * stride + at[None, :]).reshape(-1)
        return at

    def seen_in(self, data: Any) -> Any:
        """A view of the box's bytes in global memory. The outermost axis comes first, and each row is an array of
        bytes."""
        shape = (*self.sizes[:0:-1], self.row_bytes)
        strides = (*self.placed.strides[:0:-1], 1)
        return np.lib.stride_tricks.as_strided(data[self.first :], shape, strides)

    def put_into(self, data: Any, source: Any) -> None:
        """Copies the box's bytes from global memory into `data`, the bytes of the whole TMA box."""
        self.seen_in_box(data)[...] = self.seen_in(source)

    def put_out(self, target: Any, data: Any) -> None:
        """Copies the box's bytes from `data`, the bytes of the whole TMA box, to global memory."""
        self.seen_in(target)[...] = self.seen_in_box(data)

    def taken_from(self, data: Any) -> Any:
        """The box's bytes as an array [rows, bytes], with the rows in the order of `rows`."""
        return self.seen_in_box(data).reshape(-1, self.row_bytes)

    def seen_in_box(self, data: Any) -> Any:
        """Like `seen_in`, but a view of `data`, which has the bytes of the whole TMA box, row after row."""
        size = self.placed.map.element_bytes
        whole = data.reshape(*self.placed.map.box[:0:-1], self.placed.map.box[0] * size)
        cuts = [slice(low, low + count) for low, count in zip(self.before[:0:-1], self.sizes[:0:-1], strict=True)]
        return whole[(*cuts, slice(self.before[0] * size, self.before[0] * size + self.row_bytes))]


def box_at(placed: PlacedMap, corner: list[int], pieces: bool = False) -> Box:
    """The TMA box whose first element has the coordinates `corner`, which may be negative. With `pieces`, a box that is
    copied out includes the rest of the 16-byte piece in which a row of the array ends."""
    low = [min(max(0, -at), box) for at, box in zip(corner, placed.map.box, strict=True)]
    high = [
        max(min(box, extent - at), first)
        for at, box, extent, first in zip(corner, placed.map.box, placed.map.extents, low, strict=True)
    ]
    size, beyond = placed.map.element_bytes, 0

    if pieces and high[0] > low[0] and UNIT % size == 0:
        beyond = min(-placed.map.extents[0] * size % UNIT, (placed.map.box[0] - high[0]) * size)
        # Only a box that reaches the end of the array's rows writes the rest of a piece.
        beyond *= corner[0] + high[0] == placed.map.extents[0]
        high[0] += beyond // size
    first = placed.address - GLOBAL_WINDOW
    first += sum((at + skip) * stride for at, skip, stride in zip(corner, low, placed.strides, strict=True))
    return Box(placed, first, tuple(top - skip for top, skip in zip(high, low, strict=True)), tuple(low), beyond)


def within(box: Box) -> Box:
    """The part of a TMA box that lies in the array. This part excludes the bytes past the end of the array's rows."""
    columns, *rest = box.sizes
    return replace(box, sizes=(columns - box.beyond // box.placed.map.element_bytes, *rest), beyond=0)


@dataclass(frozen=True)
class Pixels:
    """The part of an im2col box that lies in the array. It has some of the box's pixels, and the same channels of each
    pixel."""

    placed: PlacedMap
    numbers: Any  # the pixels' numbers in the box
    starts: Any  # the offset in global memory of each pixel's first channel
    channels: int
    before: int  # channels of the box that lie before the array's first channel

    @property
    def is_empty(self) -> bool:
        return not self.channels or not len(self.starts)

    @property
    def row_bytes(self) -> int:
        return self.channels * self.placed.map.element_bytes

    @cached_property
    def first(self) -> int:
        return int(self.starts.min())

    @cached_property
    def last(self) -> int:
        """Offset in global memory just past the last byte of the box."""
        return int(self.starts.max()) + self.row_bytes

    def rows(self) -> Any:
        """Offsets of the box's rows in global memory."""
        return self.starts

    def put_into(self, data: Any, source: Any) -> None:
        """Copies the pixels' bytes from global memory into `data`, the bytes of the whole box."""
        rows = np.lib.stride_tricks.as_strided(source, (len(source) - self.row_bytes + 1, self.row_bytes), (1, 1))
        self.seen_in_box(data)[self.numbers] = rows[self.starts]

    def put_out(self, target: Any, data: Any) -> None:
        """Copies the pixels' bytes from `data`, the bytes of the whole box, to global memory."""
        target[self.starts[:, None] + np.arange(self.row_bytes)] = self.taken_from(data)

    def taken_from(self, data: Any) -> Any:
        """The pixels' bytes as an array [rows, bytes], with the rows in the order of `rows`."""
        return self.seen_in_box(data)[self.numbers]

    def seen_in_box(self, data: Any) -> Any:
        """A view of the channels' bytes of all pixels in `data`, the bytes of the whole box."""
        box, size = self.placed.map.box, self.placed.map.element_bytes
        first = self.before * size
        return data.reshape(box[1], box[0] * size)[:, first : first + self.row_bytes]


def pixels_at(placed: PlacedMap, corner: list[int], offsets: list[int]) -> Pixels:
    """The im2col box whose first base pixel has the coordinates `corner`. This pixel lies in the window.

    Base pixels are numbered in the order of the copy, innermost spatial axis first. For each base pixel the copy reads
    the pixel that lies `offsets` away.
    """
    map, window = placed.map, placed.map.window
    assert window is not None
    spatial = zip(map.extents[1:-1], placed.strides[1:-1], window.lower, window.upper, window.steps, strict=True)
    rest = np.arange(map.box[1])
    inside = np.ones(len(rest), bool)
    starts = np.zeros(len(rest), np.int64)
    for at, offset, (extent, stride, lower, upper, step) in zip(corner[1:-1], offsets, spatial, strict=True):
        # Number of base pixels along this axis in the window.
        count = (extent - 1 + upper - lower) // step + 1
        rest = rest + (at - lower) // step
        place = lower + rest % count * step + offset
        inside &= (place >= 0) & (place < extent)
        starts += place * stride
        rest = rest // count
    image = rest + corner[-1]
    inside &= (image >= 0) & (image < map.extents[-1])
    starts += image * placed.strides[-1]
    before = min(max(0, -corner[0]), map.box[0])
    channels = max(min(map.box[0], map.extents[0] - corner[0]) - before, 0)
    numbers = np.flatnonzero(inside)
    first = placed.address - GLOBAL_WINDOW + (corner[0] + before) * map.element_bytes
    return Pixels(placed, numbers, starts[numbers] + first, channels, before)


def pieces(placed: PlacedMap, start: int) -> Any:
    """The positions of a TMA box's 16-byte pieces in shared memory, in units of 16 bytes. The box begins at address
    `start` of shared memory."""
    found = start // UNIT + np.arange(placed.box_bytes // UNIT)
    # The swizzle XORs the address bits from 7 on into the bits from 4 on. So the swizzle depends on the address, not on
    # the box.
    return found ^ (found >> 3 & (1 << placed.swizzle_bits) - 1)


class TensorLoads:
    """TMA copies into the shared memory of a wave."""

    def __init__(self, wave: Any):
        self.wave = wave

    def start(
        self, g: Any, site: Site, boxes: list[Box | Pixels], starts: Any, keys: Any, map_at: int | None = None
    ) -> None:
        """Starts a copy of each lane's TMA box into shared memory. `starts` has the offset of each lane's destination
        in the wave's shared memory.

        `keys` are the lanes' mbarriers. `map_at` is the offset of the map if the map lies in writable memory, else
        None.
        """
        wave, memory = self.wave, self.wave.spaces["shared"]
        place = shared_place(starts, boxes[0].placed.box_bytes)
        # Each piece of the destination is a lane of its own for the shadow memory.
        rows = g.repeated(place.lanes // g.n)
        g.launch.proxies.check(memory, place, rows, site, "a tensor copy writes", overwrites=True)
        # A pipeline stage that another block's arrival has released is free for copies, but not for other accesses.
        with wave.ordering.of_copies():
            memory.shadow.start_copy(place, rows, site, by_proxy=True)
        numbers = wave.copies.made + 1 + np.arange(g.n)
        wave.copies.made += g.n
        units = place.units(memory.shadow.granule)
        landings_of(memory, wave).started(units, np.repeat(numbers, place.lanes // g.n))
        units = units.reshape(g.n, -1)
        for lane in range(g.n):
            part = g.part(np.array([lane]))
            source = SourceReading(part, site, boxes[lane], map_at)
            if source.is_bad:
                continue
            own = int(starts[lane]), units[lane], int(numbers[lane])
            began = 0 if wave.time is None else wave.time.behind(part.index())
            load = TensorLoad(wave, part, site, boxes[lane], *own, source, began)
            wave.mbarriers.await_copy(int(keys[lane]), load)


class SourceReading:
    """A copy's reads of global memory. While the copy is in flight, nobody may write this memory."""

    def __init__(self, part: Any, site: Site, box: Box | Pixels | None, map_at: int | None = None):
        """`box` is None for a copy out of shared memory. `map_at` is the offset of the map if the map lies in writable
        memory, else None."""
        self.operation: Operation | None = None
        self.device = device = part.wave.spaces["global"]
        if box is not None and box.is_empty:
            box = None
        self.is_bad = box is not None and not is_allocated(device, box, part, site, False)
        places = [] if map_at is None else [map_place(map_at)]
        if self.is_bad:
            return
        if box is not None:
            count_sectors(device, box, part, site, False)
        for place in places:
            device.seen(place, part.repeated(place.lanes), site, False)
        # An array that no store of the program reaches needs no check.
        if box is not None and (can_be_written(device, box) or device.overlap is not None):
            place = global_place(device, box)
            lanes = part.repeated(place.lanes)
            device.seen(place, lanes, site, False)
            if can_be_written(device, box):
                part.launch.global_proxies.check(device, place, lanes, site, "a tensor copy reads")
                device.shadow.access(PLAIN_READ, place, lanes, site, record=False)
                places.append(place)
        if not places:
            return
        stamps = part.lane("gid stamp") | U(site.stamp)
        zero, sources = np.zeros(1, np.int64), [(np.zeros(place.lanes, np.int64), place) for place in places]
        self.operation = Operation(site, part.index(), zero, zero, device, places[0], device, sources, stamps)
        sources_of(device).add(part.wave, self.operation)

    def end(self) -> None:
        if self.operation is not None:
            sources_of(self.device).remove(self.operation)


@dataclass
class TensorLoad:
    """A copy in flight of one TMA box into shared memory. `part` is a group with only the copy's thread. `units` are
    the granules of the copy's destination."""

    wave: Any
    part: Any
    site: Site
    box: Box | Pixels
    start: int
    units: Any
    number: int
    source: SourceReading
    began: int  # the logical time of the start

    @property
    def bytes(self) -> int:
        return self.box.placed.box_bytes

    def land(self, landing: Landing) -> None:
        """Writes the copy's bytes. They have arrived for threads that wait for the phase of `landing`."""
        memory = self.wave.spaces["shared"]
        data = np.zeros(self.bytes, np.uint8)
        # Global memory is read now and not at the issue, so that the copy includes a write in between, as on a device.
        # Elements outside the array are 0 and count as bytes.
        if not self.box.is_empty:
            self.box.put_into(data, self.wave.spaces["global"].data)
        self.source.end()
        landings = landings_of(memory, self.wave)
        # Another write to the destination is reported when it happens. If the run goes on, the record of that write
        # stays.
        target = pieces(self.box.placed, self.start)
        memory.data.reshape(-1, UNIT)[target] = data.reshape(-1, UNIT)
        memory.changes += 1
        landings.land(self.units, self.number, landing)


@dataclass
class OperationOut(Operation):
    """A copy out of shared memory. `map` is the copy's read of its map, if the map lies in writable memory. `reduction`
    is None for a plain copy."""

    map: SourceReading | None = None
    reduction: ReductionInFlight | None = None


class TensorStores(Copies):
    """TMA copies out of the shared memory of a wave. Each copy is a separate operation. Groups are counted for each
    thread."""

    def store(
        self,
        g: Any,
        site: Site,
        boxes: list[Box | Pixels],
        starts: Any,
        reduction: BulkReduction | None = None,
        map_at: int | None = None,
    ) -> None:
        """Starts a copy for each lane. A copy reads the lane's TMA box in shared memory, at the offset that `starts`
        has for the lane. It writes the box to global memory, where the map specifies. With a reduction, each element
        there is combined with an element of the box."""
        memory = self.wave.spaces["shared"]
        place = shared_place(starts, boxes[0].placed.box_bytes)
        each = place.lanes // g.n
        rows = g.repeated(each)
        g.launch.proxies.check(memory, place, rows, site, "a tensor copy reads")
        # The read is recorded when a thread waits for it. Until then `sources` forbids writes.
        memory.shadow.access(PLAIN_READ, place, rows, site, record=False)
        for lane in range(g.n):
            part = g.part(np.array([lane]))
            own = place.restricted(np.arange(lane * each, lane * each + each))
            self.store_box(part, site, boxes[lane], int(starts[lane]), own, reduction, map_at)

    def store_box(
        self,
        part: Any,
        site: Site,
        box: Box | Pixels,
        start: int,
        source: SpacePlace,
        reduction: BulkReduction | None,
        map_at: int | None,
    ) -> None:
        memory, device = self.wave.spaces["shared"], self.wave.spaces["global"]
        target, pending = None, None
        if isinstance(box, Box) and box.beyond:
            does = "writes" if reduction is None else "changes"
            end = box.placed.map.extents[0] * box.placed.map.element_bytes
            message = f"a tensor copy {does} {box.beyond} bytes past the array's rows of {end}: it goes out in whole "
            part.launch.report(Kind.OUT_OF_BOUNDS, f"{message}{UNIT} bytes", part, 0, site)
            # The 16-byte piece in which a row ends lies partly outside of the allocation. After the report, the run
            # goes on with the part of the box that lies in the array.
            if not lies_in_one(device, box):
                box = within(box)
        if not box.is_empty:
            if not is_allocated(device, box, part, site, True):
                return
            target = global_place(device, box)
            lanes = part.repeated(target.lanes)
            device.seen(target, lanes, site, True)
            does = "a tensor copy writes" if reduction is None else "a bulk reduction changes"
            part.launch.global_proxies.check(device, target, lanes, site, does)
            data = memory.data.reshape(-1, UNIT)[pieces(box.placed, start)].reshape(-1)
            if reduction is None:
                # The bytes are written now. A thread that reads or writes them before the wait is reported.
                device.shadow.start_copy(target, lanes, site, by_proxy=True)
                box.put_out(device.data, data)
            else:
                pending = start_reduction(device, target, lanes, site, reduction)
                elements = box.rows()[:, None] + np.arange(0, box.row_bytes, reduction.size)
                reduction.apply(device.data, elements.reshape(-1), box.taken_from(data))
            count_sectors(device, box, part, site, True)
            device.changes += 1
        self.made += 1
        stamps = part.lane("gid stamp") | U(site.stamp)
        readers, number = np.zeros(source.lanes, np.int64), np.array([self.made])
        out = site, part.index(), self.open[part.index()], number, device, target, memory, [(readers, source)], stamps
        self.begin(OperationOut(*out, SourceReading(part, site, None, map_at), pending))

    def wait_for_reads(self, g: Any, allowed: int) -> None:
        """Executes `wait_group.read`. All groups but the latest `allowed` have then read their source memory. Threads
        that are ordered after this wait may overwrite this memory."""
        index = g.index()
        for operation in self.pending:
            where = np.flatnonzero(index == operation.threads[0])
            if len(where) and operation.groups[0] < self.open[operation.threads[0]] - allowed:
                self.read(operation)

    def read(self, operation: Operation) -> None:
        self.released(operation)
        for readers, place in operation.sources:
            part = self.wave.lanes_at(operation.threads[readers])
            operation.device.shadow.access(PLAIN_READ, place, part, operation.site)
        operation.sources = []
        assert isinstance(operation, OperationOut) and operation.map is not None
        operation.map.end()

    def complete(self, operation: Operation) -> None:
        self.read(operation)
        target, shadow = operation.target, operation.memory.shadow
        assert isinstance(operation, OperationOut)
        if target is None:
            return
        if operation.reduction is None:
            shadow.finish_copy(target, operation.stamps, self.wave.ordering.clock.now)
        else:
            lanes = self.wave.lanes_at(np.repeat(operation.threads, target.lanes))
            shadow.reductions.complete(operation.reduction, target, lanes, operation.site)

    def end(self) -> None:
        """At the end of the wave, reports copies that still read shared memory, since this memory ends with its
        block."""
        for operation in self.pending:
            if operation.sources:
                message = "the block may end before this copy has read its shared memory: cp.async.bulk.wait_group.read"
                part = self.wave.lanes_at(operation.threads)
                self.wave.launch.report(Kind.SOURCE_CHANGED, message, part, 0, operation.site)
            self.released(operation)
            assert isinstance(operation, OperationOut) and operation.map is not None
            operation.map.end()


def start_reduction(
    memory: Space, place: SpacePlace, g: Any, site: Site, reduction: BulkReduction, by_proxy: bool = True
) -> ReductionInFlight:
    """Begins a reduction by these lanes. Checks first that the destination is free."""
    shadow = memory.shadow
    if shadow.reductions is None:
        shadow.reductions = ReductionsInFlight(shadow)
    strong = Strong(GPU if by_proxy else CLUSTER, reduction.size, observes=False)
    shadow.access(STRONG_WRITE, place, g, site, strong, read_modify=True, record=False, by_proxy=by_proxy)
    return shadow.reductions.begin(shadow.kind_of(STRONG_WRITE, strong, by_proxy), place, g, site)


def map_place(offset: int) -> SpacePlace:
    """The place of a tensor map in global memory."""
    return SpacePlace(MAP_ALIGNMENT, BYTES // MAP_ALIGNMENT, offset // MAP_ALIGNMENT)


def count_sectors(device: GlobalSpace, box: Box | Pixels, part: Any, site: Site, write: bool) -> None:
    """Counts the sectors of 32 bytes that the rows of a TMA box touch. A sector that two rows touch counts twice. The
    bytes of the rows are counted, too, since the least possible number of sectors depends on them."""
    rows = box.rows()
    found = int((((rows + box.row_bytes - 1) >> 5) - (rows >> 5) + 1).sum())
    device.add_sectors(box.first, part.launch.counters_of(site), found, len(rows) * box.row_bytes, write)


def can_be_written(device: GlobalSpace, box: Box | Pixels) -> bool:
    """Whether a store of the program can reach the array of the TMA box."""
    index = int(np.searchsorted(device.starts, box.first, "right")) - 1
    return not device.unwritten[index]


def lies_in_one(device: GlobalSpace, box: Box | Pixels) -> bool:
    """Whether a TMA box lies in one allocation."""
    index = int(np.searchsorted(device.starts, box.first, "right")) - 1
    return index >= 0 and bool(box.last <= device.ends[index])


def is_allocated(device: GlobalSpace, box: Box | Pixels, part: Any, site: Site, write: bool) -> bool:
    """Reports a TMA box that does not lie in one allocation. Returns whether it lies in one."""
    index = int(np.searchsorted(device.starts, box.first, "right")) - 1
    if lies_in_one(device, box) and not (write and device.read_only[index]):
        if write:
            device.unwritten[index] = False
        return True
    inside = index >= 0 and box.first < device.ends[index]
    address = (int(device.ends[index]) if inside else box.first) + GLOBAL_WINDOW
    verb = "writes" if write else "reads"
    message = f"a tensor copy {verb} at global address {address:#x}: {device.memory.nearest(address)}"
    if inside and device.read_only[index]:
        message = f"a tensor copy {verb} read-only memory"
    part.launch.report(Kind.OUT_OF_BOUNDS, message, part, 0, site)
    return False


def global_place(device: GlobalSpace, box: Box | Pixels) -> SpacePlace:
    """The place of a TMA box in global memory. Its units are as large as the rows of the box allow."""
    rows = box.rows()
    # The lowest set bit of all offsets and of the row's length gives the largest unit into which all rows can be
    # divided.
    mixed = int(np.bitwise_or.reduce(rows)) | box.row_bytes | UNIT
    size = max(mixed & -mixed, device.shadow.granule)
    units = rows[:, None] // size + np.arange(-(-box.row_bytes // size))
    return SpacePlace(size, units.size, 0, units.reshape(-1))


def shared_place(starts: Any, count: int) -> SpacePlace:
    """The place of TMA boxes of `count` bytes at the offsets `starts`, as an array [lanes · rows]. The units have 128
    bytes, or 16 if an offset is no multiple of 128 (copies without a map)."""
    size = ALIGNMENT if count % ALIGNMENT == 0 and not (starts % ALIGNMENT).any() else UNIT
    rows = (starts // size)[:, None] + np.arange(count // size)
    return SpacePlace(size, rows.size, 0, rows.reshape(-1))
