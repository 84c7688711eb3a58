"""Syntax tree → tile IR: names, types, constants, inlined functions, structured control.

A compile-time number stays a Python number until an operation needs a value; a run-time value is an IR value. What a
name may be bound to is listed at `Binding`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from dsl import tree as ast
from dsl.constants import FUNCTIONS, ConstantError, call, infix, prefix
from dsl.evaluate import names_in
from lowering.builder import MAX_TILE, Builder
from lowering.facts import Analysis, linear
from lowering.fold import constant_of
from lowering.ir import Block, Function, Parameter, Value
from lowering.location import Errors, Loc, TileError, closest
from lowering.types import (
    DTYPES,
    F32,
    I1,
    INDEX,
    DType,
    SharedType,
    TableType,
    TensorType,
    TileType,
    int_range,
    type_hint,
)

MAX_OPS = 60_000
MAX_CALL_DEPTH = 64
MAX_MULTIPLIED = 16  # exponents up to here are multiplications: an error of half a unit for each
RECURSION_LIMIT = 12_000


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


class Suppressed(TileError):
    """Follows from an error that is already reported; never shown."""


class _Poison:
    """What a name is bound to when its statement was wrong."""


POISON = _Poison()


@dataclass(slots=True)
class Tensor:
    """A tensor parameter, or a reshaped view of one: extents and element strides by axis."""

    parameter: Parameter
    value: Value
    dims: list[int | Value]
    strides: list[int | Value]

    @property
    def dtype(self) -> DType:
        return self.value.dtype


@dataclass(slots=True)
class SharedTile:
    """A shared tile or a part of it: `slot` chosen, `base` elements in, extents and element strides by axis."""

    value: Value
    extents: list[int]
    strides: list[int]
    slot: Value | None = None
    base: Value | None = None
    has_slots: bool = False  # the first extent still stands for slots

    @property
    def dtype(self) -> DType:
        return self.value.dtype


@dataclass(slots=True)
class Table:
    value: Value
    length: int


@dataclass(slots=True)
class Absent:
    """An optional tensor that was not given."""

    name: str


@dataclass(slots=True)
class Access:
    """`memory[subscripts]`, not read yet. Subscripts: int, Value, or (start, extent) of a slice."""

    memory: Tensor | SharedTile | Table
    subscripts: list[Any]
    loc: Loc


@dataclass(slots=True)
class Closure:
    """A `def` with the scope it stands in."""

    node: ast.Def
    scope: Scope


@dataclass(slots=True)
class Builtin:
    name: str


Binding = Any  # int | float | bool | str | DType | Value | tuple | Tensor | SharedTile | Table | Absent | Access | Closure


@dataclass(slots=True)
class Scope:
    parent: Scope | None
    names: dict[str, Binding] = field(default_factory=dict)

    def find(self, name: str) -> Binding | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def all_names(self) -> set[str]:
        out: set[str] = set()
        scope: Scope | None = self
        while scope is not None:
            out |= scope.names.keys()
            scope = scope.parent
        return out


class _Returned(Exception):
    def __init__(self, value: Binding):
        self.value = value


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Room for nested syntax; nesting itself is limited by a located error."""
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(max(old, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(old)


class KernelBuilder:
    """Builds one variant of one kernel. `functions` are the file's top-level defs."""

    def __init__(self, kernel: ast.Kernel, functions: dict[str, ast.Def], library: Callable[[str], dict[str, ast.Def]]):
        from dsl.functions import BUILTINS

        self.kernel = kernel
        self.library = library
        self.builtins = BUILTINS
        self.ir = Builder(kernel.loc)
        self.errors: list[TileError] = []
        self.left_behind: dict[str, str] = {}  # names that ended with their block, and which block that was
        self.caller: Loc | None = None
        self.depth = 0
        self.calls = 0
        self.entry_depths = [1]  # how many regions deep the function being inlined started
        self.top = Scope(None)
        for name, node in functions.items():
            self.top.names[name] = Closure(node, self.top)
        self.scope = Scope(self.top)
        self.function: Function
        self.facts: Analysis
        self.in_tile_if = 0
        self.in_library = 0  # its names are not the user's: a schedule pins no value in it
        self.host_names: dict[str, Any] = {}  # names whose values the host knows too: dims, constants, scalars
        self.requires: list[ast.Assert] = []
        self.grid: list[ast.Expr] = []

    # ---- errors ----

    def error(self, code: str, loc: Loc, message: str, hint: str | None = None) -> NoReturn:
        raise TileError(code, self.at(loc), message, hint)

    def at(self, loc: Loc) -> Loc:
        return loc if self.caller is None or loc.caller is not None else loc.called_from(self.caller)

    # ---- names ----

    def lookup(self, node: ast.Name) -> Binding:
        found = self.scope.find(node.id)
        if found is POISON:
            raise Suppressed("name", node.loc, f"'{node.id}' is wrong")
        if found is not None:
            return found
        if node.id in DTYPES:
            return DTYPES[node.id]
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
            self.error("name", node.loc, f"'{node.id}' has no value here: it has one only {where}", hint)
        known = self.scope.all_names() | self.builtins.keys() | DTYPES.keys()
        hint = FOREIGN.get(node.id) or closest(node.id, known)
        self.error("name", node.loc, f"unknown name '{node.id}'", hint)

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
            from dsl.access import read

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

    def check_extent(self, number: int, loc: Loc, what: str, written: str | None = None) -> None:
        """`written` is the expression that gave the number."""
        label = f"{written} = {number}" if written else str(number)
        if number < 1:
            self.error("extent", loc, f"{what} is at least 1; this is {label}")
        if number & (number - 1):
            hint = f"next_pow2({number}) is {1 << number.bit_length()}: use it with a mask"
            self.error("extent", loc, f"{what} is a power of two; {label} is not", hint)
        if number > MAX_TILE:
            self.error("limit", loc, f"{what} is {label}; a tile has at most {MAX_TILE} elements")

    # ---- expressions ----

    def expr(self, node: ast.Expr) -> Binding:
        self.depth += 1
        if self.depth > ast.MAX_NESTING:
            self.depth = 0
            self.error("limit", node.loc, f"expressions are nested more than {ast.MAX_NESTING} deep")
        try:
            return self._EXPR[type(node)](self, node)
        except ConstantError as error:
            raise TileError("constant", self.at(node.loc), str(error), error.hint) from None
        finally:
            self.depth = max(0, self.depth - 1)

    def _number(self, node: ast.Number) -> Binding:
        return node.value

    def _string(self, node: ast.String) -> Binding:
        return node.value

    def _sequence(self, node: ast.Sequence) -> Binding:
        return tuple(self.expr(i) for i in node.items)

    def _unary(self, node: ast.Unary) -> Binding:
        operand = self.operand(self.expr(node.value), node.value.loc)
        if not isinstance(operand, Value):
            return prefix(node.op, operand)
        self.ir.loc = self.at(node.loc)
        if node.op == "not":
            if operand.dtype is not I1:
                self.error("type", node.loc, f"'not' takes i1; this is {operand.tile}", "compare with '== 0'")
            return self.ir.value("not", operand)
        return self.ir.value("neg" if node.op == "-" else "not", operand)

    def operand(self, binding: Binding, loc: Loc) -> Value | int | float | bool:
        """What arithmetic takes: a value or a number; an access is read."""
        if isinstance(binding, Value | bool | int | float):
            return binding
        if isinstance(binding, SharedTile | Tensor):
            self.error("type", loc, f"{describe(binding)} is no value", "load it: x[...] or load(x[...])")
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
        self.ir.loc = self.at(loc)
        if op == "**":
            return self.power(left, right, loc)
        if op == "@":
            self.error("type", loc, "'@' needs tensor-core support, which this version of the language does not have")
        a, b = self.agree([left, right], loc)
        if op == "/":
            if not a.dtype.is_float:
                self.error("type", loc, f"'/' divides floats; these are {a.dtype}", "'//' rounds down; or convert with .to(f32)")
            return self.ir.value("div", a, b)
        return self.ir.value(self._OPS[op], a, b)

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
        self.ir.loc = self.at(node.loc)
        a, b = self.agree([left, right], node.loc)
        return self.ir.value(node.op, a, b)

    def _compare(self, node: ast.Compare) -> Binding:
        operands = [self.expr(o) for o in node.operands]
        if any(isinstance(o, DType | str | Closure | Builtin) for o in operands):
            pairs = zip(node.ops, operands, operands[1:], strict=False)
            if all(op in ("==", "!=") for op in node.ops):
                return all((_same_binding(a, b)) == (op == "==") for op, a, b in pairs)
        values = [self.operand(o, n.loc) for o, n in zip(operands, node.operands, strict=True)]
        result: Binding = True
        for op, a, b in zip(node.ops, values, values[1:], strict=False):
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
        if dotted is not None and dotted in self.builtins:
            root = self.scope.find(dotted.split(".")[0])
            if root is None or isinstance(root, Closure):  # a function has no attributes of its own
                return Builtin(dotted)
        if dotted is not None and self.scope.find(dotted.split(".")[0]) is None:
            root = dotted.split(".")[0]
            family = [b for b in self.builtins if b.startswith(root + ".")]
            if family:
                self.error("name", node.loc, f"unknown function '{dotted}'", closest(dotted, family) or ", ".join(family))
        base = self.expr(node.value)
        if node.name == "T":
            value = self.as_value(base, node.loc)
            self.ir.loc = self.at(node.loc)
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
        from dsl.access import index_tile, subscripts

        base = self.expr(node.value)
        if isinstance(base, tuple):
            number = self.constant(node.subscripts[0], "an index of a tuple") if len(node.subscripts) == 1 else None
            if not isinstance(number, int) or not -len(base) <= number < len(base):
                self.error("shape", node.loc, f"a tuple of {len(base)} has no such element")
            return base[number]
        if isinstance(base, Access):
            base = self.as_value(base, node.loc) if not isinstance(base.memory, SharedTile) else _narrow(self, base)
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
            from dsl.functions import convert

            return convert(self, node)
        function = self.expr(node.function)
        handler = self.builtins[function.name] if isinstance(function, Builtin) else None
        self.ir.loc = self.at(node.loc)
        if handler is not None and getattr(handler, "takes_syntax", False):
            return handler(self, node)
        args = [self.expr(a) for a in node.args]
        keywords = {k: self.expr(v) for k, v in node.keywords.items()}
        name = node.function.id if isinstance(node.function, ast.Name) else ""
        if name in FUNCTIONS and not keywords and self.scope.find(name) is None:  # of numbers: a number
            if all(isinstance(a, bool | int | float) for a in args):
                return call(name, args)
        if isinstance(function, Closure):
            return self.apply(function, args, keywords, node.loc)
        self.ir.loc = self.at(node.loc)
        if handler is not None:
            return handler(self, node.loc, args, keywords)
        self.error("type", node.loc, f"{describe(function)} is no function")

    # ---- inlined functions ----

    def apply(self, closure: Closure, args: list[Binding], keywords: dict[str, Binding], loc: Loc) -> Binding:
        """The body of a `def` with its parameters bound."""
        definition = closure.node
        names = [*definition.params, *(c.name for c in definition.constants)]
        bound: dict[str, Binding] = {}
        if len(args) > len(definition.params):
            count = len(definition.params)
            hint = "constants are given by name" if definition.constants else None
            self.error("call", loc, f"{definition.name} takes {count} argument{'s' * (count != 1)}; got {len(args)}", hint)
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
            self.error("limit", loc, f"calls of '{definition.name}' are nested more than {MAX_CALL_DEPTH} deep", "a def cannot recurse")
        outer, outer_caller, place = self.scope, self.caller, self.at(loc)
        self.caller = place
        self.scope = Scope(closure.scope, bound)
        self.in_library += self.is_library(closure)
        self.calls += 1
        self.entry_depths.append(self.ir.depth)
        depth, self.depth = self.depth, 0
        try:
            self.statements(definition.body, collect=False)
            return ()
        except _Returned as returned:
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
            self.depth = depth

    # ---- statements ----

    def statements(self, body: list[ast.Statement], collect: bool = True) -> None:
        for statement in body:
            if self.ir.count > MAX_OPS:
                self.error("limit", statement.loc, f"the kernel unrolls to more than {MAX_OPS} operations", "use a run-time loop")
            try:
                self._STATEMENT[type(statement)](self, statement)
            except TileError as error:
                if not collect:
                    raise
                if error.loc is not None and error.loc.caller is None and self.caller is not None:
                    error.loc = self.at(error.loc)
                if not isinstance(error, Suppressed):
                    self.errors += error.errors
                for name in assigned_names([statement]):
                    self.scope.names[name] = POISON
                if len(self.errors) >= 20:
                    raise Errors(self.errors) from None

    def _assign(self, node: ast.Assign) -> None:
        if node.op is not None:
            old, new = self.operand(self.expr(node.targets[0]), node.loc), self.operand(self.expr(node.value), node.value.loc)
            try:
                self.bind(node.targets[0], self.infix(node.op, old, new, node.loc), node.value.loc)
            except ConstantError as error:
                raise TileError("constant", self.at(node.loc), str(error), error.hint) from None
            return
        value = self.expr(node.value)
        if len(node.targets) == 1:
            self.bind(node.targets[0], value, node.value.loc)
            return
        if not isinstance(value, tuple) or len(value) != len(node.targets):
            got = f"{len(value)} values" if isinstance(value, tuple) else describe(value)
            self.error("type", node.loc, f"{len(node.targets)} names for {got}")
        parts = node.value.items if isinstance(node.value, ast.Sequence) else [node.value] * len(value)
        value = tuple(self.as_value(v, p.loc) if isinstance(v, Access) else v for v, p in zip(value, parts, strict=True))
        for target, part, source in zip(node.targets, value, parts, strict=True):
            self.bind(target, part, source.loc)

    def bind(self, target: ast.Expr, value: Binding, loc: Loc) -> None:
        if isinstance(target, ast.Name):
            if isinstance(self.scope.names.get(target.id), SharedTile):
                from dsl.access import whole, write

                write(self, whole(self, self.scope.names[target.id], target.loc), value, loc)
                return
            if isinstance(value, Access):
                value = self.as_value(value, loc)
            if isinstance(value, Value) and value.name is None and not self.in_library:
                value.name = target.id
            self.scope.names[target.id] = value
            return
        if isinstance(target, ast.Index):
            from dsl.access import write

            access = self.expr(target)
            if not isinstance(access, Access):
                self.error("type", target.loc, "only tensors and shared tiles are written by index")
            write(self, access, value, loc)
            return
        self.error("syntax", target.loc, "this cannot be assigned to")

    def _expr_statement(self, node: ast.ExprStatement) -> None:
        self.expr(node.value)

    def _return(self, node: ast.Return) -> None:
        if not self.calls:
            self.error("syntax", node.loc, "'return' stands only in a def", "a kernel stores its results")
        if self.ir.depth != self.entry_depths[-1]:
            self.error("syntax", node.loc, "'return' inside a run-time 'if' or loop", "assign to a name and return it at the end")
        value = self.expr(node.value)
        raise _Returned(self.as_value(value, node.loc) if isinstance(value, Access) else value)

    def _grid(self, node: ast.Grid) -> None:
        self.error("syntax", node.loc, "'grid' is the first statement of a kernel and stands once")

    def _assert(self, node: ast.Assert) -> None:
        if self.caller is None and self.in_tile_if == 0 and self.ir.depth == 1 and self.host_only(node.condition):
            self.required(node)
            return
        condition = self.value(node.condition)
        if condition.dtype is not I1:
            self.error("type", node.loc, f"'assert' takes i1; this is {condition.tile}")
        if constant_of(condition) is True:
            return
        text = node.loc.source.text[node.loc.start : node.loc.end]
        self.ir.loc = self.at(node.loc)
        self.ir.op("assert", [condition], message=node.message or text, line=node.loc.line)
        self.function.attrs["record"] = True

    def required(self, node: ast.Assert) -> None:
        """An assertion that each launch evaluates; one of constants alone holds here and now or never."""
        condition = node.condition
        truth = isinstance(condition, ast.Compare) or getattr(condition, "op", None) in ("and", "or", "not")
        if not truth and not (isinstance(condition, ast.Name) and isinstance(self.expr(condition), bool)):
            self.error("type", node.loc, "'assert' takes a condition; this is a number", "compare with '!= 0'")
        if not any(isinstance(self.scope.find(name), Value) for name in names_in(condition)):
            if not self.expr(condition):
                self.error("require", node.loc, node.message or "this assertion does not hold", self.values_in(condition))
            return
        self.requires.append(node)

    def values_in(self, node: ast.Expr) -> str | None:
        """The constants that an expression reads, with their values."""
        known = {name: self.scope.find(name) for name in sorted(names_in(node))}
        return ", ".join(f"{n} is {describe(v)}" for n, v in known.items() if isinstance(v, bool | int | float)) or None

    def host_only(self, node: ast.Expr) -> bool:
        """True if the host can evaluate this: only numbers, dims, constants, scalar parameters and functions of numbers."""
        if isinstance(node, ast.Name):
            return node.id in self.host_names or node.id in ("true", "false")
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
                and node.function.id in ("cdiv", "next_pow2", "pow2_divisor", "log2", "minimum", "maximum", "size")
                and not node.keywords
                and all(self.host_only(a) for a in node.args)
            )
        return False

    def _shared(self, node: ast.Shared) -> None:
        dtype = self.dtype_named(node.dtype, node.loc)
        if self.ir.depth != 1:
            self.error("syntax", node.loc, "shared tiles are declared outside loops and branches")
        extents = []
        for i, e in enumerate(node.extents):
            number = self.constant(e, "an extent of a shared tile")
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                self.error("extent", e.loc, f"an extent is a positive integer; this is {number}")
            if i or (len(node.extents) == 1):
                if number & (number - 1) and not (i == 0 and len(node.extents) == 1):
                    self.check_extent(number, e.loc, "an inner extent of a shared tile")
            extents.append(number)
        self.ir.loc = self.at(node.loc)
        for name in node.names:
            type = SharedType(tuple(extents), dtype, node.ring)
            value = self.ir.op("shared_alloc", type=type, name=name).result
            value.name = name
            strides = _row_major(extents)
            self.scope.names[name] = SharedTile(value, extents, strides, has_slots=len(extents) > 1 or node.ring)

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

    def _if(self, node: ast.If) -> None:
        condition = self.expr(node.condition)
        if isinstance(condition, Access):
            condition = self.as_value(condition, node.condition.loc)
        if isinstance(condition, Value) and not condition.tile.shape and (known := constant_of(condition)) is not None:
            condition = known
        if not isinstance(condition, Value):
            if not isinstance(condition, bool | int | float):
                self.error("type", node.condition.loc, f"{describe(condition)} is no condition")
            self.statements(node.then if condition else node.otherwise, collect=False)
            return
        if condition.dtype is not I1:
            self.error("type", node.condition.loc, f"'if' takes i1; this is {condition.tile}", "compare with '!= 0'")
        is_tile = bool(condition.tile.shape)
        before = dict(self.scope.names)
        outcomes = []
        self.in_tile_if += is_tile
        for body in (node.then, node.otherwise):
            block = Block()
            with self.ir.region(block):
                self.scope.names = dict(before)
                self.statements(body, collect=False)
                outcomes.append((block, self.scope.names))
        self.in_tile_if -= is_tile
        (then, a), (otherwise, b) = outcomes
        self.scope.names = before
        merged: list[tuple[str, Value, Value]] = []
        for name in sorted(assigned_names([node])):
            x, y = a.get(name), b.get(name)
            if x is None or y is None:
                self.scope.names.pop(name, None)  # known on one side only: unknown after
                self.left_behind[name] = "in one branch of an 'if'"
                continue
            if x is y or (not isinstance(x, Value) and not isinstance(y, Value) and _same_binding(x, y)):
                self.scope.names[name] = x
                continue
            merged.append((name, *self.unify(then, x, otherwise, y, name, node.loc)))
        types = []
        for name, x, y in merged:
            if x.type != y.type:
                self.error("type", node.loc, f"'{name}' is {x.tile} in one branch and {y.tile} in the other")
            types.append(x.type)
        self.end(then, [x for _, x, _ in merged])
        self.end(otherwise, [y for _, _, y in merged])
        self.ir.loc = self.at(node.condition.loc)
        made = self.ir.op("if", [condition], [then, otherwise], types=types)
        for (name, _, _), result in zip(merged, made.results, strict=True):
            result.name = name
            self.scope.names[name] = result

    def unify(self, then: Block, x: Binding, otherwise: Block, y: Binding, name: str, loc: Loc) -> tuple[Value, Value]:
        """Both outcomes of a name as values of one type, made inside their branches."""
        for side in (x, y):
            if not isinstance(side, Value | bool | int | float):
                self.error("type", loc, f"'{name}' is {describe(side)} in a branch: only values can differ at run time")
        like = x.dtype if isinstance(x, Value) else y.dtype if isinstance(y, Value) else None
        if like is None:
            like = F32 if isinstance(x, float) or isinstance(y, float) else I1 if isinstance(x, bool) else INDEX
        out = []
        for block, side in ((then, x), (otherwise, y)):
            with self.ir.region(block):
                value = side if isinstance(side, Value) else self.number(side, like, loc)
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

    def carried(self, body: list[ast.Statement], loc: Loc, skip: str | None = None) -> list[tuple[str, Value]]:
        """The names that a loop rebinds and that exist before it, as values."""
        out = []
        for name in sorted(assigned_names(body)):
            before = self.scope.names.get(name)
            if name == skip or before is None or isinstance(before, SharedTile):
                continue
            if before is POISON:
                raise Suppressed("name", loc, name)
            if isinstance(before, bool | int | float):
                before = self.natural(before, loc)
            if not isinstance(before, Value):
                self.error("type", loc, f"'{name}' is {describe(before)}: a loop can only change values")
            out.append((name, before))
        return out

    def loop_region(self, block: Block, carried: list[tuple[str, Value]], body: list[ast.Statement]) -> list[Value]:
        """Builds a loop's body; what the carried names are at its end."""
        before = self.scope.names
        self.scope.names = dict(before)
        for (name, _), arg in zip(carried, block.args[-len(carried) :] if carried else [], strict=True):
            arg.name = name
            self.scope.names[name] = arg
        with self.ir.region(block):
            self.statements(body, collect=False)
            out = []
            for name, start in carried:
                value = self.scope.names[name]
                if isinstance(value, bool | int | float):
                    value = self.number(value, start.dtype, body[-1].loc)
                if not isinstance(value, Value):
                    self.error("type", body[-1].loc, f"'{name}' becomes {describe(value)} in the loop")
                if value.tile.shape != start.tile.shape and not value.tile.shape:
                    value = self.ir.broadcast(value, start.tile.shape)
                if value.dtype is not start.dtype and {value.dtype.name, start.dtype.name} == {"index", "s32"}:
                    value = self.ir.value("cast", value, to=start.dtype, saturate=False, rounding=None)
                if value.type != start.type:
                    hint = f"start it with that type, for example {name} = zeros(...) or .to({value.dtype})"
                    self.error("type", body[-1].loc, f"'{name}' is {start.tile} before the loop and {value.tile} after a round", hint)
                out.append(value)
        self.left_behind |= {n: "inside the loop" for n in self.scope.names.keys() - before.keys()}
        self.scope.names = before
        return out

    def _for(self, node: ast.For) -> None:
        iterable = node.iterable
        if not (isinstance(iterable, ast.Call) and isinstance(iterable.function, ast.Name) and iterable.function.id == "range"):
            self.error("syntax", iterable.loc, "a loop runs over range(stop) or range(start, stop[, step])")
        if iterable.keywords or not 1 <= len(iterable.args) <= 3:
            self.error("call", iterable.loc, "range takes 1 to 3 arguments")
        if node.static:
            bounds = [self.constant(a, "a bound of 'for static'") for a in iterable.args]
            if not all(isinstance(b, int) for b in bounds) or (len(bounds) == 3 and bounds[2] == 0):
                self.error("constant", iterable.loc, "the bounds of a range are integers, the step not 0")
            turns = range(*bounds)  # type: ignore[arg-type]
            count = max(0, -(-(turns.stop - turns.start) // turns.step))
            if count > MAX_OPS:
                self.error("limit", iterable.loc, f"{count} unrolled rounds", "use a run-time loop")
            for i in turns:
                self.scope.names[node.name] = i
                self.statements(node.body, collect=False)
            return
        bounds = [self.scalar(a, "a bound of a range") for a in iterable.args]
        for bound, arg in zip(bounds, iterable.args, strict=True):
            if not bound.dtype.is_int:
                self.error("type", arg.loc, f"a bound of a range is an integer; this is {bound.tile}")
        if len(bounds) == 1:
            bounds.insert(0, self.number(0, bounds[0].dtype, iterable.loc))
        if len(bounds) == 2:
            bounds.append(self.number(1, bounds[0].dtype, iterable.loc))
        step = constant_of(bounds[2])
        if step == 0:
            self.error("constant", iterable.loc, "the step of a range is 0")
        start, stop, step_value = self.agree(bounds, iterable.loc)  # type: ignore[arg-type]
        if step is None and (self.facts.of(step_value).low or 0) <= 0 and self.facts.of(step_value).low is None:
            self.error("constant", iterable.args[-1].loc, "the step of a range is a constant or known to be positive")
        carried = self.carried(node.body, node.loc, skip=node.name)
        counter = Value(start.type, name=node.name)
        block = Block([counter, *(Value(v.type) for _, v in carried)])
        self.ir.loc = self.at(node.loc)
        made = self.ir.op("for", [start, stop, step_value, *(v for _, v in carried)], [block], unroll=self.unroll_of(node.name))
        self.facts.enter_loop(made)
        self.ir.block.ops.pop()
        before = self.scope.names.get(node.name)
        self.scope.names[node.name] = counter
        values = self.loop_region(block, carried, node.body)
        if before is None:
            self.scope.names.pop(node.name, None)
            self.left_behind[node.name] = "inside the loop"
        else:
            self.scope.names[node.name] = before
        self.end(block, values)
        self.ir.block.ops.append(made)
        for (name, _), result in zip(carried, made.results, strict=True):
            result.name = name
            self.scope.names[name] = result

    def unroll_of(self, name: str) -> int:
        return self.function.attrs.get("unroll", {}).get(name, 1)

    def _while(self, node: ast.While) -> None:
        carried = self.carried(node.body, node.loc)
        test = Block([Value(v.type, name=n) for n, v in carried])
        with self.ir.region(test):
            before = self.scope.names
            self.scope.names = before | {n: a for (n, _), a in zip(carried, test.args, strict=True)}
            condition = self.scalar(node.condition, "the condition of 'while'")
            self.scope.names = before
            if condition.dtype is not I1:
                self.error("type", node.condition.loc, f"'while' takes i1; this is {condition.tile}")
            if constant_of(condition) is True:
                self.error("limit", node.condition.loc, "this loop never ends")
            self.ir.op("condition", [condition, *test.args])
        body = Block([Value(v.type) for _, v in carried])
        values = self.loop_region(body, carried, node.body)
        self.end(body, values)
        self.ir.loc = self.at(node.loc)
        made = self.ir.op("while", [v for _, v in carried], [test, body])
        for (name, _), result in zip(carried, made.results, strict=True):
            result.name = name
            self.scope.names[name] = result

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


def _same_binding(a: Binding, b: Binding) -> bool:
    if isinstance(a, Closure) and isinstance(b, Closure):
        return a.node is b.node and a.scope is b.scope
    return type(a) is type(b) and a == b


def _narrow(builder: KernelBuilder, access: Access) -> SharedTile:
    from dsl.access import narrow

    return narrow(builder, access)


def _row_major(extents: list[int]) -> list[int]:
    out = [1] * len(extents)
    for i in range(len(extents) - 2, -1, -1):
        out[i] = out[i + 1] * extents[i + 1]
    return out


def assigned_names(body: list[ast.Statement]) -> set[str]:
    """The names that statements bind in their own scope (a nested def binds its name only)."""
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
            out |= assigned_names(node.body) | {node.name}
        elif isinstance(node, ast.While):
            out |= assigned_names(node.body)
    return out


def describe(binding: Binding) -> str:
    """What a name stands for, for an error message."""
    if isinstance(binding, Value):
        return ("a scalar " if not binding.tile.shape else "a tile ") + str(binding.tile)
    if isinstance(binding, bool):
        return str(binding).lower()
    if isinstance(binding, int | float):
        return f"the number {binding}"
    if isinstance(binding, str):
        return "a string"
    if isinstance(binding, tuple):
        return f"a tuple of {len(binding)}" if binding else "the result of a def without 'return'"
    if isinstance(binding, DType):
        return f"the type {binding}"
    if isinstance(binding, Closure):
        return f"the function '{binding.node.name}'"
    if isinstance(binding, Builtin):
        return f"the function '{binding.name}'"
    if isinstance(binding, Absent):
        return f"the absent tensor '{binding.name}'"
    if isinstance(binding, Tensor):
        return f"the tensor '{binding.parameter.name}'"
    if isinstance(binding, SharedTile):
        return f"the shared tile '{binding.value.name}'"
    if isinstance(binding, Table):
        return f"the table '{binding.value.name}'"
    return "this"


__all__ = ["KernelBuilder", "TableType", "TensorType", "TileType", "linear"]
