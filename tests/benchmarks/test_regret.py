"""`benchmarks/regret.py`: which points it measures, and the log of them. What a GPU does is played."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.lab.compiling import compile_request, digest_of
from dsl.lab.costs import LoggedCosts
from dsl.lab.place import find_place
from dsl.lab.trial import Log, blank_trial
from dsl.runtime import Kernel

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))  # as for the scripts there

import regret
from harness.launches import Call

SAMPLE = Path(__file__).parents[2] / "samples" / "matmul.tile"


class Filled(np.ndarray):
    """An array that is filled as torch's are."""

    def fill_(self, value: float) -> None:
        self.fill(value)


@pytest.fixture
def case() -> Any:
    module = dsl.load(SAMPLE, device="emulator", arch="sm_90a")
    a, b, c = (np.zeros(shape, np.float16) for shape in ((640, 512), (512, 320), (640, 320)))
    about = {"name": "a @ b", "dtype": "f16", "shape": {"m": 640, "n": 320, "k": 512}, "right": lambda: True}
    arrays = {"arguments": (c.view(Filled), a, b), "peers": {"torch": lambda: None}}
    return SimpleNamespace(file=module, call=Call("matmul"), function=module.matmul, **about, **arrays)


def test_the_cheapest_points_are_measured_and_some_others(case: Any) -> None:
    nine, all_ = (regret.points(case, most, 1.5, 0.0, Random(0)) for most in (9, 1000))
    assert [point.steps for point in nine[:6]] == [point.steps for point in all_[:6]] and len(nine) == 9 < len(all_)
    assert all(point.plan.steps[-1].request.schedule == point.steps[-1].schedule for point in nine)
    assert not regret.points(case, 9, 1.5, 100.0, Random(0))  # the cheapest one costs less


def test_its_trials_are_what_dsl_calibrate_reads(case: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def bound(case: Any, plan: Any, compiler: Any) -> Any:
        made = [compile_request(task, step.request, "none") for step in plan.steps]
        kernels = [Kernel(each.ptx or "", each.entry, "emulator") for each in made]
        launched = SimpleNamespace(kernels=kernels, launch=lambda given: None)
        return regret.Loaded(launched, made)

    place, program = find_place("emulator"), case.file.program
    task = (str(program.path), digest_of(program), ())
    monkeypatch.setattr(Kernel, "attributes", lambda *_: None)
    monkeypatch.setattr(regret, "bound", bound)
    monkeypatch.setattr(regret, "interleaved", lambda launches, *_, **__: {n: [20.0 - (n or 0)] * 9 for n in launches})
    case.peers = {None: lambda: None}

    def blank(program: Any, facts: Any, **about: Any) -> Any:
        return blank_trial(program, place, facts, 0, [], example=None, index=0, **about)

    with ThreadPoolExecutor(1) as loaders:
        row = regret.measured(case, regret.points(case, 9, 1.5, 0.0, Random(0)), None, loaders, blank, place)
    for trial in row.trials:
        Log(tmp_path / "log.jsonl").add(trial)
    assert len({trial.contest for trial in row.trials}) == 1 and row.trials[0].where.endswith(" emulator")
    for trial in row.trials:
        (facts,), (request,) = trial.launches, trial.requests
        assert facts.ptx and facts.choices and facts.kernel == request.kernel and trial.texts.keys() >= {"matmul.tile"}
    costs = LoggedCosts([*Log(tmp_path / "log.jsonl").trials.values()])
    (score,) = costs.scores(costs.start, costs.cases)
    assert score.points == 9 and score.correlation == pytest.approx(-1, abs=0.1) and score.regret == 20 / 12
    assert next(regret.summary([row])) == "all: 1 shapes; peer / cheapest point 1.000, peer / best point 1.667"
