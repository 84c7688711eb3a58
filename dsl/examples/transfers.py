"""Measures the arrays of a call, and copies them to a GPU and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsl.lowering.ir.location import TileError


def array_bytes(given: Mapping[str, Any]) -> int:
    from dsl.runtime import describe, is_array

    return sum(array.size * array.itemsize for array in map(describe, filter(is_array, given.values())))


def check_size(given: Mapping[str, Any], most_bytes: int | None) -> None:
    """Raises TileError `limit` if the arrays of a call occupy more than `most_bytes` bytes."""
    size = array_bytes(given)
    if most_bytes is not None and size > most_bytes:
        raise TileError("limit", None, f"the arrays have {size >> 20} MiB; the limit is {most_bytes >> 20} MiB")


def on_device(given: Mapping[str, Any], ordinal: int) -> dict[str, Any]:
    """Copies the arrays of a call to a GPU. An array that is passed twice is copied once, because the kernel may rely
    on both arguments being the same memory."""
    from dsl.runtime import is_array, to_device

    copies: dict[int, Any] = {}
    out: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or not is_array(value):
            out[name] = value
            continue
        if id(value) not in copies:
            copies[id(value)] = to_device(value, ordinal)
        out[name] = copies[id(value)]
    return out


def copy_back(given: Mapping[str, Any], arrays: Mapping[str, Any], names: set[str]) -> None:
    """Copies the arrays `names`, which kernels have written, from the GPU."""
    for name in names:
        # Copies only arrays that kernels write. All other arrays are unchanged.
        arrays[name].allocation.copy_out(given[name].ctypes.data, given[name].nbytes)
