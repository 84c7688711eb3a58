"""Draws expressions of a given type and shape from the names in sight."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tests.random_kernels.meaning import (
    BITS,
    EXACT,
    FLOATS,
    INTEGERS,
    LIMIT,
    NUMBERS,
    NUMPY,
    UNSIGNED,
    Expr,
    State,
    clamped,
    converted,
    exactly,
    fitting,
    highest,
    literal,
    lowest,
    shifted,
    whole_number,
)
from tests.random_kernels.tree import Parameter, Program, Statement

Shape = tuple[int, ...]


@dataclass
class Variable:
    name: str
    dtype: str
    shape: Shape
    bound: float
    fixed: bool = False
    """Whether no statement may bind it anew."""
    text: str = ""
    """How it is written, where that is not its name: a counter of type `index` as s32."""


@dataclass
class Memory:
    """A tensor, or a shared tile. `owned`: its first axis counts blocks, and each block keeps to its own."""

    name: str
    dtype: str
    shape: Shape
    shared: bool = False
    ring: bool = False
    owned: bool = False
    writable: bool = False
    bound: float = 0
    dims: tuple[str, ...] = ()


@dataclass
class Scope:
    """What statements may use at one place."""

    variables: list[Variable] = field(default_factory=list)
    loops: int = 0
    branches: int = 0
    threads: Shape | None = None
    """Inside a branch of threads: the shape of its condition."""


class Drawing:
    """A random program in the making."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.program = Program(seed)
        self.scope = Scope()
        self.memories: list[Memory] = []
        self.shapes: list[Shape] = []
        self.pinned: list[tuple[str, Shape]] = []
        self.names = 0
        self.before: list[Statement] = []
        """What the statement that is being drawn needs before it."""

    # ---- choices ----

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def pick(self, choices: Any) -> Any:
        return self.random.choice(list(choices))

    def note(self, feature: str) -> None:
        self.program.features[feature] += 1

    def fresh(self, stem: str = "t") -> str:
        self.names += 1
        return f"{stem}_{self.names}"

    def power(self, low: int, high: int) -> int:
        return 1 << self.random.randint(low, high)

    def shape(self) -> Shape:
        """One of the kernel's shapes, mostly one that a tile has."""
        held = [v.shape for v in self.scope.variables if v.shape and size_of(v.shape) <= 512]
        return self.pick(held) if held and self.chance(0.6) else self.pick(self.shapes)

    def dtype(self, kinds: tuple[str, ...] = NUMBERS) -> str:
        common = [d for d in ("s32", "s32", "f32", "u32", "f16") if d in kinds]
        return self.pick(common) if common and self.chance(0.4) else self.pick(kinds)

    # ---- names ----

    @contextmanager
    def inner(self, **changes: Any) -> Iterator[None]:
        """A block: what is bound first in it ends with it."""
        before = self.scope
        self.scope = Scope(list(before.variables), before.loops, before.branches, before.threads)
        for key, change in changes.items():
            setattr(self.scope, key, change)
        try:
            yield
        finally:
            self.scope = before

    def bind(self, expr: Expr, stem: str = "t", fixed: bool = False) -> tuple[str, Variable]:
        name = self.fresh(stem)
        variable = Variable(name, expr.dtype, expr.shape, expr.bound, fixed)
        self.scope.variables.append(variable)
        return name, variable

    def variables(self, dtype: str | None = None, want: Callable[[Variable], bool] = lambda v: True) -> list[Variable]:
        return [v for v in self.scope.variables if (dtype is None or v.dtype == dtype) and want(v)]

    def of(self, v: Variable) -> Expr:
        return Expr(v.text or v.name, lambda s: s.names[v.name], v.dtype, v.shape, v.bound)

    def number(self, dtype: str, small: bool = False) -> Expr:
        """A literal in the type's range."""
        if dtype == "i1":
            return literal(self.pick([0, 1]), "i1")
        if dtype in FLOATS:
            return literal(self.random.randint(-5, 5), dtype)
        low, high = lowest(dtype), highest(dtype)
        edge = self.pick([low, high, high - 1, low + 1, high // 2 + 1])
        value = edge if self.chance(0.15) and not small else self.random.randint(max(low, -9), min(high, 9))
        return literal(value, dtype)

    def array(self, dtype: str, shape: Shape, bound: int | None = None) -> np.ndarray:
        """Random elements: floats and fp8 are small integers."""
        values = np.random.default_rng(self.random.getrandbits(32))
        if dtype == "i1":
            return values.integers(0, 2, shape).astype(bool)
        if dtype in ("e4m3", "e5m2"):
            return values.integers(-2, 3, shape).astype(NUMPY[dtype])
        if dtype in FLOATS or bound is not None:
            most = 9 if bound is None else bound
            return values.integers(0 if dtype in UNSIGNED else -most, most + 1, shape).astype(NUMPY[dtype])
        if self.chance(0.5):
            return values.integers(max(lowest(dtype), -100), 101, shape).astype(NUMPY[dtype])
        return values.integers(lowest(dtype), highest(dtype), shape, NUMPY[dtype], endpoint=True)

    def scalar_parameter(self, dtype: str, value: int) -> Expr:
        """A scalar of the launch with this value: one that is there, or a new one."""
        for p in self.program.parameters:
            if p.kind == "scalar" and p.dtype == dtype and p.value == value:
                return Expr(p.name, lambda s, n=p.name: s.names[n], dtype, (), abs(value))
        name = self.fresh("p")
        self.program.parameters.append(Parameter(name, dtype, value=value, kind="scalar"))
        self.note(f"scalar {dtype}")
        return Expr(name, lambda s: s.names[name], dtype, (), abs(value))

    # ---- expressions ----

    def expr(self, dtype: str, shape: Shape, depth: int = 2) -> Expr:
        """An expression of exactly this type and shape; of floats within the type's limit."""
        if depth <= 0 or self.chance(0.15):
            return self.leaf(dtype, shape)
        if dtype == "i1":
            return self.condition(shape, depth)
        if self.chance(0.12):
            return self.conversion(dtype, shape, depth)
        if self.chance(0.12):
            c, a, b = self.condition(shape, depth - 1), self.expr(dtype, shape, depth - 1), self.operand(dtype, shape)
            self.note("where")
            return Expr(
                f"where({c.text}, {a.text}, {b.text})",
                lambda s: np.where(c.value(s), a.value(s), b.of(s)), dtype, shape, max(a.bound, b.bound),
            )  # fmt: skip
        return self.float_operation(dtype, shape, depth) if dtype in FLOATS else self.operation(dtype, shape, depth)

    def leaf(self, dtype: str, shape: Shape) -> Expr:
        found = self.variables(dtype, lambda v: v.shape == shape)
        if found and self.chance(0.85):
            return self.of(self.pick(found[-6:]))
        others = self.variables(None, lambda v: v.shape == shape and v.dtype != dtype and v.dtype != "i1")
        if others and dtype != "i1":
            return self.converted(self.of(self.pick(others)), dtype)
        if not shape:
            if dtype == "i1":
                return self.compared(self.leaf("s32", ()), self.number("s32"), "<")
            if self.chance(0.5):
                return self.converted(Expr("block(0).to(s32)", lambda s: np.int64(s.block), "s32"), dtype)
            value = self.random.randint(0, 5)
            return self.scalar_parameter(dtype, value)
        if len(shape) == 1 and dtype in INTEGERS and shape[0] <= highest(dtype) and self.chance(0.4):
            n = shape[0]
            return Expr(f"arange({n}).to({dtype})", lambda s: np.arange(n, dtype=NUMPY[dtype]), dtype, shape)
        if self.chance(0.6):
            return self.loaded_before(dtype, shape)
        number = self.number(dtype)
        text = f"full({dtype}[{', '.join(map(str, shape))}], {number.text})"
        return Expr(text, number.of, dtype, shape, number.bound)

    def loaded_before(self, dtype: str, shape: Shape) -> Expr:
        """A tile that a line before the statement loads."""
        raise NotImplementedError

    def operand(self, dtype: str, shape: Shape, depth: int = 0) -> Expr:
        """What goes with a tile of this shape: the same shape, one that is broadcast, a scalar, a literal."""
        roll = self.random.random()
        if roll < 0.25:
            return self.number(dtype)
        if roll < 0.55:
            found = self.variables(dtype, lambda v: v.shape != shape and broadcasts(v.shape, shape))
            if found:
                self.note("broadcast")
                return self.of(self.pick(found))
        return self.expr(dtype, shape, depth)

    def converted(self, e: Expr, to: str) -> Expr:
        """`e` in another type."""
        source = e.dtype
        if source == to:
            return e
        self.note("conversion")
        if to == "i1":
            return Expr(f"{e.text}.to(i1)", lambda s: np.asarray(e.of(s)) != 0, "i1", e.shape)
        if to in FLOATS and source in INTEGERS:
            most = min(int(LIMIT[to]), highest(source))
            if highest(source) > LIMIT[to] or lowest(source) < -LIMIT[to]:
                low = max(-most, lowest(source))
                inner, text = e, f"clamp({e.text}, {low}, {most})"
                low_value, high_value = NUMPY[source](low), NUMPY[source](most)
                e = Expr(text, lambda s: np.minimum(np.maximum(inner.value(s), low_value), high_value), source, e.shape)
            return Expr(f"({e.text}).to({to})", lambda s: converted(e.value(s), source, to), to, e.shape, most)
        if to in FLOATS and source in FLOATS:
            e = clamped(e, LIMIT[to])
            return Expr(f"({e.text}).to({to})", lambda s: converted(e.value(s), source, to), to, e.shape, e.bound)
        if to in FLOATS:
            return Expr(f"({e.text}).to({to})", lambda s: converted(e.value(s), source, to), to, e.shape, 1)
        saturate = source in INTEGERS and self.chance(0.25)
        mode = ", saturate" if saturate else ""
        return Expr(f"({e.text}).to({to}{mode})", lambda s: converted(e.value(s), source, to, saturate), to, e.shape)

    def conversion(self, dtype: str, shape: Shape, depth: int) -> Expr:
        same_width = [d for d in INTEGERS if BITS[d] == BITS[dtype] and d != dtype] if dtype in INTEGERS else []
        if same_width and self.chance(0.3):
            e = self.expr(self.pick(same_width), shape, depth - 1)
            self.note("bitcast")
            return Expr(f"bitcast({e.text}, {dtype})", lambda s: e.value(s).astype(NUMPY[dtype]), dtype, shape)
        if self.chance(0.1):
            return self.converted(self.condition(shape, depth - 1), dtype)
        return self.converted(self.expr(self.dtype(), shape, depth - 1), dtype)

    def compared(self, a: Expr, b: Expr, op: str) -> Expr:
        f = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal,
             "!=": np.not_equal}[op]  # fmt: skip
        shape = np.broadcast_shapes(a.shape, b.shape)
        return Expr(f"({a.text} {op} {b.text})", lambda s: f(a.value(s), b.value(s)), "i1", shape)

    def condition(self, shape: Shape, depth: int = 1) -> Expr:
        """An i1 expression of exactly this shape."""
        if depth > 0 and self.chance(0.2):
            a, b = self.condition(shape, depth - 1), self.condition(shape, depth - 1)
            op, f = self.pick([("and", np.logical_and), ("or", np.logical_or), ("&", np.logical_and),
                               ("|", np.logical_or), ("^", np.logical_xor)])  # fmt: skip
            return Expr(f"({a.text} {op} {b.text})", lambda s: f(a.value(s), b.value(s)), "i1", shape)
        if self.chance(0.1):
            a = self.condition(shape, 0)
            return Expr(f"(not {a.text})", lambda s: ~a.value(s), "i1", shape)
        dtype = self.dtype()
        a, b = self.expr(dtype, shape, depth - 1), self.operand(dtype, shape)
        if a.text == b.text:
            b = self.number(dtype, small=True)
        return self.compared(a, b, self.pick(["<", "<=", ">", ">=", "==", "!="]))

    def operation(self, dtype: str, shape: Shape, depth: int) -> Expr:
        """Arithmetic of integers."""
        a = self.expr(dtype, shape, depth - 1)
        to = NUMPY[dtype]
        roll = self.random.random()
        if roll < 0.5:
            b = self.operand(dtype, shape, depth - 1)
            if self.chance(0.3):
                a, b = b, a
            text, f = self.pick(
                [
                    ("({} + {})", np.add), ("({} - {})", np.subtract), ("({} * {})", np.multiply),
                    ("({} & {})", np.bitwise_and), ("({} | {})", np.bitwise_or), ("({} ^ {})", np.bitwise_xor),
                    ("minimum({}, {})", np.minimum), ("maximum({}, {})", np.maximum),
                ]
            )  # fmt: skip
            if not a.shape and not b.shape and shape:
                return self.leaf(dtype, shape)
            return Expr(text.format(a.text, b.text), lambda s: f(a.value(s), b.value(s)), dtype, shape)
        if roll < 0.65:
            choices = [n for n in (-7, -2, 1, 2, 3, 4, 5, 8, 16, 100) if lowest(dtype) <= n]
            n = self.pick(choices)
            op, f = self.pick([("//", np.floor_divide), ("%", np.mod)])
            if self.chance(0.3):
                b = self.operand(dtype, shape)
                return Expr(
                    f"({a.text} {op} ({b.text} | 1))", lambda s: f(a.value(s), b.value(s) | to(1)), dtype, shape
                )
            return Expr(f"({a.text} {op} {whole_number(n)})", lambda s: f(a.value(s), to(n)), dtype, shape)
        if roll < 0.75:
            left, bits = self.chance(0.5), BITS[dtype]
            sign = "<<" if left else ">>"
            if self.chance(0.5):
                d = self.random.randint(0, bits - 1)
                return Expr(f"({a.text} {sign} {d})", lambda s: shifted(a.value(s), d, dtype, left), dtype, shape)
            b = self.operand(dtype, shape)
            return Expr(
                f"({a.text} {sign} ({b.text} & {bits - 1}))",
                lambda s: shifted(a.value(s), b.value(s) & to(bits - 1), dtype, left), dtype, shape,
            )  # fmt: skip
        name = self.pick(["abs", "-", "~", "popc", "clz", "brev", "mulhi", "cdiv", "power", "sign", "relu", "clamp"])
        if name in ("-", "abs", "sign", "relu") and dtype in UNSIGNED:
            name = "~"
        self.note(name)
        mask, bits = (1 << BITS[dtype]) - 1, BITS[dtype]
        if name in ("-", "~"):
            return Expr(f"({name}{a.text})", lambda s: (np.negative if name == "-" else np.invert)(a.value(s)),
                        dtype, shape)  # fmt: skip
        if name == "power":
            n = self.random.randint(0, 5)
            return Expr(f"({a.text} ** {n})", lambda s: exactly(lambda x: x**n, dtype, a.value(s)), dtype, shape)
        if name == "clamp":
            low, high = sorted((int(self.number(dtype).bound), int(self.number(dtype).bound)))
            high = min(high, highest(dtype))
            low = min(low, high)
            return Expr(
                f"clamp({a.text}, {low}, {high})",
                lambda s: np.minimum(np.maximum(a.value(s), to(low)), to(high)), dtype, shape,
            )  # fmt: skip
        if name == "mulhi":
            b = self.operand(dtype, shape)
            return Expr(
                f"mulhi({a.text}, {b.text})",
                lambda s: exactly(lambda x, y: (x * y) >> bits, dtype, a.value(s), b.value(s)), dtype, shape,
            )  # fmt: skip
        if name == "cdiv":
            n = self.pick([1, 2, 3, 7, 64])
            return Expr(
                f"cdiv({a.text}, {n})", lambda s: exactly(lambda x: -(-x // n), dtype, a.value(s)), dtype, shape
            )
        one: Callable[[int], int] = {
            "abs": abs,
            "popc": lambda x: (x & mask).bit_count(),
            "clz": lambda x: bits - (x & mask).bit_length(),
            "brev": lambda x: int(f"{x & mask:0{bits}b}"[::-1], 2),
            "sign": lambda x: (x > 0) - (x < 0),
            "relu": lambda x: max(x, 0),
        }[name]
        return Expr(f"{name}({a.text})", lambda s: exactly(one, dtype, a.value(s)), dtype, shape)

    def float_operation(self, dtype: str, shape: Shape, depth: int) -> Expr:
        """Arithmetic of floats that hold integers: each operation rounds once, as numpy's does."""
        a = self.expr(dtype, shape, depth - 1)
        to = NUMPY[dtype]
        roll = self.random.random()
        if roll < 0.6:
            b = self.operand(dtype, shape, depth - 1)
            if a.bound * b.bound > EXACT[dtype]:  # so that a product is exact, and may be contracted
                a, b = clamped(a, 11), clamped(b, 11) if b.shape or b.bound > 11 else b
            text, f, bound = self.pick(
                [
                    ("({} + {})", np.add, a.bound + b.bound), ("({} - {})", np.subtract, a.bound + b.bound),
                    ("({} * {})", np.multiply, a.bound * b.bound),
                    ("minimum({}, {})", np.minimum, max(a.bound, b.bound)),
                    ("maximum({}, {})", np.maximum, max(a.bound, b.bound)),
                ]
            )  # fmt: skip
            return fitting(Expr(text.format(a.text, b.text), lambda s: f(a.value(s), b.value(s)), dtype, shape, bound))
        if roll < 0.7:
            name, g = self.pick([("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("round", np.rint)])
            n = self.pick([2, 4, 8])
            self.note(name)
            return Expr(
                f"{name}({a.text} / {n}.0)", lambda s: g((a.value(s) / to(n)).astype(np.float64)), dtype, shape,
                a.bound,
            )  # fmt: skip
        if roll < 0.8:
            b, c = self.operand(dtype, shape), self.operand(dtype, shape)
            self.note("fma")
            if a.bound * b.bound + c.bound <= EXACT[dtype]:

                def fused(s: State) -> np.ndarray:
                    x, y, z = (e.value(s).astype(np.float64) for e in (a, b, c))
                    return x * y + z

                bound = a.bound * b.bound + c.bound
                return fitting(Expr(f"fma({a.text}, {b.text}, {c.text})", fused, dtype, shape, bound))
        name = self.pick(["abs", "-", "relu", "sign", "sqrt"])
        self.note(name)
        if name == "sqrt":
            a = clamped(a, 11)
            return Expr(f"sqrt({a.text} * {a.text})", lambda s: np.abs(a.value(s)), dtype, shape, a.bound)
        if name == "-":
            return Expr(f"(-{a.text})", lambda s: -a.value(s), dtype, shape, a.bound)
        h = {"abs": np.abs, "relu": lambda x: np.maximum(x, to(0)), "sign": lambda x: np.sign(x.astype(np.float64))}
        return Expr(f"{name}({a.text})", lambda s: h[name](a.value(s)), dtype, shape, max(a.bound, 1))  # type: ignore[operator]

    def small(self, e: Expr, bound: int) -> Expr:
        """Within a bound, of any type of number: for sums of floats."""
        return clamped(e, bound) if e.dtype in FLOATS else e

    def named(self, e: Expr) -> Expr:
        """The same by a name that a line before the statement gives it."""
        from tests.random_kernels.tree import Assign

        name = self.fresh("n")
        self.before.append(Assign(name, e))
        return Expr(name, lambda s: s.names[name], e.dtype, e.shape, e.bound)

    def scalar_number(self, low: int, high: int, dtype: str = "s32") -> Expr:
        """A scalar between two numbers: a literal, a parameter, or arithmetic on what is there."""
        roll = self.random.random()
        held = np.iinfo(NUMPY[dtype])
        value = min(max(self.random.randint(low, high), int(held.min)), int(held.max))
        if roll < 0.4:
            return literal(value, dtype)
        if roll < 0.75:
            return self.scalar_parameter(dtype, value)
        e = self.expr("s32", (), 1)
        span = high - low + 1
        inner = Expr(f"({e.text} % {span} + {whole_number(low)})", lambda s: np.mod(e.value(s), span) + low, "s32")
        return self.converted(inner, dtype)


def broadcasts(shape: Shape, to: Shape) -> bool:
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


def size_of(shape: Shape) -> int:
    return prod(shape)


def drawn(statement: Statement | None) -> list[Statement]:
    return [] if statement is None else [statement]
