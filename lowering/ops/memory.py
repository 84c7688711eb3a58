"""Accesses to memory, and what orders them.

Operands: a tensor with a tile of element offsets; a shared tile with an optional slot and a tile of element offsets in
it; optional operands are named by the attribute `has`, in the order given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowering.ir import Op, Value
from lowering.ops.placing import Exchanging, Placed, Placing, alike, in_one, plain
from lowering.ops.spec import Effect, nothing, row
from lowering.types import SharedType, TableType, TensorType, TileType, Type


def space_of(memory: Value) -> str:
    return {TensorType: "global", SharedType: "shared", TableType: "param"}[type(memory.type)]  # type: ignore[index]


def operand(op: Op, name: str) -> Value | None:
    """The operand of a memory operation called `name` in its attribute `has`, or None."""
    names = op.attrs["has"]
    return op.operands[names.index(name)] if name in names else None


def _infer_load(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [TileType(operands[attrs["has"].index("offset")].shape, operands[0].dtype)]


def _infer_atomic(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [TileType(operands[attrs["has"].index("offset")].shape, operands[0].dtype)]


def _reads(op: Op) -> list[Effect]:
    return [Effect("read", op.operands[0], space_of(op.operands[0]))]


def _writes(op: Op) -> list[Effect]:
    return [Effect("write", op.operands[0], space_of(op.operands[0]))]


def _reads_and_writes(op: Op) -> list[Effect]:
    return _reads(op) + _writes(op)


ACQUIRES = ("acquire", "acq_rel")
RELEASES = ("release", "acq_rel")


def _atomic(op: Op) -> list[Effect]:
    """Its order says something to other blocks: not in shared memory, nor where its scope is the block."""
    memory, order = op.operands[0], op.attrs["order"]
    space = space_of(memory)
    out = _reads_and_writes(op)
    if space == "global" and op.attrs["scope"] != "block":
        out += [Effect("acquire", memory, space)] * (order in ACQUIRES)
        out += [Effect("release", memory, space)] * (order in RELEASES)
    return out


def _copies(op: Op) -> list[Effect]:
    shared, tensor = op.operands[0], op.operands[op.attrs["has"].index("tensor")]
    return [Effect("read", tensor, "global"), Effect("write", shared, "shared")]


def writes(op: Op) -> bool:
    """True if an operation writes memory."""
    return op.spec.effects is not None and any(e.kind == "write" for e in op.spec.effects(op))


def moved_by(op: Op) -> Value:
    """The tile that an access brings or takes."""
    value = op.results[0] if op.results else operand(op, "value")
    assert value is not None
    return value


def _place_access(a: Placing, op: Op) -> Placed:
    moved = moved_by(op)
    if moved in a.layouts:
        return in_one(op, a.widest(op, a.chosen(moved)))
    value = operand(op, "value")
    if value is None:
        return plain(a, op)
    return in_one(op, a.widest(op, a.chosen(value) or a.access_layout(op)) if value.tile.shape else None)


def _place_copy(a: Placing, op: Op) -> Placed:
    return [a.copy_layout(op)] * len(op.operands), []


def _exchange_load(a: Exchanging, op: Op) -> bool:
    """A volatile load of global memory that other blocks may write meanwhile: each thread could read another value."""
    changing = op.attrs["cache"] == "volatile" and space_of(op.operands[0]) == "global"
    return changing and a.share(op, one_thread=True)


ACCESS = {"spread": alike, "place": _place_access}

row(
    "load",
    (2, 5),
    _infer_load,
    "has cache evict",
    effects=_reads,
    accesses="read",
    under_mask="convex",
    exchange=_exchange_load,
    **ACCESS,
)
row("store", (3, 5), nothing, "has cache evict", effects=_writes, accesses="write", under_mask="convex", **ACCESS)
row("ldmatrix", (2, 3), _infer_load, "has trans", effects=_reads, joint=True)
row("stmatrix", (3, 4), nothing, "has trans", effects=_writes, joint=True)
row(
    "atomic", (3, 6), _infer_atomic, "has action order scope", effects=_atomic, accesses="update",
    exchange=lambda a, op: a.share(op), **ACCESS,
)  # fmt: skip
row(
    "copy", (4, 6), nothing, "has cache bytes", effects=_copies, place=_place_copy, in_flight=True,
    under_mask="falls",  # it reads some bytes, from the first on
)  # fmt: skip
row("shared_alloc", 0, lambda o, a: [a["type"]], "type name", keep=True, allocates=True)
row("commit", 0, nothing, keep=True, orders="group")
row("wait", 0, nothing, "groups", keep=True, orders="end")
row("barrier", 0, nothing, "scope", keep=True, joins_lanes=True, orders="threads")
