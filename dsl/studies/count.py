"""Launches PTX texts on the same values, and compares their costs. Any compiler may have generated the texts.

The emulator runs each text once, to count its instructions, find faults and compute the results. ptxas reports
registers and other resources. With a GPU, the emulator runs only the first blocks. Then the GPU computes the results,
and the launch is timed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from dsl.examples.first_blocks import COUNTED_BLOCKS, COUNTED_BYTES, OF_A_PART
from dsl.examples.one_kernel import LaunchSettings, assembled
from dsl.examples.overrides import Overrides
from dsl.examples.renewals import no_room
from dsl.examples.report import LaunchReport, Report, take
from dsl.examples.run import ExampleRun
from dsl.examples.times import timed
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import DeviceError, LaunchError
from dsl.runtime.renewed import KeptMemory
from dsl.studies.launched_text import (
    AskedLaunch,
    Counted,
    ForeignText,
    LaunchedText,
    MapOf,
    OwnText,
    described,
    read_value,
)
from dsl.text import tree as ast
from dsl.text.files import MAX_TEXT, read_text
from dsl.text.program import parse_program

if TYPE_CHECKING:
    from dsl.runtime.chips import DeviceFacts

HARMFUL = ("out of bounds", "misaligned", "trap")
"""Kinds of faults that would make the CUDA context of the process unusable. A text with such a fault is not launched on
a GPU."""
PER_LAUNCH = {
    **{"entries": "entry", "grids": "grid", "blocks": "block", "clusters": "cluster", "shared": "shared"},
    "arguments": "args",
}
"""The fields of a request that apply to texts without a header, in the order of `AskedLaunch`, and their options."""


class CountRequest(Struct, frozen=True):
    """The texts to count, and the options of their launches.

    `values` are texts of the form NAME=VALUE. `entries`, `grids`, `blocks`, `clusters`, `shared` and `arguments` apply
    to texts without a header (of other compilers). Each of these lists has one element for all such texts, or one for
    each. `saves` are texts of the form NAME=FILE. `only` limits the number of blocks to count.
    """

    files: list[str]
    values: list[str]
    device: str
    why: str
    entries: list[str] = field(default_factory=list)
    grids: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    expects: list[str] = field(default_factory=list)
    saves: list[str] = field(default_factory=list)
    seed: int = 0
    arch: str | None = None
    only: int | None = None
    time_limit: float = 300.0


class CountedFile(Struct):
    """A launched text.

    `report` describes the launch and the checks of its results. `counted` is the number of blocks that the emulator
    counted, or None. `arguments` maps names to descriptions such as `f16[9, 1000]`. `findings` (faults) and `notes` are
    the emulator's, as data. The launch's `by_line` uses line numbers of `source`. `by_ptx_line` and `by_array` have the
    same form. `unjudged` is the reason why there are no results. `unassembled` is the reason why there is no machine
    code. `advice` names an option that the caller may have forgotten. `waits_with_a_barrier` is the number of cluster
    waits beside which ptxas inserts a block barrier.
    """

    report: Report
    entry: str
    target: str
    is_foreign: bool
    block: list[int]
    cluster: list[int]
    arguments: dict[str, str]
    counted: int | None = None
    findings: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    by_ptx_line: dict[str, dict[str, float]] = field(default_factory=dict)
    by_array: dict[str, dict[str, float]] = field(default_factory=dict)
    source: str | None = None
    unjudged: str | None = None
    unassembled: str | None = None
    advice: str | None = None
    waits_with_a_barrier: int = 0

    @property
    def launch(self) -> LaunchReport:
        return self.report.launches[0]

    @property
    def is_right(self) -> bool | None:
        """Whether there is no fault, and the results are as expected. None means that nothing checks them."""
        return False if self.findings else self.report.passed

    def figures(self) -> dict[str, float | None]:
        """The figures of the text, for the whole launch. If only the first blocks were counted, the counters are scaled
        to all blocks."""
        launch, code = self.launch, self.launch.machine_code or {}
        found: dict[str, float | None] = {
            "time_us": self.report.time_us,
            "blocks": launch.blocks,
            "threads": launch.threads,
            "shared_bytes": launch.shared_bytes,
            "registers": launch.registers,
            "spills": launch.spills,
            "occupancy": launch.occupancy,
            "sass": code.get("instructions"),
            "sass_loop": code.get("loop"),
            "waits_with_a_barrier": self.waits_with_a_barrier,
        }
        counted = launch.counted
        if counted is None or not self.counted:
            return found
        return {**found, **counted.times(launch.blocks / self.counted).figures, **counted.ratios}


# ---- the request ----


class GivenValues(Struct):
    """The parsed arguments NAME=VALUE. `names` lists the names in order. `lines` contains the values that are
    expressions, and `files` the paths of the values that are files."""

    names: list[str]
    lines: dict[str, ast.Assign]
    files: dict[str, str]
    expects: list[ast.Expect]

    def evaluate(self, run: ExampleRun) -> None:
        """Evaluates all values, and stores them as variables of the example `run`."""
        for name in self.names:
            if name in self.files:
                run.names[name] = read_value(self.files[name], run.host, None)
            else:
                run.names[name] = read_value("", run.host, self.lines[name].value)


def given_values(request: CountRequest) -> GivenValues:
    """Parses the values and the expectations of a request. Raises a TileError for a value that is not NAME=VALUE."""
    names: list[str] = []
    files: dict[str, str] = {}
    texts: list[str] = []
    for each in request.values:
        name, equals, value = each.partition("=")
        # `2=n` sets parameter 2. Many compilers write PTX in which parameters have no names.
        name = f"parameter_{name}" if name.isdecimal() else name
        if not equals or not value or not name.isidentifier() or "\n" in each:
            message = f"'{each}' is neither a PTX text nor NAME=VALUE"
            raise TileError("option", None, message, "x='randn(f16[9, 1000])', n=1000, y=FILE.npy; 2=n for parameter 2")
        if name in names:
            raise TileError("option", None, f"'{name.removeprefix('parameter_')}' is given twice")
        names.append(name)
        if value.endswith(".npy"):
            files[name] = value
        else:
            texts.append(f"{name} = {value}")
    program = parse_program("".join(f"example:\n    {text}\n" for text in texts), "<values>")
    lines: dict[str, ast.Assign] = {}
    for text, example in zip(texts, program.examples, strict=True):
        (line,) = example.lines
        assert isinstance(line, ast.Assign), text
        lines[text.partition(" ")[0]] = line
    return GivenValues(names, lines, files, expectations(request.expects))


def expectations(texts: Sequence[str]) -> list[ast.Expect]:
    program = parse_program("".join(f"example:\n    expect {text}\n" for text in texts), "--expect")
    found: list[ast.Expect] = []
    for example in program.examples:
        for line in example.lines:
            if not isinstance(line, ast.Expect):
                raise TileError("expect", line.loc, "this compares nothing", "y ~= ref.softmax(x) within 1e-3")
            found.append(line)
    return found


def asked_launches(request: CountRequest, count: int) -> list[AskedLaunch]:
    """The launch options of the `count` texts without a header. Raises TileError."""
    columns: list[list[str | None]] = []
    for name, option in PER_LAUNCH.items():
        given: list[str] = getattr(request, name)
        if len(given) > 1 and len(given) != count:
            message = f"--{option} is given {len(given)} times for {count} PTX texts without a header"
            raise TileError("option", None, message, f"give it once for all, or once for each in order ({count})")
        columns.append([given[0] if len(given) == 1 else given[at] if given else None for at in range(count)])
    return [AskedLaunch(*row) for row in zip(*columns, strict=True)]


# ---- one text ----


class Counter:
    """Launches and counts the texts of a request, one after another."""

    def __init__(self, request: CountRequest):
        self.request = request
        self.given = given_values(request)
        self.saves = dict(each.partition("=")[::2] for each in request.saves)
        for name, file in self.saves.items():
            if name not in self.given.names or not file.endswith(".npy"):
                message = f"--save {name}={file}: a value's name, and a .npy file"
                raise TileError("option", None, message, f"known: {', '.join(self.given.names)}")
        if self.saves and len(request.files) > 1:
            raise TileError("option", None, "--save is for one PTX text: several would write the same file")
        if request.only is not None and request.device == "emulator" and (self.saves or request.expects):
            raise TileError("option", None, "--first leaves results unfinished: no --expect and no --save with it")

    @property
    def ordinal(self) -> int | None:
        return None if self.request.device == "emulator" else int(self.request.device.partition(":")[2] or 0)

    def all(self) -> list[CountedFile]:
        """Launches and counts all texts. Raises TileError, LaunchError or DeviceError."""
        texts = {file: read_text(Path(file), MAX_TEXT) for file in self.request.files}
        foreign = [file for file in self.request.files if not has_header(texts[file])]
        asked = iter(asked_launches(self.request, len(foreign)))
        if not foreign and any(getattr(self.request, name) for name in PER_LAUNCH if name != "entries"):
            raise TileError("option", None, "these texts have a header, which gives their launch")
        if self.request.arch is not None and len(foreign) < len(self.request.files):
            raise TileError("option", None, "--arch is for texts without a header; the header gives the target")
        entry = self.request.entries[0] if self.request.entries and not foreign else None
        return [
            self.one(file, texts[file], next(asked) if file in foreign else None, entry) for file in self.request.files
        ]

    def prepared(
        self, file: str, text: str, asked: AskedLaunch | None, entry: str | None
    ) -> tuple[ExampleRun, LaunchedText]:
        """Evaluates the values again, and makes a launchable text with these values as arguments."""
        program = parse_program("example:\n    nothing = 0\n", file)
        settings = LaunchSettings(seed=self.request.seed)
        run = ExampleRun(program, program.examples[0], "emulator", self.request.why, Overrides(), settings)
        self.given.evaluate(run)
        if asked is not None:
            return run, ForeignText(text, file, asked, run.host, self.given.names)
        return run, OwnText(text, entry, run.names, self.request.device, self.request.seed)

    def one(self, file: str, text: str, asked: AskedLaunch | None, entry: str | None) -> CountedFile:
        run, launched = self.prepared(file, text, asked, entry)
        found = self.described(file, run, launched)
        ordinal, writers = self.ordinal, None
        counted = self.counted(found, launched)  # before ptxas: refuses a text that is not PTX
        self.assemble(found, launched)
        if ordinal is None:
            writers = None if counted is None or self.request.only is not None else counted.writers
        elif any(each["kind"] in HARMFUL for each in found.findings):
            found.unjudged = "not launched on the GPU: the fault would poison it"
        else:
            # The emulator has written into the arrays, so the arrays are made again.
            run, launched = self.prepared(file, text, asked, entry)
            self.launch(found, launched, ordinal)
            writers = []
        run.report = found.report
        self.judge(found, run, writers)
        return found

    def described(self, file: str, run: ExampleRun, launched: LaunchedText) -> CountedFile:
        """A `CountedFile` with all that is known before the launch."""
        from dsl.runtime.signature import signatures, waits_with_a_barrier

        report = run.report
        facts, arch = self.chip(launched)
        report.file, report.example, report.device = file, None, self.request.device
        report.chip, report.guessed = f"{facts.name}, {arch}", dict(launched.guessed)
        launch = LaunchReport(launched.label, launched.schedule, list(launched.grid), prod(launched.block), 0)
        launch.shared_bytes, launch.maxnreg = launched.shared_bytes, launched.maxnreg
        report.launches = [launch]
        said = {name: described(value) for name, value in zip(launched.names, launched.values, strict=True)}
        foreign, block, cluster = launched.is_foreign, list(launched.block), list(launched.cluster)
        found = CountedFile(report, launched.entry, launched.arch, foreign, block, cluster, said)
        found.waits_with_a_barrier = waits_with_a_barrier(launched.ptx, signatures(launched.ptx)[launched.entry])
        return found

    def chip(self, launched: LaunchedText) -> tuple[DeviceFacts, str]:
        """The properties of the device, and the architecture for which the text is assembled."""
        from dsl.runtime import device_facts
        from dsl.runtime.chips import emulated_arch

        arch = self.request.arch or emulated_arch(launched.arch)
        facts = device_facts(self.request.device, arch)
        if self.ordinal is not None:
            # Code for sm_90a runs only on sm_90. For other targets, code is assembled for the device itself.
            arch = launched.arch if launched.arch[-1].isalpha() else facts.arch
        return facts, arch

    def assemble(self, found: CountedFile, launched: LaunchedText) -> None:
        """Stores the figures of ptxas, or the reason why there are none."""
        from dsl.runtime.chips import occupancy

        facts, arch = self.chip(launched)
        launch, code, reason = found.launch, None, None
        try:
            code = assembled(launched.ptx, launched, launch, on_gpu=self.ordinal is not None, arch=arch)
        except (LaunchError, DeviceError) as error:
            reason = " ".join(error.message.splitlines()[:2])
        if code is not None and self.ordinal is None:
            # Adds static shared memory, which the PTX of another compiler declares itself.
            launch.shared_bytes += code.shared
            share = occupancy(facts, code.registers, launch.threads, launch.shared_bytes)
            launch.occupancy, launch.limited_by = share
        found.unassembled = reason or (None if code else "no machine code: ptxas is not installed")

    def counted(self, found: CountedFile, launched: LaunchedText) -> Counted | None:
        """Runs the text on the emulator, and stores its counters and faults. Returns None if the arrays of a launch on
        a GPU are too large."""
        only = self.request.only
        if self.ordinal is not None:
            if array_bytes_of(launched) > COUNTED_BYTES:
                return None
            # A launch on a GPU may be large, so only its first blocks are counted.
            only = only or COUNTED_BLOCKS
        made = launched.count(only, self.request.arch, self.request.seed, self.request.time_limit)
        launch = found.launch
        launch.output, found.counted = made.output, made.blocks
        is_part = made.blocks < launch.blocks
        # If only some blocks ran, a finding may be due to missing data or signals of the other blocks.
        found.findings = [as_data(each) for each in made.findings if not (is_part and each.kind in OF_A_PART)]
        found.notes = [as_data(each) for each in made.notes]
        if not launched.shared_bytes and any("shared address" in each["message"] for each in found.findings):
            found.advice = "the text gives its dynamic shared memory no size: --shared BYTES"
        if made.counters is None:
            return made
        counters = made.counters
        launch.counters = counters.totals.as_dict()
        launch.by_line = {place: each.as_dict() for place, each in counters.places.items()}
        found.by_ptx_line = {str(line): each.as_dict() for line, each in sorted(counters.by_ptx_line.items())}
        found.by_array = {name: each.as_dict() for name, each in counters.by_array.items()}
        found.source = counters.file
        return made

    def launch(self, found: CountedFile, launched: LaunchedText, ordinal: int) -> None:
        """Launches the text on the GPU, once for the results, then repeatedly for the time. Each launch starts with the
        same memory contents."""
        on_gpu = launched.on_gpu(ordinal)
        try:
            kept = KeptMemory(on_gpu.changed, ordinal)
        except DeviceError as error:
            kept, found.report.untimed = None, no_room(error)
        on_gpu.submit()
        on_gpu.copy_back()
        take(found.launch, on_gpu.attributes())
        if kept is not None:
            found.report.times = timed(kept.before(on_gpu.submit), ordinal)

    def judge(self, found: CountedFile, run: ExampleRun, writers: list[Any] | None) -> None:
        """Checks the results against the expectations, and saves them. `writers` records which stores wrote the arrays.
        It is None if there are no results."""
        if writers is None or (found.findings and self.ordinal is None):
            found.unjudged = found.unjudged or ("results are discarded after a finding" if found.findings else None)
            return
        # With the writers, a failed check can name the store that wrote a wrong result.
        run.launcher.written = writers
        run.empty.wrote_all()  # any parameter may be an output
        for line in self.given.expects:
            check = run.expect(line)
            check.line = 0  # from the command line, so it has no line in a file
            found.report.checks.append(check)
        for name, file in self.saves.items():
            import numpy as np

            if isinstance(run.names[name], MapOf):
                raise TileError(
                    "option", None, f"--save {name}: a tensor map is not an array", "name the array, and save that"
                )
            try:
                np.save(file, run.names[name])
            except OSError as error:
                raise TileError("file", None, f"{file}: {error.strerror or error}") from None


def has_header(text: str) -> bool:
    from dsl.runtime.header import PREFIX

    return any(line.startswith(PREFIX) for line in text.partition(".version")[0].splitlines())


def array_bytes_of(launched: LaunchedText) -> int:
    arrays = [value.array if isinstance(value, MapOf) else value for value in launched.values]
    return sum(array.nbytes for array in {id(each): each for each in arrays if hasattr(each, "nbytes")}.values())


def as_data(finding: Any) -> dict[str, Any]:
    """A fault that the emulator found, as data. `text` is the message for users."""
    kind, place = str(finding.kind.value), {"file": finding.file, "line": finding.line, "ptx_line": finding.ptx_line}
    where = {"block": finding.block and list(finding.block), "thread": finding.thread and list(finding.thread)}
    return {"kind": kind, "message": finding.message, **place, **where, "text": str(finding)}
