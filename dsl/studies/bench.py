"""Compares the kernels and schedules that can run a file's examples. Each combination is checked, counted and timed.

A row of the result is one way to run an example: with the file's own choice, another option of its dispatch, another
schedule, or a peer. A peer is a Python function that replaces the kernels (`peers.py`). All rows are checked before any
row is timed. The timed launches alternate between the rows, so that a drift of the clocks affects all rows alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from random import Random
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from dsl.examples.first_blocks import COUNTED_BLOCKS, COUNTED_BYTES, first_blocks, in_words
from dsl.examples.launches import ExampleCall
from dsl.examples.one_kernel import LaunchSettings, assembled
from dsl.examples.overrides import Overrides, resolve
from dsl.examples.report import LaunchReport, Report
from dsl.examples.run import ExampleRun
from dsl.examples.transfers import array_bytes
from dsl.kernels.edited import Edited, edited_from
from dsl.lowering.ir.choices import Asked
from dsl.lowering.ir.location import TileError, closest
from dsl.lowering.ir.targets import WARP
from dsl.runtime.errors import DeviceError, RuntimeFault
from dsl.runtime.renewed import in_a_row
from dsl.studies.peers import Peer, PeerCall, PeerFailed, PeerLauncher, peers_of, roles_of
from dsl.text import tree as ast
from dsl.text.branches import by_launch, named_ways
from dsl.text.program import Program, reached_kernels
from dsl.values.numbers import Numbers

ROUNDS = 50
"""The number of timed launches of each row."""
A_BLOCK = ("divergent_branches", "barriers", "atomics", "wavefronts", "sectors")
ALL_BLOCKS = ("instructions", "moves", "atomic_waits")
"""`A_BLOCK` lists the figures that a row shows per block. `ALL_BLOCKS` lists the figures that are totals over all
blocks."""


class BenchWay(Struct, frozen=True):
    """A way to run an example.

    `options` sets options of the dispatch that the example calls. `schedule` replaces the schedule that the file
    chooses. `edited` is a file of IR or PTX, whose kernels replace the compiled kernels.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    schedule: str | None = None
    edited: Edited | None = None


class BenchRow(Struct):
    """One way to run an example, with its results.

    `counted` contains, for each launch, the number of blocks that the emulator counted. `failed` is a fault that it
    found in these blocks, or the reason why there is no report. `is_wrong` is True if the failure counts as an error,
    for example if the file itself chooses this row. `edited` names the file of IR or PTX that replaced a kernel. `peer`
    names the function that replaced the kernels.
    """

    example: str | None
    options: dict[str, Any]
    schedule: str | None
    report: Report | None = None
    counted: list[int] = field(default_factory=list)
    failed: str | None = None
    is_wrong: bool = False
    edited: str | None = None
    peer: str | None = None

    @property
    def kernels(self) -> list[str]:
        return [launch.kernel for launch in self.report.launches] if self.report else []

    @property
    def schedules(self) -> list[str]:
        return [launch.schedule or "-" for launch in self.report.launches] if self.report else []

    def figures(self) -> dict[str, float | None]:
        """Returns the figures of the row.

        `instructions` counts the instructions of warps. `instructions`, `moves` and `atomic_waits` are totals over all
        blocks. Other counts are per block. A ratio is a count divided by the least count that the same accesses could
        need. If the row has no such accesses, the ratio is None.
        """
        from dsl.runtime.emulator import Counters

        part, all_blocks, blocks = Counters(), Counters(), 0
        for launch, count in zip(self.report.launches if self.report else [], self.counted, strict=True):
            if (found := launch.counted) is not None:
                # The emulator counts a barrier once per warp, but the table shows barriers per block.
                found.barriers /= -(-launch.threads // WARP)
                part.add(found)
                all_blocks.add(found.times(launch.blocks / count))
                blocks += count
        if not blocks:
            return {}
        each, every = part.figures, all_blocks.figures
        figures: dict[str, float | None] = {name: each[name] / blocks for name in A_BLOCK}
        return figures | {name: every[name] for name in ALL_BLOCKS} | part.ratios | {"active_lanes": part.active_lanes}


# ---- which rows ----


def ways(
    program: Program, example: ast.Example, overrides: Overrides, wanted: Collection[str] = ()
) -> Iterator[BenchWay]:
    """Yields the ways to run an example: each combination of the dispatch's options, then each schedule. If `wanted`
    names schedules, yields only these. Options that `overrides` sets are not varied, nor those that an example of the
    file sets, such as CAUSAL: they belong to the problem.
    """
    lines = [line for line in example.lines if isinstance(line, ast.Launch)]
    # With several launches, the name of a schedule would not say which launch it is for.
    schedules = named_schedules(program, lines[0].name) if len(lines) == 1 else []
    if wanted:
        known = dict.fromkeys([*schedules, *(unnamed_schedules(program, lines[0].name) if len(lines) == 1 else ())])
        yield from (BenchWay(schedule=name) for name in known if name in wanted)
        return
    options = {name: values for line in lines for name, values in option_values(program, line.name).items()}
    settled = {*overrides.options, *(name for each in program.examples for name in _options_set(each))}
    options = {name: values for name, values in options.items() if name not in settled}
    for chosen in product(*options.values()):
        yield BenchWay(dict(zip(options, chosen, strict=True)))
    yield from (BenchWay(schedule=name) for name in schedules)


def _options_set(example: ast.Example) -> Iterator[str]:
    for line in example.lines:
        if isinstance(line, ast.Launch):
            yield from (*line.keywords, *(item.name for item in line.items if item.value is not None))


def named_schedules(program: Program, name: str) -> list[str]:
    """The schedules that a call of `name` may request, and that make a difference. They are the schedules of a kernel,
    or those among which a launch of a dispatch chooses: several that it names, or its kernel's if it names none."""
    if name in program.kernels:
        return list(program.schedules_of(name))
    out: dict[str, None] = {}
    for branches in by_launch(program.dispatches[name].branches):
        for launches in zip(*(branch.launches for branch in branches), strict=True):
            names = dict.fromkeys(item.name for launch in launches for item in launch.items if item.value is None)
            if not names:
                out |= dict.fromkeys(program.schedules_of(launches[0].name))
            # Of several launches, one that names a single schedule has it in all branches.
            elif len(names) > 1 or len(branches[0].launches) == 1:
                out |= names
    return list(out)


def unnamed_schedules(program: Program, name: str) -> list[str]:
    """Returns further schedules that a call of a dispatch may request, although no branch has their name: those of the
    kernels that it launches."""
    if name in program.kernels:
        return []
    named = named_ways(program.dispatches[name])
    kernels = dict.fromkeys(launch.name for b in program.dispatches[name].branches for launch in b.launches)
    return [schedule for kernel in kernels for schedule in program.schedules_of(kernel) if schedule not in named]


def option_values(program: Program, name: str) -> dict[str, list[Any]]:
    dispatch = program.dispatches.get(name)
    lines = [line for line in dispatch.lines if isinstance(line, ast.Option)] if dispatch else []
    return {line.name: [Numbers({})(value) for value in line.values] for line in lines}


def chosen_examples(program: Program, names: Sequence[str], kernels: Sequence[str]) -> list[ast.Example]:
    """The examples in `names` that may launch one of `kernels`. Empty lists select all. Raises TileError."""
    known = {example.name: example for example in program.examples}
    for name in names:
        if name not in known:
            hint = closest(name, [n for n in known if n]) or "known: " + ", ".join(n for n in known if n)
            raise TileError("example", None, f"{program.source.name} has no example '{name}'", hint)
    for name in kernels:
        program.kernel(name)
    found = [example for example in program.examples if not names or example.name in names]
    if kernels:
        found = [example for example in found if {k.name for k in reached_kernels(program, example)} & {*kernels}]
    if not found:
        raise TileError("example", None, f"{program.source.name} has no such example", "add an 'example:' block")
    return found


def made_from(rows: Sequence[BenchRow], edited: Edited) -> BenchRow | None:
    """The row whose kernel an edited file replaces. Prefers a row that launches the kernel with the same schedule."""
    able = [row for row in rows if row.edited is None and edited.headers.keys() & {*row.kernels}]
    wanted = {(kernel, header.schedule or "-") for kernel, header in edited.headers.items()}
    same = [row for row in able if wanted & {*zip(row.kernels, row.schedules, strict=True)}]
    return next(iter([*same, *able]), None)


def joined_names(rows: Sequence[BenchRow]) -> str:
    return ", ".join(dict.fromkeys(kernel for row in rows for kernel in row.kernels))


# ---- rows of one device ----


class Bench:
    """Collects the rows of one file on one device (`emulator` or for example `cuda:0`). `add` runs a row and keeps its
    calls. `count` and `measure` use these calls later."""

    def __init__(self, program: Program, device: str, why: str, settings: LaunchSettings):
        self.program, self.device, self.why = program, device, why
        self.settings = settings
        self.rows: list[BenchRow] = []
        self.calls: list[list[ExampleCall]] = []
        self.peers: dict[int, PeerCall] = {}  # by row
        self.errors: list[Exception] = []

    def add(self, example: ast.Example, overrides: Overrides, way: BenchWay) -> BenchRow:
        """Adds a row, runs it once, and checks its results. Raises DeviceError if a GPU failed. Other errors are stored
        in the row."""
        ptx = None if way.edited is None else way.edited.ptx
        settings = replace(self.settings, schedule=way.schedule, ptx=ptx)
        options = replace(overrides, options={**overrides.options, **way.options})
        row = BenchRow(example.name, dict(way.options), way.schedule)
        row.edited = None if way.edited is None else way.edited.name
        run = ExampleRun(self.program, example, self.device, self.why, options, settings)
        try:
            row.report = run.run()
        except (TileError, RuntimeFault) as error:
            # After an error on a GPU, the CUDA context may be unusable, so no further row could run.
            if self.device != "emulator" and isinstance(error, DeviceError):
                raise
            self.errors.append(error)
            # A schedule that neither the file nor the user chose may not fit. The file's own choice must run.
            row.failed, row.is_wrong = one_line(error), way.schedule is None or way.edited is not None
        self.rows.append(row)
        self.calls.append(run.launcher.calls if row.report else [])
        return row

    def add_ways(self, example: ast.Example, overrides: Overrides, ways: Iterable[BenchWay]) -> list[str]:
        """Adds a row for each way to run an example, without repetitions. Returns the requested schedules that ran or
        failed."""
        shown: list[list[str]] = []
        tried: list[str] = []
        for way in ways:
            if [way.schedule] in shown:
                continue
            tried += [] if way.schedule is None else [way.schedule]
            row = self.add(example, overrides, way)
            # Only now it is known which schedules several launches have. The file may have chosen the same.
            if way.schedule is not None and row.report is not None and row.schedules in shown:
                self.rows.pop()
                self.calls.pop()
                continue
            shown.append(row.schedules)
            # The first row is the file's own choice. If it fails, the other rows would fail, too.
            if row.is_wrong:
                break
        return tried

    def add_peer(self, example: ast.Example, overrides: Overrides, peer: Peer, beside: int) -> BenchRow:
        """Adds a row for a peer, which replaces the launch of row `beside`. Runs the peer once and checks its results.

        An error of the peer is stored in the row.
        """
        row = BenchRow(example.name, {}, None, peer=peer.name)
        launcher = partial(PeerLauncher, peer=peer, roles=roles_of(self.calls[beside][0]))
        run = ExampleRun(self.program, example, self.device, self.why, overrides, self.settings, launcher)
        self.rows.append(row)
        self.calls.append([])
        try:
            row.report = run.run()
        except PeerFailed as error:
            row.failed, row.is_wrong = str(error), True
            return row
        row.counted = [0]
        self.peers[len(self.rows) - 1] = run.launcher.call
        return row

    def count(self) -> None:
        """Sets the counters and resources of the rows.

        For launches on a GPU, the emulator counts only the first blocks. A fault that it finds is stored in the row,
        even if the row's results are right.
        """
        on_gpu = self.device != "emulator"
        for row, calls in zip(self.rows, self.calls, strict=True):
            reports = iter(row.report.launches if row.report else [])
            for call in calls:
                is_large = on_gpu and array_bytes(call.given) > COUNTED_BYTES
                for (launch, values), report in zip(call.on_host(), reports, strict=False):
                    with suppress(DeviceError):  # if ptxas or nvdisasm fails, the row lacks their figures
                        assembled(launch.kernel.ptx, launch.kernel.header, report, on_gpu, must=not on_gpu)
                    if not on_gpu or is_large:
                        row.counted.append(0 if is_large else report.blocks)
                    else:
                        self.count_part(row, launch.kernel, values, report)

    def count_part(self, row: BenchRow, kernel: Any, values: Sequence[Any], report: LaunchReport) -> None:
        """Runs the first blocks of a launch on the emulator, and stores the counters in the launch's report."""
        part = first_blocks(kernel, values, COUNTED_BLOCKS, grid=tuple(report.grid))
        row.counted.append(part.blocks)
        if part.result.counters is not None:
            report.counters = part.result.counters.totals.as_dict()
        if part.findings:
            row.failed, row.is_wrong = in_words(part.findings[0]), True

    def measure(self) -> None:
        """Times the rows with right results on a GPU. A peer is timed only if an `expect` line has checked its
        result."""
        # A peer without an `expect` line may compute nothing, so its time would be meaningless.
        passed = [
            i
            for i, row in enumerate(self.rows)
            if row.report is not None and row.report.passed is not False and (row.peer is None or row.report.passed)
        ]
        passed = [i for i in passed if not self.is_untimed(i)]
        launches = [self.repeated(i) for i in passed]
        times = interleaved(launches, int(self.device.partition(":")[2] or 0))
        for i, found in zip(passed, times, strict=True):
            self.rows[i].report.times = found  # type: ignore[union-attr]

    def is_untimed(self, number: int) -> bool:
        """Whether a row cannot be timed. Stores the reason in the row's report."""
        report, peer = self.rows[number].report, self.peers.get(number)
        reasons = [peer.reason] if peer is not None else [call.renewals.reason for call in self.calls[number]]
        assert report is not None
        report.untimed = next(filter(None, reasons), "")
        return bool(report.untimed)

    def repeated(self, number: int) -> Callable[[], object]:
        """A function that makes all launches of a row. It can be called repeatedly."""
        if number in self.peers:
            return self.peers[number].repeated()
        return in_a_row([call.repeated() for call in self.calls[number]])


def one_line(error: TileError | RuntimeFault) -> str:
    """The first line of an error message, with the error's line number in the file."""
    line = error.loc.line if isinstance(error, TileError) and error.loc else getattr(error, "line", None)
    return error.message.partition("\n")[0] + ("" if line is None else f" (line {line})")


def interleaved(rows: Sequence[Callable[[], object]], ordinal: int) -> list[list[float]]:
    """The time of all launches of each row in microseconds: 20th percentile, median, 80th percentile.

    The rows alternate, and each launch starts with a cold L2.
    """
    from dsl.runtime.cuda.timing import measure_rounds, percentiles

    # With Random(0), each run of the command measures the rows in the same orders.
    times = measure_rounds(rows, ROUNDS, order=Random(0), device=ordinal)
    return [list(percentiles(found)) for found in times]


def bench(
    program: Program,
    device: str,
    why: str,
    values: Sequence[str] = (),
    examples: Sequence[str] = (),
    kernels: Sequence[str] = (),
    schedules: Sequence[str] = (),
    seed: int = 0,
    time_limit: float | None = None,
    choose: Mapping[str, str] | None = None,
    edited: Sequence[str] = (),
    peers: Sequence[str] = (),
) -> list[BenchRow]:
    """The rows for a file's examples, in the order of the file. `edited` lists files of IR or PTX, and `peers` lists
    Python functions; each adds rows. If all rows fail, raises the error of the first: TileError, LaunchError or
    DeviceError."""
    settings = LaunchSettings(seed=seed, measure=False, time_limit=time_limit, choose=Asked(dict(choose or {})))
    made = Bench(program, device, why, settings)
    # A requested schedule that no example can use is reported as an error at the end.
    missing = dict.fromkeys(schedules)
    by_hand = {file: edited_from(file, choose or {}) for file in edited}
    unused = dict(by_hand)
    # Peers are imported before any row runs. Otherwise a missing peer would be reported minutes later.
    others = peers_of(peers, chosen_examples(program, examples, kernels))
    for example in chosen_examples(program, examples, kernels):
        overrides = resolve(program, example, values)
        first = len(made.rows)
        for name in made.add_ways(example, overrides, ways(program, example, overrides, schedules)):
            missing.pop(name, None)
        for file, kernels_of in by_hand.items():
            base = made_from(made.rows[first:], kernels_of)
            if base is not None:
                made.add(example, overrides, BenchWay(base.options, base.schedule, kernels_of))
                unused.pop(file, None)
        ran = next((at for at in range(first, len(made.rows)) if made.calls[at]), None)
        for peer in others:
            if ran is not None and peer.does(example):
                made.add_peer(example, overrides, peer, ran)
    if any(row.report for row in made.rows):
        settings.choose.check()
    if missing:
        raise no_schedule(program, list(missing))
    if len(made.errors) == len(made.rows):
        raise made.errors[0]
    for kernels_of in unused.values():
        raise kernels_of.not_launched(f"the rows launch {joined_names(made.rows)}")
    # Launches are counted only if a row exists, since counting takes seconds per launch.
    made.count()
    if device != "emulator":
        made.measure()
    return made.rows


def no_schedule(program: Program, names: Sequence[str]) -> TileError:
    known = list(dict.fromkeys(name for _, name in program.schedules))
    hint = closest(names[0], known) or f"known: {', '.join(known) or 'none'}"
    return TileError("name", None, f"no example of {program.source.name} can use '{names[0]}'", hint)
