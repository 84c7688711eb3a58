"""The attributes of a kernel's function: the values of schedule properties, and the results of passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Reads = Callable[[Any], bool]


def _whole(least: int) -> Reads:
    return lambda value: type(value) is int and least <= value < 1 << 31


def _word(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _by_subject(reads: Reads) -> Reads:
    return lambda value: isinstance(value, dict) and all(map(reads, value.values()))


def _row(*kinds: Reads) -> Reads:
    """Returns a function that checks whether a value is a tuple. The elements must pass the checks `kinds`, in
    order."""

    def reads(value: Any) -> bool:
        return (
            isinstance(value, tuple)
            and len(value) == len(kinds)
            and all(each(part) for each, part in zip(kinds, value, strict=True))
        )

    return reads


def _extents(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(_whole(1), value))


def _power(value: Any) -> bool:
    return type(value) is int and 0 < value < 1 << 31 and not value & (value - 1)


NUMBER = (_whole(0), "a whole number from 0 on")
WORD, FLAG = (_word, "a text in quotes"), (_flag, "true or false")
COUNTS = (_by_subject(_whole(0)), "whole numbers by name: {x: 4}")
TEXTS = (_by_subject(_word), 'texts by name: {x: "shared"}')
FLAGS = (_by_subject(_flag), "true or false by name: {x: true}")
ATTRIBUTES: dict[str, tuple[Reads, str]] = {
    "align": COUNTS,
    "backward": FLAGS,
    "barriers": WORD,
    "blocks_per_sm": NUMBER,
    "cluster": (_row(_whole(1), _whole(1)), "blocks along two axes: (2, 1)"),
    "contract": WORD,
    "producers": NUMBER,
    "follows": FLAGS,
    "prefetch_fragments": TEXTS,
    "l2_group": NUMBER,
    "leads": FLAG,
    "loop": (_by_subject(_row(_whole(0), _whole(1), _flag)), "by name (axis, elements, static): {x: (1, 16, false)}"),
    "marks": WORD,
    "math": TEXTS,
    "maxnreg": NUMBER,
    "overlaps": FLAG,
    "subtile": (_by_subject(_extents), "extents by name: {x: (64, 64)}"),
    "peel": (_by_subject(lambda value: isinstance(value, int | str)), 'by name a number or "seen": {x: 1}'),
    "persistent": NUMBER,
    "pipeline": COUNTS,
    "record": FLAG,
    "require": WORD,
    "shared_align": (_power, "a power of two"),
    "shared_bytes": NUMBER,
    "split": COUNTS,
    "stage": TEXTS,
    "strict_bounds": FLAG,
    "precompute": TEXTS,
    "pingpong": FLAGS,
    "unroll": COUNTS,
}
"""Maps each attribute to a check and a description of the expected value."""
