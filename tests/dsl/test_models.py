"""Cost models: what they are fitted to, how well they order, and that they order points without deciding any."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tuned_kernel import SCALE, Timer, best, constants, dsl, outcome, plugin

from dsl.lab.model import MODELS, Model, features_of, known_before, load_model, model, model_named, save
from dsl.lab.models import LogLinear, evaluate, rank_correlation, read_trials
from dsl.lab.trial import Log, StepFacts, Trial
from dsl.lowering.ir.location import TileError


def trial(kernel: str, number: int, time: float, sectors: float, device: str = "GPU", **facts: Any) -> Trial:
    steps = [{"kernel": kernel, "constants": {"number": number}}]
    made = Trial("s", device, "1", {}, kernel, None, 0, {}, {}, {}, {"n": 1}, steps)
    made.times_us, made.counters = [time] * 8, {"global_load_sectors": sectors, "instructions": 100.0}
    made.launches = [StepFacts(kernel, None, {}, threads=128, **facts)]
    return made


def test_the_rank_correlation_is_spearmans() -> None:
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 99]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    # ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: the covariance is 4.5, the sums of squares 4.5 and 5
    assert rank_correlation([1, 2, 2, 4], [5, 6, 7, 8]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    assert rank_correlation([1, 1, 1], [1, 2, 3]) is None and rank_correlation([1], [1]) is None


def test_a_linear_model_finds_the_powers_and_takes_no_negative_one() -> None:
    rows = [{"sectors": 2.0**s, "work": 3.0**w, "registers": 20.0 + w, "same": 7.0} for s in range(6) for w in range(5)]
    values = [5 * (1 + row["sectors"]) ** 0.75 * (1 + row["work"]) ** 0.25 for row in rows]
    made = LogLinear()
    made.fit(rows, values)
    assert made.weights is not None and made.weights.keys() <= {"sectors", "work", "registers"}
    assert made.weights["sectors"] == pytest.approx(0.75) and made.weights["work"] == pytest.approx(0.25)
    assert [made.predict(row) for row in rows] == pytest.approx(values) and made.needs_counters
    made.fit(rows, [1 / (1 + row["sectors"]) for row in rows])
    assert made.weights is not None and all(weight >= 0 for weight in made.weights.values())
    made.fit([{"registers": r} for r in (8.0, 64.0)], [1.0, 2.0])
    assert not made.needs_counters


def test_a_feature_that_some_trial_has_not_is_left_out() -> None:
    made = LogLinear()
    made.fit([{"a": 1.0, "b": 1.0}, {"a": 2.0}, {"a": 4.0, "b": 0.5}], [1.0, 2.0, 3.0])
    assert made.weights is not None and made.weights.keys() == {"a"}


def test_features_are_the_figures_but_for_the_time() -> None:
    found = features_of(trial("k", 0, 3.0, 50, registers=40, occupancy=0.25, instructions=9))
    assert found["sectors"] == 50 and found["registers"] == 40 and found["idle"] == 4 and found["sass"] == 9
    assert "time" not in found and "result" not in found
    assert known_before(found, "time") == found
    assert known_before(found, "work").keys() == {"registers", "idle", "sass", "threads"}  # nothing that was counted


def test_each_kernel_is_predicted_by_what_was_fitted_to_the_others() -> None:
    seen: list[int] = []

    class Counting(Model):
        def fit(self, rows: Any, values: Any) -> None:
            seen.append(len(rows))

        def predict(self, features: Any) -> float:
            return features["sectors"]

    same = [trial("a", i, 1.0 + i, 10 + i) for i in range(5)] + [trial("b", i, 9.0 - i, i) for i in range(4)]
    found = evaluate(Counting, same, "time")
    assert seen == [4, 5] and found.held_out
    assert [row.within for row in found.kernels] == pytest.approx([1, -1]) and found.within == pytest.approx(0)
    assert found.across is not None and -1 < found.across < 1
    seen.clear()
    assert not evaluate(Counting, same[:5], "time").held_out and seen == [5]


def test_logs_are_read_once_each_and_of_one_device(tmp_path: Path) -> None:
    path, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    for each in (trial("a", 0, 1.0, 5), trial("a", 1, 2.0, 6)):
        Log(path).add(each)
        Log(other).add(each)
    assert len(read_trials([path, other], "time", None)) == 2
    Log(other).add(trial("a", 2, 2.0, 6, device="other GPU"))
    with pytest.raises(TileError, match="several devices") as caught:
        read_trials([path, other], "time", None)
    assert "--device 'other GPU'" in caught.value.render()
    assert len(read_trials([path, other], "time", "GPU")) == 2
    with pytest.raises(TileError, match="there is no such file"):
        read_trials([tmp_path / "c.jsonl"], "time", None)


def test_a_model_without_an_order_is_not_written(tmp_path: Path) -> None:
    log, path = tmp_path / "a.jsonl", tmp_path / "m.json"
    for at, time in enumerate((1.0, 2.0, 3.0)):
        Log(log).add(trial("a", at, time, 50))
    result = dsl("model", log, "-o", path)
    assert result.return_value == 2 and not path.exists() and "rank correlation" not in result.stdout
    assert "of 3 trials, no feature grows with time" in result.stderr
    Log(log).add(trial("a", 3, 4.0, 60))
    assert dsl("model", log, "-o", path).return_value == 0 and path.exists()


def test_a_model_is_kept_in_a_file(tmp_path: Path) -> None:
    made, path = LogLinear(), tmp_path / "m.json"
    made.fit([{"registers": 1.0}, {"registers": 3.0}], [1.0, 2.0])
    made.of = "work"
    save(made, "linear", path, {"device": "GPU"})
    again = load_model(str(path))
    assert again.of == "work" and again.predict({"registers": 2.0}) == made.predict({"registers": 2.0})
    state = '{"model": "linear", "of": "time", "state": %s}'
    faults = {
        "": "it is not JSON",
        "[]": "'model' is missing or not a name",
        "{}": "'model' is missing or not a name",
        '{"model": "linear", "of": 3}': "'of' is missing or not a name",
        state % "[]": "'state' is missing or not an object",
        state % '{"intercept": 1}': "its 'state' does not fit the model 'linear'",
        state % '{"intercept": 1, "weights": {"work": NaN}}': "its 'state' does not fit the model 'linear'",
    }
    for text, fault in faults.items():
        path.write_text(text)
        with pytest.raises(TileError) as caught:
            load_model(str(path))
        assert caught.value.message == f"{path} is not a model: {fault}"
    with pytest.raises(TileError, match="no model 'liner'"):
        model_named("liner")
    with pytest.raises(ValueError, match="'linear' already"):
        model("linear")(LogLinear)
    with pytest.raises(TileError, match="not fitted"):
        model_named("linear").predict({})


# ---- `dsl model` and `dsl tune --model` ----


@pytest.fixture
def traffic() -> Iterator[None]:
    plugin("model_traffic.py")
    yield
    del MODELS["traffic"]


def test_the_best_predicted_are_tried_first_and_all_without_a_budget(scale: Path, traffic: None) -> None:
    whole = outcome(scale, "--fresh")
    fine = [point for point in whole["points"] if point["status"] == "counted"]
    by_traffic = sorted({32 * point["rank"][0] + 128 * point["rank"][1] for point in fine})
    assert len(by_traffic) > 1
    found = outcome(scale, "--model", "traffic", "--budget", 5, "--fresh")["points"]
    others = [point for point in found if constants(point) != constants(whole["points"][0])]
    assert len(found) == 5 and {point["predicted"] for point in others} == {by_traffic[0]}

    @model("worst")
    class Worst(Model):
        def predict(self, features: Any) -> float:
            return -MODELS["traffic"]().predict(features)

    try:
        again = outcome(scale, "--model", "worst", "--fresh")
    finally:
        del MODELS["worst"]
    assert best(again) == best(whole)
    assert len(again["points"]) == len(whole["points"])
    shown = dsl("tune", scale, "--emulator", "--model", "traffic").stdout
    (value,) = re.findall(rf"the model's order: rank correlation (\d\.\d\d) with the results of {len(fine)} p", shown)
    assert float(value) > 0.5


def test_a_model_is_fitted_reported_and_used(scale: Path, tmp_path: Path) -> None:
    log, path = tmp_path / "log.jsonl", tmp_path / "m.json"
    text = SCALE.replace("scale", "other").replace("    tune choose", "    # tune choose")
    (other := tmp_path / "other.tile").write_text(text)
    outcome(scale, "--log", log)
    outcome(other, "--log", log)
    result = dsl("model", log, "--of", "time")
    assert result.return_value == 2 and "no trial of the logs has a figure 'time'" in result.stderr
    assert "--of work" in result.stderr and dsl("model", log).stdout.startswith("linear: work of ")
    assert "did you mean 'work'?" in dsl("model", log, "--of", "wrk").stderr
    shown = dsl("model", log, "--of", "work", "-o", path)
    assert shown.return_value == 0 and "each kernel fitted to the others" in shown.stdout, shown.output
    record = json.loads(dsl("model", log, "--of", "work", "--json").stdout)
    assert record["kernels"] and {row["kernel"] for row in record["kernels"]} == {"scale", "other"}
    assert not record["state"]["weights"].keys() & {"sectors", "wavefronts", "instructions"}
    assert len(outcome(scale, "--model", path, "--budget", 2, "--fresh")["points"]) == 2
    result = dsl("tune", scale, "--emulator", "--model", path, "--search", "random")
    assert result.return_value == 2 and "--search cost, all or halving" in result.stderr
    result = dsl("tune", scale, "--emulator", "--model", "linear")
    assert result.return_value == 2 and "dsl model LOG -o FILE.json" in result.stderr


def test_times_are_fitted_to_what_the_emulator_counts_beside_them(scale: Path, timer: Timer, tmp_path: Path) -> None:
    """`--counters`: each trial that was timed has counters, of the first blocks."""
    log, path = tmp_path / "log.jsonl", tmp_path / "m.json"
    timer.mean = lambda constants: 10 + constants["warps"]
    outcome(scale, "--log", log, "--counters")
    rows = [row for row in map(json.loads, log.read_text().splitlines()) if row["status"] == "measured"]
    assert rows and all(row["times_us"] and row["counters"]["instructions"] > 0 for row in rows)
    record = json.loads(dsl("model", log, "-o", path, "--json").stdout)
    assert record["of"] == "time" and not record["held_out"] and record["within"] > 0.8
    assert outcome(scale, "--fresh", "--model", path, "--budget", 3)["points"][0]["predicted"] > 0
