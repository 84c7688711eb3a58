"""Keeps evaluated schedules, and finds the one of a call with other extents whose variant is the same.

An evaluation reads expressions: the values of constants, and of lines such as `persistent where(BLOCKS > sms, 1, 0)`.
If all of them have the values that they had on an earlier call, so have the kernel's constants and properties. The
text of these expressions is walked once, with a `LaterNumber` in place of each dim and of each value that the cost
chooses. The walk writes Python code, which computes the values of a later call. For a matrix product, this takes 40 us.
The evaluation takes 600.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

from msgspec import Struct, field

from dsl.lowering.ir.choices import is_key
from dsl.lowering.ir.location import Loc, TileError
from dsl.schedules.definitions import Definition, Names
from dsl.text import tree as ast
from dsl.text.program import Program
from dsl.values.written import NO_VALUE, CodeWriter, LaterNumber, RecordedNames, made_for

Found = TypeVar("Found")
MOST_KEPT, MOST_OF_KEY, MOST_VALUES = 256, 16, 64
"""The greatest number of schedules of a program, of combinations of types and other facts that one reads, and of
combinations of values of its expressions."""


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


class LaterNames(CodeWriter, Names):
    """Writes expressions of a schedule as a function of the dims and of the values that the cost chooses."""

    def of_set(self, definition: Definition) -> Any:
        values = self.each(definition)
        name = definition.name
        return self.let(f"chosen[{name!r}]") if name in self.cheapest else values[0]

    def named(self, name: str) -> Any:
        return self.value(name, self.definitions[name].loc)

    def values(self, asked: Collection[Any], extents: Collection[str]) -> Callable[..., Any] | None:
        """The function from dims and chosen values to the values of what was asked. Returns None if the text cannot be
        written."""
        self.scope.names.update({name: self.let(f"dims[{name!r}]") for name in extents})
        try:
            found = [self.named(each) if isinstance(each, str) else self.expr(each) for each in asked]
            codes = [*dict.fromkeys([*self.decided, *_later(found)])]
        except (TileError, ArithmeticError):
            return None
        return self.function("dims, chosen", ", ".join([*codes, "()"]))


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
        except NO_VALUE:
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
        entry = made_for(known, entries)
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
        values = names.values(asked.values(), extents)
        return KnownSchedule(recorded.facts(extents), asked, values, kept=lines)


def keep(known: dict[Any, Any], key: Any, value: Any, most: int) -> None:
    """Adds an entry to `known`. If `known` then has more than `most` entries, removes the oldest."""
    known[key] = value
    if len(known) > most:
        known.pop(next(iter(known)), None)
