"""Compares and converts Python and numpy numbers. The comparisons distinguish 0.0 from -0.0, and treat NaN as equal to
NaN."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import copysign, inf
from typing import Any

from dsl.runtime.recorded import refuse_recorded

NOT_FINITE = {name: float(name) for name in ("inf", "-inf", "nan")}
"""Word in a header → the number for which it stands. JSON lacks these numbers."""


def exact_key(value: Any) -> Hashable:
    """Returns a hashable key for a value. Two values have equal keys only if no program can distinguish them.

    Two numbers have equal keys if their types, values and signs are equal. Two NaNs of the same type have equal keys.
    Python's `==` is different: 1, 1.0 and True are equal, 0.0 equals -0.0, and NaN equals nothing.

    >>> exact_key(1) == exact_key(1.0), exact_key(0.0) == exact_key(-0.0), exact_key((1, 2)) == exact_key([1, 2])
    (False, False, True)
    """
    kind = type(value)
    if kind is float:
        return kind, value if value and value == value else repr(value)  # the texts of 0.0, -0.0 and NaN differ
    if kind is int or kind is bool or kind is str or value is None:
        return kind, value
    if isinstance(value, list | tuple):
        return tuple(map(exact_key, value))
    if isinstance(value, Mapping):
        return frozenset((name, exact_key(each)) for name, each in value.items())
    if isinstance(value, bool | int | float):
        return kind, exact_key(plain(value))
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return kind, exact_key(item_of(value))
    return kind, value if isinstance(value, Hashable) else id(value)  # not a number: the later conversion reports it


def same_number(a: Any, b: Any) -> bool:
    """Returns whether two numbers of any types have the same value. 0.0 differs from -0.0, and NaN equals NaN."""
    # NaN is the only value that differs from itself.
    return (a == b and copysign(1, a) == copysign(1, b)) or (a != a and b != b)


def plain(value: bool | int | float) -> bool | int | float:
    """Converts a number of a subclass of bool, int or float to a number of that base type."""
    kind = type(value)
    if kind is bool or kind is int or kind is float:
        return value
    return int(value) if isinstance(value, int) else float(value)


def is_masked(x: object) -> bool:
    """Returns whether `x` is a masked array of numpy, or an element of a masked array."""
    return any(base.__module__.startswith("numpy.ma") for base in type(x).__mro__)


def item_of(value: Any) -> Any:
    """Converts a numpy number or an array without axes to a Python number, and returns other values unchanged.

    Raises LaunchError for a tensor whose operations torch records, because the number would lose its gradient."""
    if not hasattr(value, "item") or getattr(value, "ndim", None) != 0 or is_masked(value):
        return value
    refuse_recorded(value)
    return value.item()


def as_float(value: Any) -> float | None:
    """Converts a Fraction, a Decimal or a similar number to a double. Returns None if `value` is not a number, or is
    too large for a double."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if found in (inf, -inf) and value != found else found


def in_json(value: Any) -> Any:
    """Converts a number or an expression tree to JSON. Infinities and NaN become the strings `inf`, `-inf` and
    `nan`."""
    if isinstance(value, list | tuple):
        return [in_json(each) for each in value]
    return str(value) if isinstance(value, float) and value - value != 0 else value
