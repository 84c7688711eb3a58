"""The samples that come with the compiler, and what a copy of one needs."""

from __future__ import annotations

import re
from pathlib import Path

from dsl.lowering.ir.location import TileError, closest
from dsl.text import tree as ast
from dsl.text.files import is_file, read_text
from dsl.text.program import packaged_files
from dsl.text.syntax import parse

PACKAGED = Path(__file__).parents[1] / "samples"


def folder() -> Path:
    """The folder of the samples: in a wheel below the package (setup.py), in a checkout beside it."""
    return PACKAGED if PACKAGED.is_dir() else PACKAGED.parents[1] / "samples"


def sample_names() -> list[str]:
    return sorted(path.stem for path in folder().glob("*.tile"))


def sample_path(name: str) -> Path:
    """The file of a sample, which is named with or without `.tile`. Raises TileError `option` for other names."""
    known = sample_names()
    stem = name.removesuffix(".tile")
    if stem not in known:
        hint = closest(stem, known) or "dsl new --list names the samples"
        raise TileError("option", None, f"there is no sample '{name}'", hint)
    return folder() / f"{stem}.tile"


def summary(name: str) -> str:
    """The first sentence of a sample's first comment. Its first line alone may end in the middle of a sentence."""
    lines: list[str] = []
    for line in read_text(sample_path(name)).splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return re.split(r"\.(?= [A-Z])", " ".join(lines), maxsplit=1)[0].removesuffix(".")


def imported(path: Path) -> dict[str, str]:
    """The texts of the samples that a sample imports, directly or indirectly, by the paths of the imports. Files of
    `std/` are no samples, and every program finds them."""
    found: dict[str, str] = {}
    own = set(packaged_files())
    todo = [path]
    # The loop appends to the list that it iterates over: a sample that is imported may import others.
    for each in todo:
        for block in parse(read_text(each), each.name).blocks:
            if isinstance(block, ast.Import) and block.path not in own and block.path not in found:
                other = folder() / block.path  # all samples are in one folder
                found[block.path] = read_text(other)
                todo.append(other)
    return found


def copies(name: str, path: Path) -> dict[Path, str]:
    """The files that a copy of the sample `name` at `path` consists of, with their texts: the sample first, then its
    tuned data and what it imports, which keeps its name. Raises TileError `file` if another file is in the way."""
    sample = sample_path(name)
    texts = {path: read_text(sample)}
    if is_file(tuned := sample.with_suffix(".tuned.json")):
        texts[path.with_suffix(".tuned.json")] = read_text(tuned)
    for place in texts:
        if place.exists():
            raise TileError("file", None, f"{place} exists", "choose another name")
    for other, text in imported(sample).items():
        place = path.parent / other
        if place == path:
            raise TileError("file", None, f"the sample imports another '{path.name}'", "choose another name")
        # Two samples may import the same one.
        if not place.exists():
            texts[place] = text
        elif read_text(place) != text:
            message = f"{place} exists, and is not the file that the sample imports"
            raise TileError("file", None, message, "copy the sample to another folder")
    return texts
