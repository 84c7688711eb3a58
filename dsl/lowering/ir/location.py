"""Locations in `.tile` files, and `TileError`, the error with a location."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct


class Source(Struct, eq=False, dict=True):
    """The text of one file. Lines and columns are numbered from 1."""

    name: str
    text: str

    @cached_property
    def starts(self) -> list[int]:
        """The offset of the first character of each line. It is computed only when a location is shown, because most
        texts compile without an error."""
        return [0, *(i + 1 for i, c in enumerate(self.text) if c == "\n")]

    def position(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def line(self, number: int) -> str:
        start = self.starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)]


class Loc(NamedTuple):
    """The characters `start … end` of a source. If the code was inlined, `caller` is the location of the call,
    otherwise None."""

    source: Source
    start: int
    end: int
    caller: Loc | None = None

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.position(self.start)[1]

    @property
    def text(self) -> str:
        """The source text at this location, joined into one line."""
        return " ".join(self.source.text[self.start : self.end].split())

    def place(self, file: str) -> str:
        """Returns the line in words, for a message about the file of this name: with the path of any other file."""
        return said_line(self.line, None if self.source.name == file else self.source.name)

    def to(self, other: Loc) -> Loc:
        return Loc(self.source, min(self.start, other.start), max(self.end, other.end), self.caller)

    def called_from(self, caller: Loc | None) -> Loc:
        return Loc(self.source, self.start, self.end, caller)

    def under(self, caller: Loc | None) -> Loc:
        """Returns this location with `caller` as the location of the inlined call. A location that already has a caller
        is returned unchanged."""
        return self if caller is None or self.caller is not None else self.called_from(caller)

    @property
    def callers(self) -> list[Loc]:
        """The locations of the inlined calls that contain this location, innermost first."""
        out = []
        caller = self.caller
        while caller is not None:
            out.append(caller)
            caller = caller.caller
        return out

    def __str__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.name}:{line}:{column}"


def said_line(line: int, file: str | None) -> str:
    """Returns a line in words. `file` is None for the file that the message is about anyway."""
    return f"line {line}" if file is None else f"line {line} of {file}"


def printable(text: str) -> str:
    """Replaces control characters in `text`, because text from files must not control a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


MAX_CALLERS = 4
"""The maximum number of inlined calls that an error shows."""


class TileError(Exception):
    """A mistake in a `.tile` file: error code, location, message, hint. `errors` lists the errors of an `Errors`
    group."""

    def __init__(self, code: str, loc: Loc | None, message: str, hint: str | None = None):
        super().__init__(message)
        self.code, self.loc, self.message, self.hint = code, loc, message, hint

    @property
    def errors(self) -> list[TileError]:
        return [self]

    def render(self) -> str:
        """Formats the error as text: the message, the underlined source line, the inlined calls, the hint."""
        out = []
        if self.loc is None:
            out.append(f"error[{self.code}]: {self.message}")
        else:
            out.append(f"{self.loc}: error[{self.code}]: {self.message}")
            out += _quote(self.loc)
            callers = self.loc.callers
            for caller in callers[:MAX_CALLERS]:
                out.append(f"  called from {caller}")
                out += _quote(caller)
            if len(callers) > MAX_CALLERS:
                out.append(f"  … and {len(callers) - MAX_CALLERS} more calls, the outermost from {callers[-1]}")
        if self.hint:
            out.append(f"  hint: {self.hint}")
        return printable("\n".join(out))

    def __str__(self) -> str:
        return self.render()


class Errors(TileError):
    """Several errors of one file, in the order of their locations."""

    def __init__(self, errors: list[TileError]):
        first = errors[0]
        super().__init__(first.code, first.loc, first.message, first.hint)
        self._errors = sorted(errors, key=lambda e: e.loc.start if e.loc else -1)

    @property
    def errors(self) -> list[TileError]:
        return self._errors

    def render(self) -> str:
        return "\n".join(e.render() for e in self._errors)


def _quote(loc: Loc) -> list[str]:
    line, column = loc.source.position(loc.start)
    text = loc.source.line(line).replace("\t", " ").rstrip("\r")
    width = max(1, min(loc.end - loc.start, len(text) - column + 1))
    if len(text) > 160:  # show only the neighbourhood of the error, so that a long line fits a terminal
        first = max(0, column - 60)
        text, column = text[first : first + 160], column - first
        width = min(width, max(1, len(text) - column + 1))
    gutter = f"{line:5d} | "
    return [gutter + text, " " * (len(gutter) - 2) + "| " + " " * (column - 1) + "^" * width]


ELSEWHERE = {
    **{f"{kind}{bits}": f"f{bits}" for bits in (16, 32, 64) for kind in ("float", "fp")},
    **{f"{kind}{bits}": f"s{bits}" for bits in (8, 16, 32, 64) for kind in ("int", "i")},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    **{"half": "f16", "double": "f64", "bfloat16": "bf16", "bool": "i1", "int1": "i1"},
    **dict.fromkeys(("float8_e4m3fn", "float8e4nv", "fp8e4nv", "fp8"), "e4m3"),
    **dict.fromkeys(("float8_e5m2", "float8e5", "fp8e5"), "e5m2"),
}
"""The element types by their names in numpy, torch and Triton."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """Returns a "did you mean" hint for a misspelt name, or for a type's name in numpy, torch or Triton, or None. Other
    names of one or two letters resemble too many names, so only a difference in case is accepted for them."""
    from difflib import get_close_matches

    if name in ELSEWHERE:
        return f"did you mean '{ELSEWHERE[name]}'?"

    # the names are sorted, because the order of a set differs between processes
    names = sorted({k for k in known if isinstance(k, str)})
    same = [k for k in names if k.lower() == name.lower()]
    near = same or (get_close_matches(name[:80], names, n=1, cutoff=0.66) if len(name) > 2 else [])
    near = near or ([k for k in names if k.startswith(name)] if len(name) > 1 else [])
    return f"did you mean '{near[0]}'?" if near else None
