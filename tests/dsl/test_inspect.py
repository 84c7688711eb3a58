"""`dsl inspect`: the page holds every level whole, its links lead from each instruction to the source, and it works."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from dsl.command import cli
from dsl.command.why import kernels
from dsl.kernels.compile import levels_of
from dsl.lowering.text.printer import PrintedNames, printed
from dsl.runtime.errors import DeviceError
from dsl.runtime.tools import find
from dsl.studies.inspect.page import TEMPLATE
from tests.dsl import browser

SMALL = ("samples/softmax.tile", "rows=8", "cols=1000")
LANES = ("--schedule", "lanes")
LARGE = ("samples/attention.tile", "d=128", "--schedule", "attend_tile", "TM=128")
"""Of the samples one of those with most code."""
PLANNED = {"choose": (), "skip_pass": (), "kernel": None, "schedule": None, "example": None, "device": None}


def lacks_assembler() -> bool:
    try:
        return not (find("ptxas") and find("nvdisasm"))
    except DeviceError:
        return True


needs_assembler = pytest.mark.skipif(lacks_assembler(), reason="there is no assembler")
needs_browser = pytest.mark.skipif(browser.PROGRAM is None, reason="there is no browser")


def dsl(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, list(arguments), standalone_mode=False)
    if isinstance(result.exception, click.ClickException):
        raise result.exception
    assert result.exception is None, result.exception
    return result


def data_of(page: Path) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="text/plain">([^<]*)</script>', page.read_text())
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def written(folder: Path, *arguments: str) -> Path:
    file = folder / "page.html"
    result = dsl("inspect", *arguments, "-o", str(file))
    assert result.return_value == 0, result.output
    return file


@pytest.fixture(scope="module")
def small_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("small"), *SMALL, *LANES, "--counters")


@pytest.fixture(scope="module")
def large_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("large"), *LARGE)


@pytest.fixture(scope="module")
def small(small_page: Path) -> dict[str, Any]:
    return data_of(small_page)


@pytest.fixture(scope="module")
def large(large_page: Path) -> dict[str, Any]:
    return data_of(large_page)


def chain(data: dict[str, Any], place: int) -> Iterator[tuple[int, int]]:
    while place >= 0:
        file, line, _, _, caller = data["places"][place]
        yield file, line
        place = caller


def levels(variant: dict[str, Any]) -> Iterator[tuple[list[str], list[int]]]:
    """Rows and places of each level, as the page makes them of the changes."""
    rows: list[tuple[str, int]] = []
    for level in variant["levels"]:
        for at, gone, texts, places in reversed(level["changes"]):
            rows[at : at + gone] = list(zip(texts, places, strict=True))
        yield [text for text, _ in rows], [place for _, place in rows]


def test_a_page_is_one_file_that_asks_for_nothing(small_page: Path) -> None:
    text = small_page.read_text()
    assert "{{" not in text
    assert not re.search(r"https?:|\bsrc=|<link|@import|fetch\(|XMLHttpRequest|import\(", TEMPLATE.read_text())
    assert "default-src 'none'" in text


def test_stages_are_whole_and_their_places_those_of_the_operations(small: dict[str, Any]) -> None:
    (kernel,) = kernels(SMALL[0], SMALL[1:], {**PLANNED, "schedule": "lanes", "arch": "sm_90"})
    (variant,) = small["variants"]
    names, made, passed = PrintedNames(), list(levels(variant)), 0
    for name, _, level in levels_of(kernel.program, kernel.request):
        told, (rows, _) = variant["levels"][passed], made[passed]
        passed += 1
        text = printed(level, names).partition("\nsource 0 ")[0]
        wanted = [re.sub(r" @[\d:+<]+(?=$| \{)", "", row) for row in text.splitlines()]
        assert told["name"] == name
        assert rows == [row for row in wanted if not row.startswith(("passes [", "holds ["))]
    assert passed == len(made) > 20
    rows, places = made[-1]
    assert [places[row] for row in variant["operation_rows"]] == variant["operations"][:-1]
    assert variant["ptx"]["rows"] == kernel.compiled.body.splitlines()
    assert {key for choice in variant["choices"] for key in choice["keys"]} == kernel.choices.keys()
    assert all(choice["override"].keys() | {choice["taken"]} == {*choice["options"]} for choice in variant["choices"])


@pytest.mark.long
@needs_assembler
@pytest.mark.parametrize("which", ["small", "large"])
def test_every_machine_instruction_leads_to_the_source(which: str, request: pytest.FixtureRequest) -> None:
    """Those that ptxas adds itself, of which it says the brace before all code, to the head of the kernel: where the
    stack is, what descriptors are of. They are at most three."""
    data = request.getfixturevalue(which)
    (variant,) = data["variants"]
    sass, ptx = variant["sass"], variant["ptx"]
    assert "why" not in sass, sass["why"]
    at_head, reached = 0, set()
    for address, row, operation in zip(sass["addresses"], sass["ptx"], sass["operations"], strict=True):
        if address < 0:  # a label
            continue
        assert 0 <= row < len(ptx["rows"])
        if ptx["operations"][row] < 0:
            assert ptx["rows"][row] == "{" and operation == len(variant["operations"]) - 1
            at_head += 1
        else:
            assert ptx["operations"][row] == operation
        lines = list(chain(data, variant["operations"][operation]))
        assert lines[-1][0] == 0
        assert all(data["files"][file]["text"].splitlines()[line - 1].strip() for file, line in lines)
        reached |= set(lines)
    assert at_head <= 3
    assert sum(a >= 0 for a in sass["addresses"]) > 300
    kernel = [line for file, line in reached if file == 0]
    assert len(set(kernel)) >= 4
    figures = int(sass["figures"].split()[0])
    if "reports no live registers" in sass["figures"]:
        assert figures == 255 and not sass["live"] and "13.3 does" in sass["figures"]
    else:
        assert 8 < max(sass["live"]["GPR"]) <= figures


def test_rows_of_code_are_linked(large: dict[str, Any]) -> None:
    (variant,) = large["variants"]
    for name in ("ptx", "llvm"):
        level = variant[name]
        code = [(r, o) for r, o in zip(level["rows"], level["operations"], strict=True) if re.match(r"\t\w|  %", r)]
        assert len(code) > 3000
        assert min(operation for _, operation in code) >= 0
    calls = [place for place in large["places"] if place[4] >= 0]
    assert calls, "places of what is inlined have those of their calls"


def test_the_largest_page_is_small(large_page: Path) -> None:
    assert large_page.stat().st_size < 1_000_000


def test_lines_cost_what_run_counts(small: dict[str, Any]) -> None:
    said = json.loads(dsl("run", *SMALL, *LANES, "--device", "emulator", "--counters", "--json").output)
    (variant,), (launch,) = small["variants"], said["launches"]
    found = variant["counters"]
    assert found["launches"] == 1
    for name in ("instructions", "global_load_sectors", "moves"):
        assert found["totals"][name] == launch["counters"][name]
        assert sum(count for _, count in found["ptx"][name]) == found["totals"][name]
        lines = {str(line): count for file, line, count in found["lines"][name] if file == 0}
        assert lines == {line: counts[name] for line, counts in launch["by_line"].items() if counts[name]}
    loads = {row for row, _ in found["ptx"]["global_load_sectors"]}
    assert loads and all("ld.global" in variant["ptx"]["rows"][row] for row in loads)


def test_tiles_have_their_pictures(small: dict[str, Any]) -> None:
    tiles = {tile["title"]: tile for tile in small["variants"][0]["tiles"]}
    tile = tiles["v: f32[2, 256]"]
    assert tile["about"] == "vector [1, 8], lanes [1, 32], warps [2, 1]"
    assert tile["svg"].startswith("<svg") and "v =" in small["files"][0]["text"].splitlines()[tile["line"] - 1]


def test_a_kernel_by_name_is_the_one_that_the_example_launches(tmp_path: Path) -> None:
    """As that aligns its arrays, which a kernel by itself does not know of."""
    titles, codes = set(), set()
    for arguments in ([], ["--kernel", "v0"]):
        (variant,) = data_of(written(tmp_path, "samples/reduction.tile", *arguments))["variants"]
        titles.add(variant["title"])
        codes.add("\n".join(variant["ptx"]["rows"]))
    assert len(titles) == len(codes) == 1


def test_two_variants_share_their_places(tmp_path: Path) -> None:
    vs = ["--vs", "schedule=block", "--vs", "pass.clean=off"]
    data = data_of(written(tmp_path, *SMALL, *LANES, *vs))
    first, second = data["variants"]
    assert [first["label"], second["label"]] == ["A", "B"]
    assert "with lanes" in first["title"] and "with block" in second["title"]
    assert not {level["name"] for level in second["levels"]} >= {"clean"}
    assert set(first["operations"]) & set(second["operations"])
    assert [file["name"] for file in data["files"]] == [SMALL[0], "std/rows.tile"]


def test_without_an_assembler_the_page_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(program: str) -> Path:
        raise DeviceError("tool", f"{program} is not installed", "pip install it")

    monkeypatch.setattr("dsl.runtime.tools.find", missing)
    (variant,) = data_of(written(tmp_path, "samples/add.tile"))["variants"]
    assert variant["sass"] == {"why": "ptxas is not installed\nhint: pip install it", "rows": []}
    assert variant["ptx"]["rows"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["samples/attention_backward.tile"], "--kernel attend or --kernel of_queries or --kernel of_keys"),
        (["samples/add.ptx"], "is not a .tile file"),
        (["samples/add.tile", "--vs", "schedule"], "'schedule' is not NAME=VALUE"),
        (["samples/softmax.tile", "--vs", "swizzle.none=1"], "no choice has the key 'swizzle.none'"),
        (["samples/reduction.tile", "--kernel", "v3", "--counters"], "the example does not launch 'v3'"),
    ],
)
def test_what_cannot_be_shown_is_an_error(arguments: list[str], says: str, tmp_path: Path) -> None:
    result = dsl("inspect", *arguments, "-o", str(tmp_path / "page.html"))
    assert result.return_value == 2
    assert says in result.output
    assert not (tmp_path / "page.html").exists()


# ---- in a browser ----


@pytest.fixture
def opened(large_page: Path, tmp_path: Path) -> Iterator[browser.Page]:
    page = browser.Page(large_page, tmp_path)
    try:
        yield page
    finally:
        page.close()


SCROLL = """(async () => {
  const column = page.columns.find(column => column.name === "ptx"), draw = column.draw.bind(column), spent = [];
  column.draw = () => { const start = performance.now(); draw(); spent.push(performance.now() - start); };
  let drawn = 0;
  for (let i = 0; i < 120; i++) {
    column.view.scrollTop += column.view.scrollHeight / 120;
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    drawn = Math.max(drawn, column.drawn.size);
  }
  const rows = [...column.drawn].every(([i, node]) => node.lastChild.textContent === column.rows[i].text);
  const atEnd = column.drawn.has(column.rows.length - 1);
  return [spent.sort((a, b) => a - b)[spent.length >> 1], spent.length, drawn, rows, atEnd];
})()"""
HOVER = """(() => {
  const column = page.columns.find(column => column.name === "sass"), spent = [];
  for (let i = 0; i < 100; i++) {
    const start = performance.now();
    page.hover(column, (i * 79) % column.rows.length);
    for (const each of page.columns) each.draw();
    spent.push(performance.now() - start);
  }
  return spent.sort((a, b) => a - b)[50];
})()"""
FRAME = 1000 / 60
SASS = "page.columns.find(column => column.name === 'sass')"
HEAT = """[...page.tile.drawn].map(([at, row]) => [at + 1, row.querySelector(".cell").textContent])
  .filter(([, count]) => count)"""
HEATED = """(async () => {
  page.setHeat("global_load_sectors");
  while (!page.tile.drawn.size) await new Promise(requestAnimationFrame);
})()"""
PRODUCT = """(async () => {
  const column = page.columns.find(column => column.name === "sass");
  const at = column.rows.findIndex(row => /HG?MMA/.test(row.text));
  column.show(at);
  while (!column.drawn.has(at)) await new Promise(requestAnimationFrame);
  const box = column.drawn.get(at).getBoundingClientRect();
  return [box.left + 90, box.top + 9];
})()"""
MARKED = """page.columns.map(column => [
  column.name, [...column.marks].filter(([, level]) => level === 2).map(([row]) => column.rows[row].text)])"""


@needs_browser
@needs_assembler
def test_the_largest_page_scrolls_and_marks_in_a_frame(opened: browser.Page) -> None:
    """The work of a frame, which is the page's; how often frames come is the machine's."""
    median, frames, drawn, texts, at_end = opened.value(SCROLL)
    assert frames >= 100 and texts and at_end
    assert drawn < 150
    assert median < FRAME
    assert opened.value(HOVER) < FRAME
    requests = [event for event in opened.events if event["method"] == "Network.requestWillBeSent"]
    assert [event for event in requests if not event["params"]["request"]["url"].startswith("file:")] == []
    assert not [event for event in opened.events if event["method"] == "Runtime.exceptionThrown"]


@needs_browser
@needs_assembler
def test_what_is_under_the_mouse_is_marked_everywhere(opened: browser.Page) -> None:
    """A product's machine instruction: its PTX, its operation, its line; a click keeps that, Escape frees it."""
    x, y = opened.value(PRODUCT)
    opened.mouse("mouseMoved", x, y)
    found = dict(opened.value(MARKED))
    assert len(found["tile"]) == 1 and "dot(" in found["tile"][0]
    assert any("mma" in text for text in found["ptx"])
    assert len(found["ir"]) == 1 and "dot(" in found["ir"][0]
    opened.mouse("mousePressed", x, y)
    opened.mouse("mouseReleased", x, y)
    opened.mouse("mouseMoved", x, y + 60)
    assert opened.value("page.kept") and dict(opened.value(MARKED)) == found
    assert "instruction." in opened.value("document.getElementById('choices').textContent")
    opened.ask("Input.dispatchKeyEvent", type="keyDown", key="Escape")
    assert dict(opened.value(MARKED)) == {name: [] for name in found}


@needs_browser
@needs_assembler
def test_the_slider_shows_the_ir_after_each_pass(opened: browser.Page, large: dict[str, Any]) -> None:
    (variant,) = large["variants"]
    show = partial("page.showLevel(page.columns[1], {0}, {1}), page.columns[1].rows.map(row => row.text)".format)
    for at, (rows, _) in enumerate(levels(variant)):
        if at % 8 == 0:
            assert opened.value(show(at, "false")) == rows
    at = next(i for i, level in enumerate(variant["levels"]) if level["name"] == "assign_layouts")
    changed = opened.value(show(at, "true"))
    gone = sum(change[1] for change in variant["levels"][at]["changes"])
    assert gone and len(changed) == len(list(levels(variant))[at][0]) + gone


@needs_browser
@needs_assembler
def test_counts_stand_beside_source_and_code(small_page: Path, small: dict[str, Any], tmp_path: Path) -> None:
    """Heat of the counter that is chosen; beside machine code, how often its line of PTX ran; a line's choices."""
    page = browser.Page(small_page, tmp_path)
    try:
        (variant,) = small["variants"]
        found = variant["counters"]
        executed = page.value(f"{SASS}.rows.map(row => row.executed ?? null)")
        counts = dict(map(tuple, found["runs"]))
        assert executed == [None if row < 0 else counts.get(row, 0) for row in variant["sass"]["ptx"]]
        page.value(HEATED)
        lines = [[line, f"{count:,}"] for file, line, count in found["lines"]["global_load_sectors"] if file == 0]
        assert lines and page.value(HEAT) == lines
        page.value(f"page.keep(page.tile, {lines[0][0] - 1})")
        said = page.value("[...document.querySelectorAll('#choices code')].map(node => node.textContent)")
        assert "choose address.x.load: plain" in said
        assert page.value("document.querySelector('#tiles svg').getBoundingClientRect().width") > 200
        assert not [event for event in page.events if event["method"] == "Runtime.exceptionThrown"]
    finally:
        page.close()


def test_other_is_refused_like_a_value(tmp_path: Path) -> None:
    result = dsl("inspect", "samples/add.tile", "--vs", "=1", "-o", str(tmp_path / "page.html"))
    assert result.return_value == 2 and "'=1' is not NAME=VALUE" in result.output
