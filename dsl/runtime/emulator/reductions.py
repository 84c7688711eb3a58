"""What reductions do to elements of memory, one after another: `atom`, `red`, and bulk copies that reduce."""

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
    """(one operation on values, a function (cells, index, values, new, wants_old) that does operations on memory, one
    after another in lane order)."""
    step = packed_step(type_name) if type_name in {"f16x2", "bf16x2", "bf16"} else OPERATIONS.get(name, exchange)
    return step, in_turn(name, type_name, step)


def in_turn(name: str, type_name: str, step: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The function of `performer` for one step."""
    is_integer_add = name == "add" and type_name[0] in "su"
    unordered = isinstance(step, np.ufunc) and not type_name.startswith("bf16")

    def perform(cells: Any, index: Any, values: Any, new: Any, wants_old: bool) -> Any:
        if not len(index):
            return np.empty(0, cells.dtype)
        # Without old values, numpy's `at` does all operations at once. numpy has no bf16.
        if not wants_old and unordered:
            step.at(cells, index, values)  # type: ignore[attr-defined]
            return None
        # Lanes at one place side by side, in lane order, as the old value of each depends on those before it.
        order = np.argsort(index, kind="stable")
        ordered = index[order]
        fresh = np.ones(len(index), bool)
        fresh[1:] = ordered[1:] != ordered[:-1]
        starts = np.flatnonzero(fresh)
        old = np.empty(len(index), cells.dtype)
        # Sums of integers before each lane are one running sum.
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
        # Round k does the k-th operation of each place, so that no two of a round are at one place.
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
    """add of f16x2, bf16x2 and bf16."""
    element = type_name.removesuffix("x2")
    dtype = DTYPES[element]

    def step(old: Any, b: Any) -> Any:
        total = numerics.add(np.ascontiguousarray(old).view(dtype), np.ascontiguousarray(b).view(dtype), element)
        return total.view(old.dtype)

    return step


HALVES = {"f16", "bf16"}
INTEGERS = {"u32", "s32", "u64", "s64"}
# By operation, the element types of a tensor reduction (PTX ISA, "cp.reduce.async.bulk.tensor"). and, or, xor of s64,
# which the ISA does not exclude, are an illegal instruction on an H100.
OF_TYPES = {
    "add": {"u32", "s32", "u64", "f16", "bf16", "f32"},
    **dict.fromkeys(("min", "max"), INTEGERS | HALVES),
    "inc": {"u32"},
    "dec": {"u32"},
    **dict.fromkeys(("and", "or", "xor"), INTEGERS - {"s64"}),
}


class BulkReduction:
    """What a bulk copy that reduces does to each element, with one element of its source."""

    def __init__(self, name: str, type_name: str):
        self.name, self.type = name, type_name
        self.dtype = np.dtype(DTYPES[type_name])
        self.perform = in_turn(name, type_name, bulk_step(name, type_name))

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def apply(self, data: Any, offsets: Any, source: Any) -> None:
        """Reduces the elements at these byte offsets by the elements of the source, given as bytes."""
        values = np.ascontiguousarray(source).reshape(-1).view(self.dtype)
        self.perform(data.view(self.dtype), offsets // self.size, values, None, False)


def reduction_of(opcode: tuple[str, ...]) -> BulkReduction | None:
    """The reduction of an opcode that ends with its type; None if it names no operation."""
    name = next((word for word in opcode if word in OF_TYPES), "")
    return BulkReduction(name, opcode[-1]) if name else None


def bulk_step(name: str, type_name: str) -> Callable[[Any, Any], Any]:
    """Subnormals are kept, also in sums of f32: the ISA allows flushing them, and an H100 does not flush."""
    if name == "add" and type_name in {"f16", "bf16", "f32"}:
        return lambda old, b: numerics.add(old, b, type_name)
    if name in {"min", "max"} and type_name in HALVES:
        extreme = numerics.minimum if name == "min" else numerics.maximum
        return lambda old, b: extreme(old, b, type_name)
    return OPERATIONS[name]
