"""Lowers a kernel's expressions to values of the IR. Calls of `def`s are inlined.

A compile-time number stays a Python number until an operation needs an IR value. `bindings.py` lists the kinds of value
that a name may be bound to. `dsl/kernels/build.py` lowers the statements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, ClassVar, NoReturn

import dsl.values.functions  # noqa: F401 (the rows)
from dsl.lowering.building.builder import MAX_TILE
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Value
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.types import DTYPES, I1, OPERAND_TYPES, DType
from dsl.lowering.ops import OPS
from dsl.text import tree as ast
from dsl.values.access import PassedPart, index_tile, narrow, read, read_for_def, subscripts
from dsl.values.arithmetic import ConstantError
from dsl.values.bindings import POISON, Absent, Access, Binding, SharedTile, Suppressed, Table, Tensor, describe
from dsl.values.building import Building
from dsl.values.fast_math import FAST, is_fast
from dsl.values.functions.matrix import mma_hint, multiply
from dsl.values.host import Shaped
from dsl.values.scope import Closure, Scope, library_closure, scope_of
from dsl.values.table import Builtin
from dsl.values.walk import NUMBERS, WORDS

STEPS_OF_CALL = 4
MAX_MULTIPLIED = 16  # the greatest exponent computed by multiplications, each with an error of half a unit
COUNTER = "as the counter of a loop"


class Tiles(Building):
    """Lowers the names and expressions of a kernel, for given types and constants. `functions` contains the file's
    top-level `def`s."""

    runs_library = True

    def __init__(self, kernel: ast.KernelDef, functions: dict[str, ast.Def]):
        self.top = scope_of(functions)
        super().__init__(Scope(self.top), kernel.loc)
        self.kernel = kernel
        self.errors: list[TileError] = []
        self.left_behind: dict[str, str] = {}  # name that went out of scope → the block that defined it, in words
        self.entry_depths = [1]  # for each `def` being inlined: the region depth at the start of its call
        self.in_library = 0  # number of open library functions: a schedule cannot refer to names inside of them
        self.host_names: dict[str, Any] = {}  # names that the host also knows: dims, constants, scalars
        self.requires: list[ast.Assert] = []
        self.passed_parts: dict[Value, PassedPart] = {}  # keyed by the value of the load
        self.same_dims: dict[Value, Value] = {}  # dim → the dim that replaces it, since both are equal in each launch
        self.grid: list[ast.Expr] = []

    def expr(self, node: ast.Expr) -> Binding:
        # The step is counted inline, since calling `spend` for each expression took a tenth of the build time.
        budget = self.ir.budget
        budget.steps -= 1
        if budget.steps < 0:
            self.spend(0, node.loc)
        try:
            return self._NODES[type(node)](self, node)
        except ConstantError as error:
            raise TileError("constant", self.at(node.loc), str(error), error.hint) from None

    def read(self, access: Access, loc: Loc) -> Value:
        return read(self, access, loc)

    # ---- names ----

    def _name(self, node: ast.Name) -> Binding:
        found = self.scope.find(node.id)
        # The statement that defines this name had an error, which was already reported.
        if found is POISON:
            raise Suppressed("name", node.loc, f"'{node.id}' is wrong")
        if found is not None:
            return found
        for known in (DTYPES, OPERAND_TYPES, WORDS):
            if node.id in known:
                return known[node.id]  # type: ignore[index]
        return self.function_of(node.id, node.loc) or self.unknown("name", node.id, node.loc)

    def unknown(self, what: str, name: str, loc: Loc) -> NoReturn:
        if name in self.left_behind:
            where = self.left_behind[name]
            hint = f"give it a value before the {'loop' if 'loop' in where else 'branch'}"
            if where is COUNTER:
                hint = "keep an iteration's under another name, which has a value before the loop"
            self.error("name", loc, f"'{name}' has no value here: it has one only {where}", hint)
        super().unknown(what, name, loc)

    def unknown_member(self, root: str, dotted: str, loc: Loc) -> None:
        if root == "mma":
            self.error("name", loc, f"unknown instruction '{dotted}'", mma_hint(dotted))
        super().unknown_member(root, dotted, loc)

    def closure_named(self, name: str) -> Closure:
        """Returns the file's top-level function `name`, or else the library's function of that name."""
        found = self.top.names.get(name) or library_closure(name)
        assert isinstance(found, Closure)
        return found

    def is_library(self, closure: Closure) -> bool:
        return closure.scope.parent is None and closure.scope is not self.top

    # ---- operators ----

    def side(self, value: Binding, node: ast.Expr, op: str) -> Value | int | float | bool:
        return self.value_or_number(value, node.loc)

    def prefixed(self, op: str, value: Value, loc: Loc) -> Value:
        self.place(loc)
        if op == "not" and value.dtype is not I1:
            self.error("type", loc, f"'not' takes i1; this is {value.tile}", "compare with '== 0'")
        return self.ir.value("neg" if op == "-" else "not", value)

    _OPS: ClassVar[dict[str, str]] = {s.symbol: name for name, s in OPS.items() if s.symbol and s.arity == 2}

    def joined(self, op: str, left: Any, right: Any, loc: Loc) -> Binding:
        self.place(loc)
        if op == "**":
            return self.power(left, right, loc)
        if op == "@":
            if isinstance(left, Value) and isinstance(right, Value):
                return multiply(self, loc, left, right, None)
            number = right if isinstance(left, Value) else left
            self.error("type", loc, f"'@' multiplies tiles; this is {describe(number)}")
        if op == "*" and isinstance(left, Value) and isinstance(right, Value):
            self.check_elementwise(left.tile.shape, right.tile.shape, loc)
        if op in ast.BITS:
            self.check_flags(op, left, right, loc)
        a, b = self.agree([left, right], loc)
        if op == "/":
            if not a.dtype.is_float:
                hint = "'//' rounds down; or convert with .to(f32)"
                self.error("type", loc, f"'/' divides floats; these are {a.dtype}", hint)
            return self.ir.value("div", a, b)
        if op in ("//", "%"):
            self.check_divisor(b, loc)
        return self.ir.value(self._OPS[op], a, b)

    def check_elementwise(self, a: Sequence[int], b: Sequence[int], loc: Loc) -> None:
        """Raises TileError `shape` for two matrices that only `@` can multiply."""
        is_product = len(a) == len(b) == 2 and a[1] == b[0]
        if is_product and any(x != y and 1 not in (x, y) for x, y in zip(a, b, strict=True)):
            message = f"shapes {list(a)} and {list(b)} do not go together"
            self.error("shape", loc, message, "'*' multiplies elements, '@' matrices")

    def check_flags(self, op: str, left: Any, right: Any, loc: Loc) -> None:
        """Raises TileError `type` for `flag & i < n`, which is (flag & i) < n."""
        sides = [side.dtype for side in (left, right) if isinstance(side, Value)]
        if len(sides) == 2 and (sides[0] is I1) != (sides[1] is I1):
            hint = f"'{op}' binds more tightly than a comparison: (a < b) {op} (c < d)"
            self.error("type", loc, f"operands of types {sides[0]} and {sides[1]}", hint)

    def power(self, left: Value | int | float | bool, right: Value | int | float | bool, loc: Loc) -> Binding:
        """Computes `left ** right`. If the exponent is a small constant integer, multiplications are built. Otherwise
        the library's `pow` is inlined."""
        exponent = constant_of(right) if isinstance(right, Value) else right
        number = None
        if exponent is not None and abs(exponent) <= MAX_MULTIPLIED and float(exponent).is_integer():
            number = int(exponent)
        if isinstance(left, Value) and left.dtype.is_int:
            if number is None or number < 0:
                hint = "convert the base with .to(f32)"
                self.error("type", loc, f"the exponent of an integer is a constant from 0 to {MAX_MULTIPLIED}", hint)
        elif number is None or not isinstance(left, Value):
            pow = library_closure("pow")
            assert pow is not None
            return self.inlined(pow, [left, right], {}, loc)
        power = left if number >= 0 else self.infix("/", 1, left, loc)
        result: Value | None = None
        for bit in range(abs(number).bit_length()):
            if bit:
                power = self.ir.value("mul", power, power)
            if abs(number) >> bit & 1:
                result = power if result is None else self.ir.value("mul", result, power)
        if result is None:
            return self.ir.broadcast(self.literal(1, left.dtype, loc), left.tile.shape)
        return result

    def both(self, op: str, left: Any, right: Any, node: ast.Binary) -> Value:
        right = bool(right) if isinstance(right, NUMBERS) else right
        for side, value in ((node.left, left), (node.right, right)):
            if isinstance(value, Value) and value.dtype is not I1:
                self.error("type", side.loc, f"'{op}' takes i1; this is {value.tile}", "'&' and '|' work on bits")
        self.place(node.loc)
        return self.ir.value(op, *self.agree([left, right], node.loc))

    def conjoined(self, left: Any, right: Any, loc: Loc) -> Value:
        return self.ir.value("and", *self.ir.same_shape([left, right]))

    def _sequence(self, node: ast.Sequence) -> Binding:
        return self.tuple_of((self.expr(i) for i in node.items), node.loc)

    def _index(self, node: ast.Index) -> Binding:
        """Evaluates `x[…]`. If x is memory, this expression loads from it once, however often the value is used."""
        found = self.part(node)
        return self.read(found, node.loc) if isinstance(found, Access) else found

    def memory(self, node: ast.Expr) -> Binding:
        if isinstance(node, ast.Index):
            return self.part(node)
        found = self.expr(node)
        return self.passed_parts[found].access if isinstance(found, Value) and found in self.passed_parts else found

    def shared_memory(self, node: ast.Expr) -> Binding:
        found = self.part(node) if isinstance(node, ast.Index) else self.expr(node)
        if isinstance(found, Access):
            return found if isinstance(found.memory, SharedTile) else self.read(found, node.loc)
        access = self.passed_parts[found].access if isinstance(found, Value) and found in self.passed_parts else None
        return access if access is not None and isinstance(access.memory, SharedTile) else found

    def passed(self, node: ast.Expr) -> Binding:
        """Evaluates an argument of a `def`. An argument `x[…]` is loaded when the call begins. If the body of the `def`
        uses the parameter as memory, the parameter refers to that part of x."""
        found = self.part(node) if isinstance(node, ast.Index) else self.expr(node)
        if not isinstance(found, Access):
            return found
        part = read_for_def(self, found, node.loc)
        self.passed_parts[part.value] = part
        return part.value

    def end_of_build(self, body: Block) -> None:
        """Removes unused loads. Checks the bounds of each part of memory that a `def` received and read."""
        gone = self.ir.leave_out_unused(body)
        for part in self.passed_parts.values():
            if part.value.op not in gone:
                part.check(self)

    def part(self, node: ast.Index) -> Binding:
        """Evaluates `x[…]` to an Access if x is memory, and otherwise to a value. The caller decides whether to read
        the Access."""
        base = self.memory(node.value)
        if isinstance(base, Access):
            narrows = isinstance(base.memory, SharedTile) and not any(map(ast.is_none, node.subscripts))
            was_read = isinstance(node.value, ast.Name)  # A parameter of a `def` was read when the call began.
            base = narrow(self, base) if narrows else self.expr(node.value) if was_read else self.read(base, node.loc)
        if isinstance(base, tuple):
            first = node.subscripts[0]
            is_one = len(node.subscripts) == 1 and not isinstance(first, ast.Slice)
            number = self.constant(first, "an index of a tuple") if is_one else None  # type: ignore[arg-type]
            if not isinstance(number, int) or not -len(base) <= number < len(base):
                self.error("shape", node.loc, f"a tuple of {len(base)} has no such element")
            return base[number]
        if isinstance(base, Value):
            return index_tile(self, base, node)
        if isinstance(base, Absent):
            self.error("type", node.loc, f"'{base.name}' was not given", f"ask with 'if given({base.name}):'")
        if isinstance(base, DType):
            return self.tile_type(base, node)
        if not isinstance(base, Tensor | SharedTile | Table):
            self.error("type", node.loc, f"{describe(base)} cannot be indexed")
        return Access(base, subscripts(self, base, node), node.loc)

    def tile_type(self, dtype: DType, node: ast.Index) -> Shaped:
        """Evaluates an expression such as `f32[M, N]` to its type and shape. It is an argument of `zeros` or `full`."""
        if any(isinstance(sub, ast.Slice) for sub in node.subscripts):
            self.error("shape", node.loc, "an extent, not a slice")
        made = Shaped(dtype, tuple(self.extent(sub) for sub in node.subscripts if not isinstance(sub, ast.Slice)))
        if prod(made.shape) > MAX_TILE:
            self.error("limit", node.loc, f"a tile of {prod(made.shape)} elements; the limit is {MAX_TILE}")
        return made

    def _other(self, node: ast.Expr) -> NoReturn:
        self.error("syntax", node.loc, "'with' stands only in a dispatch")

    # ---- calls ----

    def of(
        self, function: Builtin, values: list[Any], keywords: dict[str, Any], loc: Loc, node: ast.Call | None = None
    ) -> Binding:
        self.place(loc)
        return super().of(function, values, keywords, loc, node)

    def meaning(self, function: Builtin, loc: Loc) -> Callable[..., Any]:
        """Returns the implementation of a function. In user code, a schedule may replace the function by its
        approximation."""
        exact = super().meaning(function, loc)
        if function.name not in FAST or self.in_library:
            return exact

        approximate = self.function_of(FAST[function.name], loc)

        def chosen(walk: Any, loc: Loc, value: Binding) -> Any:
            if not isinstance(value, Value) or value.dtype.name not in ("f16", "bf16", "f32"):
                return exact(walk, loc, value)
            if not is_fast(self.function, function.name, loc):
                return exact(walk, loc, value)
            if value.dtype.bits == 32:
                return self.apply(approximate, [value], loc)
            return self.cast(self.apply(approximate, [self.cast(value, DTYPES["f32"])], loc), value.dtype)

        return chosen

    def check_constant(self, definition: ast.Def, name: str, value: Binding, loc: Loc) -> None:
        if isinstance(value, Value) and (value.tile.shape or constant_of(value) is None):
            self.error("constant", loc, f"'{name}' of {definition.name} must be a constant")

    def inlined(self, closure: Closure, values: list[Any], keywords: dict[str, Any], loc: Loc) -> Binding:
        self.spend(STEPS_OF_CALL, loc)
        is_library = self.is_library(closure)
        self.in_library += is_library
        self.entry_depths.append(self.ir.depth)
        try:
            return super().inlined(closure, values, keywords, loc)
        except TileError as error:
            if not is_library or error.code == "limit":
                raise
            # Library functions are correct, so the user's arguments must be wrong. The error therefore points to the
            # call and not to a line of the library.
            given = " and ".join(map(describe, values))
            hint = error.hint if len(values) > 1 else "convert it with .to(f32)"
            if any(isinstance(value, tuple) for value in values):
                hint = "take one of its values: t[0]"
            raise TileError(error.code, self.at(loc), f"{closure.node.name} does not take {given}", hint) from None
        finally:
            self.in_library -= is_library
            self.entry_depths.pop()
