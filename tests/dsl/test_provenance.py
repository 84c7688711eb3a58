"""What a trial says of how it was made: enough to make it again, and to tell an old one from one of today."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import to_builtins

import dsl
from dsl.command import cli
from dsl.examples.overrides import Overrides
from dsl.lab import provenance
from dsl.lab.experiment import Conditions, Experiment, Wanted
from dsl.lab.station import steps_of
from dsl.lab.trial import Log, StepFacts, Trial, read_trial
from dsl.text.program import load
from tests.dsl.lab_kernel import PLACE, TINY

ONLY = Wanted("none", run=False)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    (folder / "tiny.tile").write_text(TINY)
    tuned(folder)
    return folder / "log.jsonl"


def tuned(folder: Path, *more: str) -> dict[str, Any]:
    words = ["tune", str(folder / "tiny.tile"), "--device", "emulator", "--jobs", "0", "--json"]
    done = CliRunner().invoke(cli, [*words, "--log", str(folder / "log.jsonl"), *more])
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.output))


def served(found: dict[str, Any]) -> int:
    """Points of a tuning that were taken from the log."""
    return sum(outcome["from_log"] for outcome in found["outcomes"])


def made_again(trial: Trial, choose: Mapping[str, str]) -> StepFacts:
    """The one launch of a trial, with what its line has and some options more."""
    program = load(Path(trial.file))
    conditions = Conditions(choose={**trial.choices, **choose}, chosen=steps_of(trial), seed=trial.seed, wanted=ONLY)
    with Experiment(program, program.examples[0], Overrides({}, {}, {}, {}), PLACE, trial.index, conditions) as made:
        return made.trial({}).launches[0]


def test_a_trial_says_what_replays_it(log: Path) -> None:
    for trial in Log(log).trials.values():
        assert {"compiler", "runtime", "python", "numpy", "llvmlite"} <= trial.versions.keys()
        assert trial.seed == 0 and trial.file.endswith("tiny.tile") and trial.command[:2] == ["dsl", "tune"]
        assert trial.made.endswith("Z") and trial.where.endswith(" emulator") and trial.schema == 4
        (launch,) = trial.launches
        assert launch.ptx == made_again(trial, {}).ptx


def test_all_choices_of_a_trial_forced_give_its_code_again(log: Path) -> None:
    """By options of other names, so that a rule which comes to something else later does not matter."""
    for trial in Log(log).trials.values():
        (launch,) = trial.launches
        assert {"vector.x.load", "pass.swizzle_shared", "level.llvm"} <= launch.choices.keys()
        again = made_again(trial, launch.choices)
        assert (again.ptx, again.choices) == (launch.ptx, launch.choices)


def test_the_ptx_digest_is_of_the_code_and_not_of_the_path(tmp_path: Path) -> None:
    digests = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tiny.tile").write_text(TINY)
        made = dsl.load(tmp_path / name / "tiny.tile").compile("twice", n=1000, schedule="s")
        assert str(tmp_path) in made.ptx
        digests.append(provenance.ptx_digest(made.ptx))
    assert digests[0] == digests[1]


@pytest.mark.parametrize("room", ["lab", "lowering/emit", "ptx_templates", "runtime", "runtime/emulator"])
def test_any_file_of_any_room_makes_another_digest(tmp_path: Path, room: str) -> None:
    root = Path(provenance.__file__).parents[2]
    source = next(path for path in sorted((root / "dsl" / room).iterdir()) if path.suffix in (".py", ".toml"))
    copy = tmp_path / source.relative_to(root)
    copy.parent.mkdir(parents=True)
    shutil.copy(source, copy)
    before = provenance.digests(tmp_path)
    assert provenance.digests(tmp_path) == before
    copy.write_text(copy.read_text() + "\n")
    after = provenance.digests(tmp_path)
    assert [name for name in before if after[name] != before[name]] == [
        "runtime" if room.startswith("runtime") else "compiler"
    ]


@pytest.mark.parametrize("name", ["runtime", "compiler", "ptxas", "numpy", "python"])
def test_trials_of_another_version_are_told_as_old_and_not_served(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for file in log.parent.iterdir():
        shutil.copy(file, tmp_path)
    other = {**provenance.versions(), name: "another"}
    monkeypatch.setattr(provenance, "_installed", lambda: other)
    found = tuned(tmp_path, "--seconds", "0")
    assert found["notes"] == [f"old trials, made with another {name} than installed here: 4"]
    assert served(found) == 0


def test_a_line_of_the_schema_before_is_read_as_old_and_not_served(log: Path, tmp_path: Path) -> None:
    for file in log.parent.iterdir():
        shutil.copy(file, tmp_path)
    new = {"file", "seed", "command", "commit", "made"}
    lines = []
    for trial in Log(log).trials.values():
        row = {name: value for name, value in to_builtins(trial).items() if name not in new} | {"schema": 2}
        row["launches"] = [{k: v for k, v in each.items() if k not in ("choices", "ptx")} for each in row["launches"]]
        row["versions"] = {name: each for name, each in row["versions"].items() if name in ("compiler", "numpy")}
        lines.append(json.dumps(row))
        assert read_trial(lines[-1]) is not None
    (tmp_path / "log.jsonl").write_text("\n".join([*lines, '{"schema": 1}']) + "\n")
    found = tuned(tmp_path, "--seconds", "0")
    unread, old = found["notes"]
    assert "no trials: 1" in unread and "runtime, python" in old and old.endswith(": 4")
    assert served(found) == 0
    assert dsl.trials(tmp_path / "log.jsonl").record["notes"] == found["notes"]


def test_trials_of_another_seed_are_others(log: Path) -> None:
    """Counters depend on the numbers of the inputs."""
    assert served(tuned(log.parent, "--seconds", "0")) == 4
    found = tuned(log.parent, "--seed", "1", "--seconds", "0")
    assert served(found) == 0
