"""The kinds of value that a name in a kernel may be bound to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from dsl.lowering.ir.function import Parameter, Value
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.types import DType
from dsl.values.host import Shaped
from dsl.values.scope import Closure
from dsl.values.table import Builtin


class Suppressed(TileError):
    """An error that only follows from an error already reported. It is never shown."""


class _Poison:
    """The binding of a name whose defining statement had an error. A use of the name raises Suppressed."""


POISON = _Poison()


class Tensor(Struct):
    """A tensor parameter or a view of it. `dims` and `strides` contain each axis's extent and its stride in elements.

    `in_order` is True if the strides are row-major. `axes` maps each axis of the view to an axis of the parameter, or
    to None for an added axis of extent 1. If `axes` skips an axis of the parameter, the view merges that axis with the
    next one. For example, `reshape(y, [n, p * q, k])` merges p with q. `axes` is None if the view's axes have no such
    mapping."""

    parameter: Parameter
    value: Value
    dims: list[int | Value]
    strides: list[int | Value]
    in_order: bool = True
    axes: tuple[int | None, ...] | None = None

    @property
    def dtype(self) -> DType:
        return self.value.dtype


class SharedTile(Struct):
    """A shared tile or a part of it. `stage` is the selected stage. `base` is the offset of the part in elements.

    Elements of a part that lie beyond an enclosing tile are masked off. `inside` holds conditions that mask the whole
    part. `windows` lists, for each axis, the enclosing tiles whose bounds the part may exceed. Each entry is the pair
    (start, extent): the part begins at index `start` of that tile, whose extent along the axis is `extent`.
    """

    value: Value
    extents: list[int]
    strides: list[int]
    stage: Value | None = None
    base: Value | None = None
    has_stages: bool = False  # the first extent counts stages
    inside: tuple[Value, ...] = ()
    windows: tuple[tuple[tuple[Value | int, int], ...], ...] = ()

    @property
    def dtype(self) -> DType:
        return self.value.dtype


class Table(Struct):
    value: Value
    length: int


class Absent(Struct):
    """An optional tensor that the caller did not pass."""

    name: str


class Access(Struct):
    """The expression `memory[subscripts]` before any read or write. A subscript is an int, a Value or a Span."""

    memory: Tensor | SharedTile | Table
    subscripts: list[Any]
    loc: Loc


Binding = (
    Any  # int | float | bool | str | DType | Value | tuple | Tensor | SharedTile | Table | Absent | Access | Closure
)


def elements(binding: Binding, most: int) -> int:
    """Counts the bindings in a tuple, including nested tuples. Counting stops shortly after it exceeds `most`."""
    count, left = 0, [binding]
    # `t = (t, t)` in a loop of n iterations makes a small graph with 2^n paths, so an unbounded count would never end.
    while left and count <= most:
        each = left.pop()
        if isinstance(each, tuple):
            count += len(each)
            left += each[: most + 1]
    return count


_IN_WORDS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    (Value, lambda value: f"{'a tile' if value.tile.shape else 'a scalar'} {value.tile}"),
    (bool, lambda flag: str(flag).lower()),
    (int | float, lambda number: f"the number {number}"),
    (str, lambda text: "a string"),
    (tuple, lambda parts: f"a tuple of {len(parts)}" if parts else "the result of a def without 'return'"),
    (DType | Shaped, lambda type: f"the type {type}"),
    (Builtin, lambda function: f"the function '{function.name}'"),
    (Closure, lambda function: f"the function '{function.node.name}'"),
    (Absent, lambda tensor: f"the absent tensor '{tensor.name}'"),
    (Tensor, lambda tensor: f"the tensor '{tensor.parameter.name}'"),
    (SharedTile, lambda tile: f"the shared tile '{tile.value.name}'"),
    (Table, lambda table: f"the table '{table.value.name}'"),
    (Access, lambda access: f"a part of {describe(access.memory)}"),
)


def describe(binding: Binding) -> str:
    """Describes a binding in words, for error messages."""
    return next((said(binding) for kind, said in _IN_WORDS if isinstance(binding, kind)), "this")
