"""Prepares launches on a GPU for a class of calls. Everything that these calls have in common is computed once, so a
call only packs its arguments and launches.

`CudaLaunch.again` returns the hot path. On one H200 machine, `cuLaunchKernel` alone takes 6 µs, and a checked call may
add at most half of that time. So the hot path uses local names instead of attributes, and avoids helper functions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from copy import copy as shallow_copy
from functools import partial
from typing import Any

from msgspec.structs import replace

from dsl.runtime.arguments import Buffer, MappedValues, ParamLayout
from dsl.runtime.checks import CallClass, Checker
from dsl.runtime.cuda import driver
from dsl.runtime.cuda.memory import Allocation, HostCopy
from dsl.runtime.cuda.module import LoadedKernel, launch_config
from dsl.runtime.cuda.tensor_maps import encode
from dsl.runtime.cuda.workspaces import StreamWorkspaces, of_stream
from dsl.runtime.errors import LaunchError
from dsl.runtime.frameworks import Framework, find_framework, unrecognised
from dsl.runtime.repeated import Again, Changed, Repeated, never
from dsl.runtime.timeline import TimelineSpace


class Streams(dict[int, Any]):
    """Maps the raw handle of a stream to the stream's `CUstream` object, which is made at first use."""

    def __missing__(self, handle: int) -> Any:
        # The number of kept streams is bounded, because some programs make streams in a loop.
        if len(self) >= 1024:
            self.clear()
        stream = self[handle] = driver.bindings().CUstream(handle)
        return stream


streams = Streams()


def common_stream(frameworks: Sequence[Framework]) -> Callable[[int], int]:
    """Returns a function that returns the current stream of a device, given the device's ordinal.

    If the arrays of a launch belong to several frameworks, these must have the same current stream. Otherwise, the
    returned function raises LaunchError."""
    if not frameworks:
        return Framework().current_stream()
    if len(frameworks) == 1:
        return frameworks[0].current_stream()
    currents = {framework.name: framework.current_stream() for framework in frameworks}

    def agreed(ordinal: int) -> int:
        handles = {name: current(ordinal) for name, current in currents.items()}
        if len(set(handles.values())) > 1:
            names = " and ".join(handles)
            # A launch has one stream. The launch would not wait for the other framework's work.
            raise LaunchError("device", f"{names} have different current streams", "pass stream=, a raw handle")
        return next(iter(handles.values()))

    return agreed


class CudaLaunch(Repeated):
    """Launches the calls of one class on one device. The arrays must be on this device. If no stream is given, a launch
    uses the current stream of the arrays' framework.

    `launch` may run in several threads at once, because `cuLaunchKernel` releases Python's global lock. So each call
    takes its own argument buffer from a free list, whose `pop` and `append` are atomic.
    """

    is_short = True
    """Whether a launch consists only of packing the arguments and calling the driver."""
    memory: Allocation | None = None
    """The memory to which warps write timeline records, or None if warps write no records."""

    def __init__(
        self,
        kernel: LoadedKernel,
        checker: Checker,
        layout: ParamLayout,
        call: CallClass,
        frameworks: Sequence[Framework],
        overlaps: bool = False,
    ) -> None:
        """Prepares the launches. If `overlaps` is true, a launch may start before the preceding launch in its stream
        has ended."""
        cuda = driver.bindings()
        header = kernel.header
        self.kernel = kernel
        self.call = call
        self.ordinal = kernel.context.ordinal
        self.overlaps = overlaps
        self._checker = checker
        self._layout = layout
        self._template = b"" if call.workspaces else self._filled({})
        self._free: list[Buffer] = []
        # Classes with workspaces use this dict instead of `_free`, because each stream has its own workspaces.
        self._free_on: dict[StreamWorkspaces, list[Buffer]] = {}
        self._pack_into: Callable[..., None] = layout.pack_into
        if layout.maps:
            self._pack_into = MappedValues(layout, call.maps, partial(encode, kernel.context)).pack_into
        self._is_exact = layout.is_exact
        self._current_stream = common_stream(frameworks)
        self._cu_context = kernel.context.cu_context
        # With several GPUs, each launch must check which context is current. With one GPU, the driver refuses a wrong
        # context.
        self._is_sole = driver.device_count() == 1
        self._launched = kernel.context.launched
        self._label = header.label
        self._success = cuda.CUresult.CUDA_SUCCESS
        self._get_current = cuda.cuCtxGetCurrent
        self._shape = (*call.grid, header.threads, 1, 1, header.shared_bytes)
        self._launch_kernel = partial(cuda.cuLaunchKernel, kernel.function, *self._shape)

    def _filled(self, workspaces: Mapping[str, int]) -> bytes:
        """Returns the bytes of an argument buffer in which only the fixed part is filled in. `workspaces` maps names to
        addresses."""
        kernel = self.kernel
        return self._layout.template(self.call.arrays, self.call.dims, kernel.record, workspaces, kernel.timeline)

    def buffer(self, of: StreamWorkspaces | None = None) -> Buffer:
        """Makes an argument buffer for this class of calls. If the kernel has workspaces, `of` must be the workspaces
        of the launch's stream."""
        filled = self._template
        if of is not None:
            filled = self._filled(of.addresses(self.kernel.header, self.call.workspaces))
        buffer = Buffer(self._layout, filled)
        if self.overlaps or not self.kernel.says_cluster:
            header = self.kernel.header
            block, cluster = (header.threads, 1, 1), (1 if self.kernel.says_cluster else header.cluster, 1, 1)
            buffer.config = launch_config(self.call.grid, block, header.shared_bytes, cluster, self.overlaps)
        return buffer

    def launch(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None = None) -> None:
        """Packs `values` (see `ParamLayout`) and launches on `stream`. By default, this is the frameworks' current
        stream."""
        free, of = self._free, None
        if self.call.workspaces:
            stream = self._current_stream(self.ordinal) if stream is None else stream
            of = of_stream(self.kernel.context, stream)
            free = self._free_on.setdefault(of, [])
        try:
            buffer = free.pop()
        except IndexError:
            buffer = self.buffer(of)
        # The buffer still contains the values of its last launch, so equal values are not packed again. An exception is
        # 0.0, which equals -0.0 but has different bytes.
        if buffer.values != values or not self._is_exact:
            self._pack(buffer, values)
        self.submit(buffer, stream)
        free.append(buffer)

    def again(self, rest: Sequence[Any] = ()) -> Again:
        """Returns a function that packs arguments and launches, as `launch` and `submit` do, but in one Python frame
        with local names.

        Apart from the driver, a checked launch spends most of its time on Python frames and attribute look-ups. With
        torch, a launch takes 0.70 µs in one frame, and 0.84 µs in several frames."""
        if not self.is_short or self.recognise is unrecognised:
            return never
        # Otherwise the launch needs a configuration, or another context may be current: `submit` sees to both.
        is_plain = self._is_sole and self.kernel.says_cluster and not self.overlaps
        recognise, pointer, fits, is_exact = self.recognise, self.pointer, self.call.fits, self._is_exact
        make, pack_into, shares = self.buffer, self._pack_into, bool(self.call.workspaces)
        launch_kernel, function, submit = driver.bindings().cuLaunchKernel, self.kernel.function, self.submit
        # The extents have separate names, because a `partial` copies its arguments in each call.
        x, y, z, threads, _, _, shared = self._shape
        current_stream, ordinal, context = self._current_stream, self.ordinal, self.kernel.context
        success, launched, label = self._success, self._launched, self._label
        of, free, free_on = None, self._free, self._free_on

        def launch_again(arrays: Sequence[Any]) -> bool:
            try:
                if not recognise(*arrays):
                    return False
            except (TypeError, AttributeError):  # the arrays belong to another framework
                return False
            values = [*map(pointer, arrays), *rest]
            stream, own, buffers = current_stream(ordinal), of, free
            if shares:
                own = of_stream(context, stream)
                buffers = free_on.setdefault(own, [])
            try:
                buffer = buffers.pop()
            except IndexError:
                buffer = make(own)
            if not is_exact or buffer.values != values:
                if not fits(values):
                    buffers.append(buffer)
                    return False
                pack_into(buffer.bytes, 0, *values)
                buffer.values = values
            on = streams[stream]
            if not is_plain:
                submit(buffer, stream)
            elif launch_kernel(function, x, y, z, threads, 1, 1, shared, on, buffer.address, 0)[0] is success:
                launched[label] = None
            else:
                submit(buffer, stream)  # launches in the right context, or raises the driver's error
            buffers.append(buffer)
            return True

        return launch_again if self.changed is None else self._telling(launch_again, self.changed)

    def knows(self, rest: Sequence[Any] = ()) -> Again:
        if self.again(rest) is never:
            return never
        recognise, pointer, fits = self.recognise, self.pointer, self.call.fits

        def would_launch(arrays: Sequence[Any]) -> bool:
            try:
                return bool(recognise(*arrays)) and fits([*map(pointer, arrays), *rest])
            except (TypeError, AttributeError):  # the arrays belong to another framework
                return False

        return would_launch

    def _telling(self, again: Again, changed: Changed) -> Again:
        """Wraps `again` in a function that also passes the written arrays to `changed` after each launch."""
        place, places = self.places[0], self.places
        if len(places) > 1:
            return lambda arrays: again(arrays) and (changed([arrays[i] for i in places]), True)[1]

        def launch_and_tell(arrays: Sequence[Any]) -> bool:
            if not again(arrays):
                return False
            changed([arrays[place]])
            return True

        return launch_and_tell

    def _check(self, values: Sequence[Any]) -> None:
        self._checker.check_pointers(self.call, values)

    def _pack(self, buffer: Buffer, values: Sequence[Any]) -> None:
        """Checks the pointers, writes the values to the buffer, and stores them in `buffer.values`, too."""
        self._check(values)
        self._pack_into(buffer.bytes, 0, *values)
        buffer.values = values

    def submit(self, buffer: Buffer, stream: int | None = None) -> None:
        """Launches with a packed buffer. The caller may reuse the buffer when this function returns.

        With one GPU, the function does not query the current context first, which saves 0.3 µs. If another context is
        current, the driver refuses the launch. The function then makes the right context current and launches again."""
        if stream is None:
            stream = self._current_stream(self.ordinal)
        if self._is_sole or self._get_current()[1] == self._cu_context:
            if buffer.config is None:
                (code,) = self._launch_kernel(streams[stream], buffer.address, 0)
            else:
                code = self._launch_configured(buffer, streams[stream])
            if code is self._success:
                self._launched[self._label] = None
                return
            # If the right context is current, the code is a real error.
            if self._get_current()[1] == self._cu_context:
                self.kernel.context.check(code, f"launching {self._label}")
        with self.kernel.context.current():
            self.submit(buffer, stream)

    def _launch_configured(self, buffer: Buffer, stream: Any) -> Any:
        buffer.config.hStream = stream
        code = driver.launch_configured()(buffer.config.getPtr(), int(self.kernel.function), buffer.address, 0)
        return self._success if code == 0 else driver.bindings().CUresult(code)

    def bind(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None) -> Callable[[], None]:
        if self.call.workspaces:  # each launch uses the workspaces of the stream that is current then
            self._check(values)
            return partial(self.launch, values, arguments, stream)
        buffer = self.buffer()
        self._pack(buffer, values)
        if buffer.config is not None or not self._is_sole:
            return partial(self.submit, buffer, stream)
        launch_kernel, function, address = driver.bindings().cuLaunchKernel, self.kernel.function, buffer.address
        x, y, z, threads, _, _, shared = self._shape
        current_stream, ordinal = self._current_stream, self.ordinal
        success, launched, label = self._success, self._launched, self._label

        # One frame with local names, as in `again`. A launch takes 0.29 µs, compared with 0.34 µs with attributes.
        def launch_bound() -> None:
            on = streams[current_stream(ordinal) if stream is None else stream]
            if launch_kernel(function, x, y, z, threads, 1, 1, shared, on, address, 0)[0] is success:
                launched[label] = None
            else:
                self.submit(buffer, stream)  # launches in the right context, or raises the driver's error

        return launch_bound

    def timed(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None = None) -> float:
        """Launches, waits for the device, and returns the microseconds between two CUDA events around the launch."""
        cuda, context = driver.bindings(), self.kernel.context
        raw = self._current_stream(self.ordinal) if stream is None else stream
        buffer = self.buffer(of_stream(context, raw) if self.call.workspaces else None)
        self._pack(buffer, values)
        with context.current():
            # With flags 0 the events record times.
            start, end = (context.call(cuda.cuEventCreate, 0) for _ in range(2))
            try:
                context.call(cuda.cuEventRecord, start, streams[raw])
                self.submit(buffer, raw)
                context.call(cuda.cuEventRecord, end, streams[raw])
                context.synchronize()
                milliseconds = context.call(cuda.cuEventElapsedTime, start, end)
            finally:
                for event in (start, end):
                    cuda.cuEventDestroy(event)
        return milliseconds * 1e3

    def recording(self, space: TimelineSpace) -> CudaLaunch:
        """Returns a copy of this object whose launches make warps write timeline records at the kernel's marks. Each
        launch overwrites the records of the previous launch."""
        context = self.kernel.context
        memory = Allocation(context, space.size)
        zeros = ctypes.create_string_buffer(space.head, space.size)
        memory.copy_in(ctypes.addressof(zeros), space.size)
        self.synchronize()  # needed because the launch's stream may not wait for the copy
        other = shallow_copy(self)
        other.kernel, other.memory = replace(self.kernel, timeline=memory.pointer), memory
        other._template = b"" if self.call.workspaces else other._filled({})
        # The buffers of the original contain another address for the records.
        other._free, other._free_on = [], {}
        return other

    def recorded(self) -> bytearray:
        """Waits for the device, and returns the bytes of the timeline records that warps wrote in the last launch."""
        assert self.memory is not None
        self.synchronize()
        raw = bytearray(self.memory.size)
        self.memory.copy_out(ctypes.addressof((ctypes.c_char * len(raw)).from_buffer(raw)), len(raw))
        return raw

    def synchronize(self) -> None:
        """Waits for the device. Raises the errors of all launches on the device, including a failed `assert`."""
        self.kernel.context.synchronize()


class ForeignLaunch(CudaLaunch):
    """Launches with at least one array whose framework ignores the stream of the launch: JAX, DLPack or the CUDA array
    interface.

    `launch` waits until the arrays are ready, launches, and then waits for the device."""

    is_short = False
    bind = Repeated.bind

    def launch(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None = None) -> None:
        self._settle(arguments)
        super().launch(values, arguments, stream)
        self.synchronize()

    def timed(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None = None) -> float:
        self._settle(arguments)
        return super().timed(values, arguments, stream)

    def _settle(self, arguments: Sequence[Any]) -> None:
        for argument in arguments:
            framework = find_framework(type(argument))
            if framework is not None:
                # JAX computes asynchronously on streams of its own.
                framework.settle(argument)


class HostLaunch(CudaLaunch):
    """Launches with arrays in host memory.

    `launch` copies the arrays to the device, launches, waits, and copies the written arrays back. The copies and the
    launch run in this order, because they all use the legacy default stream.
    """

    is_short = False
    bind = Repeated.bind

    def launch(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None = None) -> None:
        placed, copies = self._copy_in(values)
        super().launch(placed, arguments)
        self._copy_back(copies)

    def timed(self, values: Sequence[Any], arguments: Sequence[Any], stream: int | None = None) -> float:
        placed, copies = self._copy_in(values)
        time = super().timed(placed, arguments)
        self._copy_back(copies)
        return time

    def _copy_in(self, values: Sequence[Any]) -> tuple[list[Any], list[HostCopy]]:
        self._checker.check_overlaps(self.call, values)  # as for device arrays
        arrays = [self.call.arrays[tensor.name] for tensor in self.kernel.header.tensors]
        copies = [
            HostCopy(self.kernel.context, replace(array, pointer=pointer))
            for array, pointer in zip(arrays, values[: len(arrays)], strict=True)
        ]
        return [*(copy.pointer for copy in copies), *values[len(copies) :]], copies

    def _copy_back(self, copies: list[HostCopy]) -> None:
        self.synchronize()
        for tensor, copy in zip(self.kernel.header.tensors, copies, strict=True):
            # The kernel does not change the other arrays.
            if tensor.written:
                copy.copy_back()
