"""The IR by hand: `dsl compile --after`, `dsl opt`, `dsl run --from`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from dsl.command import cli
from dsl.kernels.edited import ptx_from
from dsl.lowering.passes import PASSES

SOFTMAX = str(Path(__file__).parents[2] / "samples" / "softmax.tile")
SCALE = """\
kernel scale(y: f32[n], x: f32[n]):
    grid cdiv(n, 256)
    i = block(0) * 256
    y[i : i + 256] = x[i : i + 256] * 2.0

schedule s of scale:
    warps = 4

example:
    x = randn(f32[1000])
    y = empty(f32[1000])
    scale(y, x)
    expect y == x * 2.0
"""
NAMES = [each.name for each in PASSES]


@pytest.fixture
def scale(tmp_path: Path) -> str:
    path = tmp_path / "scale.tile"
    path.write_text(SCALE)
    return str(path)


def dsl(*arguments: str) -> tuple[int, str]:
    """Exit status and all that is printed."""
    result = CliRunner().invoke(cli, list(arguments), standalone_mode=False)
    if isinstance(result.exception, click.ClickException):
        return result.exception.exit_code, result.exception.message
    assert result.exception is None, result.exception
    return result.return_value or 0, result.output


def run_from(file: str, ir: Path, *more: str) -> dict[str, Any]:
    status, output = dsl("run", file, "--device", "emulator", "--json", "--from", str(ir), *more)
    return {"status": status, **json.loads(output.splitlines()[-1])}


@pytest.mark.parametrize("name", ["build", *NAMES])
def test_the_ir_after_each_pass_runs_through_the_example(scale: str, name: str, tmp_path: Path) -> None:
    ir = tmp_path / "k.ir"
    assert dsl("compile", scale, "--after", name, "-o", str(ir))[0] == 0
    assert f"passes [{', '.join(NAMES[: NAMES.index(name) + 1 if name != 'build' else 0])}]" in ir.read_text()
    assert run_from(scale, ir)["passed"] is True
    ir.write_text(ir.read_text().replace("value=2.0", "value=3.0"))
    told = run_from(scale, ir)
    assert told["passed"] is False and told["status"] == 1


def test_an_edited_layout_is_the_one_that_code_has(scale: str, tmp_path: Path) -> None:
    ir = tmp_path / "k.ir"
    dsl("compile", scale, "--after", "assign_layouts", "-o", str(ir))
    text = ir.read_text()
    edited, count = re.subn(
        r"(layout #0 = \[256\]: ).*",
        r"\1register [[128]], lane [[1], [2], [4], [8], [16]], warp [[32], [64]]",
        text,
    )
    assert count == 1
    ir.write_text(edited)
    told = run_from(scale, ir)
    assert told["passed"] is True
    ir.write_text(text)
    before = run_from(scale, ir)
    assert told["counters"]["instructions"] > before["counters"]["instructions"]  # two narrow accesses for a wide one


def test_a_mistake_in_the_text_is_at_its_line(scale: str, tmp_path: Path) -> None:
    ir = tmp_path / "k.ir"
    dsl("compile", scale, "--after", "build", "-o", str(ir))
    text = ir.read_text().replace("value=2.0", "valu=2.0")
    ir.write_text(text)
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "valu=" in row)
    told = run_from(scale, ir)
    assert told["status"] == 2 and f"k.ir:{line}:" in told["error"] and "no attribute 'value'" in told["error"]


def test_passes_run_on_text_one_by_one_as_they_do_together(tmp_path: Path) -> None:
    ir = tmp_path / "k.ir"
    dsl("compile", SOFTMAX, "cols=1000", "--after", "build", "-o", str(ir))
    for name in NAMES:
        assert dsl("opt", str(ir), "--pass", name, "-o", str(ir)) == (0, "")
        assert dsl("opt", str(ir))[1] == ir.read_text()
    assert dsl("compile", SOFTMAX, "cols=1000", "--after", NAMES[-1])[1] == ir.read_text()


PRODUCT = """\
kernel product(c: f32[m, n], a: f16[m, k], b: f16[n, k]):
    grid cdiv(m, 64), cdiv(n, 64)
    i, j, acc = block(0) * 64, block(1) * 64, zeros(f32[64, 64])
    for p in range(0, k, 64):
        acc = dot(a[i : i + 64, p : p + 64], b[j : j + 64, p : p + 64].T, acc)
    c[i : i + 64, j : j + 64] = acc

example:
    a, b, c = randn(f16[64, 128]), randn(f16[64, 128]), empty(f32[64, 64])
    product(c, a, b)
    expect c ~= ref.matmul(a, b.T) within 1e-3
"""


@pytest.mark.parametrize("name", NAMES)
def test_any_pass_may_see_products_of_warp_groups(tmp_path: Path, name: str) -> None:
    """Passes that come earlier, too: they find nothing to do, or say what they lack."""
    path, ir = tmp_path / "product.tile", tmp_path / "k.ir"
    path.write_text(PRODUCT)
    assert dsl("compile", str(path), "--arch", "sm_90a", "--after", "sink", "-o", str(ir)) == (0, "")
    assert " = wgmma(" in ir.read_text() and " = shared_view(" in ir.read_text()
    assert dsl("opt", str(ir), "--pass", name)[0] in (0, 2)


def test_passes_that_are_left_out_stay_out(scale: str, tmp_path: Path) -> None:
    ir = tmp_path / "k.ir"
    dsl("compile", scale, "--after", "clean", "--skip-pass", "simplify", "-o", str(ir))
    left = [name for name in NAMES[: NAMES.index("clean") + 1] if name != "simplify"]
    assert f"passes [{', '.join(left)}]" in ir.read_text()
    assert run_from(scale, ir, "--skip-pass", "insert_barriers")["passed"] is True
    told = run_from(scale, ir, "--skip-pass", "place_shared")
    assert told["status"] == 2 and "cannot be left out" in told["error"]


def test_what_a_pass_needs_is_told(scale: str, tmp_path: Path) -> None:
    ir = tmp_path / "k.ir"
    dsl("compile", scale, "--after", "simplify", "-o", str(ir))
    status, output = dsl("opt", str(ir), "--pass", "lower_copies")
    assert status == 2 and "the pass 'lower_copies' needs layouts, which 'assign_layouts' gives" in output
    ir.write_text(ir.read_text().replace("simplify]", "place_shared]"))
    told = run_from(scale, ir)
    assert told["status"] == 2 and "emission needs layouts" in told["error"]


@pytest.mark.parametrize("arguments", [("compile", "--after", "sweep"), ("opt", "--pass", "sweep")])
def test_a_pass_that_is_none_is_told(scale: str, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    ir = tmp_path / "k.ir"
    dsl("compile", scale, "--after", "build", "-o", str(ir))
    command, *rest = arguments
    status, output = dsl(command, scale if command == "compile" else str(ir), *rest)
    assert status == 2 and "there is no pass 'sweep'" in output


def test_a_file_of_another_kind_is_refused(scale: str) -> None:
    status, output = dsl("opt", scale)
    assert status == 2 and "error[ir]" in output and "dsl compile --after PASS" in output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "IR"), "IR is a kernel's IR; this takes the program that it was made of"),
        (("count", "IR"), "'IR' is no PTX text"),
    ],
)
def test_where_the_ir_is_not_taken_is_told(scale: str, tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    ir = tmp_path / "k.ir"
    ir.write_text(dsl("compile", scale, "--emit", "ir")[1])
    status, output = dsl(*({"IR": str(ir)}.get(each, each) for each in arguments))
    assert status == 2 and says.replace("IR is", f"{ir} is").replace("'IR'", f"'{ir}'") in output
    assert dsl("run", scale, "--from", str(ir), "--device", "emulator")[0] == 0


def test_a_trace_has_the_ir_after_each_pass_and_what_it_changed(tmp_path: Path) -> None:
    folder = tmp_path / "trace" / "of"
    arguments = ("compile", SOFTMAX, "--schedule", "whole", "cols=20000")
    status, output = dsl(*arguments, "--trace", str(folder))
    assert status == 0
    labels = [f"{number:02}-{name}" for number, name in enumerate(["build", *NAMES])]
    assert [row.split()[0] for row in output.splitlines()] == labels
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [f"{label}.ir" for label in labels] + [f"{label}.diff" for label in labels[1:]]
    )
    last = folder / f"{labels[-1]}.ir"
    fresh = dsl(*arguments, "--after", NAMES[-1])[1]
    assert dsl("opt", str(last))[1] == fresh
    changes = {label.partition("-")[2]: _changes(folder / f"{label}.diff") for label in labels[1:]}
    assert changes["check_registers"] == []
    added = changes["insert_barriers"]
    assert added and all(re.match(r"[+] +barrier\(\) scope=", line) for line in added)
    placed = changes["place_shared"]
    assert all("shared_alloc" in line or "attribute shared_" in line for line in placed)


def _changes(path: Path) -> list[str]:
    """The lines of a difference that go or come, without the names of the files."""
    return [line for line in path.read_text().splitlines()[2:] if line[0] in "+-"]


def test_a_value_that_a_pass_makes_anew_keeps_its_name(tmp_path: Path) -> None:
    """Exchanges replace a converted value; the load before and the store behind it read as before."""
    dsl("compile", SOFTMAX, "--schedule", "whole", "cols=20000", "--trace", str(tmp_path))
    (before,) = tmp_path.glob("*-simplify.ir")
    (behind,) = tmp_path.glob("*-assign_layouts.ir")
    built, laid_out = before.read_text(), behind.read_text()
    named = re.compile(r"^ +(%[a-z]\w*) = \w+\(", re.M)
    assert set(named.findall(built)) <= set(named.findall(laid_out))


def test_a_trace_needs_a_folder(tmp_path: Path) -> None:
    status, output = dsl("compile", SOFTMAX, "--trace", str(tmp_path / "k.ir" / "x"))
    assert status == 0, output
    file = tmp_path / "file"
    file.write_text("")
    status, output = dsl("compile", SOFTMAX, "--trace", str(file))
    assert status == 2 and "cannot write to" in output


def test_a_pass_that_is_left_out_has_no_ir_behind_it(scale: str) -> None:
    status, output = dsl("compile", scale, "--after", "simplify", "--skip-pass", "simplify")
    assert status == 2 and "the pass 'simplify' is left out" in output


def test_llvm_ir_by_hand_runs_through_the_example(scale: str, tmp_path: Path) -> None:
    llvm, ptx = tmp_path / "k.ll", tmp_path / "k.ptx"
    dsl("compile", scale, "--emit", "llvm", "-o", str(llvm))
    dsl("compile", scale, "-o", str(ptx))
    assert ptx_from(str(llvm), ()) == ptx.read_text()
    text = llvm.read_text()
    edited, count = re.subn(r"(fmul .*)(0x4000000000000000|2\.0\S*)", r"\g<1>3.0", text)
    assert count
    llvm.write_text(edited)
    told = run_from(scale, llvm)
    assert told["passed"] is False and told["status"] == 1


@pytest.mark.parametrize(
    ("pattern", "edit", "says"),
    [
        (r"fmul", "fmull", "expected instruction opcode"),
        (r"\A;dsl .*", ";dsl {}", "this is no header of LLVM IR"),
        (r"\bret void", "br label %nowhere", "use of undefined value"),
    ],
)
def test_a_mistake_in_llvm_ir_is_at_its_line(scale: str, tmp_path: Path, pattern: str, edit: str, says: str) -> None:
    llvm = tmp_path / "k.ll"
    dsl("compile", scale, "--emit", "llvm", "-o", str(llvm))
    text, count = re.subn(pattern, edit, llvm.read_text(), count=1)
    assert count == 1
    llvm.write_text(text)
    line = next(i for i, row in enumerate(text.splitlines(), 1) if edit in row)
    told = run_from(scale, llvm)
    assert told["status"] == 2 and says in told["error"] and f"k.ll:{line}:" in told["error"]
