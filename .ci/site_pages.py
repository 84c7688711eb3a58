"""A hook of MkDocs: the site has each file outside docs/ to which a page leads, so that links work as on GitHub.

A Markdown file becomes a page, with the files that it leads to. Any other text becomes a page that shows it in colour.
A folder leads to its README.md, or else to a list of its files. All are below `outside/` in the site.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

OUTSIDE = PurePosixPath("outside")
FIRST = ("CHANGELOG.md", "CONTRIBUTING.md", "samples/README.md")
"""What the navigation names."""
LINK = re.compile(r"(?<!!)(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.M | re.S)
LANGUAGES = {".tile": "tile", ".py": "python", ".cu": "cuda", ".toml": "toml", ".ptx": "text", ".ipynb": "json"}


def root_of(config: Any) -> Path:
    return Path(config["config_file_path"]).parent


def text_of(path: Path) -> str:
    """The Markdown of a file or folder."""
    if path.is_dir():
        return f"# {path.name}\n\n" + "".join(f"- [{each.name}]({each.name})\n" for each in listed(path))
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    return f"# {path.name}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{text}\n````\n"


def listed(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.is_file() and each.suffix in LANGUAGES)


def place_of(path: Path, root: Path) -> PurePosixPath | None:
    """Where the site has a file or folder: below docs/ as it is, from elsewhere below `outside/`."""
    if not path.is_relative_to(root) or not path.exists():
        return None
    docs = root / "docs"
    if path.is_dir():
        index = path / "README.md"
        return place_of(index, root) if index.exists() else OUTSIDE / path.relative_to(root).as_posix() / "index.md"
    if path.is_relative_to(docs) and path.suffix not in {".tile", ".py"}:
        return PurePosixPath(path.relative_to(docs).as_posix())
    name = path.relative_to(root).as_posix()
    return OUTSIDE / (name if path.suffix == ".md" else f"{name}.md")


def links_of(text: str) -> Iterator[str]:
    for link in LINK.finditer(CODE.sub("", text)):
        if "://" not in link[2] and not link[2].startswith("mailto:"):
            yield link[2]


def base_of(path: Path) -> Path:
    """The folder from which the links of a page begin."""
    return path if path.is_dir() else path.parent


def reached(root: Path) -> dict[PurePosixPath, Path]:
    """The files and folders outside of the site's folder to which its pages lead, at any remove."""
    found: dict[PurePosixPath, Path] = {}
    waiting = [*(root / "docs").rglob("*.md"), *(root / name for name in FIRST)]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        place = place_of(path, root)
        if place is None:
            continue
        if place.parts[0] == OUTSIDE.name:
            found[place] = path
        if path.is_dir() or path.suffix == ".md":
            targets = {target_of(path, link) for link in links_of(text_of(path))} - seen
            seen |= targets
            waiting += targets
    return found


def target_of(path: Path, link: str) -> Path:
    """What a link of a page leads to: of a folder, its README.md if it has one."""
    target = Path(os.path.normpath(base_of(path) / link))
    return target / "README.md" if (target / "README.md").exists() else target


def on_files(files: Files, config: Any) -> Files:
    """MkDocs calls this with the files that it found."""
    for place, path in reached(root_of(config)).items():
        files.append(File.generated(config, str(place), content=text_of(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """MkDocs calls this with the text of each page: leads its links to where the site has the files, and writes code in
    tables as Python-Markdown wants it."""
    root = root_of(config)
    here = PurePosixPath(page.file.src_uri)
    path = root / "docs" / here
    if here.parts[0] == OUTSIDE.name:
        path = reached(root)[here]

    def led(link: re.Match[str]) -> str:
        if "://" in link[2] or link[2].startswith("mailto:"):
            return link[0]
        place = place_of(Path(os.path.normpath(base_of(path) / link[2])), root)
        return link[0] if place is None else link[1] + os.path.relpath(place, here.parent) + link[3]

    parts, at = [], 0
    for block in CODE.finditer(markdown):
        row = markdown[markdown.rfind("\n", 0, block.start()) + 1 :].startswith("|")
        # On GitHub, a `|` in a cell needs a backslash also in code. Python-Markdown shows the backslash there.
        code = block[0].replace("\\|", "|") if row else block[0]
        parts += [LINK.sub(led, markdown[at : block.start()]), code]
        at = block.end()
    return "".join([*parts, LINK.sub(led, markdown[at:])])
