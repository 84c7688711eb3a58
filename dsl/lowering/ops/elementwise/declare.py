"""The functions that declare elementwise operations: arity, types, rewrite rules. For a function of the language, such
as `sqrt`, the declaration also contains its emission."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import log2
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.ir.fold import computed, constant_of
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import F32, I1, DType, Type, nearest_number
from dsl.lowering.ops.spec import OPS, Algebra, Fold, Infer, Makes, Mismatch, row

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
    """The part of the LLVM writer that emits one element of an operation. `let`, `intrinsic` and `template` write an
    instruction and return the name of its result."""

    def let(self, text: str) -> str:
        """Writes an LLVM instruction, and returns its result."""

    def intrinsic(self, name: str, result: str, arguments: Iterable[tuple[str, str]]) -> str:
        """Writes a call of an LLVM intrinsic, and returns its result. Each argument is a pair (LLVM type, value)."""

    def template(self, name: str, inputs: list[str], op: Op | None = None) -> list[str]:
        """Writes an instruction of `dsl.ptx_templates`, and returns its results."""

    def bits(self, dtype: DType) -> int:
        """Returns the number of bits of a type. For an index, it is 32 or 64, depending on the variant."""


Element = Callable[[Writes, Op, DType, str, list[str]], str]
"""A function that emits one element and returns the result. Its arguments are the writer, the operation, the dtype of
the first operand, its LLVM type, and the operands."""


class LanguageFunction(Struct, frozen=True):
    """An operation that is a function of the language.

    `usage`, `means`: texts for the documentation.
    `of`: the class of types that the function accepts, such as "a number".
    `emit`: emits one element as LLVM IR.
    `meaning`: the name of a numpy function, or a Python function of the dtype and the arrays. It computes all elements
        as the language defines them, independently of `emit`.
    `bound`: the relative and the absolute error that the hardware may make, if it approximates the function.
    `numbers`: a Python function that computes the function for constants in schedules.
    `on_host`: True if a file's examples may call the function. Then `meaning` computes it in float64.
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
        """Computes the function of arrays with `meaning`."""
        if isinstance(self.meaning, str):
            import numpy as np

            return getattr(np, self.meaning)(*arrays)
        return self.meaning(dtype, *arrays)

    @property
    def types(self) -> str:
        """The types that the function accepts, in words."""
        words = {"a number": "numbers", "an integer": "integers", "a float": "floats"}
        return words.get(self.of, "f32, f16, bf16")

    @property
    def error(self) -> str:
        """The error bound of the hardware, in words, or "" if the hardware is exact."""
        words = ("relative", "absolute")
        parts = [f"{word} 2^{log2(each):g}" for word, each in zip(words, self.bound or (), strict=False) if each]
        return ", ".join(parts).replace("-", "−")


FUNCTIONS: dict[str, LanguageFunction] = {}


def function(
    name: str, arity: int, of: str, usage: str, means: str, emit: Element, meaning: str | Callable[..., Any],
    *, bound: tuple[float, float] | None = None, numbers: Callable[..., Any] | None = None,
    on_host: bool | None = None, **more: Any,
) -> None:  # fmt: skip
    """Declares a function of the language. By default, `on_host` is True if the function accepts only floats. `more` is
    as in `elementwise`."""
    on_host = of in ("a float", "f32") if on_host is None else on_host
    FUNCTIONS[name] = LanguageFunction(name, arity, of, usage, means, emit, meaning, bound, numbers, on_host)
    elementwise(name, arity, of, **more)


def suffix(llvm: str) -> str:
    """Returns the suffix of LLVM's intrinsics for a type, for example "f16" for "half"."""
    return {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}.get(llvm, llvm)


def intrinsic(name: str) -> Element:
    """Returns a function that emits an operation as an LLVM intrinsic."""

    def emit(w: Writes, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
        return w.intrinsic(f"llvm.{name}.{suffix(llvm)}", llvm, [(llvm, v) for v in x])

    return emit


def intrinsic_of_f32(name: str) -> Element:
    """Like `intrinsic`, but computes 16-bit floats in f32. Use it only if the intrinsic is exact in f32, or if the
    second rounding never changes the result."""
    plain = intrinsic(name)

    def emit(w: Writes, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
        if dtype.bits != 16:
            return plain(w, op, dtype, llvm, x)
        wide = w.let(f"fpext {llvm} {x[0]} to float")
        return w.let(f"fptrunc float {plain(w, op, dtype, 'float', [wide])} to {llvm}")

    return emit


Number = int | float | bool | None
Shortcut = Callable[[Makes, Sequence[Value], Sequence[Number]], Value | None]
"""A function that finds a simpler value equal to an operation on integers, or returns None. Its arguments are the
builder, the operands, and for each operand its constant value or None."""


def elementwise(
    name: str, arity: int, of: str, result: DType | None = None, *,
    shortcuts: Sequence[Shortcut] = (), algebra: Algebra = Algebra(), **more: Any,
) -> None:  # fmt: skip
    """Declares an operation. All operands have the same type, which belongs to the class `of`. The result has the type
    `result` if it is given, otherwise the type of the operands.

    On integers, the operation is folded in two ways. If all operands are constant, `algebra.computes` computes the
    result. Otherwise, the functions in `shortcuts` are tried.
    """
    if algebra.fold is None and (algebra.computes is not None or shortcuts):
        algebra = replace(algebra, fold=_of_integers(name, shortcuts))
    row(name, arity, _alike(of, result), elementwise=True, algebra=algebra, **more)


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
    """Folds comparisons of constant floats, and operations on small whole numbers, such as 0 * 0, whose results need no
    rounding. Other operations on floats are not folded, because their rounding depends on the hardware."""
    compute = OPS[name].algebra.computes
    numbers = [constant_of(v) for v in operands]
    if compute is None or None in numbers:
        return None
    try:
        result = OPS[name].infer(operands, attrs)[0].dtype
    except Mismatch:  # reported as an error when the operation is built
        return None
    near = [nearest_number(number, operands[0].dtype) for number in numbers if number is not None]
    if result is I1:
        return builder.constant(bool(compute(*near)), I1, operands[0].tile.shape)
    if any(not number.is_integer() or abs(number) > 1 << 20 or str(number) == "-0.0" for number in near):
        return None
    exact = compute(*near)
    is_exact = exact is not None and nearest_number(exact, result) == exact
    return builder.constant(exact, result, operands[0].tile.shape) if is_exact else None


def neutral(left: int | None, right: int) -> Shortcut:
    """Makes a shortcut for laws such as x + 0 = x. If the left operand is the constant `left`, the result is the right
    operand. If the right operand is the constant `right`, the result is the left operand."""

    def shortcut(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
        if left is not None and numbers[0] == left:
            return operands[1]
        return operands[0] if numbers[1] == right else None

    return shortcut


def absorbing(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    """Folds to 0 if one operand is 0, as in x * 0."""
    return next((v for v, number in zip(operands, numbers, strict=True) if number == 0), None)


def same_operands(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    """Folds to x if both operands are x, as in min(x, x)."""
    return operands[0] if operands[0] is operands[1] else None
