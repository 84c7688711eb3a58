"""Copies that no `cp.async` can do (less than 4 aligned bytes at a time) become a load and a store."""

from __future__ import annotations

from lowering.access_width import ASYNC_BYTES, access_width
from lowering.facts import facts_of
from lowering.ir import Function, Op, Rewriter, Value
from lowering.location import TileError
from lowering.ops import OPS, operand
from lowering.types import TileType


def lower_copies(function: Function) -> None:
    """Sets `bytes` on each copy that stays asynchronous; `require async` in the schedule makes any other an error."""
    _CopyLowering(function).run()


class _CopyLowering(Rewriter):
    def __init__(self, function: Function):
        super().__init__()
        self.function = function
        self.analysis = facts_of(function)

    def run(self) -> None:
        self.function.body = self.block(self.function.body, self.visit)

    def visit(self, op: Op) -> bool:
        if not op.spec.in_flight:
            return False
        width = access_width(self.analysis, op)
        bytes = width * op.operands[0].dtype.bytes
        must = self.function.word("require") == "async"
        if bytes in ASYNC_BYTES and self.is_asynchronous(op, bytes, must):
            op.attrs["bytes"] = bytes
            return False
        if must:
            raise TileError(
                "instruction",
                op.loc,
                f"only {bytes} byte{'s' * (bytes > 1)} at a time are known to be aligned neighbours; "
                "an asynchronous copy takes 4, 8 or 16",
                "make the row pitch a multiple of 4 bytes, or drop 'require async'",
            )
        # A slower kernel rather than an error: rows of odd length are legal. Loads and stores in place of `cp.async`
        # make products 1.6 to 3.0 times as long (docs/measurements.md), so `require async` exists.
        self.synchronous(op)
        return True

    def is_asynchronous(self, op: Op, bytes: int, must: bool) -> bool:
        return self.function.choices.choose(
            "copy",
            f"{op.operands[0].name}",
            {"async": True} if must else {"async": True, "load_store": False},
            "async",
            loc=op.loc,
            because=f"{bytes} aligned bytes at a time" + " and 'require async'" * must,
        )

    def synchronous(self, op: Op) -> None:
        tensor, source, mask = operand(op, "tensor"), operand(op, "source"), operand(op, "mask")
        offset, slot = operand(op, "offset"), operand(op, "slot")
        assert tensor is not None and source is not None and offset is not None
        type = TileType(source.tile.shape, tensor.dtype, source.tile.layout)
        operands: list[Value] = [tensor, source]
        has = ["memory", "offset"]
        if mask is not None:
            zero = Op(
                OPS["constant"], [], [TileType((), tensor.dtype)], {"value": 0, "dtype": tensor.dtype}, (), op.loc
            )
            fill = Op(OPS["broadcast"], [zero.result], [type], {"shape": type.shape}, (), op.loc)
            self.emit(zero)
            self.emit(fill)
            operands += [mask, fill.result]
            has += ["mask", "other"]
        load = self.emit(Op(OPS["load"], operands, [type], {"has": has, "cache": None, "evict": None}, (), op.loc))
        target = {"memory": op.operands[0], "slot": slot, "offset": offset, "value": load.result}
        kept = {k: v for k, v in target.items() if v is not None}
        attrs = {"has": list(kept), "cache": None, "evict": None}
        self.emit(Op(OPS["store"], list(kept.values()), [], attrs, (), op.loc))
