"""Checks that the parts of a function have the right Python types, because a plug-in's pass may have put any object
there.

`verify` assumes the right types and checks the IR itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dsl.lowering.ir.budget import MAX_OPERATIONS
from dsl.lowering.ir.choices import Choices
from dsl.lowering.ir.function import Block, Function, FunctionWorkspace, Op, Parameter, Reason, Value
from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.nesting import MAX_REGIONS
from dsl.lowering.ir.schedule import Named, Pin, SwizzlePin
from dsl.lowering.ir.types import DType, SharedType, TableType, TensorType, TileType, ViewType
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.ops import OPS
from dsl.lowering.text.attributes import ATTRIBUTES

Reads = Callable[[Any], bool]
MOST = 8 * MAX_OPERATIONS
"""The maximum number of operations of a function. This number exceeds a kernel's budget, because loops are unrolled
after the budget was checked."""


def _is(*types: type) -> Reads:
    return lambda value: isinstance(value, types)


def _list(reads: Reads) -> Reads:
    return lambda value: isinstance(value, list) and all(map(reads, value))


def _dict(key: Reads, reads: Reads) -> Reads:
    return lambda value: isinstance(value, dict) and all(key(k) and reads(v) for k, v in value.items())


def _names(reads: Reads) -> Reads:
    return _dict(_is(str), reads)


def _whole(value: Any) -> bool:
    return type(value) is int


_NUMBER, _TEXT = _is(bool, int, float, str), _is(str)
FIELDS: Mapping[str, tuple[Reads, str]] = {
    "name": (_TEXT, "a text"),
    "params": (_list(_is(Parameter)), "a list of Parameter"),
    "dims": (_names(_is(Value)), "values by name"),
    "body": (_is(Block), "a Block"),
    "warps": (lambda n: _whole(n) and n in (1, 2, 4, 8, 16, 32), "1, 2, 4, 8, 16 or 32"),
    "index_bits": (lambda n: n in (32, 64), "32 or 64"),
    "divisors": (_names(lambda n: _whole(n) and n > 0 and not n & (n - 1)), "powers of two by name"),
    "attrs": (_is(dict), "a dict"),
    "pins": (_names(_is(Pin)), "Pin by name"),
    "instructions": (_names(_is(Named)), "Named by name"),
    "swizzles": (_names(_is(SwizzlePin)), "SwizzlePin by name"),
    "lines": (_dict(_is(tuple), _is(Loc)), "places by property and subject"),
    "choices": (_is(Choices), "Choices"),
    "reasons": (_dict(_is(Op), _is(Reason)), "Reason by Op"),
    "grid": (lambda trees: _list(_is_tree)(trees) and len(trees) == 3, "a list of three expressions"),
    "constants": (_is(dict), "a dict"),
    "workspaces": (_list(_is(FunctionWorkspace)), "a list of FunctionWorkspace"),
    "deals": (_whole, "a whole number"),
    "holds": (lambda held: isinstance(held, set) and all(map(_TEXT, held)), "a set of texts"),
    "loc": (_is(Loc, type(None)), "a place, or None"),
    "in_branches": (_is(set, frozenset), "a set of names"),
    "written_out": (_is(set), "a set of names"),
    "void": (_is(list), "a list"),
}
_ALIGN = (lambda n: _whole(n) and n > 0 and not n & (n - 1), "a power of two")
OF_PARAMETER: Mapping[str, tuple[Reads, str]] = {
    "kind": (lambda kind: kind in ("tensor", "scalar", "table"), "tensor, scalar or table"),
    "name": (_TEXT, "a text"),
    "dtype": (_is(DType), "a DType"),
    "value": (_is(Value, type(None)), "a Value, or None"),
    "dims": (_list(lambda dim: isinstance(dim, str) or (_whole(dim) and dim > 0)), "a list of names and extents"),
    "strided": (_is(bool), "a bool"),
    "optional": (_is(bool), "a bool"),
    "length": (_whole, "a whole number"),
    "align": _ALIGN,
    "strides": (_list(_is(Value)), "a list of Value"),
    "access": (lambda access: access in ("", "r", "w", "rw"), "r, w, rw or nothing"),
    "loc": (_is(Loc, type(None)), "a place, or None"),
}
OF_WORKSPACE: Mapping[str, tuple[Reads, str]] = {
    "name": (_TEXT, "a text"),
    "dtype": (_is(DType), "a DType"),
    "each": (lambda n: _whole(n) and n > 0, "a whole number from 1 on"),
    "zero": (_is(bool), "a bool"),
    "value": (_is(Value), "a Value"),
    "align": _ALIGN,
}
"""Fields of a function, of its parameters and of its workspaces. Each has a check and a description of the expected
value."""


def _is_tree(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and isinstance(value[0], str) and all(map(_is_tree, value[1:]))
    return isinstance(value, bool | int | float | str)


def flaw_of_structure(function: Function) -> str | None:
    """Describes the first wrong field, operation or value of a function. Returns None if nothing is wrong."""
    for name, (reads, what) in FIELDS.items():
        if not reads(getattr(function, name)):
            return f"`function.{name}` is {getattr(function, name)!r:.60}: it is {what}"
    described: list[Parameter | FunctionWorkspace] = [*function.params, *function.workspaces]
    for each in described:
        kinds = OF_PARAMETER if isinstance(each, Parameter) else OF_WORKSPACE
        for name, (reads, what) in kinds.items():
            if not reads(getattr(each, name)):
                return f"`{name}` of {each.name!r:.60} is {getattr(each, name)!r:.60}: it is {what}"
    for name, value in function.attrs.items():
        if name in ATTRIBUTES and not ATTRIBUTES[name][0](value):
            return f"`function.attrs[{name!r}]` is {value!r:.60}: it is {ATTRIBUTES[name][1]}"
    return _Walk(function).flaw


class _Walk:
    """Checks all blocks and operations of a function. A block or operation must occur only once, because passes modify
    it in place."""

    def __init__(self, function: Function):
        self.seen: set[int] = set()
        self.flaw = self.of_block(function.body, 0) or self.of_parameters(function)

    def of_parameters(self, function: Function) -> str | None:
        """Checks that the values of parameters, dims and workspaces are arguments of the body."""
        mine = {id(value) for value in function.body.args}
        of: dict[str, Any] = {p.name: p.value for p in function.params if p.value is not None}
        of |= function.dims | {each.name: each.value for each in function.workspaces}
        gone = [name for name, value in of.items() if id(value) not in mine]
        return f"'{gone[0]}' is none of the body's arguments" if gone else None

    def of_block(self, block: Any, depth: int) -> str | None:
        if not isinstance(block, Block):
            return f"a region is {block!r:.60}: it is a Block"
        if self.is_known(block):
            return "a block stands in two places"
        if depth > MAX_REGIONS:
            return f"regions are nested more than {MAX_REGIONS} deep"
        if not isinstance(block.args, list) or not isinstance(block.ops, list):
            return f"a block has lists of arguments and operations; this has {block.args!r:.40} and {block.ops!r:.40}"
        for value in block.args:
            if (found := flaw_of_value(value)) is not None:
                return f"an argument of a block is {found}"
        for op in block.ops:
            if (found := self.of_op(op)) is not None:
                return found
            for region in op.regions:
                if (found := self.of_block(region, depth + 1)) is not None:
                    return found
        return None

    def of_op(self, op: Any) -> str | None:
        if not isinstance(op, Op):
            return f"{op!r:.60} stands among operations: it is no Op"
        if self.is_known(op):
            return f"an operation '{op.name}' stands in two places"
        if len(self.seen) > MOST:
            return f"there are more than {MOST} operations"
        if op.spec is not OPS.get(op.name):
            return f"an operation is called {op.name!r:.60}, which is not what its row says"
        kinds = {"operands": list, "attrs": dict, "regions": list, "results": list, "loc": Loc | None}
        for field, kind in kinds.items():
            if not isinstance(getattr(op, field), kind):  # type: ignore[arg-type]
                return f"{op.name}: its `{field}` is {getattr(op, field)!r:.60}"
        for value in (*op.operands, *op.results):
            if (found := flaw_of_value(value)) is not None:
                return f"{op.name}: among its operands and results is {found}"
        if any(value.op is not op for value in op.results):
            return f"{op.name}: a result is another operation's"
        strange = [name for name in op.attrs if not isinstance(name, str)]
        return f"{op.name}: it has an attribute {strange[0]!r:.60}" if strange else None

    def is_known(self, what: object) -> bool:
        known = id(what) in self.seen
        self.seen.add(id(what))
        return known


def flaw_of_value(value: Any) -> str | None:
    """Describes the error in a value or its type. Returns None if nothing is wrong."""
    if not isinstance(value, Value):
        return f"{value!r:.60}: it is no Value"
    type = value.type
    if not isinstance(type, TileType | ViewType | SharedType | TensorType | TableType):
        return f"a value of the type {type!r:.60}"
    if not isinstance(type.dtype, DType):
        return f"a value of elements {type.dtype!r:.60}"
    if isinstance(type, TileType | ViewType | SharedType) and not (
        isinstance(type.shape, tuple) and all(_whole(extent) and extent > 0 for extent in type.shape)
    ):
        return f"a value of the shape {type.shape!r:.60}"
    if isinstance(type, TileType) and not isinstance(type.layout, Layout | None):
        return f"a value in the layout {type.layout!r:.60}"
    if not isinstance(value.name, str | None) or not isinstance(value.origin, Value | None):
        return f"a value called {value.name!r:.60}, which stands for {value.origin!r:.60}"
    return None
