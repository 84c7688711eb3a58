"""Runs a kernel in numpy, block by block. `Run` executes the IR after any pass, with the reference semantics of each
operation.

An operation is executed for all elements of its tiles at once, regardless of layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from math import prod
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from dsl.lowering.ir.function import Block, Function, Op, Value, walk
from dsl.lowering.ir.nesting import deep_recursion
from dsl.lowering.ir.types import INDEX, DType, SharedType
from dsl.lowering.machine.formats import held, number, store, stored, unit
from dsl.lowering.shared.shared_map import swizzled

Array = Any
"""A numpy array, or a numpy number for a scalar."""


class _Stopped(Exception):
    """Raised if a run cannot continue."""

    def __init__(self, op: Op, message: str):
        super().__init__(message)
        self.op, self.message = op, message


class Undecided(_Stopped):
    """Raised if the semantics are not defined: for an `asm`, or for a block that waits for a later block."""


class Outside(_Stopped):
    """Raised for an access outside of a memory."""


class MeaningMemory(Struct):
    """The elements of a tensor, a table or a shared tile, along one axis.

    `order`: the index of each element in `data`, or None if elements are in order.
    `by`: maps each element of a watched tensor to its last write: the operation, the element's index in its tile, and
        the block.
    `met`: a message if two blocks stored to the same element, or None.
    """

    data: np.ndarray
    size: int
    order: np.ndarray | None = None
    by: dict[int, tuple[Op, int, tuple[int, int, int]]] | None = None
    met: str | None = None

    def places(self, index: np.ndarray) -> np.ndarray:
        """Returns the indices of elements in `data`."""
        return index if self.order is None else self.order[index]

    def write(self, at: np.ndarray, values: np.ndarray) -> None:
        """Stores elements."""
        self.data[at] = values


class _Borrowed(MeaningMemory):
    """A memory that is copied before the first write."""

    is_copied: bool = False

    def write(self, at: np.ndarray, values: np.ndarray) -> None:
        if not self.is_copied:
            self.data, self.is_copied = self.data.copy(), True
        self.data[at] = values


class MeaningArguments(Struct):
    """The arguments of a launch.

    `memories`: the memories of tensors and tables.
    `numbers`: the values of scalars, dims and strides.
    `dims`: all dims by name, including those that are constants of the kernel.
    """

    memories: dict[Value, MeaningMemory] = field(default_factory=dict)
    numbers: dict[Value, Array] = field(default_factory=dict)
    dims: dict[str, int] = field(default_factory=dict)


Watch = Callable[[Value, Array], Array]
"""A function that the run calls with each computed value. The run continues with the value that it returns."""


Filled = dict[int, list[tuple[MeaningMemory, np.ndarray, np.ndarray, bool]]]
"""Maps each iteration of a pipeline to its copies: (memory, indices, data, whether the tile is a resident operand)."""


class _Reached(Exception):
    """Raised by a run that only computes what a block gives to an exchange."""

    def __init__(self, values: list[Array]):
        super().__init__()
        self.values = values


class Run:
    """Runs the blocks of a kernel, one after another.

    The blocks of a cluster may exchange values. The first block that needs the values of the others runs these, too, up
    to the exchange.

    `active`: flags for the elements that execute the current branch or loop, in row-major order. None if all do.
    `noise`: a random generator for results that the language does not define exactly, such as approximations and sums
        in any order.
    `inexact`: True if the run has computed a result that the language does not define exactly.
    `watch_of`: returns the function `watch` for a run of another block of the cluster up to an exchange.
    """

    def __init__(
        self,
        function: Function,
        arguments: MeaningArguments,
        grid: Sequence[int],
        watch: Watch | None = None,
        noise: np.random.Generator | None = None,
    ):
        self.function, self.arguments, self.grid = function, arguments, tuple(grid)
        self.index_bits = function.index_bits
        self.index = np.dtype(np.int64 if function.index_bits == 64 else np.int32)
        self.watch, self.noise = watch, noise
        self.contracts = function.word("contract") == "fast"
        self.inexact = self.contracts
        self.watch_of: Callable[[Run, tuple[int, int, int]], Watch] | None = None
        self.failed: set[int] = set()
        self.exchanged: dict[tuple[int, int, int], list[list[list[Array]]]] = {}  # by the cluster's first block
        self.stops_at: int | None = None
        for each in function.workspaces:
            # Unwritten memory contains 0xA5 instead of zeros, so that values read from it are conspicuous.
            count, kind = each.each * prod(self.grid), stored(each.dtype)
            data = np.full(count * kind.itemsize, 0 if each.zero else 0xA5, np.uint8).view(kind)
            arguments.memories[each.value] = MeaningMemory(data, count)
        self.allocations = [op for op in walk(function.body) if op.spec.allocates]
        self.begin((0, 0, 0))

    def begin(self, block: Sequence[int]) -> None:
        self.block = block[0], block[1], block[2]
        self.values: dict[Value, Array] = dict(self.arguments.numbers)
        self.active: np.ndarray | None = None
        self.joining = 0
        self.is_scan = False  # whether a scan is being computed, whose elements keep their order
        self.groups: list[list[tuple[MeaningMemory, np.ndarray, np.ndarray]]] = []
        self.open_group: list[tuple[MeaningMemory, np.ndarray, np.ndarray]] = []
        self.stores: list[list[Callable[[], None]]] = []
        self.open_stores: list[Callable[[], None]] = []
        self.filled: dict[tuple[Value, int], Filled] = {}
        self.tiles: dict[Value, MeaningMemory] = {}
        self.bytes: np.ndarray | None = None
        self.exchanges = 0

    def __getitem__(self, value: Value) -> Array:
        return self.values.get(value)

    @deep_recursion()
    def do(self, block: Sequence[int]) -> None:
        """Runs one block of the grid. May raise Undecided or Outside."""
        self.begin(block)
        with np.errstate(all="ignore"):  # no warnings for overflow and division by zero, as in kernels
            for op in self.function.body.ops:
                self.op(op)

    def op(self, op: Op) -> None:
        values = self.values
        out = MEANINGS[op.name](self, op, [values.get(o) for o in op.operands])
        for result, value in zip(op.results, out, strict=True):
            # Values inside of a reduction's function are not watched: they are arrays here, which cannot be compared.
            if self.watch is not None and not self.joining and value is not None:
                value = self.watch(result, value)
            values[result] = value

    def region(self, block: Block, arguments: Sequence[Array]) -> list[Array]:
        """Runs a region, and returns the values that it yields."""
        for argument, value in zip(block.args, arguments, strict=True):
            self.values[argument] = value
        for op in block.ops[:-1]:
            self.op(op)
        return [self.values[o] for o in block.ops[-1].operands]

    def join(self, region: Block, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        """Runs the function of a reduction for many pairs at once. The scalars of this function are arrays here."""
        self.joining += 1
        around, self.active = self.active, None
        try:
            return self.region(region, [*left, *right])
        finally:
            self.joining -= 1
            self.active = around

    def exchange(self, values: list[Array], blocks: int) -> list[list[Array]]:
        """Returns the `values` of this block, and those that the other blocks of its cluster give to the same
        exchange, in the order of their ranks."""
        number, self.exchanges = self.exchanges, self.exchanges + 1
        if number == self.stops_at:
            raise _Reached(values)
        x, y, z = self.block
        cluster = [(x - x % blocks + rank, y, z) for rank in range(blocks)]
        known = self.exchanged.setdefault(cluster[0], [])
        if number == len(known):
            known.append([values if each == self.block else self._given(each, number) for each in cluster])
        return known[number]

    def _given(self, block: tuple[int, int, int], number: int) -> list[Array]:
        """Returns the values that another block gives to exchange `number`."""
        known, probe = self.arguments, copy(self)
        probe.stops_at, probe.watch, probe.failed = number, None, set()
        borrowed = {value: _Borrowed(each.data, each.size, each.order) for value, each in known.memories.items()}
        probe.arguments = replace(known, memories=dict[Value, MeaningMemory](borrowed))
        if self.watch_of is not None:
            probe.watch = self.watch_of(probe, block)
        try:
            probe.do(block)
        except _Reached as reached:
            return reached.values
        raise Undecided(self.function.body.ops[-1], f"block {block} does not take part in an exchange of its cluster")

    def active_for(self, size: int) -> np.ndarray | None:
        """Returns flags for the active elements of a tile of `size` elements, or None if all are active. A scalar is
        active if any element is."""
        if self.active is None or self.active.size == size:
            return self.active
        return np.full(size, bool(self.active.any()))

    # ---- memory ----

    def memory(self, value: Value) -> MeaningMemory:
        found = self.arguments.memories.get(value) or self.tiles.get(value)
        assert found is not None, value
        return found

    def shared(self, op: Op) -> None:
        """Allocates a shared tile with the swizzle of its type. If `place_shared` has set the tile's offset, the tile
        is a view of the block's bytes. So tiles that share bytes overwrite each other, as in a kernel."""
        if op.result in self.tiles:
            return
        type = op.attrs["type"]
        assert isinstance(type, SharedType)
        count, kind = prod(type.shape), stored(type.dtype)
        order = _order(type, op) if type.swizzle else None
        if "offset" not in op.attrs:
            data = np.full(count * kind.itemsize, 0xA5, np.uint8).view(kind)
            self.tiles[op.result] = MeaningMemory(data, count, order)
            return
        if self.bytes is None:
            ends = (o.attrs["offset"] + o.attrs["type"].bytes for o in self.allocations)
            self.bytes = np.full(-(-max(ends) // 16) * 16, 0xA5, np.uint8)
        start = op.attrs["offset"]
        if start % kind.itemsize:  # the IR text was edited, or a pass is wrong: a kernel would fault
            raise Outside(op, f"the tile '{op.attrs['name']}' begins at byte {start}, in the middle of an element")
        data = self.bytes[start : start + type.bytes].view(kind)
        self.tiles[op.result] = MeaningMemory(data, count, order)

    def shaken(self, value: Array, dtype: DType) -> Array:
        """Changes each float at random by up to half a unit in the last place."""
        assert self.noise is not None
        value = np.asarray(value)
        return (value * (1 + self.noise.uniform(-0.5, 0.5, value.shape) * unit(dtype))).astype(value.dtype)

    def shaken_if_rounded(self, value: Array, exact: Array, dtype: DType) -> Array:
        """Like `shaken`, but changes only values that were rounded. A result that is exact in one order may be exact in
        all orders."""
        value = np.asarray(value)
        is_exact: np.ndarray = np.equal(value, exact)
        return np.asarray(np.where(is_exact, value, self.shaken(value, dtype)), value.dtype)


def wider(x: Array) -> Array:
    """Converts floats to a wider type, which represents their sums and products almost exactly."""
    x = np.asarray(x)
    return x.astype(np.longdouble if x.dtype == np.float64 else np.float64)


Meaning = Callable[[Run, Op, list[Array]], Sequence[Array]]
"""A function with the semantics of an operation. Its arguments are the run, the operation, and the values of the
operands. It returns the values of the results."""
MEANINGS: dict[str, Meaning] = {}
"""Maps the name of an operation to its semantics."""


def meaning(*names: str) -> Callable[[Meaning], Meaning]:
    """Registers the semantics of the operations with these names."""

    def register(function: Meaning) -> Meaning:
        for name in names:
            assert name not in MEANINGS, name
            MEANINGS[name] = function
        return function

    return register


_ORDERS: dict[SharedType, np.ndarray] = {}


def _order(type: SharedType, op: Op) -> np.ndarray:
    """Returns the index of each element in the memory of a swizzled tile. The swizzle repeats in each stage of a ring.
    Raises Outside if the swizzle moves elements out of the tile or splits them."""
    found = _ORDERS.get(type)
    if found is None:
        size, count = type.dtype.bytes, prod(type.shape)
        stage = count // type.shape[0] if type.ring else count
        moved = np.array([swizzled(i * size, type.swizzle) for i in range(stage)])
        if (moved % size).any() or moved.max(initial=0) >= stage * size:
            raise Outside(op, f"the swizzle {type.swizzle} takes elements apart, or out of their tile")
        found = _ORDERS[type] = (np.arange(0, count, stage)[:, None] + (moved // size)[None, :]).reshape(-1)
    return found


# ---- a launch ----


def as_memory(array: np.ndarray, dtype: DType) -> tuple[np.ndarray, np.ndarray | None]:
    """Converts an array to flat bits, which start at its first element. Also returns the indices of the array's
    elements in them, or None if the array is contiguous and row-major."""
    kind = stored(dtype)
    plain = array.view(kind) if array.dtype != kind else array
    if plain.flags.c_contiguous:
        return plain.reshape(-1), None
    steps = [s // kind.itemsize for s in plain.strides]
    at = sum(
        (np.arange(e) * s).reshape((-1,) + (1,) * (plain.ndim - i - 1))
        for i, (e, s) in enumerate(zip(plain.shape, steps, strict=True))
    )
    at = np.broadcast_to(np.asarray(at, np.int64), plain.shape).reshape(-1)
    flat = np.zeros(int(at.max(initial=0)) + 1, kind)
    flat[at] = plain.reshape(-1)
    return flat, at


def write_back(memory: MeaningMemory, array: np.ndarray, dtype: DType) -> None:
    """Copies the contents of a memory back into the array from which it was made."""
    data, at = as_memory(array, dtype)
    if at is None:
        data[:] = memory.data
    else:
        array[...] = memory.data[at].view(array.dtype).reshape(array.shape)


def arguments_of(function: Function, given: Mapping[str, Any], watched: bool = False) -> MeaningArguments:
    """Converts the arguments of a launch, which are given by parameter name. Memory is copied. An array that is passed
    twice becomes one memory, as in an in-place call."""
    out = MeaningArguments()
    index = held(INDEX, function.index_bits)
    known: dict[tuple, MeaningMemory] = {}
    for p in function.params:
        if p.kind == "tensor" and given.get(p.name) is not None:
            out.dims |= {d: e for d, e in zip(p.dims, given[p.name].shape, strict=True) if isinstance(d, str)}
        if p.value is None:  # an optional tensor that is absent
            continue
        if p.kind == "tensor":
            array = given[p.name]
            key = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str)
            # Arrays with the same address, shape and strides share one memory, so that writes through one array are
            # visible through the other.
            if key not in known:
                data = as_memory(array, p.dtype)[0].copy()
                by: dict[int, tuple[Op, int, tuple[int, int, int]]] | None = {} if watched else None
                known[key] = MeaningMemory(data, data.size, None, by)
            out.memories[p.value] = known[key]
            for stride, step in zip(p.strides, array.strides, strict=False):
                out.numbers[stride] = index.type(step // array.dtype.itemsize)
        elif p.kind == "scalar":
            out.numbers[p.value] = number(given[p.name], p.dtype, function.index_bits)
        else:
            numbers = [number(n, p.dtype, function.index_bits) for n in np.asarray(given[p.name]).tolist()]
            data = store(np.array(numbers, held(p.dtype)), p.dtype)
            out.memories[p.value] = MeaningMemory(data, data.size)
    for name, value in function.dims.items():
        out.numbers[value] = index.type(out.dims[name])
    return out


def blocks_of(grid: Sequence[int], most: int | None = None) -> list[tuple[int, int, int]]:
    """Returns the first `most` blocks of a grid (default: all) in order. The first axis changes fastest."""
    x, y, z = (*grid, 1, 1)[:3]
    count = x * y * z if most is None else min(most, x * y * z)
    return [(i % x, i // x % y, i // (x * y)) for i in range(count)]


def carried_blocks(function: Function, grid: Sequence[int], most: int | None) -> list[tuple[int, int, int]]:
    """Returns the first `most` blocks of a grid, rounded up to whole clusters, or all blocks if they communicate by
    workspaces."""
    size = function.blocks_of_cluster
    return blocks_of(grid, None if function.workspaces or most is None else -(-most // size) * size)
