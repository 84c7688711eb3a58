"""Expressions and `def`s on the host: numbers and numpy arrays, for `example` and `dispatch`.

Nothing is evaluated as Python: operators, a fixed list of functions (`host_functions.py`), `ref.NAME` (`reference.py`)
and the file's own top-level `def`s. numpy is imported when the first array or random number is asked for.
"""

from __future__ import annotations

import weakref
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

from dsl.text import tree as ast
from dsl.text.program import library_functions
from dsl.values.arithmetic import FUNCTIONS, ConstantError, call, prefix
from dsl.values.numbers import WORDS, Evaluator
from dsl.values.signatures import rest_of
from lowering.location import Loc, TileError, closest
from lowering.nesting import deep_recursion
from lowering.types import DTYPES, DType

if TYPE_CHECKING:
    import numpy as np

MAX_BYTES = 8 << 30
"""Bytes of all arrays of one example together."""
MAX_STEPS = 1_000_000
"""Statements that one call from outside may run."""
MAX_CALLS = 64
ARRAY_FUNCTIONS = ("shape", "bytes", "size")
OF_LAUNCHES = ("given", "occupancy")
"""Asked where a call and its device are known: in a dispatch, as in schedules."""


@dataclass(frozen=True, slots=True)
class Shaped:
    """`f32[rows, cols]`: an element type with extents."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.dtype.bytes


@dataclass(frozen=True, slots=True)
class Closure:
    """A `def` with the names that it sees."""

    node: ast.Def
    scope: MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function of the host, as a value: `reduce(maximum, x)`. References are named `ref.NAME`."""

    name: str


class _Returned(Exception):
    def __init__(self, value: Any):
        self.value = value


class Host(Evaluator):
    """Evaluates over `names`: numbers, types, numpy arrays, arrays of other frameworks (for their shape and bytes).

    names: read at each expression, so the caller may add to it line by line. functions: the file's top-level defs.
    seed: of randn, uniform and randint, which draw one after the other. Errors are TileErrors with a place.
    """

    def __init__(self, names: Mapping[str, Any], functions: Mapping[str, ast.Def], seed: int = 0):
        super().__init__(names)
        self.seed = seed
        self.live = 0  # bytes of arrays that were made here and still exist
        self.calls = 0
        self.steps = 0
        self.top: dict[str, Any] = {}
        self.top.update({name: Closure(node, self.top) for name, node in functions.items()})

    @cached_property
    def random(self) -> np.random.Generator:
        import numpy as np

        return np.random.default_rng(self.seed)

    def fail(self, code: str, loc: Loc, message: str, hint: str | None = None) -> NoReturn:
        raise TileError(code, loc, message, hint)

    def describe(self, value: Any) -> str:
        """A value in words, for messages."""
        if isinstance(value, bool | int | float):
            return str(value).lower() if isinstance(value, bool) else str(value)
        if isinstance(value, str):
            return f'"{value}"'
        if isinstance(value, DType):
            return f"the type {value}"
        if isinstance(value, Shaped):
            return f"the type {value.dtype}{list(value.shape)}"
        if isinstance(value, Closure | Builtin):
            return f"the function {value.name if isinstance(value, Builtin) else value.node.name}"
        if isinstance(value, tuple | list):
            return f"a sequence of {len(value)}"
        return f"an array of shape {list(value.shape)}" if hasattr(value, "shape") else f"a {type(value).__name__}"

    # ---- memory ----

    def room(self, loc: Loc, size: int) -> None:
        """TileError unless `size` more bytes stay within the limit."""
        if self.live + size > MAX_BYTES:
            have = f", with {self.live / 2**30:.1f} GiB in use" if self.live else ""
            self.fail("limit", loc, f"this needs {size / 2**30:.1f} GiB{have}; the limit is {MAX_BYTES >> 30} GiB")

    def hold(self, array: np.ndarray) -> None:
        """Counts an array against the limit until it is gone."""
        size = array.nbytes
        self.live += size
        owner = weakref.ref(self)

        def release() -> None:
            host = owner()
            if host is not None:
                host.live -= size

        weakref.finalize(array if array.base is None else array.base, release).atexit = False

    # ---- expressions ----

    def __call__(self, node: ast.Expr) -> Any:
        if self.depth or self.calls:
            return self._checked(node)
        self.steps = 0
        with deep_recursion():
            return self._checked(node)

    def _checked(self, node: ast.Expr) -> Any:
        try:
            return super().__call__(node)
        except MemoryError:
            raise TileError("limit", node.loc, "there is not enough memory for this") from None

    def name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            value = self.names[node.id]
            if type(value).__module__ == "numpy" and hasattr(value, "ndim") and value.ndim == 0:
                from dsl.values.array_functions import plain

                return plain(value)
            return value
        if node.id in self.top:
            return self.top[node.id]
        if node.id not in WORDS and node.id not in DTYPES and self._knows(node.id):
            return Builtin(node.id)
        return super().name(node)

    def _knows(self, name: str) -> bool:
        if name in FUNCTIONS or name in ARRAY_FUNCTIONS:
            return True
        from dsl.values.array_functions import HANDLERS

        return name in HANDLERS

    def more_names(self) -> list[str]:
        from dsl.values.array_functions import HANDLERS

        return [*self.top, *(n for n in HANDLERS if "." not in n), *ARRAY_FUNCTIONS, "ref"]

    def unary(self, node: ast.Unary) -> Any:
        value = self(node.value)
        if _is_array(value):
            from dsl.values.array_functions import negative

            return negative(self, node.op, value, node.loc)
        if not isinstance(value, bool | int | float):
            self.fail("type", node.value.loc, f"'{node.op}' takes numbers and arrays; this is {self.describe(value)}")
        return prefix(node.op, value)

    def binary(self, node: ast.Binary) -> Any:
        return self.joined(node, self)

    def joined(self, node: ast.Binary, evaluate: Callable[[ast.Expr], Any]) -> Any:
        """Two sides, each evaluated by `evaluate`, and their operation."""
        if node.op not in ("and", "or"):
            return self.infix(node.op, evaluate(node.left), evaluate(node.right), node)
        left = self._truth_or_array(node.left, node.op, evaluate)
        if not _is_array(left) and left == (node.op == "or"):
            return left
        right = self._truth_or_array(node.right, node.op, evaluate)
        if not _is_array(left):
            return right
        from dsl.values.array_functions import logic

        return logic(self, node.op, left, right, node.loc)

    def _truth_or_array(self, node: ast.Expr, op: str, evaluate: Callable[[ast.Expr], Any]) -> Any:
        value = evaluate(node)
        if not _is_array(value) and not isinstance(value, bool | int | float):
            self.fail("type", node.loc, f"'{op}' takes truth values; this is {self.describe(value)}")
        return value if _is_array(value) else bool(value)

    def infix(self, op: str, left: Any, right: Any, node: ast.Expr) -> Any:
        for side in (left, right):
            if not _is_array(side) and not isinstance(side, bool | int | float):
                self.fail("type", node.loc, f"'{op}' takes numbers and arrays; this is {self.describe(side)}")
        if _is_array(left) or _is_array(right):
            from dsl.values.array_functions import infix

            return infix(self, op, left, right, node.loc)
        if op == "@":
            self.fail("shape", node.loc, "'@' takes arrays, not numbers")
        return super().infix(op, left, right, node)

    def compare(self, node: ast.Compare) -> Any:
        return self.compared(node, [self(o) for o in node.operands])

    def same_shapes(self, operands: list[ast.Expr], values: list[Any]) -> None:
        """Fails for arrays of different shapes, which no expectation broadcasts; numbers go with all."""
        arrays = [(v.shape, o) for v, o in zip(values, operands, strict=True) if _is_array(v) and v.shape]
        for (left, _), (right, each) in pairwise(arrays):
            if left != right:
                hint = "nothing is broadcast here; write broadcast(x, [EXTENT, …]) for what is meant"
                self.fail("shape", each.loc, f"shapes {list(left)} and {list(right)} are not equal", hint)

    def expectation(self, node: ast.Expr) -> Any:
        """A condition of 'expect': like any, but what it compares has one shape."""
        if isinstance(node, ast.Compare):
            values = [self(o) for o in node.operands]
            self.same_shapes(node.operands, values)
            return self.compared(node, values)
        if isinstance(node, ast.Binary) and node.op in ("and", "or", "&", "|"):
            return self.joined(node, self.expectation)
        return self(node)

    def compared(self, node: ast.Compare, values: list[Any]) -> Any:
        result: Any = True
        for op, a, b in zip(node.ops, values, values[1:], strict=False):
            if isinstance(a, DType | str) or isinstance(b, DType | str):
                if op not in ("==", "!="):
                    self.fail("type", node.loc, f"'{op}' does not compare {self.describe(a)} with {self.describe(b)}")
                part: Any = (a == b) == (op == "==")
            else:
                part = self.infix(op, a, b, node)
            if result is True:
                result = part
            elif _is_array(result) or _is_array(part):
                from dsl.values.array_functions import logic

                result = logic(self, "and", result, part, node.loc)
            else:
                result = result and part
        return result

    def index(self, node: ast.Index) -> Any:
        value = self(node.value)
        if isinstance(value, DType):
            extents = []
            for sub in node.subscripts:
                if isinstance(sub, ast.Slice):
                    self.fail("shape", node.loc, "an extent, not a slice")
                extent = self.integer(sub, "an extent")
                if extent < 0:
                    self.fail("shape", sub.loc, f"an extent of {extent}")
                extents.append(extent)
            return Shaped(value, tuple(extents))
        if isinstance(value, tuple | list):
            sub = node.subscripts[0]
            at = None if isinstance(sub, ast.Slice) or len(node.subscripts) > 1 else self.integer(sub, "an index")
            if at is None or not -len(value) <= at < len(value):
                self.fail("shape", node.loc, f"{self.describe(value)} has no such element")
            return value[at]
        if not _is_array(value):
            self.fail("type", node.value.loc, f"{self.describe(value)} cannot be indexed")
        from dsl.values.array_functions import subscript

        return subscript(self, node, value)

    def attribute(self, node: ast.Attribute) -> Any:
        dotted = _dotted(node)
        if dotted is not None and dotted.split(".")[0] not in self.names:
            if dotted.startswith("ref."):
                return Builtin(dotted)
            from dsl.values.array_functions import HANDLERS

            if dotted in HANDLERS:
                return Builtin(dotted)
        value = self(node.value)
        if node.name == "T":
            from dsl.values.array_functions import transposed

            return transposed(self, node, value)
        self.fail("name", node.loc, f"{self.describe(value)} has no '{node.name}'", "values have .to(TYPE) and .T")

    # ---- calls ----

    def call(self, node: ast.Call) -> Any:
        if isinstance(node.function, ast.Name) and node.function.id in OF_LAUNCHES and "sms" in self.names:
            return super().call(node)
        if isinstance(node.function, ast.Attribute) and node.function.name == "to":
            from dsl.values.array_functions import convert

            return convert(self, node, self(node.function.value))
        function = self._function(node.function)
        args = [self(a) for a in node.args]
        keywords = {k: self(v) for k, v in node.keywords.items()}
        if node.rest is not None and not isinstance(function, Closure):
            self.fail("call", node.rest, "'...' gives constants to a def; this is none")
        if node.rest is not None:
            keywords |= rest_of(node.rest, function.node, keywords, self.names.get, self.names.keys, self.fail)
        return self.apply(function, args, keywords, node)

    def _function(self, node: ast.Expr) -> Any:
        dotted = _dotted(node)
        root = dotted if dotted is None or isinstance(node, ast.Name) else dotted.split(".")[0]
        if dotted is not None and root not in self.names and root not in self.top and not dotted.startswith("ref."):
            if dotted in FUNCTIONS or dotted in ARRAY_FUNCTIONS:
                return Builtin(dotted)
            from dsl.values.array_functions import HANDLERS, KERNEL_ONLY

            if dotted not in HANDLERS and (root in KERNEL_ONLY or library_functions(dotted)):
                self.fail(
                    "call",
                    node.loc,
                    f"'{dotted}' stands only in kernels",
                    "what runs on the host takes and gives arrays",
                )
            if not self._knows(dotted):
                hint = closest(dotted, [*FUNCTIONS, *HANDLERS, *self.more_names()])
                self.fail("name", node.loc, f"unknown function '{dotted}'", hint)
        return self(node)

    def apply(self, function: Any, args: list, keywords: dict[str, Any], node: ast.Call) -> Any:
        """A def, a function of the host or a reference with these arguments; `node` is the call, for errors."""
        if isinstance(function, Closure):
            return self._call_def(function, args, keywords, node)
        if not isinstance(function, Builtin):
            self.fail("type", node.function.loc, f"{self.describe(function)} is no function")
        if function.name.startswith("ref."):
            return self._reference(function.name.removeprefix("ref."), args, keywords, node)
        numbers = all(isinstance(a, bool | int | float) for a in args)
        if function.name in FUNCTIONS and numbers and not keywords and args:
            return call(function.name, args)
        if function.name in ARRAY_FUNCTIONS:
            return self._about(function.name, args, keywords, node)
        from dsl.values.array_functions import HANDLERS

        if function.name not in HANDLERS:
            raise ConstantError(f"{function.name} takes numbers")
        return HANDLERS[function.name](self, node, args, keywords)

    def _about(self, name: str, args: list, keywords: dict[str, Any], node: ast.Call) -> Any:
        """shape(x[, axis]), bytes(x) and size(TYPE): of arrays of all frameworks, without their contents."""
        if keywords or not 1 <= len(args) <= (2 if name == "shape" else 1):
            self.fail(
                "call", node.loc, {"shape": "shape(array[, axis])", "bytes": "bytes(array)", "size": "size(TYPE)"}[name]
            )
        value = args[0]
        if name == "size":
            if not isinstance(value, DType):
                self.fail("type", node.loc, "size takes a type: its bytes", "bytes(x) is the size of an array")
            return value.bytes
        if isinstance(value, Shaped):
            shape, size = value.shape, value.bytes
        else:
            from runtime.arrays import describe, is_array
            from runtime.errors import LaunchError

            if not is_array(value):
                self.fail("type", node.loc, f"{name} takes an array; this is {self.describe(value)}")
            try:
                shape, size = (value.shape, value.nbytes) if _is_array(value) else _described(describe(value))
            except LaunchError as error:
                raise TileError("type", node.loc, str(error)) from None
        if name == "bytes":
            return size
        if len(args) == 1:
            return tuple(shape)
        axis = args[1]
        if isinstance(axis, bool) or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
            self.fail("shape", node.loc, f"an array of rank {len(shape)} has no axis {self.describe(axis)}")
        return shape[axis]

    def _reference(self, name: str, args: list, keywords: dict[str, Any], node: ast.Call) -> Any:
        import inspect

        import numpy as np

        from dsl.values.array_functions import plain, wide
        from dsl.values.reference import REFERENCES

        if name not in REFERENCES:
            hint = closest(name, REFERENCES) or "known: " + ", ".join(REFERENCES)
            self.fail("name", node.function.loc, f"there is no reference 'ref.{name}'", hint)
        reference = REFERENCES[name]
        signature = inspect.signature(reference)
        given = [wide(self, node.loc, a) if _is_array(a) else a for a in args]
        named = {k: wide(self, node.loc, v) if _is_array(v) else v for k, v in keywords.items()}
        if not any(_is_array(a) for a in (*given, *named.values())):
            self.fail("type", node.loc, f"ref.{name} takes arrays")
        try:
            signature.bind(*given, **named)
        except TypeError as error:
            known = ", ".join(signature.parameters)
            self.fail("call", node.loc, f"ref.{name}: {error}", f"its parameters are {known}")
        self.room(node.loc, sum(a.nbytes for a in (*given, *named.values()) if _is_array(a)))
        try:
            with np.errstate(all="ignore"):
                return plain(reference(*given, **named))
        except (ValueError, IndexError) as error:
            self.fail("shape", node.loc, f"ref.{name}: {error}")
        except TypeError as error:
            self.fail("type", node.loc, f"ref.{name}: {error}")

    def _call_def(self, closure: Closure, args: list, keywords: dict[str, Any], node: ast.Call) -> Any:
        definition = closure.node
        names = [*definition.params, *(c.name for c in definition.constants)]
        if len(args) > len(definition.params):
            count = len(definition.params)
            self.fail("call", node.loc, f"{definition.name} takes {count} positional arguments; got {len(args)}")
        bound: dict[str, Any] = dict(zip(definition.params, args, strict=False))
        for name, value in keywords.items():
            if name not in names:
                self.fail("call", node.loc, f"{definition.name} has no parameter '{name}'", closest(name, names))
            if name in bound:
                self.fail("call", node.loc, f"'{name}' is given twice")
            bound[name] = value
        if self.calls >= MAX_CALLS:
            message = f"calls of '{definition.name}' are nested more than {MAX_CALLS} deep"
            self.fail("limit", node.loc, message, "a def cannot recurse")
        outer, depth = self.names, self.depth
        self.names, self.depth = ChainMap(bound, closure.scope), 0
        self.calls += 1
        try:
            for constant in definition.constants:
                if constant.name not in bound and constant.default is not None:
                    bound[constant.name] = self(constant.default)
            missing = [n for n in names if n not in bound]
            if missing:
                raise TileError("call", node.loc, f"{definition.name} needs '{missing[0]}'")
            self.statements(definition.body)
            return ()
        except _Returned as returned:
            return returned.value
        except TileError as error:
            if error.loc is not None and error.loc is not node.loc:
                error.loc = _called_from(error.loc, node.loc)
            raise
        finally:
            self.names, self.depth = outer, depth
            self.calls -= 1

    # ---- statements of a def ----

    def statements(self, body: list[ast.Statement]) -> None:
        """Runs them; a `return` leaves through an exception that the call catches."""
        for statement in body:
            self.steps += 1
            if self.steps > MAX_STEPS:
                self.fail(
                    "limit",
                    statement.loc,
                    f"more than {MAX_STEPS} statements on the host",
                    "use operations on whole arrays",
                )
            self._STATEMENTS[type(statement)](self, statement)

    def _assign(self, node: ast.Assign) -> None:
        value = self(node.value)
        if node.op is not None:
            value = self.infix(node.op, self(node.targets[0]), value, node.value)
        self.bind(node.targets, value, node.loc)

    def bind(self, targets: list[ast.Expr], value: Any, loc: Loc) -> None:
        """Binds the names of an assignment in the innermost scope. An array changes by no assignment."""
        if len(targets) > 1:
            if not isinstance(value, tuple | list) or len(value) != len(targets):
                have = f"{len(value)} values" if isinstance(value, tuple | list) else self.describe(value)
                self.fail("shape", loc, f"{len(targets)} names for {have}")
            for target, part in zip(targets, value, strict=True):
                self.bind([target], part, loc)
            return
        target = targets[0]
        if isinstance(target, ast.Sequence):
            self.bind(target.items, value, loc)
            return
        if not isinstance(target, ast.Name):
            self.fail(
                "type",
                target.loc,
                "on the host a value is bound to a name, not to a part of an array",
                "where(…) gives a changed copy",
            )
        assert isinstance(self.names, MutableMapping)
        self.names[target.id] = value

    def _return(self, node: ast.Return) -> None:
        raise _Returned(self(node.value))

    def _assert(self, node: ast.Assert) -> None:
        if not self.truth(node.condition, "the condition of 'assert'"):
            self.fail("constant", node.condition.loc, node.message or "the assertion is false")

    def truth(self, node: ast.Expr, what: str) -> bool:
        """A condition: one number or truth value."""
        value = self(node)
        if not isinstance(value, bool | int | float):
            hint = "where(…) chooses by element; all(…) or any(…) give one" if _is_array(value) else None
            self.fail("type", node.loc, f"{what} is one truth value; this is {self.describe(value)}", hint)
        return bool(value)

    def _if(self, node: ast.If) -> None:
        self.statements(node.then if self.truth(node.condition, "the condition of 'if'") else node.otherwise)

    def _for(self, node: ast.For) -> None:
        iterable = node.iterable
        if not (
            isinstance(iterable, ast.Call)
            and isinstance(iterable.function, ast.Name)
            and iterable.function.id == "range"
        ):
            self.fail("syntax", iterable.loc, "a loop runs over range(stop) or range(start, stop[, step])")
        if iterable.keywords or not 1 <= len(iterable.args) <= 3:
            self.fail("call", iterable.loc, "range takes 1 to 3 arguments")
        ends = [self.integer(a, "a bound of a range") for a in iterable.args]
        if len(ends) == 3 and ends[2] == 0:
            self.fail("constant", iterable.args[2].loc, "the step of a range is 0")
        name = ast.Name(node.loc, node.name)
        for i in range(*ends):
            self.steps += 1  # an empty body cannot be written, yet rounds count even if the body returns at once
            self.bind([name], i, node.loc)
            self.statements(node.body)

    def _while(self, node: ast.While) -> None:
        while self.truth(node.condition, "the condition of 'while'"):
            self.statements(node.body)

    def _def(self, node: ast.Def) -> None:
        assert isinstance(self.names, MutableMapping)
        self.names[node.name] = Closure(node, self.names)

    def _kernel_only(self, node: Any) -> None:
        word = "grid" if isinstance(node, ast.Grid) else "shared"
        self.fail("call", node.loc, f"'{word}' stands only in kernels")

    _NODES: dict[type, Any] = {  # noqa: RUF012
        **Evaluator._NODES,
        ast.Index: lambda self, n: self.index(n),
        ast.Attribute: lambda self, n: self.attribute(n),
    }
    _STATEMENTS: dict[type, Any] = {  # noqa: RUF012
        ast.Assign: _assign,
        ast.ExprStatement: lambda self, n: self(n.value),
        ast.Return: _return,
        ast.Assert: _assert,
        ast.If: _if,
        ast.For: _for,
        ast.While: _while,
        ast.Def: _def,
        ast.Grid: _kernel_only,
        ast.Shared: _kernel_only,
    }


def _is_array(value: Any) -> bool:
    """Whether it is a numpy array; asks without importing numpy."""
    return hasattr(value, "__array_interface__") and type(value).__module__.startswith("numpy")


def _described(array: Any) -> tuple[tuple[int, ...], int]:
    return array.shape, array.size * array.itemsize


def _dotted(node: ast.Expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return None if base is None else f"{base}.{node.name}"
    return None


def _called_from(loc: Loc, caller: Loc) -> Loc:
    """`loc` with `caller` at the end of its chain of calls."""
    return loc.called_from(caller if loc.caller is None else _called_from(loc.caller, caller))
