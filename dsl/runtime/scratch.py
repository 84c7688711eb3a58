"""Makes workspaces in host memory, for launches on the emulator. The launches of a call share these workspaces. Some
workspaces must contain zeros at the end of the call."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dsl.runtime.arrays import occupied
from dsl.runtime.emulator.findings import Finding, Kind, Location
from dsl.runtime.emulator.scratch import Scratch
from dsl.runtime.errors import FindingError


class ScratchArray(np.ndarray):
    """A workspace as a numpy array. `scratch` is the state that the emulator keeps for the workspace between the
    launches of a call."""

    scratch: Scratch

    def check_zero(self, name: str, text: str, location: Location | None) -> None:
        """Raises FindingError if an element is not zero.

        `text` is the declaration of the workspace, and `location` is the location of the declaration."""
        values = self.view(np.ndarray).reshape(-1)
        # bf16 and 8-bit floats may be fields of a structure, which numpy cannot compare with 0.
        if values.dtype.names:
            values = values[values.dtype.names[0]]
        found = np.flatnonzero(values)
        if not len(found):
            return
        first = int(found[0])
        index = ", ".join(map(str, np.unravel_index(first, self.shape)))
        left = self.scratch.left
        known = left if left is not None and left.byte // self.itemsize == first else None
        finding = Finding(
            Kind.NOT_ZERO,
            f"after the call {name}[{index}] of {text} is {values[first]}: each call must leave zeros for the next, or "
            "the workspace be one that each call zeroes first: workspace(…, zeroed)",
            location=location if known is None or known.location is None else known.location,
            ptx_line=None if known is None else known.ptx_line,
            last_writer=None if known is None else f"written by {known.writer}",
        )
        raise FindingError(str(finding), finding)


def make_scratch(
    shape: tuple[int, ...],
    dtype: Any,
    must_be_zero: bool,
    is_zeroed: bool | None = None,
    strides: tuple[int, ...] | None = None,
) -> ScratchArray:
    """Makes a workspace in host memory. The workspace is row-major, or has the given strides in elements.

    If `must_be_zero` is true, each call must leave zeros in the workspace. If `is_zeroed` is true, the new workspace
    contains zeros, and each call starts with zeros. By default, `is_zeroed` equals `must_be_zero`."""
    is_zeroed = must_be_zero if is_zeroed is None else is_zeroed
    count = prod(shape) if strides is None else occupied(shape, strides)
    memory = (np.zeros if is_zeroed else np.empty)(count, dtype)
    elements = None
    if strides is None:
        made = memory.reshape(shape).view(ScratchArray)
    else:
        steps = [step * memory.itemsize for step in strides]
        made = as_strided(memory, shape, steps).view(ScratchArray)
        # Bytes between strided elements are unused and are not checked.
        elements = np.zeros(memory.nbytes, bool)
        as_strided(elements, (*shape, memory.itemsize), (*steps, 1))[...] = True
    made.scratch = Scratch(memory.nbytes, must_be_zero, is_zeroed=is_zeroed, elements=elements)
    return made
