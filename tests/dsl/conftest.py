"""A kernel to tune, and a device with times that is the emulator."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from tuned_kernel import SCALE, Here, Timer

from dsl.lab import compiling, station
from dsl.lab.place import TuningPlace
from dsl.lab.runner import Runner
from dsl.lab.trial import Trial


@pytest.fixture
def scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file, with a cache of its own, compiled in this process."""
    monkeypatch.setattr(compiling, "ProcessPoolExecutor", Here)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "scale.tile"
    path.write_text(SCALE)
    return path


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch) -> Timer:
    """Makes the emulator a device with times, which this says."""
    check, made = Runner.check, Timer()

    def checked(self: Runner, trial: Trial, ready: Any, whole: bool = False) -> None:
        check(self, trial, ready, whole)
        trial.status, trial.counters = "measured" if trial.status == "counted" else trial.status, None

    def measured(self: TuningPlace, launches: list[Any], rounds: int, order: Random) -> list[list[float]]:
        made.rounds.append((len(launches), rounds))
        means = [made.mean(each.bound.plan.steps[0].request.constants) for each in launches]
        return [[made.slowness * (mean + order.uniform(-0.1, 0.1)) for _ in range(rounds)] for mean in means]

    monkeypatch.setattr(TuningPlace, "is_timed", True)
    monkeypatch.setattr(Runner, "check", checked)
    monkeypatch.setattr(TuningPlace, "rounds", measured)
    monkeypatch.setattr(station, "prepared", lambda ready: ready)
    return made
