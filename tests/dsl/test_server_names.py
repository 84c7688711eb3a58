"""Renaming in a text: `dsl check` finds in the result what it found before, and the launches plan the same."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from dsl.editors.server.documents import Moved
from dsl.editors.server.fixing import fix_of
from dsl.editors.server.messages import TextPlaces
from dsl.editors.server.positions import TextPoint, TextPositions
from dsl.editors.server.scan import blocks_of
from dsl.editors.server.symbols import CannotRename, Symbols
from dsl.studies.check import check_text
from dsl.text.program import load
from tests.whole import is_whole

ROOT = Path(__file__).parents[2]
SAMPLES = sorted((ROOT / "samples").glob("*.tile"))
FRESH = "fresh_name_9"
RENAMED = int(os.environ.get("DSL_RENAMED", 1000 if is_whole() else 3))
"""So many names of each sample are renamed: with DSL_WHOLE=1, all."""


def findings(text: str, path: Path, name: str = "") -> Any:
    """What `dsl check` finds, without columns, and the variants that launches ask for. `name` is what FRESH was."""
    found = check_text(text, path)
    told = sorted((each.code, each.loc.line if each.loc else 0) for each in (*found.errors, *found.notes))
    planned = [
        (loc.line, [name if each.schedule == FRESH else each.schedule for each in requests])
        for loc, requests in found.planned
    ]
    return told, found.variants, planned


def names_in(symbols: Symbols) -> dict[tuple[int, ...], int]:
    """A place of each name that has a meaning of its own, by all its places."""
    found: dict[tuple[int, ...], int] = {}
    for block in symbols.blocks:
        for use in block.uses:
            meaning = symbols.meaning(use.start)
            if meaning is not None and meaning.kind != "other":
                found.setdefault(tuple(each.start for each in symbols.places(meaning)), use.start)
    return found


@pytest.mark.long
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_renamed_sample_is_checked_like_the_original(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSL_CACHE", "off")
    text = path.read_text()
    symbols = Symbols(text, load(path))
    wanted = findings(text, path)
    places = [*names_in(symbols).values()]
    random.Random(path.stem).shuffle(places)
    renamed = 0
    for offset in places:
        if renamed == RENAMED:
            break
        try:
            uses = symbols.renamed(offset, FRESH)
        except CannotRename:
            continue
        renamed += 1
        out, end = "", 0
        for use in uses:
            out += text[end : use.start] + FRESH
            end = use.end
        name = uses[0].name
        assert findings(out + text[end:], path, name) == wanted, f"{name} at {text[:offset].count(chr(10)) + 1}"
    assert renamed == RENAMED or (is_whole() and renamed > len(places) / 4)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_use_of_a_name_has_its_text(path: Path) -> None:
    text = path.read_text()
    for block in blocks_of(text):
        for use in block.uses:
            assert text[use.start : use.end] == use.name and block.start <= use.start < block.end


def test_positions_count_units_of_the_encoding() -> None:
    text = "aé𝛼b\r\n\n𝛼𝛼\rx"
    for encoding, widths in (("utf-16", (1, 1, 2)), ("utf-8", (1, 2, 4)), ("utf-32", (1, 1, 1))):
        positions = TextPositions(text, encoding)
        assert positions.point(3) == TextPoint(0, sum(widths))
        assert positions.point(text.index("x")) == TextPoint(3, 0)
        assert positions.point(9) == TextPoint(2, 2 * widths[2])
        for offset in (*range(5), *range(6, len(text) + 1)):
            if text[offset - 1 : offset + 1] != "\r\n":
                assert positions.offset(positions.point(offset)) == offset, (encoding, offset)
        assert positions.offset(TextPoint(99, 0)) == len(text) and positions.offset(TextPoint(0, 99)) == 4
        assert positions.offset(TextPoint(-1, -1)) == 0


def test_parts_move_with_their_lines() -> None:
    moved = Moved.between("a\nb\nc\nd", "a\nx\ny\nb\nc2\nd")
    positions = TextPositions("a\nb\nc\nd")
    spans = [moved.span(positions.span(at, at + 1)) for at in (0, 2, 4, 6)]
    assert [None if each is None else each.start.line for each in spans] == [0, None, None, 5]


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "errors").glob("*.tile"))[::3], ids=lambda path: path.stem)
def test_a_fix_replaces_one_word_and_leaves_fewer_errors(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the mistakes of the tests, some have a fix: it names what it replaces, and other errors may follow."""
    monkeypatch.setenv("DSL_CACHE", "off")
    text = path.read_text()
    found = check_text(text, path)
    positions = TextPositions(text)
    for told in TextPlaces("utf-16").all_told(found.sorted()):
        if told.place is None or told.place.file != str(path):
            continue
        fix = fix_of(told, text, positions)
        if fix is None:
            continue
        assert told.hint is not None and f"'{fix.new}'" in told.hint
        assert re.fullmatch(r"[\w.]+|\W", text[fix.start : fix.end]), (told, text[fix.start : fix.end])
        line = positions.point(fix.start).line
        mended = text[: fix.start] + fix.new + text[fix.end :]
        after = [(each.message, each.loc.line - 1) for each in check_text(mended, path).errors if each.loc]
        assert (told.message, line) not in after


def test_names_behind_an_import_have_definitions() -> None:
    """A text that somebody types may have lines there which belong to no block: this was a ValueError."""
    text = 'import "std/rows.tile"\n    v = 1\n    w = v + 1\n'
    symbols = Symbols(text, None)
    meaning = symbols.meaning(text.index("v + 1"))
    assert meaning is not None
    found = symbols.definition(meaning)
    assert getattr(found, "start", None) == text.index("v = 1")
