"""Applies reductions to elements of memory, one lane after another. Serves `atom`, `red`, and bulk copies that
reduce."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from . import numerics
from .code import DTYPES


def exchange(old: Any, b: Any) -> Any:
    return b


def increment(old: Any, b: Any) -> Any:
    return np.where(old >= b, old.dtype.type(0), old + old.dtype.type(1))


def decrement(old: Any, b: Any) -> Any:
    return np.where((old == 0) | (old > b), b, old - old.dtype.type(1))


UFUNCS: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    **UFUNCS,
    "exch": exchange,
    "inc": increment,
    "dec": decrement,
}


def performer(name: str, type_name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Returns two functions for an operation of `atom` or `red`. The first computes the operation on values. The second
    has the parameters (cells, index, values, new, wants_old), and applies the operation to memory, lane after lane."""
    step = packed_step(type_name) if type_name in {"f16x2", "bf16x2", "bf16"} else OPERATIONS.get(name, exchange)
    return step, in_turn(name, type_name, step)


def in_turn(name: str, type_name: str, step: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Returns the function that applies `step` to memory, lane after lane (see `performer`)."""
    is_integer_add = name == "add" and type_name[0] in "su"
    unordered = isinstance(step, np.ufunc) and not type_name.startswith("bf16")

    def perform(cells: Any, index: Any, values: Any, new: Any, wants_old: bool) -> Any:
        if not len(index):
            return np.empty(0, cells.dtype)
        # If no old values are needed, numpy's `at` applies all operations at once. numpy has no bf16.
        if not wants_old and unordered:
            step.at(cells, index, values)  # type: ignore[attr-defined]
            return None
        # Lanes at the same place become adjacent, in lane order, as each old value depends on the earlier lanes at its
        # place.
        order = np.argsort(index, kind="stable")
        ordered = index[order]
        fresh = np.ones(len(index), bool)
        fresh[1:] = ordered[1:] != ordered[:-1]
        starts = np.flatnonzero(fresh)
        old = np.empty(len(index), cells.dtype)
        # For an integer `add`, the sum before each lane comes from one running sum.
        if is_integer_add:
            summed = np.cumsum(values[order], dtype=cells.dtype)
            before = summed - values[order]
            first = np.repeat(before[starts], np.diff(np.append(starts, len(index))))
            old[order] = cells[ordered] + (before - first)
            np.add.at(cells, index, values)
            return old
        rank = np.arange(len(index)) - np.repeat(starts, np.diff(np.append(starts, len(index))))
        by_rank = np.argsort(rank, kind="stable")
        bounds = np.searchsorted(rank[by_rank], np.arange(int(rank.max(initial=-1)) + 2))
        # Round k does the k-th operation at each place, so that the operations of one round have different places.
        for low, high in itertools.pairwise(bounds):
            lanes = order[by_rank[low:high]]
            found = cells[index[lanes]]
            old[lanes] = found
            if new is not None:
                cells[index[lanes]] = np.where(found == values[lanes], new[lanes], found)
            else:
                cells[index[lanes]] = step(found, values[lanes])
        return old

    return perform


def packed_step(type_name: str) -> Callable[[Any, Any], Any]:
    """Returns the `add` of f16x2, bf16x2 or bf16."""
    element = type_name.removesuffix("x2")
    dtype = DTYPES[element]

    def step(old: Any, b: Any) -> Any:
        total = numerics.add(np.ascontiguousarray(old).view(dtype), np.ascontiguousarray(b).view(dtype), element)
        return total.view(old.dtype)

    return step


HALVES = {"f16", "bf16"}
INTEGERS = {"u32", "s32", "u64", "s64"}
# The element types of each operation of a tensor reduction (PTX ISA, "cp.reduce.async.bulk.tensor"). The ISA does not
# exclude and, or, xor of s64, but on an H100 these are illegal instructions.
OF_TYPES = {
    "add": {"u32", "s32", "u64", "f16", "bf16", "f32"},
    **dict.fromkeys(("min", "max"), INTEGERS | HALVES),
    "inc": {"u32"},
    "dec": {"u32"},
    **dict.fromkeys(("and", "or", "xor"), INTEGERS - {"s64"}),
}


class BulkReduction:
    """The operation of a bulk copy that reduces. It combines each element of the destination with an element of the
    source."""

    def __init__(self, name: str, type_name: str):
        self.name, self.type = name, type_name
        self.dtype = np.dtype(DTYPES[type_name])
        self.perform = in_turn(name, type_name, bulk_step(name, type_name))

    @property
    def size(self) -> int:
        """Number of bytes of one element."""
        return self.dtype.itemsize

    def apply(self, data: Any, offsets: Any, source: Any) -> None:
        """Combines the elements at the byte offsets `offsets` in `data` with the elements of `source`, an array of
        bytes."""
        values = np.ascontiguousarray(source).reshape(-1).view(self.dtype)
        self.perform(data.view(self.dtype), offsets // self.size, values, None, False)


def reduction_of(opcode: tuple[str, ...]) -> BulkReduction | None:
    """Returns the reduction that an opcode names, or None if it names none. The last word of the opcode is the element
    type."""
    name = next((word for word in opcode if word in OF_TYPES), "")
    return BulkReduction(name, opcode[-1]) if name else None


def bulk_step(name: str, type_name: str) -> Callable[[Any, Any], Any]:
    """Returns the function that computes one operation on values. It keeps subnormals, even in f32 sums. The ISA would
    allow flushing them, but an H100 does not flush."""
    if name == "add" and type_name in {"f16", "bf16", "f32"}:
        return lambda old, b: numerics.add(old, b, type_name)
    if name in {"min", "max"} and type_name in HALVES:
        extreme = numerics.minimum if name == "min" else numerics.maximum
        return lambda old, b: extreme(old, b, type_name)
    return OPERATIONS[name]
