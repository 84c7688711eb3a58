"""Damaged programs, headers, tuned data, IR, logs and command lines: each is refused in a sentence or means something.

The damage is drawn from a fixed seed, one for each number. DSL_MUTATIONS sets how many there are of each kind (30
without; 5000 take some ten minutes), DSL_MUTATIONS_FROM the first number.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from msgspec import to_builtins
from test_mutations import PIPELINE, mutated

import dsl
from dsl.calls.tuned import stale_errors
from dsl.calls.tuned_file import read_tuned
from dsl.command import cli
from dsl.command.compile import requests_for
from dsl.kernels.compile import compile_variant, finish, level_after
from dsl.kernels.variant import Request
from dsl.lab.model import load_model, predicted
from dsl.lab.trial import StepFacts, Trial
from dsl.lowering.ir.location import TileError
from dsl.lowering.text.printer import printed
from dsl.lowering.text.reader import read as read_ir
from dsl.runtime import LaunchError
from dsl.runtime.header import PREFIX, read
from dsl.studies.check import check_file
from dsl.text.program import Program, load, parse_program
from tests.whole import is_whole

COUNT = int(os.environ.get("DSL_MUTATIONS", "30" if is_whole() else "15"))
FIRST = int(os.environ.get("DSL_MUTATIONS_FROM", "0"))
NUMBERS = range(FIRST, FIRST + COUNT)
SECONDS = 5  # for one of them
TESTS = Path(__file__).parents[1]
SAMPLES = TESTS.parent / "samples"
BY_HAND = TESTS.parent / "benchmarks" / "peers" / "by_hand"


@contextmanager
def watched(number: int) -> Iterator[None]:
    """Ends what does not end; names the number."""

    def fail(*_: object) -> None:
        raise TimeoutError(f"{number} takes more than {SECONDS} s")

    outer = signal.signal(signal.SIGALRM, fail)
    signal.alarm(SECONDS * 4)  # of the wall's: the machine may be shared
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, outer)


# ---- programs ----


@cache
def programs() -> list[tuple[str, str]]:
    """Small programs of the tests, and of the samples those that are checked quickly."""
    samples = [SAMPLES / f"{name}.tile" for name in ("add", "conv1d", "gelu", "rmsnorm", "softmax", "reduction")]
    return [(path.name, path.read_text()) for path in [*sorted(TESTS.rglob("*.tile")), *samples]] + [("p", PIPELINE)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(TESTS / "errors" / "imported", tmp_path / "imported")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def try_program(number: int, folder: Path) -> None:
    path = folder / "mutated.tile"
    draw = random.Random(f"program {number}")
    path.write_text(mutated(draw.choice(programs())[1], draw))
    with watched(number):
        for error in check_file(path).errors:
            assert error.loc is not None or str(path) in error.message, f"{number}: {error}"


# ---- structure: JSON with a field of a wrong kind ----

WRONG: list[Any] = [None, True, -1, 0, 3, 1 << 70, 0.5, 1e300, "", "x", "f32", "\0", [], [1], ["+"], {}, {"a": 1}]


def places(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a JSON object."""
    if at:
        yield at
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from places(value, (*at, key))


def kind(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def damaged(record: Any, draw: random.Random) -> tuple[str, tuple[Any, ...], Any, Any]:
    """What is done to a JSON object (`kind` another kind of value, `value` another one of its kind, `missing`,
    `unknown`), where, and the value before and after."""
    at = draw.choice(list(places(record)))
    owner = record
    for key in at[:-1]:
        owner = owner[key]
    old, way = owner[at[-1]], draw.random()
    if way < 0.15 and isinstance(owner, dict):
        del owner[at[-1]]
        return "missing", at, old, None
    if way < 0.3 and isinstance(owner, dict):
        name = draw.choice([f"{at[-1]}s", "x", "", "schema ", "\0"])
        owner[name] = old
        return "unknown", (*at[:-1], name), None, old
    new = draw.choice(WRONG)
    owner[at[-1]] = new
    return ("kind" if kind(new) != kind(old) else "value"), at, old, new


# ---- headers ----


@cache
def texts() -> list[str]:
    """PTX of some kernels."""
    found = []
    for name in ("add", "rmsnorm", "gelu"):
        program = load(SAMPLES / f"{name}.tile")
        found += [
            compile_variant(program, request).ptx for request in requests_for(program, [], None, None, "sm_90", None)
        ]
    return found


def may_be_any(at: tuple[Any, ...]) -> bool:
    """Fields that take several kinds of values: expressions, constants, dims, and what may be null."""
    if at[0] in ("grid", "moves", "computes", "constants"):
        return True
    return at[-1] in ("schedule", "hint", "maxnreg") or "dims" in at or "expr" in at


def try_header(number: int, folder: Path) -> None:
    draw = random.Random(f"header {number}")
    line, _, rest = draw.choice(texts()).partition("\n")
    record = json.loads(line.removeprefix(PREFIX))
    done, at, old, new = "text", (), None, None
    if draw.random() < 0.7:
        done, at, old, new = damaged(record, draw)
        line = PREFIX + json.dumps(record)
    else:
        line = mutated(line, draw)
    with watched(number):
        try:
            read(f"{line}\n{rest}")
        except LaunchError as error:
            assert error.code == "ptx" and "header" in error.message, number
            return
    refused = done == "kind" and not may_be_any(at)
    refused |= done in ("missing", "unknown") and at[0] not in ("moves", "computes", "constants")
    assert not refused, f"{number}: {done} at {at}: {old!r} became {new!r}"


# ---- tuned data ----


@cache
def tuned_sample() -> tuple[Program, list[Any]]:
    entries = json.loads((BY_HAND / "reduce.tuned.json").read_text())["entries"]
    return load(BY_HAND / "reduce.tile"), entries


def try_tuned_data(number: int, folder: Path) -> None:
    program, entries = tuned_sample()
    path = folder / "reduce.tuned.json"
    draw = random.Random(f"tuned {number}")
    record: Any = {"schema": 1, "entries": json.loads(json.dumps(draw.sample(entries, 2)))}
    done, at, old, new = "text", (), None, None
    if draw.random() < 0.7:
        done, at, old, new = damaged(record, draw)
        text = json.dumps(record)
    else:
        text = mutated(json.dumps(record, indent=draw.choice((None, 1))), draw)
    path.write_text(text)
    with watched(number):
        try:
            errors = stale_errors(read_tuned(path), program)
        except TileError as error:
            errors = error.errors
    assert all(error.code in ("tuned", "file") for error in errors), (number, errors)
    free = "options" in at or "constants" in at or at[-1:] in (("schedule",), ("median_us",), ("interval_us",))
    ends = "ranges" in at and len(at) == 5
    refused = done == "kind" and not free and not (ends and new is None) and not (ends and old is None)
    refused |= done == "unknown" and "options" not in at
    assert errors or not refused, f"{number}: {done} at {at}: {old!r} became {new!r}"


# ---- the text of the IR ----

LOOP = """\
kernel many(y: f32[n], x: f32[n], q: u32[1]):
    grid cdiv(n, 64)
    shared keep: f32[64]
    v = x[block(0) * 64 : block(0) * 64 + 64]
    s = sum(v)
    for k in range(4):
        v = v + exp(v) * s
        if k > 2:
            v = where(v > 0, v * 2.0, cumsum(v))
    keep[0 : 64] = v
    barrier()
    atomic_add(q[0], 1)
    y[block(0) * 64 : block(0) * 64 + 64] = keep[0 : 64]
"""
TOKENS = ["0", "1", "-1", "2", "3", "16", "64", "1e999", "nan", "inf", "2.5", "4294967296", "9" * 50, "none", "true",
          '"x"', "f32", "[1]", "(1, 2)", "{}", "i1"]  # fmt: skip
TYPES = ["f32", "i1", "index", "s32[64]", "shared(f32, [64])", "tensor(f32, rank 1)", "f64[64]", "index[64]", "f32[3]"]


@cache
def irs() -> list[str]:
    """Of one kernel, before and behind its layouts, and at the end."""
    program = parse_program(LOOP, "many.tile")
    request = Request("many", None, {"n": 1000})
    return [printed(level_after(program, request, name)) for name in ("build", "assign_layouts", "marks")]


def other_ir(text: str, draw: random.Random) -> str:
    """One token of a line of its head or body changed: a value, a number, a layout, a type; or a line moved."""
    head, separator, sources = text.partition("\nsource ")
    lines = head.split("\n")
    at = draw.randrange(1, len(lines))
    line, way = lines[at], draw.random()
    known = list(dict.fromkeys(re.findall(r"%[\w.#]+", "\n".join(lines[:at])))) or ["%x"]
    layouts = re.findall(r"^layout (#\d+)", head, re.M) or ["#0"]
    kinds: tuple[tuple[str, list[str]], ...] = (
        (r"%[\w.#]+", known),
        (r"(?<![\w%#@:+<.])-?\d+(?:\.\d+)?(?![\w:])|true|false|none|\"[^\"]*\"", TOKENS),
    )
    kinds += ((r"#\d+", layouts), (r"(?<=: )[a-z0-9]+(?:\[[\d, ]+\])?", TYPES))
    if way < 0.9:
        pattern, others = kinds[min(int(way * 10) // 3, 2) if way < 0.8 else 3]
        if found := list(re.finditer(pattern, line)):
            token = draw.choice(found)
            lines[at] = line[: token.start()] + draw.choice(others) + line[token.end() :]
    else:
        lines.insert(draw.randrange(1, len(lines)), lines.pop(at))
    return "\n".join(lines) + separator + sources


def try_ir(number: int, folder: Path) -> None:
    draw = random.Random(f"ir {number}")
    text = other_ir(draw.choice(irs()), draw)
    with watched(number):
        try:
            finish(read_ir(text, "k.ir"))
        except TileError as error:
            assert error.loc is not None or error.code == "call", f"{number}: {error}"


# ---- logs of trials, and models that were fitted to them ----

MODEL = {"model": "linear", "of": "work", "device": "emulated H200", "trials": 4, "kernels": ["double"],
         "state": {"intercept": 0.69, "weights": {"registers": 1.5, "threads": 0.97}}}  # fmt: skip


@cache
def log_lines() -> list[str]:
    """Of three points of a launch."""
    facts: dict[str, Any] = {"values": {}, "options": {"FAST": True}, "types": {"T": "f16"}, "dims": {"n": 300}}
    facts |= {"seed": 1, "command": ["dsl", "tune"], "by_line": {"3": {"instructions": 8.0}}, "choices": {"level": "2"}}
    made = []
    for number in range(3):
        about = ("s", "emulated H200", None, {"numpy": "2"}, "double", None, 0)
        trial = Trial(*about, steps=[], status="counted", **facts)
        trial.steps = [{"kernel": "double", "schedule": "few", "constants": {"warps": 2 << number}}]
        trial.counters = {"instructions": 90 + number, "thread_instructions": 900, "global_load_sectors": 5 + number}
        trial.launches = [StepFacts("double", "few", {"BLOCK": 128}, 64 << number, 20 + number, choices={"a.b": "c"})]
        made.append(json.dumps(to_builtins(trial)))
    return made


def try_log(number: int, folder: Path) -> None:
    draw = random.Random(f"log {number}")
    lines = list(log_lines())
    at = draw.randrange(len(lines))
    record, path = json.loads(lines[at]), folder / "log.jsonl"
    if draw.random() < 0.8:
        damaged(record, draw)
        lines[at] = json.dumps(record)
    else:
        lines[at] = mutated(lines[at], draw)
    path.write_text("\n".join(lines) + "\n")
    (folder / "double.tile").write_text(TEXT)
    of = draw.choice(("work", "sectors", "registers"))
    finished(number, ["model", "log.jsonl", "--of", of, "-o", "m.json", "--json"])
    if number % 3 == 0:
        finished(number, ["diff", "double.tile", "--from", f"log.jsonl:{at + 1}", "--device", "nope"])
    with watched(number), suppress(TileError):
        str(dsl.trials(path))


def try_model(number: int, folder: Path) -> None:
    draw = random.Random(f"model {number}")
    record = json.loads(json.dumps(MODEL))
    text = mutated(json.dumps(record), draw)
    if draw.random() < 0.8:
        damaged(record, draw)
        text = json.dumps(record)
    (folder / "m.json").write_text(text)
    with watched(number), suppress(TileError, KeyError):  # a feature that it asks for
        made = load_model(str(folder / "m.json"))
        predicted(made, {"registers": 32.0, "threads": 1e6})


# ---- command lines ----

TEXT = """\
kernel double(y: T[n], x: T[n]; T in f32|f16, BLOCK = 128, ACT = id):
    grid cdiv(n, BLOCK)
    v = x[block(0) * BLOCK : block(0) * BLOCK + BLOCK]
    y[block(0) * BLOCK : block(0) * BLOCK + BLOCK] = ACT(v) + v

def id(x):
    return x

schedule few of double:
    tune warps in 4, 2

dispatch twice(y, x):
    option FAST in false, true
    if FAST: double with few
    else: double

example:
    n = 300
    x = randn(T[n])
    y = empty(T[n])
    twice(y, x)
    expect y ~= x + x within 1e-2
"""
VALUES = [
    *("", " ", "0", "1", "-1", "1e3", "nan", "inf", "1e400", "9" * 30, "9" * 400, "9" * 5000, "0x10", "true", "none"),
    *("f32", "f16", "f31", "id", "double", "few", "n", "T", "*", "é", "\1", "/", ".", "double.tile", "sm_90", "cuda"),
    *("emulator", "a,b", "1,2", "5:1", "1:5", "n=5:1", "n=1:", "n=5", "=", "x=", "=x", "--", "-"),
]
NAMES = [
    *(
        "n",
        "T",
        "BLOCK",
        "warps",
        "ACT",
        "FAST",
        "x",
        "dim.n",
        "const.T",
        "sched.warps",
        "option.FAST",
        "foo.n",
        "é",
        "",
    ),
]
PLACE = {"run": ["--device", "emulator"], "bench": ["--device", "emulator"]}
OPTIONS = {
    "run": ["--device", "--schedule", "--counters", "--explain", "--from", "--json", "--example", "--all", "--seed",
            "--time-limit", "--strict-bounds", "--arch"],
    "check": ["--json"],
    "compile": ["--emit", "--annotate", "--kernel", "--schedule", "--arch", "--example", "--after",
                "--skip-pass", "--after"],
    "opt": ["--pass"],
    "layout": ["--kernel", "--schedule", "--value", "--arch", "--example"],
    "bench": ["--device", "--example", "--kernel", "--schedule", "--seed", "--time-limit", "--strict-bounds"],
    "tune": ["--for", "--schedule", "--seconds", "--seed", "--budget", "--jobs", "--example"],
    "explain": ["--json"],
    "new": ["--from", "--list"],
}  # fmt: skip
FLAGS = ("--counters", "--explain", "--json", "--all", "--annotate", "--list")


def command_line(draw: random.Random) -> list[str]:
    name = draw.choice(list(OPTIONS))
    line = [name, *PLACE.get(name, [])]
    if name not in ("explain", "new") or draw.random() < 0.2:
        line.append("double.tile" if draw.random() < 0.9 else draw.choice(VALUES))
    for _ in range(draw.choice((0, 1, 1, 2))):
        if OPTIONS[name]:
            option = draw.choice(OPTIONS[name])
            line += [option] if option in FLAGS else [option, draw.choice(VALUES)]
    for _ in range(draw.choice((0, 0, 1, 1, 2))):
        line.append(f"{draw.choice(NAMES)}={draw.choice(VALUES)}" if draw.random() < 0.9 else draw.choice(VALUES))
    if name == "tune":
        line += ["--device", "nope"]  # its options are read; the tuning itself is not wanted
    return line


def try_command_line(number: int, folder: Path) -> None:
    (folder / "double.tile").write_text(TEXT)
    finished(number, command_line(random.Random(f"line {number}")))


def finished(number: int, line: list[str]) -> None:
    """A command ends, with a status of its own."""
    with watched(number):
        result = CliRunner().invoke(cli, line, standalone_mode=False)
    if isinstance(result.exception, click.ClickException | click.exceptions.Exit):
        return
    assert result.exception is None, f"{number}: {line}: {result.exception!r}"
    assert (result.return_value or 0) in (0, 1, 2, 3), f"{number}: {line}: {result.output}"


ATTEMPTS = [try_program, try_header, try_tuned_data, try_ir, try_log, try_model, try_command_line]


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_what_is_damaged(attempt: Callable[[int, Path], None], folder: Path) -> None:
    for number in NUMBERS:
        attempt(number, folder)
