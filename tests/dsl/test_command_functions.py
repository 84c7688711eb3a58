"""The commands as functions of Python: the same as on the command line, as tables that are safe to show."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from lab_kernel import TURN, written

import dsl
from dsl.command import cli
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import DeviceError
from dsl.text import html

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "docs" / "examples" / "lab.ipynb"
ON = {"device": "emulator"}


@pytest.fixture(scope="module")
def turn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("turn"))


def printed(*words: Any) -> str:
    """What the command writes to standard output."""
    done = CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)
    assert done.exception is None, done.exception
    return "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip("\n")


# ---- as the command ----


@pytest.mark.parametrize(
    ("function", "options", "words", "as_json"),
    [
        (dsl.why, {"choice": "swizzle"}, ["--choice", "swizzle"], ["--json"]),
        (dsl.bench, ON, ["--device", "emulator"], ["--json", "-"]),
        (dsl.run, {"n": 64, "counters": True}, ["n=64", "--counters"], ["--json"]),
        (dsl.fuzz, {"count": 2, **ON}, ["--count", "2", "--device", "emulator"], ["--json"]),
        (
            lambda file, **options: dsl.bisect(file, "conflicts == 0", **options),
            {"from_": ["swizzle.b=none", "level.llvm=0"], **ON},
            ["--until=conflicts == 0", "--from=swizzle.b=none", "--from=level.llvm=0", "--device=emulator"],
            ["--json"],
        ),
        (
            dsl.ablate,
            {"choice": ["barrier"], "ceiling": True, **ON},
            ["--choice", "barrier", "--ceiling", "--device", "emulator", "--jobs", "0"],
            ["--json"],
        ),
        (
            dsl.diff,
            {"vs": {"swizzle.b": "none"}, **ON},
            ["--vs", "swizzle.b=none", "--device", "emulator"],
            ["--json"],
        ),
        (dsl.layouts, {"value": "b"}, ["--value", "b"], None),
        (dsl.layouts, {}, [], None),
    ],
    ids=["why", "bench", "run", "fuzz", "bisect", "ablate", "diff", "layout", "layouts"],
)
def test_a_function_gives_what_its_command_prints(
    turn: Path, request: pytest.FixtureRequest, function: Any, options: Any, words: list[str], as_json: Any
) -> None:
    name = request.node.callspec.id.removesuffix("s")
    found = function(turn, **options)
    assert str(found) == printed(name, turn, *words)
    if as_json is not None:
        assert found.to_dict() == json.loads(printed(name, turn, *words, *as_json))
    assert len(found) == len([*found]) and (found[:1] == [found[0]] if len(found) else name == "fuzz")
    assert_safe(found._repr_html_())


def test_ptx_is_counted_on_arrays_of_python() -> None:
    text = ROOT / "tests/runtime/emulator/foreign/transpose.ptx"
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    launch = {"entry": "plain", "grid": (2, 2), "block": (32, 8), "expect": "y == x.T", **ON}
    found = dsl.count(text, **launch, x=x, y="empty(f32[64, 64])", w=64, h=64)
    assert found[0].passed and found[0].figures["bank_conflicts"] == 3968
    wrong = dsl.count(text, **{**launch, "expect": "y == x"}, x=x, y="empty(f32[64, 64])", w=64, h=64)
    assert wrong[0].passed is False
    assert_safe(found._repr_html_())


def test_texts_may_be_a_list_and_numbers_of_numpy() -> None:
    text = ROOT / "tests/runtime/emulator/foreign/transpose.ptx"
    launch = {"entry": "plain", "grid": (np.int64(2), 2), "block": [32, np.int32(8)], "first": np.uint8(1), **ON}
    values = {"x": "zeros(f32[64, 64])", "y": "empty(f32[64, 64])", "w": np.int64(64), "h": np.float32(64).astype(int)}
    found = dsl.count([text, str(text)], **launch, **values)
    assert [row.figures["bank_conflicts"] for row in found] == [3968, 3968]  # of the whole grid


def test_numbers_of_numpy_are_dims_and_constants() -> None:
    module = dsl.parse(
        "kernel k(y: f32[n]; C = 1.5, B = false):\n    grid 1\n    i = arange(32)\n    y[i] = where(B, C, 0.0)\n",
        device="emulator",
    )
    plain = module.compile("k", n=32, C=2.5, B=True)
    assert module.compile("k", n=np.int64(32), C=np.float32(2.5), B=np.bool_(True)).ptx == plain.ptx
    with pytest.raises(TileError, match="dim 'n' is a count"):
        module.compile("k", n=np.float32(32))


def test_points_of_tuning_are_rows_the_first_in_order_first(scale: Path, tmp_path: Path) -> None:
    asked = {"log": tmp_path / "log.jsonl", "fresh": True, "n": np.int64(256), **ON}
    found = dsl.tune(scale, **asked)
    words = ["--log", tmp_path / "log.jsonl", "--fresh", "--device", "emulator", "--jobs", "0"]
    assert str(found) == printed("tune", scale, "n=256", *words)
    assert found.to_dict() == json.loads(printed("tune", scale, "n=256", *words, "--json"))
    fine = [row for row in found if row.place is not None]
    assert [row.place for row in found[: len(fine)]] == [*range(1, len(fine) + 1)] and len(fine) > 1
    assert sum(row.best for row in found) == 1 and fine[0].ties
    works = [(row.figures["sectors"], row.figures["wavefronts"], row.figures["work"]) for row in fine]
    assert works == sorted(works) and all("BLOCK" in row.settings for row in found)
    assert_safe(found._repr_html_())


def test_differences_are_rows(turn: Path) -> None:
    found = dsl.diff(turn, vs="swizzle.b=none", **ON)
    (choice,) = [row for row in found if row.what == "choice"]
    assert (choice.name, choice.b) == ("swizzle.b", "none")
    figures = {row.name: (row.a, row.b, row.ratio) for row in found if row.what == "figure"}
    assert figures["wavefronts"] == (128, 352, 2.75) and figures["sectors"][2] == 1
    lines = [row for row in found if row.what == "line" and row.name == "wavefronts"]
    assert sum(row.b - row.a for row in lines) == 352 - 128 and all(row.line and row.text for row in lines)
    assert [row.name for row in found if row.what == "level"][:1] == ["swizzle_shared"]
    assert not [row for row in dsl.diff(turn, vs="level.llvm=1", **ON) if row.what == "line" and row.a == row.b]


def test_a_module_says_what_it_says_of_its_calls(turn: Path) -> None:
    module = dsl.load(turn, device="emulator", choose={"swizzle.b": "none"})
    (row,) = dsl.why(module, choice="swizzle.b")
    assert row.taken == "none" and row.by == "--choose"
    (row,) = dsl.why(module, choice="swizzle.b", choose={"swizzle.b": "3, 4, 3"})
    assert row.taken == "3, 4, 3"
    with pytest.raises(TileError, match="text without a file"):
        dsl.why(dsl.parse(TURN))


def test_a_plugin_is_of_one_call_and_of_a_modules_own(turn: Path) -> None:
    wrong = turn.with_name("wrong.py")
    wrong.write_text("raise ValueError('of the plug-in')\n")
    with pytest.raises(TileError, match="of the plug-in"):
        dsl.why(turn, plugin=[wrong])
    assert len(dsl.why(turn))
    right = turn.with_name("right.py")
    right.write_text("")
    assert len(dsl.why(dsl.load(turn, plugins=[right])))


def test_options_are_checked_as_on_the_command_line(turn: Path) -> None:
    with pytest.raises(TileError, match=r"has no 'kindz' to set\n.*of the options: did you mean 'kinds'"):
        dsl.ablate(turn, kindz="swizzle", **ON)
    with pytest.raises(TileError, match="'--rounds': 3 is not in the range"):
        dsl.ablate(turn, rounds=3, **ON)
    with pytest.raises(TileError, match="'json' is for the command line"):
        dsl.ablate(turn, json=True, **ON)
    with pytest.raises(TileError, match="cannot read"):
        dsl.why(turn.with_name("none.tile"))
    assert dsl.run(turn, values={"n": 64}).record["dims"] == {"n": 64}


def test_an_error_comes_from_the_callers_line(turn: Path) -> None:
    with pytest.raises(TileError) as found:
        dsl.why(turn, choice="swizle")
    places = [entry.path.name for entry in found.traceback]
    assert places == ["test_command_functions.py", "functions.py"]


def test_what_fails_in_a_process_of_its_own_is_raised_as_what_it_is(
    turn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dsl.command import run
    from dsl.command.failures import DEVICE_FAILED, WRONG_INPUT, ChildFailure

    for status, kind in ((DEVICE_FAILED, DeviceError), (WRONG_INPUT, TileError)):
        record = {"code": "device", "message": "lost", "hint": None}

        def fails(*_: Any, status: int = status, record: Any = record) -> Any:
            raise ChildFailure("it is lost", status, [record])

        monkeypatch.setattr(run, "run_request", fails)
        monkeypatch.setattr(run, "repeated", lambda _: ("", []))
        with pytest.raises(kind, match="it is lost"):
            dsl.run(turn, **ON)


# ---- tables ----


def test_rows_of_an_ablation_stand_beside_the_first(turn: Path) -> None:
    found = dsl.ablate(turn, choice="swizzle.b", log=turn.with_name("log.jsonl"), **ON)
    base, none = found[0], found[1]
    assert (base.name, none.choose) == ("as chosen", {"swizzle.b": "none"})
    assert none.figures["wavefronts"] == 352 > base.figures["wavefronts"]
    page = found._repr_html_()
    assert re.search(r'<td class="n" style="background: rgba\(217[^"]*">352</td>', page)
    assert '<td class="n pale">=</td>' in page

    log = turn.with_name("log.jsonl")
    with log.open("a") as file:
        file.write("{cut sh\n")
    trials = dsl.trials(log)
    assert [each.choices for each in trials] == [row.choose for row in found]
    assert trials.to_dict()["unread"] == 1
    assert "swizzle.b=none" in str(trials) and "lines that are no trials: 1" in str(trials)
    with pytest.raises(TileError, match="cannot read"):
        dsl.trials(turn.with_name("no.jsonl"))


def test_shares_are_a_table_of_their_own(turn: Path) -> None:
    found = dsl.ablate(turn, shapley=2, kinds="swizzle", by="wavefronts", **ON)
    assert [(row.group, row.gain) for row in found] == [("swizzle.b", 224.0)]


def test_a_frame_needs_pandas_and_says_so(turn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(TileError, match=r"a frame needs pandas(.|\n)*pip install pandas"):
        dsl.layouts(turn).frame()


def test_a_frame_has_figures_as_columns(turn: Path) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = dsl.bench(turn, **ON).frame()
    assert frame.wavefronts[0] == 128 and frame.kernels[0] == ["turn"]
    assert [*dsl.layouts(turn).frame().name] == ["a", "b", "v"]
    assert dsl.run(turn, **ON).frame().passed[0]


# ---- what is shown ----


class Tags(HTMLParser):
    """The tags of a page and their attributes; style and other texts apart."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[tuple[str, str]] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {(tag, name) for name, _ in [*attrs, ("", None)]}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


SHOWN = {"div", "style", "span", "table", "thead", "tbody", "tr", "th", "td", "pre", "details", "summary"}
DRAWN = {"svg", "rect", "text"}


def assert_safe(page: str) -> list[str]:
    """No script, nothing that is loaded; the texts of the page."""
    tags = Tags()
    tags.feed(page)
    assert {tag for tag, _ in tags.found} <= SHOWN | DRAWN
    assert {name for tag, name in tags.found if tag in SHOWN} <= {"", "class", "style"}
    assert not re.search(r"url\(|@import|javascript", page)
    return tags.texts


def test_texts_are_escaped_wherever_they_come_from(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m"
    text = TURN.replace("    v = exp", f"    # {evil.replace(chr(27), '')}\n    v = exp").replace(
        "turn(y, x)\n", 'turn(y, x)\n    expect y == x  # "><img src=x>\n'
    )
    folder = tmp_path / "<b onclick=x>"
    folder.mkdir()
    found = dsl.run(written(folder, text), counters=True)
    assert not found.record["passed"]
    texts = assert_safe(found._repr_html_())
    assert any("<script>alert(1)</script>" in each for each in texts) and any("FAILED" in each for each in texts)
    assert_safe(html.page(html.title(evil, evil), html.table([evil], [[evil]]), html.note(evil), html.verbatim(evil)))
    assert "\x1b" not in html.safe(evil)


def test_a_kernel_shows_its_lines_and_after_a_run_their_heat(turn: Path) -> None:
    kernel = dsl.load(turn, device="emulator").compile("turn", n=32)
    before = assert_safe(kernel._repr_html_())
    assert "    v = exp(load(a[0 : T, 0 : T]).T)" in before and "warp instr" not in before
    x, y = np.ones((2, 32, 32), np.float32)
    kernel.run(y, x)
    page = kernel._repr_html_()
    assert "warp instr" in assert_safe(page)
    rows = {int(m[2]): m[0] for m in re.finditer(r'<tr>.*?<td class="n pale">(\s*)(\d+)</td>.*</tr>', page)}
    assert "rgba(217" in rows[7] and "rgba(" not in rows[3]  # what computes is warm, a declaration is not
    counters = kernel.result.counters.by_line[7]
    assert f">{counters.instructions}</td>" in rows[7]


def test_more_is_warm_and_less_is_cool() -> None:
    assert html.compared(20, 10).heat == -html.compared(5, 10).heat > 0
    assert html.compared(10, 10).text == "=" and html.compared("right", "right").text == "right"
    assert html.compared(0, 3).heat == -1 and html.compared(3, 0).heat == 1 and html.compared(None, 3).text == "-"
