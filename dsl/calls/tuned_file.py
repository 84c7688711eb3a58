"""Reads and writes the file of tuned data. Reading checks each field, a lock lets one process at a time write, and a
broken file is renamed."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import asdict

from dsl.calls.tuned import AGAIN, SCHEMA, Entry, StepChoice, Tuned
from dsl.lowering.ir.location import Loc, Source, TileError, closest
from dsl.lowering.ir.types import DTYPES
from dsl.text.files import MAX_TEXT, is_file, locked, read_text, sweep

MOST = 1 << 62
"""Every dim and every count in the file must be below this number."""


class BrokenError(TileError):
    """Raised if the file is not JSON, for example because it was cut short."""


class SetAside(UserWarning):
    """The warning that a broken file was renamed."""


def read_tuned(path: Path) -> Tuned:
    """Reads the entries of a file. A file that does not exist has no entries. Raises BrokenError if the file is not
    JSON, and TileError `tuned` if it is not tuned data."""
    # A symbolic link to a missing file is an error. Such a link does not count as an absent file.
    if not os.path.lexists(path):
        return Tuned(path)
    try:
        source = Source(str(path), read_text(path, MAX_TEXT))
    except TileError as error:
        # A file that is too large or not UTF-8 is broken, like a file that is not JSON. A folder at this path is not
        # renamed.
        raise BrokenError("tuned", None, error.message, AGAIN) if is_file(path) else error from None
    start = Loc(source, 0, max(1, source.text.find("\n")))
    try:
        record = json.loads(source.text, object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # ValueError: also for a number with too many digits
        at = getattr(error, "pos", 0)
        message = f"this is no JSON: {getattr(error, 'msg', error)}"
        raise BrokenError("tuned", Loc(source, at, at + 1), message) from None
    known = isinstance(record, dict) and record.keys() == {"schema", "entries"}
    rows = record["entries"] if known and type(record["schema"]) is int and record["schema"] == SCHEMA else None
    if not isinstance(rows, list):
        raise TileError("tuned", start, f'tuned data is {{"schema": {SCHEMA}, "entries": […]}}', AGAIN)
    places = list(_places(source)) or [start] * len(rows)
    return Tuned(path, [_entry(row, loc) for row, loc in zip(rows, places, strict=True)])


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Python's json silently takes the last of two equal keys.
    record = dict(pairs)
    if len(record) != len(pairs):
        twice = next(key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1)
        raise ValueError(f"{twice[:40]!r} stands twice in an object")
    return record


def _no_number(word: str) -> NoReturn:
    # Python's json accepts NaN and Infinity. Other readers of JSON reject them.
    raise ValueError(f"{word} is no number of JSON")


def _places(source: Source) -> Iterator[Loc]:
    """Yields the location of each entry in a valid JSON file. Yields nothing if the key `"entries"` is written with
    escapes."""
    text, decoder = source.text, json.JSONDecoder()
    at = text.find("[", text.find('"entries"')) + 1
    while at:
        while text[at].isspace() or text[at] == ",":
            at += 1
        if text[at] == "]":
            return
        _, end = decoder.raw_decode(text, at)
        yield Loc(source, at, end)
        at = end


# ---- entries ----

Word = Annotated[str, Meta(min_length=1, max_length=256)]
# `\Z` is needed because `$` also matches before a line break at the end.
Identifier = Annotated[str, Meta(pattern=r"^[^\W\d]\w*\Z", max_length=256)]
Count = Annotated[int, Meta(ge=0, lt=MOST)]
Setting = bool | Annotated[int, Meta(gt=-MOST, lt=MOST)] | Annotated[float, Meta(gt=-MOST, lt=MOST)] | Identifier
"""The value of a constant or an option: a number, a truth value, or the name of a function."""
Time = Annotated[float, Meta(ge=0, lt=MOST)]
Type = Annotated[str, Meta(pattern=rf"^(?:{'|'.join(DTYPES)})\Z")]


class _Step(Struct, forbid_unknown_fields=True):
    """A step of an entry as JSON. See `StepChoice`."""

    kernel: Identifier
    schedule: Identifier | None
    constants: dict[Identifier, Setting]
    fixed: tuple[Word, ...] = ()


class _Row(Struct, forbid_unknown_fields=True):
    """An entry as JSON. See `Entry`."""

    device: Word
    call: Word
    text: Word
    steps: Annotated[tuple[_Step, ...], Meta(min_length=1)]
    options: dict[Identifier, Setting] = {}
    types: dict[Identifier, Type] = {}
    dims: dict[Identifier, Count] = {}
    absent: tuple[Word, ...] = ()
    ranges: dict[Identifier, tuple[Count | None, Count | None]] = {}
    median_us: Time | None = None
    interval_us: tuple[Time, Time] | None = None
    ties: Annotated[int, Meta(ge=1, lt=MOST)] = 1
    plugins: dict[Word, Word] = {}


FAULT = re.compile(r"Object (?:missing required|contains unknown) field `(?P<field>.*)`")


def _entry(row: Any, loc: Loc) -> Entry:
    """Makes an Entry from its JSON object. Raises TileError `tuned` at the location of a wrong field."""

    def fail(why: str, name: str, hint: str = AGAIN) -> NoReturn:
        at = loc.source.text.find(json.dumps(name), loc.start, loc.end)
        place = loc if at < 0 else Loc(loc.source, at, at + len(json.dumps(name)))
        raise TileError("tuned", place, f"an entry {why}", hint)

    try:
        made = convert(row, _Row)
    except ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        field = "".join(re.findall(r"\.(\w+)", path)[-1:])
        if found := FAULT.match(what):
            name = found["field"]
            if "missing" in what:
                fail(f"has no '{name}'", field)
            fields = _Step.__struct_fields__ if field else _Row.__struct_fields__
            fail(f"has an unknown field '{name[:64]}'", name, closest(name, fields) or AGAIN)
        fail(f"has a '{field}' that is wrong: {what[:1].lower()}{what[1:]}" if field else "is no object", field)
    for name, (low, high) in made.ranges.items():
        if name not in made.dims:
            fail(f"has a range of '{name}', which is none of its dims", name)
        if low is not None and high is not None and low > high:
            fail(f"has a range of '{name}' that ends before it begins", name)
    steps = tuple(StepChoice(**asdict(step)) for step in made.steps)
    return Entry(**{**asdict(made), "steps": steps}, loc=loc)


# ---- changes ----


def usable(path: Path) -> Tuned:
    """Reads the tuned entries for a call. A broken file is renamed with a warning and counts as empty, so that no call
    fails because of the file."""
    try:
        return read_tuned(path)
    except BrokenError as error:
        warnings.warn(f"{error.message} ({path}): {_set_aside_alone(path)}", SetAside, stacklevel=2)
        return Tuned(path)


def _set_aside_alone(path: Path) -> str:
    try:
        with locked(path):
            try:
                read_tuned(path)
            except BrokenError:
                return f"set aside as {set_aside(path).name}"
            return "another process has written it meanwhile"
    except (TileError, OSError):
        return "it cannot be set aside, and none of it serves"


def set_aside(path: Path) -> Path:
    """Renames a broken file and returns the new path. The caller must hold the file's lock."""
    number = 1
    while (other := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    path.replace(other)
    return other


def update(path: Path, change: Callable[[Tuned], bool]) -> list[str]:
    """Reads the file under its lock, calls `change`, and writes the file if `change` returns True. Entries that other
    processes wrote are kept. A file that is not tuned data is renamed, and a returned note reports the new name."""
    with locked(path):
        sweep(path)
        notes = []
        try:
            tuned = read_tuned(path)
        except TileError as error:
            if error.code != "tuned":
                raise
            notes.append(f"{path}: {error.message}: set aside as {set_aside(path).name}")
            tuned = Tuned(path)
        if change(tuned):
            tuned.write()
        return notes
