"""Code actions: hints of errors that say what to write, as edits of the text."""

from __future__ import annotations

import re

from msgspec import Struct

from dsl.editors.server.messages import Told
from dsl.editors.server.positions import TextPositions
from dsl.lowering.ir.location import closest

_NAME_HINT = re.compile(r"did you mean '([^']+)'\?")
_SIGN_HINTS = (
    re.compile(r"^write '(<=|>=|!=)'$"),
    re.compile(r"^'([*/-])' (?:multiplies|divides|subtracts)$"),
    re.compile(r"^'(==)' compares$"),
)


class Fix(Struct, frozen=True):
    """The text from `start` to `end` is replaced."""

    start: int
    end: int
    new: str

    @property
    def title(self) -> str:
        return f"Change to '{self.new}'"


def fix_of(told: Told, text: str, positions: TextPositions) -> Fix | None:
    """Returns the edit that the hint of an error asks for, or None if it does not say one."""
    if told.hint is None or told.place is None:
        return None
    start, end = positions.offset(told.place.span.start), positions.offset(told.place.span.end)
    for hint in _SIGN_HINTS:
        if (found := hint.search(told.hint)) is not None:
            return Fix(start, end, found[1]) if end - start == 1 else None
    if (found := _NAME_HINT.search(told.hint)) is None:
        return None
    # The place may be a whole statement, or another part of its line: the wrong name is one that the message quotes.
    line = text.rfind("\n", 0, start) + 1, text.find("\n", end) % (len(text) + 1)
    quoted = [each for each in re.findall(r"'([^']+)'", told.message) if _is_meant(each, found[1])]
    for wrong in quoted:
        for first, last in ((start, end), line):
            places = [*re.finditer(rf"(?<![\w.\"]){re.escape(wrong)}(?!\w)", text[first:last])]
            if len(places) == 1:
                return Fix(first + places[0].start(), first + places[0].end(), found[1])
    word = text[start:end]
    return Fix(start, end, found[1]) if re.fullmatch(r"[\w.]+", word) and _is_meant(word, found[1]) else None


def _is_meant(wrong: str, right: str) -> bool:
    """Whether the hint for a wrong name would be the right one."""
    hint = closest(wrong, [right])
    return hint is not None and f"'{right}'" in hint
