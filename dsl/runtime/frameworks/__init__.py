"""Finds the framework of an array, such as torch or numpy. Each framework has a file in this folder.

Arrays of torch, CuPy, JAX and numpy are read through their own attributes. All other arrays are read through
`__cuda_array_interface__` or DLPack. An array type is recognised by the name of its module. So this package imports no
framework that the caller has not imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from dsl.runtime.arrays import Array, occupied
from dsl.runtime.errors import LaunchError
from dsl.runtime.frameworks.framework import Framework as Framework
from dsl.runtime.frameworks.framework import Reader as Reader
from dsl.runtime.frameworks.framework import Recogniser as Recogniser
from dsl.runtime.frameworks.framework import unread as unread
from dsl.runtime.frameworks.framework import unrecognised as unrecognised
from dsl.runtime.numbers import is_masked

_found: dict[type, Framework | None] = {}


@cache
def frameworks() -> tuple[Framework, ...]:
    """Returns one instance of each framework class in the files of this folder. Frameworks that recognise array types
    by name come first."""
    found = []
    for file in iter_modules(__path__):
        members = vars(import_module(f"{__name__}.{file.name}")).values()
        found += [each() for each in members if isinstance(each, type) and issubclass(each, Framework) and each.name]
    # DLPack comes last, because each export makes a capsule.
    return tuple(sorted(found, key=lambda framework: framework.turn))


def find_framework(kind: type) -> Framework | None:
    """Returns the framework of an array type, or None if `kind` is not an array type."""
    # Results are kept, because there are few types, and a look-up walks the bases of a type.
    if kind not in _found:
        _found[kind] = _look_up(kind)
    return _found[kind]


def _look_up(kind: type) -> Framework | None:
    # Types are compared by name, because importing torch takes seconds.
    by_module = {module: framework for framework in frameworks() for module in framework.modules}
    for base in kind.__mro__:
        framework = by_module.get(base.__module__.partition(".")[0])
        if framework is not None and base.__name__ in framework.types:
            return framework
        # A masked array is derived from a numpy array, but its mask would be lost.
        if framework is not None and framework.closed:
            return None
    return next((f for f in frameworks() if f.attribute is not None and hasattr(kind, f.attribute)), None)


def framework_of(x: Any) -> Framework:
    """Returns the framework of an array. Raises LaunchError `array` if `x` is not an array."""
    framework = find_framework(type(x))
    if framework is None:
        raise LaunchError("array", f"{named(x)} is no array that a kernel takes", way_out(x))
    return framework


def describe(x: Any) -> Array:
    """Returns an Array that describes `x`, an array of any supported framework. Raises LaunchError `array` if `x` is
    not an array, or cannot be passed to a kernel."""
    return framework_of(x).describe(x)


def is_array(x: Any) -> bool:
    """Returns whether the type of `x` is an array type that `describe` accepts. Numbers and lists are not arrays."""
    return find_framework(type(x)) is not None


def finish_like(x: Any, made: Any) -> Any:
    """Converts `made` to an array of the framework of `x`. `made` is a result of `empty_like(x, …)`, to which launches
    have written."""
    return framework_of(x).finish(made)


def clear(x: Any) -> None:
    """Zeroes an array that `empty_like` has made. The next launch on the framework's stream sees the zeros."""
    framework_of(x).clear(x)


def empty_like(x: Any, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...] | None = None) -> Any:
    """Makes an uninitialised array of the framework of `x` on the device of `x`, for an output that was not passed.

    The array is row-major, or has the given strides in elements. JAX arrays cannot be written. So for JAX, the result
    is a DeviceArray or a numpy array, which `finish_like` converts to a JAX array. Raises LaunchError `array` if `x` is
    supported only through `__cuda_array_interface__` or DLPack."""
    if strides is None:
        return framework_of(x).empty(x, tuple(shape), dtype)
    memory = framework_of(x).empty(x, (occupied(shape, strides),), dtype)
    return framework_of(memory).lying(memory, tuple(shape), strides)


def read_each(arrays: Sequence[Any], pointers: list[Any], signatures: list[Any]) -> None:
    """A Reader (see `framework.py`) for arrays of any mixture of frameworks."""
    for x in arrays:
        pointer, signature = framework_of(x).probe(x)
        pointers.append(pointer)
        signatures.append(signature)


def reader_of(arrays: Sequence[Any]) -> Reader:
    """Returns the fastest Reader for the frameworks of these arrays. Raises LaunchError `array` if an object is not an
    array."""
    used = {framework_of(x) for x in arrays}
    own = used.pop().reader if len(used) == 1 else None
    return own or read_each


def named(x: Any) -> str:
    """Describes an argument for messages, such as `the int 3` or `a fractions.Fraction`."""
    kind = type(x)
    if kind.__module__ == "builtins":
        text = repr(x)
        return f"the {kind.__name__} {text}" if len(text) <= 40 else f"a {kind.__name__}"
    return f"a {kind.__module__}.{kind.__qualname__}"


def way_out(x: Any) -> str:
    """Returns a hint that tells the user what to pass instead of `x`, which is not an array."""
    if is_masked(x):
        return "kernels ignore masks: pass x.filled(value)"
    if hasattr(x, "__array__") and not hasattr(x, "item"):
        return "pass numpy.asarray(x)"
    if any(base.__module__.partition(".")[0] == "numpy" for base in type(x).__mro__) and hasattr(x, "shape"):
        return "pass numpy.asarray(x), and look at its shape and type"
    if isinstance(x, list | tuple):
        return "pass numpy.array(x, dtype)"
    return "pass an array of torch, CuPy, JAX or numpy"
