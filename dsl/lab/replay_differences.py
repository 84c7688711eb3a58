"""Says what differs between a logged trial and the same trial made again, and what may be the cause."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from dsl.lab.contest import median_interval
from dsl.lab.provenance import differing
from dsl.lab.trial import StepFacts, Trial, writable

SAME = "nothing that the log has: chance, or what the log lacks"
CODE = "other code"
NAMES = {"instructions": "sass"}
"""Other names of facts. The emulator's counter of executed instructions has the name `instructions`, too."""
BY_COMPILER = ("kernel", "schedule", "constants", "threads", "shared_bytes", "ptx")
"""Facts about a launch that the compiler alone decides. The others need ptxas or the driver."""
NEVER_THE_CODE = ("runtime", "numpy", "cuda-bindings", "nvdisasm", "ptxas", "driver", "host", "clocks")
"""Changes that cannot change the PTX."""
OF_MACHINE_CODE = ("ptxas", "nvdisasm", "driver", "device", "cuda-bindings")
"""Changes that can change the machine code of equal PTX."""
MOST_CLOCK = 1.02
"""Clocks that differ by less than this factor are no cause of a difference."""


class ReplayDifference(Struct):
    """A fact of a trial that came out differently: its name, both values, and the likely causes."""

    name: str
    then: Any
    now: Any
    why: list[str]


class Changes(Struct):
    """What has changed since a trial was logged: kinds such as `text`, `compiler`, `ptxas` or `device`, with words."""

    found: dict[str, str]

    def causes(self, name: str, is_other_code: bool) -> list[str]:
        """The changes that can have changed a fact."""
        if name.startswith("choice ") or name.partition(" ")[0] in (*BY_COMPILER, "launches", "call"):
            return [text for kind, text in self.found.items() if kind not in NEVER_THE_CODE] or [SAME]
        if is_other_code:
            return [CODE]
        if name.partition(" ")[0] in ("registers", "spills", "sass", "occupancy", "limited_by"):
            return [text for kind, text in self.found.items() if kind in OF_MACHINE_CODE] or [SAME]
        return [*self.found.values()] or [SAME]


def changes(then: Trial, now: Trial) -> Changes:
    """Compares how two trials were made."""
    found: dict[str, str] = {}
    if then.source != now.source:
        names = differing(then.texts, now.texts) or ["the compiler's own files"]
        found["text"] = f"text changed: {', '.join(names)}" if then.texts else "text changed"
    for name in differing(then.versions, now.versions):
        was, here = then.versions.get(name), now.versions.get(name)
        if name in ("compiler", "runtime") or name.startswith("plugin "):
            what = f"{name} changed" if was and here else f"{name} {'is new' if here else 'is missing'}"
        elif name == "from":
            what = "handwritten code changed"
        else:
            what = f"{name} {was or 'not logged'} → {here or 'not installed'}"
        found[name] = what
    if then.device != now.device:
        found["device"] = f"other device: {now.device}"
    if then.arch and then.arch != now.arch:
        found["arch"] = f"other target: {now.arch}"
    if then.driver != now.driver and now.driver is not None:
        found["driver"] = f"driver {then.driver} → {now.driver}"
    if now.times_us and then.where.partition(" ")[0] != now.where.partition(" ")[0]:
        found["host"] = "other host"
    if then.clocks and now.clocks and (names := [n for n in ("sm_mhz", "memory_mhz") if is_other_clock(then, now, n)]):
        pairs = ", ".join(f"{name} {then.clocks[name]:g} → {now.clocks[name]:g}" for name in names)
        found["clocks"] = f"clocks: {pairs}"
    return Changes(found)


def is_other_clock(then: Trial, now: Trial, name: str) -> bool:
    a, b = then.clocks.get(name), now.clocks.get(name)
    return bool(a and b) and max(a, b) > MOST_CLOCK * min(a, b)  # type: ignore[type-var, operator]


def code_differences(then: Trial, now: Trial, is_loaded: bool) -> Iterator[tuple[str, Any, Any]]:
    """The facts about the code that differ. With `is_loaded`, also those that ptxas or the driver says. Facts that the
    log lacks are not compared."""
    kernels = [[(each.kernel, each.schedule) for each in trial.launches] for trial in (then, now)]
    if then.launches and kernels[0] != kernels[1]:
        said = [" then ".join(f"{kernel} with {schedule}" for kernel, schedule in each) or "none" for each in kernels]
        yield "launches", said[0], said[1]
        return
    names = [name for name in StepFacts.__struct_fields__ if name != "choices" and (is_loaded or name in BY_COMPILER)]
    for number, (a, b) in enumerate(zip(then.launches, now.launches, strict=False), 1):
        of = f" of launch {number}" if len(then.launches) > 1 else ""
        was, here = plain(a), plain(b)
        different = [name for name in names if was[name] not in (None, here[name])]
        yield from ((f"{NAMES.get(name, name)}{of}", was[name], here[name]) for name in different)
        for key in differing(a.choices, b.choices) if a.choices else ():
            # A new compiler has new choices. If it makes the same PTX, they changed nothing.
            if a.ptx != b.ptx or (key in a.choices and key in b.choices):
                yield f"choice {key}{of}", a.choices.get(key), b.choices.get(key)


def plain(facts: StepFacts) -> dict[str, Any]:
    """Facts as a line of the log has them."""
    made: dict[str, Any] = writable(to_builtins(facts))
    return made


def result_differences(then: Trial, now: Trial) -> Iterator[tuple[str, Any, Any]]:
    """The results that differ: verdict, the reason on the emulator, and counters."""
    if then.status != now.status:
        yield "result", said_result(then), said_result(now)
    elif now.driver is None and without_folder(then) != without_folder(now):
        yield "reason", without_folder(then), without_folder(now)
    if then.counters is not None:
        yield from differing_numbers("", then.counters, now.counters or {})
    for line in dict.fromkeys([*then.by_line, *now.by_line]) if then.by_line else ():
        yield from differing_numbers(f" of line {line}", then.by_line.get(line, {}), now.by_line.get(line, {}))


def differing_numbers(of: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    yield from ((f"{name}{of}", then.get(name), now.get(name)) for name in differing(then, now))


def said_result(trial: Trial) -> str:
    return trial.verdict + (f": {without_folder(trial)}" if trial.reason else "")


def without_folder(trial: Trial) -> str:
    """The reason of a trial. Messages name files with their folders, and another machine has them elsewhere."""
    names = "|".join(re.escape(Path(name).name) for name in (trial.file, *trial.texts))
    return re.sub(rf"[^\s'\"]*/(?=(?:{names})\b)", "", trial.reason)


def time_difference(then: Trial, now: Trial, references: tuple[float, float] | None) -> tuple[str, Any, Any] | None:
    """The times, if their intervals do not overlap. `references` are the medians of the contest's reference point then
    and now: times that overlap relative to it do not differ, because the whole device was slower or faster."""
    was, here = median_interval(list(then.times_us)), median_interval(list(now.times_us))
    if overlap(was, here):
        return None
    if references is not None and overlap([t / references[0] for t in was], [t / references[1] for t in here]):
        return None
    return "time", said_time(was), said_time(here)


def overlap(a: Any, b: Any) -> bool:
    return bool(a[1] <= b[2] and b[1] <= a[2])


def said_time(interval: tuple[float, float, float]) -> str:
    middle, low, high = interval
    return f"{middle:.2f} us ({low:.2f} to {high:.2f})"
