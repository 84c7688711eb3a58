"""Makes the kernels for one side of a comparison from code that this compiler did not make.

There are three kinds of such code. PTX may replace kernels in the launch of an example. PTX without an example is only
assembled. The compiler of another commit runs in a process with the commit's tree first on the import path.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

from dsl.lab.commits import TreeQuestion, answer_of, kernel_of, said_by
from dsl.lab.compiling import made_of
from dsl.lab.diff import DiffKernel, Side
from dsl.lab.diff_choices import taken_in
from dsl.lab.diff_levels import code_texts
from dsl.lab.place import TuningPlace
from dsl.lab.provenance import versions
from dsl.lab.trial import StepFacts, Trial
from dsl.lowering.ir.location import TileError, closest

PLACES = re.compile(r"^\s*\.loc\s.*$", re.M)


def given_kernels(ptx: str, name: str) -> dict[str, DiffKernel]:
    """The kernels of a PTX text with our headers, by their names in the `.tile` file. Raises LaunchError."""
    from dsl.kernels.edited import headers_of

    found = {}
    for kernel, header in headers_of(ptx).items():
        made = made_of(ptx, header, "counted")
        if made.error is not None:
            raise TileError("ptx", None, f"{name}: {made.error}")
        found[kernel] = DiffKernel(kernel, None, code_texts(ptx, header, header.entry), made)
    return found


def code_side(ptx: str, name: str, label: str, place: TuningPlace, kernel: str | None) -> Side:
    """A side for a PTX text alone, with the assembler's figures of one entry. Raises TileError, LaunchError."""
    from dsl.runtime.errors import DeviceError
    from dsl.runtime.header import read
    from dsl.runtime.machine_code import machine_code
    from dsl.runtime.signature import signatures, target_of
    from dsl.runtime.tools import assemble

    found, headers = signatures(ptx), read(ptx)
    entry = the_one({headers[each].kernel if each in headers else each: each for each in found}, name, kernel)
    header = headers.get(entry)
    arch, threads = target_of(ptx) or place.arch, found[entry].block
    plain = ptx if header is not None else PLACES.sub("", ptx)  # without our header, .loc rows refer to missing strings
    facts = StepFacts(entry, None, {}, threads and prod(threads))
    if header is not None:
        facts.kernel, facts.schedule = header.kernel, header.schedule
    with suppress(DeviceError):  # without the tools, only the texts are compared
        code = assemble(plain, arch, entry)
        facts.registers, facts.spills = code.registers, code.spill_stores + code.spill_loads
        facts.shared_bytes = header.shared_bytes if header else code.shared
        facts.instructions = machine_code(code.cubin, entry).instructions
    about: dict[str, Any] = {"source": sha256(ptx.encode()).hexdigest(), "device": place.name, "driver": place.driver}
    about |= {"versions": versions(), "call": facts.kernel, "example": None, "index": 0, "values": {}, "options": {}}
    steps = [{"kernel": facts.kernel, "schedule": facts.schedule}]
    trial = Trial(**about, types={}, dims={}, steps=steps, launches=[facts], status="compiled")
    kernels = [DiffKernel(facts.kernel, None, code_texts(plain, header, entry, arch))]
    note = f"{name} is assembled, not run" + ("" if header else "; its shared bytes are the static ones")
    return Side(label, f"{facts.kernel} for {arch}", trial, kernels, notes=[note])


def the_one(entries: dict[str, str], name: str, kernel: str | None) -> str:
    """The chosen entry, or the only entry. Raises a TileError `option`."""
    if kernel is not None and kernel not in entries:
        hint = closest(kernel, entries) or f"it has {', '.join(entries) or 'none'}"
        raise TileError("option", None, f"{name} has no kernel '{kernel}'", hint)
    if kernel is None and len(entries) != 1:
        hint = " or ".join(f"--kernel {each}" for each in entries) or "a PTX text with an .entry"
        raise TileError("option", None, f"{name} has {len(entries)} kernels, one is compared", hint)
    return entries[kernel or next(iter(entries))]


# ---- commits ----


def kernels_in(tree: Path, asked: TreeQuestion, commit: str) -> dict[str, DiffKernel]:
    """The kernels of an example from a tree's compiler, with their choices and PTX.

    If there is a single kernel, the IR after each pass is added. Raises a TileError if the tree's compiler refuses the
    file.
    """
    said = said_by(tree, "why", asked.file, *asked.values, "--all", *asked.why)
    if "error" in said:
        raise refused(commit, asked, str(said["error"]), [row.get("code") for row in said.get("errors", [])])
    names = [kernel_of(row) for row in said["kernels"]]
    # Two variants of a kernel have the same name, so their PTX could not be distinguished.
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        message = f"at {commit} the example launches several variants of '{twice}': it is unclear which one to compare"
        raise TileError("option", None, message, "use an example with one of them, or NAME=VALUE that makes them equal")
    is_told, text = text_of(tree, "compile", asked.file, *asked.values, *asked.why, "--emit", "ptx")
    # If there are several kernels, `dsl compile` prints this line in front of each.
    heads = rf"^// (?:{'|'.join(map(re.escape, names))}) with .*\n"
    ptx = [text] if len(names) == 1 else re.split(heads, text, flags=re.M)[1:]
    if not is_told or len(ptx) != len(names):
        raise refused(commit, asked, f"it prints {len(ptx)} of {len(names)} kernels" if is_told else text)
    passes = passes_in(tree, asked) if len(names) == 1 else {}
    why = "prints none" if len(names) == 1 else "has several kernels, and --kernel would plan them again"
    missing = [] if passes else [f"no IR after each pass: {commit} {why}"]
    found = {}
    for name, row, each in zip(names, said["kernels"], ptx, strict=True):
        ((kernel, given),) = given_kernels(each, commit).items()
        texts = replace(given.texts, texts=passes | given.texts.texts, missing=missing + given.texts.missing)
        found[name] = DiffKernel(kernel, taken_in(row["choices"]), texts, given.made)
    return found


def refused(commit: str, asked: TreeQuestion, why: str, codes: list[Any] | None = None) -> TileError:
    first = why.strip().splitlines()[0] if why.strip() else "no answer"
    # Removes the prefix of the error message that the other tree printed.
    first = re.sub(r"^(?:\S+: )?error\[\w+\]: ", "", first)
    code = next((code for code in codes or [] if code), "option")
    return TileError(str(code), None, f"at {commit} {asked.file} does not compile: {first}")


def text_of(tree: Path, *words: str) -> tuple[bool, str]:
    """Runs a command in a tree. Returns whether the command succeeds, and its output or the reason why it failed."""
    done = answer_of(tree, *words)
    if done.returncode:
        return False, (done.stderr.strip().splitlines() or ["no answer"])[0]
    return True, done.stdout


def passes_in(tree: Path, asked: TreeQuestion) -> dict[str, str]:
    """The IR of a single kernel after each pass."""
    with tempfile.TemporaryDirectory(prefix="dsl-diff-") as folder:
        is_told, _ = text_of(tree, "compile", asked.file, *asked.values, *asked.why, "--trace", folder)
        files = sorted(Path(folder).glob("*.ir")) if is_told else []
        return {each.stem.partition("-")[2]: each.read_text(encoding="utf-8") for each in files}
