"""The launch of a function of JAX: at once on arrays with memory. What JAX traces is launched by a foreign function of
XLA, or by a callback of the host."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

import jax
import numpy
from msgspec import Struct

from dsl import TileError
from dsl.calls.plan import Output
from dsl.jax.foreign import ForeignCall, foreign_call
from dsl.jax.library import FailedForeignCall, NoForeignCall
from dsl.operators.folding import check_rank, is_folded, not_mapped
from dsl.operators.spec import OperatorSpec
from dsl.runtime import finish_like
from dsl.runtime.dtypes import numpy_dtype
from dsl.runtime.numbers import item_of
from dsl.values.facts import UNKNOWN

_turn = Lock()
"""Held by each launch. XLA may run callbacks in several threads, and calls of one module share workspaces."""


def launched(
    spec: OperatorSpec, names: Sequence[str], plain: Mapping[str, Any], dim: str | None, asked: str | None
) -> Callable[..., tuple[Any, ...]]:
    """Returns the launch as a function of the inputs `names`: arrays, and numbers that JAX traces. `plain` holds the
    other inputs. `dim` is the dim into which `jax.vmap` folds its axis; without one, it launches once for each
    element. `asked` is the way that the user asks for, or None."""

    def staged(*operands: Any) -> tuple[Any, ...]:
        return by_way(spec, names, plain, operands, asked)

    traced = staged if dim is None else folding(spec, names, dim, staged)

    def launch(*operands: Any) -> tuple[Any, ...]:
        if asked == "ffi" or any(isinstance(x, jax.core.Tracer) for x in operands):
            return tuple(traced(*operands))
        return at_once(spec, {**plain, **dict(zip(names, operands, strict=True))})

    return launch


def at_once(spec: OperatorSpec, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Launches on arrays with memory. Outputs are made where the inputs are."""
    # A number that JAX traces for a gradient alone is an array without axes here.
    given = {name: x if spec.parameter(name).kind == "array" else item_of(x) for name, x in given.items()}
    arrays = [x for x in given.values() if isinstance(x, jax.Array)]
    jax.block_until_ready(arrays)  # a pending computation may wait for a callback, and that for its turn
    like = arrays[0]
    with _turn:
        results = spec.call(given, lambda output: output.empty_like(like))
    return tuple(finish_like(like, y) for y in results)


class JaxWay(Struct, frozen=True):
    """The way by which XLA launches a call: `ffi` or `callback`, and why it is not `ffi`."""

    name: str
    why: str = ""


def outputs_of(spec: OperatorSpec, plain: Mapping[str, Any], traced: Mapping[str, Any]) -> list[Output]:
    """Returns the outputs of a call that JAX traces. Raises the call's own errors."""
    shapes = {name: x if spec.parameter(name).kind == "array" else UNKNOWN for name, x in traced.items()}
    given = {**plain, **shapes}
    outputs = spec.made(given)
    with _turn:  # a mistake in a kernel is an error of the trace: that of a callback is buried in XLA's
        spec.traced(given, outputs)
    return outputs


def way_of(
    spec: OperatorSpec,
    plain: Mapping[str, Any],
    traced: Mapping[str, Any],
    outputs: Sequence[Output],
    asked: str | None,
) -> tuple[JaxWay, ForeignCall | None]:
    """Decides by which way XLA launches a call. Raises TileError if the user asks for another one."""
    if asked == "callback":
        return JaxWay("callback", "way='callback' asks for it"), None
    try:
        return JaxWay("ffi"), foreign_call(spec, plain, traced, outputs)
    except NoForeignCall as error:
        why, failed = str(error), isinstance(error, FailedForeignCall)
    if asked == "ffi":
        message = f"{spec.name} cannot be a foreign function of XLA: {why}"
        raise TileError("call", None, message, "way='callback', or no way=, goes through the host")
    if failed:  # the way through the host is slow, so a broken tool must not go unnoticed
        warnings.warn(f"{spec.name} goes through the host: {why}", RuntimeWarning, stacklevel=2)
    return JaxWay("callback", why), None


def by_way(
    spec: OperatorSpec, names: Sequence[str], plain: Mapping[str, Any], operands: Sequence[Any], asked: str | None
) -> tuple[Any, ...]:
    """Puts a launch into the computation that JAX traces."""
    traced = dict(zip(names, operands, strict=True))
    outputs = outputs_of(spec, plain, traced)
    _, call = way_of(spec, plain, traced, outputs, asked)

    def host(*operands: Any) -> tuple[Any, ...]:
        return by_callback(spec, names, plain, operands, outputs)

    if call is None:
        return host(*operands)

    def foreign(*operands: Any) -> tuple[Any, ...]:
        return call(dict(zip(names, operands, strict=True)))

    if asked == "ffi":
        return foreign(*operands)
    # Where it runs is known when JAX lowers it: a computation may be for the CPU on a machine with a GPU.
    return tuple(jax.lax.platform_dependent(*operands, default=host, **{call.platform: foreign}))


def by_callback(
    spec: OperatorSpec,
    names: Sequence[str],
    plain: Mapping[str, Any],
    operands: Sequence[Any],
    outputs: Sequence[Output],
) -> tuple[Any, ...]:
    """Puts a callback of the host into the computation that JAX traces. It gets copies of the arrays in the memory of
    the host."""
    results = tuple(jax.ShapeDtypeStruct(each.shape, numpy_dtype(each.dtype)) for each in outputs)

    def host(*operands: Any) -> tuple[Any, ...]:
        given = dict(plain)
        for name, x in zip(names, operands, strict=True):
            x = numpy.asarray(x, order="C")
            given[name] = x if spec.parameter(name).kind == "array" else x.item()
        made = tuple(numpy.empty(each.shape, each.dtype) for each in results)
        with _turn:
            spec.launch(given, made)
        return made

    return jax.pure_callback(host, results, *operands, vmap_method="sequential")


def folding(
    spec: OperatorSpec, names: Sequence[str], dim: str, staged: Callable[..., tuple[Any, ...]]
) -> Callable[..., tuple[Any, ...]]:
    """Returns the launch with a rule for `jax.vmap`, which folds its axis into `dim`, the first one of arrays."""
    mapped = jax.custom_batching.custom_vmap(staged)

    @mapped.def_vmap
    def folded(size: int, batched: Sequence[bool], *operands: Any) -> tuple[tuple[Any, ...], tuple[bool, ...]]:
        rows, flat = 0, []
        for name, is_batched, x in zip(names, batched, operands, strict=True):
            if is_folded(spec, name, dim):
                check_rank(spec, name, x.ndim - is_batched)
                x = x if is_batched else jax.numpy.broadcast_to(x, (size, *x.shape))
                rows = x.shape[1]
                x = x.reshape(size * rows, *x.shape[2:])
            elif is_batched:
                raise not_mapped(spec, name, dim, "an op without vmap= launches once for each element")
            flat.append(x)
        results = tuple(y.reshape(size, rows, *y.shape[1:]) for y in mapped(*flat))
        return results, (True,) * len(results)

    return mapped
