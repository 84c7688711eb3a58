"""A kernel with choices of many kinds that compiles and runs in hundredths of a second."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from dsl.examples.overrides import resolve
from dsl.lab.experiment import Conditions, Experiment, Wanted
from dsl.lab.place import TuningPlace
from dsl.text.program import load

TURN = """\
kernel turn(y: f32[n, n], x: f32[n, n]; T = 32):
    grid n // T, n // T
    shared a: f32[T, T]
    shared b: f32[T, T]
    i, j = block(0) * T, block(1) * T
    a[0 : T, 0 : T] = load(x[i : i + T, j : j + T])
    v = exp(load(a[0 : T, 0 : T]).T)
    b[0 : T, 0 : T] = v
    store(y[i : i + T, j : j + T], load(b[0 : T, 0 : T]).T)

schedule s of turn:
    math exp: fast

example:
    n = 32
    x = randn(f32[n, n])
    y = empty(f32[n, n])
    turn(y, x)
    expect y ~= exp(x) within 1e-4, 1e-4
"""
TINY = """\
kernel twice(y: f32[n], x: f32[n]; BLOCK):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    a = load(x[i : i + BLOCK])
    y[i : i + BLOCK] = a * 2

schedule s of twice:
    tune warps in 1, 2
    tune PER in 1, 2
    BLOCK = warps * 32 * PER

example:
    n = 1000
    x = randn(f32[n])
    y = empty(f32[n])
    twice(y, x)
    expect y == (x * 2).to(f32)
"""
"""Four points to tune."""
PLACE = TuningPlace("emulator", "emulated H200", "sm_90", 132)


def written(folder: Path, text: str = TURN) -> Path:
    path = folder / "turn.tile"
    path.write_text(text)
    return path


def experiment(path: Path, *values: str, wanted: Wanted | None = None, **conditions: Any) -> Experiment:
    """The first launch of the file's first example, on the emulator."""
    program = load(path)
    overrides = resolve(program, program.examples[0], list(values))
    made = Conditions(wanted=wanted or Wanted("none"), **conditions)
    return Experiment(program, program.examples[0], overrides, PLACE, 0, made)


def git(folder: Path, *words: str) -> str:
    who = {f"GIT_{role}_{what}": "x@y.example" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    calm = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        ["git", "-C", str(folder), *words],
        env={**os.environ, **who, **calm},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def committed(folder: Path, subject: str) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", subject)
