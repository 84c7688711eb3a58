"""Documents lead somewhere: links and paths exist, samples and documents are listed, named options are real."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from dsl.command import COMMANDS, cli
from dsl.lowering.passes import PASSES

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("samples/*.md")])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_files(path: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(), flags=re.S)
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    missing = [link for link in links if "://" not in link and not (path.parent / link).exists()]
    assert not missing


def anchors(path: Path) -> set[str]:
    """Of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", path.read_text(), flags=re.S), re.M)
    kept = ("".join(c for c in heading.lower() if c.isalnum() or c in " -_") for heading in headings)
    return {each.replace(" ", "-") for each in kept}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_headings(path: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(), flags=re.S)
    links = [(path.parent / file, name) for file, name in re.findall(r"\]\(([\w./-]+\.md)#([^)]+)\)", text)]
    missing = [f"{file.name}#{name}" for file, name in links if file.exists() and name not in anchors(file)]
    assert not missing


PAGES = sorted({*DOCUMENTS, *ROOT.glob("dsl/**/README.md")})


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_lines_are_at_most_120_wide(path: Path) -> None:
    """Rows of tables, too: what is too long for one goes on in a row whose first cell is empty."""
    lines = path.read_text(encoding="utf-8").splitlines()
    assert not [f"{number}: {line}" for number, line in enumerate(lines, 1) if len(line) > 120]


def test_contributing_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:dsl|lowering|runtime|tests|ptx_templates|docs|benchmarks)/[\w./]*)`", text)
    named = [name for name in named if "NAME" not in name]
    assert len(named) > 20
    assert not [name for name in named if not (ROOT / name).exists()]


def test_every_sample_and_every_document_is_listed() -> None:
    listed = set(re.findall(r"\]\(([^)]+)\)", (ROOT / "samples/README.md").read_text()))
    assert {str(p.relative_to(ROOT / "samples")) for p in (ROOT / "samples").rglob("*.tile")} <= listed
    listed = set(re.findall(r"\]\(([^)]+)\)", (ROOT / "docs/README.md").read_text()))
    assert {p.name for p in (ROOT / "docs").glob("*.md")} - {"README.md"} <= listed


def test_commands_of_contributing_are_taken(tmp_path: Path) -> None:
    """Every `dsl …` line with options that exist, and passes that do; those that compile or draw are run."""
    lines = re.findall(r"^(?:DSL_TRACEBACK=1 )?dsl (.*?)\s*(?:#.*)?$", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert len(lines) >= 7
    names = {each.name for each in PASSES}
    fixed = {each.name for each in PASSES if not each.may_go}
    for line in lines:
        words = line.split()
        assert words[0] in COMMANDS, line
        for option, value in pairwise(words):
            if option in ("--print-after", "--skip-pass"):
                assert value in names - (fixed if option == "--skip-pass" else set()), line
        help_text = CliRunner().invoke(cli, [words[0], "--help"]).output
        assert all(word in help_text for word in words if word.startswith("--")), line
        if words[0] in ("compile", "layout"):
            arguments = [str(ROOT / word) if word.startswith("samples/") else word for word in words]
            done = CliRunner().invoke(cli, arguments, standalone_mode=False)
            assert done.exit_code == 0 and done.return_value == 0 and done.stdout, line
