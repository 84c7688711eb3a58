"""Expressions of kernels → values: names, literals, operators, calls, inlined functions.

A compile-time number stays a Python number until an operation needs a value; a run-time value is an IR value. What a
name may be bound to is listed in `bindings.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from dsl.text import tree as ast
from dsl.text.program import library_names
from dsl.values.access import index_tile, narrow, read, subscripts
from dsl.values.arithmetic import FUNCTIONS, ConstantError, call, infix, prefix
from dsl.values.bindings import (
    POISON,
    Absent,
    Access,
    Binding,
    Builtin,
    Closure,
    Scope,
    SharedTile,
    Suppressed,
    Table,
    Tensor,
    describe,
    elements,
    same_binding,
)
from dsl.values.functions import BUILTINS, convert, find
from dsl.values.functions.matrix import mma_hint, multiply
from dsl.values.signatures import rest_of
from lowering.builder import MAX_TILE, Builder
from lowering.facts import Analysis
from lowering.fold import constant_of
from lowering.ir import Function, Value
from lowering.location import Loc, TileError, closest
from lowering.types import (
    DTYPES,
    F32,
    FP8,
    I1,
    INDEX,
    OPERAND_TYPES,
    DType,
    int_range,
)

MAX_CALL_DEPTH = 64
STEPS_OF_CALL = 4
MAX_MULTIPLIED = 16  # exponents up to here are multiplications: an error of half a unit for each
OPERANDS = (Value, int, float)  # bool is an int
COUNTER = "as the counter of a loop"
NAMED = (DType, str, Closure, Builtin)  # what is compared by what it is

FOREIGN = {
    "break": "a loop has no 'break': bound it, or use 'while'",
    "continue": "a loop has no 'continue': put the rest of its body in an 'if'",
    "pass": "a block holds at least one statement",
    "len": "dims are named: x: f32[n] has n elements",
    "threadIdx": "tiles are spread over the threads: arange(N) counts their elements",
    "blockIdx": "block(0)", "program_id": "block(0)", "num_programs": "grid(0)", "gridDim": "grid(0)",
    "__syncthreads": "barrier(); between tile reads and writes they are put by themselves",
    "float": "x.to(f32)", "int": "x.to(s32)", "sigmoid": "1.0 / (1.0 + exp(-x))",
}  # fmt: skip
"""Names of other languages, and what is written instead."""


class Returned(Exception):
    """Carries a def's value out of its body."""

    def __init__(self, value: Binding):
        self.value = value


class Expressions:
    """The names, values and expressions of one variant of one kernel. `functions` are the file's top-level defs."""

    def __init__(self, kernel: ast.Kernel, functions: dict[str, ast.Def], library: Callable[[str], dict[str, ast.Def]]):

        self.kernel = kernel
        self.library = library
        self.builtins = BUILTINS
        self.ir = Builder(kernel.loc)
        self.errors: list[TileError] = []
        self.left_behind: dict[str, str] = {}  # names that ended with their block, and which block that was
        self.caller: Loc | None = None
        self.calls = 0
        self.entry_depths = [1]  # how many regions deep the function being inlined started
        self.top = Scope(None)
        for name, node in functions.items():
            self.top.names[name] = Closure(node, self.top)
        self.scope = Scope(self.top)
        self.function: Function
        self.facts: Analysis
        self.in_tile_if = 0  # branches that threads or warps take one by one
        self.in_divided_warp = 0  # those that may divide a warp
        self.in_library = 0  # its names are not the user's: a schedule pins no value in it
        self.host_names: dict[str, Any] = {}  # names whose values the host knows too: dims, constants, scalars
        self.requires: list[ast.Assert] = []
        self.same_dims: dict[Value, Value] = {}  # of dims that each launch has equal, the one that stands for each
        self.grid: list[ast.Expr] = []

    # ---- errors ----

    def error(self, code: str, loc: Loc, message: str, hint: str | None = None) -> NoReturn:
        raise TileError(code, self.at(loc), message, hint)

    def at(self, loc: Loc) -> Loc:
        return loc.under(self.caller)

    def place(self, loc: Loc) -> None:
        """What follows in the IR stands there."""
        self.ir.place = loc, self.caller

    # ---- names ----

    def lookup(self, node: ast.Name) -> Binding:
        found = self.scope.find(node.id)
        if found is POISON:
            raise Suppressed("name", node.loc, f"'{node.id}' is wrong")
        if found is not None:
            return found
        if node.id in DTYPES:
            return DTYPES[node.id]
        if node.id in OPERAND_TYPES:
            return OPERAND_TYPES[node.id]
        if node.id in ("true", "True"):
            return True
        if node.id in ("false", "False"):
            return False
        if node.id == "inf":
            return float("inf")
        if node.id == "nan":
            return float("nan")
        if node.id in self.builtins:
            return Builtin(node.id)
        found = self.library_function(node.id)
        if found is not None:
            return found
        if node.id in self.left_behind:
            where = self.left_behind[node.id]
            hint = f"give it a value before the {'loop' if 'loop' in where else 'branch'}"
            if where is COUNTER:
                hint = "keep a round's under another name, which has a value before the loop"
            self.error("name", node.loc, f"'{node.id}' has no value here: it has one only {where}", hint)
        known = self.scope.all_names() | self.builtins.keys() | DTYPES.keys() | library_names()
        self.error("name", node.loc, f"unknown name '{node.id}'", FOREIGN.get(node.id) or closest(node.id, known))

    def function_named(self, name: str) -> Closure:
        """A top-level function of the file, else one of the library."""
        found = self.top.names.get(name) or self.library_function(name)
        assert isinstance(found, Closure)
        return found

    def library_function(self, name: str) -> Closure | None:
        """A function of the language that is written in the language. It sees its own file, no names of the user's."""
        definitions = self.library(name)
        if name not in definitions:
            return None
        scope = Scope(None)
        scope.names = {n: Closure(d, scope) for n, d in definitions.items()}
        return scope.names[name]

    def is_library(self, closure: Closure) -> bool:
        return closure.scope.parent is None and closure.scope is not self.top

    # ---- values ----

    def number(self, value: int | float | bool, dtype: DType, loc: Loc) -> Value:
        """A literal as a value of `dtype`."""
        if isinstance(value, bool):
            if dtype is I1 or dtype.is_int:
                return self.ir.constant(value if dtype is I1 else int(value), dtype)
            self.error("type", loc, f"{str(value).lower()} is no {dtype}")
        if dtype.is_float:
            return self.ir.constant(float(value), dtype)
        if dtype in FP8:
            wide = self.ir.constant(float(value), F32)
            return self.ir.value("cast", wide, to=dtype, saturate=False, rounding=None)
        if isinstance(value, float):
            if not value.is_integer():
                self.error("type", loc, f"{value} is no {dtype}", "convert the other operand with .to(f32)")
            value = int(value)
        if dtype is I1:
            self.error("type", loc, f"{value} is no i1", "compare with '!= 0', or write true or false")
        low, high = int_range(dtype)
        if not low <= value <= high:
            self.error("type", loc, f"{value} does not fit {dtype} ({low} … {high})")
        return self.ir.constant(value, dtype)

    def natural(self, value: int | float | bool, loc: Loc) -> Value:
        """A literal that meets nothing to take its type from: i1, index or f32."""
        return self.number(value, I1 if isinstance(value, bool) else F32 if isinstance(value, float) else INDEX, loc)

    def value(self, node: ast.Expr, like: DType | None = None) -> Value:
        """An expression as a run-time value."""
        return self.as_value(self.expr(node), node.loc, like)

    def as_value(self, binding: Binding, loc: Loc, like: DType | None = None) -> Value:
        if isinstance(binding, Value):
            return binding
        if isinstance(binding, bool | int | float):
            return self.number(binding, like, loc) if like else self.natural(binding, loc)
        if isinstance(binding, Access):
            return read(self, binding, loc)
        self.error("type", loc, f"{describe(binding)} is no value")

    def scalar(self, node: ast.Expr, what: str) -> Value:
        value = self.value(node)
        if value.tile.shape:
            self.error("type", node.loc, f"{what} is a scalar; this is {value.tile}")
        return value

    def constant(self, node: ast.Expr, what: str) -> int | float | bool:
        """An expression that must be known when compiling."""
        binding = self.expr(node)
        if isinstance(binding, Value):
            number = constant_of(binding)
            if number is not None and not binding.tile.shape:
                return number
        if isinstance(binding, bool | int | float):
            return binding
        hint = None
        if isinstance(binding, Value):
            hint = "dims are run-time values unless the schedule says 'specialize'"
        self.error("constant", node.loc, f"{what} must be a constant; this is {describe(binding)}", hint)

    def extent(self, node: ast.Expr, what: str = "an extent") -> int:
        """A constant power of two: an extent of a tile in registers."""
        number = self.constant(node, what)
        if isinstance(number, bool) or not isinstance(number, int):
            self.error("constant", node.loc, f"{what} is an integer; this is {number}")
        text = node.loc.source.text[node.loc.start : node.loc.end]
        self.check_extent(number, node.loc, what, None if isinstance(node, ast.Number) or len(text) > 40 else text)
        return number

    def check_extent(
        self, number: int, loc: Loc, what: str, written: str | None = None, remedy: str = "use it with a mask"
    ) -> None:
        """`written` is the expression that gave the number; `remedy` what to do with the next power of two."""
        label = f"{written} = {number}" if written else str(number)
        if number < 1:
            self.error("extent", loc, f"{what} is at least 1; this is {label}")
        if number & (number - 1):
            hint = f"next_pow2({number}) is {1 << number.bit_length()}: {remedy}"
            self.error("extent", loc, f"{what} is a power of two; {label} is not", hint)
        if number > MAX_TILE:
            self.error("limit", loc, f"{what} is {label}; a tile has at most {MAX_TILE} elements")

    # ---- expressions ----

    def spend(self, steps: int, loc: Loc) -> None:
        """Takes steps of the budget; TileError `limit` when it is spent."""
        self.ir.budget.spend_steps(steps, loc, self.caller)

    def tuple_of(self, parts: Iterable[Binding], loc: Loc) -> tuple[Binding, ...]:
        """A tuple, which costs what it holds."""
        made = tuple(parts)
        self.spend(elements(made, self.ir.budget.steps), loc)
        return made

    def expr(self, node: ast.Expr) -> Binding:
        budget = self.ir.budget  # a step, without two calls for each: a tenth of the time of building
        budget.steps -= 1
        if budget.steps < 0:
            self.spend(0, node.loc)
        try:
            return self._EXPR[type(node)](self, node)
        except ConstantError as error:
            raise TileError("constant", self.at(node.loc), str(error), error.hint) from None

    def _number(self, node: ast.Number) -> Binding:
        return node.value

    def _string(self, node: ast.String) -> Binding:
        return node.value

    def _sequence(self, node: ast.Sequence) -> Binding:
        return self.tuple_of((self.expr(i) for i in node.items), node.loc)

    def _unary(self, node: ast.Unary) -> Binding:
        operand = self.operand(self.expr(node.value), node.value.loc)
        if not isinstance(operand, Value):
            return prefix(node.op, operand)
        self.place(node.loc)
        if node.op == "not":
            if operand.dtype is not I1:
                self.error("type", node.loc, f"'not' takes i1; this is {operand.tile}", "compare with '== 0'")
            return self.ir.value("not", operand)
        return self.ir.value("neg" if node.op == "-" else "not", operand)

    def operand(self, binding: Binding, loc: Loc) -> Value | int | float | bool:
        """What arithmetic takes: a value or a number; an access is read."""
        if isinstance(binding, OPERANDS):
            return binding
        if isinstance(binding, SharedTile | Tensor):
            self.error(
                "type",
                loc,
                f"{describe(binding)} is no value",
                "read a part of it: x[start : start + EXTENT] or load(…)",
            )
        return self.as_value(binding, loc)

    _OPS = {  # noqa: RUF012 (a constant table)
        "+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod", "&": "and", "|": "or", "^": "xor",
        "<<": "shl", ">>": "shr", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
    }  # fmt: skip

    def _binary(self, node: ast.Binary) -> Binding:
        if node.op in ("and", "or"):
            return self._logic(node)
        left = self.operand(self.expr(node.left), node.left.loc)
        right = self.operand(self.expr(node.right), node.right.loc)
        return self.infix(node.op, left, right, node.loc)

    def infix(self, op: str, left: Value | int | float | bool, right: Value | int | float | bool, loc: Loc) -> Binding:
        if not isinstance(left, Value) and not isinstance(right, Value):
            return infix(op, left, right)
        self.place(loc)
        if op == "**":
            return self.power(left, right, loc)
        if op == "@":
            if isinstance(left, Value) and isinstance(right, Value):
                return multiply(self, loc, left, right, None)
            number = right if isinstance(left, Value) else left
            self.error("type", loc, f"'@' multiplies tiles; this is {describe(number)}")
        a, b = self.agree([left, right], loc)
        if op == "/":
            if not a.dtype.is_float:
                self.error(
                    "type",
                    loc,
                    f"'/' divides floats; these are {a.dtype}",
                    "'//' rounds down; or convert with .to(f32)",
                )
            return self.ir.value("div", a, b)
        if op in ("//", "%"):
            self.check_divisor(b, loc)
        return self.ir.value(self._OPS[op], a, b)

    def check_divisor(self, divisor: Value, loc: Loc) -> None:
        """Error for an integer that is divided by a literal 0, which gives no number on any machine."""
        if divisor.dtype.is_int and constant_of(divisor) == 0:
            self.error("constant", loc, "division by zero")

    def power(self, left: Value | int | float | bool, right: Value | int | float | bool, loc: Loc) -> Binding:
        """`left ** right`: a small integer constant multiplies, all else is the library's pow."""
        exponent = constant_of(right) if isinstance(right, Value) else right
        number = None
        if exponent is not None and abs(exponent) <= MAX_MULTIPLIED and float(exponent).is_integer():
            number = int(exponent)
        if isinstance(left, Value) and left.dtype.is_int:
            if number is None or number < 0:
                hint = "convert the base with .to(f32)"
                self.error("type", loc, f"the exponent of an integer is a constant from 0 to {MAX_MULTIPLIED}", hint)
        elif number is None or not isinstance(left, Value):
            pow = self.library_function("pow")
            assert pow is not None
            return self.apply(pow, [left, right], {}, loc)
        power = left if number >= 0 else self.infix("/", 1, left, loc)
        result: Value | None = None
        for bit in range(abs(number).bit_length()):
            if bit:
                power = self.ir.value("mul", power, power)
            if abs(number) >> bit & 1:
                result = power if result is None else self.ir.value("mul", result, power)
        if result is None:
            return self.ir.broadcast(self.number(1, left.dtype, loc), left.tile.shape)
        return result

    def agree(self, operands: list[Value | int | float | bool], loc: Loc) -> list[Value]:
        """Operands of one type and shape: literals take the others' type, s32 meets index as index."""
        typed = [o for o in operands if isinstance(o, Value)]
        dtype = typed[0].dtype
        for other in typed[1:]:
            if other.dtype is dtype:
                continue
            names = {other.dtype.name, dtype.name}
            if names == {"index", "s32"}:
                dtype = INDEX
            else:
                hint = f"convert one with .to({dtype}) or .to({other.dtype})"
                self.error("type", loc, f"operands of types {dtype} and {other.dtype}", hint)
        values = []
        for o in operands:
            if not isinstance(o, Value):
                o = self.number(o, dtype, loc)
            elif o.dtype is not dtype:
                o = self.ir.value("cast", o, to=dtype, saturate=False, rounding=None)
            values.append(o)
        return self.ir.same_shape(values)

    def _logic(self, node: ast.Binary) -> Binding:
        left = self.operand(self.expr(node.left), node.left.loc)
        if not isinstance(left, Value) and bool(left) == (node.op == "or"):
            return bool(left)
        right = self.operand(self.expr(node.right), node.right.loc)
        if not isinstance(left, Value):
            return right if isinstance(right, Value) else bool(right)
        if not isinstance(right, Value):
            right = bool(right)
        for side, value in ((node.left, left), (node.right, right)):
            if isinstance(value, Value) and value.dtype is not I1:
                self.error("type", side.loc, f"'{node.op}' takes i1; this is {value.tile}", "'&' and '|' work on bits")
        self.place(node.loc)
        a, b = self.agree([left, right], node.loc)
        return self.ir.value(node.op, a, b)

    def _compare(self, node: ast.Compare) -> Binding:
        operands = [self.expr(o) for o in node.operands]
        if any(isinstance(o, NAMED) for o in operands):
            pairs = zip(node.ops, operands, operands[1:], strict=False)
            if all(op in ("==", "!=") for op in node.ops):
                return all((same_binding(a, b)) == (op == "==") for op, a, b in pairs)
        values = [self.operand(o, n.loc) for o, n in zip(operands, node.operands, strict=True)]
        result = self.infix(node.ops[0], values[0], values[1], node.loc)
        for op, a, b in zip(node.ops[1:], values[1:], values[2:], strict=False):
            one = self.infix(op, a, b, node.loc)
            if isinstance(result, Value) and isinstance(one, Value):
                x, y = self.ir.same_shape([result, one])
                result = self.ir.value("and", x, y)
            elif isinstance(one, Value):
                result = one if result else False
            elif not isinstance(result, Value):
                result = bool(result and one)
            elif not one:
                result = False
        return result

    def _attribute(self, node: ast.Attribute) -> Binding:
        dotted = self.dotted(node)
        if dotted is not None and find(dotted) is not None:
            root = self.scope.find(dotted.split(".")[0])
            if root is None or isinstance(root, Closure):  # a function has no attributes of its own
                return Builtin(dotted)
        if dotted is not None and self.scope.find(dotted.split(".")[0]) is None:
            root = dotted.split(".")[0]
            if root == "mma":
                self.error("name", node.loc, f"unknown instruction '{dotted}'", mma_hint(dotted))
            family = [b for b in self.builtins if b.startswith(root + ".")]
            if family:
                self.error(
                    "name", node.loc, f"unknown function '{dotted}'", closest(dotted, family) or ", ".join(family)
                )
        base = self.expr(node.value)
        if node.name == "T":
            value = self.as_value(base, node.loc)
            self.place(node.loc)
            if len(value.tile.shape) != 2:
                self.error("shape", node.loc, f".T takes a tile of rank 2; this is {value.tile}")
            return self.ir.value("transpose", value, axes=(1, 0))
        self.error("name", node.loc, f"{describe(base)} has no '{node.name}'", "values have .to(TYPE) and .T")

    def dotted(self, node: ast.Expr) -> str | None:
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return None if base is None else f"{base}.{node.name}"
        return None

    def _index(self, node: ast.Index) -> Binding:

        base = self.expr(node.value)
        if isinstance(base, tuple):
            first = node.subscripts[0]
            is_one = len(node.subscripts) == 1 and not isinstance(first, ast.Slice)
            number = self.constant(first, "an index of a tuple") if is_one else None  # type: ignore[arg-type]
            if not isinstance(number, int) or not -len(base) <= number < len(base):
                self.error("shape", node.loc, f"a tuple of {len(base)} has no such element")
            return base[number]
        if isinstance(base, Access):
            base = self.as_value(base, node.loc) if not isinstance(base.memory, SharedTile) else narrow(self, base)
        if isinstance(base, Value):
            return index_tile(self, base, node)
        if isinstance(base, Absent):
            self.error("type", node.loc, f"'{base.name}' was not given", f"ask with 'if given({base.name}):'")
        if isinstance(base, DType):
            self.error("type", node.loc, "a type with extents stands only in zeros, full, empty and shared")
        if not isinstance(base, Tensor | SharedTile | Table):
            self.error("type", node.loc, f"{describe(base)} cannot be indexed")
        return Access(base, subscripts(self, base, node), node.loc)

    def _call(self, node: ast.Call) -> Binding:
        if isinstance(node.function, ast.Attribute) and node.function.name == "to":
            return convert(self, node)
        function = self.expr(node.function)
        handler = find(function.name) if isinstance(function, Builtin) else None
        self.place(node.loc)
        if handler is not None and getattr(handler, "takes_syntax", False):
            return handler(self, node)
        args = [self.expr(a) for a in node.args]
        keywords = {k: self.expr(v) for k, v in node.keywords.items()}
        name = node.function.id if isinstance(node.function, ast.Name) else ""
        of_numbers = name in FUNCTIONS and not keywords and all(isinstance(a, int | float) for a in args)
        if of_numbers and self.scope.find(name) is None:
            return call(name, args)
        if isinstance(function, Closure):
            if node.rest is not None:
                keywords |= rest_of(
                    node.rest, function.node, keywords, self.scope.find, self.scope.all_names, self.error
                )
            return self.apply(function, args, keywords, node.loc)
        if node.rest is not None:
            self.error("call", node.rest, "'...' gives constants to a def; this is none")
        self.place(node.loc)
        if handler is not None:
            return handler(self, node.loc, args, keywords)
        hint = f"value.to({function.name}) converts" if isinstance(function, DType) else None
        self.error("type", node.loc, f"{describe(function)} is no function", hint)

    _EXPR: dict[type, Callable] = {  # noqa: RUF012
        ast.Name: lookup,
        ast.Number: _number,
        ast.String: _string,
        ast.Unary: _unary,
        ast.Binary: _binary,
        ast.Compare: _compare,
        ast.Attribute: _attribute,
        ast.Call: _call,
        ast.Index: _index,
        ast.Sequence: _sequence,
        ast.WithSchedule: lambda self, node: self.error("syntax", node.loc, "'with' stands only in a dispatch"),
    }

    # ---- inlined functions ----

    def apply(self, closure: Closure, args: list[Binding], keywords: dict[str, Binding], loc: Loc) -> Binding:
        """The body of a `def` with its parameters bound."""
        definition = closure.node
        names = [*definition.params, *(c.name for c in definition.constants)]
        bound: dict[str, Binding] = {}
        if len(args) > len(definition.params):
            count = len(definition.params)
            hint = "constants are given by name" if definition.constants else None
            self.error(
                "call", loc, f"{definition.name} takes {count} argument{'s' * (count != 1)}; got {len(args)}", hint
            )
        bound.update(zip(definition.params, args, strict=False))
        for name, value in keywords.items():
            if name not in names:
                self.error("call", loc, f"{definition.name} has no parameter '{name}'", closest(name, names))
            if name in bound:
                self.error("call", loc, f"'{name}' is given twice")
            bound[name] = value
        for constant in definition.constants:
            if constant.name in bound:
                if isinstance(bound[constant.name], Value):
                    self.error("constant", loc, f"'{constant.name}' of {definition.name} must be a constant")
            elif constant.default is not None:
                bound[constant.name] = self.expr(constant.default)
        missing = [n for n in names if n not in bound]
        if missing:
            self.error("call", loc, f"{definition.name} needs '{missing[0]}'")
        if self.calls >= MAX_CALL_DEPTH:
            self.error(
                "limit",
                loc,
                f"calls of '{definition.name}' are nested more than {MAX_CALL_DEPTH} deep",
                "a def cannot recurse",
            )
        self.spend(STEPS_OF_CALL, loc)
        outer, outer_caller, place = self.scope, self.caller, self.at(loc)
        self.caller = place
        self.scope = Scope(closure.scope, bound)
        self.in_library += self.is_library(closure)
        self.calls += 1
        self.entry_depths.append(self.ir.depth)
        try:
            self.statements(definition.body, collect=False)
            return ()
        except Returned as returned:
            return returned.value
        except TileError as error:
            if not self.is_library(closure) or error.code == "limit":
                raise
            # The language's own functions are right: what is wrong is the arguments.
            given = " and ".join(describe(a) for a in args)
            hint = error.hint if len(args) > 1 else "convert it with .to(f32)"
            raise TileError(error.code, place, f"{definition.name} does not take {given}", hint) from None
        finally:
            self.scope, self.caller = outer, outer_caller
            self.in_library -= self.is_library(closure)
            self.calls -= 1
            self.entry_depths.pop()

    def statements(self, body: list[ast.Statement], collect: bool = True) -> None:
        """Builds statements; what they are is the business of `build.py`."""
        raise NotImplementedError
