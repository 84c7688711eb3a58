"""Binds the arguments of a call to a kernel: finds dims, types, alignment and absent tensors.

The arrays of a call are described once, as `ArrayFacts`. Calls with equal facts form a class and share a plan. For each
launch that the planner considers, `bind` matches these facts with the kernel's signature. A Request stores the result
of `bind`. The condition `fits` of a dispatch, the variant and the launch use the same Request.

The runtime checks arrays against the PTX header again, once for each class. This check is needed because the PTX text
may come from another compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain, combinations, islice
from typing import Any

from msgspec import Struct, field

from dsl.kernels.variant import stride_class
from dsl.lowering.ir.location import TileError
from dsl.lowering.layouts.layout import row_major
from dsl.text.heads import ArrayParameter, KernelHead
from dsl.values.facts import ArrayFacts

IN_ORDER = "are the arguments in their order?"
MOST_ORDERS = 200
"""The greatest number of other argument orders that are tried when the arguments do not fit. 200 is enough to exchange
any two of 20 arguments, or any two or three of 8."""


class Misfit(TileError):
    """An error in the arguments of a call. Its location in the file is a parameter or a condition."""


class BoundArguments(Struct):
    """The result of binding a kernel's arguments.

    `dims` holds the extent of each dim. `types` holds the type of each type parameter. `align` holds the alignment of
    each pointer, in bytes. `strides` holds the stride classes of strided tensors. `scalars` holds numbers. `absent`
    names the optional tensors that are not given. `far` names the tensors whose offsets need more than 32 bits.
    `said_by` names the tensor that bound each dim or type, for messages."""

    dims: dict[str, int] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    align: dict[str, int] = field(default_factory=dict)
    strides: dict[str, tuple[int, ...]] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    far: set[str] = field(default_factory=set)
    said_by: dict[str, str] = field(default_factory=dict)

    def array(self, head: KernelHead, p: ArrayParameter, facts: ArrayFacts) -> None:
        """Binds one tensor. Raises Misfit 'shape' or 'type' if the tensor conflicts with the signature or with a tensor
        bound earlier."""
        self.shape(head, p, facts)
        self.align[p.name] = facts.align
        if p.strided:
            # The arrays of examples have no strides. They are row-major.
            self.strides[p.name] = stride_class(facts.strides or row_major(facts.shape))
            self.far |= {p.name} if facts.is_far else set()

    def shape(self, head: KernelHead, p: ArrayParameter, facts: ArrayFacts) -> None:
        """Binds the dims and the type of one tensor. The extents may be symbols. Raises like `array`."""
        check_array(head, p, facts)
        for dim, extent in zip(p.dims, facts.shape, strict=True):
            if isinstance(dim, str):
                self.said_by.setdefault(dim, p.name)
                if self.dims.setdefault(dim, extent) != extent:
                    message = f"'{dim}' is {self.dims[dim]} in '{self.said_by[dim]}', and {extent} in '{p.name}'"
                    raise Misfit("shape", p.loc, message, "the arrays' shapes must agree")
            elif dim is not None and dim != extent:
                raise Misfit("shape", p.loc, f"'{p.name}' has the literal dim {dim}; the array has {extent}")
        if p.dtype in head.types:
            self.said_by.setdefault(p.dtype, p.name)
            if self.types.setdefault(p.dtype, facts.dtype) != facts.dtype:
                known = f"'{p.dtype}' is {self.types[p.dtype]} in '{self.said_by[p.dtype]}'"
                hint = f"convert one of them, or give '{p.name}' a type of its own: {p.name}: W[…] with W in …"
                raise Misfit("type", p.loc, f"{known}, and {facts.dtype} in '{p.name}'", hint)
        elif p.dtype != facts.dtype:
            raise Misfit("type", p.loc, f"'{p.name}' is {p.dtype}; the array is {facts.dtype}", "convert the array")

    def constants(self, head: KernelHead, given: Mapping[str, Any]) -> None:
        """Sets the type parameters that the caller gives by name. Raises Misfit 'type' if the arrays have another
        type."""
        for name, choices in head.types.items():
            if name in given:
                wanted = str(given[name])
                if wanted not in choices:
                    raise Misfit("type", None, f"'{name}' is one of {', '.join(choices)}; not {wanted}")
                if self.types.setdefault(name, wanted) != wanted:
                    raise Misfit("type", None, f"'{name}' is {self.types[name]} in the arrays; {wanted} was given")


def check_array(head: KernelHead, p: ArrayParameter, facts: ArrayFacts) -> None:
    """Checks the rank and element type of one array. Raises Misfit 'shape' for a wrong rank, and Misfit 'type' for a
    type that the signature does not allow."""
    if len(facts.shape) != len(p.dims):
        message = f"'{p.name}' has rank {len(p.dims)}; the array has shape {list(facts.shape)}"
        raise Misfit("shape", p.loc, message, "a call adds no axis and joins none: reshape the array ahead of it")
    if facts.dtype not in head.types.get(p.dtype, [facts.dtype]):
        choices = ", ".join(head.types[p.dtype])
        hint = f"convert the array, or let '{p.dtype}' be {facts.dtype}, too"
        raise Misfit("type", p.loc, f"'{p.name}' is {facts.dtype}; '{p.dtype}' is one of {choices}", hint)


def bind(
    head: KernelHead, arguments: Mapping[str, Any], array: Callable[..., None] = BoundArguments.array
) -> BoundArguments:
    """Binds the arguments of a kernel. `arguments` maps parameters to ArrayFacts, a number, a table or None. Those that
    it lacks are not checked. `array` binds a tensor. Raises TileError or Misfit."""
    try:
        return _bind(head, arguments, array)
    except Misfit as error:
        # The search for another order runs only after an error, so that a call that fits does not pay for the search.
        hint = in_another_order(head, arguments, array)
        if hint is None:
            raise
        raise Misfit(error.code, error.loc, error.message, hint) from None


def in_another_order(head: KernelHead, arguments: Mapping[str, Any], array: Callable[..., None]) -> str | None:
    """Searches for two or three arrays that fit after changing places. Returns a hint with that order, or None."""
    given = [name for name in head.arrays if isinstance(arguments.get(name), ArrayFacts)]
    threes = ((a, *rest) for a, b, c in combinations(given, 3) for rest in ((b, c), (c, b)))
    for ring in islice(chain(combinations(given, 2), threes), MOST_ORDERS):
        moved = dict(zip(ring, (*ring[1:], ring[0]), strict=True))
        # Exchanging arguments with equal facts changes nothing.
        if all(arguments[name] == arguments[taken] for name, taken in moved.items()):
            continue
        try:
            _bind(head, {**arguments, **{name: arguments[taken] for name, taken in moved.items()}}, array)
        except TileError:
            continue
        fitting = ", ".join(f"as '{name}' what is given as '{taken}'" for name, taken in moved.items())
        return f"{IN_ORDER} These fit: {fitting}"
    return None


def _bind(head: KernelHead, arguments: Mapping[str, Any], bind_array: Callable[..., None]) -> BoundArguments:
    bound = BoundArguments()
    for name in head.names:
        if name not in arguments:
            continue
        value = arguments[name]
        if (array := head.arrays.get(name)) is not None:
            if value is None:
                bound.absent.add(name)
            elif isinstance(value, ArrayFacts):
                bind_array(bound, head, array, value)
            else:
                message = f"'{name}' of '{head.name}' is an array; got {described(value)}"
                hint = "[0, 64].to(s32) makes an array of numbers" if isinstance(value, list | tuple) else None
                # One array parameter got a number and one scalar got an array. Probably the order of the arguments is
                # wrong.
                if any(isinstance(arguments.get(each), ArrayFacts) for each in head.scalars):
                    hint = IN_ORDER
                raise TileError("call", array.loc, message, hint)
        elif (scalar := head.scalars.get(name)) is not None:
            if isinstance(value, bool | int | float):
                check_scalar(name, bound.types.get(scalar.type.dtype, scalar.type.dtype), value)
                bound.scalars[name] = value
            elif isinstance(value, ArrayFacts) or value is None:
                message = f"'{name}' of '{head.name}' is a scalar; got {described(value)}"
                is_moved = any(isinstance(arguments.get(each), bool | int | float) for each in head.arrays)
                raise TileError("call", scalar.loc, message, IN_ORDER if is_moved else None)
    return bound


def check_scalar(name: str, dtype: str, value: bool | int | float) -> None:
    """Raises TileError if a scalar of type `dtype` cannot hold the number. The message is the same as at a launch."""
    from dsl.runtime.dtypes import DTYPES, converter
    from dsl.runtime.errors import LaunchError

    if dtype not in DTYPES:  # a type parameter that no array has bound yet
        return
    try:
        converter(dtype, name)(value)
    except LaunchError as error:
        raise TileError(error.code, None, error.message, error.hint) from None


def described(value: Any) -> str:
    """Describes an argument in words, for messages."""
    if isinstance(value, ArrayFacts):
        return f"an array {value.dtype}{list(value.shape)}"
    return "nothing" if value is None else f"{value}"
