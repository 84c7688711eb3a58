"""Compares two launches: the compiler's choices, the figures, the costs of each line, and the first level of the code
that differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any
from uuid import uuid4

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from dsl.calls.decisions import all_choices, branch_choice
from dsl.calls.tuned import CallFacts
from dsl.kernels.compile import compile_variant
from dsl.kernels.levels import Lines, tree
from dsl.kernels.variant import Request
from dsl.lab.clocks import clocks
from dsl.lab.compiling import Made, made_of
from dsl.lab.contest import CONFIDENCE, ratio_interval, sign_probability
from dsl.lab.diff_choices import Numbered, Taken, differing, taken_by
from dsl.lab.diff_levels import KernelTexts, compared_levels, kernel_texts
from dsl.lab.diff_text import joined_lines
from dsl.lab.experiment import ROUNDS, Experiment
from dsl.lab.place import TuningPlace
from dsl.lab.runner import described, prepared
from dsl.lab.trial import Trial, blank_trial
from dsl.lowering.ir.location import Source, TileError
from dsl.runtime.numbers import exact_key
from dsl.text.program import Program

FIGURES = (
    *("result", "registers", "spills", "sass", "shared_bytes", "threads", "occupancy"),
    *("sectors", "wavefronts", "conflicts", "barriers", "work"),
)
"""The figures of a trial that `dsl diff` compares."""
BY_LINE = ("sectors", "wavefronts", "conflicts", "barriers", "work")
"""The figures that `dsl diff` compares line by line."""


class DiffKernel(Struct):
    """A kernel of one side of a comparison.

    `choices` is None if the choices are unknown, as for a PTX file. `made` is code from a commit's compiler, or written
    by hand.
    """

    kernel: str
    choices: Mapping[Numbered, Taken] | None
    texts: KernelTexts
    made: Made | None = None


class Side(Struct):
    """One of the two sides of a comparison.

    `source` is the side's `.tile` file. `launch` is the function that is timed. `note` writes the side's trial to the
    log.
    """

    label: str
    title: str
    trial: Trial
    kernels: list[DiffKernel]
    source: Source | None = None
    launch: Callable[[], object] | None = None
    note: Callable[[], None] = lambda: None
    notes: list[str] = field(default_factory=list)

    def line(self, where: str) -> str:
        """The text of a source line, or an empty string if there is no such line.

        `where` is `12` for a line of the side's own file, or `library/exp.tile:25` for a line of another file.
        """
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

    def record(self) -> dict[str, Any]:
        about = {"side": self.label, "title": self.title, "reason": self.trial.reason, "notes": self.notes}
        return about | self.trial.timing


def launched_side(
    experiment: Experiment, label: str, kernel: str | None, given: Mapping[str, DiffKernel] | None = None
) -> Side:
    """Runs a launch of an example with the compiler's choices, and returns it as a side. Kernels in `given` replace
    compiled kernels.

    If `kernel` is not None, only this kernel is compared. Raises TileError, DeviceError.
    """
    trial = experiment.trial({})
    asked = experiment.conditions.schedule or experiment.call.facts.schedule
    branch = branch_choice(experiment.planner, experiment.chosen, asked)
    kernels = []
    for step, compiled in zip(experiment.plan({}).steps, experiment.compiled, strict=True):
        request = step.request
        if kernel not in (None, request.kernel):
            continue
        if (other := (given or {}).get(request.kernel)) is not None:
            kernels.append(with_tree(experiment.program, other))
        else:
            choices = taken_by(all_choices(request, compiled, branch).values())
            kernels.append(DiffKernel(request.kernel, choices, kernel_texts(experiment.program, request, compiled)))
    for each in kernels[1:]:  # the branch belongs to the launch and is listed once
        each.choices = each.choices and {
            key: one for key, one in each.choices.items() if key[0] != f"branch.{trial.call}"
        }
    ready = experiment.attempts[id(trial)].ready
    made = [{"kernel": each.kernel, "schedule": each.schedule} for each in trial.launches]  # the kernels of `given`
    title = replace(trial, steps=made or trial.steps).title
    side = Side(label, title, trial, kernels, experiment.program.source)
    side.launch = None if ready is None else prepared(ready)
    side.note = lambda: experiment.note(trial)
    return side


def with_tree(program: Program, given: DiffKernel) -> DiffKernel:
    """Adds the syntax tree of the `.tile` file to the levels of a kernel that this compiler did not generate.

    If the kernel's choices are unknown, it was not compiled from the file, and it is returned unchanged.
    """
    if given.choices is None:
        return given
    return replace(
        given, texts=replace(given.texts, texts={"ast": tree(program.kernels[given.kernel]), **given.texts.texts})
    )


def compiled_side(program: Program, request: Request, label: str, place: TuningPlace, given: DiffKernel | None) -> Side:
    """Makes a side for a kernel that no example launches. Its only figures are those of ptxas and nvdisasm. Raises
    TileError, LaunchError."""
    from dsl.runtime import Kernel

    compiled = compile_variant(program, request)
    if given is None:
        choices = taken_by(all_choices(request, compiled, None).values())
        texts, made = kernel_texts(program, request, compiled), made_of(compiled.ptx, compiled.header, "counted")
        given = DiffKernel(request.kernel, choices, texts, made)
    else:
        given = with_tree(program, given)
    assert given.made is not None
    facts = CallFacts(request.kernel, {}, request.types, request.dims)
    about: dict[str, Any] = {"example": None, "index": 0, "values": dict(request.constants), "status": "compiled"}
    steps = [{"kernel": request.kernel, "schedule": request.schedule}]
    trial = blank_trial(program, place, facts, 0, (), steps=steps, **about)
    trial.launches = [described(Kernel(given.made.ptx or "", given.made.entry, place.device), given.made, place)]
    return Side(label, trial.title, trial, [given], program.source)


# ---- what differs ----


def compared(first: Side, second: Side, context: int, contest: Contest) -> dict[str, Any]:
    """Compares two sides, and returns the data of `dsl diff --json`. On a GPU, both sides are timed in shuffled rounds.

    `differs` is true if anything except the times differs. `same_code` is true if the PTX of all kernels is equal apart
    from names. `only` lists the kernels that just one side has, with this side's letter. Raises a TileError if no
    kernels can be paired.
    """
    pairs, only = paired(first.kernels, second.kernels)
    if not pairs:
        names = ["; ".join(each.kernel for each in side.kernels) for side in (first, second)]
        message = f"A has the kernels {names[0] or 'none'}, B {names[1] or 'none'}"
        raise TileError("option", None, message, "kernel=NAME on a side chooses the one to compare")
    kernels = [kernel_difference((first, second), pair, context) for pair in pairs]
    figures = compared_figures(first.figures(), second.figures())
    found = [each[what] for each in kernels for what in ("choices", "constants", "first_difference")]
    ptx = [level for each in kernels for level in each["levels"] if level["level"] == "ptx"]
    record: dict[str, Any] = {
        "differs": bool(only or any(found) or any(pair["a"] != pair["b"] for pair in figures.values())),
        "same_code": not only and not any(level["hunks"] for level in ptx),
    }
    # The contest runs before `record`, since the records include the times.
    times = contest.run(first, second)
    record |= {"a": first.record(), "b": second.record(), "figures": figures}
    return record | {"lines": line_differences(first, second), "kernels": kernels, "only": only, **times}


def paired(
    first: Sequence[DiffKernel], second: Sequence[DiffKernel]
) -> tuple[list[tuple[DiffKernel, DiffKernel]], list[tuple[str, str]]]:
    """The pairs of kernels to compare, and the kernels that only one side has.

    If both sides have the same number of kernels, they are paired in order. Otherwise, they are paired by name.
    """
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


def kernel_difference(sides: tuple[Side, Side], pair: tuple[DiffKernel, DiffKernel], context: int) -> dict[str, Any]:
    """Compares two kernels: the choices, the number of choices on each side, the constants, and the levels of the code.

    `choices` is None if a side's choices are unknown.
    """
    a, b = pair
    choices = None
    if a.choices is not None and b.choices is not None:
        choices = [
            {
                "label": one.label,
                "keys": list(one.keys),
                "a": one.first and to_builtins(one.first),
                "b": one.second and to_builtins(one.second),
            }
            for one in differing(a.choices, b.choices)
        ]
    mine, others = (constants_of(side.trial, each.kernel) for side, each in zip(sides, pair, strict=True))
    both = {name: (mine.get(name), others.get(name)) for name in [*mine, *others]}
    # 1 and 1.0 are different constants, and so are 0.0 and -0.0.
    constants = {name: {"a": x, "b": y} for name, (x, y) in both.items() if exact_key(x) != exact_key(y)}
    made = [len(a.choices or ()), len(b.choices or ())]
    levels = compared_levels(a.texts, b.texts, context)
    for hunk in (hunk for level in levels["levels"] for hunk in level["hunks"]):
        hunk["text"] = "" if hunk["line"] is None else sides[hunk["second"]].line(str(hunk["line"]))
        # If both sides have the same text, it does not matter which side a line belongs to.
        hunk["second"] = hunk["second"] and are_two_texts(*sides)
    return {"a": a.kernel, "b": b.kernel, "choices": choices, "made": made, "constants": constants, **levels}


def constants_of(trial: Trial, kernel: str) -> Mapping[str, Any]:
    return next((each.constants for each in trial.launches if each.kernel == kernel), {})


def compared_figures(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The figures that at least one side has, and for numbers the ratio b / a."""
    found = {}
    for name in FIGURES:
        x, y = a.get(name), b.get(name)
        if x is not None or y is not None:
            ratio = {"ratio": y / x} if is_number(x) and is_number(y) and x else {}
            found[name] = {"a": x, "b": y, **ratio}
    return found


def is_number(value: Any) -> bool:
    # In Python, `True` is an int.
    return isinstance(value, int | float) and not isinstance(value, bool)


def are_two_texts(first: Side, second: Side) -> bool:
    """Whether the two sides come from different versions of the `.tile` text."""
    texts = [None if side.source is None else side.source.text for side in (first, second)]
    return texts[0] != texts[1]


def line_differences(first: Side, second: Side) -> list[dict[str, Any]]:
    """The source lines whose counters differ, greatest difference first. The list is empty if a side has no counters.

    To compare differences of several counters, each is divided by the counter's total. If the sides have different
    `.tile` texts, `is_second` marks a line that only the second text has.
    """
    if first.trial.counters is None or second.trial.counters is None:
        return []
    mine, others = ({line: by_line(counts) for line, counts in side.trial.by_line.items()} for side in (first, second))
    joined = others
    if first.source is not None and second.source is not None and first.source.text != second.source.text:
        # Line numbers shift with every edit, so equal lines of both texts are joined.
        same = {str(b): str(a) for b, a in joined_lines(first.source.text, second.source.text).items()}
        joined = {same.get(line, line if ":" in line else f"+{line}"): counts for line, counts in others.items()}
    totals = {
        # A difference counts as a fraction of the total, since sectors and instructions have no common unit.
        name: max(1.0, *(sum(counts[name] for counts in side.values()) for side in (mine, others)))
        for name in BY_LINE
    }
    blank = dict.fromkeys(BY_LINE, 0.0)
    weighed: list[tuple[float, dict[str, Any]]] = []
    for key in dict.fromkeys([*mine, *joined]):
        a, b = mine.get(key, blank), joined.get(key, blank)
        if a != b:
            is_second, line = key.startswith("+"), key.removeprefix("+")
            text = (second if is_second else first).line(line)
            weight = sum(abs(a[name] - b[name]) / totals[name] for name in BY_LINE)
            weighed.append((weight, {"line": line, "is_second": is_second, "text": text, "first": a, "second": b}))
    return [each for _, each in sorted(weighed, key=lambda pair: -pair[0])]


def by_line(counts: Mapping[str, float]) -> dict[str, float]:
    """Computes, from a line's counters, the figures in `BY_LINE`."""
    from dsl.runtime.emulator import Counters

    figures = Counters.from_dict(counts).figures
    return {name: figures[name] for name in BY_LINE}


class Contest(Struct, frozen=True):
    """How two sides are timed against each other: the device, the number of rounds, and the seed."""

    place: TuningPlace
    rounds: int = ROUNDS
    seed: int = 0

    def run(self, first: Side, second: Side) -> dict[str, Any]:
        """Times both sides in random order. Returns an empty dict without a GPU.

        `ratio` is the median, over the rounds, of the second side's time divided by the first side's, and
        `ratio_interval` is its interval. `time_differs` is true if the ratio differs significantly from 1.
        """
        if first.launch is None or second.launch is None or not self.place.is_timed:
            return {}
        found = self.place.rounds([first.launch, second.launch], self.rounds, Random(self.seed))
        name, speeds = uuid4().hex[:12], clocks(self.place)
        for side, times in zip((first, second), found, strict=True):
            side.trial.times_us, side.trial.contest = [round(t, 3) for t in times], name
            side.trial.clocks = speeds
            side.note()
        a, b = first.trial.times_us, second.trial.times_us
        ratio, *interval = ratio_interval(b, a)
        # Two sides make a single comparison, which needs no correction.
        differs = sign_probability(b, a) <= 1 - CONFIDENCE
        return {"ratio": ratio, "ratio_interval": interval, "time_differs": differs}
