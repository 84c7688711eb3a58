"""The file of tuned data: read with every field checked, changed by one process at a time, and set aside if broken."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NoReturn

from dsl.calls.tuned import AGAIN, SCHEMA, Entry, StepChoice, Tuned
from dsl.lowering.ir.location import Loc, Source, TileError, closest
from dsl.lowering.ir.types import DTYPES
from dsl.text.files import MAX_TEXT, is_file, locked, read_text, sweep

MOST = 1 << 62
"""Beyond every dim and every count."""


class BrokenError(TileError):
    """The file is no JSON: cut short, or something else."""


class SetAside(UserWarning):
    """A broken file was given another name."""


def read_tuned(path: Path) -> Tuned:
    """The entries of a file, none if it does not exist. Raises TileError `tuned` for one that is no such data."""
    if not os.path.lexists(path):
        return Tuned(path)
    try:
        source = Source(str(path), read_text(path, MAX_TEXT))
    except TileError as error:
        raise BrokenError("tuned", None, error.message, AGAIN) if is_file(path) else error from None
    start = Loc(source, 0, max(1, source.text.find("\n")))
    try:
        record = json.loads(source.text, object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # ValueError: also of a number with too many digits
        at = getattr(error, "pos", 0)
        raise BrokenError(
            "tuned", Loc(source, at, at + 1), f"this is no JSON: {getattr(error, 'msg', error)}"
        ) from None
    known = isinstance(record, dict) and record.keys() == {"schema", "entries"}
    if not known or type(record["schema"]) is not int or record["schema"] != SCHEMA:
        raise TileError("tuned", start, f'tuned data is {{"schema": {SCHEMA}, "entries": […]}}', AGAIN)
    rows = record["entries"]
    if not isinstance(rows, list):
        raise TileError("tuned", start, f'tuned data is {{"schema": {SCHEMA}, "entries": […]}}', AGAIN)
    places = list(_places(source)) or [start] * len(rows)
    return Tuned(path, [_entry(row, loc) for row, loc in zip(rows, places, strict=True)])


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        twice = next(key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1)
        raise ValueError(f"{twice[:40]!r} stands twice in an object")
    return record


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _places(source: Source) -> Iterator[Loc]:
    """Where each entry of a file that is right JSON stands; nothing where its key is not written plainly."""
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


class _Fields:
    """An object of an entry: its fields are taken one by one, and what nobody takes is an error with its name."""

    def __init__(self, record: Any, loc: Loc, what: str):
        self.loc, self.what = loc, what
        if not isinstance(record, dict):
            self.fail("is no object")
        self.left: dict[str, Any] = dict(record)

    def fail(self, why: str, name: str | None = None, hint: str = AGAIN) -> NoReturn:
        loc = self.loc
        if name is not None and (at := loc.source.text.find(json.dumps(name), loc.start, loc.end)) >= 0:
            loc = Loc(loc.source, at, at + len(json.dumps(name)))
        raise TileError("tuned", loc, f"{self.what} {why}", hint)

    def take(self, name: str, is_right: Callable[[Any], bool], form: str, *default: Any) -> Any:
        value = self.left.pop(name, *default) if default else self.left.pop(name, _MISSING)
        if value is _MISSING:
            self.fail(f"has no '{name}'")
        if (not default or value is not default[0]) and not is_right(value):
            self.fail(f"has a '{name}' that is not {form}", name)
        return value

    def mapping(self, name: str, is_right: Callable[[Any], bool], form: str, needed: bool = False) -> dict[str, Any]:
        def right(value: Any) -> bool:
            return isinstance(value, dict) and all(_is_name(key) and is_right(v) for key, v in value.items())

        return self.take(name, right, form, *([] if needed else [{}]))

    def done(self, known: Collection[str]) -> None:
        for name in self.left:
            self.fail(f"has an unknown field '{name[:64]}'", name, closest(name, known) or AGAIN)


_MISSING = object()
FIELDS = ("device", "call", "options", "types", "absent", "dims", "ranges", "plugins", "steps", "ties", "text",
          "median_us", "interval_us")  # fmt: skip
STEP_FIELDS = ("kernel", "schedule", "constants", "fixed")


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 256


def _is_name(value: Any) -> bool:
    return _is_word(value) and value.isidentifier()


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST


def _is_setting(value: Any) -> bool:
    """A constant or an option: a number, a truth value, or the name of a function."""
    if isinstance(value, str):
        return _is_name(value)
    return isinstance(value, bool) or (isinstance(value, int | float) and abs(value) < MOST)


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _is_range(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 2 or not all(end is None or _is_count(end) for end in value):
        return False
    low, high = value
    return low is None or high is None or low <= high


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_word, value))


def _are_digests(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_word(name) and _is_word(digest) for name, digest in value.items())


def _is_some_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _entry(row: Any, loc: Loc) -> Entry:
    fields = _Fields(row, loc, "an entry")
    device, call, text = (fields.take(name, _is_word, "a word") for name in ("device", "call", "text"))
    dims = fields.mapping("dims", _is_count, "NAME: EXTENT", needed=False)
    ranges = fields.mapping("ranges", _is_range, "NAME: [LOW, HIGH]")
    for name in ranges:
        if name not in dims:
            fields.fail(f"has a range of '{name}', which is none of its dims", name)
    interval = fields.take("interval_us", lambda v: isinstance(v, list) and len(v) == 2 and all(map(_is_time, v)),
                           "[LOW, HIGH] in microseconds", None)  # fmt: skip
    made = Entry(
        device,
        call,
        fields.mapping("options", _is_setting, "NAME: VALUE"),
        fields.mapping("types", lambda v: v in DTYPES if isinstance(v, str) else False, "NAME: TYPE"),
        dims,
        tuple(fields.take("absent", _are_words, "a list of names", [])),
        tuple(_step(step, loc) for step in fields.take("steps", _is_some_list, "a list of steps")),
        text,
        {name: (ends[0], ends[1]) for name, ends in ranges.items()},
        fields.take("median_us", _is_time, "microseconds", None),
        None if interval is None else tuple(interval),
        fields.take("ties", lambda v: _is_count(v) and v > 0, "a count", 1),
        fields.take("plugins", _are_digests, "NAME: DIGEST", {}),
        loc,
    )
    fields.done(FIELDS)
    return made


def _step(row: Any, loc: Loc) -> StepChoice:
    fields = _Fields(row, loc, "a step of an entry")
    made = StepChoice(
        fields.take("kernel", _is_name, "a name"),
        fields.take("schedule", lambda v: v is None or _is_name(v), "a name or null"),
        fields.mapping("constants", _is_setting, "NAME: VALUE", needed=True),
        tuple(fields.take("fixed", _are_words, "a list of NAME=VALUE", [])),
    )
    fields.done(STEP_FIELDS)
    return made


# ---- changes ----


def usable(path: Path) -> Tuned:
    """What calls take: a broken file is set aside, with a warning, and none of it serves."""
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
            return "written anew meanwhile"
    except (TileError, OSError):
        return "it cannot be set aside, and none of it serves"


def set_aside(path: Path) -> Path:
    """Gives a broken file a name of its own, for who is alone with it."""
    number = 1
    while (other := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    path.replace(other)
    return other


def update(path: Path, change: Callable[[Tuned], bool]) -> list[str]:
    """Reads the file, changes it and writes it if `change` says so, alone with it: entries that others wrote since
    then stay. What was done besides, in words: a file that is no such data is set aside."""
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
