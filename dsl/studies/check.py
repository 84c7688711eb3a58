"""Finds all errors of a file that the compiler reports before LLVM runs, for every kernel with every schedule and every
type.

Launches of examples are planned as in a run. For schedules that no example launches, the values of the dims are
guessed: from an example with a dim of the same name, or else 1024. The module does not import numpy, llvmlite, CUDA or
the emulator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from math import inf
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from dsl.calls.kept import Unkeepable, words
from dsl.calls.planner import UNFIT, Planner
from dsl.calls.tuned import Tuned, branch_steps, stale_errors
from dsl.calls.tuned_file import read_tuned
from dsl.examples.evidence import Evidence
from dsl.examples.shapes import UNKNOWN, ExampleFacts, LaunchFacts, examine, from_launch
from dsl.kernels.compile import Lowered, lower
from dsl.kernels.loaded import parts_shelf
from dsl.kernels.request import Request
from dsl.kernels.variant import Unset, Variant, build_variant, points_of, resolve
from dsl.kernels.variants import request_key
from dsl.lowering.ir.budget import Budget, Exhausted
from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.lowering.ir.targets import target
from dsl.lowering.ir.types import DTYPES
from dsl.schedules.cheapest import LatestPoints
from dsl.studies.dispatch_names import NamesOfWays
from dsl.studies.findings import Findings
from dsl.studies.kept_checks import CheckedParts, KeptPart, keep_findings, kept_findings, same_request
from dsl.studies.static_contracts import StaticContracts
from dsl.text import tree as ast
from dsl.text.branches import by_launch
from dsl.text.files import read_text, resolved, tuned_path
from dsl.text.program import Program, dim_names, examine_program, type_parameters

ARCH = "sm_90"
UNNAMED = "<text>"
"""The name of a text without a file."""
EXTENT = 1024
BODY_EXTENT = 32
"""If only the names in a kernel's body are checked, constants without a value get this value."""
OTHER_EXTENTS = (1024, 4096, 256, 32, 32768)
"""For a schedule that no example uses, these extents of dims are tried. An error that may depend on the extents is
reported only if all extents fail."""
ODD_EXTENT = 101
"""This extent is tried for a schedule whose cost is infinite for all others: some are for short odd rows alone."""
GUESS_STEPS, GUESS_OPERATIONS = 35_000, 2_700
"""Limits on the cost of a variant with guessed dims: twice the cost of the largest sample.

A static loop over a guessed 1024 proves nothing. Such loops took 2.4 s per variant and 39 s in one file, so smaller
dims are tried.
"""
FILE_STEPS, FILE_OPERATIONS = 2_000_000, 150_000
"""Limits on the total cost of all variants with guessed dims in a file. The most costly sample uses a fifth of these
limits."""
FITTING = frozenset({"constant", "limit", "shared", "schedule", "layout", "extent", "instruction", "requires"})
"""Codes of errors that may depend on the dims.

The code `shape` is not in this set. Tiles that do not match are a mistake, even if they match for one of the guessed
dims.
"""


def check_file(path: str | Path, assemble: bool = False) -> Findings:
    """Finds all errors of a file. With `assemble`, each variant is assembled, and notes report the variants that spill
    registers."""
    path = Path(path)
    try:
        if not assemble and (kept := kept_findings(path)) is not None:
            return kept
        text = read_text(path)
    except TileError as error:
        found = Findings()
        found.add(error)
        return found
    return check_text(text, path, assemble)


def check_text(
    text: str,
    path: Path | None,
    assemble: bool = False,
    texts: Mapping[Path, str] | None = None,
    proceed: Callable[[], None] | None = None,
) -> Findings:
    """Finds all errors of a text, which stands for the text of the file `path`. Without a path, it can import only the
    compiler's own files. `texts` are those of imported files which replace what is in the files, by their paths without
    symbolic links.

    `proceed` is called before each variant. If it raises an exception, the check ends with it, and what was found right
    is kept for the next check."""
    found = Findings()
    try:
        folder = None if path is None else resolved(path).parent
        program, errors = examine_program(text, UNNAMED if path is None else str(path), folder, texts)
    except TileError as error:
        found.add(error)
        return found
    program.path = path
    program.once(LatestPoints).is_used = True
    found.program = program
    for each in errors:
        found.add(each)
    try:
        for each in [] if path is None else stale_errors(read_tuned(tuned_path(path)), program):
            found.add(each)
    except TileError as error:
        found.add(error)
    # An error in one block may hide what is wrong with another, so the parts of such a file are not kept. But what was
    # found right in the same texts before is still right.
    is_whole = not (errors or program.broken or assemble)
    shelf = None if assemble else parts_shelf()
    parts = CheckedParts(program, shelf, program.source.name, is_whole)
    try:
        _Check(program, found, assemble, parts, proceed).run()
    except BaseException:
        parts.save(ended=False)
        raise
    parts.save()
    if is_whole and path is not None and not texts:
        keep_findings(program, path, found)
    return found


class _Check:
    def __init__(
        self,
        program: Program,
        found: Findings,
        assemble: bool,
        parts: CheckedParts,
        proceed: Callable[[], None] | None = None,
    ):
        self.program, self.found, self.assemble, self.parts = program, found, assemble, parts
        self.proceed = proceed or (lambda: None)
        self.lowered: dict[Any, Lowered] = {}  # by request: planning lowers what is checked next
        self.numbers: dict[str, int] = {}
        self.planned: dict[tuple[str, str | None], Request] = {}
        self.others: list[Request] = []  # the same kernels and schedules with other dims or constants
        self.built: set[str] = set()  # kernels that have a variant without errors
        self.unset: set[str] = set()  # kernels with constants that nothing in the file sets
        self.exhausted: set[str] = set()  # kernels that take too long to build, reported once
        self.extents: dict[str, int] = {}  # by kernel, the limit of guessed extents, since larger guesses cost too much
        self.left = Budget(FILE_STEPS, FILE_OPERATIONS)  # for variants with guessed dims
        self.passed_over: dict[str, int] = {}  # number of skipped variants, by kernel
        self.contracts = StaticContracts(program, found, assemble, parts)

    def run(self) -> Findings:
        # Dispatches come first, since their errors are located at the call and not in the kernel.
        for dispatch in self.program.dispatches.values():
            self.dispatch(dispatch)
        for example in self.program.examples:
            facts = examine(self.program, example)
            for error in facts.errors:
                self.found.add(error)
            # If several examples have a dim, the first example decides.
            self.numbers = {**facts.numbers, **self.numbers}
            self.plans(facts)
            self.contracts.expected += facts.contracts
        for kernel in self.program.kernels.values():
            schedules: list[str | None] = [*self.program.schedules_of(kernel.name)]
            for schedule in schedules or [None]:
                self.kernel_once(kernel, schedule)
            # Without a correct variant, some names and calls of the body have not been checked.
            if kernel.name not in self.built:
                self.body(kernel)
        for request in self.others:
            # One report for a kernel is enough, since each further variant would cost as much.
            if request.kernel not in self.exhausted:
                self.other_once(request)
        self.contracts.finish()
        for name, count in self.passed_over.items():
            message = f"{count} variant{'s' * (count > 1)} of '{name}' skipped: the guesses of this file cost too much"
            hint = "launch it in an example, so that its dims are known"
            self.found.note(TileError("check", self.program.kernels[name].loc, message, hint))
        return self.found

    def dispatch(self, dispatch: ast.Dispatch) -> None:
        """Checks all branches of a dispatch: names must be known, kernels and schedules must exist, and the arguments
        of launches must match the kernel's parameters."""
        if dispatch.name not in self.program.broken:
            for error in NamesOfWays(self.program, dispatch, target(ARCH)).errors:
                self.found.add(error)
        # A launch that several branches share is checked once.
        for step in {launch.loc: launch for launch in dispatch.launches}.values():
            kernel = self.program.kernels.get(step.name)
            if kernel is None:
                message = f"a dispatch launches kernels; '{step.name}' is not a kernel"
                self.found.add(TileError("name", step.loc, message, closest(step.name, self.program.kernels)))
                continue
            for item in step.items:
                if item.value is None:
                    try:
                        self.program.schedule(kernel.name, item.name, item.loc)
                    except TileError as error:
                        self.found.add(error)
            if len(step.args or ()) > len(kernel.params):
                message = f"'{kernel.name}' takes {len(kernel.params)} arguments; got {len(step.args or ())}"
                self.found.add(TileError("call", step.loc, message))
            elif step.args is not None:
                given = {p.name for p in kernel.params[: len(step.args)]} | step.keywords.keys()
                missing = [p.name for p in kernel.params if not p.is_optional and p.name not in given]
                if missing:
                    self.found.add(TileError("call", step.loc, f"'{kernel.name}' needs '{missing[0]}'"))

    def plans(self, facts: ExampleFacts) -> None:
        """Plans the variants that the example launches."""
        for launch in facts.launches:
            if launch.line.name in self.program.broken:
                continue
            if not launch.is_known:
                names = ", ".join(f"'{name}'" for name, value in launch.arguments.items() if value is UNKNOWN)
                message = f"this launch is not planned: only a run computes {names}"
                hint = "its schedules are checked with guessed dims; dsl run plans it"
                self.found.note(TileError("check", launch.line.loc, message, hint))
                continue
            try:
                requests = self.requests_of(launch)
            except TileError as error:
                for each in error.errors:
                    self.found.add(from_launch(each, launch.line))
                continue
            self.contracts.planned[launch.line] = requests
            self.found.planned.append((launch.line.loc, requests))
            for request in requests:
                first = self.planned.setdefault((request.kernel, request.schedule), request)
                if request not in (first, *self.others):
                    self.others.append(request)

    def requests_of(self, launch: LaunchFacts) -> list[Request]:
        """Returns the requests of the variants that a launch of an example plans."""
        what = (launch.line.name, *launch.arguments.items(), launch.schedule, *launch.rest.items())
        try:
            key = self.parts.key_of_launch(words(what))
        except Unkeepable:
            key = ""
        kept = self.parts.find(key) if key else None
        if kept is not None:
            return [*kept.requests]
        planner = planner_of(self.program, launch, ARCH, built=self.variant, known_to_fit=self.is_known_to_fit)
        requests = [step.request for step in planner.plan().steps]
        for each in planner.fitting:
            self.parts.keep(self.key_of_fit(each), KeptPart())
        if key:
            self.parts.keep(key, KeptPart(requests=tuple(requests)))
        return requests

    def key_of_fit(self, request: Request) -> str:
        return self.parts.key_of_kernel(request.kernel, request.schedule, "fits", same_request(request))

    def is_known_to_fit(self, request: Request) -> bool:
        """Whether a launch of this variant was planned before, and its kernel and schedule have the same words."""
        return self.parts.find(self.key_of_fit(request)) is not None

    def variant(self, request: Request) -> Variant:
        """Lowers a variant for the planner. The check of the variant takes it from `lowered`."""
        key = request_key(request)
        self.proceed()
        if key not in self.lowered:
            self.lowered[key] = lower(self.program, request)
        return self.lowered[key].variant

    def kernel_once(self, kernel: ast.KernelDef, schedule: str | None) -> None:
        """Checks a kernel with a schedule like `kernel`, unless this found no errors in the same words before."""
        planned = self.planned.get((kernel.name, schedule))
        near = next((r for (name, _), r in self.planned.items() if name == kernel.name), None)
        about = (
            same_request(planned),
            same_request(near),
            sorted(self.numbers.items()),
            (kernel.name, schedule) in self.asked,
            self.extents.get(kernel.name),
            kernel.name in self.unset,
            self.contracts.asks_choices,
        )
        key = self.parts.key_of_kernel(kernel.name, schedule, about)
        if kernel.name in self.exhausted or not self.take(key, kernel.name, schedule):
            self.watch(key, kernel.name, schedule, partial(self.kernel, kernel, schedule))
        elif planned is not None:
            self.contracts.judged.add((kernel.name, schedule))

    def other_once(self, request: Request) -> None:
        """Checks one more variant of a launch, unless this found no errors in the same words before."""
        about = ("other", same_request(request), self.contracts.asks_choices)
        key = self.parts.key_of_kernel(request.kernel, request.schedule, about)
        if self.take(key, request.kernel, request.schedule):
            self.contracts.judged.add((request.kernel, request.schedule))
            return

        def run() -> None:
            self.found.variants += 1
            self.lower(request, False)

        self.watch(key, request.kernel, request.schedule, run)

    def take(self, key: str, kernel: str, schedule: str | None) -> bool:
        """Takes over what is known of a part without errors. Returns whether it is known. What its guesses cost is
        spent, so a file has the same findings as without the cache."""
        kept = self.parts.find(key)
        if kept is None or kept.steps >= self.left.steps or kept.operations >= self.left.operations:
            return False
        self.found.variants += kept.variants
        self.left.steps -= kept.steps
        self.left.operations -= kept.operations
        if kept.built:
            self.built.add(kernel)
        if kept.most is not None:
            self.extents[kernel] = kept.most
        for note in self.parts.notes(kept, kernel, schedule):
            self.found.note(note)
        return True

    def watch(self, key: str, kernel: str, schedule: str | None, run: Callable[[], None]) -> None:
        """Runs the check of a part. If it has no errors, keeps its notes."""
        found, was_built = self.found, kernel in self.built
        self.built.discard(kernel)
        before, variants, left = self.has_told(), found.variants, (self.left.steps, self.left.operations)
        noted = len(found.noted)
        run()
        notes = self.parts.kept_notes(found.noted[noted:], kernel, schedule) if self.has_told() == before else None
        if notes is not None:
            spent = left[0] - self.left.steps, left[1] - self.left.operations
            most = self.extents.get(kernel)
            part = KeptPart(found.variants - variants, kernel in self.built, *spent, most, notes=notes)
            self.parts.keep(key, part)
        if was_built:
            self.built.add(kernel)

    def has_told(self) -> tuple[int, ...]:
        """What a part without errors leaves as it is."""
        passed, waiting = sum(self.passed_over.values()), len(self.contracts.waiting)
        errors = self.found.told - len(self.found.noted)
        return errors, len(self.unset), len(self.exhausted), passed, waiting

    def kernel(self, kernel: ast.KernelDef, schedule: str | None) -> None:
        """Checks one kernel with one schedule, for all its types."""
        planned = self.planned.get((kernel.name, schedule))
        sizes: set[tuple[int, ...]] = set()
        unfit: list[TileError | None] = []
        for types in _alternatives(kernel):
            if kernel.name in self.exhausted:
                return
            self.found.variants += 1
            # Layouts, shared memory and barriers depend only on the sizes of the types.
            size = tuple(DTYPES[name].bytes if name in DTYPES else 0 for name in types.values())
            if planned is not None:
                self.lower(replace(planned, types=types), size in sizes, planned)
            else:
                wrong = self.attempt(kernel, schedule, types, size in sizes)
                if size not in sizes:
                    unfit.append(wrong)
            sizes.add(size)
        strided = any(isinstance(p.type, ast.TensorAnnotation) and p.type.strided for p in kernel.params)
        if unfit and unfit[0] is not None and None not in unfit and not strided:  # guesses have no strides
            (first, *_) = unfit[0].errors
            message = f"'{kernel.name} with {schedule}' fits none of the tried dims: {first.message}"
            self.found.note(TileError("check", first.loc or kernel.loc, message, first.hint))

    def body(self, kernel: ast.KernelDef) -> None:
        """Checks a kernel for which no variant compiles. Reports errors in names, calls and syntax, which do not depend
        on the constants."""
        unset = {c.name: BODY_EXTENT for c in kernel.constants if c.types is None and c.default is None}
        _, request = next(self.requests(kernel, None, next(_alternatives(kernel))))
        try:
            build_variant(self.program, replace(request, constants=unset), Budget(GUESS_STEPS, GUESS_OPERATIONS))
        except TileError as error:
            for each in error.errors:
                if each.code in ("name", "call", "syntax"):
                    self.found.add(at(each, kernel))

    def look_at(self, request: Request, known: bool, budget: Budget | None = None, is_guess: bool = True) -> None:
        """Lowers a variant, to find its errors.

        `known` is True if a variant with types of the same sizes was checked before. Then only types are checked,
        because layouts, shared memory and barriers depend on sizes alone.
        """
        self.proceed()
        if known and not self.assemble and (is_guess or not self.contracts.of_schedule(request)):
            build_variant(self.program, request, budget)
            self.built.add(request.kernel)
        else:
            known_one = self.lowered.pop(request_key(request), None) if budget is None else None
            lowered = known_one or lower(self.program, request, budget=budget)
            self.built.add(request.kernel)
            if request not in self.planned.values():  # with guessed dims a choice may have a single option
                lowered.variant.function.choices.allow_unmet()
            evidence = self.contracts.emitted(lowered)
            if self.assemble:
                self.note_spills(evidence)
            if not is_guess:
                self.contracts.judge_schedule(evidence)
                self.check_grid(lowered.variant)
            for name, loc in lowered.variant.function.void:
                # An imported part names what some kernels have: its reader can change neither the line nor the part.
                if loc.source is not self.program.source:
                    continue
                message = f"a variant of kernel '{request.kernel}' has no '{name}': this line has no effect on it"
                self.found.note(TileError("check", loc, message, "its constants leave out the branch that defines it"))

    def check_grid(self, variant: Variant) -> None:
        """Raises a TileError if the grid of a launch cannot be evaluated, or has more or fewer blocks than CUDA
        allows."""
        from dsl.runtime.checks import GRID_LIMITS
        from dsl.runtime.expressions import ExpressionError, compile_expression

        request, place = variant.request, self.program.kernels[variant.request.kernel].body[0].loc
        names = {**variant.constants, **request.scalars, **request.dims}
        for axis, tree, limit in zip("xyz", variant.grid, GRID_LIMITS, strict=False):
            extent = compile_expression(tree)
            # The grid uses a name that has a value only in a run.
            if not extent.names <= names.keys():
                continue
            try:
                count = extent.evaluate(names)
            except ExpressionError as error:
                raise TileError("grid", place, f"the grid has no value along {axis}: {error}") from None
            if not 0 <= count <= limit:
                message = f"the grid has {count} blocks along {axis}, the limits are 0 and {limit}"
                raise TileError("grid", place, message)

    def note_spills(self, evidence: Evidence) -> None:
        """Adds a note if a variant spills registers, with the number of bytes.

        Raises DeviceError if ptxas is not installed, and LaunchError for PTX that ptxas refuses.
        """
        figures = evidence.assembled()
        spilled = figures.spill_stores + figures.spill_loads
        if spilled:
            request = evidence.request
            about = ", ".join(f"{name}={value}" for name, value in {**request.types, **request.dims}.items())
            schedule = f" with {request.schedule}" if request.schedule else ""
            message = f"'{request.kernel}'{schedule} spills {spilled} bytes a thread of {figures.registers} registers"
            hint = "use smaller tiles, more warps, or fewer live values"
            self.found.note(TileError("check", self.program.kernels[request.kernel].loc, f"{message} ({about})", hint))

    def attempt(
        self, kernel: ast.KernelDef, schedule: str | None, types: dict[str, str], known: bool
    ) -> TileError | None:
        """Lowers a variant that no example launches, with dims from an example. If these do not fit the schedule or
        cost too much, tries other dims.

        If no dims fit, reports the error. But if a dispatch tests the schedule with `fits`, returns the error instead.
        """
        tried: list[tuple[Request, TileError]] = []
        most = self.extents.get(kernel.name)
        for extent, request in self.requests(kernel, schedule, types):
            if most is not None and (extent is None or extent > most):
                continue
            if min(self.left.steps, self.left.operations) <= 0:
                self.passed_over[kernel.name] = self.passed_over.get(kernel.name, 0) + 1
                return None
            try:
                self.guess(self.filled(kernel, request, extent), known)
                self.note_other_dims(kernel, schedule, tried)
                return None
            except TileError as error:
                if costs_too_much(error):
                    most = self.extents[kernel.name] = min(most or EXTENT, extent or EXTENT) - 1
                tried.append((request, error))
                # No other dims can fix this error.
                if kernel.name not in self.unset and any(each.code not in FITTING for each in error.errors):
                    break
        if not tried or costs_too_much(tried[0][1]):
            # All guesses cost too much. One guess is lowered without a limit, so that errors independent of the dims
            # are found.
            request = self.filled(kernel, next(self.requests(kernel, schedule, types))[1], None)
            try:
                self.look_at(request, known)
                return None
            except TileError as error:
                tried = [(request, error), *(each for each in tried if not costs_too_much(each[1]))]
        if kernel.name in self.unset:
            self.note_unfit(kernel, schedule, tried[0][1])
            return None
        if (kernel.name, schedule) in self.asked and all(each.code in UNFIT for each in tried[0][1].errors):
            return tried[0][1]
        self.judge(kernel, schedule, tried)
        return None

    def judge(self, kernel: ast.KernelDef, schedule: str | None, tried: list[tuple[Request, TileError]]) -> None:
        """Reports that a schedule fits none of the guessed dims.

        This is an error if all guesses fail in the same way, or if the last guess fails for a reason that no dims can
        fix. Otherwise it is only a note, because the schedule may be right for other dims.
        """
        first, last = tried[0][1], tried[-1][1]
        if any(each.code not in FITTING for each in last.errors):
            self.fail(last, kernel)
        elif len({tuple(sorted((str(each.loc), each.message) for each in error.errors)) for _, error in tried}) == 1:
            self.fail(first, kernel)
        else:
            self.note_unfit(kernel, schedule, first)

    def note_unfit(self, kernel: ast.KernelDef, schedule: str | None, error: TileError) -> None:
        """Adds a note that the schedule fits none of the guessed dims, with the error of the first guess."""
        (one, *_) = error.errors
        of = f"'{kernel.name}'" if schedule is None else f"'{kernel.name} with {schedule}'"
        message = f"{of}, which no example launches, fits none of the tried dims: {one.message}"
        hint = one.hint or "launch it in an example, so that its dims are known"
        self.found.note(TileError("check", one.loc or kernel.loc, message, hint))

    def note_other_dims(
        self, kernel: ast.KernelDef, schedule: str | None, tried: list[tuple[Request, TileError]]
    ) -> None:
        """Adds a note if the schedule fits guessed dims, but not those with which examples launch the kernel."""
        launched = any(name == kernel.name for name, _ in self.planned)
        if not tried or not launched or (kernel.name, schedule) in self.asked or costs_too_much(tried[0][1]):
            return
        (one, *_) = tried[0][1].errors
        message = f"'{kernel.name} with {schedule}' does not fit the dims of the examples: {one.message}"
        self.found.note(TileError("check", one.loc or kernel.loc, message, one.hint))

    def filled(self, kernel: ast.KernelDef, request: Request, extent: int | None) -> Request:
        """Returns the request with a guessed value for each constant that nothing in the file sets."""
        try:
            resolve(self.program, request)
        except TileError as error:
            unset = [each for each in error.errors if isinstance(each, Unset)]
            if not unset or len(unset) < len(error.errors):
                return request
            names = [c.name for c in kernel.constants if c.loc in [each.loc for each in unset]]
            self.unset.add(kernel.name)
            for each, name in zip(unset, names, strict=True):
                message = f"nothing in this file sets constant '{name}' of '{kernel.name}': its values are guessed here"
                self.found.note(TileError("check", each.loc, message, each.hint))
            return replace(request, constants={**request.constants, **dict.fromkeys(names, extent or EXTENT)})
        return request

    @cached_property
    def asked(self) -> set[tuple[str, str]]:
        """Pairs (kernel, schedule) that a dispatch tests with `fits`, or lists among several. If the schedule does not
        fit, the dispatch takes another one."""
        found = set()
        for dispatch in self.program.dispatches.values():
            several = [branches for branches in by_launch(dispatch.branches) if len(branches) > 1]
            steps = (s for branches in several for each in branches for s in branch_steps(each, self.program))
            found |= {(step.kernel, step.schedule or "") for step in steps}
            for node in ast.walk([dispatch.lines, dispatch.branches]):
                if isinstance(node, ast.Call) and isinstance(node.function, ast.Name) and node.function.id == "fits":
                    each = node.args[0] if node.args else None
                    if isinstance(each, ast.WithSchedule) and isinstance(each.kernel, ast.Name):
                        found.add((each.kernel.id, each.schedule))
        return found

    def guess(self, request: Request, known: bool) -> None:
        """Lowers a variant with guessed dims, within the limits for guesses."""
        budget = Budget(GUESS_STEPS, GUESS_OPERATIONS)
        try:
            self.look_at(request, known, budget)
        finally:
            steps, operations = budget.spent
            self.left.steps -= steps
            self.left.operations -= operations

    def requests(
        self, kernel: ast.KernelDef, schedule: str | None, types: dict[str, str]
    ) -> Iterator[tuple[int | None, Request]]:
        """Yields the requests to try, in order, as pairs (extent, request). All dims have this extent. None means the
        dims of the examples. If the schedule's cost is finite for some of the dims, no others are tried: a point of
        infinite cost may be a kernel of 20,000 operations, which no launch chooses."""
        every = list(self._with_extents(kernel, schedule, types, (None, *OTHER_EXTENTS)))
        odd = self._with_extents(kernel, schedule, types, (ODD_EXTENT,))
        # Mostly the first one is taken, so the costs of the others are not evaluated ahead.
        for group in (every, odd):
            is_any = False
            for each in group:
                if self._may_be_chosen(each[1]):
                    is_any = True
                    yield each
            if is_any:
                return
        yield from every

    def _may_be_chosen(self, request: Request) -> bool:
        """Whether the schedule states no cost, or has a point of finite cost at the request's dims."""
        try:
            points = points_of(self.program, request)
        except TileError:
            return True  # lowering it finds the error
        return points is None or points.least < inf

    def _with_extents(
        self, kernel: ast.KernelDef, schedule: str | None, types: dict[str, str], extents: Sequence[int | None]
    ) -> Iterator[tuple[int | None, Request]]:
        dims = dim_names(kernel)
        near = next((r for (name, _), r in self.planned.items() if name == kernel.name), None)
        known = {**self.numbers, **(near.dims if near else {})}
        scalars = [p.name for p in kernel.params if isinstance(p.type, ast.ScalarType)]
        optional = frozenset(p.name for p in kernel.params if p.is_optional)
        for absent, number in [(frozenset[str](), 1), (optional, 2)][: 2 if optional or scalars else 1]:
            given: dict[str, Any] = {**dict.fromkeys(scalars, number), **(near.scalars if near else {})}
            for extent in extents:
                chosen = {d: known.get(d, EXTENT) if extent is None else extent for d in dims}
                yield extent, Request(kernel.name, schedule, chosen, types, {}, given, absent=absent)

    def lower(self, request: Request, known: bool, planned: Request | None = None) -> None:
        """Lowers a variant that an example launches, or `planned` with other types. Reports its error."""
        try:
            self.look_at(request, known, is_guess=False)
        except TileError as error:
            is_other = planned is not None and (planned.kernel, planned.schedule) in self.asked and request != planned
            if not (is_other and all(each.code in UNFIT for each in error.errors)):
                self.fail(error, self.program.kernels[request.kernel])

    def fail(self, error: TileError, kernel: ast.KernelDef) -> None:
        if any(isinstance(each, Exhausted) for each in error.errors):
            self.exhausted.add(kernel.name)
        self.found.add(at(error, kernel))


def _alternatives(kernel: ast.KernelDef) -> Iterator[dict[str, str]]:
    """Yields maps from type parameters to types. In the first map, each parameter has its first type. Each further map
    changes one parameter."""
    parameters = type_parameters([kernel])
    first = {name: choices[0] for name, choices in parameters.items()}
    yield first
    for name, choices in parameters.items():
        for choice in choices[1:]:
            yield {**first, name: choice}


def planner_of(
    program: Program,
    launch: LaunchFacts,
    arch: str,
    schedule: str | None = None,
    device: str | None = None,
    tuned: Tuned | None = None,
    built: Callable[[Request], Variant] | None = None,
    known_to_fit: Callable[[Request], bool] | None = None,
) -> Planner:
    """The planner for an example's launch line. If `device` is given, it uses the tuned data of this device. `built`
    and `known_to_fit` are as in `Planner`."""
    known = {line.name for d in program.dispatches.values() for line in d.lines if isinstance(line, ast.Option)}
    options = {k: v for k, v in launch.rest.items() if k in known}
    constants = {k: v for k, v in launch.rest.items() if k not in known}
    chosen = schedule or launch.schedule
    place = target(arch)
    what = (launch.line.name, launch.arguments, place, None, constants, options, chosen, None)
    return Planner(program, *what, device=device, tuned=tuned, built=built, known_to_fit=known_to_fit)


def at(error: TileError, node: ast.Launch | ast.KernelDef) -> TileError:
    """Returns the error. If it has no location, returns a copy that is located at `node`."""
    if error.loc is None and len(error.errors) == 1:
        return TileError(error.code, node.loc, error.message, error.hint)
    return error


def costs_too_much(error: TileError) -> bool:
    return any(each.code == "limit" for each in error.errors)


def planned_requests(program: Program, proceed: Callable[[], None] | None = None) -> list[tuple[Loc, list[Request]]]:
    """Returns the variants that the launches of a program's examples ask for, by the launches' locations. Launches with
    mistakes are left out."""
    found = Findings(program=program)
    check = _Check(program, found, False, CheckedParts(program, parts_shelf(), program.source.name, False), proceed)
    for example in program.examples:
        facts = examine(program, example)
        check.numbers = {**facts.numbers, **check.numbers}
        check.plans(facts)
    return found.planned


def guessed_request(program: Program, kernel: ast.KernelDef) -> Request:
    """Returns the variant of a kernel with its first schedule that is checked if no example launches it. Values of dims
    and of constants are guessed."""
    check = _Check(program, Findings(program=program), False, CheckedParts(program, None, "", False))
    schedule = next(iter(program.schedules_of(kernel.name)), None)
    extent, request = next(check.requests(kernel, schedule, next(_alternatives(kernel))))
    return check.filled(kernel, request, extent)
