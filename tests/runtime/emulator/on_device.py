"""A text without a header, launched on arrays on the emulator or on a GPU, whose results are those of the same PTX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dsl.runtime import device_facts
from dsl.runtime.foreign import ForeignKernel


def launched(
    text: str, arguments: Sequence[Any], device: str, grid: int = 1, block: int = 128, cluster: int = 1, seed: int = 0
) -> None:
    """Changes the arrays among the arguments, as the kernel does. Skips where a GPU is older than sm_90."""
    kernel, names = ForeignKernel(text), [f"argument {number}" for number in range(len(arguments))]
    shape = kernel.shape((grid, 1, 1), (block, 1, 1), (cluster, 1, 1))
    if device == "emulator":
        assert kernel.emulate(shape, arguments, names, seed=seed).result.notes == []
        return
    if device_facts("cuda").arch < "sm_90":
        pytest.skip("no bulk copies before sm_90")
    launch = kernel.load(shape, arguments, names, 0)
    launch()
    launch.copy_back()
