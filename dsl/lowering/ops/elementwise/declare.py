"""How an operation of elements is stated: its arity, the types that it takes, its rules; and what the language calls it
and how it is computed, if it is a function there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import Any, Protocol

from dsl.lowering.ir.fold import computed, constant_of
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import F32, I1, DType, Type, nearest_number
from dsl.lowering.ops.spec import OPS, Algebra, ElementFacts, Fold, Infer, Makes, Mismatch, row

CLASSES: dict[str, Callable[[DType], bool]] = {
    "a number": lambda d: d.kind not in ("bool", "operand"),
    "an integer": lambda d: d.is_int,
    "an integer or i1": lambda d: d.is_int or d is I1,
    "a float": lambda d: d.is_float,
    "f32": lambda d: d is F32,
    "a number or i1": lambda d: d.kind != "operand",
    "s32 or u32": lambda d: d.name in ("s32", "u32"),
}


class Writes(Protocol):
    """What the emission of an element asks of the writer: instructions, each with the name of what it makes."""

    def let(self, text: str) -> str:
        """What an instruction of LLVM makes."""

    def intrinsic(self, name: str, result: str, arguments: Iterable[tuple[str, str]]) -> str:
        """What an intrinsic makes, of arguments with their LLVM types."""

    def template(self, name: str, inputs: list[str], op: Op | None = None) -> list[str]:
        """What an instruction of `dsl.ptx_templates` makes, of the registers of its operands."""

    def bits(self, dtype: DType) -> int:
        """Of a type, as this function stores it."""


Element = Callable[[Writes, Op, DType, str, list[str]], str]
"""One element as LLVM IR: writer, operation, element type of the first operand, its LLVM type, operands → result."""


@dataclass(frozen=True)
class LanguageFunction:
    """An operation that the language calls by its name.

    usage, means: for documents. of: the types that it takes. emit: one element as LLVM IR. meaning: all elements in
    numpy, from what the language says and not from `emit`: the name of a function there, or a function of the element
    type and of arrays. bound: how far the hardware may be from that, relative and absolute, where it approximates.
    numbers: of constants, in schedules. on_host: examples compute it as `meaning` does, in float64.
    """

    name: str
    arity: int
    of: str
    usage: str
    means: str
    emit: Element
    meaning: str | Callable[..., Any]
    bound: tuple[float, float] | None = None
    numbers: Callable[..., Any] | None = None
    on_host: bool = False

    def compute(self, dtype: DType, *arrays: Any) -> Any:
        """Its meaning."""
        if isinstance(self.meaning, str):
            import numpy as np

            return getattr(np, self.meaning)(*arrays)
        return self.meaning(dtype, *arrays)

    @property
    def types(self) -> str:
        """The types that it takes, in words."""
        words = {"a number": "numbers", "an integer": "integers", "a float": "floats"}
        return words.get(self.of, "f32, f16, bf16")

    @property
    def error(self) -> str:
        """How far the hardware may be from what it means, in words; nothing where it is not."""
        words = ("relative", "absolute")
        parts = [f"{word} 2^{log2(each):g}" for word, each in zip(words, self.bound or (), strict=False) if each]
        return ", ".join(parts).replace("-", "−")


FUNCTIONS: dict[str, LanguageFunction] = {}


def function(
    name: str, arity: int, of: str, usage: str, means: str, emit: Element, meaning: str | Callable[..., Any],
    *, bound: tuple[float, float] | None = None, numbers: Callable[..., Any] | None = None,
    on_host: bool | None = None, shortcuts: Sequence[Shortcut] = (), algebra: Algebra = Algebra(),
    elements: ElementFacts = ElementFacts(),
) -> None:  # fmt: skip
    """States an operation that the language calls by its name. On the host it is there if it takes floats alone."""
    on_host = of in ("a float", "f32") if on_host is None else on_host
    FUNCTIONS[name] = LanguageFunction(name, arity, of, usage, means, emit, meaning, bound, numbers, on_host)
    elementwise(name, arity, of, shortcuts=shortcuts, algebra=algebra, elements=elements)


def suffix(llvm: str) -> str:
    """How the names of LLVM's intrinsics end for a type."""
    return {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}.get(llvm, llvm)


def intrinsic(name: str) -> Element:
    """The elements of an operation that is an LLVM intrinsic of its type."""

    def emit(w: Writes, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
        return w.intrinsic(f"llvm.{name}.{suffix(llvm)}", llvm, [(llvm, v) for v in x])

    return emit


def intrinsic_of_f32(name: str) -> Element:
    """Of 16 bits by way of f32, where it is exact or rounded such that rounding again is rounding once."""
    plain = intrinsic(name)

    def emit(w: Writes, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
        if dtype.bits != 16:
            return plain(w, op, dtype, llvm, x)
        wide = w.let(f"fpext {llvm} {x[0]} to float")
        return w.let(f"fptrunc float {plain(w, op, dtype, 'float', [wide])} to {llvm}")

    return emit


Number = int | float | bool | None
Shortcut = Callable[[Makes, Sequence[Value], Sequence[Number]], Value | None]
"""What an operation on integers need not compute, of which these operands are these constants (None: not constant)."""


def elementwise(
    name: str, arity: int, of: str, result: DType | None = None, *, symbol: str = "",
    shortcuts: Sequence[Shortcut] = (), algebra: Algebra = Algebra(), elements: ElementFacts = ElementFacts(),
) -> None:  # fmt: skip
    """States an operation: all operands are of one type in class `of`; the result has that type or `result`.

    Of integers it folds constants if it `computes`, and by `shortcuts`.
    """
    if algebra.fold is None and (algebra.computes is not None or shortcuts):
        algebra = replace(algebra, fold=_of_integers(name, shortcuts))
    row(name, arity, _alike(of, result), symbol=symbol, elementwise=True, algebra=algebra, elements=elements)


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
    def fold(builder: Makes, operands: Sequence[Value], attrs: dict[str, Any]) -> Value | None:
        if operands[0].dtype.is_float:
            return _of_floats(builder, name, operands, attrs)
        numbers = [constant_of(v) for v in operands]
        known = [number for number in numbers if number is not None]
        if len(known) == len(numbers):
            spec = OPS[name]
            dtype = spec.infer(operands, attrs)[0].dtype
            result = computed(spec.algebra.computes, known, dtype)
            if result is not None:
                return builder.constant(result, dtype, operands[0].tile.shape)
        for shortcut in shortcuts:
            found = shortcut(builder, operands, numbers)
            if found is not None:
                return found
        return None

    return fold


def _of_floats(builder: Makes, name: str, operands: Sequence[Value], attrs: dict[str, Any]) -> Value | None:
    """Comparisons alone: the machine's rounding is the machine's business."""
    compute = OPS[name].algebra.computes
    numbers = [constant_of(v) for v in operands]
    if compute is None or None in numbers:
        return None
    try:
        is_comparison = OPS[name].infer(operands, attrs)[0].dtype is I1
    except Mismatch:  # which the operation is told when it is made
        return None
    if not is_comparison:
        return None
    near = [nearest_number(number, operands[0].dtype) for number in numbers if number is not None]
    return builder.constant(bool(compute(*near)), I1, operands[0].tile.shape)


def neutral(left: int | None, right: int) -> Shortcut:
    """As the left or the right operand these numbers leave the other one as it is."""

    def shortcut(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
        if left is not None and numbers[0] == left:
            return operands[1]
        return operands[0] if numbers[1] == right else None

    return shortcut


def absorbing(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    """0 makes it 0."""
    return next((v for v, number in zip(operands, numbers, strict=True) if number == 0), None)


def same_operands(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    """Of one value twice it is that value."""
    return operands[0] if operands[0] is operands[1] else None
