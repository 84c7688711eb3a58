"""The state of an open text: what its last pass over syntax and names said, and what its last check found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dsl.editors.server.messages import CheckAnswer, KernelSeen, Shown, TextPlace, TextPlaces, Told
from dsl.editors.server.positions import TextPoint, TextPositions, TextSpan
from dsl.editors.server.symbols import Symbols
from dsl.lowering.ir.location import TileError
from dsl.studies.check import UNNAMED
from dsl.text.files import resolved
from dsl.text.program import STD, Program, examine_program, packaged_files

Moving = TypeVar("Moving", Told, Shown)


class Moved(Struct, frozen=True):
    """The lines that an edit left as they were: the first ones, and the last ones, which may have moved."""

    first: int
    last: int
    lines: int
    by: int

    @classmethod
    def between(cls, old: str, new: str) -> Moved:
        one, two = old.split("\n"), new.split("\n")
        most = min(len(one), len(two))
        first = next((at for at in range(most) if one[at] != two[at]), most)
        last = next((at for at in range(most - first) if one[-1 - at] != two[-1 - at]), most - first)
        return cls(first, last, len(one), len(two) - len(one))

    def span(self, span: TextSpan) -> TextSpan | None:
        """Returns where a part of the old text is in the new one, or None if it has changed."""
        if span.end.line < self.first:
            return span
        if span.start.line >= self.lines - self.last:
            return TextSpan(self._down(span.start), self._down(span.end))
        return None

    def _down(self, point: TextPoint) -> TextPoint:
        return TextPoint(point.line + self.by, point.character)


class OpenText:
    """A text that an editor shows. `path` is None if it has no file yet."""

    def __init__(self, uri: str, path: Path | None, text: str, version: int | None, encoding: str):
        self.uri, self.path, self.encoding = uri, path, encoding
        self.program: Program | None = None
        self.checked: tuple[str, CheckAnswer] | None = None
        self.set(text, version)

    @property
    def name(self) -> str:
        """The name of the file in locations."""
        return UNNAMED if self.path is None else str(self.path)

    def set(self, text: str, version: int | None) -> None:
        # The compiler reads files without a byte order mark, too.
        self.text, self.version = text.removeprefix("\ufeff"), version
        self.quick: tuple[Told, ...] = ()
        self.job = 0  # the number of the check of this text
        self.seen: dict[str, tuple[KernelSeen, ...]] = {}
        vars(self).pop("symbols", None)
        vars(self).pop("positions", None)

    @cached_property
    def symbols(self) -> Symbols:
        return Symbols(self.text, self.program)

    @cached_property
    def positions(self) -> TextPositions:
        return TextPositions(self.text, self.encoding)

    def examine(self, texts: Mapping[Path, str]) -> None:
        """Finds errors of the syntax and of names between blocks. This takes 2 to 50 ms."""
        places = TextPlaces(self.encoding)
        try:
            folder = None if self.path is None else resolved(self.path).parent
            program, errors = examine_program(self.text, self.name, folder, texts)
        except TileError as error:
            self.quick = places.all_told(error.errors)
            return
        program.path = self.path
        self.quick = places.all_told(errors)
        self.program = program
        vars(self).pop("symbols", None)

    def imports(self, path: Path) -> bool:
        """Whether the last program of this text imports a file."""
        return self.program is not None and any(each.path == path for each in self.program.imported)

    @property
    def told(self) -> list[Told]:
        """All that is known to be wrong. Until the check of the text answers, this is what the quick pass has found,
        and of the last check what is on lines that have not changed since."""
        if self.checked is None:
            return [*self.quick]
        text, answer = self.checked
        if text == self.text:
            return [*answer.told]
        moved = [each for each in self._moved(answer.told) if each.code != "syntax"]
        known = {(each.code, each.message, each.place) for each in self.quick}
        return [*self.quick, *(each for each in moved if (each.code, each.message, each.place) not in known)]

    @property
    def shown(self) -> list[Shown]:
        return [] if self.checked is None else [*self._moved(self.checked[1].shown)]

    def _moved(self, found: Iterable[Moving]) -> Iterable[Moving]:
        assert self.checked is not None
        moved = Moved.between(self.checked[0], self.text)
        for each in found:
            if each.place is None or each.place.file != self.name:
                continue
            span = moved.span(each.place.span)
            if span is not None:
                yield replace(each, place=TextPlace(each.place.file, span))


def path_of(file: str) -> Path | None:
    """Returns the path of a file that a location names, or None for a text without a file."""
    if file in packaged_files():
        return STD.parent / file
    return None if file == UNNAMED else Path(file)
