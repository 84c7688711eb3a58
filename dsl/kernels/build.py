"""Builds tile IR from the statements of a kernel: assignments, stores and structured control flow.

A name that a loop rebinds becomes loop-carried. A name that the branches of an `if` bind to different values becomes a
result of the `if` operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import lcm, prod

from dsl.lowering.building.builder import COPIED
from dsl.lowering.ir.budget import Exhausted
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Op, Value, walk
from dsl.lowering.ir.location import Errors, Loc, TileError
from dsl.lowering.ir.targets import WARP
from dsl.lowering.ir.types import (
    DTYPES,
    F32,
    I1,
    INDEX,
    DType,
    SharedType,
    TileType,
    Type,
    type_hint,
)
from dsl.lowering.layouts.layout import row_major
from dsl.text import tree as ast
from dsl.text.tree import names_in
from dsl.values import table
from dsl.values.access import NO_ADDRESS, whole, write
from dsl.values.arithmetic import ConstantError
from dsl.values.bindings import (
    POISON,
    Access,
    Binding,
    SharedTile,
    Suppressed,
    describe,
    elements,
)
from dsl.values.scope import Closure, same
from dsl.values.tiles import COUNTER, Tiles
from dsl.values.walk import Returned

MAX_ERRORS = 20


Merged = tuple[str, Binding, list[Value], list[Value]]
"""A name that both branches bind: the name, its binding in the first branch, and the values of each branch."""


def acts(op: Op) -> bool:
    """Whether an operation has side effects. Operations nested in its regions count, too."""
    changes = any(each.kind != "read" for each in op.spec.access.effects(op))
    return (
        changes or (op.spec.keep and not op.spec.control.ends) or any(acts(each) for r in op.regions for each in r.ops)
    )


class KernelBuilder(Tiles):
    """Builds the tile IR of a kernel's body, for given types, dims and constants."""

    # ---- statements ----

    def statements(self, body: list[ast.Statement], collect: bool = False) -> None:
        for statement in body:
            try:
                self.spend(1, statement.loc)
                self._STATEMENT[type(statement)](self, statement)
            except TileError as error:
                if not collect:
                    raise
                if error.loc is not None and error.loc.caller is None and self.caller is not None:
                    error.loc = self.at(error.loc)
                if not isinstance(error, Suppressed):
                    self.errors += error.errors
                # Later uses of these names raise Suppressed, so a mistake is reported once.
                for name in assigned_names([statement]):
                    self.scope.names[name] = POISON
                if len(self.errors) >= MAX_ERRORS or isinstance(error, Exhausted):
                    raise Errors(self.errors) from None

    def _assign(self, node: ast.Assign) -> None:
        if node.op is not None:
            self._augment(node, node.op)
            return
        value = self.expr(node.value)
        if len(node.targets) == 1:
            self.bind(node.targets[0], value, node.value.loc)
            return
        value = self.parts(value, len(node.targets), node.loc)
        sources = node.value.items if isinstance(node.value, ast.Sequence) else [node.value] * len(value)
        for target, part, source in zip(node.targets, value, sources, strict=True):
            self.bind(target, part, source.loc)

    def _augment(self, node: ast.Assign, op: str) -> None:
        """Builds `x[…] += v`. The subscripts are evaluated once, and x is read before v is evaluated."""
        target = node.targets[0]
        place = self.part(target) if isinstance(target, ast.Index) else self.expr(target)
        old = self.side(self.read(place, target.loc) if isinstance(place, Access) else place, target, op)
        new = self.operand(node.value, op)
        try:
            value = self.infix(op, old, new, node.loc)
        except ConstantError as error:
            raise TileError("constant", self.at(node.loc), str(error), error.hint) from None
        if isinstance(place, Access):
            write(self, place, value, node.value.loc)
        else:
            self.bind(target, value, node.value.loc)

    def bind(self, target: ast.Expr, value: Binding, loc: Loc) -> None:
        if isinstance(target, ast.Name):
            if isinstance(self.scope.names.get(target.id), SharedTile):
                write(self, whole(self, self.scope.names[target.id], target.loc), value, loc)
                return
            # Names inside library functions must not match the schedule's lines, because they are not the user's names.
            self.scope.names[target.id] = value if self.in_library else self.named(value, target.id)
            return
        if isinstance(target, ast.Index):
            access = self.part(target)
            if not isinstance(access, Access):
                self.error("type", target.loc, "only tensors and shared tiles are written by index", NO_ADDRESS)
            write(self, access, value, loc)
            return
        self.error("syntax", target.loc, "this cannot be assigned to")

    def named(self, value: Binding, name: str) -> Binding:
        """Sets the name of an IR value, and returns the binding for this name. A value that already has a name keeps
        it, unless the schedule has a line for the new name only. Then the new name replaces the old one. For example, a
        def may return a value that had another name inside the def. A schedule line for a tuple applies to each
        element."""
        function = self.function
        if not isinstance(value, Value):
            if isinstance(value, tuple) and name in function.scheduled:
                return tuple(self.element(element, name) for element in value)
            return value
        if (name in function.pins or name in function.instructions) and isinstance(value.type, TileType):
            # A layout belongs to a single name. If two names shared the value, two schedule lines could set the same
            # layout.
            value = self.ir.own(value) if value.tile.shape else value
        if value.name is None or (name in function.scheduled and value.name not in function.scheduled):
            value.name = name
        return value

    def element(self, value: Binding, name: str) -> Binding:
        """Names an element of a tuple after the tuple, so that a schedule line for the tuple applies to the element. An
        element that already has this name is returned unchanged."""
        return value if isinstance(value, Value) and value.name == name else self.named(value, name)

    def _expr_statement(self, node: ast.ExprStatement) -> None:
        block, made, chosen = self.ir.block, len(self.ir.block.ops), self.chosen
        value = self.expr(node.value)
        if chosen == self.chosen and not any(map(acts, block.ops[made:])):
            self.check_used(node, value)

    def _return(self, node: ast.Return) -> None:
        if not self.calls:
            self.error("syntax", node.loc, "'return' stands only in a def", "a kernel stores its results")
        if self.ir.depth != self.entry_depths[-1]:
            self.error(
                "syntax",
                node.loc,
                "'return' inside a run-time 'if' or loop",
                "assign to a name and return it at the end",
            )
        raise Returned(self.expr(node.value))

    def _grid(self, node: ast.Grid) -> None:
        self.error("syntax", node.loc, "'grid' is the first statement of a kernel and stands once")

    def _assert(self, node: ast.Assert) -> None:
        # An assertion about only dims and scalars generates no code. The launch checks it, and the compiler derives
        # facts from it.
        if self.caller is None and self.in_tile_if == 0 and self.ir.depth == 1 and self.host_only(node.condition):
            self.required(node)
            return
        self.chosen += 1
        condition = self.value(node.condition)
        if condition.dtype is not I1:
            self.error("type", node.loc, f"'assert' takes i1; this is {condition.tile}")
        if constant_of(condition) is True:
            return
        text = node.loc.source.text[node.loc.start : node.loc.end]
        self.place(node.loc)
        self.ir.op("assert", [condition], message=node.message or text, line=node.loc.line)
        self.function.attrs["record"] = True

    def required(self, node: ast.Assert) -> None:
        """Adds an assertion that the host evaluates at each launch. If all names in the assertion are compile-time
        constants, it is evaluated now instead."""
        condition = node.condition
        truth = isinstance(condition, ast.Compare) or getattr(condition, "op", None) in ("and", "or", "not")
        if not truth and not (isinstance(condition, ast.Name) and isinstance(self.expr(condition), bool)):
            joined = getattr(condition, "op", None) in ("&", "|")
            hint = "'and', 'or' and 'not' join conditions of a launch" if joined else "compare with '!= 0'"
            self.error("type", node.loc, "'assert' takes a condition; this is a number", hint)
        if all(constant_of(v) is not None for v in map(self.scope.find, names_in(condition)) if isinstance(v, Value)):
            held = self.expr(condition)
            held = constant_of(held) if isinstance(held, Value) else held
            if held is False:
                self.error(
                    "requires", node.loc, node.message or "this assertion does not hold", self.values_in(condition)
                )
            if held is not None:
                return
        self.requires.append(node)
        self.learn(condition)

    def learn(self, condition: ast.Expr) -> None:
        """Records facts from an assertion that holds in every launch. From `n % N == 0`, records that N divides the dim
        or scalar n. From `a == b`, makes the dims a and b the same value. Both sides of an `and` are analysed."""
        if isinstance(condition, ast.Binary) and condition.op == "and":
            self.learn(condition.left)
            self.learn(condition.right)
        if not isinstance(condition, ast.Compare) or condition.ops != ["=="]:
            return
        left, right = condition.operands
        a, b = self.dim_of(left), self.dim_of(right)
        if a is not None and b is not None:
            if a is not b:  # the dim with the greater known divisor replaces the other
                a, b = sorted((a, b), key=lambda dim: -self.facts.of(dim).every)
                self.same_dims[b] = a
                self.facts.bounds.same(a, b)
            return
        if not (isinstance(left, ast.Binary) and left.op == "%" and isinstance(left.left, ast.Name)):
            return
        name: str = left.left.id
        divisor, zero = self.expr(left.right), self.expr(right)
        number = self.scope.find(name)
        scalars = {p.name: p.value for p in self.function.params if p.kind == "scalar"}
        if {**scalars, **self.function.dims}.get(name) is not number or zero != 0:
            return
        if not isinstance(number, Value) or not number.dtype.is_int or not isinstance(divisor, int) or divisor < 1:
            return
        known = self.function.divisors.get(name, 1)
        self.function.divisors[name] = lcm(known, divisor)
        self.facts.divides(number, self.function.divisors[name])

    def dim_of(self, node: ast.Expr) -> Value | None:
        """Returns the dim that an expression refers to. The expression is a name, or a `where` whose condition is
        constant. Returns None for any other expression."""
        if isinstance(node, ast.Call) and isinstance(node.function, ast.Name) and node.function.id == "where":
            chosen = self.expr(node.args[0]) if len(node.args) == 3 else None
            return self.dim_of(node.args[1 if chosen else 2]) if isinstance(chosen, bool) else None
        found = self.scope.find(node.id) if isinstance(node, ast.Name) else None
        while isinstance(found, Value) and found in self.same_dims:
            found = self.same_dims[found]
        return found if isinstance(found, Value) and found in self.function.dims.values() else None

    def values_in(self, node: ast.Expr) -> str | None:
        """Returns the constants in an expression with their values, for a hint: `COLS is 8, ROWS is 4`."""
        known = {name: self.scope.find(name) for name in sorted(names_in(node))}
        return ", ".join(f"{n} is {describe(v)}" for n, v in known.items() if isinstance(v, bool | int | float)) or None

    def host_only(self, node: ast.Expr) -> bool:
        """Whether the host can evaluate an expression at launch. The host can evaluate numbers, dims, constants, scalar
        parameters, types, and functions of numbers."""
        if isinstance(node, ast.Name):
            return node.id in self.host_names or node.id in ("true", "false") or node.id in DTYPES
        if isinstance(node, ast.Number):
            return True
        if isinstance(node, ast.Unary):
            return self.host_only(node.value)
        if isinstance(node, ast.Binary):
            return self.host_only(node.left) and self.host_only(node.right)
        if isinstance(node, ast.Compare):
            return all(self.host_only(o) for o in node.operands)
        if isinstance(node, ast.Call):
            return (
                isinstance(node.function, ast.Name)
                and (found := table.find(node.function.id)) is not None
                and not found.unread
                and found.stands_in("trees")
                and not node.keywords
                and all(self.host_only(a) for a in node.args)
            )
        return False

    def _shared(self, node: ast.Shared) -> None:
        dtype = self.dtype_named(node.dtype, node.loc)
        extents = []
        for i, e in enumerate(node.extents):
            number = self.constant(e, "an extent of a shared tile")
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                self.error("extent", e.loc, f"an extent is a positive integer; this is {number}")
            # Swizzles permute the address bits of a row, so the row's number of elements must be a power of two. Other
            # extents may have any value.
            if i and i == len(node.extents) - 1:
                remedy = "it needs no padding: the compiler swizzles it against bank conflicts"
                self.check_extent(number, e.loc, "the innermost extent of a shared tile", remedy=remedy)
            extents.append(number)
        self.place(node.loc)
        for name in node.names:
            type = SharedType(tuple(extents), dtype, node.ring)
            # A tile declared in a loop is allocated once, not once per iteration.
            with self.ir.at_top():
                value = self.ir.op("shared_alloc", type=type, name=name).result
            value.name = name
            strides = row_major(extents)
            self.scope.names[name] = SharedTile(value, extents, strides, has_stages=len(extents) > 1 or node.ring)

    def dtype_named(self, name: str, loc: Loc) -> DType:
        found = self.scope.find(name)
        if isinstance(found, DType):
            return found
        if name in DTYPES and name != "index":
            return DTYPES[name]
        self.error("type", loc, f"unknown type '{name}'", type_hint(name))

    def _def(self, node: ast.Def) -> None:
        self.scope.names[node.name] = Closure(node, self.scope)

    # ---- control ----

    def copied_names(self, loc: Loc) -> dict[str, Binding]:
        """Returns a copy of the scope's bindings, so that a nested block can rebind names."""
        # Copying 64 names (2^COPIED) takes as long as one step of the budget, and therefore costs one step.
        self.spend(len(self.scope.names) >> COPIED, loc)
        return dict(self.scope.names)

    @contextmanager
    def branch_of(self, condition: Value) -> Iterator[None]:
        """Context manager in which the body of a branch is built. `in_tile_if` counts the enclosing branches whose
        condition is a tile. `in_divided_warp` counts those in which threads of one warp may diverge. They cannot
        diverge if the condition is 1-D and each run of 32 neighbouring elements has a single value."""
        is_tile = bool(condition.tile.shape)
        divides_warps = is_tile and (len(condition.tile.shape) > 1 or self.facts.of(condition).same[0] < WARP)
        self.in_tile_if += is_tile
        self.in_divided_warp += divides_warps
        try:
            yield
        finally:
            self.in_tile_if -= is_tile
            self.in_divided_warp -= divides_warps

    def types_of_branches(self, merged: list[Merged], loc: Loc) -> list[Type]:
        """Returns the types of the values that both branches of an `if` bind. Raises TileError `type` if a value has
        different types in the two branches."""
        types: list[Type] = []
        for name, _, left, right in merged:
            for u, v in zip(left, right, strict=True):
                if u.type != v.type:
                    hint = None
                    if "index" in (u.dtype.name, v.dtype.name) and u.tile.shape == v.tile.shape:
                        other = v.dtype if u.dtype.name == "index" else u.dtype
                        hint = f"of numbers alone a tile counts elements (index): .to({other}) makes it {other}"
                    message = f"'{name}' is {u.tile} in one branch and {v.tile} in the other"
                    self.error("type", loc, message, hint)
                types.append(u.type)
        return types

    def _if(self, node: ast.If) -> None:
        condition = self.condition(node)
        if not isinstance(condition, Value):
            self.chosen += 1
            self.statements(node.then if condition else node.otherwise)
            return
        before = self.copied_names(node.condition.loc)
        (then, a), (otherwise, b) = self.branches(node, condition, before)
        self.scope.names = before
        merged: list[Merged] = []
        # Names are sorted, here and in loops. The order of a set differs between processes, so without sorting the IR
        # would differ, too.
        for name in sorted(assigned_names([node])):
            x, y = a.get(name), b.get(name)
            # A shared tile is a place in memory, which cannot be selected at run time.
            if x is None or y is None or (x is not y and (isinstance(x, SharedTile) or isinstance(y, SharedTile))):
                self.leave_behind(name, "in one branch of an 'if'")
                continue
            self.spend(elements(x, self.ir.budget.steps), node.loc)
            if x is y or (not isinstance(x, Value) and not isinstance(y, Value) and same(x, y)):
                self.scope.names[name] = x
                continue
            both = self.outcomes(condition, (then, otherwise), self.pairs(x, y, name, node.loc), name, node.loc)
            if both is None:
                self.leave_behind(name, "in a branch of threads that decide about tiles of another shape")
            else:
                merged.append((name, x, [u for u, _ in both], [v for _, v in both]))
        types = self.types_of_branches(merged, node.loc)
        self.end(then, [u for _, _, left, _ in merged for u in left])
        self.end(otherwise, [v for _, _, _, right in merged for v in right])
        self.place(node.condition.loc)
        made = self.ir.op("if", [condition], [then, otherwise], types=types)
        self.name_results([(name, x) for name, x, _, _ in merged], made.results)

    def condition(self, node: ast.If) -> Value | int | float | bool:
        """The condition of an `if`: a number if it is known at compile time, otherwise an i1 value."""
        found = self.expr(node.condition)
        if isinstance(found, Value) and not found.tile.shape and (known := constant_of(found)) is not None:
            return known
        if isinstance(found, Value):
            if found.dtype is not I1:
                self.error("type", node.condition.loc, f"'if' takes i1; this is {found.tile}", "compare with '!= 0'")
        elif not isinstance(found, bool | int | float):
            self.error("type", node.condition.loc, f"{describe(found)} is no condition")
        return found

    def branches(
        self, node: ast.If, condition: Value, before: Mapping[str, Binding]
    ) -> list[tuple[Block, dict[str, Binding]]]:
        """Builds both branches of an `if`. Returns, for each branch, its block and the bindings at the end of the
        block."""
        made = []
        with self.branch_of(condition):
            for body in (node.then, node.otherwise):
                block = Block()
                with self.ir.region(block):
                    self.scope.names = dict(before)
                    self.statements(body)
                    made.append((block, self.scope.names))
                if condition.tile.shape:
                    self.check_effects(condition, block, node.loc)
        return made

    def leave_behind(self, name: str, where: str) -> None:
        """Removes a name from the scope. `where` tells later errors where the name still has a value: `in one branch of
        an 'if'`."""
        self.scope.names.pop(name, None)
        self.left_behind[name] = where

    def outcomes(
        self,
        condition: Value,
        branches: tuple[Block, Block],
        pairs: Sequence[tuple[Binding, Binding]],
        name: str,
        loc: Loc,
    ) -> list[tuple[Value, Value]] | None:
        """Returns the values of a name at the end of each branch. Each element of a tuple gives a pair (then,
        otherwise). Returns None if the condition is a tile and a value has a different number of elements. Then the
        layouts would decide which branch an element comes from."""
        then, otherwise = branches
        both = [self.unify(then, u, otherwise, v, name, loc) for u, v in pairs]
        if condition.tile.shape:
            both = [(self.by_element(condition, then, u), self.by_element(condition, otherwise, v)) for u, v in both]
            if any(prod(u.tile.shape) != prod(condition.tile.shape) for u, _ in both):
                return None
        return both

    def check_effects(self, condition: Value, branch: Block, loc: Loc) -> None:
        """Checks memory writes and other effects in a branch whose condition is a tile. Each thread takes the branch if
        its own element of the condition is true. In the branch, the thread may only access the corresponding elements
        of other tiles.

        Element i of a tile corresponds to element i of the condition, in row-major order, whatever the layouts are. A
        tile with another number of elements raises TileError `shape`, because the stored elements would depend on its
        layout.
        """
        decided = prod(condition.tile.shape)
        for op in walk(branch):
            effects = op.spec.access.effects(op)
            if op.regions or op.spec.control.ends or not (op.spec.keep or any(e.kind == "write" for e in effects)):
                continue
            for tile in (o.tile for o in op.operands if isinstance(o.type, TileType) and o.tile.shape):
                if prod(tile.shape) != decided:
                    elements = "1 element" if prod(tile.shape) == 1 else f"{prod(tile.shape)} elements"
                    message = f"{op.name} of {elements} in a branch of threads that decide about {decided}"
                    self.error("shape", op.loc or loc, message, "do it before the branch, under a mask")

    def by_element(self, condition: Value, branch: Block, value: Value) -> Value:
        """Broadcasts a scalar to the shape of a branch's condition, because the scalar may differ between threads. A
        tile is returned unchanged."""
        if value.tile.shape:
            return value
        with self.ir.region(branch):
            return self.ir.broadcast(value, condition.tile.shape)

    def name_results(self, names: list[tuple[str, Binding]], results: Iterable[Value]) -> None:
        """Binds names to the results of an `if`, `for` or `while` operation, in order. A name bound to a tuple gets one
        result for each element."""
        rest = iter(results)
        for name, like in names:
            self.scope.names[name] = rebuilt(like, rest, name)

    def pairs(self, x: Binding, y: Binding, name: str, loc: Loc) -> list[tuple[Binding, Binding]]:
        """Pairs the values that two branches bind to a name. Tuples are paired element by element."""
        if not isinstance(x, tuple) or not isinstance(y, tuple):
            return [(x, y)]
        if len(x) != len(y):
            self.error("type", loc, f"'{name}' is a tuple of {len(x)} in one branch and of {len(y)} in the other")
        return [pair for u, v in zip(x, y, strict=True) for pair in self.pairs(u, v, name, loc)]

    def unify(self, then: Block, x: Binding, otherwise: Block, y: Binding, name: str, loc: Loc) -> tuple[Value, Value]:
        """Makes IR values from the two bindings of a name in the branches of an `if`. A number gets the other binding's
        element type, and a scalar is broadcast to the other binding's shape. These operations are built inside the
        branches."""
        for side in (x, y):
            if side is POISON:  # its own error is reported already
                raise Suppressed("name", loc, f"'{name}' is wrong")
            if not isinstance(side, Value | bool | int | float):
                self.error("type", loc, f"'{name}' is {describe(side)} in a branch: only values can differ at run time")
        like = x.dtype if isinstance(x, Value) else y.dtype if isinstance(y, Value) else None
        if like is None:
            like = F32 if isinstance(x, float) or isinstance(y, float) else I1 if isinstance(x, bool) else INDEX
        out = []
        for block, side in ((then, x), (otherwise, y)):
            with self.ir.region(block):
                value = side if isinstance(side, Value) else self.literal(side, like, loc)
                out.append(value)
        a, b = out
        if a.tile.shape != b.tile.shape:
            if not a.tile.shape:
                with self.ir.region(then):
                    a = self.ir.broadcast(a, b.tile.shape)
            elif not b.tile.shape:
                with self.ir.region(otherwise):
                    b = self.ir.broadcast(b, a.tile.shape)
        return a, b

    def end(self, block: Block, values: list[Value]) -> None:
        with self.ir.region(block):
            self.ir.op("yield", values)

    def carried(self, body: list[ast.Statement], loc: Loc, skip: str | None = None) -> list[tuple[str, Binding]]:
        """Returns the names that are bound before a loop and rebound in its body. Each name comes with its value, or
        tuple of values, before the loop."""
        out = []
        for name in sorted(assigned_names(body)):
            before = self.scope.names.get(name)
            if name == skip or before is None or isinstance(before, SharedTile):
                continue
            if before is POISON:
                raise Suppressed("name", loc, name)
            self.spend(elements(before, self.ir.budget.steps), loc)
            out.append((name, self.carried_value(name, before, loc)))
        return out

    def carried_value(self, name: str, before: Binding, loc: Loc) -> Binding:
        if isinstance(before, tuple):
            return tuple(self.carried_value(name, b, loc) for b in before)
        if isinstance(before, bool | int | float):
            before = self.natural(before, loc)
        if not isinstance(before, Value):
            self.error("type", loc, f"'{name}' is {describe(before)}: a loop can only change values")
        return before

    def loop_region(self, block: Block, carried: list[tuple[str, Binding]], body: list[ast.Statement]) -> list[Value]:
        """Builds the body of a loop. Returns the values of the carried names at the end of the body."""
        before = self.scope.names
        self.scope.names = self.copied_names(body[0].loc)
        count = sum(len(leaves(v)) for _, v in carried)
        self.name_results(carried, block.args[len(block.args) - count :])
        with self.ir.region(block):
            self.statements(body)
            out = [
                v for name, start in carried for v in self.after_iteration(name, start, self.after(name, body), body)
            ]
        self.left_behind |= dict.fromkeys(self.scope.names.keys() - before.keys(), "inside the loop")
        for name in before.keys() - self.scope.names.keys():  # counters of inner loops end with their loops
            del before[name]
        self.scope.names = before
        return out

    def after(self, name: str, body: list[ast.Statement]) -> Binding:
        """Returns the binding of a loop-carried name at the end of the loop's body. Raises TileError `name` if it has
        none there."""
        if name not in self.scope.names:
            where = self.left_behind.get(name, "inside the loop")
            self.error(
                "name", body[-1].loc, f"'{name}' goes from iteration to iteration, and has no value here: only {where}"
            )
        return self.scope.names[name]

    def after_iteration(self, name: str, start: Binding, value: Binding, body: list[ast.Statement]) -> list[Value]:
        """Returns the values of a loop-carried name at the end of an iteration, converted to the name's type before the
        loop. Raises TileError `type` if this is impossible."""
        loc = last_assignment(body, name).loc
        if isinstance(start, tuple):
            if not isinstance(value, tuple) or len(value) != len(start):
                got = f"a tuple of {len(value)}" if isinstance(value, tuple) else describe(value)
                self.error(
                    "type", loc, f"'{name}' is a tuple of {len(start)} before the loop and {got} after an iteration"
                )
            return [v for s, e in zip(start, value, strict=True) for v in self.after_iteration(name, s, e, body)]
        assert isinstance(start, Value)
        if isinstance(value, bool | int | float):
            value = self.literal(value, start.dtype, loc)
        if not isinstance(value, Value):
            self.error("type", loc, f"'{name}' becomes {describe(value)} in the loop")
        if value.tile.shape != start.tile.shape and not value.tile.shape:
            value = self.ir.broadcast(value, start.tile.shape)
        # A sum of s32 and index is index (`agree`), so a name that began as s32 may end as index.
        if value.dtype is not start.dtype and {value.dtype.name, start.dtype.name} == {"index", "s32"}:
            value = self.ir.value("cast", value, to=start.dtype, saturate=False, rounding=None)
        if value.type != start.type:
            hint = f"start it with that type, for example {name} = zeros(...) or .to({value.dtype})"
            self.error(
                "type", loc, f"'{name}' is {start.tile} before the loop and {value.tile} after an iteration", hint
            )
        return [value]

    def _for(self, node: ast.For) -> None:
        iterable = self.range_of(node)
        self.place(iterable.loc)
        if node.static:
            bounds = [self.constant(a, "a bound of 'for static'") for a in iterable.args]
            if not all(isinstance(b, int) for b in bounds) or (len(bounds) == 3 and bounds[2] == 0):
                self.error("constant", iterable.loc, "the bounds of a range are integers, the step not 0")
            self.written_out(node, range(*bounds), iterable.loc)  # type: ignore[arg-type]
            return
        start, stop, step = self.bounds(iterable)
        unroll = self.function.by_subject("unroll", int).get(node.name, 1)
        if not unroll:
            known = [constant_of(each) for each in (start, stop, step)]
            if None in known:
                loc = self.function.lines.get(("unroll", node.name), iterable.loc)
                hint = f"specialize what it depends on, or unroll {node.name}: 4"
                self.error("schedule", loc, f"loop '{node.name}' has a number of iterations that is no constant", hint)
            self.function.written_out.add(node.name)
            self.written_out(node, range(*map(int, known)), iterable.loc)  # type: ignore[arg-type]
            return
        carried = self.carried(node.body, node.loc, skip=node.name)
        counter = Value(start.type, name=node.name)
        first = [v for _, c in carried for v in leaves(c)]
        block = Block([counter, *(Value(v.type) for v in first)])
        self.place(node.loc)
        made = self.ir.op("for", [start, stop, step, *first], [block], unroll=unroll)
        self.facts.enter_loop(made)
        # The loop operation is made first, so that the facts include its counter while the body is built. Below, the
        # operation is appended again, after operations that the body inserts before the loop.
        self.ir.block.ops.pop()
        self.scope.names[node.name] = counter
        values = self.loop_region(block, carried, node.body)
        self.end_counter(node.name)
        self.end(block, values)
        self.ir.block.ops.append(made)
        self.name_results(carried, made.results)

    def written_out(self, node: ast.For, turns: range, loc: Loc) -> None:
        """Unrolls a loop completely: builds its body once for each iteration."""
        count = max(0, -(-(turns.stop - turns.start) // turns.step))
        # The count is checked before anything is built. A loop of 2^40 iterations would never end.
        if count > self.ir.budget.steps:
            self.error("limit", loc, f"{count} unrolled iterations", "use a run-time loop")
        self.chosen += 1
        for i in turns:
            self.scope.names[node.name] = i
            self.statements(node.body)
        self.end_counter(node.name)

    def end_counter(self, name: str) -> None:
        """Removes the counter of a loop from the scope. After the loop the counter has no value. In Python a counter
        would keep the value of the last iteration."""
        self.scope.names.pop(name, None)  # None: a loop without iterations
        self.left_behind[name] = COUNTER

    def bounds(self, iterable: ast.Call) -> list[Value]:
        """Returns start, stop and step of a range as IR values of one type. Literal bounds get the type of the run-time
        bounds."""
        limits: list[Value | int | float | bool] = []
        for arg in iterable.args:
            bound = self.operand(arg, "range")
            if isinstance(bound, bool | float):
                bound = self.natural(bound, arg.loc)
            if isinstance(bound, Value) and bound.tile.shape:
                self.error("type", arg.loc, f"a bound of a range is a scalar; this is {bound.tile}")
            if isinstance(bound, Value) and not bound.dtype.is_int:
                self.error("type", arg.loc, f"a bound of a range is an integer; this is {bound.tile}")
            limits.append(bound)
        if len(limits) == 1:
            limits.insert(0, 0)
        if len(limits) == 2:
            limits.append(1)
        if not any(isinstance(bound, Value) for bound in limits):
            limits[1] = self.natural(limits[1], iterable.loc)  # type: ignore[arg-type]
        start, stop, step = self.agree(limits, iterable.loc)
        number = constant_of(step)
        if number == 0:
            self.error("constant", iterable.loc, "the step of a range is 0")
        # The loop's test compares in the direction of the step, so the sign of the step must be known at compile time.
        if number is None and (self.facts.of(step).low or 0) <= 0:
            message = "the step of a range is a constant or known to be positive"
            hint = "grid(0), the number of blocks, is; of another number write maximum(NUMBER, 1)"
            self.error("constant", iterable.args[-1].loc, message, hint)
        return [start, stop, step]

    def _while(self, node: ast.While) -> None:
        carried = self.carried(node.body, node.loc)
        test, condition = self.tested(node, carried)
        with self.branch_of(condition):
            if condition.tile.shape:  # threads run different numbers of iterations, so carried values differ by thread
                carried = [(name, self.by_thread(name, v, condition, node)) for name, v in carried]
                test, condition = self.tested(node, carried)
            body = Block([Value(v.type) for _, c in carried for v in leaves(c)])
            self.end(body, self.loop_region(body, carried, node.body))
        if condition.tile.shape:
            for block in (test, body):
                self.check_effects(condition, block, node.loc)
        self.place(node.loc)
        made = self.ir.op("while", [v for _, c in carried for v in leaves(c)], [test, body])
        self.name_results(carried, made.results)

    def tested(self, node: ast.While, carried: list[tuple[str, Binding]]) -> tuple[Block, Value]:
        """Builds the region that computes the condition of a `while` from the loop-carried values. Returns the region
        and the condition."""
        test = Block([Value(v.type) for _, c in carried for v in leaves(c)])
        with self.ir.region(test):
            before = self.scope.names
            self.scope.names = self.copied_names(node.condition.loc)
            self.name_results(carried, test.args)
            condition = self.value(node.condition)
            self.scope.names = before
            if condition.dtype is not I1:
                self.error("type", node.condition.loc, f"'while' takes i1; this is {condition.tile}")
            if constant_of(condition) is True:
                self.error("limit", node.condition.loc, "this loop never ends")
            self.ir.op("condition", [condition, *test.args])
        return test, condition

    def by_thread(self, name: str, start: Binding, condition: Value, node: ast.While) -> Binding:
        """Returns the start value of a loop-carried name for a `while` whose condition is a tile. A scalar is broadcast
        to the condition's shape. Raises TileError `shape` if the start value has another number of elements."""
        if isinstance(start, tuple):
            return tuple(self.by_thread(name, s, condition, node) for s in start)
        assert isinstance(start, Value)
        if not start.tile.shape:
            return self.ir.broadcast(start, condition.tile.shape)
        decided = prod(condition.tile.shape)
        if prod(start.tile.shape) != decided:
            message = f"'{name}' is {start.tile} and changes in a 'while' of threads that decide about {decided}"
            hint = "carry as many elements, or let the block decide: while any(…)"
            self.error("shape", last_assignment(node.body, name).loc, message, hint)
        return start

    _STATEMENT: dict[type, Callable] = {  # noqa: RUF012
        ast.Assign: _assign,
        ast.ExprStatement: _expr_statement,
        ast.Return: _return,
        ast.Grid: _grid,
        ast.Assert: _assert,
        ast.Shared: _shared,
        ast.If: _if,
        ast.For: _for,
        ast.While: _while,
        ast.Def: _def,
    }


def leaves(binding: Binding) -> list[Value]:
    """Flattens a binding to a list of IR values: `(a, (b, c))` becomes `[a, b, c]`."""
    if isinstance(binding, tuple):
        return [v for b in binding for v in leaves(b)]
    assert isinstance(binding, Value)
    return [binding]


def rebuilt(like: Binding, values: Iterator[Value], name: str) -> Binding:
    """The inverse of `leaves`: builds nested tuples like those in `like` from the next values. Each value gets the
    name."""
    if isinstance(like, tuple):
        return tuple(rebuilt(element, values, name) for element in like)
    value = next(values)
    value.name = name
    return value


def last_assignment(body: list[ast.Statement], name: str) -> ast.Statement:
    """Returns the last statement that binds a name. Searches nested statements, too."""
    for node in reversed(body):
        if name in assigned_names([node]):
            if isinstance(node, ast.If):
                return last_assignment(node.otherwise if name in assigned_names(node.otherwise) else node.then, name)
            if isinstance(node, ast.While) or (isinstance(node, ast.For) and name in assigned_names(node.body)):
                return last_assignment(node.body, name)
            return node
    return body[-1]


def assigned_names(body: list[ast.Statement]) -> set[str]:
    """Returns the names that statements bind in their own scope. A nested def binds only its own name."""
    out: set[str] = set()
    for node in body:
        if isinstance(node, ast.Assign):
            out |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.Def):
            out.add(node.name)
        elif isinstance(node, ast.Shared):
            out |= set(node.names)
        elif isinstance(node, ast.If):
            out |= assigned_names(node.then) | assigned_names(node.otherwise)
        elif isinstance(node, ast.For):
            out |= assigned_names(node.body) | ({node.name} if node.static else set())
        elif isinstance(node, ast.While):
            out |= assigned_names(node.body)
    return out
