"""Builds operations: infers types, folds constants and reuses equal operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

from dsl.lowering.ir.budget import Budget
from dsl.lowering.ir.function import Block, Op, Value, blocks_of, uses
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.nesting import MAX_REGIONS
from dsl.lowering.ir.types import INDEX, DType, TileType
from dsl.lowering.known.facts import Analysis
from dsl.lowering.ops import OPS, Mismatch


def attribute_key(attrs: dict[str, Any]) -> tuple:
    """Returns the attributes as a hashable key. Floats are replaced by their `repr`, because 0.0 == -0.0, but the two
    are different attributes."""

    if not attrs:
        return ()
    return tuple(
        [
            (k, tuple(v) if isinstance(v, list) else repr(v) if isinstance(v, float) else v, type(v))
            for k, v in attrs.items()
        ]
    )


def made_as(op: Op) -> tuple:
    """Returns a key of name, operand count and attributes. Equal operations have equal keys."""
    return op.name, len(op.operands), attribute_key(op.attrs)


def equal(a: Value, b: Value) -> bool:
    """Whether two values are the same object, or are computed by equal pure operations from equal operands."""
    todo, seen = [(a, b)], set[tuple[Value, Value]]()
    while todo:
        pair = todo.pop()
        if pair[0] is pair[1] or pair in seen:  # several paths may lead to one pair
            continue
        seen.add(pair)
        one, other = (value.op for value in pair)
        if one is None or other is None or not one.spec.pure or made_as(one) != made_as(other):
            return False
        if pair[0].type != pair[1].type:
            return False
        todo += zip(one.operands, other.operands, strict=True)
    return True


MAX_TILE = 1 << 20
"""Maximum number of elements of a tile in registers."""
COPIED = 6
"""The binary logarithm of the number of table entries whose copying counts as one step of the budget. It takes about
the time of a step."""


class Builder:
    """Appends operations to `block`. If an equal pure operation already exists in the block or an enclosing block, the
    builder reuses its result.

    If `facts` is given, the builder also folds operations whose result follows from known ranges and divisors.
    """

    def __init__(self, loc: Loc, facts: Analysis | None = None):
        self.block = self.outermost = Block()
        self.place: tuple[Loc, Loc | None] = loc, None  # the locations of the next operations and of their call
        self.facts = facts
        self.budget = Budget()
        self._shared: list[dict[tuple, Value]] = [{}]  # for each open region, the values that it can reuse
        self._spare: list[tuple[Op, list[Op]]] = []  # operations that may be unused, each with more to remove

    @property
    def loc(self) -> Loc:
        loc, caller = self.place
        return loc.under(caller)

    @property
    def depth(self) -> int:
        """The nesting depth of the current region: 1 in the function's own block."""
        return len(self._shared)

    @contextmanager
    def region(self, block: Block) -> Iterator[Block]:
        """A context manager that appends new operations to `block`. Raises TileError `limit` if regions are nested too
        deeply."""
        if self.depth > MAX_REGIONS:
            message = f"branches and loops are nested more than {MAX_REGIONS} deep, functions inlined"
            raise TileError("limit", self.loc, message, "one 'if' can test several conditions with 'and'")
        outer, self.block = self.block, block
        # Each nested region copies the table of reusable values, so the copy counts against the budget.
        self.budget.spend_steps(len(self._shared[-1]) >> COPIED, *self.place)
        self._shared.append(dict(self._shared[-1]))
        try:
            yield block
        finally:
            self.block = outer
            self._shared.pop()

    @contextmanager
    def at_top(self) -> Iterator[None]:
        """A context manager that appends new operations to the function's outermost block, before the loop or branch
        that is being built."""
        inner, self.block = self.block, self.outermost
        try:
            yield
        finally:
            self.block = inner

    def op(self, name: str, operands: Sequence[Value] = (), regions: Sequence[Block] = (), /, **attrs: Any) -> Op:
        """Appends a new operation. Raises TileError `type` if the operation does not accept these operands."""
        spec = OPS[name]
        try:
            types = spec.infer(operands, attrs)
        except Mismatch as mismatch:
            raise TileError("type", self.loc, f"'{spec.symbol or name}': {mismatch}", mismatch.hint) from None
        self.budget.spend_operations(1, *self.place)
        made = Op(spec, operands, types, attrs, regions, self.loc)
        self.block.ops.append(made)
        return made

    def access(self, name: str, operands: Mapping[str, Value | None], /, **attrs: Any) -> Op:
        """Appends an operation with named operands. The attribute `has` lists the names of the operands. Operands that
        are None are omitted."""
        given = {name: value for name, value in operands.items() if value is not None}
        return self.op(name, list(given.values()), has=list(given), **attrs)

    def value(self, name: str, /, *operands: Value, **attrs: Any) -> Value:
        """Returns the result of a pure operation, which is folded, reused or appended."""
        key = (name, operands, attribute_key(attrs))
        known = self._shared[-1].get(key)
        if known is None:
            fold = OPS[name].algebra.fold
            known = fold(self, operands, attrs) if fold is not None else None
            if known is None:
                known = self.op(name, operands, **attrs).result
            self._shared[-1][key] = known
        return known

    def own(self, value: Value) -> Value:
        """Returns a value that equals `value` and is used nowhere else: `value` itself if it was just built, otherwise
        a copy."""
        op = value.op
        if op is None or not op.spec.pure:
            return value
        last = self.block.ops[-1] if self.block.ops else None
        # Only the last operation has no use yet. An operation whose result has a name must stay with that name.
        if op is not last or value.name is not None:
            self.spare(op)
            copy = self.op(op.name, op.operands, **op.attrs)
            return copy.results[op.results.index(value)]
        key = (op.name, tuple(op.operands), attribute_key(op.attrs))
        if self._shared[-1].get(key) is value:
            del self._shared[-1][key]
        return value

    def spare(self, op: Op, others: Sequence[Op] = ()) -> None:
        """Allows `leave_out_unused` to remove `op` and `others` if nothing uses the results of `op`."""
        self._spare.append((op, list(others)))

    def leave_out_unused(self, body: Block) -> set[Op]:
        """Removes the unused operations that were passed to `spare`, and returns them.

        For example, `p, q = dot(x, y), dot(x, z)` builds both products before it names them. `own` therefore copies
        both. Without the removal, schedule directives would find four products. If a `def` only stores to a memory
        slice, the load of the slice is also removed.
        """
        users, gone = uses(body), set[Op]()
        for op, others in reversed(self._spare):
            if all(user in gone for result in op.results for user in users.get(result, ())):
                gone |= {op, *others}
        for block in blocks_of(body) if gone else ():
            block.ops = [op for op in block.ops if op not in gone]
        return gone

    def constant(self, value: int | float | bool, dtype: DType, shape: tuple[int, ...] = ()) -> Value:
        # The type is part of the key, because True == 1 == 1.0 in Python.
        key = (dtype, type(value), repr(value) if type(value) is float else value)
        known = self._shared[-1].get(key)
        if known is None:
            known = self._shared[-1][key] = self.op("constant", value=value, dtype=dtype).result
        return self.broadcast(known, shape) if shape else known

    def index(self, value: int) -> Value:
        return self.constant(value, INDEX)

    def broadcast(self, value: Value, shape: tuple[int, ...]) -> Value:
        """Broadcasts `value` to `shape` as numpy does: new axes come first."""
        have = value.tile.shape
        if have == shape:
            return value
        if have and len(have) < len(shape):
            value = self.reshape(value, (1,) * (len(shape) - len(have)) + have)
        return self.value("broadcast", value, shape=shape)

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        if value.tile.shape == shape:
            return value
        if not shape or not value.tile.shape:  # a scalar has no layout, unlike a tile of one element
            if not value.tile.shape:
                return self.value("broadcast", value, shape=shape)
            raise TileError("type", self.loc, f"{value.tile} cannot become a scalar")
        return self.value("reshape", value, shape=shape)

    def cdiv(self, number: Value, divisor: Value) -> Value:
        """Returns `number / divisor`, rounded up."""
        less = self.value("sub", divisor, self.constant(1, divisor.dtype))
        return self.value("floordiv", self.value("add", number, less), divisor)

    def same_shape(self, values: Sequence[Value]) -> list[Value]:
        """Broadcasts the values to their common shape. Raises TileError `shape` if the values have no common shape."""
        shapes = {value.tile.shape for value in values}
        if len(shapes) == 1:
            return list(values)
        shape: tuple[int, ...] = ()
        for value in values:
            shape = broadcast_shapes(shape, value.tile.shape, self.loc)
        return [self.broadcast(v, shape) for v in values]

    def scalar_type(self, dtype: DType) -> TileType:
        return TileType((), dtype)


AXES_BEHIND = "axes pair from the last one on: [:, None] adds an axis behind, keepdims=true keeps that of a reduction"


def broadcast_shapes(a: tuple[int, ...], b: tuple[int, ...], loc: Loc) -> tuple[int, ...]:
    if a == b or not b:
        return a
    if not a:
        return b
    rank = max(len(a), len(b))
    wide_a, wide_b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    out = []
    for x, y in zip(wide_a, wide_b, strict=True):
        if x != y and 1 not in (x, y):
            hint = None if len(a) == len(b) else AXES_BEHIND
            raise TileError("shape", loc, f"shapes {list(a)} and {list(b)} do not go together", hint)
        out.append(max(x, y))
    if prod(out) > MAX_TILE:
        raise TileError("limit", loc, f"a tile of {prod(out)} elements, {out}; the limit is {MAX_TILE}")
    return tuple(out)
