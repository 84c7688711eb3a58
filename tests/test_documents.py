"""Documents lead somewhere: links and paths exist, samples and documents are listed. Lines are counted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("samples/*.md")])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_files(path: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(), flags=re.S)
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    missing = [link for link in links if "://" not in link and not (path.parent / link).exists()]
    assert not missing


def lines_of_code(path: Path) -> int:
    """Lines that are not blank and no comments, outside of examples."""
    is_counted, count = True, 0
    for line in path.read_text().split("# ==== examples ====")[0].splitlines():
        is_counted = is_counted if line[:1].isspace() or not line else not line.startswith("example")
        count += is_counted and bool(line.strip()) and not line.lstrip().startswith("#")
    return count


def test_the_page_of_samples_counts_their_lines() -> None:
    page = (ROOT / "samples" / "README.md").read_text()
    assert f"the {sum(map(lines_of_code, (ROOT / 'dsl' / 'std').glob('*.tile')))} lines of `dsl/std`" in page
    rows = re.findall(r"^\| (\w+\.tile) \| (\d+) \| (\d+|–) \|", page, re.M)
    assert rows
    for name, own, by_hand in rows:
        assert int(own) == lines_of_code(ROOT / "samples" / name), name
        if by_hand != "–":
            assert int(by_hand) == lines_of_code(ROOT / "benchmarks" / "peers" / "by_hand" / name), name


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


FOLDERS = ("dsl", "tests", "docs", "benchmarks", "samples", "findings", "editors")
TEXTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(p for f in FOLDERS for e in ("md", "py", "toml", "lark", "tile") for p in (ROOT / f).rglob(f"*.{e}")),
    ]
)
PATH = re.compile(
    r"`((?:[\w-]+/)+(?:[\w.-]+\.\w+)?|[\w-]+\.(?:py|toml|lark))`"
    rf"|(?<![\w./-])((?:{'|'.join(FOLDERS)})/[\w./-]*\.(?:py|md|toml|tile|lark))\b"
)
"""What a text calls a file or a folder: in backticks, the end of its path; elsewhere, the path from the root on."""
OF_USERS = {"runtime.py"}


def tails() -> set[str]:
    """The paths of all files and folders, and the ends of these: `dsl/text/`, `text/`, `text/tree.py`, `tree.py`."""
    found = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if "__pycache__" not in path.parts:
                parts = path.relative_to(ROOT).parts
                found |= {"/".join(parts[i:]) + "/" * path.is_dir() for i in range(len(parts))}
    return found | {f"{folder}/" for folder in FOLDERS} | {path.name for path in ROOT.iterdir()}


def lost_paths(path: Path, known: set[str]) -> list[str]:
    """The paths in a text that lead nowhere: those from the root on, or from the text's own folder, must be whole."""
    named = {first or second for first, second in PATH.findall(path.read_text(encoding="utf-8"))}
    named = {name for name in named if "NAME" not in name} - OF_USERS
    whole = {name for name in named if name.split("/")[0] in FOLDERS}
    lost = {name for name in whole if not ((ROOT / name).exists() or (path.parent / name).exists())}
    return sorted(lost | {name for name in named - whole if name not in known})


def test_paths_lead_to_files() -> None:
    """In documents, and in comments and docstrings."""
    known = tails()
    found = {str(path.relative_to(ROOT)): lost for path in TEXTS if (lost := lost_paths(path, known))}
    assert not found
    assert sum(len(PATH.findall(path.read_text(encoding="utf-8"))) for path in TEXTS) > 500


def test_a_lost_path_is_found(tmp_path: Path) -> None:
    text = tmp_path / "page.md"
    here, names = "tests/test_documents.py", ["gone.py", "gone/", "/".join(("tests", "gone.py"))]
    gone = "".join(f"`{name}`" for name in names)  # not written here: this file is a text, too
    text.write_text(f"`{here}`, `test_documents.py`, `tests/`, {here}, {gone} and in a command {names[-1]}\n")
    assert lost_paths(text, tails()) == names


def test_every_sample_and_every_document_is_listed() -> None:
    listed = set(re.findall(r"\]\(([^)]+)\)", (ROOT / "samples/README.md").read_text()))
    assert {str(p.relative_to(ROOT / "samples")) for p in (ROOT / "samples").rglob("*.tile")} <= listed
    for index in (ROOT / "docs/README.md", ROOT / "docs/tutorial/README.md"):
        listed = set(re.findall(r"\]\(([^)]+)\)", index.read_text()))
        assert {p.name for p in index.parent.glob("*.md")} - {"README.md"} <= listed
    assert all(f"]({each}/README.md)" in (ROOT / "docs/README.md").read_text() for each in ("tutorial", "reference"))


def test_every_block_has_a_language() -> None:
    """So that sites and editors colour it. `console` is a command behind `$` with its output, `text` is anything."""
    bare = []
    for path in DOCUMENTS:
        opens = True
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("```"):
                bare += [f"{path.relative_to(ROOT)}:{number}"] if opens and line == "```" else []
                opens = not opens
        assert opens, f"{path}: a block does not end"
    assert not bare
