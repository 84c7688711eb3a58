"""Finds the outputs of a kernel that may share memory with an input. Each element must be read before it is written.

The compiler proves this from the kernel's text and its IR. Without a proof, an output must not share memory with an
input. The text shows which elements a block touches. Input and output must have equal dims, and all accesses to them
must use the same indices. Along each axis of the grid, blocks must index disjoint slices, and no index may be in a
loop. Under these conditions, each element belongs to one block and is written once.

The IR shows the order: every load comes before every store. The order must also hold between threads. Either the load
and the store use the same offsets and masks in the same threads, or a block barrier separates them. An asynchronous
copy has read its elements where all copies are waited for; a barrier must follow. Sharing is refused for kernels with
TMA boxes or atomics on these tensors. It is also refused if blocks share work.
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
    """Returns pairs (output, input) of names of tensors that may share memory. `function` is the kernel after all
    passes."""
    given = {p.name: p for p in function.params if p.kind == "tensor" and p.value is not None}
    written = [p for p in given.values() if "w" in p.access]
    read = [p for p in given.values() if p.access == "r"]
    pairs = [(y, x) for y in written for x in read if is_alike(y, x)]
    # With workspaces or clusters, blocks share work. A block may then read an element that belongs to another block.
    if not pairs or function.workspaces or function.blocks_of_cluster > 1:
        return ()
    text = KernelText(kernel)
    own = [(y, x) for y, x in pairs if text.is_own({y.name, x.name})]
    if not own:
        return ()
    order = AccessOrder(function)
    return tuple((y.name, x.name) for y, x in own if order.reads_first(y, x))


def is_alike(y: Parameter, x: Parameter) -> bool:
    """Whether equal indices have equal addresses in two tensors that start at the same address."""
    return y.dtype == x.dtype and list(y.dims) == list(x.dims) and not y.strided and not x.strided


# ---- which elements are a block's own ----


class KernelText:
    """Analyses the indices in a kernel's text. `values` maps each name that is bound once, outside of branches and
    loops, to its expression."""

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
        """Whether all accesses to these tensors use the same indices, and different blocks access different
        elements."""
        found = [*self.parts(self.body, tensors)]
        if not found or None in found:
            return False
        first, *others = (each for each in found if each is not None)
        if any(texts(each) != texts(first) for each in others) or set().union(*map(names_of, first)) & self.changing:
            return False
        covered = {axis for each in first for axis in self.block_axes(each)}
        # Along a grid axis that no subscript uses, all blocks would touch the same elements.
        return covered == {*range(self.axes)} and all(map(self.is_plain, first))

    def parts(self, node: Any, tensors: set[str]) -> Iterator[list[Any] | None]:
        """Yields the subscripts of each access to the tensors. Yields None for any other use of a tensor except
        `given(x)`, and for an access in a loop."""
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
        # In a loop, a later iteration may read elements that an earlier iteration wrote.
        elif isinstance(node, ast.For | ast.While | ast.Def):
            if any(isinstance(each, ast.Name) and each.id in tensors for each in ast.walk(node)):
                yield None
        else:
            for name in ast.PARTS.get(type(node), ()):
                yield from self.parts(getattr(node, name), tensors)

    def is_plain(self, subscript: Any) -> bool:
        """Whether the subscript is a slice or `block(d)`. An index tile is refused, because it may contain an index
        twice."""
        return isinstance(subscript, ast.Slice) or bool([*self.block_axes(subscript)])

    def block_axes(self, subscript: Any) -> Iterator[int]:
        """Yields the grid axis d if the subscript is `block(d)`, or `block(d) * T : block(d) * T + T`. Blocks along
        axis d then access disjoint elements. Names in the subscript are first replaced by their values."""
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
        """Returns the expression of a name that is bound once. Any other expression is returned unchanged."""
        return self.values.get(node.id, node) if isinstance(node, ast.Name) else node


def bound_by(node: Any) -> Iterator[str]:
    """Yields the names that a statement binds."""
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
    """Yields each name in an assignment with its expression. Yields nothing for `a, b = f(x)`, where one expression
    gives both values."""
    if len(line.targets) == 1:
        values = [line.value]
    else:
        values = list(line.value.items) if isinstance(line.value, ast.Sequence) else []
    for target, value in zip(line.targets, values, strict=False):
        if isinstance(target, ast.Name) and len(values) == len(line.targets):
            yield target.id, value


def block_axis(node: Any) -> int | None:
    """Returns the number d for `block(d)`, and None for any other expression."""
    if isinstance(node, ast.Call) and isinstance(node.function, ast.Name) and node.function.id == "block":
        argument = node.args[0] if len(node.args) == 1 and not node.keywords else None
        return int(argument.value) if isinstance(argument, ast.Number) else None
    return None


def said(node: Any) -> str:
    """Returns the source text of an expression without spaces. Returns "" for None."""
    return "" if node is None else "".join(node.loc.source.text[node.loc.start : node.loc.end].split())


def texts(subscripts: list[Any]) -> list[str]:
    """Returns the texts of subscripts. The text of a slice is made from its two ends, because its span in the source
    may be longer."""
    return [f"{said(s.start)}:{said(s.stop)}" if isinstance(s, ast.Slice) else said(s) for s in subscripts]


def names_of(subscript: Any) -> set[str]:
    return {each.id for each in ast.walk(subscript) if isinstance(each, ast.Name)}


# ---- who comes first ----


class AccessOrder:
    """The accesses to a function's tensors, in the order of the IR. `touches` maps a tensor to the operations that
    access it. `around` maps an operation to the operation whose region contains it."""

    def __init__(self, function: Function):
        self.body = function.body
        self.touches: dict[Value, list[Op]] = {}
        for op in walk(function.body):
            for effect in op.spec.access.effects(op) if op.spec.access.touches else ():
                found = self.touches.setdefault(effect.memory, [])
                if op not in found:
                    found.append(op)
        self.mapped = {map.tensor for map in maps_of(function.body)}
        self.around = parents(function.body)
        self.blocks = {op: block for block in blocks_of(function.body) for op in block.ops}

    def reads_first(self, y: Parameter, x: Parameter) -> bool:
        assert y.value is not None and x.value is not None
        touches = [*self.touches.get(y.value, ()), *self.touches.get(x.value, ())]
        if {y.name, x.name} & self.mapped or any(not _is_plain(op) for op in touches):
            return False
        stores = [op for op in touches if op.spec.access.kind == "write"]
        loads = [op for op in touches if op not in stores]
        return bool(stores) and all(self.is_before(load, store) for load in loads for store in stores)

    def is_before(self, load: Op, store: Op) -> bool:
        """Whether a load or a copy reads its elements before a store of any thread writes them."""
        if load.spec.in_flight:
            return self.is_apart(load, store)
        return self.is_of_one_thread(load, store) or self.is_apart(load, store)

    def is_of_one_thread(self, load: Op, store: Op) -> bool:
        """Whether the thread that stores an element has loaded the same element before. The load must precede the store
        (or the store's branch). Load and store must have the same offsets and mask, and each element must be held by
        one thread."""
        if not self.is_in_front(load, store):
            return False
        mine, others = named(load), named(store)
        kind = mine["offset"].type
        layout = kind.layout if isinstance(kind, TileType) else None
        # If several threads hold an element, one thread may store it before another thread loads it.
        is_single = layout is not None and not any(layout.replicated.values())
        return is_single and mine["offset"] is others["offset"] and mine.get("mask") is others.get("mask")

    def is_in_front(self, load: Op, store: Op) -> bool:
        """Whether the load comes before the store in the IR. If the two are nested in other operations, the order of
        these operations in the innermost common block counts."""
        first = {self.blocks[op]: op for op in self.with_around(load)}
        for op in self.with_around(store):
            if (other := first.get(self.blocks[op])) is not None:
                ops = self.blocks[op].ops
                return ops.index(other) < ops.index(op)
        return False

    def with_around(self, op: Op) -> Iterator[Op]:
        """Yields an operation, then the operations that contain it, innermost first."""
        yield op
        while op in self.around:
            op = self.around[op]
            yield op

    def is_apart(self, load: Op, store: Op) -> bool:
        """Whether a block barrier is between the load and the store in the kernel's body, and behind the wait for a
        copy. All threads pass a barrier in the kernel's body exactly once."""
        first, second = self.at_top(load), self.at_top(store)
        ops = self.body.ops
        between = ops[ops.index(first) + 1 : ops.index(second)] if ops.index(first) < ops.index(second) else []
        if load.spec.in_flight:
            waits = [op.spec.orders == "end" and op.attrs["groups"] == 0 for op in between]
            between = between[waits.index(True) :] if True in waits else []
        return any(op.spec.orders == "threads" and op.attrs["scope"] == "block" for op in between)

    def at_top(self, op: Op) -> Op:
        """Returns the operation in the kernel's outermost block that is `op` or contains `op`."""
        *_, top = self.with_around(op)
        return top


def _is_plain(op: Op) -> bool:
    """Whether an operation is a load, a store, or an asynchronous copy of elements."""
    return op.spec.access.kind in PLAIN or (op.spec.in_flight and "box" not in op.attrs)


def named(op: Op) -> dict[str, Value]:
    """Returns the operands of a load or store by name (`offset`, `mask` …)."""
    return dict(zip(op.attrs["has"], op.operands, strict=True))
