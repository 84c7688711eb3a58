"""What the arguments of a call say of a kernel: dims, types, alignment, what is absent; bound once for a launch.

The arrays of a call are read once, as `ArrayFacts`; calls with equal facts are one class, and share a plan. `bind`
takes the facts through the head of a kernel. Each launch that is considered binds once, and what is bound goes in its
Request from `fits` to the variant to the launch. The runtime checks arrays against the header by itself, once for each
class: it knows PTX text alone, wherever that comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dsl.kernels.variant import stride_class
from dsl.text.heads import ArrayParameter, KernelHead
from dsl.values.facts import ArrayFacts
from lowering.layout import row_major
from lowering.location import TileError


class Misfit(TileError):
    """What is wrong with the arguments of a call; its place is that of a parameter or a condition."""


@dataclass(slots=True)
class BoundArguments:
    """The arguments of one kernel. dims: extents by name. types: of type parameters. align: bytes that each pointer is
    a multiple of. strides: of strided tensors, their class. scalars: numbers. absent: optional tensors not given.
    far: tensors whose elements lie farther apart than 32 bits count."""

    dims: dict[str, int] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    align: dict[str, int] = field(default_factory=dict)
    strides: dict[str, tuple[int, ...]] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    far: set[str] = field(default_factory=set)

    def array(self, head: KernelHead, p: ArrayParameter, facts: ArrayFacts) -> None:
        """Binds one tensor. Misfit 'shape' or 'type' where it does not go with the head, or with those before."""
        check_array(head, p, facts)
        for dim, extent in zip(p.dims, facts.shape, strict=True):
            if isinstance(dim, str):
                if self.dims.setdefault(dim, extent) != extent:
                    message = f"'{dim}' is {self.dims[dim]}, and {extent} in '{p.name}'"
                    raise Misfit("shape", p.loc, message, "the arrays' shapes must agree")
            elif dim is not None and dim != extent:
                raise Misfit("shape", p.loc, f"'{p.name}' has the literal dim {dim}; the array has {extent}")
        if p.dtype in head.types:
            if self.types.setdefault(p.dtype, facts.dtype) != facts.dtype:
                message = f"'{p.dtype}' is {self.types[p.dtype]}, and {facts.dtype} in '{p.name}'"
                raise Misfit("type", p.loc, message)
        elif p.dtype != facts.dtype:
            raise Misfit("type", p.loc, f"'{p.name}' is {p.dtype}; the array is {facts.dtype}", "convert the array")
        self.align[p.name] = facts.align
        if p.strided:
            self.strides[p.name] = stride_class(facts.strides or row_major(facts.shape))
            self.far |= {p.name} if facts.is_far else set()

    def constants(self, head: KernelHead, given: Mapping[str, Any]) -> None:
        """What the caller gives by name: a type parameter is set, a dim must be that of the arrays."""
        for name, choices in head.types.items():
            if name in given:
                wanted = str(given[name])
                if wanted not in choices:
                    raise Misfit("type", None, f"'{name}' is one of {', '.join(choices)}; not {wanted}")
                if self.types.setdefault(name, wanted) != wanted:
                    raise Misfit("type", None, f"'{name}' is {self.types[name]} in the arrays; {wanted} was given")


def check_array(head: KernelHead, p: ArrayParameter, facts: ArrayFacts) -> None:
    """What an array alone tells: Misfit 'shape', or 'type' where its type parameter has no such alternative."""
    if len(facts.shape) != len(p.dims):
        raise Misfit("shape", p.loc, f"'{p.name}' has rank {len(p.dims)}; the array has shape {list(facts.shape)}")
    if facts.dtype not in head.types.get(p.dtype, [facts.dtype]):
        choices = ", ".join(head.types[p.dtype])
        raise Misfit("type", p.loc, f"'{p.name}' is {facts.dtype}; '{p.dtype}' is one of {choices}")


def bind(head: KernelHead, arguments: Mapping[str, Any]) -> BoundArguments:
    """The arguments of a kernel, bound: by parameter ArrayFacts, numbers, tables, or None. TileError or Misfit."""
    bound = BoundArguments()
    for name in head.names:
        value = arguments[name]
        if (array := head.arrays.get(name)) is not None:
            if value is None:
                bound.absent.add(name)
            elif isinstance(value, ArrayFacts):
                bound.array(head, array, value)
            else:
                message = f"'{name}' of '{head.name}' is an array; got {described(value)}"
                hint = "[0, 64].to(s32) makes an array of numbers" if isinstance(value, list | tuple) else None
                raise TileError("call", array.loc, message, hint)
        elif (scalar := head.scalars.get(name)) is not None:
            if isinstance(value, bool | int | float):
                check_scalar(name, bound.types.get(scalar.type.dtype, scalar.type.dtype), value)
                bound.scalars[name] = value
            elif isinstance(value, ArrayFacts) or value is None:
                message = f"'{name}' of '{head.name}' is a scalar; got {described(value)}"
                raise TileError("call", scalar.loc, message)
    return bound


def check_scalar(name: str, dtype: str, value: bool | int | float) -> None:
    """TileError for a number that a scalar of this type cannot be, as a call would be told."""
    from runtime.dtypes import DTYPES, converter
    from runtime.errors import LaunchError

    if dtype not in DTYPES:  # a type parameter that no array before it binds
        return
    try:
        converter(dtype, name)(value)
    except LaunchError as error:
        raise TileError(error.code, None, error.message, error.hint) from None


def described(value: Any) -> str:
    """An argument in words."""
    if isinstance(value, ArrayFacts):
        return f"an array {value.dtype}{list(value.shape)}"
    return "nothing" if value is None else f"{value}"
