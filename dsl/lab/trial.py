"""Defines a trial: one way to run a launch, with its result. A log is a file with a line of JSON for each trial.

msgspec checks each line of a log against the type annotations of `Trial`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict

from msgspec import Meta, MsgspecError, Struct, convert, field, to_builtins
from msgspec.json import decode
from msgspec.structs import asdict

from dsl.calls.tuned import CallFacts
from dsl.kernels.variant import Request
from dsl.lab.contest import median_interval
from dsl.lab.log_schema import unknown_fields
from dsl.lab.place import TuningPlace
from dsl.lab.provenance import commit, differing, now, versions
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.plugins import NONE, Plugins
from dsl.text import tree as ast
from dsl.text.files import append_line, read_lines, resolved
from dsl.text.program import Program

SCHEMA = 4
READ = (2, 3, SCHEMA)
"""Schemas that can be read. Schemas 2 and 3 lack some of the fields that are needed to repeat a trial."""
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
    """A line of the log: a way to run a launch, its result, and what it takes to repeat it."""

    # these fields identify the trial: see KEY
    source: Annotated[str, Meta(description="SHA-256 of the texts of the program and its imports.")]
    device: Annotated[str, Meta(description="The device's name. That of the emulator begins with 'emulated'.")]
    driver: Annotated[str | None, Meta(description="CUDA version and driver. null on the emulator.")]
    versions: Annotated[
        dict[str, str],
        Meta(
            description="Digests of the project's 'compiler' and 'runtime', of each 'plugin NAME' and of handwritten "
            "code ('from'), and versions of Python, packages and tools."
        ),
    ]
    call: Annotated[str, Meta(description="The kernel or dispatch that the launch line calls.")]
    example: Annotated[str | None, Meta(description="The example's name, if it has one.")]
    index: Annotated[int, Meta(description="The launch's position among those of the example, from 0.")]
    values: Annotated[dict[str, Scalar], Meta(description="NAME=VALUE of the command: dims, types, constants.")]
    options: Annotated[dict[str, Scalar], Meta(description="Options of the dispatch.")]
    types: Annotated[dict[str, str], Meta(description="Element types of the call, by name.")]
    dims: Annotated[dict[str, int], Meta(description="Extents of the call, by name.")]
    steps: Annotated[
        list[TrialStep],
        Meta(description="The kernels that the call launches. Without 'constants', the schedule chooses them."),
    ]
    # the result
    status: Annotated[str, Meta(description=f"One of {', '.join(VERDICTS)}.")] = "measured"
    reason: Annotated[str, Meta(description="Why the result is not right, or what was not counted.")] = ""
    times_us: Annotated[
        list[Number], Meta(description="Microseconds of each round, in order, of all kernels together.")
    ] = field(default_factory=list)
    contest: Annotated[
        str | None, Meta(description="Names trials that were timed together: their i-th times are of one round.")
    ] = None
    answer: Annotated[
        str | None,
        Meta(description="'expect': 'expect' lines judged. 'agreement': an output that passed these lines did."),
    ] = None
    counters: Annotated[
        dict[str, Number] | None, Meta(description="The emulator's counters, summed over all kernels.")
    ] = None
    launches: Annotated[list[StepFacts], Meta(description="Facts about the code of each kernel.")] = field(
        default_factory=list
    )
    requests: Annotated[
        list[CostFacts], Meta(description="What each kernel is compiled for. Only of some commands.")
    ] = field(default_factory=list)
    schema: Annotated[int, Meta(description="The version of this format.")] = SCHEMA
    choices: Annotated[dict[str, str], Meta(description="Options of choices that were forced, by key.")] = field(
        default_factory=dict
    )
    by_line: Annotated[
        dict[str, dict[str, Number]], Meta(description="Counters of each source line, if requested.")
    ] = field(default_factory=dict)
    reference_us: Annotated[
        Number | None, Meta(description="The median of the contest's reference point, to compare devices and days.")
    ] = None
    where: Annotated[str, Meta(description="Host and device, such as 'node7 cuda:0'.")] = ""
    file: Annotated[str, Meta(description="The path of the .tile file, as given.")] = ""
    seed: Annotated[int, Meta(description="The seed of inputs and orders.")] = 0
    command: Annotated[list[str], Meta(description="The words of the command.")] = field(default_factory=list)
    commit: Annotated[
        str | None, Meta(description="The project's git commit, with '-dirty' if files differed from it.")
    ] = None
    made: Annotated[str, Meta(description="The time in UTC.")] = ""
    arch: Annotated[str, Meta(description="The target, which identifies the trial, too.")] = ""
    example_index: Annotated[
        int | None, Meta(description="The example's position in its file, from 0. null if no example ran.")
    ] = None
    texts: Annotated[
        dict[str, str],
        Meta(description="A digest of the file and of each import, by its path from the file's folder."),
    ] = field(default_factory=dict)
    plugins: Annotated[list[str], Meta(description="The paths of the plug-ins.")] = field(default_factory=list)
    edited: Annotated[str, Meta(description="The file of handwritten code that was launched ('--from').")] = ""
    blocks: Annotated[
        Count | None, Meta(description="On a GPU: how many blocks the emulator counted, scaled to the grid.")
    ] = None
    clocks: Annotated[
        dict[str, Number],
        Meta(description="After the contest, from nvidia-smi: clocks in MHz, power limit in W, temperature in °C."),
    ] = field(default_factory=dict)

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
        texts=text_digests(program),
        plugins=list(program.plugins.files),
        **more,
    )


def example_facts(program: Program, example: ast.Example) -> dict[str, Any]:
    """The fields of a trial that say which example it runs."""
    return {"example": example.name, "example_index": [each is example for each in program.examples].index(True)}


def texts_of(program: Program) -> dict[str, str]:
    """The texts of a program's file and of its imports, by their paths from the file's folder. The compiler's own files
    are left out: its digest covers them."""
    if program.path is None:
        return {program.source.name: program.source.text}
    # An import cannot leave this folder, so all paths begin there.
    folder = program.path.parent
    imported = {os.path.relpath(each.asked, resolved(folder)): each.text for each in program.imported}
    return {program.path.name: program.source.text, **imported}


def text_digests(program: Program) -> dict[str, str]:
    return {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in texts_of(program).items()}


# The key has the fields before `status`, the target, the forced options, the seed, and the example.
KEY = (*Trial.__struct_fields__[:12], "arch", "choices", "seed", "example_index")


def writable(value: Any) -> Any:
    """Replaces numbers that JSON lacks by their texts, such as `inf`, which NAME=VALUE takes, too. Python would write
    `Infinity`, which no other reader takes."""
    if isinstance(value, dict):
        return {name: writable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [writable(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def default_log(path: Path) -> Path:
    """The path of the default log of a `.tile` file, in the user's cache folder."""
    # The XDG base directory specification.
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    # Files with the same name in two folders have separate logs.
    place = hashlib.sha256(str(resolved(path)).encode()).hexdigest()[:8]
    return Path(root, "dsl", "tune", f"{path.stem}-{place}.jsonl")


class LogLine(Struct):
    """A line of a log. `number` counts from 1. If the line is no trial, `trial` is None and `problem` says why.
    `unknown` lists the fields that this version does not know, such as `launches.colour`."""

    number: int
    text: str
    trial: Trial | None = None
    problem: str = ""
    unknown: list[str] = field(default_factory=list)


def parsed(text: str, number: int = 1) -> LogLine:
    """Parses a line of a log."""
    line = LogLine(number, text)
    try:
        record = decode(text)
    except (MsgspecError, RecursionError):
        line.problem = "no JSON"
        return line
    schema = record.get("schema", SCHEMA) if isinstance(record, dict) else None
    if schema not in READ:
        line.problem = "no JSON object" if schema is None else f"schema {schema!r:.20}, not {READ[0]} to {SCHEMA}"
        return line
    try:
        trial = convert(record, Trial)
    except (MsgspecError, RecursionError) as error:
        line.problem = str(error)
        return line
    if trial.status not in VERDICTS:
        line.problem = f"the status '{trial.status:.20}' is unknown"
    elif not trial.is_sound:
        line.problem = "a measured trial without times, or kernels without facts"
    else:
        line.trial, line.unknown = trial, unknown_fields(record, Trial)
    trial.steps = [{"schedule": None, **step} for step in trial.steps]
    for each in trial.launches:  # thousands of trials share a few keys and options
        each.choices = {sys.intern(key): sys.intern(option) for key, option in each.choices.items()}
    return line


def read_trial(text: str) -> Trial | None:
    """Parses a line of a log. Returns None if the line is not a trial or has an unknown schema."""
    return parsed(text).trial


def log_lines(path: Path) -> Iterator[LogLine]:
    """Reads all lines of a log, but empty ones. Raises TileError `file` or `limit`."""
    return (parsed(text, number) for number, text in enumerate(read_lines(path), 1) if text.strip())


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

    Lines that are not trials, such as truncated lines, are skipped. `unread` is their number, and `problem` describes
    the first. `unknown` counts fields that this version does not know. `replaced` counts lines of trials that a later
    line repeats.
    """

    def __init__(self, path: Path):
        self.path = path
        self.trials: dict[str, Trial] = {}
        self.unread = self.replaced = 0
        self.problem = ""
        self.unknown: Counter[str] = Counter()
        if os.path.lexists(path):
            for line in log_lines(path):
                if line.trial is None:
                    self.unread += 1
                    self.problem = self.problem or f"line {line.number}: {line.problem}"
                else:
                    key = line.trial.key
                    self.replaced += key in self.trials
                    self.trials[key] = line.trial
                    self.unknown.update(line.unknown)

    def notes(self, plugins: Plugins = NONE) -> list[str]:
        """Returns messages about all that is not read of the log, and about trials made with other versions."""
        found, here = self.unreadable(), versions(plugins)
        old = {key: differ for key, trial in self.trials.items() if (differ := trial.made_otherwise(here))}
        if old:
            names = ", ".join(dict.fromkeys(name for differ in old.values() for name in differ))
            found.append(f"old trials, made with another {names} than installed here: {len(old)}")
        return found

    def unreadable(self) -> list[str]:
        """Messages about lines and fields that are not read."""
        found = []
        if self.unread:
            found.append(f"lines that are no trials: {self.unread} ({self.problem})")
        if self.unknown:
            fields = ", ".join(f"{name} ({count} times)" for name, count in self.unknown.items())
            found.append(f"fields that are unknown, and not read: {fields}")
        return found

    def repeated(self) -> list[str]:
        """A message about lines that a later line replaces. `dsl tune` has none: it goes on from the last line."""
        count = self.replaced
        return [f"lines that a later line of the same trial replaces: {count}"] if count else []

    def find(self, trial: Trial) -> Trial | None:
        """The same trial from the log, made with the same versions of everything, or None."""
        return self.trials.get(trial.key)

    # A result that took seconds must survive Ctrl-C, so it is written before the next trial begins.
    def add(self, trial: Trial) -> None:
        trial.made = trial.made or now()
        self.trials[trial.key] = trial
        # A log names files and commands of the user, so nobody else may read it.
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        append_line(self.path, json.dumps(writable(to_builtins(trial))))
