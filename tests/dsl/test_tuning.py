"""`dsl tune`: what is tried, thrown out, measured, logged and written; and that calls take what was written."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace
from tuned_kernel import Here

import dsl as face
from dsl.calls.planner import Planner
from dsl.calls.tuned import Entry, StepChoice, Tuned, stale_errors, text_digest
from dsl.calls.tuned_file import read_tuned
from dsl.command import cli
from dsl.examples.overrides import Overrides
from dsl.lab import compiling, contest, tuning
from dsl.lab import trial as trials
from dsl.lab.place import TuningPlace
from dsl.lab.space import SpaceChoice, calls, candidates, cases
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import target
from dsl.text.files import tuned_path
from dsl.text.program import Program, load
from dsl.values.facts import ArrayFacts

DOUBLE = """\
kernel double(y: T[n], x: T[n]; T in f32|f16, BLOCK, SKEW = 0, IDLE = 0):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    v = load(x[i : i + BLOCK]).to(f32)
    store(y[i : i + BLOCK], (v + v + SKEW).to(T))

schedule few of double:
    tune warps in 2, 1
    tune BLOCK in warps * 32, warps * 64

schedule many of double:
    tune warps in 8, 4
    BLOCK = warps * 32

dispatch twice(y, x):
    option MANY in false, true
    if MANY: double with many
    elif n >= 1024: double with few, IDLE=1
    else: double with few

example:
    n = 300
    x = randn(T[n])
    y = empty(T[n])
    twice(y, x)
    expect y ~= x + x within 0
    moves bytes(x) + bytes(y)
"""
GPU = "NVIDIA H200"
EMULATED = "emulated H200"
PLACE = TuningPlace("emulator", EMULATED, "sm_90", 132)


@pytest.fixture
def double(in_processes: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file, compiled in this process."""
    monkeypatch.setattr(compiling, "ProcessPoolExecutor", Here)
    return in_processes


@pytest.fixture
def in_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file, in a folder of its own, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "double.tile"
    path.write_text(DOUBLE)
    return path


def dsl(*arguments: Any) -> Result:
    result = CliRunner().invoke(cli, [str(a) for a in arguments], standalone_mode=False)
    if isinstance(result.exception, click.ClickException):
        result.exit_code = result.exception.exit_code
    else:
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        if isinstance(result.return_value, int):
            result.exit_code = result.return_value
    return result


def tuned_json(*arguments: Any) -> Any:
    """The first outcome of `dsl tune --json` on the emulator."""
    result = dsl("tune", *arguments, "--emulator", "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["outcomes"][0]


def points(path: Path, *given: str, **choice: Any) -> list[dict[str, Any]]:
    """The constants of the candidates of the first launch, in the order of the file."""
    program = load(path)
    (overrides, *_), domains = cases(program, program.examples[0], given)
    call = calls(program, program.examples[0], overrides, PLACE)[0]
    found = candidates(call, SpaceChoice(domains, **choice))
    return [{"schedule": c.steps[0].schedule, **c.steps[0].constants} for c in found]


# ---- what is tried ----


def test_points_are_all_combinations_and_sets_may_depend_on_sets_before(double: Path) -> None:
    assert points(double) == [
        {"schedule": "few", "warps": 2, "BLOCK": 64},
        {"schedule": "few", "warps": 2, "BLOCK": 128},
        {"schedule": "few", "warps": 1, "BLOCK": 32},
        {"schedule": "few", "warps": 1, "BLOCK": 64},
    ]


def test_values_given_take_the_place_of_a_set_or_make_one(double: Path) -> None:
    assert [p["warps"] for p in points(double, "warps=8,4,8")] == [8, 8, 4, 4]
    assert [p["BLOCK"] for p in points(double, "BLOCK=256")] == [256, 256]
    assert [(p["IDLE"], p["warps"]) for p in points(double, "IDLE=3,4", "BLOCK=64")] == [(3, 2), (3, 1), (4, 2), (4, 1)]


def test_lists_of_dims_and_types_are_cases(double: Path) -> None:
    program = load(double)
    found, domains = cases(program, program.examples[0], ["n=1,2", "T=f16,f32", "MANY=true", "warps=2,4"])
    assert domains == {"warps": [2, 4]}
    pairs = [(o.names["n"], o.types["T"]) for o in found]
    assert pairs == [(1, "f16"), (1, "f32"), (2, "f16"), (2, "f32")]
    assert all(o.options == {"MANY": True} and not o.constants for o in found)


def test_all_tries_every_branch_but_options_are_the_callers(double: Path) -> None:
    with pytest.raises(TileError, match="'twice' has no schedule 'more'"):
        points(double, schedules=["more"])
    kinds = [(p["schedule"], p.get("IDLE")) for p in points(double, branches=True)]
    assert {schedule for schedule, _ in kinds} == {"few"}  # MANY is false: its branch is not wanted
    assert len(kinds) == 8  # `few` with and without IDLE=1 are two branches
    assert {p["schedule"] for p in points(double, "MANY=true", branches=True)} == {"many"}
    kernel = DOUBLE.replace("    twice(y, x)", "    double(y, x)")
    double.write_text(kernel)
    assert {p["schedule"] for p in points(double, branches=True)} == {"few", "many"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["colls=3"], "has no 'colls'"),
        (["--schedule", "fwe"], "has no schedule 'fwe'"),
        (["--schedule", "few", "--all"], "exclude each other"),
        (["--write"], "without a GPU there are no times"),
        (["--for", "rows=1:"], "there is no dim 'rows'"),
        (["--for", "n=big"], "is not NAME=LOW:HIGH"),
        (["--example", "x"], "no example 'x'"),
        (["--arch", "sm_90a", "--emulator", "--write"], "--arch and --write exclude each other"),
        (["--arch", "sm_20"], "unknown target 'sm_20'"),
    ],
)
def test_wrong_arguments_are_errors(double: Path, arguments: list[str], says: str) -> None:
    result = dsl("tune", double, "--device", "emulator", *arguments)
    assert result.exit_code == 2 and says in result.stderr


def test_targets_have_trials_of_their_own(double: Path) -> None:
    """One emulated device runs kernels of several targets, and a trial of one stood for the other."""
    log = double.parent / "log.jsonl"
    log.write_text("")
    for arch, device in (("sm_90", EMULATED), ("sm_90a", EMULATED), ("sm_80", "emulated A100")):
        before = len(log.read_text().splitlines())
        asked = ("tune", double, "warps=1", "--emulator", "--arch", arch, "--log", log, "--jobs", "0")
        assert dsl(*asked).stdout.startswith(f"{device} ({arch})")
        made = log.read_text().splitlines()
        assert len(made) > before and {json.loads(line)["arch"] for line in made[before:]} == {arch}
        assert dsl(*asked).exit_code == 0 and log.read_text().splitlines() == made  # all are known


# ---- what is thrown out ----


def test_what_does_not_compile_or_answers_wrongly_is_thrown_out(in_processes: Path) -> None:
    in_processes.write_text(
        DOUBLE.replace("    tune BLOCK in warps * 32, warps * 64", "    tune BLOCK in 32, 100\n    tune SKEW in 0, 1")
    )
    outcome = tuned_json(in_processes, "warps=1")
    statuses = {(p["steps"][0]["constants"]["BLOCK"], p["steps"][0]["constants"]["SKEW"]): p for p in outcome["points"]}
    assert {key: p["status"] for key, p in statuses.items()} == {
        (32, 0): "counted", (32, 1): "wrong", (100, 0): "compile", (100, 1): "compile",
    }  # fmt: skip
    assert "expect" not in statuses[32, 1]["reason"] and "y ~= x + x within 0 (line" in statuses[32, 1]["reason"]
    assert "error[" in statuses[100, 0]["reason"]
    shown = dsl("tune", in_processes, "warps=1", "--emulator").stdout
    assert "thrown out: " in shown and "1 wrong" in shown and "2 compile" in shown


GREEDY = """\
kernel scaled(y: f32[n], x: f32[n]; TILE):
    grid cdiv(n, TILE)
    i = block(0) * TILE
    y[i : i + TILE] = x[i : i + TILE] * 2

schedule greedy of scaled:
    tune TILE in 262144, 524288, 786432, 1048576, 1310720, 256, 512
    warps = 1
    cost where(TILE > 600, 1.0 * n / TILE, TILE)

schedule never of scaled:
    TILE = 64
    cost inf

dispatch run(y, x):
    scaled with greedy, never

example:
    x, y, z = randn(f32[1000]), empty(f32[1000]), empty(f32[1000])
    scaled(y, x)
    scaled(z, y)
    expect y == 2 * x
    expect z == 4 * x
"""


@pytest.mark.parametrize("name", ["scaled", "run"])
def test_what_the_cost_chooses_need_not_compile(double: Path, name: str) -> None:
    """The five cheapest points need more registers than there are. Both launches are tuned, also if a value is given
    and if a dispatch has no schedule that compiles where its cost is least."""
    double.write_text(GREEDY.replace("    scaled(y, x)\n    scaled(z, y)", f"    {name}(y, x)\n    {name}(z, y)"))
    assert dsl("run", double, "--device", "emulator").exit_code == 2
    result = dsl("tune", double, "--emulator", "--json", "--jobs", "0")
    assert result.exit_code == 0, result.output
    for outcome in json.loads(result.stdout)["outcomes"]:
        found = {p["steps"][0]["constants"].get("TILE"): p for p in outcome["points"]}
        statuses = [found[tile]["status"] for tile in (262144, 524288, 786432, 1048576, 1310720, 256, 512)]
        assert statuses == ["compile"] * 5 + ["counted"] * 2
        assert "there are 255" in found[262144]["reason"]
    points = tuned_json(double, "TILE=256", "--fresh", "--jobs", "0")["points"]
    assert "counted" in {p["status"] for p in points}


def test_if_no_point_compiles_each_says_why(double: Path) -> None:
    double.write_text(GREEDY)
    result = dsl("tune", double, "TILE=262144,524288", "--emulator", "--jobs", "0")
    assert result.exit_code == 1 and "thrown out: 2 compile" in result.stdout


def test_a_stale_answer_is_not_taken_for_one(double: Path) -> None:
    """A variant that writes nothing finds the outputs overwritten, though the variant before it was right."""
    idle = DOUBLE.replace("    store(", "    if SKEW == 0:\n        store(").replace("+ SKEW", "")
    double.write_text(idle.replace("    tune BLOCK in warps * 32, warps * 64", "    BLOCK = 32\n    tune SKEW in 0, 1"))
    statuses = {p["steps"][0]["constants"]["SKEW"]: p["status"] for p in tuned_json(double, "warps=1")["points"]}
    assert statuses == {0: "counted", 1: "wrong"}


def test_when_nothing_answers_rightly_the_status_says_so(in_processes: Path) -> None:
    result = dsl("tune", in_processes, "SKEW=1", "--emulator")
    assert result.exit_code == 1 and "4 wrong" in result.stdout


def test_a_launch_that_no_expect_reads_is_a_located_error(double: Path) -> None:
    double.write_text(DOUBLE.replace("expect y ~= x + x within 0", "expect x ~= x within 0"))
    result = dsl("tune", double, "--emulator")
    assert result.exit_code == 2 and "double.tile:25:" in result.stderr and "no 'expect' reads" in result.stderr


def test_arguments_that_only_a_run_makes_are_tuned_too(double: Path) -> None:
    """The shape of what a reference gives is not known before."""
    double.write_text(DOUBLE.replace("    x = randn(T[n])", "    x = ref.relu(randn(T[n])).to(T)"))
    outcome = tuned_json(double, "n=100")
    assert outcome["dims"] == {"n": 100} and {p["status"] for p in outcome["points"]} == {"counted"}
    assert tuned_json(double, "n=100")["from_log"] == 4


def test_spills_are_thrown_out_where_ptxas_tells(double: Path) -> None:
    from dsl.runtime import tools
    from dsl.runtime.errors import DeviceError

    try:
        tools.find("ptxas")
    except DeviceError:
        pytest.skip("ptxas is not installed")
    capped = DOUBLE.replace(
        "    tune BLOCK in warps * 32, warps * 64", "    BLOCK = 4096\n    tune CAP in 255, 24\n    maxnreg CAP"
    )
    double.write_text(capped)
    found = {p["steps"][0]["constants"]["CAP"]: p for p in tuned_json(double, "warps=1")["points"]}
    assert found[255]["status"] == "counted" and found[24]["status"] == "spills"
    assert "bytes a thread" in found[24]["reason"]


def test_each_launch_of_an_example_is_tuned_by_the_lines_that_read_it(double: Path) -> None:
    """The second launch reads what the first wrote and changes its argument: every variant finds that as it was."""
    more = """
kernel add(y: f32[n], x: f32[n]; BLOCK):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    store(y[i : i + BLOCK], load(y[i : i + BLOCK]) + load(x[i : i + BLOCK]))

schedule any of add:
    tune BLOCK in 128, 64, 256

example both:
    n = 200
    x = randn(f32[n])
    y = empty(f32[n])
    double(y, x)
    expect y ~= x + x within 0
    z = ones(f32[n])
    add(z, y)
    total = sum(z)
    expect total ~= sum(x + x) + n within 1e-2
"""
    double.write_text(DOUBLE + more)
    result = dsl("tune", double, "--emulator", "--json", "--example", "both")
    outcomes = json.loads(result.stdout)["outcomes"]
    assert [o["call"] for o in outcomes] == ["double", "add"]
    assert [{p["status"] for p in o["points"]} for o in outcomes] == [{"counted"}, {"counted"}]
    assert len(outcomes[1]["points"]) == 3


# ---- order, ties, intervals ----


def test_points_are_ordered_by_counters_and_equal_ones_tie(double: Path) -> None:
    outcome = tuned_json(double, "IDLE=0,1")
    fine = [p for p in outcome["points"] if p["ties"]]
    assert len(fine) == 2 and {p["steps"][0]["constants"]["IDLE"] for p in fine} == {0, 1}
    (best,) = [p for p in outcome["points"] if p["best"]]
    assert best["steps"][0]["constants"]["IDLE"] == 0  # the first in the file's order
    assert best["rank"] == min(p["rank"] for p in outcome["points"])
    shown = dsl("tune", double, "IDLE=0,1", "--emulator").stdout
    assert "ties with 1 more" in shown and "they do not predict time" in shown


def test_the_interval_covers_the_median_as_often_as_it_says() -> None:
    random = Random(1)
    for count in (8, 24, 56):
        covered = 0
        for _ in range(2000):
            _, low, high = contest.median_interval([random.expovariate(1.0) for _ in range(count)])
            covered += low <= np.log(2) <= high
        assert covered >= 0.94 * 2000, count
    assert contest.median_interval([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)


def test_a_contest_drops_what_is_slower_and_keeps_what_ties() -> None:
    means = {0: 10.0, 1: 10.001, 2: 12.0}
    rounds_of = []

    def measure(launches: list[Any], rounds: int, order: Random) -> list[list[float]]:
        rounds_of.append((len(launches), rounds))
        return [[launch() + order.uniform(-0.1, 0.1) for _ in range(rounds)] for launch in launches]

    times = contest.contest({key: (lambda mean=mean: mean) for key, mean in means.items()}, measure, seed=3)  # type: ignore[misc]
    assert [len(times[key]) for key in means] == [56, 56, 8]
    assert rounds_of == [(3, 8), (2, 16), (2, 32)]
    assert set(contest.tying(times)) == {0, 1}


# ---- the log ----


def test_an_interrupted_run_goes_on_where_it_stopped(in_processes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = in_processes.with_name("log.jsonl")
    add, made = trials.Log.add, []

    def add_two(self: trials.Log, trial: trials.Trial) -> None:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(trial)
        add(self, trial)

    monkeypatch.setattr(trials.Log, "add", add_two)
    stopped = dsl("tune", in_processes, "--emulator", "--log", log)
    assert stopped.exit_code == 130 and str(log) in stopped.stderr
    monkeypatch.setattr(trials.Log, "add", add)
    with log.open("a") as file:
        file.write('{"source": "cut sho')
    before = log.read_text().count("\n")
    assert before == 2
    log.write_text(log.read_text() + "\n")
    outcome = tuned_json(in_processes, "--log", log)
    assert outcome["from_log"] == 2 and {p["status"] for p in outcome["points"]} == {"counted"}
    assert log.read_text().count("\n") == before + 1 + 2


def test_what_the_log_has_is_not_run_again_unless_something_changed(
    double: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tuned_json(double)

    def forbidden(*arguments: Any, **named: Any) -> Any:
        raise AssertionError("the example was run")

    with monkeypatch.context() as patched:
        patched.setattr(tuning, "TuningCase", forbidden)
        again = tuned_json(double)
    assert again["from_log"] == 4 and [p["rank"] for p in again["points"]] == [p["rank"] for p in first["points"]]
    assert tuned_json(double, "--fresh")["from_log"] == 0
    assert tuned_json(double, "n=301")["from_log"] == 0
    double.write_text(DOUBLE + "# more\n")
    assert tuned_json(double)["from_log"] == 0


def test_a_trial_has_all_that_tells_it_apart(double: Path) -> None:
    log = double.with_name("log.jsonl")
    tuned_json(double, "--log", log, "T=f16", "--budget", "1")
    (line,) = log.read_text().splitlines()
    record = json.loads(line)
    assert record["source"] == load(double).digest() and record["device"] == EMULATED
    assert record["types"] == {"T": "f16"} and record["dims"] == {"n": 300}
    assert record["steps"] == [{"kernel": "double", "schedule": "few", "constants": {"BLOCK": 64, "warps": 2}}]
    assert record["launches"][0]["constants"]["BLOCK"] == 64 and record["launches"][0]["threads"] == 64
    assert {"llvmlite", "numpy", "compiler"} <= record["versions"].keys() and record["counters"]["instructions"] > 0


def test_no_point_is_begun_after_the_time(double: Path) -> None:
    outcome = tuned_json(double, "--seconds", "0")
    assert outcome["left_out"] == 4 and {p["status"] for p in outcome["points"]} == {"left out"}


# ---- what is written, and who takes it ----


def entry(program: Program, n: int = 256, device: str = GPU, **changed: Any) -> Entry:
    steps = (StepChoice("double", "few", {"BLOCK": 32, "warps": 1}),)
    made = Entry(device, "twice", {"MANY": False}, {"T": "f32"}, {"n": n}, (), steps, text_digest(program, steps))
    return replace(made, **changed)


def plan(path: Path, n: int, entries: list[Entry], device: str | None = GPU, **named: Any) -> tuple[Any, list[str]]:
    """(request of the one launch, reasons) of a call on a GPU of this name."""
    facts = {name: ArrayFacts((n,), "f32") for name in ("y", "x")}
    tuned = Tuned(tuned_path(path), entries)
    made = Planner(load(path), "twice", facts, target("sm_90"), 132, device=device, tuned=tuned, **named).plan()
    return made.steps[0].request, made.reasons


def test_a_call_takes_the_nearest_entry_of_its_device(double: Path) -> None:
    program = load(double)
    entries = [
        entry(program, 256),
        entry(program, 512, steps=(StepChoice("double", "few", {"BLOCK": 128, "warps": 2}),)),
        entry(program, 512, device="NVIDIA A100", steps=(StepChoice("double", "few", {"BLOCK": 64, "warps": 2}),)),
    ]
    assert plan(double, 256, entries)[0].constants == {"BLOCK": 32, "warps": 1}
    request, reasons = plan(double, 272, entries)
    assert request.constants == {"BLOCK": 32, "warps": 1}
    assert reasons[0] == "tuned for NVIDIA H200: nearest point n=256: double with few, BLOCK=32, warps=1"
    assert plan(double, 480, entries)[0].constants == {"BLOCK": 128, "warps": 2}
    for n, device in ((2048, GPU), (500, GPU), (256, "NVIDIA L4")):  # too far; 500 is no multiple of 16
        request, reasons = plan(double, n, entries, device)
        assert "BLOCK" not in request.constants and f"no tuned entry for {device}" in reasons[0]
    assert plan(double, 256, entries, device=None)[1] == ["MANY: no", "n >= 1024: no"]


def test_a_range_serves_whatever_the_tuned_extent(double: Path) -> None:
    wide = [entry(load(double), ranges={"n": (64, None)})]
    assert plan(double, 1 << 20, wide)[0].constants == {"BLOCK": 32, "warps": 1}
    assert "BLOCK" not in plan(double, 48, wide)[0].constants


def test_dims_with_a_range_decide_among_equally_near_ones_only(double: Path) -> None:
    made = entry(load(double))
    near = replace(made, dims={"rows": 49152, "cols": 512}, ranges={"rows": (1024, None)})
    equal = replace(made, dims={"rows": 4096, "cols": 1024}, ranges={"rows": (1024, None)})
    call = {"rows": 49152, "cols": 1024}

    def far(made: Entry) -> tuple[float, float]:
        found = made.distance(call, frozenset())
        assert found is not None
        return found

    assert far(replace(equal, dims=call)) < far(equal) < far(near)
    assert equal.distance({"rows": 1000, "cols": 1024}, frozenset()) is None


def test_options_schedules_and_constants_of_the_call_win(double: Path) -> None:
    entries = [entry(load(double))]
    assert plan(double, 256, entries, schedule="many")[0].schedule == "many"
    assert plan(double, 256, entries, options={"MANY": True})[0].schedule == "many"
    request, reasons = plan(double, 256, entries, constants={"warps": 2})
    assert request.constants == {"warps": 2} and "the tuned entry is left out: warps was given" in reasons
    assert plan(double, 256, entries, constants={"IDLE": 5})[0].constants == {"BLOCK": 32, "warps": 1, "IDLE": 5}


def test_an_entry_names_its_branch(double: Path) -> None:
    program = load(double)
    fixed = entry(program, 256, steps=(StepChoice("double", "few", {"warps": 1}, ("IDLE=1",)),))
    assert plan(double, 256, [fixed])[0].constants == {"IDLE": 1, "warps": 1}


def test_an_entry_that_does_not_serve_a_near_shape_is_left_out(double: Path) -> None:
    double.write_text(DOUBLE.replace("    i = block", "    assert BLOCK * 8 >= n\n    i = block"))
    entries = [entry(load(double))]
    assert plan(double, 256, entries)[0].constants == {"BLOCK": 32, "warps": 1}
    request, reasons = plan(double, 272, entries)
    assert "BLOCK" not in request.constants
    assert "it does not serve these dims: the file's conditions decide" in reasons


def test_a_changed_kernel_is_said(double: Path) -> None:
    entries = [entry(load(double))]
    double.write_text(DOUBLE.replace("v + v + SKEW", "v * 2.0 + SKEW") + "# a comment\n")
    request, reasons = plan(double, 256, entries)
    assert request.constants == {"BLOCK": 32, "warps": 1} and "its text has changed since" in reasons[0]
    double.write_text(DOUBLE.replace("    grid cdiv", "    # why\n    grid cdiv"))
    assert "changed" not in plan(double, 256, entries)[1][0]


@pytest.mark.parametrize(
    ("old", "new", "marks", "says"),
    [
        ("schedule few", "schedule fewer", '"few"', "has no schedule 'few' of 'double'"),
        (" in warps * 32, warps * 64", " in warps * 32, warps * 64", None, None),
        (": double with few\n\nexample", ": double with many\n\nexample", None, None),  # still one of its kernel
        ("dispatch twice", "dispatch thrice", '"twice"', "has no kernel or dispatch 'twice'"),
        ("BLOCK", "PIECE", '"BLOCK"', "has no constant 'BLOCK'"),
    ],
)  # fmt: skip
def test_stale_entries_are_located_errors(
    double: Path, old: str, new: str, marks: str | None, says: str | None
) -> None:
    tuned = Tuned(tuned_path(double), [entry(load(double), device=EMULATED)])
    tuned.write()
    text = DOUBLE.replace(old, new)
    if "fewer" in new:
        text = text.replace("with few", "with fewer")
    if "thrice" in new:
        text = text.replace("    twice(", "    thrice(")
    double.write_text(text)
    errors = stale_errors(read_tuned(tuned_path(double)), load(double))
    if marks is None:
        assert errors == [] and dsl("check", double).exit_code == 0
        return
    (error,) = errors
    assert error.loc is not None and says is not None and says in error.message
    assert error.loc.source.text[error.loc.start : error.loc.end] == marks and error.loc.line == 2
    checked = dsl("check", double)
    assert checked.exit_code == 2 and "double.tuned.json:2:" in checked.stderr and "error[tuned]" in checked.stderr
    assert "error[tuned]" in dsl("run", "--device", "emulator", double).stderr
    rewritten = dsl("tune", double, "--emulator", "--write", "--budget", "1")
    assert rewritten.exit_code == 0 and "removed, since" in rewritten.stdout
    assert dsl("run", "--device", "emulator", double).exit_code == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": 2, "entries": []}',
        '{"schema": 1, "entries": [{}]}',
        '{"schema": 1, "entries": [\n3]}',
    ],
)
def test_data_that_is_none_is_a_located_error(double: Path, text: str) -> None:
    tuned_path(double).write_text(text)
    with pytest.raises(TileError) as caught:
        read_tuned(tuned_path(double))
    assert caught.value.code == "tuned" and caught.value.loc is not None
    assert dsl("check", double).exit_code == 2


def test_winners_are_written_sorted_and_taken_by_run_and_python(double: Path) -> None:
    first = dsl("tune", double, "n=512,128,300", "--emulator", "--write", "--for", "n=100:600")
    assert first.exit_code == 0, first.output
    text = tuned_path(double).read_text()
    assert [row["dims"]["n"] for row in json.loads(text)["entries"]] == [128, 300, 512]
    assert all(row["device"] == EMULATED and "median_us" not in row for row in json.loads(text)["entries"])
    assert dsl("tune", double, "n=300,128", "--emulator", "--write", "--for", "n=100:600").exit_code == 0
    assert tuned_path(double).read_text() == text  # the same winners leave the file as it is
    best = next(p for p in tuned_json(double, "n=512")["points"] if p["best"])["steps"][0]["constants"]
    explained = dsl("run", "--device", "emulator", double, "n=512", "--explain").stdout
    assert f"tuned for {EMULATED}: at n=512: double with few" in explained
    assert f"no tuned entry for {EMULATED}" in dsl("run", "--device", "emulator", double, "n=64", "--explain").stdout
    module = face.load(double, device="emulator")
    x = np.arange(512, dtype=np.float32)
    assert np.array_equal(module.twice(x), x + x)
    (bound,) = module.twice._plans.values()
    assert bound.plan.steps[0].request.constants == best
    tuned_path(double).unlink()
    assert "there is no double.tuned.json" in dsl("run", "--device", "emulator", double, "n=512", "--explain").stdout


# ---- plots ----


def test_a_plot_is_drawn(double: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = double.with_suffix(".png")
    assert dsl("tune", double, "--emulator", "--plot", picture).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "is no picture" in dsl("tune", double, "--emulator", "--plot", "x.mp3").stderr


def test_a_plot_without_matplotlib_is_an_error_before_anything_is_run(
    double: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.backend_bases", None)
    result = dsl("tune", double, "--emulator", "--plot", "x.png")
    assert result.exit_code == 2 and "error[tool]" in result.stderr and "dsl[plot]" in result.stderr


# ---- agreement ----


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint32])
def test_agreement_counts_what_is_further_than_the_bound(dtype: Any, device: str) -> None:
    """As `expect` has it; the kernel that compares large outputs on a GPU."""
    from dsl.examples.comparison import compare

    random = np.random.default_rng(5)
    wanted = (random.standard_normal(3000) * 8).astype(dtype)
    actual = wanted.copy()
    actual[::7] += np.asarray(2, dtype)
    actual[1::31] += np.asarray(1, dtype)
    if np.dtype(dtype).kind == "f":
        wanted[5:9], actual[5:9] = [np.nan, np.inf, np.inf, 1.0], [np.nan, np.inf, 3.0, np.nan]
    module = face.load(Path(tuning.__file__).with_name("agreement.tile"), device)
    for bound, relative in ((0.0, 0.0), (1.5, 0.0), (0.5, 0.2)):
        count = np.zeros(1, np.uint32)
        module.disagreements(count, actual, wanted, bound, relative)
        assert count[0] == compare(actual, wanted, bound, relative).wrong, (bound, relative)


# ---- on a GPU ----


@pytest.mark.gpu
def test_on_a_gpu_points_are_timed_and_a_second_run_measures_nothing(double: Path) -> None:
    from dsl.runtime import device_facts

    log = double.with_name("log.jsonl")
    arguments = ["tune", double, "n=4000000", "IDLE=0,1", "--log", log, "--write", "--json"]
    result = dsl(*arguments, "SKEW=0,1")
    assert result.exit_code == 0, result.output
    (outcome,) = json.loads(result.stdout)["outcomes"]
    by_skew = {s: [p for p in outcome["points"] if p["steps"][0]["constants"]["SKEW"] == s] for s in (0, 1)}
    assert {p["status"] for p in by_skew[1]} == {"wrong"} and {p["status"] for p in by_skew[0]} == {"measured"}
    best = next(p for p in outcome["points"] if p["best"])
    assert best["ties"] and best["interval_us"][0] <= best["median_us"] <= best["interval_us"][1]
    assert all(p["launches"][0]["spills"] == 0 and p["launches"][0]["registers"] > 0 for p in by_skew[0])
    lines = log.read_text()
    again = json.loads(dsl(*arguments, "SKEW=0,1").stdout)["outcomes"][0]
    assert again["from_log"] == len(again["points"]) and log.read_text() == lines
    (written,) = read_tuned(tuned_path(double)).entries
    assert written.device == device_facts("cuda").name and written.median_us == pytest.approx(
        best["median_us"], abs=0.01
    )
    explained = dsl("run", double, "n=4000000", "--explain").stdout
    assert f"tuned for {written.device}: at n=4000000" in explained


SHIFTED = """
kernel shift(y: f32[n], x: f32[n]; TWICE):
    grid cdiv(n, 1024)
    i = block(0) * 1024
    y[i : i + 1024] = x[i : i + 1024] + 0.5 * TWICE
schedule s of shift:
    tune TWICE in 2, -2, 5
example:
    n = 5000
    x = zeros(f32[n])
    y = empty(f32[n])
    shift(y, x)
    expect y ~= x within 1.0
"""


@pytest.mark.parametrize("n", [5000, pytest.param(5_000_000, marks=pytest.mark.gpu)])
def test_answers_on_two_sides_of_the_reference_are_right(double: Path, n: int) -> None:
    """On a GPU outputs of 20 MB are compared with the verified ones, and what is further than the bound from those
    answers to `expect`: -1 is 2 from 1, and 1 from 0; 2.5 is beyond the bound of both."""
    double.write_text(SHIFTED)
    where = ["--emulator"] if n == 5000 else []
    result = dsl("tune", double, f"n={n}", "--json", "--log", double.with_name("log.jsonl"), *where)
    (outcome,) = json.loads(result.stdout)["outcomes"]
    status = {p["steps"][0]["constants"]["TWICE"]: p["status"] for p in outcome["points"]}
    fine = "counted" if where else "measured"
    assert status == {2: fine, -2: fine, 5: "wrong"}


def test_large_outputs_are_compared_on_the_device_only_where_expect_compares_them(double: Path) -> None:
    """On the emulator every variant answers to `expect`: arrays are small there."""
    from dsl.lab.case import TuningCase

    program = load(double)
    case = TuningCase(program, program.examples[0], Overrides(), PLACE, 0, SpaceChoice())
    assert case.is_verified(0) and case.bounds(0) is None and case.moves == 300 * 8


def test_a_stage_by_hand_is_a_point_of_its_own(double: Path, tmp_path: Path) -> None:
    """It is counted beside the compiled ones, the log takes neither for the other, and it is never written."""
    path = tmp_path / "k.ptx"
    arguments = ["compile", str(double), "BLOCK=64", "-o", str(path)]
    assert CliRunner().invoke(cli, arguments, standalone_mode=False).return_value == 0
    compiled = tuned_json(double)
    path.write_text(path.read_text().replace("ret;", "bar.sync 0;\n\tret;"))
    again = tuned_json(double, "--from", str(path))
    *points, by_hand = again["points"]
    assert again["from_log"] == len(points) == len(compiled["points"])
    assert by_hand["from"] == str(path) and by_hand["status"] == "counted"
    (like,) = [p for p in points if p["steps"] == by_hand["steps"]]
    assert like["steps"][0]["constants"] == {"warps": 2, "BLOCK": 64}
    assert by_hand["counters"]["barriers"] > like["counters"]["barriers"] == 0
    assert tuned_json(double, "--from", str(path))["from_log"] == len(points) + 1
    path.write_text(path.read_text().replace("bar.sync 0;\n\tret;", "bar.sync 0;\n\tbar.sync 0;\n\tret;"))
    assert tuned_json(double, "--from", str(path))["from_log"] == len(points)
    assert tuned_json(double)["points"] == compiled["points"]
    result = dsl("tune", double, "--emulator", "--write", "--from", str(path))
    assert result.exit_code == 2 and "leave out --from" in result.stderr and not tuned_path(double).exists()


def test_a_stage_by_hand_that_answers_wrongly_or_is_of_another_kernel(double: Path, tmp_path: Path) -> None:
    path = tmp_path / "k.ir"
    arguments = ["compile", str(double), "SKEW=1", "--after", "build", "-o", str(path)]
    assert CliRunner().invoke(cli, arguments, standalone_mode=False).return_value == 0
    assert tuned_json(double, "--from", str(path))["points"][-1]["status"] == "wrong"
    path.write_text(path.read_text().replace("kernel double", "kernel other"))
    result = dsl("tune", double, "--emulator", "--from", str(path))
    assert result.exit_code == 2 and "has the kernels other; this example may launch double" in result.stderr
