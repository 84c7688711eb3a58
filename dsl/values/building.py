"""Helpers for the functions that build a kernel's IR: literals, operand types, checks and errors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from math import inf, isinf
from typing import Any

from dsl.lowering.building.builder import MAX_TILE, Builder
from dsl.lowering.directives.loop import usual_part
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Function, Value
from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.types import F32, F64, FP8, I1, INDEX, DType, greatest, int_range, nearest_number
from dsl.lowering.known.facts import Analysis
from dsl.text import tree as ast
from dsl.values.bindings import Access, Binding, SharedTile, Tensor, describe, elements
from dsl.values.scope import Scope
from dsl.values.walk import NUMBERS, Walk

OPERANDS = (Value, *NUMBERS)

PART = "read a part of it: x[start : start + EXTENT], s[:, :] or load(…)"
LEAST_PART = 16
"""The smallest subtile, in elements, that a hint suggests for an extent that is not a power of two."""


class Building(Walk):
    """Evaluates a kernel's expressions to IR values, tensors and parts of tensors. Compile-time numbers stay Python
    numbers as long as possible."""

    domain = "tiles"
    operands = "numbers and tiles"
    many = "a tile"

    def __init__(self, scope: Scope, loc: Loc):
        super().__init__(scope)
        self.ir = Builder(loc)
        self.function: Function
        self.facts: Analysis
        self.in_tile_if = 0  # number of open branches that diverge between threads or warps of the block
        self.in_divided_warp = 0  # number of open branches that may diverge within a warp
        self.multiplies = False  # whether the kernel has a matrix product
        self.finds_boxes = False  # whether the compiler may use TMA for copies that the schedule does not mention

    def place(self, loc: Loc) -> None:
        """Sets the source location of the operations that are built next."""
        self.ir.place = loc, self.caller

    def describe(self, value: Any) -> str:
        return describe(value)

    @abstractmethod
    def read(self, access: Access, loc: Loc) -> Value:
        """Emits a load of a part of a tensor, table or shared tile."""

    def operand(self, node: ast.Expr, op: str) -> Value | int | float | bool:
        value = self.expr(node)
        return value if isinstance(value, OPERANDS) else self.value_or_number(value, node.loc)

    # ---- literals and values ----

    def literal(self, value: int | float | bool, dtype: DType, loc: Loc) -> Value:
        """Converts a literal to an IR value of type `dtype`. Raises an error if `dtype` cannot represent the
        literal."""
        if isinstance(value, bool):
            if dtype is I1 or dtype.is_int:
                return self.ir.constant(value if dtype is I1 else int(value), dtype)
            self.error("type", loc, f"{str(value).lower()} is no {dtype}")
        if dtype.has_fractions:
            return self.float_literal(value, dtype, loc)
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

    def float_literal(self, value: int | float, dtype: DType, loc: Loc) -> Value:
        """Rounds a number once to the float type `dtype`. Raises an error for a finite number that would become
        infinite."""
        near = nearest_number(value, dtype)
        if isinf(near) and abs(value) != inf:
            most = f"{greatest(dtype):.6g}"
            wide = next((to for to in (F32, F64) if not isinf(nearest_number(value, to))), None)
            hint = f"calculate in {wide}, or write inf where it is meant" if wide else "write inf where it is meant"
            written = str(value) if len(str(value)) <= 40 else f"{str(value)[:20]}…"
            self.error("type", loc, f"{written} does not fit {dtype} (-{most} … {most})", hint)
        # The IR has no FP8 constants. An f32 holds the rounded number exactly, so the cast does not round again.
        if dtype in FP8:
            return self.cast(self.ir.constant(near, F32), dtype)
        # A large integer is rounded to `dtype` here. As the IR's constant it would be rounded to a double first, and so
        # twice.
        return self.ir.constant(near if isinstance(value, int) else value, dtype)

    def natural(self, value: int | float | bool, loc: Loc) -> Value:
        """Converts a literal to an IR value if no other operand determines its type. The type is i1, index or f32."""
        return self.literal(value, I1 if isinstance(value, bool) else F32 if isinstance(value, float) else INDEX, loc)

    def value(self, node: ast.Expr, like: DType | None = None) -> Value:
        """Evaluates an expression to an IR value. A literal gets the type `like`."""
        return self.as_value(self.expr(node), node.loc, like)

    def as_value(self, binding: Binding, loc: Loc, like: DType | None = None) -> Value:
        if isinstance(binding, Value):
            return binding
        if isinstance(binding, bool | int | float):
            return self.literal(binding, like, loc) if like else self.natural(binding, loc)
        if isinstance(binding, Access):
            return self.read(binding, loc)
        hint = PART if isinstance(binding, SharedTile | Tensor) else None
        self.error("type", loc, f"{describe(binding)} is no value", hint)

    def value_or_number(self, binding: Binding, loc: Loc) -> Value | int | float | bool:
        """Converts an operand of arithmetic to an IR value or a number. An access is read from memory."""
        if isinstance(binding, OPERANDS):
            return binding
        if isinstance(binding, SharedTile | Tensor):
            self.error("type", loc, f"{describe(binding)} is no value", PART)
        return self.as_value(binding, loc)

    def cast(self, value: Value, to: DType, saturate: bool = False, rounding: str | None = None) -> Value:
        return self.ir.value("cast", value, to=to, saturate=saturate, rounding=rounding)

    def agree(self, operands: list[Value | int | float | bool], loc: Loc) -> list[Value]:
        """Converts operands to one type and shape. Literals get the type of the other operands. If s32 and index are
        mixed, the result is index."""
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
                # The usual cause is an accumulator with the operands' type: for f16 operands, the MMA accumulates in
                # f32.
                made = [o.op for o in typed if o.op is not None and o.op.spec.product]
                if made and {"f16", "bf16"} & names and made[0].result.dtype.name in names:
                    hint = f"products are summed in {made[0].result.dtype}: start with zeros({made[0].result.dtype}[…])"
                self.error("type", loc, f"operands of types {dtype} and {other.dtype}", hint)
        values = []
        for o in operands:
            if not isinstance(o, Value):
                o = self.literal(o, dtype, loc)
            elif o.dtype is not dtype:
                o = self.cast(o, dtype)
            values.append(o)
        return self.ir.same_shape(values)

    def scalar(self, node: ast.Expr, what: str) -> Value:
        value = self.value(node)
        if value.tile.shape:
            self.error("type", node.loc, f"{what} is a scalar; this is {value.tile}")
        return value

    # ---- what must be known when compiling ----

    def whole(self, value: Binding, loc: Loc, what: str) -> int:
        number = constant_of(value) if isinstance(value, Value) else value
        return super().whole(value if number is None else number, loc, what)

    def constant(self, node: ast.Expr, what: str) -> int | float | bool:
        """Evaluates an expression that must be known at compile time."""
        return self.known(self.expr(node), node.loc, what)

    def known(self, binding: Binding, loc: Loc, what: str) -> int | float | bool:
        """Returns a binding as a compile-time number. Raises TileError `constant` if the binding is known only at run
        time."""
        number = constant_of(binding) if isinstance(binding, Value) and not binding.tile.shape else binding
        if isinstance(number, bool | int | float):
            return number
        hint = "dims are run-time values unless the schedule says 'specialize'" if isinstance(binding, Value) else None
        self.error("constant", loc, f"{what} must be a constant; this is {describe(binding)}", hint)

    def extent(self, node: ast.Expr, what: str = "an extent") -> int:
        """Evaluates an expression that is the extent of a tile in registers. Raises an error unless the value is a
        valid constant extent."""
        return self.extent_of(self.expr(node), node.loc, what)

    def extent_of(self, binding: Binding, loc: Loc, what: str) -> int:
        number = self.known(binding, loc, what)
        if isinstance(number, bool) or not isinstance(number, int):
            self.error("constant", loc, f"{what} is an integer; this is {number}")
        text = loc.source.text[loc.start : loc.end]
        self.check_extent(number, loc, what, None if text == str(number) or len(text) > 40 else text)
        return number

    def check_extent(
        self, number: int, loc: Loc, what: str, written: str | None = None, remedy: str = "use it with a mask"
    ) -> None:
        """Raises an error unless `number` is a valid extent. `written` is the source text of the extent. `remedy` is
        advice in the hint on how to use the next power of two instead."""
        label = f"{written} = {number}" if written else str(number)
        if number < 1:
            self.error("extent", loc, f"{what} is at least 1; this is {label}")
        # Layouts are linear over F2, so extents are powers of two. `loop` and `subtile` split any other extent into
        # subtiles of powers of two.
        if number & (number - 1) and not self.has_parts(number):
            hint = f"next_pow2({number}) is {1 << number.bit_length()}: {remedy}"
            if (part := number & -number) >= LEAST_PART:
                subtiles = "subtiles of powers of two by the schedule"
                hint += f"; or, for an accumulator, {subtiles}: 'subtile NAME: …, {part}'"
            self.error("extent", loc, f"{what} is a power of two; {label} is not", hint)
        if number > MAX_TILE:
            self.error("limit", loc, f"{what} is {label}; a tile has at most {MAX_TILE} elements")

    def has_parts(self, extent: int) -> bool:
        """Whether a directive, such as `loop` or `subtile`, may split a tile of this extent into powers of two. The
        candidates are the schedule's directives, and `subtile` for accumulators. If no directive can split the tile
        after all, a later pass reports the error."""
        several = [part for _, part, _ in self.function.by_subject("loop", tuple).values()]
        several += [part for each in self.function.by_subject("subtile", tuple).values() for part in each]
        if self.multiplies and extent % LEAST_PART == 0:
            return True
        return usual_part(extent) > 1 or any(extent % part == 0 for part in several)

    def check_divisor(self, divisor: Value, loc: Loc) -> None:
        """Raises an error for an integer division by a literal 0, which is undefined on every machine."""
        if divisor.dtype.is_int and constant_of(divisor) == 0:
            self.error("constant", loc, "division by zero")

    # ---- the budget ----

    def spend(self, steps: int, loc: Loc) -> None:
        """Subtracts `steps` from the budget of build steps. Raises TileError `limit` if the budget is exhausted."""
        self.ir.budget.spend_steps(steps, loc, self.caller)

    def tuple_of(self, parts: Iterable[Binding], loc: Loc) -> tuple[Binding, ...]:
        """Makes a tuple of the given bindings. Each element, including those of nested tuples, costs one step of the
        budget."""
        made = tuple(parts)
        self.spend(elements(made, self.ir.budget.steps), loc)
        return made
