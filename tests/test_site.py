"""The documents as a site: mkdocs.yml names every page. Where MkDocs is installed, the site builds, and links work."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAV = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
needs_mkdocs = pytest.mark.skipif(find_spec("material") is None, reason="mkdocs-material is not installed")


def test_the_navigation_has_each_page_once() -> None:
    named = re.findall(r"[\w/]+\.md", NAV)
    assert len(named) == len(set(named))
    inside = {each for each in named if not each.startswith("outside/")}
    assert inside == {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert all((ROOT / each.removeprefix("outside/")).is_file() for each in named if each.startswith("outside/"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


@needs_mkdocs
def test_the_site_builds_without_warning(site: Path) -> None:
    """`--strict` refuses a link to a page or heading that is not there."""
    assert (site / "index.html").is_file() and (site / "tutorial" / "8_attention.html").is_file()


@needs_mkdocs
def test_links_that_leave_the_folder_lead_to_copies(site: Path) -> None:
    text = (site / "outside" / "samples" / "index.html").read_text(encoding="utf-8")
    assert 'href="softmax.tile.html"' in text and 'href="../../reductions.html"' in text
    for page in set(site.rglob("*.html")) - {site / "404.html"}:
        for link in re.findall(r'href="([^"#:]+\.(?:html|md|tile|py))[#"]', page.read_text(encoding="utf-8")):
            assert not link.startswith("/") and (page.parent / link).exists(), f"{page}: {link}"


@needs_mkdocs
def test_tile_text_is_coloured(site: Path) -> None:
    text = (site / "first_kernel.html").read_text(encoding="utf-8")
    assert re.search(r'<span class="k\w*">kernel</span>', text)


@needs_mkdocs
def test_code_in_tables_has_no_backslashes_of_markdown(site: Path) -> None:
    found = "".join(page.read_text(encoding="utf-8") for page in site.glob("*.html"))
    cells = re.findall(r"<td>.*?</td>", found, re.S)
    assert any("<code>T in f16|f32</code>" in cell for cell in cells)
    assert not [cell for cell in cells if "\\|" in cell]


@needs_mkdocs
def test_lists_are_lists(site: Path) -> None:
    """Python-Markdown wants an empty line before a list, where GitHub wants none."""
    for page in site.rglob("*.html"):
        text = re.sub(r"<pre.*?</pre>", "", page.read_text(encoding="utf-8"), flags=re.S)
        assert not re.search(r"<p>[^<]*\n- ", text), page
