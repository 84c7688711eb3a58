"""Queries about loads and stores of tiles in global memory: which values determine the address, and which MMAs use the
data."""

from __future__ import annotations

from math import prod

from dsl.lowering.hopper.boxes import CopiedBox
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import TensorType
from dsl.lowering.known.facts import Analysis
from dsl.lowering.ops import operand


def is_load(op: Op) -> bool:
    """Whether an operation loads a tile from global memory."""
    return op.spec.access.kind == "read" and isinstance(op.operands[0].type, TensorType) and bool(op.result.tile.shape)


def is_store(op: Op) -> bool:
    """Whether an operation stores a tile to global memory."""
    value = operand(op, "value") if op.spec.access.kind == "write" else None
    return value is not None and isinstance(op.operands[0].type, TensorType) and bool(value.tile.shape)


def is_reduction(op: Op) -> bool:
    """Whether an operation is an atomic of a tile and a tensor in global memory."""
    is_atomic = op.spec.access.kind == "update" and isinstance(op.operands[0].type, TensorType)
    return is_atomic and bool(op.result.tile.shape)


def place_of(load: Op) -> list[Value]:
    """Returns the values that determine which elements a load reads: offset, mask, and the corners of its TMA box."""
    box = CopiedBox.of(load).operands.values() if "box" in load.attrs else ()
    return [v for v in (*offset_and_mask(load), *box) if v is not None]


def offset_and_mask(load: Op) -> tuple[Value | None, Value | None]:
    return operand(load, "offset"), operand(load, "mask")


def row_bytes(facts: Analysis, load: Op) -> int:
    """Returns the number of contiguous bytes in a row of the loaded tile."""
    offset = operand(load, "offset")
    assert offset is not None
    return max(facts.of(offset).run) * load.result.dtype.bytes


def feeds_product(op: Op, users: dict[Value, list[Op]]) -> bool:
    """Whether an MMA reads the result of `op` as an operand, directly or through elementwise operations and changes of
    shape."""
    return bool(fed_products(op, users))


def fed_products(op: Op, users: dict[Value, list[Op]]) -> list[Op]:
    """Returns the MMAs that read the result of `op` as an operand, directly or through elementwise operations and
    changes of shape."""
    # A change of shape keeps the number of bits. A reduction or a broadcast changes it.
    todo, seen, found = list(op.results), set(op.results), list[Op]()
    while todo:
        value = todo.pop()
        for user in users.get(value, []):
            if is_operand(user, value):
                found.append(user)
            elif user.spec.pure and (user.spec.elementwise or any(bits(r) == bits(value) for r in user.results)):
                todo += [r for r in user.results if r not in seen]
                seen.update(user.results)
    return found


def is_operand(op: Op, value: Value) -> bool:
    """Whether a value is the left or right operand of an MMA."""
    return op.spec.product and value in op.operands[:2]


def adds_products(loop: Op) -> bool:
    """Whether a loop carries exactly the accumulators of the MMAs in its body, and nothing else."""
    body = loop.regions[0]
    sums = body.ops[-1].operands
    return bool(sums) and set(sums) == {op.result for op in body.ops if op.spec.product}


def bits(value: Value) -> int:
    return prod(value.tile.shape) * value.dtype.bits
