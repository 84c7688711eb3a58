"""Runs the launches of a `Kernel` on the emulator, with the same grid and arguments as on a GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from dsl.runtime.arguments import ParamLayout
from dsl.runtime.arrays import Array, elements_in, host_view
from dsl.runtime.checks import CallClass, Checker
from dsl.runtime.errors import DeviceAssertError, DeviceError, FindingError, LaunchError
from dsl.runtime.header import RECORD_WORDS, Argument, Header, HeaderTensor
from dsl.runtime.new_outputs import new_outputs
from dsl.runtime.record import assert_error
from dsl.runtime.repeated import Repeated
from dsl.runtime.timeline import NO_RECORDS, TimelineSpace

if TYPE_CHECKING:
    from dsl.runtime.emulator import Memory, Touched
    from dsl.runtime.emulator.memory import DevicePointer
    from dsl.runtime.emulator.origins import Writers
    from dsl.runtime.emulator.scratch import Scratch
    from dsl.runtime.tensor_map import TensorMap


touched_in_front: ContextVar[list[Touched] | None] = ContextVar("touched_in_front", default=None)
"""The memory accesses of those preceding launches that may still be running, given by host addresses. The value is None
outside of `overlapping`."""


@contextmanager
def overlapping() -> Iterator[None]:
    """A `with` block for consecutive launches that may overlap: some may start before the preceding launches have
    ended."""
    # A context variable is used because threads and tasks launch independently.
    token = touched_in_front.set([])
    try:
        yield
    finally:
        touched_in_front.reset(token)


class EmulatedLaunch(Repeated):
    """Launches the calls of one class on the emulator. `launch` returns when the kernel has ended. It raises
    DeviceAssertError if an `assert` failed."""

    ordinal = None

    def __init__(
        self, ptx: str, checker: Checker, layout: ParamLayout, call: CallClass, overlaps: bool = False
    ) -> None:
        self.ptx, self.overlaps = ptx, overlaps
        self.header = checker.header
        self.call = call
        self._checker = checker
        self._layout = layout
        # The addresses of the record and of workspaces are 0 here, because each launch allocates its own record and
        # workspaces.
        self._template = layout.template(call.arrays, call.dims, 0, dict.fromkeys(call.workspaces, 0))
        self._written = [tensor.name for tensor in self.header.tensors if tensor.written]

    def launch(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None = None) -> None:
        """Runs the kernel and writes its printed text to standard output. `stream` has no effect."""
        try:
            result, *_ = self.run(values, arguments)
        except DeviceError as error:
            show(error.output)
            raise
        show(result.output)

    def run(
        self,
        values: Sequence[Any],
        arguments: Sequence[Any],
        writers: bool = False,
        timeline: TimelineSpace | None = None,
        **options: Any,
    ) -> tuple[Any, list[WrittenArray], bytes]:
        """Runs the kernel. Returns the emulator's `Result`, the last writers of the written arrays, and the bytes of
        the timeline records.

        The writers are returned only if `writers` is true, and the records only if `timeline` is given. `options`, such
        as `seed` and `budget`, are passed to `emulate`. Raises FindingError if the kernel has a fault, such as a race.
        Raises DeviceError `ptx` for PTX that the emulator does not support."""
        import numpy

        from dsl.runtime.emulator import Memory

        self._checker.check_pointers(self.call, values)
        packed = bytearray(self._template)
        self._layout.pack_into(packed, 0, *values)
        memory = Memory()
        record = memory.allocate(numpy.zeros(RECORD_WORDS, numpy.uint32), "assert record")
        # The program never indexes the assert record. So a fault near this record must name another array.
        memory.own.add(record.address)
        copies = self._copies(memory, values)
        memory.scratch += self._tracked(copies, arguments)
        workspaces = EmulatedWorkspaces(memory, self.header, self.call)
        # A kernel with marks always has the timeline argument. If no timeline was requested, the memory of this
        # argument has no room for records.
        own = {"record": record, "timeline": self._timeline(memory, timeline) if self.header.timeline else record}
        if writers:
            options["watch"] = [copies[name].pointer.address for name in self._written]

        def given(argument: Argument, raw: bytes) -> Any:
            if argument.kind == "pointer":
                return copies[argument.of].pointer
            if argument.kind == "map":
                return _encoded(self.call.maps[argument], copies[argument.of].pointer.address)
            if argument.kind == "workspace":
                return workspaces.pointers[argument.of]
            return own.get(argument.kind, raw)

        passed = [*map(given, self.header.arguments, self._layout.split(packed))]

        result = self._judged(passed, options, copies.values(), workspaces, memory, record)
        if "blocks" not in options:  # a run of only some blocks may leave other values than zeros
            workspaces.check(self.header)
        for name in self._written:
            copies[name].copy_back()
        recorded = b"" if timeline is None else memory.read(own["timeline"], numpy.uint8, timeline.size).tobytes()
        return result, [copies[name].written(result) for name in self._written] if writers else [], recorded

    def _judged(
        self,
        passed: list[Any],
        options: dict[str, Any],
        copies: Iterable[EmulatedCopy],
        workspaces: EmulatedWorkspaces,
        memory: Memory,
        record: Any,
    ) -> Any:
        """Runs the kernel and returns the emulator's `Result`. Raises DeviceAssertError if an `assert` failed.

        Threads continue after a failed `assert` and may cause further faults. Only the failed `assert` is then
        reported."""
        import numpy

        def failure() -> DeviceAssertError | None:
            return assert_error(self.header.label, memory.read(record, numpy.uint32, RECORD_WORDS).tobytes())

        try:
            result = self._emulate_in_turn(passed, options, copies, workspaces)
        except FindingError as fault:
            failed = failure()
            if failed is None or not failed.line:  # without a line, a thread set the flag but wrote no record yet
                raise
            failed.output = fault.output
            raise failed from None
        failed = failure()
        if failed is not None:
            failed.output = result.output
            raise failed
        return result

    def _copies(self, memory: Memory, values: Sequence[Any]) -> dict[str, EmulatedCopy]:
        """Copies the arrays to the emulator's memory, and returns the copies by tensor name. If the two tensors of an
        `in_place` pair are the same array, they share one copy, so that the emulator finds races."""
        pointers, copies = values[: len(self.header.tensors)], dict[str, EmulatedCopy]()
        for number, (tensor, pointer) in enumerate(zip(self.header.tensors, pointers, strict=True)):
            one = next((a for a, b in self.call.in_place if b == number and pointers[a] == pointer), None)
            array = replace(self.call.arrays[tensor.name], pointer=pointer)
            same = None if one is None else copies[self.header.tensors[one].name]
            copies[tensor.name] = same or EmulatedCopy(memory, tensor.name, array)
        return copies

    def _tracked(
        self, copies: dict[str, EmulatedCopy], arguments: Sequence[Any]
    ) -> Iterator[tuple[DevicePointer, Scratch]]:
        """Yields the arrays whose unwritten bytes are known: workspaces, and outputs that the call has allocated."""
        from dsl.runtime.scratch import ScratchArray

        new, found = new_outputs.get(), set[int]()
        for param, argument in zip(self.header.params, arguments, strict=True):
            if param.name not in copies or not isinstance(param, HeaderTensor):
                continue
            copy = copies[param.name]
            if isinstance(argument, ScratchArray):
                scratch = argument.scratch
                scratch.is_read = not (scratch.is_argument and param.access == "w")  # tracking reads takes time
                yield copy.pointer, scratch
            elif (
                new is not None and (own := new.scratch_at(copy.start, copy.size)) is not None and id(own) not in found
            ):
                own.is_read = param.access != "w"
                found.add(id(own))  # both tensors of an `in_place` pair may be this array
                yield copy.pointer, own

    def _timeline(self, memory: Memory, space: TimelineSpace | None) -> DevicePointer:
        """Allocates the memory for timeline records. If `space` is None, it has no room for records."""
        import numpy

        head = NO_RECORDS if space is None else space.head
        marks = numpy.zeros(len(head) if space is None else space.size, numpy.uint8)
        marks[: len(head)] = numpy.frombuffer(head, numpy.uint8)
        return memory.allocate(marks, "timeline")

    def _emulate_in_turn(
        self,
        given: list[Any],
        options: dict[str, Any],
        copies: Iterable[EmulatedCopy],
        workspaces: EmulatedWorkspaces,
    ) -> Any:
        """Runs the kernel and returns the emulator's `Result`. Inside `overlapping`, appends the memory accesses of
        this launch to `touched_in_front`.

        If this launch may overlap the preceding launches, their accesses are passed to the emulator."""
        in_front = touched_in_front.get()
        if self.overlaps:
            after = [part for each in in_front or () for part in moved(each, copies, True)]
            options = {**options, "after": [*after, *workspaces.shared()]}
        elif in_front is not None:
            # This launch waits for all preceding launches, so they cannot race with later launches.
            in_front.clear()
        header = self.header
        result = emulated(
            header.label,
            self.ptx,
            header.entry,
            self.call.grid,
            (header.threads, 1, 1),
            given,
            cluster=header.cluster,
            shared_bytes=header.shared_bytes,
            arch=header.arch,
            barriers=barrier_names(header),
            divisions=True,
            keeps=in_front is not None,
            **options,
        )
        if in_front is not None:
            in_front += [part for each in result.touched for part in moved(each, copies, False)]
        return result


def emulated(label: str, ptx: str, entry: str, grid: Any, block: Any, given: Sequence[Any], **options: Any) -> Any:
    """Calls `emulate` and converts its exceptions to FindingError, LaunchError or DeviceError. `label` is the kernel's
    name in their messages."""
    from dsl.runtime.emulator import EmulatorError, LaunchRefusedError, PtxError, emulate

    try:
        return emulate(ptx, entry, grid, block, given, **options)
    except EmulatorError as error:
        fault = FindingError(f"{label}: {error.finding}", error.finding)
        fault.output = error.output
        raise fault from None
    except LaunchRefusedError as error:
        raise LaunchError(error.code, f"{label}: {error}") from None
    except PtxError as error:
        raise DeviceError("ptx", f"{label}: the emulator refuses the PTX: {error}") from None


def _encoded(tensor_map: TensorMap, address: int) -> bytes:
    """Returns the bytes of a tensor map in the emulator's encoding. `address` is the address of the array's copy in the
    emulator."""
    from dsl.runtime.emulator.tensor_maps import encode

    return encode(tensor_map, address)


def barrier_names(header: Header) -> dict[int, str]:
    """Maps each mbarrier of the header's pipelines to the event for which threads wait at it: `stage 0 of x is full`.
    The keys are the mbarriers' offsets in dynamic shared memory."""
    return {
        # The full barriers of all stages come first, then the empty barriers.
        pipeline.at + 8 * (half * pipeline.stages + stage): f"stage {stage} of {', '.join(pipeline.of)} is {says}"
        for pipeline in header.pipelines
        for half, says in enumerate(("full", "free"))
        for stage in range(pipeline.stages)
    }


def show(output: str) -> None:
    """Writes a kernel's printed text to standard output, and flushes it, so that it precedes all later output."""
    if output:
        sys.stdout.write(output)
        sys.stdout.flush()


class WrittenArray(Struct, frozen=True):
    """Records which thread wrote each byte of a host array last in one launch.

    The array occupies `size` bytes from the host address `start` on. Its copy in the emulator began at the address
    `copy`. `writers` is None if no store of the kernel can write to the array."""

    start: int
    size: int
    copy: int
    writers: Writers | None

    def holds(self, address: int) -> bool:
        return self.start <= address < self.start + self.size

    def writer(self, address: int) -> str | None:
        """Describes the thread that last wrote the byte at a host address. Returns None if no thread wrote this
        byte."""
        return None if self.writers is None else self.writers(self.copy + address - self.start)


class EmulatedWorkspaces:
    """The workspaces of one launch. Each launch gets new workspaces, because no launch may depend on the contents that
    another launch leaves."""

    def __init__(self, memory: Memory, header: Header, call: CallClass) -> None:
        import numpy

        from dsl.runtime.dtypes import numpy_dtype
        from dsl.runtime.scratch import make_scratch

        self.memory, self.pointers, self.arrays = memory, {}, {}
        for each in header.workspaces:
            # New memory counts as unwritten, so the emulator reports a read before the first write.
            array = make_scratch((call.workspaces[each.name],), numpy_dtype(each.dtype), each.zero)
            self.pointers[each.name] = memory.allocate(array.view(numpy.uint8), each.name)
            self.arrays[each.name] = array
            array.scratch.begin()
            memory.scratch.append((self.pointers[each.name], array.scratch))

    def shared(self) -> Iterator[Touched]:
        """Yields the memory of each workspace, marked as accessed by the preceding launches.

        On a GPU, all launches in a stream use the same workspaces."""
        from dsl.runtime.emulator import Touched

        for name, pointer in self.pointers.items():
            yield Touched.somehow(pointer.address, self.arrays[name].nbytes, "a launch in front of it")

    def check(self, header: Header) -> None:
        """Raises FindingError if the launch has left a nonzero element in a workspace that must contain zeros."""
        for each in header.workspaces:
            if each.zero:
                array = self.arrays[each.name]
                array[:] = self.memory.read(self.pointers[each.name], array.dtype, array.size)
                array.check_zero(each.name, f"the workspace {each.dtype}[{array.size}]", None)


class EmulatedCopy:
    """A copy of a host array in the emulator's memory. `pointer` is the address that the kernel gets as its
    argument."""

    def __init__(self, memory: Memory, name: str, array: Array) -> None:
        import numpy

        low, high = array.span
        self.memory, self.array, self.size, self.low = memory, array, high - low, low
        self.start = array.pointer + low
        self.host = host_view(array, array.pointer)
        # The copy keeps the alignment of the original. Otherwise, the emulator would refuse wide accesses.
        image = numpy.zeros(array.copy_offset + self.size, numpy.uint8)
        image[array.copy_offset :] = self.host
        self.pointer = memory.allocate(image, name) + (array.copy_offset - low)
        if array.size:
            memory.describe(self.pointer, array.shape, array.strides, array.itemsize)

    def copy_back(self) -> None:
        """Copies the elements back to the host array. Bytes between the elements are not written, since they may belong
        to another argument."""
        import numpy

        made = self.memory.read(self.pointer + self.low, numpy.uint8, self.size)
        elements_in(self.host, self.array)[...] = elements_in(made, self.array)

    def written(self, result: Any) -> WrittenArray:
        """Returns the last writers of the host array. `result` is the `Result` of a launch whose option `watch`
        included this copy."""
        address = self.pointer.address
        return WrittenArray(self.start, self.size, address + self.low, result.writers.get(address))


def moved(touched: Touched, copies: Iterable[EmulatedCopy], is_host: bool) -> Iterator[Touched]:
    """Yields the memory accesses `touched` with translated addresses. If `is_host` is true, addresses of host arrays
    become addresses of their copies. Otherwise, addresses of copies become addresses of host arrays."""
    for each in copies:
        copy = each.pointer.address + each.low
        here, there = (each.start, copy) if is_host else (copy, each.start)
        part = touched.moved(here, here + each.size, there - here)
        if part is not None:
            yield part
