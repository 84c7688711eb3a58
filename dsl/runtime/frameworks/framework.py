"""The interface of array frameworks: how to read an array, its stream, and how to make another like it.

`probe` returns `(pointer, signature)`; the hashable signature decides everything else that `describe` returns. Arrays
with equal signatures differ only in their addresses, so a launch is checked once for each signature. `read` does this
for all arrays of a call. A `recogniser` decides faster whether they have the last call's signatures, and `pointer`
reads their addresses: this is most of the time that a checked launch adds to a bare one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from dsl.runtime.arrays import Array
from dsl.runtime.dtypes import DTYPES, NAME_OF_NUMPY
from dsl.runtime.errors import LaunchError

Reader = Callable[[Sequence[Any], list[Any], list[Any]], None]
"""(arrays, pointers, signatures): appends to the lists. A reader for one framework raises AttributeError for arrays of
another."""
Recogniser = Callable[..., bool]
"""(*arrays) → whether they certainly belong to its class; False decides nothing. It may raise TypeError or
AttributeError for arrays of other frameworks."""


def unread(arrays: Sequence[Any], pointers: list[Any], signatures: list[Any]) -> None:
    """The Reader before the first arrays: it accepts none, so that one is chosen."""
    raise AttributeError("no reader yet")


def unrecognised(*arrays: Any) -> bool:
    """The Recogniser of a class without one."""
    return False


def refuse(x: Any, why: str, hint: str | None = None) -> LaunchError:
    """The LaunchError `array` for an array that cannot be passed."""
    return LaunchError("array", f"a {type(x).__module__}.{type(x).__qualname__} {why}", hint)


def dtype_name(x: Any, name: str) -> str:
    """Our name for the framework's element type `name`."""
    if name not in NAME_OF_NUMPY:
        raise refuse(x, f"of {name} cannot be passed to a kernel", f"the element types are {', '.join(DTYPES)}")
    return NAME_OF_NUMPY[name]


class Framework:
    """Base class; one instance of each subclass is made.

    modules, types: the modules of its array types (`jax` for all of `jax.…`), and the names of these types. closed:
    other types of these modules are no arrays, even if derived from one: numpy's masked arrays. attribute: instead of
    these, an attribute that all its arrays have. turn: the order in which frameworks with an attribute are tried.
    foreign: it ignores our stream: launches wait before (`settle`) and after. immutable: its arrays cannot be written.
    reader: a Reader for its arrays only, if there is a faster one than `probe` for each."""

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
        """A function from a recognised array to its address."""
        raise NotImplementedError

    def recogniser(self, arrays: Sequence[Any]) -> Recogniser:
        """A Recogniser of the class of these arrays, if the framework has a fast one."""
        return unrecognised

    def changed(self) -> Callable[[list[Any]], object] | None:
        """A function that reports written arrays to the framework; None if it need not know."""
        return None

    def current_stream(self) -> Callable[[int], int]:
        """A function from a device to the raw handle of its current stream; 0 is the legacy default stream."""
        return lambda device: 0

    def settle(self, x: Any) -> None:
        """Waits until the contents of `x` are ready (foreign frameworks only)."""

    def finish(self, made: Any) -> Any:
        """The result of `empty`, written by launches, as an array of this framework."""
        return made

    def clear(self, x: Any) -> None:
        """Zeroes an array made by `empty`, before the next launch."""
        raise LaunchError("array", f"cannot zero a {type(x).__qualname__}")

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str) -> Any:
        raise LaunchError("array", f"cannot make an output like a {type(x).__qualname__}", "pass the output yourself")

    def lying(self, x: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        """A view of `x`, which `empty` made with one axis; strides in elements."""
        raise NotImplementedError


def element_strides(x: Any, strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Byte strides as element strides. Raises LaunchError for strides within elements."""
    if any(stride % itemsize for stride in strides):
        raise refuse(x, f"with strides {tuple(strides)} that are no multiples of {itemsize} bytes cannot be passed")
    return tuple(stride // itemsize for stride in strides)
