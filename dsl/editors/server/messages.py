"""What the process of the server and the process that checks texts tell each other: jobs and answers, as JSON lines.

A place is in units of UTF-16 or of the other encoding of the session, so that no side needs the other's texts."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from dsl.editors.server.positions import TextPositions, TextSpan
from dsl.lowering.ir.location import Loc, Source, TileError

ERROR, INFORMATION = 1, 3
"""Severities of the protocol."""
MOST_CALLERS = 8


class TextPlace(Struct, frozen=True):
    """A part of a file. `file` is the name that the program gives it."""

    file: str
    span: TextSpan


class Told(Struct, frozen=True):
    """An error or a note of a text. `callers` are the places of the inlined calls, innermost first."""

    code: str
    message: str
    hint: str | None
    place: TextPlace | None
    callers: tuple[TextPlace, ...]
    severity: int


class Shown(Struct, frozen=True):
    """A text that an editor shows behind a line: what was chosen there. `place` ends at the end of the code."""

    place: TextPlace
    label: str
    tooltip: str


class ValueSeen(Struct, frozen=True):
    """A tile of a variant of a kernel: its type, its layout in words, its bytes of a thread's registers, and the line
    that makes it."""

    name: str
    line: int
    type: str
    layout: str
    registers: int


class KernelSeen(Struct, frozen=True):
    """A variant of a kernel, after all passes. `title` says for which call. `facts` has what its code costs."""

    title: str
    values: tuple[ValueSeen, ...]
    schedule: str
    facts: tuple[str, ...]


class Job(Struct, frozen=True):
    """A text to check, or a kernel in it to look at. `number` grows with each job, and a newer check supersedes older
    ones. `path` is None for a text that has no file yet. `texts` are unsaved texts of other files, by their paths."""

    number: int
    text: str
    path: str | None
    encoding: str
    kernel: str | None = None
    texts: dict[str, str] = field(default_factory=dict)


class CheckAnswer(Struct, frozen=True):
    """The answer to a job. `superseded` is true if a newer check ended this one. `failure` is a traceback."""

    number: int
    superseded: bool = False
    failure: str | None = None
    told: tuple[Told, ...] = ()
    shown: tuple[Shown, ...] = ()
    seen: tuple[KernelSeen, ...] = ()
    variants: int = 0
    seconds: float = 0.0


class TextPlaces:
    """Makes places of locations. The positions of each source are computed once."""

    def __init__(self, encoding: str):
        self.encoding = encoding
        self._known: dict[int, tuple[Source, TextPositions]] = {}

    def of(self, loc: Loc) -> TextPlace:
        if id(loc.source) not in self._known:
            self._known[id(loc.source)] = loc.source, TextPositions(loc.source.text, self.encoding)
        positions = self._known[id(loc.source)][1]
        return TextPlace(loc.source.name, positions.span(loc.start, max(loc.end, loc.start)))

    def told(self, error: TileError, severity: int) -> Told:
        place = None if error.loc is None else self.of(error.loc)
        callers = () if error.loc is None else tuple(map(self.of, error.loc.callers[:MOST_CALLERS]))
        return Told(error.code, error.message, error.hint, place, callers, severity)

    def all_told(self, errors: Iterable[TileError], notes: Iterable[TileError] = ()) -> tuple[Told, ...]:
        return (*(self.told(each, ERROR) for each in errors), *(self.told(each, INFORMATION) for each in notes))
