"""Reference semantics of operations that make tiles without operands, and of operations that change shapes."""

from __future__ import annotations

import numpy as np

from dsl.lowering.ir.function import Op
from dsl.lowering.machine.formats import Array, held, number, spread
from dsl.lowering.meaning.run import Run, meaning


@meaning("constant")
def _constant(run: Run, op: Op, x: list[Array]) -> list[Array]:
    one = number(op.attrs["value"], op.attrs["dtype"], run.index_bits)
    shape = tuple(op.attrs.get("shape", ()))
    return [np.full(shape, one, held(op.attrs["dtype"], run.index_bits)) if shape else one]


@meaning("arange")
def _arange(run: Run, op: Op, x: list[Array]) -> list[Array]:
    return [np.arange(op.attrs["extent"], dtype=run.index)]


@meaning("broadcast")
def _broadcast(run: Run, op: Op, x: list[Array]) -> list[Array]:
    shape = tuple(op.attrs["shape"])
    return [spread(x[0], shape) if shape else x[0]]


@meaning("reshape")
def _reshape(run: Run, op: Op, x: list[Array]) -> list[Array]:
    shape = tuple(op.attrs["shape"])
    if run.joining and not shape:
        return [x[0]]  # in a reduction's function, scalars are arrays, for many elements at once
    return [np.reshape(x[0], shape)]


@meaning("transpose")
def _transpose(run: Run, op: Op, x: list[Array]) -> list[Array]:
    return [np.transpose(x[0], op.attrs["axes"])]


@meaning("stack")
def _stack(run: Run, op: Op, x: list[Array]) -> list[Array]:
    return [np.stack(x, -1)]


@meaning("pick")
def _pick(run: Run, op: Op, x: list[Array]) -> list[Array]:
    return [np.take(x[0], op.attrs["index"], op.attrs["axis"])]


@meaning("block_id", "grid_size")
def _of_grid(run: Run, op: Op, x: list[Array]) -> list[Array]:
    numbers = run.block if op.name == "block_id" else run.grid
    return [run.index.type(numbers[op.attrs["axis"]])]


@meaning("cluster_id")
def _cluster_id(run: Run, op: Op, x: list[Array]) -> list[Array]:
    return [run.index.type(run.block[0] // op.attrs["blocks"])]


@meaning("cluster_rank")
def _cluster_rank(run: Run, op: Op, x: list[Array]) -> list[Array]:
    return [run.index.type(run.block[0] // op.attrs["apart"] % op.attrs["blocks"])]
