"""`dsl ablate`: which rows it has, that wrong and racing ones keep their counters, and that what is told of times is
right: intervals cover, and what has no effect is not told apart."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from lab_kernel import TURN, experiment, written
from msgspec.structs import replace

from dsl.command import cli
from dsl.lab.ablate import AblationChoice, ablate, flips_of, row_as_json
from dsl.lab.assignments import check_asked
from dsl.lab.bisect import joined, plain
from dsl.lab.contest import differing, ratio_interval, sign_probability
from dsl.lab.experiment import Experiment, Wanted
from dsl.lab.place import TuningPlace
from dsl.lab.shapley import shapley
from dsl.lab.trial import Log, Trial
from dsl.lowering.ir.location import TileError
from dsl.runtime.emulator import Finding, Kind


def dsl(*arguments: Any) -> Result:
    result = CliRunner().invoke(cli, [str(a) for a in arguments], standalone_mode=False)
    assert result.exception is None, result.exception
    result.exit_code = result.return_value
    return result


def told(path: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    """The rows of the one launch by name."""
    result = dsl("ablate", path, "--device", "emulator", "--jobs", "0", "--json", *arguments)
    assert result.exit_code == 0, result.stderr
    (launch,) = json.loads(result.stdout)["launches"]
    return {row["name"]: row for row in launch["rows"]}


@pytest.fixture(scope="module")
def turn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file, whose code is assembled once for all tests."""
    return written(tmp_path_factory.mktemp("turn"))


# ---- which rows ----


def test_each_group_is_flipped_to_each_other_right_option(turn: Path) -> None:
    rows = told(turn, "--kinds", "swizzle,barrier,math")
    assert [*rows] == [
        "as chosen",
        "math.exp → exact",
        *(f"swizzle.a → {option}" for option in ("3, 4, 3", "2, 4, 3", "1, 4, 3")),
        *(f"swizzle.b → {option}" for option in ("none", "3, 4, 3", "2, 4, 3", "1, 4, 3")),
    ]
    base, none = rows["as chosen"], rows["swizzle.b → none"]
    assert base["wavefronts"] == 128 and base["conflicts"] == 0 and none["wavefronts"] == 352
    assert none["sass"] < base["sass"] and none["choose"] == {"swizzle.b": "none"}
    assert rows["math.exp → exact"]["work"] > 2 * base["work"]
    assert {row["result"] for row in rows.values()} == {"right"}


def test_a_ceiling_has_what_may_be_wrong_beside_its_counters(turn: Path) -> None:
    rows = told(turn, "--kinds", "barrier", "--ceiling")
    assert [*rows] == ["as chosen", "barrier.b.load → none"]
    row = rows["barrier.b.load → none"]
    assert row["ceiling"] and row["result"] == "race" and "(line 9)" in row["reason"]
    assert row["barriers"] == 0 < rows["as chosen"]["barriers"] and row["work"] < rows["as chosen"]["work"]
    assert dsl("ablate", turn, "--device", "emulator", "--kinds", "barrier", "--ceiling", "--jobs", "0").exit_code == 0


def test_a_right_option_that_gives_a_wrong_result_is_a_failure(turn: Path) -> None:
    """An option that is not marked although it races."""
    made = experiment(turn)
    for _, choice in made.made:
        choice.unsafe = ()
    with made:
        found = ablate(made, AblationChoice(kinds=("barrier",)), lambda _: None)
    assert [flip.trial.verdict for flip in found.flips] == ["race"] and found.is_broken


def test_choices_of_one_subject_go_together_unless_each_is_asked_for(tmp_path: Path) -> None:
    twice = TURN.replace(
        "    b[0 : T, 0 : T] = v\n", "    w = load(a[T - T : T, 0 : T])\n    b[0 : T, 0 : T] = v + w\n"
    )
    made = experiment(written(tmp_path, twice))
    labels = {label for label, *_ in flips_of(made, AblationChoice(kinds=("address",)))}
    assert {"address.a.load ×2", "address.b.load"} <= labels
    labels = {label for label, *_ in flips_of(made, AblationChoice(kinds=("address",), each=True))}
    assert {"address.a.load[0]", "address.a.load[1]", "address.b.load"} <= labels
    labels = {label for label, *_ in flips_of(made, AblationChoice(keys=("address.a.load[1]",)))}
    assert labels == {"address.a.load[1]"}


def test_what_a_schedule_says_is_a_row(tmp_path: Path) -> None:
    """A directive, a choice that a narrower key pins, and what the command line forces."""
    pinned = written(
        tmp_path, TURN.replace("    math exp: fast\n", "    math exp: fast\n    choose vector.b.load[0]: 2\n")
    )
    rows = told(pinned, "--choice", "vector.b.load", "--choice", "math", "--choose", "swizzle.b=none")
    assert rows["vector.b.load → 4"]["choose"] == {"vector.b.load": "4", "vector.b.load[0]": "4"}
    assert rows["vector.b.load → 4"]["sectors"] < rows["as chosen"]["sectors"]
    assert "math.exp → exact" in rows and not rows["math.exp → exact"]["same_code"]


def test_equal_code_is_run_once_and_other_choices_that_move_are_named(turn: Path) -> None:
    rows = told(turn, "--choice", "pass.peel", "--choice", "vector.a.load", "--choice", "divisor")
    assert rows["pass.peel → off"]["same_code"] and rows["divisor.n → 8"]["same_code"]
    assert {*rows["vector.a.load → 1"]["moved"]} == {"swizzle.b", "barrier.a.load"}
    made = experiment(turn)
    first, second = made.trial({}), made.trial({"pass.peel": "off"})
    assert made.is_same(first, second) and first.counters is second.counters


def test_what_is_refused_is_told_in_its_row(tmp_path: Path) -> None:
    """A kernel that can do with no other layout."""
    made = experiment(written(tmp_path), wanted=Wanted("none", run=False))
    trial = made.trial({"vector.x.load": "4"})
    assert trial.verdict == "not run" and trial.counters is None
    error = "error[layout]: no"
    refused = replace(trial, status="compile", reason=error)
    assert row_as_json("x", refused)["result"] == "refused" and refused.figures()["result"] == "refused"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--kinds", "swizle"], "did you mean 'swizzle'"),
        (["--choice", "swizzle.c"], "no choice has the key 'swizzle.c'"),
        (["--choose", "swizzle.b=9"], "has no option '9'"),
        (["--plot", "x.mp3"], "is no picture"),
        (["--schedule", "none"], "has no schedule 'none'"),
        (["m=3"], "m"),
    ],
)
def test_what_cannot_be_ablated_is_told(turn: Path, arguments: list[str], says: str) -> None:
    result = dsl("ablate", turn, "--device", "emulator", "--jobs", "0", *arguments)
    assert result.exit_code == 2 and says in result.stderr


def test_an_example_that_fails_as_it_is_has_no_table(tmp_path: Path) -> None:
    path = written(tmp_path, TURN.replace("x[i : i + T, j : j + T])", "flat(x)[arange(T)[None, :] * 999 + i])"))
    result = dsl("ablate", path, "--device", "emulator", "--jobs", "0")
    assert result.exit_code == 3 and "out of bounds" in result.stderr and not result.stdout


def test_keys_are_asked_of_all_launches() -> None:
    with pytest.raises(TileError, match="no choice has the kind 'swizzle'"):
        check_asked([], ["swizzle"], [])


def test_the_table_and_the_picture(turn: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = turn.with_suffix(".png")
    result = dsl("ablate", turn, "--device", "emulator", "--jobs", "0", "--kinds", "swizzle,hoist", "--plot", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    line = next(line for line in result.stdout.splitlines() if line.startswith("swizzle.b → none"))
    verdict, registers, spills, sass, wavefronts, sectors, barriers, work = line.split()[3:]
    assert (verdict, spills, wavefronts, sectors, barriers) == ("right", "=", "352", "=", "=")
    assert all(figure.isdigit() for figure in (registers, sass, work))
    assert "the same code (2): hoist.thread → shuffled, hoist.thread → head" in result.stdout


def test_each_trial_is_a_line_of_the_log(turn: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    told(turn, "--kinds", "swizzle", "--log", str(log))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) == 8 and lines[0]["choices"] == {} and lines[4]["choices"] == {"swizzle.b": "none"}
    assert lines[4]["by_line"]["8"]["shared_wavefronts"] == 256 > lines[0]["by_line"]["8"]["shared_wavefronts"]
    assert lines[0]["launches"][0]["registers"] and lines[0]["launches"][0]["instructions"]
    read = Log(log)
    assert len(read.trials) == 8 and not read.unread
    assert {"source", "device", "driver", "versions", "dims", "types", "call"} <= lines[0].keys()


# ---- mean gains ----


def test_gains_add_up_to_the_whole_and_tell_what_two_do_together(turn: Path) -> None:
    """A swizzle is worth something only if accesses are wide: alone it is flipped for nothing from plain."""
    made = experiment(turn)
    keys = ("swizzle.b", "vector.a.load", "math.exp", "pass.peel")
    found = shapley(made, "wavefronts", 6, (), keys, lambda _: None)
    gains = {share.decision.label: share.gains for share in found.shares}
    ends = [made.trial(joined(plain(made, (), keys))), made.trial({})]
    assert found.whole == ends[0].figures()["wavefronts"] - ends[1].figures()["wavefronts"] > 0
    assert sum(share.mean for share in found.shares) == pytest.approx(found.whole) and found.orders == 6
    assert set(gains["math.exp"]) == set(gains["pass.peel"]) == {0} and len(set(gains["swizzle.b"])) > 1
    rows = {row["group"]: row for row in found.rows(0)}
    low, high = rows["vector.a.load"]["interval"]
    assert 0 < low <= rows["vector.a.load"]["gain"] <= high


def test_the_command_for_gains(turn: Path) -> None:
    arguments = ["ablate", turn, "--device", "emulator", "--shapley", "2", "--by", "sectors", "--kinds", "vector,math"]
    result = dsl(*arguments)
    assert result.exit_code == 0 and "nothing in any order" in result.stdout and "vector.b.load" in result.stdout
    for more, says in (
        (["--by", "sektors"], "did you mean 'sectors'"),
        (["--by", "time"], "gains of 'time' cannot be added up here"),
        (["--each"], "--shapley and --each exclude each other"),
        (["--launch", "2"], "launch 2 is none of this example's 1"),
    ):
        assert says in dsl(*arguments, *more).stderr


# ---- what is told of times ----


def contest(random: Random, effect: float, rounds: int = 56) -> tuple[list[float], list[float]]:
    """Times of a launch and of the chosen one in turns: clocks drift, noise has a long tail."""
    mine, base, clock = [], [], 1.0
    for _ in range(rounds):
        clock *= 1 + random.gauss(0, 0.01)

        def time(factor: float, clock: float = clock) -> float:
            late = random.expovariate(1) * 0.02 if random.random() < 0.2 else 0.0
            return 50 * clock * factor * (1 + random.gauss(0, 0.004) + late)

        mine.append(time(effect))
        base.append(time(1.0))
    return mine, base


def test_intervals_of_ratios_cover_what_is_true() -> None:
    random = Random(3)
    for effect in (1.0, 0.97, 1.01):
        inside = 0
        for _ in range(400):
            _, low, high = ratio_interval(*contest(random, effect))
            inside += low <= effect <= high
        assert 0.93 <= inside / 400 <= 0.995, (effect, inside)


def test_pairs_tell_what_drifting_times_apart_do_not() -> None:
    """An effect of 1 % under clocks that drift by 7 %."""
    from dsl.lab.contest import median_interval

    mine, base = contest(Random(4), 1.01)
    _, low, _ = ratio_interval(mine, base)
    assert low > 1 and median_interval(mine)[1] < median_interval(base)[2]


def test_among_rows_without_effect_hardly_any_table_has_a_false_alarm() -> None:
    random, alarms, alone = Random(5), 0, 0
    for _ in range(200):
        found = {row: sign_probability(*contest(random, 1.0, 30)) for row in range(20)}
        alarms += bool(differing(found))
        alone += min(found.values()) < 0.05
    assert alarms <= 18 and alone > 80  # 5 % of 200 are 10; without Holm more than four in ten tables have one


def test_effects_are_told_among_rows_without() -> None:
    random = Random(6)
    times = {row: contest(random, 1.02 if row < 3 else 1.0) for row in range(30)}
    assert differing({row: sign_probability(*pair) for row, pair in times.items()}) == {0, 1, 2}
    assert sign_probability([1.0, 2.0], [1.0, 2.0]) == 1.0


# ---- on a GPU, and by counters ----

NULL = 20


def test_what_has_no_effect_counts_the_same(turn: Path) -> None:
    """The twin of the next one: twenty choices that leave the code leave every figure."""
    made = experiment(turn)
    names = [name for name, c in made.made if c.kind == "pass" and "swizzle" not in name and "barrier" not in name]
    base = made.trial({}).figures()
    assert len(names) >= 17 and all(made.trial({name: "off"}).figures() == base for name in names)


def test_the_first_blocks_of_a_launch_are_counted_for_all(turn: Path) -> None:
    """What stands beside the times of a GPU: 8 of 16 blocks, twice. The launch that is counted changes no array."""
    made = experiment(turn, "n=128")
    whole, part, racing = (made.trial({}), replace(made.blank), replace(made.blank))
    given = {name: array.copy() for name, array in made.runner.case().recorder.launched[0].given.items()}
    plan = made.plan({})
    assert made.runner.count(part, plan, made.compiler.made_plan(plan)) == []
    assert part.counters == whole.counters and part.counters["barriers"] == 16 * 4
    plan = made.plan({"barrier.b.load": "none"})
    assert (
        made.runner.count(racing, plan, made.compiler.made_plan(plan))[0].kind == "race"
        and racing.counters["barriers"] == 0
    )
    now = made.runner.case().recorder.launched[0].given
    assert whole.verdict == "right" and all((array == now[name]).all() for name, array in given.items())


def test_a_fault_of_the_first_blocks_is_not_launched(turn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As before a launch on a GPU: what waits for ever there, and not as chosen, would stop it."""
    made = experiment(turn, wanted=Wanted("none", times=True))
    made.place = SimpleNamespace(ordinal=0)  # type: ignore[assignment]
    launched: list[dict[str, str]] = []
    check, count = made.runner.check, made.runner.count

    def checked(trial: Trial, *rest: Any) -> None:
        launched.append(trial.choices)
        check(trial, *rest)

    def counted(trial: Trial, *rest: Any) -> list[Any]:
        count(trial, *rest)
        found = [Finding(Kind.DEADLOCK, "all wait")] if "hoist.thread" in trial.choices else []
        return [*found, Finding(Kind.TIME, "long")]

    monkeypatch.setattr(made.runner, "check", checked)
    monkeypatch.setattr(made.runner, "count", counted)
    stuck, fine = made.trial({"hoist.thread": "place"}), made.trial({"math.exp": "exact"})
    assert stuck.verdict == "failed" and stuck.reason == "deadlock: all wait" and stuck.counters
    assert fine.verdict == "right" and launched == [{}, {"math.exp": "exact"}]


@pytest.mark.gpu
def test_what_has_no_effect_is_not_told_apart_on_a_gpu(turn: Path) -> None:
    """Of 20 intervals at 95 %, more than 4 without 1 have a probability of 0.003; of the known effect all do."""
    result = dsl("ablate", turn, "n=4096", "--kinds", "math,index", "--null", str(NULL), "--json", "--device", "cuda")
    assert result.exit_code == 0, result.stderr
    (launch,) = json.loads(result.stdout)["launches"]
    assert len(launch["null_intervals"]) == NULL
    assert sum(not low <= 1 <= high for low, high in (one[1:] for one in launch["null_intervals"])) <= 4
    rows = {row["name"]: row for row in launch["rows"]}
    assert all(row["median_us"] > 0 and row["rounds"] == 56 for row in rows.values())


@pytest.mark.gpu
def test_a_known_effect_is_told_on_a_gpu(turn: Path) -> None:
    """Conflicts of eight ways where b is read."""
    result = dsl("ablate", turn, "n=4096", "--kinds", "vector", "--json", "--device", "cuda")
    rows = {row["name"]: row for row in json.loads(result.stdout)["launches"][0]["rows"]}
    row = rows["vector.b.load → 1"]
    assert row["differs"] and row["ratio_interval"][0] > 1


def test_a_contest_gives_rows_their_ratios(turn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock in place of the GPU's: `none` takes a tenth longer."""
    made = experiment(turn, wanted=Wanted("none", times=True))
    random = Random(7)

    def rounds(launches: list[Any], rounds: int, order: Random) -> list[list[float]]:
        clocks = [1 + random.gauss(0, 0.05) for _ in range(rounds)]
        slow = [1.1 if each == slowest else 1.0 for each in launches]
        return [[50 * c * factor * (1 + random.gauss(0, 0.002)) for c in clocks] for factor in slow]

    monkeypatch.setattr(Experiment, "is_timed", True)
    monkeypatch.setattr("dsl.lab.experiment.prepared", lambda ready: id(ready))
    monkeypatch.setattr(TuningPlace, "rounds", lambda self, *given: rounds(*given))
    slowest = -1
    from dsl.lab.ablate import compare

    found = ablate(made, AblationChoice(kinds=("swizzle", "pass")), lambda _: None)
    slowest = id(made.attempts[id(next(f.trial for f in found.flips if f.name == "swizzle.b → none"))].ready)
    compare(found, AblationChoice(null=5))
    rows = {flip.name: flip for flip in found.flips}
    assert rows["swizzle.b → none"].differs and rows["swizzle.b → none"].ratio[1] > 1.09  # type: ignore[index]
    others = [
        f for f in rows.values() if not f.is_same and f.name not in ("swizzle.b → none", "pass.swizzle_shared → off")
    ]
    assert others and not any(flip.differs for flip in others)
    assert rows["pass.swizzle_shared → off"].trial.times_us == rows["swizzle.b → none"].trial.times_us
    assert rows["pass.peel → off"].ratio is None and len(found.null) == 5
    assert len({flip.trial.contest for flip in rows.values() if not flip.is_same}) == 1
