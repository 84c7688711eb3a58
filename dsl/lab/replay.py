"""Makes the trials of a log again: compiles them, checks and counts them on the emulator, or times them on a GPU.

Trials of one example with one set of values share its arrays. Trials that were timed together are timed together again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from socket import gethostname
from typing import Any, Protocol
from uuid import uuid4

from msgspec import Struct, field
from msgspec.structs import replace

from dsl.calls.plan import Plan
from dsl.calls.tuned import CallFacts
from dsl.examples.first_blocks import in_words
from dsl.examples.overrides import resolve
from dsl.kernels.edited import Edited, edited_from
from dsl.kernels.plugin_files import load_plugins
from dsl.lab.case import TuningCase
from dsl.lab.clocks import clocks
from dsl.lab.compiling import Code, Compiler, Made, begin_compiling
from dsl.lab.contest import median_interval
from dsl.lab.experiment import BUDGET_FACTOR
from dsl.lab.place import TuningPlace, find_place
from dsl.lab.replay_differences import (
    ReplayDifference,
    changes,
    code_differences,
    result_differences,
    said_result,
    time_difference,
)
from dsl.lab.runner import FIRST_BLOCKS, RACES, LazyCase, Ready, Runner, expected, prepared, with_arguments
from dsl.lab.space import SpaceChoice, TuningCall, calls
from dsl.lab.station import steps_of
from dsl.lab.trial import LogLine, Trial, blank_trial
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import DeviceError, RuntimeFault
from dsl.text import tree as ast
from dsl.text.program import Program, load

EMULATED = "emulated "
EQUAL, CODE_EQUAL, DIFFERS, NOT_MADE = "equal", "code equal", "differs", "not made"
"""The verdicts of a line. `code equal` means that the code is equal, but was not run."""


class LogFiles(Protocol):
    """Says where the files of a log are."""

    def file(self, trial: Trial) -> Path: ...

    def plugins(self, trial: Trial) -> list[Path]: ...

    def edited(self, trial: Trial) -> Path: ...


class ReplaySettings(Struct, frozen=True):
    """`device` runs trials of GPUs. With `code_only`, nothing runs. `jobs` is the number of compiling processes.
    `command` contains the words of the command line."""

    device: str = "auto"
    code_only: bool = False
    jobs: int = 0
    command: Sequence[str] = ()


class Replayed(Struct):
    """A line of a log, made again.

    `now` is the new trial, or None. `reason` says why the trial was not made or not run. `since` maps what has changed
    since then to words.
    """

    line: int
    then: Trial | None
    now: Trial | None = None
    verdict: str = NOT_MADE
    reason: str = ""
    differences: list[ReplayDifference] = field(default_factory=list)
    since: dict[str, str] = field(default_factory=dict)


class Again(Struct):
    """A trial that is being made again. `place` is the device for which it is compiled. With `runs`, it also runs
    there. `program` is its file, and `edited` its handwritten code. `key` is that of its case. If `is_broken`, nothing
    can be said of it."""

    made: Replayed
    then: Trial
    now: Trial
    program: Program
    place: TuningPlace
    runs: bool
    call: TuningCall | None = None
    case: LazyCase | None = None
    plan: Plan | None = None
    edited: Edited | None = None
    ready: Ready | None = None
    key: tuple[Any, ...] | None = None
    is_broken: bool = False


class Replay:
    """Makes the lines of a log again."""

    def __init__(self, sources: LogFiles, settings: ReplaySettings):
        self.sources, self.settings = sources, settings
        self.programs: dict[tuple[Any, ...], Program] = {}
        self.places: dict[tuple[str, str], tuple[TuningPlace, str]] = {}
        self.cases: dict[tuple[Any, ...], tuple[list[TuningCall], LazyCase]] = {}
        self.uses: Counter[tuple[Any, ...]] = Counter()
        """For each case, the number of trials that still need it."""
        self.most: dict[tuple[str, ...], float] = {}
        """The most thread instructions of a trial, for each launch."""
        self.pool: Executor | None = None
        self.lost = ""
        """Why the GPU has become unusable."""
        self.compilers: dict[tuple[int, Code], Compiler] = {}
        self.stack = ExitStack()

    def run(self, lines: Sequence[LogLine], advance: Callable[[str], None] = lambda verdict: None) -> list[Replayed]:
        """Makes the lines again, one contest after another. Returns them in the order of the log."""
        found: list[Replayed] = []
        for trial in (line.trial for line in lines if line.trial is not None and line.trial.counters):
            executed = (trial.counters or {}).get("thread_instructions", 0)
            self.most[work_of(trial)] = max(executed, self.most.get(work_of(trial), 0))
        with self.stack:
            begun = [self.begin(line) for line in lines]
            for each in begun:
                if isinstance(each, Again):
                    self.compile_ahead(each)
            for group in groups(begun):
                for each in group:
                    if isinstance(each, Again):
                        self.attempt(each)
                self.time([each for each in group if isinstance(each, Again) and each.ready is not None])
                for each in group:
                    found.append(self.judged(each) if isinstance(each, Again) else each)
                    advance(found[-1].verdict)
                self.release(group)
        return sorted(found, key=lambda each: each.line)

    # ---- what a line says ----

    def begin(self, line: LogLine) -> Again | Replayed:
        """Finds the file, the device and the plan of a line."""
        trial = line.trial
        if trial is None:
            return Replayed(line.number, None, reason=f"this line is no trial: {line.problem}")
        try:
            return self.planned(line.number, trial)
        except (TileError, RuntimeFault) as error:
            return Replayed(line.number, trial, reason=error.message)

    def planned(self, number: int, trial: Trial) -> Again:
        program, (place, missing) = self.program(trial), self.place(trial)
        edited = self.edited(trial)
        example = example_of(program, trial)
        about = {"index": trial.index, "values": trial.values, "steps": trial.steps, "choices": trial.choices}
        about |= {"example": trial.example, "example_index": trial.example_index, "edited": trial.edited}
        facts = CallFacts(trial.call, trial.options, trial.types, trial.dims)
        now = blank_trial(program, place, facts, trial.seed, self.settings.command, **about)
        now.versions = now.versions | ({"from": edited.digest} if edited is not None else {})
        now.where = f"{gethostname()} {place.device}"
        made = Replayed(number, trial, now)
        runs = not missing and example is not None and not self.settings.code_only and trial.status != "compiled"
        if missing or example is None:
            by = f", but '{' '.join(trial.command)}'" if trial.command else ""
            made.reason = missing or f"not run: no example makes its arrays{by}"
        if place.is_timed and trial.status == "failed":
            runs, made.reason = False, "not run: it failed then, and may make the GPU unusable"
        again = Again(made, trial, now, program, place, runs, edited=edited)
        try:
            self.plan(again, example)
        except TileError as error:
            # A point that cannot be planned was logged like one that does not compile.
            if trial.status != "compile":
                raise
            now.status, now.reason = "compile", error.render()
        return again

    def program(self, trial: Trial) -> Program:
        path, plugins = self.sources.file(trial), tuple(self.sources.plugins(trial))
        if (path, plugins) not in self.programs:
            self.programs[path, plugins] = load(path, plugins=load_plugins(plugins))
        return self.programs[path, plugins]

    def edited(self, trial: Trial) -> Edited | None:
        if not trial.edited and "from" not in trial.versions:
            return None
        if not trial.edited:
            raise TileError("option", None, "it launched handwritten code, and the log does not name the file")
        return edited_from(str(self.sources.edited(trial)), trial.choices)

    def place(self, trial: Trial) -> tuple[TuningPlace, str]:
        """The device of a trial, and why it does not run there. Code for a GPU that is not here is compiled as if it
        were."""
        key = trial.device, trial.arch
        if key not in self.places:
            self.places[key] = self.found_place(trial)
        return self.places[key]

    def found_place(self, trial: Trial) -> tuple[TuningPlace, str]:
        arch, device = trial.arch or None, self.settings.device
        if trial.device.startswith(EMULATED):
            return find_place("emulator", arch), ""
        if device != "emulator":
            try:
                return find_place("cuda" if device == "auto" else device, arch), ""
            except RuntimeFault:
                # A named device must be there.
                if device != "auto":
                    raise
        here = find_place("emulator", arch)
        sms = next((each.sms for each in trial.requests if each.sms is not None), here.sms)
        return replace(here, name=trial.device, sms=sms), f"not run: there is no {trial.device} here"

    def plan(self, again: Again, example: ast.Example | None) -> None:
        """Sets the plan of a trial, and the call and the arrays of its example. A trial that no example made, as of
        benchmarks/regret.py, has only the plan's requests."""
        trial = again.then
        if example is None:
            if not trial.requests:
                raise TileError("option", None, "it has neither an example nor requests to compile")
            return
        found, again.case = self.example(again, example)
        if trial.index >= len(found):
            raise TileError("example", None, f"the example has {len(found)} launches now, and not {trial.index + 1}")
        again.call = with_arguments(found[trial.index], again.case)
        facts, now = again.call.planner().facts(), again.now
        now.call, now.options, now.types, now.dims = facts.call, *map(dict, (facts.options, facts.types, facts.dims))
        if any("constants" in step for step in trial.steps):
            again.plan = again.call.plan(steps_of(trial), trial.choices)
            return
        # Commands that vary choices alone do not log constants: the dispatch or the schedule chooses them.
        asked = trial.steps[0].get("schedule") if len(trial.steps) == 1 else again.call.facts.schedule
        again.plan = again.call.planner(schedule=asked).plan()
        for step in again.plan.steps:
            step.request = replace(step.request, choices=trial.choices)

    def example(self, again: Again, example: ast.Example) -> tuple[list[TuningCall], LazyCase]:
        """The launches of a trial's example, and its arrays, which all trials with the same values share."""
        trial, program = again.then, again.program
        key = (id(program), id(example), again.place, again.runs, trial.seed, str(sorted(trial.values.items())))
        again.key, self.uses[key] = key, self.uses[key] + 1
        if key not in self.cases:
            overrides = resolve(program, example, [f"{name}={value}" for name, value in trial.values.items()])
            about = program, example, overrides, again.place
            case = LazyCase(partial(TuningCase, *about, trial.seed, SpaceChoice()) if again.runs else not_run)
            self.cases[key] = calls(*about), case
        return self.cases[key]

    # ---- making it again ----

    def compiler(self, again: Again) -> Compiler:
        """The compiler that also finds those facts about the code that the log has."""
        known = again.then.launches
        code: Code = "assembled" if any(each.registers is not None for each in known) else "none"
        if any(each.instructions is not None for each in known):
            code = "counted"
        elif again.place.is_timed:  # the driver reports registers
            code = "none"
        key = id(again.program), code
        if key not in self.compilers:
            jobs = self.settings.jobs
            if jobs and self.pool is None:  # one for all files
                self.pool = ProcessPoolExecutor(jobs, get_context("spawn"), begin_compiling)
                self.stack.callback(self.pool.shutdown, wait=True, cancel_futures=True)
            self.compilers[key] = self.stack.enter_context(Compiler(again.program, jobs, code, self.pool))
        return self.compilers[key]

    def compile_ahead(self, again: Again) -> None:
        if again.plan is not None and self.settings.jobs:
            self.compiler(again).begin_plan(again.plan, again.edited)

    def code(self, again: Again) -> list[Made]:
        compiler = self.compiler(again)
        if again.plan is not None:
            return compiler.made_plan(again.plan, again.edited)
        requests = [replace(each.request, choices=again.then.choices) for each in again.then.requests]
        return [compiler.made(request) for request in requests]

    def attempt(self, again: Again) -> None:
        """Compiles a trial, runs it, and checks and counts it."""
        then, now = again.then, again.now
        if now.status == "compile":
            return
        if again.runs and again.place.ordinal is not None and self.lost:
            again.is_broken, again.made.reason = True, f"the GPU is unusable: {self.lost}"
            return
        made = self.code(again)
        refused = next((each.error for each in made if each.error is not None), None)
        if refused is not None:
            now.status, now.reason = "compile", refused
            return
        if not again.runs:
            from dsl.runtime.header import read

            headers = [read(each.ptx or "")[each.entry or ""] for each in made]
            now.launches = [expected(*pair, again.place) for pair in zip(headers, made, strict=True)]
            now.status = "compiled"
            return
        assert again.case is not None and again.call is not None and again.plan is not None
        runner = Runner(again.place, again.case, again.call.index)
        # The settings under which the command logged such a trial.
        runner.lines, runner.may_spill = bool(then.by_line), then.status != "spills"
        runner.blocks = then.blocks or FIRST_BLOCKS
        most = self.most.get(work_of(then))
        if most and again.place.ordinal is None:  # without a limit, a trial that hung would hang again
            runner.budget = int(BUDGET_FACTOR * most)
        try:
            self.launched(again, runner, made)
        except TileError as error:  # the example itself fails, whatever the trial
            again.is_broken, again.made.reason = True, error.message
        except DeviceError as fault:  # after it, this process launches nothing more
            again.is_broken, again.made.reason = True, fault.message
            self.lost = fault.message

    def launched(self, again: Again, runner: Runner, made: list[Made]) -> None:
        then, now, plan = again.then, again.now, again.plan
        assert plan is not None
        findings = runner.count(now, plan, made) if again.place.is_timed and then.counters else []
        again.ready = runner.attempt(now, plan, made)
        if again.ready is not None and (then.answer, now.answer) == ("expect", "agreement"):
            runner.check(now, again.ready, whole=True)  # as `dsl tune` checks its winner
        race = next((each for each in findings if each.kind in RACES), None)
        if then.status == "race" and race is not None:  # the numbers of a launch with a race may be right
            again.ready, now.status, now.reason = None, "race", in_words(race)
        if now.status == "measured" and then.status != "measured":
            again.ready, now.status = None, "counted"  # it was right then, and was not timed

    def time(self, group: Sequence[Again]) -> None:
        """Times trials against each other, in as many rounds as the longest of them had."""
        timed = [each for each in group if each.then.times_us and each.now.status == "measured"]
        if not timed:
            return
        place, rounds = timed[0].place, max(len(each.then.times_us) for each in timed)
        launches = [prepared(each.ready) for each in timed if each.ready is not None]
        found = place.rounds(launches, rounds, Random(timed[0].then.seed))
        name, speeds = uuid4().hex[:12], clocks(place)
        for each, times in zip(timed, found, strict=True):
            each.now.times_us, each.now.contest, each.now.clocks = [round(t, 3) for t in times], name, speeds
        if (base := reference(timed)) is not None:
            for each in timed:
                each.now.reference_us = round(median_interval(list(base.now.times_us))[0], 3)

    # ---- what came of it ----

    def judged(self, again: Again) -> Replayed:
        """Compares a trial with its line."""
        made, then, now = again.made, again.then, again.now
        if again.is_broken:
            return made
        since, is_compiled = changes(then, now), now.status != "compile"
        found = [*call_differences(then, now)]
        if is_compiled:
            # Without the GPU, its driver does not say what code it makes of the PTX.
            found += code_differences(then, now, again.runs or then.device.startswith(EMULATED))
        if again.runs or not is_compiled:
            found += result_differences(then, now)
        elif then.status == "compile":
            found.append(("result", said_result(then), "compiles"))
        time = time_difference(then, now, references_of(then, now)) if now.times_us else None
        found += [time] if time is not None else []
        is_other_code = any(name.startswith("ptx") for name, *_ in found)
        made.differences = [ReplayDifference(*each, since.causes(each[0], is_other_code)) for each in found]
        made.since = since.found
        is_whole = again.runs or not is_compiled or then.status == "compiled"
        made.verdict = DIFFERS if found else EQUAL if is_whole else CODE_EQUAL
        return made

    def release(self, group: Sequence[Again | Replayed]) -> None:
        """Frees the arrays that no later trial needs. A log may have hundreds of shapes."""
        for each in group:
            if isinstance(each, Again):
                each.ready = each.case = each.call = each.plan = None
                if each.key is not None:
                    self.uses[each.key] -= 1
                    if not self.uses[each.key]:
                        self.cases.pop(each.key, None)


def not_run() -> TuningCase:
    raise TileError("example", None, "not made: only a run of the example gives its arguments")


def example_of(program: Program, trial: Trial) -> ast.Example | None:
    """The example of a trial, or None if no example made it."""
    at, known = trial.example_index, program.examples
    if at is None:
        # Older lines do not say which of several examples without a name they are of.
        found = [each for each in known if each.name == trial.example]
        return found[0] if found and trial.schema < 4 and not is_of_requests(trial) else None
    if at < len(known) and known[at].name == trial.example:
        return known[at]
    # The file has another order of examples now.
    named = [each for each in known if each.name == trial.example is not None]
    if not named:
        what = f"'{trial.example}'" if trial.example else f"number {at + 1}"
        raise TileError("example", None, f"{program.source.name} has no example {what} now")
    return named[0]


def is_of_requests(trial: Trial) -> bool:
    """Whether an old line is of benchmarks/regret.py, which has no example, but a name for what it computes."""
    return "operation" in trial.values


def work_of(trial: Trial) -> tuple[str, ...]:
    """Identifies the launch of a trial, whatever code it has."""
    return trial.file, trial.call, str(trial.index), str(sorted(trial.values.items()))


def groups(begun: Sequence[Again | Replayed]) -> Iterator[list[Again | Replayed]]:
    """Puts trials that were timed together into one group. Every other line is a group of its own."""
    found: dict[Any, list[Again | Replayed]] = {}
    for number, each in enumerate(begun):
        contest = each.then.contest if isinstance(each, Again) and each.runs and each.place.is_timed else None
        key = (contest, each.then.call, each.then.index) if contest is not None and each.then is not None else number
        found.setdefault(key, []).append(each)
    return iter(found.values())


def reference(timed: Sequence[Again]) -> Again | None:
    """The reference point of a contest: the trial whose median the log has as that of the reference."""
    for each in timed:
        base = each.then.reference_us
        if base is not None and abs(median_interval(list(each.then.times_us))[0] - base) < 0.001:
            return each
    return None


def references_of(then: Trial, now: Trial) -> tuple[float, float] | None:
    """The medians of the reference point then and now. The reference itself is compared by its times."""
    if not then.reference_us or not now.reference_us:
        return None
    is_itself = abs(median_interval(list(then.times_us))[0] - then.reference_us) < 0.001
    return None if is_itself else (then.reference_us, now.reference_us)


def call_differences(then: Trial, now: Trial) -> Iterator[tuple[str, Any, Any]]:
    """What the launch line calls, if the file calls something else now."""
    for name in ("call", "options", "types", "dims"):
        was, here = getattr(then, name), getattr(now, name)
        if was != here:
            yield f"call ({name})", was, here


def counts(found: Sequence[Replayed]) -> dict[str, int]:
    """How many lines have each verdict."""
    verdicts = [each.verdict for each in found]
    return {name: verdicts.count(name) for name in (EQUAL, CODE_EQUAL, DIFFERS, NOT_MADE) if name in verdicts}


def is_repeated(found: Sequence[Replayed], code_only: bool) -> bool:
    """Whether all lines are equal. With `code_only`, equal code suffices."""
    fine: Mapping[str, bool] = {EQUAL: True, CODE_EQUAL: code_only}
    return all(fine.get(each.verdict, False) for each in found)
