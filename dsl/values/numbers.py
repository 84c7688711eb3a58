"""Expressions on the host: schedules, grids, requirements. Numbers here; `host.py` adds arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dsl.text import tree as ast
from dsl.values.arithmetic import FUNCTIONS, ConstantError, call, infix, prefix
from lowering.location import TileError, closest
from lowering.targets import RESERVED_SHARED
from lowering.types import DTYPES, DType

WORDS: dict[str, Any] = {
    "true": True,
    "false": False,
    "True": True,
    "False": False,
    "inf": float("inf"),
    "nan": float("nan"),
}


def _occupancy(node: ast.Call) -> ast.Expr:
    """`occupancy(warps, shared_bytes[, registers])`: blocks that a multiprocessor holds at once, as an expression over
    what the target has. Registers, a thread's, go to a warp in eights."""
    if len(node.args) not in (2, 3) or node.keywords:
        raise TileError("call", node.loc, "occupancy takes warps, the bytes of shared memory and, if known, registers")
    at = node.loc

    def infix(op: str, left: ast.Expr, right: ast.Expr) -> ast.Expr:
        return ast.Binary(at, op, left, right)

    def number(value: int) -> ast.Expr:
        return ast.Number(at, value)

    warps, shared, *registers = node.args
    limits = [
        ast.Name(at, "blocks_per_sm"),
        infix("//", ast.Name(at, "threads_per_sm"), infix("*", warps, number(32))),
        infix("//", ast.Name(at, "shared_per_sm"), infix("+", shared, number(RESERVED_SHARED))),
    ]
    if registers:
        eights = ast.Call(at, ast.Name(at, "cdiv"), [registers[0], number(8)], {})
        limits.append(infix("//", ast.Name(at, "registers"), infix("*", eights, infix("*", warps, number(256)))))
    return ast.Call(at, ast.Name(at, "minimum"), limits, {})


class Evaluator:
    """Evaluates expressions over `names`. A subclass may know more functions and values than numbers."""

    def __init__(self, names: Mapping[str, Any]):
        self.names = names
        self.depth = 0

    def __call__(self, node: ast.Expr) -> Any:
        self.depth += 1
        try:
            if self.depth > ast.MAX_NESTING:
                raise TileError("limit", node.loc, f"expressions are nested more than {ast.MAX_NESTING} deep")
            return self._NODES[type(node)](self, node)
        except ConstantError as error:
            raise TileError("constant", node.loc, str(error), error.hint) from None
        finally:
            self.depth -= 1

    def argument(self, node: ast.Expr) -> Any:
        """An argument of a launch: `None` leaves an optional tensor out."""
        return None if ast.is_none(node) else self(node)

    def number(self, node: ast.Expr, what: str) -> int | float | bool:
        value = self(node)
        if not isinstance(value, bool | int | float):
            raise TileError("constant", node.loc, f"{what} is a number")
        return value

    def integer(self, node: ast.Expr, what: str) -> int:
        value = self(node)
        if isinstance(value, bool) or not isinstance(value, int):
            raise TileError("constant", node.loc, f"{what} is an integer; this is {value}")
        return value

    def name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            return self.names[node.id]
        if node.id in WORDS:
            return WORDS[node.id]
        if node.id in DTYPES:
            return DTYPES[node.id]
        known = [*self.names, *WORDS, *DTYPES, *FUNCTIONS, *self.more_names()]
        raise TileError("name", node.loc, f"unknown name '{node.id}'", closest(node.id, known))

    def more_names(self) -> list[str]:
        return []

    def infix(self, op: str, left: Any, right: Any, node: ast.Expr) -> Any:
        for side in (left, right):
            if not isinstance(side, bool | int | float):
                raise TileError("constant", node.loc, f"'{op}' takes numbers here")
        return infix(op, left, right)

    def unary(self, node: ast.Unary) -> Any:
        return prefix(node.op, self.number(node.value, "an operand"))

    def binary(self, node: ast.Binary) -> Any:
        left = self(node.left)
        if node.op in ("and", "or"):
            if bool(left) == (node.op == "or"):
                return bool(left)
            return bool(self(node.right))
        return self.infix(node.op, left, self(node.right), node)

    def compare(self, node: ast.Compare) -> Any:
        values = [self(o) for o in node.operands]
        result = True
        for op, a, b in zip(node.ops, values, values[1:], strict=False):
            if isinstance(a, DType) or isinstance(b, DType):
                result = result and ((a is b) == (op == "=="))
            else:
                result = result and self.infix(op, a, b, node)
        return result

    def call(self, node: ast.Call) -> Any:
        if isinstance(node.function, ast.Name):
            name = node.function.id
            if name == "size" and len(node.args) == 1:
                dtype = self(node.args[0])
                if not isinstance(dtype, DType):
                    raise TileError("type", node.loc, "size takes a type: its bytes")
                return dtype.bytes
            if name == "given" and len(node.args) == 1 and isinstance(node.args[0], ast.Name):
                known = self.names.get(f"given({node.args[0].id})")
                if known is not None:
                    return known
                raise TileError("name", node.loc, f"'{node.args[0].id}' is no optional tensor here")
            if name == "occupancy":
                return self(_occupancy(node))
            if name in FUNCTIONS and not node.keywords:
                return call(name, [self(a) for a in node.args])
            raise TileError(
                "name",
                node.loc,
                f"unknown function '{name}'",
                closest(name, [*FUNCTIONS, "size", "given", "occupancy", *self.more_names()]),
            )
        raise TileError("call", node.loc, "this cannot be called here")

    def other(self, node: ast.Expr) -> Any:
        raise TileError("syntax", node.loc, "this has no value here")

    def sequence(self, node: ast.Sequence) -> Any:
        return [self(i) for i in node.items] if node.is_list else tuple(self(i) for i in node.items)

    _NODES: dict[type, Any] = {  # noqa: RUF012
        ast.Name: lambda self, n: self.name(n),
        ast.Number: lambda self, n: n.value,
        ast.String: lambda self, n: n.value,
        ast.Unary: lambda self, n: self.unary(n),
        ast.Binary: lambda self, n: self.binary(n),
        ast.Compare: lambda self, n: self.compare(n),
        ast.Call: lambda self, n: self.call(n),
        ast.Sequence: lambda self, n: self.sequence(n),
        ast.Index: lambda self, n: self.other(n),
        ast.Attribute: lambda self, n: self.other(n),
        ast.WithSchedule: lambda self, n: self.other(n),
    }


def _least(a: Any, b: Any, *more: Any) -> list:
    return ["min", a, b, *more]


def _greatest(a: Any, b: Any, *more: Any) -> list:
    return ["max", a, b, *more]


TREE_FUNCTIONS: dict[str, Callable[..., list]] = {
    "cdiv": lambda a, b: ["cdiv", a, b],
    "next_pow2": lambda n: ["next_pow2", n],
    "pow2_divisor": lambda n: ["pow2_divisor", n],
    "log2": lambda n: ["log2", n],
    "min": _least,
    "max": _greatest,
    "minimum": _least,
    "maximum": _greatest,
    "where": lambda c, a, b: ["where", c, a, b],
    "abs": lambda x: ["max", x, ["-", 0, x]],
    "clamp": lambda x, low, high: ["min", ["max", x, low], high],
}
"""The functions of numbers that a launch evaluates: each as the tree of its arguments' trees."""


def to_tree(node: ast.Expr, names: Mapping[str, Any], types: Mapping[str, DType]) -> Any:
    """An expression as the header's JSON tree. `names` are those the launch knows: each stands for itself, or for the
    number it maps to when that is no None. `given(x)` among them says whether the optional tensor x is there."""

    def fail(message: str) -> TileError:
        return TileError(
            "constant", node.loc, message, "dims, constants, scalar parameters and 'sms' are known to a launch"
        )

    def tree(n: ast.Expr) -> Any:
        if isinstance(n, ast.Name):
            if n.id in names:
                return n.id if names[n.id] is None else names[n.id]
            if n.id in ("true", "false"):
                return n.id == "true"
            raise TileError("name", n.loc, f"unknown name '{n.id}'", closest(n.id, list(names)) or fail("").hint)
        if isinstance(n, ast.Number):
            return n.value
        if isinstance(n, ast.Unary):
            inner = tree(n.value)
            return ["not", inner] if n.op == "not" else ["-", 0, inner] if n.op == "-" else ["^", -1, inner]
        if isinstance(n, ast.Binary):
            if n.op in ("**", "@"):
                raise fail(f"'{n.op}' is not known to a launch")
            return [n.op, tree(n.left), tree(n.right)]
        if isinstance(n, ast.Compare):
            parts = [[op, tree(a), tree(b)] for op, a, b in zip(n.ops, n.operands, n.operands[1:], strict=False)]
            out = parts[0]
            for p in parts[1:]:
                out = ["and", out, p]
            return out
        if isinstance(n, ast.Call) and isinstance(n.function, ast.Name) and not n.keywords:
            if n.function.id == "size" and len(n.args) == 1 and isinstance(n.args[0], ast.Name):
                dtype = types.get(n.args[0].id) or DTYPES.get(n.args[0].id)
                if dtype is not None:
                    return dtype.bytes
            if n.function.id == "given" and len(n.args) == 1 and isinstance(n.args[0], ast.Name):
                known = names.get(f"given({n.args[0].id})")
                if known is not None:
                    return known
            if n.function.id == "occupancy":
                return tree(_occupancy(n))
            if n.function.id in TREE_FUNCTIONS:
                arguments = [tree(a) for a in n.args]
                try:
                    return TREE_FUNCTIONS[n.function.id](*arguments)
                except TypeError:
                    wrong = f"{n.function.id} does not take {len(n.args)} argument{'s' * (len(n.args) != 1)}"
                    raise TileError("call", n.loc, wrong) from None
        raise fail("a launch cannot evaluate this")

    return tree(node)
