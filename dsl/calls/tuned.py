"""The tuned data beside a `.tile` file, for example `reduce.tuned.json`: the fastest launches that tuning found. An
entry is for one device, one kernel or dispatch, and one combination of options, types and dims. An entry also serves
calls whose dims are near the entry's dims. `Planner` looks entries up."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from dsl.calls.called import Called
from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.runtime.numbers import exact_key
from dsl.text import tree as ast
from dsl.text.files import write_text
from dsl.text.program import Program
from dsl.values.arithmetic import pow2_divisor

SCHEMA = 1
NEAR = 2
"""An entry serves a call only if each dim of the call is at most `NEAR` times larger or smaller than the tuned dim.
Dims with a range have no such limit."""
MOST_DIVISOR = 16
"""An entry serves a call only if the greatest power of two that divides an inner dim is the same as for the tuned dim.
Powers above `MOST_DIVISOR` count as `MOST_DIVISOR`, because no access is wider than 16 elements."""


class StepChoice(Struct, frozen=True):
    """One launch of a plan: the kernel, the schedule, and the constants that override the schedule. `fixed` lists the
    constants that the branch of the dispatch itself sets, as written (`PER=2`). `fixed` distinguishes branches with the
    same kernel and schedule."""

    kernel: str
    schedule: str | None
    constants: Mapping[str, Any]
    fixed: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        constants, fixed = dict(sorted(self.constants.items())), {"fixed": list(self.fixed)} if self.fixed else {}
        return {"kernel": self.kernel, "schedule": self.schedule, "constants": constants, **fixed}


class CallFacts(Struct, frozen=True):
    """The facts about a call that select an entry. `options` holds the values of all options of the dispatch. `absent`
    names the optional tensors that are not given. `inner` names the dims that are the last dim of some tensor."""

    call: str
    options: Mapping[str, Any]
    types: Mapping[str, str]
    dims: Mapping[str, int]
    absent: tuple[str, ...] = ()
    inner: frozenset[str] = frozenset()


class Entry(Struct, frozen=True):
    """The fastest launches that one tuning of a call found.

    `ranges` maps some dims to a range of extents (from, to), where None is an open end. The entry serves all extents in
    the range, whatever extent was tuned. `text` is the digest of the entry's kernels and schedules at the time of
    tuning. `median_us` and `interval_us` are microseconds, or None if tuning compared the emulator's counters. `ties`
    is the number of tuned points that are equally fast, including the fastest. `plugins` maps the plug-ins that were in
    use to the digests of their text."""

    device: str
    call: str
    options: Mapping[str, Any]
    types: Mapping[str, str]
    dims: Mapping[str, int]
    absent: tuple[str, ...]
    steps: tuple[StepChoice, ...]
    text: str
    ranges: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    median_us: float | None = None
    interval_us: tuple[float, float] | None = None
    ties: int = 1
    plugins: Mapping[str, str] = field(default_factory=dict)
    loc: Loc | None = None

    @property
    def key(self) -> str:
        """A text that identifies the calls that the entry was tuned for. Keys that differ only in extents are sorted by
        extent."""
        # Padded with zeros, because keys are sorted as text.
        dims = ",".join(f"{name}={extent:020d}" for name, extent in sorted(self.dims.items()))
        parts = [self.device, self.call, _pairs(self.options), _pairs(self.types), ",".join(self.absent), dims]
        return "\n".join([*parts, ",".join(sorted(self.plugins))] if self.plugins else parts)

    def distance(self, dims: Mapping[str, int], inner: frozenset[str]) -> tuple[float, float] | None:
        """Returns the distance between the entry's dims and a call's dims, as two sums of |log2 ratio|. The first sum
        is over dims without a range, and the second over dims with a range. Returns None if the entry does not serve
        these dims."""
        if dims.keys() != self.dims.keys():
            return None
        away, within = 0.0, 0.0
        for name, extent in dims.items():
            tuned = self.dims[name]
            # Inner dims decide the widths of accesses. A schedule that is fast for 1024 columns may be slow for 1023.
            if name in inner and divisor_class(extent) != divisor_class(tuned):
                return None
            # Uses ratios, so that 500 and 2000 are equally near to 1000.
            apart = abs(math.log2(max(extent, 1) / max(tuned, 1)))
            if name in self.ranges:
                low, high = self.ranges[name]
                if not (low or 0) <= extent <= (math.inf if high is None else high):
                    return None
                within += apart
            elif max(extent, tuned) > NEAR * min(extent, tuned):
                return None
            else:
                away += apart
        return away, within

    def as_json(self) -> dict[str, Any]:
        """Returns the entry as a JSON object, with keys in the order of the file. Empty fields are left out."""
        steps = [step.as_json() for step in self.steps]
        out: dict[str, Any] = {"device": self.device, "call": self.call}
        out["options"] = dict(sorted(self.options.items()))
        out["types"] = dict(sorted(self.types.items()))
        out["absent"] = list(self.absent)
        out["dims"] = dict(sorted(self.dims.items()))
        out["ranges"] = {name: list(ends) for name, ends in sorted(self.ranges.items())}
        out["plugins"] = dict(sorted(self.plugins.items()))
        out = {key: value for key, value in out.items() if value}
        out |= {"steps": steps, "ties": self.ties, "text": self.text}
        if self.median_us is not None and self.interval_us is not None:
            out |= {"median_us": round(self.median_us, 2), "interval_us": [round(t, 2) for t in self.interval_us]}
        return out

    def described(self) -> str:
        """Describes the launches of the entry in words."""
        return "; ".join(described_step(step) for step in self.steps)


def described_step(step: StepChoice) -> str:
    """Describes a launch in words, for example `softmax_rows with lanes, warps=8`."""
    parts = [step.schedule] if step.schedule else []
    parts += [*step.fixed, *(f"{name}={value}" for name, value in step.constants.items())]
    return step.kernel + (f" with {', '.join(parts)}" if parts else "")


def said_steps(steps: Sequence[StepChoice]) -> str:
    """Names the launches of a branch: one by its schedule, several as `copied with rows then product with wgmma`."""
    if len(steps) == 1:
        return steps[0].schedule or steps[0].kernel
    return " then ".join(f"{s.kernel} with {s.schedule}" if s.schedule else s.kernel for s in steps)


def divisor_class(extent: int) -> int:
    """Returns the greatest of 1, 2, 4, 8 and 16 that divides an extent, and 16 for 0."""
    return min(pow2_divisor(extent), MOST_DIVISOR) if extent else MOST_DIVISOR


def _pairs(values: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(values.items()))


class Found(Struct, frozen=True):
    """The entry that serves a call. `exact` is true if the entry was tuned for equal dims."""

    entry: Entry
    exact: bool


class Tuned(Struct):
    """The entries of one file. The file at `path` need not exist. `path` is None if the program has no file."""

    path: Path | None = None
    entries: list[Entry] = field(default_factory=list)

    def find(self, device: str, call: CallFacts, plugins: Mapping[str, str]) -> Found | None:
        """Returns the nearest entry that serves the call, or None. Entries with exactly these plug-ins are preferred to
        entries without plug-ins. Entries with other plug-ins are never used, because their choices may not exist
        here."""
        mine = [entry for entry in self.entries if entry.plugins == plugins]
        found = self._nearest(mine, device, call)
        if found is None and plugins:
            found = self._nearest([entry for entry in self.entries if not entry.plugins], device, call)
        return found

    def _nearest(self, entries: Sequence[Entry], device: str, call: CallFacts) -> Found | None:
        best: tuple[tuple[float, float], Entry] | None = None
        for entry in entries:
            if entry.device != device or entry.call != call.call or entry.absent != call.absent:
                continue
            if exact_key(entry.options) != exact_key(call.options) or dict(entry.types) != dict(call.types):
                continue
            distance = entry.distance(call.dims, call.inner)
            if distance is not None and (best is None or distance < best[0]):
                best = distance, entry
        return None if best is None else Found(best[1], dict(best[1].dims) == dict(call.dims))

    def put(self, new: Sequence[Entry]) -> None:
        """Adds entries. A new entry replaces an old entry with the same key."""
        keys = {entry.key for entry in new}
        self.entries = sorted([*(e for e in self.entries if e.key not in keys), *new], key=lambda e: e.key)

    def write(self) -> None:
        """Writes the file with one entry per line, sorted, so that a diff shows the changed entries."""
        assert self.path is not None
        lines = ",\n".join(json.dumps(entry.as_json()) for entry in self.entries)
        write_text(self.path, f'{{"schema": {SCHEMA}, "entries": [\n{lines}\n]}}\n')


AGAIN = "write it again with 'dsl tune FILE … --write', or remove the entry"


# ---- checks of entries against the file ----


def stale_errors(tuned: Tuned, program: Program) -> list[TileError]:
    """Returns an error for each entry that uses a name that the file no longer defines."""
    return [error for entry in tuned.entries if (error := stale(entry, program)) is not None]


def stale(entry: Entry, program: Program) -> TileError | None:
    """Returns an error with a location if an entry uses a name that the file no longer defines. Returns None if all
    names are defined."""

    def fail(word: str, message: str, known: Any) -> TileError:
        loc = entry.loc
        if loc is not None and (at := loc.source.text.find(f'"{word}"', loc.start, loc.end)) >= 0:
            loc = Loc(loc.source, at, at + len(word) + 2)
        near = closest(word, known)
        return TileError("tuned", loc, f"{program.source.name} {message}", f"{near} {AGAIN}" if near else AGAIN)

    launched = [*program.dispatches, *program.kernels]
    if entry.call not in launched:
        return fail(entry.call, f"has no kernel or dispatch '{entry.call}'", launched)
    for step in entry.steps:
        if step.kernel not in program.kernels:
            return fail(step.kernel, f"has no kernel '{step.kernel}'", program.kernels)
        known = program.schedules_of(step.kernel)
        if step.schedule not in known and (step.schedule is not None or known):
            return fail(step.schedule or "null", f"has no schedule '{step.schedule}' of '{step.kernel}'", known)
        settable = program.settable(step.kernel)
        for name in step.constants:
            if name not in settable:
                return fail(name, f"has no constant '{name}' of '{step.kernel}' or its schedules", settable)
    dispatch = program.dispatches.get(entry.call)
    there = program.once(_told_apart, entry.call)
    named = {"option": entry.options, "type": entry.types, "dim": entry.dims, "argument": entry.absent}
    for what, names in named.items():
        for name in names:
            if name not in there[what]:
                return fail(name, f"has no {what} '{name}' of '{entry.call}'", there[what])
    if dispatch is None:
        if [step.kernel for step in entry.steps] != [entry.call]:
            return fail(entry.steps[0].kernel, f"launches '{entry.call}' as a kernel, which is one step", [entry.call])
    elif branch_of(dispatch, entry.steps, program) is None:
        text = f"has no branch of '{entry.call}' that launches {entry.described()}"
        return fail(entry.steps[0].kernel, text, ())
    return None


def _told_apart(program: Program, call: str) -> dict[str, Collection[str]]:
    """Maps each kind of name, such as "option" or "dim", to the names that entries of a call may use. The kinds are
    words of error messages."""
    called = program.once(Called, call)
    heads = [program.head(kernel) for kernel in called.launched]
    types, dims = {name for head in heads for name in head.types}, {name for head in heads for name in head.dims}
    return {"option": called.options, "type": types, "dim": dims, "argument": called.params}


def branch_of(dispatch: ast.Dispatch, steps: Sequence[StepChoice], program: Program) -> ast.Branch | None:
    """Returns the branch that launches these kernels with these schedules and fixed constants. If no branch matches
    exactly, returns a branch that differs only in its schedules, or None."""
    branches = program.once(_branches, dispatch.name)
    # `dsl tune --schedule` may have tried a schedule that the branch does not name.
    exact, loose = ([(s.kernel, s.schedule if named else None, s.fixed) for s in steps] for named in (True, False))
    for line, mine in branches:
        if [(s.kernel, s.schedule, s.fixed) for s in mine] == exact:
            return line
    return next((line for line, mine in branches if [(s.kernel, None, s.fixed) for s in mine] == loose), None)


def _branches(program: Program, name: str) -> list[tuple[ast.Branch, tuple[StepChoice, ...]]]:
    return [(branch, branch_steps(branch, program)) for branch in program.dispatches[name].branches]


def branch_steps(branch: ast.Branch, program: Program) -> tuple[StepChoice, ...]:
    """Returns the launches of a branch, without tuned constants. A launch that names no schedule gets its kernel's
    first schedule."""
    out = []
    for launch in branch.launches:
        named = [item.name for item in launch.items if item.value is None]
        schedule = named[0] if named else next(iter(program.schedules_of(launch.name)), None)
        fixed = [_as_written(item) for item in launch.items if item.value is not None]
        out.append(StepChoice(launch.name, schedule, {}, tuple(fixed)))
    return tuple(out)


def _as_written(item: ast.WithItem) -> str:
    """`NAME=value` without blanks around the `=`. If the dispatch has bound a name, the value is still this name."""
    value = item.loc.source.text[item.loc.start : item.loc.end].split("=", 1)[1]
    return f"{item.name}={value.strip()}"


def text_digest(program: Program, steps: Sequence[StepChoice]) -> str:
    """Returns the first 12 hexadecimal digits of a SHA-256 digest. The digest covers the text of these kernels and
    schedules, and of each schedule that they include with `like`."""
    pieces: list[str] = []
    for step in steps:
        kernel = program.kernels[step.kernel]
        pieces.append(_written(kernel.loc))
        schedule = program.schedules_of(step.kernel).get(step.schedule or "")
        if schedule is not None:
            pieces += [_written(each.loc) for each in program.family(step.kernel, schedule)]
    return hashlib.sha256("\n".join(pieces).encode()).hexdigest()[:12]


def _written(loc: Loc) -> str:
    """Returns the text of the block that begins on the line of `loc` and ends before the next line that is not
    indented. Comments and blank lines are left out, so that editing them does not make entries stale."""
    first, *rest = (line.split("#")[0].rstrip() for line in loc.source.text.splitlines()[loc.line - 1 :])
    end = next((i for i, line in enumerate(rest) if line and not line[0].isspace()), len(rest))
    return "\n".join([first, *filter(None, rest[:end])])
