"""Runs a saved PTX text with its header on random arrays: what it costs, without a check of its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

from dsl.examples.bounds import bound_of
from dsl.examples.one_kernel import LaunchSettings, run_kernel
from dsl.examples.overrides import parse_value
from dsl.examples.renewals import Renewals
from dsl.examples.report import Report
from dsl.examples.times import timed
from dsl.examples.transfers import on_device
from dsl.examples.work import counted_work
from dsl.lowering.ir.location import TileError, closest
from dsl.values.host import MAX_BYTES

EXTENTS = (1024, 1000, 4096, 512, 256, 128, 64, 32, 16, 8, 1)
"""Tried for dims that nobody gives, beside the constants of the kernel, until all that it requires holds."""
MAX_TRIALS = 20_000


def run_ptx(
    text: str, name: str, device: str, why: str, given: list[str], settings: LaunchSettings, entry: str | None = None
) -> Report:
    """Launches the entry once and measures it; `given` sets dims and scalars. Raises LaunchError or TileError."""
    from dsl.runtime import Kernel, device_facts

    ordinal = None if device == "emulator" else int(device.partition(":")[2] or 0)
    kernel = Kernel(text, entry, device)
    header = kernel.header
    facts = device_facts(device, header.arch)
    values = numbers(header, given)
    dims = choose_dims(header, values, facts.sms)
    report = Report(name, None, device, f"{facts.name}, {facts.arch}", why)
    arrays = random_arguments(header, dims, values, settings.seed)
    ordered = list((arrays if ordinal is None else on_device(arrays, ordinal)).values())
    renewals = Renewals([(kernel, ordered)], ordinal)
    launch = run_kernel(kernel, ordered, ordinal, settings)
    report.launches.append(launch)
    launch.dims, report.guessed = dims, guessed_of(dims, values)
    if ordinal is not None:
        report.bandwidth = facts.memory_bandwidth
        report.untimed = renewals.reason
        if not renewals.reason:
            report.times = timed(renewals.together(kernel.bind(*ordered)), ordinal)
            launch.time_us = report.times[1]
        if settings.bound_seconds is not None:
            work = counted_work(kernel, [*arrays.values()], launch.grid, facts, settings.bound_seconds)
            launch.bound = bound_of(work, facts, launch.time_us)
    return report


def numbers(header: Any, given: list[str]) -> dict[str, Any]:
    """The values of NAME=VALUE texts, whose names are dims or scalars of the kernel. Raises TileError `option`."""
    known = [*header.dims, *(p.name for p in header.params if type(p).__name__ == "Scalar")]
    out: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.removeprefix("dim.")
        if not equals:
            raise TileError("option", None, f"'{text}' is not NAME=VALUE")
        if name not in known:
            hint = closest(name, known) or f"known: {', '.join(known)}; constants of a PTX text are fixed"
            raise TileError("option", None, f"{header.label} has no dim or scalar '{name}'", hint)
        if name in out:
            raise TileError("option", None, f"'{name}' is given twice")
        out[name] = parse_value(value)
        if isinstance(out[name], str) or (name in header.dims and (type(out[name]) is not int or out[name] < 0)):
            raise TileError("option", None, f"'{text}': a dim is a count, a scalar a number")
    return out


def choose_dims(header: Any, values: Mapping[str, Any], sms: int) -> dict[str, int]:
    """Extents that meet all that the kernel requires. Raises TileError `option` when none is found."""
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
    """The extents that nobody gave."""
    return {name: extent for name, extent in dims.items() if name not in given}


def _trials(header: Any, values: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    constants = [v for v in header.constants.values() if isinstance(v, int) and not isinstance(v, bool) and v > 0]
    extents = list(dict.fromkeys([*EXTENTS, *constants, *(v - 8 for v in constants if v > 8)]))
    choices = [[values[dim]] if dim in values else extents for dim in header.dims]
    for count, chosen in enumerate(product(*choices)):
        if count >= MAX_TRIALS:
            return
        yield dict(zip(header.dims, chosen, strict=True))


def random_arguments(header: Any, dims: Mapping[str, int], values: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Normal floats, integers from -8 to 7 (0 to 7 unsigned), by name in the order of the parameters."""
    import numpy as np

    from dsl.lowering.ir.types import DTYPES
    from dsl.runtime.header import HeaderTensor, Scalar
    from dsl.values.element_types import fill

    random = np.random.default_rng(seed)

    def draw(dtype: str, shape: tuple[int, ...]) -> Any:
        if DTYPES[dtype].has_fractions:
            return fill(shape, DTYPES[dtype], random.standard_normal)
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
