"""docs/first_kernel.md does what it says: its file runs, breaks with its message, and counts what it tells."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dsl.command import cli

PAGE = Path(__file__).parents[2] / "docs" / "first_kernel.md"
TEXT = PAGE.read_text(encoding="utf-8")
KERNEL, OUTPUT, MISTAKE, SCHEDULES, PYTHON = re.findall(r"^```\w*\n(.*?)^```", TEXT, re.M | re.S)
COMMANDS = [line.split()[1:] for line in re.findall(r"(?:`|^\$ )(dsl [^`\n]*unit\.tile[^`\n]*)", TEXT, re.M)]


def run(*arguments: str) -> str:
    return CliRunner().invoke(cli, arguments, standalone_mode=False).stdout


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the page's file, without and then with its schedules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "unit.tile").write_text(KERNEL)
    return tmp_path


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) <= 80


def test_the_output_has_the_lines_of_the_page(here: Path) -> None:
    command, *lines = [line for line in OUTPUT.splitlines() if "…" not in line]
    said = run(*command.split()[2:]).splitlines()
    assert len(lines) > 3 and [line for line in said if line in lines] == lines


def test_the_mistake_is_reported_in_these_words(here: Path) -> None:
    (here / "unit.tile").write_text(KERNEL.replace("axis=1, keepdims=true", "axis=1", 1))
    done = CliRunner().invoke(cli, ["run", "unit.tile", "--device", "emulator"], standalone_mode=False)
    assert MISTAKE in done.stderr and done.return_value == 2


def test_the_schedules_count_what_the_page_tells(here: Path) -> None:
    (here / "unit.tile").write_text(KERNEL + "\n" + SCHEDULES)
    run("bench", "unit.tile", "--device", "emulator", "--json", "made.json")
    rows = {row["schedules"][0]: row["figures"] for row in json.loads((here / "made.json").read_text())["rows"]}
    assert all(f"{each['instructions']:,}" in TEXT for each in rows.values())
    assert (rows["warp"]["barriers"], rows["block"]["barriers"]) == (0, 1)


def test_its_commands_run(here: Path) -> None:
    (here / "unit.tile").write_text(
        KERNEL.replace("    expect", "    expect barriers == 0\n    expect", 1) + "\n" + SCHEDULES
    )
    assert len(COMMANDS) == 5
    for command in COMMANDS:
        done = CliRunner().invoke(cli, command, standalone_mode=False)
        assert done.exit_code == 0 and not done.return_value, done.output


def test_python_gets_rows_of_length_one(here: Path) -> None:
    names: dict = {}
    exec(PYTHON, names)
    assert abs((names["y"].astype("f8") ** 2).sum(axis=1) - 1).max() < 1e-2
