"""A log says what it holds by a JSON Schema, and nothing of a log is dropped without a word."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

import dsl
from dsl.command import cli
from dsl.lab import clocks
from dsl.lab.log_schema import unknown_fields
from dsl.lab.place import TuningPlace
from dsl.lab.trial import Log, Trial, log_lines, parsed, read_trial
from tests.dsl.lab_kernel import TINY, TURN

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "trial.schema.json"
GPU = TuningPlace("cuda:0", "NVIDIA H200", "sm_90", 132, "13.0")


def dsl_command(*words: object) -> None:
    done = CliRunner().invoke(cli, [*map(str, words), "--device", "emulator", "--jobs", "0"], standalone_mode=False)
    assert done.return_value == 0, done.output


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trials of two commands: points with constants, and choices that were forced."""
    folder = tmp_path_factory.mktemp("log")
    (folder / "tiny.tile").write_text(f'import "parts.tile"\n{TINY}')
    (folder / "parts.tile").write_text("def half(x):\n    return x / 2\n")
    (folder / "turn.tile").write_text(TURN)
    dsl_command("tune", folder / "tiny.tile", "--log", folder / "log.jsonl")
    dsl_command("ablate", folder / "turn.tile", "--kinds", "barrier", "--ceiling", "--log", folder / "log.jsonl")
    return folder / "log.jsonl"


@pytest.fixture(scope="module")
def schema() -> Any:
    found = json.loads(SCHEMA.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


def test_each_line_of_a_log_is_as_its_schema_says(log: Path, schema: Any) -> None:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) > 5 and not [error for line in lines for error in schema.iter_errors(line)]
    fields = schema.schema["$defs"]["Trial"]["properties"]
    assert fields.keys() == {*Trial.__struct_fields__} and all(each.get("description") for each in fields.values())


@pytest.mark.parametrize(
    "change", [{"times_us": ["fast"]}, {"seed": "one"}, {"launches": [{"kernel": 3}]}, {"dims": {"n": None}}]
)
def test_the_schema_refuses_what_is_not_read(log: Path, schema: Any, change: dict[str, Any]) -> None:
    line = json.loads(log.read_text().splitlines()[0]) | change
    assert not schema.is_valid(line)
    assert read_trial(json.dumps(line)) is None


def test_a_trial_names_its_example_its_texts_and_their_digests(log: Path) -> None:
    before = [*Log(log).trials.values()]
    tiny = before[0]
    assert tiny.texts.keys() == {"tiny.tile", "parts.tile"} and tiny.example_index == 0 and tiny.plugins == []
    assert before[-1].texts.keys() == {"turn.tile"} and tiny.blocks is None and tiny.clocks == {}


def test_examples_without_a_name_are_other_trials(log: Path) -> None:
    trial = next(iter(Log(log).trials.values()))
    other = parsed(log.read_text().splitlines()[0]).trial
    assert other is not None and other.key == trial.key
    other.example_index = 1
    assert other.key != trial.key


def test_fields_of_a_newer_log_are_counted_and_said(log: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    for row in rows[:3]:
        row["colour"], row["launches"][0]["heat"], row["steps"][0]["mood"] = "red", 3, {"a": 1}
    rows[3]["colour"] = "blue"
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = Log(path)
    assert len(found.trials) == len(rows) and found.unread == 0
    assert found.unknown == {"colour": 4, "launches.heat": 3, "steps.mood": 3}
    (note,) = dsl.trials(path).record["notes"]
    assert "colour (4 times)" in note and "launches.heat (3 times)" in note
    assert not Log(log).unknown


def test_unknown_fields_are_found_at_any_depth() -> None:
    assert unknown_fields({"requests": [{}, {"x": 1}, {"x": 2}], "values": {"any": 1}}, Trial) == ["requests.x"]


def test_lines_that_are_no_trials_say_why(log: Path, tmp_path: Path) -> None:
    line = log.read_text().splitlines()[0]
    row = json.loads(line)
    bad = {
        line[:200]: "no JSON",
        "[1]": "no JSON object",
        json.dumps(row | {"schema": 99}): "schema 99, not 2 to 4",
        json.dumps({name: each for name, each in row.items() if name != "source"}): "`source`",
        json.dumps(row | {"status": "asleep"}): "'asleep' is unknown",
        json.dumps(row | {"launches": row["launches"] * 2}): "kernels without facts",
    }
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join([line, *bad, "", line]) + "\n")
    for each, why in zip([each for each in log_lines(path) if each.trial is None], bad.values(), strict=True):
        assert why in each.problem
    found = Log(path)
    assert found.unread == len(bad) and len(found.trials) == 1 and found.replaced == 1
    unread, repeated = dsl.trials(path).record["notes"]
    assert unread == "lines that are no trials: 6 (line 2: no JSON)" and repeated.endswith(": 1")


def test_a_number_that_json_lacks_does_not_cost_the_line(log: Path, tmp_path: Path) -> None:
    trial = next(iter(Log(log).trials.values()))
    trial.values = {"eps": float("inf")}
    made = Log(tmp_path / "log.jsonl")
    made.add(trial)
    (again,) = Log(tmp_path / "log.jsonl").trials.values()
    assert again.values == {"eps": "inf"} and "Infinity" not in made.path.read_text()


def test_clocks_are_those_that_nvidia_smi_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(words: list[str], **_: Any) -> Any:
        asked.append(words)
        return subprocess.CompletedProcess(words, 0, "1980, 3201, 1980, 3201, 700.00, [N/A]\n")

    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(clocks, "bus_id", lambda ordinal: "0000:19:00.0")
    monkeypatch.setattr(subprocess, "run", run)
    found = clocks.clocks(GPU)
    most = {"most_sm_mhz": 1980.0, "most_memory_mhz": 3201.0}
    assert found == {"sm_mhz": 1980.0, "memory_mhz": 3201.0, **most, "power_limit_w": 700.0}
    assert "--id=0000:19:00.0" in asked[0] and "clocks.sm" in asked[0][2]
    assert asked[0][0] == "/bin/nvidia-smi"
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: (_ for _ in ()).throw(FileNotFoundError("nvidia-smi")))
    assert clocks.clocks(GPU) == {}
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert clocks.clocks(GPU) == {}
