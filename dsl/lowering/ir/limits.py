"""How many elements an index can count."""

from __future__ import annotations

SPARE = 1 << 21
"""The greatest SPARE values of the index type are not used for elements. SPARE is twice the greatest extent of a tile,
so that no edge of a slice overflows."""


def most_elements(index_bits: int) -> int:
    """Returns the greatest number of elements that an index of `index_bits` bits can count."""
    return (1 << index_bits - 1) - SPARE
