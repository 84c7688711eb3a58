"""What a copy by TMA knows of an array: a tensor map (PTX ISA, "Tensors"; CUDA driver API, cuTensorMapEncodeTiled)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorMap:
    """Of an array with one to five axes, the innermost first, whose elements lie side by side along axis 0.

    element_bytes: 1, 2, 4 or 8. extents: elements an axis. strides: bytes from one element to the next along axes 1
    and on. box: elements an axis that one copy moves; those outside of the array are read as zeros, and not written.
    swizzle: 0, or the 32, 64 or 128 bytes of a row of the box within which 16-byte pieces change places.
    """

    element_bytes: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
