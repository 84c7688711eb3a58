"""Device memory for callers without a GPU framework, and the driver's facts on pointers and streams."""

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
    """`size` bytes of uninitialised device memory, freed with the object."""

    def __init__(self, owner: Context, size: int) -> None:
        self.context = owner
        self.size = size
        self.pointer = 0
        # The driver refuses an allocation of 0 bytes.
        if size:
            with owner.current():
                self.pointer = int(owner.call(driver.bindings().cuMemAlloc, size))

    def copy_in(self, host: int, size: int, offset: int = 0) -> None:
        """Copies `size` bytes from the host address to `offset`; returns when the host memory may change."""
        if size:
            with self.context.current():
                self.context.call(driver.bindings().cuMemcpyHtoD, self.pointer + offset, host, size)

    def copy_out(self, host: int, size: int, offset: int = 0) -> None:
        """Copies `size` bytes at `offset` to the host address; waits for the legacy default stream."""
        if size:
            with self.context.current():
                self.context.call(driver.bindings().cuMemcpyDtoH, host, self.pointer + offset, size)

    def copy_from(self, other: Allocation) -> None:
        """Copies all of another, not larger allocation of the same device, on the legacy default stream."""
        if other.size:
            with self.context.current():
                self.context.call(driver.bindings().cuMemcpyDtoD, self.pointer, other.pointer, other.size)

    def clear(self) -> None:
        """Queues zeros on the legacy default stream."""
        if self.size:
            cuda = driver.bindings()
            with self.context.current():
                self.context.call(cuda.cuMemsetD8Async, self.pointer, 0, self.size, cuda.CUstream(0))

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Frees the memory, unless the interpreter ends: its modules are half gone then, and the driver frees
        everything."""
        # In a poisoned context every call fails; in a forked child the driver is unusable.
        if not is_finalizing() and self.pointer and self.context.poison is None and not driver.forked():
            with self.context.current():
                driver.bindings().cuMemFree(self.pointer)


class HostCopy:
    """A host array's bytes on the device for one launch, at an address with the same remainder modulo HOST_ALIGNMENT.

    `pointer` is the kernel's argument. `copy_back` writes the elements to the host array.
    """

    def __init__(self, owner: Context, array: Array) -> None:
        low, high = array.span
        self.array, self.host, self.size = array, array.pointer + low, high - low
        self.offset = array.copy_offset
        self.allocation = Allocation(owner, self.offset + self.size)
        # Output arrays, too: a kernel may write only some elements.
        self.allocation.copy_in(self.host, self.size, self.offset)
        self.pointer = self.allocation.pointer + self.offset - low

    def copy_back(self) -> None:
        """To be called after the launch has ended. Bytes between elements may belong to another argument, and stay."""
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

    `to_device(numpy_array)` makes one with its contents, `.numpy()` copies it back.
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
        """The same memory as an array of one axis."""
        view = object.__new__(DeviceArray)
        view.allocation = self.allocation
        view.array = replace(self.array, shape=(self.array.size,), strides=(1,))
        return view

    def lying(self, strides: tuple[int, ...], shape: tuple[int, ...] | None = None) -> DeviceArray:
        """The same memory with the axes in another order, by their strides, or with other axes."""
        view = object.__new__(DeviceArray)
        view.allocation = self.allocation
        view.array = replace(self.array, strides=strides, shape=self.shape if shape is None else shape)
        return view

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the interface; types that it lacks (BIT_FIELDS) as their bits."""
        import numpy

        dtype = numpy.dtype(BIT_FIELDS.get(self.dtype) or numpy_dtype(self.dtype))
        return {
            "shape": self.shape,
            "typestr": dtype.str,
            # False: it may be written.
            "data": (self.allocation.pointer, False),
            "strides": None if self.array.is_contiguous else self._byte_strides,
            "version": 3,
        }

    @property
    def _byte_strides(self) -> tuple[int, ...]:
        return tuple(stride * DTYPES[self.dtype].bytes for stride in self.array.strides)

    def numpy(self) -> Any:
        """A numpy array with the contents (bf16, e4m3 and e5m2 as types of ml_dtypes)."""
        import numpy

        host = numpy.empty(self.array.size, numpy_dtype(self.dtype))
        self.allocation.copy_out(host.ctypes.data, host.nbytes)
        return numpy.ndarray(self.shape, host.dtype, host.view(numpy.uint8).data, 0, self._byte_strides)


def device_of_pointer(pointer: int) -> int:
    """The CUDA ordinal of a device address."""
    cuda = driver.bindings()
    driver.require()
    ordinal = cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(driver.call(cuda.cuPointerGetAttribute, ordinal, pointer))


def wait_for_stream(device: int, stream: int) -> None:
    """Waits for the work in a stream, given by its raw handle."""
    owner = context(device)
    with owner.current():
        owner.call(driver.bindings().cuStreamSynchronize, driver.bindings().CUstream(stream))
