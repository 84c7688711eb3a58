"""DLPack: the structures in its capsules, and the capsules of arrays.

The ctypes structures have the layout of `dlpack.h`. Version 0.8 exports `dltensor`, and version 1.x exports
`dltensor_versioned`.
"""

from __future__ import annotations

import ctypes
from typing import Any

from dsl.runtime.arrays import MAX_ALIGNMENT, Array
from dsl.runtime.dtypes import DTYPES

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


def capsule_pointer(capsule: Any, name: bytes) -> int | None:
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    return api.PyCapsule_GetPointer(capsule, name) if api.PyCapsule_IsValid(capsule, name) else None


class _Memory:
    """Memory in the form of numpy's array interface. It keeps the owner of the memory alive."""

    def __init__(self, array: Array, owner: Any):
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "strides": tuple(stride * array.itemsize for stride in array.strides),
            "typestr": f"<u{array.itemsize}",
            # numpy looks at no element. An array without elements may have no address, which numpy would refuse.
            "data": (array.pointer or MAX_ALIGNMENT, array.readonly),
        }


def capsule_of(array: Array, owner: Any, max_version: tuple[int, int] | None) -> Any:
    """Returns a DLPack capsule of an array. Whoever takes the capsule keeps `owner` alive, and with it the memory.

    The capsule is numpy's: an array of unsigned integers at the same address, in whose structure the device and the
    type are changed. So the count of references, from any thread and while Python ends, is numpy's code."""
    import numpy

    view = numpy.asarray(_Memory(array, owner))
    has_flags = (
        max_version is not None and max_version[0] >= MAJOR and numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0"
    )
    if array.readonly and not has_flags:
        raise BufferError("DLPack 0.8 cannot say that an array is read-only")
    capsule = view.__dlpack__(max_version=(MAJOR, 0)) if has_flags else view.__dlpack__()
    name, kind = (b"dltensor_versioned", DLManagedTensorVersioned) if has_flags else (b"dltensor", None)
    address = capsule_pointer(capsule, name)
    assert address is not None
    tensor = DLTensor.from_address(address) if kind is None else kind.from_address(address).dl_tensor
    tensor.device_type, tensor.device_id = device_of(array)
    tensor.code = type_code(array.dtype)
    return capsule


def device_of(array: Array) -> tuple[int, int]:
    """Returns the type and the number of an array's device in DLPack."""
    return (CPU, 0) if array.device is None else (CUDA, array.device)


def type_code(dtype: str) -> int:
    """Returns the type code of an element type."""
    name = DTYPES[dtype].numpy
    whole = {known: code for code, known in WHOLE_NAMES.items()}
    return whole[name] if name in whole else {known: code for code, known in LETTERS.items()}[name.rstrip("0123456789")]


def check_export(array: Array, dl_device: tuple[int, int] | None, copy: bool | None) -> None:
    """Raises BufferError for an export that would need a copy."""
    if copy:
        raise BufferError("the array is exported without a copy: copy what you have taken")
    if dl_device is not None and tuple(map(int, dl_device)) != device_of(array):
        raise BufferError(f"the array lies on DLPack device {device_of(array)}, not {tuple(map(int, dl_device))}")


class DlpackExport:
    """An array in host memory that `from_dlpack` of torch, CuPy, JAX and numpy take. Whoever takes it keeps `owner`
    alive, and with it the memory."""

    def __init__(self, array: Array, owner: Any):
        self.array, self.owner = array, owner

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
        if stream is not None:
            raise BufferError("an array in host memory has no stream")
        check_export(self.array, dl_device, copy)
        return capsule_of(self.array, self.owner, max_version)
