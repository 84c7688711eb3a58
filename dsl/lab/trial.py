"""Defines a trial: one way to run a launch, with its result. A log is a file with a line of JSON for each trial.

msgspec checks each line of a log against the type annotations of `Trial`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict

from msgspec import Meta, MsgspecError, Struct, field, to_builtins
from msgspec.json import decode
from msgspec.structs import asdict

from dsl.calls.tuned import CallFacts
from dsl.kernels.variant import Request
from dsl.lab.contest import median_interval
from dsl.lab.place import TuningPlace
from dsl.lab.provenance import commit, differing, now, versions
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.plugins import NONE, Plugins
from dsl.text.files import append_line, read_lines, resolved
from dsl.text.program import Program

SCHEMA = 3
READ = (2, SCHEMA)
"""Schemas that can be read. Schema 2 lacks some of the fields that are needed to repeat a trial."""
Scalar = bool | int | float | str | None
Count = Annotated[int, Meta(ge=0, lt=1 << 62)]
Number = Count | Annotated[float, Meta(ge=0, lt=1 << 62)]
RANK = ("sectors", "wavefronts", "work")
"""Counters that order trials without times. The first counter decides before the others."""
VERDICTS = {
    "measured": "right",
    "counted": "right",
    "compiled": "not run",
    "compile": "refused",
    "spills": "refused",
    "failed": "failed",
    "race": "race",
    "wrong": "wrong",
}
"""Maps the status of a trial to its verdict.

A right result has the status `measured` on a GPU and `counted` on the emulator. `compiled` means that no run was
requested. A trial with any other status has a `reason`.
"""


if TYPE_CHECKING:
    TrialStep = dict[str, Any]
else:

    class TrialStep(TypedDict):
        """The choice of a launch: see `StepChoice.as_json`."""

        kernel: str
        schedule: NotRequired[str | None]
        constants: NotRequired[dict[str, Scalar]]
        fixed: NotRequired[list[str]]


class StepFacts(Struct):
    """A kernel that a trial launches. A figure is None if it is unknown.

    `registers` and `spills` (in bytes) are per thread. `shared_bytes` is per block. `instructions` is the number of
    machine instructions. `constants` contains all constants of the variant, including those that its schedule sets.
    `choices` maps the keys of the compiler's choices to the options taken. Forcing these options gives the same code.
    `ptx` is a digest of the PTX.
    """

    kernel: str
    schedule: str | None
    constants: dict[str, Scalar]
    threads: Count | None = None
    registers: Count | None = None
    spills: Count | None = None
    shared_bytes: Count | None = None
    occupancy: Number | None = None
    limited_by: str | None = None
    instructions: Count | None = None
    choices: dict[str, str] = field(default_factory=dict)
    ptx: str | None = None


class CostFacts(Struct):
    """What the cost of a launch is computed from: fields of its `Request`. Scalars that JSON cannot hold are left
    out."""

    kernel: str
    schedule: str | None
    dims: dict[str, int]
    types: dict[str, str]
    constants: dict[str, Scalar]
    scalars: dict[str, Scalar]
    strides: dict[str, tuple[int, ...]]
    absent: list[str]
    arch: str
    sms: int | None
    device: str | None

    @staticmethod
    def of(request: Request) -> CostFacts:
        made = CostFacts(*(getattr(request, name) for name in CostFacts.__struct_fields__))
        made.absent = sorted(request.absent)
        made.scalars = {name: value for name, value in request.scalars.items() if math.isfinite(value)}
        return made

    @property
    def request(self) -> Request:
        return Request(**{**asdict(self), "absent": frozenset(self.absent)})


class Trial(Struct):
    """A line of the log.

    `steps` lists the kernels with their schedules and constants (see `StepChoice.as_json`). `choices` maps keys of
    choices to options that were forced. `launches` lists the facts about each kernel. `requests` lists what the cost of
    each launch is computed from. It is empty for trials that `dsl tune` has not made.

    `times_us` contains the time of each round in microseconds, in order. A time covers all kernels of the plan.
    `contest` names the group of trials that were timed together. In such a group, all `times_us[i]` belong to the same
    round. `reference_us` is the median of the group's reference point, to compare several devices or days. `where`
    names the host and the device that timed the trial. `counters` contains the emulator's totals over all kernels.
    `by_line` contains these counters for each source line, if requested. `answer` is `expect` if `expect` lines judged
    the result, or `agreement` if an output that passed these lines did.

    The last fields help to repeat the trial: `file` (the path as given), `seed` (for inputs and orders), `command`,
    `commit` (of the project) and `made` (the time in UTC). `arch`, the target, identifies the trial, too: a device runs
    kernels of several targets.
    """

    # these fields identify the trial: see KEY
    source: str
    device: str
    driver: str | None
    versions: dict[str, str]
    call: str
    example: str | None
    index: int
    values: dict[str, Scalar]
    options: dict[str, Scalar]
    types: dict[str, str]
    dims: dict[str, int]
    steps: list[TrialStep]
    # the result
    status: str = "measured"
    reason: str = ""
    times_us: list[Number] = field(default_factory=list)
    contest: str | None = None
    answer: str | None = None
    counters: dict[str, Number] | None = None
    launches: list[StepFacts] = field(default_factory=list)
    requests: list[CostFacts] = field(default_factory=list)
    schema: int = SCHEMA
    choices: dict[str, str] = field(default_factory=dict)
    by_line: dict[str, dict[str, Number]] = field(default_factory=dict)
    reference_us: Number | None = None
    where: str = ""
    file: str = ""
    seed: int = 0
    command: list[str] = field(default_factory=list)
    commit: str | None = None
    made: str = ""
    arch: str = ""

    def __post_init__(self) -> None:
        # Older lines of `dsl tune` have the target in their requests only.
        self.arch = self.arch or next((request.arch for request in self.requests), "")

    @property
    def key(self) -> str:
        """A digest of all that identifies a trial."""
        about = {name: getattr(self, name) for name in KEY}
        return hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()

    @property
    def title(self) -> str:
        """The call, its kernels and schedules, types, dims and options as text."""
        kernels = " then ".join(f"{step['kernel']} with {step['schedule'] or 'no schedule'}" for step in self.steps)
        about = ", ".join(f"{name}={value}" for name, value in {**self.types, **self.dims, **self.options}.items())
        return f"{self.call}: {kernels}" + (f", {about}" if about else "")

    def made_otherwise(self, here: Mapping[str, str]) -> list[str]:
        """Returns the names of versions that differ from `here`, or that an old line of the log lacks.

        Two differences do not count, because they make another trial: a plug-in that only one side has, and handwritten
        code (`from`).
        """
        tried = {name for name in self.versions.keys() ^ here.keys() if name.startswith("plugin ")} | {"from"}
        return [name for name in differing(self.versions, here) if name not in tried]

    @property
    def is_fine(self) -> bool:
        return self.status in ("measured", "counted")

    @property
    def verdict(self) -> str:
        return VERDICTS[self.status]

    @property
    def is_sound(self) -> bool:
        """Whether the trial has the data that it needs: times if it was measured, and facts on all kernels or on
        none."""
        is_whole = all(len(each) in (0, len(self.steps)) for each in (self.launches, self.requests))
        return (self.status != "measured" or bool(self.times_us)) and is_whole

    @property
    def interval(self) -> tuple[float, float, float]:
        """The median of the times, and the two ends of its confidence interval."""
        return median_interval(self.times_us)

    @property
    def rank(self) -> tuple[float, ...]:
        """The rank of a trial, a tuple where smaller is better. It contains the median time, or the counters in
        `RANK`."""
        return self.interval[:1] if self.status == "measured" else tuple(self.counted[name] for name in RANK)

    @property
    def counted(self) -> dict[str, float]:
        """The figures that are computed from the emulator's counters. All are 0 if nothing was counted."""
        from dsl.runtime.emulator import Counters

        return Counters.from_dict(self.counters or {}).figures

    @property
    def timing(self) -> dict[str, Any]:
        """The times as data: median, interval and number of rounds. The dict is empty if there are no times."""
        if not self.times_us:
            return {}
        median, low, high = self.interval
        return {"median_us": median, "interval_us": [low, high], "rounds": len(self.times_us)}

    def figures(self) -> dict[str, Any]:
        """Returns all known figures by name.

        They are the `result`, resources such as `registers`, counters, and `time` in microseconds. A resource is the
        maximum over the kernels, but `sass` is the total number of their machine instructions.
        """

        def most(name: str) -> int | float | None:
            return max((v for each in self.launches if (v := getattr(each, name)) is not None), default=None)

        counted = [each.instructions for each in self.launches if each.instructions is not None]
        found: dict[str, Any] = {"result": self.verdict}
        found |= {name: most(name) for name in ("registers", "spills", "shared_bytes", "threads")}
        found |= {"sass": sum(counted) if counted else None, "time": self.interval[0] if self.times_us else None}
        found |= self.counted if self.counters else {}
        return {name: value for name, value in found.items() if value is not None}


def blank_trial(
    program: Program, place: TuningPlace, facts: CallFacts, seed: int, command: Sequence[str], **more: Any
) -> Trial:
    """Makes the trial of a call before it runs. `facts` describe the call. `more` contains the other fields."""
    return Trial(
        source=program.digest(),
        device=place.name,
        driver=place.driver,
        arch=place.arch,
        versions=versions(program.plugins),
        call=facts.call,
        options=dict(facts.options),
        types=dict(facts.types),
        dims=dict(facts.dims),
        file=str(program.path or program.source.name),
        seed=seed,
        command=list(command),
        commit=commit(),
        **more,
    )


# The key has the fields before `status`, the target, the forced options, and the seed.
KEY = (*Trial.__struct_fields__[:12], "arch", "choices", "seed")


def default_log(path: Path) -> Path:
    """The path of the default log of a `.tile` file, in the user's cache folder."""
    # The XDG base directory specification.
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    # Files with the same name in two folders have separate logs.
    place = hashlib.sha256(str(resolved(path)).encode()).hexdigest()[:8]
    return Path(root, "dsl", "tune", f"{path.stem}-{place}.jsonl")


def read_trial(line: str) -> Trial | None:
    """Parses a line of a log. Returns None if the line is not a trial or has an unknown schema."""
    try:
        trial = decode(line, type=Trial)
    except (MsgspecError, RecursionError):
        return None
    trial.steps = [{"schedule": None, **step} for step in trial.steps]
    for each in trial.launches:  # thousands of trials share a few keys and options
        each.choices = {sys.intern(key): sys.intern(option) for key, option in each.choices.items()}
    return trial if trial.schema in READ and trial.status in VERDICTS and trial.is_sound else None


def trial_at(text: str) -> Trial:
    """Reads the trial in `LOG:LINE`, or in the last line for `LOG`. Raises a TileError `file` or `option`."""
    stem, colon, number = text.rpartition(":")
    is_numbered = bool(colon) and number.isascii() and number.isdigit()
    wanted, count, last = int(number[:20]) if is_numbered else 0, 0, ""
    for count, each in enumerate(read_lines(Path(stem if is_numbered else text)), 1):
        last = each
        if count == wanted:
            break
    is_there = count > 0 and wanted in (0, count)
    found = read_trial(last) if is_there else None
    if found is None:
        has = "this line is not a trial" if is_there else f"it has {count} lines"
        raise TileError("option", None, f"{text}: {has}", "LOG:LINE of a log, for example of dsl ablate --log")
    return found


class Log:
    """The trials in a file of JSON lines. Each new trial is appended at once.

    Lines that are not trials, such as truncated lines, are skipped. `unread` is their number.
    """

    def __init__(self, path: Path):
        self.path = path
        self.trials: dict[str, Trial] = {}
        self.unread = 0
        if os.path.lexists(path):
            for line in read_lines(path):
                if (trial := read_trial(line)) is None:
                    self.unread += 1
                else:
                    self.trials[trial.key] = trial

    def notes(self, plugins: Plugins = NONE) -> list[str]:
        """Returns messages about lines that are not trials, and about trials made with other versions."""
        found = []
        if self.unread:
            found.append(f"lines that are no trials: {self.unread}")
        here = versions(plugins)
        old = {key: differ for key, trial in self.trials.items() if (differ := trial.made_otherwise(here))}
        if old:
            names = ", ".join(dict.fromkeys(name for differ in old.values() for name in differ))
            found.append(f"old trials, made with another {names} than installed here: {len(old)}")
        return found

    def find(self, trial: Trial) -> Trial | None:
        """The same trial from the log, made with the same versions of everything, or None."""
        return self.trials.get(trial.key)

    # A result that took seconds must survive Ctrl-C, so it is written before the next trial begins.
    def add(self, trial: Trial) -> None:
        trial.made = trial.made or now()
        self.trials[trial.key] = trial
        # A log names files and commands of the user, so nobody else may read it.
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        append_line(self.path, json.dumps(to_builtins(trial)))
