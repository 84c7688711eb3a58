"""Which commit changed a figure. Each commit's tree runs in a process of its own, with that tree first on the path.

A tree is queried by `dsl run` and `dsl why` alone: options and JSON of the command line outlive changes of the code,
and an earlier compiler need not know of trials."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsl.lab.assignments import halve
from dsl.lab.diff_choices import ChoiceDifference, Numbered, Taken, differing, taken_in
from dsl.lab.predicates import Predicate, ends_differ
from dsl.lowering.ir.location import TileError
from dsl.text.files import resolved

TIME_LIMIT = 600.0
"""Most seconds for one command in a tree."""


@dataclass(slots=True)
class CommitBisection:
    """found: (hash, subject) of the commits where the answer changes; one, unless commits between could not be run;
    before, after: figures on both sides; choices: those in which the two trees differ."""

    commits: int
    start: Mapping[str, Any]
    end: Mapping[str, Any]
    holds_at_start: bool
    found: list[tuple[str, str]] = field(default_factory=list)
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    choices: list[ChoiceDifference] = field(default_factory=list)
    trials: int = 0


@dataclass(frozen=True, slots=True)
class TreeQuestion:
    """The query for each tree: the file, relative to its root; NAME=VALUE; further options of `dsl run`, and those of
    them that `dsl why` takes."""

    file: str
    values: Sequence[str]
    run: Sequence[str]
    why: Sequence[str]


def git(folder: Path, *words: str) -> str:
    """The output of a git command. TileError `option` if it fails."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise TileError("tool", None, f"git cannot be run: {error.strerror}") from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it fails"])[0]
        raise TileError("option", None, f"git {words[0]}: {said}", "a file of a git repository, and commits of it")
    return done.stdout.strip()


def file_in_repository(file: str) -> tuple[Path, str]:
    """The root of a file's repository, and its name there. TileError."""
    path = resolved(Path(file))
    root = Path(git(path.parent, "rev-parse", "--show-toplevel"))
    return root, str(path.relative_to(root))


@contextmanager
def worktree(root: Path, commit: str) -> Iterator[Path]:
    """A tree of the repository in a temporary folder, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="dsl-bisect-") as folder:
        tree = Path(folder, "tree")
        # --detach and --force: a branch that is checked out elsewhere, or a tree left by a killed run, must not stop
        # it.
        git(root, "worktree", "add", "--detach", "--force", str(tree), commit)
        try:
            yield tree
        finally:
            git(root, "worktree", "remove", "--force", str(tree))


def answer_of(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The result of a `dsl` command in a tree. Raises subprocess.TimeoutExpired."""
    paths = [str(tree), os.environ.get("PYTHONPATH", "")]
    # Trees write no bytecode: 24 s for the tests of bisect and diff with it compiled anew, 19.8 s with the bytecode of
    # pip.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPYCACHEPREFIX", None)  # no bytecode is written; pip's own lies beside the packages
    command = [sys.executable, "-m", "dsl", *words]
    how: dict[str, Any] = {"capture_output": True, "text": True, "errors": "replace", "timeout": TIME_LIMIT}
    return subprocess.run(command, cwd=tree, env=environment, **how)


def said_by(tree: Path, *words: str) -> dict[str, Any]:
    """The JSON of a `dsl` command in a tree; `error` if it printed none."""
    try:
        done = answer_of(tree, *words, "--json")
        said = json.loads(done.stdout)
        return said if isinstance(said, dict) else {"error": "no object"}
    except subprocess.TimeoutExpired:
        return {"error": f"it did not end in {TIME_LIMIT:g} seconds"}
    except ValueError:
        return {"error": (done.stderr.strip().splitlines() or ["no answer"])[-1]}


def figures_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a trial from the data of `dsl run --json`."""
    from dsl.runtime.emulator import Counters

    if "error" in said:
        # A finding's text names its kind; only races are no refusal and no fault of the device.
        codes = {row.get("code") for row in said.get("errors", [])}
        text = str(said["error"])
        # Status 2: the input is wrong, for this compiler.
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
    """The options that all kernels took, from the data of `dsl why --json --all`."""
    kernels = said.get("kernels", [])
    found: dict[Numbered, Taken] = {}
    for kernel in kernels:
        name = f"{kernel_of(kernel)}: " if len(kernels) > 1 else ""
        found |= {(f"{name}{stem}", number): taken for (stem, number), taken in taken_in(kernel["choices"]).items()}
    return found


def kernel_of(said: Mapping[str, Any]) -> str:
    """The name of a kernel in the data of `dsl why --json`."""
    return str(said["kernel"]).split()[0]


def bisect_commits(
    root: Path, good: str, bad: str, asked: TreeQuestion, predicate: Predicate, advance: Callable[[str], None]
) -> CommitBisection:
    """Where the answer of a predicate changes between two commits, along first parents. TileError if the answer is the
    same at both, or unknown there."""
    # First parents: the history of the branch itself, one commit after another.
    listed = git(root, "rev-list", "--reverse", "--first-parent", f"{good}..{bad}").splitlines()
    commits = [git(root, "rev-parse", f"{good}^{{commit}}"), *listed]
    # The two are one commit, or in the wrong order.
    if len(commits) < 2:
        raise TileError("option", None, f"no commit lies between '{good}' and '{bad}'", "--good COMMIT --bad COMMIT")
    known: dict[int, dict[str, Any]] = {}
    # One worktree that moves from commit to commit: nothing is built (260 commits took 10 runs and 15 s).
    with worktree(root, commits[0]) as tree:

        def figures(at: int) -> dict[str, Any]:
            if at not in known:
                git(tree, "checkout", "--detach", "--force", "--quiet", commits[at])
                known[at] = figures_of(said_by(tree, "run", asked.file, *asked.values, *asked.run))
                advance(known[at]["result"])
            return known[at]

        ends = [figures(0), figures(len(commits) - 1)]
        first = ends_differ(predicate, ends, (f"at {good}", f"at {bad}"))
        border = halve(len(commits) - 1, lambda at: predicate.holds(figures(at)), first)
        made = CommitBisection(len(commits) - 1, ends[0], ends[1], first)
        made.before, made.after = figures(border.low), figures(border.high)
        for commit in commits[border.low + 1 : border.high + 1]:
            made.found.append((commit, git(root, "show", "--no-patch", "--format=%s", commit)))
        logs = []
        for at in (border.low, border.high):
            git(tree, "checkout", "--detach", "--force", "--quiet", commits[at])
            logs.append(taken_in_all(said_by(tree, "why", asked.file, *asked.values, "--all", *asked.why)))
        made.choices, made.trials = differing(*logs), len(known)
    return made
