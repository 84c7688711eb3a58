"""The frameworks of arrays: one file for each, found by listing this folder; and the framework of an array.

torch, CuPy, JAX and numpy arrays are read by their own attributes; all others by `__cuda_array_interface__` or DLPack.
No framework is imported that the caller has not imported: types are recognised by the names of their modules.
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
    """One instance of each class in this folder's files; those that know their types by name come first."""
    found = []
    for file in iter_modules(__path__):
        members = vars(import_module(f"{__name__}.{file.name}")).values()
        found += [each() for each in members if isinstance(each, type) and issubclass(each, Framework) and each.name]
    # DLPack last: an export makes a capsule at each call.
    return tuple(sorted(found, key=lambda framework: framework.turn))


def find_framework(kind: type) -> Framework | None:
    """The framework of a type; None if it is no array."""
    # Types are few, and looking one up walks its bases.
    if kind not in _found:
        _found[kind] = _look_up(kind)
    return _found[kind]


def _look_up(kind: type) -> Framework | None:
    # By name: importing torch takes seconds.
    by_module = {module: framework for framework in frameworks() for module in framework.modules}
    for base in kind.__mro__:
        framework = by_module.get(base.__module__.partition(".")[0])
        if framework is not None and base.__name__ in framework.types:
            return framework
        # A masked array is derived from numpy's: its mask would be lost.
        if framework is not None and framework.closed:
            return None
    return next((f for f in frameworks() if f.attribute is not None and hasattr(kind, f.attribute)), None)


def framework_of(x: Any) -> Framework:
    """The framework of an array. Raises LaunchError `array` for anything else."""
    framework = find_framework(type(x))
    if framework is None:
        raise LaunchError("array", f"{named(x)} is no array that a kernel takes", way_out(x))
    return framework


def describe(x: Any) -> Array:
    """The Array of any supported array. Raises LaunchError `array` for anything else, or an array that cannot be
    passed."""
    return framework_of(x).describe(x)


def is_array(x: Any) -> bool:
    """Whether `describe` may take it (not a number or a list)."""
    return find_framework(type(x)) is not None


def finish_like(x: Any, made: Any) -> Any:
    """The result of `empty_like(x, …)`, written by launches, as an array of the framework of `x`."""
    return framework_of(x).finish(made)


def clear(x: Any) -> None:
    """Zeroes an array made by `empty_like`, before the next launch on the framework's stream."""
    framework_of(x).clear(x)


def empty_like(x: Any, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...] | None = None) -> Any:
    """A new uninitialised array of the framework and device of `x`, for an output that was not passed: row-major, or
    with these strides in elements.

    JAX arrays cannot be written: for them it is a stand-in until `finish_like`. Raises LaunchError `array` if none can
    be made (interface only)."""
    if strides is None:
        return framework_of(x).empty(x, tuple(shape), dtype)
    memory = framework_of(x).empty(x, (occupied(shape, strides),), dtype)
    return framework_of(memory).lying(memory, tuple(shape), strides)


def read_each(arrays: Sequence[Any], pointers: list[Any], signatures: list[Any]) -> None:
    """A Reader for arrays of any frameworks."""
    for x in arrays:
        pointer, signature = framework_of(x).probe(x)
        pointers.append(pointer)
        signatures.append(signature)


def reader_of(arrays: Sequence[Any]) -> Reader:
    """The fastest Reader for such arrays. Raises LaunchError `array` for anything else."""
    used = {framework_of(x) for x in arrays}
    own = used.pop().reader if len(used) == 1 else None
    return own or read_each


def named(x: Any) -> str:
    """An argument in words: its type, and its value if that is short."""
    kind = type(x)
    if kind.__module__ == "builtins":
        text = repr(x)
        return f"the {kind.__name__} {text}" if len(text) <= 40 else f"a {kind.__name__}"
    return f"a {kind.__module__}.{kind.__qualname__}"


def way_out(x: Any) -> str:
    """What to pass instead of something that is not an array."""
    if is_masked(x):
        return "kernels ignore masks: pass x.filled(value)"
    if hasattr(x, "__array__") and not hasattr(x, "item"):
        return "pass numpy.asarray(x)"
    if any(base.__module__.partition(".")[0] == "numpy" for base in type(x).__mro__) and hasattr(x, "shape"):
        return "pass numpy.asarray(x), and look at its shape and type"
    if isinstance(x, list | tuple):
        return "pass numpy.array(x, dtype)"
    return "pass an array of torch, CuPy, JAX or numpy"
