"""`python -m tests.packaged`: the wheel, an editable install, and what resolvers find for other systems. Needs network.

- The wheel of the tree and the wheel of its source distribution hold the same files: all that git tracks below `dsl/`,
  and the samples. The source distribution holds all that git tracks.
- The wheel and an editable install run a kernel and the copy of a sample, in a folder whose modules are named as our
  rooms are.
- uv finds wheels of all requirements for each row of `SYSTEMS`, and none for each row of `WITHOUT`.

One line a check; ends with 1 if one fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from itertools import product
from pathlib import Path

from tests.page_commands import copy_of_tree
from tests.test_import_name import USER, write_rooms

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
SYSTEMS = (
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-pc-windows-msvc",
    "aarch64-apple-darwin",
)
WITHOUT = ("x86_64-apple-darwin",)
"""llvmlite has no wheels from 0.48 on for Macs with Intel processors; once it has, README may say so."""
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
"""Not the tree that this runs in."""


def output(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, f"{command}: {done.stdout[-1000:]}{done.stderr[-1000:]}"
    return done.stdout


def tracked(tree: Path, *folders: str) -> set[str]:
    return {*output("git", "ls-files", "--cached", "--others", "--exclude-standard", *folders, cwd=tree).splitlines()}


def of_wheel(tree: Path) -> set[str]:
    """What a wheel must hold of the tree: all below `dsl/`, and the samples there, but no pages."""
    names = {*tracked(tree, "dsl"), *(f"dsl/{name}" for name in tracked(tree, "samples"))}
    return {name for name in names if not name.endswith(".md")}


def venv(folder: Path) -> Path:
    output(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    return folder / "bin"


def holds_all(tree: Path, work: Path) -> str:
    wanted = of_wheel(tree)
    bin_ = venv(work / "builds")
    output(bin_ / "pip", "install", "-q", "build", cwd=work)
    output(bin_ / "python", "-m", "build", "--outdir", work / "of_source", tree, cwd=work)  # a wheel of the source's
    output(bin_ / "pip", "wheel", "-q", "--no-deps", "-w", work / "of_tree", tree, cwd=work)
    for folder in ("of_tree", "of_source"):
        (wheel,) = (work / folder).glob("*.whl")
        held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
        assert held == wanted, f"{folder}: without {sorted(wanted - held)}, beside {sorted(held - wanted)}"
    (source,) = (work / "of_source").glob("*.tar.gz")
    with tarfile.open(source) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert tracked(tree) <= held, f"{source.name}: without {sorted(tracked(tree) - held)}"
    kinds = sorted({Path(name).suffix for name in wanted if Path(name).suffix not in ("", ".py")})
    return f"{len(wanted)} files, with {' '.join(kinds)}"


def works(bin_: Path, work: Path) -> str:
    """In a folder of a user, whose modules have the names of our rooms."""
    user = Path(tempfile.mkdtemp(dir=work))
    write_rooms(user, "files")
    (user / "main.py").write_text(USER)
    output(bin_ / "python", "main.py", cwd=user)
    output(bin_ / "dsl", "new", "mine", cwd=user)
    output(bin_ / "dsl", "run", "mine.tile", cwd=user)
    output(bin_ / "python", "-m", "dsl", "run", "mine.tile", cwd=user)
    output(bin_ / "dsl", "new", "fused.tile", "--from", "softmax_fused", cwd=user)  # imports another sample
    output(bin_ / "dsl", "run", "fused.tile", cwd=user)
    output(bin_ / "pip", "install", "-q", "pytest>=8,<10", cwd=user)
    assert "1 passed" in output(bin_ / "pytest", "mine.tile", cwd=user)
    return output(bin_ / "dsl", "--version", cwd=user).strip()


def wheel_works(tree: Path, work: Path) -> str:
    bin_ = venv(work / "wheel")
    (wheel,) = (work / "of_tree").glob("*.whl")
    output(bin_ / "pip", "install", "-q", wheel, cwd=work)
    return works(bin_, work)


def editable_works(tree: Path, work: Path) -> str:
    bin_ = venv(work / "editable")
    output(bin_ / "pip", "install", "-q", "-e", tree, cwd=work)
    place = output(bin_ / "python", "-c", "import dsl; print(dsl.__file__)", cwd=work).strip()
    assert Path(place) == tree / "dsl/__init__.py", place
    return works(bin_, work)


def resolves(tree: Path, work: Path) -> str:
    bin_ = venv(work / "uv")
    output(bin_ / "pip", "install", "-q", "uv", cwd=work)
    for system, python in product((*SYSTEMS, *WITHOUT), PYTHONS):
        asked = ["pip", "compile", "-q", "--python-platform", system, "--python-version", python]
        done = subprocess.run(
            [bin_ / "uv", *asked, "--only-binary", ":all:", "pyproject.toml"], cwd=tree, capture_output=True, text=True
        )
        assert (done.returncode == 0) == (system in SYSTEMS), f"{system}, Python {python}: {done.stderr or 'resolves'}"
        assert ("cuda-bindings" in done.stdout) == (system in SYSTEMS and "darwin" not in system), system
    return f"{len(SYSTEMS)} systems, {len(WITHOUT)} without wheels"


CHECKS: tuple[Callable[[Path, Path], str], ...] = (holds_all, wheel_works, editable_works, resolves)


def main() -> int:
    failed = False
    with copy_of_tree() as (tree, _), tempfile.TemporaryDirectory(prefix="dsl-packaged-") as name:
        for check in CHECKS:
            try:
                print(f"passed: {check.__name__}: {check(tree, Path(name))}", flush=True)
            except AssertionError as error:
                failed = True
                print(f"FAILED: {check.__name__}: {error}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
