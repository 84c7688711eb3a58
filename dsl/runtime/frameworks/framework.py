"""What each array framework says: how to read an array, its stream, and how to make another like it.

`probe` gives `(pointer, signature)`, where the hashable signature decides everything else that `describe` says. Two
arrays with equal signatures differ in their addresses only, so a launch is checked once a signature. `read` does the
same for all arrays of a call, and a `recogniser` tells faster whether they are those of the last call but for their
addresses, which `pointer` reads: this is most of what a checked launch adds to a bare one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from dsl.runtime.arrays import Array
from dsl.runtime.dtypes import DTYPES, NAME_OF_NUMPY
from dsl.runtime.errors import LaunchError

Reader = Callable[[Sequence[Any], list[Any], list[Any]], None]
"""(arrays, pointers, signatures): appends to the lists. One that is made for one framework raises AttributeError for
arrays of another."""
Recogniser = Callable[..., bool]
"""(*arrays) → whether they are certainly of the class that it was made for; False is no statement. It may raise
TypeError or AttributeError for arrays of other frameworks."""


def unread(arrays: Sequence[Any], pointers: list[Any], signatures: list[Any]) -> None:
    """The Reader before the first arrays: it takes none, so that one is chosen."""
    raise AttributeError("no reader yet")


def unrecognised(*arrays: Any) -> bool:
    """The Recogniser of a class that has none."""
    return False


def refuse(x: Any, why: str, hint: str | None = None) -> LaunchError:
    """The LaunchError `array` for an array that cannot be passed."""
    return LaunchError("array", f"a {type(x).__module__}.{type(x).__qualname__} {why}", hint)


def dtype_name(x: Any, name: str) -> str:
    """Our name of the element type that the framework calls `name`."""
    if name not in NAME_OF_NUMPY:
        raise refuse(x, f"of {name} cannot be passed to a kernel", f"the element types are {', '.join(DTYPES)}")
    return NAME_OF_NUMPY[name]


class Framework:
    """Base; one instance of each class is made.

    modules, types: where its arrays' types are defined (`jax` for all of `jax.…`), and their names. closed: a type of
    these modules with another name is no array, even if it is derived from one: numpy's arrays with masks.
    attribute: in place of them, what all its arrays have. turn: those that go by an attribute are asked in this order.
    foreign: it knows nothing of our stream: launches wait before (`settle`) and after.
    immutable: its arrays cannot be written.
    reader: a Reader for its arrays alone, where there is a quicker one than `probe` for each.
    """

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
        """A function from an array that is recognised to its address."""
        raise NotImplementedError

    def recogniser(self, arrays: Sequence[Any]) -> Recogniser:
        """A Recogniser of the class of these arrays, where the framework has a quick one."""
        return unrecognised

    def changed(self) -> Callable[[list[Any]], object] | None:
        """A function that tells the framework which arrays were written; None where it need not know."""
        return None

    def current_stream(self) -> Callable[[int], int]:
        """A function from a device to the raw handle of its current stream; 0 is the legacy default stream."""
        return lambda device: 0

    def settle(self, x: Any) -> None:
        """Waits until the contents of `x` are there (foreign frameworks only)."""

    def finish(self, made: Any) -> Any:
        """What `empty` made, written by launches, as an array of this framework."""
        return made

    def clear(self, x: Any) -> None:
        """Zeroes an array that `empty` has made, before what is launched next."""
        raise LaunchError("array", f"cannot zero a {type(x).__qualname__}")

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str) -> Any:
        raise LaunchError("array", f"cannot make an output like a {type(x).__qualname__}", "pass the output yourself")

    def lying(self, x: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        """A view of `x`, which `empty` made with one axis; strides in elements."""
        raise NotImplementedError


def element_strides(x: Any, strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Byte strides → element strides."""
    if any(stride % itemsize for stride in strides):
        raise refuse(x, f"with strides {tuple(strides)} that are no multiples of {itemsize} bytes cannot be passed")
    return tuple(stride // itemsize for stride in strides)
