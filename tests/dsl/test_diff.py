"""`dsl diff`: names alone are no difference, the first level that differs is the one that made it, each side is what
its words say, and a wrong side is told where it is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from subprocess import CompletedProcess
from typing import Any

import pytest
from click.testing import CliRunner, Result
from lab_kernel import TURN, committed, experiment, git, written

from dsl.command import cli
from dsl.command.sides import side_words
from dsl.lab import diff_code
from dsl.lab.compiling import assembled
from dsl.lab.diff import Contest, compared, launched_side
from dsl.lab.diff_choices import ChoiceDifference, Taken, differing, taken_in
from dsl.lab.diff_levels import KernelTexts, compared_levels, machine_text, merged
from dsl.lab.diff_text import difference, joined_lines, rows_of
from dsl.lab.place import TuningPlace
from dsl.runtime.errors import DeviceError

FOREIGN = Path(__file__).parents[1] / "runtime" / "emulator" / "foreign"
OTHER = "\nschedule plain of turn:\n    math exp: exact\n    swizzle b: none\n"


def dsl(*arguments: Any) -> Result:
    result = CliRunner().invoke(cli, ["diff", *map(str, arguments)], standalone_mode=False)
    assert result.exception is None, result.exception
    result.exit_code = result.return_value
    return result


def told(*arguments: Any) -> tuple[dict[str, Any], int]:
    """What the only launch of `dsl diff --json` says, and the exit status."""
    result = dsl(*arguments, "--device", "emulator", "--json")
    assert result.exit_code in (0, 1), result.stderr
    (launch,) = json.loads(result.stdout)["launches"]
    return launch, result.exit_code


@pytest.fixture(scope="module")
def turn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("turn"), TURN.replace("\nexample:", OTHER + "\nexample:"))


@pytest.fixture
def tools() -> None:
    """For tests that ask the assembler."""


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without the assembler, whose processes would take most of the time, but for tests that ask it."""
    if "tools" not in request.fixturenames:

        def missing(program: str) -> Path:
            raise DeviceError("tool", f"{program} is not installed")

        monkeypatch.setattr("dsl.runtime.tools.find", missing)
    yield
    assembled.cache_clear()
    machine_text.cache_clear()


# ---- texts ----


def ptx_of(rows: list[str]) -> str:
    return ".visible .entry k(\n)\n{\n" + "\n".join(rows) + "\n}\n"


def compared_ptx(a: list[str], b: list[str]) -> Any:
    rows = [rows_of("ptx", ptx_of(each), {}, "k") for each in (a, b)]
    return difference("ptx", "ptx", *rows, 0)


def chain(count: int) -> list[str]:
    """Code in which each instruction reads what two before it made."""
    names = ("add.s32", "xor.b32", "mul.lo.s32", "shl.b32")
    return [f"{names[i * i % 4]} %r{i}, %r{max(0, i - 1)}, %r{i // 2};" for i in range(1, count)]


@pytest.mark.parametrize("seed", range(5))
def test_other_names_are_no_difference(seed: int) -> None:
    code, numbers = chain(60), [*range(60)]
    Random(seed).shuffle(numbers)
    renamed = [re.sub(r"%r(\d+)", lambda found: f"%r{100 + numbers[int(found[1])]}", row) for row in code]
    assert compared_ptx(code, renamed)["hunks"] == []


@pytest.mark.parametrize("seed", range(5))
def test_what_is_put_in_between_is_all_that_differs(seed: int) -> None:
    """Although all registers behind it have other numbers."""
    code, at = chain(60), Random(seed).randrange(5, 55)
    later = [re.sub(r"%r(\d+)", lambda m: f"%r{int(m[1]) + (int(m[1]) > at)}", row) for row in code]
    found = compared_ptx(code, [*later[:at], f"popc.b32 %r{at + 1}, %r{at};", *later[at:]])
    assert (found["added"], found["removed"]) == (1, 0)
    assert [row for hunk in found["hunks"] for row in hunk["rows"]] == [f"+popc.b32 %r{at + 1}', %r{at};"]


def test_rows_that_are_alike_but_for_names_are_told_apart_by_what_they_read() -> None:
    """Of 200 equal instructions five are others, and one is put in between: they stand apart in pairs of rows."""
    random = Random(1)
    reads = [(random.randrange(number + 3), random.randrange(number + 3)) for number in range(200)]
    code = [f"fma.rn.f32 %f{i + 3}, %f{x}, %f{y}, %f{i};" for i, (x, y) in enumerate(reads)]
    later = [re.sub(r"%f(\d+)", lambda m: f"%f{int(m[1]) + (int(m[1]) > 100)}", row) for row in code]
    other = [*later[:98], "mul.f32 %f101, %f1, %f2;", *later[98:]]
    for at in range(20, 200, 40):
        other[at] = other[at].replace("fma.rn", "fma.rz")
    found = compared_ptx(code, other)
    assert (found["added"], found["removed"]) == (6, 5)


def test_another_operand_is_a_difference() -> None:
    code = chain(40)
    found = compared_ptx(code, [*code[:20], code[20].replace("%r20", "%r7"), *code[21:]])
    assert (found["added"], found["removed"]) == (1, 1)


def test_layouts_are_the_same_by_what_they_are() -> None:
    text = "tile-ir 1\nkernel k arch sm_90\n{}body {{\n  %0 = zeros() : f32[4] {}\n}}\n"
    a = text.format("layout #0 = [4]: a\nlayout #1 = [4]: b\n", "#1 @3:5+2")
    b = text.format("layout #0 = [4]: b\n", "#0 @9:1+2")
    layouts: dict[str, str] = {}
    rows = [rows_of("ir", each, layouts) for each in (a, b)]
    assert difference("x", "ir", *rows, 0)["hunks"] == [] and [row.line for row in rows[0]][-2] == 3
    other = rows_of("ir", b.replace("]: b", "]: c"), layouts)
    assert difference("x", "ir", rows[0], other, 0)["added"] == 2


def test_a_pass_that_is_left_out_leaves_the_ir_as_it_was() -> None:
    ir = "tile-ir 1\nkernel k arch sm_90\nbody {{\n  {}() : f32\n}}\n"
    a = KernelTexts({"build": ir.format("one"), "calm": ir.format("one"), "loud": ir.format("two")})
    b = KernelTexts({"build": ir.format("one")})
    made = compared_levels(a, b, 0)
    assert made["first_difference"] == "loud"
    assert [each["level"] for each in made["levels"]] == ["build", "calm", "loud"] and not made["only"]
    assert merged(["a", "b", "d"], ["a", "c", "d", "e"]) == ["a", "b", "c", "d", "e"]


def test_equal_lines_of_two_texts_are_joined() -> None:
    assert joined_lines("a\nb\nc\n", "x\na\nc\n") == {2: 1, 3: 3}


# ---- choices ----


def test_choices_are_joined_by_key_and_equal_differences_are_one() -> None:
    first = {("vector.x.load", 0): Taken("8"), ("stage.c", 0): Taken("shared")}
    first |= {("vector.s.copy", number): Taken("8", "s: 3") for number in range(3)}
    rows = [{"keys": ["vector.x.load"], "taken": "8", "by": "--choose"}, {"keys": ["math.exp"], "taken": "fast"}]
    rows.append({"keys": ["vector.s.copy[0]", "vector.s.copy[1]", "vector.s.copy[2]"], "taken": "4"})
    found = differing(first, taken_in(rows))
    assert found[0] == ChoiceDifference(("stage.c",), Taken("shared"), None)
    assert (found[1].label, found[1].first, found[1].second) == ("vector.s.copy ×3", Taken("8", "s: 3"), Taken("4"))
    assert found[2] == ChoiceDifference(("math.exp",), None, Taken("fast")) and len(found) == 3


# ---- sides ----


def test_a_choice_the_other_way(turn: Path, tools: None) -> None:
    """What a swizzle costs, in which line, and that its pass is the first to differ."""
    launch, status = told(turn, "--vs", "swizzle.b=none")
    (kernel,) = launch["kernels"]
    assert status == 1 and launch["differs"] and not launch["same_code"]
    (choice,) = kernel["choices"]
    assert choice["label"] == "swizzle.b" and choice["b"] == {"option": "none", "by": "--choose"}
    assert choice["a"]["by"] == "rule" and kernel["first_difference"] == "swizzle_shared"
    figures = launch["figures"]
    assert figures["conflicts"]["a"] == 0 < figures["conflicts"]["b"] and figures["wavefronts"]["ratio"] > 2
    assert figures["sectors"]["ratio"] == 1 and figures["result"] == {"a": "right", "b": "right"}
    assert launch["lines"][0]["text"].startswith(("b[0 : T", "store(y[i")) and launch["lines"][0]["line"] in ("8", "9")
    levels = {row["level"]: row for row in kernel["levels"]}
    (hunk,) = levels["swizzle_shared"]["hunks"]
    assert hunk["line"] == 4 and [row[0] for row in hunk["rows"]].count("+") == 1
    assert levels["lower_copies"]["hunks"] == [] and levels["ptx"]["added"]
    assert levels["sass"]["added"] and figures["registers"]["a"] > 8 and kernel["missing"] == []


def test_it_is_told_in_order(turn: Path) -> None:
    result = dsl(turn, "--vs", "swizzle.b=none", "--device", "emulator", "--context", "0")
    text = result.stdout
    parts = ["B  swizzle.b=none", "choices that differ: 1 of", "  swizzle.b  ", "B by --choose", "wavefronts", "line"]
    parts += ["they differ from swizzle_shared on", "@@ line 4: shared b", "-  %b = shared_alloc", "+  %b = ", "   ptx"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places) and result.exit_code == 1
    whole = dsl(turn, "--vs", "swizzle.b=none", "--level", "ptx", "--device", "emulator").stdout
    assert re.search(r"^-(xor|shl|and|shr|bfe)\.", whole, re.M) and "-  %b = shared_alloc" not in whole


def test_two_schedules_and_their_reasons(turn: Path) -> None:
    launch, status = told(turn, "--vs", "schedule=plain")
    rows = {row["label"]: row for row in launch["kernels"][0]["choices"]}
    assert status == 1 and rows["math.exp"]["a"]["option"] == "fast" and rows["math.exp"]["b"]["option"] == "exact"
    assert rows["swizzle.b"]["b"]["by"] != "rule" and "turn.tile:" in rows["swizzle.b"]["b"]["by"]
    assert launch["a"]["title"].startswith("turn: turn with s,") and " with plain," in launch["b"]["title"]


def test_two_dims_have_one_code_and_other_counts(turn: Path) -> None:
    launch, status = told(turn, "--from", "n=64", "--vs", "n=128")
    assert status == 1 and launch["figures"]["sectors"]["ratio"] == 4 and launch["figures"]["threads"]["ratio"] == 1
    assert launch["same_code"] and launch["kernels"][0]["first_difference"] is None
    launch, _ = told(turn, "--vs", "T=16")
    assert launch["kernels"][0]["constants"] == {"T": {"a": 32, "b": 16}}


@pytest.mark.parametrize("words", [["--from", "n=64", "--vs", "n=64"], ["--vs", "index.bits=32"]])
def test_equal_sides(turn: Path, words: list[str]) -> None:
    """Also where a choice is forced to what it is anyway."""
    launch, status = told(turn, *words)
    assert status == 0 and not launch["differs"] and launch["same_code"] and launch["lines"] == []
    assert launch["kernels"][0]["choices"] == [] and launch["kernels"][0]["first_difference"] is None


def test_a_trial_of_a_log_is_made_again(turn: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    dsl(turn, "n=64", "--from", "math.exp=exact", "--vs", "swizzle.b=none", "--device", "emulator", "--log", log)
    assert len(log.read_text().splitlines()) == 2
    launch, status = told(turn, "--from", f"{log}:1", "--vs", "n=64", "--vs", "math.exp=exact")
    assert status == 0 and launch["a"]["notes"] == []
    launch, _ = told(turn, "--vs", log)
    assert [row["label"] for row in launch["kernels"][0]["choices"]] == ["swizzle.b"]
    assert launch["figures"]["sectors"]["ratio"] == 4
    record = json.loads(log.read_text().splitlines()[0]) | {"source": "0", "choices": {}}
    log.write_text(json.dumps(record) + "\n")
    record["launches"][0]["ptx"] = "0"
    log.write_text(json.dumps(record) + "\n")
    launch, _ = told(turn, "--vs", log)
    text, code = launch["b"]["notes"]
    assert "compiled from another version of the file" in text and "had other PTX then" in code
    record["steps"][0]["constants"] = {"T": 16}  # as dsl tune keeps a point
    log.write_text(json.dumps(record) + "\n")
    launch, _ = told(turn, "--vs", log)
    assert launch["kernels"][0]["constants"] == {"T": {"a": 32, "b": 16}}
    result = dsl(turn, "--vs", log, "--vs", "@HEAD")
    assert result.exit_code == 2 and "a commit cannot repeat a point" in result.stderr


def test_two_files(turn: Path, tmp_path: Path) -> None:
    """Of lines that both have, counters are joined although they stand elsewhere."""
    other = tmp_path / "other.tile"
    other.write_text("# moved\n" + turn.read_text().replace("v = exp(", "v = exp2("))
    launch, status = told(turn, "--vs", other)
    assert status == 1 and launch["kernels"][0]["first_difference"] == "ast"
    assert launch["figures"]["result"] == {"a": "right", "b": "wrong"} and "exp(x)" in launch["b"]["reason"]
    own = {(row["line"], row["is_second"]) for row in launch["lines"] if ":" not in row["line"]}
    assert own and own <= {("7", False), ("8", True), ("1", False)}, own
    other.write_text("# moved\n" + turn.read_text())
    assert told(turn, "--vs", other)[1] == 0


def test_code_by_hand_in_the_place_of_a_kernel(turn: Path, tmp_path: Path) -> None:
    """Whether PTX is edited, which no compiler's choices say, its figures and its text do."""
    made, code = experiment(turn), tmp_path / "k.ptx"
    code.write_text(made.compiled[0].ptx)
    launch, status = told(turn, "--vs", code)
    assert status == 0 and launch["kernels"][0]["choices"] is None
    assert {row["level"] for row in launch["kernels"][0]["levels"]} >= {"ptx"}
    barrier = "\tbar.sync 0;\n"
    assert barrier in made.compiled[0].ptx
    code.write_text(made.compiled[0].ptx.replace(barrier, "", 1))
    launch, status = told(turn, "--vs", code)
    assert status == 1 and launch["figures"]["result"]["b"] == "race" and "race" in launch["b"]["reason"]
    (hunk,) = next(row for row in launch["kernels"][0]["levels"] if row["level"] == "ptx")["hunks"]
    assert [row for row in hunk["rows"] if row[0] != " "] == ["-bar.sync 0;"] and hunk["line"] == 9


def test_two_ptx_files(turn: Path, tmp_path: Path, tools: None) -> None:
    """Of ours, too: dsl run counts one that has our header, on arrays of its own."""
    first, second = tmp_path / "a.ptx", tmp_path / "b.ptx"
    first.write_text(experiment(turn).compiled[0].ptx)
    second.write_text(experiment(turn, choose={"swizzle.b": "none"}).compiled[0].ptx)
    launch, status = told(first, "--vs", second)
    assert status == 1 and launch["figures"]["sass"]["b"] != launch["figures"]["sass"]["a"] > 50
    assert launch["figures"]["result"]["a"] == "not run" and launch["kernels"][0]["first_difference"] == "ptx"
    assert launch["figures"]["shared_bytes"]["a"] == launch["figures"]["shared_bytes"]["b"] > 0
    assert told(first, "--vs", first)[1] == 0 and launch["a"]["notes"] == [f"{first} is assembled, not run"]
    result = dsl(first, "n=64", "--vs", second)
    assert result.exit_code == 2 and "'n=64' has no effect on it" in result.stderr


def test_code_of_other_compilers_is_assembled(tools: None) -> None:
    launch, status = told(FOREIGN / "reduce.ptx", "--vs", FOREIGN / "reduce.ptx")
    assert status == 0 and launch["figures"]["result"]["a"] == "not run" and launch["lines"] == []
    assert launch["figures"]["shared_bytes"]["a"] == 32 and launch["figures"]["sass"]["b"] > 50
    assert "assembled, not run" in launch["a"]["notes"][0] and launch["kernels"][0]["missing"] == []


def test_their_texts_are_compared_without_an_assembler_too(turn: Path) -> None:
    launch, status = told(FOREIGN / "reduce.ptx", "--vs", FOREIGN / "scan.ptx")
    assert status == 1 and launch["kernels"][0]["first_difference"] == "ptx"
    assert launch["kernels"][0]["missing"] == ["no sass: ptxas is not installed"]
    launch, _ = told(turn, "--vs", FOREIGN / "scan.ptx")
    assert launch["figures"]["sectors"]["b"] is None and launch["lines"] == []


def test_a_kernel_that_no_example_launches_is_compiled(turn: Path, tmp_path: Path) -> None:
    path = tmp_path / "alone.tile"
    path.write_text(turn.read_text().partition("\nexample:")[0])
    launch, status = told(path, "--vs", "swizzle.b=none")
    assert status == 1 and launch["figures"]["result"] == {"a": "not run", "b": "not run"}
    assert launch["kernels"][0]["first_difference"] == "swizzle_shared"


# ---- commits ----


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A file in a repository of two commits."""
    git(tmp_path, "init", "-q")
    path = written(tmp_path)
    committed(tmp_path, "as it is")
    path.write_text(TURN.replace("math exp: fast", "math exp: exact"))
    committed(tmp_path, "exact")
    return path


def test_a_commit_is_made_by_the_compiler_that_its_tree_finds(history: Path) -> None:
    launch, status = told(history, "--from", "@HEAD~1")
    (kernel,) = launch["kernels"]
    assert status == 1 and [row["label"] for row in kernel["choices"]] == ["math.exp"]
    assert kernel["choices"][0]["a"]["option"] == "fast" and launch["figures"]["work"]["ratio"] > 1
    assert kernel["first_difference"] in {row["level"] for row in kernel["levels"]} - {"ast", "ptx"}
    assert {row["level"] for row in kernel["levels"]} >= {"ast", "build", "assign_layouts", "ptx"}
    assert launch["a"]["notes"][0].endswith(" as it is") and not launch["b"]["notes"]
    assert len(git(history.parent, "worktree", "list").splitlines()) == 1


def test_two_commits_whose_compilers_tell_less_or_refuse(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working tree, whose file is broken, takes no part."""
    ptx, trees = experiment(history).compiled[0].ptx, []
    rows = [{"keys": ["math.exp"], "taken": "fast"}]
    told_of: dict[str, Any] = {"kernels": [{"kernel": "turn with s", "choices": rows}]}

    def said_by(tree: Path, *words: str) -> dict[str, Any]:
        trees.append((tree / "turn.tile").read_text())
        return told_of

    def answer_of(tree: Path, *words: str) -> CompletedProcess[str]:
        is_ptx = "ptx" in words
        return CompletedProcess([], 0 if is_ptx else 2, ptx if is_ptx else "", "no such option\n")

    monkeypatch.setattr(diff_code, "said_by", said_by)
    monkeypatch.setattr(diff_code, "answer_of", answer_of)
    history.write_text("kernel")
    launch, _ = told(history, "--from", "@HEAD~1", "--vs", "@HEAD")
    (kernel,) = launch["kernels"]
    assert ["exp: exact" in text for text in trees] == [False, True] and kernel["choices"] == []
    assert [row["level"] for row in kernel["levels"]] == ["ast", "ptx"] and kernel["first_difference"] is None
    assert "no IR after each pass: @HEAD~1 prints none" in kernel["missing"]
    told_of["kernels"][0]["kernel"] = "other with s"
    result = dsl(history, "--vs", "@HEAD", "--from", "@HEAD", "--device", "emulator")
    assert result.exit_code == 2 and "but the call here launches turn" in result.stderr
    told_of |= {"error": "turn.tile:3:5: error[name]: unknown 'x'\n", "errors": [{"code": "name"}]}
    result = dsl(history, "--vs", "@HEAD", "--from", "@HEAD", "--device", "emulator")
    assert result.exit_code == 2 and "error[name]: at @HEAD turn.tile does not compile: unknown 'x'" in result.stderr


# ---- times ----


def test_a_contest_of_both(turn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock in place of the GPU's: B takes a tenth longer in each round, whatever the clock does."""
    sides = [launched_side(experiment(turn, choose=choose), "", None) for choose in ({}, {"swizzle.b": "none"})]
    clock, noted = Random(7), []
    for side, factor in zip(sides, (1.0, 1.1), strict=True):
        side.launch = lambda factor=factor: factor  # type: ignore[assignment, misc, return-value]
        side.note = lambda side=side: noted.append(side.trial.times_us)  # type: ignore[misc]

    def measure(launches: list[Any], rounds: int, order: Random, device: int) -> list[list[float]]:
        drift = [50 * clock.uniform(1, 2) for _ in range(rounds)]
        return [[at * each() * clock.gauss(1, 0.002) for at in drift] for each in launches]

    monkeypatch.setattr("dsl.runtime.cuda.timing.measure_rounds", measure)
    made = compared(*sides, 3, Contest(TuningPlace("cuda:0", "", "sm_90", 1)))
    assert made["ratio_interval"][0] > 1.09 and made["ratio_interval"][1] < 1.11 and made["time_differs"]
    assert len(noted) == 2 and len(noted[0]) == 56 and sides[0].trial.contest == sides[1].trial.contest


@pytest.mark.gpu
def test_a_known_effect_is_told_on_a_gpu(turn: Path) -> None:
    """Conflicts of eight ways where b is read; its twin is the contest with another clock above."""
    result = dsl(turn, "n=4096", "--vs", "vector.b.load=1", "--device", "cuda", "--json")
    assert result.exit_code == 1, result.stderr
    (launch,) = json.loads(result.stdout)["launches"]
    assert launch["ratio_interval"][0] > 1 and launch["time_differs"] and launch["a"]["rounds"] == 56


# ---- what is wrong ----


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "there is nothing to compare with"),
        (["other.tile"], "hint: --vs other.tile compares with that"),
        (["--vs", "swizle.b=none"], "swizle.b=none: no choice has the key 'swizle.b'"),
        (["--vs", "swizzle.b=no"], "'swizzle.b' has no option 'no' here"),
        (["--vs", "schedule=nope"], "'turn' has no schedule 'nope'"),
        (["--vs", "m=3"], "turn.tile has no 'm' to set"),
        (["--vs", "n=x"], "an extent is an integer"),
        (["--vs", "launch=2"], "launch 2 is none of this example's 1"),
        (["--vs", "launch=two"], "launch=two: a launch is a number from 1 on"),
        (["--vs", "nothing.tile"], "cannot read nothing.tile"),
        (["--vs", "nothing.ptx"], "'nothing.ptx' is neither a side nor an existing file"),
        (["--vs", "nothing.jsonl:3"], "cannot read nothing.jsonl"),
        (["--vs", "@HEAD"], "not a git repository"),
        (["--vs", "@HEAD", "--vs", "@HEAD~1"], "a side has one commit"),
        (["--vs", "n=64", "--kernel", "turm"], "did you mean 'turn'?"),
        (["--vs", "n=64", "--level", "swizle_shared"], "did you mean 'swizzle_shared'?"),
        (["--vs", str(FOREIGN / "hopper_gemm.ptx"), "--vs", "kernel=turn"], "hopper_gemm.ptx has no kernel 'turn'"),
        (["--vs", "k.ptx"], "does not launch 'other'"),
    ],
)
def test_a_wrong_side_is_told(turn: Path, tmp_path: Path, words: list[str], says: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        path = written(tmp_path, turn.read_text())
        if words == ["--vs", "k.ptx"]:
            header = json.loads(experiment(path).compiled[0].ptx.partition("\n")[0].removeprefix("//dsl "))
            body = experiment(path).compiled[0].ptx.partition("\n")[2]
            Path("k.ptx").write_text(f"//dsl {json.dumps(header | {'kernel': 'other'})}\n{body}")
        result = dsl(path.name, *words, "--device", "emulator")
    assert result.exit_code == 2 and says in result.stderr, result.stderr


def test_code_by_itself_is_not_compared_with_an_example(turn: Path) -> None:
    result = dsl(FOREIGN / "reduce.ptx", "--vs", turn)
    assert result.exit_code == 2 and f"hint: dsl diff {turn} --from {FOREIGN / 'reduce.ptx'}" in result.stderr


def test_prefixes_of_values_are_no_keys_of_choices(tmp_path: Path) -> None:
    options: dict[str, Any] = {"choose": ["a.b=c"], "schedule": None, "launch": None}
    side = side_words("f.tile", ["n=1", "m=2"], options, ["const.T=4", "a.b=d", "n=3", "schedule=s"])
    assert side.values == ["m=2", "const.T=4", "n=3"] and side.options["choose"] == ["a.b=d"]
    assert side.options["schedule"] == "s" and options["choose"] == ["a.b=c"]


def test_an_entry_is_no_instruction_of_its_name() -> None:
    """`add` and `mul` were the same PTX: their names went, wherever they stood."""
    text = ".visible .entry {0}(\n.param .u64 {0}_param_0\n)\n{{\n{0}.f32 %{0}1, %{0}2, %f3;\nret;\n}}\n"
    both = (rows_of("ptx", text.format(name), {}, name) for name in ("add", "mul"))
    first, second = ([row.text for row in each] for each in both)
    assert first[:2] == second[:2] and first != second
    assert first[0] == ".visible .entry kernel(" and any(row.startswith("add.f32 %add1") for row in first)
