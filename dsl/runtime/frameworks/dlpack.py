"""Reads arrays of unknown frameworks through DLPack."""

from __future__ import annotations

from typing import Any

from dsl.runtime.arrays import Array, row_major
from dsl.runtime.capsules import (
    COPIED,
    CPU,
    CUDA,
    CUDA_HOST,
    CUDA_MANAGED,
    LEGACY_DEFAULT_STREAM,
    LETTERS,
    MAJOR,
    READ_ONLY,
    WHOLE_NAMES,
    DLManagedTensorVersioned,
    DLTensor,
    capsule_pointer,
)
from dsl.runtime.dtypes import DTYPES
from dsl.runtime.frameworks.framework import Framework, dtype_name, refuse


def _export(x: Any) -> Any:
    on_device = x.__dlpack_device__()[0] in (CUDA, CUDA_MANAGED)
    stream = {"stream": LEGACY_DEFAULT_STREAM} if on_device else {}
    try:
        return x.__dlpack__(**stream, max_version=(MAJOR, 0))
    # A producer with DLPack 0.8 does not know `max_version`.
    except TypeError:
        return x.__dlpack__(**stream)


def _exported(x: Any) -> Any:
    """Returns the DLPack capsule of `x`. Raises LaunchError if the framework refuses the export.

    Frameworks refuse tensors with a conjugate bit, tensors that require a gradient, sparse tensors, and tensors without
    a device."""
    try:
        return _export(x)
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
        raise refuse(x, f"cannot be exported by DLPack: {error}") from None


def read(x: Any) -> Array:
    """Returns an Array that describes `x`. The DLPack capsule is not kept, because the caller's `x` keeps the memory
    alive."""
    capsule = _exported(x)
    readonly = False
    if (address := capsule_pointer(capsule, b"dltensor_versioned")) is not None:
        managed = DLManagedTensorVersioned.from_address(address)
        if managed.major != MAJOR:
            raise refuse(x, f"gave a DLPack structure of version {managed.major}; version {MAJOR} is read")
        if managed.flags & COPIED:
            raise refuse(
                x, "was copied for its DLPack export, and the copy is gone after it", "copy it before the call"
            )
        tensor, readonly = managed.dl_tensor, bool(managed.flags & READ_ONLY)
    elif (address := capsule_pointer(capsule, b"dltensor")) is not None:
        tensor = DLTensor.from_address(address)
    else:
        raise refuse(x, "gave no DLPack capsule")
    if tensor.device_type not in (CPU, CUDA, CUDA_HOST, CUDA_MANAGED):
        raise refuse(x, f"on DLPack device {tensor.device_type} cannot be passed to a kernel")
    letters = LETTERS.get(tensor.code, f"DLPack type {tensor.code} of bits ")
    name = WHOLE_NAMES.get(tensor.code) or f"{letters}{tensor.bits}"
    if tensor.lanes != 1:
        hint = "view it as a type with one value in each element, such as uint8, if the kernel takes that"
        raise refuse(x, f"with {tensor.lanes} values of {name} in each element cannot be passed to a kernel", hint)
    dtype = dtype_name(x, name)
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim)) if tensor.strides else row_major(shape)
    # Pinned host memory is treated like other host memory.
    device = tensor.device_id if tensor.device_type in (CUDA, CUDA_MANAGED) else None
    pointer = (tensor.data or 0) + tensor.byte_offset
    if DTYPES[dtype].bytes * 8 != tensor.bits:
        raise refuse(x, f"of {dtype} in {tensor.bits} bits cannot be passed to a kernel")
    return Array("dlpack", pointer, shape, strides, dtype, device, readonly)


class Dlpack(Framework):
    """Objects with `__dlpack__`. This method makes the contents ready on the legacy default stream."""

    name = "dlpack"
    attribute = "__dlpack__"
    turn = 2
    foreign = True

    def describe(self, x: Any) -> Array:
        return read(x)
