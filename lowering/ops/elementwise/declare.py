"""How an operation of elements is stated: its arity, the types that it takes, and the rules of its family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lowering.fold import computed, constant_of
from lowering.ir import Value
from lowering.ops.spec import OPS, Fold, Infer, Mismatch, row
from lowering.types import F32, I1, DType, Type

if TYPE_CHECKING:
    from lowering.builder import Builder

CLASSES: dict[str, Callable[[DType], bool]] = {
    "a number": lambda d: d.kind not in ("bool", "operand"),
    "an integer": lambda d: d.is_int,
    "an integer or i1": lambda d: d.is_int or d is I1,
    "a float": lambda d: d.is_float,
    "f32": lambda d: d is F32,
    "a number or i1": lambda d: d.kind != "operand",
    "s32 or u32": lambda d: d.name in ("s32", "u32"),
}

Number = int | float | bool | None
Shortcut = Callable[["Builder", Sequence[Value], Sequence[Number]], Value | None]
"""What an operation on integers need not compute, of which these operands are these constants (None: not constant)."""


def elementwise(name: str, arity: int, of: str, result: DType | None = None, **facts: Any) -> None:
    """States an operation: all operands are of one type in class `of`; the result has that type or `result`.

    Of integers it folds constants if it `computes`, and by `shortcuts`.
    """
    shortcuts = facts.pop("shortcuts", ())
    if "computes" in facts or shortcuts:
        facts.setdefault("fold", _of_integers(name, shortcuts))
    row(name, arity, _alike(of, result), elementwise=True, **facts)


def _alike(of: str, result: DType | None) -> Infer:
    accepts = CLASSES[of]

    def infer(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
        first = operands[0].tile
        for operand in operands:
            if operand.tile.dtype is not first.dtype:
                raise Mismatch(f"operands of different types: {', '.join(str(o.dtype) for o in operands)}")
            if operand.tile.shape != first.shape:
                raise Mismatch(f"operands of different shapes: {', '.join(str(list(o.shape)) for o in operands)}")
        if not accepts(first.dtype):
            raise Mismatch(f"needs {of}; got {first.dtype}")
        return [first.with_dtype(result) if result else first]

    return infer


def _of_integers(name: str, shortcuts: Sequence[Shortcut]) -> Fold:
    def fold(builder: Builder, operands: Sequence[Value], attrs: dict[str, Any]) -> Value | None:
        if operands[0].dtype.is_float:
            return None  # the machine's rounding is the machine's business, and a constant is rounded only there
        numbers = [constant_of(v) for v in operands]
        if None not in numbers:
            spec = OPS[name]
            dtype = spec.infer(operands, attrs)[0].dtype
            result = computed(spec, numbers, dtype)  # type: ignore[arg-type]
            if result is not None:
                return builder.constant(result, dtype, operands[0].tile.shape)
        for shortcut in shortcuts:
            found = shortcut(builder, operands, numbers)
            if found is not None:
                return found
        return None

    return fold


def neutral(left: int | None, right: int) -> Shortcut:
    """As the left or the right operand these numbers leave the other one as it is."""

    def shortcut(builder: Builder, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
        if left is not None and numbers[0] == left:
            return operands[1]
        return operands[0] if numbers[1] == right else None

    return shortcut


def absorbing(builder: Builder, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    """0 makes it 0."""
    return next((v for v, number in zip(operands, numbers, strict=True) if number == 0), None)


def same_operands(builder: Builder, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    """Of one value twice it is that value."""
    return operands[0] if operands[0] is operands[1] else None
