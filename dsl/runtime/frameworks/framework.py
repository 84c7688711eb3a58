"""The base class of array frameworks. A framework describes its arrays, returns its current stream, and allocates
outputs.

`probe` returns `(pointer, signature)`. The hashable signature determines everything that `describe` returns, except the
pointer. So arrays with equal signatures differ only in their addresses, and a launch is fully checked only once for
each signature. A Reader does the work of `probe` for all arrays of a call.

The function that `recogniser` returns is faster. It only decides whether arrays have the same signatures as earlier
arrays. If they do, the function that `pointer` returns reads their addresses. These two functions take most of the time
that a checked launch adds to a bare launch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from dsl.runtime.arrays import Array
from dsl.runtime.dtypes import DTYPES, NAME_OF_NUMPY
from dsl.runtime.errors import LaunchError

Reader = Callable[[Sequence[Any], list[Any], list[Any]], None]
"""(arrays, pointers, signatures) → None. A Reader appends the pointer and the signature of each array to the two lists.
A Reader of one framework may raise AttributeError for arrays of another framework."""
Recogniser = Callable[..., bool]
"""(*arrays) → whether the arrays certainly belong to the recogniser's class. If the result is False, the arrays may
still belong to this class. A Recogniser may raise TypeError or AttributeError for arrays of other frameworks."""


def unread(arrays: Sequence[Any], pointers: list[Any], signatures: list[Any]) -> None:
    """The Reader that a kernel has before its first call. It always raises AttributeError, so that the kernel chooses
    another Reader."""
    raise AttributeError("no reader yet")


def unrecognised(*arrays: Any) -> bool:
    """The Recogniser that recognises no arrays. It always returns False."""
    return False


def refuse(x: Any, why: str, hint: str | None = None) -> LaunchError:
    """Returns the LaunchError `array` for an array that cannot be passed to a kernel. `why` is the end of the
    message."""
    return LaunchError("array", f"a {type(x).__module__}.{type(x).__qualname__} {why}", hint)


def dtype_name(x: Any, name: str) -> str:
    """Returns the name in DTYPES of a framework's element type: `float16` becomes `f16`. Raises LaunchError for an
    unknown type."""
    if name not in NAME_OF_NUMPY:
        raise refuse(x, f"of {name} cannot be passed to a kernel", f"the element types are {', '.join(DTYPES)}")
    return NAME_OF_NUMPY[name]


class Framework:
    """Base class of all array frameworks. `frameworks()` makes one instance of each subclass.

    `modules` are the top-level modules of the framework's array types, such as `jax`. `types` are the names of these
    types. If `closed` is true, no other type of these modules is an array, even if it is derived from an array type. An
    example is numpy's masked array. A framework without `types` has an `attribute`: every object with this attribute is
    one of its arrays. `turn` is the order in which frameworks with an attribute are tried.

    If `foreign` is true, the framework ignores the stream of a launch. So a launch with its arrays first calls
    `settle`, and waits for the device afterwards. If `immutable` is true, arrays of the framework cannot be written.
    `reader` is a fast Reader for arrays of this framework only. It is None if `probe` is as fast."""

    name = ""
    modules: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    closed = False
    attribute: str | None = None
    turn = 0
    foreign = False
    immutable = False
    reader: Reader | None = None

    def probe(self, x: Any) -> tuple[int, Hashable]:
        array = self.describe(x)
        return array.pointer, (self.name, array.shape, array.strides, array.dtype, array.device, array.readonly)

    def describe(self, x: Any) -> Array:
        raise NotImplementedError

    def pointer(self) -> Callable[[Any], int]:
        """Returns a function that returns the address of an array that a Recogniser has accepted."""
        raise NotImplementedError

    def recogniser(self, arrays: Sequence[Any]) -> Recogniser:
        """Returns a Recogniser for arrays with the same signatures as `arrays`. Returns `unrecognised` if the framework
        has no Recogniser."""
        return unrecognised

    def changed(self) -> Callable[[list[Any]], object] | None:
        """Returns a function that tells the framework which arrays a launch has written. Returns None if the framework
        does not need this information."""
        return None

    def current_stream(self) -> Callable[[int], int]:
        """Returns a function that returns the raw handle of a device's current stream. The handle 0 is the legacy
        default stream."""
        return lambda device: 0

    def settle(self, x: Any) -> None:
        """Waits until the contents of `x` are ready. Only foreign frameworks need this."""

    def finish(self, made: Any) -> Any:
        """Converts `made` to an array of this framework. `made` is a result of `empty`, to which launches have
        written."""
        return made

    def clear(self, x: Any) -> None:
        """Zeroes an array that `empty` has made. The next launch sees the zeros."""
        raise LaunchError("array", f"cannot zero a {type(x).__qualname__}")

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str) -> Any:
        raise LaunchError("array", f"cannot make an output like a {type(x).__qualname__}", "pass the output yourself")

    def lying(self, x: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        """Returns a view of `x` with the given shape and strides. Strides are in elements. `x` is an array with one
        axis that `empty` has made."""
        raise NotImplementedError


def element_strides(x: Any, strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Converts strides in bytes to strides in elements. Raises LaunchError for a stride that is not a multiple of
    `itemsize`."""
    if any(stride % itemsize for stride in strides):
        raise refuse(x, f"with strides {tuple(strides)} that are no multiples of {itemsize} bytes cannot be passed")
    return tuple(stride // itemsize for stride in strides)
