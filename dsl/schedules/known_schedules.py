"""Keeps evaluated schedules, and finds the one of a call with other extents whose variant is the same.

An evaluation reads expressions: the values of constants, and of lines such as `persistent where(BLOCKS > sms, 1, 0)`.
If all of them have the values that they had on an earlier call, so have the kernel's constants and properties. The
text of these expressions is walked once, with a `LaterNumber` in place of each dim and of each value that the cost
chooses. The walk writes Python code, which computes the values of a later call. For a matrix product, this takes 40 us.
The evaluation takes 600.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NoReturn, TypeVar

from msgspec import Struct, field

from dsl.lowering.ir.choices import is_key
from dsl.lowering.ir.location import Loc, TileError
from dsl.schedules.definitions import Definition, Names
from dsl.text import tree as ast
from dsl.text.program import Program
from dsl.values.arithmetic import COMPARISONS, infix, limited, prefix
from dsl.values.table import Builtin
from dsl.values.walk import MISSING, NUMBERS

Found = TypeVar("Found")
MOST_KEPT, MOST_OF_KEY, MOST_VALUES = 256, 16, 64
"""The greatest number of schedules of a program, of combinations of types and other facts that one reads, and of
combinations of values of its expressions."""


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


def are_as_before(facts: Collection[tuple[str, Any]], known: Mapping[str, Any]) -> bool:
    """Whether the facts have these values and types. 1, 1.0 and True differ."""
    for name, value in facts:
        now = known.get(name, MISSING)
        if now is not value and (type(now) is not type(value) or now != value):
            return False
    return True


class RecordingNames(Names):
    """Evaluates a schedule. `asked_from_outside` has the names and expressions that its lines ask for."""

    def __init__(self, *what: Any):
        super().__init__(*what)
        self.asked_from_outside: dict[Any, Any] = {}
        self.is_inside = False

    def outermost(self, key: Any, asked: Any, evaluate: Callable[[], Any]) -> Any:
        if self.is_inside:
            return evaluate()
        self.is_inside = True
        try:
            found = evaluate()
        finally:
            self.is_inside = False
        self.asked_from_outside[key] = asked
        return found

    def expr(self, node: ast.Expr) -> Any:
        if self.is_inside:
            return super().expr(node)
        return self.outermost(id(node), node, lambda: super(RecordingNames, self).expr(node))

    def value(self, name: str, at: Loc) -> Any:
        # The option of a choice is text. The expressions in it are recorded.
        if self.is_inside or is_key(name):
            return super().value(name, at)
        return self.outermost(name, name, lambda: super(RecordingNames, self).value(name, at))


class LaterNumber(Struct, frozen=True):
    """A number of a later call. `code` is its name in the function."""

    code: str

    def __bool__(self) -> NoReturn:
        raise ArithmeticError("a number of a later call decides")

    def __str__(self) -> NoReturn:
        raise ArithmeticError("a number of a later call becomes text")

    __repr__ = __str__


class LaterNames(Names):
    """Evaluates expressions of a schedule to the code of a function of the dims and of the values that the cost
    chooses. Everything that the evaluation computes, the function computes, too, and it raises the same errors."""

    def __init__(self, *what: Any):
        super().__init__(*what)
        self.code: list[str] = []
        self.same: dict[str, LaterNumber] = {}
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
            self.error("call", loc, f"'{function.name}' is not traced")
        self.check(function, function.form_of_numbers, len(values), keywords, loc)
        args = ", ".join(map(self.text, values))
        self.constants[f"of_{function.name}"] = function.numbers
        return self.let(f"limited(of_{function.name}({args}))")

    def of_set(self, definition: Definition) -> Any:
        values = self.each(definition)
        name = definition.name
        return self.let(f"chosen[{name!r}]") if name in self.cheapest else values[0]

    def named(self, name: str) -> Any:
        return self.value(name, self.definitions[name].loc)

    def function(self, asked: Collection[Any], extents: Collection[str]) -> Callable[..., Any] | None:
        """The function from dims and chosen values to the values of what was asked. Returns None if the text cannot be
        traced."""
        self.scope.names.update({name: self.let(f"dims[{name!r}]") for name in extents})
        try:
            found = [self.named(each) if isinstance(each, str) else self.expr(each) for each in asked]
            codes = [*dict.fromkeys([*self.decided, *_later(found)])]
        except (TileError, ArithmeticError):
            return None
        made = dict(self.constants)
        exec(f"def values(dims, chosen):\n{''.join(self.code)}    return {', '.join([*codes, '()'])}", made)
        function: Callable[..., Any] = made["values"]
        return function


def _later(value: Any) -> Iterator[str]:
    """The code of all numbers of later calls in a value."""
    if isinstance(value, LaterNumber):
        yield value.code
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _later(each)


class KnownSchedule(Struct):
    """The evaluations of a schedule for the same facts. `asked` are the expressions that they read, `values` the
    function that computes these, and `found` maps their values to the evaluated schedule. `kept` keeps alive what the
    key names by its address."""

    facts: list[tuple[str, Any]]
    asked: dict[Any, Any]
    values: Callable[..., Any] | None
    found: dict[Any, Any] = field(default_factory=dict)
    kept: Any = None

    def key(self, dims: Mapping[str, Any], chosen: Mapping[str, Any]) -> str | None:
        """The values of the expressions, or None if they cannot be computed."""
        if self.values is None:
            return None
        try:
            values = self.values(dims, chosen)
        except (ArithmeticError, ValueError, TypeError):
            return None  # the walk raises the error with its place
        # The text tells 1, 1.0 and True apart, and 0.0 and -0.0.
        return repr((*chosen.values(), *values))


class KnownSchedules:
    """The evaluated schedules of a program. The second evaluation of a schedule is kept, and later ones with other
    values of its expressions."""

    def __init__(self, program: Program):
        self.program = program
        self.kept: dict[Any, list[KnownSchedule]] = {}  # an empty list for a schedule that was evaluated once

    def evaluated(
        self, lines: Any, cheapest: Mapping[str, Any], evaluate: Callable[[Names], Found], *what: Any
    ) -> Found:
        """Returns what `evaluate` returns for Names of `what`, or for those of an earlier call with the same values of
        expressions. `lines` decides what `evaluate` does."""
        _, known, _, given, dims = what
        extents = [name for name in dims if type(known.get(name)) is int]
        # A cost whose first conditions are false reads no further sets.
        constants = tuple((name, type(value), value) for name, value in given.items())
        key = id(lines), constants, tuple(extents), tuple(cheapest)
        try:
            entries = self.kept.get(key)
        except TypeError:  # a value that is no constant
            return evaluate(Names(*what))
        if entries is None:
            keep(self.kept, key, [], MOST_KEPT)
            return evaluate(Names(*what))
        entry = next((each for each in entries if are_as_before(each.facts, known)), None)
        values = None if entry is None else entry.key(known, cheapest)
        if entry is not None and values in entry.found:
            earlier: Found = entry.found[values]
            return earlier
        names = RecordingNames(*what)
        found = evaluate(names)
        if entry is None or (values is not None and names.asked_from_outside.keys() - entry.asked.keys()):
            entries[:] = [each for each in entries if each is not entry][1 - MOST_OF_KEY :]
            asked = {**({} if entry is None else entry.asked), **names.asked_from_outside}
            entry = self.traced(asked, extents, cheapest, lines, *what)
            entries.append(entry)
            values = entry.key(known, cheapest)
        if values is not None:
            keep(entry.found, values, found, MOST_VALUES)
        return found

    def traced(
        self, asked: dict[Any, Any], extents: Collection[str], cheapest: Mapping[str, Any], lines: Any, *what: Any
    ) -> KnownSchedule:
        _, known, definitions, given, dims = what
        recorded = RecordedNames(known)
        names = LaterNames(self.program, recorded, definitions, given, dims)
        names.cheapest = cheapest
        values = names.function(asked.values(), extents)
        facts = [(name, known.get(name, MISSING)) for name in sorted(recorded.read) if name not in extents]
        return KnownSchedule(facts, asked, values, kept=lines)


def keep(known: dict[Any, Any], key: Any, value: Any, most: int) -> None:
    """Adds an entry to `known`. If `known` then has more than `most` entries, removes the oldest."""
    known[key] = value
    if len(known) > most:
        known.pop(next(iter(known)), None)
