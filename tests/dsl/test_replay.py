"""`dsl replay` makes the trials of a log again: equal, or it says what differs and why. A bundle does so elsewhere."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tuned_kernel import PLUGINS, Timer

from dsl.command import cli
from dsl.lab import provenance, replay
from dsl.lab.bundle import FilesOfLog, locked_versions, unpack
from dsl.lab.place import find_place
from dsl.lab.replay import Replay, ReplaySettings
from dsl.lab.runner import Runner
from dsl.lab.trial import CostFacts, Log, blank_trial, log_lines
from dsl.lowering.ir.location import TileError
from dsl.text.program import load
from tests.dsl.lab_kernel import TINY, TURN

ON = ["--device", "emulator", "--jobs", "0"]


def command(*words: object, status: int = 0) -> str:
    done = CliRunner().invoke(cli, [*map(str, words)], standalone_mode=False)
    assert done.return_value == status, done.output
    return str(done.stdout)


def replayed(log: Path, *words: object, status: int = 0) -> dict[str, Any]:
    return dict(json.loads(command("replay", log, "--jobs", "0", "--json", *words, status=status)))


def verdicts(found: dict[str, Any]) -> list[str]:
    return [each["verdict"] for each in found["lines"]]


def names(line: dict[str, Any]) -> list[str]:
    return [each["name"] for each in line["differences"]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of points, of choices (one a race, one refused), and the files that it names, in one folder."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "tiny.tile").write_text('import "parts/two.tile"\n' + TINY.replace("a * 2", "two(a)"))
    (folder / "parts").mkdir()
    (folder / "parts" / "two.tile").write_text("def two(x):\n    return x * 2\n")
    (folder / "turn.tile").write_text(TURN)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        command("tune", "tiny.tile", "warps=1,3,2", *ON, "--log", "log.jsonl")
        command("ablate", "turn.tile", "--kinds", "barrier", "--ceiling", *ON, "--log", "log.jsonl")
        command("tune", "turn.tile", *ON, "--choose", "swizzle.b=none", "--log", "log.jsonl")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, as the current folder."""
    shutil.copytree(made, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


def test_a_log_made_again_is_equal(folder: Path) -> None:
    found = replayed(folder / "log.jsonl")
    then = [*log_lines(folder / "log.jsonl")]
    assert {line.trial.status for line in then if line.trial} == {"counted", "compile", "race"}
    assert verdicts(found) == ["equal"] * len(then) and found["counts"] == {"equal": len(then)} and not found["notes"]
    assert [each["line"] for each in found["lines"]] == [*range(1, len(then) + 1)]
    assert all(each["then"] == each["now"] and not each["since"] for each in found["lines"])
    text = command("replay", "log.jsonl", "--jobs", "0", "--line", 2)
    assert "1 equal" in text and "PER=" in text and "250 sectors" in text


def test_another_folder_and_more_processes_change_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative paths are also found beside the log."""
    monkeypatch.chdir(tmp_path)
    found = json.loads(command("replay", folder / "log.jsonl", "--jobs", 2, "--json"))
    assert {*verdicts(found)} == {"equal"}


def test_a_changed_text_is_named_with_what_it_changes(folder: Path) -> None:
    path = folder / "parts" / "two.tile"
    path.write_text(path.read_text().replace("x * 2", "x * 2 + 1"))
    found = replayed(folder / "log.jsonl", status=1)
    tiny = [each for each in found["lines"] if each["since"]]
    assert len(tiny) == 5 and len(tiny) < len(found["lines"])
    assert {each["verdict"] for each in found["lines"] if not each["since"]} == {"equal"}
    for line in tiny:
        assert line["since"] == {"text": "text changed: parts/two.tile"}
        if line["then"]["result"] == "refused":  # warps=3 compiles neither then nor now
            assert line["verdict"] == "equal"
            continue
        by_name = {each["name"]: each for each in line["differences"]}
        assert line["verdict"] == "differs" and line["now"]["result"] == "wrong"
        assert by_name["ptx"]["why"] == ["text changed: parts/two.tile"] and by_name["result"]["why"] == ["other code"]
        assert by_name["ptx"]["then"] != by_name["ptx"]["now"]
    text = command("replay", "log.jsonl", "--jobs", "0", "--line", 1, status=1)
    assert "differs: ptx" in text and "(text changed: parts/two.tile)" in text


@pytest.mark.parametrize("name", ["compiler", "runtime", "ptxas", "numpy"])
def test_another_version_is_named_but_equal_results_are_equal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    other = {**provenance.versions(), name: "another"}
    monkeypatch.setattr(provenance, "_installed", lambda: other)
    found = replayed(folder / "log.jsonl", "--line", 1)
    assert verdicts(found) == ["equal"] and found["lines"][0]["since"].keys() == {name}


EDITS: dict[str, tuple[Callable[[dict[str, Any]], Any], str, str]] = {
    "PTX": (lambda row: row["launches"][0].update(ptx="0" * 16), "ptx", "compiler changed"),
    "registers": (lambda row: row["launches"][0].update(registers=99), "registers", "ptxas 1 → "),
    "machine code": (lambda row: row["launches"][0].update(instructions=9), "sass", "ptxas 1 → "),
    "a choice": (
        lambda row: row["launches"][0]["choices"].update({"level.llvm": "0"}),
        "choice level.llvm",
        "compiler changed",
    ),
    "a counter": (lambda row: row["counters"].update(barriers=77), "barriers", "runtime changed"),
    "a verdict": (lambda row: row.update(status="wrong", reason="too large"), "result", "runtime changed"),
    "dims": (lambda row: row["dims"].update(n=3), "call (dims)", "compiler changed"),
}


@pytest.mark.parametrize("what", EDITS)
def test_any_fact_that_differs_is_said_with_its_likely_cause(folder: Path, what: str) -> None:
    edit, name, why = EDITS[what]
    row = json.loads((folder / "log.jsonl").read_text().splitlines()[-1])
    row["versions"] |= {"compiler": "1", "runtime": "1", "ptxas": "1"}
    edit(row)
    (folder / "log.jsonl").write_text(json.dumps(row) + "\n")
    (line,) = replayed(folder / "log.jsonl", status=1)["lines"]
    assert names(line) == [name] and any(each.startswith(why) for each in line["differences"][0]["why"])


def test_choices_that_a_new_compiler_has_are_no_difference_of_equal_code(folder: Path) -> None:
    row = json.loads((folder / "log.jsonl").read_text().splitlines()[0])
    del row["launches"][0]["choices"]["level.llvm"]
    row["launches"][0]["choices"]["pass.of_old"] = "on"
    (folder / "log.jsonl").write_text(json.dumps(row) + "\n")
    assert verdicts(replayed(folder / "log.jsonl")) == ["equal"]
    row["launches"][0]["ptx"] = "0" * 16
    (folder / "log.jsonl").write_text(json.dumps(row) + "\n")
    (line,) = replayed(folder / "log.jsonl", status=1)["lines"]
    assert {*names(line)} >= {"ptx", "choice level.llvm", "choice pass.of_old"}


def test_what_differs_without_any_change_is_chance(folder: Path) -> None:
    row = json.loads((folder / "log.jsonl").read_text().splitlines()[0])
    row["counters"]["barriers"] += 1
    (folder / "log.jsonl").write_text(json.dumps(row) + "\n")
    (line,) = replayed(folder / "log.jsonl", status=1)["lines"]
    (difference,) = line["differences"]
    assert difference["name"] == "barriers" and "chance" in difference["why"][0]


def test_lines_that_cannot_be_made_are_told_and_no_line_is_lost(folder: Path) -> None:
    lines = (folder / "log.jsonl").read_text().splitlines()
    gone, foreign = json.loads(lines[0]) | {"file": "gone.tile"}, json.loads(lines[1]) | {"colour": "red"}
    lost = json.loads(lines[0]) | {"example": "large", "example_index": 3}
    by_hand = json.loads(lines[0])
    by_hand["versions"]["from"] = "0"
    rows = [json.dumps(gone), "half a li", json.dumps(foreign), json.dumps(lost), json.dumps(by_hand), lines[2]]
    (folder / "log.jsonl").write_text("\n".join(rows) + "\n")
    found = replayed(folder / "log.jsonl", status=1)
    assert verdicts(found) == ["not made", "not made", "equal", "not made", "not made", "equal"]
    reasons = [each["reason"] for each in found["lines"]]
    assert "gone.tile" in reasons[0] and "no JSON" in reasons[1] and "no example 'large'" in reasons[3]
    assert "handwritten code" in reasons[4]
    assert found["notes"] == ["fields that are unknown, and not compared: colour"]


@pytest.mark.parametrize("schema", [2, 3])
def test_older_lines_are_compared_as_far_as_they_go(folder: Path, schema: int) -> None:
    new = {"texts", "plugins", "example_index", "edited", "blocks", "clocks"}
    new |= {"seed", "command", "commit", "made"} if schema == 2 else set()
    rows = []
    for line in (folder / "log.jsonl").read_text().splitlines():
        row = {name: value for name, value in json.loads(line).items() if name not in new} | {"schema": schema}
        if schema == 2:
            row["launches"] = [
                {k: v for k, v in each.items() if k not in ("ptx", "choices")} for each in row["launches"]
            ]
        rows.append(json.dumps(row))
    (folder / "log.jsonl").write_text("\n".join(rows) + "\n")
    assert {*verdicts(replayed(folder / "log.jsonl"))} == {"equal"}
    (folder / "turn.tile").write_text(TURN.replace("exp(load", "exp(2 * load").replace("exp(x)", "exp(2 * x)"))
    changed = [each for each in replayed(folder / "log.jsonl", status=1)["lines"] if each["since"]]
    assert changed and {each["since"]["text"] for each in changed} == {"text changed"}
    assert {each["verdict"] for each in changed} == {"differs"}


def test_a_trial_that_hung_is_limited_by_what_others_executed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[int | None] = []
    attempt = Runner.attempt

    def attempted(self: Runner, *words: Any) -> Any:
        budgets.append(self.budget)
        return attempt(self, *words)

    monkeypatch.setattr(Runner, "attempt", attempted)
    first, second = map(json.loads, (folder / "log.jsonl").read_text().splitlines()[:2])
    most = first["counters"]["thread_instructions"]
    second |= {"counters": None, "status": "failed", "reason": "instruction budget"}
    (folder / "log.jsonl").write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n")
    assert verdicts(replayed(folder / "log.jsonl", status=1)) == ["equal", "differs"]
    assert budgets == [64 * most] * 2


def test_code_only_compiles_and_says_so(folder: Path) -> None:
    found = replayed(folder / "log.jsonl", "--code")
    then = [line.trial.status for line in log_lines(folder / "log.jsonl") if line.trial]
    assert verdicts(found) == ["equal" if status == "compile" else "code equal" for status in then]


def test_a_trial_of_a_gpu_that_is_not_here_is_compiled_for_it_and_is_not_repeated(folder: Path) -> None:
    """Registers are then those of the driver, and no fact of the code that the compiler makes."""
    row = json.loads((folder / "log.jsonl").read_text().splitlines()[-1])
    row |= {"device": "NVIDIA H200", "driver": "13.0", "status": "measured", "times_us": [3.0] * 9, "counters": None}
    row["launches"][0]["registers"] = 99
    (folder / "log.jsonl").write_text(json.dumps(row) + "\n")
    log = folder / "log.jsonl"
    found = json.loads(command("replay", log, "--jobs", "0", "--json", "--device", "emulator", status=1))
    (line,) = found["lines"]
    assert line["verdict"] == "code equal" and line["reason"] == "not run: there is no NVIDIA H200 here"
    assert verdicts(replayed(log, "--device", "emulator", "--code")) == ["code equal"]


def test_trials_that_no_example_made_are_compiled_from_their_requests(folder: Path, tmp_path: Path) -> None:
    """As those of benchmarks/regret.py."""
    (given,) = [each for each in Log(folder / "log.jsonl").trials.values() if each.choices == {"swizzle.b": "none"}]
    program, place = load(folder / "turn.tile"), find_place("emulator")
    facts: Any = given  # has call, options, types and dims, as the facts of a call
    about: dict[str, Any] = {"example": None, "index": 0, "values": {"operation": "turn"}, "steps": given.steps}
    trial = blank_trial(program, place, facts, 0, [], choices=given.choices, launches=given.launches, **about)
    trial.status, trial.requests = "counted", given.requests
    assert trial.requests and isinstance(trial.requests[0], CostFacts)
    made = Log(tmp_path / "own.jsonl")
    made.add(trial)
    (line,) = replayed(made.path, status=1)["lines"]
    assert line["verdict"] == "code equal" and "no example" in line["reason"]
    trial.launches[0].ptx = "0" * 16
    made.add(trial)
    assert [*map(names, replayed(made.path, status=1)["lines"])] == [[], ["ptx"]]


# ---- times ----


@pytest.fixture
def timed(scale: Path, timer: Timer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of times, of which a `Timer` decides."""
    monkeypatch.setattr(replay, "prepared", lambda ready: ready)
    command("tune", scale, *ON, "--log", scale.with_name("log.jsonl"), "--budget", 6)
    return scale.with_name("log.jsonl")


def test_times_within_their_intervals_are_equal(timed: Path, timer: Timer) -> None:
    before = len(timer.rounds)
    found = replayed(timed)
    lines = [*log_lines(timed)]
    assert {*verdicts(found)} == {"equal"}
    assert all(("median_us" in each["now"]) == ("median_us" in each["then"]) for each in found["lines"])
    contests = {line.trial.contest for line in lines if line.trial and line.trial.contest}
    assert len(timer.rounds) - before == len(contests)  # what was timed together is timed together again
    assert sum(count for count, _ in timer.rounds[before:]) == sum(bool(line.trial.times_us) for line in lines)


def test_a_slower_device_does_not_differ_relative_to_its_reference(timed: Path, timer: Timer) -> None:
    timer.slowness = 1.5
    lines = replayed(timed, status=1)["lines"]
    differ = [each for each in lines if each["verdict"] == "differs"]
    assert 0 < len(differ) < len(lines) and {tuple(names(each)) for each in differ} == {("time",)}
    base = {line.trial.reference_us for line in log_lines(timed) if line.trial}
    assert all(any(abs(each["then"]["median_us"] - us) < 0.001 for us in base) for each in differ)


def test_a_point_that_has_become_slower_differs(timed: Path, timer: Timer) -> None:
    usual = timer.mean
    timer.mean = lambda constants: usual(constants) * (1.2 if constants["BLOCK"] == 512 else 1)
    lines = replayed(timed, status=1)["lines"]
    slow = [line.trial.steps[0]["constants"]["BLOCK"] == 512 for line in log_lines(timed) if line.trial]
    assert any(slow) and [each["verdict"] == "differs" for each in lines] == slow
    (difference,) = next(each for each in lines if each["verdict"] == "differs")["differences"]
    assert difference["name"] == "time" and " us (" in difference["then"] and "chance" in difference["why"][0]


# ---- bundles ----


def test_a_bundle_repeats_the_log_where_none_of_its_files_is(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "paper.zip"
    text = command("replay", "log.jsonl", "--jobs", 0, "--bundle", packed)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.move(packed, elsewhere)
    shutil.rmtree(folder / "parts")
    for each in folder.iterdir():
        each.unlink()
    monkeypatch.chdir(elsewhere)
    again = command("replay", "paper.zip", "--jobs", 0)
    assert again == text.replace(f"  7 files in {packed}\n", "") and "equal" in again
    with zipfile.ZipFile("paper.zip") as made:
        contents = {name: made.read(name).decode() for name in made.namelist()}
    assert contents.keys() == {
        *("README.md", "bundle.json", "log.jsonl", "requirements.txt"),
        *("texts/0/tiny.tile", "texts/0/parts/two.tile", "texts/1/turn.tile"),
    }
    assert "dsl replay paper.zip" in contents["README.md"] and "equal" in contents["README.md"]
    assert f"numpy=={provenance.versions()['numpy']}" in contents["requirements.txt"]


def test_equal_logs_make_equal_bundles(folder: Path) -> None:
    for name in ("a.zip", "b.zip"):
        command("replay", "log.jsonl", "--jobs", 0, "--code", "--line", 1, "--bundle", name)
        (folder / name).rename(folder / f"{name}.kept")
    first, second = (zipfile.ZipFile(folder / f"{name}.zip.kept") for name in "ab")
    assert [each.CRC for each in first.infolist() if each.filename != "README.md"] == [
        each.CRC for each in second.infolist() if each.filename != "README.md"
    ]


@pytest.fixture
def plugged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A log of a plug-in's choice, in a folder with the plug-in."""
    folder = tmp_path / "plugged"
    folder.mkdir()
    for name in ("rows.tile", "fewer_shuffles.py"):
        shutil.copy(PLUGINS / name, folder)
    monkeypatch.chdir(folder)
    words = ["--choose", "vector.x.load=eight_lanes", "--plugin", "fewer_shuffles.py", "--log", "log.jsonl"]
    command("tune", "rows.tile", *ON, *words)
    yield folder


def test_plugins_are_found_again_and_packed(plugged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = replayed(Path("log.jsonl"), "--bundle", "paper.zip")
    assert {*verdicts(found)} == {"equal"}
    (plugged / "fewer_shuffles.py").rename(tmp_path / "fewer_shuffles.py")
    (line, *_) = replayed(Path("log.jsonl"), status=1)["lines"]
    assert line["verdict"] == "not made" and "fewer_shuffles.py" in line["reason"]
    given = tmp_path / "fewer_shuffles.py"
    assert {*verdicts(replayed(Path("log.jsonl"), "--plugin", given))} == {"equal"}
    assert {*verdicts(replayed(Path("paper.zip")))} == {"equal"}
    given.write_text(given.read_text() + "\n# changed\n")
    (line, *_) = replayed(Path("log.jsonl"), "--plugin", given)["lines"]
    assert line["since"] == {"plugin fewer_shuffles.py": "plugin fewer_shuffles.py changed"}


def test_handwritten_code_is_replayed_and_packed(folder: Path) -> None:
    command("compile", "turn.tile", "--emit", "ptx", "-o", "k.ptx")
    command("tune", "turn.tile", *ON, "--from", "k.ptx", "--log", "own.jsonl")
    found = replayed(Path("own.jsonl"), "--bundle", "own.zip")
    assert verdicts(found) == ["equal", "equal"]
    Path("k.ptx").write_text(Path("k.ptx").read_text().replace("ex2.approx.ftz.f32", "ex2.approx.f32") + "\n// other\n")
    lines = replayed(Path("own.jsonl"), status=1)["lines"]
    assert [each["since"] for each in lines if each["since"]] == [{"from": "handwritten code changed"}]
    assert verdicts(replayed(Path("own.zip"))) == ["equal", "equal"]


@pytest.mark.parametrize(
    "contents", [{}, {"bundle.json": "{"}, {"bundle.json": '{"schema": 9}'}, {"bundle.json": '{"files": {"a": 3}}'}]
)
def test_a_zip_that_is_no_bundle_is_an_error(tmp_path: Path, contents: dict[str, str]) -> None:
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("x", "")
        for name, text in contents.items():
            made.writestr(name, text)
    command("replay", path, status=2)


def test_a_bundle_reaches_nothing_outside_of_it(folder: Path, tmp_path: Path) -> None:
    """Neither by names in the zip file, nor by those in its table of files."""
    command("replay", "log.jsonl", "--jobs", 0, "--code", "--line", 1, "--bundle", "paper.zip")
    secret = tmp_path / "secret.tile"
    secret.write_text(TINY)
    with zipfile.ZipFile("paper.zip") as old, zipfile.ZipFile("evil.zip", "w") as made:
        made.writestr("../../evil.tile", TINY)
        for name in old.namelist():
            text = old.read(name).decode()
            made.writestr(name, text.replace("texts/0/tiny.tile", str(secret)) if name == "bundle.json" else text)
    unpacked = tmp_path / "a" / "b"
    log, files = unpack(Path("evil.zip"), unpacked)
    assert not (tmp_path / "evil.tile").exists() and (unpacked / "evil.tile").exists()
    trial = next(line.trial for line in log_lines(log))
    assert trial is not None
    with pytest.raises(TileError, match="outside"):
        files.file(trial)
    (line,) = replayed(Path("evil.zip"), status=1)["lines"]
    assert line["verdict"] == "not made" and "outside" in line["reason"]


def test_the_locked_versions_are_those_of_the_log(folder: Path) -> None:
    trial = next(iter(Log(folder / "log.jsonl").trials.values()))
    trial.versions |= {"numpy": "1.2.3", "python": "3.99"}
    text = locked_versions([trial])
    assert "numpy==1.2.3\n" in text and "# python 3.99\n" in text
    assert {"msgspec", "lark", "click", "markdown-it-py"} <= {line.partition("==")[0] for line in text.splitlines()}


def test_arrays_are_kept_only_while_a_line_needs_them(folder: Path) -> None:
    lines = [*log_lines(folder / "log.jsonl")]
    made = Replay(FilesOfLog(folder / "log.jsonl"), ReplaySettings())
    found = made.run(lines)
    assert all(each.verdict == "equal" for each in found) and not made.cases


@pytest.mark.parametrize("words", [["--line", "99"], ["--device", "cuda:77"]])
def test_wrong_options_are_errors(folder: Path, words: list[str]) -> None:
    row = json.loads((folder / "log.jsonl").read_text().splitlines()[0]) | {"device": "NVIDIA H200"}
    (folder / "gpu.jsonl").write_text(json.dumps(row) + "\n")
    found = CliRunner().invoke(cli, ["replay", "gpu.jsonl", "--jobs", "0", *words], standalone_mode=False)
    assert found.return_value in (2, 3) and not found.stdout and "error[" in found.stderr


def test_an_empty_or_missing_log_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    command("replay", tmp_path / "empty.jsonl", status=2)
    command("replay", tmp_path / "none.jsonl", status=2)
