"""docs/tutorial/: its files run, its commands print what the pages show, and its Python works. docs/first_kernel.md is
step one, which tests/dsl/test_first_kernel.py runs."""

from __future__ import annotations

import re
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from dsl.command import cli
from tests.page_commands import statuses_of

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "tutorial").glob("[0-9]_*.md"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)


def run(text: str, page: Path) -> str:
    """What a command prints. `dsl` runs in this process; `sed` needs a shell."""
    from tests.page_commands import Command

    if text.startswith("sed "):
        subprocess.run(text, shell=True, check=True)
        return ""
    words = shlex.split(text)
    assert words[0] == "dsl"
    done = CliRunner().invoke(cli, words[1:], standalone_mode=False)
    status = done.return_value or done.exit_code
    assert status in statuses_of(Command(page, 1, text)), f"{text}: {status}\n{done.output}"
    return done.output


def sessions(block: str) -> list[tuple[str, list[str]]]:
    """Commands, each with the lines that the page shows of its output."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.strip():
            found[-1][1].append(line)
    return found


def missing(shown: list[str], output: str) -> list[str]:
    """The lines of a page that the output does not have in this order. `…` at the end stands for the rest of a line."""
    lines, lost = iter(line.rstrip() for line in output.splitlines()), []
    for line in shown:
        head = line.rstrip().removesuffix("…").rstrip()
        is_head = line.rstrip().endswith("…")
        if not any(each.startswith(head) if is_head else each == line.rstrip() for each in lines):
            lost.append(line)
    return lost


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_step_does_what_it_shows(page: Path, here: Path) -> None:
    text, shown = page.read_text(encoding="utf-8"), 0
    for block in BLOCK.finditer(text):
        language, body = block.groups()
        if language == "tile":
            name = re.search(r"Save this as\s+`(\w+\.tile)`:\n\n$", text[: block.start()])
            assert name is not None, f"nobody saves this:\n{body}"
            (here / name[1]).write_text(body)
        elif language == "python":
            exec(body, {})
        else:
            assert language == "console"
            for command, lines in sessions(body):
                output = run(command, page)
                assert not missing(lines, output), f"{command}\n{output}"
                shown += len(lines)
    assert shown > 5


def test_a_line_that_is_not_printed_is_found() -> None:
    output = "one\ntwo  of them\nthree\n"
    assert missing(["one", "two …", "three"], output) == []
    assert missing(["two"], output) == ["two"]
    assert missing(["three", "one"], output) == ["one"]


def test_there_are_eight_steps_one_behind_the_other() -> None:
    assert len(PAGES) == 7
    for page, after in pairwise(PAGES):
        assert f"({after.name})" in page.read_text(encoding="utf-8").splitlines()[-1]
