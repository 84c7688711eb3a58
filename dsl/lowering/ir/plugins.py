"""What files of the user's add to the compiler, as data: each place that may be added to asks here.

A `Plugins` rides on the program, and from there on the choices of each function; what is compiled with one knows of no
other. `dsl/kernels/plugin_files.py` makes it of files, `dsl/plugin.py` is what these import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

from dsl.lowering.ir import time_limit
from dsl.lowering.ir.location import Loc, Source, TileError
from dsl.lowering.ir.time_limit import Overdue, limited


@dataclass(frozen=True, slots=True)
class Added:
    """Something that a file adds. kind: "option", "pass", "directive", "rule", "semantics" or "instructions"; name: of
    the pass or directive, the kind of choices, the operation, the form, the file; call: the user's function; about:
    what else it says."""

    kind: str
    name: str
    call: Callable[..., Any]
    loc: Loc
    about: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, *arguments: Any) -> Any:
        """The user's function. What it raises is told as a mistake in its file: TileError `plugin`."""
        return self._guarded(self.call, arguments)

    def fits(self, *arguments: Any) -> bool:
        """Whether what it says of `when` holds, if it says so."""
        when = self.about.get("when")
        return when is None or self._guarded(lambda *given: bool(when(*given)), arguments)

    def _guarded(self, call: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        with guarded(self.loc, f"'{self.label}'"):
            return call(*arguments)

    def wrong(self, message: str, hint: str | None = None) -> TileError:
        """The error for what it gave."""
        return TileError("plugin", self.loc, f"'{self.label}' {message}", hint)

    @property
    def label(self) -> str:
        """What the user's function is called."""
        return str(getattr(self.call, "__name__", type(self.call).__name__))

    @property
    def place(self) -> str:
        """`mine.py:12`, for people."""
        return f"{Path(self.loc.source.name).name}:{self.loc.line}"


@dataclass(frozen=True, eq=False, slots=True)
class Plugins:
    """All that some files add. files: their paths; digests: SHA-256 of each by its name, 12 hexadecimal digits.

    added: in the order of the files. instructions: rows by name, as `dsl.ptx_templates` has them.
    """

    files: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    added: tuple[Added, ...] = ()
    instructions: Mapping[str, Any] = field(default_factory=dict)
    by_name: Mapping[tuple[str, str], tuple[Added, ...]] = field(init=False)

    def __post_init__(self) -> None:
        found: dict[tuple[str, str], tuple[Added, ...]] = {}
        for each in self.added:
            found[each.kind, each.name] = (*found.get((each.kind, each.name), ()), each)
        object.__setattr__(self, "by_name", found)

    def of(self, kind: str, name: str) -> tuple[Added, ...]:
        """What is added of a kind under a name."""
        return self.by_name.get((kind, name), ())

    def every(self, *kinds: str) -> list[Added]:
        return [each for each in self.added if each.kind in kinds]


NONE = Plugins()
_given: Callable[[], Plugins] = lambda: NONE  # noqa: E731 (its type is said)


def current() -> Plugins:
    """What programs, and texts of the IR, are compiled with that nobody names plug-ins for: those of the command line,
    which are read when they are first asked for."""
    return _given()


def give(plugins: Callable[[], Plugins]) -> None:
    """Says what `current` is from here on: a command's line does, once, before any file is read."""
    global _given
    _given = plugins


# ---- a file that is being read ----

_reading: list[tuple[Source, list[Added]]] = []


@contextmanager
def reading(source: Source) -> Iterator[list[Added]]:
    """Meanwhile, what functions of `dsl.plugin` are told is added to this list."""
    _reading.append((source, []))
    try:
        yield _reading[-1][1]
    finally:
        _reading.pop()


def add(kind: str, name: str, call: Callable[..., Any], line: int, about: Mapping[str, Any] | None = None) -> None:
    """Adds something of the file that is being read; of a module that is imported in another way, nothing."""
    if _reading:
        source, found = _reading[-1]
        found.append(Added(kind, name, call, of_line(source, line), about or {}))


def of_line(source: Source, number: int) -> Loc:
    """A whole line."""
    number = max(1, min(number, len(source.starts)))
    text, start = source.line(number), source.starts[number - 1]
    return Loc(source, start + len(text) - len(text.lstrip()), start + max(len(text.rstrip()), 1))


@contextmanager
def guarded(loc: Loc, what: str) -> Iterator[None]:
    """The user's code: what it raises, and that it does not end, is told as a mistake in its file, TileError `plugin`.
    what: of which function it is."""
    try:
        with limited():
            yield
    except TileError:
        raise
    except Overdue as overdue:
        message = f"{what} did not end in {time_limit.SECONDS:g} seconds"
        raise TileError("plugin", line_in(overdue, loc), message, "that is the limit of one call") from None
    except (Exception, SystemExit) as error:  # which would end the command, with a status of its own
        raise raised(error, loc, what) from error


def line_in(error: BaseException, loc: Loc) -> Loc:
    """The line of the file of `loc` that an exception came through last, else `loc`."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == loc.source.name:
            loc = of_line(loc.source, trace.tb_lineno)
        trace = trace.tb_next
    return loc


def raised(error: BaseException, loc: Loc, what: str) -> TileError:
    """An exception of a plug-in's code: the line of the file that it came through last, else `loc`."""
    loc = line_in(error, loc)
    if isinstance(error, SyntaxError) and error.filename == loc.source.name:
        loc = of_line(loc.source, error.lineno or 1)
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    message = f"{what} raised {type(error).__name__}" + (f": {said}" if said else "")
    return TileError("plugin", loc, message, "DSL_TRACEBACK=1 shows the whole way there")


# ---- options of choices ----


@dataclass(frozen=True, slots=True)
class ChoiceOption:
    """One more option of a choice. cost: in the choice's unit, where the compiler cannot weigh the value itself; less
    than the rule's own wins. preferred: it is taken whatever it costs. because: why, for `dsl why`."""

    name: str
    value: Any
    cost: float | None = None
    preferred: bool = False
    because: str = ""


@dataclass(frozen=True, slots=True)
class About:
    """A choice that is about to be made. subject: as in its key; options: values by name; rule: which the compiler
    takes; costs: in `unit`, of options that are weighed. of: what the choice is of, see docs/plugins.md."""

    subject: str
    options: Mapping[str, Any]
    rule: str
    costs: Mapping[str, float]
    unit: str
    of: Any


@dataclass(frozen=True, slots=True)
class Opening:
    """What a choice that is open to plug-ins says to them. of: what it is of; check: what is wrong with a value, ""
    if nothing; weigh: the deciding code's own cost of a value, None where that is not known."""

    of: Any
    check: Callable[[Any], str]
    weigh: Callable[[Any], float | None] | None = None

    def widened(self, about: About, by: Sequence[Added], is_pinned: bool) -> tuple[About, str]:
        """The choice with the options of plug-ins, and why the rule takes one of them; "" if it does not. Raises
        TileError `plugin` for an option that is none."""
        options, costs, rule, why = dict(about.options), dict(about.costs), about.rule, ""
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
"""The kinds of choices that plug-ins may add options to, and what `About.of` is there."""


# ---- rows of instructions ----


def instruction_rows(added: Added, file: Source, known: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of a file of a plug-in's, by name. TileError `plugin` for one that is wrong, that there is already, or
    that does more than compute."""
    from dsl import ptx_templates

    def wrong(message: str, name: str = "", hint: str | None = None) -> TileError:
        at = max(file.text.find(f'"{name}"'), 0) if name else 0
        return TileError("plugin", of_line(file, file.position(at)[0]), message, hint)

    try:
        rows = dict(ptx_templates.Family(Path(file.name).stem, file.text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "docs/instructions.md says how a row is written"
        raise wrong(f"these are no rows of instructions: {error}", hint=hint) from None
    for name, row in rows.items():
        if row.effects or row.convergent:
            raise wrong(f"'{name}' does more than compute, which passes would not see", name)
        try:
            ptx_templates.instruction(name)
        except ptx_templates.UnknownInstruction:
            if name not in known:
                continue
        raise wrong(f"there is an instruction '{name}' already", name, f"another name; {added.place} names the file")
    return rows
