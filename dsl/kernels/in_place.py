"""Which outputs of a kernel may be one of its inputs: each element is read before it is written, by the same thread.

Proved of the text and of the code, or not at all. The text says which elements a block touches: an input and an output
of equal dims are indexed alike wherever they stand, along each axis of the grid by slices that blocks do not share, and
in no loop; so each element is a block's own, and is written once. The code says who comes first: every load stands
before every store, in one place of the code with the same offsets and masks in registers of the same threads, or with a
barrier of the block in between. Copies that run by themselves, boxes, atomics and work that blocks share are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dsl.lowering.hopper.boxes import maps_of
from dsl.lowering.ir.function import Function, Op, Parameter, Value, blocks_of, parents, walk
from dsl.lowering.ir.types import TileType
from dsl.text import tree as ast

PLAIN = ("read", "write")


def in_place_pairs(kernel: ast.KernelDef, function: Function) -> tuple[tuple[str, str], ...]:
    """(output, input) by name. function: behind all passes."""
    given = {p.name: p for p in function.params if p.kind == "tensor" and p.value is not None}
    written = [p for p in given.values() if "w" in p.access]
    read = [p for p in given.values() if p.access == "r"]
    pairs = [(y, x) for y in written for x in read if is_alike(y, x)]
    if not pairs or function.workspaces or function.number("cluster", 1) > 1:
        return ()
    text, order = KernelText(kernel), AccessOrder(function)
    return tuple((y.name, x.name) for y, x in pairs if text.is_own({y.name, x.name}) and order.reads_first(y, x))


def is_alike(y: Parameter, x: Parameter) -> bool:
    """Whether two tensors of one memory have their elements at the same places."""
    return y.dtype == x.dtype and list(y.dims) == list(x.dims) and not y.strided and not x.strided


# ---- which elements are a block's own ----


class KernelText:
    """What the text of a kernel says of its indices. values: of names that are bound once, in no branch or loop."""

    def __init__(self, kernel: ast.KernelDef):
        self.body = [each for each in kernel.body if not isinstance(each, ast.Grid)]
        grids = [each for each in kernel.body if isinstance(each, ast.Grid)]
        self.axes = len(grids[0].extents) if grids else 0
        bound: dict[str, int] = {}
        for node in ast.walk(self.body):
            for name in bound_by(node):
                bound[name] = bound.get(name, 0) + 1
        self.values = {
            name: value
            for line in self.body
            if isinstance(line, ast.Assign) and line.op is None
            for name, value in assigned(line)
            if bound[name] == 1
        }
        self.changing = {name for name, count in bound.items() if count > 1 or name not in self.values}

    def is_own(self, tensors: set[str]) -> bool:
        """Whether all of these are indexed in one way, which gives each block elements of its own."""
        found = [*self.parts(self.body, tensors)]
        if not found or None in found:
            return False
        first, *others = (each for each in found if each is not None)
        if any(texts(each) != texts(first) for each in others) or set().union(*map(names_of, first)) & self.changing:
            return False
        covered = {axis for each in first for axis in self.block_axes(each)}
        return covered == {*range(self.axes)} and all(map(self.is_plain, first))

    def parts(self, node: Any, tensors: set[str]) -> Iterator[list[Any] | None]:
        """The subscripts of the tensors; None for what stands where it cannot be told."""
        if isinstance(node, list | dict):
            for each in node if isinstance(node, list) else node.values():
                yield from self.parts(each, tensors)
        elif isinstance(node, ast.Index) and isinstance(node.value, ast.Name) and node.value.id in tensors:
            yield node.subscripts
            yield from self.parts(node.subscripts, tensors)
        elif isinstance(node, ast.Name):
            if node.id in tensors:
                yield None
        elif isinstance(node, ast.Call) and isinstance(node.function, ast.Name) and node.function.id == "given":
            return
        elif isinstance(node, ast.For | ast.While | ast.Def):
            if any(isinstance(each, ast.Name) and each.id in tensors for each in ast.walk(node)):
                yield None
        else:
            for name in ast.PARTS.get(type(node), ()):
                yield from self.parts(getattr(node, name), tensors)

    def is_plain(self, subscript: Any) -> bool:
        """A slice, or the number of a block: no index tile, which may name an element twice."""
        return isinstance(subscript, ast.Slice) or bool([*self.block_axes(subscript)])

    def block_axes(self, subscript: Any) -> Iterator[int]:
        """The axis of the grid along which blocks take parts of their own by a subscript: `block(d)`, or
        `block(d) * T : block(d) * T + T`, with names for what they stand for."""
        if not isinstance(subscript, ast.Slice):
            axis = block_axis(self.meant(subscript))
            if axis is not None:
                yield axis
            return
        start, stop = self.meant(subscript.start), subscript.stop
        if not (isinstance(start, ast.Binary) and start.op == "*"):
            return
        ways = ((start.left, start.right), (start.right, start.left))
        axis, tile = next(((a, t) for b, t in ways if (a := block_axis(b)) is not None), (None, None))
        if axis is None or not (isinstance(stop, ast.Binary) and stop.op == "+"):
            return
        if said(stop.left) == said(subscript.start) and said(stop.right) == said(tile):
            yield axis

    def meant(self, node: Any) -> Any:
        """What a name stands for."""
        return self.values.get(node.id, node) if isinstance(node, ast.Name) else node


def bound_by(node: Any) -> Iterator[str]:
    """The names that a statement binds."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if not isinstance(target, ast.Index):
                yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))
    elif isinstance(node, ast.For):
        yield node.name
    elif isinstance(node, ast.Def):
        yield from (node.name, *node.params)
    elif isinstance(node, ast.Shared):
        yield from node.names


def assigned(line: ast.Assign) -> Iterator[tuple[str, ast.Expr]]:
    """The names of an assignment, each with its own value where that is told."""
    if len(line.targets) == 1:
        values = [line.value]
    else:
        values = list(line.value.items) if isinstance(line.value, ast.Sequence) else []
    for target, value in zip(line.targets, values, strict=False):
        if isinstance(target, ast.Name) and len(values) == len(line.targets):
            yield target.id, value


def block_axis(node: Any) -> int | None:
    """d of `block(d)`."""
    if isinstance(node, ast.Call) and isinstance(node.function, ast.Name) and node.function.id == "block":
        argument = node.args[0] if len(node.args) == 1 and not node.keywords else None
        return int(argument.value) if isinstance(argument, ast.Number) else None
    return None


def said(node: Any) -> str:
    """The text of an expression, without spaces; "" for none."""
    return "" if node is None else "".join(node.loc.source.text[node.loc.start : node.loc.end].split())


def texts(subscripts: list[Any]) -> list[str]:
    """Those of subscripts. An expression's own text: that of a chain ends where it does."""
    return [f"{said(s.start)}:{said(s.stop)}" if isinstance(s, ast.Slice) else said(s) for s in subscripts]


def names_of(subscript: Any) -> set[str]:
    return {each.id for each in ast.walk(subscript) if isinstance(each, ast.Name)}


# ---- who comes first ----


class AccessOrder:
    """The accesses of a function's tensors, in the order of the code. touches: by tensor; around: the operation whose
    region an operation stands in."""

    def __init__(self, function: Function):
        self.body = function.body
        self.touches: dict[Value, list[Op]] = {}
        for op in walk(function.body):
            for effect in op.spec.access.effects(op):
                found = self.touches.setdefault(effect.memory, [])
                if op not in found:
                    found.append(op)
        self.mapped = {map.tensor for map in maps_of(function.body)}
        self.around = parents(function.body)
        self.blocks = {op: block for block in blocks_of(function.body) for op in block.ops}

    def reads_first(self, y: Parameter, x: Parameter) -> bool:
        assert y.value is not None and x.value is not None
        touches = [*self.touches.get(y.value, ()), *self.touches.get(x.value, ())]
        if {y.name, x.name} & self.mapped or any(op.spec.access.kind not in PLAIN for op in touches):
            return False
        loads, stores = ([op for op in touches if op.spec.access.kind == way] for way in PLAIN)
        return bool(stores) and all(self.is_before(load, store) for load in loads for store in stores)

    def is_before(self, load: Op, store: Op) -> bool:
        """Whether what a load reads is not yet written by a store, of whatever thread."""
        return self.is_of_one_thread(load, store) or self.is_apart(load, store)

    def is_of_one_thread(self, load: Op, store: Op) -> bool:
        """With the same offsets and masks, each of which one thread has, and the load in front of the store, or of the
        branch in which that stands."""
        if not self.is_in_front(load, store):
            return False
        mine, others = named(load), named(store)
        kind = mine["offset"].type
        layout = kind.layout if isinstance(kind, TileType) else None
        is_single = layout is not None and not any(layout.replicated.values())
        return is_single and mine["offset"] is others["offset"] and mine.get("mask") is others.get("mask")

    def is_in_front(self, load: Op, store: Op) -> bool:
        """Whether a load, or what it stands in, is in front of a store, or what that stands in, in one block."""
        first = {self.blocks[op]: op for op in self.with_around(load)}
        for op in self.with_around(store):
            if (other := first.get(self.blocks[op])) is not None:
                ops = self.blocks[op].ops
                return ops.index(other) < ops.index(op)
        return False

    def with_around(self, op: Op) -> Iterator[Op]:
        """An operation, then those that it stands in, the nearest first."""
        yield op
        while op in self.around:
            op = self.around[op]
            yield op

    def is_apart(self, load: Op, store: Op) -> bool:
        """With a barrier of the block between them that all threads pass, and no way back."""
        first, second = self.at_top(load), self.at_top(store)
        ops = self.body.ops
        between = ops[ops.index(first) + 1 : ops.index(second)] if ops.index(first) < ops.index(second) else []
        return any(op.spec.orders == "threads" and op.attrs["scope"] == "block" for op in between)

    def at_top(self, op: Op) -> Op:
        """The operation of the body that an operation is, or stands in."""
        *_, top = self.with_around(op)
        return top


def named(op: Op) -> dict[str, Value]:
    """The operands of an access by their names."""
    return dict(zip(op.attrs["has"], op.operands, strict=True))
