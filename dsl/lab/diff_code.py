"""Sides that are PTX: in the launch of an example, by themselves on random arrays, or, made by another compiler and
without a header of ours, as code that nobody launches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

from dsl.examples.first_blocks import first_blocks, in_words, whole_launch
from dsl.examples.ptx_run import choose_dims, guessed_of, numbers, random_arguments
from dsl.examples.report import guess_in_words
from dsl.examples.transfers import on_device
from dsl.lab.compiling import made_of
from dsl.lab.diff import DiffKernel, GivenKernel, Side
from dsl.lab.diff_stages import code_texts
from dsl.lab.place import TuningPlace
from dsl.lab.provenance import versions
from dsl.lab.runner import COUNT_SECONDS, FIRST_BLOCKS, RACES, Counts, described
from dsl.lab.trial import StepFacts, Trial
from dsl.lowering.ir.location import TileError, closest
from dsl.runtime.renewed import KeptMemory, changed_spans

ENTRY = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+)?\.entry\s+([\w$]+)", re.M)
TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.M)
PLACES = re.compile(r"^\s*\.loc\s.*$", re.M)
THREADS = re.compile(r"\.(?:reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")


def given_kernels(ptx: str, name: str) -> dict[str, GivenKernel]:
    """The kernels of a PTX text of ours by their names in the `.tile` file. Raises LaunchError."""
    from dsl.kernels.edited import headers_of

    found = {}
    for kernel, header in headers_of(ptx).items():
        made = made_of(ptx, header, "counted")
        if made.error is not None:
            raise TileError("ptx", None, f"{name}: {made.error}")
        found[kernel] = GivenKernel(made, None, code_texts(ptx, header, header.entry))
    return found


def is_foreign(ptx: str) -> bool:
    """Whether PTX has no header of ours. Raises LaunchError for one that cannot be read."""
    from dsl.runtime.header import read

    return not read(ptx)


def code_side(
    ptx: str, name: str, label: str, place: TuningPlace, values: Sequence[str], seed: int, kernel: str | None
) -> Side:
    """A PTX text by itself. kernel: which of its entries. Raises TileError, LaunchError, DeviceError."""
    if is_foreign(ptx):
        return foreign_side(ptx, name, label, place, values, kernel)
    from dsl.runtime import Kernel
    from dsl.runtime.header import read

    headers = {header.kernel: header for header in read(ptx).values()}
    header = headers[the_one([*headers], name, kernel)]
    launched = Kernel(ptx, header.entry, place.device)
    given = numbers(header, list(values))
    dims = choose_dims(header, given, place.sms)
    trial = blank_trial(ptx, header.kernel, header.schedule, place, dims)
    made = made_of(ptx, header, "counted")
    if made.error is not None:
        raise TileError("ptx", None, f"{name}: {made.error}")
    trial.launches = [described(launched, made, place)]
    count(trial, ptx, header, [*random_arguments(header, dims, given, seed).values()], place)
    side = Side(label, trial.title, trial, [])
    side.kernels.append(DiffKernel(header.kernel, None, code_texts(ptx, header, header.entry)))
    side.notes.append(f"{name} runs on random arrays, and nothing judges its results")
    if guessed := guessed_of(dims, given):
        side.notes.append(f"dims of {name}: {guess_in_words(guessed)}")
    if place.ordinal is not None:
        arguments = on_device(random_arguments(header, dims, given, seed), place.ordinal)
        kept = KeptMemory(changed_spans([(header, [*arguments.values()])]), place.ordinal)
        side.launch = kept.before(launched.bind(*arguments.values()))
    return side


def count(trial: Trial, ptx: str, header: Any, arguments: list[Any], place: TuningPlace) -> None:
    """What the emulator counts and finds: of the whole launch, or of the first blocks of one that a GPU makes."""
    from dsl.runtime import Kernel

    counts, kernel = Counts(), Kernel(ptx, header.entry, "emulator")
    if place.ordinal is None:
        counts.add(whole_launch(kernel.run(*arguments, on_finding="collect")))
    else:
        counts.add(first_blocks(kernel, arguments, FIRST_BLOCKS, time_limit=COUNT_SECONDS))
    counts.note(trial)
    trial.status = "counted"
    if counts.findings:
        finding = counts.findings[0]
        trial.status, trial.reason = "race" if finding.kind in RACES else "failed", in_words(finding)


def foreign_side(
    ptx: str, name: str, label: str, place: TuningPlace, values: Sequence[str], kernel: str | None
) -> Side:
    """PTX that another compiler made: what the assembler says of it."""
    from dsl.runtime.errors import DeviceError
    from dsl.runtime.machine_code import machine_code
    from dsl.runtime.tools import assemble

    if values:
        raise TileError("option", None, f"{name} has no //dsl header, so '{values[0]}' sets nothing there")
    entry = the_one(ENTRY.findall(ptx), name, kernel)
    found = TARGET.search(ptx)
    arch = found[1] if found else place.arch
    trial = blank_trial(ptx, entry, None, place, {})
    plain = PLACES.sub("", ptx)  # texts that were cut from a file name strings that are not there
    facts = StepFacts(entry, None, {}, threads_of(ptx, entry))
    with suppress(DeviceError):  # without the tools there are the texts
        code = assemble(plain, arch, entry)
        facts.registers, facts.spills = code.registers, code.spill_stores + code.spill_loads
        facts.shared_bytes = code.shared
        facts.instructions = machine_code(code.cubin, entry).instructions
    trial.launches, trial.status = [facts], "compiled"
    side = Side(label, f"{entry} for {arch}", trial, [])
    side.kernels.append(DiffKernel(entry, None, code_texts(plain, None, entry, arch)))
    side.notes.append(f"{name} has no //dsl header: it is assembled, not run; its shared bytes are the static ones")
    return side


def threads_of(ptx: str, entry: str) -> int | None:
    """The threads of a block, where an entry says them."""
    begin = re.search(rf"\.entry\s+{re.escape(entry)}\b[^{{]*", ptx)
    found = THREADS.search(begin[0]) if begin else None
    if found is None:
        return None
    x, y, z = (int(each or 1) for each in found.groups())
    return x * y * z


def the_one(entries: list[str], name: str, kernel: str | None) -> str:
    """The entry that is meant. TileError `option`."""
    if kernel is not None and kernel not in entries:
        hint = closest(kernel, entries) or f"it has {', '.join(entries) or 'none'}"
        raise TileError("option", None, f"{name} has no kernel '{kernel}'", hint)
    if kernel is None and len(entries) != 1:
        hint = " or ".join(f"--kernel {each}" for each in entries) or "a PTX text with an .entry"
        raise TileError("option", None, f"{name} has {len(entries)} kernels, one is compared", hint)
    return kernel or entries[0]


def blank_trial(ptx: str, kernel: str, schedule: str | None, place: TuningPlace, dims: dict[str, int]) -> Trial:
    about: dict[str, Any] = {"source": sha256(ptx.encode()).hexdigest(), "device": place.name, "driver": place.driver}
    about |= {"versions": versions(), "call": kernel, "example": None, "index": 0, "values": {}, "options": {}}
    return Trial(**about, types={}, dims=dims, steps=[{"kernel": kernel, "schedule": schedule}])
