"""Runs a launch with different options of the compiler's choices. Each assignment (a dict from keys of choices to
options) is a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from hashlib import sha256
from random import Random
from uuid import uuid4

from msgspec import Struct, field
from msgspec.structs import replace

from dsl.calls.plan import Plan
from dsl.calls.tuned import StepChoice
from dsl.examples.first_blocks import OF_A_PART, in_words
from dsl.examples.overrides import Overrides
from dsl.kernels.compile import compile_variant
from dsl.lab.assignments import Assignment
from dsl.lab.case import TuningCase
from dsl.lab.clocks import clocks
from dsl.lab.compiling import Code, Compiler, Made
from dsl.lab.contest import RUNGS
from dsl.lab.place import TuningPlace
from dsl.lab.runner import FIRST_BLOCKS, RACES, LazyCase, Ready, Runner, prepared, with_arguments
from dsl.lab.space import SpaceChoice, calls
from dsl.lab.trial import Log, Trial, blank_trial, example_facts
from dsl.lowering.ir.choices import Asked, Choice
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import DeviceError
from dsl.text import tree as ast
from dsl.text.program import Program

ROUNDS = sum(RUNGS)
BUDGET_FACTOR = 64
"""The limit of thread instructions for a launch on the emulator, as a multiple of those in the first trial. A longer
launch counts as a hang."""


class Wanted(Struct, frozen=True):
    """What a trial measures.

    `code` selects the tools that run on the PTX. With `run`, the launch runs, its result is checked, and its costs are
    counted. `lines` requests counters for each source line. `times` requests times (`Experiment.measure`).
    """

    code: Code = "counted"
    run: bool = True
    lines: bool = False
    times: bool = False


class Conditions(Struct):
    """The conditions of an experiment.

    `schedule`, or `chosen` (the steps of a branch), replaces the dispatch's choice. `choose` contains options that are
    set in all trials. `jobs` is the number of compiling processes, 0 for none. `seed` seeds the inputs and the orders
    of rounds. `log` stores the trials. For a launch on a GPU, the emulator counts the first `blocks` blocks. `given`
    maps kernels to code that replaces the compiled code. `command` contains the words of the command line.
    """

    schedule: str | None = None
    choose: Assignment = field(default_factory=dict)
    jobs: int = 0
    seed: int = 0
    log: Log | None = None
    wanted: Wanted = field(default_factory=Wanted)
    blocks: int = FIRST_BLOCKS
    chosen: Sequence[StepChoice] | None = None
    given: Mapping[str, Made] = field(default_factory=dict)
    command: Sequence[str] = ()


class Attempt(Struct):
    """A trial, a digest of each kernel's code, and the options taken for each kernel's choices.

    `ready` is the launch to time, or None if the trial is not timed.
    """

    trial: Trial
    code: tuple[str, ...]
    taken: list[Mapping[str, str]]
    ready: Ready | None = None


class Experiment(AbstractContextManager["Experiment"]):
    """Runs the trials of one launch. An experiment is a context manager that ends its compiling processes.

    `compiled` lists the kernels, compiled with the compiler's own choices. `made` lists these choices by key. The
    constructor raises a TileError if the launch cannot be planned or compiled.
    """

    def __init__(
        self,
        program: Program,
        example: ast.Example,
        overrides: Overrides,
        place: TuningPlace,
        index: int,
        conditions: Conditions,
    ):
        self.program, self.example, self.place, self.conditions = program, example, place, conditions
        self.compiler = Compiler(program, conditions.jobs, conditions.wanted.code)
        # The example runs only if something needs its arrays.
        case = LazyCase(partial(TuningCase, program, example, overrides, place, conditions.seed, SpaceChoice()))
        found = calls(program, example, overrides, place)
        if index >= len(found):
            raise TileError("example", example.loc, f"launch {index + 1} is none of this example's {len(found)}")
        self.call = with_arguments(found[index], case)
        self.runner = Runner(place, case, index)
        self.runner.lines, self.runner.blocks = conditions.wanted.lines, conditions.blocks
        asked = None if conditions.chosen else conditions.schedule or self.call.facts.schedule
        planner = self.planner = self.call.planner(schedule=asked, chosen=conditions.chosen)
        self.chosen = planner.plan()
        self.compiled = [compile_variant(program, step.request) for step in self.plan({}).steps]
        logs = [each.variant.function.choices for each in self.compiled]
        self.made: list[tuple[str, Choice]] = [pair for each in logs for pair in each.keyed().items()]
        met = Asked(dict(conditions.choose))
        for log in logs:
            met.note(log)
        met.check()
        self.trials: dict[tuple[tuple[str, str], ...], Trial] = {}
        self.by_code: dict[tuple[str, ...], Attempt] = {}
        self.attempts: dict[int, Attempt] = {}  # by the trial's identity
        self.blank = blank_trial(
            *(program, place, planner.facts(), conditions.seed, conditions.command),
            **example_facts(program, example),
            index=index,
            values=overrides.names | overrides.types | overrides.options | overrides.constants,
            steps=[{"kernel": s.request.kernel, "schedule": s.request.schedule} for s in self.chosen.steps],
        )
        # In the log, a digest of given code distinguishes trials with different code.
        if conditions.given:
            texts = "".join(each.ptx or "" for each in conditions.given.values())
            self.blank.versions["from"] = sha256(texts.encode()).hexdigest()[:12]
        self.usual: set[str] | None = None  # kinds of findings in the first blocks of the launch as chosen

    def __exit__(self, *error: object) -> None:
        self.compiler.__exit__(*error)

    def plan(self, assignment: Assignment) -> Plan:
        """Returns the plan of the launch with the options of an assignment."""
        choices = {**self.conditions.choose, **assignment}
        steps = [replace(step, request=replace(step.request, choices=choices)) for step in self.chosen.steps]
        return replace(self.chosen, steps=steps)

    # ---- trials ----

    def begin(self, assignments: Sequence[Assignment]) -> None:
        """Begins to compile the code of these assignments in parallel."""
        for assignment in assignments:
            self.compiler.begin_plan(self.plan(assignment))

    @property
    def is_timed(self) -> bool:
        return self.conditions.wanted.times and self.place.ordinal is not None

    def forget(self) -> None:
        """Drops all trials so far, because thousands of trials take gigabytes."""
        self.trials.clear()
        self.by_code.clear()
        self.attempts.clear()
        self.compiler.futures.clear()

    def is_same(self, trial: Trial, other: Trial) -> bool:
        """Whether both trials have the same code."""
        return self.attempts[id(trial)].code == self.attempts[id(other)].code

    def trial(self, assignment: Assignment) -> Trial:
        """Runs the trial of an assignment, or returns it if it ran before. Assignments with equal code run once.

        Raises a DeviceError if the GPU has become unusable.
        """
        key = tuple(sorted(assignment.items()))
        if key not in self.trials:
            made = self.attempt({**self.conditions.choose, **assignment}, self.plan(assignment))
            self.trials[key], self.attempts[id(made.trial)] = made.trial, made
            # `measure` logs a timed trial, together with its times.
            if made.ready is None:
                self.note(made.trial)
        return self.trials[key]

    def note(self, trial: Trial) -> None:
        if self.conditions.log is not None:
            self.conditions.log.add(trial)

    def attempt(self, choices: Assignment, plan: Plan) -> Attempt:
        trial, made = replace(self.blank, choices=dict(choices), launches=[]), self.code(plan)
        code, taken = tuple(map(code_of, made)), [each.taken for each in made]
        # "" stands for a kernel that did not compile and has no code to compare.
        if "" not in code and (same := self.by_code.get(code)) is not None:
            return Attempt(replace(same.trial, choices=dict(choices)), code, taken, same.ready)
        attempt = self.by_code[code] = Attempt(trial, code, taken)
        if self.place.ordinal is not None:
            # The launch as chosen runs first. Findings that this launch already has are no fault of a choice.
            if self.usual is None and choices != self.conditions.choose:
                self.trial({})
            if self.is_known_to_fail(trial):
                return attempt
        ready = self.run(trial, plan, made)
        attempt.ready = ready if self.is_timed else None
        if self.runner.budget is None and trial.counters:
            # The launch as chosen is tried first and sets the limit.
            self.runner.budget = int(BUDGET_FACTOR * trial.counters["thread_instructions"])
        return attempt

    def code(self, plan: Plan) -> list[Made]:
        """The code of each kernel: the code in `given`, or else compiled code."""
        given = self.conditions.given
        return [given.get(step.request.kernel) or self.compiler.made(step.request) for step in plan.steps]

    def is_known_to_fail(self, trial: Trial) -> bool:
        """Whether the log contains this trial as failed. It might make the GPU unusable again, so it does not run."""
        log = self.conditions.log
        known = None if log is None else log.find(trial)
        if known is None or known.status != "failed":
            return False
        trial.status, trial.reason = known.status, known.reason
        return True

    def run(self, trial: Trial, plan: Plan, made: list[Made]) -> Ready | None:
        """Runs a trial. On a GPU, the emulator counts the first blocks before the launch.

        If the emulator finds a fault that the launch with the compiler's own choices does not have, the trial does not
        run on the GPU. But it runs if the fault is a race.
        """
        run = self.conditions.wanted.run
        if run:
            self.runner.case()  # if the example itself fails, the error is raised here and not blamed on this trial
        counts = run and self.place.ordinal is not None and all(each.ptx for each in made)
        findings = self.runner.count(trial, plan, made) if counts else []
        if self.usual is None:
            self.usual = {each.kind for each in findings} & {*OF_A_PART}
        finding = next((each for each in findings if each.kind not in self.usual), None)
        # A race at worst gives wrong numbers, so the launch may run. An access out of bounds may poison the device.
        is_race = finding is None or finding.kind in RACES
        try:
            ready = self.runner.attempt(trial, plan, made, run and is_race)
        except DeviceError as fault:
            self.note(trial)
            hint = "with --log FILE the same command goes on after it"
            raise DeviceError(fault.code, f"{said(trial.choices)}: {fault.message}", hint) from None
        if finding is not None and trial.status in ("compiled", "measured", "wrong"):
            trial.status, trial.reason = "race" if is_race else "failed", in_words(finding)
        if trial.status == "measured" and not self.is_timed:
            trial.status = "counted"  # a logged trial with the status "measured" must have times
        return ready

    def moved(self, trial: Trial, assignment: Assignment) -> list[str]:
        """The choices outside the assignment that differ from those of the unchanged launch."""
        found: dict[str, None] = {}
        chosen = self.attempts[id(self.trial({}))].taken
        for mine, base in zip(self.attempts[id(trial)].taken, chosen, strict=True):
            # Given code has no choices.
            names = dict.fromkeys([*base, *mine]) if mine else {}
            # Choices that the assignment covers were meant to change.
            found |= {n: None for n in names if mine.get(n) != base.get(n) and not covered(n, assignment)}
        return list(found)

    # ---- times ----

    def measure(self, trials: Sequence[Trial], rounds: int = ROUNDS, null: int = 0) -> list[list[float]]:
        """Times the trials that can be launched against each other, in shuffled rounds. Trials with equal code share
        their times.

        The first launch is timed `null` times more. Returns the times of these repetitions.
        """
        entrants: dict[int, tuple[Ready, list[Trial]]] = {}
        for trial in trials:
            if (ready := self.attempts[id(trial)].ready) is not None:
                entrants.setdefault(id(ready), (ready, []))[1].append(trial)
        launches = [prepared(ready) for ready, _ in entrants.values()]
        if not launches:
            return []
        found = self.place.rounds([*launches, *launches[:1] * null], rounds, Random(self.conditions.seed))
        name, speeds = uuid4().hex[:12], clocks(self.place)
        for (_, same), times in zip(entrants.values(), found, strict=False):
            for trial in same:
                trial.times_us, trial.contest, trial.clocks = [round(t, 3) for t in times], name, speeds
                self.note(trial)
        return found[len(launches) :]


def code_of(made: Made) -> str:
    """A digest of a kernel's code and launch parameters, or "" without code.

    The digest ignores conditions that the header asserts about a call.
    """
    from dsl.runtime.header import read

    if made.ptx is None:
        return ""
    (header,) = (each for name, each in read(made.ptx).items() if made.entry in (None, name))
    launch = (header.grid, header.threads, header.cluster, header.shared_bytes, header.maxnreg)
    takes = (header.arguments, header.workspaces)
    return sha256(f"{launch}{takes}{made.ptx.partition('.version')[2]}".encode()).hexdigest()


def covered(name: str, assignment: Assignment) -> bool:
    """Whether an assignment sets this choice, by a key such as `swizzle.s[1]`, `swizzle.s` or `swizzle`."""
    stem = name.partition("[")[0]
    return not {name, stem, stem.partition(".")[0]}.isdisjoint(assignment)


def said(assignment: Assignment) -> str:
    """An assignment as options, such as `--choose swizzle.s=none`."""
    return " ".join(f"--choose {quoted(f'{key}={option}')}" for key, option in assignment.items()) or "as chosen"


def quoted(text: str) -> str:
    return f'"{text}"' if " " in text or "[" in text else text
