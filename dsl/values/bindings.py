"""What a name in a kernel may be bound to, and the scopes of names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dsl.text import tree as ast
from lowering.ir import Parameter, Value
from lowering.location import Loc, TileError
from lowering.types import DType


class Suppressed(TileError):
    """Follows from an error that is already reported; never shown."""


class _Poison:
    """What a name is bound to when its statement was wrong."""


POISON = _Poison()


@dataclass(slots=True)
class Tensor:
    """A tensor parameter, or a reshaped view of one: extents and element strides by axis."""

    parameter: Parameter
    value: Value
    dims: list[int | Value]
    strides: list[int | Value]

    @property
    def dtype(self) -> DType:
        return self.value.dtype


@dataclass(slots=True)
class SharedTile:
    """A shared tile or a part of it: `slot` chosen, `base` elements in, extents and element strides by axis.

    What of a part reaches beyond the tile is masked off. `inside` are conditions for all of the part. `windows` has for
    each axis of it, of each tile that it may reach beyond, where the part begins there and the extent there.
    """

    value: Value
    extents: list[int]
    strides: list[int]
    slot: Value | None = None
    base: Value | None = None
    has_slots: bool = False  # the first extent still stands for slots
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


@dataclass(slots=True)
class Closure:
    """A `def` with the scope it stands in."""

    node: ast.Def
    scope: Scope


@dataclass(slots=True)
class Builtin:
    name: str


Binding = (
    Any  # int | float | bool | str | DType | Value | tuple | Tensor | SharedTile | Table | Absent | Access | Closure
)


@dataclass(slots=True)
class Scope:
    parent: Scope | None
    names: dict[str, Binding] = field(default_factory=dict)

    def find(self, name: str) -> Binding | None:
        scope: Scope | None = self
        found = None
        while found is None and scope is not None:
            found = scope.names.get(name)
            scope = scope.parent
        return found

    def all_names(self) -> set[str]:
        out: set[str] = set()
        scope: Scope | None = self
        while scope is not None:
            out |= scope.names.keys()
            scope = scope.parent
        return out


def same_binding(a: Binding, b: Binding) -> bool:
    if isinstance(a, Closure) and isinstance(b, Closure):
        return a.node is b.node and a.scope is b.scope
    return type(a) is type(b) and a == b


def elements(binding: Binding, most: int) -> int:
    """How many bindings a tuple holds, those of its tuples included; counts no further than `most`, nearly."""
    count, left = 0, [binding]
    while left and count <= most:
        each = left.pop()
        if isinstance(each, tuple):
            count += len(each)
            left += each[: most + 1]
    return count


def row_major(extents: list[int]) -> list[int]:
    out = [1] * len(extents)
    for i in range(len(extents) - 2, -1, -1):
        out[i] = out[i + 1] * extents[i + 1]
    return out


def describe(binding: Binding) -> str:
    """What a name stands for, for an error message."""
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
    if isinstance(binding, DType):
        return f"the type {binding}"
    if isinstance(binding, Closure):
        return f"the function '{binding.node.name}'"
    if isinstance(binding, Builtin):
        return f"the function '{binding.name}'"
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
