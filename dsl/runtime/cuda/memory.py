"""Allocates and copies device memory, finds the device of a pointer, and waits for streams."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from dsl.runtime.arrays import Array, elements_in, host_view, row_major
from dsl.runtime.capsules import LEGACY_DEFAULT_STREAM, capsule_of, check_export, device_of
from dsl.runtime.cuda import driver
from dsl.runtime.cuda.context import Context, context
from dsl.runtime.dtypes import BIT_FIELDS, DTYPES, numpy_dtype


class Allocation:
    """`size` bytes of uninitialised device memory. The memory is freed when the object is deleted."""

    def __init__(self, owner: Context, size: int) -> None:
        self.context = owner
        self.size = size
        self.pointer = 0
        # The driver refuses an allocation of 0 bytes.
        if size:
            with owner.current():
                self.pointer = int(owner.call(driver.bindings().cuMemAlloc, size))

    def copy_in(self, host: int, size: int, offset: int = 0) -> None:
        """Copies `size` bytes from the host address `host` to the byte offset `offset` of this memory. After the call,
        the host memory may be changed."""
        if size:
            with self.context.current():
                self.context.call(driver.bindings().cuMemcpyHtoD, self.pointer + offset, host, size)

    def copy_out(self, host: int, size: int, offset: int = 0) -> None:
        """Copies `size` bytes from the byte offset `offset` of this memory to the host address `host`. Waits for the
        legacy default stream."""
        if size:
            with self.context.current():
                self.context.call(driver.bindings().cuMemcpyDtoH, host, self.pointer + offset, size)

    def copy_from(self, other: Allocation) -> None:
        """Copies the whole contents of `other` on the legacy default stream. `other` must be on the same device, and
        must not be larger than this allocation."""
        if other.size:
            with self.context.current():
                self.context.call(driver.bindings().cuMemcpyDtoD, self.pointer, other.pointer, other.size)

    def clear(self) -> None:
        """Zeroes the memory on the legacy default stream, without waiting."""
        if self.size:
            cuda = driver.bindings()
            with self.context.current():
                self.context.call(cuda.cuMemsetD8Async, self.pointer, 0, self.size, cuda.CUstream(0))

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Frees the memory, unless the interpreter is shutting down. During shutdown, modules may already be unloaded,
        and the driver frees all memory."""
        # In a poisoned context every call fails. In a forked child the driver is unusable.
        if not is_finalizing() and self.pointer and self.context.poison is None and not driver.forked():
            with self.context.current():
                driver.bindings().cuMemFree(self.pointer)


class HostCopy:
    """A copy of a host array on the device, for one launch. Its address and that of the host array are equal modulo
    HOST_ALIGNMENT.

    `pointer` is the device address that the kernel gets as its argument. `copy_back` copies the elements back to the
    host array.
    """

    def __init__(self, owner: Context, array: Array) -> None:
        low, high = array.span
        self.array, self.host, self.size = array, array.pointer + low, high - low
        self.offset = array.copy_offset
        self.allocation = Allocation(owner, self.offset + self.size)
        # Output arrays are also copied in, because a kernel may write only some elements.
        self.allocation.copy_in(self.host, self.size, self.offset)
        self.pointer = self.allocation.pointer + self.offset - low

    def copy_back(self) -> None:
        """Copies the elements back to the host array. The launch must have ended.

        Bytes between elements are not written, because they may belong to another argument."""
        if not self.array.has_gaps:
            self.allocation.copy_out(self.host, self.size, self.offset)
            return
        import numpy

        made = numpy.empty(self.size, numpy.uint8)
        self.allocation.copy_out(made.ctypes.data, self.size, self.offset)
        host = host_view(self.array, self.array.pointer)
        elements_in(host, self.array)[...] = elements_in(made, self.array)


class DeviceArray:
    """An array in device memory, for programs without a GPU framework. The constructor makes a row-major array.

    `to_device(x)` copies a numpy array `x` to a new DeviceArray. The method `numpy` copies a DeviceArray to the host.
    """

    def __init__(self, shape: tuple[int, ...], dtype: str, device: int = 0) -> None:
        elements = Array("dsl", 0, tuple(shape), row_major(tuple(shape)), dtype, device)
        self.allocation = Allocation(context(device), elements.size * DTYPES[dtype].bytes)
        self.array = Array("dsl", self.allocation.pointer, elements.shape, elements.strides, dtype, device)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> str:
        return self.array.dtype

    def flat(self) -> DeviceArray:
        """Returns a view of the same memory with one axis."""
        return self.lying((1,), (self.array.size,))

    def lying(self, strides: tuple[int, ...], shape: tuple[int, ...] | None = None) -> DeviceArray:
        """Returns a view of the same memory with the given strides, in elements. By default, it has the shape of this
        array."""
        view = object.__new__(DeviceArray)
        view.allocation = self.allocation
        view.array = replace(self.array, strides=strides, shape=self.shape if shape is None else shape)
        return view

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The array in version 3 of the CUDA array interface. Types that this interface lacks, such as bf16, are
        exported as integers."""
        import numpy

        dtype = numpy.dtype(BIT_FIELDS.get(self.dtype) or numpy_dtype(self.dtype))
        return {
            "shape": self.shape,
            "typestr": dtype.str,
            # False means that the array may be written.
            "data": (self.allocation.pointer, False),
            "strides": None if self.array.is_contiguous else self._byte_strides,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return device_of(self.array)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Exports the array by DLPack, for `from_dlpack` of torch, CuPy, JAX. The taken array keeps the memory alive.

        Launches with DeviceArrays are on the legacy default stream. Work on `stream` that comes after the export waits
        for them. `stream` is None or 1 (the legacy default stream), 2 (that of the thread), a handle, or -1 for no
        wait. Raises BufferError if a copy would be needed."""
        check_export(self.array, dl_device, copy)
        if stream == 0:
            raise ValueError("stream 0 is ambiguous in DLPack: 1 is the legacy default stream, 2 that of the thread")
        if stream not in (None, -1, LEGACY_DEFAULT_STREAM):
            wait_on_stream(self.allocation.context, int(stream))
        return capsule_of(self.array, self.allocation, max_version)

    @property
    def _byte_strides(self) -> tuple[int, ...]:
        return tuple(stride * DTYPES[self.dtype].bytes for stride in self.array.strides)

    def numpy(self) -> Any:
        """Copies the contents to a new numpy array. bf16, e4m3 and e5m2 become types of ml_dtypes."""
        import numpy

        host = numpy.empty(self.array.size, numpy_dtype(self.dtype))
        self.allocation.copy_out(host.ctypes.data, host.nbytes)
        return numpy.ndarray(self.shape, host.dtype, host.view(numpy.uint8).data, 0, self._byte_strides)


def device_of_pointer(pointer: int) -> int:
    """Returns the CUDA ordinal of the device to which an address belongs."""
    cuda = driver.bindings()
    driver.require()
    ordinal = cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(driver.call(cuda.cuPointerGetAttribute, ordinal, pointer))


def wait_on_stream(owner: Context, stream: int) -> None:
    """Makes later work in a stream wait for the work that is now in the legacy default stream. Does not wait itself."""
    cuda = driver.bindings()
    with owner.current():
        event = owner.call(cuda.cuEventCreate, int(cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        try:
            owner.call(cuda.cuEventRecord, event, cuda.CUstream(0))
            owner.call(cuda.cuStreamWaitEvent, cuda.CUstream(stream), event, 0)
        finally:
            cuda.cuEventDestroy(event)  # the driver frees it after the wait


def wait_for_stream(device: int, stream: int) -> None:
    """Waits until all work in a stream has ended. `stream` is the raw handle of the stream."""
    owner = context(device)
    with owner.current():
        owner.call(driver.bindings().cuStreamSynchronize, driver.bindings().CUstream(stream))
