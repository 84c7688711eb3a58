"""Contracts: what they say of code, and that a regression fails one at its line with the choice behind it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dsl
from dsl.command import cli
from dsl.examples.evidence import Evidence
from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import Overrides, resolve
from dsl.examples.report import Report, Verdict
from dsl.examples.run import run_example
from dsl.kernels.compile import compile_variant
from dsl.kernels.variant import Request
from dsl.lowering.ir.choices import Asked, Choices
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import DeviceError
from dsl.runtime.tools import find
from dsl.studies.check import check_file
from dsl.text import contracts
from dsl.text.program import parse_program

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "contracts.md"
BEGIN = "<!-- terms: tests/dsl/test_contracts.py writes this list -->\n"
END = "<!-- end of terms -->"

PRODUCT = """
kernel product(c: f32[m, n], a: f16[m, k], b: f16[k, n]; TM = 64, TN = 64, TK = 32):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(f32[TM, TN])
    for p in range(0, k, TK):
        acc = dot(a[i : i + TM, p : p + TK], b[p : p + TK, j : j + TN], acc)
    c[i : i + TM, j : j + TN] = acc

schedule tile of product:
    TM = 64
    instruction acc: mma.sync

example:
    m, n, k = 64, 64, 128
    a, b, c = randn(f16[m, k]), randn(f16[k, n]), empty(f32[m, n])
    product(c, a, b) with tile
    expect c ~= ref.matmul(a, b) within 1e-2
"""
ROWS = """
kernel softmax(y: f16[rows, cols], x: f16[rows, cols]; ROWS = 4, COLS = 256):
    grid cdiv(rows, ROWS)
    r = block(0) * ROWS
    v = x[r : r + ROWS, 0 : COLS].to(f32)
    e = exp(v - max(v, axis=1, keepdims=true))
    y[r : r + ROWS, 0 : COLS] = (e / sum(e, axis=1, keepdims=true)).to(f16)

schedule lanes of softmax:
    layout v: vector [1, 8], lanes [1, 32], warps [4, 1]

example:
    rows, cols = 8, 256
    x, y = randn(f16[rows, cols]), empty(f16[rows, cols])
    softmax(y, x) with lanes
    expect y ~= ref.softmax(x, axis=1) within 1e-3
"""

WARPS = """
kernel turned(y: f32[m, n], x: f32[m, n]; M = 4, N = 32):
    grid 1
    shared s: f32[M, N]
    s[:, :] = x[0 : M, 0 : N]
    y[0 : M, 0 : N] = s[arange(M)[:, None], (N - 1 - arange(N))[None, :]]

example:
    m, n = 4, 32
    x, y = randn(f32[m, n]), empty(f32[m, n])
    turned(y, x)
    expect sum(y) ~= sum(x) within 1e-4
"""


SUMS = """
kernel sums(y: f32[rows], x: f32[rows, cols]; COLS = 64):
    grid rows
    r = block(0)
    y[r : r + 1] = sum(x[r : r + 1, 0 : COLS], axis=1)

example:
    rows, cols = 64, 64
    x, y = randn(f32[rows, cols]), empty(f32[rows])
    sums(y, x)
    expect y ~= sum(x, axis=1) within 1e-3
"""


def run(text: str, choose: dict[str, str] | None = None, given: tuple[str, ...] = (), **settings: Any) -> Report:
    program = parse_program(text)
    overrides = resolve(program, program.examples[0], list(given)) if given else Overrides()
    made = LaunchSettings(contracts=True, choose=Asked(choose or {}), **settings)
    return run_example(program, program.examples[0], "emulator", "", overrides, made)


def judged(text: str, lines: str, **settings: Any) -> list[Verdict]:
    """What is said of contracts below the example's launch."""
    return run(text + "".join(f"    expect {line}\n" for line in lines.splitlines()), **settings).contracts


@cache
def figure(text: str, name: str) -> Any:
    """What a term comes to without a regression."""
    (verdict,) = judged(text, f"{name} == 0")
    return verdict.figure


def lacks(program: str) -> str | None:
    try:
        find(program)
    except DeviceError as error:
        return str(error)
    return None


needs_assembler = pytest.mark.skipif(bool(lacks("ptxas") or lacks("nvdisasm")), reason="there is no assembler")


# ---- regressions ----

Patch = Callable[[pytest.MonkeyPatch], None]


def rule(kind: str, option: str) -> Patch:
    """A fault of the compiler: its rule takes another option of a kind."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = Choices.choose

        def choose(self: Choices, each: str, subject: str, options: Any, taken: str, **rest: Any) -> Any:
            taken = option if each == kind and option in options else taken
            return right(self, each, subject, options, taken, **rest)

        monkeypatch.setattr(Choices, "choose", choose)

    return patch


Regression = dict[str, str] | tuple[str, str] | Patch
"""Options that are forced, an edit of the text, or a fault of the compiler."""

REGRESSIONS: list[tuple[str, str, Regression, str]] = [
    (PRODUCT, "conflicts(sa) <= {}", {"swizzle.sa": "none"}, "swizzle.sa is none by --choose"),
    (PRODUCT, "conflicts <= {}", {"pass.swizzle_shared": "off"}, "pass.swizzle_shared is off by --choose"),
    (PRODUCT, "wavefronts <= {}", rule("swizzle", "none"), "swizzle.sb is none"),
    (PRODUCT, "instructions <= {}", {"matrix.sa.load": "plain"}, "matrix.sa.load ×7 is plain by --choose"),
    (PRODUCT, "instructions <= {}", rule("matrix", "plain"), "matrix.sa.load"),
    (PRODUCT, "barriers(p) == {}", {"unroll.p": "8"}, "unroll.p is 8 by --choose"),
    (PRODUCT, "choice instruction.acc == m16n8k16", rule("instruction", "m16n8k8"), "instruction.acc ×6 is m16n8k8"),
    (PRODUCT, "registers <= {}", {"vector.sa.copy": "1"}, "vector.sa.copy ×2 is 1 by --choose"),
    (PRODUCT, "choice copy.sa == async", rule("copy", "load_store"), "copy.sa ×6 is load_store"),
    (PRODUCT, "barriers == {}", {"access.sa.load": "own"}, "access.sa.load ×7 is own by --choose"),
    (WARPS, "barriers == {}", rule("barrier", "block"), "barrier.s.load is block"),
    (PRODUCT, "barriers == {}", {"pipeline.p": "1"}, "pipeline.p is 1 by --choose"),
    (PRODUCT, "shared <= {}", rule("pipeline", "5"), "pipeline.p is 5"),
    (PRODUCT, "spills == {}", ("TM = 64\n", "TM = 64\n    maxnreg 32\n"), "line 12: maxnreg 32"),
    (PRODUCT, "occupancy >= {}", rule("vector", "1"), "vector.sa.copy"),
    (ROWS, "instructions <= {}", {"math.exp": "exact"}, "math.exp is exact by --choose; the rule takes fast"),
    (ROWS, "sectors(x) <= {}", ("[1, 8], lanes [1, 32]", "[1, 1], lanes [4, 8]"), "layout.v is pinned by"),
]


@needs_assembler
@pytest.mark.parametrize(
    ("text", "line", "regression", "told"),
    REGRESSIONS,
    ids=[f"{each[1].split()[0]}-{each[3].split()[0]}" for each in REGRESSIONS],
)
def test_a_regression_fails_a_contract_at_its_line(
    text: str, line: str, regression: Regression, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the choice that caused it."""
    line = line.format(figure(text, line.split()[0])) if "{}" in line else line
    whole = f"{text}    expect {line}\n"
    assert run(whole).passed
    choose = regression if isinstance(regression, dict) else {}
    if isinstance(regression, tuple):
        assert regression[0] in whole
        whole = whole.replace(*regression)
    elif callable(regression):
        regression(monkeypatch)
    report = run(whole, choose)
    (failed,) = report.failed
    assert report.passed is False and all(check.passed for check in report.checks)
    assert whole.splitlines()[failed.line - 1].strip() == f"expect {line}"
    assert "error[contract]" in failed.rendered and failed.message.startswith(line.removeprefix("choice "))
    assert any(told in each for each in failed.why), failed.why


# ---- where they are judged ----


def test_what_the_assembler_tells_is_not_judged_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> None:
        raise DeviceError("tool", "ptxas is not installed", "pip install it")

    monkeypatch.setattr("dsl.runtime.assemble", missing)
    report = run(ROWS + "    expect spills == 0, registers <= 1, barriers == 0\n")
    assert [(each.held, each.reason) for each in report.contracts] == [
        (None, "ptxas is not installed; pip install it"),
        (None, "ptxas is not installed; pip install it"),
        (True, None),
    ]
    assert report.passed


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"given": ("rows=4",)}, "it applies to the example as written, without rows=4"),
        ({"schedule": "lanes"}, "it applies to the example as written, without --schedule lanes"),
    ],
)
def test_an_example_s_contract_is_of_the_example_as_it_is_written(settings: Any, reason: str) -> None:
    """Constants and choices make no other example."""
    (verdict,) = judged(ROWS, "barriers == 7", **settings)
    assert verdict.held is None and verdict.reason == reason
    assert judged(ROWS, "barriers == 7", given=("ROWS=8",))[0].held is False


def test_a_device_and_a_time_are_told_where_they_are_not_met() -> None:
    verdicts = judged(
        ROWS, 'barriers == 7 on "H100"\nbarriers == 0 on "sm_90"\ntime <= 2.0 * copy(bytes(x) + bytes(y))'
    )
    assert [each.held for each in verdicts] == [None, True, None]
    assert verdicts[0].reason == 'it applies to "H100"; this is emulator (emulated H200, sm_90)'
    assert verdicts[2].reason == "only a GPU measures it; this is emulator (emulated H200, sm_90)"


@pytest.mark.gpu
def test_a_time_is_judged_on_a_gpu() -> None:
    lines = "time <= 1000 * copy(bytes(x) + bytes(y)), registers <= 255", "time <= 1e-6 * copy(1 << 20)"
    program = parse_program(ROWS + "".join(f"    expect {line}\n" for line in lines))
    report = run_example(program, program.examples[0], "cuda:0", "", Overrides(), LaunchSettings(contracts=True))
    assert [each.held for each in report.contracts] == [True, True, False]


def test_contracts_of_a_schedule_hold_for_what_is_made_with_it() -> None:
    """Those of what it is like, too, unless it says them itself."""
    text = ROWS.replace(
        "example:",
        "schedule other of softmax:\n    like lanes\n    expect barriers == 1, shared <= ROWS * 1\n\nexample:",
    ).replace("warps [4, 1]\n", "warps [4, 1]\n    expect barriers == 2, conflicts == 0\n", 1)
    found = {each.text: each for each in run(text.replace("with lanes", "with other")).contracts}
    assert {text: each.held for text, each in found.items()} == {
        "conflicts == 0": True, "barriers == 1": False, "shared <= ROWS * 1": True,
    }  # fmt: skip
    assert found["shared <= ROWS * 1"].bound == 4
    assert [each.text for each in run(text).failed] == ["barriers == 2"]


@needs_assembler
def test_check_judges_what_is_known_without_a_run(tmp_path: Path) -> None:
    path = tmp_path / "a.tile"
    line = "    expect conflicts(sa) == 1, barriers(p) == 2, spills == 1, sectors == 5\n"
    path.write_text(f"{PRODUCT}{line}    expect choice swizzle.sa == none\n")
    told = {
        True: ["conflicts(sa) == 1", "spills == 1", "swizzle.sa == none"],
        False: ["conflicts(sa) == 1", "swizzle.sa == none"],
    }
    for assemble, wanted in told.items():
        found = check_file(path, assemble)
        assert [error.message.partition(":")[0] for error in found.sorted()] == wanted
        assert {error.code for error in found.errors} == {"contract"}
        assert [note.message for note in found.notes] == (
            [] if assemble else ["1 contract is not judged: this needs the assembler"]
        )


def test_contracts_of_a_schedule_that_nothing_launches_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.tile"
    path.write_text(ROWS + "\nschedule unused of softmax:\n    ROWS = 8\n    expect barriers == 9\n")
    (note,) = check_file(path).notes
    assert note.message == "contracts of 'unused' are not judged: no example launches 'softmax' with it"


def test_the_commands_end_with_status_1(tmp_path: Path) -> None:
    path = tmp_path / "a.tile"
    path.write_text(ROWS + "    expect barriers == 7, wavefronts == 1, shared == 1\n")
    for words in (["run", "--device", "emulator"], ["check"]):
        done = CliRunner().invoke(cli, [*words, str(path)], standalone_mode=False)
        assert done.return_value == 1 and "a.tile:17:" in done.stderr and "error[contract]" in done.stderr
    done = CliRunner().invoke(cli, ["run", "--device", "emulator", "--json", str(path)], standalone_mode=False)
    said = json.loads(done.stdout)
    assert [(each["code"], each["line"]) for each in said["errors"]] == [("contract", 17)] * 2
    assert said["passed"] is False and [each["held"] for each in said["contracts"]] == [False, True, False]


def test_a_text_edited_by_hand_has_figures_and_no_choices() -> None:
    lines = "conflicts(s) == 0\nchoice swizzle.s == none\nbarriers == 1\nshared == 512\nwavefronts == 2"
    program = parse_program(WARPS)
    ptx = compile_variant(program, Request("turned", None, {"m": 4, "n": 32})).ptx
    found = {each.name: (each.held, each.reason, each.why) for each in judged(WARPS, lines, ptx=ptx)}
    by_hand = (None, "the kernel's text was edited by hand", [])
    assert found == {
        "conflicts(s)": by_hand, "choice swizzle.s": by_hand, "shared": by_hand,
        "barriers": (False, None, []), "wavefronts": (False, None, []),
    }  # fmt: skip


def test_the_sectors_of_arrays_are_those_of_the_launch() -> None:
    kernel = dsl.parse(ROWS, device="emulator").compile("softmax", "lanes", rows=8, cols=256)
    counted = kernel.run(np.zeros((8, 256), np.float16), np.ones((8, 256), np.float16)).counters
    assert {name: each.sectors for name, each in counted.by_array.items()} == {"y": 128, "x": 128}
    assert counted.totals.sectors == 256


# ---- the table ----


def test_the_document_has_the_list(update_golden: bool) -> None:
    before, rest = DOCUMENT.read_text().split(BEGIN)
    written, after = rest.split(END)
    if update_golden:
        DOCUMENT.write_text(before + BEGIN + contracts.listing() + END + after)
        written = contracts.listing()
    assert written == contracts.listing()


@pytest.mark.parametrize("row", contracts.TERMS.values(), ids=[row.usage for row in contracts.TERMS.values()])
def test_a_row_is_whole(row: contracts.Term) -> None:
    """Its example is a line, choices of its kinds exist, its figure is read."""

    text = ROWS.replace("    layout", f"    expect {row.example}\n    layout", 1)
    (line, _) = next(iter(parse_program(text).schedules.values())).lines
    assert contracts.row_of(line) is row  # type: ignore[arg-type]
    kinds = (ROOT / "docs" / "choices.md").read_text()
    assert [kind for kind in row.kinds if f"`{kind}`" not in kinds] == []
    assert callable(getattr(Evidence, row.read))


def test_a_name_of_the_example_is_no_term() -> None:
    text = ROWS.replace("    softmax(y", "    spills = 3\n    softmax(y")
    report = run(text + "    expect spills == 3\n")
    assert report.passed and not report.contracts


def test_explain_tells_a_term() -> None:
    said = CliRunner().invoke(cli, ["explain", "sectors"], standalone_mode=False).stdout
    assert "sectors(TENSOR)" in said and "times the fewest" in said
    with pytest.raises(TileError, match="there is no term"):
        parse_program(ROWS.replace("    layout", "    expect sector <= 1\n    layout", 1))


def test_scattered_stores_are_more_than_the_fewest_sectors() -> None:
    """64 blocks store 4 bytes each, and 8 sectors would hold them: each by itself needs one."""
    one, loaded, all_of_them = judged(SUMS, "sectors(y) <= 1.05\nsectors(x) == 1\nsectors <= 1.05")
    assert (one.held, one.figure) == (False, 8.0)
    assert loaded.held is True and all_of_them.held is False


@pytest.mark.parametrize("lines", ["pipeline p: 2", "TK = 16\n    pipeline p: 2"])
def test_wavefronts_are_the_fewest_where_nothing_conflicts(lines: str) -> None:
    """A pass of `cp.async` writes bytes of one line of global memory: rows of 64 bytes take two, and no conflict."""
    text = PRODUCT.replace("    TM = 64\n", f"    TM = 64\n    {lines}\n")
    wavefronts, conflicts = judged(text, "wavefronts == 1\nconflicts == 0")
    assert wavefronts.held is conflicts.held and conflicts.figure is not None
