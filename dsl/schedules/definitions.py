"""Collects the lines of a schedule: a definition for each name, and a setting for each property.

The order of lines has no meaning. A schedule's own lines replace lines that `like` includes from other schedules. If
several `like` lines define a name, the last one wins. An expression reads the final value of a name. So a line that
replaces a constant also changes all names computed from this constant. A definition that reads its own name, as in `TM
= TM / 2`, reads the definition that it replaces.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NoReturn, TypeGuard

from msgspec import Struct, field
from msgspec.structs import replace

from dsl.lowering.ir.choices import is_key
from dsl.lowering.ir.location import Errors, Loc, TileError, closest
from dsl.lowering.ir.types import DTYPES
from dsl.schedules.properties import Setting, chosen_word, rows_of, settings_of
from dsl.text import renamed
from dsl.text import tree as ast
from dsl.text.program import Program
from dsl.text.tree import names_in
from dsl.values.bindings import Suppressed
from dsl.values.numbers import Numbers
from dsl.values.table import find
from dsl.values.walk import WORDS

MAX_CHAIN = 64
"""The greatest depth of definitions that read one another."""


class Definition(Struct, frozen=True, dict=True):
    """The definition of a name.

    `values` contains a single expression, or all expressions of the name's `tune` set. `under` is the definition that
    this definition replaces. `caller` is the `like` line that included this definition. `part` names the schedule part
    that contains the definition.
    """

    name: str
    loc: Loc
    values: list[ast.Expr]
    is_tuned: bool = False
    under: Definition | None = None
    caller: Loc | None = None
    part: str | None = None

    @cached_property
    def numbers(self) -> list[Any]:
        """The values, if all of them are written as numbers, such as most values of `tune` sets. Else empty."""
        numbers = [node.value for node in self.values if isinstance(node, ast.Number)]
        return numbers if len(numbers) == len(self.values) else []

    @property
    def value(self) -> ast.Expr:
        return self.values[0]

    def reads(self) -> set[str]:
        """Returns the names that the definition's expression reads.

        If the expression reads the name that it defines, the result includes the names that the replaced definition
        reads.
        """
        found = names_in(self.value)
        return found | self.under.reads() if self.under is not None and self.name in found else found

    def over(self, other: Definition | None) -> Definition:
        """Returns a copy of this definition that replaces `other`."""
        if other is None:
            return self
        return replace(self, under=self.under.over(other) if self.under is not None else other)


class Said(Struct):
    """The definitions, settings and contracts of a schedule, from its own lines and from `like`, in the order of the
    text.

    `contracts` maps the name of a contract to its lines, each with the `like` line that included it.
    """

    definitions: dict[str, Definition] = field(default_factory=dict)
    settings: dict[tuple[str, str | None], Setting] = field(default_factory=dict)
    contracts: dict[str, list[tuple[ast.Contract, Loc | None]]] = field(default_factory=dict)
    mistakes: Mistakes = field(default_factory=lambda: Mistakes())


class Mistakes:
    """The errors in the lines of a schedule, each reported once. `broken` contains the names that are set by lines with
    errors. As a context manager, records the errors of a line instead of raising them, so that the other lines are
    still checked."""

    def __init__(self, errors: Iterable[TileError] = (), broken: Iterable[str] = ()) -> None:
        self.errors, self.broken = [*errors], {*broken}

    def copy(self) -> Mistakes:
        return Mistakes(self.errors, self.broken)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, TileError):
            return False
        for each in error.errors:
            # Several kernels or several `like` lines may read the same wrong line.
            known = any(each.loc == other.loc and each.message == other.message for other in self.errors)
            if not known and not isinstance(each, Suppressed):
                self.errors.append(each)
        return True

    def tell(self) -> None:
        """Raises the recorded errors, if there are any."""
        if self.errors:
            raise self.errors[0] if len(self.errors) == 1 else Errors(self.errors)


# A chain of 3,000 `like` lines took 13 s.
MAX_LIKES = 64
"""Limit of the schedules that one schedule includes, directly and through others."""


def collect(program: Program, kernel: str | None, schedule: ast.Schedule) -> Said:
    """Returns the definitions, settings and contracts of a schedule. `kernel` is None for a schedule part, which other
    schedules include.

    Raises a TileError for lines whose errors show without evaluating expressions.
    """
    said = said_by(program, kernel, schedule)
    said.mistakes.tell()
    return said


def said_with_defaults(program: Program, kernel: str, schedule: str | None) -> Said:
    """Like `said_by`, with the defaults of the kernel's constants as definitions. The schedule's definition of a
    constant replaces the default, and its expression may read the default."""
    said = Said() if schedule is None else said_by(program, kernel, program.schedule(kernel, schedule))
    for constant in program.kernel(kernel).constants:
        if constant.default is not None and constant.types is None:
            default = Definition(constant.name, constant.loc, [constant.default])
            written = said.definitions.get(constant.name)
            said.definitions[constant.name] = default if written is None else written.over(default)
    return said


def said_by(program: Program, kernel: str | None, schedule: ast.Schedule) -> Said:
    """Like `collect`, but stores the errors in the result's `mistakes` instead of raising them."""
    mistakes = Mistakes()
    said = _collect(program, kernel, schedule, None, (schedule,), mistakes, set())
    said.mistakes = mistakes
    return said


def _collect(
    program: Program,
    kernel: str | None,
    schedule: ast.Schedule,
    caller: Loc | None,
    seen: tuple[ast.Schedule, ...],
    mistakes: Mistakes,
    collected: set[tuple[int, str | None]],
) -> Said:
    """Like `collect`. `seen` lists the schedules that lead to this schedule, and `collected` all that are included so
    far, with their kernels."""
    order: dict[str, None] = {}
    liked: dict[str, Definition] = {}
    own: dict[str, Definition] = {}
    settings: dict[tuple[str, str | None], Setting] = {}
    own_settings: dict[tuple[str, str | None], Setting] = {}
    contracts: dict[str, list[tuple[ast.Contract, Loc | None]]] = {}
    own_contracts: dict[str, list[tuple[ast.Contract, Loc | None]]] = {}
    part = None if schedule.kernels else schedule.name

    def read(line: Any) -> None:
        if isinstance(line, ast.Property) and line.name == "like":
            inner = _included(program, kernel, line, caller, seen, mistakes, collected)
            for name, definition in inner.definitions.items():
                liked[name] = definition.over(liked.get(name))
                order[name] = None
            settings.update(inner.settings)
            contracts.update(inner.contracts)
        elif isinstance(line, ast.Contract):
            own_contracts.setdefault(line.name, []).append((line, caller))
        elif isinstance(line, ast.Assign | ast.Tune) or line_is_choice(line):
            for definition in _defined(line, caller, part):
                name = definition.name
                if name in own:
                    hint = f"first at {own[name].loc}"
                    raise TileError("schedule", definition.loc, f"'{name}' is set twice", hint)
                own[name] = definition
                order[name] = None
        else:
            for key, setting in settings_of(line, rows_of(program.plugins), caller).items():
                if key in own_settings:
                    hint = f"first at {own_settings[key].loc}"
                    raise TileError("schedule", setting.loc, f"'{' '.join(filter(None, key))}' is set twice", hint)
                own_settings[key] = setting

    for line in schedule.lines:
        found = len(mistakes.errors)
        with mistakes:
            read(line)
        if len(mistakes.errors) > found:
            mistakes.broken |= names_set_by(line) - own.keys()  # otherwise each use would report another error
    # A replaced definition stays in `under` of its replacement, which may read it: `TM = TM / 2`.
    definitions = {name: own[name].over(liked.get(name)) if name in own else liked[name] for name in order}
    return Said(definitions, settings | own_settings, contracts | own_contracts)


def _included(
    program: Program,
    kernel: str | None,
    line: ast.Property,
    caller: Loc | None,
    seen: tuple[ast.Schedule, ...],
    mistakes: Mistakes,
    collected: set[tuple[int, str | None]],
) -> Said:
    """Returns what a `like` line includes.

    A schedule that several others include counts once, before all of them. Otherwise, in `like A, B`, B would undo what
    A replaces of a schedule that B includes, too.
    """
    other, of = program.like(line, kernel)
    if any(other is each for each in seen):
        raise TileError("schedule", line.loc, f"schedule '{other.name}' is like itself")
    if (id(other), of) in collected:
        return Said()
    collected.add((id(other), of))
    if len(collected) > MAX_LIKES:
        message = f"a schedule includes more than {MAX_LIKES} schedules"
        raise TileError("limit", line.loc, message, "say the lines themselves")
    return _collect(program, of, other, line.loc.under(caller), (*seen, other), mistakes, collected)


def names_set_by(line: Any) -> set[str]:
    """Returns the names that a line of a schedule sets, even if the line is wrong."""
    if isinstance(line, ast.Assign):
        return {target.id for target in line.targets if isinstance(target, ast.Name)}
    return {line.name} if isinstance(line, ast.Tune) else set()


def line_is_choice(line: Any) -> TypeGuard[ast.Property]:
    """Whether the line has the form `choose KEY: OPTION`."""
    return isinstance(line, ast.Property) and line.name == "choose"


def _defined(line: ast.Assign | ast.Tune | ast.Property, caller: Loc | None, part: str | None) -> Iterator[Definition]:
    if isinstance(line, ast.Tune):
        yield Definition(line.name, line.loc, line.values, True, None, caller, part)
        return
    if isinstance(line, ast.Property):
        if len(line.subject) != 1 or not line.values:
            raise TileError("schedule", line.loc, "choose KEY: OPTION", "choose swizzle.s: none")
        key, values = line.subject[0], line.values
        if not isinstance(key, ast.Attribute | ast.Index):
            raise TileError("schedule", key.loc, "a choice has a key", "choose swizzle.s: none; 'dsl why' lists them")
        if new := renamed.new_key(ast.choice_key(key)):
            raise TileError("choice", key.loc, f"no choice has the key '{ast.choice_key(key)}'", renamed.hint(new))
        option = values[0] if len(values) == 1 else ast.Sequence(values[0].loc.to(values[-1].loc), values)
        yield Definition(ast.choice_key(key), key.loc, [option], False, None, caller, part)
        return
    if line.op is not None or not all(isinstance(t, ast.Name) for t in line.targets):
        raise TileError("syntax", line.loc, "a schedule sets names: NAME = expression")
    values = [line.value] if len(line.targets) == 1 else getattr(line.value, "items", [line.value])
    if len(values) != len(line.targets):
        raise TileError("syntax", line.loc, f"{len(line.targets)} names for {len(values)} values")
    for target, value in zip(line.targets, values, strict=True):
        assert isinstance(target, ast.Name)
        yield Definition(target.id, target.loc, [value], False, None, caller, part)


class Names(Numbers):
    """Evaluates the names of a schedule, each when it is first needed.

    `known` maps names to values known from the start. Values in `given` override definitions. `asked` maps the names
    evaluated so far to their values. `tuned` maps names with a `tune` set to all values of the set. `reads` maps each
    name to the names that its definition has used.
    """

    def __init__(
        self,
        program: Program,
        known: Mapping[str, Any],
        definitions: Mapping[str, Definition],
        given: Mapping[str, Any],
        dims: Collection[str],
    ):
        super().__init__(known)
        self.program, self.definitions, self.given, self.dims = program, definitions, given, dims
        self.broken: set[str] = set()  # names that wrong lines set
        self.cheapest: Mapping[str, Any] = {}  # the values of `tune` sets that the cost chooses
        self.asked: dict[str, Any] = {}
        self.tuned: dict[str, list[Any]] = {}
        self.reads: dict[str, list[str]] = {}
        self.open: list[Definition] = []
        self.told: TileError | None = None  # the last error, with its `like` line added

    def known_names(self) -> list[str]:
        return [*super().known_names(), *self.definitions, *self.program.functions]

    def _name(self, node: ast.Name) -> Any:
        name = node.id
        if self.open:
            self.reads.setdefault(self.open[-1].name, []).append(name)
        # `TM = TM / 2` reads the definition that it replaces. The replaced definition comes from a `like` line, or is
        # the kernel's default.
        if self.open and self.open[-1].name == name:
            under = self.open[-1].under
            return self.known(node) if under is None else self.evaluated(under)
        if name in self.definitions:
            return self.value(name, node.loc)
        return self.given[name] if name in self.given else self.known(node)

    def unknown(self, what: str, name: str, loc: Loc) -> NoReturn:
        if what == "function" and self.program.function(name) is not None:
            self.error("call", loc, f"a schedule calls no def, such as '{name}'", "its expression, in a name")
        if what == "name" and loc.source is not self.program.source:
            # Each line of an imported part that reads the name would be another error of the same cause.
            self.broken.add(name)
            dims = f"; its dims are {', '.join(self.dims)}" if self.dims else ""
            hint = f"the kernel of such a part has a dim or a constant '{name}'{dims}"
            self.error("name", loc, f"unknown name '{name}'", hint)
        super().unknown(what, name, loc)

    def value(self, name: str, at: Loc) -> Any:
        """Returns the value of a name that has a definition. Raises TileError `schedule` if the name depends on
        itself."""
        if name not in self.asked:
            if name in self.broken:
                raise Suppressed("name", at, f"'{name}' is wrong")
            names = [each.name for each in self.open]
            if name in names:
                ring = " → ".join([*names[names.index(name) :], name])
                # All names of the ring are wrong, but the ring is reported only once.
                self.broken |= set(names)
                raise TileError("schedule", at, f"'{name}' is computed from itself: {ring}")
            if len(names) == MAX_CHAIN:
                raise TileError("limit", at, f"definitions read one another more than {MAX_CHAIN} deep")
            definition = self.definitions[name]
            if definition.is_tuned:
                self.asked[name] = self.given.get(name, self.of_set(definition))
            else:  # a replaced definition may read names that the kernel does not have
                self.asked[name] = self.given[name] if name in self.given else self.evaluated(definition)
        return self.asked[name]

    def of_set(self, definition: Definition) -> Any:
        """Returns the value of a name with a `tune` set: the value that the cost chose, or else the first value."""
        # The set is evaluated as a whole, because the tuner lists it.
        values = self.tuned[definition.name] = self.each(definition)
        return self.cheapest.get(definition.name, values[0])

    def evaluated(self, definition: Definition) -> Any:
        return self.each(definition, 1)[0]

    def each(self, definition: Definition, count: int | None = None) -> list[Any]:
        """Evaluates the first `count` expressions of a definition, or all of them if `count` is None."""
        if definition.numbers and not is_key(definition.name):
            return definition.numbers[:count]
        # The depth of nesting is counted anew for each definition, because MAX_CHAIN bounds the chain of definitions.
        depth, self.depth = self.depth, 0
        self.open.append(definition)
        try:
            read = self.option if is_key(definition.name) else self
            return [read(value) for value in definition.values[:count]]
        except TileError as error:
            if error is not self.told:
                self.told = through(error, definition.caller)
            # If an inner definition has added its own `like` line already, the outer definitions leave the error
            # unchanged.
            raise self.told from None
        finally:
            self.open.pop()
            self.depth = depth

    def option(self, node: ast.Expr) -> str:
        """Converts the option in a `choose` line to text. It may be a string, a word, a number, or several of these.
        `where(CONDITION, WORD, WORD)` chooses a word."""
        node = chosen_word(node, self)
        if isinstance(node, ast.String):
            return node.value
        if isinstance(node, ast.Sequence):
            return ", ".join(map(self.option, node.items))
        if isinstance(node, ast.Name) and not self.means(node.id):
            return node.id
        if isinstance(node, ast.Attribute):
            return ast.choice_key(node)
        value = self(node)
        if isinstance(value, bool):
            return "on" if value else "off"
        return str(value)

    def means(self, name: str) -> bool:
        """Whether a word in an option is the name of a constant, so that its value is used.

        Dims do not count, because a dim may have the same name as an option.
        """
        return name in self.definitions or name in self.given

    def known(self, node: ast.Name) -> Any:
        """Returns the value of a name that has no definition, such as a dim or a fact about the device."""
        name = node.id
        if name not in self.names and name not in WORDS and name not in DTYPES:
            if name in self.broken:
                raise Suppressed("name", node.loc, f"'{name}' is wrong")
            function = self.program.function(name) or find(name)
            if function is not None:
                return function
            if name in self.dims:
                message = f"the schedule needs the dim '{name}', which is not given"
                raise TileError("name", node.loc, message, f"give it: {name}=NUMBER")
            part = self.open[-1].part if self.open else None
            if part is not None and closest(name, [*self.names, *self.definitions]) is None:
                hint = f"the part '{part}' leaves it open: set it beside 'like {part}'"
                raise TileError("name", node.loc, f"unknown name '{name}'", hint)
        return super()._name(node)

    def in_order(self, names: Collection[str]) -> list[str]:
        """Returns those of `names` that were evaluated. Each name comes after the names that it reads. Otherwise the
        given order is kept."""
        out: dict[str, None] = {}

        def visit(name: str) -> None:
            if name in self.asked and name not in out:
                for other in self.reads.get(name, ()):
                    if other != name:
                        visit(other)
                out[name] = None

        for name in names:
            visit(name)
        return list(out)


def through(error: TileError, caller: Loc | None) -> TileError:
    """Adds the location of a `like` line to the error of a line that the `like` line included."""
    if caller is None or isinstance(error, Suppressed):
        return error
    placed = [
        TileError(e.code, None if e.loc is None else e.loc.under(caller), e.message, e.hint) for e in error.errors
    ]
    return placed[0] if len(placed) == 1 else Errors(placed)
