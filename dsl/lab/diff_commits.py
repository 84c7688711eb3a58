"""The kernels of an example as the compiler of a commit makes them, in a process with that tree first on its path."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from dsl.lab.commits import TIME_LIMIT, TreeQuestion, answer_of, kernel_of, said_by
from dsl.lab.compiling import made_of
from dsl.lab.diff import GivenKernel
from dsl.lab.diff_choices import taken_in
from dsl.lab.diff_stages import code_texts
from dsl.lowering.ir.location import TileError


def kernels_in(tree: Path, asked: TreeQuestion, commit: str) -> dict[str, GivenKernel]:
    """What the compiler of a tree makes of an example's kernels: choices, PTX, and the other stages that it tells.
    TileError where it refuses."""
    from dsl.runtime.header import read

    said = said_by(tree, "why", asked.file, *asked.values, "--all", *asked.why)
    if "error" in said:
        raise refused(commit, asked, str(said["error"]), [row.get("code") for row in said.get("errors", [])])
    names = [kernel_of(row) for row in said["kernels"]]
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        message = f"at {commit} the example launches several variants of '{twice}': which is compared is not clear"
        raise TileError("option", None, message, "an example with one of them, or NAME=VALUE that makes them equal")
    ptx = texts_in(tree, asked, names, "ptx")
    if isinstance(ptx, str):
        raise refused(commit, asked, ptx)
    llvm = texts_in(tree, asked, names, "llvm")
    passes = passes_in(tree, asked) if len(names) == 1 else {}
    found = {}
    for at, (name, row) in enumerate(zip(names, said["kernels"], strict=True)):
        (header,) = read(ptx[at]).values()
        made = code_texts(ptx[at], header, header.entry)
        if isinstance(llvm, str):
            made.missing.append(f"no llvm at {commit}: {llvm}")
        if not passes:
            why = "tells none" if len(names) == 1 else "has several kernels, and --kernel would plan them anew"
            made.missing.append(f"no IR after each pass: {commit} {why}")
        made.texts = passes | ({} if isinstance(llvm, str) else {"llvm": llvm[at]}) | made.texts
        found[name] = GivenKernel(made_of(ptx[at], header, "counted"), taken_in(row["choices"]), made)
    return found


def refused(commit: str, asked: TreeQuestion, why: str, codes: list[Any] | None = None) -> TileError:
    first = why.strip().splitlines()[0] if why.strip() else "no answer"
    first = re.sub(r"^(?:\S+: )?error\[\w+\]: ", "", first)
    code = next((code for code in codes or [] if code), "option")
    return TileError(str(code), None, f"at {commit} {asked.file} does not compile: {first}")


def text_of(tree: Path, *words: str) -> tuple[bool, str]:
    """(whether a command in a tree does what it should, what it prints, or why not)."""
    try:
        done = answer_of(tree, *words)
    except subprocess.TimeoutExpired:
        return False, f"it did not end in {TIME_LIMIT:g} seconds"
    if done.returncode:
        return False, (done.stderr.strip().splitlines() or ["no answer"])[0]
    return True, done.stdout


def texts_in(tree: Path, asked: TreeQuestion, kernels: list[str], stage: str) -> list[str] | str:
    """The text of a stage of each kernel, or why there is none."""
    is_told, text = text_of(tree, "compile", asked.file, *asked.values, *asked.why, "--emit", stage)
    if not is_told or len(kernels) == 1:
        return [text] if is_told else text
    names = "|".join(map(re.escape, kernels))
    texts = re.split(rf"^(?://|;|#) (?:{names}) with .*\n", text, flags=re.M)[1:]
    return texts if len(texts) == len(kernels) else f"it tells {len(texts)} of {len(kernels)} kernels"


def passes_in(tree: Path, asked: TreeQuestion) -> dict[str, str]:
    """The IR of a single kernel after each pass."""
    with tempfile.TemporaryDirectory(prefix="dsl-diff-") as folder:
        is_told, _ = text_of(tree, "compile", asked.file, *asked.values, *asked.why, "--trace", folder)
        files = sorted(Path(folder).glob("*.ir")) if is_told else []
        return {each.stem.partition("-")[2]: each.read_text(encoding="utf-8") for each in files}
