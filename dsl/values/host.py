"""Additions to the walk for values on the host: counted memory, random numbers, words for messages."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.types import DType
from dsl.values.scope import Scope
from dsl.values.walk import Walk

if TYPE_CHECKING:
    import numpy as np

MAX_BYTES = 8 << 30
"""The most bytes of all arrays of one example together."""


@dataclass(frozen=True, slots=True)
class Shaped:
    """`f32[rows, cols]`: an element type with extents."""

    dtype: DType
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.dtype.bytes


class Host(Walk):
    """Numbers and arrays. seed: of randn, uniform and randint, which share one generator."""

    domain = "arrays"
    runs_library = True
    operands = "numbers and arrays"

    def __init__(self, scope: Scope, seed: int = 0):
        super().__init__(scope)
        self.seed = seed
        self.live = 0  # bytes of arrays that were made here and still exist
        self.note_empty: Callable[[Any], None] = lambda array: None  # called with each array that nothing has written

    @cached_property
    def random(self) -> np.random.Generator:
        import numpy as np

        return np.random.default_rng(self.seed)

    def describe(self, value: Any) -> str:
        if isinstance(value, Shaped):
            return f"the type {value}"
        if hasattr(value, "shape"):
            return f"an array of shape {list(value.shape)}"
        said = super().describe(value)
        return f"a {type(value).__name__}" if said == "this" else said

    def room(self, loc: Loc, size: int) -> None:
        """TileError unless `size` more bytes stay within the limit."""
        if self.live + size > MAX_BYTES:
            have = f", with {self.live / 2**30:.1f} GiB in use" if self.live else ""
            self.error("limit", loc, f"this needs {size / 2**30:.1f} GiB{have}; the limit is {MAX_BYTES >> 30} GiB")

    def hold(self, array: np.ndarray) -> None:
        """Counts an array against the limit until it is gone."""
        size = array.nbytes
        self.live += size
        # A strong reference would keep the host, and all its arrays, until the last of them is gone.
        owner = weakref.ref(self)

        def release() -> None:
            host = owner()
            if host is not None:
                host.live -= size

        # Views keep the base alive, not each other: the bytes are free when the base is.
        weakref.finalize(array if array.base is None else array.base, release).atexit = False
