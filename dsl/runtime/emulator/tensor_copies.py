"""TMA copies of boxes between tensors in global memory and shared memory (PTX ISA, "cp.async.bulk.tensor").

One thread starts the copy of a whole TMA box. A copy into shared memory is in flight until its bytes complete a phase
of its mbarrier. The emulator lets the bytes arrive as late as possible, when some thread looks at the mbarrier. In a
launch with a random seed, some copies arrive at once. A copy out of shared memory belongs to a bulk group of its
thread. Copies in both directions read and write through the asynchronous proxy.

In shared memory, a TMA box is a sequence of rows, each a whole number of 16-byte pieces. A swizzle moves pieces within
128 bytes. So a box that begins at a multiple of 128 fills one contiguous range of shared memory.

Copies into shared memory are cut exactly at the array's edges. Copies and reductions out of shared memory write whole
pieces. If a row of the array ends inside a piece, a device also writes the rest of the piece. No manual states this,
but all of 1,672 reductions tried on an H200 did so (driver 580.159.04), and an H100 overwrote 420 elements beside a
view. The emulator reports such copies.

Each row of an im2col copy is a pixel. The pixels run through the map's window, in one image after another (PTX ISA,
"im2col mode").
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

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


class Box(Struct, frozen=True):
    """The part of a TMA box that is inside the array. `sizes` has the number of elements along each axis. `before` has
    the number of elements that are cut off along each axis at negative coordinates."""

    placed: PlacedMap
    first: int  # offset of the first element in global memory
    sizes: tuple[int, ...]
    before: tuple[int, ...]
    beyond: int = 0  # bytes of each row that are past the end of the array's row

    @property
    def is_empty(self) -> bool:
        return 0 in self.sizes

    @property
    def row_bytes(self) -> int:
        return self.sizes[0] * self.placed.map.element_bytes

    @property
    def last(self) -> int:
        """The offset in global memory just past the box's last byte."""
        outer = zip(self.sizes[1:], self.placed.strides[1:], strict=True)
        return self.first + self.row_bytes + sum((size - 1) * stride for size, stride in outer)

    def rows(self) -> Any:
        """Returns the offsets of the box's rows in global memory."""
        at = np.array([self.first], np.int64)
        for size, stride in zip(self.sizes[1:], self.placed.strides[1:], strict=True):
            at = (np.arange(size)[:, None] * stride + at[None, :]).reshape(-1)
        return at

    def seen_in(self, data: Any) -> Any:
        """Returns a view of the box's bytes in global memory. The outermost axis comes first, and each row is an array
        of bytes."""
        shape = (*self.sizes[:0:-1], self.row_bytes)
        strides = (*self.placed.strides[:0:-1], 1)
        return np.lib.stride_tricks.as_strided(data[self.first :], shape, strides)

    def put_into(self, data: Any, source: Any) -> None:
        """Copies the box's bytes from global memory (`source`) to `data`, the bytes of the whole TMA box."""
        self.seen_in_box(data)[...] = self.seen_in(source)

    def put_out(self, target: Any, data: Any) -> None:
        """Copies the box's bytes from `data`, the bytes of the whole TMA box, to global memory (`target`)."""
        self.seen_in(target)[...] = self.seen_in_box(data)

    def taken_from(self, data: Any) -> Any:
        """Returns the box's bytes as an array [rows, bytes], in the same order as `rows`."""
        return self.seen_in_box(data).reshape(-1, self.row_bytes)

    def seen_in_box(self, data: Any) -> Any:
        """Returns a view of the box's bytes in `data`, the bytes of the whole TMA box. The view has the axes of
        `seen_in`."""
        size = self.placed.map.element_bytes
        whole = data.reshape(*self.placed.map.box[:0:-1], self.placed.map.box[0] * size)
        cuts = [slice(low, low + count) for low, count in zip(self.before[:0:-1], self.sizes[:0:-1], strict=True)]
        return whole[(*cuts, slice(self.before[0] * size, self.before[0] * size + self.row_bytes))]


def box_at(placed: PlacedMap, corner: list[int], pieces: bool = False) -> Box:
    """Returns the TMA box whose first element has the coordinates `corner`, which may be negative.

    `pieces` is true for a copy out of shared memory. If a row of the array ends inside a 16-byte piece, the box then
    includes the rest of the piece.
    """
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
    """Returns the box without the bytes past the end of the array's rows."""
    columns, *rest = box.sizes
    return replace(box, sizes=(columns - box.beyond // box.placed.map.element_bytes, *rest), beyond=0)


class Pixels(Struct, frozen=True, dict=True):
    """The part of an im2col box that is inside the array: some of the box's pixels, with the same channels of each
    pixel."""

    placed: PlacedMap
    numbers: Any  # the pixels' numbers in the box
    starts: Any  # the offset in global memory of each pixel's first channel
    channels: int
    before: int  # channels of the box that are before the array's first channel

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
        """The offset in global memory just past the box's last byte."""
        return int(self.starts.max()) + self.row_bytes

    def rows(self) -> Any:
        """Returns the offsets of the pixels in global memory."""
        return self.starts

    def put_into(self, data: Any, source: Any) -> None:
        """Copies the pixels' bytes from global memory (`source`) to `data`, the bytes of the whole box."""
        rows = np.lib.stride_tricks.as_strided(source, (len(source) - self.row_bytes + 1, self.row_bytes), (1, 1))
        self.seen_in_box(data)[self.numbers] = rows[self.starts]

    def put_out(self, target: Any, data: Any) -> None:
        """Copies the pixels' bytes from `data`, the bytes of the whole box, to global memory (`target`)."""
        target[self.starts[:, None] + np.arange(self.row_bytes)] = self.taken_from(data)

    def taken_from(self, data: Any) -> Any:
        """Returns the pixels' bytes as an array [rows, bytes], in the same order as `rows`."""
        return self.seen_in_box(data)[self.numbers]

    def seen_in_box(self, data: Any) -> Any:
        """Returns a view of the copied channels of all pixels in `data`, the bytes of the whole box."""
        box, size = self.placed.map.box, self.placed.map.element_bytes
        first = self.before * size
        return data.reshape(box[1], box[0] * size)[:, first : first + self.row_bytes]


def pixels_at(placed: PlacedMap, corner: list[int], offsets: list[int]) -> Pixels:
    """Returns the im2col box whose first base pixel has the coordinates `corner`, in the map's window.

    Base pixels are numbered in the order of the copy, innermost spatial axis first. For each base pixel, the copy reads
    the pixel at a distance of `offsets` from it.
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
    """Returns the positions in shared memory of a TMA box's 16-byte pieces, in units of 16 bytes. The box begins at the
    shared address `start`."""
    found = start // UNIT + np.arange(placed.box_bytes // UNIT)
    # The swizzle XORs the address bits from 7 on into the bits from 4 on. So it depends on the address and not on the
    # box.
    return found ^ (found >> 3 & (1 << placed.swizzle_bits) - 1)


class TensorLoads:
    """Starts the TMA copies into the shared memory of a wave."""

    def __init__(self, wave: Any):
        self.wave = wave

    def start(
        self, g: Any, site: Site, boxes: list[Box | Pixels], starts: Any, keys: Any, map_at: int | None = None
    ) -> None:
        """Starts a copy of each lane's TMA box into shared memory. `starts` has each lane's destination, as an offset
        in the wave's shared memory.

        `keys` has the key of each lane's mbarrier. `map_at` is the offset of the tensor map if it is in writable
        memory, else None.
        """
        wave, memory = self.wave, self.wave.spaces["shared"]
        place = shared_place(starts, boxes[0].placed.box_bytes)
        # For the shadow memory, each unit of the destination is a separate lane.
        rows = g.repeated(place.lanes // g.n)
        g.launch.proxies.check(memory, place, rows, site, "a tensor copy writes", overwrites=True)
        # An arrival from another block may release a pipeline stage for copies only, and not for other accesses.
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
    """What a copy reads in global memory: its box and its tensor map. No thread may write this memory while the copy is
    in flight."""

    def __init__(self, part: Any, site: Site, box: Box | Pixels | None, map_at: int | None = None):
        """`box` is None for a copy out of shared memory. `map_at` is the offset of the tensor map if it is in writable
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


class TensorLoad(Struct):
    """One TMA box that is being copied into shared memory. `part` is a group of only the thread that started the copy.
    `units` has the granules of the destination."""

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
        """Writes the copy's bytes to shared memory. The copy is then complete for threads that wait for the phase of
        `landing`."""
        memory = self.wave.spaces["shared"]
        data = np.zeros(self.bytes, np.uint8)
        # Global memory is read now and not at the issue, so that a write in between changes what is copied, as on a
        # device. Elements outside the array are copied as 0.
        if not self.box.is_empty:
            self.box.put_into(data, self.wave.spaces["global"].data)
        self.source.end()
        landings = landings_of(memory, self.wave)
        # If another write to the destination has come in between, it has been reported, and its record is kept.
        target = pieces(self.box.placed, self.start)
        memory.data.reshape(-1, UNIT)[target] = data.reshape(-1, UNIT)
        memory.changes += 1
        landings.land(self.units, self.number, landing)


class OperationOut(Operation):
    """A copy out of shared memory. `map` is its read of the tensor map, if the map is in writable memory. `reduction`
    is None for a copy that does not reduce."""

    map: SourceReading | None = None
    reduction: ReductionInFlight | None = None


class TensorStores(Copies):
    """Starts the TMA copies out of the shared memory of a wave. Each copy is an operation of its own, in a group of its
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
        """Starts a copy for each lane from shared memory to global memory. `starts` has the offset of each lane's TMA
        box in shared memory, and `boxes` has the destinations. With a reduction, elements in global memory are combined
        with those of the box."""
        memory = self.wave.spaces["shared"]
        place = shared_place(starts, boxes[0].placed.box_bytes)
        each = place.lanes // g.n
        rows = g.repeated(each)
        g.launch.proxies.check(memory, place, rows, site, "a tensor copy reads")
        # The read is recorded when its thread waits for it. Until then `Shadow.sources` forbids writes.
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
            # The 16-byte piece in which a row ends is partly outside the allocation. After the report, the run
            # continues with the part of the box that is inside the array.
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
        """Executes `wait_group.read`: all but the `allowed` latest groups have then read their shared memory. Threads
        that are ordered after this wait may overwrite it."""
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
        """At the end of the wave, reports copies that still read shared memory, since a block's shared memory ends with
        the block."""
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
    """Checks the destination of a reduction by these lanes, then begins the reduction."""
    shadow = memory.shadow
    if shadow.reductions is None:
        shadow.reductions = ReductionsInFlight(shadow)
    strong = Strong(GPU if by_proxy else CLUSTER, reduction.size, observes=False)
    shadow.access(STRONG_WRITE, place, g, site, strong, read_modify=True, record=False, by_proxy=by_proxy)
    return shadow.reductions.begin(shadow.kind_of(STRONG_WRITE, strong, by_proxy), place, g, site)


def map_place(offset: int) -> SpacePlace:
    """Returns the place of the tensor map at `offset` in global memory."""
    return SpacePlace(MAP_ALIGNMENT, BYTES // MAP_ALIGNMENT, offset // MAP_ALIGNMENT)


def count_sectors(device: GlobalSpace, box: Box | Pixels, part: Any, site: Site, write: bool) -> None:
    """Counts the 32-byte sectors that the rows of a TMA box touch. A sector that two rows touch counts twice. The rows'
    bytes are counted, too, to show the least possible number of sectors."""
    rows = box.rows()
    found = int((((rows + box.row_bytes - 1) >> 5) - (rows >> 5) + 1).sum())
    device.add_sectors(box.first, part.launch.counters_of(site), found, len(rows) * box.row_bytes, write)


def can_be_written(device: GlobalSpace, box: Box | Pixels) -> bool:
    """Returns whether a store of the program can reach the allocation that contains the TMA box."""
    index = int(np.searchsorted(device.starts, box.first, "right")) - 1
    return not device.unwritten[index]


def lies_in_one(device: GlobalSpace, box: Box | Pixels) -> bool:
    """Returns whether a TMA box is inside one allocation."""
    index = int(np.searchsorted(device.starts, box.first, "right")) - 1
    return index >= 0 and bool(box.last <= device.ends[index])


def is_allocated(device: GlobalSpace, box: Box | Pixels, part: Any, site: Site, write: bool) -> bool:
    """Reports a TMA box that is not inside one allocation, or that writes read-only memory. Returns whether the access
    is legal."""
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
    """Returns the place of a TMA box in global memory. Its units are as large as the rows of the box allow."""
    rows = box.rows()
    # The lowest bit that is set in any offset or in the row's length is the largest unit that divides all rows.
    mixed = int(np.bitwise_or.reduce(rows)) | box.row_bytes | UNIT
    size = max(mixed & -mixed, device.shadow.granule)
    units = rows[:, None] // size + np.arange(-(-box.row_bytes // size))
    return SpacePlace(size, units.size, 0, units.reshape(-1))


def shared_place(starts: Any, count: int) -> SpacePlace:
    """Returns the place of TMA boxes of `count` bytes at the offsets `starts`, as an array [lanes · rows]. A unit has
    128 bytes, or 16 bytes if an offset or `count` is no multiple of 128 (copies without a map)."""
    size = ALIGNMENT if count % ALIGNMENT == 0 and not (starts % ALIGNMENT).any() else UNIT
    rows = (starts // size)[:, None] + np.arange(count // size)
    return SpacePlace(size, rows.size, 0, rows.reshape(-1))
