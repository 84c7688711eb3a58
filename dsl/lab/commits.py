"""Finds the commit that changed a figure. For each commit that is tried, a separate process runs the compiler of the
commit's own source tree.

The process runs only the commands `dsl run` and `dsl why`. Their options and JSON change less often than the Python
code, and older trees may not have `dsl/lab`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from dsl.lab.assignments import halve
from dsl.lab.diff_choices import ChoiceDifference, Numbered, Taken, differing, taken_in
from dsl.lab.predicates import Predicate, ends_differ
from dsl.lowering.ir.location import TileError
from dsl.text.files import resolved

TIME_LIMIT = 600.0
"""Time limit of one command in a tree, in seconds."""


class CommitBisection(Struct):
    """The result of a bisection over commits.

    `found` lists hash and subject of the commit that changed the answer. It has several elements if some commits could
    not be run. `before` and `after` are the figures before and after these commits. `choices` lists the choices that
    the compilers before and after make differently.
    """

    commits: int
    start: Mapping[str, Any]
    end: Mapping[str, Any]
    holds_at_start: bool
    found: list[tuple[str, str]] = field(default_factory=list)
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    choices: list[ChoiceDifference] = field(default_factory=list)
    trials: int = 0


class TreeQuestion(Struct, frozen=True):
    """The command line that runs in the source tree of each commit.

    `file` is the path relative to the tree's root. `values` are NAME=VALUE arguments. `run` holds further options of
    `dsl run`. `why` holds the subset of these options that `dsl why` accepts.
    """

    file: str
    values: Sequence[str]
    run: Sequence[str]
    why: Sequence[str]


def git(folder: Path, *words: str) -> str:
    """Runs a git command and returns its output. Raises a TileError `option` if the command fails."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise TileError("tool", None, f"git cannot be run: {error.strerror}") from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it fails"])[0]
        raise TileError("option", None, f"git {words[0]}: {said}", "a file of a git repository, and commits of it")
    return done.stdout.strip()


def file_in_repository(file: str) -> tuple[Path, str]:
    """The root of a file's git repository, and the file's path relative to it. Raises TileError."""
    path = resolved(Path(file))
    root = Path(git(path.parent, "rev-parse", "--show-toplevel"))
    return root, str(path.relative_to(root))


@contextmanager
def worktree(root: Path, commit: str) -> Iterator[Path]:
    """A context manager that checks out a commit in a temporary folder, and removes the folder at the end."""
    with tempfile.TemporaryDirectory(prefix="dsl-bisect-") as folder:
        tree = Path(folder, "tree")
        # --detach and --force: a branch checked out elsewhere, or a tree left by a killed run, must not prevent the
        # checkout.
        git(root, "worktree", "add", "--detach", "--force", str(tree), commit)
        try:
            yield tree
        finally:
            git(root, "worktree", "remove", "--force", str(tree))


def answer_of(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a `dsl` command in a source tree, which comes first in PYTHONPATH. A command that exceeds `TIME_LIMIT`
    counts as failed."""
    paths = [str(tree), os.environ.get("PYTHONPATH", "")]
    # Trees write no bytecode, but they read the bytecode that pip wrote. The tests of bisect and diff take 24 s if
    # bytecode is compiled anew, and 19.8 s with pip's bytecode.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPYCACHEPREFIX", None)  # pip's own bytecode is beside the packages
    command = [sys.executable, "-m", "dsl", *words]
    how: dict[str, Any] = {"capture_output": True, "text": True, "errors": "replace", "timeout": TIME_LIMIT}
    try:
        return subprocess.run(command, cwd=tree, env=environment, **how)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"it did not end in {TIME_LIMIT:g} seconds")


def said_by(tree: Path, *words: str) -> dict[str, Any]:
    """Runs a `dsl` command in a source tree, and returns its JSON. Without JSON, the result has the key `error`."""
    done = answer_of(tree, *words, "--json")
    try:
        said = json.loads(done.stdout)
        return said if isinstance(said, dict) else {"error": "no object"}
    except ValueError:
        return {"error": (done.stderr.strip().splitlines() or ["no answer"])[-1]}


def figures_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the data of `dsl run --json` to the figures of a trial."""
    from dsl.runtime.emulator import Counters

    if "error" in said:
        # A finding's text names its kind. Only a finding that names a race gives the result `race`. All other errors
        # are refusals or failures.
        codes = {row.get("code") for row in said.get("errors", [])}
        text = str(said["error"])
        # Status 2 means that this compiler rejects the input.
        result = "race" if "finding" in codes and "race" in text else "refused" if said.get("status") == 2 else "failed"
        return {"result": result, "reason": text.splitlines()[0] if text else ""}
    launches = said.get("launches") or [said]
    found: dict[str, Any] = {"result": "wrong" if said.get("passed") is False else "right"}
    for name in ("registers", "spills", "shared_bytes", "threads"):
        known = [launch[name] for launch in launches if launch.get(name) is not None]
        found |= {name: max(known)} if known else {}
    codes_made = [launch["machine_code"]["instructions"] for launch in launches if launch.get("machine_code")]
    found |= {"sass": sum(codes_made)} if codes_made else {}
    if said.get("times_us"):
        low, median, high = said["times_us"]
        found["time"] = (median, low, high)
    counters = said.get("counters") or {}
    return found | (Counters.from_dict(counters).figures if counters else {})


def taken_in_all(said: Mapping[str, Any]) -> dict[Numbered, Taken]:
    """Reads the choices of all kernels from the data of `dsl why --json --all`. Maps each choice to the option
    taken."""
    kernels = said.get("kernels", [])
    found: dict[Numbered, Taken] = {}
    for kernel in kernels:
        name = f"{kernel_of(kernel)}: " if len(kernels) > 1 else ""
        found |= {(f"{name}{stem}", number): taken for (stem, number), taken in taken_in(kernel["choices"]).items()}
    return found


def kernel_of(said: Mapping[str, Any]) -> str:
    """Returns the name of a kernel in the data of `dsl why --json`."""
    return str(said["kernel"]).split()[0]


def bisect_commits(
    root: Path, good: str, bad: str, asked: TreeQuestion, predicate: Predicate, advance: Callable[[str], None]
) -> CommitBisection:
    """Finds the commit between `good` and `bad` at which a predicate's answer changes, along first parents.

    Raises a TileError if the answer is the same at both commits, or unknown at one commit.
    """
    # First parents are the history of the branch itself, one commit after another.
    listed = git(root, "rev-list", "--reverse", "--first-parent", f"{good}..{bad}").splitlines()
    commits = [git(root, "rev-parse", f"{good}^{{commit}}"), *listed]
    # `good` and `bad` are the same commit, or in the wrong order.
    if len(commits) < 2:
        raise TileError("option", None, f"no commit lies between '{good}' and '{bad}'", "--good COMMIT --bad COMMIT")
    known: dict[int, dict[str, Any]] = {}
    # A single worktree checks out one commit after another. Nothing is built: 260 commits took 10 runs and 15 s.
    with worktree(root, commits[0]) as tree:

        def figures(at: int) -> dict[str, Any]:
            if at not in known:
                git(tree, "checkout", "--detach", "--force", "--quiet", commits[at])
                known[at] = figures_of(said_by(tree, "run", asked.file, *asked.values, *asked.run))
                advance(known[at]["result"])
            return known[at]

        ends = [figures(0), figures(len(commits) - 1)]
        first = ends_differ(predicate, ends, (f"at {good}", f"at {bad}"))
        low, high = halve(len(commits) - 1, lambda at: predicate.holds(figures(at)), first)
        made = CommitBisection(len(commits) - 1, ends[0], ends[1], first)
        made.before, made.after = figures(low), figures(high)
        for commit in commits[low + 1 : high + 1]:
            made.found.append((commit, git(root, "show", "--no-patch", "--format=%s", commit)))
        logs = []
        for at in (low, high):
            git(tree, "checkout", "--detach", "--force", "--quiet", commits[at])
            logs.append(taken_in_all(said_by(tree, "why", asked.file, *asked.values, "--all", *asked.why)))
        made.choices, made.trials = differing(*logs), len(known)
    return made
