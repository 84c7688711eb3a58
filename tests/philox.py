"""Philox 4x32-10 in Python's integers: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011."""

from __future__ import annotations


def philox(seed: int, offset: int) -> list[int]:
    """The four words of 32 bits for a key and a counter of 64 bits each."""
    c, k = [offset & 0xFFFFFFFF, offset >> 32, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return c
