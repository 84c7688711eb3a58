"""Equality of numbers: which numbers a cache or a condition of a launch may take for each other."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import copysign, inf
from typing import Any

from dsl.runtime.recorded import refuse_recorded

NOT_FINITE = {name: float(name) for name in ("inf", "-inf", "nan")}
"""Numbers that JSON lacks, as a header writes them."""


def exact_key(value: Any) -> Hashable:
    """A hashable key, equal only for values that no program can tell apart: numbers of one type, value and sign, and
    NaNs of one type. In Python 1, 1.0 and True are equal, 0.0 and -0.0 are equal, and NaN equals nothing.

    >>> exact_key(1) == exact_key(1.0), exact_key(0.0) == exact_key(-0.0), exact_key((1, 2)) == exact_key([1, 2])
    (False, False, True)
    """
    kind = type(value)
    if kind is float:
        return kind, value if value and value == value else repr(value)  # 0.0, -0.0 and NaN by their texts
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
    return kind, value if isinstance(value, Hashable) else id(value)  # not a number: its user reports that


def same_number(a: Any, b: Any) -> bool:
    """Whether two numbers of any types have one value: zeros must have one sign, and NaN equals NaN."""
    # NaN is the only value that differs from itself.
    return (a == b and copysign(1, a) == copysign(1, b)) or (a != a and b != b)


def plain(value: bool | int | float) -> bool | int | float:
    """A number of a subclass of Python's types, as a number of the base type."""
    kind = type(value)
    if kind is bool or kind is int or kind is float:
        return value
    return int(value) if isinstance(value, int) else float(value)


def is_masked(x: object) -> bool:
    """True for numpy's masked arrays, and for their elements."""
    return any(base.__module__.startswith("numpy.ma") for base in type(x).__mro__)


def item_of(value: Any) -> Any:
    """The Python number of a numpy number or of an array without axes; other values unchanged. LaunchError for a tensor
    that a framework records: the number would lose its gradient."""
    if not hasattr(value, "item") or getattr(value, "ndim", None) != 0 or is_masked(value):
        return value
    refuse_recorded(value)
    return value.item()


def as_float(value: Any) -> float | None:
    """The double of a Fraction, a Decimal and the like; None if it is no number, or too large for a double."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if found in (inf, -inf) and value != found else found


def in_json(value: Any) -> Any:
    """A number, or a tree of a header, as JSON: numbers that are not finite become words."""
    if isinstance(value, list | tuple):
        return [in_json(each) for each in value]
    return str(value) if isinstance(value, float) and value - value != 0 else value
