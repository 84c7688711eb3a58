"""The file of tuned data: many writers at once, killed anywhere; broken files; fields that are wrong.

DSL_WRITER_ROUNDS sets how often the writers are killed (3 without): 100 take a minute.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import dsl
from dsl.calls.tuned import Entry, StepChoice, Tuned, text_digest
from dsl.calls.tuned_file import BrokenError, SetAside, read_tuned, update
from dsl.lab import trial as trials
from dsl.lowering.ir.location import TileError
from dsl.studies.check import check_file
from dsl.text.files import tuned_path, write_text
from dsl.text.program import load

ROUNDS = int(os.environ.get("DSL_WRITER_ROUNDS", "3"))
WRITERS = 8
KERNEL = """\
kernel double(y: f32[n], x: f32[n]; BLOCK):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    y[i : i + BLOCK] = x[i : i + BLOCK] * 2.0

schedule few of double:
    tune BLOCK in 128, 256
    warps = 4

example:
    n = 300
    x = randn(f32[n])
    y = empty(f32[n])
    double(y, x)
    expect y ~= x + x within 0
"""
ROW = {
    "device": "emulated H200",
    "call": "double",
    "dims": {"n": 300},
    "steps": [{"kernel": "double", "schedule": "few", "constants": {"BLOCK": 256}}],
    "text": "0" * 12,
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "double.tile"
    path.write_text(KERNEL)
    return path


def entry(extent: int) -> Entry:
    step = StepChoice("double", "few", {"BLOCK": 128})
    return Entry("emulated H200", "double", {}, {}, {"n": extent}, (), (step,), "0" * 12)


# ---- writers ----


def write_for_ever(path: Path, first: int, told: int) -> None:
    """Writes entry after entry, and reports each that is written."""
    for number in range(first, first + 100_000):
        update(path, lambda tuned, number=number: tuned.put([entry(number)]) is None)  # type: ignore[misc]
        os.write(told, f"{number}\n".encode())


def writer(path: Path, first: int) -> tuple[int, int]:
    """A process that writes; its number, and where it reports."""
    reports, told = os.pipe()
    if child := os.fork():
        os.close(told)
        return child, reports
    try:
        write_for_ever(path, first, told)
    finally:
        os._exit(1)


def test_writers_that_are_killed_lose_nothing_that_was_reported(tmp_path: Path) -> None:
    path = tmp_path / "double.tuned.json"
    draw = random.Random(1)
    total = 0
    for round_ in range(ROUNDS):
        path.unlink(missing_ok=True)  # else the file grows, and with it the time of a write
        writers = [writer(path, 100_000 * each) for each in range(WRITERS)]
        time.sleep(0.05 + draw.random() * 0.1)
        for child, _ in draw.sample(writers, len(writers)):
            time.sleep(draw.random() * 0.01)
            os.kill(child, signal.SIGKILL)
        reported: set[int] = set()
        for child, reports in writers:
            os.waitpid(child, 0)
            with os.fdopen(reports) as lines:
                reported |= {int(line) for line in lines}
        kept = {made.dims["n"] for made in read_tuned(path).entries}
        assert reported <= kept, f"round {round_} lost {sorted(reported - kept)[:5]}"
        assert update(path, lambda tuned: True) == []  # the lock is free; what the killed ones left is taken away
        assert {p.name for p in tmp_path.iterdir()} == {path.name, f".{path.name}.lock"}
        total += len(reported)
    print(f"{ROUNDS} rounds, {total} entries reported, none lost")
    assert total > ROUNDS


def test_an_entry_written_meanwhile_stays(file: Path) -> None:
    path = tuned_path(file)
    stale = Tuned(path, [entry(1)])
    stale.write()
    update(path, lambda tuned: tuned.put([entry(2)]) is None)
    update(path, lambda tuned: tuned.put([entry(3)]) is None)
    assert [made.dims["n"] for made in read_tuned(path).entries] == [1, 2, 3]


def test_what_is_written_keeps_links_and_permissions(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_text(link, "new")
    assert link.is_symlink() and real.read_text() == "new" and real.stat().st_mode & 0o777 == 0o640
    with pytest.raises(TileError, match="cannot write"):
        write_text(tmp_path / "none" / "file", "new")
    assert {p.name for p in tmp_path.iterdir()} == {"real.json", "link.json"}


# ---- broken files ----

BROKEN = ["", "{", '{"schema": 1, "entries": [\n{"device": "emul', "[" * 100_000, '{"schema": ' + "1" * 100_000,
          '{"schema": NaN, "entries": []}', '{"schema": 1, "schema": 1, "entries": []}']  # fmt: skip


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_file_is_named_and_set_aside(file: Path, text: str) -> None:
    path = tuned_path(file)
    path.write_text(text)
    with pytest.raises(BrokenError):
        read_tuned(path)
    errors = check_file(file).errors
    assert [error.code for error in errors] == ["tuned"] and path.exists()
    x = np.ones(300, np.float32)
    with pytest.warns(SetAside, match=r"set aside as double\.tuned\.json\.broken-1"):
        assert (dsl.load(file, device="emulator").double(x) == 2).all()
    assert not path.exists() and path.with_name(path.name + ".broken-1").read_text() == text
    assert (dsl.load(file, device="emulator").double(x) == 2).all()


def test_a_broken_file_is_set_aside_when_another_is_written(file: Path) -> None:
    path = tuned_path(file)
    for number in (1, 2):
        path.write_text("{")
        (note,) = update(path, lambda tuned: tuned.put([entry(1)]) is None)
        assert f"set aside as double.tuned.json.broken-{number}" in note
        assert len(read_tuned(path).entries) == 1


# ---- fields ----

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"device": None}, "'device' that is wrong: "),
    ({"device": ""}, "'device' that is wrong: "),
    ({"text": 3}, "'text' that is wrong: "),
    ({"dims": {"n": -1}}, "'dims' that is wrong: "),
    ({"dims": {"n": True}}, "'dims' that is wrong: "),
    ({"dims": {"n": 10**30}}, "'dims' that is wrong: "),
    ({"dims": [3]}, "'dims' that is wrong: "),
    ({"dims": {"m": 3}}, "has no dim 'm' of 'double'"),
    ({"options": {"MANY": True}}, "has no option 'MANY' of 'double'"),
    ({"options": {"MANY": []}}, "'options' that is wrong: "),
    ({"types": {"T": "f32"}}, "has no type 'T' of 'double'"),
    ({"types": {"T": "f31"}}, "'types' that is wrong: "),
    ({"absent": "x"}, "'absent' that is wrong: "),
    ({"absent": ["z"]}, "has no argument 'z' of 'double'"),
    ({"ranges": {"n": [5, 1]}}, "a range of 'n' that ends before it begins"),
    ({"ranges": {"n": [5]}}, "'ranges' that is wrong: expected `array` of length 2"),
    ({"ranges": {"m": [1, 5]}}, "has a range of 'm', which is none of its dims"),
    ({"ties": 0}, "'ties' that is wrong: "),
    ({"median_us": "fast"}, "'median_us' that is wrong: "),
    ({"interval_us": [1]}, "'interval_us' that is wrong: "),
    ({"interval_us": [1e999, 1]}, "no JSON"),
    ({"medain_us": 3}, "unknown field 'medain_us'"),
    ({"steps": []}, "'steps' that is wrong: expected `array` of length >= 1"),
    ({"steps": [3]}, "'steps' that is wrong: expected `object`, got `int`"),
    ({"steps": [{"kernel": "double", "schedule": "few"}]}, "has no 'constants'"),
    ({"steps": [{"kernel": "double", "schedule": 3, "constants": {}}]}, "'schedule' that is wrong: "),
    ({"steps": [{"kernel": "double", "schedule": "few", "constants": {"BLOCK": [1]}}]}, "'constants' that is wrong: "),
    ({"steps": [{"kernel": "double", "schedule": "few", "constants": {"BLOCK": 1e400}}]}, "no JSON"),
    ({"steps": [{"kernel": "double", "schedule": "few", "constants": {"BLACK": 128}}]}, "no constant 'BLACK'"),
    ({"steps": [{"kernel": "double", "schedule": "few", "constants": {}, "fixed": "A=1"}]}, "'fixed' that is wrong: "),
    ({"steps": [{"kernel": "double", "schedule": "few", "constants": {}, "tune": 1}]}, "unknown field 'tune'"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "says"), WRONG, ids=range(len(WRONG)))
def test_a_field_that_is_wrong_is_named(file: Path, change: dict[str, Any], says: str) -> None:
    text = json.dumps({"schema": 1, "entries": [ROW | change]})
    tuned_path(file).write_text(text)
    (error,) = check_file(file).errors
    assert error.code == "tuned" and error.loc is not None
    assert re.search(re.escape(says), error.message), error.message


@pytest.mark.parametrize("field", ["device", "call", "text", "steps"])
def test_a_field_that_is_missing_is_named(file: Path, field: str) -> None:
    row = {name: value for name, value in ROW.items() if name != field}
    tuned_path(file).write_text(json.dumps({"schema": 1, "entries": [row]}))
    (error,) = check_file(file).errors
    assert error.code == "tuned" and f"has no '{field}'" in error.message


@pytest.mark.parametrize("value", ["inf", "text", 0, -128, 100, 1 << 40, 0.5])
def test_a_constant_that_means_nothing_is_refused_where_it_serves(file: Path, value: Any) -> None:
    digest = text_digest(load(file), entry(300).steps)
    row = ROW | {"steps": [{"kernel": "double", "schedule": "few", "constants": {"BLOCK": value}}], "text": digest}
    tuned_path(file).write_text(json.dumps({"schema": 1, "entries": [row]}))
    x = np.ones(300, np.float32)
    with pytest.raises(TileError):
        dsl.load(file, device="emulator").double(x)


# ---- the log ----


def test_a_log_that_was_cut_short_or_is_spoiled_loses_those_lines_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    trial = trials.Trial("", "emulated H200", None, {}, "double", None, 0, {}, {}, {}, {"n": 1}, [], "counted")
    log = trials.Log(path)
    log.add(trial)
    whole = path.read_bytes()
    wrong = [b'{"source": "cut sho', b"\xff\xfe", b"[" * 100_000, b"1" * 100_000, b"3",
             whole.replace(b'"times_us": []', b'"times_us": ["fast"]'),
             whole.replace(b'"times_us": []', b'"times_us": [NaN]'),
             whole.replace(b'"counted"', b'"measured"')]  # fmt: skip
    path.write_bytes(whole + b"\n".join(line.strip() for line in wrong))
    log = trials.Log(path)
    assert len(log.trials) == 1 and log.unread == len(wrong)
    log.add(replace(trial, dims={"n": 2}))
    assert len(trials.Log(path).trials) == 2
