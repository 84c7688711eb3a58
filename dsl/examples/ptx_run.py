"""Makes arguments for a saved PTX text with a header: dims that the header accepts, and random arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

from dsl.lowering.ir.location import TileError
from dsl.values.host import MAX_BYTES

EXTENTS = (1024, 1000, 4096, 512, 256, 128, 64, 32, 16, 8, 1)
"""Extents to try for dims that are not given, until the kernel's requirements hold. The kernel's constants are also
tried."""
MAX_TRIALS = 20_000


def choose_dims(header: Any, values: Mapping[str, Any], sms: int) -> dict[str, int]:
    """Returns extents that meet all requirements of the kernel. Raises TileError `option` if none are found."""
    from dsl.runtime.expressions import ExpressionError, compile_expression

    scalars = {p.name: values.get(p.name, 1) for p in header.params if p.name not in header.dims}
    conditions = [compile_expression(require.expr) for require in header.requires]

    def holds(names: Mapping[str, Any]) -> bool:
        try:
            return all(condition.evaluate(names) for condition in conditions)
        except ExpressionError:
            return False

    for trial in _trials(header, values):
        if holds({**header.constants, **scalars, "sms": sms, **trial}):
            return trial
    texts = ", ".join(require.text for require in header.requires)
    missing = " ".join(f"{dim}=N" for dim in header.dims if dim not in values)
    known = " ".join(f"{dim}={values[dim]}" for dim in header.dims if dim in values)
    hint = f"give {missing}" if missing else f"it was not made for {known}" if known else None
    raise TileError("option", None, f"no dims found for {header.label}, which requires {texts}", hint)


def guessed_of(dims: Mapping[str, int], given: Mapping[str, Any]) -> dict[str, int]:
    """Returns the extents that the caller did not give, so that they were guessed."""
    return {name: extent for name, extent in dims.items() if name not in given}


def _trials(header: Any, values: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    constants = [v for v in header.constants.values() if isinstance(v, int) and not isinstance(v, bool) and v > 0]
    # A constant of the kernel is often a tile size that must divide a dim. An extent 8 below the constant gives rows
    # with a masked edge.
    extents = list(dict.fromkeys([*EXTENTS, *constants, *(v - 8 for v in constants if v > 8)]))
    choices = [[values[dim]] if dim in values else extents for dim in header.dims]
    # The number of combinations grows fast with the number of dims. 11 extents for four dims are 14,641 combinations.
    for count, chosen in enumerate(product(*choices)):
        if count >= MAX_TRIALS:
            return
        yield dict(zip(header.dims, chosen, strict=True))


def random_arguments(header: Any, dims: Mapping[str, int], values: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Makes random arguments by name, in the order of the parameters. Floats are normally distributed. Integers are
    from -8 to 7 (unsigned integers from 0 to 7)."""
    import numpy as np

    from dsl.lowering.ir.types import DTYPES
    from dsl.runtime.header import HeaderTensor, Scalar
    from dsl.values.element_types import fill

    random = np.random.default_rng(seed)

    def draw(dtype: str, shape: tuple[int, ...]) -> Any:
        if DTYPES[dtype].has_fractions:
            return fill(shape, DTYPES[dtype], random.standard_normal)
        # Integers are small, so that sums of products fit into 32 bits.
        low, high = (0, 2) if dtype == "i1" else (0, 8) if dtype[0] == "u" else (-8, 8)
        return fill(shape, DTYPES[dtype], lambda count: random.integers(low, high, count))

    shapes = {p.name: tuple(dims[d] if isinstance(d, str) else d for d in p.dims) for p in header.tensors}
    size = sum(prod(shapes[p.name]) * DTYPES[p.dtype].bytes for p in header.tensors)
    if size > MAX_BYTES:
        known = " ".join(f"{name}={extent}" for name, extent in dims.items())
        message = f"the arrays of {header.label} are larger than {MAX_BYTES >> 30} GiB"
        raise TileError("limit", None, message, f"give smaller dims than {known}" if known else None)
    out: dict[str, Any] = {}
    for param in header.params:
        if isinstance(param, HeaderTensor):
            shape = shapes.get(param.name, ())
            out[param.name] = draw(param.dtype, shape) if param.present else None
        elif isinstance(param, Scalar):
            out[param.name] = values.get(param.name, 1)
        else:
            out[param.name] = draw(param.dtype, (param.length,))
    return out
