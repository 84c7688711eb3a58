"""`python -m tests.page_commands [PAGE …]`: runs the commands of the pages, as they stand, in a copy of the tree.

A command is a line of an `sh` block, or a line behind `$` in any block. A backslash at its end continues it. Code in a
sentence is one, too, if it is a whole `dsl` command that names a file (`dsl run samples/add.tile`).

Each page gets a copy of its own: the work tree with its history and the files that the page has its reader save. Its
commands run in their order. What they take for granted (a peer, the PTX of another compiler, a plug-in) is put there
first: `PREPARED`. What cannot run here has a reason: `LEFT_OUT`. Prints one line a command, and ends with 1 if one
fails. tests/test_page_commands.py runs those that are quick.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dsl.runtime import gpu_reason

ROOT = Path(__file__).parents[1]
DOCS = [path for path in ROOT.glob("docs/**/*.md") if path.parent.name != "reference"]
"""The examples in docs/reference/ are mistakes on purpose: the tests of their tables run them."""
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS, ROOT / "samples/README.md"])
LIMIT = 900
"""Seconds for a command."""

PEER = """import numpy as np


def softmax(x):
    e = np.exp(x.astype(np.float32) - x.max(axis=1, keepdims=True).astype(np.float32))
    return (e / e.sum(axis=1, keepdims=True)).astype(x.dtype)
"""
FOREIGN = "tests/runtime/emulator/foreign"
PREPARED: dict[str, Callable[[Path], object]] = {
    "peers.py": lambda path: path.write_text(PEER),
    "transpose.ptx": lambda path: shutil.copy(ROOT / FOREIGN / "transpose.ptx", path),
    "softmax.ptx": lambda path: shutil.copy(ROOT / FOREIGN / "softmax.ptx", path),
    "mine.py": lambda path: shutil.copy(ROOT / "docs/examples/plugins/fewer_shuffles.py", path),
    "kernels": lambda path: shutil.copytree(ROOT / "samples", path),
    "by_hand": lambda path: path.symlink_to("benchmarks/peers/by_hand"),
    ".venv": lambda path: scripts_of(path / "bin", ("ruff", "mypy", "pre-commit", "pytest", "python", "dsl")),
}
"""What commands of pages take for granted, by name."""
PLACEHOLDERS = {"NAME=VALUE": "rows=8", "FILE": "samples/softmax.tile", "DIR": "stages", "…": ""}
"""What stands for a word of a block that its reader replaces."""


@dataclass(frozen=True)
class Command:
    page: Path
    line: int
    text: str
    """As the shell gets it, without what is said beside it."""
    inline: bool = False

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}: {self.text}"


@dataclass(frozen=True)
class LeftOut:
    pattern: str
    reason: str
    missing: Callable[[], object] = lambda: True
    """Whether it is missing here; a command is left out only if so."""


LEFT_OUT = [
    LeftOut(r"--devices (all|cuda)", "needs a GPU", gpu_reason),
    LeftOut(r"^dsl tune(?!.*--emulator).* --write", "needs a GPU: the emulator's winners need --emulator", gpu_reason),
    LeftOut(r"^dsl calibrate ", "needs a GPU: it fits times", gpu_reason),
    LeftOut(r"^ncu |--ncu ", "needs a GPU and Nsight Compute", lambda: gpu_reason() or not shutil.which("ncu")),
    LeftOut(r"\bdask |--executor (dask|ray)", "needs a cluster; tests/dsl/test_clusters.py has one of this host"),
    LeftOut(r"pytest -n 2$", ".ci/run runs it: the whole suite"),
    LeftOut(r"^\.ci/full", "runs this"),
]
QUICK = r"^(cd \S+; )?dsl ((explain|new|layout|compile|opt|schedule) |why (?!.*--measure)|check [\w/]+\.tile$)"
"""A command that CI runs, within a second or two. A page has what they need from such commands alone."""
STATUS = [
    (r"^dsl diff .*--from @HEAD", (0, 1), "whether they differ is for the work tree to say"),
    (r"(^|; )dsl diff ", (1,), "they differ"),
    (r"^dsl bisect .*--good HEAD~", (0, 2), "the last commits may have changed nothing"),
    (r"^dsl run .*--choose swizzle.sa=none", (1,), "a contract is broken"),
    (r"^dsl bench docs/last_warp.tile", (1,), "it shows races"),
    (r"^dsl run (oops|race).tile", (3,), "the tutorial shows a finding of the emulator"),
    (r"^dsl run slow.tile", (1,), "the tutorial breaks a contract"),
    (r"^dsl check automatic.tile", (2,), "the tutorial shows an error of the compiler"),
]
"""Exit statuses other than 0, and why they are right: the first row counts."""


def unfold(block: str) -> Iterator[tuple[int, str]]:
    """The lines of a block, with those that a backslash continues: (how many lines down, text)."""
    begun, parts = 0, []
    for number, line in enumerate(block.splitlines()):
        begun = begun if parts else number
        parts.append(line.removesuffix("\\").strip())
        if not line.endswith("\\"):
            yield begun, " ".join(parts)
            parts = []


def commands_of(page: Path) -> list[Command]:
    """In the page's order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for block in re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```", text, re.M | re.S):
        first, folder = text.count("\n", 0, block.start()) + 2, ""
        for down, line in unfold(block[2]):
            if block[1] == "sh" or line.startswith("$ "):
                command = re.sub(r"(^|\s+)#\s.*", "", line.removeprefix("$ ")).strip()
                found.append(Command(page, first + down, folder + command))
                if command.startswith("cd "):
                    folder = re.split(r";|&&", command)[0] + "; "
    prose = re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)
    for code in re.finditer(r"`((?:dsl|pytest|python3?) [^`]*)`", prose):
        found.append(Command(page, prose.count("\n", 0, code.start()) + 1, " ".join(code[1].split()), inline=True))
    return [each for each in sorted(found, key=lambda each: each.line) if each.text]


def files_of(page: Path) -> dict[str, str]:
    """The files that a page has its reader save: a block behind a sentence that ends with a file's name and a colon."""
    text = page.read_text(encoding="utf-8")
    return dict(re.findall(r"`(\w+\.\w+)`:\n\n```\w*\n((?!\$ ).*?)^```", text, flags=re.M | re.S))


def is_whole(command: Command) -> bool:
    """Whether it can run: within a sentence only with a file that exists, and with nothing left to fill in."""
    if not command.inline:
        return True
    words = command.text.split()
    return words[0] == "dsl" and not is_open(command) and any((ROOT / word).is_file() for word in words)


def is_open(command: Command) -> bool:
    return bool(re.search(r"…|\b[A-Z]{3,}\b(?!=)", command.text))


def filled(text: str) -> str:
    for word, value in PLACEHOLDERS.items():
        text = re.sub(rf"(?<![\w.]){re.escape(word)}(?![\w.])", value, text)
    return text


def is_quick(command: Command) -> bool:
    """Whether CI runs it: it compiles, draws or explains, and launches nothing."""
    return not command.inline and re.search(QUICK, command.text) is not None


def left_out(command: Command) -> str | None:
    """Why it is not run here, if so."""
    return next((row.reason for row in LEFT_OUT if re.search(row.pattern, command.text) and row.missing()), None)


def statuses_of(command: Command) -> tuple[int, ...]:
    return next((statuses for pattern, statuses, _ in STATUS if re.search(pattern, command.text)), (0,))


@contextmanager
def copy_of_tree(page: Path | None = None) -> Iterator[tuple[Path, dict[str, str]]]:
    """The work tree as it stands, with its history and the page's own files, and the environment of its commands."""
    with tempfile.TemporaryDirectory(prefix="dsl-pages-") as name:
        tree, scripts = Path(name, "dsl"), Path(name, "bin")
        subprocess.run(["git", "clone", "-q", ROOT, tree], check=True)
        asked = ["git", "ls-files", "-z", "--modified", "--others", "--exclude-standard"]
        changed = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for path in changed.split("\0")[:-1]:
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, tree / path) if (ROOT / path).exists() else (tree / path).unlink()
        for file, block in files_of(page).items() if page is not None else ():
            (tree / file).write_text(block, encoding="utf-8")
        scripts_of(scripts, ("dsl", "pytest", "python", "python3"))
        path = f"{scripts}:{os.environ['PATH']}"
        yield tree, {**os.environ, "PATH": path, "PYTHONPATH": str(tree), "XDG_CACHE_HOME": str(Path(name, "cache"))}


def scripts_of(folder: Path, programs: Iterable[str]) -> None:
    """Programs of this environment, which import what the working directory or PYTHONPATH has."""
    folder.mkdir(parents=True)
    modules = {"pytest": "pytest -p dsl.pytest_plugin", "python": "", "python3": "", "pre-commit": "pre_commit"}
    for program in programs:
        module = modules.get(program, program)
        (folder / program).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module and "-m "}{module} "$@"\n')
        (folder / program).chmod(0o755)


def is_named(name: str, command: Command) -> bool:
    """Whether a command has a file in the tree's root, and does not make it."""
    made = f"-m venv {name}" in command.text
    return not made and re.search(rf"(?<![\w/.]){re.escape(name)}(?!\w)", command.text) is not None


def prepare(command: Command, tree: Path) -> None:
    """Makes what the command takes for granted, unless it is there."""
    for name, make in PREPARED.items():
        if is_named(name, command) and not (tree / name).exists():
            make(tree / name)


def run(command: Command, tree: Path, environment: dict[str, str]) -> str | None:
    """What went wrong, if anything did."""
    prepare(command, tree)
    text = filled(command.text)
    try:
        done = subprocess.run(
            text, shell=True, cwd=tree, env=environment, capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return f"no end in {LIMIT} s"
    if done.returncode in (wanted := statuses_of(command)):
        return None
    status = f"exit status {done.returncode}, not {' or '.join(map(str, wanted))}"
    return f"{status}\n{done.stdout[-1500:]}{done.stderr[-1500:]}"


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_page(page: Path, totals: Counter[str]) -> None:
    """Runs a page's commands, and prints and counts how they end."""
    commands = [each for each in commands_of(page) if is_whole(each)]
    if not commands:
        return
    with copy_of_tree(page) as (tree, environment):
        for command in commands:
            if (reason := left_out(command)) is not None:
                print(f"left out ({reason}): {command}", flush=True)
                totals["left out"] += 1
                continue
            start, used = time.monotonic(), cpu_seconds()
            fault = run(command, tree, environment)
            how = "passed" if fault is None else "FAILED"
            totals[how] += 1
            figures = f"{time.monotonic() - start:.1f} s, {cpu_seconds() - used:.1f} s of CPU"
            print(f"{how} ({figures}): {command}\n{fault or ''}".rstrip(), flush=True)


def main(pages: list[str]) -> int:
    totals: Counter[str] = Counter()
    for page in [Path(each).resolve() for each in pages] or PAGES:
        run_page(page, totals)
    print(", ".join(f"{count} {how}" for how, count in totals.items()))
    return int(totals["FAILED"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
