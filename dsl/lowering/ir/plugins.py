"""Plug-ins: additions to the compiler from files of the user. Each extensible part of the compiler looks up its
additions here.

A `Plugins` object belongs to a program and to the choices of each function. A kernel is compiled with exactly one
`Plugins` object. `dsl/kernels/plugin_files.py` builds it from files, which import the module `dsl/plugin.py`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from dsl.lowering.ir import time_limit
from dsl.lowering.ir.location import Loc, Source, TileError
from dsl.lowering.ir.time_limit import Overdue, limited


class Added(Struct, frozen=True):
    """One addition to the compiler from a plug-in file.

    `kind`: "option", "pass", "directive", "rule", "semantics" or "instructions".
    `name`: depending on `kind`, the name of the pass, directive, kind of choices, operation, form, or file.
    `call`: the user's function.
    `about`: the other arguments of the addition.
    """

    kind: str
    name: str
    call: Callable[..., Any]
    loc: Loc
    about: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, *arguments: Any) -> Any:
        """Calls the user's function. An exception becomes TileError `plugin` at a line of the user's file."""
        return self._guarded(self.call, arguments)

    def fits(self, *arguments: Any) -> bool:
        """Returns whether the addition applies: whether its condition `when` is true or missing."""
        when = self.about.get("when")
        return when is None or self._guarded(lambda *given: bool(when(*given)), arguments)

    def _guarded(self, call: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        with guarded(self.loc, f"'{self.label}'"):
            return call(*arguments)

    def wrong(self, message: str, hint: str | None = None) -> TileError:
        """Returns the error for a wrong result of the user's function."""
        return TileError("plugin", self.loc, f"'{self.label}' {message}", hint)

    @property
    def label(self) -> str:
        """The name of the user's function."""
        return str(getattr(self.call, "__name__", type(self.call).__name__))

    @property
    def place(self) -> str:
        """The location for messages, such as `mine.py:12`."""
        return f"{Path(self.loc.source.name).name}:{self.loc.line}"


class Plugins(Struct, frozen=True, eq=False, dict=True):
    """All additions of some files.

    `files`: the paths of the files. `digests`: maps the name of a file to 12 hexadecimal digits of its SHA-256.
    `added`: the additions in the order of the files.
    `instructions`: maps names of instructions to their table rows, as in `dsl.ptx_templates`.
    """

    files: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    added: tuple[Added, ...] = ()
    instructions: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def by_name(self) -> Mapping[tuple[str, str], tuple[Added, ...]]:
        found: dict[tuple[str, str], tuple[Added, ...]] = {}
        for each in self.added:
            found[each.kind, each.name] = (*found.get((each.kind, each.name), ()), each)
        return found

    def of(self, kind: str, name: str) -> tuple[Added, ...]:
        """Returns the additions with the given kind and name."""
        return self.by_name.get((kind, name), ())

    def every(self, *kinds: str) -> list[Added]:
        return [each for each in self.added if each.kind in kinds]


NONE = Plugins()
_given: Callable[[], Plugins] = lambda: NONE  # noqa: E731 (its type is said)


def current() -> Plugins:
    """Returns the plug-ins of the command line. They apply to programs and IR texts for which no other plug-ins are
    specified. Their files are read at the first call."""
    return _given()


def give(plugins: Callable[[], Plugins]) -> None:
    """Sets the function that `current` calls in this process. A command calls `give` once, before it reads any file."""
    global _given
    _given = plugins


# ---- a file that is being read ----

_reading: list[tuple[Source, list[Added]]] = []


@contextmanager
def reading(source: Source) -> Iterator[list[Added]]:
    """A context manager around reading a plug-in file. It yields a list, to which the functions of `dsl.plugin` append
    additions."""
    _reading.append((source, []))
    try:
        yield _reading[-1][1]
    finally:
        _reading.pop()


def add(kind: str, name: str, call: Callable[..., Any], line: int, about: Mapping[str, Any] | None = None) -> None:
    """Registers an addition of the plug-in file that is being read. Does nothing if no such file is being read, for
    example if Python imports the file directly."""
    if _reading:
        source, found = _reading[-1]
        found.append(Added(kind, name, call, of_line(source, line), about or {}))


def of_line(source: Source, number: int) -> Loc:
    """Returns the location of a whole line, without the white space around it."""
    number = max(1, min(number, len(source.starts)))
    text, start = source.line(number), source.starts[number - 1]
    return Loc(source, start + len(text) - len(text.lstrip()), start + max(len(text.rstrip()), 1))


@contextmanager
def guarded(loc: Loc, what: str) -> Iterator[None]:
    """A context manager that runs the user's code. An exception or a timeout becomes TileError `plugin` at a line of
    the user's file. `what` is the name of the function, for the message."""
    try:
        with limited():
            yield
    except TileError:
        raise
    except Overdue as overdue:
        message = f"{what} did not end in {time_limit.SECONDS:g} seconds"
        raise TileError("plugin", line_in(overdue, loc), message, "that is the limit of one call") from None
    except (Exception, SystemExit) as error:  # including SystemExit, which would set the command's exit status
        raise raised(error, loc, what) from error


def line_in(error: BaseException, loc: Loc) -> Loc:
    """Returns the last line in the file of `loc` that an exception passed through, as a location. Returns `loc` if
    there is no such line."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == loc.source.name:
            loc = of_line(loc.source, trace.tb_lineno)
        trace = trace.tb_next
    return loc


def raised(error: BaseException, loc: Loc, what: str) -> TileError:
    """Returns the TileError for an exception that a plug-in raised. Its location is the last line of the plug-in's file
    that the exception passed through."""
    loc = line_in(error, loc)
    if isinstance(error, SyntaxError) and error.filename == loc.source.name:
        loc = of_line(loc.source, error.lineno or 1)
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    message = f"{what} raised {type(error).__name__}" + (f": {said}" if said else "")
    return TileError("plugin", loc, message, "DSL_TRACEBACK=1 shows the whole way there")


# ---- options of choices ----


class ChoiceOption(Struct, frozen=True):
    """An option that a plug-in adds to a choice.

    `cost`: the cost in the choice's unit. If it is None, the compiler computes the cost from `value`, if it can. An
        option that costs less than the rule's option is taken.
    `preferred`: True if the option is taken regardless of its cost.
    `because`: the reason, for `dsl why`.
    """

    name: str
    value: Any
    cost: float | None = None
    preferred: bool = False
    because: str = ""


class About(Struct, frozen=True):
    """A choice that is about to be made, as plug-ins receive it.

    `subject`: the subject in the key of the choice.
    `options`: maps names to values.
    `rule`: the option that the compiler takes by default.
    `costs`: maps options to costs in `unit`, as far as they are known.
    `of`: the subject of the choice as an object, see docs/plugins.md.
    """

    subject: str
    options: Mapping[str, Any]
    rule: str
    costs: Mapping[str, float]
    unit: str
    of: Any


class Opening(Struct, frozen=True):
    """What plug-ins need to add options to a choice.

    `of`: the subject of the choice.
    `check`: a function that describes what is wrong with a value. It returns "" if the value is valid.
    `weigh`: a function that computes the cost of a value, as the compiler does for its own options. It returns None if
        the cost is not known.
    """

    of: Any
    check: Callable[[Any], str]
    weigh: Callable[[Any], float | None] | None = None

    def widened(self, about: About, by: Sequence[Added], is_pinned: bool) -> tuple[About, str]:
        """Adds the options of plug-ins to a choice. Also returns the reason if such an option becomes the default, or
        else "". Raises TileError `plugin` for an invalid option."""
        options, costs, rule, why = dict(about.options), dict(about.costs), about.rule, ""
        # Plug-ins get read-only copies. A plug-in adds an option by returning it, and must not change the compiler's
        # own options.
        about = replace(about, options=MappingProxyType(dict(options)), costs=MappingProxyType(dict(costs)))
        for each in by:
            made = each(about)
            if made is None:
                continue
            self._examine(each, made, options)
            with guarded(each.loc, f"weighing what '{each.label}' gave"):
                cost = made.cost if self.weigh is None or made.cost is not None else self.weigh(made.value)
            options[made.name] = made.value
            if cost is not None:
                costs[made.name] = cost
            is_less = cost is not None and rule in costs and cost < costs[rule]
            # A line of the schedule takes precedence over a plug-in. A `choose` line may still select the plug-in's
            # option by its name.
            if not is_pinned and (made.preferred or is_less):
                rule, why = made.name, f"{made.because or ('preferred' if made.preferred else 'less')} ({each.place})"
        return About(about.subject, options, rule, costs, about.unit, about.of), why

    def _examine(self, added: Added, made: Any, options: Mapping[str, Any]) -> None:
        if not isinstance(made, ChoiceOption):
            raise added.wrong(f"gave {made!r:.60}", "an Option, or None where it does not fit")
        if not isinstance(made.name, str) or not made.name.isidentifier():
            raise added.wrong(f"names its option {made.name!r:.60}", "a word, as in --choose KEY=WORD")
        if made.name in options:
            raise added.wrong(f"names its option '{made.name}', which there is already", "another word")
        number = isinstance(made.cost, int | float) and not isinstance(made.cost, bool) and made.cost == made.cost
        if made.cost is not None and not number:
            raise added.wrong(f"gives '{made.name}' the cost {made.cost!r:.60}", "a number, or None")
        if not isinstance(made.because, str) or not isinstance(made.preferred, bool):
            raise added.wrong(f"says of '{made.name}' what is no text, or no bool", "because='…', preferred=True")
        with guarded(added.loc, f"looking at what '{added.label}' gave"):
            wrong = self.check(made.value)
        if wrong:
            raise added.wrong(f"gave '{made.name}' the value {made.value!r:.80}: {wrong}")


OPEN = {
    "vector": "a value whose layout nothing else says: `.tile`, `.op`, `.warps`, `.axis`, `.widest`",
    "swizzle": "a shared tile: `.type`, `.phases` of its accesses, `.bits` of an offset that may move, `.widest` bytes",
    "l2_group": "the kernel's `Function`",
    "tile_columns": "the kernel's `Function`",
    "convert_layout": "a value that changes layout: `.value`, `.layout`, `.op`, `.warps`",
}
"""The kinds of choices to which plug-ins may add options, each with a description of its `About.of`."""


# ---- rows of instructions ----


def instruction_rows(added: Added, file: Source, known: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the instructions in a plug-in's file: table rows by name. Raises TileError `plugin` for a row that is
    malformed, already exists, or has effects."""
    from dsl import ptx_templates

    def wrong(message: str, name: str = "", hint: str | None = None) -> TileError:
        at = max(file.text.find(f'"{name}"'), 0) if name else 0
        return TileError("plugin", of_line(file, file.position(at)[0]), message, hint)

    try:
        rows = dict(ptx_templates.Family(Path(file.name).stem, tomllib.loads(file.text)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "docs/instructions.md says how a row is written"
        raise wrong(f"these are no rows of instructions: {error}", hint=hint) from None
    for name, row in rows.items():
        # Only instructions without effects are allowed, because the passes that insert barriers, compute liveness and
        # merge equal operations do not know of effects of these rows.
        if row.effects or row.convergent:
            raise wrong(f"'{name}' does more than compute, which passes would not see", name)
        try:
            ptx_templates.instruction(name)
        except ptx_templates.UnknownInstruction:
            if name not in known:
                continue
        raise wrong(f"there is an instruction '{name}' already", name, f"another name; {added.place} names the file")
    return rows
