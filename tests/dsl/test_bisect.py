"""`dsl bisect`: seeded decisions and seeded commits are found, what interacts is left over, what cannot be decided is
passed over and told."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result
from lab_kernel import committed, experiment, git, written
from msgspec import to_builtins
from msgspec.structs import replace

from dsl.command import cli
from dsl.lab.assignments import halve, reduced
from dsl.lab.bisect import bisect, given, joined, plain, reduce_decisions
from dsl.lab.experiment import Experiment
from dsl.lab.predicates import predicate
from dsl.lab.trial import read_trial
from dsl.lowering.ir.choices import drawn
from dsl.lowering.ir.location import TileError

ROOT = Path(__file__).parents[2]


def dsl(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, [str(a) for a in arguments], standalone_mode=False)
    assert result.exception is None, result.exception
    result.exit_code = result.return_value
    return result


# ---- halving and reducing ----


def test_halving_finds_each_place_and_passes_over_what_cannot_be_decided() -> None:
    for count in (1, 2, 13, 100):
        for place in range(1, count + 1):
            asked: list[int] = []
            border = halve(count, lambda at, place=place, asked=asked: asked.append(at) or at >= place, False)
            assert border == (place - 1, place) and len(asked) <= count.bit_length()
    unknown = {3, 4, 6}
    border = halve(8, lambda at: None if at in unknown else at >= 5, False)
    assert border == (2, 5)


@pytest.mark.parametrize("seed", range(20))
def test_reducing_leaves_what_interacts(seed: int) -> None:
    keys = [f"k{number}" for number in range(13)]
    pair = set(Random(seed).sample(keys, 2))
    asked = []

    def still(some: dict[str, str]) -> bool:
        asked.append(some)
        return pair <= some.keys()

    assert reduced(dict.fromkeys(keys, "x"), still).keys() == pair and len(asked) < 60


# ---- decisions ----

CALM = ("index", "hoist", "level", "math", "address")
"""Kinds of choices that change none of the counters that are asked for."""
SEEDED = [
    ("barrier.b.load", "none", "result == right", (*CALM, "swizzle")),
    ("swizzle.b", "none", "wavefronts <= 200", CALM),
    ("math.exp", "exact", "work < 700", ("index", "hoist", "level")),
    ("vector.b.load", "1", "sectors <= 400", (*CALM, "swizzle")),
    ("vector.a.load", "1", "wavefronts <= 1000", CALM),
]


@pytest.fixture(scope="module")
def turn(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return experiment(written(tmp_path_factory.mktemp("turn")))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("key", "option", "until", "others"), SEEDED, ids=[row[0] for row in SEEDED])
def test_a_seeded_decision_is_found(
    turn: Experiment, key: str, option: str, until: str, others: tuple[str, ...], seed: int
) -> None:
    """Among other options of the choices that do not matter for what is asked."""
    pool = {name: c for name, c in turn.made if c.kind in others and name != key}
    start = {**drawn(pool, Random(seed), 0.8), key: option}
    assert len(start) > 1
    made = bisect(turn, given(turn, start), predicate(until), lambda _: None)
    assert [each.label for each in made.found] == [key] and not made.holds_at_start
    assert made.trials <= 2 + len(start).bit_length()


def test_two_that_interact_are_left_of_thirteen(turn: Experiment) -> None:
    pool = [(name, c) for name, c in turn.made if c.kind in (*CALM, "swizzle", "access") and len(c.options) > 1]
    others = {name: next(o for o in c.options if o != c.taken) for name, c in pool[:12]}
    start = {**others, "math.exp": "exact", "barrier.b.load": "none"}
    asked = predicate("result == race and work > 700")
    assert len(start) == 13 and asked.holds(turn.trial(start).figures())
    decisions = given(turn, start)
    made = bisect(turn, decisions, asked, lambda _: None, reduce=True)
    assert made.needed is not None
    assert asked.holds(turn.trial(joined(made.needed)).figures())
    assert len(made.needed) == 2 and {each.label for each in made.needed} >= {"barrier.b.load"}


def test_plain_is_every_choice_as_someone_who_knows_nothing_takes_it(turn: Experiment) -> None:
    start = joined(plain(turn))
    assert start["index.bits"] == "64" and start["math.exp"] == "exact" and start["level.llvm"] == "0"
    assert start["pass.swizzle_shared"] == "off" and start["vector.x.load"] == "1"
    assert start["swizzle.b"] == "none" and "barrier.b.load" not in start
    assert "pass.insert_barriers" not in start and "place.shared" in start
    assert turn.trial(start).verdict == "right"


def test_reducing_decisions_keeps_their_order(turn: Experiment) -> None:
    decisions = plain(turn)
    left = reduce_decisions(decisions, lambda some: {"index.bits", "level.llvm"} <= {one.label for one in some})
    assert [each.label for each in left] == ["index.bits", "level.llvm"]


@pytest.mark.parametrize(
    ("until", "says"),
    [
        ("registers", "does not compare a figure"),
        ("register <= 5", "did you mean 'registers'"),
        ("registers <= few", "'few' is not a number"),
        ("result <= right", "is not a condition on a result"),
        ("result == fine", "right | not run"),
        ("sectors <= 1 and", "does not compare a figure"),
    ],
)
def test_a_predicate_that_asks_nothing_is_an_error(until: str, says: str) -> None:
    with pytest.raises(TileError) as caught:
        predicate(until)
    assert says in f"{caught.value}"


def test_a_predicate_of_an_interval_is_decided_by_all_of_it() -> None:
    asked = predicate("ratio <= 1.05 and result == right")
    figures = {"result": "right", "ratio": (1.04, 1.03, 1.049)}
    assert asked.holds(figures) and asked.is_timed
    assert asked.holds({**figures, "ratio": (1.04, 1.03, 1.06)}) is None
    assert asked.holds({**figures, "ratio": (1.07, 1.06, 1.08)}) is False
    assert asked.holds({"result": "wrong"}) is False and asked.holds({"result": "right"}) is None


def test_a_trial_that_is_not_to_be_timed_is_a_line_of_a_log(turn: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is right on a GPU is `measured`, for which a log's line needs times."""
    monkeypatch.setattr(turn.runner, "attempt", lambda *_: None)
    trial = replace(turn.blank)
    assert trial.status == "measured"
    turn.run(trial, turn.plan({}), [])
    assert read_trial(json.dumps(to_builtins(trial))) == trial


def test_the_command_tells_the_choice(tmp_path: Path) -> None:
    path, log = written(tmp_path), tmp_path / "log.jsonl"
    start = ["--from", "index.bits=64", "--from", "swizzle.b=none", "--from", "level.llvm=0"]
    result = dsl("bisect", path, "--until", "wavefronts <= 200", *start, "--reduce", "--log", str(log))
    assert result.exit_code == 0 and "swizzle.b: none → 3, 4, 5\n" in result.stdout
    assert "what the start's answer needs, 1 of 3:\n  swizzle.b=none" in result.stdout
    logged = [json.loads(line)["choices"] for line in log.read_text().splitlines()]
    line = 1 + [len(each) for each in logged].index(3)  # the first one is as chosen on a GPU, which shows what is usual
    told = json.loads(dsl("bisect", path, "--until", "wavefronts <= 200", "--from", f"{log}:{line}", "--json").stdout)
    assert told.get("choices") == 3, told
    assert [one["label"] for one in told["found"]] == ["swizzle.b"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--until", "sectors > 1"], "holds at both ends"),
        (["--until", "time < 1"], "without a GPU there are no times"),
        (["--until", "sectors > 1", "--from", "nothing.jsonl"], "cannot read nothing.jsonl"),
        (["--until", "sectors > 1", "--from", "plain", "--from", "a.b=c"], "--from plain stands alone"),
        (["--until", "sectors > 1", "--from", "turn.tile"], "this line is not a trial"),
        (["--until", "sectors > 1", "--bad", "HEAD"], "--bad needs a commit to start from"),
        (["--until", "sectors > 1", "--good", "HEAD", "--reduce"], "--reduce is for choices"),
        (["--until", "sectors > 1", "--good", "HEAD"], "not a git repository"),
    ],
)
def test_what_cannot_be_bisected_is_told(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = dsl("bisect", "turn.tile", "--device", "emulator", *arguments)
    assert result.exit_code == 2 and says in result.stderr


# ---- commits ----

STUB = """\
import json, sys
from pathlib import Path
tree = Path(__file__).parents[1]
if sys.argv[1] == "why":
    taken = (tree / "taken").read_text()
    row = {"keys": ["swizzle.s"], "taken": taken}
    print(json.dumps({"kernels": [{"kernel": "k with s", "choices": [row]}]}))
else:
    print((tree / "said").read_text())
"""
"""A compiler whose answers lie in its tree."""


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_a_seeded_bad_commit_is_found_and_its_choice_named(tmp_path: Path, seed: int) -> None:
    """Each commit is asked of its own tree's compiler; some of them do not run."""
    bad, broken = Random(seed).randrange(1, 9), Random(seed).randrange(1, 9)
    package = tmp_path / "dsl"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(STUB)
    git(tmp_path, "init", "-q")
    for number in range(9):
        conflicts = 7 if number >= bad else 0
        said = {"passed": True, "counters": {"bank_conflicts": conflicts, "instructions": 5 + number}}
        refused = {"error": "error[syntax]: no", "errors": [{"code": "syntax"}], "status": 2}
        is_broken = seed % 3 == 0 and number == broken != bad and broken not in (bad - 1, 8)
        (tmp_path / "said").write_text(json.dumps(refused if is_broken else said))
        (tmp_path / "taken").write_text("none" if number >= bad else "3, 4, 3")
        written(tmp_path)
        committed(tmp_path, f"change {number}")
    result = dsl("bisect", tmp_path / "turn.tile", "--until", "conflicts == 0", "--good", "HEAD~8", "--json")
    told = json.loads(result.stdout)
    assert [subject for _, subject in told["found"]] == [f"change {bad}"], told
    assert told["choices"] == {"swizzle.s": ["3, 4, 3", "none"]} and told["trials"] <= 6
    assert told["before"]["conflicts"] == 0 and told["after"]["conflicts"] == 7
    assert len(git(tmp_path, "worktree", "list").splitlines()) == 1


def test_a_change_of_the_compiler_is_found_by_its_choice(tmp_path: Path) -> None:
    """A copy of the compiler, in which another rule takes narrower accesses."""
    shutil.copytree(ROOT / "dsl", tmp_path / "dsl", ignore=shutil.ignore_patterns("__pycache__"))
    written(tmp_path)
    git(tmp_path, "init", "-q")
    committed(tmp_path, "as it is")
    choices = tmp_path / "dsl" / "lowering" / "ir" / "choices.py"
    said = "taken, by = rule, RULE if pinned is None else str(pinned)\n"
    assert said in choices.read_text()
    worse = said + '        if stem == "vector.b.load":\n            taken = "1"\n'
    choices.write_text(choices.read_text().replace(said, worse))
    committed(tmp_path, "seeded")
    (tmp_path / "more").touch()
    committed(tmp_path, "harmless")
    asked = ("--until", "sectors <= 400", "--good", "HEAD~2", "--device", "emulator")
    result = dsl("bisect", tmp_path / "turn.tile", *asked)
    assert result.exit_code == 0, result.stderr
    assert " seeded\n" in result.stdout and "vector.b.load: 4 → 1" in result.stdout
    assert "no longer holds from here on, after 3 runs" in result.stdout
