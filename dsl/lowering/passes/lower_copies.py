"""Replaces an asynchronous copy with a load and a store if `cp.async` cannot do it: fewer than 4 aligned bytes at a
time. Also lets each warp issue the TMA store of its own results."""

from __future__ import annotations

from dsl.lowering.hopper.boxes import pieces_of_warp
from dsl.lowering.ir.function import Function, Op, Rewriter, Value
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import TileType
from dsl.lowering.known.affine import AffineOffsets
from dsl.lowering.known.facts import facts_of
from dsl.lowering.ops import OPS, operand
from dsl.lowering.shared.access_width import ASYNC_BYTES, access_width


def lower_copies(function: Function) -> None:
    """Sets the attribute `bytes` of each copy that stays asynchronous. If the schedule contains `require async`, raises
    TileError `instruction` for any other copy."""
    lowering = _CopyLowering(function)
    function.body = lowering.block(function.body, lowering.visit)


class _CopyLowering(Rewriter):
    def __init__(self, function: Function):
        super().__init__()
        self.function = function
        self.analysis = facts_of(function)
        self.offsets = AffineOffsets()
        self.stored: dict[Value, Op] = {}
        """Maps a shared tile to the last store so far."""

    def visit(self, op: Op) -> bool:
        if op.spec.access.kind == "write":
            self.stored[op.operands[0]] = op
        if op.spec.leaves:
            self.by_warps(op)
        if not op.spec.in_flight:
            return False
        width = access_width(self.analysis, op)
        bytes = width * op.operands[0].dtype.bytes
        must = self.function.word("require") == "async"
        if bytes in ASYNC_BYTES and self.is_asynchronous(op, bytes, must):
            op.attrs["bytes"] = bytes
            return False
        if must:
            known = f"only {bytes} byte{'s' * (bytes > 1)} at a time are known to be aligned neighbours"
            hint = "make the row pitch a multiple of 4 bytes, or drop 'require async'"
            raise TileError("instruction", op.loc, f"{known}; an asynchronous copy takes 4, 8 or 16", hint)
        # This is not an error, only a slower kernel: rows of odd length are legal. With loads and stores in place of
        # `cp.async`, matrix products take 1.6 to 3.0 times as long (docs/measurements.md).
        self.synchronous(op)
        return True

    def by_warps(self, op: Op) -> None:
        """Lets each warp store its own results if these form a TMA box. No block barrier is needed then."""
        tensor, place, store = operand(op, "tensor"), operand(op, "place"), self.stored.get(op.operands[0])
        assert tensor is not None and place is not None
        made = operand(store, "offset") if store is not None and store in self.out.ops else None
        known = self.offsets.of(place)
        pieces = None
        if made is not None and known is not None and self.offsets.of(made) == known:
            pieces = pieces_of_warp(op, made)
        ways = {"block": None} if pieces is None else {"warp": pieces, "block": None}
        why = f"what a warp has made is {'no box' if pieces is None else 'a box, which waits for no other warp'}"
        rule, name = next(iter(ways)), tensor.name or "tensor"
        pieces = self.function.choices.choose("issue", name, ways, rule, loc=op.loc, because=why)
        if pieces is not None and made is not None:
            op.operands = [made if each is place else each for each in op.operands]
            op.attrs |= {"pieces": pieces, "by": "warp"}

    def is_asynchronous(self, op: Op, bytes: int, must: bool) -> bool:
        ways = {"async": True} if must else {"async": True, "load_store": False}
        why = f"{bytes} aligned bytes at a time" + " and 'require async'" * must
        return self.function.choices.choose("copy", f"{op.operands[0].name}", ways, "async", loc=op.loc, because=why)

    def synchronous(self, op: Op) -> None:
        tensor, source, mask = operand(op, "tensor"), operand(op, "source"), operand(op, "mask")
        offset, stage = operand(op, "offset"), operand(op, "stage")
        assert tensor is not None and source is not None and offset is not None
        type = TileType(source.tile.shape, tensor.dtype, source.tile.layout)
        operands: list[Value] = [tensor, source]
        has = ["memory", "offset"]
        if mask is not None:  # `cp.async` writes zeros where the mask is off, so the store must write zeros there too
            zero = Op(
                OPS["constant"], [], [TileType((), tensor.dtype)], {"value": 0, "dtype": tensor.dtype}, (), op.loc
            )
            fill = Op(OPS["broadcast"], [zero.result], [type], {"shape": type.shape}, (), op.loc)
            self.emit(zero)
            self.emit(fill)
            operands += [mask, fill.result]
            has += ["mask", "other"]
        load = self.emit(Op(OPS["load"], operands, [type], {"has": has, "cache": None, "evict": None}, (), op.loc))
        target = {"memory": op.operands[0], "stage": stage, "offset": offset, "value": load.result}
        kept = {k: v for k, v in target.items() if v is not None}
        attrs = {"has": list(kept), "cache": None, "evict": None}
        self.emit(Op(OPS["store"], list(kept.values()), [], attrs, (), op.loc))
