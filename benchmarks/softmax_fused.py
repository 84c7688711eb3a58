"""Softmax after a scale and a mask, with or without dropout at the end, against torch's separate operations.

A part of benchmarks/softmax.py: `python3 benchmarks/softmax.py --fused`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import Call, Shape
from softmax_arrays import BOUNDS, checked_parts, numpy_type, sampled_error, torch_type

SAMPLE = Path(__file__).resolve().parent.parent / "samples" / "softmax_fused.tile"
SCALE, DROPPED, SEED = 0.125, 0.1, 20240913
KEPT = 0.9
"""Share of the elements that the mask keeps."""
SHARE_BOUND = 0.01
"""Largest difference between the share of dropped elements and the requested share."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation. `name` is its dispatch. The arguments are (y, x, keep, scale). With dropout, they are (out, y, x,
    keep, scale, p, seed)."""

    name: str
    dropout: bool

    def call(self, dtype: str) -> Call:
        return Call(self.name)

    @property
    def absent(self) -> tuple[None, ...]:
        """The arguments that are None. With dropout, the result y of the softmax itself is not requested."""
        return (None,) if self.dropout else ()

    @property
    def scalars(self) -> tuple[float | int, ...]:
        return (SCALE, DROPPED, SEED) if self.dropout else (SCALE,)

    def problem(self, shape: Shape, dtype: str) -> Problem:
        return Problem(self, shape, dtype)

    def host_arguments(self, shape: Shape, dtype: str) -> tuple[Any, ...]:
        random, extents = np.random.default_rng(0), (shape["rows"], shape["cols"])
        x = random.standard_normal(extents).astype(numpy_type(dtype))
        keep = (random.random(extents) < KEPT).astype(np.uint8)
        return (np.empty_like(x), *self.absent, x, keep, *self.scalars)


OPERATIONS = {
    operation.name: operation
    for operation in (Operation("scale_mask_softmax", False), Operation("scale_mask_softmax_dropout", True))
}


class Problem:
    """One operation at one shape. See harness.contest.Problem."""

    def __init__(self, operation: Operation, shape: Shape, dtype: str):
        import torch

        self.operation, self.shape, self.dtype = operation, shape, dtype
        self.name, self.call, self.bound = operation.name, operation.call(dtype), BOUNDS[dtype]
        self.x = torch.randn(shape["rows"], shape["cols"], device="cuda", dtype=torch_type(dtype))
        self.keep = torch.empty(self.x.shape, device="cuda", dtype=torch.uint8).bernoulli_(KEPT)
        self.out = torch.empty_like(self.x)
        self.arguments = (self.out, *operation.absent, self.x, self.keep, *operation.scalars)

    computes = 0

    @property
    def moves(self) -> int:
        return sum(array.numel() * array.element_size() for array in (self.out, self.x, self.keep))

    def reference(self, x: Any, keep: Any) -> Any:
        """The exact result without dropout, from float64 arrays."""
        return (x * SCALE).masked_fill(keep == 0, float("-inf")).softmax(1)

    def error(self, launch: Callable[[], object]) -> float:
        """The error of a launch. With dropout, two things are checked: the share of dropped elements, and the values of
        the remaining elements."""
        self.out.fill_(float("nan"))
        launch()
        if not self.operation.dropout:
            return sampled_error(self.out, (self.x, self.keep), self.reference, self.dtype)
        for part in checked_parts(len(self.out)):
            kept = self.keep[part] != 0
            dropped = float((self.out[part][kept] == 0).double().mean())
            if abs(dropped - DROPPED) > SHARE_BOUND:
                return float("inf")

        def survivors(x: Any, keep: Any, out: Any) -> Any:
            return (self.reference(x, keep) / (1 - DROPPED)).where(out != 0, 0.0)

        return sampled_error(self.out, (self.x, self.keep, self.out), survivors, self.dtype)


def torch_launch(problem: Problem) -> tuple[Callable[[], object], str]:
    """torch's operations one after another. The mask is converted to torch's form beforehand."""
    import torch

    x, out, hidden = problem.x, problem.out, problem.keep == 0

    def softmax() -> Any:
        return torch.softmax((x * SCALE).masked_fill_(hidden, float("-inf")), 1, out=out)

    def dropout() -> Any:
        return torch.nn.functional.dropout(softmax(), DROPPED, inplace=True)

    return (dropout if problem.operation.dropout else softmax), "unfused"


PEERS = {"torch": torch_launch}
