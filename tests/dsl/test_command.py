"""The `dsl` command: what it prints, its exit statuses, and that no mistake of a user ends in a traceback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from dsl.command import cli
from dsl.command.error_codes import read_codes
from dsl.command.new_file import TEMPLATE
from dsl.text import grammar_tables

ROOT = Path(__file__).parents[2]
SOFTMAX = str(ROOT / "samples" / "softmax.tile")
ADD = """\
kernel double(y: T[n], x: T[n]; T in f32|f16, BLOCK):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    v = load(x[i : i + BLOCK])
    store(y[i : i + BLOCK], v + v)

schedule narrow of double:
    BLOCK = 128

schedule broad of double:
    BLOCK = 256

example:
    n = 300
    x = randn(T[n])
    y = empty(T[n])
    double(y, x)
    expect y ~= x + x within 0
    moves bytes(x) + bytes(y)

example small:
    n = 1
    x = randn(T[n])
    y = empty(T[n])
    double(y, x)
    expect y ~= x + x within 0
"""


def dsl(*arguments: str) -> Result:
    """Runs the command line in this process."""
    result = CliRunner().invoke(cli, list(arguments), standalone_mode=False)
    if isinstance(result.exception, click.ClickException):
        result.exit_code = result.exception.exit_code
        return result
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    result.exit_code = result.return_value if isinstance(result.return_value, int) else result.exit_code
    return result


def run_json(*arguments: str) -> dict[str, Any]:
    result = dsl("run", "--device", "emulator", "--json", *arguments)
    return json.loads(result.stdout)


@pytest.fixture
def double(tmp_path: Path) -> str:
    path = tmp_path / "double.tile"
    path.write_text(ADD)
    return str(path)


# ---- run ----


def test_run_tells_everything_as_json() -> None:
    told = run_json(SOFTMAX, "rows=5")
    keys = "file kernel device dims schedule passed max_error tolerance time_us counters"
    assert set(keys.split()) <= told.keys()
    assert (told["kernel"], told["schedule"], told["device"]) == ("softmax_rows", "block", "emulator")
    assert told["dims"] == {"rows": 5, "cols": 1000}
    assert told["passed"] is True and told["max_error"] <= told["tolerance"] == 1e-3
    assert told["time_us"] is None and told["counters"]["instructions"] > 0


def test_run_prints_for_people(double: str) -> None:
    result = dsl("run", double, "--device", "emulator")
    assert result.exit_code == 0 and result.stderr == ""
    for text in ("double with narrow", "emulator", "n=300, T=f32", "passed"):
        assert text in result.stdout


def test_overrides_reach_dims_types_constants_and_options(double: str) -> None:
    told = run_json(double, "n=77", "T=f16")
    assert (told["dims"], told["types"]) == ({"n": 77}, {"T": "f16"})
    narrow, wide = run_json(double, "n=4096"), run_json(double, "n=4096", "const.BLOCK=512")
    assert narrow["counters"]["instructions"] > wide["counters"]["instructions"]
    assert run_json(double, "--schedule", "broad")["schedule"] == "broad"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["m=3"], "'m' to set"),
        (["n"], "not NAME=VALUE"),
        (["dims.n=3"], "unknown prefix 'dims.'"),
        (["T=f64"], "'T' is one of f32, f16"),
        (["x=3"], "'x' is no number"),
        (["--schedule", "narow"], "narrow"),
        (["--example", "smal"], "small"),
        (["--device", "gpu"], "auto, cuda, cuda:1 or emulator"),
        (["--ptx", "/none.ptx"], "/none.ptx"),
    ],
)
def test_wrong_arguments_are_located_errors(double: str, arguments: list[str], says: str) -> None:
    result = dsl("run", double, *arguments)
    assert result.exit_code == 2
    assert says in result.stderr and result.stdout == "" and "Traceback" not in result.stderr


def test_a_name_that_is_a_dim_and_a_constant_needs_a_prefix(tmp_path: Path) -> None:
    path = tmp_path / "both.tile"
    path.write_text(ADD.replace("n = 300", "BLOCK, n = 3, 300"))
    assert "dim.BLOCK, const.BLOCK" in dsl("run", str(path), "BLOCK=64", "--device", "emulator").stderr
    assert dsl("run", str(path), "const.BLOCK=64", "--device", "emulator").exit_code == 0


def test_a_wrong_result_is_status_1_and_says_where(tmp_path: Path) -> None:
    path = tmp_path / "wrong.tile"
    path.write_text(ADD.replace("v + v)", "where(arange(BLOCK) % 8 == 3, v, v + v))"))
    result = dsl("run", str(path), "--device", "emulator")
    assert result.exit_code == 1
    for text in ("FAILED", "every 8th element from 3", "first at [3]", f"{path}:5"):
        assert text in result.stdout
    assert run_json(str(path))["passed"] is False


def test_all_examples_run(double: str) -> None:
    told = run_json(double, "--all")
    assert [e["dims"]["n"] for e in told["examples"]] == [300, 1] and told["passed"] is True
    assert run_json(double, "--example", "small")["dims"] == {"n": 1}


SEVERAL = """
example:
    y = empty(f32[300])
    double(y, q)

example wrong:
    x, y = ones(f32[300]), empty(f32[300])
    double(y, x)
    expect y == 3.0

example right:
    x, y = ones(f32[300]), empty(f32[300])
    double(y, x)
    expect y == 2.0
"""


def test_all_examples_run_though_one_is_no_example(tmp_path: Path) -> None:
    """The first one's launch is refused: it ended the run, and the others were not mentioned."""
    path = tmp_path / "several.tile"
    path.write_text(ADD[: ADD.index("\nexample")] + SEVERAL)
    result = dsl("run", str(path), "--all", "--device", "emulator")
    assert result.exit_code == 2 and result.stderr.count("error[") == 1
    assert [result.stdout.count(each) for each in ("FAILED", "passed", f"{path}\n")] == [1, 1, 1]
    told = json.loads(dsl("run", str(path), "--all", "--json", "--device", "emulator").stdout)
    named = {each["example"]: each["passed"] for each in told["examples"]}
    assert named == {None: False, "wrong": False, "right": True}
    assert (told["passed"], told["status"], len(told["errors"])) == (False, 2, 1)
    assert dsl("run", str(path), "--example", "wrong", "--device", "emulator").exit_code == 1
    path.write_text(path.read_text().replace("double(y, q)", "x = y"))
    assert dsl("run", str(path), "--all", "--device", "emulator").exit_code == 1


def test_counters_of_imported_lines_stand_behind_the_source(tmp_path: Path) -> None:
    """They were left out: 22,752 of a kernel's 119,440 instructions were shown."""
    (tmp_path / "more.tile").write_text("# here\ndef twice(x, i):\n    v = x[i : i + 128]\n    return v + v\n")
    path = tmp_path / "calls.tile"
    path.write_text(
        'import "more.tile"\n\nkernel k(y: f32[n], x: f32[n]):\n    grid cdiv(n, 128)\n    i = block(0) * 128\n'
        "    y[i : i + 128] = twice(x, i)\n\nexample:\n    x, y = ones(f32[300]), empty(f32[300])\n    k(y, x)\n"
    )
    shown = dsl("run", str(path), "--counters").stdout.splitlines()
    (at,) = [i for i, line in enumerate(shown) if line.endswith(str(tmp_path / "more.tile"))]
    load, add = shown[at + 1 :]
    assert load.endswith("3      v = x[i : i + 128]") and add.endswith("4      return v + v")
    assert int(load.split()[0]) > 0 and int(add.split()[0]) > 0
    rows = json.loads(dsl("run", str(path), "--counters", "--json").stdout)["launches"][0]
    counted = sum(line["instructions"] for line in rows["by_line"].values())
    assert 0 < counted <= rows["counters"]["instructions"] + rows["counters"]["moves"]


def test_counters_stand_beside_the_source(double: str) -> None:
    out = dsl("run", double, "--counters").stdout
    line = next(line for line in out.splitlines() if "v = load" in line)
    assert re.match(r"\s*\d+.*\|\s+4  ", line)


def test_why_takes_the_only_kernel_of_a_file_without_examples(tmp_path: Path) -> None:
    file = tmp_path / "mine.tile"
    file.write_text(TEMPLATE.format(name="mine", file=file).partition("\nexample:")[0])
    result = dsl("why", str(file), "n=4096")
    assert result.return_value == 0 and result.output.startswith("mine with wide ")


def test_a_point_of_a_cost_that_spills_is_told(tmp_path: Path) -> None:
    from dsl.runtime import tools
    from dsl.runtime.errors import DeviceError

    try:
        tools.find("ptxas")
    except DeviceError:
        pytest.skip("ptxas is not installed")
    file = tmp_path / "mine.tile"
    text = TEMPLATE.format(name="mine", file=file)
    few = "schedule few of mine:\n    tune warps in 1, 2\n    BLOCK = 4096\n    maxnreg 24\n    cost 1.0 * warps\n\n"
    emulated = ("run", str(file), "--explain", "--device", "emulator", "n=10000")
    file.write_text(text.replace("schedule wide", few + "schedule wide", 1))
    shown = dsl(*emulated).stdout
    told = re.search(r"  dispatch   this point spills ([\d,]+) bytes a thread; dsl tune rejects such points", shown)
    assert told is not None and f"{told[1]} bytes spilled" in shown
    assert f" choices; it spills {told[1]} bytes a thread\n" in dsl("why", str(file), "n=10000").stdout
    assert "spills" not in dsl("why", str(file), "n=10000", "--choice", "vector").stdout
    measured = dsl("why", str(file), "n=10000", "--choice", "tune.warps", "--measure").stdout
    assert re.search(rf"1\*: 24 registers, {told[1].replace(',', '')} bytes of spills", measured)
    assert re.search(r"2: 24 registers, \d+ bytes of spills", measured)
    file.write_text(text.replace("schedule wide", few.replace("24", "255") + "schedule wide", 1))
    assert "spills" not in dsl("why", str(file), "n=10000").stdout + dsl(*emulated).stdout


def test_explain_says_why() -> None:
    out = dsl("run", SOFTMAX, "rows=2", "--explain", "--device", "emulator").stdout
    for text in (
        "block: 5.",
        "COLS == cdiv(maximum(cols, 1), PART * SHARING) * PART * SHARING",
        "top: f32[",
        "lane [[",
        "ms",
        "llvm",
    ):
        assert text in out


def test_a_fault_of_the_kernel_is_status_3_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "race.tile"
    path.write_text(ADD.replace("store(y[i : i + BLOCK]", "store(y[0 : BLOCK]"))
    result = dsl("run", str(path), "--device", "emulator")
    assert result.exit_code == 3
    assert f"{path}:5" in result.stderr and "error[finding]" in result.stderr and "race" in result.stderr


def test_a_race_between_blocks_says_what_orders_them(tmp_path: Path) -> None:
    file = tmp_path / "race.tile"
    file.write_text("""
kernel hand(y: s32[64], flag: s32[1]):
    grid 2
    if block(0) == 0:
        y[0] = 5
        f = atomic_add(flag[0], 1)
    else:
        store(y[32 : 64], full(s32[32], y[0]))

example:
    y = zeros(s32[64])
    flag = zeros(s32[1])
    hand(y, flag)
""")
    result = dsl("run", str(file), "--device", "emulator")
    assert result.exit_code == 3
    assert (
        "race: reads global memory" in result.output and "hint: blocks: an atomic with order=release" in result.output
    )


def test_edited_ptx_takes_the_place_of_the_kernel(double: str, tmp_path: Path) -> None:
    ptx = tmp_path / "k.ptx"
    assert dsl("compile", double, "-o", str(ptx)).exit_code == 0
    assert run_json(double, "--ptx", str(ptx))["passed"] is True
    text = ptx.read_text()
    edited = re.sub(r"add\.rn\.f32(.*), (%\S+), (%\S+);", r"add.rn.f32\1, \2, 0f3F800000;", text)
    edited = re.sub(r"add\.f32(.*), (%\S+), (%\S+);", r"add.f32\1, \2, 0f3F800000;", edited)
    assert edited != text
    ptx.write_text(edited)
    assert run_json(double, "--ptx", str(ptx))["passed"] is False


def test_a_saved_ptx_runs_by_its_header(double: str, tmp_path: Path) -> None:
    ptx = tmp_path / "k.ptx"
    dsl("compile", double, "-o", str(ptx))

    def counted(*values: str) -> Any:
        return json.loads(dsl("count", str(ptx), *values, "--device", "emulator", "--json").stdout)["files"][0]

    told = counted()
    assert told["passed"] is None and told["entry"] == "double" and told["counters"]["instructions"] > 0
    assert told["guessed"].keys() == {"n"}
    said = dsl("count", str(ptx), "--device", "emulator").stdout
    assert f"n={told['guessed']['n']}: guessed, since nobody gives it" in said
    assert counted("n=500")["guessed"] == {} and "f32[500]" in counted("n=500")["arguments"]["x"]
    wrong = dsl("count", str(ptx), "m=500", "--device", "emulator")
    assert wrong.exit_code == 2 and "no dim or scalar 'm'" in wrong.stderr
    refused = dsl("run", str(ptx), "--device", "emulator")
    assert refused.exit_code == 2 and f"dsl count {ptx} launches it" in refused.stderr


def test_json_is_one_object_for_errors_too(tmp_path: Path) -> None:
    told = run_json(str(tmp_path / "missing.tile"))
    assert told["passed"] is False and "error[file]" in told["error"] and told["status"] == 2


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "escape.tile"
    path.write_text("kernel \x1b[31mf(x: f32[n]):\n")
    for command in ("run", "check", "compile"):
        result = dsl(command, str(path))
        assert result.exit_code == 2 and "\x1b" not in result.stderr + result.stdout


# ---- check ----


def test_check_finds_all_errors_once(tmp_path: Path) -> None:
    path = tmp_path / "many.tile"
    path.write_text(
        ADD.replace("v + v", "v + w").replace("BLOCK = 256", "BLOK = 256").replace("x + x", "ref.sofmax(x)")
    )
    result = dsl("check", str(path))
    assert result.exit_code == 2
    for text in ("unknown name 'w'", "nothing reads 'BLOK'", "ref.sofmax", "did you mean"):
        assert text in result.stderr
    assert result.stderr.count("unknown name 'w'") == 1


def test_check_of_a_file_without_errors(double: str) -> None:
    result = dsl("check", double, SOFTMAX)
    assert result.exit_code == 0 and "no errors in 5 variants" in result.stdout
    told = json.loads(dsl("check", "--json", double).stdout)
    assert told == {"passed": True, "files": [{"file": double, "variants": 5, "errors": [], "notes": []}]}


def test_check_names_errors_of_schedules_that_no_example_uses(tmp_path: Path) -> None:
    path = tmp_path / "unused.tile"
    path.write_text(ADD.replace("BLOCK = 256", "BLOCK = 100"))
    assert f"{path}" in dsl("check", str(path)).stderr


def test_check_loads_nothing_heavy() -> None:
    code = (
        "import sys; from dsl.command import cli; cli.main(sys.argv[1:], standalone_mode=False);"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'numpy', 'llvmlite', 'cuda', 'rich'}),"
        "'dsl.runtime.emulator' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "check", str(ROOT / "samples" / "gelu.tile")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[] False"


def test_the_parser_tables_are_those_of_the_grammar() -> None:
    assert grammar_tables.serialise(grammar_tables.build()) == grammar_tables.TABLES.read_text(), (
        "python -m dsl.text.grammar_tables"
    )


# ---- compile, new, explain ----


@pytest.mark.parametrize(
    ("stage", "has"),
    [
        ("ast", "KernelDef name='double'"),
        ("ir", "= load(%x"),
        ("layout", "f32[128]"),
        ("llvm", "define"),
        ("ptx", ".visible .entry double"),
    ],
)
def test_compile_shows_each_stage(double: str, stage: str, has: str) -> None:
    result = dsl("compile", double, "--emit", stage)
    assert result.exit_code == 0 and has in result.stdout
    if stage in ("ir", "llvm", "ptx"):
        annotated = dsl("compile", double, "--emit", stage, "--annotate").stdout
        assert f"{double}:4: v = load(x[i : i + BLOCK])" in annotated


def test_compile_takes_schedules_targets_and_passes(double: str) -> None:
    assert ".target sm_80" in dsl("compile", double, "--arch", "sm_80").stdout
    assert ": f16[256] #0" in dsl("compile", double, "T=f16", "--schedule", "broad", "--emit", "ir").stdout
    printed = ["compile", double, "--after", "simplify", "--after", "place_shared"]
    plain, annotated = dsl(*printed).stdout, dsl(*printed, "--annotate").stdout
    for after in ("// after simplify\n", "// after place_shared\n"):
        assert plain.count(after) == annotated.count(after) == 1
    assert len(re.findall(r"= load\(%x.* @4:\d+\+\d+\n", plain)) == 2
    assert annotated.count("double.tile:4: v = load(x[i : i + BLOCK])") == 2
    for wrong in (["--arch", "sm_1"], ["--after", "none"], ["--kernel", "dubble"], ["--schedule", "x"]):
        assert dsl("compile", double, *wrong).exit_code == 2


@pytest.mark.parametrize("command", ["compile", "layout"])
@pytest.mark.parametrize(
    ("file", "example", "kernel"),
    [("softmax_backward", "log", "backward_rows"), ("softmax_fused", "backward", "fused_gradient")],
)
def test_an_example_whose_inputs_only_a_run_has_is_planned(command: str, file: str, example: str, kernel: str) -> None:
    """Inputs of these come from `ref.softmax` and from functions of the file."""
    result = dsl(command, str(ROOT / "samples" / f"{file}.tile"), "--example", example)
    assert result.exit_code == 0 and kernel in result.stdout


NUMBERS = """\
kernel scaled(y: f32[n], x: f32[n], a: f32):
    grid cdiv(n, 128)
    i = block(0) * 128
    store(y[i : i + 128], load(x[i : i + 128]) * a)

example:
    n = 300
    x, y = randn(f32[n]), empty(f32[n])
"""


def test_a_number_that_hangs_on_a_launch_is_not_guessed(tmp_path: Path) -> None:
    above, below = tmp_path / "above.tile", tmp_path / "below.tile"
    above.write_text(NUMBERS + "    a = max(x)\n    scaled(y, x, a)\n")
    below.write_text(NUMBERS + "    scaled(y, x, 2.0)\n    a = max(y)\n    scaled(y, x, a)\n")
    assert dsl("compile", str(above)).stdout.count(".visible .entry scaled") == 1
    refused = dsl("compile", str(below))
    assert refused.exit_code == 2 and "'a' is a number that only a run can tell" in refused.stderr
    assert dsl("compile", str(below), "a=3.0").exit_code == 0
    assert dsl("compile", str(below), "--kernel", "scaled").exit_code == 0


def test_compile_takes_a_kernel_that_the_example_does_not_launch() -> None:
    fused = str(ROOT / "samples" / "softmax_fused.tile")
    text = dsl("compile", fused, "--kernel", "fused_gradient", "--schedule", "whole", "--emit", "ir").stdout
    assert "kernel fused_gradient " in text


def test_new_writes_a_kernel_that_passes_and_keeps_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert dsl("new", "first").exit_code == 0
    assert run_json("first.tile", "n=100")["passed"] is True and dsl("check", "first.tile").exit_code == 0
    Path("first.tile").write_text("mine")
    assert dsl("new", "first").exit_code == 2 and Path("first.tile").read_text() == "mine"
    assert dsl("new", "if").exit_code == 2 and not Path("if.tile").exists()
    assert "{name}" in TEMPLATE


def test_explain_knows_every_code_of_the_source() -> None:
    import ast

    errors = {"TileError", "LaunchError", "DeviceError", "RuntimeFault", "fail", "__init__"}
    used = set()
    for path in (ROOT / "dsl").rglob("*.py"):
        if path.parts[-2] == "emulator" or path.name in ("header.py", "header_checks.py"):
            continue  # these `fail` with the name of a field
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            if name in errors and re.fullmatch("[a-z-]+", str(node.args[0].value)):
                used.add(node.args[0].value)
    known = read_codes()
    assert used - known.keys() == set()
    assert all(row.meaning and row.example and row.mend for row in known.values()) and len(known) <= 42
    result = dsl("explain", "error[type]")
    assert result.exit_code == 0 and known["type"].example in result.stdout and known["type"].mend in result.stdout
    assert "did you mean 'shared'" in dsl("explain", "shard").stderr
    assert "2^x" in dsl("explain", "ex2.approx").stdout and "mulhi(a, b)" in dsl("explain").stdout
    assert "the product" in dsl("explain", "prod").stdout
    assert "stands in: kernels, examples and dispatch" in dsl("explain", "gelu").stdout
    completed = ShellComplete(cli, {}, "dsl", "_DSL_COMPLETE").get_completions(["explain"], "shfl.")
    assert [each.value for each in completed] == ["shfl.xor", "shfl.up", "shfl.down", "shfl.idx"]


def test_internal_errors_are_short_and_status_70() -> None:
    code = "import dsl.studies.check as c; c.check_file = None; from dsl.command import main; main(['check', 'x'])"
    environment = {k: v for k, v in os.environ.items() if k != "DSL_TRACEBACK"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 70 and "internal error" in done.stderr and "Traceback" not in done.stderr
    environment["DSL_TRACEBACK"] = "1"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert "Traceback" in done.stderr


def test_version_and_unknown_commands() -> None:
    assert dsl("--version").stdout.startswith("dsl ")
    assert dsl("rnu").exit_code == 2
