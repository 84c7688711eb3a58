"""What differs between two launches, and what it costs: choices, figures, lines, and the stage at which they part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Any
from uuid import uuid4

from dsl.calls.decisions import all_choices, branch_choice
from dsl.kernels.compile import compile_variant
from dsl.kernels.stages import Lines, tree
from dsl.kernels.variant import Request
from dsl.lab.compiling import Made, made_of
from dsl.lab.contest import CONFIDENCE, ratio_interval, sign_probability
from dsl.lab.diff_choices import ChoiceDifference, Numbered, Taken, differing, taken_by
from dsl.lab.diff_stages import KernelTexts, StagesDifference, compared_stages, kernel_texts
from dsl.lab.diff_text import joined_lines
from dsl.lab.experiment import ROUNDS, Experiment
from dsl.lab.place import WAIT_SECONDS, TuningPlace
from dsl.lab.provenance import versions
from dsl.lab.runner import described, prepared
from dsl.lab.trial import Trial, counted_rank, replays
from dsl.lowering.ir.location import Source, TileError
from dsl.runtime.numbers import exact_key
from dsl.text.program import Program

FIGURES = {
    "result": "result",
    "registers": "registers",
    "spills": "spills",
    "SASS": "sass",
    "shared bytes": "shared_bytes",
    "threads": "threads",
    "occupancy": "occupancy",
    "sectors": "sectors",
    "wavefronts": "wavefronts",
    "conflicts": "conflicts",
    "barriers": "barriers",
    "instr": "work",
}
"""Heading → figure of a trial."""
BY_LINE = ("sectors", "wavefronts", "conflicts", "barriers", "work")
"""The figures that are compared by line."""


@dataclass(frozen=True, slots=True)
class DiffSettings:
    """context: rows around what differs; rounds, seed: of the contest, on the GPU of this number, if there is one."""

    context: int = 3
    rounds: int = ROUNDS
    seed: int = 0
    ordinal: int | None = None


@dataclass(slots=True)
class DiffKernel:
    """A kernel of a side. choices: None where they are not known, as of a PTX text."""

    kernel: str
    choices: Mapping[Numbered, Taken] | None
    texts: KernelTexts


@dataclass(frozen=True, slots=True)
class GivenKernel:
    """A kernel whose code was made elsewhere: by the compiler of a commit, or by hand."""

    made: Made
    choices: Mapping[Numbered, Taken] | None
    texts: KernelTexts


@dataclass(slots=True)
class Side:
    """One of the two. source: its `.tile` file; launch: what a contest launches; note: keeps its trial."""

    label: str
    title: str
    trial: Trial
    kernels: list[DiffKernel]
    source: Source | None = None
    launch: Callable[[], object] | None = None
    note: Callable[[], None] = lambda: None
    notes: list[str] = field(default_factory=list)

    def line(self, where: str) -> str:
        """The text of a line of its file, `12`, or of another one, `library/exp.tile:25`; nothing where it is not
        there."""
        if self.source is None:
            return ""
        file, colon, number = where.rpartition(":")
        return Lines(self.source).text(file if colon else self.source.name, int(number))

    def figures(self) -> dict[str, Any]:
        found = self.trial.figures()
        if self.trial.is_fine and self.trial.answer is None:
            found["result"] = "not judged"
        occupied = [each.occupancy for each in self.trial.launches if each.occupancy is not None]
        return found | ({"occupancy": min(occupied)} if occupied else {})


def launched_side(
    experiment: Experiment, label: str, kernel: str | None, given: Mapping[str, GivenKernel] | None = None
) -> Side:
    """A launch of an example as chosen, with code in the place of some of its kernels. kernel: the only one to compare.
    Raises TileError, DeviceError."""
    given = given or {}
    trial = experiment.trial({})
    asked = experiment.conditions.schedule or experiment.call.facts.schedule
    branch = branch_choice(experiment.planner, experiment.chosen, asked)
    kernels = []
    for step, compiled in zip(experiment.plan({}).steps, experiment.compiled, strict=True):
        request = step.request
        if kernel in (None, request.kernel):
            other = given.get(request.kernel)
            if other is not None:
                kernels.append(given_kernel(experiment.program, request, other))
            else:
                choices = taken_by(all_choices(request, compiled, branch).values())
                texts = kernel_texts(experiment.program, request, compiled)
                kernels.append(DiffKernel(request.kernel, choices, texts))
    for each in kernels[1:]:  # the branch is the launch's, and told once
        each.choices = each.choices and {
            key: one for key, one in each.choices.items() if key[0] != f"branch.{trial.call}"
        }
    ready = experiment.attempts[id(trial)].ready
    made = [{"kernel": each.kernel, "schedule": each.schedule} for each in trial.launches]  # of given code, its own
    title = replace(trial, steps=made or trial.steps).title
    side = Side(label, title, trial, kernels, experiment.program.source)
    side.launch = None if ready is None else prepared(ready)
    side.note = lambda: experiment.note(trial)
    return side


def given_kernel(program: Program, request: Request, given: GivenKernel) -> DiffKernel:
    """A kernel whose code was made elsewhere: what is made of the file itself, where its choices are known, is its
    syntax tree."""
    texts = given.texts
    if given.choices is not None:
        texts = replace(texts, texts={"ast": tree(program.kernels[request.kernel]), **texts.texts})
    return DiffKernel(request.kernel, given.choices, texts)


def compiled_side(
    program: Program, request: Request, label: str, place: TuningPlace, given: GivenKernel | None
) -> Side:
    """A kernel that no example launches: what the assembler says of it. Raises TileError, LaunchError."""
    from dsl.runtime import Kernel

    compiled = compile_variant(program, request)
    kernel = DiffKernel(request.kernel, None, KernelTexts({}))
    if given is None:
        kernel.choices = taken_by(all_choices(request, compiled, None).values())
        kernel.texts, made = kernel_texts(program, request, compiled), made_of(compiled.ptx, compiled.header, "counted")
    else:
        kernel, made = given_kernel(program, request, given), given.made
    facts = {"dims": dict(request.dims), "types": dict(request.types), "options": {}, "values": dict(request.constants)}
    steps = [{"kernel": request.kernel, "schedule": request.schedule}]
    about = (program.digest(), place.name, place.driver, versions(program.plugins), request.kernel, None, 0)
    facts |= replays(program, 0, ())
    trial = Trial(*about, **facts, steps=steps, status="compiled")  # type: ignore[misc, arg-type]
    trial.launches = [described(Kernel(made.ptx or "", made.entry, place.device), made, place)]
    return Side(label, trial.title, trial, [kernel], program.source)


# ---- what differs ----


@dataclass(frozen=True, slots=True)
class LineDifference:
    """A line of the source whose counters differ. is_second: whether `line` is one of the second side's file alone."""

    line: str
    is_second: bool
    text: str
    first: Mapping[str, float]
    second: Mapping[str, float]


@dataclass(slots=True)
class KernelDifference:
    """Two kernels: choices that differ, None where those of a side are not known; how many each made; constants that
    differ; the stages."""

    first: str
    second: str
    constants: dict[str, tuple[Any, Any]]
    choices: list[ChoiceDifference] | None
    made: tuple[int, int]
    stages: StagesDifference


@dataclass(slots=True)
class Difference:
    """All that two sides differ in. ratio: of the second's times to the first's, round by round, with its interval;
    differs: whether that is told from 1. unpaired: kernels of one side, by its letter."""

    first: Side
    second: Side
    kernels: list[KernelDifference]
    lines: list[LineDifference]
    unpaired: list[tuple[str, str]] = field(default_factory=list)
    ratio: tuple[float, float, float] | None = None
    differs: bool | None = None

    @property
    def figures(self) -> dict[str, tuple[Any, Any]]:
        """By heading, as far as one of them has it."""
        mine, others = self.first.figures(), self.second.figures()
        known = {head: (mine.get(name), others.get(name)) for head, name in FIGURES.items()}
        return {head: pair for head, pair in known.items() if pair != (None, None)}

    @property
    def is_same_code(self) -> bool:
        """Whether the PTX of all kernels is the same, but for names."""
        ptx = [stage for each in self.kernels for stage in each.stages.stages if stage.stage == "ptx"]
        return not self.unpaired and not any(stage.hunks for stage in ptx)

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs but times."""
        same = all(not each.choices and not each.constants and each.stages.first is None for each in self.kernels)
        return same and not self.unpaired and all(a == b for a, b in self.figures.values())


def compared(first: Side, second: Side, settings: DiffSettings) -> Difference:
    """Compares two sides; on a GPU, in one contest of shuffled rounds. TileError if they have no kernel in common."""
    pairs, unpaired = paired(first.kernels, second.kernels)
    if not pairs:
        names = ["; ".join(each.kernel for each in side.kernels) for side in (first, second)]
        message = f"A has the kernels {names[0] or 'none'}, B {names[1] or 'none'}"
        raise TileError("option", None, message, "kernel=NAME on a side says which to compare")
    kernels = [kernel_difference((first, second), pair, settings.context) for pair in pairs]
    made = Difference(first, second, kernels, line_differences(first, second), unpaired)
    if first.launch is not None and second.launch is not None:
        contest(made, settings)
    return made


def paired(
    first: Sequence[DiffKernel], second: Sequence[DiffKernel]
) -> tuple[list[tuple[DiffKernel, DiffKernel]], list[tuple[str, str]]]:
    """Kernels side by side: one after the other where there are as many, else by name; and those of one side."""
    if len(first) == len(second):
        return list(zip(first, second, strict=True)), []
    pairs, rest, alone = [], list(second), []
    for each in first:
        other = next((one for one in rest if one.kernel == each.kernel), None)
        if other is None:
            alone.append(("A", each.kernel))
        else:
            rest.remove(other)
            pairs.append((each, other))
    return pairs, [*alone, *(("B", each.kernel) for each in rest)]


def kernel_difference(sides: tuple[Side, Side], pair: tuple[DiffKernel, DiffKernel], context: int) -> KernelDifference:
    a, b = pair
    known = a.choices is not None and b.choices is not None
    choices = differing(a.choices or {}, b.choices or {}) if known else None
    made = len(a.choices or ()), len(b.choices or ())
    mine, others = (constants_of(side.trial, each.kernel) for side, each in zip(sides, pair, strict=True))
    names = dict.fromkeys([*mine, *others])
    constants = {
        name: (mine.get(name), others.get(name))
        for name in names
        if exact_key(mine.get(name)) != exact_key(others.get(name))
    }
    stages = compared_stages(a.texts, b.texts, context)
    return KernelDifference(a.kernel, b.kernel, constants, choices, made, stages)


def constants_of(trial: Trial, kernel: str) -> Mapping[str, Any]:
    return next((each.constants for each in trial.launches if each.kernel == kernel), {})


def line_differences(first: Side, second: Side) -> list[LineDifference]:
    """The lines whose counters differ, those first that take the greatest part of what a side counts. Lines that differ
    between two texts of the file stand for themselves. None where a side is not counted."""
    if first.trial.counters is None or second.trial.counters is None:
        return []
    mine, others = ({line: by_line(counts) for line, counts in side.trial.by_line.items()} for side in (first, second))
    joined = others
    if first.source is not None and second.source is not None and first.source.text != second.source.text:
        same = {str(b): str(a) for b, a in joined_lines(first.source.text, second.source.text).items()}
        joined = {same.get(line, line if ":" in line else f"+{line}"): counts for line, counts in others.items()}
    totals = {
        name: max(1.0, *(sum(counts[name] for counts in side.values()) for side in (mine, others))) for name in BY_LINE
    }
    blank = dict.fromkeys(BY_LINE, 0.0)
    weighed: list[tuple[float, LineDifference]] = []
    for key in dict.fromkeys([*mine, *joined]):
        a, b = mine.get(key, blank), joined.get(key, blank)
        if a != b:
            is_second, line = key.startswith("+"), key.removeprefix("+")
            text = (second if is_second else first).line(line)
            weight = sum(abs(a[name] - b[name]) / totals[name] for name in BY_LINE)
            weighed.append((weight, LineDifference(line, is_second, text, a, b)))
    return [each for _, each in sorted(weighed, key=lambda pair: -pair[0])]


def by_line(counts: Mapping[str, float]) -> dict[str, float]:
    """What is compared of a line's counters."""
    sectors, wavefronts, work = counted_rank(counts)
    others = counts.get("bank_conflicts", 0), counts.get("barriers", 0)
    return dict(zip(BY_LINE, (sectors, wavefronts, *others, work), strict=True))


def contest(made: Difference, settings: DiffSettings) -> None:
    """Times of both in rounds of a random order, and their ratio."""
    from dsl.runtime.cuda.context import time_limit
    from dsl.runtime.cuda.timing import measure_rounds

    sides = (made.first, made.second)
    launches = [side.launch for side in sides if side.launch is not None]
    assert settings.ordinal is not None
    with time_limit(WAIT_SECONDS):
        found = measure_rounds(launches, settings.rounds, order=Random(settings.seed), device=settings.ordinal)
    name = uuid4().hex[:12]
    for side, times in zip(sides, found, strict=True):
        side.trial.times_us, side.trial.contest = [round(t, 3) for t in times], name
        side.note()
    a, b = (side.trial.times_us for side in sides)
    made.ratio = ratio_interval(b, a)
    made.differs = sign_probability(b, a) <= 1 - CONFIDENCE


# ---- as data ----


def as_json(made: Difference) -> dict[str, Any]:
    """What `dsl diff --json` prints of a launch."""
    figures = {}
    for head, (a, b) in made.figures.items():
        figures[FIGURES[head]] = {"a": a, "b": b} | ({"ratio": b / a} if is_number(a) and is_number(b) and a else {})
    record: dict[str, Any] = {"differs": not made.is_equal, "same_code": made.is_same_code}
    record |= {letter: side_as_json(side) for letter, side in (("a", made.first), ("b", made.second))}
    record |= {"figures": figures, "lines": [asdict(each) for each in made.lines]}
    record |= {"kernels": [kernel_as_json(each) for each in made.kernels], "only": [list(one) for one in made.unpaired]}
    if made.ratio is not None:
        record |= {"ratio": made.ratio[0], "ratio_interval": list(made.ratio[1:]), "time_differs": made.differs}
    return record


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def side_as_json(side: Side) -> dict[str, Any]:
    trial = side.trial
    row: dict[str, Any] = {"side": side.label, "title": side.title, "reason": trial.reason, "notes": side.notes}
    if trial.times_us:
        median, low, high = trial.interval
        row |= {"median_us": median, "interval_us": [low, high], "rounds": len(trial.times_us)}
    return row


def kernel_as_json(each: KernelDifference) -> dict[str, Any]:
    choices = None
    if each.choices is not None:
        choices = [
            {"label": one.label, "keys": list(one.keys), "a": said(one.first), "b": said(one.second)}
            for one in each.choices
        ]
    stages = [
        {
            "stage": one.stage,
            "added": one.added,
            "removed": one.removed,
            "hunks": [{"line": h.line, "second": h.is_second, "rows": list(h.rows)} for h in one.hunks],
        }
        for one in each.stages.stages
    ]
    first = each.stages.first
    record: dict[str, Any] = {"a": each.first, "b": each.second, "choices": choices, "made": list(each.made)}
    record |= {"constants": {name: {"a": a, "b": b} for name, (a, b) in each.constants.items()}}
    record |= {"first_difference": None if first is None else first.stage, "stages": stages}
    return record | {"only": each.stages.only, "missing": each.stages.missing}


def said(taken: Taken | None) -> dict[str, str] | None:
    return None if taken is None else asdict(taken)
