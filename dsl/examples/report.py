"""The report on a run of an example. Reports are plain data, which processes exchange as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, to_builtins

from dsl.examples.bounds import LaunchBound
from dsl.examples.comparison import NOTHING_COMPARED, Comparison
from dsl.text import html
from dsl.text.counted import counted_lines
from dsl.text.figures import COLUMNS, number

if TYPE_CHECKING:
    from dsl.runtime.emulator import Counters

TAKEN = ("threads", "shared_bytes", "registers", "spills", "occupancy", "time_us")
COUNTED = (
    *("instructions", "moves", "active_lanes", "sectors", "sectors_over_fewest", "wavefronts", "conflicts", "barriers"),
    *("mma", "shuffles", "atomics"),
)
"""The columns in a notebook's table of launches."""


class Check(Comparison, kw_only=True):
    """The result of one `expect` line: a comparison. A condition counts as a comparison of one element. `writer`
    describes the thread that wrote the first wrong element, if it is known, which needs the emulator. `mistake` is a
    hint about a mistake that gives exactly this wrong result. `shows` is False if the line compares only numbers, only
    inputs, or an array with itself, so that it tests no result of a launch. `overflows` selects the row of `OVERFLOWS`
    that explains an infinity."""

    text: str
    line: int
    writer: str | None = None
    mistake: str | None = None
    shows: bool = True
    overflows: str | None = None

    @property
    def excess(self) -> float:
        """The error divided by the tolerance. A check fails if the quotient is above 1."""
        if self.tolerance:
            return self.max_error / self.tolerance
        return math.inf if self.max_error else 0.0

    @property
    def hint(self) -> str | None:
        """A fix, or None if none is known. There are fixes for known mistakes, for elements that no store reached, and
        for elements that are NaN or infinite where a finite number is wanted."""
        if self.passed:
            return None
        if self.mistake is not None:
            return self.mistake
        if self.writer == UNREACHED:
            # Whole columns are missing where a slice is too narrow, and whole rows where the grid has too few blocks.
            return NOT_COVERED if "column" in self.pattern and "row" not in self.pattern else NOT_REACHED
        if self.pattern == NOTHING_COMPARED:
            return BOTH_NAN
        actual, wanted = (float(x) if isinstance(x, int | float) else 0.0 for x in (self.actual, self.wanted))
        if math.isfinite(actual) or not math.isfinite(wanted):
            return None
        return NO_NUMBER if math.isnan(actual) else OVERFLOWS.get(self.overflows or "")


UNREACHED = "nothing: no store reached it"
NOT_REACHED = (
    "let the grid reach all: 'grid cdiv(n, BLOCK)' has a block for the rest, too; its first extent is that of block(0)"
)
NOT_COVERED = (
    "let the slices reach the end of the axis: a constant such as COLS in 0 : COLS is at least the extent ('assert "
    "COLS >= cols' checks it), or a loop or a grid axis takes the rest"
)
BOTH_NAN = "use inputs for which the wanted result is a number: 0 / 0 and inf - inf are NaN"
NO_NUMBER = (
    "it comes from an 'empty' array that is added to, 0 / 0, sqrt or log of a negative number, or inf - inf, as "
    "where a whole row is masked"
)
OVERFLOWS = {
    "sum": "f16 holds 65504 at most, and the kernel has a sum or a product of f16: .to(f32) ahead of it",
    "result": "f16 holds 65504 at most, less than is wanted here: an array of f32, or of bf16, holds it",
}


class Verdict(Struct):
    """The result of judging a contract for one kernel. `figure` is None if the contract was not judged, and `reason` is
    why. `held` is True if the figure is within `bound`. `why` lists the choices that affect the figure, in words.
    `message` and `rendered` are the text of the error, if the contract failed."""

    text: str
    name: str
    file: str
    line: int
    column: int
    kernel: str
    figure: float | str | None = None
    bound: float | str | None = None
    unit: str = ""
    held: bool | None = None
    reason: str | None = None
    message: str = ""
    why: list[str] = field(default_factory=list)
    rendered: str = ""

    def as_error(self) -> dict[str, Any]:
        """Returns the failed contract as JSON data in the form that other errors have."""
        place = {"file": self.file, "line": self.line, "column": self.column}
        return {"code": "contract", **place, "message": self.message, "hint": "\n".join(self.why), "called_from": []}


class Explanation(Struct):
    """Explains a launch. `reasons` are those for choosing its kernel. `layouts` lists (name, type, layout) of named
    values. `seconds` maps levels of compilation to compile times."""

    reasons: list[str] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    requires: list[str] = field(default_factory=list)
    layouts: list[list[str]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


class LaunchReport(Struct):
    """The report on one kernel launch.

    `shared_bytes` is per block, and `cluster` is the number of blocks in a cluster. `registers` and `spills`
    (bytes) are per thread. `maxnreg` is the schedule's limit on registers. `machine_code` holds two numbers: all
    `instructions`, and the instructions in the longest inner `loop`. `counters` are the emulator's totals.
    `by_line` holds the counters by line of the file, and by FILE:LINE for other files. `dims` and `types` map names
    to extents and types. `timeline` is the launch's `Timeline` as JSON data. `bound` holds the least time of the
    launch, and the unit that limits it."""

    kernel: str
    schedule: str | None
    grid: list[int]
    threads: int
    shared_bytes: int
    cluster: int = 1
    time_us: float | None = None
    registers: int | None = None
    spills: int | None = None
    maxnreg: int | None = None
    occupancy: float | None = None
    limited_by: str | None = None
    machine_code: dict[str, int | None] | None = None
    counters: dict[str, Any] | None = None
    by_line: dict[str, dict[str, Any]] = field(default_factory=dict)
    output: str = ""
    explanation: Explanation | None = None
    dims: dict[str, int] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    timeline: dict[str, Any] | None = None
    bound: LaunchBound | None = None

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @property
    def counted(self) -> Counters | None:
        from dsl.runtime.emulator import Counters

        return None if self.counters is None else Counters.from_dict(self.counters)


class Report(Struct):
    """The report on one run of an example. `times` is the time of all launches together, in microseconds with a cold
    L2: 20th percentile, median and 80th percentile. `untimed` is why launches on a GPU were not timed. `moves` and
    `computes` are the bytes and operations that the example states. `bandwidth` is the device's memory bandwidth in
    bytes per second. `guessed` holds the extents of dims that were guessed for a PTX text."""

    file: str
    example: str | None
    device: str
    chip: str
    why: str
    launches: list[LaunchReport] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    contracts: list[Verdict] = field(default_factory=list)
    times: list[float] | None = None
    untimed: str = ""
    moves: float | None = None
    computes: float | None = None
    bandwidth: float | None = None
    guessed: dict[str, int] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return self.file if self.example is None else f"{self.file}, example {self.example}"

    @property
    def place(self) -> str:
        """The device and the reason why it was chosen, without the text of the driver's error."""
        # The driver's own message follows in quotes. It is too long for a page.
        why, _, _ = self.why.partition(': "')
        return f"{self.device} ({self.chip}); {why}"

    @property
    def dims(self) -> dict[str, int]:
        """Extents by name. A name whose extent differs between launches is left out."""
        return agreed([launch.dims for launch in self.launches])

    @property
    def types(self) -> dict[str, str]:
        """Types by name. A name whose type differs between launches is left out."""
        return agreed([launch.types for launch in self.launches])

    @property
    def launches_agree(self) -> bool:
        """Whether all launches have the same extents and types for the names that they share."""
        here = self.dims | self.types
        return all((launch.dims | launch.types).keys() <= here.keys() for launch in self.launches)

    @property
    def passed(self) -> bool | None:
        """Whether all checks pass and all judged contracts hold. None if there are neither checks nor judged
        contracts."""
        # A contract that was not judged neither passes nor fails.
        found = [check.passed for check in self.checks] + [
            each.held for each in self.contracts if each.held is not None
        ]
        return all(found) if found else None

    @property
    def compares(self) -> bool:
        """Whether any result of a launch was compared, or any contract was judged."""
        return any(check.shows for check in self.checks) or any(each.held is not None for each in self.contracts)

    @property
    def failed(self) -> list[Verdict]:
        """The contracts that failed."""
        return [each for each in self.contracts if each.held is False]

    @property
    def worst(self) -> Check | None:
        """The most informative check: a failed check if there is one, or else the check nearest to its bound."""
        return max(self.checks, key=lambda check: (not check.passed, check.excess), default=None)

    @property
    def time_us(self) -> float | None:
        return self.times[1] if self.times else None

    @property
    def gbps(self) -> float | None:
        """Gigabytes per second, computed from `moves`. None without a time."""
        return self.moves / self.time_us / 1e3 if self.moves and self.time_us else None

    @property
    def tflops(self) -> float | None:
        """Teraflops, computed from `computes`. None without a time."""
        return self.computes / self.time_us / 1e6 if self.computes and self.time_us else None

    @property
    def share_of_limit(self) -> float | None:
        """The fraction of the memory bandwidth that `gbps` reaches."""
        return self.gbps * 1e9 / self.bandwidth if self.gbps and self.bandwidth else None

    def _repr_html_(self) -> str:
        return report_page(self)

    def as_json(self) -> dict[str, Any]:
        """Returns the report for `dsl run --json`."""
        worst, first = self.worst, self.launches[0] if self.launches else None
        names = ("file", "example", "device", "chip", "dims", "types", "passed", "time_us")
        out: dict[str, Any] = {name: getattr(self, name) for name in names}
        out["kernel"] = ", ".join(launch.kernel for launch in self.launches)
        out["schedule"] = ", ".join(launch.schedule or "-" for launch in self.launches)
        out |= {"max_error": worst and worst.max_error, "tolerance": worst and worst.tolerance, "counters": None}
        if self.device == "emulator":
            out["counters"] = totals(self.launches)
        else:
            out |= {"times_us": self.times, "gbps": self.gbps, "tflops": self.tflops}
            out["share_of_limit"] = self.share_of_limit
            keys = ("registers", "spills", "shared_bytes", "occupancy", "limited_by")
            out |= {key: getattr(first, key, None) for key in keys}
            out |= {"untimed": self.untimed} if self.untimed else {}
        # If all checks passed, they add nothing to `passed`.
        if not self.passed:
            out["checks"] = [to_builtins(check) for check in self.checks]
        return out | {name: value for name, value in self._parts().items() if value}

    def _parts(self) -> dict[str, Any]:
        """Returns the parts of the JSON report that are left out if they are empty."""
        has_parts = len(self.launches) > 1 or any(launch.explanation or launch.by_line for launch in self.launches)
        return {
            "contracts": [to_builtins(each) for each in self.contracts],
            "errors": [each.as_error() for each in self.failed],
            "timelines": [launch.timeline for launch in self.launches if launch.timeline],
            "bounds": [launch.bound.as_json(launch.kernel) for launch in self.launches if launch.bound is not None],
            "launches": [to_builtins(launch) for launch in self.launches] if has_parts else [],
        }


def guess_in_words(guessed: Mapping[str, int]) -> str:
    """Formats a sentence about guessed dims."""
    texts = ", ".join(f"{name}={extent}" for name, extent in guessed.items())
    return f"{texts}: guessed, since nobody gives {'them' if len(guessed) > 1 else 'it'}"


def lines_of(report: Report) -> dict[str, dict[int, Counters]]:
    """Sums the counters of all launches by file and line. The example's own file comes first."""
    files: dict[str, dict[int, Counters]] = {report.file: {}}
    for launch in report.launches:
        for file, lines in by_file(launch.by_line, report.file).items():
            rows = files.setdefault(file, {})
            rows |= {at: rows[at] + counted if at in rows else counted for at, counted in lines.items()}
    return files


def by_file(by_line: Mapping[str, Mapping[str, float]], own: str) -> dict[str, dict[int, Counters]]:
    """Groups counters by file and line. The keys of `by_line` are `LINE` (in the file `own`) or `FILE:LINE`."""
    from dsl.runtime.emulator import Counters

    files: dict[str, dict[int, Counters]] = {}
    for text, counts in by_line.items():
        file, _, at = text.rpartition(":")
        files.setdefault(file or own, {})[int(at)] = Counters.from_dict(counts)
    return files


def take(facts: Any, attributes: Any) -> None:
    """Copies the driver's figures for a kernel into `facts`."""
    facts.registers, facts.spills = attributes.registers, attributes.local_bytes
    facts.shared_bytes = attributes.static_shared_bytes + attributes.dynamic_shared_bytes
    facts.occupancy, facts.limited_by = attributes.occupancy, attributes.limited_by


def agreed(tables: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the entries on which all tables agree. A table without a name does not count for this name."""
    names = dict.fromkeys(name for table in tables for name in table)
    found = {name: [table[name] for table in tables if name in table] for name in names}
    return {name: values[0] for name, values in found.items() if all(value == values[0] for value in values)}


def totals(launches: list[LaunchReport]) -> dict[str, Any]:
    """Sums the counters of all launches."""
    counted = [each for launch in launches if (each := launch.counted) is not None]
    return sum(counted[1:], counted[0]).as_dict() if counted else {}


def finite(value: Any) -> Any:
    """Replaces NaN and infinities in `value` by words, because JSON has no such numbers."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    return value


# ---- in a notebook ----


def report_page(report: Report) -> str:
    """Makes the HTML for a notebook: launches and checks as tables, and the source with counters and colours."""
    values = ", ".join(f"{name}={value}" for name, value in (report.dims | report.types).items())
    files = lines_of(report)
    return html.page(
        html.title(report.title, values),
        html.note(report.place),
        launches(report),
        judged(report),
        *(html.verbatim(each.rendered, "bad") for each in report.failed),
        *(html.verbatim(each.output) for each in report.launches if each.output),
        html.source(*counted_lines(files, report.file)) if any(files.values()) else "",
    )


def launches(report: Report) -> str:
    """Makes an HTML table with a row for each launch."""
    rows = [launch_facts(each) for each in report.launches]
    if report.times is not None and len(rows) == 1:
        low, median, high = report.times
        rows[0] |= {"us": median, "20% to 80%": f"{low:.1f} to {high:.1f}", "GB/s": report.gbps}
        rows[0] |= {"of peak": report.share_of_limit, "TFLOPS": report.tflops}
    heads = [head for head in dict.fromkeys(head for row in rows for head in row) if any(row.get(head) for row in rows)]
    return html.table(heads, [[row.get(head) for head in heads] for row in rows]) if rows else ""


def launch_facts(launch: LaunchReport) -> dict[str, Any]:
    """Returns the figures of a launch by column heading."""
    facts: dict[str, Any] = {"kernel": launch.kernel, "schedule": launch.schedule or "", "blocks": launch.blocks}
    facts |= {COLUMNS[name].label: getattr(launch, name) for name in TAKEN}
    facts["SASS"] = (launch.machine_code or {}).get("instructions")
    if launch.bound is not None and launch.bound.name is not None:
        unit, least = next(iter(launch.bound.terms.items()))
        facts["bound"] = f"{unit}, {least:.3g} us"
    if (counted := launch.counted) is not None:
        found = {**counted.figures, **counted.ratios}
        facts |= {COLUMNS[name].label: found[name] for name in COUNTED}
    return facts


def judged(report: Report) -> str:
    """Makes an HTML table of all expectations and their results: checks, then contracts."""
    rows: list[list[html.Cell]] = []
    rows += [[word(each.passed), each.text, result_of(each), place_of(each.line)] for each in report.checks]
    rows += [[word(each.held), each.text, figure_of(each), place_of(each.line)] for each in report.contracts]
    return html.table(["", "expected", "found", ""], rows) if rows else ""


def word(passed: bool | None) -> html.PageCell:
    if passed is None:
        return html.PageCell("not judged", mark="pale")
    return html.PageCell("passed") if passed else html.PageCell("FAILED", mark="bad")


def place_of(line: int) -> html.PageCell:
    return html.PageCell(f"line {line}" if line else "", mark="pale")


def figure_of(verdict: Verdict) -> str:
    found: Any = verdict.figure
    return verdict.reason or "" if found is None else found if isinstance(found, str) else number(found)


def result_of(check: Check) -> str:
    return "; ".join(said_of_check(check))


def said_of_check(check: Check) -> Iterator[str]:
    """Yields the result of a check in words: the error and, for a wrong result, where it differs. Yields nothing for a
    condition that is true."""
    if check.size > 1 or check.first is not None:
        is_equal = check.passed and check.tolerance == check.max_error == 0.0
        yield "equal" if is_equal else f"max error {number(check.max_error)}, allowed {number(check.tolerance)}"
    if not check.passed and check.first is not None:
        of = f"of {number(check.size)} elements"
        is_nothing = check.pattern == NOTHING_COMPARED
        yield f"{of} {check.pattern}" if is_nothing else f"{number(check.wrong)} {of} differ: {check.pattern}"
        yield f"first at {check.first}: {check.actual}, wanted {check.wanted}"
        if check.writer is not None:
            yield f"written by {check.writer}"
        if check.hint is not None:
            yield f"hint: {check.hint}"
