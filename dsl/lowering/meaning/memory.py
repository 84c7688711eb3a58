"""Reference semantics of loads, stores, copies and atomics. Operations run in program order, and each accesses all of
its elements at once.

A copy reads its source when it is issued. It writes the shared tile only when a `wait` waits for its group.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from dsl.lowering.hopper.boxes import CopiedBox, shape_of
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import BF16, DType, SharedType
from dsl.lowering.machine.formats import Array, held, load, spread, stored, to_bf16
from dsl.lowering.machine.formats import store as to_memory
from dsl.lowering.meaning.boxes import dims_of, of_box
from dsl.lowering.meaning.elementwise import extreme
from dsl.lowering.meaning.run import MeaningMemory, Outside, Run, meaning, wider
from dsl.lowering.ops import operand, required


class ElementAccess(Struct):
    """The elements that an operation accesses, as a flat list in row-major order of the tile."""

    memory: MeaningMemory
    at: np.ndarray  # indices in `memory.data`, for the elements whose mask is on
    on: np.ndarray | None  # the mask, or None if it is on for all elements
    shape: tuple[int, ...]

    def of(self, value: Array) -> np.ndarray:
        """Returns the values of the elements whose mask is on."""
        flat = spread(value, self.shape).reshape(-1)
        return flat if self.on is None else flat[self.on]

    def result(self, values: np.ndarray, others: np.ndarray | None = None) -> list[Array]:
        """Returns the result of the access: `values` where the mask is on, and `others` where it is off."""
        out = values
        if self.on is not None and others is not None:
            out = others.reshape(-1)
            out[self.on] = values
        return [out.reshape(self.shape) if self.shape else out[0]]


def _named(run: Run, op: Op, name: str) -> Array | None:
    value = operand(op, name)
    return None if value is None else run[value]


def access(run: Run, op: Op, memory: Value, offset: str = "offset", masked: bool = True) -> ElementAccess:
    """Finds the elements of `memory` that an operation accesses. Raises Outside if an element whose mask is on is
    outside of the memory."""
    at = np.asarray(_named(run, op, offset))
    shape, mask = at.shape, _named(run, op, "mask") if masked else None
    on: np.ndarray | None = None if mask is None else spread(mask, shape).reshape(-1)
    if (active := run.active_for(at.size)) is not None:
        on = active if on is None else on & active
    flat = at.reshape(-1).astype(np.int64)
    if on is not None:
        if on.all():
            on = None
        else:
            flat = flat[on]
    stage = _named(run, op, "stage") if offset == "offset" else None
    base = 0
    if stage is not None and isinstance(memory.type, SharedType):
        count = memory.type.shape[0]
        index = int(stage)
        # Python's % rounds down, so stage -1 of a ring is the last stage, as in kernels.
        base = (index % count if memory.type.ring else index) * (run.memory(memory).size // count)
    there = run.memory(memory)
    if base:
        flat = flat + base
    # Only elements whose mask is on are checked. Other elements may have any offset.
    if flat.size and (flat.min() < 0 or flat.max() >= there.size):
        wrong = int(flat[(flat < 0) | (flat >= there.size)][0])
        raise Outside(op, f"{op.name} of element {wrong} of '{memory.name}', which has {there.size}")
    return ElementAccess(there, there.places(flat), on, shape)


@meaning("load", "ldmatrix")
def _load(run: Run, op: Op, x: list[Array]) -> list[Array]:
    memory = op.operands[0]
    dtype = memory.dtype
    a = access(run, op, memory)
    got = load(a.memory.data[a.at], dtype)
    if a.on is None:
        return a.result(got)
    other = _named(run, op, "other")
    kind = held(dtype, run.index_bits)
    return a.result(got, np.zeros(a.shape, kind) if other is None else np.array(np.broadcast_to(other, a.shape)))


@meaning("store", "stmatrix")
def _store(run: Run, op: Op, x: list[Array]) -> list[Array]:
    a = access(run, op, op.operands[0])
    _put(run, op, a, op.operands[0], to_memory(a.of(_named(run, op, "value")), op.operands[0].dtype))
    return []


def _put(run: Run, op: Op, a: ElementAccess, memory: Value, values: np.ndarray) -> None:
    a.memory.write(a.at, values)
    if a.memory.by is not None and a.memory.met is None:
        others = (place for place in a.at.tolist() if a.memory.by.get(place, (op, 0, run.block))[2] != run.block)
        if (place := next(others, None)) is not None:
            blocks = f"{a.memory.by[place][2]} and {run.block}"
            a.memory.met = f"blocks {blocks} both store element {place} of '{memory.name}'"
    _note(run, op, a)


def _note(run: Run, op: Op, a: ElementAccess) -> None:
    """Records for each element of a watched tensor which operation and block wrote it last, and from which element of
    its tile."""
    if a.memory.by is not None:
        numbers = np.arange(a.at.size) if a.on is None else np.flatnonzero(a.on)
        for place, number in zip(a.at.tolist(), numbers.tolist(), strict=True):
            a.memory.by[place] = op, number, run.block


@meaning("copy")
def _copy(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Copies elements. Zeros replace elements whose mask is off, and elements of a TMA box outside of the tensor."""
    shared, tensor = op.operands[0], required(op, "tensor")
    target = access(run, op, shared, masked=False)
    if operand(op, "source") is None:
        data = of_box(run, op, tensor)
    else:
        source = access(run, op, tensor, "source")
        size = int(np.prod(source.shape, dtype=np.int64))
        data = np.zeros(size, stored(shared.dtype))
        data[slice(None) if source.on is None else source.on] = source.memory.data[source.at]
    run.open_group.append((target.memory, target.at, data if target.on is None else data[target.on]))
    return []


@meaning("commit")
def _commit(run: Run, op: Op, x: list[Array]) -> list[Array]:
    run.groups.append(run.open_group)
    run.open_group = []
    return []


@meaning("wait")
def _wait(run: Run, op: Op, x: list[Array]) -> list[Array]:
    # This is the latest possible time of the copy's write, so a kernel that reads without waiting gets old data.
    while len(run.groups) > op.attrs["groups"]:
        for memory, at, data in run.groups.pop(0):
            memory.write(at, data)
    return []


@meaning("tma_store")
def _tma_store(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Queues a TMA store. Shared memory is read as late as possible, when the kernel waits for the store. So a kernel
    that overwrites the tile too early gets wrong results. Elements outside of the tensor are not stored."""
    memory, tensor, mask = run.memory(op.operands[0]), required(op, "tensor"), _named(run, op, "mask")
    if mask is not None and not mask:
        return []
    box, target = CopiedBox.of(op), run.memory(tensor)
    own, strides = dims_of(run, tensor)
    extents, shape = box.joined(own), shape_of(box)
    at, inside = np.zeros(shape, np.int64), np.ones(shape, bool)
    for axis in box.axes:
        counted = np.arange(axis.extent).reshape([-1 if each == axis.along else 1 for each in range(len(shape))])
        index = int(run[axis.first]) + (counted if axis.along >= 0 else 0)
        at, inside = at + index * strides[axis.axis], inside & (index >= 0) & (index < extents[axis.axis])
    on = inside.reshape(-1)
    source = memory.places(np.asarray(_named(run, op, "place")).reshape(-1).astype(np.int64)[on])
    a = ElementAccess(target, target.places(at.reshape(-1)[on]), on, shape)
    # `memory.data` is read later, when the kernel waits for the store.
    if (action := op.attrs.get("action")) is not None:
        run.open_stores.append(lambda: _reduce(run, op, a, tensor.dtype, action, memory.data[source]))
        return []
    run.open_stores.append(lambda: _put(run, op, a, tensor, memory.data[source]))
    return []


def _reduce(run: Run, op: Op, a: ElementAccess, dtype: DType, action: str, values: Array) -> None:
    """Combines elements of a tensor with those of a box, which has each element once."""
    there, value = load(a.memory.data[a.at], dtype), load(values, dtype)
    made = combined(action, dtype, there, value, None)
    if dtype.is_float and action == "add":
        run.inexact = True
        if run.noise is not None:
            made = run.shaken_if_rounded(made, wider(there) + wider(value), dtype)
    a.memory.write(a.at, to_memory(made, dtype))
    _note(run, op, a)


@meaning("tma_commit")
def _tma_commit(run: Run, op: Op, x: list[Array]) -> list[Array]:
    run.stores.append(run.open_stores)
    run.open_stores = []
    return []


@meaning("tma_wait")
def _tma_wait(run: Run, op: Op, x: list[Array]) -> list[Array]:
    while len(run.stores) > op.attrs["groups"]:
        for store in run.stores.pop(0):
            store()
    return []


@meaning("barrier", "tma_fence", "wait_for_launches", "let_next_start")
def _order(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Does nothing: here, all threads finish an operation before the next one begins, and launches run one after
    another."""
    return []


@meaning("shared_alloc")
def _shared_alloc(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Allocates the tile at the first execution. In a loop, the tile keeps its contents from iteration to iteration."""
    run.shared(op)
    return [None]


def combined(action: str, dtype: DType, old: Array, value: Array, expected: Array | None) -> Array:
    """Returns the value that an atomic leaves in memory."""
    if action == "add":
        total = old + value
        return to_bf16(total) if dtype is BF16 else total
    if action == "cas":
        return np.where(old == expected, value, old)
    if action == "exchange":
        return value
    if action in ("min", "max"):
        return extreme(dtype, old, value, least=action == "min")
    return {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[action](old, value)


@meaning("atomic")
def _atomic(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Executes an atomic for each element. Elements with the same address are processed one after another. Their order
    is not defined: it is row-major here, or random with noise. The result for each element is the value in memory
    before its own atomic."""
    memory, action = op.operands[0], op.attrs["action"]
    dtype = memory.dtype
    a = access(run, op, memory)
    value = a.of(_named(run, op, "value"))
    expected = _named(run, op, "expected")
    wanted = None if expected is None else a.of(expected)
    old = np.zeros(a.at.shape, held(dtype, run.index_bits))
    left = np.arange(a.at.size)  # elements that are not done yet
    if run.noise is not None:
        left = run.noise.permutation(left)
    run.inexact |= dtype.is_float and action == "add"
    while left.size:  # each iteration does one element of each address
        _, first = np.unique(a.at[left], return_index=True)
        now = left[np.sort(first)]
        there = load(a.memory.data[a.at[now]], dtype)
        old[now] = there
        made = combined(action, dtype, there, value[now], None if wanted is None else wanted[now])
        # Other warps and blocks may add in between, so each addition may be rounded differently.
        if run.noise is not None and dtype.is_float and action == "add":
            made = run.shaken_if_rounded(made, wider(there) + wider(value[now]), dtype)
        a.memory.write(a.at[now], to_memory(made, dtype))
        left = np.delete(left, np.sort(first))
    _note(run, op, a)
    return a.result(old, np.zeros(a.shape, old.dtype))
