"""The kinds of value that a name in a kernel may be bound to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dsl.lowering.ir.function import Parameter, Value
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.types import DType
from dsl.values.host import Shaped
from dsl.values.scope import Closure
from dsl.values.table import Builtin


class Suppressed(TileError):
    """An error caused by an error that was already reported. It is never shown."""


class _Poison:
    """The binding of a name whose defining statement had an error. A use of the name raises Suppressed."""


POISON = _Poison()


@dataclass(slots=True)
class Tensor:
    """A tensor parameter or a view of it. `dims` and `strides` give each axis's extent and its stride in elements.

    `in_order` states that the strides are row-major. `axes` maps each axis of the view to an axis of the parameter, or
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


@dataclass(slots=True)
class SharedTile:
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


@dataclass(slots=True)
class Table:
    value: Value
    length: int


@dataclass(slots=True)
class Absent:
    """An optional tensor that the caller did not pass."""

    name: str


@dataclass(slots=True)
class Access:
    """The expression `memory[subscripts]` before any read or write. A subscript is an int, a Value or a Span."""

    memory: Tensor | SharedTile | Table
    subscripts: list[Any]
    loc: Loc


Binding = (
    Any  # int | float | bool | str | DType | Value | tuple | Tensor | SharedTile | Table | Absent | Access | Closure
)


def elements(binding: Binding, most: int) -> int:
    """The number of bindings in a tuple, including nested tuples. Counting stops shortly after it exceeds `most`."""
    count, left = 0, [binding]
    # `t = (t, t)` in a loop of n iterations makes a small graph with 2^n paths, so an unbounded count would never end.
    while left and count <= most:
        each = left.pop()
        if isinstance(each, tuple):
            count += len(each)
            left += each[: most + 1]
    return count


def describe(binding: Binding) -> str:
    """A binding in words, for error messages."""
    if isinstance(binding, Value):
        return ("a scalar " if not binding.tile.shape else "a tile ") + str(binding.tile)
    if isinstance(binding, bool):
        return str(binding).lower()
    if isinstance(binding, int | float):
        return f"the number {binding}"
    if isinstance(binding, str):
        return "a string"
    if isinstance(binding, tuple):
        return f"a tuple of {len(binding)}" if binding else "the result of a def without 'return'"
    if isinstance(binding, DType | Shaped):
        return f"the type {binding}"
    if isinstance(binding, Closure | Builtin):
        return f"the function '{binding.name if isinstance(binding, Builtin) else binding.node.name}'"
    if isinstance(binding, Absent):
        return f"the absent tensor '{binding.name}'"
    if isinstance(binding, Tensor):
        return f"the tensor '{binding.parameter.name}'"
    if isinstance(binding, SharedTile):
        return f"the shared tile '{binding.value.name}'"
    if isinstance(binding, Table):
        return f"the table '{binding.value.name}'"
    if isinstance(binding, Access):
        return f"a part of {describe(binding.memory)}"
    return "this"
