"""Offsets in a text, and positions of the Language Server Protocol: line and character, both from 0."""

from __future__ import annotations

import re
from bisect import bisect_right

from msgspec import Struct

_LINE_END = re.compile(r"\r\n|\n|\r")
UTF16 = "utf-16"
_WIDTHS = {"utf-8": ("utf-8", 1), UTF16: ("utf-16-le", 2)}


class TextPoint(Struct, frozen=True, order=True):
    """A position. `character` counts units of the encoding that editor and server have agreed on."""

    line: int
    character: int


class TextSpan(Struct, frozen=True):
    """The text between two positions."""

    start: TextPoint
    end: TextPoint


class TextPositions:
    """Converts between offsets in a text and positions. The protocol counts characters of UTF-16, if both sides have
    not agreed on another encoding."""

    def __init__(self, text: str, encoding: str = UTF16):
        self.text, self.encoding = text, encoding
        self._starts = [0, *(found.end() for found in _LINE_END.finditer(text))]

    def point(self, offset: int) -> TextPoint:
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._starts, offset) - 1
        return TextPoint(line, self._units(self.text[self._starts[line] : offset]))

    def span(self, start: int, end: int) -> TextSpan:
        return TextSpan(self.point(start), self.point(end))

    def offset(self, point: TextPoint) -> int:
        """Returns the offset of a position. One behind the end of a line or of the text is moved to this end."""
        if point.line >= len(self._starts):
            return len(self.text)
        start = self._starts[max(point.line, 0)]
        end = _LINE_END.search(self.text, start)
        line = self.text[start : end.start() if end else len(self.text)]
        if self.encoding not in _WIDTHS or line.isascii():
            return start + min(max(point.character, 0), len(line))
        at = units = 0
        while at < len(line) and units < point.character:
            units += self._units(line[at])
            at += 1
        return start + at

    def _units(self, text: str) -> int:
        if self.encoding not in _WIDTHS or text.isascii():
            return len(text)
        codec, width = _WIDTHS[self.encoding]
        return len(text.encode(codec, "surrogatepass")) // width
