"""`dsl run`: runs and checks examples of a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dsl.command.failures import DEVICE_FAILED, DIFFERS, WRONG_INPUT, ChildFailure, failed, records, render, show, told
from dsl.command.options import choices_of, shared
from dsl.command.request import CommandRequest, execute
from dsl.lowering.ir.location import TileError, printable
from dsl.runtime.errors import LaunchError

if TYPE_CHECKING:
    from dsl.examples.report import Report

EMULATED_BYTES = 64 << 20
EMULATED_BUDGET = 1 << 32
"""Limits for the emulator when it repeats a launch that failed on a GPU: bytes of the arrays, and thread
instructions."""
MARKS, EVENTS = "barriers,loops", 1024
"""The default marks of a timeline, and the default number of events per warp."""

FILE = click.Path(dir_okay=False)


@click.command()
@shared("file values device example schedule seed arch_of_device choose skip_pass time_limit as_json")
@click.option("--all", "run_all", is_flag=True, help="Run all examples of the file.")
@click.option("--counters", is_flag=True, help="Print the source with counters beside each line (emulator).")
@click.option("--explain", is_flag=True, help="Explain the variant: reasons, constants, layouts, times of levels.")
@click.option("--from", "--ptx", "ptx", type=click.Path(), metavar="FILE", help="Start from this IR, LLVM IR or PTX.")
@click.option("--ncu", type=click.Path(), metavar="FILE.csv", help="Show Nsight Compute's figures beside the bound.")
@click.option("--roofline", type=FILE, metavar="FILE.png", help="Draw launches in the device's roofline (matplotlib).")
@click.option("--timeline", type=click.Path(), metavar="FILE", help="Write a timeline of warps as a Perfetto trace.")
@click.option("--marks", default=MARKS, metavar="barriers,loops,LINES", help="What it marks; LINES: 12,20-24.")
@click.option("--events", type=click.IntRange(16, 1 << 20), default=EVENTS, show_default=True, help="Of each warp.")
@click.option("--blocks", type=click.IntRange(1), help="Record the grid's first N blocks; default: 128.")
@click.option("--strict-bounds", is_flag=True, help="Assert that index tiles lie inside their axes.")
def command(file: str, as_json: bool, **options: Any) -> int:
    """Run the example of FILE (.tile): compare, measure and count it. NAME=VALUE sets dims, types, constants and
    options.

    Exit status: 0 fine, 1 the result differs, 2 the input is wrong, 3 the device failed; with several examples the
    greatest.
    """
    reports: list[Report] = []
    broken = BrokenExamples(file, as_json) if options["run_all"] else None
    try:
        for report in run(file, as_json, options, broken):
            reports.append(report)
            if not as_json:
                show_run(report, options)
        show_roofline(options["roofline"], reports, as_json)
    except Exception as error:
        show_printed(error, as_json)
        return failed(error, file, as_json, passed=False)
    if as_json:
        said = told_reports(file, reports, options["run_all"])
        click.echo(json.dumps(said if broken is None else broken.add_to(said)))
    status = DIFFERS if any(report.passed is False for report in reports) else 0
    return status if broken is None else max(status, *broken.statuses, 0)


def show_printed(error: Exception, as_json: bool) -> None:
    """Prints what the kernel printed in a failed launch."""
    # With --json, standard output holds only the JSON object.
    if output := getattr(error, "output", ""):
        click.echo(printable(output.rstrip("\n")), err=as_json)


class BrokenExamples:
    """Collects the examples of a file that raised an error. The error is printed at once, and the other examples still
    run."""

    def __init__(self, file: str, as_json: bool):
        self.file, self.as_json = file, as_json
        self.records: list[dict[str, Any]] = []
        self.statuses: list[int] = []

    def add(self, name: str | None, error: Exception) -> None:
        title = self.file if name is None else f"{self.file}, example {name}"
        show_printed(error, self.as_json)
        if not self.as_json:
            click.echo(printable(title))
        self.statuses.append(show(error, self.file))
        self.records.append({"example": name, "passed": False, **told(error, self.file)})

    def add_to(self, said: dict[str, Any]) -> dict[str, Any]:
        """Adds the broken examples to `said`, after the other examples."""
        if not self.records:
            return said
        errors = [each for record in self.records for each in record["errors"]]
        said = {**said, "examples": [*said["examples"], *self.records], "passed": False}
        return {**said, "errors": errors, "status": max(self.statuses)}


def check_roofline(path: str | None, settings: dict[str, Any]) -> None:
    """Raises TileError if the roofline cannot be drawn. Called before anything runs."""
    from dsl.lab.plot import require_matplotlib

    if path is not None:
        if settings["timeline"] is not None:
            raise TileError("option", None, "--roofline and --timeline exclude each other: marks take time")
        require_matplotlib(Path(path), "--roofline")


# A timed launch has no timeline, and a launch with a timeline is not timed.
def show_roofline(path: str | None, reports: list[Report], is_silent: bool = False) -> None:
    """Draws the roofline, and prints the number of launches in it. Raises TileError if there are none."""
    from dsl.command.show import line, number
    from dsl.lab.roofline import draw_roofline

    if path is None:
        return
    count, left = draw_roofline(reports, Path(path))
    if not is_silent:
        line("roofline", f"{path}: {number(count)} launch{'es' * (count != 1)}")
        for each in left:
            line("", f"not drawn: {each}")


def check_timeline(file: str, run_all: bool, settings: dict[str, Any]) -> None:
    """Raises TileError `option` for options that exclude `--timeline`, or that have no effect without it."""
    from dsl.examples.timeline import is_trace
    from dsl.lowering.passes.marks import parse_marks
    from dsl.text.files import is_file

    if settings["timeline"] is None:
        for option, default in (("marks", MARKS), ("events", EVENTS), ("blocks", None)):
            if settings[option] != default:
                raise TileError("option", None, f"--{option} is of a timeline", "--timeline t.json")
        return
    others = {"--all": run_all, "--counters": settings["counters"], "--from": settings["ptx"] is not None}
    for option, is_given in others.items():
        if is_given:
            message = f"--timeline and {option} exclude each other: it compiles the kernels of an example with marks"
            raise TileError("option", None, message)
    parse_marks(settings["marks"])
    path = Path(settings["timeline"])
    folder = path.resolve().parent
    # A mistyped path must not destroy a .tile file. Only traces of this command are overwritten.
    if is_file(path) and not is_trace(path):
        message = f"--timeline would overwrite {path}, which is none of its traces"
        raise TileError("option", None, message, "--timeline t.json")
    if not folder.is_dir():
        raise TileError("file", None, f"{path} cannot be written: there is no folder {folder.name}")


def run(file: str, as_json: bool, options: dict[str, Any], broken: BrokenExamples | None = None) -> Iterator[Report]:
    """Runs the requested examples and yields their reports. An error of an example is raised, or added to `broken` if
    that is given."""
    from dsl.examples.profile import add_profile
    from dsl.text.program import load

    choose = choices_of(options["choose"], options["skip_pass"])
    if file.endswith(".ptx"):
        raise TileError("option", None, f"{file} is PTX text, not a .tile file", f"dsl count {file} launches it")
    # Checked before the run. Otherwise a missing package could lose the results of the run.
    check_roofline(options["roofline"], options)
    run_all, time_limit, ncu = options["run_all"], options["time_limit"], options["ncu"]
    check_timeline(file, run_all, options)
    # Only the emulator has counters, so `--counters` selects the emulator.
    place, why = choose_device(options["device"], options["counters"])
    settings = {name: value for name, value in options.items() if name in CommandRequest.__struct_fields__}
    settings |= {"file": file, "values": list(options["values"]), "device": place, "why": why, "choose": choose}
    # A roofline needs the operations of each launch. The emulator counts the operations, which takes seconds per
    # launch.
    settings["bounds"] = options["roofline"] is not None
    for request in requests_for(settings, run_all):
        try:
            report = reported(request, as_json, time_limit)
            if ncu is not None:
                add_profile(report.launches, Path(ncu))
        except Exception as error:
            # Without an index there is only this request, so its error is the command's error.
            if broken is None or request.index is None:
                raise
            broken.add(load(file).examples[request.index].name, error)
        else:
            yield report


def reported(request: CommandRequest, as_json: bool, time_limit: float) -> Report:
    """Runs a request and returns its report. If it fails on a GPU, the emulator repeats it, and its message is added to
    the error."""
    try:
        return run_request(request, as_json, time_limit)
    except ChildFailure as failure:
        # Mistakes in the input would be the same on the emulator.
        if failure.status != DEVICE_FAILED:
            raise
        text, found = repeated(request)
        raise ChildFailure(failure.text + "\n" + text, DEVICE_FAILED, failure.records + found) from None


def show_run(report: Report, settings: dict[str, Any]) -> None:
    """Prints a report, and the contracts that do not hold."""
    from dsl.command.show import show_report

    show_report(report, settings["explain"], settings["counters"])
    for verdict in report.failed:
        click.echo(verdict.rendered, err=True)


def told_reports(file: str, reports: list[Report], several: bool) -> dict[str, Any]:
    """The data that --json prints: the report of one example, or of all examples."""
    from dsl.examples.report import finite

    records = [finite(report.as_json()) for report in reports]
    if not several:
        return records[0]
    return {"file": file, "passed": all(report.passed is not False for report in reports), "examples": records}


def choose_device(name: str, counters: bool) -> tuple[str, str]:
    """Returns the device (`emulator` or `cuda:0`) and the reason. Raises LaunchError for an unknown name, and
    DeviceError if there is no such GPU."""
    from dsl.runtime import gpu_reason
    from dsl.runtime.backend import choose

    if counters:
        if name not in ("auto", "emulator"):
            raise LaunchError("device", "only the emulator has counters", "leave out --device, or --counters")
        return "emulator", "--counters"
    if name == "auto":
        reason = gpu_reason()
        return ("cuda:0", "auto: there is a GPU") if reason is None else ("emulator", f"auto: {reason}")
    ordinal = choose(name)
    return ("emulator" if ordinal is None else f"cuda:{ordinal}"), "--device"


def requests_for(settings: dict[str, Any], run_all: bool) -> list[CommandRequest]:
    """The requests for the chosen example, or for all examples. `settings` are fields of `CommandRequest`."""
    from dsl.examples.shapes import find_example
    from dsl.examples.work import COUNTED_SECONDS
    from dsl.text.program import load

    # With a timeline, no bound is computed, because counting for the bound would take more time.
    settings = {**settings, "bound_seconds": None if settings["timeline"] else COUNTED_SECONDS}
    if not run_all:
        return [CommandRequest(**settings)]
    if settings["example"] is not None:
        raise TileError("option", None, "--example and --all exclude each other")
    program = load(settings["file"])
    find_example(program, None)
    return [CommandRequest(**settings, index=index) for index in range(len(program.examples))]


def run_request(request: CommandRequest, as_json: bool, time_limit: float) -> Report:
    """Runs a request and returns its report. The emulator runs in this process. A GPU is used by a child process,
    because a fault makes the process unusable."""
    if request.device == "emulator":
        return execute(request)
    from dsl.command.child import run_in_child

    return run_in_child(request, sys.stderr if as_json else None, time_limit)


def repeated(request: CommandRequest) -> tuple[str, list[dict[str, Any]]]:
    """Runs a request again on the emulator, after it has failed on a GPU. Returns the emulator's message, and the
    faults as data."""
    from msgspec.structs import replace

    again = replace(request, device="emulator", budget=EMULATED_BUDGET, most_bytes=EMULATED_BYTES)
    # The explanation and the timeline belong to the failed run. Only faults matter here.
    again = replace(again, explain=False, timeline=None)
    try:
        report = execute(again)
    except Exception as error:
        text, status = render(error, request.file)
        # For example, the arrays are too large for the emulator.
        if status == WRONG_INPUT:
            return f"The same launch was not repeated on the emulator: {text}", []
        return f"The same launch on the emulator:\n{text}", records(error, request.file)
    found = "passes" if report.passed is not False else "gives a wrong result"
    return f"The same launch on the emulator {found}.", []
