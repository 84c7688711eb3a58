"""The interface of array frameworks: reading an array and its stream, and making a similar array.

`probe` returns `(pointer, signature)`. The hashable signature determines all that `describe` returns, except the
pointer. So arrays with equal signatures differ only in their addresses, and a launch is checked only once for each
signature. A Reader probes all arrays of a call.

A `recogniser` is faster, because it only decides whether arrays have the signatures of the last call. If a recogniser
accepts the arrays, `pointer` reads their addresses. The recogniser and `pointer` take most of the time that a checked
launch adds to a bare launch."""

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
    """The Reader before the first call. This Reader always raises AttributeError, so that the caller chooses another
    Reader."""
    raise AttributeError("no reader yet")


def unrecognised(*arrays: Any) -> bool:
    """The Recogniser that recognises no arrays. It always returns False."""
    return False


def refuse(x: Any, why: str, hint: str | None = None) -> LaunchError:
    """The LaunchError `array` for an array that cannot be passed to a kernel. `why` completes the message."""
    return LaunchError("array", f"a {type(x).__module__}.{type(x).__qualname__} {why}", hint)


def dtype_name(x: Any, name: str) -> str:
    """Our name for the element type that the framework calls `name`. Raises LaunchError for an unknown type."""
    if name not in NAME_OF_NUMPY:
        raise refuse(x, f"of {name} cannot be passed to a kernel", f"the element types are {', '.join(DTYPES)}")
    return NAME_OF_NUMPY[name]


class Framework:
    """Base class of all frameworks. One instance of each subclass is made.

    `modules` are the modules of the framework's array types (`jax` stands for all of `jax.…`). `types` are the names of
    these types. If `closed` is true, other types of these modules are no arrays, even if they are derived from an array
    type. An example is numpy's masked array. A framework without type names has an `attribute`, which is the name of an
    attribute of all its arrays. `turn` is the order in which frameworks with an attribute are tried.

    If `foreign` is true, the framework ignores our stream. A launch with arrays of a foreign framework waits before the
    start (`settle`) and after the end. If `immutable` is true, arrays of the framework cannot be written. `reader` is a
    Reader only for arrays of this framework. `reader` is None if no Reader is faster than one `probe` for each
    array."""

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
        """A function that returns the address of a recognised array."""
        raise NotImplementedError

    def recogniser(self, arrays: Sequence[Any]) -> Recogniser:
        """A Recogniser for the class of these arrays. The result is `unrecognised` if the framework has no
        Recogniser."""
        return unrecognised

    def changed(self) -> Callable[[list[Any]], object] | None:
        """A function that reports written arrays to the framework. The result is None if the framework does not need
        the report."""
        return None

    def current_stream(self) -> Callable[[int], int]:
        """A function that returns the raw handle of a device's current stream. 0 is the legacy default stream."""
        return lambda device: 0

    def settle(self, x: Any) -> None:
        """Waits until the contents of `x` are ready. Only foreign frameworks need this."""

    def finish(self, made: Any) -> Any:
        """Turns `made` into an array of this framework. `made` is a result of `empty` that launches have written."""
        return made

    def clear(self, x: Any) -> None:
        """Zeroes an array made by `empty`. The array is zero before the next launch."""
        raise LaunchError("array", f"cannot zero a {type(x).__qualname__}")

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str) -> Any:
        raise LaunchError("array", f"cannot make an output like a {type(x).__qualname__}", "pass the output yourself")

    def lying(self, x: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        """A view of `x` with the given shape and strides in elements. `x` was made by `empty` with one axis."""
        raise NotImplementedError


def element_strides(x: Any, strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Converts strides in bytes to strides in elements. Raises LaunchError for a stride that is not a multiple of
    `itemsize`."""
    if any(stride % itemsize for stride in strides):
        raise refuse(x, f"with strides {tuple(strides)} that are no multiples of {itemsize} bytes cannot be passed")
    return tuple(stride // itemsize for stride in strides)
