"""What random kernels of Hopper have in common: types, extents that its instructions take, lines of their schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tests.random_directives.drawing import Array, Drawing, Drawn

ARRAYS: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "s8": np.int8, "u8": np.uint8, "e4m3": ml_dtypes.float8_e4m3fn,
    "f32": np.float32, "s32": np.int32,
}  # fmt: skip
SIZE = {"f16": 2, "bf16": 2, "s8": 1, "u8": 1, "e4m3": 1, "f32": 4, "s32": 4}
MEMORY = 200 * 1024
"""Bytes of shared memory that most drawn rings fit into."""


def sums_of(dtype: str) -> str:
    return "s32" if dtype in ("s8", "u8") else "f32"


def rounded(exact: Array, dtype: str) -> Array:
    """Whole numbers as an array of this type has them."""
    if dtype == "s8":
        return np.clip(exact, -128, 127).astype(np.int8)
    return exact.astype(np.float32 if dtype not in ("s32", "f32") else ARRAYS[dtype]).astype(ARRAYS[dtype])


@dataclass
class Named:
    """What lines of a schedule may name: see `HopperDrawing.lines`.

    loaded: the tensors that the loop loads; stored: those that are stored; nest: counters of the loops in one another;
    products: values that products make; bytes: of one stage; axes: of the grid.
    """

    loaded: list[str]
    stored: list[str]
    nest: tuple[str, ...]
    products: list[str]
    bytes: int
    axes: int


class HopperDrawing(Drawing):
    """Draws for sm_90a, where tiles mostly are such as its instructions take."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.beside: list[Array] = []

    def digits(self, shape: tuple[int, ...], dtype: str) -> Array:
        """Small whole numbers, which sums of any of the types hold."""
        return self.values.integers(0 if dtype == "u8" else -2, 3, shape).astype(ARRAYS[dtype])

    def rows(self, extent: int, dtype: str) -> int:
        """Mostly an extent of rows that begin at multiples of 16 bytes."""
        each = 16 // SIZE[dtype]
        return -(-extent // each) * each if self.chance(0.93) else extent

    def covered(self, tile: int, most: int = 3) -> int:
        """A dim that so many tiles of this extent cover."""
        tiles = self.random.randint(1, most)
        return self.pick([tile * tiles, tile * tiles, tile * tiles - self.random.randint(0, tile - 1)])

    def lines(self, named: Named) -> list[str]:
        """A schedule of a product, or of sums."""
        lines = [*self.operands(named, self.chance(0.8)), *self.iterations(named), *self.blocks(named)]
        if named.products and self.chance(0.03):
            lines.append(f"prefetch_fragments {named.nest[-1]}: {self.pick(['whole', 'early', 'late'])}")
        if self.chance(0.08):
            lines.append(self.pick(["blocks_per_sm 2", "maxnreg 128", "maxnreg 168"]))
        return [
            *lines,
            *self.chosen(
                ["issue.c: block", 'registers.roles: "none"', "chained_mma.acc: ahead", "chained_mma.acc: behind"]
            ),
        ]

    def chosen(self, options: list[str]) -> list[str]:
        """Now and then another option of one of the compiler's choices."""
        return [f"choose {self.pick(options)}"] if self.chance(0.05) else []

    def operands(self, named: Named, tma: bool) -> list[str]:
        """Where operands and results lie, and which instruction multiplies."""
        lines, staged = [], named.loaded
        if tma:
            lines.append(f"stage {', '.join(staged)}: tma")
        elif self.chance(0.5):
            staged = staged if self.chance(0.7) else [self.pick(staged)]
            lines.append(f"stage {', '.join(staged)}: {self.pick(['shared', 'shared', 'registers'])}")
        if named.products and self.chance(0.9):
            products = named.products if self.chance(0.9) else [self.pick(named.products)]
            lines.append(f"instruction {', '.join(products)}: wgmma")
        if self.chance(0.55):
            lines.append(f"stage {self.pick(named.stored)}: {self.pick(['tma', 'tma', 'shared'])}")
        return lines

    def iterations(self, named: Named) -> list[str]:
        """How loops go."""
        lines, nest = [], named.nest
        if self.chance(0.85):
            most = max(1, min(5, MEMORY // max(1, named.bytes)))
            stages = self.random.randint(1, most) if self.chance(0.95) else self.random.randint(1, 7)
            lines.append(f"pipeline {', '.join(nest[-1:] if self.chance(0.4) else nest)}: {stages}")
        if self.chance(0.2):
            lines.append(f"unroll {self.pick(nest)}: {self.pick([1, 2, 3, 4]) if self.chance(0.9) else 'all'}")
        if self.chance(0.08):
            lines.append(f"peel {self.pick(nest)}")
        return lines

    def blocks(self, named: Named) -> list[str]:
        """Which blocks do which tiles."""
        lines = []
        clustered = self.chance(0.3)
        if clustered:
            lines.append("cluster 2")
        persistent = self.chance(0.45)
        if persistent:
            lines.append(f"persistent {self.pick([1, 1, 2])}")
        if named.axes > 1 and self.chance(0.3):
            order = self.pick(["l2_group", "l2_group", "choose tile_columns.grid:"])
            lines.append(f"{order} {self.pick([1, 2, 4, 4, 8])}")
        if self.chance(0.1):
            lines.append(f"choose tile_order.grid: {self.pick(['ascending', 'descending'])}")
        if self.chance(0.03 if persistent else 0.3):
            parts = self.pick([1, 2, 3, 5, *([] if clustered else ["stream", "2, cluster", "3, cluster"])])
            lines.append(f"split {named.nest[0] if self.chance(0.9) else named.nest[-1]}: {parts}")
        return lines

    def of_kernel(
        self, text: list[str], warps: int, lines: list[str], args: dict[str, Any], wanted: dict[str, Array]
    ) -> Drawn:
        whole = "\n".join([*text, "", "schedule s of k:", f"    warps = {warps}", ""])
        drawn = Drawn(whole, args, wanted, [], [], lines)
        drawn.arch, drawn.sms, drawn.beside = "sm_90a", self.pick([1, 2, 3, 4, 132]), self.beside
        return drawn
