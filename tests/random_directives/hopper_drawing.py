"""A random kernel of Hopper of any kind."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.random_directives.drawing import Drawn
from tests.random_directives.hopper_beside import BesideDrawing
from tests.random_directives.hopper_chained import ChainedDrawing
from tests.random_directives.hopper_products import ProductDrawing
from tests.random_directives.hopper_windows import WindowDrawing


class HopperKernels(ProductDrawing, ChainedDrawing, WindowDrawing, BesideDrawing):
    """Draws the kernel of a seed."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.is_beside = Random(seed + 5_000_011).random() < 0.1  # by itself: other seeds draw what they drew before

    def drawn(self) -> Drawn:
        ways: list[Callable[[], Drawn]] = [
            *[self.warp_groups] * 4, *[self.attention] * 2, *[self.convolution] * 2, self.neighbours,
        ]  # fmt: skip
        way: Callable[[], Drawn] = self.pick(ways)
        return self.beside_one_another() if self.is_beside else way()
