"""Reads arrays of unknown frameworks through DLPack.

The ctypes structures have the layout of `dlpack.h`. Version 0.8 exports `dltensor`, and version 1.x exports
`dltensor_versioned`.
"""

from __future__ import annotations

import ctypes
from typing import Any

from dsl.runtime.arrays import Array, row_major
from dsl.runtime.dtypes import DTYPES
from dsl.runtime.frameworks.framework import Framework, dtype_name, refuse

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
MAJOR = 1
"""The supported major version of the structure. Other major versions may have another layout, except for the version
field."""
READ_ONLY, COPIED = 1, 2
"""Flags of a versioned structure. COPIED means that the producer made a copy for the export. The copy is freed with the
capsule."""
LEGACY_DEFAULT_STREAM = 1
"""The stream that this consumer passes to producers on CUDA. The producer makes the contents ready on this stream
(DLPack, Python API)."""
LETTERS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
WHOLE_NAMES = {
    3: "an opaque handle", 6: "bool", 7: "float8_e3m4", 8: "float8_e4m3", 9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn",
    11: "float8_e4m3fnuz", 12: "float8_e5m2", 13: "float8_e5m2fnuz", 14: "float8_e8m0fnu", 15: "float6_e2m3fn",
    16: "float6_e3m2fn", 17: "float4_e2m1fn",
}  # fmt: skip
"""Type code → name, for types whose names include their width."""


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    )


def _capsule_pointer(capsule: Any, name: bytes) -> int | None:
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    return api.PyCapsule_GetPointer(capsule, name) if api.PyCapsule_IsValid(capsule, name) else None


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
    if (address := _capsule_pointer(capsule, b"dltensor_versioned")) is not None:
        managed = DLManagedTensorVersioned.from_address(address)
        if managed.major != MAJOR:
            raise refuse(x, f"gave a DLPack structure of version {managed.major}; version {MAJOR} is read")
        if managed.flags & COPIED:
            raise refuse(
                x, "was copied for its DLPack export, and the copy is gone after it", "copy it before the call"
            )
        tensor, readonly = managed.dl_tensor, bool(managed.flags & READ_ONLY)
    elif (address := _capsule_pointer(capsule, b"dltensor")) is not None:
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
