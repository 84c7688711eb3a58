"""The errors and notes of a file, as `dsl check` collects them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from dsl.kernels.request import Request
from dsl.lowering.ir.location import Loc, TileError

if TYPE_CHECKING:
    from dsl.text.program import Program


class Findings(Struct):
    """The errors of one file without duplicates, and the number of variants that were checked."""

    errors: list[TileError] = field(default_factory=list)
    notes: list[TileError] = field(default_factory=list)  # skipped checks, which are no errors
    variants: int = 0
    seen: set[Any] = field(default_factory=set)
    program: Program | None = None
    planned: list[tuple[Loc, list[Request]]] = field(default_factory=list)  # what launches of examples ask for
    told: int = 0  # how often something was found, also what had been found before
    noted: list[TileError] = field(default_factory=list)  # the notes of these, also those that had been noted before

    def add(self, error: TileError) -> None:
        self.told += 1
        for each in error.errors:
            # If a block does not parse, the errors that follow from this would hide the error to fix.
            if self.program is not None and self._follows(self.program, each):
                continue
            key = (each.code, place_of(each), each.message if each.loc is None else None)
            # Several parts of another file may read a name that a kernel of this file lacks.
            if self.program is not None and each.loc is not None and each.loc.source is not self.program.source:
                key = (each.code, None, each.message)
            if key not in self.seen:
                self.seen.add(key)
                self.errors.append(each)

    @staticmethod
    def _follows(program: Program, error: TileError) -> bool:
        from dsl.text.program import follows

        return follows(program, error)

    def note(self, note: TileError) -> None:
        self.told += 1
        self.noted.append(note)
        if (place_of(note), note.message) not in {(place_of(each), each.message) for each in self.notes}:
            self.notes.append(note)

    def sorted(self) -> list[TileError]:
        """The errors in the order of the file."""
        return sorted(self.errors, key=lambda error: place_of(error) or ("", -1))


def place_of(error: TileError) -> tuple[str, int] | None:
    return None if error.loc is None else (error.loc.source.name, error.loc.start)
