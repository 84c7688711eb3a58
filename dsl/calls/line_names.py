"""The names at a line of a dispatch, and the evaluation of its expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

from dsl.calls.called import Called
from dsl.calls.plan import Workspace
from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.lowering.ir.types import DTYPES, DType
from dsl.text import tree as ast
from dsl.text.program import Program
from dsl.values.arrays import Arrays
from dsl.values.facts import ArrayFacts, CallArray
from dsl.values.host import Host, Shaped
from dsl.values.scope import Scope, scope_of
from dsl.values.table import Builtin
from dsl.values.walk import are_numbers

ASKING = ("shape", "bytes", "dtype")
"""Functions of arrays that do not need the elements."""


class LinePlanner(Protocol):
    """The part of a planner that expressions read. `known` returns the facts about an argument of a launch, and `fits`
    whether a variant serves the call."""

    program: Program
    called: Called

    def known(self, argument: Any) -> Any: ...

    def fits(self, node: ast.Call, branch: ast.Branch | None) -> bool: ...


class LineNames:
    """The names at a line of a dispatch: the values that expressions may read, and the arguments that launches may pass
    on. Planning compares instances by identity."""

    __slots__ = ("passed", "values")

    def __init__(self, values: Mapping[str, Any], passed: Mapping[str, Any]):
        self.values, self.passed = values, passed


def _functions(program: Program) -> Scope:
    """The scope of a file's `def`s."""
    return scope_of(program.functions)


class DispatchNames(Arrays):
    """Evaluates the expressions of a dispatch: numbers, tables made on the host, `workspace`, `fits`, and facts about
    the call's arrays. One plan serves a class of calls, so these expressions cannot read elements of arrays."""

    operands = "numbers and tables"

    def __init__(self, names: LineNames, planner: LinePlanner, branch: ast.Branch | None = None):
        Host.__init__(self, Scope(planner.program.once(_functions), names.values))  # type: ignore[arg-type]
        self.planner, self.branch, self.line_names = planner, branch, names

    def function_of(self, name: str, loc: Loc) -> Builtin | None:
        return OWN[name] if name in OWN else super().function_of(name, loc)

    def known_names(self) -> list[str]:
        return [*super().known_names(), *OWN]

    def describe(self, value: Any) -> str:
        if isinstance(value, CallArray):
            return f"the array '{value.argument}' of the call"
        return super().describe(value)

    def unknown(self, what: str, name: str, loc: Loc) -> NoReturn:
        hint = closest(name, self.known_names() if what == "function" else [*self.scope.all_names(), *DTYPES])
        if hint is None and what == "name":
            said = ", ".join(self.planner.called.seen) or "none here"
            hint = f"dims and types that it sees: {said}; any other extent of its array x is shape(x, axis)"
        self.error("name", loc, f"unknown {what} '{name}'", hint)

    def of(
        self, function: Builtin, values: list[Any], keywords: dict[str, Any], loc: Loc, node: ast.Call | None = None
    ) -> Any:
        # The plan is kept for the class of the call. A decision that reads elements could be wrong for the next call.
        if function.name not in ASKING and (keywords or not are_numbers(values)):
            self.check_unseen(function.name, [*values, *keywords.values()], loc)
        return super().of(function, values, keywords, loc, node)

    def member(self, node: ast.Attribute, value: Any) -> Any:
        self.check_unseen(f".{node.name}", [value], node.loc)
        return super().member(node, value)

    def check_unseen(self, name: str, values: Sequence[Any], loc: Loc) -> None:
        """Raises an error if one of `values`, the operands of the function `name`, is an array of the call. The
        function would read elements of this array or make another array from it."""
        found = next((value for value in values if isinstance(value, CallArray)), None)
        if found is not None:
            array = found.argument
            message = f"'{name}' of {self.describe(found)}: a dispatch knows of it {', '.join(ASKING)} alone"
            is_view = name in ("reshape", "transpose", "flat", ".T")
            hint = f"a kernel takes '{array}' as it is, and its text makes other views of it" if is_view else None
            self.error("call", loc, message, hint or "let a kernel, or the caller, do what depends on elements")


def _workspace(names: DispatchNames, loc: Loc, given: Any, zero: str | None = None) -> Workspace:
    dtype, shape = (given.dtype, given.shape) if isinstance(given, Shaped) else (given, ())
    if not isinstance(dtype, DType):
        names.error("call", names.place_of(0, loc), "workspace takes a type with extents", "workspace(f32[4 * sms])")
    return Workspace(dtype.name, shape, zero == "zero", loc, zero == "zeroed")


def _asked(names: DispatchNames, node: ast.Call) -> tuple[ArrayFacts, Loc]:
    """Returns the facts about the array that is the first argument of `node`, and the location of `node`. Raises an
    error if the argument is not an array of the call."""
    asked = node.args[0]
    known = names.planner.known(names.line_names.passed.get(asked.id)) if isinstance(asked, ast.Name) else None
    if not isinstance(known, ArrayFacts):
        raise no_array(asked.loc)
    return known, node.loc


def no_array(loc: Loc) -> TileError:
    return TileError("type", loc, "this takes an array of the call", "a parameter that is a tensor")


def _workspace_like(names: DispatchNames, node: ast.Call) -> Workspace:
    like, loc = _asked(names, node)
    axis = _axis(names, like, node.args[1]) if len(node.args) > 1 else None
    return Workspace(like.dtype, like.shape, False, loc, strides=like.pitched(axis))


def _axis(names: DispatchNames, of: ArrayFacts, node: ast.Expr) -> int:
    """Evaluates an argument that is an axis of an array. Raises an error if the array has no such axis."""
    axis = names.expr(node)
    if type(axis) is int and 0 <= axis < len(of.shape):
        return axis
    names.error("shape", node.loc, f"an array of rank {len(of.shape)} has no axis {names.describe(axis)}", "from 0 on")


def _contiguous(names: DispatchNames, node: ast.Call) -> bool:
    asked, _ = _asked(names, node)
    return asked.is_contiguous(_axis(names, asked, node.args[1]))


def _aligned(names: DispatchNames, node: ast.Call) -> bool:
    return _asked(names, node)[0].rows_are_aligned


def _fits(names: DispatchNames, node: ast.Call) -> bool:
    return names.planner.fits(node, names.branch)


_OWN = (
    Builtin("workspace(T[…], [zero|zeroed])", "scratch memory of the call", arrays=_workspace),
    Builtin("workspace_like(x, [axis])", "scratch memory with an array's shape", arrays=_workspace_like, unread=True),
    Builtin("contiguous(x, axis)", "whether an axis of an array has stride 1", arrays=_contiguous, unread=True),
    Builtin("aligned(x)", "whether an array's rows begin at multiples of 16 bytes", arrays=_aligned, unread=True),
    Builtin("fits(kernel)", "whether `kernel with schedule` serves this call", arrays=_fits, unread=True),
)  # fmt: skip
OWN = {each.name: each for each in _OWN}
"""Functions that only dispatches have."""
OF_ARRAYS = ("workspace_like", "contiguous", "aligned")
"""Those whose first argument is an array of the call."""


def fitting(program: Program, node: ast.Call) -> tuple[str, str | None]:
    """Returns the kernel and the schedule in `fits(kernel with schedule)`. Raises TileError for any other argument."""
    if len(node.args) != 1 or node.keywords:
        raise TileError("call", node.loc, "fits takes 'kernel with schedule'")
    inner = node.args[0]
    schedule = None
    if isinstance(inner, ast.WithSchedule):
        schedule, inner = inner.schedule, inner.kernel
    if not isinstance(inner, ast.Name) or inner.id not in program.kernels:
        raise TileError("name", node.loc, "fits takes a kernel of this file")
    if schedule is not None:
        program.schedule(inner.id, schedule, node.loc)
    return inner.id, schedule or next(iter(program.schedules_of(inner.id)), None)
