"""Evaluates expressions on the host. In addition to walking the tree, it limits memory, draws random numbers and
describes arrays in messages."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.types import DType
from dsl.values.scope import Scope
from dsl.values.walk import Walk

if TYPE_CHECKING:
    import numpy as np

MAX_BYTES = 8 << 30
"""The limit for the total size of all arrays of one example, in bytes."""


class Shaped(Struct, frozen=True):
    """An element type with extents, as in `f32[rows, cols]`."""

    dtype: DType
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.dtype.bytes


class Host(Walk):
    """Evaluates expressions on numbers and arrays. `seed` initializes the random generator that randn, uniform and
    randint share."""

    domain = "arrays"
    runs_library = True
    operands = "numbers and arrays"

    def __init__(self, scope: Scope, seed: int = 0):
        super().__init__(scope)
        self.seed = seed
        self.live = 0  # bytes of the arrays that this host made and that still exist
        self.note_empty: Callable[[Any], None] = lambda array: None  # called with each array that `empty` makes

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
        """Raises TileError `limit` if allocating `size` more bytes would exceed MAX_BYTES."""
        if self.live + size > MAX_BYTES:
            have = f", with {self.live / 2**30:.1f} GiB in use" if self.live else ""
            self.error("limit", loc, f"this needs {size / 2**30:.1f} GiB{have}; the limit is {MAX_BYTES >> 30} GiB")

    def hold(self, array: np.ndarray) -> None:
        """Counts an array against MAX_BYTES until the array is freed."""
        size = array.nbytes
        self.live += size
        # A strong reference would keep the host and all its arrays alive until the last array is freed.
        owner = weakref.ref(self)

        def release() -> None:
            host = owner()
            if host is not None:
                host.live -= size

        # A view keeps its base array alive. The bytes are freed with the base.
        weakref.finalize(array if array.base is None else array.base, release).atexit = False
