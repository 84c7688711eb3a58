"""A random kernel of Hopper of any kind."""

from __future__ import annotations

from collections.abc import Callable

from tests.random_directives.drawing import Drawn
from tests.random_directives.hopper_chained import ChainedDrawing
from tests.random_directives.hopper_products import ProductDrawing
from tests.random_directives.hopper_windows import WindowDrawing


class HopperKernels(ProductDrawing, ChainedDrawing, WindowDrawing):
    """Draws the kernel of a seed."""

    def drawn(self) -> Drawn:
        ways: list[Callable[[], Drawn]] = [
            *[self.warp_groups] * 4, *[self.attention] * 2, *[self.convolution] * 2, self.neighbours,
        ]  # fmt: skip
        way: Callable[[], Drawn] = self.pick(ways)
        return way()
