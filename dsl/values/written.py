"""Writes expressions of numbers as the code of a Python function, which computes them for a later call.

The text is walked once, with a `LaterNumber` in place of each number that a later call may change. The walk writes down
what it does with them. The code does the same operations, and raises an error where the walk does. Some expressions
cannot be written, such as one that compares such a number with a word. They are walked each time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NoReturn, Protocol, TypeVar

from msgspec import Struct

from dsl.lowering.ir.location import Loc
from dsl.text import tree as ast
from dsl.values.arithmetic import COMPARISONS, infix, limited, prefix
from dsl.values.table import Builtin
from dsl.values.walk import MISSING, NUMBERS, Walk

NO_VALUE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What written code raises if an expression has no value. The walk then raises the error with its place."""


class RecordedNames(dict[str, Any]):
    """Names with their values, which records the names that were looked up."""

    def __init__(self, names: Mapping[str, Any]):
        super().__init__(names)
        self.read: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self.read.add(str(name))
        return super().__contains__(name)

    def facts(self, but: Collection[str] = ()) -> list[tuple[str, Any]]:
        """The names that were looked up, except for `but`, with their values."""
        return [(name, dict.get(self, name, MISSING)) for name in sorted(self.read) if name not in but]


class HasFacts(Protocol):
    """What was made for calls with these facts: names with their values."""

    @property
    def facts(self) -> Collection[tuple[str, Any]]: ...


Made = TypeVar("Made", bound=HasFacts)


def made_for(known: Mapping[str, Any], made: Iterable[Made]) -> Made | None:
    """Returns the first of `made` whose facts have the values and types of `known`. 1, 1.0 and True differ."""
    for each in made:
        for name, value in each.facts:
            now = known.get(name, MISSING)
            if now is not value and (type(now) is not type(value) or now != value):
                break
        else:
            return each
    return None


class LaterNumber(Struct, frozen=True):
    """A number of a later call. `code` is its name in the function."""

    code: str

    def __bool__(self) -> NoReturn:
        raise ArithmeticError("a number of a later call decides")

    def __str__(self) -> NoReturn:
        raise ArithmeticError("a number of a later call becomes text")

    __repr__ = __str__


class CodeWriter(Walk):
    """Evaluates expressions of a domain, and writes operations on numbers of later calls as code. A class that writes
    inherits from this one and from that of the domain."""

    def __init__(self, *what: Any):
        super().__init__(*what)
        self.code: list[str] = []
        self.same: dict[str, LaterNumber] = {}  # equal expressions are computed once
        self.constants: dict[str, Any] = {"infix": infix, "prefix": prefix, "limited": limited}
        self.decided: dict[str, None] = {}  # what decides whether further expressions are evaluated

    def let(self, code: str) -> LaterNumber:
        if code not in self.same:
            self.same[code] = LaterNumber(f"t_{len(self.code)}")
            self.code.append(f"    {self.same[code].code} = {code}\n")
        return self.same[code]

    def joins(self, value: Any) -> bool:
        return isinstance(value, LaterNumber)

    def text(self, value: Any) -> str:
        if isinstance(value, LaterNumber):
            return value.code
        if not isinstance(value, float):
            return repr(value)
        name = f"c_{len(self.constants)}"  # nan and inf have no literals
        self.constants[name] = value
        return name

    def prefixed(self, op: str, value: Any, loc: Loc) -> Any:
        return self.let(f"prefix({op!r}, {self.text(value)})")

    def joined(self, op: str, left: Any, right: Any, loc: Loc) -> Any:
        # Python raises where `infix` does, except that it knows no limit.
        if op in COMPARISONS:
            return self.let(f"{self.text(left)} {op} {self.text(right)}")
        if op in ("+", "-", "*", "//", "%"):
            return self.let(f"limited({self.text(left)} {op} {self.text(right)})")
        return self.let(f"infix({op!r}, {self.text(left)}, {self.text(right)})")

    def both(self, op: str, left: Any, right: Any, node: ast.Binary | None = None) -> Any:
        return self.let(f"bool({self.text(left)}) {op} bool({self.text(right)})")

    def conjoined(self, left: Any, right: Any, loc: Loc) -> Any:
        return self.both("and", left, right)

    def logic(self, node: ast.Binary, side: Callable[[ast.Expr], Any]) -> Any:
        left = side(node.left)
        if isinstance(left, LaterNumber):
            self.decided[self.let(f"bool({left.code})").code] = None
        elif bool(left) == (node.op == "or"):
            return bool(left)
        right = side(node.right)
        if isinstance(left, LaterNumber):
            return self.both(node.op, left, right)
        return bool(right) if isinstance(right, NUMBERS) else self.let(f"bool({self.text(right)})")

    def of(
        self, function: Builtin, values: list[Any], keywords: dict[str, Any], loc: Loc, node: ast.Call | None = None
    ) -> Any:
        if not any(isinstance(value, LaterNumber) for value in (*values, *keywords.values())):
            return super().of(function, values, keywords, loc, node)
        if function.numbers is None or keywords or not all(isinstance(v, (*NUMBERS, LaterNumber)) for v in values):
            self.error("call", loc, f"'{function.name}' is not written")
        self.check(function, function.form_of_numbers, len(values), keywords, loc)
        args = ", ".join(map(self.text, values))
        self.constants[f"of_{function.name}"] = function.numbers
        return self.let(f"limited(of_{function.name}({args}))")

    def function(self, parameters: str, result: str) -> Callable[..., Any]:
        """The function that computes `result`, with all code so far."""
        made = dict(self.constants)
        exec(f"def function({parameters}):\n{''.join(self.code)}    return {result}", made)
        function: Callable[..., Any] = made["function"]
        return function
