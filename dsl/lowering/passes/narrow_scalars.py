"""If a loaded scalar is needed only for scalar stores, only the thread that does these stores loads it."""

from __future__ import annotations

from dsl.lowering.ir.function import Function, Op, Value, subject_of, uses, walk
from dsl.lowering.ir.types import TileType
from dsl.lowering.ops import operand


def narrow_scalars(function: Function) -> None:
    """Sets the attribute `one_thread` on loads of scalars that are needed only for scalar stores. This saves traffic
    and avoids races with threads that do not need the value."""
    users = uses(function.body)
    # With barriers written by hand, no barrier orders the reads of the other threads. A load in all threads would be a
    # race.
    by_hand = function.word("barriers") == "manual"
    stored: dict[Value, bool] = {}

    def only_stored(value: Value) -> bool:
        """Whether a scalar is used only to compute values that scalar stores write."""
        if value not in stored:
            stored[value] = all(
                (_is_scalar_store(op) and operand(op, "value") is value and not value.tile.shape)
                or (op.spec.elementwise and op.spec.pure and not op.result.tile.shape and only_stored(op.result))
                for op in users.get(value, ())
            )
        return stored[value]

    for op in walk(function.body):
        is_scalar = op.spec.access.kind == "read" and isinstance(op.result.type, TileType) and not op.result.tile.shape
        if is_scalar and users.get(op.result) and only_stored(op.result):
            because = "only the thread that stores needs it"
            options = {"one": True, "all": False}
            unsafe = ("all",) if by_hand else ()
            if function.choices.choose(
                "scalar", subject_of(op), options, "one", loc=op.loc, because=because, unsafe=unsafe
            ):
                op.attrs["one_thread"] = True


def _is_scalar_store(op: Op) -> bool:
    offset = operand(op, "offset") if op.spec.access.kind == "write" else None
    return offset is not None and not offset.tile.shape
