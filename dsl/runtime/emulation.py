"""The emulator as a back end of `Kernel`: the same arguments, grid and threads, in numpy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dsl.runtime.arguments import ParamLayout
from dsl.runtime.arrays import Array, elements_in, host_view
from dsl.runtime.checks import CallClass, Checker
from dsl.runtime.errors import DeviceAssertError, DeviceError, FindingError, LaunchError
from dsl.runtime.header import RECORD_WORDS, Argument, Header, HeaderTensor
from dsl.runtime.record import assert_error
from dsl.runtime.repeated import Repeated
from dsl.runtime.timeline import NO_RECORDS, TimelineSpace

if TYPE_CHECKING:
    from dsl.runtime.emulator import Memory, Touched
    from dsl.runtime.emulator.memory import DevicePointer
    from dsl.runtime.emulator.origins import Writers
    from dsl.runtime.tensor_map import TensorMap


touched_in_front: ContextVar[list[Touched] | None] = ContextVar("touched_in_front", default=None)
"""Among launches that overlap: what those have touched that may still run, by addresses of the host. None elsewhere."""


@contextmanager
def overlapping() -> Iterator[None]:
    """Around launches of which some start before those in front have ended, one right behind the other."""
    token = touched_in_front.set([])
    try:
        yield
    finally:
        touched_in_front.reset(token)


class EmulatedLaunch(Repeated):
    """Launches of one class on the emulator. Every launch waits, and a failed `assert` raises at once."""

    ordinal = None

    def __init__(
        self, ptx: str, checker: Checker, layout: ParamLayout, call: CallClass, overlaps: bool = False
    ) -> None:
        self.ptx, self.overlaps = ptx, overlaps
        self.header = checker.header
        self.call = call
        self._checker = checker
        self._layout = layout
        self._template = layout.template(call.arrays, call.dims, 0, dict.fromkeys(call.workspaces, 0))
        self._written = [tensor.name for tensor in self.header.tensors if tensor.written]

    def launch(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None = None) -> None:
        """Runs the kernel, and writes what it prints to standard output; the stream does not matter."""
        try:
            result, *_ = self.run(values, arguments)
        except DeviceError as error:
            show(error.output)
            raise
        show(result.output)

    def bind(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None) -> Callable[[], None]:
        """A launch with these arguments."""
        return partial(self.launch, values, arguments, stream)

    def run(
        self,
        values: Sequence[Any],
        arguments: Sequence[Any],
        writers: bool = False,
        timeline: TimelineSpace | None = None,
        **options: Any,
    ) -> tuple[Any, list[WrittenArray], bytes]:
        """Runs the kernel; the emulator's Result, with `writers` what last wrote an element, and the memory of a
        `timeline`. `options` go to `emulate`: seed, budget, on_finding.

        Raises FindingError for a fault of the program, DeviceError `ptx` for PTX that the emulator does not know.
        """
        import numpy

        from dsl.runtime.emulator import Memory
        from dsl.runtime.scratch import ScratchArray

        self._checker.check_pointers(self.call, values)
        packed = bytearray(self._template)
        self._layout.pack_into(packed, 0, *values)
        memory = Memory()
        record = memory.allocate(numpy.zeros(RECORD_WORDS, numpy.uint32), "assert record")
        memory.own.add(record.address)
        copies = self._copies(memory, values)
        for param, argument in zip(self.header.params, arguments, strict=True):
            if param.name in copies and isinstance(param, HeaderTensor) and isinstance(argument, ScratchArray):
                scratch = argument.scratch
                scratch.is_read = not (scratch.is_argument and param.access == "w")  # which costs time
                memory.scratch.append((copies[param.name].pointer, scratch))
        workspaces = EmulatedWorkspaces(memory, self.header, self.call)
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
        if "blocks" not in options:  # else some of those that meet have not come
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
        """The emulator's Result; an assertion that failed is told ahead of all that it led to, since threads go on."""
        import numpy

        def failure() -> DeviceAssertError | None:
            return assert_error(self.header.label, memory.read(record, numpy.uint32, RECORD_WORDS).tobytes())

        try:
            result = self._emulate_in_turn(passed, options, copies, workspaces)
        except FindingError as fault:
            failed = failure()
            if failed is None or not failed.line:  # claimed, and not written yet
                raise
            failed.output = fault.output
            raise failed from None
        failed = failure()
        if failed is not None:
            failed.output = result.output
            raise failed
        return result

    def _copies(self, memory: Memory, values: Sequence[Any]) -> dict[str, EmulatedCopy]:
        """Of the tensors by name; an array that is two of them is there once, so that races are found."""
        pointers, copies = values[: len(self.header.tensors)], dict[str, EmulatedCopy]()
        for number, (tensor, pointer) in enumerate(zip(self.header.tensors, pointers, strict=True)):
            one = next((a for a, b in self.call.in_place if b == number and pointers[a] == pointer), None)
            array = replace(self.call.arrays[tensor.name], pointer=pointer)
            same = None if one is None else copies[self.header.tensors[one].name]
            copies[tensor.name] = same or EmulatedCopy(memory, tensor.name, array)
        return copies

    def _timeline(self, memory: Memory, space: TimelineSpace | None) -> DevicePointer:
        """What warps record in, which has room for nothing unless it is asked for."""
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
        """`_emulate`, with what the launches in front have touched, if it overlaps them; it adds what this one has."""
        in_front = touched_in_front.get()
        if self.overlaps:
            after = [part for each in in_front or () for part in moved(each, copies, True)]
            options = {**options, "after": [*after, *workspaces.shared()]}
        elif in_front is not None:
            in_front.clear()
        result = self._emulate(given, {**options, "keeps": in_front is not None})
        if in_front is not None:
            in_front += [part for each in result.touched for part in moved(each, copies, False)]
        return result

    def _emulate(self, given: list[Any], options: dict[str, Any]) -> Any:
        """The emulator's Result; its errors as those of a launch."""
        header = self.header
        return emulated(
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
            **options,
        )


def emulated(label: str, ptx: str, entry: str, grid: Any, block: Any, given: Sequence[Any], **options: Any) -> Any:
    """`emulate`, with its errors as those of a launch of what messages call `label`."""
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
    """The bytes of a map as the emulator's copies read it. address: the emulator's, of the array's copy."""
    from dsl.runtime.emulator.tensor_maps import encode

    return encode(tensor_map, address)


def barrier_names(header: Header) -> dict[int, str]:
    """What each mbarrier of the pipelines says, by its offset in the dynamic shared memory."""
    return {
        pipeline.at + 8 * (half * pipeline.stages + stage): f"stage {stage} of {', '.join(pipeline.of)} is {says}"
        for pipeline in header.pipelines
        for half, says in enumerate(("full", "free"))
        for stage in range(pipeline.stages)
    }


def show(output: str) -> None:
    """Writes what a kernel printed, before anything else that the process writes."""
    if output:
        sys.stdout.write(output)
        sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class WrittenArray:
    """Who last wrote each byte of a host array in one launch: `size` bytes from the host's address `start` on, which
    the emulator had at `copy`. `writers` is None where no store of the kernel could reach the array."""

    start: int
    size: int
    copy: int
    writers: Writers | None

    def holds(self, address: int) -> bool:
        return self.start <= address < self.start + self.size

    def writer(self, address: int) -> str | None:
        """What last wrote the byte at a host address, in words; None for nothing."""
        return None if self.writers is None else self.writers(self.copy + address - self.start)


class EmulatedWorkspaces:
    """What a launch provides for its blocks to meet in, new for each launch: nothing may depend on what one leaves."""

    def __init__(self, memory: Memory, header: Header, call: CallClass) -> None:
        import numpy

        from dsl.runtime.dtypes import numpy_dtype
        from dsl.runtime.scratch import make_scratch

        self.memory, self.pointers, self.arrays = memory, {}, {}
        for each in header.workspaces:
            array = make_scratch((call.workspaces[each.name],), numpy_dtype(each.dtype), each.zero)
            self.pointers[each.name] = memory.allocate(array.view(numpy.uint8), each.name)
            self.arrays[each.name] = array
            array.scratch.begin()
            memory.scratch.append((self.pointers[each.name], array.scratch))

    def shared(self) -> Iterator[Touched]:
        """All of them: on a GPU they are a stream's, so that launches in front have them, too."""
        from dsl.runtime.emulator import Touched

        for name, pointer in self.pointers.items():
            yield Touched.somehow(pointer.address, self.arrays[name].nbytes, "a launch in front of it")

    def check(self, header: Header) -> None:
        """Raises FindingError for an element of a zeroed one that is not zero."""
        for each in header.workspaces:
            if each.zero:
                array = self.arrays[each.name]
                array[:] = self.memory.read(self.pointers[each.name], array.dtype, array.size)
                array.check_zero(each.name, f"the workspace {each.dtype}[{array.size}]", None)


class EmulatedCopy:
    """A host array's bytes in the emulator's memory; `pointer` is what the kernel gets."""

    def __init__(self, memory: Memory, name: str, array: Array) -> None:
        import numpy

        low, high = array.span
        self.memory, self.array, self.size, self.low = memory, array, high - low, low
        self.start = array.pointer + low
        self.host = host_view(array, array.pointer)
        image = numpy.zeros(array.copy_offset + self.size, numpy.uint8)
        image[array.copy_offset :] = self.host
        self.pointer = memory.allocate(image, name) + (array.copy_offset - low)
        if array.size:
            memory.describe(self.pointer, array.shape, array.strides, array.itemsize)

    def copy_back(self) -> None:
        """Writes the elements to the host array. What lies between may be of another argument."""
        import numpy

        made = self.memory.read(self.pointer + self.low, numpy.uint8, self.size)
        elements_in(self.host, self.array)[...] = elements_in(made, self.array)

    def written(self, result: Any) -> WrittenArray:
        """Who wrote what of the host array in the launch of a result that watched this copy."""
        address = self.pointer.address
        return WrittenArray(self.start, self.size, address + self.low, result.writers.get(address))


def moved(touched: Touched, copies: Iterable[EmulatedCopy], is_host: bool) -> Iterator[Touched]:
    """What was touched, from host arrays (`is_host`) to their copies, or back."""
    for each in copies:
        copy = each.pointer.address + each.low
        here, there = (each.start, copy) if is_host else (copy, each.start)
        part = touched.moved(here, here + each.size, there - here)
        if part is not None:
            yield part
