"""The workflow for a public host tests the Pythons of pyproject.toml, with the commands that people use."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / ".github" / "workflows" / "test.yml").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_all_pythons_are_tested() -> None:
    said = [each.rsplit(" ", 1)[1] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert re.search(r"python: \[(.*)\]", TEXT)[1] == ", ".join(f'"{each}"' for each in said)


def test_commands_are_those_of_ci_and_the_readme() -> None:
    script, readme = (ROOT / ".ci" / "run").read_text(), (ROOT / "README.md").read_text()
    for command in ("ruff check .", "ruff format --check .", "mypy"):
        assert f"- run: {command}\n" in TEXT and f".venv/bin/{command}" in script
    assert "-e '.[test]'" in readme and TEXT.count('pip install -e ".[test]"') == 2
    assert "test" in PROJECT["optional-dependencies"]
