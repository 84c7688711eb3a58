"""Checks the attributes of a kernel's function: the values of schedule properties, and the results of passes."""

from __future__ import annotations

from typing import Any

from dsl.lowering.ops.kinds import COUNT, FLAG, TEXT, WHOLE, Reads, each_is


def _by_subject(reads: Reads) -> Reads:
    return lambda value: isinstance(value, dict) and all(map(reads, value.values()))


def _row(*kinds: Reads) -> Reads:
    """Returns a check for a tuple whose elements pass the checks `kinds`, in order."""

    def reads(value: Any) -> bool:
        return (
            isinstance(value, tuple)
            and len(value) == len(kinds)
            and all(each(part) for each, part in zip(kinds, value, strict=True))
        )

    return reads


def _extents(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(COUNT[0], value))


def _power(value: Any) -> bool:
    return COUNT[0](value) and not value & (value - 1)


COUNTS = (_by_subject(WHOLE[0]), "whole numbers by name: {x: 4}")
TEXTS = (_by_subject(TEXT[0]), 'texts by name: {x: "shared"}')
FLAGS = (_by_subject(FLAG[0]), "true or false by name: {x: true}")
ATTRIBUTES: dict[str, tuple[Reads, str]] = {
    **each_is(WHOLE, "blocks_per_sm l2_group maxnreg persistent producers shared_bytes"),
    **each_is(COUNTS, "align pipeline unroll"),
    **each_is(FLAG, "leads overlaps record strict_bounds"),
    **each_is(FLAGS, "backward follows pingpong"),
    **each_is(TEXT, "barriers contract marks require"),
    **each_is(TEXTS, "math precompute prefetch_fragments stage"),
    "cluster": (_row(COUNT[0], COUNT[0]), "blocks along two axes: (2, 1)"),
    "loop": (_by_subject(_row(WHOLE[0], COUNT[0], FLAG[0])), "by name (axis, elements, static): {x: (1, 16, false)}"),
    "subtile": (_by_subject(_extents), "extents by name: {x: (64, 64)}"),
    "peel": (_by_subject(lambda value: isinstance(value, int | str)), 'by name a number or "seen": {x: 1}'),
    "split": (_by_subject(lambda value: type(value) is int), "whole numbers by name, below 0 in clusters: {p: -4}"),
    "shared_align": (_power, "a power of two"),
}
"""Maps each attribute to a check and a description of the expected value."""
