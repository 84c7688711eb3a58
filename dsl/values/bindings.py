"""The things that a name in a kernel may be bound to."""

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
    """An error that follows from one already reported. It is never shown."""


class _Poison:
    """The binding of a name whose statement was wrong: uses of it raise Suppressed."""


POISON = _Poison()


@dataclass(slots=True)
class Tensor:
    """A tensor parameter, or a view of one: extents and element strides by axis. in_order: the strides are row-major.
    axes: for each axis the parameter's own axis, or None for an added axis of one element. An own axis that is missing
    is joined to the next one, as p to q in `reshape(y, [n, p * q, k])`. axes is None if the axes of the view are new
    ones."""

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
    """A shared tile or a part of it: `stage` chosen, `base` elements in, extents and element strides by axis.

    Elements of a part that lie beyond the tile are masked off. inside: conditions for all of the part. windows: for
    each axis, a pair for each tile that the part may reach beyond: the first index in that tile, and its extent.
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
    """An optional tensor that was not given."""

    name: str


@dataclass(slots=True)
class Access:
    """`memory[subscripts]`, not read yet. Subscripts: int, Value, or (start, extent) of a slice."""

    memory: Tensor | SharedTile | Table
    subscripts: list[Any]
    loc: Loc


Binding = (
    Any  # int | float | bool | str | DType | Value | tuple | Tensor | SharedTile | Table | Absent | Access | Closure
)


def elements(binding: Binding, most: int) -> int:
    """How many bindings a tuple holds, including those of tuples in it. Counting stops soon after `most`."""
    count, left = 0, [binding]
    # `t = (t, t)` in a loop makes a small graph with 2^n paths: an unbounded count would not end.
    while left and count <= most:
        each = left.pop()
        if isinstance(each, tuple):
            count += len(each)
            left += each[: most + 1]
    return count


def describe(binding: Binding) -> str:
    """A binding in words, for an error message."""
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
