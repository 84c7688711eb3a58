"""Device memory for callers without a GPU framework, and driver functions for pointers and streams."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dsl.runtime.arrays import Array, elements_in, host_view, row_major
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
        """Copies `size` bytes from the address `host` to `offset` in this memory. When the function returns, the caller
        may change the host memory."""
        if size:
            with self.context.current():
                self.context.call(driver.bindings().cuMemcpyHtoD, self.pointer + offset, host, size)

    def copy_out(self, host: int, size: int, offset: int = 0) -> None:
        """Copies `size` bytes at `offset` in this memory to the address `host`. Waits for the legacy default stream."""
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
        """Queues the zeroing of the memory on the legacy default stream."""
        if self.size:
            cuda = driver.bindings()
            with self.context.current():
                self.context.call(cuda.cuMemsetD8Async, self.pointer, 0, self.size, cuda.CUstream(0))

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Frees the memory, unless the interpreter is ending. When the interpreter ends, modules may already be gone,
        and the driver frees all memory."""
        # In a poisoned context every call fails. In a forked child the driver is unusable.
        if not is_finalizing() and self.pointer and self.context.poison is None and not driver.forked():
            with self.context.current():
                driver.bindings().cuMemFree(self.pointer)


class HostCopy:
    """A copy of a host array on the device, for one launch. The addresses of the array and of the copy are equal modulo
    HOST_ALIGNMENT.

    `pointer` is the argument that the kernel gets. `copy_back` writes the elements to the host array.
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
        """Writes the elements to the host array. The caller calls this method after the launch has ended.

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
    """A row-major array in device memory, for programs without a GPU framework.

    `to_device(numpy_array)` makes a DeviceArray with the contents of the numpy array. `.numpy()` copies a DeviceArray
    to the host.
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
        """A view of the same memory as an array with one axis."""
        return self.lying((1,), (self.array.size,))

    def lying(self, strides: tuple[int, ...], shape: tuple[int, ...] | None = None) -> DeviceArray:
        """A view of the same memory with other strides in elements, and with another shape if `shape` is given."""
        view = object.__new__(DeviceArray)
        view.allocation = self.allocation
        view.array = replace(self.array, strides=strides, shape=self.shape if shape is None else shape)
        return view

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the interface. Types that the interface lacks (BIT_FIELDS) are exported as integers."""
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
    """The CUDA ordinal of the device to which an address belongs."""
    cuda = driver.bindings()
    driver.require()
    ordinal = cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(driver.call(cuda.cuPointerGetAttribute, ordinal, pointer))


def wait_for_stream(device: int, stream: int) -> None:
    """Waits until the work in a stream has ended. `stream` is the raw handle of the stream."""
    owner = context(device)
    with owner.current():
        owner.call(driver.bindings().cuStreamSynchronize, driver.bindings().CUstream(stream))
