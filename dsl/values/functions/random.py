"""Random numbers from the host's generator, and from Philox. Philox gives the same numbers on the host and in
kernels."""

from __future__ import annotations

from typing import Any

from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.types import DType
from dsl.values.facts import UNKNOWN, ArrayFacts
from dsl.values.host import Host, Shaped
from dsl.values.later import np, on_arrays
from dsl.values.table import rows

row = rows("Random numbers")


def like_the_first(domain: Any, loc: Loc, first: Any, *rest: Any, **more: Any) -> Any:
    """Returns facts about a result that has the type and the shape of the first argument."""
    return ArrayFacts(first.shape, first.dtype.name) if isinstance(first, Shaped) else UNKNOWN


def _uniform(host: Host, loc: Loc, given: Any) -> Any:
    if not isinstance(given, DType) and isinstance(given, np.ndarray | int):
        # As in kernels, `uniform(bits)` turns the upper 24 of 32 bits into a number in [0, 1). An f32 holds 24 bits
        # exactly.
        return on_arrays.either(host, "*", on_arrays.either(host, ">>", given, 8, loc), 2.0**-24, loc)
    return on_arrays.drawn(host, loc, given, "uniform", host.random.random)


def _philox(host: Host, loc: Loc, seed: Any, offset: Any) -> Any:
    """Computes Philox 4x32-10, with the same results as in kernels (library/philox-uniform.tile)."""
    key, counter = (v.astype(np.uint64) for v in on_arrays.together(host, loc, [seed, offset]))
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    k0, k1, c0, c1 = key & low, key >> half, counter & low, counter >> half
    c2 = c3 = np.zeros_like(c0)
    for _ in range(10):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = p1 >> half ^ c1 ^ k0, p1 & low, p0 >> half ^ c3 ^ k1, p0 & low
        k0, k1 = k0 + np.uint64(0x9E3779B9) & low, k1 + np.uint64(0xBB67AE85) & low
    return tuple(on_arrays.plain(c.astype(np.uint32)) for c in (c0, c1, c2, c3))


row("randn(T[…])", "normal, the same for each --seed", "floats", shapes=like_the_first,
    arrays=lambda host, loc, x: on_arrays.drawn(host, loc, x, "randn", host.random.standard_normal))  # fmt: skip
row("uniform(T[…])", "from 0 to below 1; in kernels `uniform(bits)` of u32, f32 with 24 bits", "floats",
    arrays=_uniform, shapes=like_the_first)  # fmt: skip
row("randint(T[…], low, high)", "integers from low to below high", "any", shapes=like_the_first,
    arrays=lambda host, loc, *given: on_arrays.integers_drawn(host, loc, *given))  # fmt: skip
row("philox(seed, offset)", "four u32 of Philox 4x32-10 with a 64-bit key and counter", "integers",
    arrays=_philox)  # fmt: skip
